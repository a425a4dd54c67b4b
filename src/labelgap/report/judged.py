"""What a page judges: the observed entries of a data set with a fitted model's scores for them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples, check_is_fitted

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.estimators.base import DecisionEstimator
from labelgap.estimators.deciding import relative_scores
from labelgap.estimators.inputs import read_judged_labels
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.labels.matching import match_labels
from labelgap.metrics import LinearFractional
from labelgap.metrics.linear_fractional import judged_labels
from labelgap.recommending.factor_model import contains
from labelgap.recommending.serving import Recommending
from labelgap.report.innermost import Innermost, innermost


@dataclass(frozen=True)
class Judged:
    """Observed entries, their scores, and the model's threshold on the same scale.

    Where labels have thresholds of their own, scores are moved by how far these are from the shared one.
    """

    model: Any
    """The estimator itself, without the steps of a pipeline before it."""
    X: Any
    """What it read of the features; None where it takes none."""
    labels: ObservedLabels
    scores: Floats
    probabilities: Floats | None
    """The probability of yes at each entry, where the model gives one."""
    n_left_out: int = 0
    """Entries that the model decides whatever their score, which are not judged."""
    feature_names: list[str] | None = None
    """What the steps of a pipeline before the model call the features."""

    @property
    def metric(self) -> LinearFractional:
        metric: LinearFractional = self.model.metric_
        return metric

    @property
    def threshold(self) -> float:
        return relative_scores(self.model, np.zeros(0), np.zeros(0, np.int64))[1]

    @property
    def is_recommender(self) -> bool:
        return isinstance(self.model, Recommending)

    @property
    def fitted_to(self) -> str:
        """What an absent entry meant in the fit."""
        unobserved: str = self.model._silence if self.is_recommender else self.model._unobserved
        return unobserved

    def in_label_order(self, names: Sequence[Hashable] | None) -> Judged:
        """The same with its labels in the order of these names, where both have names."""
        labels, numbers = match_labels(self.labels, names, wanted_in="the model of the report")
        probabilities = None if self.probabilities is None else self.probabilities[numbers]
        return replace(self, labels=labels, scores=self.scores[numbers], probabilities=probabilities)

    def probabilities_at(self, thresholds: Floats) -> Floats | None:
        """Thresholds on the scale of probabilities."""
        several = isinstance(self.model, DecisionEstimator) and not isinstance(self.model._cut(), float)
        if self.probabilities is None or several:
            return None
        with np.errstate(all="ignore"):
            return _probabilities(self.model, thresholds)


def judge(model: Any, X: Any, y: Any) -> Judged:
    """Score the observed entries of y, which are all that is ever scored.

    Parameters
    ----------
    model : fitted LowRankClassifier, PlugInClassifier, MetricThreshold or Recommender
        Or a pipeline that ends in one, or a finished search for one.
    X : features of the rows; None for a recommender
    y : labels, or a recommender's ratings, in any form that the model's ``fit`` takes
    """
    return judge_innermost(innermost(model, X), y)


def judge_innermost(found: Innermost, y: Any) -> Judged:
    """As :func:`judge`, of a model that nothing stands around any more."""
    estimator, X, feature_names = found
    if isinstance(estimator, Recommending):
        return _judge_ratings(estimator, X, y)
    if not isinstance(estimator, DecisionEstimator):
        raise InvalidParameterError(
            "A report is about a fitted LowRankClassifier, PlugInClassifier, MetricThreshold, Recommender or "
            f"LowRankRegressor (or a pipeline that ends in one, or a search that has refitted one), not "
            f"{type(estimator).__name__}. Put another classifier into MetricThreshold(classifier)."
        )
    check_is_fitted(estimator)
    X = estimator._read_features(X, reset=False)
    fitted_to = estimator._unobserved
    labels = read_judged_labels(estimator, y, _num_samples(X), _reading(fitted_to))
    _require_negatives(labels, fitted_to)
    labels = judged_labels(labels)
    scores = np.asarray(estimator._score_entries(X, labels), dtype=np.float64)
    probabilities = _probabilities(estimator, scores) if hasattr(estimator, "predict_proba") else None
    scores = relative_scores(estimator, scores, labels.indices)[0]
    return Judged(estimator, X, labels, scores, probabilities, feature_names=feature_names)


def _judge_ratings(model: Recommending, X: Any, ratings: Any) -> Judged:
    model._require_fit()
    if X is not None:
        raise InvalidParameterError("A recommender needs no X to be judged; pass None, and the ratings as y.")
    fitted_to = model._silence
    labels = model._read_ratings(ratings, "missing")
    _require_negatives(labels, fitted_to)
    users = model._index("user").find_or(labels.row_names or ())
    items = model._index("item").find_or(labels.label_names or ())
    _warn_of_unknown(users, items)
    if fitted_to == "negative":
        labels, items = _all_items(model, labels, items), np.arange(len(model.item_ids_))
    n_left_out = 0
    if fitted_to == "unlabelled":
        rows = users[labels.rows]
        known = contains(model.answers_, np.maximum(rows, 0), items[labels.indices]) & (rows >= 0)
        labels, n_left_out = labels.select(~known), int(known.sum())
    labels = judged_labels(labels)
    scores = model._pair_scores(users[labels.rows], items[labels.indices])
    return Judged(model, None, labels, scores, _probabilities(model, scores), n_left_out)


def _all_items(model: Recommending, labels: ObservedLabels, items: Any) -> ObservedLabels:
    """The ratings of all items of the model by these users, a no where there is none."""
    shape = (labels.shape[0], len(model.item_ids_))
    liked = labels.select((labels.values == 1) & (items[labels.indices] >= 0))
    recorded = ObservedLabels.from_triplets(
        liked.rows,
        items[liked.indices],
        np.ones(liked.n_observed),
        shape=shape,
        row_names=labels.row_names,
        label_names=model.item_ids_,
    )
    return ObservedLabels.from_any(recorded, unobserved="negative")


def _warn_of_unknown(users: Any, items: Any) -> None:
    strange = [
        f"{int(np.sum(ids < 0))} {what}s"
        for ids, what in ((users, "user"), (items, "item"))
        if (ids < 0).any()
    ]
    if strange:
        warn(
            f"The recommender does not know {' and '.join(strange)} of these ratings; they are judged as the "
            "average user or item.",
            LabelgapWarning,
        )


def _reading(fitted_to: str) -> str:
    """What an absent entry of the data means: as in the fit, except where that leaves no known negatives."""
    return "missing" if fitted_to == "unlabelled" else fitted_to


def _require_negatives(labels: ObservedLabels, fitted_to: str) -> None:
    only_yes = labels.n_observed > 0 and bool((labels.values == 1).all())
    # After a fit that takes silence for no, every other entry is a known no.
    if labels.unobserved == "unlabelled" or (only_yes and fitted_to != "negative"):
        raise InvalidLabelsError(
            "A report counts true and false decisions, which takes known negatives, and these labels have "
            "recorded positives only. Pass labels with both, such as a sample that was checked; the metric "
            "corrected for unrecorded positives is model.score."
        )


def _probabilities(model: Any, scores: Floats) -> Floats:
    inverse = model._probability if isinstance(model, Recommending) else model._final_probabilities
    return np.asarray(inverse(scores), dtype=np.float64)
