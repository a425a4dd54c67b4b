"""The squared loss over all n·L entries on the CPU, where an entry without a label is a no of less weight.

See :mod:`labelgap.objective.silence`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap._arrays import sums_by_number
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.labels import ObservedLabels
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.entries import EntryTerm
from labelgap.objective.cpu.gram import GramTerm
from labelgap.objective.cpu.rowwise_silence import SilenceRowwise
from labelgap.objective.frame import Frame
from labelgap.objective.moments import SilenceMoments
from labelgap.objective.parts import ProblemSettings
from labelgap.objective.protocol import Rowwise
from labelgap.objective.silence import ObservedCorrection, SilenceObjective


class CpuSilence(SilenceObjective):
    """The objective with Newton steps row by row."""

    def rowwise(self, dtype: Any) -> Rowwise | None:
        design, correction = self.every.design, self.correction
        if not design.has_own_rows:
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


class SilencePart:
    """Rows of which every entry counts: the observed ones with their weights, the others as a no."""

    def __init__(self, rows: Any, settings: ProblemSettings, labels: ObservedLabels) -> None:
        self._rows, self._settings, self._labels = rows, settings, labels
        weights = labels.weights
        # One number stands for all where there are no weights, and a target takes one byte.
        ones = np.broadcast_to(np.float64(1.0), (labels.n_observed,))
        self._weights = ones if weights is None else np.asarray(weights, np.float64)
        self._targets = np.where(labels.values == 1, np.int8(1), np.int8(-1))

    def moments(self) -> SilenceMoments:
        labels, n_labels = self._labels, self._labels.shape[1]
        weights, targets = self._weights, self._targets
        weighted = sums_by_number(labels.indices, n_labels, lambda some: weights[some])
        towards = sums_by_number(labels.indices, n_labels, lambda some: weights[some] * targets[some])
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
        return CpuSilence(every, observed, correction, frame)
