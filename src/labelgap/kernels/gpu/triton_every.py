"""Triton's kernels over all n·L entries of the logistic loss: two fused sweeps, nothing of size n x L.

The left sweep gives the value and ``S Q`` with S the slopes σ(z): a program has some rows, meets all labels a
tile at a time, scores the tile, takes the slopes and multiplies them with the tile's factors. The right sweep
does the same from the side of the labels and gives ``Sᵀ P`` and each label's sums. Scores never leave the
registers.

**Special functions bound the speed**, since a GPU makes few of them beside its products. With d = e^−|z| a
loss is ``max(z, 0) + log(1 + d)``, and a whole row of a tile needs one logarithm only: that of the product of
its 1 + d, each times 1/√2 so that the product stays within the range of the type. The slope needs one more,
1/√(1 + d), whose square is 1/(1 + d).

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

_LOG2E = tl.constexpr(1.4426950408889634)
_LN2 = tl.constexpr(0.6931471805599453)
_ROOT_HALF = tl.constexpr(0.7071067811865476)


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
    "float32": Tiles(64, 64, warps=4, stages=2, flush=8),
}
"""The tiles of each precision."""
# Programs at least, where there is work for them: several for each processor of a large GPU.
_PROGRAMS = 512
# Tiles that one program meets at most, and at least where there is a choice.
_MOST_TILES, _FEWEST_TILES = 512, 16


@triton.jit
def _multiply(a, b):
    return a * b


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
def _tile(
    own, own_shift, others_ptr, turned_ptr, others_shift_ptr, first, n_others, k,
    part, losses, slope_sums, curvature_sums,
    PRECISION: tl.constexpr, VALUE: tl.constexpr, SUMS: tl.constexpr, LABELS_OWN: tl.constexpr,
    OTHERS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The sums with those of one more tile, which begins at ``first``."""
    column = tl.arange(0, K)
    other = first + tl.arange(0, OTHERS)
    there = other < n_others
    place = other.to(tl.int64)
    q = tl.load(
        others_ptr + place[None, :] * k + column[:, None],
        mask=there[None, :] & (column < k)[:, None],
        other=0.0,
    )
    z = _dot(own, q, PRECISION)
    if LABELS_OWN:
        z = z + own_shift[:, None]
    else:
        z = z + tl.load(others_shift_ptr + other, mask=there, other=0.0)[None, :]
    # Nobody is there: a score of −∞, whose loss and slope are 0.
    z = tl.where(there[None, :], z, -1e30)
    decay = tl.exp2(-tl.abs(z) * _LOG2E)
    root = tl.rsqrt(1.0 + decay)
    rest = root * root
    slope = tl.where(z > 0, rest, decay * rest)
    if VALUE:
        factors = tl.reduce((1.0 + decay) * _ROOT_HALF, 1, _multiply)
        positive = tl.sum(tl.maximum(z, 0.0), axis=1)
        losses += positive + (tl.log2(factors) + 0.5 * OTHERS) * _LN2
    if SUMS:
        slope_sums += tl.sum(slope, axis=1)
        curvature_sums += tl.sum(decay * rest * rest, axis=1)
    if PRECISION == "bf16":
        part += _dot(slope, tl.trans(q), PRECISION)
    else:
        # Products of singles want the summed side next to each other in memory.
        turned = tl.load(
            turned_ptr + column.to(tl.int64)[None, :] * n_others + place[:, None],
            mask=there[:, None] & (column < k)[None, :],
            other=0.0,
        )
        part += _dot(slope, turned, PRECISION)
    return part, losses, slope_sums, curvature_sums


