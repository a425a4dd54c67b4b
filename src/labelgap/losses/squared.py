"""The squared loss."""

from __future__ import annotations

import numpy as np

from labelgap.losses.base import FloatArray, LinearLinkLoss


class Squared(LinearLinkLoss):
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

    def _phi(self, margin: FloatArray) -> FloatArray:
        return (1 - margin) ** 2

    def _slope(self, margin: FloatArray) -> FloatArray:
        return 2 * (margin - 1)

    def _second_slope(self, margin: FloatArray) -> FloatArray:
        return np.full_like(margin, 2)

    def _phi_conjugate(self, slope: FloatArray) -> FloatArray:
        return slope + slope**2 / 4
