"""Exact minimisation row by row for recorded positives under the squared loss.

Every entry counts, but each as ``(z + 1)²``, and a recorded positive adds a linear term ``c_j z``. So all
rows have the same Hessian up to the size of their penalty: ``m_i M + 2 QᵀQ``. One joint diagonalisation of M
and QᵀQ solves all rows at once, and the entries come in through one sparse product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entries import csr_product
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.working_factors import (
    Side,
    SideModel,
    WorkingArray,
    WorkingFactors,
    working_factors,
)
from labelgap.objective.protocol import FactorPenalties, Factors

# An eigenvalue below so many roundings, times the number of rows, is one of 0.
_ROUNDINGS = 16


class GramRowwise:
    """The rows and labels of ``Σ_entries (z + 1)² + Σ_recorded c_j z``, divided by ``total``.

    ``labels`` are those in the sum, ``linear`` the c_j of all labels; a label outside the sum stays.
    """

    quadratic_in_rank = False

    def __init__(
        self,
        design: Design,
        pattern: EntryPattern,
        labels: NDArray[np.int64],
        linear: Floats,
        total: float,
        dtype: Any,
        *,
        has_intercept: bool,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self._models = SideModel(design.rows), SideModel(design.columns)
        self._pattern, self._labels, self._total = pattern, labels, total
        self._linear, self._has_intercept = linear, has_intercept
        self._row_data = linear[pattern.indices].astype(self.dtype)
        self._label_data = pattern.in_label_order(self._row_data)
        self._counts = np.diff(pattern.label_indptr)

    def start(self, factors: Factors) -> WorkingFactors:
        return working_factors(self._models, factors, self.dtype)

    def step_rows(self, at: WorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0) -> float:
        """P given (Q, b), to the minimum; returns what it gains."""
        Q = at.labels.factor[self._labels]
        shift = self._intercept(at)[self._labels] + 1
        pattern = self._pattern
        slope = csr_product(pattern.indptr, pattern.indices, self._row_data, at.labels.factor)
        slope += (2 * (shift @ Q)).astype(self.dtype)
        gram = (Q.T @ Q).astype(np.float64)
        gained = self._solve(
            at.rows, 2 * gram, slope, self._penalty(at.labels, penalties), slice(None), relaxation
        )
        at.rows.renew_prior()
        return gained

    def step_labels(self, at: WorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0) -> float:
        """(Q, b) given P, to the minimum; returns what it gains."""
        P, chosen = at.rows.factor, self._labels
        pattern = self._pattern
        slope = csr_product(pattern.label_indptr, pattern.label_rows, self._label_data, P)[chosen]
        total = P.sum(axis=0, dtype=np.float64)
        gram = (P.T @ P).astype(np.float64)
        if not self._has_intercept:
            slope += (2 * total).astype(self.dtype)
            gained = self._solve(
                at.labels, 2 * gram, slope, self._penalty(at.rows, penalties), chosen, relaxation
            )
            at.labels.renew_prior()
            return gained
        # The best intercept for a Q_j is ``(r_j − 2 s·Q_j) / h``; put in, it takes part of the Hessian away.
        held = self._total * penalties.intercept
        h = 2 * len(P) + held
        r = held * penalties.centre - 2 * len(P) - (self._linear * self._counts)[chosen]
        slope += ((2 + 2 * r[:, None] / h) * total).astype(self.dtype)
        reduced = 2 * gram - np.outer(2 * total, 2 * total) / h
        gained = self._solve(at.labels, reduced, slope, self._penalty(at.rows, penalties), chosen, relaxation)
        at.intercept[chosen] = ((r - 2 * (at.labels.factor[chosen] @ total)) / h).astype(self.dtype)
        at.labels.renew_prior()
        return gained

    def _penalty(self, given: Side, penalties: FactorPenalties) -> Floats:
        """M, with 1 where a row is only filled up."""
        width = given.factor.shape[1]
        penalty = self._total * penalties.trace * np.eye(width)
        if penalties.ridge:
            penalty += self._total * penalties.ridge * given.gram()
        empty = np.diag(penalty) <= 0
        penalty[empty, empty] = self._total * (penalties.trace + penalties.ridge)
        return penalty

    def _solve(
        self, side: Side, gram: Floats, slope: WorkingArray, penalty: Floats, chosen: Any, relaxation: float
    ) -> float:
        """Rows ``p + (m M + gram)⁻¹ (−slope − gram p)`` with p the prior; returns what they gain.

        A direction in which the matrix is 0 does not change the objective, and rows do not go along it. With
        ``relaxation`` they go on by that much of the way there.
        """
        prior = side.prior if len(side.prior) == 1 else side.prior[chosen]
        sizes = side.sizes if len(side.sizes) == 1 else side.sizes[chosen]
        of_penalty, of_gram, vectors = diagonalise_jointly(penalty, gram, np.finfo(self.dtype).eps)
        inverse = (1.0 / (sizes[:, None] * of_penalty + of_gram)).astype(self.dtype)
        right = slope + prior @ gram.astype(self.dtype)
        V = vectors.astype(self.dtype)
        before = side.factor[chosen].copy()
        moved = before - (prior - ((right @ V) * inverse) @ V.T)
        side.factor[chosen] = before - self.dtype.type(relaxation) * moved
        # ½ Σ dᵀ (m M + gram) d: the way up again from a minimum.
        curved = sizes[:, None] * (moved @ penalty.astype(self.dtype)) + moved @ gram.astype(self.dtype)
        return 0.5 * float(np.einsum("ij,ij->", moved, curved, dtype=np.float64)) / self._total

    def _intercept(self, at: WorkingFactors) -> Floats:
        b = at.intercept.astype(np.float64)
        return b if self._has_intercept else np.zeros_like(b)


def diagonalise_jointly(penalty: Floats, gram: Floats, precision: float) -> tuple[Floats, Floats, Floats]:
    """V with ``Vᵀ penalty V`` and ``Vᵀ gram V`` diagonal, and both diagonals, which are not negative.

    The penalty may be singular up to ``precision``, the rounding of entries relative to the largest, as it is
    without a trace norm for a rank above the number of rows. Then the columns of V span the directions in
    which the sum of the two matrices is not 0. So ``V diag(1 / (m p + g)) Vᵀ`` always solves a system of
    ``m penalty + gram``, in the sense of least squares where it is singular.

    Examples
    --------
    >>> p, g, V = diagonalise_jointly(np.diag([1.0, 0.0, 0.0]), np.diag([3.0, 2.0, 0.0]), 1e-16)
    >>> ((V / (2 * p + g)) @ V.T).round(3).tolist()
    [[0.2, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    of_penalty = scipy.linalg.eigvalsh(penalty)
    negligible = _ROUNDINGS * len(of_penalty) * precision
    if of_penalty[0] > negligible * of_penalty[-1]:
        values, vectors = scipy.linalg.eigh(gram, penalty)
        return np.ones_like(values), np.maximum(values, 0.0), vectors
    sizes, basis = scipy.linalg.eigh(penalty + gram)
    kept = sizes > negligible * sizes[-1]
    # In this basis the sum is the identity, so that the two diagonals add up to 1.
    scaled = basis[:, kept] / np.sqrt(sizes[kept])
    values, rotation = scipy.linalg.eigh(scaled.T @ gram @ scaled)
    values = np.clip(values, 0.0, 1.0)
    return 1.0 - values, values, scaled @ rotation
