"""The best items of many users, from factors: tiles of rough scores choose candidates, exact scores decide.

A tile of scores, some users by some items, comes from one matrix product, in float32 where there are many
users, and is gone through while it is in the cache. What could be among the best, or above the threshold, by
a bound on the rounding of that product is scored again, pair by pair, in float64. So an answer does not
depend on the tile, the precision, the threads or the company that a user came in: it is what
:func:`score_pairs` says.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labelgap._types import Floats, Ints
from labelgap.kernels import top as kernels
from labelgap.kernels.entries import sampled_product
from labelgap.kernels.threads import map_in_order, thread_count
from labelgap.labels.sources import row_pointers
from labelgap.recommending import score_tiles
from labelgap.recommending.score_tiles import Factors, Rough, RoughScores, Seen, Tiles

__all__ = [
    "Chosen",
    "Factors",
    "Seen",
    "items_above",
    "score_pairs",
    "score_rows",
    "top_columns",
    "top_items",
]

# Bytes, at most, of what is kept about the users of one tile.
_KEPT_BYTES = 1 << 25
# Bytes of pairs that are scored at one time.
_PAIR_BYTES = 1 << 22
# Multiply-adds that are worth a thread of their own.
_WORK_PER_THREAD = 1 << 22


class Chosen(NamedTuple):
    """Items of each row (CSR) with their scores."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int64]
    scores: Floats


