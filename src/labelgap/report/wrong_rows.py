"""The rows that are decided wrongly most often, at the model's own threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.report.encoding import number

MOST_ROWS = 50
MOST_NAMED = 5
"""Wrong entries of a row that are named, those furthest on the wrong side of the threshold."""


def describe_wrong_rows(
    labels: ObservedLabels, scores: Floats, threshold: float, probabilities: Floats | None = None
) -> dict[str, Any]:
    """How many decisions of each row are wrong, and the rows with the most of them.

    A decision is wrong where ``score ≥ threshold`` and the observed value disagree. Rows are ordered by the
    number of wrong decisions, then by their fraction, then as in the data.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, None]], row_names=["a", "b"])
    >>> found = describe_wrong_rows(labels, np.array([0.2, 0.9, 0.8]), 0.5)
    >>> [(row["name"], row["observed"], row["false_yes"], row["false_no"]) for row in found["rows"]]
    [('a', 2, 1, 1)]
    >>> found["n_rows"], found["n_all_right"], found["counts"]
    (2, 1, [1, 0, 1])
    """
    n = labels.shape[0]
    yes, true = scores >= threshold, labels.values == 1
    rows, observed = labels.rows, labels.row_counts()
    false_yes = np.bincount(rows[yes & ~true], minlength=n)
    false_no = np.bincount(rows[~yes & true], minlength=n)
    wrong = false_yes + false_no
    judged = observed > 0
    order = np.lexsort((np.arange(n), -wrong / np.maximum(observed, 1), -wrong))[:MOST_ROWS]
    order = order[wrong[order] > 0]
    return {
        "n_rows": int(judged.sum()),
        "n_all_right": int((wrong[judged] == 0).sum()),
        "counts": np.bincount(wrong[judged]).tolist(),
        "has_names": labels.row_names is not None,
        "rows": [
            {
                "name": row_name(labels.row_names, row),
                "observed": int(observed[row]),
                "false_yes": int(false_yes[row]),
                "false_no": int(false_no[row]),
                "entries": _furthest(labels, scores - threshold, yes, probabilities, row),
            }
            for row in order.tolist()
        ],
    }


def row_name(names: Sequence[Any] | None, row: int) -> str:
    """What a row is called, or its number where it has no name."""
    return f"row {row}" if names is None else str(names[row])


def _furthest(
    labels: ObservedLabels, above: Floats, yes: NDArray[np.bool_], probabilities: Floats | None, row: int
) -> list[dict[str, Any]]:
    """The wrong entries of a row that are furthest from the threshold."""
    here = np.arange(labels.indptr[row], labels.indptr[row + 1])
    wrong = here[yes[here] != (labels.values[here] == 1)]
    wrong = wrong[np.argsort(-np.abs(above[wrong]), kind="stable")][:MOST_NAMED]
    return [
        {
            "label": int(labels.indices[entry]),
            "yes": bool(yes[entry]),
            "probability": None if probabilities is None else number(probabilities[entry]),
        }
        for entry in wrong.tolist()
    ]
