"""Columns of results to a file, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labelgap.data.files.formats import (
    SHEETS,
    PathLike,
    detect_format,
    format_by_name,
    import_pyarrow,
    last_suffix,
)
from labelgap.exceptions import DataFileError, InvalidInputError
from labelgap.persistence.atomic import atomic_write

WRITTEN = (*SHEETS, "npz")
"""Formats that can be written."""
_ENDINGS = "Let the name end in .csv, .tsv, .parquet or .npz; after .csv and .tsv, .gz may follow."


def check_writable(path: PathLike, format: str | None = None) -> str:
    """The format in which a file would be written, or an error: for asking before the work starts.

    Examples
    --------
    >>> check_writable("decisions.csv")
    'csv'
    """
    kind = format_by_name(path) if format is None else detect_format(path, format)
    if kind is None:
        raise DataFileError(
            f"{path}: the suffix {last_suffix(path)!r} does not say what format to write. {_ENDINGS}"
        )
    if kind not in WRITTEN:
        raise DataFileError(f"{path}: files of the format {kind} are not written. {_ENDINGS}")
    if Path(path).is_dir():
        raise DataFileError(f"{path} is a folder, not a file.")
    folder = Path(path).parent
    if not folder.is_dir():
        raise DataFileError(f"{path}: there is no folder {folder}; make it first.")
    if not os.access(folder, os.W_OK):
        raise DataFileError(f"{path}: this user may not write in the folder {folder}.")
    if kind != "npz":
        import_pyarrow(f"Writing {kind} files")
    return kind


def write_columns(path: PathLike, columns: Mapping[str, ArrayLike], format: str | None = None) -> None:
    """Write columns of one length to a csv, tsv, parquet or npz file.

    A NaN is ``nan`` in a text, which all readers here take as missing, and a null in Parquet. The file
    appears when it is complete; until then what was there stays.

    Parameters
    ----------
    path : str or path
        Also with ``.gz`` behind ``.csv`` and ``.tsv``.
    columns : mapping from name to vector
    format : "csv", "tsv", "parquet" or "npz", default None
        None goes by the suffix.

    Examples
    --------
    >>> write_columns("decisions.csv", {"id": ["a", "b"], "likes": [1, 0], "score": [0.75, float("nan")]})
    >>> print(Path("decisions.csv").read_text(), end="")
    id,likes,score
    a,1,0.75
    b,0,nan
    """
    kind = check_writable(path, format)
    vectors = _vectors(columns)
    with atomic_write(path) as file:
        if kind == "npz":
            _write_npz(file, vectors)
        elif kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(_table(vectors, nulls=True), file)
        elif Path(path).suffix.lower() == ".gz":
            # Without a name and a time inside, the same columns make the same file.
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                _write_text(packed, vectors, kind)
        else:
            _write_text(file, vectors, kind)


def write_column_blocks(
    path: PathLike, blocks: Iterable[Mapping[str, Any]], format: str | None = None
) -> None:
    """As :func:`write_columns`, of a table that comes some rows at a time; only one block is in memory.

    Parameters
    ----------
    path : str or path
    blocks : iterable of mappings from name to vector
        At least one; all of them have the same names, and a column has the type that it has in the first
        block with rows.
    format : "csv", "tsv" or "parquet", default None
        None goes by the suffix. An npz file is written from all of it at once.

    Examples
    --------
    >>> write_column_blocks("best.csv", ({"user": [user], "rank": [1]} for user in "ab"))
    >>> print(Path("best.csv").read_text(), end="")
    user,rank
    a,1
    b,1
    """
    kind = check_writable(path, format)
    filled = _filled(_vectors(block) for block in blocks)
    # An error in the first block leaves no file.
    first = next(filled)
    rest = chain([first], filled)
    if kind == "npz":
        parts = list(rest)
        write_columns(path, {name: np.concatenate([part[name] for part in parts]) for name in first}, kind)
        return
    with ExitStack() as stack:
        file: Any = stack.enter_context(atomic_write(path))
        if kind == "parquet":
            _write_parquet_blocks(file, rest)
            return
        if Path(path).suffix.lower() == ".gz":
            file = stack.enter_context(gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0))
        for number, block in enumerate(rest):
            _write_text(file, block, kind, header=number == 0)


def _filled(blocks: Iterator[dict[str, NDArray[Any]]]) -> Iterator[dict[str, NDArray[Any]]]:
    """The blocks with rows; where none has any, one without. An empty column does not say its type."""
    empty = None
    for block in blocks:
        if len(next(iter(block.values()))):
            empty = None
            yield block
            # Whatever is empty from here on may be passed over.
            yield from (later for later in blocks if len(next(iter(later.values()))))
            return
        empty = block
    if empty is None:
        raise InvalidInputError("There is no block of columns to write.")
    yield empty


def _write_parquet_blocks(file: Any, blocks: Iterable[dict[str, NDArray[Any]]]) -> None:
    from pyarrow import parquet

    writer = None
    try:
        for block in blocks:
            table = _table(block, nulls=True)
            if writer is None:
                writer = parquet.ParquetWriter(file, table.schema)
            writer.write_table(table.cast(writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _vectors(columns: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    vectors = {name: np.asarray(column) for name, column in columns.items()}
    if not vectors or any(vector.ndim != 1 for vector in vectors.values()):
        raise InvalidInputError("Columns are vectors, at least one of them.")
    if len({len(vector) for vector in vectors.values()}) > 1:
        lengths = ", ".join(f"{name} {len(vector)}" for name, vector in vectors.items())
        raise InvalidInputError(f"The columns differ in length: {lengths}.")
    return vectors


def _table(vectors: Mapping[str, NDArray[Any]], nulls: bool) -> Any:
    """An Arrow table, with nulls in place of NaN if asked for."""
    arrow = import_pyarrow("Writing tables")
    return arrow.table({name: arrow.array(vector, from_pandas=nulls) for name, vector in vectors.items()})


def _write_npz(file: Any, vectors: Mapping[str, NDArray[Any]]) -> None:
    # numpy.savez cannot write an array that is named "file", and puts the time into the archive.
    with zipfile.ZipFile(file, mode="w") as archive:
        for name, vector in vectors.items():
            plain = vector.astype(np.str_) if vector.dtype.hasobject else vector
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), mode="w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)


def _write_text(file: Any, vectors: Mapping[str, NDArray[Any]], kind: str, *, header: bool = True) -> None:
    from pyarrow import csv as arrow_csv

    delimiter = "\t" if kind == "tsv" else ","
    if header:
        names = io.StringIO()
        csv.writer(names, delimiter=delimiter, lineterminator="\n").writerow(vectors)
        file.write(names.getvalue().encode())
    # Quotes only where a text needs them.
    structure = {'"', "\n", "\r", delimiter}
    texts = (v for v in vectors.values() if v.dtype.kind in "UO")
    plain = not any(structure & set(str(text)) for vector in texts for text in vector)
    arrow_csv.write_csv(
        _table(vectors, nulls=False),
        file,
        arrow_csv.WriteOptions(
            include_header=False, delimiter=delimiter, quoting_style="none" if plain else "needed"
        ),
    )
