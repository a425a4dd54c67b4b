"""Threads for kernels that release the GIL.

A kernel takes a range of rows as its last two arguments and writes only to those rows, so its result does
not depend on how the rows are shared out, and hence not on the number of threads.

Work is cut into pieces, and whoever is free takes the next one. The calling thread is one of them, and it
never waits for a thread that has not begun: where other processes keep the cores busy, it works alone.
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

LEAST_WORK = 1_000_000
"""Multiply-adds of a piece of work, at least: about half a millisecond. To wake another thread takes a tenth
of one on an idle machine, and longer on a busy one."""

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


def shared_pool(threads: int) -> ThreadPoolExecutor:
    """The threads beside the calling ones, for so many in all at least where this is the first call."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=max(available_threads(), threads) - 1 or 1)
    return _pool


def _share_out(do: Callable[[int], None], count: int, threads: int) -> None:
    """``do`` every number below ``count``, side by side in this thread and others."""
    numbers = iter(range(count))

    def take() -> None:
        while (number := next(numbers, None)) is not None:
            do(number)

    others = [shared_pool(threads).submit(take) for _ in range(min(threads, count) - 1)]
    try:
        take()
    finally:
        # Whoever has not begun by now is not needed.
        begun = [job for job in others if not job.cancel()]
        for job in begun:
            job.result()


def run_over_rows(
    kernel: Callable[..., None], indptr: NDArray[np.int64], work_per_entry: int, *args: Any
) -> None:
    """Run ``kernel(*args, start, stop)`` over all rows, shared out so that entries balance."""
    rows, entries = len(indptr) - 1, int(indptr[-1])
    worth = entries * work_per_entry // LEAST_WORK
    # How many threads there may be takes longer to find out than little work does.
    threads = 1 if worth <= 1 else min(thread_count(), worth, rows)
    if threads <= 1:
        kernel(*args, 0, rows)
        return
    targets = np.arange(1, threads) * (entries / threads)
    cuts = [0, *np.searchsorted(indptr, targets).tolist(), rows]
    _share_out(lambda piece: kernel(*args, cuts[piece], cuts[piece + 1]), threads, threads)


def map_in_order(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``[work(item) for item in items]``, side by side where threads allow; results in the items' order.

    For work that spends its time outside the interpreter, as array operations on large blocks do.
    """
    threads = min(thread_count(), len(items))
    if threads <= 1:
        return [work(item) for item in items]
    results: list[Any] = [None] * len(items)

    def do(number: int) -> None:
        # The others are at work on other items.
        with limit_threads(1):
            results[number] = work(items[number])

    _share_out(do, len(items), threads)
    return results


def run_parts(
    kernel: Callable[..., None],
    cuts: Sequence[int],
    shared: tuple[Any, ...],
    workspaces: Sequence[tuple[Any, ...]],
) -> None:
    """Run ``kernel(*shared, *workspace, start, stop)`` between neighbouring cuts, each with its workspace."""
    parts = len(cuts) - 1
    _share_out(lambda t: kernel(*shared, *workspaces[t], cuts[t], cuts[t + 1]), parts, parts)
