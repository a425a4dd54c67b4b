"""The data term over observed entries: ``f(Z) = Σ_Ω ω_ij ℓ(z_ij, y_ij) / Σ_Ω ω_ij``."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entries import curvature_rows
from labelgap.kernels.loss_passes import LossPasses
from labelgap.kernels.threads import map_in_order
from labelgap.labels import ObservedLabels
from labelgap.labels.rates import smoothed_rates
from labelgap.losses import Bernoulli, Loss, Poisson
from labelgap.objective.cpu.arrays import NumpyTerm
from labelgap.objective.cpu.design import Design, DesignGradient, DesignPoint, extrapolated
from labelgap.objective.cpu.features import IdentityFeatures
from labelgap.objective.cpu.pattern import EntryPattern
from labelgap.objective.cpu.rowwise import RowwiseSteps, loss_code
from labelgap.objective.protocol import Factors, Point, ScoreGradient

# Entries whose losses are computed at a time.
_BLOCK = 1 << 14


class EntryLoss(Protocol):
    """A loss entry by entry: what a data term needs of one."""

    def value_and_gradient(self, z: Any, y: Any) -> tuple[Any, Any]: ...

    def curvature(self, z: Any, y: Any) -> Any: ...

    def conjugate(self, a: Any, y: Any) -> Any: ...


class EntryFunction(Protocol):
    """A convex function of the score at each entry, with whatever per-entry data it holds."""

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        """The sum over entries, and the derivative at each."""
        ...

    def curvature(self, z: Floats) -> Floats: ...

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        """Sum over entries of the convex conjugate at ``scale · gradient``."""
        ...


class EntryTerm(NumpyTerm):
    """A sum over entries of a convex function of the score ``(XWFᵀ)_ij (+ b_j)``."""

    def __init__(
        self,
        design: Design,
        pattern: EntryPattern,
        function: EntryFunction,
        *,
        has_intercept: bool,
        starting_intercept: Floats | None = None,
    ) -> None:
        self.design = design
        self.pattern = pattern
        self.function = function
        self.has_intercept = has_intercept
        self.shape = design.shape
        self.n_labels = pattern.n_labels
        self.n_stored = design.n_stored + len(pattern)
        self._start = np.zeros(self.n_labels) if starting_intercept is None else starting_intercept
        self.passes = function.passes(pattern) if isinstance(function, WeightedLoss) else None

    @cached_property
    def conjugate_at_zero(self) -> float:
        """``f*(0)``, the same at every point."""
        if isinstance(self.function, WeightedLoss):
            return self.function.conjugate_at_zero()
        return self.function.conjugate(np.broadcast_to(0.0, len(self.pattern)))

    def starting_intercept(self) -> Floats:
        return self._start.copy()

    def at(self, factors: Factors, product: Floats | None = None) -> Point:
        left = np.ascontiguousarray(factors.left)
        right = np.ascontiguousarray(factors.right)
        Q = self.design.right(right)
        known = product if isinstance(self.design.columns, IdentityFeatures) else None
        low_rank, P = self.design.rows.scores_at(self.pattern, left, Q, known)
        return EntryPoint(self, Factors(left, right, factors.intercept), low_rank, P, Q)

    def rowwise(self, dtype: Any) -> RowwiseSteps | None:
        function = self.function
        if not isinstance(function, WeightedLoss) or function.offsets is not None:
            return None
        code = loss_code(function.loss)
        if code is None or not RowwiseSteps.fits(self.design):
            return None
        return RowwiseSteps(
            self.design,
            self.pattern,
            code,
            function.answers,
            function.weights,
            function.total,
            dtype,
            has_intercept=self.has_intercept,
        )


class EntryPoint(DesignPoint):
    """An :class:`EntryTerm` at one ``(A, B, b)``; the scores are computed once."""

    def __init__(
        self,
        term: EntryTerm,
        factors: Factors,
        low_rank: Floats,
        P: Floats | None,
        Q: Floats,
        *,
        summed: bool = True,
    ) -> None:
        """``summed`` says whether the sums over labels will be asked for: they cost less with the losses."""
        super().__init__(term.design, factors, P, Q)
        self._term = term
        self._pattern = term.pattern
        self._low_rank = low_rank
        self._sums: Floats | None = None
        if term.passes is None:
            self.value, self.entry_gradient = term.function.value_and_gradient(self.scores)
        elif summed and term.has_intercept:
            self.value, self.entry_gradient, self._sums = term.passes.with_label_sums(
                low_rank, factors.intercept
            )
        else:
            self.value, self.entry_gradient = term.passes.value_and_gradient(low_rank, self._intercept)
        self.size = abs(self.value)

    @property
    def _intercept(self) -> Floats | None:
        return self.factors.intercept if self._term.has_intercept else None

    @cached_property
    def scores(self) -> Floats:
        """The score of each entry, without its offset."""
        b = self._intercept
        return self._low_rank if b is None else self._low_rank + b[self._pattern.indices]

    @cached_property
    def _curvature(self) -> Floats:
        passes = self._term.passes
        if passes is None:
            return self._term.function.curvature(self.scores)
        return passes.curvature(self._low_rank, self._intercept)

    def _intercept_part(self, data: Floats) -> Floats:
        if not self._term.has_intercept:
            return np.zeros(self._term.n_labels)
        return self._pattern.label_sums(data)

    def _gradient(self) -> tuple[Floats, Floats, Floats]:
        G = self.entry_gradient
        return (
            self._pattern.times(G, self._Q),
            self._pattern.transposed_times(G, self._P),
            self._intercept_part(G),
        )

    def _hessian_product(self, dP: Floats, dQ: Floats, db: Floats) -> tuple[Floats, Floats, Floats]:
        pattern, G = self._pattern, self.entry_gradient
        if not self._term.has_intercept:
            db = np.zeros(self._term.n_labels)
        bent, by_row = curvature_rows(
            pattern.indptr, pattern.indices, self._P, dP, self._Q, dQ, db, self._curvature, G
        )
        return by_row, pattern.transposed_times_pair(bent, self._P, G, dP), self._intercept_part(bent)

    def _hessian_diagonal(self) -> tuple[Floats, Floats, Floats]:
        D = self._curvature
        return (
            self._pattern.times(D, self._Q * self._Q),
            self._pattern.transposed_times(D, self._P * self._P),
            self._intercept_part(D),
        )

    def _curvature_along(self, XU: Floats, FV: Floats) -> Floats:
        return np.asarray(np.einsum("ic,ic->c", XU * XU, self._pattern.times(self._curvature, FV * FV)))

    def label_curvature(self) -> Floats:
        return self._intercept_part(self._curvature) if self._sums is None else self._sums[2]

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        if self._sums is not None:
            return self._sums[0], self._sums[1]
        G = self.entry_gradient
        return self._intercept_part(np.maximum(G, 0)), self._intercept_part(np.minimum(G, 0))

    def score_gradient(self, balance: tuple[Floats, Floats] | None = None) -> ScoreGradient:
        G = self.entry_gradient
        if balance is not None and self._term.has_intercept:
            G = _balanced(G, self._pattern.indices, *balance)
        return EntryGradient(self._term, G)

    def with_intercept(self, intercept: Floats) -> Point:
        factors = self.factors._replace(intercept=intercept)
        return EntryPoint(self._term, factors, self._low_rank, self._known_P, self._Q)

    def beyond(self, previous: Point, share: float) -> Point:
        assert isinstance(previous, EntryPoint)
        factors = extrapolated(self.factors, previous.factors, share)
        low_rank = self._low_rank - previous._low_rank
        low_rank *= share
        low_rank += self._low_rank
        Q = np.hstack([(1 + share) * self._Q, -share * previous._Q])
        return EntryPoint(self._term, factors, low_rank, None, Q, summed=False)

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, EntryPoint)
        G = self.entry_gradient
        return float(G @ other._low_rank - G @ self._low_rank)


class EntryGradient(DesignGradient):
    """``G`` on the pattern, as the linear map ``Xᵀ G F``."""

    def __init__(self, term: EntryTerm, G: Floats) -> None:
        super().__init__(term.design)
        self._term, self.entries = term, G

    def _times(self, M: Floats) -> Floats:
        return self._term.pattern.times(self.entries, M)

    def _transposed_times(self, M: Floats) -> Floats:
        return self._term.pattern.transposed_times_ordered(self._by_label, M)

    @cached_property
    def _by_label(self) -> Floats:
        return self._term.pattern.in_label_order(self.entries)

    def _by_features(self) -> Floats:
        return self._design.rows.transposed_matrix(self._term.pattern, self.entries)

    def conjugate(self, scale: float) -> float:
        if scale == 0:
            return self._term.conjugate_at_zero
        return self._term.function.conjugate(self.entries, scale)


class WeightedLoss:
    """``Σ ω_e ℓ(z_e + o_e, y_e) / total``, with offsets o (0 unless given)."""

    def __init__(
        self,
        loss: EntryLoss,
        values: NDArray[Any],
        weights: Floats | None,
        total: float,
        offsets: Floats | None = None,
    ) -> None:
        self.loss, self.answers, self.offsets = loss, values, offsets
        self.weights, self.total = weights, total
        self._share: Floats | float = (1.0 if weights is None else weights) / total

    def passes(self, pattern: EntryPattern) -> LossPasses | None:
        """Value, slopes and sums in one pass, for a loss that has a compiled form."""
        code = loss_code(self.loss)
        if code is None:
            return None
        constant = 0.0
        if isinstance(self.loss, (Bernoulli, Poisson)):
            # Compiled losses leave out what depends on the answers alone.
            own = math.log(2.0) if isinstance(self.loss, Bernoulli) else 1.0
            constant = float(np.sum((self.loss.value(0.0, self.answers) - own) * self._share))
        return LossPasses(
            code, pattern.indices, pattern.n_labels, self.answers, self._share, self.offsets, constant
        )

    def _shifted(self, z: Floats, block: slice) -> Floats:
        return z[block] if self.offsets is None else z[block] + self.offsets[block]

    def _share_of(self, block: slice) -> Floats | float:
        return self._share if isinstance(self._share, float) else self._share[block]

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        gradient = np.empty(len(z))

        def work(block: slice) -> float:
            value, slope = self.loss.value_and_gradient(self._shifted(z, block), self.answers[block])
            share = self._share_of(block)
            np.multiply(slope, share, out=gradient[block])
            return float(np.sum(value * share))

        return float(sum(map_in_order(work, _blocks(len(z))))), gradient

    def curvature(self, z: Floats) -> Floats:
        bend = np.empty(len(z))

        def work(block: slice) -> None:
            bent = self.loss.curvature(self._shifted(z, block), self.answers[block])
            np.multiply(bent, self._share_of(block), out=bend[block])

        map_in_order(work, _blocks(len(z)))
        return bend

    def conjugate_at_zero(self) -> float:
        """That of slopes of 0: for labels, of two numbers only."""
        if self.answers.dtype != np.int8:
            return self.conjugate(np.broadcast_to(0.0, len(self.answers)))
        if isinstance(self._share, float):
            ones = int(np.count_nonzero(self.answers))
            mass: Floats = self._share * np.array([len(self.answers) - ones, ones], dtype=np.float64)
        else:
            mass = np.asarray(np.bincount(self.answers, weights=self._share, minlength=2), dtype=np.float64)
        return float(np.sum(mass * self.loss.conjugate(np.zeros(2), np.array([0, 1]))))

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        def work(block: slice) -> float:
            share = self._share_of(block)
            slopes = scale * gradient[block] / share
            return float(np.sum(self.loss.conjugate(slopes, self.answers[block]) * share))

        value = float(sum(map_in_order(work, _blocks(len(gradient)))))
        # The conjugate of z ↦ ℓ(z + o) is ℓ*(a) − a o.
        return value if self.offsets is None else value - scale * float(gradient @ self.offsets)


def _balanced(G: Floats, labels: NDArray[Any], up: Floats, down: Floats) -> Floats:
    """Entries above 0 times their label's ``up``, the others times its ``down``."""
    balanced = np.empty_like(G)

    def work(block: slice) -> None:
        here, slopes = labels[block], G[block]
        np.multiply(slopes, np.where(slopes > 0, up[here], down[here]), out=balanced[block])

    map_in_order(work, _blocks(len(G)))
    return balanced


