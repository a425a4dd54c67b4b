"""``complete``: the gaps of training rows, decided by XW + N; and W refitted on soft labels."""

from __future__ import annotations

import tracemalloc
import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import labelgap
from labelgap import LowRankClassifier, ObservedLabels
from labelgap.completing.row_choice import RowModel, fit_rows
from labelgap.completing.soft_labels import SoftRefit, unobserved_sample
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    LabelgapWarning,
    UnknownNameError,
)
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.losses import Bernoulli, Logistic
from labelgap.objective.parts import FeatureSettings, ProblemSettings
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, Penalties
from labelgap.solvers.joint_state import JointFactors
from oracles_solver import cvxpy_optimum
from refusals import assert_refused

FIXED: dict[str, Any] = {
    "trace_penalty": 0.02,
    "ridge_penalty": 0.001,
    "intercept_penalty": 0.0,
    "features": "linear",
    "random_state": 0,
}
PROBLEM = make_low_rank_labels(n=120, n_labels=12, observed=0.5, random_state=1)
# Two of the features that decide the labels: the others show in the labels of a row alone.
X, Y = PROBLEM.X[:, :2], PROBLEM.Y_observed
SEEN = ~np.isnan(Y)


def fit(**settings: Any) -> LowRankClassifier:
    return LowRankClassifier(**FIXED | settings).fit(X, Y)


@pytest.fixture(scope="module")
def clf() -> LowRankClassifier:
    return fit()


@pytest.fixture(scope="module")
def completed(clf: LowRankClassifier) -> Any:
    return clf.complete(X, Y)


def sigmoid(scores: Any) -> Any:
    return 1 / (1 + np.exp(-scores))


def with_gaps(labels: Any, fraction: float, rng: Any) -> Any:
    return np.where(rng.random(labels.shape) < fraction, np.nan, labels)


# -- labels that judge ---------------------------------------------------------------------------------------


def assert_same_completion(found: Any, expected: Any) -> None:
    assert (found.row_penalty, found.threshold) == (expected.row_penalty, expected.threshold)
    assert_array_equal(found.predict(), expected.predict())
    assert_array_equal(found.predict_proba(), expected.predict_proba())


