"""The best items of many users, from factors: tiles of rough scores choose candidates, exact scores decide.

A tile of scores, some users by some items, comes from one matrix product, in float32 where there are many
users, and is searched while it is in the cache. A bound on the rounding of that product says which items
could be among the best, or above the threshold; these are scored again, pair by pair, in float64. So the
result does not depend on the tile, the precision, the threads or the other users of a call: it is that of
:func:`score_pairs`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from labelgap import kernels
from labelgap._types import Floats, Ints
from labelgap.kernels.threads import map_in_order, thread_count
from labelgap.labels.sources import row_pointers

Rough: TypeAlias = NDArray[np.floating[Any]]
"""Scores in float32 or float64."""

# The size of one tile of scores, which is written and read while it is in the cache of one core.
TILE_BYTES = 1 << 20
# The number of users of one tile is large enough for the matrix product to run at full speed.
TILE_USERS = 512
# From this many users on, the speed of float32 makes up for copying the factors.
_MANY_USERS = 64
# Scores from here on could overflow in float32.
_LARGEST_SINGLE = 1e30
# At most so many bytes are kept about the users of one tile.
_KEPT_BYTES = 1 << 25
# The factors of the pairs that are scored at one time take so many bytes.
_PAIR_BYTES = 1 << 22
# Multiply-adds that are worth a thread of their own.
_WORK_PER_THREAD = 1 << 22


class UserItemFactors(NamedTuple):
    """Factors of some users and of all items: ``z_ij = u_i · v_j + b_j``."""

    users: Floats
    items: Floats
    intercept: Floats


class Seen(NamedTuple):
    """Items to be left out, row by row (CSR), ascending in each row."""

    indptr: Ints
    indices: Ints


class ScoredItems(NamedTuple):
    """Chosen items of each row (CSR) with their scores."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int64]
    scores: Floats


