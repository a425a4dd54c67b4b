"""Rounds of work on a Dask cluster: one pure task for each partition, and a sum of their answers.

The sum is a tree whose shape follows from the number of partitions alone. So the result does not depend on
how many workers there are, on which of them did what, or on the order in which they were done. What a round
needs of the client (the factors) is part of a task or the result of one, and not scattered: if the worker
that holds it dies, the scheduler makes it again, like everything else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np

from labelgap.distributed.clients import cluster_errors, large_graphs, wait_for
from labelgap.distributed.homes import Homes, at_home
from labelgap.distributed.side_by_side import Meeting, Work, the_meeting
from labelgap.distributed.threads import one_thread

# Answers that are added up by one task.
_FAN_IN = 8
# What the client sends is made a task of its own if all the copies together would be larger than this.
_WORTH_A_TASK = 1 << 20


class Rounds:
    """The partitions of a data set on a cluster, and the work that is done on all of them.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of futures
        One for each partition, in order.
    each : sequence, default None
        What a task is told about its own partition, after the partition itself.
    """

    def __init__(self, client: Any, parts: Sequence[Any], each: Sequence[Any] | None = None) -> None:
        self.client, self.parts = client, tuple(parts)
        self.each = (None,) * len(self.parts) if each is None else tuple(each)
        self._homes = Homes(client)

    def of(self, parts: Sequence[Any]) -> Rounds:
        """Rounds over what was made of the partitions, one for one, with the same homes."""
        rounds = Rounds(self.client, parts, self.each)
        rounds._homes = self._homes
        return rounds

    def __len__(self) -> int:
        return len(self.parts)

    def sum(self, work: Callable[..., Any], *shared: Any) -> Any:
        """The sum of ``work(part, own, *shared)`` over all partitions, in a fixed order."""
        meeting, asked = the_meeting(), Work(work, shared)
        return self._sums([asked])[0] if meeting is None else meeting.sum(asked)

    def side_by_side(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """The results of functions that ask for sums; what they ask for at a time is one round."""
        return [jobs[0]()] if len(jobs) == 1 else Meeting(self._sums).run(jobs)

    def _sums(self, works: Sequence[Work]) -> tuple[Any, ...]:
        graph, keys = self._graph(run_all, works)
        name, level = _name(added), 0
        while len(keys) > 1:
            level += 1
            groups = [keys[start : start + _FAN_IN] for start in range(0, len(keys), _FAN_IN)]
            keys = [f"{name}-{level}-{place}" for place in range(len(groups))]
            graph |= {key: (added, group) for key, group in zip(keys, groups, strict=True)}
        found: tuple[Any, ...] = self._compute(graph, keys[0])
        return found

    def each_of(self, work: Callable[..., Any], *shared: Any) -> list[Any]:
        """``work(part, own, *shared)`` of every partition, in order."""
        graph, keys = self._graph(run, [Work(work, shared)])
        found: list[Any] = self._compute(graph, keys)
        return found

    def map(self, work: Callable[..., Any], *shared: Any) -> list[Any]:
        """Futures of ``work(part, own, *shared)``, which stay on the cluster while they are referred to."""
        graph, keys = self._graph(run, [Work(work, shared)])
        futures: list[Any] = self._submit(graph, keys)
        # Errors are raised here, and not in the first round that would use the results.
        with cluster_errors():
            wait_for(self.client, futures)
            for future in futures:
                if future.status != "finished":
                    future.result()
        return futures

    def keep(self, value: Any) -> Any:
        """A value on the cluster, as the future of a task that returns it."""
        name = _name(_itself)
        with large_graphs():
            return self.client.get({name: (_itself, Shared(value))}, [name], sync=False)[0]

    def _graph(self, runs: Callable[..., Any], works: Sequence[Work]) -> tuple[dict[str, Any], list[str]]:
        name = _name(works[0].function)
        graph: dict[str, Any] = {}
        arguments: list[Any] = []
        for place, value in enumerate(value for work in works for value in work.shared):
            if _is_future(value):
                arguments.append(value)
            elif size_of(value) * len(self.parts) > _WORTH_A_TASK and len(self.parts) > 1:
                key = f"{name}-shared-{place}"
                graph[key] = (_itself, Shared(value))
                arguments.append(key)
            else:
                arguments.append(Shared(value))
        keys = [f"{name}-{number}" for number in range(len(self.parts))]
        # The functions, and how many of the arguments are for each.
        what = Shared([(work.function, len(work.shared)) for work in works])
        for key, part, own in zip(keys, self.parts, self.each, strict=True):
            graph[key] = (runs, what, part, Shared(own), *arguments)
        return graph, keys

    def _compute(self, graph: dict[str, Any], keys: Any) -> Any:
        with cluster_errors():
            futures = self._submit(graph, keys)
            wait_for(self.client, futures)
            return self.client.gather(futures)

    def _submit(self, graph: dict[str, Any], keys: Any) -> Any:
        tasks = [key for key, task in graph.items() if task[0] in (run, run_all)]
        with large_graphs():
            homes = dict(zip(tasks, self._homes.now(self.parts), strict=False))
            return self.client.get(at_home(graph, homes), keys, sync=False)


class Shared:
    """A value in a graph that Dask is not to look into for keys and tasks."""

    def __init__(self, value: Any) -> None:
        self.value = value


def run_all(works: Shared, part: Any, own: Shared, *arguments: Any) -> tuple[Any, ...]:
    """One task: the work on one partition, in one thread; the answers to all that is asked."""
    plain = iter([given.value if isinstance(given, Shared) else given for given in arguments])
    if (expect := getattr(part, "expect", None)) is not None:
        expect(len(works.value))
    with one_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return tuple(work(part, own.value, *islice(plain, count)) for work, count in works.value)


def run(works: Shared, part: Any, own: Shared, *arguments: Any) -> Any:
    """One task of which one thing is asked."""
    return run_all(works, part, own, *arguments)[0]


def _itself(value: Shared) -> Any:
    return value.value


def added(values: Sequence[Any]) -> Any:
    """The sum of answers of one form: numbers, arrays, moments, or tuples and mappings of such.

    Examples
    --------
    >>> added([(1.0, {"a": 2}, None), (3.0, {"a": 4}, None)])
    (4.0, {'a': 6}, None)
    """
    return reduce(_plus, values)


def _plus(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, Mapping):
        return {name: _plus(value, other[name]) for name, value in one.items()}
    if isinstance(one, tuple):
        pairs = [_plus(*pair) for pair in zip(one, other, strict=True)]
        return type(one)(*pairs) if hasattr(one, "_fields") else tuple(pairs)
    return one + other


def size_of(value: Any) -> int:
    """About the bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(size_of, value.values()))
    if isinstance(value, tuple | list):
        return sum(map(size_of, value))
    return sum(map(size_of, vars(value).values())) if hasattr(value, "__dict__") else 0


def _is_future(value: Any) -> bool:
    return type(value).__name__ == "Future" and hasattr(value, "key")


def _name(work: Callable[..., Any]) -> str:
    # Dask shows tasks by what stands before the token.
    return f"labelgap_{getattr(work, '__name__', 'work').strip('_')}-{uuid.uuid4().hex}"
