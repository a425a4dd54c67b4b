"""The convex problem in W itself: accelerated proximal gradient with W kept in low-rank form.

Each step soft-thresholds the singular values of ``Y − τ XᵀG``, a low-rank matrix plus a product with sparse
factors, of which only the leading triplets are computed. Each new W gets its best intercept; between steps b
is extrapolated with W. Momentum is restarted when a step goes against it, or the objective rises (O'Donoghue
and Candès), and the step size follows the local curvature both ways (Scheinberg, Goldfarb and Bai).

It needs no second derivatives and no factorisation. Where features are well conditioned it reaches a gap of
1e-3 in tens of steps whatever the rank, which is why :mod:`labelgap.solvers.factored` begins with it too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers.certificate import Certificate, certify
from labelgap.solvers.checkpoint import Checkpoint
from labelgap.solvers.intercept import with_best_intercept
from labelgap.solvers.linalg.spectral import LowRankShift, balanced, leading_triplets
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Callback, Fit, Recorder, finished
from labelgap.solvers.states import State, contiguous, factors_from, factors_state, scalars

_CERTIFY_EVERY = 10
# Steps between two places from which a run can be gone on with; a multiple of those between two looks.
_MARK_EVERY = 50
# Steps that gain nothing measurable before the method stops; the gap goes on closing in the meantime.
_QUIET = 30
# Slope that may be left in the intercepts, as a share of the labels' gradient mass, for each unit of the gap
# that is asked for; early on, for each unit of this share of the gap when last looked at, and for each unit
# of the objective that the last step gained.
_INTERCEPT_SHARE, _EARLY = 0.03, 0.1
_TINY = float(np.finfo(float).tiny)
# Directions whose curvature says how long the first step may be.
_PROBES = 8


class Iterate(NamedTuple):
    """A point on the path, with W multiplied out where that is allowed.

    What needs W then costs additions instead of matrix products.
    """

    point: Point
    W: Floats | None

    def inner(self, other: Iterate) -> float:
        """``⟨W, W_other⟩``."""
        return _inner(self.point.factors, other.point.factors)

    def beyond(self, previous: Iterate, share: float) -> Iterate:
        """At ``W + share (W − W_previous)``."""
        W = None
        if self.W is not None and previous.W is not None:
            W = self.W - previous.W
            W *= share
            W += self.W
        return Iterate(self.point.beyond(previous.point, share), W)


class ProximalPath:
    """The sequence of points; :meth:`advance` makes one step."""

    def __init__(
        self, objective: Objective, penalties: Penalties, start: Factors, cap: int, tol: float
    ) -> None:
        self._objective, self._penalties, self._cap = objective, penalties, cap
        self._tol = self._intercept_share = tol
        self._formed = objective.may_form
        _, left, right = balanced(start.left, start.right)
        first = self._iterate(Factors(left[:, :cap], right[:, :cap], start.intercept))
        self._here = first._replace(point=self._at_best_intercept(first.point))
        self._previous = self._here
        # ⟨W_t, W_{t−1}⟩ of the last two points, and of the last candidate with the last point.
        self._last_overlap = self._overlap = self._here.inner(self._here)
        self.value = self._penalised(self.point)
        self._momentum = 1.0
        self._stiffness = self._last_stiffness = 0.0
        self._dual = -np.inf

    @property
    def point(self) -> Point:
        """Where the path has come to."""
        return self._here.point

    def state(self) -> dict[str, NDArray[Any]]:
        """All that the next steps depend on."""
        return {
            **factors_state(contiguous(self._here.point.factors), "here_"),
            **factors_state(contiguous(self._previous.point.factors), "previous_"),
            **scalars(
                resting=self._previous is self._here,
                value=self.value,
                momentum=self._momentum,
                stiffness=self._stiffness,
                last_stiffness=self._last_stiffness,
                overlap=self._overlap,
                last_overlap=self._last_overlap,
                dual=self._dual,
            ),
        }

    def restart(self, state: State | None = None) -> None:
        """Go on from a state, or from its own: what it knows beside that is computed anew."""
        state = self.state() if state is None else state
        self._here = self._iterate(factors_from(state, "here_"))
        self._previous = (
            self._here if bool(state["resting"]) else self._iterate(factors_from(state, "previous_"))
        )
        self.value, self._momentum = float(state["value"]), float(state["momentum"])
        self._stiffness, self._last_stiffness = float(state["stiffness"]), float(state["last_stiffness"])
        self._overlap, self._last_overlap = float(state["overlap"]), float(state["last_overlap"])
        self._dual = float(state["dual"])

    def _iterate(self, factors: Factors) -> Iterate:
        W = factors.left @ factors.right.T if self._formed else None
        return Iterate(self._objective.at(factors, W), W)

    def certificate(self, directions: int = 1) -> Certificate:
        """How good that is. To be asked for before the first step, which goes by it."""
        certificate = certify(
            self._objective,
            self.point,
            self._penalties,
            directions=directions,
            singular_values=_singular_values(self.point),
            product=self._here.W,
        )
        # A bound on the optimum holds wherever it was found; with momentum the latest is not always the best.
        self._dual = max(self._dual, certificate.dual)
        certificate = replace(certificate, dual=self._dual)
        self._intercept_share = max(self._tol, _EARLY * certificate.relative_gap)
        if self._stiffness == 0:
            # Curvature of f along the leading directions of its gradient.
            leading = certificate.residual
            bends = self.point.curvature_along(leading.left[:, :_PROBES], leading.right[:, :_PROBES])
            self._stiffness = self._last_stiffness = max(float(bends.max()), 1e-12)
        return certificate

    def advance(self) -> float:
        """One accelerated step; returns what the objective gained (0 when the momentum was dropped)."""
        while True:
            ratio = self._stiffness / self._last_stiffness
            momentum = 0.5 * (1 + np.sqrt(1 + 4 * self._momentum**2 * ratio))
            share = (self._momentum - 1) / momentum
            ahead = self._here if share <= 0 else self._here.beyond(self._previous, share)
            candidate = self._step_from(ahead)
            needed = self._needed_stiffness(ahead, candidate, share)
            if needed <= self._stiffness:
                break
            # What this step needed, but a step far too long knows nothing of the curvature nearby.
            self._stiffness = min(max(1.1 * needed, 1.6 * self._stiffness), 4.0 * self._stiffness)
        self._last_stiffness = self._stiffness
        value = self._penalised(candidate.point)
        if value > self.value and share > 0:
            # The momentum overshot: forget it and step from the last good point.
            self._previous, self._momentum = self._here, 1.0
            self._last_overlap = self._here.inner(self._here)
            return 0.0
        gained = self.value - value
        if share > 0 and self._turned(ahead, candidate, share):
            # The momentum leads away from where the step went: the next one does without.
            momentum = 1.0
        self._previous, self._here, self.value = self._here, candidate, value
        self._last_overlap = self._overlap
        self._momentum = momentum
        self._stiffness *= 0.9
        # Intercepts as exact as the steps are long.
        self._intercept_share = max(self._tol, min(self._intercept_share, gained / max(abs(value), _TINY)))
        return gained

    def _turned(self, ahead: Iterate, candidate: Iterate, share: float) -> bool:
        """Whether ``⟨Y − W, W − W_t⟩ > 0`` for the step from Y to W: it went back on the way from W_t."""
        if ahead.W is not None and candidate.W is not None and self._here.W is not None:
            return float(np.vdot(ahead.W - candidate.W, candidate.W - self._here.W)) > 0
        now, before = self._here, self._previous
        # Y = (1 + s) W_t − s W_{t−1}, and ⟨W, W_t⟩ is known.
        along = (1 + share) * (self._overlap - now.inner(now))
        along -= share * (candidate.inner(before) - self._last_overlap)
        return along - candidate.inner(candidate) + self._overlap > 0

    def _penalised(self, point: Point) -> float:
        return point.value + self._penalties.of(_singular_values(point), point.factors.intercept)

    def _at_best_intercept(self, point: Point) -> Point:
        share = _INTERCEPT_SHARE * self._intercept_share
        return with_best_intercept(self._objective, point, self._penalties, 0.1 * share, share)

    def _step_from(self, ahead: Iterate) -> Iterate:
        """``prox_{R/M}(Y − XᵀG/M)`` with R the penalties: shrink the singular values of ``M·Y − XᵀG``."""
        objective, penalties = self._objective, self._penalties
        shape = objective.shape
        factors = ahead.point.factors
        gradient = ahead.point.score_gradient()
        shift = LowRankShift(gradient, factors.left, factors.right, ahead.W, -self._stiffness)
        # A matrix that may be formed gives all its triplets for the price of a few.
        count = min(shape) if self._formed else min(self.point.factors.rank + 4, *shape)
        while True:
            triplets = leading_triplets(shift, shape, count, objective.may_form, above=penalties.trace)
            if self._formed or triplets.values[-1] <= penalties.trace or count >= min(shape):
                break
            count = min(2 * count, *shape)
        shrunk = (triplets.values - penalties.trace) / (self._stiffness + penalties.ridge)
        kept = min(int(np.sum(shrunk > 0)), self._cap)
        roots = np.sqrt(shrunk[:kept])
        moved = Factors(-triplets.left[:, :kept] * roots, triplets.right[:, :kept] * roots, factors.intercept)
        iterate = self._iterate(moved)
        return iterate._replace(point=self._at_best_intercept(iterate.point))

    def _needed_stiffness(self, ahead: Iterate, candidate: Iterate, share: float) -> float:
        """The least M with ``f(W) ≤ f(Y) + ⟨∇f(Y), W − Y⟩ + M/2 ‖W − Y‖²``, each with its own intercept."""
        square = self._squared_distance(ahead, candidate, share)
        there = candidate.point
        base = ahead.point.value + self._penalties.of_intercept(ahead.point.factors.intercept)
        line = base + ahead.point.slope_towards(there)
        # Rounding must not send the stiffness to infinity near the optimum.
        slack = 1e-13 * ahead.point.size
        above = there.value + self._penalties.of_intercept(there.factors.intercept) - line - slack
        return 2 * above / square if above > 0 and square > 0 else 0.0

    def _squared_distance(self, ahead: Iterate, candidate: Iterate, share: float) -> float:
        """``‖W − Y‖²``."""
        if ahead.W is not None and candidate.W is not None:
            difference = candidate.W - ahead.W
            return float(np.vdot(difference, difference))
        now, before = self._here, self._previous
        # Y = (1 + s) W_t − s W_{t−1}: its products come from those of the three, at half the columns.
        self._overlap = candidate.inner(now)
        across = (1 + share) * self._overlap - (share * candidate.inner(before) if share > 0 else 0.0)
        square_Y = (
            (1 + share) ** 2 * now.inner(now)
            - 2 * share * (1 + share) * self._last_overlap
            + share**2 * before.inner(before)
        )
        return max(candidate.inner(candidate) - 2 * across + square_Y, 0.0)


def solve_proximal(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 5000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fit:
    """Minimise to a relative duality gap of ``tol``.

    With a ``rank`` cap only that many singular values survive each step; the gap then still refers to the
    problem without the cap.
    """
    full = min(objective.shape)
    cap = full if rank is None else min(full, rank)
    # A capped fit is done when its steps die out; else only rounding stops it before the gap does.
    nothing = 1e-4 * tol if cap < full else 1e-15
    checkpoint = checkpoint or Checkpoint()
    kept = checkpoint.last()
    path = ProximalPath(objective, penalties, starting_factors(objective, warm_start), cap, tol)
    recorder = Recorder(callback, kept)
    iteration = quiet = 0
    if kept is not None:
        path.restart(kept)
        iteration, quiet = int(kept["iteration"]), int(kept["quiet"])
    while True:
        last = iteration >= max_iter or quiet >= _QUIET or checkpoint.stopping()
        if last or iteration % _CERTIFY_EVERY == 0:
            if iteration % _MARK_EVERY == 0 and iteration > 0:
                path.restart()
                numbers = scalars(iteration=iteration, quiet=quiet)
                checkpoint.snapshot({**path.state(), **numbers, "history": recorder.as_state()})
            certificate = path.certificate(_PROBES)
            recorder.report(iteration, certificate, path.point.factors.rank)
            if last or certificate.relative_gap <= tol:
                break
        gained = path.advance()
        iteration += 1
        quiet = quiet + 1 if gained <= nothing * certificate.scale else 0
    reached = certificate.relative_gap <= tol
    capped = not reached and path.point.factors.rank >= cap and cap < full
    return finished(path.point.factors, certificate, iteration, recorder, reached, capped, quiet >= _QUIET)


def starting_factors(objective: Objective, warm_start: Factors | None) -> Factors:
    """The warm start, or W = 0 with its best intercept."""
    if warm_start is not None:
        return warm_start
    return Factors.zero(objective.shape, objective.starting_intercept())


def _inner(a: Factors, b: Factors) -> float:
    """``⟨W_a, W_b⟩``; of a W with itself, the sum of its squared singular values (factors are balanced)."""
    if a is b:
        return float(np.sum(np.einsum("jc,jc->c", a.right, a.right) ** 2))
    return float(np.sum((a.left.T @ b.left) * (a.right.T @ b.right)))


def _singular_values(point: Point) -> Floats:
    """Steps leave balanced factors, U√Σ and V√Σ."""
    values: Floats = np.einsum("jc,jc->c", point.factors.right, point.factors.right)
    return values
