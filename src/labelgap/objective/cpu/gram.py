"""``1/N Σ (z_ij + 1)²`` over all n·L entries, without looking at one of them.

With ``P' = [P, 1]`` and ``Q' = [Q, b + 1]`` the sum is ``‖P'Q'ᵀ‖² = ⟨P'ᵀP', Q'ᵀQ'⟩``: two small matrices.
Every derivative is a product of the same kind, so all costs are O((n + L) k²).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.objective.cpu.design import Design, DesignGradient, DesignPoint, NumpyTerm
from labelgap.objective.protocol import Factors, Point, ScoreGradient, extrapolated


class GramTerm(NumpyTerm):
    """The squared loss against "no" of all rows and the given labels."""

    def __init__(
        self, design: Design, labels: NDArray[np.int64], total: float, *, has_intercept: bool
    ) -> None:
        self.design, self.labels, self.total = design, labels, total
        self.has_intercept = has_intercept
        self.shape, self.n_labels, self.n_stored = design.shape, design.n_labels, design.n_stored
        self.in_term = np.zeros(design.n_labels, dtype=np.bool_)
        self.in_term[labels] = True

    def starting_intercept(self) -> Floats:
        return np.zeros(self.n_labels)

    def at(self, factors: Factors, product: Floats | None = None) -> GramPoint:
        design = self.design
        return GramPoint(self, factors, design.left(factors.left), design.right(factors.right))

    def beside(self, other: DesignPoint) -> GramPoint:
        """At the place of another term's point, by its products."""
        return GramPoint(self, other.factors, *other.products)


class GramPoint(DesignPoint):
    """A :class:`GramTerm` at one ``(A, B, b)``."""

    def __init__(self, term: GramTerm, factors: Factors, P: Floats, Q: Floats) -> None:
        super().__init__(term.design, factors, P, Q)
        self.term = term
        n = len(P)
        b = factors.intercept if term.has_intercept else np.zeros(term.n_labels)
        inside = term.in_term[:, None]
        # Labels outside the term have rows of 0 in Q', so they add nothing anywhere.
        self.Q1 = np.hstack([Q, (b + 1)[:, None]]) * inside
        self._Qs = Q * inside
        self.P_sum = P.sum(axis=0)
        self._PP = P.T @ P
        self.P1P = np.vstack([self._PP, self.P_sum])
        self.P1P1 = np.column_stack([self.P1P, np.append(self.P_sum, n)])
        self._n = n
        self._unit = 2.0 / term.total
        self.value = float(np.sum(self.P1P1 * (self.Q1.T @ self.Q1))) / term.total
        self.size = abs(self.value)

    def _intercept_part(self, by_label: Floats) -> Floats:
        return by_label if self.term.has_intercept else np.zeros(self.term.n_labels)

    def _by_row(self, of_labels: Floats) -> Floats:
        """``P'Q'ᵀ M``, from ``Q'ᵀ M``: P' itself would be one more array of the size of a factor."""
        return np.asarray(self._P @ of_labels[:-1] + of_labels[-1])

    def label_sums(self) -> Floats:
        """The sum of G in each label."""
        return np.asarray(self._unit * (self.Q1 @ self.P1P1[-1]))

    def _curvature_sums(self) -> Floats:
        """The sum of the second derivatives in each label."""
        return np.where(self.term.in_term, self._unit * self._n, 0.0)

    def _gradient(self) -> tuple[Floats, Floats, Floats]:
        by_row = self._unit * self._by_row(self.Q1.T @ self._Qs)
        by_label = self._unit * (self.Q1 @ self.P1P)
        return by_row, by_label, self._intercept_part(self.label_sums())

    def _hessian_product(self, dP: Floats, dQ: Floats, db: Floats) -> tuple[Floats, Floats, Floats]:
        inside = self.term.in_term[:, None]
        dQ = dQ * inside
        db = db[:, None] * inside if self.term.has_intercept else np.zeros((self.term.n_labels, 1))
        # dZ = dP Qᵀ + P dQᵀ + 1 dbᵀ, and G = unit · P'Q'ᵀ.
        by_row = (
            dP @ (self._Qs.T @ self._Qs)
            + self._P @ (dQ.T @ self._Qs)
            + (db.T @ self._Qs)
            + self._by_row(self.Q1.T @ dQ)
        )
        dP_P, dP_sum = dP.T @ self._P, dP.sum(axis=0)
        P1_dP = np.vstack([dP_P.T, dP_sum])
        by_label = self._Qs @ dP_P + dQ @ self._PP + db * self.P_sum + self.Q1 @ P1_dP
        sums = self._Qs @ dP_sum + dQ @ self.P_sum + self._n * db[:, 0]
        return self._unit * by_row, self._unit * by_label, self._intercept_part(self._unit * sums)

    def _hessian_diagonal(self) -> tuple[Floats, Floats, Floats]:
        inside = self.term.in_term
        by_row = np.tile(self._unit * np.sum(self._Qs * self._Qs, axis=0), (self._n, 1))
        by_label = np.outer(inside, self._unit * np.diag(self._PP))
        return by_row, by_label, self._intercept_part(self._curvature_sums())

    def _curvature_along(self, XU: Floats, FV: Floats) -> Floats:
        inside = self.term.in_term[:, None]
        return np.asarray(self._unit * np.sum(XU * XU, axis=0) * np.sum(FV * FV * inside, axis=0))

    def label_curvature(self) -> Floats:
        return self._intercept_part(self._curvature_sums())

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        """Two parts with the right sum and a difference of at least ``Σ|g|``, which adds up over rows.

        For ``g = u (z + 1)``, with u the unit of the slopes, ``|g| ≤ u ((z + 1)² + 1)/2``.
        """
        squares = np.einsum("jc,jc->j", self.Q1 @ self.P1P1, self.Q1)
        gross = 0.5 * self._unit * np.where(self.term.in_term, squares + self._n, 0.0)
        sums = self.label_sums()
        return self._intercept_part(0.5 * (gross + sums)), self._intercept_part(0.5 * (sums - gross))

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        return self.low_rank(self._unit * self.Q1)

    def low_rank(self, right: Floats) -> LowRankGradient:
        """``P' rightᵀ`` in place of G."""
        return LowRankGradient(self.term.design, self._P, right, self.term.total)

    def with_intercept(self, intercept: Floats) -> Point:
        return GramPoint(self.term, self.factors._replace(intercept=intercept), self._P, self._Q)

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, GramPoint)
        factors = extrapolated(self.term.xp, self.factors, previous.factors, step)
        P = np.hstack([self._P, previous._P])
        return GramPoint(self.term, factors, P, np.hstack([(1 + step) * self._Q, -step * previous._Q]))

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, GramPoint)
        towards = np.vstack([self._P.T @ other._P, other.P_sum])
        there = np.sum(towards * (self.Q1.T @ other._Qs))
        here = np.sum(self.P1P * (self.Q1.T @ self._Qs))
        return float(self._unit * (there - here))


