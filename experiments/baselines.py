"""The baselines that have to be beaten: a tuned logistic regression per label, and a random forest per label.

Of the tuned plug-in, one strength C serves all labels. Every observed entry is scored, at each strength, by a
model that did not see it, with the folds that labelgap's estimators take for the same ``random_state``. Those
scores choose C, by the metric at its best threshold or by the log-loss, and the threshold. Then the labels
are fitted to all of Ω. The forest chooses its threshold on out-of-bag probabilities.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from labelgap import ObservedLabels, best_threshold, get_metric
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.objective.moments import smoothed_rates

Floats = NDArray[np.float64]

CRITERIA = ("metric", "loss")
N_FOLDS, N_TREES = 5, 100
# scikit-learn's own tolerance, 1e-4, stops short of the optimum of a rare label or a large C: on Bibtex,
# log-odds are then wrong by more than 1.
_TOL, _MAX_ITER = 1e-6, 10_000
# Up to so many dense features a Newton step is cheaper than the lbfgs steps that it saves.
_NEWTON_FEATURES = 128


class Grid(NamedTuple):
    """Steps of C, which is 10^(step/2): the first ones, and how far to go on where the best is at an end."""

    first: Sequence[int] = range(-3, 8)
    smallest: int = -8
    largest: int = 10


GRID = Grid()


def strength(step: int) -> float:
    """C at a step of the grid: 0.1 at −2, 100 at 4."""
    return float(10.0 ** (step / 2))


class Tried(NamedTuple):
    """A strength, with the metric and the loss of its out-of-fold scores; the threshold is in log-odds."""

    C: float
    metric_value: float
    threshold: float
    loss: float


def entries_by_label(labels: ObservedLabels) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each label with the numbers of its entries, in the order of the rows."""
    order = np.argsort(labels.indices, kind="stable")
    parts = np.split(order, np.cumsum(labels.label_counts())[:-1])
    return enumerate(parts)


class PerLabel:
    """One model for each label with both classes, and a constant for each other label."""

    def __init__(self, model: Any, X: Any, labels: ObservedLabels, constants: Floats, seed: int) -> None:
        self.constants, self.models = constants, []
        for label, entries in entries_by_label(labels):
            y, one = labels.values[entries], None
            if len(y) and y.min() < y.max():
                one = clone(model).set_params(random_state=1000 * seed + label)
                one.fit(X[labels.rows[entries]], y)
            self.models.append(one)

    def scores(self, X: Any, score: Callable[[Any, Any], Floats]) -> Floats:
        """``score(model, X)`` for each label."""
        found = np.tile(self.constants, (X.shape[0], 1))
        for label, model in enumerate(self.models):
            if model is not None:
                found[:, label] = score(model, X)
        return found


class Decider:
    """Decides yes where a score is at least the threshold."""

    metric: str
    threshold_: float

    def decision_function(self, X: Any) -> Floats:
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[np.bool_]:
        return self.decision_function(X) >= self.threshold_

    def score(self, X: Any, y: Any, unobserved: str = "missing") -> float:
        return float(get_metric(self.metric)(_labels(y, unobserved), self.predict(X)))


def _labels(y: Any, unobserved: str = "missing") -> ObservedLabels:
    return y if isinstance(y, ObservedLabels) else ObservedLabels.from_any(y, unobserved=unobserved)


# -- the tuned plug-in -------------------------------------------------------------------------------------


class TunedPlugIn(Decider):
    """One logistic regression per label with one tuned strength, and the one threshold for the metric.

    ``criterion`` says what C is chosen by, on out-of-fold scores over all of Ω: "metric", at its best
    threshold, or "loss", the mean log-loss. The threshold is the best one for the metric either way.
    ``C_`` and ``threshold_`` are chosen among ``candidates_``, which are by rising C.
    """

    def __init__(
        self,
        metric: str = "micro-f1",
        criterion: str = "metric",
        random_state: int = 0,
        grid: Grid = GRID,
    ) -> None:
        if criterion not in CRITERIA:
            raise InvalidParameterError(f"criterion must be one of {CRITERIA}; got {criterion!r}.")
        self.metric, self.criterion, self.random_state, self.grid = metric, criterion, random_state, grid

    def fit(self, X: Any, y: Any, held_out: OutOfFold | None = None) -> TunedPlugIn:
        """Choose C and θ, and fit to all of Ω.

        ``held_out`` are scores made before for the same X, y and ``random_state``, so that several criteria
        and metrics cost as much as one.
        """
        labels = _labels(y)
        if held_out is None:
            held_out = OutOfFold(X, labels, self.random_state)
        elif held_out.labels != labels:
            raise InvalidParameterError("held_out is of other labels; leave it out, or make it of these.")
        self.candidates_, best = self._choose(held_out)
        self.C_, self.threshold_ = best.C, best.threshold
        model = logistic_regression(X).set_params(C=self.C_)
        self._model = PerLabel(model, X, labels, _log_odds(labels), self.random_state)
        return self

    def decision_function(self, X: Any) -> Floats:
        return self._model.scores(X, lambda model, X: model.decision_function(X))

    def predict_proba(self, X: Any) -> Floats:
        return np.asarray(expit(self.decision_function(X)))

    @property
    def threshold_probability_(self) -> float:
        return float(expit(self.threshold_))

    def _choose(self, held_out: OutOfFold) -> tuple[tuple[Tried, ...], Tried]:
        """All strengths that were tried, and the best, at no end of them unless the grid ends there."""
        metric = get_metric(self.metric)
        held_out.prepare(self.grid.first)
        tried = {step: held_out.judged(step, metric) for step in self.grid.first}

        def quality(step: int) -> float:
            return tried[step].metric_value if self.criterion == "metric" else -tried[step].loss

        while True:
            steps = sorted(tried)
            best = max(steps, key=quality)
            if best == steps[0] and best > self.grid.smallest:
                step = best - 1
            elif best == steps[-1] and best < self.grid.largest:
                step = best + 1
            else:
                return tuple(tried[step] for step in steps), tried[best]
            tried[step] = held_out.judged(step, metric)


