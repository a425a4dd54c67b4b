"""Columns by name, by glob or by number."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from labelgap.data.files.formats import shortened
from labelgap.exceptions import DataFileError

Patterns: TypeAlias = str | Iterable[str]

_COMPARED, _LONG = 5000, 100
_RANGE = re.compile(r"([0-9]*+):([0-9]*+)")


def choose_columns(
    path: object,
    names: Sequence[str],
    patterns: Patterns,
    what: str,
    taken: Mapping[str, str],
    aside: Sequence[str] = (),
) -> tuple[str, ...]:
    """The columns that the patterns name, in the order of the file.

    Parameters
    ----------
    names : sequence of str
        All columns of the file.
    patterns : str with commas, or iterable of str
        Exact names, globs such as "tag_*", or ranges of column numbers from 1 such as "12:" or "12:20".
    what : str
        What the columns are for, in errors.
    taken : mapping from name to use
        Columns in use already. Globs and ranges pass them over; to name one exactly is an error.
    aside : sequence of str, default ()
        Further columns, which only their exact names choose.

    Examples
    --------
    >>> choose_columns("a.csv", ["id", "x", "tag_a", "tag_b"], "tag_*,2:2", "labels", {})
    ('x', 'tag_a', 'tag_b')
    """
    chosen: set[str] = set()
    known = {*names, *aside}
    for pattern in split_patterns(patterns, known):
        if pattern in known:
            if pattern in taken:
                raise DataFileError(f"{path}: the column {pattern!r} in {what} is {taken[pattern]} already.")
            chosen.add(pattern)
            continue
        matched = [name for name in _matches(path, names, pattern, what) if name not in taken]
        if not matched:
            raise DataFileError(f"{path}: {pattern!r} in {what} matches no column{_nearest(pattern, names)}.")
        chosen.update(matched)
    return tuple(name for name in (*names, *aside) if name in chosen)


def split_patterns(patterns: Patterns, names: Collection[str] = ()) -> list[str]:
    """Patterns one by one; a text is split at its commas, unless it is a name as it stands."""
    if not isinstance(patterns, str):
        return list(patterns)
    if patterns in names:
        return [patterns]
    return [part.strip() for part in patterns.split(",") if part.strip()]


def require_column(path: object, names: Sequence[str], name: str, what: str) -> None:
    """Raise unless ``name`` is a column."""
    if name not in names:
        raise DataFileError(f"{path} has no column {name!r} for {what}{_nearest(name, names)}.")


def _matches(path: object, names: Sequence[str], pattern: str, what: str) -> list[str]:
    numbers = _RANGE.fullmatch(pattern)
    if numbers is None or pattern == ":":
        return [name for name in names if fnmatchcase(name, pattern)]
    # Nine digits are enough to see that a number is too large; Python does not convert thousands of them.
    first, last = int(numbers[1][:9] or 1), int(numbers[2][:9] or len(names))
    if not 1 <= first <= last <= len(names):
        raise DataFileError(
            f"{path}: the range {pattern!r} in {what} does not fit the {len(names)} columns, which are "
            f"counted from 1 to {len(names)}."
        )
    return list(names[first - 1 : last])


def _nearest(name: str, names: Sequence[str]) -> str:
    # To compare two names takes time that grows with the product of their lengths.
    compared = [one for one in names[:_COMPARED] if len(one) <= _LONG]
    near = difflib.get_close_matches(name[:_LONG], compared, n=3, cutoff=0.4)
    if not near:
        near = list(names[:3])
    return f"; the nearest are {', '.join(map(shortened, near))}" if near else ""