def score_pairs(factors: UserItemFactors, rows: Ints, items: Ints) -> Floats:
    """``u_i · v_j + b_j`` for pairs, each computed in the same way whatever the others are.

    Examples
    --------
    >>> factors = UserItemFactors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), np.array([0.0, 0.5]))
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


def score_rows(factors: UserItemFactors, indptr: Ints, items: Ints) -> Floats:
    """``u_i · v_j + b_j`` for the items of each user, row by row (CSR), as :func:`score_pairs` has it.

    Examples
    --------
    >>> factors = UserItemFactors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), np.array([0.0, 0.5]))
    >>> score_rows(factors, np.array([0, 1, 3]), np.array([1, 0, 1]))
    array([4.5, 6. , 8.5])
    """
    # With one data type for each argument, and without blocks of rows that are nearly complete, the same
    # compiled loop adds up every score.
    pointers, columns = (np.ascontiguousarray(part, dtype=np.int64) for part in (indptr, items))
    left, right = (np.ascontiguousarray(part, dtype=np.float64) for part in factors[:2])
    return (
        kernels.entries.sampled_product(pointers, columns, left, right, by_entry=True)
        + factors.intercept[columns]
    )


def ready_to_gather(factors: UserItemFactors) -> UserItemFactors:
    """The same factors for many calls of :func:`score_rows`, which then need not copy those of the items."""
    users, items = (np.ascontiguousarray(part, dtype=np.float64) for part in factors[:2])
    return factors._replace(users=users, items=kernels.entries.table(items, len(items)))


def top_items(factors: UserItemFactors, n: int, seen: Seen | None = None) -> tuple[NDArray[np.int64], Floats]:
    """The n best items of every user, best first, with their scores; -1 and NaN where there are fewer.

    Equal scores come in the order of the items.

    Examples
    --------
    >>> factors = UserItemFactors(np.array([[1.0], [-1.0]]), np.array([[2.0], [0.0], [1.0]]), np.zeros(3))
    >>> top_items(factors, 2)[0]
    array([[0, 2],
           [1, 2]])
    """
    items = np.full((len(factors.users), n), -1, dtype=np.int64)
    scores = np.full((len(factors.users), n), np.nan)
    if items.size == 0 or len(factors.items) == 0:
        return items, scores
    rough, exact = RoughScores(factors, seen), ready_to_gather(factors)

    def work(part: slice) -> None:
        best = _Best(rough.dtype, min(n, len(factors.items)), len(factors.items), part)
        tiles = Tiles(rough, best.most_rows)
        for here in tiles.row_blocks(part):
            best.begin(here)
            for first, block in tiles.blocks(here):
                best.keep(first, block, rough.margin[here], *rough.left_out(here))
            chosen, overfull = best.chosen(exact, here)
            kernels.top.write_best(*chosen, items[here], scores[here])
            for row in here.start + overfull:
                alone = slice(row, row + 1)
                kernels.top.write_best(*_ranking(exact, alone, rough), items[alone], scores[alone])

    over_users(work, factors)
    return items, scores


def items_above(
    factors: UserItemFactors, threshold: float, seen: Seen | None = None, *, best_first: bool = True
) -> ScoredItems:
    """The items of every user with a score of at least the threshold, best first or else in their order.

    Examples
    --------
    >>> factors = UserItemFactors(np.array([[1.0], [-1.0]]), np.array([[2.0], [0.0], [1.0]]), np.zeros(3))
    >>> chosen = items_above(factors, 0.5)
    >>> chosen.indptr, chosen.items
    (array([0, 2, 2]), array([0, 2]))
    """
    if len(factors.users) == 0 or len(factors.items) == 0:
        return ScoredItems(np.zeros(len(factors.users) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    rough, exact = RoughScores(factors, seen), ready_to_gather(factors)
    with np.errstate(over="ignore"):
        cuts = (threshold - rough.margin.astype(np.float64)).astype(rough.dtype)

    def work(part: slice) -> list[ScoredItems]:
        tiles, above = Tiles(rough, TILE_USERS), _Above()
        found = []
        for here in tiles.row_blocks(part):
            above.begin()
            for first, block in tiles.blocks(here):
                above.keep(first, block, cuts[here], *rough.left_out(here))
            found.append(above.chosen(exact, here, threshold, best_first))
        return found

    found = [chosen for part in over_users(work, factors) for chosen in part]
    counts = np.concatenate([np.diff(chosen.indptr) for chosen in found])
    items = np.concatenate([chosen.items for chosen in found])
    return ScoredItems(row_pointers(counts), items, np.concatenate([chosen.scores for chosen in found]))


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
        found = block[np.repeat(np.arange(len(block)), counts), chosen].astype(np.float64)
        kernels.top.sort_rows(indptr, chosen, found)
        kernels.top.write_best(indptr, chosen, found, columns[here], values[here])
        # More equal scores than the capacity for candidates, or too few that are numbers.
        for row in start + np.flatnonzero(counts < n):
            columns[row] = np.argsort(-scores[row], kind="stable")[:n]
            values[row] = scores[row, columns[row]]
    return columns, values


# -- tiles of rough scores -----------------------------------------------------------------------------


class RoughScores:
    """Computes tiles of rough scores, with a bound on their rounding error.

    They are in float32 where there are many users, unless ``double`` asks for float64.
    """

    def __init__(self, factors: UserItemFactors, seen: Seen | None, *, double: bool = False) -> None:
        users, items = _norms(factors.users), float(_norms(factors.items).max())
        reach = users * items + np.abs(factors.intercept).max()
        many = len(factors.users) >= _MANY_USERS and not double
        self.single = many and max(reach.max(), users.max(), items) < _LARGEST_SINGLE
        self.dtype = np.dtype(np.float32 if self.single else np.float64)
        self._factors = factors
        if self.single:
            # The intercept is one more factor, of users that all have 1 there.
            self._users = np.column_stack([factors.users, np.ones(len(users))]).astype(np.float32)
            self._items = np.vstack([factors.items.T, factors.intercept]).astype(np.float32)
        # The bound covers the rounding of two factors, of each product and sum, and underflow. The exact
        # score and the cut are rounded far less. It is doubled because both compared scores may be off.
        limits = np.finfo(np.float32) if self.single else np.finfo(np.float64)
        eps, tiny = float(limits.eps), float(limits.tiny)
        slack = (factors.users.shape[1] + 6) * (eps * reach + tiny * (1 + users + items))
        self.margin: Rough = (2 * slack).astype(self.dtype)
        nothing = np.zeros(0, np.int64)
        self._seen = (nothing, nothing.astype(np.int32))
        if seen is not None:
            indptr = np.ascontiguousarray(seen.indptr, np.int64)
            self._seen = (indptr, np.ascontiguousarray(seen.indices, np.int32))

    @property
    def n_items(self) -> int:
        return len(self._factors.items)

    def left_out(self, rows: slice) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The items to be left out of these rows (CSR); row pointers are empty where there are none."""
        indptr, indices = self._seen
        return (indptr if indptr.size == 0 else indptr[rows.start : rows.stop + 1]), indices

    def write(self, rows: slice, items: slice, out: Rough) -> None:
        """Write the rough scores of some users for some items."""
        if self.single:
            np.matmul(self._users[rows], self._items[:, items], out=out)
        else:
            np.matmul(self._factors.users[rows], self._factors.items[items].T, out=out)
            out += self._factors.intercept[items]


