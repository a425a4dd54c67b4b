"""Arrays as users hand them in, as kernels take them, and torch tensors among them.

What numpy or scipy would read wrongly without a word is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labelgap.exceptions import InvalidInputError

_POINTERS = ("csr", "csc", "bsr")
# Numbers that are counted at a time.
_COUNTED = 1 << 20
_Integer = TypeVar("_Integer", bound=np.integer[Any])


def distinct(values: NDArray[_Integer]) -> NDArray[_Integer]:
    """The different integers among ``values``, ascending.

    ``numpy.unique`` finds them by hashing, which takes ten times as long and more for many of them.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    ordered = np.sort(values, axis=None)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered


def row_slices(indptr: NDArray[Any], n_entries: int) -> Iterator[slice]:
    """Slices of rows that follow each other, with about so many entries each; all rows that have any.

    Examples
    --------
    >>> list(row_slices(np.array([0, 2, 4, 4, 9, 10]), 4))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    starts = np.arange(0, int(indptr[-1]), max(n_entries, 1))
    cuts = distinct(np.searchsorted(indptr, starts, side="right") - 1)
    return (slice(first, last) for first, last in pairwise([*cuts.tolist(), len(indptr) - 1]))


def plain_array(given: Any, what: str, error: type[InvalidInputError] = InvalidInputError) -> Any:
    """``given`` as a numpy array or a sparse matrix that is safe to read.

    What is masked becomes NaN. Complex numbers and sparse matrices with entries outside their shape raise
    ``error``: numpy drops imaginary parts, and compiled code reads such entries without a check.

    Parameters
    ----------
    given : anything
    what : str
        What it is called in an error.
    error : type, default InvalidInputError

    Examples
    --------
    >>> plain_array(np.ma.masked_equal([1, 2], 2), "X")
    array([ 1., nan])
    """
    if sparse.issparse(given):
        check_sparse(given, what, error)
        return given
    if np.ma.isMaskedArray(given):
        hidden = np.ma.getmaskarray(given)
        array = np.ma.getdata(given)
        if hidden.any():
            array = np.where(hidden, np.nan, array) if array.dtype.kind in "biuf" else given.filled(None)
    else:
        try:
            array = np.asarray(given)
        except ValueError as ragged:
            raise error(f"{what}: no rectangular array ({ragged}).") from ragged
    _refuse_complex(array.dtype, what, error)
    return array


def check_sparse(matrix: Any, what: str, error: type[InvalidInputError] = InvalidInputError) -> None:
    """Raise ``error`` if a sparse matrix has complex numbers or entries outside its shape.

    Examples
    --------
    >>> check_sparse(sparse.csr_array(([1.0], [7], [0, 1]), shape=(1, 2)), "X")
    Traceback (most recent call last):
    labelgap.exceptions.InvalidInputError: X: a damaged sparse matrix (indices must be < 2).
    """
    _refuse_complex(matrix.dtype, what, error)
    try:
        if matrix.format in _POINTERS:
            check_pointers(matrix)
        elif matrix.format == "coo":
            _check_coordinates(matrix)
        else:
            # The other formats are converted by Python, which checks what it reads.
            check_pointers(matrix.tocsr())
    except (ValueError, IndexError, TypeError) as problem:
        raise error(f"{what}: a damaged sparse matrix ({problem}).") from problem


def check_pointers(matrix: Any) -> None:
    """Raise ValueError unless a CSR, CSC or BSR matrix has sound pointers and no entry outside its shape.

    scipy's full check alone is not enough: it looks at no entry if the last pointer is 0 or less.
    """
    pointers, places = matrix.indptr, matrix.indices
    if len(pointers) == 0 or pointers[0] != 0 or (np.diff(pointers) < 0).any():
        raise ValueError("the pointers must begin with 0 and not fall")
    if pointers[-1] > min(len(places), len(matrix.data)):
        raise ValueError(f"the last pointer is {pointers[-1]}, and there are {len(places)} entries")
    matrix.check_format(full_check=True)


def _check_coordinates(matrix: Any) -> None:
    coordinates = getattr(matrix, "coords", None) or (matrix.row, matrix.col)
    for axis, (places, side) in enumerate(zip(coordinates, matrix.shape, strict=True)):
        if len(places) != len(matrix.data):
            raise ValueError(f"{len(places)} places on axis {axis} for {len(matrix.data)} values")
        if len(places) and not 0 <= places.min() <= places.max() < side:
            raise ValueError(f"places on axis {axis} must lie between 0 and {side - 1}")


def _refuse_complex(dtype: Any, what: str, error: type[InvalidInputError]) -> None:
    if getattr(dtype, "kind", "") == "c":
        raise error(
            f"{what} must be real numbers, not complex ones; take their real part or their size first."
        )


# -- names of rows and columns -------------------------------------------------------------------------------


def frame_library(given: object) -> str | None:
    """``"pandas"`` or ``"polars"`` where ``given`` comes from there, else None; neither is imported."""
    root = type(given).__module__.partition(".")[0]
    return root if root in ("pandas", "polars") else None


def is_arrow_table(given: object) -> bool:
    """Whether ``given`` is a table of pyarrow, which is not imported for that."""
    return type(given).__module__.partition(".")[0] == "pyarrow" and type(given).__name__ == "Table"


def row_names_of(given: Any) -> Sequence[Hashable] | None:
    """The index of a pandas frame or series, or the names of rows that labels have; None without any."""
    if frame_library(given) == "pandas":
        return getattr(given, "index", None)
    return getattr(given, "row_names", None)


def column_names_of(given: Any) -> Sequence[Hashable] | None:
    """The columns of a pandas or polars frame; None for anything else."""
    return getattr(given, "columns", None) if frame_library(given) else None


def refuse_other_rows(matrix: Any, labels: Any, what: str) -> None:
    """Raise if a frame names other rows than the labels do, or the same ones in another order."""
    if column_names_of(matrix) is None:
        return
    pair, advice = (f"the {what}", "the labels"), "Give them for the rows of the labels, in that order."
    refuse_unmatched_rows(row_names_of(matrix), labels.row_names, pair, advice)


def refuse_unmatched_rows(
    first: Sequence[Hashable] | None,
    second: Sequence[Hashable] | None,
    tables: tuple[str, str],
    advice: str,
    error: type[InvalidInputError] = InvalidInputError,
) -> None:
    """Raise ``error`` if the names of two tables' rows show that the rows do not belong together.

    Rows are matched by their order, so this would be a wrong result. They do not belong together if they are
    the same rows in another order, or if only some names are in both tables. Tables without a name in common
    are no contradiction. Nor are whole numbers, which may number the rows of one table and be ids in the
    other, in parts of both too; but two runs of consecutive numbers that overlap are parts of one table.

    Examples
    --------
    >>> refuse_unmatched_rows(["a", "b"], ["b", "a"], ("X", "y"), "Sort them.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    labelgap.exceptions.InvalidInputError: X and y have the same rows in another order; row 0 is 'a' in X ...
    >>> refuse_unmatched_rows(["a", "b"], ["b", "c"], ("X", "y"), "Align them.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    labelgap.exceptions.InvalidInputError: X and y have different rows: only 1 of the 2 rows of X ...
    >>> refuse_unmatched_rows(["a", "b"], [0, 1], ("X", "y"), "")
    """
    if first is None or second is None or len(first) != len(second):
        return
    equals = getattr(first, "equals", None)
    if equals is not None and type(first) is type(second) and equals(second):
        return
    mine, other = list(first), list(second)
    if mine == other:
        return
    if Counter(mine) == Counter(other):
        differ = f"{tables[0]} and {tables[1]} have the same rows in another order"
    else:
        in_both = len(set(mine) & set(other))
        numbers = _are_whole_numbers(mine) and _are_whole_numbers(other)
        if in_both == 0 or (numbers and not (_is_run(mine) and _is_run(other))):
            return
        differ = (
            f"{tables[0]} and {tables[1]} have different rows: only {in_both} of the {len(mine)} rows of "
            f"{tables[0]} are also in {tables[1]}"
        )
    at = next(place for place, pair in enumerate(zip(mine, other, strict=True)) if pair[0] != pair[1])
    raise error(
        f"{differ}; row {at} is {mine[at]!r} in {tables[0]} and {other[at]!r} in {tables[1]}. {advice}"
    )


def _are_whole_numbers(names: Sequence[Hashable]) -> bool:
    return all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in names)


def _is_run(numbers: Sequence[Any]) -> bool:
    """Whether they are consecutive and rise."""
    return all(later == earlier + 1 for earlier, later in pairwise(numbers))


def sums_by_number(
    numbers: NDArray[Any], size: int, amounts: Callable[[slice], Any] | None = None
) -> NDArray[Any]:
    """``np.bincount`` of the numbers with these amounts, or of the numbers alone, in little memory.

    numpy copies all numbers into wider integers, and all amounts into floats; here some at a time.

    Examples
    --------
    >>> weights = np.array([0.5, 1.0, 2.0])
    >>> sums_by_number(np.array([2, 0, 2]), 3, lambda some: weights[some])
    array([1. , 0. , 2.5])
    """
    sums = np.zeros(size, dtype=np.int64 if amounts is None else np.float64)
    for start in range(0, len(numbers), _COUNTED):
        some = slice(start, start + _COUNTED)
        sums += np.bincount(numbers[some], None if amounts is None else amounts(some), size)
    return sums


# -- for kernels -----------------------------------------------------------------------------------------

# A kernel is compiled again for every combination of types of its arguments, and an array that may be written
# to is another type than one that may not. Each combination takes as long to compile as the first. So callers
# of kernels that are not the bottleneck hand over arrays of one kind.


def read_only(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The array as C-contiguous numbers of one type that may not be written to; a copy only where needed.

    Examples
    --------
    >>> read_only(np.array([1, 2], np.int64), np.int32).dtype
    dtype('int32')
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def binary_and_real(targets: NDArray[Any], dtype: Any) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """The targets as yes/no labels (int8), or else as numbers of the given type; the other one is empty.

    A kernel that takes both is compiled once for targets of either kind.

    Examples
    --------
    >>> binary_and_real(np.array([0.5, 2.0]), np.float32)
    (array([], dtype=int8), array([0.5, 2. ], dtype=float32))
    """
    if targets.dtype == np.int8:
        return read_only(targets, np.int8), read_only(np.empty(0), dtype)
    return read_only(np.empty(0), np.int8), read_only(targets, dtype)


# -- torch tensors: known by their type's name, so that torch need not be imported ------------------------


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor."""
    kind = type(value)
    return kind.__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def to_host(value: Any) -> Any:
    """A torch tensor as a numpy array, or as a scipy matrix if it is sparse; anything else as it is."""
    if not is_tensor(value):
        return value
    tensor = value.detach()
    layout = str(tensor.layout)
    if layout == "torch.strided":
        return tensor.cpu().numpy()
    if layout == "torch.sparse_csr":
        parts = (
            part.cpu().numpy() for part in (tensor.values(), tensor.col_indices(), tensor.crow_indices())
        )
        return sparse.csr_array(tuple(parts), shape=tuple(tensor.shape))
    stored = tensor.to_sparse_coo().coalesce()
    return sparse.coo_array(
        (stored.values().cpu().numpy(), tuple(stored.indices().cpu().numpy())), shape=tuple(stored.shape)
    ).tocsr()


def like_input(result: Any, given: Any) -> Any:
    """A result as a tensor on the device of the input, if that was one; sparse ones stay sparse."""
    if not is_tensor(given):
        return result
    import torch

    if isinstance(result, tuple):
        return tuple(like_input(part, given) for part in result)
    if sparse.issparse(result):
        stored = result.tocoo()
        places = torch.from_numpy(np.stack([stored.row, stored.col]).astype(np.int64))
        # Said for all that happens inside, since torch warns where it is not.
        with torch.sparse.check_sparse_tensor_invariants():
            tensor = torch.sparse_coo_tensor(places, torch.from_numpy(stored.data), stored.shape)
    else:
        tensor = torch.from_numpy(np.ascontiguousarray(result))
    return tensor.to(given.device)
