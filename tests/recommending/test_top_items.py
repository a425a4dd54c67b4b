"""The best items of many users, and the ranks of held-out ones, against sorting all scores of a user."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import rated_by, scores_of, with_factors

from labelgap.exceptions import LabelgapWarning
from labelgap.metrics import ranking_figures
from labelgap.recommending.top_items import Seen, UserItemFactors, top_columns, top_items


def check_against_a_sort(model: Any, n: int, cut: float) -> None:
    """The n best of each user, and all above a cut, with and without those that were rated."""
    model.threshold_ = cut
    ids, scores, rated = np.array(model.item_ids_), scores_of(model), rated_by(model)
    for exclude_seen in (True, False):
        found = model.recommend_batch(n=n, exclude_seen=exclude_seen)
        above, matrix = model.decide(exclude_seen=exclude_seen), model.decide_matrix()
        left = ~rated if exclude_seen else np.ones(scores.shape, dtype=bool)
        np.testing.assert_array_equal(matrix.toarray() > 0, scores >= cut)
        assert matrix.has_sorted_indices
        for row, (user, own) in enumerate(zip(model.user_ids_, scores, strict=True)):
            order = np.argsort(-own, kind="stable")
            order = order[left[row][order]]
            count = min(n, len(order))
            assert found.items[row, :count].tolist() == ids[order[:n]].tolist(), f"row {row}"
            np.testing.assert_array_equal(found.scores[row, :count], own[order[:n]])
            assert all(item is None for item in found.items[row, count:])
            assert np.isnan(found.scores[row, count:]).all()
            assert above[user] == ids[order[own[order] >= cut]].tolist(), f"row {row}"


def scaled(model: Any, users: float = 1.0, items: float = 1.0, intercept: float = 1.0) -> Any:
    model.user_factors_ = model.user_factors_ * users
    model.item_factors_ = model.item_factors_ * items
    model.item_intercept_ = model.item_intercept_ * intercept
    return model


def test_small_ones_against_a_full_sort() -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 5), (1, 700), (150, 1), (7, 129), (64, 65), (33, 512), (150, 300)]
    for shape in shapes:
        for k, digits in ((0, 16), (1, 0), (3, 16), (4, 0)):
            rated, top = float(rng.choice([0.0, 0.3, 1.0])), int(rng.choice([1, 3, 40, 1000]))
            model = with_factors(*shape, k, rated=rated, digits=digits)
            scale = float(rng.choice([1e-12, 1.0, 1e6, 1e32]))
            check_against_a_sort(scaled(model, users=scale, intercept=scale), top, 0.3 * scale)
    # Factors that are no numbers of single precision, or hardly, with scores of ordinary size.
    for exponent in (25, 35, 45, 150):
        for size in (10.0**exponent, 10.0**-exponent):
            check_against_a_sort(scaled(with_factors(20, 300, 3), users=size, items=1 / size), 4, 1.0)
    for cut in (-np.inf, np.inf, 1e300, -1e300):
        check_against_a_sort(with_factors(20, 30, 2), 5, cut)


def test_awkward_orders_of_scores() -> None:
    model = with_factors(70, 4000, 1, rated=0.01)
    for name, V, b in [
        ("every item is a candidate when it comes up", np.arange(4000.0), np.zeros(4000)),
        ("all scores are equal", np.ones(4000), np.full(4000, 0.25)),
        # Single precision cannot tell them apart, many of them at the border of the n best.
        ("nearly equal", np.ones(4000), np.linspace(0, 1e-9, 4000)),
    ]:
        model.user_factors_, model.item_factors_, model.item_intercept_ = np.ones((70, 1)), V[:, None], b
        model.threshold_ = np.inf
        scores, rated = scores_of(model)[0], rated_by(model)
        order = np.argsort(-scores, kind="stable")
        found = model.recommend_batch(n=5).items
        for row, seen in enumerate(rated):
            assert found[row].tolist() == order[~seen[order]][:5].tolist(), name
        model.threshold_ = scores[300]
        expected = order[scores[order] >= scores[300]]
        assert model.decide()["u3"] == expected.tolist(), name


def test_neither_tiles_nor_threads_nor_company_show(monkeypatch: pytest.MonkeyPatch) -> None:
    # More users and more items than one tile has, and enough work for several threads.
    for digits, k in ((16, 8), (0, 2)):
        model = with_factors(1103, 1531, k, rated=0.02, digits=digits)
        found = []
        for threads in ("1", "3"):
            monkeypatch.setenv("LABELGAP_NUM_THREADS", threads)
            best = model.recommend_batch(n=7)
            found.append((best.items, best.scores, model.decide_matrix().indices))
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
        check_against_a_sort(model, 7, 3.0)
        users = ["u0", "u77", "u1102"]
        scores = model.decision_function(users, model.item_ids_[5])
        for user, score in zip(users, scores, strict=True):
            row = model.user_ids_.index(user)
            alone = model.recommend_batch([user], n=7)
            assert alone.items[0].tolist() == found[0][0][row].tolist()
            np.testing.assert_array_equal(alone.scores[0], found[0][1][row])
            assert model.decision_function(user, model.item_ids_[5]) == score
        # Ranks of held-out likes, as the figures of the lists.
        rng = np.random.default_rng(1)
        held, rated = rng.random((1103, 1531)) < 0.02, rated_by(model)
        held &= ~rated
        users, items = np.nonzero(held)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelgapWarning)
            given_ = [f"u{user}" for user in users], items.tolist(), [1] * len(users)
            judged = model.evaluate_ranking(given_, n=20)
        scores = np.where(rated, -np.inf, scores_of(model))
        place = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1) + 1
        starts = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
        expected = ranking_figures(place[held], starts, (~rated).sum(axis=1), 20)
        for name, value in expected._asdict().items():
            if name != "coverage":
                assert getattr(judged.model, name) == pytest.approx(value), name


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


# -- on a device -------------------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_same_items_and_scores_on_a_device(device: str) -> None:
    torch = pytest.importorskip("torch", reason="no torch here, so there is no device to search on")
    from labelgap.recommending.device_top import top_items_on

    def random_factors(n: int, n_items: int, k: int, digits: int = 16) -> UserItemFactors:
        rng = np.random.default_rng(0)
        shapes = (n, k), (n_items, k), n_items
        return UserItemFactors(*(rng.standard_normal(shape).round(digits) for shape in shapes))

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
        mask = np.random.default_rng(1).uniform(size=shape[:2]) < fraction
        seen = Seen(np.concatenate(([0], np.cumsum(mask.sum(axis=1)))), np.nonzero(mask)[1])
        check(random_factors(*shape, digits), n, seen if fraction else None)
    # Blocks that single precision does not settle, and scores beyond it.
    check(UserItemFactors(np.ones((4, 1)), np.ones((5000, 1)), np.linspace(0, 1e-9, 5000)), 5)
    large = random_factors(3, 300, 2)
    check(large._replace(users=1e25 * large.users, items=1e10 * large.items), 5)
