"""Features and labels from files of any format."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labelgap._names import listed
from labelgap._warn import warn
from labelgap.data.files.arff import read_arff
from labelgap.data.files.choosing import Patterns, choose_columns, require_column, split_patterns
from labelgap.data.files.columns import feature_matrix, id_values, label_matrix, to_numbers
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.feature_plan import FeaturePlan
from labelgap.data.files.formats import PathLike
from labelgap.data.files.ids import repeated_ids
from labelgap.data.files.limits import MaxUnpacked
from labelgap.data.files.npz_file import read_npz_numbers, read_npz_table
from labelgap.data.files.source import Sheet, Source
from labelgap.data.files.tables import MISSING, LabelTable, NumberTable
from labelgap.data.files.xmc import read_xmc
from labelgap.exceptions import DataFileError, InvalidParameterError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.labels.tags import split_tags


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are what, as in :func:`read_label_table`.

    Parameters
    ----------
    labels, features, ids, drop
        Names and patterns.
    label_source : Source or None
        A second file, which holds the labels.
    label_xml : str, path or None
        An XML file, which names the labels of an ARFF file.
    separator : str or None
        What separates the tags in the one column of labels, which then lists the tags of each row.
    tags : sequence of str or None
        All tags that are labels, in their order; None takes those that appear.
    new_tags : bool
        Whether further tags that appear are labels too, after those of ``tags``.
    plan : FeaturePlan or None
        How columns that are no numbers become features; None refuses them.
    """

    labels: Patterns | None = None
    features: Patterns | None = None
    ids: str | None = None
    drop: Patterns = ()
    label_source: Source | None = None
    label_xml: PathLike | None = None
    separator: str | None = None
    tags: Sequence[str] | None = None
    new_tags: bool = False
    plan: FeaturePlan | None = None


def read_label_table(
    path: PathLike,
    *,
    labels: Patterns | None = None,
    features: Patterns | None = None,
    ids: str | None = None,
    drop: Patterns = (),
    label_file: PathLike | None = None,
    format: str | None = None,
    unobserved: str | None = None,
    binary: bool = True,
    separator: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    max_unpacked_mb: MaxUnpacked = "auto",
) -> LabelTable:
    """Features and labels from a file.

    Parameters
    ----------
    path : str or path
        csv, tsv, parquet, npz, arff or xmc; those of text also with ``.gz``.
    labels : str or list of str, default None
        Which columns are labels: names, globs ("tag_*") or ranges of column numbers from 1 ("12:", "12:20"),
        with commas between. None: no labels, or those that an npz, arff or xmc file says it has.
    features : str or list of str, default None
        Which columns are features, in the same way; None takes all that are not used otherwise.
    ids : str, default None
        The column of the rows' ids.
    drop : str or list of str, default ()
        Columns to leave out.
    label_file : str or path, default None
        A second file with the labels: csv, tsv, parquet or npz, matched by the ids where there are any and
        else by order. Rows that it lacks have no known labels. For arff also the XML of Mulan.
    format : str, default None
        One of ``FORMATS``; None goes by the suffix.
    unobserved : "missing", "negative" or "unlabelled", default None
        What an absent label means, as in ``ObservedLabels``. None is "missing", and "negative" for xmc.
    binary : bool, default True
        False allows any finite number as a label. The labels that an xmc file lists are a yes either way.
    separator : str, default None
        Of csv, tsv and parquet: ``labels`` is one column that lists the tags of each row with this between
        them (" " for any white space). Each tag is a label, a yes in the rows that list it; ``unobserved``
        says what it is in the others. A row that says NA or ? has no known labels.
    delimiter, encoding, decimal : str, default None
        Of a text: the sign between values, the encoding, and the sign before decimals. None finds them where
        that is safe: another delimiter that cuts all lines alike, a decimal comma beside it, UTF-16 with a
        mark, and Latin-1, with a warning.
    max_unpacked_mb : float, "auto" or None, default "auto"
        What a packed file may become, in megabytes. "auto" is what fits into the free memory, and at most 100
        times the size of the file once that is above 250 MB; None is no limit. The environment variable
        LABELGAP_MAX_UNPACKED_MB changes what "auto" means.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("songs.csv").write_text("id,pace,tag_calm,tag_sad\\n7,1.5,yes,?\\n9,2,0,1\\n")
    >>> table = read_label_table("songs.csv", labels="tag_*", ids="id")
    >>> table.X.tolist(), table.row_ids, table.labels
    ([[1.5], [2.0]], (7, 9), ObservedLabels(2 x 2, 3 observed (75.0 %), 2 positive))
    """
    with contextlib.ExitStack() as stack:
        dialect = Dialect(delimiter, encoding, decimal)
        source = stack.enter_context(Source(path, format, dialect, max_unpacked_mb))
        second, xml = split_label_file(label_file, max_unpacked_mb)
        if second is not None:
            stack.enter_context(second)
        if separator is not None and not isinstance(separator, str):
            raise InvalidParameterError(f"separator must be a text or None; got {separator!r}.")
        columns = Columns(labels, features, ids, drop, second, xml, separator)
        return read_table_from(source, columns, unobserved=unobserved, binary=binary)


