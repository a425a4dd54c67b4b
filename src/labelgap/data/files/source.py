"""A data file that is opened once, however much is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from types import TracebackType
from typing import Any, Protocol, Self

from labelgap.data.files.arff_header import ArffFile
from labelgap.data.files.csv_sheet import CsvSheet
from labelgap.data.files.dialect import Dialect, find_decimal, find_delimiter
from labelgap.data.files.formats import SHEETS, TEXT, PathLike, detect_format
from labelgap.data.files.limits import MaxUnpacked, read_limits
from labelgap.data.files.npz_file import Archive
from labelgap.data.files.parquet_sheet import ParquetSheet
from labelgap.data.files.text import read_text_bytes
from labelgap.exceptions import InvalidParameterError


class Sheet(Protocol):
    """A file of named columns, which are read when asked for."""

    path: PathLike
    names: tuple[str, ...]
    index_names: tuple[str, ...]
    decimal: str
    arrow: Any

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Any]: ...

    def place(self, row: int) -> str: ...

    def value(self, name: str, row: int) -> str: ...


class Source:
    """A file of a known format. Whoever needs its header, its columns or its bytes asks the same object.

    The file is opened when something is first asked of it, so that a pipe will do for a file. Close the
    source, or use it in a ``with`` statement: npz and Parquet files stay open until then.

    Parameters
    ----------
    path : str or path
    format : str, default None
        One of ``FORMATS``; None goes by the suffix.
    dialect : Dialect, default None
        Delimiter, encoding and decimal sign of a text, where they are not to be found.
    max_unpacked_mb : float, "auto" or None, default "auto"
        What the file may become, in megabytes, as in ``read_label_table``.
    """

    def __init__(
        self,
        path: PathLike,
        format: str | None = None,
        dialect: Dialect | None = None,
        max_unpacked_mb: MaxUnpacked = "auto",
    ) -> None:
        self.path = path
        self.kind = detect_format(path, format)
        self.dialect = dialect or Dialect()
        self.limits = read_limits(max_unpacked_mb)
        self._check_dialect()

    def _check_dialect(self) -> None:
        said = self.dialect
        separated = ("csv", "tsv")
        for name, value, kinds in (
            ("delimiter", said.delimiter, separated),
            ("decimal", said.decimal, separated),
            ("encoding", said.encoding, TEXT),
        ):
            if value is not None and self.kind not in kinds:
                raise InvalidParameterError(
                    f"{self.path}: {name} (--{name}) is for files of the formats {', '.join(kinds)}, and "
                    f"this one is {self.kind}."
                )

    @property
    def is_sheet(self) -> bool:
        """Whether the file has named columns: csv, tsv or parquet."""
        return self.kind in SHEETS

    @cached_property
    def text(self) -> bytes:
        """The bytes of a text file, as ``read_text_bytes`` returns them."""
        return read_text_bytes(self.path, self.limits, self.dialect.encoding)

    @cached_property
    def sheet(self) -> Sheet:
        """The columns of a csv, tsv or parquet file, or of MovieLens' ``ratings.csv``."""
        if self.kind == "parquet":
            return ParquetSheet(self.path, self.limits)
        said, usual = self.dialect, "\t" if self.kind == "tsv" else ","
        delimiter = said.delimiter or find_delimiter(self.text, usual)
        # With the delimiter that a format has by its name, numbers have points.
        decimal = said.decimal or ("." if delimiter == usual else find_decimal(self.text, delimiter))
        return CsvSheet(self.path, delimiter, self.text, decimal)

    @cached_property
    def arff(self) -> ArffFile:
        """The header and the lines of an ARFF file."""
        return ArffFile(self.path, self.text, self.limits)

    @cached_property
    def archive(self) -> Archive:
        """The arrays of an npz file."""
        return Archive(self.path, self.limits)

    def place(self, row: int) -> str:
        """Where row ``row`` (from 0) of what was read is in the file, in words."""
        if self.is_sheet or "sheet" in self.__dict__:
            return self.sheet.place(row)
        if self.kind not in TEXT:
            return f"row {row + 1}"
        filled = (number for number, line in enumerate(self.text.split(b"\n"), start=1) if line.strip())
        return f"line {next(islice(filled, row, None))}"

    def close(self) -> None:
        """Close the file if it is still open, and let go of what was read, which is as large as the file."""
        for name in ("archive", "sheet", "arff", "text"):
            opened = self.__dict__.pop(name, None)
            if isinstance(opened, Archive | ParquetSheet):
                opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
