"""Leading singular triplets by block Lanczos bidiagonalisation (Golub and Kahan; Golub, Luk and Overton).

Products with a few vectors at once cost hardly more than with one, because the time goes into finding the
rows of sparse matrices; and a block sees all of a cluster of equal singular values, which is what a
trace-norm solution has at λ. Both bases are kept orthogonal in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from labelgap._types import Floats
from labelgap.solvers.linalg.orthogonal import thin_qr

# Vectors in a block, at least; with 8 doubles a row of a block is one cache line.
_BLOCK = 8
# Blocks until the bases are given up and begun anew from the best vectors so far.
_MOST_BLOCKS = 14
_RESTARTS = 40


class Leading(NamedTuple):
    """Triplets in columns, values descending, and how far the first right vector is from being one."""

    left: Floats
    values: Floats
    right: Floats
    residual: float
    """``‖Aᵀu₁ − σ₁v₁‖`` or ``‖A v₁ − σ₁u₁‖``; one of the two vanishes by construction."""


def leading_by_blocks(
    times: Callable[[Floats], Floats],
    transposed_times: Callable[[Floats], Floats],
    shape: tuple[int, int],
    count: int,
    accuracy: float,
) -> Leading:
    """The ``count`` largest triplets of the (d x L) map; the first to a residual of ``accuracy · σ₁``.

    The others are as good as they come with it. The start is random, with a fixed seed.

    Examples
    --------
    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> found = leading_by_blocks(lambda V: A @ V, lambda U: A.T @ U, (3, 3), 2, 1e-10)
    >>> found.values.round(6).tolist()
    [3.0, 2.0]
    """
    if shape[0] < shape[1]:
        # With the shorter side on the right the bases can run out only when they hold everything.
        left, values, right, residual = leading_by_blocks(
            transposed_times, times, (shape[1], shape[0]), count, accuracy
        )
        return Leading(right, values, left, residual)
    block = min(max(_BLOCK, count), shape[1])
    V = thin_qr(np.random.default_rng(0).standard_normal((shape[1], block)))[0]
    for _ in range(_RESTARTS):
        found = _one_run(times, transposed_times, V, accuracy)
        if found.residual <= accuracy * max(found.values[0], np.finfo(float).tiny):
            break
        V = found.right[:, :block]
    return Leading(found.left[:, :count], found.values[:count], found.right[:, :count], found.residual)


def _one_run(
    times: Callable[[Floats], Floats],
    transposed_times: Callable[[Floats], Floats],
    V: Floats,
    accuracy: float,
) -> Leading:
    """As many triplets as V has columns, from blocks until the first is good enough or they are too many."""
    full, block = V.shape
    rights = V
    lefts, projected = thin_qr(times(V))
    last = block
    while True:
        u, values, vt = scipy.linalg.svd(projected)
        fresh, _, link = _beside(rights, transposed_times(lefts[:, -last:]))
        # With all of the right side in the basis nothing is left over.
        room = min(block, full - rights.shape[1])
        residual = float(np.linalg.norm(link @ u[-last:, 0])) if room else 0.0
        if residual <= accuracy * values[0] or rights.shape[1] >= _MOST_BLOCKS * block:
            kept = slice(0, block)
            return Leading(lefts @ u[:, kept], values[kept], rights @ vt[kept].T, residual)
        fresh = fresh[:, :room]
        rights = np.hstack([rights, fresh])
        new, across, corner = _beside(lefts, times(fresh))
        lefts = np.hstack([lefts, new])
        projected = np.block([[projected, across], [np.zeros((room, len(projected))), corner]])
        last = room


def _beside(basis: Floats, M: Floats) -> tuple[Floats, Floats, Floats]:
    """Q, C and R with ``M = basis C + Q R``, and Q orthonormal beside the basis whatever M is."""
    inside = basis.T @ M
    Q, R = thin_qr(M - basis @ inside)
    # Of a column that lay in the basis only rounding is left, and that may point anywhere: once more.
    again = basis.T @ Q
    Q, turn = thin_qr(Q - basis @ again)
    return Q, inside + again @ R, turn @ R
