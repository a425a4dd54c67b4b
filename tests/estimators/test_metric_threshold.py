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

from labelgap import LowRankClassifier, ObservedLabels, best_threshold, get_metric
from labelgap.estimators.metric_threshold import MetricThreshold
from labelgap.estimators.plug_in import PlugInClassifier
from labelgap.exceptions import (
    InvalidFeaturesError,
    InvalidParameterError,
    InvalidScoresError,
    LabelgapWarning,
    TrivialDecisionsWarning,
)


def problem(n: int = 80, d: int = 3, n_labels: int = 5, observed: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, d))
    Y = (X @ rng.standard_normal((d, n_labels)) + 0.5 * rng.standard_normal((n, n_labels)) > 0.6).astype(
        float
    )
    Y[rng.uniform(size=Y.shape) > observed] = np.nan
    return X, Y


# -- a matrix of scores --------------------------------------------------------------------------------


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


def test_scores_of_one_label_may_be_a_vector() -> None:
    scores, words = np.array([0.1, 0.4, 0.35, 0.8]), np.array(["no", "yes", "no", "yes"])
    cut = MetricThreshold(metric="micro-f1").fit(scores, words)
    assert cut.threshold_ == pytest.approx(0.375)
    assert cut.predict([0.37, 0.38]).tolist() == ["no", "yes"]
    assert cut.decision_function([0.37, 0.38]).tolist() == [0.37, 0.38]
    assert cut.score(scores, words) == 1
    assert not hasattr(cut, "predict_proba")


def test_scores_may_be_infinite_and_come_in_a_frame() -> None:
    frame = pd.DataFrame({"cat": [np.inf, 0.2], "dog": [-np.inf, 0.7]})
    Y = np.array([[1, 0], [0, 1]])
    cut = MetricThreshold().fit(frame, Y)
    assert_array_equal(cut.predict(frame), Y)
    assert cut.feature_names_in_.tolist() == ["cat", "dog"]


def test_scores_that_cannot_be_used() -> None:
    scores = np.array([[0.9, np.nan], [0.4, 0.1]])
    Y = np.array([[1.0, np.nan], [0.0, 1.0]])
    # Where nothing is observed the score does not matter, to fit and to score.
    cut = MetricThreshold().fit(scores, Y)
    assert cut.score(scores, Y) == cut.best_score_
    with pytest.raises(InvalidScoresError, match="row 0, label 1 is NaN"):
        cut.predict(scores)
    with pytest.raises(InvalidScoresError, match="row 0, label 1 is NaN"):
        cut.score(scores, np.ones((2, 2)))
    with pytest.raises(InvalidScoresError, match="row 0, label 1 is NaN"):
        MetricThreshold().fit(scores, np.eye(2))
    with pytest.raises(InvalidScoresError, match=r"3 columns for 2 labels\. Pass an estimator"):
        MetricThreshold().fit(np.zeros((2, 3)), Y)
    with pytest.raises(InvalidScoresError, match=r"pass the second, \[:, 1\]"):
        MetricThreshold().fit(np.zeros((2, 2)), [0, 1])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        MetricThreshold().fit(sp.csr_array(np.eye(2)), Y)


# -- one classifier per label --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cross-fit", "holdout", "train"])
@pytest.mark.parametrize("observed", [0.5, 1.0])
def test_a_binary_classifier_is_the_plug_in_method(how: str, observed: float) -> None:
    X, Y = problem(observed=observed)
    inner = LogisticRegression(max_iter=1000)
    cut = MetricThreshold(inner, metric="macro-f1", threshold=how, random_state=3).fit(X, Y)
    plug_in = PlugInClassifier(inner, metric="macro-f1", threshold=how, random_state=3).fit(X, Y)
    assert cut.threshold_ == plug_in.threshold_
    assert_array_equal(cut.decision_function(X), plug_in.decision_function(X))
    assert_array_equal(cut.predict_proba(X), plug_in.predict_proba(X))
    assert cut.estimator_ is None
    assert len(cut.estimators_) == Y.shape[1]
    if how == "train":
        assert cut.best_score_ == pytest.approx(cut.score(X, Y), abs=1e-12)


