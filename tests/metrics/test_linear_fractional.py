"""The linear-fractional family against scikit-learn, a slow loop and its own invariants."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import metrics as sk

from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidMetricError,
    UnknownNameError,
)
from labelgap.labels import ObservedLabels
from labelgap.metrics import Counts, LinearFractional, confusion_counts, get_metric
from oracles_metrics import FORMULAS, random_labels, slow_metric

pytestmark = pytest.mark.pairwise

AVERAGES = ("micro", "instance", "macro")
SKLEARN = {
    "f1": lambda y, d, **k: sk.f1_score(y, d, **k),
    "f2": lambda y, d, **k: sk.fbeta_score(y, d, beta=2, **k),
    "f0.5": lambda y, d, **k: sk.fbeta_score(y, d, beta=0.5, **k),
    "jaccard": lambda y, d, **k: sk.jaccard_score(y, d, **k),
    "precision": lambda y, d, **k: sk.precision_score(y, d, **k),
    "recall": lambda y, d, **k: sk.recall_score(y, d, **k),
}
CASES = [(average, base) for average in AVERAGES for base in FORMULAS]


def full_labels(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Complete labels and decisions with a row and a label without positives, and rows decided 'no'."""
    rng = np.random.default_rng(seed)
    y = (rng.random((12, 7)) < 0.3).astype(int)
    decisions = (rng.random((12, 7)) < 0.4).astype(int)
    y[3], y[:, 2], decisions[[3, 5]], decisions[:, [2, 4]] = 0, 0, 0, 0
    y[6] = 1
    return y, decisions


def test_equal_to_scikit_learn() -> None:
    for seed, average in product(range(5), AVERAGES):
        y, decisions = full_labels(seed)
        for base, zero_division in product(SKLEARN, (0.0, 1.0)):
            given_ = {"average": "samples" if average == "instance" else average}
            theirs = SKLEARN[base](y, decisions, zero_division=zero_division, **given_)
            ours = get_metric(f"{average}-{base}", zero_division=zero_division)(y, decisions)
            assert ours == pytest.approx(theirs, abs=1e-12), (seed, average, base)
        expected = 1 - sk.hamming_loss(y, decisions)
        for name in ("accuracy", "hamming"):
            assert get_metric(f"{average}-{name}")(y, decisions) == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_specificity_and_balanced_accuracy_per_group() -> None:
    for seed in range(3):
        y, decisions = full_labels(seed)
        groups = {
            "micro": [(y.ravel(), decisions.ravel())],
            "instance": list(zip(y, decisions, strict=True)),
            "macro": list(zip(y.T, decisions.T, strict=True)),
        }
        for average, pairs in groups.items():
            expected = {
                "balanced-accuracy": [sk.balanced_accuracy_score(t, d) for t, d in pairs],
                "specificity": [sk.recall_score(t, d, pos_label=0, zero_division=0) for t, d in pairs],
            }
            for name, values in expected.items():
                found = get_metric(f"{average}-{name}")(y, decisions)
                assert found == pytest.approx(np.mean(values), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(CASES),
    st.booleans(),
    st.booleans(),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 10**6),
)
def test_masked_equals_the_observed_part_alone(
    case: tuple[str, str], balanced: bool, weighted: bool, n: int, L: int, seed: int
) -> None:
    average, base = case
    rng = np.random.default_rng(seed)
    Y = random_labels(rng, n, L, observed=rng.random(), positive=rng.random())
    decisions = (rng.random((n, L)) < rng.random()).astype(int)
    weights = rng.uniform(0.1, 3, size=(n, L)) if weighted else None
    labels = ObservedLabels.from_dense(Y, weights=weights)
    metric = get_metric(f"{average}-{'balanced-' if balanced else ''}{base}", zero_division=0.25)
    expected = slow_metric(FORMULAS[base], average, decisions, Y, weights, balanced, zero_division=0.25)
    assert metric(labels, decisions) == pytest.approx(expected, abs=1e-12)
    # Every form of the decisions says the same, and what stands at other entries is not read.
    elsewhere = np.where(np.isnan(Y), np.nan, decisions)
    for form in (decisions.astype(bool), sparse.csr_array(decisions), labels.align(decisions), elsewhere):
        assert metric(labels, form) == metric(labels, decisions)
    # Permuting rows and labels leaves it.
    rows, cols = rng.permutation(n), rng.permutation(L)
    moved = ObservedLabels.from_dense(
        Y[rows][:, cols], weights=None if weights is None else weights[rows][:, cols]
    )
    assert metric(moved, decisions[rows][:, cols]) == pytest.approx(expected, abs=1e-12)


