"""Tables as the commands need them: for a fit, or matched by name to a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelgap import LowRankRegressor
from labelgap._names import listed
from labelgap.cli.models import LoadedModel
from labelgap.cli.preparing import plan_of, prepared
from labelgap.cli.session import Session
from labelgap.data.files import LabelTable
from labelgap.data.files.choosing import split_patterns
from labelgap.data.files.formats import PathLike
from labelgap.data.files.ids import repeated_ids
from labelgap.data.files.rating_hints import rating_options
from labelgap.data.files.reading import Columns, read_table_from
from labelgap.data.files.source import Source
from labelgap.estimators.description import fitted_meaning
from labelgap.exceptions import (
    DataFileError,
    InvalidFeaturesError,
    InvalidLabelsError,
    InvalidParameterError,
)
from labelgap.labels import ObservedLabels
from labelgap.labels.matching import as_kept

# How many names an error lists; more would hide what to do.
_NAMED = 10


class TrainingTable(NamedTuple):
    """What a fit to features needs, and the column that was taken for the ids."""

    X: Any
    labels: ObservedLabels
    feature_names: tuple[str, ...] | None
    ids: str | None
    row_ids: tuple[Any, ...] | None


def read_training_table(
    source: Source, columns: Columns, *, unobserved: str | None, binary: bool
) -> TrainingTable:
    """Features and labels of a file, both of which must be there."""
    said = not (columns.labels is None and columns.label_source is None and columns.label_xml is None)
    table = None
    # Without labels the error is about them, and not about text in a column that was taken for a feature.
    if said or not source.is_sheet:
        columns = with_ids(source, columns)
        table = read_table_from(source, columns, unobserved=unobserved, binary=binary)
    if table is None or table.labels is None:
        raise DataFileError(
            f"{source.path}: which columns are labels? Say it with --labels, as in --labels 'tag_*'."
            f"{_or_ratings(source)}"
        )
    if table.X is None:
        raise DataFileError(
            f"{source.path} has no features besides its labels. For users and items without features, see "
            "`labelgap fit --setting recommender`."
        )
    return TrainingTable(table.X, table.labels, table.feature_names, columns.ids, table.row_ids)


def _or_ratings(source: Source) -> str:
    """What to say of a table that may hold ratings, with its columns."""
    options = rating_options(source.sheet) if source.is_sheet else None
    if options is None:
        return ""
    return (
        f" Its columns are {', '.join(map(repr, source.sheet.names))}. If each line is a rating of an item "
        f"by a user, say which of them are users, items and ratings, and which ratings are likes, such as "
        f"{options}."
    )


def read_rows(model: LoadedModel, source: Source, ids: str | None) -> tuple[Any, Sequence[Any], str]:
    """The features of a file in the order of the model, the ids of its rows, and the name of the ids.

    Without ``ids`` a column named id, in any case, is taken if there is one that is no feature.
    """
    columns = _feature_columns(model, source, Columns(ids=ids))
    if source.kind == "arff":
        columns = replace(columns, labels=[])
    columns = replace(with_ids(source, columns), plan=plan_of(model.prepare))
    # Labels are not used, so their number does not matter.
    is_xmc = source.kind == "xmc"
    table = read_table_from(source, columns, unobserved="unlabelled" if is_xmc else None, binary=is_xmc)
    X = _in_order(model, table, source)
    if table.row_ids is None:
        return X, range(X.shape[0]), "row"
    return X, table.row_ids, columns.ids or "id"


def read_judged_table(
    model: LoadedModel,
    source: Source,
    columns: Columns,
    *,
    unobserved: str | None = None,
    named: bool = False,
    may_be_new: bool = False,
) -> tuple[Any, ObservedLabels]:
    """The features and labels of a file in the order of the model; other columns are ignored.

    ``unobserved`` says what a label that is absent from an xmc file means. With ``named`` rows get the ids of
    a column named id, in any case, if there is one that is no feature and no label. With ``may_be_new`` the
    labels are those that ``columns`` names, in the order of the file: there may be others than the model has.
    """
    columns = _feature_columns(model, source, columns)
    columns = _label_columns(model, source, columns)
    if columns.label_source is not None or named:
        columns = with_ids(source, columns)
    columns = replace(columns, plan=plan_of(model.prepare))
    if columns.separator is not None:
        columns = replace(columns, tags=model.label_names, new_tags=may_be_new)
    if unobserved is None and fitted_meaning(model.estimator) == "unlabelled":
        unobserved = "unlabelled"
    table = read_table_from(
        source,
        columns,
        # In other formats a blank stays a blank, and the metric decides what it means.
        unobserved=unobserved if source.kind == "xmc" or columns.separator is not None else None,
        binary=not isinstance(model.estimator, LowRankRegressor),
    )
    if table.labels is None:
        raise DataFileError(f"{source.path} has no labels to judge by. Say where they are with --labels.")
    X = _in_order(model, table, source)
    place = (columns.label_source or source).path
    if may_be_new:
        return X, _with_new_labels(model, table.labels, place, source.kind)
    labels = _labels_in_order(model, table.labels, place, source.kind)
    own = model.estimator.label_names_
    # The names as the model has them: a file has texts where Python may have had numbers.
    return X, labels if own is None else replace(labels, label_names=as_kept(own))


def warn_of_repeated_ids(session: Session, source: Source, ids: Sequence[Any] | None, use: str) -> None:
    """One line about ids that come more than once; ``use`` says what becomes of such rows."""
    twice = None if ids is None or isinstance(ids, range) else repeated_ids(ids)
    if twice is not None:
        session.warn(f"{source.path}: {twice}. {use}")


# -- ids ---------------------------------------------------------------------------------------------------


def with_ids(source: Source, columns: Columns) -> Columns:
    """The same columns with a column called id, in any case, as the ids, unless they are named already.

    Where a second file holds the labels, both must have it; else rows are matched by their order, and such a
    column is neither a feature nor a label.
    """
    if columns.ids is not None:
        return columns
    second = columns.label_source
    here = _ids_of(source, columns)
    if second is None:
        return replace(columns, ids=here) if source.is_sheet else columns
    there = _ids_of(second, columns)
    named = [name for name, of in ((here, source), (there, second)) if name and of.is_sheet]
    if here and there:
        if len(set(named)) > 1:
            raise DataFileError(
                f"The ids are in the column {here!r} of {source.path} and in {there!r} of {second.path}. "
                "Give both the same name, and say it with --id."
            )
        return replace(columns, ids=named[0]) if named else columns
    if here and source.is_sheet:
        dropped = split_patterns(columns.drop, source.sheet.names)
        return replace(columns, drop=[*dropped, here])
    if there and second.is_sheet and columns.labels is None:
        return replace(columns, labels=[name for name in second.sheet.names if name != there])
    return columns


def _ids_of(source: Source, columns: Columns) -> str | None:
    """The column or array of ids of a file, if it has one and it is named for nothing else."""
    if source.kind == "npz":
        return "row_ids" if "row_ids" in source.archive else None
    if not source.is_sheet:
        return None
    sheet = source.sheet
    named = {
        name
        for patterns in (columns.labels, columns.features, columns.drop)
        for name in split_patterns(patterns or (), sheet.names)
    }
    # The index of a frame that pandas wrote may be what names the rows.
    return next(
        (name for name in (*sheet.names, *sheet.index_names) if name.lower() == "id" and name not in named),
        None,
    )


# -- columns of the model ----------------------------------------------------------------------------------


def _feature_columns(model: LoadedModel, source: Source, columns: Columns) -> Columns:
    """Only the features of the model, where file and model have names."""
    wanted = model.feature_names
    if not hasattr(model.estimator if model.prepare is None else model.prepare, "n_features_in_"):
        raise InvalidParameterError(
            f"{model.path} was fitted in Python to texts, which commands do not read: use it there, with "
            "labelgap.load."
        )
    if wanted is None:
        return columns
    if source.is_sheet:
        _refuse_missing(source.path, wanted, source.sheet.names)
        return replace(columns, features=list(wanted))
    if source.kind == "arff":
        features = {attribute.name: attribute.feature_names for attribute in source.arff.header.attributes}
        _refuse_missing(source.path, wanted, [name for some in features.values() for name in some])
        kept = [name for name, some in features.items() if not set(wanted).isdisjoint(some)]
        return replace(columns, features=kept)
    return columns


def _label_columns(model: LoadedModel, source: Source, columns: Columns) -> Columns:
    """The labels of the model, where file and model have names and nobody says which ones they are."""
    wanted = model.label_names
    if columns.separator is not None and columns.labels is None:
        raise DataFileError("--separator goes with --labels, which names the column of the tags.")
    if wanted is None or columns.labels is not None or columns.label_xml is not None:
        return columns
    place = columns.label_source or source
    if place.is_sheet:
        _refuse_missing(place.path, wanted, place.sheet.names, what="labels")
    elif place.kind == "arff":
        names = [attribute.name for attribute in place.arff.header.attributes]
        _refuse_missing(place.path, wanted, names, what="labels")
    else:
        return columns
    return replace(columns, labels=list(wanted))


def _refuse_missing(
    path: PathLike, wanted: Sequence[str], found: Iterable[str], what: str = "features"
) -> None:
    there = set(found)
    missing = [name for name in wanted if name not in there]
    if not missing:
        return
    named = ", ".join(map(repr, missing[:_NAMED]))
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    raise DataFileError(
        f"{path} lacks {len(missing)} of the {len(wanted)} {what} of the model: {named}{more}."
    )


# -- the order of the model --------------------------------------------------------------------------------


def _in_order(model: LoadedModel, table: LabelTable, source: Source) -> Any:
    """The features as the model had them: by name where both have names, else by place."""
    path = source.path
    if table.X is None:
        raise DataFileError(f"{path} has no features, and the model decides by features.")
    wanted, found = model.feature_names, table.feature_names
    if wanted is not None and found is not None:
        if found == wanted:
            return prepared(model.prepare, table.X)
        _refuse_missing(path, wanted, found)
        place = {name: at for at, name in enumerate(found)}
        return prepared(model.prepare, table.X[:, [place[name] for name in wanted]])
    X = table.X
    expected = int((model.prepare if model.prepare is not None else model.estimator).n_features_in_)
    if source.kind == "xmc" and X.shape[1] < expected:
        # Such a file is as wide as the last feature in it.
        X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], expected))
    if X.shape[1] != expected:
        raise InvalidFeaturesError(
            f"{path} has {X.shape[1]} features, and the model was fitted to {expected}."
        )
    return prepared(model.prepare, X)


def _labels_in_order(model: LoadedModel, labels: ObservedLabels, path: PathLike, kind: str) -> ObservedLabels:
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


def _with_new_labels(model: LoadedModel, labels: ObservedLabels, path: PathLike, kind: str) -> ObservedLabels:
    """The labels of a file, under the names that the model has for those it knows."""
    wanted = model.label_names
    if wanted is None or labels.label_names is None:
        new = labels.shape[1] > int(model.estimator.n_labels_)
        return labels if new else _labels_in_order(model, labels, path, kind)
    own = dict(zip(wanted, as_kept(model.estimator.label_names_), strict=True))
    found = tuple(map(str, labels.label_names))
    if not set(found) & set(own):
        raise DataFileError(
            f"None of the {len(found)} labels of {path} is a label of the model ({listed(found)} beside "
            f"{listed(wanted)}). Name the columns of the labels with --labels."
        )
    return replace(labels, label_names=tuple(own.get(name, name) for name in found))


def _reordered(
    labels: ObservedLabels, found: tuple[str, ...], wanted: tuple[str, ...], path: PathLike
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
