"""A positive-unlabelled fit with the squared loss against the same with the logistic loss.

The squared loss sums over all pairs in closed form; the logistic one has to look at each of them. A default
fit of a classifier chooses everything itself: the flip rate, the penalties and the threshold.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import Line, Options, Report
from labelgap import LowRankClassifier, Recommender

FRACTION = 0.2
# Times that a logistic fit may take as long as a squared one, and seconds of CPU that a small default fit may
# take.
MOST_TIMES, MOST_SECONDS = 5.0, 2.0


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


def make_small(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with two features, and half of the positives of three labels recorded."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 2))
    Z = 2 * X @ rng.standard_normal((2, 3)) - 0.5
    positive = rng.random(Z.shape) < 1 / (1 + np.exp(-Z))
    return X, (positive & (rng.random(Z.shape) < 0.5)).astype(np.int8)


def default_fit_seconds(repeats: int) -> float:
    """Median CPU time of a whole default fit, after one that loads what is compiled."""
    X, recorded = make_small()
    times = []
    for _ in range(repeats + 1):
        began = time.process_time()
        LowRankClassifier(unobserved="unlabelled", random_state=0).fit(X, recorded)
        times.append(time.process_time() - began)
    return statistics.median(times[1:])


def run(options: Options) -> Report:
    """Two sizes, and a small default fit."""
    report = Report(
        "unlabelled",
        "Recorded likes alone: squared against logistic loss",
        f"Users and items without features, half of the likes recorded; each loss at λ = {FRACTION:g} λ_max, "
        "to a relative gap of 1e-3, threshold from training scores. The squared loss sums over all pairs in "
        "closed form. The last line is the CPU time of a whole default fit of a classifier, which estimates "
        "the flip rate and chooses penalties and threshold by cross-validation.",
    )
    for n_users, n_items in ((60, 20),) if options.quick else ((150, 50), (400, 100)):
        likes = make_likes(n_users, n_items)
        squared, logistic = (seconds(likes, loss, options.repeats) for loss in ("squared", "logistic"))
        size = f"{n_users:,} x {n_items:,}"
        report.lines.append(Line("squared loss", size, squared))
        times = logistic / squared
        report.lines.append(
            Line(
                "logistic loss",
                size,
                logistic,
                ratio=times,
                against="x squared",
                target=f"≤ {MOST_TIMES:g}",
                met=times <= MOST_TIMES,
            )
        )
    if not options.quick:
        cpu = default_fit_seconds(options.repeats)
        report.lines.append(
            Line(
                "default classifier, logistic loss",
                "120 rows, 2 features, 3 labels",
                cpu,
                ratio=cpu,
                against="s of CPU",
                target=f"< {MOST_SECONDS:g} s",
                met=cpu < MOST_SECONDS,
            )
        )
    return report
