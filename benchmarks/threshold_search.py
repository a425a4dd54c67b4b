"""The exact threshold search against scikit-learn's curve (micro-F1) and xCOLUMNs (macro-F1).

All are given the same scores of the same entries, a full matrix of 100 labels. The search is also set against
``numpy.argsort`` of the scores of a half-observed matrix, with the memory that it allocates. The largest size
is run once.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Line, Options, Report, take_turns
from benchmarks.machine import Bounds, measure_bounds
from benchmarks.rivals import sklearn_curve, xcolumns_macro
from labelgap.labels import ObservedLabels
from labelgap.thresholds import ThresholdResult, best_threshold

SIZES = (10_000_000, 100_000_000)
QUICK_SIZES = (200_000,)
N_LABELS = 100
# From this many entries on, a method is run once.
ONCE_FROM = 50_000_000
# Block coordinate ascent takes minutes from here on.
LARGEST_FOR_ASCENT = 20_000_000
# scikit-learn's curve holds about this many numbers of 8 bytes for each entry.
CURVE_NUMBERS = 16
SPEED_UP = 5.0
ARGSORT_LIMITS = {"micro": 2.0, "instance": 4.0, "macro": 4.0}
MEMORY_LIMIT = 8.0


@dataclass(frozen=True)
class Problem:
    """Scores, which are true probabilities of yes, with labels drawn from them."""

    scores: NDArray[Any]
    labels: ObservedLabels

    def search(self, metric: str) -> ThresholdResult:
        # A new object has nothing cached, so every call pays for all that it needs.
        labels = self.labels
        given = ObservedLabels(labels.indptr, labels.indices, labels.values, labels.shape)
        return best_threshold(self.scores, given, metric)


def full_problem(entries: int, dtype: type, seed: int = 0) -> Problem:
    """Every label of every row is observed; the scores are a matrix."""
    rng = np.random.default_rng(seed)
    n_rows = entries // N_LABELS
    shape = (n_rows, N_LABELS)
    scores = rng.standard_normal(shape, dtype=np.float32)
    scores = (1 / (1 + np.exp(2 - 2 * scores))).astype(dtype)
    values = (rng.random(shape, dtype=np.float32) < scores).astype(np.int8)
    indices = np.tile(np.arange(N_LABELS, dtype=np.int32), n_rows)
    labels = ObservedLabels(np.arange(n_rows + 1) * N_LABELS, indices, values.ravel(), shape)
    return Problem(scores, labels)


def half_observed_problem(entries: int, seed: int = 0) -> Problem:
    """The observed half of a matrix, so that rows and columns are uneven; one score per entry."""
    rng = np.random.default_rng(seed)
    n_rows = -(-2 * entries // N_LABELS)
    positions = np.sort(rng.choice(n_rows * N_LABELS, size=entries, replace=False, shuffle=False))
    scores = rng.normal(size=entries)
    values = (rng.random(entries) < 1 / (1 + np.exp(2 - 2 * scores))).astype(np.int8)
    rows, columns = np.divmod(positions, N_LABELS)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n_rows))))
    return Problem(scores, ObservedLabels(indptr, columns.astype(np.int32), values, (n_rows, N_LABELS)))


def macro_f1(decisions: NDArray[np.floating], values: NDArray[np.int8]) -> float:
    """The mean over the labels of 2 TP / (2 TP + FP + FN)."""
    hits = np.einsum("ij,ij->j", decisions, values, dtype=np.float64)
    total = decisions.sum(axis=0, dtype=np.float64) + values.sum(axis=0, dtype=np.float64)
    return float(np.mean(2 * hits / total))


def _repeats(entries: int, options: Options) -> tuple[int, bool]:
    """How often, and whether to warm up first."""
    return (1, False) if entries >= ONCE_FROM else (options.repeats, True)


def _compile() -> None:
    for dtype in (np.float32, np.float64):
        problem = full_problem(100_000, dtype)
        for metric in ("micro-f1", "macro-f1"):
            problem.search(metric)


def _speed_up(what: str, entries: int, times: dict[str, float], rival: str, note: str) -> Line:
    ratio = times[rival] / times["ours"]
    return Line(
        what=f"{what} by {rival}",
        size=f"{entries:,} entries",
        seconds=times[rival],
        ratio=ratio,
        against="x labelgap",
        target=f"≥ {SPEED_UP:g}",
        met=ratio >= SPEED_UP,
        note=note,
    )


def _ours(what: str, entries: int, seconds: float, n_bytes: int, bounds: Bounds, note: str) -> Line:
    bound, name = bounds.seconds(n_bytes=float(n_bytes) * entries)
    return Line(
        f"{what} by labelgap", f"{entries:,} entries", seconds, bound_seconds=bound, bound=name, note=note
    )


def compare_micro(entries: int, options: Options, report: Report, bounds: Bounds) -> None:
    """The search for micro-F1 and scikit-learn's curve, on float64 scores."""
    reason = sklearn_curve.unavailable()
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if reason is None and CURVE_NUMBERS * 8 * entries > free:
        reason = f"{sklearn_curve.NAME} was not run with {entries:,} entries: too little memory is free."
    problem = full_problem(entries, np.float64)
    found: dict[str, float] = {}

    def ours() -> None:
        found["ours"] = problem.search("micro-f1").value

    def theirs() -> None:
        found[sklearn_curve.NAME] = sklearn_curve.best_f1(problem.labels.values, problem.scores.ravel())[1]

    jobs: dict[str, Callable[[], object]] = {"ours": ours}
    if reason is None:
        jobs[sklearn_curve.NAME] = theirs
    else:
        report.remarks.append(reason)
    repeats, warm_up = _repeats(entries, options)
    times = take_turns(jobs, repeats, warm_up=warm_up)
    # Scores and values are read, buckets are written and read.
    report.lines.append(_ours("micro-F1", entries, times["ours"], 13, bounds, f"F1 {found['ours']:.6f}"))
    for name in list(times)[1:]:
        report.lines.append(_speed_up("micro-F1", entries, times, name, f"F1 {found[name]:.6f}"))
    report.details[f"micro {entries}"] = {"seconds": times, "f1": found}


