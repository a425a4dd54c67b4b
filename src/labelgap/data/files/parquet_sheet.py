"""Parquet: named and typed columns."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelgap.data.files.formats import (
    PathLike,
    arrow_reader,
    import_pyarrow,
    is_worth_threads,
    open_errors,
    shortened,
)
from labelgap.data.files.limits import Limits
from labelgap.exceptions import DataFileError

# The least that a value takes, and how many times that reading takes.
_BYTES, _TIMES = 8, 2.0
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")


class ParquetSheet:
    """A file of typed columns, which are read when asked for.

    ``index_names`` are the columns that pandas wrote for its index. They number or name the rows, so they are
    read only where they are asked for by name.
    """

    decimal = "."

    def __init__(self, path: PathLike, limits: Limits) -> None:
        self.path, self._limits = path, limits
        self.arrow = import_pyarrow("Reading Parquet files")
        from pyarrow import parquet

        try:
            with open_errors(path):
                # The list of the columns is at the end of the file, and a pipe cannot be read from there.
                whole = Path(path)
                source = path if whole.is_file() else arrow_reader(self.arrow, whole.read_bytes())
                self._file = parquet.ParquetFile(source)
        except UnicodeDecodeError as error:
            file = self.arrow.OSFile(os.fspath(path)) if whole.is_file() else source
            raise _wrong_name(path, file, error.object) from error
        except (self.arrow.ArrowException, OSError) as error:
            raise DataFileError(
                f"{path} is no Parquet file, or a damaged one: {shortened(error, quotes=False)}."
            ) from error
        schema, metadata = self._file.schema_arrow, self._file.metadata
        twice = [name for name, count in Counter(schema.names).items() if count > 1]
        if twice:
            raise DataFileError(f"{path}: two columns are both named {shortened(twice[0])}; rename one.")
        if metadata.num_rows == 0:
            raise DataFileError(f"{path} has no rows.")
        index = _index_columns(schema)
        self.names: tuple[str, ...] = tuple(name for name in schema.names if name not in index)
        self.index_names: tuple[str, ...] = tuple(name for name in schema.names if name in index)
        if not self.names:
            raise DataFileError(
                f"{path} has no columns besides the index of pandas; write it after reset_index()."
            )
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        self._use_threads = is_worth_threads(sum(group.total_byte_size for group in groups))

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
        """Arrow columns by name, of the types that the file has; texts are UTF-8, and no dictionaries."""
        names = [*numbers, *texts] or list(self.names[:1])
        # Values that repeat take next to nothing in such a file, so that any multiple of its size is usual.
        self._limits.check(self.path, _BYTES * self._file.metadata.num_rows * len(names), None, _TIMES)
        try:
            table = self._file.read(columns=names, use_threads=self._use_threads)
        except (self.arrow.ArrowException, OSError) as error:
            raise DataFileError(f"{self.path} is damaged: {shortened(error, quotes=False)}.") from error
        self._table = table
        return {name: self._checked(name, table.column(name)) for name in names}

    def _checked(self, name: str, column: Any) -> Any:
        """The values of the column. Arrow reads texts as they are in the file, whatever their bytes."""
        if self.arrow.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        try:
            column.validate(full=True)
        except self.arrow.ArrowInvalid as error:
            where = f"{self.path}, column {shortened(name)}"
            for row, value in enumerate(column):
                try:
                    value.as_py()
                except UnicodeDecodeError as problem:
                    raise DataFileError(
                        f"{where}, {self.place(row)}: {_shown(problem.object)} is not UTF-8. Write the text "
                        "as UTF-8, and the file again."
                    ) from error
            raise DataFileError(f"{where} is damaged: {shortened(error, quotes=False)}.") from error
        return column

    def close(self) -> None:
        """Close the file; columns that were read stay usable."""
        self._file.close()

    def place(self, row: int) -> str:
        """Where row ``row`` (from 0) is, in words."""
        return f"row {row + 1}"

    def value(self, name: str, row: int) -> str:
        """The value in a column and a row (from 0), as text."""
        value = self._table.column(name)[row].as_py()
        return "null" if value is None else str(value)


def _wrong_name(path: PathLike, file: Any, wrong: bytes) -> DataFileError:
    """The error of a column, or of a field within one, whose name is not UTF-8."""
    from pyarrow import dataset

    file.seek(0)
    schema = dataset.ParquetFileFormat().inspect(file)
    names = [_names_within(schema.field(number)) for number in range(len(schema.types))]
    number, (first, *_) = next((place, some) for place, some in enumerate(names, 1) if wrong in some)
    what = f"the name of column {number}" if wrong == first else f"in column {number} the name of a field"
    return DataFileError(
        f"{path}: {what}, {_shown(wrong)}, is not UTF-8. Give it another name, and write the file again."
    )


def _names_within(field: Any) -> list[bytes]:
    """The name of a column and those of the fields in it."""
    try:
        name: bytes = field.name.encode()
    except UnicodeDecodeError as error:
        name = error.object
    inner = [field.type.field(number) for number in range(field.type.num_fields)]
    return [name, *(each for one in inner for each in _names_within(one))]


def _shown(text: bytes) -> str:
    return shortened(repr(text), quotes=False)


def _index_columns(schema: Any) -> set[str]:
    """The columns that hold an index of pandas; an index that only counts is none."""
    # Other programs keep the column of an index without a name and lose what pandas says about it.
    unnamed = {name for name in schema.names if _UNNAMED_INDEX.fullmatch(name)}
    try:
        said = (schema.pandas_metadata or {}).get("index_columns", [])
        return unnamed | {name for name in said if isinstance(name, str)}
    except (ValueError, AttributeError, TypeError):
        # Nothing that pandas writes.
        return unnamed
