"""Ids of users and items: any hashable values, numbered in order of first appearance and found again."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidInputError, InvalidLabelsError, UnknownIdError
from labelgap.labels.frames import frame_library
from labelgap.labels.sources import is_null

Ids = tuple[Hashable, ...]

# A table over all numbers between the least and the largest id, this many times as long as the ids or less.
_TABLE_SHARE = 4


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
    """Whole numbers by a table over their range where that is not much longer than they are."""
    low, count = int(values.min()), len(values)
    span = int(values.max()) - low + 1
    if span > _TABLE_SHARE * count + 1000:
        return _number_sorted(values)
    places = values - low
    first = np.full(span, count, dtype=np.int64)
    # Of several writes to one place the last stays, so from the back the first appearance does.
    first[places[::-1]] = np.arange(count - 1, -1, -1)
    present = np.flatnonzero(first < count)
    order = present[np.argsort(first[present])]
    number = np.empty(span, dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[places], tuple((order + low).tolist())


def _number_sorted(values: NDArray[Any]) -> tuple[NDArray[np.int64], Ids]:
    found, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[inverse], tuple(found[order].tolist())


class _Numbers(dict[Any, int]):
    """Numbers handed out on demand, so that one pass over the ids does."""

    def __missing__(self, name: Hashable) -> int:
        number = self[name] = len(self)
        return number


def _number_any(values: list[Any], what: str) -> tuple[NDArray[np.int64], Ids]:
    number = _Numbers()
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
    return numbers, tuple(plain(value) for value in number)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def plain(value: Any) -> Any:
    """A numpy scalar as Python's own; anything else as it is."""
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

    def find(self, given: Any) -> tuple[NDArray[np.int64], bool]:
        """The numbers of one id or of a sequence of them, and whether it was one.

        A tuple that is an id is one id; any other tuple is a sequence.
        """
        if self._is_one(given):
            return np.array([self.find_one(given)], dtype=np.int64), True
        numbers, found = number_ids(given, self.what)
        where = self.find_or(found)
        if (where < 0).any():
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

    def find_one(self, given: Any) -> int:
        """The number of one id."""
        name = plain(given[()] if isinstance(given, np.ndarray) and given.ndim == 0 else given)
        try:
            return self.places[name]
        except KeyError:
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
            f"{self._twin(name)} New {self.what}s are added by fold_in, from their answers or features."
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
