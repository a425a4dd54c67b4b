"""What is known of whole rows: ``sample_weight``, of which 0 leaves a row out, and ``groups``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from labelgap._names import check_choice
from labelgap.exceptions import InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.labels.stratified import numbered_groups

HELD_OUT = ("rows", "entries")


def weigh_rows(
    X: Any, labels: ObservedLabels, sample_weight: Any, *, both_classes: bool = True
) -> tuple[Any, ObservedLabels]:
    """X and the labels with every row weighted, on top of the weights of its entries.

    Rows of weight 0 are left out of both, so that they have no part in the scales of the features either.
    ``both_classes``: raise where only one class is left.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1], [0], [1]])
    >>> X, weighted = weigh_rows(np.array([[5.0], [6.0], [7.0]]), labels, [0, 2, 1])
    >>> X.ravel().tolist(), weighted.weights.tolist()
    ([6.0, 7.0], [2.0, 1.0])
    """
    # Checks the weights, too.
    weighted = labels.with_row_weights(sample_weight)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if not np.all(weights > 0):
        labels = labels.take_rows(np.flatnonzero(weights > 0))
        X, weighted = without_zero_rows(X, weighted)
        weights = weights[weights > 0]
    if labels.unobserved == "unlabelled":
        # Every entry counts there. A mean does not change where all rows weigh the same.
        if np.ptp(weights) > 0:
            raise InvalidParameterError(
                "sample_weight differs between rows, which cannot be combined with unobserved='unlabelled', "
                "where every entry counts once; only 0, for rows to leave out, can. Leave it out, or repeat "
                "rows."
            )
        weighted = labels
    elif np.all(weights == 1):
        weighted = labels
    if both_classes:
        weighted.require_both_classes()
    return X, weighted


def without_zero_rows(X: Any, labels: ObservedLabels) -> tuple[Any, ObservedLabels]:
    """X and the labels without the rows of weight 0."""
    if labels.row_weights is None or np.all(labels.row_weights > 0):
        return X, labels
    rows = np.flatnonzero(labels.row_weights > 0)
    return _safe_indexing(X, rows), labels.take_rows(rows)


def groups_of_rows(groups: Any, n: int, held_out: str, sample_weight: Any = None) -> NDArray[np.int64] | None:
    """The number of each row's group; None without groups. Rows that ``sample_weight`` leaves out have none.

    ``held_out`` is the estimator's parameter.
    """
    check_choice("held_out", held_out, HELD_OUT)
    if groups is None:
        return None
    if held_out != "rows":
        raise InvalidParameterError(
            f"groups says which rows are held out together, and held_out={held_out!r} holds out no rows. "
            "Leave one of them out."
        )
    numbers = numbered_groups(groups, n, "rows")
    return numbers if sample_weight is None else numbers[np.asarray(sample_weight) > 0]
