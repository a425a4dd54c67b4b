"""Held-out likes ranked among all items, beside popularity, against brute force."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from small_models import rated_by, scores_of, with_factors

from labelgap import ObservedLabels
from labelgap.exceptions import InvalidLabelsError, LabelgapWarning, UnknownIdError, UnknownNameError
from recommender_suite import figures_by_hand

HELD = (["u0", "u0", "u3", "u5", "u5", "u7"], [1, 5, 2, 7, 9, 3], [1, 1, 1, 0, 1, 1])


def judged(model: Any, held: Any = HELD, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        return model.evaluate_ranking(held, **more)


def test_figures_are_those_of_sorted_scores_with_ties_and_in_many_blocks() -> None:
    rng = np.random.default_rng(0)
    for size, digits, ns in ((9, 0, (1, 3, 20)), (10_150, 1, (2,))):
        model = with_factors(n=size, digits=digits, seed=3)
        rated, popular = rated_by(model), model.answers_.positive_counts()
        held = rng.uniform(size=rated.shape) < 0.1
        likes = held & ~rated
        users = np.flatnonzero(likes.any(axis=1))
        lines = [f"u{user}" for user in np.nonzero(held)[0]], np.nonzero(held)[1]
        scores = {
            "model": model.user_factors_ @ model.item_factors_.T + model.item_intercept_,
            "popularity": np.tile(popular, (size, 1)),
        }
        if size < 100:
            scores["model"] = scores_of(model)  # With ties to the last digit.
        for n in ns:
            found = judged(model, lines, n=n)
            for name, all_scores in scores.items():
                orders = [
                    [j for j in np.argsort(-all_scores[user], kind="stable").tolist() if not rated[user, j]]
                    for user in users
                ]
                liked = [set(np.flatnonzero(likes[user]).tolist()) for user in users]
                expected = figures_by_hand(orders, liked, n, 14)
                assert getattr(found, name)._asdict() == pytest.approx(expected), (name, n)
            assert (found.n_users, found.n_likes) == (len(users), likes.sum())
            assert found.n_rated == (held & rated).sum()


def test_unknown_ids_are_counted_and_do_not_end_it() -> None:
    model = with_factors(rated=0.1)
    users, items, values = HELD
    more = ([*users, "zoe", "u1", "yan"], [*items, 4, "no such film", "another"], [*values, 1, 1, 1])
    found = judged(model, more)
    assert (found.n_unknown_users, found.n_unknown_items) == (1, 2)
    assert found.n_users == judged(model).n_users + 1
    alone = judged(model, (["zoe"], [4], [1]), n=1)
    mean = scores_of(model).mean(axis=0)
    rank = 1 + int(np.sum(mean > mean[4]))
    assert alone.model.map == float(rank == 1)
    assert alone.model.auc == pytest.approx(1 - (rank - 1) / 13)
    told = str(found)
    assert "1 of these users are not known" in told
    assert "2 more likes are left out: their items are not known." in told
    with pytest.raises(UnknownIdError, match="'zoe'"):
        model.evaluate_ranking(more, unknown="raise")
    with pytest.raises(UnknownNameError, match="unknown"):
        model.evaluate_ranking(more, unknown="skip")


def test_a_warning_when_popularity_wins() -> None:
    model = with_factors()
    model.user_factors_[:], model.item_intercept_ = 0.0, -np.arange(14.0)
    model.answers_ = ObservedLabels.from_triplets([0, 1], [13, 13], [1, 1], shape=model.answers_.shape)
    with pytest.warns(LabelgapWarning, match=r"Popularity ranks better.*NDCG@10 1\.0000 against 0\.0000"):
        found = model.evaluate_ranking((["u2"], [13], [1]))
    assert found.popularity_wins
    model.item_intercept_ = np.arange(14.0)
    assert not model.evaluate_ranking((["u2"], [13], [1])).popularity_wins


def test_tables_for_people() -> None:
    found = judged(with_factors(), n=4)
    text, page = str(found), found._repr_html_()
    for name, own, other in found.rows():
        assert f"{own:.4f}" in text
        assert f"{other:.4f}" in text
        assert f"<th>{name}</th><td>{own:.4f}</td><td>{other:.4f}</td>" in page
    assert found.to_dict()["model"]["ndcg"] == found.model.ndcg
    assert found.to_dict()["n"] == 4


def test_nothing_to_rank_is_an_error() -> None:
    for rated, held, words in [
        (0.4, (["u0"], [1], [0]), "None of the held-out ratings are likes, so"),
        (0.4, (["u0"], ["no such film"], [1]), "likes of items that the recommender knows"),
        (1.0, HELD, "rated all of these items in training"),
    ]:
        with pytest.raises(InvalidLabelsError, match=words):
            with_factors(rated=rated).evaluate_ranking(held)
