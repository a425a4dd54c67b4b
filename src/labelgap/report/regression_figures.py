"""The figures of a regressor's page: deviance in all and by label, and predictions against values."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.estimators.regressor import LowRankRegressor
from labelgap.exceptions import InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.metrics.jackknife import D2_LIMITS, confidence_interval, metric_error, without_each_part
from labelgap.report.calibration import reliability
from labelgap.report.encoding import encode_array, number


def describe_regression(
    model: LowRankRegressor, X: Any, y: Any, known: dict[str, Any]
) -> tuple[ObservedLabels, dict[str, Any]]:
    """The values as they were read, and how well the model predicts them.

    Parameters
    ----------
    model, X, y : a fitted regressor, features and values
    known : offset, exposure and sample_weight, as for ``model.score``
    """
    labels, scores = model._judged(X, y, known["offset"], known["exposure"], known["sample_weight"])
    if model.has_offsets_ and labels.offsets is None:
        raise InvalidParameterError(
            "The regressor was fitted with an offset or an exposure, and without one its predictions here "
            "would be about other entries than those of y. Pass exposure= or offset= for these rows, or "
            "offset=0 for entries that have none."
        )
    predicted, deviance = _predictions(model, scores, labels)
    figures = {
        "family": model.family_.name,
        "deviance": number(np.average(deviance, weights=labels.weights)),
        "explained": number(model._explained(labels, scores)),
        "interval": explained_interval(model, labels, scores),
        "has_offsets": labels.offsets is not None,
        "label_means": encode_array(_by_label(labels, labels.values), "f8"),
        "label_predictions": encode_array(_by_label(labels, predicted), "f8"),
        "label_deviances": encode_array(_by_label(labels, deviance), "f8"),
        "reliability": reliability(predicted, labels.values, labels.weights),
    }
    return labels, figures


def explained_interval(
    model: LowRankRegressor, labels: ObservedLabels, scores: Floats
) -> tuple[float, float] | None:
    """The 95 % interval of D², from the scores of observed entries; None where it is not known."""
    parts = [(labels.select(kept), scores[kept]) for kept in without_each_part(labels)]
    values = np.array([model._explained(some, theirs) for some, theirs in parts])
    return confidence_interval(model._explained(labels, scores), metric_error(values), D2_LIMITS)


def label_means(model: LowRankRegressor, X: Any, y: Any) -> dict[str, Floats]:
    """The mean value, the mean prediction and the mean deviance over the observed entries of each label."""
    labels, scores = model._judged(X, y, None, None, None)
    predicted, deviance = _predictions(model, scores, labels)
    return {
        "mean": _by_label(labels, labels.values),
        "predicted": _by_label(labels, predicted),
        "deviance": _by_label(labels, deviance),
    }


def _predictions(model: LowRankRegressor, scores: Floats, labels: ObservedLabels) -> tuple[Floats, Floats]:
    """The predicted mean and the deviance of each entry."""
    predicted = np.asarray(model.family_.inverse_link(scores), dtype=np.float64)
    return predicted, 2.0 * np.asarray(model.family_.value(scores, labels.values), dtype=np.float64)


def _by_label(labels: ObservedLabels, values: Any) -> Floats:
    """The weighted mean over the observed entries of each label, NaN where there are none."""
    weights = np.ones(labels.n_observed) if labels.weights is None else labels.weights
    n_labels = labels.shape[1]
    total = np.bincount(labels.indices, weights=weights, minlength=n_labels)
    weighted = np.bincount(labels.indices, weights=weights * values, minlength=n_labels)
    return np.asarray(np.divide(weighted, total, out=np.full(n_labels, np.nan), where=total > 0))
