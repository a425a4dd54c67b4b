"""Lists of items: filters, diversity, new items, frames and files."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from small_models import with_factors

from labelgap import Recommender
from labelgap.exceptions import (
    InvalidInputError,
    InvalidParameterError,
    LabelgapError,
    UninformativeLabelsWarning,
    UnknownIdError,
)


def plain(items: Any) -> list[Any]:
    """The items of a row of a batch, without the places that are empty."""
    return [item for item in items if item is not None]


def test_equal_scores_come_in_the_order_of_the_items() -> None:
    model = with_factors(digits=0)
    model.user_factors_ = np.zeros_like(model.user_factors_)
    model.item_intercept_ = np.array([1.0, 2.0] * 7)
    for items in (
        model.recommend("u3", n=9, exclude_seen=False).items,
        model.recommend_batch(n=9, exclude_seen=False).items[-1],
    ):
        assert items.tolist() == [1, 3, 5, 7, 9, 11, 13, 0, 2]


def test_filters_are_a_smaller_catalogue() -> None:
    model, some = with_factors(), [3, 1, 8, 9, 2]
    for user in model.user_ids_:
        everything = model.recommend(user, n=99).items.tolist()
        for diversity in (0.0, 0.4):
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


def test_items_are_left_out_for_single_users() -> None:
    model = with_factors()
    left_out = {"u1": [3, 5, 0], "u4": 7, "u0": []}
    pairs = (["u1", "u1", "u4", "u1"], [3, 5, 7, 0])
    frame = {"user": pairs[0], "item": pairs[1]}
    arrays = tuple(np.array(part, dtype=object) for part in pairs)
    forms = (left_out, pairs, arrays, pandas.DataFrame(frame), polars.DataFrame(frame))
    for seen, diversity in ((True, 0.0), (False, 0.0), (False, 0.3)):
        more: dict[str, Any] = {"exclude_seen": seen, "diversity": diversity, "n": 99}
        alone = {
            user: model.recommend(user, exclude=left_out.get(user, []), **more).items.tolist()
            for user in model.user_ids_
        }
        assert not set(alone["u1"]) & {0, 3, 5}
        assert 7 not in alone["u4"]
        for exclude in forms:
            batch = model.recommend_batch(exclude=exclude, **more)
            assert list(map(plain, batch.items)) == list(alone.values())
            some = model.recommend_batch(["u4", "u1", "u4"], exclude=exclude, **more).items
            assert plain(some[2]) == alone["u4"]
            assert model.recommend("u1", exclude=exclude, **more).items.tolist() == alone["u1"]
    nobody = model.recommend("eve", exclude={"eve": [1]}, unknown="average", n=99)
    assert sorted(nobody.items) == [0, *range(2, 14)]


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


def test_wishes_that_cannot_be_granted() -> None:
    model = with_factors()
    fraction = "must be a number from 0 to 1"
    for wish, error, message in [
        ({"only": [99]}, UnknownIdError, "99"),
        ({"exclude": {"eve": [1]}}, UnknownIdError, "user 'eve'"),
        ({"exclude": (["eve"], [1])}, UnknownIdError, "user 'eve'"),
        ({"exclude": {"u0": [99]}}, UnknownIdError, "item 99"),
        ({"exclude": (["u0", "u1"], [1])}, LabelgapError, "2 users and 1 items"),
        ({"exclude": pandas.DataFrame({"user": ["u0"]})}, LabelgapError, "no column 'item'"),
        ({"unavailable": {99: "2999-01-01"}}, UnknownIdError, "item 99"),
        ({"unavailable": {3: "soon"}}, LabelgapError, "item 3 is unavailable must be a date.*got 'soon'"),
        ({"unavailable": {3: 20240531}}, LabelgapError, "must be a date"),
        ({"unavailable": {3: "2024-05-31"}, "at": "never"}, LabelgapError, "at must be a date"),
        ({"unavailable": [3], "at": "2024-05-31"}, InvalidParameterError, "at says when"),
        *(({"diversity": d}, InvalidParameterError, f"diversity {fraction}") for d in (-0.1, 1.5, "x", True)),
        *(({"explore": e}, InvalidParameterError, f"explore {fraction}") for e in (-0.1, 1.5, "x", True)),
        ({"explore": 0.1}, InvalidParameterError, "fitted without item_features"),
        *(({"n": n}, InvalidParameterError, "whole number, 1 or more") for n in (0, -1, 2.5, True, "3")),
    ]:
        for call in (model.recommend, lambda _, **wish: model.recommend_batch(**wish)):
            with pytest.raises(error, match=message):
                call("u0", **wish)
    for n in (0, True):
        with pytest.raises(InvalidParameterError, match="n must be a whole number, 1 or more"):
            model.similar_users("u0", n=n)
    with pytest.raises(InvalidInputError, match="a frame with the columns 'user' and 'item'; got list alone"):
        model.predict(["u0"])
    with pytest.raises(InvalidInputError, match="no column 'item'; it has 'user', 'film'"):
        model.predict(polars.DataFrame({"user": ["a"], "film": ["b"]}))


# -- diversity ---------------------------------------------------------------------------------------------


def by_hand(model: Any, user: str, n: int, diversity: float) -> list[Any]:
    """Maximal marginal relevance, straight from its definition."""
    ranked = model.recommend(user, n=max(5 * n, 50))
    scores = dict(zip(ranked.items.tolist(), ranked.scores.tolist(), strict=True))
    low, high = min(scores.values()), max(scores.values())
    directions = model.item_factors_ / np.linalg.norm(model.item_factors_, axis=1, keepdims=True)
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


def test_diverse_lists_are_of_maximal_marginal_relevance() -> None:
    model = with_factors(n_items=80, rated=0.1, seed=5)
    for n, diversity in ((6, 0.2), (6, 0.7), (6, 1.0), (90, 0.5)):
        together = model.recommend_batch(n=n, diversity=diversity)
        for row, user in enumerate(model.user_ids_):
            expected = by_hand(model, user, n, diversity)
            found = model.recommend(user, n=n, diversity=diversity)
            assert found.items.tolist() == plain(together.items[row]) == expected, (n, diversity)
            np.testing.assert_array_equal(found.scores, model.decision_function(user, expected))
    directions = model.item_factors_ / np.linalg.norm(model.item_factors_, axis=1, keepdims=True)

    def alike(diversity: float) -> float:
        items = model.recommend_batch(n=8, diversity=diversity).items.astype(int)
        return float(np.mean([directions[row] @ directions[row].T for row in items]))

    assert alike(0.6) < alike(0.3) < alike(0.0)


# -- results -----------------------------------------------------------------------------------------------


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
    assert str(one).count("probability") == 3
    batch = model.recommend_batch(["u2", "u1"], n=20)
    assert "Recommendations(" in str(batch)
    frame = batch.to_pandas()
    assert frame["user"].value_counts(sort=False).index.tolist() == ["u2", "u1"]
    assert len(frame) == int(np.sum(~np.isnan(batch.scores)))
    near = model.similar_items(0, n=2)
    ids, similarities = near
    assert near.to_pandas()["similarity"].tolist() == similarities.tolist()
    assert near.to_polars()["title"].to_list() == [model.item_titles_.get(name, "") for name in ids]
    assert "similarity" in near._repr_html_()
    assert model.set_item_titles(None).recommend("u0").titles is None


def test_a_file_is_written_in_blocks(tmp_path: Path) -> None:
    # Ten thousand users are one block.
    for name, n_users in (("a.parquet", 11), ("b.csv", 11), ("c.tsv", 11), ("d.csv.gz", 10_003)):
        model = with_factors(n=n_users, rated=0.5)
        model.set_item_titles({item: f'T "{item}", x' for item in range(14)})
        n = 4 if n_users < 100 else 1
        model.recommend_to_file(tmp_path / name, n=n, diversity=0.2)
        expected = model.recommend_batch(n=n, diversity=0.2).to_pandas()
        if name.endswith("parquet"):
            found = pandas.read_parquet(tmp_path / name)
        else:
            found = pandas.read_csv(tmp_path / name, sep="\t" if "tsv" in name else ",")
        assert found.columns.tolist() == expected.columns.tolist()
        np.testing.assert_allclose(found["score"], expected["score"])
        for column in ("user", "item", "rank", "title"):
            assert found[column].tolist() == expected[column].tolist(), (name, column)


def test_users_without_items_and_ids_of_several_types(tmp_path: Path) -> None:
    model = with_factors(n=4, n_items=3, rated=1.0)
    path = tmp_path / "best.parquet"
    model.recommend_to_file(path)
    assert len(pandas.read_parquet(path)) == 0
    model.item_ids_, model.answers_ = ("a", 1, ("b", 2)), model.answers_.select(model.answers_.rows > 1)
    found = model.recommend("u0")
    assert found.to_polars()["item"].to_list() == found.items.tolist()
    model.recommend_to_file(path, ["u3", "u0", "zoe"], unknown="average")
    frame = pandas.read_parquet(path)
    assert frame["user"].tolist() == ["u0"] * 3 + ["zoe"] * 3
    assert set(frame["item"]) == {"a", "1", "('b', 2)"}
    with pytest.raises(LabelgapError, match="no folder"):
        model.recommend_to_file(tmp_path / "nowhere" / "best.csv")


# -- items without ratings ---------------------------------------------------------------------------------


def with_new_items(n_new: int = 6) -> Recommender:
    """Items 0 to 13 with ratings, and new ones, "new0" and so on, that are known by features."""
    rng = np.random.default_rng(0)
    taste, tags = rng.standard_normal((20, 2)), rng.standard_normal((14 + n_new, 2))
    users, items = np.nonzero((rng.uniform(size=(20, 14)) < 0.4) | (np.arange(14) == 5))
    likes = (taste @ tags[:14].T)[users, items] > 0
    names = [*range(14), *(f"new{j}" for j in range(n_new))]
    model = Recommender(unobserved="negative", trace_penalty=1.5, threshold="train")
    features = dict(zip(names, tags, strict=True))
    with pytest.warns(UninformativeLabelsWarning):
        return model.fit((users, items.tolist(), likes), item_features=features)


def test_new_items_have_their_places() -> None:
    model, rated, new = with_new_items(), list(range(14)), [f"new{j}" for j in range(6)]
    own = 0
    for n, explore in [(10, 0.1), (10, 0.3), (7, 0.5), (4, 1.0), (5, 0.1), (5, 0.2)]:
        for diversity in (0.0, 0.3):
            wish: dict[str, Any] = {"explore": explore, "diversity": diversity}
            batch = model.recommend_batch(n=n, **wish)
            for row, user in enumerate(model.user_ids_):
                found = model.recommend(user, n, **wish)
                assert batch.items[row].tolist() == found.items.tolist()
                assert batch.exploratory[row].tolist() == found.exploratory.tolist()
                known = model.recommend(user, 20, only=rated).items.tolist()
                m = int(explore * n + 0.5)
                usual = model.recommend(user, n, diversity=diversity).items.tolist()
                if sum(item in new for item in usual) >= m:
                    # It has as many by itself.
                    assert found.items.tolist() == usual
                    assert found.exploratory.tolist() == [item in new for item in usual]
                    continue
                own += 1
                m = max(m, n - len(known))
                places = [math.ceil((k - 0.5) * n / m) - 1 for k in range(1, m + 1)]
                assert np.flatnonzero(found.exploratory).tolist() == places
                if not diversity:
                    best_new = model.recommend(user, m, only=new).items.tolist()
                    assert found.items[found.exploratory].tolist() == best_new
                    assert found.items[~found.exploratory].tolist() == known[: n - m]
                scores = model.decision_function(user, found.items.tolist())
                np.testing.assert_array_equal(found.scores, scores)
    assert own > 0
    assert model.recommend(0, explore=0.0).exploratory is None


def test_where_one_kind_of_items_runs_out_the_other_has_its_places() -> None:
    model = with_new_items(2)
    few = model.recommend(0, 6, explore=0.5)
    assert (int(few.exploratory.sum()), len(few)) == (2, 6)
    everything = model.recommend(0, 99, explore=0.1)
    assert sorted(everything.items, key=str) == sorted(model.recommend(0, 99).items, key=str)
    only = model.recommend(0, 3, only=["new0", 1, 2, 3], exclude_seen=False, explore=1.0)
    assert sum(str(one).startswith("new") for one in only.items) == 1
    none = model.recommend(0, 3, only=[1, 2, 3], exclude_seen=False, explore=1.0)
    assert not none.exploratory.any()
    assert len(none) == 3
    assert model.recommend_batch(n=2, only=[], explore=0.5).items.tolist() == [[None, None]] * 20
    # What is folded in by its features is new too, and a rating makes an item one of the others.
    more = model.fold_in(item_features={"new2": [0.5, -0.5]})
    assert set(more.recommend_batch(n=20, explore=1.0).items.ravel()) >= {"new0", "new1", "new2"}
    shown = model.fold_in(([0], ["new0"], [1])).recommend_batch(n=20, explore=1.0)
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
