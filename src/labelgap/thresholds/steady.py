"""A threshold that one label more or less does not move.

The best threshold of a small sample is the place of a maximum among steps, and a noisy one. Best thresholds
of many parts of the sample scatter around the place of the true maximum, and their mean is steadier.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.metrics.named import get_metric
from labelgap.thresholds.sweep import best_threshold

N_RESAMPLES = 25
# The fraction of distinct rows in a bootstrap sample, 1 − 1/e.
_FRACTION = 0.632
# Entries to be swept in all. A sample with more than a few parts of it needs no steadying.
_MOST_ENTRIES, _FEWEST_PARTS = 1_000_000, 5


def steady_threshold(
    scores: Floats, labels: ObservedLabels, metric: str | LinearFractional, random_state: Any = 0
) -> float:
    """The mean of the exact best thresholds over random parts of the rows.

    Each part has about 63 % of the rows. Where most parts have an infinite best threshold, and beyond 200,000
    entries, it is the best threshold of the whole.

    Parameters
    ----------
    scores : array of the length of Ω
        A score for each observed entry, in its order.
    labels : ObservedLabels
    metric : str or LinearFractional
    random_state : int, RandomState or None, default 0
        Draws the parts.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 0], [1, 0], [1, 0], [0, 0]])
    >>> scores = np.array([2.0, -1.0, 3.0, -2.0, 2.5, -3.0, 2.0, -1.0, 0.0, -1.0])
    >>> 0.0 < steady_threshold(scores, labels, "micro-f1") <= 2.0
    True
    """
    psi = get_metric(metric)
    whole = best_threshold(scores, labels, psi).threshold
    n_parts = min(N_RESAMPLES, _MOST_ENTRIES // max(labels.n_observed, 1))
    rng = check_random_state(random_state)
    if n_parts < _FEWEST_PARTS or not np.isfinite(whole):
        return whole
    found = []
    for _ in range(n_parts):
        kept = (rng.random_sample(labels.shape[0]) < _FRACTION)[labels.rows]
        if kept.any():
            found.append(best_threshold(scores[kept], labels.select(kept), psi).threshold)
    finite = [threshold for threshold in found if np.isfinite(threshold)]
    return float(np.mean(finite)) if 2 * len(finite) > len(found) else whole
