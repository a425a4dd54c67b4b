"""Columns of features that are no numbers, named in the errors about them."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np

from labelgap._arrays import frame_library
from labelgap.exceptions import InvalidFeaturesError
from labelgap.labels.sources import is_null

# How numpy and scikit-learn say that there is something else.
_NO_NUMBER = (
    "could not convert",
    "float() argument",
    "could not be promoted",
    "did not contain a loop",
    "with a sequence",
    "Complex data",
    "contains NaN",
    # A product with an array of objects.
    "can't multiply sequence",
)
# Of dates and times, and of durations.
_DATE_KINDS = ("M", "m")
_OF_DATES = (
    "Make numbers of them first, for instance days: (column - column.min()) / datetime.timedelta(days=1), or "
    "the year and the month; else drop the column."
)


@contextlib.contextmanager
def named_columns(X: Any, what: str = "X") -> Iterator[None]:
    """Where X turns out to have something else than numbers, say in which column and row."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if any(words in str(error) for words in _NO_NUMBER):
            _refuse_no_number(X, what, error)
        raise


def refuse_dates(X: Any, what: str = "X") -> None:
    """Raise if X has dates or times, whose numbers would be those of whatever unit they are kept in."""
    library = frame_library(X)
    if type(X).__name__ != "DataFrame" or library is None:
        if getattr(getattr(X, "dtype", None), "kind", "") in _DATE_KINDS:
            raise InvalidFeaturesError(
                f"{what} has dates or times ({X.dtype}), which are no numbers. {_OF_DATES}"
            )
        return
    for place, dtype in enumerate(X.dtypes):
        is_date = dtype.is_temporal() if library == "polars" else getattr(dtype, "kind", "") in _DATE_KINDS
        if is_date:
            name, column = _column(X, place)
            first = f"such as {str(column[0])!r} at row 0, " if len(column) else ""
            raise InvalidFeaturesError(
                f"Column {name!r} of {what} has dates or times, {first}which are no numbers. {_OF_DATES}"
            )


def _refuse_no_number(X: Any, what: str, error: Exception) -> None:
    """Raise if a column of a frame has a value that is no number, with the name of the column and the row.

    Missing values are named where nothing else is wrong.
    """
    if type(X).__name__ != "DataFrame" or frame_library(X) is None:
        return
    missing = None
    for place in range(X.shape[1]):
        name, column = _column(X, place)
        for row, value in enumerate(column):
            if is_null(value):
                missing = missing or (name, row, value)
                continue
            if isinstance(value, Real | np.bool_) or (isinstance(value, str) and _is_number(value)):
                continue
            kind = "the text " if isinstance(value, str) else ""
            raise InvalidFeaturesError(
                f"Column {name!r} of {what} has {kind}{value!r} at row {row}, which is no number. "
                f"{_advice(value)}"
            ) from error
    if missing is not None:
        name, row, value = missing
        raise InvalidFeaturesError(
            f"Column {name!r} of {what} has {value!r} at row {row}. Missing labels may be missing values, "
            "missing features may not: impute them first (for instance with sklearn.impute.SimpleImputer), "
            "or drop the row."
        ) from error


def _advice(value: Any) -> str:
    if isinstance(value, str):
        return (
            "If the column holds amounts, turn them into numbers first (take away signs such as % and $); if "
            "it holds categories, encode them (for instance with sklearn.preprocessing.OneHotEncoder); else "
            "drop it."
        )
    if isinstance(value, dt.date | dt.time | dt.timedelta):
        return _OF_DATES
    return "Turn the column into numbers first, or drop it."


def _column(X: Any, place: int) -> tuple[Any, Any]:
    """The name and the values of a column of a frame."""
    # By place in pandas, which allows two columns of one name.
    if frame_library(X) == "pandas":
        return X.columns[place], list(X.iloc[:, place])
    return X.columns[place], X[X.columns[place]].to_list()


def _is_number(text: str) -> bool:
    """Whether numpy reads this text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