def compare_macro(entries: int, options: Options, report: Report, bounds: Bounds) -> None:
    """The search for macro-F1 and both methods of xCOLUMNs, on float32 scores."""
    problem = full_problem(entries, np.float32)
    values = problem.labels.values.reshape(problem.labels.shape)
    labels = values.astype(np.float32)
    found: dict[str, float] = {}
    results: dict[str, Any] = {}
    mixing, ascent = f"{xcolumns_macro.NAME}, Frank-Wolfe", f"{xcolumns_macro.NAME}, block coordinate ascent"

    def ours() -> None:
        found["ours"] = problem.search("macro-f1").value

    def mix() -> None:
        results[mixing] = xcolumns_macro.find_classifier(labels, problem.scores)

    def ascend() -> None:
        results[ascent] = xcolumns_macro.decide_together(problem.scores)

    jobs: dict[str, Callable[[], object]] = {"ours": ours}
    reason = xcolumns_macro.unavailable()
    if reason is None:
        jobs[mixing] = mix
    else:
        report.remarks.append(reason)
    repeats, warm_up = _repeats(entries, options)
    times = take_turns(jobs, repeats, warm_up=warm_up)
    if reason is None and entries <= LARGEST_FOR_ASCENT:
        times |= take_turns({ascent: ascend}, 1, warm_up=False)
        found[ascent] = macro_f1(results[ascent], values)
    if reason is None:
        found[mixing] = macro_f1(xcolumns_macro.decide(results[mixing], problem.scores), values)
    report.lines.append(_ours("macro-F1", entries, times["ours"], 13, bounds, f"F1 {found['ours']:.6f}"))
    for name in list(times)[1:]:
        report.lines.append(_speed_up("macro-F1", entries, times, name, f"F1 {found[name]:.6f}"))
    report.details[f"macro {entries}"] = {"seconds": times, "f1": found}


def peak_arrays(job: Callable[[], object], entries: int) -> float:
    """Peak memory that one call allocates, in float64 arrays of ``entries`` numbers."""
    tracemalloc.start()
    try:
        job()
        return tracemalloc.get_traced_memory()[1] / (8 * entries)
    finally:
        tracemalloc.stop()


def compare_argsort(entries: int, options: Options, report: Report) -> None:
    """Every average as a multiple of a sort of the scores, and the memory that it takes."""
    problem = half_observed_problem(entries)
    jobs: dict[str, Callable[[], object]] = {"argsort": partial(np.argsort, problem.scores)}
    jobs |= {average: partial(problem.search, f"{average}-f1") for average in ARGSORT_LIMITS}
    times = take_turns(jobs, options.repeats)
    size = f"{entries:,} entries"
    report.lines.append(Line("numpy.argsort", size, times["argsort"]))
    for average, limit in ARGSORT_LIMITS.items():
        ratio = times[average] / times["argsort"]
        name = f"{average}-F1, half observed"
        report.lines.append(
            Line(name, size, times[average], ratio, "x numpy.argsort", f"≤ {limit:g}", ratio <= limit)
        )
        peak = peak_arrays(jobs[average], entries)
        report.lines.append(
            Line(
                f"{name}: memory",
                size,
                ratio=peak,
                against="x a float64 array of the entries",
                target=f"≤ {MEMORY_LIMIT:g}",
                met=peak <= MEMORY_LIMIT,
            )
        )
    report.details["argsort"] = times


def run(options: Options) -> Report:
    """All sizes, against the rivals that are installed."""
    bounds = measure_bounds(options.threads)
    report = Report(
        name="threshold_search",
        title="Threshold search",
        method="The exact threshold for all labels, from the scores and labels of a full matrix of 100 "
        "labels. The ratio is the time of a rival over that of labelgap. Frank-Wolfe mixes rules with a "
        "threshold for each label; block coordinate ascent decides from the probabilities alone.",
        bounds=bounds,
    )
    _compile()
    for entries in QUICK_SIZES if options.quick else SIZES:
        compare_micro(entries, options, report, bounds)
        compare_macro(entries, options, report, bounds)
    compare_argsort((QUICK_SIZES if options.quick else SIZES)[0], options, report)
    return report