def test_weight_two_is_the_entry_twice() -> None:
    rng = np.random.default_rng(1)
    Y, decisions, doubled = random_labels(rng, 6, 5), rng.integers(0, 2, (6, 5)), rng.integers(0, 2, (6, 5))
    weighted = ObservedLabels.from_dense(Y, weights=1.0 + doubled)
    for average, base in CASES:
        metric = get_metric(f"{average}-{base}")
        once = confusion_counts(Y, decisions, average)
        again = confusion_counts(np.where(doubled, Y, np.nan), decisions, average)
        both = metric.from_counts(*(a + b for a, b in zip(once, again, strict=True)))
        assert metric(weighted, decisions) == pytest.approx(both, abs=1e-12), (average, base)


@settings(deadline=None)
@given(st.sampled_from(AVERAGES), st.booleans(), st.integers(0, 10**6))
def test_entry_weights_and_groups_rebuild_the_metric(average: str, balanced: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Y = random_labels(rng, 5, 4, observed=0.5)
    labels = ObservedLabels.from_dense(Y, weights=rng.uniform(0.5, 2, size=(5, 4)))
    metric = LinearFractional(
        {"tp": 2, "const": 0.5}, {"tp": 2, "fp": 1, "const": 1}, average, balanced=balanced
    )
    yes = rng.random(labels.n_observed) < 0.5
    group, n_groups = metric.groups(labels)
    weights = metric.entry_weights(labels)
    cells = [yes & (labels.values == 1), yes & (labels.values == 0), ~yes & (labels.values == 1)]
    cells.append(~yes & (labels.values == 0))
    counts = Counts(*(np.bincount(group, weights * cell, minlength=n_groups) for cell in cells))
    seen = counts.total > 0
    expected = metric.group_values(*counts)[seen].mean()
    assert metric(labels, yes) == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(counts.total, np.bincount(group, labels.weights, minlength=n_groups))


def test_counts_by_hand() -> None:
    metric = LinearFractional({"tp": 1}, {"const": 0.5, "tp": 1})
    # A constant counts shares, not entries.
    assert metric.from_counts(1, 1, 1, 1) == metric.from_counts(10, 10, 10, 10) == pytest.approx(1 / 3)
    # Groups without an observation do not count.
    Y = [[1, 0, np.nan], [np.nan, np.nan, np.nan]]
    for name in ("instance-precision", "macro-recall"):
        assert get_metric(name)(Y, np.ones((2, 3))) == 0.5
    assert get_metric("macro-accuracy").from_counts([1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]) == 0.5
    assert get_metric("micro-precision").from_counts([1, 0], [0, 3], 0, 0) == 0.25
    assert get_metric("micro-balanced-accuracy").from_counts(1, 0, 1, 98) == 0.75
    metric = get_metric("macro-f1", zero_division=1.0)
    np.testing.assert_array_equal(metric.group_values([0, 1], [0, 0], [0, 2], [4, 0]), [1.0, 0.5])
    assert metric.group_values(1, 0, 0, 0) == 1.0
    real = ObservedLabels.from_dense([[1.0, 0.0]], binary=False)
    assert get_metric("micro-accuracy")(real, [[1, 1]]) == 0.5


@settings(deadline=None)
@given(st.sampled_from(AVERAGES), st.booleans(), st.integers(0, 10**6))
def test_denominator_bound_is_the_least_over_all_decisions(average: str, balanced: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Y = random_labels(rng, 2, 3, observed=0.7)
    labels = ObservedLabels.from_dense(Y, weights=rng.uniform(0.5, 2, size=(2, 3)))
    b = dict(zip(("const", "tp", "fp", "fn", "tn"), rng.uniform(0, 1, 5), strict=True))
    metric = LinearFractional({"tp": 1}, b, average, balanced=balanced)
    # The denominator itself as a metric: its smallest group value over all 2^|Ω| decisions.
    below = LinearFractional(b, {"const": 1}, average, balanced=balanced)
    group, n_groups = metric.groups(labels)
    weights = metric.entry_weights(labels)
    least = np.inf
    for pattern in range(2**labels.n_observed):
        yes = (pattern >> np.arange(labels.n_observed)) & 1 == 1
        y = labels.values == 1
        cells = (yes & y, yes & ~y, ~yes & y, ~yes & ~y)
        counts = Counts(*(np.bincount(group, weights * cell, minlength=n_groups) for cell in cells))
        least = min(least, below.group_values(*counts)[counts.total > 0].min())
    assert metric.denominator_bound(labels) == pytest.approx(least, abs=1e-12)


def test_denominator_bound_of_named_metrics() -> None:
    Y = [[1, 0, 0, 0], [1, 1, 0, np.nan]]
    assert get_metric("micro-accuracy").denominator_bound(Y) == 1.0
    assert get_metric("micro-jaccard").denominator_bound(Y) == pytest.approx(3 / 7)
    assert get_metric("macro-jaccard").denominator_bound(Y) == 0.0


def test_identity_hash_repr_copies() -> None:
    metric = LinearFractional({"tp": 1}, {"tp": 1, "fp": 1}, name="mine")
    assert metric == get_metric("micro-precision")
    assert len({metric, get_metric("micro-precision")}) == 1
    assert metric != get_metric("macro-precision")
    assert metric != "micro-precision"
    assert (
        repr(metric) == "LinearFractional({'tp': 1.0}, {'tp': 1.0, 'fp': 1.0}, average='micro', name='mine')"
    )
    assert "balanced=True" in repr(get_metric("macro-balanced-f1", zero_division=1))
    assert LinearFractional({"tp": 1}, {"const": 1}, balanced=1).balanced is True
    assert "zero_division=1" in repr(get_metric("macro-f1", zero_division=1))
    for twin in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert twin == metric
        assert twin([[1, 0]], [[1, 0]]) == 1.0
    np.testing.assert_array_equal(metric.denominator_coefficients, [0, 1, 1, 0, 0])
    np.testing.assert_array_equal(metric.numerator_coefficients, [0, 1, 0, 0, 0])
    with pytest.raises(AttributeError):
        metric.average = "macro"  # type: ignore[misc]


def test_negative_denominators_are_turned() -> None:
    metric = LinearFractional({"tp": -1}, {"tp": -1, "fp": -1})
    assert metric == get_metric("micro-precision")
    # Rounding must not make a pole of an exact zero.
    LinearFractional({"tp": 1}, {"const": 0.3, "tp": 1, "fp": 1, "fn": 0, "tn": -(0.1 + 0.2)})


@pytest.mark.parametrize(
    ("numerator", "denominator", "message"),
    [
        (
            {"tp": 1},
            {"tp": 1, "fp": -1},
            r"can vanish: it is 1 .* a true positive and -1 .* a false positive",
        ),
        ({"tp": 1}, {"const": 1, "tn": -2}, r"and -1 when every one is a true negative"),
        ({"tp": 1}, {"fp": 1}, r"0 when every observed entry is a true positive, but the numerator is 1"),
        ({"const": 1}, {"tp": 1, "fp": 1, "fn": 1}, r"a true negative, but the numerator is 1"),
        ({"tp": 1}, {}, r"is 0 for all decisions"),
        ({"tp": 1}, {"const": 1, "tp": -1, "fp": -1, "fn": -1, "tn": -1}, r"is 0 for all decisions"),
        ({"tp": np.nan}, {"const": 1}, r"'tp' of the numerator is nan"),
        ({"tp": 1}, {"const": np.inf}, r"'const' of the denominator is inf"),
        ({"tp": "x"}, {"const": 1}, r"numerator must be numbers"),
        ([1, 2], {"const": 1}, r"numerator must be a mapping"),
    ],
)
def test_metrics_that_are_no_number_are_refused(numerator: object, denominator: object, message: str) -> None:
    with pytest.raises(InvalidMetricError, match=message):
        LinearFractional(numerator, denominator)  # type: ignore[arg-type]


def test_other_refusals() -> None:
    f1, one = get_metric("micro-f1"), {"const": 1}
    unlabelled = ObservedLabels.from_any([[1, 0]], unobserved="unlabelled")
    answers = ObservedLabels.from_dense([[2.0, 0]], binary=False)
    for call, error, message in [
        (lambda: LinearFractional({"tp": 1}, {"tpr": 1}), UnknownNameError, "'tpr'. Did you mean 'tp'"),
        (lambda: LinearFractional({"tp": 1}, one, average="mikro"), UnknownNameError, "Did you mean 'micro'"),
        (
            lambda: LinearFractional({"tp": 1}, one, zero_division=np.nan),
            InvalidMetricError,
            "zero_division must be a finite number",
        ),
        (lambda: f1([[1, 0]], [[1], [0]]), InvalidInputError, r"shape \(2, 1\); expected \(1, 2\)"),
        (lambda: f1([[1, 0]], [[1, 0.7]]), InvalidInputError, "row 0, column 1 is 0.7.*threshold"),
        (lambda: f1([[1, 0]], [[1, np.nan]]), InvalidInputError, "decision at row 0, column 1 is nan"),
        (lambda: f1(unlabelled, [[1, 0]]), InvalidLabelsError, "needs known negatives"),
        (lambda: f1([[np.nan, np.nan]], [[1, 0]]), InvalidLabelsError, "No label is observed"),
        (lambda: f1(answers, [[1, 0]]), InvalidLabelsError, "built with binary=False"),
        (lambda: f1.from_counts(0, 0, 0, 0), InvalidInputError, "All counts are 0"),
        (lambda: f1.from_counts(-1, 0, 0, 0), InvalidInputError, "not negative"),
        (lambda: confusion_counts([[1]], [[1]], "samples"), UnknownNameError, "average 'samples'"),
    ]:
        with pytest.raises(error, match=message):
            call()
