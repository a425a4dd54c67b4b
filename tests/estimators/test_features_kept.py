"""How the numbers of X are kept inside a fit is a matter of time: no answer depends on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from labelgap import LowRankClassifier

FIXED: dict[str, Any] = {
    "trace_penalty": 0.01,
    "ridge_penalty": 0.01,
    "intercept_penalty": 0.0,
    "threshold": "train",
    "tol": 1e-7,
}
# Rows, features, and how many of the numbers are not 0.
SHAPES = ((60, 20, 0.15), (60, 20, 0.7), (120, 130, 0.1), (30, 40, 0.7))
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"intercept_penalty": 0.05},
    {"fit_intercept": False},
    {"penalty": "scores"},
)


def problem(n: int, d: int, density: float) -> tuple[Any, Any]:
    """Features with two equal columns, one of zeros and one constant, and labels with gaps."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < density, rng.standard_normal((n, d)) + 0.5, 0.0)
    X *= np.geomspace(0.5, 2.0, d)
    X[:, 3], X[:, 5], X[:, 7] = X[:, 4], 0.0, 1.0
    Y = (X @ rng.standard_normal((d, 5)) / np.sqrt(d * density) + rng.standard_normal((n, 5)) > 0).astype(
        float
    )
    return X, np.where(rng.random(Y.shape) < 0.6, Y, np.nan)


def same_fit(one: Any, other: Any, X: Any) -> None:
    assert one.objective_ == pytest.approx(other.objective_, rel=2e-7)
    assert_allclose(one.coef_, other.coef_, atol=5e-3)
    assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_fit_is_the_same_to_dense_and_to_sparse_features(
    shape: tuple[int, int, float], settings: dict[str, Any]
) -> None:
    X, Y = problem(*shape)
    given = {**FIXED, "feature_scaling": "auto" if settings.get("penalty") else "none", **settings}
    dense, sparse = (LowRankClassifier(**given).fit(form(X), Y) for form in (np.asarray, sp.csr_array))
    same_fit(dense, sparse, X)
    assert_allclose(sparse.decision_function(sp.csr_array(X)), X @ sparse.coef_ + sparse.intercept_)
    # The equal columns have equal weights, and nothing hangs on zeros.
    for model in (dense, sparse):
        assert_allclose(model.coef_[3], model.coef_[4], atol=5e-3)
        assert_allclose(model.coef_[5], 0.0, atol=1e-12)


@pytest.mark.parametrize("scaling", ["root", "standard"])
def test_zeros_do_not_change_how_dense_features_are_scaled(scaling: str) -> None:
    X, Y = problem(*SHAPES[0])
    spreads = X.std(axis=0)
    ratios = np.sqrt(np.mean(spreads[spreads > 0] ** 2)) / np.where(spreads > 0, spreads, np.inf)
    scales = np.where(spreads > 0, ratios if scaling == "standard" else np.sqrt(ratios), 1.0)
    model = LowRankClassifier(**FIXED, feature_scaling=scaling).fit(X, Y)
    assert_allclose(model.feature_scales_, scales)
    by_hand = LowRankClassifier(**FIXED, feature_scaling="none").fit(X * scales, Y)
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=2e-7)
    assert_allclose(model.coef_, scales[:, None] * by_hand.coef_, atol=5e-3)


def test_tensors_know_the_same_optimum() -> None:
    pytest.importorskip("torch", reason="no torch here")
    for shape, form in ((SHAPES[0], np.asarray), (SHAPES[1], sp.csr_array)):
        X, Y = problem(*shape)
        fits = (
            LowRankClassifier(**FIXED, feature_scaling="standard", device=device).fit(form(X), Y)
            for device in ("cpu", "torch-cpu")
        )
        same_fit(*fits, X)
