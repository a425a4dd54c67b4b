"""Each kernel against the roofline of the machine.

A kernel that reads or writes n bytes and does m operations takes at least ``max(n / copy speed, m / GEMM
speed)``. Rows of a factor that are gathered count with every entry, as if nothing stayed in a cache: where
the factor fits into one, a kernel can be faster than that bound. So every kernel runs twice, with a factor
that fits and with one that does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import make_ratings
from benchmarks.harness import Bounds, Line, Options, Report, measure_bounds, take_turns
from labelgap.kernels.entries import csr_product, sampled_product
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties

K = 32
TARGET = 0.5


class Work(NamedTuple):
    """A kernel, with its memory traffic and its operations."""

    run: Callable[[], object]
    n_bytes: float
    flops: float


def works(labels: ObservedLabels, dtype: type) -> dict[str, Work]:
    """The kernels over these entries."""
    n, n_labels = labels.shape
    entries, size = labels.n_observed, np.dtype(dtype).itemsize
    settings = ProblemSettings(get_loss("logistic"), FeatureSettings(own_rows=True))
    objective = Problem([RowBlock(None, labels)], settings).objective(labels, free_intercept=False)
    pattern = objective.pattern
    rng = np.random.default_rng(0)
    P, Q = (0.3 * rng.standard_normal((rows, K)).astype(dtype) for rows in (n, n_labels))
    values = rng.standard_normal(entries).astype(dtype)
    scores, rows_out = np.empty(entries, dtype), np.empty_like(P)
    steps = objective.rowwise(dtype)
    at = steps.start(Factors(P.astype(float), Q.astype(float), objective.starting_intercept()))
    penalties = Penalties(10.0 / entries)
    # An entry brings its number, its value or score, and a row of the other factor.
    gathered, product = entries * (4 + size + K * size), 2 * K * entries
    # Half a Gram matrix, and k multiply-adds each for score, gradient, scaling and cross terms; a system of
    # order k for each row.
    newton, system = entries * (K * (K + 1) + 8 * K), K**3 / 3 + 2 * K**2
    found = {
        "scores on Ω (sampled product)": Work(
            partial(sampled_product, pattern.indptr, pattern.indices, P, Q, scores),
            gathered + n * K * size,
            product,
        ),
        "S times a factor": Work(
            partial(csr_product, pattern.indptr, pattern.indices, values, Q, rows_out),
            gathered + n * K * size,
            product,
        ),
        "Sᵀ times a factor": Work(
            partial(pattern.transposed_times, values, P), gathered + n_labels * K * size, product
        ),
    }
    for side, step, count in (("rows", steps.step_rows, n), ("labels", steps.step_labels, n_labels)):
        traffic = entries * (5 + K * size) + 2 * count * K * size
        found[f"Newton systems of the {side}"] = Work(
            partial(step, at, penalties), traffic, newton + count * system
        )
    return found


def lines_of(labels: ObservedLabels, where: str, bounds: Bounds, options: Options) -> list[Line]:
    """Every kernel in both precisions."""
    lines = []
    size = f"{labels.shape[0]:,} x {labels.shape[1]:,}, {labels.n_observed:,} entries, k {K}"
    for dtype in (np.float32, np.float64):
        jobs = works(labels, dtype)
        times = take_turns({name: work.run for name, work in jobs.items()}, max(5, options.repeats))
        for name, work in jobs.items():
            least, kind = bounds.seconds(n_bytes=work.n_bytes, flops=work.flops, dtype=dtype)
            ratio, what = least / times[name], f"{name}, {np.dtype(dtype).name}, {where}"
            target = f"≥ {TARGET:g}", ratio >= TARGET
            lines.append(Line(what, size, times[name], ratio, "of the bound", *target, least, kind))
    return lines


def run(options: Options) -> Report:
    """All kernels, with factors that fit a cache and with factors that do not."""
    bounds = measure_bounds(options.threads)
    small = ((600, 400), 20_000) if options.quick else ((6040, 3952), 1_000_000)
    large = ((3000, 2000), 50_000) if options.quick else ((400_000, 400_000), 4_000_000)
    report = Report(
        "kernels",
        "Kernels against the roofline",
        "Each kernel is compared with the time that its traffic would take at copy speed, or its arithmetic "
        "at GEMM speed, whichever is longer. Gathered rows count for every entry. Medians of at least 5 "
        "runs.",
    )
    with threadpool_limits(1, user_api="blas"):
        for (shape, n_entries), where in ((small, "factors fit a cache"), (large, "factors do not")):
            rated, _ = make_ratings(shape, n_entries)
            labels = ObservedLabels.from_triplets(rated.users, rated.items, rated.values, shape=shape)
            report.lines += lines_of(labels, where, bounds, options)
    return report