@triton.jit
def _sweep_kernel(
    own_ptr, others_ptr, turned_ptr, own_shift_ptr, others_shift_ptr,
    n_own, n_others, k, tiles_each,
    product_ptr, value_ptr, sums_ptr,
    PRECISION: tl.constexpr, VALUE: tl.constexpr, SUMS: tl.constexpr, LABELS_OWN: tl.constexpr,
    OWN: tl.constexpr, OTHERS: tl.constexpr, K: tl.constexpr, FLUSH: tl.constexpr,
):  # fmt: skip
    """One sweep. The intercepts are ``own_shift`` where LABELS_OWN, else ``others_shift``.

    With FLUSH, sums move to float64 after so many tiles; without (0), at the end.
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
        own_shift = tl.load(own_shift_ptr + row, mask=row < n_own, other=0.0)
    begin = split * tiles_each
    part = tl.zeros((OWN, K), dtype=tl.float32)
    # Of each own row: losses, slopes and curvatures.
    loss_part = tl.zeros((OWN,), dtype=tl.float32)
    slope_part = tl.zeros((OWN,), dtype=tl.float32)
    curvature_part = tl.zeros((OWN,), dtype=tl.float32)
    if FLUSH == 0:
        for tile in range(tiles_each):
            part, loss_part, slope_part, curvature_part = _tile(
                own, own_shift, others_ptr, turned_ptr, others_shift_ptr, (begin + tile) * OTHERS, n_others,
                k, part, loss_part, slope_part, curvature_part,
                PRECISION, VALUE, SUMS, LABELS_OWN, OTHERS, K,
            )  # fmt: skip
        total = part.to(tl.float64)
        losses = loss_part.to(tl.float64)
        slope_sums = slope_part.to(tl.float64)
        curvature_sums = curvature_part.to(tl.float64)
    else:
        total = tl.zeros((OWN, K), dtype=tl.float64)
        losses = tl.zeros((OWN,), dtype=tl.float64)
        slope_sums = tl.zeros((OWN,), dtype=tl.float64)
        curvature_sums = tl.zeros((OWN,), dtype=tl.float64)
        for group in range(0, tiles_each, FLUSH):
            part = tl.zeros((OWN, K), dtype=tl.float32)
            loss_part = tl.zeros((OWN,), dtype=tl.float32)
            slope_part = tl.zeros((OWN,), dtype=tl.float32)
            curvature_part = tl.zeros((OWN,), dtype=tl.float32)
            for tile in range(group, min(group + FLUSH, tiles_each)):
                part, loss_part, slope_part, curvature_part = _tile(
                    own, own_shift, others_ptr, turned_ptr, others_shift_ptr, (begin + tile) * OTHERS,
                    n_others, k, part, loss_part, slope_part, curvature_part,
                    PRECISION, VALUE, SUMS, LABELS_OWN, OTHERS, K,
                )  # fmt: skip
            total += part.to(tl.float64)
            losses += loss_part.to(tl.float64)
            slope_sums += slope_part.to(tl.float64)
            curvature_sums += curvature_part.to(tl.float64)
    at = split.to(tl.int64) * n_own + row
    tl.store(
        product_ptr + at[:, None] * k + column[None, :],
        total,
        mask=(row < n_own)[:, None] & (column < k)[None, :],
    )
    if VALUE:
        losses = tl.where(row < n_own, losses, 0.0)
        tl.store(value_ptr + split * tl.num_programs(0) + number, tl.sum(losses, axis=0))
    if SUMS:
        tl.store(sums_ptr + 2 * split.to(tl.int64) * n_own + row, slope_sums, mask=row < n_own)
        tl.store(sums_ptr + (2 * split.to(tl.int64) + 1) * n_own + row, curvature_sums, mask=row < n_own)


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
    _sweep_kernel[(programs, splits)](
        own, others, turned, shifts, shifts, n_own, n_others, k, tiles_each, product, of_value, of_labels,
        PRECISION=precision, VALUE=value, SUMS=sums, LABELS_OWN=labels_own,
        OWN=shape.own, OTHERS=shape.others, K=max(16, triton.next_power_of_2(k)), FLUSH=shape.flush,
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
