"""Lists of items: what was answered stays out, filters, diversity, unknown users, frames and files."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from small_models import scores_of, with_factors

import labelgap
from labelgap import Recommender
from labelgap.exceptions import (
    InvalidParameterError,
    LabelgapError,
    UninformativeLabelsWarning,
    UnknownIdError,
)
from labelgap.recommending import best_items

RATINGS = (["a", "a", "b", "b", "c", "c"], ["X", "Y", "X", "Z", "Y", "Z"], [1, 0, 1, 1, 1, 0])


@pytest.mark.parametrize("unobserved", ["missing", "negative"])
def test_what_was_answered_is_never_shown(unobserved: str) -> None:
    model = Recommender(unobserved=unobserved, trace_penalty=0.02, threshold="train").fit(RATINGS)
    assert model.recommend("a").items.tolist() == ["Z"]
    assert model.recommend_batch().items[:, 0].tolist() == ["Z", "Y", "X"]
    later = model.fold_in((["d", "d"], ["X", "Z"], [0, 1]))
    assert later.recommend("d").items.tolist() == ["Y"]
    assert later.recommend("a").items.tolist() == ["Z"]


def test_what_was_given_is_saved(tmp_path: Path) -> None:
    model = Recommender(unobserved="negative", trace_penalty=0.02, threshold="train").fit(RATINGS)
    model.save(tmp_path / "m.labelgap")
    again = labelgap.load(tmp_path / "m.labelgap")
    assert again.recommend("a").items.tolist() == ["Z"]
    assert again.answers_ == model.answers_


@pytest.mark.parametrize("diversity", [0.0, 0.4])
def test_filters_are_a_smaller_catalogue(diversity: float) -> None:
    model = with_factors()
    for user in model.user_ids_:
        everything = model.recommend(user, n=99).items.tolist()
        some = [3, 1, 8, 9, 2]
        only = model.recommend(user, n=99, only=some, diversity=diversity).items.tolist()
        without = model.recommend(user, n=99, exclude=some, diversity=diversity).items.tolist()
        assert sorted(only) == sorted(item for item in everything if item in some)
        assert sorted(without) == sorted(item for item in everything if item not in some)
        if not diversity:
            assert only == [item for item in everything if item in some]
        both = model.recommend(user, n=99, only=some, exclude=[8], exclude_seen=False).items.tolist()
        assert sorted(both) == [1, 2, 3, 9]
    assert len(model.recommend("u0", only=[])) == 0
    assert model.recommend_batch(n=2, only=[]).items.tolist() == [[None, None]] * 9
    with pytest.raises(UnknownIdError, match="99"):
        model.recommend("u0", only=[99])


def by_hand(model: Any, user: str, n: int, diversity: float) -> list[Any]:
    """Maximal marginal relevance, straight from its definition."""
    ranked = model.recommend(user, n=max(5 * n, 50))
    scores = dict(zip(ranked.items.tolist(), ranked.scores.tolist(), strict=True))
    low, high = min(scores.values()), max(scores.values())
    lengths = np.linalg.norm(model.item_factors_, axis=1, keepdims=True)
    directions = model.item_factors_ / lengths
    chosen: list[Any] = []
    while len(chosen) < n and len(chosen) < len(scores):

        def value(item: Any) -> float:
            relevance = (scores[item] - low) / (high - low)
            if not chosen:
                return float(relevance)
            nearest = max(directions[item] @ directions[other] for other in chosen)
            return float((1 - diversity) * relevance - diversity * nearest)

        chosen.append(max((item for item in scores if item not in chosen), key=value))
    return chosen


@pytest.mark.parametrize("diversity", [0.2, 0.7, 1.0])
def test_diverse_lists_are_of_maximal_marginal_relevance(diversity: float) -> None:
    model = with_factors(n_items=80, rated=0.1, seed=5)
    together = model.recommend_batch(n=6, diversity=diversity)
    for row, user in enumerate(model.user_ids_):
        expected = by_hand(model, user, 6, diversity)
        found = model.recommend(user, n=6, diversity=diversity)
        assert found.items.tolist() == together.items[row].tolist() == expected
        np.testing.assert_array_equal(found.scores, model.decision_function(user, expected))


def test_diverse_lists_are_less_alike() -> None:
    model = with_factors(n_items=80, rated=0.1, seed=6)
    directions = model.item_factors_ / np.linalg.norm(model.item_factors_, axis=1, keepdims=True)

    def alike(diversity: float) -> float:
        items = model.recommend_batch(n=8, diversity=diversity).items.astype(int)
        return float(np.mean([directions[row] @ directions[row].T for row in items]))

    assert alike(0.6) < alike(0.3) < alike(0.0)


@pytest.mark.parametrize("value", [-0.1, 1.5, "much", True])
def test_diversity_is_a_fraction(value: Any) -> None:
    with pytest.raises(InvalidParameterError, match="diversity must be a number from 0 to 1"):
        with_factors().recommend("u0", diversity=value)


@pytest.mark.parametrize("unobserved", ["missing", "unlabelled"])
def test_unknown_users_and_items_are_average(unobserved: str) -> None:
    model = with_factors(unobserved=unobserved)
    scores = scores_of(model)
    users, items = ["u1", "zoe", "u2", "zoe"], [0, 3, "new", "new"]
    found = model.decision_function(users, items, unknown="average")
    expected = [scores[1, 0], scores[:, 3].mean(), scores[2].mean(), scores.mean()]
    np.testing.assert_allclose(found, expected)
    assert model.predict_proba("zoe", 3, unknown="average") == model.loss_.inverse_link(found[1])
    decided = model.predict(users, items, unknown="average")
    assert decided[1:].tolist() == (found[1:] >= 0).astype(int).tolist()
    order = np.argsort(-scores.mean(axis=0), kind="stable").tolist()
    assert model.recommend("zoe", n=4, unknown="average").items.tolist() == order[:4]
    batch = model.recommend_batch(["u4", "zoe"], n=3, unknown="average")
    assert batch.items[0].tolist() == model.recommend("u4", n=3).items.tolist()
    assert batch.items[1].tolist() == order[:3]
    assert batch.users == ("u4", "zoe")
    yes = [item for item in order if scores[:, item].mean() >= 0]
    assert model.decide(["zoe", "u0"], unknown="average")["zoe"] == yes
    matrix = model.decide_matrix(["zoe"], unknown="average")
    assert sorted(matrix.indices.tolist()) == sorted(yes)
    for call in (model.predict, model.decision_function):
        with pytest.raises(UnknownIdError, match="'zoe'"):
            call("zoe", 3)


@pytest.mark.parametrize("unobserved", ["missing", "negative"])
def test_a_score_over_unknown_ids(unobserved: str) -> None:
    model = with_factors()
    answers = (["u0", "zoe", "u1"], [2, 3, "new"], [1, 1, 0])
    with pytest.raises(UnknownIdError):
        model.score(answers, unobserved)
    found = model.score(answers, unobserved, unknown="average")
    if unobserved == "missing":
        decided = model.predict(*answers[:2], unknown="average")
        truth = np.array(answers[2])
    else:
        rows = [model.predict(user, list(range(14)), unknown="average") for user in ("u0", "zoe", "u1")]
        decided, truth = np.concatenate(rows), np.zeros(42)
        truth[[2, 14 + 3]] = 1
    assert found == pytest.approx(2 * (decided * truth).sum() / (decided.sum() + truth.sum()))


def test_frames_and_tables() -> None:
    model = with_factors().set_item_titles({item: f"Film <{item}>" for item in range(13)})
    one = model.recommend("u0", n=3)
    frame = one.to_pandas()
    assert frame.columns.tolist() == ["rank", "item", "title", "score", "probability", "decision"]
    assert frame["item"].tolist() == one.items.tolist()
    assert frame["title"].tolist() == [model.item_titles_.get(item, "") for item in one.items]
    assert one.to_polars().to_pandas().equals(frame)
    assert "Film &lt;" in one._repr_html_()
    assert "<th>item</th>" not in one._repr_html_()
    assert f"{one.items[0]}  Film <{one.items[0]}>" in str(one)
    batch = model.recommend_batch(["u2", "u1"], n=20)
    frame = batch.to_pandas()
    assert frame["user"].value_counts(sort=False).index.tolist() == ["u2", "u1"]
    assert len(frame) == int(np.sum(~np.isnan(batch.scores)))
    near = model.similar_items(0, n=2)
    ids, similarities = near
    assert near.to_pandas()["similarity"].tolist() == similarities.tolist()
    assert near.to_polars()["title"].to_list() == [model.item_titles_.get(name, "") for name in ids]
    assert "similarity" in near._repr_html_()
    assert isinstance(frame, pandas.DataFrame)
    assert isinstance(near.to_polars(), polars.DataFrame)
    assert model.set_item_titles(None).recommend("u0").titles is None


def test_ids_of_several_types_in_a_polars_frame() -> None:
    model = with_factors(n_items=4, rated=0.0)
    model.item_ids_ = ("a", 1, ("b", 2), "c")
    found = model.recommend("u0")
    assert found.to_polars()["item"].to_list() == found.items.tolist()


@pytest.mark.parametrize("name", ["best.parquet", "best.csv", "best.tsv", "best.csv.gz"])
def test_a_file_is_written_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    model = with_factors(n=11, rated=0.5).set_item_titles({item: f'T "{item}", x' for item in range(14)})
    model.recommend_to_file(tmp_path / name, n=4, diversity=0.2)
    monkeypatch.setattr(best_items, "BLOCK_USERS", 3)
    model.recommend_to_file(tmp_path / f"blocks {name}", n=4, diversity=0.2)
    expected = model.recommend_batch(n=4, diversity=0.2).to_pandas()
    for path in (tmp_path / name, tmp_path / f"blocks {name}"):
        found = (
            pandas.read_parquet(path)
            if name.endswith("parquet")
            else pandas.read_csv(path, sep="\t" if "tsv" in name else ",")
        )
        assert found.columns.tolist() == expected.columns.tolist()
        assert found["title"].tolist() == expected["title"].tolist()
        np.testing.assert_allclose(found["score"], expected["score"])
        assert found["user"].tolist() == expected["user"].tolist()
        assert found["item"].tolist() == expected["item"].tolist()


def test_users_without_items_and_ids_of_several_types_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_factors(n=4, n_items=3, rated=1.0)
    path = tmp_path / "best.parquet"
    model.recommend_to_file(path)
    assert len(pandas.read_parquet(path)) == 0
    monkeypatch.setattr(best_items, "BLOCK_USERS", 1)
    model.item_ids_, model.answers_ = ("a", 1, ("b", 2)), model.answers_.select(model.answers_.rows > 1)
    model.recommend_to_file(path, ["u3", "u0", "zoe"], unknown="average")
    found = pandas.read_parquet(path)
    assert found["user"].tolist() == ["u0"] * 3 + ["zoe"] * 3
    assert set(found["item"]) == {"a", "1", "('b', 2)"}
    with pytest.raises(LabelgapError, match="no folder"):
        model.recommend_to_file(tmp_path / "nowhere" / "best.csv")


# -- items that single users do not get, and items that cannot be shown ------------------------------------


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("diversity", [0.0, 0.3])
def test_items_are_left_out_for_single_users(exclude_seen: bool, diversity: float) -> None:
    model = with_factors()
    left_out = {"u1": [3, 5, 0], "u4": 7, "u0": []}
    pairs = (["u1", "u1", "u4", "u1"], [3, 5, 7, 0])
    more: dict[str, Any] = {"exclude_seen": exclude_seen, "diversity": diversity, "n": 99}
    alone = {
        user: model.recommend(user, exclude=left_out.get(user, []), **more).items.tolist()
        for user in model.user_ids_
    }
    assert not set(alone["u1"]) & {0, 3, 5}
    assert 7 not in alone["u4"]
    frame = {"user": pairs[0], "item": pairs[1]}
    arrays = tuple(np.array(part, dtype=object) for part in pairs)
    for exclude in (left_out, pairs, arrays, pandas.DataFrame(frame), polars.DataFrame(frame)):
        batch = model.recommend_batch(exclude=exclude, **more)
        assert [[one for one in row if one is not None] for row in batch.items] == list(alone.values())
        some = model.recommend_batch(["u4", "u1", "u4"], exclude=exclude, **more).items
        assert [one for one in some[2] if one is not None] == alone["u4"]
        assert model.recommend("u1", exclude=exclude, **more).items.tolist() == alone["u1"]
        blocks = list(model.recommendation_blocks(exclude=exclude, **more))
        assert [one for block in blocks for one in block["item"]] == [
            one for items in alone.values() for one in items
        ]


def test_what_can_be_wrong_with_items_of_single_users() -> None:
    model = with_factors()
    for exclude in ({"eve": [1]}, (["eve"], [1])):
        with pytest.raises(UnknownIdError, match="user 'eve'"):
            model.recommend("u0", exclude=exclude)
    nobody = model.recommend("eve", exclude={"eve": [1]}, unknown="average", n=99)
    assert sorted(nobody.items) == [0, *range(2, 14)]
    with pytest.raises(UnknownIdError, match="item 99"):
        model.recommend_batch(exclude={"u0": [99]})
    with pytest.raises(LabelgapError, match="2 users and 1 items"):
        model.recommend_batch(exclude=(["u0", "u1"], [1]))
    with pytest.raises(LabelgapError, match="no column 'item'"):
        model.recommend_batch(exclude=pandas.DataFrame({"user": ["u0"]}))


def test_items_are_unavailable_until_a_date() -> None:
    model = with_factors()
    best = model.recommend("u0", n=3).items.tolist()
    for unavailable in (best[:1], {best[0]: None}, {best[0]: "2999-01-01"}, {best[0]: date(2999, 1, 1)}):
        assert model.recommend("u0", n=2, unavailable=unavailable).items.tolist() == best[1:]
        assert model.recommend_batch(["u0"], n=2, unavailable=unavailable).items.tolist() == [best[1:]]
    assert model.recommend("u0", n=3, unavailable={best[0]: "2024-05-31"}).items.tolist() == best
    until = {best[0]: "2024-05-31T12:00:00", best[1]: datetime(2024, 6, 1, tzinfo=UTC)}
    shown = {"2024-05-31": best[2:], "2024-05-31T14:00:00+02:00": [best[0], best[2]], "2024-06-01": best}
    for at, expected in shown.items():
        found = model.recommend("u0", n=3, unavailable=until, at=at).items.tolist()
        assert [one for one in found if one in best] == expected
    with pytest.raises(UnknownIdError, match="item 99"):
        model.recommend("u0", unavailable={99: "2999-01-01"})
    for until, problem in (
        ("soon", f"until which the item {best[0]} is unavailable must be a date.*got 'soon'"),
        (20240531, "must be a date"),
    ):
        with pytest.raises(LabelgapError, match=problem):
            model.recommend("u0", unavailable={best[0]: until})
    with pytest.raises(LabelgapError, match="at must be a date"):
        model.recommend("u0", unavailable={best[0]: "2024-05-31"}, at="never")
    with pytest.raises(InvalidParameterError, match="at says when"):
        model.recommend("u0", unavailable=best[:1], at="2024-05-31")


# -- items without ratings ---------------------------------------------------------------------------------


def with_new_items(n_new: int = 6) -> Recommender:
    """Items 0 to 13 with ratings, and new ones, "new0" and so on, that are known by features."""
    rng = np.random.default_rng(0)
    taste, tags = rng.standard_normal((20, 2)), rng.standard_normal((14 + n_new, 2))
    users, items = np.nonzero((rng.uniform(size=(20, 14)) < 0.4) | (np.arange(14) == 5))
    likes = (taste @ tags[:14].T)[users, items] > 0
    names = [*range(14), *(f"new{j}" for j in range(n_new))]
    model = Recommender(unobserved="negative", trace_penalty=0.003, threshold="train")
    features = dict(zip(names, tags, strict=True))
    with pytest.warns(UninformativeLabelsWarning):
        return model.fit((users, items.tolist(), likes), item_features=features)


@pytest.mark.parametrize("diversity", [0.0, 0.3])
@pytest.mark.parametrize(("n", "explore"), [(10, 0.1), (10, 0.3), (7, 0.5), (4, 1.0), (5, 0.1), (5, 0.2)])
def test_new_items_have_their_places(n: int, explore: float, diversity: float) -> None:
    model = with_new_items()
    rated, new = list(range(14)), [f"new{j}" for j in range(6)]
    batch, own = model.recommend_batch(n=n, explore=explore, diversity=diversity), 0
    for row, user in enumerate(model.user_ids_):
        found = model.recommend(user, n, explore=explore, diversity=diversity)
        known = model.recommend(user, 20, only=rated).items.tolist()
        m = int(explore * n + 0.5)
        plain = model.recommend(user, n, diversity=diversity).items.tolist()
        if sum(item in new for item in plain) >= m:
            # It has as many by itself.
            assert found.items.tolist() == plain
            assert found.exploratory.tolist() == [item in new for item in plain]
            continue
        own += 1
        m = max(m, n - len(known))
        places = [math.ceil((k - 0.5) * n / m) - 1 for k in range(1, m + 1)]
        assert np.flatnonzero(found.exploratory).tolist() == places
        best_new = model.recommend(user, m or 1, only=new, diversity=diversity).items.tolist()
        if not diversity:
            assert [
                one for one, is_new in zip(found.items, found.exploratory, strict=True) if is_new
            ] == best_new[:m]
            rest = [one for one, is_new in zip(found.items, found.exploratory, strict=True) if not is_new]
            assert rest == known[: n - m]
        scores = model.decision_function(user, found.items.tolist())
        np.testing.assert_array_equal(found.scores, scores)
        assert batch.items[row].tolist() == found.items.tolist()
        assert batch.exploratory is not None
        assert batch.exploratory[row].tolist() == found.exploratory.tolist()
    assert model.recommend(0, explore=0.0).exploratory is None
    assert own > 0 or explore == 0.1


def test_where_one_kind_of_items_runs_out_the_other_has_its_places() -> None:
    model = with_new_items(2)
    few = model.recommend(0, 6, explore=0.5)
    assert few.exploratory is not None
    assert int(few.exploratory.sum()) == 2
    assert len(few) == 6
    everything = model.recommend(0, 99, explore=0.1)
    assert sorted(everything.items, key=str) == sorted(model.recommend(0, 99).items, key=str)
    only = model.recommend(0, 3, only=["new0", 1, 2, 3], exclude_seen=False, explore=1.0)
    assert sum(str(one).startswith("new") for one in only.items) == 1
    none = model.recommend(0, 3, only=[1, 2, 3], exclude_seen=False, explore=1.0)
    assert none.exploratory is not None
    assert not none.exploratory.any()
    assert len(none) == 3
    assert model.recommend_batch(n=2, only=[], explore=0.5).items.tolist() == [[None, None]] * 20
    # What is folded in by its features is new too.
    more = model.fold_in(item_features={"new2": [0.5, -0.5]})
    assert set(more.recommend_batch(n=20, explore=1.0).items.ravel()) >= {"new0", "new1", "new2"}
    # A rating makes an item one of the others.
    later = model.fold_in(([0], ["new0"], [1]))
    shown = later.recommend_batch(n=20, explore=1.0)
    assert set(shown.items[shown.exploratory]) == {"new1"}


def test_results_say_what_explores(tmp_path: Path) -> None:
    model = with_new_items()
    found = model.recommend(0, 4, explore=0.5)
    assert found.to_pandas()["exploratory"].tolist() == [True, False, True, False]
    assert [line.endswith(", exploratory") for line in str(found).splitlines()] == [True, False, True, False]
    assert "exploratory" not in model.recommend(0, 4).to_pandas()
    model.recommend_to_file(tmp_path / "best.csv", n=4, explore=0.25)
    assert pandas.read_csv(tmp_path / "best.csv")["exploratory"].sum() == 20
    with pytest.raises(InvalidParameterError, match=r"explore=0\.01 is less than half of one of 10 places"):
        model.recommend(0, 10, explore=0.01)
    for explore in (-0.1, 1.5, True, "much"):
        with pytest.raises(InvalidParameterError, match="explore must be a number from 0 to 1"):
            model.recommend(0, explore=explore)  # type: ignore[arg-type]
    plain = Recommender(unobserved="negative", trace_penalty=0.02, threshold="train").fit(RATINGS)
    for made in (plain, with_factors()):
        with pytest.raises(InvalidParameterError, match="fitted without item_features"):
            made.recommend_batch(explore=0.1)
