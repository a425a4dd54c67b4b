"""Decisions within a budget against all decisions that keep it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from labelgap import Budget
from labelgap.decisions import best_decisions, decide_within
from labelgap.decisions.allocating import allocate
from labelgap.decisions.instance import expected_values
from labelgap.exceptions import InvalidInputError, InvalidMetricError, InvalidParameterError
from labelgap.metrics import LinearFractional, get_metric

METRICS = ["f1", "jaccard", "precision", "accuracy", "balanced-accuracy"]


def expected_metric(p: np.ndarray, decisions: np.ndarray, metric: LinearFractional) -> float:
    """What is maximised: Ψ of expected counts; for instance metrics the sum over all truths of each row."""
    counts = (p * decisions, (1 - p) * decisions, p * (1 - decisions), (1 - p) * (1 - decisions))
    if metric.average == "micro":
        return metric.from_counts(*(c.sum() for c in counts))
    if metric.average == "macro":
        return metric.from_counts(*(c.sum(axis=0) for c in counts))
    total = 0.0
    for row, decided in zip(p, decisions, strict=True):
        for truth in itertools.product([0, 1], repeat=len(row)):
            y = np.array(truth)
            chance = np.prod(np.where(y == 1, row, 1 - row))
            parts = (y * decided, (1 - y) * decided, y * (1 - decided), (1 - y) * (1 - decided))
            total += chance * metric.from_counts(*(c.sum() for c in parts))
    return total / len(p)


def allowed(shape: tuple[int, int], budget: Budget):
    """All decisions that keep the budget."""
    for flat in itertools.product([0, 1], repeat=shape[0] * shape[1]):
        decisions = np.array(flat).reshape(shape)
        used = decisions.sum(axis=1) if budget.total is None else np.array([decisions.sum()])
        limit = budget.per_row if budget.total is None else budget.total
        if limit is None or (used == limit if budget.exactly else used <= limit).all():
            yield decisions


def check(p: np.ndarray, budget: Budget, metric: LinearFractional) -> float:
    """How far the decisions are below the best ones; they must keep the budget."""
    found = best_decisions(p, budget, metric).toarray()
    every = list(allowed(p.shape, budget))
    assert any(np.array_equal(found, one) for one in every)
    best = max(expected_metric(p, one, metric) for one in every)
    reached = expected_metric(p, found, metric)
    assert reached <= best + 1e-9
    return best - reached


BUDGETS = [
    Budget(),
    Budget(per_row=1),
    Budget(per_row=2),
    Budget(per_row=2, exactly=True),
    Budget(total=2),
    Budget(total=3, exactly=True),
]


def test_decisions_are_the_best_within_the_budget():
    for average, name in itertools.product(["micro", "instance", "macro"], METRICS):
        rng = np.random.default_rng([len(average), *name.encode()])
        metric = get_metric(f"{average}-{name}", zero_division=float(rng.integers(2)))
        for budget in BUDGETS:
            p = rng.random((2 if average == "instance" else 3, 3)).round(2)
            if average != "macro" or budget.per_row is None:
                assert check(p, budget, metric) == pytest.approx(0, abs=1e-9), (average, name, budget)
    # By rows a macro metric has local bests; of small problems most of them are the best.
    for exactly in (False, True):
        rng, metric = np.random.default_rng(0), get_metric("macro-f1")
        below = [
            check(rng.random((3, 3)) ** 2, Budget(per_row=1 + case % 2, exactly=exactly), metric)
            for case in range(12)
        ]
        assert np.mean(np.array(below) < 1e-9) >= 0.7
        assert max(below) < 0.05


def test_no_row_can_be_improved_alone():
    rng = np.random.default_rng(2)
    p, metric = rng.random((12, 5)) ** 3, get_metric("macro-f1")
    found = best_decisions(p, 2, metric).toarray()
    reached = expected_metric(p, found, metric)
    for row in range(len(p)):
        for flat in itertools.product([0, 1], repeat=5):
            if sum(flat) <= 2:
                changed = found.copy()
                changed[row] = flat
                assert expected_metric(p, changed, metric) <= reached + 1e-9


@settings(max_examples=20, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 3), st.integers(1, 3)),
        elements=st.sampled_from([0, 0.3, 0.5, 1]),
    ),
    st.sampled_from(["micro-f1", "macro-f1", "instance-f1", "micro-precision"]),
    st.sampled_from([Budget(per_row=1), Budget(total=2), Budget(), Budget(per_row=5)]),
)
def test_ties_zeros_and_ones(p, name, budget):
    metric = get_metric(name)
    below = check(p, budget, metric)
    if metric.average != "macro" or budget.per_row is None:
        assert below == pytest.approx(0, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 5), elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])),
    st.sampled_from(METRICS),
    st.sampled_from([0.0, 1.0]),
)
def test_expected_values_equal_the_sum_over_all_truths(p, name, zero_division):
    metric = get_metric(f"instance-{name}", zero_division=zero_division)
    falling = -np.sort(-p)
    values = expected_values(p, metric)
    for s, value in enumerate(values):
        decided = (np.arange(len(p)) < s).astype(int)[None]
        assert value == pytest.approx(expected_metric(falling[None], decided, metric), abs=1e-12)


def test_many_labels_are_summed_without_loss():
    # 400 labels of which about 120 are positive: precision is the mean of the chosen probabilities.
    p = np.random.default_rng(0).random(400) * 0.6
    values = expected_values(p, get_metric("instance-precision"), most=50)
    falling = -np.sort(-p)
    np.testing.assert_allclose(values[1:], np.cumsum(falling[:50]) / np.arange(1, 51), rtol=1e-12)


def test_blocks_give_what_the_whole_gives():
    rng = np.random.default_rng(1)
    p = rng.random((30, 6)) ** 2
    for name in ("micro-f1", "macro-f1", "instance-f1"):
        for budget in BUDGETS:
            whole = best_decisions(p, budget, name)
            parts = decide_within(
                lambda: (p[start : start + 7] for start in range(0, 30, 7)), 6, budget, get_metric(name)
            )
            if name.startswith("macro"):
                # Sums in another order may end in another of several local bests.
                values = [expected_metric(p, found.toarray(), get_metric(name)) for found in (whole, parts)]
                assert values[0] == pytest.approx(values[1], abs=1e-9)
            else:
                np.testing.assert_array_equal(parts.toarray(), whole.toarray())


def test_many_probabilities_are_asked_for_again():
    # More than are kept: 2^22.
    p = np.random.default_rng(3).random((1500, 3000)).round(3)
    calls = []

    def blocks():
        calls.append(1)
        return (p[start : start + 300] for start in range(0, 1500, 300))

    found = decide_within(blocks, 3000, Budget(total=50), get_metric("micro-f1")).toarray()
    assert len(calls) == 2
    # The fifty largest, and of equal ones those that come first.
    best = np.argsort(-p, axis=None, kind="stable")[:50]
    np.testing.assert_array_equal(np.flatnonzero(found), np.sort(best))


# -- dividing a total --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        hnp.arrays(np.float64, st.integers(1, 4), elements=st.floats(-1, 1, width=16)), min_size=1, max_size=3
    ),
    st.integers(0, 6),
    st.booleans(),
)
def test_dividing_is_exact_for_few(values, total, exactly):
    most = sum(len(one) - 1 for one in values)
    total = min(total, most)
    choices = [
        m
        for m in itertools.product(*(range(len(one)) for one in values))
        if (sum(m) == total if exactly else sum(m) <= total)
    ]
    best = max(sum(one[k] for one, k in zip(values, m, strict=True)) for m in choices)
    found = allocate(values, total, exactly)
    assert tuple(found.tolist()) in choices
    assert sum(one[k] for one, k in zip(values, found, strict=True)) == pytest.approx(best, abs=1e-9)


def hull(one):
    """The least concave numbers that are nowhere below these."""
    at = range(len(one))
    return [
        max(
            (one[i] * (k - m) + one[k] * (m - i)) / (k - i) if k > i else one[m]
            for i in at[: m + 1]
            for k in at[m:]
        )
        for m in at
    ]


def test_many_groups_are_near_the_best():
    # So many that they are not solved exactly, unless they are concave.
    rng = np.random.default_rng(0)
    total, n = 1502, 300
    concave = [np.append(0, np.cumsum(-np.sort(-rng.normal(size=12)))) for _ in range(n)]
    others = [np.cumsum(-np.sort(-rng.random(12))) / np.arange(3, 15) for _ in range(n)]
    # Where steps come in leaps, a leap that no longer fits may be left out.
    leaps = [np.repeat([0, *np.cumsum(-np.sort(-rng.random(3)))], 4)[:13] for _ in range(n)]
    for values, exactly in itertools.product((concave, others, leaps), (False, True)):
        found = allocate(values, total, exactly)
        assert found.sum() == total if exactly else found.sum() <= total
        steps = -np.sort(-np.concatenate([np.diff(hull(one)) for one in values]))[:total]
        bound = sum(one[0] for one in values) + (steps if exactly else np.maximum(steps, 0)).sum()
        reached = sum(one[k] for one, k in zip(values, found, strict=True))
        assert reached <= bound + 1e-9
        assert reached >= bound - (1e-9 if values is concave else 0.05 if values is others else 1.0)


# -- what is refused ---------------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused():
    for bad in (
        {"per_row": 0},
        {"total": 2.5},
        {"per_row": True},
        {"per_row": 1, "total": 1},
        {"exactly": True},
    ):
        with pytest.raises(InvalidParameterError, match=r"budget|exactly"):
            Budget(**bad)
    p, rewards_mistakes = np.full((2, 3), 0.5), "micro: (fp + fn) / (tp + fp + fn + tn)"
    for given_, error, message in [
        ((p, Budget(per_row=4, exactly=True)), InvalidParameterError, "exactly 4 yes in each row, and .* 3"),
        ((p, Budget(total=7, exactly=True)), InvalidParameterError, "exactly 7 yes in all"),
        ((p, "many"), InvalidParameterError, r"budget must be .* 'many'"),
        (([[0.1], [1.5]],), InvalidInputError, r"row 1, label 0 is 1\.5"),
        (([[0.1, np.nan]],), InvalidInputError, "row 0, label 1 is nan"),
        (([0.1, 0.2],), InvalidInputError, "matrix"),
        ((p, None, rewards_mistakes), InvalidMetricError, "agreement"),
    ]:
        with pytest.raises(error, match=message):
            best_decisions(*given_)
