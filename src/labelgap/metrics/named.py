"""Metrics by name: ``{average}-{base}`` and ``{average}-balanced-{base}``; and by formula."""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from labelgap._names import unknown_name
from labelgap.exceptions import InvalidParameterError, UnknownNameError
from labelgap.metrics.formula import looks_like_formula, parse_formula
from labelgap.metrics.linear_fractional import AVERAGES, LinearFractional

Coefficients = tuple[dict[str, float], dict[str, float]]

_ALIASES = {"samples": "instance"}
# Measures of scores and of rankings, by words in their names.
_RANKING = re.compile(r"auc|roc|average-precision|\bmap\b|ndcg|log-?loss|brier|rank|lrap|coverage|@")
_F_NUMBER = re.compile(r"f(\d+(?:\.\d+)?)")
# A whole β above this is mostly a slip of the finger, such as f11 for f1.
_LARGEST_WHOLE_BETA = 5


def _positive(name: str, value: Any) -> float:
    if type(value) is bool or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InvalidParameterError(f"{name} must be a finite number above 0, not {value!r}.")
    return float(value)


def _fbeta(beta: float) -> Coefficients:
    square = _positive("beta", beta) ** 2
    return {"tp": 1 + square}, {"tp": 1 + square, "fn": square, "fp": 1}


def _cost_accuracy(false_positive_cost: float = 1.0, false_negative_cost: float = 1.0) -> Coefficients:
    fp = _positive("false_positive_cost", false_positive_cost)
    fn = _positive("false_negative_cost", false_negative_cost)
    return {"tp": fn, "tn": fp}, {"tp": fn, "fn": fn, "tn": fp, "fp": fp}


# One line per metric: numerator and denominator, from the metric's own parameters if it has any.
_BUILDERS: dict[str, Callable[..., Coefficients]] = {
    "accuracy": lambda: ({"tp": 1, "tn": 1}, {"const": 1}),
    "cost-accuracy": _cost_accuracy,
    "f1": lambda: _fbeta(1.0),
    "fbeta": _fbeta,
    "hamming": lambda: ({"tp": 1, "tn": 1}, {"const": 1}),
    "jaccard": lambda: ({"tp": 1}, {"tp": 1, "fp": 1, "fn": 1}),
    "precision": lambda: ({"tp": 1}, {"tp": 1, "fp": 1}),
    "recall": lambda: ({"tp": 1}, {"tp": 1, "fn": 1}),
    "specificity": lambda: ({"tn": 1}, {"tn": 1, "fp": 1}),
}


def metric_names() -> tuple[str, ...]:
    """Every name that ``get_metric`` knows, sorted; besides, ``f`` takes any number, as in "macro-f0.5".

    Examples
    --------
    >>> "instance-balanced-accuracy" in metric_names()
    True
    """
    bases = [form + base for form in ("", "balanced-") for base in _BUILDERS]
    return tuple(sorted(f"{average}-{base}" for average in AVERAGES for base in bases))


def get_metric(
    name: str | LinearFractional, *, zero_division: float | None = None, **params: float
) -> LinearFractional:
    """The metric of that name or formula; a LinearFractional comes back unchanged.

    With counts as fractions of the observed weight of a group, and the mean over groups as Ψ:
    accuracy = hamming = tp + tn; precision = tp / (tp + fp); recall = tp / (tp + fn);
    specificity = tn / (tn + fp); jaccard = tp / (tp + fp + fn);
    fbeta = (1 + β²) tp / ((1 + β²) tp + β² fn + fp);
    cost-accuracy = (c_fn tp + c_fp tn) / (c_fn (tp + fn) + c_fp (tn + fp)).

    Parameters
    ----------
    name : str or LinearFractional
        ``{average}-{base}`` with average "micro", "instance" (or "samples") or "macro", or
        ``{average}-balanced-{base}``, where each class holds half of a group's weight. "f2" or "f0.5" is
        fbeta with that beta; one above 5 is written with a point, "f11.0", because f11 is mostly a slip for
        f1. A text with an operator is a formula, as in "macro: tp/(tp + fp)"; see
        ``labelgap.metrics.parse_formula``.
    zero_division : float, default 0.0
        The value of a group at 0/0.
    beta : float above 0
        For fbeta: how many times as much recall counts as precision.
    false_positive_cost, false_negative_cost : floats above 0, default 1.0
        For cost-accuracy.

    Examples
    --------
    >>> get_metric("macro-jaccard")([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.75
    >>> get_metric("micro-fbeta", beta=2) == get_metric("micro-f2")
    True
    >>> get_metric("macro: tp / (tp + fp)") == get_metric("macro-precision")
    True
    """
    if isinstance(name, LinearFractional):
        if params or zero_division is not None:
            raise InvalidParameterError(
                "Parameters go with a metric's name; this metric is complete already."
            )
        return name
    known = _parse(name)
    if known is None:
        if not (isinstance(name, str) and looks_like_formula(name)):
            raise _unknown(name)
        _check_params(name, params, ())
        return parse_formula(name, zero_division=0.0 if zero_division is None else zero_division)
    average, balanced, base = known
    form = "balanced-" if balanced else ""
    if base in _BUILDERS:
        _check_params(name, params, tuple(inspect.signature(_BUILDERS[base]).parameters))
    else:
        _check_params(name, params, ())
        _check_beta(name, f"{average}-{form}", base[1:])
        base, params = "fbeta", {"beta": float(base[1:])}
    if base == "fbeta" and "beta" not in params:
        raise InvalidParameterError(
            f"{name!r} needs beta=..., or the number in the name: {average}-{form}f2."
        )
    numerator, denominator = _BUILDERS[base](**params)
    shown = f"f{_shown(params['beta'])}" if base == "fbeta" else base
    return LinearFractional(
        numerator,
        denominator,
        average=average,
        zero_division=0.0 if zero_division is None else zero_division,
        balanced=balanced,
        name=f"{average}-{form}{shown}",
    )


