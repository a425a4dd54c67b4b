"""Compiled passes of the threshold search over many entries: count in buckets of scores, then look closely.

Buckets follow the order of the scores and split no ties. The counts of each bucket tell the metric at its
ends, exactly, and bound it in between; only buckets that may hold the best cut are walked through, entry by
entry. Entries have weight 1 here, so all counts are whole numbers. The metric is as in
:mod:`labelgap.kernels.sweep`, and empty ``groups`` stand for one group.

A bucket comes from the bits of a score, which are in the order of the scores up to the sign, by a table that
is made from a sample such that buckets are about equally full: ``table[c]`` is the part of the sample below
cell c of 2¹² cells of equal width, and within a cell the part grows linearly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.kernels.options import compiled
from labelgap.kernels.sweep import _add, _beats, _ratio, _sum_of_groups

# A place among the scores has 32 bits: those of its cell, and those within it.
_CELL_BITS = 12
_BITS_WITHIN = 32 - _CELL_BITS
_WITHIN = (1 << _BITS_WITHIN) - 1
CELLS = 1 << _CELL_BITS
_SAMPLE_BITS = 16
_SAMPLE = 1 << _SAMPLE_BITS
# Entries whose buckets are found before they are counted: either loop is faster alone.
_BLOCK = 4096
# Steps of this fraction of the whole spread any number of samples evenly, and in step with nothing.
_GOLDEN = (math.sqrt(5) - 1) / 2
# Bounds are plain sums of ratios; a cut is left out only where it falls short by more than their rounding.
_SAFETY = 1e-9


@compiled(nogil=True)
def _place(bits: int, mask: int) -> int:
    """A number in the order of the scores, of 63 bits so that differences fit; alike for 0 and −0."""
    signed = np.int64(bits)
    ordered = signed ^ ((signed >> 63) & mask)
    return (ordered + (1 if ordered == -1 else 0)) >> 1


@compiled(nogil=True)
def _spread(place: int, lowest: int, highest: int, up: int, down: int) -> int:
    """32 bits that tell where between the lowest and the highest place this one is."""
    within = min(max(place, lowest), highest) - lowest
    return (within << up) >> down


@compiled(nogil=True)
def make_table(bits: NDArray[Any], table: NDArray[np.int32]) -> tuple[int, int, int, int, int]:
    """Fill ``table``, of length ``CELLS + 1``, from a sample; returns what else leads to a bucket."""
    # All but the sign.
    mask = np.int64(0x7FFFFFFFFFFFFFFF) if bits.itemsize == 8 else np.int64(0x7FFFFFFF)
    sample = np.empty(_SAMPLE, np.int64)
    for s in range(_SAMPLE):
        fraction = s * _GOLDEN
        sample[s] = _place(bits[int((fraction - math.floor(fraction)) * bits.size)], mask)
    lowest = highest = sample[0]
    for s in range(_SAMPLE):
        lowest = min(lowest, sample[s])
        highest = max(highest, sample[s])
    width = 0
    while (highest - lowest) >> width > 0:
        width += 1
    up = max(32 - width, 0)
    down = max(width - 32, 0)
    table[:] = 0
    for s in range(_SAMPLE):
        table[(_spread(sample[s], lowest, highest, up, down) >> _BITS_WITHIN) + 1] += 1
    for c in range(CELLS):
        table[c + 1] += table[c]
    return mask, lowest, highest, up, down


@compiled(nogil=True)
def _find_buckets(
    bits: NDArray[Any],
    table: NDArray[np.int32],
    scale: tuple[int, int, int, int, int],
    shift: int,
    buckets: NDArray[np.uint16],
) -> None:
    mask, lowest, highest, up, down = scale
    for entry in range(bits.size):
        place = _spread(_place(bits[entry], mask), lowest, highest, up, down)
        cell = place >> _BITS_WITHIN
        below = np.int64(table[cell])
        within = (place & _WITHIN) * (table[cell + 1] - below)
        buckets[entry] = ((below << _BITS_WITHIN) + within) >> shift


@compiled(nogil=True)
def _count(
    buckets: NDArray[np.uint16],
    values: NDArray[np.int8],
    groups: NDArray[np.int32],
    n_groups: int,
    counts: NDArray[np.int32],
) -> None:
    # Numbers without a sign are taken as places in an array as they are.
    width = np.uint32(n_groups)
    for entry in range(buckets.size):
        row = np.uint32(np.uint32(buckets[entry]) * width + np.uint32(groups[entry]))
        counts[np.uint32(2 * row + (np.uint32(0) if values[entry] == 1 else np.uint32(1)))] += np.int32(1)


@compiled(nogil=True)
def _count_together(buckets: NDArray[np.uint16], values: NDArray[np.int8], counts: NDArray[np.int32]) -> None:
    for entry in range(buckets.size):
        row = np.uint32(buckets[entry])
        counts[np.uint32(2 * row + (np.uint32(0) if values[entry] == 1 else np.uint32(1)))] += np.int32(1)


@compiled(nogil=True)
def count_in_buckets(
    bits: NDArray[Any],
    values: NDArray[np.int8],
    groups: NDArray[np.int32],
    table: NDArray[np.int32],
    scale: tuple[int, int, int, int, int],
    buckets: NDArray[np.uint16],
    counts: NDArray[np.int32],
    start: int,
    stop: int,
) -> None:
    """For some entries, fill ``buckets`` and add to ``counts`` (buckets x groups x 2, positives first)."""
    shift = _BITS_WITHIN + _SAMPLE_BITS
    while counts.shape[0] >> (_BITS_WITHIN + _SAMPLE_BITS - shift) > 1:
        shift -= 1
    flat = counts.ravel()
    for begin in range(start, stop, _BLOCK):
        end = min(begin + _BLOCK, stop)
        _find_buckets(bits[begin:end], table, scale, shift, buckets[begin:end])
        if groups.size > 0:
            _count(buckets[begin:end], values[begin:end], groups[begin:end], counts.shape[1], flat)
        else:
            _count_together(buckets[begin:end], values[begin:end], flat)


@compiled(nogil=True)
def _highest_corner(
    tp: float,
    fp: float,
    fn: float,
    tn: float,
    more_tp: float,
    more_fp: float,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
) -> float:
    """The most that a ratio can be while tp and fp grow by so much at most.

    A ratio of linear functions is highest at a corner. Where its denominator is 0 at a corner and its
    numerator is not, there is no bound; where both are 0, the other corners bound it.
    """
    highest = -math.inf
    for corner in range(4):
        up = more_tp if corner & 1 else 0.0
        across = more_fp if corner & 2 else 0.0
        numerator = a[0] * (tp + up) + a[1] * (fp + across) + a[2] * (fn - up) + a[3] * (tn - across)
        denominator = b[0] * (tp + up) + b[1] * (fp + across) + b[2] * (fn - up) + b[3] * (tn - across)
        if denominator == 0.0:
            value = zero_division if numerator == 0.0 else math.inf
        else:
            value = numerator / denominator
        highest = max(highest, value)
    return highest


@compiled(nogil=True)
def mark_buckets(
    counts: NDArray[np.int64],
    totals: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    marked: NDArray[np.bool_],
) -> int:
    """Mark the buckets that may hold the best cut; how many entries these have.

    ``totals`` (groups x 4) holds the counts of the decision "none", and is used up.
    """
    n_buckets, n_groups = counts.shape[0], counts.shape[1]
    used = 0
    for group in range(n_groups):
        used += totals[group, 0] + totals[group, 1] + totals[group, 2] + totals[group, 3] > 0.0
    sizes = np.zeros(n_buckets, np.int64)
    bounds = np.empty(n_buckets)
    known = -math.inf
    for step in range(n_buckets):
        bucket = n_buckets - 1 - step
        at_end = 0.0
        bound = 0.0
        for group in range(n_groups):
            tp, fp, fn, tn = totals[group, 0], totals[group, 1], totals[group, 2], totals[group, 3]
            if tp + fp + fn + tn == 0.0:
                continue
            more_tp, more_fp = counts[bucket, group, 0], counts[bucket, group, 1]
            if more_tp + more_fp == 0:
                value = _ratio(tp, fp, fn, tn, a, b, zero_division)
                at_end += value
                bound += value
                continue
            sizes[bucket] += more_tp + more_fp
            bound += _highest_corner(tp, fp, fn, tn, more_tp, more_fp, a, b, zero_division)
            totals[group, 0] = tp + more_tp
            totals[group, 1] = fp + more_fp
            totals[group, 2] = fn - more_tp
            totals[group, 3] = tn - more_fp
            at_end += _ratio(tp + more_tp, fp + more_fp, fn - more_tp, tn - more_fp, a, b, zero_division)
        bounds[bucket] = bound / used
        if sizes[bucket] > 0:
            known = max(known, at_end / used)
    kept = 0
    for bucket in range(n_buckets):
        marked[bucket] = sizes[bucket] > 0 and bounds[bucket] >= known - _SAFETY * abs(known)
        kept += sizes[bucket] if marked[bucket] else 0
    return kept


@compiled(nogil=True)
def marked_entries(
    buckets: NDArray[np.uint16], marked: NDArray[np.bool_], start: int, stop: int
) -> NDArray[np.int64]:
    """The entries of a range whose bucket is marked."""
    count = 0
    for entry in range(start, stop):
        count += marked[buckets[entry]]
    entries = np.empty(count + 1, np.int64)
    filled = 0
    for entry in range(start, stop):
        # Written either way: what comes in no order is better without a branch.
        entries[filled] = entry
        filled += marked[buckets[entry]]
    return entries[:count]


@compiled(nogil=True)
def _pass_buckets(counts: NDArray[np.int64], first: int, last: int, state: NDArray[np.float64]) -> None:
    """Say yes to all entries of the buckets from ``first`` down to ``last``, both included."""
    for bucket in range(last, first + 1):
        for group in range(counts.shape[1]):
            more_tp, more_fp = counts[bucket, group, 0], counts[bucket, group, 1]
            state[group, 0] += more_tp
            state[group, 1] += more_fp
            state[group, 2] -= more_tp
            state[group, 3] -= more_fp


@compiled(nogil=True)
def sweep_marked(
    order: NDArray[np.int64],
    scores: NDArray[np.float64],
    values: NDArray[np.int8],
    groups: NDArray[np.int32],
    buckets: NDArray[np.uint16],
    counts: NDArray[np.int64],
    totals: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    none_is_a_cut: bool,
) -> tuple[float, float]:
    """The best cut among those of some buckets, from the ascending ``order`` of their entries.

    ``totals`` (groups x 4) holds the counts of the decision "none". Returns the lowest score above the cut
    (NaN for "none"), and the next lower one where that is of the same bucket (else NaN).
    """
    grouped = groups.size > 0
    state = totals.copy()
    total, carry, used = _sum_of_groups(state, a, b, zero_division)
    best = (total + carry) / used
    above = below = math.nan
    is_open = not none_is_a_cut
    is_best = False
    current = counts.shape[0]
    at = order.size - 1
    while at >= 0:
        score = scores[order[at]]
        bucket = np.int64(buckets[order[at]])
        if bucket < current - 1:
            _pass_buckets(counts, current - 1, bucket + 1, state)
            total, carry, used = _sum_of_groups(state, a, b, zero_division)
        if is_best:
            below = float(score) if bucket == current else math.nan
        current = bucket
        # Ties move together.
        while at >= 0 and scores[order[at]] == score:
            entry = order[at]
            group = groups[entry] if grouped else 0
            tp, fp, fn, tn = state[group, 0], state[group, 1], state[group, 2], state[group, 3]
            old = _ratio(tp, fp, fn, tn, a, b, zero_division)
            if values[entry] == 1:
                tp += 1.0
                fn -= 1.0
            else:
                fp += 1.0
                tn -= 1.0
            state[group, 0], state[group, 1], state[group, 2], state[group, 3] = tp, fp, fn, tn
            total, carry = _add(total, carry, _ratio(tp, fp, fn, tn, a, b, zero_division))
            total, carry = _add(total, carry, -old)
            at -= 1
        value = (total + carry) / used
        is_best = is_open or _beats(value, best)
        is_open = False
        if is_best:
            best = value
            above = float(score)
            below = math.nan
    return above, below


@compiled(nogil=True)
def value_of_cut(
    above: float,
    scores: NDArray[np.float64],
    values: NDArray[np.int8],
    groups: NDArray[np.int32],
    buckets: NDArray[np.uint16],
    counts: NDArray[np.int64],
    totals: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
) -> float:
    """The metric of the cut below ``above``, one of these scores of some buckets, or NaN for "none"."""
    state = totals.copy()
    holds = -1
    for entry in range(scores.size):
        if scores[entry] == above:
            holds = np.int64(buckets[entry])
            break
    if holds >= 0:
        _pass_buckets(counts, counts.shape[0] - 1, holds + 1, state)
        for entry in range(scores.size):
            if buckets[entry] == holds and scores[entry] >= above:
                group = groups[entry] if groups.size > 0 else 0
                one = 0 if values[entry] == 1 else 1
                state[group, one] += 1.0
                state[group, one + 2] -= 1.0
    total, carry, used = _sum_of_groups(state, a, b, zero_division)
    return (total + carry) / used
