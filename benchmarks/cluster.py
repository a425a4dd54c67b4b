"""``python -m benchmarks.cluster``: fits on a Dask cluster of one machine.

It measures the same fit with one and with two workers of one thread each, and how the model compares with
that of the single-machine estimator. ``--out-of-core MB`` instead fits a Parquet folder of that size with two
workers whose memory together is a quarter of it; a worker needs 600 MB or more, so that the folder should
have 5 GB (``--out-of-core 5000``).
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from labelgap import LowRankClassifier
from labelgap.distributed import DaskLowRankClassifier
from labelgap.distributed.clients import FEWER_TIMERS, memory_settings
from labelgap.labels import ObservedLabels

# Rows, features, labels, the fraction of labels that is observed, and partitions.
SIZE, QUICK = (480_000, 100, 100, 0.3, 8), (4_000, 20, 20, 0.5, 4)
FIXED = {"trace_penalty": 2e-3, "ridge_penalty": 1e-6, "intercept_penalty": 0.0, "random_state": 0}
# Out of core: features, labels, the fraction observed, megabytes of a partition, and a penalty at which the
# fit has the rank of the data, 5.
FEATURES, LABELS, OBSERVED, PARTITION, PENALTY, TOL = 200, 20, 0.3, 12, 1e-2, 3e-2


def chunk(number: int, rows: int, d: int, n_labels: int, observed: float) -> tuple[Any, Any]:
    """Rows of a low-rank problem; every partition is drawn from its own number."""
    truth = np.random.default_rng(0)
    W = truth.standard_normal((d, 5)) @ truth.standard_normal((5, n_labels)) / np.sqrt(5 * d)
    rng = np.random.default_rng([1, number])
    X = rng.standard_normal((rows, d))
    labels = (X @ W + 0.3 * rng.standard_normal((rows, n_labels)) > 0.5).astype(np.float64)
    labels[rng.random(labels.shape) >= observed] = np.nan
    return X, ObservedLabels.from_dense(labels)


def partitions(size: Any) -> list[Any]:
    """The partitions, made by the workers."""
    from dask.delayed import delayed

    n, d, n_labels, observed, count = size
    return [delayed(chunk)(number, n // count, d, n_labels, observed) for number in range(count)]


def cluster_of(workers: int, settings: Any, **options: Any) -> Any:
    """A cluster of processes with one thread each; they take the settings of the process that starts them."""
    import dask
    from distributed import LocalCluster

    options |= {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with dask.config.set(settings):
        return LocalCluster(silence_logs=logging.ERROR, **options)


def timed_fit(workers: int, size: Any, repeats: int) -> tuple[dict[str, float], DaskLowRankClassifier]:
    """Wall seconds of the fastest of some fits, and processor seconds here and in the workers.

    The fits come after one that compiles and warms up. The client and the scheduler are in this process.
    """
    from distributed import Client, wait

    found: list[dict[str, float]] = []
    with cluster_of(workers, FEWER_TIMERS) as cluster, Client(cluster) as client:
        clf = DaskLowRankClassifier(tol=1e-3, threshold="train", client=client, **FIXED)
        clf.fit(partitions(QUICK[:1] + size[1:]), None)
        parts = client.persist(partitions(size))
        wait(parts)
        for _ in range(repeats):
            there = sum(client.run(time.process_time).values())
            wall, here = time.perf_counter(), time.process_time()
            clf.fit(parts, None)
            wall, here = time.perf_counter() - wall, time.process_time() - here
            there = sum(client.run(time.process_time).values()) - there
            found.append({"wall": wall, "client": here, "workers": there})
    return min(found, key=lambda one: one["wall"]), clf


def compare(clf: DaskLowRankClassifier, size: Any) -> dict[str, float]:
    """The same fit on one machine."""
    n, d, n_labels, observed, count = size
    pieces = [chunk(number, n // count, d, n_labels, observed) for number in range(count)]
    X = np.vstack([X for X, _ in pieces])
    Y = np.vstack([labels.to_dense() for _, labels in pieces])
    began = time.perf_counter()
    one = LowRankClassifier(tol=1e-3, threshold="train", n_jobs=1, device="cpu", **FIXED).fit(X, Y)
    seconds = time.perf_counter() - began
    some = X[:2000]
    differ = clf.to_local().predict(some) != one.predict(some)
    away = np.abs(one.decision_function(some)[differ] - one.threshold_).max(initial=0.0)
    return {
        "seconds": seconds,
        "objective differs by": abs(one.objective_ - clf.objective_) / one.objective_,
        "gap": one.relative_gap_,
        "decisions that differ": float(differ.mean()),
        "their distance from θ, at most": float(away),
    }


# -- out of core -------------------------------------------------------------------------------------------


def write_folder(folder: Path, megabytes: int) -> tuple[int, int]:
    """Write Parquet files of numbers of 8 bytes each, so many megabytes in memory; the bytes and the rows."""
    import pandas as pd

    count = max(8, megabytes // PARTITION)
    rows = megabytes * 1_000_000 // (8 * (FEATURES + LABELS)) // count
    names = [f"x{i}" for i in range(FEATURES)] + [f"tag_{j}" for j in range(LABELS)]
    size = 0
    for number in range(count):
        X, labels = chunk(number, rows, FEATURES, LABELS, OBSERVED)
        table = pd.DataFrame(np.hstack([X, labels.to_dense()]), columns=names)
        size += int(table.memory_usage(index=False).sum())
        # Real numbers repeat too seldom for a dictionary.
        table.to_parquet(folder / f"{number:05d}.parquet", compression=None, use_dictionary=False)
    return size, rows * count


class Watch:
    """Looks at the memory of all workers once a second: what they take at most, and who waits for memory."""

    def __init__(self, client: Any) -> None:
        self._client, self._end = client, threading.Event()
        self.most, self.on_disk, self.paused, self.looks = 0, 0, 0, 0
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(1.0):
            found = self._client.run_on_scheduler(_memory)
            self.looks += 1
            self.most = max(self.most, *(one[0] for one in found))
            self.on_disk = max(self.on_disk, sum(one[1] for one in found))
            self.paused += sum(one[2] == "paused" for one in found)


def _memory(dask_scheduler: Any) -> list[tuple[int, int, str]]:
    workers = dask_scheduler.workers.values()
    return [(w.memory.process, w.memory.spilled, w.status.name) for w in workers]


def out_of_core(megabytes: int, folder: Path, worker_megabytes: int | None) -> None:
    """Fit a folder of that size with two workers, which have a quarter of it together by default."""
    from distributed import Client

    data = folder / "data"
    data.mkdir()
    size, rows = write_folder(data, megabytes)
    limit = size // 8 if worker_megabytes is None else worker_megabytes * 1_000_000
    print(f"{size / 1e9:.2f} GB, {rows} rows in {len(list(data.iterdir()))} files", flush=True)
    print(f"two workers with {limit / 1e6:.0f} MB each, {2 * limit / size:.0%} of the data", flush=True)
    options = {"memory_limit": limit, "local_directory": str(folder / "spilled")}
    began, processor = time.perf_counter(), time.process_time()
    with cluster_of(2, memory_settings(limit), **options) as cluster, Client(cluster) as client:
        with Watch(client) as watch:
            fixed = {**FIXED, "trace_penalty": PENALTY}
            clf = DaskLowRankClassifier(tol=TOL, threshold="train", client=client, verbose=2, **fixed)
            clf.fit(str(data), "tag_*")
        there = sum(client.run(time.process_time).values())
    wall, here = time.perf_counter() - began, time.process_time() - processor
    print(f"fitted in {wall:.0f} s (processor: workers {there:.0f} s, client and scheduler {here:.0f} s)")
    print(f"rank {clf.rank_}, gap {clf.relative_gap_:.1e}, threshold {clf.threshold_:.3f}")
    print(f"a worker took {watch.most / 1e6:.0f} MB at most; {watch.on_disk / 1e9:.2f} GB were on the disk")
    print(f"workers waited for memory in {watch.paused} of {2 * watch.looks} looks")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small problem, to see that it works")
    parser.add_argument("--rows", type=int, help="so many rows instead of those of the benchmark")
    parser.add_argument("--repeats", type=int, default=3, help="fits of which the fastest counts")
    parser.add_argument("--out-of-core", type=int, metavar="MB", help="fit a folder of so many megabytes")
    parser.add_argument("--worker-memory", type=int, metavar="MB", help="of each worker out of core")
    options = parser.parse_args()
    if options.out_of_core:
        with tempfile.TemporaryDirectory() as folder:
            out_of_core(options.out_of_core, Path(folder), options.worker_memory)
        return
    size = QUICK if options.quick else SIZE
    size = (options.rows or size[0], *size[1:])
    times = {}
    for workers in (1, 2):
        times[workers], clf = timed_fit(workers, size, options.repeats)
        words = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times[workers].items())
        print(f"{workers} worker(s): {words}; gap {clf.relative_gap_:.1e}, rank {clf.rank_}")
    print(f"two workers are {times[1]['wall'] / times[2]['wall']:.2f} times as fast")
    for name, value in compare(clf, size).items():
        print(f"  one machine: {name} {value:.3g}")


if __name__ == "__main__":
    main()
