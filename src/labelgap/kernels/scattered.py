"""Sums by label, made while the rows stream by: ``Sᵀ M`` for entries that are in the order of the rows.

Entry (i, j) adds a multiple of row i of M to the sum of label j. The sums stay in the second cache, and the
entries are read in the order they are in. Gathering the rows of each label instead would fetch almost every
number from memory. Where the sums of all columns do not fit into the cache, some columns at a time are added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from labelgap._arrays import read_only
from labelgap._types import Floats, Ints
from labelgap.kernels.entries import copy_row, pattern_arrays
from labelgap.kernels.options import OPTIONS
from labelgap.kernels.threads import run_over_rows
from labelgap.kernels.vectors import _Emitter, padded_width

# Bytes of sums that are added to at a time.
_CACHE_BYTES = 640 << 10
# Columns at a time from which on reading the entries again for the others costs little.
_ENOUGH_COLUMNS = 32
# Parts of the rows that are summed by themselves: as many whatever the threads, and so are the sums.
_MOST_PARTS = 16
# Multiply-adds that are worth a part of their own.
_PART_WORK = 200_000


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


@njit(**OPTIONS)
def _scattered_product(indptr, indices, cuts, data, M, strip, out, start, stop):  # type: ignore[no-untyped-def]
    k, width = M.shape[1], out.shape[2]
    own = np.zeros(width, M.dtype)
    for p in range(start, stop):
        for first in range(0, width, strip):
            last = min(first + strip, width)
            known = min(last, k)
            for i in range(cuts[p], cuts[p + 1]):
                copy_row(M[i, first:known], own[first:known])
                scattered_add(data, indices, indptr[i], indptr[i + 1], own, first, last, out[p])


def strip_of(n_labels: int, k: int, dtype: Any = np.float64) -> int:
    """How many of k columns are added to at a time; 0 where gathering the rows of each label is faster.

    Examples
    --------
    >>> strip_of(100, 20), strip_of(1000, 500), strip_of(100_000, 20)
    (24, 80, 0)
    """
    width, lanes = padded_width(k, dtype), padded_width(1, dtype)
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
    held = (read_only(data, M.dtype), read_only(M, M.dtype))
    run_over_rows(
        _scattered_product, indptr[cuts], width, *pattern_arrays(indptr, indices), cuts, *held, strip, sums
    )
    return sum_of_parts(sums, k)


def sum_of_parts(sums: Floats, k: int) -> Floats:
    """The sums of all parts, without the columns that fill rows up."""
    total = sums[0]
    for part in sums[1:]:
        total += part
    return np.ascontiguousarray(total[:, :k])
