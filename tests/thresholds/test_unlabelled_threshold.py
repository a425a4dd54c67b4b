"""The exact threshold over positive and unlabelled cells against brute force and by invariants."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    InvalidScoresError,
    LabelgapWarning,
)
from labelgap.metrics import LinearFractional, get_metric, trivial_values, unlabelled_metric
from labelgap.thresholds import best_threshold, best_unlabelled_threshold, sweep_unlabelled
from oracles_thresholds import AVERAGES, NAMED, best_cut, every_cut, random_metric
from oracles_unlabelled import random_unlabelled, slow_group_counts, slow_metric


def quietly(*args, **kwargs):
    """The answer without the warning of metrics such as recall."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        return best_unlabelled_threshold(*args, **kwargs)


def check_against_brute_force(scores, recorded, rates, metric: LinearFractional) -> None:
    def value_of(included: tuple[bool, ...]) -> float:
        return unlabelled_metric(metric, recorded, np.array(included).reshape(scores.shape), rates)

    flat = scores.ravel()
    cuts = every_cut(flat, value_of)
    result = quietly(scores, recorded, metric, flip_rate=rates, return_curve=True)
    decided = tuple(flat >= result.threshold)
    assert result.value == pytest.approx(max(cut.value for cut in cuts), abs=1e-12)
    assert result.value == pytest.approx(value_of(decided), abs=1e-12)
    assert decided == best_cut(cuts).included
    np.testing.assert_allclose(result.curve.values, [cut.value for cut in cuts], rtol=0, atol=1e-12)
    assert [tuple(flat >= t) for t in result.curve.thresholds] == [cut.included for cut in cuts]
    none, everything = trivial_values(metric, recorded, rates)
    assert result.value_of_none == pytest.approx(none, abs=1e-12)
    assert result.value_of_all == pytest.approx(everything, abs=1e-12)


@pytest.mark.parametrize("rounds", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_equals_brute_force(rounds):
    for average, name in product(AVERAGES, [*NAMED, "random"]):
        rng = np.random.default_rng([AVERAGES.index(average), *name.encode()])
        for _ in range(rounds):
            scores, recorded, rates = random_unlabelled(rng)
            metric = get_metric(f"{average}-{name}") if name != "random" else None
            metric = metric or random_metric(rng, average, balanced=bool(rng.integers(2)))
            check_against_brute_force(scores, recorded, rates, metric)


@pytest.mark.parametrize("average", AVERAGES)
def test_flat_sweep_with_weights_equals_explicit_counts(average):
    rng = np.random.default_rng(3)
    for _ in range(150):
        n = int(rng.integers(1, 25))
        scores = rng.integers(-3, 4, n).astype(float) if rng.random() < 0.5 else rng.normal(size=n)
        recorded = rng.random(n) < 0.4
        weights = np.where(recorded, 1.0, rng.choice([1.0, 10 / 3, 7.3])) * rng.choice([1.0, 1e-3, 1e5])
        rates = rng.uniform(0, 0.9, n)
        groups = None if average == "micro" else rng.integers(0, 5, n)
        parts = np.zeros(n, int) if groups is None else groups
        metric = random_metric(rng, average)

        def value_of(included: tuple[bool, ...], case=(recorded, rates, parts, weights, metric)) -> float:
            *cells, psi = case
            return slow_metric(psi, slow_group_counts(np.array(included), *cells))

        cuts = every_cut(scores, value_of)
        result = sweep_unlabelled(
            scores, recorded, rates, metric, groups=groups, n_groups=5, weights=weights, return_curve=True
        )
        assert result.value == pytest.approx(max(cut.value for cut in cuts), abs=1e-10)
        np.testing.assert_allclose(result.curve.values, [cut.value for cut in cuts], rtol=1e-10, atol=1e-10)
        assert tuple(scores >= result.threshold) == best_cut(cuts).included


score_cells = st.one_of(
    st.integers(-2, 2).map(float),
    st.floats(allow_nan=False, width=32),
    st.sampled_from([-np.inf, np.inf, 0.0, -0.0, 5e-324, 1.7e308, 1.79e308]),
)


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    dtype=st.sampled_from([np.float32, np.float64]),
    name=st.sampled_from(["f1", "jaccard", "precision", "accuracy"]),
    average=st.sampled_from(AVERAGES),
)
def test_property_equals_brute_force(data, shape, dtype, name, average):
    with np.errstate(over="ignore"):
        scores = data.draw(hnp.arrays(np.float64, shape, elements=score_cells)).astype(dtype)
    recorded = data.draw(hnp.arrays(bool, shape))
    recorded[0, 0] = True
    rates = data.draw(hnp.arrays(float, shape[1], elements=st.sampled_from([0.0, 0.1, 0.5, 0.9])))
    check_against_brute_force(scores, recorded, rates, get_metric(f"{average}-{name}"))


