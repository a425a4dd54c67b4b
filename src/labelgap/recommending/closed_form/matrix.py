"""R: the likes divided by powers of the counts of users and items."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap import kernels
from labelgap._types import Floats
from labelgap.recommending.closed_form.settings import ListSettings, Ratings, entries_of
from labelgap.solvers.linalg import wide_product

# The Gram matrix of the shorter side is formed from this density on, if the side has at most so many.
_DENSE, _MOST_FORMED = 1 / 40, 2048
# Entries of R that are made dense at one time.
_BLOCK_ENTRIES = 1 << 22


class ScaledLikes:
    """``R = D_u^(−a) X D_i^(−b)``.

    ``item_counts`` are those of all users where the ratings are those of some; these have no Gram matrix.
    """

    def __init__(
        self, ratings: Ratings, settings: ListSettings, mean: float, item_counts: Floats | None = None
    ) -> None:
        labels = ratings.labels
        entries = entries_of(ratings, settings, mean)
        counts = np.abs(entries)
        user_counts = np.bincount(labels.rows, counts, labels.shape[0]).astype(np.float64)
        every_user = item_counts is None
        if item_counts is None:
            item_counts = np.bincount(labels.indices, counts, labels.shape[1]).astype(np.float64)
        self.user_scale, self.item_scale = (
            count_scale(counts, power)
            for counts, power in ((user_counts, settings.user_power), (item_counts, settings.item_power))
        )
        del counts
        data = entries * np.repeat(self.user_scale, labels.row_counts())
        data *= self.item_scale[labels.indices]
        del entries
        R = sp.csr_array((data, labels.indices, labels.indptr), shape=labels.shape)
        self.shape: tuple[int, int] = R.shape
        self.squares = float(R.data @ R.data)
        self._rows = R.indptr, R.indices, R.data
        # The transpose has no numbers of its own, but the places of those of R.
        numbers = np.arange(R.nnz, dtype=R.indices.dtype)
        places = sp.csr_array((numbers, R.indices, R.indptr), shape=R.shape).tocsc()
        self._columns = places.indptr, places.indices, places.data
        self.example = np.zeros(0, dtype=np.float32)
        self._gram: Floats | None = None
        shorter = min(self.shape)
        if every_user and 0 < shorter <= _MOST_FORMED and R.nnz > _DENSE * self.shape[0] * self.shape[1]:
            self._gram = _gram(R if self.shape[1] <= self.shape[0] else R.T.tocsr()).astype(np.float32)

    def times(self, V: Any) -> Any:
        """``R V``, in the precision of V."""
        return kernels.entries.csr_product(*self._rows, V)

    def transposed_times(self, U: Any) -> Any:
        """``Rᵀ U``."""
        indptr, indices, order = self._columns
        return kernels.entries.csr_product(indptr, indices, self._rows[2], U, order=order)

    def normal(self, V: Any) -> Any:
        """``RᵀR V``, or ``R Rᵀ V`` where R has fewer rows than columns."""
        if self._gram is not None:
            return wide_product(self._gram, V)
        if self.shape[1] <= self.shape[0]:
            return self.transposed_times(self.times(V))
        return self.times(self.transposed_times(V))

    def some_times(self, users: Any, V: Any) -> Any:
        """Some rows of ``R V``."""
        indptr, indices, data = self._rows
        some = sp.csr_array((data, indices, indptr), shape=self.shape)[users]
        return kernels.entries.csr_product(some.indptr, some.indices, some.data, V)


def count_scale(counts: Floats, power: float) -> Floats:
    """``counts^(−power)``, and 1 where nothing is counted.

    Examples
    --------
    >>> count_scale(np.array([0.0, 4.0]), 0.5).tolist()
    [1.0, 0.5]
    """
    return np.where(counts > 0, counts, 1.0) ** -power


def _gram(R: sp.csr_array) -> Floats:
    """``RᵀR``, some rows at a time."""
    total = np.zeros((R.shape[1], R.shape[1]))
    step = max(1, _BLOCK_ENTRIES // R.shape[1])
    for start in range(0, R.shape[0], step):
        block = R[start : start + step].toarray()
        total += wide_product(block.T, block)
    return total
