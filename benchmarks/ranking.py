"""Lists of items and how good they are, in numpy alone, so that no fault of labelgap can be in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# Numbers of a block of scores.
_BLOCK = 1 << 24


class Scorer(Protocol):
    """What has a score for every pair of a user and an item."""

    def of(self, users: slice) -> NDArray[Any]:
        """The scores of these users, a new array of users x items."""


class Scores(NamedTuple):
    """``u_i · v_j + b_j``."""

    users: Any
    items: Any
    intercepts: Any

    def of(self, users: slice) -> NDArray[Any]:
        return np.asarray(self.users[users] @ self.items.T) + self.intercepts


def blocks(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows of that width that are not too large."""
    step = max(1, _BLOCK // width)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def top_lists(scores: Scorer, seen: sp.csr_array, n: int) -> NDArray[np.int64]:
    """The n best items of every user without those that are in ``seen``; -1 where there are fewer."""
    parts = []
    for rows in blocks(*seen.shape):
        found, there = scores.of(rows), seen[rows]
        found[np.repeat(np.arange(len(found)), np.diff(there.indptr)), there.indices] = -np.inf
        parts.append(best_columns(found, n))
    return np.concatenate(parts)


def best_columns(scores: NDArray[Any], n: int) -> NDArray[np.int64]:
    """The columns of the n largest of each row, best first; -1 for those of -inf."""
    n = min(n, scores.shape[1])
    top = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    top = np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1, kind="stable"), 1)
    return np.where(np.isneginf(np.take_along_axis(scores, top, 1)), -1, top)


def hits(lists: NDArray[Any], held: sp.csr_array) -> NDArray[np.float64]:
    """1 where the item in a list is a held-out like of the user."""
    users = np.arange(len(lists)).repeat(lists.shape[1])
    items = lists.ravel()
    rows, columns = held.nonzero()
    found = np.isin(users * held.shape[1] + items, rows * np.int64(held.shape[1]) + columns) & (items >= 0)
    return found.reshape(lists.shape).astype(np.float64)


def ndcg(lists: NDArray[Any], held: sp.csr_array) -> float:
    """NDCG of lists of that length, the mean over users with a held-out like."""
    n = lists.shape[1]
    discounts = 1 / np.log2(np.arange(2, n + 2))
    counts = np.diff(held.indptr)
    ideal = np.concatenate([[1.0], np.cumsum(discounts)])[np.minimum(counts, n)]
    return float((hits(lists, held) @ discounts / ideal)[counts > 0].mean())


def recall(lists: NDArray[Any], held: sp.csr_array) -> float:
    """The fraction of the held-out likes that are in the lists, the mean over users with one."""
    counts = np.diff(held.indptr)
    return float((hits(lists, held).sum(axis=1)[counts > 0] / counts[counts > 0]).mean())


def split_likes(X: sp.csr_array, fraction: float, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    """The likes without a random fraction of them, and these."""
    held = np.random.default_rng(seed).random(X.nnz) < fraction
    rows, columns = X.nonzero()
    one, other = (
        sp.csr_array((np.ones(part.sum()), (rows[part], columns[part])), shape=X.shape)
        for part in (~held, held)
    )
    return one, other
