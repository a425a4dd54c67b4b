"""Parquet: named and typed columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labelgap.data.files.formats import PathLike, import_pyarrow, open_errors
from labelgap.exceptions import DataFileError


class ParquetSheet:
    """A file of typed columns; they are read when asked for."""

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self.arrow = import_pyarrow("Reading Parquet files")
        from pyarrow import parquet

        with open_errors(path), open(path, "rb"):
            pass
        try:
            self._file = parquet.ParquetFile(path)
        except (self.arrow.ArrowException, OSError) as error:
            raise DataFileError(f"{path} is no Parquet file, or a damaged one: {error}") from error
        self.names: tuple[str, ...] = tuple(self._file.schema_arrow.names)
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            raise DataFileError(f"{path}: two columns are both named {twice[0]!r}; rename one.")
        if self._file.metadata.num_rows == 0:
            raise DataFileError(f"{path} has no rows.")

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
        """Arrow columns by name, of the types that the file has."""
        names = [*numbers, *texts] or list(self.names[:1])
        try:
            table = self._file.read(columns=names)
        except (self.arrow.ArrowException, OSError) as error:
            raise DataFileError(f"{self.path} is damaged: {error}") from error
        self._table = table
        return {name: table.column(name) for name in names}

    def place(self, row: int) -> str:
        """Where row ``row`` (from 0) is, in words."""
        return f"row {row + 1}"

    def cell(self, name: str, row: int) -> str:
        """What the file has there."""
        value = self._table.column(name)[row].as_py()
        return "null" if value is None else str(value)
