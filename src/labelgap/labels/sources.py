"""From what a user holds (arrays, masks, sparse matrices, triplets, frames) to sorted entries of Ω.

Every reader returns :class:`Entries`: row, column, value and weight of each observed entry, not yet sorted.
:func:`sort_entries` orders them, :func:`check_values` and :func:`check_weights` refuse what cannot be used.
pandas and polars are touched only through objects that come from them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from labelgap._arrays import check_sparse, plain_array
from labelgap.exceptions import InvalidLabelsError

Names = tuple[Hashable, ...]

# Rows and columns that can be counted.
_LARGEST_COUNT = np.iinfo(np.int64).max
# Entries whose chosen ones are counted at a time.
_BLOCK = 1 << 18


@dataclass
class Entries:
    """Observed entries in any order, with the shape and names they belong to."""

    rows: NDArray[Any]
    cols: NDArray[Any]
    values: NDArray[Any]
    weights: NDArray[Any] | None
    shape: tuple[int, int]
    row_names: Names | None = None
    label_names: Names | None = None

    def place(self, entry: int) -> str:
        """Where entry number ``entry`` is, in words: row, column and their names when known."""
        row, col = int(self.rows[entry]), int(self.cols[entry])
        text = f"row {row}"
        if self.row_names is not None:
            text += f" ({self.row_names[row]!r})"
        text += f", column {col}"
        if self.label_names is not None:
            text += f" (label {self.label_names[col]!r})"
        return text

    def keep(self, kept: NDArray[Any]) -> Entries:
        """The entries named by a mask or an order."""
        weights = None if self.weights is None else self.weights[kept]
        return Entries(
            self.rows[kept],
            self.cols[kept],
            self.values[kept],
            weights,
            self.shape,
            self.row_names,
            self.label_names,
        )


def is_iterable(given: Any) -> bool:
    """Whether there is something to go through; not so for a 0-d array, which has the method."""
    try:
        iter(given)
    except TypeError:
        return False
    return True


def as_names(names: Sequence[Hashable] | None, what: str) -> Names | None:
    """``names`` as a tuple, or an error when they are no sequence of names."""
    if names is None:
        return None
    given: Any = names
    if isinstance(given, bytes | set | frozenset) or sparse.issparse(given) or not is_iterable(given):
        raise InvalidLabelsError(
            f"{what}_names must be a sequence with one name for each {what}, in their order; got {names!r}."
        )
    result: Names = tuple(given)
    for position, name in enumerate(result):
        try:
            hash(name)
        except TypeError as error:
            raise InvalidLabelsError(
                f"{what}_names has {name!r} at position {position}, of type {type(name).__name__}; a name "
                "is a text, a number or a tuple of these."
            ) from error
    return result


def check_names(names: Sequence[Hashable] | None, count: int, what: str) -> Names | None:
    """``names`` as a tuple, or an error when there are too few, too many, or a label twice."""
    result = as_names(names, what)
    if result is None:
        return None
    if len(result) != count:
        raise InvalidLabelsError(
            f"{what}_names has {len(result)} names for {count} {what}s; give one for each."
        )
    # Rows may repeat a name (a bootstrap sample does); a repeated label could not be told apart in a report.
    if what == "label" and len(set(result)) != count:
        first_at: dict[Hashable, int] = {}
        for position, name in enumerate(result):
            if name in first_at:
                raise InvalidLabelsError(
                    f"label_names has {name!r} twice, at columns {first_at[name]} and {position}; "
                    "rename or merge one of them."
                )
            first_at[name] = position
    return result


def as_matrix(array: ArrayLike, what: str) -> NDArray[Any]:
    """``array`` as a 2-d numpy array, or an error that says how to make it one."""
    try:
        matrix = np.asarray(array)
    except ValueError as error:
        raise InvalidLabelsError(
            f"{what} is no rectangular matrix ({error}); every row needs the same number of columns."
        ) from error
    if matrix.ndim == 1:
        raise InvalidLabelsError(
            f"{what} must be a matrix with one row per instance and one column per label, but it is 1-d with "
            f"{matrix.shape[0]} values; for a single label use {what}.reshape(-1, 1)."
        )
    if matrix.ndim != 2:
        raise InvalidLabelsError(
            f"{what} must be 2-d (instances x labels), but it has {matrix.ndim} dimensions."
        )
    return matrix


def is_null(value: object) -> bool:
    """True for None, NaN, NaT and pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def observed_mask(matrix: NDArray[Any]) -> NDArray[np.bool_]:
    """True where ``matrix`` holds a value and not a NaN or null."""
    if matrix.dtype.kind == "f":
        return np.asarray(~np.isnan(matrix))
    if matrix.dtype.kind == "O":
        flat = np.fromiter((not is_null(v) for v in matrix.ravel()), dtype=np.bool_, count=matrix.size)
        return flat.reshape(matrix.shape)
    return np.ones(matrix.shape, dtype=np.bool_)


