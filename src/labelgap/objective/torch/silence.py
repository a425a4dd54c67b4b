"""The squared loss over all n·L entries on a device, where an entry without a label is a no of less weight.

See :mod:`labelgap.objective.silence`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap.kernels.gpu.device import require_memory
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.objective.cpu.silence import SilencePart
from labelgap.objective.frame import Frame
from labelgap.objective.protocol import Rowwise
from labelgap.objective.silence import ObservedCorrection, SilenceObjective
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.entries import TensorEntryTerm
from labelgap.objective.torch.gram import TensorGramTerm
from labelgap.objective.torch.rowwise_silence import TensorSilenceRowwise
from labelgap.objective.torch.working_factors import TensorSideModel

# Bytes that a rating takes on the device: its place, target and weight in two orders, its score and slope.
_BYTES_PER_ENTRY = 80


class TensorSilence(SilenceObjective):
    """The objective with Newton steps row by row."""

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
        correction = ObservedCorrection(targets, weights, silence, frame.total)
        pattern = TensorPattern(labels.indptr, labels.indices, n_labels, design.device)
        observed = TensorEntryTerm(design, pattern, correction, has_intercept=has_intercept)
        return TensorSilence(every, observed, correction, frame)
