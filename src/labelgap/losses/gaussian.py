"""The Gaussian family: real values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from labelgap.losses.base import FloatArray
from labelgap.losses.family import Family, scores_and_values


class Gaussian(Family):
    """Real values with mean z: half the squared error.

    ``G(z) = z²/2``, so ``ℓ(z, y) = (z − y)²/2``; the link is the identity; conjugate ``a²/2 + a y``.

    Examples
    --------
    >>> from labelgap.losses import Gaussian
    >>> loss = Gaussian()
    >>> loss.value([0.5, 3.0], [1.5, -1.0]).tolist()
    [0.5, 8.0]
    >>> loss.unit_deviance([1.5, -1.0], [0.5, 3.0]).tolist()
    [1.0, 16.0]
    """

    name = "gaussian"
    lipschitz = None
    curvature_bound = 1.0
    means = (-np.inf, np.inf)
    edge_values = ()

    def value_and_gradient(self, z: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        scores, values = scores_and_values(z, y)
        error = scores - values
        return error**2 / 2, error

    def conjugate(self, a: ArrayLike, y: ArrayLike) -> FloatArray:
        slopes, values = scores_and_values(a, y)
        return slopes * (slopes / 2 + values)

    def _cumulant_and_mean(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return z**2 / 2, z.copy()

    def _variance(self, z: FloatArray) -> FloatArray:
        return np.ones_like(z)

    def _link(self, mean: FloatArray) -> FloatArray:
        return mean.copy()

    def _dual(self, mean: FloatArray) -> FloatArray:
        return mean**2 / 2
