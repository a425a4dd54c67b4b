"""Columns for a factor to begin with: the leading directions of the gradient."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers.penalties import Penalties

# Numbers in the data from which on the start is found in single precision, which is twice as fast.
_LARGE = 1 << 20
# The largest singular value found, as a share of λ, below which no direction can lead down: it is a lower
# bound, but a close one.
_HOPELESS = 0.9


class Start(NamedTuple):
    """Factors to begin with, and about the largest singular value of the gradient."""

    factors: Factors
    steepest: float


def with_leading_columns(
    objective: Objective,
    penalties: Penalties,
    point: Point,
    cap: int,
    random_state: int | np.random.RandomState | None,
) -> Start:
    """Fill A up to ``cap`` columns, with zeros in B: the same W, with room to grow.

    The new columns are about the leading left singular vectors of the gradient, from random vectors and one
    step of subspace iteration. Each is as long as the root of the singular value that the first of them would
    get from a Newton step. Where no direction leads down, W needs no more columns.
    """
    factors = point.factors
    missing = cap - factors.rank
    if missing <= 0:
        return Start(factors, np.inf)
    n_columns = objective.shape[1]
    gradient = point.score_gradient()
    dtype = np.float32 if objective.n_stored >= _LARGE else np.float64
    V = check_random_state(random_state).standard_normal((n_columns, missing)).astype(dtype)
    U = _principal(gradient.left_product(V)).vectors
    V = _principal(gradient.right_product(U)).vectors
    leading = _principal(gradient.left_product(V))
    # It holds a copy of its entries, and the curvature is another array of that size.
    del gradient
    steepest = float(leading.values[0])
    if steepest <= _HOPELESS * penalties.trace:
        return Start(factors, steepest)
    along = tuple(
        np.ascontiguousarray(part, dtype=np.float64)
        for part in (leading.vectors[:, :1], V @ leading.turn[:, :1])
    )
    bend = float(point.curvature_along(*along)[0]) + penalties.ridge
    surplus = max(steepest - penalties.trace, (1 - _HOPELESS) * steepest)
    length = np.sqrt(surplus / max(bend, np.finfo(float).tiny))
    left = np.hstack([factors.left, leading.vectors.astype(np.float64) * length])
    right = np.hstack([factors.right, np.zeros((n_columns, missing))])
    return Start(Factors(left, right, factors.intercept), steepest)


class _Principal(NamedTuple):
    """``M turn = vectors · values``, values descending; a vector of next to no value is 0."""

    vectors: Floats
    values: Floats
    turn: Floats


def _principal(M: Floats) -> _Principal:
    """By the Gram matrix: half the digits are plenty for a start, and it is one matrix product."""
    # Scaled: squares of small numbers would underflow.
    largest = float(np.abs(M).max(initial=0.0)) or 1.0
    scaled = M / M.dtype.type(largest)
    squares, turn = scipy.linalg.eigh((scaled.T @ scaled).astype(np.float64))
    values, turn = np.sqrt(np.maximum(squares[::-1], 0.0)), np.ascontiguousarray(turn[:, ::-1])
    # Squares have half the digits.
    rounding = 4 * np.sqrt(np.finfo(M.dtype).eps)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > rounding * values[0])
    return _Principal(scaled @ (turn * inverse).astype(M.dtype), largest * values, turn)
