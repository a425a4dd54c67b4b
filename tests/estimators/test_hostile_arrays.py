"""Arrays and frames that would be read as something else than they are."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
    best_threshold,
    get_metric,
)
from labelgap._arrays import check_sparse, plain_array
from labelgap.exceptions import InvalidFeaturesError, InvalidInputError, InvalidLabelsError
from labelgap.metrics import precision_at_k

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = (X[:, :2] > 0).astype(float)
FAST: dict[str, Any] = {"trace_penalty": 0.02, "ridge_penalty": 0.0, "threshold": "train", "random_state": 0}
ESTIMATORS = [
    LowRankClassifier(**FAST),
    PlugInClassifier(threshold="train"),
    MetricThreshold(LogisticRegression(), threshold="train"),
    LowRankRegressor(trace_penalty=0.02, ridge_penalty=0.0, random_state=0),
]


# -- frames --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_rows_of_frames_in_another_order_are_refused(model: Any) -> None:
    names = [f"r{row}" for row in range(12)]
    frame, labels = pd.DataFrame(X, index=names), pd.DataFrame(Y, index=names)
    frame.columns, labels.columns = ["a", "b", "c"], ["p", "q"]
    fitted = model.fit(frame, labels)
    expected = fitted.predict(frame)
    says = "X and y have the same rows in another order; row 0 is 'r0' in X and 'r11' in y"
    for given in (labels[::-1], ObservedLabels.from_any(labels[::-1]), labels["p"][::-1]):
        with pytest.raises(InvalidLabelsError, match=says):
            model.fit(frame, given)
    model.fit(frame, labels)
    with pytest.raises(InvalidLabelsError, match=says):
        model.score(frame, labels[::-1])
    # As the message advises; and names that one of them lacks are no contradiction.
    again = model.fit(frame, labels[::-1].loc[frame.index])
    np.testing.assert_array_equal(again.predict(frame), expected)
    for other in (labels.reset_index(drop=True), labels.set_axis([f"s{row}" for row in range(12)])):
        np.testing.assert_array_equal(model.fit(frame, other).predict(frame), expected)
    shuffled = pd.DataFrame(X).iloc[::-1]
    with pytest.raises(InvalidLabelsError, match="reset_index"):
        model.fit(pd.DataFrame(X), pd.DataFrame(Y).loc[shuffled.index])


def test_rows_of_frames_that_are_partly_others_are_refused() -> None:
    model = ESTIMATORS[0]
    names = [f"r{row}" for row in range(12)]
    frame, labels = pd.DataFrame(X), pd.DataFrame(Y)
    shifted = [
        (frame.iloc[:-1], labels.iloc[1:]),
        (frame.iloc[1:], labels.iloc[:-1]),
        (frame.set_axis(names).iloc[:-1], labels.set_axis(names).iloc[1:]),
        (frame.set_axis(names).iloc[[0, 2, 4, 6, 8]], labels.set_axis(names).iloc[[1, 2, 4, 6, 8]]),
    ]
    for some_rows, some_labels in shifted:
        with pytest.raises(InvalidLabelsError, match="X and y have different rows: only"):
            model.fit(some_rows, some_labels)
        model.fit(some_rows, some_labels.to_numpy())
    # Rows that are only numbered, as after reset_index, go with all others; so do indices of two kinds, also
    # in parts, as cross-validation makes them.
    part = [7, 2, 9, 0, 4, 5, 11, 3, 8]
    accepted = [
        (frame.iloc[part], labels.iloc[part].reset_index(drop=True)),
        (frame.iloc[part].reset_index(drop=True), labels.iloc[part]),
        (frame.iloc[part], labels.set_axis(names).iloc[part]),
        (frame, labels.set_axis(range(100, 112))),
    ]
    for some_rows, some_labels in accepted:
        model.fit(some_rows, some_labels)
    # Ids beside numbers of rows, in the parts of cross-validation too.
    ids = frame.set_axis([3, 8, 1, 20, 5, 9, 30, 2, 11, 7, 4, 6])
    assert np.isfinite(cross_val_score(model, ids, labels, cv=3)).all()


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame])
def test_texts_in_a_frame_are_named_in_fit_and_predict(form: Any) -> None:
    model = ESTIMATORS[0]
    columns = {"size": X[:, 0], "growth": [f"{value:.2f}%" for value in X[:, 1]]}
    says = "Column 'growth' of X has the text '.*%' at row 0, which is no number"
    with pytest.raises(InvalidFeaturesError, match=says):
        model.fit(form(columns), Y)
    fitted = model.fit(form({"size": X[:, 0], "growth": X[:, 1]}), Y)
    with pytest.raises(InvalidFeaturesError, match=says):
        fitted.predict(form(columns))
    with pytest.raises(ValueError, match=r"could not convert|Expected 2D"):
        model.fit(pd.Series(columns["growth"]), Y)


NO_NUMBERS = {
    "dates": [dt.datetime(2020, 1, 1)] * len(X),
    "days": [dt.date(2020, 1, 1)] * len(X),
    "durations": [dt.timedelta(days=1)] * len(X),
    "times": [dt.time(1)] * len(X),
    "lists": [[1.0]] * len(X),
    "texts": ["x"] * len(X),
    "missing": [1, *[None] * (len(X) - 1)],
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame])
def test_columns_that_are_no_numbers_are_named_by_every_estimator(form: Any, kind: str) -> None:
    frame = form({"size": X[:, 0], "when": NO_NUMBERS[kind]})
    if kind == "missing" and form is pd.DataFrame:
        frame["when"] = frame["when"].astype(object).where(frame["when"].notna(), pd.NA)
    row = 1 if kind == "missing" else 0
    given = MetricThreshold()
    for model in (*ESTIMATORS, given):
        if model is given and kind == "missing" and form is pl.DataFrame:
            # A score that is missing is one of the scores, and named with its label.
            continue
        labels = Y[:, :2] if model is given else Y
        with pytest.raises(InvalidFeaturesError, match=f"'when'.*at row {row}|row {row},.*'when'"):
            clone(model).fit(frame, labels)
    # The steps of a pipeline may be about them.
    by_step = ColumnTransformer([("size", "passthrough", ["size"])])
    MetricThreshold(make_pipeline(by_step, LogisticRegression()), threshold="train").fit(frame, Y)


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame])
def test_side_features_that_are_no_numbers_are_named(form: Any) -> None:
    ratings = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 0, 1]
    frame = form({"user": [0, 1, 2], "age": [30, 40, 50], "since": [dt.datetime(2020, 1, 1)] * 3})
    with pytest.raises(InvalidFeaturesError, match="'since' of the user features has dates"):
        Recommender(trace_penalty=0.1, threshold="train").fit(ratings, user_features=frame)


def test_frames_of_scores_with_rows_in_another_order_are_refused_and_columns_are_matched() -> None:
    labels = pd.DataFrame(Y, columns=["p", "q"])
    scores = pd.DataFrame(X[:, :2], columns=["p", "q"])
    best = best_threshold(scores, labels, "micro-f1").threshold
    with pytest.raises(InvalidInputError, match="the scores and the labels have the same rows in"):
        best_threshold(scores[::-1], labels, "micro-f1")
    assert best_threshold(scores[["q", "p"]], labels, "micro-f1").threshold == best
    assert best_threshold(pl.DataFrame(scores[["q", "p"]]), labels, "micro-f1").threshold == best
    assert best_threshold(scores.to_numpy(), labels, "micro-f1").threshold == best
    assert best_threshold(scores.set_axis(["u", "v"], axis=1), labels, "micro-f1").threshold == best


# -- masks and complex numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_what_is_masked_in_x_is_not_read(model: Any) -> None:
    masked = np.ma.masked_array(X, mask=np.zeros_like(X, dtype=bool))
    expected = model.fit(X, Y).predict(X)
    np.testing.assert_array_equal(model.fit(masked, Y).predict(masked), expected)
    masked[4, 1] = np.ma.masked
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(masked, Y)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(X, Y).predict(masked)


def test_masked_scores_are_missing() -> None:
    scores = np.ma.masked_array(X[:, :2], mask=np.eye(12, 2, dtype=bool))
    with pytest.raises(InvalidInputError, match="row 0"):
        best_threshold(scores, Y, "micro-f1")
    hidden = np.where(np.eye(12, 2, dtype=bool), np.nan, Y)
    found = best_threshold(scores, hidden, "micro-f1")
    assert found.threshold == best_threshold(X[:, :2], hidden, "micro-f1").threshold


@pytest.mark.parametrize(
    "use",
    [
        lambda z: best_threshold(z, Y, "micro-f1"),
        lambda z: best_threshold(sp.csr_array(z), Y, "micro-f1"),
        lambda z: precision_at_k(z, Y, k=1),
        lambda z: get_metric("micro-f1")(Y, z),
        lambda z: MetricThreshold().fit(z, Y),
        lambda z: ObservedLabels.from_dense(Y).with_weights(z),
        lambda z: ObservedLabels.from_dense(Y, weights=z),
        lambda z: ObservedLabels.from_dense(z),
        lambda z: ObservedLabels.from_sparse(sp.csr_array(z)),
        lambda z: LowRankClassifier(**FAST).fit(X, z[:, 0]),
        lambda z: LowRankClassifier(weights="inverse-propensity", **FAST).fit(X, Y, propensities=z),
        lambda z: LowRankRegressor(trace_penalty=0.1).fit(X, Y, offset=z),
    ],
)
def test_imaginary_parts_are_not_dropped(use: Any) -> None:
    with pytest.raises(ValueError, match=r"[Cc]omplex|is no number"):
        use((0.5 + X[:, :2] * 1j).astype(complex))


# -- sparse matrices -----------------------------------------------------------------------------------------


def damaged() -> dict[str, Any]:
    """Sparse matrices with an entry outside their shape, which scipy makes without a check."""
    good = sp.csr_array(X)
    found: dict[str, Any] = {}
    for name, place in (("far", 10**6), ("negative", -1)):
        for kind in (sp.csr_array, sp.csc_array, sp.csr_matrix):
            matrix = kind(X)
            matrix.indices[3] = place
            found[f"{kind.__name__}, {name}"] = matrix
        coo = good.tocoo(copy=True)
        coo.col[3] = place
        found[f"coo, {name}"] = coo
    pointers = good.copy()
    pointers.indptr[2] = 10**6
    # scipy looks at no entry of a matrix whose last pointer is 0.
    ends = pointers.copy()
    ends.indptr[-1] = 0
    return found | {"pointers": pointers, "last pointer": ends}


@pytest.mark.parametrize("name", list(damaged()))
def test_entries_outside_the_shape_are_refused(name: str) -> None:
    matrix = damaged()[name]
    for model in (*ESTIMATORS, MetricThreshold()):
        with pytest.raises(InvalidFeaturesError, match="X: a damaged sparse matrix"):
            model.fit(matrix, Y if model.get_params().get("estimator", 0) is not None else X > 0)
    clf = LowRankClassifier(**FAST).fit(X, Y)
    for use in (clf.predict, clf.predict_proba, clf.decision_function):
        with pytest.raises(InvalidFeaturesError, match="X: a damaged sparse matrix"):
            use(matrix)
    with pytest.raises(InvalidLabelsError, match="Y: a damaged sparse matrix"):
        ObservedLabels.from_sparse(matrix)
    with pytest.raises(InvalidLabelsError, match="weights: a damaged sparse matrix"):
        ObservedLabels.from_dense(X > 0, weights=matrix)
    with pytest.raises(InvalidLabelsError, match="Y: a damaged sparse matrix"):
        Recommender(positive=0.0, **FAST).fit(matrix)
    with pytest.raises(InvalidInputError, match="The scores: a damaged sparse matrix"):
        best_threshold(matrix, X > 0, "micro-f1")


def test_sound_matrices_of_every_format_pass() -> None:
    for kind in ("csr", "csc", "coo", "bsr", "dok", "lil", "dia"):
        check_sparse(sp.csr_array(X).asformat(kind), "X")
    assert plain_array([[1, 2]], "X").tolist() == [[1, 2]]
