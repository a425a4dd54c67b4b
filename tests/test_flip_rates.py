"""The estimate of ρ from scores: against known truths, slow oracles, and by invariants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from labelgap import LowRankClassifier
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    InvalidScoresError,
)
from labelgap.flip_rates.curves import fit_curves
from labelgap.flip_rates.estimate import FlipRateEstimate, flip_rate_from_scores
from oracles_unlabelled import cross_fitted_scores, slow_curve, slow_plateau

RATES = [0.1, 0.3, 0.5, 0.7, 0.9]


def hide(truth: np.ndarray, rho: float, rng: np.random.Generator) -> np.ndarray:
    return truth & (rng.random(truth.shape) >= rho)


def estimate(scores: np.ndarray, recorded: np.ndarray, **options) -> FlipRateEstimate:
    """From matrices, the entries of a row resampled together."""
    rows = np.indices(scores.shape)[0].ravel()
    return flip_rate_from_scores(scores.ravel(), recorded.ravel(), groups=rows, random_state=0, **options)


def one_label(rng: np.random.Generator, n: int, rho: float, signal: float = 3.0):
    """Scores that are the log-odds up to a factor, and what is recorded."""
    scores = rng.normal(size=n)
    return scores, hide(rng.random(n) < expit(signal * scores), rho, rng)


@pytest.mark.parametrize("rho", RATES)
def test_labels_without_noise_and_from_the_logistic_model(rho):
    rng = np.random.default_rng(int(10 * rho))
    problem = make_low_rank_labels(n=2000, n_labels=100, n_test=1, random_state=int(10 * rho))
    recorded = hide(problem.Y == 1, rho, rng)
    found = estimate(cross_fitted_scores(problem.X, recorded, rng), recorded)
    assert abs(found.value - rho) < 0.02
    assert found.low <= found.value <= found.high < found.low + 0.05
    # The scores x·w have a standard deviation of 2: one yes in eight is surer than 19 to 1.
    rng = np.random.default_rng(int(100 * rho))
    problem = make_low_rank_labels(n=2000, n_labels=100, n_test=1, random_state=int(100 * rho))
    z = problem.X @ problem.W
    recorded = hide(rng.random(z.shape) < expit(2 * z / z.std()), rho, rng)
    found = estimate(cross_fitted_scores(problem.X, recorded, rng), recorded)
    assert abs(found.value - rho) < 0.05
    assert found.low - 0.02 < rho < found.high + 0.02


def test_scores_of_the_low_rank_classifier():
    rng = np.random.default_rng(1)
    problem = make_low_rank_labels(n=400, n_labels=30, n_test=1, random_state=1)
    recorded = hide(problem.Y == 1, 0.5, rng)
    folds, scores = rng.integers(0, 5, recorded.shape), np.empty(recorded.shape)
    for fold in range(5):
        thinned = (recorded & (folds != fold)).astype(float)
        clf = LowRankClassifier(
            trace_penalty=1e-3, ridge_penalty=0.0, intercept_penalty=0.0, threshold="train"
        )
        fitted = clf.fit(problem.X, thinned).decision_function(problem.X)
        scores[folds == fold] = fitted[folds == fold]
    found = estimate(scores, recorded)
    assert abs(found.value - 0.5) < 0.05
    assert found.low - 0.02 < 0.5 < found.high + 0.02


@pytest.mark.parametrize("rho", [0.2, 0.8])
def test_both_ways_equal_their_oracles(rho):
    scores, recorded = one_label(np.random.default_rng(2), 4000, rho)
    found = flip_rate_from_scores(scores, recorded, random_state=0)
    assert found.plateau == pytest.approx(1 - slow_plateau(scores, recorded, 1e-6), abs=0.01)
    assert found.curve == pytest.approx(1 - slow_curve(scores, recorded), abs=0.02)
    assert found.value == pytest.approx((found.plateau + found.curve) / 2, abs=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.8])
def test_curves_of_resamples_are_as_likely_as_those_of_an_optimiser(rho):
    rng = np.random.default_rng(4)
    t = np.linspace(2.0, -2.0, 15)
    bounds = ((-15.0, 15.0), (-6.0, 6.0), (-60.0, 60.0))
    entries = rng.uniform(5.0, 60.0, (12, len(t)))
    recorded = entries * np.clip((1 - rho) * expit(2 * t + 0.5) + 0.05 * rng.normal(size=entries.shape), 0, 1)

    def loss(parameters, row):
        level, slope, shift = parameters
        z = np.exp(slope) * t + shift
        p = np.minimum(expit(level) * expit(z), 1 - 1e-12)
        log_p = log_expit(level) + log_expit(z)
        told = recorded[row] @ log_p + (entries[row] - recorded[row]) @ np.log1p(-p)
        return -told - 10.0 * log_expit(z[0])

    start = np.array([1.0, 0.5, 0.0])
    found = fit_curves(entries, recorded, t, start, 10.0, bounds)
    for row, curve in enumerate(found):
        best = minimize(loss, start, args=(row,), method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14})
        assert loss(curve, row) <= best.fun + 1e-6 * abs(best.fun)
        assert expit(curve[0]) == pytest.approx(expit(best.x[0]), abs=2e-3)


def test_a_sample_of_the_unrecorded_entries_will_do():
    rng = np.random.default_rng(3)
    scores, recorded = one_label(rng, 100_000, 0.6)
    kept = recorded | (rng.random(recorded.size) < 0.1)
    weights = np.where(recorded[kept], 1.0, 10.0)
    whole = flip_rate_from_scores(scores, recorded, random_state=0)
    sample = flip_rate_from_scores(scores[kept], recorded[kept], weights=weights, random_state=0)
    assert abs(sample.value - whole.value) < 0.02
    assert abs(sample.value - 0.6) < 0.03
    assert sample.low < 0.6 < sample.high
    assert sample.high - sample.low > whole.high - whole.low
    scaled = flip_rate_from_scores(scores[kept], recorded[kept], weights=0.01 * weights, random_state=0)
    assert scaled.value == pytest.approx(sample.value, abs=1e-6)


def test_only_the_order_of_the_scores_matters_and_a_seed_moves_the_interval_alone():
    scores, recorded = one_label(np.random.default_rng(4), 5000, 0.4)
    found = flip_rate_from_scores(scores, recorded, random_state=0)
    for same in (scores, expit(scores), np.exp(scores) - 7):
        assert flip_rate_from_scores(same, recorded, random_state=0) == found
    other = flip_rate_from_scores(scores, recorded, random_state=1)
    assert other.value == pytest.approx(found.value, abs=1e-6)
    assert other.low != found.low
    # A higher level widens the interval.
    wide, narrow = (flip_rate_from_scores(scores, recorded, level=p, random_state=0) for p in (0.99, 0.5))
    assert wide.low < narrow.low <= narrow.value <= narrow.high < wide.high
    assert wide.level == 0.99
    # The order of the entries does not matter.
    scores, moved = np.round(scores, 1), np.random.default_rng(5).permutation(5000)
    found = flip_rate_from_scores(scores, recorded, random_state=0)
    again = flip_rate_from_scores(scores[moved], recorded[moved], random_state=0)
    assert again.value == pytest.approx(found.value, abs=1e-6)
    assert again.plateau == pytest.approx(found.plateau, abs=1e-12)


def test_rows_that_repeat_their_entries_count_once():
    rng = np.random.default_rng(8)
    scores, recorded = one_label(rng, 1000, 0.5)
    rows = np.repeat(np.arange(1000), 20)
    many, known = scores[rows] + 1e-9 * rng.normal(size=20_000), recorded[rows]
    by_row = flip_rate_from_scores(many, known, groups=rows, random_state=0)
    once = flip_rate_from_scores(scores, recorded, random_state=0)
    assert by_row.value == pytest.approx(once.value, abs=0.05)
    assert by_row.high - by_row.low == pytest.approx(once.high - once.low, rel=0.5)
    # Taken as 20,000 witnesses, a run of luck among a few rows would look like certainty.
    by_entry = flip_rate_from_scores(many, known, random_state=0)
    assert abs(by_entry.plateau - 0.5) > 0.2 > abs(by_row.plateau - 0.5)


@pytest.mark.slow
def test_the_interval_covers():
    covered = []
    for seed in range(20):
        rho = RATES[seed % 5]
        scores, recorded = one_label(np.random.default_rng([9, seed]), 4000, rho)
        found = flip_rate_from_scores(scores, recorded, random_state=seed)
        covered.append(found.low <= rho <= found.high)
    assert np.mean(covered) >= 0.85


def test_where_yes_is_nowhere_certain_the_estimate_is_too_high():
    # P(yes) is at most a half, so that half of the yes recorded looks like a quarter of them.
    rng = np.random.default_rng(10)
    scores = rng.normal(size=50_000)
    recorded = hide(rng.random(50_000) < 0.5 * expit(3 * scores), 0.5, rng)
    found = flip_rate_from_scores(scores, recorded, random_state=0)
    assert found.value == pytest.approx(0.75, abs=0.03)


def test_everything_recorded_and_ties():
    rng = np.random.default_rng(11)
    scores, recorded = one_label(rng, 3000, 0.0, signal=50.0)
    assert flip_rate_from_scores(scores, recorded, random_state=0).value < 0.02
    assert flip_rate_from_scores([2.0, 1.0, 0.0], [1, 1, 1], random_state=0).value < 0.02
    # Two scores: all that can be seen is the fraction recorded at the higher one.
    two = rng.random(2000) < 0.5
    found = flip_rate_from_scores(two.astype(float), hide(two, 0.3, rng), random_state=0)
    assert found.value == pytest.approx(0.3, abs=0.05)
    infinite = np.where(two, np.inf, -np.inf)
    assert flip_rate_from_scores(infinite, hide(two, 0.3, rng), random_state=0).value < 0.4


def test_bad_input():
    for scores, recorded, options, error, message in (
        ([[1.0, 2.0]], [[1, 0]], {}, InvalidInputError, "vectors"),
        ([1.0, 2.0], [1], {}, InvalidInputError, r"\(2,\) and \(1,\)"),
        ([1.0, np.nan], [1, 0], {}, InvalidScoresError, "entry 1 is NaN"),
        ([1.0, 1.0], [1, 0], {}, InvalidScoresError, "All scores are equal"),
        ([1.0, 2.0], [0, 0], {}, InvalidLabelsError, "No entry is recorded"),
        ([1.0, 2.0], [2, 0], {}, InvalidLabelsError, "recorded must be 1"),
        ([1.0, 2.0], [1, 0], {"weights": [1.0, 0.0]}, InvalidInputError, "finite numbers above 0"),
        ([1.0, 2.0], [1, 0], {"weights": [1.0]}, InvalidInputError, "vector of 2"),
        ([1.0, 2.0], [1, 0], {"groups": [1]}, InvalidInputError, r"groups has shape \(1,\)"),
        ([1.0, 2.0], [1, 0], {"groups": [1, 1]}, InvalidInputError, "one row only"),
        ([1.0, 2.0], [1, 0], {"level": 1.0}, InvalidParameterError, "level"),
        ([], [], {}, InvalidLabelsError, "No entry is recorded"),
    ):
        with pytest.raises(error, match=message):
            flip_rate_from_scores(scores, recorded, **options)
