"""How sure a value of a metric is: its values with one part of the rows left out at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labelgap.labels import ObservedLabels
from labelgap.metrics.linear_fractional import LinearFractional

N_PARTS = 20


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
    used, row_of_entry = np.unique(labels.rows, return_inverse=True)
    n_parts = min(n_parts, len(used))
    if n_parts < 2:
        return None
    part = np.random.RandomState(0).permutation(len(used))[row_of_entry] % n_parts
    group, n_groups = metric.groups(labels)
    if metric.average == "instance":
        # A row is in one part only: its own value, left out or not.
        return _without_rows(metric, decisions, labels, row_of_entry, part, n_parts)
    cell = (part.astype(np.int64) * n_groups + group) * 4 + labels.values.astype(np.int64) * 2 + decisions
    table = np.bincount(cell, weights=labels.weights, minlength=n_parts * n_groups * 4)
    by_part = table.astype(np.float64).reshape(n_parts, n_groups, 4)
    # Differences of sums of weights can fall below 0 by rounding.
    rest = np.maximum(by_part.sum(axis=0) - by_part, 0.0)
    return np.array([metric.from_counts(*_in_order(counts)) for counts in rest])


def leave_out_means(values: NDArray[np.float64], labels: ObservedLabels) -> NDArray[np.float64] | None:
    """The weighted mean of one number per entry over all rows but those of one part, for each part in turn.

    Parts are those of :func:`leave_out_values`.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 1]])
    >>> leave_out_means(np.array([1.0, 3.0, 0.0, 0.0]), labels).tolist()
    [2.0, 0.0]
    """
    used, row_of_entry = np.unique(labels.rows, return_inverse=True)
    n_parts = min(N_PARTS, len(used))
    if n_parts < 2:
        return None
    part = np.random.RandomState(0).permutation(len(used))[row_of_entry] % n_parts
    weights = np.ones(len(values)) if labels.weights is None else labels.weights
    sums = np.bincount(part, weights=weights * values, minlength=n_parts)
    totals = np.bincount(part, weights=weights, minlength=n_parts)
    rest = np.maximum(totals.sum() - totals, np.finfo(np.float64).tiny)
    return np.asarray((sums.sum() - sums) / rest)


def standard_error(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The standard error of the difference of two metric values, from their leave-out values (jackknife)."""
    difference = first - second
    parts = len(difference)
    return float(np.sqrt((parts - 1) / parts * np.sum((difference - difference.mean()) ** 2)))


def _without_rows(
    metric: LinearFractional,
    decisions: NDArray[np.bool_],
    labels: ObservedLabels,
    row_of_entry: NDArray[np.int64],
    part: NDArray[np.int64],
    n_parts: int,
) -> NDArray[np.float64]:
    n_rows = int(row_of_entry.max()) + 1
    cell = row_of_entry.astype(np.int64) * 4 + labels.values.astype(np.int64) * 2 + decisions
    table = np.bincount(cell, weights=labels.weights, minlength=4 * n_rows).astype(np.float64)
    counts = table.reshape(n_rows, 4)
    part_of_row = np.empty(n_rows, dtype=np.int64)
    part_of_row[row_of_entry] = part
    weights = None if labels.row_weights is None else labels.row_weights[np.unique(labels.rows)]

    def without(p: int) -> float:
        kept = part_of_row != p
        tp, fp, fn, tn = _in_order(counts[kept])
        return metric.from_counts(tp, fp, fn, tn, None if weights is None else weights[kept])

    return np.array([without(p) for p in range(n_parts)])


def _in_order(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Columns for (no, no), (no, yes), (yes, no), (yes, yes) as tp, fp, fn, tn."""
    tn, fp, fn, tp = counts.T
    return tp, fp, fn, tn
