"""What a partition keeps beside its rows while it is in memory, within what the worker's memory allows.

Objectives and points follow from the partition and the question, so a worker that does not have them makes
the same ones. Where memory is short, fewer are kept and more are made again.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

# The fraction of a worker's memory limit that may be taken by what its partitions keep beside their rows.
_FRACTION = 0.2
# What a worker's process takes before it holds any data, with its kernels compiled.
OWN_MEMORY = 420e6


class Budget:
    """Bytes of one process that partitions may take for what they keep."""

    def __init__(self, size: float | None = None) -> None:
        self._size, self._used, self._lock = size, 0, threading.Lock()

    @property
    def used(self) -> int:
        return self._used

    def take(self, size: int) -> bool:
        """Whether so many bytes were left; they are taken then."""
        limit = allowed_bytes() if self._size is None else self._size
        with self._lock:
            if self._used + size > limit:
                return False
            self._used += size
        return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._used -= size


BUDGET = Budget()
"""That of this process."""


def allowed_bytes() -> float:
    """A fraction of what the worker of this thread has beyond its own needs; no limit where it has none."""
    limit = _worker_limit()
    return float("inf") if limit is None else _FRACTION * max(limit - OWN_MEMORY, 0.0)


def _worker_limit() -> float | None:
    from distributed import get_worker

    try:
        return get_worker().memory_manager.memory_limit
    except ValueError:
        # Not on a worker.
        return None


class Kept:
    """The last few values that were made, by name; what is not here any more is made again.

    Parameters
    ----------
    most : int
        How many are kept.
    size : int
        About the bytes of one.
    budget : Budget
        What all partitions of the process share.

    Examples
    --------
    >>> kept = Kept(2, 100, Budget(150))
    >>> [kept.get(name, lambda: "made") for name in "aab"], len(kept)
    (['made', 'made', 'made'], 1)
    """

    def __init__(self, most: int, size: int, budget: Budget = BUDGET) -> None:
        self.most, self._size, self._budget = most, size, budget
        self._values: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()
        # A partition that goes to the disk drops what it keeps.
        weakref.finalize(self, _release, self._values, size, budget).atexit = False

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: Any, make: Callable[[], Any]) -> Any:
        """The value of that name, made where it is not kept."""
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
                return self._values[name]
        value = make()
        self.put(name, value)
        return value

    def put(self, name: Any, value: Any) -> None:
        """Keep a value, in place of the oldest one if there are many, where the budget has space for it."""
        with self._lock:
            if name in self._values:
                self._values[name] = value
                return
            while len(self._values) >= self.most:
                self._values.popitem(last=False)
                self._budget.give_back(self._size)
            if self._budget.take(self._size):
                self._values[name] = value


def _release(values: OrderedDict[Any, Any], size: int, budget: Budget) -> None:
    budget.give_back(len(values) * size)
    values.clear()
