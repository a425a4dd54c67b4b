"""The best items of many users on a device: candidates from there, and exact scores that decide."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._types import Floats
from labelgap.recommending.top_items import (
    ScoredItems,
    Seen,
    UserItemFactors,
    ready_to_gather,
    score_rows,
    top_items,
)


def top_items_on(
    device: Any, factors: UserItemFactors, n: int, seen: Seen | None = None
) -> tuple[NDArray[np.int64], Floats]:
    """The n best items of every user with their scores, as :func:`labelgap.recommending.top_items.top_items`.

    The device finds candidates; their exact scores are those of the CPU, and so is the result.
    """
    from labelgap.kernels.gpu.top import TopSearch

    items = np.full((len(factors.users), n), -1, dtype=np.int64)
    scores = np.full((len(factors.users), n), np.nan)
    if items.size == 0 or len(factors.items) == 0:
        return items, scores
    search = TopSearch(factors.items, factors.intercept, device)
    if not search.fits_single(factors.users):
        return top_items(factors, n, seen)
    most = min(n, len(factors.items))
    left_out = None if seen is None else (np.asarray(seen.indptr), np.asarray(seen.indices))
    exactly = ready_to_gather(factors)
    for rows, indptr, found in search.tiles(factors.users, most, left_out):
        exact = score_rows(exactly._replace(users=exactly.users[rows]), indptr, found)
        kernels.top.sort_rows(indptr, found, exact)
        kernels.top.write_best(*ScoredItems(indptr, found, exact), items[rows], scores[rows])
    return items, scores
