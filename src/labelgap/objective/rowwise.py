"""Newton steps row by row, where every row of a factor has entries of its own.

With the users' factors P held, the part of the objective that an item's ``(Q_j, b_j)`` sees is a problem of
k + 1 numbers, and with (Q, b) held a user's P_i sees k numbers. All of them make a step at once, in the
working precision, on arrays padded to whole vectors.

A side may have features beside the identity, ``P = A + X U``. For a given P the penalty of (A, U) is least at
``U = (I + XᵀX)⁻¹ XᵀP``, whatever the loss, so U follows from P, and XU is what a row is drawn to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.losses import FAMILIES, LOSSES
from labelgap.objective.design import Design
from labelgap.objective.features import Features, IdentityFeatures, StackedFeatures
from labelgap.objective.kernels.entry_losses import CODES, QUADRATIC
from labelgap.objective.kernels.newton_rows import MOST_STRETCH, Workspace, newton_rows, row_values
from labelgap.objective.kernels.threads import run_parts, thread_count
from labelgap.objective.kernels.vectors import padded_width
from labelgap.objective.pattern import EntryPattern
from labelgap.objective.protocol import FactorPenalties, Factors
from labelgap.objective.scaled_identity import ScaledIdentityFeatures

Working = NDArray[Any]
"""Numbers in the working precision."""

# What a row costs beside its entries, in entries.
_ROW_COST = 60
# Features beside the identity, at most, whose regression on the factors is next to nothing.
_MOST_FEATURES = 1024
# Directions below this share of the largest are dead.
_DEAD = 1e-6


def loss_code(loss: Any) -> int | None:
    """The number by which compiled steps know a loss; None for one that they do not know."""
    # By class: a loss of somebody else's may have any name.
    if type(loss) not in (*LOSSES.values(), *FAMILIES.values()):
        return None
    return CODES.get(loss.name)


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
            gram = self.others.transposed_product(X * self._column(self.sizes))
            self._gram = scipy.linalg.cho_factor(gram + np.eye(len(gram)))

    @staticmethod
    def fits(features: Features) -> bool:
        """Whether every row has parameters of its own, and few are shared."""
        own = features
        if isinstance(features, StackedFeatures):
            own = features.first
            if features.others.n_features > _MOST_FEATURES:
                return False
        return isinstance(own, (IdentityFeatures, ScaledIdentityFeatures))

    def prior(self, P: Working) -> tuple[Working, Working]:
        """XU and U, for the U at which P is cheapest: ``(I + XᵀS⁻²X)⁻¹ XᵀS⁻²P``."""
        assert self.others is not None
        weighted = np.ascontiguousarray(P * self._column(self.sizes), dtype=np.float64)
        U = np.ascontiguousarray(scipy.linalg.cho_solve(self._gram, self.others.transposed_product(weighted)))
        return self.others.product(U).astype(P.dtype), U.astype(P.dtype)

    def _column(self, sizes: Floats) -> Floats:
        return sizes[:, None]


@dataclass
class Side:
    """One side's factor P in the working precision, rows filled up with zeros to whole vectors."""

    model: SideModel
    factor: Working
    prior: Working
    """What the rows are drawn to; one row where that is 0 for all."""
    shared: Working
    sizes: Working

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

    def own(self) -> Working:
        """A: what each row adds to its prior, in the row's units."""
        own = self.factor if self.model.others is None else self.factor - self.prior
        return own if self.model.scales is None else own * np.sqrt(self.sizes)[:, None]

    def gram(self) -> Floats:
        """``AᵀA`` over own and shared rows."""
        own = self.own()
        return np.asarray(own.T @ own + self.shared.T @ self.shared, dtype=np.float64)

    def turn(self, T: Floats) -> None:
        """All rows times T."""
        turned = T.astype(self.factor.dtype)
        self.factor, self.prior, self.shared = (M @ turned for M in (self.factor, self.prior, self.shared))

    def parameters(self, rank: int) -> Floats:
        """Own and shared rows, in double precision."""
        return np.vstack([self.own(), self.shared])[:, :rank].astype(np.float64)


@dataclass
class WorkingFactors:
    """``P Qᵀ + 1bᵀ`` in the working precision."""

    rows: Side
    labels: Side
    intercept: Working
    rank: int

    def balance(self) -> None:
        """The same scores with ``AᵀA = BᵀB`` diagonal: ``½(‖A‖² + ‖B‖²)`` is then as small as it can be."""
        half_A, back_A = _roots(self.rows.gram())
        half_B, back_B = _roots(self.labels.gram())
        U, values, Vt = scipy.linalg.svd(half_A @ half_B.T)
        alive = np.sqrt(np.where(values > _DEAD * values[0], values, 0.0))
        self.rows.turn(back_A @ (U * alive))
        self.labels.turn(back_B @ (Vt.T * alive))

    def penalty(self, penalties: FactorPenalties) -> float:
        """``λ/2 (‖A‖² + ‖B‖²) + λ₂/2 ‖ABᵀ‖²``, and that of b."""
        rows, labels = self.rows.gram(), self.labels.gram()
        away = self.intercept.astype(np.float64) - penalties.centre
        return float(
            0.5 * penalties.trace * (np.trace(rows) + np.trace(labels))
            + 0.5 * penalties.ridge * np.sum(rows * labels)
            + 0.5 * penalties.intercept * (away @ away)
        )

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
    values, vectors = scipy.linalg.eigh(gram)
    roots = np.sqrt(np.maximum(values, 0.0))
    inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > _DEAD * roots[-1])
    return roots[:, None] * vectors.T, vectors * inverse


