"""``1/N Σ (z_ij + 1)²`` over all n·L entries on a device; see :mod:`labelgap.objective.cpu.gram`.

With ``P' = [P, 1]`` and ``Q' = [Q, b + 1]`` the sum is ``⟨P'ᵀP', Q'ᵀQ'⟩``: two small matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.objective.cpu.design import DesignPoint
from labelgap.objective.protocol import Factors, Point, ScoreGradient, extrapolated
from labelgap.objective.torch.design import TensorDesign, TensorGradient, TensorTerm


class TensorGramTerm(TensorTerm):
    """The squared loss against "no" of all rows and the given labels."""

    def __init__(
        self, design: TensorDesign, labels: NDArray[np.int64], total: float, *, has_intercept: bool
    ) -> None:
        self.design, self.total, self.has_intercept = design, total, has_intercept
        self.labels = torch.as_tensor(labels, device=design.device)
        self.n_stored = design.n_stored
        self.inside = design.zeros(design.n_labels)
        self.inside[self.labels] = 1.0

    def at(self, factors: Factors, product: Tensor | None = None) -> TensorGramPoint:
        design = self.design
        return TensorGramPoint(self, factors, design.left(factors.left), design.right(factors.right))

    def beside(self, other: DesignPoint) -> TensorGramPoint:
        """At the place of another term's point, by its products."""
        return TensorGramPoint(self, other.factors, *other.products)


class TensorGramPoint(DesignPoint):
    """A :class:`TensorGramTerm` at one ``(A, B, b)``."""

    _design: Any

    def __init__(self, term: TensorGramTerm, factors: Factors, P: Tensor, Q: Tensor) -> None:
        super().__init__(term.design, factors, P, Q)  # type: ignore[arg-type]
        self.term, self._n = term, len(P)
        b = factors.intercept if term.has_intercept else term.design.zeros(term.n_labels)
        inside = term.inside[:, None]
        # Labels outside the term have rows of 0 in Q', so they add nothing anywhere.
        self.Q1 = torch.cat([Q, (b + 1)[:, None]], dim=1) * inside
        self._Qs = Q * inside
        self.P_sum, self._PP = P.sum(dim=0), P.T @ P
        self.P1P = torch.cat([self._PP, self.P_sum[None]])
        ones = torch.cat([self.P_sum, self.P_sum.new_full((1,), self._n)])
        self.P1P1 = torch.cat([self.P1P, ones[:, None]], dim=1)
        self._unit = 2.0 / term.total
        self.value = float(torch.sum(self.P1P1 * (self.Q1.T @ self.Q1))) / term.total
        self.size = abs(self.value)

    def _intercept_part(self, by_label: Tensor) -> Tensor:
        return by_label if self.term.has_intercept else self._design.zeros(self.term.n_labels)

    def _by_row(self, of_labels: Tensor) -> Tensor:
        """``P'Q'ᵀ M``, from ``Q'ᵀ M``."""
        product: Tensor = self._P @ of_labels[:-1] + of_labels[-1]
        return product

    def label_sums(self) -> Tensor:
        """The sum of G in each label."""
        return self._unit * (self.Q1 @ self.P1P1[-1])

    def _curvature_sums(self) -> Tensor:
        return self.term.inside * (self._unit * self._n)

    def _gradient(self) -> tuple[Tensor, Tensor, Tensor]:
        by_row = self._unit * self._by_row(self.Q1.T @ self._Qs)
        by_label = self._unit * (self.Q1 @ self.P1P)
        return by_row, by_label, self._intercept_part(self.label_sums())

    def _hessian_product(self, dP: Tensor, dQ: Tensor, db: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inside = self.term.inside[:, None]
        dQ = dQ * inside
        db = db[:, None] * inside if self.term.has_intercept else self._design.zeros(self.term.n_labels, 1)
        # dZ = dP Qᵀ + P dQᵀ + 1 dbᵀ, and G = unit · P'Q'ᵀ.
        by_row = (
            dP @ (self._Qs.T @ self._Qs)
            + self._P @ (dQ.T @ self._Qs)
            + (db.T @ self._Qs)
            + self._by_row(self.Q1.T @ dQ)
        )
        dP_P, dP_sum = dP.T @ self._P, dP.sum(dim=0)
        P1_dP = torch.cat([dP_P.T, dP_sum[None]])
        by_label = self._Qs @ dP_P + dQ @ self._PP + db * self.P_sum + self.Q1 @ P1_dP
        sums = self._Qs @ dP_sum + dQ @ self.P_sum + self._n * db[:, 0]
        return self._unit * by_row, self._unit * by_label, self._intercept_part(self._unit * sums)

    def _hessian_diagonal(self) -> tuple[Tensor, Tensor, Tensor]:
        by_row = (self._unit * torch.sum(self._Qs * self._Qs, dim=0)).expand(self._n, -1)
        by_label = torch.outer(self.term.inside, self._unit * torch.diagonal(self._PP))
        return by_row, by_label, self._intercept_part(self._curvature_sums())

    def _curvature_along(self, XU: Tensor, FV: Tensor) -> Tensor:
        inside = self.term.inside[:, None]
        return self._unit * torch.sum(XU * XU, dim=0) * torch.sum(FV * FV * inside, dim=0)

    def label_curvature(self) -> Tensor:
        return self._intercept_part(self._curvature_sums())

    def signed_label_sums(self) -> tuple[Tensor, Tensor]:
        """Two parts with the right sum and a difference of at least ``Σ|g|``, which adds up over rows."""
        squares = torch.sum((self.Q1 @ self.P1P1) * self.Q1, dim=1)
        gross = 0.5 * self._unit * (squares + self._n) * self.term.inside
        sums = self.label_sums()
        return self._intercept_part(0.5 * (gross + sums)), self._intercept_part(0.5 * (sums - gross))

    def score_gradient(
        self, sums: tuple[Tensor, Tensor] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        return self.low_rank(self._unit * self.Q1)

    def low_rank(self, right: Tensor) -> TensorLowRankGradient:
        """``P' rightᵀ`` in place of G."""
        return TensorLowRankGradient(self.term.design, self._P, right, self.term.total)

    def with_intercept(self, intercept: Tensor) -> Point:
        return TensorGramPoint(self.term, self.factors._replace(intercept=intercept), self._P, self._Q)

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, TensorGramPoint)
        factors = extrapolated(self.term.xp, self.factors, previous.factors, step)
        P = torch.cat([self._P, previous._P], dim=1)
        Q = torch.cat([(1 + step) * self._Q, -step * previous._Q], dim=1)
        return TensorGramPoint(self.term, factors, P, Q)

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, TensorGramPoint)
        towards = torch.cat([self._P.T @ other._P, other.P_sum[None]])
        there = torch.sum(towards * (self.Q1.T @ other._Qs))
        here = torch.sum(self.P1P * (self.Q1.T @ self._Qs))
        return float(self._unit * (there - here))


