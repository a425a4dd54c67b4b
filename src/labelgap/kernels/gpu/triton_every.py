"""Triton's kernels over all n·L entries of the logistic loss: two fused sweeps, nothing of size n x L.

The left sweep gives the value and ``S Q`` with S the slopes σ(z): a program has some rows, meets all labels a
tile at a time, scores the tile, takes the slopes and multiplies them with the tile's factors. The right sweep
does the same from the side of the labels and gives ``Sᵀ P`` and each label's sums. Scores never leave the
registers.

**Special functions bound the speed**, since a GPU makes few of them beside its products: an entry needs two,
an exponential and a reciprocal. What else is done for an entry is kept to a few instructions. Scores are in
units of log 2, so that the exponential is that of base 2, and are made from a product by one multiplication
and addition. A slope alone is ``1/(1 + e^−z)``. Where the value is wanted too, d = e^−|z| gives the loss
``max(z, 0) + log(1 + d)`` and the slope 1/(1 + d) or d/(1 + d), and some entries share one logarithm, that of
the product of their 1 + d. Sums over a row of a tile stay in eight parts, for which no thread has to ask
another one, until the last tile. A tile that is not full comes last, so that the others need no mask.

**Precisions.** Factors are bf16, or float32 multiplied as TF32 ("tf32") or as three products of TF32
("float32", which loses no digit). Products are added up in float32 within some tiles, and in float64 across
them: "float32" within a few, the others within all that a program meets, whose rounding is far below that of
their products. The labels are split among programs, so that none meets too many and no processor is idle;
their results are added up in their order.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from labelgap.kernels.gpu.device import on_its_device
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.triton_special import multiply, reciprocal, rough_log2

_LOG2E = tl.constexpr(1.4426950408889634)
_LN2 = tl.constexpr(0.6931471805599453)
# Parts of a sum over a row of a tile: as many columns as a thread's pieces of a product are apart.
_PARTS = tl.constexpr(8)


class Tiles(NamedTuple):
    """The shape of the work of one program."""

    own: int
    """Rows (or labels) that a program has."""
    others: int
    """Labels (or rows) of a tile, at most 128."""
    warps: int = 4
    stages: int = 3
    flush: int = 0
    """Tiles whose products are added up in float32; 0 for all that a program meets."""


TILES = {
    "bf16": Tiles(64, 64, warps=4, stages=3),
    "tf32": Tiles(64, 32, warps=4, stages=2),
    "float32": Tiles(64, 64, warps=4, stages=1, flush=8),
}
"""The tiles of each precision."""
# Programs at least, where there is work for them: several for each processor of a large GPU.
_PROGRAMS = 512
# Tiles that one program meets at most, and at least where there is a choice.
_MOST_TILES, _FEWEST_TILES = 512, 16


@triton.jit
def _dot(a, b, PRECISION: tl.constexpr):
    """A product of two tiles in one of the precisions."""
    # One return at the end: after a return Triton still compiles what follows.
    if PRECISION == "bf16":
        found = tl.dot(a.to(tl.bfloat16), b)
    elif PRECISION == "tf32":
        found = tl.dot(a, b, input_precision="tf32")
    else:
        found = tl.dot(a, b, input_precision="tf32x3")
    return found


@triton.jit
def _log2(x, PRECISION: tl.constexpr):
    return tl.log2(x) if PRECISION == "float32" else rough_log2(x)


@triton.jit
def _load(at, there, ALL: tl.constexpr):
    """What is there, and 0 elsewhere; with ALL everything is."""
    return tl.load(at) if ALL else tl.load(at, mask=there, other=0.0)


@triton.jit
def _by_parts(tile, OWN: tl.constexpr, OTHERS: tl.constexpr):
    """A tile of which each row is cut into columns of so many parts."""
    return tl.reshape(tile, (OWN, OTHERS // _PARTS, _PARTS))


@triton.jit
def _tile(
    own, own_shift, others_ptr, turned_ptr, others_shift_ptr, first, n_others, k,
    part, losses, slope_sums, curvature_sums,
    PRECISION: tl.constexpr, VALUE: tl.constexpr, SUMS: tl.constexpr, LABELS_OWN: tl.constexpr,
    OWN: tl.constexpr, OTHERS: tl.constexpr, K: tl.constexpr, EVEN: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """The sums with those of one more tile, which begins at ``first``.

    FULL where nobody is missing in it, EVEN where the factors have just K columns. ``own_shift`` is in units
    of log 2, with the sign that the scores have here.
    """
    # Without the value, the slope is all that is wanted, and it follows from −z.
    unit: tl.constexpr = _LOG2E if VALUE else -_LOG2E
    column = tl.arange(0, K)
    other = first + tl.arange(0, OTHERS)
    there = other < n_others
    place = other.to(tl.int64)
    at = others_ptr + place[None, :] * k + column[:, None]
    q = _load(at, there[None, :] & (column < k)[:, None], FULL and EVEN)
    if LABELS_OWN:
        shift = own_shift[:, None]
    else:
        shift = (_load(others_shift_ptr + other, there, FULL) * unit)[None, :]
    z = _dot(own, q, PRECISION) * unit + shift
    if not FULL:
        # Nobody is there: a score so low that its loss and slope are nothing beside all others.
        z = tl.where(there[None, :], z, -126.0 if VALUE else 126.0)
    if VALUE:
        decay = tl.exp2(-tl.abs(z))
        whole = 1.0 + decay
        slope = tl.where(z > 0, 1.0, decay) * reciprocal(whole)
        losses += _log2(tl.reduce(_by_parts(whole, OWN, OTHERS), 1, multiply), PRECISION)
        losses += tl.sum(_by_parts(tl.maximum(z, 0.0), OWN, OTHERS), axis=1)
    else:
        slope = reciprocal(1.0 + tl.exp2(z))
    if SUMS:
        slope_sums += tl.sum(_by_parts(slope, OWN, OTHERS), axis=1)
        curvature_sums += tl.sum(_by_parts(slope - slope * slope, OWN, OTHERS), axis=1)
    if PRECISION == "bf16":
        part += _dot(slope, tl.trans(q), PRECISION)
    else:
        # Products of singles want the summed side next to each other in memory.
        turned_at = turned_ptr + column.to(tl.int64)[None, :] * n_others + place[:, None]
        turned = _load(turned_at, there[:, None] & (column < k)[None, :], FULL and EVEN)
        part += _dot(slope, turned, PRECISION)
    return part, losses, slope_sums, curvature_sums


@triton.jit
def _tiles(
    own, own_shift, others_ptr, turned_ptr, others_shift_ptr, first_tile, last_tile, n_others, k,
    PRECISION: tl.constexpr, VALUE: tl.constexpr, SUMS: tl.constexpr, LABELS_OWN: tl.constexpr,
    OWN: tl.constexpr, OTHERS: tl.constexpr, K: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """The product of some tiles, and the parts of the losses, slopes and curvatures of each own row."""
    part = tl.zeros((OWN, K), dtype=tl.float32)
    losses = tl.zeros((OWN, _PARTS), dtype=tl.float32)
    slopes = tl.zeros((OWN, _PARTS), dtype=tl.float32)
    curvatures = tl.zeros((OWN, _PARTS), dtype=tl.float32)
    full = min(last_tile, n_others // OTHERS)
    for tile in range(first_tile, full):
        part, losses, slopes, curvatures = _tile(
            own, own_shift, others_ptr, turned_ptr, others_shift_ptr, tile * OTHERS, n_others, k,
            part, losses, slopes, curvatures,
            PRECISION, VALUE, SUMS, LABELS_OWN, OWN, OTHERS, K, EVEN, True,
        )  # fmt: skip
    # At most one tile is not full, and splits may end beyond it.
    if (last_tile > full) & (full >= first_tile) & (full * OTHERS < n_others):
        part, losses, slopes, curvatures = _tile(
            own, own_shift, others_ptr, turned_ptr, others_shift_ptr, full * OTHERS, n_others, k,
            part, losses, slopes, curvatures,
            PRECISION, VALUE, SUMS, LABELS_OWN, OWN, OTHERS, K, EVEN, False,
        )  # fmt: skip
    return (
        part.to(tl.float64),
        tl.sum(losses.to(tl.float64), axis=1),
        tl.sum(slopes.to(tl.float64), axis=1),
        tl.sum(curvatures.to(tl.float64), axis=1),
    )


@triton.jit
def _sweep_kernel(
    own_ptr, others_ptr, turned_ptr, own_shift_ptr, others_shift_ptr,
    n_own, n_others, k, tiles_each,
    product_ptr, value_ptr, sums_ptr,
    PRECISION: tl.constexpr, VALUE: tl.constexpr, SUMS: tl.constexpr, LABELS_OWN: tl.constexpr,
    OWN: tl.constexpr, OTHERS: tl.constexpr, K: tl.constexpr, EVEN: tl.constexpr,
    FLUSH: tl.constexpr,
):  # fmt: skip
    """One sweep. The intercepts are ``own_shift`` where LABELS_OWN, else ``others_shift``.

    EVEN where the factors have just K columns. With FLUSH, sums move to float64 after so many tiles; without
    (0), at the end.
    """
    number = tl.program_id(0)
    split = tl.program_id(1)
    row = number * OWN + tl.arange(0, OWN)
    column = tl.arange(0, K)
    own = tl.load(
        own_ptr + row.to(tl.int64)[:, None] * k + column[None, :],
        mask=(row < n_own)[:, None] & (column < k)[None, :],
        other=0.0,
    )
    own_shift = tl.zeros((OWN,), dtype=tl.float32)
    if LABELS_OWN:
        own_shift = tl.load(own_shift_ptr + row, mask=row < n_own, other=0.0) * (_LOG2E if VALUE else -_LOG2E)
    begin = split * tiles_each
    if FLUSH == 0:
        total, losses, slopes, curvatures = _tiles(
            own, own_shift, others_ptr, turned_ptr, others_shift_ptr, begin, begin + tiles_each, n_others, k,
            PRECISION, VALUE, SUMS, LABELS_OWN, OWN, OTHERS, K, EVEN,
        )  # fmt: skip
    else:
        total = tl.zeros((OWN, K), dtype=tl.float64)
        losses = tl.zeros((OWN,), dtype=tl.float64)
        slopes = tl.zeros((OWN,), dtype=tl.float64)
        curvatures = tl.zeros((OWN,), dtype=tl.float64)
        for group in range(0, tiles_each, FLUSH):
            more = _tiles(
                own, own_shift, others_ptr, turned_ptr, others_shift_ptr,
                begin + group, begin + min(group + FLUSH, tiles_each), n_others, k,
                PRECISION, VALUE, SUMS, LABELS_OWN, OWN, OTHERS, K, EVEN,
            )  # fmt: skip
            total += more[0]
            losses += more[1]
            slopes += more[2]
            curvatures += more[3]
    at = split.to(tl.int64) * n_own + row
    tl.store(
        product_ptr + at[:, None] * k + column[None, :],
        total,
        mask=(row < n_own)[:, None] & (column < k)[None, :],
    )
    if VALUE:
        losses = tl.where(row < n_own, losses, 0.0) * _LN2
        tl.store(value_ptr + split * tl.num_programs(0) + number, tl.sum(losses, axis=0))
    if SUMS:
        tl.store(sums_ptr + 2 * split.to(tl.int64) * n_own + row, slopes, mask=row < n_own)
        tl.store(sums_ptr + (2 * split.to(tl.int64) + 1) * n_own + row, curvatures, mask=row < n_own)


@on_its_device
def _sweep(
    own: Tensor,
    others: Tensor,
    shifts: Tensor,
    precision: str,
    tiles: Tiles | None,
    *,
    value: bool,
    sums: bool,
    labels_own: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The product, and the value's and the labels' parts (empty where they were not asked for)."""
    shape = TILES[precision] if tiles is None else tiles
    device, (n_own, k), n_others = own.device, own.shape, len(others)
    programs = triton.cdiv(n_own, shape.own)
    n_tiles = triton.cdiv(n_others, shape.others)
    splits = max(1, min(triton.cdiv(_PROGRAMS, programs), n_tiles // _FEWEST_TILES))
    splits = max(splits, triton.cdiv(n_tiles, _MOST_TILES))
    tiles_each = triton.cdiv(n_tiles, splits)
    product = torch.empty((splits, n_own, k), dtype=torch.float64, device=device)
    of_value = torch.empty(splits * programs if value else 0, dtype=torch.float64, device=device)
    of_labels = torch.empty((splits, 2, n_own) if sums else (0,), dtype=torch.float64, device=device)
    turned = others if precision == "bf16" else others.T.contiguous()
    width = max(16, triton.next_power_of_2(k))
    _sweep_kernel[(programs, splits)](
        own, others, turned, shifts, shifts, n_own, n_others, k, tiles_each, product, of_value, of_labels,
        PRECISION=precision, VALUE=value, SUMS=sums, LABELS_OWN=labels_own,
        OWN=shape.own, OTHERS=shape.others, K=width, EVEN=width == k, FLUSH=shape.flush,
        num_warps=shape.warps, num_stages=shape.stages,
    )  # fmt: skip
    return product[0] if splits == 1 else torch.sum(product, dim=0), of_value, of_labels


def left_sweep(
    P: Tensor, Q: Tensor, b: Tensor, precision: str, tiles: Tiles | None = None, *, value: bool = True
) -> tuple[float, Tensor]:
    """The value (0 where it is not wanted) and ``S Q``."""
    product, of_value, _ = _sweep(P, Q, b, precision, tiles, value=value, sums=False, labels_own=False)
    return (float(torch.sum(of_value)) if value else 0.0), product


def right_sweep(
    P: Tensor, Q: Tensor, b: Tensor, precision: str, tiles: Tiles | None = None, *, sums: bool = True
) -> tuple[Tensor, Tensor]:
    """``Sᵀ P``, and the labels' sums of slopes and curvatures (empty where they are not wanted)."""
    product, _, of_labels = _sweep(Q, P, b, precision, tiles, value=False, sums=sums, labels_own=True)
    return product, torch.sum(of_labels, dim=0) if sums else of_labels
