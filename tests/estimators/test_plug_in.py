"""The plug-in method against a loop written out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from labelgap import MetricThreshold, ObservedLabels, PlugInClassifier, best_threshold, load
from labelgap.exceptions import InvalidFeaturesError, InvalidParameterError, UninformativeLabelsWarning
from labelgap.thresholds.cross_fit import hold_out_plan
from refusals import assert_refused


def problem(n: int = 80, d: int = 3, n_labels: int = 6, observed: float = 0.5) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, d))
    noise = 0.5 * rng.standard_normal((n, n_labels))
    Y = (X @ rng.standard_normal((d, n_labels)) + noise > 0.6).astype(float)
    Y[rng.uniform(size=Y.shape) > observed] = np.nan
    return X, Y


X, Y = problem()


def loop_over_labels(X: Any, Y: Any, X_new: Any, make: Any = None) -> Any:
    """Oracle: one classifier per column on the rows where the column is known."""
    make = make or (lambda: LogisticRegression(max_iter=1000))
    probabilities = np.empty((len(X_new), Y.shape[1]))
    known = Y[~np.isnan(Y)]
    for j in range(Y.shape[1]):
        rows = ~np.isnan(Y[:, j])
        y = Y[rows, j]
        if len(y) == 0:
            probabilities[:, j] = (known.sum() + 0.5) / (len(known) + 1)
        elif len(np.unique(y)) == 1:
            probabilities[:, j] = (y.sum() + 0.5) / (len(y) + 1)
        else:
            probabilities[:, j] = make().fit(X[rows], y).predict_proba(X_new)[:, 1]
    return probabilities


def out_of_fold(X: Any, Y: Any, how: str, seed: int) -> Any:
    """Oracle: for every entry the score of the loop without that entry's fold; NaN where never held out."""
    labels = ObservedLabels.from_dense(Y)
    plan = hold_out_plan(labels, how, np.random.RandomState(seed), by_row=True)
    scores = np.full(Y.shape, np.nan)
    for fold in range(plan.max() + 1):
        rows, cols = labels.rows[plan == fold], labels.cols[plan == fold]
        train = Y.copy()
        train[rows, cols] = np.nan
        scores[rows, cols] = loop_over_labels(X, train, X)[rows, cols]
    return scores


@pytest.mark.parametrize("metric", ["micro-f1", "macro-jaccard", "instance-f1", "micro-accuracy"])
def test_equals_a_loop_over_labels(metric: str) -> None:
    X_new = X[::-1] + 0.1
    for how in ("train", "cross-fit", "holdout"):
        fitted = PlugInClassifier(metric=metric, threshold=how, random_state=4).fit(X, Y)
        # Whatever chose the threshold, the model is fitted to everything.
        assert_allclose(fitted.predict_proba(X_new), loop_over_labels(X, Y, X_new), rtol=1e-12)
        assert_array_equal(fitted.decision_function(X_new), fitted.predict_proba(X_new))
        scores = loop_over_labels(X, Y, X) if how == "train" else out_of_fold(X, Y, how, seed=4)
        judged = np.where(np.isnan(scores), np.nan, Y)
        assert np.isnan(scores[~np.isnan(Y)]).any() == (how == "holdout")
        expected = best_threshold(scores, judged, metric)
        assert fitted.threshold_ == pytest.approx(expected.threshold, rel=1e-12), how
        if how == "train":
            assert fitted.score(X, Y) == pytest.approx(expected.value, abs=1e-12)
    assert len(fitted.estimators_) == fitted.n_labels_ == Y.shape[1]
    assert fitted.classes_.tolist() == [0, 1]


