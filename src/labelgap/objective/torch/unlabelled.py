"""The positive-unlabelled data term on a device: the unbiased loss over all n·L entries.

    f(Z) = 1/N [ Σ_all ℓ(z_ij, 0) + Σ_recorded ( ℓ̃(z_ij, 1) − ℓ(z_ij, 0) ) − Σ_held ℓ(z_ij, 0) ]

The terms, and why the dual does not come from them, are explained in
:mod:`labelgap.objective.cpu.unlabelled`. For the logistic and the squared loss the second sum is linear:
``ℓ̃(z, 1) − ℓ(z, 0) = −t z/(1 − ρ)`` with t = 1 and 4. These two run on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.kernels.gpu.losses import Tensor, TorchLoss, torch_loss
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.labels import ObservedLabels
from labelgap.losses import Logistic, Squared
from labelgap.objective.cpu.score_bound import stiffness_for
from labelgap.objective.frame import Frame
from labelgap.objective.parts import ProblemSettings
from labelgap.objective.protocol import Factors, Point, ScoreBounds, ScoreGradient
from labelgap.objective.sum import SumObjective, SumPoint
from labelgap.objective.torch.all_entries import TensorAllEntries, TensorAllEntriesPoint
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.entries import TensorEntryPoint, TensorEntryTerm
from labelgap.objective.torch.gram import TensorGramPoint, TensorGramTerm
from labelgap.objective.torch.rowwise_gram import TensorGramRowwise
from labelgap.objective.torch.score_bound import TensorBounds
from labelgap.objective.torch.unlabelled_dual import TensorUnlabelledGradient, squared_gradient
from labelgap.objective.torch.working_factors import TensorSideModel

# Precisions of the steps, and the relative gaps down to which they lead: products of bf16 have an error of
# about 1e-2, those of TF32 of 1e-3, of which the gap is a fraction.
_COARSE = (("bf16", 1e-1), ("tf32", 1e-2), ("float32", 1e-4))
# t in ℓ(z, 0) − ℓ(z, 1) = t z.
_TILTS: dict[type, float] = {Logistic: 1.0, Squared: 4.0}


class RecordedSlopes:
    """``Σ c_e z_e``: what the recorded positives add."""

    def __init__(self, slopes: Tensor) -> None:
        self.slopes = slopes

    def value_and_gradient(self, z: Tensor) -> tuple[float, Tensor]:
        return float(torch.dot(self.slopes, z)), self.slopes

    def curvature(self, z: Tensor) -> Tensor:
        return torch.zeros_like(z)

    def conjugate(self, gradient: Tensor, scale: float = 1.0) -> float:
        """Infinite but at one slope: only together with the other entries is there a useful one."""
        return float("inf")


class HeldLosses:
    """``−Σ ℓ(z, 0) / N`` over entries that are held out."""

    def __init__(self, loss: TorchLoss, total: float) -> None:
        self._loss, self._total = loss, total

    def _derivatives(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self._loss.derivatives(z, z.new_zeros(()))

    def losses(self, z: Tensor) -> Tensor:
        """``ℓ(z, 0)``, entry by entry."""
        return self._derivatives(z)[0]

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
    tilt = _TILTS.get(type(loss))
    if form is None or tilt is None:
        raise InvalidParameterError(
            f"With unobserved='unlabelled' the {loss.name} loss runs on the CPU only; on a GPU there are "
            "'logistic' and 'squared'. Set device='cpu'."
        )
    assert frame.flip_rates is not None
    total, n_labels, has_intercept = frame.total, len(inside), settings.fit_intercept
    positives = positives.select(inside[positives.indices])
    held = held.select(inside[held.indices])
    rates = frame.flip_rates[positives.indices]

    def sparse(entries: ObservedLabels, function: Any) -> TensorEntryTerm:
        pattern = TensorPattern(entries.indptr, entries.indices, n_labels, design.device)
        return TensorEntryTerm(design, pattern, function, has_intercept=has_intercept)

    recorded = sparse(positives, RecordedSlopes(design.tensor(-tilt / (1.0 - rates) / total)))
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
    return TensorUnlabelled(every, recorded, out, rates, frame, bounds)


class TensorUnlabelled(SumObjective):
    """The unbiased loss, with the bound γ that its conjugate may use (None: it must do without)."""

    def __init__(
        self,
        every: TensorAllEntries | TensorGramTerm,
        recorded: TensorEntryTerm,
        held: TensorEntryTerm,
        rates: Floats,
        frame: Frame,
        bounds: ScoreBounds | None,
    ) -> None:
        super().__init__([every, recorded, held], bounds=bounds)
        self.every, self.recorded, self.held = every, recorded, held
        self.rates, self.frame = recorded.design.tensor(rates), frame
        self.score_bound = None if bounds is None else bounds.bound

    def starting_intercept(self) -> Tensor:
        return self.every.design.tensor(self.frame.starting_intercept.copy())

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
        rates = self.rates.cpu().numpy()
        return TensorUnlabelled(other, self.recorded, self.held, rates, self.frame, self.bounds)

    def stages(self, tol: float) -> list[tuple[TensorUnlabelled, float]]:
        """The objective with steps of few digits, then of more, each with the gap to fit it to.

        Only a GPU is faster with fewer digits. Values and certificates keep all of theirs.
        """
        every = self.every
        is_fixed = not isinstance(every, TensorAllEntries) or every.precision != "float64"
        if is_fixed or every.design.device.type != "cuda":
            return [(self, tol)]
        coarse = [(self.with_precision(p), gap) for p, gap in _COARSE if gap > tol]
        enough = next((p for p, gap in _COARSE if gap <= tol), "float64")
        return [*coarse, (self.with_precision(enough), tol)]

    def at(self, factors: Factors, product: Tensor | None = None) -> Point:
        return TensorUnlabelledPoint(self, [term.at(factors, product) for term in self.terms], factors)

    def rowwise(self, dtype: Any) -> TensorGramRowwise | None:
        """Exact steps under the squared loss, where all entries count."""
        every, design = self.every, self.every.design
        sides = (design.rows, design.columns)
        if not isinstance(every, TensorGramTerm) or len(self.held.pattern):
            return None
        if not all(map(TensorSideModel.fits, sides)):
            return None
        pattern = self.recorded.pattern
        linear = design.zeros(self.n_labels)
        # All recorded positives of a label have the same slope.
        linear[pattern.by_row.indices.long()] = self.recorded.function.slopes * every.total
        return TensorGramRowwise(
            design, pattern, every.labels, linear, every.total, dtype, has_intercept=self.has_intercept
        )


class TensorUnlabelledPoint(SumPoint):
    """A :class:`TensorUnlabelled` at one place; all but the dual is the sum of its terms."""

    def __init__(self, objective: TensorUnlabelled, parts: Sequence[Any], factors: Factors) -> None:
        super().__init__(objective, parts, factors)
        self._objective = objective
        every, recorded, held = self.parts
        assert isinstance(recorded, TensorEntryPoint)
        # The sum of the absolute losses: what the corrections take back does not count.
        z, total = recorded.scores, objective.every.total
        plain = objective.held.function.losses(z)
        corrected = plain + total * objective.recorded.function.slopes * z
        change = float(torch.sum(torch.abs(corrected) - plain))
        self.size = every.value + change / total + held.value

    def score_gradient(
        self, sums: tuple[Tensor, Tensor] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        every, recorded, held = self.parts
        assert isinstance(recorded, TensorEntryPoint)
        has_intercept = self._objective.has_intercept
        if sums is None and has_intercept:
            sums = self.signed_label_sums()
        if isinstance(every, TensorGramPoint):
            taken_off = sums[0] + sums[1] if balanced and sums is not None else None
            return squared_gradient(self._objective, every, recorded, taken_off)
        assert isinstance(every, TensorAllEntriesPoint)
        demanded = None
        if has_intercept and sums is not None:
            up, down = sums
            demanded = (torch.zeros_like(up) if balanced else up + down, up - down)
        return TensorUnlabelledGradient(self._objective, every, recorded, held, demanded)

    def with_intercept(self, intercept: Tensor) -> Point:
        parts = [part.with_intercept(intercept) for part in self.parts]
        return TensorUnlabelledPoint(self._objective, parts, self.factors._replace(intercept=intercept))

    def beyond(self, previous: Point, step: float) -> Point:
        moved = super().beyond(previous, step)
        assert isinstance(moved, SumPoint)
        return TensorUnlabelledPoint(self._objective, moved.parts, moved.factors)