def test_decision_functions_and_labels_with_one_class() -> None:
    X, Y = problem(observed=0.5)
    Y[:, 2] = np.where(np.isnan(Y[:, 2]), np.nan, 0.0)
    cut = MetricThreshold(LinearSVC(), threshold="train", random_state=0).fit(X, Y)
    assert not hasattr(cut, "predict_proba")
    scores = cut.decision_function(X)
    rate = 0.5 / (np.sum(~np.isnan(Y[:, 2])) + 1)
    assert_allclose(scores[:, 2], np.log(rate / (1 - rate)))
    assert_allclose(scores[:, 0], cut.estimators_[0].decision_function(X))
    assert cut.estimators_[2] is None
    assert cut.threshold_ == best_threshold(scores, Y, "micro-f1").threshold


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
    X, Y = problem(observed=0.6)
    labels = ObservedLabels.from_dense(Y)
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


# -- one classifier for rows ---------------------------------------------------------------------------

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


@pytest.mark.parametrize("classifier", ROW_CLASSIFIERS, ids=lambda c: type(c).__name__)
def test_complete_labels_are_fitted_by_rows(classifier: Any) -> None:
    X, Y = problem()
    cut = MetricThreshold(classifier, random_state=0).fit(X, Y)
    assert cut.estimators_ is None
    expected = scores_of_rows(classifier.fit(X, Y), X)
    assert_allclose(cut.decision_function(X), expected, rtol=1e-12)
    assert_array_equal(cut.predict(X), expected >= cut.threshold_)
    # Out of fold, by rows: an entry's fold is its row's.
    folds = np.random.RandomState(0).permutation(len(X)) % 5
    held_out = np.empty(Y.shape)
    for fold in range(5):
        classifier.fit(X[folds != fold], Y[folds != fold])
        held_out[folds == fold] = scores_of_rows(classifier, X[folds == fold])
    best = best_threshold(held_out, Y, "micro-f1")
    assert cut.threshold_ == pytest.approx(best.threshold)
    assert cut.best_score_ == pytest.approx(best.value)


# What such labels do to the metric is told, and tested in tests/thresholds/test_one_class.py.
@pytest.mark.filterwarnings("ignore:2 of 5 labels have one class")
@pytest.mark.parametrize("classifier", ROW_CLASSIFIERS, ids=lambda c: type(c).__name__)
def test_rows_with_labels_of_one_class(classifier: Any) -> None:
    X, Y = problem()
    Y[:, 1], Y[:, 3] = 0, 1
    Y[:, 4] = 0
    Y[0, 4] = 1  # The only yes of this label: without its fold it has one class.
    cut = MetricThreshold(classifier, random_state=0).fit(X, Y)
    scores = cut.decision_function(X)
    assert (scores[:, 1] == scores[0, 1]).all()
    assert (scores[:, 3] == scores[0, 3]).all()
    assert scores[0, 1] < scores[0, 3]
    assert_array_equal(cut.predict(X)[:, 3], 1)


def test_incomplete_labels_are_fitted_one_by_one() -> None:
    X, Y = problem(observed=0.6)
    cut = MetricThreshold(KNeighborsClassifier(), random_state=0).fit(X, Y)
    assert cut.estimator_ is None
    rows = ~np.isnan(Y[:, 1])
    expected = KNeighborsClassifier().fit(X[rows], Y[rows, 1]).predict_proba(X)[:, 1]
    assert_array_equal(cut.decision_function(X)[:, 1], expected)
    with pytest.raises(InvalidParameterError, match="Pass the classifier inside it"):
        MetricThreshold(MultiOutputClassifier(LogisticRegression())).fit(X, Y)


