"""Settings of a problem that are chosen together with its penalties, one change at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem


class Variant(NamedTuple):
    """One choice of these settings; None for one that the problem does not have."""

    count_weighting: float = 0.0
    silence_weight: float | None = None
    dislikes: float | None = None
    """The weight of a dislike, as a multiple of that of silence."""
    confidence: float | None = None
    given_dislike_weight: float | None = None
    """The weight of a dislike where it was given, whatever that of silence is."""
    label_weighting: float | None = None

    @property
    def dislike_weight(self) -> float | None:
        """The weight of a dislike, where that of a like is 1."""
        if self.given_dislike_weight is not None:
            return self.given_dislike_weight
        if self.silence_weight is None or self.dislikes is None:
            return None
        return min(1.0, self.dislikes * self.silence_weight)

    def settings(self) -> dict[str, Any]:
        """What a candidate says of it."""
        return {
            # A problem with features has a weighting of its labels instead.
            "count_weighting": self.count_weighting if self.label_weighting is None else None,
            "silence_weight": self.silence_weight,
            "dislike_weight": self.dislike_weight,
            "confidence": self.confidence,
            "label_weighting": self.label_weighting,
        }


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
