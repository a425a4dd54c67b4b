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

pytestmark = pytest.mark.pairwise

NAN = float("nan")
USERS = ["ann", "bob", "ann", "eve", "bob"]
ITEMS = ["Ran", "Ran", "Alien", "Jaws", "Jaws"]
LIKES = [1, 0, 1, 1, 0]
FRAME = {"user": USERS, "item": ITEMS, "value": LIKES}


def table(labels: ObservedLabels) -> dict[Any, int]:
    """The labels as a dictionary from pairs of ids to ratings."""
    assert labels.row_names is not None
    assert labels.label_names is not None
    pairs = zip(labels.rows, labels.cols, labels.values, strict=True)
    return {(labels.row_names[i], labels.label_names[j]): int(value) for i, j, value in pairs}


EXPECTED = {(u, i): v for u, i, v in zip(USERS, ITEMS, LIKES, strict=True)}

hashables = st.one_of(
    st.text(max_size=3), st.integers(-5, 10**18), st.tuples(st.integers(0, 2), st.text(max_size=1))
)


# -- forms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ratings",
    [
        (USERS, ITEMS, LIKES),
        [np.array(USERS), np.array(ITEMS, dtype=object), np.array(LIKES, dtype=bool)],
        (pandas.Series(USERS), polars.Series(ITEMS), pandas.Series(LIKES, dtype="Int64")),
        pandas.DataFrame(FRAME),
        pandas.DataFrame(FRAME).astype({"user": "category", "value": bool}),
        polars.DataFrame(FRAME),
        (iter(USERS), (item for item in ITEMS), tuple(map(float, LIKES))),
    ],
    ids=["lists", "arrays", "series", "pandas", "pandas categories", "polars", "iterators"],
)
def test_every_form_of_lines(ratings: Any) -> None:
    labels = read_ratings(ratings)
    assert table(labels) == EXPECTED
    assert labels.row_names == ("ann", "bob", "eve")
    assert labels.label_names == ("Ran", "Alien", "Jaws")
    assert labels.values.dtype == np.int8
    assert labels.weights is None


@given(st.lists(st.tuples(hashables, hashables, st.sampled_from([0, 1, NAN])), max_size=30))
def test_lines_against_a_dictionary(lines: list[Any]) -> None:
    seen: dict[Any, Any] = {}
    kept = [line for line in lines if seen.setdefault(line[:2], line[2]) is line[2]]
    users, items, values = ([line[part] for line in kept] for part in range(3))
    labels = read_ratings((users, items, values))
    assert table(labels) == {(u, i): v for u, i, v in kept if v == v}
    assert labels.row_names == tuple(dict.fromkeys(users))
    assert labels.label_names == tuple(dict.fromkeys(items))


@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.uint8, np.uint64, np.float64])
@pytest.mark.parametrize("spread", [1, 3, 10**6])
def test_numbers_as_ids(dtype: Any, spread: int) -> None:
    rng = np.random.RandomState(0)
    ids = (rng.permutation(50) * spread % np.iinfo(np.int64).max).astype(np.int64)
    if dtype is not np.float64 and ids.max() > np.iinfo(dtype).max:
        ids = ids % 100
    users = rng.choice(ids, 200).astype(dtype)
    numbers, found = number_ids(users, "user")
    assert found == tuple(dict.fromkeys(users.tolist()))
    assert [found[number] for number in numbers] == users.tolist()
    assert {type(one) for one in found} == {float if dtype is np.float64 else int}


