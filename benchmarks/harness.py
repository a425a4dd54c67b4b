"""Tools for all benchmarks: jobs that run alternately, pinned threads, and a report of lines.

A benchmark is a module with ``run(options) -> Report``. Its figures are ratios of medians of jobs that ran
alternately in one process tree. The bounds of the machine are measured in the same run.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.machine import Bounds

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LABELGAP_NUM_THREADS",
)


@dataclass(frozen=True)
class Options:
    """How a benchmark is to run."""

    repeats: int = 3
    quick: bool = False
    """Small sizes, to check that the benchmark works; its figures mean nothing."""
    threads: int = 1
    """Threads that each method may use."""


@dataclass(frozen=True)
class Line:
    """One figure: what was measured, its median time, and how it compares."""

    what: str
    size: str = ""
    seconds: float | None = None
    ratio: float | None = None
    """The ratio that ``against`` describes."""
    against: str = ""
    target: str = ""
    """As in the table, such as "≤ 1.2"; empty for the lines of rivals."""
    met: bool | None = None
    bound_seconds: float | None = None
    """The time of the same work at the speed of the bound that applies."""
    bound: str = ""
    """The name of the bound, such as "memory" or "float32 GEMM"."""
    note: str = ""


@dataclass
class Report:
    """The lines of one benchmark, with remarks."""

    name: str
    title: str
    method: str
    """What was measured and how, in a sentence or two."""
    lines: list[Line] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Rivals that could not run, limits, and reasons for missed targets."""
    bounds: Bounds | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """All that was measured, for the JSON file."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def pin_threads(count: int) -> None:
    """One number of threads for all libraries of this process and of those it starts, and as many cores."""
    for name in THREAD_VARIABLES:
        os.environ[name] = str(count)
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:count])
    # Libraries that were loaded before keep this limit until the process ends.
    threadpool_limits(limits=count)


def seconds(job: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def take_turns(
    jobs: Mapping[str, Callable[[], object]], repeats: int, *, warm_up: bool = True
) -> dict[str, float]:
    """The median time of each job. Jobs run alternately, so that a slow moment of the machine affects all."""
    if warm_up:
        for job in jobs.values():
            job()
    runs = [{name: seconds(job) for name, job in jobs.items()} for _ in range(repeats)]
    return {name: statistics.median(run[name] for run in runs) for name in jobs}
