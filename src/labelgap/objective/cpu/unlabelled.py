"""The positive-unlabelled data term on the CPU; see :mod:`labelgap.objective.unlabelled`."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.kernels.entries import csr_product
from labelgap.losses import Loss
from labelgap.losses.unlabelled import Unlabelled
from labelgap.objective.cpu.features import IdentityFeatures
from labelgap.objective.cpu.gram import GramTerm
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
    """The objective, which the squared loss gives a target for all entries."""

    losses: RecordedLosses

    def target(self) -> SquaredTarget | None:
        """T where the objective is ``Σ (z − t)² / N`` over all entries, and Z is W; None elsewhere."""
        every, design, frame = self.every, self.every.design, self.frame
        plain = type(design.rows) is IdentityFeatures and type(design.columns) is IdentityFeatures
        if not (isinstance(every, GramTerm) and plain and self.has_intercept and self.bounds is None):
            return None
        if len(self.held.pattern):
            return None
        pattern = self.recorded.pattern
        # ((z − 1)² − (z + 1)²) / (1 − ρ)
        steps = np.broadcast_to(2.0 / (1.0 - np.asarray(self.losses.loss.flip_rate)), len(pattern))
        S = sp.csr_array((steps, pattern.indices, pattern.indptr), shape=every.shape)
        intercept = np.array(frame.starting_intercept, dtype=np.float64)
        means = S.sum(axis=0) / every.shape[0]
        intercept[every.labels] = means[every.labels] - 1.0
        return SquaredTarget(S, means, intercept, every.total)


class SquaredTarget:
    """``S − 1 meansᵀ``: the entries of T, each less the mean of its label, which is the label's intercept."""

    def __init__(self, S: sp.csr_array, means: Floats, intercept: Floats, total: float) -> None:
        self.shape, self.intercept, self.total = S.shape, intercept, total
        self.squares = float(S.data @ S.data - S.shape[0] * (means @ means))
        self._S, self._St, self._means = S, sp.csr_array(S.T), means

    def times(self, V: Floats) -> Floats:
        """``R V``, in the precision of V."""
        product = csr_product(self._S.indptr, self._S.indices, self._S.data, V)
        return np.asarray(product - (self._means @ V).astype(V.dtype))

    def transposed_times(self, U: Floats) -> Floats:
        """``Rᵀ U``."""
        product = csr_product(self._St.indptr, self._St.indices, self._St.data, U)
        return np.asarray(product - np.outer(self._means, U.sum(axis=0)).astype(U.dtype))

    def normal(self, V: Floats) -> Floats:
        """``RᵀR V``, or ``R Rᵀ V`` where R has fewer rows than columns."""
        if self.shape[1] <= self.shape[0]:
            return self.transposed_times(self.times(V))
        return self.times(self.transposed_times(V))