def test_the_labels_that_judged_the_fit_judge_the_completion(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    problem = make_low_rank_labels(n=150, n_labels=12, observed=0.5, random_state=1)
    # A fair sample of labels, and many more that are a yes.
    X, fair = problem.X[:, :2], ~np.isnan(problem.Y_observed)
    some = (problem.Y == 1) & ~fair & (rng.random(fair.shape) < 0.6)
    Y = np.where(some, 1.0, problem.Y_observed)
    given = FIXED | {"calibration": "sigmoid"}
    clf = LowRankClassifier(**given).fit(X, Y, judged=fair)
    marked = ObservedLabels.from_dense(Y).with_judging(fair)
    expected = clf.complete(X, marked)
    assert expected.threshold != LowRankClassifier(**given).fit(X, Y).complete(X, Y).threshold
    assert_same_completion(clf.complete(X, Y), expected)
    # A file without the data does not say which labels judged.
    clf.save(tmp_path / "model", with_data=False)
    assert_same_completion(labelgap.load(tmp_path / "model").complete(X, Y, judged=fair), expected)
    # In batches, and with a row of weight 0.
    weights = np.arange(len(X)) != 3
    parts = LowRankClassifier(**given)
    parts.partial_fit(X[:90], Y[:90], judged=fair[:90], sample_weight=weights[:90])
    parts.partial_fit(X[90:], Y[90:], judged=fair[90:])
    found = parts.complete(X, Y, sample_weight=weights)
    assert_same_completion(found, parts.complete(X, marked, sample_weight=weights))
    # At the same scores, probabilities are not those of a sample in which too many are a yes.
    fairly, biased = (clf.complete(X, Y, 0.003, judged=given) for given in (fair, ~np.isnan(Y)))
    assert_array_equal(fairly.decision_function(), biased.decision_function())
    assert fairly.predict_proba().mean() < biased.predict_proba().mean() - 0.02
    # In another order they must be said.
    order = rng.permutation(len(X))
    with pytest.raises(InvalidLabelsError, match="judged"):
        clf.complete(X[order], Y[order])
    assert clf.complete(X[order], Y[order], 0.003, judged=fair[order]).predict().shape == Y.shape
    with pytest.raises(InvalidInputError, match="judged have shape"):
        clf.complete(X, Y, judged=fair[:5])


# -- scores and decisions ------------------------------------------------------------------------------------


def test_labels_of_a_row_help_where_its_features_do_not(clf: Any, completed: Any, tmp_path: Any) -> None:
    gaps = np.where(SEEN, np.nan, PROBLEM.Y)
    assert completed.row_rank >= 1
    assert completed.score(PROBLEM.Y) > clf.score(X, gaps) + 0.05
    assert completed.held_out_metric > completed.held_out_metric_without
    assert completed.relative_gap <= clf.tol
    assert completed.candidates[0].row_penalty == np.inf
    assert completed.row_penalty in [candidate.row_penalty for candidate in completed.candidates]
    # The same of labels in another form, and of a loaded model.
    clf.save(tmp_path / "model.labelgap")
    again = labelgap.load(tmp_path / "model.labelgap")
    assert_same_completion(again.complete(X, ObservedLabels.from_dense(Y)), completed)


def test_the_ways_to_ask_for_decisions_agree(completed: Any) -> None:
    scores = completed.decision_function()
    every = scores >= completed.threshold
    kept = np.where(SEEN, Y == 1, every)
    assert_array_equal(completed.predict(keep_observed=False), every)
    for output in (None, "dense", "sparse"):
        found = completed.predict() if output is None else completed.predict(output)
        assert_array_equal(found.toarray() if sp.issparse(found) else found, kept)
    rows = np.array([5, 0, 5])
    assert_array_equal(completed.predict(rows=rows), kept[rows])
    # More rows than one block has.
    many = np.tile(np.arange(120), 3000)
    assert_array_equal(completed.predict("dense", rows=many).reshape(3000, 120, 12)[[0, -1]], [kept, kept])
    p = np.where(SEEN, Y, sigmoid(scores))
    assert_allclose(completed.predict_proba(rows, keep_observed=True), p[rows])
    assert_allclose(completed.predict_proba([3]), sigmoid(scores[[3]]))
    assert_allclose(completed.decision_function(rows), scores[rows])
    assert_allclose(completed.scores_at(rows, [1, 2, 3]), scores[rows, [1, 2, 3]])
    assert "120 x 12" in repr(completed)
    assert "120 x 12" in completed._repr_html_()


def test_without_a_part_of_the_rows_the_decisions_are_those_of_predict(clf: Any) -> None:
    alone = clf.complete(X, Y, row_penalty=np.inf)
    assert_allclose(alone.decision_function(), clf.decision_function(X), atol=1e-10)
    assert_array_equal(alone.predict(keep_observed=False), clf.predict(X))
    assert (alone.row_rank, alone.duality_gap, alone.objective) == (0, clf.duality_gap_, clf.objective_)
    assert alone.held_out_metric == alone.held_out_metric_without
    # So it is where labels say nothing of each other.
    rng = np.random.default_rng(0)
    features = rng.standard_normal((150, 3))
    labels = (features @ rng.standard_normal((3, 6)) + 1.5 * rng.standard_normal((150, 6)) > 0).astype(float)
    labels = with_gaps(labels, 0.5, rng)
    model = LowRankClassifier(**FIXED).fit(features, labels)
    found = model.complete(features, labels)
    assert found.row_penalty == np.inf
    assert_array_equal(found.predict(keep_observed=False), model.predict(features))


@pytest.mark.parametrize("label_weighting", [0.0, 0.5])
def test_the_fit_is_the_one_that_is_claimed(label_weighting: float) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 3)) + 0.5
    Y = with_gaps((rng.random((30, 5)) < 0.4).astype(float), 0.4, rng)
    Y[0], Y[1] = 1, 0
    clf = LowRankClassifier(**FIXED, tol=1e-6, label_weighting=label_weighting).fit(X, Y)
    found = clf.complete(X, Y, row_penalty=0.02)
    labels, scores = ObservedLabels.from_dense(Y), found.decision_function()
    k = found.rank
    P, Q = found.row_factors, found.label_factors
    scales = np.ones(5)
    if label_weighting:
        settings = ProblemSettings(Logistic(), FeatureSettings(label_weighting=label_weighting))
        scales = RowModel(X, labels, settings, Penalties(1.0), None).shared.features.label_scales
    W = np.linalg.lstsq(X, P[:, :k] @ Q[:, :k].T, rcond=None)[0] / scales
    N = P[:, k:] @ Q[:, k:].T / scales
    value = Logistic().value(scores[labels.rows, labels.cols], labels.values).mean()
    value += 0.02 * np.linalg.norm(W, "nuc") + 0.0005 * np.sum(W**2) + 0.02 * np.linalg.norm(N, "nuc")
    assert value == pytest.approx(found.objective, rel=1e-6)
    if not label_weighting:
        best = cvxpy_optimum(X, Y, "logistic", 0.02, ridge=0.001, row_penalty=0.02)
        assert -1e-7 <= found.objective - best <= found.duality_gap + 1e-7


