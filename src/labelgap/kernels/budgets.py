"""Compiled passes over probabilities for decisions within a budget."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from labelgap.kernels.options import compiled
from labelgap.kernels.sweep import _ratio

# Numbers of positives that are less likely than this change no digit of a mean.
_NOTHING = 1e-19


@compiled(nogil=True)
def _expected_ratio(
    S: float,
    m: float,
    P: float,
    M: float,
    up: float,
    down: float,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
) -> float:
    tp = max(S, 0.0) * up
    fp = max(m - S, 0.0) * down
    fn = max(P - S, 0.0) * up
    tn = max(M - P - m + S, 0.0) * down
    return _ratio(tp, fp, fn, tn, a, b, zero_division)


@compiled(nogil=True)
def _keep_best(
    gains: NDArray[np.float64],
    most: int,
    exactly: bool,
    columns: NDArray[np.int64],
    best: NDArray[np.float64],
) -> int:
    """Fill ``columns`` with those of the largest gains, best first; only gains above 0 unless ``exactly``."""
    count = 0
    for label in range(gains.size):
        gain = gains[label]
        if not exactly and gain <= 0.0:
            continue
        if count == most and gain <= best[count - 1]:
            continue
        place = count if count < most else most - 1
        while place > 0 and best[place - 1] < gain:
            best[place] = best[place - 1]
            columns[place] = columns[place - 1]
            place -= 1
        best[place] = gain
        columns[place] = label
        if count < most:
            count += 1
    return count


@compiled(nogil=True)
def ascend_rows(
    probabilities: NDArray[np.float64],
    chosen: NDArray[np.int64],
    S: NDArray[np.float64],
    m: NDArray[np.float64],
    P: NDArray[np.float64],
    M: float,
    up: NDArray[np.float64],
    down: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    exactly: bool,
) -> int:
    """Decide row after row anew, the others as they are; the number of rows whose decisions changed.

    ``chosen`` (rows x most) holds the columns of the yes, −1 beyond them, and is changed together with the
    sums ``S`` and ``m`` of the labels. The metric is a sum over labels, so the best decisions of a row are
    the labels with the largest gains.
    """
    n, L = probabilities.shape
    most = chosen.shape[1]
    gains = np.empty(L)
    columns = np.empty(most, np.int64)
    best = np.empty(most)
    changes = 0
    for row in range(n):
        for place in range(most):
            label = chosen[row, place]
            if label >= 0:
                S[label] -= probabilities[row, label]
                m[label] -= 1.0
        for label in range(L):
            p = probabilities[row, label]
            without = _expected_ratio(
                S[label], m[label], P[label], M, up[label], down[label], a, b, zero_division
            )
            with_it = _expected_ratio(
                S[label] + p, m[label] + 1.0, P[label], M, up[label], down[label], a, b, zero_division
            )
            gains[label] = with_it - without
        count = _keep_best(gains, most, exactly, columns, best)
        # A change must gain something, or equal choices would alternate for ever.
        before = 0.0
        for place in range(most):
            if chosen[row, place] >= 0:
                before += gains[chosen[row, place]]
        after = 0.0
        for place in range(count):
            after += best[place]
        started = chosen[row, 0] >= 0 or not exactly
        if after > before + 1e-13 * (abs(before) + abs(after)) or not started:
            changes += 1
            for place in range(most):
                chosen[row, place] = columns[place] if place < count else -1
        for place in range(most):
            label = chosen[row, place]
            if label >= 0:
                S[label] += probabilities[row, label]
                m[label] += 1.0
    return changes


@compiled(nogil=True)
def choose_by_lines(
    probabilities: NDArray[np.float64],
    slopes: NDArray[np.float64],
    intercepts: NDArray[np.float64],
    exactly: bool,
    chosen: NDArray[np.int64],
) -> None:
    """Fill ``chosen`` (rows x most) with each row's labels with the largest ``slope · p + intercept``."""
    n, L = probabilities.shape
    most = chosen.shape[1]
    gains = np.empty(L)
    columns = np.empty(most, np.int64)
    best = np.empty(most)
    for row in range(n):
        for label in range(L):
            gains[label] = slopes[label] * probabilities[row, label] + intercepts[label]
        count = _keep_best(gains, most, exactly, columns, best)
        for place in range(most):
            chosen[row, place] = columns[place] if place < count else -1


