"""Triton's kernels over observed entries: scores, losses and slopes, and the two sparse products.

A row's entries are cut into pieces (:attr:`Compressed.pieces`). One program works on one piece: it loads the
row's own factor once, gathers the factors of the other side a block of entries at a time, and writes one
partial sum. A second kernel adds up the pieces of each row, in their order and in double precision. No two
programs write to one place, so that results do not depend on which of them is first.

A block of factors has four axes: turns, segments of a factor, entries side by side, numbers of a segment. A
segment is as long as a line of the cache. Triton spreads the last axis over the threads of a warp first and
the entries side by side next, and each thread holds all turns. So a warp has many entries at once, and one
evaluation of the loss serves them all. A factor that is spread over all threads of a warp would have its loss
computed by each of them, which in double precision takes longer than to read the factor. For the same reason
sums over entries are kept apart for every place in a block and added up once, after the last block.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from labelgap.kernels.gpu.device import on_its_device
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.passes import EntryData
from labelgap.kernels.gpu.pattern import Compressed
from labelgap.kernels.gpu.triton_losses import derivatives

# Numbers of a block, at most, in single and in double precision: those that were fastest on an H200.
GATHERED = {
    "losses": (2048, 2048),
    "sums": (4096, 1024),
    "product": (2048, 256),
    "dots": (2048, 2048),
    "pairs": (256, 512),
}
# Columns from which on a block has fewer, since a thread also holds its part of the own factor and the sums.
_MANY_COLUMNS, _FEWER_NUMBERS = 128, 1024
# Bytes of a segment, at least, and of what the threads of a warp load at a time.
_SEGMENT_BYTES, _WARP_BYTES = 128, 512
# Segments of a factor, beyond which they become longer.
_MOST_SEGMENTS = 8
# Entries of a block, at most. Narrow factors have fewer, so that their kernels take less time to compile; and
# where a factor's length is no multiple of 16 numbers, more entries would leave registers for memory.
_MOST_ENTRIES, _MOST_NARROW = 64, 32
_NARROW = 64
# Columns of a block of the plain products, which take wider factors some columns at a time.
_WIDEST = 256
_WARPS = 4


class BlockShape(NamedTuple):
    """The shape of a block of gathered factors, on which one warp works; all are powers of 2."""

    turns: int
    segments: int
    side: int
    """Entries side by side."""
    segment: int

    @property
    def columns(self) -> int:
        return self.segments * self.segment

    @classmethod
    def of(cls, work: str, dtype: torch.dtype, width: int, widest: int = 1 << 30) -> BlockShape:
        """The shape for factors of some width, of which at most ``widest`` columns are held at a time."""
        columns = min(triton.next_power_of_2(max(width, 1)), widest)
        n_bytes = columns * dtype.itemsize
        segment_bytes = min(n_bytes, max(_SEGMENT_BYTES, n_bytes // _MOST_SEGMENTS), _WARP_BYTES)
        most = _MOST_NARROW if columns < _NARROW else _MOST_ENTRIES
        side = min(_WARP_BYTES // segment_bytes, most)
        numbers = GATHERED[work][dtype == torch.float64]
        if columns >= _MANY_COLUMNS:
            numbers = min(numbers, _FEWER_NUMBERS)
        turns = min(numbers // columns, most) // side
        return cls(max(1, turns), n_bytes // segment_bytes, side, segment_bytes // dtype.itemsize)

    @property
    def options(self) -> dict[str, int]:
        """What a kernel is started with."""
        return {
            "TURNS": self.turns,
            "SEGMENTS": self.segments,
            "SIDE": self.side,
            "SEGMENT": self.segment,
            "num_warps": 1,
        }


class LossPass(NamedTuple):
    """Results of a pass; what was not asked for is None."""

    product: Tensor
    value: float | None
    low_rank: Tensor | None
    slopes: Tensor | None
    sums: Tensor | None


@triton.jit
def columns_of(first, SEGMENTS: tl.constexpr, SEGMENT: tl.constexpr):
    """The columns from ``first`` on, segment by segment."""
    return first + tl.arange(0, SEGMENTS)[:, None] * SEGMENT + tl.arange(0, SEGMENT)[None, :]


@triton.jit
def others_of(indices_ptr, first, stop, TURNS: tl.constexpr, SIDE: tl.constexpr):
    """The other side's rows of a block of entries (turns x entries side by side), and which there are."""
    entry = first + tl.arange(0, TURNS)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    known = entry < stop
    return tl.load(indices_ptr + entry, mask=known, other=0).to(tl.int64), known


