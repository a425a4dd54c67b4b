"""Files as the commands need them: models, tables matched to a model by name, answers of users."""

from __future__ import annotations

import difflib
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import labelgap
from labelgap import Recommender
from labelgap.cli.session import Session
from labelgap.data.files import (
    AnswerTable,
    LabelTable,
    detect_format,
    read_answer_file,
    read_label_table,
)
from labelgap.data.files.cells import open_sheet
from labelgap.data.files.formats import SHEETS
from labelgap.exceptions import DataFileError, InvalidFeaturesError, UnknownIdError
from labelgap.labels import ObservedLabels

_ANSWER_FORMATS = ("movielens",)
# Named in an error; more would bury what to do.
_NAMED = 10


# -- models ------------------------------------------------------------------------------------------------


class LoadedModel(NamedTuple):
    """A fitted estimator that takes plain arrays, with the names that its features have in files."""

    estimator: Any
    feature_names: tuple[str, ...] | None
    path: Path


def load_model(path: Path) -> LoadedModel:
    """The model that was saved there."""
    estimator = labelgap.load(path)
    names = estimator.__dict__.pop("feature_names_in_", None)
    return LoadedModel(estimator, None if names is None else tuple(map(str, names)), path)


def is_model_file(path: Path) -> bool:
    """Whether the file is one of labelgap's own, as far as its table of contents says."""
    if path.suffix == ".labelgap":
        return True
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "labelgap" in archive.namelist()


# -- tables ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what, as names and patterns."""

    labels: str | list[str] | None = None
    features: str | list[str] | None = None
    ids: str | None = None
    drop: str | list[str] | None = None
    label_file: Path | None = None


class TrainingTable(NamedTuple):
    """What a fit to features needs."""

    X: Any
    labels: ObservedLabels
    feature_names: tuple[str, ...] | None


def holds_answers(path: Path, format: str | None) -> bool:
    """Whether files of this format hold answers of users about items."""
    return detect_format(path, format) in _ANSWER_FORMATS


def read_training_table(
    path: Path, columns: Columns, format: str | None, *, unobserved: str | None, binary: bool
) -> TrainingTable:
    """Features and labels of a file, both of which must be there."""
    said = columns.labels is not None or columns.label_file is not None
    table = None
    # Where nobody says which columns are labels, text in one of them is not what is wrong.
    if said or detect_format(path, format) not in SHEETS:
        table = _read(path, columns, format, unobserved, binary)
    if table is None or table.labels is None:
        raise DataFileError(
            f"{path}: which columns are labels? Say it with --labels, as in --labels 'tag_*'."
        )
    if table.X is None:
        raise DataFileError(
            f"{path} has no features besides its labels. For users and items without features, see "
            "`labelgap fit --setting recommender`."
        )
    return TrainingTable(table.X, table.labels, table.feature_names)


def read_rows(
    model: LoadedModel, path: Path, ids: str | None, format: str | None
) -> tuple[Any, Sequence[Any], str]:
    """The features of a file in the order of the model, the ids of its rows, and what to call these.

    Without ``ids`` a column named id, in any case, is taken if there is one that is no feature.
    """
    if detect_format(path, format) in SHEETS and model.feature_names is not None:
        names = _sheet_names(path, format)
        _refuse_missing(path, model.feature_names, names)
        chosen = ids or _id_column(names, model.feature_names)
        columns = Columns(features=list(model.feature_names), ids=chosen)
        table = _read(path, columns, format, None, binary=True)
    else:
        chosen = ids
        table = _read(path, Columns(ids=ids), format, None, binary=False)
    X = _in_order(model, table, path)
    if table.row_ids is None:
        return X, range(X.shape[0]), "row"
    return X, table.row_ids, chosen or "id"


def read_judged_table(
    model: LoadedModel,
    path: Path,
    labels: str | list[str] | None,
    label_file: Path | None,
    format: str | None,
    *,
    binary: bool = True,
    unobserved: str | None = None,
) -> tuple[Any, ObservedLabels]:
    """The features and labels of a file in the order of the model; other columns are passed over."""
    wanted = _label_names(model)
    columns = Columns(labels=labels, label_file=label_file)
    if detect_format(path, format) in SHEETS and model.feature_names is not None:
        names = _sheet_names(path, format)
        _refuse_missing(path, model.feature_names, names)
        if labels is None and label_file is None and wanted is not None:
            _refuse_missing(path, wanted, names, what="labels")
            labels = list(wanted)
        columns = Columns(labels, list(model.feature_names), label_file=label_file)
    table = _read(path, columns, format, unobserved, binary)
    if table.labels is None:
        raise DataFileError(f"{path} has no labels to judge by. Say where they are with --labels.")
    known = table.labels
    found = known.label_names
    if wanted is not None and found is not None and tuple(map(str, found)) != wanted:
        known = _reordered(known, tuple(map(str, found)), wanted, path)
    return _in_order(model, table, path), known


def _read(
    path: Path, columns: Columns, format: str | None, unobserved: str | None, binary: bool
) -> LabelTable:
    return read_label_table(
        path,
        labels=columns.labels,
        features=columns.features,
        ids=columns.ids,
        drop=columns.drop or (),
        label_file=columns.label_file,
        format=format,
        binary=binary,
        unobserved=unobserved,
    )


