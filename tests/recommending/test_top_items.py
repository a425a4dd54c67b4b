"""The best items of many users, and the ranks of held-out ones, against sorting all scores of a user."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.exceptions import InvalidInputError
from labelgap.labels import ObservedLabels
from labelgap.recommending.ranks import ranks_by_item, ranks_of_held_out
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
    n: int, n_items: int, k: int, seed: int, scale: float = 1.0, digits: int = 16
) -> UserItemFactors:
    """Factors at random; with few digits many scores are equal exactly."""
    rng = np.random.RandomState(seed)
    U, V, b = (rng.standard_normal(shape).round(digits) for shape in ((n, k), (n_items, k), n_items))
    return UserItemFactors(U * scale, V, b * scale)


def random_mask(n: int, n_items: int, fraction: float, seed: int) -> Any:
    return np.random.RandomState(seed).uniform(size=(n, n_items)) < fraction


def seen_in(mask: Any) -> Seen:
    return Seen(np.concatenate(([0], np.cumsum(mask.sum(axis=1)))), np.nonzero(mask)[1])


def all_scores(factors: UserItemFactors) -> Any:
    """Scores of all pairs, each with the last digit of :func:`score_pairs`."""
    n, n_items = len(factors.users), len(factors.items)
    return score_pairs(factors, *np.divmod(np.arange(n * n_items), n_items)).reshape(n, n_items)


def check_against_a_sort(factors: UserItemFactors, n: int, mask: Any, cut: float) -> None:
    """The n best of each user, and all above a cut, without those in the mask."""
    scores = all_scores(factors)
    seen = None if mask is None else seen_in(mask)
    items, values = top_items(factors, n, seen)
    above = items_above(factors, cut, seen)
    in_order = items_above(factors, cut, seen, best_first=False)
    np.testing.assert_array_equal(in_order.indptr, above.indptr)
    left = np.ones(scores.shape, dtype=bool) if mask is None else ~mask
    for row, (own, order) in enumerate(zip(scores, np.argsort(-scores, axis=1, kind="stable"), strict=True)):
        order = order[left[row][order]]
        count = min(n, len(order))
        np.testing.assert_array_equal(items[row, :count], order[:n], err_msg=f"row {row}")
        np.testing.assert_array_equal(values[row, :count], own[order[:n]])
        assert (items[row, count:] == -1).all()
        assert np.isnan(values[row, count:]).all()
        here = slice(above.indptr[row], above.indptr[row + 1])
        expected = order[own[order] >= cut]
        np.testing.assert_array_equal(above.items[here], expected, err_msg=f"row {row}")
        np.testing.assert_array_equal(above.scores[here], own[expected])
        np.testing.assert_array_equal(in_order.items[here], np.sort(expected))
        np.testing.assert_array_equal(in_order.scores[here], own[np.sort(expected)])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 150),
    st.integers(1, 700),
    st.integers(0, 4),
    st.sampled_from([1, 3, 40, 1000]),
    st.sampled_from([0, 16]),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
    st.sampled_from([1e-12, 1.0, 1e6, 1e32]),
)
def test_small_ones_against_a_full_sort(
    seed: int, n: int, n_items: int, k: int, top: int, digits: int, fraction: float | None, scale: float
) -> None:
    mask = None if fraction is None else random_mask(n, n_items, fraction, seed)
    check_against_a_sort(random_factors(n, n_items, k, seed, scale, digits), top, mask, 0.3 * scale)


def test_neither_tiles_nor_threads_nor_company_show(monkeypatch: pytest.MonkeyPatch) -> None:
    # More users and more items than one tile has, and enough work for several threads.
    for digits, k in ((16, 8), (0, 2)):
        factors, mask = random_factors(1103, 1531, k, 1, digits=digits), random_mask(1103, 1531, 0.1, 1)
        found = []
        for threads in ("1", "3"):
            monkeypatch.setenv("LABELGAP_NUM_THREADS", threads)
            best = top_items(factors, 7, seen_in(mask))
            found.append((*best, *items_above(factors, 3.0, seen_in(mask))))
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
        check_against_a_sort(factors, 7, mask, 3.0)
        for row in (0, 77, 1102):
            alone = factors._replace(users=factors.users[row : row + 1])
            mine = top_items(alone, 7, seen_in(mask[row : row + 1]))
            np.testing.assert_array_equal(mine[0][0], found[0][0][row])
            np.testing.assert_array_equal(mine[1][0], found[0][1][row])


def test_awkward_orders_of_scores() -> None:
    # Every item is a candidate when it comes up.
    better = UserItemFactors(np.ones((70, 1)), np.arange(5000.0)[:, None], np.zeros(5000))
    np.testing.assert_array_equal(top_items(better, 3)[0], np.tile([4999, 4998, 4997], (70, 1)))
    late = np.zeros((70, 5000), dtype=bool)
    late[:, 2500:] = True
    np.testing.assert_array_equal(
        top_items(better, 3, seen_in(late))[0], np.tile([2499, 2498, 2497], (70, 1))
    )
    # All scores are equal.
    flat = UserItemFactors(np.zeros((70, 2)), np.ones((4000, 2)), np.full(4000, 0.25))
    items, scores = top_items(flat, 4, Seen(np.arange(71), np.zeros(70, dtype=np.int32)))
    np.testing.assert_array_equal(items, np.tile([1, 2, 3, 4], (70, 1)))
    assert (scores == 0.25).all()
    # Single precision cannot tell them apart, many of them at the border of the n best.
    near = UserItemFactors(np.ones((100, 1)), np.ones((600, 1)), np.linspace(0, 1e-9, 600))
    np.testing.assert_array_equal(top_items(near, 5)[0], np.tile([599, 598, 597, 596, 595], (100, 1)))
    cut = float(score_pairs(near, np.array([0]), np.array([300]))[0])
    np.testing.assert_array_equal(np.diff(items_above(near, cut).indptr), np.full(100, 300))


def test_extreme_factors_and_thresholds() -> None:
    """Factors that are no numbers of single precision, or hardly, with scores of ordinary size."""
    even = random_factors(80, 500, 3, 5)
    for exponent in (25, 35, 45, 150):
        for size in (10.0**exponent, 10.0**-exponent):
            uneven = even._replace(users=even.users * size, items=even.items / size)
            check_against_a_sort(uneven, 4, None, 1.0)
    for threshold, count in ((-np.inf, 30), (np.inf, 0), (1e300, 0), (-1e300, 30)):
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


@settings(max_examples=40, deadline=None)
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


# -- ranks -------------------------------------------------------------------------------------------------


def labels_of(mask: Any) -> ObservedLabels:
    return ObservedLabels.from_triplets(*np.nonzero(mask), np.ones(int(mask.sum())), shape=mask.shape)


def ranks_by_sorting(scores: Any, seen: Any, held: Any) -> list[int]:
    found = []
    for own, answered, asked in zip(scores, seen, held, strict=True):
        order = [j for j in np.argsort(-own, kind="stable").tolist() if not answered[j]]
        place = {item: rank for rank, item in enumerate(order, start=1)}
        found += [place.get(item, 0) for item in np.flatnonzero(asked).tolist()]
    return found


def test_ranks_are_those_of_a_sort() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        # At first small ones with all kinds of ties, then more than a tile has.
        n, n_items, k = (rng.integers(1, 12), rng.integers(1, 90), seed % 4) if seed < 39 else (700, 1531, 17)
        factors = random_factors(int(n), int(n_items), int(k), seed, digits=(0, 1, 16)[seed % 3])
        seen, held = (rng.uniform(size=(n, n_items)) < part for part in (0.3, 0.4 if seed < 39 else 0.05))
        # Some are held out that were rated; they have no rank, which is a 0.
        found = ranks_of_held_out(*factors, labels_of(seen), labels_of(held)).tolist()
        assert found == ranks_by_sorting(all_scores(factors), seen, held), f"seed {seed}"
        popular = rng.integers(0, 5, size=n_items)
        found = ranks_by_item(popular, labels_of(seen), labels_of(held)).tolist()
        assert found == ranks_by_sorting(np.tile(popular, (n, 1)), seen, held), f"seed {seed}"


def test_nothing_held_out_and_shapes_that_disagree() -> None:
    seen = ObservedLabels.from_triplets([0], [1], [1], shape=(2, 3))
    factors = np.ones((2, 1)), np.ones((3, 1)), np.zeros(3)
    nothing = ObservedLabels.from_triplets([], [], [], shape=(2, 3))
    assert len(ranks_of_held_out(*factors, seen, nothing)) == 0
    assert len(ranks_by_item(np.zeros(3), seen, nothing)) == 0
    held = ObservedLabels.from_triplets([0], [1], [1], shape=(2, 4))
    with pytest.raises(InvalidInputError, match=r"`held` have the shape \(2, 4\).*2 users and 3 items"):
        ranks_of_held_out(*factors, seen, held)


# -- on a device -------------------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_same_items_and_scores_on_a_device(device: str) -> None:
    torch = pytest.importorskip("torch", reason="no torch here, so there is no device to search on")
    from labelgap.recommending.device_top import top_items_on

    def check(given: UserItemFactors, n: int, seen: Seen | None = None) -> None:
        expected, found = top_items(given, n, seen), top_items_on(torch.device(device), given, n, seen)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])

    for shape, n, fraction, digits in [
        ((30, 1000, 5), 10, 0.0, 16),
        ((30, 1000, 5), 10, 0.5, 16),
        ((7, 129, 3), 4, 0.2, 0),
        ((5, 6, 2), 10, 0.5, 16),
        ((3, 2000, 1), 3, 0.99, 0),
    ]:
        mask = random_mask(*shape[:2], fraction, 1)
        check(random_factors(*shape, 0, digits=digits), n, seen_in(mask) if fraction else None)
    # Blocks that single precision does not settle, and scores beyond it.
    check(UserItemFactors(np.ones((4, 1)), np.ones((5000, 1)), np.linspace(0, 1e-9, 5000)), 5)
    large = random_factors(3, 300, 2, 0)
    check(large._replace(users=1e25 * large.users, items=1e10 * large.items), 5)
