"""Fits side by side: one round answers all of them, and nothing else changes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from cluster_problems import chunked, small_problem

from labelgap.distributed import DaskLowRankClassifier, choice, side_by_side
from labelgap.distributed.keeping import Budget, Kept
from labelgap.distributed.rounds import Rounds
from labelgap.distributed.side_by_side import Meeting, Work, the_meeting


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with much else to do, threads may come late."""
    monkeypatch.setattr(side_by_side, "_PATIENCE", 60.0)


def _asking(numbers: list[int]) -> Any:
    """A job that asks for some sums, one after the other."""

    def job() -> list[int]:
        meeting = the_meeting()
        assert meeting is not None
        return [meeting.sum(Work(abs, (number,))) for number in numbers]

    return job


def test_questions_of_a_time_are_one_round_and_every_job_has_its_answers() -> None:
    rounds: list[list[int]] = []

    def ask(works: Any) -> list[int]:
        rounds.append(sorted(work.shared[0] for work in works))
        return [10 * work.shared[0] for work in works]

    found = Meeting(ask).run([_asking([1, 2, 3]), _asking([4]), _asking([]), _asking([5, 6])])
    assert found == [[10, 20, 30], [40], [], [50, 60]]
    # The longest job decides how many rounds there are.
    assert rounds == [[1, 4, 5], [2, 6], [3]]


def test_an_error_of_one_job_or_of_a_round_ends_all() -> None:
    ended: list[BaseException] = []

    def fails() -> None:
        raise ValueError("this job")

    def waits() -> None:
        try:
            _asking([1])()
        except BaseException as end:
            ended.append(end)
            raise

    def ask(works: Any) -> Any:
        raise error

    with pytest.raises(ValueError, match="this job"):
        Meeting(lambda works: [0] * len(works)).run([_asking([1, 2]), fails])
    for error in (KeyboardInterrupt, RuntimeError):
        with pytest.raises(error):
            Meeting(ask).run([waits, waits])
    assert len(ended) == 4
    assert threading.active_count() < 20


@pytest.mark.slow
def test_fits_of_folds_share_rounds_and_are_the_same_to_the_last_bit(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = small_problem()
    counted = {"rounds": 0}
    compute = Rounds._compute

    def counting(*given: Any) -> Any:
        counted["rounds"] += 1
        return compute(*given)

    monkeypatch.setattr(Rounds, "_compute", counting)
    options = {"trace_penalty": 0.01, "ridge_penalty": 1e-4, "intercept_penalty": 0.0, "random_state": 0}
    models, rounds = [], []
    for together in (1, 8):
        monkeypatch.setattr(choice, "SIDE_BY_SIDE", together)
        counted["rounds"] = 0
        clf = DaskLowRankClassifier(client=client, tol=1e-2, threshold="cross-fit", **options)
        models.append(clf.fit(chunked(X, 45), chunked(Y, 45)))
        rounds.append(counted["rounds"])
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert models[0].threshold_ == models[1].threshold_
    assert rounds[1] < 0.7 * rounds[0]


def test_what_is_kept_stays_within_the_budget() -> None:
    budget = Budget(250)
    made: list[str] = []

    def make(name: str) -> Any:
        def made_now() -> str:
            made.append(name)
            return name

        return made_now

    first, second = Kept(2, 100, budget), Kept(2, 100, budget)
    for name in "abb":
        first.get(name, make(name))
    # There is space for one half of another: it is made each time that it is asked for.
    assert [second.get("c", make("c")) for _ in range(2)] == ["c", "c"]
    assert made == ["a", "b", "c", "c"]
    # A newer one takes the place of the oldest.
    first.get("d", make("d"))
    assert (len(first), budget.used) == (2, 200)
    del first
    assert budget.used == 0
    second.get("c", make("c"))
    assert len(second) == 1
