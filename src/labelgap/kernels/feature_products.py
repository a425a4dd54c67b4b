"""Products of sparse features with dense rows.

All of them are sums of rows of a table, ``Σ_t x_t table[i_t]``, which are kept in registers while the rows
stream by; numbers are added in the order of t, whatever the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from labelgap._arrays import read_only
from labelgap._types import Floats, Ints
from labelgap.kernels.entries import csr_product, pattern_arrays, sparse_rows
from labelgap.kernels.options import INLINED, OPTIONS, compiled
from labelgap.kernels.threads import run_over_rows
from labelgap.kernels.vectors import _I64, VECTOR_BYTES, _Emitter

# Bytes of a sum that are in registers at one time, at most.
_TILE_BYTES = 512
_LANES = 8
# Labels, at most, and rows whose entries are spread out at one time: these, and the entries of the rows for
# all other labels, stay in the second cache.
_WIDTH = 32
_FEWEST_ROWS, _MOST_ROWS = 256, 4096
_CACHE_BYTES = 1 << 20
_ENTRY_BYTES = 12
# Rows of a product that are rounded to single precision at a time.
_ROUNDED_ROWS = 1 << 15


def _emit_row_sum(context: Any, builder: Any, kinds: Any, arrays: Any, places: Any, begin: Any) -> Any:
    """The code of the two below, for table, indices, weights and out; ``begin`` is None for the first."""
    emit = _Emitter(context, builder, kinds[0].dtype)
    (rows, (_, width)), (numbers, _), (factors, _), (to, _) = (
        emit.array(kind, value) for kind, value in zip(kinds, arrays, strict=True)
    )
    lanes = emit.constant(emit.lanes)
    last = builder.sub(width, lanes)

    def tile(first: Any, vectors: int) -> None:
        """So many vectors from this column on; the last one of a row may overlap with the one before."""
        columns = []
        for v in range(vectors):
            column = builder.add(first, emit.constant(v * emit.lanes))
            columns.append(builder.select(builder.icmp_signed("<", column, last), column, last))
        starts = [emit.zero() if begin is None else emit.load(emit.at(to, column)) for column in columns]
        sums = [emit.variable(start) for start in starts]
        with emit.every(places[1], 1, places[0]) as t:
            number = builder.load(emit.at(numbers, t))
            number = builder.sext(number, _I64) if number.type != _I64 else number
            number = number if begin is None else builder.sub(number, begin)
            row = builder.mul(number, width)
            weight = emit.spread(emit.rounded(builder.load(emit.at(factors, t))))
            for column, total in zip(columns, sums, strict=True):
                part = emit.load(emit.at(rows, row, column))
                builder.store(emit.multiply_add(weight, part, builder.load(total)), total)
        for column, total in zip(columns, sums, strict=True):
            emit.store(builder.load(total), emit.at(to, column))

    most = emit.sums_at_once(_TILE_BYTES // emit.vector_bytes)
    vectors = builder.udiv(builder.add(width, emit.constant(emit.lanes - 1)), lanes)
    with emit.every(builder.udiv(vectors, emit.constant(most)), 1) as number:
        tile(builder.mul(number, emit.constant(most * emit.lanes)), most)
    left = builder.urem(vectors, emit.constant(most))
    rest = builder.mul(builder.sub(vectors, left), lanes)
    end = builder.append_basic_block("end")
    choice = builder.switch(left, end)
    for count in range(1, most):
        block = builder.append_basic_block(f"left{count}")
        choice.add_case(ir.Constant(_I64, count), block)
        builder.position_at_end(block)
        tile(rest, count)
        builder.branch(end)
    builder.position_at_end(end)
    return context.get_dummy_value()


@intrinsic
def _row_sum(typingctx, table, indices, weights, start, stop, out):  # type: ignore[no-untyped-def]
    """``out = Σ_t weights[t] table[indices[t]]`` for t from start to stop; rows of at least one vector."""
    kinds = (table, indices, weights, out)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arrays = (*args[:3], args[5])
        return _emit_row_sum(context, builder, kinds, arrays, args[3:5], None)

    return types.void(table, indices, weights, types.intp, types.intp, out), generate


@intrinsic
def _add_row_sum(typingctx, table, indices, weights, start, stop, begin, out):  # type: ignore[no-untyped-def]
    """``out += Σ_t weights[t] table[indices[t] − begin]``; rows of a whole number of vectors."""
    kinds = (table, indices, weights, out)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arrays = (*args[:3], args[6])
        return _emit_row_sum(context, builder, kinds, arrays, args[3:5], args[5])

    return types.void(table, indices, weights, types.intp, types.intp, types.intp, out), generate


# Numbers that are added at places of their own in one go.
_AT_ONCE = 4


@intrinsic
def _add_at(typingctx, target, places, data, start, stop, scale):  # type: ignore[no-untyped-def]
    """``target[places[e]] += scale · data[e]`` for e from start to stop; no two places are the same."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, target.dtype)
        (to, _), (numbers, _), (values, _) = (
            emit.array(kind, value) for kind, value in zip((target, places, data), args[:3], strict=True)
        )

        def add(entries: list[Any]) -> None:
            named = (builder.load(emit.at(numbers, entry)) for entry in entries)
            spots = [emit.at(to, n if n.type == _I64 else builder.zext(n, _I64)) for n in named]
            # All are loaded before one is stored, which the compiler could not know to be safe.
            scale = emit.rounded(args[5])
            sums = [
                emit.multiply_add(scale, builder.load(emit.at(values, entry)), builder.load(spot))
                for entry, spot in zip(entries, spots, strict=True)
            ]
            for spot, total in zip(spots, sums, strict=True):
                builder.store(total, spot)

        at_once = emit.constant(_AT_ONCE)
        count = builder.sub(args[4], args[3])
        whole = builder.add(args[3], builder.mul(builder.udiv(count, at_once), at_once))
        with emit.every(whole, _AT_ONCE, args[3]) as entry:
            add([builder.add(entry, emit.constant(j)) for j in range(_AT_ONCE)])
        with emit.every(args[4], 1, whole) as entry:
            add([entry])
        return context.get_dummy_value()

    return types.void(target, places, data, types.intp, types.intp, scale), generate


