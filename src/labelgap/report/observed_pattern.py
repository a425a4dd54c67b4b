"""What is observed: how much of each row and label, and where."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap.labels import ObservedLabels
from labelgap.report.encoding import encode_array

_GRID = 100
_HISTOGRAM_BINS = 24


def describe_pattern(labels: ObservedLabels) -> dict[str, Any]:
    """Sizes, a histogram of observed entries per row, and the pattern on a grid of at most 100 x 100."""
    n, n_labels = labels.shape
    return {
        "n_rows": n,
        "n_labels": n_labels,
        "n_observed": labels.n_observed,
        "fraction": labels.n_observed / max(n * n_labels, 1),
        "weighted": labels.weights is not None,
        "n_empty_rows": int(np.sum(labels.row_counts() == 0)),
        "n_empty_labels": int(np.sum(labels.label_counts() == 0)),
        "row_histogram": row_histogram(labels),
        "grid": observed_grid(labels),
    }


def row_histogram(labels: ObservedLabels) -> dict[str, list[int]]:
    """Rows by their number of observed entries: ``counts[b]`` rows have from ``edges[b]`` to below the next.

    Examples
    --------
    >>> row_histogram(ObservedLabels.from_dense([[1, 0], [1, None], [0, None]]))
    {'edges': [1, 2, 3], 'counts': [2, 1]}
    """
    per_row = labels.row_counts()
    low, high = int(per_row.min()), int(per_row.max())
    width = -(-(high - low + 1) // _HISTOGRAM_BINS)
    counts = np.bincount((per_row - low) // width)
    return {"edges": [low + width * b for b in range(len(counts) + 1)], "counts": counts.tolist()}


def observed_grid(labels: ObservedLabels) -> dict[str, Any]:
    """The observed fraction of each block of entries, from 0 to 255, rows of blocks one after the other."""
    n, n_labels = labels.shape
    height, width = min(n, _GRID), min(n_labels, _GRID)
    block = (labels.rows * height // n) * width + labels.cols.astype(np.int64) * width // n_labels
    found = np.bincount(block, minlength=height * width).reshape(height, width)
    rows = np.bincount(np.arange(n) * height // n, minlength=height)
    cols = np.bincount(np.arange(n_labels) * width // n_labels, minlength=width)
    fractions = found / np.outer(rows, cols)
    # Something is never shown as nothing.
    levels = np.where(found > 0, np.maximum(np.round(255 * fractions), 1), 0)
    return {"height": height, "width": width, "levels": encode_array(levels.ravel(), "u1")}
