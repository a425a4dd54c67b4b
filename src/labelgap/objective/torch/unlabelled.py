"""The positive-unlabelled data term on a device: the unbiased loss over all n·L entries.

    f(Z) = 1/N [ Σ_all ℓ(z_ij, 0) + Σ_recorded ( ℓ̃(z_ij, 1) − ℓ(z_ij, 0) ) − Σ_held ℓ(z_ij, 0) ]

The terms, and why the dual does not come from them, are explained in :mod:`labelgap.objective.unlabelled`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from labelgap.kernels.gpu.losses import Tensor, TorchLoss, torch_loss
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.kernels.gpu.unlabelled_losses import RecordedLosses, recorded_losses
from labelgap.kernels.losses import LOGISTIC
from labelgap.labels import ObservedLabels
from labelgap.losses import Squared
from labelgap.objective.cpu.score_bound import stiffness_for
from labelgap.objective.frame import Frame
from labelgap.objective.parts import ProblemSettings
from labelgap.objective.torch.all_entries import TensorAllEntries
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.entries import TensorEntryTerm
from labelgap.objective.torch.gram import TensorGramTerm
from labelgap.objective.torch.score_bound import TensorBounds
from labelgap.objective.unlabelled import UnlabelledObjective

# Precisions of the steps, and the relative gaps down to which they lead: products of bf16 have an error of
# about 1e-2, those of TF32 of 1e-3, of which the gap is a fraction.
_COARSE = (("bf16", 1e-1), ("tf32", 1e-2), ("float32", 1e-4))


class RecordedCorrection:
    """``Σ (ℓ̃(z, 1) − ℓ(z, 0)) / N`` over the recorded positives, an entry function."""

    def __init__(self, losses: RecordedLosses, total: float) -> None:
        self._losses, self._total = losses, total

    def value_and_gradient(self, z: Tensor) -> tuple[float, Tensor]:
        value, slope, _ = self._losses.correction(z)
        return float(torch.sum(value)) / self._total, slope / self._total

    def curvature(self, z: Tensor) -> Tensor:
        return self._losses.correction(z)[2] / self._total

    def conjugate(self, gradient: Tensor, scale: float = 1.0) -> float:
        """Infinite but at one slope: only together with the other entries is there a useful one."""
        return float("inf")


class HeldLosses:
    """``−Σ ℓ(z, 0) / N`` over entries that are held out."""

    def __init__(self, loss: TorchLoss, total: float) -> None:
        self._loss, self._total = loss, total

    def _derivatives(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self._loss.derivatives(z, z.new_zeros(()))

    def value_and_gradient(self, z: Tensor) -> tuple[float, Tensor]:
        value, slope, _ = self._derivatives(z)
        return -float(torch.sum(value)) / self._total, slope / -self._total

    def curvature(self, z: Tensor) -> Tensor:
        return self._derivatives(z)[2] / -self._total

    def conjugate(self, gradient: Tensor, scale: float = 1.0) -> float:
        """None: only together with the other entries is there one."""
        return float("inf")


def unlabelled_objective(
    design: TensorDesign,
    settings: ProblemSettings,
    frame: Frame,
    positives: ObservedLabels,
    held: ObservedLabels,
) -> TensorUnlabelled:
    """The objective of some rows, of which the positives are recorded and some entries held out."""
    loss, form, inside = settings.loss, torch_loss(settings.loss), frame.informative
    assert form is not None
    assert frame.flip_rates is not None
    total, n_labels, has_intercept = frame.total, len(inside), settings.fit_intercept
    positives = positives.select(inside[positives.indices])
    held = held.select(inside[held.indices])
    rates = frame.flip_rates[positives.indices]

    def sparse(entries: ObservedLabels, function: Any) -> TensorEntryTerm:
        pattern = TensorPattern(entries.indptr, entries.indices, n_labels, design.device)
        return TensorEntryTerm(design, pattern, function, has_intercept=has_intercept)

    losses = recorded_losses(loss, form, design.tensor(rates))
    recorded = sparse(positives, RecordedCorrection(losses, total))
    out = sparse(held, HeldLosses(form, total))
    labels = np.flatnonzero(inside)
    every: TensorAllEntries | TensorGramTerm
    if isinstance(loss, Squared):
        every = TensorGramTerm(design, labels, total, has_intercept=has_intercept)
    else:
        every = TensorAllEntries(design, form, labels, total, has_intercept=has_intercept)
    bounds = None
    if settings.score_bound is not None:
        # Only at recorded positives does the loss fall without limit.
        always = positives.rows * n_labels + positives.indices
        bounds = TensorBounds(design, settings.score_bound, stiffness_for(frame.total), always)
    return TensorUnlabelled(every, recorded, out, losses, frame, bounds)


class TensorUnlabelled(UnlabelledObjective):
    """The objective with steps in fewer digits, and Newton steps row by row where there are any."""

    losses: RecordedLosses

    def with_precision(self, precision: str) -> TensorUnlabelled:
        """The same objective whose steps are computed in another precision."""
        if not isinstance(self.every, TensorAllEntries) or self.every.precision == precision:
            return self
        every = self.every
        other = TensorAllEntries(
            every.design,
            every.loss,
            every.labels.cpu().numpy(),
            every.total,
            has_intercept=every.has_intercept,
            precision=precision,
        )
        return TensorUnlabelled(other, self.recorded, self.held, self.losses, self.frame, self.bounds)

    def stages(self, tol: float) -> list[tuple[TensorUnlabelled, float]]:
        """The objective with steps of few digits, then of more, each with the gap to fit it to.

        Only a GPU is faster with fewer digits, and only where the kernels of all entries know the loss.
        Values and certificates keep all of theirs.
        """
        every = self.every
        is_fixed = not isinstance(every, TensorAllEntries) or every.precision != "float64"
        if is_fixed or every.loss.code != LOGISTIC or every.design.device.type != "cuda":
            return [(self, tol)]
        coarse = [(self.with_precision(p), gap) for p, gap in _COARSE if gap > tol]
        enough = next((p for p, gap in _COARSE if gap <= tol), "float64")
        return [*coarse, (self.with_precision(enough), tol)]
