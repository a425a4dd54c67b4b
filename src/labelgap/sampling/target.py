"""What a sampling model is asked about: the shape of a label matrix, or the complete matrix itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from labelgap._types import Ints
from labelgap.exceptions import InvalidInputError, InvalidLabelsError
from labelgap.labels import ObservedLabels


class Target:
    """A shape (n, L), or labels with their shape; the labels are read only when they are needed.

    Parameters
    ----------
    of : (n, L), or labels
        Labels are an array (NaN = not known), a frame, ObservedLabels, or a sparse matrix in which, unlike
        elsewhere, an absent entry is a no: such a matrix of truths is complete.
    """

    def __init__(self, of: Any) -> None:
        self._of = of
        self.shape = self._read_shape()

    @property
    def n_entries(self) -> int:
        """n · L."""
        return self.shape[0] * self.shape[1]

    def _read_shape(self) -> tuple[int, int]:
        if _is_shape(self._of):
            n, L = int(self._of[0]), int(self._of[1])
        else:
            n, L = self._labels.shape
        if min(n, L) < 1:
            raise InvalidInputError(f"Nothing can be drawn from a {n} x {L} matrix; it has no entry.")
        return n, L

    @cached_property
    def _labels(self) -> ObservedLabels:
        """The known entries; of a sparse matrix the stored ones."""
        if _is_shape(self._of):
            raise InvalidInputError(
                f"This needs the label matrix itself and not only its shape {tuple(self._of)}: pass Y."
            )
        labels = ObservedLabels.from_any(self._of)
        if labels.unobserved == "unlabelled":
            raise InvalidLabelsError(
                "Labels with unobserved='unlabelled' do not say which entries are a no, so none can be shown "
                "as one; use 'missing' or 'negative'."
            )
        return labels

    @property
    def _absent_is_no(self) -> bool:
        return bool(sparse.issparse(self._of))

    @cached_property
    def ones(self) -> NDArray[np.int64]:
        """The entries that are a yes, ascending, as ``row · L + column``; an error unless all are known."""
        labels = self._labels
        if not self._absent_is_no and not labels.is_complete:
            raise InvalidLabelsError(
                f"Only {labels.n_observed} of the {self.n_entries} labels are known, but every one must be: "
                "keep complete rows, or say what the others are."
            )
        if not np.isin(labels.values, (0, 1)).all():
            raise InvalidLabelsError("The labels are not 0 and 1 only, so yes and no cannot be told apart.")
        return np.asarray(self.entries(labels.rows, labels.cols)[labels.values == 1])

    def entries(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.int64]:
        """``row · L + column`` of entries, or an error that names one outside the matrix."""
        r, c = np.asarray(rows), np.asarray(cols)
        for index, bound, what in ((r, self.shape[0], "row"), (c, self.shape[1], "column")):
            if index.dtype.kind not in "iu" and index.size:
                raise InvalidInputError(f"The {what} numbers must be integers, not of type {index.dtype}.")
            if index.size and not 0 <= index.min() <= index.max() < bound:
                raise InvalidInputError(
                    f"The {what} numbers run from {index.min()} to {index.max()}, but the matrix has {what}s "
                    f"0 to {bound - 1}."
                )
        return np.asarray(r.astype(np.int64) * self.shape[1] + c.astype(np.int64))

    def is_one(self, entries: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of the entries is a yes."""
        return _contains(self.ones, entries)

    def reveal(self, rows: Ints, cols: Ints) -> ObservedLabels:
        """The labels at these entries (row by row), less those that are not known; the rest is missing."""
        entries = self.entries(rows, cols)
        labels = self._labels
        if self._absent_is_no:
            return ObservedLabels.from_triplets(rows, cols, self.is_one(entries).astype(np.int8), self.shape)
        shown = entries if labels.is_complete else _contains(entries, self.entries(labels.rows, labels.cols))
        return replace(labels.select(shown), unobserved="missing")


def _is_shape(of: Any) -> bool:
    return (
        isinstance(of, tuple)
        and len(of) == 2
        and all(isinstance(k, int | np.integer) and not isinstance(k, bool) for k in of)
    )


def _contains(ascending: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(wanted), dtype=np.bool_)
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.asarray(ascending[at] == wanted)
