"""The squared loss over all n·L entries, where an entry without a label is a no of less weight.

    f(Z) = 1/N [ Σ_Ω ω_ij (z_ij − t_ij)² + w Σ_others (z_ij + 1)² ],   t = 1 for a yes and −1 for a no

is the sum of ``w (z + 1)²`` over all entries, which needs no entries at all
(:mod:`labelgap.objective.cpu.gram`), and of a correction at the observed ones. So everything costs O(|Ω| k +
(n + L) k²).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.kernels.entries import EntryPattern, sampled_product
from labelgap.labels import ObservedLabels
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.entries import EntryGradient, EntryPoint, EntryTerm
from labelgap.objective.cpu.gram import GramPoint, GramTerm, LowRankGradient
from labelgap.objective.cpu.rowwise_silence import SilenceRowwise
from labelgap.objective.cpu.working_factors import SideModel
from labelgap.objective.frame import Frame
from labelgap.objective.moments import SilenceMoments
from labelgap.objective.parts import ProblemSettings
from labelgap.objective.protocol import Factors, Point, Rowwise, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint

# Entries, and rows or labels, that a small problem has at most.
_SMALL, _SHORT_SIDE = 1 << 20, 512


def is_small(shape: tuple[int, int]) -> bool:
    """Whether the matrix of a problem may be formed, though few of its entries are observed."""
    return shape[0] * shape[1] <= _SMALL and min(shape) <= _SHORT_SIDE


class ObservedCorrection:
    """``Σ (ω (z − t)² − w (z + 1)²) / N`` over the observed entries, an entry function."""

    def __init__(self, targets: Floats, weights: Floats, silence: float, total: float) -> None:
        self.targets, self.weights, self.silence, self.total = targets, weights, silence, total

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        missed, plain = self.weights * (z - self.targets), self.silence * (z + 1)
        value = float(missed @ (z - self.targets) - plain @ (z + 1)) / self.total
        return value, np.asarray(2.0 / self.total * (missed - plain))

    def curvature(self, z: Floats) -> Floats:
        return np.asarray(2.0 / self.total * (self.weights - self.silence))

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        """None: only together with the other entries is there one."""
        return float("inf")


class SilenceObjective(SumObjective):
    """The weighted squared loss over all entries of some rows."""

    def __init__(
        self, every: GramTerm, observed: EntryTerm, correction: ObservedCorrection, frame: Frame
    ) -> None:
        super().__init__([every, observed])
        self.may_form = self.may_form or is_small(self.shape)
        self.every, self.observed, self.correction, self.frame = every, observed, correction, frame

    def starting_intercept(self) -> Floats:
        return self.frame.starting_intercept.copy()

    def at(self, factors: Factors, product: Floats | None = None) -> Point:
        return SilencePoint(self, [term.at(factors, product) for term in self.terms], factors)

    def rowwise(self, dtype: Any) -> Rowwise | None:
        design, correction = self.every.design, self.correction
        if not all(map(SideModel.fits, (design.rows, design.columns))):
            return None
        return SilenceRowwise(
            design,
            self.observed.pattern,
            correction.targets,
            correction.weights,
            correction.silence,
            correction.total,
            dtype,
            has_intercept=self.has_intercept,
        )


class SilencePoint(SumPoint):
    """A :class:`SilenceObjective` at one place; all but the dual is the sum of its terms."""

    def __init__(self, objective: SilenceObjective, parts: Sequence[Point], factors: Factors) -> None:
        super().__init__(objective, parts, factors)
        self._objective = objective
        # No loss is negative, so nothing cancels in their sum.
        self.size = self.value

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        every, observed = self.parts
        assert isinstance(every, GramPoint)
        assert isinstance(observed, EntryPoint)
        objective = self._objective
        left, right = 2.0 / every.term.total * every.P1, every.Q1.copy()
        if balanced and objective.has_intercept:
            up, down = self.signed_label_sums() if sums is None else sums
            assert objective.frame.n_counted is not None
            # Spread evenly over each label's entries; the last column of Q' belongs to the ones in P'.
            right[:, -1] -= (up + down) * every.term.total / (2 * np.maximum(objective.frame.n_counted, 1))
        low_rank = LowRankGradient(every.term.design, left, right, every.term.total)
        return SilenceGradient(
            objective, low_rank, EntryGradient(objective.observed, observed.entry_gradient)
        )

    def with_intercept(self, intercept: Floats) -> Point:
        parts = [part.with_intercept(intercept) for part in self.parts]
        return SilencePoint(self._objective, parts, self.factors._replace(intercept=intercept))

    def beyond(self, previous: Point, step: float) -> Point:
        moved = super().beyond(previous, step)
        assert isinstance(moved, SumPoint)
        return SilencePoint(self._objective, moved.parts, moved.factors)


class SilenceGradient(SumGradient):
    """G: a low-rank part over all entries and a sparse one on the observed entries."""

    def __init__(
        self, objective: SilenceObjective, low_rank: LowRankGradient, observed: EntryGradient
    ) -> None:
        super().__init__([low_rank, observed])
        self._objective = objective

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        """``Σ N g²/(4ω) + g t`` with g = scale · G, over all entries less the low-rank part at the observed.

        An entry of weight ω and target t contributes ``ω (z − t)²/N``; the entries without a label have ω = w
        and t = −1.
        """
        low_rank, sparse = self.parts
        assert isinstance(low_rank, LowRankGradient)
        assert isinstance(sparse, EntryGradient)
        correction, pattern = self._objective.correction, self._objective.observed.pattern
        silent = scale * sampled_product(
            pattern.indptr, pattern.indices, low_rank.left, np.ascontiguousarray(low_rank.right)
        )
        g = silent + scale * sparse.entries
        quarter = 0.25 * correction.total
        observed = quarter * float(g @ (g / correction.weights)) + float(g @ correction.targets)
        instead = quarter / correction.silence * float(silent @ silent) - float(silent.sum())
        return low_rank.conjugate(scale) + observed - instead


class SilencePart:
    """Rows of which every entry counts: the observed ones with their weights, the others as a no."""

    def __init__(self, rows: Any, settings: ProblemSettings, labels: ObservedLabels) -> None:
        self._rows, self._settings, self._labels = rows, settings, labels
        weights = labels.weights
        self._weights = np.ones(labels.n_observed) if weights is None else np.asarray(weights, np.float64)
        self._targets = np.where(labels.values == 1, 1.0, -1.0)

    def moments(self) -> SilenceMoments:
        labels, n_labels = self._labels, self._labels.shape[1]
        weighted, towards = (
            np.bincount(labels.indices, weights=sums, minlength=n_labels).astype(np.float64)
            for sums in (self._weights, self._weights * self._targets)
        )
        return SilenceMoments(labels.shape[0], labels.label_counts(), weighted, towards)

    def objective(self, frame: Frame) -> Any:
        settings, labels = self._settings, self._labels
        silence = settings.silence_weight
        assert silence is not None
        design: Design = self._rows.design(settings.features, frame.features)
        has_intercept, n_labels = settings.fit_intercept, labels.shape[1]
        every = GramTerm(design, np.arange(n_labels), frame.total / silence, has_intercept=has_intercept)
        correction = ObservedCorrection(self._targets, self._weights, silence, frame.total)
        pattern = EntryPattern(labels.indptr, labels.indices, n_labels)
        observed = EntryTerm(design, pattern, correction, has_intercept=has_intercept)
        return SilenceObjective(every, observed, correction, frame)
