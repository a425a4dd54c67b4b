"""Fits on Bibtex at 20 % observed against scikit-learn's per-label logistic regression.

Run ``python -m benchmarks.bibtex_fit [--repeats R]`` with ``LABELGAP_DATA`` set. It prints the median time of
the whole default fit (the choice of the penalties, the threshold from out-of-fold scores and the last fit
included), and for several given penalties that of one fit to a relative duality gap of 1e-3, as a multiple
of the median time of one pass of ``LogisticRegression`` (lbfgs, and liblinear) over the labels, on the same
entries in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from labelgap import LowRankClassifier
from labelgap.data import data_folder, load_multilabel
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective.design import Design
from labelgap.objective.features import make_features
from labelgap.objective.problem import ObservedProblem
from labelgap.solvers.path import largest_trace_penalty

LIMIT, DEFAULT_LIMIT = 3.0, 10.0
TOL = 1e-3
# λ as a share of λ_max (where W = 0), and λ₂ as the C of scikit-learn that has the same strength (None: 0).
PENALTIES = ((0.25, None), (0.1, None), (0.1, 10.0), (0.05, None), (0.05, 30.0), (0.03, 30.0), (0.01, 30.0))


def make_problem(seed: int = 0) -> tuple[Any, ObservedLabels]:
    """Training rows of Bibtex scaled to unit length, a fifth of the labels observed."""
    data = load_multilabel("bibtex")
    X = normalize(data.X[data.train]).tocsr()
    Y = data.Y[data.train].toarray()
    mask = np.random.default_rng(seed).random(Y.shape) < 0.2
    return X, ObservedLabels.from_mask(Y, mask)


def per_label_pass(X: Any, labels: ObservedLabels, solver: str) -> None:
    """One LogisticRegression per label with both classes, on the label's observed rows."""
    columns = labels.to_sparse().tocsc()
    for j in range(labels.shape[1]):
        rows = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
        y = columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        if y.min() < y.max():
            LogisticRegression(solver=solver, max_iter=1000).fit(X[rows], y)


def median_seconds(job: Callable[[], object], repeats: int) -> float:
    """Median time of a call after one that does not count."""
    job()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 when a fit exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    if data_folder() is None:
        print("bibtex_fit: skipped, LABELGAP_DATA names no folder with bibtex.npz")
        return 0
    X, labels = make_problem()
    rivals = {
        solver: median_seconds(lambda solver=solver: per_label_pass(X, labels, solver), options.repeats)
        for solver in ("lbfgs", "liblinear")
    }
    for solver, seconds in rivals.items():
        print(f"scikit-learn per label, {solver:<9} {seconds:6.2f} s")
    default = LowRankClassifier(random_state=0)
    seconds = median_seconds(lambda: default.fit(X, labels), options.repeats)
    whole = seconds / rivals["lbfgs"]
    print(
        f"default, all choices included         {seconds:6.2f} s  {whole:5.2f} x lbfgs "
        f"{seconds / rivals['liblinear']:5.2f} x liblinear  (limit {DEFAULT_LIMIT:g})"
    )
    design = Design.of(make_features(X, centre=True), labels.shape[1])
    problem = ObservedProblem(design, get_loss("logistic"), fit_intercept=True)
    largest = largest_trace_penalty(problem.objective(labels))
    worst = 0.0
    for share, C in PENALTIES:
        model = LowRankClassifier(
            trace_penalty=share * largest,
            ridge_penalty=0.0 if C is None else 1 / (C * labels.n_observed),
            intercept_penalty=0.0,
            threshold="train",
            tol=TOL,
        )
        seconds = median_seconds(lambda model=model: model.fit(X, labels), options.repeats)
        worst = max(worst, seconds / rivals["lbfgs"])
        print(
            f"λ = {share:<4} λ_max, λ₂ {'0' if C is None else f'1/({C:g}|Ω|)':<10} {seconds:6.2f} s  "
            f"{seconds / rivals['lbfgs']:5.2f} x lbfgs {seconds / rivals['liblinear']:5.2f} x liblinear  "
            f"rank {model.rank_:3d}  gap {model.duality_gap_ / model.objective_:.1e}"
        )
    print(f"worst {worst:.2f} x lbfgs (limit {LIMIT:g})")
    return int(worst > LIMIT or whole > DEFAULT_LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
