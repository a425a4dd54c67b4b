"""The squared loss over all n·L entries on a device, where an entry without a label is a no of less weight.

The formulas are those of :mod:`labelgap.objective.cpu.silence`: ``w (z + 1)²`` over all entries, which needs
no entries at all, and a correction at the observed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from labelgap.kernels.gpu.device import require_memory
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.objective.cpu.silence import SilencePart, is_small
from labelgap.objective.frame import Frame
from labelgap.objective.protocol import Factors, Point, Rowwise, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.entries import TensorEntryGradient, TensorEntryPoint, TensorEntryTerm
from labelgap.objective.torch.gram import TensorGramPoint, TensorGramTerm, TensorLowRankGradient
from labelgap.objective.torch.rowwise_silence import TensorSilenceRowwise
from labelgap.objective.torch.working_factors import TensorSideModel

# Bytes that a rating takes on the device: its place, target and weight in two orders, its score and slope.
_BYTES_PER_ENTRY = 80


class TensorCorrection:
    """``Σ (ω (z − t)² − w (z + 1)²) / N`` over the observed entries, an entry function."""

    def __init__(self, targets: Tensor, weights: Tensor, silence: float, total: float) -> None:
        self.targets, self.weights, self.silence, self.total = targets, weights, silence, total

    def value_and_gradient(self, z: Tensor) -> tuple[float, Tensor]:
        missed, plain = self.weights * (z - self.targets), self.silence * (z + 1)
        value = float(torch.dot(missed, z - self.targets) - torch.dot(plain, z + 1)) / self.total
        return value, 2.0 / self.total * (missed - plain)

    def curvature(self, z: Tensor) -> Tensor:
        return 2.0 / self.total * (self.weights - self.silence)

    def conjugate(self, gradient: Tensor, scale: float = 1.0) -> float:
        """None: only together with the other entries is there one."""
        return float("inf")


class TensorSilence(SumObjective):
    """The weighted squared loss over all entries of some rows."""

    def __init__(
        self, every: TensorGramTerm, observed: TensorEntryTerm, correction: TensorCorrection, frame: Frame
    ) -> None:
        super().__init__([every, observed])
        self.may_form = self.may_form or is_small(self.shape)
        self.every, self.observed, self.correction, self.frame = every, observed, correction, frame

    def starting_intercept(self) -> Tensor:
        return self.every.design.tensor(self.frame.starting_intercept.copy())

    def at(self, factors: Factors, product: Tensor | None = None) -> Point:
        return TensorSilencePoint(self, [term.at(factors, product) for term in self.terms], factors)

    def rowwise(self, dtype: Any) -> Rowwise | None:
        design, correction = self.every.design, self.correction
        if not all(map(TensorSideModel.fits, (design.rows, design.columns))):
            return None
        return TensorSilenceRowwise(
            design,
            self.observed.pattern,
            correction.targets,
            correction.weights,
            correction.silence,
            correction.total,
            dtype,
            has_intercept=self.has_intercept,
        )


class TensorSilencePoint(SumPoint):
    """A :class:`TensorSilence` at one place; all but the dual is the sum of its terms."""

    def __init__(self, objective: TensorSilence, parts: Sequence[Point], factors: Factors) -> None:
        super().__init__(objective, parts, factors)
        self._objective = objective
        # No loss is negative, so nothing cancels in their sum.
        self.size = self.value

    def score_gradient(
        self, sums: tuple[Tensor, Tensor] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        every, observed = self.parts
        assert isinstance(every, TensorGramPoint)
        assert isinstance(observed, TensorEntryPoint)
        objective, total = self._objective, every.term.total
        left, right = 2.0 / total * every.P1, every.Q1.clone()
        if balanced and objective.has_intercept:
            up, down = self.signed_label_sums() if sums is None else sums
            assert objective.frame.n_counted is not None
            counted = every.term.design.tensor(np.maximum(objective.frame.n_counted, 1))
            # Spread evenly over each label's entries; the last column of Q' belongs to the ones in P'.
            right[:, -1] -= (up + down) * total / (2 * counted)
        low_rank = TensorLowRankGradient(every.term.design, left, right, total)
        sparse = TensorEntryGradient(objective.observed, observed.entry_gradient)
        return TensorSilenceGradient(objective, low_rank, sparse)

    def with_intercept(self, intercept: Tensor) -> Point:
        parts = [part.with_intercept(intercept) for part in self.parts]
        return TensorSilencePoint(self._objective, parts, self.factors._replace(intercept=intercept))

    def beyond(self, previous: Point, step: float) -> Point:
        moved = super().beyond(previous, step)
        assert isinstance(moved, SumPoint)
        return TensorSilencePoint(self._objective, moved.parts, moved.factors)


class TensorSilenceGradient(SumGradient):
    """G: a low-rank part over all entries and a sparse one on the observed entries."""

    def __init__(
        self, objective: TensorSilence, low_rank: TensorLowRankGradient, observed: TensorEntryGradient
    ) -> None:
        super().__init__([low_rank, observed])
        self._objective = objective

    def conjugate(self, scale: float, capacity: Tensor | None = None) -> float:
        """As that of the CPU: over all entries, less the low-rank part at the observed ones."""
        low_rank, sparse = self.parts
        assert isinstance(low_rank, TensorLowRankGradient)
        assert isinstance(sparse, TensorEntryGradient)
        correction, pattern = self._objective.correction, self._objective.observed.pattern
        silent = scale * pattern.by_row.dots(low_rank.left.contiguous(), low_rank.right.contiguous())
        g = silent + scale * sparse.entries
        quarter = 0.25 * correction.total
        observed = quarter * float(torch.dot(g, g / correction.weights)) + float(
            torch.dot(g, correction.targets)
        )
        instead = quarter / correction.silence * float(torch.dot(silent, silent)) - float(silent.sum())
        return low_rank.conjugate(scale) + observed - instead


class TorchSilencePart(SilencePart):
    """Rows of which every entry counts; moments are those of the CPU's part."""

    def objective(self, frame: Frame) -> Any:
        settings, labels = self._settings, self._labels
        silence = settings.silence_weight
        assert silence is not None
        design: TensorDesign = self._rows.design(settings.features, frame.features)
        require_memory(design.device, _BYTES_PER_ENTRY * labels.n_observed, "The fit to the ratings")
        has_intercept, n_labels = settings.fit_intercept, labels.shape[1]
        every = TensorGramTerm(
            design, np.arange(n_labels), frame.total / silence, has_intercept=has_intercept
        )
        targets, weights = design.tensor(self._targets), design.tensor(self._weights)
        correction = TensorCorrection(targets, weights, silence, frame.total)
        pattern = TensorPattern(labels.indptr, labels.indices, n_labels, design.device)
        observed = TensorEntryTerm(design, pattern, correction, has_intercept=has_intercept)
        return TensorSilence(every, observed, correction, frame)
