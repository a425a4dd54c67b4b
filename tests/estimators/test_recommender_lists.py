"""A recommender that ranks: a pair without a rating is a 0, and held-out likes choose the settings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from labelgap import ObservedLabels, Recommender
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.recommending.ratings import read_ratings

FIXED: dict[str, Any] = {"unobserved": "negative", "trace_penalty": 0.5, "threshold": "train"}
FIXED |= {"random_state": 0}


def tasteful(n: int = 80, n_items: int = 40, seed: int = 0) -> tuple[list[str], list[str], np.ndarray]:
    """Ratings of users who choose what they like: (users, items, stars)."""
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items))
    users, items = np.nonzero(taste + rng.gumbel(size=taste.shape) > 1.2)
    stars = np.clip(np.round(3 + taste[users, items] + 0.5 * rng.standard_normal(len(users))), 1, 5)
    return [f"u{user}" for user in users], [f"i{item}" for item in items], stars


def part_of(ratings: Any, chosen: np.ndarray) -> tuple[list[str], list[str], np.ndarray]:
    at = np.flatnonzero(chosen)
    return [ratings[0][e] for e in at], [ratings[1][e] for e in at], ratings[2][at]


def split(n: int = 60, n_items: int = 30) -> tuple[Any, Any]:
    ratings = tasteful(n, n_items)
    held = np.random.default_rng(1).random(len(ratings[2])) < 0.2
    return part_of(ratings, ~held), part_of(ratings, held)


def test_its_lists_are_better_than_popularity_and_than_those_of_a_model_for_decisions() -> None:
    train, test = split()
    searched = Recommender(positive=4, unobserved="negative", random_state=0).fit(train)
    deciding = Recommender(positive=4, trace_penalty=0.01, threshold="train", random_state=0).fit(train)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", LabelgapWarning
        )  # A model for decisions may be worse than popularity.
        found, other = (model.evaluate_ranking(test, n=10) for model in (searched, deciding))
    assert found.model.ndcg > found.popularity.ndcg + 0.05
    assert found.model.ndcg > other.model.ndcg + 0.05
    assert found.model.ndcg > 0.3
    # A held-out like was silence to the models that were compared.
    assert 0 < max(c.metric_value for c in searched.candidates_) < 1


def test_likely_likes_are_as_many_as_there_are() -> None:
    train, _ = split()
    model = Recommender(positive=4, **FIXED).fit(train)
    probabilities = [model.predict_proba(user, list(model.item_ids_)) for user in model.user_ids_]
    assert np.mean(probabilities) == pytest.approx(np.sum(train[2] >= 4) / np.size(probabilities), rel=0.5)


def test_dislikes_count_as_dislikes() -> None:
    train, _ = split()
    light, heavy = (Recommender(positive=4, dislike_value=x, **FIXED).fit(train) for x in (0.5, -0.5))
    pairs = part_of(train, train[2] < 4)[:2]
    assert heavy.decision_function(*pairs).mean() < light.decision_function(*pairs).mean()
    user = train[0][0]
    why = heavy.explain(user, heavy.recommend(user, n=1).items[0], n=40)
    given = {i: int(s >= 4) for u, i, s in zip(*train, strict=True) if u == user}
    assert {c.item: c.answer for c in why.contributions} == given


def test_an_item_that_is_folded_in_gets_what_the_fit_gives() -> None:
    train, _ = split(40, 20)
    model = Recommender(positive=4, count_powers=(0, 0.25), leave_one_out=True, **FIXED).fit(train)
    users, _, stars = part_of(train, np.array(train[1]) == "i5")
    later = model.fold_in((users, ["twin"] * len(users), stars))
    column, known = (later.item_ids_.index(name) for name in ("twin", "i5"))
    np.testing.assert_allclose(later.item_factors_[column], later.item_factors_[known], atol=1e-6)
    assert later.item_weights_[column] == pytest.approx(later.item_weights_[known])


def test_a_fit_at_its_limit_of_the_rank_says_so() -> None:
    train, _ = split(30, 15)
    assert not Recommender(positive=4, **FIXED).fit(train).rank_limited_
    limited = Recommender(positive=4, rank=2, **FIXED).fit(train)
    assert limited.rank_ == 2
    assert limited.rank_limited_
    assert limited.relative_gap_ > 1e-2


def test_settings_that_do_not_go_together_are_refused() -> None:
    users, items, stars = tasteful()
    likes = part_of((users, items, stars), stars >= 4)[:2]
    negative = {"unobserved": "negative"}
    for options, message in [
        ({"dislike_value": 0.1}, "only for lists, under unobserved='negative'"),
        ({"value_power": 1.0, "unobserved": "unlabelled"}, "only for lists, under unobserved='negative'"),
        *((negative | {"dislike_value": x}, "dislike_value must be") for x in (2.0, np.nan, None, "1", True)),
        *((negative | {"count_powers": x}, "count_powers must be") for x in (0.5, (0.5,), "0.5", {1, 2})),
        (negative | {"count_powers": (0.5, 2)}, "each of count_powers must be a number from 0 to 1"),
        (negative | {"value_power": -1.0}, "value_power must be 'auto' or a number from 0 to 2"),
        (negative | {"leave_one_out": "no"}, "leave_one_out must be True, False or 'auto'"),
        (negative | {"loss": "logistic", "value_power": 1.0}, "with the squared loss; here it is 'logistic'"),
        (negative | {"score_bound": 2.0}, "score_bound=2.0 has no meaning for lists"),
        (negative | {"ridge_penalty": 0.1}, "ridge_penalty=0.1 has no meaning for lists"),
        (negative | {"max_iter": 5}, "max_iter=5 has no meaning for lists"),
        (negative | {"weights": "inverse-propensity"}, "propensities"),
        (negative | {"implicit_feedback": True}, "implicit_feedback has a meaning only"),
        ({"unobserved": "unlabelled", "implicit_feedback": True}, "implicit_feedback has a meaning only"),
        ({"user_intercept": "maybe"}, "user_intercept must be"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            Recommender(**options).fit(likes)
    with pytest.raises(InvalidLabelsError, match="None of the ratings is a like"):
        Recommender(unobserved="negative", positive=9).fit((users, items, stars))


# -- what silence means is said once -----------------------------------------------------------------------


def test_ratings_that_say_what_silence_means_are_read_as_if_the_parameter_did() -> None:
    users, items, _ = tasteful(30, 15)
    likes = read_ratings((users, items))
    more = (["new", "new", "u1"], ["i1", "i2", "i3"])
    for meaning, given in [
        ("negative", {}),
        ("negative", {"loss": "logistic", "threshold": "train"}),
        ("unlabelled", {"flip_rate": 0.3, "threshold": "train"}),
    ]:
        fixed: dict[str, Any] = {"random_state": 0, "trace_penalty": 0.01, **given}
        told = Recommender(unobserved=meaning, **fixed).fit(likes)
        own = Recommender(**fixed).fit(ObservedLabels.from_any(likes, meaning))
        assert own.score(likes) == told.score(likes) == told.score(ObservedLabels.from_any(likes, meaning))
        np.testing.assert_array_equal(own.user_factors_, told.user_factors_)
        # Later ratings, which say nothing themselves, mean what those of the fit meant.
        own, told = own.partial_fit(more), told.partial_fit(more)
        np.testing.assert_array_equal(own.user_factors_, told.user_factors_)
        assert own.threshold_ == told.threshold_
        if meaning == "negative":
            # Likes that are folded in and say so are no dislikes of all else.
            said = ObservedLabels.from_any(read_ratings((["x", "x"], ["i1", "i2"])), "negative")
            found, plain = told.fold_in(said), told.fold_in((["x", "x"], ["i1", "i2"]))
            assert found.answers_ == plain.answers_
            np.testing.assert_array_equal(found.user_factors_, plain.user_factors_)


def test_ratings_that_contradict_the_parameter_or_the_fit_are_refused() -> None:
    users, items, stars = tasteful(30, 15)
    likes = ObservedLabels.from_any(read_ratings((users, items)), "unlabelled")
    with pytest.raises(InvalidParameterError, match=r"unobserved is 'negative'.* unobserved='unlabelled'"):
        Recommender(unobserved="negative").fit(likes)
    said_nothing = Recommender(trace_penalty=0.01, flip_rate=0.3, threshold="train").fit(likes)
    no = ObservedLabels.from_any(read_ratings((users, items)), "negative")
    with pytest.raises(
        InvalidLabelsError, match=r"fitted with unobserved='unlabelled'.* unobserved='negative'"
    ):
        said_nothing.partial_fit(no)
    for fitted_to in ("missing", "negative"):
        model = Recommender(**(FIXED | {"unobserved": fitted_to}), positive=3).fit((users, items, stars))
        for meaning in ("negative", "unlabelled"):
            more = ObservedLabels.from_any(read_ratings((["new", "new"], ["i1", "i2"])), meaning)
            for learn in (model.fold_in, model.partial_fit):
                if meaning == fitted_to:
                    assert "new" in learn(more).user_ids_
                    continue
                with pytest.raises(
                    (InvalidLabelsError, InvalidParameterError), match=f"unobserved='{meaning}'"
                ):
                    learn(more)


def test_a_second_fit_does_not_keep_the_meaning_of_the_first() -> None:
    users, items, stars = tasteful(30, 15)
    ratings = (users, items, stars, np.random.default_rng(2).integers(0, 30, len(users)))
    more = (["new", "new", "u1"], ["i1", "i2", "i3"], [5, 2, 4], [31, 31, 32])
    for first, then in [("missing", "negative"), ("negative", "missing")]:
        for loss in ("squared", "logistic"):
            given = {"loss": loss, "half_life": 10, "positive": 3, "random_state": 0}
            given |= {"trace_penalty": 0.01, "threshold": "train"}
            model = Recommender(unobserved=first, **given).fit(ratings)
            model.set_params(unobserved=then).fit(ratings)
            fresh = Recommender(unobserved=then, **given).fit(ratings)
            assert model.__getstate__().keys() == fresh.__getstate__().keys()
            model.partial_fit(more)
            fresh.partial_fit(more)
            assert model.answers_ == fresh.answers_
            np.testing.assert_array_equal(model.user_factors_, fresh.user_factors_)
