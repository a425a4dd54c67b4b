"""Folds that a device makes are those of the CPU, and so is the threshold that is chosen at last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import check_random_state

from labelgap import LowRankClassifier, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.fitting.judges import DecisionRule, SteadyJudge
from labelgap.labels import ObservedLabels
from labelgap.labels.splitting import used_rows
from labelgap.losses import Logistic
from labelgap.metrics import get_metric
from labelgap.thresholds.cross_fit import HeldOutScores, OneClassEffect, hold_out_plan, spread_folds
from labelgap.thresholds.sweep import steady_threshold

torch = pytest.importorskip("torch", reason="no torch here, so there is no device")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def some_labels(values: str = "labels", n: int = 200, n_labels: int = 30) -> ObservedLabels:
    rng = np.random.default_rng(0)
    Y = (rng.random((n, n_labels)) < rng.random(n_labels)).astype(float)
    if values == "numbers":
        Y = np.round(3 * rng.standard_normal(Y.shape))
        Y[rng.random(Y.shape) < 0.1] = -0.0
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[::7] = np.nan
    return ObservedLabels.from_dense(Y, binary=values == "labels")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small data are taken for large ones."""
    monkeypatch.setattr("labelgap.thresholds.cross_fit._FEW_ENTRIES", 0)
    monkeypatch.setattr("labelgap.fitting.cross_validation._FEW_SCORES", 0)
    monkeypatch.setattr("labelgap.thresholds.narrowing.MANY_ENTRIES", 1 << 8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("values", ["labels", "numbers"])
@pytest.mark.parametrize("k", [2, 5])
def test_folds_are_those_of_the_cpu(k: int, values: str, device: str, few: None) -> None:
    labels = some_labels(values)
    mine, theirs = check_random_state(3), check_random_state(3)
    found = spread_folds(labels, k, mine, torch.device(device))
    assert_array_equal(found, labels.fold_numbers(k, random_state=theirs))
    # What is drawn next is the same, too.
    assert mine.randint(1 << 30) == theirs.randint(1 << 30)


@pytest.mark.parametrize("how", ["cross-fit", "holdout"])
def test_plans_are_those_of_the_cpu(how: str, few: None) -> None:
    labels = some_labels()
    expected = hold_out_plan(labels, how, 0)
    assert_array_equal(hold_out_plan(labels, how, 0, device=torch.device("cpu")), expected)


def test_too_little_memory_leaves_folds_to_the_cpu(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = some_labels()
    monkeypatch.setattr("labelgap.kernels.gpu.folds.free_bytes", lambda device: 1000)
    monkeypatch.setattr("labelgap.kernels.gpu.folds.dealt_in_order", None)
    found = spread_folds(labels, 5, 0, torch.device("cpu"))
    assert_array_equal(found, labels.fold_numbers(5, random_state=0))


def test_rows_with_entries() -> None:
    labels = some_labels()
    expected, place = np.unique(labels.rows, return_inverse=True)
    used, row = used_rows(labels.row_counts())
    assert_array_equal(used, expected)
    assert_array_equal(row, place)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("metric", ["micro-f1", "macro-jaccard", "instance-f1", "micro-balanced-accuracy"])
def test_the_last_threshold_is_that_of_the_cpu(
    metric: str, many: bool, device: str, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        # Then it is the best threshold of all entries, and no mean over parts of them.
        monkeypatch.setattr("labelgap.thresholds.sweep._MOST_ENTRIES", 1)
    labels = some_labels()
    rng = np.random.default_rng(1)
    scores = 2.0 * labels.values - 1.0 + rng.standard_normal(labels.n_observed)
    tensor = torch.from_numpy(scores).to(device)
    psi = get_metric(metric)
    assert steady_threshold(tensor, labels, psi) == steady_threshold(scores, labels, psi)
    kept = HeldOutScores()
    expected = SteadyJudge(psi, Logistic())(scores, labels)
    found = SteadyJudge(psi, Logistic(), OneClassEffect(labels, psi), kept)(tensor, labels)
    assert (found.value, found.threshold) == (expected.value, expected.threshold)
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    assert_array_equal(kept.scores, scores)


def test_weights_leave_the_last_judge_to_the_cpu(few: None) -> None:
    labels = some_labels()
    rng = np.random.default_rng(1)
    labels = labels.with_weights(rng.uniform(0.5, 2.0, labels.n_observed))
    scores = rng.standard_normal(labels.n_observed)
    judge = SteadyJudge(get_metric("micro-f1"), Logistic())
    found, expected = judge(torch.from_numpy(scores), labels), judge(scores, labels)
    assert found[:3] == expected[:3]
    assert_array_equal(found.leave_out, expected.leave_out)


def test_one_class_labels_are_seen_in_tensors() -> None:
    Y = np.array([[1.0, 1.0], [1.0, 0.0]] * 5)
    labels, scores = ObservedLabels.from_dense(Y), np.array([0.9, 0.4, 0.9, 0.6] * 5)
    one, other = (OneClassEffect(labels, get_metric("micro-f1")) for _ in range(2))
    one.see(scores, labels)
    other.see(torch.from_numpy(scores), labels)
    assert (one.whole, one.rest) == (other.whole, other.rest)


@pytest.mark.parametrize("device", ["torch-cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", ["classifier", "recommender"])
def test_a_fit_judges_where_it_runs(
    kind: str, device: str, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labelgap.fitting.device_judge import DeviceJudge

    judged: list[int] = []
    kept = DeviceJudge.judge_at

    def watched(self: Any, scores: Any, threshold: float) -> Any:
        judged.append(len(scores))
        return kept(self, scores, threshold)

    monkeypatch.setattr(DeviceJudge, "judge_at", watched)
    made = make_low_rank_labels(n=60, n_labels=8, n_features=5, observed=0.7, random_state=0)
    settings: dict[str, Any] = {"trace_penalty": 0.05, "ridge_penalty": 1e-3, "tol": 1e-8, "random_state": 0}
    if kind == "classifier":
        models = [LowRankClassifier(device=where, **settings) for where in ("cpu", device)]
        plain, moved = (model.fit(made.X, made.Y_observed) for model in models)
    else:
        rows, items = np.nonzero(~np.isnan(made.Y_observed))
        ratings = rows, items, made.Y_observed[rows, items]
        plain, moved = (Recommender(device=where, **settings).fit(ratings) for where in ("cpu", device))
    assert judged
    # Scores agree to the gap of the fits.
    assert moved.threshold_ == pytest.approx(plain.threshold_, abs=1e-3)
    assert moved.held_out_metric_ == pytest.approx(plain.held_out_metric_, abs=0.01)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("judging", [False, True])
@pytest.mark.parametrize("kind", ["shared", "per-label"])
def test_a_rule_takes_tensors(kind: str, judging: bool, device: str, few: None) -> None:
    labels = some_labels()
    rng = np.random.default_rng(1)
    scores = 2.0 * labels.values - 1.0 + rng.standard_normal(labels.n_observed)
    if judging:
        labels = labels.with_judging(rng.random(labels.n_observed) < 0.5)
    rule = DecisionRule(get_metric("micro-f1"), kind)
    expected = rule.choose(scores, labels)
    found = rule.choose(torch.from_numpy(scores).to(device), labels)
    assert (found.shared, found.kind) == (expected.shared, expected.kind)
    assert_array_equal(found.thresholds, expected.thresholds)


@pytest.mark.parametrize("device", ["torch-cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_threshold_of_training_scores(device: str, few: None) -> None:
    made = make_low_rank_labels(n=60, n_labels=8, n_features=5, observed=0.7, random_state=0)
    settings: dict[str, Any] = {"trace_penalty": 0.05, "ridge_penalty": 1e-3, "tol": 1e-8, "random_state": 0}
    models = [LowRankClassifier(device=where, threshold="train", **settings) for where in ("cpu", device)]
    plain, moved = (model.fit(made.X, made.Y_observed) for model in models)
    assert moved.threshold_ == pytest.approx(plain.threshold_, abs=1e-3)