def read_dense(
    Y: ArrayLike,
    observed: NDArray[np.bool_] | None,
    weights: ArrayLike | None,
    row_names: Sequence[Hashable] | None,
    label_names: Sequence[Hashable] | None,
) -> Entries:
    """Entries of a dense matrix: where ``observed`` holds, less what is NaN or null."""
    matrix = as_matrix(Y, "Y")
    present = observed_mask(matrix)
    if observed is not None:
        if observed.shape != matrix.shape:
            raise InvalidLabelsError(
                f"The mask has shape {observed.shape} but Y has shape {matrix.shape}; they must be the same."
            )
        present &= observed
    rows, cols = np.nonzero(present)
    return Entries(
        rows,
        cols,
        matrix[rows, cols],
        _gather_weights(weights, rows, cols, matrix.shape),
        (matrix.shape[0], matrix.shape[1]),
        check_names(row_names, matrix.shape[0], "row"),
        check_names(label_names, matrix.shape[1], "label"),
    )


def _gather_weights(
    weights: Any, rows: NDArray[Any], cols: NDArray[Any], shape: tuple[int, ...]
) -> NDArray[Any] | None:
    """The weights at (rows, cols) of a weight matrix; a sparse one weighs 0 where nothing is stored."""
    if weights is None:
        return None
    if sparse.issparse(weights):
        if weights.shape != shape:
            raise InvalidLabelsError(f"weights has shape {weights.shape} but Y has shape {shape}.")
        check_sparse(weights, "weights", InvalidLabelsError)
        return gather_sparse(weights, rows, cols)[0]
    matrix = as_matrix(weights, "weights")
    if matrix.shape != shape:
        raise InvalidLabelsError(f"weights has shape {matrix.shape} but Y has shape {shape}.")
    return np.asarray(matrix[rows, cols])


def read_sparse(
    Y: Any,
    weights: Any,
    row_names: Sequence[Hashable] | None,
    label_names: Sequence[Hashable] | None,
) -> Entries:
    """Stored entries of a sparse matrix, explicit zeros included."""
    if len(Y.shape) != 2:
        raise InvalidLabelsError(
            f"Y must be 2-d (instances x labels), but it has {len(Y.shape)} dimension(s)."
        )
    check_sparse(Y, "Y", InvalidLabelsError)
    # COO keeps duplicates apart, so that they are reported and not summed into a wrong value.
    stored = Y.tocoo()
    rows, cols = stored.row, stored.col
    return Entries(
        rows,
        cols,
        stored.data,
        _gather_weights(weights, rows, cols, Y.shape),
        (int(Y.shape[0]), int(Y.shape[1])),
        check_names(row_names, Y.shape[0], "row"),
        check_names(label_names, Y.shape[1], "label"),
    )