@triton.jit
def gathered(factors_ptr, rows, known, column, inside, width):
    """Some columns of the factors of a block of entries."""
    return tl.load(
        factors_ptr + rows[:, None, :, None] * width + column[None, :, None, :],
        mask=known[:, None, :, None] & inside[None, :, None, :],
        other=0.0,
    )


@triton.jit
def dotted(factors, own, TURNS: tl.constexpr, SIDE: tl.constexpr):
    """The products with one factor, entry by entry; segments come first, since a thread holds all of them."""
    return tl.reshape(tl.sum(tl.sum(factors * own[None, :, None, :], axis=1), axis=2), (TURNS * SIDE,))


@triton.jit
def weighted(factors, numbers, TURNS: tl.constexpr, SIDE: tl.constexpr):
    """The sum over the turns of the factors, each times the number of its entry."""
    return tl.sum(factors * tl.reshape(numbers, (TURNS, SIDE))[:, None, :, None], axis=0)


@triton.jit
def _loss_kernel(
    rows_ptr, ends_ptr, indices_ptr, own_ptr, others_ptr, own_shift_ptr, others_shift_ptr,
    targets_ptr, weights_ptr, offsets_ptr, width,
    product_ptr, value_ptr, low_rank_ptr, slopes_ptr, sums_ptr, n_pieces,
    CODE: tl.constexpr, DOUBLE: tl.constexpr, OWN_SHIFT: tl.constexpr, OTHERS_SHIFT: tl.constexpr,
    WEIGHTS: tl.constexpr, OFFSETS: tl.constexpr, ENTRIES: tl.constexpr, SUMS: tl.constexpr,
    TURNS: tl.constexpr, SEGMENTS: tl.constexpr, SIDE: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """Losses of the entries of one piece, and the sum of the slopes times the other side's factors.

    With ENTRIES, the value and what belongs to each entry; with SUMS, the row's sums.
    """
    piece = tl.program_id(0)
    kind = own_ptr.dtype.element_ty
    row = tl.load(rows_ptr + piece)
    start = tl.load(ends_ptr + piece)
    # A piece ends where the next one begins.
    stop = tl.load(ends_ptr + piece + 1)
    column = columns_of(0, SEGMENTS, SEGMENT)
    inside = column < width
    own = tl.load(own_ptr + row * width + column, mask=inside, other=0.0)
    shift = tl.zeros((), dtype=kind)
    if OWN_SHIFT:
        shift = tl.load(own_shift_ptr + row)
    total = tl.zeros((SEGMENTS, SIDE, SEGMENT), dtype=kind)
    value = tl.zeros((TURNS * SIDE,), dtype=tl.float64)
    up = tl.zeros((TURNS * SIDE,), dtype=tl.float64)
    down = tl.zeros((TURNS * SIDE,), dtype=tl.float64)
    bend = tl.zeros((TURNS * SIDE,), dtype=tl.float64)
    for first in range(start, stop, TURNS * SIDE):
        entry = first + tl.arange(0, TURNS * SIDE)
        known = entry < stop
        others, there = others_of(indices_ptr, first, stop, TURNS, SIDE)
        factors = gathered(others_ptr, others, there, column, inside, width)
        z = dotted(factors, own, TURNS, SIDE)
        if ENTRIES:
            tl.store(low_rank_ptr + entry, z, mask=known)
        if OWN_SHIFT:
            z = z + shift
        if OTHERS_SHIFT:
            other = tl.load(indices_ptr + entry, mask=known, other=0)
            z = z + tl.load(others_shift_ptr + other, mask=known, other=0.0)
        if OFFSETS:
            z = z + tl.load(offsets_ptr + entry, mask=known, other=0.0)
        y = tl.load(targets_ptr + entry, mask=known, other=0).to(kind)
        loss, slope, curvature = derivatives(z, y, CODE, DOUBLE)
        if WEIGHTS:
            factor = tl.load(weights_ptr + entry, mask=known, other=0.0).to(kind)
        else:
            # From memory: a number among the arguments would come in single precision.
            factor = tl.where(known, tl.load(weights_ptr), 0.0).to(kind)
        slope = slope * factor
        if ENTRIES:
            tl.store(slopes_ptr + entry, slope, mask=known)
            # An entry that is only filled up may have any loss; its weight is 0.
            value += tl.where(known, loss * factor, 0.0).to(tl.float64)
        if SUMS:
            up += tl.maximum(slope, 0.0).to(tl.float64)
            down += tl.minimum(slope, 0.0).to(tl.float64)
            bend += (curvature * factor).to(tl.float64)
        total += weighted(factors, slope, TURNS, SIDE)
    tl.store(product_ptr + piece.to(tl.int64) * width + column, tl.sum(total, axis=1), mask=inside)
    if ENTRIES:
        tl.store(value_ptr + piece, tl.sum(value, axis=0))
    if SUMS:
        tl.store(sums_ptr + piece, tl.sum(up, axis=0))
        tl.store(sums_ptr + n_pieces + piece, tl.sum(down, axis=0))
        tl.store(sums_ptr + 2 * n_pieces + piece, tl.sum(bend, axis=0))


@triton.jit
def _product_kernel(
    ends_ptr, indices_ptr, data_ptr, others_ptr, width, product_ptr,
    TURNS: tl.constexpr, SEGMENTS: tl.constexpr, SIDE: tl.constexpr, SEGMENT: tl.constexpr,
):  # fmt: skip
    """The sum over one piece of data times the other side's factors, some columns at a time."""
    piece = tl.program_id(0)
    kind = others_ptr.dtype.element_ty
    start = tl.load(ends_ptr + piece)
    stop = tl.load(ends_ptr + piece + 1)
    column = columns_of(tl.program_id(1) * SEGMENTS * SEGMENT, SEGMENTS, SEGMENT)
    inside = column < width
    total = tl.zeros((SEGMENTS, SIDE, SEGMENT), dtype=kind)
    for first in range(start, stop, TURNS * SIDE):
        entry = first + tl.arange(0, TURNS * SIDE)
        known = entry < stop
        others, there = others_of(indices_ptr, first, stop, TURNS, SIDE)
        factors = gathered(others_ptr, others, there, column, inside, width)
        total += weighted(factors, tl.load(data_ptr + entry, mask=known, other=0.0), TURNS, SIDE)
    tl.store(product_ptr + piece.to(tl.int64) * width + column, tl.sum(total, axis=1), mask=inside)


@triton.jit
def _dots_kernel(
    rows_ptr, ends_ptr, indices_ptr, own_ptr, others_ptr, width, out_ptr,
    TURNS: tl.constexpr, SEGMENTS: tl.constexpr, SIDE: tl.constexpr, SEGMENT: tl.constexpr,
    ROUNDS: tl.constexpr,
):  # fmt: skip
    """Products of the own factor with those of the other side, at the entries of one piece."""
    piece = tl.program_id(0)
    kind = own_ptr.dtype.element_ty
    row = tl.load(rows_ptr + piece)
    start = tl.load(ends_ptr + piece)
    stop = tl.load(ends_ptr + piece + 1)
    for first in range(start, stop, TURNS * SIDE):
        entry = first + tl.arange(0, TURNS * SIDE)
        others, there = others_of(indices_ptr, first, stop, TURNS, SIDE)
        z = tl.zeros((TURNS * SIDE,), dtype=kind)
        for part in range(ROUNDS):
            column = columns_of(part * SEGMENTS * SEGMENT, SEGMENTS, SEGMENT)
            inside = column < width
            own = tl.load(own_ptr + row * width + column, mask=inside, other=0.0)
            factors = gathered(others_ptr, others, there, column, inside, width)
            z += dotted(factors, own, TURNS, SIDE)
        tl.store(out_ptr + entry, z, mask=entry < stop)


@triton.jit
def _sums_kernel(ends_ptr, data_ptr, out_ptr, BLOCK: tl.constexpr):
    """The sum over one piece, in double precision."""
    piece = tl.program_id(0)
    start = tl.load(ends_ptr + piece)
    stop = tl.load(ends_ptr + piece + 1)
    total = tl.zeros((), dtype=tl.float64)
    for first in range(start, stop, BLOCK):
        entry = first + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(data_ptr + entry, mask=entry < stop, other=0.0).to(tl.float64), axis=0)
    tl.store(out_ptr + piece, total)