def split_label_file(
    path: PathLike | None, max_unpacked_mb: MaxUnpacked = "auto"
) -> tuple[Source | None, PathLike | None]:
    """A file of labels as what it is: a second table, or an XML file that names labels."""
    if path is None:
        return None, None
    if Path(path).suffix.lower() == ".xml":
        return None, path
    return Source(path, max_unpacked_mb=max_unpacked_mb), None


def read_table_from(source: Source, columns: Columns, *, unobserved: str | None, binary: bool) -> LabelTable:
    """As :func:`read_label_table`, from files that may be open already."""
    path, kind, second = source.path, source.kind, columns.label_source
    if columns.separator is not None and not (source if second is None else second).is_sheet:
        raise InvalidParameterError(
            f"{path}: separator (--separator) is about a column of a csv, tsv or parquet file."
        )
    if columns.label_xml is not None and kind != "arff":
        raise InvalidParameterError(
            f"{columns.label_xml}: an XML file names the labels of an arff file; {path} is {kind}."
        )
    # With a second file, the label patterns are about that file.
    here = columns if second is None else replace(columns, labels=None, separator=None)
    if source.is_sheet:
        table = _read_sheet(source.sheet, here, unobserved, binary)
    elif kind == "arff":
        _refuse_unused(path, kind, ids=here.ids)
        table = read_arff(
            source.arff,
            here.labels,
            here.features,
            here.drop,
            here.label_xml,
            unobserved,
            binary,
            plan=here.plan,
        )
    else:
        dropped = tuple(split_patterns(here.drop)) or None
        ids = here.ids if second is None else None
        _refuse_unused(path, kind, labels=here.labels, features=here.features, drop=dropped, ids=ids)
        table = _read_arrays(source, unobserved, binary)
    return table if second is None else _join(path, table, columns, second, unobserved, binary)


def read_numbers(
    path: PathLike,
    *,
    drop: Patterns = (),
    format: str | None = None,
    max_unpacked_mb: MaxUnpacked = "auto",
) -> NumberTable:
    """The columns of a file as numbers, such as scores or labels; NaN where a value is missing.

    Parameters
    ----------
    path : str or path
        csv, tsv or parquet; or npz with a matrix (``scores``, ``Y``, or the only one of two dimensions) and
        perhaps ``label_names``.
    drop : str or list of str, default ()
        Columns to leave out, such as ids; as in ``read_label_table``.
    format : str, default None
        One of ``FORMATS``; None goes by the suffix.
    max_unpacked_mb : float, "auto" or None, default "auto"
        What a packed file may become, as in ``read_label_table``.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("scores.csv").write_text("calm,sad\\n0.9,0.2\\n0.4,NA\\n")
    >>> names, values = read_numbers("scores.csv")
    >>> names, values.tolist()
    (('calm', 'sad'), [[0.9, 0.2], [0.4, nan]])
    """
    with Source(path, format, max_unpacked_mb=max_unpacked_mb) as source:
        return read_numbers_from(source, drop)


