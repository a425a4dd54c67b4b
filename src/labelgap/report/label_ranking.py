"""How well the scores of each label put its yes before its no, whatever the threshold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelgap._types import Floats
from labelgap.labels import ObservedLabels


class LabelRanking(NamedTuple):
    """One number for each label; NaN for a label without a known yes or without a known no."""

    auc: Floats
    """The area under the ROC curve."""
    average_precision: Floats


def rank_labels(labels: ObservedLabels, scores: Floats) -> LabelRanking:
    """AUC and average precision over the observed entries of each label, from one sort of all entries.

    AUC is the weight of the pairs of a yes and a no in which the yes has the higher score (equal scores
    count one half), as a fraction of all pairs. Average precision is ``Σ_k (R_k − R_{k−1}) P_k`` with
    precision P and recall R at the k-th highest distinct score.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 1], [0, 1], [1, None], [0, None]])
    >>> found = rank_labels(labels, np.array([0.9, 0.5, 0.6, 0.4, 0.3, 0.1]))
    >>> found.auc.round(3).tolist(), found.average_precision.round(3).tolist()
    ([0.75, nan], [0.833, nan])
    """
    n_labels = labels.shape[1]
    order = np.lexsort((scores, labels.indices))
    label, score = labels.indices[order], scores[order]
    weight = np.ones(len(order)) if labels.weights is None else labels.weights[order]
    yes = np.where(labels.values[order] == 1, weight, 0.0)
    no = weight - yes
    # Entries of one label with equal scores are passed together.
    first = np.flatnonzero(np.append(True, (label[1:] != label[:-1]) | (score[1:] != score[:-1])))
    if not len(order):
        first = first[:0]
    yes, no, label = np.add.reduceat(yes, first), np.add.reduceat(no, first), label[first]
    total_yes, total_no = (np.bincount(label, weights=part, minlength=n_labels) for part in (yes, no))
    yes_below, no_below = (_before(part, label, n_labels) for part in (yes, no))
    found_yes, found_no = total_yes[label] - yes_below, total_no[label] - no_below
    both = (labels.positive_counts() > 0) & (labels.positive_counts() < labels.label_counts())
    pairs = np.bincount(label, weights=yes * (no_below + no / 2), minlength=n_labels)
    precision = np.divide(found_yes, found_yes + found_no, out=np.zeros(len(yes)), where=yes > 0)
    steps = np.bincount(label, weights=yes * precision, minlength=n_labels)
    nowhere = np.full(n_labels, np.nan)
    return LabelRanking(
        np.divide(pairs, total_yes * total_no, out=nowhere.copy(), where=both),
        np.divide(steps, total_yes, out=nowhere.copy(), where=both),
    )


def _before(values: Floats, label: np.ndarray, n_labels: int) -> Floats:
    """The sum of the values of the same label that come before each."""
    running = np.cumsum(values) - values
    start = np.searchsorted(label, np.arange(n_labels))
    # A label without entries has no place of its own; nothing looks it up.
    return np.asarray(running - running[np.minimum(start, len(values) - 1)][label]) if len(values) else values
