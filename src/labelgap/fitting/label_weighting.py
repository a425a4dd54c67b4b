"""Penalties that grow with the number of a label's positives, chosen together with λ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labelgap.fitting.penalty_grid import PenaltyRequest
from labelgap.fitting.variants import Variant, Variants
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem

LABEL_WEIGHTINGS = (0.0, 0.5, 1.0)
"""The powers of the number of positives that are compared."""
# The mean number of positives that a positive shares its label with, as a multiple of the mean over labels,
# from which on the labels differ enough for a weighting to change decisions.
_UNEVEN = 2.0


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
