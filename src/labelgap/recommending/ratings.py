"""Ratings of items by users, in the forms in which people hold them, as observed labels with ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labelgap._arrays import frame_library, is_arrow_table
from labelgap._names import check_choice
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import UNOBSERVED
from labelgap.labels.frames import read_long
from labelgap.labels.sources import Entries, index_type, is_null, minus_one_advice, read_sparse
from labelgap.recommending.events import EventRule, RatingEvents, events_of, two_ratings
from labelgap.recommending.ids import number_ids
from labelgap.recommending.times import read_times

Rule: TypeAlias = float | Callable[..., Any] | None

_FORMS = (
    "Ratings are three sequences (users, items, values), or four with times, two sequences (users, items) of "
    "likes, a long frame or pyarrow table, a scipy sparse matrix, or ObservedLabels"
)
# A frame without either of these columns holds likes; any other name was chosen by the user, and must be
# there.
_DEFAULT_VALUE, _USUAL_VALUE = "value", "rating"
# Where this column is not there, the order of the lines says which rating is the last.
_DEFAULT_TIME = "timestamp"
_LIKES_COLUMN = "labelgap: like"
_NUMBERS = (bool, int, float, np.number, np.bool_)


def read_ratings(
    ratings: Any,
    *,
    user: str = "user",
    item: str = "item",
    value: str | None = "value",
    positive: Rule = None,
    unobserved: str = "missing",
    keep_values: bool = False,
    aggregate: str | None = None,
    time: str = "timestamp",
    half_life: float | None = None,
) -> ObservedLabels:
    """Ratings as labels 0 and 1, users x items, with the ids as ``row_names`` and ``label_names``.

    A rating is a like (1) or a dislike (0); NaN and None mean that there is no rating. Without ``aggregate``
    the same pair may come twice if both ratings are the same after the rule ``positive``, and then counts
    once; if they differ, that is an error. With ``keep_values`` the values of two likes must be the same too.

    Parameters
    ----------
    ratings : one of these forms

        - Three sequences of one length, ``(users, items, values)``, or two, ``(users, items)``, where each
          pair is a like; or four, ``(users, items, values, times)``, where values may be None. Ids are any
          hashable values, also of several types, in order of first appearance.
        - A long pandas or polars frame, or a pyarrow table, with one line per rating.
        - A scipy sparse matrix, users x items. Ids are the numbers of its rows and columns; a stored zero is
          a rating, an absent entry is none.
        - ObservedLabels. Their names are the ids, or else their numbers; weights are kept.

        Ids of lines without a rating (NaN) are known too.
    user, item, value : names of columns, default "user", "item", "value"
        They are read in a frame only. Where there is no column "value", "rating" is read. A frame with
        neither, or any frame with ``value=None``, holds likes.
    positive : None, number or function, default None
        Which values are likes. With None the values are 0 and 1 (or False and True) already. With a number,
        values of at least that are likes. A function takes the values as a float64 vector, or else one value,
        and returns booleans. Binary ObservedLabels and forms without values need no rule.
    unobserved : "missing", "negative" or "unlabelled", default "missing"
        What a pair without a rating means, as in ``ObservedLabels``. Under "unlabelled" only likes are kept;
        under "negative" every pair becomes an entry.
    keep_values : bool, default False
        Keep the values of the likes, such as play counts, as weights; that of a dislike is 1. ObservedLabels
        keep their own weights.
    aggregate : None, "sum", "mean", "max" or "last", default None
        What becomes of several ratings of a pair, before ``positive`` judges it. "last" goes by the times,
        and by the order of the lines where times are equal or not known. ObservedLabels have each pair once.
    time : name of a column, default "timestamp"
        The times of a frame: numbers, dates, or texts of dates. They are read for ``half_life`` and "last".
    half_life : float or None, default None
        In days where times are dates, otherwise in the unit of the times: for each half-life that an event is
        older than the newest of all, what it adds to a sum or mean is halved, and so is the weight of a
        rating whose newest event it is, unless it is a sum. With ``keep_values`` weights are values.

    Examples
    --------
    >>> ratings = read_ratings((["ann", "bob", "ann"], ["Ran", "Ran", 1984], [5, 2, 4]), positive=4)
    >>> ratings.row_names, ratings.label_names
    (('ann', 'bob'), ('Ran', 1984))
    >>> ratings.to_dense()
    array([[ 1.,  1.],
           [ 0., nan]])
    >>> plays = ["ann", "ann", "bob"], ["Ran", "Ran", "Ran"], [2, 3, 1]
    >>> read_ratings(plays, positive=4, aggregate="sum").to_dense()
    array([[1.],
           [0.]])
    """
    check_choice("unobserved", unobserved, UNOBSERVED)
    _check_rule(positive)
    rule = EventRule.of(aggregate, half_life)
    if isinstance(ratings, RatingEvents):
        return ObservedLabels.from_any(_from_events(ratings, positive, keep_values), unobserved)
    if isinstance(ratings, ObservedLabels):
        if rule.half_life is not None:
            raise _no_times()
        return ObservedLabels.from_any(_from_labels(ratings, positive), unobserved)
    entries, times = _entries_of(ratings, user, item, value, positive, time, rule)
    if rule.is_used:
        events = events_of(entries, times, rule, _pair)
        return ObservedLabels.from_any(_from_events(events, positive, keep_values), unobserved)
    labels = _pack(entries, positive)
    if keep_values and entries.values.dtype != np.bool_:
        labels = labels.with_weights(_values_of_likes(entries, labels))
    return ObservedLabels.from_any(labels, unobserved)


def read_events(
    ratings: Any,
    *,
    user: str = "user",
    item: str = "item",
    value: str | None = "value",
    positive: Rule = None,
    aggregate: str | None = None,
    time: str = "timestamp",
    half_life: float | None = None,
) -> RatingEvents | None:
    """What :func:`read_ratings` makes of several events of a pair, to be joined with later ones.

    None where there is nothing to make: without ``aggregate`` and ``half_life``. :func:`read_ratings` reads
    the result in place of the ratings. Parameters are those of :func:`read_ratings`.

    Examples
    --------
    >>> read_events((["ann", "ann"], ["Ran", "Ran"], [2, 3]), aggregate="max").values
    array([3.])
    """
    rule = EventRule.of(aggregate, half_life)
    if not rule.is_used:
        return None
    if isinstance(ratings, RatingEvents):
        return ratings
    if isinstance(ratings, ObservedLabels):
        raise InvalidLabelsError(
            "aggregate and half_life are for events as they come, and ObservedLabels hold each pair once: "
            "give sequences or a frame, or leave both out."
        )
    entries, times = _entries_of(ratings, user, item, value, positive, time, rule)
    return events_of(entries, times, rule, _pair)


def _entries_of(
    ratings: Any, user: str, item: str, value: str | None, positive: Rule, time: str, rule: EventRule
) -> tuple[Entries, NDArray[Any] | None]:
    """Entries with numbers as values, or booleans of likes, and their times where the rule uses them."""
    times: Any = None
    if sparse.issparse(ratings):
        entries = read_sparse(ratings, None, None, None)
        entries = replace(
            entries, row_names=tuple(range(entries.shape[0])), label_names=tuple(range(entries.shape[1]))
        )
    elif frame_library(ratings):
        entries = _from_frame(ratings, user, item, value, positive)
        times = ratings[time] if _has_times(list(ratings.columns), time, rule) else None
    elif is_arrow_table(ratings):
        value = value_column(ratings.column_names, user, item, value, positive)
        chosen = (user, item) if value is None else (user, item, value)
        entries = _from_sequences([ratings[name].to_pylist() for name in chosen])
        times = ratings[time].to_pylist() if _has_times(ratings.column_names, time, rule) else None
    else:
        entries = _from_sequences(ratings)
        times = ratings[3] if len(ratings) == 4 else None
    if entries.values.dtype != np.bool_:
        # Likes without values are booleans already.
        entries = replace(entries, values=_as_numbers(entries))
    if not rule.uses_times:
        return entries, None
    if times is None and rule.half_life is not None:
        raise _no_times()
    return entries, None if times is None else read_times(times, len(entries.rows))


def _has_times(columns: list[str], time: str, rule: EventRule) -> bool:
    """Whether times are to be read of a frame; an error if their column is not there."""
    if not rule.uses_times or time in columns:
        return rule.uses_times
    if time == _DEFAULT_TIME and rule.half_life is None:
        return False
    raise InvalidLabelsError(
        f"The frame has no column {time!r}; it has {', '.join(map(repr, columns))}. Say which of them holds "
        "the times when you make the recommender: Recommender(time=...)."
    )


def _no_times() -> InvalidLabelsError:
    return InvalidLabelsError(
        "half_life needs the times of the ratings: give four sequences (users, items, values, times), where "
        "values may be None, or a frame with a column of times."
    )


def _from_events(events: RatingEvents, positive: Rule, keep_values: bool) -> ObservedLabels:
    """Labels of ratings that are made of events, in their order."""
    values: Any = events.present_values
    # Of likes without values only a count can be small.
    if events.only_likes and (positive is None or events.rule.aggregate != "sum"):
        values = np.ones(len(values), dtype=np.bool_)
    shape = (len(events.user_ids), len(events.item_ids))
    entries = Entries(events.rows, events.columns, values, None, shape, events.user_ids, events.item_ids)
    labels = _pack(entries, positive)
    if keep_values:
        kept = events.present_values
        return labels.with_weights(np.where((labels.values == 1) & (kept > 0), kept, 1.0))
    return labels if events.weights is None else labels.with_weights(events.weights)


def _check_rule(positive: Any) -> None:
    if positive is None or callable(positive):
        return
    if isinstance(positive, bool) or not isinstance(positive, Real) or np.isnan(float(positive)):
        raise InvalidParameterError(
            "positive must be None, a number (values of at least that are likes) or a function of the "
            f"values; got {positive!r}."
        )


# -- forms -------------------------------------------------------------------------------------------------


def _from_labels(labels: ObservedLabels, positive: Rule) -> ObservedLabels:
    n, n_items = labels.shape
    users = tuple(range(n)) if labels.row_names is None else labels.row_names
    items = tuple(range(n_items)) if labels.label_names is None else labels.label_names
    if len(set(users)) < n:
        twice, _ = Counter(users).most_common(1)[0]
        raise InvalidLabelsError(
            f"Two rows of the labels are named {twice!r}; a user needs an id of its own."
        )
    named = replace(labels, row_names=users, label_names=items)
    if labels.values.dtype == np.int8:
        return named
    place = Entries(labels.rows, labels.cols, labels.values, None, labels.shape, users, items)
    return replace(named, values=_likes(place, positive).astype(np.int8))


def _from_frame(frame: Any, user: str, item: str, value: str | None, positive: Rule) -> Entries:
    if type(frame).__name__ != "DataFrame":
        raise InvalidLabelsError(
            f"{_FORMS}; got a {type(frame).__name__}. Use frame.collect() for a LazyFrame."
        )
    value = value_column(list(frame.columns), user, item, value, positive)
    if value is None:
        ones = _with_likes(frame[[user, item]])
        entries = read_long(ones, user, item, _LIKES_COLUMN, None, None, None)
        return replace(entries, values=np.ones(len(entries.rows), dtype=np.bool_))
    try:
        return read_long(frame, user, item, value, None, None, None)
    except InvalidLabelsError:
        _refuse_texts(list(frame[user]), list(frame[item]), list(frame[value]))
        raise


def value_column(columns: list[str], user: str, item: str, value: str | None, positive: Rule) -> str | None:
    """The column of the ratings, None if every line is a like; an error if a column is not there."""
    has = f"it has {', '.join(map(repr, columns))}"
    for column, what in ((user, "user"), (item, "item")):
        if column not in columns:
            raise InvalidLabelsError(
                f"The frame has no column {column!r}; {has}. Say which of them holds the {what} ids when you "
                f"make the recommender: Recommender({what}=...)."
            )
    if value == _DEFAULT_VALUE and value not in columns:
        if _USUAL_VALUE in columns:
            return _USUAL_VALUE
        if positive is None:
            return None
    if value is not None and value not in columns:
        raise InvalidLabelsError(
            f"The frame has no column {value!r}; {has}. Say which of them holds the ratings when you make "
            "the recommender: Recommender(value=...), or value=None if every line is a like."
        )
    return value


def _refuse_texts(users: list[Any], items: list[Any], values: list[Any]) -> None:
    """Raise if a rating is no number, in words about ratings; labels of a table have another advice."""
    for user, item, given in zip(users, items, values, strict=True):
        if not (is_null(given) or isinstance(given, _NUMBERS)):
            raise _no_number(f"item {item!r} by user {user!r}", given)


def _with_likes(frame: Any) -> Any:
    if frame_library(frame) == "pandas":
        return frame.assign(**{_LIKES_COLUMN: 1})
    import polars

    return frame.with_columns(polars.lit(1).alias(_LIKES_COLUMN))


def _from_sequences(ratings: Any) -> Entries:
    if not isinstance(ratings, tuple | list):
        raise InvalidLabelsError(
            f"{_FORMS}; got {type(ratings).__name__}. A dense matrix with NaN is read by "
            "ObservedLabels.from_dense, lines (user, item, value) are transposed by zip(*lines)."
        )
    if len(ratings) not in (2, 3, 4):
        raise InvalidLabelsError(
            f"{_FORMS}; got {len(ratings)} sequences. Lines (user, item, value) are transposed by "
            "zip(*lines)."
        )
    rows, users = number_ids(ratings[0], "user")
    cols, items = number_ids(ratings[1], "item")
    only_likes = len(ratings) == 2 or (len(ratings) == 4 and ratings[2] is None)
    values = np.ones(len(rows), dtype=np.bool_) if only_likes else _as_vector(ratings[2])
    lengths = {"users": len(rows), "items": len(cols)}
    if not only_likes:
        lengths["values"] = len(values)
    if len(ratings) == 4 and hasattr(ratings[3], "__len__"):
        lengths["times"] = len(ratings[3])
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise InvalidLabelsError(f"Ratings need sequences of one length, but there are {given}.")
    return Entries(rows, cols, values, None, (len(users), len(items)), users, items)


def _as_vector(values: Any) -> NDArray[Any]:
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InvalidLabelsError(
            f"The values must be a sequence of ratings, not the single value {values!r}."
        )
    vector = values.to_numpy() if frame_library(values) else values
    if not isinstance(vector, np.ndarray):
        listed = list(vector)
        try:
            vector = np.asarray(listed)
        except ValueError:  # Sequences among the values: the check of each one names it.
            vector = np.empty(0, dtype=object)
        if vector.ndim != 1 or vector.dtype.kind not in "biuf":
            vector = np.fromiter(listed, dtype=object, count=len(listed))
    if vector.ndim != 1:
        raise InvalidLabelsError(
            f"The values must be a 1-d sequence; the array has {vector.ndim} dimensions."
        )
    # Booleans stand for likes without values; an array of True and False is one of values.
    return np.asarray(vector.astype(np.int8) if vector.dtype.kind == "b" else vector)


# -- values ------------------------------------------------------------------------------------------------


def _as_numbers(entries: Entries) -> NDArray[np.float64]:
    """The values as float64, NaN where there is none."""
    values = entries.values
    if values.dtype.kind in "biuf":
        return values.astype(np.float64, copy=False)
    numbers = np.empty(len(values))
    for entry, given in enumerate(values.tolist()):
        if is_null(given):
            numbers[entry] = np.nan
        elif isinstance(given, _NUMBERS):
            numbers[entry] = float(given)
        else:
            raise _no_number(_pair(entries, entry), given)
    return numbers


def _no_number(pair: str, given: object) -> InvalidLabelsError:
    return InvalidLabelsError(
        f"The rating of {pair} is {given!r}, which is no number. Give likes as 1, dislikes as 0, or ratings "
        "as numbers together with positive=..."
    )


def _pair(entries: Entries, entry: int) -> str:
    users, items = entries.row_names or (), entries.label_names or ()
    return f"item {items[int(entries.cols[entry])]!r} by user {users[int(entries.rows[entry])]!r}"


def _likes(entries: Entries, positive: Rule) -> NDArray[np.bool_]:
    """Which ratings are likes; the values are numbers, none of them NaN."""
    values = entries.values
    if values.dtype == np.bool_ or len(values) == 0:
        return values.astype(np.bool_)
    infinite = np.isinf(values)
    if infinite.any():
        first = int(np.argmax(infinite))
        raise InvalidLabelsError(
            f"The rating of {_pair(entries, first)} is {values[first]}; use NaN where there is no rating."
        )
    if positive is None:
        likes = np.asarray(values == 1)
        bad = ~likes & (values != 0)
        if bad.any():
            first = int(np.argmax(bad))
            rule = (
                "Say which ratings are likes: positive=4 for 4 and more, or a function of the values, such "
                "as positive=lambda value: value > 3."
            )
            advice = minus_one_advice(
                values,
                with_zeros="If -1 is a dislike and 0 no rating, leave out the pairs with 0 and pass "
                "positive=1; if -1 is no rating and 0 a dislike, leave out the pairs with -1.",
                without="For likes of 1 and dislikes of -1 pass positive=1.",
                else_=rule,
            )
            raise InvalidLabelsError(
                f"The rating of {_pair(entries, first)} is {values[first]:g}, which is neither 0 nor 1. "
                f"{advice}"
            )
        return likes
    return _judged(positive, values) if callable(positive) else np.asarray(values >= positive)


def _judged(rule: Callable[..., Any], values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The rule for all values at once, or for each distinct one where it takes a single number."""
    vector = values.view()
    vector.flags.writeable = False
    try:
        likes = np.asarray(rule(vector))
    except Exception:  # A rule for single numbers may fail on a vector in any way; below it is called again.
        likes = np.empty(0)
    if likes.shape != values.shape:
        distinct, which = np.unique(values, return_inverse=True)
        try:
            each = [rule(number) for number in distinct.tolist()]
        except Exception as error:
            raise InvalidParameterError(
                f"positive failed on the values, all at once and one by one: {error!r}."
            ) from error
        if not all(isinstance(like, bool | np.bool_) for like in each):
            raise _not_boolean(next(a for a in each if not isinstance(a, bool | np.bool_)))
        likes = np.array(each, dtype=np.bool_)[which]
    if likes.dtype != np.bool_:
        raise _not_boolean(likes[:1].tolist()[0] if len(likes) else likes)
    return likes


