"""The plug-in method with everything tuned: the baseline that has to be beaten.

Per-label logistic regression (scikit-learn's), one strength C for all labels. Every observed entry is scored,
at each strength, by a model that did not see it, with the folds that labelgap's estimators take for the same
``random_state``. Those scores choose C, by the metric at its best threshold or by the log-loss, and the
threshold. Then the labels are fitted to all of Ω.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.estimators.base import DecisionEstimator
from labelgap.estimators.inputs import warn_of_unseen_labels
from labelgap.estimators.score_models import LabelModels, draw_seeds, entries_by_label, fit_label_models
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.metrics import LinearFractional
from labelgap.objective.moments import smoothed_rates
from labelgap.thresholds import best_threshold
from labelgap.thresholds.cross_fit import gather, hold_out_plan, map_folds

CRITERIA = ("metric", "loss")
# C is 10^(step/2): from 0.03 to 3000, and on to 0.0001 and 100,000 where the best one is at an end.
FIRST_STEPS = range(-3, 8)
SMALLEST_STEP, LARGEST_STEP = -8, 10
# scikit-learn's own tolerance, 1e-4, stops short of the optimum of a rare label or a large C: on Bibtex,
# log-odds are then wrong by more than 1.
_TOL = 1e-6
_MAX_ITER = 10_000
# Up to so many dense features a Newton step is cheaper than the lbfgs steps that it saves.
_NEWTON_FEATURES = 128
# Directions of X that are this much smaller than the largest are taken for rounding errors.
_RELATIVE_RANK_TOL = 1e-7


def strength(step: int) -> float:
    """C at a step of the grid.

    >>> strength(-2), strength(4)
    (0.1, 100.0)
    """
    return float(10.0 ** (step / 2))


class Tried(NamedTuple):
    """A strength, with the metric and the loss of its out-of-fold scores."""

    C: float
    metric_value: float
    threshold: float
    """In log-odds."""
    loss: float


class TunedPlugIn(DecisionEstimator):
    """One logistic regression per label with one tuned strength, and the one threshold for the metric.

    Parameters
    ----------
    metric : str or LinearFractional, default "micro-f1"
        What the decisions are judged by.
    criterion : {"metric", "loss"}, default "metric"
        What C is chosen by, on out-of-fold scores over all of Ω: the metric at its best threshold, or the
        mean log-loss. The threshold is the best one for the metric either way.
    random_state : int, RandomState or None, default None
        Assigns entries to folds.

    Attributes
    ----------
    C_ : float
    threshold_ : float
        θ, in log-odds.
    candidates_ : tuple of Tried
        By rising C.

    Examples
    --------
    >>> from labelgap.data import make_low_rank_labels
    >>> toy = make_low_rank_labels(n=80, n_labels=4, n_features=3, rank=2, observed=0.5, random_state=0)
    >>> clf = TunedPlugIn(metric="micro-f1", random_state=0).fit(toy.X, toy.Y_observed)
    >>> bool(clf.score(toy.X_test, toy.Y_test) > 0.9), clf.C_ >= 1
    (True, True)
    """

    _model: LabelModels

    def __init__(
        self,
        metric: str | LinearFractional = "micro-f1",
        criterion: str = "metric",
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.criterion = criterion
        self.random_state = random_state

    def fit(self, X: Any, y: Any, held_out: OutOfFold | None = None) -> TunedPlugIn:
        """Choose C and θ, and fit to all of Ω.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : label matrix of shape (n, L), NaN = not observed
        held_out : OutOfFold or None, default None
            Scores made before for the same X, y and ``random_state``, so that several criteria and metrics
            cost as much as one.
        """
        check_choice("criterion", self.criterion, CRITERIA)
        metric = self._metric()
        X, targets = self._read_fit_input(X, y, "missing")
        labels = targets.labels
        warn_of_unseen_labels(labels)
        if held_out is None:
            held_out = OutOfFold(X, labels, self.random_state)
        elif held_out.labels != labels:
            raise InvalidParameterError("held_out is of other labels; leave it out, or make it of these.")
        self.candidates_, best = _choose(held_out, metric, self.criterion)
        self.C_, self.threshold_ = best.C, best.threshold
        self._rows = held_out.rows
        rows = self._rows.of(X)
        model = logistic_regression(rows).set_params(C=self.C_)
        seeds = draw_seeds(check_random_state(0), labels.shape[1])
        self._model = fit_label_models(model, rows, labels, seeds, "decision_function", None)
        return self

    def _score_rows(self, X: Any) -> Floats:
        return self._model.score_rows(self._rows.of(X))

    def _score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        return self._model.score_entries(self._rows.of(X), labels)

    def _probabilities(self, scores: Floats) -> Floats:
        return np.asarray(expit(scores))


def tuned_plug_in(metric: str, seed: int) -> TunedPlugIn:
    """The baseline with C chosen by the metric, as labelgap chooses its penalties.

    >>> tuned_plug_in("micro-f1", 3)
    TunedPlugIn(random_state=3)
    """
    return TunedPlugIn(metric=metric, criterion="metric", random_state=seed)


# -- choosing ----------------------------------------------------------------------------------------------


def _choose(held_out: OutOfFold, metric: LinearFractional, criterion: str) -> tuple[tuple[Tried, ...], Tried]:
    """All strengths that were tried, and the best, which is at no end of them unless the grid ends there."""
    tried = {step: _judge(held_out, step, metric) for step in held_out.first_steps()}

    def quality(step: int) -> float:
        return tried[step].metric_value if criterion == "metric" else -tried[step].loss

    while True:
        steps = sorted(tried)
        best = max(steps, key=quality)
        if best == steps[0] and best > SMALLEST_STEP:
            step = best - 1
        elif best == steps[-1] and best < LARGEST_STEP:
            step = best + 1
        else:
            return tuple(tried[step] for step in steps), tried[best]
        tried[step] = _judge(held_out, step, metric)


def _judge(held_out: OutOfFold, step: int, metric: LinearFractional) -> Tried:
    scores, labels = held_out.scores(step), held_out.labels
    best = best_threshold(scores, labels, metric)
    loss = float(np.mean(get_loss("logistic").value(scores, labels.values)))
    return Tried(strength(step), best.value, best.threshold, loss)


class OutOfFold:
    """Scores (log-odds) of all observed entries from models that did not see them, by strength.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
    labels : ObservedLabels
    random_state : int, RandomState or None
        Assigns entries to five folds, as labelgap's estimators do.
    """

    seconds: float
    """The time of all fits so far."""

    def __init__(self, X: Any, labels: ObservedLabels, random_state: Any) -> None:
        if labels.weights is not None:
            raise InvalidParameterError("The tuned plug-in takes no weights; use labels.with_weights(None).")
        began = time.perf_counter()
        self.labels = labels
        self.rows = Rows(X)
        self._X = self.rows.of(X)
        rng, wide = check_random_state(random_state), X.shape[1] > X.shape[0]
        self._plan = hold_out_plan(labels, "cross-fit", rng, by_row=wide)
        if not (self._plan >= 0).all():
            raise InvalidLabelsError(
                f"{labels.n_observed} observed labels are too few to choose a strength by; give at least 4."
            )
        self._scores: dict[int, Floats] = {}
        self.seconds = time.perf_counter() - began

    def first_steps(self) -> Sequence[int]:
        """The strengths that are always tried, after they have been scored."""
        missing = [step for step in FIRST_STEPS if step not in self._scores]
        if missing:
            self._fit(missing)
        return FIRST_STEPS

    def scores(self, step: int) -> Floats:
        """The scores at one strength, in the order of Ω."""
        if step not in self._scores:
            self._fit([step])
        return self._scores[step]

    def _fit(self, steps: Sequence[int]) -> None:
        began = time.perf_counter()

        def score_held_out(_: int, train: ObservedLabels, held: ObservedLabels) -> Floats:
            return _held_out_scores(self._X, train, held, [strength(step) for step in steps])

        # One BLAS thread: the problems of single labels are too small to be shared.
        with threadpool_limits(limits=1, user_api="blas"), sklearn.config_context(assume_finite=True):
            by_fold = map_folds(self.labels, self._plan, score_held_out)
        for place, step in enumerate(steps):
            self._scores[step] = gather(self._plan, [scores[place] for scores in by_fold])[1]
        self.seconds += time.perf_counter() - began


def _held_out_scores(X: Any, train: ObservedLabels, held: ObservedLabels, strengths: list[float]) -> Floats:
    """A row of scores of the held-out entries for each strength."""
    rates, informative = smoothed_rates(train)
    log_odds = np.log(rates) - np.log1p(-rates)
    scores = np.tile(log_odds[held.indices], (len(strengths), 1))
    for (label, known), (_, hidden) in zip(entries_by_label(train), entries_by_label(held), strict=True):
        if not informative[label] or not len(hidden):
            continue
        X_known, X_hidden = X[train.rows[known]], X[held.rows[hidden]]
        # Each strength starts from the solution of the one before.
        model = logistic_regression(X).set_params(warm_start=True)
        for place, C in enumerate(strengths):
            model.set_params(C=C).fit(X_known, train.values[known])
            scores[place, hidden] = model.decision_function(X_hidden)
    return scores


# -- fitting -----------------------------------------------------------------------------------------------


def logistic_regression(X: Any) -> LogisticRegression:
    """scikit-learn's logistic regression, with the faster solver for such features, solved accurately."""
    newton = not sp.issparse(X) and X.shape[1] <= _NEWTON_FEATURES
    return LogisticRegression(solver="newton-cholesky" if newton else "lbfgs", tol=_TOL, max_iter=_MAX_ITER)


