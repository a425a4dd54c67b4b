"""Rows of a data set on a device: their moments, and their objective once the frame is known.

Moments and the frame are computed on the CPU, once for a data set; everything that a solver asks for again
and again runs on the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.kernels.gpu.device import require_memory
from labelgap.kernels.gpu.losses import TORCH_LOSSES, Tensor, TorchLoss, torch_loss
from labelgap.kernels.gpu.passes import EntryData, WeightedEntries
from labelgap.kernels.gpu.pattern import TensorPattern, as_tensor
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.objective.cpu.part import CpuRows, ObservedPart, UnlabelledPart, moved_rows
from labelgap.objective.cpu.score_bound import stiffness_for
from labelgap.objective.frame import FeatureFrame, Frame
from labelgap.objective.moments import FeatureMoments, SecondMoments
from labelgap.objective.parts import FeatureSettings, Part, ProblemSettings, RowBlock
from labelgap.objective.protocol import Objective
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.entries import TensorEntryTerm
from labelgap.objective.torch.features import (
    TensorDense,
    TensorFeatures,
    TensorIdentity,
    TensorSparse,
    TensorStacked,
)
from labelgap.objective.torch.score_bound import TensorBounds
from labelgap.objective.torch.unlabelled import unlabelled_objective

# Bytes that an observed entry takes on the device: its place and value in two orders, its score, slope,
# curvature, and another slope in two orders while a certificate is made.
_BYTES_PER_ENTRY = 64


class TorchRows:
    """The features of some rows, in the coordinates of a frame on the device."""

    def __init__(self, block: RowBlock, device: Any, dtype: Any) -> None:
        # The CPU's rows know the moments, and keep the data as they came.
        self._host, self._X = CpuRows(block), block.X
        self._n_labels = block.labels.shape[1]
        self.n_rows, self._device, self._dtype = self._host.n_rows, device, dtype
        self._design: tuple[FeatureSettings, FeatureFrame, TensorDesign] | None = None

    def moments(self, settings: FeatureSettings) -> FeatureMoments:
        moments = self._host.moments(settings)
        if moments.is_sparse or moments.columns is None:
            return moments
        # A GPU streams an array about thirty times as fast as it gathers as many stored numbers.
        return replace(moments, n_stored=self.n_rows * len(moments.columns.mean))

    def second_moments(self) -> SecondMoments:
        return self._host.second_moments()

    def design(self, settings: FeatureSettings, frame: FeatureFrame) -> TensorDesign:
        """The features of rows and labels in the frame's coordinates; made once for a frame."""
        if self._design is None or self._design[0] is not settings or self._design[1] is not frame:
            rows, labels = self._row_features(settings, frame), self._label_features(settings, frame)
            self._design = settings, frame, TensorDesign(rows, labels, self._device, self._dtype)
        return self._design[2]

    def _row_features(self, settings: FeatureSettings, frame: FeatureFrame) -> TensorFeatures:
        if not settings.own_rows:
            coordinates = frame.coordinates
            assert coordinates is not None
            if coordinates.is_sparse:
                return TensorSparse(self._X, coordinates.scales, self._device, self._dtype)
            return TensorDense(moved_rows(coordinates, self._X), self._device, self._dtype)
        own = self._identity(self.n_rows, self.own_scales(settings, frame))
        if self._X is None:
            return own
        return TensorStacked([own, TensorSparse(self._X, None, self._device, self._dtype)])

    def _label_features(self, settings: FeatureSettings, frame: FeatureFrame) -> TensorFeatures:
        own = self._identity(self._n_labels, frame.label_scales)
        if settings.label_features is None:
            return own
        others = TensorSparse(settings.label_features, None, self._device, self._dtype)
        return TensorStacked([own, others]) if settings.own_labels else others

    def _identity(self, n_rows: int, scales: Floats | None) -> TensorIdentity:
        if scales is None:
            return TensorIdentity(n_rows)
        return TensorIdentity(n_rows, torch.as_tensor(scales, dtype=self._dtype, device=self._device))

    def own_scales(self, settings: FeatureSettings, frame: FeatureFrame) -> Floats | None:
        return self._host.own_scales(settings, frame)

    def gram(self, settings: FeatureSettings, frame: FeatureFrame) -> Floats:
        return self._host.gram(settings, frame)

    def square_length(self, settings: FeatureSettings, frame: FeatureFrame) -> float:
        return self.design(settings, frame).rows.square_length()

    def n_stored(self, settings: FeatureSettings, frame: FeatureFrame) -> int:
        return int(self.design(settings, frame).n_stored)

    def left(self, settings: FeatureSettings, frame: FeatureFrame, A: Any) -> Floats:
        """``P = XA`` as an array of the host, for what becomes of a fit."""
        design = self.design(settings, frame)
        return _host(design.left(design.tensor(A)))

    def right(self, settings: FeatureSettings, frame: FeatureFrame, B: Any) -> Floats:
        design = self.design(settings, frame)
        return _host(design.right(design.tensor(B)))

    def device_scores(
        self, settings: FeatureSettings, frame: FeatureFrame, A: Any, B: Any, b: Any, labels: ObservedLabels
    ) -> Tensor:
        """The scores of the entries of some labels, where they were made."""
        design = self.design(settings, frame)
        P, Q = design.left(design.tensor(A)), design.right(design.tensor(B))
        pattern = TensorPattern(labels.indptr, labels.indices, self._n_labels, self._device)
        scores = pattern.by_row.dots(P, Q) + design.tensor(b)[pattern.by_row.indices]
        return scores if labels.offsets is None else scores + design.tensor(labels.offsets)

    def scores(
        self, settings: FeatureSettings, frame: FeatureFrame, A: Any, B: Any, b: Any, labels: ObservedLabels
    ) -> Floats:
        return _host(self.device_scores(settings, frame, A, B, b, labels))

    def part(
        self, settings: ProblemSettings, block: RowBlock, labels: ObservedLabels, *, thinned: bool
    ) -> Part:
        if settings.flip_rate is None:
            return TorchObservedPart(self, self._host, settings, labels)
        judged = block.labels if block.judged is None else block.judged
        return TorchUnlabelledPart(self, self._host, settings, judged, labels, thinned=thinned)


