"""Loops over short rows, written out in vector instructions.

The compiler's own vectoriser gives up on loops over k neighbouring numbers: it cannot know that arrays do not
overlap, or that k is a whole number of vectors. These building blocks say so. They are called from compiled
kernels, and expect C-contiguous arrays whose rows are a whole number of vectors long
(:func:`labelgap.kernels.entries.padded_width`); what fills a row up is 0 and stays 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

LINE_BYTES = 64
"""A cache line."""
# How many entries before its turn a row of a table is brought into the cache. The processor looks ahead by
# itself, but not as far as rows of several cache lines take.
_AHEAD = 8
# Registers that sums may take up; the others are for what is added to them.
_FRACTION_FOR_SUMS = 0.75
_I64, _I32 = ir.IntType(64), ir.IntType(32)


def lanes_of(array: Any) -> int:
    """How many numbers of an array make a vector; for compiled code."""
    raise NotImplementedError


@overload(lanes_of, inline="always")
def _lanes_of(array):  # type: ignore[no-untyped-def]
    lanes = VECTOR_BYTES // (array.dtype.bitwidth // 8)
    return lambda array: lanes


def _registers(codegen: Any) -> tuple[int, int]:
    """How many vector registers the code is made for, and of how many bytes."""
    features = str(codegen._tm_features).split(",")
    if "+avx512f" in features:
        return 32, 64
    if "+avx" in features:
        return 16, 32
    return (32 if codegen._tm.triple.startswith(("aarch64", "arm64")) else 16), 16


@cache
def register_bytes() -> int:
    """The size of a vector register: 16 on aarch64 and plain x86-64, more where there is AVX."""
    return _registers(cpu_target.target_context.codegen())[1]


VECTOR_BYTES = min(LINE_BYTES, 2 * register_bytes())
"""One vector: two registers, into which the compiler splits it, and at most a cache line.

