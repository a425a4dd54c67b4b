"""Penalties by the number of a label's positives: the change of variables, and when "auto" looks at them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap import LowRankClassifier, ObservedLabels
from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.penalty_grid import differ_in_positives
from labelgap.objective.frame import scales_by_positives

SEARCHED: dict[str, Any] = {"ridge_penalty": 0.0, "tol": 1e-2, "threshold": "holdout", "random_state": 0}
RNG = np.random.RandomState(3)
X = RNG.standard_normal((80, 4))
SCORES = X @ RNG.standard_normal((4, 12)) + RNG.standard_normal((80, 12))
# Two labels are a yes in most rows, ten in few.
Y = (np.r_[[-1.5, -1.5], np.full(10, 4.0)] < SCORES).astype(float)
Y[RNG.uniform(size=Y.shape) < 0.2] = np.nan
LABELS = ObservedLabels.from_dense(Y)


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_scales_leave_the_size_of_the_gradient_as_it_is(power: float) -> None:
    positives = np.array([0, 1, 5, 200])
    scales = scales_by_positives(positives, power)
    filled = np.maximum(positives, 1)
    assert_allclose(np.average(scales**2, weights=filled), 1.0)
    assert_allclose((scales / scales[-1]) ** 2, (filled / 200) ** -power)


def test_the_objective_is_that_of_the_weighted_trace_norm() -> None:
    penalties: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 0.02, "intercept_penalty": 0.05}
    clf = LowRankClassifier(
        label_weighting=0.5, feature_scaling="none", tol=1e-7, threshold="train", **penalties
    ).fit(X, Y)
    scales = scales_by_positives(LABELS.positive_counts(), 0.5)
    V = clf.coef_ / scales
    z = (X @ clf.coef_ + clf.intercept_)[~np.isnan(Y)]
    y = Y[~np.isnan(Y)]
    loss = np.mean(np.logaddexp(0, z) - y * z)
    centre = np.log(y.mean() / (1 - y.mean()))
    penalty = 0.01 * np.linalg.norm(V, "nuc") + 0.01 * np.sum(V**2)
    penalty += 0.025 * np.sum((clf.intercept_ - centre) ** 2)
    assert clf.objective_ == pytest.approx(loss + penalty, rel=1e-8)
    assert clf.duality_gap_ <= 1e-7 * clf.objective_
    assert clf.label_weighting_ == 0.5
    # No other weights are better: neither those of the plain trace norm, nor those nearby.
    rng = np.random.default_rng(0)
    plain = LowRankClassifier(
        label_weighting=0.0, feature_scaling="none", tol=1e-7, threshold="train", **penalties
    ).fit(X, Y)
    for W in (plain.coef_, *(clf.coef_ + 0.01 * rng.standard_normal(clf.coef_.shape) for _ in range(3))):
        z = (X @ W + clf.intercept_)[~np.isnan(Y)]
        other = np.mean(np.logaddexp(0, z) - y * z) + 0.025 * np.sum((clf.intercept_ - centre) ** 2)
        other += 0.01 * np.linalg.norm(W / scales, "nuc") + 0.01 * np.sum((W / scales) ** 2)
        assert other > clf.objective_


def test_auto_looks_at_weightings_only_where_labels_differ() -> None:
    assert differ_in_positives(LABELS)
    clf = LowRankClassifier(**SEARCHED).fit(X, Y)
    assert {one.label_weighting for one in clf.candidates_} >= {0.0, 0.5}
    assert clf.candidates_[-1].label_weighting == clf.label_weighting_
    assert all(one.count_weighting is None for one in clf.candidates_)
    even = LowRankClassifier(**SEARCHED).fit(X, Y[:, :2])
    assert {one.label_weighting for one in even.candidates_} == {None}
    assert even.label_weighting_ == 0
    # A penalty that is given refers to the trace norm as it is.
    given = LowRankClassifier(trace_penalty=0.01, **SEARCHED).fit(X, Y)
    assert given.label_weighting_ == 0


@pytest.mark.parametrize("weighting", [-0.1, 1.5, "some", None, True])
def test_other_weightings_are_refused(weighting: Any) -> None:
    with pytest.raises(InvalidParameterError, match="label_weighting must be a number from 0 to 1"):
        LowRankClassifier(label_weighting=weighting).fit(X, Y)
