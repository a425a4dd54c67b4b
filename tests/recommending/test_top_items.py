"""The best items in blocks, against sorting all scores of a user."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.kernels.threads import limit_threads
from labelgap.recommending import top_items as top_items_module
from labelgap.recommending.top_items import (
    Seen,
    UserItemFactors,
    items_above,
    score_pairs,
    score_rows,
    top_columns,
    top_items,
)


def random_factors(
    n: int, n_items: int, k: int, seed: int, scale: float = 1.0, ties: bool = False
) -> UserItemFactors:
    rng = np.random.RandomState(seed)
    U, V, b = rng.standard_normal((n, k)), rng.standard_normal((n_items, k)), rng.standard_normal(n_items)
    if ties:
        # Whole numbers, so that many scores are equal exactly.
        U, V, b = np.round(U), np.round(V), np.round(b)
    return UserItemFactors(U * scale, V, b * scale)


def random_seen(n: int, n_items: int, fraction: float, seed: int) -> Seen:
    mask = np.random.RandomState(seed).uniform(size=(n, n_items)) < fraction
    return Seen(np.concatenate(([0], np.cumsum(mask.sum(axis=1)))), np.nonzero(mask)[1])


def ranking(factors: UserItemFactors, row: int, seen: Seen | None) -> list[tuple[int, float]]:
    """All items of a user, best first: a sort of every score."""
    n_items = len(factors.items)
    scores = score_pairs(factors, np.full(n_items, row), np.arange(n_items))
    left_out = set() if seen is None else set(seen.indices[seen.indptr[row] : seen.indptr[row + 1]].tolist())
    order = sorted((j for j in range(n_items) if j not in left_out), key=lambda j: (-scores[j], j))
    return [(j, float(scores[j])) for j in order]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 150),
    st.integers(1, 700),
    st.integers(0, 4),
    st.sampled_from([1, 3, 40, 1000]),
    st.booleans(),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
    st.sampled_from([1e-12, 1.0, 1e6, 1e32]),
)
def test_against_a_full_sort(
    seed: int, n: int, n_items: int, k: int, top: int, ties: bool, fraction: float | None, scale: float
) -> None:
    factors = random_factors(n, n_items, k, seed, scale, ties)
    seen = None if fraction is None else random_seen(n, n_items, fraction, seed)
    items, scores = top_items(factors, top, seen)
    above = items_above(factors, 0.3 * scale, seen)
    for row in {0, n // 2, n - 1}:
        expected = ranking(factors, row, seen)
        kept = items[row] >= 0
        assert list(zip(items[row][kept], scores[row][kept], strict=True)) == expected[:top]
        assert (np.diff(kept.astype(int)) <= 0).all()
        assert np.isnan(scores[row][~kept]).all()
        here = slice(above.indptr[row], above.indptr[row + 1])
        found = list(zip(above.items[here], above.scores[here], strict=True))
        assert found == [pair for pair in expected if pair[1] >= 0.3 * scale]
    in_order = items_above(factors, 0.3 * scale, seen, best_first=False)
    np.testing.assert_array_equal(in_order.indptr, above.indptr)
    assert all((np.diff(part) > 0).all() for part in np.split(in_order.items, in_order.indptr[1:-1]))
    assert sorted(in_order.scores) == sorted(above.scores)


@pytest.mark.parametrize(
    "changes",
    [
        {"TILE_BYTES": 1},
        {"TILE_BYTES": 10_000},
        {"TILE_USERS": 7},
        {"TILE_USERS": 1, "TILE_BYTES": 1024},
        {"_KEPT_BYTES": 1},
        {"_PAIR_BYTES": 100},
        {"_MANY_USERS": 10**9},
    ],
)
@pytest.mark.parametrize("ties", [False, True])
def test_neither_tiles_nor_precision_show(
    changes: dict[str, Any], ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    factors, seen = random_factors(90, 400, 8, 1, ties=ties), random_seen(90, 400, 0.2, 1)
    expected, above = top_items(factors, 7, seen), items_above(factors, 2.0, seen)
    for name, value in changes.items():
        monkeypatch.setattr(top_items_module, name, value)
    for mine, theirs in zip(top_items(factors, 7, seen), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(items_above(factors, 2.0, seen), above, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_show(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    factors, seen = random_factors(103, 600, 4, 2), random_seen(103, 600, 0.1, 2)
    with limit_threads(1):
        expected, above = top_items(factors, 5, seen), items_above(factors, 3.0, seen)
    monkeypatch.setattr(top_items_module, "_WORK_PER_THREAD", 1)
    with limit_threads(threads):
        found, found_above = top_items(factors, 5, seen), items_above(factors, 3.0, seen)
    for mine, theirs in zip((*found, *found_above), (*expected, *above), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_company_does_not_show() -> None:
    factors, seen = random_factors(200, 3000, 6, 3), random_seen(200, 3000, 0.05, 3)
    items, scores = top_items(factors, 9, seen)
    for row in (0, 77, 199):
        left_out = seen.indices[seen.indptr[row] : seen.indptr[row + 1]]
        alone = factors._replace(users=factors.users[row : row + 1])
        mine = top_items(alone, 9, Seen(np.array([0, len(left_out)]), left_out))
        np.testing.assert_array_equal(mine[0][0], items[row])
        np.testing.assert_array_equal(mine[1][0], scores[row])


def test_items_that_get_better_and_better() -> None:
    """Every item is a candidate when it comes up."""
    factors = UserItemFactors(np.ones((70, 1)), np.arange(5000.0)[:, None], np.zeros(5000))
    items, _ = top_items(factors, 3)
    np.testing.assert_array_equal(items, np.tile([4999, 4998, 4997], (70, 1)))
    seen = Seen(np.arange(71) * 2500, np.tile(np.arange(2500, 5000), 70))
    np.testing.assert_array_equal(top_items(factors, 3, seen)[0], np.tile([2499, 2498, 2497], (70, 1)))


def test_all_scores_equal() -> None:
    factors = UserItemFactors(np.zeros((70, 2)), np.ones((4000, 2)), np.full(4000, 0.25))
    items, scores = top_items(factors, 4, Seen(np.arange(71), np.zeros(70, dtype=np.int32)))
    np.testing.assert_array_equal(items, np.tile([1, 2, 3, 4], (70, 1)))
    assert (scores == 0.25).all()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(0, 5),
    st.integers(1, 900),
    st.floats(0.001, 1),
    st.sampled_from([0, 1, 9]),
    st.sampled_from([None, np.nan, -np.inf, np.inf]),
    st.sampled_from([np.float32, np.float64]),
)
def test_top_columns_are_those_of_a_stable_sort(
    seed: int, n: int, width: int, part: float, decimals: int, odd: float | None, dtype: Any
) -> None:
    rng = np.random.RandomState(seed)
    scores = rng.standard_normal((n, width)).round(decimals).astype(dtype)
    if odd is not None:
        scores[rng.uniform(size=scores.shape) < 0.7] = odd
    k = max(1, int(part * width))
    columns, values = top_columns(scores, k)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, axis=1))


def test_near_ties_are_told_apart() -> None:
    """Scores that float32 cannot tell apart, many of them at the border of the n best."""
    factors = UserItemFactors(np.ones((100, 1)), np.ones((600, 1)), np.linspace(0, 1e-9, 600))
    items, _ = top_items(factors, 5)
    np.testing.assert_array_equal(items, np.tile([599, 598, 597, 596, 595], (100, 1)))
    cut = float(score_pairs(factors, np.array([0]), np.array([300]))[0])
    np.testing.assert_array_equal(np.diff(items_above(factors, cut).indptr), np.full(100, 300))


@pytest.mark.parametrize("exponent", [25, 35, 45, 150])
def test_factors_out_of_balance(exponent: int) -> None:
    """Factors that are no numbers of float32, or hardly, with scores of ordinary size."""
    even = random_factors(80, 500, 3, 5)
    size = 10.0**exponent
    for factors in (
        even._replace(users=even.users * size, items=even.items / size),
        even._replace(users=even.users / size, items=even.items * size),
    ):
        items, scores = top_items(factors, 4)
        for row in (0, 79):
            assert list(zip(items[row], scores[row], strict=True)) == ranking(factors, row, None)[:4]


@pytest.mark.parametrize(("threshold", "count"), [(-np.inf, 30), (np.inf, 0), (1e300, 0), (-1e300, 30)])
def test_extreme_thresholds(threshold: float, count: int) -> None:
    for n in (3, 100):
        above = items_above(random_factors(n, 30, 2, 0), threshold)
        np.testing.assert_array_equal(np.diff(above.indptr), np.full(n, count))


def test_pairs_are_scored_alike_alone_and_together() -> None:
    factors = random_factors(50, 60, 13, 2)
    rows, items = np.divmod(np.arange(3000), 60)
    together = score_pairs(factors, rows, items)
    alone = [score_pairs(factors, rows[e : e + 1], items[e : e + 1])[0] for e in range(0, 3000, 37)]
    np.testing.assert_array_equal(together[::37], alone)
    np.testing.assert_array_equal(score_rows(factors, np.arange(51) * 60, items), together)
    dense = factors.users @ factors.items.T + factors.intercept
    np.testing.assert_allclose(together, dense.ravel(), rtol=1e-12, atol=1e-12)


def test_nobody_and_nothing() -> None:
    assert top_items(random_factors(0, 5, 2, 0), 3)[0].shape == (0, 3)
    assert items_above(random_factors(0, 5, 2, 0), 0.0).indptr.tolist() == [0]
    nothing = UserItemFactors(np.ones((2, 1)), np.ones((0, 1)), np.ones(0))
    assert (top_items(nothing, 3)[0] == -1).all()
    assert items_above(nothing, 0.0).indptr.tolist() == [0, 0, 0]
