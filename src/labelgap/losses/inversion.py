"""Solving f(z) = t for a rising function f, for many t at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats

Function: TypeAlias = Callable[[NDArray[Any]], Any]
"""A function of an array, entry by entry."""

# A table to start from: fine where scores lie, then doubling up to 2^200, for means that grow like log z.
_OUTER = 2.0 ** np.arange(3, 201)
_KNOTS = np.concatenate([-_OUTER[::-1], np.linspace(-8, 8, 257)[1:-1], _OUTER])
# Each step halves the bracket, or is at most half as long as the one before: far more than is ever needed.
_STEPS = 300
_EPS = float(np.finfo(np.float64).eps)


def invert_rising(function: Function, slope: Function, targets: Floats) -> Floats:
    """z with ``function(z) = target`` for each target; ±inf where the function does not get there.

    Newton's method inside a bracket. A step that leaves the bracket, or that is more than half as long as the
    one before, is replaced by bisection.

    Parameters
    ----------
    function, slope : callable
        A function that never falls, and its derivative.
    targets : array of shape (m,)
        The values to be reached.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.losses.inversion import invert_rising
    >>> invert_rising(np.exp, np.exp, np.array([1.0, 5.0, -1.0])).round(4).tolist()
    [0.0, 1.6094, -inf]
    """
    with np.errstate(all="ignore"):
        low, high, z = _brackets(function, targets)
        step = high - low
        moving = np.flatnonzero(np.isfinite(z))
        for _ in range(_STEPS):
            if not moving.size:
                break
            here, goal = z[moving], targets[moving]
            gap = _values(function, here) - goal
            low[moving] = left = np.where(gap <= 0, here, low[moving])
            high[moving] = right = np.where(gap >= 0, here, high[moving])
            newton = here - gap / np.asarray(slope(here), dtype=np.float64)
            fair = (newton >= left) & (newton <= right) & (np.abs(newton - here) <= step[moving] / 2)
            there = np.where(fair, newton, left + (right - left) / 2)
            # A gap of rounding size tells nothing more of where the root is.
            z[moving] = there = np.where(np.abs(gap) <= 2 * _EPS * np.abs(goal), here, there)
            step[moving] = length = np.abs(there - here)
            moving = moving[length > _EPS * np.abs(there)]
    return z


def _brackets(function: Function, targets: Floats) -> tuple[Floats, Floats, Floats]:
    """For each target the knots below and above it, ±inf where there is none, and a first guess."""
    # A rising function does not fall by rounding either.
    heights = np.maximum.accumulate(_values(function, _KNOTS))
    above = np.searchsorted(heights, targets)
    low = np.concatenate([[-np.inf], _KNOTS])[above]
    high = np.concatenate([_KNOTS, [np.inf]])[above]
    guess = np.interp(targets, heights, _KNOTS)
    # Next to an infinite height there is no interpolation, and beyond the table the middle is infinite.
    between = (guess >= low) & (guess <= high) & np.isfinite(high - low)
    return low, high, np.where(between, guess, low / 2 + high / 2)


def _values(function: Function, z: Floats) -> Floats:
    """The values, also where a formula is inf/inf far out: a rising function is largest on the right."""
    values = np.asarray(function(z), dtype=np.float64)
    return np.where(np.isnan(values), np.copysign(np.inf, z), values)
