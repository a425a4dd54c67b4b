"""Ratings on a cluster: lines of a user, an item and a value, partitioned by user."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import distinct
from labelgap._warn import warn
from labelgap.distributed.clients import cluster_errors
from labelgap.distributed.inputs import is_frame, read_parquet_folder, release_unused
from labelgap.distributed.partitions import Own, Partition
from labelgap.distributed.rounds import Rounds
from labelgap.exceptions import InvalidLabelsError, LabelgapError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.objective.moments import LabelSums
from labelgap.recommending.ratings import Rule, read_ratings, value_column

# Users whose partitions the client looks at, to see whether each is in one only.
_LOOKED_AT = 50_000_000


@dataclass(frozen=True)
class RatingColumns:
    """How lines are read: the names of the columns, and which values are likes."""

    user: str = "user"
    item: str = "item"
    value: str | None = "value"
    """None where every line is a like."""
    positive: Rule = None
    keep_values: bool = False
    """Whether the values of likes are kept as weights."""

    def read(self, number: int, frame: Any) -> ObservedLabels:
        """The ratings of some lines; an error names the partition."""
        try:
            return read_ratings(
                frame,
                user=self.user,
                item=self.item,
                value=self.value,
                positive=self.positive,
                keep_values=self.keep_values,
            )
        except LabelgapError as error:
            raise type(error)(f"Partition {number}: {error}") from error


class _Ids(NamedTuple):
    """The users and items of a partition, as they travel to the client."""

    users: NDArray[np.uint64]
    items: tuple[Any, ...]


@dataclass
class ClusterRatings:
    """Ratings on the cluster, every user in one partition."""

    rounds: Rounds
    n_users: int
    items: tuple[Any, ...]
    sums: LabelSums
    shuffled: bool

    def take_partitions(self) -> Rounds:
        """The partitions, which are given up here: they take memory or disk for as long as they are held."""
        rounds, self.rounds = self.rounds, Rounds(self.rounds.client, ())
        return rounds


def read_cluster_ratings(client: Any, ratings: Any, columns: RatingColumns) -> ClusterRatings:
    """The ratings of a dask DataFrame or a Parquet folder, shuffled by user where they must be."""
    frame = read_parquet_folder(ratings) if isinstance(ratings, str | os.PathLike) else ratings
    if not is_frame(frame):
        raise InvalidLabelsError(
            "Ratings on a cluster are a dask DataFrame or the path of a Parquet folder, with one line for "
            f"each rating; got {type(frame).__name__}."
        )
    names = [str(name) for name in frame.columns]
    for what in (columns.user, columns.item):
        if what not in names:
            raise InvalidLabelsError(
                f"The ratings have no column {what!r}; they have {', '.join(map(repr, names))}. Say which "
                "columns hold users and items when you make the recommender: user=..., item=..."
            )
    value = value_column(names, columns.user, columns.item, columns.value, columns.positive)
    columns = replace(columns, value=value)
    frame = frame[[columns.user, columns.item] + ([] if value is None else [value])]
    parts = _lines(client, frame)
    ids: list[_Ids] = Rounds(client, parts, _numbers(parts)).each_of(_ids, columns)
    shuffled = not _apart([one.users for one in ids])
    if shuffled:
        warn(
            "Some users have ratings in several partitions, so the ratings are shuffled by user first. "
            "Store them by user to save that time.",
            LabelgapWarning,
        )
        with cluster_errors():
            parts = _lines(client, frame.shuffle(columns.user))
    items = _in_order(ids)
    readable = Rounds(client, parts, _numbers(parts))
    partitions = readable.map(_partition, columns, readable.keep(items))
    del parts, readable
    rounds = Rounds(client, partitions, _numbers(partitions))
    counts = rounds.each_of(_counts)
    sums = counts[0][1]
    for _, more in counts[1:]:
        sums = sums + more
    return ClusterRatings(rounds, sum(n for n, _ in counts), items, sums, shuffled)


def _lines(client: Any, frame: Any) -> list[Any]:
    found: list[Any] = client.compute(frame.to_delayed())
    return found


def _numbers(parts: Sequence[Any]) -> list[Own]:
    return [Own(number, 0) for number in range(len(parts))]


def _apart(users: Sequence[NDArray[np.uint64]]) -> bool:
    """Whether every user is in one partition; taken as no where there are too many to look at."""
    total = sum(map(len, users))
    if len(users) < 2:
        return True
    return total <= _LOOKED_AT and len(distinct(np.concatenate(users))) == total


def _in_order(ids: Sequence[_Ids]) -> tuple[Any, ...]:
    """All items, in an order that does not depend on the partitions."""
    found = {item for one in ids for item in one.items}
    if not found:
        raise InvalidLabelsError("There are no ratings.")
    try:
        return tuple(sorted(found))
    except TypeError:
        return tuple(sorted(found, key=lambda item: (type(item).__name__, repr(item))))


# -- on a worker -------------------------------------------------------------------------------------------


def user_numbers(users: Sequence[Any]) -> NDArray[np.uint64]:
    """A number for each user id, the same in every process."""
    from pandas.util import hash_array

    ids = np.asarray(users) if all(isinstance(one, int) for one in users) else _objects(users)
    return np.asarray(hash_array(ids, categorize=False), dtype=np.uint64)


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _ids(frame: Any, own: Own, columns: RatingColumns) -> _Ids:
    users = user_numbers([_plain(one) for one in frame[columns.user].unique().tolist()])
    return _Ids(users, tuple(_plain(one) for one in frame[columns.item].unique().tolist()))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _partition(frame: Any, own: Own, columns: RatingColumns, items: tuple[Any, ...]) -> Partition:
    if len(frame) == 0:
        empty = ObservedLabels(
            np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8), (0, len(items)), row_names=()
        )
        return Partition(own.number, None, empty, np.zeros(0, np.uint64))
    labels = columns.read(own.number, frame)
    release_unused()
    assert labels.row_names is not None
    assert labels.label_names is not None
    # In an order that does not depend on that of the lines, which a shuffle may change.
    numbers = user_numbers(labels.row_names)
    order = np.argsort(numbers, kind="stable")
    place = {item: at for at, item in enumerate(items)}
    column = np.array([place[item] for item in labels.label_names], dtype=np.int64)
    row_of = np.empty(len(order), dtype=np.int64)
    row_of[order] = np.arange(len(order))
    sorted_labels = ObservedLabels.from_triplets(
        row_of[labels.rows],
        column[labels.indices],
        labels.values,
        shape=(len(order), len(items)),
        weights=labels.weights,
    )
    names = tuple(labels.row_names[at] for at in order.tolist())
    return Partition(own.number, None, replace(sorted_labels, row_names=names), numbers[order])


def _counts(part: Partition, own: Own) -> tuple[int, LabelSums]:
    return part.labels.shape[0], LabelSums.of(part.labels)
