"""The closed form of the threshold."""

from __future__ import annotations

import numpy as np
import pytest

from labelgap.exceptions import InvalidMetricError, InvalidParameterError
from labelgap.losses import get_loss, loss_names
from labelgap.metrics import LinearFractional, get_metric
from labelgap.thresholds import bayes_alpha, bayes_threshold, best_threshold


@pytest.mark.parametrize("average", ["micro", "instance", "macro"])
@pytest.mark.parametrize("best", [0.1, 0.5, 0.93, 1.0])
def test_known_forms(average, best):
    assert bayes_alpha(f"{average}-f1", best) == pytest.approx(best / 2)
    assert bayes_alpha(f"{average}-accuracy", best) == pytest.approx(0.5)
    assert bayes_alpha(f"{average}-jaccard", best) == pytest.approx(best / (1 + best))
    # F-beta: Ψ* / (1 + β²)
    assert bayes_alpha(f"{average}-f2", best) == pytest.approx(best / 5)


def test_scale_of_the_metric_does_not_matter():
    metric = LinearFractional(numerator={"tp": 6}, denominator={"tp": 6, "fp": 3, "fn": 3})
    assert bayes_alpha(metric, 0.6) == pytest.approx(0.3)


@pytest.mark.parametrize("loss", loss_names())
def test_threshold_is_the_link_of_alpha(loss):
    assert bayes_threshold("micro-f1", 0.6, loss) == pytest.approx(float(get_loss(loss).link(0.3)))


def test_logistic_is_the_default():
    assert bayes_threshold("micro-accuracy", 0.9) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("metric", "best", "match"),
    [
        ("micro-recall", 1.0, "a false positive lowers the metric"),
        ("micro-specificity", 1.0, "a false negative lowers the metric"),
        ("micro-f1", 0.0, "a false positive lowers the metric"),
        ("micro-f1", 2.5, "a false negative lowers the metric"),
    ],
)
def test_a_broken_assumption_is_named(metric, best, match):
    with pytest.raises(InvalidMetricError, match=match):
        bayes_alpha(metric, best)


@pytest.mark.parametrize("best", [np.nan, np.inf])
def test_best_value_must_be_finite(best):
    with pytest.raises(InvalidParameterError, match="best_value"):
        bayes_alpha("micro-f1", best)


@pytest.mark.parametrize("rate", [None, 0.0, 1.0, -1.0, np.nan])
def test_balanced_metrics_need_the_share_of_positives(rate):
    with pytest.raises(InvalidParameterError, match="positive_rate"):
        bayes_alpha("micro-balanced-accuracy", 0.8, rate)


def test_balanced_accuracy_cuts_at_the_share_of_positives():
    assert bayes_alpha("micro-balanced-accuracy", 0.8, 0.1) == pytest.approx(0.1)


def best_of_uniform(metric: str) -> float:
    """Ψ* for η uniform on [0, 1], by a fine grid of cuts t: TP = (1 − t²)/2, FP = (1 − t)²/2."""
    t = np.linspace(0, 1, 200_001)
    tp, fp = (1 - t**2) / 2, (1 - t) ** 2 / 2
    psi = get_metric(metric)
    counts = np.stack([np.ones_like(t), tp, fp, 0.5 - tp, 0.5 - fp])
    above, below = psi.numerator_coefficients @ counts, psi.denominator_coefficients @ counts
    return float(np.max(above[below > 0] / below[below > 0]))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("metric", ["f1", "f2", "jaccard", "accuracy", "balanced-f1"])
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_the_sweep_converges_to_the_closed_form(loss, metric, average):
    # One half of the labels is positive on average, so balancing changes nothing in the limit.
    rng = np.random.default_rng(11)
    eta = rng.uniform(size=(400_000, 1))
    labels = (rng.uniform(size=eta.shape) < eta).astype(float)
    result = best_threshold(get_loss(loss).link(eta), labels, f"{average}-{metric}")
    best = best_of_uniform(f"{average}-{metric}")
    assert result.value == pytest.approx(best, abs=3e-3)
    found = float(get_loss(loss).inverse_link(result.threshold))
    alpha = bayes_alpha(f"{average}-{metric}", best, positive_rate=0.5)
    assert found == pytest.approx(alpha, abs=0.02)
    theta = bayes_threshold(f"{average}-{metric}", best, loss, positive_rate=0.5)
    assert result.threshold == pytest.approx(theta, abs=0.12)
