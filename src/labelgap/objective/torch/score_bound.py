"""The constraint ``|XW| ≤ γ`` on a device; the formulas are in :mod:`labelgap.objective.cpu.score_bound`.

The entries that are held to the bound are few, and their keys and multipliers stay on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap._arrays import distinct
from labelgap.kernels.gpu.device import block_bytes
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.objective.cpu.score_bound import BoundedEntries
from labelgap.objective.protocol import Factors, Objective, Point, ScoreGradient
from labelgap.objective.sum import SumGradient, SumObjective, SumPoint
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.entries import TensorEntryGradient, TensorEntryPoint, TensorEntryTerm


class TensorBoundPenalty:
    """ψ with one multiplier per entry, on tensors."""

    def __init__(self, bound: float, multipliers: Tensor, stiffness: float) -> None:
        self._bound, self._u, self._mu = bound, multipliers, stiffness

    def _excess(self, z: Tensor) -> Tensor:
        shifted = z + self._u / self._mu
        return shifted - torch.clamp(shifted, -self._bound, self._bound)

    def _values(self, z: Tensor) -> tuple[Tensor, Tensor]:
        a = self._mu * self._excess(z)
        return a * z - self._bound * torch.abs(a) - (a - self._u) ** 2 / (2 * self._mu), a

    def value_and_gradient(self, z: Tensor) -> tuple[float, Tensor]:
        value, a = self._values(z)
        return float(torch.sum(value)), a

    def size(self, z: Tensor) -> float:
        """Multipliers make values negative, so the sum of their absolute values is another."""
        return float(torch.sum(torch.abs(self._values(z)[0])))

    def curvature(self, z: Tensor) -> Tensor:
        return self._mu * (self._excess(z) != 0).to(z.dtype)

    def conjugate(self, gradient: Tensor, scale: float = 1.0) -> float:
        a = scale * gradient
        return float(torch.sum(self._bound * torch.abs(a) + (a - self._u) ** 2 / (2 * self._mu)))


class TensorBounds:
    """``|(XWFᵀ)_ij| ≤ γ`` for every row of X and every label, observed or not."""

    def __init__(
        self, design: TensorDesign, bound: float, stiffness: float, always: NDArray[np.int64] | None = None
    ) -> None:
        self.bound, self.stiffness, self._design = bound, stiffness, design
        self._always = np.zeros(0, dtype=np.int64) if always is None else always

    def start(self) -> BoundedEntries:
        return BoundedEntries(self._always, np.zeros(len(self._always)))

    def next(self, entries: BoundedEntries, point: Point, beyond: NDArray[np.int64]) -> BoundedEntries:
        assert isinstance(point, SumPoint)
        held = point.parts[1]
        assert isinstance(held, TensorEntryPoint)
        kept = entries.updated(held.entry_gradient.cpu().numpy())
        return kept.including(distinct(np.concatenate((beyond, self._always))))

    def scan(self, factors: Factors) -> tuple[float, NDArray[np.int64]]:
        design = self._design
        P, Q = design.left(factors.left), design.right(factors.right)
        largest, found = 0.0, [np.zeros(0, dtype=np.int64)]
        step = max(1, block_bytes(design.device) // (32 * max(design.n_labels, 1)))
        for start in range(0, len(P), step):
            scores = torch.abs(P[start : start + step] @ Q.T)
            largest = max(largest, float(torch.amax(scores)) if scores.numel() else 0.0)
            beyond: Any = torch.nonzero(scores.reshape(-1) > self.bound)[:, 0]
            found.append(beyond.cpu().numpy() + start * design.n_labels)
        return largest, np.concatenate(found)

    def term(self, entries: BoundedEntries, stiffness: float) -> TensorEntryTerm:
        design = self._design
        rows, columns = np.divmod(entries.keys, design.n_labels)
        indptr = np.searchsorted(rows, np.arange(design.rows.n_rows + 1))
        return TensorEntryTerm(
            design,
            TensorPattern(indptr, columns, design.n_labels, design.device),
            TensorBoundPenalty(self.bound, design.tensor(entries.multipliers), stiffness),
            has_intercept=False,
        )

    def with_term(self, objective: Objective, entries: BoundedEntries, stiffness: float) -> Objective:
        return SumObjective([objective, self.term(entries, stiffness)])

    def conjugate(self, gradient: ScoreGradient, scale: float, capacity: Any = None) -> float:
        assert isinstance(gradient, SumGradient)
        data, held = gradient.parts
        assert isinstance(held, TensorEntryGradient)
        multipliers = float(torch.sum(torch.abs(held.entries)))
        return data.conjugate(scale, capacity) + self.bound * scale * multipliers
