"""How sure a value of a metric is: its values with one part of the rows left out at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from labelgap.labels import ObservedLabels
from labelgap.labels.splitting import used_rows
from labelgap.metrics.linear_fractional import LinearFractional

N_PARTS = 20
# Of the fraction of the deviance that is explained.
D2_LIMITS = (-math.inf, 1.0)


def leave_out_values(
    metric: LinearFractional,
    decisions: NDArray[np.bool_],
    labels: ObservedLabels,
    n_parts: int = N_PARTS,
) -> NDArray[np.float64] | None:
    """Ψ over the observed entries of all rows but those of one part, for each part in turn.

    Rows are dealt to the parts in a fixed random order, since labels of one row depend on each other. None
    where fewer than two parts have an observed entry. ``decisions`` are one per observed entry.

    Examples
    --------
    >>> from labelgap.metrics import get_metric
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 1]])
    >>> leave_out_values(get_metric("micro-accuracy"), np.array([True, True, True, True]), labels).tolist()
    [0.5, 1.0]
    """
    cells = LeaveOutCells(metric, labels, n_parts)
    if cells.n_parts < 2:
        return None
    return cells.values(np.bincount(cells.of_no + decisions, labels.weights, minlength=cells.size))


class LeaveOutCells:
    """The cells of the table of counts that :func:`leave_out_values` is made from.

    An entry has one cell where it is decided no, ``of_no``, and the next one where it is decided yes. The
    decisions may be elsewhere, on a device; the counts are all that is needed of them.
    """

    def __init__(self, metric: LinearFractional, labels: ObservedLabels, n_parts: int = N_PARTS) -> None:
        used, row_of_entry = used_rows(labels.row_counts())
        self.n_parts = min(n_parts, len(used))
        self._metric = metric
        # Rows are dealt to the parts.
        self._part_of_row = np.random.RandomState(0).permutation(len(used)) % max(self.n_parts, 1)
        self._row_weights = None if labels.row_weights is None else labels.row_weights[used]
        if metric.average == "instance":
            # A row is in one part only: its own value, left out or not.
            group, self._shape = row_of_entry, (len(used), 4)
        else:
            group, n_groups = metric.groups(labels)
            group = self._part_of_row[row_of_entry] * n_groups + group
            self._shape = (self.n_parts * n_groups, 4)
        self.size = self._shape[0] * 4
        # The cells are kept, and four bytes are mostly enough.
        kind = np.int32 if self.size < 1 << 31 else np.int64
        self.of_no: NDArray[Any] = np.add(group.astype(kind) * 4, labels.values.astype(kind) * 2)

    def values(self, table: NDArray[Any]) -> NDArray[np.float64]:
        """Ψ without each part in turn, from the counts (or weights) of all cells."""
        counts = table.astype(np.float64).reshape(self._shape)
        if self._metric.average == "instance":
            return np.array([self._without(counts, part) for part in range(self.n_parts)])
        by_part = counts.reshape(self.n_parts, -1, 4)
        # Differences of sums of weights can fall below 0 by rounding.
        rest = np.maximum(by_part.sum(axis=0) - by_part, 0.0)
        return self._metric.from_many_counts(*_in_order(rest))

    def _without(self, counts: NDArray[np.float64], part: int) -> float:
        kept = self._part_of_row != part
        weights = None if self._row_weights is None else self._row_weights[kept]
        tp, fp, fn, tn = _in_order(counts[kept])
        return self._metric.from_counts(tp, fp, fn, tn, weights)


def leave_out_means(values: NDArray[np.float64], labels: ObservedLabels) -> NDArray[np.float64] | None:
    """The weighted mean of one number per entry over all rows but those of one part, for each part in turn.

    Parts are those of :func:`leave_out_values`.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 1]])
    >>> leave_out_means(np.array([1.0, 3.0, 0.0, 0.0]), labels).tolist()
    [2.0, 0.0]
    """
    used, row_of_entry = used_rows(labels.row_counts())
    n_parts = min(N_PARTS, len(used))
    if n_parts < 2:
        return None
    part = np.random.RandomState(0).permutation(len(used))[row_of_entry] % n_parts
    weights = np.ones(len(values)) if labels.weights is None else labels.weights
    sums = np.bincount(part, weights=weights * values, minlength=n_parts)
    totals = np.bincount(part, weights=weights, minlength=n_parts)
    rest = np.maximum(totals.sum() - totals, np.finfo(np.float64).tiny)
    return np.asarray((sums.sum() - sums) / rest)


def without_each_part(labels: ObservedLabels) -> Iterator[NDArray[np.bool_]]:
    """Which entries are left without each part of the rows in turn; parts are those of `leave_out_values`.

    Nothing where fewer than two parts have an observed entry.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 1]])
    >>> [kept.tolist() for kept in without_each_part(labels)]
    [[True, True, False, False], [False, False, True, True]]
    """
    used, row_of_entry = used_rows(labels.row_counts())
    n_parts = min(N_PARTS, len(used))
    part = np.random.RandomState(0).permutation(len(used))[row_of_entry] % max(n_parts, 1)
    for number in range(n_parts if n_parts >= 2 else 0):
        yield part != number


def standard_error(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The standard error of the difference of two metric values, from their leave-out values (jackknife)."""
    difference = first - second
    parts = len(difference)
    return float(np.sqrt((parts - 1) / parts * np.sum((difference - difference.mean()) ** 2)))


def metric_error(leave_out: NDArray[np.float64] | None) -> float | None:
    """The standard error of a metric from its leave-out values; None with too few parts of the rows.

    Examples
    --------
    >>> metric_error(None) is None, metric_error(np.full(20, 0.5))
    (True, 0.0)
    """
    # With fewer rows than parts, a jackknife says little.
    if leave_out is None or len(leave_out) < N_PARTS:
        return None
    return standard_error(leave_out, np.zeros(len(leave_out)))


def confidence_interval(
    value: float | None, error: float | None, limits: tuple[float, float]
) -> tuple[float, float] | None:
    """The 95 % interval, within its limits, of a metric with a standard error by the jackknife (Student's t).

    None where it has no error, and where that is 0: the same value without each part of the rows, such as 1
    where every decision is right, does not say how far from it other rows may be.

    Examples
    --------
    >>> low, high = confidence_interval(0.6, 0.01, (0.0, 1.0))
    >>> round(low, 4), round(high, 4), confidence_interval(0.6, None, (0.0, 1.0))
    (0.5791, 0.6209, None)
    """
    if value is None or error is None or not 0 < error < math.inf:
        return None
    reach = float(stdtrit(N_PARTS - 1, 0.975)) * error
    return max(value - reach, limits[0]), min(value + reach, limits[1])


def metric_interval(
    metric: LinearFractional, decisions: NDArray[np.bool_], labels: ObservedLabels
) -> tuple[float, float] | None:
    """The 95 % interval of Ψ, with one decision per observed entry; None where it is not known."""
    error = metric_error(leave_out_values(metric, decisions, labels))
    return None if error is None else confidence_interval(metric(labels, decisions), error, metric.limits)


def _in_order(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Columns for (no, no), (no, yes), (yes, no), (yes, yes) as tp, fp, fn, tn."""
    tn, fp, fn, tp = np.moveaxis(counts, -1, 0)
    return tp, fp, fn, tn
