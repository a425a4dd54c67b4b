"""The choice of penalties where only positives are recorded: flip rate, penalties, fit and threshold.

An entry that is not recorded may be yes or no, so the loss runs over all n·L entries. Decisions are judged on
the recorded positives and on all other entries, or on a sample of those where there are many.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import InvalidParameterError, LabelgapWarning
from labelgap.fitting.choice import SELECTION_TOL, PenaltyChoice, StartOf
from labelgap.fitting.chosen import ChosenFit, FlipRates
from labelgap.fitting.cross_validation import CrossValidation, SolverSettings
from labelgap.fitting.judges import Verdict, unlabelled_judge
from labelgap.fitting.penalty_grid import (
    LargestPenalty,
    PenaltyGrid,
    PenaltyRequest,
    grid_for,
    largest_penalty_of,
)
from labelgap.fitting.problem import highest_possible_rates, unlabelled_problem
from labelgap.fitting.run import FitRun
from labelgap.fitting.search import select_penalties
from labelgap.flip_rates.estimate import FlipRateEstimate, flip_rate_from_scores
from labelgap.labels import ObservedLabels
from labelgap.labels.unobserved import draw_unobserved
from labelgap.losses import Loss
from labelgap.losses.unlabelled import UNLABELLED_LOSSES
from labelgap.metrics import LinearFractional
from labelgap.metrics.unlabelled import check_flip_rate, punishes_false_positives
from labelgap.objective.parts import Backend, FeatureSettings
from labelgap.objective.problem import Problem
from labelgap.thresholds.cross_fit import HeldOutScores, gather, hold_out_plan, map_folds
from labelgap.thresholds.trivial import trivial_beside_recorded

# Bytes that a judged entry takes: its place, value, weight, fold and score, and what sorting them needs.
_BYTES_PER_JUDGED_ENTRY = 100
# The bound on the scores lets a label's probability go from one of these to the other.
_RANGE = (0.01, 0.99)
# The largest bound for the exponential loss: sums of its squares stay within the range of floating point.
_LARGEST_EXPONENT = 300.0
_ACCURACY = LinearFractional({"tp": 1, "tn": 1}, {"const": 1})


@dataclass
class UnlabelledChoice:
    """Finds the flip rate, chooses penalties on held-out entries, and fits to all entries."""

    X: Any
    """Features of the rows, or None."""
    positives: ObservedLabels
    """The recorded positives."""
    features: FeatureSettings
    loss: Loss
    request: PenaltyRequest
    settings: SolverSettings
    run: FitRun
    fit_intercept: bool = True
    score_bound: float | str | None = "auto"
    memory_limit_mb: float = 256.0
    largest: LargestPenalty = largest_penalty_of
    backend: Backend | None = None
    """The machine that the fits run on; None is the CPU."""
    start: StartOf | None = None
    """Where the last fit starts, as in :class:`PenaltyChoice`."""
    entries: ObservedLabels = field(init=False)
    """Recorded positives (1) and other entries (0), on which decisions are judged."""
    problem: Problem = field(init=False)
    """The problem at flip rates of 0."""

    def __post_init__(self) -> None:
        self._rng = check_random_state(self.run.random_state)
        most = max(1, int(self.memory_limit_mb * 1e6 / _BYTES_PER_JUDGED_ENTRY))
        self.entries = judged_entries(self.positives, most, self._rng)
        self.problem = unlabelled_problem(
            self.X,
            self.positives,
            self.entries,
            self.features,
            self.loss,
            fit_intercept=self.fit_intercept,
            score_bound=_resolved_bound(self.score_bound, self.loss),
            memory_limit_mb=self.memory_limit_mb,
            backend=self.backend,
        )

    def fit(
        self,
        metric: LinearFractional,
        flip_rate: Any,
        *,
        how: str,
        by_row: bool = False,
        groups: NDArray[np.int64] | None = None,
        for_fitted_entries: bool = False,
    ) -> ChosenFit:
        """Choose, and fit to all entries.

        ``flip_rate`` is "estimate", or the rates in the order of the labels; ``how``, ``by_row`` and
        ``groups`` are those of :class:`PenaltyChoice`. ``for_fitted_entries`` says that decisions are made
        for the entries of the fit, with a yes at all recorded ones, and not for new rows.
        """
        rates = self._flip_rates(flip_rate)
        problem = self.problem.with_settings(flip_rate=rates.by_label)
        positive_counts = self.positives.positive_counts()
        mean = float(np.sum(positive_counts / (1.0 - rates.by_label)) / self._n_all)
        judge = unlabelled_judge(metric, self.loss, rates.by_label)
        held_out = HeldOutScores()

        def last_judge(scores: Floats, entries: ObservedLabels) -> Verdict:
            held_out.see(scores, entries)
            return judge(scores, entries)

        chosen = PenaltyChoice(
            problem,
            self.entries,
            self._grid(problem, mean),
            judge,
            self.settings,
            self.run,
            how=how,
            by_row=by_row,
            groups=groups,
            last_judge=last_judge,
            training_threshold=lambda scores, entries: judge(scores, entries).threshold,
            start=self.start,
        ).fit()
        chosen = replace(chosen, flip_rates=rates)
        if for_fitted_entries and how != "train":
            return self._with_threshold_for_fitted_entries(chosen, problem, metric, how)
        if held_out.scores is None or held_out.labels is None or how == "train":
            return chosen
        trivial = trivial_beside_recorded(metric, held_out.scores, held_out.labels, rates.by_label)
        return replace(chosen, trivial=trivial)

    @property
    def _n_all(self) -> int:
        return self.positives.shape[0] * self.positives.shape[1]

    def _grid(self, problem: Problem, mean: float) -> PenaltyGrid:
        return grid_for(
            problem, self.entries, self.request, n_terms=self._n_all, mean=mean, largest=self.largest
        )

    # -- the flip rate -----------------------------------------------------------------------------------

    def _flip_rates(self, flip_rate: Any) -> FlipRates:
        """One flip rate per label, as given or estimated, and possible for the positives recorded."""
        n_labels = self.positives.shape[1]
        value: float | Floats
        interval = None
        if isinstance(flip_rate, str):
            check_choice("flip_rate", flip_rate, ("estimate",))
            self.run.stage("estimating the flip rate")
            estimate = self.estimated_flip_rate()
            self.run.say(
                f"flip rate {estimate.value:.3f}, between {estimate.low:.3f} and {estimate.high:.3f}"
            )
            value, interval = estimate.value, (estimate.low, estimate.high)
            rates = np.full(n_labels, estimate.value)
        else:
            rates = check_flip_rate(flip_rate, n_labels)
            value = float(rates[0]) if np.ndim(flip_rate) == 0 else rates
        possible = highest_possible_rates(self.positives, rates)
        self._warn_of_impossible_rates(rates, possible)
        return FlipRates(value, interval, possible)

    def _warn_of_impossible_rates(self, rates: Floats, possible: Floats) -> None:
        labels = self.positives
        too_high = np.flatnonzero(possible < rates)
        if len(too_high):
            first = int(too_high[0])
            name = first if labels.label_names is None else repr(labels.label_names[first])
            recorded = labels.positive_counts()[first] / labels.shape[0]
            warn(
                f"A flip rate of {rates[first]:.3f} is not possible for {len(too_high)} of {labels.shape[1]} "
                f"labels (the first: {name}, with {recorded:.1%} of its rows recorded as yes); there the "
                f"highest possible is used, {possible[first]:.3f}. Give a lower flip_rate, or one per label.",
                LabelgapWarning,
            )

    def estimated_flip_rate(self) -> FlipRateEstimate:
        """From out-of-fold scores of a model of what is recorded, its λ chosen by the held-out loss."""
        entries = self.entries
        none = np.zeros(entries.shape[1])
        problem = self.problem
        grid = self._grid(problem, self.positives.n_observed / self._n_all)
        grid = replace(grid, ridges=[grid.ridges[grid.first_ridge]], first_ridge=0, intercepts=[0.0])
        plan = hold_out_plan(entries, "cross-fit", self._rng, device=problem.device)
        if plan.max(initial=-1) < 0:
            raise InvalidParameterError(
                f"The flip rate cannot be estimated from {entries.n_observed} entries, of which none can be "
                "held "
                "out; give flip_rate a number."
            )
        folds = CrossValidation(
            problem,
            entries,
            plan,
            unlabelled_judge(_ACCURACY, self.loss, none),
            replace(self.settings, tol=max(self.settings.tol, SELECTION_TOL)),
            self.run.n_jobs,
            self.run.checkpoint.part("flip rate"),
        )
        best = select_penalties(folds.compare, grid, criterion="loss").penalties
        scores = folds.scores_with(best)
        return flip_rate_from_scores(
            scores, entries.values == 1, groups=entries.rows, weights=entries.weights, random_state=self._rng
        )

    # -- the threshold for the entries of the fit -----------------------------------------------------------

    def _with_threshold_for_fitted_entries(
        self, chosen: ChosenFit, problem: Problem, metric: LinearFractional, how: str
    ) -> ChosenFit:
        """The fit with θ for decisions about the entries of the fit, where a recorded positive is a yes.

        The unrecorded positives among them were fitted as unlabelled. So positives of each fold are scored by
        a fit that took them for unlabelled too, not by one that left them out.
        """
        run, entries, penalties = self.run, self.entries, chosen.penalties
        plan = hold_out_plan(entries, how, self._rng, device=problem.device)
        if not (plan >= 0).any():
            return chosen
        if not run.checkpoint.stopping():
            run.stage("choosing the threshold")

        def fit_fold(fold: int, train: ObservedLabels, held: ObservedLabels) -> Floats:
            objective = problem.objective(train, free_intercept=penalties.intercept == 0, thinned=True)
            checkpoint = run.checkpoint.part(f"threshold fold {fold}")
            fit = self.settings.for_comparisons.fit(objective, penalties, checkpoint=checkpoint)
            return problem.scores(fit.factors, held)

        _, scores = gather(plan, map_folds(entries, plan, fit_fold, run.n_jobs))
        if run.checkpoint.stopping():
            # Scores of unfinished fits measure nothing; the threshold that the search found stays.
            return chosen
        rates = problem.settings.flip_rate
        assert rates is not None
        judge = unlabelled_judge(metric, self.loss, rates, recorded_are_known=True)
        held = entries.select(plan >= 0)
        verdict = judge(scores, held)
        trivial = trivial_beside_recorded(metric, scores, held, rates, recorded_are_known=True)
        return replace(
            chosen,
            threshold=verdict.threshold,
            held_out_metric=verdict.value,
            held_out_error=None,
            trivial=trivial,
        )


def check_unlabelled(labels: ObservedLabels, loss: Loss, metric: LinearFractional) -> None:
    """Raise where recorded positives cannot be fitted so, and warn where the metric is of no use for them."""
    if loss.name not in UNLABELLED_LOSSES:
        raise InvalidParameterError(
            f"unobserved='unlabelled' needs one of the losses {', '.join(UNLABELLED_LOSSES)}, not "
            f"{loss.name!r}: its unbiased form would not be convex."
        )
    if labels.offsets is not None:
        raise InvalidParameterError(
            "Offsets cannot be combined with unobserved='unlabelled': an entry that was not given has "
            "none. Drop the offsets."
        )
    if labels.weights is not None:
        raise InvalidParameterError(
            "Weights of recorded positives cannot be combined with unobserved='unlabelled', where every "
            "entry counts once. Drop the weights; a flip_rate per label can say what they said."
        )
    if not punishes_false_positives(metric):
        warn(
            "The metric does not punish false positives, so under unobserved='unlabelled' a yes to every "
            "entry is as good as any decision. Choose one that does, such as "
            f"'{metric.average}-f1' or '{metric.average}-jaccard'.",
            LabelgapWarning,
        )


def _resolved_bound(score_bound: float | str | None, loss: Loss) -> float | None:
    if score_bound != "auto":
        if score_bound is None and loss.name != "squared":
            raise InvalidParameterError(
                f"Under unobserved='unlabelled' the {loss.name} loss falls without end as scores grow, "
                "so something has to bound them: leave score_bound at 'auto', or give a number."
            )
        assert not isinstance(score_bound, str)
        if score_bound is not None and loss.name == "exponential" and score_bound > _LARGEST_EXPONENT:
            raise InvalidParameterError(
                f"score_bound={score_bound:g} is too large for the exponential loss under "
                "unobserved='unlabelled', where e^score_bound is computed: give at most "
                f"{_LARGEST_EXPONENT:g} "
                "(from 19 on a probability is 1 to all digits), or leave it at 'auto'."
            )
        return score_bound
    low, high = (float(loss.link(p)) for p in _RANGE)
    return None if loss.name == "squared" else high - low


def judged_entries(positives: ObservedLabels, most: int, rng: np.random.RandomState) -> ObservedLabels:
    """Entries on which decisions are judged: all recorded positives (1) and other entries (0).

    All other entries if there are at most ``most``, else a random sample, each with the number of entries
    that it stands for as its weight.
    """
    n, n_labels = positives.shape
    known = replace(positives, unobserved="missing")
    others = n * n_labels - positives.n_observed
    if others <= most:
        return ObservedLabels.from_any(known, unobserved="negative")
    drawn, stands_for = draw_unobserved(positives, most, rng)
    keys = np.concatenate([positives.rows * n_labels + positives.cols, drawn])
    values = np.repeat([1, 0], [positives.n_observed, len(drawn)])
    weights = np.where(values == 1, 1.0, stands_for)
    return ObservedLabels.from_triplets(
        *np.divmod(keys, n_labels),
        values,
        shape=(n, n_labels),
        weights=weights,
        row_names=positives.row_names,
        label_names=positives.label_names,
    )
