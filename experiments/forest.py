"""A random forest per label and one threshold: the baseline that needs no scaling and no linear features."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from labelgap._types import Floats
from labelgap.estimators.base import DecisionEstimator
from labelgap.estimators.score_models import LabelModels, draw_seeds, entries_by_label, fit_label_models
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.thresholds import best_threshold

N_TREES = 100


class ForestPlugIn(DecisionEstimator):
    """One forest per label, and the one threshold that is best for the metric on out-of-bag probabilities.

    Every entry is scored by the trees that did not see it, so that one fit does for the threshold too.

    Parameters
    ----------
    metric : str or LinearFractional, default "micro-f1"
        What the decisions are judged by.
    random_state : int, RandomState or None, default None

    Examples
    --------
    >>> from labelgap.data import make_low_rank_labels
    >>> toy = make_low_rank_labels(n=80, n_labels=4, n_features=3, rank=2, observed=0.5, random_state=0)
    >>> clf = ForestPlugIn(random_state=0).fit(toy.X, toy.Y_observed)
    >>> bool(clf.score(toy.X_test, toy.Y_test) > 0.7)
    True
    """

    _model: LabelModels

    def __init__(self, metric: str | LinearFractional = "micro-f1", random_state: Any = None) -> None:
        self.metric = metric
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ForestPlugIn:
        """Fit the forests, and θ.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : label matrix of shape (n, L), NaN = not observed
        """
        metric = self._metric()
        X, targets = self._read_fit_input(X, y, "missing")
        labels = targets.labels
        seeds = draw_seeds(np.random.RandomState(self.random_state), labels.shape[1])
        forest = RandomForestClassifier(N_TREES, oob_score=_ignored_score)
        self._model = fit_label_models(forest, X, labels, seeds, "predict_proba", None)
        scores: Floats = self._model.constants[labels.indices].copy()
        for label, entries in entries_by_label(labels):
            fitted = self._model.estimators[label]
            if fitted is not None:
                found = fitted.oob_decision_function_[:, 1]
                # With few rows, all trees may have seen one.
                scores[entries] = np.where(np.isnan(found), self._model.constants[label], found)
        self.threshold_ = best_threshold(scores, labels, metric).threshold
        return self

    def _score_rows(self, X: Any) -> Floats:
        return self._model.score_rows(X)

    def _score_entries(self, X: Any, labels: ObservedLabels) -> Floats:
        return self._model.score_entries(X, labels)

    def _probabilities(self, scores: Floats) -> Floats:
        return scores


def _ignored_score(truth: Any, predicted: Any) -> float:
    """A score that costs nothing: only the probabilities behind it are used."""
    return 0.0