class Rows:
    """Features in as few columns as will do: X itself, or with d > n its coordinates in the span of its rows.

    A ridge keeps every w within that span, and a rotation changes neither scores nor lengths. So the fit is
    the same, with at most n features.
    """

    def __init__(self, X: Any) -> None:
        self._basis: Floats | None = None
        if X.shape[1] <= X.shape[0]:
            return
        gram = X @ X.T
        values, vectors = np.linalg.eigh(gram.toarray() if sp.issparse(gram) else gram)
        kept = values > _RELATIVE_RANK_TOL**2 * max(values[-1], np.finfo(float).tiny)
        if kept.any():
            self._basis = np.asarray(X.T @ (vectors[:, kept] / np.sqrt(values[kept])))

    def of(self, X: Any) -> Any:
        """Rows of these features."""
        return X if self._basis is None else np.asarray(X @ self._basis)


def one_pass(X: Any, labels: ObservedLabels) -> int:
    """Plain scikit-learn: one LogisticRegression with default settings for every label with both classes.

    No folds, no choice, no threshold. Times are given as multiples of its time. Returns how many were fitted.
    """
    informative = smoothed_rates(labels).informative
    with threadpool_limits(limits=1, user_api="blas"):
        for label, entries in entries_by_label(labels):
            if informative[label]:
                LogisticRegression(max_iter=1000).fit(X[labels.rows[entries]], labels.values[entries])
    return int(informative.sum())