def _not_boolean(returned: object) -> InvalidParameterError:
    return InvalidParameterError(
        f"positive must return True or False for each value, as value >= 4 does; it returned {returned!r}."
    )


# -- entries -----------------------------------------------------------------------------------------------


def _pack(entries: Entries, positive: Rule) -> ObservedLabels:
    """Labels from entries in any order, some of them NaN, some of them twice."""
    values = entries.values
    kept, lines = entries, None
    if values.dtype.kind == "f" and np.isnan(values).any():
        lines = np.flatnonzero(~np.isnan(values))
        kept = entries.keep(lines)
    likes = _likes(kept, positive)
    n, n_items = entries.shape
    # Each rating is the last bit of a number that stands for its pair: sorting numbers is much faster than
    # computing a permutation. The numbers are made in place, because there may be very many.
    coded = kept.rows.astype(np.int64)
    coded *= n_items
    coded += kept.cols
    coded *= 2
    coded += likes
    if not np.all(coded[1:] > coded[:-1]):
        coded.sort()
    again = np.flatnonzero(coded[1:] == coded[:-1])
    if len(again):
        coded = np.delete(coded, again)
    values = np.empty(len(coded), dtype=np.int8)
    np.bitwise_and(coded, 1, out=values, casting="unsafe")
    coded >>= 1
    twice = coded[1:] == coded[:-1]
    if twice.any():
        here = kept.rows.astype(np.int64) * n_items + kept.cols == coded[int(np.argmax(twice))]
        raise _two_ratings(kept, lines, likes, here)
    indptr = np.searchsorted(coded, np.arange(n + 1, dtype=np.int64) * n_items)
    coded %= max(n_items, 1)
    return ObservedLabels(
        indptr=indptr,
        indices=coded.astype(index_type(n_items)),
        values=values,
        shape=(n, n_items),
        row_names=entries.row_names,
        label_names=entries.label_names,
    )


