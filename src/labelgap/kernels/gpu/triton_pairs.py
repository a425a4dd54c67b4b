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
from labelgap.kernels.gpu.triton_entries import sums_of_rows

# Numbers of each of the two gathered blocks of factors.
_GATHERED = 2048


@triton.jit
def _pair_kernel(
    rows_ptr, ends_ptr, indices_ptr, own_ptr, own_step_ptr, others_ptr, others_step_ptr,
    own_shift_ptr, others_shift_ptr, curvature_ptr, slopes_ptr, width, product_ptr, sums_ptr,
    OWN_SHIFT: tl.constexpr, OTHERS_SHIFT: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0)
    kind = own_ptr.dtype.element_ty
    row = tl.load(rows_ptr + piece)
    start = tl.load(ends_ptr + piece)
    stop = tl.load(ends_ptr + piece + 1)
    column = tl.arange(0, WIDTH)
    inside = column < width
    own = tl.load(own_ptr + row * width + column, mask=inside, other=0.0)
    own_step = tl.load(own_step_ptr + row * width + column, mask=inside, other=0.0)
    total = tl.zeros((WIDTH,), dtype=kind)
    curved_sum = tl.zeros((), dtype=tl.float64)
    for first in range(start, stop, BLOCK):
        entry = first + tl.arange(0, BLOCK)
        known = entry < stop
        other = tl.load(indices_ptr + entry, mask=known, other=0).to(tl.int64)
        place = other[:, None] * width + column[None, :]
        both = known[:, None] & inside[None, :]
        q = tl.load(others_ptr + place, mask=both, other=0.0)
        dq = tl.load(others_step_ptr + place, mask=both, other=0.0)
        change = tl.sum(q * own_step[None, :] + dq * own[None, :], axis=1)
        if OWN_SHIFT:
            change = change + tl.load(own_shift_ptr + row)
        if OTHERS_SHIFT:
            change = change + tl.load(others_shift_ptr + other, mask=known, other=0.0)
        curved = change * tl.load(curvature_ptr + entry, mask=known, other=0.0)
        slope = tl.load(slopes_ptr + entry, mask=known, other=0.0)
        curved_sum += tl.sum(curved.to(tl.float64), axis=0)
        total += tl.sum(q * curved[:, None] + dq * slope[:, None], axis=0)
    tl.store(product_ptr + piece.to(tl.int64) * width + column, total, mask=inside)
    tl.store(sums_ptr + piece, curved_sum)


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
        columns = triton.next_power_of_2(max(width, 1))
        _pair_kernel[(n_pieces,)](
            rows, ends, entries.indices, own, own_step, others, others_step,
            nothing if own_shift is None else own_shift,
            nothing if others_shift is None else others_shift,
            curvature, slopes, width, product, sums,
            OWN_SHIFT=own_shift is not None, OTHERS_SHIFT=others_shift is not None,
            BLOCK=max(8, min(64, _GATHERED // columns)), WIDTH=columns, num_warps=4,
        )  # fmt: skip
    return sums_of_rows(entries, product, own.dtype), sums_of_rows(entries, sums, own.dtype)[:, 0]
