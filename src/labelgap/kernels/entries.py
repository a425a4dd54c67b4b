"""Kernels over the observed entries: sampled products and sparse-times-factor products.

Rows of the factors are contiguous, so every inner loop runs over ``k`` neighbouring numbers. Nothing of
size n x L appears: each kernel touches the entries of Ω and the factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap._arrays import read_only
from labelgap._types import Floats, Ints
from labelgap.kernels.options import INLINED, OPTIONS, compiled
from labelgap.kernels.threads import map_in_order, run_over_rows
from labelgap.kernels.vectors import LINE_BYTES, VECTOR_BYTES, gathered_dots, gathered_sum, lanes_of

# A constant that is written out where a function is called has a type of its own, for which the function is
# compiled again. This one has not.
_ZERO = np.int64(0)

# Below this many columns there is nothing to vectorise.
_FEW_COLUMNS = 4
# Entries of a row that are added up at a time in single precision. One sum of very many would lose digits
# that certificates rely on.
_ADDED_IN_SINGLE = 1 << 12
# Times that a row is gathered, on average, from which on the table is moved to where a cache line begins.
_MANY_TIMES = 4

# Parts of the rows whose sums are added up in the end: as many whatever the threads.
_MOST_PARTS = 8
# Cells of a block: it stays in the second cache while its entries are picked.
_BLOCK_ENTRIES = 1 << 17
# The fraction of observed entries from which on blocks win, and the columns that it takes: a sampled product
# has a sum across a vector for each entry, which a sparse one has not.
_FRACTION = 0.4
_SAMPLED_COLUMNS, _PRODUCT_COLUMNS = 16, 96
# What a cell of a block takes, besides and for each column, where an entry that is added to the sum of its
# label takes 1 for each column: that sum is loaded and stored with every entry.
_CELL_BY_LABEL, _COLUMN_BY_LABEL = 11.0, 0.18


@compiled(**INLINED)
def copy_row(source, target):  # type: ignore[no-untyped-def]
    """As many numbers as the source has; of rows by themselves, which is what lets this vectorise."""
    for c in range(len(source)):
        target[c] = source[c]


@compiled(**INLINED)
def is_whole(M):  # type: ignore[no-untyped-def]
    """Whether rows are a whole number of vectors."""
    return M.shape[1] > 0 and M.shape[1] % lanes_of(M) == 0


@compiled(**INLINED)
def sampled_row(p, B, indices, begin, end, out):  # type: ignore[no-untyped-def]
    """``out[e] = p · B[indices[e]]`` from begin to end."""
    if is_whole(B):
        gathered_dots(p, B, indices, begin, end, out)
        return
    for e in range(begin, end):
        q = B[indices[e]]
        total = B.dtype.type(0)
        for c in range(len(p)):
            total += p[c] * q[c]
        out[e] = total


@compiled(**OPTIONS)
def _sampled_product(indptr, indices, P, B, out, start, stop):  # type: ignore[no-untyped-def]
    own = np.zeros(B.shape[1], B.dtype)
    for i in range(start, stop):
        copy_row(P[i], own)
        sampled_row(own, B, indices, indptr[i], indptr[i + 1], out)


@compiled(**INLINED)
def sum_of_entries(data, indices, begin, end, M, row):  # type: ignore[no-untyped-def]
    """``row = Σ_e data[e] M[indices[e]]`` from begin to end."""
    if is_whole(M):
        gathered_sum(data, indices, begin, end, M, row)
        return
    for c in range(M.shape[1]):
        total = M.dtype.type(0)
        for e in range(begin, end):
            total += data[e] * M[indices[e], c]
        row[c] = total


@compiled(**INLINED)
def longest(indptr, start, stop):  # type: ignore[no-untyped-def]
    """The most entries of a row."""
    most = 0
    for i in range(start, stop):
        most = max(most, indptr[i + 1] - indptr[i])
    return most


@compiled(**OPTIONS)
def _csr_product(indptr, indices, order, data, M, out, start, stop):  # type: ignore[no-untyped-def]
    """Entry e is ``data[order[e]]``, or ``data[e]`` where ``order`` is empty."""
    # One row's numbers at a time are put in order: all of them would take as much memory again.
    ordered = np.empty(longest(indptr, start, stop), M.dtype)
    row = np.empty(M.shape[1], M.dtype)
    step = _ADDED_IN_SINGLE if M.itemsize == 4 else max(len(ordered), 1)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        if len(order):
            for e in range(begin, end):
                ordered[e - begin] = data[order[e]]
        else:
            for e in range(begin, end):
                ordered[e - begin] = data[e]
        here, count = indices[begin:end], end - begin
        for first in range(0, max(count, 1), step):
            sum_of_entries(ordered, here, first, min(first + step, count), M, row)
            if first == 0:
                copy_row(row[: out.shape[1]], out[i])
            else:
                for c in range(out.shape[1]):
                    out[i, c] += row[c]


@compiled(**OPTIONS)
def _csr_product_pair(  # type: ignore[no-untyped-def]
    indptr, indices, order, data, M, data2, M2, out, start, stop
):
    first, second = np.empty(M.shape[1], M.dtype), np.empty(M.shape[1], M.dtype)
    ordered = np.empty(longest(indptr, start, stop), M.dtype)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        here = indices[begin:end]
        for e in range(begin, end):
            ordered[e - begin] = data[order[e]]
        sum_of_entries(ordered, here, _ZERO, end - begin, M, first)
        for e in range(begin, end):
            ordered[e - begin] = data2[order[e]]
        sum_of_entries(ordered, here, _ZERO, end - begin, M2, second)
        for c in range(out.shape[1]):
            out[i, c] = first[c] + second[c]


@compiled(**OPTIONS)
def _sparse_sparse_product(  # type: ignore[no-untyped-def]
    indptr, indices, data, right_indptr, right_indices, right_data, out, start, stop
):
    for j in range(start, stop):
        row = out[j]
        for t in range(indptr[j], indptr[j + 1]):
            i = indices[t]
            g = data[t]
            for e in range(right_indptr[i], right_indptr[i + 1]):
                row[right_indices[e]] += g * right_data[e]


@compiled(**OPTIONS)
def _sparse_sampled_product(  # type: ignore[no-untyped-def]
    indptr, indices, x_indptr, x_indices, x_data, W_by_label, out, start, stop
):
    for i in range(start, stop):
        first = x_indptr[i]
        last = x_indptr[i + 1]
        for e in range(indptr[i], indptr[i + 1]):
            w = W_by_label[indices[e]]
            total = 0.0
            for t in range(first, last):
                total += x_data[t] * w[x_indices[t]]
            out[e] = total


_NO_ORDER = read_only(np.empty(0), np.int32)


def padded_width(k: int, dtype: Any) -> int:
    """The width of a row for k numbers: a vector where that holds them, else the least number of lines."""
    size = np.dtype(dtype).itemsize
    if k * size <= VECTOR_BYTES:
        return int(VECTOR_BYTES // size)
    lanes = LINE_BYTES // size
    return int(-(-k // lanes) * lanes)


def filled_up(M: Floats) -> Floats:
    """A factor with columns of zeros beside its own, so that rows are a whole number of vectors."""
    n, k = M.shape
    width = padded_width(k, M.dtype)
    if k == width:
        return read_only(M, M.dtype)
    wide = _at_line((n, width), M.dtype)
    wide[:, :k], wide[:, k:] = M, 0
    return read_only(wide, M.dtype)


def from_line(M: Floats) -> Floats:
    """M in memory that begins with a cache line, so that no row is in more lines than it has to be."""
    if M.ctypes.data % LINE_BYTES == 0 and M.flags.c_contiguous:
        return M
    moved = _at_line(M.shape, M.dtype)
    moved[:] = M
    return moved


def _at_line(shape: tuple[int, ...], dtype: Any) -> Floats:
    """An uninitialised array that begins with a cache line; numpy's own begin anywhere in one."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % LINE_BYTES
    array: Floats = memory[first : first + size].view(dtype).reshape(shape)
    return array


