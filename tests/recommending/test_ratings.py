"""Answers in every form, against a dictionary filled line by line."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from labelgap import ObservedLabels, split_ratings
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError, UnknownNameError
from labelgap.recommending.ids import IdIndex, UnknownIdError, number_ids
from labelgap.recommending.rating_weights import weigh_ratings
from labelgap.recommending.ratings import read_ratings

NAN = float("nan")
USERS = ["ann", "bob", "ann", "eve", "bob"]
ITEMS = ["Ran", "Ran", "Alien", "Jaws", "Jaws"]
LIKES = [1, 0, 1, 1, 0]
FRAME = {"user": USERS, "item": ITEMS, "value": LIKES}
EXPECTED = {(u, i): v for u, i, v in zip(USERS, ITEMS, LIKES, strict=True)}


def table(labels: Any) -> dict[Any, int]:
    """The labels as a dictionary from pairs of ids to ratings."""
    pairs = zip(labels.rows, labels.cols, labels.values, strict=True)
    return {(labels.row_names[i], labels.label_names[j]): int(value) for i, j, value in pairs}


def weights_of(labels: Any) -> dict[Any, float]:
    return dict(zip(table(labels), labels.weights.tolist(), strict=True))


# -- forms -------------------------------------------------------------------------------------------------


def test_every_form_of_lines() -> None:
    for name, ratings in {
        "lists": (USERS, ITEMS, LIKES),
        "arrays": [np.array(USERS), np.array(ITEMS, dtype=object), np.array(LIKES, dtype=bool)],
        "series": (pandas.Series(USERS), polars.Series(ITEMS), pandas.Series(LIKES, dtype="Int64")),
        "pandas": pandas.DataFrame(FRAME),
        "categories": pandas.DataFrame(FRAME).astype({"user": "category", "value": bool}),
        "polars": polars.DataFrame(FRAME),
        "pyarrow": pyarrow.table(FRAME),
        "iterators": (iter(USERS), (item for item in ITEMS), tuple(map(float, LIKES))),
    }.items():
        labels = read_ratings(ratings)
        assert table(labels) == EXPECTED, name
        assert labels.row_names == ("ann", "bob", "eve"), name
        assert labels.label_names == ("Ran", "Alien", "Jaws"), name
        assert labels.values.dtype == np.int8
        assert labels.weights is None


hashables = st.one_of(
    st.text(max_size=3), st.integers(-5, 10**18), st.tuples(st.integers(0, 2), st.text(max_size=1))
)


@given(st.lists(st.tuples(hashables, hashables, st.sampled_from([0, 1, NAN])), max_size=30))
def test_lines_against_a_dictionary(lines: list[Any]) -> None:
    seen: dict[Any, Any] = {}
    kept = [line for line in lines if seen.setdefault(line[:2], line[2]) is line[2]]
    users, items, values = ([line[part] for line in kept] for part in range(3))
    labels = read_ratings((users, items, values))
    assert table(labels) == {(u, i): v for u, i, v in kept if v == v}
    assert labels.row_names == tuple(dict.fromkeys(users))
    assert labels.label_names == tuple(dict.fromkeys(items))


def test_ids_are_not_confused_by_numpy() -> None:
    rng = np.random.RandomState(0)
    for dtype in (np.int64, np.int16, np.uint8, np.uint64, np.float64):
        for spread in (1, 3, 10**6):
            ids = (rng.permutation(50) * spread).astype(np.int64)
            if dtype is not np.float64 and ids.max() > np.iinfo(dtype).max:
                ids = ids % 100
            users = rng.choice(ids, 200).astype(dtype)
            numbers, found = number_ids(users, "user")
            assert found == tuple(dict.fromkeys(users.tolist())), (dtype, spread)
            assert [found[number] for number in numbers] == users.tolist(), (dtype, spread)
            assert {type(one) for one in found} == {float if dtype is np.float64 else int}
    numbers, found = number_ids([1, "1", (1, 2), (1,), b"1", np.int64(7), 7, True], "user")
    assert found == (1, "1", (1, 2), (1,), b"1", 7)
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5, 5, 0]
    assert type(found[5]) is int
    for given_, expected in [
        ([2**70, 3, 2**70], (2**70, 3)),
        (np.array([2**63, 1], dtype=np.uint64), (2**63, 1)),
        (np.array([-(2**62), 2**62]), (-(2**62), 2**62)),
    ]:
        assert number_ids(given_, "user")[1] == expected


def test_other_columns_likes_only_and_matrices() -> None:
    likes = dict.fromkeys(EXPECTED, 1)
    for frame in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        named = frame({"who": USERS, "what": ITEMS, "stars": [5, 2, 4, 5, 1], "when": range(5)})
        ids = {"user": "who", "item": "what"}
        assert table(read_ratings(named, **ids, value="stars", positive=4)) == EXPECTED
        assert table(read_ratings(named, **ids)) == likes
        assert table(read_ratings(named, **ids, value=None, positive=4)) == likes
        # A column "rating" will do, and a missing value is no rating.
        rated = frame({"user": ["a", "b", "a"], "item": ["x", "x", "y"], "rating": [5.0, 1.0, None]})
        assert table(read_ratings(rated, positive=4)) == {("a", "x"): 1, ("b", "x"): 0}
        weighed = weigh_ratings(read_ratings(rated, positive=4), rated, [1, 2, 3], user="user", item="item")
        assert weights_of(weighed) == {("a", "x"): 1.0, ("b", "x"): 2.0}
        with pytest.raises(InvalidLabelsError, match="no column 'who'; it has 'user', 'item', 'rating'"):
            read_ratings(rated, user="who", positive=4)
    assert table(read_ratings((USERS, ITEMS), positive=4)) == likes
    labels = read_ratings(sp.csr_array(([5, 0, 3], ([0, 0, 2], [1, 3, 0])), shape=(3, 4)), positive=4)
    assert table(labels) == {(0, 1): 1, (0, 3): 0, (2, 0): 0}
    assert labels.shape == (3, 4)
    read = read_ratings(ObservedLabels.from_dense([[1, NAN], [0, 1]], weights=[[1.0, 1.0], [2.0, 3.0]]))
    assert (read.row_names, read.label_names) == ((0, 1), (0, 1))
    np.testing.assert_array_equal(read.weights, [1.0, 2.0, 3.0])


def test_labels_keep_their_names_and_users_without_ratings_are_known() -> None:
    names: dict[str, Any] = {"row_names": ["a", "b"], "label_names": ["x", "y"]}
    stars = ObservedLabels.from_dense([[5, NAN], [2, 4]], binary=False, **names)
    labels = read_ratings(stars, positive=4)
    assert table(labels) == {("a", "x"): 1, ("b", "x"): 0, ("b", "y"): 1}
    assert read_ratings(labels, positive=4) == labels
    with pytest.raises(InvalidLabelsError, match="item 'x' by user 'a' is 5, which is neither 0 nor 1"):
        read_ratings(stars)
    with pytest.raises(InvalidLabelsError, match="Two rows of the labels are named 'a'"):
        read_ratings(labels.take_rows([0, 0]))
    labels = read_ratings((["ann", "bob", "ann"], ["Ran", "Jaws", "Ran"], [NAN, None, 1]))
    assert labels.row_names == ("ann", "bob")
    assert table(labels) == {("ann", "Ran"): 1}
    assert read_ratings(((), (), ())).shape == (0, 0)
    assert read_ratings((["ann"], ["Ran"], [NAN]), positive=lambda value: value > 3).n_observed == 0


# -- values ------------------------------------------------------------------------------------------------


def test_rules_of_what_a_like_is() -> None:
    def once_a_number(value: float) -> bool:
        return True if value > 3 else False  # noqa: SIM210

    def changes_its_values(values: Any) -> Any:
        values -= 3
        return values > 0

    stars = np.array([5.0, 1.0, 4.0, 4.5, 3.0])
    for positive in (
        4,
        3.5,
        np.float64(4),
        lambda v: v > 3,
        once_a_number,
        lambda v: math.ceil(v) > 3,
        changes_its_values,
    ):
        for values in (stars, stars.tolist()):
            assert table(read_ratings((USERS, ITEMS, values), positive=positive)) == EXPECTED
    assert stars[0] == 5
    for positive, message in [
        ("4", "positive must be None, a number .* or a function"),
        (True, "positive must be None"),
        (NAN, "positive must be None"),
        (lambda v: v - 3, "must return True or False for each value, as value >= 4 does; it returned -2.0"),
        (lambda v: "yes" if float(v) > 3 else "no", "it returned 'no'"),
        (lambda v: v.missing, "failed on the values, all at once and one by one: AttributeError"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            read_ratings((USERS, ITEMS, [1, 1, 4, 4.5, 3]), positive=positive)


def test_what_absence_means() -> None:
    ratings = (USERS, ITEMS, LIKES)
    unlabelled = read_ratings(ratings, unobserved="unlabelled")
    assert table(unlabelled) == {pair: like for pair, like in EXPECTED.items() if like}
    assert unlabelled.row_names == ("ann", "bob", "eve")
    assert unlabelled.unobserved == "unlabelled"
    assert read_ratings(unlabelled, unobserved="missing") == unlabelled
    complete = read_ratings(ratings, unobserved="negative")
    assert complete.is_complete
    assert complete.to_dense().sum() == sum(LIKES)
    with pytest.raises(UnknownNameError, match="Did you mean 'missing'"):
        read_ratings(ratings, unobserved="missin")


def test_a_pair_twice() -> None:
    users, items = ["a", "b", "a", "a"], ["x", "x", "x", "y"]
    found = table(read_ratings((users, items, [5, 1, 4, 2]), positive=4))
    assert found == {("a", "x"): 1, ("b", "x"): 0, ("a", "y"): 0}
    assert table(read_ratings((users, items, [1, 0, NAN, 0])))["a", "x"] == 1
    message = "two ratings of item 'x' by user 'a': 5 in line 1 and 2 in line 3. Keep one"
    with pytest.raises(InvalidLabelsError, match=message):
        read_ratings((["c", *users], ["x", *items], [NAN, 5, 1, 2, 4]), positive=4)
    with pytest.raises(InvalidLabelsError, match="two ratings of item 1 by user 0"):
        read_ratings(sp.coo_array(([1, 0], ([0, 0], [1, 1])), shape=(1, 2)))
    # Where the values of likes count, two likes must agree as well; two dislikes do, whatever their values.
    users, items = ["c", "a", "b", "a", "b"], ["x"] * 5
    kept = read_ratings((users, items, [NAN, 5, 1, 5, 2]), positive=4, keep_values=True)
    assert weights_of(kept) == {("a", "x"): 5.0, ("b", "x"): 1.0}
    for first, second in ((50, 4), (4, 50)):
        message = (
            f"two ratings of item 'x' by user 'a': {first} in line 1 and {second} in line 3. Both are likes"
        )
        with pytest.raises(InvalidLabelsError, match=message):
            read_ratings((users, items, [NAN, first, 1, second, 1]), positive=4, keep_values=True)


def test_what_cannot_be_read() -> None:
    graded = pandas.DataFrame({"user": ["a"], "item": ["x"], "grade": [2]})
    words = pandas.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "value": [1, "good"]})
    for ratings, message, settings in [
        ((["a", "b"], ["x", "y"], [1, 4]), "item 'y' by user 'b' is 4, .* positive=4 for 4 and more", {}),
        ((["a"], ["x"], [float("inf")]), "item 'x' by user 'a' is inf; use NaN", {}),
        ((["a"], ["x"], ["yes"]), "item 'x' by user 'a' is 'yes', which is no number", {}),
        ((["a"], ["x"], [[1, 2]]), r"is \[1, 2\], which is no number", {}),
        ((["a", "b"], ["x", "y"], [1]), "one length, but there are 2 users, 2 items, 1 values", {}),
        ((["a", "b"], ["x"]), "one length, but there are 2 users, 1 items", {}),
        (("a", ["x"], [1]), "users must be a sequence of ids, not the single value 'a'", {}),
        ((["a"], 3, [1]), "items must be a sequence of ids, not the single value 3", {}),
        ((["a"], ["x"], 1), "values must be a sequence of ratings", {}),
        ((["a", None], ["x", "y"], [1, 0]), "no user id in line 1", {}),
        ((["a", "b"], np.array([0.0, NAN]), [1, 0]), "no item id in line 1", {}),
        ((["a", ["b"]], ["x", "y"], [1, 0]), r"user id in line 1 is \['b'\], which is not hashable", {}),
        ((np.ones((2, 2)), ["x", "y"], [1, 0]), "array has 2 dimensions", {}),
        ((["a"], ["x"], np.ones((1, 1))), "values must be a 1-d sequence", {}),
        ([("a", "x", 1)] * 5, r"got 5 sequences. Lines .* transposed by zip", {}),
        (np.ones((2, 3)), "got ndarray. A dense matrix with NaN is read by ObservedLabels.from_dense", {}),
        (polars.LazyFrame(FRAME), r"got a LazyFrame. Use frame.collect\(\)", {}),
        (pandas.DataFrame({"u": [1], "item": [2]}), "no column 'user'; it has .* Recommender.user=...", {}),
        (polars.from_pandas(words.astype({"value": str})), "is '1', which is no number|'good'", {}),
        (words, "rating of item 'y' by user 'b' is 'good', which is no number. Give likes as 1", {}),
        # A missing column of values is not taken for likes.
        (graded, r"no column 'value'; .* value=None if every line is a like", {"positive": 4}),
        (graded, "no column 'stars'", {"value": "stars"}),
    ]:
        with pytest.raises(InvalidLabelsError, match=message):
            read_ratings(ratings, **settings)


# -- finding ids -------------------------------------------------------------------------------------------


def test_one_id_or_several() -> None:
    index = IdIndex(("a", ("a", 1), 7), "user")
    for given_, expected in [
        ("a", ([0], True)),
        (("a", 1), ([1], True)),
        (("a", 7), ([0, 2], False)),
        ([("a", 1), "a"], ([1, 0], False)),
        (np.int64(7), ([2], True)),
        (np.array(7), ([2], True)),
        (np.array([7, 7]), ([2, 2], False)),
        (pandas.Series(["a"]), ([0], False)),
        ([], ([], False)),
    ]:
        found, single = index.find(given_)
        assert (found.tolist(), single) == expected
        assert found.dtype == np.int64


def test_unknown_ids_are_key_errors_that_say_what_to_do() -> None:
    index = IdIndex(("a", "b"), "user")
    for given_ in (["a", "zed"], "zed", ("a", "zed"), np.array(["a", "zed"])):
        with pytest.raises(UnknownIdError, match=r"'zed'.* not among the 2 users .* fold_in") as caught:
            index.find(given_)
        assert isinstance(caught.value, KeyError)
        assert isinstance(caught.value, InvalidInputError)
        assert ("(position 1)" in str(caught.value)) == (not isinstance(given_, str))
    # The right id in the wrong type is named.
    with pytest.raises(UnknownIdError, match="There is 7 of type int"):
        IdIndex((7, 8), "item").find("7")
    with pytest.raises(UnknownIdError, match="There is '-7' of type str"):
        IdIndex(("-7",), "item").find([-7])
    with pytest.raises(InvalidInputError, match="One item id is expected"):
        IdIndex(("a",), "item").find_one(["a"])


# -- events ------------------------------------------------------------------------------------------------

DAYS = ["2024-05-01", "2024-05-03", "2024-05-03", "2024-05-05", "2024-05-09"]


def event_log(n: int = 60) -> pandas.DataFrame:
    """Plays: a few users and items, many events of each pair, some without a value."""
    rng = np.random.default_rng(0)
    columns = {
        "user": rng.choice(["ann", "bob", "eve"], size=n),
        "item": rng.choice(["Ran", "Jaws", "Alien"], size=n),
        "value": rng.integers(0, 6, size=n).astype(float),
        "timestamp": rng.integers(0, 10, size=n),
    }
    columns["value"][rng.choice(n, size=5, replace=False)] = NAN
    return pandas.DataFrame(columns)


def test_events_become_ratings_as_in_a_group_by() -> None:
    log = event_log()
    known = log.dropna(subset="value")
    for aggregate in ("sum", "mean", "max", "last"):
        for half_life in (None, 3.0):
            expected, weights = {}, {}
            for pair, group in known.groupby(["user", "item"]):
                ages = known["timestamp"].max() - group["timestamp"]
                each = 0.5 ** (ages / (half_life or math.inf))
                total = (group["value"] * each).sum()
                last = group.sort_values("timestamp", kind="stable")["value"].iloc[-1]
                values = {"sum": total, "mean": total / each.sum(), "max": group["value"].max(), "last": last}
                expected[pair], weights[pair] = values[aggregate], each.max()
            for positive in (2.5, 4.0):
                settings: dict[str, Any] = {"aggregate": aggregate, "half_life": half_life}
                settings["positive"] = positive
                forms = log, polars.from_pandas(log), pyarrow.table(log), tuple(log[name] for name in log)
                for ratings in forms:
                    labels = read_ratings(ratings, **settings)
                    assert table(labels) == {pair: int(v >= positive) for pair, v in expected.items()}
                    if half_life is None or aggregate == "sum":
                        assert labels.weights is None
                    else:
                        assert weights_of(labels) == pytest.approx(weights)
                kept = weights_of(read_ratings(log, keep_values=True, **settings))
                liked = {pair: v if v >= positive else 1.0 for pair, v in expected.items()}
                assert kept == pytest.approx(liked), (aggregate, half_life)


def test_plays_without_values_are_counted() -> None:
    log = event_log().drop(columns="value")
    counts = log.groupby(["user", "item"]).size().to_dict()
    kept = read_ratings(log, aggregate="sum", keep_values=True)
    assert set(kept.values) == {1}
    assert weights_of(kept) == counts
    often = read_ratings(log, value=None, aggregate="sum", positive=8)
    assert table(often) == {pair: int(count >= 8) for pair, count in counts.items()}
    # Times stand where values may be missing.
    events = (log["user"], log["item"], None, log["timestamp"])
    assert table(read_ratings(events, value=None, aggregate="sum", positive=8)) == table(often)


def test_the_last_rating_goes_by_the_lines_where_there_are_no_times() -> None:
    twice = (["ann", "ann"], ["Ran", "Ran"], [1, 0])
    frame = pandas.DataFrame(dict(zip(("user", "item", "value"), twice, strict=True)))
    for ratings, settings, expected in [
        (twice, {}, 0),
        ((*twice, [5, 5]), {}, 0),
        ((*twice, [6, 5]), {}, 1),
        (frame, {}, 0),
        (frame.assign(day=[2, 1]), {"time": "day"}, 1),
    ]:
        assert table(read_ratings(ratings, aggregate="last", **settings)) == {("ann", "Ran"): expected}
    with pytest.raises(InvalidLabelsError, match=r"no column 'day'.*Recommender\(time=...\)"):
        read_ratings(frame, aggregate="last", time="day")


def test_dates_decay_in_days() -> None:
    ages = {(u, i): 9 - int(day[-2:]) for u, i, day in zip(USERS, ITEMS, DAYS, strict=True)}
    expected = {pair: 0.5 ** (age / 4.0) for pair, age in ages.items()}
    for name, times in {
        "texts": DAYS,
        "pandas": pandas.to_datetime(DAYS),
        "time zone": list(pandas.to_datetime(DAYS).tz_localize("Europe/Berlin")),
        "dates": [date.fromisoformat(day) for day in DAYS],
        "numpy": np.array(DAYS, dtype="datetime64[D]"),
        "moments": [day + "T00:00:00" for day in DAYS],
        "polars": polars.Series(DAYS).str.to_date(),
        "numbers": [int(day[-2:]) for day in DAYS],
    }.items():
        labels = read_ratings((USERS, ITEMS, LIKES, times), half_life=4.0)
        assert weights_of(labels) == pytest.approx(expected), name
        assert table(labels) == EXPECTED
        frame = pandas.DataFrame(FRAME | {"timestamp": pandas.Series(list(times))})
        assert read_ratings(frame, half_life=4.0) == labels, name
        # The same ratings are split by time.
        train, held = split_ratings(frame, "time", fraction=0.2)
        assert (len(train), held["item"].tolist()) == (4, ["Jaws"]), name
        held = split_ratings((USERS, ITEMS, LIKES, times), "time", fraction=0.2)[1]
        assert [list(part) for part in held[:3]] == [["bob"], ["Jaws"], [0]], name


def test_times_and_rules_that_cannot_be_used() -> None:
    for times, problem in [
        ([1, 2, 3, 4, math.inf], "line 4 is infinite"),
        ([1, NAN, 3, 4, 5], "line 1 has no time"),
        ([*DAYS[:4], None], "line 4 has no time"),
        (pandas.to_datetime([*DAYS[:3], None, None]), "line 3 has no time"),
        (["yesterday", *DAYS[1:]], "line 0 is 'yesterday', which is no number or date"),
        ([1, *DAYS[1:]], "Some of the times are dates and others are numbers"),
        ([1, 2], "one length.*5 values, 2 times"),
        ([True] * 5, "line 0 is True, which is no number or date"),
    ]:
        with pytest.raises(InvalidInputError, match=problem):
            read_ratings((USERS, ITEMS, LIKES, times), half_life=4.0)
    ratings = (USERS, ITEMS, LIKES)
    for settings, message in [
        ({"aggregate": "median"}, "aggregate"),
        *(({"half_life": h}, "half_life must be") for h in (0, -1, math.inf, NAN, "7 days", True)),
    ]:
        with pytest.raises((UnknownNameError, InvalidParameterError), match=message):
            read_ratings(ratings, **settings)
    twice = (["a", "a"], ["x", "x"])
    for form, settings, message in [
        *(
            (form, {"half_life": 2.0}, "half_life needs the times")
            for form in (ratings, sp.csr_array(np.eye(2)), ObservedLabels.from_dense(np.eye(2)))
        ),
        (pandas.DataFrame(FRAME), {"half_life": 2.0}, "no column 'timestamp'"),
        (
            (*twice, [1, 0], [1, 2]),
            {"half_life": 2.0},
            r"'x' by user 'a': 1 in line 0 and 0 in line 1.*aggregate",
        ),
        *(
            ((*twice, values), {"aggregate": "sum", "positive": 1}, "'x' by user 'a' is inf")
            for values in ([1, math.inf], [1e308, 1e308])
        ),
    ]:
        with pytest.raises(InvalidLabelsError, match=message):
            read_ratings(form, **settings)
