"""Ratings of items by users: long tables, and the files of MovieLens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.data.files.choosing import require_column
from labelgap.data.files.columns import id_values, to_numbers
from labelgap.data.files.formats import PathLike, arrow_reader, import_pyarrow, is_worth_threads, shortened
from labelgap.data.files.limits import MaxUnpacked
from labelgap.data.files.npz_file import read_npz_ratings
from labelgap.data.files.rating_hints import value_column_of
from labelgap.data.files.source import Sheet, Source
from labelgap.data.files.tables import AnswerTable, number_of
from labelgap.exceptions import DataFileError, InvalidInputError
from labelgap.recommending.times import read_times

_MOVIELENS_HEADER = {"user": "userId", "item": "movieId", "value": "rating"}
# Headers that say that a file holds ratings; a column "timestamp" may stand beside.
_RATINGS_HEADERS = (
    {"userId", "movieId", "rating"},
    {"user", "item"},
    {"user", "item", "value"},
    {"user", "item", "rating"},
)
_MOVIELENS_COLUMNS = ("user", "item", "rating", "timestamp")
_MOVIELENS_ADVICE = (
    "A line has user, item, rating and time, all numbers; for a file with a header use csv or tsv (--format)."
)
_WHOLE = re.compile(rb"-?[0-9]++")
_RATING = re.compile(rb"[0-9eE+.\-]++")


def read_answer_file(
    path: PathLike,
    *,
    user: str = "user",
    item: str = "item",
    value: str | None = "value",
    format: str | None = None,
    max_unpacked_mb: MaxUnpacked = "auto",
) -> AnswerTable:
    """Ratings of items by users, from a long table with one line per rating.

    Parameters
    ----------
    path : str or path
        csv, tsv, parquet; npz with vectors; or MovieLens: ``u.data``, ``ratings.dat``, ``ratings.csv``.
    user, item, value : names of columns, or of the arrays of an npz file
        Where "value" is not there, "rating" is read; where the file has users and items alone, or with
        ``value=None``, each line is a like. The header of MovieLens (userId, movieId, rating) is known.
    format : str, default None
        One of ``FORMATS``; None goes by the suffix.
    max_unpacked_mb : float, "auto" or None, default "auto"
        What a packed file may become, as in ``read_label_table``.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("stars.csv").write_text("user,item,value\\nann,Ran,5\\nbob,Ran,2\\n")
    >>> table = read_answer_file("stars.csv")
    >>> table.users, table.values
    (array(['ann', 'bob'], dtype=object), array([5., 2.]))
    """
    with Source(path, format, max_unpacked_mb=max_unpacked_mb) as source:
        return read_ratings_from(source, user, item, value)


def read_ratings_from(
    source: Source, user: str, item: str, value: str | None, time: str | None = None
) -> AnswerTable:
    """As :func:`read_answer_file`, from a file that may be open already; with times if ``time`` is given.

    ``time`` is the name of a column; in MovieLens files without a header it must be "timestamp".
    """
    if source.kind == "npz":
        return read_npz_ratings(source.archive, user, item, value, time)
    if source.kind == "movielens":
        data = source.text
        head = data[: data.find(b"\n")] if b"\n" in data else data
        if b"::" in head or b"\t" in head:
            return _read_movielens(source.path, data, head, time)
    elif not source.is_sheet:
        raise DataFileError(
            f"{source.path}: the format {source.kind} holds rows with labels, not ratings of users; read it "
            "by read_label_table, or name another format (--format)."
        )
    return _read_long(source.sheet, user, item, value, time)


def is_ratings_file(source: Source) -> bool:
    """Whether the file says that it holds ratings: by its format, or by its header."""
    if source.kind == "movielens":
        return True
    return source.is_sheet and set(source.sheet.names) - {"timestamp"} in _RATINGS_HEADERS


def _read_long(sheet: Sheet, user: str, item: str, value: str | None, time: str | None = None) -> AnswerTable:
    user, item, value = _column_names(sheet, user, item, value, time)
    texts = [user, item] if time is None else [user, item, time]
    columns = sheet.read([] if value is None else [value], texts)
    users, items = (id_values(sheet, name, columns[name]) for name in (user, item))
    times = None if time is None else _times(sheet, time, columns[time])
    if value is None:
        return AnswerTable(users, items, None, times)
    advice = "A value is a number; leave the line out where there is no rating."
    values = to_numbers(sheet, value, columns[value], advice)
    unusable = ~np.isfinite(values)
    if unusable.any():
        row = int(np.argmax(unusable))
        raise DataFileError(
            f"{sheet.path}, {sheet.place(row)}, column {value!r}: {shortened(sheet.value(value, row))} is no "
            "rating. "
            f"{advice}"
        )
    return AnswerTable(users, items, values, times)


def _times(sheet: Sheet, name: str, column: Any) -> NDArray[Any]:
    """A column of times, as they are read from Python; texts that are all numbers are numbers."""
    types = sheet.arrow.types
    given: Any = column.to_numpy() if types.is_temporal(column.type) else column.to_pylist()
    if isinstance(given, list):
        with suppress(TypeError, ValueError):
            given = [float(text) for text in given]

    def place(row: int) -> str:
        return f"the rating in {sheet.path}, {sheet.place(row)}, column {name!r},"

    try:
        return read_times(given, len(column), place)
    except InvalidInputError as error:
        raise DataFileError(str(error)) from error


def _column_names(
    sheet: Sheet, user: str, item: str, value: str | None, time: str | None = None
) -> tuple[str, str, str | None]:
    names = (*sheet.names, *sheet.index_names)
    if (user, item) == ("user", "item") and not {"user", "item"} & set(names):
        known = {_MOVIELENS_HEADER["user"], _MOVIELENS_HEADER["item"]} <= set(names)
        user, item = (_MOVIELENS_HEADER["user"], _MOVIELENS_HEADER["item"]) if known else (user, item)
    require_column(sheet.path, names, user, "users (--user)")
    require_column(sheet.path, names, item, "items (--item)")
    if time is not None:
        require_column(sheet.path, names, time, "times (--time)")
    if value == "value" and value not in names:
        others = [name for name in sheet.names if name not in (user, item, "timestamp", time)]
        if not others:
            return user, item, None
        if "rating" not in others:
            found = value_column_of(sheet, [name for name in (user, item, time) if name is not None])
            such = "" if found is None else f", such as value={found!r} (--value {found})"
            raise DataFileError(
                f"{sheet.path} has no column 'value'. Say which one holds the ratings{such}, or value=None "
                "(--value none) where each line is a like. Its columns are "
                f"{', '.join(map(repr, sheet.names))}."
            )
        value = "rating"
    if value is not None:
        require_column(sheet.path, names, value, "values (--value)")
    return user, item, value


def _read_movielens(path: PathLike, data: bytes, head: bytes, time: str | None) -> AnswerTable:
    arrow = import_pyarrow("Reading MovieLens files")
    from pyarrow import csv as arrow_csv

    double = b"::" in head
    separator = b"::" if double else b"\t"
    width = len(head.split(separator))
    if not 2 <= width <= len(_MOVIELENS_COLUMNS):
        raise DataFileError(f"{path}, line 1: {width} values. {_MOVIELENS_ADVICE}")
    names = _MOVIELENS_COLUMNS[:width]
    if time is not None and time not in names[2:]:
        raise DataFileError(f"{path} has no column {time!r}; it has {', '.join(map(repr, names))}.")
    types = dict.fromkeys(names, arrow.int64())
    if "rating" in names:
        types["rating"] = arrow.float64()
    # Arrow separates by one character; a tab that was there already makes a line too long, which is found.
    body = data.replace(b"::", b"\t") if double else data
    try:
        table = arrow_csv.read_csv(
            arrow_reader(arrow, body),
            read_options=arrow_csv.ReadOptions(
                column_names=list(names), use_threads=is_worth_threads(len(body))
            ),
            parse_options=arrow_csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=arrow_csv.ConvertOptions(column_types=types, null_values=[]),
        )
    except arrow.ArrowInvalid as error:
        raise _movielens_fault(path, data, separator, names) or DataFileError(
            f"{path} cannot be read: {shortened(error, quotes=False)}."
        ) from error
    columns: dict[str, Any] = {name: table.column(name).to_numpy() for name in names}
    values = columns.get("rating")
    if values is not None and not np.isfinite(values).all():
        fault = _movielens_fault(path, data, separator, names)
        if fault:
            raise fault
    times = None if time is None else np.array(columns[time])
    return AnswerTable(np.array(columns["user"]), np.array(columns["item"]), values, times)


def _movielens_fault(
    path: PathLike, data: bytes, separator: bytes, names: Sequence[str]
) -> DataFileError | None:
    """The error of the first line that is not of the format."""
    for line, row in enumerate(data.split(b"\n"), start=1):
        if not row.strip():
            continue
        words = row.strip(b"\r").split(separator)
        if len(words) != len(names):
            return DataFileError(
                f"{path}, line {line}: {len(words)} values, but the first line has {len(names)}. "
                f"{_MOVIELENS_ADVICE}"
            )
        for name, word in zip(names, words, strict=True):
            why = _not_finite(word) if name == "rating" else _not_whole(word)
            if why:
                return DataFileError(
                    f"{path}, line {line}, column {name!r}: {shortened(word)} is {why}. {_MOVIELENS_ADVICE}"
                )
    return None


def _not_finite(word: bytes) -> str | None:
    number = number_of(word.decode()) if _RATING.fullmatch(word) else None
    return "no number" if number is None else None


def _not_whole(word: bytes) -> str | None:
    if not _WHOLE.fullmatch(word):
        return "no number"
    # Python does not convert thousands of digits.
    digits = word.lstrip(b"-").lstrip(b"0")
    return "too large" if len(digits) > 19 or not -(2**63) <= int(word) < 2**63 else None