class _Entries:
    """The entries as seen from the rows, or from the labels, with room to work in."""

    def __init__(
        self, indptr: NDArray[Any], indices: NDArray[Any], answers: NDArray[Any], weights: Working
    ) -> None:
        self.indptr, self.indices, self.answers, self.weights = indptr, indices, answers, weights
        work = indptr + _ROW_COST * np.arange(len(indptr))
        parts = thread_count()
        cuts = np.searchsorted(work, np.arange(1, parts) * (work[-1] / parts))
        self.cuts = [0, *cuts.tolist(), len(indptr) - 1]
        self._room: list[Workspace] = []

    def room(self, width: int, dtype: Any) -> list[Workspace]:
        if not self._room or self._room[0].gathered.shape[1] != width:
            self._room = [Workspace.of(width, dtype) for _ in self.cuts[1:]]
        return self._room


class RowwiseSteps:
    """Newton steps for the labels and for the rows of a sum over entries.

    ``code`` is the loss (:func:`loss_code`), ``total`` what the sum of the losses is divided by.
    """

    def __init__(
        self,
        design: Design,
        pattern: EntryPattern,
        code: int,
        answers: NDArray[Any],
        weights: Floats | None,
        total: float,
        dtype: Any,
        *,
        has_intercept: bool,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self._models = SideModel(design.rows), SideModel(design.columns)
        self._code, self._has_intercept, self._total = code, has_intercept, total
        none = np.empty(0, self.dtype)
        held = none if weights is None else weights.astype(self.dtype)
        self._by_row = _Entries(pattern.indptr, pattern.indices, answers, held)
        order = pattern.by_label
        self._by_label = _Entries(
            pattern.label_indptr, pattern.label_rows, answers[order], held[order] if len(held) else none
        )
        self._values = np.zeros(pattern.n_rows)
        self._gains = np.zeros(max(pattern.n_rows, pattern.n_labels))
        self._no_shift = np.zeros(pattern.n_rows, self.dtype)

    @staticmethod
    def fits(design: Design) -> bool:
        """Whether both sides are made of rows with entries of their own."""
        return SideModel.fits(design.rows) and SideModel.fits(design.columns)

    def start(self, factors: Factors) -> WorkingFactors:
        return working_factors(self._models, factors, self.dtype)

    def step_labels(self, at: WorkingFactors, penalties: FactorPenalties, stretch: float = 1.0) -> float:
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
            stretch,
        )

    def step_rows(self, at: WorkingFactors, penalties: FactorPenalties, stretch: float = 1.0) -> float:
        """P given (Q, b); likewise."""
        shifts = at.intercept if self._has_intercept else np.zeros_like(at.intercept)
        return self._step(
            self._by_row, at.labels, shifts, at.rows, shifts, penalties, at.rank, False, stretch
        )

    def value(self, at: WorkingFactors, penalties: FactorPenalties) -> float:
        """The penalised objective, up to a constant of the answers."""
        entries = self._by_row
        shifts = at.intercept if self._has_intercept else np.zeros_like(at.intercept)
        room = [(one.gathered, one.entries) for one in entries.room(at.rows.factor.shape[1], self.dtype)]
        shared = (
            entries.indptr, entries.indices, entries.answers, entries.weights, at.labels.factor, shifts,
            self._code, at.rows.factor, self._values,
        )  # fmt: skip
        run_parts(row_values, entries.cuts, shared, room)
        return float(self._values.sum()) / self._total + at.penalty(penalties)

    def _step(
        self,
        entries: _Entries,
        given: Side,
        shifts: Working,
        moving: Side,
        own_shifts: Working,
        penalties: FactorPenalties,
        rank: int,
        has_shift: bool,
        stretch: float,
    ) -> float:
        kind, N = self.dtype.type, self._total
        gains = self._gains[: len(moving.factor)]
        table = given.factor
        width = table.shape[1]
        penalty = N * penalties.trace * np.eye(width)
        if penalties.ridge:
            penalty += N * penalties.ridge * given.gram()
        reach = kind(np.sqrt(np.max(np.einsum("ij,ij->i", table, table), initial=0.0)))
        shared = (
            entries.indptr, entries.indices, entries.answers, entries.weights, table, shifts, reach,
            penalty.astype(self.dtype), moving.sizes, moving.prior, rank, self._code,
            self._code not in QUADRATIC, kind(min(stretch, MOST_STRETCH)), has_shift,
            kind(N * penalties.intercept),
            kind(penalties.centre), moving.factor, own_shifts, gains,
        )  # fmt: skip
        run_parts(newton_rows, entries.cuts, shared, entries.room(width, self.dtype))
        moving.renew_prior()
        return float(gains.sum()) / N