def gather_sparse(
    matrix: Any, rows: NDArray[Any], cols: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values of a sparse matrix at (rows, cols), 0 where nothing is stored, and whether one is stored."""
    table = matrix.tocsr()
    if not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    width = max(int(table.shape[1]), 1)
    keys = np.repeat(np.arange(table.shape[0], dtype=np.int64) * width, np.diff(table.indptr)) + table.indices
    wanted = rows.astype(np.int64) * width + cols
    if np.array_equal(keys, wanted):
        return table.data.copy(), np.ones(len(wanted), dtype=np.bool_)
    found = np.zeros(len(wanted), dtype=table.dtype)
    stored = np.zeros(len(wanted), dtype=np.bool_)
    if len(keys):
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        stored = keys[at] == wanted
        found[stored] = table.data[at[stored]]
    return found, stored


def fill_weights(weights: Any) -> NDArray[np.float64]:
    """A sparse weight matrix as a dense one that weighs 1 where nothing is stored."""
    check_sparse(weights, "weights", InvalidLabelsError)
    filled = np.ones(weights.shape)
    stored = weights.tocoo()
    filled[stored.row, stored.col] = stored.data
    return filled


def read_triplets(
    rows: ArrayLike,
    cols: ArrayLike,
    values: ArrayLike,
    shape: tuple[int, int] | None,
    weights: ArrayLike | None,
    row_names: Sequence[Hashable] | None,
    label_names: Sequence[Hashable] | None,
) -> Entries:
    """Entries from three vectors; the smallest shape that holds them unless names or ``shape`` say more."""
    rows, cols, values = _vector(rows, "rows"), _vector(cols, "cols"), _vector(values, "values")
    lengths = {"rows": len(rows), "cols": len(cols), "values": len(values)}
    if weights is not None:
        weights = _vector(weights, "weights")
        lengths["weights"] = len(weights)
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InvalidLabelsError(f"Triplets need vectors of one length, but there are: {given}.")
    shape = None if shape is None else _check_shape(shape)
    row_names, label_names = as_names(row_names, "row"), as_names(label_names, "label")
    row_index, n_rows = _check_indices(rows, "row", shape[0] if shape else None, row_names)
    col_index, n_cols = _check_indices(cols, "column", shape[1] if shape else None, label_names)
    return Entries(
        row_index,
        col_index,
        values,
        weights,
        (n_rows, n_cols),
        check_names(row_names, n_rows, "row"),
        check_names(label_names, n_cols, "label"),
    )


def _vector(given: Any, name: str) -> NDArray[Any]:
    """One of the triplets' vectors."""
    if not sparse.issparse(given):
        try:
            array = np.asarray(given)
        except ValueError:
            array = np.empty((0, 0))
        if array.ndim == 1:
            return array
    raise InvalidLabelsError(
        f"{name} of triplets must be a vector, with one number for each entry; got {given!r}."
    )


def _check_shape(shape: Any) -> tuple[int, int]:
    counts = tuple(shape) if isinstance(shape, tuple | list) or np.ndim(shape) == 1 else ()
    whole = all(isinstance(c, int | np.integer) and not isinstance(c, bool) for c in counts)
    if not (len(counts) == 2 and whole and all(0 <= count <= _LARGEST_COUNT for count in counts)):
        raise InvalidLabelsError(f"shape must be two counts (instances, labels), not {shape!r}.")
    return int(counts[0]), int(counts[1])


def _check_indices(
    index: ArrayLike, what: str, bound: int | None, names: Sequence[Hashable] | None
) -> tuple[NDArray[np.int64], int]:
    array = np.asarray(index)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InvalidLabelsError(
            f"The {what} numbers must be a vector of integers, not {array.ndim}-d of type {array.dtype}; "
            "for names use from_long_frame."
        )
    if array.size and array.max() >= _LARGEST_COUNT:
        raise InvalidLabelsError(f"The {what} number {array.max()} is too large; count {what}s from 0.")
    numbers = array.astype(np.int64, copy=False)
    if bound is None:
        bound = len(names) if names is not None else int(numbers.max(initial=-1)) + 1
    bad = (numbers < 0) | (numbers >= bound)
    if bad.any():
        first = int(np.argmax(bad))
        raise InvalidLabelsError(
            f"Triplet {first} has {what} {numbers[first]}, but {what}s run from 0 to {bound - 1}; "
            + ("count from 0." if numbers[first] < 0 else "correct it or give a larger shape.")
        )
    return numbers, int(bound)


def sort_entries(entries: Entries) -> Entries:
    """The entries by row, then column, less those whose value is null; an error if a place comes twice."""
    rows, cols = entries.rows, entries.cols
    step = np.diff(rows)
    if not np.all((step > 0) | ((step == 0) & (np.diff(cols) > 0))):
        entries = entries.keep(np.lexsort((cols, rows)))
        twice = (np.diff(entries.rows) == 0) & (np.diff(entries.cols) == 0)
        if twice.any():
            first = int(np.argmax(twice))
            raise InvalidLabelsError(
                f"The entry at {entries.place(first)} is given more than once "
                f"(values {entries.values[first]} and {entries.values[first + 1]}); keep one of them."
            )
    present = observed_mask(entries.values)
    return entries if present.all() else entries.keep(present)


def check_values(entries: Entries, binary: bool) -> NDArray[Any]:
    """The values as int8 0/1 (finite float64 when not ``binary``); an error names the first bad one."""
    values = entries.values
    kind = values.dtype.kind
    if kind == "O":
        numeric = np.fromiter(
            (isinstance(v, bool | int | float | np.number | np.bool_) for v in values), np.bool_
        )
        _refuse(entries, ~numeric, "is no number")
        values = values.astype(np.float64)
    elif kind not in "biuf":
        _refuse(entries, np.ones(len(values), dtype=np.bool_), "is no number")
        values = np.empty(0)
    if not binary:
        result = values.astype(np.float64)
        _refuse(entries, ~np.isfinite(result), "is not finite")
        return result
    if kind != "b":
        _refuse(entries, (values != 0) & (values != 1), "is neither 0 nor 1")
    return values.astype(np.int8)


def _refuse(entries: Entries, bad: NDArray[np.bool_], why: str) -> None:
    if not bad.any():
        return
    first = int(np.argmax(bad))
    value = entries.values[first]
    shown = value.item() if isinstance(value, np.generic) else value
    if isinstance(shown, float) and np.isinf(shown):
        advice = "Mark what is not observed by NaN."
    elif shown == -1:
        advice = minus_one_advice(
            entries.values,
            with_zeros="Its labels are -1, 0 and 1. If -1 is a no and 0 is not observed, pass "
            "np.where(Y == 0, np.nan, np.maximum(Y, 0)); if -1 is not observed and 0 is a no, pass "
            "np.where(Y == -1, np.nan, Y).",
            without="For labels coded -1/+1 pass (Y > 0), and mark what is not observed by a mask "
            "(ObservedLabels.from_mask), because NaN > 0 is False.",
            else_="Code positives as 1, negatives as 0 and what is not observed as NaN.",
        )
    else:
        advice = "Code positives as 1, negatives as 0 and what is not observed as NaN."
    if shown == 2 and entries.values.dtype.kind in "iu":
        # Its encoder numbers the values of a column, and NaN comes after 0 and 1.
        advice += (
            " If the labels go through scikit-learn's cross_val_predict with method='predict_proba' or "
            "'decision_function': it has coded NaN as 2. Use method='predict', or fit and score each fold in "
            "a loop of your own."
        )
    raise InvalidLabelsError(f"The label at {entries.place(first)} is {shown!r}, which {why}. {advice}")


def minus_one_advice(values: NDArray[Any], *, with_zeros: str, without: str, else_: str) -> str:
    """What to do about labels of −1, which beside zeros may be a no or not observed.

    ``with_zeros`` is for values of −1 and 0, and perhaps 1; ``without`` for −1 and 1; ``else_`` for others.
    """
    distinct = set(np.unique(values[observed_mask(values)]).tolist())
    if -1 not in distinct or not distinct <= {-1, 0, 1}:
        return else_
    return with_zeros if 0 in distinct else without


def check_weights(entries: Entries) -> NDArray[np.float64] | None:
    """The weights as float64, or an error that names the first that is not positive and finite."""
    if entries.weights is None:
        return None
    plain_array(entries.weights, "The weights", InvalidLabelsError)
    if entries.weights.dtype.kind not in "biufO":
        raise InvalidLabelsError(f"The weights must be numbers, not {entries.weights.dtype}.")
    try:
        weights = entries.weights.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidLabelsError(f"The weights must be numbers: {error}.") from error
    bad = ~(np.isfinite(weights) & (weights > 0))
    if bad.any():
        first = int(np.argmax(bad))
        raise InvalidLabelsError(
            f"The weight at {entries.place(first)} is {weights[first]}; weights must be positive and finite. "
            "Leave an entry out (not observed) instead of giving it weight 0."
        )
    return weights


def index_type(L: int) -> type[np.signedinteger[Any]]:
    """int32 where it can number L columns, which halves the memory; else int64."""
    return np.int32 if np.iinfo(np.int32).max >= L else np.int64


def row_pointers(counts: NDArray[Any]) -> NDArray[np.int64]:
    """CSR row pointers from the number of entries in each row."""
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def chosen_before(chosen: NDArray[np.bool_], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many are chosen before each of some ascending places; counted in blocks, which take no memory."""
    before = np.empty(len(places), dtype=np.int64)
    total = done = 0
    for start in range(0, len(chosen) + 1, _BLOCK):
        counts = np.concatenate(([0], np.cumsum(chosen[start : start + _BLOCK])))
        upto = int(np.searchsorted(places, start + _BLOCK))
        before[done:upto] = total + counts[places[done:upto] - start]
        total, done = total + int(counts[-1]), upto
    return before