def test_names_are_those_of_the_labels() -> None:
    names = [f"tag {j}" for j in range(12)]
    frame = pd.DataFrame(Y, columns=names, index=[f"row {i}" for i in range(120)])
    clf = LowRankClassifier(**FIXED).fit(X, frame)
    found = clf.complete(X, frame[names[::-1]], row_penalty=0.02)
    table = found.to_frame()
    assert (list(table.columns), list(table.index)) == (names, list(frame.index))
    assert_array_equal(table.to_numpy(), found.predict("dense"))


def test_rows_of_weight_zero_are_decided_by_their_features() -> None:
    weights = np.ones(120)
    weights[[3, 50]] = 0.0
    kept = weights > 0
    clf = LowRankClassifier(**FIXED).fit(X, Y, sample_weight=weights)
    found = clf.complete(X, Y, row_penalty=0.004, sample_weight=weights)
    assert not found.row_factors[~kept][:, found.rank :].any()
    assert found.row_factors[kept][:, found.rank :].any()
    # The same fit as without these rows.
    same = LowRankClassifier(**FIXED).fit(X[kept], Y[kept]).complete(X[kept], Y[kept], row_penalty=0.004)
    assert_allclose(found.decision_function()[kept], same.decision_function(), atol=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"thresholds": "per-label", "metric": "macro-f1"},
        {"subject_to": "recall >= 0.9"},
        pytest.param({"calibration": "sigmoid"}, marks=pytest.mark.slow),
        {"threshold": "holdout"},
        {"threshold": "train", "loss": "squared"},
        pytest.param({"fit_intercept": False}, marks=pytest.mark.slow),
        {"penalty": "scores"},
    ],
    ids=str,
)
def test_other_settings_of_the_fit_are_kept(options: Any) -> None:
    found = fit(**options).complete(X, Y, row_penalty=0.004)
    assert found.row_rank >= 1
    assert found.relative_gap <= 1e-3
    p = found.predict_proba()
    assert ((p >= 0) & (p <= 1)).all()
    if "subject_to" in options:
        recall = labelgap.get_metric("micro-recall")
        assert recall(Y, found.decision_function() >= found.threshold) >= 0.85
    if "thresholds" in options:
        assert len(np.unique(found.thresholds)) > 1


@pytest.mark.slow
def test_kernel_features_are_completed_too() -> None:
    features = PROBLEM.X[:, :3]
    clf = LowRankClassifier(features="rbf", trace_penalty=0.01, random_state=0).fit(features, Y)
    alone = clf.complete(features, Y, row_penalty=np.inf)
    assert_allclose(alone.decision_function(), clf.decision_function(features), atol=1e-8)
    assert clf.complete(features, Y, row_penalty=0.02).relative_gap <= 1e-3


@pytest.mark.parametrize("penalties", [{}, {"trace_penalty": "auto", "ridge_penalty": "auto"}])
def test_sparse_features_and_sparse_labels_are_completed_too(penalties: Any) -> None:
    rng = np.random.default_rng(0)
    features = sp.csr_array(np.where(rng.random((120, 4)) < 0.5, PROBLEM.X[:, :4], 0.0))
    labels = ObservedLabels.from_dense(Y).to_sparse()
    options = {**FIXED, **penalties, "intercept_penalty": "auto", "max_iter": 200, "threshold": "holdout"}
    clf = LowRankClassifier(**options).fit(features, labels)
    found = clf.complete(features, labels, row_penalty=0.004)
    alone = clf.complete(features, labels, row_penalty=np.inf)
    assert_allclose(alone.decision_function(), clf.decision_function(features), atol=1e-8)
    assert found.relative_gap <= 1e-3
    assert sp.issparse(found.predict())


