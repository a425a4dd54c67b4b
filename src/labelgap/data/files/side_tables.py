"""Tables of users or items: what they are called and what is known of them, besides their ratings.

The tables of MovieLens are known by their names: ``u.item``, ``u.user``, ``movies.dat``, ``users.dat``. Other
files have a header.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.data.files.formats import PathLike
from labelgap.data.files.limits import Limits, MaxUnpacked, read_limits
from labelgap.data.files.parquet_sheet import ParquetSheet
from labelgap.data.files.text import read_text_bytes
from labelgap.exceptions import DataFileError, InvalidParameterError

_GENRES = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War"),
    "Western",
)
# Separator and columns of the files without a header, by their names or else by their suffixes.
_KNOWN: dict[str, tuple[str, tuple[str, ...]]] = {
    "u.item": ("|", ("item", "title", "release date", "video release date", "URL", *_GENRES)),
    "u.user": ("|", ("user", "age", "gender", "occupation", "zip code")),
    "movies.dat": ("::", ("item", "title", "genres")),
    "users.dat": ("::", ("user", "gender", "age", "occupation", "zip code")),
}
_KNOWN |= {".item": _KNOWN["u.item"], ".user": _KNOWN["u.user"]}
_MOVIELENS_ENCODING = "latin-1"
# In those files: what is no feature whatever it holds, and numbers that stand for kinds.
_NO_FEATURES = ("release date", "video release date", "URL", "zip code")
_KINDS = ("occupation",)
_ID_COLUMNS = {
    "item": ("item", "item_id", "itemid", "movieid", "movie_id", "id"),
    "user": ("user", "user_id", "userid", "id"),
}
_TITLES = ("title", "name")
_SEPARATORS = ("::", "|", "\t", ";", ",")
# A text with more values than this says which one it is, rather than of what kind.
_MOST_CATEGORIES = 60
_MISSING = ("", "?", "NA", "N/A", "nan", "NaN", "null", "None")


@dataclass(frozen=True)
class SideTable:
    """Users or items with what a file says about them.

    Parameters
    ----------
    ids : tuple of int, or of str
    titles : mapping from id to title, or None where there is no column of titles
    names : tuple of str
        The features: the name of a column of numbers, or ``column=value`` for a value of a text.
    rows : array of shape (ids, features)
        0 and 1 for texts; a number that is missing is the mean of its column.
    ignored : tuple of str
        Columns of texts that have too many values, or whose values are not shared.
    """

    ids: tuple[Any, ...]
    titles: dict[Any, str] | None
    names: tuple[str, ...]
    rows: Floats
    ignored: tuple[str, ...] = ()

    @property
    def features(self) -> dict[Any, Floats] | None:
        """The features by id, as ``Recommender.fit`` takes them; None where there are none."""
        return dict(zip(self.ids, self.rows, strict=True)) if self.names else None


def read_side_table(
    path: PathLike,
    what: str = "item",
    *,
    id: str | None = None,
    names: Sequence[str] | None = None,
    encoding: str | None = None,
    max_unpacked_mb: MaxUnpacked = "auto",
) -> SideTable:
    """Read a table of items or users: ids, titles and features.

    Columns of numbers are features. A text is one feature for each of its values, if it has at most 60 and
    half of them or more are in several rows; a row may have several, as in ``Comedy|Drama``. Other texts are
    ignored.

    Parameters
    ----------
    path : str or path
        csv, tsv or another text with a header, separated by a comma, tab, semicolon, ``|`` or ``::``, also
        with ``.gz``; parquet; or the files of MovieLens: ``u.item``, ``u.user``, ``movies.dat``,
        ``users.dat``, ``movies.csv``.
    what : "item" or "user", default "item"
    id : name of a column, default None
        None goes by the usual names: item, item_id, movieId, id and the like.
    names : names of features, default None
        Exactly these, as an earlier table had them: a value that is not among them is no feature, and what is
        missing is 0. None finds out from the columns what the features are.
    encoding : str, default None
        Of a text. None finds it as :func:`read_label_table` does: UTF-8, UTF-16 with a mark, or Latin-1, with
        a warning; the files of MovieLens without a header are known to be in Latin-1.
    max_unpacked_mb : float, "auto" or None, default "auto"
        As in :func:`read_label_file`.

    Examples
    --------
    >>> _ = Path("films.csv").write_text("item,title,year,of\\n1,Ran,1985,war\\n2,Paths,1957,war\\n")
    >>> table = read_side_table("films.csv")
    >>> table.titles, table.names
    ({1: 'Ran', 2: 'Paths'}, ('year', 'of=war'))
    """
    limits, option = read_limits(max_unpacked_mb), f"--{what}s-encoding"
    if _is_parquet(path):
        if encoding is not None:
            raise InvalidParameterError(
                f"{path}: encoding ({option}) is for text files, and this one is parquet."
            )
        columns, inner = _parquet(path, limits)
    else:
        columns, inner = _text(path, limits, encoding, option)
    is_movielens = not _is_parquet(path) and _known(path) is not None
    key = _id_column(path, columns, what, id)
    ids = _ids(path, columns.pop(key), key, what)
    title = next((name for name in columns if name.lower() in _TITLES), None)
    titles = None
    if title is not None:
        titles = {name: text for name, text in zip(ids, columns.pop(title), strict=True) if text}
    if names is not None:
        wanted = [_wanted(path, name, columns, inner) for name in names]
        rows = np.column_stack(wanted) if wanted else np.zeros((len(ids), 0))
        return SideTable(ids, titles, tuple(names), rows)
    found_names: list[str] = []
    parts: list[Floats] = []
    ignored: list[str] = []
    for column, texts in columns.items():
        found = None
        if not (is_movielens and column in _NO_FEATURES):
            found = _features(column, texts, inner, as_texts=is_movielens and column in _KINDS)
        if found is None:
            ignored.append(column)
        else:
            found_names += found
            parts += found.values()
    rows = np.column_stack(parts) if parts else np.zeros((len(ids), 0))
    return SideTable(ids, titles, tuple(found_names), rows, tuple(ignored))


# -- columns -------------------------------------------------------------------------------------------


def _is_parquet(path: PathLike) -> bool:
    return Path(path).suffix.lower() in (".parquet", ".pq")


def _plain_name(path: PathLike) -> Path:
    return Path(str(path).lower().removesuffix(".gz"))


def _known(path: PathLike) -> tuple[str, tuple[str, ...]] | None:
    """The separator and the columns of a file of MovieLens without a header."""
    name = _plain_name(path)
    return _KNOWN.get(name.name) or _KNOWN.get(name.suffix)


def _parquet(path: PathLike, limits: Limits) -> tuple[dict[str, list[str]], str]:
    sheet = ParquetSheet(path, limits)
    try:
        table = sheet.read([], [*sheet.index_names, *sheet.names])
    finally:
        sheet.close()
    columns = {
        name: ["" if one is None else str(one) for one in column.to_pylist()]
        for name, column in table.items()
    }
    return columns, "|"


def _text(
    path: PathLike, limits: Limits, encoding: str | None, option: str
) -> tuple[dict[str, list[str]], str]:
    """The columns of a text, and the separator of several values in one of them."""
    known = _known(path)
    usual = None if known is None else _MOVIELENS_ENCODING
    text = read_text_bytes(path, limits, encoding, otherwise=usual, option=option).decode("utf-8")
    if known is not None:
        separator, header = known
        lines = _split(path, text, separator)
        return _by_column(path, list(header), lines, first_line=1), "\0" if separator == "|" else "|"
    first = text.split("\n", 1)[0]
    separator = "\t" if _plain_name(path).suffix == ".tsv" else max(_SEPARATORS, key=first.count)
    header_line, *lines = _split(path, text, separator)
    names = [one.strip() for one in header_line]
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise DataFileError(f"{path}, line 1: two columns are called {twice!r}; give one another name.")
    return _by_column(path, names, lines, first_line=2), "\0" if separator == "|" else "|"


def _split(path: PathLike, text: str, separator: str) -> list[list[str]]:
    if separator == "::":
        return [line.split("::") for line in text.split("\n") if line.strip()]
    # Such files have no quotes around texts, but quotes in titles.
    if separator == "|":
        return [line.split("|") for line in text.split("\n") if line.strip()]
    rows = csv.reader(io.StringIO(text), delimiter=separator)
    try:
        return [row for row in rows if row]
    except csv.Error as error:
        raise DataFileError(f"{path}, line {rows.line_num}: {error}.") from error


def _by_column(
    path: PathLike, names: list[str], lines: Sequence[list[str]], first_line: int
) -> dict[str, list[str]]:
    for number, line in enumerate(lines):
        if len(line) != len(names):
            raise DataFileError(
                f"{path}, line {number + first_line}: {len(line)} values, but there are {len(names)} columns "
                f"({', '.join(names[:4])}{', ...' if len(names) > 4 else ''})."
            )
    if not lines:
        raise DataFileError(f"{path} has a header and no rows.")
    return {name: [line[at].strip() for line in lines] for at, name in enumerate(names)}


# -- ids and features ----------------------------------------------------------------------------------


def _id_column(path: PathLike, columns: Mapping[str, Any], what: str, asked: str | None) -> str:
    if asked is not None and asked in columns:
        return asked
    found = next((name for name in columns if name.lower() in _ID_COLUMNS[what]), None)
    if found is None:
        raise DataFileError(
            f"{path}: which column holds the {what}s? It has {', '.join(map(repr, columns))}; call one of "
            f"them {what!r}."
        )
    return found


def _ids(path: PathLike, texts: list[str], column: str, what: str) -> tuple[Any, ...]:
    if "" in texts:
        raise DataFileError(f"{path}: row {texts.index('') + 1} has no {what} in the column {column!r}.")
    # Numbers as in ratings; "007" is a text, and so is what does not fit into 64 bits.
    whole = all(len(text) <= 20 and text.removeprefix("-").isdecimal() for text in texts)
    whole = whole and all(str(int(text)) == text and abs(int(text)) < 2**63 for text in texts)
    ids: tuple[Any, ...] = tuple(map(int, texts)) if whole else tuple(texts)
    seen: set[Any] = set()
    for one in ids:
        if one in seen:
            raise DataFileError(f"{path}: the {what} {one!r} is there twice; keep one of the rows.")
        seen.add(one)
    return ids


def _wanted(path: PathLike, name: str, columns: Mapping[str, list[str]], inner: str) -> Floats:
    """One feature by its name."""
    if name in columns:
        found = _numbers(columns[name])
        if found is None or np.isnan(found).any():
            raise DataFileError(f"{path}: the column {name!r} must hold a number in every row.")
        return found
    for at, letter in enumerate(name):
        if letter == "=" and name[:at] in columns:
            value = name[at + 1 :]
            return np.array([float(value in text.split(inner)) for text in columns[name[:at]]])
    raise DataFileError(
        f"{path} has no column for the feature {name!r}; it has {', '.join(map(repr, columns))}."
    )


def _numbers(texts: list[str]) -> Floats | None:
    """The texts as numbers, NaN where one is missing; None where one is no number."""
    try:
        found = np.array([np.nan if text in _MISSING else float(text) for text in texts])
    except ValueError:
        return None
    return None if np.isinf(found).any() else found


def _features(
    column: str, texts: list[str], inner: str, *, as_texts: bool = False
) -> dict[str, Floats] | None:
    """The features of a column by name; None where it says nothing that others could share."""
    missing = np.array([text in _MISSING for text in texts])
    if missing.all():
        return None
    numbers = None if as_texts else _numbers(texts)
    if numbers is not None:
        return {column: np.where(np.isnan(numbers), np.nanmean(numbers), numbers)}
    several = [set() if gone else set(text.split(inner)) for text, gone in zip(texts, missing, strict=True)]
    counts = Counter(value for some in several for value in some)
    values = sorted(counts)
    shared = sum(count > 1 for count in counts.values())
    if len(values) > _MOST_CATEGORIES or 2 * shared < len(values):
        return None
    return {f"{column}={value}": np.array([float(value in some) for some in several]) for value in values}
