"""Whether probabilities mean what they say: of the entries given 70 %, are 70 % a yes?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.confidence.reliability import N_BINS, reliability_bins
from labelgap.report.displays.reliability import wilson_interval
from labelgap.report.encoding import number


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
    found = reliability_bins(predicted, values, weights, n_bins, rare=rare)
    total = sum(one.weight for one in found)
    return {
        "bins": [
            {
                "predicted": one.predicted,
                "observed": one.observed,
                "count": one.n_entries,
                "effective": one.effective,
                "lowest": number(one.lowest),
                "highest": number(one.highest),
            }
            for one in found
        ],
        "error": sum(one.weight / total * abs(one.predicted - one.observed) for one in found),
    }


def with_intervals(found: dict[str, Any]) -> dict[str, Any]:
    """The same with the 95 % interval (Wilson) of the fraction of yes in each bin."""
    fractions, sizes = (np.array([one[key] for one in found["bins"]]) for key in ("observed", "effective"))
    ends = zip(*(end.tolist() for end in wilson_interval(fractions, sizes)), strict=True)
    bins = [
        {**one, "low": max(low, 0.0), "high": min(high, 1.0)}
        for one, (low, high) in zip(found["bins"], ends, strict=True)
    ]
    return {**found, "bins": bins}