class OutOfFold:
    """Scores (log-odds) of all observed entries from models that did not see them, by strength.

    Entries are assigned to five folds as labelgap's estimators do.
    """

    seconds: float
    """The time of all fits so far."""

    def __init__(self, X: Any, labels: ObservedLabels, random_state: int) -> None:
        if labels.weights is not None:
            raise InvalidParameterError("The tuned plug-in takes no weights; use labels.with_weights(None).")
        if labels.n_observed < 2 * N_FOLDS:
            raise InvalidLabelsError(f"{labels.n_observed} observed labels are too few for {N_FOLDS} folds.")
        self.labels, self._X, self.seconds = labels, X, 0.0
        self.folds = labels.fold_numbers(N_FOLDS, random_state=random_state)
        self._scores: dict[int, Floats] = {}

    def prepare(self, steps: Sequence[int]) -> None:
        """Score at several strengths, each of which starts from the solution of the one before."""
        began = time.perf_counter()
        steps = [step for step in steps if step not in self._scores]
        found = np.empty((len(steps), self.labels.n_observed))
        # One BLAS thread: the problems of single labels are too small to be shared.
        with threadpool_limits(limits=1, user_api="blas"), sklearn.config_context(assume_finite=True):
            for fold in range(N_FOLDS if steps else 0):
                held = self.folds == fold
                parts = self.labels.select(~held), self.labels.select(held)
                found[:, held] = _held_out_scores(self._X, *parts, [strength(step) for step in steps])
        self._scores |= dict(zip(steps, found, strict=True))
        self.seconds += time.perf_counter() - began

    def judged(self, step: int, metric: Any) -> Tried:
        """A strength with its metric and loss."""
        self.prepare([step])
        scores, labels = self._scores[step], self.labels
        best = best_threshold(scores, labels, metric)
        loss = float(np.mean(np.logaddexp(0, np.where(labels.values == 1, -scores, scores))))
        return Tried(strength(step), best.value, best.threshold, loss)


def _log_odds(labels: ObservedLabels) -> Floats:
    rates = smoothed_rates(labels).rate
    return np.log(rates) - np.log1p(-rates)


def _held_out_scores(X: Any, train: ObservedLabels, held: ObservedLabels, strengths: list[float]) -> Floats:
    """A row of scores of the held-out entries for each strength."""
    scores = np.tile(_log_odds(train)[held.indices], (len(strengths), 1))
    for (_, known), (_, hidden) in zip(entries_by_label(train), entries_by_label(held), strict=True):
        y = train.values[known]
        if not len(hidden) or not len(y) or y.min() == y.max():
            continue
        X_known, X_hidden = X[train.rows[known]], X[held.rows[hidden]]
        model = logistic_regression(X).set_params(warm_start=True)
        for place, C in enumerate(strengths):
            model.set_params(C=C).fit(X_known, y)
            scores[place, hidden] = model.decision_function(X_hidden)
    return scores


def logistic_regression(X: Any) -> LogisticRegression:
    """scikit-learn's logistic regression, with the faster solver for such features, solved accurately."""
    newton = not sp.issparse(X) and X.shape[1] <= _NEWTON_FEATURES
    return LogisticRegression(solver="newton-cholesky" if newton else "lbfgs", tol=_TOL, max_iter=_MAX_ITER)


def one_pass(X: Any, labels: ObservedLabels) -> int:
    """Plain scikit-learn: one LogisticRegression with default settings for every label with both classes.

    No folds, no choice, no threshold. Times are given as multiples of its time. Returns how many were fitted.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        models = PerLabel(LogisticRegression(max_iter=1000), X, labels, np.zeros(labels.shape[1]), 0).models
    return sum(model is not None for model in models)


# -- the forest --------------------------------------------------------------------------------------------


class ForestPlugIn(Decider):
    """One forest per label, and the one threshold that is best for the metric on out-of-bag probabilities.

    Every entry is scored by the trees that did not see it, so that one fit does for the threshold too.
    """

    def __init__(self, metric: str = "micro-f1", random_state: int = 0) -> None:
        self.metric, self.random_state = metric, random_state

    def fit(self, X: Any, y: Any) -> ForestPlugIn:
        labels = _labels(y)
        # A score that costs nothing: only the probabilities behind it are used.
        forest = RandomForestClassifier(N_TREES, oob_score=lambda truth, predicted: 0.0)
        rates = smoothed_rates(labels).rate
        self._model = PerLabel(forest, X, labels, rates, self.random_state)
        scores = rates[labels.indices].copy()
        for (label, entries), model in zip(entries_by_label(labels), self._model.models, strict=True):
            if model is not None:
                found = model.oob_decision_function_[:, 1]
                # With few rows, all trees may have seen one.
                scores[entries] = np.where(np.isnan(found), rates[label], found)
        self.threshold_ = best_threshold(scores, labels, self.metric).threshold
        return self

    def decision_function(self, X: Any) -> Floats:
        return self._model.scores(X, lambda model, X: model.predict_proba(X)[:, 1])
