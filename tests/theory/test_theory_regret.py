"""Regret against a known truth, against brute force over all decisions."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
from finite_worlds import every_decision
from scipy.optimize import minimize_scalar
from scipy.special import expit

from labelgap import LowRankClassifier
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InvalidInputError, InvalidParameterError, InvalidScoresError
from labelgap.losses import get_loss, loss_names
from labelgap.metrics import get_metric
from labelgap.theory import best_probability_threshold, model_regret, regret
from labelgap.thresholds import bayes_alpha

BASES = ["f1", "f2", "jaccard", "accuracy", "precision", "recall", "balanced-accuracy", "balanced-f1"]


def slow_value(metric, eta, weights, yes):
    """Ψ of expected counts, one cell at a time."""
    n, n_labels = eta.shape
    names = {"micro": lambda i, j: 0, "instance": lambda i, j: i, "macro": lambda i, j: j}
    sums: dict[int, list[float]] = {}
    for i in range(n):
        for j in range(n_labels):
            counts = sums.setdefault(names[metric.average](i, j), [0.0, 0.0, 0.0, 0.0])
            p, w = eta[i, j], weights[i, j]
            counts[0 if yes[i, j] else 2] += w * p
            counts[1 if yes[i, j] else 3] += w * (1 - p)
    kept = [c for c in sums.values() if sum(c) > 0]
    return metric.from_counts(*np.array(kept).T)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("average", ["micro", "instance", "macro"])
@pytest.mark.slow
def test_against_every_decision(average, base):
    rng = np.random.default_rng(1)
    metric = get_metric(f"{average}-{base}")
    for trial in range(6):
        eta = rng.random((2, 4)) if trial % 2 else rng.integers(0, 5, (2, 4)) / 4
        weights = rng.random((2, 4)) if trial % 3 else np.ones((2, 4))
        weights[0, trial % 4] = 0 if trial == 4 else weights[0, trial % 4]
        yes = rng.integers(0, 2, (2, 4))
        found = regret(yes, eta, metric, weights=weights)
        assert found.value == pytest.approx(slow_value(metric, eta, weights, yes))
        everything = max(slow_value(metric, eta, weights, np.reshape(d, (2, 4))) for d in every_decision(8))
        cuts = max(slow_value(metric, eta, weights, eta >= t) for t in [*eta.ravel(), np.inf])
        assert found.best_value == pytest.approx(cuts)
        assert found.metric_regret == pytest.approx(cuts - found.value)
        assert slow_value(metric, eta, weights, eta >= found.best_threshold) == pytest.approx(cuts)
        free = regret(yes, eta, metric, weights=weights, against="any-decisions")
        assert free.best_value == pytest.approx(everything)
        if average == "micro":
            assert free.best_value == found.best_value
        else:
            assert math.isnan(free.best_threshold)


@pytest.mark.parametrize("base", ["f1", "f2", "jaccard", "accuracy", "balanced-f1"])
def test_the_best_value_is_a_fixed_point_of_the_closed_form(base):
    rng = np.random.default_rng(2)
    eta = rng.random((30, 20)) ** 2
    best = best_probability_threshold(eta, f"micro-{base}")
    alpha = bayes_alpha(f"micro-{base}", best.value, float(eta.mean()))
    metric = get_metric(f"micro-{base}")
    assert slow_value(metric, eta, np.ones_like(eta), eta >= alpha) == pytest.approx(best.value)
    assert regret(eta >= alpha, eta, metric).metric_regret == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", loss_names())
def test_the_loss_regret_against_a_numerical_minimum(name):
    rng = np.random.default_rng(3)
    loss, eta = get_loss(name), rng.uniform(0.05, 0.95, (3, 2))
    scores, weights = rng.standard_normal((3, 2)), rng.random((3, 2))

    def risk(z, p):
        return float(p * loss.value(z, 1) + (1 - p) * loss.value(z, 0))

    excess = [
        risk(z, p) - minimize_scalar(risk, args=(p,), bounds=(-10, 10), method="bounded").fun
        for z, p in zip(scores.ravel(), eta.ravel(), strict=True)
    ]
    found = regret(scores >= 0, eta, "micro-f1", scores=scores, loss=name, weights=weights)
    assert found.loss_regret == pytest.approx(np.average(excess, weights=weights.ravel()), abs=1e-8)


@pytest.mark.parametrize("name", loss_names())
def test_certain_labels(name):
    # The least loss of a certain label is 0, at an infinite score where need be.
    eta, scores = np.array([[0.0, 1.0, 1.0]]), np.array([[-2.0, 0.5, 0.9]])
    found = regret(scores >= 0, eta, "micro-f1", scores=scores, loss=name)
    assert found.loss_regret == pytest.approx(float(get_loss(name).value(scores, eta).mean()))
    assert (found.value, found.best_value, found.metric_regret) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize("name", loss_names())
def test_the_true_scores_have_no_regret(name):
    rng = np.random.default_rng(4)
    eta = rng.uniform(0.02, 0.98, (5, 4))
    found = regret(eta > 0.5, eta, "micro-accuracy", scores=get_loss(name).link(eta), loss=name)
    assert found.loss_regret == pytest.approx(0, abs=1e-14)
    assert found.metric_regret == pytest.approx(0, abs=1e-14)


def test_without_scores_there_is_no_loss_regret():
    assert regret([[1, 0]], [[0.5, 0.2]]).loss_regret is None


def test_sparse_decisions():
    eta = np.array([[0.9, 0.1], [0.4, 0.6]])
    decisions = np.array([[1, 0], [0, 1]])
    assert regret(sp.csr_matrix(decisions), eta) == regret(decisions, eta)


def test_a_fitted_model_and_a_better_one():
    problem = make_low_rank_labels(n=200, n_labels=15, n_test=200, observed=0.5, noise=True, random_state=0)
    eta = expit(problem.X_test @ problem.W)
    model = LowRankClassifier(trace_penalty=0.005, ridge_penalty=0.0, random_state=0)
    model.fit(problem.X, problem.Y_observed)
    found = model_regret(model, problem.X_test, eta)
    assert found == regret(
        model.predict(problem.X_test), eta, "micro-f1", scores=model.decision_function(problem.X_test)
    )
    flat = LowRankClassifier(trace_penalty=1.0, ridge_penalty=0.0, random_state=0)
    flat.fit(problem.X, problem.Y_observed)
    worse = model_regret(flat, problem.X_test, eta, "micro-f1", loss="logistic")
    assert found.metric_regret < worse.metric_regret
    assert found.loss_regret < worse.loss_regret


def test_a_model_with_decisions_only():
    class Constant:
        def predict(self, X):
            return np.ones((len(X), 2), dtype=int)

    eta = np.array([[0.9, 0.1], [0.4, 0.6]])
    found = model_regret(Constant(), np.zeros((2, 1)), eta, "micro-f1")
    assert found == regret(np.ones((2, 2)), eta)
    with pytest.raises(InvalidParameterError, match="metric"):
        model_regret(Constant(), np.zeros((2, 1)), eta)


def test_regrets_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        regret([[1]], [[0.5]]).value = 1.0


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"probabilities": [[0.5, 1.5]]}, InvalidInputError, "row 0, column 1 is 1.5"),
        ({"probabilities": [[0.5, np.nan]]}, InvalidInputError, "row 0, column 1 is nan"),
        ({"probabilities": [0.5, 0.5]}, InvalidInputError, "n x L"),
        ({"decisions": [[1, 0, 1]]}, InvalidInputError, "decisions have the shape"),
        ({"decisions": [[0.3, 1]]}, InvalidInputError, "0 or 1"),
        ({"weights": [[-1.0, 1.0]]}, InvalidInputError, "weights"),
        ({"weights": [[0.0, 0.0]]}, InvalidInputError, "weights"),
        ({"scores": [[np.inf, 0.0]]}, InvalidScoresError, "finite"),
        ({"against": "nobody"}, InvalidInputError, "against"),
    ],
    ids=str,
)
def test_bad_input_is_named(arguments, error, match):
    given = {"decisions": [[1, 0]], "probabilities": [[0.5, 0.5]], **arguments}
    with pytest.raises(error, match=match):
        regret(**given)