class LowRankGradient(DesignGradient):
    """``G = P' rightᵀ`` with ``P' = [P, 1]`` (n x k, L x (k + 1)), as the linear map ``Xᵀ G F``."""

    def __init__(self, design: Design, P: Floats, right: Floats, total: float) -> None:
        super().__init__(design)
        self._P, self._total = P, total
        self._right, self._in_all_rows = np.ascontiguousarray(right[:, :-1]), right[:, -1].copy()

    def sampled_in_blocks(self, pattern: EntryPattern) -> Iterator[tuple[slice, Floats]]:
        """The entries of G on a pattern, for some rows at a time, and which entries theirs are."""
        for some, low_rank in pattern.sampled_in_blocks(self._P, self._right):
            yield some, low_rank + self._in_all_rows[pattern.indices[some]]

    def sampled(self, pattern: EntryPattern) -> Floats:
        """The entries of G on a pattern."""
        return pattern.sampled(self._P, self._right) + self._in_all_rows[pattern.indices]

    # Products are in the precision of M: others follow from them, each as large as a factor.

    def _times(self, M: Floats) -> Floats:
        P, right, in_all_rows = self._in_precision_of(M)
        return np.asarray(P @ (right.T @ M) + in_all_rows @ M)

    def _transposed_times(self, M: Floats) -> Floats:
        P, right, in_all_rows = self._in_precision_of(M)
        return np.asarray(right @ (P.T @ M) + np.outer(in_all_rows, M.sum(axis=0)))

    def _in_precision_of(self, M: Floats) -> tuple[Floats, Floats, Floats]:
        P, right, in_all_rows = (
            part.astype(M.dtype, copy=False) for part in (self._P, self._right, self._in_all_rows)
        )
        return P, right, in_all_rows

    def _by_features(self) -> Floats:
        rows = self._design.rows
        ones = rows.transposed_product(np.ones((len(self._P), 1)))
        product = rows.transposed_product(np.ascontiguousarray(self._P)) @ self._right.T
        return np.asarray(product + ones * self._in_all_rows)

    def label_capacity(self, scale: float) -> Floats | None:
        return None

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        """``1/N Σ a²/4 − a`` with a = N · scale · G."""
        P, right, in_all_rows, n = self._P, self._right, self._in_all_rows, len(self._P)
        by_row = P.sum(axis=0)
        square = np.sum((P.T @ P) * (right.T @ right)) + 2 * by_row @ (right.T @ in_all_rows)
        square += n * (in_all_rows @ in_all_rows)
        total = by_row @ right.sum(axis=0) + n * in_all_rows.sum()
        return float(0.25 * self._total * scale**2 * square - scale * total)
