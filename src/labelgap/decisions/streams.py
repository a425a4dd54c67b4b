"""Probabilities in blocks of rows, as often as they are asked for, and decisions as CSR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.decisions.expected import Totals

Blocks: TypeAlias = Callable[[], Iterable[Floats]]
"""Gives the probabilities of all rows in blocks (rows x L), each time it is called."""

# Probabilities that are kept rather than made again.
_KEPT_ENTRIES = 1 << 22


class Stream:
    """The blocks, and their sums by label."""

    def __init__(self, blocks: Blocks, n_labels: int) -> None:
        self._blocks, self.n_labels = blocks, n_labels
        self._kept: list[Floats] | None = []
        self.n_rows, sums = 0, np.zeros(n_labels)
        for block in blocks():
            self.n_rows += len(block)
            sums += block.sum(axis=0)
            if self._kept is not None:
                self._kept.append(np.ascontiguousarray(block, dtype=np.float64))
                if self.n_rows * n_labels > _KEPT_ENTRIES:
                    self._kept = None
        self.by_label = Totals(sums, np.full(n_labels, float(self.n_rows)))
        self.together = Totals(np.array([float(sums.sum())]), np.array([float(self.n_rows * n_labels)]))

    def __iter__(self) -> Iterator[tuple[int, Floats]]:
        """The number of the first row of each block, and its probabilities."""
        start = 0
        for block in self._blocks() if self._kept is None else self._kept:
            yield start, np.ascontiguousarray(block, dtype=np.float64)
            start += len(block)

    def top(self, count: int, scale: Floats | None = None) -> tuple[NDArray[np.int64], Floats]:
        """The entries of the largest probabilities (times ``scale`` of their label), as numbers, best first.

        Of equal ones, those that come first. Returns their numbers ``row · L + label`` and probabilities.
        """
        keys, kept, worth = np.empty(0, np.int64), np.empty(0), np.empty(0)
        lowest = -np.inf
        for start, block in self:
            here = block if scale is None else block * scale
            places = np.flatnonzero(here > lowest)
            keys = np.concatenate([keys, places + start * self.n_labels])
            kept = np.concatenate([kept, block.ravel()[places]])
            worth = np.concatenate([worth, here.ravel()[places]])
            if len(keys) > 2 * count + (1 << 16):
                order = np.argsort(-worth, kind="stable")[:count]
                order.sort()
                keys, kept, worth = keys[order], kept[order], worth[order]
                lowest = float(worth.min())
        order = np.argsort(-worth, kind="stable")[:count]
        return keys[order], kept[order]


def from_keys(keys: NDArray[np.int64], shape: tuple[int, int]) -> sp.csr_array:
    """The decisions that are yes at the entries with these numbers."""
    rows, columns = np.divmod(np.sort(keys), max(shape[1], 1))
    return from_counts(np.bincount(rows, minlength=shape[0]), columns, shape)


def from_counts(
    counts: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> sp.csr_array:
    """The decisions from the number of yes in each row and their columns, in order."""
    width = np.int32 if max(shape[1], len(columns)) <= np.iinfo(np.int32).max else np.int64
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(width)
    return sp.csr_array((np.ones(len(columns), dtype=np.int8), columns.astype(width), pointers), shape=shape)


def from_chosen(chosen: NDArray[np.int64], shape: tuple[int, int]) -> sp.csr_array:
    """The decisions from the columns of the yes of each row (rows x most, −1 beyond them)."""
    rows, places = np.nonzero(chosen >= 0)
    return from_keys(rows * shape[1] + chosen[rows, places], shape)


def where_lines(stream: Stream, slopes: Floats, intercepts: Floats) -> sp.csr_array:
    """The decisions that are yes where ``slope · p + intercept`` of the label is above 0."""
    counts, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for _, block in stream:
        yes = block * slopes + intercepts > 0
        counts.append(yes.sum(axis=1))
        columns.append(np.nonzero(yes)[1])
    return from_counts(np.concatenate(counts), np.concatenate(columns), (stream.n_rows, stream.n_labels))
