"""The products over entries by dense blocks: worth it where most of a block is observed.

A matrix product computes a score many times faster than a loop over entries, but it computes all of them. So
there is a fraction of observed entries from which on it wins; ``python -m benchmarks kernels`` measures it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from labelgap._types import Floats, Ints
from labelgap.kernels.options import OPTIONS
from labelgap.kernels.threads import map_in_order

# Parts of the rows whose sums are added up in the end: as many whatever the threads.
_MOST_PARTS = 8
# Cells of a block: it stays in the second cache while its entries are picked.
_BLOCK_ENTRIES = 1 << 17
# The fraction of observed entries from which on blocks win, and the columns that it takes: a sampled product
# has a sum across a vector for each entry, which a sparse one has not.
_FRACTION = 0.4
SAMPLED_COLUMNS, PRODUCT_COLUMNS = 16, 96
# What a cell of a block takes, besides and for each column, where an entry that is added to the sum of its
# label takes 1 for each column: that sum is loaded and stored with every entry.
_CELL_BY_LABEL, _COLUMN_BY_LABEL = 11.0, 0.18


def is_dense(n_entries: int, n_rows: int, n_columns: int) -> bool:
    """Whether so many of the entries are observed that blocks are worth their while."""
    return n_entries > _FRACTION * n_rows * n_columns


def is_dense_by_label(n_entries: int, n_rows: int, n_columns: int, k: int) -> bool:
    """The same for sums of k columns by label (:mod:`labelgap.kernels.scattered`)."""
    return n_entries * k > n_rows * n_columns * (_CELL_BY_LABEL + _COLUMN_BY_LABEL * k)


@njit(**OPTIONS)
def _pick(indptr, indices, scores, out, first):  # type: ignore[no-untyped-def]
    for i in range(scores.shape[0]):
        row = scores[i]
        for e in range(indptr[first + i], indptr[first + i + 1]):
            out[e] = row[indices[e]]


@njit(**OPTIONS)
def _spread(indptr, indices, data, dense, first):  # type: ignore[no-untyped-def]
    for i in range(dense.shape[0]):
        row = dense[i]
        for e in range(indptr[first + i], indptr[first + i + 1]):
            row[indices[e]] = data[e]


def _row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    step = max(1, _BLOCK_ENTRIES // max(n_columns, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def sampled_by_blocks(indptr: Ints, indices: Ints, P: Floats, B: Floats, out: Floats) -> None:
    """``(P Bᵀ)`` at the entries, by way of all scores of some rows at a time."""

    def work(rows: slice) -> None:
        _pick(indptr, indices, P[rows] @ B.T, out, rows.start)

    map_in_order(work, _row_blocks(len(P), len(B)))


def product_by_blocks(indptr: Ints, indices: Ints, data: Floats, M: Floats, out: Floats) -> None:
    """``S M`` for the sparse S, by way of some of its rows made dense."""

    def work(rows: slice) -> None:
        dense = np.zeros((rows.stop - rows.start, len(M)), dtype=M.dtype)
        _spread(indptr, indices, data, dense, rows.start)
        np.matmul(dense, M, out=out[rows])

    map_in_order(work, _row_blocks(len(out), len(M)))


def transposed_by_blocks(indptr: Ints, indices: Ints, data: Floats, M: Floats, n_columns: int) -> Floats:
    """``Sᵀ M`` for the sparse S with so many columns, by way of some of its rows made dense."""
    all_blocks = _row_blocks(len(M), n_columns)
    # The sums of all parts together are no larger than M.
    parts = max(1, min(_MOST_PARTS, len(all_blocks), len(M) // max(n_columns, 1)))
    cuts = [len(all_blocks) * part // parts for part in range(parts + 1)]
    arrays = indptr.astype(np.int64, copy=False), indices.astype(np.int32, copy=False), data

    def work(part: int) -> Floats:
        total = np.zeros((n_columns, M.shape[1]), dtype=M.dtype)
        for rows in all_blocks[cuts[part] : cuts[part + 1]]:
            dense = np.zeros((rows.stop - rows.start, n_columns), dtype=M.dtype)
            _spread(*arrays, dense, rows.start)
            total += dense.T @ M[rows]
        return total

    return np.asarray(sum(map_in_order(work, range(parts))))
