"""The bytes of a text file: unpacked, in UTF-8, with lines that end in newlines."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from labelgap.data.files.formats import PathLike, line_of, open_errors
from labelgap.data.files.limits import Limits
from labelgap.exceptions import DataFileError

_PIECE = 1 << 20
# To read text takes about so many times its size.
_TIMES = 7.0


def read_packed(path: PathLike, limits: Limits) -> bytes:
    """The bytes of a file, unpacked if it is gzip."""
    with open_errors(path):
        data = Path(path).read_bytes()
    return _unpack(path, data, limits) if data.startswith(b"\x1f\x8b") else data


def read_text_bytes(path: PathLike, limits: Limits) -> bytes:
    """The UTF-8 text of a file, unpacked if it is gzip, no byte-order mark, lines ending in newlines."""
    data = read_packed(path, limits)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise DataFileError(f"{path} is empty.")
    _check_encoding(path, data)
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return data


def _check_encoding(path: PathLike, data: bytes) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataFileError(f"{path} is in UTF-16; save it as UTF-8.")
    zero = data.find(b"\0")
    if zero >= 0:
        raise DataFileError(
            f"{path}, line {line_of(data, zero)}: a zero byte, so this is no text; check the format "
            "(--format)."
        )
    if data.isascii():
        return
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{path}, line {line_of(data, error.start)}: the byte 0x{data[error.start]:02x} is not UTF-8; "
            "save the file as UTF-8."
        ) from error


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