def test_ids_are_not_confused_by_numpy() -> None:
    numbers, found = number_ids([1, "1", (1, 2), (1,), b"1", np.int64(7), 7, True], "user")
    assert found == (1, "1", (1, 2), (1,), b"1", 7)
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5, 5, 0]
    assert type(found[5]) is int
    huge, found = number_ids([2**70, 3, 2**70], "user")
    assert (huge.tolist(), found) == ([0, 1, 0], (2**70, 3))
    assert number_ids(np.array([2**63, 1], dtype=np.uint64), "user")[1] == (2**63, 1)
    assert number_ids(np.array([-(2**62), 2**62]), "user")[1] == (-(2**62), 2**62)


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_frames_with_other_columns_and_likes_only(frame: Any) -> None:
    named = frame({"who": USERS, "what": ITEMS, "stars": [5, 2, 4, 5, 1], "when": range(5)})
    labels = read_ratings(named, user="who", item="what", value="stars", positive=4)
    assert table(labels) == EXPECTED
    likes = dict.fromkeys(EXPECTED, 1)
    assert table(read_ratings(named, user="who", item="what")) == likes
    assert table(read_ratings(named, user="who", item="what", value=None, positive=4)) == likes
    assert table(read_ratings((USERS, ITEMS), positive=4)) == likes


def test_sparse_matrices_and_labels_have_numbers_as_ids() -> None:
    Y = sp.csr_array(([5, 0, 3], ([0, 0, 2], [1, 3, 0])), shape=(3, 4))
    labels = read_ratings(Y, positive=4)
    assert table(labels) == {(0, 1): 1, (0, 3): 0, (2, 0): 0}
    assert labels.shape == (3, 4)
    given_ = ObservedLabels.from_dense([[1, NAN], [0, 1]], weights=[[1.0, 1.0], [2.0, 3.0]])
    read = read_ratings(given_)
    assert (read.row_names, read.label_names) == ((0, 1), (0, 1))
    np.testing.assert_array_equal(read.weights, [1.0, 2.0, 3.0])


def test_labels_keep_their_names_and_binary_ones_need_no_rule() -> None:
    stars = ObservedLabels.from_dense(
        [[5, NAN], [2, 4]], binary=False, row_names=["a", "b"], label_names=["x", "y"]
    )
    labels = read_ratings(stars, positive=4)
    assert table(labels) == {("a", "x"): 1, ("b", "x"): 0, ("b", "y"): 1}
    assert read_ratings(labels, positive=4) == labels
    with pytest.raises(InvalidLabelsError, match="item 'x' by user 'a' is 5, which is neither 0 nor 1"):
        read_ratings(stars)
    with pytest.raises(InvalidLabelsError, match="Two rows of the labels are named 'a'"):
        read_ratings(labels.take_rows([0, 0]))


def test_a_user_without_a_rating_is_known() -> None:
    labels = read_ratings((["ann", "bob", "ann"], ["Ran", "Jaws", "Ran"], [NAN, None, 1]))
    assert labels.row_names == ("ann", "bob")
    assert table(labels) == {("ann", "Ran"): 1}
    assert read_ratings(((), (), ())).shape == (0, 0)
    assert read_ratings((["ann"], ["Ran"], [NAN]), positive=lambda value: value > 3).n_observed == 0


# -- values ------------------------------------------------------------------------------------------------


def once_a_number(value: float) -> bool:
    return True if value > 3 else False  # noqa: SIM210


@pytest.mark.parametrize(
    "positive",
    [4, 3.5, np.float64(4), lambda v: v > 3, once_a_number, lambda v: math.ceil(v) > 3],
    ids=["int", "float", "numpy", "vector", "number", "fails on vectors"],
)
def test_rules_of_what_a_like_is(positive: Any) -> None:
    stars = [5, 1, 4, 4.5, 3]
    assert table(read_ratings((USERS, ITEMS, stars), positive=positive)) == EXPECTED


def test_a_rule_cannot_change_the_values() -> None:
    def rule(values: Any) -> Any:
        values -= 3
        return values > 0

    stars = np.array([5.0, 1.0, 4.0, 4.5, 3.0])
    assert table(read_ratings((USERS, ITEMS, stars), positive=rule)) == EXPECTED
    assert stars[0] == 5


