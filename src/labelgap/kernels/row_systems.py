"""One small linear system for every row: its Hessian over its entries, and a right side of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import read_only
from labelgap._types import Floats
from labelgap.kernels.entries import sparse_rows
from labelgap.kernels.options import OPTIONS, compiled
from labelgap.kernels.threads import run_over_rows


@compiled(**OPTIONS)
def _solve_rows(  # type: ignore[no-untyped-def]
    indptr, indices, curvature, Q, squares, penalty, right, out, start, stop
):
    k = Q.shape[1]
    H = np.empty((k, k))
    x = np.empty(k)
    for i in range(start, stop):
        for r in range(k):
            for c in range(r + 1):
                H[r, c] = 0.0
            x[r] = right[i, r]
        for e in range(indptr[i], indptr[i + 1]):
            q = Q[indices[e]]
            weight = curvature[e] * squares[i]
            for r in range(k):
                scaled = weight * q[r]
                for c in range(r + 1):
                    H[r, c] += scaled * q[c]
        # Cholesky's factor, below the diagonal, then the two triangular systems.
        for r in range(k):
            H[r, r] += penalty
            for c in range(r):
                total = H[r, c]
                for t in range(c):
                    total -= H[r, t] * H[c, t]
                H[r, c] = total / H[c, c]
            total = H[r, r]
            for t in range(r):
                total -= H[r, t] * H[r, t]
            H[r, r] = np.sqrt(total)
        for r in range(k):
            total = x[r]
            for t in range(r):
                total -= H[r, t] * x[t]
            x[r] = total / H[r, r]
        for r in range(k - 1, -1, -1):
            total = x[r]
            for t in range(r + 1, k):
                total -= H[t, r] * x[t]
            x[r] = total / H[r, r]
        for r in range(k):
            out[i, r] = x[r]


def solve_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    curvature: Floats,
    Q: Floats,
    squares: Floats,
    penalty: float,
    right: Floats,
) -> Floats:
    """``(s_i² Σ_e D_e q_e q_eᵀ + penalty I)⁻¹ right_i`` for every row i, over its entries e.

    ``squares`` are the s_i², ``penalty`` is above 0.

    Examples
    --------
    >>> indptr, indices = np.array([0, 2, 2]), np.array([0, 1])
    >>> solve_rows(indptr, indices, np.array([1.0, 3.0]), np.ones((2, 1)), np.ones(2), 1.0, np.ones((2, 1)))
    array([[0.2],
           [1. ]])
    """
    out = np.empty_like(right)
    k = Q.shape[1]
    entries = *sparse_rows((indptr, indices, curvature)), read_only(Q, np.float64)
    given = read_only(squares, np.float64), float(penalty), read_only(right, np.float64)
    run_over_rows(_solve_rows, indptr, k * (k + 1), *entries, *given, out)
    return out
