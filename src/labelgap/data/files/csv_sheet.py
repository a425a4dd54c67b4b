"""CSV and TSV: a header, then one line per row."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from labelgap._warn import warn
from labelgap.data.files.formats import (
    PathLike,
    arrow_reader,
    import_pyarrow,
    is_worth_threads,
    shortened,
)
from labelgap.data.files.tables import MISSING_SPELLINGS, number_of
from labelgap.data.files.text_encoding import line_of
from labelgap.exceptions import DataFileError, LabelgapWarning

_BLOCK = 1 << 22
_EMPTY_LINE = re.compile(rb"\n[ \t]*\r?(?=\n)")


def _is_number(text: str) -> bool:
    value = number_of(text)
    return value is not None and not math.isnan(value) and text[-1:].isdigit()


def _are_mostly_numbers(names: Sequence[str]) -> bool:
    """Whether more than half of the names of a header are numbers, as those of a row are."""
    return 2 * sum(map(_is_number, names)) > len(names)


def _count(names: Sequence[str]) -> bool:
    """Whether the names that are numbers count one by one, as those of years or of unnamed columns do."""
    numbers = [int(name) for name in names if name.isdecimal()]
    whole = len(numbers) == sum(map(_is_number, names))
    return whole and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


class CsvSheet:
    """Separated values. pyarrow parses the columns that are asked for, as numbers wherever they are numbers.

    ``data`` is what ``read_text_bytes`` returns. To name a line in an error message, Python's slower reader
    goes through the same bytes.
    """

    index_names: tuple[str, ...] = ()

    def __init__(self, path: PathLike, delimiter: str, data: bytes, decimal: str = ".") -> None:
        self.path = path
        self.delimiter, self.decimal = delimiter, decimal
        self.arrow = import_pyarrow("Reading CSV files")
        self.data = data
        self.names, self._header_lines = self._read_header()
        self._body = self._find_body()

    def read(self, numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
        """Arrow columns by name: ``numbers`` as float64 if all values are numbers or missing, else text."""
        text = self.arrow.string()
        types = dict.fromkeys(numbers, self.arrow.float64()) | dict.fromkeys(texts, text)
        try:
            return self._parse(types)
        except self.arrow.ArrowInvalid:
            # Some value is no number; as text, the columns show whether it is a word for yes, no or missing.
            try:
                return self._parse(dict.fromkeys(types, text))
            except self.arrow.ArrowInvalid as error:
                raise self._explain(error) from error

    def place(self, row: int) -> str:
        """Where row ``row`` (from 0) is, in words."""
        return f"line {self._find(row)[0]}"

    def value(self, name: str, row: int) -> str:
        """The value in a column and a row (from 0), as text."""
        return self._find(row)[1][self.names.index(name)].strip()

    # -- header ----------------------------------------------------------------------------------------------

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The line on which each record begins, and its values; empty lines are skipped."""
        lines = (line.decode("utf-8") for line in io.BytesIO(self.data))
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        begins = 1
        try:
            for record in reader:
                if record:
                    yield begins, record
                begins = reader.line_num + 1
        except csv.Error as error:
            if "field limit" in str(error):
                raise DataFileError(
                    f"{self.path}, line {begins}: a value has more than {csv.field_size_limit()} characters; "
                    "is a quote missing?"
                ) from error
            raise DataFileError(
                f"{self.path}, line {begins}: wrong quoting ({error}); a quote inside a quoted value "
                "is written twice."
            ) from error

    def _read_header(self) -> tuple[tuple[str, ...], int]:
        line, header = next(self._records())
        names = tuple(name.strip() for name in header)
        if len(names) == 1 and self.delimiter not in names[0]:
            for other, called in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
                if other in names[0]:
                    raise DataFileError(
                        f"{self.path}, line {line}: the header is separated by {called}, and some line has "
                        "another number of values; correct it, or name the sign with delimiter= "
                        f"(--delimiter '{other}')."
                    )
        seen: dict[str, int] = {}
        for number, name in enumerate(names, start=1):
            if not name:
                raise DataFileError(
                    f"{self.path}, line {line}: column {number} has no name; name it, or write the file "
                    "without an index."
                )
            if name in seen:
                advice = "rename one."
                if _are_mostly_numbers(names):
                    advice = "is this a row, and the header missing? Write a first line with the names."
                raise DataFileError(
                    f"{self.path}, line {line}: columns {seen[name]} and {number} are both named "
                    f"{shortened(name)}; {advice}"
                )
            seen[name] = number
        if _are_mostly_numbers(names) and not _count(names):
            first = next(name for name in names if _is_number(name))
            warn(
                f"{self.path}, line {line}: most names in the header are numbers, such as "
                f"{shortened(first)}. If the file has no header, its first row was taken for one and is "
                "missing among the rows: write a first line with the names of the columns.",
                LabelgapWarning,
            )
        # A quoted name may hold line breaks.
        return names, line + sum(name.count("\n") for name in header)

    def _find_body(self) -> int:
        """The position after the header."""
        at = 0
        for _ in range(self._header_lines):
            at = self.data.find(b"\n", at) + 1
            if at == 0:
                break
        if at == 0 or not self.data[at:].strip():
            raise DataFileError(f"{self.path} has a header and no rows.")
        if len(self.names) == 1:
            empty = _EMPTY_LINE.search(self.data.rstrip(), at - 1)
            if empty:
                raise DataFileError(
                    f"{self.path}, line {line_of(self.data, empty.end())}, column "
                    f"{shortened(self.names[0])}: the "
                    "line is empty; in a file of one column write NA for what is missing."
                )
        return at

    # -- values ----------------------------------------------------------------------------------------------

    def _parse(self, types: dict[str, Any]) -> dict[str, Any]:
        """The columns of these types; ArrowInvalid where a line or a value does not fit."""
        from pyarrow import csv as arrow_csv

        # By number: names may be anything.
        number = {name: str(place) for place, name in enumerate(self.names)}
        if not types:
            types = {self.names[0]: self.arrow.string()}
        convert = arrow_csv.ConvertOptions(
            column_types={number[name]: kind for name, kind in types.items()},
            include_columns=[number[name] for name in types],
            null_values=list(MISSING_SPELLINGS),
            strings_can_be_null=False,
            decimal_point=self.decimal,
        )
        body = memoryview(self.data)[self._body :]
        parse = arrow_csv.ParseOptions(
            delimiter=self.delimiter, newlines_in_values=self.data.find(b'"', self._body) >= 0
        )
        for block_size in (_BLOCK, max(len(self.data), _BLOCK)):
            try:
                table = arrow_csv.read_csv(
                    arrow_reader(self.arrow, body),
                    read_options=arrow_csv.ReadOptions(
                        column_names=list(number.values()),
                        block_size=min(block_size, 2**31 - 1),
                        use_threads=is_worth_threads(len(body)),
                    ),
                    parse_options=parse,
                    convert_options=convert,
                )
                break
            except self.arrow.ArrowInvalid as error:
                # A line longer than a block.
                if "straddl" not in str(error) or block_size > _BLOCK:
                    raise
        if self.data.count(b'"', self._body) % 2:
            self._check_quotes()
        return {name: table.column(number[name]) for name in types}

    def _check_quotes(self) -> None:
        for _ in self._records():
            pass

    def _explain(self, error: Exception) -> DataFileError:
        """The error of the first line that does not fit the header."""
        for line, record in self._records():
            if len(record) != len(self.names):
                return DataFileError(
                    f"{self.path}, line {line}: {len(record)} values, but the header has {len(self.names)}; "
                    "check the separators and quotes of that line."
                )
        return DataFileError(f"{self.path} cannot be read: {shortened(error, quotes=False)}.")

    def _find(self, row: int) -> tuple[int, list[str]]:
        records = self._records()
        next(records)
        for number, found in enumerate(records):
            if number == row:
                return found
        raise IndexError(f"{self.path} has no row {row}")
