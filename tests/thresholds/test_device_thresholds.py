"""The threshold search on a device finds the cut of the CPU, bit for bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from labelgap.exceptions import InvalidScoresError
from labelgap.labels import ObservedLabels
from labelgap.thresholds import best_threshold

torch = pytest.importorskip("torch", reason="no torch here, so there are no tensors to search")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
# More entries than 65,536, so that they are counted in buckets.
SHAPE = (300, 250)


def sample(seed: int, dtype: Any = np.float64, ties: bool = False) -> tuple[Any, ObservedLabels]:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(SHAPE) * 2 - 1
    labels = ObservedLabels.from_dense((rng.random(SHAPE) < 1 / (1 + np.exp(-z))).astype(float))
    scores = (z + 0.5 * rng.standard_normal(SHAPE)).ravel()
    return (scores.round(2) if ties else scores).astype(dtype), labels


def check(scores: Any, labels: ObservedLabels, metric: str = "micro-f1", device: str = "cpu", **options: Any):
    expected = best_threshold(scores, labels, metric, **options)
    found = best_threshold(torch.from_numpy(scores).to(device), labels, metric, **options)
    assert (found.threshold, found.value) == (expected.threshold, expected.value), metric


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_threshold_and_value(device: str) -> None:
    for dtype, ties in itertools.product((np.float32, np.float64), (False, True)):
        scores, labels = sample(3, dtype, ties)
        for metric in ("micro-f1", "macro-jaccard", "instance-f1", "micro-accuracy"):
            check(scores, labels, metric, device)
    _, labels = sample(0)
    # Scores that hardly differ.
    for scores in (np.full(75000, 0.5), np.r_[np.inf, np.zeros(74998), -np.inf]):
        check(scores, labels, device=device)
    # Weights, curves and matrices go to the host.
    scores, labels = sample(1)
    weighted = labels.with_weights(np.random.default_rng(0).uniform(0.5, 2, labels.n_observed))
    check(scores, weighted, device=device)
    check(scores, labels, device=device, return_curve=True)
    check(scores.reshape(SHAPE), labels, device=device)
    scores[251] = np.nan
    with pytest.raises(InvalidScoresError, match="row 1, label 1"):
        best_threshold(torch.from_numpy(scores).to(device), labels)


def test_buckets_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from labelgap.kernels.gpu import buckets

    made = []
    kept = buckets.DeviceEntries.near

    def near(self: Any, marked: Any) -> Any:
        made.append(len(marked))
        return kept(self, marked)

    monkeypatch.setattr(buckets.DeviceEntries, "near", near)
    for seed in range(5):
        check(*sample(seed))
    assert len(made) == 5


@pytest.mark.parametrize("device", DEVICES)
def test_counts_of_buckets(device: str) -> None:
    from labelgap.kernels.gpu.buckets import entries_on_device

    rng = np.random.default_rng(0)
    # With ties, and with zeros of either sign.
    scores = np.r_[rng.standard_normal(5000).round(1), np.zeros(50), -np.zeros(50)]
    levels = np.unique(scores)
    for n_groups in (1, 3):
        values, groups = rng.integers(0, 2, len(scores)), rng.integers(0, n_groups, len(scores))
        given = None if n_groups == 1 else groups
        entries = entries_on_device(torch.from_numpy(scores).to(device), values, given, n_groups)
        found = entries.counts(64)
        # By score, group and class; buckets are runs of whole levels of the scores.
        by_level = np.zeros((len(levels), n_groups, 2))
        np.add.at(by_level, (np.searchsorted(levels, scores), groups, 1 - values), 1)
        ends = np.concatenate([[np.zeros((n_groups, 2))], np.cumsum(by_level, axis=0)])
        for total in np.cumsum(found, axis=0):
            assert (ends == total).all(axis=(1, 2)).any()
        np.testing.assert_array_equal(found.sum(axis=0), ends[-1])
        assert (found.sum(axis=(1, 2)) > 0).sum() > 10
