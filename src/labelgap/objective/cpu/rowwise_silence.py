"""Steps row by row for the squared loss over all entries, where silence has a weight of its own.

A row's problem is quadratic. Its Hessian ``m_i M + 2w QᵀQ + 2 Σ_Ω (ω_e − w) q_e q_eᵀ`` differs from row to
row in the size m_i of its penalty and in its observed entries, so the systems are not factorised but solved
by a few steps of conjugate gradients, all rows at a time: each step costs two passes over the entries and one
product with a small matrix. What the rows share is inverted exactly, as the preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from labelgap._arrays import row_slices
from labelgap._types import Floats, Ints
from labelgap.kernels.entries import csr_product, sampled_product
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

# Steps of conjugate gradients at most, and the fraction of the residual at which they end. The factors of the
# other side change after them, so that more accuracy would be lost on them.
STEPS, ENOUGH = 8, 0.03
# What is added to a diagonal, as a fraction of it, before it is inverted.
JITTER = 1e-7
# Entries that are looked at together, and numbers of the entries and factors of the rows that move together.
_BLOCK, _TOGETHER = 1 << 18, 1 << 21


class SilenceRowwise:
    """The rows and labels of ``[Σ_Ω (ω (z − t)² − w (z + 1)²) + w Σ_all (z + 1)²] / total``."""

    quadratic_in_rank = False

    def __init__(
        self,
        design: Design,
        pattern: EntryPattern,
        targets: Floats,
        weights: Floats,
        silence: float,
        total: float,
        dtype: Any,
        *,
        has_intercept: bool,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self._models = SideModel(design.rows), SideModel(design.columns)
        self._pattern, self._silence, self._total = pattern, silence, total
        self._has_intercept = has_intercept
        # Half the slope at an observed entry is ``curved z − wanted``, half the curvature ``curved``.
        self._curved = _in_few_bytes(lambda some: weights[some] - silence, len(weights), self.dtype)
        self._wanted = _in_few_bytes(
            lambda some: weights[some] * targets[some] + silence, len(weights), self.dtype
        )
        self._curved_by_label, self._wanted_by_label = (
            part if _is_one_number(part) else part[pattern.by_label] for part in (self._curved, self._wanted)
        )

    def start(self, factors: Factors) -> WorkingFactors:
        return working_factors(self._models, factors, self.dtype)

    def step_rows(self, at: WorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0) -> float:
        """P given (Q, b), towards the minimum; returns what it gains."""
        Q, pattern = at.labels.factor, self._pattern
        b = at.intercept if self._has_intercept else np.zeros_like(at.intercept)
        systems = _Systems(
            pattern.indptr,
            pattern.indices,
            Q,
            self._curved,
            self._wanted,
            self._silence,
            (b + 1) @ Q,
            self._penalty(at.labels, penalties),
            at.rows.sizes,
            shift=b,
        )
        gained = systems.minimise(at.rows.factor, at.rows.prior, relaxation)
        at.rows.renew_prior()
        return gained / self._total

    def step_labels(self, at: WorkingFactors, penalties: FactorPenalties, relaxation: float = 1.0) -> float:
        """(Q, b) given P, towards the minimum; returns what it gains."""
        pattern, side, P = self._pattern, at.labels, at.rows.factor
        penalty, factor, prior = self._penalty(at.rows, penalties), side.factor, side.prior
        if self._has_intercept:
            # The intercept is one more column, which all rows share.
            P = np.column_stack([P, np.ones(len(P), self.dtype)])
            held = self._total * penalties.intercept
            penalty = scipy.linalg.block_diag(penalty, held)
            factor = np.column_stack([factor, at.intercept])
            prior = np.column_stack([prior, np.full(len(prior), penalties.centre, self.dtype)])
        systems = _Systems(
            pattern.label_indptr,
            pattern.label_rows,
            np.ascontiguousarray(P),
            self._curved_by_label,
            self._wanted_by_label,
            self._silence,
            P.sum(axis=0, dtype=np.float64),
            penalty,
            side.sizes,
            shared=int(self._has_intercept),
        )
        gained = systems.minimise(factor, prior, relaxation)
        if self._has_intercept:
            side.factor[:], at.intercept[:] = factor[:, :-1], factor[:, -1]
        side.renew_prior()
        return gained / self._total

    def _penalty(self, given: Side, penalties: FactorPenalties) -> Floats:
        """M, with 1 where a column is only filled up."""
        penalty = self._total * penalties.trace * np.eye(given.factor.shape[1])
        if penalties.ridge:
            penalty += self._total * penalties.ridge * given.gram()
        empty = np.diag(penalty) <= 0
        penalty[empty, empty] = self._total * (penalties.trace + penalties.ridge)
        return penalty


def _in_few_bytes(numbers: Callable[[slice], Floats], count: int, dtype: np.dtype[Any]) -> WorkingArray:
    """The numbers in the working precision; where all are equal, as they are for likes alone, one for all."""
    found = np.empty(count, dtype)
    for start in range(0, count, _BLOCK):
        some = slice(start, start + _BLOCK)
        found[some] = numbers(some)
    if count and np.all(found == found[0]):
        return np.broadcast_to(found[0].copy(), found.shape)
    return found


def _is_one_number(numbers: WorkingArray) -> bool:
    return numbers.strides == (0,)


class _Systems:
    """``½ aᵀ H_i a`` with ``H_i = m_i M + 2w XᵀX + 2 Σ_e c_e x_e x_eᵀ`` for each row i, over features x.

    The last ``shared`` columns of M are not multiplied with m_i. ``shift`` is what the score of an entry has
    beside ``a_i · x``, by the number of x.
    """

    def __init__(
        self,
        indptr: Ints,
        indices: Ints,
        features: WorkingArray,
        curved: WorkingArray,
        wanted: WorkingArray,
        silence: float,
        silent_slope: Floats,
        penalty: Floats,
        sizes: WorkingArray,
        shared: int = 0,
        shift: WorkingArray | None = None,
    ) -> None:
        self.indptr, self.indices, self.features = indptr, indices, features
        self.curved, self.wanted, self.shift = curved, wanted, shift
        self.sizes, self.shared = sizes, shared
        dtype = features.dtype
        gram = 2 * silence * (features.T @ features).astype(np.float64)
        self.gram, self.penalty = gram.astype(dtype), penalty.astype(dtype)
        self.slope = (2 * silence * np.asarray(silent_slope, np.float64)).astype(dtype)
        both = penalty + gram
        both[np.diag_indices(len(penalty))] *= 1 + JITTER
        # M and M + 2w XᵀX are diagonal in the same basis.
        back = np.linalg.inv(np.linalg.cholesky(both))
        values, vectors = np.linalg.eigh(back @ penalty @ back.T)
        self.basis = (back.T @ vectors).astype(dtype)
        self.values = np.clip(values, 0.0, 1.0)

    def minimise(self, rows: WorkingArray, prior: WorkingArray, relaxation: float) -> float:
        """Move all rows, in place; returns what they gain.

        Some at a time: a step makes several arrays of the size of their entries, and of the rows themselves.
        """
        numbers = self.indptr + rows.shape[1] * np.arange(len(self.indptr))
        return sum(
            _minimise(_RowSystems(self, some), rows[some], _of_rows(prior, some), relaxation)
            for some in row_slices(numbers, _TOGETHER)
        )


class _RowSystems:
    """The systems of some rows."""

    def __init__(self, all_rows: _Systems, rows: slice) -> None:
        self._all = all_rows
        pointers = all_rows.indptr[rows.start : rows.stop + 1]
        entries = slice(int(pointers[0]), int(pointers[-1]))
        self._indptr, self._indices = pointers - pointers[0], all_rows.indices[entries]
        self._curved, self._wanted = all_rows.curved[entries], all_rows.wanted[entries]
        if all_rows.shift is not None:
            # In place, here and below: each of these is as large as the entries.
            shifted = all_rows.shift[self._indices]
            shifted *= self._curved
            self._wanted = np.subtract(self._wanted, shifted, out=shifted)
        dtype, sizes = all_rows.features.dtype, _of_rows(all_rows.sizes, rows)[:, None]
        self._sizes = np.repeat(sizes, len(all_rows.values), axis=1).astype(dtype)
        if all_rows.shared:
            self._sizes[:, -all_rows.shared :] = 1
        values = all_rows.values
        kept = np.maximum(1.0 - values, JITTER)
        self._inverse = (1.0 / (sizes.astype(np.float64) * values + kept)).astype(dtype)

    def negative_gradient(self, rows: WorkingArray, prior: WorkingArray) -> WorkingArray:
        """Minus the slopes of ``½ m (a − prior)ᵀ M (a − prior) + Σ losses`` at the rows."""
        held = self._held(rows - prior)
        entries = self._along(rows)
        entries *= self._curved
        np.subtract(self._wanted, entries, out=entries)
        entries *= 2
        return np.asarray(self._gathered(entries) - (rows @ self._all.gram + self._all.slope + held))

    def times(self, rows: WorkingArray) -> WorkingArray:
        """``H_i a_i`` for each row."""
        entries = self._along(rows)
        entries *= self._curved
        entries *= 2
        curved = self._gathered(entries)
        return np.asarray(curved + rows @ self._all.gram + self._held(rows))

    def preconditioned(self, rows: WorkingArray) -> WorkingArray:
        return np.asarray(((rows @ self._all.basis) * self._inverse) @ self._all.basis.T)

    def _held(self, rows: WorkingArray) -> WorkingArray:
        return np.asarray(self._sizes * (rows @ self._all.penalty))

    def _along(self, rows: WorkingArray) -> WorkingArray:
        return sampled_product(self._indptr, self._indices, np.ascontiguousarray(rows), self._all.features)

    def _gathered(self, entries: WorkingArray) -> WorkingArray:
        return csr_product(self._indptr, self._indices, entries, self._all.features)


def _of_rows(values: WorkingArray, rows: slice) -> WorkingArray:
    """Those of some rows; one value may stand for all rows."""
    return values[rows] if len(values) > 1 else values


def _minimise(system: _RowSystems, rows: WorkingArray, prior: WorkingArray, relaxation: float) -> float:
    """Move the rows by conjugate gradients, in place; returns what the quadratic objectives gain together.

    Each row has step lengths of its own.
    """
    start = rows.copy()
    residual = system.negative_gradient(rows, prior)
    solved = system.preconditioned(residual)
    direction, product = solved.copy(), _dots(residual, solved)
    enough = ENOUGH**2 * product.sum()
    gained = 0.0
    for _ in range(STEPS):
        curved = system.times(direction)
        curvature = _dots(direction, curved)
        length = np.divide(product, curvature, out=np.zeros_like(product), where=curvature > 0)
        rows += length[:, None].astype(rows.dtype) * direction
        residual -= length[:, None].astype(rows.dtype) * curved
        gained += 0.5 * float(length @ product)
        solved = system.preconditioned(residual)
        before, product = product, np.maximum(_dots(residual, solved), 0.0)
        if product.sum() <= enough:
            break
        ratio = np.divide(product, before, out=np.zeros_like(product), where=before > 0)
        direction = solved + ratio[:, None].astype(rows.dtype) * direction
    if relaxation != 1.0:
        rows += rows.dtype.type(relaxation - 1.0) * (rows - start)
    return gained


def _dots(first: WorkingArray, second: WorkingArray) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", first, second, dtype=np.float64))
