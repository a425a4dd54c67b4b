"""The factors as steps row by row work on them on a device, as on the CPU (``cpu/working_factors.py``).

A side may have features beside the identity, ``P = S A + X U``. For a given P the penalty of (A, U) is least
at ``U = (I + XᵀS⁻²X)⁻¹ XᵀS⁻²P``, so U follows from P, and XU is what a row is drawn to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from labelgap.kernels.gpu.losses import Tensor
from labelgap.objective.protocol import FactorPenalties, Factors
from labelgap.objective.torch.features import TensorFeatures, TensorIdentity, TensorStacked

# Features beside the identity, at most, whose regression on the factors is next to nothing.
_MOST_FEATURES = 1024
# Directions below this fraction of the largest are dead.
_DEAD = 1e-6


class TensorSideModel:
    """One side's factor ``P = S A + X U``: a diagonal S (usually the identity), and features X or none."""

    def __init__(self, features: TensorFeatures, device: Any) -> None:
        own = features.first if isinstance(features, TensorStacked) else features
        assert isinstance(own, TensorIdentity)
        self.scales, self.n_rows = own.scales, features.n_rows
        one = torch.ones(1, dtype=torch.float64, device=device)
        self.sizes = one if self.scales is None else self.scales.to(torch.float64) ** -2.0
        """What the penalty of each row is multiplied with."""
        self.others = features.others if isinstance(features, TensorStacked) else None
        if self.others is not None:
            unit = torch.eye(self.others.n_features, dtype=torch.float64, device=device)
            X = self.others.product(unit)
            gram = self.others.transposed_product((X * self.sizes[:, None]).contiguous())
            self._root = torch.linalg.cholesky(gram + unit)

    @staticmethod
    def fits(features: TensorFeatures) -> bool:
        """Whether every row has parameters of its own, and few are shared."""
        own = features
        if isinstance(features, TensorStacked):
            own = features.first
            if features.others.n_features > _MOST_FEATURES:
                return False
        return isinstance(own, TensorIdentity)

    def prior(self, P: Tensor) -> tuple[Tensor, Tensor]:
        """XU and U, for the U at which P is cheapest."""
        assert self.others is not None
        weighted = (P.to(torch.float64) * self.sizes[:, None]).contiguous()
        U = torch.cholesky_solve(self.others.transposed_product(weighted), self._root).contiguous()
        return self.others.product(U).to(P.dtype), U.to(P.dtype)


@dataclass
class TensorSide:
    """One side's factor P in the working precision."""

    model: TensorSideModel
    factor: Tensor
    prior: Tensor
    """What the rows are drawn to; one row where that is 0 for all."""
    shared: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, model: TensorSideModel, parameters: Tensor, dtype: Any) -> TensorSide:
        given = parameters.to(dtype)
        own, shared = given[: model.n_rows].clone(), given[model.n_rows :].clone()
        if model.scales is not None:
            own = own * model.scales[:, None].to(dtype)
        sizes = model.sizes.to(dtype)
        if model.others is None:
            return cls(model, own, torch.zeros_like(own[:1]), shared, sizes)
        prior = model.others.product(shared.to(torch.float64).contiguous()).to(dtype)
        return cls(model, own + prior, prior, shared, sizes)

    def renew_prior(self) -> None:
        """The prior that goes with the factor as it is now; the penalty can only fall."""
        if self.model.others is not None:
            self.prior, self.shared = self.model.prior(self.factor)

    def own(self) -> Tensor:
        """A: what each row adds to its prior, in the row's units."""
        own = self.factor if self.model.others is None else self.factor - self.prior
        return own if self.model.scales is None else own * torch.sqrt(self.sizes)[:, None]

    def gram(self) -> Tensor:
        """``AᵀA`` over own and shared rows, in double precision."""
        own = self.own()
        return (own.T @ own + self.shared.T @ self.shared).to(torch.float64)

    def rotate(self, T: Tensor) -> None:
        """All rows times T."""
        rotation = T.to(self.factor.dtype)
        self.factor, self.prior, self.shared = (M @ rotation for M in (self.factor, self.prior, self.shared))

    def parameters(self) -> Tensor:
        """Own and shared rows, in double precision."""
        return torch.cat([self.own(), self.shared]).to(torch.float64)


@dataclass
class TensorWorkingFactors:
    """``P Qᵀ + 1bᵀ`` in the working precision."""

    rows: TensorSide
    labels: TensorSide
    intercept: Tensor

    def balance(self) -> None:
        """The same scores with ``AᵀA = BᵀB`` diagonal: ``½(‖A‖² + ‖B‖²)`` is then as small as it can be."""
        if self.rows.factor.shape[1] == 0:
            return
        half_A, back_A = _roots(self.rows.gram())
        half_B, back_B = _roots(self.labels.gram())
        U, values, Vt = torch.linalg.svd(half_A @ half_B.T)
        alive = torch.sqrt(torch.where(values > _DEAD * values[0], values, 0.0))
        self.rows.rotate(back_A @ (U * alive))
        self.labels.rotate(back_B @ (Vt.T * alive))

    def factors(self) -> Factors:
        return Factors(self.rows.parameters(), self.labels.parameters(), self.intercept.to(torch.float64))


def factor_penalty(given: TensorSide, penalties: FactorPenalties, total: float) -> Tensor:
    """The penalty of the other side's rows times ``total``, not 0 where a column is only filled up."""
    eye = torch.eye(given.factor.shape[1], dtype=torch.float64, device=given.factor.device)
    penalty = total * penalties.trace * eye
    if penalties.ridge:
        penalty = penalty + total * penalties.ridge * given.gram()
    empty = (torch.diagonal(penalty) <= 0).to(torch.float64)
    return penalty + torch.diag(empty) * (total * (penalties.trace + penalties.ridge))


def _roots(gram: Tensor) -> tuple[Tensor, Tensor]:
    """R with ``RᵀR`` the Gram matrix, and a right inverse of it on what is not rounding."""
    values, vectors = torch.linalg.eigh(gram)
    roots = torch.sqrt(torch.clamp(values, min=0.0))
    inverse = torch.where(roots > _DEAD * roots[-1], 1.0 / torch.clamp(roots, min=1e-300), 0.0)
    return roots[:, None] * vectors.T, vectors * inverse
