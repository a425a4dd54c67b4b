"""Leave-out values against dropping the rows and calling the metric, and the jackknife by its identities."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.metrics.jackknife import (
    D2_LIMITS,
    N_PARTS,
    confidence_interval,
    leave_out_means,
    leave_out_values,
    metric_error,
    metric_interval,
    standard_error,
    without_each_part,
)
from oracles_metrics import FORMULAS, random_labels, slow_metric

pytestmark = pytest.mark.pairwise

AVERAGES = ("micro", "instance", "macro")
CASES = [
    *[(average, base, False) for average in AVERAGES for base in FORMULAS],
    *[(average, base, True) for average in AVERAGES for base in ("accuracy", "f1")],
]
ACCURACY = get_metric("micro-accuracy")


def problem(n: int, seed: int = 0, n_labels: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Labels with NaN and decisions; rows and a label without entries, and a label that only one row has."""
    rng = np.random.default_rng(seed)
    Y = random_labels(rng, n, n_labels)
    Y[[0, n // 2]], Y[:, 1] = np.nan, np.nan
    Y[:, 3] = np.nan
    Y[1, 3] = 1.0
    return Y, rng.random((n, n_labels)) < 0.4


def at_entries(dense: np.ndarray, labels: ObservedLabels) -> np.ndarray:
    return dense[labels.rows, labels.cols]


def part_of_rows(labels: ObservedLabels, n_parts: int) -> dict[int, int]:
    """The part of each observed row: with mistakes in that row only, all is right where it is left out."""
    parts = {}
    right = labels.values == 1
    for row in np.unique(labels.rows):
        values = leave_out_values(ACCURACY, np.where(labels.rows == row, ~right, right), labels, n_parts)
        assert values is not None
        assert len(values) <= n_parts
        (part,) = np.flatnonzero(values == 1.0)
        parts[int(row)] = int(part)
    return parts


def test_rows_are_dealt_to_parts_of_one_size() -> None:
    for n, n_parts in [(9, 20), (9, 2), (24, 7), (60, N_PARTS), (3, 2), (4, N_PARTS)]:
        labels = ObservedLabels.from_dense(problem(n)[0])
        parts = part_of_rows(labels, n_parts)
        counts = np.bincount(list(parts.values()))
        assert len(counts) == min(n_parts, len(parts))
        assert np.ptp(counts) <= 1
        if n_parts >= N_PARTS:
            # The same parts for any weighted mean of numbers, such as the share of hits.
            weighted = labels.with_weights(np.random.default_rng(0).uniform(0.5, 2, labels.n_observed))
            yes = np.random.default_rng(1).random(labels.n_observed) < 0.5
            means = leave_out_means((yes == labels.values) * 1.0, weighted)
            np.testing.assert_allclose(means, leave_out_values(ACCURACY, yes, weighted))
            kept = [{*labels.rows[mask].tolist()} for mask in without_each_part(labels)]
            assert kept == [{row for row in parts if parts[row] != part} for part in range(len(counts))]


def test_with_a_single_row_nothing_can_be_left_out() -> None:
    Y = np.full((4, 3), np.nan)
    Y[2] = [1, 0, 1]
    labels = ObservedLabels.from_dense(Y)
    assert leave_out_values(ACCURACY, labels.values == 1, labels) is None
    assert leave_out_means(np.ones(3), labels) is None
    assert list(without_each_part(labels)) == []
    two = ObservedLabels.from_dense(np.tile(Y[2], (2, 1)))
    assert leave_out_values(ACCURACY, np.array([True] * 6), two, 1) is None
    assert leave_out_means(two.values * 1.0, two) == pytest.approx([2 / 3] * 2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_parts", [4, 20])
@pytest.mark.parametrize(("average", "base", "balanced"), CASES)
def test_leave_out_values_are_those_of_the_metric_without_the_rows(
    average: str, base: str, balanced: bool, n_parts: int, weighted: bool
) -> None:
    Y, decisions = problem(11)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, Y.shape) if weighted else None
    labels = ObservedLabels.from_dense(Y)
    if weights is not None:
        labels = labels.with_weights(weights)
    named = get_metric(f"{average}-{base}")
    metric = LinearFractional(
        named.numerator, named.denominator, average=average, balanced=balanced, zero_division=0.25
    )
    values = leave_out_values(metric, at_entries(decisions, labels), labels, n_parts)
    assert values is not None
    parts = part_of_rows(labels, n_parts)
    assert len(values) == max(parts.values()) + 1
    for part, value in enumerate(values):
        rest = Y.copy()
        rest[[row for row, its in parts.items() if its == part]] = np.nan
        expected = slow_metric(FORMULAS[base], average, decisions, rest, weights, balanced, 0.25)
        assert value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("average", AVERAGES)
def test_labels_and_rows_may_come_in_any_numbers(average: str) -> None:
    # Far more labels than rows, and a metric with a constant: only shares of a group's weight count.
    rng = np.random.default_rng(3)
    Y = random_labels(rng, 4, 50, observed=0.1)
    Y[:, 7] = [1.0, 0.0, np.nan, 1.0]
    labels = ObservedLabels.from_dense(Y)
    decisions = rng.random(Y.shape) < 0.5
    metric = LinearFractional({"const": 1, "fn": -1, "fp": -0.25}, {"const": 1}, average=average)
    values = leave_out_values(metric, at_entries(decisions, labels), labels)
    assert values is not None
    expected = []
    for row in np.unique(labels.rows):
        rest = labels.select(labels.rows != row)
        expected.append(metric(rest, at_entries(decisions, rest)))
    # One row is a part here, in whatever order.
    np.testing.assert_allclose(np.sort(values), np.sort(expected), atol=1e-12)


# -- the standard error -------------------------------------------------------------------------------------


def test_the_standard_error_of_a_mean_is_the_textbook_one() -> None:
    # One entry a row and a part for each: the metric is the mean of the rows' hits.
    rng = np.random.default_rng(0)
    right = rng.random((40, 1)) < 0.5
    labels = ObservedLabels.from_dense(right.astype(float))
    hits = rng.random((2, 40)) < [[0.7], [0.6]]
    first, second = (
        leave_out_values(ACCURACY, np.where(hit, right[:, 0], ~right[:, 0]), labels, 40) for hit in hits
    )
    difference = hits[0].astype(float) - hits[1]
    expected = difference.std(ddof=1) / math.sqrt(40)
    assert standard_error(first, second) == pytest.approx(expected, rel=1e-9)
    assert standard_error(second, first) == pytest.approx(expected, rel=1e-9)
    assert standard_error(first + 3.0, second) == pytest.approx(expected, rel=1e-9)


def test_the_standard_error_by_its_formula() -> None:
    first, second = np.array([0.5, 0.4, 0.7]), np.array([0.5, 0.5, 0.5])
    # Differences 0, −0.1, 0.2 about their mean 1/30.
    expected = math.sqrt(2 / 3 * (1 / 900 + 16 / 900 + 25 / 900))
    assert standard_error(first, second) == pytest.approx(expected)
    assert standard_error(first, first) == 0.0


def test_the_standard_error_is_about_what_other_samples_differ_by() -> None:
    # F1 of the same careless judge on 200 samples of rows.
    rng = np.random.default_rng(5)
    metric = get_metric("micro-f1")
    values, errors = [], []
    for _ in range(200):
        Y = (rng.random((100, 4)) < 0.4).astype(float)
        labels = ObservedLabels.from_dense(Y)
        decisions = at_entries(np.where(rng.random(Y.shape) < 0.2, 1 - Y, Y) == 1, labels)
        values.append(metric(labels, decisions))
        left_out = leave_out_values(metric, decisions, labels)
        assert left_out is not None
        errors.append(standard_error(left_out, np.zeros_like(left_out)))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.2)


def test_the_interval_is_that_of_students_t_about_the_value() -> None:
    Y, decided = problem(80)
    labels = ObservedLabels.from_dense(Y)
    yes = at_entries(decided, labels)
    for metric in ("micro-f1", "macro-recall", "instance-jaccard"):
        psi = get_metric(metric)
        left_out = leave_out_values(psi, yes, labels)
        assert left_out is not None
        # The formula of Quenouille and Tukey, with the quantile from a table.
        variance = (N_PARTS - 1) / N_PARTS * sum((value - left_out.mean()) ** 2 for value in left_out)
        reach, value = 2.0930240544 * math.sqrt(variance), psi(Y, decided)
        assert metric_interval(psi, yes, labels) == pytest.approx((value - reach, value + reach))
    # It stays within the values that the metric can have.
    decided = Y == 1
    wrong = tuple(np.argwhere(~np.isnan(Y))[0])
    decided[wrong] = not decided[wrong]
    for name in ("micro-f1", "macro-f1", "micro-accuracy"):
        psi = get_metric(name)
        assert psi.limits == (0.0, 1.0)
        found = metric_interval(psi, at_entries(decided, labels), labels)
        assert found is not None
        assert found[0] < psi(Y, decided) <= found[1] == 1.0
    low, high = confidence_interval(0.5, 1.0, D2_LIMITS) or (0, 0)
    assert (low, high) == (pytest.approx(0.5 - 2.0930240544), 1.0)
    # Nothing is said where nothing is known.
    for value, error in [(0.5, None), (None, 0.1), (0.5, math.nan)]:
        assert confidence_interval(value, error, (0.0, 1.0)) is None
    few = ObservedLabels.from_dense(Y[:12])
    assert metric_interval(ACCURACY, few.values == 1, few) is None
    # Everything is right, which does not say that it always will be.
    assert metric_error(leave_out_values(ACCURACY, labels.values == 1, labels)) == 0.0
    assert metric_interval(ACCURACY, labels.values == 1, labels) is None