def test_without_flips_it_is_the_search_on_complete_labels():
    for average, name in product(AVERAGES, NAMED):
        rng, metric = np.random.default_rng([7, *name.encode()]), f"{average}-{name}"
        for _ in range(20):
            scores, recorded, _ = random_unlabelled(rng)
            known = best_threshold(scores, recorded.astype(int), metric, return_curve=True)
            check_same(quietly(scores, recorded, metric, flip_rate=0.0, return_curve=True), known, 1e-13)


def check_same(found, expected, tolerance):
    assert found.threshold == expected.threshold
    assert found.value == pytest.approx(expected.value, abs=tolerance)
    if found.curve is not None:
        np.testing.assert_array_equal(found.curve.thresholds, expected.curve.thresholds)
        np.testing.assert_allclose(found.curve.values, expected.curve.values, rtol=0, atol=tolerance)


def test_invariants():
    for average in AVERAGES:
        metric = f"{average}-f1"
        rng = np.random.default_rng(0)
        scores, recorded, double = rng.normal(size=300), rng.random(300) < 0.2, rng.random(300) < 0.5
        groups = None if average == "micro" else rng.integers(0, 9, 300)

        def sweep(which, weights, groups=groups, scores=scores, recorded=recorded, metric=metric):
            own = None if groups is None else groups[which]
            return sweep_unlabelled(
                scores[which], recorded[which], 0.4, metric, groups=own, n_groups=9, weights=weights
            )

        # A weight of two is the cell twice.
        everything = np.arange(300)
        once = sweep(everything, np.where(double, 2.0, 1.0))
        check_same(sweep(np.concatenate([everything, everything[double]]), None), once, 1e-12)
        # Sparse scores are the dense ones.
        rng = np.random.default_rng(1)
        for _ in range(30):
            scores, recorded, rates = random_unlabelled(rng)
            scores = np.where(rng.random(scores.shape) < 0.6, 0.0, scores)
            dense = quietly(scores, recorded, metric, flip_rate=rates, return_curve=True)
            for form in (sparse.csr_array, sparse.coo_array, sparse.csc_matrix):
                found = quietly(form(scores), recorded, metric, flip_rate=rates, return_curve=True)
                check_same(found, dense, 1e-12)
        # Neither a monotone function of the scores nor another order changes the decisions.
        rng = np.random.default_rng(2)
        scores, recorded, rates = rng.normal(size=(12, 7)), rng.random((12, 7)) < 0.3, rng.uniform(0, 0.8, 7)
        result = best_unlabelled_threshold(scores, recorded, metric, flip_rate=rates)
        stretched = best_unlabelled_threshold(np.exp(scores), recorded, metric, flip_rate=rates)
        assert stretched.value == pytest.approx(result.value, abs=1e-12)
        np.testing.assert_array_equal(np.exp(scores) >= stretched.threshold, scores >= result.threshold)
        rows, columns = rng.permutation(12), rng.permutation(7)
        moved = np.ix_(rows, columns)
        shuffled = best_unlabelled_threshold(scores[moved], recorded[moved], metric, flip_rate=rates[columns])
        check_same(shuffled, result, 1e-12)


def test_sparse_scores_of_a_matrix_that_no_memory_holds():
    shape, cells = (300_000, 200_000), (np.array([0, 0, 5]), np.array([1, 2, 7]))
    scores = sparse.coo_array((np.array([3.0, 2.0, 1.0]), cells), shape=shape)
    recorded = sparse.coo_array((np.ones(1, np.int8), (np.array([0]), np.array([1]))), shape=shape)
    result = best_unlabelled_threshold(scores, recorded, "micro-f1", flip_rate=0.5)
    assert (result.threshold, result.value) == (1.5, 1.0)
    assert result.value_of_all < 1e-9


