"""The one list of classes that a model file may hold, each under the name that it has in files.

A class is registered where it is defined, so that this folder need not import estimators:

- ``@savable_estimator(requirements)`` for an estimator, saved by its parameters and fitted attributes;
- ``@savable_record(name)`` for a dataclass or a named tuple, saved by its fields;
- ``register(kind, *classes)`` for any other class; ``kinds.py`` does so for those of lower floors and of
  numpy, scipy and scikit-learn.

Only the registered class itself is saved, never a class derived from it, whose code a file does not hold.
The functions that read the list first import every estimator, and so complete it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from labelgap._public import ESTIMATORS
from labelgap.persistence.agreement import is_count, is_float
from labelgap.persistence.codec import CannotSaveError, Kind

_BY_NAME: dict[str, Kind] = {}
_BY_CLASS: dict[type, Kind] = {}
_REQUIREMENTS: dict[type, Requirements] = {}
_FINDERS: list[Callable[[Any], str | None]] = []
AnyClass = TypeVar("AnyClass", bound=type)


@dataclasses.dataclass(frozen=True)
class Requirements:
    """What a fitted estimator must have."""

    attributes: tuple[str, ...]
    """Names of the attributes that every completed fit sets."""
    check: Callable[[Any], None]
    """Raises ValueError where the attributes are of a wrong type or shape."""


def register(kind: Kind, *classes: type) -> None:
    """Save values of these classes as this kind, and read the kind by its name."""
    if _BY_NAME.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"Two classes want the name {kind.name!r} in files; give one of them another name.")
    for cls in classes:
        _BY_CLASS[cls] = kind


def register_finder(find: Callable[[Any], str | None]) -> None:
    """Ask this function, too, for the name of the kind of a value, where its class is not registered."""
    _FINDERS.append(find)


def savable_record(name: str) -> Callable[[AnyClass], AnyClass]:
    """A decorator for a dataclass or a named tuple that is saved by its fields."""

    def decorate(cls: AnyClass) -> AnyClass:
        register(record_kind(name, cls), cls)
        return cls

    return decorate


def savable_estimator(requirements: Requirements) -> Callable[[AnyClass], AnyClass]:
    """A decorator for an estimator that is saved under its name by its parameters and fitted attributes."""

    def decorate(cls: AnyClass) -> AnyClass:
        register(Kind(cls.__name__, _state, _rebuild(cls), shared=True), cls)
        _REQUIREMENTS[cls] = requirements
        return cls

    return decorate


def kind_of(value: Any) -> Kind | None:
    """The kind of a value, None if its class is not registered.

    Examples
    --------
    >>> from labelgap.losses import Poisson
    >>> kind_of(Poisson()).name, kind_of(print)
    ('loss', None)
    """
    if is_logistic_regression(value):
        return _BY_NAME["LogisticRegression"]
    kind = _BY_CLASS.get(type(value))
    if kind is None:
        found = next((name for find in _FINDERS if (name := find(value)) is not None), None)
        kind = None if found is None else _BY_NAME[found]
    return kind


def is_logistic_regression(value: Any) -> bool:
    """Whether the value is scikit-learn's LogisticRegression, and not of a class derived from it."""
    # By the name of the class: to import it would take a tenth of a second from every start.
    cls = type(value)
    return cls.__name__ == "LogisticRegression" and cls.__module__.startswith("sklearn.linear_model.")


def kinds() -> Mapping[str, Kind]:
    """Every kind by its name in files."""
    _import_estimators()
    return _BY_NAME


def requirements_of(model: Any) -> Requirements | None:
    """The requirements of a registered estimator; None for anything else."""
    return _REQUIREMENTS.get(type(model))


def estimator_names() -> tuple[str, ...]:
    """The names of all registered estimators, sorted."""
    _import_estimators()
    return tuple(sorted(cls.__name__ for cls in _REQUIREMENTS))


def _import_estimators() -> None:
    # A model may hold another one, so all of them are wanted, whichever is read.
    for module in ESTIMATORS.values():
        importlib.import_module(module)


# -- records -------------------------------------------------------------------------------------------


def record_kind(name: str, cls: Any, whole: Callable[[dict[str, Any]], Any] | None = None) -> Kind:
    """The kind of a dataclass or a named tuple; ``whole`` builds it, by default with a call of the class.

    Fields of numbers, and of arrays of them, hold such ones, by what the class says of them.
    """
    fields = getattr(cls, "_fields", None) or [field.name for field in dataclasses.fields(cls) if field.init]
    tests = {field: _NUMBERS[said] for field, said in cls.__annotations__.items() if said in _NUMBERS}

    def build(parts: dict[str, Any]) -> Any:
        for field, (is_right, expected) in tests.items():
            if field in parts and not is_right(parts[field]):
                raise ValueError(f"{field} of a {name} is {parts[field]!r}; {expected} was expected")
        return (whole or (lambda parts: cls(**parts)))(parts)

    return Kind(name, lambda value: {field: getattr(value, field) for field in fields}, build)


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


_NUMBERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (is_count, "a whole number"),
    "int | None": (lambda value: value is None or is_count(value), "a whole number or None"),
    "float": (_is_real, "a number"),
    "float | None": (lambda value: value is None or _is_real(value), "a number or None"),
    "bool": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "Floats": (is_float, "an array of numbers"),
    "Floats | None": (lambda value: value is None or is_float(value), "an array of numbers or None"),
    **dict.fromkeys(
        ("NDArray[np.int64]", "NDArray[np.int32]"),
        (
            lambda value: isinstance(value, np.ndarray) and value.dtype.kind == "i",
            "an array of whole numbers",
        ),
    ),
}
"""The test for what a class says of a field."""


# -- estimators ----------------------------------------------------------------------------------------


def has_place(cls: Any, name: str) -> bool:
    """Whether the name is a parameter, or one that a fitted attribute may have without hiding a method."""
    if name in cls._get_param_names():
        return True
    held = getattr(cls, name, None)
    ours = name.endswith("_") or name.startswith("_")
    hides = name.startswith("__") or callable(held) or isinstance(held, property)
    return name.isidentifier() and ours and not hides


def without_requests(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state without scikit-learn's metadata requests and without output settings that are not plain.

    Examples
    --------
    >>> without_requests({"C": 1.0, "_metadata_request": print, "_sklearn_output_config": print})
    {'C': 1.0}
    """
    output = state.get("_sklearn_output_config")
    is_plain = type(output) is dict and all(
        type(part) in (str, bool, type(None)) for pair in output.items() for part in pair
    )
    left_out = ("_metadata_request",) if is_plain else ("_metadata_request", "_sklearn_output_config")
    return {name: part for name, part in state.items() if name not in left_out}


def _state(model: BaseEstimator) -> Mapping[str, Any]:
    state = without_requests(model.__getstate__())
    for name, value in state.items():
        if not has_place(type(model), name):
            raise CannotSaveError(name, value)
    return state


def _rebuild(cls: Any) -> Callable[[dict[str, Any]], Any]:
    def rebuild(state: dict[str, Any]) -> Any:
        names = cls._get_param_names()
        model = cls(**{name: state[name] for name in names if name in state})
        known = without_requests(state)
        for name, value in state.items():
            if not has_place(cls, name) or name not in known:
                raise ValueError(f"{cls.__name__} has no place for {name!r}")
            if name not in names:
                setattr(model, name, value)
        return model

    return rebuild