def read_numbers_from(source: Source, drop: Patterns = ()) -> NumberTable:
    """As :func:`read_numbers`, from a file that may be open already."""
    path, kind = source.path, source.kind
    if kind == "npz":
        _refuse_unused(path, kind, drop=tuple(split_patterns(drop)) or None)
        return read_npz_numbers(source.archive)
    if not source.is_sheet:
        raise DataFileError(f"{path}: a table of numbers is csv, tsv, parquet or npz, not {kind} (--format).")
    sheet = source.sheet
    dropped = set(choose_columns(path, sheet.names, drop, "drop", {}, sheet.index_names))
    names = tuple(name for name in sheet.names if name not in dropped)
    if not names:
        raise DataFileError(f"{path}: every column is dropped.")
    columns = sheet.read(names, ())
    advice = "Every value is a number; leave other columns out with drop (--drop)."
    return NumberTable(
        names, np.column_stack([to_numbers(sheet, name, columns[name], advice) for name in names])
    )


# What else may be done about ids that cannot be used.
_OTHER_IDS = "or name another column with ids (--ids)"


def _refuse_unused(path: PathLike, kind: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidParameterError(
                f"{path}: {name} chooses among named columns, which a file of the format {kind} does not "
                "have."
            )


def _read_sheet(sheet: Sheet, wanted: Columns, unobserved: str | None, binary: bool) -> LabelTable:
    labels, ids = wanted.labels, wanted.ids
    taken: dict[str, str] = {}
    if ids is not None:
        require_column(sheet.path, (*sheet.names, *sheet.index_names), ids, "the ids (--ids)")
        taken[ids] = "the id column"

    def choose(patterns: Patterns, what: str) -> tuple[str, ...]:
        return choose_columns(sheet.path, sheet.names, patterns, what, taken, sheet.index_names)

    dropped = choose(wanted.drop, "drop")
    taken |= dict.fromkeys(dropped, "dropped")
    if dropped and len(sheet.names) > 1 and all(name in taken for name in sheet.names):
        raise DataFileError(
            f"{sheet.path}: all columns but the ids are left out with drop (--drop). Leave out fewer of them."
        )
    label_names = () if labels is None else choose(labels, "labels")
    taken |= dict.fromkeys(label_names, "a label")
    if wanted.features is None:
        feature_names = tuple(name for name in sheet.names if name not in taken)
    else:
        feature_names = choose(wanted.features, "features")
    plan = wanted.plan
    texts = () if plan is None else plan.text_columns(sheet, feature_names)
    if wanted.separator is not None:
        texts += _tag_column(sheet, label_names)
    numbers = [name for name in (*feature_names, *label_names) if name not in texts]
    columns = sheet.read(numbers, [*texts, *([] if ids is None else [ids])])
    advice = f" Fill it in, {_OTHER_IDS}."
    row_ids = None if ids is None else tuple(id_values(sheet, ids, columns[ids], advice).tolist())
    known = None
    if wanted.separator is not None:
        known = _tag_labels(sheet, columns[label_names[0]], wanted, unobserved, row_ids)
    elif labels is not None:
        Y = label_matrix(sheet, columns, label_names, binary)
        known = ObservedLabels.from_any(
            ObservedLabels.from_dense(Y, row_names=row_ids, label_names=label_names, binary=binary),
            unobserved or "missing",
            binary,
        )
    read = feature_matrix if plan is None else plan.matrix
    return LabelTable(read(sheet, columns, feature_names), known, feature_names or None, row_ids)


def _tag_column(sheet: Sheet, label_names: tuple[str, ...]) -> tuple[str, ...]:
    if len(label_names) != 1:
        raise DataFileError(
            f"{sheet.path}: with separator (--separator) one column lists all tags; labels (--labels) names "
            f"{len(label_names)}."
        )
    return label_names


def _tag_labels(
    sheet: Sheet, column: Any, wanted: Columns, unobserved: str | None, row_ids: tuple[Any, ...] | None
) -> ObservedLabels:
    """The labels of a column of tags; an empty text is a row without tags, NA or ? one that is not known."""
    texts = ["" if text is None else str(text).strip() for text in column.to_pylist()]
    separator = wanted.separator or " "
    tags: list[list[str] | None] = [
        None if text and text.lower() in MISSING else split_tags(text, separator) for text in texts
    ]
    names = wanted.tags
    if names is not None:
        known = set(names)
        others = dict.fromkeys(tag for one in tags for tag in one or () if tag not in known)
        if wanted.new_tags:
            names, known = (*names, *others), known.union(others)
        elif others:
            warn(
                f"{sheet.path}: {len(others)} tags are no labels of the model: {listed(others)}.",
                LabelgapWarning,
            )
        tags = [None if one is None else [tag for tag in one if tag in known] for one in tags]
    elif not any(tags):
        raise DataFileError(f"{sheet.path}: no row of the column of labels lists a tag.")
    return ObservedLabels.from_tags(tags, unobserved or "missing", row_names=row_ids, label_names=names)


def _read_arrays(source: Source, unobserved: str | None, binary: bool) -> LabelTable:
    if source.kind == "npz":
        return read_npz_table(source.archive, unobserved, binary)
    if source.kind == "xmc":
        return read_xmc(source.path, source.text, unobserved, source.limits)
    raise DataFileError(
        f"{source.path}: the format {source.kind} holds ratings of users, not rows with labels; read it by "
        "read_answer_file."
    )


# -- labels in a second file ---------------------------------------------------------------------------------


def _join(
    path: PathLike,
    table: LabelTable,
    columns: Columns,
    label_source: Source,
    unobserved: str | None,
    binary: bool,
) -> LabelTable:
    """The features of one file with the labels of the other."""
    label_file, kind, ids = label_source.path, label_source.kind, columns.ids
    if table.labels is not None:
        raise InvalidParameterError(
            f"{path} has labels of its own, and so has {label_file}; give one of them."
        )
    if table.X is None:
        raise DataFileError(f"{path} has no feature columns to match the labels of {label_file} with.")
    if label_source.is_sheet:
        there = Columns(columns.labels or "*", (), ids, separator=columns.separator)
        there = replace(there, tags=columns.tags, new_tags=columns.new_tags)
        second = _read_sheet(label_source.sheet, there, None, binary)
    elif kind == "npz":
        _refuse_unused(label_file, kind, labels=columns.labels)
        second = read_npz_table(label_source.archive, None, binary)
    else:
        raise DataFileError(
            f"{label_file}: a second file of labels is csv, tsv, parquet, npz or xml, not {kind}."
        )
    if second.labels is None:
        raise DataFileError(f"{label_file} has no labels (Y).")
    n = table.X.shape[0]
    if table.row_ids is not None and second.row_ids is not None:
        labels = _by_id(path, table.row_ids, label_file, second.row_ids, second.labels)
    elif ids is not None:
        lacking = path if table.row_ids is None else label_file
        raise DataFileError(
            f"{lacking} has no ids (row_ids), so its rows cannot be matched by {ids!r} (--ids)."
        )
    elif len(second.labels) == n:
        labels = second.labels
    else:
        raise DataFileError(
            f"{path} has {n} rows, but {label_file} has {len(second.labels)}; rows are matched by their "
            "order here. Name the column of ids in both files with ids (--ids) to match them by it."
        )
    labels = replace(labels, row_names=table.row_ids)
    return replace(table, labels=ObservedLabels.from_any(labels, unobserved or "missing", binary))


def _by_id(
    path: PathLike,
    row_ids: Sequence[Any],
    label_file: PathLike,
    label_ids: Sequence[Any],
    labels: ObservedLabels,
) -> ObservedLabels:
    """The labels in the order of the rows; a row that they lack has none."""
    if {type(one) for one in row_ids} != {type(one) for one in label_ids}:
        row_ids, label_ids = [str(one) for one in row_ids], [str(one) for one in label_ids]
    twice = repeated_ids(label_ids)
    if twice is not None:
        raise DataFileError(f"{label_file}: {twice}. Keep one row of each, {_OTHER_IDS}.")
    at = {one: place for place, one in enumerate(label_ids)}
    known = set(row_ids)
    unknown = [one for one in label_ids if one not in known]
    if unknown:
        raise DataFileError(
            f"{label_file}: {len(unknown)} of its {len(at)} ids are not in {path}: {listed(unknown)}. Leave "
            f"these rows out, correct the ids, {_OTHER_IDS}."
        )
    # One more row, which is empty, stands for all that the labels lack.
    L = len(labels)
    padded = replace(
        labels,
        indptr=np.append(labels.indptr, labels.indptr[-1]),
        shape=(L + 1, labels.shape[1]),
        row_names=None,
    )
    return padded.take_rows([at.get(one, L) for one in row_ids])
