"""Events of a user with an item, such as plays or purchases: several of a pair become one rating.

A rating that was made of events is kept as three numbers that do not depend on when one looks at it: its
value and its amount (how many events) at its newest event, and the time of that event. So ratings can be
joined with later events as if all had come at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.persistence.registry import savable_record
from labelgap.recommending.ids import Ids
from labelgap.recommending.times import as_numbers

AGGREGATES = ("sum", "mean", "max", "last")
# The least weight: beside the weight 1 of the newest it is lost in rounding, and 0 would leave a rating out.
_LEAST_WEIGHT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class EventRule:
    """How events become ratings: what is made of several of a pair, and how fast they lose their weight."""

    aggregate: str | None = None
    half_life: float | None = None

    @classmethod
    def of(cls, aggregate: Any, half_life: Any) -> EventRule:
        """The rule, after a check of its parts."""
        if aggregate is not None:
            check_choice("aggregate", aggregate, AGGREGATES)
        if half_life is None:
            return cls(aggregate)
        if (
            isinstance(half_life, bool)
            or not isinstance(half_life, Real)
            or not 0 < float(half_life) < np.inf
        ):
            raise InvalidParameterError(
                "half_life must be a finite number above 0, in days where times are dates, or None for no "
                f"decay; got {half_life!r}."
            )
        return cls(aggregate, float(half_life))

    @property
    def is_used(self) -> bool:
        return self.aggregate is not None or self.half_life is not None

    @property
    def uses_times(self) -> bool:
        return self.aggregate == "last" or self.half_life is not None

    def decay(self, ages: Floats) -> Floats:
        """``2^(−age/half_life)``, 1 without a half-life."""
        if self.half_life is None:
            return np.ones(len(ages))
        # What is too old for the numbers has the weight 0.
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.exp2(-ages / self.half_life))


@savable_record("kept_events")
@dataclass(frozen=True)
class KeptEvents:
    """What is kept of the events of each rating, in the order of the ratings."""

    values: Floats
    amounts: Floats
    newest: Floats
    aggregate: str | None
    clock: str
    only_likes: bool

    def __post_init__(self) -> None:
        is_known = isinstance(self.aggregate, str) and self.aggregate in AGGREGATES
        if self.aggregate is not None and not is_known:
            raise ValueError(
                f"the aggregate of its events is {self.aggregate!r}; None or one of {AGGREGATES}"
            )


@dataclass(frozen=True)
class RatingEvents:
    """Ratings that are made of events, each pair once, by user and then by item.

    Parameters
    ----------
    rows, columns : int64 arrays
    user_ids, item_ids : tuples of ids
    values : float64 array
        The sum, mean, maximum or last value, at the newest event of the pair.
    amounts : float64 array
        The weights of the events behind a mean.
    newest : float64 array
        The time of the newest event; 0 without times.
    rule : EventRule
    clock : "none", "numbers" or "dates"
        What the times are.
    only_likes : bool
        Whether the events have no values, and each is a like.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    user_ids: Ids
    item_ids: Ids
    values: Floats
    amounts: Floats
    newest: Floats
    rule: EventRule
    clock: str
    only_likes: bool

    @property
    def decay(self) -> Floats:
        """The weight of each rating by its age: halved for each half-life before the newest event of all."""
        ages = self.newest.max(initial=-np.inf) - self.newest
        return np.maximum(self.rule.decay(ages), _LEAST_WEIGHT)

    @property
    def present_values(self) -> Floats:
        """The values at the time of the newest event of all; sums are smaller the older they are."""
        return self.values * self.decay if self.rule.aggregate == "sum" else self.values

    @property
    def weights(self) -> Floats | None:
        """The weights of the ratings; None where the values have lost what is lost, or nothing is."""
        if self.rule.half_life is None or self.rule.aggregate == "sum":
            return None
        return self.decay

    def kept(self) -> KeptEvents:
        """What goes on with the ratings."""
        return KeptEvents(
            self.values, self.amounts, self.newest, self.rule.aggregate, self.clock, self.only_likes
        )

    def joined(
        self, new: RatingEvents, rows: NDArray[np.int64], columns: NDArray[np.int64], users: Ids, items: Ids
    ) -> RatingEvents:
        """These events and later ones, whose users and items have the given numbers among all ids."""
        if self.clock != new.clock and len(self.rows) and len(new.rows):
            raise InvalidLabelsError(
                f"The times of the ratings before are {_CLOCKS[self.clock]}, and those of the new ones are "
                f"{_CLOCKS[new.clock]}; give times of one kind."
            )
        both = [(self, self.rows, self.columns), (new, rows[new.rows], columns[new.columns])]
        return combined(
            *(np.concatenate([part[at] for part in both]) for at in (1, 2)),
            *(
                np.concatenate([getattr(part[0], name) for part in both])
                for name in ("values", "amounts", "newest")
            ),
            user_ids=users,
            item_ids=items,
            rule=new.rule,
            clock=new.clock if len(new.rows) else self.clock,
            only_likes=self.only_likes and new.only_likes,
        )