Rows of more than one vector are filled up to whole lines. With 8 columns in single precision, where one
vector is enough, a line would double the work.
"""


class _Emitter:
    """Vector loads, stores and arithmetic at element offsets of arrays of one type."""

    def __init__(self, context: Any, builder: Any, element: Any, vector_bytes: int = VECTOR_BYTES) -> None:
        self.context, self.builder = context, builder
        self.number = context.get_value_type(element)
        self.size, self.vector_bytes = element.bitwidth // 8, vector_bytes
        self.lanes = vector_bytes // self.size
        self.vector = ir.VectorType(self.number, self.lanes)
        # By default wide registers are left unused for fear of a lower clock; these loops are worth it. The
        # attributes mean nothing to other processors.
        for attribute in ('"min-legal-vector-width"="512"', '"prefer-vector-width"="512"'):
            set.add(builder.function.attributes, attribute)

    def sums_at_once(self, most: int) -> int:
        """How many vectors of sums stay in registers, at least one and at most so many.

        More of them than there is space for would be stored and loaded again with every entry.
        """
        registers, size = _registers(self.context.codegen())
        return int(max(1, min(most, _FRACTION_FOR_SUMS * registers * size // self.vector_bytes)))

    def array(self, kind: Any, value: Any) -> tuple[Any, list[Any]]:
        """The data pointer of an array, and its shape."""
        if kind.layout != "C":
            raise TypeError("vector kernels take C-contiguous arrays only")
        array = self.context.make_array(kind)(self.context, self.builder, value)
        return array.data, cgutils.unpack_tuple(self.builder, array.shape)  # type: ignore[no-untyped-call]

    def at(self, base: Any, *offsets: Any) -> Any:
        """``base + Σ offsets``."""
        total = offsets[0]
        for offset in offsets[1:]:
            total = self.builder.add(total, offset)
        return self.builder.gep(base, [total])

    def row_of(self, numbers: Any, place: Any, width: Any) -> Any:
        """The offset of the row that ``numbers`` names at a place."""
        row = self.builder.load(self.at(numbers, place))
        return self.builder.mul(row if row.type == _I64 else self.builder.sext(row, _I64), width)

    def fetch(self, table: Any, start: Any, width: Any) -> None:
        """Have so many numbers of a table brought into the cache."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        module, name = self.builder.module, "llvm.prefetch.p0i8"
        prefetch = cgutils.get_or_insert_function(module, kind, name)  # type: ignore[no-untyped-call]
        # For reading, to be kept in all levels, of data. A row may begin in the middle of a line; steps of a
        # vector, which is no longer than a line, leave out at most the last one.
        how = [ir.Constant(_I32, value) for value in (0, 3, 1)]
        with self.vectors(width) as column:
            self.builder.call(prefetch, [self.builder.bitcast(self.at(table, start, column), byte), *how])

    def fetch_ahead(
        self, table: Any, numbers: Any, entry: Any, stop: Any, row_width: Any, first: Any, width: Any
    ) -> None:
        """The same for ``width`` numbers from ``first`` on, of the row that a later entry names."""
        later = self.builder.add(entry, self.constant(_AHEAD))
        later = self.builder.select(self.builder.icmp_signed("<", later, stop), later, entry)
        self.fetch(table, self.builder.add(self.row_of(numbers, later, row_width), first), width)

    def constant(self, value: int) -> Any:
        return ir.Constant(_I64, value)

    def load(self, pointer: Any) -> Any:
        value = self.builder.load(self.builder.bitcast(pointer, self.vector.as_pointer()))
        value.align = self.size
        return value

    def store(self, value: Any, pointer: Any) -> None:
        done = self.builder.store(value, self.builder.bitcast(pointer, self.vector.as_pointer()))
        done.align = self.size

    def spread(self, scalar: Any) -> Any:
        """The scalar in every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        lanes = ir.Constant(ir.VectorType(_I32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, undefined, lanes)

    def rounded(self, scalar: Any) -> Any:
        """A number in the precision of the vectors, which may be lower than its own."""
        return scalar if scalar.type == self.number else self.builder.fptrunc(scalar, self.number)

    def multiply_add(self, a: Any, b: Any, total: Any) -> Any:
        """``total + a b``, of vectors or of numbers, rounded once where the processor can.

        Given products and sums that it may contract, the compiler would choose which of them to round by what
        surrounds them.
        """
        kind, lanes = total.type, getattr(total.type, "count", None)
        name = f"llvm.fmuladd.{'' if lanes is None else f'v{lanes}'}f{8 * self.size}"
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            self.builder.module, ir.FunctionType(kind, [kind] * 3), name
        )
        return self.builder.call(function, [a, b, total])

    @contextmanager
    def every(self, stop: Any, step: int, start: Any = None) -> Iterator[Any]:
        """A loop over every ``step``-th number from ``start`` (0) up to ``stop``."""
        first = self.constant(0) if start is None else start
        with cgutils.for_range_slice(self.builder, first, stop, self.constant(step), inc=True) as (at, _):
            yield at

    @contextmanager
    def vectors(self, width: Any, first: Any = None) -> Iterator[Any]:
        """A loop over the vectors of a row, from the one that holds the place ``first`` (0) on."""
        start = None
        if first is not None:
            lanes = self.constant(self.lanes)
            start = self.builder.mul(self.builder.udiv(first, lanes), lanes)
        with self.every(width, self.lanes, start) as column:
            yield column

    def zero(self) -> Any:
        return ir.Constant(self.vector, [0.0] * self.lanes)

    def variable(self, value: Any) -> Any:
        slot = cgutils.alloca_once(self.builder, value.type)  # type: ignore[no-untyped-call]
        self.builder.store(value, slot)
        return slot

    def lane_sum(self, vector: Any) -> Any:
        """The sum of the lanes, halves at a time."""
        lanes = self.lanes
        while lanes > 1:
            half = lanes // 2
            undefined = ir.Constant(vector.type, ir.Undefined)
            parts = [
                self.builder.shuffle_vector(
                    vector,
                    undefined,
                    ir.Constant(ir.VectorType(_I32, half), list(range(first, first + half))),
                )
                for first in (0, half)
            ]
            vector = self.builder.fadd(*parts)
            lanes = half
        return self.builder.extract_element(vector, ir.Constant(_I32, 0))


@intrinsic
def gather_and_dot(typingctx, table, indices, start, count, own, gathered, dots):  # type: ignore[no-untyped-def]
    """``gathered[e] = table[indices[start + e]]`` and ``dots[e] = own · gathered[e]`` for e below count."""
    signature = types.void(table, indices, types.intp, types.intp, own, gathered, dots)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, table.dtype)
        (rows, (_, width)), (numbers, _), (mine, _), (out, _), (sums, _) = (
            emit.array(kind, value)
            for kind, value in zip(
                (table, indices, own, gathered, dots),
                (args[0], args[1], args[4], args[5], args[6]),
                strict=True,
            )
        )
        with cgutils.for_range(builder, args[3]) as loop:
            row = emit.row_of(numbers, builder.add(args[2], loop.index), width)
            to = builder.mul(loop.index, width)
            total = emit.variable(emit.zero())
            with emit.vectors(width) as column:
                part = emit.load(emit.at(rows, row, column))
                emit.store(part, emit.at(out, to, column))
                held = emit.load(emit.at(mine, column))
                builder.store(emit.multiply_add(part, held, builder.load(total)), total)
            builder.store(emit.lane_sum(builder.load(total)), emit.at(sums, loop.index))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def fetch_rows(typingctx, table, indices, start, stop):  # type: ignore[no-untyped-def]
    """Have the rows of the table that ``indices`` name from start to stop brought into the cache."""
    signature = types.void(table, indices, types.intp, types.intp)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, table.dtype)
        (rows, (_, width)), (numbers, _) = emit.array(table, args[0]), emit.array(indices, args[1])
        with emit.every(args[3], 1, args[2]) as entry:
            emit.fetch(rows, emit.row_of(numbers, entry, width), width)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def scale_and_sum(typingctx, gathered, count, slopes, curvatures, scaled, total, curved_total):  # type: ignore[no-untyped-def]
    """``scaled = curvatures ∘ gathered`` by rows, and sums of the rows times slopes and times curvatures."""
    signature = types.void(gathered, types.intp, slopes, curvatures, scaled, total, curved_total)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, gathered.dtype)
        (rows, (_, width)), (slope, _), (curvature, _), (out, _), (sums, _), (curvature_sums, _) = (
            emit.array(kind, value)
            for kind, value in zip(
                (gathered, slopes, curvatures, scaled, total, curved_total),
                (args[0], *args[2:]),
                strict=True,
            )
        )
        with emit.vectors(width) as column:
            pulled = emit.variable(emit.load(emit.at(sums, column)))
            curved = emit.variable(emit.load(emit.at(curvature_sums, column)))
            with cgutils.for_range(builder, args[1]) as loop:
                place = builder.add(builder.mul(loop.index, width), column)
                part = emit.load(emit.at(rows, place))
                g = emit.spread(builder.load(emit.at(slope, loop.index)))
                c = emit.spread(builder.load(emit.at(curvature, loop.index)))
                heavy = builder.fmul(c, part)
                emit.store(heavy, emit.at(out, place))
                builder.store(emit.multiply_add(g, part, builder.load(pulled)), pulled)
                builder.store(builder.fadd(builder.load(curved), heavy), curved)
            emit.store(builder.load(pulled), emit.at(sums, column))
            emit.store(builder.load(curved), emit.at(curvature_sums, column))
        return context.get_dummy_value()

    return signature, generate


# Rows and vectors of the tile of a Gram matrix that stays in registers, at most.
_TILE_ROWS, _TILE_VECTORS = 8, 2


@intrinsic
def add_gram(typingctx, H, gathered, scaled, count):  # type: ignore[no-untyped-def]
    """``H += scaledᵀ gathered`` over the first ``count`` rows, on and above the diagonal at least."""
    signature = types.void(H, gathered, scaled, types.intp)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        # What a tile reaches over the diagonal is for nothing: where registers are short, so are its rows.
        twice = 2 * _registers(context.codegen())[1]
        emit = _Emitter(context, builder, H.dtype, min(VECTOR_BYTES, twice))
        (h, (width, _)), (q, _), (s, _) = (
            emit.array(kind, value) for kind, value in zip((H, gathered, scaled), args[:3], strict=True)
        )
        # A power of 2, which divides the width. Broadcasts are loads too, so rows come before vectors.
        most_rows = 1 << (min(emit.sums_at_once(_TILE_ROWS), emit.lanes).bit_length() - 1)
        most_vectors = emit.sums_at_once(most_rows * _TILE_VECTORS) // most_rows
        shifts = [emit.constant(j * emit.lanes) for j in range(most_vectors)]

        def tile(row: Any, column: Any, vectors: int) -> None:
            lines = [builder.mul(builder.add(row, emit.constant(i)), width) for i in range(most_rows)]
            places = [[emit.at(h, line, column, shift) for shift in shifts[:vectors]] for line in lines]
            sums = [[emit.variable(emit.load(place)) for place in line] for line in places]
            with cgutils.for_range(builder, args[3]) as loop:
                entry = builder.mul(loop.index, width)
                parts = [emit.load(emit.at(q, entry, column, shift)) for shift in shifts[:vectors]]
                for i, line in enumerate(sums):
                    weight = emit.spread(builder.load(emit.at(s, entry, row, emit.constant(i))))
                    for part, total in zip(parts, line, strict=True):
                        builder.store(emit.multiply_add(weight, part, builder.load(total)), total)
            for line, targets in zip(sums, places, strict=True):
                for total, place in zip(line, targets, strict=True):
                    emit.store(builder.load(total), place)

        lanes = emit.constant(emit.lanes)
        with emit.every(width, most_rows) as row:
            # From the vector that holds the diagonal of the tile's first row.
            first = builder.mul(builder.udiv(row, lanes), lanes)
            vectors = builder.udiv(builder.sub(width, first), lanes)
            column = emit.variable(first)
            with cgutils.for_range(builder, builder.udiv(vectors, emit.constant(most_vectors))):
                tile(row, builder.load(column), most_vectors)
                step = emit.constant(most_vectors * emit.lanes)
                builder.store(builder.add(builder.load(column), step), column)
            if most_vectors > 1:
                odd = builder.urem(vectors, emit.constant(most_vectors))
                with builder.if_then(builder.icmp_unsigned("!=", odd, emit.constant(0))):
                    tile(row, builder.load(column), 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_multiple(typingctx, target, scale, source, first):  # type: ignore[no-untyped-def]
    """``target += scale · source`` from the vector that holds the place ``first`` on."""
    signature = types.void(target, target.dtype, source, types.intp)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, target.dtype)
        (to, (width,)), (of, _) = emit.array(target, args[0]), emit.array(source, args[2])
        weight = emit.spread(args[1])
        with emit.vectors(width, args[3]) as column:
            place = emit.at(to, column)
            emit.store(emit.multiply_add(weight, emit.load(emit.at(of, column)), emit.load(place)), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def inner(typingctx, one, other, first):  # type: ignore[no-untyped-def]
    """``one · other`` from the vector that holds the place ``first`` on."""
    signature = one.dtype(one, other, types.intp)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, one.dtype)
        (a, (width,)), (b, _) = emit.array(one, args[0]), emit.array(other, args[1])
        total = emit.variable(emit.zero())
        with emit.vectors(width, args[2]) as column:
            product = emit.multiply_add(
                emit.load(emit.at(a, column)), emit.load(emit.at(b, column)), builder.load(total)
            )
            builder.store(product, total)
        return emit.lane_sum(builder.load(total))

    return signature, generate


@intrinsic
def multiply(typingctx, target, scale, first):  # type: ignore[no-untyped-def]
    """``target *= scale`` from the vector that holds the place ``first`` on."""
    signature = types.void(target, target.dtype, types.intp)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, target.dtype)
        to, (width,) = emit.array(target, args[0])
        weight = emit.spread(args[1])
        with emit.vectors(width, args[2]) as column:
            place = emit.at(to, column)
            emit.store(builder.fmul(weight, emit.load(place)), place)
        return context.get_dummy_value()

    return signature, generate


# Bytes of a row of sums that stay in registers while its entries stream by, at most.
_SUM_BYTES = 256


def _in_strips(emit: _Emitter, column: Any, vectors: Any, strip: Callable[[Any, int], None]) -> None:
    """Emit ``strip(first column, vectors)`` for so many vectors from a variable ``column`` on.

    Every strip reads all that is summed, so there are as few as may be.
    """
    builder, left, count = emit.builder, vectors, emit.sums_at_once(_SUM_BYTES // emit.vector_bytes)
    while count:
        with cgutils.for_range(builder, builder.udiv(left, emit.constant(count))):
            strip(builder.load(column), count)
            step = emit.constant(count * emit.lanes)
            builder.store(builder.add(builder.load(column), step), column)
        left, count = builder.urem(left, emit.constant(count)), count // 2


@intrinsic
def eliminate(typingctx, U, row):  # type: ignore[no-untyped-def]
    """``U[row] -= Σ_t U[t, row] U[t]`` over the rows t before it, from the vector that holds the diagonal on.

    The sums stay in registers: to subtract each row from all later ones would load and store those each time.
    """
    signature = types.void(U, types.intp)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, U.dtype)
        u, (_, width) = emit.array(U, args[0])
        lanes = emit.constant(emit.lanes)
        column = emit.variable(builder.mul(builder.udiv(args[1], lanes), lanes))
        target = builder.mul(args[1], width)

        def strip(first: Any, count: int) -> None:
            shifts = [builder.add(first, emit.constant(j * emit.lanes)) for j in range(count)]
            sums = [emit.variable(emit.load(emit.at(u, target, shift))) for shift in shifts]
            with emit.every(args[1], 1) as before:
                source = builder.mul(before, width)
                weight = emit.spread(builder.fneg(builder.load(emit.at(u, source, args[1]))))
                for shift, total in zip(shifts, sums, strict=True):
                    part = emit.load(emit.at(u, source, shift))
                    builder.store(emit.multiply_add(weight, part, builder.load(total)), total)
            for shift, total in zip(shifts, sums, strict=True):
                emit.store(builder.load(total), emit.at(u, target, shift))

        _in_strips(emit, column, builder.udiv(builder.sub(width, builder.load(column)), lanes), strip)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def gathered_sum(typingctx, data, indices, begin, end, M, out):  # type: ignore[no-untyped-def]
    """``out = Σ_e data[e] M[indices[e]]`` over entries from begin to end, in the columns of whole vectors."""
    signature = types.void(data, indices, types.intp, types.intp, M, out)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, M.dtype)
        values, _ = emit.array(data, args[0])
        numbers, _ = emit.array(indices, args[1])
        table, (_, width) = emit.array(M, args[4])
        target, _ = emit.array(out, args[5])
        lanes = emit.constant(emit.lanes)
        vectors = builder.udiv(width, lanes)
        column = emit.variable(emit.constant(0))

        def strip(first: Any, count: int) -> None:
            shifts = [builder.add(first, emit.constant(j * emit.lanes)) for j in range(count)]
            sums = [emit.variable(emit.zero()) for _ in shifts]
            with emit.every(args[3], 1, args[2]) as entry:
                weight = emit.spread(builder.load(emit.at(values, entry)))
                row = emit.row_of(numbers, entry, width)
                if count > 1:
                    # Short rows come early enough by themselves.
                    wide = emit.constant(count * emit.lanes)
                    emit.fetch_ahead(table, numbers, entry, args[3], width, first, wide)
                for shift, total in zip(shifts, sums, strict=True):
                    part = emit.load(emit.at(table, row, shift))
                    builder.store(emit.multiply_add(weight, part, builder.load(total)), total)
            for shift, total in zip(shifts, sums, strict=True):
                emit.store(builder.load(total), emit.at(target, shift))

        _in_strips(emit, column, vectors, strip)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def gathered_dots(typingctx, own, M, indices, begin, end, out):  # type: ignore[no-untyped-def]
    """``out[e] = own · M[indices[e]]`` for entries from begin to end, over the columns of whole vectors."""
    signature = types.void(own, M, indices, types.intp, types.intp, out)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        emit = _Emitter(context, builder, M.dtype)
        mine, _ = emit.array(own, args[0])
        table, (_, width) = emit.array(M, args[1])
        numbers, _ = emit.array(indices, args[2])
        target, _ = emit.array(out, args[5])
        lanes = emit.constant(emit.lanes)
        whole = builder.mul(builder.udiv(width, lanes), lanes)
        with emit.every(args[4], 1, args[3]) as entry:
            row = emit.row_of(numbers, entry, width)
            emit.fetch_ahead(table, numbers, entry, args[4], width, emit.constant(0), whole)
            total = emit.variable(emit.zero())
            with emit.vectors(whole) as column:
                parts = emit.load(emit.at(mine, column)), emit.load(emit.at(table, row, column))
                builder.store(emit.multiply_add(*parts, builder.load(total)), total)
            builder.store(emit.lane_sum(builder.load(total)), emit.at(target, entry))
        return context.get_dummy_value()

    return signature, generate
