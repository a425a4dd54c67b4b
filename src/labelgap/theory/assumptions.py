"""What a theorem asks for, whether it is so, and by how much it is not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from labelgap._warn import warn
from labelgap.exceptions import InvalidParameterError, LabelgapWarning


class AssumptionWarning(LabelgapWarning):
    """A bound was computed although something that its theorem asks for does not hold."""


@dataclass(frozen=True)
class Assumption:
    """One thing that a theorem asks for.

    Parameters
    ----------
    statement : str
        The assumption, with the numbers put in.
    holds : bool or None
        None where the given numbers do not say.

    Examples
    --------
    >>> at_least("|Ω| ≥ L + d", 300, 510)
    Assumption(statement='|Ω| ≥ L + d: 300 is short of 510 by 210', holds=False)
    """

    statement: str
    holds: bool | None = None


def at_least(statement: str, value: float, needed: float) -> Assumption:
    """The assumption ``value ≥ needed``, with what is missing."""
    if value >= needed:
        return Assumption(f"{statement}: {value:.6g} against {needed:.6g}", True)
    return Assumption(
        f"{statement}: {value:.6g} is short of {needed:.6g} by {needed - value:.6g}", holds=False
    )


def warn_of_failures(what: str, assumptions: Iterable[Assumption]) -> None:
    """One warning that names every assumption known to fail."""
    failed = [assumption.statement for assumption in assumptions if assumption.holds is False]
    if failed:
        warn(
            f"{what} is not guaranteed here, because its assumptions fail: {'; '.join(failed)}. "
            "Read the value as a rate, not as a bound.",
            AssumptionWarning,
        )


def check_in_range(
    name: str,
    value: float,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
) -> float:
    """``value`` as a float, or an error that says which range it must lie in."""
    number = float(value)
    if above < number < below and least <= number <= most and math.isfinite(number):
        return number
    limits = [
        f"{words} {limit:g}"
        for words, limit in (("above", above), ("at least", least), ("below", below), ("at most", most))
        if math.isfinite(limit)
    ]
    raise InvalidParameterError(
        f"{name} must be a finite number{', ' if limits else ''}{' and '.join(limits)}, not {value!r}."
    )


def check_count(name: str, value: int, most: int | None = None) -> int:
    """``value`` as a whole number of at least 1 (and at most ``most``), or an error."""
    if isinstance(value, bool) or int(value) != value or value < 1 or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise InvalidParameterError(f"{name} must be a whole number of at least 1{upper}, not {value!r}.")
    return int(value)
