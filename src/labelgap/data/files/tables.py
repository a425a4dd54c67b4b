"""What readers return: tables of labels, ratings and numbers; and the words for yes, no and missing."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from labelgap._named_columns import with_names
from labelgap._types import Floats
from labelgap.labels import ObservedLabels

MISSING = frozenset(("", "?", "nan", "na", "n/a", "null", "none"))
"""What is not known, in lower case."""
MISSING_SPELLINGS = tuple(
    sorted({spelling for word in MISSING for spelling in (word, word.upper(), word.title())} | {"NaN"})
)
YES = frozenset(("true", "yes"))
NO = frozenset(("false", "no"))
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


@dataclass(frozen=True)
class LabelTable:
    """Features and labels of rows.

    Parameters
    ----------
    X : float64 array, CSR array, or None where the file has no features
        Where the file names them, its columns have the names in ``X.feature_names``: a fit remembers them,
        and a fitted estimator of labelgap takes its features by these names, wherever they stand.
    labels : ObservedLabels, or None where the file has no labels
        With ``label_names`` where the file names them, and the ids as ``row_names``.
    feature_names : tuple of str, or None
    row_ids : tuple of int or str, or None
    """

    X: Any
    labels: ObservedLabels | None
    feature_names: tuple[str, ...] | None = None
    row_ids: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.X is not None and self.feature_names is not None:
            object.__setattr__(self, "X", with_names(self.X, self.feature_names))


@dataclass(frozen=True)
class AnswerTable:
    """Ratings of items by users, as vectors of one length.

    Parameters
    ----------
    users, items : arrays of int64, or of str (as objects)
    values : float64 array, or None where each line is a like
    times : array of numbers or datetime64, or None where they were not asked for
    """

    users: NDArray[Any]
    items: NDArray[Any]
    values: Floats | None = None
    times: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.users)

    @property
    def answers(self) -> tuple[NDArray[Any] | None, ...]:
        """The sequences as ``Recommender.fit`` takes them.

        Examples
        --------
        >>> import numpy as np
        >>> table = AnswerTable(np.array([1, 2]), np.array([7, 7]))
        >>> table.answers
        (array([1, 2]), array([7, 7]))
        """
        if self.times is not None:
            return (self.users, self.items, self.values, self.times)
        return (self.users, self.items) if self.values is None else (self.users, self.items, self.values)

    def take(self, lines: NDArray[Any]) -> AnswerTable:
        """Some of the lines, by a mask or by their numbers."""
        rest = (None if part is None else part[lines] for part in (self.values, self.times))
        return AnswerTable(self.users[lines], self.items[lines], *rest)


class NumberTable(NamedTuple):
    """Columns of numbers: scores, or labels. NaN where nothing is known."""

    names: tuple[str, ...]
    values: Floats


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
