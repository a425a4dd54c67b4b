"""Likes alone with the squared loss: time of one sweep against implicit's alternating least squares.

A sweep updates all users and all items once. implicit's time is half the difference between fits of three
sweeps and of one; labelgap's time is that of a sweep of its alternating solver. Work that a fit does once is
left out on both sides. The two do not solve the same problem. implicit gives likes and missing pairs
different weights, so each row has a system of its own; under labelgap's unbiased loss all rows have the same
system.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.generated_ratings import Ratings, make_likes
from benchmarks.harness import Line, Options, Report, seconds
from benchmarks.machine import Bounds, measure_bounds
from benchmarks.rivals import implicit_als

RANKS = (32, 64)
SIZES = (((6040, 3952), 1_000_000), ((50_000, 20_000), 10_000_000))
QUICK_SIZES = (((600, 400), 20_000),)
LIMIT = 1.2
# A sweep of implicit's Cholesky variant over more likes takes many seconds.
LARGEST_FOR_CHOLESKY = 2_000_000
# λ times the number of pairs, as implicit's penalty is in units of the summed loss.
STRENGTH = 10.0
FEW, MORE = 1, 3


def labelgap_likes(likes: Ratings) -> Any:
    """The likes as labelgap takes them."""
    from labelgap.labels import ObservedLabels

    labels = ObservedLabels.from_triplets(likes.users, likes.items, likes.values, shape=likes.shape)
    return ObservedLabels.from_any(labels, unobserved="unlabelled")


def labelgap_rounds(likes: Any, rank: int) -> Any:
    """One sweep of the alternating solver of a Recommender."""
    from labelgap.losses import get_loss
    from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
    from labelgap.objective.problem import Problem
    from labelgap.objective.protocol import Factors
    from labelgap.solvers.alternating import make_sweeps, rowwise_steps
    from labelgap.solvers.certificate import Penalties

    n, n_items = likes.shape
    settings = ProblemSettings(
        get_loss("squared"), FeatureSettings(own_rows=True), flip_rate=np.full(n_items, 0.5)
    )
    objective = Problem([RowBlock(None, likes)], settings).objective(likes)
    left = np.random.default_rng(0).standard_normal((n, rank))
    start = Factors(left, np.zeros((n_items, rank)), objective.starting_intercept())
    penalties = Penalties(STRENGTH / (n * n_items))
    # At this tolerance it works in single precision, as implicit does.
    return make_sweeps(objective, penalties, start, rowwise_steps(objective, tol=1e-3))


def labelgap_sweep_seconds(rounds: Any) -> float:
    """The mean time of two of labelgap's sweeps."""
    return seconds(lambda: [rounds.sweep() for _ in range(MORE - FEW)]) / (MORE - FEW)


def sweep_seconds(fit: Callable[[int], Any]) -> float:
    """The time of one sweep, from a long and a short fit."""
    return (seconds(lambda: fit(MORE)) - seconds(lambda: fit(FEW))) / (MORE - FEW)


def rival_sweep_seconds(data: Any, rank: int, threads: int, conjugate_gradients: bool) -> float:
    """The time of one of implicit's iterations."""
    return sweep_seconds(
        lambda sweeps: implicit_als.fit(
            data, rank=rank, sweeps=sweeps, threads=threads, conjugate_gradients=conjugate_gradients
        )
    )


def least_seconds(likes: Ratings, rank: int, bounds: Bounds) -> tuple[float, str]:
    """labelgap's sweep: two sparse products with gathered rows, and one small system for all rows."""
    n_bytes = 2.0 * len(likes) * (8 + 4 * rank) + 6.0 * sum(likes.shape) * 4 * rank
    flops = 4.0 * len(likes) * rank + 8.0 * sum(likes.shape) * rank**2
    return bounds.seconds(n_bytes=n_bytes, flops=flops, dtype=np.float32)


def measure(likes: Ratings, rank: int, options: Options, bounds: Bounds) -> tuple[list[Line], dict[str, Any]]:
    """The lines of one size and rank; the jobs run alternately."""
    rounds = labelgap_rounds(labelgap_likes(likes), rank)
    jobs: dict[str, Callable[[], float]] = {"labelgap": lambda: labelgap_sweep_seconds(rounds)}
    if implicit_als.unavailable() is None:
        data = implicit_als.prepare(likes)
        jobs["implicit (ALS, conjugate gradients)"] = lambda: rival_sweep_seconds(
            data, rank, options.threads, True
        )
        if len(likes) <= LARGEST_FOR_CHOLESKY:
            jobs["implicit (ALS, Cholesky)"] = lambda: rival_sweep_seconds(data, rank, options.threads, False)
    rounds.sweep()  # compiles
    runs = [{name: job() for name, job in jobs.items()} for _ in range(options.repeats)]
    times = {name: statistics.median(run[name] for run in runs) for name in jobs}
    own = times.pop("labelgap")
    size = f"{likes.shape[0]:,} x {likes.shape[1]:,}, {len(likes):,} likes, k = {rank}"
    least, bound = least_seconds(likes, rank, bounds)
    lines = [Line("labelgap, one sweep", size, own, bound_seconds=least, bound=bound)]
    for name, rival in times.items():
        lines.append(Line(f"{name}, one sweep", size, rival))
        judged = "gradients" in name
        lines.append(
            Line(
                "labelgap, one sweep",
                size,
                own,
                ratio=own / rival,
                against=f"x {name}",
                target=f"≤ {LIMIT}" if judged else "",
                met=own / rival <= LIMIT if judged else None,
            )
        )
    return lines, {"runs": runs}


def run(options: Options) -> Report:
    """All sizes and ranks."""
    report = Report(
        "implicit_sweep",
        "Likes alone, squared loss: one sweep",
        "labelgap: a sweep of its alternating solver. implicit: half the difference between fits of three "
        "sweeps and of one; its default does three steps of conjugate gradients per row, its Cholesky "
        "variant solves each row's system. Single precision on both sides.",
        bounds=measure_bounds(options.threads),
    )
    assert report.bounds is not None
    for shape, n_likes in QUICK_SIZES if options.quick else SIZES:
        likes = make_likes(shape, n_likes)
        for rank in RANKS:
            lines, details = measure(likes, rank, options, report.bounds)
            report.lines += lines
            report.details[lines[0].size] = details
    missing = implicit_als.unavailable()
    if missing:
        report.remarks.append(missing)
    return report
