"""Newton steps row by row, where every row of a factor has entries of its own.

With the users' factors P held, the part of the objective that an item's ``(Q_j, b_j)`` sees is a problem of
k + 1 numbers, and with (Q, b) held a user's P_i sees k numbers. All of them make a step at once, in the
working precision, on arrays padded to whole vectors.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import binary_and_real, read_only
from labelgap._types import Floats
from labelgap.kernels.conjugate_rows import ConjugateWorkspace, conjugate_rows
from labelgap.kernels.entries import from_line
from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.kernels.losses import CompiledLoss
from labelgap.kernels.newton_rows import MOST_RELAXATION, Workspace, newton_rows
from labelgap.kernels.threads import LEAST_WORK, run_parts, thread_count
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.working_factors import (
    Side,
    SideModel,
    WorkingArray,
    WorkingFactors,
    working_factors,
)
from labelgap.objective.protocol import FactorPenalties, Factors

# Columns from which on conjugate gradients cost less than a factorised Hessian.
MANY_COLUMNS = 40
# What a row costs beside its entries, in entries.
_ROW_COST = 60


class _Entries:
    """The entries as seen from the rows, or from the labels, with arrays to work in."""

    def __init__(
        self, indptr: NDArray[Any], indices: NDArray[Any], targets: NDArray[Any], weights: WorkingArray
    ) -> None:
        self.indptr, self.indices = read_only(indptr, np.int64), read_only(indices, np.int32)
        self.weights = read_only(weights, weights.dtype)
        self.targets = binary_and_real(targets, weights.dtype)
        self.longest = int(np.max(np.diff(indptr), initial=0))

    def cuts(self, width: int) -> list[int]:
        """Rows at which the work is divided among the threads that there are now, if it is worth them."""
        last = len(self.indptr) - 1
        whole = int(self.indptr[-1]) + _ROW_COST * last
        parts = max(1, min(thread_count(), whole * width * (width + 1) // (2 * LEAST_WORK)))
        rows = range(last + 1)
        inner = (
            bisect_left(rows, whole * part / parts, key=lambda row: self.indptr[row] + _ROW_COST * row)
            for part in range(1, parts)
        )
        return [0, *inner, last]


class RowwiseSteps:
    """Newton steps for the labels and for the rows of a sum over entries.

    ``form`` is the compiled loss, ``total`` what the sum of the losses is divided by.
    """

    quadratic_in_rank = True

    def __init__(
        self,
        design: Design,
        pattern: EntryPattern,
        form: CompiledLoss,
        targets: NDArray[Any],
        weights: Floats | None,
        total: float,
        dtype: Any,
        *,
        has_intercept: bool,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self._models = SideModel(design.rows), SideModel(design.columns)
        self._form, self._has_intercept, self._total = form, has_intercept, total
        none = np.empty(0, self.dtype)
        held = none if weights is None else weights.astype(self.dtype)
        self._by_row = _Entries(pattern.indptr, pattern.indices, targets, held)
        ordered = pattern.in_label_order(held) if len(held) else none
        self._by_label = _Entries(
            pattern.label_indptr, pattern.label_rows, pattern.in_label_order(targets), ordered
        )
        self._gains = np.zeros(max(pattern.n_rows, pattern.n_labels))
        self._no_shift = np.zeros(pattern.n_rows, self.dtype)

    def start(self, factors: Factors) -> WorkingFactors:
        return working_factors(self._models, factors, self.dtype)

    def step_labels(self, at: WorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0) -> float:
        """(Q, b) given P; returns what it gains, to second order."""
        own = at.intercept if self._has_intercept else np.zeros_like(at.intercept)
        return self._step(
            self._by_label,
            at.rows,
            self._no_shift,
            at.labels,
            own,
            penalties,
            at.rank,
            self._has_intercept,
            relaxation,
        )

    def step_rows(self, at: WorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0) -> float:
        """P given (Q, b); likewise."""
        shifts = at.intercept if self._has_intercept else np.zeros_like(at.intercept)
        return self._step(
            self._by_row, at.labels, shifts, at.rows, shifts, penalties, at.rank, False, relaxation
        )

    def _step(
        self,
        entries: _Entries,
        given: Side,
        shifts: WorkingArray,
        moving: Side,
        own_shifts: WorkingArray,
        penalties: FactorPenalties,
        rank: int,
        has_shift: bool,
        relaxation: float,
    ) -> float:
        kind, N = self.dtype.type, self._total
        gains = self._gains[: len(moving.factor)]
        table = from_line(given.factor)
        width = table.shape[1]
        cuts = entries.cuts(width)
        penalty = N * penalties.trace * np.eye(width)
        if penalties.ridge:
            penalty += N * penalties.ridge * given.gram()
        if width >= MANY_COLUMNS:
            diagonal_only = not penalties.ridge
            wide = (
                entries.indptr, entries.indices, *entries.targets, entries.weights, table, table * table,
                shifts, penalty.astype(self.dtype), diagonal_only, moving.sizes, moving.prior, rank,
                self._form.code, not self._form.bounds_curvature, kind(min(relaxation, MOST_RELAXATION)),
                has_shift, kind(N * penalties.intercept), kind(penalties.centre), moving.factor, own_shifts,
                gains,
            )  # fmt: skip
            many = [ConjugateWorkspace.of(width, entries.longest, self.dtype) for _ in cuts[1:]]
            run_parts(conjugate_rows, cuts, wide, many)
            moving.renew_prior()
            return float(gains.sum()) / N
        reach = kind(np.sqrt(np.max(np.einsum("ij,ij->i", table, table), initial=0.0)))
        shared = (
            entries.indptr, entries.indices, *entries.targets, entries.weights, table, shifts, reach,
            penalty.astype(self.dtype), moving.sizes, moving.prior, rank, self._form.code,
            not self._form.bounds_curvature, kind(min(relaxation, MOST_RELAXATION)), has_shift,
            kind(N * penalties.intercept),
            kind(penalties.centre), moving.factor, own_shifts, gains,
        )  # fmt: skip
        run_parts(newton_rows, cuts, shared, [Workspace.of(width, self.dtype) for _ in cuts[1:]])
        moving.renew_prior()
        return float(gains.sum()) / N
