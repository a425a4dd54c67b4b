"""Ids of users and items: any hashable values, numbered in order of first appearance and found again.

Values that belong to ids, such as propensities and flip rates, are brought into that order here too.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._arrays import frame_library, plain_array
from labelgap._types import Floats
from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    UnknownIdError,
)
from labelgap.labels import ObservedLabels
from labelgap.labels.sources import is_null

Ids = tuple[Hashable, ...]

# Whole numbers are looked up in a table over their range, if that is at most this many times as long.
_TABLE_FACTOR = 4
# Ids that are numbered at a time.
_BLOCK = 1 << 18


def number_ids(ids: Any, what: str) -> tuple[NDArray[np.int64], Ids]:
    """The number of each id, counted in order of first appearance, and the ids in that order.

    Parameters
    ----------
    ids : sequence, array or series of hashable values
        Of one type or of several; numpy's own scalars become Python's.
    what : str
        What an id is called in an error: "user" or "item".

    Examples
    --------
    >>> number_ids(["bob", ("ann", 2), "bob"], "user")
    (array([0, 1, 0]), ('bob', ('ann', 2)))
    """
    if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
        raise InvalidLabelsError(f"The {what}s must be a sequence of ids, not the single value {ids!r}.")
    values = ids.to_numpy() if frame_library(ids) else ids
    if not isinstance(values, np.ndarray):
        values = list(values)
        # Only Python's own ints: numpy would turn a mixture into one type, and tuples into a matrix.
        if set(map(type, values)) == {int}:
            whole = np.asarray(values)
            values = whole if whole.dtype.kind == "i" else values
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidLabelsError(
                f"The {what}s must be a 1-d sequence of ids; the array has {values.ndim} dimensions."
            )
        if values.dtype.kind in "iu" and len(values) and int(values.max()) <= np.iinfo(np.int64).max:
            return _number_whole(values.astype(np.int64, copy=False))
        if values.dtype.kind == "f" and not np.isnan(values).any():
            return _number_sorted(values)
        values = values.tolist()
    return _number_any(values, what)


def _number_whole(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ids]:
    """Number integers with a table over their range, or by sorting where the range is too wide."""
    low, count = int(values.min()), len(values)
    span = int(values.max()) - low + 1
    if span > _TABLE_FACTOR * count + 1000:
        return _number_sorted(values)
    places = values - low
    first = np.full(span, count, dtype=np.int64)
    # Where several values are written to one place, the last one stays. Written backwards, that is the first.
    for stop in range(count, 0, -_BLOCK):
        block = slice(max(stop - _BLOCK, 0), stop)
        first[places[block][::-1]] = np.arange(block.stop - 1, block.start - 1, -1)
    present = np.flatnonzero(first < count)
    order = present[np.argsort(first[present])]
    number = np.empty(span, dtype=np.int64)
    number[order] = np.arange(len(order))
    # Into the array of the places, which is as long as the data.
    for start in range(0, count, _BLOCK):
        block = slice(start, start + _BLOCK)
        places[block] = number[places[block]]
    return places, tuple((order + low).tolist())


def _number_sorted(values: NDArray[Any]) -> tuple[NDArray[np.int64], Ids]:
    found, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[inverse], tuple(found[order].tolist())


class _NumberedIds(dict[Any, int]):
    """From id to number; a new id gets the next number, so that one pass over the ids is enough."""

    def __missing__(self, name: Hashable) -> int:
        number = self[name] = len(self)
        return number


def _number_any(values: list[Any], what: str) -> tuple[NDArray[np.int64], Ids]:
    number = _NumberedIds()
    try:
        numbers = np.fromiter(map(number.__getitem__, values), dtype=np.int64, count=len(values))
    except TypeError as error:
        line = next(i for i, value in enumerate(values) if not _is_hashable(value))
        raise InvalidLabelsError(
            f"The {what} id in line {line} is {values[line]!r}, which is not hashable ({error}). "
            "Use strings, numbers or tuples."
        ) from error
    if any(is_null(value) for value in number):
        line = next(i for i, value in enumerate(values) if is_null(value))
        raise InvalidLabelsError(f"There is no {what} id in line {line}; drop that line or fill it in.")
    return numbers, tuple(python_scalar(value) for value in number)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def python_scalar(value: Any) -> Any:
    """A numpy scalar as a Python scalar; any other value is returned unchanged."""
    return value.item() if isinstance(value, np.generic) else value


class IdIndex:
    """Where each id stands.

    Parameters
    ----------
    ids : tuple of hashable values
    what : str
        What an id is called in an error: "user" or "item".

    Examples
    --------
    >>> IdIndex(("ann", "bob"), "user").find(["bob", "ann", "bob"])
    (array([1, 0, 1]), False)
    >>> IdIndex(("ann", "bob"), "user").find("bob")
    (array([1]), True)
    """

    def __init__(self, ids: Ids, what: str) -> None:
        self.ids, self.what = ids, what

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """From id to number."""
        return {name: place for place, name in enumerate(self.ids)}

    def find(self, given: Any, unknown: str = "raise") -> tuple[NDArray[np.int64], bool]:
        """The numbers of one id or of a sequence of them, and whether it was one.

        A tuple that is an id is one id; any other tuple is a sequence. An id that is not known is an error,
        or gets the number -1 where ``unknown`` is "average".
        """
        if self._is_one(given):
            return np.array([self.find_one(given, unknown)], dtype=np.int64), True
        numbers, found = number_ids(given, self.what)
        where = self.find_or(found)
        if unknown == "raise" and (where < 0).any():
            line = int(np.argmax(where[numbers] < 0))
            raise self.unknown(found[numbers[line]], f" (position {line})")
        return where[numbers], False

    def find_or(self, ids: Ids, otherwise: int = -1) -> NDArray[np.int64]:
        """The number of each id, ``otherwise`` for those that are not known."""
        return np.array([self.places.get(name, otherwise) for name in ids], dtype=np.int64)

    def find_all(self, ids: Ids) -> NDArray[np.int64]:
        """The number of each id; all must be known."""
        where = self.find_or(ids)
        if (where < 0).any():
            raise self.unknown(ids[int(np.argmax(where < 0))], "")
        return where

    def find_one(self, given: Any, unknown: str = "raise") -> int:
        """The number of one id; -1 for one that is not known, where ``unknown`` is "average"."""
        name = python_scalar(given[()] if isinstance(given, np.ndarray) and given.ndim == 0 else given)
        try:
            return self.places[name]
        except KeyError:
            if unknown == "average":
                return -1
            raise self.unknown(name, "") from None
        except TypeError as error:
            raise InvalidInputError(f"One {self.what} id is expected, not {given!r} ({error}).") from error

    def _is_one(self, given: Any) -> bool:
        if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
            return True
        if isinstance(given, np.ndarray):
            return given.ndim == 0
        return _is_hashable(given) and given in self.places

    def unknown(self, name: Hashable, where: str) -> UnknownIdError:
        """The error for an id that is not known."""
        return UnknownIdError(
            f"The {self.what} {name!r}{where} is not among the {len(self.ids)} {self.what}s that are known."
            f"{self._twin(name)} New {self.what}s are added by fold_in, from their ratings or features."
        )

    def _twin(self, name: Hashable) -> str:
        """A hint where the id is known in another type: "7" for 7, or the other way round."""
        other: Hashable = str(name)
        if isinstance(name, str):
            digits = name.removeprefix("-")
            other = int(name) if digits.isascii() and digits.isdigit() else name
        if other == name or other not in self.places:
            return ""
        return f" There is {other!r} of type {type(other).__name__}; ids are told apart by type."


# -- values that belong to ids -------------------------------------------------------------------------


def propensities_of(labels: ObservedLabels, propensities: Any) -> Any:
    """One propensity for each rating, in the order of the labels; None for None.

    Parameters
    ----------
    labels : ObservedLabels
        The ratings, with the ids as names.
    propensities : mapping from (user, item) to a number, or users x items array or sparse matrix
        An array has a row for each id, so the ids must be whole numbers from 0.
    """
    if propensities is None:
        return None
    users, items = labels.row_names or (), labels.label_names or ()
    if isinstance(propensities, Mapping):
        pairs = [
            (users[i], items[j]) for i, j in zip(labels.rows.tolist(), labels.cols.tolist(), strict=True)
        ]
        missing = next((pair for pair in pairs if pair not in propensities), None)
        if missing is not None:
            raise InvalidInputError(
                f"There is no propensity of the pair {missing!r}, which has a rating; give one for each."
            )
        return np.array([float(propensities[pair]) for pair in pairs])
    table = plain_array(propensities, "The propensities")
    table = sp.csr_array(table) if sp.issparse(table) else table
    if table.ndim != 2:
        raise InvalidInputError(
            "Propensities are a mapping from (user, item) to a number, or an array of users x items whose "
            "rows and columns are the ids, for ids that are whole numbers from 0; got "
            f"{table.ndim} dimension(s)."
        )
    rows = _positions(users, table.shape[0], "propensities", "user")
    columns = _positions(items, table.shape[1], "propensities", "item")
    return np.asarray(table[rows[labels.rows], columns[labels.cols]], dtype=np.float64).ravel()


def rates_of(items: Ids, flip_rate: Any) -> Any:
    """Flip rates in the order of the items: from a mapping, or from an array with the ids as positions."""
    if isinstance(flip_rate, Mapping):
        missing = next((item for item in items if item not in flip_rate), None)
        if missing is not None:
            raise InvalidParameterError(f"flip_rate has no rate for the item {missing!r}; give one for each.")
        return np.array([float(flip_rate[item]) for item in items])
    if isinstance(flip_rate, str) or np.ndim(flip_rate) != 1:
        return flip_rate
    given: Floats = np.asarray(flip_rate, dtype=np.float64)
    return given[_positions(items, len(given), "flip_rate", "item")]


def _positions(ids: Ids, length: int, name: str, what: str) -> NDArray[np.int64]:
    """The ids as positions in an array of that length."""
    for one in ids:
        if not (isinstance(one, int) and not isinstance(one, bool) and 0 <= one < length):
            raise InvalidParameterError(
                f"{name} is an array with {length} entries for {what}s, but {one!r} is no {what} id from 0 "
                f"to {length - 1}. Give a mapping from ids instead."
            )
    return np.array(ids, dtype=np.int64)
