"""Fits that are certified to a duality gap, beside rivals whose results come with no such number.

Labels from features: sets of many shapes, real ones where they are at hand and generated ones, at λ from 0.3
to 0.01 of the λ above which W = 0, from W = 0, to gaps of 1e-2 and 1e-3; beside them liblinear
(``LogisticRegression``, C = 1), one label after the other. All of it in one thread, as fits of folds are
made. Products with the data are counted in a run apart: of X, of Xᵀ, and of either with the entries. Then the
same beside other processes, in one thread and in as many as there are cores.

Ratings: fits to a gap beside 30 epochs of LightFM; both predict the same held-out ratings.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks import data, rivals
from benchmarks.data import log_loss
from benchmarks.harness import Line, Options, Report, take_turns
from labelgap import Recommender
from labelgap.exceptions import LabelgapWarning
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.kernels.threads import limit_threads
from labelgap.labels import ObservedLabels
from labelgap.losses import Logistic
from labelgap.objective.cpu.design import Design
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.solvers import Fit, Penalties, solve_auto

FRACTIONS = (0.3, 0.1, 0.03, 0.01)
# Gaps, and the most that a fit may take as a multiple of liblinear's time.
GAPS = ((1e-2, 2.0), (1e-3, 3.0))
REAL = ("genbase", "sider", "enron", "tox21", "bibtex")
# Rows, features, labels, features of a row, fraction known, rank of the truth.
MADE = {
    "tiny": (322, 271, 19, 20, 0.5, 8),
    "wide": (645, 1449, 45, 80, 0.2, 8),
    "long": (21_519, 500, 22, 20, 0.5, 8),
    "assays": (6_877, 2_048, 617, 50, 0.29, 16),
    "few known": (19_096, 2_048, 691, 50, 0.0069, 64),
}
# Rows x features x labels from which on fits are made once, and at the larger λ alone: they take minutes.
LARGE = 1 << 32
SLOWER = 1.3
"""How much slower, beside other processes, a fit may get than liblinear does."""
BUSY = ("enron", 0.1, 1e-3)


def objective_of(X: Any, labels: ObservedLabels) -> Any:
    """The data term as the default of the estimators has it."""
    settings = FeatureSettings(centre=True, scaling="root" if sp.issparse(X) else "standard")
    return Problem([RowBlock(X, labels)], ProblemSettings(Logistic(), settings)).objective(labels)


def fit(X: Any, labels: ObservedLabels, fraction: float, gap: float, threads: int = 1) -> Fit:
    """Everything but the threshold: the features in their coordinates, λ_max, the fit."""
    # As an estimator makes it.
    with limit_threads(threads), threadpool_limits(1, user_api="blas"):
        objective = objective_of(X, labels)
        return solve_auto(objective, Penalties(fraction * largest_trace_penalty(objective)), tol=gap)


class Counted:
    """Features that count the products they are asked for."""

    def __init__(self, features: Any) -> None:
        self._features, self.products = features, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._features, name)
        if name not in ("product", "transposed_product", "scores_at", "transposed_matrix"):
            return found
        self.products += 1
        return found


def products_of(X: Any, labels: ObservedLabels, fraction: float, gap: float) -> int:
    """Products of a fit with the features."""
    with limit_threads(1):
        objective = objective_of(X, labels)
        penalties = Penalties(fraction * largest_trace_penalty(objective))
        counted = Counted(objective.design.rows)
        objective.design = Design(counted, objective.design.columns)
        solve_auto(objective, penalties, tol=gap)
    return counted.products


def shape_lines(name: str, X: Any, Y: Any, options: Options) -> list[Line]:
    """liblinear, and the fits to both gaps at every λ."""
    labels = ObservedLabels.from_dense(Y)
    n, d = X.shape
    size = f"{name}: {n:,} x {d:,}, {Y.shape[1]} labels, {labels.n_observed:,} observed"
    prepared = [(part, y) for part, y in rivals.rows_by_label(X, labels) if len(np.unique(y)) == 2]
    jobs: dict[str, Callable[[], Any]] = {"liblinear": partial(rivals.one_by_one, prepared)}
    large = n * d * Y.shape[1] > LARGE
    fractions = FRACTIONS[:2] if large else FRACTIONS
    cases = [(fraction, gap, most) for fraction in fractions for gap, most in GAPS]
    found: dict[str, Fit] = {}

    def keep(what: str, fraction: float, gap: float) -> None:
        found[what] = fit(X, labels, fraction, gap)

    for fraction, gap, _ in cases:
        what = f"gap {gap:g} at {fraction:g} λ_max"
        jobs[what] = partial(keep, what, fraction, gap)
    seconds = take_turns(jobs, 1 if large else options.repeats, warm_up=False)
    alone = seconds["liblinear"]
    lines = [Line("liblinear, all labels", size, alone)]
    for fraction, gap, most in cases:
        what = f"gap {gap:g} at {fraction:g} λ_max"
        ratio, one = seconds[what] / alone, found[what]
        products = products_of(X, labels, fraction, gap)
        note = f"gap {one.relative_gap:.1e}, rank {one.rank}, {one.n_iter} steps, {products} products"
        lines.append(
            Line(what, size, seconds[what], ratio, "x liblinear", f"≤ {most:g}", ratio <= most, note=note)
        )
    return lines


@contextlib.contextmanager
def beside(count: int) -> Iterator[None]:
    """So many other processes that are busy."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def busy_lines(options: Options) -> list[Line]:
    """One fit beside other processes: in one thread and in all, and liblinear."""
    name, fraction, gap = BUSY
    X, Y, _, _ = data.draw(name, 0)
    labels, lines = ObservedLabels.from_dense(Y), []
    prepared = [(part, y) for part, y in rivals.rows_by_label(X, labels) if len(np.unique(y)) == 2]
    idle = 0.0
    for count in (0, 1, 3):
        jobs = {
            "liblinear": partial(rivals.one_by_one, prepared),
            "one thread": partial(fit, X, labels, fraction, gap),
            "all threads": partial(fit, X, labels, fraction, gap, threads=options.threads),
        }
        with beside(count):
            seconds = take_turns(jobs, 3 * options.repeats)
        idle = idle or seconds["one thread"] / seconds["liblinear"]
        for what in ("one thread", "all threads"):
            ratio = seconds[what] / seconds["liblinear"]
            target, met = (f"≤ {SLOWER * idle:.2f}", ratio <= SLOWER * idle) if count else ("", None)
            size = f"{name}, gap {gap:g} at {fraction:g} λ_max"
            told = f"{what}, beside {count} busy processes"
            lines.append(Line(told, size, seconds[what], ratio, "x liblinear", target, met))
    return lines


