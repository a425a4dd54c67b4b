"""One exact threshold around scores, classifiers and labelgap's own estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from labelgap import (
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    StratifiedRowSplit,
    best_threshold,
    get_metric,
)
from labelgap.exceptions import (
    InvalidParameterError,
    InvalidScoresError,
    LabelgapWarning,
    TrivialDecisionsWarning,
)
from quick_estimators import low_rank
from refusals import assert_refused


def problem(n: int = 80, d: int = 3, n_labels: int = 5, observed: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, d))
    noise = 0.5 * rng.standard_normal((n, n_labels))
    Y = (X @ rng.standard_normal((d, n_labels)) + noise > 0.6).astype(float)
    Y[rng.uniform(size=Y.shape) > observed] = np.nan
    return X, Y


X, Y = problem()
GAPS = problem(observed=0.5)[1]

# -- a matrix of scores --------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(2, 12),
    n_labels=st.integers(1, 4),
    levels=st.integers(1, 6),
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int64]),
    metric=st.sampled_from(["micro-f1", "macro-f1", "instance-jaccard", "micro-accuracy"]),
    seed=st.integers(0, 1000),
)
def test_scores_are_cut_where_best_threshold_says(
    n: int, n_labels: int, levels: int, dtype: Any, metric: str, seed: int
) -> None:
    rng = np.random.RandomState(seed)
    scores = (rng.randint(0, levels, (n, n_labels)) * (1 if dtype is np.int64 else 0.1)).astype(dtype)
    Y = rng.randint(0, 2, (n, n_labels)).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    Y[:2, 0] = [0, 1]
    cut = MetricThreshold(metric=metric).fit(scores, Y)
    best = best_threshold(scores, Y, metric)
    assert (cut.threshold_, cut.best_score_) == (pytest.approx(best.threshold), pytest.approx(best.value))
    assert_array_equal(cut.predict(scores), scores >= best.threshold)
    assert cut.score(scores, Y) == pytest.approx(cut.best_score_, abs=1e-12)
    assert cut.estimator_ is None
    assert cut.estimators_ is None


def test_scores_of_one_label_and_scores_in_a_frame() -> None:
    scores, words = np.array([0.1, 0.4, 0.35, 0.8]), np.array(["no", "yes", "no", "yes"])
    cut = MetricThreshold(metric="micro-f1").fit(scores, words)
    assert cut.threshold_ == pytest.approx(0.375)
    assert cut.predict([0.37, 0.38]).tolist() == ["no", "yes"]
    assert cut.decision_function([0.37, 0.38]).tolist() == [0.37, 0.38]
    assert cut.score(scores, words) == 1
    assert not hasattr(cut, "predict_proba")
    # They may be infinite.
    frame = pd.DataFrame({"cat": [np.inf, 0.2], "dog": [-np.inf, 0.7]})
    cut = MetricThreshold().fit(frame, np.eye(2))
    assert_array_equal(cut.predict(frame), np.eye(2))
    assert cut.feature_names_in_.tolist() == ["cat", "dog"]


def test_scores_that_cannot_be_used() -> None:
    scores = np.array([[0.9, np.nan], [0.4, 0.1]])
    Y = np.array([[1.0, np.nan], [0.0, 1.0]])
    # Where nothing is observed the score does not matter, to fit and to score.
    cut = MetricThreshold().fit(scores, Y)
    assert cut.score(scores, Y) == cut.best_score_
    new = MetricThreshold()
    for use, message in (
        (lambda: cut.predict(scores), "row 0, label 1 is NaN"),
        (lambda: cut.score(scores, np.ones((2, 2))), "row 0, label 1 is NaN"),
        (lambda: new.fit(scores, np.eye(2)), "row 0, label 1 is NaN"),
        (lambda: new.fit(np.zeros((2, 3)), Y), r"3 columns for 2 labels\. Pass an estimator"),
        (lambda: new.fit(np.zeros((2, 2)), [0, 1]), r"pass the second, \[:, 1\]"),
    ):
        assert_refused(use, message, InvalidScoresError)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        MetricThreshold().fit(sp.csr_array(np.eye(2)), Y)
    with pytest.raises(InvalidParameterError, match="LinearRegression has neither"):
        MetricThreshold(LinearRegression()).fit(*problem())


# -- one classifier per label --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cross-fit", "holdout", "train"])
def test_a_binary_classifier_is_the_plug_in_method(how: str) -> None:
    inner = LogisticRegression(max_iter=1000)
    for labels in (GAPS, Y):
        cut = MetricThreshold(inner, metric="macro-f1", threshold=how, random_state=3).fit(X, labels)
        plug_in = PlugInClassifier(inner, metric="macro-f1", threshold=how, random_state=3).fit(X, labels)
        assert cut.threshold_ == plug_in.threshold_
        assert_array_equal(cut.decision_function(X), plug_in.decision_function(X))
        assert_array_equal(cut.predict_proba(X), plug_in.predict_proba(X))
        assert cut.estimator_ is None
        assert len(cut.estimators_) == Y.shape[1]
        if how == "train":
            assert cut.best_score_ == pytest.approx(cut.score(X, labels), abs=1e-12)


def test_decision_functions_and_labels_with_one_class() -> None:
    gaps = GAPS.copy()
    gaps[:, 2] = np.where(np.isnan(gaps[:, 2]), np.nan, 0.0)
    cut = MetricThreshold(LinearSVC(), threshold="train", random_state=0).fit(X, gaps)
    assert not hasattr(cut, "predict_proba")
    scores = cut.decision_function(X)
    rate = 0.5 / (np.sum(~np.isnan(gaps[:, 2])) + 1)
    assert_allclose(scores[:, 2], np.log(rate / (1 - rate)))
    assert_allclose(scores[:, 0], cut.estimators_[0].decision_function(X))
    assert cut.estimators_[2] is None
    assert cut.threshold_ == best_threshold(scores, gaps, "micro-f1").threshold


def test_plain_binary_tuning_beats_a_grid_on_the_same_scores() -> None:
    X, y = make_classification(n_samples=150, weights=[0.85], flip_y=0.1, random_state=1)
    inner = LogisticRegression()
    exact = MetricThreshold(inner, threshold="train").fit(X, y)
    grid = TunedThresholdClassifierCV(inner, scoring="f1", cv=StratifiedKFold(3), thresholds=20).fit(X, y)
    scores = inner.fit(X, y).predict_proba(X)[:, 1]
    assert f1_score(y, exact.predict(X)) == pytest.approx(exact.best_score_)
    assert exact.best_score_ >= f1_score(y, scores >= grid.best_threshold_)
    assert exact.best_score_ == max(f1_score(y, scores >= t) for t in scores)
    assert_array_equal(exact.estimator_.coef_, inner.coef_)


def test_weights_go_to_the_classifier() -> None:
    labels = ObservedLabels.from_dense(GAPS)
    weighted = labels.with_weights(np.random.RandomState(0).uniform(1, 3, labels.n_observed))
    cut = MetricThreshold(LogisticRegression(), threshold="train").fit(X, weighted)
    first = weighted.cols == 0
    alone = LogisticRegression().fit(X[weighted.rows[first]], weighted.values[first], weighted.weights[first])
    assert_allclose(cut.estimators_[0].coef_, alone.coef_)
    assert cut.threshold_ == best_threshold(cut.decision_function(X), weighted, "micro-f1").threshold
    with pytest.raises(InvalidParameterError, match="takes no sample_weight"):
        MetricThreshold(KNeighborsClassifier()).fit(X, weighted)


def test_features_go_through_as_they_are() -> None:
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"size": rng.standard_normal(60), "colour": rng.choice(["red", "blue"], 60)})
    y = np.where((frame["size"] > 0) ^ (frame["colour"] == "red"), "buy", "leave")
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    cut = MetricThreshold(make_pipeline(encode, RandomForestClassifier(10)), random_state=0).fit(frame, y)
    assert set(cut.predict(frame)) == {"buy", "leave"}
    texts = [("good film " if i % 3 else "bad film ") + "x" * (i % 5 + 2) for i in range(40)]
    cut = MetricThreshold(make_pipeline(CountVectorizer(), MultinomialNB()), random_state=0)
    Y = np.array([[i % 3 > 0, i % 5 > 2] for i in range(40)], dtype=float)
    Y[::7, 1] = np.nan
    assert cut.fit(texts, Y).predict(texts).shape == (40, 2)
    X, y = make_classification(n_samples=60, random_state=0)
    X[::4, 2] = np.nan
    assert MetricThreshold(HistGradientBoostingClassifier(max_iter=2)).fit(X, y).predict(X).shape == (60,)


# -- one classifier for rows ---------------------------------------------------------------------------------

ROW_CLASSIFIERS = [
    RandomForestClassifier(n_estimators=5, random_state=0),
    KNeighborsClassifier(),
    RidgeClassifier(),
    MultiOutputClassifier(LogisticRegression()),
    ClassifierChain(LogisticRegression()),
    OneVsRestClassifier(LogisticRegression()),
    make_pipeline(StandardScaler(), KNeighborsClassifier()),
]


def scores_of_rows(classifier: Any, X: Any) -> Any:
    if not hasattr(classifier, "predict_proba"):
        return classifier.decision_function(X)
    given = classifier.predict_proba(X)
    return np.column_stack([part[:, 1] for part in given]) if isinstance(given, list) else given


# What labels of one class do to the metric is told, and tested in tests/thresholds/test_one_class.py.
@pytest.mark.filterwarnings("ignore:2 of 5 labels have one class")
@pytest.mark.parametrize("classifier", ROW_CLASSIFIERS, ids=lambda c: type(c).__name__)
def test_complete_labels_are_fitted_by_rows(classifier: Any) -> None:
    cut = MetricThreshold(classifier, random_state=0).fit(X, Y)
    assert cut.estimators_ is None
    expected = scores_of_rows(classifier.fit(X, Y), X)
    assert_allclose(cut.decision_function(X), expected, rtol=1e-12)
    assert_array_equal(cut.predict(X), expected >= cut.threshold_)
    # Out of fold, by rows: an entry's fold is its row's.
    folds = StratifiedRowSplit(5, random_state=0).fold_numbers(None, Y)
    held_out = np.empty(Y.shape)
    for fold in range(5):
        classifier.fit(X[folds != fold], Y[folds != fold])
        held_out[folds == fold] = scores_of_rows(classifier, X[folds == fold])
    best = best_threshold(held_out, Y, "micro-f1")
    assert cut.threshold_ == pytest.approx(best.threshold)
    assert cut.best_score_ == pytest.approx(best.value)
    one_class = Y.copy()
    one_class[:, 1], one_class[:, 3], one_class[:, 4] = 0, 1, 0
    one_class[0, 4] = 1  # The only yes of this label: without its fold it has one class.
    cut = MetricThreshold(classifier, random_state=0).fit(X, one_class)
    scores = cut.decision_function(X)
    assert np.ptp(scores[:, [1, 3]], axis=0).tolist() == [0, 0]
    assert scores[0, 1] < scores[0, 3]
    assert_array_equal(cut.predict(X)[:, 3], 1)


def test_labels_that_are_fitted_one_by_one() -> None:
    cut = MetricThreshold(KNeighborsClassifier(), random_state=0).fit(X, GAPS)
    assert cut.estimator_ is None
    rows = ~np.isnan(GAPS[:, 1])
    expected = KNeighborsClassifier().fit(X[rows], GAPS[rows, 1]).predict_proba(X)[:, 1]
    assert_array_equal(cut.decision_function(X)[:, 1], expected)
    with pytest.raises(InvalidParameterError, match="Pass the classifier inside it"):
        MetricThreshold(MultiOutputClassifier(LogisticRegression())).fit(X, GAPS)
    # One label that varies is fitted alone.
    two = Y[:, :2] * [1, 0]
    cut = MetricThreshold(KNeighborsClassifier(), random_state=0).fit(X, two)
    assert [e is None for e in cut.estimators_] == [False, True]


# -- labelgap's own estimators -------------------------------------------------------------------------------


def test_own_estimators_read_incomplete_labels_and_are_cut_again() -> None:
    inner = PlugInClassifier(threshold="train")
    for piped in (False, True):
        whole = make_pipeline(StandardScaler(), inner) if piped else inner
        cut = MetricThreshold(whole, random_state=0).fit(X, GAPS)
        assert cut.estimators_ is None
        assert isinstance(cut.estimator_[-1] if piped else cut.estimator_, PlugInClassifier)
        assert_array_equal(cut.predict_proba(X), cut.estimator_.predict_proba(X))
        if not piped:
            assert cut.threshold_ == PlugInClassifier(random_state=0).fit(X, GAPS).threshold_
    inner = low_rank(threshold="train")
    cut = MetricThreshold(inner, metric="macro-f2", threshold="train").fit(X, GAPS)
    scores = inner.fit(X, GAPS).decision_function(X)
    assert_array_equal(cut.decision_function(X), scores)
    assert cut.threshold_ == best_threshold(scores, GAPS, "macro-f2").threshold
    named = np.where(GAPS[:, 0] == 1, "yes", "no")
    assert MetricThreshold(inner, random_state=0).fit(X, named).predict_proba(X).shape == (len(X), 2)


def test_too_little_to_hold_any_out_and_a_classifier_that_knows_nothing() -> None:
    one = np.zeros(Y.shape)
    one[0, 0] = 1
    with pytest.warns(LabelgapWarning, match=r"\(1 positive\), too few to hold any out"):
        cut = MetricThreshold(PlugInClassifier(threshold="train")).fit(X, one)
    assert get_metric("micro-f1")(one, cut.predict(X)) == cut.best_score_
    few = np.repeat([[1.0], [0.0], [0.0]], 5, axis=1)
    with pytest.warns(LabelgapWarning, match="too few to hold any out"):
        MetricThreshold(KNeighborsClassifier(1)).fit(X[:3], few)
    with pytest.warns(TrivialDecisionsWarning, match="saying yes to everything: micro-recall"):
        cut = MetricThreshold(DummyClassifier(), metric="micro-recall", random_state=0).fit(X, Y)
    assert_array_equal(cut.predict(X), 1)
    assert cut.best_score_ == 1
