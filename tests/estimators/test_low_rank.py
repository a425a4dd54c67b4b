"""The classifier as a user meets it. Conventions shared with the other estimators are in test_conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from labelgap import LinearFractional, LowRankClassifier, ObservedLabels, best_threshold, get_metric
from labelgap.data import make_low_rank_labels
from labelgap.estimators.description import describe, in_lines
from labelgap.exceptions import ConvergenceWarning, LabelgapWarning, UninformativeLabelsWarning
from labelgap.thresholds.cross_fit import hold_out_plan
from labelgap.thresholds.sweep import steady_threshold

PROBLEM = make_low_rank_labels(
    n=200, n_labels=12, n_features=6, rank=2, observed=0.4, n_test=300, random_state=1
)
X, Y = PROBLEM.X, PROBLEM.Y_observed
FIXED: dict[str, Any] = {"trace_penalty": 0.005, "ridge_penalty": 0.0, "intercept_penalty": 0.0}


def test_default_fit_recovers_a_low_rank_truth() -> None:
    # With 200 rows and more it would look at kernels too.
    clf = LowRankClassifier(random_state=0).fit(X[:80], Y[:80])
    assert clf.score(PROBLEM.X_test, PROBLEM.Y_test) > 0.9
    assert clf.duality_gap_ <= clf.tol * clf.objective_
    assert len(clf.candidates_) > 3


def test_attributes_describe_the_model() -> None:
    clf = LowRankClassifier(**FIXED, random_state=0).fit(X, Y)
    np.testing.assert_allclose(clf.coef_, clf.coef_left_ @ clf.coef_right_.T)
    np.testing.assert_allclose(
        np.linalg.svd(clf.coef_, compute_uv=False)[: clf.rank_], clf.singular_values_, rtol=1e-8
    )
    assert clf.coef_left_.shape == (6, clf.rank_)
    assert clf.coef_right_.shape == (12, clf.rank_)
    assert (clf.trace_penalty_, clf.ridge_penalty_, clf.intercept_penalty_) == (0.005, 0.0, 0.0)
    np.testing.assert_array_equal(clf.classes_, [0, 1])
    scores = X @ clf.coef_ + clf.intercept_
    np.testing.assert_allclose(clf.decision_function(X), scores)
    np.testing.assert_allclose(clf.predict_proba(X), 1 / (1 + np.exp(-scores)))
    np.testing.assert_array_equal(clf.predict(X), scores >= clf.threshold_)
    assert clf.threshold_probability_ == pytest.approx(1 / (1 + np.exp(-clf.threshold_)))


def test_ridge_alone_is_logistic_regression_per_label() -> None:
    complete = ObservedLabels.from_dense(PROBLEM.Y)
    total = complete.n_observed
    clf = LowRankClassifier(
        trace_penalty=0.0, ridge_penalty=1 / total, intercept_penalty=0.0, threshold="train", tol=1e-7
    ).fit(X, complete)
    for j in range(3):
        reference = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, PROBLEM.Y[:, j])
        np.testing.assert_allclose(clf.coef_[:, j], reference.coef_[0], rtol=2e-3, atol=2e-3)
        assert clf.intercept_[j] == pytest.approx(reference.intercept_[0], abs=5e-3)


@pytest.mark.parametrize("solver", ["factored", "proximal"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge", "exponential"])
def test_every_loss_and_solver_learns(loss: str, solver: str) -> None:
    clf = LowRankClassifier(loss=loss, solver=solver, **FIXED, random_state=0).fit(X, Y)
    assert clf.score(PROBLEM.X_test, PROBLEM.Y_test) > 0.85
    probabilities = clf.predict_proba(X)
    assert probabilities.min() >= 0
    assert probabilities.max() <= 1


@pytest.mark.parametrize(
    "metric",
    ["micro-f1", "macro-f2", "instance-jaccard", "micro-balanced-accuracy", "macro-specificity"],
)
def test_any_metric_of_the_family(metric: str) -> None:
    clf = LowRankClassifier(metric=metric, **FIXED, random_state=0).fit(X, Y)
    decided = clf.predict(PROBLEM.X_test)
    assert clf.score(PROBLEM.X_test, PROBLEM.Y_test) == pytest.approx(
        get_metric(metric)(PROBLEM.Y_test, decided)
    )


def test_own_linear_fractional_metric() -> None:
    metric = LinearFractional({"tp": 3}, {"tp": 3, "fp": 1, "fn": 2}, average="macro")
    clf = LowRankClassifier(metric=metric, **FIXED, random_state=0).fit(X, Y)
    assert 0 < clf.score(X, Y) <= 1


def test_train_threshold_is_the_best_on_training_scores() -> None:
    clf = LowRankClassifier(**FIXED, threshold="train").fit(X, Y)
    result = best_threshold(clf.decision_function(X), Y, "micro-f1")
    assert clf.score(X, Y) == pytest.approx(result.value, abs=1e-12)
    assert clf.candidates_ == ()


@pytest.mark.parametrize(("how", "n_folds"), [("cross-fit", 5), ("holdout", 1)])
def test_threshold_comes_from_models_that_did_not_see_the_entries(how: str, n_folds: int) -> None:
    clf = LowRankClassifier(**FIXED, threshold=how, random_state=3).fit(X, Y)
    labels = ObservedLabels.from_dense(Y)
    plan = hold_out_plan(labels, how, np.random.RandomState(3))
    assert set(plan[plan >= 0]) == set(range(n_folds))
    scores = np.full(labels.n_observed, np.nan)
    for fold in range(n_folds):
        held = plan == fold
        part = LowRankClassifier(**FIXED, threshold="train").fit(X, labels.select(~held))
        scores[held] = labels.align(part.decision_function(X))[held]
    held = plan >= 0
    expected = steady_threshold(scores[held], labels.select(held), get_metric("micro-f1"))
    assert clf.threshold_ == pytest.approx(expected, abs=1e-6)
    # The model itself is fitted to everything that is observed, to the same gap from another start.
    whole = LowRankClassifier(**FIXED, threshold="train").fit(X, Y)
    assert clf.objective_ == pytest.approx(whole.objective_, rel=2e-3)
    np.testing.assert_allclose(clf.decision_function(X), whole.decision_function(X), atol=0.1)


def test_rank_cap_is_honoured_without_a_warning() -> None:
    clf = LowRankClassifier(trace_penalty=1e-4, ridge_penalty=0.0, intercept_penalty=0.0, rank=1).fit(X, Y)
    assert clf.rank_ == 1
    assert clf.rank_limited_
    facts = describe(clf)
    assert facts["rank_limit"] == 1
    assert dict(in_lines(facts))["certificate"].endswith("asked for: the rank is limited to 1")
    free = LowRankClassifier(trace_penalty=1e-2, ridge_penalty=0.0, intercept_penalty=0.0).fit(X, Y)
    assert not free.rank_limited_
    assert describe(free)["rank_limit"] is None


def test_score_bound_holds_for_every_training_score() -> None:
    free = LowRankClassifier(**FIXED, threshold="train").fit(X, Y)
    bound = 0.3 * np.abs(X @ free.coef_).max()
    bounded = LowRankClassifier(**FIXED, threshold="train", score_bound=bound).fit(X, Y)
    assert np.abs(X @ bounded.coef_).max() <= bound * (1 + 1e-9)
    assert bounded.objective_ > free.objective_
    assert bounded.duality_gap_ <= 1e-3 * bounded.objective_


def test_sparse_features_give_the_same_model_as_dense_ones() -> None:
    thin = np.where(np.abs(X) > 0.8, X, 0.0)
    dense = LowRankClassifier(**FIXED, threshold="train", tol=1e-6).fit(thin, Y)
    sparse = LowRankClassifier(**FIXED, threshold="train", tol=1e-6).fit(sp.csr_array(thin), Y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-6)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=0.02 * np.abs(dense.coef_).max())
    np.testing.assert_array_equal(sparse.predict(sp.csr_array(thin)), sparse.predict(thin))


def test_a_pipeline_whose_features_happen_to_be_sparse_gives_a_frame_of_decisions() -> None:
    frame = pd.DataFrame({"place": [f"place {row % 30}" for row in range(len(X))], "size": X[:, 0]})
    encode = ColumnTransformer([("place", OneHotEncoder(), ["place"])], remainder="passthrough")
    pipe = make_pipeline(encode, LowRankClassifier(**FIXED, threshold="train")).fit(frame, Y)
    assert sp.issparse(pipe[0].transform(frame))
    assert pd.DataFrame(pipe.predict(frame)).shape == Y.shape


@pytest.mark.slow  # More than a gigabyte of decisions takes seconds.
def test_decisions_of_more_than_a_gigabyte_are_sparse() -> None:
    labels = sp.coo_array(([1, 0], ([0, 1], [0, 0])), shape=(2, 20_000))
    with pytest.warns(UninformativeLabelsWarning):
        model = LowRankClassifier(**FIXED, threshold="train").fit(
            np.array([[1.0], [-1.0]]), ObservedLabels.from_sparse(labels)
        )
    many = np.tile([[1.0], [-1.0]], (30_000, 1))
    assert isinstance(model.predict(many[:100]), np.ndarray)
    found = model.predict(many)
    assert sp.issparse(found)
    np.testing.assert_array_equal(found[:100].toarray(), model.predict(many[:100]))


def test_shifted_features_change_nothing_but_the_intercept() -> None:
    here = LowRankClassifier(**FIXED, threshold="train", tol=1e-6).fit(X + 5.0, Y)
    there = LowRankClassifier(**FIXED, threshold="train", tol=1e-6).fit(X + 7.0, Y)
    np.testing.assert_allclose(here.decision_function(X + 5.0), there.decision_function(X + 7.0), atol=1e-6)


@pytest.mark.slow
def test_repeatable_whatever_the_number_of_threads_and_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    first = LowRankClassifier(random_state=0).fit(X, Y)
    monkeypatch.setenv("LABELGAP_NUM_THREADS", "1")
    second = LowRankClassifier(random_state=0, n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.threshold_ == second.threshold_


def test_callback_sees_the_gap_close() -> None:
    seen: list[Any] = []
    LowRankClassifier(**FIXED, threshold="train", tol=1e-5).fit(X, Y, callback=seen.append)
    assert seen[-1].gap <= 1e-5 < seen[0].gap
    assert [p.iteration for p in seen] == sorted(p.iteration for p in seen)


def test_verbose_reports_stages_and_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    LowRankClassifier(trace_penalty=0.01, random_state=0, verbose=2).fit(X, Y)
    printed = capsys.readouterr().out
    assert "held-out metric" in printed
    assert "gap" in printed


def test_non_convergence_warns_with_the_gap_reached() -> None:
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of \d"):
        LowRankClassifier(**FIXED, threshold="train", tol=1e-9, max_iter=1).fit(X, Y)


def test_a_label_never_observed_is_warned_of_and_constant() -> None:
    holes = Y.copy()
    holes[:, 4] = np.nan
    with pytest.warns(UninformativeLabelsWarning, match="1 of 12 labels"):
        clf = LowRankClassifier(**FIXED, threshold="train").fit(X, holes)
    assert np.ptp(clf.decision_function(X)[:, 4]) == pytest.approx(0.0, abs=1e-12)


def test_few_entries_fall_back_to_training_scores_with_a_warning() -> None:
    few = np.full((5, 2), np.nan)
    few[0, 0], few[1, 0], few[2, 1] = 1, 0, 1
    with pytest.warns(LabelgapWarning, match="too few to hold any out"):
        LowRankClassifier(random_state=0).fit(X[:5], few)


def test_predict_topk_is_sorted_by_score() -> None:
    clf = LowRankClassifier(**FIXED, threshold="train").fit(X, Y)
    top, scores = clf.predict_topk(X[:20], k=3, return_scores=True)
    expected = np.argsort(-clf.decision_function(X[:20]), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(top, expected)
    assert (np.diff(scores, axis=1) <= 0).all()


PENALISED: dict[str, Any] = {"trace_penalty": 0.005, "ridge_penalty": 1e-3, "intercept_penalty": 0.01}


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_objective_is_the_documented_formula_wherever_the_features_lie(shift: float) -> None:
    clf = LowRankClassifier(**PENALISED, threshold="train", tol=1e-5).fit(X + shift, Y)
    seen = ~np.isnan(Y)
    margin = (2 * Y[seen] - 1) * clf.decision_function(X + shift)[seen]
    rate = Y[seen].mean()
    expected = (
        np.log1p(np.exp(-margin)).mean()
        + 0.005 * clf.singular_values_.sum()
        + 0.0005 * np.sum(clf.coef_**2)
        + 0.005 * np.sum((clf.intercept_ - np.log(rate / (1 - rate))) ** 2)
    )
    assert clf.objective_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("settings", [PENALISED, FIXED], ids=["penalised", "free"])
def test_format_of_X_and_an_idle_bound_change_nothing(settings: dict[str, Any]) -> None:
    shifted = X + 3.0
    options: dict[str, Any] = {**settings, "threshold": "train", "tol": 1e-5}
    plain = LowRankClassifier(**options).fit(shifted, Y)
    sparse = LowRankClassifier(**options).fit(sp.csr_array(shifted), Y)
    idle = LowRankClassifier(**options, score_bound=1e6).fit(shifted, Y)
    for other in (sparse, idle):
        assert other.objective_ == pytest.approx(plain.objective_, rel=2e-5)
        difference = other.predict_proba(shifted) - plain.predict_proba(shifted)
        assert np.abs(difference).max() < 0.02


@pytest.mark.slow
def test_automatic_intercept_penalty_only_where_the_origin_is_the_centre() -> None:
    def penalties_tried(given: Any) -> set[float]:
        candidates = LowRankClassifier(random_state=0).fit(given, Y).candidates_
        return {candidate.penalties.intercept for candidate in candidates}

    assert penalties_tried(X + 3.0) == penalties_tried(sp.csr_array(X + 3.0)) == {0.0}
    assert len(penalties_tried(X - X.mean(axis=0))) > 1


def test_fitted_answers_do_not_follow_later_parameters() -> None:
    clf = LowRankClassifier(**FIXED, threshold="train").fit(X, Y)
    probabilities, score = clf.predict_proba(X), clf.score(X, Y)
    clf.set_params(loss="squared", metric="micro-recall", unobserved="negative")
    np.testing.assert_array_equal(clf.predict_proba(X), probabilities)
    assert clf.score(X, Y) == score


def test_unobserved_is_said_of_observed_labels_too() -> None:
    positives = ObservedLabels.from_sparse(sp.csr_array(np.nan_to_num(Y)))
    options: dict[str, Any] = {**FIXED, "threshold": "train", "unobserved": "negative"}
    clf = LowRankClassifier(**options).fit(X, positives)
    same = LowRankClassifier(**options).fit(X, np.nan_to_num(Y))
    assert clf.objective_ == pytest.approx(same.objective_, rel=1e-6)
