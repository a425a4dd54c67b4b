"""The squared loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from labelgap.losses.base import FloatArray, MarginLoss, as_float, as_probability


class Squared(MarginLoss):
    """The squared loss against the targets −1 and +1.

    ``ℓ(z, y) = (1 − s z)²`` with s = 2y − 1, which is (z − s)²; link ``ξ(η) = 2η − 1``;
    conjugate ``b + b²/4`` with b = s a. Scores beyond ±1 stand for the probabilities 0 and 1.

    Examples
    --------
    >>> from labelgap.losses import Squared
    >>> loss = Squared()
    >>> loss.value([0.5, 0.5], [1, 0]).tolist()
    [0.25, 2.25]
    >>> loss.inverse_link([-3.0, 0.5]).tolist()
    [0.0, 0.75]
    """

    name = "squared"
    strong_properness = 8.0
    lipschitz = None
    curvature_bound = 2.0
    domain = (-1.0, 1.0)

    def link(self, eta: ArrayLike) -> FloatArray:
        return 2 * as_probability(eta) - 1

    def inverse_link(self, z: ArrayLike) -> FloatArray:
        return np.clip((1 + as_float(z)) / 2, 0, 1)

    def _phi(self, margin: FloatArray) -> FloatArray:
        return (1 - margin) ** 2

    def _slope(self, margin: FloatArray) -> FloatArray:
        return 2 * (margin - 1)

    def _second_slope(self, margin: FloatArray) -> FloatArray:
        return np.full_like(margin, 2)

    def _phi_conjugate(self, slope: FloatArray) -> FloatArray:
        return slope + slope**2 / 4
