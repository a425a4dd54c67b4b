"""Lists of ten items, the whole job: fit by the default, then the lists of all users, beside implicit's ALS.

labelgap's call is ``Recommender(unobserved="negative").fit(likes)``, with the choice of all settings, and
``recommend_batch()``. implicit's is one fit of its ALS with 64 factors and 15 iterations at two settings of
the penalty and confidence, and ``recommend`` for all users: its own default, and the best of several that
were tried. ``python -m benchmarks.list_fit SIZE REGULARIZATION ALPHA`` tries another (SIZE is 0, 1 or 2).
Both are judged by the NDCG of a tenth of the likes that no method saw. Users choose items by popularity and
taste.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.harness import Line, Options, Report
from benchmarks.rivals import implicit_als
from labelgap import Recommender
from labelgap.exceptions import LabelgapWarning
from labelgap.kernels.threads import available_threads
from labelgap.labels import ObservedLabels
from labelgap.metrics import ranking_figures
from labelgap.recommending.ranks import ranks_of_held_out

SIZES = (((943, 1682), 50_000), ((6040, 3952), 500_000), ((50_000, 10_000), 10_000_000))
QUICK_SIZES = (((200, 150), 4_000),)
# The best of those tried by the likes that judge, which is kind to implicit: of 12 settings from (3, 1) to
# (300, 20), of 14 from (10, 1) to (3000, 60), and of (0.01, 1), (100, 20), (200, 5) and (400, 5).
FOUND = {
    SIZES[0]: {"regularization": 50.0, "alpha": 5.0},
    SIZES[1]: {"regularization": 100.0, "alpha": 5.0},
    SIZES[2]: {"regularization": 200.0, "alpha": 5.0},
    QUICK_SIZES[0]: {"regularization": 10.0, "alpha": 5.0},
}
SHOWN, FACTORS, ITERATIONS = 10, 64, 15
HELD_OUT = 0.1


def make_likes(shape: tuple[int, int], n_likes: int, seed: int = 0) -> tuple[ObservedLabels, ObservedLabels]:
    """Likes to learn from, and likes to judge by."""
    rng = np.random.default_rng(seed)
    users, items = choices(shape, n_likes, rng)
    held = rng.random(len(users)) < HELD_OUT
    both = (
        ObservedLabels.from_triplets(users[part], items[part], np.ones(int(part.sum())), shape=shape)
        for part in (~held, held)
    )
    train, test = both
    return train, test


def choices(
    shape: tuple[int, int], n_likes: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each user's items in proportion to ``popularity · exp(taste)``, a block of users at a time."""
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
            found.append(np.argpartition(-row, count)[:count])
    return np.repeat(np.arange(n), counts), np.concatenate(found)


def ndcg(users: Any, items: Any, intercepts: Any, train: ObservedLabels, test: ObservedLabels) -> float:
    """Of the held-out likes among all items that are not in training."""
    ranks = ranks_of_held_out(users, items, intercepts, train, test)
    candidates = train.shape[1] - train.row_counts()
    return ranking_figures(ranks, test.indptr, candidates, SHOWN).ndcg


def labelgap_job(train: ObservedLabels, test: ObservedLabels) -> tuple[float, float]:
    """Seconds and NDCG."""
    began = time.perf_counter()
    model = Recommender(unobserved="negative", random_state=0).fit(train)
    model.recommend_batch(n=SHOWN)
    seconds = time.perf_counter() - began
    return seconds, ndcg(model.user_factors_, model.item_factors_, model.item_intercept_, train, test)


def implicit_job(
    train: ObservedLabels, test: ObservedLabels, threads: int, settings: dict[str, float]
) -> tuple[float, float]:
    """Seconds and NDCG."""
    from implicit.als import AlternatingLeastSquares

    likes = sp.csr_matrix(train.to_sparse().astype(np.float32))
    began = time.perf_counter()
    model = AlternatingLeastSquares(
        factors=FACTORS, iterations=ITERATIONS, num_threads=threads, random_state=0, **settings
    )
    with threadpool_limits(1, user_api="blas"):
        model.fit(likes, show_progress=False)
    model.recommend(np.arange(train.shape[0]), likes, N=SHOWN)
    seconds = time.perf_counter() - began
    zeros = np.zeros(train.shape[1])
    return seconds, ndcg(model.user_factors, model.item_factors, zeros, train, test)


def run(options: Options) -> Report:
    """Each size once: a user fits once."""
    report = Report(
        "lists",
        "Lists of items: the whole job against implicit's ALS",
        "A default fit to likes with the choice of all settings, and the ten best items of every user; "
        "implicit at one setting, without a choice. Generated likes by popularity and taste; NDCG@10 of a "
        "tenth of the likes, which no method saw.",
    )
    missing = implicit_als.unavailable()
    if missing is not None:
        report.remarks.append(missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        labelgap_job(*make_likes(*QUICK_SIZES[0]))
        for shape, n_likes in QUICK_SIZES if options.quick else SIZES:
            train, test = make_likes(shape, n_likes)
            rivals = [] if missing is not None else [{}, FOUND[shape, n_likes]]
            report.lines += _lines(train, test, options.threads, rivals)
    return report


def _lines(
    train: ObservedLabels, test: ObservedLabels, threads: int, rivals: list[dict[str, float]]
) -> Iterator[Line]:
    n, n_items = train.shape
    size = f"{n:,} x {n_items:,}, {train.n_observed:,} likes"
    seconds, value = labelgap_job(train, test)
    for settings in rivals:
        theirs, other = implicit_job(train, test, threads, settings)
        said = ", ".join(f"{name}={value:g}" for name, value in settings.items())
        name = f"implicit ALS, {said or 'its default'}"
        yield Line(
            name,
            size,
            theirs,
            note=f"NDCG@10 {other:.4f}",
            ratio=seconds / theirs,
            against="labelgap's time x",
        )
    yield Line("labelgap, default", size, seconds, note=f"NDCG@10 {value:.4f}")


if __name__ == "__main__":
    number, regularization, alpha = sys.argv[1:]
    given = {"regularization": float(regularization), "alpha": float(alpha)}
    took, found = implicit_job(*make_likes(*SIZES[int(number)]), available_threads(), given)
    print(f"{took:.3g} s, NDCG@10 {found:.4f}")
