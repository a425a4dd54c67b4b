"""A data term over all n·L entries on a device, observed or not: ``1/N Σ_ij φ(z_ij)``.

Values, label sums and everything that the certificate needs are in double precision. Gradients and Hessian
products, which only lead the steps, may be in a lower one (:attr:`TensorAllEntries.precision`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelgap.kernels.gpu.every import EveryEntry
from labelgap.kernels.gpu.losses import Tensor, TorchLoss
from labelgap.objective.cpu.design import DesignPoint
from labelgap.objective.protocol import Factors, Point, ScoreGradient, extrapolated
from labelgap.objective.torch.design import TensorDesign, TensorGradient, TensorTerm


class TensorAllEntries(TensorTerm):
    """``1/N Σ φ(z_ij)`` over all rows and the given labels, with ``φ(z) = ℓ(z, 0)``."""

    def __init__(
        self,
        design: TensorDesign,
        loss: TorchLoss,
        labels: NDArray[np.int64],
        total: float,
        *,
        has_intercept: bool,
        precision: str = "float64",
    ) -> None:
        self.design, self.loss, self.total = design, loss, total
        self.labels = torch.as_tensor(labels, device=design.device)
        self.all_labels = len(labels) == design.n_labels
        self.has_intercept, self.n_stored, self.precision = has_intercept, design.n_stored, precision

    def at(self, factors: Factors, product: Tensor | None = None) -> TensorAllEntriesPoint:
        design = self.design
        return TensorAllEntriesPoint(self, factors, design.left(factors.left), design.right(factors.right))

    def spread(self, by_label: Tensor) -> Tensor:
        """Rows for the labels in the term as rows for all labels (0 for the others)."""
        if self.all_labels:
            return by_label
        full = self.design.zeros(self.n_labels, *by_label.shape[1:])
        full[self.labels] = by_label
        return full


class TensorAllEntriesPoint(DesignPoint):
    """A :class:`TensorAllEntries` at one ``(A, B, b)``."""

    _design: Any

    def __init__(self, term: TensorAllEntries, factors: Factors, P: Tensor, Q: Tensor) -> None:
        super().__init__(term.design, factors, P, Q)  # type: ignore[arg-type]
        self.term = term
        # Only the labels in the term are scored.
        self._Qs = Q if term.all_labels else Q[term.labels].contiguous()
        b = factors.intercept if term.has_intercept else term.design.zeros(term.n_labels)
        self._b = b[term.labels]
        self.exact = EveryEntry(term.loss, P, self._Qs, self._b)
        value, sums = self.exact.value_and_sums()
        self.value = value / term.total
        self._slopes, self._curvatures = (term.spread(part) / term.total for part in sums)
        self.size = abs(self.value)

    def slopes(self, rows: slice) -> Tensor:
        """φ' at the entries of a block of rows, not divided by N."""
        return self.exact.slopes(rows)

    def sum_rows(self, work: Callable[[slice], tuple[Tensor, ...]]) -> list[Tensor]:
        """The results for all blocks of rows, added up in their order."""
        return self.exact.total(work)

    @cached_property
    def _rough(self) -> EveryEntry:
        """The entries in the precision of the steps."""
        if self.term.precision == "float64":
            return self.exact
        return EveryEntry(self.term.loss, self._P, self._Qs, self._b, self.term.precision)

    def _intercept_part(self, by_label: Tensor) -> Tensor:
        return by_label if self.term.has_intercept else self._design.zeros(self.term.n_labels)

    def _over_total(self, by_row: Tensor, *by_label: Tensor) -> list[Tensor]:
        spread = [self.term.spread(part.to(torch.float64)) for part in by_label]
        return [part / self.term.total for part in (by_row.to(torch.float64), *spread)]

    def _gradient(self) -> tuple[Tensor, Tensor, Tensor]:
        by_row, by_label = self._over_total(*self._rough.products())
        return by_row, by_label, self._intercept_part(self._slopes)

    def _hessian_product(self, dP: Tensor, dQ: Tensor, db: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        entries, term = self._rough, self.term
        dQs = dQ[term.labels]
        dbs = (db if term.has_intercept else torch.zeros_like(db))[term.labels].to(entries.kind)
        times = entries.times

        def work(rows: slice) -> tuple[Tensor, Tensor, Tensor]:
            P = entries.P[rows]
            _, slope, curvature = entries.derivatives(rows)
            curved = curvature * (times(dP[rows], entries.Q.T) + times(P, dQs.T) + dbs)
            by_row = times(curved, entries.Q) + times(slope, dQs)
            by_label = times(curved.T, P) + times(slope.T, dP[rows])
            return by_row, by_label, torch.sum(curved, dim=0, dtype=torch.float64)

        by_row, by_label, sums = self._over_total(*entries.assembled(work))
        return by_row, by_label, self._intercept_part(sums)

    def _hessian_diagonal(self) -> tuple[Tensor, Tensor, Tensor]:
        entries = self._rough
        squares, P_squares = (torch.square(part).to(entries.kind) for part in (self._Qs, self._P))

        def work(rows: slice) -> tuple[Tensor, Tensor]:
            curvature = entries.derivatives(rows)[2]
            return entries.times(curvature, squares), entries.times(curvature.T, P_squares[rows])

        by_row, by_label = self._over_total(*entries.assembled(work))
        return by_row, by_label, self._intercept_part(self._curvatures)

    def _curvature_along(self, XU: Tensor, FV: Tensor) -> Tensor:
        squares = torch.square(FV[self.term.labels])

        def work(rows: slice) -> tuple[Tensor]:
            curvature = self.exact.derivatives(rows)[2]
            return (torch.sum(torch.square(XU[rows]) * (curvature @ squares), dim=0),)

        return self.exact.total(work)[0] / self.term.total

    def label_curvature(self) -> Tensor:
        return self._intercept_part(self._curvatures)

    def signed_label_sums(self) -> tuple[Tensor, Tensor]:
        sums = self._intercept_part(self._slopes)
        return torch.clamp(sums, min=0), torch.clamp(sums, max=0)

    def score_gradient(
        self, sums: tuple[Tensor, Tensor] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        return TensorAllEntriesGradient(self)

    def with_intercept(self, intercept: Tensor) -> Point:
        factors = self.factors._replace(intercept=intercept)
        return TensorAllEntriesPoint(self.term, factors, self._P, self._Q)

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, TensorAllEntriesPoint)
        factors = extrapolated(self.term.xp, self.factors, previous.factors, step)
        P = torch.cat([self._P, previous._P], dim=1)
        Q = torch.cat([(1 + step) * self._Q, -step * previous._Q], dim=1)
        return TensorAllEntriesPoint(self.term, factors, P, Q)

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, TensorAllEntriesPoint)

        def work(rows: slice) -> tuple[Tensor]:
            way = other._P[rows] @ other._Qs.T - self._P[rows] @ self._Qs.T
            return (torch.sum(self.exact.slopes(rows) * way),)

        return float(self.exact.total(work)[0]) / self.term.total


