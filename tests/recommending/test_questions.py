"""Which items to ask a user about, against inverses of whole matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap import Recommender
from labelgap.exceptions import InvalidParameterError, UnknownIdError
from labelgap.recommending.questions import choose_questions, covariance_of, with_rating


def problem(seed: int, n_items: int = 9, k: int = 3) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    V, root = rng.standard_normal((n_items, k)), rng.standard_normal((k, k))
    return V, root @ root.T + 0.1 * np.eye(k), rng.uniform(0.1, 1.0, n_items), rng.uniform(0.05, 1.0, n_items)


def open_variance(V: Any, covariance: Any) -> float:
    """The mean variance of the scores of all items."""
    return float(np.mean([v @ covariance @ v for v in V]))


@pytest.mark.parametrize("seed", range(5))
def test_every_question_is_the_best_next_one_by_inverses_of_precisions(seed: int) -> None:
    V, covariance, curvature, known = problem(seed)
    allowed = np.ones(len(V), dtype=bool)
    allowed[2] = False
    chosen, gains = choose_questions(V, covariance, curvature, known, allowed, 6)
    precision, left = np.linalg.inv(covariance), set(np.flatnonzero(allowed))
    for item, gain in zip(chosen, gains, strict=True):
        before = open_variance(V, np.linalg.inv(precision))
        worth = {
            j: known[j]
            * (before - open_variance(V, np.linalg.inv(precision + curvature[j] * np.outer(V[j], V[j]))))
            / before
            for j in left
        }
        assert item == max(worth, key=worth.__getitem__)
        assert gain == pytest.approx(worth[item], rel=1e-8)
        left.discard(item)
        precision += known[item] * curvature[item] * np.outer(V[item], V[item])
    assert 2 not in chosen


def test_a_rating_adds_to_the_precision() -> None:
    V, covariance, curvature, _ = problem(0)
    expected = np.linalg.inv(np.linalg.inv(covariance) + curvature[0] * np.outer(V[0], V[0]))
    assert_allclose(with_rating(covariance, V[0], curvature[0]), expected, rtol=1e-9)


def test_no_more_items_than_there_are_and_nothing_to_gain_without_factors() -> None:
    V, covariance, curvature, known = problem(1)
    allowed = np.zeros(len(V), dtype=bool)
    allowed[:2] = True
    assert len(choose_questions(V, covariance, curvature, known, allowed, 5)[0]) == 2
    flat = np.zeros_like(V)
    chosen, gains = choose_questions(flat, covariance, curvature, known, allowed, 1)
    assert len(chosen) == 1
    assert gains[0] == 0.0


@pytest.fixture(scope="module")
def model() -> Recommender:
    rng = np.random.default_rng(0)
    tastes, items = rng.standard_normal((60, 2)), rng.standard_normal((20, 2))
    seen = rng.random((60, 20)) < np.linspace(0.9, 0.2, 20)
    users, columns = np.nonzero(seen)
    likes = ((tastes @ items.T)[seen] + 0.3 * rng.standard_normal(len(users)) > 0).astype(int)
    return Recommender(trace_penalty=0.003, random_state=0).fit((users, columns, likes))


def test_a_new_user_is_asked_about_items_that_people_know(model: Recommender) -> None:
    found, any_item = model.suggest(n=5), model.suggest(n=5, by_popularity=False)
    assert len(found) == len(set(found)) == 5
    counts = dict(zip(model.item_ids_, model.answers_.label_counts(), strict=True))
    assert_allclose(found.known, [counts[item] / 60 for item in found])
    assert np.all(any_item.known == 1.0)
    assert found.known.mean() > np.mean([counts[item] / 60 for item in any_item])
    assert np.all((found.gain >= 0) & (found.gain <= 1))
    assert found.to_frame().columns.tolist() == ["item", "known", "probability", "gain"]
    assert "<table" in found._repr_html_()
    assert str(found).count("\n") == 4


def test_what_a_user_has_rated_counts_and_is_not_asked_again(model: Recommender) -> None:
    rated = {model.item_ids_[j] for j in model.answers_.take_rows([model.user_ids_.index(3)]).indices}
    found = model.suggest(3, n=20)
    assert not rated & set(found)
    assert len(found) == 20 - len(rated)
    assert model.suggest(3, n=2, items=[*sorted(set(found))[:1], *rated]).ids == sorted(set(found))[:1]
    # The first question to a stranger settles more than the next one to somebody who is known.
    assert model.suggest(n=1).gain[0] > found.gain[0]


def test_ratings_of_the_questions_tell_more_than_those_of_other_items(model: Recommender) -> None:
    V = model.item_factors_
    _, covariance = covariance_of(model.user_factors_)
    curvature = model._expected_curvature(V @ model.user_factors_.mean(axis=0) + model.item_intercept_)

    def after(items: Any) -> float:
        left = covariance
        for item in items:
            left = with_rating(left, V[item], curvature[item])
        return open_variance(V, left)

    asked = after(model.item_ids_.index(item) for item in model.suggest(n=4, by_popularity=False))
    rng = np.random.default_rng(0)
    assert asked < np.mean([after(rng.permutation(20)[:4]) for _ in range(50)])


def test_bad_arguments_are_named(model: Recommender) -> None:
    with pytest.raises(UnknownIdError, match="user"):
        model.suggest("nobody")
    with pytest.raises(UnknownIdError, match="item"):
        model.suggest(items=["nothing"])
    with pytest.raises(InvalidParameterError, match="n must be"):
        model.suggest(n=0)
    with pytest.raises(InvalidParameterError, match="by_popularity"):
        model.suggest(by_popularity="yes")


@pytest.mark.parametrize("unobserved", ["negative", "unlabelled"])
def test_likes_alone_have_questions_too(unobserved: str) -> None:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((20, 8)) < 0.4)
    more: dict[str, Any] = {"flip_rate": 0.2} if unobserved == "unlabelled" else {}
    model = Recommender(
        unobserved=unobserved, loss="squared", trace_penalty=0.01, threshold="train", random_state=0, **more
    ).fit((users, items))
    assert len(model.suggest(n=3)) == 3
