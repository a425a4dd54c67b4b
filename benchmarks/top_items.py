"""The n best items of every user, against the matrix product of the same tiles alone.

100,000 users and 20,000 items with 32 factors; the scores are never held together. The product alone is that
of float32 factors, tile by tile, into the same workspace and by as many threads.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.harness import Line, Options, Report, take_turns
from benchmarks.machine import measure_bounds
from labelgap.kernels.threads import map_in_order
from labelgap.recommending.top_items import (
    TILE_BYTES,
    TILE_USERS,
    Seen,
    UserItemFactors,
    items_above,
    top_items,
)

SHAPE = (100_000, 20_000)
QUICK_SHAPE = (2_000, 2_000)
N_FACTORS = 32
N_BEST = 10
N_SEEN = 100
TARGET = 0.5
# An item in so many is above the threshold.
ABOVE = 2_000


def make_factors(shape: tuple[int, int], seed: int = 0) -> UserItemFactors:
    """Normal factors and intercepts."""
    rng = np.random.default_rng(seed)
    users, items = (rng.standard_normal((size, N_FACTORS)) for size in shape)
    return UserItemFactors(users, items, rng.standard_normal(shape[1]))


def make_seen(factors: UserItemFactors, seed: int = 1) -> Seen:
    """Items that each user has rated, more often those with a high intercept."""
    rng = np.random.default_rng(seed)
    popular = np.argsort(-factors.intercept)
    drawn = popular[(rng.random((len(factors.users), N_SEEN)) ** 2 * len(popular)).astype(np.int64)]
    rows = [np.unique(row) for row in drawn]
    indptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    return Seen(indptr, np.concatenate(rows).astype(np.int32))


def products_alone(users: NDArray[np.float32], items: NDArray[np.float32], threads: int) -> None:
    """``users @ items``, a tile at a time, each over the one before."""
    height = TILE_USERS
    width = TILE_BYTES // (4 * height)

    def work(part: slice) -> None:
        workspace = np.empty(height * width, np.float32)
        for row in range(part.start, part.stop, height):
            left = users[row : min(row + height, part.stop)]
            for first in range(0, items.shape[1], width):
                right = items[:, first : first + width]
                out = workspace[: len(left) * right.shape[1]].reshape(len(left), -1)
                np.matmul(left, right, out=out)

    cuts = [len(users) * t // threads for t in range(threads + 1)]
    # Each thread has its own tile; threads of the product itself would get in the way.
    with threadpool_limits(1, user_api="blas"):
        map_in_order(work, [slice(cuts[t], cuts[t + 1]) for t in range(threads)])


def score_quantile(factors: UserItemFactors) -> float:
    """A score that few items exceed."""
    some = factors.users[:200] @ factors.items.T + factors.intercept
    return float(np.quantile(some, 1 - 1 / ABOVE))


def peak_bytes(job: Callable[[], object]) -> int:
    """Peak memory that one call allocates."""
    tracemalloc.start()
    try:
        job()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def run(options: Options) -> Report:
    """Top-n with and without items left out, and items above a threshold."""
    shape = QUICK_SHAPE if options.quick else SHAPE
    factors = make_factors(shape)
    seen, threshold = make_seen(factors), score_quantile(factors)
    users = factors.users.astype(np.float32)
    items = np.ascontiguousarray(factors.items.T.astype(np.float32))
    alone = "matrix product of the same tiles"
    jobs: dict[str, Callable[[], object]] = {
        alone: partial(products_alone, users, items, options.threads),
        f"{N_BEST} best items": partial(top_items, factors, N_BEST),
        f"{N_BEST} best items, {N_SEEN} left out": partial(top_items, factors, N_BEST, seen),
        f"items above a threshold (1 in {ABOVE:,})": partial(items_above, factors, threshold),
    }
    bounds = measure_bounds(options.threads)
    times = take_turns(jobs, options.repeats)
    bound, name = bounds.seconds(flops=2.0 * shape[0] * shape[1] * N_FACTORS, dtype=np.float32)
    size = f"{shape[0]:,} x {shape[1]:,}, k = {N_FACTORS}"
    report = Report(
        name="top_items",
        title="Prediction",
        method="All users of a model with 32 factors. The ratio is the time of the matrix product of the "
        "same tiles alone (float32, streamed, as many threads) over the time with selection and exact "
        "scores. In brackets is the same ratio for a product at the speed of a large one.",
        bounds=bounds,
        details={"seconds": times, "threshold": threshold},
    )
    for what, took in times.items():
        if what == alone:
            report.lines.append(Line(what, size, took, bound_seconds=bound, bound=name))
            continue
        ratio = times[alone] / took
        report.lines.append(
            Line(
                what,
                size,
                took,
                ratio,
                "of the speed of the product alone",
                f"≥ {TARGET:g}",
                ratio >= TARGET,
                bound,
                name,
                f"{bound / took:.2f} of the speed of a large product",
            )
        )
    peak = peak_bytes(jobs[f"{N_BEST} best items"])
    report.remarks.append(
        f"{N_BEST} best items allocate {peak / 1e6:.0f} MB at most, including their result of "
        f"{16e-6 * N_BEST * shape[0]:.0f} MB; all scores in float32 would be "
        f"{4e-6 * shape[0] * shape[1]:,.0f} MB."
    )
    return report
