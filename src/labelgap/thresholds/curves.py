"""What a threshold search finds: the best threshold, and the metric at every one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ThresholdCurve:
    """The metric at every threshold that makes a difference.

    ``values[k]`` is Ψ of ``scores >= thresholds[k]`` over the observed entries.

    Parameters
    ----------
    thresholds : float64 array
        Descending, in units of the scores: one between each two neighbouring distinct scores, +inf first
        (none; or, where scores are +inf, those only) and −inf last (all).
    values : float64 array
        The metric at each of them.

    Examples
    --------
    >>> from labelgap.thresholds import best_threshold
    >>> curve = best_threshold([[0.9, 0.2]], [[1, 0]], "micro-accuracy", return_curve=True).curve
    >>> curve.thresholds.tolist(), curve.values.tolist()
    ([inf, 0.55, -inf], [0.5, 1.0, 0.5])
    """

    thresholds: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class ThresholdResult:
    """The best threshold and the metric it reaches.

    ``value = Ψ([score ≥ threshold]) = max_θ Ψ([score ≥ θ])`` over the observed entries.

    Parameters
    ----------
    threshold : float
        In units of the scores; +inf means no entry at all, −inf every entry.
    value : float
        The metric at the threshold.
    curve : ThresholdCurve or None
        The metric at every cut, where it was asked for.

    Examples
    --------
    >>> from labelgap.thresholds import best_threshold
    >>> result = best_threshold([[0.9, 0.2]], [[1, 0]], "micro-f1")
    >>> result.threshold, result.value, result.curve
    (0.55, 1.0, None)
    """

    threshold: float
    value: float
    curve: ThresholdCurve | None = None
