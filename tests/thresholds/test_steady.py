"""The mean of best thresholds over parts of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from labelgap.labels import ObservedLabels
from labelgap.metrics import get_metric
from labelgap.thresholds import best_threshold, steady_threshold
from labelgap.thresholds import sweep as sweep_module
from labelgap.thresholds.cross_fit import hold_out_plan


def sample(n: int = 60, n_labels: int = 5, seed: int = 0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, n_labels)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    labels = ObservedLabels.from_dense(Y)
    return labels, labels.values + rng.standard_normal(labels.n_observed)


def by_hand(scores, labels, metric, n_parts):
    """Parts as arrays with NaN in the rows that are left out."""
    rng, found = np.random.RandomState(0), []
    for _ in range(n_parts):
        rows = rng.random_sample(labels.shape[0]) < 0.632
        dense, all_scores = labels.to_dense(), np.full(labels.shape, 0.0)
        dense[~rows] = np.nan
        all_scores[labels.rows, labels.cols] = scores
        found.append(best_threshold(all_scores, dense, metric).threshold)
    return np.mean([one for one in found if np.isfinite(one)])


@pytest.mark.parametrize("digits", [1, 16])
@pytest.mark.parametrize(
    "metric", ["micro-f1", "macro-jaccard", "instance-f1", "micro-accuracy", "micro-balanced-accuracy"]
)
def test_it_is_the_mean_over_parts_of_the_rows(metric: str, digits: int) -> None:
    labels, scores = sample()
    scores = np.round(scores, digits)
    assert steady_threshold(scores, labels, metric) == pytest.approx(by_hand(scores, labels, metric, 25))


def test_it_is_repeatable_and_moves_with_the_scores() -> None:
    labels, scores = sample()
    theta = steady_threshold(scores, labels, "micro-f1")
    assert theta == steady_threshold(scores, labels, get_metric("micro-f1"))
    assert steady_threshold(scores + 3.0, labels, "micro-f1") == pytest.approx(theta + 3.0)
    assert np.isfinite(steady_threshold(scores, labels, "micro-f1", random_state=None))


def test_it_varies_less_than_the_best_threshold() -> None:
    exact, mean = [], []
    for seed in range(40):
        labels, scores = sample(seed=seed)
        exact.append(best_threshold(scores, labels, "micro-f1").threshold)
        mean.append(steady_threshold(scores, labels, "micro-f1"))
    assert np.std(mean) < np.std(exact)


def test_no_and_yes_to_everything_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = ObservedLabels.from_dense([[1.0, 1.0]] * 9 + [[0.0, 1.0]])
    scores = np.zeros(labels.n_observed)
    whole = best_threshold(scores, labels, "micro-f1").threshold
    assert steady_threshold(scores, labels, "micro-f1") == whole


def test_a_large_sample_has_its_own_best(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = sample()
    monkeypatch.setattr(sweep_module, "_MOST_ENTRIES", 4 * labels.n_observed)
    assert (
        steady_threshold(scores, labels, "micro-f1") == best_threshold(scores, labels, "micro-f1").threshold
    )


def test_folds_by_row_hold_a_row_out_as_a_whole() -> None:
    labels, _ = sample()
    plan = hold_out_plan(labels, "cross-fit", 0, by_row=True)
    for row in np.unique(labels.rows):
        assert len(set(plan[labels.rows == row])) == 1
    rows_per_fold = [len(np.unique(labels.rows[plan == fold])) for fold in range(5)]
    assert sum(rows_per_fold) == len(np.unique(labels.rows))
    assert max(rows_per_fold) - min(rows_per_fold) <= 1
    np.testing.assert_array_equal(plan, hold_out_plan(labels, "cross-fit", 0, by_row=True))


def test_too_few_rows_are_held_out_entry_by_entry() -> None:
    labels = ObservedLabels.from_dense([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    plan = hold_out_plan(labels, "cross-fit", 0, by_row=True)
    np.testing.assert_array_equal(plan, hold_out_plan(labels, "cross-fit", 0))
