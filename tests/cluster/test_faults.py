"""Workers that are killed at any time: the fit goes on and ends with the same model, to the last bit."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cluster_problems import chunked, lines, partitioned, small_problem

from labelgap.distributed import DaskLowRankClassifier, DaskRecommender
from labelgap.distributed.rounds import Rounds
from labelgap.exceptions import ClusterError, InterruptedFitWarning

OPTIONS = {
    "trace_penalty": 0.01,
    "ridge_penalty": 1e-4,
    "intercept_penalty": 0.0,
    "random_state": 0,
    "tol": 1e-2,
    "threshold": "holdout",
}


@pytest.fixture(scope="module")
def processes() -> Iterator[Any]:
    """Two workers in processes of their own, which come back when they die."""
    from distributed import Client, LocalCluster

    options = {"processes": True, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


class Killer:
    """Kills one worker, without a word, in the round with a given number."""

    def __init__(self, client: Any, rounds: set[int]) -> None:
        self._client, self._rounds, self.count, self.killed = client, rounds, 0, 0
        self._compute = Rounds._compute

    def __call__(self, rounds: Rounds, graph: Any, keys: Any) -> Any:
        self.count += 1
        if self.count in self._rounds:
            threading.Thread(target=self._kill).start()
        return self._compute(rounds, graph, keys)

    def _kill(self) -> None:
        pids = sorted(self._client.run(os.getpid).values())
        os.kill(pids[self.killed % len(pids)], signal.SIGKILL)
        self.killed += 1


def _fitted(client: Any) -> DaskLowRankClassifier:
    X, Y = small_problem()
    return DaskLowRankClassifier(client=client, **OPTIONS).fit(chunked(X, 30), chunked(Y, 30))


@pytest.mark.slow
@pytest.mark.parametrize("moments", [{1}, {3}, {9}, {4, 20}, {15, 16}])
def test_a_killed_worker_changes_nothing(
    processes: Any, moments: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _fitted(processes)
    killer = Killer(processes, moments)
    monkeypatch.setattr(Rounds, "_compute", lambda *given: killer(*given))
    after = _fitted(processes)
    assert killer.killed == len(moments)
    assert np.array_equal(before.coef_, after.coef_)
    assert before.threshold_ == after.threshold_


@pytest.mark.slow
def test_a_killed_worker_changes_no_recommender(processes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fitted() -> DaskRecommender:
        options = {"trace_penalty": 0.01, "threshold": "train", "tol": 1e-2, "positive": 4}
        return DaskRecommender(client=processes, **options).fit(partitioned(lines()))

    before = fitted()
    killer = Killer(processes, {5, 9})
    monkeypatch.setattr(Rounds, "_compute", lambda *given: killer(*given))
    after = fitted()
    assert killer.killed == 2
    assert np.array_equal(before.item_factors_, after.item_factors_)
    assert before.threshold_ == after.threshold_


@pytest.mark.slow
def test_a_worker_killed_in_predictions_changes_nothing(processes: Any) -> None:
    X, _ = small_problem()
    clf = _fitted(processes)
    decisions = clf.predict(chunked(X, 10)).map_blocks(_slowly, dtype=np.int8)
    found = processes.compute(decisions)
    time.sleep(0.4)
    os.kill(next(iter(processes.run(os.getpid).values())), signal.SIGKILL)
    assert np.array_equal(found.result(), clf.to_local().predict(X))


def _slowly(block: Any) -> Any:
    time.sleep(0.2)
    return block


def _die(part: Any, own: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_task_that_always_kills_its_worker_is_given_up(processes: Any) -> None:
    part = processes.submit(int, 1, pure=False)
    with pytest.raises(ClusterError, match="allowed-failures"):
        Rounds(processes, [part]).sum(_die)


@pytest.mark.usefixtures("default_interrupts")
def test_the_first_interrupt_leaves_a_usable_model(client: Any) -> None:
    X, Y = small_problem()

    def interrupt(progress: Any) -> None:
        # A second one would end the fit at once.
        if progress.iteration > 0 and not asked:
            asked.append(progress)
            signal.raise_signal(signal.SIGINT)

    asked: list[Any] = []

    clf = DaskLowRankClassifier(client=client, **{**OPTIONS, "threshold": "train", "tol": 1e-9})
    with pytest.warns(InterruptedFitWarning, match="stopped on request while fitting"):
        clf.fit(chunked(X, 45), chunked(Y, 45), callback=interrupt)
    assert clf.interrupted_
    assert clf.to_local().predict(X).shape == Y.shape


def test_nothing_is_left_on_the_cluster_after_an_interrupt(client: Any) -> None:
    X, Y = small_problem()

    def interrupt(progress: Any) -> None:
        raise KeyboardInterrupt

    # Other tests may still hold what they put on the same cluster.
    before = _tasks(client)
    with pytest.raises(KeyboardInterrupt):
        DaskLowRankClassifier(client=client, **OPTIONS).fit(
            chunked(X, 45), chunked(Y, 45), callback=interrupt
        )
    for _ in range(100):
        gc.collect()
        left = _tasks(client) - before
        if not left:
            break
        time.sleep(0.05)
    assert not left


def _tasks(client: Any) -> set[str]:
    """What the scheduler knows of."""
    return set(client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks))))
