"""The penalties to compare for a problem, from the smallest λ at which W = 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from labelgap.fitting.cross_validation import largest_trace_penalty
from labelgap.fitting.penalty_grid import INTERCEPT_STRENGTHS, PenaltyGrid, PenaltyRequest, penalty_grid
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem

LargestPenalty: TypeAlias = Callable[[Problem, ObservedLabels], float]
"""The λ that a search begins with, for a problem and its labels."""


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
