"""The best items of many users, from factors: blocks of rough scores choose candidates, exact scores decide.

A block of scores comes from one matrix product, in float32 where there are many users. What could be among
the best, or above the threshold, by a bound on the rounding of that product is scored again, pair by pair, in
float64. So an answer does not depend on the block, the precision or the company that a user came in: it is
what :func:`score_pairs` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._label_sources import row_pointers
from labelgap._types import Floats, Ints
from labelgap.objective.kernels.entries import sampled_product

Rough: TypeAlias = NDArray[np.floating[Any]]
"""Scores in float32 or float64."""

# Bytes of scores held at one time. Smaller than memory would allow: a block is read three times, from cache.
_BLOCK_BYTES = 1 << 22
# From this many users on, the smaller numbers make up for copying the factors.
_MANY_USERS = 64
# Groups of items, at least, whose best scores bound the n-th best of all from below.
_GROUPS = 128
# Scores from here on could overflow in float32.
_LARGEST_SINGLE = 1e30


class Factors(NamedTuple):
    """Factors of some users and of all items: ``z_ij = u_i · v_j + b_j``."""

    users: Floats
    items: Floats
    intercept: Floats


class Seen(NamedTuple):
    """Items to be left out, row by row (CSR)."""

    indptr: Ints
    indices: Ints


class Chosen(NamedTuple):
    """Items of each row (CSR) with their scores."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int64]
    scores: Floats


class _Block(NamedTuple):
    start: int
    stop: int
    scores: Rough
    slack: Floats
    """How far off the scores of each row may be (a column)."""


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
    step = max(1, _BLOCK_BYTES // (8 * max(factors.users.shape[1], 1)))
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
    count = len(factors.users)
    items = np.full((count, n), -1, dtype=np.int64)
    scores = np.full((count, n), np.nan)
    for block in _blocks(factors, seen):
        # Both the n-th best and what is compared with it may be off.
        cut = _nth_best(block.scores, n) - 2 * block.slack
        chosen = _rescored(factors, block, cut, best_first=True)
        counts = np.diff(chosen.indptr)
        rows = np.repeat(np.arange(block.start, block.stop), counts)
        place = np.arange(len(rows)) - np.repeat(chosen.indptr[:-1], counts)
        kept = place < n
        items[rows[kept], place[kept]] = chosen.items[kept]
        scores[rows[kept], place[kept]] = chosen.scores[kept]
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
    counts = np.zeros(len(factors.users), dtype=np.int64)
    items, scores = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for block in _blocks(factors, seen):
        chosen = _rescored(factors, block, threshold - block.slack, best_first)
        above = chosen.scores >= threshold
        counts[block.start : block.stop] = np.diff(row_pointers(above)[chosen.indptr])
        items.append(chosen.items[above])
        scores.append(chosen.scores[above])
    return Chosen(row_pointers(counts), np.concatenate(items), np.concatenate(scores))


def _blocks(factors: Factors, seen: Seen | None) -> Iterator[_Block]:
    """Rough scores of blocks of users, -inf at what is left out."""
    count, n_items = len(factors.users), len(factors.items)
    if count == 0 or n_items == 0:
        return
    users, items = _norms(factors.users), float(_norms(factors.items).max())
    reach = users * items + np.abs(factors.intercept).max()
    single = count >= _MANY_USERS and max(reach.max(), users.max(), items) < _LARGEST_SINGLE
    dtype = np.float32 if single else np.float64
    left: Rough = factors.users.astype(dtype, copy=False)
    right: Rough = factors.items.astype(dtype, copy=False)
    intercept: Rough = factors.intercept.astype(dtype, copy=False)
    # Rounding of two factors, of each product and sum, and what underflows; then of the exact score, which is
    # far less.
    eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    slack = ((left.shape[1] + 4) * (eps * reach + tiny * (1 + users + items)))[:, None]
    step = max(1, _BLOCK_BYTES // (n_items * np.dtype(dtype).itemsize))
    for start in range(0, count, step):
        stop = min(start + step, count)
        scores: Rough = left[start:stop] @ right.T
        scores += intercept
        if seen is not None:
            pointers = seen.indptr[start : stop + 1]
            rows = np.repeat(np.arange(stop - start), np.diff(pointers))
            scores[rows, seen.indices[pointers[0] : pointers[-1]]] = -np.inf
        yield _Block(start, stop, scores, slack[start:stop])


def _norms(factors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", factors, factors)))


def _nth_best(scores: Rough, n: int) -> Floats:
    """A lower bound, and a close one, of each row's n-th largest score; -inf where there are none so many.

    Of the best scores of disjoint groups of items, n are no smaller than the n-th largest of them. The groups
    are interleaved: good items often stand together.
    """
    n_rows, n_items = scores.shape
    if n >= n_items:
        return np.full((n_rows, 1), -np.inf)
    groups = max(_GROUPS, 4 * n)
    depth = n_items // groups
    if depth > 1:
        scores = scores[:, : depth * groups].reshape(n_rows, depth, groups).max(axis=1)
    nth = scores.shape[1] - n
    return np.partition(scores, nth, axis=1)[:, [nth]].astype(np.float64)


def _rescored(factors: Factors, block: _Block, cut: Floats, best_first: bool) -> Chosen:
    """The items of each row whose rough score reaches the cut, with exact scores."""
    dtype = block.scores.dtype
    # What is left out, at -inf, stays below the lowest number.
    with np.errstate(over="ignore"):
        reached = block.scores >= np.maximum(cut, float(np.finfo(dtype).min)).astype(dtype)
    flat = np.flatnonzero(reached)
    rows, items = np.divmod(flat, block.scores.shape[1])
    indptr = np.searchsorted(rows, np.arange(len(block.scores) + 1))
    here = factors._replace(users=factors.users[block.start : block.stop])
    scores = score_rows(here, indptr, items)
    if not best_first:
        return Chosen(indptr, items, scores)
    # Stable, so that equal scores keep the order of the items.
    order = np.lexsort((-scores, rows))
    return Chosen(indptr, items[order], scores[order])
