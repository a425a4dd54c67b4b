"""Budgets under micro metrics, exactly: the chosen entries are the likeliest of those that may be chosen.

At the largest ratio ρ a yes at probability p adds ``slope · p + intercept`` with a slope of at least 0
(Dinkelbach), so the best decisions are the likeliest entries down to some p. All numbers of them are
compared.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.decisions.budget import Budget
from labelgap.decisions.expected import Totals, gain_line
from labelgap.decisions.streams import Stream, from_keys, where_lines
from labelgap.metrics import LinearFractional
from labelgap.recommending.top_items import top_columns

_MOST_RATIOS = 50


def decide_micro(stream: Stream, budget: Budget, metric: LinearFractional) -> sp.csr_array:
    """The best decisions for a micro metric."""
    if budget.is_unlimited:
        return without_limit(stream, metric, stream.together)
    keys, probabilities = (
        stream.top(budget.total) if budget.total is not None else _top_of_rows(stream, budget.per_row or 1)
    )
    if not budget.exactly:
        sums = np.concatenate([[0.0], np.cumsum(probabilities)])
        values = stream.together.values(metric, sums, np.arange(len(sums)))
        # The fewest among equals.
        keys = keys[: int(np.argmax(values >= values.max() - 1e-13))]
    return from_keys(keys, (stream.n_rows, stream.n_labels))


def _top_of_rows(stream: Stream, most: int) -> tuple[NDArray[np.int64], Floats]:
    """The likeliest labels of each row, of all rows the likeliest first."""
    k = min(most, stream.n_labels)
    found, probabilities = [np.zeros(0, np.int64)], [np.zeros(0)]
    for start, block in stream:
        columns, best = top_columns(block, k)
        rows = np.arange(start, start + len(block))[:, None]
        found.append((rows * stream.n_labels + columns).ravel())
        probabilities.append(np.asarray(best, dtype=np.float64).ravel())
    keys, flat = np.concatenate(found), np.concatenate(probabilities)
    order = np.argsort(-flat, kind="stable")
    return keys[order], flat[order]


def without_limit(stream: Stream, metric: LinearFractional, totals: Totals) -> sp.csr_array:
    """The best decisions without a budget, in one group or in one for each label.

    Dinkelbach's iteration in all groups at a time: each pass decides at the ratios of the one before.
    """
    several = len(totals.positives) > 1
    factors = totals.class_factors(metric)
    nothing = np.zeros(len(totals.positives))
    ratios = totals.values(metric, nothing, nothing)
    slopes, intercepts = np.zeros(len(ratios)), np.full(len(ratios), -1.0)
    for _ in range(_MOST_RATIOS):
        line = gain_line(metric, ratios, factors)
        S, m = nothing.copy(), nothing.copy()
        for _, block in stream:
            yes = block * line[0] + line[1] > 0
            S += (block * yes).sum(axis=0) if several else (block * yes).sum()
            m += yes.sum(axis=0) if several else yes.sum()
        values = totals.values(metric, S, m)
        better = values > ratios + 1e-13
        slopes, intercepts = np.where(better, line[0], slopes), np.where(better, line[1], intercepts)
        if not better.any():
            break
        ratios = np.where(better, values, ratios)
    return where_lines(stream, slopes, intercepts)