def test_labels_with_one_class_or_none() -> None:
    gaps = Y.copy()
    gaps[:, 1] = np.where(np.isnan(Y[:, 1]), np.nan, 0.0)
    gaps[:, 2] = np.where(np.isnan(Y[:, 2]), np.nan, 1.0)
    gaps[:, 4] = np.nan
    with (
        pytest.warns(UninformativeLabelsWarning, match=r"1 of 6 labels .*the first: 4"),
        pytest.warns(UninformativeLabelsWarning, match=r"2 of 6 labels have one class: 1 \(only no\), 2 \("),
    ):
        fitted = PlugInClassifier(random_state=0).fit(X, gaps)
    assert [e is None for e in fitted.estimators_] == [False, True, True, False, True, False]
    assert_allclose(fitted.predict_proba(X), loop_over_labels(X, gaps, X), rtol=1e-12)
    constant = np.tile([1.0, 0.0], (8, 1))
    fitted = PlugInClassifier(random_state=0).fit(X[:8], constant)
    assert fitted.estimators_ == [None, None]
    assert_array_equal(fitted.predict(X[:8]), constant)
    assert fitted.score(X[:8], constant) == 1


# A drawn label may have one class, and the fit says so where that moves the figure.
@pytest.mark.filterwarnings("ignore::labelgap.exceptions.UninformativeLabelsWarning")
@settings(deadline=None, max_examples=10)
@given(
    n=st.integers(4, 15), n_labels=st.integers(1, 5), observed=st.floats(0.2, 1.0), seed=st.integers(0, 1000)
)
def test_any_pattern_of_observations(n: int, n_labels: int, observed: float, seed: int) -> None:
    rng = np.random.RandomState(seed)
    X, Y = rng.standard_normal((n, 2)), rng.randint(0, 2, (n, n_labels)).astype(float)
    Y[rng.uniform(size=Y.shape) > observed] = np.nan
    # A column that is observed throughout, with both classes: nothing to refuse.
    Y[:, 0] = np.arange(n) % 2
    unseen = np.isnan(Y).all(axis=0)
    Y[0, unseen] = 1
    fitted = PlugInClassifier(random_state=seed, threshold="train").fit(X, Y)
    assert_allclose(fitted.predict_proba(X), loop_over_labels(X, Y, X), rtol=1e-10)
    cross = PlugInClassifier(random_state=seed).fit(X, Y)
    expected = best_threshold(out_of_fold(X, Y, "cross-fit", seed), Y, "micro-f1")
    assert cross.threshold_ == pytest.approx(expected.threshold, rel=1e-10)


def test_any_probabilistic_classifier_and_its_random_state() -> None:
    for make in (
        GaussianNB,
        KNeighborsClassifier,
        lambda: make_pipeline(StandardScaler(), LogisticRegression(C=10)),
        lambda: RandomForestClassifier(n_estimators=5, random_state=0),
    ):
        fitted = PlugInClassifier(make(), random_state=0).fit(X, Y)
        assert_allclose(fitted.predict_proba(X), loop_over_labels(X, Y, X, make), rtol=1e-12)
    # Those that are open are seeded, and those that are given are kept.
    forest = make_pipeline(RandomForestClassifier(n_estimators=3))
    first, again, other = (
        PlugInClassifier(forest, random_state=seed, threshold="train").fit(X, Y).predict_proba(X)
        for seed in (1, 1, 2)
    )
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    given_state = PlugInClassifier(RandomForestClassifier(n_estimators=3, random_state=5), random_state=1)
    assert {e.random_state for e in given_state.fit(X, Y).estimators_} == {5}
    assert forest[0].random_state is None


def test_estimators_and_features_that_cannot_be_used() -> None:
    labels = ObservedLabels.from_dense(Y)
    weighted = labels.with_weights(np.ones(labels.n_observed))
    piped = make_pipeline(StandardScaler(), LogisticRegression())
    for estimator, known, message in (
        (LinearSVC(), Y, "decision_function but no predict_proba.*CalibratedClassifierCV"),
        (LinearRegression(), Y, "neither predict_proba nor decision_function"),
        (KNeighborsClassifier(), weighted, r"KNeighborsClassifier\.fit takes no sample_weight"),
        (piped, weighted, r"Pipeline\.fit takes no sample_weight"),
    ):
        model = PlugInClassifier(estimator)
        assert_refused(lambda model=model, known=known: model.fit(X, known), message, InvalidParameterError)
    # Features may be missing where the classifier takes them.
    gaps = X.copy()
    gaps[0, 1] = np.nan
    with pytest.raises(InvalidFeaturesError, match="NaN at row 0, column 1"):
        PlugInClassifier().fit(gaps, Y)
    boosted = PlugInClassifier(HistGradientBoostingClassifier(max_iter=2), threshold="train").fit(gaps, Y)
    assert np.isfinite(boosted.predict_proba(gaps)).all()
    gaps[0, 1] = np.inf
    with pytest.raises(InvalidFeaturesError, match="infinity at row 0, column 1"):
        boosted.predict(gaps)


