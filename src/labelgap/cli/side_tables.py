"""Tables of users and items for the commands about ratings: features for a fit, titles for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labelgap import Recommender
from labelgap.cli.choices import refuse
from labelgap.cli.session import Session
from labelgap.data.files import AnswerTable, SideTable, read_side_table
from labelgap.exceptions import InvalidParameterError, UnknownIdError


@dataclass(frozen=True)
class TableFile:
    """A table of items or users as the options of a command name it."""

    what: str
    """"item" or "user"."""
    path: Path | None
    encoding: str | None = None

    def __post_init__(self) -> None:
        alone = self.path is None and self.encoding is not None
        refuse(
            alone, f"--{self.what}s-encoding", f"it is about the table of --{self.what}s, and there is none"
        )

    def read(self, session: Session, **settings: Any) -> SideTable:
        """The table; ``settings`` are those of ``read_side_table``."""
        assert self.path is not None
        return read_side_table(
            self.path,
            self.what,
            encoding=self.encoding,
            max_unpacked_mb=session.max_unpacked,
            **settings,
        )


@dataclass(frozen=True)
class Sides:
    """What tables of users and items say, under the ids of the ratings."""

    features: dict[str, Any]
    """``item_features`` and ``user_features``, where there are some."""
    titles: dict[Any, str] | None
    facts: dict[str, Any]
    """What is printed about the tables."""


def read_sides(session: Session, ratings: AnswerTable, given: Mapping[str, Any]) -> Sides:
    """The tables that were given to a fit to these ratings."""
    features: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    titles = None
    for what, rated in (("item", ratings.items), ("user", ratings.users)):
        file = TableFile(what, given[f"{what}s"], given[f"{what}s_encoding"])
        path = file.path
        if path is None:
            continue
        table = file.read(session, id=given[what])
        ids = _as_rated(table.ids, rated.tolist())
        if not set(ids) & set(rated.tolist()):
            raise UnknownIdError(
                f"{path} has none of the {what}s with ratings; the first here is {ids[0]!r}, and there "
                f"{rated[0]!r}."
            )
        if table.names:
            features[f"{what}_features"] = _complete(session, path, table, ids, rated.tolist(), what)
            facts[f"{what} features"] = _counted(table)
        if what == "item" and table.titles is not None:
            titles = {
                ids[at]: table.titles[name] for at, name in enumerate(table.ids) if name in table.titles
            }
    return Sides(features, titles, facts)


def read_titles(session: Session, file: TableFile, known: Iterable[Any]) -> dict[Any, str]:
    """The titles of a table of items, under the ids of a model."""
    table = file.read(session)
    return _titles(table, _as_rated(table.ids, known))


def _titles(table: SideTable, ids: list[Any]) -> dict[Any, str]:
    titles = table.titles or {}
    return {ids[at]: titles[name] for at, name in enumerate(table.ids) if name in titles}


def _as_rated(ids: Iterable[Any], rated: Iterable[Any]) -> list[Any]:
    """Ids as the ratings have them: 7 here is the '7' there."""
    by_text = {str(one): one for one in rated}
    return [by_text.get(str(one), one) for one in ids]


def _complete(
    session: Session, path: Path, table: SideTable, ids: list[Any], rated: Iterable[Any], what: str
) -> SideTable:
    """The table under the ids of the ratings; those that are rated and have no row get the means."""
    there = set(ids)
    absent = [one for one in dict.fromkeys(rated) if one not in there]
    if absent:
        session.warn(
            f"{path} has no row for {len(absent)} of the {what}s with ratings (the first: {absent[0]!r}); "
            "they get the mean of each feature."
        )
    means = np.tile(table.rows.mean(axis=0), (len(absent), 1))
    return replace(table, ids=(*ids, *absent), rows=np.vstack([table.rows, means]))


def with_new_users(session: Session, model: Recommender, file: TableFile) -> tuple[Recommender, list[Any]]:
    """A recommender that knows the users of a table, by their features, and these users."""
    names = model._users.names
    if names is None:
        raise InvalidParameterError(
            "The model was fitted without a table of users (labelgap fit --users), so features of new users "
            "say nothing to it."
        )
    table = file.read(session, names=names)
    ids = _as_rated(table.ids, model.user_ids_)
    known = set(model.user_ids_)
    new = {name: row for name, row in zip(ids, table.rows, strict=True) if name not in known}
    return (model.fold_in(user_features=new) if new else model), ids


def read_more_sides(
    session: Session, model: Recommender, ratings: AnswerTable, given: Mapping[str, TableFile]
) -> tuple[dict[str, Any], dict[Any, str]]:
    """Features of new users and items as ``Recommender.partial_fit`` takes them, and titles of items.

    ``given`` are the tables of "item" and "user". New ones without a row get the mean of each feature.
    """
    features: dict[str, Any] = {}
    titles: dict[Any, str] = {}
    sides = {
        "item": (model._items, model.item_ids_, ratings.items),
        "user": (model._users, model.user_ids_, ratings.users),
    }
    for what, (side, known, rated) in sides.items():
        path, there = given[what].path, set(known)
        new = [one for one in dict.fromkeys(rated.tolist()) if one not in there]
        rows: dict[Any, Any] = {}
        if path is not None:
            table = given[what].read(session, names=side.names)
            ids = _as_rated(table.ids, [*known, *new])
            if side.matrix is not None:
                rows = {name: row for name, row in zip(ids, table.rows, strict=True) if name not in there}
            if what == "item":
                titles = _titles(table, ids)
        if side.matrix is None:
            if path is not None and not titles:
                raise InvalidParameterError(
                    f"The model was fitted without a table of {what}s (labelgap fit --{what}s), so features "
                    f"of new {what}s say nothing to it. Leave --{what}s out."
                )
            continue
        absent = [one for one in new if one not in rows]
        if absent:
            session.warn(
                f"There is no row of features for {len(absent)} new {what}s (the first: {absent[0]!r}); they "
                f"get the mean of each feature. Give a table that has them with --{what}s."
            )
            rows |= dict.fromkeys(absent, side.mean)
        if rows:
            features[f"{what}_features"] = rows
    return features, titles


def _counted(table: SideTable) -> str:
    ignored = f"; not used: {', '.join(table.ignored)}" if table.ignored else ""
    return f"{len(table.names)} of {len(table.ids)} rows{ignored}"
