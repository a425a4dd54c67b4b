"""The closed form of the threshold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from labelgap.exceptions import InvalidMetricError, InvalidParameterError
from labelgap.losses import get_loss, loss_names
from labelgap.metrics import LinearFractional, get_metric
from labelgap.thresholds import bayes_alpha, bayes_threshold, best_threshold


def test_known_forms():
    for average, best in product(["micro", "instance", "macro"], [0.1, 0.5, 0.93, 1.0]):
        # F-beta: Ψ* / (1 + β²)
        forms = {"f1": best / 2, "accuracy": 0.5, "jaccard": best / (1 + best), "f2": best / 5}
        found = {name: bayes_alpha(f"{average}-{name}", best) for name in forms}
        assert found == pytest.approx(forms), (average, best)
    # The scale of the metric does not matter.
    metric = LinearFractional(numerator={"tp": 6}, denominator={"tp": 6, "fp": 3, "fn": 3})
    assert bayes_alpha(metric, 0.6) == pytest.approx(0.3)
    assert bayes_alpha("micro-balanced-accuracy", 0.8, 0.1) == pytest.approx(0.1)
    for loss in loss_names():
        assert bayes_threshold("micro-f1", 0.6, loss) == pytest.approx(float(get_loss(loss).link(0.3)))
    assert bayes_threshold("micro-accuracy", 0.9) == pytest.approx(0.0)


def test_what_is_refused():
    rates = [("micro-balanced-accuracy", 0.8, rate) for rate in (None, 0.0, 1.0, -1.0, np.nan)]
    for given, error, message in [
        (("micro-recall", 1.0), InvalidMetricError, "a false positive lowers the metric"),
        (("micro-specificity", 1.0), InvalidMetricError, "a false negative lowers the metric"),
        (("micro-f1", 0.0), InvalidMetricError, "a false positive lowers the metric"),
        (("micro-f1", 2.5), InvalidMetricError, "a false negative lowers the metric"),
        (("micro-f1", np.nan), InvalidParameterError, "best_value"),
        (("micro-f1", np.inf), InvalidParameterError, "best_value"),
        *((given, InvalidParameterError, "positive_rate") for given in rates),
    ]:
        with pytest.raises(error, match=message):
            bayes_alpha(*given)


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