_CLOCKS = {"none": "not known", "numbers": "numbers", "dates": "dates"}


def from_kept(kept: KeptEvents, labels: ObservedLabels, rule: EventRule) -> RatingEvents:
    """The events behind these ratings of a model, under its rule of today.

    Examples
    --------
    >>> labels = ObservedLabels.from_triplets([0], [0], [1], shape=(1, 1), row_names=["a"], label_names=["x"])
    >>> one = np.ones(1)
    >>> from_kept(KeptEvents(one, one, 0 * one, "sum", "none", True), labels, EventRule("sum")).item_ids
    ('x',)
    """
    differs = None
    if kept.aggregate != rule.aggregate:
        differs = f"with aggregate={kept.aggregate!r}", f"with aggregate={rule.aggregate!r}"
    elif rule.half_life is not None and kept.clock == "none":
        differs = "without times", f"with half_life={rule.half_life:g}"
    if differs is not None:
        raise InvalidParameterError(
            f"The recommender was fitted {differs[0]}, so ratings cannot be joined {differs[1]}. Go on as in "
            "the fit, or fit anew to all events."
        )
    return RatingEvents(
        labels.rows.astype(np.int64),
        labels.indices.astype(np.int64),
        labels.row_names or (),
        labels.label_names or (),
        kept.values,
        kept.amounts,
        kept.newest,
        rule,
        kept.clock,
        kept.only_likes,
    )


# A sum beyond all numbers is infinite, which is refused where it is judged.
@np.errstate(over="ignore", invalid="ignore")
def combined(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    values: Floats,
    amounts: Floats,
    newest: Floats,
    *,
    user_ids: Ids,
    item_ids: Ids,
    rule: EventRule,
    clock: str,
    only_likes: bool,
) -> RatingEvents:
    """Each pair once; of equal times the later line is the later event.

    Examples
    --------
    >>> zero, ids = np.zeros(2, np.int64), {"user_ids": ("a",), "item_ids": ("x",)}
    >>> made = combined(zero, zero, np.array([4.0, 1.0]), np.ones(2), np.array([0.0, 3.0]), **ids,
    ...                 rule=EventRule("sum", 3.0), clock="numbers", only_likes=False)
    >>> made.values
    array([3.])
    """
    pairs = rows * max(len(item_ids), 1) + columns
    # Without a rule for several, a later rating takes the place of an earlier one, whatever their times are.
    by_time = rule.aggregate is not None
    order = np.lexsort((newest, pairs)) if by_time else np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    values, amounts, newest = (part[order] for part in (values, amounts, newest))
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    counts = np.diff(starts, append=len(pairs))
    last = starts + counts - 1
    at_newest = rule.decay(np.repeat(newest[last], counts) - newest) if by_time else amounts
    weighed = amounts * at_newest
    made = {"sum": at_newest * values, "mean": weighed * values, "max": values}.get(rule.aggregate or "last")
    if made is None or not len(starts):
        joined = values[last]
    elif rule.aggregate == "max":
        joined = np.maximum.reduceat(made, starts)
    else:
        joined = np.add.reduceat(made, starts)
    total = np.add.reduceat(weighed, starts) if by_time and len(starts) else amounts[last]
    if rule.aggregate == "mean":
        # A pair that comes once keeps its value to the last digit.
        joined = np.where(counts == 1, values[last], joined / total)
    width = max(len(item_ids), 1)
    found = pairs[starts]
    return RatingEvents(
        found // width,
        found % width,
        user_ids,
        item_ids,
        joined,
        total,
        newest[last],
        rule,
        clock,
        only_likes,
    )