@pytest.mark.parametrize(
    ("positive", "message"),
    [
        ("4", "positive must be None, a number .* or a function"),
        (True, "positive must be None"),
        (NAN, "positive must be None"),
        (lambda v: v - 3, "must return True or False for each value, as value >= 4 does; it returned -2.0"),
        (lambda v: "yes" if float(v) > 3 else "no", "it returned 'no'"),
        (lambda v: v.missing, "failed on the values, all at once and one by one: AttributeError"),
    ],
)
def test_rules_that_are_none(positive: Any, message: str) -> None:
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
    assert table(read_ratings((users, items, [5, 1, 4, 2]), positive=4)) == {
        ("a", "x"): 1,
        ("b", "x"): 0,
        ("a", "y"): 0,
    }
    assert table(read_ratings((users, items, [1, 0, NAN, 0])))["a", "x"] == 1
    message = "two ratings of item 'x' by user 'a': 5 in line 1 and 2 in line 3. Keep one"
    with pytest.raises(InvalidLabelsError, match=message):
        read_ratings((["c", *users], ["x", *items], [NAN, 5, 1, 2, 4]), positive=4)
    with pytest.raises(InvalidLabelsError, match="two ratings of item 1 by user 0"):
        read_ratings(sp.coo_array(([1, 0], ([0, 0], [1, 1])), shape=(1, 2)))


def test_a_pair_twice_where_the_values_of_likes_count() -> None:
    users, items = ["c", "a", "b", "a", "b"], ["x"] * 5
    kept = read_ratings((users, items, [NAN, 5, 1, 5, 2]), positive=4, keep_values=True)
    assert kept.weights is not None
    assert kept.weights.tolist() == [5.0, 1.0]  # b's two dislikes agree, whatever their values
    for first, second in ((50, 4), (4, 50)):
        message = (
            f"two ratings of item 'x' by user 'a': {first} in line 1 and {second} in line 3. Both are likes"
        )
        with pytest.raises(InvalidLabelsError, match=message):
            read_ratings((users, items, [NAN, first, 1, second, 1]), positive=4, keep_values=True)


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ((["a", "b"], ["x", "y"], [1, 4]), "item 'y' by user 'b' is 4, .* positive=4 for 4 and more"),
        ((["a"], ["x"], [float("inf")]), "item 'x' by user 'a' is inf; use NaN"),
        ((["a"], ["x"], ["yes"]), "item 'x' by user 'a' is 'yes', which is no number"),
        ((["a"], ["x"], [[1, 2]]), r"is \[1, 2\], which is no number"),
        ((["a", "b"], ["x", "y"], [1]), "one length, but there are 2 users, 2 items, 1 values"),
        ((["a", "b"], ["x"]), "one length, but there are 2 users, 1 items"),
        (("a", ["x"], [1]), "users must be a sequence of ids, not the single value 'a'"),
        ((["a"], 3, [1]), "items must be a sequence of ids, not the single value 3"),
        ((["a"], ["x"], 1), "values must be a sequence of ratings"),
        ((["a", None], ["x", "y"], [1, 0]), "no user id in line 1"),
        ((["a", "b"], np.array([0.0, NAN]), [1, 0]), "no item id in line 1"),
        ((["a", ["b"]], ["x", "y"], [1, 0]), r"user id in line 1 is \['b'\], which is not hashable"),
        ((np.ones((2, 2)), ["x", "y"], [1, 0]), "array has 2 dimensions"),
        ((["a"], ["x"], np.ones((1, 1))), "values must be a 1-d sequence"),
        ([("a", "x", 1)] * 5, r"got 5 sequences. Lines .* transposed by zip"),
        (np.ones((2, 3)), "got ndarray. A dense matrix with NaN is read by ObservedLabels.from_dense"),
        (polars.LazyFrame(FRAME), r"got a LazyFrame. Use frame.collect\(\)"),
        (
            pandas.DataFrame({"u": [1], "item": [2]}),
            "no column 'user'; it has 'u', 'item'. .* Recommender.user=...",
        ),
        (polars.DataFrame({"user": ["a"], "item": ["x"], "value": ["yes"]}), "is 'yes', which is no number"),
        (
            pandas.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "value": [1, "good"]}),
            "rating of item 'y' by user 'b' is 'good', which is no number. Give likes as 1",
        ),
    ],
)
def test_what_cannot_be_read(ratings: Any, message: str) -> None:
    with pytest.raises(InvalidLabelsError, match=message):
        read_ratings(ratings)


