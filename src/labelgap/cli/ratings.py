"""Ratings of users about items, with ids as the model has them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from labelgap import Recommender
from labelgap._names import listed
from labelgap.cli.choices import refuse_unused_time
from labelgap.cli.options import Aggregate
from labelgap.cli.rating_checks import count_pairs
from labelgap.cli.session import Session
from labelgap.data.files import AnswerTable
from labelgap.data.files.rating_files import read_ratings_from
from labelgap.data.files.source import Source
from labelgap.exceptions import UnknownIdError

NO_VALUES = "none"
"""What --value says where no column holds ratings and each line is a like."""
_USUAL_TIME = "timestamp"


def read_ratings_file(
    source: Source, user: str | None, item: str | None, value: str | None, time: str | None = None
) -> AnswerTable:
    """The ratings in a file, with times if their column is named; other columns have the usual names."""
    likes_only = is_without_values(source, value)
    column = None if likes_only else value or "value"
    table = read_ratings_from(source, user or "user", item or "item", column, time)
    # MovieLens files without a header are read as they are.
    return replace(table, values=None) if likes_only else table


def times_of(source: Source, time: str | None, aggregate: str | None, half_life: float | None) -> str | None:
    """The column of times that a recommender with these parameters reads; None for none."""
    if half_life is None and aggregate != "last":
        return None
    if time is not None or half_life is not None:
        return time or _USUAL_TIME
    # The last rating goes by the order of the lines where there are no times.
    names: Any = {_USUAL_TIME}
    if source.is_sheet:
        names = {*source.sheet.names, *source.sheet.index_names}
    elif source.kind == "npz":
        names = source.archive
    return _USUAL_TIME if _USUAL_TIME in names else None


def use_events(
    model: Recommender, aggregate: Aggregate | None, time: str | None, half_life: float | None
) -> None:
    """Let a loaded model read events as the options say, where they say something."""
    how = None if aggregate is None else aggregate.value
    given = {"aggregate": how, "time": time, "half_life": half_life}
    model.set_params(**{name: value for name, value in given.items() if value is not None})
    refuse_unused_time(time, model.aggregate, model.half_life)


def is_without_values(source: Source, value: str | None) -> bool:
    """Whether --value says none, and means that each line is a like and not a column of that name."""
    if value is None or value.lower() != NO_VALUES:
        return False
    return not (source.is_sheet and value in source.sheet.names)


def read_judged_ratings(
    model: Recommender, source: Source, user: str | None, item: str | None, value: str | None
) -> AnswerTable:
    """As :func:`read_ratings_file`, with the ids and, where none are named, the columns of the model."""
    user, item, value = _columns(model, source, user=user, item=item, value=value)
    time = times_of(
        source, None if model.time == _USUAL_TIME else model.time, model.aggregate, model.half_life
    )
    table = read_ratings_file(source, user, item, value, time)
    count_pairs(source, table, model.positive, model.aggregate)
    users, items = own_ids(model.user_ids_, table.users), own_ids(model.item_ids_, table.items)
    return AnswerTable(users, items, table.values, table.times)


def read_pairs(model: Recommender, source: Source, user: str | None, item: str | None) -> tuple[Any, Any]:
    """Pairs of users and items with the ids of the model; other columns are ignored."""
    user, item = _columns(model, source, user=user, item=item)
    table = read_ratings_from(source, user or "user", item or "item", None)
    return own_ids(model.user_ids_, table.users), own_ids(model.item_ids_, table.items)


def _columns(model: Recommender, source: Source, **named: str | None) -> list[str | None]:
    """The columns that are named, or else those of the fit, where the file has such."""
    there: set[str] = set()
    if source.is_sheet:
        there = {*source.sheet.names, *source.sheet.index_names}
    elif source.kind == "npz":
        there = {str(getattr(model, what)) for what in named if getattr(model, what) in source.archive}
    fitted = {what: getattr(model, what) for what in named}
    if fitted.get("value", "") is None and source.is_sheet and not there & {"value", "rating"}:
        # The model was fitted to likes, and this file has nothing else either.
        named["value"] = named["value"] or NO_VALUES
    return [given or (fitted[what] if fitted[what] in there else None) for what, given in named.items()]


def own_ids(known: Sequence[Any], read: Any) -> Any:
    """Ids as the model has them: 7 in a file of numbers is the '7' of a file that had other texts, too.

    Examples
    --------
    >>> own_ids(["7", "x"], np.array([7, 8])).tolist()
    ['7', 8]
    """
    ids, there = read.tolist(), set(known)
    if there.issuperset(ids):
        return read
    by_text = {str(one): one for one in known}
    mapped = np.empty(len(ids), dtype=object)
    mapped[:] = [one if one in there else by_text.get(str(one), one) for one in ids]
    return mapped


def known_ratings(session: Session, model: Recommender, table: AnswerTable) -> AnswerTable:
    """The ratings of known users about known items; a warning says how many others there are."""
    kept = _known(session, model, table.users, table.items)
    return table.take(kept)


def known_pairs(session: Session, model: Recommender, users: Any, items: Any) -> tuple[Any, Any]:
    """The pairs of known users and known items; a warning says how many others there are."""
    kept = _known(session, model, users, items)
    return users[kept], items[kept]


def warn_of_unknown(session: Session, model: Recommender, users: Any, items: Any) -> None:
    """Say how many lines have a user or an item that is not known, and that they are judged as average."""
    strange = int(np.sum(~_are_known(model, users, items)))
    if strange:
        session.warn(
            f"{strange} of {len(users)} lines have a user or an item that the model does not know; these get "
            "the scores of the average user or item. Leave them out with --skip-unknown."
        )


def _are_known(model: Recommender, users: Any, items: Any) -> Any:
    known_users, known_items = set(model.user_ids_), set(model.item_ids_)
    pairs = zip(users.tolist(), items.tolist(), strict=True)
    return np.array([user in known_users and item in known_items for user, item in pairs], dtype=np.bool_)


def _known(session: Session, model: Recommender, users: Any, items: Any) -> Any:
    kept = _are_known(model, users, items)
    left_out = int(len(kept) - kept.sum())
    if left_out:
        known_users, known_items = set(model.user_ids_), set(model.item_ids_)
        unknown = {
            "users": [one for one in dict.fromkeys(users.tolist()) if one not in known_users],
            "items": [one for one in dict.fromkeys(items.tolist()) if one not in known_items],
        }
        named = "; ".join(f"{what} {listed(ids)}" for what, ids in unknown.items() if ids)
        session.warn(
            f"{left_out} of {len(kept)} lines have a user or an item that the model does not know: {named}."
        )
    if left_out == len(kept):
        raise UnknownIdError("No line has a user and an item that the model knows.")
    return kept


def find_ids(known: Sequence[Any], asked: Iterable[str], what: str) -> list[Any]:
    """Ids as the model has them, from what was typed: 7 finds the number 7 as well as the text."""
    by_text = {str(one): one for one in known}
    found = []
    for text in asked:
        if text not in by_text:
            near = difflib.get_close_matches(text, by_text, n=3)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise UnknownIdError(f"The model knows no {what} {text!r}.{hint}")
        found.append(by_text[text])
    return found
