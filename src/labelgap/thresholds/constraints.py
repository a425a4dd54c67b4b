"""The best threshold among those that keep other metrics within bounds, exactly.

The metrics change only where the threshold passes a score, so every cut is compared: those at which all
bounds hold are left, and the best of them is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InfeasibleConstraintError, InvalidParameterError, UnknownNameError
from labelgap.metrics import LinearFractional, get_metric
from labelgap.metrics.formula import looks_like_formula
from labelgap.metrics.linear_fractional import AVERAGES
from labelgap.thresholds.curves import ThresholdCurve, ThresholdResult

_TEXT = re.compile(r"\s*(?P<metric>.+?)\s*(?P<sign>>=|<=|≥|≤)\s*(?P<bound>[^<>=≥≤]+?)\s*")
_SIGNS = {">=": ">=", "≥": ">=", "<=": "<=", "≤": "<="}
# A bound that holds up to rounding holds: 0.9 of ten positives are nine of them.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Constraint:
    """A bound on a metric: ``Ψ ≥ bound`` or ``Ψ ≤ bound``.

    Parameters
    ----------
    metric : str or LinearFractional
        Any metric of decisions. A name without an average, such as "recall", is its micro average.
    sign : {">=", "<="}
    bound : float
        In units of the metric.

    Examples
    --------
    >>> Constraint("recall", ">=", 0.9)
    Constraint('micro-recall >= 0.9')
    """

    metric: LinearFractional
    sign: str
    bound: float

    def __init__(self, metric: str | LinearFractional, sign: str, bound: Any) -> None:
        if sign not in _SIGNS:
            raise InvalidParameterError(
                f"A constraint is written with >= or <=, not {sign!r}: 'recall >= 0.9'."
            )
        if isinstance(bound, bool) or not isinstance(bound, Real) or not np.isfinite(float(bound)):
            raise InvalidParameterError(f"The bound of a constraint is a finite number, not {bound!r}.")
        object.__setattr__(self, "metric", _metric(metric))
        object.__setattr__(self, "sign", _SIGNS[sign])
        object.__setattr__(self, "bound", float(bound))

    def __str__(self) -> str:
        return f"{self.metric.__name__} {self.sign} {self.bound:g}"

    def __repr__(self) -> str:
        return f"Constraint({str(self)!r})"

    def shortfall(self, values: Any) -> NDArray[np.float64]:
        """How far values of the metric are from the bound, on its wrong side; 0 where it holds."""
        behind = self.bound - np.asarray(values) if self.sign == ">=" else np.asarray(values) - self.bound
        return np.where(behind > _ROUNDING * max(1.0, abs(self.bound)), behind, 0.0)


Constraints: TypeAlias = str | Constraint | Sequence[str | Constraint] | None
"""What ``subject_to`` may be."""


def read_constraints(subject_to: Constraints) -> tuple[Constraint, ...]:
    """The bounds of ``subject_to``: one text, several with commas or "and" between them, or a list.

    Examples
    --------
    >>> read_constraints("recall >= 0.9, macro-precision >= .5")
    (Constraint('micro-recall >= 0.9'), Constraint('macro-precision >= 0.5'))
    """
    if subject_to is None:
        return ()
    if isinstance(subject_to, Constraint):
        return (subject_to,)
    if isinstance(subject_to, str):
        return tuple(_read(part) for part in re.split(r",|\band\b", subject_to))
    if not isinstance(subject_to, Iterable):
        raise _unreadable(subject_to)
    return tuple(one for part in subject_to for one in read_constraints(part))


def _read(text: str) -> Constraint:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise _unreadable(text)
    try:
        bound = float(found["bound"])
    except ValueError:
        raise _unreadable(text) from None
    return Constraint(found["metric"], found["sign"], bound)


def _unreadable(given: object) -> InvalidParameterError:
    return InvalidParameterError(
        f"subject_to holds {given!r}, which is no bound on a metric. Write the metric, >= or <=, and a "
        "number, as in 'recall >= 0.9' or 'macro-precision >= 0.5, micro-recall >= 0.8'."
    )


def _metric(given: str | LinearFractional) -> LinearFractional:
    if not isinstance(given, str) or looks_like_formula(given):
        return get_metric(given)
    name = given.strip().lower().replace("_", "-")
    if not name.startswith((*AVERAGES, "samples")):
        try:
            return get_metric(f"micro-{name}")
        except UnknownNameError:
            # The error is about the name as it was given.
            return get_metric(given)
    return get_metric(name)


# -- the search --------------------------------------------------------------------------------------------


def best_within(
    curve: ThresholdCurve, bounds: Sequence[tuple[Constraint, ThresholdCurve]], name: str
) -> ThresholdResult:
    """The best cut of a curve at which every bound holds on its own curve; all have the same cuts.

    ``name`` is what the metric to be maximised is called in the error where no cut is left.
    """
    shortfalls = np.array([constraint.shortfall(other.values) for constraint, other in bounds])
    possible = np.flatnonzero(shortfalls.max(axis=0) == 0)
    if len(possible) == 0:
        raise _infeasible(bounds, shortfalls, name)
    values = curve.values[possible]
    top = float(values.max())
    # The highest threshold among equals, which comes first.
    best = possible[np.argmax(values >= top - _ROUNDING * max(1.0, abs(top)))]
    return ThresholdResult(float(curve.thresholds[best]), float(curve.values[best]))


def _infeasible(
    bounds: Sequence[tuple[Constraint, ThresholdCurve]], shortfalls: NDArray[np.float64], name: str
) -> InfeasibleConstraintError:
    """What cannot be reached, and how much can."""
    alone, together = shortfalls.min(axis=1), shortfalls.max(axis=0)
    nearest = int(np.argmin(together))
    threshold = float(bounds[0][1].thresholds[nearest])
    if (alone > 0).any():
        worst = int(np.argmax(alone))
        constraint, curve = bounds[worst]
        place = int(np.argmin(shortfalls[worst]))
        reach = "highest" if constraint.sign == ">=" else "lowest"
        what = (
            f"No threshold gives {constraint} on these entries: the {reach} value that one reaches is "
            f"{curve.values[place]:.6g}, at a threshold of {curve.thresholds[place]:.6g}."
        )
    else:
        reached = ", ".join(f"{one.metric.__name__} {curve.values[nearest]:.6g}" for one, curve in bounds)
        listed = " and ".join(str(one) for one, _ in bounds)
        what = (
            f"No threshold gives {listed} together on these entries, though each can be reached alone. The "
            f"nearest is a threshold of {threshold:.6g}, with {reached}."
        )
    return InfeasibleConstraintError(
        f"{what} Loosen the bound, or find better scores; {name} was not maximised.",
        threshold,
        float(together[nearest]),
    )
