"""Expected gains and the choice of batches against slow and obvious versions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.asking.candidates import Candidates
from labelgap.asking.gains import add_counts, entry_gains, expected_counts
from labelgap.asking.spreading import choose_spread, directions_of, whitening
from labelgap.metrics import LinearFractional, get_metric

METRICS = ["f1", "jaccard", "precision", "recall", "accuracy", "balanced-accuracy"]
AVERAGES = ["micro", "macro", "instance"]


def expected_metric(p: np.ndarray, yes: np.ndarray, metric: LinearFractional) -> float:
    """Ψ of the expected counts."""
    axis = {"micro": None, "macro": 0, "instance": 1}[metric.average]
    counts = (p * yes, (1 - p) * yes, p * (1 - yes), (1 - p) * (1 - yes))
    return metric.from_counts(*(count.sum(axis=axis) for count in counts))


def slow_gains(p: np.ndarray, yes: np.ndarray, metric: LinearFractional) -> np.ndarray:
    """For each truth of each entry: what the decision that is right reaches beyond the one there is."""
    gains = np.zeros(p.shape)
    for place in np.ndindex(*p.shape):
        for truth, chance in ((1, p[place]), (0, 1 - p[place])):
            known, decided = p.copy(), yes.astype(int)
            known[place] = truth
            before = expected_metric(known, decided, metric)
            decided[place] = truth
            gains[place] += chance * (expected_metric(known, decided, metric) - before)
    return gains


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", METRICS)
def test_gains_are_those_of_brute_force(name: str, average: str) -> None:
    metric, rng = get_metric(f"{average}-{name}"), np.random.RandomState(0)
    for shape in ((4, 3), (1, 1), (1, 4), (5, 1)):
        for cut in (0.4, -1.0, 2.0):
            p = rng.uniform(size=shape)
            yes = p >= cut
            groups = {"micro": 1, "macro": shape[1], "instance": shape[0]}[average]
            gains = entry_gains(p, yes, metric) / groups
            assert_allclose(gains, slow_gains(p, yes, metric), atol=1e-12)
            # To know the truth is never a loss.
            assert gains.min() >= -1e-12


def test_a_metric_with_another_value_of_nothing() -> None:
    metric = LinearFractional({"tp": 1}, {"tp": 1, "fp": 1}, average="macro", zero_division=1.0)
    p = np.array([[0.3, 0.6], [0.2, 0.9]])
    assert_allclose(entry_gains(p, p >= 0.3, metric) / 2, slow_gains(p, p >= 0.3, metric))


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_counts_of_blocks_are_added(average: str) -> None:
    p = np.random.RandomState(0).uniform(size=(6, 3))
    metric = get_metric(f"{average}-f1")
    first, second = (expected_counts(part, part >= 0.4, average) for part in (p[:2], p[2:]))
    counts = add_counts(add_counts(None, first), second)
    parts = [entry_gains(part, part >= 0.4, metric, counts) for part in (p[:2], p[2:])]
    assert_allclose(np.concatenate(parts), entry_gains(p, p >= 0.4, metric))


def slow_spread(gains, rows, labels, phi, known, n, per_row):  # type: ignore[no-untyped-def]
    chosen: list[int] = []
    values = []
    width = phi.shape[1]
    while len(chosen) < n:
        best, best_value = -1, -np.inf
        for place in range(len(gains)):
            of_row = sum(rows[one] == rows[place] for one in chosen)
            if place in chosen or (per_row is not None and of_row >= per_row):
                continue
            A = (1 + known[place] / width) * np.eye(width)
            for one in chosen:
                if labels[one] == labels[place]:
                    A += np.outer(phi[one], phi[one])
            value = gains[place] * np.sqrt(phi[place] @ np.linalg.inv(A) @ phi[place])
            if value > best_value:
                best, best_value = place, value
        if best < 0:
            break
        chosen.append(best)
        values.append(best_value)
    return np.array(chosen), np.array(values)


@pytest.mark.parametrize("per_row", [None, 1, 2])
def test_batches_are_those_of_the_obvious_choice(per_row: int | None) -> None:
    rng = np.random.RandomState(0)
    rows, labels = (part.ravel() for part in np.indices((8, 4)))
    phi = rng.standard_normal((8, 3))[rows]
    gains, known = rng.uniform(size=32), np.array([0.0, 3.0, 10.0, 1.0])[labels]
    chosen, values = choose_spread(gains, rows, labels, phi, known, 14, per_row)
    slow, slow_values = slow_spread(gains, rows, labels, phi, known, 14, per_row)
    assert_array_equal(chosen, slow)
    assert_allclose(values, slow_values)
    assert np.all(np.diff(values) <= 1e-12)


def test_batches_of_a_few_entries() -> None:
    # An alike row waits for others; label 1 is not known by what is asked about label 0.
    phi = np.array([[1.0, 0.0], [0.99, 0.01], [0.0, 1.0], [1.0, 0.0]])
    gains, labels = np.array([1.0, 0.99, 0.8, 0.9]), np.array([0, 0, 0, 1])
    assert_array_equal(choose_spread(gains, np.arange(4), labels, phi, np.zeros(4), 4)[0], [0, 3, 2, 1])
    # A label of which little is known comes first, and equal entries are ordered by place.
    ones, five = np.ones((5, 1)), np.arange(5)
    known = np.array([30.0, 2.0, 8.0])
    assert_array_equal(choose_spread(np.ones(3), five[:3], five[:3], ones[:3], known, 3)[0], [1, 2, 0])
    assert_array_equal(choose_spread(np.ones(5), five, five, ones, np.zeros(5), 9)[0], five)
    # Of nothing there is nothing to choose.
    chosen, values = choose_spread(np.zeros(0), five[:0], five[:0], ones[:0], np.zeros(0), 3)
    assert len(chosen) == len(values) == 0


def test_directions_have_length_one_on_average() -> None:
    factors = np.random.RandomState(0).standard_normal((50, 3)) @ np.diag([5.0, 1.0, 0.0])
    phi = directions_of(factors, whitening(factors.T @ factors / 50))
    assert phi.shape == (50, 3)
    assert np.mean(np.sum(phi**2, axis=1)) == pytest.approx(1.0)
    assert directions_of(np.zeros((2, 2)), whitening(np.zeros((2, 2)))).shape == (2, 1)
    assert directions_of(np.zeros((2, 0)), whitening(np.zeros((0, 0)))).shape == (2, 1)


def test_the_best_candidates_are_kept() -> None:
    rng = np.random.RandomState(0)
    # Few distinct values, so that there are ties; 5,000 candidates are kept at least.
    worth = rng.randint(6, size=(300, 50)).astype(float)
    known = rng.uniform(size=worth.shape) < 0.2
    candidates = Candidates(3, 50, None)
    for start in range(0, 300, 4):
        here = slice(start, start + 4)
        candidates.add(start, worth[here], worth[here], worth[here], known[here])
    rows, labels, _, _ = candidates.found()
    order = np.argsort(np.where(known, np.inf, -worth).ravel(), kind="stable")[:5000]
    assert_array_equal(rows * 50 + labels, np.sort(order))


def test_a_row_has_twice_its_budget_of_candidates() -> None:
    worth = np.arange(12.0).reshape(2, 6)
    candidates = Candidates(3, 6, 1)
    candidates.add(0, worth, worth, worth, worth == 5)
    rows, labels, _, _ = candidates.found()
    assert_array_equal(rows, [0, 0, 1, 1])
    assert_array_equal(labels, [3, 4, 4, 5])
