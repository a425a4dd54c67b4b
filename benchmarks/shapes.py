"""The whole default on shapes that nobody tuned for, one thing varied at a time, beside a tuned regression.

A line is a generated problem that differs from the base in one thing: features for each row, how full X is,
columns that say the same, labels that can be separated, the number of labels, how much is known and where,
rare labels, groups of rows with traits of their own, the number of rows. ``LowRankClassifier().fit(X, Y)`` is
timed beside one logistic regression per label (C of four by three folds, the threshold from the same scores),
which is written with scikit-learn alone; both decide for the same new rows, whose labels are all known. Where
rows come in groups both are told so, and new rows are of new groups.

The metric is micro-F1; the default should not be below the regression by more than the standard error of the
difference over the draws. It should take no longer than the regression, or 2 seconds where that takes less,
on lines with more than 5,000 known labels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from benchmarks.data import Floats
from benchmarks.gate import f1, tuned_regression
from benchmarks.harness import Line, Options, Report, timed
from labelgap import LowRankClassifier

STRENGTHS = (1.0, 10.0, 100.0, 1e3)
N_NEW, RANK = 1000, 5
DRAWS = 3
# Rows from which on one draw has to do, and known labels from which on time is judged.
LARGE, JUDGED = 5_000, 5_000
LEAST_SECONDS = 2.0


@dataclass(frozen=True)
class Shape:
    """What a problem is like."""

    rows: int = 1_000
    features: int = 100
    labels: int = 30
    known: float = 0.2
    filled: float = 1.0
    """The fraction of X that is not 0; below 1 it is sparse."""
    copies: int = 1
    """Columns that say the same."""
    common: float = 0.0
    """The fraction of the variance of X in ten directions."""
    sharpness: float = 2.0
    """The spread of the log-odds."""
    rate: float = -1.5
    """Their mean."""
    one_positive: int = 0
    """Labels with one known positive."""
    clustered: bool = False
    """Whether rows and labels are known nearly all or hardly at all."""
    groups: int = 0
    """Groups of rows with traits of their own; 0 for none."""


BASE = Shape()
SHAPES = {
    "base": BASE,
    "features: 0.05 of the rows": replace(BASE, features=50),
    "features: 5 times the rows": replace(BASE, features=5_000),
    "features: 20 times the rows, 1 % filled": replace(BASE, features=20_000, filled=0.01),
    "X: CSR, 64 % filled": replace(BASE, filled=0.64),
    "X: CSR, 1 % filled, 2,000 features": replace(BASE, features=2_000, filled=0.01),
    "X: nine tenths of the variance in ten directions": replace(BASE, common=0.9),
    "X: every column four times": replace(BASE, copies=4),
    "labels: separable": replace(BASE, sharpness=50.0),
    "labels: 1": replace(BASE, labels=1, known=1.0),
    "labels: 10": replace(BASE, labels=10),
    "labels: 300": replace(BASE, labels=300),
    "labels: 1,000": replace(BASE, labels=1_000),
    "labels: half of them with one positive": replace(BASE, one_positive=15),
    "known: 0.5 %": replace(BASE, known=0.005, labels=300),
    "known: 2 %": replace(BASE, known=0.02, labels=300),
    "known: all": replace(BASE, known=1.0),
    "known: in clusters of rows and labels": replace(BASE, clustered=True),
    "groups: 50": replace(BASE, groups=50),
    "rows: 100": replace(BASE, rows=100),
    "rows: 10,000": replace(BASE, rows=10_000),
    "rows: 100,000": replace(BASE, rows=100_000, features=50),
    "rows: 1,000,000, 5 labels": replace(BASE, rows=1_000_000, features=20, labels=5),
}
QUICK = ("base", "X: CSR, 64 % filled", "groups: 50", "rows: 100")


@dataclass(frozen=True)
class Drawn:
    """Rows with some labels known (NaN elsewhere) and their groups; new rows with all of them."""

    X: Any
    Y: Floats
    groups: Any
    X_new: Any
    Y_new: Floats


def drawn(shape: Shape, seed: int) -> Drawn:
    """A problem of this shape.

    Examples
    --------
    >>> problem = drawn(Shape(rows=50, labels=3, groups=5), 0)
    >>> problem.X.shape, problem.Y.shape, len(set(problem.groups.tolist())), problem.Y_new.shape
    ((50, 100), (50, 3), 5, (1000, 3))
    """
    rng = np.random.default_rng(seed)
    n, d, L = shape.rows + N_NEW, shape.features, shape.labels
    group = rng.integers(0, max(shape.groups, 1), n)
    # New rows are of groups that nobody has seen.
    group[shape.rows :] += shape.groups
    X: Any
    if shape.filled < 0.5:
        X = sp.random_array((n, d), density=shape.filled, rng=rng, format="csr", dtype=np.float64)
        X.data[:] = 1.0
    else:
        X = rng.standard_normal((n, d // shape.copies))
        if shape.common:
            few = rng.standard_normal((n, 10)) @ rng.standard_normal((10, X.shape[1])) / np.sqrt(10)
            X = np.sqrt(shape.common) * few + np.sqrt(1 - shape.common) * X
        if shape.groups:
            half = X.shape[1] // 2
            X[:, :half] = rng.standard_normal((2 * shape.groups, half))[group]
        X = np.tile(X, shape.copies)
        if shape.filled < 1:
            X = sp.csr_array(np.where(rng.random(X.shape) < shape.filled, X, 0.0))
    Z = (X @ rng.standard_normal((X.shape[1], RANK))) @ rng.standard_normal((RANK, L))
    if shape.groups:
        # Half of what groups are like is in their traits, half of it is not.
        Z = Z / Z.std() + rng.standard_normal((2 * shape.groups, L))[group]
    Z = shape.sharpness * Z / Z.std() + shape.rate + 0.5 * rng.standard_normal(L)
    truth = (rng.random(Z.shape) < expit(Z)).astype(np.float64)
    Y = truth[: shape.rows].copy()
    known = np.full(Y.shape, shape.known)
    if shape.clustered:
        dense = np.outer(rng.random(shape.rows) < 0.5, rng.random(L) < 0.35)
        known = np.where(dense, 0.95, 0.04)
    Y[rng.random(Y.shape) >= known] = np.nan
    for label in range(shape.one_positive):
        positives = np.flatnonzero(Y[:, label] == 1)
        Y[positives[1:], label] = np.nan
    of_row = group[: shape.rows] if shape.groups else None
    return Drawn(X[: shape.rows], Y, of_row, X[shape.rows :], truth[shape.rows :])


def line_of(told: str, shape: Shape, draws: int) -> Line:
    """The default beside the regression on draws of a shape."""
    values, seconds, n_known = [], np.zeros(2), 0
    for seed in range(draws):
        problem = drawn(shape, seed)
        n_known = int((~np.isnan(problem.Y)).sum())
        X, Y, X_new = problem.X, problem.Y, problem.X_new
        groups = {} if problem.groups is None else {"groups": problem.groups}

        def ours(X: Any = X, Y: Floats = Y, X_new: Any = X_new, groups: Any = groups) -> Any:
            model = LowRankClassifier(random_state=0).fit(X, Y, **groups)
            return np.asarray(model.predict(X_new, output="dense") == 1)

        def theirs(X: Any = X, Y: Floats = Y, X_new: Any = X_new, groups: Any = groups) -> Any:
            return tuned_regression(X, Y, X_new, STRENGTHS, **groups)

        found = [timed(job) for job in (ours, theirs)]
        seconds += [took for took, _ in found]
        values.append([f1(decided, problem.Y_new) for _, decided in found])
    mine, rival = np.mean(values, axis=0)
    gains = np.subtract(*np.transpose(values))
    error = gains.std(ddof=1) / np.sqrt(draws) if draws > 1 else 0.01
    good, quick = mine >= rival - error, seconds[0] <= max(seconds[1], draws * LEAST_SECONDS)
    note = f"{mine:.4f} against {rival:.4f}, ± {error:.4f}; {n_known:,} known"
    if not good:
        note += "; metric below"
    return Line(
        *(told, f"{shape.rows:,} x {shape.features:,}, {shape.labels} labels", seconds[0] / draws),
        *(seconds[0] / seconds[1], "x regression", "no worse, no slower"),
        met=bool(good and (quick or n_known <= JUDGED)),
        note=note,
    )


def run(options: Options) -> Report:
    """Each shape, with a line as soon as it is known."""
    report = Report(
        "shapes",
        "Shapes that nobody tuned for",
        "The whole default beside a tuned regression for each label, on generated problems that differ from "
        "the first in one thing; micro-F1 of new rows, mean and standard error of the difference over draws.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Compiles.
        LowRankClassifier(random_state=0).fit(*(lambda p: (p.X, p.Y))(drawn(replace(BASE, rows=100), 9)))
        for told, shape in SHAPES.items():
            if options.quick and told not in QUICK:
                continue
            draws = 1 if options.quick or shape.rows > LARGE or shape.labels > 300 else DRAWS
            line = line_of(told, shape, draws)
            report.lines.append(line)
            options.store(report)
            print(f"{told}: {line.seconds:.2f} s, {line.ratio:.2f} x, {line.note}", flush=True)
    return report
