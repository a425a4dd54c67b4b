"""Scores of whole rows on a device, a block at a time: ``Z = X A Bᵀ + 1bᵀ``, decisions, and best labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.gpu.device import block_bytes, require_memory
from labelgap.kernels.gpu.losses import Tensor


class DeviceScores:
    """A fitted model on a device; results are arrays of the host."""

    def __init__(self, left: Floats, right: Floats, intercept: Floats, device: Any) -> None:
        self._device = device
        n_bytes = 8 * (left.size + right.size + intercept.size)
        require_memory(device, n_bytes, "The model")
        self._left = left
        self._left_there, self._right, self._intercept = (
            torch.as_tensor(np.ascontiguousarray(part), dtype=torch.float64, device=device)
            for part in (left, right, intercept)
        )

    def _rows(self, X: Any, rows: slice) -> Tensor:
        """``X A`` of some rows; a sparse X is multiplied on the host, which sends less."""
        if sp.issparse(X):
            product = np.asarray(X[rows] @ self._left)
            return torch.as_tensor(product, dtype=torch.float64, device=self._device)
        return torch.as_tensor(X[rows], dtype=torch.float64, device=self._device) @ self._left_there

    def blocks(self, X: Any) -> Iterator[tuple[slice, Tensor]]:
        """(rows, scores) of each block, of a size by the memory of the device."""
        width = max(len(self._right), int(X.shape[1]), 1)
        step = max(1, block_bytes(self._device) // (8 * 4 * width))
        for start in range(0, X.shape[0], step):
            rows = slice(start, min(start + step, X.shape[0]))
            yield rows, self._rows(X, rows) @ self._right.T + self._intercept

    def scores(self, X: Any) -> Floats:
        """All scores (n x L)."""
        out = np.empty((X.shape[0], len(self._right)))
        for rows, block in self.blocks(X):
            torch.from_numpy(out[rows]).copy_(block)
        return out

    def _there(self, threshold: float | Floats) -> Tensor:
        return torch.as_tensor(threshold, dtype=torch.float64, device=self._device)

    def decisions(self, X: Any, threshold: float | Floats) -> NDArray[np.int8]:
        """Decisions (n x L), 1 for yes, at one threshold or at one for each label."""
        cut = self._there(threshold)
        out = np.empty((X.shape[0], len(self._right)), dtype=np.int8)
        for rows, block in self.blocks(X):
            torch.from_numpy(out[rows]).copy_(block >= cut)
        return out

    def yes_columns(
        self, X: Any, threshold: float | Floats
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The number of yes in each row of a block, and their columns in order."""
        cut = self._there(threshold)
        for _, block in self.blocks(X):
            yes = block >= cut
            counts = torch.sum(yes, dim=1, dtype=torch.int64)
            yield counts.cpu().numpy(), torch.nonzero(yes)[:, 1].cpu().numpy()

    def top(self, X: Any, n: int) -> tuple[NDArray[np.int64], Floats]:
        """The columns of the n highest scores of each row, best first; equal scores in their order."""
        columns = np.empty((X.shape[0], n), dtype=np.int64)
        scores = np.empty((X.shape[0], n))
        for rows, block in self.blocks(X):
            found, best = top_of_rows(block, n)
            columns[rows], scores[rows] = found.cpu().numpy(), best.cpu().numpy()
        return columns, scores


def top_of_rows(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """As the first n of a stable sort of every row: columns and scores."""
    best, columns = torch.topk(scores, n, dim=1)
    # Equal scores in their order: by column first, then by score in a sort that keeps that order.
    columns, order = torch.sort(columns, dim=1)
    best = torch.gather(best, 1, order)
    best, order = torch.sort(best, dim=1, descending=True, stable=True)
    columns = torch.gather(columns, 1, order)
    # Of scores equal to the last one there may be more than there is a place for.
    tied = torch.sum(scores >= best[:, -1:], dim=1) > n
    if bool(torch.any(tied)):
        rows = torch.nonzero(tied)[:, 0]
        all_best, all_columns = torch.sort(scores[rows], dim=1, descending=True, stable=True)
        best[rows], columns[rows] = all_best[:, :n], all_columns[:, :n]
    return columns, best
