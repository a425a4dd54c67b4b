"""The tuned plug-in against a plain re-implementation, and what its pieces promise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import baselines
from experiments.baselines import OutOfFold, Rows, TunedPlugIn, one_pass, strength, tuned_plug_in

from labelgap import LowRankClassifier, ObservedLabels, get_metric
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, UnknownNameError
from labelgap.thresholds.cross_fit import hold_out_plan

Y_RARE = 3
"""A label that no row has."""


def toy(seed: int = 0, n: int = 60, d: int = 4, n_labels: int = 5) -> tuple[Any, Any, Any, Any]:
    problem = make_low_rank_labels(
        n=n,
        n_labels=n_labels,
        n_features=d,
        rank=2,
        observed=0.6,
        n_test=100,
        noise=True,
        random_state=seed,
    )
    observed = problem.Y_observed.copy()
    known = ~np.isnan(observed[:, Y_RARE])
    observed[known, Y_RARE] = 0.0
    return problem.X / np.sqrt(d), observed, problem.X_test / np.sqrt(d), problem.Y_test


def naive_label(X: Any, y: NDArray[Any], C: float, X_new: Any) -> NDArray[Any]:
    """Log-odds from an exact logistic regression; a label with one answer has a constant."""
    if y.min() == y.max():
        rate = (y.sum() + 0.5) / (len(y) + 1)
        return np.full(X_new.shape[0], np.log(rate / (1 - rate)))
    model = LogisticRegression(C=C, tol=1e-9, max_iter=100_000)
    return np.asarray(model.fit(X, y).decision_function(X_new))


def naive_tuned(
    X: Any, Y: NDArray[Any], metric: str, criterion: str, seed: int, strengths: list[float]
) -> tuple[float, float]:
    """C and the threshold, label by label and fold by fold on dense arrays."""
    known = ~np.isnan(Y)
    folds = np.full(Y.shape, -1)
    folds[known] = ObservedLabels.from_dense(Y).fold_numbers(5, random_state=seed)
    best = (-np.inf, 0.0, 0.0)
    for C in strengths:
        scores = np.zeros(Y.shape)
        for fold in range(5):
            for j in range(Y.shape[1]):
                fitted, hidden = known[:, j] & (folds[:, j] != fold), folds[:, j] == fold
                scores[hidden, j] = naive_label(X[fitted], Y[fitted, j], C, X[hidden])
        z, y = scores[known], Y[known]
        tops = np.unique(z)
        cuts = np.concatenate(([-np.inf], (tops[1:] + tops[:-1]) / 2, [np.inf]))
        judge = get_metric(metric)
        at = [judge(Y, (scores >= cut).astype(float)) for cut in cuts]
        # Of equally good thresholds the highest.
        top = len(at) - 1 - int(np.argmax(at[::-1]))
        loss = -np.mean(y * np.log(expit(z)) + (1 - y) * np.log(expit(-z)))
        value = at[top] if criterion == "metric" else -loss
        if value > best[0]:
            best = (value, C, cuts[top])
    return best[1], best[2]


@pytest.mark.parametrize("criterion", ["metric", "loss"])
@pytest.mark.parametrize("metric", ["micro-f1", "micro-accuracy"])
@pytest.mark.slow
def test_it_is_the_naive_method(metric: str, criterion: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = range(-1, 4)
    monkeypatch.setattr(baselines, "FIRST_STEPS", steps)
    monkeypatch.setattr(baselines, "SMALLEST_STEP", -1)
    monkeypatch.setattr(baselines, "LARGEST_STEP", 3)
    X, Y, X_test, _ = toy()
    model = TunedPlugIn(metric, criterion, random_state=7).fit(X, Y)
    C, threshold = naive_tuned(X, Y, metric, criterion, 7, [strength(step) for step in steps])
    assert pytest.approx(C) == model.C_
    assert model.threshold_ == pytest.approx(threshold, abs=1e-3)
    known = ~np.isnan(Y)
    expected = np.column_stack(
        [naive_label(X[known[:, j]], Y[known[:, j], j], C, X_test) for j in range(Y.shape[1])]
    )
    np.testing.assert_allclose(model.decision_function(X_test), expected, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X_test), expit(expected), atol=1e-3)
    np.testing.assert_array_equal(model.predict(X_test), model.decision_function(X_test) >= model.threshold_)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_more_features_than_rows_are_the_same_in_fewer(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "FIRST_STEPS", range(3))
    X, Y, X_test, Y_test = toy(n=30, d=50)
    model = TunedPlugIn("micro-f1", random_state=0).fit(form(X), Y)
    known = ~np.isnan(Y[:, 0])
    expected = naive_label(X[known], Y[known, 0], model.C_, X_test)
    np.testing.assert_allclose(model.decision_function(form(X_test))[:, 0], expected, atol=1e-3)
    assert model.score(form(X_test), Y_test) == get_metric("micro-f1")(Y_test, model.predict(X_test))


def test_reduced_rows_keep_lengths_and_angles() -> None:
    X = np.random.RandomState(0).standard_normal((5, 9))
    X[4] = X[0] + X[1]
    reduced = Rows(X).of(X)
    assert reduced.shape == (5, 4)
    np.testing.assert_allclose(reduced @ reduced.T, X @ X.T, atol=1e-12)
    assert Rows(X.T).of(X.T) is not None
    np.testing.assert_array_equal(Rows(X.T).of(X.T), X.T)
    np.testing.assert_array_equal(Rows(np.zeros((2, 3))).of(np.zeros((2, 3))), np.zeros((2, 3)))


@pytest.mark.parametrize("wide", [False, True])
def test_the_folds_are_those_of_the_low_rank_classifier(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []

    def spied(labels: ObservedLabels, how: str, random_state: Any, **options: Any) -> NDArray[np.int64]:
        plans.append(hold_out_plan(labels, how, random_state, **options))
        return plans[-1]

    X, Y, _, _ = toy()
    if wide:
        X = np.hstack([X, np.random.RandomState(0).standard_normal((len(X), len(X)))])
    monkeypatch.setattr("labelgap.fitting.choice.hold_out_plan", spied)
    monkeypatch.setattr(baselines, "hold_out_plan", spied)
    LowRankClassifier(trace_penalty=0.1, ridge_penalty=0.1, intercept_penalty=0, random_state=5).fit(X, Y)
    OutOfFold(X, ObservedLabels.from_dense(Y), 5)
    np.testing.assert_array_equal(plans[0], plans[1])


@pytest.mark.slow
def test_shared_scores_change_nothing() -> None:
    X, Y, X_test, Y_test = toy()
    labels = ObservedLabels.from_dense(Y)
    shared = OutOfFold(X, labels, 3)
    for criterion in baselines.CRITERIA:
        for metric in ("micro-f1", "micro-accuracy"):
            alone = TunedPlugIn(metric, criterion, random_state=3).fit(X, labels)
            with_shared = TunedPlugIn(metric, criterion, random_state=3).fit(X, labels, held_out=shared)
            assert [one.C for one in alone.candidates_] == [one.C for one in with_shared.candidates_]
            assert alone.C_ == with_shared.C_
            assert alone.score(X_test, Y_test) == with_shared.score(X_test, Y_test)
    assert shared.seconds > 0
    other = ObservedLabels.from_dense(1 - Y)
    with pytest.raises(InvalidParameterError, match="other labels"):
        TunedPlugIn(random_state=3).fit(X, other, held_out=shared)


def test_the_grid_goes_on_where_the_best_is_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((100, 2))
    # Pure noise wants no weights at all, a noise-free label as large ones as there are.
    noise = (rng.uniform(size=(100, 2)) < 0.3).astype(float)
    exact = (X @ rng.standard_normal((2, 2)) > 0).astype(float)
    monkeypatch.setattr(baselines, "FIRST_STEPS", range(3))
    monkeypatch.setattr(baselines, "SMALLEST_STEP", -4)
    monkeypatch.setattr(baselines, "LARGEST_STEP", 5)
    smallest, largest = (TunedPlugIn(criterion="loss", random_state=0).fit(X, Y) for Y in (noise, exact))
    assert strength(-4) <= smallest.C_ < strength(0)
    assert strength(5) == largest.C_
    assert [one.C for one in largest.candidates_] == [strength(step) for step in range(6)]


@pytest.mark.slow
def test_the_best_candidate_is_chosen() -> None:
    X, Y, _, _ = toy(seed=4)
    by_metric = TunedPlugIn("micro-f1", "metric", random_state=0).fit(X, Y)
    by_loss = TunedPlugIn("micro-f1", "loss", random_state=0).fit(X, Y)
    best = max(by_metric.candidates_, key=lambda one: one.metric_value)
    assert (by_metric.C_, by_metric.threshold_) == (best.C, best.threshold)
    best = min(by_loss.candidates_, key=lambda one: one.loss)
    assert (by_loss.C_, by_loss.threshold_) == (best.C, best.threshold)


def test_what_is_refused() -> None:
    X, Y, _, _ = toy()
    with pytest.raises(UnknownNameError, match="criterion"):
        TunedPlugIn(criterion="accuracy").fit(X, Y)
    labels = ObservedLabels.from_dense(Y)
    with pytest.raises(InvalidParameterError, match="weights"):
        TunedPlugIn().fit(X, labels.with_weights(np.ones(labels.n_observed)))
    with pytest.raises(InvalidLabelsError, match="at least 4"):
        TunedPlugIn().fit(np.eye(3), ObservedLabels.from_triplets([0, 1, 2], [0, 0, 0], [0, 1, 1]))


def test_the_helper_and_the_plain_pass() -> None:
    model = tuned_plug_in("micro-jaccard", 3)
    assert model.get_params() == {"metric": "micro-jaccard", "criterion": "metric", "random_state": 3}
    X, Y, _, _ = toy()
    # The label that no row has is not fitted.
    assert one_pass(X, ObservedLabels.from_dense(Y)) == 4
