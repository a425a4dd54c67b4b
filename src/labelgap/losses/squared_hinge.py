"""The squared hinge loss."""

from __future__ import annotations

import numpy as np

from labelgap.losses.base import FloatArray, LinearLinkLoss, pull_to_edge


class SquaredHinge(LinearLinkLoss):
    """The squared loss that stops at a margin of 1: what is right by more costs nothing.

    ``ℓ(z, y) = max(0, 1 − s z)²`` with s = 2y − 1; link ``ξ(η) = 2η − 1``; conjugate ``b + b²/4``
    with b = s a ≤ 0. The gradient has a kink at margin 1, where the curvature is taken as 2.

    Examples
    --------
    >>> from labelgap.losses import SquaredHinge
    >>> loss = SquaredHinge()
    >>> loss.value([0.5, 3.0], [1, 1]).tolist()
    [0.25, 0.0]
    >>> loss.link([0.0, 0.75]).tolist()
    [-1.0, 0.5]
    """

    name = "squared_hinge"

    def _phi(self, margin: FloatArray) -> FloatArray:
        return np.maximum(1 - margin, 0) ** 2

    def _slope(self, margin: FloatArray) -> FloatArray:
        return np.minimum(2 * (margin - 1), 0)

    def _phi_and_slope(self, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
        shortfall = np.maximum(1 - margin, 0)
        return shortfall**2, -2 * shortfall

    def _second_slope(self, margin: FloatArray) -> FloatArray:
        return np.where(margin <= 1, margin.dtype.type(2), margin.dtype.type(0))

    def _phi_conjugate(self, slope: FloatArray) -> FloatArray:
        b, outside = pull_to_edge(slope, -np.inf, 0.0)
        return np.where(outside, b.dtype.type(np.inf), b + b**2 / 4)
