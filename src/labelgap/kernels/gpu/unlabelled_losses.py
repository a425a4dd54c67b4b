"""The unbiased loss on torch tensors: what it is at the recorded positives.

The formulas are those of :class:`labelgap.losses.Unlabelled`, ``ℓ̃(z, 1) = (ℓ(z, 1) − ρ ℓ(z, 0)) / (1 − ρ)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch

from labelgap.kernels.gpu.losses import Derivatives, Tensor, TorchLoss, capped_exponential, pull_to_edge
from labelgap.losses import Exponential, Logistic


class RecordedLosses(ABC):
    """ℓ(·, 0), and ℓ̃(·, 1) at recorded positives, of which each has a flip rate ρ."""

    plain_range: tuple[float, float]
    """The slopes of ℓ(·, 0) at which its conjugate is finite."""
    recorded_range: tuple[Tensor, Tensor]
    """Those of ℓ̃(·, 1), for each recorded positive."""

    def __init__(self, base: TorchLoss, rates: Tensor) -> None:
        self.base, self.rates = base, rates

    @abstractmethod
    def correction(self, z: Tensor) -> Derivatives:
        """``ℓ̃(z, 1) − ℓ(z, 0)`` at the recorded positives."""

    @abstractmethod
    def recorded_conjugate(self, a: Tensor, here: slice) -> Tensor:
        """The conjugate of ℓ̃(·, 1) at some of the recorded positives."""

    def plain(self, z: Tensor) -> Derivatives:
        """``ℓ(z, 0)``."""
        return self.base.derivatives(z, z.new_zeros(()))

    def plain_conjugate(self, a: Tensor) -> Tensor:
        """That of ℓ(·, 0), at the nearest slopes of its domain."""
        return self.base.conjugate(torch.clamp(a, *self.plain_range), a.new_zeros(()))

    def size_change(self, z: Tensor) -> float:
        plain = self.plain(z)[0]
        return float(torch.sum(torch.abs(plain + self.correction(z)[0]) - plain))


class TiltedLosses(RecordedLosses):
    """Where ℓ(z, 0) − ℓ(z, 1) = t z, as for the logistic and the squared loss."""

    def __init__(self, base: TorchLoss, rates: Tensor, t: float, plain_range: tuple[float, float]) -> None:
        super().__init__(base, rates)
        self.plain_range = plain_range
        self._slopes = -t / (1.0 - rates)
        # ℓ̃(z, 1) = ℓ(z, 1) − κ z; the slopes of ℓ(·, 1) are the mirror image of those of ℓ(·, 0).
        self._kappa = t * rates / (1.0 - rates)
        low, high = plain_range
        self.recorded_range = -high - self._kappa, -low - self._kappa

    def correction(self, z: Tensor) -> Derivatives:
        return self._slopes * z, self._slopes, torch.zeros_like(z)

    def recorded_conjugate(self, a: Tensor, here: slice) -> Tensor:
        (low, high), kappa = self.plain_range, self._kappa[here]
        slope, outside = pull_to_edge(a + kappa, -high, -low, 1 + kappa)
        return torch.where(outside, math.inf, self.base.conjugate(slope, a.new_ones(())))


class TiltedExponential(RecordedLosses):
    """``(e^−z − ρ e^z) / (1 − ρ)`` at a recorded positive, along its tangent from z₀ = ½ log(1/ρ)."""

    plain_range = 0.0, math.inf

    def __init__(self, base: TorchLoss, rates: Tensor) -> None:
        super().__init__(base, rates)
        self._kept, self._root = 1.0 - rates, torch.sqrt(rates)
        self._tangent_start = -torch.log(rates) / 2
        self.recorded_range = torch.full_like(rates, -math.inf), -2 * self._root / self._kept

    def correction(self, z: Tensor) -> Derivatives:
        stopped = torch.minimum(z, self._tangent_start)
        falling, excess = capped_exponential(-stopped)
        # ρ = e^(−2 z₀), and so nothing overflows.
        rising = torch.exp(stopped - 2 * self._tangent_start)
        plain, plain_slope, plain_curvature = self.plain(z)
        value = (falling * (1 + excess) - rising - 2 * self._root * (z - stopped)) / self._kept
        curvature = torch.clamp(falling - rising, min=0) / self._kept
        return value - plain, -(falling + rising) / self._kept - plain_slope, curvature - plain_curvature

    def recorded_conjugate(self, a: Tensor, here: slice) -> Tensor:
        """(b log w − s) / (1 − ρ) with b = −(1 − ρ) a, s = √(b² − 4ρ) and w = e^−z = (b + s)/2.

        The slope is a where w² − b w + ρ = 0; the larger root is the one with z ≤ z₀.
        """
        kept, edge = self._kept[here], 2 * self._root[here]
        slope, outside = pull_to_edge(a, -math.inf, -edge / kept, torch.clamp(edge / kept, min=1))
        b = torch.maximum(-slope * kept, edge)
        # Two roots, for b² would overflow before b does.
        s = torch.sqrt(b - edge) * torch.sqrt(b + edge)
        w = torch.clamp((b + s) / 2, min=torch.finfo(a.dtype).tiny)
        return torch.where(outside, math.inf, (b * torch.log(w) - s) / kept)


def recorded_losses(loss: Any, base: TorchLoss, rates: Tensor) -> RecordedLosses:
    """The unbiased form of a loss; ``base`` is its form on tensors."""
    if isinstance(loss, Exponential):
        return TiltedExponential(base, rates)
    if isinstance(loss, Logistic):
        return TiltedLosses(base, rates, 1.0, (0.0, 1.0))
    return TiltedLosses(base, rates, 4.0, (-math.inf, math.inf))
