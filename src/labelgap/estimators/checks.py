"""Checks of parameters and features, with messages that say what was given and what is taken."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap._names import check_choice
from labelgap.exceptions import InvalidFeaturesError, InvalidParameterError

_LARGEST_FEATURE = 1e100


def _is_a(kind: type, value: Any) -> bool:
    """Whether ``value`` is a number of that kind; True and False are not meant as numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_number(
    name: str, value: Any, *, above: float, below: float = np.inf, or_none: str | None = None
) -> None:
    """Raise unless ``above < value < below`` (or None, where ``or_none`` says what that means)."""
    if value is None and or_none is not None:
        return
    if not (_is_a(Real, value) and above < float(value) < below):
        upper = " and finite" if below == np.inf else f" and below {below:g}"
        choice = f", or None for {or_none}" if or_none is not None else ""
        raise InvalidParameterError(f"{name} must be a number above {above:g}{upper}{choice}; got {value!r}.")


def check_share(name: str, value: Any) -> None:
    """Raise unless ``0 ≤ value ≤ 1``."""
    if not (_is_a(Real, value) and 0 <= float(value) <= 1):
        raise InvalidParameterError(f"{name} must be a number from 0 to 1; got {value!r}.")


def check_whole(name: str, value: Any, *, or_none: str) -> None:
    """Raise unless ``value`` is a whole number of at least 1, or None."""
    if value is None:
        return
    if not (_is_a(Integral, value) and int(value) >= 1):
        raise InvalidParameterError(
            f"{name} must be a whole number, 1 or more, or None for {or_none}; got {value!r}."
        )


def check_between(name: str, value: Any, low: int, high: int, what: str) -> None:
    """Raise unless ``value`` is a whole number from ``low`` to ``high``, which is ``what``."""
    if not (_is_a(Integral, value) and low <= int(value) <= high):
        raise InvalidParameterError(
            f"{name} must be a whole number from {low} to {high}, {what}; got {value!r}."
        )


def check_penalty(name: str, value: Any) -> None:
    """Raise unless ``value`` is "auto" or a finite number of at least 0."""
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    elif not (_is_a(Real, value) and 0 <= float(value) < np.inf):
        raise InvalidParameterError(f"{name} must be 'auto' or a finite number, 0 or more; got {value!r}.")


def refuse_huge(X: Any) -> None:
    """Squares and sums of the features must stay within the range of floating point."""
    values = X.data if sp.issparse(X) else X
    largest = float(np.abs(values).max(initial=0.0))
    if largest > _LARGEST_FEATURE:
        raise InvalidFeaturesError(
            f"X holds values as large as {largest:.1e}, whose squares overflow. Scale the features first, "
            "for instance with sklearn.preprocessing.StandardScaler."
        )
