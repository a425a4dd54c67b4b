"""Where held-out items stand in the ranking of each user, exactly and without a matrix of users x items.

The rank of an item is 1 plus the number of items that come before it, among those that the user has not rated
in training: items with a higher score, and items with an equal score that stand first in the order of the
items. It is the order of :func:`labelgap.recommending.top_items.top_items`, so the items with a rank of at
most n are those that it returns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError
from labelgap.labels import ObservedLabels
from labelgap.labels.unobserved import observed_among
from labelgap.recommending.top_items import (
    RoughScores,
    Seen,
    Tiles,
    UserItemFactors,
    over_users,
    ready_to_gather,
    score_rows,
)


def ranks_of_held_out(
    user_factors: Floats,
    item_factors: Floats,
    item_intercept: Floats,
    seen: ObservedLabels,
    held: ObservedLabels,
) -> NDArray[np.int64]:
    """The rank of each held-out entry among the items that its user has not rated; 1 is the best.

    Scores are ``u_i · v_j + b_j``. An entry that the user has rated in training has no rank and gets 0.

    Parameters
    ----------
    user_factors, item_factors : arrays of shape (users, k) and (items, k)
    item_intercept : array with one number per item
    seen : ObservedLabels of shape (users, items)
        What was rated in training; the values do not matter.
    held : ObservedLabels of shape (users, items)
        The entries to be ranked.

    Returns
    -------
    ranks : int64 array with one rank per entry of ``held``, in its order

    Examples
    --------
    >>> seen = ObservedLabels.from_triplets([0], [2], [1], shape=(1, 4))
    >>> held = ObservedLabels.from_triplets([0, 0], [0, 3], [1, 1], shape=(1, 4))
    >>> ranks_of_held_out(np.ones((1, 1)), np.array([[3.0], [1.0], [9.0], [5.0]]), np.zeros(4), seen, held)
    array([2, 1])
    """
    factors = UserItemFactors(*map(_doubles, (user_factors, item_factors, item_intercept)))
    shape = (len(factors.users), len(factors.items))
    _check_shapes(seen, held, shape)
    before = np.zeros(held.n_observed, dtype=np.int64)
    if held.n_observed == 0:
        return before
    # Only users with something held out take part.
    busy = np.flatnonzero(held.row_counts())
    factors = factors._replace(users=factors.users[busy])
    held_indptr = held.indptr[np.append(busy, shape[0])]
    items = held.indices.astype(np.int64)
    exact = ready_to_gather(factors)
    scores = score_rows(exact, held_indptr, items)
    theirs = _rows(seen, busy)
    rough = RoughScores(factors, theirs, double=True)

    def work(part: slice) -> None:
        tiles = Tiles(rough, part.stop - part.start)
        for here in tiles.row_blocks(part):
            entries = slice(held_indptr[here.start], held_indptr[here.stop])
            pointers = held_indptr[here.start : here.stop + 1] - held_indptr[here.start]
            surely, perhaps = np.zeros((2, entries.stop - entries.start), dtype=np.int64)
            for first, tile in tiles.blocks(here):
                kernels.ranks.hide_seen(tile, first, *rough.left_out(here))
                kernels.ranks.count_before(
                    tile, rough.margin[here], pointers, scores[entries], surely, perhaps
                )
            before[entries] = surely
            unclear = np.unique(_row_of(pointers)[perhaps - surely > 1])
            _count_again(exact, here.start + unclear, theirs, held_indptr, items, scores, before)

    over_users(work, factors)
    before += 1
    before[observed_among(seen, held.rows * shape[1] + held.indices)] = 0
    return before


def ranks_by_item(item_scores: NDArray[Any], seen: ObservedLabels, held: ObservedLabels) -> NDArray[np.int64]:
    """As :func:`ranks_of_held_out`, where every user has the same scores, such as the items' popularity.

    Examples
    --------
    >>> seen = ObservedLabels.from_triplets([0], [2], [1], shape=(1, 4))
    >>> held = ObservedLabels.from_triplets([0, 0], [0, 3], [1, 1], shape=(1, 4))
    >>> ranks_by_item(np.array([3, 3, 9, 5]), seen, held)
    array([2, 1])
    """
    _check_shapes(seen, held, (seen.shape[0], len(item_scores)))
    places = np.empty(len(item_scores), dtype=np.int64)
    places[np.argsort(-np.asarray(item_scores, dtype=np.float64), kind="stable")] = np.arange(len(places))
    place = places[held.indices]
    # Rows follow each other in both lists, so one search counts the items of the same row that come first.
    taken = np.sort(seen.rows * len(places) + places[seen.indices])
    earlier = np.searchsorted(taken, held.rows * len(places) + place) - seen.indptr[held.rows]
    ranks = np.asarray(place - earlier + 1, dtype=np.int64)
    ranks[observed_among(seen, held.rows * len(places) + held.indices)] = 0
    return ranks


def ranks_alone(ranks: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank that each entry would have if it were the only one of its group that is held out.

    Examples
    --------
    >>> ranks_alone(np.array([7, 2, 3, 1]), np.array([0, 0, 0, 1])).tolist()
    [5, 2, 2, 1]
    """
    order = np.lexsort((ranks, groups))
    ordered = groups[order]
    before = np.empty(len(ranks), dtype=np.int64)
    before[order] = np.arange(len(ranks)) - np.searchsorted(ordered, ordered)
    return np.asarray(ranks - before)


def _count_again(
    factors: UserItemFactors,
    rows: NDArray[np.int64],
    seen: Seen,
    held_indptr: NDArray[np.int64],
    items: NDArray[np.int64],
    scores: Floats,
    before: NDArray[np.int64],
) -> None:
    """Count for these rows, where ties or rounding leave doubt, with exact scores of all items."""
    n_items = len(factors.items)
    everything = np.arange(n_items)
    for row in rows.tolist():
        exact = score_rows(
            factors._replace(users=factors.users[row : row + 1]), np.array([0, n_items]), everything
        )
        exact[seen.indices[seen.indptr[row] : seen.indptr[row + 1]]] = -np.inf
        entries = slice(held_indptr[row], held_indptr[row + 1])
        counts = before[entries]
        pointers = np.array([0, len(counts)])
        kernels.ranks.count_exactly(exact[None, :], pointers, items[entries], scores[entries], counts)


def _doubles(values: Any) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float64)


def _rows(labels: ObservedLabels, rows: NDArray[np.int64]) -> Seen:
    if len(rows) == labels.shape[0]:
        return Seen(labels.indptr, labels.indices)
    counts = labels.row_counts()[rows]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    entries = np.arange(indptr[-1]) + np.repeat(labels.indptr[rows] - indptr[:-1], counts)
    return Seen(indptr, labels.indices[entries])


def _row_of(indptr: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def _check_shapes(seen: ObservedLabels, held: ObservedLabels, shape: tuple[int, int]) -> None:
    for name, labels in (("seen", seen), ("held", held)):
        if labels.shape != shape:
            raise InvalidInputError(
                f"The ratings `{name}` have the shape {labels.shape}; the factors are of {shape[0]} users "
                f"and {shape[1]} items."
            )
