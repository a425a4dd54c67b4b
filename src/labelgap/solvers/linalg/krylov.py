"""Leading singular triplets by block Lanczos bidiagonalisation (Golub and Kahan; Golub, Luk and Overton).

Products with a few vectors at once cost hardly more than with one, because the time goes into finding the
rows of sparse matrices; and a block sees all of a cluster of equal singular values, which is what a
trace-norm solution has at λ. Both bases are kept orthogonal in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from labelgap.solvers.linalg.dense import Array, namespace, norm, rounding, smallest, standard_normal, thin_qr

# Vectors in a block, at least; with 8 doubles a row of a block is one cache line.
_BLOCK = 8
# Blocks until the bases are dropped and begun anew from the best vectors so far.
_MOST_BLOCKS = 14
_RESTARTS = 40
# The least residual that can be asked for, in units of rounding.
_FINEST = 16


class Leading(NamedTuple):
    """Triplets in columns, values descending, and how far the first right vector is from being one."""

    left: Array
    values: Array
    right: Array
    residual: float
    """``‖Aᵀu₁ − σ₁v₁‖`` or ``‖A v₁ − σ₁u₁‖``; one of the two vanishes by construction."""


def leading_by_blocks(
    times: Callable[[Array], Array],
    transposed_times: Callable[[Array], Array],
    shape: tuple[int, int],
    count: int,
    accuracy: float,
    example: Array | None = None,
) -> Leading:
    """The ``count`` largest triplets of the (d x L) map; the first to a residual of ``accuracy · σ₁``.

    The others are as good as they come with it. The start is random, with a fixed seed, in the namespace and
    precision of ``example`` (numpy's doubles without one).

    Examples
    --------
    >>> A = np.diag([3.0, 2.0, 1.0])
    >>> found = leading_by_blocks(lambda V: A @ V, lambda U: A.T @ U, (3, 3), 2, 1e-10)
    >>> found.values.round(6).tolist()
    [3.0, 2.0]
    """
    example = np.zeros(0) if example is None else example
    if shape[0] < shape[1]:
        # With the shorter side on the right the bases can run out only when they hold everything.
        left, values, right, residual = leading_by_blocks(
            transposed_times, times, (shape[1], shape[0]), count, accuracy, example
        )
        return Leading(right, values, left, residual)
    accuracy = max(accuracy, _FINEST * rounding(example))
    block = min(max(_BLOCK, count), shape[1])
    V = thin_qr(standard_normal(np.random.default_rng(0), (shape[1], block), example))[0]
    for _ in range(_RESTARTS):
        found = _one_run(times, transposed_times, V, accuracy)
        if found.residual <= accuracy * max(float(found.values[0]), smallest(example)):
            break
        V = found.right[:, :block]
    return Leading(found.left[:, :count], found.values[:count], found.right[:, :count], found.residual)


def _one_run(
    times: Callable[[Array], Array],
    transposed_times: Callable[[Array], Array],
    V: Array,
    accuracy: float,
) -> Leading:
    """As many triplets as V has columns, from blocks until the first is good enough or they are too many."""
    xp = namespace(V)
    full, block = V.shape
    rights = V
    lefts, projected = thin_qr(times(V))
    last = block
    while True:
        u, values, vt = xp.linalg.svd(projected, full_matrices=False)
        fresh, _, link = _beside(rights, transposed_times(lefts[:, -last:]))
        # With all of the right side in the basis nothing is left over.
        width = min(block, full - rights.shape[1])
        residual = norm(link @ u[-last:, 0]) if width else 0.0
        if residual <= accuracy * float(values[0]) or rights.shape[1] >= _MOST_BLOCKS * block:
            return Leading(lefts @ u[:, :block], values[:block], rights @ vt[:block, :].T, residual)
        fresh = fresh[:, :width]
        rights = xp.concat([rights, fresh], axis=1)
        new, across, corner = _beside(lefts, times(fresh))
        lefts = xp.concat([lefts, new], axis=1)
        below = xp.concat([xp.zeros_like(projected[:width, :]), corner], axis=1)
        projected = xp.concat([xp.concat([projected, across], axis=1), below], axis=0)
        last = width


def _beside(basis: Array, M: Array) -> tuple[Array, Array, Array]:
    """Q, C and R with ``M = basis C + Q R``, and Q orthonormal beside the basis whatever M is."""
    inside = basis.T @ M
    Q, R = thin_qr(M - basis @ inside)
    # Of a column that lay in the basis only rounding is left, and that may point anywhere: once more.
    again = basis.T @ Q
    Q, rotation = thin_qr(Q - basis @ again)
    return Q, inside + again @ R, rotation @ R
