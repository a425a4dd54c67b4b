"""One file of named arrays and a JSON document, every byte of it checked on reading.

It is a zip archive that ``numpy.load`` and ``unzip`` open, nothing in it compressed:

- ``labelgap``: the version of this layout and what kind of file it is, in JSON;
- ``document.json``: the document, in UTF-8;
- ``arrays/NAME.npy``: the arrays, in numpy's own format.

The comment at its end is the SHA-256 digest of everything before it, and every later layout keeps that. So
the contents are only read if they are exactly what was written. Nothing in a file is ever executed: arrays of
objects are refused, so no pickle is read or written. The same contents give the same bytes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidInputError
from labelgap.persistence.atomic import atomic_write
from labelgap.persistence.zip_arrays import check_members, read_array

__all__ = ["FORMAT", "Contents", "atomic_write", "read_file", "write_file"]

FORMAT = 1
"""The version of the layout. Higher ones are refused with the advice to upgrade."""

_HEADER, _DOCUMENT, _ARRAYS = "labelgap", "document.json", "arrays/"
_SIGNATURE = b"labelgap sha256 "
_DIGEST_LENGTH = 64
# The name of the first member, where a zip archive has it.
_NAME_PLACE = slice(30, 30 + len(_HEADER))
_BLOCK = 1 << 20


class Contents(NamedTuple):
    """The contents of a file."""

    document: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write_file(
    path: str | os.PathLike[str],
    kind: str,
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write document and arrays to a file, which keeps its old contents if that fails.

    Parameters
    ----------
    path : str or path
        Replaced if it exists.
    kind : str
        What the file is, such as "model"; :func:`read_file` asks for it.
    document : mapping
        Values that JSON can hold. Numbers must be finite; infinities and NaN go into arrays.
    arrays : mapping from name to array
        Of numbers, booleans, times or fixed-length text; not of objects. The order of an array in memory (by
        rows or by columns) is kept.
    """
    ready = {name: _packed(name, array) for name, array in arrays.items()}
    header = json.dumps({"format": FORMAT, "kind": kind}).encode()
    # Text that is not valid Unicode can still be somebody's id.
    text = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
    with atomic_write(path) as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(_HEADER), header)
            archive.writestr(zipfile.ZipInfo(_DOCUMENT), text)
            for name, array in ready.items():
                with archive.open(zipfile.ZipInfo(f"{_ARRAYS}{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
            archive.comment = _SIGNATURE + b"0" * _DIGEST_LENGTH
        end = file.seek(-_DIGEST_LENGTH, os.SEEK_END)
        digest = _digest(file, end)
        file.seek(end)
        file.write(digest)


def read_file(
    path: str | os.PathLike[str], kind: str, error: type[InvalidInputError] = InvalidInputError
) -> Contents:
    """Read what :func:`write_file` wrote, every byte checked.

    Raises ``error`` with what is wrong: not labelgap's, of another kind, truncated, changed, or too new.
    FileNotFoundError and other errors of the system pass through.
    """
    path = Path(path)
    if path.is_dir():
        problem = "This is a folder; give the name of a file in it"
        raise IsADirectoryError(errno.EISDIR, problem, str(path))
    with open(path, "rb") as file:
        if not _is_as_written(file):
            raise error(f"{path} {_why_not(file)}")
        try:
            return _read(path, file, kind, error)
        except Exception as problem:
            # A forged file can raise any error of zipfile, json and numpy's reader of headers, which parses
            # Python: no list of errors would be complete.
            if isinstance(problem, error):
                raise
            raise error(
                f"{path} is labelgap's by its looks, but what is in it is not ({problem}). Make it again."
            ) from problem


def _is_as_written(file: IO[bytes]) -> bool:
    tail = len(_SIGNATURE) + _DIGEST_LENGTH
    if file.seek(0, os.SEEK_END) < tail:
        return False
    end = file.seek(-_DIGEST_LENGTH, os.SEEK_END)
    file.seek(end - len(_SIGNATURE))
    signed = file.read(len(_SIGNATURE)) == _SIGNATURE
    return signed and file.read() == _digest(file, end)


def _why_not(file: IO[bytes]) -> str:
    length = file.seek(0, os.SEEK_END)
    if length == 0:
        return "is empty, not a file that labelgap wrote."
    file.seek(0)
    begins = file.read(_NAME_PLACE.stop)[_NAME_PLACE] == _HEADER.encode()
    file.seek(max(0, length - len(_SIGNATURE) - _DIGEST_LENGTH))
    if begins or file.read(len(_SIGNATURE)) == _SIGNATURE:
        return (
            "is damaged: its contents do not match the digest at its end. It was cut short or changed after "
            "it was written; use a copy, or make it again."
        )
    return "is not a file that labelgap wrote, or its beginning and its end are lost."


def _read(path: Path, file: IO[bytes], kind: str, error: type[InvalidInputError]) -> Contents:
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        check_members(archive, size)
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("something in it is compressed")
        header = json.loads(archive.read(_HEADER))
        if not isinstance(header, dict) or type(header.get("format")) is not int:
            raise ValueError("its header names no format")
        if header["format"] > FORMAT:
            raise error(
                f"{path} has the format {header['format']}, and this labelgap reads formats up to {FORMAT}. "
                "It was written by a newer labelgap: upgrade to read it."
            )
        if header["kind"] != kind:
            raise error(f"{path} holds a {header['kind']}, not a {kind}.")
        document = json.loads(archive.read(_DOCUMENT).decode("utf-8", "surrogatepass"))
        if not isinstance(document, dict):
            raise ValueError("its document is not an object")
        arrays = {}
        for name in archive.namelist():
            if name.startswith(_ARRAYS):
                try:
                    array = read_array(archive, name)
                except ValueError as problem:
                    raise ValueError(f"the array {name[:60]!r}: {problem}") from problem
                arrays[name.removeprefix(_ARRAYS).removesuffix(".npy")] = array
    return Contents(document, arrays)


def _packed(name: str, array: Any) -> NDArray[Any]:
    """The array without gaps and in its memory order, on which the last bits of products depend."""
    given: NDArray[Any] = np.asarray(array)
    if given.dtype.hasobject:
        raise TypeError(f"the array {name!r} holds Python objects, which are not written")
    # Reading refuses them, because a few bytes in a file could stand for any number of texts of length 0.
    if given.dtype.itemsize == 0 and given.size > 0:
        raise ValueError(f"the array {name!r} holds {given.size} values of no bytes")
    return given if given.flags.c_contiguous or given.flags.f_contiguous else given.copy(order="K")


def _digest(file: IO[bytes], end: int) -> bytes:
    """The digest of everything before ``end``."""
    digest = hashlib.sha256()
    file.seek(0)
    while (left := end - file.tell()) > 0:
        block = file.read(min(left, _BLOCK))
        if not block:
            break
        digest.update(block)
    return digest.hexdigest().encode()
