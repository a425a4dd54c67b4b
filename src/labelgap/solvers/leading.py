"""Columns for a factor to begin with: the leading directions of the gradient."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state

from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers.penalties import Penalties

# Products with the gradient, both ways, that the columns come from.
_POWERS = 2


def with_leading_columns(
    objective: Objective,
    penalties: Penalties,
    point: Point,
    cap: int,
    random_state: int | np.random.RandomState | None,
) -> Factors:
    """Fill A up to ``cap`` columns, with zeros in B: the same W, with room to grow.

    The new columns are about the leading left singular vectors of the gradient, each as long as the root of
    the singular value that the first of them would get from a Newton step. Where no direction leads down, W
    needs no more columns.
    """
    factors = point.factors
    missing = cap - factors.rank
    if missing <= 0:
        return factors
    n_columns = objective.shape[1]
    gradient = point.score_gradient()
    V = check_random_state(random_state).standard_normal((n_columns, missing))
    for _ in range(_POWERS):
        U = scipy.linalg.qr(gradient.left_product(V), mode="economic")[0]
        V = gradient.right_product(U)
    lengths = np.linalg.norm(V, axis=0)
    lead = int(np.argmax(lengths))
    surplus = float(lengths[lead]) - penalties.trace
    if surplus <= 0:
        return factors
    # It holds a copy of its entries, and the next step makes an array of that size.
    del gradient
    along = np.ascontiguousarray(U[:, [lead]]), np.ascontiguousarray(V[:, [lead]] / lengths[lead])
    bend = float(point.curvature_along(*along)[0]) + penalties.ridge
    length = np.sqrt(surplus / max(bend, np.finfo(float).tiny))
    left = np.hstack([factors.left, U * length])
    right = np.hstack([factors.right, np.zeros((n_columns, missing))])
    return Factors(left, right, factors.intercept)
