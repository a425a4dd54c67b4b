"""The bounds of this machine: memory bandwidth by a stream-like copy, floating point by a large GEMM."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

_COPY_BYTES = 1 << 28
_GEMM_ORDER = 3072
_REPEATS = 5


@dataclass(frozen=True)
class Bounds:
    """The speed limits of the machine with that many threads."""

    threads: int
    copy_bytes_per_second: float
    """Bytes read and bytes written, together."""
    gemm_flops_single: float
    gemm_flops_double: float

    def gemm(self, dtype: type[np.floating]) -> float:
        return self.gemm_flops_single if dtype == np.float32 else self.gemm_flops_double

    def seconds(
        self, *, n_bytes: float = 0.0, flops: float = 0.0, dtype: type = np.float64
    ) -> tuple[float, str]:
        """The least time for so much traffic and so many operations, and the bound that says so."""
        memory = n_bytes / self.copy_bytes_per_second
        arithmetic = flops / self.gemm(dtype)
        if memory >= arithmetic:
            return memory, "memory"
        return arithmetic, f"{np.dtype(dtype).name} GEMM"


def measure_bounds(threads: int) -> Bounds:
    """Copy and multiply on ``threads`` threads; medians."""
    return Bounds(threads, _copy_speed(threads), *(_gemm_speed(threads, t) for t in (np.float32, np.float64)))


def _median(job: Callable[[], object]) -> float:
    job()
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _copy_speed(threads: int) -> float:
    source = np.ones(_COPY_BYTES // 8)
    target = np.zeros_like(source)
    cuts = [len(source) * t // threads for t in range(threads + 1)]

    def part(t: int) -> None:
        np.copyto(target[cuts[t] : cuts[t + 1]], source[cuts[t] : cuts[t + 1]])

    def copy() -> None:
        others = [threading.Thread(target=part, args=(t,)) for t in range(1, threads)]
        for thread in others:
            thread.start()
        part(0)
        for thread in others:
            thread.join()

    return 2 * source.nbytes / _median(copy)


def _gemm_speed(threads: int, dtype: type) -> float:
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((_GEMM_ORDER, _GEMM_ORDER)).astype(dtype) for _ in range(2))
    out = np.empty_like(A)
    with threadpool_limits(threads, user_api="blas"):
        return 2 * _GEMM_ORDER**3 / _median(lambda: np.matmul(A, B, out=out))
