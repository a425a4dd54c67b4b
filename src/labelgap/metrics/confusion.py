"""Confusion counts over the observed entries, per group of entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._names import check_choice
from labelgap.exceptions import InvalidInputError, InvalidLabelsError
from labelgap.labels import ObservedLabels

AVERAGES = ("micro", "instance", "macro")


class Counts(NamedTuple):
    """Weighted numbers of true and false positives and negatives, one float64 per group.

    Examples
    --------
    >>> confusion_counts([[1, 1], [0, 1]], [[1, 0], [0, 1]], "macro").total
    array([2., 2.])
    """

    tp: NDArray[np.float64]
    fp: NDArray[np.float64]
    fn: NDArray[np.float64]
    tn: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """The observed weight of each group."""
        return self.tp + self.fp + self.fn + self.tn


def judged_labels(labels: Any) -> ObservedLabels:
    """``labels`` as ObservedLabels against which decisions can be judged, or an error that says why not."""
    known = ObservedLabels.from_any(labels)
    if known.unobserved == "unlabelled":
        raise InvalidLabelsError(
            "These labels are positive or unlabelled (unobserved='unlabelled'), and a metric needs known "
            "negatives; judge on labels that have some, or pass unobserved='negative' if absent means no."
        )
    known.require_observed()
    if known.values.dtype != np.int8 and not np.isin(known.values, (0, 1)).all():
        raise InvalidLabelsError("A yes/no metric needs labels 0 and 1; these were built with binary=False.")
    return known


def aligned_decisions(decisions: Any, labels: ObservedLabels) -> NDArray[np.bool_]:
    """The decision for each observed entry; what stands at other entries is not read."""
    given = labels.align(decisions, "decisions")
    if given.dtype == np.bool_:
        return given
    bad = (given != 0) & (given != 1)
    if np.any(bad):
        first = int(np.argmax(bad))
        raise InvalidInputError(
            f"The decision at row {labels.rows[first]}, column {labels.cols[first]} is {given[first]}; "
            "decisions are 0 or 1. Scores become decisions by a threshold, see best_threshold."
        )
    return np.asarray(given != 0)


def group_of_entries(labels: ObservedLabels, average: str) -> tuple[NDArray[Any], int]:
    """The group of each entry and how many groups there are: one, one per row, or one per label."""
    check_choice("average", average, AVERAGES)
    if average == "instance":
        return labels.rows, labels.shape[0]
    if average == "macro":
        return labels.cols, labels.shape[1]
    return np.zeros(labels.n_observed, dtype=np.int32), 1


def confusion_counts(decisions: Any, labels: Any, average: str = "micro") -> Counts:
    """Weighted TP, FP, FN and TN of each group of observed entries.

    ``TP_g = Σ w_ij [decided yes, y_ij = 1]`` over the entries of Ω in group g, and so on.

    Parameters
    ----------
    decisions : array or sparse matrix of shape (n, L), or vector over the observed entries
        0/1 or boolean; a sparse matrix says no where nothing is stored.
    labels : anything ``ObservedLabels.from_any`` takes
    average : "micro", "instance" or "macro", default "micro"
        One group, one per row, or one per label. A group without observed entries counts 0 everywhere.

    Examples
    --------
    >>> counts = confusion_counts([[1, 1], [0, 1]], [[1, 0], [float("nan"), 1]], "instance")
    >>> counts.tp, counts.fp
    (array([1., 1.]), array([1., 0.]))
    """
    known = judged_labels(labels)
    group, n_groups = group_of_entries(known, average)
    # One bin per (group, label, decision); bincount keeps this to a pass over Ω.
    cell = group.astype(np.int64) * 4
    cell += known.values.astype(np.int64) * 2
    cell += aligned_decisions(decisions, known)
    table = np.bincount(cell, weights=known.weights, minlength=4 * n_groups).astype(np.float64)
    tn, fp, fn, tp = table.reshape(n_groups, 4).T
    return Counts(tp, fp, fn, tn)
