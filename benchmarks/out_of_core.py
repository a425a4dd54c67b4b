"""``python -m benchmarks.cluster --out-of-core MB``: a fit to a Parquet folder that does not fit into memory.

Two workers have a quarter of the data's size together. What they take is looked at all the time.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_problem import FIXED, chunk
from labelgap.distributed import DaskLowRankClassifier
from labelgap.distributed.clients import memory_settings

FEATURES, LABELS, OBSERVED = 200, 20, 0.3
# Megabytes of a partition.
PARTITION = 12
# A penalty at which the fit has the rank of the data, 5.
PENALTY, TOL = 1e-2, 3e-2


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
    import dask
    from distributed import Client, LocalCluster

    data = folder / "data"
    data.mkdir()
    size, rows = write_folder(data, megabytes)
    limit = size // 8 if worker_megabytes is None else worker_megabytes * 1_000_000
    print(f"{size / 1e9:.2f} GB, {rows} rows in {len(list(data.iterdir()))} files", flush=True)
    print(f"two workers with {limit / 1e6:.0f} MB each, {2 * limit / size:.0%} of the data", flush=True)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": limit}
    options |= {"local_directory": str(folder / "spilled"), "silence_logs": logging.ERROR}
    began, processor = time.perf_counter(), time.process_time()
    # Workers take the settings of the process that starts them.
    settings = dask.config.set(memory_settings(limit))
    with settings, LocalCluster(**options) as cluster, Client(cluster) as client, Watch(client) as watch:
        fixed = {**FIXED, "trace_penalty": PENALTY}
        clf = DaskLowRankClassifier(tol=TOL, threshold="train", client=client, verbose=2, **fixed)
        clf.fit(str(data), "tag_*")
        there = sum(client.run(time.process_time).values())
    wall, here = time.perf_counter() - began, time.process_time() - processor
    print(f"fitted in {wall:.0f} s (processor: workers {there:.0f} s, client and scheduler {here:.0f} s)")
    print(f"rank {clf.rank_}, gap {clf.relative_gap_:.1e}, threshold {clf.threshold_:.3f}")
    print(f"a worker took {watch.most / 1e6:.0f} MB at most; {watch.on_disk / 1e9:.2f} GB were on the disk")
    print(f"workers waited for memory in {watch.paused} of {2 * watch.looks} looks")
