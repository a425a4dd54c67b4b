"""The format of a file, its bytes, and the memory that Arrow reads them from."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from labelgap._names import unknown_name
from labelgap.data.files.text_encoding import to_utf8
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
_THREADS_FROM = 1 << 23


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
    name = Path(path).name.lower()
    packed = name.endswith(".gz")
    suffix = Path(name.removesuffix(".gz")).suffix
    for known, suffixes in FORMATS.items():
        if suffix in suffixes and (not packed or known in TEXT):
            return known
    if Path(path).is_dir():
        raise DataFileError(f"{path} is a folder, not a file.")
    listed = ", ".join(f"{known} ({' '.join(suffixes)})" for known, suffixes in FORMATS.items())
    raise DataFileError(
        f"{path}: the suffix {''.join(Path(name).suffixes[-1:])!r} does not say what format it has. Known: "
        f"{listed}, those of text also with .gz. Name the format with format= (--format)."
    )


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


def read_text_bytes(path: PathLike, encoding: str | None = None) -> bytes:
    """The text of a file as UTF-8, unpacked if it is gzip, no byte-order mark, lines ending in newlines.

    ``encoding`` is that of the file; None finds it, as :func:`to_utf8` does.
    """
    with open_errors(path):
        data = Path(path).read_bytes()
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise DataFileError(f"{path}: the gzip file is damaged ({error}); fetch it again.") from error
    data = to_utf8(path, data, encoding)
    if not data.strip():
        raise DataFileError(f"{path} is empty.")
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return data