@triton.jit
def _gather_kernel(pointers_ptr, partial_ptr, width, out_ptr, WIDTH: tl.constexpr):
    """The pieces of one row added up, in their order and in double precision."""
    row = tl.program_id(0).to(tl.int64)
    first = tl.load(pointers_ptr + row)
    last = tl.load(pointers_ptr + row + 1)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = column < width
    total = tl.zeros((WIDTH,), dtype=tl.float64)
    for piece in range(first, last):
        total += tl.load(partial_ptr + piece * width + column, mask=inside, other=0.0).to(tl.float64)
    tl.store(out_ptr + row * width + column, total.to(out_ptr.dtype.element_ty), mask=inside)


def sums_of_rows(entries: Compressed, partial: Tensor, dtype: torch.dtype) -> Tensor:
    """Partial sums of pieces (pieces x width) as sums of rows."""
    _, _, pointers = entries.pieces
    width = partial.shape[1]
    out = torch.empty((entries.n_rows, width), dtype=dtype, device=partial.device)
    if out.numel():
        columns = min(triton.next_power_of_2(width), 128)
        grid = (entries.n_rows, triton.cdiv(width, columns))
        _gather_kernel[grid](pointers, partial, width, out, WIDTH=columns, num_warps=1)
    return out


@on_its_device
def loss_pass(
    entries: Compressed,
    own: Tensor,
    others: Tensor,
    data: EntryData,
    code: int,
    *,
    own_shift: Tensor | None = None,
    others_shift: Tensor | None = None,
    entries_wanted: bool = True,
    sums: bool = False,
) -> LossPass:
    """Losses at all entries, and ``Σ_j slope_ij others_j`` for every row i."""
    rows, ends, _ = entries.pieces
    width, n_pieces = own.shape[1], len(rows)
    device, dtype = own.device, own.dtype
    nothing = torch.empty(0, dtype=dtype, device=device)
    product = torch.empty((n_pieces, width), dtype=dtype, device=device)
    value = torch.zeros(n_pieces if entries_wanted else 0, dtype=torch.float64, device=device)
    low_rank, slopes = (
        (torch.empty(len(entries), dtype=dtype, device=device) for _ in range(2))
        if entries_wanted
        else (nothing, nothing)
    )
    partial_sums = torch.empty((3, n_pieces) if sums else (0,), dtype=torch.float64, device=device)
    shape = BlockShape.of("losses" if entries_wanted else "sums", dtype, width)
    weights = data.weights
    if weights is None:
        weights = torch.full((1,), data.weight, dtype=torch.float64, device=device)
    if n_pieces:
        _loss_kernel[(n_pieces,)](
            rows, ends, entries.indices, own, others,
            nothing if own_shift is None else own_shift,
            nothing if others_shift is None else others_shift,
            data.targets, weights, nothing if data.offsets is None else data.offsets, width,
            product, value, low_rank, slopes, partial_sums, n_pieces,
            CODE=code, DOUBLE=dtype == torch.float64, OWN_SHIFT=own_shift is not None,
            OTHERS_SHIFT=others_shift is not None, WEIGHTS=data.weights is not None,
            OFFSETS=data.offsets is not None, ENTRIES=entries_wanted, SUMS=sums,
            **shape.options,
        )  # fmt: skip
    of_rows = sums_of_rows(entries, partial_sums.T.contiguous(), dtype).T.contiguous() if sums else None
    return LossPass(
        sums_of_rows(entries, product, dtype),
        float(torch.sum(value)) if entries_wanted else None,
        low_rank if entries_wanted else None,
        slopes if entries_wanted else None,
        of_rows,
    )