def test_nothing_of_the_size_of_all_entries_is_made() -> None:
    n, n_labels, per_row = 6000, 1500, 4
    rng = np.random.default_rng(0)
    cols = np.argsort(rng.random((n, 40)), axis=1)[:, :per_row] + 36 * rng.integers(0, 40, (n, 1))
    labels = ObservedLabels.from_triplets(
        np.repeat(np.arange(n), per_row), cols.ravel(), rng.integers(0, 2, n * per_row), (n, n_labels)
    )
    solver, features = SolverSettings(SOLVERS["auto"], tol=0.1), rng.standard_normal((n, 3))
    model = RowModel(features, labels, ProblemSettings(Logistic()), Penalties(0.02), solver)
    start = model.without_rows(labels, 0.1).factors
    tracemalloc.start()
    fit = fit_rows(model, start, 8e-5)
    model.scores(fit.factors, labels)
    unobserved_sample(labels, 20_000, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fit.factors.row_rank >= 1
    # A number for each of all entries would be 72 MB.
    assert peak < 36e6


# -- refusals ------------------------------------------------------------------------------------------------


def test_rows_labels_and_penalties_that_cannot_be_completed(clf: Any, completed: Any) -> None:
    labels = ObservedLabels.from_dense(Y)
    offsets = labels.with_offsets(np.ones(labels.n_observed))
    of_labels: dict[str, tuple[Any, str]] = {
        "others": ((X[:60], Y[:60]), r"the rows of the fit, and these are others: over these 60 rows"),
        "all known": ((X, PROBLEM.Y), "fit again with these"),
        "none known": ((X, np.full(Y.shape, np.nan)), "No label is observed"),
        "fewer": ((X, Y[:, :5]), "12 labels of the fit were expected"),
        "offsets": ((X, offsets), "offsets"),
    }
    for case, (given, message) in of_labels.items():
        assert_refused(partial(clf.complete, *given), message, InvalidLabelsError, case)
    with pytest.raises(InvalidLabelsError, match="with its sample_weight"):
        clf.complete(X, Y, sample_weight=np.arange(1.0, 121.0))
    # The same rows in another order are the same rows.
    turned = clf.complete(X[::-1], Y[::-1], row_penalty=np.inf)
    assert_allclose(turned.decision_function(), clf.decision_function(X)[::-1], atol=1e-10)
    for value in (0.0, -1.0, "small", None, True, float("nan")):
        use = partial(clf.complete, X, Y, row_penalty=value)
        assert_refused(use, "row_penalty must be", InvalidParameterError, value)
    for use, message in (
        (partial(completed.decision_function, [120]), "from 0 to 119"),
        (partial(completed.decision_function, [0.5]), "by their numbers"),
        (partial(completed.scores_at, [0, 1], [0]), "one label for each row"),
        (partial(completed.scores_at, [0], [12]), "from 0 to 11"),
    ):
        assert_refused(use, message, InvalidInputError)
    with pytest.raises(InvalidLabelsError, match="shape"):
        completed.score(PROBLEM.Y[:5])


def test_fits_that_cannot_be_completed_are_named() -> None:
    few, complete = X[:40], PROBLEM.Y[:40, :4]
    likes = {"unobserved": "unlabelled", "flip_rate": 0.2, "ridge_penalty": 0.1}
    for settings, labels, message in (
        (likes, sp.csr_array(complete), "unobserved='unlabelled'"),
        ({"unobserved": "negative"}, sp.csr_array(complete), "unobserved='negative'"),
        ({}, complete[:, 0], "single label"),
        ({"score_bound": 2.0}, complete, r"score_bound=2\.0"),
    ):
        clf = LowRankClassifier(**FIXED | {"threshold": "train"} | settings).fit(few, labels)
        assert_refused(partial(clf.complete, few, labels), message, InvalidParameterError)


def test_too_few_labels_to_hold_any_out() -> None:
    X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[0, np.nan], [1, np.nan], [np.nan, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = LowRankClassifier(**FIXED).fit(X, Y)
    with pytest.warns(LabelgapWarning, match="too few to hold any out"):
        found = clf.complete(X, Y)
    assert found.row_penalty == np.inf
    assert found.held_out_metric is None


# -- soft labels ---------------------------------------------------------------------------------------------


def test_a_sample_is_of_unobserved_entries_that_can_say_something_and_uniform() -> None:
    rng = np.random.default_rng(3)
    Y = with_gaps((rng.random((20, 6)) < 0.5).astype(float), 0.7, rng)
    Y[4] = np.nan
    Y[:, 5] = np.where(np.isnan(Y[:, 5]), np.nan, 1.0)
    labels = ObservedLabels.from_dense(Y)
    possible = np.isnan(Y) & ~np.isnan(Y).all(axis=1)[:, None]
    # A label of one class has no part of the rows.
    possible[:, np.nanmin(Y, axis=0) == np.nanmax(Y, axis=0)] = False
    for most in (3, 10, 1000):
        rows, cols = unobserved_sample(labels, most, 0)
        assert len(rows) == len(set(zip(rows.tolist(), cols.tolist(), strict=True)))
        assert len(rows) == min(most, possible.sum()), most
        assert possible[rows, cols].all(), most
        assert_array_equal(unobserved_sample(labels, most, 0)[0], rows)
    rows, cols = np.nonzero(rng.random((60, 50)) < 0.1)
    labels = ObservedLabels.from_triplets(rows, cols, np.arange(len(rows)) % 2, (60, 50))
    counts = np.zeros(60)
    for seed in range(200):
        np.add.at(counts, unobserved_sample(labels, 30, seed)[0], 1)
    # 100 of each row on average, with a standard deviation of about 10.
    assert 50 < counts.min() < counts.max() < 150


def test_a_refit_minimises_the_objective_that_is_claimed() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 3))
    Y = with_gaps((rng.random((40, 5)) < 0.4).astype(float), 0.5, rng)
    labels = ObservedLabels.from_dense(Y)
    labels = labels.with_weights(rng.uniform(0.5, 2.0, labels.n_observed))
    penalties = Penalties(0.02, 0.003)
    solver = SolverSettings(SOLVERS["auto"], tol=1e-7)
    model = RowModel(X, labels, ProblemSettings(Logistic()), penalties, solver)
    start = model.without_rows(labels, 1e-6).factors
    refit = SoftRefit(model, 0.02, seed=0)
    N = rng.standard_normal((40, 1)), rng.standard_normal((5, 1))
    soft = refit.soft_labels(labels, JointFactors(*start[:2], *N, start.intercept))

    def scores(factors: Factors) -> Any:
        left, right, b = model.shared.to_original(factors)
        return X @ left @ right.T + b

    assert_allclose(soft.values, sigmoid((scores(start) + N[0] @ N[1].T)[soft.rows, soft.cols]))
    omega = 3.0
    fit = refit.fit(labels, soft, omega, start, solver)

    def objective(factors: Factors) -> float:
        Z = scores(factors)
        known = Logistic().value(Z[labels.rows, labels.cols], labels.values)
        guessed = Bernoulli().value(Z[soft.rows, soft.cols], soft.values)
        W = factors.left @ factors.right.T
        penalty = penalties.trace * np.linalg.norm(W, "nuc") + 0.5 * penalties.ridge * np.sum(W**2)
        return np.average(known, weights=labels.weights) + omega * guessed.mean() + penalty

    assert objective(fit.factors) == pytest.approx(fit.objective, rel=1e-8)
    assert fit.relative_gap <= 1e-7
    for _ in range(20):
        left, right, b = (part + 1e-3 * rng.standard_normal(part.shape) for part in fit.factors)
        assert objective(Factors(left, right, b)) > fit.objective - fit.gap


