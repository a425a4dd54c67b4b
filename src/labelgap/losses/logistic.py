"""The logistic loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from labelgap.losses.base import FloatArray, MarginLoss, as_float, log_odds, pull_to_edge, sigmoid


class Logistic(MarginLoss):
    """The logistic loss, the negative log-likelihood of a label under log-odds z.

    ``ℓ(z, y) = log(1 + e^(−s z))`` with s = 2y − 1, in nats; link ``ξ(η) = log(η / (1 − η))``;
    conjugate ``p log p + (1 − p) log(1 − p)`` with p = −s a in [0, 1].

    Examples
    --------
    >>> from labelgap.losses import Logistic
    >>> loss = Logistic()
    >>> loss.value([0.0, 2.0], [1, 0]).round(4).tolist()
    [0.6931, 2.1269]
    >>> loss.inverse_link([0.0, 2.0]).round(4).tolist()
    [0.5, 0.8808]
    """

    name = "logistic"
    strong_properness = 4.0
    lipschitz = 1.0
    curvature_bound = 0.25
    domain = (-np.inf, np.inf)

    def link(self, eta: ArrayLike) -> FloatArray:
        return log_odds(eta)

    def inverse_link(self, z: ArrayLike) -> FloatArray:
        return sigmoid(as_float(z))

    def value_gradient_and_curvature(
        self, z: ArrayLike, y: ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        value, gradient = self.value_and_gradient(z, y)
        # With p = |ℓ'| the curvature is p (1 − p).
        slope = np.abs(gradient)
        return value, gradient, slope * (1 - slope)

    def _phi(self, margin: FloatArray) -> FloatArray:
        return np.maximum(-margin, 0) + np.log1p(np.exp(-np.abs(margin)))

    def _slope(self, margin: FloatArray) -> FloatArray:
        return -sigmoid(-margin)

    def _phi_and_slope(self, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
        decay = np.exp(-np.abs(margin))
        value = np.maximum(-margin, 0) + np.log1p(decay)
        # e^min(−m, 0) is the decay for m > 0 and 1 elsewhere; a second exponential is faster than a choice.
        slope = -np.exp(np.minimum(-margin, 0)) / (1 + decay)
        return value, slope

    def _second_slope(self, margin: FloatArray) -> FloatArray:
        decay = np.exp(-np.abs(margin))
        curvature: FloatArray = decay / (1 + decay) ** 2
        return curvature

    def _phi_conjugate(self, slope: FloatArray) -> FloatArray:
        p, outside = pull_to_edge(-slope, 0.0, 1.0)
        # 0 log 0 counts as 0.
        tiny = np.finfo(p.dtype).tiny
        entropy = p * np.log(np.maximum(p, tiny)) + (1 - p) * np.log(np.maximum(1 - p, tiny))
        return np.where(outside, p.dtype.type(np.inf), entropy)
