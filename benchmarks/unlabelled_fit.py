"""A positive-unlabelled fit with the squared loss against the same with the logistic loss.

The squared loss sums over all pairs in closed form; the logistic one has to look at each of them.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import Line, Options, Report
from labelgap import Recommender

FRACTION = 0.2


def make_likes(n_users: int, n_items: int, seed: int = 0) -> sp.csr_array:
    """Half of the likes of a low-rank logistic model."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n_users, 3)) @ rng.standard_normal((3, n_items)) - 1
    liked = rng.random(Z.shape) < 1 / (1 + np.exp(-Z))
    return sp.csr_array((liked & (rng.random(Z.shape) < 0.5)).astype(np.int8))


def seconds(likes: sp.csr_array, loss: str, repeats: int) -> float:
    """Median time of one fit."""
    settings: dict[str, Any] = {"unobserved": "unlabelled", "flip_rate": 0.5, "threshold": "train"}
    # The largest candidate of a short selection is where the path begins.
    start = Recommender(loss=loss, rank=1, random_state=0, **(settings | {"threshold": "holdout"})).fit(likes)
    largest = max(candidate.penalties.trace for candidate in start.candidates_)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        Recommender(loss=loss, trace_penalty=FRACTION * largest, **settings).fit(likes)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def run(options: Options) -> Report:
    """Two sizes."""
    report = Report(
        "unlabelled",
        "Recorded likes alone: squared against logistic loss",
        f"Users and items without features, half of the likes recorded; each loss at λ = {FRACTION:g} λ_max, "
        "to a relative gap of 1e-3, threshold from training scores. The squared loss sums over all pairs in "
        "closed form.",
    )
    for n_users, n_items in ((60, 20),) if options.quick else ((150, 50), (400, 100)):
        likes = make_likes(n_users, n_items)
        squared, logistic = (seconds(likes, loss, options.repeats) for loss in ("squared", "logistic"))
        size = f"{n_users:,} x {n_items:,}"
        report.lines.append(Line("squared loss", size, squared))
        report.lines.append(
            Line("logistic loss", size, logistic, ratio=logistic / squared, against="x squared")
        )
    return report
