"""The data of the benchmarks: the files of the folder LABELGAP_DATA, and generated problems.

The files are read with numpy alone, so that what is compared with labelgap has no code in common with it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.preprocessing import normalize

Floats = NDArray[np.float64]
OBSERVED = 0.2


def file(name: str) -> Any:
    """The arrays of a data set; a FileNotFoundError says what is not there."""
    folder = os.environ.get("LABELGAP_DATA")
    if not folder:
        raise FileNotFoundError("LABELGAP_DATA names no folder with the data sets (see docs/data.md)")
    return np.load(Path(folder) / f"{name}.npz", allow_pickle=False)


# -- features ----------------------------------------------------------------------------------------------


def _matrix(arrays: Any, name: str) -> sp.csr_array:
    parts = tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_array(parts, shape=tuple(arrays[f"{name}_shape"])).astype(np.float64)


def draw(name: str, seed: int) -> tuple[Any, Floats, Any, Floats]:
    """Training rows with a fifth of their known labels (NaN elsewhere), and test rows."""
    arrays = file(name)
    rng = np.random.default_rng(seed)
    X = _matrix(arrays, "X") if "X_data" in arrays else arrays["X"].astype(np.float64)
    if "Y_data" in arrays:
        Y = _matrix(arrays, "Y").toarray()
    else:
        Y = np.where(arrays["Y"] < 0, np.nan, arrays["Y"])
    rows = rng.permutation(len(Y))
    train, test = (arrays["train"], arrays["test"]) if "train" in arrays else (rows[100:], rows[:100])
    known = Y[train].astype(np.float64)
    if not np.isnan(known).any():
        known[rng.random(known.shape) >= OBSERVED] = np.nan
    return X[train], known, X[test], Y[test]


@dataclass(frozen=True)
class FeatureSet:
    """Training rows with some labels known (NaN elsewhere), and test rows with all of them."""

    name: str
    X: Any
    Y: Floats
    X_test: Any
    Y_test: Floats

    def __str__(self) -> str:
        n, d = self.X.shape
        return f"{self.name}: {n:,} x {d:,}, {self.Y.shape[1]} labels, {(~np.isnan(self.Y)).sum():,} observed"


def read(name: str) -> FeatureSet:
    """The first draw of a data set; sparse rows have length 1."""
    X, Y, X_test, Y_test = draw(name, 0)
    if sp.issparse(X):
        X, X_test = normalize(X).tocsr(), normalize(X_test).tocsr()
    return FeatureSet(name, X, Y, X_test, Y_test)


def generate(
    n_train: int = 12_920, n_test: int = 3_185, n_features: int = 500, n_labels: int = 983
) -> FeatureSet:
    """A set of the size of Delicious, unless other sizes are given.

    Rows have about 18 yes/no features, and 2 % of the labels are a yes. The truth is a logistic model of
    rank 20, with labels and features of very different popularity.
    """
    rng = np.random.default_rng(0)
    n, rank = n_train + n_test, 20
    popularity = (np.arange(n_features) + 10.0) ** -0.8
    counts = np.minimum(1 + rng.poisson(17.0, size=n), n_features)
    # The features of the highest of popularity over an exponential: draws without replacement.
    order = np.argsort(rng.exponential(size=(n, n_features)) / popularity, axis=1)
    indices = np.concatenate([np.sort(row[:k]) for row, k in zip(order, counts, strict=True)])
    # Of 32 bits: LIBLINEAR takes no others.
    indices, indptr = (part.astype(np.int32) for part in (indices, np.append(0, np.cumsum(counts))))
    X = normalize(sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(n, n_features))).tocsr()
    Z = (X @ rng.standard_normal((n_features, rank))) @ rng.standard_normal((rank, n_labels))
    Z *= 1.5 / Z.std()
    Z += 0.9 * rng.standard_normal(n_labels)
    sample = Z[:: max(1, len(Z) // 200)]
    Z += brentq(lambda shift: expit(sample + shift).mean() - 19.0 / 983.0, -20, 20)
    Y = (rng.random(Z.shape) < expit(Z)).astype(np.float64)
    known = np.where(rng.random((n_train, n_labels)) < OBSERVED, Y[:n_train], np.nan)
    return FeatureSet("generated", X[:n_train], known, X[n_train:], Y[n_train:])


def make_labels(
    n: int, d: int, n_labels: int, per_row: float, known: float, rank: int
) -> tuple[sp.csr_array, Floats]:
    """Rows with about so many yes/no features, by popularity, and labels of a logistic model of this rank.

    Its factors are of falling importance. A fraction of the labels is known, and the others are NaN; about
    one label in six is a yes.
    """
    rng = np.random.default_rng(0)
    popularity = (np.arange(d) + 10.0) ** -0.8
    counts = np.clip(rng.poisson(per_row, n), 1, d - 1)
    indices, Y = [], np.empty((n, n_labels))
    importance = np.arange(1, rank + 1)[:, None] ** -1.0
    weights = rng.standard_normal((d, rank)), importance * rng.standard_normal((rank, n_labels))
    for count in counts:
        # The features of the highest of popularity over an exponential: draws without replacement.
        order = rng.exponential(size=d) / popularity
        indices.append(np.sort(np.argpartition(order, count)[:count]))
    indptr = np.append(0, np.cumsum(counts)).astype(np.int32)
    found = np.concatenate(indices).astype(np.int32)
    X = sp.csr_array((np.ones(len(found)), found, indptr), shape=(n, d))
    left = X @ weights[0]
    spread = np.sqrt(np.mean((left[:10_000] @ weights[1]) ** 2))
    easy = 0.9 * rng.standard_normal(n_labels) - 2.0
    for start in range(0, n, 4096):
        rows = slice(start, min(start + 4096, n))
        Z = 1.5 / spread * (left[rows] @ weights[1]) + easy
        Y[rows] = rng.random(Z.shape) < expit(Z)
        Y[rows][rng.random(Z.shape) >= known] = np.nan
    return X, Y


# -- ratings -----------------------------------------------------------------------------------------------

FACTORS = 32
# Standard deviations of u·v and of the biases; about 57 % of the ratings are a yes.
SPREAD, USER_BIAS, ITEM_BIAS, BASE = 1.2, 0.5, 0.7, 0.2
# The item in place p is rated in proportion to (p + n/20)^-1.5; activities are log-normal.
POPULARITY_POWER, POPULARITY_HEAD, ACTIVITY = 1.5, 1 / 20, 0.9
# Popular items are liked a little more.
POPULAR_IS_LIKED = 0.3


@dataclass(frozen=True)
class Ratings:
    """User, item and value (0 or 1) of each rating, in no order."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.int8]
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, chosen: Any) -> Ratings:
        return Ratings(self.users[chosen], self.items[chosen], self.values[chosen], self.shape)


