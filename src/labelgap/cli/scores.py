"""Scores and labels of two tables, or of two columns of one, brought together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labelgap._types import Floats
from labelgap.data.files import detect_format, read_label_table, read_numbers
from labelgap.data.files.cells import open_sheet
from labelgap.data.files.formats import SHEETS
from labelgap.exceptions import DataFileError
from labelgap.labels import ObservedLabels


class Scored(NamedTuple):
    """Scores and what is known, row by row and column by column."""

    scores: Floats
    labels: ObservedLabels
    names: tuple[str, ...]
    ids: Sequence[Any]
    id_name: str


class _Numbers(NamedTuple):
    names: tuple[str, ...]
    values: Floats
    ids: tuple[Any, ...] | None
    id_name: str


def read_scores(
    scores: Path, labels: Path, ids: str | None, format: str | None, warn: Callable[[str], None]
) -> Scored:
    """Scores with the labels of the columns of the same names.

    Rows belong together by their ids where both tables have them, else by their order. Labels of rows without
    scores are passed over, which ``warn`` is told.
    """
    given = _read(scores, ids, format)
    known = _read(labels, ids, format, only=given.names)
    n = len(given.values)
    if given.ids is not None and known.ids is not None:
        values = _by_id(given.ids, known, scores, labels, warn)
    elif len(known.values) == n:
        values = known.values
    else:
        raise DataFileError(
            f"{scores} has {n} rows and {labels} has {len(known.values)}. Rows belong together by their "
            "order unless both tables have a column of ids; name it with --id."
        )
    return _scored(given, values)


def read_column_pair(path: Path, score: str, label: str, ids: str | None, format: str | None) -> Scored:
    """One column of scores and one of labels, of the same table."""
    given = _read(path, ids, format, only=(score,))
    known = _read(path, ids, format, only=(label,))
    return _scored(given, known.values)


def _scored(given: _Numbers, values: Floats) -> Scored:
    labels = ObservedLabels.from_dense(values, label_names=given.names)
    rows = range(len(given.values)) if given.ids is None else given.ids
    return Scored(given.values, labels, given.names, rows, given.id_name)


def _read(path: Path, ids: str | None, format: str | None, only: tuple[str, ...] | None = None) -> _Numbers:
    """Columns of numbers, ``only`` these and in their order, NaN where nothing is known."""
    kind = detect_format(path, format)
    if kind not in SHEETS:
        names, values = read_numbers(path, format=format)
        _refuse_other_names(path, names, only)
        order = list(range(len(names))) if only is None else [names.index(name) for name in only]
        return _Numbers(only or names, values[:, order], None, "row")
    sheet = open_sheet(path, kind)
    found, named = sheet.names, (*sheet.names, *sheet.index_names)
    chosen = ids or next((name for name in named if name.lower() == "id" and name not in (only or ())), None)
    _refuse_other_names(path, found, only)
    wanted = list(only) if only is not None else [name for name in found if name != chosen]
    table = read_label_table(path, labels=wanted, features=(), ids=chosen, format=format, binary=False)
    assert table.labels is not None
    names = tuple(map(str, table.labels.label_names or ()))
    values = table.labels.to_dense()[:, [names.index(name) for name in wanted]]
    return _Numbers(tuple(wanted), values, table.row_ids, chosen or "row")


def _refuse_other_names(path: Path, found: Sequence[str], wanted: tuple[str, ...] | None) -> None:
    missing = [name for name in wanted or () if name not in found]
    if missing:
        raise DataFileError(
            f"{path} has no column {_listed(missing)}, which the scores are about; it has {_listed(found)}."
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _by_id(
    rows: tuple[Any, ...], known: _Numbers, scores: Path, labels: Path, warn: Callable[[str], None]
) -> Floats:
    """The labels in the order of the rows; NaN in rows that they lack."""
    assert known.ids is not None
    at = {str(one): place for place, one in enumerate(known.ids)}
    for path, ids in ((scores, rows), (labels, known.ids)):
        if len(set(map(str, ids))) < len(ids):
            raise DataFileError(f"{path}: the ids in its column {known.id_name!r} are not all different.")
    places = np.array([at.get(str(one), -1) for one in rows], dtype=np.int64)
    used = int(np.sum(places >= 0))
    if used == 0:
        raise DataFileError(f"{scores} and {labels} have no id in common in their columns of ids.")
    if used < len(known.ids):
        warn(
            f"{len(known.ids) - used} of {len(known.ids)} rows of {labels} have no scores; they are not used."
        )
    values = known.values[places]
    values[places < 0] = np.nan
    return values
