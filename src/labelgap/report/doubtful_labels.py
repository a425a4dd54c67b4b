"""The observed labels that the model contradicts most: its own errors, or errors of the labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.report.encoding import number
from labelgap.report.wrong_rows import row_name

MOST_LISTED = 30


def describe_doubtful_labels(
    labels: ObservedLabels, scores: Floats, threshold: float, probabilities: Floats | None = None
) -> dict[str, Any] | None:
    """The entries whose decision is not what was recorded, those that the model is surest of first.

    They are ordered by the probability of what was recorded, lowest first; without probabilities by the
    distance of the score from the threshold; then as in the data. None where an absent entry is taken for a
    no, which nobody has recorded.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 0]], row_names=["a", "b"])
    >>> p = np.array([0.2, 0.9, 0.8, 0.6])
    >>> found = describe_doubtful_labels(labels, p, 0.5, p)
    >>> found["n_wrong"], [(one["row"], one["label"], one["recorded"]) for one in found["entries"]]
    (3, [('a', 1, False), ('a', 0, True), ('b', 1, False)])
    """
    if labels.unobserved == "negative":
        return None
    recorded = labels.values == 1
    wrong = np.flatnonzero((scores >= threshold) != recorded)
    if probabilities is None:
        doubt = np.abs(scores[wrong] - threshold)
    else:
        doubt = np.where(recorded[wrong], 1 - probabilities[wrong], probabilities[wrong])
    first = wrong[np.argsort(-doubt, kind="stable")][:MOST_LISTED]
    return {
        "n_wrong": len(wrong),
        "has_names": labels.row_names is not None,
        "by_probability": probabilities is not None,
        "entries": [
            {
                "row": row_name(labels.row_names, row),
                "label": int(labels.indices[entry]),
                "recorded": bool(recorded[entry]),
                "score": number(scores[entry]),
                "probability": None if probabilities is None else number(probabilities[entry]),
            }
            for entry, row in zip(first.tolist(), labels.rows[first].tolist(), strict=True)
        ],
    }