def _blocks(length: int) -> list[slice]:
    """Entries some at a time: of one size whatever the threads, so that sums are too."""
    return [slice(start, start + _BLOCK) for start in range(0, length, _BLOCK)]


def observed_objective(
    design: Design,
    labels: ObservedLabels,
    loss: Loss,
    *,
    fit_intercept: bool,
    free_intercept: bool = True,
) -> EntryTerm:
    """The mean loss over the observed entries.

    A label whose answers all lie on one edge (one class only; counts that are all 0) has its optimum at
    ``w_j = 0`` with an intercept that makes its loss vanish, at infinity for most losses. So with a free
    (unpenalised) intercept its entries are left out of the sum and its intercept is set from a smoothed rate,
    ``link((positives + ½)/(observed + 1))`` for yes and no. A label without observations gets the overall
    rate.
    """
    total = float(labels.n_observed if labels.weights is None else labels.weights.sum())
    start = None
    kept = labels
    if fit_intercept:
        rates, informative = smoothed_rates(labels, loss.edge_values)
        start = np.asarray(loss.link(rates), dtype=np.float64)
        if labels.offsets is not None:
            start = start - _mean_offsets(labels)
        if free_intercept and not informative.all():
            kept = labels.select(informative[labels.indices])
    return EntryTerm(
        design,
        EntryPattern(kept.indptr, kept.indices, labels.shape[1]),
        WeightedLoss(loss, kept.values, kept.weights, total, kept.offsets),
        has_intercept=fit_intercept,
        starting_intercept=start,
    )


def _mean_offsets(labels: ObservedLabels) -> Floats:
    """The mean offset of each label's entries (0 without any), for a start; Newton's method does the rest."""
    assert labels.offsets is not None
    total = np.bincount(labels.indices, weights=labels.offsets, minlength=labels.shape[1])
    return np.asarray(total / np.maximum(labels.label_counts(), 1))
