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
        matched = _matches(path, names, pattern, what)
        if not matched:
            hint = f"{_nearest(pattern, names)}.{_by_number(pattern)}"
            raise DataFileError(f"{path}: {pattern!r} in {what} matches no column{hint}")
        free = [name for name in matched if name not in taken]
        if not free:
            used = " or ".join(dict.fromkeys(taken[name] for name in matched))
            raise DataFileError(
                f"{path}: every column that {pattern!r} in {what} matches is {used} already. Choose other "
                "columns."
            )
        chosen.update(free)
    return tuple(name for name in (*names, *aside) if name in chosen)


def split_patterns(patterns: Patterns, names: Collection[str] = ()) -> list[str]:
    """Patterns one by one; a text is split at its commas, unless it is a name as it stands.

    So is each text of a list, except for a pattern whose comma is that of a name.

    Examples
    --------
    >>> split_patterns(["a", "b, c", "x,*"], names=["x,y"])
    ['a', 'b', 'c', 'x,*']
    """
    if isinstance(patterns, str):
        return [patterns] if patterns in names else _at_commas(patterns)
    parts: list[str] = []
    for text in patterns:
        whole = "," not in text or text in names or any(fnmatchcase(name, text) for name in names)
        parts += [text] if whole else _at_commas(text)
    return parts


def _at_commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


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


def _by_number(pattern: str) -> str:
    """A hint where a number was given, which may be that of a column."""
    if not pattern.isdecimal():
        return ""
    return f" The column with the number {pattern}, counted from 1, is written {pattern}:{pattern}."


def _nearest(name: str, names: Sequence[str]) -> str:
    # To compare two names takes time that grows with the product of their lengths.
    compared = [one for one in names[:_COMPARED] if len(one) <= _LONG]
    near = difflib.get_close_matches(name[:_LONG], compared, n=3, cutoff=0.4)
    if not near:
        near = list(names[:3])
    return f"; the nearest are {', '.join(map(shortened, near))}" if near else ""