def table(M: Floats, n_entries: int) -> Floats:
    """A factor of which so many entries gather rows: filled up and moved where that is worth the copy."""
    if M.shape[1] < _FEW_COLUMNS or len(M) > n_entries:
        return read_only(M, M.dtype)
    filled = filled_up(M)
    return read_only(from_line(filled), M.dtype) if _MANY_TIMES * len(M) <= n_entries else filled


def pattern_arrays(indptr: Ints, indices: Ints) -> tuple[Ints, Ints]:
    """Rows of entries as the kernels take them."""
    return read_only(indptr, np.int64), read_only(indices, np.int32)


def sparse_rows(S: tuple[Ints, Ints, Floats]) -> tuple[Ints, Ints, Floats]:
    """A sparse matrix, given by rows, as the kernels take it."""
    return *pattern_arrays(S[0], S[1]), read_only(S[2], np.float64)


def sampled_product(
    indptr: Ints,
    indices: Ints,
    P: Floats,
    B: Floats,
    out: Floats | None = None,
    *,
    by_entry: bool = False,
) -> Floats:
    """``(P Bᵀ)`` at the entries of the pattern, in its order; into ``out`` where that is given.

    With ``by_entry`` the last digit of an entry does not depend on which other entries there are.
    """
    result = np.empty(len(indices), dtype=P.dtype) if out is None else out
    left, right = (read_only(M, P.dtype) for M in (P, B))
    indptr, indices = pattern_arrays(indptr, indices)
    if not by_entry and P.shape[1] >= _SAMPLED_COLUMNS and is_dense(len(indices), len(P), len(B)):
        sampled_by_blocks(indptr, indices, left, right, result)
        return result
    if by_entry and len(right) > len(indices):
        # Rows that are filled up are summed in another order than others; all the rows would be a large copy.
        named, places = np.unique(indices, return_inverse=True)
        right, indices = right[named], read_only(places, np.int32)
    gathered = table(right, len(indices))
    run_over_rows(_sampled_product, indptr, P.shape[1], indptr, indices, left, gathered, result)
    return result


