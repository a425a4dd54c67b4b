"""What the low-rank estimators share: their penalties, the choice among them, and the fit."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from labelgap._names import check_choice, look_up
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.estimators.checks import check_number, check_penalty, check_whole
from labelgap.exceptions import ConvergenceWarning, InvalidParameterError, LabelgapWarning
from labelgap.fitting.cross_validation import HeldOutJudge, Judge, Problem, SolverSettings
from labelgap.fitting.run import FitRun
from labelgap.fitting.search import PenaltyGrid, select_penalties
from labelgap.labels import ObservedLabels
from labelgap.objective.frame import SCALINGS
from labelgap.objective.moments import ColumnMoments
from labelgap.objective.parts import FeatureSettings
from labelgap.objective.protocol import Factors
from labelgap.solvers import RIVALS, SOLVERS, Callback, Fit, Penalties, Progress, default_max_iter
from labelgap.solvers.checkpoint import Checkpoint, Stopped
from labelgap.solvers.result import Candidate
from labelgap.thresholds.cross_fit import hold_out_plan

PENALTIES = ("weights", "scores")
# Relative gaps of the fits that are compared on held-out entries, and of those that the threshold comes from:
# they need not be as exact as the last fit, and the less the more entries there are.
_FINE, _COARSE = (2e-2, 1e-2), (5e-2, 2e-2)
SELECTION_TOL = _FINE[0]
# Held-out entries, and labels of the rarer answer among them, with which a search can begin. Where one fold
# has that many, the other folds wait for the best candidates.
_ENOUGH_ENTRIES, _ENOUGH_RARE = 20_000, 300
# Steps of a fit that is stopped before there is anything to show for it.
_HURRIED_STEPS = 12


class Chosen(NamedTuple):
    """A fit with the penalties that were chosen, and the threshold from held-out scores if there are any."""

    fit: Fit
    penalties: Penalties
    threshold: float | None
    problem: Any


class LowRankEstimator(BaseEstimator):  # type: ignore[misc]
    """Penalties, solver and selection; a subclass says what the problem and its labels are."""

    trace_penalty: float | str
    ridge_penalty: float | str
    rank: int | None
    score_bound: float | str | None
    solver: str
    fit_intercept: bool
    tol: float
    max_iter: int | None
    random_state: Any
    n_jobs: int | None
    verbose: int
    intercept_penalty: float | str
    penalty: str = "weights"
    feature_scaling: str = "none"

    _holds_out_rows = False
    """Whether entries of a row are held out together."""

    candidates_: tuple[Candidate, ...]
    coef_left_: Floats
    coef_right_: Floats
    intercept_: Floats

    def _check_fit_parameters(self) -> None:
        check_choice("solver", self.solver, SOLVERS | RIVALS)
        check_choice("penalty", self.penalty, PENALTIES)
        check_choice("feature_scaling", self.feature_scaling, ("auto", *SCALINGS))
        if self.penalty == "scores" and self.feature_scaling in ("root", "standard"):
            raise InvalidParameterError(
                f"feature_scaling={self.feature_scaling!r} has no effect on penalty='scores', which is about "
                "XW whatever the units of X. Leave it at 'auto'."
            )
        for name in ("trace_penalty", "ridge_penalty", "intercept_penalty"):
            check_penalty(name, getattr(self, name))
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InvalidParameterError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        if not self.fit_intercept and self.intercept_penalty not in ("auto", 0):
            raise InvalidParameterError(
                f"intercept_penalty is {self.intercept_penalty!r} but fit_intercept is False, so there is "
                "nothing to penalise. Leave it at 'auto', or fit an intercept."
            )
        if isinstance(self.score_bound, str):
            check_choice("score_bound", self.score_bound, ("auto",))
        else:
            check_number("score_bound", self.score_bound, above=0.0, or_none="no bound on the scores")
        check_number("tol", self.tol, above=0.0, below=1.0)
        check_whole("rank", self.rank, or_none="no cap")
        jobs: Any = self.n_jobs
        if jobs is not None and (not isinstance(jobs, (int, np.integer)) or jobs == 0):
            raise InvalidParameterError(
                f"n_jobs must be a whole number other than 0, or None for one job per thread; got {jobs!r}."
            )
        check_whole("max_iter", self.max_iter, or_none="the solver's own limit")
        if self.solver in RIVALS and self.rank is None:
            raise InvalidParameterError(
                f"solver={self.solver!r} works at a fixed rank: give rank=, a whole number such as 10."
            )

    def _feature_settings(self, X: Any, intercept_penalty: float | str, *, bounded: bool) -> FeatureSettings:
        """How the penalty and the intercepts allow to use the features."""
        if self.penalty == "scores":
            return FeatureSettings(penalty="scores")
        # A penalty on the intercepts, and a bound on XW, are about the origin that was handed in.
        centre = bool(self.fit_intercept) and intercept_penalty == 0 and not bounded
        return FeatureSettings(scaling=self._scaling(X), centre=centre)

    def _scaling(self, X: Any) -> str:
        """What is done to the columns of X before W is penalised."""
        scaling = self.feature_scaling
        if scaling == "auto":
            # A penalty that was given is about the features that were given.
            if any(penalty not in ("auto", 0) for penalty in (self.trace_penalty, self.ridge_penalty)):
                return "none"
            # With fewer rows than features a rare feature is mostly noise.
            rare_counts = X.shape[0] >= X.shape[1]
            scaling = ("root" if rare_counts else "none") if sp.issparse(X) else "standard"
        return scaling

    def _intercept_choice(self, X: Any) -> float | str:
        """What is to be found out about κ: "auto" only where the origin of X is its centre (None: X = I)."""
        if not self.fit_intercept:
            return 0.0
        elsewhere = (
            X is not None and self.intercept_penalty == "auto" and not ColumnMoments.of(X).look_centred()
        )
        return 0.0 if elsewhere else self.intercept_penalty

    def _settings(self) -> SolverSettings:
        return SolverSettings(
            solver=look_up("solver", self.solver, SOLVERS | RIVALS),
            rank=self.rank,
            tol=self.tol,
            max_iter=self.max_iter or default_max_iter(self.solver),
        )

    def _choose_and_fit(
        self,
        problem: Problem,
        labels: ObservedLabels,
        grid: PenaltyGrid,
        judge: Judge,
        how: str,
        run: FitRun,
        *,
        criterion: str = "metric",
        last_judge: Judge | None = None,
    ) -> Chosen:
        """Choose the penalties on held-out entries, then fit to all of them.

        ``how`` says where a threshold is to come from. Training scores say nothing about penalties, so those
        are compared on held-out entries regardless. ``last_judge`` is asked about the best of them.
        """
        settings = self._settings()
        how = how if grid.is_single or how != "train" else "cross-fit"
        rng = check_random_state(run.random_state)
        plan = hold_out_plan(labels, how, rng, by_row=self._holds_out_rows)
        self.candidates_ = ()
        self.held_out_metric_: float | None = None
        start: Factors | None = None
        guess = grid.at((len(grid.traces) // 3, grid.first_ridge, 0))
        penalties, threshold = guess, None
        if (plan >= 0).any():
            search = run.checkpoint.part("search")
            held_out = HeldOutJudge(problem, labels, plan, judge, settings, self.n_jobs, search)
            with contextlib.suppress(Stopped):
                # Without a single choice judged, the guess above has to do.
                best = self._select(held_out, labels, plan, grid, criterion, last_judge, run)
                penalties, threshold = best.penalties, best.threshold
                self.held_out_metric_ = best.metric_value
            start = held_out.fit_of_fold(0)
            if run.checkpoint.stopping() and held_out.best_so_far is not None:
                best, start = held_out.best_so_far
                penalties, threshold = best.penalties, best.threshold
                self.held_out_metric_ = best.metric_value
        elif how != "train":
            without = ["the threshold comes from training scores"] if criterion == "metric" else []
            without += [] if grid.is_single else ["the penalties are a guess"]
            if without:
                warn(
                    f"Only {labels.n_observed} labels are observed, too few to hold any out: "
                    f"{' and '.join(without)}.",
                    LabelgapWarning,
                )
        stopped = run.checkpoint.stopping
        if stopped() and (start is None or start.rank == 0):
            # Nothing that tells rows apart has been fitted yet: a few steps make a model of it.
            penalties, threshold, start = guess, None, None
            self.held_out_metric_ = None
            run = replace(run, checkpoint=Checkpoint())
            settings = replace(settings, max_iter=_HURRIED_STEPS)
        elif not stopped():
            run.stage("fitting")
        fit = self._last_fit(problem, labels, penalties, settings, start, run)
        if not stopped():
            self._warn_unless_converged(fit, settings.max_iter)
        self._keep_fit(fit, penalties)
        return Chosen(fit, penalties, threshold, problem)

    def _last_fit(
        self,
        problem: Problem,
        labels: ObservedLabels,
        penalties: Penalties,
        settings: SolverSettings,
        start: Factors | None,
        run: FitRun,
    ) -> Fit:
        """The fit to all entries."""
        self._say(f"fitting with trace_penalty={penalties.trace:.3g}, ridge_penalty={penalties.ridge:.3g}")
        objective = problem.objective(labels, free_intercept=penalties.intercept == 0)
        # A fit that is to stop at once keeps what goes with the threshold.
        if start is not None and not run.checkpoint.stopping():
            # A label that its entries cannot tell has the rate of all of them, not of those of a fold.
            start = start._replace(intercept=objective.starting_intercept())
        report = self._reporter(run.callback)
        checkpoint = run.checkpoint.part("fit")
        return settings.fit(
            problem, objective, penalties, warm_start=start, callback=report, checkpoint=checkpoint
        )

    def _keep_fit(self, fit: Fit, penalties: Penalties) -> None:
        self.trace_penalty_, self.ridge_penalty_ = penalties.trace, penalties.ridge
        self.intercept_penalty_ = penalties.intercept
        self.singular_values_, self.rank_ = fit.singular_values, fit.rank
        self.objective_, self.duality_gap_ = fit.objective, fit.gap
        self.relative_gap_ = fit.relative_gap
        self.n_iter_, self.history_ = fit.n_iter, fit.history

    def _select(
        self,
        held_out: HeldOutJudge,
        labels: ObservedLabels,
        plan: NDArray[np.int64],
        grid: PenaltyGrid,
        criterion: str,
        last_judge: Judge | None,
        run: FitRun,
    ) -> Candidate:
        """The best penalties with what they are worth over all held-out entries."""
        if grid.is_single:
            run.stage("scoring held-out entries")
            return self._tell(held_out(grid.at((0, 0, 0)), judge=last_judge), run)
        run.stage("choosing penalties")
        few = _folds_to_begin_with(labels, plan)
        coarse = few < held_out.n_folds
        search_tol, last_tol = (max(self.tol, tol) for tol in (_COARSE if coarse else _FINE))

        def compare(choices: Sequence[Penalties]) -> list[Candidate]:
            found = held_out.compare(choices, tol=search_tol, n_folds=few)
            return [self._tell(candidate, run) for candidate in found]

        best = select_penalties(compare, grid, criterion=criterion, coarse=coarse)
        with contextlib.suppress(Stopped):
            best = self._tell(held_out(best.penalties, tol=last_tol, judge=last_judge), run)
        return best

    def _tell(self, candidate: Candidate, run: FitRun) -> Candidate:
        """Keep a candidate, and report it."""
        self.candidates_ = (*self.candidates_, candidate)
        run.candidate(candidate)
        penalties = candidate.penalties
        self._say(
            f"trace {penalties.trace:.3g}, ridge {penalties.ridge:.3g}, intercept {penalties.intercept:.3g}: "
            f"held-out metric {candidate.metric_value:.4f}, loss {candidate.loss:.5g}, rank "
            f"{candidate.rank:.1f}, folds {candidate.n_folds}"
        )
        return candidate

    def _warn_unless_converged(self, fit: Fit, max_iter: int) -> None:
        if not fit.converged:
            warn(
                f"The solver stopped after {fit.n_iter} iterations at a relative duality gap of "
                f"{fit.relative_gap:.3e} (asked for: {self.tol:.1e}). "
                + (
                    "Raise max_iter or tol, or scale the features to similar lengths."
                    if fit.n_iter >= max_iter
                    else "It found no further progress; raise tol, or scale the features to similar lengths."
                ),
                ConvergenceWarning,
            )

    def _say(self, message: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {message}", flush=True)

    def _reporter(self, callback: Callback | None) -> Callback | None:
        if self.verbose < 2:
            return callback

        def report(progress: Progress) -> None:
            self._say(
                f"step {progress.iteration}: objective {progress.objective:.6g}, "
                f"gap {progress.gap:.1e}, rank {progress.rank}, {progress.seconds:.1f} s"
            )
            if callback is not None:
                callback(progress)

        return report

    @property
    def coef_(self) -> Floats:
        """W (d x L), multiplied out."""
        return self.coef_left_ @ self.coef_right_.T


def _folds_to_begin_with(labels: ObservedLabels, plan: NDArray[np.int64]) -> int:
    """How many folds have enough held-out entries between them to tell good penalties from bad ones."""
    n_folds = int(plan.max()) + 1
    values = labels.values
    rarer = min(int(np.sum(values == values.min())), int(np.sum(values != values.min())))
    for few in range(1, n_folds):
        share = few / n_folds
        if share * labels.n_observed >= _ENOUGH_ENTRIES and share * rarer >= _ENOUGH_RARE:
            return few
    return n_folds
