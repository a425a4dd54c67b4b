"""The factors as steps row by row work on them: both sides in the working precision, with their priors.

A side may have features beside the identity, ``P = S A + X U``. For a given P the penalty of (A, U) is least
at ``U = (I + XᵀS⁻²X)⁻¹ XᵀS⁻²P``, whatever the loss, so U follows from P, and XU is what a row is drawn to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entries import padded_width
from labelgap.objective.cpu.features import Features, ScaledIdentityFeatures, StackedFeatures
from labelgap.objective.protocol import Factors

WorkingArray = NDArray[Any]
"""Numbers in the working precision."""

# Directions below this fraction of the largest are dead.
_DEAD = 1e-6


class SideModel:
    """One side's factor ``P = S A + X U``: a diagonal S (usually the identity), and features X or none."""

    def __init__(self, features: Features) -> None:
        own = features.first if isinstance(features, StackedFeatures) else features
        self.scales = own.scales if isinstance(own, ScaledIdentityFeatures) else None
        self.sizes = np.ones(1) if self.scales is None else self.scales**-2.0
        """What the penalty of each row is multiplied with: that of A, for a row of P."""
        self.others = features.others if isinstance(features, StackedFeatures) else None
        self.n_rows = features.n_rows
        if self.others is not None:
            X = np.ascontiguousarray(self.others.product(np.eye(self.others.n_features)))
            gram = self.others.transposed_product(X * self.sizes[:, None])
            self._gram = scipy.linalg.cho_factor(gram + np.eye(len(gram)))

    def prior(self, P: WorkingArray) -> tuple[WorkingArray, WorkingArray]:
        """XU and U, for the U at which P is cheapest: ``(I + XᵀS⁻²X)⁻¹ XᵀS⁻²P``."""
        assert self.others is not None
        weighted = np.ascontiguousarray(P * self.sizes[:, None], dtype=np.float64)
        U = np.ascontiguousarray(scipy.linalg.cho_solve(self._gram, self.others.transposed_product(weighted)))
        return self.others.product(U).astype(P.dtype), U.astype(P.dtype)


@dataclass
class Side:
    """One side's factor P in the working precision, rows filled up with zeros to whole vectors."""

    model: SideModel
    factor: WorkingArray
    prior: WorkingArray
    """What the rows are drawn to; one row where that is 0 for all."""
    shared: WorkingArray
    sizes: WorkingArray

    @classmethod
    def of(cls, model: SideModel, parameters: Floats, width: int, dtype: Any) -> Side:
        wide = np.zeros((len(parameters), width), dtype)
        wide[:, : parameters.shape[1]] = parameters
        own, shared = wide[: model.n_rows], wide[model.n_rows :]
        if model.scales is not None:
            own = own * model.scales[:, None].astype(dtype)
        sizes = model.sizes.astype(dtype)
        if model.others is None:
            return cls(model, own, np.zeros((1, width), dtype), shared, sizes)
        prior = model.others.product(shared.astype(np.float64)).astype(dtype)
        return cls(model, own + prior, prior, shared, sizes)

    def renew_prior(self) -> None:
        """The prior that goes with the factor as it is now; the penalty can only fall."""
        if self.model.others is not None:
            self.prior, self.shared = self.model.prior(self.factor)

    def own(self) -> WorkingArray:
        """A: what each row adds to its prior, in the row's units."""
        own = self.factor if self.model.others is None else self.factor - self.prior
        return own if self.model.scales is None else own * np.sqrt(self.sizes)[:, None]

    def gram(self) -> Floats:
        """``AᵀA`` over own and shared rows."""
        own = self.own()
        return np.asarray(own.T @ own + self.shared.T @ self.shared, dtype=np.float64)

    def rotate(self, T: Floats) -> None:
        """All rows times T."""
        rotation = T.astype(self.factor.dtype)
        self.factor, self.prior, self.shared = (M @ rotation for M in (self.factor, self.prior, self.shared))

    def parameters(self, rank: int) -> Floats:
        """Own and shared rows, in double precision."""
        return np.vstack([self.own(), self.shared])[:, :rank].astype(np.float64)


@dataclass
class WorkingFactors:
    """``P Qᵀ + 1bᵀ`` in the working precision."""

    rows: Side
    labels: Side
    intercept: WorkingArray
    rank: int

    def balance(self) -> None:
        """The same scores with ``AᵀA = BᵀB`` diagonal: ``½(‖A‖² + ‖B‖²)`` is then as small as it can be."""
        half_A, back_A = _roots(self.rows.gram())
        half_B, back_B = _roots(self.labels.gram())
        U, values, Vt = np.linalg.svd(half_A @ half_B.T)
        alive = np.sqrt(np.where(values > _DEAD * values[0], values, 0.0))
        self.rows.rotate(back_A @ (U * alive))
        self.labels.rotate(back_B @ (Vt.T * alive))

    def factors(self) -> Factors:
        return Factors(
            self.rows.parameters(self.rank),
            self.labels.parameters(self.rank),
            self.intercept.astype(np.float64),
        )


def working_factors(
    models: tuple[SideModel, SideModel], factors: Factors, dtype: np.dtype[Any]
) -> WorkingFactors:
    """The factors as the steps work on them."""
    width = padded_width(factors.rank, dtype)
    rows, labels = (
        Side.of(model, parameters, width, dtype)
        for model, parameters in zip(models, factors[:2], strict=True)
    )
    return WorkingFactors(rows, labels, factors.intercept.astype(dtype), factors.rank)


def _roots(gram: Floats) -> tuple[Floats, Floats]:
    """R with ``RᵀR`` the Gram matrix, and a right inverse of it on what is not rounding."""
    values, vectors = np.linalg.eigh(gram)
    roots = np.sqrt(np.maximum(values, 0.0))
    inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > _DEAD * roots[-1])
    return roots[:, None] * vectors.T, vectors * inverse