def read_ratings(name: str) -> tuple[Ratings, Ratings]:
    """Ratings of a file, in its own split or four fifths and one; a yes is four stars or more, or above 0."""
    arrays = file(name)

    def ratings(prefix: str) -> Ratings:
        users, items, rating = (arrays[f"{prefix}{part}"] for part in ("user", "item", "rating"))
        # Stars from 1 to 5, or a scale around 0.
        liked = rating >= 4 if rating.min() >= 1 else rating > 0
        shape = tuple(int(size) for size in arrays["shape"])
        return Ratings(users.astype(np.int32), items.astype(np.int32), liked.astype(np.int8), shape)

    if "train_user" in arrays:
        return ratings("train_"), ratings("test_")
    every = ratings("")
    held = np.random.default_rng(0).random(len(every)) < 0.2
    return every.take(~held), every.take(held)


def make_ratings(shape: tuple[int, int], n_train: int, n_test: int = 0) -> tuple[Ratings, Ratings]:
    """Yes/no ratings of items by users, as skewed as real ratings: to fit to, and to judge by.

    The truth is ``P(yes) = 1/(1 + exp(-z))`` with ``z = base + bias of the user + bias of the item + u·v``,
    the factors of falling importance. A pair is rated in proportion to ``activity of the user x popularity of
    the item``. With these constants 6040 users, 3952 items and a million ratings look like the MovieLens set
    of that size: about 3000 ratings for the most popular item, and about 100 for the middle one.
    """
    rng = np.random.default_rng(0)
    weights = (rng.permutation(shape[1]) + POPULARITY_HEAD * shape[1]) ** -POPULARITY_POWER
    popularity = weights / weights.sum()
    users, items = _pairs(shape, n_train + n_test, popularity, rng)
    importance = np.arange(1, FACTORS + 1) ** -0.5
    importance *= np.sqrt(SPREAD / np.sqrt(np.sum(importance**4)))
    left, right = ((rng.standard_normal((n, FACTORS)) * importance).astype(np.float32) for n in shape)
    familiar = np.log(popularity) - np.mean(np.log(popularity))
    user_bias = USER_BIAS * rng.standard_normal(shape[0])
    item_bias = ITEM_BIAS * rng.standard_normal(shape[1]) + POPULAR_IS_LIKED * familiar
    rated = Ratings(users, items, np.empty(len(users), dtype=np.int8), shape)
    z = BASE + user_bias[users] + item_bias[items] + dot_scores(left, right, rated)
    values = (rng.random(len(z)) < expit(z)).astype(np.int8)
    every = Ratings(users, items, values, shape)
    return every.take(slice(n_train)), every.take(slice(n_train, None))


