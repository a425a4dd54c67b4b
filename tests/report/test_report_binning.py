"""Thresholds and bins: every decision at every threshold of a page is the model's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_pages import decoded

from labelgap import ObservedLabels
from labelgap.report import binning
from labelgap.report.binning import candidate_thresholds, encode_counted, entry_bins
from labelgap.report.encoding import encode_array, encode_bits, encode_whole, number

SCORES = st.lists(
    st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 1.0, float("inf"), float("-inf")])),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(SCORES, st.lists(st.floats(-6, 6), max_size=3), st.integers(2, 30))
def test_a_bin_says_every_decision(scores: list[float], always: list[float], most: int) -> None:
    z = np.array(scores)
    thresholds = candidate_thresholds(z, z > 0, always, most=most)
    bins = entry_bins(z, thresholds)
    decisions = z[:, None] >= thresholds
    np.testing.assert_array_equal(decisions, bins[:, None] > np.arange(len(thresholds)))
    assert np.all(np.diff(thresholds[np.isfinite(thresholds)]) > 0)
    assert thresholds[0] == -np.inf
    assert thresholds[-1] == np.inf
    assert set(always) <= set(thresholds.tolist())


@settings(deadline=None)
@given(SCORES)
def test_few_scores_are_cut_everywhere(scores: list[float]) -> None:
    z = np.array(scores)
    thresholds = candidate_thresholds(z, z > 0, [])
    # One set of decisions for each number of distinct scores included, but for "none" where one is +inf.
    found = {tuple(z >= t) for t in thresholds}
    assert {tuple(z >= s) for s in z.tolist()} <= found


def test_many_scores_are_thinned_and_rare_positives_are_not_lost() -> None:
    rng = np.random.RandomState(0)
    z = np.concatenate([rng.standard_normal(50_000), 3 + rng.standard_normal(100)])
    positive = np.arange(len(z)) >= 50_000
    thresholds = candidate_thresholds(z, positive, [], most=400)
    assert 250 < len(thresholds) <= 402
    among_positives = np.histogram(z[positive], bins=thresholds[1:-1])[0]
    assert among_positives.max() <= 2
    all_between = np.histogram(z, bins=thresholds[1:-1])[0]
    assert all_between.max() <= 3 * len(z) / 200


@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_whole_numbers_come_back(numbers: list[int]) -> None:
    assert decoded(encode_whole(numbers)).tolist() == numbers


@given(st.lists(st.booleans(), max_size=30))
def test_bits_come_back(flags: list[bool]) -> None:
    assert decoded(encode_bits(flags)).tolist() == [int(flag) for flag in flags]


def test_doubles_come_back_bit_by_bit() -> None:
    values = np.array([0.1, -np.inf, np.inf, 5e-324, np.pi])
    assert decoded(encode_array(values, "f8")).tobytes() == values.tobytes()
    assert [number(v) for v in (0.1, np.inf, -np.inf)] == [0.1, "inf", "-inf"]
    assert number(np.nan) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_add_up_the_entries(weighted: bool) -> None:
    rng = np.random.RandomState(1)
    Y = np.where(rng.uniform(size=(60, 5)) < 0.6, (rng.uniform(size=(60, 5)) < 0.3) * 1.0, np.nan)
    labels = ObservedLabels.from_dense(Y)
    if weighted:
        labels = labels.with_weights(rng.uniform(0.5, 2, size=labels.n_observed))
    bins = rng.randint(1, 7, size=labels.n_observed)
    counted = encode_counted(labels, bins)
    label = np.repeat(np.arange(5), decoded(counted["label_counts"]))
    found = decoded(counted["bins"])
    positive, counts = decoded(counted["positive"]), decoded(counted["counts"])
    for j in range(5):
        for b in range(1, 7):
            for value in (0, 1):
                there = (labels.indices == j) & (bins == b) & (labels.values == value)
                here = (label == j) & (found == b) & (positive == value)
                assert counts[here].sum() == there.sum()
                if weighted:
                    expected = labels.weights[there].sum()
                    assert decoded(counted["weights"])[here].sum() == pytest.approx(expected)
    assert (counted["weights"] is not None) == weighted


def test_many_labels_get_fewer_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = ObservedLabels.from_dense(np.eye(3))
    assert binning.threshold_limit(labels) == binning.MOST_THRESHOLDS
    monkeypatch.setattr(binning, "MOST_ENTRIES", 5)
    monkeypatch.setattr(binning, "_MOST_COUNTS", 600)
    assert binning.threshold_limit(labels) == 100
    monkeypatch.setattr(binning, "_MOST_COUNTS", 6)
    assert binning.threshold_limit(labels) == 64
