"""What is wrong with the ratings of a file, told by its lines before a model sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap import Recommender
from labelgap.data.files import AnswerTable
from labelgap.data.files.source import Source
from labelgap.exceptions import DataFileError, UnknownIdError
from labelgap.recommending.ids import number_ids


def count_pairs(source: Source, table: AnswerTable, positive: Any, aggregate: str | None = None) -> int:
    """How many pairs of a user and an item are rated; raises where two ratings of a pair contradict.

    ``positive`` is the rule for likes. Two ratings that are both likes, or both dislikes, count once. With
    ``aggregate`` several of a pair are no contradiction.
    """
    found = _pairs(table)
    # In place: a file may have very many ratings.
    found.sort()
    count = len(found) - int(np.count_nonzero(found[1:] == found[:-1]))
    if aggregate is None and count < len(found) and table.values is not None and not callable(positive):
        _refuse_contradictions(source, table, _pairs(table), positive)
    return count


def _pairs(table: AnswerTable) -> NDArray[np.int64]:
    """One number for each pair of a user and an item, by rating."""
    pairs, _ = number_ids(table.users, "user")
    items, names = number_ids(table.items, "item")
    pairs *= len(names)
    pairs += items
    return pairs


def _refuse_contradictions(source: Source, table: AnswerTable, pairs: Any, positive: float | None) -> None:
    assert table.values is not None
    order = np.argsort(pairs, kind="stable")
    values = table.values[order]
    likes = values == 1 if positive is None else values >= positive
    wrong = np.flatnonzero((pairs[order][1:] == pairs[order][:-1]) & (likes[1:] != likes[:-1]))
    if not len(wrong):
        return
    one, other = int(order[wrong[0]]), int(order[wrong[0] + 1])
    user, item = table.users[one], table.items[one]
    raise DataFileError(
        f"{source.path}: there are two ratings of item {_shown(item)} by user {_shown(user)}, "
        f"{table.values[one]:g} in {source.place(one)} and {table.values[other]:g} in {source.place(other)}. "
        "One of them is a like and the other is none; keep one of the two, or say with --aggregate what "
        "becomes of several, such as plays: sum, mean, max or last."
    )


def check_likes(source: Source, table: AnswerTable, positive: float | None, unobserved: str | None) -> None:
    """Raise if --positive makes all ratings dislikes, or all of them likes where dislikes are needed."""
    values = table.values
    if positive is None or values is None or not len(values):
        return
    between = f"The ratings are from {values.min():g} to {values.max():g}"
    if values.max() < positive:
        raise DataFileError(
            f"{source.path}: no rating is {positive:g} or more, so none is a like. {between}: choose another "
            "value for --positive."
        )
    if values.min() >= positive and unobserved in (None, "missing"):
        raise DataFileError(
            f"{source.path}: every rating is {positive:g} or more, so all are likes and nothing can be "
            f"learned about dislikes. {between}: choose another value for --positive. If all of them are "
            "likes, say --for recommend, which learns from the items that a user has not rated."
        )


def refuse_unknown(source: Source, model: Recommender, users: Any, items: Any) -> None:
    """Raise for the first line with a user or an item that the model does not know."""
    for what, known, given in (("user", model.user_ids_, users), ("item", model.item_ids_, items)):
        there = set(known)
        row = next((row for row, one in enumerate(given.tolist()) if one not in there), None)
        if row is not None:
            raise UnknownIdError(
                f"{source.path}, {source.place(row)}: the {what} {_shown(given[row])} is not among the "
                f"{len(there)} {what}s that the model knows. Say --unknown average to judge it as the "
                f"average {what}, or --skip-unknown to leave out such lines. To add new users and items to "
                "the model, give labelgap update ratings of theirs."
            )


def _shown(name: Any) -> str:
    return repr(name.item() if isinstance(name, np.generic) else name)
