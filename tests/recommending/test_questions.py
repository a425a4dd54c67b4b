"""Which items to ask a user about, against inverses of whole matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap import Recommender
from labelgap.exceptions import InvalidParameterError, UnknownIdError
from labelgap.losses import Logistic
from labelgap.recommending.questions import choose_questions


def variance(V: Any, precision: Any) -> float:
    """The mean variance of the scores of all items."""
    return float(np.mean(np.einsum("ij,jk,ik->i", V, np.linalg.inv(precision), V)))


def best_questions(
    V: Any, precision: Any, curvature: Any, known: Any, allowed: Any, n: int
) -> tuple[list[int], list[float]]:
    """One question after the other, each the best by inverses of precisions."""
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(n):
        before = variance(V, precision)
        worth = {
            j: known[j] * (before - variance(V, precision + curvature[j] * np.outer(V[j], V[j]))) / before
            for j in np.flatnonzero(allowed).tolist()
            if j not in chosen
        }
        chosen.append(max(worth, key=worth.__getitem__))
        gains.append(worth[chosen[-1]])
        v = V[chosen[-1]]
        precision = precision + known[chosen[-1]] * curvature[chosen[-1]] * np.outer(v, v)
    return chosen, gains


def test_every_question_is_the_best_next_one_by_inverses_of_precisions() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        V, root = rng.standard_normal((9, 3)), rng.standard_normal((3, 3))
        covariance = root @ root.T + 0.1 * np.eye(3)
        curvature, known = rng.uniform(0.1, 1.0, 9), rng.uniform(0.05, 1.0, 9)
        allowed = np.arange(9) != 2
        chosen, gains = choose_questions(V, covariance, curvature, known, allowed, 6)
        expected = best_questions(V, np.linalg.inv(covariance), curvature, known, allowed, 6)
        assert list(chosen) == expected[0]
        assert_allclose(gains, expected[1], rtol=1e-8)
    # No more items than there are, and nothing to gain without factors.
    few = np.arange(9) < 2
    assert len(choose_questions(V, covariance, curvature, known, few, 5)[0]) == 2
    chosen, gains = choose_questions(np.zeros_like(V), covariance, curvature, known, few, 1)
    assert (len(chosen), gains[0]) == (1, 0.0)


@pytest.fixture(scope="module")
def model() -> Any:
    rng = np.random.default_rng(0)
    tastes, items = rng.standard_normal((60, 2)), rng.standard_normal((20, 2))
    seen = rng.random((60, 20)) < np.linspace(0.9, 0.2, 20)
    users, columns = np.nonzero(seen)
    likes = ((tastes @ items.T)[seen] + 0.3 * rng.standard_normal(len(users)) > 0).astype(int)
    return Recommender(trace_penalty=0.003, random_state=0).fit((users, columns, likes))


def test_a_new_user_is_asked_about_items_that_people_know(model: Any) -> None:
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


def test_ratings_of_the_questions_tell_more_than_those_of_other_items(model: Any) -> None:
    V, U = model.item_factors_, model.user_factors_
    centred = U - U.mean(axis=0)
    precision = np.linalg.pinv(centred.T @ centred / len(U) + 1e-9 * np.eye(U.shape[1]))
    p = Logistic().inverse_link(V @ U.mean(axis=0) + model.item_intercept_)

    def after(items: Any) -> float:
        return variance(V, precision + sum(p[j] * (1 - p[j]) * np.outer(V[j], V[j]) for j in items))

    asked = after(model.item_ids_.index(item) for item in model.suggest(n=4, by_popularity=False))
    rng = np.random.default_rng(0)
    assert asked < np.mean([after(rng.permutation(20)[:4]) for _ in range(50)])


def test_what_a_user_has_rated_counts_and_is_not_asked_again(model: Any) -> None:
    rated = {model.item_ids_[j] for j in model.answers_.take_rows([model.user_ids_.index(3)]).indices}
    found = model.suggest(3, n=20)
    assert not rated & set(found)
    assert len(found) == 20 - len(rated)
    assert model.suggest(3, n=2, items=[*sorted(set(found))[:1], *rated]).ids == sorted(set(found))[:1]
    # The first question to a stranger settles more than the next one to somebody who is known.
    assert model.suggest(n=1).gain[0] > found.gain[0]


def test_bad_arguments_are_named_and_likes_alone_have_questions_too(model: Any) -> None:
    for wish, error, message in [
        ({"user": "nobody"}, UnknownIdError, "user"),
        ({"items": ["nothing"]}, UnknownIdError, "item"),
        ({"n": 0}, InvalidParameterError, "n must be"),
        ({"by_popularity": "yes"}, InvalidParameterError, "by_popularity"),
    ]:
        with pytest.raises(error, match=message):
            model.suggest(**wish)
    users, items = np.nonzero(np.random.default_rng(0).random((20, 8)) < 0.4)
    for more in ({"unobserved": "negative"}, {"unobserved": "unlabelled", "flip_rate": 0.2}):
        likes = Recommender(trace_penalty=0.01, threshold="train", **more).fit((users, items))
        assert len(likes.suggest(n=3)) == 3