class TensorLowRankGradient(TensorGradient):
    """``G = P' rightᵀ`` with ``P' = [P, 1]`` (n x k, L x (k + 1)), as the linear map ``Xᵀ G F``."""

    def __init__(self, design: TensorDesign, P: Tensor, right: Tensor, total: float) -> None:
        super().__init__(design)
        self._P, self._total = P, total
        self._right, self._in_all_rows = right[:, :-1].contiguous(), right[:, -1].clone()

    def sampled_in_blocks(self, pattern: TensorPattern) -> Iterator[tuple[slice, Tensor]]:
        """The entries of G on a pattern and which they are: all at once."""
        yield slice(0, len(pattern)), self.sampled(pattern)

    def sampled(self, pattern: TensorPattern) -> Tensor:
        """The entries of G on a pattern."""
        return pattern.sampled(self._P, self._right) + self._in_all_rows[pattern.indices]

    def _times(self, M: Tensor) -> Tensor:
        return self._P @ (self._right.T @ M) + self._in_all_rows @ M

    def _transposed_times(self, M: Tensor) -> Tensor:
        return self._right @ (self._P.T @ M) + torch.outer(self._in_all_rows, M.sum(dim=0))

    def _by_features(self) -> Tensor:
        rows, P = self._design.rows, self._P
        ones = rows.transposed_product(P.new_ones((len(P), 1)))
        return rows.transposed_product(P.contiguous()) @ self._right.T + ones * self._in_all_rows

    def label_capacity(self, scale: float) -> Tensor | None:
        return None

    def conjugate(self, scale: float, capacity: Tensor | None = None) -> float:
        """``1/N Σ a²/4 − a`` with a = N · scale · G."""
        P, right, in_all_rows, n = self._P, self._right, self._in_all_rows, len(self._P)
        by_row = P.sum(dim=0)
        square = torch.sum((P.T @ P) * (right.T @ right)) + 2 * by_row @ (right.T @ in_all_rows)
        square += n * (in_all_rows @ in_all_rows)
        total = by_row @ right.sum(dim=0) + n * in_all_rows.sum()
        return float(0.25 * self._total * scale**2 * square - scale * total)
