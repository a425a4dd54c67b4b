"""Fitting scores and a threshold, to observed labels or to recorded positives alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.estimators.base import THRESHOLDS
from labelgap.estimators.checks import check_number
from labelgap.estimators.fitting import SELECTION_TOL, Chosen, LowRankEstimator
from labelgap.exceptions import InvalidParameterError, LabelgapWarning
from labelgap.fitting.criteria import metric_judge, steady_judge, unlabelled_judge
from labelgap.fitting.cross_validation import HeldOutJudge, Judge, Problem, largest_trace_penalty
from labelgap.fitting.grid import penalty_grid
from labelgap.fitting.run import FitRun
from labelgap.fitting.search import PenaltyGrid, select_penalties
from labelgap.flip_rates.estimate import FlipRateEstimate, flip_rate_from_scores
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.losses.unlabelled import UNLABELLED_LOSSES
from labelgap.metrics import LinearFractional
from labelgap.metrics.unlabelled import check_flip_rate, punishes_false_positives
from labelgap.objective.cpu.all_entries import cells_within
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.unlabelled import possible_flip_rates
from labelgap.objective.problem import ObservedProblem, UnlabelledProblem
from labelgap.sampling import inverse_propensity_weights
from labelgap.solvers import Penalties
from labelgap.thresholds.cross_fit import gather, hold_out_plan, map_folds
from labelgap.thresholds.sweep import best_threshold

ThresholdOf: TypeAlias = Callable[[Floats, ObservedLabels], float]
"""From scores and labels to the best threshold."""

# Bytes that a judged cell takes: its place, value, weight, fold and score, and what sorting them needs.
_BYTES_PER_JUDGED_CELL = 100
# The bound on the scores under positive-unlabelled losses lets a label's probability go from one of these to
# the other.
_RANGE = (0.01, 0.99)


class DecisionFitting(LowRankEstimator):
    """Fits W, b and θ for a metric, with or without known negatives."""

    metric: str | LinearFractional
    loss: str | Loss
    threshold: str
    flip_rate: Any
    weights: str | None
    memory_limit_mb: float

    threshold_: float

    _decides_fitted_cells = False
    """Whether decisions are for the cells of the fit, with a yes to all recorded ones, or for new rows."""

    def _check_decision_parameters(self) -> None:
        self._check_fit_parameters()
        check_choice("threshold", self.threshold, THRESHOLDS)
        if self.weights is not None:
            check_choice("weights", self.weights, ("inverse-propensity",))
        check_number("memory_limit_mb", self.memory_limit_mb, above=0.0)

    def _weighted(self, labels: ObservedLabels, propensities: Any) -> ObservedLabels:
        """The labels with the weights that were asked for."""
        if self.weights is None:
            if propensities is not None:
                raise InvalidParameterError(
                    "propensities were given but weights is None, so they would not be used. "
                    "Set weights='inverse-propensity', or leave them out."
                )
            return labels
        if labels.unobserved == "unlabelled":
            raise InvalidParameterError(
                "weights='inverse-propensity' is about which labels were observed; under "
                "unobserved='unlabelled' every cell counts. Use flip_rate, one per label if need be."
            )
        inverse = inverse_propensity_weights(labels, propensities)
        return labels.with_weights(inverse if labels.weights is None else inverse * labels.weights)

    def _fit_decisions(
        self,
        design: Design,
        labels: ObservedLabels,
        loss: Loss,
        metric: LinearFractional,
        intercept_penalty: float | str,
        run: FitRun,
    ) -> Chosen:
        if labels.unobserved == "unlabelled":
            return self._fit_unlabelled(design, labels, loss, metric, intercept_penalty, run)
        if not (isinstance(self.flip_rate, str) and self.flip_rate == "estimate"):
            raise InvalidParameterError(
                "flip_rate is the share of unrecorded positives and has a meaning only under "
                f"unobserved='unlabelled'; here it is {labels.unobserved!r}. Leave it out."
            )
        # A fit before this one may have left a rate, which says nothing of these labels.
        for name in ("flip_rate_", "flip_rate_interval_"):
            self.__dict__.pop(name, None)
        bound = None if self.score_bound == "auto" else self.score_bound
        assert not isinstance(bound, str)
        problem = ObservedProblem(design, loss, fit_intercept=self.fit_intercept, score_bound=bound)
        rate = float(np.average(labels.values, weights=labels.weights))
        grid = self._grid(problem, labels, labels.n_observed, rate, intercept_penalty)
        judge = metric_judge(metric, loss)
        return self._with_threshold(
            problem,
            labels,
            grid,
            judge,
            run,
            lambda scores, seen: best_threshold(scores, seen, metric).threshold,
            steady_judge(metric, loss),
        )

    def _grid(
        self,
        problem: ObservedProblem | UnlabelledProblem,
        labels: ObservedLabels,
        n_terms: int,
        rate: float,
        intercept_penalty: float | str,
    ) -> PenaltyGrid:
        return penalty_grid(
            lambda: self._largest_penalty(problem, labels),
            labels.shape[1],
            n_terms=n_terms,
            square_length=problem.design.rows.mean_square_length(),
            centre=float(problem.loss.link(rate)),
            trace=self.trace_penalty,
            ridge=self.ridge_penalty,
            intercept=intercept_penalty,
        )

    def _largest_penalty(self, problem: ObservedProblem | UnlabelledProblem, labels: ObservedLabels) -> float:
        """Where the path of λ begins: with W = 0."""
        return largest_trace_penalty(problem.objective(labels))

    def _with_threshold(
        self,
        problem: Problem,
        labels: ObservedLabels,
        grid: PenaltyGrid,
        judge: Judge,
        run: FitRun,
        of_training_scores: ThresholdOf,
        last_judge: Judge | None = None,
    ) -> Chosen:
        chosen = self._choose_and_fit(
            problem, labels, grid, judge, self.threshold, run, last_judge=last_judge
        )
        threshold = chosen.threshold
        if threshold is None or self.threshold == "train":
            scores = problem.scores(chosen.fit.factors, labels)
            threshold = of_training_scores(scores, labels)
        self.threshold_ = threshold
        return chosen

    # -- positive-unlabelled ---------------------------------------------------------------------------

    def _fit_unlabelled(
        self,
        design: Design,
        labels: ObservedLabels,
        loss: Loss,
        metric: LinearFractional,
        intercept_penalty: float | str,
        run: FitRun,
    ) -> Chosen:
        if loss.name not in UNLABELLED_LOSSES:
            raise InvalidParameterError(
                f"unobserved='unlabelled' needs one of the losses {', '.join(UNLABELLED_LOSSES)}, not "
                f"{loss.name!r}: its unbiased form would not be convex."
            )
        if labels.offsets is not None:
            raise InvalidParameterError(
                "Offsets cannot be combined with unobserved='unlabelled': a cell that was not given has "
                "none. Drop the offsets."
            )
        if labels.weights is not None:
            raise InvalidParameterError(
                "Weights of recorded positives cannot be combined with unobserved='unlabelled', where every "
                "cell counts once. Drop the weights; a flip_rate per label can say what they said."
            )
        if not punishes_false_positives(metric):
            warn(
                "The metric does not punish false positives, so under unobserved='unlabelled' a yes to every "
                "cell is as good as any decision. Choose one that does, such as "
                f"'{metric.average}-f1' or '{metric.average}-jaccard'.",
                LabelgapWarning,
            )
        setting = self._unlabelled_setting(design, labels, loss, run)
        flip_rate = self._flip_rates(setting, intercept_penalty, run)
        problem = setting.problem(flip_rate)
        n_cells = labels.shape[0] * labels.shape[1]
        rate = float(np.sum(labels.positive_counts() / (1.0 - flip_rate)) / n_cells)
        grid = self._grid(problem, setting.cells, n_cells, rate, intercept_penalty)
        judge = unlabelled_judge(metric, loss, flip_rate)
        chosen = self._with_threshold(
            problem, setting.cells, grid, judge, run, lambda scores, cells: judge(scores, cells).threshold
        )
        if self._decides_fitted_cells and self.threshold != "train":
            self._set_threshold_for_fitted_cells(setting, problem, chosen.penalties, metric, flip_rate, run)
        return chosen

    def _set_threshold_for_fitted_cells(
        self,
        setting: UnlabelledSetting,
        problem: UnlabelledProblem,
        penalties: Penalties,
        metric: LinearFractional,
        flip_rate: Floats,
        run: FitRun,
    ) -> None:
        """θ for decisions about the very cells of the fit, where a recorded positive is a yes anyway.

        The unrecorded positives among them were fitted as unlabelled. So positives of each fold are scored by
        a fit that took them for unlabelled too, not by one that left them out.
        """
        cells = setting.cells
        plan = hold_out_plan(cells, self.threshold, setting.rng)
        if not (plan >= 0).any():
            return

        if not run.checkpoint.stopping():
            run.stage("choosing the threshold")

        def fit_fold(fold: int, train: ObservedLabels, held: ObservedLabels) -> Floats:
            objective = problem.thinned(train, free_intercept=penalties.intercept == 0)
            checkpoint = run.checkpoint.part(f"threshold fold {fold}")
            fit = self._settings().fit(problem, objective, penalties, checkpoint=checkpoint)
            return problem.scores(fit.factors, held)

        _, scores = gather(plan, map_folds(cells, plan, fit_fold, self.n_jobs))
        if run.checkpoint.stopping():
            # Half-fitted scores are no measure; the threshold that the search found stays.
            return
        judge = unlabelled_judge(metric, setting.loss, flip_rate, recorded_are_known=True)
        verdict = judge(scores, cells.select(plan >= 0))
        self.threshold_, self.held_out_metric_ = verdict.threshold, verdict.value

    def _unlabelled_setting(
        self, design: Design, labels: ObservedLabels, loss: Loss, run: FitRun
    ) -> UnlabelledSetting:
        rng = check_random_state(run.random_state)
        most = max(1, int(self.memory_limit_mb * 1e6 / _BYTES_PER_JUDGED_CELL))
        bound, cells = self._unlabelled_bound(loss), judged_cells(labels, most, rng)

        def problem(flip_rate: Floats) -> UnlabelledProblem:
            return UnlabelledProblem(
                design,
                loss,
                flip_rate,
                cells,
                fit_intercept=self.fit_intercept,
                score_bound=bound,
                block_cells=cells_within(self.memory_limit_mb),
            )

        return UnlabelledSetting(labels, cells, loss, problem, rng)

    def _flip_rates(self, setting: UnlabelledSetting, intercept_penalty: float | str, run: FitRun) -> Floats:
        """One flip rate per label, as given or estimated, and possible for the positives recorded."""
        labels = setting.positives
        n, n_labels = labels.shape
        self.flip_rate_interval_: tuple[float, float] | None = None
        if isinstance(self.flip_rate, str):
            check_choice("flip_rate", self.flip_rate, ("estimate",))
            run.stage("estimating the flip rate")
            estimate = self._estimated_flip_rate(setting, intercept_penalty, run)
            self._say(f"flip rate {estimate.value:.3f}, between {estimate.low:.3f} and {estimate.high:.3f}")
            self.flip_rate_: float | Floats = estimate.value
            self.flip_rate_interval_ = (estimate.low, estimate.high)
            given = np.full(n_labels, estimate.value)
        else:
            rates = self._given_flip_rate(labels)
            given = check_flip_rate(rates, n_labels)
            self.flip_rate_ = float(given[0]) if np.ndim(rates) == 0 else given
        possible = possible_flip_rates(labels.positive_counts(), np.full(n_labels, n), given)
        self._label_flip_rates = possible
        too_high = np.flatnonzero(possible < given)
        if len(too_high):
            first = int(too_high[0])
            name = first if labels.label_names is None else repr(labels.label_names[first])
            share = labels.positive_counts()[first] / n
            warn(
                f"A flip rate of {given[first]:.3f} is not possible for {len(too_high)} of {n_labels} labels "
                f"(the first: {name}, with {share:.1%} of its rows recorded as yes); there the highest "
                f"possible is used, {possible[first]:.3f}. Give a lower flip_rate, or one per label.",
                LabelgapWarning,
            )
        return possible

    def _given_flip_rate(self, labels: ObservedLabels) -> Any:
        """The rates in the order of the labels."""
        return self.flip_rate

    def _estimated_flip_rate(
        self, setting: UnlabelledSetting, intercept_penalty: float | str, run: FitRun
    ) -> FlipRateEstimate:
        """From out-of-fold scores of a model of what is recorded, its λ chosen by the held-out loss."""
        cells, n_labels = setting.cells, setting.cells.shape[1]
        none = np.zeros(n_labels)
        problem = setting.problem(none)
        n_cells = cells.shape[0] * n_labels
        rate = setting.positives.n_observed / n_cells
        grid = self._grid(problem, cells, n_cells, rate, intercept_penalty)
        grid = replace(grid, ridges=[grid.ridges[grid.first_ridge]], first_ridge=0, intercepts=[0.0])
        plan = hold_out_plan(cells, "cross-fit", setting.rng)
        judge = unlabelled_judge(_ACCURACY, setting.loss, none)
        tol = max(self.tol, SELECTION_TOL)
        settings, checkpoint = replace(self._settings(), tol=tol), run.checkpoint.part("flip rate")
        held_out = HeldOutJudge(problem, cells, plan, judge, settings, self.n_jobs, checkpoint)
        best = select_penalties(held_out.compare, grid, criterion="loss").penalties
        scores = held_out.scores_with(best)
        return flip_rate_from_scores(
            scores, cells.values == 1, groups=cells.rows, weights=cells.weights, random_state=setting.rng
        )

    def _unlabelled_bound(self, loss: Loss) -> float | None:
        if self.score_bound != "auto":
            if self.score_bound is None and loss.name != "squared":
                raise InvalidParameterError(
                    f"Under unobserved='unlabelled' the {loss.name} loss falls without end as scores grow, "
                    "so something has to bound them: leave score_bound at 'auto', or give a number."
                )
            assert not isinstance(self.score_bound, str)
            return self.score_bound
        low, high = (float(loss.link(p)) for p in _RANGE)
        return None if loss.name == "squared" else high - low


class UnlabelledSetting(NamedTuple):
    """What a positive-unlabelled fit starts from."""

    positives: ObservedLabels
    cells: ObservedLabels
    """Recorded positives and other cells, on which decisions are judged."""
    loss: Loss
    problem: Callable[[Floats], UnlabelledProblem]
    """The problem at given flip rates."""
    rng: np.random.RandomState


def judged_cells(positives: ObservedLabels, most: int, rng: np.random.RandomState) -> ObservedLabels:
    """Cells on which decisions are judged: all recorded positives (1) and other cells (0).

    All other cells if there are at most ``most``, else a random sample, each with the number of cells that
    it stands for as its weight.
    """
    n, n_labels = positives.shape
    known = replace(positives, unobserved="missing")
    others = n * n_labels - positives.n_observed
    if others <= most:
        return ObservedLabels.from_any(known, unobserved="negative")
    recorded = positives.rows * n_labels + positives.cols
    # Drawn with replacement and made distinct: uniform over the cells, a little fewer than asked for.
    drawn = np.unique(rng.randint(0, n * n_labels, size=most))
    drawn = np.setdiff1d(drawn, recorded, assume_unique=True)
    keys = np.concatenate([recorded, drawn])
    values = np.repeat([1, 0], [len(recorded), len(drawn)])
    weights = np.where(values == 1, 1.0, others / max(len(drawn), 1))
    return ObservedLabels.from_triplets(
        *np.divmod(keys, n_labels),
        values,
        shape=(n, n_labels),
        weights=weights,
        row_names=positives.row_names,
        label_names=positives.label_names,
    )


_ACCURACY = LinearFractional({"tp": 1, "tn": 1}, {"const": 1})
