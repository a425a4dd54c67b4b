"""A total budget divided among groups: how many yes each of them gets.

Each group g has the value f_g(m) with m yes; ``Σ f_g(m_g)`` is maximised under ``Σ m_g ≤ T``. Small problems
are solved exactly by dynamic programming. Otherwise the budget is spent along the concave hulls of the f_g,
the steepest piece first, which is optimal up to the one piece that no longer fits; what is left is spent on
the best further steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats

# Steps of the dynamic programme.
_EXACT_WORK = 2_000_000


def allocate(values: Sequence[Floats], total: int, exactly: bool = False) -> NDArray[np.int64]:
    """m_g for each group, from ``values[g][m] = f_g(m)`` for m from 0 on.

    Examples
    --------
    >>> allocate([np.array([0.0, 1.0, 1.5]), np.array([0.0, 0.9])], total=2).tolist()
    [1, 1]
    """
    if not exactly:
        # Beyond its best number a group only loses.
        values = [one[: int(np.argmax(one)) + 1] for one in values]
    most = [len(one) - 1 for one in values]
    if sum(most) <= total:
        return np.array(most, dtype=np.int64)
    if total * sum(m + 1 for m in most) <= _EXACT_WORK:
        return _by_dynamic_programming(values, total, exactly)
    return _along_hulls(values, total, exactly)


def _by_dynamic_programming(values: Sequence[Floats], total: int, exactly: bool) -> NDArray[np.int64]:
    best = np.full(total + 1, -np.inf)
    best[0] = 0.0
    chosen = np.zeros((len(values), total + 1), dtype=np.int64)
    for group, one in enumerate(values):
        now = np.full(total + 1, -np.inf)
        for m in range(min(len(one) - 1, total) + 1):
            reached = best[: total + 1 - m] + one[m]
            better = reached > now[m:] + 1e-15
            now[m:][better] = reached[better]
            chosen[group, m:][better] = m
        best = now
    spent = total if exactly else int(np.argmax(best))
    found = np.zeros(len(values), dtype=np.int64)
    for group in range(len(values) - 1, -1, -1):
        found[group] = chosen[group, spent]
        spent -= int(found[group])
    return found


def _along_hulls(values: Sequence[Floats], total: int, exactly: bool) -> NDArray[np.int64]:
    pieces = [
        (-(one[end] - one[start]) / (end - start), group, int(start), int(end))
        for group, one in enumerate(values)
        for start, end in _hull(one)
    ]
    pieces.sort()
    found, left = np.zeros(len(values), dtype=np.int64), total
    waiting: set[int] = set()
    for steepness, group, start, end in pieces:
        if steepness >= 0 and not exactly:
            break
        # A group whose piece did not fit goes no further along its hull.
        if group in waiting or end - start > left:
            waiting.add(group)
            continue
        found[group], left = end, left - (end - start)
    while left > 0:
        group, m = _best_step(values, found, left)
        if group < 0 or (values[group][m] <= values[group][found[group]] and not exactly):
            break
        left -= m - int(found[group])
        found[group] = m
    return found


def _hull(one: Floats) -> list[tuple[int, int]]:
    """The pieces of the upper concave hull, from the left."""
    corners: list[int] = []
    for m in range(len(one)):
        while len(corners) >= 2:
            a, b = corners[-2], corners[-1]
            if (one[b] - one[a]) * (m - b) > (one[m] - one[b]) * (b - a):
                break
            corners.pop()
        corners.append(m)
    return list(itertools.pairwise(corners))


def _best_step(values: Sequence[Floats], found: NDArray[np.int64], left: int) -> tuple[int, int]:
    """The group, and its new m, with the largest gain for each yes; −1 where no group has any left."""
    best = (-np.inf, -1, 0)
    for group, one in enumerate(values):
        now = int(found[group])
        ahead = one[now + 1 : now + 1 + left] - one[now]
        if len(ahead):
            rates = ahead / np.arange(1, len(ahead) + 1)
            m = int(np.argmax(rates))
            best = max(best, (float(rates[m]), group, now + 1 + m), key=lambda step: step[0])
    return best[1], best[2]
