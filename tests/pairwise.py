"""A few cases of a test with many parameters, in which each value meets each value of every other parameter.

Most mistakes show where two settings meet, and few need three. A test marked ``pairwise`` therefore runs a
covering part of its product of parameters in `make test`, and the rest in `make test-slow`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import combinations
from typing import Any

import pytest

Setting = tuple[str, Any]


def mark_the_rest_slow(items: Iterable[pytest.Item]) -> None:
    """Mark slow those cases of tests marked ``pairwise`` that show no pair of settings for the first time."""
    tests: dict[Any, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("pairwise") is None or item.get_closest_marker("slow") is not None:
            continue
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            tests[item.parent, item.originalname].append(item)
    for cases in tests.values():
        fast = set(covering([_settings(case) for case in cases]))
        for at, case in enumerate(cases):
            if at not in fast:
                case.add_marker(pytest.mark.slow)


def covering(cases: Sequence[Mapping[str, Any]]) -> list[int]:
    """Numbers of cases that have between them every pair of settings, and every setting, that any has.

    Greedy: the case with the most that is new comes next, and the first of equals.

    >>> covering([{"a": a, "b": b, "c": c} for a in "xy" for b in "xy" for c in "xy"])
    [0, 1, 2, 4, 7]
    """
    shown = [set(_pairs(case)) for case in cases]
    missing, chosen = set().union(*shown), list[int]()
    while missing:
        best = max(range(len(cases)), key=lambda at: (len(shown[at] & missing), -at))
        chosen.append(best)
        missing -= shown[best]
    return sorted(chosen)


def _pairs(case: Mapping[str, Any]) -> Iterator[frozenset[Setting]]:
    yield from (frozenset([setting]) for setting in case.items())
    yield from map(frozenset, combinations(case.items(), 2))


def _settings(case: pytest.Function) -> dict[str, Any]:
    """The settings of a case; those of a parameter that is a dataclass or a tuple are its parts."""
    found: dict[str, Any] = {}
    for name, value in case.callspec.params.items():
        if is_dataclass(value) and not isinstance(value, type):
            found |= {f"{name}.{field.name}": repr(getattr(value, field.name)) for field in fields(value)}
        elif isinstance(value, tuple):
            found |= {f"{name}.{at}": repr(part) for at, part in enumerate(value)}
        else:
            found[name] = repr(value)
    return found
