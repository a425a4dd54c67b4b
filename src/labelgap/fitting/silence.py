"""The choice of penalties where a pair without a rating counts as a weak no, for lists of items to show.

Penalties, and how much silence weighs, are compared by where held-out likes stand in the ranking of all items
that a user has not rated (NDCG). Where there are many ratings, a sample of the users chooses, and all users
together, or a larger sample of them, only λ once more (:mod:`labelgap.fitting.sampled`). Decisions take their
threshold from held-out ratings and a sample of the other pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._memory import give_back_freed
from labelgap._types import Floats
from labelgap.fitting.choice import HeldOut, PenaltyChoice
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.cross_validation import Scorer, SolverSettings
from labelgap.fitting.judges import Judge, Verdict
from labelgap.fitting.penalty_grid import (
    LargestPenalty,
    PenaltyGrid,
    PenaltyRequest,
    Variants,
    grid_for,
    largest_penalty_of,
)
from labelgap.fitting.run import FitRun
from labelgap.fitting.sampled import Found, found_by, moved, sample_of_users
from labelgap.labels import ObservedLabels
from labelgap.labels.unobserved import draw_unobserved
from labelgap.metrics import LinearFractional
from labelgap.metrics.jackknife import N_PARTS
from labelgap.metrics.top_n import ndcg_by_user
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.recommending.ranks import ranks_alone, ranks_of_held_out
from labelgap.solvers.alternating import solve_alternating
from labelgap.solvers.sweeping import solve_auto
from labelgap.thresholds.cross_fit import N_FOLDS, NEVER, HeldOutScores, spread_folds
from labelgap.thresholds.sweep import best_threshold

SHOWN = 10
"""The length of the lists that penalties are compared by."""
MOST_FACTORS = 64
"""The number of factors, at most, where none is given."""
ENOUGH_RATINGS = 150_000
"""Ratings that choose the settings; users who have more than twice as many together are sampled."""
MANY_RATINGS = 2_000_000
"""Ratings that choose λ once more; users who have more than twice as many together are sampled."""
# Held-out likes that tell good penalties from bad ones; further folds are not fitted.
_ENOUGH_LIKES = 4_000
# Pairs of users and items that are ranked for one candidate, about: users beyond that are not looked at.
_MOST_RANKED = 1 << 27
_FEWEST_USERS = 500
# The strength with which intercepts are held to that of silence, for each user.
_HELD = 100.0
# Pairs without a rating that the threshold is chosen on, at most.
_MOST_SILENT = 500_000


@dataclass
class SilenceChoice:
    """Chooses penalties and the weight of silence by held-out rankings, then fits to all ratings."""

    variants_of: Callable[[NDArray[np.int64] | None], Variants]
    """The problems to choose from, of the users with these numbers or of all."""
    request: PenaltyRequest
    settings: SolverSettings
    run: FitRun
    largest: LargestPenalty = largest_penalty_of

    def __post_init__(self) -> None:
        # Sweeps at a fixed rank: a few of them close the gap, and small directions count in rankings.
        sweeps = partial(solve_alternating, random_state=0)
        self.settings = replace(self.settings, compare_with=sweeps)
        if self.settings.solver is solve_auto:
            self.settings = replace(self.settings, solver=sweeps)

    def fit(self, metric: LinearFractional, *, how: str) -> ChosenFit:
        """Choose, and fit to all ratings; ``how`` says where the threshold comes from.

        The candidates' metric is the NDCG of lists of ten items; ``held_out_metric`` is the given one.
        """
        variants = self.variants_of(None)
        _, labels = variants.problem(variants.first)
        rng = check_random_state(self.run.random_state)
        grid = self._grid(variants)
        few = None if grid.is_single else sample_of_users(labels, ENOUGH_RATINGS, rng)
        found = None
        if few is not None:
            sampled = self._choice(self.variants_of(few), how, rng, listed_in=grid, part="sample")
            found = found_by(sampled, grid, _times(labels, few))
        many = None if few is None or found is None else sample_of_users(labels, MANY_RATINGS, rng)
        if few is not None and found is not None and many is not None:
            nearer = moved(found.sampled_place, grid, _times(labels, few) / _times(labels, many))
            return self._fit_as_many_say(variants, grid, found._replace(place=nearer), many, metric, how, rng)
        choice = self._choice(variants, how, rng, grid=grid, found=found)
        chosen = choice.fit()
        if found is not None:
            chosen = replace(chosen, candidates=(*found.candidates, *chosen.candidates))
        if self.run.keeps_threshold:
            return chosen
        return self._threshold_of_folds(choice, metric, how, rng).kept_in(chosen, metric, rng)

    def _fit_as_many_say(
        self,
        variants: Variants,
        grid: PenaltyGrid,
        found: Found,
        users: NDArray[np.int64],
        metric: LinearFractional,
        how: str,
        rng: np.random.RandomState,
    ) -> ChosenFit:
        """Choose λ near what was ``found`` and the threshold by these users, then fit to all once."""
        _, labels = variants.problem(variants.first)
        times = _times(labels, users)
        choice = self._choice(
            self.variants_of(users), how, rng, found=found, listed_in=grid, part="larger sample"
        )
        nearest = found_by(choice, grid, times)
        if nearest is None:
            nearest = found._replace(place=moved(found.place, grid, times), candidates=())
        threshold = self._threshold_of_folds(choice, metric, how, rng, of_sample=True)
        penalties = grid.at(nearest.place)
        if choice.held_out is not None and (choice.held_out.plan >= 0).any():
            penalties = choice.for_all_entries(penalties)
        # The fits of the sample are not kept beside the last one.
        del choice
        give_back_freed()
        single = PenaltyGrid(
            [penalties.trace], [penalties.ridge], [penalties.intercept], centre=penalties.centre
        )
        last = self._choice(variants, "train", rng, grid=single, found=found, holds_out=False)
        chosen = last.fit()
        chosen = replace(chosen, candidates=(*found.candidates, *nearest.candidates))
        return chosen if self.run.keeps_threshold else threshold.kept_in(chosen, metric, rng)

    def _grid(self, variants: Variants) -> PenaltyGrid:
        problem, labels = variants.problem(variants.first)
        # The intercepts of all items are held to that of silence, or free: which of the two ranks better.
        return grid_for(
            problem,
            labels,
            self.request,
            n_terms=labels.n_observed,
            mean=0.0,
            largest=self.largest,
            intercept_strengths=(_HELD * labels.shape[0], 0.0),
        )

    def _choice(
        self,
        variants: Variants,
        how: str,
        rng: np.random.RandomState,
        *,
        grid: PenaltyGrid | None = None,
        listed_in: PenaltyGrid | None = None,
        found: Found | None = None,
        part: str | None = None,
        holds_out: bool = True,
    ) -> PenaltyChoice:
        """The choice for these users: among everything, or near what a sample of them ``found``.

        ``part`` is the part of the checkpoint for a sample, and ``holds_out`` whether anything is compared.
        """
        begin, run = None, self.run
        if found is not None:
            begin = found.place if holds_out else None
            variants = replace(variants, first=found.variant or variants.first, values={})
        if part is not None:
            run = replace(run, checkpoint=run.checkpoint.part(part))
        problem, labels = variants.problem(variants.first)
        nothing = run.goes_on or not holds_out
        plan = no_plan(labels) if nothing else ranking_plan(labels, how, rng, problem.device)
        return PenaltyChoice(
            problem,
            labels,
            self._grid(variants) if grid is None else grid,
            _watched(ranking_judge(SHOWN, plan[plan >= 0]), run.held_out, plan[plan >= 0]),
            self.settings,
            run,
            how=how,
            variants=variants,
            held_out=HeldOut(plan, ranks_scorer(labels, plan)),
            begin=begin,
            listed_in=listed_in,
            start=run.start,
        )

    def _threshold_of_folds(
        self,
        choice: PenaltyChoice,
        metric: LinearFractional,
        how: str,
        rng: np.random.RandomState,
        *,
        of_sample: bool = False,
    ) -> ListThreshold:
        """The best threshold for held-out ratings and for pairs without one, where folds have fits."""
        assert choice.held_out is not None
        plan = choice.held_out.plan
        n_folds = int(plan.max(initial=NEVER)) + 1
        if how == "train" or not n_folds:
            return ListThreshold(None)
        fits = {fold: choice.fit_of_fold(fold) for fold in range(n_folds)}
        held = {fold: factors for fold, factors in fits.items() if factors is not None}
        if len(held) < n_folds:
            # The search was stopped before all folds had a fit.
            return ListThreshold(None)
        labels = choice.labels
        silent = silent_pairs(labels, rng)
        scores, judged = _scored(choice.problem, labels, held, plan, silent)
        best = best_threshold(scores, judged, metric)
        if not of_sample:
            return ListThreshold(best.threshold, best.value)
        without_rating = choice.problem.scores(held[0], replace(silent, weights=None))
        return ListThreshold(None, best.value, float(np.mean(without_rating >= best.threshold)))


class ListThreshold(NamedTuple):
    """The threshold of decisions from a fit for lists; None where it is to come from the last fit."""

    threshold: float | None
    held_out_metric: float | None = None
    rate: float | None = None
    """The fraction of the pairs without a rating that are a yes; None where it is not known. The scores of a
    sample of the users are closer together than those of all, so it is this rate that they choose."""

    def kept_in(self, chosen: ChosenFit, metric: LinearFractional, rng: np.random.RandomState) -> ChosenFit:
        """The fit with its threshold."""
        threshold = self.threshold
        if threshold is None:
            assert chosen.problem is not None
            assert chosen.labels is not None
            silent = silent_pairs(chosen.labels, rng)
            threshold = self._of_last_fit(chosen.problem, chosen.labels, chosen.fit.factors, silent, metric)
        # The candidates were judged by their lists: without folds no held-out value of the metric is known.
        return replace(chosen, threshold=threshold, held_out_metric=self.held_out_metric, held_out_error=None)

    def _of_last_fit(
        self,
        problem: Problem,
        labels: ObservedLabels,
        factors: Factors,
        silent: ObservedLabels,
        metric: LinearFractional,
    ) -> float:
        if self.rate is not None and silent.n_observed:
            scores = np.sort(problem.scores(factors, replace(silent, weights=None)))
            return float(scores[-max(1, round(self.rate * len(scores)))])
        scores, judged = _scored(problem, labels, {NEVER: factors}, None, silent)
        return best_threshold(scores, judged, metric).threshold


def _times(labels: ObservedLabels, users: NDArray[np.int64]) -> float:
    """How many times as many ratings there are as these users have."""
    return labels.n_observed / int(labels.row_counts()[users].sum())


def ranks_scorer(labels: ObservedLabels, plan: NDArray[np.int64]) -> Scorer:
    """The rank of each held-out entry among the items that its user has not rated in training."""

    def ranks(problem: Problem, factors: Factors, held: ObservedLabels, fold: int) -> Floats:
        P, Q = problem.left(factors.left), problem.right(factors.right)
        # Those of other users than the held-out entries' are of no use.
        busy = np.repeat(held.row_counts() > 0, labels.row_counts())
        train = labels.select((plan != fold) & busy)
        return ranks_of_held_out(P, Q, factors.intercept, train, held).astype(np.float64)

    return ranks


def ranking_judge(n: int, folds: NDArray[np.int64]) -> Judge:
    """NDCG of lists of n items, the mean over users with a held-out like, in each fold.

    ``folds`` has the fold of each held-out entry. The loss is what the mean of ``1/log₂(1 + rank)`` over all
    held-out likes lacks of 1, to which every like contributes, however far down it is.
    """

    def judge(places: Floats, held: ObservedLabels) -> Verdict:
        liked = held.values == 1
        place = places[liked]
        if not len(place):
            return Verdict(0.0, float("nan"), 1.0)
        user = np.unique(held.rows[liked] * N_FOLDS + folds[liked], return_inverse=True)[1]
        ndcg, gains = ndcg_by_user(place, user, n), 1.0 / np.log2(1.0 + place)
        return Verdict(float(ndcg.mean()), float("nan"), 1.0 - float(gains.mean()), _leave_out_means(ndcg))

    return judge


def _watched(judge: Judge, held_out: HeldOutScores | None, folds: NDArray[np.int64]) -> Judge:
    """The same judge, which lets the ranks be seen that each held-out like has on its own."""
    if held_out is None:
        return judge

    def watching(places: Floats, held: ObservedLabels) -> Verdict:
        liked = (held.values == 1) & (places > 0)
        groups = held.rows[liked] * N_FOLDS + folds[liked]
        alone = ranks_alone(places[liked].astype(np.int64), groups)
        held_out.see(alone.astype(np.float64), replace(held.select(liked), weights=None))
        return judge(places, held)

    return watching


def _leave_out_means(values: Floats) -> Floats | None:
    """The mean without one part of the values at a time; None where there are fewer than two parts."""
    n_parts = min(N_PARTS, len(values))
    if n_parts < 2:
        return None
    part = np.random.RandomState(0).permutation(len(values)) % n_parts
    sums, counts = np.bincount(part, weights=values), np.bincount(part)
    return np.asarray((values.sum() - sums) / (len(values) - counts))


def ranking_plan(
    labels: ObservedLabels, how: str, rng: np.random.RandomState, device: Any = None
) -> NDArray[Any]:
    """For each rating the fold in which it is held out, or −1; as few folds, and users, as tell enough.

    ``device`` is that of the fit, if it has one.
    """
    if min(N_FOLDS, labels.n_observed // 2) < 2:
        return no_plan(labels)
    # Fold numbers are small, and there is one for each rating.
    folds = spread_folds(labels, N_FOLDS, rng, device).astype(np.int8)
    n, n_items = labels.shape
    most = max(_FEWEST_USERS, _MOST_RANKED // max(n_items, 1))
    judged = np.ones(n, dtype=np.bool_)
    if most < n:
        judged[rng.permutation(n)[most:]] = False
    judged = np.repeat(judged, labels.row_counts())
    likes = int(np.sum((labels.values == 1) & judged))
    needed = 1 if how == "holdout" else int(np.clip(-(-N_FOLDS * _ENOUGH_LIKES // max(likes, 1)), 1, N_FOLDS))
    return np.where((folds < needed) & judged, folds, np.int8(NEVER))


def no_plan(labels: ObservedLabels) -> NDArray[Any]:
    """A plan that holds nothing out."""
    return np.full(labels.n_observed, NEVER, dtype=np.int8)


def silent_pairs(labels: ObservedLabels, rng: np.random.RandomState) -> ObservedLabels:
    """Pairs without a rating, all of them or a random sample, each weighted with how many it stands for."""
    n_items = labels.shape[1]
    drawn, weight = draw_unobserved(labels, _MOST_SILENT, rng)
    rows, columns = np.divmod(drawn, n_items)
    found = ObservedLabels.from_triplets(
        rows, columns, np.zeros(len(drawn), dtype=np.int8), shape=labels.shape
    )
    return found.with_weights(np.full(len(drawn), weight)) if len(drawn) else found


def _scored(
    problem: Problem,
    labels: ObservedLabels,
    fits: dict[int, Factors],
    plan: NDArray[np.int64] | None,
    silent: ObservedLabels,
) -> tuple[Floats, ObservedLabels]:
    """Scores of held-out ratings and of pairs without one, and what they are.

    A held-out rating stands for as many as were not held out; without a plan all ratings are scored.
    """
    plan = np.full(labels.n_observed, NEVER) if plan is None else plan
    scores, entries = [], []
    n_held = 0
    for fold, factors in fits.items():
        held = replace(labels.select(plan == fold), weights=None, row_names=None, label_names=None)
        scores.append(problem.scores(factors, held))
        entries.append((held.rows, held.cols, held.values, np.ones(held.n_observed)))
        n_held += held.n_observed
    stands_for = labels.n_observed / max(n_held, 1)
    first = next(iter(fits.values()))
    weights = np.ones(silent.n_observed) if silent.weights is None else silent.weights
    scores.append(problem.scores(first, replace(silent, weights=None)))
    entries.append((silent.rows, silent.cols, silent.values, weights / stands_for))
    rows, columns, values, weights = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    order = np.lexsort((columns, rows))
    judged = ObservedLabels.from_triplets(rows[order], columns[order], values[order], shape=labels.shape)
    return np.concatenate(scores)[order], judged.with_weights(weights[order])