def _values_of_likes(entries: Entries, labels: ObservedLabels) -> NDArray[np.float64]:
    """The value of each like, and 1 for a dislike."""
    given = np.flatnonzero(~np.isnan(entries.values))
    width = labels.shape[1]
    keys = entries.rows[given].astype(np.int64) * width + entries.cols[given]
    places = np.searchsorted(labels.rows * width + labels.indices, keys)
    values = np.ones(labels.n_observed)
    values[places] = entries.values[given]
    # Of a pair that comes twice the last value is kept, so an earlier one that differs shows here.
    differs = (values[places] != entries.values[given]) & (labels.values[places] == 1)
    if differs.any():
        raise _two_values(entries, given[keys == keys[int(np.argmax(differs))]])
    return np.where((labels.values == 1) & (values > 0), values, 1.0)


def _two_ratings(
    entries: Entries, lines: NDArray[np.int64] | None, likes: NDArray[np.bool_], here: NDArray[np.bool_]
) -> InvalidLabelsError:
    """The error for the first two ratings that differ, of those ``here``, which are of one pair."""
    one, other = sorted(int(np.flatnonzero(here & (likes == like))[0]) for like in (False, True))
    first, second = (one, other) if lines is None else (int(lines[one]), int(lines[other]))
    return InvalidLabelsError(
        two_ratings(_pair(entries, one), entries.values[one], entries.values[other], first, second)
    )


def _two_values(entries: Entries, lines: NDArray[np.int64]) -> InvalidLabelsError:
    """The error for likes of one pair, in these lines, whose values are not all the same."""
    values = entries.values[lines]
    first, second = 0, int(np.argmax(values != values[0]))
    why = " Both are likes, but under unobserved='negative' the value of a like is its weight."
    pair = _pair(entries, int(lines[first]))
    return InvalidLabelsError(
        two_ratings(pair, values[first], values[second], int(lines[first]), int(lines[second]), why)
    )
