"""What every labelgap estimator promises, whatever it fits."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from labelgap import LowRankClassifier, ObservedLabels, get_metric
from labelgap.estimators.metric_threshold import MetricThreshold
from labelgap.estimators.plug_in import PlugInClassifier
from labelgap.exceptions import (
    InvalidFeaturesError,
    InvalidLabelsError,
    InvalidParameterError,
    LabelgapWarning,
    UninformativeLabelsWarning,
    UnknownNameError,
)


@dataclass(frozen=True)
class Case:
    """An estimator that takes features, and how close two fits of one problem come."""

    name: str
    estimator: Any
    tolerance: float = 1e-10


# A new estimator is one more line here.
# Fixed penalties: chosen ones depend on the folds, and those on the order of the rows.
FIXED = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "intercept_penalty": 0.0}

CASES = [
    Case("low-rank", LowRankClassifier(**FIXED, tol=1e-6, random_state=0), 1e-2),
    Case("plug-in", PlugInClassifier(random_state=0)),
    Case("threshold-logistic", MetricThreshold(LogisticRegression(), random_state=0)),
    Case("threshold-svm", MetricThreshold(LinearSVC(), random_state=0), tolerance=1e-3),
    Case("threshold-plug-in", MetricThreshold(PlugInClassifier(threshold="train"), random_state=0)),
]

every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


# Weights of rows are repetitions all the same: with a threshold from training scores the checks below pass.
# They compare probabilities to nine digits, which takes a fit that goes on for as long as rounding lets it: a
# gap bounds the square of what is left.
TRAINED = [
    LowRankClassifier(**FIXED, threshold="train", tol=1e-14),
    PlugInClassifier(threshold="train"),
    MetricThreshold(LogisticRegression(), threshold="train"),
]


def expected_failures(estimator: Any) -> dict[str, str]:
    if estimator.threshold == "train":
        return {}
    reason = (
        "folds of 15 rows with weights are not those of the repeated rows, which have copies in each fold"
    )
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


# Those of defaults and of further inner estimators take long: conftest.py marks them slow.
@parametrize_with_checks(
    [LowRankClassifier(), PlugInClassifier(), *(case.estimator for case in CASES)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore::labelgap.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", TRAINED, ids=lambda estimator: type(estimator).__name__)
def test_scikit_learn_checks_of_weights(estimator: Any) -> None:
    checks = list(estimator_checks_generator(estimator))
    about_weights = [check for _, check in checks if "sample_weight" in check.func.__name__]
    assert len(about_weights) > 5
    for check in about_weights:
        check(estimator)


def problem(n: int = 90, d: int = 4, n_labels: int = 5, observed: float = 0.6) -> tuple[Any, Any]:
    rng = np.random.RandomState(7)
    X = rng.standard_normal((n, d))
    noise = 0.3 * rng.standard_normal((n, n_labels))
    Y = (X @ rng.standard_normal((d, n_labels)) + noise > 0.4).astype(float)
    Y[rng.uniform(size=Y.shape) > observed] = np.nan
    return X, Y


X, Y = problem()
THINNED = np.where(np.abs(X) > 0.5, X, 0.0)


@cache
def fitted_once(name: str) -> Any:
    (case,) = (case for case in CASES if case.name == name)
    return clone(case.estimator).fit(X, Y)


def fitted_to_all(case: Case) -> Any:
    """The model of X and Y, fitted once for all tests that only ask it."""
    return fitted_once(case.name)


def forms_of_labels() -> dict[str, Any]:
    seen = ~np.isnan(Y)
    rows, cols = np.nonzero(seen)
    values = Y[rows, cols].astype(int)
    shuffled = np.random.RandomState(0).permutation(len(rows))
    names = [f"label {j}" for j in range(Y.shape[1])]
    return {
        "nested lists with None": [[None if np.isnan(v) else v for v in row] for row in Y],
        "masked array": np.ma.masked_array(np.where(seen, Y, -9), ~seen),
        "sparse with stored zeros": sp.csr_array((values, (rows, cols)), shape=Y.shape),
        "coo matrix": sp.coo_matrix((values, (rows, cols)), shape=Y.shape),
        "pandas": pd.DataFrame(Y, columns=names).astype("Int64"),
        "polars": pl.DataFrame(pd.DataFrame(Y, columns=names).to_dict("list")).fill_nan(None),
        "from_mask": ObservedLabels.from_mask(np.nan_to_num(Y), seen),
        "from_triplets": ObservedLabels.from_triplets(
            rows[shuffled], cols[shuffled], values[shuffled], shape=Y.shape
        ),
    }


@every_case
@pytest.mark.parametrize("form", forms_of_labels())
@pytest.mark.slow
def test_every_form_of_labels_gives_the_same_model(case: Case, form: str) -> None:
    reference = fitted_to_all(case)
    fitted = clone(case.estimator).fit(X, forms_of_labels()[form])
    assert fitted.threshold_ == reference.threshold_
    assert_array_equal(fitted.decision_function(X), reference.decision_function(X))
    assert_array_equal(fitted.predict(X, output="dense"), reference.predict(X))
    assert fitted.score(X, forms_of_labels()[form]) == reference.score(X, Y)


@every_case
def test_names_of_labels_are_kept(case: Case) -> None:
    assert fitted_to_all(case).label_names_ is None
    named = clone(case.estimator).fit(X, forms_of_labels()["pandas"])
    assert named.label_names_.tolist() == [f"label {j}" for j in range(Y.shape[1])]


@every_case
def test_names_of_features_are_kept(case: Case) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    fitted = clone(case.estimator).fit(frame, Y)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert_array_equal(fitted.predict(frame), fitted_to_all(case).predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame.rename(columns={"a": "z"}))


@every_case
def test_clone_keeps_parameters_and_drops_the_fit(case: Case) -> None:
    fitted = fitted_to_all(case)
    copy = clone(fitted)
    assert not hasattr(copy, "threshold_")
    assert str(copy.get_params()) == str(fitted.get_params())


@every_case
def test_pickle_round_trip(case: Case) -> None:
    fitted = fitted_to_all(case)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.score(X, Y) == fitted.score(X, Y)


@every_case
def test_pipeline(case: Case) -> None:
    pipeline = make_pipeline(StandardScaler(), clone(case.estimator)).fit(3 * X + 1, Y)
    direct = clone(case.estimator).fit(StandardScaler().fit_transform(3 * X + 1), Y)
    assert_array_equal(pipeline.predict(3 * X + 1), direct.predict(pipeline[0].transform(3 * X + 1)))
    assert pipeline.score(3 * X + 1, Y) == direct.score(pipeline[0].transform(3 * X + 1), Y)


@every_case
@pytest.mark.parametrize("form", ["NaN", "ObservedLabels", "pandas"])
@pytest.mark.slow
def test_cross_validation_with_a_number_of_folds(case: Case, form: str) -> None:
    labels = {
        "NaN": Y,
        "ObservedLabels": ObservedLabels.from_dense(Y),
        "pandas": forms_of_labels()["pandas"],
    }[form]
    expected = [
        clone(case.estimator).fit(X[train], Y[train]).score(X[test], Y[test])
        for train, test in KFold(3).split(X)
    ]
    assert_allclose(cross_val_score(clone(case.estimator), X, labels, cv=3), expected, rtol=1e-12)


@pytest.mark.slow
@every_case
def test_grid_search_over_incomplete_labels(case: Case) -> None:
    grid = {"threshold": ["train", "holdout"], "metric": ["micro-f1", "macro-jaccard"]}
    search = GridSearchCV(clone(case.estimator), grid, cv=3).fit(X, Y)
    assert search.best_params_ in list(search.cv_results_["params"])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    pipeline = make_pipeline(StandardScaler(), clone(case.estimator))
    prefix = pipeline.steps[-1][0]
    search = GridSearchCV(pipeline, {f"{prefix}__threshold": ["train", "holdout"]}, cv=3)
    # cross_val_score itself refuses a sparse y, the grid search takes one.
    for labels in (ObservedLabels.from_dense(Y), forms_of_labels()["sparse with stored zeros"]):
        assert search.fit(X, labels).predict(X).shape == Y.shape


@every_case
def test_is_no_classifier_to_scikit_learn(case: Case) -> None:
    # If it were, cross-validation with cv=3 would stratify by y and refuse NaN in it.
    assert not is_classifier(case.estimator)


# The other layouts once: what reads them is the same for all, and scikit-learn fits each to every layout.
@pytest.mark.parametrize(
    ("case", "layouts"),
    [
        (case, (sp.csr_array, sp.csc_matrix, sp.coo_array) if at == 0 else (sp.csr_array,))
        for at, case in enumerate(CASES)
    ],
    ids=[case.name for case in CASES],
)
def test_sparse_features(case: Case, layouts: tuple[Any, ...]) -> None:
    dense = clone(case.estimator).fit(THINNED, Y)
    for layout in layouts:
        features = layout(THINNED)
        sparse = clone(case.estimator).fit(features, Y)
        # Two classes of inner solvers, one of which sees its columns in another order.
        assert_allclose(
            sparse.decision_function(features),
            dense.decision_function(THINNED),
            atol=max(case.tolerance, 1e-3),
        )
        decisions = sparse.predict(features, output="sparse")
        assert decisions.format == "csr"
        assert_array_equal(decisions.toarray(), sparse.predict(features))


@every_case
def test_sparse_and_dense_decisions_agree(case: Case) -> None:
    fitted = fitted_to_all(case)
    dense = fitted.predict(X)
    assert isinstance(dense, np.ndarray)
    assert_array_equal(dense, fitted.decision_function(X) >= fitted.threshold_)
    sparse = fitted.predict(X, output="sparse")
    assert sp.issparse(sparse)
    assert_array_equal(sparse.toarray(), dense)
    # The form of the labels is that of the decisions; the form of the features is not.
    in_matrix = clone(case.estimator).fit(X, ObservedLabels.from_dense(Y).to_sparse())
    assert sp.issparse(in_matrix.predict(X))
    assert isinstance(in_matrix.predict(X, output="dense"), np.ndarray)
    assert isinstance(clone(case.estimator).fit(X, ObservedLabels.from_dense(Y)).predict(X), np.ndarray)
    assert_array_equal(fitted.predict(sp.csr_array(X)), dense)
    with pytest.raises(UnknownNameError, match="sparse"):
        fitted.predict(X, output="spares")


@every_case
def test_blocks_of_rows_change_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = fitted_to_all(case)
    whole = [fitted.decision_function(X), fitted.predict(X), fitted.predict_topk(X, k=2)]
    monkeypatch.setattr("labelgap.estimators.base._BLOCK_SCORES", 7 * Y.shape[1])
    monkeypatch.setattr("labelgap.estimators.score_models._BLOCK_SCORES", 7 * Y.shape[1])
    for got, expected in zip(
        [fitted.decision_function(X), fitted.predict(X), fitted.predict_topk(X, k=2)], whole, strict=True
    ):
        assert_allclose(got, expected, rtol=1e-12)
    assert_array_equal(fitted.predict(sp.csr_array(X), output="dense"), whole[1])
    assert_array_equal(fitted.predict(X, output="sparse").toarray(), whole[1])
    assert fitted.score(X, Y) == get_metric(fitted.metric)(Y, whole[1])


@every_case
def test_top_k_are_the_highest_scores(case: Case) -> None:
    fitted = fitted_to_all(case)
    scores = fitted.decision_function(X)
    top, top_scores = fitted.predict_topk(X, k=3, return_scores=True)
    assert_array_equal(top, np.argsort(-scores, axis=1, kind="stable")[:, :3])
    assert_array_equal(top_scores, np.take_along_axis(scores, top, axis=1))
    for k in (0, Y.shape[1] + 1, 2.0, True):
        with pytest.raises(InvalidParameterError, match="from 1 to 5, the number of labels"):
            fitted.predict_topk(X, k=k)


METRICS = ("micro-f1", "macro-f1", "instance-jaccard", "micro-balanced-accuracy")


# Each estimator with two metrics of different kinds, and each metric with at least two estimators.
@pytest.mark.parametrize(
    ("case", "metric"),
    [(case, METRICS[(at + step) % 4]) for at, case in enumerate(CASES) for step in (0, 2)],
    ids=lambda value: getattr(value, "name", value),
)
def test_score_is_the_metric_of_the_decisions(case: Case, metric: str) -> None:
    fitted = clone(case.estimator).set_params(metric=metric).fit(X[:60], Y[:60])
    expected = get_metric(metric)(Y[60:], fitted.predict(X[60:]))
    assert fitted.score(X[60:], Y[60:]) == pytest.approx(expected, abs=1e-12)


@every_case
def test_permuting_labels_permutes_the_answer(case: Case) -> None:
    order = np.random.RandomState(1).permutation(Y.shape[1])
    straight = clone(case.estimator).set_params(threshold="train").fit(X, Y)
    permuted = clone(case.estimator).set_params(threshold="train").fit(X, Y[:, order])
    assert_allclose(
        permuted.decision_function(X), straight.decision_function(X)[:, order], atol=case.tolerance
    )
    assert permuted.threshold_ == pytest.approx(straight.threshold_, abs=case.tolerance)


@every_case
def test_permuting_rows_permutes_the_answer(case: Case) -> None:
    order = np.random.RandomState(2).permutation(len(X))
    straight = clone(case.estimator).set_params(threshold="train").fit(X, Y)
    permuted = clone(case.estimator).set_params(threshold="train").fit(X[order], Y[order])
    assert_allclose(
        permuted.decision_function(X), straight.decision_function(X), atol=max(case.tolerance, 1e-4)
    )


@every_case
def test_random_state_repeats(case: Case) -> None:
    first = clone(case.estimator).set_params(random_state=3).fit(X, Y)
    again = clone(case.estimator).set_params(random_state=3).fit(X, Y)
    assert first.threshold_ == again.threshold_
    assert_array_equal(first.decision_function(X), again.decision_function(X))


@every_case
@pytest.mark.slow
def test_jobs_change_nothing(case: Case) -> None:
    one = clone(case.estimator).set_params(n_jobs=1).fit(X, Y)
    two = clone(case.estimator).set_params(n_jobs=2).fit(X, Y)
    assert one.threshold_ == two.threshold_
    assert_array_equal(one.decision_function(X), two.decision_function(X))


@every_case
def test_one_dimensional_labels_of_any_two_values(case: Case) -> None:
    values = np.nan_to_num(Y[:, 0])
    words = np.where(values == 1, "yes", "no")
    numbers = clone(case.estimator).fit(X, values[:, None])
    named = clone(case.estimator).fit(X, words)
    assert named.classes_.tolist() == ["no", "yes"]
    decisions = named.predict(X)
    assert decisions.shape == (len(X),)
    assert_array_equal(decisions == "yes", numbers.predict(X)[:, 0] == 1)
    assert named.decision_function(X).shape == (len(X),)
    assert named.score(X, words) == numbers.score(X, values[:, None])
    if hasattr(named, "predict_proba"):
        assert_allclose(named.predict_proba(X).sum(axis=1), 1)
    with pytest.raises(InvalidLabelsError, match="'maybe' at row 1"):
        named.score(X[:2], ["yes", "maybe"])


@every_case
def test_one_dimensional_labels_may_be_incomplete(case: Case) -> None:
    words = np.where(Y[:, 0] == 1, "yes", "no").astype(object)
    for at, row in enumerate(np.flatnonzero(np.isnan(Y[:, 0]))):
        words[row] = (None, np.nan, pd.NA)[at % 3]
    fitted = clone(case.estimator).fit(X, words)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert_array_equal(fitted.predict(X) == "yes", clone(case.estimator).fit(X, Y[:, :1]).predict(X)[:, 0])


@every_case
def test_absent_entries_may_mean_no(case: Case) -> None:
    positives = sp.csr_array(np.nan_to_num(Y))
    positives.eliminate_zeros()
    with pytest.raises(InvalidLabelsError, match=r"unobserved='negative'.*unobserved='unlabelled'"):
        clone(case.estimator).fit(X, positives)
    as_no = clone(case.estimator).set_params(unobserved="negative").fit(X, positives)
    complete = clone(case.estimator).fit(X, np.nan_to_num(Y))
    assert_array_equal(as_no.predict(X, output="dense"), complete.predict(X))
    assert as_no.score(X, positives) == complete.score(X, np.nan_to_num(Y))
    if isinstance(case.estimator, LowRankClassifier):
        return
    with pytest.raises(InvalidParameterError, match="positive-unlabelled"):
        clone(case.estimator).set_params(unobserved="unlabelled").fit(X, positives)


def meanings(case: Case) -> list[tuple[str, dict[str, Any]]]:
    """What an absent entry can mean to the estimator, with the parameters that this takes."""
    learns_from_likes = isinstance(case.estimator, LowRankClassifier)
    likes = ("unlabelled", {"flip_rate": 0.3, "loss": "squared"})
    return [("negative", {}), *([likes] if learns_from_likes else [])]


@every_case
def test_a_vector_and_the_matrix_of_one_column_score_alike(case: Case) -> None:
    recorded = np.nan_to_num(Y[:, 0])
    for meaning, parameters in meanings(case):
        model = clone(case.estimator).set_params(unobserved=meaning, **parameters).fit(X, recorded)
        expected = model.score(X, recorded[:, None])
        assert model.score(X, recorded) == expected
        # A yes or nothing: what is not recorded is absent.
        assert model.score(X, np.where(recorded == 1, 1.0, np.nan)) == expected
        vector, column = (
            cross_val_score(clone(model), X, y, cv=KFold(2)) for y in (recorded, recorded[:, None])
        )
        assert_array_equal(vector, column)


@every_case
def test_labels_that_say_what_silence_means_are_read_as_if_the_parameter_did(case: Case) -> None:
    recorded = np.nan_to_num(Y)
    for meaning, parameters in meanings(case):
        said = ObservedLabels.from_any(recorded, meaning)
        told = clone(case.estimator).set_params(unobserved=meaning, **parameters).fit(X, recorded)
        own = clone(case.estimator).set_params(**parameters).fit(X, said)
        assert_array_equal(own.decision_function(X), told.decision_function(X))
        assert_array_equal(own.predict(X, output="dense"), told.predict(X, output="dense"))
        # Plain labels, of which a model that was told nothing would have thought something else.
        likes = sp.csr_array(recorded)
        assert own.score(X, likes) == told.score(X, likes) == told.score(X, said)


@every_case
def test_two_meanings_of_silence_are_a_contradiction(case: Case) -> None:
    no = ObservedLabels.from_any(np.nan_to_num(Y), "negative")
    likes = ObservedLabels.from_any(np.nan_to_num(Y), "unlabelled")
    with pytest.raises(InvalidParameterError, match=r"unobserved is 'negative'.* unobserved='unlabelled'"):
        clone(case.estimator).set_params(unobserved="negative").fit(X, likes)
    with pytest.raises(InvalidParameterError, match=r"unobserved is 'unlabelled'.* unobserved='negative'"):
        fitted_to_all(case).score(X, no, unobserved="unlabelled")
    # The default contradicts nothing.
    assert fitted_to_all(case).score(X, no) == fitted_to_all(case).score(X, np.nan_to_num(Y))


@every_case
def test_unseen_labels_warn_once(case: Case) -> None:
    gaps = Y.copy()
    gaps[:, [1, 3]] = np.nan
    with pytest.warns(UninformativeLabelsWarning, match=r"2 of 5 labels .*the first: 1") as caught:
        fitted = clone(case.estimator).fit(X, gaps)
    assert len(caught) == 1
    scores = fitted.decision_function(X)
    assert_allclose(scores[:, 1], scores[0, 1])
    assert scores[0, 1] == pytest.approx(scores[0, 3])


@every_case
def test_too_few_labels_to_hold_any_out(case: Case) -> None:
    few = np.full((3, 2), np.nan)
    few[0, 0], few[1, 0], few[2, 0] = 1, 0, 0
    with pytest.warns(LabelgapWarning) as caught:
        fitted = clone(case.estimator).fit(X[:3], few)
    messages = [str(w.message) for w in caught]
    assert any("too few to hold any out" in message for message in messages)
    assert np.isfinite(fitted.decision_function(X)).all()


@every_case
def test_bad_input(case: Case) -> None:
    estimator = clone(case.estimator)
    with pytest.raises(InvalidLabelsError, match="X has 90 rows and the labels have 89"):
        estimator.fit(X, Y[:-1])
    with pytest.raises(InvalidLabelsError, match="No label is observed"):
        estimator.fit(X, np.full_like(Y, np.nan))
    with pytest.raises(InvalidLabelsError, match="row 0, column 0 is 2"):
        estimator.fit(X, np.where(np.isnan(Y), 2.0, Y) + (np.arange(5) == 0) * 2)
    with pytest.raises(UnknownNameError, match="cross-fit"):
        clone(estimator).set_params(threshold="crossfit").fit(X, Y)
    with pytest.raises(UnknownNameError, match="micro-f1"):
        clone(estimator).set_params(metric="micro-f_1").fit(X, Y)
    with pytest.raises(UnknownNameError, match="negative"):
        clone(estimator).set_params(unobserved="negatives").fit(X, Y)
    fitted = estimator.fit(X, Y)
    with pytest.raises(InvalidLabelsError, match=r"shape \(90, 4\)"):
        fitted.score(X, Y[:, :4])
    with pytest.raises(ValueError, match="features"):
        fitted.predict(X[:, :2])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_features_that_are_not_finite(bad: float, layout: Any) -> None:
    features = X.copy()
    features[2, 3] = bad
    with pytest.raises(InvalidFeaturesError, match=r"(NaN|infinity) at row 2, column 3"):
        PlugInClassifier().fit(layout(features), Y)


def test_labels_that_cross_val_predict_has_coded_anew_are_refused_with_the_cause() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = np.where(rng.random((30, 4)) < 0.3, np.nan, X[:, :1] > 0)
    model = LowRankClassifier(trace_penalty=0.01, threshold="train", random_state=0)
    for method in ("predict_proba", "decision_function"):
        with pytest.raises(InvalidLabelsError, match=r"is 2, which is neither 0 nor 1.*has coded NaN as 2"):
            cross_val_predict(model, X, Y, method=method, cv=3)
    assert cross_val_predict(model, X, Y, cv=3).shape == Y.shape
