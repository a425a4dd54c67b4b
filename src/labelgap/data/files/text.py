"""The bytes of a text file: unpacked, in UTF-8, with lines that end in newlines."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from labelgap.data.files.formats import UNPACK, PathLike, open_errors
from labelgap.data.files.limits import Limits
from labelgap.data.files.text_encoding import to_utf8
from labelgap.exceptions import DataFileError

# What packed files begin with, and no text does.
_OTHER_PACKERS = {
    **{b"BZh%d\x31\x41\x59" % level: "bzip2" for level in range(1, 10)},
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"PK\x03\x04": "zip (as Excel files are, too)",
}
_PIECE = 1 << 20
# To read text takes about so many times its size.
_TIMES = 7.0


def read_packed(path: PathLike, limits: Limits) -> bytes:
    """The bytes of a file, unpacked if it is gzip."""
    with open_errors(path):
        data = Path(path).read_bytes()
    for begins, packer in _OTHER_PACKERS.items():
        if data.startswith(begins):
            raise DataFileError(f"{path} is packed by {packer}, which is not read. {UNPACK}")
    return _unpack(path, data, limits) if data.startswith(b"\x1f\x8b") else data


def read_text_bytes(
    path: PathLike,
    limits: Limits,
    encoding: str | None = None,
    *,
    otherwise: str | None = None,
    option: str = "--encoding",
) -> bytes:
    """The text of a file as UTF-8, unpacked if it is gzip, no byte-order mark, lines ending in newlines.

    ``encoding`` is that of the file; None finds it, as :func:`to_utf8` does, which says what ``otherwise``
    and ``option`` are.
    """
    data = to_utf8(path, read_packed(path, limits), encoding, otherwise=otherwise, option=option)
    if not data.strip():
        raise DataFileError(f"{path} is empty.")
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return data


def _unpack(path: PathLike, data: bytes, limits: Limits) -> bytes:
    """The contents of a gzip file, checked piece by piece against the limits."""
    pieces: list[bytes] = []
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while piece := file.read(_PIECE):
                size += len(piece)
                pieces.append(piece)
                limits.check(path, size, len(data), _TIMES)
    except (OSError, EOFError, zlib.error) as error:
        raise DataFileError(f"{path}: the gzip file is damaged ({error}); fetch it again.") from error
    return b"".join(pieces)
