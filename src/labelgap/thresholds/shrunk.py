"""Thresholds of labels that are drawn towards the shared one, the more the less is known about a label.

The best threshold of a label with few observed entries is noise. Two things make it steadier. It is the mean
of the best thresholds over random parts of the rows, as :func:`labelgap.thresholds.steady_threshold` takes it
for the shared one. And it is shrunk,

    ``θ_j = θ + m_j / (m_j + κ) · (θ̄_j − θ)``,

where m_j is the number of observed entries of the label's rarer class, and κ the number of such entries at
which the label's own threshold and the shared one count the same. A label with one class has the shared one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.thresholds.per_label import LabelSearch
from labelgap.thresholds.sweep import FRACTION, N_RESAMPLES, ScoreArray

STRENGTHS = (30.0, 100.0, 10.0, 300.0, 3.0, 1.0)
"""The values of κ that are compared, the usual one first and then those next to it."""
USUAL_STRENGTH = STRENGTHS[0]
"""κ where nothing can be compared: some thirty cases of the rarer class make a rate."""


def rarer_counts(labels: ObservedLabels) -> NDArray[np.int64]:
    """m_j, the number of observed entries of each label's rarer class.

    Examples
    --------
    >>> rarer_counts(ObservedLabels.from_dense([[1, 0, 1], [0, 0, 1], [0, None, 0]])).tolist()
    [1, 0, 1]
    """
    positives = labels.positive_counts()
    return np.asarray(np.minimum(positives, labels.label_counts() - positives), dtype=np.int64)


def mean_label_thresholds(
    search: LabelSearch,
    scores: ScoreArray,
    labels: ObservedLabels,
    metric: LinearFractional,
    shared: float,
    random_state: Any = 0,
) -> Floats:
    """θ̄_j, the mean over random parts of the rows of each label's best threshold.

    A threshold beyond all scores of a label is taken for its highest or lowest finite score, so that there is
    a mean. Labels without a finite score have the shared threshold.
    """
    low, high = _finite_ranges(scores, labels)
    if metric.average == "macro":
        best_of = search.ratio_thresholds
    else:
        start = np.full(labels.shape[1], shared)
        # The other labels stay at the shared threshold, so that every label has gains of its own.
        gains = (
            search.ratio_gains(metric(labels, search.decisions(start)))
            if metric.average == "micro"
            else search.row_gains(start)
        )

        def best_of(rows: NDArray[np.bool_] | None = None) -> Floats:
            return search.gain_thresholds(gains, rows)[0]

    rng = check_random_state(random_state)
    total, count = np.zeros(labels.shape[1]), np.zeros(labels.shape[1])
    for _ in range(N_RESAMPLES):
        # Of a label without a score of its own the range is empty, and there is nothing to be found.
        found = np.clip(best_of(rng.random_sample(labels.shape[0]) < FRACTION), low, high)
        seen = np.isfinite(found)
        total[seen] += found[seen]
        count += seen
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def shrink(own: Floats, shared: float, counts: NDArray[np.int64], strength: float) -> Floats:
    """θ_j for one κ; the shared threshold where a label has none of its own, or has one class.

    Examples
    --------
    >>> shrink(np.array([1.0, 1.0, np.nan]), 0.0, np.array([30, 0, 5]), strength=30.0).tolist()
    [0.5, 0.0, 0.0]
    """
    weight = counts / (counts + strength)
    usable = (counts > 0) & np.isfinite(own)
    if not np.isfinite(shared):
        # Nothing lies between a number and infinity: a label has its own threshold, or the shared one.
        return np.where(usable & (weight > 0.5), own, shared)
    return np.where(usable, shared + weight * (np.where(usable, own, shared) - shared), shared)


def _finite_ranges(scores: ScoreArray, labels: ObservedLabels) -> tuple[Floats, Floats]:
    """The lowest and the highest finite score of each label; NaN where there is none."""
    finite = np.isfinite(scores)
    where, values = labels.indices[finite], scores[finite].astype(np.float64)
    low, high = np.full(labels.shape[1], np.inf), np.full(labels.shape[1], -np.inf)
    np.minimum.at(low, where, values)
    np.maximum.at(high, where, values)
    low[np.isinf(low)], high[np.isinf(high)] = np.nan, np.nan
    return low, high
