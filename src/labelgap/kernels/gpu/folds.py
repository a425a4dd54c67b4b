"""Folds of entries on a device: the sort by value and label that spreads them evenly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap.kernels.gpu.device import free_bytes

# Bytes that an entry takes at most while it is sorted: its key, its place, and both once more.
_BYTES_PER_ENTRY = 64


def fits_device(n_entries: int, device: Any) -> bool:
    """Whether there is memory to sort so many entries."""
    return _BYTES_PER_ENTRY * n_entries < free_bytes(device) // 2


def dealt_in_order(
    shuffled: NDArray[Any], labels: NDArray[Any], values: NDArray[Any], k: int, device: Any
) -> NDArray[np.int8]:
    """Folds 0 to k - 1, dealt in turn along the entries by value, then by label, then in a given order.

    ``shuffled`` has the numbers of all entries in that order; k is at most 127. Sorts are stable, so that the
    folds are those of any other stable sort.
    """
    order = torch.as_tensor(shuffled, device=device).to(torch.int64)
    # The last key is sorted by first. Values are few, and a sort of them need not move much.
    for key in (labels, values):
        found = torch.as_tensor(key, device=device)[order]
        # A sort by bits would tell −0 from 0, which are equal.
        found = found + 0.0 if found.is_floating_point() else found
        order = order[torch.sort(found, stable=True).indices]
    folds = torch.empty(len(order), dtype=torch.int8, device=device)
    folds[order] = (torch.arange(len(order), device=device) % k).to(torch.int8)
    return np.asarray(folds.cpu().numpy())
