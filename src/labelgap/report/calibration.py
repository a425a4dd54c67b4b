"""Whether probabilities mean what they say: of the entries given 70 %, are 70 % a yes?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.report.displays.reliability import wilson_interval
from labelgap.report.encoding import number

N_BINS = 12


def reliability(
    predicted: Floats,
    values: NDArray[Any],
    weights: Floats | None = None,
    n_bins: int = N_BINS,
    *,
    rare: bool = False,
) -> dict[str, Any]:
    """Mean prediction and mean value in bins of about equally many entries, and how far they are apart.

    ``error = Σ_b fraction_b |mean prediction_b − mean value_b|``, the expected calibration error where the
    predictions are probabilities. Equal predictions are in the same bin.

    With ``rare``, half of the bins are made so that equally many yes are expected in each (Σ p), because
    bins of equally many entries would put nearly all yes into the last one.

    Examples
    --------
    >>> found = reliability(np.array([0.1, 0.1, 0.8, 0.8]), np.array([0, 0, 1, 0]), n_bins=2)
    >>> [(b["predicted"], b["observed"], b["count"]) for b in found["bins"]]
    [(0.1, 0.0, 2), (0.8, 0.5, 2)]
    >>> round(found["error"], 3)
    0.2
    """
    order = np.argsort(predicted, kind="stable")
    p, y = predicted[order], np.asarray(values, dtype=np.float64)[order]
    w = np.ones(len(p)) if weights is None else weights[order]
    bins, error, total = [], 0.0, float(w.sum())
    ends = _bin_ends(p, w, n_bins, rare)
    for start, end in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
        here = slice(start, end)
        weight = float(w[here].sum())
        predicted_mean, observed = float(w[here] @ p[here]) / weight, float(w[here] @ y[here]) / weight
        error += weight / total * abs(predicted_mean - observed)
        bins.append(
            {
                "predicted": predicted_mean,
                "observed": observed,
                "count": end - start,
                # How many entries of one weight would tell as much.
                "effective": weight**2 / float(w[here] @ w[here]),
                "lowest": number(p[start]),
                "highest": number(p[end - 1]),
            }
        )
    return {"bins": bins, "error": error}


def with_intervals(found: dict[str, Any]) -> dict[str, Any]:
    """The same with the 95 % interval (Wilson) of the fraction of yes in each bin."""
    fractions, sizes = (np.array([one[key] for one in found["bins"]]) for key in ("observed", "effective"))
    ends = zip(*(end.tolist() for end in wilson_interval(fractions, sizes)), strict=True)
    bins = [
        {**one, "low": max(low, 0.0), "high": min(high, 1.0)}
        for one, (low, high) in zip(found["bins"], ends, strict=True)
    ]
    return {**found, "bins": bins}


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
