"""What every fit does with weights of rows and with arrays that would be read as something else."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelgap import MetricThreshold, ObservedLabels, best_threshold, get_metric
from labelgap.exceptions import (
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
)
from labelgap.metrics import precision_at_k
from quick_estimators import (
    ONE_FIT,
    QUICK,
    answers,
    cut,
    fit,
    likes,
    low_rank,
    plug_in,
    problem,
    recommender,
    regressor,
)
from refusals import assert_refused

X, Y = problem(n=80)
COMPLETE = (X @ np.random.RandomState(0).standard_normal((4, 5)) > 0.3).astype(float)
TIMES = np.random.RandomState(0).randint(0, 4, size=80)
REPEATED = np.repeat(np.arange(80), TIMES)
KEPT = TIMES > 0
OF_ROWS = [name for name in QUICK if name != "Recommender"]
FAMILIES = ("gaussian", "poisson", "bernoulli")


def exact() -> Any:
    return LogisticRegression(tol=1e-10, max_iter=1000)


# Each as close to its optimum as two fits of one problem must be to agree in four digits.
TIGHT: dict[str, Any] = {
    "LowRankClassifier": lambda **given: low_rank(**ONE_FIT, tol=1e-9, **given),
    "LowRankRegressor": lambda **given: regressor(tol=1e-8, **given),
    "MetricThreshold": lambda **given: cut(exact(), **ONE_FIT, **given),
    "PlugInClassifier": lambda **given: plug_in(exact(), **ONE_FIT, **given),
    "MetricThreshold of a fit": lambda **given: cut(low_rank(**ONE_FIT, tol=1e-9), **ONE_FIT, **given),
}
every_one_of_rows = pytest.mark.parametrize("name", TIGHT)

# -- weights of rows -----------------------------------------------------------------------------------------


@every_one_of_rows
def test_weights_of_rows_are_repetitions(name: str) -> None:
    changes = (
        [{"family": family} for family in FAMILIES]
        if name == "LowRankRegressor"
        else [{"metric": f"{average}-f1"} for average in ("micro", "macro", "instance")]
    )
    for changed in changes:
        weighted = TIGHT[name](**changed).fit(X, Y, sample_weight=TIMES)
        repeated = TIGHT[name](**changed).fit(X[REPEATED], Y[REPEATED])
        scores = weighted.decision_function(X), repeated.decision_function(X)
        assert_allclose(*scores, atol=1e-3, err_msg=str(changed))
        if "metric" in changed:
            assert weighted.threshold_ == pytest.approx(repeated.threshold_, abs=1e-3), changed
        in_rows = weighted.score(X, Y, sample_weight=TIMES), weighted.score(X[REPEATED], Y[REPEATED])
        assert in_rows[0] == pytest.approx(in_rows[1], abs=1e-9), changed


@pytest.mark.parametrize("name", QUICK)
def test_rows_of_weight_zero_are_absent(name: str) -> None:
    if name == "Recommender":
        labels = ObservedLabels.from_dense(Y)
        known = KEPT[labels.rows]
        one = recommender().fit(labels, sample_weight=known.astype(float))
        two = recommender().fit(labels.select(known))
        # Users without a rating have an intercept, which is then no other's.
        pairs = labels.rows[known], labels.cols[known]
        assert_allclose(one.decision_function(*pairs), two.decision_function(*pairs), atol=1e-6)
        return
    one = QUICK[name]().fit(X, Y, sample_weight=KEPT)
    two = QUICK[name]().fit(X[KEPT], Y[KEPT])
    for method, expected in answers(two, X).items():
        assert_array_equal(answers(one, X)[method], expected, err_msg=method)


def test_rows_of_weight_zero_have_no_part_in_scales_and_folds() -> None:
    far = X.copy()
    far[~KEPT] *= 1000
    for model in (low_rank(feature_scaling="standard"), regressor(feature_scaling="standard")):
        two = clone(model).fit(X[KEPT], Y[KEPT])
        one = model.fit(far, Y, sample_weight=KEPT.astype(float))
        assert_allclose(one.coef_, two.coef_, atol=1e-9)
        assert getattr(one, "threshold_", 0) == getattr(two, "threshold_", 0)


def test_weights_of_rows_and_of_entries_multiply() -> None:
    rng = np.random.RandomState(0)
    entries, rows = rng.uniform(0.5, 2, size=Y.shape), rng.uniform(0.5, 2, size=len(Y))
    for model in (low_rank(**ONE_FIT), regressor()):
        labels = {
            name: ObservedLabels.from_dense(Y, weights=weights, binary=False)
            for name, weights in (("of entries", entries), ("product", entries * rows[:, None]))
        }
        if hasattr(model, "threshold"):
            labels = {
                name: ObservedLabels.from_dense(Y).with_weights(one.weights) for name, one in labels.items()
            }
        two = clone(model).fit(X, labels["of entries"], sample_weight=rows)
        assert_allclose(clone(model).fit(X, labels["product"]).coef_, two.coef_, atol=1e-10)


def test_metrics_and_thresholds_of_weighted_rows() -> None:
    scores = np.random.RandomState(0).standard_normal(Y.shape).round(1)
    weighted = ObservedLabels.from_dense(Y).with_row_weights(TIMES)
    repeated = ObservedLabels.from_dense(Y[REPEATED])
    for average in ("micro", "macro", "instance"):
        metric = get_metric(f"{average}-f1")
        one = best_threshold(scores, weighted, metric, return_curve=True)
        two = best_threshold(scores[REPEATED], repeated, metric, return_curve=True)
        assert (one.threshold, one.value) == (two.threshold, pytest.approx(two.value, abs=1e-12)), average
        assert_allclose(one.curve.values, two.curve.values, atol=1e-12)
        decisions = scores >= one.threshold
        found = metric(repeated, decisions[REPEATED])
        assert metric(weighted, decisions) == pytest.approx(found, abs=1e-12), average


def test_classifiers_of_whole_rows_are_given_the_weights() -> None:
    for inner in (RandomForestClassifier(5), MultiOutputClassifier(LogisticRegression())):
        model = cut(inner, **ONE_FIT).fit(X, COMPLETE, sample_weight=TIMES)
        assert isinstance(model.estimator_, type(inner))
    repeated = clone(model).fit(X[REPEATED], COMPLETE[REPEATED])
    assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=1e-3)


def test_weights_that_cannot_be_used() -> None:
    labels = ObservedLabels.from_dense(Y)
    table: dict[str, tuple[Any, type[Exception], str]] = {
        "too few": (np.ones(79), InvalidInputError, "one weight for each of the 80 rows"),
        "a matrix": (np.ones((80, 5)), InvalidInputError, "sample_weight has shape"),
        "NaN": (np.full(80, np.nan), InvalidInputError, "at row 0 it is nan"),
        "negative": (np.append(np.ones(79), -1), InvalidInputError, "at row 79 it is -1"),
        "words": (["heavy"] * 80, InvalidInputError, "must be numbers"),
        "nothing": (np.zeros(80), InvalidParameterError, "zero for every row"),
    }
    for case, (weights, error, message) in table.items():
        for name in OF_ROWS:
            use = partial(QUICK[name]().fit, X, Y, sample_weight=weights)
            assert_refused(use, message, error, (case, name))
    of_ratings: dict[str, tuple[Any, type[Exception], str]] = {
        "too few": (np.ones(3), InvalidInputError, "one weight for each of the"),
        "NaN": (np.full(labels.n_observed, np.nan), InvalidInputError, "at rating 0 it is nan"),
        "nothing": (np.zeros(labels.n_observed), InvalidParameterError, "zero for every rating"),
        "words": (["heavy"] * labels.n_observed, InvalidInputError, "must be numbers"),
    }
    for case, (weights, error, message) in of_ratings.items():
        assert_refused(partial(recommender().fit, labels, sample_weight=weights), message, error, case)
    pairs = labels.rows, labels.cols, labels.values
    with pytest.raises(InvalidParameterError, match="pairs without a rating count, too"):
        recommender(unobserved="negative").fit(pairs, sample_weight=np.ones(labels.n_observed))
    with pytest.raises(InvalidLabelsError, match="Every one of the"):
        low_rank().fit(X, COMPLETE[:, 0], sample_weight=(COMPLETE[:, 0] == 1).astype(float))
    # Recorded positives count once or not at all.
    recorded = np.nan_to_num(Y)
    assert_array_equal(
        likes().fit(X, recorded, sample_weight=2.0 * KEPT).coef_, likes().fit(X[KEPT], recorded[KEPT]).coef_
    )
    with pytest.raises(InvalidParameterError, match="every entry counts once"):
        likes().fit(X, recorded, sample_weight=1 + TIMES)


def test_weights_of_ratings_follow_every_form() -> None:
    users, items = np.nonzero(~np.isnan(Y))
    values, labels = Y[users, items], ObservedLabels.from_dense(Y)
    weights = np.random.RandomState(1).randint(0, 3, size=len(users)).astype(float)
    order = np.random.RandomState(2).permutation(len(users))
    frame = pd.DataFrame({"user": users, "item": items, "value": values}).iloc[order]
    kept, pairs = weights > 0, ([0, 7, 40], [1, 2, 3])
    weighted = labels.select(kept).with_weights(weights[kept])
    expected = recommender(**ONE_FIT).fit(weighted)
    for form, (ratings, given) in {
        "sequences": ((users.tolist(), items.tolist(), values), weights),
        "frame": (frame, weights[order]),
        "sparse": (sp.csr_array((values, (users, items)), shape=Y.shape), weights),
        "labels": (labels, weights),
    }.items():
        model = recommender(**ONE_FIT).fit(ratings, sample_weight=given)
        scores = model.decision_function(*pairs)
        assert_allclose(scores, expected.decision_function(*pairs), atol=1e-6, err_msg=form)
        found, by_hand = model.score(ratings, sample_weight=given), expected.score(expected.answers_)
        assert found == pytest.approx(by_hand, abs=1e-6), form


@pytest.mark.parametrize("name", OF_ROWS)
def test_weights_are_routed_as_metadata(name: str) -> None:
    model, weights = QUICK[name](), 1.0 + TIMES
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asking)
        found = cross_validate(pipeline, X, Y, cv=KFold(2), params={"sample_weight": weights})
        for value, (train, test) in zip(found["test_score"], KFold(2).split(X), strict=True):
            scaler = StandardScaler().fit(X[train])
            by_hand = clone(model).fit(scaler.transform(X[train]), Y[train], sample_weight=weights[train])
            assert value == by_hand.score(scaler.transform(X[test]), Y[test], sample_weight=weights[test])
        search = GridSearchCV(asking, {}, cv=KFold(2)).fit(X, Y, sample_weight=weights)
        assert np.isfinite(search.best_score_)


def test_a_pipeline_that_requests_weights() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        inner = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            LogisticRegression().set_fit_request(sample_weight=True),
        )
        model = cut(inner, **ONE_FIT).fit(X, Y, sample_weight=1.0 + TIMES)
    plain = cut(inner, **ONE_FIT).fit(X, Y)
    assert np.abs(model.decision_function(X) - plain.decision_function(X)).max() > 1e-3


# -- arrays that are no numbers ------------------------------------------------------------------------------


def with_one(value: Any, kind: Any = float) -> Any:
    features = X.astype(kind)
    features[2, 3] = value
    return features


def features_that_cannot_be_used() -> dict[str, tuple[Any, str]]:
    """Features that no estimator may take, and a part of what it says of them."""
    no_numbers = {
        "dates": [dt.datetime(2020, 1, 1)] * 80,
        "days": [dt.date(2020, 1, 1)] * 80,
        "durations": [dt.timedelta(days=1)] * 80,
        "times": [dt.time(1)] * 80,
        "lists": [[1.0]] * 80,
        "percentages": [f"{value:.2f}%" for value in X[:, 1]],
        "gaps": [1, *[None] * 79],
    }
    found: dict[str, tuple[Any, str]] = {}
    for kind, column in no_numbers.items():
        row = 1 if kind == "gaps" else 0
        says = f"'when'.*at row {row}|row {row},.*'when'"
        in_pandas = pd.DataFrame({"size": X[:, 0], "when": column})
        if kind == "gaps":
            in_pandas["when"] = in_pandas["when"].astype(object).where(in_pandas["when"].notna(), pd.NA)
        found[f"pandas, {kind}"] = in_pandas, says
        found[f"polars, {kind}"] = pl.DataFrame({"size": X[:, 0], "when": column}), says
    masked = np.ma.masked_array(X, mask=np.zeros(X.shape, dtype=bool))
    masked[4, 1] = np.ma.masked
    damaged = "X: a damaged sparse matrix"
    for place, index in (("far", 10**6), ("negative", -1)):
        for layout in (sp.csr_array, sp.csc_array, sp.csr_matrix):
            matrix = layout(X)
            matrix.indices[3] = index
            found[f"{layout.__name__}, {place}"] = matrix, damaged
        coo = sp.coo_array(X)
        coo.col[3] = index
        found[f"coo, {place}"] = coo, damaged
    pointers = sp.csr_array(X)
    pointers.indptr[2] = 10**6
    # scipy looks at no entry of a matrix whose last pointer is 0.
    ends = pointers.copy()
    ends.indptr[-1] = 0
    return found | {
        "pointers": (pointers, damaged),
        "last pointer": (ends, damaged),
        "NaN": (with_one(np.nan), "NaN at row 2, column 3|contains NaN"),
        "infinity": (with_one(np.inf), "infinity at row 2, column 3|contains infinity"),
        "sparse NaN": (sp.csr_array(with_one(np.nan)), "NaN at row 2, column 3|contains NaN"),
        "sparse infinity": (sp.csc_array(with_one(-np.inf)), "infinity at row 2, column 3|contains inf"),
        "None among objects": (with_one(None, object), "NaN|None|not 'NoneType'"),
        "a word among objects": (with_one("x", object), "could not convert|'x'"),
        "masked": (masked, "contains NaN"),
        "complex": (X * 1j, "[Cc]omplex"),
        "a vector": (X[:, 0], "Expected 2D|Reshape"),
        "a series of words": (pd.Series(["a"] * 80), r"could not convert|Expected 2D|Reshape"),
        "a cube": (np.zeros((80, 2, 2)), "dim 3|3 dim|X has 2 features"),
        "no features": (X[:, :0], "0 feature"),
        "a number": (3.0, "Expected 2D|scalar|0 dimensions|0-d"),
    }


@pytest.mark.parametrize("name", OF_ROWS)
def test_features_that_are_no_numbers_are_refused(name: str) -> None:
    model = QUICK[name](**(ONE_FIT if hasattr(QUICK[name](), "threshold") else {})).fit(X, Y)
    expected = model.predict(X)
    for case, (features, message) in features_that_cannot_be_used().items():
        # A model of an array without names warns of names, whatever is in the columns.
        named = isinstance(features, pd.DataFrame | pl.DataFrame)
        for use in (clone(model).fit,) if named else (clone(model).fit, model.score):
            refused = assert_refused(partial(use, features, Y), message, (ValueError, TypeError), case)
            if message.startswith(("'when'", "X: a damaged")):
                assert isinstance(refused, InvalidFeaturesError), case
    if name.startswith("LowRank"):
        for huge in (1e120 * X, sp.csr_array(1e120 * X)):
            with pytest.raises(InvalidFeaturesError, match="squares overflow"):
                clone(model).fit(huge, Y)
    # The model is as it was.
    assert_array_equal(model.predict(X), expected)
    for form in (pd.DataFrame, pl.DataFrame):
        named = clone(model).fit(form({"a": X[:, 0], "b": X[:, 1]}), Y)
        with pytest.raises(InvalidFeaturesError, match="Column 'b' of X has the text 'high' at row 0"):
            named.predict(form({"a": X[:, 0], "b": ["high"] * 80}))


def test_steps_of_a_pipeline_may_be_about_what_is_no_number() -> None:
    by_step = ColumnTransformer([("size", "passthrough", ["size"])])
    for case, (frame, _) in features_that_cannot_be_used().items():
        if case.startswith(("pandas", "polars")):
            model = cut(make_pipeline(by_step, LogisticRegression()), **ONE_FIT).fit(frame, Y)
            assert model.predict(frame).shape == Y.shape, case
    since = [dt.datetime(2020, 1, 1)] * 3
    ratings = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 0, 1]
    for form in (pd.DataFrame, pl.DataFrame):
        frame = form({"user": [0, 1, 2], "age": [30, 40, 50], "since": since})
        with pytest.raises(InvalidFeaturesError, match="'since' of the user features has dates"):
            recommender(**ONE_FIT).fit(ratings, user_features=frame)


def test_imaginary_parts_are_not_dropped() -> None:
    z = (0.5 + X[:, :5] * 1j).astype(complex)[:, [0, 1, 2, 3, 0]]
    for case, use in {
        "scores": lambda: best_threshold(z, Y, "micro-f1"),
        "sparse scores": lambda: best_threshold(sp.csr_array(z), Y, "micro-f1"),
        "ranking": lambda: precision_at_k(z, Y, k=1),
        "decisions": lambda: get_metric("micro-f1")(Y, z),
        "given scores": lambda: MetricThreshold().fit(z, Y),
        "weights": lambda: ObservedLabels.from_dense(Y).with_weights(z),
        "weights of labels": lambda: ObservedLabels.from_dense(Y, weights=z),
        "labels": lambda: ObservedLabels.from_dense(z),
        "sparse labels": lambda: ObservedLabels.from_sparse(sp.csr_array(z)),
        "a vector": lambda: low_rank().fit(X, z[:, 0]),
        "propensities": lambda: low_rank(weights="inverse-propensity").fit(X, Y, propensities=z),
        "offset": lambda: regressor().fit(X, Y, offset=z),
    }.items():
        assert_refused(use, r"[Cc]omplex|is no number", case=case)


def test_damaged_sparse_matrices_are_refused_wherever_they_are_given() -> None:
    model, wide = low_rank(**ONE_FIT).fit(X, Y), X > 0
    for case, (matrix, of_features) in features_that_cannot_be_used().items():
        if not of_features.startswith("X: a damaged"):
            continue
        for use, what in {
            model.predict: "X",
            model.predict_proba: "X",
            model.decision_function: "X",
            lambda one: MetricThreshold().fit(one, wide): "X",
            ObservedLabels.from_sparse: "Y",
            lambda one: ObservedLabels.from_dense(wide, weights=one): "weights",
            lambda one: recommender(positive=0.0).fit(one): "Y",
            lambda one: best_threshold(one, wide, "micro-f1"): "The scores",
        }.items():
            message = f"{what}: a damaged sparse matrix"
            assert_refused(partial(use, matrix), message, InvalidInputError, (case, what))
    for kind in ("csr", "csc", "coo", "bsr", "dok", "lil", "dia"):
        assert model.predict(sp.csr_array(X).asformat(kind)).shape == Y.shape, kind


def test_scores_in_frames_and_masks_go_by_name_row_and_place() -> None:
    labels = pd.DataFrame(Y, columns=list("pqrst"))
    scores = pd.DataFrame(np.random.RandomState(2).uniform(size=Y.shape), columns=list("pqrst"))
    best, turned = best_threshold(scores.to_numpy(), Y), scores[list("tsrqp")]
    for given in (scores, turned, pl.DataFrame(turned), scores.to_numpy(), scores.add_prefix("p_")):
        assert best_threshold(given, labels) == best
        model = MetricThreshold().fit(given, labels)
        assert (model.threshold_, model.best_score_) == (best.threshold, best.value)
        assert model.score(given, labels) == best.value
    assert MetricThreshold().fit(turned, labels).label_names_.tolist() == list("tsrqp")
    decided, metric = scores > 0.5, get_metric("macro-f1")
    assert metric(labels, decided[list("tsrqp")]) == metric(Y, decided.to_numpy())
    with pytest.raises(InvalidInputError, match="the scores and the labels have the same rows in"):
        best_threshold(scores[::-1], labels)
    with pytest.raises(InvalidLabelsError, match=r"Missing from y: 'x'\. Missing from the scores: 'q'"):
        MetricThreshold().fit(scores.rename(columns={"q": "x"}), labels)
    with pytest.raises(InvalidLabelsError, match="Missing from the decisions: 'q'"):
        metric(labels, decided.rename(columns={"q": "x"}))
    hidden = np.ma.masked_array(scores.to_numpy(), mask=np.eye(80, 5, dtype=bool))
    with pytest.raises(InvalidInputError, match="row 0"):
        best_threshold(hidden, COMPLETE)
    some = np.where(np.eye(80, 5, dtype=bool), np.nan, COMPLETE)
    assert best_threshold(hidden, some).threshold == best_threshold(scores.to_numpy(), some).threshold


def test_ids_of_rows_beside_numbers_go_through_folds() -> None:
    ids = pd.DataFrame(X).set_axis(np.random.RandomState(0).permutation(200)[:80])
    model = low_rank(**ONE_FIT)
    assert np.isfinite(cross_val_score(model, ids, pd.DataFrame(Y), cv=3)).all()
    assert fit(clone(model), ids, pd.DataFrame(Y)).predict(ids).shape == Y.shape
