"""Steps row by row for the squared loss over all entries on a device, where silence has a weight of its own.

The method is that of :mod:`labelgap.objective.cpu.rowwise_silence`: the rows' quadratic problems are solved
by a few steps of conjugate gradients, all rows at a time, and what the rows share is inverted exactly.
"""

from __future__ import annotations

from typing import Any

import torch

from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import Compressed, TensorPattern
from labelgap.objective.cpu.rowwise_silence import ENOUGH, JITTER, STEPS
from labelgap.objective.protocol import FactorPenalties, Factors
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.working_factors import (
    TensorSide,
    TensorSideModel,
    TensorWorkingFactors,
    factor_penalty,
)


class TensorSilenceRowwise:
    """The rows and labels of ``[Σ_Ω (ω (z − t)² − w (z + 1)²) + w Σ_all (z + 1)²] / total``."""

    quadratic_in_rank = False

    def __init__(
        self,
        design: TensorDesign,
        pattern: TensorPattern,
        targets: Tensor,
        weights: Tensor,
        silence: float,
        total: float,
        dtype: Any,
        *,
        has_intercept: bool,
    ) -> None:
        self.dtype = dtype
        self._models = tuple(
            TensorSideModel(features, design.device) for features in (design.rows, design.columns)
        )
        self._pattern, self._silence, self._total = pattern, silence, total
        self._has_intercept = has_intercept
        # Half the slope at an observed entry is ``curved z − wanted``, half the curvature ``curved``.
        self._curved = (weights - silence).to(dtype)
        self._wanted = (weights * targets + silence).to(dtype)
        self._curved_by_label, self._wanted_by_label = (
            pattern.in_label_order(part) for part in (self._curved, self._wanted)
        )

    def start(self, factors: Factors) -> TensorWorkingFactors:
        rows, labels = (
            TensorSide.of(model, parameters, self.dtype)
            for model, parameters in zip(self._models, factors[:2], strict=True)
        )
        return TensorWorkingFactors(rows, labels, torch.clone(factors.intercept).to(self.dtype))

    def step_rows(
        self, at: TensorWorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0
    ) -> float:
        """P given (Q, b), towards the minimum; returns what it gains."""
        Q, entries = at.labels.factor, self._pattern.by_row
        b = at.intercept if self._has_intercept else torch.zeros_like(at.intercept)
        system = _RowSystems(
            entries,
            Q,
            self._curved,
            self._wanted - self._curved * b[entries.indices],
            self._silence,
            (b + 1).to(torch.float64) @ Q.to(torch.float64),
            factor_penalty(at.labels, penalties, self._total),
            at.rows.sizes,
        )
        at.rows.factor, gained = _minimised(system, at.rows.factor, at.rows.prior, relaxation)
        at.rows.renew_prior()
        return gained / self._total

    def step_labels(
        self, at: TensorWorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0
    ) -> float:
        """(Q, b) given P, towards the minimum; returns what it gains."""
        side, P = at.labels, at.rows.factor
        penalty, factor, prior = factor_penalty(at.rows, penalties, self._total), side.factor, side.prior
        if self._has_intercept:
            # The intercept is one more column, which all rows share.
            P = torch.cat([P, P.new_ones((len(P), 1))], dim=1)
            held = penalty.new_full((1, 1), self._total * penalties.intercept)
            penalty = torch.block_diag(penalty, held)
            factor = torch.cat([factor, at.intercept[:, None]], dim=1)
            prior = torch.cat([prior, prior.new_full((len(prior), 1), penalties.centre)], dim=1)
        system = _RowSystems(
            self._pattern.by_label,
            P,
            self._curved_by_label,
            self._wanted_by_label,
            self._silence,
            P.sum(dim=0, dtype=torch.float64),
            penalty,
            side.sizes,
            shared=int(self._has_intercept),
        )
        factor, gained = _minimised(system, factor, prior, relaxation)
        if self._has_intercept:
            at.intercept = factor[:, -1].contiguous()
            factor = factor[:, :-1].contiguous()
        side.factor = factor
        side.renew_prior()
        return gained / self._total


