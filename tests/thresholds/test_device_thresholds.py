"""The threshold search on a device finds the cut of the CPU, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labelgap.exceptions import InvalidScoresError
from labelgap.labels import ObservedLabels
from labelgap.thresholds import best_threshold

torch = pytest.importorskip("torch", reason="no torch here, so there are no tensors to search")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SHAPE = (300, 250)


def sample(seed: int, dtype: Any, ties: bool) -> tuple[Any, ObservedLabels]:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(SHAPE) * 2 - 1
    labels = ObservedLabels.from_dense((rng.random(SHAPE) < 1 / (1 + np.exp(-z))).astype(float))
    scores = (z + 0.5 * rng.standard_normal(SHAPE)).ravel()
    return (scores.round(2) if ties else scores).astype(dtype), labels


@pytest.fixture(autouse=True)
def many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for buckets at this size."""
    monkeypatch.setattr("labelgap.thresholds.narrowing.MANY_ENTRIES", 1 << 12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", ["micro-f1", "macro-jaccard", "instance-f1", "micro-accuracy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ties", [False, True])
def test_the_same_threshold_and_value(device: str, metric: str, dtype: Any, ties: bool) -> None:
    scores, labels = sample(3, dtype, ties)
    expected = best_threshold(scores, labels, metric)
    found = best_threshold(torch.from_numpy(scores).to(device), labels, metric)
    assert (found.threshold, found.value) == (expected.threshold, expected.value)


def test_buckets_are_used_and_their_number_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    from labelgap.kernels.gpu import buckets

    made = []
    kept = buckets.DeviceEntries.near

    def near(self: Any, marked: Any) -> Any:
        made.append(len(marked))
        return kept(self, marked)

    monkeypatch.setattr(buckets.DeviceEntries, "near", near)
    for seed in range(5):
        scores, labels = sample(seed, np.float64, ties=False)
        expected = best_threshold(scores, labels, "micro-f1")
        found = best_threshold(torch.from_numpy(scores), labels, "micro-f1")
        assert (found.threshold, found.value) == (expected.threshold, expected.value)
    assert len(made) == 5


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n_groups", [1, 3])
def test_counts_of_buckets(n_groups: int, device: str) -> None:
    from labelgap.kernels.gpu.buckets import entries_on_device

    rng = np.random.default_rng(0)
    # With ties, and with zeros of either sign.
    scores = np.r_[rng.standard_normal(5000).round(1), np.zeros(50), -np.zeros(50)]
    values, groups = rng.integers(0, 2, len(scores)), rng.integers(0, n_groups, len(scores))
    given = None if n_groups == 1 else groups
    entries = entries_on_device(torch.from_numpy(scores).to(device), values, given, n_groups)
    found = entries.counts(64)
    edges = entries._edges.cpu().numpy()
    expected = np.zeros_like(found)
    np.add.at(expected, (np.searchsorted(edges, scores, side="right"), groups, 1 - values), 1)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("scores", [np.full(75000, 0.5), np.r_[np.inf, np.zeros(74998), -np.inf]])
def test_scores_that_hardly_differ(scores: Any) -> None:
    _, labels = sample(0, np.float64, ties=False)
    expected = best_threshold(scores, labels, "micro-f1")
    found = best_threshold(torch.from_numpy(scores), labels, "micro-f1")
    assert (found.threshold, found.value) == (expected.threshold, expected.value)


def test_weights_curves_and_matrices_go_to_the_host() -> None:
    scores, labels = sample(1, np.float64, ties=False)
    weighted = labels.with_weights(np.random.default_rng(0).uniform(0.5, 2, labels.n_observed))
    tensor = torch.from_numpy(scores)
    for given, options in (
        ((tensor, weighted), {}),
        ((tensor, labels), {"return_curve": True}),
        ((tensor.reshape(SHAPE), labels), {}),
    ):
        expected = best_threshold(given[0].numpy(), given[1], "micro-f1", **options)
        found = best_threshold(*given, "micro-f1", **options)
        assert (found.threshold, found.value) == (expected.threshold, expected.value)


def test_a_score_that_is_no_number_is_named() -> None:
    scores, labels = sample(1, np.float64, ties=False)
    scores[251] = np.nan
    with pytest.raises(InvalidScoresError, match="row 1, label 1"):
        best_threshold(torch.from_numpy(scores), labels)
