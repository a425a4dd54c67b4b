"""A data term over all n·L entries of the label matrix, observed or not: ``1/N Σ_ij φ(z_ij)``.

Nothing of that size is kept: each result is computed anew from P and Q, in blocks of
rows. For the squared loss :mod:`labelgap.objective.cpu.gram` needs no entries at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.threads import map_in_order
from labelgap.losses import Loss
from labelgap.objective.cpu.design import Design, DesignGradient, DesignPoint, NumpyTerm
from labelgap.objective.protocol import BLOCKS_AT_A_TIME, Factors, Point, ScoreGradient, extrapolated

R = TypeVar("R")


class AllEntriesTerm(NumpyTerm):
    """``1/N Σ φ(z_ij)`` over all rows and the given labels, with ``φ(z) = ℓ(z, 0)``."""

    def __init__(
        self,
        design: Design,
        loss: Loss,
        labels: NDArray[np.int64],
        total: float,
        *,
        has_intercept: bool,
        block_entries: int,
    ) -> None:
        self.design, self.loss, self.labels, self.total = design, loss, labels, total
        self.has_intercept = has_intercept
        self.shape, self.n_labels, self.n_stored = design.shape, design.n_labels, design.n_stored
        self.block_entries = block_entries

    def starting_intercept(self) -> Floats:
        return np.zeros(self.n_labels)

    def at(self, factors: Factors, product: Floats | None = None) -> AllEntriesPoint:
        design = self.design
        return AllEntriesPoint(self, factors, design.left(factors.left), design.right(factors.right))

    def row_blocks(self) -> list[slice]:
        """Rows at a time, so that a block's entries stay within the limit."""
        return _blocks(self.design.rows.n_rows, len(self.labels), self.block_entries)

    def label_blocks(self) -> list[slice]:
        """Labels at a time, over all rows."""
        return _blocks(len(self.labels), self.design.rows.n_rows, self.block_entries)

    def spread(self, by_label: Floats) -> Floats:
        """Rows of a matrix for the labels in the term, as rows for all labels (0 for the others)."""
        if len(self.labels) == self.n_labels:
            return by_label
        full = np.zeros((self.n_labels, *by_label.shape[1:]))
        full[self.labels] = by_label
        return full


