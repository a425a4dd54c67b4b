"""Held-out likes ranked among all items, beside popularity, against brute force."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from small_models import scores_of, with_factors

from labelgap import ObservedLabels
from labelgap.exceptions import InvalidLabelsError, LabelgapWarning, UnknownIdError, UnknownNameError
from labelgap.metrics import ranking_figures
from labelgap.recommending import evaluation

HELD = (["u0", "u0", "u3", "u5", "u5", "u7"], [1, 5, 2, 7, 9, 3], [1, 1, 1, 0, 1, 1])


def judged(model: Any, held: Any = HELD, **more: Any) -> evaluation.RankingEvaluation:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        result: evaluation.RankingEvaluation = model.evaluate_ranking(held, **more)
    return result


def brute_force(
    scores: np.ndarray, rated: np.ndarray, likes: dict[int, list[int]], n: int
) -> tuple[Any, float]:
    """The figures without coverage, and the coverage."""
    ranks: list[int] = []
    indptr, sizes, shown = [0], [], set()
    for user, liked in likes.items():
        left = [j for j in range(scores.shape[1]) if not rated[user, j]]
        order = sorted(left, key=lambda j: (-scores[user, j], j))
        kept = [j for j in liked if j in left]
        if not kept:
            continue
        ranks += [order.index(j) + 1 for j in kept]
        indptr.append(len(ranks))
        sizes.append(len(left))
        shown |= set(order[:n])
    return ranking_figures(ranks, indptr, sizes, n), len(shown) / scores.shape[1]


@pytest.mark.parametrize("unobserved", ["missing", "unlabelled", "negative"])
@pytest.mark.parametrize("digits", [0, None])
@pytest.mark.parametrize("n", [1, 3, 20])
def test_figures_are_those_of_sorted_scores(unobserved: str, digits: int | None, n: int) -> None:
    model = with_factors(unobserved=unobserved, digits=digits, seed=3)
    given = model._rated()
    rated = ~np.isnan(given.to_dense())
    likes = {0: [1, 5], 3: [2], 5: [9], 7: [3]}
    found = judged(model, n=n)
    popular = np.tile(given.positive_counts(), (len(rated), 1))
    for scores, figures in ((scores_of(model), found.model), (popular, found.popularity)):
        expected, coverage = brute_force(scores, rated, likes, n)
        assert figures._replace(coverage=0.0) == pytest.approx(expected._replace(coverage=0.0))
        assert figures.coverage == coverage
    already = sum(rated[user, j] for user, liked in likes.items() for j in liked)
    assert found.n_rated == already
    assert found.n_likes == 5 - already
    assert found.n_users == sum(not all(rated[user, liked]) for user, liked in likes.items())


def test_coverage_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = with_factors(seed=4)
    whole = judged(model, n=2)
    monkeypatch.setattr(evaluation, "_BLOCK_USERS", 1)
    assert judged(model, n=2) == whole


def test_unknown_ids_are_counted_and_do_not_end_it() -> None:
    model = with_factors(rated=0.1)
    users, items, values = HELD
    more = ([*users, "zoe", "u1", "yan"], [*items, 4, "no such film", "another"], [*values, 1, 1, 1])
    found = judged(model, more)
    assert found.n_unknown_users == 1
    assert found.n_unknown_items == 2
    assert found.n_users == judged(model).n_users + 1
    alone = judged(model, (["zoe"], [4], [1]), n=1)
    rank = 1 + int(np.sum(scores_of(model).mean(axis=0) > scores_of(model).mean(axis=0)[4]))
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
    model = with_factors(rated=0.0)
    model.user_factors_[:], model.item_intercept_ = 0.0, -np.arange(14.0)
    likes = ObservedLabels.from_triplets([0, 1], [13, 13], [1, 1], shape=model.answers_.shape)
    model.answers_ = likes
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


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ((["u0"], [1], [0]), "None of the held-out ratings are likes, so"),
        ((["u0"], ["no such film"], [1]), "likes of items that the recommender knows"),
    ],
)
def test_nothing_to_rank_is_an_error(held: Any, words: str) -> None:
    with pytest.raises(InvalidLabelsError, match=words):
        with_factors().evaluate_ranking(held)


def test_the_ratings_of_the_fit_are_refused() -> None:
    model = with_factors(rated=1.0)
    with pytest.raises(InvalidLabelsError, match="rated all of these items in training"):
        model.evaluate_ranking(HELD)
