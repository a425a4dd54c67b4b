"""Held-out entries on a device: what a judge of their scores asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap.kernels.gpu.losses import Tensor, TorchLoss
from labelgap.kernels.gpu.passes import added, blocks


class HeldOutEntries:
    """Values (0 or 1), groups (None: one group), and the cell of a table where each entry is counted."""

    def __init__(self, values: Any, groups: Any, cells: Any, device: Any) -> None:
        self.values, self._cells = (torch.as_tensor(part, device=device) for part in (values, cells))
        self.groups = None if groups is None else torch.as_tensor(groups, device=device)

    def counts(self, scores: Tensor, threshold: float, size: int) -> NDArray[np.int64]:
        """Entries in each cell; those whose score reaches the threshold count in the next one."""
        counts = torch.bincount(self._cells + (scores >= threshold), minlength=size)
        return np.asarray(counts.cpu().numpy())

    def mean_loss(self, loss: TorchLoss, scores: Tensor) -> float:
        parts = []
        for here in blocks(len(scores)):
            targets = self.values[here].to(scores.dtype)
            parts.append(torch.sum(loss.derivatives(scores[here], targets)[0], dtype=torch.float64))
        return added(parts) / max(len(scores), 1)
