"""One threshold per label against every combination of thresholds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from labelgap.exceptions import InvalidScoresError
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.thresholds import best_label_thresholds, best_threshold
from oracles_thresholds import NAMED, observed, random_problem


def best_of_all_combinations(scores: np.ndarray, labels: ObservedLabels, metric: LinearFractional) -> float:
    """The metric at the best of all combinations of one cut per label."""
    entry_scores = labels.align(scores)
    cuts = []
    for label in range(labels.shape[1]):
        own = sorted(set(entry_scores[labels.indices == label].tolist()))
        cuts.append([*own, *([] if np.inf in own else [np.inf])])
    return max(
        float(metric(labels, entry_scores >= np.array(chosen)[labels.indices]))
        for chosen in itertools.product(*cuts)
    )


def reached(scores: np.ndarray, labels: ObservedLabels, metric: LinearFractional, thresholds) -> float:
    return float(metric(labels, labels.align(scores) >= np.asarray(thresholds)[labels.indices]))


def check(scores, labels, metric):
    found = best_label_thresholds(scores, labels, metric)
    assert found.value == pytest.approx(best_of_all_combinations(scores, labels, metric), abs=1e-12)
    assert reached(scores, labels, metric, found.thresholds) == pytest.approx(found.value, abs=1e-12)
    return found


def test_equals_every_combination():
    for average, name in itertools.product(["micro", "macro"], NAMED):
        rng = np.random.default_rng([len(average), *name.encode()])
        for case in range(12):
            scores, labels, weights = random_problem(rng, L=1 + case % 3)
            metric = get_metric(f"{average}-{name}", zero_division=float(rng.integers(2)))
            check(scores, observed(labels, weights), metric)
    # A 0/0 that is worth more than any ratio, where no shared threshold has it.
    wrong = LinearFractional({"tp": 0.5, "tn": 1}, {"tp": 1, "tn": 1}, zero_division=3)
    found = check(np.array([[1.0, 11.0], [2.0, 12.0]]), observed(np.array([[1.0, 1.0], [0.0, 0.0]])), wrong)
    assert (found.value, found.thresholds.tolist()) == (3.0, [1.5, 11.5])


def test_no_single_label_can_improve_an_instance_metric():
    for name in ("f1", "jaccard", "balanced-accuracy"):
        rng = np.random.default_rng(5)
        metric = get_metric(f"instance-{name}")
        for _ in range(25):
            scores, labels, weights = random_problem(rng)
            known = observed(labels, weights)
            found = best_label_thresholds(scores, known, metric)
            assert found.value >= best_threshold(scores, known, metric).value - 1e-12
            assert reached(scores, known, metric, found.thresholds) == pytest.approx(found.value, abs=1e-12)
            entry_scores = known.align(scores)
            for label in range(known.shape[1]):
                for cut in {*entry_scores[known.indices == label].tolist(), np.inf}:
                    changed = found.thresholds.copy()
                    changed[label] = cut
                    assert reached(scores, known, metric, changed) <= found.value + 1e-9


@st.composite
def problems(draw):
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 3)))
    # Between the neighbours of 1 there is no number.
    cells = [-np.inf, -1.0, 0.0, 0.5, 1.0, np.nextafter(1.0, 2), np.inf]
    scores = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from(cells)))
    labels = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 1.0, np.nan])))
    if np.isnan(labels).all():
        labels[0, 0] = 1.0
    weights = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.3, 1.0, 2.7])))
    return scores, labels, weights if draw(st.booleans()) else None


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(["micro-f1", "macro-f1", "macro-precision", "micro-jaccard"]))
def test_ties_infinite_scores_and_one_class_labels(problem, name):
    scores, labels, weights = problem
    known, metric = observed(labels, weights), get_metric(name)
    found = check(scores, known, metric)
    assert (found.thresholds[known.label_counts() == 0] == found.shared).all()
    assert found.shared == best_threshold(scores, known, metric).threshold


def test_invariants_types_and_nan():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(30, 4)), (rng.random((30, 4)) < 0.4).astype(float)
    order, twice = [2, 0, 3, 1], [*range(10), *range(30)]
    doubled = observed(labels).with_weights(np.where(np.arange(30)[:, None] < 10, 2.0, 1.0) * np.ones((1, 4)))
    for name in ("macro-f1", "micro-f1"):
        found = best_label_thresholds(scores, labels, name)
        again = best_label_thresholds(scores[:, order], labels[:, order], name)
        np.testing.assert_array_equal(again.thresholds, found.thresholds[order])
        # A weight of two is an entry twice.
        weighted = best_label_thresholds(scores, doubled, name)
        repeated = best_label_thresholds(scores[twice], labels[twice], name)
        np.testing.assert_allclose(weighted.thresholds, repeated.thresholds)
    narrow = np.array([[0.1], [0.2]], dtype=np.float32)
    found = best_label_thresholds(narrow, [[0], [1]], "macro-f1")
    assert (narrow >= np.float32(found.thresholds[0])).tolist() == [[False], [True]]
    with pytest.raises(InvalidScoresError, match="row 1, label 0"):
        best_label_thresholds([[0.1], [np.nan]], [[0], [1]], "macro-f1")
