"""Entries that are not observed, drawn at random."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import distinct
from labelgap.labels.observed import ObservedLabels

# Observed entries that are looked at together.
_BLOCK = 1 << 18


def draw_unobserved(
    labels: ObservedLabels, most: int, rng: np.random.RandomState
) -> tuple[NDArray[np.int64], float]:
    """The numbers ``i L + j`` of entries that are not observed, and how many entries each stands for.

    They are all of them if there are at most ``most``, else a random sample of about that size.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, float("nan")], [0, 1]])
    >>> draw_unobserved(labels, 10, np.random.RandomState(0))
    (array([1]), 1.0)
    """
    n, n_labels = labels.shape
    n_all, n_others = n * n_labels, n * n_labels - labels.n_observed
    if n_others <= most:
        drawn = np.arange(n_all)
    else:
        # Drawn with replacement and made distinct: uniform over the entries, a little fewer than asked for.
        drawn = distinct(rng.randint(0, n_all, size=most, dtype=np.int64))
    drawn = drawn[~_observed(labels, drawn)]
    return drawn, n_others / max(len(drawn), 1)


def _observed(labels: ObservedLabels, drawn: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of these entries, ascending, are observed.

    Some rows at a time: the numbers of all observed entries take several times the memory of the labels.
    """
    n, n_labels = labels.shape
    found = np.zeros(len(drawn), dtype=np.bool_)
    cuts = np.searchsorted(labels.indptr, np.arange(0, labels.n_observed, _BLOCK), side="right") - 1
    for first, last in pairwise([*distinct(cuts), n]):
        begin, end = labels.indptr[first], labels.indptr[last]
        rows = np.repeat(np.arange(first, last), np.diff(labels.indptr[first : last + 1]))
        observed = rows * n_labels + labels.indices[begin:end]
        here = slice(*np.searchsorted(drawn, (first * n_labels, last * n_labels)))
        place = np.minimum(np.searchsorted(observed, drawn[here]), len(observed) - 1)
        found[here] = observed[place] == drawn[here]
    return found
