"""The fused sweeps over all entries, in Triton's interpreter or on a GPU, against plain torch in doubles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triton_runs import needs_triton, place

pytestmark = [pytest.mark.torch, needs_triton]

# What a precision may be off by, of the largest number. The interpreter multiplies in full precision.
CLOSE = {"float32": 2e-6, "tf32": 4e-3, "bf16": 3e-2}


def tensors(n: int, n_labels: int, k: int, precision: str) -> tuple[Any, Any, Any]:
    import torch

    rng = np.random.default_rng(n)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    P, Q = (
        torch.as_tensor(rng.standard_normal(shape), device=place()).to(kind)
        for shape in ((n, k), (n_labels, k))
    )
    # Rare labels have intercepts far below 0; some scores are large.
    return P, Q, torch.as_tensor(rng.standard_normal(n_labels) * 3 - 2, device=place()).to(torch.float32)


def close(mine: Any, theirs: Any, precision: str) -> None:
    largest = float(theirs.abs().max())
    assert float((mine - theirs).abs().max()) <= CLOSE[precision] * largest


# Triton's interpreter takes the bits of bf16 for whole numbers in products.
PRECISIONS = ["float32", "tf32", pytest.param("bf16", marks=pytest.mark.gpu)]


def check_sweeps(P: Any, Q: Any, b: Any, precision: str, n_sums: int | None = None) -> None:
    import torch

    from labelgap.kernels.gpu import triton_every
    from labelgap.kernels.gpu.every import EveryEntry
    from labelgap.kernels.gpu.losses import torch_loss
    from labelgap.losses import Logistic

    loss = torch_loss(Logistic())
    assert loss is not None
    exact = EveryEntry(loss, *(part.to(torch.float64) for part in (P, Q, b)))
    left, right = exact.left(), exact.right()
    tiles = triton_every.Tiles(16, 16, warps=4, stages=2, flush=2 if precision == "float32" else 0)
    with np.errstate(over="ignore"):
        value, by_row = triton_every.left_sweep(P, Q, b, precision, tiles)
        by_label, sums = triton_every.right_sweep(P, Q, b, precision, tiles)
        # Products alone come by a shorter way.
        product = triton_every.left_sweep(P, Q, b, precision, tiles, value=False)[1]
        other_product = triton_every.right_sweep(P, Q, b, precision, tiles, sums=False)[0]
    assert value == pytest.approx(left.value, rel=CLOSE[precision])
    for mine in (by_row, product):
        close(mine, left.product, precision)
    for mine in (by_label, other_product):
        close(mine, right.product, precision)
    for mine, theirs in list(zip(sums, right.sums, strict=True))[:n_sums]:
        close(mine, theirs, precision)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_both_sweeps(precision: str) -> None:
    for shape in [(33, 70, 5), (16, 32, 16), (5, 130, 20)]:
        check_sweeps(*tensors(*shape, precision), precision)
    if precision != "tf32":
        # Scores of about ±1000, whose exponentials no single can hold, and rows whose scores are all 0.
        P, Q, b = tensors(20, 40, 16, precision)
        P, Q, b = 16 * P, 16 * Q, 0 * b
        P[:3] = 0
        # Of sums of curvatures, each of them nearly 0 there, single precision has few digits.
        check_sweeps(P, Q, b, precision, n_sums=1)


def test_labels_are_split_among_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    from labelgap.kernels.gpu import triton_every

    P, Q, b = tensors(20, 200, 4, "float32")
    tiles = triton_every.Tiles(16, 16, flush=1)
    monkeypatch.setattr(triton_every, "_FEWEST_TILES", 1)
    monkeypatch.setattr(triton_every, "_PROGRAMS", 1)
    value, whole = triton_every.left_sweep(P, Q, b, "float32", tiles)
    monkeypatch.setattr(triton_every, "_PROGRAMS", 8)
    other, split = triton_every.left_sweep(P, Q, b, "float32", tiles)
    assert other == pytest.approx(value, rel=1e-6)
    close(split, whole, "float32")
