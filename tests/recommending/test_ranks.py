"""Ranks of held-out items against a sort of all scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.exceptions import InvalidInputError
from labelgap.kernels.threads import limit_threads
from labelgap.labels import ObservedLabels
from labelgap.recommending import top_items
from labelgap.recommending.ranks import ranks_by_item, ranks_of_held_out


def draw(
    rng: np.random.Generator, n: int, n_items: int, k: int, digits: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors of users and items and intercepts; few digits make ties."""
    parts = rng.normal(size=(n, k)), rng.normal(size=(n_items, k)), rng.normal(size=n_items)
    return parts if digits is None else tuple(np.round(part, digits) for part in parts)  # type: ignore[return-value]


def split(
    rng: np.random.Generator, n: int, n_items: int, seen: float, held: float
) -> tuple[ObservedLabels, ObservedLabels]:
    uniform = rng.uniform(size=(n, n_items))
    first = np.where(uniform < seen, 1.0, np.nan)
    second = np.where((uniform >= seen) & (uniform < seen + held), 1.0, np.nan)
    return ObservedLabels.from_dense(first), ObservedLabels.from_dense(second)


def by_sorting(scores: np.ndarray, seen: ObservedLabels, held: ObservedLabels) -> list[int]:
    answered = ~np.isnan(seen.to_dense())
    found = []
    for user, item in zip(held.rows.tolist(), held.cols.tolist(), strict=True):
        left = [j for j in range(scores.shape[1]) if not answered[user, j]]
        order = sorted(left, key=lambda j: (-scores[user, j], j))
        found.append(order.index(item) + 1 if item in left else 0)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 14),
    st.integers(0, 3),
    st.sampled_from([0, 1, None]),
    st.integers(0, 10**6),
)
def test_ranks_are_those_of_a_sort(n: int, n_items: int, k: int, digits: int | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = draw(rng, n, n_items, k, digits)
    seen, held = split(rng, n, n_items, 0.3, 0.4)
    # One product after the other, in the order of the compiled loop, for the same last digit.
    scores = top_items.score_rows(
        top_items.UserItemFactors(*factors), np.arange(n + 1) * n_items, np.tile(np.arange(n_items), n)
    ).reshape(n, n_items)
    assert ranks_of_held_out(*factors, seen, held).tolist() == by_sorting(scores, seen, held)


def test_many_tiles_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    factors = draw(rng, 150, 90, 17, 1)
    seen, held = split(rng, 150, 90, 0.2, 0.1)
    whole = ranks_of_held_out(*factors, seen, held)
    monkeypatch.setattr(top_items, "TILE_USERS", 7)
    monkeypatch.setattr(top_items, "TILE_BYTES", 7 * 8 * 11)
    monkeypatch.setattr(top_items, "_WORK_PER_THREAD", 1000)
    with limit_threads(3):
        assert ranks_of_held_out(*factors, seen, held).tolist() == whole.tolist()


@pytest.mark.parametrize("digits", [0, None])
def test_ranks_up_to_n_are_the_top_items(digits: int | None) -> None:
    rng = np.random.default_rng(1)
    factors = draw(rng, 80, 40, 18, digits)
    seen, held = split(rng, 80, 40, 0.3, 0.5)
    rank = ranks_of_held_out(*factors, seen, held)
    best, _ = top_items.top_items(
        top_items.UserItemFactors(*factors), 5, top_items.Seen(seen.indptr, seen.indices)
    )
    for user, item, place in zip(held.rows, held.cols, rank, strict=True):
        if place <= 5:
            assert best[user, place - 1] == item
        else:
            assert item not in best[user]


def test_one_order_of_all_items_is_the_rank_without_user_factors() -> None:
    rng = np.random.default_rng(2)
    seen, held = split(rng, 30, 20, 0.4, 0.3)
    popular = rng.integers(0, 5, size=20)
    nothing = np.zeros((30, 0)), np.zeros((20, 0))
    by_factors = ranks_of_held_out(*nothing, popular.astype(float), seen, held)
    assert ranks_by_item(popular, seen, held).tolist() == by_factors.tolist()


def test_an_item_that_was_rated_in_training_has_no_rank() -> None:
    seen = ObservedLabels.from_triplets([0, 0], [1, 2], [1, 0], shape=(1, 3))
    held = ObservedLabels.from_triplets([0, 0], [0, 1], [1, 1], shape=(1, 3))
    assert ranks_by_item(np.array([1, 2, 3]), seen, held).tolist() == [1, 0]
    factors = np.ones((1, 1)), np.array([[1.0], [2.0], [3.0]]), np.zeros(3)
    assert ranks_of_held_out(*factors, seen, held).tolist() == [1, 0]


def test_nothing_held_out() -> None:
    seen = ObservedLabels.from_triplets([0], [1], [1], shape=(2, 3))
    held = ObservedLabels.from_triplets([], [], [], shape=(2, 3))
    assert len(ranks_of_held_out(np.ones((2, 1)), np.ones((3, 1)), np.zeros(3), seen, held)) == 0
    assert len(ranks_by_item(np.zeros(3), seen, held)) == 0


def test_shapes_must_agree() -> None:
    seen = ObservedLabels.from_triplets([0], [1], [1], shape=(2, 3))
    held = ObservedLabels.from_triplets([0], [1], [1], shape=(2, 4))
    with pytest.raises(InvalidInputError, match=r"`held` have the shape \(2, 4\).*2 users and 3 items"):
        ranks_of_held_out(np.ones((2, 1)), np.ones((3, 1)), np.zeros(3), seen, held)