def test_soft_labels_change_the_model_and_are_saved(clf: Any, tmp_path: Any) -> None:
    assert clf.soft_label_weight_ == 0
    soft = fit(soft_labels=3.0)
    assert soft.soft_label_weight_ == 3.0
    assert soft.relative_gap_ <= soft.tol
    assert soft.duality_gap_ == pytest.approx(soft.relative_gap_ * soft.objective_)
    assert np.abs(soft.coef_ - clf.coef_).max() > 1e-3
    soft.save(tmp_path / "model.labelgap")
    again = labelgap.load(tmp_path / "model.labelgap")
    assert (again.soft_labels, again.soft_label_weight_) == (3.0, 3.0)
    assert_array_equal(again.predict(X), soft.predict(X))
    # A fit without them forgets the weight; of weight 0 they are none.
    assert soft.set_params(soft_labels=0.0).fit(X, Y).soft_label_weight_ == 0
    assert_array_equal(soft.coef_, clf.coef_)


@pytest.mark.parametrize("threshold", ["cross-fit", pytest.param("train", marks=pytest.mark.slow)])
def test_the_weight_of_soft_labels_is_chosen_on_held_out_rows(threshold: str) -> None:
    chosen = fit(threshold=threshold, soft_labels="auto")
    assert chosen.soft_label_weight_ in (0.0, 1.0, 3.0, 10.0)
    if chosen.soft_label_weight_ == 0:
        plain = fit(threshold=threshold)
        assert_array_equal(chosen.coef_, plain.coef_)
        assert chosen.threshold_ == plain.threshold_


def test_soft_labels_that_cannot_be_had_are_refused() -> None:
    for value in (-1.0, float("inf"), "much", None):
        use = partial(fit, soft_labels=value)
        assert_refused(use, "soft_labels", (InvalidParameterError, UnknownNameError), value)
    for options, said in (
        ({"loss": "squared"}, "loss='logistic'"),
        ({"unobserved": "unlabelled"}, "unobserved='unlabelled'"),
        ({"score_bound": 2.0}, "score_bound"),
    ):
        assert_refused(partial(fit, soft_labels=1.0, **options), said, InvalidParameterError, said)
