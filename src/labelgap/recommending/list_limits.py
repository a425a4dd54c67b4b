"""Which items a list may show: those left out, those not available yet, and the places of new ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import frame_library
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidParameterError
from labelgap.labels.sources import is_null, row_pointers
from labelgap.recommending.ids import number_ids, python_scalar
from labelgap.recommending.times import one_date
from labelgap.recommending.top_items import Seen


def checked_fraction(name: str, value: Any) -> float:
    """The value, if it is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise InvalidParameterError(f"{name} must be a number from 0 to 1; got {value!r}.")
    return float(value)


def items_by_user(exclude: Any, user: str, item: str) -> dict[Hashable, Any] | None:
    """Items by user, where ``exclude`` names users; None where it is items for everybody."""
    if isinstance(exclude, Mapping):
        return {python_scalar(name): items for name, items in exclude.items()}
    if frame_library(exclude) and type(exclude).__name__ == "DataFrame":
        for name in (user, item):
            if name not in list(exclude.columns):
                raise InvalidInputError(
                    f"The frame of items to leave out has no column {name!r}; it has "
                    f"{', '.join(map(repr, exclude.columns))}."
                )
        users, items = exclude[user], exclude[item]
    elif isinstance(exclude, tuple | list) and len(exclude) == 2 and all(map(_is_list, exclude)):
        users, items = exclude
    else:
        return None
    (rows, names), (columns, ids) = number_ids(users, "user"), number_ids(items, "item")
    if len(rows) != len(columns):
        raise InvalidInputError(
            f"There are {len(rows)} users and {len(columns)} items to leave out; give one item for each user."
        )
    found: dict[Hashable, list[Any]] = {name: [] for name in names}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        found[names[row]].append(ids[column])
    return found


def _is_list(value: Any) -> bool:
    """Whether it is a sequence that cannot be an id."""
    return isinstance(value, list | np.ndarray) or frame_library(value) is not None


def unavailable_items(unavailable: Any, at: Any) -> Any:
    """The ids of the items that cannot be shown at that time."""
    dated = isinstance(unavailable, Mapping)
    if at is not None and not dated:
        raise InvalidParameterError(
            "at says when the lists are shown, for unavailable= with dates; leave it out, or give a mapping "
            "from items to dates."
        )
    if not dated:
        return unavailable
    now = one_date(datetime.now(UTC) if at is None else at, "at")
    return [
        name
        for name, until in unavailable.items()
        if is_null(until) or now < one_date(until, f"The date until which the item {name!r} is unavailable")
    ]


def with_left_out(
    seen: Seen | None, left_out: dict[Hashable, NDArray[np.int64]], names: Sequence[Any], n_items: int
) -> Seen | None:
    """The items that were seen, and those that single users do not get."""
    if not left_out:
        return seen
    by_row = ((row, left_out.get(python_scalar(name))) for row, name in enumerate(names))
    theirs = [(row, items) for row, items in by_row if items is not None]
    if not theirs:
        return seen
    width = max(n_items, 1)
    keys = [row * width + items for row, items in theirs]
    if seen is not None:
        keys.append(np.repeat(np.arange(len(names)), np.diff(seen.indptr)) * width + seen.indices)
    every = np.unique(np.concatenate(keys))
    return Seen(row_pointers(np.bincount(every // width, minlength=len(names))), every % width)


def new_places(explore: float, n: int) -> int:
    """How many of n places are for items without ratings."""
    return int(explore * n + 0.5)


def explored(
    rated: tuple[NDArray[np.int64], Floats], new: tuple[NDArray[np.int64], Floats], n_new: int
) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]:
    """Lists with so many new items, spread evenly; see :meth:`ItemsChosen.recommend`."""
    found, scores = np.full_like(rated[0], -1), np.full_like(rated[1], np.nan)
    exploratory = np.zeros(found.shape, dtype=np.bool_)
    n = found.shape[1]
    n_rated, there = (np.sum(part[0] >= 0, axis=1) for part in (rated, new))
    counts = np.minimum(there, np.maximum(n_new, n - n_rated))
    totals = np.minimum(n, counts + n_rated)
    for count, total in sorted(set(zip(counts.tolist(), totals.tolist(), strict=True))):
        rows = np.flatnonzero((counts == count) & (totals == total))
        is_new = np.zeros(total, dtype=np.bool_)
        # The k-th of m new items is at place ceil((k − 1/2) n/m), counted from 1.
        is_new[[-(-(2 * k + 1) * total // (2 * count)) - 1 for k in range(count)]] = True
        for part, here in ((rated, ~is_new), (new, is_new)):
            places, first = np.flatnonzero(here), int(here.sum())
            found[np.ix_(rows, places)] = part[0][rows, :first]
            scores[np.ix_(rows, places)] = part[1][rows, :first]
        exploratory[np.ix_(rows, np.flatnonzero(is_new))] = True
    return found, scores, exploratory


def within(seen: Seen, kept: NDArray[np.int64], n_items: int) -> Seen:
    """The items left out, as numbers among those kept."""
    place = np.full(n_items, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    numbers = place[seen.indices]
    there = numbers >= 0
    indptr = np.concatenate([[0], np.cumsum(there)])[seen.indptr]
    return Seen(indptr, numbers[there])
