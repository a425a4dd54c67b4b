"""Workers that are killed at any time: the fit goes on and ends with the same model, to the last bit."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_problems import chunked, lines, partitioned, small_problem

from labelgap.distributed import DaskLowRankClassifier, DaskRecommender, judging
from labelgap.distributed.rounds import Rounds
from labelgap.exceptions import ClusterError, InterruptedFitWarning
from labelgap.thresholds import narrowing

OPTIONS = {
    "trace_penalty": 0.01,
    "ridge_penalty": 1e-4,
    "intercept_penalty": 0.0,
    "random_state": 0,
    "tol": 1e-2,
    "threshold": "holdout",
}


class Killer:
    """Kills one worker, without a word, in the round with a given number (of a kind of work, if given)."""

    def __init__(self, client: Any, rounds: set[int], work: str = "") -> None:
        self._client, self._rounds, self.count, self.killed = client, rounds, 0, 0
        self._compute, self._work = Rounds._compute, f"labelgap_{work}"

    def __call__(self, rounds: Rounds, graph: Any, keys: Any) -> Any:
        self.count += any(key.startswith(self._work) for key in graph)
        if self.count in self._rounds:
            self._rounds = self._rounds - {self.count}
            # A round of a small problem is over before anybody could kill in it.
            graph = {key: (_after_a_while, task) for key, task in graph.items()}
            killer = threading.Thread(target=self._kill)
            killer.start()
            found = self._compute(rounds, graph, keys)
            killer.join()
            return found
        return self._compute(rounds, graph, keys)

    def _kill(self) -> None:
        pids = sorted(self._client.run(os.getpid).values())
        os.kill(pids[self.killed % len(pids)], signal.SIGKILL)
        self.killed += 1


def _after_a_while(value: Any) -> Any:
    time.sleep(0.2)
    return value


def _fitted(client: Any, **options: Any) -> DaskLowRankClassifier:
    X, Y = small_problem()
    clf = DaskLowRankClassifier(client=client, **{**OPTIONS, **options})
    return clf.fit(chunked(X, 30), chunked(Y, 30))


def _same(before: DaskLowRankClassifier, after: DaskLowRankClassifier) -> bool:
    return np.array_equal(before.coef_, after.coef_) and before.threshold_ == after.threshold_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "moments", "options"),
    [
        *(("", moments, {}) for moments in ({1}, {3}, {9}, {4, 20}, {15, 16})),
        *(
            (work, {1}, {"threshold": "train"})
            for work in ("score_facts", "bucket_counts", "marked_entries", "confusion")
        ),
        # Folds, and neighbours of the best penalties, are fitted side by side.
        ("answer", {2, 14, 30}, {"trace_penalty": "auto", "threshold": "cross-fit"}),
    ],
    ids=str,
)
def test_a_killed_worker_changes_nothing(
    processes: Any, work: str, moments: set[int], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if options.get("threshold") == "train":
        # Few entries as if they were many: counted in buckets, of which few are looked at.
        monkeypatch.setattr(judging, "GATHERED", 0)
        for name, value in {"MANY_ENTRIES": 0, "_FEWEST_BUCKETS": 2, "_NEAR_COUNTS": 400}.items():
            monkeypatch.setattr(narrowing, name, value)
    before = _fitted(processes, **options)
    killer = Killer(processes, set(moments), work)
    monkeypatch.setattr(Rounds, "_compute", lambda *given: killer(*given))
    after = _fitted(processes, **options)
    assert killer.killed == len(moments)
    assert _same(before, after)
    assert [c.metric_value for c in before.candidates_] == [c.metric_value for c in after.candidates_]


_CLIENT = """
import sys
from cluster_problems import chunked, small_problem
from distributed import Client
from labelgap.distributed import DaskLowRankClassifier

X, Y = small_problem()
with Client(sys.argv[1]) as client:
    clf = DaskLowRankClassifier(client=client, **eval(sys.argv[3]))
    # Every report is waited for, so that there is time to kill.
    clf.fit(chunked(X, 30), chunked(Y, 30), checkpoint=sys.argv[2], callback=lambda _: input())
