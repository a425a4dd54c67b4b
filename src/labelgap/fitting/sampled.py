"""Settings that a sample of the users chooses where there are many, and what of them holds for all users.

In fractions of λ_max the best λ falls slowly with the number of users, in generated data about with its
fourth root. So all users together compare λ alone, from half of the way to where that law puts it: a λ that
is too small fits noise, and fits of a high rank take long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap.fitting.choice import PenaltyChoice
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.judges import DecisionRule
from labelgap.fitting.penalty_grid import (
    LargestPenalty,
    PenaltyGrid,
    PenaltyRequest,
    Place,
    Variant,
    Variants,
    grid_for_observed,
)
from labelgap.fitting.run import FitRun
from labelgap.fitting.trace_search import loss_curvature
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.solvers.loop import Candidate

ENOUGH_RATINGS = 500_000
"""Ratings that choose the settings of decisions; users who have more than twice as many are sampled."""


class Found(NamedTuple):
    """What a sample of the users chose."""

    place: Place
    variant: Variant | None
    candidates: tuple[Candidate, ...]
    """Everything that was compared, in the units of all users."""


def sample_of_users(
    labels: ObservedLabels, enough: int, rng: np.random.RandomState
) -> NDArray[np.int64] | None:
    """Users drawn at random who together have enough ratings to choose settings; None for all of them."""
    if labels.n_observed <= 2 * enough:
        return None
    drawn = rng.permutation(labels.shape[0])
    needed = int(np.searchsorted(np.cumsum(labels.row_counts()[drawn]), enough)) + 1
    return np.sort(drawn[:needed])


def found_by(sampled: PenaltyChoice, grid: PenaltyGrid, times: float) -> Found | None:
    """What the choice of a sample means for ``times`` as many ratings; None where nothing was compared."""
    chosen = sampled.choose()
    if chosen is None:
        return None
    place, variant, candidates = chosen
    return Found(moved(place, grid, times**0.5), variant, candidates)


def moved(place: Place, grid: PenaltyGrid, times: float) -> Place:
    """Where the best λ is to be expected with so many times as many users; a step of the grid is √2."""
    steps = round(0.5 * float(np.log2(times)))
    return min(place[0] + steps, len(grid.traces) - 1), *place[1:]


@dataclass
class RatingsChoice:
    """Chooses penalties and settings for decisions from likes and dislikes, then fits to all of them."""

    variants_of: Callable[[NDArray[np.int64] | None], Variants]
    """The problems to choose from, of the users with these numbers or of all."""
    request: PenaltyRequest
    settings: SolverSettings
    run: FitRun
    largest: LargestPenalty
    intercept_strengths: Sequence[float]

    def fit(self, metric: LinearFractional, *, how: str) -> ChosenFit:
        """Choose, and fit to all ratings; ``how`` says where the threshold comes from."""
        variants = self.variants_of(None)
        grid = self._grid(variants)
        _, labels = variants.problem(variants.first)
        rng = check_random_state(self.run.random_state)
        sample = None if grid.is_single else sample_of_users(labels, ENOUGH_RATINGS, rng)
        if sample is None:
            return self._choice(variants, grid, metric, how, self.run).fit()
        few = self.variants_of(sample)
        run = replace(self.run, checkpoint=self.run.checkpoint.part("sample"), held_out=None, start=None)
        sampled = replace(self._choice(few, self._grid(few), metric, how, run), listed_in=grid)
        self.run.say(f"{len(sample)} of {labels.shape[0]} users choose")
        times = labels.n_observed / int(labels.row_counts()[sample].sum())
        found = found_by(sampled, grid, times)
        if found is None:
            return self._choice(variants, grid, metric, how, self.run).fit()
        variants = replace(variants, first=found.variant or variants.first, values={})
        choice = replace(
            self._choice(variants, grid, metric, how, self.run),
            variants=None if found.variant is None else variants,
            begin=found.place,
            curvature=loss_curvature(found.candidates, grid),
        )
        chosen = choice.fit()
        return replace(chosen, candidates=(*found.candidates, *chosen.candidates))

    def _grid(self, variants: Variants) -> PenaltyGrid:
        problem, labels = variants.problem(variants.first)
        return grid_for_observed(problem, labels, self.request, self.largest, self.intercept_strengths)

    def _choice(
        self, variants: Variants, grid: PenaltyGrid, metric: LinearFractional, how: str, run: FitRun
    ) -> PenaltyChoice:
        problem, labels = variants.problem(variants.first)
        rule = DecisionRule(metric)
        return PenaltyChoice(
            problem,
            labels,
            grid,
            rule.search_judge(problem.loss),
            self.settings,
            run,
            how=how,
            last_judge=rule.last_judge(problem.loss, None, run.held_out),
            rule=rule,
            variants=variants if any(len(values) > 1 for values in variants.values.values()) else None,
            start=run.start,
        )
