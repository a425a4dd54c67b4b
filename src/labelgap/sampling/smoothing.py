"""Counts without their noise: what each row (or label) would be expected to count if drawn again.

The largest of many noisy counts is too large and the smallest too small. A count says of its row's rate what
Bayes' rule says, with the distribution of rates over all rows as the prior; that distribution is estimated
from all counts at once (nonparametric empirical Bayes).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from labelgap._types import Floats
from labelgap.sampling.margins import Margin

# Steps of EM towards the most likely distribution of rates. Stopping early keeps it smooth: at the maximum it
# is a handful of spikes.
_STEPS = 100
# Standard errors by which the variance of the counts may exceed that of chance and still be put down to it.
_SURPRISE = 3.0
# Grid points per standard deviation of a count.
_FINENESS = 2.0


def is_chance(side: Margin, other: Margin) -> bool:
    """Whether the counts vary no more than if each of the other side's had been dealt out at random.

    That has the mean variance ``n/(n − 1) Σ_j (c_j/n) (1 − c_j/n)``, as in Cochran's Q test.
    """
    if side.size < 2:
        return True
    variance = float(side.members @ (side.sums - side.mean) ** 2) / (side.size - 1)
    rates = other.sums / side.size
    chance = float(other.members @ (rates * (1 - rates))) * side.size / (side.size - 1)
    # The variance of a variance; 1/chance is the excess kurtosis of a Poisson count.
    error = np.sqrt(2 / (side.size - 1) + 1 / (chance * side.size))
    return bool(variance <= chance * (1 + _SURPRISE * error))


def smooth_sums(side: Margin, logits: Floats, other: Margin, other_logits: Floats) -> Margin:
    """The posterior mean of each class's sum given its count, with the total kept.

    The result is majorised by the counts (it is ``D r`` for some doubly stochastic D), so margins that a 0/1
    matrix has stay possible.

    Parameters
    ----------
    side : Margin
        The classes whose sums are smoothed; their sums are counts.
    logits : array
        α of each class, fitted to the counts.
    other, other_logits : Margin and array
        The other side and its β.
    """
    smoothed = _posterior_sums(side, logits, other, other_logits)
    return _majorised(_with_total(smoothed, side, other.size), side)


def _posterior_sums(side: Margin, logits: Floats, other: Margin, other_logits: Floats) -> Floats:
    """E[sum | count] under the distribution of rates that EM finds on a grid."""
    grid = _grid(side, logits, other)
    z = grid[:, None] + other_logits
    # A count r has the likelihood e^(αr − A(α)) times a factor without α, which the posterior does not need.
    log_likelihood = np.outer(side.sums, grid) - np.logaddexp(0.0, z) @ other.members
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    prior = np.full(len(grid), 1 / len(grid))
    for _ in range(_STEPS):
        prior *= (side.members / (likelihood @ prior)) @ likelihood / side.size
    likelihood *= prior
    sums: Floats = likelihood @ (expit(z) @ other.members) / likelihood.sum(axis=1)
    return sums


def _grid(side: Margin, logits: Floats, other: Margin) -> Floats:
    """Values of α evenly spaced in standard deviations of a count, a little beyond the least one."""
    # The angle arcsin √(r/L) of a count of L draws has the standard deviation ½/√L whatever the rate.
    deviation = 0.5 / np.sqrt(other.size)
    angles = np.arcsin(np.sqrt(side.sums / other.size))
    # What is expected to count less than half an observation cannot be told from what counts none.
    least = min(0.5, side.mean / 4) / other.size
    lowest, highest = max(angles[0] - 4 * deviation, np.arcsin(np.sqrt(least))), angles[-1]
    number = int(_FINENESS * (highest - lowest) / deviation) + 2
    rates = logit(np.sin(np.linspace(lowest, highest, number)) ** 2)
    known = logit(side.sums / other.size)
    # α grows with the logit of the rate; below the least known one, where rates are small, one for one.
    return np.asarray(np.interp(rates, known, logits) + np.minimum(rates - known[0], 0.0))


def _with_total(sums: Floats, side: Margin, limit: float) -> Floats:
    """The sums, each between 0 and ``limit``, shifted on the logit scale to the total of ``side``."""
    z = logit(sums / limit)

    def excess(shift: float) -> float:
        return float(side.members @ expit(z + shift)) * limit / side.size - side.mean

    shift = brentq(excess, -50.0, 50.0, xtol=1e-15)
    return np.asarray(limit * expit(z + shift))


def _majorised(sums: Floats, side: Margin) -> Margin:
    """The sums, drawn towards their mean until no so-and-so-many largest exceed those of ``side``."""
    smoothed = replace(side, sums=sums)
    # Classes ascend in both, and the sum over the largest members is linear within a class. Over all members
    # the two agree, so that point is left out.
    even = side.mean * np.cumsum(side.members[:0:-1])
    above = np.cumsum((side.members * sums)[:0:-1]) - even
    allowed = np.cumsum((side.members * side.sums)[:0:-1]) - even
    over = above > allowed
    keep = float(np.min(allowed[over] / above[over], initial=1.0))
    return smoothed.shrunk(1.0 - keep)