def test_a_missing_column_of_values_is_not_taken_for_likes() -> None:
    frame = pandas.DataFrame({"user": ["a"], "item": ["x"], "grade": [2]})
    with pytest.raises(InvalidLabelsError, match=r"no column 'value'; .* value=None if every line is a like"):
        read_ratings(frame, positive=4)
    with pytest.raises(InvalidLabelsError, match="no column 'stars'"):
        read_ratings(frame, value="stars")


@pytest.mark.parametrize("form", [pandas.DataFrame, polars.DataFrame, pyarrow.table])
def test_a_column_of_ratings_and_tables_of_pyarrow(form: Any) -> None:
    columns = {"user": ["a", "b", "a", "b"], "item": ["x", "x", "y", "y"], "rating": [5.0, 1.0, 2.0, None]}
    expected = {("a", "x"): 1, ("b", "x"): 0, ("a", "y"): 0}
    assert table(read_ratings(form(columns), positive=4)) == expected
    named = {"value" if name == "rating" else name: values for name, values in columns.items()}
    assert table(read_ratings(form(named), positive=4)) == expected
    likes = {name: columns[name] for name in ("user", "item")}
    assert set(table(read_ratings(form(likes))).values()) == {1}
    weighed = weigh_ratings(
        read_ratings(form(named), positive=4), form(named), [1, 2, 3, 4], user="user", item="item"
    )
    assert weighed.weights is not None
    assert weighed.weights.tolist() == [1.0, 3.0, 2.0]
    with pytest.raises(InvalidLabelsError, match="no column 'who'; it has 'user', 'item', 'rating'"):
        read_ratings(form(columns), user="who", positive=4)


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


@pytest.mark.parametrize("given_", [["a", "zed"], "zed", ("a", "zed"), np.array(["a", "zed"])])
def test_unknown_ids_are_key_errors_that_say_what_to_do(given_: Any) -> None:
    index = IdIndex(("a", "b"), "user")
    with pytest.raises(UnknownIdError, match=r"The user 'zed'.* not among the 2 users .* fold_in") as caught:
        index.find(given_)
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, InvalidInputError)
    assert ("(position 1)" in str(caught.value)) == (not isinstance(given_, str))


def test_the_right_id_in_the_wrong_type_is_named() -> None:
    with pytest.raises(UnknownIdError, match="There is 7 of type int"):
        IdIndex((7, 8), "item").find("7")
    with pytest.raises(UnknownIdError, match="There is '-7' of type str"):
        IdIndex(("-7",), "item").find([-7])
    with pytest.raises(InvalidInputError, match="One item id is expected"):
        IdIndex(("a",), "item").find_one(["a"])


# -- events ------------------------------------------------------------------------------------------------

DAYS = ["2024-05-01", "2024-05-03", "2024-05-03", "2024-05-05", "2024-05-09"]


def event_log(n: int = 60, seed: int = 0) -> pandas.DataFrame:
    """Plays: a few users and items, many events of each pair, some without a value."""
    rng = np.random.default_rng(seed)
    log = pandas.DataFrame(
        {
            "user": rng.choice(["ann", "bob", "eve"], size=n),
            "item": rng.choice(["Ran", "Jaws", "Alien"], size=n),
            "value": rng.integers(0, 6, size=n).astype(float),
            "timestamp": rng.integers(0, 10, size=n),
        }
    )
    log.loc[rng.choice(n, size=5, replace=False), "value"] = NAN
    return log


