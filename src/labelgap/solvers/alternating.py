"""Alternating minimisation at a fixed rank, the method of LEML (Yu et al., 2014) and of the paper.

With ``W = A Bᵀ`` of k columns each,

    F(A, B, b) = f(XABᵀ + 1bᵀ) + λ/2 (‖A‖² + ‖B‖²) + λ₂/2 ‖ABᵀ‖²

is convex in (B, b) for a fixed A, and in A for a fixed (B, b). The two are minimised by turns, each by
Newton's method with conjugate gradients. For the squared loss that is one linear system a turn.

It is here as a rival and a reference. It gets close in a few rounds. The last digits, and with them the
duality gap, come slowly: a turn never sees how A and B would move together. The same F is minimised over all
variables at once, with a rank that finds itself, by :mod:`labelgap.solvers.factored`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers import newton
from labelgap.solvers.certificate import Certificate, certify
from labelgap.solvers.factored import FactoredState
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.proximal import starting_factors
from labelgap.solvers.result import Callback, Fit, Recorder, finished
from labelgap.solvers.spectral import balanced
from labelgap.solvers.states import factors_from, factors_state, scalars
from labelgap.solvers.trail import Trail

# Share of a block's gradient that the conjugate gradients leave, and that a turn may leave.
_FORCING, _TURN = 0.1, 0.2
_MAX_NEWTON_STEPS = 10
# The trust region's first radius in preconditioned gradient steps: a convex problem hardly needs one.
_FAR = 1e6
_CERTIFY_EVERY = 5
# A round that gains less than this share of the tolerance ends the run.
_NOTHING = 0.01
# Directions of W below this share of the largest are dead.
_DEAD = 1e-6


class RememberedState:
    """A :class:`FactoredState` whose gradient, needed by both turns, is computed once."""

    def __init__(self, state: FactoredState) -> None:
        self.state = state

    @cached_property
    def gradient(self) -> Floats:
        return self.state.gradient()

    @cached_property
    def preconditioner(self) -> Floats:
        return self.state.preconditioner()


class BlockState:
    """F as a function of one block of its variables, the others held."""

    def __init__(self, whole: RememberedState, block: slice) -> None:
        self.whole, self._block = whole, block
        self.x, self.value = whole.state.x[block], whole.state.value

    def gradient(self) -> Floats:
        return self.whole.gradient[self._block]

    def preconditioner(self) -> Floats:
        return self.whole.preconditioner[self._block]

    def hessian_product(self, direction: Floats) -> Floats:
        whole = np.zeros_like(self.whole.state.x)
        whole[self._block] = direction
        return self.whole.state.hessian_product(whole)[self._block]

    def moved_to(self, x: Floats) -> BlockState:
        whole = self.whole.state.x.copy()
        whole[self._block] = x
        return BlockState(RememberedState(self.whole.state.moved_to(whole)), self._block)


def minimise_block(
    whole: RememberedState, block: slice, *, forcing: float = _FORCING, share: float = _TURN
) -> RememberedState:
    """One turn: minimise over a block of the flat variables until ``share`` of its gradient is left.

    ``forcing`` is the share that the conjugate gradients of one Newton step leave. Where F is quadratic in
    the block that is all there is left, and one step ends the turn.
    """
    state = BlockState(whole, block)
    diagonal = state.preconditioner()

    def slope(at: BlockState) -> float:
        gradient = at.gradient()
        return float(np.sqrt(gradient @ (gradient / diagonal)))

    first = slope(state)
    radius = _FAR * first
    for _ in range(_MAX_NEWTON_STEPS):
        report = newton.minimise(
            state,
            state.moved_to,
            enough=np.inf,
            max_steps=_MAX_NEWTON_STEPS,
            radius=radius,
            forcing=forcing,
        )
        state, radius = report.state, report.radius
        if report.decrease <= 0 or slope(state) <= share * first:
            break
    return state.whole


def solve_alternating(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    trail: Trail | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> Fit:
    """Alternate between (B, b) and A until a round gains less than a hundredth of ``tol``.

    ``rank`` is the number of columns and must be given; ``max_iter`` bounds the rounds. A is drawn at random
    where the warm start leaves columns to fill. That the steps died out is what ``converged`` says here. How
    far the optimum over all W can be is for the duality gap to say; a gap within ``tol`` ends the run too.
    """
    if rank is None:
        raise InvalidParameterError(
            "Alternating minimisation needs a fixed rank: give rank=, the number of columns of the factors. "
            "The solvers 'factored' and 'proximal' find the rank by themselves."
        )
    full = min(objective.shape)
    cap = min(full, rank)
    trail = trail or Trail()
    kept = trail.last()
    recorder = Recorder(callback, kept)
    rounds, died_out = 0, False
    if kept is None:
        point = objective.at(_balanced_factors(starting_factors(objective, warm_start), cap))
    else:
        point, rounds = objective.at(factors_from(kept)), int(kept["rounds"])
    certificate = certify(objective, point, penalties)
    if kept is None:
        recorder.report(0, certificate, point.factors.rank)
        point = _with_random_columns(objective, penalties, point, certificate, cap, random_state)
    while not (certificate.relative_gap <= tol or died_out or rounds >= max_iter or trail.stopping()):
        state = FactoredState(objective, penalties, point)
        after = _round(state)
        point = objective.at(_balanced_factors(after.point.factors, cap))
        rounds += 1
        died_out = state.value - after.value <= _NOTHING * tol * certificate.scale
        if died_out or rounds % _CERTIFY_EVERY == 0 or rounds == max_iter:
            certificate = certify(objective, point, penalties)
            recorder.report(rounds, certificate, point.factors.rank)
            if not died_out:
                history = {"history": recorder.as_state(), **scalars(rounds=rounds)}
                trail.mark({**factors_state(point.factors), **history})
    if recorder.history[-1].iteration != rounds:
        # Stopped between two looks.
        certificate = certify(objective, point, penalties)
        recorder.report(rounds, certificate, point.factors.rank)
    reached = certificate.relative_gap <= tol
    values = balanced(point.factors.left, point.factors.right, cutoff=_DEAD)[0]
    capped = not reached and len(values) == cap < full
    return finished(point.factors, certificate, rounds, recorder, reached or died_out, capped, died_out)


def _round(state: FactoredState) -> FactoredState:
    """(B, b) given A, then A given (B, b)."""
    split = state.point.factors.left.size
    whole = minimise_block(RememberedState(state), slice(split, None))
    return minimise_block(whole, slice(0, split)).state


def _balanced_factors(factors: Factors, cap: int) -> Factors:
    """The same W with ``½(‖A‖² + ‖B‖²) = ‖W‖_*``, its smallest value; F can only fall."""
    _, left, right = balanced(factors.left, factors.right)
    return Factors(
        np.ascontiguousarray(left[:, :cap]), np.ascontiguousarray(right[:, :cap]), factors.intercept
    )


def _with_random_columns(
    objective: Objective,
    penalties: Penalties,
    point: Point,
    certificate: Certificate,
    cap: int,
    random_state: int | np.random.RandomState | None,
) -> Point:
    """Fill A up to ``cap`` columns at random, with zeros in B: the same W, with room to grow.

    A column is as long as the root of the singular value that the leading direction of the gradient would get
    from a Newton step. Where no direction leads down, W needs no more columns.
    """
    factors, residual = point.factors, certificate.residual
    missing = cap - factors.rank
    surplus = float(residual.values[0]) - penalties.trace
    if missing <= 0 or surplus <= 0:
        return point
    bend = float(point.curvature_along(residual.left[:, :1], residual.right[:, :1])[0]) + penalties.ridge
    d, n_labels = objective.shape
    length = np.sqrt(surplus / max(bend, np.finfo(float).tiny))
    columns = check_random_state(random_state).standard_normal((d, missing)) * (length / np.sqrt(d))
    left = np.hstack([factors.left, columns])
    right = np.hstack([factors.right, np.zeros((n_labels, missing))])
    return objective.at(Factors(left, right, factors.intercept))
