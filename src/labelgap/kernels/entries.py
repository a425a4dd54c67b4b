"""Kernels over the observed entries: sampled products and sparse-times-factor products.

Rows of the factors are contiguous, so every inner loop runs over ``k`` neighbouring numbers. Nothing of
size n x L appears: each kernel touches the entries of Ω and the factors.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from labelgap._types import Floats, Ints
from labelgap.kernels.arguments import read_only
from labelgap.kernels.blocks import (
    PRODUCT_COLUMNS,
    SAMPLED_COLUMNS,
    is_dense,
    product_by_blocks,
    sampled_by_blocks,
)
from labelgap.kernels.options import OPTIONS
from labelgap.kernels.threads import run_over_rows
from labelgap.kernels.vectors import gathered_dots, gathered_sum, lanes_of

# A constant that is written out where a function is called has a type of its own, for which the function is
# compiled again. This one has not.
_ZERO = np.int64(0)

# Below this many columns a product is bound by finding the rows, and there is nothing to vectorise.
_FEW_COLUMNS = 4


@njit(**OPTIONS)
def _sampled_row(p, B, indices, begin, end, out):  # type: ignore[no-untyped-def]
    """``out[e] = p · B[indices[e]]`` from begin to end."""
    k = B.shape[1]
    whole = k - k % lanes_of(B)
    if whole > 0:
        gathered_dots(p, B, indices, begin, end, out)
    else:
        for e in range(begin, end):
            out[e] = 0
    if whole < k:
        for e in range(begin, end):
            q = B[indices[e]]
            total = out[e]
            for c in range(whole, k):
                total += p[c] * q[c]
            out[e] = total


@njit(**OPTIONS)
def _sampled_product(indptr, indices, P, B, out, start, stop):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        _sampled_row(P[i], B, indices, indptr[i], indptr[i + 1], out)


@njit(**OPTIONS)
def _add_tail(data, indices, begin, end, M, row, whole, k):  # type: ignore[no-untyped-def]
    """The columns that do not fill a vector."""
    if k - whole < _FEW_COLUMNS:
        for c in range(whole, k):
            total = M.dtype.type(0)
            for e in range(begin, end):
                total += data[e] * M[indices[e], c]
            row[c] = total
        return
    for c in range(whole, k):
        row[c] = 0
    for e in range(begin, end):
        v = data[e]
        m = M[indices[e]]
        for c in range(whole, k):
            row[c] += v * m[c]


@njit(**OPTIONS)
def _sum_of_entries(data, indices, begin, end, M, row):  # type: ignore[no-untyped-def]
    k = M.shape[1]
    whole = k - k % lanes_of(M)
    if whole > 0:
        gathered_sum(data, indices, begin, end, M, row)
    if whole < k:
        _add_tail(data, indices, begin, end, M, row, whole, k)


@njit(**OPTIONS)
def _longest(indptr, start, stop):  # type: ignore[no-untyped-def]
    longest = 0
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    return longest


@njit(**OPTIONS)
def _csr_product(indptr, indices, order, data, M, out, start, stop):  # type: ignore[no-untyped-def]
    """Entry e is ``data[order[e]]``, or ``data[e]`` where ``order`` is empty."""
    # One row's numbers at a time are put in order: all of them would take as much memory again.
    ordered = np.empty(_longest(indptr, start, stop), M.dtype)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        if len(order):
            for e in range(begin, end):
                ordered[e - begin] = data[order[e]]
        else:
            for e in range(begin, end):
                ordered[e - begin] = data[e]
        _sum_of_entries(ordered, indices[begin:end], _ZERO, end - begin, M, out[i])


@njit(**OPTIONS)
def _csr_product_pair(  # type: ignore[no-untyped-def]
    indptr, indices, order, data, M, data2, M2, out, start, stop
):
    k = M.shape[1]
    second = np.empty(k, M.dtype)
    ordered = np.empty(_longest(indptr, start, stop), M.dtype)
    for i in range(start, stop):
        row = out[i]
        begin, end = indptr[i], indptr[i + 1]
        here = indices[begin:end]
        for e in range(begin, end):
            ordered[e - begin] = data[order[e]]
        _sum_of_entries(ordered, here, _ZERO, end - begin, M, row)
        for e in range(begin, end):
            ordered[e - begin] = data2[order[e]]
        _sum_of_entries(ordered, here, _ZERO, end - begin, M2, second)
        for c in range(k):
            row[c] += second[c]


@njit(**OPTIONS)
def _curvature_rows(  # type: ignore[no-untyped-def]
    indptr, indices, P, dP, B, dB, db, curvature, gradient, curved, out, start, stop
):
    k = P.shape[1]
    second = np.empty(k, P.dtype)
    other = np.empty(_longest(indptr, start, stop), P.dtype)
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        _sampled_row(dP[i], B, indices, begin, end, curved)
        _sampled_row(P[i], dB, indices[begin:end], _ZERO, end - begin, other)
        for e in range(begin, end):
            curved[e] = curvature[e] * (curved[e] + other[e - begin] + db[indices[e]])
        row = out[i]
        _sum_of_entries(curved, indices, begin, end, B, row)
        _sum_of_entries(gradient, indices, begin, end, dB, second)
        for c in range(k):
            row[c] += second[c]


@njit(**OPTIONS)
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


@njit(**OPTIONS)
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


def _pattern(indptr: Ints, indices: Ints) -> tuple[Ints, Ints]:
    return read_only(indptr, np.int64), read_only(indices, np.int32)


def sparse_rows(S: tuple[Ints, Ints, Floats]) -> tuple[Ints, Ints, Floats]:
    """A sparse matrix, given by rows, as the kernels take it."""
    return *_pattern(S[0], S[1]), read_only(S[2], np.float64)


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
    indptr, indices = _pattern(indptr, indices)
    if not by_entry and P.shape[1] >= SAMPLED_COLUMNS and is_dense(len(indices), len(P), len(B)):
        sampled_by_blocks(indptr, indices, left, right, result)
        return result
    run_over_rows(_sampled_product, indptr, P.shape[1], indptr, indices, left, right, result)
    return result


def sparse_sampled_product(
    indptr: Ints, indices: Ints, X: tuple[Ints, Ints, Floats], W_by_label: Floats
) -> Floats:
    """``(X W)`` at the entries of the pattern, for sparse X and W given by label (L x d)."""
    out = np.empty(len(indices))
    per_entry = 1 + len(X[1]) // max(len(X[0]) - 1, 1)
    pattern = _pattern(indptr, indices)
    run_over_rows(_sparse_sampled_product, indptr, per_entry, *pattern, *sparse_rows(X), W_by_label, out)
    return out


def csr_product(indptr: Ints, indices: Ints, data: Floats, M: Floats, out: Floats | None = None) -> Floats:
    """``S M`` for the sparse matrix S with these rows, and M dense; into ``out`` where that is given."""
    result = np.empty((len(indptr) - 1, M.shape[1]), dtype=M.dtype) if out is None else out
    values, right = read_only(data, M.dtype), read_only(M, M.dtype)
    indptr, indices = _pattern(indptr, indices)
    if M.shape[1] >= PRODUCT_COLUMNS and is_dense(len(indices), len(result), len(M)):
        product_by_blocks(indptr, indices, values, right, result)
        return result
    run_over_rows(_csr_product, indptr, M.shape[1], indptr, indices, _NO_ORDER, values, right, result)
    return result


def csr_product_pair(
    indptr: Ints, indices: Ints, order: Ints, data: Floats, M: Floats, data2: Floats, M2: Floats
) -> Floats:
    """``S M + S₂ M₂`` for two sparse matrices of one pattern, with entry e at ``data[order[e]]``."""
    out = np.empty((len(indptr) - 1, M.shape[1]), dtype=M.dtype)
    held = (read_only(part, M.dtype) for part in (data, M, data2, M2))
    args = (*_pattern(indptr, indices), read_only(order, order.dtype), *held, out)
    run_over_rows(_csr_product_pair, indptr, 2 * M.shape[1], *args)
    return out


@njit(**OPTIONS)
def _rows_by_label(indptr, indices, ends, rows):  # type: ignore[no-untyped-def]
    """A counting sort; ``ends`` holds where each label's entries begin, and then where they end."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            rows[ends[j]] = i
            ends[j] += 1


