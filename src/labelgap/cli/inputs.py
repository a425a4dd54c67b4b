"""Tables as the commands need them: for a fit, or matched to a model by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelgap import LowRankRegressor
from labelgap.cli.columns import Columns, sheet_names, with_ids
from labelgap.cli.models import LoadedModel
from labelgap.data.files import LabelTable, detect_format, read_label_table
from labelgap.data.files.arff_header import Attribute, Header, read_header
from labelgap.data.files.formats import SHEETS, read_text_bytes
from labelgap.exceptions import DataFileError, InvalidFeaturesError, InvalidLabelsError
from labelgap.labels import ObservedLabels

# Named in an error; more would bury what to do.
_NAMED = 10


class TrainingTable(NamedTuple):
    """What a fit to features needs, and the column that was taken for the ids."""

    X: Any
    labels: ObservedLabels
    feature_names: tuple[str, ...] | None
    ids: str | None


def read_training_table(
    path: Path, columns: Columns, format: str | None, *, unobserved: str | None, binary: bool
) -> TrainingTable:
    """Features and labels of a file, both of which must be there."""
    said = columns.labels is not None or columns.label_file is not None
    table = None
    # Where nobody says which columns are labels, text in one of them is not what is wrong.
    if said or detect_format(path, format) not in SHEETS:
        columns = with_ids(path, columns, format)
        table = read_table(path, columns, format, unobserved=unobserved, binary=binary)
    if table is None or table.labels is None:
        raise DataFileError(
            f"{path}: which columns are labels? Say it with --labels, as in --labels 'tag_*'."
        )
    if table.X is None:
        raise DataFileError(
            f"{path} has no features besides its labels. For users and items without features, see "
            "`labelgap fit --setting recommender`."
        )
    return TrainingTable(table.X, table.labels, table.feature_names, columns.ids)


def read_rows(
    model: LoadedModel, path: Path, ids: str | None, format: str | None
) -> tuple[Any, Sequence[Any], str]:
    """The features of a file in the order of the model, the ids of its rows, and what to call these.

    Without ``ids`` a column named id, in any case, is taken if there is one that is no feature.
    """
    kind = detect_format(path, format)
    columns = _feature_columns(model, path, kind, Columns(ids=ids))
    if kind == "arff":
        columns = replace(columns, labels=[])
    columns = with_ids(path, columns, format)
    # Labels are passed over: their number and their size do not matter.
    unobserved = "unlabelled" if kind == "xmc" else None
    table = read_table(path, columns, format, unobserved=unobserved, binary=kind == "xmc")
    X = _in_order(model, table, path, kind)
    if table.row_ids is None:
        return X, range(X.shape[0]), "row"
    return X, table.row_ids, columns.ids or "id"


def read_judged_table(
    model: LoadedModel, path: Path, columns: Columns, format: str | None, *, unobserved: str | None = None
) -> tuple[Any, ObservedLabels]:
    """The features and labels of a file in the order of the model; other columns are passed over.

    ``unobserved`` says what a label that is absent from an xmc file means.
    """
    kind = detect_format(path, format)
    columns = _feature_columns(model, path, kind, columns)
    columns = _label_columns(model, path, kind, columns)
    if columns.second_file is not None:
        columns = with_ids(path, columns, format)
    if unobserved is None and getattr(model.estimator, "unobserved", None) == "unlabelled":
        unobserved = "unlabelled"
    table = read_table(
        path,
        columns,
        format,
        # In other formats a blank is kept as such, and read by whoever judges.
        unobserved=unobserved if kind == "xmc" else None,
        binary=not isinstance(model.estimator, LowRankRegressor),
    )
    if table.labels is None:
        raise DataFileError(f"{path} has no labels to judge by. Say where they are with --labels.")
    X = _in_order(model, table, path, kind)
    return X, _labels_in_order(model, table.labels, columns.second_file or path, kind)


def read_table(
    path: Path, columns: Columns, format: str | None, *, unobserved: str | None, binary: bool
) -> LabelTable:
    """The chosen columns of a file."""
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


def read_arff_header(path: Path) -> tuple[Header, int]:
    """The header of an ARFF file, and how many lines follow it."""
    lines = read_text_bytes(path).decode("utf-8").split("\n")
    header = read_header(path, lines)
    return header, sum(1 for line in lines[header.lines :] if line.partition("%")[0].strip())


def feature_titles(attribute: Attribute) -> list[str]:
    """The features that an attribute becomes: one for each value where these are no numbers."""
    if attribute.is_number:
        return [attribute.name]
    return [f"{attribute.name}={value}" for value in attribute.values]


# -- columns of the model ----------------------------------------------------------------------------------


def _feature_columns(model: LoadedModel, path: Path, kind: str, columns: Columns) -> Columns:
    """Only the features of the model, where file and model have names."""
    wanted = model.feature_names
    if wanted is None:
        return columns
    if kind in SHEETS:
        _refuse_missing(path, wanted, sheet_names(path, kind))
        return replace(columns, features=list(wanted))
    if kind == "arff":
        header, _ = read_arff_header(path)
        titles = {attribute.name: feature_titles(attribute) for attribute in header.attributes}
        _refuse_missing(path, wanted, [title for some in titles.values() for title in some])
        kept = [name for name, some in titles.items() if not set(wanted).isdisjoint(some)]
        return replace(columns, features=kept)
    return columns


def _label_columns(model: LoadedModel, path: Path, kind: str, columns: Columns) -> Columns:
    """The labels of the model, where file and model have names and nobody says which ones they are."""
    wanted = model.label_names
    second = columns.second_file
    if wanted is None or columns.labels is not None or (columns.label_file is not None and second is None):
        return columns
    place, kind = (path, kind) if second is None else (second, detect_format(second))
    if kind in SHEETS:
        _refuse_missing(place, wanted, sheet_names(place, kind), what="labels")
    elif kind == "arff":
        header, _ = read_arff_header(place)
        _refuse_missing(place, wanted, [attribute.name for attribute in header.attributes], what="labels")
    else:
        return columns
    return replace(columns, labels=list(wanted))


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


# -- the order of the model --------------------------------------------------------------------------------


def _in_order(model: LoadedModel, table: LabelTable, path: Path, kind: str) -> Any:
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
    X, expected = table.X, int(model.estimator.n_features_in_)
    if kind == "xmc" and X.shape[1] < expected:
        # Such a file is as wide as the last feature in it.
        return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], expected))
    if X.shape[1] != expected:
        raise InvalidFeaturesError(
            f"{path} has {X.shape[1]} features, and the model was fitted to {expected}."
        )
    return X


def _labels_in_order(model: LoadedModel, labels: ObservedLabels, path: Path, kind: str) -> ObservedLabels:
    """The labels as the model had them: by name where both have names, else by place."""
    wanted = model.label_names
    if wanted is not None and labels.label_names is not None:
        found = tuple(map(str, labels.label_names))
        return labels if found == wanted else _reordered(labels, found, wanted, path)
    expected = int(model.estimator.n_labels_)
    if kind == "xmc" and labels.shape[1] < expected:
        yes = labels.select(labels.values == 1)
        ones = sp.csr_array((yes.values, yes.indices, yes.indptr), shape=(labels.shape[0], expected))
        return ObservedLabels.from_sparse(ones, labels.unobserved)
    if labels.shape[1] != expected:
        raise InvalidLabelsError(
            f"{path} has {labels.shape[1]} labels, and the model was fitted to {expected}."
        )
    return labels


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
