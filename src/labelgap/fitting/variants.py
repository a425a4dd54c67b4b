"""Settings of a problem that are chosen together with its penalties, one change at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from labelgap.fitting.penalty_grid import PenaltyRequest
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem

LABEL_WEIGHTINGS = (0.0, 0.5, 1.0)
"""The powers of the number of positives that are compared."""
# The mean number of positives that a positive shares its label with, as a multiple of the mean over labels,
# from which on the labels differ enough for a weighting to change decisions.
_UNEVEN = 2.0


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


# -- penalties that grow with the number of a label's positives ------------------------------------------


def label_variants(
    problem: Problem, labels: ObservedLabels, weighting: float | str, request: PenaltyRequest
) -> Variants | None:
    """The label weightings to choose from; None where one is given or there is nothing to choose.

    A λ that is given refers to the trace norm as it is.
    """
    if weighting != "auto" or request.trace != "auto" or not differ_in_positives(labels):
        return None

    def variant(chosen: Variant) -> tuple[Problem, ObservedLabels]:
        features = replace(problem.settings.features, label_weighting=chosen.label_weighting or 0.0)
        return problem.with_settings(features=features), labels

    first = Variant(label_weighting=LABEL_WEIGHTINGS[0])
    return Variants(first, {"label_weighting": LABEL_WEIGHTINGS}, variant)


def first_weighting(weighting: float | str) -> float:
    """The weighting as given, or that which a search begins with."""
    return LABEL_WEIGHTINGS[0] if isinstance(weighting, str) else float(weighting)


def differ_in_positives(labels: ObservedLabels) -> bool:
    """Whether some labels have many more positives than others.

    Examples
    --------
    >>> even = ObservedLabels.from_dense([[1, 0], [0, 1], [1, 1]])
    >>> differ_in_positives(even)
    False
    """
    positives = labels.positive_counts().astype(np.float64)
    total = positives.sum()
    return bool(total > 0 and np.sum(positives**2) / total >= _UNEVEN * positives.mean())