def _check_beta(name: object, before: str, number: str) -> None:
    """Raise if the β of a name is probably not the one that is meant."""
    beta = float(number)
    if "." in number or beta == 0 or (beta <= _LARGEST_WHOLE_BETA and number == f"{beta:g}"):
        return
    doubled = len(number) > 1 and len(set(number)) == 1
    meant = number[0] if doubled else f"0.{number.lstrip('0')}" if number.startswith("0") else "1"
    raise InvalidParameterError(
        f"{name!r} would be F-beta with β = {beta:g}, where recall counts {beta:g} times as much as "
        f"precision. Did you mean '{before}f{meant}'? If β = {beta:g} is meant, write "
        f"'{before}f{_shown(beta)}'."
    )


def _shown(beta: float) -> str:
    """β as the name of a metric has it."""
    return np.format_float_positional(beta, trim="-" if beta <= _LARGEST_WHOLE_BETA else "0")


def _parts(name: object) -> tuple[str, str, str]:
    """A name in one spelling, its average and what follows that."""
    text = str(name).lower().replace("_", "-")
    prefix, _, rest = text.partition("-")
    return text, _ALIASES.get(prefix, prefix), rest


def _parse(name: object) -> tuple[str, bool, str] | None:
    """Average, whether balanced, and base of a name; None for one that is not known."""
    _, average, rest = _parts(name)
    base = rest.removeprefix("balanced-")
    known = isinstance(name, str) and average in AVERAGES and (base in _BUILDERS or _F_NUMBER.fullmatch(base))
    return (average, base != rest, base) if known else None


def _unknown(name: object) -> UnknownNameError:
    """The error for a name that is not known, which suggests the nearest."""
    text, average, rest = _parts(name)
    bare = text.removeprefix("balanced-")
    if isinstance(name, str) and (bare in _BUILDERS or _F_NUMBER.fullmatch(bare)):
        choices = ", ".join(f"{average}-{text}" for average in AVERAGES)
        return UnknownNameError(f"{name!r} does not say how to average; write one of {choices}.")
    base = rest.removeprefix("balanced-") if average in AVERAGES else bare
    if isinstance(name, str) and _RANKING.search(base):
        return UnknownNameError(
            f"{name!r} judges scores or their order, and not decisions, so no threshold could be best for "
            "it. Choose a metric of decisions, such as micro-f1 or micro-balanced-accuracy; precision@k, "
            "recall@k and nDCG@k are functions of labelgap.metrics."
        )
    if isinstance(name, str) and average in AVERAGES:
        # The average is right: only the base may be misspelt, and only bases near to it help.
        near = difflib.get_close_matches(base, [*_BUILDERS, "balanced-accuracy"], n=1, cutoff=0.6)
        hint = f" Did you mean '{average}-{near[0]}'?" if near else ""
        known = ", ".join(sorted(_BUILDERS))
        return UnknownNameError(
            f"Unknown metric {name!r}.{hint} After {average}- comes one of {known}, or balanced- and one of "
            "these; or write a formula such as 'tp/(tp + fp)'."
        )
    return unknown_name("metric", name, metric_names())


def _check_params(name: object, params: dict[str, float], known: tuple[str, ...]) -> None:
    for key in params:
        if key not in known:
            takes = ", ".join((*known, "zero_division"))
            raise InvalidParameterError(f"The metric {name!r} has no parameter {key!r}; it takes {takes}.")
