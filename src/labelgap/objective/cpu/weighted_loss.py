"""``Σ_Ω ω_ij ℓ(z_ij, y_ij) / total``: the losses of the observed entries, some at a time."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.loss_passes import LossPasses
from labelgap.kernels.losses import compiled_loss
from labelgap.kernels.threads import map_in_order

# Entries whose losses are computed at a time.
_BLOCK = 1 << 14


class EntryLoss(Protocol):
    """A loss entry by entry: what a data term needs of one."""

    def value_and_gradient(self, z: Any, y: Any) -> tuple[Any, Any]: ...

    def curvature(self, z: Any, y: Any) -> Any: ...

    def conjugate(self, a: Any, y: Any) -> Any: ...


class WeightedLoss:
    """``Σ ω_e ℓ(z_e + o_e, y_e) / total``, with offsets o (0 unless given)."""

    def __init__(
        self,
        loss: EntryLoss,
        values: NDArray[Any],
        weights: Floats | None,
        total: float,
        offsets: Floats | None = None,
    ) -> None:
        self.loss, self.targets, self.offsets = loss, values, offsets
        self.weights, self.total = weights, total
        self._weight: Floats | float = (1.0 if weights is None else weights) / total

    def passes(self, indices: NDArray[Any], n_labels: int) -> LossPasses | None:
        """Value, slopes and sums in one pass, for a loss that has a compiled form."""
        form = compiled_loss(self.loss)
        if form is None:
            return None
        constant = 0.0
        if form.value_at_zero is not None:
            left_out = self.loss.value_and_gradient(np.zeros(1), self.targets)[0] - form.value_at_zero
            constant = float(np.sum(left_out * self._weight))
        return LossPasses(form.code, indices, n_labels, self.targets, self._weight, self.offsets, constant)

    def _shifted(self, z: Floats, block: slice) -> Floats:
        return z[block] if self.offsets is None else z[block] + self.offsets[block]

    def _weight_of(self, block: slice) -> Floats | float:
        return self._weight if isinstance(self._weight, float) else self._weight[block]

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        gradient = np.empty(len(z))

        def work(block: slice) -> float:
            value, slope = self.loss.value_and_gradient(self._shifted(z, block), self.targets[block])
            weight = self._weight_of(block)
            np.multiply(slope, weight, out=gradient[block])
            return float(np.sum(value * weight))

        return float(sum(map_in_order(work, entry_blocks(len(z))))), gradient

    def curvature(self, z: Floats) -> Floats:
        curvature = np.empty(len(z))

        def work(block: slice) -> None:
            entry_curvature = self.loss.curvature(self._shifted(z, block), self.targets[block])
            np.multiply(entry_curvature, self._weight_of(block), out=curvature[block])

        map_in_order(work, entry_blocks(len(z)))
        return curvature

    def conjugate_at_zero(self) -> float:
        """That of slopes of 0: for labels, of two numbers only."""
        if self.targets.dtype != np.int8:
            return self.conjugate(np.broadcast_to(0.0, len(self.targets)))
        if isinstance(self._weight, float):
            ones = int(np.count_nonzero(self.targets))
            mass: Floats = self._weight * np.array([len(self.targets) - ones, ones], dtype=np.float64)
        else:
            mass = np.asarray(np.bincount(self.targets, weights=self._weight, minlength=2), dtype=np.float64)
        return float(np.sum(mass * self.loss.conjugate(np.zeros(2), np.array([0, 1]))))

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        def work(block: slice) -> float:
            weight = self._weight_of(block)
            slopes = scale * gradient[block] / weight
            return float(np.sum(self.loss.conjugate(slopes, self.targets[block]) * weight))

        value = float(sum(map_in_order(work, entry_blocks(len(gradient)))))
        # The conjugate of z ↦ ℓ(z + o) is ℓ*(a) − a o.
        return value if self.offsets is None else value - scale * float(gradient @ self.offsets)


def entry_blocks(length: int) -> list[slice]:
    """Entries some at a time: of one size whatever the threads, so that sums are too."""
    return [slice(start, start + _BLOCK) for start in range(0, length, _BLOCK)]
