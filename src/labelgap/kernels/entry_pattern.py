"""Which entries are observed, by row and by label, and the products over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from labelgap._arrays import read_only, row_slices
from labelgap._types import Floats, Ints
from labelgap.kernels.entries import (
    copy_row,
    csr_product,
    csr_product_pair,
    filled_up,
    is_dense_by_label,
    longest,
    padded_width,
    pattern_arrays,
    sampled_product,
    sampled_row,
    sum_of_entries,
    table,
    transposed_by_blocks,
)
from labelgap.kernels.options import OPTIONS, compiled
from labelgap.kernels.threads import run_over_rows, run_parts, thread_count
from labelgap.kernels.vectors import LINE_BYTES, _Emitter

# Entries at which a product is made at a time, where not all of them are needed at once.
_BLOCK = 1 << 18
# Entries from which on threads sort them by label together.
_WORTH_THREADS = 1 << 18
_ZERO = np.int64(0)
# Bytes of sums that are added to at a time.
_CACHE_BYTES = 640 << 10
# Columns at a time from which on reading the entries again for the others costs little.
_ENOUGH_COLUMNS = 32
# Parts of the rows that are summed by themselves: as many whatever the threads, and so are the sums.
_MOST_PARTS = 16
# Rows that are added up at a time in single precision. One sum of very many would lose digits that
# certificates rely on.
_ROWS_IN_SINGLE = 1 << 13
# Multiply-adds that are worth a part of their own.
_PART_WORK = 200_000


@compiled(**OPTIONS)
def _count_labels(indices, counts, start, stop):  # type: ignore[no-untyped-def]
    for e in range(start, stop):
        counts[indices[e]] += 1


# Counting sorts of the entries from start to stop; ``ends`` holds where those of each label begin, and then
# where they end.


@compiled(**OPTIONS)
def _rows_by_label(indptr, indices, rows, ends, start, stop):  # type: ignore[no-untyped-def]
    i = 0
    for e in range(start, stop):
        while indptr[i + 1] <= e:
            i += 1
        j = indices[e]
        rows[ends[j]] = i
        ends[j] += 1


@compiled(**OPTIONS)
def _data_by_label(indices, data, ordered, ends, start, stop):  # type: ignore[no-untyped-def]
    for e in range(start, stop):
        j = indices[e]
        ordered[ends[j]] = data[e]
        ends[j] += 1


@compiled(**OPTIONS)
def _numbers_by_label(indices, order, ends, start, stop):  # type: ignore[no-untyped-def]
    for e in range(start, stop):
        j = indices[e]
        order[ends[j]] = e
        ends[j] += 1


@compiled(**OPTIONS)
def _label_sums(indices, data, sums):  # type: ignore[no-untyped-def]
    for e in range(len(indices)):
        sums[indices[e]] += data[e]


@compiled(**OPTIONS)
def _label_sums_by_sign(indices, data, up, down):  # type: ignore[no-untyped-def]
    for e in range(len(indices)):
        if data[e] > 0:
            up[indices[e]] += data[e]
        else:
            down[indices[e]] += data[e]


@compiled(**OPTIONS)
def _times_by_sign(indptr, indices, data, up, down, out, start, stop):  # type: ignore[no-untyped-def]
    for e in range(indptr[start], indptr[stop]):
        j = indices[e]
        out[e] = data[e] * (up[j] if data[e] > 0 else down[j])


class EntryPattern:
    """Positions ``(i, j)`` in row order, and the rows of each label."""

    def __init__(self, indptr: NDArray[Any], indices: NDArray[Any], n_labels: int) -> None:
        self.indptr = np.ascontiguousarray(indptr, dtype=np.int64)
        self.indices = np.ascontiguousarray(indices, dtype=np.int32)
        self.n_rows, self.n_labels = len(self.indptr) - 1, n_labels
        # Each thread sorts a part of the entries. All parts have counts of all labels.
        parts = thread_count() if len(self) >= max(_WORTH_THREADS, n_labels) else 1
        self._cuts = [len(self) * part // parts for part in range(parts + 1)]
        self._counts = [np.zeros(n_labels, dtype=np.int64) for _ in range(parts)]
        given = (read_only(self.indices, np.int32),)
        run_parts(_count_labels, self._cuts, given, [(counts,) for counts in self._counts])
        self.label_indptr = np.zeros(n_labels + 1, dtype=np.int64)
        np.cumsum(np.sum(self._counts, axis=0), out=self.label_indptr[1:])
        self.label_rows = np.empty(len(self.indices), dtype=np.int32)
        self._sort_by_label(_rows_by_label, read_only(self.indptr, np.int64), *given, self.label_rows)

    def _sort_by_label(self, sort: Callable[..., None], *args: Any) -> None:
        """Sort by label with a kernel; within a label the entries stay in order, so sums are repeatable."""
        starts = [self.label_indptr[:-1].copy()]
        if thread_count() == 1:
            # Also within work that has a thread to itself: it may not wait for others.
            sort(*args, starts[0], 0, len(self))
            return
        for counts in self._counts[:-1]:
            starts.append(starts[-1] + counts)
        run_parts(sort, self._cuts, args, [(start,) for start in starts])

    @cached_property
    def by_label(self) -> Ints:
        """The entries' numbers in label order, in four bytes each where that is enough.

        Not every solver needs them.
        """
        order = np.empty(len(self), dtype=np.int32 if len(self) < 1 << 31 else np.int64)
        self._sort_by_label(_numbers_by_label, read_only(self.indices, np.int32), order)
        return order

    def __len__(self) -> int:
        return len(self.indices)

    def sampled(self, P: Floats, Q: Floats) -> Floats:
        """``PQᵀ`` at each entry."""
        return sampled_product(self.indptr, self.indices, P, np.ascontiguousarray(Q))

    def sampled_in_blocks(self, P: Floats, Q: Floats) -> Iterator[tuple[slice, Floats]]:
        """The same for some rows at a time, and which entries theirs are."""
        right = np.ascontiguousarray(Q)
        for rows, entries in self.parts():
            yield entries, sampled_product(self._counted(rows), self.indices[entries], P[rows], right)

    def parts(self) -> Iterator[tuple[slice, slice]]:
        """Some rows at a time, and which entries theirs are; all rows that have any."""
        for rows in row_slices(self.indptr, _BLOCK):
            yield rows, slice(int(self.indptr[rows.start]), int(self.indptr[rows.stop]))

    def _counted(self, rows: slice) -> Ints:
        """Where the entries of these rows begin and end, counted from the first of them."""
        indptr = self.indptr[rows.start : rows.stop + 1]
        return np.asarray(indptr - indptr[0])

    def rows_times(self, rows: slice, data: Floats, M: Floats, out: Floats | None = None) -> Floats:
        """Rows of ``S M``, from the data of their entries alone; into ``out`` where that is given."""
        indptr = self._counted(rows)
        entries = slice(int(self.indptr[rows.start]), int(self.indptr[rows.stop]))
        return csr_product(indptr, self.indices[entries], data, M, out)

    def within(self, rows: slice) -> tuple[slice, Ints]:
        """Which entries lie in a block of rows, and in which row of the block each does."""
        indptr = self.indptr[rows.start : rows.stop + 1]
        return slice(int(indptr[0]), int(indptr[-1])), np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))

    def times(self, data: Floats, M: Floats) -> Floats:
        """``S M`` with S the sparse matrix that has ``data`` on this pattern, in the precision of M."""
        if data.dtype in (M.dtype, np.float64) and data.flags.c_contiguous:
            return csr_product(self.indptr, self.indices, data, M)
        # Some rows at a time: all data in another precision, or one number written out for all, would be one
        # more array of their size.
        product = np.zeros((self.n_rows, M.shape[1]), M.dtype)
        for rows, entries in self.parts():
            self.rows_times(rows, data[entries], M, product[rows])
        return product

    def columns(self, data: Floats, start: int, stop: int) -> Floats:
        """The columns of S from ``start`` to ``stop``, dense."""
        part = slice(self.label_indptr[start], self.label_indptr[stop])
        entries = self.by_label[part]
        dense = np.zeros((self.n_rows, stop - start))
        dense[self.label_rows[part], self.indices[entries] - start] = data[entries]
        return dense

    def adds_up_by_label(self, k: int) -> bool:
        """Whether products ``Sᵀ M`` with k columns have no use for entries in the order of the labels."""
        return strip_of(self.n_labels, k) > 0

    def transposed_times(self, data: Floats, M: Floats) -> Floats:
        """``Sᵀ M``."""
        if is_dense_by_label(len(self), self.n_rows, self.n_labels, M.shape[1]):
            return transposed_by_blocks(self.indptr, self.indices, data, M, self.n_labels)
        if strip := strip_of(self.n_labels, M.shape[1], M.dtype):
            return scattered_product(self.indptr, self.indices, data, M, self.n_labels, strip)
        return csr_product(self.label_indptr, self.label_rows, data, M, order=self.by_label)

    def in_label_order(self, data: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
        """The data as the labels meet them, in another precision where one is given."""
        ordered = np.empty(len(data), data.dtype if dtype is None else dtype)
        given = read_only(self.indices, np.int32), read_only(data, data.dtype)
        self._sort_by_label(_data_by_label, *given, ordered)
        return ordered

    def transposed_times_ordered(self, by_label: Floats, M: Floats) -> Floats:
        """``Sᵀ M`` for data that are in the order of the labels already."""
        return csr_product(self.label_indptr, self.label_rows, by_label, M)

    def transposed_times_pair(self, data: Floats, M: Floats, data2: Floats, M2: Floats) -> Floats:
        """``Sᵀ M + S₂ᵀ M₂``."""
        if self.adds_up_by_label(M.shape[1]):
            return self.transposed_times(data, M) + self.transposed_times(data2, M2)
        return csr_product_pair(self.label_indptr, self.label_rows, self.by_label, data, M, data2, M2)

    def label_sums(self, data: Floats) -> Floats:
        """Sum of ``data`` per label."""
        sums = np.zeros(self.n_labels)
        _label_sums(self.indices, data, sums)
        return sums

    def label_sums_by_sign(self, data: Floats) -> tuple[Floats, Floats]:
        """Sum of what is above 0 in ``data`` per label, and of what is below."""
        up, down = np.zeros(self.n_labels), np.zeros(self.n_labels)
        _label_sums_by_sign(self.indices, data, up, down)
        return up, down

    def times_by_sign(self, data: Floats, up: Floats, down: Floats) -> Floats:
        """What is above 0 in ``data`` times its label's ``up``, the rest times its ``down``."""
        out = np.empty_like(data)
        given = (read_only(x, x.dtype) for x in (self.indptr, self.indices, data, up, down))
        run_over_rows(_times_by_sign, self.indptr, 1, *given, out)
        return out


