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

from benchmarks import rivals
from benchmarks.harness import Bounds, Line, Options, Report, measure_bounds, take_turns
from labelgap.labels import ObservedLabels
from labelgap.thresholds import ThresholdResult, best_threshold

SIZES, QUICK_SIZES = (10_000_000, 100_000_000), (200_000,)
N_LABELS = 100
# From this many entries on, a method is run once; block coordinate ascent takes minutes from here on.
ONCE_FROM, LARGEST_FOR_ASCENT = 50_000_000, 20_000_000
# scikit-learn's curve holds about this many numbers of 8 bytes for each entry.
CURVE_NUMBERS = 16
SPEED_UP, MEMORY_LIMIT = 5.0, 8.0
ARGSORT_LIMITS = {"micro": 2.0, "instance": 4.0, "macro": 4.0}
CURVE, XCOLUMNS = "scikit-learn (precision_recall_curve)", "xCOLUMNs (macro-F1)"


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


def full_problem(entries: int, dtype: type) -> Problem:
    """Every label of every row is observed; the scores are a matrix."""
    rng = np.random.default_rng(0)
    shape = (entries // N_LABELS, N_LABELS)
    scores = rng.standard_normal(shape, dtype=np.float32)
    scores = (1 / (1 + np.exp(2 - 2 * scores))).astype(dtype)
    values = (rng.random(shape, dtype=np.float32) < scores).astype(np.int8)
    indices = np.tile(np.arange(N_LABELS, dtype=np.int32), shape[0])
    labels = ObservedLabels(np.arange(shape[0] + 1) * N_LABELS, indices, values.ravel(), shape)
    return Problem(scores, labels)


def half_observed_problem(entries: int) -> Problem:
    """The observed half of a matrix, so that rows and columns are uneven; one score per entry."""
    rng = np.random.default_rng(0)
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


def compare(
    what: str,
    entries: int,
    jobs: dict[str, Callable[[], float]],
    options: Options,
    bounds: Bounds,
    once: tuple[str, ...] = (),
) -> list[Line]:
    """labelgap's search, which is the first job, and the rivals; each job gives the F1 that it found."""
    found: dict[str, float] = {}

    def keep(name: str) -> None:
        found[name] = jobs[name]()

    repeats, warm_up = (1, False) if entries >= ONCE_FROM else (options.repeats, True)
    times = take_turns({n: partial(keep, n) for n in jobs if n not in once}, repeats, warm_up=warm_up)
    times |= take_turns({n: partial(keep, n) for n in jobs if n in once}, 1, warm_up=False)
    ours, size = next(iter(jobs)), f"{entries:,} entries"
    # Scores and values are read, buckets are written and read.
    bound, name = bounds.seconds(n_bytes=13.0 * entries)
    lines = []
    for who, took in times.items():
        note = f"F1 {found[who]:.6f}"
        if who == ours:
            lines.append(Line(f"{what} by {who}", size, took, None, "", "", None, bound, name, note))
            continue
        ratio, target = took / times[ours], f"≥ {SPEED_UP:g}"
        met = ratio >= SPEED_UP
        lines.append(Line(f"{what} by {who}", size, took, ratio, f"x {ours}", target, met, note=note))
    return lines


def compare_micro(entries: int, options: Options, report: Report, bounds: Bounds) -> None:
    """The search for micro-F1 and scikit-learn's curve, on float64 scores."""
    problem = full_problem(entries, np.float64)
    jobs = {"labelgap": lambda: problem.search("micro-f1").value}
    if CURVE_NUMBERS * 8 * entries > os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        report.remarks.append(f"{CURVE} was not run with {entries:,} entries: too little memory is free.")
    else:
        jobs[CURVE] = lambda: rivals.curve_f1(problem.labels.values, problem.scores.ravel())
    report.lines += compare("micro-F1", entries, jobs, options, bounds)


def compare_macro(entries: int, options: Options, report: Report, bounds: Bounds) -> None:
    """The search for macro-F1 and both methods of xCOLUMNs, on float32 scores."""
    problem = full_problem(entries, np.float32)
    values = problem.labels.values.reshape(problem.labels.shape)
    labels, scores = values.astype(np.float32), problem.scores
    mixing, ascent = f"{XCOLUMNS}, Frank-Wolfe", f"{XCOLUMNS}, block coordinate ascent"
    jobs = {"labelgap": lambda: problem.search("macro-f1").value}
    absent = rivals.missing("xcolumns")
    if absent:
        report.remarks.append(absent)
    else:

        def mix() -> float:
            classifier = rivals.frank_wolfe(labels, scores)
            return macro_f1(np.asarray(classifier.predict(scores, seed=0)), values)

        jobs[mixing] = mix
        if entries <= LARGEST_FOR_ASCENT:
            jobs[ascent] = lambda: macro_f1(rivals.block_coordinate_ascent(scores), values)
    report.lines += compare("macro-F1", entries, jobs, options, bounds, (ascent,))


def compare_argsort(entries: int, options: Options, report: Report) -> None:
    """Every average as a multiple of a sort of the scores, and the memory that it takes."""
    problem = half_observed_problem(entries)
    jobs: dict[str, Callable[[], object]] = {"argsort": partial(np.argsort, problem.scores)}
    jobs |= {average: partial(problem.search, f"{average}-f1") for average in ARGSORT_LIMITS}
    times = take_turns(jobs, options.repeats)
    size = f"{entries:,} entries"
    report.lines.append(Line("numpy.argsort", size, times["argsort"]))
    for average, limit in ARGSORT_LIMITS.items():
        ratio, name = times[average] / times["argsort"], f"{average}-F1, half observed"
        target = f"≤ {limit:g}", ratio <= limit
        report.lines.append(Line(name, size, times[average], ratio, "x numpy.argsort", *target))
        tracemalloc.start()
        jobs[average]()
        peak = tracemalloc.get_traced_memory()[1] / (8 * entries)
        tracemalloc.stop()
        target = f"≤ {MEMORY_LIMIT:g}", peak <= MEMORY_LIMIT
        against = "x a float64 array of the entries"
        report.lines.append(Line(f"{name}: memory", size, None, peak, against, *target))


def run(options: Options) -> Report:
    """All sizes, against the rivals that are installed."""
    bounds = measure_bounds(options.threads)
    report = Report(
        "threshold_search",
        "Threshold search",
        "The exact threshold for all labels, from the scores and labels of a full matrix of 100 "
        "labels. The ratio is the time of a rival over that of labelgap. Frank-Wolfe mixes rules with a "
        "threshold for each label; block coordinate ascent decides from the probabilities alone.",
    )
    for dtype, metric in ((np.float32, "macro-f1"), (np.float64, "micro-f1")):
        full_problem(100_000, dtype).search(metric)  # Compiles.
    for entries in QUICK_SIZES if options.quick else SIZES:
        compare_micro(entries, options, report, bounds)
        compare_macro(entries, options, report, bounds)
        options.store(report)
    compare_argsort((QUICK_SIZES if options.quick else SIZES)[0], options, report)
    return report
