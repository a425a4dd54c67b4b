"""What stands behind a label: its strongest features, or the items most like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.sparsefuncs import mean_variance_axis

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.report.encoding import Encoded, encode_array, encode_whole

MOST_LABELS = 500
_LISTED = 15
# Coefficients held at one time.
_BLOCK = 1 << 22


def strongest_features(
    model: Any, X: Any, labels: ObservedLabels, feature_names: list[str] | None = None
) -> dict[str, Any] | None:
    """For the most observed labels, the features with the largest |coefficient · spread|, signs kept.

    The spread of a feature is its standard deviation over the rows of X, so the product says how far a
    typical change of the feature moves the score. The model's own names of the features come before those
    of a pipeline, ``feature_names``. None after a fit in features other than X itself.
    """
    # A coefficient of a kernel feature says nothing about a column of X.
    if X is None or not hasattr(model, "coef_left_") or getattr(model, "feature_map_", None) is not None:
        return None
    d = model.coef_left_.shape[0]
    names = getattr(model, "feature_names_in_", feature_names)
    if names is not None and len(names) != d:
        names = None
    n_listed = min(_LISTED, d)
    chosen = most_observed(labels)
    left = model.coef_left_ * column_spreads(X)[:, None]
    features = np.empty((len(chosen), n_listed), dtype=np.int64)
    effects = np.empty((len(chosen), n_listed))
    step = max(1, _BLOCK // max(d, 1))
    for start in range(0, len(chosen), step):
        block = left @ model.coef_right_[chosen[start : start + step]].T
        order = np.argsort(-np.abs(block), axis=0, kind="stable")[:n_listed]
        features[start : start + step] = order.T
        effects[start : start + step] = np.take_along_axis(block, order, axis=0).T
    used, places = np.unique(features, return_inverse=True)
    return {
        "kind": "features",
        "names": [f"feature {one}" if names is None else str(names[one]) for one in used.tolist()],
        **_lists(chosen, places.reshape(features.shape), effects),
    }


def similar_items(model: Any, labels: ObservedLabels) -> dict[str, Any]:
    """For the items with most ratings, the most similar ones, by the cosine of their factors."""
    chosen = most_observed(labels)
    # An item that the recommender does not know is like no other.
    known = set(model.item_ids_)
    chosen = chosen[[(labels.label_names or ())[label] in known for label in chosen.tolist()]]
    n_listed = min(_LISTED, len(model.item_ids_) - 1)
    ids: dict[Any, int] = {}
    places = np.empty((len(chosen), n_listed), dtype=np.int64)
    cosines = np.empty((len(chosen), n_listed))
    if n_listed:
        for row, label in enumerate(chosen.tolist()):
            alike = model.similar_items((labels.label_names or ())[label], n=n_listed)
            places[row] = [ids.setdefault(one, len(ids)) for one in alike.ids]
            cosines[row] = alike.similarities
    titles = model.item_titles_ or {}
    names = [str(titles.get(one, one)) for one in ids]
    return {"kind": "items", "names": names, **_lists(chosen, places, cosines)}


def most_observed(labels: ObservedLabels) -> NDArray[np.int64]:
    """The labels with most observed entries, at most 500, in their own order."""
    order = np.argsort(-labels.label_counts(), kind="stable")[:MOST_LABELS]
    return np.sort(order)


def column_spreads(X: Any) -> Floats:
    """The standard deviation of each column of a dense or sparse X."""
    if not sp.issparse(X):
        return np.asarray(np.asarray(X, dtype=np.float64).std(axis=0))
    rows = sp.csr_array(X, dtype=np.float64)
    if not rows.has_canonical_format:
        # An entry that is stored in parts is one entry.
        rows = rows.copy()
        rows.sum_duplicates()
    _, variances = mean_variance_axis(rows, axis=0)
    return np.asarray(np.sqrt(variances))


def _lists(chosen: NDArray[np.int64], places: NDArray[np.int64], values: Floats) -> dict[str, Encoded | int]:
    return {
        "labels": encode_whole(chosen),
        "per_label": int(places.shape[1]),
        "places": encode_whole(places.ravel()),
        "values": encode_array(values.ravel(), "f8"),
    }