@compiled(**OPTIONS)
def _product(indptr, indices, data, M, out, start, stop):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        _row_sum(M, indices, data, indptr[i], indptr[i + 1], out[i])


@compiled(**OPTIONS)
def _sampled_product(  # type: ignore[no-untyped-def]
    indptr, indices, x_indptr, x_indices, x_data, W, first, cursors, out, start, stop
):
    """For the labels from ``first`` on that W has columns of; the cursors go on to the labels after those."""
    end = first + W.shape[1]
    scores = np.empty(W.shape[1])
    for i in range(start, stop):
        e, last = cursors[i], indptr[i + 1]
        if e == last or indices[e] >= end:
            continue
        _row_sum(W, x_indices, x_data, x_indptr[i], x_indptr[i + 1], scores)
        while e < last and indices[e] < end:
            out[e] = scores[indices[e] - first]
            e += 1
        cursors[i] = e


@compiled(**INLINED)
def _spread_out(indptr, indices, data, first, begin, end, cursors, spread):  # type: ignore[no-untyped-def]
    """The entries of some rows and labels as a dense block; the cursors go on to the labels after those."""
    width = spread.shape[1]
    for i in range(begin, end):
        row = spread[i - begin]
        for c in range(width):
            row[c] = 0.0
        e, last = cursors[i - begin], indptr[i + 1]
        while e < last and indices[e] < first + width:
            row[indices[e] - first] = data[e]
            e += 1
        cursors[i - begin] = e


@compiled(**OPTIONS)
def _transposed_matrix(  # type: ignore[no-untyped-def]
    x_indptr, x_indices, x_data, indptr, indices, data, rows_at_a_time, width, out, start, stop
):
    n_rows = len(indptr) - 1
    spread = np.empty((rows_at_a_time, width), dtype=data.dtype)
    # Where the part's rows begin and end among those of each column of X, which ascend.
    begins, ends = x_indptr[start:stop].copy(), x_indptr[start:stop].copy()
    out[start:stop] = 0.0
    for begin in range(0, n_rows, rows_at_a_time):
        end = min(begin + rows_at_a_time, n_rows)
        cursors = indptr[begin:end].copy()
        for f in range(stop - start):
            t, last = ends[f], x_indptr[start + f + 1]
            begins[f] = t
            while t < last and x_indices[t] < end:
                t += 1
            ends[f] = t
        for first in range(0, out.shape[1], width):
            _spread_out(indptr, indices, data, first, begin, end, cursors, spread)
            for f in range(stop - start):
                if begins[f] < ends[f]:
                    some = out[start + f, first : first + width]
                    _add_row_sum(spread, x_indices, x_data, begins[f], ends[f], begin, some)


@compiled(**OPTIONS)
def _scattered_matrix(  # type: ignore[no-untyped-def]
    x_indptr, x_indices, x_data, indptr, indices, data, rows_at_a_time, out, start, stop
):
    n_rows = len(indptr) - 1
    cursors = x_indptr[start:stop].copy()
    out[start:stop] = 0.0
    for end in range(rows_at_a_time, n_rows + rows_at_a_time, rows_at_a_time):
        for f in range(stop - start):
            row = out[start + f]
            t, last = cursors[f], x_indptr[start + f + 1]
            while t < last and x_indices[t] < end:
                i = x_indices[t]
                _add_at(row, indices, data, indptr[i], indptr[i + 1], x_data[t])
                t += 1
            cursors[f] = t