# -- sums by label: ``Sᵀ M``, made while the rows stream by --------------------------------------------------

# Entry (i, j) adds a multiple of row i of M to the sum of label j. The sums stay in the second cache, and the
# entries are read in the order they are in. Gathering the rows of each label instead would fetch almost every
# number from memory. Where the sums of all columns do not fit into the cache, some columns at a time are
# added.


@intrinsic
def scattered_add(typingctx, data, indices, begin, end, own, first, last, out):  # type: ignore[no-untyped-def]
    """``out[indices[e]] += data[e] own`` for entries from begin to end, in the columns from first to last.

    Columns are whole vectors.
    """
    places = (types.intp, types.intp)
    signature = types.void(data, indices, *places, own, *places, out)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, own.dtype)
        values, _ = emit.array(data, args[0])
        numbers, _ = emit.array(indices, args[1])
        mine, _ = emit.array(own, args[4])
        sums, (_, width) = emit.array(out, args[7])
        with emit.every(args[3], 1, args[2]) as entry:
            weight = emit.spread(builder.load(emit.at(values, entry)))
            row = emit.row_of(numbers, entry, width)
            with emit.every(args[6], emit.lanes, args[5]) as column:
                place = emit.at(sums, row, column)
                part = emit.load(emit.at(mine, column))
                emit.store(emit.multiply_add(weight, part, emit.load(place)), place)
        return context.get_dummy_value()

    return signature, generate


