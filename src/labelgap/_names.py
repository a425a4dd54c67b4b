"""Names in errors: registry look-ups that name the nearest known name when they fail, and lists of names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from labelgap.exceptions import UnknownNameError

T = TypeVar("T")

# More names than this would bury the suggestion.
_LISTED = 12


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """The error for ``name``: lists what is known and, where one is close, suggests it."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    if len(names) > _LISTED:
        close = difflib.get_close_matches(str(name).lower(), names, n=5, cutoff=0.0)
        listed = f"The nearest of {len(names)} known ones: {', '.join(close)}."
    else:
        listed = f"Known: {', '.join(names)}."
    return UnknownNameError(f"Unknown {kind} {name!r}.{hint} {listed}")


def look_up(kind: str, name: object, registry: Mapping[str, T]) -> T:
    """``registry[name]``, or an error that suggests the nearest name."""
    if isinstance(name, str) and name in registry:
        return registry[name]
    raise unknown_name(kind, name, registry)


def check_choice(parameter: str, value: object, choices: Iterable[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    names = tuple(choices)
    if not (isinstance(value, str) and value in names):
        raise unknown_name(f"value of {parameter}", value, names)


# How many of many values are named.
_NAMED = 3


def listed(values: Iterable[Any], total: int | None = None) -> str:
    """The first few values, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    named = list(values)
    total = len(named) if total is None else total
    first = ", ".join(map(repr, named[:_NAMED]))
    return first + (f" and {total - _NAMED} more" if total > _NAMED else "")
