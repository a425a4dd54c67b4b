"""The linear-fractional family against scikit-learn, a slow loop and its own invariants."""

from __future__ import annotations

import copy
import pickle

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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("base", SKLEARN)
@pytest.mark.parametrize("zero_division", [0.0, 1.0])
def test_equal_to_scikit_learn(base: str, average: str, seed: int, zero_division: float) -> None:
    y, decisions = full_labels(seed)
    theirs = SKLEARN[base](
        y, decisions, average="samples" if average == "instance" else average, zero_division=zero_division
    )
    ours = get_metric(f"{average}-{base}", zero_division=zero_division)(y, decisions)
    assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("average", AVERAGES)
def test_accuracy_is_one_minus_hamming_loss(average: str, seed: int) -> None:
    y, decisions = full_labels(seed)
    expected = 1 - sk.hamming_loss(y, decisions)
    assert get_metric(f"{average}-accuracy")(y, decisions) == pytest.approx(expected, abs=1e-12)
    assert get_metric(f"{average}-hamming")(y, decisions) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_specificity_and_balanced_accuracy_per_group(seed: int) -> None:
    y, decisions = full_labels(seed)
    groups = {
        "micro": [(y.ravel(), decisions.ravel())],
        "instance": list(zip(y, decisions, strict=True)),
        "macro": list(zip(y.T, decisions.T, strict=True)),
    }
    for average, pairs in groups.items():
        balanced = np.mean([sk.balanced_accuracy_score(t, d) for t, d in pairs])
        assert get_metric(f"{average}-balanced-accuracy")(y, decisions) == pytest.approx(balanced, abs=1e-12)
        specificity = np.mean([sk.recall_score(t, d, pos_label=0, zero_division=0) for t, d in pairs])
        assert get_metric(f"{average}-specificity")(y, decisions) == pytest.approx(specificity, abs=1e-12)


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


@pytest.mark.parametrize(("average", "base"), CASES)
def test_weight_two_is_the_entry_twice(average: str, base: str) -> None:
    rng = np.random.default_rng(1)
    Y = random_labels(rng, 6, 5)
    decisions = rng.integers(0, 2, (6, 5))
    metric = get_metric(f"{average}-{base}")
    doubled = rng.integers(0, 2, (6, 5))
    weighted = ObservedLabels.from_dense(Y, weights=1.0 + doubled)
    once = confusion_counts(Y, decisions, average)
    again = confusion_counts(np.where(doubled, Y, np.nan), decisions, average)
    assert metric(weighted, decisions) == pytest.approx(
        metric.from_counts(*(a + b for a, b in zip(once, again, strict=True))), abs=1e-12
    )


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


def test_const_counts_shares_not_entries() -> None:
    metric = LinearFractional({"tp": 1}, {"const": 0.5, "tp": 1})
    assert metric.from_counts(1, 1, 1, 1) == metric.from_counts(10, 10, 10, 10) == pytest.approx(1 / 3)


def test_groups_without_observation_do_not_count() -> None:
    Y = [[1, 0, np.nan], [np.nan, np.nan, np.nan]]
    decisions = np.ones((2, 3))
    assert get_metric("instance-precision")(Y, decisions) == 0.5
    assert get_metric("macro-recall")(Y, decisions) == 0.5
    assert get_metric("macro-accuracy").from_counts([1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]) == 0.5


def test_from_counts_of_micro_sums_arrays() -> None:
    assert get_metric("micro-precision").from_counts([1, 0], [0, 3], 0, 0) == 0.25
    assert get_metric("micro-balanced-accuracy").from_counts(1, 0, 1, 98) == 0.75


def test_group_values_uses_zero_division() -> None:
    metric = get_metric("macro-f1", zero_division=1.0)
    np.testing.assert_array_equal(metric.group_values([0, 1], [0, 0], [0, 2], [4, 0]), [1.0, 0.5])
    assert metric.group_values(1, 0, 0, 0) == 1.0


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
    with pytest.raises(UnknownNameError, match=r"key in the denominator 'tpr'. Did you mean 'tp'"):
        LinearFractional({"tp": 1}, {"tpr": 1})
    with pytest.raises(UnknownNameError, match=r"average 'mikro'. Did you mean 'micro'"):
        LinearFractional({"tp": 1}, {"const": 1}, average="mikro")
    with pytest.raises(InvalidMetricError, match="zero_division must be a finite number"):
        LinearFractional({"tp": 1}, {"const": 1}, zero_division=np.nan)
    f1 = get_metric("micro-f1")
    with pytest.raises(InvalidInputError, match=r"decisions have shape \(2, 1\); expected \(1, 2\)"):
        f1([[1, 0]], [[1], [0]])
    with pytest.raises(InvalidInputError, match=r"decision at row 0, column 1 is 0.7.*threshold"):
        f1([[1, 0]], [[1, 0.7]])
    with pytest.raises(InvalidInputError, match=r"decision at row 0, column 1 is nan"):
        f1([[1, 0]], [[1, np.nan]])
    with pytest.raises(InvalidLabelsError, match="needs known negatives"):
        f1(ObservedLabels.from_any([[1, 0]], unobserved="unlabelled"), [[1, 0]])
    with pytest.raises(InvalidLabelsError, match="No label is observed"):
        f1([[np.nan, np.nan]], [[1, 0]])
    with pytest.raises(InvalidLabelsError, match="built with binary=False"):
        f1(ObservedLabels.from_dense([[2.0, 0]], binary=False), [[1, 0]])
    with pytest.raises(InvalidInputError, match="All counts are 0"):
        f1.from_counts(0, 0, 0, 0)
    with pytest.raises(InvalidInputError, match="not negative"):
        f1.from_counts(-1, 0, 0, 0)
    with pytest.raises(UnknownNameError, match="average 'samples'"):
        confusion_counts([[1]], [[1]], "samples")


def test_real_valued_labels_that_are_zero_and_one_are_judged() -> None:
    labels = ObservedLabels.from_dense([[1.0, 0.0]], binary=False)
    assert get_metric("micro-accuracy")(labels, [[1, 1]]) == 0.5