def by_groups(log: pandas.DataFrame, aggregate: str | None, half_life: float | None) -> pandas.DataFrame:
    """The value and the weight of each pair, computed group by group."""
    log = log.dropna(subset="value")
    newest = log["timestamp"].max()

    def one(group: pandas.DataFrame) -> pandas.Series:
        ages = newest - group["timestamp"]
        weights = 1.0 * (ages == ages) if half_life is None else 0.5 ** (ages / half_life)
        value = {
            "sum": (group["value"] * weights).sum(),
            "mean": (group["value"] * weights).sum() / weights.sum(),
            "max": group["value"].max(),
            "last": group.sort_values("timestamp", kind="stable")["value"].iloc[-1],
        }[aggregate]
        return pandas.Series({"value": value, "weight": weights.max()})

    return log.groupby(["user", "item"])[["value", "timestamp"]].apply(one)


@pytest.mark.parametrize("aggregate", ["sum", "mean", "max", "last"])
@pytest.mark.parametrize("half_life", [None, 3.0])
def test_events_become_ratings_as_in_a_group_by(aggregate: str, half_life: float | None) -> None:
    log = event_log()
    expected = by_groups(log, aggregate, half_life)
    for positive in (2.5, 4.0):
        for ratings in (log, polars.from_pandas(log), pyarrow.table(log), tuple(log[name] for name in log)):
            settings: dict[str, Any] = {"aggregate": aggregate, "half_life": half_life, "positive": positive}
            labels = read_ratings(ratings, **settings)
            assert table(labels) == {pair: int(v >= positive) for pair, v in expected["value"].items()}
            if half_life is None or aggregate == "sum":
                assert labels.weights is None
            else:
                weights = labels.with_weights(labels.weights)
                found = {
                    (labels.row_names[i], labels.label_names[j]): weight  # type: ignore[index]
                    for i, j, weight in zip(weights.rows, weights.cols, weights.weights, strict=True)
                }
                assert found == pytest.approx(expected["weight"].to_dict())
            kept = read_ratings(ratings, keep_values=True, **settings)
            values = dict(zip(table(kept), kept.weights, strict=True))
            liked = {pair: v if v >= positive else 1.0 for pair, v in expected["value"].items()}
            assert values == pytest.approx(liked)


def test_plays_without_values_are_counted() -> None:
    log = event_log().drop(columns="value")
    counts = log.groupby(["user", "item"]).size().to_dict()
    kept = read_ratings(log, aggregate="sum", keep_values=True)
    assert set(kept.values) == {1}
    assert dict(zip(table(kept), kept.weights, strict=True)) == counts
    often = read_ratings(log, value=None, aggregate="sum", positive=8)
    assert table(often) == {pair: int(count >= 8) for pair, count in counts.items()}
    # Times stand where values may be missing.
    events = (log["user"], log["item"], None, log["timestamp"])
    assert table(read_ratings(events, value=None, aggregate="sum", positive=8)) == table(often)


def test_the_last_rating_goes_by_the_lines_where_there_are_no_times() -> None:
    twice = (["ann", "ann"], ["Ran", "Ran"], [1, 0])
    assert table(read_ratings(twice, aggregate="last")) == {("ann", "Ran"): 0}
    assert table(read_ratings((*twice, [5, 5]), aggregate="last")) == {("ann", "Ran"): 0}
    assert table(read_ratings((*twice, [6, 5]), aggregate="last")) == {("ann", "Ran"): 1}
    frame = pandas.DataFrame(dict(zip(("user", "item", "value"), twice, strict=True)))
    assert table(read_ratings(frame, aggregate="last")) == {("ann", "Ran"): 0}
    assert table(read_ratings(frame.assign(day=[2, 1]), aggregate="last", time="day")) == {("ann", "Ran"): 1}
    with pytest.raises(InvalidLabelsError, match=r"no column 'day'.*Recommender\(time=...\)"):
        read_ratings(frame, aggregate="last", time="day")


