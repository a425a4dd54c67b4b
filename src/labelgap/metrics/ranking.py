"""Ranking metrics for reports: each row's observed entries by falling score, of which the first k count.

An entry that is not observed is not ranked. Equal scores keep the order of their columns. Weights are not
used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidParameterError, InvalidScoresError
from labelgap.labels import ObservedLabels
from labelgap.metrics.linear_fractional import judged_labels


def precision_at_k(scores: Any, labels: Any, k: int) -> float:
    """Share of positives among a row's k best-scored observed entries, mean over rows with an observed entry.

    ``1/|R| Σ_i (positives among the first k of row i) / min(k, observed entries of row i)``: a row with fewer
    than k observed entries is judged by those it has, and not punished for what nobody knows.

    Parameters
    ----------
    scores : array or sparse matrix of shape (n, L), or vector over the observed entries
    labels : anything ``ObservedLabels.from_any`` takes
    k : int of at least 1

    Examples
    --------
    >>> precision_at_k([[0.9, 0.8, 0.1]], [[1, 0, 1]], k=2)
    0.5
    """
    known, gains, place = _ranked(scores, labels, k)
    hits = _row_sums(gains * (place < k), known)
    counts = known.row_counts()
    rows = counts > 0
    return float(np.mean(hits[rows] / np.minimum(counts[rows], k)))


def recall_at_k(scores: Any, labels: Any, k: int) -> float:
    """Share of a row's observed positives among its first k, mean over rows with an observed positive.

    ``1/|R| Σ_i (positives among the first k of row i) / (observed positives of row i)``. The parameters are
    those of ``precision_at_k``; NaN when no row has a positive.

    Examples
    --------
    >>> recall_at_k([[0.9, 0.8, 0.1]], [[1, 0, 1]], k=2)
    0.5
    """
    known, gains, place = _ranked(scores, labels, k)
    hits, positives = _row_sums(gains * (place < k), known), _row_sums(gains, known)
    return _mean_ratio(hits, positives)


def ndcg_at_k(scores: Any, labels: Any, k: int) -> float:
    """Normalised discounted cumulative gain of the first k, mean over rows with an observed positive.

    ``DCG_i = Σ_{t=1..k} y_i(t) / log2(t + 1)`` over the row's entries by score, divided by the DCG of the
    best order. The parameters are those of ``precision_at_k``; NaN when no row has a positive.

    Examples
    --------
    >>> round(ndcg_at_k([[0.9, 0.8, 0.1]], [[1, 0, 1]], k=3), 4)
    0.9197
    """
    known, gains, place = _ranked(scores, labels, k)
    discount = np.where(place < k, 1 / np.log2(place + 2.0), 0.0)
    reached = _row_sums(gains * discount, known)
    # The best order has all positives first: its DCG depends only on how many there are.
    positives = _row_sums(gains, known).astype(np.int64)
    best = np.concatenate(([0.0], np.cumsum(1 / np.log2(np.arange(min(k, known.shape[1])) + 2.0))))
    return _mean_ratio(reached, best[np.minimum(positives, len(best) - 1)])


def _ranked(scores: Any, labels: Any, k: int) -> tuple[ObservedLabels, NDArray[Any], NDArray[np.int64]]:
    """The labels; for the entries by row and falling score their gain (0/1) and place in the row from 0."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidParameterError(f"k must be an integer of at least 1, not {k!r}.")
    known = judged_labels(labels)
    given = known.align(scores, "scores").astype(np.float64)
    if np.isnan(given).any():
        first = int(np.argmax(np.isnan(given)))
        raise InvalidScoresError(
            f"The score at row {known.rows[first]}, column {known.cols[first]} is NaN; "
            "every observed entry needs a score."
        )
    # lexsort is stable and entries come by column, so ties stay in the order of their columns.
    order = np.lexsort((-given, known.rows))
    place = np.arange(known.n_observed) - np.repeat(known.indptr[:-1], known.row_counts())
    return known, known.values[order].astype(np.float64), place


def _row_sums(entries: NDArray[Any], labels: ObservedLabels) -> NDArray[np.float64]:
    return np.bincount(labels.rows, weights=entries, minlength=labels.shape[0]).astype(np.float64)


def _mean_ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> float:
    rows = below > 0
    return float(np.mean(above[rows] / below[rows])) if rows.any() else float("nan")
