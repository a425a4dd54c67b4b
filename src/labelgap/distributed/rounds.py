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
from typing import Any

import numpy as np

from labelgap.distributed.clients import cluster_errors, large_graphs
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

    def __len__(self) -> int:
        return len(self.parts)

    def sum(self, work: Callable[..., Any], *shared: Any) -> Any:
        """The sum of ``work(part, own, *shared)`` over all partitions, in a fixed order."""
        graph, keys = self._graph(work, shared)
        name, level = _name(added), 0
        while len(keys) > 1:
            level += 1
            groups = [keys[start : start + _FAN_IN] for start in range(0, len(keys), _FAN_IN)]
            keys = [f"{name}-{level}-{place}" for place in range(len(groups))]
            graph |= {key: (added, group) for key, group in zip(keys, groups, strict=True)}
        return self._compute(graph, keys[0])

    def each_of(self, work: Callable[..., Any], *shared: Any) -> list[Any]:
        """``work(part, own, *shared)`` of every partition, in order."""
        graph, keys = self._graph(work, shared)
        found: list[Any] = self._compute(graph, keys)
        return found

    def map(self, work: Callable[..., Any], *shared: Any) -> list[Any]:
        """Futures of ``work(part, own, *shared)``, which stay on the cluster while they are referred to."""
        graph, keys = self._graph(work, shared)
        with large_graphs():
            futures: list[Any] = self.client.get(graph, keys, sync=False)
        # Errors are raised here, and not in the first round that would use the results.
        Rounds(self.client, futures).each_of(_is_there)
        return futures

    def keep(self, value: Any) -> Any:
        """A value on the cluster, as the future of a task that returns it."""
        name = _name(_itself)
        with large_graphs():
            return self.client.get({name: (_itself, Shared(value))}, [name], sync=False)[0]

    def _graph(self, work: Callable[..., Any], shared: Sequence[Any]) -> tuple[dict[str, Any], list[str]]:
        name = _name(work)
        graph: dict[str, Any] = {}
        arguments: list[Any] = []
        for place, value in enumerate(shared):
            if _is_future(value):
                arguments.append(value)
            elif size_of(value) * len(self.parts) > _WORTH_A_TASK and len(self.parts) > 1:
                key = f"{name}-shared-{place}"
                graph[key] = (_itself, Shared(value))
                arguments.append(key)
            else:
                arguments.append(Shared(value))
        keys = [f"{name}-{number}" for number in range(len(self.parts))]
        for key, part, own in zip(keys, self.parts, self.each, strict=True):
            graph[key] = (run, Shared(work), part, Shared(own), *arguments)
        return graph, keys

    def _compute(self, graph: dict[str, Any], keys: Any) -> Any:
        with cluster_errors(), large_graphs():
            return self.client.get(graph, keys)


class Shared:
    """A value in a graph that Dask is not to look into for keys and tasks."""

    def __init__(self, value: Any) -> None:
        self.value = value


def run(work: Shared, part: Any, *arguments: Any) -> Any:
    """One task: the work on one partition, in one thread."""
    plain = [given.value if isinstance(given, Shared) else given for given in arguments]
    with one_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return work.value(part, *plain)


def _is_there(part: Any, own: Any) -> bool:
    return True


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
