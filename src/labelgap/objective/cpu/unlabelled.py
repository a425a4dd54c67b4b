"""The positive-unlabelled data term on the CPU; see :mod:`labelgap.objective.unlabelled`."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.losses import Loss
from labelgap.losses.unlabelled import Unlabelled
from labelgap.objective.cpu.gram import GramTerm
from labelgap.objective.cpu.rowwise_gram import GramRowwise
from labelgap.objective.unlabelled import UnlabelledObjective


class RecordedLosses:
    """The unbiased loss, with the flip rate of each recorded positive."""

    def __init__(self, loss: Unlabelled, n_recorded: int) -> None:
        self.loss = loss
        low, high = Unlabelled(loss.base, 0.0).slope_range(0)
        self.plain_range = float(low), float(high)
        low, high = (np.broadcast_to(edge, n_recorded) for edge in loss.slope_range(1))
        self.recorded_range = low, high
        self._rates = np.broadcast_to(loss.flip_rate, n_recorded)

    def size_change(self, z: Floats) -> float:
        return float(np.sum(np.abs(self.loss.value(z, 1)) - self.loss.base.value(z, 0)))

    def plain_conjugate(self, a: Floats) -> Floats:
        return np.asarray(self.loss.base.conjugate(np.clip(a, *self.plain_range), 0))

    def recorded_conjugate(self, a: Floats, here: slice) -> Floats:
        return np.asarray(Unlabelled(self.loss.base, self._rates[here]).conjugate(a, 1))


class RecordedCorrection:
    """``Σ (ℓ̃(z, 1) − ℓ(z, 0)) / N`` over the recorded positives, an entry function."""

    def __init__(self, loss: Unlabelled, total: float) -> None:
        self.loss, self._total = loss, total

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        recorded, recorded_slope = self.loss.value_and_gradient(z, 1)
        plain, plain_slope = self.loss.base.value_and_gradient(z, 0)
        value = float(np.sum(recorded - plain)) / self._total
        return value, np.asarray((recorded_slope - plain_slope) / self._total)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray((self.loss.curvature(z, 1) - self.loss.base.curvature(z, 0)) / self._total)

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        """Infinite but at one slope: only together with the other entries is there a useful one."""
        return float("inf")


class HeldCorrection:
    """``−Σ ℓ(z, 0) / N`` over entries that are held out, an entry function (concave; the sum is convex)."""

    def __init__(self, loss: Loss, total: float) -> None:
        self._loss, self._total = loss, total

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        value, slope = self._loss.value_and_gradient(z, 0)
        return -float(np.sum(value)) / self._total, np.asarray(slope / -self._total)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray(self._loss.curvature(z, 0) / -self._total)

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        """None: only together with the other entries is there one."""
        return float("inf")


class CpuUnlabelled(UnlabelledObjective):
    """The objective with Newton steps row by row, where there are any."""

    losses: RecordedLosses

    def rowwise(self, dtype: Any) -> GramRowwise | None:
        """Exact steps under the squared loss, where all entries count."""
        every, pattern = self.every, self.recorded.pattern
        if not isinstance(every, GramTerm) or len(self.held.pattern) or not every.design.has_own_rows:
            return None
        slopes = np.zeros(self.n_labels)
        # ((z − 1)² − (z + 1)²) / (1 − ρ)
        slopes[pattern.indices] = -4.0 / (1.0 - np.asarray(self.losses.loss.flip_rate))
        return GramRowwise(
            every.design,
            pattern,
            every.labels,
            slopes,
            every.total,
            dtype,
            has_intercept=self.has_intercept,
        )