def test_one_varying_label_is_fitted_alone() -> None:
    X, Y = problem(n_labels=2)
    Y[:, 1] = 0
    cut = MetricThreshold(KNeighborsClassifier(), random_state=0).fit(X, Y)
    assert [e is None for e in cut.estimators_] == [False, True]


def test_jobs_over_folds_change_nothing() -> None:
    X, Y = problem()
    forest = RandomForestClassifier(n_estimators=5)
    one, two = (MetricThreshold(forest, random_state=0, n_jobs=jobs).fit(X, Y) for jobs in (1, 2))
    assert one.threshold_ == two.threshold_
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))


# -- labelgap's own estimators -------------------------------------------------------------------------


@pytest.mark.parametrize("piped", [False, True])
def test_own_estimators_read_incomplete_labels(piped: bool) -> None:
    X, Y = problem(observed=0.5)
    inner = PlugInClassifier(threshold="train")
    cut = MetricThreshold(make_pipeline(StandardScaler(), inner) if piped else inner, random_state=0).fit(
        X, Y
    )
    assert cut.estimators_ is None
    fitted = cut.estimator_[-1] if piped else cut.estimator_
    assert isinstance(fitted, PlugInClassifier)
    assert_array_equal(cut.predict_proba(X), cut.estimator_.predict_proba(X))
    if not piped:
        assert cut.threshold_ == PlugInClassifier(random_state=0).fit(X, Y).threshold_


def test_low_rank_scores_are_cut_again_for_another_metric() -> None:
    X, Y = problem(observed=0.5)
    inner = LowRankClassifier(
        trace_penalty=0.01, ridge_penalty=0.0, intercept_penalty=0.0, threshold="train", random_state=0
    )
    cut = MetricThreshold(inner, metric="macro-f2", threshold="train").fit(X, Y)
    assert_array_equal(cut.decision_function(X), inner.fit(X, Y).decision_function(X))
    assert_array_equal(cut.predict_proba(X), inner.predict_proba(X))
    assert cut.threshold_ == best_threshold(inner.decision_function(X), Y, "macro-f2").threshold
    named = np.where(Y[:, 0] == 1, "yes", "no")
    assert MetricThreshold(inner, random_state=0).fit(X, named).predict_proba(X).shape == (len(X), 2)


def test_own_estimators_with_a_single_positive() -> None:
    X, Y = problem()
    Y[:] = 0
    Y[0, 0] = 1
    with pytest.warns(LabelgapWarning, match=r"\(1 positive\), too few to hold any out"):
        cut = MetricThreshold(PlugInClassifier(threshold="train")).fit(X, Y)
    assert get_metric("micro-f1")(Y, cut.predict(X)) == cut.best_score_


# -- what cannot work ----------------------------------------------------------------------------------


def test_needs_scores() -> None:
    with pytest.raises(InvalidParameterError, match="LinearRegression has neither"):
        MetricThreshold(LinearRegression()).fit(*problem())


def test_shape_of_features_at_prediction() -> None:
    X, Y = problem()
    cut = MetricThreshold(LogisticRegression(), random_state=0).fit(X, Y)
    with pytest.raises(InvalidFeaturesError, match="Reshape your data"):
        cut.predict(X[0])
    with pytest.raises(InvalidFeaturesError, match="0 sample"):
        cut.predict(X[:0])


def test_too_few_rows_to_hold_any_out() -> None:
    X, Y = problem(n=3)
    Y[0], Y[1:] = 1, 0
    with pytest.warns(LabelgapWarning, match="too few to hold any out"):
        MetricThreshold(KNeighborsClassifier(1)).fit(X, Y)


def test_a_classifier_that_knows_nothing() -> None:
    X, Y = problem()
    with pytest.warns(TrivialDecisionsWarning, match="saying yes to everything: micro-recall"):
        cut = MetricThreshold(DummyClassifier(), metric="micro-recall", random_state=0).fit(X, Y)
    assert_array_equal(cut.predict(X), 1)
    assert cut.best_score_ == 1
