"""Splits of ratings: at random, by time, and the last ones of each user."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap import ObservedLabels, split_ratings
from labelgap.exceptions import InvalidInputError, InvalidParameterError, UnknownNameError


def ratings(n: int = 60, seed: int = 0) -> tuple[list[str], list[int], list[int], list[int]]:
    rng = np.random.default_rng(seed)
    pairs = rng.choice(10 * 20, n, replace=False)
    return (
        [f"u{pair // 20}" for pair in pairs],
        [int(pair % 20) for pair in pairs],
        rng.integers(1, 6, size=n).tolist(),
        rng.integers(0, 15, size=n).tolist(),
    )


def test_every_form_is_split_alike_and_stays_what_it_is() -> None:
    users, items, values, times = ratings()
    columns = {"user": users, "item": items, "value": values, "timestamp": times}
    for how in ("random", "time", "leave-last-out"):
        more: dict[str, Any] = {"random_state": 1} if how == "random" else {"time": times}
        train, held = split_ratings((users, items, values), how, **more)
        both = [line for part in (train, held) for line in zip(*part, strict=True)]
        assert sorted(both) == sorted(zip(users, items, values, strict=True))
        arrays = split_ratings((np.array(users), np.array(items)), how, **more)
        assert [part.tolist() for part in arrays[1]] == [held[0], held[1]]
        for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
            kept, out = split_ratings(frame, how, **(more if how == "random" else {}))
            assert type(out) is type(frame)
            assert out["item"].to_list() == held[1]
            assert len(kept) + len(out) == len(users)
        # By rows and columns the order is another one, so the times are, too.
        order = np.lexsort((items, users))
        numbers = np.unique(users, return_inverse=True)[1]
        labels = ObservedLabels.from_triplets(numbers, items, values, shape=(10, 20), binary=False)
        again: dict[str, Any] = more if how == "random" else {"time": np.array(times)[order]}
        kept, out = split_ratings(labels, how, **again)
        assert kept.n_observed + out.n_observed == len(users)
        matrix = sp.csr_array((np.array(values, dtype=float), (numbers, items)), shape=(10, 20))
        kept, taken = split_ratings(matrix, how, **again)
        np.testing.assert_array_equal(kept.toarray() + taken.toarray(), matrix.toarray())
        np.testing.assert_array_equal(taken.toarray(), np.nan_to_num(out.to_dense()))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 10**6))
def test_the_latest_are_held_out(n: int, fraction: float, seed: int) -> None:
    users, items, _, times = ratings(n, seed)
    if len(set(times)) == 1:
        with pytest.raises(InvalidInputError, match="the same time"):
            split_ratings((users, items), "time", time=times, fraction=fraction)
        return
    places = list(range(n))
    train, held = split_ratings((users, places), "time", time=times, fraction=fraction)
    assert train[1]
    assert held[1]
    assert max(times[i] for i in train[1]) < min(times[i] for i in held[1])
    # No other cut between two times comes nearer to the fraction.
    wanted = min(max(round(fraction * n), 1), n - 1)
    sizes = [sum(t >= other for t in times) for other in set(times) - {min(times)}]
    assert abs(len(held[1]) - wanted) == min(abs(size - wanted) for size in sizes)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.integers(1, 4), st.integers(0, 10**6))
def test_the_last_ones_of_each_user_are_held_out(n: int, n_last: int, seed: int) -> None:
    users, _, _, times = ratings(n, seed)
    expected: list[int] = []
    for user in set(users):
        mine = sorted((i for i in range(n) if users[i] == user), key=lambda i: (times[i], i))
        expected += mine[-n_last:] if len(mine) > n_last else []
    if not expected:
        with pytest.raises(InvalidInputError, match=f"more than {n_last} ratings"):
            split_ratings((users, list(range(n))), "leave-last-out", time=times, n_last=n_last)
        return
    _, held = split_ratings((users, list(range(n))), "leave-last-out", time=times, n_last=n_last)
    assert sorted(held[1]) == sorted(expected)


def test_a_random_split_is_of_the_size_asked_for_and_repeats() -> None:
    users, items, values, _ = ratings()
    train, held = split_ratings((users, items, values), fraction=0.25, random_state=3)
    assert (len(train[0]), len(held[0])) == (45, 15)
    assert split_ratings((users, items, values), fraction=0.25, random_state=3)[1] == held
    assert split_ratings((users, items, values), fraction=0.25, random_state=4)[1] != held
    assert len(split_ratings((users, items))[1][0]) == 12


def test_dates_are_times() -> None:
    users, items, _, times = ratings()
    expected = split_ratings((users, items), "time", time=times)
    days = pandas.to_timedelta(times, "D")
    for dates in (
        [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=day) for day in times],
        np.datetime64("2024-01-01") + np.array(times),
        pandas.Series(pandas.Timestamp("2024-01-01", tz="UTC") + days),
        pandas.to_datetime(pandas.Series(times), unit="D"),
    ):
        assert split_ratings((users, items), "time", time=dates) == expected


def test_what_cannot_be_split_is_said() -> None:
    users, items, values, _ = ratings()
    for change, error, words in [
        ({"how": "tme"}, UnknownNameError, "Did you mean 'time'"),
        ({"how": "random", "time": [1] * 60}, InvalidParameterError, "time has no use with how='random'"),
        ({"how": "random", "n_last": 2}, InvalidParameterError, "n_last has no use"),
        ({"how": "leave-last-out", "fraction": 0.1}, InvalidParameterError, "fraction has no use"),
        ({"how": "random", "fraction": 1.0}, InvalidParameterError, "strictly between 0 and 1"),
        ({"how": "time"}, InvalidParameterError, "needs the times"),
        ({"how": "time", "time": "when"}, InvalidInputError, "no column 'when'"),
        ({"how": "time", "time": [1, 2]}, InvalidInputError, "each of the 60 ratings"),
        ({"how": "time", "time": ["x"] * 60}, InvalidInputError, "number or date"),
        ({"how": "time", "time": [1.0] * 59 + [np.nan]}, InvalidInputError, "line 59 has no time"),
    ]:
        with pytest.raises(error, match=words):
            split_ratings((users, items, values), **change)
    for form, words in [
        ((["a"], ["x"]), "at least two"),
        ((["a", "b"], ["x"]), "of one length"),
        (7, "got int"),
        (pandas.DataFrame({"who": [1, 2]}), "no column 'user'"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            split_ratings(form)
