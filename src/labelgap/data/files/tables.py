"""What is read from files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.labels import ObservedLabels


@dataclass(frozen=True)
class LabelTable:
    """Features and labels of rows.

    Parameters
    ----------
    X : float64 array, CSR array, or None where the file has no features
    labels : ObservedLabels, or None where the file has no labels
        With ``label_names`` where the file names them, and the ids as ``row_names``.
    feature_names : tuple of str, or None
    row_ids : tuple of int or str, or None
    """

    X: Any
    labels: ObservedLabels | None
    feature_names: tuple[str, ...] | None = None
    row_ids: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class AnswerTable:
    """Answers of users about items, one after the other.

    Parameters
    ----------
    users, items : arrays of int64, or of str (as objects)
    values : float64 array, or None where each line is a like
    """

    users: NDArray[Any]
    items: NDArray[Any]
    values: Floats | None = None

    def __len__(self) -> int:
        return len(self.users)

    @property
    def answers(self) -> tuple[NDArray[Any], ...]:
        """The sequences as ``Recommender.fit`` takes them.

        Examples
        --------
        >>> import numpy as np
        >>> table = AnswerTable(np.array([1, 2]), np.array([7, 7]))
        >>> table.answers
        (array([1, 2]), array([7, 7]))
        """
        return (self.users, self.items) if self.values is None else (self.users, self.items, self.values)


class NumberTable(NamedTuple):
    """Columns of numbers: scores, or labels. NaN where nothing is known."""

    names: tuple[str, ...]
    values: Floats