@on_its_device
def product(entries: Compressed, data: Tensor, others: Tensor) -> Tensor:
    """``Σ_j data_ij others_j`` for every row i."""
    rows, ends, _ = entries.pieces
    width, n_pieces = others.shape[1], len(rows)
    partial = torch.empty((n_pieces, width), dtype=others.dtype, device=others.device)
    if partial.numel():
        shape = BlockShape.of("product", others.dtype, width, _WIDEST)
        grid = (n_pieces, triton.cdiv(width, shape.columns))
        _product_kernel[grid](
            ends,
            entries.indices,
            data.contiguous(),
            others.contiguous(),
            width,
            partial,
            **shape.options,
        )
    return sums_of_rows(entries, partial, others.dtype)


@on_its_device
def dots(entries: Compressed, own: Tensor, others: Tensor) -> Tensor:
    """``own_i · others_j`` at every entry (i, j)."""
    rows, ends, _ = entries.pieces
    out = torch.zeros(len(entries), dtype=own.dtype, device=own.device)
    width = own.shape[1]
    if len(entries) and width:
        shape = BlockShape.of("dots", own.dtype, width, _WIDEST)
        _dots_kernel[(len(rows),)](
            rows,
            ends,
            entries.indices,
            own.contiguous(),
            others.contiguous(),
            width,
            out,
            ROUNDS=triton.cdiv(width, shape.columns),
            **shape.options,
        )
    return out


@on_its_device
def sums(entries: Compressed, data: Tensor) -> Tensor:
    """The sum of each row's entries."""
    _, ends, _ = entries.pieces
    partial = torch.empty((len(ends) - 1, 1), dtype=torch.float64, device=data.device)
    if len(partial):
        _sums_kernel[(len(partial),)](ends, data.contiguous(), partial, BLOCK=512, num_warps=_WARPS)
    return sums_of_rows(entries, partial, data.dtype)[:, 0]
