"""The paper's method: a certified low-rank fit and one exact threshold."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from labelgap._names import check_choice, look_up
from labelgap._types import Floats
from labelgap.estimators.automatic import penalty_grid
from labelgap.estimators.base import THRESHOLDS, DecisionEstimator, warn_of_unseen_labels
from labelgap.estimators.checks import check_number, check_penalty, check_whole, refuse_huge
from labelgap.exceptions import (
    ConvergenceWarning,
    InvalidParameterError,
    LabelgapWarning,
)
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss, get_loss
from labelgap.metrics import LinearFractional
from labelgap.objective.features import looks_centred, make_features
from labelgap.objective.kernels.entries import sampled_product
from labelgap.objective.problem import ObservedProblem
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, Callback, Fit, Penalties, Progress, default_max_iter
from labelgap.solvers.path import (
    Candidate,
    HeldOutJudge,
    SolverSettings,
    select_penalties,
)
from labelgap.thresholds.cross_fit import hold_out_plan
from labelgap.thresholds.sweep import best_threshold

# Candidates are compared on held-out entries; their fits need not be as exact as the last one.
_SELECTION_TOL = 2e-2


class LowRankClassifier(DecisionEstimator):
    """Yes/no decisions for many labels from features and incomplete labels.

    Fits, over the observed entries Ω,

        ``min_{W,b}  1/|Ω| Σ_Ω ℓ(x_i·w_j + b_j, y_ij) + λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 Σ_j (b_j − c)²``

    (``|XW| ≤ γ`` on request) to a proven duality gap, and decides ``x·w_j + b_j ≥ θ`` with the one θ that
    maximises the metric over observed entries.

    Parameters
    ----------
    metric : str or LinearFractional, default "micro-f1"
        What the decisions are judged by; see :func:`labelgap.get_metric`.
    loss : {"logistic", "squared", "squared_hinge", "exponential"} or Loss, default "logistic"
    trace_penalty : float or "auto", default "auto"
        λ. "auto" chooses it on held-out entries by the metric.
    ridge_penalty : float or "auto", default "auto"
        λ₂. "auto" chooses it together with λ.
    rank : int or None, default None
        A cap on the rank of W. None lets the certificate decide.
    score_bound : float or None, default None
        γ, a bound that every ``|x_i·w_j|`` of the training rows obeys.
    unobserved : {"missing", "negative"}, default "missing"
        What an absent entry of y means.
    threshold : {"cross-fit", "holdout", "train"}, default "cross-fit"
        Where θ comes from: out-of-fold scores over all of Ω, a fifth of Ω held out once, or the training
        scores (the paper's choice, optimistic on real data). The model itself is always fitted to all of Ω.
    solver : {"factored", "proximal"}, default "factored"
    fit_intercept : bool, default True
        One intercept per label.
    tol : float, default 1e-3
        Relative duality gap at which the fit stops.
    max_iter : int or None, default None
        Iterations of the solver for one fit. None: 500 for "factored", 5000 for "proximal".
    random_state : int, RandomState or None, default None
        Assigns entries to folds.
    n_jobs : int or None, default None
        Folds fitted side by side, in threads.
    verbose : int, default 0
        1 reports the stages, 2 each round of the solver too.
    intercept_penalty : float or "auto", default "auto"
        κ, a pull of the intercepts towards the score c of the overall rate of positives; 0 leaves them free.
        "auto" chooses it together with λ and λ₂ where the columns of X are centred (as after
        standardising), and is 0 where they are not, since b is the score at the origin.

    Attributes
    ----------
    coef_left_, coef_right_ : arrays of shape (d, k) and (L, k)
        ``W = coef_left_ @ coef_right_.T``.
    coef_ : array of shape (d, L)
        W itself, made on request.
    intercept_ : array of shape (L,)
    threshold_ : float
        θ, in units of the scores.
    rank_ : int
    singular_values_ : array of shape (k,)
    trace_penalty_, ridge_penalty_, intercept_penalty_ : float
        The penalties used.
    objective_ : float
        The penalised objective reached.
    duality_gap_ : float
        Absolute; the objective is at most this far above its minimum over all W and b.
    n_iter_ : int
    history_ : tuple of Progress
        Objective, relative gap, rank and time during the last fit.
    candidates_ : tuple of Candidate
        What was compared on held-out entries (empty when nothing was held out).
    loss_ : Loss
    metric_ : LinearFractional
    classes_, n_labels_, label_names_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from labelgap import LowRankClassifier
    >>> from labelgap.data import make_low_rank_labels
    >>> problem = make_low_rank_labels(n=300, n_labels=20, observed=0.3, random_state=0)
    >>> clf = LowRankClassifier(metric="micro-f1", random_state=0).fit(problem.X, problem.Y_observed)
    >>> bool(clf.score(problem.X_test, problem.Y_test) > 0.9)
    True
    """

    def __init__(
        self,
        metric: str | LinearFractional = "micro-f1",
        loss: str | Loss = "logistic",
        trace_penalty: float | str = "auto",
        ridge_penalty: float | str = "auto",
        rank: int | None = None,
        score_bound: float | None = None,
        unobserved: str = "missing",
        threshold: str = "cross-fit",
        solver: str = "factored",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        intercept_penalty: float | str = "auto",
    ) -> None:
        self.metric = metric
        self.loss = loss
        self.trace_penalty = trace_penalty
        self.ridge_penalty = ridge_penalty
        self.intercept_penalty = intercept_penalty
        self.rank = rank
        self.score_bound = score_bound
        self.unobserved = unobserved
        self.threshold = threshold
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ---------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, callback: Callback | None = None) -> LowRankClassifier:
        """Fit W, b and θ.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : label matrix of shape (n, L) in any form that ``ObservedLabels.from_any`` takes, NaN = not
            observed; or a 1-d array with two classes
        callback : callable, optional
            Called with a :class:`labelgap.solvers.Progress` after each round of the last fit.
        """
        self._check_parameters()
        loss, metric = get_loss(self.loss), self._metric()
        self.loss_ = loss
        X, targets = self._read_fit_input(X, y, self.unobserved)
        labels = targets.labels
        refuse_huge(X)
        warn_of_unseen_labels(labels)
        # One BLAS thread: the products here are thin, idle BLAS threads slow the kernels down, and sums
        # must not depend on how many threads there are.
        with threadpool_limits(limits=1, user_api="blas"):
            intercept_penalty = self._intercept_choice(X)
            # A penalty on the intercepts, and a bound on XW, are about the origin that was handed in.
            movable = self.fit_intercept and intercept_penalty == 0 and self.score_bound is None
            features = make_features(X, centre=movable)
            problem = ObservedProblem(
                features,
                labels.shape[1],
                loss,
                fit_intercept=self.fit_intercept,
                score_bound=self.score_bound,
            )
            fit = self._choose_and_fit(problem, labels, metric, intercept_penalty, callback)
        self._keep(features.to_original(fit.factors), fit)
        return self

    def _choose_and_fit(
        self,
        problem: ObservedProblem,
        labels: ObservedLabels,
        metric: LinearFractional,
        intercept_penalty: float | str,
        callback: Any,
    ) -> Fit:
        settings = SolverSettings(
            solver=look_up("solver", self.solver, SOLVERS),
            rank=self.rank,
            tol=self.tol,
            max_iter=self.max_iter or default_max_iter(self.solver),
        )
        grid = penalty_grid(
            problem,
            labels,
            trace=self.trace_penalty,
            ridge=self.ridge_penalty,
            intercept=intercept_penalty,
        )
        # Training scores say nothing about penalties, so those are compared on held-out entries regardless.
        how = self.threshold if grid.is_single or self.threshold != "train" else "cross-fit"
        plan = hold_out_plan(labels, how, check_random_state(self.random_state))
        self.candidates_: tuple[Candidate, ...] = ()
        penalties, threshold = grid.at((len(grid.traces) // 3, grid.first_ridge, 0)), None
        if (plan >= 0).any():
            tol = settings.tol if grid.is_single else max(settings.tol, _SELECTION_TOL)
            judge = HeldOutJudge(problem, labels, plan, metric, replace(settings, tol=tol), self.n_jobs)
            selection = select_penalties(self._told(judge), grid)
            self.candidates_ = selection.candidates
            penalties, threshold = selection.best.penalties, selection.best.threshold
        elif how != "train":
            warnings.warn(
                f"Only {labels.n_observed} labels are observed, too few to hold any out: the threshold comes "
                "from training scores" + ("." if grid.is_single else " and the penalties are a guess."),
                LabelgapWarning,
                stacklevel=4,
            )
        self._say(f"fitting with trace_penalty={penalties.trace:.3g}, ridge_penalty={penalties.ridge:.3g}")
        objective = problem.objective(labels, free_intercept=penalties.intercept == 0)
        fit = settings.fit(problem, objective, penalties, callback=self._reporter(callback))
        self._warn_unless_converged(fit, settings.max_iter)
        if threshold is None or self.threshold == "train":
            threshold = best_threshold(problem.scores(fit.factors, labels), labels, metric).threshold
        self.threshold_ = threshold
        self.trace_penalty_, self.ridge_penalty_ = penalties.trace, penalties.ridge
        self.intercept_penalty_ = penalties.intercept
        return fit

    def _intercept_choice(self, X: Any) -> float | str:
        """What is to be found out about κ: "auto" only where the origin of X is its centre."""
        if not self.fit_intercept:
            return 0.0
        return 0.0 if self.intercept_penalty == "auto" and not looks_centred(X) else self.intercept_penalty

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

    def _keep(self, factors: Factors, fit: Fit) -> None:
        self.coef_left_, self.coef_right_, self.intercept_ = factors
        self.singular_values_ = fit.singular_values
        self.rank_ = fit.rank
        self.objective_, self.duality_gap_ = fit.objective, fit.gap
        self.n_iter_, self.history_ = fit.n_iter, fit.history

    def _check_parameters(self) -> None:
        check_choice("threshold", self.threshold, THRESHOLDS)
        check_choice("solver", self.solver, SOLVERS)
        for name in ("trace_penalty", "ridge_penalty", "intercept_penalty"):
            check_penalty(name, getattr(self, name))
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise InvalidParameterError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        if not self.fit_intercept and self.intercept_penalty not in ("auto", 0):
            raise InvalidParameterError(
                f"intercept_penalty is {self.intercept_penalty!r} but fit_intercept is False, so there is "
                "nothing to penalise. Leave it at 'auto', or fit an intercept."
            )
        check_number("score_bound", self.score_bound, above=0.0, or_none="no bound on the scores")
        check_number("tol", self.tol, above=0.0, below=1.0)
        check_whole("rank", self.rank, or_none="no cap")
        check_whole("max_iter", self.max_iter, or_none="the solver's own limit")

    def _warn_unless_converged(self, fit: Fit, max_iter: int) -> None:
        if not fit.converged:
            warnings.warn(
                f"The solver stopped after {fit.n_iter} iterations at a relative duality gap of "
                f"{fit.relative_gap:.3e} (asked for: {self.tol:.1e}). "
                + (
                    "Raise max_iter or tol, or scale the features to similar lengths."
                    if fit.n_iter >= max_iter
                    else "It found no further progress; raise tol, or scale the features to similar lengths."
                ),
                ConvergenceWarning,
                stacklevel=4,
            )

    def _say(self, message: str) -> None:
        if self.verbose:
            print(f"[LowRankClassifier] {message}", flush=True)

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

    # -- scoring ---------------------------------------------------------------------------------------

    @property
    def coef_(self) -> Floats:
        """W (d x L), multiplied out."""
        return self.coef_left_ @ self.coef_right_.T

    def _score_rows(self, X: Any) -> Floats:
        return np.asarray(X @ self.coef_left_) @ self.coef_right_.T + self.intercept_

    def _score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        P = np.ascontiguousarray(X @ self.coef_left_)
        low_rank = sampled_product(labels.indptr, labels.indices, P, np.ascontiguousarray(self.coef_right_))
        return np.asarray(low_rank + self.intercept_[labels.indices])

    def _probabilities(self, scores: Floats) -> Floats:
        return np.asarray(self.loss_.inverse_link(scores))
