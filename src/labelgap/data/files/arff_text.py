"""The pieces of a line of an ARFF file: comments, quoted values, pairs of a sparse row.

Every pattern reads a line once, from left to right: its repetitions are possessive (``*+``), so that they
never give back what they took. With others, a line of blanks before a single quote would take time that grows
with the cube of its length.
"""

from __future__ import annotations

import re

_QUOTED = r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\""""
_ATTRIBUTE = re.compile(rf"@attribute\s++(?:{_QUOTED}|([^\s{{]++))\s*+(.*)", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(rf"\s*+(?:(?:{_QUOTED})\s*+|([^,'\"]*+))(,|\Z)", re.DOTALL)
_COMMENT = re.compile(rf"(?:{_QUOTED}|[^%'\"])*+(%)", re.DOTALL)
_PAIR = re.compile(rf"((?:[^,'\"]|{_QUOTED})*+)(,|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def strip_comment(line: str) -> str:
    """The line without what follows a % outside quotes."""
    if "%" not in line:
        return line
    found = _COMMENT.match(line)
    return line[: found.start(3)] if found else line


def split_attribute(text: str) -> tuple[str, str] | None:
    """The name and the type of ``@attribute name type``; None where it is not that.

    Examples
    --------
    >>> split_attribute("@attribute 'how loud' {0, 1}")
    ('how loud', '{0, 1}')
    """
    found = _ATTRIBUTE.fullmatch(text)
    if found is None or not found[4]:
        return None
    if found[3] is not None:
        return found[3], found[4]
    return _unescape(found[1] if found[1] is not None else found[2]), found[4]


def split_values(text: str) -> list[str] | None:
    """Values between commas, quotes and escapes taken off; None where the quotes do not match.

    Examples
    --------
    >>> split_values("1 , 'a, b',")
    ['1', 'a, b', '']
    """
    values, at = [], 0
    while True:
        found = _VALUE.match(text, at)
        if found is None:
            return None
        quoted = found[1] if found[1] is not None else found[2]
        values.append(found[3].rstrip() if quoted is None else _unescape(quoted))
        at = found.end()
        if not found[4]:
            return values


def split_pairs(inside: str) -> list[str] | None:
    """The pairs of a sparse row, between the commas outside quotes; None where the quotes do not match.

    Examples
    --------
    >>> split_pairs("0 'a, b', 3 1")
    ["0 'a, b'", '3 1']
    """
    pairs, at = [], 0
    while True:
        found = _PAIR.match(inside, at)
        if found is None:
            return None
        if pair := found[1].strip():
            pairs.append(pair)
        at = found.end()
        if not found[4]:
            return pairs


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)
