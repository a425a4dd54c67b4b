"""Generated entries on a device: users of very different activity, items of very different popularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from labelgap.kernels.gpu.losses import torch_loss
from labelgap.kernels.gpu.passes import EntryData, WeightedEntries
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.losses import Logistic

RANK, _PLANTED = 64, 8
_BLOCK = 1 << 26


@dataclass
class SkewedEntries:
    """A pattern with values of a planted model of low rank."""

    pattern: TensorPattern
    values: Any

    @property
    def size(self) -> int:
        return len(self.values)

    @classmethod
    def make(cls, device: Any, n_users: int, n_items: int, size: int) -> SkewedEntries:
        """So many entries; an item may be drawn twice for a user."""
        rng = np.random.default_rng(0)
        activity = np.cumsum(rng.lognormal(0.0, 0.9, n_users))
        indptr = np.append(0, np.round(activity / activity[-1] * size)).astype(np.int64)
        generator = torch.Generator(device=device).manual_seed(0)
        popularity = (torch.arange(n_items, device=device, dtype=torch.float64) + n_items / 20) ** -1.5
        order = torch.randperm(n_items, generator=generator, device=device)
        places = torch.cumsum(popularity / popularity.sum(), dim=0).to(torch.float32)
        indices = torch.empty(size, dtype=torch.int32, device=device)
        for start in range(0, size, _BLOCK):
            here = slice(start, min(start + _BLOCK, size))
            drawn = torch.rand(here.stop - start, generator=generator, device=device)
            found = torch.searchsorted(places, drawn).clamp(max=n_items - 1)
            indices[here] = order[found].to(torch.int32)
        pattern = TensorPattern(indptr, indices, n_items, device)
        left, right = (
            torch.randn((n, _PLANTED), generator=generator, device=device) * 0.6 for n in (n_users, n_items)
        )
        bias = 0.7 * torch.randn(n_items, generator=generator, device=device)
        values = torch.empty(size, dtype=torch.int8, device=device)
        z = pattern.by_row.dots(left, right)
        for start in range(0, size, _BLOCK):
            here = slice(start, min(start + _BLOCK, size))
            score = z[here] + bias[indices[here]]
            chance = torch.rand(here.stop - start, generator=generator, device=device)
            values[here] = (chance < torch.sigmoid(score)).to(torch.int8)
        return cls(pattern, values)

    def weighted(self) -> WeightedEntries:
        """The mean logistic loss over the entries."""
        loss = torch_loss(Logistic())
        assert loss is not None
        return WeightedEntries(loss, self.pattern, EntryData(self.values, None, None, 1.0 / self.size))

    def loss(self, dtype: Any) -> tuple[WeightedEntries, Any, Any, Any]:
        """The losses, with factors of the two sides and intercepts."""
        generator = torch.Generator(device=self.pattern.device).manual_seed(1)
        P, Q = (
            torch.randn((n, RANK), generator=generator, device=self.pattern.device).to(dtype) / RANK**0.5
            for n in (self.pattern.n_rows, self.pattern.n_labels)
        )
        b = torch.zeros(self.pattern.n_labels, dtype=dtype, device=self.pattern.device)
        return self.weighted(), P, Q, b