class TensorAllEntriesGradient(TensorGradient):
    """G over all entries, as the linear map ``Xᵀ G F``, in double precision."""

    def __init__(self, point: TensorAllEntriesPoint) -> None:
        super().__init__(point.term.design)
        self._point, self._term, self._entries = point, point.term, point.exact

    def _times(self, M: Tensor) -> Tensor:
        Ms = M[self._term.labels]
        parts = [self._entries.slopes(rows) @ Ms for rows in self._entries.row_blocks()]
        return torch.cat(parts) / self._term.total

    def _transposed_times(self, M: Tensor) -> Tensor:
        (total,) = self._entries.total(lambda rows: (self._entries.slopes(rows).T @ M[rows],))
        return self._term.spread(total) / self._term.total

    def _by_features(self) -> Tensor:
        entries, rows = self._entries, self._design.rows
        step = max(1, (1 << 22) // max(len(entries.P), 1))
        parts = []
        for start in range(0, len(entries.Q), step):
            z = entries.P @ entries.Q[start : start + step].T + entries.b[start : start + step]
            parts.append(rows.transposed_product(entries.loss.derivatives(z, z.new_zeros(()))[1]))
        by_label = torch.cat(parts, dim=1).T if parts else self._design.zeros(0, self._design.shape[0])
        return self._term.spread(by_label.contiguous()).T / self._term.total

    def label_capacity(self, scale: float) -> Tensor | None:
        return None

    def conjugate(self, scale: float, capacity: Tensor | None = None) -> float:
        """``1/N Σ φ*(scale · φ')``."""
        entries = self._entries

        def work(rows: slice) -> tuple[Tensor]:
            slopes = entries.slopes(rows)
            return (torch.sum(entries.loss.conjugate(scale * slopes, slopes.new_zeros(()))),)

        return float(entries.total(work)[0]) / self._term.total
