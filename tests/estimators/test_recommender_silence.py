"""A recommender that ranks: silence as a weak no, chosen by held-out likes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap import ObservedLabels, Recommender, load
from labelgap.estimators import recommender_choice
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.fitting import choice, silence, silence_weights
from labelgap.kernels.threads import limit_threads
from labelgap.recommending.ratings import read_ratings

FIXED = {"unobserved": "negative", "trace_penalty": 0.002, "threshold": "train", "random_state": 0}


def tasteful(n: int = 80, n_items: int = 40, seed: int = 0) -> tuple[list[str], list[str], np.ndarray]:
    """Ratings of users who choose what they like: (users, items, stars)."""
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items))
    chosen = taste + rng.gumbel(size=taste.shape) > 1.2
    users, items = np.nonzero(chosen)
    stars = np.clip(np.round(3 + taste[users, items] + 0.5 * rng.standard_normal(len(users))), 1, 5)
    return [f"u{user}" for user in users], [f"i{item}" for item in items], stars


def split(n: int = 80, n_items: int = 40) -> tuple[Any, Any]:
    users, items, stars = tasteful(n, n_items)
    held = np.random.default_rng(1).random(len(stars)) < 0.2
    pick = lambda which: (  # noqa: E731
        [u for u, w in zip(users, which, strict=True) if w],
        [i for i, w in zip(items, which, strict=True) if w],
        stars[which],
    )
    return pick(~held), pick(held)


@cache
def searched() -> Any:
    """The model of all defaults, fitted once for tests that compare with it."""
    return Recommender(positive=4, unobserved="negative", random_state=0).fit(split()[0])


@pytest.mark.slow
def test_its_lists_are_better_than_popularity_and_than_those_of_a_model_for_decisions() -> None:
    train, test = split()
    deciding = Recommender(positive=4, trace_penalty=0.01, random_state=0).fit(train)
    ranking = searched()
    found, other = (model.evaluate_ranking(test, n=10) for model in (ranking, deciding))
    assert found.model.ndcg > found.popularity.ndcg
    assert found.model.ndcg > other.model.ndcg
    # A held-out like was silence to the models that were compared.
    assert 0 < max(c.metric_value for c in ranking.candidates_) < 1


def test_settings_that_are_compared_side_by_side_count_as_if_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train, _ = split(30, 15)
    monkeypatch.setattr(silence_weights, "_SILENCE_WEIGHTS", (0.03, 0.1, 0.3))
    given = {"intercept_penalty": 0.0, "dislike_weight": 0.4, "confidence": 0.0, "count_weighting": 0.0}
    alone, together = (
        Recommender(positive=4, unobserved="negative", random_state=0, **given) for _ in range(2)
    )
    with limit_threads(1):
        alone.fit(train)
    with limit_threads(2):
        # A checkpoint tells a setting that is compared ahead of its turn from the same one later.
        together.fit(train, checkpoint=tmp_path / "fit")
    assert len({candidate.silence_weight for candidate in alone.candidates_}) == 3
    assert repr(together.candidates_) == repr(alone.candidates_)
    np.testing.assert_array_equal(together.item_factors_, alone.item_factors_)


def test_a_fit_at_its_limit_of_the_rank_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    train, _ = split(30, 15)
    assert not Recommender(positive=4, **FIXED).fit(train).rank_limited_
    monkeypatch.setattr(recommender_choice, "MOST_FACTORS", 2)
    limited = Recommender(positive=4, **FIXED).fit(train)
    assert limited.rank_ == 2
    assert limited.rank_limited_
    assert limited.relative_gap_ > 1e-2


@pytest.mark.slow
def test_a_sample_of_the_users_chooses_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train, test = split()
    whole = searched()
    monkeypatch.setattr(silence, "ENOUGH_RATINGS", 300)
    sampled, again = (
        Recommender(positive=4, unobserved="negative", random_state=0).fit(train, checkpoint=tmp_path / name)
        for name in ("one", "two")
    )
    found = sampled.evaluate_ranking(test, n=10)
    assert found.model.ndcg > found.popularity.ndcg
    np.testing.assert_array_equal(sampled.item_factors_, again.item_factors_)
    # Candidates of the sample are listed in the units of all ratings.
    largest = max(c.penalties.trace for c in whole.candidates_)
    assert max(c.penalties.trace for c in sampled.candidates_) == largest
    # The last fit has more likes than a fold, and so a smaller λ.
    assert 0.8**0.5 - 0.01 < sampled.trace_penalty_ / sampled.candidates_[-1].penalties.trace < 1


@pytest.mark.slow
def test_a_larger_sample_chooses_the_penalty_once_more_where_there_are_very_many(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train, test = split()
    monkeypatch.setattr(silence, "ENOUGH_RATINGS", 300)
    by_all = Recommender(positive=4, unobserved="negative", random_state=0).fit(train)
    monkeypatch.setattr(silence, "MANY_RATINGS", 600)
    sampled, again = (
        Recommender(positive=4, unobserved="negative", random_state=0).fit(train, checkpoint=tmp_path / name)
        for name in ("one", "two")
    )
    np.testing.assert_array_equal(sampled.item_factors_, again.item_factors_)
    found = sampled.evaluate_ranking(test, n=10)
    assert found.model.ndcg > found.popularity.ndcg
    # All users are in the fit, though some of them have chosen.
    assert sampled.user_ids_ == by_all.user_ids_
    assert sampled.duality_gap_ <= 1e-2 * sampled.objective_
    assert sampled.held_out_metric_ is not None
    assert 1 / 3 < sampled.trace_penalty_ / by_all.trace_penalty_ < 3
    yes = sampled.decide_matrix().mean(), by_all.decide_matrix().mean()
    assert 1 / 3 < yes[0] / yes[1] < 3
    assert sampled.batches_[0].metric is not None


def test_a_penalty_that_is_given_stays_where_samples_choose_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, _ = split(40, 20)
    monkeypatch.setattr(silence, "ENOUGH_RATINGS", 30)
    monkeypatch.setattr(silence, "MANY_RATINGS", 60)
    given = {"trace_penalty": 0.01, "silence_weight": 0.1, "dislike_weight": 0.1, "confidence": 0.0}
    model = Recommender(
        positive=4, unobserved="negative", ridge_penalty="auto", threshold="train", random_state=0, **given
    ).fit(train)
    assert len(model.candidates_) > 1
    assert model.trace_penalty_ == 0.01


def test_what_was_rated_is_never_shown() -> None:
    train, _ = split(40, 20)
    model = Recommender(positive=4, **FIXED).fit(train)
    rated = set(zip(train[0], train[1], strict=True))
    for user in model.user_ids_[:20]:
        assert not rated & {(user, item) for item in model.recommend(user, n=40).items.tolist()}


def test_dislikes_count_as_dislikes() -> None:
    train, _ = split()
    light, heavy = (Recommender(positive=4, dislike_weight=w, **FIXED).fit(train) for w in (0.1, 1.0))
    users, items, stars = train
    low = stars < 4
    pairs = (
        [u for u, w in zip(users, low, strict=True) if w],
        [i for i, w in zip(items, low, strict=True) if w],
    )
    assert heavy.decision_function(*pairs).mean() < light.decision_function(*pairs).mean()


def test_a_weight_that_is_given_stays_while_that_of_silence_is_searched() -> None:
    train, _ = split(40, 20)
    model = Recommender(positive=4, unobserved="negative", dislike_weight=0.4, random_state=0).fit(train)
    assert {candidate.dislike_weight for candidate in model.candidates_} == {0.4}
    assert len({candidate.silence_weight for candidate in model.candidates_}) > 1
    assert model.dislike_weight_ == 0.4


def test_a_threshold_from_training_scores_has_no_held_out_metric() -> None:
    train, _ = split(40, 20)
    given = {"silence_weight": 0.2, "dislike_weight": 0.5, "confidence": 0.0, "threshold": "train"}
    model = Recommender(positive=4, unobserved="negative", random_state=0, **given).fit(train)
    assert len(model.candidates_) > 1
    assert model.held_out_metric_ is None


def test_the_closed_form_fits_what_all_pairs_written_out_fit() -> None:
    (users, items, stars), _ = split(40, 20)
    options = FIXED | {"intercept_penalty": 0.0, "tol": 1e-7}
    del options["unobserved"]
    short = Recommender(
        positive=4, unobserved="negative", silence_weight=0.2, dislike_weight=0.5, **options
    ).fit((users, items, stars))
    n, n_items = len(short.user_ids_), len(short.item_ids_)
    Y, weights = np.zeros((n, n_items)), np.full((n, n_items), 0.2)
    places = short._index("user").find_all(users), short._index("item").find_all(items)
    Y[places], weights[places] = stars >= 4, np.where(stars >= 4, 1.0, 0.5)
    observed = weights[places].sum()
    labels = ObservedLabels.from_dense(Y).with_weights(weights.ravel())
    # The closed form is the mean over the ratings alone, so that the penalty does not depend on silence.
    options["trace_penalty"] *= observed / weights.sum()
    long = Recommender(loss="squared", user_intercept=False, count_weighting=0.0, **options).fit(labels)
    scores = short.user_factors_ @ short.item_factors_.T + short.item_intercept_
    other = long.user_factors_ @ long.item_factors_.T + long.item_intercept_
    np.testing.assert_allclose(scores, other, atol=2e-3)


def test_a_user_who_is_folded_in_gets_what_the_fit_gives() -> None:
    train, _ = split(40, 20)
    model = Recommender(positive=4, **(FIXED | {"tol": 1e-7})).fit(train)
    user = "u3"
    theirs = [at for at, one in enumerate(train[0]) if one == user]
    twin = (["twin"] * len(theirs), [train[1][at] for at in theirs], train[2][theirs])
    later = model.fold_in(twin)
    np.testing.assert_allclose(
        later.decision_function("twin", list(model.item_ids_)),
        model.decision_function(user, list(model.item_ids_)),
        atol=2e-3,
    )


def test_an_item_that_is_folded_in_gets_what_the_fit_gives() -> None:
    train, _ = split(40, 20)
    model = Recommender(positive=4, intercept_penalty=0.01, **(FIXED | {"tol": 1e-7})).fit(train)
    item = "i5"
    theirs = [at for at, one in enumerate(train[1]) if one == item]
    twin = ([train[0][at] for at in theirs], ["twin"] * len(theirs), train[2][theirs])
    later = model.fold_in(twin)
    column, known = (later.item_ids_.index(name) for name in ("twin", item))
    np.testing.assert_allclose(later.item_factors_[column], later.item_factors_[known], atol=1e-2)
    assert later.item_intercept_[column] == pytest.approx(later.item_intercept_[known], abs=1e-2)


def test_explanations_add_up_and_tell_dislikes_from_silence() -> None:
    train, _ = split(40, 20)
    model = Recommender(positive=4, dislike_weight=1.0, **(FIXED | {"tol": 1e-7})).fit(train)
    user = train[0][0]
    item = model.recommend(user, n=1).items[0]
    why = model.explain(user, item, n=40)
    assert abs(why.unexplained) < 1e-3
    given = {i: int(s >= 4) for u, i, s in zip(*train, strict=True) if u == user}
    assert {c.item: c.answer for c in why.contributions if c.answer is not None} == given


@pytest.mark.slow
def test_values_of_likes_count_by_confidence() -> None:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 12)) < 0.4)
    plays = rng.geometric(0.1, len(users))
    counts = sp.csr_array((plays, (users, items)), shape=(30, 12))
    options = FIXED | {"positive": 1}
    same, more, most = (Recommender(confidence=c, **options).fit(counts) for c in (0.0, 0.5, np.inf))
    # Each weighs 1, which is not kept for each.
    assert same.answers_.weights is None
    np.testing.assert_allclose(more.answers_.weights, (1 + 0.5 * plays) / (1 + 0.5 * plays.mean()))
    np.testing.assert_allclose(most.answers_.weights, plays / plays.mean())
    searched = Recommender(positive=1, unobserved="negative", random_state=0).fit(counts)
    assert len({c.confidence for c in searched.candidates_}) > 1
    assert searched.confidence_ == searched.candidates_[-1].confidence


def test_probabilities_take_the_weights_out_again() -> None:
    train, _ = split()
    model = Recommender(positive=4, silence_weight=0.1, **FIXED).fit(train)
    users = [user for user in model.user_ids_ for _ in model.item_ids_]
    items = list(model.item_ids_) * len(model.user_ids_)
    share = np.mean(train[2] >= 4) * len(train[2]) / len(users)
    assert model.predict_proba(users, items).mean() == pytest.approx(share, rel=0.5)
    plain = model.loss_.inverse_link(model.decision_function(users, items))
    assert abs(plain.mean() - share) > abs(model.predict_proba(users, items).mean() - share)


def test_it_is_saved_with_its_weights(tmp_path: Any) -> None:
    train, _ = split(40, 20)
    model = Recommender(positive=4, **FIXED).fit(train)
    model.save(tmp_path / "model.labelgap")
    again = load(tmp_path / "model.labelgap")
    assert again.silence_weight_ == model.silence_weight_
    user = model.user_ids_[0]
    assert again.recommend(user).items.tolist() == model.recommend(user).items.tolist()
    assert again.score(train) == model.score(train)
    later = again.fold_in((["new"], [model.item_ids_[0]], [5]))
    assert len(later.recommend("new").items)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"silence_weight": 0.1}, "only under unobserved='negative'"),
        ({"confidence": 1.0, "unobserved": "unlabelled"}, "only under unobserved='negative'"),
        ({"unobserved": "negative", "silence_weight": 0.0}, "silence_weight must be above 0"),
        ({"unobserved": "negative", "silence_weight": 2.0}, "silence_weight must be a number from 0 to 1"),
        ({"unobserved": "negative", "confidence": -1.0}, "confidence must be a number of at least 0"),
        ({"unobserved": "negative", "loss": "logistic", "confidence": 1.0}, "needs the squared loss"),
        ({"unobserved": "negative", "score_bound": 2.0}, "score_bound cannot be combined"),
        ({"unobserved": "negative", "weights": "inverse-propensity"}, "propensities"),
        ({"user_intercept": "maybe"}, "user_intercept must be"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(options: dict[str, Any], message: str) -> None:
    users, items, stars = tasteful()
    liked = stars >= 4
    likes = (
        [u for u, w in zip(users, liked, strict=True) if w],
        [i for i, w in zip(items, liked, strict=True) if w],
    )
    with pytest.raises(InvalidParameterError, match=message):
        Recommender(**options).fit(likes)


def test_no_like_at_all_is_refused() -> None:
    users, items, stars = tasteful()
    with pytest.raises(InvalidLabelsError, match="None of the ratings is a like"):
        Recommender(unobserved="negative", positive=9).fit((users, items, stars))


def test_given_penalties_are_judged_by_all_held_out_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    train, _ = split()
    # Several folds hold out enough likes to rank, and fewer hold out enough ratings for a threshold.
    monkeypatch.setattr(silence, "_ENOUGH_LIKES", 300)
    monkeypatch.setattr(choice, "_FOR_THRESHOLD", (10, 1))
    model = Recommender(positive=4, **{**FIXED, "threshold": "cross-fit"}).fit(train)
    assert 0 < model.candidates_[-1].metric_value < 1


def chosen_settings(model: Any) -> tuple[Any, ...]:
    names = (
        "count_weighting_",
        "silence_weight_",
        "dislike_weight_",
        "confidence_",
        "flip_rate_",
        "threshold_",
    )
    used = [getattr(model, name, None) for name in names]
    defaults = (model.default_tol, model.default_rank_limit, model.candidates_metric)
    return (*used, model.rank_, model.trace_penalty_, model.intercept_penalty_, *defaults)


@pytest.mark.parametrize(
    ("meaning", "parameters"),
    [("negative", {}), ("negative", {"loss": "logistic", "trace_penalty": 0.01}), ("unlabelled", {})],
)
def test_ratings_that_say_what_silence_means_are_read_as_if_the_parameter_did(
    meaning: str, parameters: dict[str, Any]
) -> None:
    users, items, _ = tasteful(30, 15)
    likes = read_ratings((users, items))
    fixed = {"random_state": 0, **({"flip_rate": 0.3} if meaning == "unlabelled" else {}), **parameters}
    told = Recommender(unobserved=meaning, **fixed).fit(likes)
    own = Recommender(**fixed).fit(ObservedLabels.from_any(likes, meaning))
    assert chosen_settings(own) == chosen_settings(told)
    np.testing.assert_array_equal(own.user_factors_, told.user_factors_)
    np.testing.assert_array_equal(own.user_intercept_, told.user_intercept_)
    assert own.score(likes) == told.score(likes) == told.score(ObservedLabels.from_any(likes, meaning))
    # Later ratings, which say nothing themselves, mean what those of the fit meant.
    more = (["new", "new", "u1"], ["i1", "i2", "i3"])
    own, told = own.partial_fit(more), told.partial_fit(more)
    assert chosen_settings(own) == chosen_settings(told)
    np.testing.assert_array_equal(own.user_factors_, told.user_factors_)


def test_ratings_that_contradict_the_parameter_or_the_fit_are_refused() -> None:
    users, items, _ = tasteful(30, 15)
    likes = ObservedLabels.from_any(read_ratings((users, items)), "unlabelled")
    with pytest.raises(InvalidParameterError, match=r"unobserved is 'negative'.* unobserved='unlabelled'"):
        Recommender(unobserved="negative").fit(likes)
    model = Recommender(**FIXED).fit((users, items))
    with pytest.raises(InvalidParameterError, match=r"unobserved is 'negative'.* unobserved='unlabelled'"):
        model.partial_fit(likes)
    said_nothing = Recommender(trace_penalty=0.01, flip_rate=0.3).fit(likes)
    no = ObservedLabels.from_any(read_ratings((users, items)), "negative")
    with pytest.raises(
        InvalidLabelsError, match=r"fitted with unobserved='unlabelled'.* unobserved='negative'"
    ):
        said_nothing.partial_fit(no)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_folded_in_likes_that_say_what_silence_means_are_no_dislikes(loss: str) -> None:
    users, items, _ = tasteful(30, 15)
    model = Recommender(**FIXED, loss=loss).fit((users, items))
    more = read_ratings((["new", "new", "u1"], ["i1", "i2", "i3"]))
    found, plain = model.fold_in(ObservedLabels.from_any(more, "negative")), model.fold_in(more)
    assert found.answers_ == plain.answers_
    np.testing.assert_array_equal(found.user_factors_, plain.user_factors_)


@pytest.mark.parametrize("fitted_to", ["missing", "negative"])
@pytest.mark.parametrize("meaning", ["negative", "unlabelled"])
def test_fold_in_refuses_the_meanings_that_partial_fit_refuses(fitted_to: str, meaning: str) -> None:
    users, items, stars = tasteful(30, 15)
    model = Recommender(**(FIXED | {"unobserved": fitted_to}), positive=3).fit((users, items, stars))
    more = ObservedLabels.from_any(read_ratings((["new", "new"], ["i1", "i2"])), meaning)
    learned = (model.fold_in, model.partial_fit)
    if meaning == fitted_to:
        assert all("new" in learn(more).user_ids_ for learn in learned)
        return
    for learn in learned:
        with pytest.raises((InvalidLabelsError, InvalidParameterError), match=f"unobserved='{meaning}'"):
            learn(more)


@pytest.mark.parametrize(("first", "then"), [("missing", "negative"), ("negative", "missing")])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_second_fit_does_not_keep_the_meaning_of_the_first(loss: str, first: str, then: str) -> None:
    users, items, stars = tasteful(30, 15)
    days = np.random.default_rng(2).integers(0, 30, len(users))
    ratings = (users, items, stars, days)
    more = (["new", "new", "u1"], ["i1", "i2", "i3"], [5, 2, 4], [31, 31, 32])
    given = {"loss": loss, "half_life": 10, "positive": 3, "random_state": 0}
    given |= {"trace_penalty": 0.01, "threshold": "train"}
    model = Recommender(unobserved=first, **given).fit(ratings).set_params(unobserved=then).fit(ratings)
    fresh = Recommender(unobserved=then, **given).fit(ratings)
    assert model.__getstate__().keys() == fresh.__getstate__().keys()
    model.partial_fit(more)
    fresh.partial_fit(more)
    assert model.answers_ == fresh.answers_
    np.testing.assert_array_equal(model.user_factors_, fresh.user_factors_)
