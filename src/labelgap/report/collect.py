"""Everything that a page shows, as one dictionary that JSON can hold."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelgap.estimators.features_given import read_features
from labelgap.estimators.regressor import LowRankRegressor
from labelgap.exceptions import InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.metrics.jackknife import metric_interval
from labelgap.report.binning import (
    MOST_ENTRIES,
    candidate_thresholds,
    encode_counted,
    encode_entries,
    entry_bins,
    threshold_limit,
)
from labelgap.report.calibration import reliability, with_intervals
from labelgap.report.doubtful_labels import describe_doubtful_labels
from labelgap.report.encoding import encode_array, encode_whole, number
from labelgap.report.fit_figures import describe_fit
from labelgap.report.innermost import Innermost, innermost
from labelgap.report.judged import Judged, judge, judge_innermost
from labelgap.report.label_details import similar_items, strongest_features
from labelgap.report.label_ranking import rank_labels
from labelgap.report.metric_choices import describe_metric, metric_choices
from labelgap.report.observed_pattern import describe_pattern
from labelgap.report.provenance import describe_provenance
from labelgap.report.ranking import describe_ranking
from labelgap.report.regression_figures import describe_regression
from labelgap.report.wrong_rows import describe_wrong_rows
from labelgap.thresholds import best_threshold

# Where fewer of the observed entries than this are a yes, probabilities are small and even axes hide them.
_RARE = 0.1


def collect(
    model: Any,
    X: Any,
    y: Any,
    *,
    compare: Mapping[str, Any] | None = None,
    title: str | None = None,
    metrics: str | LinearFractional | Iterable[str | LinearFractional] | None = None,
    offset: Any = None,
    exposure: Any = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    name: str | None = None,
    data_name: str | None = None,
    date: str | datetime.date | None = None,
) -> dict[str, Any]:
    """The numbers behind a page; parameters as in :func:`labelgap.report.write_report`.

    Examples
    --------
    >>> from labelgap import MetricThreshold
    >>> scores, labels = [[0.9, 0.2], [0.6, 0.1]], [[1, 0], [0, float("nan")]]
    >>> figures = collect(MetricThreshold(metric="micro-f1").fit(scores, labels), scores, labels)
    >>> figures["models"][0]["value"], figures["data"]["n_observed"]
    (1.0, 3)
    """
    others = _check_compared(compare, name)
    known = {"offset": offset, "exposure": exposure, "sample_weight": sample_weight}
    found = innermost(model, X)
    if found.feature_names is None and feature_names is not None:
        found = found._replace(feature_names=_read_feature_names(feature_names, found.model))
    if isinstance(found.model, LowRankRegressor):
        if others or metrics is not None:
            raise InvalidParameterError(
                "A regressor has no yes and no to take a metric of; leave out compare and metrics."
            )
        origin = describe_provenance(found.model, name=name, data_name=data_name, date=date)
        return {**_collect_regression(found, y, title, known), "origin": origin}
    _refuse_known_parts(found.model, known)
    judged = judge_innermost(found, y)
    choices = metric_choices(judged.metric, () if metrics is None else metrics)
    by_entry = judged.labels.n_observed <= MOST_ENTRIES
    called = _kind(judged) if name is None else str(name)
    models = [describe_model(called, judged, choices, judged.metric)]
    for other_name, other in others.items():
        compared = judge(other, X, y).in_label_order(judged.labels.label_names)
        _require_same_entries(other_name, compared.labels, judged.labels)
        models.append(describe_model(other_name, compared, choices, judged.metric))
    details = (
        similar_items(judged.model, judged.labels)
        if judged.is_recommender
        else strongest_features(judged.model, judged.X, judged.labels, judged.feature_names)
    )
    n_positive = int(judged.labels.positive_counts().sum())
    ranks = rank_labels(judged.labels, judged.scores)
    return {
        **_common(judged.model, judged.labels, title, _words(judged), details),
        "kind": "decisions",
        "n_positive": n_positive,
        "rare": n_positive < _RARE * judged.labels.n_observed,
        "n_left_out": judged.n_left_out,
        "fitted_to": judged.fitted_to,
        "absent_is_no": judged.labels.unobserved == "negative",
        "entries": encode_entries(judged.labels) if by_entry else None,
        "models": models,
        "metrics": [describe_metric(metric) for metric in choices],
        "ranking": describe_ranking(judged.model, y) if judged.is_recommender else None,
        "calibration": _calibration(judged, n_positive < _RARE * judged.labels.n_observed),
        "label_ranks": {
            "auc": encode_array(ranks.auc, "f8"),
            "average_precision": encode_array(ranks.average_precision, "f8"),
        },
        "wrong_rows": describe_wrong_rows(
            judged.labels, judged.scores, judged.threshold, judged.probabilities
        ),
        "doubtful": None
        if judged.is_recommender
        else describe_doubtful_labels(judged.labels, judged.scores, judged.threshold, judged.probabilities),
        "origin": describe_provenance(judged.model, name=name, data_name=data_name, date=date),
    }


def _read_feature_names(names: Any, model: Any) -> list[str]:
    """The names of the model's features, or an error."""
    # An array of names is a sequence, too; a text would be taken apart into its letters.
    listed = None if isinstance(names, str | bytes) or np.ndim(names) != 1 else [str(one) for one in names]
    wanted = getattr(model, "n_features_in_", None)
    if listed is None or (wanted is not None and len(listed) != wanted):
        count = "" if wanted is None else f", one for each of the {wanted} features"
        got = f"{type(names).__name__}" if listed is None else f"{len(listed)} names"
        raise InvalidParameterError(f"feature_names must be a list of names{count}; got {got}.")
    return listed


