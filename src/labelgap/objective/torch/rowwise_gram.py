"""Exact minimisation row by row for recorded positives under the squared loss, on a device.

The formulas are those of :mod:`labelgap.objective.cpu.rowwise_gram`: all rows have the same Hessian up to the
size of their penalty, ``m_i M + 2 QᵀQ``, and one joint diagonalisation of M and QᵀQ solves all rows at once.
"""

from __future__ import annotations

from typing import Any

import torch

from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.objective.protocol import FactorPenalties, Factors
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.working_factors import (
    TensorSide,
    TensorSideModel,
    TensorWorkingFactors,
    factor_penalty,
)


class TensorGramRowwise:
    """The rows and labels of ``Σ_entries (z + 1)² + Σ_recorded c_j z``, divided by ``total``.

    ``labels`` are those in the sum, ``linear`` the c_j of all labels; a label outside the sum stays.
    """

    quadratic_in_rank = False

    def __init__(
        self,
        design: TensorDesign,
        pattern: TensorPattern,
        labels: Tensor,
        linear: Tensor,
        total: float,
        dtype: Any,
        *,
        has_intercept: bool,
    ) -> None:
        self.dtype = dtype
        self._models = tuple(
            TensorSideModel(features, design.device) for features in (design.rows, design.columns)
        )
        self._pattern, self._labels, self._total = pattern, labels, total
        self._linear, self._has_intercept = linear, has_intercept
        self._row_data = linear[pattern.by_row.indices].to(dtype)
        self._label_data = pattern.in_label_order(self._row_data)

    def start(self, factors: Factors) -> TensorWorkingFactors:
        rows, labels = (
            TensorSide.of(model, parameters, self.dtype)
            for model, parameters in zip(self._models, factors[:2], strict=True)
        )
        return TensorWorkingFactors(rows, labels, torch.clone(factors.intercept).to(self.dtype))

    def step_rows(
        self, at: TensorWorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0
    ) -> float:
        """P given (Q, b), to the minimum; returns what it gains."""
        Q = at.labels.factor[self._labels]
        b = at.intercept if self._has_intercept else torch.zeros_like(at.intercept)
        shift = b[self._labels] + 1
        slope = self._pattern.by_row.product(self._row_data, at.labels.factor.contiguous())
        slope = slope + 2 * (shift @ Q)
        gram = (Q.T @ Q).to(torch.float64)
        everywhere = slice(None)
        penalty = factor_penalty(at.labels, penalties, self._total)
        gained = self._solve(at.rows, 2 * gram, slope, penalty, everywhere, relaxation)
        at.rows.renew_prior()
        return gained

    def step_labels(
        self, at: TensorWorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0
    ) -> float:
        """(Q, b) given P, to the minimum; returns what it gains."""
        P, chosen = at.rows.factor, self._labels
        slope = self._pattern.by_label.product(self._label_data, P.contiguous())[chosen]
        total = P.sum(dim=0, dtype=torch.float64)
        gram = (P.T @ P).to(torch.float64)
        penalty = factor_penalty(at.rows, penalties, self._total)
        if not self._has_intercept:
            slope = slope + (2 * total).to(self.dtype)
            gained = self._solve(at.labels, 2 * gram, slope, penalty, chosen, relaxation)
            at.labels.renew_prior()
            return gained
        # The best intercept for a Q_j is ``(r_j − 2 s·Q_j) / h``; put in, it takes part of the Hessian away.
        held = self._total * penalties.intercept
        h = 2 * len(P) + held
        counts = self._pattern.by_label.counts.to(torch.float64)
        r = held * penalties.centre - 2 * len(P) - (self._linear.to(torch.float64) * counts)[chosen]
        slope = slope + ((2 + 2 * r[:, None] / h) * total).to(self.dtype)
        reduced = 2 * gram - torch.outer(2 * total, 2 * total) / h
        gained = self._solve(at.labels, reduced, slope, penalty, chosen, relaxation)
        moved = at.labels.factor[chosen].to(torch.float64)
        at.intercept[chosen] = ((r - 2 * (moved @ total)) / h).to(self.dtype)
        at.labels.renew_prior()
        return gained

    def _solve(
        self, side: TensorSide, gram: Tensor, slope: Tensor, penalty: Tensor, chosen: Any, relaxation: float
    ) -> float:
        """Rows ``p + (m M + gram)⁻¹ (−slope − gram p)`` with p the prior; returns what they gain."""
        prior = side.prior if len(side.prior) == 1 else side.prior[chosen]
        sizes = side.sizes if len(side.sizes) == 1 else side.sizes[chosen]
        # With M = R Rᵀ the pair is diagonal in the eigenvectors of R⁻¹ gram R⁻ᵀ.
        root = torch.linalg.cholesky(penalty)
        half = torch.linalg.solve_triangular(root, gram, upper=False)
        values, turned = torch.linalg.eigh(torch.linalg.solve_triangular(root, half.T, upper=False))
        V = torch.linalg.solve_triangular(root.T, turned, upper=True).to(self.dtype)
        inverse = (1.0 / (sizes[:, None].to(torch.float64) + torch.clamp(values, min=0.0))).to(self.dtype)
        right = slope + prior @ gram.to(self.dtype)
        before = side.factor[chosen].clone()
        moved = before - (prior - ((right @ V) * inverse) @ V.T)
        side.factor[chosen] = before - relaxation * moved
        # ½ Σ dᵀ (m M + gram) d: the way up again from a minimum.
        curved = sizes[:, None] * (moved @ penalty.to(self.dtype)) + moved @ gram.to(self.dtype)
        return 0.5 * float(torch.sum(moved * curved, dtype=torch.float64)) / self._total
