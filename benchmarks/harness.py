"""The harness of all benchmarks: pinned threads, jobs that run alternately, the machine's bounds, tables.

A benchmark is a function ``run(options) -> Report``. Its figures are ratios of medians of jobs that ran
alternately in one process tree. The bounds of the machine, memory bandwidth by a stream-like copy and
floating point by a large GEMM, are measured in the same run.
"""

from __future__ import annotations

import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "performance"
# Times of another processor are figures of their own.
RESULTS_HERE = RESULTS / "aarch64" if platform.machine() in ("aarch64", "arm64") else RESULTS
THREAD_VARIABLES = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "LABELGAP")]


@dataclass(frozen=True)
class Options:
    """How a benchmark is to run."""

    repeats: int = 3
    quick: bool = False
    """Small sizes, to check that the benchmark works; its figures mean nothing. The gate's do."""
    threads: int = 1
    """Threads that each method may use."""
    store: Callable[[Report], None] = lambda report: None
    """Stores what has been measured so far."""
    before: Path = RESULTS_HERE
    """The folder of the figures that are compared with."""


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


# -- time and memory ---------------------------------------------------------------------------------------


def pin_threads(count: int) -> None:
    """One number of threads for all libraries of this process and of those it starts, and as many cores."""
    for name in THREAD_VARIABLES:
        os.environ[name] = str(count)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    # Libraries that were loaded before keep this limit until the process ends.
    threadpool_limits(limits=count)


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    """How long one call takes, and its result."""
    began = time.perf_counter()
    found = job()
    return time.perf_counter() - began, found


def take_turns(
    jobs: Mapping[str, Callable[[], object]], repeats: int, *, warm_up: bool = True
) -> dict[str, float]:
    """The median time of each job. Jobs run alternately, so that a slow moment of the machine affects all."""
    if warm_up:
        for job in jobs.values():
            job()
    runs = [{name: timed(job)[0] for name, job in jobs.items()} for _ in range(repeats)]
    return {name: statistics.median(run[name] for run in runs) for name in jobs}


def peak_of(job: Callable[[], Any]) -> tuple[int, Any]:
    """The peak of this process above what it holds now, in bytes, while a job runs; and its result."""

    def status(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    # From here on the operating system counts the peak anew.
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    found = job()
    return status("VmHWM") - before, found


# -- the machine -------------------------------------------------------------------------------------------

_COPY_BYTES, _GEMM_ORDER, _REPEATS = 1 << 28, 3072, 5


@dataclass(frozen=True)
class Bounds:
    """The speed limits of the machine with that many threads."""

    threads: int
    copy_bytes_per_second: float
    """Bytes read and bytes written, together."""
    gemm_flops_single: float
    gemm_flops_double: float

    def seconds(
        self, *, n_bytes: float = 0.0, flops: float = 0.0, dtype: type = np.float64
    ) -> tuple[float, str]:
        """The least time for so much traffic and so many operations, and the bound that says so."""
        memory = n_bytes / self.copy_bytes_per_second
        speed = self.gemm_flops_single if dtype == np.float32 else self.gemm_flops_double
        if memory >= flops / speed:
            return memory, "memory"
        return flops / speed, f"{np.dtype(dtype).name} GEMM"


def measure_bounds(threads: int) -> Bounds:
    """Copy and multiply on ``threads`` threads; medians."""
    return Bounds(threads, _copy_speed(threads), *(_gemm_speed(threads, t) for t in (np.float32, np.float64)))


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

    return 2 * source.nbytes / take_turns({"copy": copy}, _REPEATS)["copy"]


def _gemm_speed(threads: int, dtype: type) -> float:
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((_GEMM_ORDER, _GEMM_ORDER)).astype(dtype) for _ in range(2))
    out = np.empty_like(A)
    with threadpool_limits(threads, user_api="blas"):
        took = take_turns({"GEMM": lambda: np.matmul(A, B, out=out)}, _REPEATS)["GEMM"]
    return 2 * _GEMM_ORDER**3 / took


def machine() -> str:
    """The processor, in words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


# -- tables ------------------------------------------------------------------------------------------------

COLUMNS = ("what", "size", "seconds", "ratio", "target", "met", "the machine's bound")


def columns(line: Mapping[str, Any]) -> tuple[str, ...]:
    """One line of a report as text."""
    ratio = "" if line["ratio"] is None else f"{number(line['ratio'])} {line['against']}".strip()
    met = {True: "yes", False: "no", None: ""}[line["met"]]
    bound = "" if line["bound_seconds"] is None else f"{number(line['bound_seconds'])} s ({line['bound']})"
    seconds = "" if line["seconds"] is None else number(line["seconds"])
    note = f" ({line['note']})" if line["note"] else ""
    return line["what"] + note, line["size"], seconds, ratio, line["target"], met, bound


def number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def bounds_text(report: Mapping[str, Any]) -> str:
    """The speed limits of the machine in that run."""
    bounds = report["bounds"]
    if "text" in bounds:
        return str(bounds["text"])
    return (
        f"copy {bounds['copy_bytes_per_second'] / 1e9:.1f} GB/s, GEMM "
        f"{bounds['gemm_flops_single'] / 1e9:.0f} GFLOP/s single and "
        f"{bounds['gemm_flops_double'] / 1e9:.0f} double, {bounds['threads']} threads"
    )


def text_table(report: Mapping[str, Any]) -> str:
    """The report as a table for a terminal."""
    rows = [COLUMNS, *map(columns, report["lines"])]
    widths = [max(len(row[c]) for row in rows) for c in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, f"bounds: {bounds_text(report)}", *report["remarks"]])


def markdown_table(report: Mapping[str, Any]) -> str:
    """The report as a Markdown table."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *map(columns, report["lines"])]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
