"""What is added to the data term: the trace norm, a ridge, and a penalty on the intercepts.

With W fixed, the best intercepts solve one convex problem in one number per label
(:func:`with_best_intercept`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Objective, Point
from labelgap.solvers.linalg import Array, dot, namespace, rounding


@dataclass(frozen=True)
class Penalties:
    """``λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 Σ_j (b_j − c)²``; with κ = 0 the intercepts are free."""

    trace: float
    ridge: float = 0.0
    intercept: float = 0.0
    """κ."""
    centre: float = 0.0
    """c, the score at which an intercept costs nothing."""

    def __post_init__(self) -> None:
        for name, value in (
            ("trace_penalty", self.trace),
            ("ridge_penalty", self.ridge),
            ("intercept_penalty", self.intercept),
        ):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidParameterError(f"{name} must be a finite number, 0 or more; got {value!r}.")
        if self.trace == 0 and self.ridge == 0:
            raise InvalidParameterError(
                "trace_penalty and ridge_penalty are both 0: the fit would have no unique answer. "
                "Make one of them positive, or leave them at 'auto'."
            )

    def of(self, singular_values: Array, intercept: Array) -> float:
        """The penalty of a W with these singular values, and of b."""
        total = float(namespace(singular_values).sum(singular_values))
        square = dot(singular_values, singular_values)
        return self.trace * total + 0.5 * self.ridge * square + self.of_intercept(intercept)

    def of_intercept(self, intercept: Array) -> float:
        """``κ/2 Σ_j (b_j − c)²``."""
        if self.intercept == 0:
            return 0.0
        distance = intercept - self.centre
        return 0.5 * self.intercept * dot(distance, distance)

    def intercept_slope(self, intercept: Array) -> Array | float:
        """Its derivative in b."""
        return self.intercept * (intercept - self.centre) if self.intercept else 0.0


_MAX_STEPS = 60
# A step in a flat tail overshoots: never more than so many units of score at a time.
_LONGEST = 4.0
# Slope that may be left in the intercepts, as a fraction of the labels' gradient mass, for each unit of the
# gap that is asked for.
_INTERCEPT_FRACTION = 0.03
# The least slope that can be asked for, in units of rounding of the label's gradient mass.
_FINEST = 8


def with_best_intercept(
    objective: Objective,
    point: Point,
    penalties: Penalties,
    tol: float = 1e-12,
    total_tol: float = 0.0,
) -> Point:
    """Minimise over b by Newton's method, label by label, inside a bracket that the signs maintain.

    ``tol`` is the slope left in a label's intercept, as a fraction of the label's gradient mass. With a
    ``total_tol`` it is enough that all slopes together are no larger a fraction of all mass.
    """
    if not objective.has_intercept:
        return point
    xp = objective.xp
    b = point.factors.intercept
    tol = max(tol, _FINEST * rounding(b))
    mass: Array | None = None
    bracket: _Bracket | None = None
    for _ in range(_MAX_STEPS):
        up, down = point.signed_label_sums()
        mass = up - down if mass is None else mass
        slope, largest = up + down, mass
        if penalties.intercept:
            penalty_slope = penalties.intercept_slope(b)
            slope, largest = slope + penalty_slope, mass + abs(penalty_slope)
        steepness = abs(slope)
        # Mostly all slopes together are small enough; that is seen before anything else is computed.
        if float(xp.sum(steepness)) <= total_tol * float(xp.sum(largest)):
            break
        active = steepness > tol * largest
        if not bool(xp.any(active)):
            break
        bracket = bracket or _Bracket(xp, b)
        proposal = bracket.next(b, slope, point.label_curvature() + penalties.intercept)
        proposal = xp.where(active, proposal, b)
        if not bool(xp.any(proposal != b)):
            break
        b = proposal
        point = point.with_intercept(b)
    return point


def best_intercept_within(objective: Objective, point: Point, penalties: Penalties, gap: float) -> Point:
    """The best intercept as closely as a relative gap asks for it."""
    tol = _INTERCEPT_FRACTION * gap
    return with_best_intercept(objective, point, penalties, 0.1 * tol, tol)


class _Bracket:
    """Each label's intercept between the largest one known to be too low and the least too high."""

    def __init__(self, xp: Any, b: Array) -> None:
        self._xp = xp
        self._low, self._high = xp.full_like(b, -math.inf), xp.full_like(b, math.inf)

    def next(self, b: Array, slope: Array, curvature: Array) -> Array:
        """Newton's step from b, or the middle of the bracket where the step would leave it."""
        xp, low, high = self._xp, self._low, self._high
        self._high = high = xp.where(slope > 0, xp.minimum(high, b), high)
        self._low = low = xp.where(slope < 0, xp.maximum(low, b), low)
        curved = curvature > 0
        step = xp.where(curved, -slope / xp.where(curved, curvature, 1.0), -xp.sign(slope))
        longest = xp.full_like(step, _LONGEST)
        proposal = b + xp.minimum(xp.maximum(step, -longest), longest)
        outside = (proposal <= low) | (proposal >= high)
        if not bool(xp.any(outside)):
            return proposal
        bracketed = xp.isfinite(low) & xp.isfinite(high)
        middle = 0.5 * (xp.where(bracketed, low, b) + xp.where(bracketed, high, b))
        return xp.where(bracketed & outside, middle, proposal)
