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
        cells: LeaveOutCells | None,
        device: Any,
    ) -> None:
        self._metric, self._loss, self._cells = metric, loss, cells
        of_no = None if cells is None else cells.of_no
        self._entries = HeldOutEntries(sweep["values"], sweep["groups"], of_no, device)
        self._sweep = sweep | {"values": self._entries.values, "groups": self._entries.groups}

    @classmethod
    def of(
        cls,
        metric: LinearFractional,
        loss: Loss,
        labels: ObservedLabels,
        cells: LeaveOutCells | None,
        device: Any,
    ) -> DeviceJudge | None:
        """None where the CPU must judge: entries or groups with weights, or a loss without a form there.

        Without ``cells`` there are no leave-out values.
        """
        form, sweep = torch_loss(loss), sweep_settings(labels, metric)
        weighted = (labels.weights, sweep["weights"], sweep["group_weights"])
        if form is None or any(part is not None for part in weighted):
            return None
        return cls(metric, form, sweep, cells, device)

    def judge(self, scores: Tensor) -> tuple[float, float, float, Floats | None]:
        """The metric at its best threshold, that threshold, the mean loss, and the leave-out values."""
        best, cells = sweep_entries(scores, **self._sweep), self._cells
        leave_out = None
        if cells is not None and cells.n_parts >= 2:
            leave_out = cells.values(self._entries.counts(scores, best.threshold, cells.size))
        return best.value, best.threshold, self._entries.mean_loss(self._loss, scores), leave_out

    def judge_at(self, scores: Tensor, threshold: float) -> tuple[float, float]:
        """The metric at a threshold, and the mean loss."""
        tn, fp, fn, tp = self._entries.confusion(scores, threshold, self._sweep["n_groups"]).T
        return self._metric.from_counts(tp, fp, fn, tn), self._entries.mean_loss(self._loss, scores)
