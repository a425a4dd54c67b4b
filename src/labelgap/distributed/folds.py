"""Folds that every machine draws alike: by a hash of the row, the label and a seed.

A fold of an entry does not depend on the partition that the entry is in, on the other entries, or on the
order of anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labelgap.labels import ObservedLabels

NEVER = -1
"""The fold of an entry that is never held out."""

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class FoldPlan:
    """Which entries are held out together.

    Parameters
    ----------
    n_folds : int
        The numbers that the hash is taken modulo.
    seed : int
    by_row : bool, default False
        Whether the entries of a row are held out together.
    only : int or None, default None
        Hold out the first so many folds only; None for all of them.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense(np.eye(4))
    >>> plan = FoldPlan(5, seed=0)
    >>> whole = plan.folds(labels, np.arange(4))
    >>> half = plan.folds(labels.take_rows([2, 3]), np.array([2, 3]))
    >>> bool(np.array_equal(whole[8:], half))
    True
    """

    n_folds: int
    seed: int
    by_row: bool = False
    only: int | None = None

    @property
    def held_folds(self) -> int:
        """How many folds are held out, one after the other."""
        return self.n_folds if self.only is None else self.only

    def folds(self, labels: ObservedLabels, row_ids: NDArray[np.integer]) -> NDArray[np.int8]:
        """The fold of every entry, −1 where it is never held out; ``row_ids`` number the rows anywhere."""
        rows = mixed(np.asarray(row_ids).astype(np.uint64) + _seeded(self.seed))
        words = np.repeat(rows, labels.row_counts())
        if not self.by_row:
            words = mixed(words ^ mixed(labels.indices.astype(np.uint64) + np.uint64(1)))
        found = (words % np.uint64(self.n_folds)).astype(np.int8)
        return np.where(found < self.held_folds, found, np.int8(NEVER))


def dealt(row_ids: NDArray[np.integer], n_parts: int) -> NDArray[np.int64]:
    """A part from 0 to ``n_parts − 1`` for each row, at random but fixed."""
    words = mixed(np.asarray(row_ids).astype(np.uint64) + _seeded(-1))
    return (words % np.uint64(n_parts)).astype(np.int64)


def drawn(row_ids: NDArray[np.integer], seed: int, share: float) -> NDArray[np.bool_]:
    """Which rows are in a random sample of about that share of all rows.

    Examples
    --------
    >>> [int(drawn(np.arange(1000), 0, share).sum()) for share in (0.0, 0.5, 1.0)]
    [0, 501, 1000]
    """
    words = mixed(np.asarray(row_ids).astype(np.uint64) + _seeded(seed))
    return (words >> np.uint64(11)).astype(np.float64) < share * 2.0**53


def _seeded(seed: int) -> np.uint64:
    return np.uint64(mixed(np.array([seed & (2**64 - 1)], dtype=np.uint64))[0])


def mixed(words: Words) -> Words:
    """The finaliser of splitmix64: every bit of a word changes about half of the others."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))