"""


@pytest.mark.slow
def test_a_killed_client_resumes_and_leaves_nothing_behind(processes: Any, tmp_path: Path) -> None:
    whole = _fitted(processes)
    before = _tasks(processes)
    given = [processes.scheduler.address, str(tmp_path / "kept"), repr(OPTIONS)]
    here = Path(__file__).parent
    with subprocess.Popen([sys.executable, "-c", _CLIENT, *given], stdin=subprocess.PIPE, cwd=here) as other:
        for _ in range(1200):
            if other.poll() is not None or list((tmp_path / "kept").rglob("state.npz")):
                break
            time.sleep(0.1)
        other.kill()
    assert list((tmp_path / "kept").rglob("state.npz"))
    _wait_for_no_tasks_beside(processes, before)
    X, Y = small_problem()
    again = DaskLowRankClassifier(client=processes, **OPTIONS)
    again.fit(chunked(X, 30), chunked(Y, 30), checkpoint=tmp_path / "kept")
    assert _same(whole, again)


@pytest.mark.slow
@pytest.mark.parametrize(("unobserved", "penalty"), [("missing", 0.01), ("negative", 0.5)])
def test_a_killed_worker_changes_no_recommender(
    processes: Any, monkeypatch: pytest.MonkeyPatch, unobserved: str, penalty: float
) -> None:
    def fitted() -> DaskRecommender:
        options = {"trace_penalty": penalty, "threshold": "train", "tol": 1e-2, "positive": 4}
        options["unobserved"] = unobserved
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
def test_interrupts_leave_a_usable_model_and_nothing_on_the_cluster(client: Any) -> None:
    X, Y = small_problem()
    asked: list[Any] = []

    def interrupt(progress: Any) -> None:
        # A second one would end the fit at once.
        if progress.iteration > 0 and not asked:
            asked.append(progress)
            signal.raise_signal(signal.SIGINT)

    def end(progress: Any) -> None:
        raise KeyboardInterrupt

    clf = DaskLowRankClassifier(client=client, **{**OPTIONS, "threshold": "train", "tol": 1e-9})
    with pytest.warns(InterruptedFitWarning, match="stopped on request while fitting"):
        clf.fit(chunked(X, 45), chunked(Y, 45), callback=interrupt)
    assert clf.interrupted_
    assert clf.to_local().predict(X).shape == Y.shape
    # Other tests may still hold what they put on the same cluster.
    before = _tasks(client)
    with pytest.raises(KeyboardInterrupt):
        DaskLowRankClassifier(client=client, **OPTIONS).fit(chunked(X, 45), chunked(Y, 45), callback=end)
    _wait_for_no_tasks_beside(client, before)


@pytest.mark.usefixtures("default_interrupts")
def test_a_second_interrupt_ends_a_round_of_several_fits(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C twice while workers are at work for all folds: nothing is left, neither tasks nor threads."""
    X, Y = small_problem()
    before, threads = _tasks(client), threading.active_count()
    compute, sent = Rounds._compute, []

    def interrupted(rounds: Rounds, graph: Any, keys: Any) -> Any:
        if any(key.startswith("labelgap_answer") for key in graph) and not sent:
            graph = {key: (_after_a_while, task) for key, task in graph.items()}
            sent.append(threading.Timer(0.05, _interrupt_twice))
            sent[0].start()
        return compute(rounds, graph, keys)

    monkeypatch.setattr(Rounds, "_compute", interrupted)
    clf = DaskLowRankClassifier(client=client, **{**OPTIONS, "threshold": "cross-fit"})
    with pytest.raises(KeyboardInterrupt):
        clf.fit(chunked(X, 45), chunked(Y, 45))
    sent[0].join()
    _wait_for_no_tasks_beside(client, before)
    assert threading.active_count() <= threads
    assert not hasattr(clf, "coef_left_")


def _interrupt_twice() -> None:
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)


def _wait_for_no_tasks_beside(client: Any, before: set[str]) -> None:
    for _ in range(200):
        gc.collect()
        left = _tasks(client) - before
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(f"left on the cluster: {sorted(left)[:5]}")


def _tasks(client: Any) -> set[str]:
    """What the scheduler knows of."""
    return set(client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks))))