@pytest.mark.parametrize("average", AVERAGES)
def test_the_running_sum_does_not_drift(average):
    rng = np.random.default_rng(5)
    shape = (4000, 50)
    scores, rates = rng.normal(size=shape), rng.uniform(0, 0.9, 50)
    recorded = rng.random(shape) < 0.1 / (1 + np.exp(-2 * scores))
    metric = get_metric(f"{average}-f1")
    result = best_unlabelled_threshold(scores, recorded, metric, flip_rate=rates, return_curve=True)
    decided = scores >= result.threshold
    assert result.value == pytest.approx(unlabelled_metric(metric, recorded, decided, rates), abs=1e-12)
    assert result.value == pytest.approx(result.curve.values.max(), abs=1e-12)
    assert result.curve.values[-1] == pytest.approx(result.value_of_all, abs=1e-12)
    assert result.curve.values[0] == pytest.approx(result.value_of_none, abs=1e-12)
    some = np.random.default_rng(6).integers(0, result.curve.values.size, 5)
    for cut in some:
        decided = scores >= result.curve.thresholds[cut]
        expected = unlabelled_metric(metric, recorded, decided, rates)
        assert result.curve.values[cut] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_the_threshold_is_near_that_of_the_truth(rho):
    rng = np.random.default_rng(8)
    z = 3 * rng.normal(size=(2000, 50)) - 2
    truth = rng.random(z.shape) < 1 / (1 + np.exp(-z))
    recorded = truth & (rng.random(z.shape) >= rho)
    known = best_threshold(z, truth.astype(int), "micro-f1")
    result = best_unlabelled_threshold(z, recorded, "micro-f1", flip_rate=rho)
    reached = get_metric("micro-f1")(truth.astype(int), (z >= result.threshold).astype(int))
    assert reached > known.value - 0.005
    assert result.value == pytest.approx(known.value, abs=0.02)
    assert np.isfinite(result.threshold)
    assert max(result.value_of_none, result.value_of_all) < 0.6 < result.value


def test_a_metric_that_does_not_punish_false_positives_is_said():
    rng = np.random.default_rng(9)
    scores, recorded = rng.normal(size=(30, 5)), rng.random((30, 5)) < 0.3
    for name, message in [
        ("micro-recall", "'micro-recall' does not punish false positives.*-f1"),
        ("macro-recall", "'macro-recall' does not punish false positives.*-f1"),
        (LinearFractional({"tp": 1}, {"const": 1}), "This metric does not punish"),
    ]:
        with pytest.warns(LabelgapWarning, match=message):
            result = best_unlabelled_threshold(scores, recorded, name, flip_rate=0.5)
        assert result.value == result.value_of_all
    # Three of four are yes: without any order in the scores, yes to all is right, and nothing is to warn of.
    result = best_unlabelled_threshold(np.zeros((1, 4)), [[1, 1, 1, 0]], "micro-f1", flip_rate=0.0)
    assert result.threshold == -np.inf


def test_cuts_by_hand_and_other_types():
    # Equal values take the highest threshold.
    scores = np.array([[3.0, 2.0, 1.0]])
    assert quietly(scores, [[0, 1, 0]], "micro-recall", flip_rate=0.2).threshold == 1.5
    assert quietly(scores, [[0, 1, 0]], "micro-specificity", flip_rate=0.2).threshold == np.inf
    scores = np.array([[np.inf, 1.0, -np.inf]])
    # With a score of +inf no threshold says no everywhere.
    top = best_unlabelled_threshold(scores, [[0, 0, 1]], "micro-specificity", flip_rate=0.0)
    assert (top.threshold, top.value, top.value_of_none) == (np.inf, 0.5, 1.0)
    middle = best_unlabelled_threshold(scores, [[1, 1, 0]], "micro-accuracy", flip_rate=0.0)
    assert (scores >= middle.threshold).tolist() == [[True, True, False]]
    for dtype in (np.float16, np.float32, np.int32, bool):
        scores = np.array([[0, 1, 1]]).astype(dtype)
        assert best_unlabelled_threshold(scores, [[0, 1, 1]], flip_rate=0).threshold == 0.5
        if dtype is not np.float16:
            stored = sparse.csr_array(scores)
            assert best_unlabelled_threshold(stored, [[0, 1, 1]], flip_rate=0).threshold == 0.5
    scores, recorded = np.array([0.9, 0.5, 0.1]), np.array([1, 0, 0], np.int8)
    rates = np.array([0.5, 0.1, 0.2])
    as_numbers = sweep_unlabelled(scores, recorded, rates, "micro-f1")
    assert as_numbers == sweep_unlabelled(scores, recorded == 1, rates, "micro-f1")


