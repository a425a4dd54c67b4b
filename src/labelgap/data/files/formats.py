"""The format of a file, the memory that Arrow reads it from, and words for error messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from labelgap._names import unknown_name
from labelgap.exceptions import DataFileError, MissingExtraError

PathLike: TypeAlias = str | os.PathLike[str]

FORMATS: dict[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "tsv": (".tsv",),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "arff": (".arff",),
    "xmc": (".txt", ".svm", ".xmc"),
    "movielens": (".data", ".dat"),
}
"""Every format, with the suffixes it is known by."""
SHEETS = ("csv", "tsv", "parquet")
"""Formats of rows and named columns."""
TEXT = ("csv", "tsv", "arff", "xmc", "movielens")
"""Formats that may be compressed by gzip."""
UNPACK = "Unpack it first, or pack it by gzip (.gz) instead."
"""What to do with a file that is packed otherwise than by gzip."""
# Suffixes of files that are never read, so that --format would not help.
_PACKED = {
    ".bz2": "bzip2",
    ".xz": "xz",
    ".lzma": "lzma",
    ".zst": "Zstandard",
    ".lz4": "lz4",
    ".zip": "zip",
    ".7z": "7-Zip",
    ".tar": "tar",
    ".tgz": "tar",
}
_OTHERS = {
    ".feather": "Feather",
    ".arrow": "Arrow",
    ".json": "JSON",
    ".jsonl": "JSON Lines",
    ".ndjson": "JSON Lines",
    ".xlsx": "Excel",
    ".xls": "Excel",
    ".ods": "OpenDocument",
    ".orc": "ORC",
    ".avro": "Avro",
    ".pkl": "pickle",
    ".npy": "npy",
    ".h5": "HDF5",
    ".dta": "Stata",
    ".sav": "SPSS",
    ".sas7bdat": "SAS",
}
_THREADS_FROM = 1 << 23
_SHOWN = 60


def detect_format(path: PathLike, format: str | None = None) -> str:
    """The format of a file: ``format`` where it is given, else by the suffix, with ``.gz`` set aside.

    Examples
    --------
    >>> detect_format("songs.csv.gz"), detect_format("u.data"), detect_format("scores", format="npz")
    ('csv', 'movielens', 'npz')
    """
    if format is not None:
        if format not in FORMATS:
            raise unknown_name("format", format, FORMATS)
        return format
    found = format_by_name(path)
    if found is not None:
        return found
    if Path(path).is_dir():
        raise DataFileError(f"{path} is a folder, not a file.")
    suffix = last_suffix(path)
    if suffix in _PACKED:
        raise DataFileError(f"{path}: files packed by {_PACKED[suffix]} are not read. {UNPACK}")
    if suffix in _OTHERS:
        raise DataFileError(
            f"{path}: {_OTHERS[suffix]} files are not read. Save the table as CSV or Parquet, and give that "
            "file."
        )
    listed = ", ".join(f"{known} ({' '.join(suffixes)})" for known, suffixes in FORMATS.items())
    raise DataFileError(
        f"{path}: the suffix {suffix!r} does not say what format it has. Known: {listed}, those of text also "
        "with .gz. Name the format with format= (--format)."
    )


def format_by_name(path: PathLike) -> str | None:
    """The format that the suffix says, with ``.gz`` set aside; None where it says none."""
    name = Path(path).name.lower()
    packed = name.endswith(".gz")
    suffix = Path(name.removesuffix(".gz")).suffix
    for known, suffixes in FORMATS.items():
        if suffix in suffixes and (not packed or known in TEXT):
            return known
    return None


def last_suffix(path: PathLike) -> str:
    """The last suffix of a name, in lower case; empty where it has none."""
    return Path(Path(path).name.lower()).suffix


def import_pyarrow(what: str) -> Any:
    """The package pyarrow, or an error that says which extra brings it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs the package pyarrow: run pip install 'labelgap[cli]'."
        ) from error
    return pyarrow


def arrow_reader(arrow: Any, data: bytes | memoryview) -> Any:
    """A reader of a copy of ``data`` in memory of Arrow's own.

    Arrow reads in threads that may release their source late, even while the interpreter ends. If the source
    were a Python object, such a thread would then ask for the interpreter's lock, and the process would
    abort.
    """
    copy = arrow.BufferOutputStream()
    copy.write(data)
    return arrow.BufferReader(copy.getvalue())


def is_worth_threads(size: int) -> bool:
    """Whether Arrow should read so many bytes with several threads; below, starting them costs more."""
    return size >= _THREADS_FROM


@contextmanager
def open_errors(path: PathLike) -> Iterator[None]:
    """Turns what the system says about a file that cannot be opened into a DataFileError."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataFileError(f"{path}: there is no such file.") from error
    except IsADirectoryError as error:
        raise DataFileError(f"{path} is a folder, not a file.") from error
    except PermissionError as error:
        raise DataFileError(f"{path} may not be read by this user.") from error
    except OSError as error:
        raise DataFileError(
            f"{path} cannot be read: {shortened(error.strerror or error, quotes=False)}."
        ) from error


def shortened(value: object, quotes: bool = True) -> str:
    """What a file holds, for an error message: its beginning alone if it is long.

    Examples
    --------
    >>> shortened("tall"), shortened(b"9" * 5000)
    ("'tall'", "'99999999999999999999999999999999999999999999999999999999999…' (5000 characters)")
    """
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if not quotes:
        text = " ".join(text.split())
    if len(text) <= _SHOWN:
        return repr(text) if quotes else text
    begins = text[: _SHOWN - 1] + "…"
    return f"{begins!r} ({len(text)} characters)" if quotes else begins