@njit(**OPTIONS)
def _data_by_label(indices, ends, data, ordered):  # type: ignore[no-untyped-def]
    for e in range(len(indices)):
        j = indices[e]
        ordered[ends[j]] = data[e]
        ends[j] += 1


@njit(**OPTIONS)
def _numbers_by_label(indices, ends, order):  # type: ignore[no-untyped-def]
    for e in range(len(indices)):
        j = indices[e]
        order[ends[j]] = e
        ends[j] += 1


@njit(**OPTIONS)
def _label_sums(indices, data, sums):  # type: ignore[no-untyped-def]
    for e in range(len(indices)):
        sums[indices[e]] += data[e]


def sparse_sparse_product(
    left: tuple[Ints, Ints, Floats], right: tuple[Ints, Ints, Floats], n_columns: int
) -> Floats:
    """``S T`` as a dense matrix, for two sparse matrices given by rows."""
    out = np.zeros((len(left[0]) - 1, n_columns))
    per_entry = 1 + len(right[1]) // max(len(right[0]) - 1, 1)
    run_over_rows(_sparse_sparse_product, left[0], per_entry, *sparse_rows(left), *sparse_rows(right), out)
    return out


def curvature_rows(
    indptr: Ints,
    indices: Ints,
    P: Floats,
    dP: Floats,
    B: Floats,
    dB: Floats,
    db: Floats,
    curvature: Floats,
    gradient: Floats,
) -> tuple[Floats, Floats]:
    """One pass over the rows for a Hessian product.

    With ``dZ = dP Bᵀ + P dBᵀ + 1 dbᵀ`` on the pattern, D the curvature and G the gradient of the loss,
    returns the entries ``D∘dZ`` and the matrix ``(D∘dZ) B + G dB``.
    """
    curved, out = np.empty(len(indices), dtype=P.dtype), np.empty(P.shape, dtype=P.dtype)
    given = (read_only(part, P.dtype) for part in (P, dP, B, dB, db, curvature, gradient))
    run_over_rows(_curvature_rows, indptr, 4 * P.shape[1], *_pattern(indptr, indices), *given, curved, out)
    return curved, out


