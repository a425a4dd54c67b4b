"""Which columns of a table may hold users, items and ratings, for errors that say what to do."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from itertools import chain

import numpy as np

from labelgap._types import Floats
from labelgap.data.files.source import Sheet

# A table of ratings is narrow; a wide one is more likely one of features.
_MOST_COLUMNS = 6
_TIME = re.compile(
    r"time(?!s_)|date|when|epoch|created|unix|(?:^|_)(?:ts|days?)$|_at$",
    re.IGNORECASE,
)
_ID = re.compile(r"ids?$", re.IGNORECASE)
_VALUE = re.compile(
    r"(?:^|_|play)(?:ratings?|stars?|scores?|counts?|plays?|played|listens|views|values?|likes?|liked)$",
    re.IGNORECASE,
)
# The least date that is written as a number. The seconds since 1970 are more, except in its first months.
_LEAST_DATE = 19_000_101
_USER = re.compile(r"user|customer|member|visitor|reader|listener|viewer|person|who", re.IGNORECASE)


def value_column_of(sheet: Sheet, taken: Sequence[str]) -> str | None:
    """The column that may hold ratings, None for none: numbers, not taken, and by its name no times or ids.

    One with a name of ratings comes first; in any other the values must repeat, and be less than dates.
    """
    free = [
        name for name in sheet.names if name not in taken and not (_TIME.search(name) or _ID.search(name))
    ]
    columns = {name: _numbers(sheet, name) for name in free}
    usual = (name for name, values in columns.items() if _VALUE.search(name) and len(values))
    others = (name for name, values in columns.items() if _repeat(values))
    return next(chain(usual, others), None)


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
    if value is None:
        options += ["--for", "recommend"]
    elif not np.isin(values := _numbers(sheet, value), (0, 1)).all():
        # Three quarters of the way to the top, such as 4 of 5 stars.
        largest = float(values.max())
        bound = largest - 0.25 * abs(largest)
        options += ["--positive", str(math.ceil(bound)) if largest > 1 else f"{bound:g}"]
    return shlex.join(options)


def _numbers(sheet: Sheet, name: str) -> Floats:
    """The finite numbers of a column; none where it has other values."""
    found = sheet.read([name], [])[name]
    types = sheet.arrow.types
    if not (types.is_floating(found.type) or types.is_integer(found.type)):
        return np.empty(0)
    values = np.asarray(found.to_numpy(), dtype=np.float64)
    return values[np.isfinite(values)]


def _repeat(values: Floats) -> bool:
    kinds = np.unique(values)
    if np.isin(kinds, (0, 1)).all():
        return len(kinds) > 0
    return 2 * len(kinds) <= len(values) and bool(kinds[-1] < _LEAST_DATE)
