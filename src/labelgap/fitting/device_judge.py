"""Held-out scores judged on the device where they were made."""

from __future__ import annotations

from typing import Any

from labelgap._types import Floats
from labelgap.kernels.gpu.held_out import HeldOutEntries
from labelgap.kernels.gpu.losses import Tensor, TorchLoss, torch_loss
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.metrics import LinearFractional
from labelgap.metrics.jackknife import LeaveOutCells
from labelgap.thresholds.sweep import sweep_entries, sweep_settings


class DeviceJudge:
    """The metric at its best threshold; values, groups and cells of the entries are on the device."""

    def __init__(
        self,
        metric: LinearFractional,
        loss: TorchLoss,
        sweep: dict[str, Any],
        cells: LeaveOutCells,
        device: Any,
    ) -> None:
        self._metric, self._loss, self._cells = metric, loss, cells
        self._entries = HeldOutEntries(sweep["values"], sweep["groups"], cells.of_no, device)
        self._sweep = sweep | {"values": self._entries.values, "groups": self._entries.groups}

    @classmethod
    def of(
        cls,
        metric: LinearFractional,
        loss: Loss,
        labels: ObservedLabels,
        cells: LeaveOutCells,
        device: Any,
    ) -> DeviceJudge | None:
        """None where the CPU must judge: entries or groups with weights, or a loss without a form there."""
        form, sweep = torch_loss(loss), sweep_settings(labels, metric)
        weighted = (labels.weights, sweep["weights"], sweep["group_weights"])
        if form is None or any(part is not None for part in weighted):
            return None
        return cls(metric, form, sweep, cells, device)

    def judge(self, scores: Tensor) -> tuple[float, float, float, Floats | None]:
        """The metric at its best threshold, that threshold, the mean loss, and the leave-out values."""
        best = sweep_entries(scores, **self._sweep)
        mean_loss = self._entries.mean_loss(self._loss, scores)
        return best.value, best.threshold, mean_loss, self._leave_out(scores, best.threshold)

    def judge_at(self, scores: Tensor, threshold: float) -> tuple[float, float, Floats | None]:
        """The metric at a threshold, the mean loss, and the leave-out values."""
        tn, fp, fn, tp = self._entries.confusion(scores, threshold, self._sweep["n_groups"]).T
        mean_loss = self._entries.mean_loss(self._loss, scores)
        return self._metric.from_counts(tp, fp, fn, tn), mean_loss, self._leave_out(scores, threshold)

    def _leave_out(self, scores: Tensor, threshold: float) -> Floats | None:
        if self._cells.n_parts < 2:
            return None
        return self._cells.values(self._entries.counts(scores, threshold, self._cells.size))
