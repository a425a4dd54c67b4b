"""``sample_weight``: a row of weight 2 is the row twice, one of weight 0 is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
)
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.metrics import get_metric
from labelgap.metrics.jackknife import leave_out_values
from labelgap.thresholds import best_threshold

FIXED = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "intercept_penalty": 0.0}
RNG = np.random.RandomState(0)
X = RNG.standard_normal((80, 4))
COMPLETE = (X @ RNG.standard_normal((4, 5)) + 0.5 * RNG.standard_normal((80, 5)) > 0.3).astype(float)
Y = np.where(RNG.uniform(size=COMPLETE.shape) < 0.6, COMPLETE, np.nan)
TIMES = RNG.randint(0, 4, size=80)
REPEATED = np.repeat(np.arange(80), TIMES)

CLASSIFIERS = [
    LowRankClassifier(**FIXED, threshold="train", tol=1e-9),
    PlugInClassifier(LogisticRegression(tol=1e-10, max_iter=1000), threshold="train"),
    MetricThreshold(LogisticRegression(tol=1e-10, max_iter=1000), threshold="train"),
    MetricThreshold(LowRankClassifier(**FIXED, threshold="train", tol=1e-9), threshold="train"),
]
every_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: str(model)[:40])
every_average = pytest.mark.parametrize("average", ["micro", "macro", "instance"])


@every_classifier
@every_average
def test_weights_are_repetitions(model: Any, average: str) -> None:
    model = clone(model).set_params(metric=f"{average}-f1")
    weighted = clone(model).fit(X, Y, sample_weight=TIMES)
    repeated = clone(model).fit(X[REPEATED], Y[REPEATED])
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)
    assert weighted.threshold_ == pytest.approx(repeated.threshold_, abs=1e-4)
    assert weighted.score(X, Y, sample_weight=TIMES) == pytest.approx(
        weighted.score(X[REPEATED], Y[REPEATED]), abs=1e-12
    )


@every_classifier
def test_weights_of_zero_leave_rows_out(model: Any) -> None:
    kept = TIMES > 0
    one = clone(model).fit(X, Y, sample_weight=kept)
    two = clone(model).fit(X[kept], Y[kept])
    assert_array_equal(one.decision_function(X), two.decision_function(X))
    assert one.threshold_ == two.threshold_


def test_rows_of_weight_zero_have_no_part_in_scales_and_folds() -> None:
    kept, far = TIMES > 0, X.copy()
    far[~kept] *= 1000
    one = LowRankClassifier(trace_penalty=0.01, feature_scaling="standard", random_state=0)
    two = clone(one).fit(X[kept], Y[kept])
    one.fit(far, Y, sample_weight=kept.astype(float))
    assert_array_equal(one.coef_, two.coef_)
    assert one.threshold_ == two.threshold_


def test_weights_multiply_those_of_the_entries() -> None:
    entries = RNG.uniform(0.5, 2, size=Y.shape)
    rows = RNG.uniform(0.5, 2, size=len(Y))
    one = LowRankClassifier(**FIXED, threshold="train")
    two = clone(one).fit(X, ObservedLabels.from_dense(Y, weights=entries), sample_weight=rows)
    one.fit(X, ObservedLabels.from_dense(Y, weights=entries * rows[:, None]))
    assert_allclose(one.coef_, two.coef_, atol=1e-12)


@every_average
def test_metric_and_threshold_against_repeated_rows(average: str) -> None:
    metric, scores = get_metric(f"{average}-f1"), RNG.standard_normal(Y.shape).round(1)
    weighted = ObservedLabels.from_dense(Y).with_row_weights(TIMES)
    repeated = ObservedLabels.from_dense(Y[REPEATED])
    one = best_threshold(scores, weighted, metric, return_curve=True)
    two = best_threshold(scores[REPEATED], repeated, metric, return_curve=True)
    assert one.threshold == two.threshold
    assert one.value == pytest.approx(two.value, abs=1e-12)
    assert one.curve is not None
    assert two.curve is not None
    assert_allclose(one.curve.values, two.curve.values, atol=1e-12)
    decisions = scores >= one.threshold
    assert metric(weighted, decisions) == pytest.approx(metric(repeated, decisions[REPEATED]), abs=1e-12)


def test_jackknife_of_weighted_rows() -> None:
    metric, labels = get_metric("instance-f1"), ObservedLabels.from_dense(Y).with_row_weights(TIMES)
    decisions = RNG.uniform(size=labels.n_observed) > 0.5
    values = leave_out_values(metric, decisions, labels, n_parts=len(np.unique(labels.rows)))
    assert values is not None
    used = np.unique(labels.rows)
    expected = []
    for row in used[np.argsort(np.random.RandomState(0).permutation(len(used)))]:
        rest = labels.rows != row
        expected.append(metric(labels.select(rest), decisions[rest]))
    assert_allclose(values, expected, atol=1e-12)


def test_rows_of_labels_keep_their_weights() -> None:
    labels = ObservedLabels.from_dense([[1, 0], [0, 1], [1, 1]]).with_row_weights([1, 2, 0])
    assert labels.n_observed == 4
    assert labels.take_rows([1, 0]).row_weights.tolist() == [2.0, 1.0]
    assert labels.select(labels.values == 1).row_weights.tolist() == [1.0, 2.0, 0.0]
    assert labels.with_row_weights([3, 3, 3]).row_weights.tolist() == [3.0, 6.0, 0.0]
    assert labels.with_weights(None).row_weights is None
    assert labels != labels.with_weights(None)
    assert labels == labels.take_rows([0, 1, 2])


@pytest.mark.parametrize("inner", [RandomForestClassifier(5), MultiOutputClassifier(LogisticRegression())])
def test_classifiers_of_whole_rows_are_given_the_weights(inner: Any) -> None:
    model = MetricThreshold(inner, random_state=0, threshold="train").fit(X, COMPLETE, sample_weight=TIMES)
    assert isinstance(model.estimator_, type(inner))
    if isinstance(inner, MultiOutputClassifier):
        repeated = clone(model).fit(X[REPEATED], COMPLETE[REPEATED])
        assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=1e-3)


# -- errors ------------------------------------------------------------------------------------------------


@every_classifier
@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.ones(79), InvalidInputError, "one weight for each of the 80 rows"),
        (np.ones((80, 5)), InvalidInputError, "sample_weight has shape"),
        (np.full(80, np.nan), InvalidInputError, "at row 0 it is nan"),
        (np.append(np.ones(79), -1), InvalidInputError, "at row 79 it is -1"),
        (["heavy"] * 80, InvalidInputError, "must be numbers"),
        (np.zeros(80), InvalidParameterError, "zero for every row"),
    ],
)
def test_bad_weights(model: Any, weights: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        clone(model).fit(X, Y, sample_weight=weights)


def test_one_class_left() -> None:
    with pytest.raises(InvalidLabelsError, match="Every one of the"):
        LowRankClassifier().fit(X, Y[:, 0], sample_weight=(Y[:, 0] == 1).astype(float))


def test_weights_of_recorded_positives() -> None:
    likes = np.where(Y == 1, 1.0, 0.0)
    settings = {**FIXED, "unobserved": "unlabelled", "flip_rate": 0.2, "random_state": 0}
    kept = TIMES > 0
    one = LowRankClassifier(**settings).fit(X, likes, sample_weight=2.0 * kept)
    two = LowRankClassifier(**settings).fit(X[kept], likes[kept])
    assert_array_equal(one.coef_, two.coef_)
    with pytest.raises(InvalidParameterError, match="every entry counts once"):
        LowRankClassifier(**settings).fit(X, likes, sample_weight=1 + TIMES)


def test_regressor_takes_rows_of_weight_zero_out_of_the_scales() -> None:
    kept, far = TIMES > 0, X.copy()
    far[~kept] *= 1000
    # The folds that choose the penalty of the intercepts are the same.
    one = LowRankRegressor(trace_penalty=0.1, ridge_penalty=0.0, feature_scaling="standard", random_state=0)
    two = clone(one).fit(X[kept], Y[kept])
    assert_allclose(one.fit(far, Y, sample_weight=kept).coef_, two.coef_, atol=1e-4)


# -- metadata routing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [CLASSIFIERS[1], CLASSIFIERS[2], LowRankClassifier(**FIXED, random_state=0)]
)
def test_metadata_routing(model: Any) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asking)
        weights = 1.0 + TIMES
        found = cross_validate(pipeline, X, Y, cv=KFold(2), params={"sample_weight": weights})
        halves = KFold(2).split(X)
        for value, (train, test) in zip(found["test_score"], halves, strict=True):
            scaler = StandardScaler().fit(X[train])
            by_hand = clone(model).fit(scaler.transform(X[train]), Y[train], sample_weight=weights[train])
            scaled = scaler.transform(X[test])
            assert value == by_hand.score(scaled, Y[test], sample_weight=weights[test])
        search = GridSearchCV(asking, {"metric": ["micro-f1"]}, cv=KFold(2))
        search.fit(X, Y, sample_weight=weights)
        assert search.best_score_ > 0.5


def test_a_pipeline_that_requests_weights() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        inner = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            LogisticRegression().set_fit_request(sample_weight=True),
        )
        model = MetricThreshold(inner, threshold="train").fit(X, Y, sample_weight=1.0 + TIMES)
    plain = MetricThreshold(inner, threshold="train").fit(X, Y)
    assert np.abs(model.decision_function(X) - plain.decision_function(X)).max() > 1e-3


# -- ratings -----------------------------------------------------------------------------------------------

USERS, ITEMS = np.nonzero(~np.isnan(Y))
LIKES = Y[USERS, ITEMS]
WEIGHTS = RNG.randint(0, 3, size=len(LIKES)).astype(float)


def ratings_in_forms() -> dict[str, tuple[Any, Any]]:
    order = RNG.permutation(len(LIKES))
    frame = pd.DataFrame({"user": USERS, "item": ITEMS, "value": LIKES}).iloc[order]
    matrix = sp.csr_array((LIKES, (USERS, ITEMS)), shape=Y.shape)
    return {
        "sequences": ((USERS.tolist(), ITEMS.tolist(), LIKES), WEIGHTS),
        "frame": (frame, WEIGHTS[order]),
        "sparse": (matrix, WEIGHTS),
        "labels": (ObservedLabels.from_dense(Y), WEIGHTS),
    }


@pytest.mark.parametrize("form", ratings_in_forms())
def test_weights_of_ratings(form: str) -> None:
    ratings, weights = ratings_in_forms()[form]
    model = Recommender(trace_penalty=0.02, intercept_penalty=0.0, threshold="train")
    one = clone(model).fit(ratings, sample_weight=weights)
    kept = WEIGHTS > 0
    labels = ObservedLabels.from_dense(Y)
    two = clone(model).fit(labels.select(kept).with_weights(WEIGHTS[kept]))
    pairs = [(user, item) for user in (0, 7, 40) for item in range(5)]
    scores = [m.decision_function([u for u, _ in pairs], [i for _, i in pairs]) for m in (one, two)]
    assert_allclose(*scores, atol=1e-6)
    assert one.score(ratings, sample_weight=weights) == pytest.approx(two.score(two.answers_), abs=1e-6)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.ones(3), InvalidInputError, "one weight for each of the"),
        (np.full(len(LIKES), np.nan), InvalidInputError, "at rating 0 it is nan"),
        (np.zeros(len(LIKES)), InvalidParameterError, "zero for every rating"),
        (["heavy"] * len(LIKES), InvalidInputError, "must be numbers"),
    ],
)
def test_bad_weights_of_ratings(weights: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Recommender().fit((USERS, ITEMS, LIKES), sample_weight=weights)


def test_weights_of_ratings_beside_silence() -> None:
    with pytest.raises(InvalidParameterError, match="pairs without a rating count, too"):
        Recommender(unobserved="negative").fit((USERS, ITEMS, LIKES), sample_weight=WEIGHTS)
