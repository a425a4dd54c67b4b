"""The Bernoulli family: fractions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from labelgap.losses.base import FloatArray, log_odds, sigmoid
from labelgap.losses.family import Family, scores_and_values


class Bernoulli(Family):
    """Values in [0, 1], such as fractions and probabilities, with log-odds z.

    ``G(z) = log(1 + e^z)``, so ``ℓ(z, y) = log(1 + e^z) − y z + y log y + (1 − y) log(1 − y)``; link
    ``ξ(μ) = log(μ / (1 − μ))``; conjugate G*(a + y) − G*(y) with G*(m) = m log m + (1 − m) log(1 − m), m in
    [0, 1]. At the values 0 and 1 it is the logistic loss.

    Examples
    --------
    >>> from labelgap.losses import Bernoulli
    >>> loss = Bernoulli()
    >>> loss.value([0.0, 0.0], [0.5, 1.0]).round(4).tolist()
    [0.0, 0.6931]
    >>> loss.unit_deviance([0.0, 1.0], [0.0, 0.5]).round(4).tolist()
    [0.0, 1.3863]
    """

    name = "bernoulli"
    lipschitz = 1.0
    curvature_bound = 0.25
    means = (0.0, 1.0)
    edge_values = (0.0, 1.0)

    def value_and_gradient(self, z: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        scores, values = scores_and_values(z, y)
        decay = np.exp(-np.abs(scores))
        # G(z) = max(z, 0) + log(1 + e^−|z|): for z > 0 the z goes into 1 − y, and y = 1 loses no digits.
        right, missing = scores > 0, 1 - values
        slope = np.where(right, missing, -values)
        value = slope * scores + np.log1p(decay) + self._dual(values)
        tail = decay / (1 + decay)
        return np.maximum(value, 0), slope + np.where(right, -tail, tail)

    def _cumulant_and_mean(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.logaddexp(z, z.dtype.type(0)), sigmoid(z)

    def _variance(self, z: FloatArray) -> FloatArray:
        decay = np.exp(-np.abs(z))
        variance: FloatArray = decay / (1 + decay) ** 2
        return variance

    def _link(self, mean: FloatArray) -> FloatArray:
        return log_odds(mean)

    def _dual(self, mean: FloatArray) -> FloatArray:
        # 0 log 0 = 0.
        tiny = np.finfo(mean.dtype).tiny
        rest = 1 - mean
        return mean * np.log(np.maximum(mean, tiny)) + rest * np.log(np.maximum(rest, tiny))
