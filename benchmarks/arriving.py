"""A batch of five per cent more rows: ``partial_fit`` against a fit from scratch to the same data.

Both are the default: the fit from scratch chooses all settings, as a user without ``partial_fit`` would have
it do; the batch keeps them and goes on from the fitted model. A third line is a fit from scratch at the same
penalties, without any choice. Data are generated: dense features, and sparse ones of the size of Delicious
cut to fewer labels.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import Line, Options, Report
from labelgap import LowRankClassifier
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import LabelgapWarning
from labelgap.labels import ObservedLabels

# Rows, features, labels, and whether the features are sparse.
SIZES = ((2_000, 30, 40, False), (4_000, 400, 60, True))
QUICK_SIZES = ((200, 5, 6, False),)
MORE, OBSERVED, MOST = 0.05, 0.3, 0.2


def make_data(n: int, d: int, n_labels: int, *, sparse: bool, seed: int = 0) -> tuple[Any, ObservedLabels]:
    """Features, and the labels that are observed of them."""
    if not sparse:
        problem = make_low_rank_labels(
            n=n, n_features=d, n_labels=n_labels, observed=OBSERVED, noise=True, random_state=seed
        )
        return problem.X, ObservedLabels.from_dense(problem.Y_observed)
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=18 / d, rng=rng, format="csr")
    X.data[:] = 1.0
    weights = rng.standard_normal((d, 8)) @ rng.standard_normal((8, n_labels)) / np.sqrt(18)
    scores = X @ weights - 2.0
    Y = rng.random(scores.shape) < 1 / (1 + np.exp(-scores))
    return X, ObservedLabels.from_dense(np.where(rng.random(Y.shape) < OBSERVED, Y, np.nan))


def run(options: Options) -> Report:
    """Each size once for the fits from scratch, and as often as asked for the batch."""
    report = Report(
        "arriving",
        "Five per cent more data: partial_fit against a fit from scratch",
        "A default LowRankClassifier, fitted to the first rows, learns from a batch of 5 % more of them; "
        "beside it, the default fit from scratch to all rows, and one at the same penalties that chooses "
        "nothing. The objective of the batch is compared with the one at the same penalties: both are within "
        "their gaps of the optimum.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        for n, d, n_labels, sparse in QUICK_SIZES if options.quick else SIZES:
            report.lines += _lines(*make_data(n, d, n_labels, sparse=sparse), options)
    return report


def _lines(X: Any, labels: ObservedLabels, options: Options) -> Iterator[Line]:
    n = X.shape[0]
    before = round(n / (1 + MORE))
    kind = "sparse" if sp.issparse(X) else "dense"
    size = f"{n:,} x {X.shape[1]} ({kind}), {labels.shape[1]} labels, {labels.n_observed:,} observed"
    first = LowRankClassifier(random_state=0).partial_fit(X[:before], labels[:before])
    batches = []
    for _ in range(options.repeats):
        model = copy.deepcopy(first)
        began = time.perf_counter()
        model.partial_fit(X[before:], labels[before:])
        batches.append(time.perf_counter() - began)
    seconds = float(np.median(batches))
    began = time.perf_counter()
    LowRankClassifier(random_state=0).fit(X, labels)
    scratch = time.perf_counter() - began
    settings = first._kept_data.features
    began = time.perf_counter()
    same = LowRankClassifier(
        trace_penalty=model.trace_penalty_,
        ridge_penalty=model.ridge_penalty_,
        intercept_penalty=model.intercept_penalty_,
        feature_scaling=settings.scaling,
        label_weighting=model.label_weighting_,
        features="linear" if model.feature_map_ is None else model.feature_map_,
        threshold="train",
        random_state=0,
    ).fit(X, labels)
    alone = time.perf_counter() - began
    apart = abs(model.objective_ - same.objective_) / same.objective_
    yield Line("fit from scratch, default", size, scratch)
    yield Line("fit from scratch at the same penalties", size, alone)
    yield Line(
        "partial_fit of 5 % more",
        size,
        seconds,
        seconds / scratch,
        "x from scratch",
        target=f"≤ {MOST:g}",
        met=seconds <= MOST * scratch,
        note=f"relative gap {model.relative_gap_:.1e}; objectives differ by {apart:.1e} of them",
    )
