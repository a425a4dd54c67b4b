"""``python -m benchmarks.cluster``: fits on a Dask cluster of one machine.

It measures the same fit with one and with two workers of one thread each, what a round costs beside its work,
and how the model compares with that of the single-machine estimator. ``--out-of-core`` instead fits a Parquet
folder with two workers whose memory together is a quarter of the data's size; a worker needs 600 MB or more,
so that the folder should have 5 GB (``--out-of-core 5000``). ``--paper`` prints the time of
a round for 10^10 entries on 100 workers, from the task times and message sizes that are measured here.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_problem import FIXED, QUICK, SIZE, chunk, partitions
from benchmarks.out_of_core import out_of_core
from labelgap import LowRankClassifier
from labelgap.distributed import DaskLowRankClassifier
from labelgap.distributed.clients import FEWER_TIMERS
from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.inputs import read_data
from labelgap.distributed.problem import ClusterProblem
from labelgap.distributed.rounds import Rounds
from labelgap.distributed.threads import one_thread
from labelgap.labels import ObservedLabels
from labelgap.losses import Logistic
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors

RANK = 16
# What is assumed of a network between machines: the bytes that a link carries in a second.
LINK = 1.25e9
# What the scheduler spends on a task: Dask's documentation says 0.2 to 1 ms.
PER_TASK = 5e-4


def cluster_of(workers: int, **options: Any) -> Any:
    """A cluster of processes with one thread each, with the settings of ``labelgap fit --cluster local``."""
    import dask
    from distributed import LocalCluster

    settings = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with dask.config.set(FEWER_TIMERS):
        return LocalCluster(**settings, silence_logs=logging.ERROR, **options)


def timed_fit(workers: int, size: Any, repeats: int) -> tuple[dict[str, float], DaskLowRankClassifier]:
    """Wall seconds of the fastest of some fits, and processor seconds here and in the workers.

    The fits come after one that compiles and warms up. The client and the scheduler are in this process.
    ``longest`` are the processor seconds of the worker that takes longest in each round, by the fractions of
    one more fit: what the rounds would take if every process had a core of its own.
    """
    from distributed import Client, wait

    found: list[dict[str, float]] = []
    with cluster_of(workers) as cluster, Client(cluster) as client:
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
        with Shares(client) as shares:
            clf.fit(parts, None)
    fastest = min(found, key=lambda one: one["wall"])
    return {**fastest, "longest": shares.longest * fastest["workers"]}, clf


class Shares:
    """What fraction of the work of each round is done by the worker that has most of it."""

    def __init__(self, client: Any) -> None:
        self._client, self._compute = client, Rounds._compute
        self._rounds: list[list[float]] = []

    def __enter__(self) -> Shares:
        def counted(rounds: Rounds, graph: Any, keys: Any) -> Any:
            before = self._client.run(time.process_time)
            found = self._compute(rounds, graph, keys)
            after = self._client.run(time.process_time)
            self._rounds.append([after[worker] - before[worker] for worker in before])
            return found

        Rounds._compute = counted  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        Rounds._compute = self._compute  # type: ignore[method-assign]

    @property
    def longest(self) -> float:
        """1 with one worker; with two it is a half where they share all rounds evenly."""
        return sum(map(max, self._rounds)) / sum(map(sum, self._rounds))


def timed_rounds(size: Any, repeats: int = 5) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of a round, of the same sum without a cluster, and of an empty round.

    All in one process, so that its processor time is that of client, scheduler and worker together: a figure
    that other work on the machine changes little.
    """
    from distributed import Client

    settings = ProblemSettings(Logistic(), FeatureSettings(centre=True, scaling="standard"))
    n, d, n_labels, observed, count = size
    blocks = [RowBlock(*chunk(number, n // count, d, n_labels, observed)) for number in range(count)]
    labels = ObservedLabels.from_triplets(
        np.concatenate([b.labels.rows + i * (n // count) for i, b in enumerate(blocks)]),
        np.concatenate([b.labels.indices for b in blocks]),
        np.concatenate([b.labels.values for b in blocks]),
        shape=(n // count * count, n_labels),
    )
    whole = Problem(blocks, settings).objective(labels)
    rng = np.random.default_rng(0)
    model = Factors(rng.standard_normal((d, RANK)), rng.standard_normal((n_labels, RANK)), np.zeros(n_labels))
    with cluster_of(1, processes=False) as cluster, Client(cluster) as client:
        data = read_data(client, partitions(size), None, "missing")
        problem = ClusterProblem(data.rounds, settings)
        there = problem.objective(ClusterLabels((n, n_labels), data.sums))
        here, remote = whole.at(model), there.at(model)
        # A task has one thread, and so has what it is compared with.
        with one_thread():
            alone = timed(lambda: here.hessian_product(model), repeats)
        return {
            "without a cluster": alone,
            "a round": timed(lambda: remote.hessian_product(model), repeats),
            "an empty round": timed(lambda: data.rounds.sum(nothing), 10 * repeats),
        }


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Wall and processor seconds of one call, after one that warms up."""
    work()
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - wall) / repeats, (time.process_time() - processor) / repeats


def nothing(part: Any, own: Any) -> float:
    """A task without work."""
    return 0.0


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
    scores = one.decision_function(some)
    differ = clf.to_local().predict(some) != one.predict(some)
    away = float(np.abs(scores[differ] - one.threshold_).max(initial=0.0))
    return {
        "seconds": seconds,
        "objective differs by": abs(one.objective_ - clf.objective_) / one.objective_,
        "gap": one.relative_gap_,
        "decisions that differ": float(differ.mean()),
        "their distance from θ, at most": away,
    }


def on_paper(seconds_per_entry: float) -> None:
    """The time of a round for 10^10 entries on 100 workers, from what an entry takes at rank 16."""
    entries, workers, n_partitions = 1e10, 100, 1000
    levels = int(np.ceil(np.log(n_partitions) / np.log(8)))
    each = f"{seconds_per_entry * 1e9:.0f} ns an entry at rank {RANK}"
    print(f"10^10 entries on {workers} workers in {n_partitions} partitions, {each}")
    for d, n_labels, k in ((100, 100, RANK), (10_000, 10_000, 50), (100_000, 100_000, 50)):
        message = 8.0 * (d + n_labels) * k
        seconds = {
            "work": entries / workers * seconds_per_entry * k / RANK,
            # Workers that have the factors pass them on, so that their number doubles with each message.
            "factors": message / LINK * (1 + np.ceil(np.log2(workers))),
            # A sum receives eight messages at each level of the tree.
            "sums": message / LINK * 8 * levels,
            "scheduler": 1.2 * n_partitions * PER_TASK,
        }
        parts = ", ".join(f"{name} {value:.2f}" for name, value in seconds.items())
        total = sum(seconds.values())
        print(f"  d = L = {d}, k = {k}, {message / 1e6:.2g} MB a message: {total:.1f} s ({parts})")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small problem, to see that it works")
    parser.add_argument("--rows", type=int, help="so many rows instead of those of the benchmark")
    parser.add_argument("--repeats", type=int, default=3, help="fits of which the fastest counts")
    parser.add_argument("--out-of-core", type=int, metavar="MB", help="fit a folder of so many megabytes")
    parser.add_argument("--worker-memory", type=int, metavar="MB", help="of each worker out of core")
    parser.add_argument("--paper", action="store_true", help="10^10 entries on 100 workers, on paper")
    options = parser.parse_args()
    if options.out_of_core:
        with tempfile.TemporaryDirectory() as folder:
            out_of_core(options.out_of_core, Path(folder), options.worker_memory)
        return
    size = QUICK if options.quick else SIZE
    size = (options.rows or size[0], *size[1:])
    n, _, n_labels, observed, count = size
    rounds = timed_rounds(size)
    entries = n * n_labels * observed
    print(f"{n} rows, {entries:.2g} entries, {count} partitions; Hessian products at rank {RANK}:")
    for name, (wall, processor) in rounds.items():
        print(f"  {name:18} {1000 * wall:8.1f} ms, {1000 * processor:8.1f} ms of the processor")
    if options.paper:
        on_paper(rounds["without a cluster"][1] / entries)
        return
    times = {}
    for workers in (1, 2):
        times[workers], clf = timed_fit(workers, size, options.repeats)
        words = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in times[workers].items())
        print(f"{workers} worker(s): {words}; gap {clf.relative_gap_:.1e}, rank {clf.rank_}")
    print(f"two workers are {times[1]['wall'] / times[2]['wall']:.2f} times as fast")
    # What does not run side by side is here, what does is in the workers.
    alone = [times[n]["client"] + times[n]["longest"] for n in (1, 2)]
    print(f"by processor time, with a core for each process: {alone[0] / alone[1]:.2f} times")
    for name, value in compare(clf, size).items():
        print(f"  one machine: {name} {value:.3g}")


if __name__ == "__main__":
    main()
