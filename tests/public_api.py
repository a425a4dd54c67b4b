"""The public API as text: each name of a public module, signatures with defaults, methods and properties.

``python -m tests.public_api`` writes it to ``public_api.txt`` beside this file. What is there is a promise to
users: ``test_public_api.py`` fails when a line of it changes, and shows which.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from labelgap.exceptions import MissingExtraError

SNAPSHOT = Path(__file__).with_name("public_api.txt")
PACKAGE = "labelgap"
MODULES = [
    "labelgap",
    "labelgap.arriving",
    "labelgap.asking",
    "labelgap.completing",
    "labelgap.confidence",
    "labelgap.data",
    "labelgap.decisions",
    "labelgap.distributed",
    "labelgap.exceptions",
    "labelgap.losses",
    "labelgap.metrics",
    "labelgap.onnx_export",
    "labelgap.persistence",
    "labelgap.report",
    "labelgap.sampling",
    "labelgap.solvers",
    "labelgap.theory",
    "labelgap.thresholds",
]
"""Every module with public names."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def public_api() -> str:
    """The whole text, sorted, one line each; modules whose extra is not installed are left out."""
    homes: dict[int, str] = {}
    names = [name for name in MODULES if name not in missing_modules()]
    places = {f"{name}.{one}": thing for name in names for one, thing in public_names(name)}
    for place, thing in places.items():
        if inspect.isclass(thing):
            homes.setdefault(id(thing), place)
    lines = {line for place, thing in places.items() for line in thing_lines(place, thing, homes)}
    return "".join(f"{line}\n" for line in sorted(lines))


def missing_modules() -> list[str]:
    """Modules that need an extra which is not installed."""
    missing = []
    for name in MODULES:
        try:
            importlib.import_module(name)
        except MissingExtraError:
            missing.append(name)
    return missing


def public_names(name: str) -> Iterator[tuple[str, Any]]:
    """The names of the module's ``__all__``, or else what it defines."""
    module = importlib.import_module(name)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [one for one, thing in vars(module).items() if getattr(thing, "__module__", None) == name]
    yield from ((one, getattr(module, one)) for one in names if one[0] != "_")


def thing_lines(place: str, thing: Any, homes: Mapping[int, str]) -> Iterator[str]:
    if inspect.isclass(thing):
        home = homes[id(thing)]
        yield from class_lines(place, thing, homes) if home == place else [f"{place}: the same as {home}"]
    elif inspect.isroutine(thing):
        yield f"{place}{signature(thing)}"
    elif isinstance(thing, Mapping):
        yield f"{place}: {type(thing).__name__} of {', '.join(sorted(map(str, thing)))}"
    else:
        yield f"{place}: {default(thing)}"


def class_lines(place: str, thing: type, homes: Mapping[int, str]) -> Iterator[str]:
    """The public classes that it is one of, how one is made, and what it has of ours and not of others."""
    bases = [
        base.__name__ for base in thing.__mro__[1:-1] if id(base) in homes or base.__module__ == "builtins"
    ]
    yield f"{place}: class, {', '.join(bases)}".removesuffix(", ")
    ours = [one for one in thing.__mro__ if one.__module__.split(".")[0] == PACKAGE]
    made = any({"__init__", "__new__"} & set(vars(one)) for one in ours)
    if made and not getattr(thing, "_is_protocol", False):
        yield f"{place}{signature(thing)}"
    fields = {*getattr(thing, "__dataclass_fields__", ()), *getattr(thing, "_fields", ())}
    for name in sorted({name for one in ours for name in vars(one)} - fields):
        # scikit-learn adds a method for each request of metadata.
        if not name.startswith("_") and not name.endswith("_request"):
            yield from member_lines(
                f"{place}.{name}", inspect.getattr_static(thing, name), getattr(thing, name)
            )


def member_lines(place: str, static: Any, value: Any) -> Iterator[str]:
    if isinstance(static, property | cached_property):
        yield f"{place}: property"
    elif isinstance(static, classmethod | staticmethod):
        yield f"{place}{signature(value)} {type(static).__name__}"
    elif inspect.isroutine(value):
        yield f"{place}{signature(value)}"
    elif not place.endswith("_"):
        # What a fit leaves behind is no matter of the class.
        yield f"{place}: {default(value)}"


def signature(thing: Any) -> str:
    """Parameters with their defaults and without their types."""
    try:
        found = inspect.signature(thing)
    except ValueError:
        return "(...)"
    given = [
        one.replace(
            annotation=one.empty,
            default=one.empty if one.default is one.empty else _Text(default(one.default)),
        )
        for one in found.parameters.values()
    ]
    return str(inspect.Signature(given))


def default(value: Any) -> str:
    """A value as it is written, and of what else than plain values only the type: it may have an address."""
    if isinstance(value, tuple):
        return f"({', '.join(map(default, value))})"
    if isinstance(value, _PLAIN):
        return repr(value)
    return getattr(value, "__name__", None) or f"<{type(value).__name__}>"


class _Text(str):
    """Text that is written as it is."""

    def __repr__(self) -> str:
        return str(self)


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api(), encoding="utf-8")
