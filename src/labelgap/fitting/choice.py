"""The choice of penalties on held-out entries, and the fit to all entries that follows it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._arrays import to_host
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import LabelgapWarning
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.close_look import (
    MOST_TOGETHER,
    look_with_folds_together,
    may_hold_out_together,
)
from labelgap.fitting.cross_validation import CrossValidation, Scorer, SolverSettings, plain_scores
from labelgap.fitting.judges import DecisionRule, Judge
from labelgap.fitting.penalty_grid import PenaltyGrid, Place, Variant, Variants, trace_for_all
from labelgap.fitting.row_sample import RowSample, SampleValidation, look_at_sample, sample_for
from labelgap.fitting.run import FitRun
from labelgap.fitting.search import select_penalties, select_trace
from labelgap.fitting.trace_search import confirm_trace, weaken
from labelgap.fitting.variant_choice import select_variant
from labelgap.kernels.threads import thread_count
from labelgap.labels import ObservedLabels
from labelgap.metrics.jackknife import metric_error
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Fit, Penalties
from labelgap.solvers.loop import Candidate, Checkpoint, Stopped
from labelgap.solvers.placing import in_place
from labelgap.thresholds.cross_fit import NEVER, hold_out_plan

ThresholdOf: TypeAlias = Callable[[Floats, ObservedLabels], float]
"""From scores and their labels to a threshold."""
Challenge: TypeAlias = Callable[["PenaltyChoice", Candidate, float, int], Candidate]
"""From a choice, its best candidate, the gap to compare at and the number of folds, to the best with other
features too; the choice is then left standing at it."""

StartOf: TypeAlias = Callable[[Problem, ObservedLabels, Floats], Factors | None]
"""From a problem, its labels and the intercepts to start with, to the factors to start from."""

# Relative gaps of the fits that are compared on held-out entries, and of those that the threshold comes from:
# they need not be as exact as the last fit, and the more entries there are the less exact they need to be.
_FINE, _COARSE = (1e-2, 1e-2), (5e-2, 1e-2)
# The same for a sample of the rows, near the best penalties of a coarse search or of a sample, and for a
# first look at penalties that are weaker than those of a sample.
_IN_SAMPLE, _NEAR, _FIRST_LOOK = 5e-2, 2e-2, 0.2
SELECTION_TOL = _FINE[0]
# Held-out entries, and labels of the rarer class among them, that tell good penalties from bad ones, and that
# give a threshold. Where some of the folds have that many, the others are not fitted.
_FOR_PENALTIES, _FOR_THRESHOLD = (20_000, 300), (40_000, 900)
# Values of λ on the way down that are compared side by side where rankings are judged: fits of one fold leave
# threads idle, and the rank is bounded, so that a smaller λ costs no more than a larger one. So are as many
# variants, up to this number of entries.
_RANKINGS_TOGETHER, _FEW_RANKED = 2, 1 << 20
# Steps of the last fit where the run is stopped before anything was fitted.
_HURRIED_STEPS = 12


@dataclass(frozen=True)
class HeldOut:
    """Entries to hold out, and how a fit without them is scored on them."""

    plan: NDArray[np.int64]
    """For each entry the fold in which it is held out, or −1."""
    scorer: Scorer


class Standing(NamedTuple):
    """What a search is about: a problem with its labels, grid and folds, and what was chosen for it."""

    problem: Problem
    labels: ObservedLabels
    grid: PenaltyGrid
    folds: CrossValidation
    variant: Variant | None
    feature_map: str | None
    """The features in words; None where they are X itself."""


@dataclass
class PenaltyChoice:
    """Chooses penalties on held-out entries, then fits to all entries."""

    samples_rows: ClassVar[bool] = True
    """Whether a sample of the rows may choose; tests and benchmarks ask what all rows would have chosen."""
    samples_folds: ClassVar[bool] = True
    """Whether some of the folds may choose, in coarse steps; they ask for all folds and fine steps too."""
    holds_out_together: ClassVar[bool] = True
    """Whether folds may be held out as one."""

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
    groups: NDArray[np.int64] | None = None
    """The number of each row's group, whose rows are held out together; None where there are none."""
    criterion: str = "metric"
    """What the penalties are chosen by, "metric" or "loss"."""
    last_judge: Judge | None = None
    """Judges the best penalties in place of ``judge``."""
    training_threshold: ThresholdOf | None = None
    """The threshold from training scores; None where no decisions are made."""
    rule: DecisionRule | None = None
    """How thresholds are chosen from training scores, in place of ``training_threshold``."""
    variants: Variants | None = None
    """Settings of the problem to choose from; None where there are none. ``problem`` and ``labels`` are those
    of the first."""
    every_fold: bool = False
    """Whether the scores that choose the threshold are those of all folds, however many entries there are."""
    held_out: HeldOut | None = None
    """What is held out and how it is scored, where that is not for the metric over observed entries."""
    begin: Place | None = None
    """Where a sample of the rows found the best penalties. Then only λ is compared, and only near there."""
    curvature: float | None = None
    """The second difference of the held-out loss in λ that the sample found; None where it is not known."""
    listed_in: PenaltyGrid | None = None
    """The grid of all rows, in whose units candidates are listed where these are a sample of them."""
    challenge: Challenge | None = None
    """Compares the best candidate with those of other features; None where there are no others."""
    feature_map: str | None = None
    """The features in words; None where they are X itself."""
    start: StartOf | None = None
    """Where the last fit starts, once each row and label is at its own minimum; None, or where it gives None:
    at the fit of a fold, or at W = 0. Folds never start there: it may have seen what they hold out."""
    looks_closely: bool = field(default=False, init=False)
    """Whether choices are compared by fits within a few directions, where those are few."""
    _variant: Variant | None = field(default=None, init=False)
    _sample: RowSample | None = field(default=None, init=False)
    _n_together: int = field(default=1, init=False)
    _of_fewer: tuple[Candidate, Factors] | None = field(default=None, init=False)
    """What fits to fewer entries have chosen, and its fit, for a search that is cut short."""
    _candidates: list[Candidate] = field(default_factory=list, init=False)

    def fit(self) -> ChosenFit:
        """Choose, and fit to all entries."""
        run, grid, settings = self.run, self.grid, self.settings
        # Where nothing can be compared, penalties from the first third of the path have to do.
        guess = grid.at(self.begin or (len(grid.traces) // 3, grid.first_ridge, 0))
        best, start = self._choose()
        stopping = run.checkpoint.stopping
        if stopping() and (start is None or start.rank == 0):
            # Nothing that tells rows apart has been fitted yet: a few steps make a model of it.
            best, start = None, None
            run = replace(run, checkpoint=Checkpoint())
            settings = replace(settings, max_iter=_HURRIED_STEPS)
        elif not stopping():
            run.stage("fitting")
        # A run that is stopped ends with the fit of a fold.
        penalties = guess if best is None else best.penalties
        if best is not None and not stopping():
            penalties = self.for_all_entries(penalties)
        fit = self._fit_to_all(penalties, settings, start, run)
        if not stopping():
            settings.warn_unless_converged(fit)
        chosen = ChosenFit(
            fit,
            penalties,
            float("nan"),
            tuple(self._candidates),
            None if best is None else best.metric_value,
            None if best is None else metric_error(best.leave_out),
            problem=self.problem,
            labels=self.labels,
            variant=self._variant,
        )
        return self._with_thresholds(chosen, best)

    def for_all_entries(self, penalties: Penalties) -> Penalties:
        """The penalties of the last fit, which has more entries than a fold and so wants a smaller λ.

        A λ that is given stays as it is. So do those for recorded positives: every entry counts there, in a
        fold as in the last fit.
        """
        if len(self.grid.traces) == 1 or self.problem.settings.flip_rate is not None:
            return penalties
        return replace(penalties, trace=trace_for_all(penalties.trace, self.share_of_fold()))

    def share_of_fold(self) -> float:
        """The share of the entries that a fold is fitted to."""
        return 1.0 - int((self.plan == 0).sum()) / self.labels.n_observed

    def choose(self) -> tuple[Place, Variant | None, tuple[Candidate, ...]] | None:
        """The best penalties and variant without a fit to all entries, and what was compared.

        None where nothing could be compared.
        """
        best, _ = self._choose()
        if best is None:
            return None
        return self.grid.place_of(best.penalties), self._variant, tuple(self._candidates)

    def _choose(self) -> tuple[Candidate | None, Factors | None]:
        """The best candidate, and factors to start the last fit from; None where there is none."""
        run = self.run
        self._variant = None if self.variants is None else self.variants.first
        how = "cross-fit" if self.how == "train" and not self.grid.is_single else self.how
        plan = self._plan(how)
        if plan is None:
            if how != "train":
                self._warn_of_too_few_entries()
            return None, None
        self.plan = plan
        self._folds = self.cross_validation("search", plan)
        best = None
        with contextlib.suppress(Stopped):
            best = self._select(plan)
        self._folds.close()
        so_far = self._folds.best_so_far or self._of_fewer
        if run.checkpoint.stopping() and so_far is not None:
            return so_far
        return best, self._folds.fit_of_fold(0)

    def _plan(self, how: str) -> Any:
        """For each entry the fold in which it is held out, or −1; None where nothing is held out."""
        if self.held_out is not None:
            plan = self.held_out.plan
        else:
            random_state = check_random_state(self.run.random_state)
            device = self.problem.device
            plan = hold_out_plan(
                self.labels, how, random_state, by_row=self.by_row, groups=self.groups, device=device
            )
        return plan if (plan >= 0).any() else None

    def fit_of_fold(self, fold: int) -> Factors | None:
        """The last fit without this fold; None where there is none."""
        return self._folds.fit_of_fold(fold)

    @property
    def standing(self) -> Standing:
        """What the search is about now."""
        return Standing(self.problem, self.labels, self.grid, self._folds, self._variant, self.feature_map)

    def stand_at(self, standing: Standing) -> None:
        """Let the rest of the search, and the last fit, be about this."""
        (self.problem, self.labels, self.grid, self._folds, self._variant, self.feature_map) = standing

    def compare_at(
        self,
        standing: Standing,
        choices: Sequence[Penalties],
        tol: float,
        n_folds: int,
        start: CrossValidation | None = None,
    ) -> list[Candidate]:
        """Judge penalties for another problem, this once from the fits of ``start``, and report them."""
        self.stand_at(standing)
        found = standing.folds.compare(choices, tol=tol, n_folds=n_folds, start=start)
        return self.report_at(standing, found)

    def report_at(self, standing: Standing, found: Sequence[Candidate]) -> list[Candidate]:
        """Report candidates that were judged for another problem, which the search is about from now on."""
        self.stand_at(standing)
        return [self._report(candidate) for candidate in found]

    def cross_validation(self, part: str, plan: NDArray[np.int64]) -> CrossValidation:
        """Folds over the present problem, or a sample of its rows; progress is kept under that name."""
        run, held_out = self.run, self.held_out
        how = self.judge, self.settings, run.n_jobs
        if self._sample is not None:
            checkpoint = run.checkpoint.part(f"sample {part}")
            seen = self.labels.select(plan != 0)
            return SampleValidation(self.problem, self.labels, seen, self._sample, *how, checkpoint)
        scorer = None if held_out is None else held_out.scorer
        checkpoint = run.checkpoint.part(part)
        return CrossValidation(self.problem, self.labels, plan, *how, checkpoint, scorer)

    def grid_here(self, grid: PenaltyGrid) -> PenaltyGrid:
        """The grid of a problem as the search uses it now: for all rows, or for a sample of them."""
        return grid if self._sample is None else grid.for_sample(self._sample.times)

    @property
    def looks_at_sample(self) -> bool:
        """Whether a sample of the rows is being looked at now."""
        return self._sample is not None

    def _select(self, plan: Any) -> Candidate:
        """The best penalties, judged over enough of the held-out entries."""
        folds = self._folds
        run, grid = self.run, self.grid
        # A plan of its own holds out no more than is needed.
        every = self.every_fold or self.held_out is not None
        enough = folds.n_folds if every else self._folds_with(plan, *_FOR_THRESHOLD)
        if grid.is_single:
            run.stage("scoring held-out entries")
            return self._report(folds(grid.at((0, 0, 0)), n_folds=enough, judge=self.last_judge))
        run.stage("choosing penalties")
        few = self._folds_with(plan, *_FOR_PENALTIES) if self.samples_folds else folds.n_folds
        coarse = few < folds.n_folds
        if self.held_out is not None:
            # Places in a ranking change little in fine steps.
            few, coarse = folds.n_folds, True
        search_tol, last_tol = (max(self.settings.tol, tol) for tol in (_COARSE if coarse else _FINE))

        def compare(choices: Sequence[Penalties], tol: float = search_tol) -> list[Candidate]:
            return self.compare_at(self.standing, choices, tol, few)

        # Where rows have parameters of their own, a weighting of them changes more than one of the labels.
        lean = coarse and not self.problem.settings.features.own_rows
        near_tol = max(last_tol, _NEAR) if lean else last_tol
        closely = partial(compare, tol=near_tol)
        place, best = self.begin, None
        sample = None if place is not None else sample_for(self, plan)
        if sample is not None:
            best = look_at_sample(self, sample, plan, max(self.settings.tol, _IN_SAMPLE))
            best = weaken(
                closely,
                partial(compare, tol=_FIRST_LOOK),
                self.grid,
                self.grid.place_of(best.penalties),
                criterion=self.criterion,
            )
        elif place is None and lean and few <= MOST_TOGETHER and may_hold_out_together(self):
            held = min(enough, MOST_TOGETHER)
            best = look_with_folds_together(self, plan, held, search_tol, near_tol)
        elif place is None:
            best = select_penalties(
                compare,
                grid,
                criterion=self.criterion,
                closely=closely if coarse else None,
                together=1 if self.held_out is None else _RANKINGS_TOGETHER,
            )
            best = self.select_settings(best, plan, near_tol, few, coarse=lean)
            # Other weights may want another λ, and rankings change more with λ than decisions do.
            if (
                self.held_out is not None
                and self.variants is not None
                and self._variant != self.variants.first
            ):
                place = grid.place_of(best.penalties)
        if place is not None and self.held_out is not None:
            best = select_trace(closely, grid, place, known=best, criterion=self.criterion)
        elif place is not None:
            best = confirm_trace(closely, grid, place, curvature=self.curvature, criterion=self.criterion)
        assert best is not None
        with contextlib.suppress(Stopped):
            folds = self._folds
            best = self._report(folds(best.penalties, tol=last_tol, n_folds=enough, judge=self.last_judge))
        return best

    def select_settings(
        self, best: Candidate, plan: Any, tol: float, n_folds: int, *, coarse: bool
    ) -> Candidate:
        """The best variant and the best features near the best penalties of the first ones."""
        if self.variants is not None:
            # Each variant has an objective of its own, as large as the data.
            idle = self.held_out is not None and self.labels.n_observed <= _FEW_RANKED
            together = _RANKINGS_TOGETHER if idle and self.run.n_jobs != 1 and thread_count() > 1 else 1
            best = select_variant(
                self, self.variants, best, plan, tol, n_folds, coarse=coarse, together=together
            )
        return best if self.challenge is None else self.challenge(self, best, tol, n_folds)

    def on_fewer_entries(
        self,
        times: float,
        plan: Any,
        search: Callable[[], Candidate],
        *,
        n_together: int = 1,
        sample: RowSample | None = None,
    ) -> tuple[Candidate, Factors | None]:
        """What a search with that plan finds, and its fit, where fits have so many times fewer entries.

        They are to a ``sample`` of the rows, or to all rows while ``n_together`` folds are held out as one.
        The candidate has the penalties that it stands for in a fold of its own, and the choice is left in its
        settings.
        """
        of_all, self._n_together, self._sample = self.grid, n_together, sample
        self.grid = of_all.for_sample(times)
        if len(of_all.traces) == 1:
            # A λ that is given is used as it is.
            self.grid = replace(self.grid, traces=of_all.traces)
        self._folds = self.cross_validation("search", plan)
        try:
            best = search()
            place, fitted = self.grid.place_of(best.penalties), self._folds.fit_of_fold(0)
            # Where the fit is stopped, now or later, this is the model that there is: the last fit may be
            # unfinished, or one of penalties that did not win. A resumed run may not have it.
            so_far = self._folds.best_so_far or (None if fitted is None else (best, fitted))
            if so_far is not None:
                seen, model = so_far
                self._of_fewer = replace(seen, penalties=of_all.at(self.grid.place_of(seen.penalties))), model
                self._folds.best_so_far = None
        finally:
            self._sample, self.grid, self.looks_closely, self._n_together = None, of_all, False, 1
            self._folds.close()
        if self.run.checkpoint.stopping():
            raise Stopped
        return replace(best, penalties=self.grid.at(place)), fitted

    def _folds_with(self, plan: Any, n_entries: int, n_rare: int) -> int:
        """How many folds together hold out so many entries, and so many of the rarer class."""
        return _folds_of(self.labels, plan, n_entries, n_rare)

    def _report(self, candidate: Candidate) -> Candidate:
        if self._variant is not None:
            candidate = replace(candidate, **self._variant.settings())
        if self.feature_map is not None:
            candidate = replace(candidate, feature_map=self.feature_map)
        if self._n_together > 1:
            candidate = replace(candidate, n_folds=self._n_together)
        listed = candidate
        all_rows = self.grid.of_all or self.listed_in
        if all_rows is not None:
            listed = replace(candidate, penalties=all_rows.at(self.grid.place_of(candidate.penalties)))
        self._candidates.append(listed)
        self.run.candidate(listed)
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
        if self.start is not None and not run.checkpoint.stopping():
            intercept = np.asarray(to_host(objective.starting_intercept()))
            given = self.start(self.problem, self.labels, intercept)
            if given is not None:
                # Before the gap is asked for, which may be within the tolerance without what is new.
                # A run that was stopped before starts at the model that there is.
                stopping = self.run.checkpoint.stopping
                if not stopping():
                    run.stage("placing new rows and labels")
                    run.say(run.at)
                start = in_place(objective, penalties, given, settings.tol, stopping)
                if not stopping():
                    run.stage("fitting")
        return settings.fit(
            objective,
            penalties,
            warm_start=start,
            callback=run.reporter(),
            checkpoint=run.checkpoint.part("fit"),
        )

    def _with_thresholds(self, chosen: ChosenFit, best: Candidate | None) -> ChosenFit:
        if self.training_threshold is None and self.rule is None:
            return chosen
        if best is not None and self.how != "train":
            kind = best.threshold_kind
            return replace(chosen, threshold=best.threshold, thresholds=best.thresholds, threshold_kind=kind)
        scores = plain_scores(self.problem, chosen.fit.factors, self.labels, NEVER)
        if self.rule is None:
            assert self.training_threshold is not None
            return replace(chosen, threshold=self.training_threshold(to_host(scores), self.labels))
        found = self.rule.choose(scores, self.labels)
        several = None if found.kind == "shared" else found.thresholds
        return replace(chosen, threshold=found.shared, thresholds=several, threshold_kind=found.kind)


def folds_for_threshold(labels: ObservedLabels, plan: NDArray[Any]) -> int:
    """How many folds of a plan hold out enough entries to choose a threshold by."""
    return _folds_of(labels, plan, *_FOR_THRESHOLD)


def _folds_of(labels: ObservedLabels, plan: NDArray[Any], n_entries: int, n_rare: int) -> int:
    if labels.judging is not None:
        labels = labels.judged()
    values = labels.values
    rarer = min(int(np.sum(values == values.min())), int(np.sum(values != values.min())))
    return folds_with(int(plan.max()) + 1, labels.n_observed, rarer, n_entries, n_rare)


def folds_with(n_folds: int, n_observed: int, n_rarer: int, n_entries: int, n_rare: int) -> int:
    """How many of the folds together have so many entries, and so many of the rarer class, of all of them."""
    for few in range(1, n_folds):
        fraction = few / n_folds
        if fraction * n_observed >= n_entries and fraction * n_rarer >= n_rare:
            return few
    return n_folds