class AllEntriesPoint(DesignPoint):
    """A :class:`AllEntriesTerm` at one ``(A, B, b)``."""

    def __init__(self, term: AllEntriesTerm, factors: Factors, P: Floats, Q: Floats) -> None:
        super().__init__(term.design, factors, P, Q)
        self.term = term
        # Only the labels in the term are scored.
        self._Qs = Q if len(term.labels) == term.n_labels else np.ascontiguousarray(Q[term.labels])
        self._b = factors.intercept[term.labels] if term.has_intercept else np.zeros(len(term.labels))
        self.value, self._slopes, self._curvatures = self._sums()
        self.size = abs(self.value)

    def scores(self, rows: slice) -> Floats:
        """The scores of a block of rows, for the labels in the term."""
        return np.asarray(self._P[rows] @ self._Qs.T + self._b)

    def slopes(self, rows: slice) -> Floats:
        """φ' at the entries of a block of rows, not divided by N."""
        return np.asarray(self.term.loss.gradient(self.scores(rows), 0))

    def map_rows(self, work: Callable[[slice], R]) -> Iterator[R]:
        """The results for each block of rows in turn; a few at a time are alive."""
        blocks = self.term.row_blocks()
        for start in range(0, len(blocks), BLOCKS_AT_A_TIME):
            yield from map_in_order(work, blocks[start : start + BLOCKS_AT_A_TIME])

    def sum_rows(self, work: Callable[[slice], tuple[Any, ...]]) -> list[Any]:
        """The results for all blocks of rows, added up in their order."""
        return _added(self.map_rows(work))

    def _sums(self) -> tuple[float, Floats, Floats]:
        """The term's value, and each label's sums of slopes and of curvatures."""
        loss = self.term.loss

        def work(rows: slice) -> tuple[float, Floats, Floats]:
            z = self.scores(rows)
            value, slope, curvature = loss.value_gradient_and_curvature(z, 0)
            return float(np.sum(value)), np.asarray(slope.sum(axis=0)), np.asarray(curvature.sum(axis=0))

        value, slopes, curvatures = self.sum_rows(work)
        spread, total = self.term.spread, self.term.total
        return value / total, spread(slopes) / total, spread(curvatures) / total

    def _intercept_part(self, by_label: Floats) -> Floats:
        return by_label if self.term.has_intercept else np.zeros(self.term.n_labels)

    def _assembled(self, work: Callable[[slice], tuple[Floats, ...]]) -> list[Floats]:
        """The work's first results stacked, the others added up and spread over all labels; all over N."""
        by_row = []

        def others() -> Iterator[list[Floats]]:
            for first, *rest in self.map_rows(work):
                by_row.append(first)
                yield rest

        by_label = [self.term.spread(part) for part in _added(others())]
        return [part / self.term.total for part in (np.vstack(by_row), *by_label)]

    def _gradient(self) -> tuple[Floats, Floats, Floats]:
        def work(rows: slice) -> tuple[Floats, Floats]:
            slope = self.slopes(rows)
            return slope @ self._Qs, slope.T @ self._P[rows]

        by_row, by_label = self._assembled(work)
        return by_row, by_label, self._intercept_part(self._slopes)

    def _hessian_product(self, dP: Floats, dQ: Floats, db: Floats) -> tuple[Floats, Floats, Floats]:
        labels = self.term.labels
        dQs = dQ[labels]
        dbs = db[labels] if self.term.has_intercept else np.zeros(len(labels))

        def work(rows: slice) -> tuple[Floats, Floats, Floats]:
            _, slope, curved = self.term.loss.value_gradient_and_curvature(self.scores(rows), 0)
            curved = curved * (dP[rows] @ self._Qs.T + self._P[rows] @ dQs.T + dbs)
            by_row = curved @ self._Qs + slope @ dQs
            return by_row, curved.T @ self._P[rows] + slope.T @ dP[rows], curved.sum(axis=0)

        by_row, by_label, sums = self._assembled(work)
        return by_row, by_label, self._intercept_part(sums)

    def _hessian_diagonal(self) -> tuple[Floats, Floats, Floats]:
        squares = self._Qs * self._Qs

        def work(rows: slice) -> tuple[Floats, Floats]:
            curvature = self.term.loss.curvature(self.scores(rows), 0)
            return curvature @ squares, curvature.T @ (self._P[rows] * self._P[rows])

        by_row, by_label = self._assembled(work)
        return by_row, by_label, self._intercept_part(self._curvatures)

    def _curvature_along(self, XU: Floats, FV: Floats) -> Floats:
        squares = FV[self.term.labels] ** 2

        def work(rows: slice) -> tuple[Floats]:
            curvature = self.term.loss.curvature(self.scores(rows), 0)
            return (np.einsum("ic,ic->c", XU[rows] * XU[rows], curvature @ squares),)

        return np.asarray(self.sum_rows(work)[0] / self.term.total)

    def label_curvature(self) -> Floats:
        return self._intercept_part(self._curvatures)

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        sums = self._intercept_part(self._slopes)
        return np.maximum(sums, 0), np.minimum(sums, 0)

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        return AllEntriesGradient(self)

    def with_intercept(self, intercept: Floats) -> Point:
        return AllEntriesPoint(self.term, self.factors._replace(intercept=intercept), self._P, self._Q)

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, AllEntriesPoint)
        factors = extrapolated(self.term.xp, self.factors, previous.factors, step)
        P = np.hstack([self._P, previous._P])
        return AllEntriesPoint(self.term, factors, P, np.hstack([(1 + step) * self._Q, -step * previous._Q]))

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, AllEntriesPoint)

        def work(rows: slice) -> float:
            way = other._P[rows] @ other._Qs.T - self._P[rows] @ self._Qs.T
            return float(np.sum(self.slopes(rows) * way))

        return sum(self.map_rows(work)) / self.term.total


class AllEntriesGradient(DesignGradient):
    """G over all entries, as the linear map ``Xᵀ G F``; its entries are computed when they are needed."""

    def __init__(self, point: AllEntriesPoint) -> None:
        super().__init__(point.term.design)
        self._point, self._term = point, point.term

    def _times(self, M: Floats) -> Floats:
        Ms = M[self._term.labels]
        parts = self._point.map_rows(lambda rows: self._point.slopes(rows) @ Ms)
        return np.vstack(list(parts)) / self._term.total

    def _transposed_times(self, M: Floats) -> Floats:
        (total,) = self._point.sum_rows(lambda rows: (self._point.slopes(rows).T @ M[rows],))
        return self._term.spread(total) / self._term.total

    def _by_features(self) -> Floats:
        point, term = self._point, self._term

        def work(labels: slice) -> Floats:
            z = point._P @ point._Qs[labels].T + point._b[labels]
            slopes = np.ascontiguousarray(term.loss.gradient(z, 0), dtype=np.float64)
            return term.design.rows.transposed_product(slopes)

        by_label = np.hstack(map_in_order(work, term.label_blocks())).T
        return term.spread(np.ascontiguousarray(by_label)).T / term.total

    def label_capacity(self, scale: float) -> Floats | None:
        return None

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        """``1/N Σ φ*(scale · φ')``."""
        loss = self._term.loss

        def work(rows: slice) -> float:
            return float(np.sum(loss.conjugate(scale * self._point.slopes(rows), 0)))

        return sum(self._point.map_rows(work)) / self._term.total


def _added(parts: Iterable[Sequence[Any]]) -> list[Any]:
    """Each place's sum over the parts, one part at a time."""
    return list(reduce(lambda total, part: [a + b for a, b in zip(total, part, strict=True)], parts))


def _blocks(length: int, width: int, entries: int) -> list[slice]:
    """At least one block, if an empty one."""
    step = max(1, entries // max(width, 1))
    return [slice(start, min(start + step, length)) for start in range(0, max(length, 1), step)]
