"""The problem of :mod:`benchmarks.cluster`: rows that are drawn partition by partition."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap.labels import ObservedLabels

# Rows, features, labels, the fraction of labels that is observed, and partitions.
SIZE, QUICK = (480_000, 100, 100, 0.3, 8), (4_000, 20, 20, 0.5, 4)
FIXED = {"trace_penalty": 2e-3, "ridge_penalty": 1e-6, "intercept_penalty": 0.0, "random_state": 0}


def chunk(number: int, rows: int, d: int, n_labels: int, observed: float) -> tuple[Any, Any]:
    """Rows of a low-rank problem; every partition is drawn from its own number."""
    truth = np.random.default_rng(0)
    W = truth.standard_normal((d, 5)) @ truth.standard_normal((5, n_labels)) / np.sqrt(5 * d)
    rng = np.random.default_rng([1, number])
    X = rng.standard_normal((rows, d))
    labels = (X @ W + 0.3 * rng.standard_normal((rows, n_labels)) > 0.5).astype(np.float64)
    labels[rng.random(labels.shape) >= observed] = np.nan
    return X, ObservedLabels.from_dense(labels)


def partitions(size: tuple[int, int, int, float, int]) -> list[Any]:
    """The partitions, made by the workers."""
    from dask.delayed import delayed

    n, d, n_labels, observed, count = size
    return [delayed(chunk)(number, n // count, d, n_labels, observed) for number in range(count)]
