"""Budgets under macro metrics.

A budget per row couples the labels, and no exact method is known that is not a search. As in xCOLUMNs
(Schultheis, Wydmuch, Kotłowski, Babbar, Dembczyński: Generalized test utilities for long-tail performance in
extreme multi-label classification, NeurIPS 2023), Frank-Wolfe steps give a start: the metric is replaced by
its tangent at the expected counts, under which the best decisions of a row are its labels with the largest
gains. Block coordinate ascent follows: the decisions of one row after the other are made best with those of
the other rows as they are, until none changes. The metric never falls on the way.

A total budget is divided among the labels, and a label's yes are its likeliest entries.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._types import Floats
from labelgap.decisions.allocating import allocate
from labelgap.decisions.budget import Budget
from labelgap.decisions.expected import Totals
from labelgap.decisions.micro import without_limit
from labelgap.decisions.streams import Stream, from_chosen, from_keys
from labelgap.metrics import LinearFractional

_FRANK_WOLFE_STEPS = 3
_MOST_SWEEPS = 30
# Candidates for a total budget: this many times the budget, and at least so many.
_MORE_CANDIDATES, _FEWEST_CANDIDATES = 8, 1 << 20


def decide_macro(stream: Stream, budget: Budget, metric: LinearFractional) -> sp.csr_array:
    """The best decisions for a macro metric."""
    if budget.is_unlimited:
        return without_limit(stream, metric, stream.by_label)
    if budget.total is not None:
        return _with_total(stream, budget.total, budget.exactly, metric)
    return _with_rows(stream, min(budget.per_row or 1, stream.n_labels), budget.exactly, metric)


# -- a budget per row --------------------------------------------------------------------------------------


def _with_rows(stream: Stream, most: int, exactly: bool, metric: LinearFractional) -> sp.csr_array:
    chosen = _frank_wolfe(stream, most, exactly, metric)
    S, m = _sums(stream, chosen)
    totals = stream.by_label
    coefficients = (metric.vertex_numerator, metric.vertex_denominator)
    factors = totals.class_factors(metric)
    for _ in range(_MOST_SWEEPS):
        changes = 0
        for start, block in stream:
            part = chosen[start : start + len(block)]
            changes += kernels.budgets.ascend_rows(
                block,
                part,
                S,
                m,
                totals.positives,
                float(stream.n_rows),
                *factors,
                *coefficients,
                metric.zero_division,
                exactly,
            )
        if changes == 0:
            break
        # Afresh, so that rounding does not add up over the sweeps.
        S, m = _sums(stream, chosen)
    return from_chosen(chosen, (stream.n_rows, stream.n_labels))


def _frank_wolfe(stream: Stream, most: int, exactly: bool, metric: LinearFractional) -> NDArray[np.int64]:
    """The best decisions among those of a few Frank-Wolfe steps, from the likeliest labels of each row."""
    L = stream.n_labels
    best = _by_lines(stream, np.ones(L), np.zeros(L), most, exactly)
    S, m = _sums(stream, best)
    reached = float(stream.by_label.values(metric, S, m).sum())
    for step in range(_FRANK_WOLFE_STEPS):
        found = _by_lines(stream, *_tangent(stream, metric, S, m), most, exactly)
        S_found, m_found = _sums(stream, found)
        value = float(stream.by_label.values(metric, S_found, m_found).sum())
        if value > reached:
            best, reached = found, value
        size = 2.0 / (step + 3.0)
        S, m = (1 - size) * S + size * S_found, (1 - size) * m + size * m_found
    return best


def _tangent(stream: Stream, metric: LinearFractional, S: Floats, m: Floats) -> tuple[Floats, Floats]:
    """What a yes at probability p adds to the tangent of each label's metric: a slope for p, an intercept."""
    totals = stream.by_label
    counts = totals.counts(S, m)
    up, down = totals.class_factors(metric)
    scaled = (counts.tp * up, counts.fp * down, counts.fn * up, counts.tn * down)
    a, b = metric.vertex_numerator, metric.vertex_denominator
    N = sum(x * c for x, c in zip(a, scaled, strict=True))
    # A label at 0/0 is taken a little away from it.
    D = np.maximum(sum(x * c for x, c in zip(b, scaled, strict=True)), 1e-9)
    worth = a[:, None] / D - (N / D**2) * b[:, None]
    of_positive, of_negative = up * (worth[0] - worth[2]), down * (worth[1] - worth[3])
    return of_positive - of_negative, of_negative


def _by_lines(
    stream: Stream, slopes: Floats, intercepts: Floats, most: int, exactly: bool
) -> NDArray[np.int64]:
    chosen = np.full((stream.n_rows, most), -1, dtype=np.int64)
    for start, block in stream:
        kernels.budgets.choose_by_lines(
            block, slopes, intercepts, exactly, chosen[start : start + len(block)]
        )
    return chosen


def _sums(stream: Stream, chosen: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """S and m of each label."""
    S, m = np.zeros(stream.n_labels), np.zeros(stream.n_labels)
    for start, block in stream:
        rows, places = np.nonzero(chosen[start : start + len(block)] >= 0)
        labels = chosen[start + rows, places]
        S += np.bincount(labels, weights=block[rows, labels], minlength=stream.n_labels)
        m += np.bincount(labels, minlength=stream.n_labels)
    return S, m


# -- a total budget ----------------------------------------------------------------------------------------


def _with_total(stream: Stream, total: int, exactly: bool, metric: LinearFractional) -> sp.csr_array:
    """The likeliest entries of each label; how many they are is chosen for all labels together.

    Where there are very many entries, those that are likely beside the mean of their label are candidates: a
    yes counts the more the fewer positives a label has.
    """
    totals = stream.by_label
    mean = totals.positives / max(stream.n_rows, 1)
    scale = 1.0 / np.maximum(mean, 1e-12)
    keys, probabilities = stream.top(max(_MORE_CANDIDATES * total, _FEWEST_CANDIDATES), scale)
    labels = keys % max(stream.n_labels, 1)
    # By label, and within a label by descending probability: they come in that order already.
    order = np.argsort(labels, kind="stable")
    keys, probabilities, labels = keys[order], probabilities[order], labels[order]
    ends = np.cumsum(np.bincount(labels, minlength=stream.n_labels))
    values, starts = [], ends - np.bincount(labels, minlength=stream.n_labels)
    for label, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        sums = np.concatenate([[0.0], np.cumsum(probabilities[start : min(end, start + total)])])
        own = Totals(totals.positives[label : label + 1], totals.entries[label : label + 1])
        values.append(own.values(metric, sums, np.arange(len(sums))))
    numbers = allocate(values, total, exactly)
    chosen = [keys[start : start + m] for start, m in zip(starts.tolist(), numbers.tolist(), strict=True)]
    found = np.concatenate(chosen) if chosen else np.zeros(0, np.int64)
    return from_keys(found, (stream.n_rows, stream.n_labels))
