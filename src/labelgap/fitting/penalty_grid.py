"""What is compared: the grid of penalties that "auto" stands for, and variants of the problem.

Penalties are in units of the problem. A variant is a choice of other settings, such as a weighting of the
labels, which is made together with the penalties, one change at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors, Objective
from labelgap.solvers.certificate import Penalties, with_best_intercept
from labelgap.solvers.spectral import LowRankShift, leading_triplets

Place: TypeAlias = tuple[int, int, int]
"""The numbers of λ, λ₂ and κ in a grid."""
LargestPenalty: TypeAlias = Callable[[Problem, ObservedLabels], float]
"""The λ that a search begins with, for a problem and its labels."""

# The power of the number of entries with which the best λ falls.
_TRACE_POWER = 0.5
# λ falls from λ_max, where W = 0, by factors of √2.
_TRACE_COUNT, _TRACE_END = 27, 2.0**-13
# λ₂ in units of mean ‖x‖²/|Ω|: a strength s is scikit-learn's C = 1/s on rows scaled to unit length.
_RIDGE_STRENGTHS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_FIRST_RIDGE = 5
# Steps of λ and λ₂: first factors of 4 and 10, then 2 and about 3, then √2.
_STRIDES = ((4, 2), (2, 1), (1, 1))
# κ in units of 1/|Ω|: a strength s is a normal prior of variance 1/s on a label's log-odds.
INTERCEPT_STRENGTHS = (0.0, 1.0, 100.0)

COUNT_WEIGHTINGS = (0.0, 0.5, 0.75, 1.0)
"""How the penalty may grow with the number of ratings."""
LABEL_WEIGHTINGS = (0.0, 0.5, 1.0)
"""The powers of the number of positives that are compared."""
# The mean number of positives that a positive shares its label with, as a multiple of the mean over labels,
# from which on the labels differ enough for a weighting to change decisions.
_UNEVEN = 2.0


@dataclass(frozen=True)
class PenaltyRequest:
    """The penalties as the user gave them: a number each, or "auto"."""

    trace: float | str
    ridge: float | str
    intercept: float | str


@dataclass(frozen=True)
class PenaltyGrid:
    """The penalties that may be chosen, each in order of falling λ or rising λ₂ and κ."""

    traces: Sequence[float]
    ridges: Sequence[float] = (0.0,)
    intercepts: Sequence[float] = (0.0,)
    centre: float = 0.0
    first_ridge: int = 0
    """Where the search begins among the ridges."""
    strides: Sequence[tuple[int, int]] = ((1, 1),)
    """Steps of λ and of λ₂ that the search takes, coarse ones first; λ falls by the first at the start."""
    of_all: PenaltyGrid | None = None
    """For a sample of the rows: the grid of all rows, with the penalties that these stand for."""

    @property
    def is_single(self) -> bool:
        return len(self.traces) * len(self.ridges) * len(self.intercepts) == 1

    def at(self, place: Place) -> Penalties:
        trace, ridge, intercept = place
        return Penalties(
            float(self.traces[trace]),
            float(self.ridges[ridge]),
            float(self.intercepts[intercept]),
            self.centre,
        )

    def place_of(self, penalties: Penalties) -> Place:
        """Where :meth:`at` finds these penalties."""
        return (
            [float(value) for value in self.traces].index(penalties.trace),
            [float(value) for value in self.ridges].index(penalties.ridge),
            [float(value) for value in self.intercepts].index(penalties.intercept),
        )

    def for_sample(self, times: float) -> PenaltyGrid:
        """The penalties that mean the same for a sample, of which there are so many times as many entries.

        λ₂ and κ are counted in entries. What λ must keep out is the noise in the gradient, whose norm falls
        with the square root of the number of entries.
        """
        return replace(
            self,
            traces=[value * times**_TRACE_POWER for value in self.traces],
            ridges=[value * times for value in self.ridges],
            intercepts=[value * times for value in self.intercepts],
            of_all=self,
        )

    def holds(self, place: Place) -> bool:
        lengths = (len(self.traces), len(self.ridges), len(self.intercepts))
        return all(0 <= step < length for step, length in zip(place, lengths, strict=True))


def trace_for_all(trace: float, share: float) -> float:
    """λ for all entries, where this one was best for a fit to that share of them."""
    return float(trace * share**_TRACE_POWER)


def trace_penalty_grid(largest: float, count: int, smallest_fraction: float) -> Floats:
    """``count`` penalties from ``largest`` down to ``smallest_fraction`` of it, geometrically."""
    return np.geomspace(largest, largest * smallest_fraction, count)


def penalty_grid(
    request: PenaltyRequest,
    largest: Callable[[], float],
    n_labels: int,
    *,
    n_terms: int,
    square_length: float,
    centre: float,
    intercept_strengths: Sequence[float] = INTERCEPT_STRENGTHS,
) -> PenaltyGrid:
    """The penalties to compare: a list for each that is "auto", one value for each that is given.

    ``largest`` finds the λ that the path begins with, ``n_terms`` is the number of entries that the data term
    is the mean of, ``square_length`` the mean ‖x‖² of the rows, and ``centre`` the score that a penalty draws
    the intercepts to.
    """

    def given_or(value: float | str, automatic: Callable[[], list[float]]) -> list[float]:
        return automatic() if value == "auto" else [float(value)]

    def traces() -> list[float]:
        first = largest()
        # Nothing to learn from the features at all: any positive penalty gives W = 0.
        return list(trace_penalty_grid(first if first > 0 else 1.0, _TRACE_COUNT, _TRACE_END))

    def ridges() -> list[float]:
        unit = square_length / n_terms
        # Features that are all zero have no unit, and need none.
        return [s * unit for s in _RIDGE_STRENGTHS] if unit > 0 else [1.0]

    def intercepts() -> list[float]:
        # The centre is common to all labels: a single label has no use for it.
        if n_labels == 1:
            return [0.0]
        return [s / n_terms for s in intercept_strengths]

    ridge_values = given_or(request.ridge, ridges)
    return PenaltyGrid(
        given_or(request.trace, traces),
        ridge_values,
        given_or(request.intercept, intercepts),
        centre=centre,
        first_ridge=min(_FIRST_RIDGE, len(ridge_values) - 1),
        strides=_STRIDES,
    )


def largest_trace_penalty(objective: Objective) -> float:
    """``λ_max = σ₁(XᵀG(0))`` at the best intercept; at this λ and above it W = 0."""
    start = Factors.zero(objective.shape, objective.starting_intercept())
    point = with_best_intercept(objective, objective.at(start), Penalties(1.0))
    shift = LowRankShift(point.score_gradient(), start.left, start.right)
    return leading_triplets(shift, objective.shape, 1, objective.may_form).top


def largest_penalty_of(problem: Problem, labels: ObservedLabels) -> float:
    """The smallest λ at which W = 0."""
    return largest_trace_penalty(problem.objective(labels))


def grid_for(
    problem: Problem,
    labels: ObservedLabels,
    request: PenaltyRequest,
    *,
    n_terms: int,
    mean: float,
    largest: LargestPenalty,
    intercept_strengths: Sequence[float] = INTERCEPT_STRENGTHS,
) -> PenaltyGrid:
    """The penalties to compare for a problem.

    ``n_terms`` is the number of entries that the data term is the mean of, ``mean`` the mean of the labels.
    """
    return penalty_grid(
        request,
        lambda: largest(problem, labels),
        labels.shape[1],
        n_terms=n_terms,
        square_length=problem.mean_square_length,
        centre=float(problem.loss.link(mean)),
        intercept_strengths=intercept_strengths,
    )


def grid_for_observed(
    problem: Problem,
    labels: ObservedLabels,
    request: PenaltyRequest,
    largest: LargestPenalty = largest_penalty_of,
    intercept_strengths: Sequence[float] = INTERCEPT_STRENGTHS,
) -> PenaltyGrid:
    """The penalties to compare for a problem over observed entries."""
    mean = float(np.average(labels.values, weights=labels.weights))
    return grid_for(
        problem,
        labels,
        request,
        n_terms=labels.n_observed,
        mean=mean,
        largest=largest,
        intercept_strengths=intercept_strengths,
    )


# -- variants ------------------------------------------------------------------------------------------------


class Variant(NamedTuple):
    """One choice of these settings; None for one that the problem does not have."""

    count_weighting: float = 0.0
    label_weighting: float | None = None

    def settings(self) -> dict[str, Any]:
        """What a candidate says of it."""
        return {
            # A problem with features has a weighting of its labels instead.
            "count_weighting": self.count_weighting if self.label_weighting is None else None,
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
