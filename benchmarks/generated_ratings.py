"""Generated yes/no ratings of items by users, as skewed as real ratings.

The truth is ``P(yes) = 1/(1 + exp(-z))`` with ``z = base + bias of the user + bias of the item + u·v``, the
factors of falling importance. A pair is rated with a probability proportional to ``activity of the user x
popularity of the item``: a few users rate many items, and a few items are rated by almost all users. With the
constants below 6040 users, 3952 items and a million ratings look like the MovieLens set of that size: about
3000 ratings for the most popular item, and about 100 for the middle one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FACTORS = 32
# Standard deviations of u·v and of the biases; about 57 % of the ratings are a yes.
SPREAD, USER_BIAS, ITEM_BIAS, BASE = 1.2, 0.5, 0.7, 0.2
# The item in place p is rated in proportion to (p + n/20)^-1.5; activities are log-normal.
POPULARITY_POWER, POPULARITY_HEAD, ACTIVITY = 1.5, 1 / 20, 0.9
# Popular items are liked a little more.
POPULAR_IS_LIKED = 0.3


@dataclass(frozen=True)
class Ratings:
    """User, item and value of each rating, in no order."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.int8]
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Split:
    """Ratings to fit, to choose settings on, and to judge models by."""

    train: Ratings
    validation: Ratings
    held_out: Ratings
    true_log_loss: float
    """The log-loss of the true probabilities on the held-out ratings, which no method should go below."""


def make_split(shape: tuple[int, int], n_train: int, *, held_out: float = 0.1, seed: int = 0) -> Split:
    """``n_train`` ratings to fit, and that fraction as many more for validation and to judge by each."""
    rng = np.random.default_rng(seed)
    n_other = int(held_out * n_train)
    popularity = _popularity(shape[1], rng)
    users, items = _pairs(shape, n_train + 2 * n_other, popularity, rng)
    z = _scores(shape, users, items, popularity, rng)
    values = (rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(np.int8)

    def part(begin: int, end: int) -> Ratings:
        return Ratings(users[begin:end], items[begin:end], values[begin:end], shape)

    held = slice(n_train + n_other, None)
    return Split(
        part(0, n_train),
        part(n_train, n_train + n_other),
        part(n_train + n_other, len(z)),
        log_loss(z[held], values[held]) if n_other else float("nan"),
    )


def make_likes(shape: tuple[int, int], n_likes: int, *, seed: int = 0) -> Ratings:
    """That many likes, for methods that learn from likes alone."""
    # More than half of the ratings are a yes.
    ratings = make_split(shape, 2 * n_likes, held_out=0.0, seed=seed).train
    liked = np.flatnonzero(ratings.values)[:n_likes]
    return Ratings(ratings.users[liked], ratings.items[liked], ratings.values[liked], shape)


def log_loss(scores: NDArray[np.floating], values: NDArray[np.int8]) -> float:
    """Mean of ``log(1 + exp(-yz))`` with y = ±1."""
    return float(np.mean(np.logaddexp(0.0, np.where(values == 1, -1.0, 1.0) * scores)))


def dot_scores(
    left: NDArray[np.floating], right: NDArray[np.floating], ratings: Ratings, block: int = 1 << 18
) -> NDArray[np.float64]:
    """``u·v`` for each rating, a block at a time."""
    out = np.empty(len(ratings))
    for begin in range(0, len(out), block):
        part = slice(begin, begin + block)
        out[part] = np.einsum("ij,ij->i", left[ratings.users[part]], right[ratings.items[part]])
    return out


def _popularity(n_items: int, rng: np.random.Generator) -> NDArray[np.float64]:
    places = rng.permutation(n_items)
    weights = (places + POPULARITY_HEAD * n_items) ** -POPULARITY_POWER
    return weights / weights.sum()


def _pairs(
    shape: tuple[int, int], count: int, popularity: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Different pairs in random order, drawn by activity and popularity."""
    n_users, n_items = shape
    activity = np.cumsum(rng.lognormal(0.0, ACTIVITY, n_users))
    popular = np.cumsum(popularity)
    pairs = np.empty(0, dtype=np.int64)
    while len(pairs) < count:
        more = count - len(pairs) + count // 10
        users = np.searchsorted(activity, rng.random(more) * activity[-1], side="right")
        items = np.searchsorted(popular, rng.random(more) * popular[-1], side="right")
        pairs = np.unique(np.concatenate([pairs, users * np.int64(n_items) + items]))
    pairs = rng.permutation(pairs)[:count]
    users, items = np.divmod(pairs, n_items)
    return users.astype(np.int32), items.astype(np.int32)


def _scores(
    shape: tuple[int, int],
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    popularity: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    n_users, n_items = shape
    importance = np.arange(1, FACTORS + 1) ** -0.5
    importance *= np.sqrt(SPREAD / np.sqrt(np.sum(importance**4)))
    left = (rng.standard_normal((n_users, FACTORS)) * importance).astype(np.float32)
    right = (rng.standard_normal((n_items, FACTORS)) * importance).astype(np.float32)
    familiar = np.log(popularity) - np.mean(np.log(popularity))
    user_bias = USER_BIAS * rng.standard_normal(n_users)
    item_bias = ITEM_BIAS * rng.standard_normal(n_items) + POPULAR_IS_LIKED * familiar
    rated = Ratings(users, items, np.empty(len(users), dtype=np.int8), shape)
    return BASE + user_bias[users] + item_bias[items] + dot_scores(left, right, rated)
