"""Times of ratings: numbers, dates, or texts of dates, one for each rating."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import frame_library
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError
from labelgap.labels.sources import is_null

_MICROSECONDS_PER_DAY = 86_400_000_000
_NUMBERS = (int, float, np.integer, np.floating)


def read_times(
    given: Any, count: int, place: Callable[[int], str] = "the rating in line {}".format
) -> NDArray[Any]:
    """Times as a vector of numbers or of datetime64; dates with a time zone are taken to UTC.

    Parameters
    ----------
    given : sequence, array or series
        Of numbers, or texts of them; or of dates, datetimes, datetime64 or texts in the form of ISO 8601, as
        "2024-05-31", "20240531" or "2024-05-31T12:00:00Z". Dates without a time zone are taken for UTC.
    count : int
        How many there must be.
    place : callable, default ``"the rating in line {}".format``
        What has the time of that number, counted from 0, and where it stands, in an error.

    Examples
    --------
    >>> read_times(["2024-05-31", "2024-05-31T14:00:00+02:00"], 2)
    array(['2024-05-31T00:00:00.000000', '2024-05-31T12:00:00.000000'],
          dtype='datetime64[us]')
    """
    values: Any = given.to_numpy() if frame_library(given) else given
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        values = np.asarray(values)
    elif not isinstance(values, np.ndarray):
        listed = list(values)
        values = np.fromiter(listed, dtype=object, count=len(listed))
    if values.dtype.kind in "OU" and values.shape == (count,):
        values = _from_objects(values.tolist(), place)
    if values.shape != (count,) or values.dtype.kind not in "iufM":
        raise InvalidInputError(
            f"Times are one number or date for each of the {count} ratings; got {values.dtype} of shape "
            f"{values.shape}."
        )
    if values.dtype.kind == "M":
        _refuse(np.isnat(values), "{} has no time; leave it out.", place)
    elif values.dtype.kind == "f":
        _refuse(np.isnan(values), "{} has no time; leave it out.", place)
        _refuse(np.isinf(values), "The time of {} is infinite; correct it or leave it out.", place)
    return np.asarray(values)


def as_numbers(times: NDArray[Any]) -> Floats:
    """The times as numbers that can be subtracted, dates as days.

    Examples
    --------
    >>> as_numbers(np.array(["1970-01-02T12:00:00"], dtype="datetime64[s]"))
    array([1.5])
    """
    if times.dtype.kind != "M":
        return times.astype(np.float64)
    return times.astype("datetime64[us]").astype(np.int64) / _MICROSECONDS_PER_DAY


def one_date(given: Any, name: str) -> float:
    """A date, a datetime or a text of one as a number of days.

    Examples
    --------
    >>> one_date("1970-01-03", "at")
    2.0
    """
    found = None if is_null(given) else _moment(given)
    if not isinstance(found, np.datetime64) or np.isnat(found):
        raise InvalidInputError(
            f"{name} must be a date, such as '2024-05-31' or '2024-05-31T12:00:00', or a datetime; "
            f"got {given!r}."
        )
    return float(as_numbers(np.array([found]))[0])


def _from_objects(values: list[Any], place: Callable[[int], str]) -> NDArray[Any]:
    """A vector of numbers, or of dates; missing ones are NaN or NaT."""
    found = []
    for line, value in enumerate(values):
        moment = None if is_null(value) else _moment(value)
        if moment is None and not is_null(value):
            raise InvalidInputError(
                f"The time of {place(line)} is {value!r}, which is no number or date. Texts are "
                "such as '2024-05-31' or '2024-05-31T12:00:00'."
            )
        found.append(moment)
    dates = {isinstance(one, np.datetime64): line for line, one in enumerate(found) if one is not None}
    if len(dates) == 2:
        raise InvalidInputError(
            "Some of the times are dates and others are numbers; give one of the two. That of "
            f"{place(dates[True])} is a date, and that of {place(dates[False])} is a number."
        )
    if True in dates:
        missing = np.datetime64("NaT", "us")
        return np.array([missing if one is None else one for one in found], dtype="datetime64[us]")
    if found and all(type(one) is int and abs(one) < 2**63 for one in found):
        return np.array(found, dtype=np.int64)
    return np.array([np.nan if one is None else one for one in found], dtype=np.float64)


def _moment(value: Any) -> Any:
    """A number as it is, anything that is a date as datetime64; None for anything else."""
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]")
    if isinstance(value, str):
        value = _from_text(value.strip())
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(value.isoformat(timespec="microseconds"), "us")
    if isinstance(value, date):
        return np.datetime64(value, "us")
    if isinstance(value, _NUMBERS) and not isinstance(value, bool | np.bool_):
        return value.item() if isinstance(value, np.generic) else value
    return None


def _from_text(text: str) -> datetime | float | None:
    # Python takes any character between date and time, also a digit of a number that begins as a date does.
    if len(text) == 8 or not text.isdigit():
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    try:
        return float(text)
    except ValueError:
        return None


def _refuse(wrong: NDArray[np.bool_], message: str, place: Callable[[int], str]) -> None:
    if wrong.any():
        told = message.format(place(int(np.argmax(wrong))))
        raise InvalidInputError(told[0].upper() + told[1:])
