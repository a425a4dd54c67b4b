"""Popularity grades with given ends: how Bounded meets its μ and ν exactly."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError

# Rounding may put a pair that is just possible this far outside.
_SLACK = 1e-12


def bounded_grades(n_short: int, n_long: int, mu: float, nu: float, most: float) -> tuple[Floats, Floats]:
    """Grades u (n_short) and v (n_long), each of mean 1 and falling, with the given μ and ν.

    ``min u · min v = 1/μ``, ``max u = ν``, ``max v ≤ ν · n_long / n_short`` and ``max u · max v ≤ most``.

    Parameters
    ----------
    n_short, n_long : int
        min(n, L) and max(n, L).
    mu, nu : float
        At least 1.
    most : float
        The largest ratio of an entry's probability to the mean; at least ν.

    Examples
    --------
    >>> u, v = bounded_grades(3, 4, mu=2, nu=1.5, most=10)
    >>> u.round(3).tolist(), v.tolist()
    ([1.5, 1.0, 0.5], [1.0, 1.0, 1.0, 1.0])
    """
    lowest = 1 / mu
    if nu > (n_short - (n_short - 1) * lowest) * (1 + _SLACK):
        raise InvalidParameterError(
            f"mu={mu} leaves every entry at least 1/mu of the average probability, so with min(n, L) = "
            f"{n_short} no row or label can be busier than nu={n_short - (n_short - 1) * lowest:.6g}; "
            f"nu={nu} is impossible. Raise mu or lower nu."
        )
    # The lowest grade that mean 1 allows beside a highest one of ν.
    reachable = n_short - (n_short - 1) * nu
    if reachable <= lowest * (1 + _SLACK):
        return _grades(n_short, lowest, nu), np.ones(n_long)
    low = lowest / reachable
    high = min(2 - low, nu * n_long / n_short, most / nu)
    if (n_long - 1) * high + low < n_long * (1 - _SLACK):
        raise InvalidParameterError(
            f"nu={nu} makes the rows and labels of this shape so even, and share so many entries observed, "
            f"that no popularity model has an entry as rare as mu={mu} says. Raise nu, lower mu, or lower "
            "share."
        )
    return _grades(n_short, reachable, nu), _grades(n_long, low, high)


def _grades(size: int, low: float, high: float) -> Floats:
    """``low + (high − low) t^γ`` for t falling from 1 to 0, with the γ that makes the mean 1."""
    if size == 1 or high - low <= _SLACK:
        return np.ones(size)
    # The mean of t^γ runs from (size − 1)/size at γ = 0 to 1/size at γ = ∞.
    wanted = min(max((1 - low) / (high - low), 1 / size), (size - 1) / size)
    t = np.linspace(1, 0, size)

    def excess(log_gamma: float) -> float:
        return float(np.mean(t ** np.exp(log_gamma))) - wanted

    edges = -40.0, 40.0
    if excess(edges[0]) <= 0:
        log_gamma = edges[0]
    elif excess(edges[1]) >= 0:
        log_gamma = edges[1]
    else:
        log_gamma = brentq(excess, *edges, xtol=1e-15, rtol=1e-15)
    grades: Floats = low + (high - low) * t ** np.exp(log_gamma)
    return grades
