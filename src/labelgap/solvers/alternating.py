"""Alternating minimisation at a fixed rank, the method of LEML (Yu et al., 2014) and of the paper.

With ``W = A Bᵀ`` of k columns each,

    F(A, B, b) = f(XABᵀ + 1bᵀ) + λ/2 (‖A‖² + ‖B‖²) + λ₂/2 ‖ABᵀ‖²

is convex in (B, b) for a fixed A, and in A for a fixed (B, b). A sweep lowers the two in this order. Where
every row and every label has entries of its own, it is one Newton step for each of them, all at once;
elsewhere it is two convex problems solved by conjugate gradients. Users and items without features have a
small problem each, so a sweep costs about as much as two passes over the entries, and a few sweeps are enough
for a model that predicts well: the fastest way to one at a given rank.

The last digits, and with them the duality gap, come slowly: a sweep never sees how A and B would move
together. The same F is minimised over all variables at once, with a rank that finds itself, by
:mod:`labelgap.solvers.factored`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sklearn.utils import check_random_state

from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Factors, Objective, Point, Rowwise
from labelgap.solvers import newton
from labelgap.solvers.certificate import Certificate, Penalties, Wanted, certify
from labelgap.solvers.linalg import (
    Array,
    contiguous,
    namespace,
    product_values,
    smallest,
    standard_normal,
    thin_qr,
    zeros_like,
)
from labelgap.solvers.loop import (
    Callback,
    Checkpoint,
    Fit,
    Method,
    State,
    balanced_factors,
    factors_from,
    factors_state,
    run,
    scalars,
    starting_factors,
)
from labelgap.solvers.newton import BlockState, FactoredState
from labelgap.solvers.spectral import LowRankShift, SingularTriplets, leading_triplets
from labelgap.solvers.tuning import TUNED

_CERTIFY_EVERY = 5
# A sweep that gains less than this fraction of the tolerance is the last one.
_NOTHING = 0.01
# While sweeps gain this fraction of the objective, the gap is far from closed and need not be computed.
_FAR = 1e-2

# Fraction of a block's gradient that the conjugate gradients leave, and that a half-sweep may leave.
_FORCING, _HALF_SWEEP = 0.1, 0.2
_MAX_NEWTON_STEPS = 10
# The trust region's first radius in preconditioned gradient steps: a convex problem hardly needs one.
_WIDE_RADIUS = 1e6
# Over-relaxation, which alternation gains from: how much longer than to the minimum a step is.
_RELAXATION = 1.4
# The least relative gap that single precision is good for.
_SINGLE = 1e-4

# How accurate the first of the leading directions is that the columns begin with, and how long columns are at
# least whose singular value is below λ: the surplus of theirs as a fraction of the largest.
_ROUGH, _LEAST = 0.1, 0.1

# The blocks of (A, B, b) that a sweep moves.
FEATURES, LABELS = (0,), (1, 2)


class AlternatingMethod(Method):
    """Sweeps at a fixed rank, with a certificate now and then."""

    def __init__(self, *problem: Any, random_state: Any, **options: Any) -> None:
        super().__init__(*problem, **options)
        self._random_state = random_state
        self._steps: Rowwise | None = None
        self._sweeps: Sweeps | None = None
        self._factors: Factors | None = None
        self._died_out = self._due = False

    def begin(self, start: Factors | None, kept: State | None) -> None:
        objective, penalties = self._objective, self._penalties
        self._steps = rowwise_steps(objective, self._tol)
        if kept is not None:
            self._factors = self._start = starting_factors(objective, factors_from(kept))
            self.iteration, self._scale, self._due = int(kept["rounds"]), float(kept["scale"]), True
            return
        # The same W without the new columns, for the first certificate. It may be good enough already.
        self._factors = balanced_factors(starting_factors(objective, start), self._cap)
        point = objective.at(self._factors)
        self._scale = max(abs(point.value), point.size)
        self._start = with_leading_columns(objective, penalties, point, self._cap, self._random_state)
        self._due = start is not None or self._start.rank == 0

    def snapshot(self) -> Mapping[str, Array] | None:
        if not self._due or self._died_out or self._sweeps is None:
            return None
        self._sweeps.restart(self.factors)
        return {**factors_state(self.factors), **scalars(rounds=self.iteration, scale=self._scale)}

    @property
    def factors(self) -> Factors:
        if self._factors is None:
            assert self._sweeps is not None
            self._factors = self._sweeps.factors()
        return self._factors

    @property
    def due(self) -> bool:
        return self._due

    def certify(self) -> Certificate:
        # A run that was told how many sweeps to make need not know how far it came, to the digit; the last
        # certificate of one that died out says so.
        wanted: Wanted = "a bound" if self.exhausted and not self._due else "a decision"
        point = self._objective.at(self.factors)
        wanted = "the gap" if self._died_out else wanted
        found = certify(self._objective, point, self._penalties, tol=self._tol, wanted=wanted)
        if self.iteration:
            self._scale = found.scale
        return found

    def step(self, stopping: Callable[[], bool]) -> None:
        if self._sweeps is None:
            self._sweeps = make_sweeps(self._objective, self._penalties, self._start, self._steps)
            del self._start
        gained = self._sweeps.sweep()
        self.iteration += 1
        self._died_out = gained <= _NOTHING * self._tol * self._scale
        near = self.iteration % _CERTIFY_EVERY == 0 and gained <= _FAR * self._scale
        self._due = near or self._died_out
        self._factors = None

    def close(self) -> None:
        self._steps = self._sweeps = None

    @property
    def stalled(self) -> bool:
        return self._died_out

    @property
    def settled(self) -> bool:
        return self._died_out

    @property
    def capped(self) -> bool:
        values = product_values(self.factors.left, self.factors.right, cutoff=TUNED.dead)
        return int(values.shape[0]) == self._cap < self._full


def solve_alternating(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
    random_state: Any = 0,
) -> Fit:
    """Alternate between (B, b) and A until the gap is ``tol``, or a sweep gains less than a hundredth of it.

    ``rank`` is the number of columns and must be given; ``max_iter`` bounds the sweeps. Columns that the warm
    start leaves to fill begin with the leading directions of the gradient, found from random ones. That the
    steps died out is what ``converged`` says here. How far the optimum over all W can be is for the duality
    gap to say; a gap within ``tol`` ends the run too.
    """
    if rank is None:
        raise InvalidParameterError(
            "Alternating minimisation needs a fixed rank: give rank=, the number of columns of the factors. "
            "The solvers 'factored' and 'proximal' find the rank by themselves."
        )
    method = AlternatingMethod(
        objective, penalties, rank=rank, tol=tol, max_iter=max_iter, random_state=random_state
    )
    return run(method, tol=tol, warm_start=warm_start, callback=callback, checkpoint=checkpoint)


# -- sweeps ----------------------------------------------------------------------------------------------


class Sweeps(Protocol):
    """Sweeps from a place to the next, each at a lower objective."""

    def sweep(self) -> float:
        """One sweep; returns what it gained, or about as much."""
        ...

    def factors(self) -> Factors:
        """Where the sweeps have come to, balanced."""
        ...

    def restart(self, start: Factors) -> None:
        """Continue from ``start``, as a run that begins there would."""
        ...


def rowwise_steps(objective: Objective, tol: float) -> Rowwise | None:
    """Steps row by row, as precise as the tolerance needs; None where rows share parameters."""
    return objective.rowwise(objective.xp.float32 if tol >= _SINGLE else objective.dtype)


def make_sweeps(objective: Objective, penalties: Penalties, start: Factors, steps: Rowwise | None) -> Sweeps:
    """The fastest sweeps that the objective allows for, with its steps row by row where it has them."""
    if steps is None:
        return BlockSweeps(objective, penalties, start)
    return RowSweeps(steps, penalties, start)


class RowSweeps:
    """Sweeps of Newton steps row by row."""

    _at: Any
    _relaxation: float

    def __init__(self, steps: Rowwise, penalties: Penalties, start: Factors) -> None:
        self._steps, self._penalties = steps, penalties
        self.restart(start)

    def sweep(self) -> float:
        gained = self._steps.step_labels(self._at, self._penalties, self._relaxation)
        gained += self._steps.step_rows(self._at, self._penalties, self._relaxation)
        self._at.balance()
        self._relaxation = _RELAXATION
        return gained

    def factors(self) -> Factors:
        factors: Factors = self._at.factors()
        return factors

    def restart(self, start: Factors) -> None:
        self._at = self._steps.start(start)
        # Columns that begin with B = 0 have nothing to relax. In those that have died out A is 0, too.
        any_of = namespace(start.right).any
        new = any_of(start.left != 0, axis=0) & ~any_of(start.right != 0, axis=0)
        self._relaxation = 1.0 if start.rank == 0 or bool(any_of(new)) else _RELAXATION


class BlockSweeps:
    """Sweeps of two convex problems, each by Newton's method with conjugate gradients."""

    def __init__(self, objective: Objective, penalties: Penalties, start: Factors) -> None:
        self._objective, self._penalties, self._factors = objective, penalties, start

    def sweep(self) -> float:
        problem = self._objective, self._penalties
        before = FactoredState(*problem, self._objective.at(self._factors))
        point = minimise_block(*problem, before.point, LABELS).point
        after = minimise_block(*problem, point, FEATURES)
        self._factors = balanced_factors(after.x, self._factors.rank)
        return before.value - after.value

    def factors(self) -> Factors:
        return self._factors

    def restart(self, start: Factors) -> None:
        self._factors = start


