"""What the cells of a text file say: yes, no, missing, a number."""

from __future__ import annotations

import math
import re

MISSING = frozenset(("", "?", "nan", "na", "n/a", "null", "none"))
"""What is not known, in lower case."""
MISSING_SPELLINGS = tuple(
    sorted({spelling for word in MISSING for spelling in (word, word.upper(), word.title())} | {"NaN"})
)
YES = frozenset(("true", "yes"))
NO = frozenset(("false", "no"))
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def number_of(text: str) -> float | None:
    """The number that a text stands for, NaN for what is missing, None where it is no finite number.

    Examples
    --------
    >>> number_of(" 2.5"), number_of("Yes"), number_of("n/a"), number_of("tall")
    (2.5, 1.0, nan, None)
    """
    word = text.strip().lower()
    if word in MISSING:
        return math.nan
    if word in YES:
        return 1.0
    if word in NO:
        return 0.0
    value = float(word) if _NUMBER.fullmatch(word) else math.inf
    return value if math.isfinite(value) else None
