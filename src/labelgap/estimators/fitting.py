"""What the low-rank estimators share: their penalties, the choice among them, and the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from labelgap._names import check_choice, look_up
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.estimators.checks import check_number, check_penalty, check_whole
from labelgap.exceptions import ConvergenceWarning, InvalidParameterError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.objective.features import Features, looks_centred, make_features
from labelgap.objective.whitened import WhitenedFeatures
from labelgap.solvers import RIVALS, SOLVERS, Callback, Fit, Penalties, Progress, default_max_iter
from labelgap.solvers.path import (
    Candidate,
    HeldOutJudge,
    Judge,
    PenaltyGrid,
    Problem,
    SolverSettings,
    select_penalties,
)
from labelgap.thresholds.cross_fit import hold_out_plan

PENALTIES = ("weights", "scores")
# Candidates are compared on held-out entries; their fits need not be as exact as the last one.
SELECTION_TOL = 2e-2


class Chosen(NamedTuple):
    """A fit with the penalties that were chosen, and the threshold from held-out scores if there are any."""

    fit: Fit
    penalties: Penalties
    threshold: float | None


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

    candidates_: tuple[Candidate, ...]
    coef_left_: Floats
    coef_right_: Floats
    intercept_: Floats

    def _check_fit_parameters(self) -> None:
        check_choice("solver", self.solver, SOLVERS | RIVALS)
        check_choice("penalty", self.penalty, PENALTIES)
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
        check_whole("max_iter", self.max_iter, or_none="the solver's own limit")
        if self.solver in RIVALS and self.rank is None:
            raise InvalidParameterError(
                f"solver={self.solver!r} works at a fixed rank: give rank=, a whole number such as 10."
            )

    def _features(self, X: Any, intercept_penalty: float | str, *, bounded: bool) -> Features:
        """The features as the penalty and the intercepts allow to take them."""
        if self.penalty == "scores":
            return WhitenedFeatures(X)
        # A penalty on the intercepts, and a bound on XW, are about the origin that was handed in.
        return make_features(X, centre=self.fit_intercept and intercept_penalty == 0 and not bounded)

    def _intercept_choice(self, X: Any) -> float | str:
        """What is to be found out about κ: "auto" only where the origin of X is its centre (None: X = I)."""
        if not self.fit_intercept:
            return 0.0
        elsewhere = X is not None and self.intercept_penalty == "auto" and not looks_centred(X)
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
        callback: Callback | None,
        *,
        criterion: str = "metric",
    ) -> Chosen:
        """Choose the penalties on held-out entries, then fit to all of them.

        ``how`` says where a threshold is to come from. Training scores say nothing about penalties, so those
        are compared on held-out entries regardless.
        """
        settings = self._settings()
        how = how if grid.is_single or how != "train" else "cross-fit"
        plan = hold_out_plan(labels, how, check_random_state(self.random_state))
        self.candidates_ = ()
        self.held_out_metric_: float | None = None
        penalties, threshold = grid.at((len(grid.traces) // 3, grid.first_ridge, 0)), None
        if (plan >= 0).any():
            tol = settings.tol if grid.is_single else max(settings.tol, SELECTION_TOL)
            held_out = HeldOutJudge(problem, labels, plan, judge, replace(settings, tol=tol), self.n_jobs)
            selection = select_penalties(self._told(held_out), grid, criterion=criterion)
            self.candidates_ = selection.candidates
            penalties, threshold = selection.best.penalties, selection.best.threshold
            self.held_out_metric_ = selection.best.metric_value
        elif how != "train":
            without = ["the threshold comes from training scores"] if criterion == "metric" else []
            without += [] if grid.is_single else ["the penalties are a guess"]
            if without:
                warn(
                    f"Only {labels.n_observed} labels are observed, too few to hold any out: "
                    f"{' and '.join(without)}.",
                    LabelgapWarning,
                )
        self._say(f"fitting with trace_penalty={penalties.trace:.3g}, ridge_penalty={penalties.ridge:.3g}")
        objective = problem.objective(labels, free_intercept=penalties.intercept == 0)
        fit = settings.fit(problem, objective, penalties, callback=self._reporter(callback))
        self._warn_unless_converged(fit, settings.max_iter)
        self._keep_fit(fit, penalties)
        return Chosen(fit, penalties, threshold)

    def _keep_fit(self, fit: Fit, penalties: Penalties) -> None:
        self.trace_penalty_, self.ridge_penalty_ = penalties.trace, penalties.ridge
        self.intercept_penalty_ = penalties.intercept
        self.singular_values_, self.rank_ = fit.singular_values, fit.rank
        self.objective_, self.duality_gap_ = fit.objective, fit.gap
        self.relative_gap_ = fit.relative_gap
        self.n_iter_, self.history_ = fit.n_iter, fit.history

    def _told(self, judge: HeldOutJudge) -> Callable[[Penalties], Candidate]:
        def judge_and_tell(penalties: Penalties) -> Candidate:
            candidate = judge(penalties)
            self._say(
                f"trace {penalties.trace:.3g}, ridge {penalties.ridge:.3g}, intercept "
                f"{penalties.intercept:.3g}: held-out metric {candidate.metric_value:.4f}, "
                f"loss {candidate.loss:.5g}, rank {candidate.rank:.1f}"
            )
            return candidate

        return judge_and_tell

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
