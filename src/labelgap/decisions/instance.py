"""Decisions that maximise the expected metric of each row, exactly, under independent labels.

With s yes in a row, the best are the s likeliest labels: exchanging one for a likelier label turns a
disagreement into an agreement more often than the other way round (as for F1 in Lewis, SIGIR 1995, and
Jansche, ACL 2007). For each s the expectation is a sum over the numbers of positives among the chosen labels
and among the others, which are independent.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._types import Floats
from labelgap.decisions.allocating import allocate
from labelgap.decisions.budget import Budget
from labelgap.decisions.streams import Stream, from_counts
from labelgap.metrics import LinearFractional


def expected_values(probabilities: Floats, metric: LinearFractional, most: int | None = None) -> Floats:
    """The expected metric of a row whose s likeliest labels are yes, for s from 0 to ``most``.

    ``E Ψ(y, ŷ)`` for independent labels of these probabilities.

    Examples
    --------
    >>> from labelgap.metrics import get_metric
    >>> expected_values(np.array([0.2, 0.9]), get_metric("instance-f1")).round(3)
    array([0.   , 0.84 , 0.673])
    """
    falling = -np.sort(-np.asarray(probabilities, dtype=np.float64))
    most = len(falling) if most is None else min(most, len(falling))
    values = np.empty(most + 1)
    kernels.budgets.expected_row_values(
        falling,
        most,
        metric.balanced,
        metric.vertex_numerator,
        metric.vertex_denominator,
        metric.zero_division,
        values,
    )
    return values


def decide_instance(stream: Stream, budget: Budget, metric: LinearFractional) -> sp.csr_array:
    """The best decisions for an instance metric."""
    L = stream.n_labels
    most = min(budget.per_row or budget.total or L, L)
    if budget.exactly and budget.per_row is not None:
        return _likeliest(stream, np.full(stream.n_rows, most, dtype=np.int64))
    numbers, values = np.zeros(stream.n_rows, dtype=np.int64), []
    for start, block in stream:
        for row, probabilities in enumerate(block):
            found = expected_values(probabilities, metric, most)
            # The fewest among equals.
            best = int(np.argmax(found >= found.max() - 1e-13))
            numbers[start + row] = best
            if budget.total is not None:
                values.append(found if budget.exactly else found[: best + 1])
    if budget.total is not None:
        numbers = allocate(values, budget.total, budget.exactly)
    return _likeliest(stream, numbers)


def _likeliest(stream: Stream, numbers: NDArray[np.int64]) -> sp.csr_array:
    """So many of the likeliest labels of each row; of equal ones the first."""
    columns = [np.zeros(0, np.int64)]
    for start, block in stream:
        order = np.argsort(-block, axis=1, kind="stable")
        for row, count in enumerate(numbers[start : start + len(block)].tolist()):
            columns.append(np.sort(order[row, :count]))
    return from_counts(numbers, np.concatenate(columns), (stream.n_rows, stream.n_labels))
