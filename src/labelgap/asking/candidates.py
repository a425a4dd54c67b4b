"""The best entries of many blocks of rows, from which a batch is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats

# Candidates for each entry that is asked for, and their least number.
_FOR_EACH, _FEWEST = 10, 5000
# With a budget per row, a row has up to so many candidates for each entry that may be chosen of it. As it is
# at most half of what there is for each entry asked for, the budget never leaves too few.
_FOR_EACH_OF_ROW = 2


class Candidates:
    """Keeps the entries of the largest worth, of equal ones those that come first."""

    def __init__(self, n: int, n_labels: int, per_row: int | None) -> None:
        self._most, self._n_labels = max(_FOR_EACH * n, _FEWEST), n_labels
        self._of_row = n_labels if per_row is None else min(_FOR_EACH_OF_ROW * per_row, n_labels)
        self._keys = np.empty(0, np.int64)
        self._columns = tuple(np.empty(0) for _ in range(3))

    def add(self, start: int, worth: Floats, gains: Floats, p: Floats, known: NDArray[np.bool_]) -> None:
        """Take what is best of a block (rows x L) whose first row has the number ``start``."""
        may = ~known
        if self._of_row < self._n_labels:
            order = np.argsort(np.where(known, np.inf, -worth), axis=1, kind="stable")[:, : self._of_row]
            first = np.zeros_like(may)
            np.put_along_axis(first, order, True, axis=1)
            may &= first
        places = np.flatnonzero(may)
        self._keys = np.concatenate([self._keys, places + start * self._n_labels])
        here = (part.ravel()[places] for part in (worth, gains, p))
        self._columns = tuple(np.concatenate(pair) for pair in zip(self._columns, here, strict=True))
        if len(self._keys) > self._most:
            kept = np.argsort(-self._columns[0], kind="stable")[: self._most]
            kept.sort()
            self._keys = self._keys[kept]
            self._columns = tuple(column[kept] for column in self._columns)

    def found(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
        """Rows, labels, gains and probabilities, by row and then by label."""
        rows, labels = np.divmod(self._keys, max(self._n_labels, 1))
        _, gains, p = self._columns
        return rows, labels, gains, p


def known_block(labels: Any, start: int, stop: int) -> tuple[NDArray[np.int64], ...]:
    """Row within the block, label and value of each observed entry of the rows from start to stop."""
    first, last = int(labels.indptr[start]), int(labels.indptr[stop])
    counts = np.diff(labels.indptr[start : stop + 1])
    rows = np.repeat(np.arange(stop - start), counts)
    return rows, labels.indices[first:last], labels.values[first:last]
