"""Which columns of a table may hold users, items and ratings, for errors that say what to do."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence

from labelgap.data.files.source import Sheet

# A table of ratings is narrow; a wide one is more likely one of features.
_MOST_COLUMNS = 6
_TIME = re.compile(r"time|date|when|epoch|(?:^|_)ts$|_at$", re.IGNORECASE)
_USER = re.compile(r"user|customer|member|visitor|reader|listener|viewer|person|who", re.IGNORECASE)


def value_column_of(sheet: Sheet, taken: Sequence[str]) -> str | None:
    """The first column that may hold ratings: numbers, by its name no times, and not taken; None for none."""
    free = [name for name in sheet.names if name not in taken and not _TIME.search(name)]
    return next((name for name in free if _has_numbers(sheet, name)), None)


def rating_options(sheet: Sheet) -> str | None:
    """The options that read the table as ratings; None where it does not look like ratings.

    Where all columns are numbers, users come before items and these before ratings.
    """
    names = [name for name in sheet.names if not _TIME.search(name)]
    if not 2 <= len(names) <= _MOST_COLUMNS:
        return None
    user = next((name for name in names if _USER.search(name)), names[0])
    item = next(name for name in names if name != user)
    value = value_column_of(sheet, (user, item))
    options = ["--user", user, "--item", item, "--value", value or "none"]
    largest = 0.0 if value is None else _largest(sheet, value)
    if largest > 1:
        # Three quarters of the way to the top, such as 4 of 5 stars.
        options += ["--positive", f"{math.ceil(0.75 * largest):g}"]
    elif value is None:
        options += ["--for", "recommend"]
    return shlex.join(options)


def _has_numbers(sheet: Sheet, name: str) -> bool:
    found = sheet.read([name], [])[name]
    types = sheet.arrow.types
    return bool(types.is_floating(found.type) or types.is_integer(found.type)) and found.null_count < len(
        found
    )


def _largest(sheet: Sheet, name: str) -> float:
    values = [value for value in sheet.read([name], [])[name].to_pylist() if value is not None]
    finite = [float(value) for value in values if math.isfinite(value)]
    return max(finite, default=0.0)
