"""Entries that are not observed, drawn at random, and which of some entries are observed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import distinct, row_slices
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
    drawn = drawn[~observed_among(labels, drawn)]
    return drawn, n_others / max(len(drawn), 1)


def observed_among(labels: ObservedLabels, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the entries with these numbers ``i L + j``, in ascending order, are observed.

    Some rows at a time: the numbers of all observed entries take several times the memory of the labels.

    Examples
    --------
    >>> observed_among(ObservedLabels.from_dense([[1, float("nan")], [0, 1]]), np.array([0, 1, 3]))
    array([ True, False,  True])
    """
    n_labels, indptr = labels.shape[1], labels.indptr
    found = np.zeros(len(numbers), dtype=np.bool_)
    for rows in row_slices(indptr, _BLOCK):
        counts = np.diff(indptr[rows.start : rows.stop + 1])
        row = np.repeat(np.arange(rows.start, rows.stop), counts)
        observed = row * n_labels + labels.indices[indptr[rows.start] : indptr[rows.stop]]
        here = slice(*np.searchsorted(numbers, (rows.start * n_labels, rows.stop * n_labels)))
        place = np.minimum(np.searchsorted(observed, numbers[here]), len(observed) - 1)
        found[here] = observed[place] == numbers[here]
    return found
