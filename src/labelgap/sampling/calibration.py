"""The link from α_i + β_j to a probability, checked against what was observed.

The logistic link is only an assumption. Where α_i + β_j is about z, some fraction of the entries was
observed; the link is adjusted until it agrees with that fraction, and it is constant beyond the
range of observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import expit

from labelgap._types import Floats

# Entries are first gathered by z in so many narrow bins.
_NARROW_BINS = 4096
# Then into wide ones, each with this much to learn from, and no more of them than this.
_MASS, _MOST_KNOTS = 200.0, 30
# Beyond the z where this much is left the link stays level: about ten observations (or gaps).
_TAIL_MASS = 20.0
# The outer knots that say how steeply the link goes on to there.
_OUTER = 3


@dataclass(frozen=True, eq=False)
class Link:
    """A non-decreasing, piecewise linear map of logits to logits, level outside its knots.

    Parameters
    ----------
    knots : ascending array
        z = α_i + β_j.
    logits : array
        The logit of the probability at each knot.
    """

    knots: Floats
    logits: Floats

    def __call__(self, z: Floats) -> Floats:
        """The logits of the probabilities at z."""
        return np.interp(z, self.knots, self.logits)


def fit_link(z: Floats, n_entries: Floats, n_observed: Floats) -> Link:
    """The link under which each interval of z has as many observed entries as were observed.

    Parameters
    ----------
    z : array
        α_i + β_j of kinds of entries, in any order.
    n_entries, n_observed : arrays
        How many entries there are of each kind, and how many of those were observed.

    Examples
    --------
    >>> link = fit_link(np.array([-3.0, 3.0]), np.array([1000.0, 1000.0]), np.array([300.0, 900.0]))
    >>> expit(link(np.array([-3.0, 3.0]))).round(2).tolist()
    [0.3, 0.9]
    """
    z, n_entries, n_observed = _narrow_bins(z, n_entries, n_observed)
    p = expit(z)
    # The information in each bin: observed entries that were improbable, and unobserved ones likewise.
    mass = n_observed * (1 - p) + (n_entries - n_observed) * p
    reached = np.cumsum(mass)
    n_knots = int(np.clip(reached[-1] / _MASS, 1, _MOST_KNOTS))
    wide = np.minimum(((reached - mass / 2) * (n_knots / reached[-1])).astype(np.int64), n_knots - 1)
    parts = [wide == part for part in np.unique(wide)]
    knots = np.array([np.average(z[part], weights=mass[part]) for part in parts])
    shifts = np.array([_shift(z[part], n_entries[part], n_observed[part].sum()) for part in parts])
    logits = isotonic_regression(knots + shifts, weights=[mass[part].sum() for part in parts]).x
    tail = min(_TAIL_MASS, reached[-1] / 2)
    ends = z[np.searchsorted(reached, [tail, reached[-1] - tail])]
    inner = knots[(knots > ends[0]) & (knots < ends[1])]
    at = np.unique(np.concatenate((ends, inner)))
    below = _slope(knots[:_OUTER], logits[:_OUTER]) * np.minimum(at - knots[0], 0.0)
    above = _slope(knots[-_OUTER:], logits[-_OUTER:]) * np.maximum(at - knots[-1], 0.0)
    return Link(at, np.interp(at, knots, logits) + below + above)


def _slope(knots: Floats, logits: Floats) -> float:
    """How steeply the link goes on from the outer knots to its end: as across them, but by 1 at most."""
    if len(knots) == 1:
        return 1.0
    return min(1.0, float((logits[-1] - logits[0]) / (knots[-1] - knots[0])))


def _narrow_bins(z: Floats, n_entries: Floats, n_observed: Floats) -> tuple[Floats, Floats, Floats]:
    """The entries gathered by z, ascending, with the mean z of each bin."""
    width = max(float(np.ptp(z)), np.finfo(np.float64).tiny) / (_NARROW_BINS - 1)
    number: NDArray[np.int64] = ((z - z.min()) / width).astype(np.int64)
    totals = [np.bincount(number, weights=amount) for amount in (n_entries * z, n_entries, n_observed)]
    z_sum, entries, observed = (np.asarray(total[totals[1] > 0], dtype=np.float64) for total in totals)
    return z_sum / entries, entries, observed


def _shift(z: Floats, n_entries: Floats, n_observed: float) -> float:
    """δ with ``Σ σ(z + δ) = n_observed``, drawn to 0 as by one more observation so that it is finite."""
    shift = 0.0
    for _ in range(100):
        p = expit(z + shift)
        slope = n_observed - float(n_entries @ p) - shift
        # Short steps, because far from the solution a full one overshoots.
        step = float(np.clip(slope / (float(n_entries @ (p * (1 - p))) + 1), -1, 1))
        shift += step
        if abs(step) < 1e-9:
            break
    return shift