def events_of(
    entries: Any, times: NDArray[Any] | None, rule: EventRule, pair: Callable[[Any, int], str]
) -> RatingEvents:
    """The events that are entries with numbers as values, NaN where there is none, or booleans of likes.

    ``pair`` names the pair of an entry, for errors.
    """
    only_likes = entries.values.dtype == np.bool_
    values = entries.values.astype(np.float64)
    clock, newest = "none", np.zeros(len(values))
    if times is not None:
        clock, newest = ("dates" if times.dtype.kind == "M" else "numbers"), as_numbers(times)
    infinite = np.isinf(values)
    if infinite.any():
        first = int(np.argmax(infinite))
        raise InvalidLabelsError(
            f"The rating of {pair(entries, first)} is {values[first]}; use NaN where there is no rating."
        )
    there = np.flatnonzero(~np.isnan(values))
    rows, columns = (part[there].astype(np.int64) for part in (entries.rows, entries.cols))
    _warn_of_short_half_life(newest[there], clock, rule)
    if rule.aggregate is None:
        _refuse_changes(entries, there, rows * max(entries.shape[1], 1) + columns, pair)
    # Of one pair the newest event is the last, whatever the order of the lines.
    by_time = np.argsort(newest[there], kind="stable")
    there = there[by_time]
    return combined(
        rows[by_time],
        columns[by_time],
        values[there],
        np.ones(len(there)),
        newest[there],
        user_ids=entries.row_names,
        item_ids=entries.label_names,
        rule=rule,
        clock=clock,
        only_likes=bool(only_likes),
    )


def _warn_of_short_half_life(times: Floats, clock: str, rule: EventRule) -> None:
    """Say so where half of the events have no weight beside the newest one, to the last digit."""
    if rule.half_life is None or not len(times):
        return
    age = float(times.max() - np.median(times))
    if rule.decay(np.array([age]))[0] < _LEAST_WEIGHT:
        unit = (
            "days" if clock == "dates" else "units of the times, which are numbers (Unix times count seconds)"
        )
        warn(
            f"half_life={rule.half_life:g} is so short that half of the ratings have next to no weight: they "
            f"are {age:g} or more {unit} older than the newest. Give a longer one.",
            LabelgapWarning,
        )


def _refuse_changes(
    entries: Any, there: NDArray[np.int64], pairs: NDArray[np.int64], pair: Callable[[Any, int], str]
) -> None:
    order = np.argsort(pairs, kind="stable")
    values = entries.values[there][order]
    changed = np.flatnonzero((np.diff(pairs[order]) == 0) & (values[1:] != values[:-1]))
    if len(changed):
        first, second = (int(there[order[changed[0] + step]]) for step in (0, 1))
        found = entries.values
        raise InvalidLabelsError(
            two_ratings(pair(entries, first), found[first], found[second], first, second)
        )


def two_ratings(pair: str, one: float, other: float, first: int, second: int, why: str = "") -> str:
    """What is said of two ratings of one pair, in these lines, that differ."""
    return (
        f"There are two ratings of {pair}: {one:g} in line {first} and {other:g} in line {second}.{why} Keep "
        "one of them, or say what becomes of several, such as plays or visits, when you make the "
        "recommender: aggregate='sum' to add them up, or 'mean', 'max' or 'last'."
    )