def score_pairs(factors: Factors, rows: Ints, items: Ints) -> Floats:
    """``u_i · v_j + b_j`` for pairs, each computed in the same way whatever the others are.

    Examples
    --------
    >>> factors = Factors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), np.array([0.0, 0.5]))
    >>> score_pairs(factors, np.array([1, 0]), np.array([1, 1]))
    array([8.5, 4.5])
    """
    scores = np.empty(len(rows))
    # A pair is a row of its own, so the users' factors are gathered; not all at once.
    step = max(1, _PAIR_BYTES // (8 * max(factors.users.shape[1], 1)))
    for start in range(0, len(rows), step):
        here = slice(start, start + step)
        gathered = factors._replace(users=factors.users[rows[here]])
        one_each = np.arange(len(gathered.users) + 1, dtype=np.int64)
        scores[here] = score_rows(gathered, one_each, items[here])
    return scores


def score_rows(factors: Factors, indptr: Ints, items: Ints) -> Floats:
    """``u_i · v_j + b_j`` for the items of each user, row by row (CSR), as :func:`score_pairs` has it.

    Examples
    --------
    >>> factors = Factors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), np.array([0.0, 0.5]))
    >>> score_rows(factors, np.array([0, 1, 3]), np.array([1, 0, 1]))
    array([4.5, 6. , 8.5])
    """
    # One type of everything, so that it is always the same compiled loop that adds up.
    pointers, columns = (np.ascontiguousarray(part, dtype=np.int64) for part in (indptr, items))
    left, right = (np.ascontiguousarray(part, dtype=np.float64) for part in factors[:2])
    return sampled_product(pointers, columns, left, right) + factors.intercept[columns]


def top_items(factors: Factors, n: int, seen: Seen | None = None) -> tuple[NDArray[np.int64], Floats]:
    """The n best items of every user, best first, with their scores; -1 and NaN where there are fewer.

    Equal scores come in the order of the items.

    Examples
    --------
    >>> factors = Factors(np.array([[1.0], [-1.0]]), np.array([[2.0], [0.0], [1.0]]), np.zeros(3))
    >>> top_items(factors, 2)[0]
    array([[0, 2],
           [1, 2]])
    """
    items = np.full((len(factors.users), n), -1, dtype=np.int64)
    scores = np.full((len(factors.users), n), np.nan)
    if items.size == 0 or len(factors.items) == 0:
        return items, scores
    rough = RoughScores(factors, seen)

    def work(part: slice) -> None:
        best = _Best(rough.dtype, min(n, len(factors.items)), len(factors.items), part)
        tiles = Tiles(rough, best.most_rows)
        for here in tiles.row_blocks(part):
            best.begin(here)
            for first, block in tiles.blocks(here):
                best.keep(first, block, rough.margin[here], *rough.left_out(here))
            chosen, overfull = best.chosen(factors, here)
            kernels.write_best(*chosen, items[here], scores[here])
            for row in here.start + overfull:
                alone = slice(row, row + 1)
                kernels.write_best(*_ranking(factors, alone, rough), items[alone], scores[alone])

    _share_out(work, factors)
    return items, scores


def items_above(
    factors: Factors, threshold: float, seen: Seen | None = None, *, best_first: bool = True
) -> Chosen:
    """The items of every user with a score of at least the threshold, best first or else in their order.

    Examples
    --------
    >>> factors = Factors(np.array([[1.0], [-1.0]]), np.array([[2.0], [0.0], [1.0]]), np.zeros(3))
    >>> chosen = items_above(factors, 0.5)
    >>> chosen.indptr, chosen.items
    (array([0, 2, 2]), array([0, 2]))
    """
    if len(factors.users) == 0 or len(factors.items) == 0:
        return Chosen(np.zeros(len(factors.users) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    rough = RoughScores(factors, seen)
    with np.errstate(over="ignore"):
        cuts = (threshold - rough.margin.astype(np.float64)).astype(rough.dtype)

    def work(part: slice) -> list[Chosen]:
        tiles, above = Tiles(rough, score_tiles.TILE_USERS), _Above()
        found = []
        for here in tiles.row_blocks(part):
            above.begin()
            for first, block in tiles.blocks(here):
                above.keep(first, block, cuts[here], *rough.left_out(here))
            found.append(above.chosen(factors, here, threshold, best_first))
        return found

    found = [chosen for part in _share_out(work, factors) for chosen in part]
    counts = np.concatenate([np.diff(chosen.indptr) for chosen in found])
    items = np.concatenate([chosen.items for chosen in found])
    return Chosen(row_pointers(counts), items, np.concatenate([chosen.scores for chosen in found]))


def top_columns(scores: Rough, n: int) -> tuple[NDArray[np.int64], Rough]:
    """The columns of the n highest scores of each row, best first, with the scores.

    As the first n of a stable sort of the whole row: equal scores in their order, NaN last.

    Examples
    --------
    >>> top_columns(np.array([[0.5, 2.0, 0.5]]), 2)[0]
    array([[1, 0]])
    """
    columns = np.empty((len(scores), n), dtype=np.int64)
    values = np.empty((len(scores), n), dtype=scores.dtype)
    best = _Best(scores.dtype, n, scores.shape[1], slice(0, len(scores)))
    exact, nothing = np.zeros(best.most_rows, scores.dtype), (np.zeros(0, np.int64), np.zeros(0, np.int32))
    for start in range(0, len(scores), best.most_rows):
        here = slice(start, min(start + best.most_rows, len(scores)))
        block = np.ascontiguousarray(scores[here])
        best.begin(here)
        best.keep(0, block, exact, *nothing)
        indptr, chosen = best.packed()
        counts = np.diff(indptr)
        found = block[np.repeat(np.arange(len(block)), counts), chosen]
        kernels.sort_rows(indptr, chosen, found)
        kernels.write_best(indptr, chosen, found, columns[here], values[here])
        # More equal scores than there was room for, or too few that are numbers.
        for row in start + np.flatnonzero(counts < n):
            columns[row] = np.argsort(-scores[row], kind="stable")[:n]
            values[row] = scores[row, columns[row]]
    return columns, values


class _Best:
    """The candidates for the n best of some rows; room for them is made once."""

    def __init__(self, dtype: np.dtype[Any], n: int, n_items: int, part: slice) -> None:
        # More than n, as the cut is low to begin with; some near ties are to fit in.
        capacity = min(n_items, 4 * n + 64)
        per_row = (n + capacity) * dtype.itemsize + 4 * capacity
        self.most_rows = max(1, min(part.stop - part.start, score_tiles.TILE_USERS, _KEPT_BYTES // per_row))
        self._best = np.empty((self.most_rows, n), dtype)
        self._cuts = np.empty(self.most_rows, dtype)
        self._filled = np.empty(self.most_rows, np.int64)
        self._items = np.empty((self.most_rows, capacity), np.int32)
        self._rough = np.empty((self.most_rows, capacity), dtype)
        self._counts = np.empty(self.most_rows, np.int64)
        self._n_rows = 0

    def begin(self, rows: slice) -> None:
        self._n_rows = rows.stop - rows.start
        self._cuts[:] = -np.inf
        self._filled[:] = 0
        self._counts[:] = 0

    def keep(
        self, first: int, scores: Rough, margin: Rough, indptr: NDArray[np.int64], seen: NDArray[np.int32]
    ) -> None:
        kernels.keep_best(
            scores,
            first,
            margin,
            indptr,
            seen,
            self._best,
            self._cuts,
            self._filled,
            self._items,
            self._rough,
            self._counts,
        )

    def packed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The candidates row by row (CSR), none for rows with too many of them."""
        indptr = np.empty(self._n_rows + 1, np.int64)
        counts = self._counts[: self._n_rows]
        return indptr, kernels.pack_candidates(self._cuts, self._items, self._rough, counts, indptr)

    def chosen(self, factors: Factors, rows: slice) -> tuple[Chosen, NDArray[np.intp]]:
        """The candidates with exact scores, best first, and the rows that had too many of them."""
        indptr, items = self.packed()
        scores = score_rows(factors._replace(users=factors.users[rows]), indptr, items)
        kernels.sort_rows(indptr, items, scores)
        return Chosen(indptr, items, scores), np.flatnonzero(self._counts[: self._n_rows] < 0)


class _Above:
    """All items of some rows that may be above a cut."""

    def __init__(self) -> None:
        self._rows = np.empty(0, np.int32)
        self._items = np.empty(0, np.int32)
        self._filled = 0

    def begin(self) -> None:
        self._filled = 0

    def keep(
        self, first: int, scores: Rough, cuts: Rough, indptr: NDArray[np.int64], seen: NDArray[np.int32]
    ) -> None:
        row = 0
        while True:
            row, self._filled = kernels.keep_above(
                scores, first, cuts, indptr, seen, row, self._rows, self._items, self._filled
            )
            if row == len(scores):
                return
            # Room for all of a row, whatever its width.
            size = 2 * len(self._rows) + scores.shape[1]
            self._rows, self._items = (np.resize(part, size) for part in (self._rows, self._items))

    def chosen(self, factors: Factors, rows: slice, threshold: float, best_first: bool) -> Chosen:
        """Those with an exact score of at least the threshold."""
        indptr = np.empty(rows.stop - rows.start + 1, np.int64)
        items = kernels.group_by_row(self._rows, self._items, self._filled, indptr)
        scores = score_rows(factors._replace(users=factors.users[rows]), indptr, items)
        above = scores >= threshold
        chosen = Chosen(row_pointers(above)[indptr], items[above], scores[above])
        if best_first:
            kernels.sort_rows(*chosen)
        return chosen


def _ranking(factors: Factors, rows: slice, rough: RoughScores) -> Chosen:
    """All items of these rows that are not left out, with exact scores, best first."""
    indptr = np.empty(rows.stop - rows.start + 1, np.int64)
    items = kernels.left_over(rough.n_items, *rough.left_out(rows), indptr)
    scores = score_rows(factors._replace(users=factors.users[rows]), indptr, items)
    kernels.sort_rows(indptr, items, scores)
    return Chosen(indptr, items, scores)


def _share_out(work: Callable[[slice], Any], factors: Factors) -> list[Any]:
    """``work`` over all users, a part for each thread."""
    count = len(factors.users)
    total = count * len(factors.items) * (factors.users.shape[1] + 1)
    threads = max(1, min(thread_count(), count, total // _WORK_PER_THREAD))
    cuts = [count * t // threads for t in range(threads + 1)]
    parts = [slice(*pair) for pair in itertools.pairwise(cuts)]
    # Each thread has its own tiles, which are too small for the matrix product to share out: its threads
    # would wait for each other. For a few users, setting the limit takes longer than the work.
    is_little = total < _WORK_PER_THREAD
    with contextlib.nullcontext() if is_little else threadpool_limits(1, user_api="blas"):
        return map_in_order(work, parts)
