"""Rows, or groups of rows, dealt to folds one after the other."""

from __future__ import annotations

import numpy as np

from labelgap.kernels.options import compiled


@compiled(nogil=True)
def deal(order, indptr, kinds, parts, lacking, draws, rounding):  # type: ignore[no-untyped-def]
    """The fold of each unit: that which lacks most of what the unit holds.

    Unit u holds the ``parts[indptr[u]:indptr[u + 1]]`` of all entries of these ``kinds``, and ``lacking``
    says what each fold lacks of each kind. Among folds that are equal but for ``rounding``, the number from 0
    to 1 in ``draws`` decides.
    """
    n_folds = lacking.shape[0]
    fold_of = np.empty(len(order), np.int64)
    gains = np.empty(n_folds)
    for u in order:
        largest, size = -np.inf, 0.0
        for f in range(n_folds):
            gain = 0.0
            for e in range(indptr[u], indptr[u + 1]):
                gain += lacking[f, kinds[e]] * parts[e]
            gains[f] = gain
            largest, size = max(largest, gain), max(size, abs(gain))
        least = largest - rounding * size
        equal = 0
        for f in range(n_folds):
            equal += gains[f] >= least
        wanted = np.int64(draws[u] * equal)
        for f in range(n_folds):
            if gains[f] >= least:
                if wanted == 0:
                    fold_of[u] = f
                    break
                wanted -= 1
        for e in range(indptr[u], indptr[u + 1]):
            lacking[fold_of[u], kinds[e]] -= parts[e]
    return fold_of
