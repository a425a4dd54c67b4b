"""Thresholds for the page to choose from, and on which side of each of them every observed entry is."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.report.encoding import Encoded, encode_array, encode_bits, encode_whole
from labelgap.thresholds.sweep import between

MOST_THRESHOLDS = 2000
MOST_ENTRIES = 2_000_000
"""Above this entries are added up by label and bin, and the page knows nothing of rows any more."""
_MOST_COUNTS, _FEWEST_THRESHOLDS = 4_000_000, 64


def threshold_limit(labels: ObservedLabels) -> int:
    """How many thresholds the page can hold: fewer where entries are added up and labels are many."""
    if labels.n_observed <= MOST_ENTRIES:
        return MOST_THRESHOLDS
    # Every label may have positives and negatives in every bin.
    fitting = _MOST_COUNTS // (2 * max(labels.shape[1], 1))
    return min(max(fitting, _FEWEST_THRESHOLDS), MOST_THRESHOLDS)


def candidate_thresholds(
    scores: Floats, positive: NDArray[np.bool_], always: Iterable[float], most: int = MOST_THRESHOLDS
) -> Floats:
    """Ascending thresholds: -inf (all), some between neighbouring distinct scores, ``always``, +inf (none).

    Where there are more than ``most`` cuts, half of those kept have equally many entries between them, and
    half equally many positives, since that is where a metric of rare positives changes.

    Examples
    --------
    >>> scores = np.array([0.2, 0.4, 0.8])
    >>> candidate_thresholds(scores, np.array([False, True, True]), [0.35]).tolist()
    [-inf, 0.30000000000000004, 0.35, 0.6000000000000001, inf]
    """
    distinct = np.unique(scores)
    cuts = between(distinct[1:], distinct[:-1])
    if len(cuts) > most:
        half = most // 2
        kept = [_evenly(distinct, some, half) for some in (scores, scores[positive]) if len(some)]
        cuts = cuts[np.unique(np.concatenate(kept))]
    extra = np.array([t for t in always if not np.isnan(t)], dtype=np.float64)
    return np.unique(np.concatenate([[-np.inf], cuts, extra, [np.inf]]))


def _evenly(distinct: Floats, scores: Floats, count: int) -> NDArray[np.int64]:
    """Numbers of the cuts (the first is above the lowest distinct score) with equally many scores between."""
    quantiles = np.quantile(scores, (np.arange(count) + 0.5) / count, method="lower")
    above = np.searchsorted(distinct, quantiles)
    return np.asarray(np.clip(above - 1, 0, len(distinct) - 2), dtype=np.int64)


def entry_bins(scores: Floats, thresholds: Floats) -> NDArray[np.int64]:
    """How many of the thresholds each score reaches: the decision at threshold k is yes where bin > k.

    Examples
    --------
    >>> entry_bins(np.array([0.1, 0.5, 0.9]), np.array([-np.inf, 0.5, np.inf])).tolist()
    [1, 2, 2]
    """
    return np.searchsorted(thresholds, scores, side="right")


def encode_entries(labels: ObservedLabels) -> dict[str, Encoded | None]:
    """The entries row by row without their scores: entries per row, steps from label to label, values."""
    steps = np.diff(labels.indices.astype(np.int64), prepend=0)
    first = labels.indptr[:-1][np.diff(labels.indptr) > 0]
    # The first label of a row counts from 0.
    steps[first] = labels.indices[first]
    return {
        "row_counts": encode_whole(labels.row_counts()),
        "label_steps": encode_whole(steps),
        "positive": encode_bits(labels.values == 1),
        "weights": None if labels.weights is None else encode_array(labels.weights, "f8"),
    }


def encode_counted(labels: ObservedLabels, bins: NDArray[np.int64]) -> dict[str, Encoded | None]:
    """Entries counted by label, bin and value: the number of combinations of each label, and for each
    combination its bin, its value, and the number and weight of its entries.
    """
    width = int(bins.max()) + 1
    keys = (labels.indices.astype(np.int64) * width + bins) * 2 + (labels.values == 1)
    combinations, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    weights = None
    if labels.weights is not None:
        weights = encode_array(np.bincount(which, weights=labels.weights), "f8")
    return {
        "label_counts": encode_whole(np.bincount(combinations // (2 * width), minlength=labels.shape[1])),
        "bins": encode_array(combinations // 2 % width, "u2"),
        "positive": encode_bits(combinations % 2 == 1),
        "counts": encode_whole(counts),
        "weights": weights,
    }
