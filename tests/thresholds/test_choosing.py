"""Shared, per-label, shrunk and chosen thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from labelgap.exceptions import UnknownNameError
from labelgap.labels import ObservedLabels
from labelgap.thresholds import best_label_thresholds, best_threshold, choose_thresholds
from labelgap.thresholds.choosing import THRESHOLD_KINDS
from labelgap.thresholds.shrunk import STRENGTHS, rarer_counts, shrink


def sample(n=300, L=4, shift=0.0, seed=0, observed=0.7):
    """Scores whose labels have thresholds that lie ``shift`` apart."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, L)) < 0.4).astype(float)
    scores = rng.standard_normal((n, L)) + 2 * Y + shift * np.arange(L)
    Y[rng.random((n, L)) > observed] = np.nan
    return scores, ObservedLabels.from_dense(Y)


def test_labels_on_other_scales_get_their_own_thresholds():
    scores, labels = sample(shift=4.0)
    for metric in ("macro-f1", "micro-f1", "instance-f1"):
        chosen = choose_thresholds(scores, labels, metric)
        assert chosen.kind in ("shrunk", "per-label")
        assert chosen.held_out_value > best_threshold(scores, labels, metric).value + 0.05
        assert (np.diff(chosen.thresholds) > 1).all()


def test_auto_is_shared_where_the_held_out_metric_says_so():
    # One best threshold for all labels: on average those of single labels only add noise.
    kinds = []
    for seed in range(6):
        scores, labels = sample(n=80, L=8, seed=seed)
        chosen = choose_thresholds(scores, labels, "micro-f1")
        kinds.append(chosen.kind)
        if chosen.kind == "shared":
            assert (chosen.thresholds == chosen.shared).all()
            assert chosen.shared == best_threshold(scores, labels, "micro-f1").threshold
    assert "per-label" not in kinds
    assert "shared" in kinds
    # Scores that say nothing: the best thresholds of single labels look good, and are not.
    rng = np.random.default_rng(0)
    labels = ObservedLabels.from_dense((rng.random((40, 30)) < 0.3).astype(float))
    scores = rng.standard_normal((40, 30))
    chosen = choose_thresholds(scores, labels, "macro-f1", "per-label")
    assert chosen.held_out_value < best_label_thresholds(scores, labels, "macro-f1").value - 0.05


def test_per_label_is_exact_and_shrunk_lies_between():
    scores, labels = sample()
    chosen = choose_thresholds(scores, labels, "macro-f1", "per-label")
    exact = best_label_thresholds(scores, labels, "macro-f1")
    np.testing.assert_array_equal(chosen.thresholds, exact.thresholds)
    assert (chosen.kind, chosen.strength) == ("per-label", None)
    scores, labels = sample(shift=1.0)
    Y = labels.to_dense()
    Y[:, 0] = np.where(np.isnan(Y[:, 0]), np.nan, 0.0)
    Y[:, 1] = np.nan
    chosen = choose_thresholds(scores, Y, "macro-f1", "shrunk")
    assert chosen.kind == "shrunk"
    assert chosen.strength in STRENGTHS
    # Labels without both classes share.
    assert (chosen.thresholds[:2] == chosen.shared).all()
    assert (chosen.thresholds[2:] != chosen.shared).all()
    again = choose_thresholds(scores, Y, "macro-f1", "shrunk")
    np.testing.assert_array_equal(chosen.thresholds, again.thresholds)


def test_the_formula_of_shrinkage():
    own, counts = np.array([3.0, -1.0, 7.0, np.nan]), np.array([10, 30, 0, 5])
    np.testing.assert_allclose(shrink(own, 1.0, counts, 10.0), [1 + 0.5 * 2.0, 1 + 0.75 * -2.0, 1.0, 1.0])
    assert shrink(own, np.inf, counts, 10.0).tolist() == [np.inf, -1.0, np.inf, np.inf]
    rng = np.random.default_rng(3)
    Y = np.where(rng.random((20, 5)) < 0.5, np.nan, rng.integers(0, 2, (20, 5)))
    expected = [min(np.sum(column == 1), np.sum(column == 0)) for column in Y.T]
    assert rarer_counts(ObservedLabels.from_dense(Y)).tolist() == expected


def test_few_rows_one_label_infinite_scores_and_rules():
    for kind in THRESHOLD_KINDS:
        # Ten rows are two for each fold; fewer are not compared.
        for n, compared in ((2, False), (9, False), (10, True)):
            scores, labels = sample(n=n, L=2, observed=1.0)
            chosen = choose_thresholds(scores, labels, "macro-f1", kind)
            assert (chosen.held_out_value is not None) == (compared and kind != "shared"), (kind, n)
            assert compared or chosen.kind == {"auto": "shared"}.get(kind, kind)
        assert choose_thresholds([[0.9], [0.1]], [[1], [0]], "macro-f1", kind).kind == "shared"
        scores, labels = sample(n=40, L=3)
        scores[::3] = np.inf
        scores[1::3, 0] = -np.inf
        assert not np.isnan(choose_thresholds(scores, labels, "macro-f1", kind).thresholds).any()
    fixed = choose_thresholds(scores, labels, "macro-f1", "shared", shared=lambda scores, labels: 0.25)
    assert fixed.shared == 0.25
    with pytest.raises(UnknownNameError, match="per-label"):
        choose_thresholds([[0.9]], [[1]], "micro-f1", "perlabel")
