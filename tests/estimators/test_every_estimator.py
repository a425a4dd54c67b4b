"""What every estimator of the package promises, whatever it fits: conventions, forms of input, errors."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator

import labelgap
from labelgap import LowRankRegressor, ObservedLabels, get_metric
from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    LabelgapWarning,
    UninformativeLabelsWarning,
    UnknownNameError,
)
from quick_estimators import (
    GIVEN,
    ONE_FIT,
    QUICK,
    answers,
    cut,
    fit,
    likes,
    low_rank,
    plug_in,
    problem,
    public_estimators,
)
from refusals import assert_refused

# Every estimator, and MetricThreshold around estimators of other kinds.
MAKERS = {
    **QUICK,
    "MetricThreshold of a margin": lambda **settings: cut(LinearSVC(), **settings),
    "MetricThreshold of a plug-in": lambda **settings: cut(plug_in(threshold="train"), **settings),
}
OF_ROWS = [name for name in MAKERS if name != "Recommender"]
DECIDING = [name for name in OF_ROWS if name != "LowRankRegressor"]
X, Y = problem()
NAMES = [f"label {j}" for j in range(Y.shape[1])]
SEEN = ~np.isnan(Y)

every_estimator = pytest.mark.parametrize("name", MAKERS)
every_one_of_rows = pytest.mark.parametrize("name", OF_ROWS)
every_deciding_one = pytest.mark.parametrize("name", DECIDING)


def make(name: str, **settings: Any) -> Any:
    """A quick estimator, whose threshold comes from training scores where nothing else is said."""
    return MAKERS[name](**(({} if name == "LowRankRegressor" else ONE_FIT) | settings))


@cache
def fitted(name: str) -> Any:
    """The model of X and Y, fitted once for all tests that only ask it."""
    return fit(make(name), X, Y)


def assert_same_answers(one: Any, other: Any, case: str = "", features: Any = X, within: float = 0.0) -> None:
    expected = answers(one, X)
    for method, found in answers(other, features).items():
        # A sparse matrix of labels gives one of decisions.
        found = found.toarray() if sp.issparse(found) else found
        assert_allclose(found, expected[method], rtol=0, atol=within, err_msg=f"{case}: {method}")


def test_every_public_estimator_is_made_here() -> None:
    assert {name: type(make()) for name, make in QUICK.items()} == public_estimators()


# -- the checks of scikit-learn ------------------------------------------------------------------------------

# What is checked is what users get: nothing is set that would make a check quicker. A Recommender takes
# ratings and no rows of features.
DEFAULTS: dict[str, Any] = {
    **{name: kind() for name, kind in public_estimators().items() if name != "Recommender"},
    "MetricThreshold": labelgap.MetricThreshold(LogisticRegression()),
    "counts": LowRankRegressor("poisson", **GIVEN | {"trace_penalty": 0.02}),
}
OF_FOLDS = "folds of 15 rows with weights are not those of the repeated rows, which have copies in each fold"
OF_A_GAP = "fits end at a proven gap, not at the seventh digit; test_weights_of_rows_are_repetitions"
WEIGHTS = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    **{name: dict.fromkeys(WEIGHTS, OF_FOLDS) for name in DEFAULTS},
    "LowRankRegressor": {
        "check_regressors_no_decision_function": "decision_function gives the scores z on purpose",
        **dict.fromkeys(WEIGHTS, OF_A_GAP),
    },
    "counts": {
        "check_regressors_no_decision_function": "decision_function gives the scores z on purpose",
        "check_regressor_multioutput": "draws negative values for counts, whatever the tags say",
        **dict.fromkeys(WEIGHTS, OF_A_GAP),
    },
}
# Parts of about the same length, for the processes of pytest-xdist.
PARTS = 3


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_pass_the_checks_of_scikit_learn(name: str, part: int) -> None:
    checks = list(estimator_checks_generator(DEFAULTS[name]))
    assert len(checks) > 40
    failed = {}
    for estimator, check in checks[part::PARTS]:
        of = check.func.__name__
        try:
            check(clone(estimator))
        except SkipTest:
            continue
        except Exception as error:
            failed[of] = error
    expected = {check.func.__name__ for _, check in checks[part::PARTS]} & EXPECTED_FAILURES[name].keys()
    unexpected = [failed[of] for of in failed.keys() - expected]
    if unexpected:
        raise ExceptionGroup(f"{name} fails", unexpected)
    # Whether the seventh digit agrees all the same is luck.
    passed = [of for of in expected - failed.keys() if EXPECTED_FAILURES[name][of] != OF_A_GAP]
    assert not passed, "passes, and is expected to fail: take it off the list"


# With a threshold from training scores weights of rows are repetitions all the same. The checks compare
# probabilities to nine digits, which takes a fit that goes on for as long as rounding lets it: a gap bounds
# the square of what is left.
@pytest.mark.filterwarnings("ignore::labelgap.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["LowRankClassifier", "PlugInClassifier", "MetricThreshold"])
def test_weights_pass_the_checks_of_scikit_learn(name: str) -> None:
    model = QUICK[name](**ONE_FIT)
    model.set_params(**({"tol": 1e-14} if "tol" in model.get_params() else {}))
    about_weights = [c for _, c in estimator_checks_generator(model) if "sample_weight" in c.func.__name__]
    assert len(about_weights) > 5
    for check in about_weights:
        check(clone(model))


# -- parameters, copies, repetition --------------------------------------------------------------------------


@every_estimator
def test_clones_have_the_parameters_and_no_fit(name: str) -> None:
    model = fitted(name)
    copy = clone(model)
    assert str(copy.get_params()) == str(model.get_params())
    assert not [one for one in vars(copy) if one.endswith("_") and not one.startswith("_")]
    # Each parameter is kept as it was given, looked at only by the fit, and named where it is misspelt.
    for parameter in copy.get_params(deep=False):
        given = object()
        assert getattr(clone(copy).set_params(**{parameter: given}), parameter) is given
    with pytest.raises(ValueError, match="Invalid parameter 'trace_penatly'"):
        copy.set_params(trace_penatly=0.1)


@every_estimator
def test_pickled_and_saved_models_answer_alike(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    copies = {"pickle": pickle.loads(pickle.dumps(model))}
    if name == "MetricThreshold of a margin":
        with pytest.raises(InvalidInputError, match="holds a LinearSVC; of scikit-learn's classifiers only"):
            model.save(tmp_path / "one.labelgap")
    else:
        model.save(tmp_path / "one.labelgap")
        labelgap.save(model, tmp_path / "other.labelgap")
        assert (tmp_path / "one.labelgap").read_bytes() == (tmp_path / "other.labelgap").read_bytes()
        copies["file"] = labelgap.load(tmp_path / "one.labelgap")
    for how, copy in copies.items():
        assert_same_answers(model, copy, how)
        assert str(copy.get_params()) == str(model.get_params()), how
        if name in OF_ROWS:
            assert copy.score(X, Y) == model.score(X, Y), how


@every_estimator
def test_threads_and_repetition_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for threads in ("1", "2"):
        monkeypatch.setenv("LABELGAP_NUM_THREADS", threads)
        assert_same_answers(fitted(name), fit(make(name), X, Y), f"{threads} threads")


def test_jobs_change_nothing() -> None:
    # In one test, since processes take long to start.
    for name in MAKERS:
        held_out = {} if name == "LowRankRegressor" else {"threshold": "cross-fit"}
        if name in ("LowRankClassifier", "LowRankRegressor"):
            held_out["ridge_penalty"] = "auto"
        one, two = (fit(make(name, n_jobs=jobs, **held_out), X, Y) for jobs in (1, 2))
        assert_same_answers(one, two, name)


@every_one_of_rows
def test_fitted_answers_do_not_follow_later_parameters(name: str) -> None:
    model = pickle.loads(pickle.dumps(fitted(name)))
    score = model.score(X, Y)
    later = {"metric": "micro-recall", "loss": "squared", "unobserved": "negative", "family": "poisson"}
    model.set_params(**{one: value for one, value in later.items() if one in model.get_params()})
    assert_same_answers(fitted(name), model)
    assert model.score(X, Y) == score


# -- forms of labels and features ----------------------------------------------------------------------------


def forms_of_labels() -> dict[str, Any]:
    rows, cols = np.nonzero(SEEN)
    values = Y[SEEN].astype(int)
    shuffled = np.random.RandomState(0).permutation(len(rows))
    frame = pd.DataFrame(Y, columns=NAMES)
    triplets = rows[shuffled], cols[shuffled], values[shuffled]
    return {
        "nested lists with None": [[None if np.isnan(v) else v for v in row] for row in Y],
        "masked array": np.ma.masked_array(np.where(SEEN, Y, -9), ~SEEN),
        "Fortran order": np.asfortranarray(Y),
        "every other number": np.repeat(Y, 2, axis=1)[:, ::2],
        "sparse with stored zeros": sp.csr_array((values, (rows, cols)), shape=Y.shape),
        "coo matrix": sp.coo_matrix((values, (rows, cols)), shape=Y.shape),
        "pandas": frame.astype("Int64"),
        "polars": pl.DataFrame(frame.to_dict("list")).fill_nan(None),
        "from_mask": ObservedLabels.from_mask(np.nan_to_num(Y), SEEN),
        "from_triplets": ObservedLabels.from_triplets(*triplets, shape=Y.shape),
    }


@every_estimator
def test_every_form_of_labels_gives_the_same_model(name: str) -> None:
    for form, labels in forms_of_labels().items():
        if name == "Recommender":
            labels = ObservedLabels.from_any(labels)
            labels = ObservedLabels.from_triplets(labels.rows, labels.cols, labels.values, Y.shape)
        again = fit(make(name), X, labels)
        assert_same_answers(fitted(name), again, form)
        if name in OF_ROWS:
            assert again.score(X, labels) == fitted(name).score(X, Y), form
            assert (again.label_names_ is not None) == (form in ("pandas", "polars")), form


@every_one_of_rows
def test_every_form_of_features_gives_the_same_model(name: str) -> None:
    plain = fitted(name)
    read_only = X.copy()
    read_only.flags.writeable = False
    forms = {
        "Fortran order": np.asfortranarray(X),
        "every other number": np.repeat(X, 2, axis=1)[:, ::2],
        "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
        "read-only": read_only,
        "another byte order": X.astype(">f8"),
        "objects": X.astype(object),
        "lists": X.tolist(),
        "long doubles": X.astype(np.longdouble),
        "masked, all known": np.ma.masked_array(X, np.zeros(X.shape, dtype=bool)),
        "a frame of numbered columns": pd.DataFrame(X),
    }
    for form, features in forms.items():
        given = X.copy()
        # Sums over another layout have another order.
        assert_same_answers(plain, make(name).fit(features, Y), form, features, within=1e-9)
        assert_array_equal(X, given, err_msg=f"{form}: X was written to")
    # Of fewer digits: the model of the numbers that there are.
    whole = np.rint(1000 * X)
    rounded = {
        "half": X.astype(np.float16),
        "single": X.astype(np.float32),
        "whole numbers": whole.astype(np.int16),
        "beyond 2**53": (whole * 2.0**60 / 1000).astype(np.int64),
    }
    for form, features in rounded.items():
        # A penalty that is given is about the unit of the features.
        unit = features.astype(float).std() / X.std()
        in_unit = {"trace_penalty": 0.01 * unit, "ridge_penalty": 0.0}
        scaled = in_unit if name.startswith("LowRank") else {}
        # A classifier may compute in the type that it is given.
        as_float = features.astype(float)
        exact = make(name, **scaled).fit(as_float, Y).decision_function(as_float)
        found = make(name, **scaled).fit(features, Y).decision_function(features)
        assert np.abs(found - exact).max() <= 0.02 * (1 + np.abs(exact).max()), form


@every_one_of_rows
def test_sparse_features_give_the_same_model_as_dense_ones(name: str) -> None:
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    tight = {"tol": 1e-6} if "tol" in make(name).get_params() else {}
    dense = make(name, **tight).fit(thin, Y)
    layouts = (sp.csr_array, sp.csc_matrix, sp.coo_array) if name == "LowRankClassifier" else (sp.csr_array,)
    for layout in layouts:
        sparse = make(name, **tight).fit(layout(thin), Y)
        # Two classes of inner solvers, one of which sees its columns in another order.
        expected = dense.decision_function(thin)
        assert_allclose(sparse.decision_function(layout(thin)), expected, atol=1e-2, err_msg=layout.__name__)
        # One model answers alike whatever the layout is.
        assert_allclose(sparse.decision_function(thin), sparse.decision_function(layout(thin)), atol=1e-10)
        assert_array_equal(np.shape(sparse.predict(layout(thin))), Y.shape)


@every_deciding_one
def test_decisions_are_scores_at_or_above_the_threshold(name: str) -> None:
    model = fitted(name)
    scores, decided = model.decision_function(X), model.predict(X)
    assert isinstance(decided, np.ndarray)
    assert_array_equal(decided, scores >= model.threshold_)
    assert_array_equal(model.thresholds_, np.full(Y.shape[1], model.threshold_))
    in_rows = model.predict(X, output="sparse")
    assert in_rows.format == "csr"
    assert_array_equal(in_rows.toarray(), decided)
    # The form of the labels is that of the decisions; the form of the features is not.
    of_matrix = make(name).fit(X, ObservedLabels.from_dense(Y).to_sparse())
    assert sp.issparse(of_matrix.predict(X))
    assert isinstance(of_matrix.predict(X, output="dense"), np.ndarray)
    assert_array_equal(model.predict(sp.csr_array(X)), decided)
    with pytest.raises(UnknownNameError, match="sparse"):
        model.predict(X, output="spares")
    top, top_scores = model.predict_topk(X, k=3, return_scores=True)
    assert_array_equal(top, np.argsort(-scores, axis=1, kind="stable")[:, :3])
    assert_array_equal(top_scores, np.take_along_axis(scores, top, axis=1))
    for k in (0, 6, 2.0, True):
        with pytest.raises(InvalidParameterError, match="from 1 to 5, the number of labels"):
            model.predict_topk(X, k=k)


@every_deciding_one
def test_many_rows_are_answered_in_blocks(name: str) -> None:
    # More scores than one block has, of five labels and of all the classifiers of rows.
    model, times = fitted(name), 10_000
    many = np.tile(X[:85], (times, 1))
    assert_array_equal(model.predict(many).reshape(times, 85, -1)[[0, -1]], [model.predict(X[:85])] * 2)
    best = model.predict_topk(many, k=2).reshape(times, 85, -1)
    assert_array_equal(best[[0, -1]], [model.predict_topk(X[:85], k=2)] * 2)


@every_deciding_one
def test_score_is_the_metric_of_the_decisions(name: str) -> None:
    for metric in ("micro-f1", "macro-f1", "instance-jaccard", "micro-balanced-accuracy"):
        model = make(name, metric=metric).fit(X[:60], Y[:60])
        expected = get_metric(metric)(Y[60:], model.predict(X[60:]))
        assert model.score(X[60:], Y[60:]) == pytest.approx(expected, abs=1e-12), metric


@every_one_of_rows
def test_permuted_labels_and_rows_permute_the_answer(name: str) -> None:
    columns, rows = np.random.RandomState(1).permutation(5), np.random.RandomState(2).permutation(len(X))
    straight, permuted = fitted(name), make(name).fit(X[rows], Y[rows][:, columns])
    expected = straight.decision_function(X)[:, columns]
    assert_allclose(permuted.decision_function(X), expected, atol=1e-2)
    if name in DECIDING:
        assert permuted.threshold_ == pytest.approx(straight.threshold_, abs=1e-2)


# -- names ---------------------------------------------------------------------------------------------------


@every_one_of_rows
def test_names_of_features_are_kept_and_asked_for(name: str) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    for form in (frame, pl.DataFrame(frame.to_dict("list"))):
        model = make(name).fit(form, Y)
        assert model.feature_names_in_.tolist() == list("abcd")
        assert_same_answers(fitted(name), model, type(form).__module__, form, within=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


@every_one_of_rows
def test_labels_with_names_are_matched_by_them(name: str) -> None:
    frame = pd.DataFrame(Y, columns=NAMES)
    turned = frame[NAMES[::-1]]
    model = make(name).fit(X, frame)
    assert model.label_names_.tolist() == NAMES
    expected = model.score(X, Y)
    for labels in (turned, pl.DataFrame(turned.to_dict("list")), ObservedLabels.from_frame(turned)):
        assert model.score(X, labels) == expected
    # By place the answer would be another one; names that only number the columns say nothing.
    assert model.score(X, turned.to_numpy()) != expected
    assert model.score(X, pd.DataFrame(Y)) == expected
    with pytest.raises(InvalidLabelsError, match=r"Missing from y: 'label 1'\. Missing from the fit: 'x'"):
        model.score(X, frame.rename(columns={"label 1": "x"}))
    with pytest.raises(InvalidLabelsError, match=r"Missing from y: 'label 4'|labels have shape"):
        model.score(X, frame[NAMES[:4]])


@every_one_of_rows
def test_rows_of_frames_that_do_not_go_together_are_refused(name: str) -> None:
    model, rows = make(name), [f"r{row}" for row in range(len(X))]
    frame, labels = pd.DataFrame(X, index=rows), pd.DataFrame(Y, index=rows, columns=NAMES)
    frame.columns = list("abcd")
    says = "X and y have the same rows in another order; row 0 is 'r0' in X and 'r89' in y"
    for given in (labels[::-1], ObservedLabels.from_any(labels[::-1]), labels["label 0"][::-1]):
        with pytest.raises(InvalidLabelsError, match=says):
            model.fit(frame, given)
    for some_rows, some_labels in (
        (frame[:-1], labels[1:]),
        (frame.reset_index(drop=True)[:-1], labels.reset_index(drop=True)[1:]),
        (frame.iloc[[0, 2, 4]], labels.iloc[[1, 2, 4]]),
    ):
        with pytest.raises(InvalidLabelsError, match="X and y have different rows: only"):
            model.fit(some_rows, some_labels)
    with pytest.raises(InvalidLabelsError, match="reset_index"):
        model.fit(pd.DataFrame(X), pd.DataFrame(Y)[::-1])
    model.fit(frame, labels)
    with pytest.raises(InvalidLabelsError, match=says):
        model.score(frame, labels[::-1])
    # As the message advises; and names that one of them lacks, or of another kind, are no contradiction.
    part = [7, 2, 9, 0, 4, 5, 11, 3, 8, *range(20, 80)]
    for some_rows, some_labels in (
        (frame, labels[::-1].loc[frame.index]),
        (frame, labels.reset_index(drop=True)),
        (frame, labels.set_axis([f"s{row}" for row in range(len(X))])),
        (frame, labels.to_numpy()),
        (frame.iloc[part], labels.iloc[part].reset_index(drop=True)),
        (frame.reset_index(drop=True).iloc[part], labels.iloc[part]),
    ):
        found = make(name).fit(some_rows, some_labels).decision_function(frame)
        if len(some_rows) == len(frame):
            assert_allclose(found, fitted(name).decision_function(X), atol=1e-9)


@every_one_of_rows
def test_output_comes_in_frames_under_the_names_of_labels(name: str, tmp_path: Path) -> None:
    rows = [f"row {n}" for n in range(len(X))]
    frame = pd.DataFrame(X, columns=list("abcd"), index=rows)
    labels = pd.DataFrame(Y, columns=NAMES, index=rows)
    model = make(name).fit(frame, labels)
    arrays, score = answers(model, frame), model.score(frame, labels)
    assert model.set_output(transform="pandas") is model
    for method, array in arrays.items():
        found = getattr(model, method)(frame)
        assert (found.columns.tolist(), found.index.tolist()) == (NAMES, rows)
        assert_array_equal(found.to_numpy(), array)
    # What is scored and judged does not change; clones and files keep the switch.
    assert model.score(frame, labels) == score
    assert isinstance(clone(model).fit(frame, labels).predict(frame), pd.DataFrame)
    if name != "MetricThreshold of a margin":
        model.save(tmp_path / "model")
        assert isinstance(labelgap.load(tmp_path / "model").predict(frame), pd.DataFrame)
    found = model.set_output(transform="polars").predict(frame)
    assert (type(found), found.columns) == (pl.DataFrame, NAMES)
    assert_array_equal(found.to_numpy(), arrays["predict"])
    assert isinstance(model.set_output(transform=None).predict(frame), pl.DataFrame)
    if name in DECIDING:
        top, top_scores = model.set_output(transform="pandas").predict_topk(frame, 2, return_scores=True)
        places, scores = fitted(name).predict_topk(X, k=2, return_scores=True)
        assert list(top.columns) == ["top_1", "top_2"]
        assert top.to_numpy().tolist() == [[NAMES[place] for place in row] for row in places]
        assert_allclose(top_scores.to_numpy(), scores, atol=1e-9)
    assert isinstance(model.set_output(transform="default").predict(frame), np.ndarray)
    with pytest.raises(UnknownNameError, match="value of transform 'numpy'"):
        model.set_output(transform="numpy")
    # Labels without names are numbered, and so are rows.
    unnamed = make(name).fit(X, Y).set_output(transform="pandas").predict(X)
    assert unnamed.columns.tolist() == [f"label_{j}" for j in range(5)]
    assert unnamed.index.tolist() == list(range(len(X)))


# -- a single label ------------------------------------------------------------------------------------------


@every_deciding_one
def test_a_vector_of_any_two_values_is_one_label(name: str) -> None:
    values = np.nan_to_num(Y[:, 0])
    words = np.where(values == 1, "yes", "no")
    numbers, named = make(name).fit(X, values[:, None]), make(name).fit(X, words)
    assert named.classes_.tolist() == ["no", "yes"]
    assert named.predict(X).shape == named.decision_function(X).shape == (len(X),)
    assert_array_equal(named.predict(X) == "yes", numbers.predict(X)[:, 0] == 1)
    assert named.score(X, words) == numbers.score(X, values[:, None])
    if hasattr(named, "predict_proba"):
        assert_allclose(named.predict_proba(X).sum(axis=1), 1)
        frame = pd.DataFrame(X)
        framed = named.set_output(transform="pandas")
        assert framed.predict_proba(frame).columns.tolist() == ["no", "yes"]
        assert isinstance(framed.predict(frame), pd.Series)
        named.set_output(transform="default")
    with pytest.raises(InvalidLabelsError, match="'maybe' at row 1"):
        named.score(X[:2], ["yes", "maybe"])
    # It may have gaps of any kind.
    gappy = np.where(Y[:, 0] == 1, "yes", "no").astype(object)
    for at, row in enumerate(np.flatnonzero(~SEEN[:, 0])):
        gappy[row] = (None, np.nan, pd.NA)[at % 3]
    column = make(name).fit(X, Y[:, :1]).predict(X)[:, 0]
    assert_array_equal(make(name).fit(X, gappy).predict(X) == "yes", column)


# -- what an absent entry means ------------------------------------------------------------------------------


@every_deciding_one
def test_an_absent_entry_means_what_is_said_of_it(name: str) -> None:
    recorded = np.nan_to_num(Y)
    positives = sp.csr_array(recorded)
    positives.eliminate_zeros()
    with pytest.raises(InvalidLabelsError, match=r"unobserved='negative'.*unobserved='unlabelled'"):
        make(name).fit(X, positives)
    meanings: dict[str, Any] = {"negative": lambda **settings: make(name, **settings)}
    if name == "LowRankClassifier":
        meanings["unlabelled"] = likes
    else:
        with pytest.raises(InvalidParameterError, match="positive-unlabelled"):
            make(name, unobserved="unlabelled").fit(X, positives)
    for meaning, made in meanings.items():
        told = made(unobserved=meaning).fit(X, positives)
        # Labels that say so themselves are read as if the parameter did.
        said = ObservedLabels.from_any(recorded, meaning)
        own = made(unobserved="missing").fit(X, said) if meaning == "negative" else likes().fit(X, said)
        for labels, model in (("recorded", made(unobserved=meaning).fit(X, recorded)), ("own", own)):
            scores = model.decision_function(X)
            assert_array_equal(scores, told.decision_function(X), err_msg=f"{meaning}: {labels}")
        assert own.score(X, positives) == told.score(X, positives) == told.score(X, said)
        # A vector and the matrix of one column are judged alike, also where nothing stands for a no.
        vector = made(unobserved=meaning).fit(X, recorded[:, 0])
        expected = vector.score(X, recorded[:, :1])
        assert vector.score(X, recorded[:, 0]) == expected
        assert vector.score(X, np.where(recorded[:, 0] == 1, 1.0, np.nan)) == expected
        by_fold = [
            cross_val_score(clone(vector), X, y, cv=KFold(2)) for y in (recorded[:, 0], recorded[:, :1])
        ]
        assert_array_equal(*by_fold)
    complete = make(name).fit(X, recorded)
    as_no = make(name, unobserved="negative").fit(X, positives)
    assert_array_equal(as_no.predict(X, output="dense"), complete.predict(X))
    no, unsaid = (ObservedLabels.from_any(recorded, meaning) for meaning in ("negative", "unlabelled"))
    with pytest.raises(InvalidParameterError, match=r"unobserved is 'negative'.* unobserved='unlabelled'"):
        make(name, unobserved="negative").fit(X, unsaid)
    with pytest.raises(InvalidParameterError, match=r"unobserved is 'unlabelled'.* unobserved='negative'"):
        fitted(name).score(X, no, unobserved="unlabelled")
    # The default contradicts nothing.
    assert fitted(name).score(X, no) == fitted(name).score(X, recorded)


# -- pipelines and searches ----------------------------------------------------------------------------------


@every_one_of_rows
def test_pipelines_folds_and_grids_take_gaps(name: str) -> None:
    moved = 3 * X + 1
    pipeline = make_pipeline(StandardScaler(), make(name)).fit(moved, Y)
    direct = make(name).fit(StandardScaler().fit_transform(moved), Y)
    assert_array_equal(pipeline.predict(moved), direct.predict(pipeline[0].transform(moved)))
    assert pipeline.score(moved, Y) == direct.score(pipeline[0].transform(moved), Y)
    model = make(name)
    expected = [clone(model).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in KFold(3).split(X)]
    # A number of folds would stratify by y and refuse NaN in it, if this were a classifier to scikit-learn.
    assert not is_classifier(model)
    assert is_regressor(model) == (name == "LowRankRegressor")
    for labels in (Y, ObservedLabels.from_dense(Y), pd.DataFrame(Y, columns=NAMES)):
        assert_allclose(cross_val_score(model, X, labels, cv=3), expected, rtol=1e-12)
    grid = {"threshold": ["train", "holdout"]} if name in DECIDING else {"trace_penalty": [0.01, 0.3]}
    (last,) = [step for step, part in pipeline.steps[-1:]]
    search = GridSearchCV(pipeline, {f"{last}__{one}": values for one, values in grid.items()}, cv=3)
    # cross_val_score itself refuses a sparse y, the grid search takes one.
    for labels in (ObservedLabels.from_dense(Y), forms_of_labels()["sparse with stored zeros"]):
        assert search.fit(X, labels).predict(X).shape == Y.shape
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_labels_that_cross_val_predict_has_coded_anew_are_refused_with_the_cause() -> None:
    model = low_rank(**ONE_FIT)
    for method in ("predict_proba", "decision_function"):
        with pytest.raises(InvalidLabelsError, match=r"is 2, which is neither 0 nor 1.*has coded NaN as 2"):
            cross_val_predict(model, X, Y, method=method, cv=3)
    assert cross_val_predict(model, X, Y, cv=3).shape == Y.shape


# -- little data and bad data --------------------------------------------------------------------------------


@every_one_of_rows
def test_labels_that_say_little_are_told_of_once(name: str) -> None:
    gaps = Y.copy()
    gaps[:, [1, 3]] = np.nan
    with pytest.warns(UninformativeLabelsWarning, match=r"2 of 5 labels .*the first: 1") as told:
        model = make(name).fit(X, gaps)
    assert len(told) == 1
    scores = model.decision_function(X)
    assert_allclose(scores[:, [1, 3]], scores[0, 1])
    few = np.full((3, 2), np.nan)
    few[0, 0], few[1, 0], few[2, 0] = 1, 0, 0
    choosing = {"trace_penalty": "auto"} if name == "LowRankRegressor" else {"threshold": "cross-fit"}
    with pytest.warns(LabelgapWarning) as told:
        model = make(name, **choosing).fit(X[:3], few)
    assert any("too few to hold any out" in str(warning.message) for warning in told)
    assert np.isfinite(model.decision_function(X)).all()


def nothing(name: str) -> Any:
    """A copy that is not fitted."""
    return clone(make(name))


@every_one_of_rows
def test_labels_and_parameters_that_cannot_be_used(name: str) -> None:
    model = pickle.loads(pickle.dumps(fitted(name)))
    two = np.where(np.isnan(Y), 2.0, Y) + (np.arange(5) == 0) * 2
    one_class = "Every one of the .* positive|all have the same value|is positive|one class"
    table: dict[str, tuple[Any, str]] = {
        "fewer labels": (lambda: nothing(name).fit(X, Y[:-1]), "have 89|shape .89, 5.; 90 rows"),
        "no labels": (lambda: nothing(name).fit(X, np.full_like(Y, np.nan)), "No label is observed"),
        "None": (lambda: nothing(name).fit(X, None), "target y is None"),
        "0 rows": (lambda: nothing(name).fit(X[:0], Y[:0]), "0 sample"),
        "a cube": (lambda: nothing(name).fit(X, np.zeros((90, 5, 2))), "must be 2-d|3 dimensions|3-d"),
        "complex labels": (lambda: nothing(name).fit(X, Y[:, 0] * 1j), "[Cc]omplex|is no number"),
        "fewer columns": (lambda: model.score(X, Y[:, :4]), r"shape \(90, 4\)"),
        "fewer features": (lambda: model.predict(X[:, :2]), "features"),
        "no rows to predict": (lambda: model.predict(X[:0]), "0 sample"),
        "a vector of features": (lambda: model.predict(X[0]), "Reshape your data|Expected 2D"),
    }
    if name in DECIDING:
        table |= {
            "a third value": (lambda: nothing(name).fit(X, two), "row 0, column 0 is 2"),
            "one class": (lambda: nothing(name).fit(X, np.where(Y == 1, 1, np.nan)), one_class),
            "one class of a vector": (
                lambda: nothing(name).fit(X, np.ones(90)),
                "one class|both classes|same",
            ),
        }
        for parameter, value, known in (
            ("threshold", "crossfit", "cross-fit"),
            ("metric", "micro-f_1", "micro-f1"),
            ("unobserved", "negatives", "negative"),
            ("thresholds", "perlabel", "per-label"),
            ("calibration", "beta", "isotonic"),
        ):
            changed = nothing(name).set_params(**{parameter: value})
            assert_refused(lambda changed=changed: changed.fit(X, Y), known, UnknownNameError, parameter)
    for case, (use, message) in table.items():
        assert_refused(use, message, case=case)
    assert_same_answers(fitted(name), model, "the model is as it was")
