"""Held-out scores on a device are judged as those of the CPU are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from labelgap.data import make_low_rank_labels
from labelgap.fitting.cross_validation import CrossValidation, SolverSettings
from labelgap.fitting.judges import MetricJudge
from labelgap.fitting.problem import observed_problem
from labelgap.labels import ObservedLabels
from labelgap.losses import Logistic
from labelgap.metrics import get_metric
from labelgap.objective.parts import FeatureSettings
from labelgap.solvers import Penalties, solve_factored
from labelgap.thresholds.cross_fit import gather, hold_out_plan

torch = pytest.importorskip("torch", reason="no torch here, so there are no tensors to judge")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def sample(weights: bool = False) -> tuple[Any, ObservedLabels]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 40)) * 2 - 1
    Y = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float)
    Y[rng.random(z.shape) < 0.3] = np.nan
    labels = ObservedLabels.from_dense(Y)
    if weights:
        labels = labels.with_weights(rng.uniform(0.5, 2, labels.n_observed))
    return (z + 0.5 * rng.standard_normal(z.shape))[~np.isnan(Y)], labels


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("metric", ["micro-f1", "macro-jaccard", "instance-f1", "micro-balanced-accuracy"])
def test_the_verdict_is_that_of_the_cpu(
    metric: str, weights: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labelgap.thresholds.narrowing.MANY_ENTRIES", 1 << 10)
    scores, labels = sample(weights)
    judge = MetricJudge(get_metric(metric), Logistic())
    expected = judge(scores, labels)
    moved = MetricJudge(get_metric(metric), Logistic())
    tensor = torch.from_numpy(scores).to(device)
    for _ in range(2):
        # The second time with what is kept of the labels.
        found = moved(tensor, labels)
        assert (found.value, found.threshold) == (expected.value, expected.threshold)
        assert found.loss == pytest.approx(expected.loss, rel=1e-12)
        assert_array_equal(found.leave_out, expected.leave_out)
    # Other labels are not mistaken for these, and arrays may follow tensors.
    fewer = labels.select(labels.rows < 200)
    assert moved(scores[labels.rows < 200], fewer).value == judge(scores[labels.rows < 200], fewer).value


def test_scores_of_folds_are_put_together_where_they_are() -> None:
    plan = np.array([0, -1, 1, 0, 1, 1])
    parts = [np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])]
    held, expected = gather(plan, parts)
    assert_array_equal(held, plan >= 0)
    _, found = gather(plan, [torch.from_numpy(part) for part in parts])
    assert isinstance(found, torch.Tensor)
    assert_array_equal(found.numpy(), expected)
    _, mixed = gather(plan, [parts[0], torch.from_numpy(parts[1])])
    assert_array_equal(mixed, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_penalties_are_compared_alike(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from labelgap.fitting.device_judge import DeviceJudge
    from labelgap.objective.torch.part import TorchBackend

    made = make_low_rank_labels(n=40, n_labels=6, n_features=5, observed=0.6, random_state=0)
    labels, loss = ObservedLabels.from_dense(made.Y_observed), Logistic()
    problem = observed_problem(
        made.X, labels, FeatureSettings(), loss, fit_intercept=True, score_bound=None,
        backend=TorchBackend(device),
    )  # fmt: skip
    plan, choices = hold_out_plan(labels, "cross-fit", 0), [Penalties(0.05), Penalties(0.02)]
    judge = MetricJudge(get_metric("micro-f1"), loss)

    def compared() -> list[Any]:
        folds = CrossValidation(problem, labels, plan, judge, SolverSettings(solve_factored, tol=1e-2), 1)
        return folds.compare(choices)

    on_host = compared()
    monkeypatch.setattr("labelgap.fitting.cross_validation._FEW_SCORES", 0)
    judged: list[Any] = []
    kept = DeviceJudge.judge

    def watched(self: DeviceJudge, scores: Any) -> Any:
        judged.append(scores)
        return kept(self, scores)

    monkeypatch.setattr(DeviceJudge, "judge", watched)
    for found, expected in zip(compared(), on_host, strict=True):
        assert (found.metric_value, found.threshold) == (expected.metric_value, expected.threshold)
        assert found.loss == pytest.approx(expected.loss, rel=1e-12)
        assert_array_equal(found.leave_out, expected.leave_out)
    assert [len(scores) for scores in judged] == [labels.n_observed] * 2
