"""What the parts of a data set know of themselves that adds up: the ground on which a frame is decided.

A part (some rows of the data) cannot know the centre of the features, the number of all entries or which
labels have both classes. It can say what it contributes to them. Sums of moments are moments again, and the
order in which parts are added changes them by rounding only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._arrays import sums_by_number
from labelgap._types import Floats
from labelgap.labels import ObservedLabels

# Multiply-adds beyond which principal axes are not worth their time.
ROTATION_WORK = 2e10
# What a fit does with a stored number of X, and with a row of W, takes as long as it does with this many
# numbers of a dense array. That an array of this many features is turned to its axes takes as long again.
_PER_STORED, _PER_FEATURE, _TURNED = 2.5, 50, 4000
# Numbers in the largest sparse X that is made dense for the sake of speed.
_LARGEST_DENSE = 1 << 24
# Values of X that are worked on at a time.
_BLOCK = 1 << 20
VANISHING = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)
"""Numbers below this are next to the smallest there are, which have few digits and no inverse."""


@dataclass(frozen=True)
class ColumnMoments:
    """Mean, size and spread of every column of the features.

    Deviations are in units of the largest value, whose square might be too large for a number.
    """

    n_rows: int
    mean: Floats
    largest: Floats
    """The largest absolute value."""
    deviations: Floats
    """The sum of the squared differences from the mean, in units of :attr:`unit`."""

    @classmethod
    def of(cls, X: Any) -> Self:
        n, d = X.shape
        if n == 0:
            return cls(0, np.zeros(d), np.zeros(d), np.zeros(d))
        if sp.issparse(X):
            return cls._of_sparse(X)
        mean = np.asarray(X.mean(axis=0, dtype=np.float64))
        largest = np.zeros(d)
        for rows in row_blocks(n, d):
            largest = np.maximum(largest, np.abs(X[rows]).max(axis=0))
        deviations, unit = np.zeros(d), _unit(largest)
        for rows in row_blocks(n, d):
            deviations += np.sum(np.square((X[rows] - mean) / unit), axis=0)
        return cls(n, mean, largest, deviations)

    @classmethod
    def _of_sparse(cls, X: Any) -> Self:
        columns = sp.csc_array(X, dtype=np.float64)
        if not columns.has_canonical_format:
            columns = columns.copy()
            columns.sum_duplicates()
        n, d = columns.shape
        column_of = np.repeat(np.arange(d), np.diff(columns.indptr))
        largest = np.zeros(d)
        np.maximum.at(largest, column_of, np.abs(columns.data))
        unit = _unit(largest)
        mean = np.bincount(column_of, weights=columns.data, minlength=d) / n
        stored = np.square((columns.data - mean[column_of]) / unit[column_of])
        deviations = np.bincount(column_of, weights=stored, minlength=d)
        # A value that is not stored is 0, as far from the mean as the mean is from it.
        absent = n - np.diff(columns.indptr)
        return cls(n, mean, largest, deviations + absent * np.square(mean / unit))

    @property
    def unit(self) -> Floats:
        """What the deviations are measured in: the largest value, or 1 for a column of zeros."""
        return _unit(self.largest)

    def __add__(self, other: Self) -> Self:
        if not (self.n_rows and other.n_rows):
            return self if self.n_rows else other
        n = self.n_rows + other.n_rows
        largest = np.maximum(self.largest, other.largest)
        unit = _unit(largest)
        # The pairwise update of Chan, Golub and LeVeque: no difference of large squares.
        apart = (other.mean - self.mean) / unit
        deviations = (
            self.deviations * np.square(self.largest / unit)
            + other.deviations * np.square(other.largest / unit)
            + np.square(apart) * (self.n_rows * other.n_rows / n)
        )
        mean = self.mean + (other.mean - self.mean) * (other.n_rows / n)
        return type(self)(n, mean, largest, deviations)

    def spreads(self, *, centred: bool) -> Floats:
        """The root mean square of every column, about its mean (its standard deviation) or about 0."""
        unit = self.unit
        squares = self.deviations / max(self.n_rows, 1)
        return np.asarray(unit * np.sqrt(squares if centred else squares + np.square(self.mean / unit)))

    def look_centred(self) -> bool:
        """Whether all column means could be 0 by chance (within five standard errors).

        Only then does the origin mean something to a penalty on the intercepts, which act there.
        """
        standard_error = self.spreads(centred=True) / np.sqrt(max(self.n_rows, 1))
        # Means that are rounding of 0, as after standardising, count as 0 whatever the deviation.
        chance = np.maximum(5.0 * standard_error, 1e-12 * self.spreads(centred=False))
        # A column of the smallest numbers there are is one of zeros.
        chance = np.maximum(chance, VANISHING)
        return bool(np.all(np.abs(self.mean) <= chance))


@dataclass(frozen=True)
class SecondMoments:
    """``Σ (x − m)(x − m)ᵀ`` over the rows, with m their mean; or the rows themselves while they are few.

    Fewer rows than columns take less memory than the d x d matrix, and their span is known exactly.
    """

    columns: ColumnMoments
    gram: Floats | None
    rows: Floats | None

    @classmethod
    def of(cls, X: Any, columns: ColumnMoments) -> Self:
        n, d = X.shape
        if n < d:
            return cls(columns, None, X.toarray() if sp.issparse(X) else np.asarray(X))
        gram = np.zeros((d, d))
        for rows in row_blocks(n, d):
            centred = (X[rows].toarray() if sp.issparse(X) else X[rows]) - columns.mean
            gram += centred.T @ centred
        return cls(columns, gram, None)

    def __add__(self, other: Self) -> Self:
        if not (self.columns.n_rows and other.columns.n_rows):
            return self if self.columns.n_rows else other
        both = self.columns + other.columns
        if self.rows is not None and other.rows is not None and both.n_rows < len(both.mean):
            return type(self)(both, None, np.vstack([self.rows, other.rows]))
        apart = other.columns.mean - self.columns.mean
        between = np.outer(apart, apart) * (self.columns.n_rows * other.columns.n_rows / both.n_rows)
        return type(self)(both, self._as_gram() + other._as_gram() + between, None)

    def _as_gram(self) -> Floats:
        if self.gram is not None:
            return self.gram
        assert self.rows is not None
        centred = self.rows - self.columns.mean
        product: Floats = centred.T @ centred
        return product

    def about_origin(self) -> Floats:
        """``Σ x xᵀ``."""
        mean = self.columns.mean
        return self._as_gram() + self.columns.n_rows * np.outer(mean, mean)


@dataclass(frozen=True)
class RootMoments:
    """A matrix R with ``RᵀR = Σ x xᵀ`` and no more rows than columns: it has the singular values of X."""

    root: Floats
    precision: float
    """The relative rounding of the values as they came."""

    @classmethod
    def of(cls, X: Any) -> Self:
        n, d = X.shape
        root = np.zeros((0, d))
        for rows in row_blocks(n, d, at_least=4 * d):
            block = X[rows]
            dense = block.toarray() if sp.issparse(block) else np.asarray(block, dtype=np.float64)
            root = _compressed(np.vstack([root, dense]))
        return cls(root, float(np.finfo(X.dtype).eps) if np.issubdtype(X.dtype, np.floating) else 0.0)

    def __add__(self, other: Self) -> Self:
        stacked = _compressed(np.vstack([self.root, other.root]))
        return type(self)(stacked, max(self.precision, other.precision))


def _compressed(rows: Floats) -> Floats:
    """As many rows as columns at most, with the same ``RᵀR``."""
    if len(rows) <= rows.shape[1]:
        return rows
    triangle: Floats = scipy.linalg.qr(rows, mode="r", check_finite=False)[0][: rows.shape[1]]
    return triangle


@dataclass(frozen=True)
class FeatureMoments:
    """What a part knows of its features, and of the rows that have parameters of their own.

    ``second`` is there for rows that are given up, if they can be taken to axes; all others are asked for it
    once axes are wanted. ``root`` is None where the penalty is on W.
    """

    is_sparse: bool
    """Whether X was handed in as a sparse matrix, whose zeros are its centre."""
    columns: ColumnMoments | None
    second: SecondMoments | None
    root: RootMoments | None
    n_rows: int
    filled_rows: float
    """The sum over the rows of the number of their entries, with 1 for none."""
    label_counts: NDArray[np.int64]
    """The number of entries of each label."""
    label_positives: NDArray[np.int64]
    """The number of entries above 0 of each label."""
    n_stored: int = 0
    """The numbers that X would store if it were sparse."""

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.is_sparse,
            None if self.columns is None or other.columns is None else self.columns + other.columns,
            self._added_second(other),
            None if self.root is None or other.root is None else self.root + other.root,
            self.n_rows + other.n_rows,
            self.filled_rows + other.filled_rows,
            self.label_counts + other.label_counts,
            self.label_positives + other.label_positives,
            self.n_stored + other.n_stored,
        )

    def _added_second(self, other: Self) -> SecondMoments | None:
        if self.second is None or other.second is None or self.columns is None:
            return None
        can_turn = can_have_axes(self.n_rows + other.n_rows, len(self.columns.mean))
        return self.second + other.second if can_turn else None

    @property
    def wants_dense(self) -> bool:
        """Whether a fit has less to do with a dense array than with the numbers that are stored."""
        assert self.columns is not None
        shape = self.n_rows, len(self.columns.mean)
        too_large = self.is_sparse and shape[0] * shape[1] > _LARGEST_DENSE
        return not too_large and is_cheaper_dense(*shape, self.n_stored)


def can_have_axes(n: int, d: int) -> bool:
    """Whether principal axes of n rows of d features are within reach."""
    return n * d * min(n, d) <= ROTATION_WORK


def is_cheaper_dense(n: int, d: int, n_stored: int) -> bool:
    """Whether n rows of d features are worked on sooner as a dense array, in principal axes if they can be.

    Stored numbers are gathered one by one, and those of an array stream by. In axes there are no more
    coordinates than rows, for the array and for W; but the array must be turned to them.
    """
    rank, turned = (min(n, d), d / _TURNED) if can_have_axes(n, d) else (d, 0.0)
    return n * rank * (1.0 + turned) <= _PER_STORED * n_stored + _PER_FEATURE * (d - rank)


# -- of labels ---------------------------------------------------------------------------------------------


class LabelRates(NamedTuple):
    """The mean value of every label, and which labels have values that tell where it lies."""

    rate: NDArray[np.float64]
    informative: NDArray[np.bool_]


@dataclass(frozen=True)
class LabelSums:
    """Sums over each label's entries; the sums of two sets of rows add up to those of both.

    ``edge_values`` are the values that no model with a finite score predicts for certain.
    """

    edge_values: tuple[float, ...]
    count: NDArray[np.int64]
    weight: NDArray[np.float64]
    """Sum of the weights: the count, where there are none."""
    value: NDArray[np.float64]
    """Weighted sum of the values."""
    at_edge: NDArray[np.int64]
    """How many values equal each edge value (edges x labels)."""

    @classmethod
    def of(cls, labels: ObservedLabels, edge_values: tuple[float, ...] = (0.0, 1.0)) -> Self:
        n_labels = labels.shape[1]
        # Counted, not weighed: sums of weights need not cancel exactly.
        count = labels.label_counts()
        weight: NDArray[np.float64] = count.astype(np.float64)
        weights, values = labels.weights, labels.values
        if weights is None and values.dtype == np.int8:
            # Labels of 0 and 1 alone.
            value = labels.positive_counts().astype(np.float64)
        elif weights is None:
            value = sums_by_number(labels.indices, n_labels, lambda some: values[some])
        else:
            weight = sums_by_number(labels.indices, n_labels, lambda some: weights[some])
            value = sums_by_number(labels.indices, n_labels, lambda some: weights[some] * values[some])
        if weights is None and values.dtype == np.int8 and edge_values == (0.0, 1.0):
            ones = labels.positive_counts()
            at_edge = np.stack([count - ones, ones])
        else:
            counts = [
                np.bincount(labels.indices[labels.values == e], minlength=n_labels) for e in edge_values
            ]
            at_edge = np.array(counts, dtype=np.int64).reshape(len(edge_values), n_labels)
        return cls(edge_values, count, weight, value, at_edge)

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.edge_values,
            self.count + other.count,
            self.weight + other.weight,
            self.value + other.value,
            self.at_edge + other.at_edge,
        )

    def rates(self) -> LabelRates:
        """The mean of every label, smoothed where it would lie on an edge; see :func:`smoothed_rates`."""
        informative = (self.count > 0) & np.all(self.at_edge < self.count, axis=0)
        weight, value = self.weight.sum(), self.value.sum()
        prior = 0.5 if self.edge_values == (0.0, 1.0) else value / max(weight, np.finfo(float).tiny)
        overall = (value + prior) / (weight + 1.0)
        smoothed = np.where(self.count > 0, (self.value + prior) / (self.weight + 1.0), overall)
        mean = self.value / np.where(self.weight > 0, self.weight, 1.0)
        return LabelRates(np.where(informative, mean, smoothed), informative)


def smoothed_rates(labels: ObservedLabels, edge_values: tuple[float, ...] = (0.0, 1.0)) -> LabelRates:
    """The (weighted) mean value of every label, never exactly at an edge; for 0/1 labels the rate of yes.

    It is ``Σ y / observed`` unless all values of the label equal one of the edge values. Then it is
    ``(Σ y + m) / (observed + 1)``, and without any observation the same over all labels together, with m = ½
    for 0/1 labels and the overall mean for other values. Sums are weighted.

    Parameters
    ----------
    labels : ObservedLabels
    edge_values : tuple of floats, default (0, 1)
        The values that no model with a finite score predicts for certain.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 1, None], [0, 1, None]])
    >>> smoothed_rates(labels).rate.round(3).tolist()
    [0.5, 0.833, 0.7]
    """
    return LabelSums.of(labels, edge_values).rates()


@dataclass(frozen=True)
class ObservedMoments:
    """Sums over a part's observed entries."""

    total: float
    """The number of entries, or the sum of their weights."""
    labels: LabelSums
    offsets: Floats | None
    """The sum of each label's offsets; None without any."""

    def __add__(self, other: Self) -> Self:
        offsets = None
        if self.offsets is not None or other.offsets is not None:
            zero = np.zeros(len(self.labels.count))
            offsets = (zero if self.offsets is None else self.offsets) + (
                zero if other.offsets is None else other.offsets
            )
        return type(self)(self.total + other.total, self.labels + other.labels, offsets)


@dataclass(frozen=True)
class UnlabelledMoments:
    """Counts over a part's recorded positives, and over the entries that are held out."""

    n_rows: int
    recorded: NDArray[np.int64]
    """Each label's recorded positives that take part."""
    held: NDArray[np.int64]
    """Each label's entries that are left out altogether."""
    all_recorded: int
    """Recorded positives, with those that are held out."""
    held_recorded: int
    """Recorded positives among those held out."""

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.n_rows + other.n_rows,
            self.recorded + other.recorded,
            self.held + other.held,
            self.all_recorded + other.all_recorded,
            self.held_recorded + other.held_recorded,
        )


def row_blocks(n: int, d: int, at_least: int = 1) -> Iterator[slice]:
    """Slices of rows with about as many values each, for work that needs a copy."""
    step = max(at_least, _BLOCK // max(d, 1), 1)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _unit(largest: Floats) -> Floats:
    return np.where(largest > 0, largest, 1.0)
