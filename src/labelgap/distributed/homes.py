"""At which worker the tasks of a partition should run, where they can.

Left to itself, Dask may give one of two workers five of eight tasks of a round: a worker that is done a
little earlier takes a task over, with a copy of its partition, and which copy is dropped later follows from
memory alone. So each partition has a home, and every worker is the home of as many as its threads are worth.
A home is a wish and no more: idle workers may still take tasks over, and if a home dies Dask runs its tasks
elsewhere until new homes are found.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

# Seconds after which somebody looks again which workers there are.
_BETWEEN_LOOKS = 1.0


class Homes:
    """The homes of the partitions of one data set, by their numbers."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._looked, self._threads = -math.inf, dict[str, int]()
        self._homes: list[str] = []

    def now(self, parts: Sequence[Any]) -> list[str]:
        """The home of each partition, given as futures; none with one worker, or while they are read."""
        if time.monotonic() - self._looked > _BETWEEN_LOOKS:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            threads = {address: worker["nthreads"] for address, worker in workers.items()}
            if threads != self._threads:
                self._homes = self._find(parts, threads)
                # Where none were found, partitions are still being read: there is another look.
                self._threads = threads if self._homes or len(threads) < 2 else {}
            self._looked = time.monotonic()
        return self._homes

    def _find(self, parts: Sequence[Any], threads: Mapping[str, int]) -> list[str]:
        if len(threads) < 2 or not parts:
            return []
        where = self._client.who_has(list(parts))
        holders = [where.get(future.key, ()) for future in parts]
        return even_homes(holders, threads) if all(holders) else []


def even_homes(holders: Sequence[Sequence[str]], threads: Mapping[str, int]) -> list[str]:
    """A worker for each partition, one that holds it where no worker gets more than its share by that.

    Examples
    --------
    >>> even_homes([["a"], ["a"], ["a"], ["b"]], {"a": 1, "b": 1})
    ['a', 'a', 'b', 'b']
    """
    total = sum(threads.values())
    room = Counter({one: math.ceil(len(holders) * count / total) for one, count in threads.items()})
    homes: list[str | None] = []
    for those in holders:
        home = next((one for one in those if room[one] > 0), None)
        if home is not None:
            room[home] -= 1
        homes.append(home)
    found: list[str] = []
    for home in homes:
        if home is None:
            # Addresses decide where the room is the same, so that the homes do not depend on chance.
            home = max(sorted(threads), key=lambda one: room[one])
            room[home] -= 1
        found.append(home)
    return found


def at_home(graph: Mapping[str, Any], homes: Mapping[str, str]) -> Any:
    """The graph with a layer for each home, whose tasks are meant for that worker; ``homes`` is by key."""
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

    if not homes:
        return graph
    tasks: dict[str | None, dict[str, Any]] = {}
    for key, task in graph.items():
        tasks.setdefault(homes.get(key), {})[key] = task
    layers = {
        next(iter(some)): MaterializedLayer(
            some, annotations={"workers": [home], "allow_other_workers": True} if home else None
        )
        for home, some in tasks.items()
    }
    # The tasks themselves say what they need of each other.
    return HighLevelGraph(layers, {name: set() for name in layers})
