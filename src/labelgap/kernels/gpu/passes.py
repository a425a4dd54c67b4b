"""One pass over the entries that gives everything a step asks for: losses, slopes, and their products.

The row pass scores each entry and gives the value, the slopes and ``G Q``. The label pass scores the entries
again, from the side of the labels, and gives ``Gᵀ P`` and each label's sums: that costs less than to bring
the slopes into another order, because the factors have to be gathered in either case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch

from labelgap.kernels.gpu.device import runs_triton
from labelgap.kernels.gpu.losses import Tensor, TorchLoss
from labelgap.kernels.gpu.pattern import Compressed, TensorPattern

# Entries whose losses are computed at a time.
_BLOCK = 1 << 24
# Columns of factors, at most, whose rows the fused kernels hold in registers; wider ones take several passes.
_WIDEST = 512


class EntryData(NamedTuple):
    """What is known of each entry, in one order."""

    targets: Tensor
    weights: Tensor | None
    """Already divided by the total; None where all weights are ``weight``."""
    offsets: Tensor | None
    weight: float


class RowPass(NamedTuple):
    """Results of a pass from the side of the rows."""

    low_rank: Tensor
    """``p_i · q_j`` at each entry."""
    value: float
    slopes: Tensor
    product: Tensor
    """``G Q``."""


class LabelPass(NamedTuple):
    """Results of a pass from the side of the labels."""

    product: Tensor
    """``Gᵀ P``."""
    sums: Tensor
    """Of each label's positive slopes, negative slopes and curvatures (3 x L)."""


@dataclass
class WeightedEntries:
    """``Σ ω_e ℓ(z_e + o_e, y_e) / total`` over a pattern, with the same data label by label."""

    loss: TorchLoss
    pattern: TensorPattern
    data: EntryData

    @cached_property
    def by_label(self) -> EntryData:
        targets, weights, offsets = (
            None if part is None else self.pattern.in_label_order(part) for part in self.data[:3]
        )
        return EntryData(targets, weights, offsets, self.data.weight)

    @cached_property
    def constant(self) -> float:
        """What the kernels' losses leave out, because it depends on the targets alone."""
        if self.loss.of_targets is None:
            return 0.0
        total = []
        for here in blocks(len(self.pattern)):
            left_out = self.loss.of_targets(self.data.targets[here].to(torch.float64))
            total.append(torch.sum(self._weighted(left_out, here)))
        return added(total)

    def row_pass(self, P: Tensor, Q: Tensor, intercept: Tensor | None) -> RowPass:
        by_row = self.pattern.by_row
        if _fits_kernel(P):
            from labelgap.kernels.gpu import triton_entries

            found = triton_entries.loss_pass(by_row, P, Q, self.data, self.loss.code, others_shift=intercept)
            assert found.low_rank is not None
            assert found.value is not None
            return RowPass(found.low_rank, found.value + self.constant, found.slopes, found.product)
        low_rank = by_row.dots(P, Q)
        value, slopes = self.value_and_slopes(low_rank, intercept)
        return RowPass(low_rank, value, slopes, by_row.product(slopes, Q))

    def label_pass(
        self, P: Tensor, Q: Tensor, intercept: Tensor | None, low_rank: Tensor, slopes: Tensor
    ) -> LabelPass:
        """``low_rank`` and ``slopes`` are those of the row pass; only plain torch has a use for them."""
        by_label = self.pattern.by_label
        if _fits_kernel(P):
            from labelgap.kernels.gpu import triton_entries

            found = triton_entries.loss_pass(
                by_label,
                Q,
                P,
                self.by_label,
                self.loss.code,
                own_shift=intercept,
                entries_wanted=False,
                sums=True,
            )
            return LabelPass(found.product, found.sums)
        ordered = self.pattern.in_label_order(slopes)
        sums = [
            by_label.sums(torch.clamp(ordered, min=0)),
            by_label.sums(torch.clamp(ordered, max=0)),
            self.pattern.label_sums(self.curvature(low_rank, intercept)),
        ]
        return LabelPass(by_label.product(ordered, P), torch.stack(sums))

    def _scores(self, low_rank: Tensor, intercept: Tensor | None, here: slice) -> Tensor:
        z = low_rank[here]
        if intercept is not None:
            z = z + intercept[self.pattern.by_row.indices[here]]
        return z if self.data.offsets is None else z + self.data.offsets[here]

    def _weighted(self, part: Tensor, here: slice) -> Tensor:
        weights = self.data.weights
        return part * (self.data.weight if weights is None else weights[here])

    def value_and_slopes(self, low_rank: Tensor, intercept: Tensor | None) -> tuple[float, Tensor]:
        slopes, total = torch.empty_like(low_rank), []
        for here in blocks(len(low_rank)):
            z = self._scores(low_rank, intercept, here)
            value, slope, _ = self.loss.derivatives(z, self.data.targets[here].to(z.dtype))
            slopes[here] = self._weighted(slope, here)
            total.append(torch.sum(self._weighted(value, here), dtype=torch.float64))
        return added(total), slopes

    def curvature(self, low_rank: Tensor, intercept: Tensor | None) -> Tensor:
        curvature = torch.empty_like(low_rank)
        for here in blocks(len(low_rank)):
            z = self._scores(low_rank, intercept, here)
            curved = self.loss.derivatives(z, self.data.targets[here].to(z.dtype))[2]
            curvature[here] = self._weighted(curved, here)
        return curvature

    def conjugate(self, slopes: Tensor, scale: float) -> float:
        """``f*(scale · G)``, in double precision."""
        data, total = self.data, []
        for here in blocks(len(self.pattern)):
            weight = data.weight if data.weights is None else data.weights[here].to(torch.float64)
            G = slopes[here].to(torch.float64)
            conjugate = self.loss.conjugate(scale * G / weight, data.targets[here].to(torch.float64))
            total.append(torch.sum(conjugate * weight))
            if data.offsets is not None:
                # The conjugate of z ↦ ℓ(z + o) is ℓ*(a) − a o.
                total.append(-scale * torch.sum(G * data.offsets[here].to(torch.float64)))
        return added(total)