def _calibration(judged: Judged, rare: bool) -> dict[str, Any] | None:
    if judged.probabilities is None:
        return None
    return with_intervals(
        reliability(judged.probabilities, judged.labels.values, judged.labels.weights, rare=rare)
    )


def describe_model(
    name: str, judged: Judged, choices: list[LinearFractional], metric: LinearFractional
) -> dict[str, Any]:
    """A model's thresholds, the bin of each entry among them, and its metric at its own threshold."""
    labels, scores = judged.labels, judged.scores
    always = [best_threshold(scores, labels, choice).threshold for choice in choices]
    thresholds = candidate_thresholds(
        scores, labels.values == 1, [judged.threshold, *always], most=threshold_limit(labels)
    )
    bins = entry_bins(scores, thresholds)
    by_entry = labels.n_observed <= MOST_ENTRIES
    probabilities = judged.probabilities_at(thresholds)
    return {
        "name": name,
        "threshold": number(judged.threshold),
        "value": float(metric(labels, scores >= judged.threshold)),
        "interval": metric_interval(metric, scores >= judged.threshold, labels),
        "best_value": best_threshold(scores, labels, metric).value,
        "thresholds": encode_array(thresholds, "f8"),
        "probabilities": None if probabilities is None else encode_array(probabilities, "f8"),
        "bins": encode_array(bins, "u2") if by_entry else None,
        "counted": None if by_entry else encode_counted(labels, bins),
    }


def _collect_regression(found: Innermost, y: Any, title: str | None, known: dict[str, Any]) -> dict[str, Any]:
    model, X, feature_names = found
    check_is_fitted(model)
    labels, figures = describe_regression(model, X, y, known)
    read = None if X is None else read_features(model, X, reset=False)
    details = strongest_features(model, read, labels, feature_names)
    words = {"row": "row", "label": "label", "model": type(model).__name__}
    return {**_common(model, labels, title, words, details), "kind": "regression", "regression": figures}


def _common(
    model: Any, labels: ObservedLabels, title: str | None, words: dict[str, str], details: Any
) -> dict[str, Any]:
    return {
        "title": f"{words['model']} report" if title is None else str(title),
        "words": words,
        "data": describe_pattern(labels),
        "labels": {
            "names": _label_names(model, labels),
            "observed": encode_whole(labels.label_counts()),
            "positive": encode_whole(labels.positive_counts()),
        },
        "fit": describe_fit(model),
        "details": details,
    }


def _label_names(model: Any, labels: ObservedLabels) -> list[str]:
    names = labels.label_names
    if names is None:
        names = getattr(model, "label_names_", None)
    if names is None:
        return [f"label {label}" for label in range(labels.shape[1])]
    titles = getattr(model, "item_titles_", None) or {}
    return [str(titles.get(name, name)) for name in names]


def _kind(judged: Judged) -> str:
    return type(judged.model).__name__


def _words(judged: Judged) -> dict[str, str]:
    row, label = ("user", "item") if judged.is_recommender else ("row", "label")
    return {"row": row, "label": label, "model": _kind(judged)}


def _refuse_known_parts(model: Any, known: Mapping[str, Any]) -> None:
    given = [f"{name}=" for name, value in known.items() if value is not None]
    if given:
        raise InvalidParameterError(
            f"{' and '.join(given)} belongs to the values of a LowRankRegressor, and this is a report on "
            f"{type(model).__name__}. Leave it out; weights of yes and no go with the labels: "
            "ObservedLabels.from_any(y).with_weights(...)."
        )


def _check_compared(compare: Mapping[str, Any] | None, own: str | None) -> dict[str, Any]:
    if compare is None:
        return {}
    if not isinstance(compare, Mapping):
        raise InvalidParameterError(
            f"compare must be a mapping from a name to a fitted model, not {type(compare).__name__}: "
            'compare={"plug-in": other}.'
        )
    named = {str(name): model for name, model in compare.items()}
    if own is not None and str(own) in named:
        raise InvalidParameterError(
            f"Two models would have the name {str(own)!r} on the page: the model itself (name=) and one of "
            "compare. Give them different names."
        )
    return named


def _require_same_entries(name: str, theirs: ObservedLabels, ours: ObservedLabels) -> None:
    same = theirs.shape == ours.shape and all(
        np.array_equal(getattr(theirs, part), getattr(ours, part)) for part in ("indptr", "indices", "values")
    )
    if not same:
        raise InvalidParameterError(
            f"The model {name!r} reads other observed entries from y than the model of the report "
            f"({theirs.n_observed} against {ours.n_observed}), so their figures could not be compared. "
            "Give y as ObservedLabels, which every model reads alike."
        )
