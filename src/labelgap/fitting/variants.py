"""Settings of a recommender's problem that are chosen together with its penalties, one change at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem


class Variant(NamedTuple):
    """One choice of these settings; None for one that the problem does not have."""

    count_weighting: float
    silence_weight: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Variants:
    """The choices, and the problem of each with the labels as it weighs them.

    The search begins with ``first``, which is mostly close to the best. Its neighbours are compared with it
    at the penalties found, and theirs if they win.
    """

    first: Variant
    values: Mapping[str, Sequence[float]]
    """The values of each setting that may change, in rising order."""
    problem: Callable[[Variant], tuple[Problem, ObservedLabels]]

    def beside(self, variant: Variant) -> Iterator[Variant]:
        """The variants in which one setting is a step larger or smaller."""
        for name, values in self.values.items():
            place = list(values).index(getattr(variant, name))
            for near in (place + 1, place - 1):
                if 0 <= near < len(values):
                    yield variant._replace(**{name: float(values[near])})


COUNT_WEIGHTINGS = (0.0, 0.5, 0.75, 1.0)
"""How the penalty may grow with the number of ratings."""
FIRST_COUNT_WEIGHTING = 0.75
