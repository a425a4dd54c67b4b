"""Compiled re-ranking of lists, so that their items differ from each other."""

from __future__ import annotations

import numpy as np

from labelgap.kernels.options import compiled


@compiled(nogil=True)
def rerank(items, relevance, directions, diversity, chosen):  # type: ignore[no-untyped-def]
    """Fill ``chosen`` with places of each row's items by maximal marginal relevance.

    The first is the first item of the row. Each next one has the largest
    ``(1 − diversity) relevance − diversity max over those chosen of the cosine``; of equal ones the first.

    Parameters
    ----------
    items : int64 array, rows x candidates
        The candidates, best first; -1 where there are no more.
    relevance : float64 array, rows x candidates
    directions : float64 array, items x k
        Factors of length 1, or 0.
    diversity : float
    chosen : int64 array, rows x n
        -1 where there are no more candidates.
    """
    n_rows, m = items.shape
    n = chosen.shape[1]
    nearest = np.empty(m)
    taken = np.empty(m, np.bool_)
    for i in range(n_rows):
        count = 0
        while count < m and items[i, count] >= 0:
            count += 1
        nearest[:count] = -np.inf
        taken[:count] = False
        last = -1
        for place in range(n):
            if place >= count:
                chosen[i, place] = -1
                continue
            best, best_value = -1, -np.inf
            for c in range(count):
                if taken[c]:
                    continue
                value = relevance[i, c]
                if last >= 0:
                    cosine = 0.0
                    for f in range(directions.shape[1]):
                        cosine += directions[items[i, c], f] * directions[items[i, last], f]
                    nearest[c] = max(nearest[c], cosine)
                    value = (1 - diversity) * value - diversity * nearest[c]
                if best < 0 or value > best_value:
                    best, best_value = c, value
            chosen[i, place] = best
            taken[best] = True
            last = best
