"""Where a page comes from: the version, the model, the data, the settings and the date."""

from __future__ import annotations

import datetime
import inspect
import os
import reprlib
from typing import Any

import numpy as np

from labelgap._version import __version__
from labelgap.exceptions import InvalidParameterError
from labelgap.metrics import LinearFractional
from labelgap.report.metric_choices import formula

_PLAIN = (str, bool, int, float, type(None), np.generic)
_EPOCH = "SOURCE_DATE_EPOCH"


def describe_provenance(
    model: Any, *, name: str | None, data_name: str | None, date: str | datetime.date | None
) -> dict[str, Any]:
    """What the foot of a page says.

    Examples
    --------
    >>> from labelgap import MetricThreshold
    >>> found = describe_provenance(
    ...     MetricThreshold(metric="macro-f1"), name="tags", data_name="new.csv", date="2024-02-01"
    ... )
    >>> found["date"], [one["name"] for one in found["settings"] if one["changed"]]
    ('2024-02-01', ['metric'])
    """
    return {
        "version": __version__,
        "model": None if name is None else str(name),
        "data": None if data_name is None else str(data_name),
        "date": date_text(date),
        "settings": describe_settings(model),
    }


def describe_settings(model: Any) -> list[dict[str, Any]]:
    """The parameters of a model as text, and whether each differs from its default."""
    defaults = {name: one.default for name, one in inspect.signature(type(model)).parameters.items()}
    return [
        {
            "name": name,
            "value": setting_text(value),
            "changed": setting_text(value) != setting_text(defaults.get(name)),
        }
        for name, value in sorted(model.get_params(deep=False).items())
    ]


def setting_text(value: Any) -> str:
    """A setting in a few words that are the same in every run: no address in memory, no long array.

    Examples
    --------
    >>> setting_text("micro-f1"), setting_text(np.zeros((2, 3))), setting_text(np.random.RandomState(0))
    ("'micro-f1'", 'array of shape (2, 3)', 'RandomState')
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return reprlib.repr(value)
    if isinstance(value, LinearFractional):
        return repr(value.name or formula(value))
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    if isinstance(value, list | tuple | dict) and all(isinstance(one, _PLAIN) for one in value):
        return reprlib.repr(value)
    if hasattr(value, "get_params"):
        changed = [f"{one['name']}={one['value']}" for one in describe_settings(value) if one["changed"]]
        return f"{type(value).__name__}({', '.join(changed)})"
    return getattr(value, "__name__", type(value).__name__)


def date_text(date: str | datetime.date | None) -> str:
    """The date of a page; None is now, or what SOURCE_DATE_EPOCH says.

    Examples
    --------
    >>> date_text(datetime.datetime(2024, 2, 1, 9, 30, tzinfo=datetime.UTC))
    '2024-02-01 09:30 UTC'
    >>> date_text(datetime.date(2024, 2, 1))
    '2024-02-01'
    """
    if isinstance(date, str):
        return date
    if date is None:
        date = _now()
    if isinstance(date, datetime.datetime):
        if date.tzinfo is None:
            return date.strftime("%Y-%m-%d %H:%M")
        return date.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    if isinstance(date, datetime.date):
        return date.isoformat()
    raise InvalidParameterError(f"date must be a date, a text or None; got {date!r}.")


def _now() -> datetime.datetime:
    """Builds that are to be repeated byte by byte set the seconds since 1970 in SOURCE_DATE_EPOCH."""
    given = os.environ.get(_EPOCH)
    if not given:
        return datetime.datetime.now(datetime.UTC)
    try:
        return datetime.datetime.fromtimestamp(int(given), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidParameterError(
            f"The environment variable {_EPOCH} must be a whole number of seconds since 1970; it is "
            f"{given!r}. Correct it, unset it, or pass date=."
        ) from None
