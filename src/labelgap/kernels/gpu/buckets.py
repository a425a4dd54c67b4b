"""Counts of scores in buckets on a device, for the search of the exact threshold.

Buckets follow the order of the scores and split no ties: a bucket is what lies between two neighbouring
numbers of a sorted sample. Which buckets are used changes how much is left to be sorted, and never the result
(:mod:`labelgap.thresholds.narrowing`), so that it is that of the CPU bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap.kernels.gpu.device import block_bytes
from labelgap.kernels.gpu.losses import Tensor

# Scores for each bucket that the edges of the buckets are taken from.
_SAMPLED = 16
# Buckets at least and at most, and entries for each of them in between. What they leave is sorted on the CPU,
# which takes longer than to count in more of them; their numbers have 16 bits.
_FEWEST_BUCKETS, _MOST_BUCKETS, _IN_BUCKET = 1 << 12, 1 << 16, 1 << 10


def entries_on_device(scores: Tensor, values: Any, groups: Any, n_groups: int) -> DeviceEntries:
    """Entries whose scores are on a device; values and groups are sent there."""
    if scores.dtype not in (torch.float32, torch.float64):
        scores = scores.to(
            torch.float32 if scores.dtype in (torch.float16, torch.bfloat16) else torch.float64
        )
    there = scores.device
    groups = None if groups is None else torch.as_tensor(groups, device=there)
    return DeviceEntries(scores.contiguous(), torch.as_tensor(values, device=there), groups, n_groups)


class DeviceEntries:
    """Scores, values (0 or 1) and groups (None: one group) of many entries, all on one device."""

    def __init__(self, scores: Tensor, values: Tensor, groups: Tensor | None, n_groups: int) -> None:
        self._scores, self._values, self._groups, self._n_groups = scores, values, groups, n_groups
        self.size = scores.numel()
        self.most_buckets = max(_FEWEST_BUCKETS, min(self.size // _IN_BUCKET, _MOST_BUCKETS))
        self._edges: Tensor | None = None

    def highest(self) -> float:
        """The highest score; NaN where one of them is."""
        return float(torch.max(self._scores))

    def _blocks(self) -> list[slice]:
        step = max(1, block_bytes(self._scores.device) // 32)
        return [slice(start, min(start + step, self.size)) for start in range(0, self.size, step)]

    def _buckets(self, here: slice) -> Tensor:
        assert self._edges is not None
        return torch.bucketize(self._scores[here], self._edges, right=True, out_int32=True)

    def counts(self, n_buckets: int) -> NDArray[np.int32]:
        """Positives and negatives of every bucket and group (buckets x groups x 2)."""
        # A step that shares no factor with most lengths; the sample decides about speed alone.
        step = max(1, self.size // (_SAMPLED * n_buckets))
        sample = torch.sort(self._scores[::step]).values
        places = torch.arange(1, n_buckets, device=sample.device) * len(sample) // n_buckets
        self._edges = torch.unique(sample[places])
        width = 2 * self._n_groups
        total = torch.zeros(n_buckets * width, dtype=torch.int64, device=sample.device)
        if self._groups is None:
            for here in self._blocks():
                scores, yes = self._scores[here], self._values[here] == 1
                for place, of_class in enumerate((scores[yes], scores[~yes])):
                    total[place::width][: len(self._edges) + 1] += self._counts_of(of_class)
            return _counted(total, n_buckets, 1)
        for here in self._blocks():
            key = self._buckets(here).to(torch.int64) * width + (self._values[here] != 1)
            key += 2 * self._groups[here]
            total += torch.bincount(key, minlength=len(total))
        return _counted(total, n_buckets, self._n_groups)

    def _counts_of(self, scores: Tensor) -> Tensor:
        """How many scores lie in each bucket. To sort them is faster than to count them one by one."""
        below = torch.searchsorted(torch.sort(scores).values, self._edges)
        return torch.diff(below, prepend=below.new_zeros(1), append=below.new_full((1,), len(scores)))

    def near(self, marked: NDArray[np.bool_]) -> tuple[Any, Any, Any, Any]:
        """Scores, values, groups and buckets of the entries in marked buckets, as arrays of the host."""
        wanted = torch.from_numpy(marked).to(self._scores.device)
        found: list[list[NDArray[Any]]] = [[], [], [], []]
        for here in self._blocks():
            buckets = self._buckets(here)
            kept = torch.nonzero(wanted[buckets])[:, 0]
            groups = buckets[:0] if self._groups is None else self._groups[here][kept]
            parts = self._scores[here][kept], self._values[here][kept], groups, buckets[kept]
            for place, part in zip(found, parts, strict=True):
                place.append(part.cpu().numpy())
        scores, values, in_groups, of_entries = map(np.concatenate, found)
        return scores, values.astype(np.int8), in_groups.astype(np.int32), of_entries.astype(np.uint16)

    def highest_below(self, above: float) -> float:
        """The highest score below another one, or NaN where there is none."""
        best = torch.full((), -torch.inf, dtype=self._scores.dtype, device=self._scores.device)
        found = torch.zeros((), dtype=torch.bool, device=best.device)
        for here in self._blocks():
            scores = self._scores[here]
            below = scores < above
            best = torch.maximum(best, torch.max(torch.where(below, scores, -torch.inf)))
            found = found | torch.any(below)
        return float(best) if bool(found) else float("nan")


def _counted(total: Tensor, n_buckets: int, n_groups: int) -> NDArray[np.int32]:
    return np.asarray(total.view(n_buckets, n_groups, 2).cpu().numpy(), dtype=np.int32)
