"""Compiled passes of the exact threshold search: one walk down the sorted scores.

The metric of a group is (a·counts) / (b·counts) with the group's weighted counts (tp, fp, fn, tn) and
coefficients ``a`` and ``b`` in the same order; the metric is the mean over the groups that have an entry.

In every signature empty ``weights`` stand for weights of 1, and empty ``groups`` for one group. A search
returns (lowest score above the best cut, highest score below it, the metric, number of cuts), where NaN is a
neighbour that does not exist. It fills ``curve_scores[k]`` and ``curve_values[k]`` with the lowest included
score and the metric of the k-th cut, unless these arrays are empty.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from labelgap.kernels.options import compiled

TP, FP, FN, TN = 0, 1, 2, 3

# A later cut must beat the best one by more than the rounding of a mean of ratios. Otherwise two cuts that
# are equal in exact arithmetic would be told apart by noise, and "fewest positives" would not be kept.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)

# Entries whose data are fetched together: a row of independent loads hides the latency of the memory.
_BLOCK = 1024


@compiled(nogil=True)
def _ratio(
    tp: float,
    fp: float,
    fn: float,
    tn: float,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
) -> float:
    denominator: float = b[0] * tp + b[1] * fp + b[2] * fn + b[3] * tn
    if denominator == 0.0:
        return zero_division
    numerator: float = a[0] * tp + a[1] * fp + a[2] * fn + a[3] * tn
    return numerator / denominator


@compiled(nogil=True)
def _add(total: float, carry: float, term: float) -> tuple[float, float]:
    # Knuth's two-sum: what the sum loses to rounding goes to the carry.
    summed = total + term
    part = summed - total
    return summed, carry + ((total - (summed - part)) + (term - part))


@compiled(nogil=True)
def _beats(value: float, best: float) -> bool:
    return value > best + _ROUNDING * abs(best)


@compiled(nogil=True)
def sweep_two_classes(
    positives: NDArray[np.float64],
    negatives: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    curve_scores: NDArray[np.float64],
    curve_values: NDArray[np.float64],
) -> tuple[float, float, float, int]:
    """The best cut of one group of entries of weight 1, from the ascending scores of each class."""
    keep_curve = curve_values.size > 0
    i = positives.size - 1
    j = negatives.size - 1
    tp = 0.0
    fp = 0.0
    fn = float(positives.size)
    tn = float(negatives.size)
    best = _ratio(tp, fp, fn, tn, a, b, zero_division)
    if keep_curve:
        curve_scores[0] = math.nan
        curve_values[0] = best
    n_cuts = 1
    above = math.nan
    below = math.nan
    is_best = True
    while i >= 0 or j >= 0:
        from_positives = j < 0 or (i >= 0 and positives[i] >= negatives[j])
        score = positives[i] if from_positives else negatives[j]
        if is_best:
            below = float(score)
        # Ties move together.
        while i >= 0 and positives[i] == score:
            tp += 1.0
            fn -= 1.0
            i -= 1
        while j >= 0 and negatives[j] == score:
            fp += 1.0
            tn -= 1.0
            j -= 1
        value = _ratio(tp, fp, fn, tn, a, b, zero_division)
        if keep_curve:
            curve_scores[n_cuts] = score
            curve_values[n_cuts] = value
        # Where a score is +inf no threshold says no to everything, and the first cut was not a candidate.
        is_best = _beats(value, best) or (n_cuts == 1 and score == math.inf)
        if is_best:
            best = value
            above = float(score)
            below = math.nan
        n_cuts += 1
    return above, below, best, n_cuts


@compiled(nogil=True)
def count_groups(
    values: NDArray[np.int8],
    weights: NDArray[np.float64],
    groups: NDArray[np.int32],
    counts: NDArray[np.float64],
    left: NDArray[np.int32],
) -> None:
    """Fill ``counts`` (groups x 4) for the decision "none", and ``left`` (groups x 2) with entries per class.

    ``left`` has the positives first; it may be empty where there are no weights.
    """
    weighted = weights.size > 0
    grouped = groups.size > 0
    for entry in range(values.size):
        group = groups[entry] if grouped else 0
        positive = values[entry] == 1
        counts[group, FN if positive else TN] += weights[entry] if weighted else 1.0
        if weighted:
            left[group, 0 if positive else 1] += 1


@compiled(nogil=True)
def _sum_of_groups(
    counts: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64], zero_division: float
) -> tuple[float, float, int]:
    """(sum, carry, number) of the metrics of the groups that have an entry."""
    n_groups = 0
    total = 0.0
    carry = 0.0
    for group in range(counts.shape[0]):
        tp, fp, fn, tn = counts[group, TP], counts[group, FP], counts[group, FN], counts[group, TN]
        if tp + fp + fn + tn > 0.0:
            n_groups += 1
            total, carry = _add(total, carry, _ratio(tp, fp, fn, tn, a, b, zero_division))
    return total, carry, n_groups


@compiled(nogil=True)
def _weighted_sum_of_groups(
    counts: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    group_weights: NDArray[np.float64],
) -> tuple[float, float, float]:
    """(sum, carry, weight) as :func:`_sum_of_groups`, with a weight for each group; empty: 1 each."""
    if group_weights.size == 0:
        total, carry, n_groups = _sum_of_groups(counts, a, b, zero_division)
        return total, carry, float(n_groups)
    weight = 0.0
    total = 0.0
    carry = 0.0
    for group in range(counts.shape[0]):
        tp, fp, fn, tn = counts[group, TP], counts[group, FP], counts[group, FN], counts[group, TN]
        if tp + fp + fn + tn > 0.0:
            weight += group_weights[group]
            value = group_weights[group] * _ratio(tp, fp, fn, tn, a, b, zero_division)
            total, carry = _add(total, carry, value)
    return total, carry, weight


@compiled(nogil=True)
def sweep_groups(
    order: NDArray[np.int64],
    scores: NDArray[np.float64],
    values: NDArray[np.int8],
    weights: NDArray[np.float64],
    groups: NDArray[np.int32],
    counts: NDArray[np.float64],
    left: NDArray[np.int32],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    curve_scores: NDArray[np.float64],
    curve_values: NDArray[np.float64],
    group_weights: NDArray[np.float64],
) -> tuple[float, float, float, int]:
    """The best cut over all groups, from the ascending ``order`` of the scores.

    ``group_weights`` weigh the groups in their mean; empty is 1 each.

    ``counts`` and ``left`` come from :func:`count_groups` and are used up. ``left`` is needed with weights
    only: it tells when a class of a group is used up, and then the count is 0 and not what rounding left of
    it (a denominator of 0 must be seen as 0).
    """
    weighted = weights.size > 0
    grouped = groups.size > 0
    keep_curve = curve_values.size > 0
    size = order.size
    block_scores = np.empty(_BLOCK, scores.dtype)
    block_positive = np.empty(_BLOCK, np.bool_)
    block_weights = np.ones(_BLOCK, np.float64)
    block_groups = np.zeros(_BLOCK, np.int64)
    # The sum of the groups' metrics is total + carry. A change adds the new metric of a group and takes away
    # the old one, each without loss, so ten million changes leave no trace of rounding.
    total, carry, n_groups = _weighted_sum_of_groups(counts, a, b, zero_division, group_weights)
    best = (total + carry) / n_groups
    if keep_curve:
        curve_scores[0] = math.nan
        curve_values[0] = best
    n_cuts = 1
    above = math.nan
    lowest = scores[order[size - 1]]
    below = float(lowest)
    for start in range(0, size, _BLOCK):
        length = min(_BLOCK, size - start)
        for k in range(length):
            entry = order[size - 1 - start - k]
            block_scores[k] = scores[entry]
            block_positive[k] = values[entry] == 1
            if grouped:
                block_groups[k] = groups[entry]
            if weighted:
                block_weights[k] = weights[entry]
        for k in range(length):
            score = block_scores[k]
            if score != lowest:
                # The entries so far are a whole number of ties: a cut.
                value = (total + carry) / n_groups
                if keep_curve:
                    curve_scores[n_cuts] = lowest
                    curve_values[n_cuts] = value
                if _beats(value, best) or (n_cuts == 1 and lowest == math.inf):
                    best = value
                    above = float(lowest)
                    below = float(score)
                n_cuts += 1
                lowest = score
            group = block_groups[k]
            weight = block_weights[k]
            factor = group_weights[group] if group_weights.size > 0 else 1.0
            tp, fp, fn, tn = counts[group, TP], counts[group, FP], counts[group, FN], counts[group, TN]
            old = _ratio(tp, fp, fn, tn, a, b, zero_division)
            if block_positive[k]:
                tp += weight
                fn -= weight
                if weighted:
                    left[group, 0] -= 1
                    if left[group, 0] == 0:
                        fn = 0.0
                counts[group, TP] = tp
                counts[group, FN] = fn
            else:
                fp += weight
                tn -= weight
                if weighted:
                    left[group, 1] -= 1
                    if left[group, 1] == 0:
                        tn = 0.0
                counts[group, FP] = fp
                counts[group, TN] = tn
            total, carry = _add(total, carry, factor * _ratio(tp, fp, fn, tn, a, b, zero_division))
            total, carry = _add(total, carry, -factor * old)
    value = (total + carry) / n_groups
    if keep_curve:
        curve_scores[n_cuts] = lowest
        curve_values[n_cuts] = value
    if _beats(value, best) or (n_cuts == 1 and lowest == math.inf):
        best = value
        above = float(lowest)
        below = math.nan
    return above, below, best, n_cuts + 1


@compiled(nogil=True)
def value_at(
    threshold: float,
    scores: NDArray[np.float64],
    values: NDArray[np.int8],
    weights: NDArray[np.float64],
    groups: NDArray[np.int32],
    counts: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    group_weights: NDArray[np.float64],
) -> float:
    """The metric of ``scores >= threshold``, from counts made afresh in ``counts`` (groups x 4)."""
    weighted = weights.size > 0
    grouped = groups.size > 0
    counts[:] = 0.0
    for entry in range(values.size):
        group = groups[entry] if grouped else 0
        if_one, if_zero = (TP, FP) if scores[entry] >= threshold else (FN, TN)
        counts[group, if_one if values[entry] == 1 else if_zero] += weights[entry] if weighted else 1.0
    total, carry, n_groups = _weighted_sum_of_groups(counts, a, b, zero_division, group_weights)
    return (total + carry) / n_groups
