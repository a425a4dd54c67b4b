"""A positive-unlabelled fit with the squared loss against the same with the logistic loss.

Run ``python -m benchmarks.unlabelled_fit [--repeats R]``. Users and items without features, half of the likes
recorded; each loss at λ = 0.2 λ_max, to a relative gap of 1e-3, threshold from training scores. Printed are
the median times and their ratio in this run. The squared loss sums over all pairs in closed form.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap import Recommender

SHARE = 0.2


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
        Recommender(loss=loss, trace_penalty=SHARE * largest, **settings).fit(likes)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args(arguments).repeats
    for n_users, n_items in ((150, 50), (400, 100)):
        likes = make_likes(n_users, n_items)
        squared, logistic = (seconds(likes, loss, repeats) for loss in ("squared", "logistic"))
        print(
            f"{n_users} x {n_items}: squared {squared:.3f} s, logistic {logistic:.3f} s, "
            f"{logistic / squared:.0f} times as long"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
