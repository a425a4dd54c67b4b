"""Workers with little memory: data on the disk, and a word where nothing goes on."""

from __future__ import annotations

import contextlib
from typing import Any

import distributed
import numpy as np
import pytest

from labelgap import ObservedLabels
from labelgap.distributed import DaskLowRankClassifier, clients, keeping
from labelgap.exceptions import LabelgapWarning

FIXED = {"trace_penalty": 0.02, "ridge_penalty": 1e-6, "intercept_penalty": 0.0, "random_state": 0}


class _Waiting:
    """A client of workers that are in some state."""

    def __init__(self, status: str) -> None:
        self._status = status

    def as_current(self) -> Any:
        return contextlib.nullcontext()

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {"one": {"status": self._status}, "two": {"status": "paused"}}}


@pytest.mark.parametrize(("status", "warns"), [("paused", True), ("running", False)])
def test_it_is_said_when_every_worker_waits_for_memory(
    monkeypatch: pytest.MonkeyPatch, status: str, warns: bool
) -> None:
    looks = iter([TimeoutError, TimeoutError, None])

    def wait(futures: Any, timeout: float) -> None:
        if (error := next(looks)) is not None:
            raise error

    monkeypatch.setattr(distributed, "wait", wait)
    expected = pytest.warns(LabelgapWarning, match="All 2 workers.*wait for memory")
    with expected if warns else contextlib.nullcontext():
        clients.wait_for(_Waiting(status), [])


def test_settings_leave_memory_for_the_process_itself() -> None:
    names = ["target", "spill", "pause", "terminate"]
    for limit in (500e6, 750e6, 4e9, 64e9):
        settings = clients.memory_settings(limit)
        fractions = [settings[f"distributed.worker.memory.{name}"] for name in names]
        assert fractions == sorted(fractions)
        assert fractions[-1] <= 1
        # What a process takes for itself, and data up to the target, is less than where it waits.
        assert fractions[0] * limit + keeping.OWN_MEMORY < fractions[2] * limit


def _rows(number: int) -> tuple[Any, ObservedLabels]:
    W = np.random.default_rng(0).standard_normal((150, 4))
    rng = np.random.default_rng([1, number])
    X = rng.standard_normal((10_000, 150))
    labels = (X @ W + rng.standard_normal((10_000, 4)) > 0).astype(np.float64)
    labels[rng.random(labels.shape) > 0.3] = np.nan
    return X, ObservedLabels.from_dense(labels)


@pytest.mark.slow
def test_data_beyond_the_memory_of_the_workers_are_fitted_from_the_disk(tmp_path: Any) -> None:
    import dask
    from dask.delayed import delayed

    from labelgap import LowRankClassifier

    limit = 620_000_000
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": limit}
    settings = dask.config.set(clients.memory_settings(limit))
    made = distributed.LocalCluster(**options, local_directory=str(tmp_path))
    spilled: list[int] = []
    with settings, made as cluster, distributed.Client(cluster, set_as_default=False) as client:
        clf = DaskLowRankClassifier(client=client, threshold="train", tol=1e-2, **FIXED)
        clf.fit(
            [delayed(_rows)(number) for number in range(30)],
            callback=lambda _: spilled.append(client.run_on_scheduler(_on_disk)),
        )
    # 360 MB, of which two times 70 MB may be in memory.
    assert max(spilled) > 150e6
    pieces = [_rows(number) for number in range(30)]
    X, Y = np.vstack([X for X, _ in pieces]), np.vstack([labels.to_dense() for _, labels in pieces])
    one = LowRankClassifier(threshold="train", tol=1e-2, **FIXED).fit(X, Y)
    assert clf.objective_ == pytest.approx(one.objective_, rel=1e-6)


def _on_disk(dask_scheduler: Any) -> int:
    return sum(worker.memory.spilled for worker in dask_scheduler.workers.values())
