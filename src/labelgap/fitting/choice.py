"""The choice of penalties on held-out entries, and the fit to all entries that follows it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.confidence.held_out import HeldOutScores
from labelgap.exceptions import ConvergenceWarning, LabelgapWarning
from labelgap.fitting.cross_validation import (
    CrossValidation,
    Judge,
    Scorer,
    SolverSettings,
    largest_trace_penalty,
    metric_judge,
    steady_judge,
)
from labelgap.fitting.run import FitRun
from labelgap.fitting.search import (
    INTERCEPT_STRENGTHS,
    PenaltyGrid,
    PenaltyRequest,
    leading,
    penalty_grid,
    select_penalties,
)
from labelgap.fitting.variants import Variant, Variants
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Fit, Penalties
from labelgap.solvers.bounded import Solver
from labelgap.solvers.loop import Candidate, Checkpoint, Stopped
from labelgap.thresholds.cross_fit import hold_out_plan
from labelgap.thresholds.one_class import OneClassEffect
from labelgap.thresholds.sweep import best_threshold

ThresholdOf: TypeAlias = Callable[[Floats, ObservedLabels], float]
"""From scores and their labels to a threshold."""
LargestPenalty: TypeAlias = Callable[[Problem, ObservedLabels], float]
"""The λ that a search begins with, for a problem and its labels."""

# Relative gaps of the fits that are compared on held-out entries, and of those that the threshold comes from:
# they need not be as exact as the last fit, and the more entries there are the less exact they need to be.
_FINE, _COARSE = (1e-2, 1e-2), (5e-2, 1e-2)
SELECTION_TOL = _FINE[0]
# Held-out entries, and labels of the rarer class among them, that tell good penalties from bad ones, and that
# give a threshold. Where some of the folds have that many, the others are not fitted.
_FOR_PENALTIES, _FOR_THRESHOLD = (20_000, 300), (40_000, 900)
# Steps of the last fit where the run is stopped before anything was fitted.
_HURRIED_STEPS = 12


@dataclass(frozen=True)
class FlipRates:
    """ρ, the fraction of positives that are not recorded, as a positive-unlabelled fit used it."""

    value: float | Floats
    """One number, or one per label, as given or estimated."""
    interval: tuple[float, float] | None
    """The 95 % interval of an estimate; None where ρ was given."""
    by_label: Floats
    """One per label, lowered where the recorded positives rule the value out."""


@dataclass(frozen=True)
class ChosenFit:
    """A fit to all entries, the penalties that were chosen for it, and how they were chosen."""

    fit: Fit
    penalties: Penalties
    threshold: float
    """The threshold for decisions; NaN where none are made."""
    candidates: tuple[Candidate, ...]
    """What was compared on held-out entries, the winner last."""
    held_out_metric: float | None
    """The metric of the winner; None where nothing was held out."""
    flip_rates: FlipRates | None = None
    """Set by a positive-unlabelled fit."""
    problem: Problem | None = None
    """The problem that was fitted."""
    labels: ObservedLabels | None = None
    """The labels as that problem weighs them."""
    variant: Variant | None = None
    """The settings of that problem that were chosen; None where there were none to choose."""


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


@dataclass(frozen=True)
class HeldOut:
    """Entries to hold out, and how a fit without them is scored on them."""

    plan: NDArray[np.int64]
    """For each entry the fold in which it is held out, or −1."""
    scorer: Scorer
    solver: Solver | None = None
    """The solver of the fits that are compared; None for that of the last fit."""


@dataclass
class PenaltyChoice:
    """Chooses penalties on held-out entries, then fits to all entries."""

    problem: Problem
    labels: ObservedLabels
    grid: PenaltyGrid
    judge: Judge
    settings: SolverSettings
    run: FitRun
    how: str = "train"
    """Which scores the threshold comes from: "cross-fit", "holdout" or "train". Training scores do not tell
    good penalties from bad ones, so penalties are compared on held-out entries even under "train"."""
    by_row: bool = False
    """Whether the entries of a row are held out together."""
    criterion: str = "metric"
    """What the penalties are chosen by, "metric" or "loss"."""
    last_judge: Judge | None = None
    """Judges the best penalties in place of ``judge``."""
    training_threshold: ThresholdOf | None = None
    """The threshold from training scores; None where no decisions are made."""
    variants: Variants | None = None
    """Settings of the problem to choose from; None where there are none. ``problem`` and ``labels`` are those
    of the first."""
    every_fold: bool = False
    """Whether the scores that choose the threshold are those of all folds, however many entries there are."""
    held_out: HeldOut | None = None
    """What is held out and how it is scored, where that is not for the metric over observed entries."""
    _variant: Variant | None = field(default=None, init=False)
    _candidates: list[Candidate] = field(default_factory=list, init=False)

    def fit(self) -> ChosenFit:
        """Choose, and fit to all entries."""
        run, grid, settings = self.run, self.grid, self.settings
        # Where nothing can be compared, penalties from the first third of the path have to do.
        guess = grid.at((len(grid.traces) // 3, grid.first_ridge, 0))
        best, start = self._choose()
        stopping = run.checkpoint.stopping
        if stopping() and (start is None or start.rank == 0):
            # Nothing that tells rows apart has been fitted yet: a few steps make a model of it.
            best, start = None, None
            run = replace(run, checkpoint=Checkpoint())
            settings = replace(settings, max_iter=_HURRIED_STEPS)
        elif not stopping():
            run.stage("fitting")
        penalties = guess if best is None else best.penalties
        fit = self._fit_to_all(penalties, settings, start, run)
        if not stopping():
            _warn_unless_converged(fit, settings)
        return ChosenFit(
            fit,
            penalties,
            self._threshold(best, fit),
            tuple(self._candidates),
            None if best is None else best.metric_value,
            problem=self.problem,
            labels=self.labels,
            variant=self._variant,
        )

    def _choose(self) -> tuple[Candidate | None, Factors | None]:
        """The best candidate, and factors to start the last fit from; None where there is none."""
        run = self.run
        self._variant = None if self.variants is None else self.variants.first
        how = "cross-fit" if self.how == "train" and not self.grid.is_single else self.how
        if self.held_out is not None:
            plan = self.held_out.plan
        else:
            plan = hold_out_plan(self.labels, how, check_random_state(run.random_state), by_row=self.by_row)
        if not (plan >= 0).any():
            if how != "train":
                self._warn_of_too_few_entries()
            return None, None
        self._folds = self._cross_validation("search", plan)
        best = None
        with contextlib.suppress(Stopped):
            best = self._select(plan)
        self._folds.close()
        if run.checkpoint.stopping() and self._folds.best_so_far is not None:
            return self._folds.best_so_far
        return best, self._folds.fit_of_fold(0)

    def fit_of_fold(self, fold: int) -> Factors | None:
        """The last fit without this fold; None where there is none."""
        return self._folds.fit_of_fold(fold)

    def _cross_validation(self, part: str, plan: NDArray[np.int64]) -> CrossValidation:
        run, held_out, settings = self.run, self.held_out, self.settings
        if held_out is not None and held_out.solver is not None:
            settings = replace(settings, solver=held_out.solver)
        checkpoint = run.checkpoint.part(part)
        return CrossValidation(
            self.problem,
            self.labels,
            plan,
            self.judge,
            settings,
            run.n_jobs,
            checkpoint,
            scorer=None if held_out is None else held_out.scorer,
        )

    def _select(self, plan: NDArray[np.int64]) -> Candidate:
        """The best penalties, judged over enough of the held-out entries."""
        folds = self._folds
        run, grid = self.run, self.grid
        enough = folds.n_folds if self.every_fold else _folds_with(self.labels, plan, *_FOR_THRESHOLD)
        if grid.is_single:
            run.stage("scoring held-out entries")
            return self._report(folds(grid.at((0, 0, 0)), n_folds=enough, judge=self.last_judge))
        run.stage("choosing penalties")
        few = _folds_with(self.labels, plan, *_FOR_PENALTIES)
        coarse = few < folds.n_folds
        if self.held_out is not None:
            # The plan holds out no more than is needed, and places in a ranking change little in fine steps.
            few, enough, coarse = folds.n_folds, folds.n_folds, True
        search_tol, last_tol = (max(self.settings.tol, tol) for tol in (_COARSE if coarse else _FINE))

        def compare(choices: Sequence[Penalties], tol: float = search_tol) -> list[Candidate]:
            found = folds.compare(choices, tol=tol, n_folds=few)
            return [self._report(candidate) for candidate in found]

        closely = partial(compare, tol=last_tol) if coarse else None
        best = select_penalties(compare, grid, criterion=self.criterion, closely=closely)
        if self.variants is not None:
            best = self._select_variant(best, plan, last_tol if coarse else search_tol, few)
        folds = self._folds
        with contextlib.suppress(Stopped):
            best = self._report(folds(best.penalties, tol=last_tol, n_folds=enough, judge=self.last_judge))
        return best

    def _select_variant(
        self, best: Candidate, plan: NDArray[np.int64], tol: float, n_folds: int
    ) -> Candidate:
        """The best variant at, or next to, the best penalties of the first one.

        Where it is stopped, it is the best so far.
        """
        assert self.variants is not None
        tried = {self.variants.first}
        waiting = list(self.variants.beside(self.variants.first))
        while waiting:
            variant = waiting.pop(0)
            if variant in tried:
                continue
            tried.add(variant)
            before = self.problem, self.labels, self._folds, self._variant
            self._folds.close()
            try:
                found = self._better_with(variant, best, plan, tol, n_folds)
            except Stopped:
                self.problem, self.labels, self._folds, self._variant = before
                break
            if found is None:
                self.problem, self.labels, self._folds, self._variant = before
            else:
                best, waiting = found, list(self.variants.beside(variant))
        return best

    def _better_with(
        self, variant: Variant, best: Candidate, plan: NDArray[np.int64], tol: float, n_folds: int
    ) -> Candidate | None:
        """Turn to another variant; its best candidate if one at the same penalties leads, or else None."""
        assert self.variants is not None
        self.problem, self.labels = self.variants.problem(variant)
        self._variant = variant
        named = ", ".join(
            f"{name} {value:g}" for name, value in variant.settings().items() if value is not None
        )
        self._folds = self._cross_validation(f"search with {named}", plan)

        def judged(choices: Sequence[Penalties]) -> list[Candidate]:
            return [self._report(c) for c in self._folds.compare(choices, tol=tol, n_folds=n_folds)]

        found = judged([best.penalties])
        if not leading([best, *found], self.criterion):
            return None
        # Another variant may want a little more or less of the penalty.
        if beside := self._penalties_beside(best.penalties):
            found += judged(beside)
        return found[leading(found, self.criterion)]

    def _penalties_beside(self, penalties: Penalties) -> list[Penalties]:
        traces = list(self.grid.traces)
        place = traces.index(penalties.trace)
        step = self.grid.strides[min(1, len(self.grid.strides) - 1)][0]
        near = (place - step, place + step)
        return [replace(penalties, trace=float(traces[p])) for p in near if 0 <= p < len(traces)]

    def _report(self, candidate: Candidate) -> Candidate:
        if self._variant is not None:
            candidate = replace(candidate, **self._variant.settings())
        self._candidates.append(candidate)
        self.run.candidate(candidate)
        return candidate

    def _warn_of_too_few_entries(self) -> None:
        without = ["the threshold comes from training scores"] if self.criterion == "metric" else []
        without += [] if self.grid.is_single else ["the penalties are a guess"]
        if without:
            warn(
                f"Only {self.labels.n_observed} labels are observed, too few to hold any out: "
                f"{' and '.join(without)}.",
                LabelgapWarning,
            )

    def _fit_to_all(
        self, penalties: Penalties, settings: SolverSettings, start: Factors | None, run: FitRun
    ) -> Fit:
        run.say(f"fitting with trace_penalty={penalties.trace:.3g}, ridge_penalty={penalties.ridge:.3g}")
        objective = self.problem.objective(self.labels, free_intercept=penalties.intercept == 0)
        # A fit that is to stop at once keeps the intercepts that belong to the threshold.
        if start is not None and penalties.intercept == 0 and not run.checkpoint.stopping():
            # The free intercept of a one-class label follows from all of its entries.
            start = start._replace(intercept=objective.starting_intercept())
        return settings.fit(
            objective,
            penalties,
            warm_start=start,
            callback=run.reporter(),
            checkpoint=run.checkpoint.part("fit"),
        )

    def _threshold(self, best: Candidate | None, fit: Fit) -> float:
        if self.training_threshold is None:
            return float("nan")
        if best is None or self.how == "train":
            return self.training_threshold(self.problem.scores(fit.factors, self.labels), self.labels)
        return best.threshold


def choice_for_decisions(
    problem: Problem,
    labels: ObservedLabels,
    grid: PenaltyGrid,
    metric: LinearFractional,
    settings: SolverSettings,
    run: FitRun,
    *,
    how: str,
    by_row: bool = False,
    variants: Variants | None = None,
    effect: OneClassEffect | None = None,
    held_out: HeldOutScores | None = None,
    every_fold: bool = False,
) -> PenaltyChoice:
    """The choice of penalties and of a threshold for a metric over observed entries.

    ``effect`` sees the held-out scores that choose the threshold, and ``held_out`` keeps them.
    """
    return PenaltyChoice(
        problem,
        labels,
        grid,
        metric_judge(metric, problem.loss),
        settings,
        run,
        how=how,
        by_row=by_row,
        last_judge=steady_judge(metric, problem.loss, effect, held_out),
        training_threshold=lambda scores, seen: best_threshold(scores, seen, metric).threshold,
        variants=variants,
        every_fold=every_fold,
    )


def _folds_with(labels: ObservedLabels, plan: NDArray[np.int64], n_entries: int, n_rare: int) -> int:
    """How many folds together hold out so many entries, and so many of the rarer class."""
    n_folds = int(plan.max()) + 1
    values = labels.values
    rarer = min(int(np.sum(values == values.min())), int(np.sum(values != values.min())))
    for few in range(1, n_folds):
        fraction = few / n_folds
        if fraction * labels.n_observed >= n_entries and fraction * rarer >= n_rare:
            return few
    return n_folds


def _warn_unless_converged(fit: Fit, settings: SolverSettings) -> None:
    if not fit.converged:
        warn(
            f"The solver stopped after {fit.n_iter} iterations at a relative duality gap of "
            f"{fit.relative_gap:.3e} (asked for: {settings.tol:.1e}). "
            + (
                "Raise max_iter or tol, or scale the features to similar lengths."
                if fit.n_iter >= settings.max_iter
                else "It found no further progress; raise tol, or scale the features to similar lengths."
            ),
            ConvergenceWarning,
        )
