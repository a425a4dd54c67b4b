"""Homes of partitions: every worker has its share, and the wish for a worker that is gone does no harm."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

distributed = pytest.importorskip("distributed", reason="the dask extra is not installed")

from labelgap.distributed import homes  # noqa: E402
from labelgap.distributed.homes import Homes, at_home, even_homes  # noqa: E402

WORKERS = "abcd"


@given(
    st.lists(st.lists(st.sampled_from(WORKERS), max_size=3, unique=True), max_size=20),
    st.dictionaries(st.sampled_from(WORKERS), st.integers(1, 3), min_size=1),
)
def test_no_worker_is_the_home_of_more_than_its_share(
    holders: list[list[str]], threads: dict[str, int]
) -> None:
    found = even_homes(holders, threads)
    assert len(found) == len(holders)
    for worker, count in Counter(found).items():
        assert count < len(holders) * threads[worker] / sum(threads.values()) + 1


@given(st.permutations(list("aabbccdd")))
def test_partitions_that_lie_evenly_are_at_home_where_they_are(holders: list[str]) -> None:
    assert even_homes([[one] for one in holders], dict.fromkeys(WORKERS, 1)) == holders


class Client:
    """A cluster as homes see it."""

    def __init__(self, threads: dict[str, int], holders: dict[str, list[str]]) -> None:
        self.threads, self.holders, self.looks = threads, holders, 0

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {name: {"nthreads": count} for name, count in self.threads.items()}}

    def who_has(self, parts: list[Any]) -> dict[str, list[str]]:
        self.looks += 1
        return self.holders


class Part:
    def __init__(self, key: str) -> None:
        self.key = key


def test_homes_are_found_again_only_when_workers_come_or_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "_BETWEEN_LOOKS", -1.0)
    client = Client({"a": 1, "b": 1}, {"x": [], "y": ["b"]})
    known, parts = Homes(client), [Part("x"), Part("y")]
    assert known.now(parts) == []
    client.holders = {"x": ["a"], "y": ["b"]}
    assert known.now(parts) == ["a", "b"]
    client.holders = {"x": ["b"], "y": ["b"]}
    assert known.now(parts) == ["a", "b"]
    assert client.looks == 2
    client.threads = {"b": 1, "c": 1}
    assert known.now(parts) == ["b", "c"]
    client.threads = {"b": 1}
    assert known.now(parts) == []


def test_tasks_run_at_home_and_elsewhere_where_the_home_is_gone() -> None:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        one, other = sorted(client.scheduler_info(n_workers=-1)["workers"])
        graph = {f"part-{number}": (_worker,) for number in range(4)} | {
            "all": (list, [f"part-{n}" for n in range(4)])
        }
        wished = {"part-0": one, "part-1": other, "part-2": other, "part-3": "tcp://127.0.0.1:1"}
        found = client.get(at_home(graph, wished), "all")
    assert found[:3] == [one, other, other]
    assert found[3] in (one, other)


def _worker() -> str:
    return str(distributed.get_worker().address)