def minimise_block(
    objective: Objective,
    penalties: Penalties,
    point: Point,
    block: tuple[int, ...],
    *,
    forcing: float = _FORCING,
    left: float = _HALF_SWEEP,
) -> BlockState:
    """Half a sweep: minimise over a block of (A, B, b) until a fraction ``left`` of its gradient is left.

    ``forcing`` is the fraction that the conjugate gradients of one Newton step leave. Where F is quadratic in
    the block, one step leaves no more than that.
    """
    state = BlockState(objective, penalties, point, block)
    first = state.slope()
    radius = _WIDE_RADIUS * first
    for _ in range(_MAX_NEWTON_STEPS):
        report = newton.minimise(
            state, enough=math.inf, max_steps=_MAX_NEWTON_STEPS, radius=radius, forcing=forcing
        )
        state, radius = report.state, report.radius
        if report.decrease <= 0 or state.slope() <= left * first:
            break
    return state


# -- the first columns -----------------------------------------------------------------------------------


def with_leading_columns(
    objective: Objective, penalties: Penalties, point: Point, cap: int, random_state: Any
) -> Factors:
    """Fill A up to ``cap`` columns, with zeros in B: the same W, with capacity to grow.

    The new columns are about the leading left singular vectors of the gradient outside of the spans of A and
    B. Each is as long as the root of the singular value ``(σ - λ)/c`` that a proximal step would give it,
    where c is the curvature along the first of them: then the sweep's first step in B balances the two
    factors. A longer column would be shrunk less than the trace norm shrinks it, and columns that are mostly
    noise would come in too strong. Where no direction lowers the objective from W = 0, no columns are needed.
    """
    xp, factors = objective.xp, point.factors
    missing = cap - factors.rank
    if missing <= 0:
        return factors
    # Within the spans the gradient balances the penalties, and is no smaller than they are.
    spans = thin_qr(factors.left)[0], thin_qr(factors.right)[0]
    gradient = LowRankShift(point.score_gradient(), *factors[:2], scale=0.0, outside=spans)
    rng = check_random_state(random_state)
    U, V = (standard_normal(rng, (size, missing), factors.left) for size in objective.shape)
    start = SingularTriplets(U, xp.zeros(0), V, 0.0)
    found = leading_triplets(gradient, objective.shape, missing, False, accuracy=_ROUGH, start=start)
    if found.top <= penalties.trace and not factors.rank:
        return factors
    along = (contiguous(part[:, :1]) for part in (found.left, found.right))
    curvature = float(point.curvature_along(*along)[0]) + penalties.ridge
    # A column of 0 would stay so, and a fit without a trace penalty needs all.
    surplus = xp.clip(found.values - penalties.trace, _LEAST * float(found.values[0]), None)
    left = xp.sqrt(surplus / max(curvature, smallest(factors.left))) * found.left
    right = xp.concat([factors.right, zeros_like(found.right)], axis=1)
    return Factors(xp.concat([factors.left, left], axis=1), right, factors.intercept)
