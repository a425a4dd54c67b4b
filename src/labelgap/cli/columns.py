"""Which columns of a table are what, and which of them holds the ids if nobody says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from labelgap.data.files import detect_format
from labelgap.data.files.cells import open_sheet
from labelgap.data.files.choosing import split_patterns
from labelgap.data.files.formats import SHEETS
from labelgap.data.files.npz_file import open_archive
from labelgap.exceptions import DataFileError


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what, as names and patterns."""

    labels: str | list[str] | None = None
    features: str | list[str] | None = None
    ids: str | None = None
    drop: str | list[str] | None = None
    label_file: Path | None = None

    @property
    def second_file(self) -> Path | None:
        """The file that holds the labels; one of XML only names them."""
        is_xml = self.label_file is not None and self.label_file.suffix.lower() == ".xml"
        return None if is_xml else self.label_file


def sheet_names(path: Path, kind: str) -> tuple[str, ...]:
    """The columns of a csv, tsv or parquet file."""
    return open_sheet(path, kind).names


def with_ids(path: Path, columns: Columns, format: str | None) -> Columns:
    """The same columns with a column called id, in any case, as the ids, unless they are named already.

    Where a second file holds the labels, both must have it; else rows are matched by their order, and such a
    column is neither a feature nor a label.
    """
    if columns.ids is not None:
        return columns
    kind, second = detect_format(path, format), columns.second_file
    here = _ids_of(path, kind, columns)
    if second is None:
        return replace(columns, ids=here) if kind in SHEETS else columns
    second_kind = detect_format(second)
    there = _ids_of(second, second_kind, columns)
    named = [name for name, of in ((here, kind), (there, second_kind)) if name and of in SHEETS]
    if here and there:
        if len(set(named)) > 1:
            raise DataFileError(
                f"The ids are in the column {here!r} of {path} and in {there!r} of {second}. Give both the "
                "same name, and say it with --id."
            )
        return replace(columns, ids=named[0]) if named else columns
    if here and kind in SHEETS:
        dropped = split_patterns(columns.drop or (), sheet_names(path, kind))
        return replace(columns, drop=[*dropped, here])
    if there and second_kind in SHEETS and columns.labels is None:
        others = [name for name in sheet_names(second, second_kind) if name != there]
        return replace(columns, labels=others)
    return columns


def _ids_of(path: Path, kind: str, columns: Columns) -> str | None:
    """What holds the ids of a file, if anything does and it is named for nothing else."""
    if kind == "npz":
        with open_archive(path) as archive:
            return "row_ids" if "row_ids" in archive else None
    if kind not in SHEETS:
        return None
    sheet = open_sheet(path, kind)
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
