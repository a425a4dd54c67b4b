"""Which entries are observed, whatever their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labelgap._types import Ints
from labelgap.exceptions import InvalidInputError, InvalidLabelsError
from labelgap.labels import ObservedLabels


@dataclass(frozen=True, eq=False)
class Pattern:
    """Row and column of each observed entry, and the shape of the matrix."""

    rows: Ints
    cols: Ints
    shape: tuple[int, int]

    def row_counts(self) -> NDArray[np.int64]:
        """Observed entries of each row."""
        return np.bincount(self.rows, minlength=self.shape[0])

    def label_counts(self) -> NDArray[np.int64]:
        """Observed entries of each label."""
        return np.bincount(self.cols, minlength=self.shape[1])


def read_pattern(labels: Any) -> Pattern:
    """The observed entries of labels in any form, or of a boolean mask (array or sparse), True = observed."""
    pattern = _read_mask(labels) if _is_mask(labels) else _read_labels(labels)
    if len(pattern.rows) == 0:
        raise InvalidInputError(
            f"Nothing is observed in the {pattern.shape[0]} x {pattern.shape[1]} matrix, so nothing can be "
            "said of how entries were chosen; at least one must be known."
        )
    return pattern


def _is_mask(labels: Any) -> bool:
    plain = isinstance(labels, np.ndarray) and not isinstance(labels, np.ma.MaskedArray) and labels.ndim == 2
    return bool((plain or sparse.issparse(labels)) and labels.dtype == np.bool_)


def _read_mask(mask: Any) -> Pattern:
    # nonzero of a sparse matrix leaves stored zeros out.
    rows, cols = (mask.tocsr() if sparse.issparse(mask) else mask).nonzero()
    return Pattern(rows, cols, (int(mask.shape[0]), int(mask.shape[1])))


def _read_labels(labels: Any) -> Pattern:
    read = ObservedLabels.from_any(labels)
    if read.unobserved == "unlabelled":
        raise InvalidLabelsError(
            "Under unobserved='unlabelled' only the yeses are held, so nothing shows how often a no is "
            "observed; use labels with unobserved='missing'."
        )
    return Pattern(read.rows, read.cols, read.shape)