def test_verbose_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    PlugInClassifier(verbose=1, random_state=0).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert all(line.startswith("[PlugInClassifier] ") for line in lines)
    assert "threshold" in lines[-1]


# -- what the estimator takes --------------------------------------------------------------------------------


def mixed_rows() -> tuple[pd.DataFrame, Any]:
    rng = np.random.RandomState(0)
    colour, x = rng.choice(["red", "blue", "green"], 80), rng.standard_normal(80)
    gappy = np.where(rng.uniform(size=80) < 0.1, np.nan, x)
    frame = pd.DataFrame({"colour": pd.Categorical(colour), "x": gappy, "word": colour})
    Y = np.column_stack([colour == "red", x > 0]).astype(float)
    return frame, np.where(rng.uniform(size=Y.shape) < 0.3, np.nan, Y)


def by_column() -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore")
    columns = ColumnTransformer([("words", words, ["colour", "word"]), ("numbers", numbers, ["x"])])
    return make_pipeline(columns, LogisticRegression())


@pytest.mark.parametrize("kind", ["pandas", "polars", "categories"])
@pytest.mark.parametrize("wrapper", [PlugInClassifier, MetricThreshold])
def test_frames_are_handed_on_to_the_estimator(kind: str, wrapper: Any, tmp_path: Path) -> None:
    X, Y = mixed_rows()
    estimator = by_column()
    if kind == "categories":
        X, estimator = X[["colour", "x"]], HistGradientBoostingClassifier(max_iter=5)
    given = pl.from_pandas(X) if kind == "polars" else X
    model = wrapper(estimator, random_state=0).fit(given, Y)
    assert (model.n_features_in_, model.feature_names_in_.tolist()) == (X.shape[1], X.columns.tolist())
    assert model.score(given, Y) > 0.8
    assert model.predict(given).shape == model.predict_proba(given).shape == (80, 2)
    assert_array_equal(model.predict(given)[:7], model.predict(given[:7]))
    assert len(model.suggest(given, n=4, y=Y)) == 4
    known = ~np.isnan(Y[:, 0])
    alone = clone(model.estimators_[0]).fit(X[known], Y[known, 0])
    assert_allclose(model.predict_proba(given)[:, 0], alone.predict_proba(X)[:, 1])
    turned = X[X.columns[::-1]]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pl.from_pandas(turned) if kind == "polars" else turned)
    if kind != "categories":
        model.save(tmp_path / "m")
        assert_array_equal(load(tmp_path / "m").predict_proba(given), model.predict_proba(given))


@pytest.mark.parametrize("wrapper", [PlugInClassifier, MetricThreshold])
def test_texts_and_gaps_are_for_the_pipeline(wrapper: Any) -> None:
    X, Y = mixed_rows()
    texts = [f"{word} thing" for word in X["word"]]
    model = wrapper(make_pipeline(TfidfVectorizer(), LogisticRegression()), random_state=0).fit(texts, Y)
    assert not hasattr(model, "n_features_in_")
    assert model.score(texts, Y) > 0.5
    assert_array_equal(model.predict(pd.Series(texts)), model.predict(np.array(texts, dtype=object)))
    gappy = X[["x"]].to_numpy()
    imputed = make_pipeline(SimpleImputer(), LogisticRegression())
    assert wrapper(imputed, random_state=0).fit(gappy, Y).score(gappy, Y) > 0.5
    if wrapper is PlugInClassifier:
        for estimator in (None, LogisticRegression()):
            with pytest.raises(InvalidFeaturesError, match="Column 'colour' of X has the text"):
                PlugInClassifier(estimator).fit(X, Y)
            with pytest.raises(InvalidFeaturesError, match=r"Input X contains NaN at row \d+, column 0 \('x"):
                PlugInClassifier(estimator).fit(X[["x"]], Y)
