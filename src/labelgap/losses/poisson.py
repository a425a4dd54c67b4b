"""The Poisson family: counts."""

from __future__ import annotations

import numpy as np

from labelgap.losses.base import FloatArray, capped_exponential
from labelgap.losses.family import Family


class Poisson(Family):
    """Counts, or other values of at least 0, with mean e^z.

    ``G(z) = e^z``, so ``ℓ(z, y) = e^z − y z + y log y − y``; link ``ξ(μ) = log μ``; conjugate
    ``m log m − m − y log y + y`` with m = a + y ≥ 0. A value need not be a whole number.

    Where z exceeds c, half the logarithm of the largest number of the type (c ≈ 354.9 in float64, 44.4 in
    float32), G goes on along its tangent, ``e^c (1 + z − c)``, the mean stays e^c, and the curvature is
    reported as e^c rather than 0. So everything stays convex and finite.

    Examples
    --------
    >>> from labelgap.losses import Poisson
    >>> loss = Poisson()
    >>> loss.value([0.0, 0.0], [0.0, 3.0]).round(4).tolist()
    [1.0, 1.2958]
    >>> loss.inverse_link(loss.link([0.0, 7.5])).round(4).tolist()
    [0.0, 7.5]
    """

    name = "poisson"
    lipschitz = None
    curvature_bound = None
    means = (0.0, np.inf)
    edge_values = (0.0,)

    def _cumulant_and_mean(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        power, excess = capped_exponential(z)
        return power * (1 + excess), power

    def _variance(self, z: FloatArray) -> FloatArray:
        return capped_exponential(z)[0]

    def _link(self, mean: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(mean)

    def _dual(self, mean: FloatArray) -> FloatArray:
        # 0 log 0 = 0.
        tiny = np.finfo(mean.dtype).tiny
        return mean * np.log(np.maximum(mean, tiny)) - mean
