"""The interval of the earlier batches: its coverage by simulation, and what is drift."""

from __future__ import annotations

import numpy as np
import pytest

from labelgap.arriving import Batch, expected_interval, forget_weights
from labelgap.arriving.drift import check_half_life, judge_drift, warn_of_drift
from labelgap.exceptions import DriftWarning, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.metrics import get_metric
from labelgap.metrics.jackknife import leave_out_values, metric_error


@pytest.mark.parametrize("n_earlier", [1, 2, 5, 10])
@pytest.mark.parametrize("between", [0.0, 0.02])
def test_false_alarms_of_metrics_with_known_errors_are_rare(n_earlier, between):
    rng = np.random.RandomState(0)
    outside = 0
    for _ in range(400):
        errors = rng.uniform(0.005, 0.03, size=n_earlier + 1)
        metrics = 0.7 + np.hypot(errors, between) * rng.standard_normal(n_earlier + 1)
        low, high = expected_interval(metrics[:-1], errors[:-1], errors[-1])
        outside += not low <= metrics[-1] <= high
    # With one or two batches nothing can be known of what lies between them.
    allowed = 0.0125 if between == 0 else {1: 0.25, 2: 0.15, 5: 0.07, 10: 0.04}[n_earlier]
    assert outside / 400 <= allowed


@pytest.mark.parametrize(
    ("name", "repeats"),
    [
        ("micro-f1", 12),
        pytest.param("micro-f1", 200, marks=pytest.mark.slow),
        pytest.param("macro-f1", 200, marks=pytest.mark.slow),
        pytest.param("instance-f1", 200, marks=pytest.mark.slow),
    ],
)
def test_false_alarms_with_errors_of_the_jackknife_are_rare(name, repeats):
    rng, metric = np.random.RandomState(1), get_metric(name)

    def judged(n):
        # The labels of a row depend on each other, and some rows are harder than others.
        level = rng.standard_normal((n, 1))
        yes = rng.standard_normal((n, 6)) + level > 0.5
        decided = yes ^ (rng.standard_normal((n, 6)) + level > 1.5)
        dense = np.where(rng.uniform(size=yes.shape) < 0.7, yes, np.nan)
        labels = ObservedLabels.from_dense(dense)
        decisions = decided[labels.rows, labels.cols]
        return metric(labels, decisions), metric_error(leave_out_values(metric, decisions, labels))

    outside = []
    for _ in range(repeats):
        found = [judged(n) for n in (150, 60, 80, 40, 60, 50)]
        for place in range(1, len(found)):
            metrics, errors = zip(*found[:place], strict=True)
            low, _ = expected_interval(metrics, errors, found[place][1])
            outside.append(found[place][0] < low)
    assert np.mean(outside) <= 0.02


def test_a_metric_that_fell_is_drift_and_one_that_rose_is_not():
    earlier = [Batch(1, metric=0.80, standard_error=0.01), Batch(2, metric=0.81, standard_error=0.02)]
    interval, kind = judge_drift(earlier, 0.6, 0.02)
    worse = Batch(3, metric=0.6, standard_error=0.02, interval=interval, drift=kind)
    with pytest.warns(DriftWarning, match=r"batch 3.*is 0\.6000, below the interval"):
        warn_of_drift(worse)
    assert judge_drift(earlier, 0.95, 0.02)[1] == "better"
    warn_of_drift(Batch(3, metric=0.95, interval=interval, drift="better"))
    assert judge_drift([], 0.6, 0.02) == (None, None)
    assert judge_drift(earlier, 0.6, None) == (None, None)
    assert judge_drift([Batch(1, metric=0.8)], 0.6, 0.01) == (None, None)


def test_spread_between_batches_widens_the_interval_and_the_oldest_are_left_out():
    narrow = expected_interval([0.8, 0.8, 0.8], [0.01] * 3, 0.01)
    wide = expected_interval([0.7, 0.8, 0.9], [0.01] * 3, 0.01)
    assert wide[1] - wide[0] > 4 * (narrow[1] - narrow[0])
    later = [0.8] * 10
    assert expected_interval([0.1, *later], [0.01] * 11, 0.01) == expected_interval(later, [0.01] * 10, 0.01)
    assert expected_interval([], [], 0.01) is None
    # Metrics without any error, as of a model that is always right.
    assert expected_interval([1.0, 1.0], [0.0, 0.0], 0.0) == pytest.approx((1.0, 1.0), abs=1e-6)


def test_weights_halve_with_each_half_life():
    assert forget_weights(np.arange(4), None) is None
    weights = forget_weights(np.arange(7), 3.0)
    np.testing.assert_allclose(weights[3:], weights[:-3] / 2)
    assert weights[0] == 1
    assert forget_weights(np.array([10**6]), 0.1)[0] > 0
    for bad in (0, -1, True, "2", np.inf, np.nan):
        with pytest.raises(InvalidParameterError, match="half-life in batches"):
            check_half_life(bad)
