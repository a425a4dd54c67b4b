"""Threads for kernels that release the GIL.

A kernel takes a range of rows as its last two arguments and writes only to those rows, so its result does
not depend on how the rows are shared out, and hence not on the number of threads.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

# Below this many multiply-adds, handing work to a second thread costs more than it saves.
_MIN_WORK_PER_THREAD = 200_000

T = TypeVar("T")
R = TypeVar("R")

Limit: TypeAlias = int | Callable[[], int]
"""A number of threads, or what says how many there may be now."""
_limit: contextvars.ContextVar[Limit | None] = contextvars.ContextVar("labelgap_threads", default=None)
_pool: ThreadPoolExecutor | None = None


def available_threads() -> int:
    """Cores this process may use, or ``LABELGAP_NUM_THREADS`` where that is set."""
    named = os.environ.get("LABELGAP_NUM_THREADS", "")
    if named.isdigit() and int(named) > 0:
        return int(named)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def thread_count() -> int:
    """Threads a kernel may use here and now."""
    limit = _limit.get()
    if limit is None:
        return available_threads()
    return limit() if callable(limit) else limit


@contextlib.contextmanager
def limit_threads(count: Limit) -> Iterator[None]:
    """Let kernels use at most ``count`` threads inside the block (in this thread only)."""
    token = _limit.set(count)
    try:
        yield
    finally:
        _limit.reset(token)


def _forget_pool() -> None:
    # A forked child inherits the pool object but none of its threads.
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def _shared_pool(threads: int) -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(available_threads(), threads) - 1 or 1)
    return _pool


def run_over_rows(
    kernel: Callable[..., None], indptr: NDArray[np.int64], work_per_entry: int, *args: Any
) -> None:
    """Run ``kernel(*args, start, stop)`` over all rows, shared out so that entries balance."""
    rows, entries = len(indptr) - 1, int(indptr[-1])
    worth = 1 + entries * work_per_entry // _MIN_WORK_PER_THREAD
    # How many threads there may be takes longer to find out than little work does.
    threads = 1 if worth == 1 else min(thread_count(), worth, rows)
    if threads <= 1:
        kernel(*args, 0, rows)
        return
    pool = _shared_pool(threads)
    targets = np.arange(1, threads) * (entries / threads)
    cuts = [0, *np.searchsorted(indptr, targets).tolist(), rows]
    waiting = [pool.submit(kernel, *args, cuts[t], cuts[t + 1]) for t in range(1, threads)]
    kernel(*args, cuts[0], cuts[1])
    for job in waiting:
        job.result()


def map_in_order(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``[work(item) for item in items]``, side by side where threads allow; results in the items' order.

    For work that spends its time outside the interpreter, as array operations on large blocks do.
    """
    threads = min(thread_count(), len(items))
    if threads <= 1:
        return [work(item) for item in items]
    cuts = [len(items) * t // threads for t in range(threads + 1)]

    def run(t: int) -> list[R]:
        # Work that itself asked for threads would wait for the pool that it keeps busy.
        with limit_threads(1):
            return [work(item) for item in items[cuts[t] : cuts[t + 1]]]

    waiting = [_shared_pool(threads).submit(run, t) for t in range(1, threads)]
    first = run(0)
    return [result for part in (first, *(job.result() for job in waiting)) for result in part]


def run_parts(
    kernel: Callable[..., None],
    cuts: Sequence[int],
    shared: tuple[Any, ...],
    workspaces: Sequence[tuple[Any, ...]],
) -> None:
    """Run ``kernel(*shared, *workspace, start, stop)`` between neighbouring cuts, each with its workspace."""
    parts = len(cuts) - 1
    if parts == 1:
        kernel(*shared, *workspaces[0], cuts[0], cuts[1])
        return
    pool = _shared_pool(parts)
    waiting = [pool.submit(kernel, *shared, *workspaces[t], cuts[t], cuts[t + 1]) for t in range(1, parts)]
    kernel(*shared, *workspaces[0], cuts[0], cuts[1])
    for job in waiting:
        job.result()