def test_inputs_are_left_alone_and_bad_ones_are_refused():
    scores, recorded = np.array([[0.3, 0.1, 0.2]]), np.array([[1, 0, 1]])
    entries = (np.array([0.3, 0.1, 0.2]), (np.array([0, 0, 0]), np.array([2, 2, 1])))
    duplicates = sparse.coo_array(entries, shape=(1, 3))
    scores.setflags(write=False)
    for average in AVERAGES:
        best_unlabelled_threshold(scores, recorded, f"{average}-f1", flip_rate=0.1)
        best_unlabelled_threshold(duplicates, recorded, f"{average}-f1", flip_rate=0.1)
    assert scores.tolist() == [[0.3, 0.1, 0.2]]
    assert duplicates.data.tolist() == [0.3, 0.1, 0.2]
    nan, one, two = np.nan, [[1, 0]], [[1, 0], [0, 0]]
    stored = sparse.csr_array(np.array([[0.1, 0.0], [0.0, np.nan]]))
    for scores, recorded, rate, error, message in [
        ([[0.1, 0.2], [nan, 0.4]], two, 0.5, InvalidScoresError, "row 1, label 0 is NaN"),
        (stored, two, 0.5, InvalidScoresError, "row 1, label 1 is NaN"),
        ([0.1, 0.2], one, 0.5, InvalidScoresError, r"shape \(2,\); expected \(1, 2\)"),
        ([[0.1, 0.2]], one, 1.5, InvalidParameterError, r"flip_rate is 1\.5"),
        ([[0.1, 0.2]], [[0, 0]], 0.5, InvalidLabelsError, "No label is observed"),
    ]:
        with pytest.raises(error, match=message):
            best_unlabelled_threshold(scores, recorded, flip_rate=rate)
    scores, recorded = np.array([0.1, 0.2]), np.array([True, False])
    groups = {"groups": np.array([0, 1]), "n_groups": 2}
    for given_, error, message in [
        ((scores, recorded[:1], 0.5, "micro-f1"), InvalidInputError, "one element per entry"),
        ((scores[:0], recorded[:0], 0.5, "micro-f1"), InvalidInputError, "one element per entry"),
        ((np.array([0.1, nan]), recorded, 0.5, "micro-f1"), InvalidScoresError, "entry 1 is NaN"),
        ((scores, recorded, np.array([0.5, 1.0]), "micro-f1"), InvalidParameterError, "below 1"),
        ((scores, recorded, np.array([0.5]), "micro-f1"), InvalidParameterError, "one per entry"),
        ((scores, recorded, 0.5, "macro-f1"), InvalidParameterError, "'macro' and groups is None"),
        ((scores, recorded, 0.5, "micro-f1", groups), InvalidParameterError, "'micro' and groups is given"),
    ]:
        with pytest.raises(error, match=message):
            sweep_unlabelled(*given_[:4], **(given_[4] if len(given_) > 4 else {}))


@pytest.mark.parametrize("average", ["micro", "instance", "macro"])
def test_recorded_cells_may_be_known(average):
    """Against every threshold by hand: a recorded cell is a yes, and ρ/(1 − ρ) others are at its score."""
    rng = np.random.default_rng(5)
    n, n_labels, rho = 8, 5, 0.4
    scores = rng.standard_normal((n, n_labels)).round(1)
    recorded = rng.random((n, n_labels)) < 0.3
    recorded[0], recorded[:, 0] = True, True
    metric = get_metric(f"{average}-f1")
    axis = {"micro": None, "instance": 1, "macro": 0}[average]
    groups = {
        "micro": None,
        "instance": np.repeat(np.arange(n), n_labels),
        "macro": np.tile(np.arange(n_labels), n),
    }[average]
    result = sweep_unlabelled(
        scores.ravel(),
        recorded.ravel(),
        rho,
        metric,
        groups=groups,
        n_groups=1 if groups is None else groups.max() + 1,
        recorded_are_known=True,
    )

    def value(threshold):
        above = scores >= threshold
        known = recorded.sum(axis=axis)
        decided = known + (above & ~recorded).sum(axis=axis)
        found = np.minimum(known + rho / (1 - rho) * (above & recorded).sum(axis=axis), decided)
        positive = np.minimum(known / (1 - rho), scores.size / np.size(known))
        # What is possible: no more false positives than there are no.
        found = np.maximum(found, decided - (scores.size / np.size(known) - positive))
        return np.mean(2 * found / (decided + positive))

    best = max(value(t) for t in [np.inf, *np.unique(scores)])
    assert result.value == pytest.approx(best)
    assert value(result.threshold) == pytest.approx(best)
