"""The metrics that a reader of the page can choose from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from labelgap.exceptions import InvalidParameterError
from labelgap.metrics import LinearFractional, get_metric, metric_names
from labelgap.metrics.linear_fractional import AVERAGES, KEYS

_F_NUMBERS = ("f0.5", "f2")


def metric_choices(
    own: LinearFractional, further: str | LinearFractional | Iterable[str | LinearFractional] = ()
) -> list[LinearFractional]:
    """The model's own metric, those asked for, and all named ones, each once and each with a name.

    A metric with the same values as an earlier one is left out: "hamming" is "accuracy", and so is
    "cost-accuracy" at equal costs.

    Examples
    --------
    >>> [metric.name for metric in metric_choices(get_metric("macro-f1"), ["micro-f3"])][:3]
    ['macro-f1', 'micro-f3', 'micro-accuracy']
    """
    if isinstance(further, str | LinearFractional):
        further = [further]
    if not isinstance(further, Iterable):
        raise InvalidParameterError(
            "metrics must be a metric, by its name or as LinearFractional, or several of them; got "
            f"{further!r}."
        )
    found: dict[tuple[object, ...], LinearFractional] = {}
    for metric in [own, *map(get_metric, further), *_named()]:
        named = metric if metric.name else replace(metric, name=formula(metric))
        found.setdefault(_values_of(metric), named)
    return list(found.values())


def _named() -> Iterable[LinearFractional]:
    names = [name for name in metric_names() if not name.endswith("fbeta")]
    names += [
        f"{average}-{form}{base}" for average in AVERAGES for form in ("", "balanced-") for base in _F_NUMBERS
    ]
    return sorted(map(get_metric, names), key=_order)


def _order(metric: LinearFractional) -> tuple[int, bool, str]:
    return AVERAGES.index(metric.average), metric.balanced, str(metric.name)


def _values_of(metric: LinearFractional) -> tuple[object, ...]:
    """What the values depend on; two metrics that agree in it are the same in all but name."""
    top, bottom = metric.vertex_numerator, metric.vertex_denominator
    scale = float(bottom.max())
    vertices = (*(top / scale).tolist(), *(bottom / scale).tolist())
    return (*vertices, metric.average, metric.zero_division, metric.balanced)


def formula(metric: LinearFractional) -> str:
    """A metric without a name in words.

    Examples
    --------
    >>> formula(LinearFractional({"const": 1, "fp": -0.25}, {"const": 1}))
    'micro (1 - 0.25 fp) / 1'
    """
    above, below = (_linear(part) for part in (metric.numerator, metric.denominator))
    return f"{metric.average} {'balanced ' if metric.balanced else ''}{above} / {below}"


def _linear(coefficients: Any) -> str:
    terms = []
    for key in KEYS:
        value = coefficients.get(key, 0.0)
        if value:
            size = "" if abs(value) == 1 and key != "const" else f"{abs(value):g}"
            text = " ".join(filter(None, (size, "" if key == "const" else key)))
            terms.append(("- " if value < 0 else "+ ") + text)
    joined = " ".join(terms).removeprefix("+ ") or "0"
    return joined if len(terms) < 2 else f"({joined})"


def describe_metric(metric: LinearFractional) -> dict[str, Any]:
    """Coefficients in the order (const, tp, fp, fn, tn), and the rest of what makes a metric."""
    return {
        "name": metric.name,
        "average": metric.average,
        "numerator": metric.numerator_coefficients.tolist(),
        "denominator": metric.denominator_coefficients.tolist(),
        "zero_division": metric.zero_division,
        "balanced": metric.balanced,
    }