def sparse_sampled_product(
    indptr: Ints, indices: Ints, X: tuple[Ints, Ints, Floats], W_by_label: Floats
) -> Floats:
    """``(X W)`` at the entries of the pattern, for sparse X and W given by label (L x d)."""
    out = np.empty(len(indices))
    per_entry = 1 + len(X[1]) // max(len(X[0]) - 1, 1)
    pattern = pattern_arrays(indptr, indices)
    run_over_rows(_sparse_sampled_product, indptr, per_entry, *pattern, *sparse_rows(X), W_by_label, out)
    return out


def csr_product(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    M: Floats,
    out: Floats | None = None,
    *,
    order: Ints | None = None,
) -> Floats:
    """``S M`` for the sparse matrix S with these rows, and M dense; into ``out`` where that is given.

    Entry e is ``data[order[e]]`` where there is an order.
    """
    result = np.empty((len(indptr) - 1, M.shape[1]), dtype=M.dtype) if out is None else out
    # The kernels round double precision to that of M, some rows at a time.
    values = read_only(data, data.dtype if data.dtype == np.float64 else M.dtype)
    right = read_only(M, M.dtype)
    indptr, indices = pattern_arrays(indptr, indices)
    if order is None and M.shape[1] >= _PRODUCT_COLUMNS and is_dense(len(indices), len(result), len(M)):
        product_by_blocks(indptr, indices, values, right, result)
        return result
    gathered = table(right, len(indices))
    places = _NO_ORDER if order is None else read_only(order, order.dtype)
    run_over_rows(_csr_product, indptr, M.shape[1], indptr, indices, places, values, gathered, result)
    return result


def csr_product_pair(
    indptr: Ints, indices: Ints, order: Ints, data: Floats, M: Floats, data2: Floats, M2: Floats
) -> Floats:
    """``S M + S₂ M₂`` for two sparse matrices of one pattern, with entry e at ``data[order[e]]``."""
    out = np.empty((len(indptr) - 1, M.shape[1]), dtype=M.dtype)
    first, second = ((read_only(x, M.dtype), table(T, len(indices))) for x, T in ((data, M), (data2, M2)))
    args = (*pattern_arrays(indptr, indices), read_only(order, order.dtype), *first, *second, out)
    run_over_rows(_csr_product_pair, indptr, 2 * M.shape[1], *args)
    return out


def sparse_sparse_product(
    left: tuple[Ints, Ints, Floats], right: tuple[Ints, Ints, Floats], n_columns: int
) -> Floats:
    """``S T`` as a dense matrix, for two sparse matrices given by rows."""
    out = np.zeros((len(left[0]) - 1, n_columns))
    per_entry = 1 + len(right[1]) // max(len(right[0]) - 1, 1)
    run_over_rows(_sparse_sparse_product, left[0], per_entry, *sparse_rows(left), *sparse_rows(right), out)
    return out


# -- by dense blocks -----------------------------------------------------------------------------------------

# A matrix product computes a score many times faster than a loop over entries, but it computes all of them.
# So there is a fraction of observed entries from which on it wins; ``python -m benchmarks kernels`` measures
# it.


def is_dense(n_entries: int, n_rows: int, n_columns: int) -> bool:
    """Whether so many of the entries are observed that blocks are worth their while."""
    return n_entries > _FRACTION * n_rows * n_columns


def is_dense_by_label(n_entries: int, n_rows: int, n_columns: int, k: int) -> bool:
    """The same for sums of k columns by label (:func:`labelgap.kernels.entry_pattern.scattered_product`)."""
    return n_entries * k > n_rows * n_columns * (_CELL_BY_LABEL + _COLUMN_BY_LABEL * k)


@compiled(**OPTIONS)
def _pick(indptr, indices, scores, out, first):  # type: ignore[no-untyped-def]
    for i in range(scores.shape[0]):
        row = scores[i]
        for e in range(indptr[first + i], indptr[first + i + 1]):
            out[e] = row[indices[e]]


@compiled(**OPTIONS)
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
