"""Lists of ten items: Recommender against popularity, implicit's ALS and BPR, and LightFM's WARP.

Every method gets the same training ratings and is judged by the NDCG of held-out likes among all items that a
user has not rated in training. The rivals learn from the likes alone, as they are made for, and each takes
the best of its grid by the NDCG of a fifth of its training likes; then it is fitted to all of them. The
Recommender chooses by itself. ``python -m experiments.recommenders --questions lists`` compares them.

- taste: generated, 943 users and 1682 items. Popularity is skewed, and users rate what is to their taste.
- jester5k, coat: a random fifth of the (training) ratings is held out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks import rivals
from benchmarks.ranking import Scores, ndcg, precision, top_lists

from labelgap import ObservedLabels, Recommender
from labelgap.data import AnswerData, Answers

SHOWN, HELD_OUT = 10, 0.2
MEASURES = ("NDCG@10", "precision@10", "seconds")


def make_taste(
    seed: int, shape: tuple[int, int] = (943, 1682), n_ratings: int = 100_000, name: str = "taste"
) -> AnswerData:
    """Users choose items by popularity and taste, and like what is to their taste.

    A user's items are those with the largest sum of log-popularity, taste and Gumbel noise, which is a draw
    in proportion to ``popularity · exp(taste)``. The log-odds of a like are linear in taste.
    """
    rng = np.random.default_rng(seed)
    n, n_items = shape
    importance = np.arange(1, 11) ** -0.5
    taste = (rng.standard_normal((n, 10)) * importance) @ rng.standard_normal((n_items, 10)).T
    taste /= taste.std()
    popularity = -1.2 * np.log(rng.permutation(n_items) + n_items / 20)
    quality, mood = 0.7 * rng.standard_normal(n_items), 0.5 * rng.standard_normal(n)
    wish = popularity + taste + rng.gumbel(size=shape)
    activity = rng.lognormal(0.0, 0.9, n)
    counts = np.clip(np.round(activity / activity.sum() * n_ratings), 5, n_items // 2).astype(np.int64)
    items = np.concatenate([np.argpartition(-wish[user], counts[user])[: counts[user]] for user in range(n)])
    users = np.repeat(np.arange(n), counts)
    z = 0.2 + 0.9 * taste[users, items] + quality[items] + mood[users]
    liked = (rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(np.float64)
    return AnswerData(name, Answers(users, items, liked), None, shape)


def as_labels(ratings: Answers, shape: tuple[int, int]) -> ObservedLabels:
    """Likes and dislikes, users x items."""
    return ObservedLabels.from_triplets(ratings.user, ratings.item, ratings.rating, shape=shape)


def likes_of(ratings: Answers, shape: tuple[int, int], *, all_pairs: bool = False) -> sp.csr_array:
    """The likes, as the rivals take them, or all pairs that are rated."""
    chosen = np.ones(len(ratings), dtype=bool) if all_pairs else ratings.rating == 1
    places = ratings.user[chosen], ratings.item[chosen]
    return sp.csr_array((np.ones(int(chosen.sum())), places), shape=shape)


def split(ratings: Answers, seed: int) -> tuple[Answers, Answers]:
    """A random fifth is held out."""
    held = np.random.default_rng(1000 + seed).random(len(ratings)) < HELD_OUT
    return ratings.take(~held), ratings.take(held)


def judged(scores: Scores, train: Answers, held: Answers, shape: tuple[int, int]) -> dict[str, float]:
    """NDCG and precision of lists of ten of the items that a user has not rated."""
    found = top_lists(scores, likes_of(train, shape, all_pairs=True), SHOWN)
    liked = likes_of(held, shape)
    return {"NDCG@10": ndcg(found, liked), "precision@10": precision(found, liked)}


# -- methods: from the training ratings, the shape and a seed to scores ------------------------------------

Method = Callable[[Answers, tuple[int, int], int], Scores]


def popularity(train: Answers, shape: tuple[int, int], seed: int) -> Scores:
    """How many likes each item has."""
    counts = np.bincount(train.item[train.rating == 1], minlength=shape[1]).astype(np.float64)
    return Scores(np.zeros((shape[0], 1)), np.zeros((shape[1], 1)), counts)


def recommender(**settings: Any) -> Method:
    """A Recommender with these settings."""

    def method(train: Answers, shape: tuple[int, int], seed: int) -> Scores:
        model = Recommender(random_state=seed, **settings).fit(as_labels(train, shape))
        return Scores(model.user_factors_, model.item_factors_, model.item_intercept_)

    return method


def tuned(fit: Callable[..., Scores], grid: Mapping[str, Iterable[Any]]) -> Method:
    """The method at the best settings of its grid by a fifth of its training likes."""

    def method(train: Answers, shape: tuple[int, int], seed: int) -> Scores:
        part, validation = split(train, seed + 1)
        settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        values = [
            judged(fit(likes_of(part, shape), seed, **one), part, validation, shape)["NDCG@10"]
            for one in settings
        ]
        # Of equally good ones the last.
        best = len(values) - 1 - int(np.argmax(values[::-1]))
        return fit(likes_of(train, shape), seed, **settings[best])

    return method


METHODS: dict[str, Method] = {
    "popularity": popularity,
    "Recommender, for lists": recommender(unobserved="negative"),
    "Recommender, for decisions": recommender(),
}
RATES = (0.01, 0.05)
ALS = {"factors": (8, 16, 32, 64), "regularization": (1.0, 10.0, 100.0), "alpha": (1.0, 5.0, 20.0)}
BPR = {"factors": (16, 64), "learning_rate": RATES, "regularization": (0.01, 0.1)}
WARP = {"no_components": (16, 64), "learning_rate": RATES, "epochs": (10, 30)}
RIVALS: dict[str, tuple[str, Method]] = {
    "implicit ALS, best of 36": ("implicit", tuned(rivals.als, ALS)),
    "implicit BPR, best of 8": ("implicit", tuned(rivals.bpr, BPR)),
    "LightFM WARP, best of 8": ("lightfm", tuned(rivals.warp, WARP)),
}


@cache
def methods() -> dict[str, Method]:
    """Ours, and the rivals that are installed; a note says which are not."""
    chosen = dict(METHODS)
    for name, (package, method) in RIVALS.items():
        reason = rivals.missing(package)
        if reason is None:
            chosen[name] = method
        else:
            print(f"{name} is left out: {reason}")
    return chosen


def measure(name: str, data: AnswerData, seed: int) -> dict[str, float]:
    """One method on one draw; all methods get the same ratings."""
    train, held = split(data.answers, seed)
    began = time.perf_counter()
    scores = methods()[name](train, data.shape, seed)
    seconds = time.perf_counter() - began
    return judged(scores, train, held, data.shape) | {"seconds": seconds}
