"""The bytes of a text file as UTF-8, from whatever encoding they are in."""

from __future__ import annotations

import codecs
from typing import TypeAlias

from labelgap._warn import warn
from labelgap.exceptions import DataFileError, InvalidParameterError, LabelgapWarning

PathName: TypeAlias = object

_UTF8_MARK = b"\xef\xbb\xbf"
# The longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_WESTERN = "cp1252"
_LONGEST_NAME = 40
# Signs besides letters that are written in Western European texts.
_SIGNS = frozenset("–—‘’‚“”„…€£§©®°±²³´µ·×÷¿¡«»•\u00a0ªº¼½¾")


def line_of(data: bytes, position: int) -> int:
    """The line, from 1, of a position in a text."""
    return data.count(b"\n", 0, position) + 1


def check_encoding_name(name: str) -> str:
    """The usual name of an encoding of texts, or an error if there is none of that name.

    Examples
    --------
    >>> check_encoding_name("Latin-1")
    'iso8859-1'
    """
    try:
        found = codecs.lookup(name)
        # Some encodings are of bytes as bytes, such as base64; to decode a text by these raises LookupError.
        "".encode(name)
    except (LookupError, TypeError, ValueError) as error:
        shown = f"{name[:_LONGEST_NAME]}…" if isinstance(name, str) and len(name) > _LONGEST_NAME else name
        raise InvalidParameterError(
            f"There is no encoding {shown!r} of texts; usual ones are utf-8, latin-1, cp1252 and utf-16."
        ) from error
    return found.name


def to_utf8(
    path: PathName,
    data: bytes,
    encoding: str | None = None,
    *,
    otherwise: str | None = None,
    option: str = "--encoding",
) -> bytes:
    """The text as UTF-8 without a mark at its beginning.

    An encoding that is not given is UTF-8, or that of the mark at the beginning of the file. A text that is
    neither is in the encoding ``otherwise`` where the format has one; else it is read as Latin-1
    (Windows-1252), with a warning, where all it has besides ASCII are letters and signs of Western European
    languages. ``option`` is what the command line calls the encoding of this file.

    Examples
    --------
    >>> to_utf8("a.csv", "größe".encode("latin-1"), "latin-1").decode()
    'größe'
    """
    if encoding is not None:
        return _decoded(path, data, check_encoding_name(encoding), option).removeprefix(_UTF8_MARK)
    for mark, marked in _MARKS.items():
        if data.startswith(mark):
            return _decoded(path, data, marked, option)
    data = data.removeprefix(_UTF8_MARK)
    zero = data.find(b"\0")
    if zero >= 0:
        raise DataFileError(
            f"{path}, line {line_of(data, zero)}: a zero byte, so this is no text; check the format "
            "(--format)."
        )
    if data.isascii():
        return data
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        if otherwise is not None:
            return _decoded(path, data, otherwise, option)
        return _western(path, data, error.start, option)
    return data


def _decoded(path: PathName, data: bytes, encoding: str, option: str) -> bytes:
    if encoding.startswith(("utf-16", "utf-32")) and data and b"\0" not in data:
        # Bytes of another encoding make signs in this one as well, but its line ends have zero bytes.
        raise DataFileError(
            f"{path} is no text in {encoding.upper()}, for it has no zero byte. Leave encoding= ({option}) "
            "out, so that the encoding is found, or name another one."
        )
    try:
        return data.decode(encoding).encode()
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{path}, line {line_of(data, error.start)}: the byte 0x{data[error.start]:02x} is not "
            f"{encoding.upper()}; name the encoding with encoding= ({option}), or save the file as UTF-8."
        ) from error
    except UnicodeError as error:
        # UTF-7 and the like can stand for halves of characters, which UTF-8 cannot.
        raise DataFileError(
            f"{path} is no text in {encoding.upper()}; name the encoding with encoding= ({option}), or "
            "save the file as UTF-8."
        ) from error


def _western(path: PathName, data: bytes, start: int, option: str) -> bytes:
    """The text read as Windows-1252, of which Latin-1 is a part, if that makes sense."""
    try:
        text = data.decode(_WESTERN)
    except UnicodeDecodeError:
        text = ""
    others = {sign for sign in set(text) if not sign.isascii()}
    if not text or not all(sign.isalpha() or sign in _SIGNS for sign in others):
        raise DataFileError(
            f"{path}, line {line_of(data, start)}: the byte 0x{data[start]:02x} is not UTF-8, and the text "
            f"is not Latin-1 either; name the encoding with encoding= ({option}), or save the file as UTF-8."
        )
    warn(
        f"{path} is not UTF-8 (line {line_of(data, start)}, byte 0x{data[start]:02x}); it was read as "
        f"Latin-1, where this is {bytes([data[start]]).decode(_WESTERN)!r}. Say encoding='latin-1' "
        f"({option} latin-1) if that is right, or name another encoding.",
        LabelgapWarning,
    )
    return text.encode()