def _sheet_names(path: Path, format: str | None) -> tuple[str, ...]:
    return open_sheet(path, detect_format(path, format)).names


def _id_column(names: Iterable[str], features: Sequence[str]) -> str | None:
    return next((name for name in names if name.lower() == "id" and name not in features), None)


def _label_names(model: LoadedModel) -> tuple[str, ...] | None:
    names = getattr(model.estimator, "label_names_", None)
    return None if names is None else tuple(map(str, names))


def _refuse_missing(path: Path, wanted: Sequence[str], found: Iterable[str], what: str = "features") -> None:
    there = set(found)
    missing = [name for name in wanted if name not in there]
    if not missing:
        return
    listed = ", ".join(map(repr, missing[:_NAMED]))
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    raise DataFileError(
        f"{path} lacks {len(missing)} of the {len(wanted)} {what} of the model: {listed}{more}."
    )


def _in_order(model: LoadedModel, table: LabelTable, path: Path) -> Any:
    """The columns of X as the model had them: by name where both have names, else by place."""
    if table.X is None:
        raise DataFileError(f"{path} has no features, and the model decides by features.")
    wanted, found = model.feature_names, table.feature_names
    if wanted is not None and found is not None:
        if found == wanted:
            return table.X
        _refuse_missing(path, wanted, found)
        place = {name: at for at, name in enumerate(found)}
        return table.X[:, [place[name] for name in wanted]]
    expected = int(model.estimator.n_features_in_)
    if table.X.shape[1] != expected:
        raise InvalidFeaturesError(
            f"{path} has {table.X.shape[1]} features, and the model was fitted to {expected}."
        )
    return table.X


def _reordered(
    labels: ObservedLabels, found: tuple[str, ...], wanted: tuple[str, ...], path: Path
) -> ObservedLabels:
    _refuse_missing(path, wanted, found, what="labels")
    place = {name: at for at, name in enumerate(wanted)}
    new = np.array([place.get(name, -1) for name in found], dtype=np.int64)[labels.cols]
    kept = new >= 0
    return ObservedLabels.from_triplets(
        labels.rows[kept],
        new[kept],
        labels.values[kept],
        shape=(labels.shape[0], len(wanted)),
        row_names=labels.row_names,
        label_names=wanted,
        binary=labels.values.dtype == np.int8,
    )


def look_at(
    path: Path, labels: str | list[str] | None, ids: str | None, format: str | None
) -> dict[str, Any]:
    """What a data file holds; the labels themselves, if any, under "known"."""
    kind = detect_format(path, format)
    if holds_answers(path, format):
        answers = read_answer_file(path, format=format)
        facts: dict[str, Any] = {
            "format": kind,
            "answers": len(answers),
            "users": len(set(answers.users.tolist())),
            "items": len(set(answers.items.tolist())),
        }
        if answers.values is not None:
            facts |= {"lowest": float(answers.values.min()), "highest": float(answers.values.max())}
        return facts
    if kind in SHEETS and labels is None:
        sheet = open_sheet(path, kind)
        first = sheet.read([], list(sheet.names[:1]))
        return {"format": kind, "rows": len(first[sheet.names[0]]), "columns": list(sheet.names)}
    table = _read(path, Columns(labels, ids=ids), format, None, binary=False)
    rows = table.X.shape[0] if table.X is not None else len(table.labels or ())
    facts = {"format": kind, "rows": rows, "features": 0 if table.X is None else table.X.shape[1]}
    if table.labels is not None:
        known = table.labels
        cells = known.shape[0] * known.shape[1]
        facts |= {
            "labels": known.shape[1],
            "cells": cells,
            "observed": known.n_observed,
            "above_0": int(np.sum(known.values > 0)),
            "known": known,
        }
    return facts


# -- answers -----------------------------------------------------------------------------------------------


def read_answers_file(
    path: Path, user: str | None, item: str | None, value: str | None, format: str | None
) -> AnswerTable:
    """Answers of users about items; columns that were not named have the names that are usual."""
    return read_answer_file(
        path, user=user or "user", item=item or "item", value=value or "value", format=format
    )


def read_pairs(path: Path, user: str | None, item: str | None, format: str | None) -> tuple[Any, Any]:
    """Pairs of users and items, whatever else the lines hold."""
    table = read_answer_file(path, user=user or "user", item=item or "item", value=None, format=format)
    return table.users, table.items


def known_answers(session: Session, model: Recommender, table: AnswerTable) -> AnswerTable:
    """The answers of known users about known items; how many others there are is told."""
    kept = _known(session, model, table.users, table.items)
    values = None if table.values is None else table.values[kept]
    return AnswerTable(table.users[kept], table.items[kept], values)


def known_pairs(session: Session, model: Recommender, users: Any, items: Any) -> tuple[Any, Any]:
    """The pairs of known users and known items; how many others there are is told."""
    kept = _known(session, model, users, items)
    return users[kept], items[kept]


def _known(session: Session, model: Recommender, users: Any, items: Any) -> Any:
    known_users, known_items = set(model.user_ids_), set(model.item_ids_)
    pairs = zip(users.tolist(), items.tolist(), strict=True)
    kept = np.array([user in known_users and item in known_items for user, item in pairs], dtype=np.bool_)
    left_out = int(len(kept) - kept.sum())
    if left_out:
        session.warn(f"{left_out} of {len(kept)} lines have a user or an item that the model does not know.")
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
