"""Lists of ten items: Recommender against popularity, implicit's ALS and BPR, and LightFM's WARP.

Every method gets the same training ratings and is judged by the NDCG of held-out likes among all items that a
user has not rated in training. The rivals learn from the likes alone, as they are made for, and each takes
the best of its grid by the NDCG of a fifth of its training likes; then it is fitted to all of them. The
Recommender chooses by itself.

- taste: generated, 943 users and 1682 items. Popularity is skewed, and users rate what is to their taste.
- jester5k, coat: a random fifth of the (training) ratings is held out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelgap import ObservedLabels, Recommender
from labelgap.metrics import ranking_figures
from labelgap.recommending.ranks import ranks_by_item, ranks_of_held_out

SHOWN = 10
HELD_OUT = 0.2
MEASURES = ("NDCG@10", "precision@10", "seconds")

Measured = dict[str, float]


class Ratings(NamedTuple):
    """Likes (1) and dislikes (0) of users about items."""

    user: Any
    item: Any
    like: Any
    shape: tuple[int, int]

    def take(self, chosen: Any) -> Ratings:
        return Ratings(self.user[chosen], self.item[chosen], self.like[chosen], self.shape)

    def labels(self) -> ObservedLabels:
        return ObservedLabels.from_triplets(self.user, self.item, self.like, shape=self.shape)

    def likes(self) -> sp.csr_matrix:
        """As the rivals take them."""
        liked = np.flatnonzero(self.like == 1)
        ones = np.ones(len(liked), dtype=np.float32)
        return sp.csr_matrix((ones, (self.user[liked], self.item[liked])), shape=self.shape)


class Scores(NamedTuple):
    """``u_i · v_j + b_j``."""

    users: Any
    items: Any
    intercepts: Any


def make_taste(seed: int, shape: tuple[int, int] = (943, 1682), n_ratings: int = 100_000) -> Ratings:
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
    return Ratings(users, items, (rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(np.int64), shape)


def split(ratings: Ratings, seed: int) -> tuple[Ratings, Ratings]:
    """A random fifth is held out."""
    held = np.random.default_rng(1000 + seed).random(len(ratings.user)) < HELD_OUT
    return ratings.take(~held), ratings.take(held)


# -- judging -----------------------------------------------------------------------------------------------


def judged(scores: Scores | Any, train: Ratings, held: Ratings) -> Measured:
    """NDCG and precision of lists of ten; scores of one number per item are the same for every user."""
    seen = train.labels()
    liked = held.take(held.like == 1).labels()
    if isinstance(scores, Scores):
        ranks = ranks_of_held_out(*scores, seen, liked)
    else:
        ranks = ranks_by_item(scores, seen, liked)
    candidates = train.shape[1] - seen.row_counts()
    figures = ranking_figures(ranks, liked.indptr, candidates, SHOWN)
    return {"NDCG@10": figures.ndcg, "precision@10": figures.precision}


# -- methods -----------------------------------------------------------------------------------------------


def popularity(train: Ratings, seed: int) -> Any:
    """How many likes each item has."""
    return np.bincount(train.item[train.like == 1], minlength=train.shape[1]).astype(np.float64)


def recommender(train: Ratings, seed: int) -> Scores:
    """The default for lists."""
    model = Recommender(unobserved="negative", random_state=seed).fit(train.labels())
    return Scores(model.user_factors_, model.item_factors_, model.item_intercept_)


def deciding(train: Ratings, seed: int) -> Scores:
    """The default for decisions, which is not made for lists."""
    model = Recommender(random_state=seed).fit(train.labels())
    return Scores(model.user_factors_, model.item_factors_, model.item_intercept_)


def tuned(fit: Callable[..., Scores], grid: Mapping[str, Iterable[Any]]) -> Callable[[Ratings, int], Scores]:
    """The method at the best settings of its grid by a fifth of its training likes."""

    def method(train: Ratings, seed: int) -> Scores:
        part, validation = split(train, seed + 1)
        names = list(grid)
        found = []
        for values in itertools.product(*grid.values()):
            settings = dict(zip(names, values, strict=True))
            scores = fit(part.likes(), seed, **settings)
            found.append((judged(scores, part, validation)["NDCG@10"], len(found), settings))
        return fit(train.likes(), seed, **max(found)[2])

    return method


def als(likes: Any, seed: int, **settings: Any) -> Scores:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(iterations=15, random_state=seed, **settings)
    model.fit(likes, show_progress=False)
    return _factors(model)


def bpr(likes: Any, seed: int, **settings: Any) -> Scores:
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(iterations=100, random_state=seed, num_threads=1, **settings)
    model.fit(likes, show_progress=False)
    return _factors(model)


def warp(likes: Any, seed: int, *, epochs: int, **settings: Any) -> Scores:
    from lightfm import LightFM

    model = LightFM(loss="warp", random_state=seed, **settings).fit(likes, epochs=epochs)
    intercepts, items = model.get_item_representations()
    return Scores(model.get_user_representations()[1], items, intercepts)


def _factors(model: Any) -> Scores:
    return Scores(model.user_factors, model.item_factors, np.zeros(len(model.item_factors)))


OURS: dict[str, Callable[[Ratings, int], Any]] = {
    "popularity": popularity,
    "Recommender, for lists": recommender,
    "Recommender, for decisions": deciding,
}
_RIVALS: dict[str, tuple[str, Callable[[Ratings, int], Any]]] = {
    "implicit ALS, best of 36": (
        "implicit",
        tuned(
            als,
            {"factors": (8, 16, 32, 64), "regularization": (1.0, 10.0, 100.0), "alpha": (1.0, 5.0, 20.0)},
        ),
    ),
    "implicit BPR, best of 8": (
        "implicit",
        tuned(bpr, {"factors": (16, 64), "learning_rate": (0.01, 0.05), "regularization": (0.01, 0.1)}),
    ),
    "LightFM WARP, best of 8": (
        "lightfm",
        tuned(warp, {"no_components": (16, 64), "learning_rate": (0.01, 0.05), "epochs": (10, 30)}),
    ),
}


def methods() -> dict[str, Callable[[Ratings, int], Any]]:
    """Ours, and the rivals that are installed; a note says which are not."""
    chosen = dict(OURS)
    for name, (package, method) in _RIVALS.items():
        if find_spec(package) is None:
            print(f"{name} is left out: {package} is not installed (make bench installs it in .venv-bench)")
        else:
            chosen[name] = method
    return chosen


def judge_lists(ratings: Ratings, seed: int) -> dict[str, Measured]:
    """One draw: every method on the same ratings."""
    train, held = split(ratings, seed)
    results = {}
    for name, method in methods().items():
        began = time.perf_counter()
        scores = method(train, seed)
        seconds = time.perf_counter() - began
        results[name] = judged(scores, train, held) | {"seconds": seconds}
    return results
