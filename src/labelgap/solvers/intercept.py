"""The best intercept for a given W: one convex problem in one number per label."""

from __future__ import annotations

import math

from labelgap.objective.protocol import Objective, Point
from labelgap.solvers.linalg.arrays import Array, rounding
from labelgap.solvers.penalties import Penalties

_MAX_STEPS = 60
# A step in a flat tail overshoots: never more than so many units of score at a time.
_LONGEST = 4.0
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
    low, high = xp.full_like(b, -math.inf), xp.full_like(b, math.inf)
    for _ in range(_MAX_STEPS):
        up, down = point.signed_label_sums()
        mass = up - down if mass is None else mass
        penalty_slope = penalties.intercept_slope(b)
        slope, largest = up + down + penalty_slope, mass + abs(penalty_slope)
        steepness = xp.abs(slope)
        active = steepness > tol * largest
        if not bool(xp.any(active)) or float(xp.sum(steepness)) <= total_tol * float(xp.sum(largest)):
            break
        curvature = point.label_curvature() + penalties.intercept
        high = xp.where(slope > 0, xp.minimum(high, b), high)
        low = xp.where(slope < 0, xp.maximum(low, b), low)
        curved = curvature > 0
        step = xp.where(curved, -slope / xp.where(curved, curvature, 1.0), -xp.sign(slope))
        proposal = b + xp.clip(step, -_LONGEST, _LONGEST)
        bracketed = xp.isfinite(low) & xp.isfinite(high)
        middle = 0.5 * (xp.where(bracketed, low, b) + xp.where(bracketed, high, b))
        proposal = xp.where(bracketed & ((proposal <= low) | (proposal >= high)), middle, proposal)
        proposal = xp.where(active, proposal, b)
        if not bool(xp.any(proposal != b)):
            break
        b = proposal
        point = point.with_intercept(b)
    return point
