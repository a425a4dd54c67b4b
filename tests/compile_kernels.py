"""Compile what many tests need, once, in two processes that compile different things.

``python -m tests.compile_kernels`` runs before the tests. numba keeps what it compiles, so two processes that
begin with cold caches would otherwise both compile the kernels that most tests call. What is missing here is
compiled when a test calls it.
"""

from __future__ import annotations

import multiprocessing
import warnings

import numpy as np
import scipy.sparse as sp

RNG = np.random.RandomState(0)
X = RNG.standard_normal((40, 5))
FULL = (X @ RNG.standard_normal((5, 6)) + RNG.standard_normal((40, 6)) > 0).astype(float)
GAPS = np.where(RNG.uniform(size=FULL.shape) < 0.6, FULL, np.nan)


def fits() -> None:
    """Losses, families and silence."""
    from labelgap import LowRankClassifier, LowRankRegressor

    fixed = {"trace_penalty": 0.01, "ridge_penalty": 0.01, "random_state": 0}
    for rows in (X, sp.csr_array(X)):
        LowRankClassifier(**fixed).fit(rows, GAPS).predict(rows)
    for loss in ("squared", "squared_hinge", "exponential"):
        LowRankClassifier(loss=loss, threshold="train", **fixed).fit(X, GAPS)
    for loss in ("logistic", "squared"):
        silent = LowRankClassifier(
            loss=loss, unobserved="unlabelled", flip_rate=0.2, threshold="train", **fixed
        )
        silent.fit(X, FULL).predict(X)
    LowRankClassifier(unobserved="negative", threshold="train", **fixed).fit(sp.csr_array(X), FULL)
    for family in ("gaussian", "poisson", "bernoulli"):
        LowRankRegressor(family, **fixed).fit(X, GAPS)


def decisions_and_lists() -> None:
    """Thresholds, budgets, lists, and what chooses them."""
    from labelgap import Budget, MetricThreshold, ObservedLabels, Recommender, best_threshold

    scores = FULL + RNG.standard_normal(FULL.shape)
    labels = ObservedLabels.from_dense(GAPS)
    weighted = labels.with_weights(RNG.uniform(0.5, 2, labels.n_observed))
    for metric in ("micro-f1", "macro-f1", "instance-f1", "micro-balanced-accuracy"):
        for given in (labels, weighted):
            best_threshold(scores, given, metric)
        MetricThreshold(metric=metric, thresholds="per-label").fit(scores, labels)
    many = RNG.standard_normal((400, 200))
    best_threshold(many, (many + RNG.standard_normal(many.shape) > 0).astype(float), "micro-f1")
    probabilities = MetricThreshold(calibration="sigmoid").fit(scores, labels)
    probabilities.predict(scores, budget=Budget(per_row=2))
    probabilities.predict_topk(scores, k=2)
    users, items = np.nonzero(np.isfinite(GAPS))
    for given, settings in (
        ((users, items, GAPS[users, items]), {}),
        ((users, items), {"unobserved": "unlabelled", "flip_rate": 0.2}),
        ((users, items), {"unobserved": "negative"}),
    ):
        model = Recommender(trace_penalty=0.02, threshold="train", random_state=0, **settings).fit(given)
        model.recommend_batch(n=2)
    model.recommend(users[0], n=2, diversity=0.5)


def compile_in_process(which: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (fits, decisions_and_lists)[which]()


if __name__ == "__main__":
    processes = [
        multiprocessing.get_context("spawn").Process(target=compile_in_process, args=(at,)) for at in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    raise SystemExit(max(abs(process.exitcode or 0) for process in processes))
