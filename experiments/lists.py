"""Lists of twenty items: Recommender beside popularity, item-based models, ALS, BPR and WARP.

A random fifth of the likes (with a fifth of the dislikes, where there are any) is held out, and judges the
lists: each user's best twenty of all items that the user has not rated in training. NDCG and recall, the
fraction of a user's held-out likes that are in the list, are means over the users with likes on both sides.

The rivals learn from the likes alone, as they are made for. Their settings are those of the best NDCG on a
tenth of the training likes, the same for all; then they are fitted to all of them. The Recommender gets the
dislikes, too, and chooses by itself. ``python -m experiments.recommenders --questions lists`` compares them.

- taste: generated, 943 users and 1682 items. Popularity is skewed, and users rate what is to their taste.
- jester5k: a like is a rating of 3 or more, from -10 to 10. coat: four stars or more of the training ratings.
- anime: a like is eight stars or more; the rest is left out. citeulike: papers in users' libraries.

SLIM is the one with feature selection: each item is explained by its 300 nearest. SANSA, a sparse form of
EASE, is not here, because it needs SuiteSparse, which pip does not install.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks import item_models, rivals
from benchmarks.data import read_likes
from benchmarks.ranking import Scorer, Scores, ndcg, recall, top_lists

from experiments.runs import mean_sd
from labelgap import ObservedLabels, Recommender
from labelgap.data import AnswerData, Answers, load_answers

SHOWN, HELD_OUT, VALIDATION = 20, 0.2, 0.1
# With the digits that are shown.
MEASURES = {"NDCG@20": 4, "recall@20": 4, "seconds": 1}
# The lowest rating of a like, in files with ratings that are not likes.
LIKED = {"jester5k": 3.0, "coat": 4.0}


def read(name: str, seed: int) -> AnswerData:
    """A data set as likes (1) and dislikes (0), generated or from the user's folder."""
    if name == "taste":
        return make_taste(seed)
    if name in LIKED:
        data = load_answers(name)
        return replace(data, answers=replace(data.answers, rating=1.0 * (data.answers.rating >= LIKED[name])))
    likes = read_likes(name).tocoo()
    return AnswerData(name, Answers(*likes.coords, likes.data), None, likes.shape)


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


def split(ratings: Answers, seed: int, fraction: float = HELD_OUT) -> tuple[Answers, Answers]:
    """A random part is held out."""
    held = np.random.default_rng(1000 + seed).random(len(ratings)) < fraction
    return ratings.take(~held), ratings.take(held)


def judged(scores: Scorer, train: Answers, held: Answers, shape: tuple[int, int]) -> dict[str, float]:
    """NDCG and recall of lists of the items that a user has not rated, over users with a training like."""
    found = top_lists(scores, likes_of(train, shape, all_pairs=True), SHOWN)
    liked = likes_of(held.take(np.isin(held.user, train.user[train.rating == 1])), shape)
    return {"NDCG@20": ndcg(found, liked), "recall@20": recall(found, liked)}


# -- methods: from the training ratings, the shape and a seed to scores and the settings chosen --------------

Settings = dict[str, Any]
Method = Callable[[Answers, tuple[int, int], int], tuple[Scorer, Settings]]


def popularity(train: Answers, shape: tuple[int, int], seed: int) -> tuple[Scorer, Settings]:
    """How many likes each item has."""
    counts = np.bincount(train.item[train.rating == 1], minlength=shape[1]).astype(np.float64)
    return Scores(np.zeros((shape[0], 1)), np.zeros((shape[1], 1)), counts), {}


def recommender(train: Answers, shape: tuple[int, int], seed: int) -> tuple[Scorer, Settings]:
    """labelgap's default for lists."""
    model = Recommender(unobserved="negative", random_state=seed).fit(as_labels(train, shape))
    return Scores(model.user_factors_, model.item_factors_, model.item_intercept_), {}


Grid = Mapping[str, Iterable[Any]]


def tuned(fit: Callable[..., Scorer], *grids: Grid) -> Method:
    """The method at its best settings; each grid changes the best ones of the grids before."""

    def method(train: Answers, shape: tuple[int, int], seed: int) -> tuple[Scorer, Settings]:
        part, validation = split(train, seed + 1, VALIDATION)
        likes = likes_of(part, shape)

        def value(settings: Settings) -> float:
            return judged(fit(likes, seed, **settings), part, validation, shape)["NDCG@20"]

        best: tuple[float, Settings] = (-1.0, {})
        for grid in grids:
            values = itertools.product(*grid.values())
            tried = [best[1] | dict(zip(grid, some, strict=True)) for some in values]
            best = max([best, *((value(one), one) for one in tried)], key=lambda found: found[0])
        return fit(likes_of(train, shape), seed, **best[1]), best[1]

    return method


def seedless(fit: Callable[..., Scorer]) -> Callable[..., Scorer]:
    """A fit without randomness, called as the others are."""
    return lambda likes, seed, **settings: fit(likes, **settings)


NEIGHBOURS = {"count": (5, 20, 100, 300), "shrinkage": (0.0, 30.0, 100.0)}
EASE = {"penalty": (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)}
SLIM = {"count": (300,), "l1": (0.01, 0.1, 1.0, 3.0), "l2": (1.0, 10.0, 30.0, 100.0, 1000.0)}
ALS = (
    {"factors": (64,), "regularization": (1.0, 10.0, 100.0), "alpha": (1.0, 5.0, 20.0)},
    {"factors": (8, 16, 32, 128, 256, 512)},
    {"regularization": (3.0, 30.0, 300.0)},
    {"alpha": (60.0,)},
)
RATES = (0.01, 0.05)
BPR = {"factors": (32, 128), "learning_rate": RATES, "regularization": (0.001, 0.01, 0.1)}
WARP = {"no_components": (32, 128), "learning_rate": RATES, "epochs": (10, 40)}
# The package that each needs, and the method.
METHODS: dict[str, tuple[str, Method]] = {
    "popularity": ("", popularity),
    "item neighbours": ("", tuned(seedless(item_models.neighbours), NEIGHBOURS)),
    "EASE": ("", tuned(seedless(item_models.ease), EASE)),
    "SLIM": ("", tuned(seedless(item_models.slim), SLIM)),
    "implicit ALS": ("implicit", tuned(rivals.als, *ALS)),
    "implicit BPR": ("implicit", tuned(rivals.bpr, BPR)),
    "LightFM WARP": ("lightfm", tuned(rivals.warp, WARP)),
    "labelgap": ("", recommender),
}


@cache
def methods() -> dict[str, Method]:
    """Those that are installed; a note says which are not."""
    chosen = {}
    for name, (package, method) in METHODS.items():
        reason = rivals.missing(package) if package else None
        if reason is None:
            chosen[name] = method
        else:
            print(f"{name} is left out: {reason}")
    return chosen


def measure(name: str, data: AnswerData, seed: int) -> dict[str, Any]:
    """One method on one draw; all methods get the same ratings."""
    train, held = split(data.answers, seed)
    began = time.perf_counter()
    scores, settings = methods()[name](train, data.shape, seed)
    seconds = time.perf_counter() - began
    return judged(scores, train, held, data.shape) | {"seconds": seconds, "settings": settings}


def cells(draws: Sequence[dict[str, Any]]) -> list[str]:
    """The measures of one method as text: mean ± standard error over the draws."""
    found = [(mean_sd(one[measure] for one in draws), digits) for measure, digits in MEASURES.items()]
    return [f"{mean:.{n}f} ± {sd / np.sqrt(len(draws)):.{n}f}" for (mean, sd), n in found]
