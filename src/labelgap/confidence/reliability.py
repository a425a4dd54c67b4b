"""Whether probabilities mean what they say: of the entries given 70 %, are 70 % a yes?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats

N_BINS = 12


class ReliabilityBin(NamedTuple):
    """Entries with about the same prediction."""

    predicted: float
    """The (weighted) mean prediction."""
    observed: float
    """The (weighted) mean value."""
    weight: float
    n_entries: int
    lowest: float
    highest: float
    effective: float
    """How many entries of one weight would tell as much."""


def reliability_bins(
    predicted: Floats,
    values: NDArray[Any],
    weights: Floats | None = None,
    n_bins: int = N_BINS,
    *,
    rare: bool = False,
) -> list[ReliabilityBin]:
    """Mean prediction and mean value in bins of about equally many entries; equal predictions stay together.

    With ``rare``, half of the bins are made so that equally many yes are expected in each (Σ p), because
    bins of equally many entries would put nearly all yes into the last one.

    Examples
    --------
    >>> found = reliability_bins(np.array([0.1, 0.1, 0.8, 0.8]), np.array([0, 0, 1, 0]), n_bins=2)
    >>> [(one.predicted, one.observed, one.n_entries) for one in found]
    [(0.1, 0.0, 2), (0.8, 0.5, 2)]
    """
    order = np.argsort(predicted, kind="stable")
    p, y = predicted[order], np.asarray(values, dtype=np.float64)[order]
    w = np.ones(len(p)) if weights is None else weights[order]
    bins, ends = [], _bin_ends(p, w, n_bins, rare)
    for start, end in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
        here = slice(start, end)
        weight = float(w[here].sum())
        means = float(w[here] @ p[here]) / weight, float(w[here] @ y[here]) / weight
        effective = weight**2 / float(w[here] @ w[here])
        span = float(p[start]), float(p[end - 1])
        bins.append(ReliabilityBin(*means, weight, end - start, *span, effective))
    return bins


def _bin_ends(p: Floats, w: Floats, n_bins: int, rare: bool) -> NDArray[np.int64]:
    """Where each bin of the ascending predictions ends."""
    by_entries = n_bins - n_bins // 2 if rare else n_bins
    last = (np.arange(1, by_entries + 1) * len(p)) // by_entries - 1
    if rare:
        expected = np.cumsum(w * p)
        targets = expected[-1] * np.arange(1, n_bins // 2) / max(n_bins // 2, 1)
        last = np.concatenate([last, np.minimum(np.searchsorted(expected, targets), len(p) - 1)])
    # A bin ends where the predictions change, so that its mean does not depend on the order of ties.
    return np.unique(np.searchsorted(p, p[last], side="right"))


def calibration_error(
    predicted: Floats, values: NDArray[Any], weights: Floats | None = None, n_bins: int = N_BINS
) -> float:
    """The expected calibration error (ECE) ``Σ_b fraction_b |mean prediction_b − mean value_b|``.

    Parameters
    ----------
    predicted : array of probabilities
    values : array of 0 and 1, of the same length
    weights : array of the same length, or None
    n_bins : int, default 12
        Bins of about equally many entries.

    Examples
    --------
    >>> round(calibration_error(np.array([0.1, 0.1, 0.8, 0.8]), np.array([0, 0, 1, 0]), n_bins=2), 3)
    0.2
    """
    bins = reliability_bins(predicted, values, weights, n_bins)
    total = sum(one.weight for one in bins)
    return sum(one.weight / total * abs(one.predicted - one.observed) for one in bins)
