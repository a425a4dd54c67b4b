"""The exact threshold search against ``numpy.argsort`` on the same scores.

Run ``python -m benchmarks.threshold_sweep [--entries N] [--labels L] [--repeats R]``. For each average it
prints the median time as a multiple of that of ``numpy.argsort``, and the peak of the memory that the search
allocates as a multiple of one float64 array over the entries.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from labelgap.labels import ObservedLabels
from labelgap.thresholds import best_threshold

TIME_LIMITS = {"micro": 2.0, "instance": 4.0, "macro": 4.0}
MEMORY_LIMIT = 8.0


def make_problem(entries: int, n_labels: int, seed: int = 0) -> tuple[NDArray[np.float64], ObservedLabels]:
    """Scores and labels of the observed half of a matrix, so that rows and columns are uneven."""
    rng = np.random.default_rng(seed)
    n_rows = -(-2 * entries // n_labels)
    cells = np.sort(rng.choice(n_rows * n_labels, size=entries, replace=False, shuffle=False))
    scores = rng.normal(size=entries)
    values = (rng.random(entries) < 1 / (1 + np.exp(2 - 2 * scores))).astype(np.int8)
    rows, columns = np.divmod(cells, n_labels)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n_rows))))
    labels = ObservedLabels(
        indptr=indptr, indices=columns.astype(np.int32), values=values, shape=(n_rows, n_labels)
    )
    return scores, labels


def seconds(job: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def peak_arrays(job: Callable[[], object], entries: int) -> float:
    """Peak memory that one call allocates, in float64 arrays of ``entries`` numbers."""
    tracemalloc.start()
    try:
        job()
        return tracemalloc.get_traced_memory()[1] / (8 * entries)
    finally:
        tracemalloc.stop()


def measure(entries: int, n_labels: int, repeats: int) -> dict[str, tuple[float, float, float]]:
    """For ``numpy.argsort`` and each average: seconds, multiple of argsort, and peak memory in arrays."""
    scores, labels = make_problem(entries, n_labels)

    def search(average: str) -> object:
        # A new object has nothing cached, so every call pays for all that it needs.
        given = ObservedLabels(labels.indptr, labels.indices, labels.values, labels.shape)
        return best_threshold(scores, given, f"{average}-f1")

    few_scores, few_labels = make_problem(1000, 10)
    for average in TIME_LIMITS:
        best_threshold(few_scores, few_labels, f"{average}-f1")  # compiles
    jobs: dict[str, Callable[[], object]] = {"argsort": partial(np.argsort, scores)}
    jobs |= {average: partial(search, average) for average in TIME_LIMITS}
    # The jobs take turns, so that a slow spell of the machine hits all of them.
    times = [{name: seconds(job) for name, job in jobs.items()} for _ in range(repeats)]
    medians = {name: statistics.median(run[name] for run in times) for name in jobs}
    return {
        name: (medians[name], medians[name] / medians["argsort"], peak_arrays(job, entries))
        for name, job in jobs.items()
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit status is 1 when a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--entries", type=int, default=10_000_000, help="observed entries (default 10 million)"
    )
    parser.add_argument("--labels", type=int, default=100, help="labels, that is columns (default 100)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the median counts (default 3)")
    options = parser.parse_args(arguments)
    results = measure(options.entries, options.labels, options.repeats)
    print(f"{options.entries:,} entries, {options.labels} labels, median of {options.repeats}")
    print(f"numpy.argsort  {results['argsort'][0]:7.3f} s")
    kept = True
    for average, limit in TIME_LIMITS.items():
        median, ratio, peak = results[average]
        kept &= ratio <= limit and peak <= MEMORY_LIMIT
        print(
            f"{average + '-f1':13}  {median:7.3f} s  {ratio:5.2f} x argsort (limit {limit:g})  "
            f"{peak:5.2f} arrays at peak (limit {MEMORY_LIMIT:g})"
        )
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