def product(X: tuple[Ints, Ints, Floats], M: Floats) -> Floats:
    """``X M`` for sparse X, given by rows, in the precision of M; 8 columns and more are summed in double."""
    if M.shape[1] < _LANES:
        return csr_product(*X, M)
    indptr, indices, data = sparse_rows(X)
    right, n_rows = read_only(M, np.float64), len(indptr) - 1
    out = np.empty((n_rows, M.shape[1]), M.dtype)
    if M.dtype == np.float64:
        run_over_rows(_product, indptr, M.shape[1], indptr, indices, data, right, out)
        return out
    # Some rows at a time: all of them in double precision would be a larger array than the result.
    for start in range(0, n_rows, _ROUNDED_ROWS):
        some = indptr[start : start + _ROUNDED_ROWS + 1]
        entries = slice(some[0], some[-1])
        here = read_only(some - some[0], np.int64)
        sums = np.empty((len(here) - 1, M.shape[1]))
        run_over_rows(_product, here, M.shape[1], here, indices[entries], data[entries], right, sums)
        out[start : start + _ROUNDED_ROWS] = sums
    return out


def sampled_feature_product(indptr: Ints, indices: Ints, X: tuple[Ints, Ints, Floats], W: Floats) -> Floats:
    """``X W`` at the entries of the pattern, by whole rows of XW, for labels that ascend in each row.

    Some columns of W at a time, which stay in the second cache while the rows of X stream by.
    """
    n_features, n_labels = W.shape
    # What is little larger than the cache is better left whole.
    in_cache = _CACHE_BYTES // (16 * max(n_features, 1)) // _LANES * _LANES
    width, _ = _equal_blocks(n_labels, n_labels if W.nbytes <= 2 * _CACHE_BYTES else max(_WIDTH, in_cache))
    out = np.empty(len(indices))
    per_entry = 1 + len(X[1]) // max(len(X[0]) - 1, 1)
    pattern, rows = (read_only(indptr, np.int64), read_only(indices, np.int32)), sparse_rows(X)
    cursors = np.array(indptr[:-1], dtype=np.int64)
    for first in range(0, n_labels, width):
        some = np.zeros((n_features, width))
        some[:, : n_labels - first] = W[:, first : first + width]
        run_over_rows(
            _sampled_product, indptr, per_entry, *pattern, *rows, some, np.int64(first), cursors, out
        )
    return out


def _equal_blocks(n_labels: int, most: int, lanes: int = _LANES) -> tuple[int, int]:
    """The width of blocks of labels, about equal and whole vectors, and their number.

    ``most`` is the most labels of a block, a whole number of vectors unless there is one block.
    """
    blocks = -(-n_labels // most)
    return lanes * -(-n_labels // (lanes * blocks)), blocks


def transposed_matrix(
    columns: tuple[Ints, Ints, Floats], indptr: Ints, indices: Ints, data: NDArray[Any], n_labels: int
) -> NDArray[Any]:
    """``Xᵀ S`` as a dense matrix, for sparse X given by columns and S by rows, labels ascending in each.

    In the precision of S. Fast where S is rather dense: some rows and labels of it at a time are spread out.
    """
    # A vector holds twice as many numbers in single precision.
    lanes = max(_LANES, VECTOR_BYTES // data.itemsize)
    width, blocks = _equal_blocks(n_labels, _WIDTH, lanes)
    out = np.empty((len(columns[0]) - 1, width * blocks), dtype=data.dtype)
    entries = *pattern_arrays(indptr, indices), read_only(data, data.dtype)
    run_over_rows(
        _transposed_matrix, columns[0], n_labels,
        *sparse_rows(columns), *entries, _rows_in_cache(indptr), width, out,
    )  # fmt: skip
    return out[:, :n_labels]


def scattered_matrix(
    columns: tuple[Ints, Ints, Floats], indptr: Ints, indices: Ints, data: NDArray[Any], n_labels: int
) -> NDArray[Any]:
    """The same, entry by entry: fast where rows of S have some entries, but few of the labels."""
    out = np.empty((len(columns[0]) - 1, n_labels), dtype=data.dtype)
    per_stored = 1 + len(indices) // max(len(indptr) - 1, 1)
    entries = *pattern_arrays(indptr, indices), read_only(data, data.dtype)
    run_over_rows(
        _scattered_matrix, columns[0], per_stored,
        *sparse_rows(columns), *entries, _rows_in_cache(indptr), out,
    )  # fmt: skip
    return out


def _rows_in_cache(indptr: Ints) -> int:
    """How many rows have entries that stay in the second cache."""
    per_row = _ENTRY_BYTES * (1 + int(indptr[-1]) // max(len(indptr) - 1, 1))
    return max(_FEWEST_ROWS, min(_MOST_ROWS, _CACHE_BYTES // per_row))
