"""Whether decisions beat a yes, or a no, to everything: by the jackknife's definition, one part at a time."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from labelgap.exceptions import TrivialDecisionsWarning
from labelgap.labels import ObservedLabels
from labelgap.metrics import get_metric, unlabelled_metric
from labelgap.metrics.jackknife import N_PARTS, without_each_part
from labelgap.thresholds import Constraint
from labelgap.thresholds.cross_fit import HeldOutScores
from labelgap.thresholds.trivial import trivial_beside, trivial_beside_recorded, warn_of_trivial_decisions
from labelgap.thresholds.unlabelled import best_unlabelled_threshold


def problem(noise: float, rate: float = 0.4, n: int = 60) -> tuple[np.ndarray, ObservedLabels]:
    rng = np.random.default_rng(0)
    labels = ObservedLabels.from_dense((rng.random((n, 3)) < rate).astype(float))
    return labels.values + noise * rng.standard_normal(labels.n_observed), labels


def error_of(gains: list[float]) -> float:
    """The standard error of a gain, from what it is without each part."""
    assert len(gains) == N_PARTS
    return float(np.sqrt((N_PARTS - 1) / N_PARTS * np.sum((np.array(gains) - np.mean(gains)) ** 2)))


def test_the_better_of_both_beside_decisions():
    scores, labels = problem(0.5)
    yes = scores >= 0.5
    for name in ("micro-f1", "macro-accuracy", "instance-jaccard"):
        metric = get_metric(name)
        both = {word: np.full(len(yes), word == "yes") for word in ("no", "yes")}
        for bounds in [(), (Constraint("recall", "<=", 0.5),), (Constraint("recall", ">=", 0.5),)]:
            allowed = {
                word: metric(labels, all_)
                for word, all_ in both.items()
                if all(one.shortfall(one.metric(labels, all_)) == 0 for one in bounds)
            }
            found = trivial_beside(metric, yes, labels, bounds)
            assert found.word == max(allowed, key=lambda word: allowed[word])
            assert (found.value, found.beside) == (allowed[found.word], metric(labels, yes))
            gains = []
            for kept in without_each_part(labels):
                rest = labels.select(kept)
                gains.append(metric(rest, yes[kept]) - metric(rest, both[found.word][kept]))
            assert found.error == pytest.approx(error_of(gains)), name
    neither = Constraint("recall", ">=", 0.5), Constraint("specificity", ">=", 0.5)
    assert trivial_beside(get_metric("micro-f1"), yes, labels, neither) is None
    few = labels.select(labels.rows < N_PARTS - 1)
    assert trivial_beside(get_metric("micro-f1"), yes[: few.n_observed], few) is None


def test_recorded_entries_are_decided_at_thresholds_of_other_rows():
    scores, entries = problem(0.4)
    rates = np.array([0.2, 0.4, 0.3])
    dense = scores.reshape(60, 3)
    recorded = entries.values.reshape(60, 3) == 1
    for name in ("micro-f1", "macro-f1", "instance-f1"):
        metric = get_metric(name)
        decided = np.zeros((60, 3), dtype=bool)
        parts = [kept.reshape(60, 3)[:, 0] for kept in without_each_part(entries)]
        for rows in parts:
            cut = best_unlabelled_threshold(dense[rows], recorded[rows], metric, flip_rate=rates).threshold
            decided[~rows] = dense[~rows] >= cut
        all_of = {word: np.full((60, 3), word == "yes") for word in ("no", "yes")}
        values = {word: unlabelled_metric(metric, recorded, all_, rates) for word, all_ in all_of.items()}
        word = max(values, key=lambda one: values[one])
        gains = [
            unlabelled_metric(metric, recorded[rows], decided[rows], rates)
            - unlabelled_metric(metric, recorded[rows], all_of[word][rows], rates)
            for rows in parts
        ]
        found = trivial_beside_recorded(metric, scores, entries, rates)
        assert found.word == word
        assert found.value == pytest.approx(values[word])
        assert found.beside == pytest.approx(unlabelled_metric(metric, recorded, decided, rates))
        assert found.error == pytest.approx(error_of(gains)), name
    few = entries.select(entries.rows < N_PARTS - 1)
    assert trivial_beside_recorded(get_metric("micro-f1"), scores[: few.n_observed], few, rates) is None


def test_what_is_said_and_when():
    metric = get_metric("micro-f1")

    def told(cut, scores=None, labels=None, **options):
        held_out = HeldOutScores()
        if scores is not None:
            held_out.see(scores, labels)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_trivial_decisions(metric, cut, held_out, **options)
        assert all(one.category is TrivialDecisionsWarning for one in caught)
        return str(caught[0].message) if caught else None

    good, bad = problem(0.3), problem(30.0, rate=0.7)
    assert told(0.5, *good) is None
    assert told(np.full(3, 0.5), *good) is None
    assert "not clearly better than saying yes to everything: micro-f1 of the dec" in told(0.5, *bad)
    # A value that is known otherwise, bounds, few rows, and no scores.
    assert "is 0.1000 on held-out labels" in told(0.5, *good, value=0.1)
    assert told(0.5, *bad, bounds=(Constraint("specificity", ">=", 0.5),)) is None
    assert told(0.5, *problem(30.0, n=N_PARTS - 1)) is None
    assert told(0.5) is None
    rates = np.array([0.2, 0.4, 0.3])
    for scores, entries in (good, bad):
        trivial = trivial_beside_recorded(metric, scores, entries, rates)
        said = told(0.5, flip_rate=rates, trivial=trivial, everything="every film")
        if scores is good[0]:
            assert said is None
        else:
            assert f"not clearly better than saying {trivial.word} to every film: micro-f1 of the" in said
            assert "at the flip rate of 0.3" in said
        # Where all positives were recorded there is nothing to correct.
        assert told(0.5, flip_rate=0.0, trivial=trivial) is None
    assert "say no to everything, where micro-f1 is best" in told(np.inf, flip_rate=0.3)
    assert "say yes to everything" in told(np.full(3, -np.inf), flip_rate=rates)
    assert told(0.5, flip_rate=0.3) is None
