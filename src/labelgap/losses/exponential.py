"""The exponential loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from labelgap.losses.base import (
    FloatArray,
    MarginLoss,
    as_float,
    capped_exponential,
    log_odds,
    pull_to_edge,
    sigmoid,
)


class Exponential(MarginLoss):
    """The exponential loss of boosting.

    ``ℓ(z, y) = e^(−s z)`` with s = 2y − 1; link ``ξ(η) = ½ log(η / (1 − η))``;
    conjugate ``p log p − p`` with p = −s a ≥ 0.

    Where −s z exceeds c, half the logarithm of the largest number of the type (c ≈ 354.9 in float64,
    44.4 in float32), the loss goes on along its tangent, ``e^c (1 − s z − c)``. So it stays convex and
    finite, and so do sums over entries. There the gradient is −s e^c, as it should be, and the curvature
    is reported as e^c rather than 0, which keeps Newton steps defined.

    Examples
    --------
    >>> from labelgap.losses import Exponential
    >>> loss = Exponential()
    >>> loss.value([0.0, 2.0], [1, 0]).round(4).tolist()
    [1.0, 7.3891]
    >>> loss.inverse_link(loss.link([0.2, 0.9])).round(4).tolist()
    [0.2, 0.9]
    """

    name = "exponential"
    strong_properness = 4.0
    lipschitz = None
    curvature_bound = None
    domain = (-np.inf, np.inf)

    def link(self, eta: ArrayLike) -> FloatArray:
        return log_odds(eta) / 2

    def inverse_link(self, z: ArrayLike) -> FloatArray:
        return sigmoid(2 * as_float(z))

    def _phi(self, margin: FloatArray) -> FloatArray:
        return self._phi_and_slope(margin)[0]

    def _slope(self, margin: FloatArray) -> FloatArray:
        return -capped_exponential(-margin)[0]

    def _second_slope(self, margin: FloatArray) -> FloatArray:
        return capped_exponential(-margin)[0]

    def _phi_and_slope(self, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
        power, excess = capped_exponential(-margin)
        return power * (1 + excess), -power

    def _phi_conjugate(self, slope: FloatArray) -> FloatArray:
        p, outside = pull_to_edge(-slope, 0.0, np.inf)
        tiny = np.finfo(p.dtype).tiny
        return np.where(outside, p.dtype.type(np.inf), p * np.log(np.maximum(p, tiny)) - p)
