"""The shortest round through the library: every estimator and solver fits, decides, is saved and read.

It needs the core dependencies alone, so `make test-lowest` runs it with their lowest versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelgap import (
    Budget,
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
    best_threshold,
    get_metric,
    load,
)
from labelgap.data import make_low_rank_labels
from labelgap.solvers import SOLVERS

PROBLEM = make_low_rank_labels(
    n=80, n_labels=6, n_features=5, rank=2, observed=0.5, n_test=60, random_state=0
)
X, Y, X_TEST, Y_TEST = PROBLEM.X, PROBLEM.Y_observed, PROBLEM.X_test, PROBLEM.Y_test
FIXED: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 0.01, "random_state": 0}
USERS, ITEMS = np.nonzero(np.isfinite(Y))
RATINGS = ([f"user {i}" for i in USERS], [f"item {j}" for j in ITEMS], Y[USERS, ITEMS])
RECORDED = np.nan_to_num(Y)

FITS: dict[str, Any] = {
    "classifier": lambda: LowRankClassifier(**FIXED).fit(X, Y),
    "classifier, all chosen": lambda: LowRankClassifier(random_state=0).fit(X, Y),
    "classifier, squared hinge": lambda: LowRankClassifier(loss="squared_hinge", **FIXED).fit(X, Y),
    "classifier, silence": lambda: LowRankClassifier(
        unobserved="unlabelled", flip_rate=0.5, threshold="train", **FIXED
    ).fit(X, RECORDED),
    "classifier, sparse": lambda: LowRankClassifier(unobserved="negative", **FIXED).fit(
        sp.csr_array(X), sp.csr_array(PROBLEM.Y)
    ),
    "classifier, in batches": lambda: (
        LowRankClassifier(**FIXED).partial_fit(X[:50], Y[:50]).partial_fit(X[50:], Y[50:])
    ),
    "regressor": lambda: LowRankRegressor("poisson", **FIXED).fit(X, Y),
    "plug-in": lambda: PlugInClassifier(random_state=0, thresholds="auto").fit(X, Y),
    "threshold": lambda: MetricThreshold(LogisticRegression(), calibration="sigmoid", random_state=0).fit(
        X, Y
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_estimators_fit_decide_and_are_read_again(name: str, tmp_path: Path) -> None:
    model = FITS[name]()
    if hasattr(model, "duality_gap_"):
        assert model.relative_gap_ <= model.tol
        if "silence" not in name:
            # Of recorded positives losses of both signs cancel, and the gap is relative to their sizes.
            assert model.duality_gap_ <= model.tol * abs(model.objective_)
    dense = {} if name == "regressor" else {"output": "dense"}
    scores, decisions = model.decision_function(X_TEST), model.predict(X_TEST, **dense)
    assert scores.shape == Y_TEST.shape
    assert np.isfinite(scores).all()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.decision_function(X_TEST), scores)
    assert_array_equal(again.predict(X_TEST, **dense), decisions)
    if dense:
        assert set(np.unique(decisions)) <= {0, 1}
        assert model.score(X_TEST, Y_TEST, unobserved="missing") == get_metric("micro-f1")(Y_TEST, decisions)
        assert (model.predict(X_TEST, budget=Budget(per_row=1)).sum(axis=1) <= 1).all()


@pytest.mark.parametrize("unobserved", ["missing", "negative", "unlabelled"])
def test_a_recommender(unobserved: str, tmp_path: Path) -> None:
    settings = {"flip_rate": 0.5} if unobserved == "unlabelled" else {}
    liked = tuple(np.asarray(part)[RATINGS[2] == 1].tolist() for part in RATINGS[:2])
    given = RATINGS if unobserved == "missing" else liked
    model = Recommender(unobserved=unobserved, trace_penalty=0.02, random_state=0, **settings).fit(given)
    lists = model.recommend_batch(n=2)
    model.save(tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").recommend_batch(n=2).scores, lists.scores)
    assert_allclose(
        lists.scores[0],
        model.decision_function([model.user_ids_[0]] * len(lists.items[0]), list(lists.items[0])),
    )


def test_solvers_reach_the_same_minimum() -> None:
    found = [
        LowRankClassifier(solver=name, tol=1e-5, threshold="train", **FIXED).fit(X, Y) for name in SOLVERS
    ]
    for fit in found:
        assert fit.duality_gap_ <= 1e-5 * fit.objective_
        assert_allclose(fit.objective_, found[0].objective_, rtol=2e-5)


def test_a_threshold_is_the_best_of_all() -> None:
    rng = np.random.RandomState(0)
    scores, labels = rng.standard_normal((30, 4)).round(1), ObservedLabels.from_dense(Y[:30, :4])
    for name in ("micro-f1", "macro-jaccard", "instance-f2", "micro-balanced-accuracy"):
        metric, best = get_metric(name), best_threshold(scores, labels, name)
        cuts = np.append(np.unique(scores), np.inf)
        assert_allclose(best.value, max(metric(labels, scores >= cut) for cut in cuts), err_msg=name)


def test_inside_pipelines_and_searches() -> None:
    pipeline = make_pipeline(StandardScaler(), LowRankClassifier(threshold="train", **FIXED))
    search = GridSearchCV(pipeline, {"lowrankclassifier__trace_penalty": [0.01, 0.1]}, cv=2).fit(X, Y)
    assert search.predict(X_TEST).shape == Y_TEST.shape
