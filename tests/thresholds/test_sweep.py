"""The exact threshold search against brute force and by invariants."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from labelgap.exceptions import InvalidLabelsError, InvalidScoresError, UnknownNameError
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.thresholds import best_threshold, steady_threshold, sweep_entries
from oracles_thresholds import (
    AVERAGES,
    NAMED,
    best_cut,
    every_cut,
    group_mean,
    observed,
    random_metric,
    random_problem,
)


def check_against_brute_force(scores, labels: ObservedLabels, metric: LinearFractional) -> None:
    entry_scores = labels.align(scores)

    def value_of(included: tuple[bool, ...]) -> float:
        return float(metric(labels, np.array(included)))

    cuts = every_cut(entry_scores, value_of)
    result = best_threshold(scores, labels, metric, return_curve=True)
    decided = entry_scores >= result.threshold
    assert result.value == pytest.approx(max(cut.value for cut in cuts), abs=1e-12)
    assert result.value == pytest.approx(value_of(tuple(decided)), abs=1e-12)
    assert tuple(decided) == best_cut(cuts).included
    assert result.curve is not None
    np.testing.assert_allclose(result.curve.values, [cut.value for cut in cuts], rtol=0, atol=1e-12)
    assert [tuple(entry_scores >= t) for t in result.curve.thresholds] == [cut.included for cut in cuts]
    # A lone cut means that every score is +inf, so that "all" is the only decision.
    assert result.curve.thresholds[0] == np.inf or len(cuts) == 1
    assert result.curve.thresholds[-1] == -np.inf
    assert (np.diff(result.curve.thresholds) < 0).all()


@pytest.mark.parametrize("rounds", [25, pytest.param(120, marks=pytest.mark.slow)])
def test_equals_brute_force(rounds):
    for average, name in product(AVERAGES, [*NAMED, "random"]):
        rng = np.random.default_rng([AVERAGES.index(average), *name.encode()])
        for _ in range(rounds):
            scores, labels, weights = random_problem(rng)
            metric = random_metric(rng, average) if name == "random" else get_metric(f"{average}-{name}")
            check_against_brute_force(scores, observed(labels, weights), metric)


def test_flat_sweep_equals_explicit_counts():
    for weighted, grouped in product([False, True], repeat=2):
        rng = np.random.default_rng(3)
        for _ in range(300):
            n = int(rng.integers(1, 25))
            scores = rng.integers(-3, 4, n).astype(float) if rng.random() < 0.5 else rng.normal(size=n)
            values = rng.integers(0, 2, n).astype(np.int8)
            weights = rng.uniform(0.1, 3, n) if weighted else None
            groups = rng.integers(0, 5, n) if grouped else None
            numerator = rng.normal(size=5)
            # Negative predictive value ends in 0/0, and with weights the 0 must not be blurred by rounding.
            denominator = rng.uniform(0.1, 1, 5) if rng.random() < 0.5 else np.array([0.0, 0, 0, 1, 1])
            zero_division = float(rng.integers(0, 2))
            settled = np.ones(n) if weights is None else weights
            parts = np.zeros(n, int) if groups is None else groups
            case = (values, settled, parts, numerator, denominator, zero_division)
            cuts = every_cut(scores, lambda included, case=case: group_mean(included, *case))
            result = sweep_entries(
                scores,
                values,
                weights=weights,
                groups=groups,
                n_groups=5,
                vertex_numerator=numerator[0] + numerator[1:],
                vertex_denominator=denominator[0] + denominator[1:],
                zero_division=zero_division,
                return_curve=True,
            )
            right = [cut.value for cut in cuts]
            assert result.value == pytest.approx(max(right), abs=1e-11)
            np.testing.assert_allclose(result.curve.values, right, rtol=1e-11, atol=1e-11)
            assert tuple(scores >= result.threshold) == best_cut(cuts).included


score_cells = st.one_of(
    st.integers(-2, 2).map(float),
    st.floats(allow_nan=False, width=32),
    st.sampled_from([-np.inf, np.inf, 0.0, -0.0, 5e-324, 1.7e308, 1.79e308]),
)


@st.composite
def problems(draw):
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    with np.errstate(over="ignore"):
        scores = draw(hnp.arrays(np.float64, shape, elements=score_cells)).astype(dtype)
    labels = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 1.0, np.nan])))
    if np.isnan(labels).all():
        labels[0, 0] = 1.0
    weights = draw(st.none() | hnp.arrays(np.float64, shape, elements=st.sampled_from([0.5, 1.0, 0.3])))
    return scores, labels, weights


@settings(max_examples=150, deadline=None)
@given(
    problem=problems(),
    name=st.sampled_from(["f1", "jaccard", "precision", "accuracy"]),
    average=st.sampled_from(AVERAGES),
)
def test_property_equals_brute_force(problem, name, average):
    scores, labels, weights = problem
    check_against_brute_force(scores, observed(labels, weights), get_metric(f"{average}-{name}"))


def test_invariants():
    for average, seed in product(AVERAGES, range(5)):
        rng = np.random.default_rng(seed)
        scores, labels, weights = random_problem(rng, 12, 7)
        scores = np.clip(scores, -8, 8)
        metric = get_metric(f"{average}-f1")
        given_labels, known = observed(labels, weights), ~np.isnan(labels)
        result = best_threshold(scores, given_labels, metric)
        stretched = best_threshold(np.exp(scores / 3), given_labels, metric)
        assert stretched.value == pytest.approx(result.value, abs=1e-12)
        np.testing.assert_array_equal(
            (np.exp(scores / 3) >= stretched.threshold)[known], (scores >= result.threshold)[known]
        )
        moved = np.ix_(rng.permutation(12), rng.permutation(7))
        again = observed(labels[moved], None if weights is None else weights[moved])
        shuffled = best_threshold(scores[moved], again, metric)
        assert shuffled.value == pytest.approx(result.value, abs=1e-12)
        assert shuffled.threshold == result.threshold
        for form in (np.where(known, scores, np.nan), given_labels.align(scores)):
            assert best_threshold(form, given_labels, metric) == result
    # A weight of two is the entry twice.
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(20, 6)), rng.integers(0, 2, (20, 6)).astype(float)
    double = rng.random((20, 6)) < 0.5
    for average in ("micro", "instance"):
        once = best_threshold(scores, observed(labels, np.where(double, 2.0, 1.0)), f"{average}-f1")
        both = observed(np.hstack([labels, np.where(double, labels, np.nan)]))
        twice = best_threshold(np.hstack([scores, scores]), both, f"{average}-f1")
        assert once.threshold == twice.threshold
        assert once.value == pytest.approx(twice.value, abs=1e-12)


def test_cuts_by_hand():
    up = np.array([[3.0, 2.0, 1.0]])
    infinite = np.array([[np.inf, 1.0, -np.inf]])
    # name: scores, labels, metric, threshold, value
    cases = {
        "equal scores leave all": (np.full((2, 2), 0.3), [[1, 0], [1, 1]], "f1", -np.inf, None),
        "equal scores leave none": (np.full((2, 2), 0.3), [[0, 1], [0, 0]], "accuracy", np.inf, None),
        "one yes": ([[0.3]], [[1]], "accuracy", -np.inf, 1.0),
        "one no": ([[0.3]], [[0]], "accuracy", np.inf, 1.0),
        "infinite scores, all yes": (infinite, [[1, 1, 1]], "accuracy", -np.inf, 1.0),
        # With a score of +inf no threshold says no everywhere, so +inf is the cut that keeps it.
        "infinite scores, all no": (infinite, [[0, 0, 0]], "accuracy", np.inf, 2 / 3),
        # Equal values take the highest threshold.
        "recall is 1 from the score 2 downwards": (up, [[0, 1, 0]], "recall", 1.5, None),
        "specificity is 1 from 3 upwards": (up, [[0, 1, 0]], "specificity", np.inf, None),
    }
    for told, (scores, labels, name, threshold, value) in cases.items():
        for average in ("micro",) if name in ("recall", "specificity") else AVERAGES:
            result = best_threshold(scores, np.array(labels, float), f"{average}-{name}", return_curve=True)
            assert result.threshold == threshold, (told, average)
            assert value is None or result.value == pytest.approx(value), (told, average)
            if "equal scores" in told:
                assert result.curve.thresholds.tolist() == [np.inf, -np.inf]
    for average in AVERAGES:
        middle = best_threshold(infinite, [[1.0, 1.0, 0.0]], f"{average}-accuracy")
        assert (infinite >= middle.threshold).tolist() == [[True, True, False]]


NEIGHBOURS = [
    (1.0, np.nextafter(1.0, 2)),
    (-1.0, np.nextafter(-1.0, 0)),
    (0.0, 5e-324),
    (-5e-324, 0.0),
    (5e-324, 1e-323),
    (1.6e308, 1.7e308),
    (-1.7e308, -1.6e308),
    (-1.7e308, 1.7e308),
    (-np.inf, -1.7e308),
    (1.7e308, np.inf),
    (-np.inf, np.inf),
]


def test_a_threshold_cuts_between_any_two_numbers_of_any_type():
    for (low, high), average in product(NEIGHBOURS, AVERAGES):
        result = best_threshold(np.array([[low, high]]), [[0.0, 1.0]], f"{average}-accuracy")
        assert result.value == 1.0
        assert low < result.threshold <= high, (low, high)
    one = np.float32(1)
    for pair in [(one, np.nextafter(one, np.float32(2))), (0, 1e-45), (-3e38, 3e38), (3e38, 3.3e38)]:
        scores = np.array([pair], np.float32)
        threshold = best_threshold(scores, [[0.0, 1.0]], "micro-accuracy").threshold
        for decided in (
            scores >= threshold,
            scores.astype(np.float64) >= threshold,
            scores >= np.float32(threshold),
        ):
            assert decided.tolist() == [[False, True]], pair
    for dtype in (np.float16, np.int32, bool):
        scores = np.array([[0, 1, 1]]).astype(dtype)
        assert best_threshold(scores, [[0.0, 1.0, 1.0]], "micro-f1").threshold == 0.5


def test_ties_longer_than_a_block_of_entries():
    for average, weighted in product(AVERAGES, [False, True]):
        rng = np.random.default_rng(8)
        shape = (300, 20)
        scores = np.round(rng.normal(size=shape), 0) * (rng.random(shape) < 0.5)
        weights = rng.uniform(0.1, 1, shape) if weighted else None
        labels = observed((rng.random(shape) < 0.3).astype(float), weights)
        assert np.max(np.unique(scores, return_counts=True)[1]) > 2 * 1024
        check_against_brute_force(scores, labels, get_metric(f"{average}-f1"))


def test_the_running_sum_does_not_drift():
    for average in ("instance", "macro"):
        rng = np.random.default_rng(5)
        labels = observed((rng.random((4000, 50)) < 0.2).astype(float), rng.uniform(0.1, 1, (4000, 50)))
        scores, metric = rng.normal(size=(4000, 50)), get_metric(f"{average}-f1")
        result = best_threshold(scores, labels, metric, return_curve=True)
        decided = labels.align(scores) >= result.threshold
        assert result.value == pytest.approx(float(metric(labels, decided)), abs=1e-12)
        everything = float(metric(labels, np.ones(labels.n_observed, bool)))
        assert result.curve.values[-1] == pytest.approx(everything, abs=1e-13)
        assert result.value == pytest.approx(result.curve.values.max(), abs=1e-13)


def test_inputs_are_left_alone_and_bad_ones_are_refused():
    scores, labels = np.array([0.3, 0.1, 0.2]), ObservedLabels.from_dense([[1.0, 0.0, 1.0]])
    scores.setflags(write=False)
    for average in AVERAGES:
        assert best_threshold(scores, labels, f"{average}-accuracy").value == 1.0
    assert scores.tolist() == [0.3, 0.1, 0.2]
    yes_no = ObservedLabels.from_dense([[0.0, 1.0]], binary=False)
    assert best_threshold([[0.1, 0.2]], yes_no).value == 1.0
    nan, answers = np.nan, ObservedLabels.from_dense([[0.0, 2.5]], binary=False)
    gaps, ones = [[nan, 0.1, 0.2], [0.3, 0.4, nan]], [[nan, 1.0, 0.0], [nan, 1.0, 0.0]]
    named = ObservedLabels.from_dense(ones, row_names=["p", "q"], label_names=["a", "b", "c"])
    for given_scores, given_labels, name, error, message in [
        ([[0.5]], [[nan]], "micro-f1", InvalidLabelsError, "No label is observed"),
        ([[0.1, 0.2]], answers, "micro-f1", InvalidLabelsError, "labels 0 and 1"),
        ([[0.5]], [[1.0]], "micro-f", UnknownNameError, "micro-f1"),
        (gaps, named, "micro-f1", InvalidScoresError, r"row 1 \('q'\), label 2 \('c'\) is NaN"),
        *((gaps, ones, f"{a}-f1", InvalidScoresError, "row 1, label 2 is NaN") for a in AVERAGES),
    ]:
        with pytest.raises(error, match=message):
            best_threshold(given_scores, given_labels, name)


# -- the mean of best thresholds over parts of the rows -----------------------------------------------------


def sample(n: int = 60, n_labels: int = 5, seed: int = 0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, n_labels)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    labels = ObservedLabels.from_dense(Y)
    return labels, labels.values + rng.standard_normal(labels.n_observed)


def mean_by_hand(scores, labels, metric, n_parts=25):
    """Parts as arrays with NaN in the rows that are left out."""
    rng, found = np.random.RandomState(0), []
    for _ in range(n_parts):
        rows = rng.random_sample(labels.shape[0]) < 0.632
        dense, all_scores = labels.to_dense(), np.full(labels.shape, 0.0)
        dense[~rows] = np.nan
        all_scores[labels.rows, labels.cols] = scores
        found.append(best_threshold(all_scores, dense, metric).threshold)
    return np.mean([one for one in found if np.isfinite(one)])


def test_a_steady_threshold_is_the_mean_over_parts_of_the_rows():
    names = ["micro-f1", "macro-jaccard", "instance-f1", "micro-accuracy", "micro-balanced-accuracy"]
    for name, digits in product(names, (1, 16)):
        labels, scores = sample()
        scores = np.round(scores, digits)
        found = steady_threshold(scores, labels, name)
        assert found == pytest.approx(mean_by_hand(scores, labels, name)), (name, digits)
    theta = steady_threshold(scores, labels, "micro-f1")
    assert theta == steady_threshold(scores, labels, get_metric("micro-f1"))
    assert steady_threshold(scores + 3.0, labels, "micro-f1") == pytest.approx(theta + 3.0)
    assert np.isfinite(steady_threshold(scores, labels, "micro-f1", random_state=None))
    exact, mean = [], []
    for seed in range(40):
        labels, scores = sample(seed=seed)
        exact.append(best_threshold(scores, labels, "micro-f1").threshold)
        mean.append(steady_threshold(scores, labels, "micro-f1"))
    assert np.std(mean) < np.std(exact)


def test_a_yes_to_everything_and_large_samples_have_their_own_best():
    labels = ObservedLabels.from_dense([[1.0, 1.0]] * 9 + [[0.0, 1.0]])
    assert steady_threshold(np.zeros(labels.n_observed), labels, "micro-f1") == -np.inf
    # Beyond 200,000 entries there are too few parts; up to them there are five.
    rng = np.random.default_rng(1)
    for n, steadied in ((100_000, True), (100_001, False)):
        labels = ObservedLabels.from_dense((rng.random((n, 2)) < 0.4).astype(float))
        scores = labels.values + rng.standard_normal(labels.n_observed)
        whole = best_threshold(scores, labels, "micro-f1").threshold
        found = steady_threshold(scores, labels, "micro-f1")
        assert found == (pytest.approx(mean_by_hand(scores, labels, "micro-f1", 5)) if steadied else whole)
        assert (found == whole) != steadied
