"""The weighted-risk lemma: every decision on random finite distributions."""

from __future__ import annotations

import numpy as np
import pytest
from finite_worlds import World, every_decision, random_world

from labelgap.exceptions import InvalidMetricError, InvalidParameterError
from labelgap.metrics import LinearFractional, get_metric
from labelgap.theory import weighted_risk
from labelgap.thresholds import bayes_alpha

METRICS = ["f1", "f2", "f0.5", "jaccard", "accuracy", "balanced-accuracy", "balanced-f1"]
CUSTOM = LinearFractional({"const": 1, "tp": 1, "fp": -0.3}, {"const": 2, "fn": 1, "fp": 0.5})


@pytest.mark.parametrize("name", [*(f"micro-{base}" for base in METRICS), CUSTOM], ids=str)
def test_the_lemma_holds_for_every_decision(name):
    rng = np.random.default_rng(5)
    metric = get_metric(name)
    tightest = 0.0
    for _ in range(12):
        world = random_world(rng)
        best = world.best(metric)
        risk = weighted_risk(metric, best, world.positive_rate)
        assert risk.alpha == pytest.approx(bayes_alpha(metric, best, world.positive_rate))
        for decision in every_decision(len(world.eta)):
            yes = np.array(decision)
            lost = best - world.value(metric, yes)
            bound = risk.constant * world.weighted_regret(risk.alpha, yes)
            assert lost <= bound + 1e-12
            tightest = max(tightest, lost / bound if bound > 1e-9 else 0.0)
    assert tightest > 0.3


def test_the_best_decisions_of_the_metric_are_those_of_the_weighted_errors():
    rng = np.random.default_rng(6)
    for _ in range(20):
        world = random_world(rng)
        metric = get_metric("micro-jaccard")
        alpha = weighted_risk(metric, world.best(metric), world.positive_rate).alpha
        assert world.value(metric, world.eta >= alpha) == pytest.approx(world.best(metric))


def test_the_floor_is_the_smallest_denominator():
    rng = np.random.default_rng(7)
    world = random_world(rng)
    risk = weighted_risk("micro-f1", 0.7, world.positive_rate)
    smallest = min(
        2 * world.positive_rate + fp - fn
        for fp, fn in (world.errors(np.array(d)) for d in every_decision(len(world.eta)))
    )
    assert risk.denominator_floor <= smallest + 1e-12
    assert risk.denominator_floor == pytest.approx(world.positive_rate)
    assert risk.constant == pytest.approx(2 / world.positive_rate)


def test_rows_that_are_alike_keep_the_bound_for_the_instance_average():
    # Every row has the same expected confusion shares, as for rows drawn from one distribution.
    rng = np.random.default_rng(8)
    world = random_world(rng)
    micro, instance = get_metric("micro-f1"), get_metric("instance-f1")
    risk = weighted_risk(instance, world.best(micro), world.positive_rate)
    assert risk == weighted_risk(micro, world.best(micro), world.positive_rate)
    yes = rng.integers(0, 2, len(world.eta))
    fp, fn = world.errors(yes)
    shares = [np.full(3, x) for x in (world.positive_rate - fn, fp, fn, 1 - world.positive_rate - fp)]
    assert instance.from_counts(*shares) == pytest.approx(world.value(micro, yes))


def test_labels_that_are_not_alike_break_one_alpha_but_not_one_for_each():
    metric, macro = get_metric("micro-f1"), get_metric("macro-f1")
    labels = [
        World(np.array([0.9, 0.8]), np.array([0.5, 0.5])),
        World(np.array([0.3, 0.02]), np.array([0.5, 0.5])),
    ]
    best = float(np.mean([world.best(metric) for world in labels]))
    rate = float(np.mean([world.positive_rate for world in labels]))
    shared = weighted_risk(macro, best, rate)
    # Cut at the shared α, the weighted errors are the least possible, so the paper's bound is 0.
    lost = best - np.mean([world.value(metric, world.eta >= shared.alpha) for world in labels])
    assert lost > 0.1
    for first in every_decision(2):
        for second in every_decision(2):
            decided = [np.array(first), np.array(second)]
            values, bounds = [], []
            for world, yes in zip(labels, decided, strict=True):
                own = weighted_risk(metric, world.best(metric), world.positive_rate)
                values.append(world.value(metric, yes))
                bounds.append(own.constant * world.weighted_regret(own.alpha, yes))
            assert best - np.mean(values) <= np.mean(bounds) + 1e-12


@pytest.mark.parametrize("name", ["micro-precision", "micro-recall"])
def test_metrics_outside_the_lemma_are_refused(name):
    with pytest.raises(InvalidMetricError):
        weighted_risk(name, 0.9, 0.3)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, np.nan])
def test_the_share_of_positives_is_a_share(rate):
    with pytest.raises(InvalidParameterError, match="positive_rate"):
        weighted_risk("micro-f1", 0.9, rate)