class _RowSystems:
    """``½ aᵀ H_i a`` with ``H_i = m_i M + 2w XᵀX + 2 Σ_e c_e x_e x_eᵀ`` for each row i, over features x.

    The last ``shared`` columns of M are not multiplied with m_i.
    """

    def __init__(
        self,
        entries: Compressed,
        features: Tensor,
        curved: Tensor,
        wanted: Tensor,
        silence: float,
        silent_slope: Tensor,
        penalty: Tensor,
        sizes: Tensor,
        shared: int = 0,
    ) -> None:
        self._entries, self._features = entries, features.contiguous()
        self._curved, self._wanted = curved, wanted
        dtype, width = features.dtype, len(penalty)
        gram = 2 * silence * (features.T @ features).to(torch.float64)
        self._gram, self._penalty = gram.to(dtype), penalty.to(dtype)
        self._slope = (2 * silence * silent_slope).to(dtype)
        self._sizes = sizes[:, None].to(dtype).expand(-1, width)
        if shared:
            self._sizes = self._sizes.clone()
            self._sizes[:, width - shared :] = 1
        both = penalty + gram
        both = both + JITTER * torch.diag(torch.diagonal(both))
        # M and M + 2w XᵀX are diagonal in the same basis: with R Rᵀ the second, in that of R⁻¹ M R⁻ᵀ.
        root = torch.linalg.cholesky(both)
        half = torch.linalg.solve_triangular(root, penalty, upper=False)
        values, turned = torch.linalg.eigh(torch.linalg.solve_triangular(root, half.T, upper=False))
        self._basis = torch.linalg.solve_triangular(root.T, turned, upper=True).to(dtype)
        values = torch.clamp(values, 0.0, 1.0)
        m = sizes[:, None].to(torch.float64)
        self._inverse = (1.0 / (m * values + torch.clamp(1.0 - values, min=JITTER))).to(dtype)

    def negative_gradient(self, rows: Tensor, prior: Tensor) -> Tensor:
        """Minus the slopes of ``½ m (a − prior)ᵀ M (a − prior) + Σ losses`` at the rows."""
        held = self._held(rows - prior)
        entries = 2 * (self._wanted - self._curved * self._along(rows))
        return self._gathered(entries) - (rows @ self._gram + self._slope + held)

    def times(self, rows: Tensor) -> Tensor:
        """``H_i a_i`` for each row."""
        curved = self._gathered(2 * self._curved * self._along(rows))
        return curved + rows @ self._gram + self._held(rows)

    def preconditioned(self, rows: Tensor) -> Tensor:
        return ((rows @ self._basis) * self._inverse) @ self._basis.T

    def _held(self, rows: Tensor) -> Tensor:
        return self._sizes * (rows @ self._penalty)

    def _along(self, rows: Tensor) -> Tensor:
        return self._entries.dots(rows.contiguous(), self._features)

    def _gathered(self, entries: Tensor) -> Tensor:
        return self._entries.product(entries, self._features)


def _minimised(system: _RowSystems, start: Tensor, prior: Tensor, relaxation: float) -> tuple[Tensor, float]:
    """The rows after steps of conjugate gradients, and what the quadratic objectives gain together.

    Each row has step lengths of its own.
    """
    rows, dtype = start, start.dtype
    residual = system.negative_gradient(rows, prior)
    solved = system.preconditioned(residual)
    direction, product = solved, _dots(residual, solved)
    enough = ENOUGH**2 * float(product.sum())
    gained = torch.zeros((), dtype=torch.float64, device=start.device)
    for _ in range(STEPS):
        curved = system.times(direction)
        length = _quotient(product, _dots(direction, curved))
        rows = rows + length[:, None].to(dtype) * direction
        residual = residual - length[:, None].to(dtype) * curved
        gained = gained + 0.5 * torch.dot(length, product)
        solved = system.preconditioned(residual)
        before, product = product, torch.clamp(_dots(residual, solved), min=0.0)
        if float(product.sum()) <= enough:
            break
        direction = solved + _quotient(product, before)[:, None].to(dtype) * direction
    if relaxation != 1.0:
        rows = rows + (relaxation - 1.0) * (rows - start)
    return rows, float(gained)


def _dots(first: Tensor, second: Tensor) -> Tensor:
    return torch.sum(first * second, dim=1, dtype=torch.float64)


def _quotient(above: Tensor, below: Tensor) -> Tensor:
    """``above / below``, and 0 where that is not of a positive number."""
    return torch.where(below > 0, above / torch.where(below > 0, below, 1.0), 0.0)
