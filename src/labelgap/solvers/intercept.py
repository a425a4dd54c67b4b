"""The best intercept for a given W: one convex problem in one number per label."""

from __future__ import annotations

import numpy as np

from labelgap._types import Floats
from labelgap.objective.protocol import Objective, Point
from labelgap.solvers.penalties import Penalties

_MAX_STEPS = 60


def with_best_intercept(
    objective: Objective,
    point: Point,
    penalties: Penalties,
    tol: float = 1e-12,
    total_tol: float = 0.0,
) -> Point:
    """Minimise over b by Newton's method, label by label, inside a bracket that the signs maintain.

    ``tol`` is the slope left in a label's intercept, as a share of the label's gradient mass. With a
    ``total_tol`` it is enough that all slopes together are no larger a share of all mass.
    """
    if not objective.has_intercept:
        return point
    b = point.factors.intercept.copy()
    mass: Floats | None = None
    low, high = np.full_like(b, -np.inf), np.full_like(b, np.inf)
    for _ in range(_MAX_STEPS):
        up, down = point.signed_label_sums()
        mass = up - down if mass is None else mass
        pull = penalties.intercept_slope(b)
        slope, largest = up + down + pull, mass + np.abs(pull)
        active = np.abs(slope) > tol * largest
        if not active.any() or np.abs(slope).sum() <= total_tol * largest.sum():
            break
        bend = point.label_curvature() + penalties.intercept
        high = np.where(slope > 0, np.minimum(high, b), high)
        low = np.where(slope < 0, np.maximum(low, b), low)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(bend > 0, -slope / bend, -np.sign(slope))
        # A flat tail makes the Newton step overshoot: never more than a few units of score at a time.
        step = np.clip(step, -4.0, 4.0)
        proposal = b + step
        outside = (proposal <= low) | (proposal >= high)
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (low + high)
        proposal = np.where(outside & np.isfinite(middle), middle, proposal)
        if np.array_equal(np.where(active, proposal, b), b):
            break
        b = np.where(active, proposal, b)
        point = point.with_intercept(b)
    return point
