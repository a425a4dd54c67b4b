"""What ``objective_`` counts, and fits at the edge of floating point."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from labelgap import LowRankClassifier, Recommender
from labelgap.exceptions import ConvergenceWarning, InvalidParameterError, TrivialDecisionsWarning
from labelgap.solvers import RIVALS, SOLVERS

FIXED: dict[str, Any] = {
    "trace_penalty": 0.01,
    "ridge_penalty": 0.02,
    "threshold": "train",
    "random_state": 0,
}


def rows_and_labels(n: int = 60, d: int = 3, n_labels: int = 4, hidden: float = 0.4, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, n_labels)) > 0).astype(float)
    Y[rng.random(Y.shape) < hidden] = np.nan
    return X, Y


@pytest.mark.parametrize("intercept_penalty", [0.0, 0.1])
def test_objective_leaves_out_one_class_labels_with_a_free_intercept(intercept_penalty: float) -> None:
    for seed in range(3):
        X, Y = rows_and_labels(n=12, hidden=0.2, seed=seed)
        Y[:, [1, 3]] = np.where(np.isnan(Y[:, [1, 3]]), np.nan, [1.0, 0.0])
        Y[:2, [0, 2]] = [[0, 1], [1, 0]]
        model = LowRankClassifier(intercept_penalty=intercept_penalty, feature_scaling="none", **FIXED)
        model.fit(X, Y)
        signs, seen = 2 * np.nan_to_num(Y) - 1, ~np.isnan(Y)
        losses = np.where(seen, np.logaddexp(0, -signs * model.decision_function(X)), 0.0)
        singular = np.linalg.svd(model.coef_left_ @ model.coef_right_.T, compute_uv=False)
        kept = [0, 2] if intercept_penalty == 0 else [0, 1, 2, 3]
        expected = losses[:, kept].sum() / seen.sum() + 0.01 * singular.sum() + 0.01 * (singular**2).sum()
        if intercept_penalty:
            # The penalty is about the distance from what all labels have in common.
            assert model.objective_ > expected - 1e-12
        else:
            assert_allclose(model.objective_, expected, rtol=1e-9)
            assert losses[:, [1, 3]].sum() > 0


@pytest.mark.parametrize("solver", ["auto", "factored", "proximal"])
def test_the_exponential_loss_with_a_bound_that_bounds_nothing(solver: str) -> None:
    X, Y = np.array([[1.0, -2.0, 0.5], [0.3, 1.0, -1.0]]), np.array([[1.0, 0, 1], [0, 1, 0]])
    settings = {"loss": "exponential", "score_bound": 1e6, "solver": solver, "intercept_penalty": 0.0} | FIXED
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LowRankClassifier(**settings).fit(X, Y)
    free = LowRankClassifier(**(settings | {"score_bound": None})).fit(X, Y)
    assert model.relative_gap_ <= model.tol
    assert_allclose(model.objective_, free.objective_, rtol=1e-2)


def test_the_exponential_loss_of_recorded_positives_needs_a_bound_that_can_be_computed() -> None:
    settings = {"loss": "exponential", "unobserved": "unlabelled", "flip_rate": 0.3} | FIXED
    with pytest.raises(InvalidParameterError, match=r"score_bound=1e\+06 is too large for the exponential"):
        LowRankClassifier(score_bound=1e6, **settings).fit(np.eye(2, 3), np.eye(2))
    with pytest.raises(InvalidParameterError, match="give at most 300"):
        Recommender(score_bound=301.0, **settings).fit(([0, 1], [0, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LowRankClassifier(score_bound=20.0, max_iter=20, **settings).fit(np.eye(2, 3), np.eye(2))
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("features", ["auto", "rbf"])
def test_constant_features_are_no_signal_whatever_their_rounding(features: str) -> None:
    X, Y = rows_and_labels()
    cases = {
        "one": np.ones((60, 1)),
        "one tenth": np.full((60, 1), 0.1),
        "a row": np.tile(X[0], (60, 1)),
        "rounding": np.where(X[:, :1] > 0, 0.3, 0.1 + 0.2),
    }
    for case, same in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", TrivialDecisionsWarning)
            model = LowRankClassifier(features=features, random_state=0).fit(same, Y)
        scores = model.decision_function(same)
        assert np.ptp(scores, axis=0).max() <= 1e-12, case
        if case == "one":
            exact, expected = model, scores
        assert_allclose(model.trace_penalty_, exact.trace_penalty_, err_msg=case)
        assert_allclose(scores, expected, err_msg=case)


SLOW_UNITS = [pytest.param({}, unit, marks=pytest.mark.slow) for unit in (1e-20, 1e-60, 1e-99)]


@pytest.mark.parametrize(("given", "unit"), [({"threshold": "holdout"}, 1e-99), *SLOW_UNITS])
def test_the_unit_of_small_features_does_not_matter(given: dict[str, Any], unit: float) -> None:
    X, Y = rows_and_labels()
    plain = LowRankClassifier(features="linear", random_state=0, **given)
    model = clone(plain).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = clone(plain).fit(X * unit, Y)
    assert_allclose(small.decision_function(X * unit), model.decision_function(X), rtol=0.05)
    assert_array_equal(small.predict(X * unit), model.predict(X))


@pytest.mark.parametrize("solver", [*SOLVERS, *RIVALS])
@pytest.mark.parametrize("unobserved", ["missing", "unlabelled"])
@pytest.mark.parametrize(("loss", "max_iter"), [("exponential", 150), ("exponential", 3), ("logistic", 20)])
def test_a_bounded_fit_is_never_worse_than_one_without_features(
    solver: str, unobserved: str, loss: str, max_iter: int
) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 12))
    Y = (X @ rng.standard_normal((12, 9)) + rng.standard_normal((60, 9)) > 0).astype(float)
    Y[rng.random(Y.shape) > 0.4] = 0.0 if unobserved == "unlabelled" else np.nan
    settings: dict[str, Any] = FIXED | {
        "unobserved": unobserved,
        "flip_rate": 0.4 if unobserved == "unlabelled" else "estimate",
        "loss": loss,
        "score_bound": 1.0,
        "ridge_penalty": 1e-12,
        "intercept_penalty": 0.0,
        "features": "linear",
    }
    nothing = LowRankClassifier(**settings | {"trace_penalty": 1e15}).fit(X, Y)
    assert nothing.rank_ == 0
    settings |= {"solver": solver, "max_iter": max_iter, "trace_penalty": 1e-12}
    if solver in RIVALS:
        settings |= {"rank": 9, "max_iter": min(max_iter, 10)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LowRankClassifier(**settings).fit(1e12 * X, Y)
    assert model.objective_ <= nothing.objective_ * (1 + 1e-12)
    last = model.history_[-1]
    assert (last.objective, last.gap, last.rank) == (model.objective_, model.relative_gap_, model.rank_)
    if unobserved == "missing":
        margins = (2 * np.nan_to_num(Y) - 1) * model.decision_function(1e12 * X)
        losses = np.logaddexp(0, -margins) if loss == "logistic" else np.exp(-margins)
        penalty = 1e-12 * (model.singular_values_.sum() + 0.5 * np.sum(model.singular_values_**2))
        assert_allclose(model.objective_, losses[~np.isnan(Y)].mean() + penalty, rtol=1e-6)
