"""How separated values are written: the delimiter and the decimal sign, found where that is safe."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from itertools import islice

from labelgap.exceptions import InvalidParameterError

_OTHERS = (";", "\t", "|", ",")
_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
# Records that are looked at.
_SAMPLE = 200
_COMMA_NUMBER = re.compile(r"[+-]?[0-9]+,([0-9]+)(?:[eE][+-]?[0-9]+)?")
_POINT_NUMBER = re.compile(r"[+-]?[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?")
_THOUSANDS = 3


@dataclass(frozen=True)
class Dialect:
    """What was said about the text of a file; None is found, or the usual one.

    Parameters
    ----------
    delimiter : str or None
        One character, or one of the words tab, comma, semicolon, pipe and space.
    encoding : str or None
        A name that Python knows, such as "latin-1".
    decimal : "." or ",", or None
        The sign before the decimals of a number.

    Examples
    --------
    >>> Dialect(delimiter="tab").delimiter
    '\\t'
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            sign = _NAMES.get(self.delimiter, self.delimiter)
            if not isinstance(sign, str) or len(sign) != 1 or sign in '"\r\n':
                raise InvalidParameterError(
                    f"delimiter (--delimiter) is one character, or one of {', '.join(sorted(_NAMES))}; got "
                    f"{self.delimiter!r}."
                )
            object.__setattr__(self, "delimiter", sign)
        if self.decimal not in (None, ".", ","):
            raise InvalidParameterError(f"decimal (--decimal) is '.' or ','; got {self.decimal!r}.")
        if self.decimal is not None and self.decimal == self.delimiter:
            raise InvalidParameterError(
                f"delimiter and decimal are both {self.decimal!r}; one sign cannot be both."
            )


def find_delimiter(data: bytes, usual: str) -> str:
    """The usual delimiter, or another one that the header has and that cuts all lines alike.

    Examples
    --------
    >>> find_delimiter(b"name;size\\nann;1,5\\n", ","), find_delimiter(b"a,b\\n1;2,3\\n", ",")
    (';', ',')
    """
    header = data[: data.find(b"\n")] if b"\n" in data else data
    if usual.encode() in header:
        return usual
    for other in _OTHERS:
        if other != usual and other.encode() in header and _cuts_alike(data, other):
            return other
    return usual


def _cuts_alike(data: bytes, delimiter: str) -> bool:
    try:
        widths = {len(record) for record in _records(data, delimiter)}
    except csv.Error:
        return False
    return len(widths) == 1 and widths.pop() > 1


def find_decimal(data: bytes, delimiter: str) -> str:
    """A comma where numbers have commas and none has a point, and it cannot be a sign for thousands.

    Examples
    --------
    >>> find_decimal(b"size\\n1,5\\n2,25\\n", ";"), find_decimal(b"size\\n1,500\\n2,250\\n", ";")
    (',', '.')
    """
    if delimiter == "," or b"," not in data:
        return "."
    decimals: set[int] = set()
    try:
        for record in _records(data, delimiter):
            for value in map(str.strip, record):
                if _POINT_NUMBER.fullmatch(value):
                    return "."
                found = _COMMA_NUMBER.fullmatch(value)
                if found:
                    decimals.add(len(found[1]))
    except csv.Error:
        return "."
    # 1,500 may be one and a half, or one thousand five hundred.
    return "," if decimals - {_THOUSANDS} else "."


def _records(data: bytes, delimiter: str) -> list[list[str]]:
    """The first records that are not empty."""
    lines = (line.decode("utf-8") for line in io.BytesIO(data))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    return list(islice((record for record in reader if record), _SAMPLE))
