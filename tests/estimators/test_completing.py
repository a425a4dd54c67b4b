"""``complete``: the gaps of training rows, decided by XW + N; and W refitted on soft labels."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import labelgap
from labelgap import LowRankClassifier, ObservedLabels
from labelgap.completing import completion
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

FIXED = {"trace_penalty": 0.02, "ridge_penalty": 0.001, "intercept_penalty": 0.0, "features": "linear"}


@pytest.fixture(scope="module")
def problem():
    return make_low_rank_labels(n=120, n_labels=12, observed=0.5, random_state=1)


@pytest.fixture(scope="module")
def fitted(problem):
    # Two of the features that decide the labels: the others show in the labels of a row alone.
    X = problem.X[:, :2]
    return X, LowRankClassifier(**FIXED, random_state=0).fit(X, problem.Y_observed)


@pytest.fixture(scope="module")
def completed(problem, fitted):
    X, clf = fitted
    return clf.complete(X, problem.Y_observed)


# -- labels that judge ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked():
    """Features, a fair sample of labels with many more that are a yes, and which entries are fair."""
    rng = np.random.default_rng(0)
    problem = make_low_rank_labels(n=150, n_labels=12, observed=0.5, random_state=1)
    fair = ~np.isnan(problem.Y_observed)
    some = (problem.Y == 1) & ~fair & (rng.random(fair.shape) < 0.6)
    return problem.X[:, :2], np.where(some, 1.0, problem.Y_observed), fair


def assert_same_completion(found, expected):
    assert found.row_penalty == expected.row_penalty
    assert found.threshold == expected.threshold
    np.testing.assert_array_equal(found.predict(), expected.predict())
    np.testing.assert_array_equal(found.predict_proba(), expected.predict_proba())


def test_the_labels_that_judged_the_fit_judge_the_completion(asked, tmp_path):
    X, Y, fair = asked
    given = FIXED | {"calibration": "sigmoid", "random_state": 0}
    clf = LowRankClassifier(**given).fit(X, Y, judged=fair)
    marked = ObservedLabels.from_dense(Y).with_judging(fair)
    expected = clf.complete(X, marked)
    assert expected.threshold != LowRankClassifier(**given).fit(X, Y).complete(X, Y).threshold
    assert_same_completion(clf.complete(X, Y), expected)
    assert_same_completion(clf.complete(X, Y, judged=fair), expected)
    # A file without the data does not say which labels judged.
    clf.save(tmp_path / "model", with_data=False)
    assert_same_completion(labelgap.load(tmp_path / "model").complete(X, Y, judged=fair), expected)
    # In batches, and with a row of weight 0.
    weights = np.arange(len(X)) != 3
    parts = LowRankClassifier(**given).partial_fit(
        X[:90], Y[:90], judged=fair[:90], sample_weight=weights[:90]
    )
    parts.partial_fit(X[90:], Y[90:], judged=fair[90:])
    found = parts.complete(X, Y, sample_weight=weights)
    assert_same_completion(found, parts.complete(X, marked, sample_weight=weights))
    # At the same scores, probabilities are not those of a sample in which too many are a yes.
    fairly, biased = (clf.complete(X, Y, 0.003, judged=given) for given in (fair, ~np.isnan(Y)))
    np.testing.assert_array_equal(fairly.decision_function(), biased.decision_function())
    assert fairly.predict_proba().mean() < biased.predict_proba().mean() - 0.02


def test_which_labels_judged_must_be_known(asked):
    X, Y, fair = asked
    given = FIXED | {"random_state": 0}
    clf = LowRankClassifier(**given).fit(X, Y, judged=fair)
    order = np.random.default_rng(0).permutation(len(X))
    with pytest.raises(InvalidLabelsError, match="judged"):
        clf.complete(X[order], Y[order])
    found = clf.complete(X[order], Y[order], judged=fair[order])
    assert found.predict().shape == Y.shape
    with pytest.raises(InvalidInputError, match="judged have shape"):
        clf.complete(X, Y, judged=fair[:5])


# -- scores and decisions ----------------------------------------------------------------------------------


def test_labels_of_a_row_help_where_its_features_do_not(problem, fitted, completed):
    X, clf = fitted
    gaps = np.where(np.isnan(problem.Y_observed), problem.Y, np.nan)
    assert completed.row_rank >= 1
    assert completed.score(problem.Y) > clf.score(X, gaps) + 0.05
    assert completed.held_out_metric > completed.held_out_metric_without
    assert completed.relative_gap <= clf.tol
    assert completed.candidates[0].row_penalty == np.inf
    assert completed.row_penalty in [candidate.row_penalty for candidate in completed.candidates]


def test_the_ways_to_ask_for_decisions_agree(problem, completed, monkeypatch):
    scores = completed.decision_function()
    every = scores >= completed.threshold
    seen = ~np.isnan(problem.Y_observed)
    kept = np.where(seen, problem.Y_observed == 1, every)
    np.testing.assert_array_equal(completed.predict(keep_observed=False), every)
    np.testing.assert_array_equal(completed.predict(), kept)
    monkeypatch.setattr(completion, "_BLOCK_SCORES", 100)
    sparse = completed.predict("sparse")
    assert sp.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), kept)
    np.testing.assert_array_equal(completed.predict("dense"), kept)
    rows = np.array([5, 0, 5])
    np.testing.assert_array_equal(completed.predict(rows=rows), kept[rows])
    p = np.where(seen, problem.Y_observed, 1 / (1 + np.exp(-scores)))
    np.testing.assert_allclose(completed.predict_proba(rows, keep_observed=True), p[rows])
    np.testing.assert_allclose(completed.decision_function(rows), scores[rows])
    np.testing.assert_allclose(completed.scores_at(rows, [1, 2, 3]), scores[rows, [1, 2, 3]])
    np.testing.assert_allclose(completed.predict_proba([3]), 1 / (1 + np.exp(-scores[[3]])))
    assert "120 x 12" in repr(completed)
    assert "120 x 12" in completed._repr_html_()


def test_without_a_part_of_the_rows_the_decisions_are_those_of_predict(problem, fitted):
    X, clf = fitted
    alone = clf.complete(X, problem.Y_observed, row_penalty=np.inf)
    np.testing.assert_allclose(alone.decision_function(), clf.decision_function(X), atol=1e-10)
    np.testing.assert_array_equal(alone.predict(keep_observed=False), clf.predict(X))
    assert (alone.row_rank, alone.duality_gap, alone.objective) == (0, clf.duality_gap_, clf.objective_)
    assert alone.held_out_metric == alone.held_out_metric_without


def test_labels_that_say_nothing_of_each_other_get_no_part_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    Y = (X @ rng.standard_normal((3, 6)) + 1.5 * rng.standard_normal((150, 6)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    clf = LowRankClassifier(**FIXED, random_state=0).fit(X, Y)
    found = clf.complete(X, Y)
    assert found.row_penalty == np.inf
    np.testing.assert_array_equal(found.predict(keep_observed=False), clf.predict(X))


@pytest.mark.parametrize("label_weighting", [0.0, 0.5])
def test_the_fit_is_the_one_that_is_claimed(label_weighting):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 3)) + 0.5
    Y = (rng.random((30, 5)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[0], Y[1] = 1, 0
    options = {**FIXED, "tol": 1e-6, "label_weighting": label_weighting, "random_state": 0}
    clf = LowRankClassifier(**options).fit(X, Y)
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


def test_every_form_of_labels_gives_the_same_completion(problem, fitted, completed):
    X, clf = fitted
    labels = ObservedLabels.from_dense(problem.Y_observed)
    found = clf.complete(X, labels)
    np.testing.assert_array_equal(found.predict(), completed.predict())
    assert found.threshold == completed.threshold


def test_names_are_those_of_the_labels(problem, fitted):
    pd = pytest.importorskip("pandas")
    X, _ = fitted
    names = [f"tag {j}" for j in range(12)]
    Y = pd.DataFrame(problem.Y_observed, columns=names, index=[f"row {i}" for i in range(120)])
    clf = LowRankClassifier(**FIXED, random_state=0).fit(X, Y)
    found = clf.complete(X, Y[names[::-1]], row_penalty=0.02)
    frame = found.to_frame()
    assert list(frame.columns) == names
    assert list(frame.index) == list(Y.index)
    np.testing.assert_array_equal(frame.to_numpy(), found.predict("dense"))


def test_rows_of_weight_zero_are_decided_by_their_features(problem, fitted):
    X, _ = fitted
    weights = np.ones(120)
    weights[[3, 50]] = 0.0
    clf = LowRankClassifier(**FIXED, random_state=0).fit(X, problem.Y_observed, sample_weight=weights)
    found = clf.complete(X, problem.Y_observed, row_penalty=0.004, sample_weight=weights)
    left_out = weights == 0
    kept = clf.complete(X, problem.Y_observed, row_penalty=0.004, sample_weight=weights)
    assert not found.row_factors[left_out][:, found.rank :].any()
    assert found.row_factors[~left_out][:, found.rank :].any()
    np.testing.assert_array_equal(found.predict(), kept.predict())
    # The same fit as without these rows.
    others = LowRankClassifier(**FIXED, random_state=0).fit(X[~left_out], problem.Y_observed[~left_out])
    same = others.complete(X[~left_out], problem.Y_observed[~left_out], row_penalty=0.004)
    np.testing.assert_allclose(found.decision_function()[~left_out], same.decision_function(), atol=1e-8)


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
def test_other_settings_of_the_fit_are_kept(problem, fitted, options):
    X, _ = fitted
    clf = LowRankClassifier(**{**FIXED, **options}, random_state=0).fit(X, problem.Y_observed)
    found = clf.complete(X, problem.Y_observed, row_penalty=0.004)
    assert found.row_rank >= 1
    assert found.relative_gap <= 1e-3
    p = found.predict_proba()
    assert ((p >= 0) & (p <= 1)).all()
    if "subject_to" in options:
        recall = labelgap.get_metric("micro-recall")
        seen = problem.Y_observed
        assert recall(seen, found.decision_function() >= found.threshold) >= 0.85
    if "thresholds" in options:
        assert len(np.unique(found.thresholds)) > 1


@pytest.mark.slow
def test_kernel_features_are_completed_too(problem):
    X = problem.X[:, :3]
    clf = LowRankClassifier(features="rbf", trace_penalty=0.01, random_state=0).fit(X, problem.Y_observed)
    alone = clf.complete(X, problem.Y_observed, row_penalty=np.inf)
    np.testing.assert_allclose(alone.decision_function(), clf.decision_function(X), atol=1e-8)
    assert clf.complete(X, problem.Y_observed, row_penalty=0.02).relative_gap <= 1e-3


@pytest.mark.parametrize("penalties", [{}, {"trace_penalty": "auto", "ridge_penalty": "auto"}])
def test_sparse_features_and_sparse_labels_are_completed_too(problem, penalties):
    rng = np.random.default_rng(0)
    X = sp.csr_array(np.where(rng.random((120, 4)) < 0.5, problem.X[:, :4], 0.0))
    Y = ObservedLabels.from_dense(problem.Y_observed).to_sparse()
    options = {**FIXED, **penalties, "intercept_penalty": "auto", "max_iter": 200}
    clf = LowRankClassifier(**options, threshold="holdout", random_state=0).fit(X, Y)
    found = clf.complete(X, Y, row_penalty=0.004)
    alone = clf.complete(X, Y, row_penalty=np.inf)
    np.testing.assert_allclose(alone.decision_function(), clf.decision_function(X), atol=1e-8)
    assert found.relative_gap <= 1e-3
    assert sp.issparse(found.predict())


def test_a_loaded_model_completes_as_the_saved_one(problem, fitted, completed, tmp_path):
    X, clf = fitted
    clf.save(tmp_path / "model.labelgap")
    again = labelgap.load(tmp_path / "model.labelgap")
    np.testing.assert_array_equal(again.complete(X, problem.Y_observed).predict(), completed.predict())


def test_nothing_of_the_size_of_all_entries_is_made():
    n, n_labels, per_row = 6000, 1500, 4
    rng = np.random.default_rng(0)
    cols = np.argsort(rng.random((n, 40)), axis=1)[:, :per_row] + 36 * rng.integers(0, 40, (n, 1))
    labels = ObservedLabels.from_triplets(
        np.repeat(np.arange(n), per_row), cols.ravel(), rng.integers(0, 2, n * per_row), (n, n_labels)
    )
    solver = SolverSettings(SOLVERS["auto"], tol=0.1)
    model = RowModel(
        rng.standard_normal((n, 3)), labels, ProblemSettings(Logistic()), Penalties(0.02), solver
    )
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


# -- refusals ----------------------------------------------------------------------------------------------


def test_other_rows_than_those_of_the_fit_are_refused(problem, fitted):
    X, clf = fitted
    with pytest.raises(
        InvalidLabelsError, match=r"the rows of the fit, and these are others: over these 60 rows"
    ):
        clf.complete(X[:60], problem.Y_observed[:60])
    with pytest.raises(InvalidLabelsError, match="fit again with these"):
        clf.complete(X, problem.Y)
    with pytest.raises(InvalidLabelsError, match="with its sample_weight"):
        clf.complete(X, problem.Y_observed, sample_weight=np.arange(1.0, 121.0))
    # The same rows in another order are the same rows.
    turned = clf.complete(X[::-1], problem.Y_observed[::-1], row_penalty=np.inf)
    np.testing.assert_allclose(turned.decision_function(), clf.decision_function(X)[::-1], atol=1e-10)
    with pytest.raises(InvalidLabelsError, match="No label is observed"):
        clf.complete(X, np.full(problem.Y.shape, np.nan))
    with pytest.raises(InvalidLabelsError, match="12 labels of the fit were expected"):
        clf.complete(X, problem.Y_observed[:, :5])


@pytest.mark.parametrize("value", [0.0, -1.0, "small", None, True, float("nan")])
def test_a_row_penalty_is_a_number_above_zero(problem, fitted, value):
    X, clf = fitted
    with pytest.raises(InvalidParameterError, match="row_penalty must be"):
        clf.complete(X, problem.Y_observed, row_penalty=value)


def test_what_cannot_be_completed_is_refused_by_name(problem):
    X, Y = problem.X[:40, :2], problem.Y[:40, :4]
    unlabelled = LowRankClassifier(
        **{**FIXED, "ridge_penalty": 0.1}, unobserved="unlabelled", flip_rate=0.2, threshold="train"
    )
    unlabelled.fit(X, sp.csr_array(Y))
    with pytest.raises(InvalidParameterError, match="unobserved='unlabelled'"):
        unlabelled.complete(X, sp.csr_array(Y))
    negative = LowRankClassifier(**FIXED, unobserved="negative", threshold="train").fit(X, sp.csr_array(Y))
    with pytest.raises(InvalidParameterError, match="unobserved='negative'"):
        negative.complete(X, sp.csr_array(Y))
    single = LowRankClassifier(**FIXED, threshold="train").fit(X, Y[:, 0])
    with pytest.raises(InvalidParameterError, match="single label"):
        single.complete(X, Y[:, 0])
    bounded = LowRankClassifier(**FIXED, score_bound=2.0, threshold="train").fit(X, Y)
    with pytest.raises(InvalidParameterError, match=r"score_bound=2\.0"):
        bounded.complete(X, Y)


def test_offsets_are_refused(problem, fitted):
    X, clf = fitted
    labels = ObservedLabels.from_dense(problem.Y_observed)
    with pytest.raises(InvalidLabelsError, match="offsets"):
        clf.complete(X, labels.with_offsets(np.ones(labels.n_observed)))


def test_bad_rows_and_labels_of_a_completion_are_refused(completed, problem):
    with pytest.raises(InvalidInputError, match="from 0 to 119"):
        completed.decision_function([120])
    with pytest.raises(InvalidInputError, match="by their numbers"):
        completed.decision_function([0.5])
    with pytest.raises(InvalidInputError, match="one label for each row"):
        completed.scores_at([0, 1], [0])
    with pytest.raises(InvalidInputError, match="from 0 to 11"):
        completed.scores_at([0], [12])
    with pytest.raises(InvalidLabelsError, match="shape"):
        completed.score(problem.Y[:5])


def test_too_few_labels_to_hold_any_out():
    X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[0, np.nan], [1, np.nan], [np.nan, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = LowRankClassifier(**FIXED).fit(X, Y)
    with pytest.warns(LabelgapWarning, match="too few to hold any out"):
        found = clf.complete(X, Y)
    assert found.row_penalty == np.inf
    assert found.held_out_metric is None


# -- soft labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [3, 10, 1000])
def test_a_sample_is_of_unobserved_entries_that_can_say_something(most):
    rng = np.random.default_rng(3)
    Y = (rng.random((20, 6)) < 0.5).astype(float)
    Y[rng.random(Y.shape) < 0.7] = np.nan
    Y[4] = np.nan
    Y[:, 5] = np.where(np.isnan(Y[:, 5]), np.nan, 1.0)
    labels = ObservedLabels.from_dense(Y)
    rows, cols = unobserved_sample(labels, most, 0)
    possible = np.isnan(Y) & ~np.isnan(Y).all(axis=1)[:, None]
    # A label of one class has no part of the rows.
    possible[:, np.nanmin(Y, axis=0) == np.nanmax(Y, axis=0)] = False
    assert len(rows) == min(most, possible.sum())
    assert possible[rows, cols].all()
    assert len(set(zip(rows.tolist(), cols.tolist(), strict=True))) == len(rows)
    again = unobserved_sample(labels, most, 0)
    np.testing.assert_array_equal(again[0], rows)


def test_a_sample_is_uniform():
    labels = ObservedLabels.from_triplets(
        np.repeat(np.arange(40), 2), np.tile([0, 1], 40), np.arange(80) % 3 == 0, (40, 30)
    )
    # Of 30 labels two have entries, and all of theirs are observed but those of no row.
    assert len(unobserved_sample(labels, 5, 0)[0]) == 0
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((60, 50)) < 0.1)
    labels = ObservedLabels.from_triplets(rows, cols, np.arange(len(rows)) % 2, (60, 50))
    counts = np.zeros(60)
    for seed in range(200):
        np.add.at(counts, unobserved_sample(labels, 30, seed)[0], 1)
    # 100 of each row on average, with a standard deviation of about 10.
    assert 50 < counts.min() < counts.max() < 150


def test_a_refit_minimises_the_objective_that_is_claimed():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 3))
    Y = (rng.random((40, 5)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    labels = ObservedLabels.from_dense(Y).with_weights(
        rng.uniform(0.5, 2.0, int(np.count_nonzero(~np.isnan(Y))))
    )
    penalties = Penalties(0.02, 0.003)
    solver = SolverSettings(SOLVERS["auto"], tol=1e-7)
    model = RowModel(X, labels, ProblemSettings(Logistic()), penalties, solver)
    start = model.without_rows(labels, 1e-6).factors
    refit = SoftRefit(model, 0.02, seed=0)
    N = rng.standard_normal((40, 1)), rng.standard_normal((5, 1))
    soft = refit.soft_labels(labels, JointFactors(*start[:2], *N, start.intercept))
    left, right, b = model.shared.to_original(start)
    scores = X @ left @ right.T + N[0] @ N[1].T + b
    np.testing.assert_allclose(soft.values, 1 / (1 + np.exp(-scores[soft.rows, soft.cols])))
    omega = 3.0
    fit = refit.fit(labels, soft, omega, start, solver)

    def objective(factors: Factors) -> float:
        left, right, b = model.shared.to_original(factors)
        Z = X @ left @ right.T + b
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


def test_soft_labels_of_weight_zero_are_none(problem, fitted):
    X, clf = fitted
    again = LowRankClassifier(**FIXED, random_state=0, soft_labels=0).fit(X, problem.Y_observed)
    np.testing.assert_array_equal(again.coef_, clf.coef_)
    assert clf.soft_label_weight_ == 0


def test_soft_labels_change_the_model_and_are_saved(problem, fitted, tmp_path):
    X, clf = fitted
    soft = LowRankClassifier(**FIXED, random_state=0, soft_labels=3.0).fit(X, problem.Y_observed)
    assert soft.soft_label_weight_ == 3.0
    assert soft.relative_gap_ <= soft.tol
    assert soft.duality_gap_ == pytest.approx(soft.relative_gap_ * soft.objective_)
    assert np.abs(soft.coef_ - clf.coef_).max() > 1e-3
    soft.save(tmp_path / "model.labelgap")
    again = labelgap.load(tmp_path / "model.labelgap")
    assert (again.soft_labels, again.soft_label_weight_) == (3.0, 3.0)
    np.testing.assert_array_equal(again.predict(X), soft.predict(X))
    # A fit without them forgets the weight.
    assert soft.set_params(soft_labels=0.0).fit(X, problem.Y_observed).soft_label_weight_ == 0


@pytest.mark.parametrize("threshold", ["cross-fit", pytest.param("train", marks=pytest.mark.slow)])
def test_the_weight_of_soft_labels_is_chosen_on_held_out_rows(problem, fitted, threshold):
    X, _ = fitted
    options = {**FIXED, "random_state": 0, "threshold": threshold}
    chosen = LowRankClassifier(**options, soft_labels="auto").fit(X, problem.Y_observed)
    assert chosen.soft_label_weight_ in (0.0, 1.0, 3.0, 10.0)
    if chosen.soft_label_weight_ == 0:
        plain = LowRankClassifier(**options).fit(X, problem.Y_observed)
        np.testing.assert_array_equal(chosen.coef_, plain.coef_)
        assert chosen.threshold_ == plain.threshold_


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"soft_labels": -1.0}, "soft_labels"),
        ({"soft_labels": float("inf")}, "soft_labels"),
        ({"soft_labels": "much"}, "soft_labels"),
        ({"soft_labels": None}, "soft_labels"),
        ({"soft_labels": 1.0, "loss": "squared"}, "loss='logistic'"),
        ({"soft_labels": 1.0, "unobserved": "unlabelled"}, "unobserved='unlabelled'"),
        ({"soft_labels": 1.0, "score_bound": 2.0}, "score_bound"),
    ],
)
def test_soft_labels_that_cannot_be_had_are_refused(problem, options, said):
    with pytest.raises((InvalidParameterError, UnknownNameError), match=said):
        LowRankClassifier(**{**FIXED, **options}).fit(problem.X, problem.Y_observed)
