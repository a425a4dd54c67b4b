"""Compiled passes of the search for one threshold per label: a walk down the scores of each label.

Entries are sorted by label, and within a label by descending score; ``starts[j]`` to ``starts[j + 1]`` are
those of label j. A cut is given by the lowest score that is included and the highest one that is not, NaN
where there is none. Empty ``weights`` stand for weights of 1, and empty ``kept`` for all entries.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.kernels.options import compiled
from labelgap.kernels.sweep import FN, FP, TN, TP, _ratio

# As in the shared sweep: a later cut must beat the best one by more than rounding.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@compiled(nogil=True)
def ratio_cuts(
    starts: NDArray[np.int64],
    scores: NDArray[Any],
    values: NDArray[np.int8],
    weights: NDArray[np.float64],
    kept: NDArray[np.bool_],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    above: NDArray[np.float64],
    below: NDArray[np.float64],
) -> None:
    """Fill ``above`` and ``below`` with the cut of each label at which its own ratio is largest."""
    weighted = weights.size > 0
    masked = kept.size > 0
    for label in range(starts.size - 1):
        start = starts[label]
        end = starts[label + 1]
        fn = 0.0
        tn = 0.0
        n_positive = 0
        n_negative = 0
        for entry in range(start, end):
            if masked and not kept[entry]:
                continue
            weight = weights[entry] if weighted else 1.0
            if values[entry] == 1:
                fn += weight
                n_positive += 1
            else:
                tn += weight
                n_negative += 1
        tp = 0.0
        fp = 0.0
        best = _ratio(tp, fp, fn, tn, a, b, zero_division)
        above[label] = math.nan
        below[label] = math.nan
        is_best = True
        is_first = True
        entry = start
        while entry < end:
            if masked and not kept[entry]:
                entry += 1
                continue
            score = scores[entry]
            if is_best:
                below[label] = score
            while entry < end and (scores[entry] == score or (masked and not kept[entry])):
                if not (masked and not kept[entry]):
                    weight = weights[entry] if weighted else 1.0
                    if values[entry] == 1:
                        n_positive -= 1
                        tp += weight
                        # A class that is used up counts 0, and not what rounding left of it.
                        fn = fn - weight if n_positive > 0 else 0.0
                    else:
                        n_negative -= 1
                        fp += weight
                        tn = tn - weight if n_negative > 0 else 0.0
                entry += 1
            value = _ratio(tp, fp, fn, tn, a, b, zero_division)
            # Where a score is +inf no threshold says no to everything.
            forced = is_first and score == math.inf
            is_first = False
            is_best = value > best + _ROUNDING * abs(best) or forced
            if is_best:
                best = value
                above[label] = score
                below[label] = math.nan


@compiled(nogil=True)
def gain_cuts(
    starts: NDArray[np.int64],
    scores: NDArray[Any],
    gains: NDArray[np.float64],
    kept: NDArray[np.bool_],
    above: NDArray[np.float64],
    below: NDArray[np.float64],
) -> float:
    """Fill ``above`` and ``below`` with the cut of each label at which the gains above it sum to the most.

    Returns the sum of these largest sums.
    """
    masked = kept.size > 0
    total = 0.0
    for label in range(starts.size - 1):
        end = starts[label + 1]
        best = 0.0
        running = 0.0
        size = 0.0
        above[label] = math.nan
        below[label] = math.nan
        is_best = True
        is_first = True
        entry = starts[label]
        while entry < end:
            if masked and not kept[entry]:
                entry += 1
                continue
            score = scores[entry]
            if is_best:
                below[label] = score
            while entry < end and (scores[entry] == score or (masked and not kept[entry])):
                if not (masked and not kept[entry]):
                    running += gains[entry]
                    size += abs(gains[entry])
                entry += 1
            forced = is_first and score == math.inf
            is_first = False
            is_best = running > best + _ROUNDING * size or forced
            if is_best:
                best = running
                above[label] = score
                below[label] = math.nan
        total += best
    return total


@compiled(nogil=True)
def _without(count: float, weight: float) -> float:
    # What rounding leaves of a count that is used up would make a ratio of a 0/0.
    rest = count - weight
    return rest if rest > 1e-12 * count else 0.0


@compiled(nogil=True)
def row_gains(
    rows: NDArray[np.int64],
    values: NDArray[np.int8],
    weights: NDArray[np.float64],
    decided: NDArray[np.bool_],
    counts: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    zero_division: float,
    gains: NDArray[np.float64],
) -> None:
    """Fill ``gains`` with what a yes instead of a no at each entry adds to the ratio of its row.

    ``counts`` (rows x 4) are those of the decisions; the other entries of the row keep theirs.
    """
    weighted = weights.size > 0
    for entry in range(rows.size):
        row = rows[entry]
        weight = weights[entry] if weighted else 1.0
        tp, fp, fn, tn = counts[row, TP], counts[row, FP], counts[row, FN], counts[row, TN]
        yes, no = (TP, FN) if values[entry] == 1 else (FP, TN)
        here = yes if decided[entry] else no
        other = no if decided[entry] else yes
        as_is = _ratio(tp, fp, fn, tn, a, b, zero_division)
        if here == TP:
            tp = _without(tp, weight)
        elif here == FP:
            fp = _without(fp, weight)
        elif here == FN:
            fn = _without(fn, weight)
        else:
            tn = _without(tn, weight)
        if other == TP:
            tp += weight
        elif other == FP:
            fp += weight
        elif other == FN:
            fn += weight
        else:
            tn += weight
        turned = _ratio(tp, fp, fn, tn, a, b, zero_division)
        gains[entry] = as_is - turned if decided[entry] else turned - as_is