class Tiles:
    """The workspace for one tile, and the order of tiles: all items of some users, then the next users."""

    def __init__(self, rough: RoughScores, most_rows: int) -> None:
        self._rough = rough
        self._most_rows = min(most_rows, TILE_USERS)
        self._workspace: Rough = np.empty(0, rough.dtype)

    def row_blocks(self, part: slice) -> Iterator[slice]:
        for start in range(part.start, part.stop, self._most_rows):
            yield slice(start, min(start + self._most_rows, part.stop))

    def blocks(self, rows: slice) -> Iterator[tuple[int, Rough]]:
        """(first item, scores) of each tile of these rows."""
        rough, n_rows = self._rough, rows.stop - rows.start
        width = min(max(1, TILE_BYTES // (rough.dtype.itemsize * n_rows)), rough.n_items)
        if self._workspace.size < n_rows * width:
            self._workspace = np.empty(n_rows * width, rough.dtype)
        for first in range(0, rough.n_items, width):
            items = slice(first, min(first + width, rough.n_items))
            scores = self._workspace[: n_rows * (items.stop - first)].reshape(n_rows, -1)
            rough.write(rows, items, scores)
            yield first, scores


def _norms(factors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", factors, factors)))


# -- candidates ----------------------------------------------------------------------------------------


class _Best:
    """The candidates for the n best of some rows; their arrays are allocated once."""

    def __init__(self, dtype: np.dtype[Any], n: int, n_items: int, part: slice) -> None:
        # More than n, because the cut is low to begin with and near ties must fit.
        capacity = min(n_items, 4 * n + 64)
        per_row = (n + capacity) * dtype.itemsize + 4 * capacity
        self.most_rows = max(1, min(part.stop - part.start, TILE_USERS, _KEPT_BYTES // per_row))
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
        kernels.top.keep_best(
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
        return indptr, kernels.top.pack_candidates(self._cuts, self._items, self._rough, counts, indptr)

    def chosen(self, factors: UserItemFactors, rows: slice) -> tuple[ScoredItems, NDArray[np.intp]]:
        """The candidates with exact scores, best first, and the rows that had too many of them."""
        indptr, items = self.packed()
        scores = score_rows(factors._replace(users=factors.users[rows]), indptr, items)
        kernels.top.sort_rows(indptr, items, scores)
        return ScoredItems(indptr, items, scores), np.flatnonzero(self._counts[: self._n_rows] < 0)


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
            row, self._filled = kernels.top.keep_above(
                scores, first, cuts, indptr, seen, row, self._rows, self._items, self._filled
            )
            if row == len(scores):
                return
            # At least one more row fits after this, whatever its width.
            size = 2 * len(self._rows) + scores.shape[1]
            self._rows, self._items = (np.resize(part, size) for part in (self._rows, self._items))

    def chosen(
        self, factors: UserItemFactors, rows: slice, threshold: float, best_first: bool
    ) -> ScoredItems:
        """The items with an exact score of at least the threshold."""
        indptr = np.empty(rows.stop - rows.start + 1, np.int64)
        items = kernels.top.group_by_row(self._rows, self._items, self._filled, indptr)
        scores = score_rows(factors._replace(users=factors.users[rows]), indptr, items)
        above = scores >= threshold
        chosen = ScoredItems(row_pointers(above)[indptr], items[above], scores[above])
        if best_first:
            kernels.top.sort_rows(*chosen)
        return chosen


def _ranking(factors: UserItemFactors, rows: slice, rough: RoughScores) -> ScoredItems:
    """All items of these rows that are not left out, with exact scores, best first."""
    indptr = np.empty(rows.stop - rows.start + 1, np.int64)
    items = kernels.top.left_over(rough.n_items, *rough.left_out(rows), indptr)
    scores = score_rows(factors._replace(users=factors.users[rows]), indptr, items)
    kernels.top.sort_rows(indptr, items, scores)
    return ScoredItems(indptr, items, scores)


def over_users(work: Callable[[slice], Any], factors: UserItemFactors) -> list[Any]:
    """Run ``work`` on all users, one part of them in each thread."""
    count = len(factors.users)
    total = count * len(factors.items) * (factors.users.shape[1] + 1)
    threads = max(1, min(thread_count(), count, total // _WORK_PER_THREAD))
    cuts = [count * t // threads for t in range(threads + 1)]
    parts = [slice(*pair) for pair in itertools.pairwise(cuts)]
    # Each thread has its own tiles, which are too small for a matrix product in several threads. For a few
    # users, setting the limit takes longer than the work.
    is_little = total < _WORK_PER_THREAD
    with contextlib.nullcontext() if is_little else threadpool_limits(1, user_api="blas"):
        return map_in_order(work, parts)