class TorchBackend:
    """A device that torch knows, and tensors there; see :func:`labelgap.kernels.gpu.device.torch_device`."""

    def __init__(self, device: Any, dtype: Any = torch.float64) -> None:
        self.device, self.dtype = torch.device(device), dtype

    def row_data(self, block: RowBlock) -> TorchRows:
        return TorchRows(block, self.device, self.dtype)


class TorchObservedPart(ObservedPart):
    """Rows with observed labels: ``Σ_Ω ω_ij ℓ(z_ij, y_ij) / total``; moments are those of the CPU's part."""

    def __init__(
        self, rows: TorchRows, host: CpuRows, settings: ProblemSettings, labels: ObservedLabels
    ) -> None:
        super().__init__(host, settings, labels)
        self._on_device = rows

    def objective(self, frame: Frame) -> Objective:
        settings, labels = self._settings, self._labels
        kept = labels if frame.informative.all() else labels.select(frame.informative[labels.indices])
        design = self._on_device.design(settings.features, frame.features)
        bound = settings.score_bound
        loss = tensor_loss(settings.loss)
        require_memory(design.device, _BYTES_PER_ENTRY * kept.n_observed, "The fit to the observed entries")
        pattern = TensorPattern(kept.indptr, kept.indices, labels.shape[1], design.device)
        return TensorEntryTerm(
            design,
            pattern,
            WeightedEntries(loss, pattern, _entry_data(design, kept, frame.total)),
            has_intercept=settings.fit_intercept,
            starting_intercept=frame.starting_intercept,
            bounds=None if bound is None else TensorBounds(design, bound, stiffness_for(frame.total)),
        )


class TorchUnlabelledPart(UnlabelledPart):
    """Rows of which only positives are recorded; every entry counts. Moments are those of the CPU's part."""

    def __init__(
        self,
        rows: TorchRows,
        host: CpuRows,
        settings: ProblemSettings,
        judged: ObservedLabels,
        labels: ObservedLabels,
        *,
        thinned: bool,
    ) -> None:
        super().__init__(host, settings, judged, labels, thinned=thinned)
        self._on_device = rows

    def objective(self, frame: Frame) -> Objective:
        design = self._on_device.design(self._settings.features, frame.features)
        tensor_loss(self._settings.loss)
        return unlabelled_objective(design, self._settings, frame, self._positives, self._held)


def tensor_loss(loss: Loss) -> TorchLoss:
    """The form of a loss on tensors, or an error for one that has none."""
    form = torch_loss(loss)
    if form is None:
        known = ", ".join(sorted(kind().name for kind in TORCH_LOSSES))
        raise InvalidParameterError(
            f"{loss!r} runs on the CPU only; on a GPU there are {known}. Set device='cpu'."
        )
    return form


def _entry_data(design: TensorDesign, labels: ObservedLabels, total: float) -> EntryData:
    is_label = labels.values.dtype == np.int8
    targets = as_tensor(labels.values, design.device, None if is_label else design.dtype)
    weights = None if labels.weights is None else design.tensor(labels.weights) / total
    offsets = None if labels.offsets is None else design.tensor(labels.offsets)
    return EntryData(targets, weights, offsets, 1.0 / total)


def _host(tensor: Tensor) -> Floats:
    return np.asarray(tensor.cpu().numpy(), dtype=np.float64)
