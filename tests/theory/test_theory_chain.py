"""From the error of scores to the regret in the metric, on finite distributions."""

from __future__ import annotations

import numpy as np
import pytest
from finite_worlds import random_world

from labelgap.exceptions import InvalidMetricError, InvalidParameterError, UnknownNameError
from labelgap.losses import get_loss, loss_names
from labelgap.metrics import get_metric
from labelgap.theory import loss_regret_bound, metric_regret_bound, threshold_constant
from labelgap.thresholds import bayes_threshold, best_threshold


def mean_regret(loss, world, z):
    def risk(scores):
        return world.eta * loss.value(scores, 1) + (1 - world.eta) * loss.value(scores, 0)

    return float(world.mass @ (risk(z) - risk(loss.link(world.eta))))


@pytest.mark.slow
@pytest.mark.parametrize("metric_name", ["micro-f1", "micro-jaccard", "micro-accuracy", "micro-balanced-f1"])
@pytest.mark.parametrize("name", loss_names())
def test_the_theorem_holds_at_the_closed_form_threshold(name, metric_name):
    rng = np.random.default_rng(1)
    loss, metric = get_loss(name), get_metric(metric_name)
    for noise in (0.01, 0.1, 0.5, 2.0):
        for _ in range(8):
            world = random_world(rng)
            z = loss.link(world.eta) + noise * rng.standard_normal(len(world.eta))
            best = world.best(metric)
            bound = metric_regret_bound(
                mean_regret(loss, world, z),
                metric=metric,
                best_value=best,
                positive_rate=world.positive_rate,
                loss=loss,
            )
            theta = bayes_threshold(metric, best, loss, world.positive_rate)
            lost = best - world.value(metric, z >= theta)
            assert lost <= bound.value + 1e-9
            assert best - max(world.value(metric, z >= t) for t in [*z, np.inf]) <= bound.value + 1e-9


@pytest.mark.parametrize("step", ["smaller", "curvature", "lipschitz"])
@pytest.mark.parametrize("name", loss_names())
def test_the_regret_of_scores_near_the_true_ones(name, step):
    rng = np.random.default_rng(2)
    loss = get_loss(name)
    for scale in (0.01, 0.3, 1.0):
        for _ in range(20):
            world = random_world(rng)
            true = loss.link(world.eta)
            z = true + scale * rng.standard_normal(len(true))
            gamma = float(np.abs(np.concatenate([true, z])).max())
            error = float(world.mass @ (z - true) ** 2)
            assert mean_regret(loss, world, z) <= loss_regret_bound(error, loss, gamma, step) + 1e-12


def test_the_curvature_step_is_quadratic_and_the_paper_s_is_not():
    small, smaller = loss_regret_bound(1e-4), loss_regret_bound(1e-6)
    assert small / smaller == pytest.approx(100)
    ratio = loss_regret_bound(1e-4, step="lipschitz") / loss_regret_bound(1e-6, step="lipschitz")
    assert ratio == pytest.approx(10)


def test_no_error_no_regret():
    assert loss_regret_bound(0.0, "exponential") == 0
    bound = metric_regret_bound(0.0, metric="micro-f1", best_value=0.7, positive_rate=0.2)
    assert bound.value == bound.regret_term == bound.estimation_term == 0


def test_the_terms_add_up():
    bound = metric_regret_bound(
        0.01,
        metric="micro-f1",
        best_value=0.8,
        positive_rate=0.1,
        loss="squared",
        n_observed=400,
        estimation_constant=5.0,
    )
    assert bound.regret_term == pytest.approx(20 * np.sqrt(2 / 8) * 0.1)
    assert bound.estimation_term == pytest.approx(0.25)
    assert bound.value == bound.regret_term + bound.estimation_term
    assert bound.alpha == pytest.approx(0.4)


def test_an_unbounded_loss_needs_a_score_bound():
    with pytest.raises(InvalidParameterError, match="score_bound"):
        loss_regret_bound(0.1, "exponential")
    with pytest.raises(InvalidParameterError, match="score_bound"):
        loss_regret_bound(0.1, "squared", step="lipschitz")
    assert loss_regret_bound(0.1, "squared") == pytest.approx(0.1)


def test_bad_arguments_are_named():
    arguments = {"metric": "micro-f1", "best_value": 0.8, "positive_rate": 0.1}
    with pytest.raises(InvalidParameterError, match="loss_regret"):
        metric_regret_bound(-0.1, **arguments)
    with pytest.raises(InvalidParameterError, match="n_observed"):
        metric_regret_bound(0.1, estimation_constant=1.0, **arguments)
    with pytest.raises(UnknownNameError, match="step"):
        loss_regret_bound(0.1, step="cubic")
    with pytest.raises(InvalidMetricError, match="micro"):
        threshold_constant("macro-f1", 0.2)


@pytest.mark.parametrize("name", ["micro-f1", "micro-jaccard", "micro-accuracy"])
def test_a_threshold_from_fresh_entries_loses_no_more_than_promised(name):
    rng = np.random.default_rng(3)
    metric, m, misses = get_metric(name), 200, 0
    for _ in range(60):
        world = random_world(rng)
        scores = rng.standard_normal(len(world.eta))
        cells = rng.choice(len(world.eta), size=m, p=world.mass)
        labels = (rng.random(m) < world.eta[cells]).astype(float)
        theta = best_threshold(scores[cells][:, None], labels[:, None], metric).threshold
        best = max(world.value(metric, scores >= t) for t in [*scores, np.inf])
        allowed = threshold_constant(metric, world.positive_rate, confidence=0.9) / np.sqrt(m)
        misses += best - world.value(metric, scores >= theta) > allowed
    assert misses <= 6