class EntryPattern:
    """Positions ``(i, j)`` in row order, and the rows of each label."""

    def __init__(self, indptr: NDArray[Any], indices: NDArray[Any], n_labels: int) -> None:
        self.indptr = np.ascontiguousarray(indptr, dtype=np.int64)
        self.indices = np.ascontiguousarray(indices, dtype=np.int32)
        self.n_rows, self.n_labels = len(self.indptr) - 1, n_labels
        self.label_indptr = np.zeros(n_labels + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.indices, minlength=n_labels), out=self.label_indptr[1:])
        # Within a label the rows stay in order, so that sums are repeatable.
        self.label_rows = np.empty(len(self.indices), dtype=np.int32)
        _rows_by_label(self.indptr, self.indices, self.label_indptr[:-1].copy(), self.label_rows)

    @cached_property
    def by_label(self) -> Ints:
        """The entries' numbers in label order, in four bytes each where that is enough.

        Not every solver needs them.
        """
        order = np.empty(len(self), dtype=np.int32 if len(self) < 1 << 31 else np.int64)
        _numbers_by_label(self.indices, self.label_indptr[:-1].copy(), order)
        return order

    def __len__(self) -> int:
        return len(self.indices)

    def sampled(self, P: Floats, Q: Floats) -> Floats:
        """``PQᵀ`` at each entry."""
        return sampled_product(self.indptr, self.indices, P, np.ascontiguousarray(Q))

    def within(self, rows: slice) -> tuple[slice, Ints]:
        """Which entries lie in a block of rows, and in which row of the block each does."""
        indptr = self.indptr[rows.start : rows.stop + 1]
        return slice(int(indptr[0]), int(indptr[-1])), np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))

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
        if M.shape[1] >= PRODUCT_COLUMNS and is_dense(len(self), self.n_labels, len(M)):
            return self.transposed_times_ordered(self.in_label_order(data), M)
        out = np.empty((self.n_labels, M.shape[1]), dtype=M.dtype)
        by_label = read_only(self.by_label, self.by_label.dtype)
        held = (read_only(part, M.dtype) for part in (data, M))
        args = (*_pattern(self.label_indptr, self.label_rows), by_label, *held, out)
        run_over_rows(_csr_product, self.label_indptr, M.shape[1], *args)
        return out

    def in_label_order(self, data: NDArray[Any]) -> NDArray[Any]:
        """The data as the labels meet them."""
        ordered = np.empty_like(data)
        _data_by_label(self.indices, self.label_indptr[:-1].copy(), data, ordered)
        return ordered

    def transposed_times_ordered(self, by_label: Floats, M: Floats) -> Floats:
        """``Sᵀ M`` for data that are in the order of the labels already."""
        return csr_product(self.label_indptr, self.label_rows, by_label, M)

    def transposed_times_pair(self, data: Floats, M: Floats, data2: Floats, M2: Floats) -> Floats:
        """``Sᵀ M + S₂ᵀ M₂``."""
        return csr_product_pair(self.label_indptr, self.label_rows, self.by_label, data, M, data2, M2)

    def label_sums(self, data: Floats) -> Floats:
        """Sum of ``data`` per label."""
        sums = np.zeros(self.n_labels)
        _label_sums(self.indices, data, sums)
        return sums
