"""Held-out likes ranked among all items, beside popularity, against brute force."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from small_models import rated_by, scores_of, with_factors

from labelgap import ObservedLabels, Recommender
from labelgap.exceptions import InvalidLabelsError, LabelgapWarning, UnknownIdError, UnknownNameError
from recommender_suite import example_answers, figures_by_hand
from refusals import assert_refused

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


# -- users that the fit did not see ------------------------------------------------------------------------

N_FITTED = 12
SETTINGS: dict[str, dict[str, Any]] = {
    "missing": {"trace_penalty": 0.02, "threshold": "train"},
    "negative": {"unobserved": "negative", "random_state": 0},
    # Each rating is several events, and a like from two on.
    "events": {
        "trace_penalty": 0.02,
        "threshold": "train",
        "aggregate": "sum",
        "half_life": 1e4,
        "positive": 1.5,
    },
}


def events_of(lines: list[tuple[Any, Any, int]]) -> list[tuple[Any, ...]]:
    """Lines with times; a like is two events and a dislike one."""
    return [(user, item, 1.0, at) for user, item, like in lines for at in range(1 + like)]


def parted(name: str) -> tuple[Any, list[tuple[Any, Any, int]], Any]:
    """A fit to the ratings of some users, those of the others, and what makes ratings of such lines."""
    lines = list(zip(*example_answers(20, 250, awkward=False), strict=True))
    # The user who has rated all items comes first, so that these are read in their order.
    lines.sort(key=lambda line: (-line[0], line[1]))
    fitted = [line for line in lines if line[0] < N_FITTED]
    others = [(f"new {user}", *rest) for user, *rest in lines if user >= N_FITTED]

    def as_ratings(some: list[tuple[Any, Any, int]]) -> Any:
        return tuple(map(list, zip(*(events_of(some) if name == "events" else some), strict=True)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        return Recommender(**SETTINGS[name]).fit(as_ratings(fitted)), others, as_ratings


def by_hand(model: Any, lines: list[tuple[Any, Any, int]], as_ratings: Any, seed: int) -> dict[str, Any]:
    """The figures of the protocol, user by user; lines come by user and item, all items are known."""
    draw = np.random.RandomState(seed).permutation(len(lines))
    judged: dict[Any, list[Any]] = {}
    folded, rated = [], {}
    for user in dict.fromkeys(line[0] for line in lines):
        for kind in (0, 1):
            mine = sorted(
                (draw[at], line) for at, line in enumerate(lines) if (line[0], line[2]) == (user, kind)
            )
            n_held = max(len(mine) // 5, kind)
            if kind:
                judged[user] = [item for _, (_, item, _) in mine[:n_held]]
            folded += [line for _, line in mine[n_held:]]
        rated[user] = {item for one, item, _ in folded if one == user}
    grown = model.fold_in(as_ratings(folded))
    ids = list(model.item_ids_)
    popular = [sum(model.answers_.values[model.answers_.cols == j] == 1) for j in range(len(ids))]
    found: dict[str, list[dict[str, float]]] = {"model": [], "popularity": []}
    for user, likes in judged.items():
        own = grown.item_factors_ @ grown.user_factors_[grown.user_ids_.index(user)] + grown.item_intercept_
        for name, scores in (("model", own), ("popularity", popular)):
            order = [ids[j] for j in np.argsort(-np.asarray(scores, dtype=float), kind="stable")]
            order = [item for item in order if item not in rated[user]]
            hits = {n: sum(item in likes for item in order[:n]) for n in (20, 50)}
            figures = {f"capped_recall_{n}": hits[n] / min(n, len(likes)) for n in hits}
            found[name].append(figures | {"ndcg_100": figures_by_hand([order], [set(likes)], 100, 1)["ndcg"]})
    means = {
        name: {figure: np.mean([one[figure] for one in every]) for figure in every[0]}
        for name, every in found.items()
    }
    return means | {"n_users": len(judged), "n_likes": sum(map(len, judged.values()))}


@pytest.mark.parametrize("name", SETTINGS)
def test_unseen_users_are_folded_in_and_judged_by_the_other_likes(name: str) -> None:
    model, lines, as_ratings = parted(name)
    expected = by_hand(model, lines, as_ratings, seed=3)
    more = [("one like", 0, 1), ("one like", 1, 0), ("dislikes", 2, 0), ("one known like", 3, 1)]
    unknown = [
        ("one known like", "no such film", 1),
        (lines[-1][0], "another", 1),
        (lines[-1][0], "third", 0),
    ]
    found = judged(model, as_ratings([*lines, *more, *unknown]), unseen_users=True, random_state=3)
    for who in ("model", "popularity"):
        assert getattr(found, who)._asdict() == pytest.approx(expected[who]), who
    assert (found.n_users, found.n_likes) == (expected["n_users"], expected["n_likes"])
    assert (found.n_few_likes, found.n_unknown_items) == (3, 2)
    # The cap of the recall is reached.
    assert max(sum(line[2] for line in lines if line[0] == user) for user, *_ in lines) >= 5 * 21
    assert judged(model, as_ratings(lines), unseen_users=True, random_state=3).to_dict() == (
        found.to_dict() | {"n_few_likes": 0, "n_unknown_items": 0}
    )
    assert judged(model, as_ratings(lines), unseen_users=True, random_state=4).model != found.model
    assert json.loads(json.dumps(found.to_dict()))["model"] == found.model._asdict()
    assert [row[0] for row in found.rows()] == ["capped recall@20", "capped recall@50", "NDCG@100"]
    for note in ("The fit did not see these users", "3 more users are left out", "2 more likes are left out"):
        assert note in str(found)
        assert note in found._repr_html_()
    if name == "missing":
        # Names of known users without ratings are no ratings of known users.
        users = [*model.user_ids_, *dict.fromkeys(line[0] for line in lines)]
        items = list(dict.fromkeys(line[1] for line in lines))
        labels = ObservedLabels.from_triplets(
            [users.index(user) for user, _, _ in lines],
            [items.index(item) for _, item, _ in lines],
            [like for *_, like in lines],
            row_names=users,
            label_names=items,
        )
        again = judged(model, labels, unseen_users=True, random_state=3)
        assert again.model == judged(model, as_ratings(lines), unseen_users=True, random_state=3).model


def test_popularity_can_win_with_unseen_users() -> None:
    model = Recommender(trace_penalty=0.02, threshold="train").fit((list("abc"), [0, 1, 2], [1, 1, 0]))
    model.item_factors_[:], model.item_intercept_ = 0.0, np.array([-1.0, -1.0, 1.0])
    held = list("ddee"), [0, 1] * 2, [1] * 4
    with pytest.warns(
        LabelgapWarning, match=r"Popularity ranks better than the recommender: NDCG@100 1\.0000"
    ):
        assert model.evaluate_ranking(held, unseen_users=True).popularity_wins


def test_what_unseen_users_cannot_be() -> None:
    model, two = with_factors(), (["new", "new"], [1, 2], [1, 1])
    unseen: dict[str, Any] = {"unseen_users": True}
    complete = ObservedLabels.from_dense([[1, 0, 1]], row_names=["new"], label_names=[1, 2, 3])
    for held, more, words in [
        ((["u4", "new", "u0"], [1, 1, 2], [1, 1, 0]), unseen, "knows 2 of these 3: 'u4', 'u0'. Leave their"),
        ((["new", "b", "b"], [1, 1, 2], [1, 1, 0]), unseen, "None of the held-out users has two likes of"),
        ((["new"] * 2, [1, "no such film"], [1, 1]), unseen, "None of the held-out users has two likes of"),
        ((["new"] * 3, [1, 2, "no film"], [1] * 3), unseen | {"unknown": "raise"}, "'no film'"),
        (ObservedLabels.from_any(complete, "negative"), unseen, "come with unobserved='negative'"),
        (two, unseen | {"n": 5}, "n has no use with unseen_users=True"),
        (two, {"random_state": 0}, "random_state has no use without unseen_users=True"),
        (two, {"n": 0}, "n must be a whole number"),
    ]:
        assert_refused(lambda held=held, more=more: model.evaluate_ranking(held, **more), words, case=words)
