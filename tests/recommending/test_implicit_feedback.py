"""Features from the pattern of ratings: against a dense decomposition, and in a recommender."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_info, threadpool_limits

import labelgap
from labelgap import ObservedLabels, Recommender
from labelgap.exceptions import InvalidParameterError
from labelgap.recommending import implicit_feedback
from labelgap.recommending.implicit_feedback import ImplicitFeedback


def chosen_by_taste(n: int = 120, n_items: int = 90, seed: int = 0) -> ObservedLabels:
    """Users of two kinds rate items of their own kind more often, and like them more often."""
    rng = np.random.default_rng(seed)
    kind = np.sign(np.outer(rng.standard_normal(n), rng.standard_normal(n_items)))
    rated = rng.random((n, n_items)) < np.where(kind > 0, 0.25, 0.05)
    likes = rng.random((n, n_items)) < np.where(kind > 0, 0.75, 0.4)
    return labels_of(rated, likes)


def labels_of(rated: Any, likes: Any) -> ObservedLabels:
    users, items = np.nonzero(rated)
    return ObservedLabels.from_triplets(
        users, items, likes[users, items].astype(np.int64), shape=np.shape(rated)
    )


def at_random(shape: tuple[int, int], density: float, seed: int, skew: float = 0.0) -> ObservedLabels:
    rng = np.random.default_rng(seed)
    popular = np.exp(skew * (rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1])))
    rated = rng.random(shape) < np.minimum(density * popular, 1.0)
    return labels_of(rated, rng.random(shape) < 0.5)


def normalised(ratings: ObservedLabels) -> Any:
    """``(D + dI)^-½ P (E + eI)^-½``, written out."""
    P = np.zeros(ratings.shape)
    P[ratings.rows, ratings.indices] = 1.0
    rows, columns = P.sum(axis=1), P.sum(axis=0)
    return P / np.sqrt(rows + rows.mean())[:, None] / np.sqrt(columns + columns.mean())


# -- the features ------------------------------------------------------------------------------------------


def test_features_are_the_singular_vectors_of_the_normalised_pattern() -> None:
    ratings = chosen_by_taste()
    implicit = ImplicitFeedback.learn(ratings)
    assert implicit is not None
    assert implicit.n_features == 1
    U, _, Vt = np.linalg.svd(normalised(ratings))
    for found, vector in ((implicit.of_users(ratings), U[:, 1]), (implicit.of_items(ratings), Vt[1])):
        centred = vector - vector.mean()
        cosine = found[:, 0] @ centred / np.linalg.norm(centred) / np.linalg.norm(found)
        assert abs(cosine) == pytest.approx(1.0, abs=1e-4)


def test_columns_have_mean_0_and_the_length_at_which_noise_enters_as_by_the_ids() -> None:
    ratings = chosen_by_taste()
    implicit = ImplicitFeedback.learn(ratings)
    assert implicit is not None
    n, n_items = np.sqrt(ratings.shape)
    lengths = (n + n_items) / (1 + n_items), (n + n_items) / (n + 1)
    both = implicit.of_users(ratings), implicit.of_items(ratings)
    for columns, length in zip(both, lengths, strict=True):
        np.testing.assert_allclose(columns.mean(axis=0), 0.0, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(columns, axis=0), length, rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("shape", "density", "skew"),
    [((200, 150), 0.1, 0.0), ((200, 150), 0.1, 0.8), ((300, 40), 0.5, 0.0), ((100, 300), 0.02, 1.0)],
)
def test_ratings_at_random_have_no_features(
    shape: tuple[int, int], density: float, skew: float, seed: int
) -> None:
    assert ImplicitFeedback.learn(at_random(shape, density, seed, skew)) is None


@pytest.mark.parametrize("shape", [(30, 20), (1, 5), (5, 1)])
def test_where_every_pair_is_rated_there_is_no_pattern(shape: tuple[int, int]) -> None:
    assert ImplicitFeedback.learn(labels_of(np.ones(shape), np.eye(*shape))) is None


def test_the_values_of_ratings_do_not_count() -> None:
    ratings = chosen_by_taste()
    flipped = replace(ratings, values=1 - ratings.values)
    first, second = ImplicitFeedback.learn(ratings), ImplicitFeedback.learn(flipped)
    assert first is not None
    assert first.is_same(second)


def test_a_user_has_the_same_features_alone_and_beside_items_that_came_later() -> None:
    ratings = chosen_by_taste()
    implicit = ImplicitFeedback.learn(ratings)
    assert implicit is not None
    alone = ratings.take_rows(np.array([7]))
    wider = replace(alone, shape=(1, ratings.shape[1] + 3))
    expected = implicit.of_users(ratings)[[7]]
    np.testing.assert_allclose(implicit.of_users(alone), expected, rtol=1e-6)
    np.testing.assert_allclose(implicit.of_users(wider), expected, rtol=1e-6)


# -- in a recommender --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ratings() -> ObservedLabels:
    return chosen_by_taste()


@pytest.fixture(scope="module")
def model(ratings: ObservedLabels) -> Recommender:
    return Recommender(trace_penalty=0.003, implicit_feedback=True, random_state=0).fit(ratings)


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
        model = Recommender(trace_penalty=0.002, implicit_feedback=used, random_state=0).fit(train)
        p = model.predict_proba(test.rows, test.indices)
        losses[used] = -np.mean(np.log(np.where(test.values == 1, p, 1 - p)))
    assert losses[True] < losses[False] - 0.005


def test_the_fit_is_certified(model: Recommender) -> None:
    assert model.n_implicit_features_ == 1
    assert model.duality_gap_ <= 1e-3 * model.objective_


def test_a_new_user_with_the_ratings_of_another_has_its_prior(
    model: Recommender, ratings: ObservedLabels
) -> None:
    theirs = ratings.take_rows(np.array([4]))
    later = model.fold_in((["new"] * theirs.n_observed, theirs.indices, theirs.values), prior="fit")
    np.testing.assert_allclose(later.user_prior_[-1], model.user_prior_[4], rtol=1e-5, atol=1e-9)
    assert np.abs(model.user_prior_[4]).max() > 0


def test_a_new_item_with_the_ratings_of_another_scores_like_it(
    model: Recommender, ratings: ObservedLabels
) -> None:
    item = int(np.argmax(ratings.label_counts()))
    at = ratings.indices == item
    users = ratings.rows[at]
    later = model.fold_in((users, ["new"] * len(users), ratings.values[at]))
    everyone = np.arange(ratings.shape[0])
    old, new = (later.decision_function(everyone, [name] * len(everyone)) for name in (item, "new"))
    # Not quite the same: the user factors of the fit are a little away from their best.
    np.testing.assert_allclose(new, old, atol=0.1)


def test_parts_of_an_explanation_add_up_and_name_the_pattern(model: Recommender) -> None:
    why = model.explain(3, 5)
    parts = why.item_intercept + why.user_intercept + why.from_features + why.other_answers + why.unexplained
    parts += sum(part.contribution for part in why.contributions)
    assert parts == pytest.approx(why.score, abs=1e-9)
    assert why.from_features != 0
    assert "which items the user has rated" in str(why)


def test_given_features_stand_beside_those_of_the_pattern(ratings: ObservedLabels) -> None:
    rows = np.random.default_rng(0).standard_normal((ratings.shape[0], 2))
    model = Recommender(trace_penalty=0.003, implicit_feedback=True, random_state=0)
    model.fit(ratings, user_features=dict(enumerate(rows)))
    assert model.user_feature_factors_.shape == (2, model.rank_)
    assert model.user_implicit_factors_.shape == (1, model.rank_)
    assert "the user's features and which items the user has rated" in str(model.explain(3, 5))
    later = model.fold_in((["new", "new"], [0, 1], [1, 0]), user_features={"new": [0.5, 0.5]})
    assert len(later.user_ids_) == len(model.user_ids_) + 1


def test_a_saved_model_folds_in_alike(model: Recommender, tmp_path: Path) -> None:
    path = tmp_path / "model.labelgap"
    model.save(path)
    loaded = labelgap.load(path)
    assert loaded.n_implicit_features_ == model.n_implicit_features_
    more = (["new"] * 3, [0, 4, 9], [1, 0, 1])
    first, second = (one.fold_in(more).decision_function(["new"], [7]) for one in (model, loaded))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", ["user_implicit_factors_", "item_implicit_factors_"])
def test_a_model_without_a_part_of_it_is_not_saved(model: Recommender, name: str, tmp_path: Path) -> None:
    broken = copy.copy(model)
    delattr(broken, name)
    with pytest.raises(NotFittedError, match=name):
        broken.save(tmp_path / "model.labelgap")


def test_more_ratings_keep_the_features_and_end_where_a_fit_ends(ratings: ObservedLabels) -> None:
    settings = {"trace_penalty": 0.003, "threshold": "train", "tol": 1e-5}
    model = Recommender(implicit_feedback=True, **settings).fit(ratings)
    before = model._implicit
    model.partial_fit((["later", "later", 0], [0, 1, 5], [1, 0, 1]))
    assert model._implicit is before
    assert model.batches_[-1].new_rows == 1
    assert model.user_prior_.shape[0] == ratings.shape[0] + 1
    assert model.duality_gap_ <= 1e-5 * model.objective_
    again = Recommender(implicit_feedback=True, warm_start=True, **settings).fit(ratings)
    steps = again.n_iter_
    assert again.fit(ratings).n_iter_ <= steps


# -- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unobserved", ["negative", "unlabelled"])
def test_it_has_no_meaning_where_silence_counts(ratings: ObservedLabels, unobserved: str) -> None:
    likes = ratings.select(ratings.values == 1)
    with pytest.raises(InvalidParameterError, match="implicit_feedback has a meaning only"):
        Recommender(implicit_feedback=True, unobserved=unobserved).fit(likes)


def test_a_value_that_is_none_is_refused(ratings: ObservedLabels) -> None:
    with pytest.raises(InvalidParameterError, match="implicit_feedback must be True, False or 'auto'"):
        Recommender(implicit_feedback="yes").fit(ratings)


def test_threads_of_blas_do_not_change_a_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    # With more threads the sums are rounded in another way, on matrices that are larger than here.
    threads = []

    def watched(*args: Any, **options: Any) -> Any:
        threads.extend(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas")
        return randomized_svd(*args, **options)

    monkeypatch.setattr(implicit_feedback, "randomized_svd", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        assert ImplicitFeedback.learn(chosen_by_taste()) is not None
    assert threads
    assert set(threads) == {1}
