"""Whether probabilities mean what they say: of the entries given 70 %, are 70 % a yes?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.report.encoding import number

N_BINS = 12


def reliability(
    predicted: Floats, values: NDArray[Any], weights: Floats | None = None, n_bins: int = N_BINS
) -> dict[str, Any]:
    """Mean prediction and mean value in bins of about equally many entries, and how far they are apart.

    ``error = Σ_b fraction_b |mean prediction_b − mean value_b|``, the expected calibration error where the
    predictions are probabilities. Equal predictions are in the same bin.

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
    # A bin ends where the predictions change, so that its mean does not depend on the order of ties.
    ends = np.searchsorted(p, p[(np.arange(1, n_bins + 1) * len(p)) // n_bins - 1], side="right")
    ends = np.unique(ends)
    bins, error, total = [], 0.0, float(w.sum())
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
                "lowest": number(p[start]),
                "highest": number(p[end - 1]),
            }
        )
    return {"bins": bins, "error": error}
