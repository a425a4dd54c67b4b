"""Ids that come twice or are not known, in one line with the first few of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NAMED = 3


def repeated_ids(ids: Sequence[Any]) -> str | None:
    """Which ids come more than once, with their rows from 1; None where all are different.

    Examples
    --------
    >>> repeated_ids([7, 8, 7, 9, 8, 7])
    '2 ids come more than once: 7 (rows 1, 3, 6), 8 (rows 2, 5)'
    >>> repeated_ids([7, 8]) is None
    True
    """
    if len(set(ids)) == len(ids):
        return None
    rows: dict[Any, list[int]] = {}
    for number, one in enumerate(ids, start=1):
        rows.setdefault(one, []).append(number)
    twice = {one: places for one, places in rows.items() if len(places) > 1}
    named = ", ".join(
        f"{one!r} (rows {', '.join(map(str, places[:_NAMED]))}{', ...' if len(places) > _NAMED else ''})"
        for one, places in list(twice.items())[:_NAMED]
    )
    more = f" and {len(twice) - _NAMED} more" if len(twice) > _NAMED else ""
    words = "id comes" if len(twice) == 1 else "ids come"
    return f"{len(twice)} {words} more than once: {named}{more}"
