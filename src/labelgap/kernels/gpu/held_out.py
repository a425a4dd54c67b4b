"""Held-out entries on a device: what a judge of their scores asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap.kernels.gpu.losses import Tensor, TorchLoss
from labelgap.kernels.gpu.passes import added, blocks


class HeldOutEntries:
    """Values (0 or 1), groups (None: one group), and the cell of a table where each entry is counted.

    Without cells there is no such table.
    """

    def __init__(self, values: Any, groups: Any, cells: Any, device: Any) -> None:
        self.values = torch.as_tensor(values, device=device)
        self.groups, self._cells = (
            None if part is None else torch.as_tensor(part, device=device) for part in (groups, cells)
        )

    def counts(self, scores: Tensor, threshold: float, size: int) -> NDArray[np.int64]:
        """Entries in each cell; those whose score reaches the threshold count in the next one."""
        counts = torch.bincount(self._cells + (scores >= threshold), minlength=size)
        return np.asarray(counts.cpu().numpy())

    def confusion(self, scores: Tensor, threshold: float, n_groups: int) -> NDArray[np.int64]:
        """True and false negatives and positives of each group (TN, FP, FN and TP of a row)."""
        total = torch.zeros(4 * n_groups, dtype=torch.int64, device=scores.device)
        for here in blocks(len(scores)):
            cell = 2 * self.values[here].to(torch.int64) + (scores[here] >= threshold)
            if self.groups is not None:
                cell += 4 * self.groups[here].to(torch.int64)
            total += torch.bincount(cell, minlength=len(total))
        return np.asarray(total.view(n_groups, 4).cpu().numpy())

    def mean_loss(self, loss: TorchLoss, scores: Tensor) -> float:
        parts = []
        for here in blocks(len(scores)):
            targets = self.values[here].to(scores.dtype)
            parts.append(torch.sum(loss.derivatives(scores[here], targets)[0], dtype=torch.float64))
        return added(parts) / max(len(scores), 1)