@compiled(**OPTIONS)
def _scattered_product(  # type: ignore[no-untyped-def]
    indptr, indices, cuts, data, M, strip, rows_at_a_time, out, latest, start, stop
):
    """``latest`` are sums of so many rows at a time; they have no labels where all rows are added at once."""
    k, width = M.shape[1], out.shape[2]
    own = np.zeros(width, M.dtype)
    for p in range(start, stop):
        in_parts = latest.shape[1] > 0
        sums = latest[p] if in_parts else out[p]
        for first in range(0, width, strip):
            last = min(first + strip, width)
            known = min(last, k)
            for begin in range(cuts[p], cuts[p + 1], rows_at_a_time):
                for i in range(begin, min(begin + rows_at_a_time, cuts[p + 1])):
                    copy_row(M[i, first:known], own[first:known])
                    scattered_add(data, indices, indptr[i], indptr[i + 1], own, first, last, sums)
                if in_parts:
                    for j in range(len(sums)):
                        for c in range(first, last):
                            out[p, j, c] += sums[j, c]
                            sums[j, c] = 0


def strip_of(n_labels: int, k: int, dtype: Any = np.float64) -> int:
    """How many of k columns are added to at a time; 0 where gathering the rows of each label is faster.

    Examples
    --------
    >>> strip_of(100, 20), strip_of(1000, 500), strip_of(100_000, 20)
    (24, 80, 0)
    """
    width, lanes = padded_width(k, dtype), LINE_BYTES // np.dtype(dtype).itemsize
    fitting = _CACHE_BYTES // (np.dtype(dtype).itemsize * max(n_labels, 1))
    strip = min(width, fitting // lanes * lanes)
    return strip if strip >= min(width, _ENOUGH_COLUMNS) else 0


def row_parts(indptr: Ints, n_labels: int, width: int) -> Ints:
    """Where the parts of the rows begin and end, about as many entries in each.

    The sums of all parts together take no more numbers than there are entries.
    """
    entries = int(indptr[-1])
    worth = min(entries // max(n_labels * width, 1), entries * width // _PART_WORK)
    parts = max(1, min(_MOST_PARTS, worth, len(indptr) - 1))
    if parts == 1:
        return np.array([0, len(indptr) - 1], dtype=np.int64)
    inner = np.searchsorted(indptr, np.arange(1, parts) * (entries / parts))
    return np.concatenate([[0], inner, [len(indptr) - 1]]).astype(np.int64)


def scattered_product(
    indptr: Ints, indices: Ints, data: Floats, M: Floats, n_labels: int, strip: int
) -> Floats:
    """``Sᵀ M`` for the sparse matrix S with these rows and so many columns."""
    k, width = M.shape[1], padded_width(M.shape[1], M.dtype)
    cuts = row_parts(indptr, n_labels, width)
    sums = np.zeros((len(cuts) - 1, n_labels, width), M.dtype)
    rows_at_a_time = max(len(indptr) - 1, 1)
    if M.dtype == np.float32:
        rows_at_a_time = min(rows_at_a_time, _ROWS_IN_SINGLE)
    in_parts = bool(np.diff(cuts).max() > rows_at_a_time)
    latest = np.zeros((len(sums), n_labels if in_parts else 0, width), M.dtype)
    held = read_only(data, M.dtype), read_only(M, M.dtype), strip, rows_at_a_time, sums, latest
    run_over_rows(_scattered_product, indptr[cuts], width, *pattern_arrays(indptr, indices), cuts, *held)
    return sum_of_parts(sums, k)


def sum_of_parts(sums: Floats, k: int) -> Floats:
    """The sums of all parts, without the columns that fill rows up."""
    total = sums[0]
    for part in sums[1:]:
        total += part
    return np.ascontiguousarray(total[:, :k])


# -- the Hessian of a sum over entries times a direction, in one pass over the rows ------------------------


@compiled(**OPTIONS)
def _hessian_rows(  # type: ignore[no-untyped-def]
    indptr, indices, cuts, P, dP, B, dB, db, curvature, gradient, by_row, curved, by_label, sums, start, stop
):
    """Either ``curved`` or the sums by label are of length 0, for callers who want the other."""
    k, width = P.shape[1], B.shape[1]
    own, own_change = np.zeros(width, P.dtype), np.zeros(width, P.dtype)
    first, second = np.empty(width, P.dtype), np.empty(width, P.dtype)
    most = longest(indptr, cuts[start], cuts[stop])
    here, other = np.empty(most, P.dtype), np.empty(most, P.dtype)
    for p in range(start, stop):
        for i in range(cuts[p], cuts[p + 1]):
            begin, count = indptr[i], indptr[i + 1] - indptr[i]
            mine, slopes = indices[begin : begin + count], gradient[begin : begin + count]
            copy_row(P[i], own)
            copy_row(dP[i], own_change)
            sampled_row(own_change, B, mine, _ZERO, count, here)
            sampled_row(own, dB, mine, _ZERO, count, other)
            for e in range(count):
                here[e] = curvature[begin + e] * (here[e] + other[e] + db[mine[e]])
            sum_of_entries(here, mine, _ZERO, count, B, first)
            sum_of_entries(slopes, mine, _ZERO, count, dB, second)
            for c in range(k):
                by_row[i, c] = first[c] + second[c]
            if len(curved):
                copy_row(here[:count], curved[begin : begin + count])
            else:
                scattered_add(here, mine, _ZERO, count, own, _ZERO, width, by_label[p])
                scattered_add(slopes, mine, _ZERO, count, own_change, _ZERO, width, by_label[p])
                for e in range(count):
                    sums[p, mine[e]] += here[e]


def hessian_product(
    pattern: EntryPattern,
    P: Floats,
    dP: Floats,
    Q: Floats,
    dQ: Floats,
    db: Floats,
    curvature: Floats,
    gradient: Floats,
) -> tuple[Floats, Floats, Floats]:
    """The Hessian in (P, Q, b) times a direction.

    With ``dZ = dP Qᵀ + P dQᵀ + 1 dbᵀ`` on the pattern, D the curvature and G the gradient of the loss,
    returns ``(D∘dZ) Q + G dQ``, ``(D∘dZ)ᵀ P + Gᵀ dP`` and the label sums of ``D∘dZ``.
    """
    (n, k), n_labels, entries = P.shape, pattern.n_labels, len(pattern)
    width = padded_width(k, np.float64)
    cuts = row_parts(pattern.indptr, n_labels, width)
    parts = len(cuts) - 1
    at_once = strip_of(n_labels, k) == width
    by_row = np.empty((n, k))
    curved = np.empty(0 if at_once else entries)
    by_label = np.zeros((parts, n_labels if at_once else 0, width))
    sums = np.zeros((parts, n_labels if at_once else 0))
    tables = [filled_up(M) if at_once else table(M, entries) for M in (Q, dQ)]
    given = [read_only(part, np.float64) for part in (P, dP, *tables, db, curvature, gradient)]
    run_over_rows(
        _hessian_rows, pattern.indptr[cuts], 6 * k,
        read_only(pattern.indptr, np.int64), read_only(pattern.indices, np.int32), cuts,
        *given, by_row, curved, by_label, sums,
    )  # fmt: skip
    if at_once:
        return by_row, sum_of_parts(by_label, k), sums.sum(axis=0)
    return by_row, pattern.transposed_times_pair(curved, P, gradient, dP), pattern.label_sums(curved)
