"""Checks that the parameters of an estimator are of the kinds that its signature names."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from labelgap.persistence.registry import is_logistic_regression, requirements_of
from labelgap.persistence.transformers import last_step, transformer_name
from labelgap.thresholds.constraints import Constraint

_NUMBER_KINDS, _WIDE = "iuf", (np.dtype(np.float16), np.dtype(np.longdouble))


def check_parameters(model: Any) -> None:
    """Raise ValueError where a parameter is of a kind that the estimator has no use for.

    Examples
    --------
    >>> from labelgap import LowRankClassifier
    >>> check_parameters(LowRankClassifier(tol="small"))
    Traceback (most recent call last):
    ValueError: the parameter 'tol' is of type str; a number was expected
    """
    if is_logistic_regression(model):
        _check_logistic_regression(model)
        return
    if requirements_of(model) is None:
        return
    hints = typing.get_type_hints(type(model).__init__)
    for name, value in model.get_params(deep=False).items():
        tests = _SPECIAL.get(name) or [_TESTS[hint] for hint in _members(hints[name])]
        if not any(is_right(value) for is_right, _ in tests):
            expected = " or ".join(dict.fromkeys(words for _, words in tests))
            raise ValueError(
                f"the parameter {name!r} is of type {type(value).__name__}; {expected} was expected"
            )


def _members(hint: Any) -> tuple[Any, ...]:
    """The members of a union for which there is a test; a function is in no file, and so has none."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = typing.get_args(hint) if union else (hint,)
    for member in members:
        if isinstance(member, type) and member not in _TESTS:
            _TESTS[member] = (_is_instance(member), f"a {member.__name__}")
    return tuple(member for member in members if member in _TESTS)


def _check_logistic_regression(model: Any) -> None:
    for name, value in model.get_params(deep=False).items():
        plain = value is None or isinstance(
            value, bool | int | float | str | np.bool_ | np.integer | np.floating
        )
        if not plain and not (name == "class_weight" and isinstance(value, dict)):
            if name == "random_state" and isinstance(value, np.random.RandomState):
                continue
            raise ValueError(
                f"the parameter {name!r} of LogisticRegression is of type {type(value).__name__}"
            )


# -- kinds of values -----------------------------------------------------------------------------------------

_Test = tuple[Callable[[Any], bool], str]


def _is_instance(cls: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, cls)


def _is_whole(value: Any) -> bool:
    # True and False count as 1 and 0, as in verbose=True.
    return isinstance(value, bool | int | np.bool_ | np.integer)


def _is_real(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in _NUMBER_KINDS
    return isinstance(value, int | float | np.integer | np.floating)


def _is_rates(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in _NUMBER_KINDS and value.dtype not in _WIDE
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list | tuple) and all(_is_real(one) for one in value)


def _is_bounds(value: Any) -> bool:
    several = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(one, str | Constraint) for one in several)


def _is_estimator(value: Any) -> bool:
    last = last_step(value)
    if is_logistic_regression(last) or requirements_of(last) is not None:
        check_parameters(last)
        return True
    return False


_NONE: _Test = (lambda value: value is None, "None")
_NUMBER: _Test = (_is_real, "a number")
_TEXT: _Test = (lambda value: isinstance(value, str), "a text")
_WHOLE: _Test = (_is_whole, "a whole number")

_TESTS: dict[Any, _Test] = {
    type(None): _NONE,
    bool: (_is_whole, "True or False"),
    int: _WHOLE,
    float: _NUMBER,
    str: _TEXT,
}
"""The test for each type that a signature names; classes are added when they are met."""

_SPECIAL: dict[str, list[_Test]] = {
    "random_state": [
        _NONE,
        _WHOLE,
        (lambda value: isinstance(value, np.random.RandomState), "a RandomState"),
    ],
    "flip_rate": [_TEXT, _NUMBER, (_is_rates, "rates"), _NONE],
    # The column of ratings; None where each line of a table is a like.
    "value": [_TEXT, _NONE],
    "subject_to": [_NONE, _TEXT, (_is_bounds, "bounds on metrics")],
    "estimator": [_NONE, (_is_estimator, "an estimator that files can hold")],
    "features": [
        _TEXT,
        (lambda value: transformer_name(value) is not None, "a transformer that files can hold"),
    ],
}
"""The tests for parameters whose signature says Any."""
