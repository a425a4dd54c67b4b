"""Sums over all n·L entries of a label matrix on a device, of ``φ(z_ij)`` with ``Z = PQᵀ + 1bᵀ``.

Nothing of size n x L is kept. Where Triton is at hand, one fused sweep gives the value and ``S Q``, and
another one ``Sᵀ P`` with the labels' sums, S being the slopes φ' (:mod:`labelgap.kernels.gpu.triton_every`).
Elsewhere, and in double precision, blocks of scores are made by matrix products.

There are four precisions: "float64", for values and for the certificate; "float32", to the last digit of
that type; and "tf32" and "bf16", whose products have three digits, for steps far from the optimum. Sums over
blocks are in double precision in all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from labelgap.kernels.gpu.device import block_bytes, runs_triton
from labelgap.kernels.gpu.losses import Tensor, TorchLoss
from labelgap.kernels.losses import LOGISTIC

PRECISIONS = ("float64", "float32", "tf32", "bf16")
# Columns of the factors, at most, that the fused kernels hold.
_WIDEST = 256


class LeftSweep(NamedTuple):
    """The value and ``S Q``."""

    value: float
    product: Tensor


class RightSweep(NamedTuple):
    """``Sᵀ P``, and each label's sums of slopes and of curvatures (2 x L)."""

    product: Tensor
    sums: Tensor


class EveryEntry:
    """All entries of ``Z = PQᵀ + 1bᵀ`` with ``φ(z) = ℓ(z, 0)``, in one of the precisions."""

    def __init__(self, loss: TorchLoss, P: Tensor, Q: Tensor, b: Tensor, precision: str = "float64") -> None:
        self.loss, self.precision = loss, precision
        self.given = P, Q, b
        kind = {"float64": torch.float64, "bf16": torch.bfloat16}.get(precision, torch.float32)
        self.P, self.Q = (part.to(kind).contiguous() for part in (P, Q))
        # Losses are not taken in bf16: only factors and slopes are rounded to it.
        self.kind = torch.float64 if precision == "float64" else torch.float32
        self.b = b.to(self.kind)

    @property
    def fused(self) -> bool:
        """Whether the fused kernels run here."""
        fits = self.precision != "float64" and self.loss.code == LOGISTIC and self.P.shape[1] <= _WIDEST
        return fits and runs_triton(self.P)

    def row_blocks(self) -> list[slice]:
        """Rows at a time, by the memory of the device."""
        n, width = len(self.P), max(len(self.Q), 1)
        # Scores, losses, slopes, curvatures and their workings are alive together.
        step = max(1, block_bytes(self.P.device) // (8 * 8 * width))
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    def times(self, rows: Tensor, columns: Tensor) -> Tensor:
        """A product in the chosen precision, as numbers that losses are taken of."""
        with _matmul(self.precision):
            if self.precision == "bf16":
                return (rows.to(torch.bfloat16) @ columns.to(torch.bfloat16)).to(self.kind)
            return rows.to(self.kind) @ columns.to(self.kind)

    def scores(self, rows: slice) -> Tensor:
        """The scores of a block of rows."""
        return self.times(self.P[rows], self.Q.T) + self.b

    def derivatives(self, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        """φ, φ' and φ'' at a block of rows."""
        z = self.scores(rows)
        return self.loss.derivatives(z, z.new_zeros(()))

    def slopes(self, rows: slice) -> Tensor:
        return self.derivatives(rows)[1]

    # -- sweeps --------------------------------------------------------------------------------------------

    def value_and_sums(self) -> tuple[float, Tensor]:
        """The value, and the labels' sums of slopes and curvatures."""
        device = self.P.device
        value = torch.zeros((), dtype=torch.float64, device=device)
        sums = torch.zeros((2, len(self.Q)), dtype=torch.float64, device=device)
        for rows in self.row_blocks():
            values, slope, curvature = self.derivatives(rows)
            value += torch.sum(values, dtype=torch.float64)
            sums[0] += torch.sum(slope, dim=0, dtype=torch.float64)
            sums[1] += torch.sum(curvature, dim=0, dtype=torch.float64)
        return float(value), sums

    def left(self) -> LeftSweep:
        """The value and ``S Q``."""
        if self.fused:
            from labelgap.kernels.gpu import triton_every

            return LeftSweep(*triton_every.left_sweep(self.P, self.Q, self.b, self.precision))
        product = torch.empty((len(self.P), self.Q.shape[1]), dtype=torch.float64, device=self.P.device)
        value = torch.zeros((), dtype=torch.float64, device=self.P.device)
        for rows in self.row_blocks():
            values, slope, _ = self.derivatives(rows)
            value += torch.sum(values, dtype=torch.float64)
            product[rows] = self.times(slope, self.Q).to(torch.float64)
        return LeftSweep(float(value), product)

    def right(self) -> RightSweep:
        """``Sᵀ P``, and the labels' sums."""
        if self.fused:
            from labelgap.kernels.gpu import triton_every

            return RightSweep(*triton_every.right_sweep(self.P, self.Q, self.b, self.precision))
        product = torch.zeros((len(self.Q), self.P.shape[1]), dtype=torch.float64, device=self.P.device)
        sums = torch.zeros((2, len(self.Q)), dtype=torch.float64, device=self.P.device)
        for rows in self.row_blocks():
            _, slope, curvature = self.derivatives(rows)
            product += self.times(slope.T, self.P[rows])
            sums[0] += torch.sum(slope, dim=0, dtype=torch.float64)
            sums[1] += torch.sum(curvature, dim=0, dtype=torch.float64)
        return RightSweep(product, sums)

    def products(self) -> tuple[Tensor, Tensor]:
        """``S Q`` and ``Sᵀ P`` alone, as a gradient of the factors needs them."""
        if self.fused:
            from labelgap.kernels.gpu import triton_every

            given = self.P, self.Q, self.b, self.precision
            left, right = triton_every.left_sweep, triton_every.right_sweep
            return left(*given, value=False)[1], right(*given, sums=False)[0]
        return self.left().product, self.right().product

    def total(self, work: Callable[[slice], tuple[Tensor, ...]]) -> list[Tensor]:
        """The work's results for all blocks of rows, added up in their order, in double precision."""
        added: list[Tensor] | None = None
        for rows in self.row_blocks():
            parts = [part.to(torch.float64) for part in work(rows)]
            added = parts if added is None else [a + part for a, part in zip(added, parts, strict=True)]
        assert added is not None
        return added

    def assembled(self, work: Callable[[slice], tuple[Tensor, ...]]) -> list[Tensor]:
        """The work's first results stacked, the others added up; all in double precision."""
        by_row: list[Tensor] = []

        def others(rows: slice) -> tuple[Tensor, ...]:
            first, *rest = work(rows)
            by_row.append(first.to(torch.float64))
            return tuple(rest)

        rest = self.total(others)
        return [torch.cat(by_row), *rest]


@contextlib.contextmanager
def _matmul(precision: str) -> Iterator[None]:
    """Products of singles in TF32, or not."""
    before: Any = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