@pytest.mark.parametrize(
    "convert",
    [
        list,
        pandas.to_datetime,
        lambda days: list(pandas.to_datetime(days).tz_localize("Europe/Berlin")),
        lambda days: [date.fromisoformat(day) for day in days],
        lambda days: np.array(days, dtype="datetime64[D]"),
        lambda days: [day + "T00:00:00" for day in days],
        lambda days: polars.Series(days).str.to_date(),
        lambda days: [int(day[-2:]) for day in days],
    ],
)
def test_dates_decay_in_days(convert: Any) -> None:
    labels = read_ratings((USERS, ITEMS, LIKES, convert(DAYS)), half_life=4.0)
    found = dict(zip(table(labels), labels.weights, strict=True))
    ages = {(u, i): 9 - int(day[-2:]) for u, i, day in zip(USERS, ITEMS, DAYS, strict=True)}
    assert found == pytest.approx({pair: 0.5 ** (age / 4.0) for pair, age in ages.items()})
    assert table(labels) == EXPECTED
    frame = pandas.DataFrame(FRAME | {"timestamp": pandas.Series(list(convert(DAYS)))})
    assert read_ratings(frame, half_life=4.0) == labels
    # The same frames are split by time.
    train, held = split_ratings(frame, "time", fraction=0.2)
    assert held["item"].tolist() == ["Jaws"]
    assert len(train) == 4
    four = (USERS, ITEMS, LIKES, convert(DAYS))
    assert [list(part) for part in split_ratings(four, "time", fraction=0.2)[1][:3]] == [
        ["bob"],
        ["Jaws"],
        [0],
    ]


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ([1, 2, 3, 4, math.inf], "line 4 is infinite"),
        ([1, NAN, 3, 4, 5], "line 1 has no time"),
        ([*DAYS[:4], None], "line 4 has no time"),
        (pandas.to_datetime([*DAYS[:3], None, None]), "line 3 has no time"),
        (["yesterday", *DAYS[1:]], "line 0 is 'yesterday', which is no number or date"),
        ([1, *DAYS[1:]], "Some of the times are dates and others are numbers"),
        ([1, 2], "one length.*5 values, 2 times"),
        ([True] * 5, "line 0 is True, which is no number or date"),
    ],
)
def test_times_that_cannot_be_used(times: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        read_ratings((USERS, ITEMS, LIKES, times), half_life=4.0)


def test_rules_for_events_that_cannot_be_used() -> None:
    ratings = (USERS, ITEMS, LIKES)
    with pytest.raises(UnknownNameError, match="aggregate"):
        read_ratings(ratings, aggregate="median")
    for half_life in (0, -1, math.inf, NAN, "7 days", True):
        with pytest.raises(InvalidParameterError, match="half_life must be"):
            read_ratings(ratings, half_life=half_life)  # type: ignore[arg-type]
    for without in (ratings, sp.csr_array(np.eye(2)), ObservedLabels.from_dense(np.eye(2))):
        with pytest.raises(InvalidLabelsError, match="half_life needs the times"):
            read_ratings(without, half_life=2.0)
    with pytest.raises(InvalidLabelsError, match="no column 'timestamp'"):
        read_ratings(pandas.DataFrame(FRAME), half_life=2.0)
    twice = (["a", "a"], ["x", "x"], [1, 0], [1, 2])
    with pytest.raises(InvalidLabelsError, match=r"'x' by user 'a': 1 in line 0 and 0 in line 1.*aggregate"):
        read_ratings(twice, half_life=2.0)
    for values in ([1, math.inf], [1e308, 1e308]):
        with pytest.raises(InvalidLabelsError, match="'x' by user 'a' is inf"):
            read_ratings((["a", "a"], ["x", "x"], values), aggregate="sum", positive=1)
