"""Features from the pattern of ratings: against a dense decomposition, and in a recommender."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labelgap
from labelgap import ObservedLabels, Recommender
from labelgap.recommending.implicit_feedback import ImplicitFeedback

GIVEN: dict[str, Any] = {"trace_penalty": 0.003, "implicit_feedback": True, "random_state": 0}


def labels_of(rated: Any, likes: Any) -> ObservedLabels:
    users, items = np.nonzero(rated)
    return ObservedLabels.from_triplets(users, items, likes[users, items] * 1, shape=np.shape(rated))


def chosen_by_taste(n: int = 120, n_items: int = 90, seed: int = 0) -> ObservedLabels:
    """Users of two kinds rate items of their own kind more often, and like them more often."""
    rng = np.random.default_rng(seed)
    kind = np.sign(np.outer(rng.standard_normal(n), rng.standard_normal(n_items)))
    rated = rng.random((n, n_items)) < np.where(kind > 0, 0.25, 0.05)
    return labels_of(rated, rng.random((n, n_items)) < np.where(kind > 0, 0.75, 0.4))


def at_random(shape: tuple[int, int], density: float, seed: int, skew: float = 0.0) -> ObservedLabels:
    rng = np.random.default_rng(seed)
    popular = np.exp(skew * (rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1])))
    rated = rng.random(shape) < np.minimum(density * popular, 1.0)
    return labels_of(rated, rng.random(shape) < 0.5)


def test_features_are_the_singular_vectors_of_the_normalised_pattern() -> None:
    ratings = chosen_by_taste()
    implicit = ImplicitFeedback.learn(ratings)
    assert implicit is not None
    assert implicit.n_features == 1
    # (D + dI)^-1/2 P (E + eI)^-1/2, written out.
    P = (~np.isnan(ratings.to_dense())).astype(float)
    rows, columns = P.sum(axis=1), P.sum(axis=0)
    U, _, Vt = np.linalg.svd(P / np.sqrt(rows + rows.mean())[:, None] / np.sqrt(columns + columns.mean()))
    both = implicit.of_users(ratings), implicit.of_items(ratings)
    for found, vector in zip(both, (U[:, 1], Vt[1]), strict=True):
        centred = vector - vector.mean()
        cosine = found[:, 0] @ centred / np.linalg.norm(centred) / np.linalg.norm(found)
        assert abs(cosine) == pytest.approx(1.0, abs=1e-4)
    # They have mean 0 and the length at which noise enters as by the ids.
    n, n_items = np.sqrt(ratings.shape)
    lengths = (n + n_items) / (1 + n_items), (n + n_items) / (n + 1)
    for found, length in zip(both, lengths, strict=True):
        np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(found, axis=0), length, rtol=1e-5)
    # The values do not count.
    assert implicit.is_same(ImplicitFeedback.learn(replace(ratings, values=1 - ratings.values)))
    # A user has the same features alone and beside items that came later.
    alone = ratings.take_rows(np.array([7]))
    for one in (alone, replace(alone, shape=(1, ratings.shape[1] + 3))):
        np.testing.assert_allclose(implicit.of_users(one), both[0][[7]], rtol=1e-6)


def test_ratings_at_random_and_of_every_pair_have_no_features() -> None:
    for shape, density, skew in [
        ((200, 150), 0.1, 0.0),
        ((200, 150), 0.1, 0.8),
        ((300, 40), 0.5, 0.0),
        ((100, 300), 0.02, 1.0),
    ]:
        for seed in range(4):
            assert ImplicitFeedback.learn(at_random(shape, density, seed, skew)) is None, (shape, seed)
    for shape in ((30, 20), (1, 5), (5, 1)):
        assert ImplicitFeedback.learn(labels_of(np.ones(shape), np.eye(*shape))) is None


# -- in a recommender --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ratings() -> ObservedLabels:
    return chosen_by_taste()


@pytest.fixture(scope="module")
def model(ratings: ObservedLabels) -> Any:
    return Recommender(**GIVEN).fit(ratings)


@pytest.mark.slow
def test_the_default_uses_the_pattern_where_it_chooses_and_there_is_one(ratings: ObservedLabels) -> None:
    rough = {"random_state": 0, "tol": 0.05}
    assert Recommender(**rough).fit(ratings).n_implicit_features_ == 1
    assert Recommender(**rough, implicit_feedback=False).fit(ratings).n_implicit_features_ == 0
    assert Recommender(trace_penalty=0.01).fit(ratings).n_implicit_features_ == 0


def test_it_predicts_better_where_users_choose_by_taste() -> None:
    """Few ratings for each user, whose likes alone say little."""
    rng = np.random.default_rng(5)
    everything = chosen_by_taste(300, 120, seed=5)
    held = rng.random(everything.n_observed) < 0.3
    train, test = everything.select(~held), everything.select(held)
    losses = {}
    for used in (True, False):
        settings = GIVEN | {"trace_penalty": 0.002, "implicit_feedback": used, "threshold": "train"}
        p = Recommender(**settings).fit(train).predict_proba(test.rows, test.indices)
        losses[used] = -np.mean(np.log(np.where(test.values == 1, p, 1 - p)))
    assert losses[True] < losses[False] - 0.005


def test_new_users_and_items_have_the_features_of_their_ratings(
    model: Any, ratings: ObservedLabels, tmp_path: Path
) -> None:
    assert model.n_implicit_features_ == 1
    assert model.duality_gap_ <= 1e-3 * model.objective_
    theirs = ratings.take_rows(np.array([4]))
    said = (["new"] * theirs.n_observed, theirs.indices, theirs.values)
    later = model.fold_in(said, prior="fit")
    np.testing.assert_allclose(later.user_prior_[-1], model.user_prior_[4], rtol=1e-5, atol=1e-9)
    assert np.abs(model.user_prior_[4]).max() > 0
    item = int(np.argmax(ratings.label_counts()))
    users = ratings.rows[ratings.indices == item]
    later = model.fold_in((users, ["new"] * len(users), ratings.values[ratings.indices == item]))
    everyone = np.arange(ratings.shape[0])
    old, new = (later.decision_function(everyone, [name] * len(everyone)) for name in (item, "new"))
    # Not quite the same: the user factors of the fit are a little away from their best.
    np.testing.assert_allclose(new, old, atol=0.1)
    model.save(tmp_path / "model.labelgap")
    loaded = labelgap.load(tmp_path / "model.labelgap")
    assert loaded.n_implicit_features_ == model.n_implicit_features_
    first, second = (one.fold_in(said).decision_function(["new"], [7]) for one in (model, loaded))
    np.testing.assert_array_equal(first, second)


def test_explanations_name_the_pattern_beside_given_features(model: Any, ratings: ObservedLabels) -> None:
    why = model.explain(3, 5)
    parts = why.item_intercept + why.user_intercept + why.from_features + why.other_answers + why.unexplained
    assert parts + sum(part.contribution for part in why.contributions) == pytest.approx(why.score, abs=1e-9)
    assert why.from_features != 0
    assert "which items the user has rated" in str(why)
    rows = np.random.default_rng(0).standard_normal((ratings.shape[0], 2))
    both = Recommender(**GIVEN).fit(ratings, user_features=dict(enumerate(rows)))
    assert both.n_implicit_features_ == 1
    assert "the user's features and which items the user has rated" in str(both.explain(3, 5))
    later = both.fold_in((["new", "new"], [0, 1], [1, 0]), user_features={"new": [0.5, 0.5]})
    assert len(later.user_ids_) == len(both.user_ids_) + 1


def test_more_ratings_keep_the_features_and_end_where_a_fit_ends(ratings: ObservedLabels) -> None:
    settings = GIVEN | {"threshold": "train", "tol": 1e-5}
    model = Recommender(**settings).fit(ratings)
    model.partial_fit((["later", "later", 0], [0, 1, 5], [1, 0, 1]))
    assert model.n_implicit_features_ == 1
    assert model.batches_[-1].new_rows == 1
    assert model.user_prior_.shape[0] == ratings.shape[0] + 1
    assert model.duality_gap_ <= 1e-5 * model.objective_
