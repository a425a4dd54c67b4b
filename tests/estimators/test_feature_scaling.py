"""What is done to the columns of X before W is penalised, as a user of the estimators meets it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from labelgap import LowRankClassifier, LowRankRegressor, ObservedLabels, PlugInClassifier, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InvalidParameterError, UnknownNameError
from labelgap.objective import frame
from labelgap.objective.moments import ColumnMoments

PROBLEM = make_low_rank_labels(n=120, n_labels=8, n_features=5, rank=2, observed=0.5, random_state=1)
UNITS = np.array([0.02, 1.0, 30.0, 3.0, 0.5])
# Columns with very different spreads, not centred: no search for an intercept penalty.
X, Y = PROBLEM.X * UNITS + 2.0 * UNITS, PROBLEM.Y_observed
FIXED: dict[str, Any] = {"trace_penalty": 0.005, "ridge_penalty": 1e-4, "intercept_penalty": 0.0}
ESTIMATORS = {
    # Fewer penalties to choose: what they are is not the point here.
    "classifier": LowRankClassifier(
        threshold="train", ridge_penalty=0.0, intercept_penalty=0.0, random_state=0
    ),
    "regressor": LowRankRegressor("bernoulli", ridge_penalty=0.0, intercept_penalty=0.0, random_state=0),
}
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)


def feature_scales(features: Any, scaling: str) -> Any:
    return frame.feature_scales(ColumnMoments.of(features), scaling, is_sparse=sp.issparse(features))


def fitted(estimator: Any, features: Any = X, **settings: Any) -> Any:
    return clone(estimator).set_params(**settings).fit(features, Y[: features.shape[0]])


@every_estimator
def test_it_is_a_parameter_like_any_other(estimator: Any) -> None:
    assert estimator.get_params()["feature_scaling"] == "auto"
    copy = clone(clone(estimator).set_params(feature_scaling="root"))
    assert copy.get_params()["feature_scaling"] == "root"


@every_estimator
@pytest.mark.parametrize("scaling", ["root", "standard"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_scaled_fit_is_a_fit_to_the_scaled_features(estimator: Any, scaling: str, form: Any) -> None:
    scales = feature_scales(form(X), scaling)
    model = fitted(estimator, form(X), **FIXED, feature_scaling=scaling, tol=1e-6)
    by_hand = fitted(estimator, form(X * scales), **FIXED, feature_scaling="none", tol=1e-6)
    assert_allclose(model.feature_scales_, scales)
    assert by_hand.feature_scales_ is None
    # The weights are those of X as given, the penalties are about X as scaled.
    assert_allclose(model.coef_, scales[:, None] * by_hand.coef_, rtol=1e-2, atol=1e-3)
    assert_allclose(model.intercept_, by_hand.intercept_, atol=1e-2)
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=1e-5)
    inner = np.linalg.svd(model.coef_ / scales[:, None], compute_uv=False)
    assert_allclose(inner[: model.rank_], model.singular_values_, rtol=1e-8)
    assert_allclose(model.decision_function(X), X @ model.coef_ + model.intercept_)


@every_estimator
def test_the_objective_is_that_of_the_weights_before_scaling(estimator: Any) -> None:
    model = fitted(estimator, **FIXED, feature_scaling="standard", tol=1e-5)
    seen = ~np.isnan(Y)
    margin = (2 * Y[seen] - 1) * model.decision_function(X)[seen]
    inner = model.coef_ / model.feature_scales_[:, None]
    expected = (
        np.log1p(np.exp(-margin)).mean() + 0.005 * model.singular_values_.sum() + 0.5e-4 * np.sum(inner**2)
    )
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


@every_estimator
@pytest.mark.parametrize(
    "given",
    [{"trace_penalty": 0.005}, {"ridge_penalty": 1e-3}, FIXED, {"trace_penalty": 0.0, "ridge_penalty": 1e-3}],
    ids=lambda given: " ".join(f"{name}={value}" for name, value in given.items()),
)
@pytest.mark.slow
def test_a_penalty_that_was_given_is_about_the_features_that_were_given(estimator: Any, given: Any) -> None:
    settings = {"intercept_penalty": 0.0, **given}
    model = fitted(estimator, **settings)
    assert model.feature_scales_ is None
    plain = fitted(estimator, **settings, feature_scaling="none")
    assert_array_equal(model.coef_, plain.coef_)
    assert model.objective_ == plain.objective_


@every_estimator
@pytest.mark.parametrize(
    "given",
    [
        {"ridge_penalty": "auto"},
        {"ridge_penalty": 0.0},
        {"trace_penalty": 0.0, "ridge_penalty": "auto"},
        {"intercept_penalty": 0.01},
    ],
)
@pytest.mark.slow
def test_automatic_scaling_is_standard_for_dense_and_root_for_sparse_features(
    estimator: Any, given: Any
) -> None:
    dense, sparse = X[:40], sp.csr_array(X[:40])
    assert_allclose(fitted(estimator, dense, **given).feature_scales_, feature_scales(dense, "standard"))
    assert_allclose(fitted(estimator, sparse, **given).feature_scales_, feature_scales(sparse, "root"))


@every_estimator
@pytest.mark.slow
def test_columns_of_alike_spread_are_left_alone(estimator: Any) -> None:
    even = X / X.std(axis=0)
    model = fitted(estimator, even)
    assert model.feature_scales_ is None
    assert_array_equal(model.coef_, fitted(estimator, even, feature_scaling="none").coef_)


@every_estimator
@pytest.mark.slow
def test_the_units_of_a_dense_column_do_not_matter(estimator: Any) -> None:
    units = np.array([1.0, 1.0, 1024.0, 1.0, 1.0])
    # Another unit is another common factor of all scales, so the fits agree up to their tolerance.
    here, there = fitted(estimator, tol=1e-7), fitted(estimator, X * units, tol=1e-7)
    assert len(there.candidates_) == len(here.candidates_)
    assert_allclose(there.decision_function(X * units), here.decision_function(X), atol=1e-3)
    assert_allclose(units[:, None] * there.coef_, here.coef_, rtol=1e-2, atol=1e-3)
    assert there.score(X * units, Y) == pytest.approx(here.score(X, Y), abs=1e-4)


@pytest.mark.slow
def test_decisions_do_not_depend_on_units_either() -> None:
    units = np.array([1.0, 1.0, 1.0, 1.0, 1024.0])
    here = LowRankClassifier(random_state=0).fit(X, Y)
    there = LowRankClassifier(random_state=0).fit(X * units, Y)
    # The threshold comes from fits to a gap of a hundredth.
    assert there.threshold_ == pytest.approx(here.threshold_, abs=5e-3)
    assert np.mean(there.predict(X * units) == here.predict(X)) > 0.99


@pytest.mark.slow
def test_a_constant_and_an_empty_column_do_no_harm() -> None:
    wide = np.hstack([X, np.full((len(X), 1), 7.0), np.zeros((len(X), 1))])
    for features in (wide[:40], sp.csr_array(wide[:40])):
        model = clone(ESTIMATORS["classifier"]).fit(features, Y[:40])
        assert model.feature_scales_ is not None
        assert np.isfinite(model.coef_).all()
        # Weights of nothing.
        assert_allclose(model.coef_[6], 0.0, atol=1e-12)


def test_penalised_scores_know_no_scales() -> None:
    settings: dict[str, Any] = {"penalty": "scores", "threshold": "train", "random_state": 0}
    for scaling in ("root", "standard"):
        with pytest.raises(InvalidParameterError, match=f"feature_scaling='{scaling}' has no effect"):
            LowRankClassifier(**settings, feature_scaling=scaling).fit(X, Y)
    for scaling in ("auto", "none"):
        model = LowRankClassifier(**settings, **FIXED, feature_scaling=scaling).fit(X, Y)
        assert model.feature_scales_ is None


@every_estimator
def test_an_unknown_scaling_is_named_with_the_known_ones(estimator: Any) -> None:
    with pytest.raises(UnknownNameError, match=r"minmax.*standard"):
        fitted(estimator, feature_scaling="minmax")


def test_a_recommender_takes_the_features_of_its_users_as_they_are() -> None:
    assert "feature_scaling" not in Recommender().get_params()


def test_only_positives_are_fitted_to_scaled_features_too() -> None:
    positives = sp.csr_array(np.nan_to_num(Y))
    positives.eliminate_zeros()
    common: dict[str, Any] = {
        "unobserved": "unlabelled", "loss": "squared", "flip_rate": 0.4, "threshold": "train",
        "trace_penalty": 0.005, "ridge_penalty": 0.0, "intercept_penalty": 0.0, "tol": 1e-6,
    }  # fmt: skip
    scales = feature_scales(X, "standard")
    model = LowRankClassifier(**common, feature_scaling="standard").fit(X, positives)
    by_hand = LowRankClassifier(**common, feature_scaling="none").fit(X * scales, positives)
    assert_allclose(model.decision_function(X), by_hand.decision_function(X * scales), atol=1e-2)
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=1e-5)


@pytest.mark.slow
def test_without_features_nothing_is_scaled() -> None:
    model = LowRankRegressor(random_state=0).fit(X, Y)
    assert model.feature_scales_ is not None
    assert model.fit(None, Y).feature_scales_ is None


@pytest.mark.parametrize("value", [5e-324, 1e-310])
@pytest.mark.parametrize("kind", ["some", "random", "constant"])
def test_a_column_of_the_smallest_numbers_is_constant(value: float, kind: str) -> None:
    rng = np.random.default_rng(0)
    base = rng.standard_normal((40, 3))
    labels = (base @ rng.standard_normal((3, 4)) + rng.standard_normal((40, 4)) > 0).astype(float)
    column = {
        "some": np.where(np.arange(40) % 3, 0.0, value),
        "random": value * rng.random(40),
        "constant": np.full(40, value),
    }[kind]
    tiny = np.column_stack([base, column])
    fixed: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 0.01, "random_state": 0, "tol": 1e-7}

    def scores(X: Any, scaling: str) -> Any:
        model = LowRankClassifier(features="linear", feature_scaling=scaling, threshold="train", **fixed)
        return model.fit(X, labels).decision_function(X)

    for form, scaling in itertools.product((np.asarray, sp.csr_array), ("auto", "none", "root", "standard")):
        np.testing.assert_allclose(scores(form(tiny), scaling), scores(form(base), scaling), atol=1e-5)
    for form in (np.asarray, sp.csr_array):
        fitted = LowRankRegressor("gaussian", feature_scaling="standard", **fixed).fit(form(tiny), labels)
        assert np.isfinite(fitted.predict(form(tiny))).all()
        plain = PlugInClassifier(threshold="train", random_state=0).fit(form(tiny), labels)
        assert np.isfinite(plain.predict_proba(form(tiny))).all()
    nystroem = LowRankClassifier(features="rbf", threshold="train", **fixed | {"tol": 1e-3}).fit(tiny, labels)
    assert np.isfinite(nystroem.decision_function(tiny)).all()
    users = {number: tiny[number] for number in range(40)}
    likes = ObservedLabels.from_dense(labels)
    model = Recommender(trace_penalty=0.01, threshold="train", random_state=0)
    assert np.isfinite(model.fit(likes, user_features=users).user_factors_).all()
