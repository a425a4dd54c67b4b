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

PROBLEM = make_low_rank_labels(n=120, n_labels=8, n_features=5, rank=2, observed=0.5, random_state=1)
UNITS = np.array([0.02, 1.0, 30.0, 3.0, 0.5])
# Columns with very different spreads, not centred: no search for an intercept penalty.
X, Y = PROBLEM.X * UNITS + 2.0 * UNITS, PROBLEM.Y_observed
FIXED: dict[str, Any] = {"trace_penalty": 0.005, "ridge_penalty": 1e-4, "intercept_penalty": 0.0}
# Fewer penalties to choose: what they are is not the point here.
FEW: dict[str, Any] = {"ridge_penalty": 0.0, "intercept_penalty": 0.0, "random_state": 0}
ESTIMATORS = {
    "classifier": LowRankClassifier(threshold="train", **FEW),
    "regressor": LowRankRegressor("bernoulli", **FEW),
}
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)


def feature_scales(features: Any, scaling: str) -> Any:
    """The quadratic mean of the spreads, divided by each; the root of it under "root"."""
    if sp.issparse(features):
        spreads = np.sqrt(np.mean(features.toarray() ** 2, axis=0))
    else:
        spreads = features.std(axis=0)
    ratios = np.sqrt(np.mean(spreads**2)) / spreads
    return ratios if scaling == "standard" else np.sqrt(ratios)


def fitted(estimator: Any, features: Any = X, **settings: Any) -> Any:
    return clone(estimator).set_params(**settings).fit(features, Y[: features.shape[0]])


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
    inner = model.coef_ / scales[:, None]
    singular = np.linalg.svd(inner, compute_uv=False)
    assert_allclose(singular[: model.rank_], model.singular_values_, rtol=1e-8)
    scores = model.decision_function(X)
    assert_allclose(scores, X @ model.coef_ + model.intercept_)
    seen = ~np.isnan(Y)
    data_term = np.log1p(np.exp(-((2 * Y[seen] - 1) * scores[seen]))).mean()
    expected = data_term + 0.005 * model.singular_values_.sum() + 0.5e-4 * np.sum(inner**2)
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


@every_estimator
@pytest.mark.slow
def test_a_penalty_that_was_given_is_about_the_features_that_were_given(estimator: Any) -> None:
    for given in (
        {"trace_penalty": 0.005},
        {"ridge_penalty": 1e-3},
        FIXED,
        {"trace_penalty": 0.0, "ridge_penalty": 1e-3},
    ):
        model = fitted(estimator, **given)
        assert model.feature_scales_ is None, given
        plain = fitted(estimator, **given, feature_scaling="none")
        assert_array_equal(model.coef_, plain.coef_)
        assert model.objective_ == plain.objective_, given


@every_estimator
@pytest.mark.slow
def test_automatic_scaling_is_standard_for_dense_and_root_for_sparse_features(estimator: Any) -> None:
    dense, sparse = X[:40], sp.csr_array(X[:40])
    for given in (
        {"ridge_penalty": "auto"},
        {"ridge_penalty": 0.0},
        {"trace_penalty": 0.0, "ridge_penalty": "auto"},
        {"intercept_penalty": 0.01},
    ):
        assert_allclose(fitted(estimator, dense, **given).feature_scales_, feature_scales(dense, "standard"))
        assert_allclose(fitted(estimator, sparse, **given).feature_scales_, feature_scales(sparse, "root"))
    # Columns of alike spread are left alone, and without features there is nothing to scale.
    even = X / X.std(axis=0)
    model = fitted(estimator, even)
    assert model.feature_scales_ is None
    assert_array_equal(model.coef_, fitted(estimator, even, feature_scaling="none").coef_)
    if isinstance(estimator, LowRankRegressor):
        assert fitted(estimator).fit(None, Y).feature_scales_ is None


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
    if isinstance(estimator, LowRankClassifier):
        here, there = (LowRankClassifier(random_state=0).fit(rows, Y) for rows in (X, X * units))
        # The threshold comes from fits to a gap of a hundredth.
        assert there.threshold_ == pytest.approx(here.threshold_, abs=5e-3)
        assert np.mean(there.predict(X * units) == here.predict(X)) > 0.99


