"""Metrics of positive and unlabelled labels against a slow oracle, the truth, and by invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError, UnknownNameError
from labelgap.labels import ObservedLabels
from labelgap.metrics import (
    LinearFractional,
    confusion_counts,
    get_metric,
    metric_names,
    trivial_values,
    unlabelled_counts,
    unlabelled_metric,
)
from labelgap.metrics.unlabelled import corrected_counts, punishes_false_positives
from oracles_unlabelled import groups_of, random_unlabelled, slow_group_counts, slow_metric

pytestmark = pytest.mark.pairwise

AVERAGES = ["micro", "instance", "macro"]
NAMES = [name for name in metric_names() if "fbeta" not in name]


@pytest.mark.parametrize("average", AVERAGES)
def test_counts_equal_the_oracle(average):
    rng = np.random.default_rng(AVERAGES.index(average))
    for _ in range(200):
        scores, recorded, rates = random_unlabelled(rng)
        decided = scores > rng.normal()
        groups = groups_of(recorded.shape, average).ravel()
        cell_rates = np.broadcast_to(rates, recorded.shape).ravel()
        expected = slow_group_counts(decided.ravel(), recorded.ravel(), cell_rates, groups)
        for given_decisions in (decided, decided.astype(float), sparse.csr_array(decided)):
            counts = unlabelled_counts(recorded, given_decisions, rates, average)
            np.testing.assert_allclose(np.column_stack(counts), expected, rtol=0, atol=1e-12)


def test_metrics_equal_the_oracle():
    for name in NAMES:
        rng = np.random.default_rng(list(name.encode()))
        metric = get_metric(name)
        for _ in range(20):
            scores, recorded, rates = random_unlabelled(rng)
            decided = scores > rng.normal()
            groups = groups_of(recorded.shape, metric.average).ravel()
            cell_rates = np.broadcast_to(rates, recorded.shape).ravel()
            counts = slow_group_counts(decided.ravel(), recorded.ravel(), cell_rates, groups)
            value = unlabelled_metric(name, recorded, decided, rates)
            assert value == pytest.approx(slow_metric(metric, counts), abs=1e-12), name
        # Without flips it is the metric on complete labels.
        truth = recorded.astype(int)
        counts = unlabelled_counts(recorded, decided, 0.0, metric.average)
        expected = confusion_counts(truth, decided, metric.average)
        for found, right in zip(counts, expected, strict=True):
            np.testing.assert_array_equal(found, right)
        found = unlabelled_metric(name, recorded, decided, 0)
        assert found == pytest.approx(metric(truth, decided), abs=1e-15), name


@pytest.mark.parametrize("rho", [0.3, 0.7, np.linspace(0, 0.8, 40)], ids=["0.3", "0.7", "per label"])
@pytest.mark.parametrize("name", ["micro-f1", "macro-jaccard", "micro-balanced-accuracy", "micro-precision"])
def test_the_correction_finds_the_metric_of_the_truth(name, rho):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3000, 40)) * 3 - 1
    truth = rng.random(z.shape) < 1 / (1 + np.exp(-z))
    recorded = truth & (rng.random(z.shape) >= rho)
    decided = z > 0
    exact = get_metric(name)(truth.astype(int), decided)
    assert unlabelled_metric(name, recorded, decided, rho) == pytest.approx(exact, abs=0.015)
    naive = get_metric(name)(recorded.astype(int), decided)
    assert abs(naive - exact) > 0.05


@settings(max_examples=200, deadline=None)
@given(
    data=st.data(),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    average=st.sampled_from(AVERAGES),
)
def test_property_counts_are_possible(data, shape, average):
    recorded = data.draw(hnp.arrays(bool, shape))
    recorded[0, 0] = True
    decided = data.draw(hnp.arrays(bool, shape))
    rates = data.draw(hnp.arrays(float, shape[1], elements=st.floats(0, 0.999)))
    counts = unlabelled_counts(recorded, decided, rates, average)
    sizes = {"micro": shape[0] * shape[1], "instance": shape[1], "macro": shape[0]}
    assert all((count >= 0).all() for count in counts)
    np.testing.assert_allclose(counts.total, sizes[average], rtol=1e-12)
    axis = {"micro": None, "instance": 1, "macro": 0}[average]
    np.testing.assert_allclose(counts.tp + counts.fp, decided.sum(axis=axis), rtol=1e-12, atol=1e-12)
    for base in ("precision", "recall", "f1", "specificity", "balanced-accuracy"):
        assert 0 <= unlabelled_metric(f"{average}-{base}", recorded, decided, rates) <= 1 + 1e-12


def test_zero_counts_are_exactly_zero():
    # Ratios whose denominator is one of these counts must be seen as 0/0, not as noise over noise.
    rates = np.array([0.1, 0.3, 0.7])
    recorded = np.array([[1, 1, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
    most = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 0]])
    assert unlabelled_counts(recorded, most, rates).fn.item() == 0
    everything = unlabelled_counts(recorded, np.ones((4, 3)), rates, "macro")
    assert everything.fn.tolist() == everything.tn.tolist() == [0, 0, 0]
    nothing = unlabelled_counts(recorded, np.zeros((4, 3)), rates, "instance")
    assert nothing.tp.tolist() == nothing.fp.tolist() == [0, 0, 0, 0]


def test_more_yes_than_cells_is_cut():
    counts = unlabelled_counts([[1, 1, 1, 0]], [[1, 1, 0, 0]], flip_rate=0.9)
    assert [count.item() for count in counts] == [2, 0, 2, 0]
    assert unlabelled_metric("micro-precision", [[1, 1, 1, 0]], [[1, 1, 0, 0]], 0.9) == 1
    # Six of ten are yes and six are decided, so two of these are, whatever was recorded.
    tp, fp, fn, tn = corrected_counts(6.0, 0.0, 6.0, 10.0)
    assert (tp, fp, fn, tn) == (2, 4, 4, 0)


def test_trivial_values_and_permutations():
    rng = np.random.default_rng(3)
    recorded, decided, rates = rng.random((20, 6)) < 0.2, rng.random((20, 6)) < 0.5, rng.uniform(0, 0.8, 6)
    columns = rng.permutation(6)
    moved = np.ix_(rng.permutation(20), columns)
    for name in ("micro-f1", "instance-jaccard", "macro-balanced-accuracy", "micro-recall", "macro-f1"):
        of_none, of_all = (
            unlabelled_metric(name, recorded, np.full((20, 6), all_), rates) for all_ in (0, 1)
        )
        assert trivial_values(name, recorded, rates) == pytest.approx((of_none, of_all), abs=1e-14)
        value = unlabelled_metric(name, recorded, decided, rates)
        again = unlabelled_metric(name, recorded[moved], decided[moved], rates[columns])
        assert again == pytest.approx(value, abs=1e-14)
    # Yes to everything loses to the truth.
    truth = rng.random((200, 30)) < 0.1
    recorded = truth & (rng.random(truth.shape) < 0.5)
    everything = trivial_values("micro-f1", recorded, 0.5)[1]
    assert everything < 0.3 < 0.9 < unlabelled_metric("micro-f1", recorded, truth, 0.5)


def test_labels_in_other_forms():
    decided = [[1, 1, 0], [0, 1, 0]]
    value = unlabelled_metric("micro-f1", [[1, 0, 0], [0, 1, 0]], decided, 0.5)
    nan = float("nan")
    as_sparse = sparse.csr_array(np.array([[1, 0, 0], [0, 1, 0]]))
    others = [
        [[1, nan, nan], [nan, 1, nan]],
        as_sparse,
        ObservedLabels.from_dense([[1, 0, nan], [nan, 1, nan]]),
        ObservedLabels.from_sparse(as_sparse, unobserved="unlabelled"),
    ]
    assert [unlabelled_metric("micro-f1", other, decided, 0.5) for other in others] == [value] * 4


def test_sparse_decisions_of_a_matrix_that_no_memory_holds():
    shape = (300_000, 200_000)
    cells = (np.array([0, 0, 5]), np.array([1, 2, 7]))
    decisions = sparse.coo_array((np.ones(3), cells), shape=shape)
    recorded = sparse.coo_array((np.ones(2, np.int8), (np.array([0, 9]), np.array([1, 3]))), shape=shape)
    # The recorded yes that is decided stands for two; its row has two decided cells, its label one.
    for average, found in {"micro": 2, "instance": 2, "macro": 1}.items():
        counts = unlabelled_counts(recorded, decisions, 0.5, average)
        assert counts.tp.sum() == found
        assert counts.total.sum() == shape[0] * shape[1]


def test_which_metrics_punish_false_positives():
    punishing = ["micro-f1", "macro-precision", "micro-accuracy", "instance-balanced-accuracy"]
    for name in [*punishing, "micro-specificity"]:
        assert punishes_false_positives(get_metric(name)), name
    for name in ("micro-recall", "macro-balanced-recall"):
        assert not punishes_false_positives(get_metric(name)), name
    assert not punishes_false_positives(LinearFractional({"tp": 1}, {"const": 1}))
    assert punishes_false_positives(LinearFractional({"tp": 1, "fp": -0.1}, {"const": 1}))


def test_what_is_refused():
    nan = float("nan")
    twice = sparse.coo_array((np.ones(2), (np.array([0, 0]), np.array([1, 1]))), shape=(1, 3))
    pieces = sparse.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    negative = ObservedLabels.from_sparse(sparse.csr_array([[1, 0]]), "negative")
    weighted = ObservedLabels.from_dense([[1, 0]], weights=[[2, 1]])
    for rate, message in [
        (1.0, "flip_rate is 1.0"),
        (-0.1, "flip_rate is -0.1"),
        (nan, "flip_rate is nan"),
        ([0.1, 1.5], "flip_rate of label 1 is 1.5"),
        ([0.1, 0.2, 0.3], r"shape \(3,\).*each of the 2 labels"),
        ("auto", "must be a number"),
        (None, "flip_rate"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            unlabelled_counts([[1, 0]], [[1, 0]], rate)
    for decisions, message in [
        ([[1, 0]], r"shape \(1, 2\); expected \(1, 3\)"),
        ([1, 0, 0], r"shape \(3,\)"),
        ([[1, 0.5, 0]], r"row 0, column 1 is 0\.5"),
        ([[1, 0, nan]], "row 0, column 2 is nan"),
        (sparse.csr_array(np.array([[0, 0, 0.5]])), r"row 0, column 2 is 0\.5"),
        # Stored duplicates add up.
        (twice, r"row 0, column 1 is 2\.0"),
        (pieces, r"row 0, column 1 is 2\.0"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            unlabelled_counts([[1, 0, 0]], decisions, 0.5)
    for labels, message in [
        ([[0, 0]], "No label is observed"),
        (negative, "unobserved='negative'"),
        (weighted, "without weights"),
    ]:
        with pytest.raises(InvalidLabelsError, match=message):
            unlabelled_counts(labels, [[1, 0]], 0.5)
    with pytest.raises(UnknownNameError, match="average"):
        unlabelled_counts([[1, 0]], [[1, 0]], 0.5, average="samples")
    with pytest.raises(UnknownNameError, match="micro-f1"):
        unlabelled_metric("micro-f", [[1, 0]], [[1, 0]], 0.5)
