"""Each kernel against the roofline of the machine.

A kernel that reads or writes n bytes and does m operations takes at least ``max(n / copy speed, m / GEMM
speed)``. Rows of a factor that are gathered count with every entry, as if nothing stayed in a cache: where
the factor fits into one, a kernel can be faster than that bound. So every kernel runs twice, with a factor
that fits and with one that does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.generated_ratings import make_split
from benchmarks.harness import Line, Options, Report, take_turns
from benchmarks.machine import Bounds, measure_bounds
from labelgap.kernels.entries import (
    _csr_product,
    _sampled_product,
    csr_product,
    product_by_blocks,
    sampled_by_blocks,
    sampled_product,
)
from labelgap.kernels.threads import run_over_rows
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective.cpu.entries import EntryTerm
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Penalties

K = 32
TARGET = 0.5


@dataclass(frozen=True)
class Work:
    """A kernel, with its memory traffic and its operations."""

    name: str
    run: Callable[[], object]
    n_bytes: float
    flops: float
    dtype: type


def problem(shape: tuple[int, int], n_entries: int) -> ObservedLabels:
    """Ratings that are as skewed as real ones."""
    train = make_split(shape, n_entries).train
    return ObservedLabels.from_triplets(train.users, train.items, train.values, shape=shape)


def works(labels: ObservedLabels, dtype: type) -> list[Work]:
    """The kernels over these entries."""
    n, n_labels = labels.shape
    entries, size = labels.n_observed, np.dtype(dtype).itemsize
    settings = ProblemSettings(get_loss("logistic"), FeatureSettings(own_rows=True))
    objective = Problem([RowBlock(None, labels)], settings).objective(labels, free_intercept=False)
    assert isinstance(objective, EntryTerm)
    pattern = objective.pattern
    rng = np.random.default_rng(0)
    P, Q = (0.3 * rng.standard_normal((rows, K)).astype(dtype) for rows in (n, n_labels))
    data = rng.standard_normal(entries).astype(dtype)
    scores, rows_out = np.empty(entries, dtype), np.empty_like(P)
    steps = objective.rowwise(dtype)
    assert steps is not None
    at = steps.start(Factors(P.astype(float), Q.astype(float), objective.starting_intercept()))
    penalties = Penalties(10.0 / entries)
    # An entry brings its number, its value or score, and a row of the other factor.
    gathered = entries * (4 + size + K * size)
    # Half a Gram matrix, and k multiply-adds each for score, gradient, scaling and cross terms.
    newton = entries * (K * (K + 1) + 8 * K)
    systems = K**3 / 3 + 2 * K**2
    return [
        Work(
            "scores on Ω (sampled product)",
            partial(sampled_product, pattern.indptr, pattern.indices, P, Q, scores),
            gathered + n * K * size,
            2 * K * entries,
            dtype,
        ),
        Work(
            "S times a factor",
            partial(csr_product, pattern.indptr, pattern.indices, data, Q, rows_out),
            gathered + n * K * size,
            2 * K * entries,
            dtype,
        ),
        Work(
            "Sᵀ times a factor",
            partial(pattern.transposed_times, data, P),
            gathered + n_labels * K * size,
            2 * K * entries,
            dtype,
        ),
        Work(
            "Newton systems of the rows",
            partial(steps.step_rows, at, penalties),
            entries * (5 + K * size) + 2 * n * K * size,
            newton + n * systems,
            dtype,
        ),
        Work(
            "Newton systems of the labels",
            partial(steps.step_labels, at, penalties),
            entries * (5 + K * size) + 2 * n_labels * K * size,
            newton + n_labels * systems,
            dtype,
        ),
    ]


def lines_of(labels: ObservedLabels, where: str, bounds: Bounds, options: Options) -> list[Line]:
    """Every kernel in both precisions."""
    lines = []
    for dtype in (np.float32, np.float64):
        jobs = {work.name: work for work in works(labels, dtype)}
        times = take_turns({name: work.run for name, work in jobs.items()}, max(5, options.repeats))
        for name, work in jobs.items():
            least, kind = bounds.seconds(n_bytes=work.n_bytes, flops=work.flops, dtype=dtype)
            fraction = least / times[name]
            lines.append(
                Line(
                    what=f"{name}, {np.dtype(dtype).name}, {where}",
                    size=f"{labels.shape[0]:,} x {labels.shape[1]:,}, {labels.n_observed:,} entries, k {K}",
                    seconds=times[name],
                    ratio=fraction,
                    against="of the bound",
                    target=f"≥ {TARGET:g}",
                    met=fraction >= TARGET,
                    bound_seconds=least,
                    bound=kind,
                )
            )
    return lines


def crossover(options: Options) -> tuple[list[Line], dict[str, Any]]:
    """The loop over entries against blocks of GEMM, at growing fractions of observed entries."""
    rng = np.random.default_rng(0)
    n, n_labels = (400, 200) if options.quick else (4000, 2000)
    lines, found = [], {}
    for k in (32, 128):
        P, Q = (rng.standard_normal((rows, k)) for rows in (n, n_labels))
        for observed in (0.1, 0.2, 0.4, 0.6, 0.8):
            mask = rng.random((n, n_labels)) < observed
            indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)
            indices = np.nonzero(mask)[1].astype(np.int32)
            data, scores, out = rng.standard_normal(len(indices)), np.empty(len(indices)), np.empty((n, k))
            times = take_turns(
                {
                    "sampled": partial(
                        run_over_rows, _sampled_product, indptr, k, indptr, indices, P, Q, scores
                    ),
                    "sampled in blocks": partial(sampled_by_blocks, indptr, indices, P, Q, scores),
                    "product": partial(
                        run_over_rows, _csr_product, indptr, k, indptr, indices, indices[:0], data, Q, out
                    ),
                    "product in blocks": partial(product_by_blocks, indptr, indices, data, Q, out),
                },
                max(5, options.repeats),
            )
            found[f"k {k}, {observed:.0%} observed"] = times
            for name in ("sampled", "product"):
                lines.append(
                    Line(
                        what=f"{name}: loop over entries, {observed:.0%} observed",
                        size=f"{n:,} x {n_labels:,}, k {k}, float64",
                        seconds=times[name],
                        ratio=times[name] / times[f"{name} in blocks"],
                        against="x blocks of GEMM",
                    )
                )
    return lines, found


def run(options: Options) -> Report:
    """All kernels, and the density from which dense blocks are faster."""
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
            report.lines += lines_of(problem(shape, n_entries), where, bounds, options)
        lines, report.details["crossover"] = crossover(options)
    report.lines += lines
    return report