@pytest.mark.slow
def test_a_constant_and_an_empty_column_do_no_harm() -> None:
    wide = np.hstack([X, np.full((len(X), 1), 7.0), np.zeros((len(X), 1))])
    for features in (wide[:40], sp.csr_array(wide[:40])):
        model = fitted(ESTIMATORS["classifier"], features)
        assert model.feature_scales_ is not None
        assert np.isfinite(model.coef_).all()
        # Weights of nothing.
        assert_allclose(model.coef_[6], 0.0, atol=1e-12)


def test_where_no_scales_are_known() -> None:
    settings: dict[str, Any] = {"penalty": "scores", "threshold": "train", "random_state": 0}
    for scaling in ("root", "standard"):
        with pytest.raises(InvalidParameterError, match=f"feature_scaling='{scaling}' has no effect"):
            LowRankClassifier(**settings, feature_scaling=scaling).fit(X, Y)
    for scaling in ("auto", "none"):
        model = LowRankClassifier(**settings, **FIXED, feature_scaling=scaling).fit(X, Y)
        assert model.feature_scales_ is None
    for estimator in ESTIMATORS.values():
        assert estimator.get_params()["feature_scaling"] == "auto"
        with pytest.raises(UnknownNameError, match=r"minmax.*standard"):
            fitted(estimator, feature_scaling="minmax")
    # Features of users are taken as they are.
    assert "feature_scaling" not in Recommender().get_params()


def test_only_positives_are_fitted_to_scaled_features_too() -> None:
    positives = sp.csr_array(np.nan_to_num(Y))
    positives.eliminate_zeros()
    common = FEW | {
        "unobserved": "unlabelled", "loss": "squared", "flip_rate": 0.4, "threshold": "train",
        "trace_penalty": 0.005, "tol": 1e-6,
    }  # fmt: skip
    scales = feature_scales(X, "standard")
    model = LowRankClassifier(**common, feature_scaling="standard").fit(X, positives)
    by_hand = LowRankClassifier(**common, feature_scaling="none").fit(X * scales, positives)
    assert_allclose(model.decision_function(X), by_hand.decision_function(X * scales), atol=1e-2)
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=1e-5)


@pytest.mark.parametrize("value", [5e-324, 1e-310])
def test_a_column_of_the_smallest_numbers_is_constant(value: float) -> None:
    rng = np.random.default_rng(0)
    base = rng.standard_normal((40, 3))
    labels = (base @ rng.standard_normal((3, 4)) + rng.standard_normal((40, 4)) > 0).astype(float)
    fixed: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 0.01, "random_state": 0, "tol": 1e-7}

    def scores(X: Any, scaling: str) -> Any:
        model = LowRankClassifier(features="linear", feature_scaling=scaling, threshold="train", **fixed)
        return model.fit(X, labels).decision_function(X)

    settings = list(itertools.product((np.asarray, sp.csr_array), ("auto", "none", "root", "standard")))
    expected = [scores(form(base), scaling) for form, scaling in settings]
    columns = np.where(np.arange(40) % 3, 0.0, value), value * rng.random(40), np.full(40, value)
    for column in columns:
        tiny = np.column_stack([base, column])
        for (form, scaling), one in zip(settings, expected, strict=True):
            assert_allclose(scores(form(tiny), scaling), one, atol=1e-5, err_msg=f"{form} {scaling}")
        for form in (np.asarray, sp.csr_array):
            model = LowRankRegressor("gaussian", feature_scaling="standard", **fixed).fit(form(tiny), labels)
            assert np.isfinite(model.predict(form(tiny))).all()
            plain = PlugInClassifier(threshold="train", random_state=0).fit(form(tiny), labels)
            assert np.isfinite(plain.predict_proba(form(tiny))).all()
        kernels = LowRankClassifier(features="rbf", threshold="train", **fixed | {"tol": 1e-3})
        assert np.isfinite(kernels.fit(tiny, labels).decision_function(tiny)).all()
        users = {number: tiny[number] for number in range(40)}
        films = Recommender(trace_penalty=0.01, threshold="train", random_state=0)
        films.fit(ObservedLabels.from_dense(labels), user_features=users)
        assert np.isfinite(films.user_factors_).all()