class PairPass(NamedTuple):
    """Results of a pass with curvature."""

    product: Tensor
    sums: Tensor
    """Of the curved directions in each row."""


def pair_pass(
    entries: Compressed,
    own: Tensor,
    own_step: Tensor,
    others: Tensor,
    others_step: Tensor,
    curvature: Tensor,
    slopes: Tensor,
    *,
    own_shift: Tensor | None = None,
    others_shift: Tensor | None = None,
) -> PairPass:
    """``Σ_j e_ij others_j + g_ij others_step_j`` with e = curvature · the change of the score."""
    if _fits_kernel(own):
        from labelgap.kernels.gpu import triton_pairs

        found = triton_pairs.pair_pass(
            entries,
            (own, own_step, others, others_step),
            (curvature, slopes),
            own_shift=own_shift,
            others_shift=others_shift,
        )
        return PairPass(*found)
    change = entries.dots(own_step, others) + entries.dots(own, others_step)
    if others_shift is not None:
        change += others_shift[entries.indices]
    if own_shift is not None:
        change += torch.repeat_interleave(own_shift, entries.counts, output_size=len(entries))
    curved = curvature * change
    product = entries.product(curved, others) + entries.product(slopes, others_step)
    return PairPass(product, entries.sums(curved))


def _fits_kernel(factor: Tensor) -> bool:
    return runs_triton(factor) and factor.shape[1] <= _WIDEST


def blocks(length: int, step: int = _BLOCK) -> list[slice]:
    """Entries some at a time."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def added(parts: list[Any]) -> float:
    """Numbers that are still on the device, added up there and fetched once."""
    return float(torch.sum(torch.stack(parts))) if parts else 0.0
