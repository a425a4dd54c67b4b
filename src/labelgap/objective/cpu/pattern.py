"""The entries of Ω laid out both by row and by label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entries import csr_product, csr_product_pair, label_order
from labelgap.kernels.threads import map_in_order

# Entries that are put in order at a time.
_BLOCK = 1 << 18


class EntryPattern:
    """Positions ``(i, j)`` in row order, with the permutation that puts them in label order."""

    def __init__(self, indptr: NDArray[Any], indices: NDArray[Any], n_labels: int) -> None:
        self.indptr = np.ascontiguousarray(indptr, dtype=np.int64)
        self.indices = np.ascontiguousarray(indices, dtype=np.int32)
        self.n_rows, self.n_labels = len(self.indptr) - 1, n_labels
        # Within a label the rows stay in order, so that sums are repeatable.
        self.label_indptr, self.by_label, self.label_rows = label_order(self.indptr, self.indices, n_labels)

    def __len__(self) -> int:
        return len(self.indices)

    def times(self, data: Floats, M: Floats) -> Floats:
        """``S M`` with S the sparse matrix that has ``data`` on this pattern."""
        return csr_product(self.indptr, self.indices, data, M)

    def columns(self, data: Floats, start: int, stop: int) -> Floats:
        """The columns of S from ``start`` to ``stop``, dense."""
        part = slice(self.label_indptr[start], self.label_indptr[stop])
        entries = self.by_label[part]
        dense = np.zeros((self.n_rows, stop - start))
        dense[self.label_rows[part], self.indices[entries] - start] = data[entries]
        return dense

    def transposed_times(self, data: Floats, M: Floats) -> Floats:
        """``Sᵀ M``."""
        return self.transposed_times_ordered(self.in_label_order(data), M)

    def in_label_order(self, data: Floats) -> Floats:
        """The data as the labels meet them."""
        ordered = np.empty_like(data)

        def work(block: slice) -> None:
            np.take(data, self.by_label[block], out=ordered[block], mode="clip")

        map_in_order(work, [slice(s, s + _BLOCK) for s in range(0, len(data), _BLOCK)])
        return ordered

    def transposed_times_ordered(self, by_label: Floats, M: Floats) -> Floats:
        """``Sᵀ M`` for data that are in the order of the labels already."""
        return csr_product(self.label_indptr, self.label_rows, by_label, M)

    def transposed_times_pair(self, data: Floats, M: Floats, data2: Floats, M2: Floats) -> Floats:
        """``Sᵀ M + S₂ᵀ M₂``."""
        return csr_product_pair(
            self.label_indptr, self.label_rows, data[self.by_label], M, data2[self.by_label], M2
        )

    def label_sums(self, data: Floats) -> Floats:
        """Sum of ``data`` per label."""
        sums = np.bincount(self.indices, weights=data, minlength=self.n_labels)
        return sums.astype(np.float64, copy=False)