def run(options: Options) -> Report:
    """Labels from features in all shapes, and ratings of the size of MovieLens-1M."""
    report = Report(
        "certified",
        "Certified fits",
        "Labels from features: fits from W = 0 to a relative duality gap, in one thread, beside liblinear "
        "(C = 1, one label after the other). Products are those with X or Xᵀ. Then the same beside busy "
        f"processes. Ratings: one fit of a Recommender at λ|Ω| = {STRENGTH:g} and "
        f"count_weighting={WEIGHTING:g} to a gap; beside it {EPOCHS} epochs of LightFM (logistic, {RANK} "
        "components). Log-loss of held-out ratings.",
    )
    with warnings.catch_warnings():
        # Some labels, and some items, have one class or none.
        warnings.simplefilter("ignore", LabelgapWarning)
        small = data.make_labels(*MADE["tiny"])
        fit(small[0], ObservedLabels.from_dense(small[1]), 0.1, 1e-3)  # Compiles.
        for name in () if options.quick else REAL:
            try:
                X, Y, _, _ = data.draw(name, 0)
            except FileNotFoundError as error:
                report.remarks.append(f"{name} is left out: {error}")
                continue
            report.lines += shape_lines(name, X, Y, options)
            options.store(report)
        for name, given in MADE.items():
            if options.quick and name != "tiny":
                continue
            report.lines += shape_lines(f"generated, {name}", *data.make_labels(*given), options)
            options.store(report)
        if not options.quick and not report.remarks:
            report.lines += busy_lines(options)
        report.lines += rating_lines(options, report)
    return report


# -- ratings -----------------------------------------------------------------------------------------------

EPOCHS, RANK = 30, 32
# λ|Ω|, about what a default fit chooses at this size, and how the penalty grows with the number of ratings.
STRENGTH, WEIGHTING = 12.0, 0.75
# The relative gap, and the most time for it as a multiple of that of LightFM's epochs.
TARGETS = ((1e-2, 1.0), (1e-3, 1.0))


def rating_lines(options: Options, report: Report) -> list[Line]:
    """One size: that of MovieLens-1M."""
    lines: list[Line] = []
    shape, n = ((600, 400), 30_000) if options.quick else ((6040, 3952), 1_000_000)
    train, held = data.make_ratings(shape, n, n // 10)
    labels = ObservedLabels.from_triplets(train.users, train.items, train.values, shape=shape)
    size = f"{shape[0]:,} x {shape[1]:,}, {n:,} ratings"
    found: dict[str, Any] = {}

    def certified(gap: float) -> None:
        found[f"{gap:g}"] = Recommender(
            trace_penalty=STRENGTH / n,
            ridge_penalty=0.0,
            count_weighting=WEIGHTING,
            threshold="train",
            random_state=0,
            tol=gap,
        ).fit(labels)

    def lightfm() -> None:
        found["lightfm"] = rivals.lightfm(train, rank=RANK, epochs=EPOCHS, threads=options.threads)

    jobs: dict[str, Callable[[], None]] = {f"{gap:g}": partial(certified, gap) for gap, _ in TARGETS}
    absent = rivals.missing("lightfm")
    if absent is None:
        jobs["lightfm"] = lightfm
    else:
        report.remarks.append(absent)
    certified(0.3)  # Compiles.
    seconds = take_turns(jobs, options.repeats, warm_up=False)
    if absent is None:
        loss = log_loss(rivals.lightfm_scores(found["lightfm"], held), held.values)
        note = f"log-loss {loss:.4f}"
        lines.append(Line(f"LightFM, {EPOCHS} epochs", size, seconds["lightfm"], note=note))
    for gap, most in TARGETS:
        model, own = found[f"{gap:g}"], seconds[f"{gap:g}"]
        scores = data.dot_scores(model.user_factors_, model.item_factors_, held)
        loss = log_loss(scores + np.asarray(model.item_intercept_)[held.items], held.values)
        note = f"gap {model.relative_gap_:.1e}, rank {model.rank_}, log-loss {loss:.4f}"
        compared: dict[str, Any] = {}
        if absent is None:
            ratio = own / seconds["lightfm"]
            compared = {"ratio": ratio, "against": f"x {EPOCHS} epochs of LightFM", "target": f"≤ {most:g}"}
            compared["met"] = ratio <= most
        lines.append(Line(f"labelgap to a gap of {gap:g}", size, own, **compared, note=note))
    return lines
