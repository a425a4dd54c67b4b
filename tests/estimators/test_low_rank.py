"""The classifier as a user meets it; what it shares with the other estimators is in test_every_estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from labelgap import LinearFractional, LowRankClassifier, ObservedLabels, best_threshold, get_metric
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import ConvergenceWarning, UninformativeLabelsWarning
from labelgap.thresholds.cross_fit import hold_out_plan
from labelgap.thresholds.sweep import steady_threshold

PROBLEM = make_low_rank_labels(
    n=200, n_labels=12, n_features=6, rank=2, observed=0.4, n_test=300, random_state=1
)
X, Y = PROBLEM.X, PROBLEM.Y_observed
SEEN = ~np.isnan(Y)
FIXED: dict[str, Any] = {"trace_penalty": 0.005, "ridge_penalty": 0.0, "intercept_penalty": 0.0}
TRAIN = {**FIXED, "threshold": "train"}
PENALISED: dict[str, Any] = {"trace_penalty": 0.005, "ridge_penalty": 1e-3, "intercept_penalty": 0.01}


def fit(features: Any = X, **settings: Any) -> LowRankClassifier:
    return LowRankClassifier(**TRAIN | settings).fit(features, Y)


@pytest.fixture(scope="module")
def plain() -> LowRankClassifier:
    return fit()


def test_default_fit_recovers_a_low_rank_truth() -> None:
    # With 200 rows and more it would look at kernels too.
    clf = LowRankClassifier(random_state=0).fit(X[:80], Y[:80])
    assert clf.score(PROBLEM.X_test, PROBLEM.Y_test) > 0.9
    assert clf.duality_gap_ <= clf.tol * clf.objective_
    assert len(clf.candidates_) > 3


def test_attributes_describe_the_model(plain: LowRankClassifier) -> None:
    assert_allclose(plain.coef_, plain.coef_left_ @ plain.coef_right_.T)
    values = np.linalg.svd(plain.coef_, compute_uv=False)
    assert_allclose(values[: plain.rank_], plain.singular_values_, rtol=1e-8)
    assert (plain.coef_left_.shape, plain.coef_right_.shape) == ((6, plain.rank_), (12, plain.rank_))
    assert (plain.trace_penalty_, plain.ridge_penalty_, plain.intercept_penalty_) == (0.005, 0.0, 0.0)
    assert plain.candidates_ == ()
    assert_array_equal(plain.classes_, [0, 1])
    scores = X @ plain.coef_ + plain.intercept_
    assert_allclose(plain.decision_function(X), scores)
    assert_allclose(plain.predict_proba(X), 1 / (1 + np.exp(-scores)))
    assert plain.threshold_probability_ == pytest.approx(1 / (1 + np.exp(-plain.threshold_)))
    assert plain.score(X, Y) == pytest.approx(best_threshold(scores, Y, "micro-f1").value, abs=1e-12)


def test_ridge_alone_is_logistic_regression_per_label() -> None:
    complete = ObservedLabels.from_dense(PROBLEM.Y)
    settings = TRAIN | {"trace_penalty": 0.0, "ridge_penalty": 1 / complete.n_observed, "tol": 1e-7}
    clf = LowRankClassifier(**settings).fit(X, complete)
    for j in range(3):
        reference = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, PROBLEM.Y[:, j])
        assert_allclose(clf.coef_[:, j], reference.coef_[0], rtol=2e-3, atol=2e-3)
        assert clf.intercept_[j] == pytest.approx(reference.intercept_[0], abs=5e-3)


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_objective_is_the_documented_formula_wherever_the_features_lie(shift: float) -> None:
    clf = fit(X + shift, **PENALISED, tol=1e-5)
    margin = (2 * Y[SEEN] - 1) * clf.decision_function(X + shift)[SEEN]
    rate = Y[SEEN].mean()
    expected = (
        np.log1p(np.exp(-margin)).mean()
        + 0.005 * clf.singular_values_.sum()
        + 0.0005 * np.sum(clf.coef_**2)
        + 0.005 * np.sum((clf.intercept_ - np.log(rate / (1 - rate))) ** 2)
    )
    assert clf.objective_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("solver", ["factored", "proximal"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge", "exponential"])
def test_every_loss_and_solver_learns(loss: str, solver: str) -> None:
    clf = LowRankClassifier(loss=loss, solver=solver, **FIXED, random_state=0).fit(X, Y)
    assert clf.score(PROBLEM.X_test, PROBLEM.Y_test) > 0.85
    probabilities = clf.predict_proba(X)
    assert 0 <= probabilities.min() < probabilities.max() <= 1


def test_a_metric_of_ones_own() -> None:
    metric = LinearFractional({"tp": 3}, {"tp": 3, "fp": 1, "fn": 2}, average="macro")
    clf = fit(metric=metric)
    assert clf.score(X, Y) == pytest.approx(metric(Y, clf.predict(X)))


@pytest.mark.parametrize(("how", "n_folds"), [("cross-fit", 5), ("holdout", 1)])
def test_threshold_comes_from_models_that_did_not_see_the_entries(how: str, n_folds: int, plain: Any) -> None:
    clf = LowRankClassifier(**FIXED, threshold=how, random_state=3).fit(X, Y)
    labels = ObservedLabels.from_dense(Y)
    plan = hold_out_plan(labels, how, np.random.RandomState(3), by_row=True)
    assert set(plan[plan >= 0]) == set(range(n_folds))
    scores = np.full(labels.n_observed, np.nan)
    for fold in range(n_folds):
        held = plan == fold
        part = LowRankClassifier(**TRAIN).fit(X, labels.select(~held))
        scores[held] = labels.align(part.decision_function(X))[held]
    held = plan >= 0
    expected = steady_threshold(scores[held], labels.select(held), get_metric("micro-f1"))
    assert clf.threshold_ == pytest.approx(expected, abs=1e-6)
    # The model itself is fitted to everything that is observed, to the same gap from another start.
    assert clf.objective_ == pytest.approx(plain.objective_, rel=2e-3)
    assert_allclose(clf.decision_function(X), plain.decision_function(X), atol=0.1)


def test_bounds_of_the_rank_and_of_the_scores_hold(plain: LowRankClassifier) -> None:
    # Without a warning, which would be an error here.
    clf = fit(trace_penalty=1e-4, rank=1)
    assert (clf.rank_, clf.rank_limited_, plain.rank_limited_) == (1, True, False)
    bound = 0.3 * np.abs(X @ plain.coef_).max()
    bounded = fit(score_bound=bound)
    assert np.abs(X @ bounded.coef_).max() <= bound * (1 + 1e-9)
    assert bounded.objective_ > plain.objective_
    assert bounded.duality_gap_ <= 1e-3 * bounded.objective_


@pytest.mark.parametrize("settings", [PENALISED, FIXED], ids=["penalised", "free"])
def test_the_form_and_origin_of_X_and_an_idle_bound_change_nothing(settings: dict[str, Any]) -> None:
    shifted, options = X + 3.0, {**settings, "tol": 1e-5}
    here = fit(shifted, **options)
    for other in (fit(sp.csr_array(shifted), **options), fit(shifted, **options, score_bound=1e6)):
        assert other.objective_ == pytest.approx(here.objective_, rel=2e-5)
        assert np.abs(other.predict_proba(shifted) - here.predict_proba(shifted)).max() < 0.02
    if settings is FIXED:
        here, there = fit(X + 5.0, tol=1e-6), fit(X + 7.0, tol=1e-6)
        assert_allclose(here.decision_function(X + 5.0), there.decision_function(X + 7.0), atol=1e-6)


def test_a_pipeline_whose_features_happen_to_be_sparse_gives_a_frame_of_decisions() -> None:
    frame = pd.DataFrame({"place": [f"place {row % 30}" for row in range(len(X))], "size": X[:, 0]})
    encode = ColumnTransformer([("place", OneHotEncoder(), ["place"])], remainder="passthrough")
    pipe = make_pipeline(encode, LowRankClassifier(**TRAIN)).fit(frame, Y)
    assert sp.issparse(pipe[0].transform(frame))
    assert pd.DataFrame(pipe.predict(frame)).shape == Y.shape


@pytest.mark.slow  # More than a gigabyte of decisions takes seconds.
def test_decisions_of_more_than_a_gigabyte_are_sparse() -> None:
    labels = sp.coo_array(([1, 0], ([0, 1], [0, 0])), shape=(2, 20_000))
    with pytest.warns(UninformativeLabelsWarning):
        model = LowRankClassifier(**TRAIN).fit(np.array([[1.0], [-1.0]]), ObservedLabels.from_sparse(labels))
    many = np.tile([[1.0], [-1.0]], (30_000, 1))
    assert isinstance(model.predict(many[:100]), np.ndarray)
    found = model.predict(many)
    assert sp.issparse(found)
    assert_array_equal(found[:100].toarray(), model.predict(many[:100]))


def test_what_is_told_during_a_fit(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []
    LowRankClassifier(**TRAIN, tol=1e-5).fit(X, Y, callback=seen.append)
    assert seen[-1].gap <= 1e-5 < seen[0].gap
    assert [p.iteration for p in seen] == sorted(p.iteration for p in seen)
    LowRankClassifier(trace_penalty=0.01, random_state=0, verbose=2).fit(X, Y)
    printed = capsys.readouterr().out
    assert "held-out metric" in printed
    assert "gap" in printed
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of \d"):
        fit(tol=1e-9, max_iter=1)


@pytest.mark.slow
def test_automatic_intercept_penalty_only_where_the_origin_is_the_centre() -> None:
    def penalties_tried(given: Any) -> set[float]:
        candidates = LowRankClassifier(random_state=0).fit(given, Y).candidates_
        return {candidate.penalties.intercept for candidate in candidates}

    assert penalties_tried(X + 3.0) == penalties_tried(sp.csr_array(X + 3.0)) == {0.0}
    assert len(penalties_tried(X - X.mean(axis=0))) > 1
