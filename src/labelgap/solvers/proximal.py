"""The convex problem in W itself: accelerated proximal gradient with W kept in low-rank form.

Each step soft-thresholds the singular values of ``Y − τ XᵀG``, a low-rank matrix plus a product with sparse
factors, of which only the leading triplets are computed. Each new W gets its best intercept; between steps b
is extrapolated with W. Momentum is restarted when the objective rises (O'Donoghue and Candès), and the step
size follows the local curvature both ways (Scheinberg, Goldfarb and Bai).

It needs no second derivatives and no factorisation. Where features are well conditioned it reaches a gap of
1e-3 in tens of steps whatever the rank, which is why :mod:`labelgap.solvers.factored` begins with it too.
"""

from __future__ import annotations

import numpy as np

from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers.certificate import certify
from labelgap.solvers.intercept import with_best_intercept
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Callback, Fit, Recorder, finished
from labelgap.solvers.spectral import LowRankShift, balanced, leading_triplets, may_form

_CERTIFY_EVERY = 10
# Steps that gain nothing measurable before the method stops; the gap goes on closing in the meantime.
_QUIET = 30
# Slope that may be left in an intercept, as a share of the label's gradient mass, for each unit of the gap
# that is asked for.
_INTERCEPT_SHARE = 0.03


class ProximalPath:
    """The sequence of points; :meth:`advance` makes one step."""

    def __init__(
        self, objective: Objective, penalties: Penalties, start: Factors, cap: int, tol: float
    ) -> None:
        self._objective, self._penalties, self._cap = objective, penalties, cap
        self._intercept_tol = _INTERCEPT_SHARE * tol
        _, left, right = balanced(start.left, start.right)
        start = Factors(left[:, :cap], right[:, :cap], start.intercept)
        self.point = self._at_best_intercept(objective.at(start))
        self._previous = self.point
        # ⟨W_t, W_{t−1}⟩ of the last two points, and of the last candidate with the last point.
        self._last_overlap = self._overlap = _inner(self.point.factors, self.point.factors)
        self.value = self._penalised(self.point)
        self._momentum = 1.0
        self._stiffness = self._last_stiffness = _first_stiffness(objective, self.point)

    def advance(self) -> float:
        """One accelerated step; returns what the objective gained (0 when the momentum was dropped)."""
        while True:
            ratio = self._stiffness / self._last_stiffness
            momentum = 0.5 * (1 + np.sqrt(1 + 4 * self._momentum**2 * ratio))
            share = (self._momentum - 1) / momentum
            ahead = self.point if share <= 0 else self.point.beyond(self._previous, share)
            candidate = self._step_from(ahead)
            if self._majorised(ahead, candidate, share):
                break
            self._stiffness *= 1.6
        self._last_stiffness = self._stiffness
        value = self._penalised(candidate)
        if value > self.value and share > 0:
            # The momentum overshot: forget it and step from the last good point.
            self._previous, self._momentum = self.point, 1.0
            self._last_overlap = _inner(self.point.factors, self.point.factors)
            return 0.0
        gained = self.value - value
        self._previous, self.point, self.value = self.point, candidate, value
        self._last_overlap = self._overlap
        self._momentum = momentum
        self._stiffness *= 0.9
        return gained

    def _penalised(self, point: Point) -> float:
        # Steps leave balanced factors, U√Σ and V√Σ.
        values = np.einsum("jc,jc->c", point.factors.right, point.factors.right)
        return point.value + self._penalties.of(values, point.factors.intercept)

    def _at_best_intercept(self, point: Point) -> Point:
        return with_best_intercept(self._objective, point, self._penalties, tol=self._intercept_tol)

    def _step_from(self, ahead: Point) -> Point:
        """``prox_{R/M}(Y − XᵀG/M)`` with R the penalties: shrink the singular values of ``M·Y − XᵀG``."""
        objective, penalties = self._objective, self._penalties
        shape = objective.shape
        factors = ahead.factors
        shift = LowRankShift(ahead.score_gradient(), -self._stiffness * factors.left, factors.right)
        # A matrix that may be formed gives all its triplets for the price of a few.
        formed = may_form(shape, objective.n_stored)
        count = min(shape) if formed else min(self.point.factors.rank + 4, *shape)
        while True:
            triplets = leading_triplets(shift, shape, count, objective.n_stored)
            if triplets.values[-1] <= penalties.trace or len(triplets.values) >= min(shape):
                break
            count = min(2 * count, *shape)
        shrunk = (triplets.values - penalties.trace) / (self._stiffness + penalties.ridge)
        keep = np.flatnonzero(shrunk > 0)[: self._cap]
        roots = np.sqrt(shrunk[keep])
        moved = Factors(-triplets.left[:, keep] * roots, triplets.right[:, keep] * roots, factors.intercept)
        return self._at_best_intercept(objective.at(moved))

    def _majorised(self, ahead: Point, candidate: Point, share: float) -> bool:
        """Whether ``f(W) ≤ f(Y) + ⟨∇f(Y), W − Y⟩ + M/2 ‖W − Y‖²``, each with its own intercept."""
        now, before, there = self.point.factors, self._previous.factors, candidate.factors
        # Y = (1 + s) W_t − s W_{t−1}: its products come from those of the three, at half the columns.
        self._overlap = _inner(there, now)
        across = (1 + share) * self._overlap - (share * _inner(there, before) if share > 0 else 0.0)
        square_Y = (
            (1 + share) ** 2 * _inner(now, now)
            - 2 * share * (1 + share) * self._last_overlap
            + share**2 * _inner(before, before)
        )
        square = max(_inner(there, there) - 2 * across + square_Y, 0.0)
        base = ahead.value + self._penalties.of_intercept(ahead.factors.intercept)
        model = base + ahead.slope_towards(candidate) + 0.5 * self._stiffness * square
        # Rounding must not send the stiffness to infinity near the optimum.
        slack = 1e-13 * ahead.size
        return candidate.value + self._penalties.of_intercept(there.intercept) <= model + slack


def solve_proximal(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 5000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
) -> Fit:
    """Minimise to a relative duality gap of ``tol``.

    With a ``rank`` cap only that many singular values survive each step; the gap then still refers to the
    problem without the cap.
    """
    full = min(objective.shape)
    cap = full if rank is None else min(full, rank)
    # A capped fit is done when its steps die out; else only rounding stops it before the gap does.
    nothing = 1e-4 * tol if cap < full else 1e-15
    recorder = Recorder(callback)
    path = ProximalPath(objective, penalties, starting_factors(objective, warm_start), cap, tol)
    iteration = quiet = 0
    while True:
        last = iteration >= max_iter or quiet >= _QUIET
        if last or iteration % _CERTIFY_EVERY == 0:
            certificate = certify(objective, path.point, penalties)
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


def _first_stiffness(objective: Objective, point: Point) -> float:
    """Curvature of f along the leading direction of its gradient."""
    shape = objective.shape
    none = np.zeros((shape[0], 0)), np.zeros((shape[1], 0))
    top = leading_triplets(LowRankShift(point.score_gradient(), *none), shape, 1, objective.n_stored)
    return max(float(point.curvature_along(top.left[:, :1], top.right[:, :1])[0]), 1e-12)
