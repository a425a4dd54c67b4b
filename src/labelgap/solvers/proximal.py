"""The convex problem in W itself: accelerated proximal gradient with W kept in low-rank form.

Each step soft-thresholds the singular values of ``Y − τ XᵀG``, a low-rank matrix plus a product with sparse
factors, of which only the leading triplets are computed, from those of the step before. Each new W gets its
best intercept; between steps b is extrapolated with W. Momentum is restarted when a step goes against it, or
the objective rises (O'Donoghue and Candès), and the step size follows the local curvature both ways
(Scheinberg, Goldfarb and Bai).

It needs no second derivatives and no factorisation. Where features are well conditioned it reaches a gap of
1e-3 in tens of steps whatever the rank, which is why :mod:`labelgap.solvers.factored` begins with it too.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers.certificate import Certificate, Penalties, best_intercept_within, certify
from labelgap.solvers.linalg import Array, column_squares, dot, rounding, thin_qr
from labelgap.solvers.loop import (
    State,
    balanced_factors,
    contiguous_factors,
    factors_from,
    factors_state,
    scalars,
    starting_factors,
)
from labelgap.solvers.spectral import LowRankShift, SingularTriplets, following_triplets, leading_triplets
from labelgap.solvers.tuning import TUNED, Lengths

# The least curvature that is believed.
_LEAST = 1e-12
# What rounding may add to the rise of the data term in a step: a fraction of it, and in units of rounding.
_SLACK, _SLACK_ROUNDING = 1e-13, 16


class Iterate(NamedTuple):
    """A point on the path, with W multiplied out where that is allowed.

    What needs W then costs additions instead of matrix products.
    """

    point: Point
    W: Array | None

    def towards(self, first: Iterate, second: Iterate) -> float:
        """``⟨W_1 − W, W − W_2⟩``."""
        if self.W is not None:
            return dot(first.W - self.W, self.W - second.W)
        one, own, two = (iterate.point.factors for iterate in (first, self, second))
        return _inner(one, own) - _inner(one, two) - _inner(own, own) + _inner(own, two)

    def beyond(self, previous: Iterate, fraction: float) -> Iterate:
        """At ``W + fraction (W − W_previous)``."""
        W = None
        if self.W is not None and previous.W is not None:
            W = self.W - previous.W
            W *= fraction
            W += self.W
        return Iterate(self.point.beyond(previous.point, fraction), W)


class ProximalPath:
    """The sequence of points; :meth:`advance` makes one step."""

    def __init__(
        self,
        objective: Objective,
        penalties: Penalties,
        start: Factors,
        cap: int,
        tol: float,
        lengths: Lengths = TUNED.lengths,
    ) -> None:
        self._objective, self._penalties, self._lengths = objective, penalties, lengths
        self._tol, self._intercept_tol = tol, min(tol, TUNED.worst_intercept)
        self._formed, self._rounding = objective.may_form, rounding(start.left)
        first = self._iterate(balanced_factors(start, cap))
        self._here = first._replace(point=self._at_best_intercept(first.point))
        self._previous = self._here
        self.value = self._penalised(self.point)
        self._momentum = 1.0
        self._stiffness = self._last_stiffness = 0.0
        # Right singular vectors of the last step, among which those of the next one nearly are.
        self._vectors: Array | None = None
        self.most = cap
        """The rank that a step may lead to."""

    @property
    def point(self) -> Point:
        """Where the path has come to."""
        return self._here.point

    def state(self) -> dict[str, Array]:
        """All that the next steps depend on."""
        return {
            **factors_state(contiguous_factors(self._here.point.factors), "here_"),
            **factors_state(contiguous_factors(self._previous.point.factors), "previous_"),
            **scalars(
                resting=self._previous is self._here,
                value=self.value,
                momentum=self._momentum,
                stiffness=self._stiffness,
                last_stiffness=self._last_stiffness,
            ),
        }

    def leave(self) -> Point:
        """The point, which alone is kept from here on: scores take as much memory as the data."""
        point = self.point
        del self._here, self._previous
        return point

    def jump(self, factors: Factors) -> None:
        """Continue from another place, at rest, with steps of the same length."""
        self._here = self._previous = self._iterate(contiguous_factors(factors))
        self.value = self._penalised(self.point)
        self._momentum, self._vectors = 1.0, None

    def seek(self, count: int, known: SingularTriplets) -> None:
        """Let the next step know of about so many directions beyond those of W, and of the ``known`` ones.

        Where many values are close together, random columns alone would miss the largest.
        """
        xp, (left, right, _) = self._objective.xp, self.point.factors
        outside = thin_qr(left)[0], thin_qr(right)[0]
        shift = LowRankShift(self.point.score_gradient(), left, right, scale=0.0, outside=outside)
        shape, accuracy = self._objective.shape, TUNED.seek_accuracy
        # Not from the known ones: the others would be asked for no accuracy.
        found = leading_triplets(shift, shape, count, may_form=False, accuracy=accuracy)
        self._vectors = xp.concat([right, known.right, found.right], axis=1)

    def restart(self) -> dict[str, Array]:
        """Continue from its own state, which is returned: what it knows beside that is computed anew."""
        state = self.state()
        here, previous = (
            Factors(*(state[f"{name}{field}"] for field in Factors._fields))
            for name in ("here_", "previous_")
        )
        self._here, self._vectors = self._iterate(here), None
        self._previous = self._here if state["resting"] else self._iterate(previous)
        return state

    def restore(self, state: State) -> None:
        """Continue from the state of another path."""
        objective = self._objective
        self._here = self._iterate(starting_factors(objective, factors_from(state, "here_")))
        self._previous = self._here
        if not state["resting"]:
            self._previous = self._iterate(starting_factors(objective, factors_from(state, "previous_")))
        self.value, self._momentum = float(state["value"]), float(state["momentum"])
        self._stiffness, self._last_stiffness = float(state["stiffness"]), float(state["last_stiffness"])

    def _iterate(self, factors: Factors) -> Iterate:
        W = factors.left @ factors.right.T if self._formed else None
        return Iterate(self._objective.at(factors, W), W)

    def certificate(self, directions: int = TUNED.probes) -> Certificate:
        """How good that is."""
        certificate = certify(
            self._objective,
            self.point,
            self._penalties,
            tol=self._tol,
            directions=directions,
            singular_values=_singular_values(self.point),
            product=self._here.W,
        )
        self._intercept_tol = self._no_worse(TUNED.early * certificate.relative_gap)
        if self._vectors is None:
            known = self.point.factors.right, certificate.residual.right
            self._vectors = self._objective.xp.concat(known, axis=1)
        if self._stiffness == 0:
            self._begin_with(certificate.residual.left, certificate.residual.right)
        return certificate

    def _no_worse(self, intercept_tol: float) -> float:
        return max(min(self._tol, TUNED.worst_intercept), intercept_tol)

    def _begin_with(self, U: Array, V: Array) -> None:
        """Let the first step go by the curvature of f along the first of these directions."""
        curvature = float(
            self._objective.xp.max(self.point.curvature_along(U[:, : TUNED.probes], V[:, : TUNED.probes]))
        )
        if self.point.factors.rank:
            curvature *= TUNED.allowance
        self._stiffness = self._last_stiffness = max(curvature, _LEAST)

    def advance(self) -> float:
        """One accelerated step; returns what the objective gained (0 when the momentum was dropped)."""
        if self._stiffness == 0:
            left, right = self.point.factors.left, self.point.factors.right
            xp = self._objective.xp
            self._begin_with(left / xp.sqrt(column_squares(left)), right / xp.sqrt(column_squares(right)))
        while True:
            ratio = self._stiffness / self._last_stiffness
            momentum = 0.5 * (1 + math.sqrt(1 + 4 * self._momentum**2 * ratio))
            ahead_by = (self._momentum - 1) / momentum
            ahead = self._here if ahead_by <= 0 else self._here.beyond(self._previous, ahead_by)
            candidate = self._step_from(ahead)
            value = self._penalised(candidate.point)
            needed, certain = self._needed_stiffness(ahead, candidate)
            if needed <= (self._lengths.too_long if value < self.value else 1.0) * self._stiffness:
                break
            # What this step needed, but a step far too long knows nothing of the curvature nearby.
            self._stiffness = min(max(1.1 * needed, 1.6 * self._stiffness), 4.0 * self._stiffness)
            if not certain:
                # Too close to rounding to insist: the next step will go by it.
                break
        self._last_stiffness = self._stiffness
        if value > self.value and ahead_by > 0:
            # The momentum overshot: forget it and step from the last good point.
            self._previous, self._momentum = self._here, 1.0
            return 0.0
        gained = self.value - value
        # ⟨Y − W, W − W_t⟩ > 0: it went back on the way from W_t.
        if ahead_by > 0 and candidate.towards(ahead, self._here) > 0:
            # The momentum leads away from where the step went: the next one does without.
            momentum = 1.0
        self._previous, self._here, self.value = self._here, candidate, value
        self._momentum = momentum
        if needed > self._stiffness:
            # What is not certain is rounding, and has been allowed for above.
            self._stiffness = 1.1 * needed if certain else self._stiffness
        elif needed <= self._lengths.could_be_longer * self._stiffness:
            self._stiffness *= self._lengths.longer
        # Intercepts as exact as the steps are long.
        relative = gained / max(abs(value), sys.float_info.min)
        self._intercept_tol = self._no_worse(min(self._intercept_tol, relative))
        return gained

    def _penalised(self, point: Point) -> float:
        return point.value + self._penalties.of(_singular_values(point), point.factors.intercept)

    def _at_best_intercept(self, point: Point) -> Point:
        return best_intercept_within(self._objective, point, self._penalties, self._intercept_tol)

    def _step_from(self, ahead: Iterate) -> Iterate:
        """``prox_{R/M}(Y − XᵀG/M)`` with R the penalties: shrink the singular values of ``M·Y − XᵀG``."""
        objective, penalties, factors = self._objective, self._penalties, ahead.point.factors
        triplets = self._triplets(ahead)
        shrunk = (triplets.values - penalties.trace) / (self._stiffness + penalties.ridge)
        kept = min(int(objective.xp.count_nonzero(shrunk > 0)), self.most)
        roots = objective.xp.sqrt(shrunk[:kept])
        moved = Factors(-triplets.left[:, :kept] * roots, triplets.right[:, :kept] * roots, factors.intercept)
        iterate = self._iterate(moved)
        return iterate._replace(point=self._at_best_intercept(iterate.point))

    def _triplets(self, ahead: Iterate) -> SingularTriplets:
        """The singular triplets of ``XᵀG − M·Y`` above λ, and sometimes more."""
        factors = ahead.point.factors
        shift = LowRankShift(
            ahead.point.score_gradient(), factors.left, factors.right, ahead.W, -self._stiffness
        )
        found = following_triplets(
            shift,
            self._objective.shape,
            factors.right if self._vectors is None else self._vectors,
            above=self._penalties.trace,
            may_form=self._formed,
            most=self.most,
        )
        self._vectors = found.right
        return found

    def _needed_stiffness(self, ahead: Iterate, candidate: Iterate) -> tuple[float, bool]:
        """The least M with ``f(W) ≤ f(Y) + ⟨∇f(Y), W − Y⟩ + M/2 ‖W − Y‖²``, each with its own intercept.

        And whether that is certain, which values that differ by rounding cannot make it.
        """
        square = -candidate.towards(ahead, ahead)
        if square <= 0:
            return 0.0, True
        here, there = ahead.point, candidate.point
        slope = here.slope_towards(there)
        line = here.value + self._penalties.of_intercept(here.factors.intercept) + slope
        above = there.value + self._penalties.of_intercept(there.factors.intercept) - line
        slack = max(_SLACK, _SLACK_ROUNDING * self._rounding) * here.size
        certain = above > slack
        if not certain:
            # The slopes have more digits: f rises above its tangent by about half of what the slope changes.
            above = min(-0.5 * (slope + there.slope_towards(here)), slack)
        return 2 * max(above, 0.0) / square, certain


def _inner(a: Factors, b: Factors) -> float:
    """``⟨W_a, W_b⟩``."""
    return dot(a.left.T @ b.left, a.right.T @ b.right)


def _singular_values(point: Point) -> Array:
    """Steps leave balanced factors, U√Σ and V√Σ."""
    return column_squares(point.factors.right)
