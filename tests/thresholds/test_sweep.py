"""The exact threshold search against brute force and by invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from labelgap.exceptions import InvalidLabelsError, InvalidScoresError, UnknownNameError
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.thresholds import best_threshold, sweep_entries
from oracles_thresholds import best_cut, every_cut, group_mean, random_problem

AVERAGES = ["micro", "instance", "macro"]
NAMED = ["f1", "f2", "jaccard", "accuracy", "precision", "recall", "specificity", "balanced-accuracy"]


def observed(labels: np.ndarray, weights: np.ndarray | None = None) -> ObservedLabels:
    found = ObservedLabels.from_dense(labels)
    return found if weights is None else found.with_weights(weights)


def random_metric(rng: np.random.Generator, average: str) -> LinearFractional:
    """Any signs above, a denominator that stays positive below."""
    cells = ["const", "tp", "fp", "fn", "tn"]
    numerator = dict(zip(cells, rng.normal(size=5).round(2), strict=True))
    denominator = dict(zip(cells, rng.uniform(0.1, 2, size=5).round(2), strict=True))
    return LinearFractional(numerator=numerator, denominator=denominator, average=average)


def check_against_brute_force(scores, labels: ObservedLabels, metric: LinearFractional) -> None:
    entry_scores = labels.align(scores)

    def value_of(included: tuple[bool, ...]) -> float:
        return float(metric(labels, np.array(included)))

    cuts = every_cut(entry_scores, value_of)
    expected = best_cut(cuts)
    result = best_threshold(scores, labels, metric, return_curve=True)
    decided = entry_scores >= result.threshold
    assert result.value == pytest.approx(max(cut.value for cut in cuts), abs=1e-12)
    assert result.value == pytest.approx(value_of(tuple(decided)), abs=1e-12)
    assert tuple(decided) == expected.included
    assert result.curve is not None
    np.testing.assert_allclose(result.curve.values, [cut.value for cut in cuts], rtol=0, atol=1e-12)
    assert [tuple(entry_scores >= t) for t in result.curve.thresholds] == [cut.included for cut in cuts]
    # A lone cut means that every score is +inf, so that "all" is the only decision.
    assert result.curve.thresholds[0] == np.inf or len(cuts) == 1
    assert result.curve.thresholds[-1] == -np.inf
    assert (np.diff(result.curve.thresholds) < 0).all()


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", [*NAMED, "random"])
@pytest.mark.parametrize("rounds", [25, pytest.param(120, marks=pytest.mark.slow)])
def test_equals_brute_force(name, average, rounds):
    rng = np.random.default_rng([AVERAGES.index(average), *name.encode()])
    for _ in range(rounds):
        scores, labels, weights = random_problem(rng)
        metric = random_metric(rng, average) if name == "random" else get_metric(f"{average}-{name}")
        check_against_brute_force(scores, observed(labels, weights), metric)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_flat_sweep_equals_explicit_counts(weighted, grouped):
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
        settled = np.ones(n) if weights is None else weights
        parts = np.zeros(n, int) if groups is None else groups
        zero_division = float(rng.integers(0, 2))

        def value_of(
            included: tuple[bool, ...],
            case=(values, settled, parts, numerator, denominator, zero_division),
        ) -> float:
            return group_mean(included, *case)

        cuts = every_cut(scores, value_of)
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
        assert result.value == pytest.approx(max(cut.value for cut in cuts), abs=1e-11)
        np.testing.assert_allclose(result.curve.values, [cut.value for cut in cuts], rtol=1e-11, atol=1e-11)
        assert tuple(scores >= result.threshold) == best_cut(cuts).included


label_cells = st.sampled_from([0.0, 1.0, np.nan])
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
    labels = draw(hnp.arrays(np.float64, shape, elements=label_cells))
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


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("seed", range(5))
def test_invariants(average, seed):
    rng = np.random.default_rng(seed)
    scores, labels, weights = random_problem(rng, 12, 7)
    scores = np.clip(scores, -8, 8)
    metric = get_metric(f"{average}-f1")
    result = best_threshold(scores, observed(labels, weights), metric)

    stretched = best_threshold(np.exp(scores / 3), observed(labels, weights), metric)
    assert stretched.value == pytest.approx(result.value, abs=1e-12)
    known = ~np.isnan(labels)
    np.testing.assert_array_equal(
        (np.exp(scores / 3) >= stretched.threshold)[known], (scores >= result.threshold)[known]
    )

    rows, columns = rng.permutation(12), rng.permutation(7)
    shuffled = best_threshold(
        scores[np.ix_(rows, columns)],
        observed(labels[np.ix_(rows, columns)], None if weights is None else weights[np.ix_(rows, columns)]),
        metric,
    )
    assert shuffled.value == pytest.approx(result.value, abs=1e-12)
    assert shuffled.threshold == result.threshold

    masked = np.where(known, scores, np.nan)
    assert best_threshold(masked, observed(labels, weights), metric) == result
    aligned = observed(labels, weights).align(scores)
    assert best_threshold(aligned, observed(labels, weights), metric) == result


@pytest.mark.parametrize("average", ["micro", "instance"])
def test_weight_two_is_the_entry_twice(average):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(20, 6)), rng.integers(0, 2, (20, 6)).astype(float)
    double = rng.random((20, 6)) < 0.5
    once = best_threshold(scores, observed(labels, np.where(double, 2.0, 1.0)), f"{average}-f1")
    twice = best_threshold(
        np.hstack([scores, scores]),
        observed(np.hstack([labels, np.where(double, labels, np.nan)])),
        f"{average}-f1",
    )
    assert once.threshold == twice.threshold
    assert once.value == pytest.approx(twice.value, abs=1e-12)


@pytest.mark.parametrize("average", AVERAGES)
def test_equal_scores_leave_none_and_all(average):
    labels = np.array([[1.0, 0.0], [1.0, 1.0]])
    result = best_threshold(np.full((2, 2), 0.3), labels, f"{average}-f1", return_curve=True)
    assert result.threshold == -np.inf
    assert result.curve.thresholds.tolist() == [np.inf, -np.inf]
    negative = best_threshold(np.full((2, 2), 0.3), 1 - labels, f"{average}-accuracy")
    assert negative.threshold == np.inf


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize(("label", "threshold"), [(1.0, -np.inf), (0.0, np.inf)])
def test_a_single_entry(average, label, threshold):
    result = best_threshold([[0.3]], [[label]], f"{average}-accuracy")
    assert (result.threshold, result.value) == (threshold, 1.0)


def test_equal_values_take_the_highest_threshold():
    # Recall is 1 from the score 2 downwards; specificity is 1 from 3 upwards.
    scores, labels = np.array([[3.0, 2.0, 1.0]]), np.array([[0.0, 1.0, 0.0]])
    assert best_threshold(scores, labels, "micro-recall").threshold == 1.5
    assert best_threshold(scores, labels, "micro-specificity").threshold == np.inf


@pytest.mark.parametrize("average", AVERAGES)
def test_infinite_scores(average):
    scores = np.array([[np.inf, 1.0, -np.inf]])
    metric = f"{average}-accuracy"
    # With a score of +inf no threshold says no everywhere, so +inf is the cut that keeps it.
    assert best_threshold(scores, [[0.0, 0.0, 0.0]], metric).threshold == np.inf
    assert best_threshold(scores, [[0.0, 0.0, 0.0]], metric).value == pytest.approx(2 / 3)
    middle = best_threshold(scores, [[1.0, 1.0, 0.0]], metric)
    assert (scores >= middle.threshold).tolist() == [[True, True, False]]
    assert best_threshold(scores, [[1.0, 1.0, 1.0]], metric).threshold == -np.inf


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


@pytest.mark.parametrize(("low", "high"), NEIGHBOURS)
@pytest.mark.parametrize("average", AVERAGES)
def test_threshold_reproduces_the_cut_between_any_two_numbers(low, high, average):
    scores = np.array([[low, high]])
    result = best_threshold(scores, [[0.0, 1.0]], f"{average}-accuracy")
    assert result.value == 1.0
    assert low < result.threshold <= high


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, np.nextafter(np.float32(1), np.float32(2))), (0, 1e-45), (-3e38, 3e38), (3e38, 3.3e38)],
)
def test_float32_scores_cut_the_same_in_both_types(low, high):
    scores = np.array([[low, high]], np.float32)
    threshold = best_threshold(scores, [[0.0, 1.0]], "micro-accuracy").threshold
    assert (scores >= threshold).tolist() == [[False, True]]
    assert (scores.astype(np.float64) >= threshold).tolist() == [[False, True]]
    assert (scores >= np.float32(threshold)).tolist() == [[False, True]]


@pytest.mark.parametrize("dtype", [np.float16, np.int32, bool])
def test_other_types_of_scores(dtype):
    scores = np.array([[0, 1, 1]]).astype(dtype)
    assert best_threshold(scores, [[0.0, 1.0, 1.0]], "micro-f1").threshold == 0.5


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("weighted", [False, True])
def test_ties_longer_than_a_block_of_entries(average, weighted):
    rng = np.random.default_rng(8)
    shape = (300, 20)
    scores = np.round(rng.normal(size=shape), 0) * (rng.random(shape) < 0.5)
    weights = rng.uniform(0.1, 1, shape) if weighted else None
    labels = observed((rng.random(shape) < 0.3).astype(float), weights)
    assert np.max(np.unique(scores, return_counts=True)[1]) > 2 * 1024
    check_against_brute_force(scores, labels, get_metric(f"{average}-f1"))


@pytest.mark.parametrize("average", ["instance", "macro"])
def test_the_running_sum_does_not_drift(average):
    rng = np.random.default_rng(5)
    labels = observed((rng.random((4000, 50)) < 0.2).astype(float), rng.uniform(0.1, 1, (4000, 50)))
    scores = rng.normal(size=(4000, 50))
    metric = get_metric(f"{average}-f1")
    result = best_threshold(scores, labels, metric, return_curve=True)
    assert result.value == pytest.approx(
        float(metric(labels, labels.align(scores) >= result.threshold)), abs=1e-12
    )
    everything = float(metric(labels, np.ones(labels.n_observed, bool)))
    assert result.curve.values[-1] == pytest.approx(everything, abs=1e-13)
    assert result.value == pytest.approx(result.curve.values.max(), abs=1e-13)


def test_nothing_observed_is_an_error():
    with pytest.raises(InvalidLabelsError, match="No label is observed"):
        best_threshold([[0.5]], [[np.nan]])


@pytest.mark.parametrize("average", AVERAGES)
def test_nan_scores_are_named(average):
    scores = np.array([[np.nan, 0.1, 0.2], [0.3, 0.4, np.nan]])
    labels = np.array([[np.nan, 1.0, 0.0], [np.nan, 1.0, 0.0]])
    with pytest.raises(InvalidScoresError, match="row 1, label 2 is NaN"):
        best_threshold(scores, labels, f"{average}-f1")


def test_unknown_metric_is_an_error():
    with pytest.raises(UnknownNameError, match="micro-f1"):
        best_threshold([[0.5]], [[1.0]], "micro-f")


def test_answers_that_are_not_binary_are_an_error():
    labels = ObservedLabels.from_dense([[0.0, 2.5]], binary=False)
    with pytest.raises(InvalidLabelsError, match="labels 0 and 1"):
        best_threshold([[0.1, 0.2]], labels)
    yes_no = ObservedLabels.from_dense([[0.0, 1.0]], binary=False)
    assert best_threshold([[0.1, 0.2]], yes_no).value == 1.0


def test_inputs_are_left_alone():
    scores, labels = np.array([0.3, 0.1, 0.2]), ObservedLabels.from_dense([[1.0, 0.0, 1.0]])
    scores.setflags(write=False)
    for average in AVERAGES:
        assert best_threshold(scores, labels, f"{average}-accuracy").value == 1.0
    assert scores.tolist() == [0.3, 0.1, 0.2]
