"""μ and ν of the paper's sampling assumptions, estimated from what was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from labelgap.exceptions import InvalidParameterError
from labelgap.sampling.pattern import read_pattern
from labelgap.sampling.propensity import fit_propensities


@dataclass(frozen=True)
class SpreadEstimate:
    """Estimates of μ and ν, and an upper bound of ν.

    Parameters
    ----------
    mu : float
        Estimate of μ; it leans on the model of the propensities.
    nu : float
        Estimate of ν.
    nu_upper : float
        ν is at most this, with the confidence that was asked for, whatever the propensities.
    """

    mu: float
    nu: float
    nu_upper: float


def estimate_mu_nu(labels: Any, noise: str = "smooth", confidence: float = 0.95) -> SpreadEstimate:
    """μ and ν of the sampling probabilities π behind an observed pattern.

    ``ν̂ = min(n, L) · (largest expected row or label count) / |Ω|`` and ``μ̂ = |Ω| / (n L min p̂)``, with the
    counts and propensities of ``estimate_propensities``. The largest of many noisy counts is too large and
    the smallest too small even under uniform sampling; smoothing corrects for that. An entry that is never
    looked at leaves no trace, so μ rests on the model, a probability that grows with α_i + β_j, and means
    little where that is wrong, as when a yes is observed more often than a no. Entries so rare that fewer
    than about ten of their kind were observed do not show in it.

    Parameters
    ----------
    labels : ObservedLabels, labels, or mask
        Anything with known and unknown entries; a boolean array or sparse matrix is a mask, True = observed.
    noise : "smooth", "test" or "keep", default "smooth"
        What to make of the noise in the counts, as in ``estimate_propensities``. Under "keep" μ is huge as
        soon as a row or a label has no observation.
    confidence : float, default 0.95
        Of ``nu_upper``: a Chernoff bound for all n + L counts and the total at once, valid for any
        independent draws.

    Examples
    --------
    >>> from labelgap.sampling import Uniform, estimate_mu_nu
    >>> rows, cols = Uniform(0.2).sample((300, 50), random_state=0)
    >>> mask = np.zeros((300, 50), dtype=bool)
    >>> mask[rows, cols] = True
    >>> estimate = estimate_mu_nu(mask)
    >>> round(estimate.mu, 1), round(estimate.nu, 1)
    (1.0, 1.0)
    """
    if not 0 < confidence < 1:
        raise InvalidParameterError(f"confidence lies strictly between 0 and 1, not {confidence!r}.")
    pattern = read_pattern(labels)
    n, L = pattern.shape
    total = len(pattern.rows)
    estimate = fit_propensities(pattern, noise)
    busiest = max(estimate.row_counts.max(), estimate.label_counts.max())
    rarest = estimate.at([np.argmin(estimate.row_logits)], [np.argmin(estimate.label_logits)])[0]
    largest_count = max(pattern.row_counts().max(), pattern.label_counts().max())
    return SpreadEstimate(
        mu=max(1.0, float(total / (n * L * rarest))),
        nu=max(1.0, float(min(n, L) * busiest / total)),
        nu_upper=_nu_upper(int(largest_count), total, pattern.shape, 1 - confidence),
    )


def _nu_upper(busiest: int, total: int, shape: tuple[int, int], risk: float) -> float:
    """An upper bound of ν: the busiest count's mean from above, the total's from below, risk shared evenly.

    A sum of independent 0/1 draws with mean m is as far from it as k with probability at most e^−h, where
    ``h = m − k − k log(m/k)`` (Chernoff).
    """
    n, L = shape
    h = float(np.log((n + L + 1) / risk))
    highest = brentq(lambda m: m - busiest - busiest * np.log(m / busiest) - h, busiest, 2 * busiest + 4 * h)
    lowest = brentq(
        lambda m: m - total - total * np.log(m / total) - h, total * np.exp(-1 - h / total), total
    )
    return float(min(min(n, L), min(n, L) * highest / lowest))