def _pairs(
    shape: tuple[int, int], count: int, popularity: Floats, rng: np.random.Generator
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
    users, items = np.divmod(rng.permutation(pairs)[:count], n_items)
    return users.astype(np.int32), items.astype(np.int32)


def dot_scores(left: NDArray[Any], right: NDArray[Any], ratings: Ratings, block: int = 1 << 18) -> Floats:
    """``u·v`` for each rating, a block at a time."""
    out = np.empty(len(ratings))
    for begin in range(0, len(out), block):
        part = slice(begin, begin + block)
        out[part] = np.einsum("ij,ij->i", left[ratings.users[part]], right[ratings.items[part]])
    return out


def log_loss(scores: NDArray[Any], truth: NDArray[Any]) -> float:
    """Mean of ``log(1 + exp(-sz))``; s is 1 for a yes and -1 for a no."""
    return float(np.mean(np.logaddexp(0.0, np.where(truth == 1, -scores, scores))))


# -- likes -------------------------------------------------------------------------------------------------


def read_likes(name: str) -> sp.csr_array:
    """The likes of a file: eight stars or more of ten, or all that is in it."""
    arrays = file(name)
    liked = arrays["rating"] >= 8 if "rating" in arrays else np.ones(len(arrays["user"]), dtype=bool)
    places = arrays["user"][liked], arrays["item"][liked]
    return sp.csr_array((np.ones(liked.sum()), places), shape=tuple(arrays["shape"]))


def make_likes(shape: tuple[int, int], n_likes: int, seed: int = 0) -> sp.csr_array:
    """Each user's items in proportion to ``popularity · exp(taste)``, a block of users at a time."""
    rng = np.random.default_rng(seed)
    n, n_items = shape
    importance = np.arange(1, 17) ** -0.5
    tastes = rng.standard_normal((n, 16)) * importance
    kinds = rng.standard_normal((n_items, 16)) / np.sqrt(np.sum(importance**2))
    popularity = -1.2 * np.log(rng.permutation(n_items) + n_items / 20)
    activity = rng.lognormal(0.0, 0.9, n)
    counts = np.clip(np.round(activity / activity.sum() * n_likes), 2, n_items // 2).astype(np.int64)
    found = []
    for start in range(0, n, 1000):
        block = slice(start, min(start + 1000, n))
        wish = popularity + tastes[block] @ kinds.T + rng.gumbel(size=(block.stop - start, n_items))
        for row, count in zip(wish, counts[block], strict=True):
            found.append(np.argpartition(-row, count)[:count].copy())
    items = np.concatenate(found)
    places = np.repeat(np.arange(n), counts), items
    return sp.csr_array((np.ones(len(items)), places), shape=shape)
