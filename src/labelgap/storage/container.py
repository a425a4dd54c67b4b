"""One file of named arrays and a JSON document, whole or not there at all.

It is an ``.npz`` archive (``numpy.load`` opens it) with one more member: the document, in UTF-8, beside the
format's version, what kind of file it is, and a digest of everything. Nothing in it is ever executed: arrays
of objects are refused, so no pickle is read or written.

A file is written under another name and renamed when it is complete and on the disk. So whoever reads sees
the old file or the new one, whenever the writer is killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidInputError

FORMAT = 1
"""The version of the layout. Higher ones are refused with the advice to upgrade."""
_HEADER = "labelgap"
_NOT_OURS = "It is not a file that labelgap wrote."


class Contents(NamedTuple):
    """What a file holds."""

    document: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write_file(
    path: str | os.PathLike[str],
    kind: str,
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write document and arrays, or leave what was there before.

    Parameters
    ----------
    path : str or path
        Replaced if it exists.
    kind : str
        What the file is, such as "model"; :func:`read_file` asks for it.
    document : mapping
        What JSON can say. Numbers must be finite, except for infinities and NaN inside arrays.
    arrays : mapping from name to array
        Of numbers, booleans or fixed-length text; not of objects.
    """
    path = Path(path)
    ready = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in ready.items():
        if array.dtype.hasobject:
            raise TypeError(f"the array {name!r} holds Python objects, which are not written")
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True)
    header = {"format": FORMAT, "kind": kind, "digest": _digest(kind, text, ready), "document": text}
    members = {f"array/{name}": array for name, array in ready.items()}
    members[_HEADER] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with atomic_write(path) as file:
        np.savez(file, **members)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Any:
    """A binary file that takes the place of ``path`` at the end of the block, or never if that fails.

    Examples
    --------
    >>> with atomic_write("a.txt") as file:
    ...     _ = file.write(b"all of it")
    >>> open("a.txt").read()
    'all of it'
    """
    path = Path(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for the owner alone; this one is like any other file.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def read_file(
    path: str | os.PathLike[str], kind: str, error: type[InvalidInputError] = InvalidInputError
) -> Contents:
    """Read what :func:`write_file` wrote, every byte checked.

    Raises ``error`` with what is wrong: not labelgap's, of another kind, truncated, changed, or too new.
    FileNotFoundError and other errors of the system pass through.
    """
    path = Path(path)
    with open(path, "rb") as file:
        start = file.read(4)
    if not start.startswith(b"PK"):
        what = "is empty" if not start else "cannot be read"
        raise error(f"{path} {what}. {_NOT_OURS}")
    try:
        return _read(path, kind, error)
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, UnicodeDecodeError, OSError) as problem:
        if isinstance(problem, error):
            raise
        raise error(
            f"{path} is damaged: {problem}. It was cut short or changed after it was written; use a copy, or "
            "make it again."
        ) from problem


def _read(path: Path, kind: str, error: type[InvalidInputError]) -> Contents:
    with np.load(path, allow_pickle=False) as archive:
        if _HEADER not in archive.files:
            raise error(f"{path} cannot be read. {_NOT_OURS}")
        header = json.loads(bytes(archive[_HEADER]).decode())
        if not isinstance(header, dict) or not isinstance(header.get("format"), int):
            raise ValueError("its header is not one of labelgap's")
        if header["format"] > FORMAT:
            raise error(
                f"{path} has the format {header['format']}, and this labelgap reads formats up to {FORMAT}. "
                "It was written by a newer labelgap: upgrade to read it."
            )
        if header["kind"] != kind:
            raise error(f"{path} holds a {header['kind']}, not a {kind}.")
        arrays = {name.removeprefix("array/"): archive[name] for name in archive.files if name != _HEADER}
    text = header["document"]
    if header["digest"] != _digest(kind, text, arrays):
        raise ValueError("its contents do not match their digest")
    return Contents(json.loads(text), arrays)


def _digest(kind: str, text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for part in (kind, text):
        digest.update(f"{len(part)}:{part}".encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        # As bytes: not every type of number can be read as a buffer. Nothing to read where nothing is.
        if math.prod(array.shape):
            digest.update(array.reshape(-1).view(np.uint8))
    return digest.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power failure too, where folders can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
