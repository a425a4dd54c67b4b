"""Entries that are not observed, drawn at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import distinct
from labelgap.labels.observed import ObservedLabels


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
    drawn = np.setdiff1d(drawn, labels.rows * n_labels + labels.cols, assume_unique=True)
    return drawn, n_others / max(len(drawn), 1)