@compiled(nogil=True)
def _balanced_value(
    tp: int,
    fp: int,
    fn: int,
    tn: int,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
) -> float:
    positive = tp + fn
    negative = fp + tn
    up = 0.5 * (positive + negative) / positive if positive > 0 and negative > 0 else 1.0
    down = 0.5 * (positive + negative) / negative if positive > 0 and negative > 0 else 1.0
    return _ratio(tp * up, fp * down, fn * up, tn * down, a, b, zero_division)


@compiled(nogil=True)
def _mean_ratio(
    chances: NDArray[np.float64],
    first: int,
    last: int,
    above: float,
    above_step: float,
    below: float,
    below_step: float,
    zero_division: float,
) -> float:
    """Σ_k chances[k] (above + k above_step) / (below + k below_step)."""
    total = 0.0
    for k in range(first, last + 1):
        denominator = below + k * below_step
        # Whole numbers times coefficients: rounding of a 0 is far below the smallest one that is not.
        if denominator > 1e-9:
            total += chances[k] * (above + k * above_step) / denominator
        else:
            total += chances[k] * zero_division
    return total


@compiled(nogil=True)
def expected_row_values(
    falling: NDArray[np.float64],
    most: int,
    balanced: bool,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    values: NDArray[np.float64],
) -> None:
    """Fill ``values[s]`` with the expected metric of a row whose s likeliest labels are yes.

    ``falling`` are the row's probabilities in descending order, taken for independent. The numbers of
    positives among the chosen labels and among the others are then two independent sums of Bernoulli
    variables.
    """
    L = falling.size
    mean = 0.0
    for p in falling:
        mean += p
    # Bernstein's inequality: more positives than this have a probability below 1e-25.
    width = min(L, math.ceil(mean + 10.0 * math.sqrt(mean + 1.0) + 30.0))
    rest = np.zeros((most + 1, width + 1))
    rest[most, 0] = 1.0
    filled = 0
    for label in range(L - 1, -1, -1):
        p = falling[label]
        here = min(label, most)
        if label < most:
            for k in range(width + 1):
                rest[here, k] = rest[here + 1, k]
        filled = min(filled + 1, width)
        for k in range(filled, 0, -1):
            rest[here, k] = rest[here, k] * (1.0 - p) + rest[here, k - 1] * p
        rest[here, 0] *= 1.0 - p
    inside = np.zeros(width + 1)
    inside[0] = 1.0
    for s in range(most + 1):
        if s > 0:
            p = falling[s - 1]
            for k in range(min(s, width), 0, -1):
                inside[k] = inside[k] * (1.0 - p) + inside[k - 1] * p
            inside[0] *= 1.0 - p
        first = 0
        last = min(L - s, width)
        while first < last and rest[s, first] < _NOTHING:
            first += 1
        while last > first and rest[s, last] < _NOTHING:
            last -= 1
        total = 0.0
        for tp in range(min(s, width) + 1):
            if inside[tp] < _NOTHING:
                continue
            if balanced:
                part = 0.0
                for fn in range(first, last + 1):
                    part += rest[s, fn] * _balanced_value(tp, s - tp, fn, L - s - fn, a, b, zero_division)
            else:
                above = a[0] * tp + a[1] * (s - tp) + a[3] * (L - s)
                below = b[0] * tp + b[1] * (s - tp) + b[3] * (L - s)
                part = _mean_ratio(
                    rest[s], first, last, above, a[2] - a[3], below, b[2] - b[3], zero_division
                )
            total += inside[tp] * part
        values[s] = total
