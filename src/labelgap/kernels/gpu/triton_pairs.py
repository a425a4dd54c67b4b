"""Triton's kernel for a product with the Hessian over observed entries, from the side of the rows or labels.

With own factors p_i and steps dp_i, and q_j and dq_j of the other side, the change of a score is
``dp_i·q_j + p_i·dq_j + shift``. One pass gives ``Σ_j e_ij q_j + g_ij dq_j`` with e = curvature · change, and
the sums of e. Pieces of rows and their order are those of :mod:`labelgap.kernels.gpu.triton_entries`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from labelgap.kernels.gpu.device import on_its_device
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import Compressed
from labelgap.kernels.gpu.triton_entries import (
    BlockShape,
    columns_of,
    dotted,
    gathered,
    others_of,
    sums_of_rows,
    weighted,
)


@triton.jit
def _pair_kernel(
    rows_ptr, ends_ptr, indices_ptr, own_ptr, own_step_ptr, others_ptr, others_step_ptr,
    own_shift_ptr, others_shift_ptr, curvature_ptr, slopes_ptr, width, product_ptr, sums_ptr,
    OWN_SHIFT: tl.constexpr, OTHERS_SHIFT: tl.constexpr,
    TURNS: tl.constexpr, SEGMENTS: tl.constexpr, SIDE: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0)
    kind = own_ptr.dtype.element_ty
    row = tl.load(rows_ptr + piece)
    start = tl.load(ends_ptr + piece)
    stop = tl.load(ends_ptr + piece + 1)
    column = columns_of(0, SEGMENTS, SEGMENT)
    inside = column < width
    own = tl.load(own_ptr + row * width + column, mask=inside, other=0.0)
    own_step = tl.load(own_step_ptr + row * width + column, mask=inside, other=0.0)
    total = tl.zeros((SEGMENTS, SIDE, SEGMENT), dtype=kind)
    curved_sum = tl.zeros((TURNS * SIDE,), dtype=tl.float64)
    for first in range(start, stop, TURNS * SIDE):
        entry = first + tl.arange(0, TURNS * SIDE)
        known = entry < stop
        others, there = others_of(indices_ptr, first, stop, TURNS, SIDE)
        q = gathered(others_ptr, others, there, column, inside, width)
        dq = gathered(others_step_ptr, others, there, column, inside, width)
        change = dotted(q, own_step, TURNS, SIDE) + dotted(dq, own, TURNS, SIDE)
        if OWN_SHIFT:
            change = change + tl.load(own_shift_ptr + row)
        if OTHERS_SHIFT:
            other = tl.load(indices_ptr + entry, mask=known, other=0)
            change = change + tl.load(others_shift_ptr + other, mask=known, other=0.0)
        curved = change * tl.load(curvature_ptr + entry, mask=known, other=0.0)
        slope = tl.load(slopes_ptr + entry, mask=known, other=0.0)
        curved_sum += curved.to(tl.float64)
        total += weighted(q, curved, TURNS, SIDE) + weighted(dq, slope, TURNS, SIDE)
    tl.store(product_ptr + piece.to(tl.int64) * width + column, tl.sum(total, axis=1), mask=inside)
    tl.store(sums_ptr + piece, tl.sum(curved_sum, axis=0))


@on_its_device
def pair_pass(
    entries: Compressed,
    factors: tuple[Tensor, Tensor, Tensor, Tensor],
    data: tuple[Tensor, Tensor],
    *,
    own_shift: Tensor | None = None,
    others_shift: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The product and the sums; ``factors`` are own, own steps, others, others' steps."""
    rows, ends, _ = entries.pieces
    own, own_step, others, others_step = (part.contiguous() for part in factors)
    curvature, slopes = data
    width, n_pieces = own.shape[1], len(rows)
    nothing = torch.empty(0, dtype=own.dtype, device=own.device)
    product = torch.empty((n_pieces, width), dtype=own.dtype, device=own.device)
    sums = torch.zeros((n_pieces, 1), dtype=torch.float64, device=own.device)
    if n_pieces:
        shape = BlockShape.of("pairs", own.dtype, width)
        _pair_kernel[(n_pieces,)](
            rows, ends, entries.indices, own, own_step, others, others_step,
            nothing if own_shift is None else own_shift,
            nothing if others_shift is None else others_shift,
            curvature, slopes, width, product, sums,
            OWN_SHIFT=own_shift is not None, OTHERS_SHIFT=others_shift is not None,
            **shape.options,
        )  # fmt: skip
    return sums_of_rows(entries, product, own.dtype), sums_of_rows(entries, sums, own.dtype)[:, 0]
