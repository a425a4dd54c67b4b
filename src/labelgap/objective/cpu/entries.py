"""The data term over some entries: a sum of convex functions of the scores there."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.kernels.entry_pattern import EntryPattern, hessian_product
from labelgap.kernels.loss_passes import LossPasses
from labelgap.kernels.losses import compiled_loss
from labelgap.kernels.row_systems import solve_rows
from labelgap.kernels.threads import map_in_order
from labelgap.objective.cpu.design import Design, DesignGradient, DesignPoint, NumpyTerm
from labelgap.objective.cpu.features import IdentityFeatures, ScaledIdentityFeatures
from labelgap.objective.cpu.rowwise import RowwiseSteps
from labelgap.objective.protocol import (
    Factors,
    Point,
    ScoreBounds,
    ScoreGradient,
    extrapolated,
    zero_sum_factors,
)

# Entries whose losses are computed at a time.
_BLOCK = 1 << 14
# Entries up to which an array of their size more is of no account.
_IN_ONE = 1 << 16
# Entries from which on scores are not kept beside slopes that can be written in their place.
_MANY = 1 << 22


class EntryFunction(Protocol):
    """A convex function of the score at each entry, with whatever per-entry data it holds."""

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        """The sum over entries, and the derivative at each."""
        ...

    def curvature(self, z: Floats) -> Floats: ...

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        """Sum over entries of the convex conjugate at ``scale · gradient``."""
        ...

    # A function whose values may be negative also has ``size(z)``, the sum of their absolute values.


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
        bounds: ScoreBounds | None = None,
    ) -> None:
        self.design = design
        self.pattern = pattern
        self.function = function
        self.has_intercept = has_intercept
        self.shape = design.shape
        self.n_labels = pattern.n_labels
        self.n_stored = design.n_stored + len(pattern)
        self._start = np.zeros(self.n_labels) if starting_intercept is None else starting_intercept
        self.bounds = bounds
        self.passes = None
        if isinstance(function, WeightedLoss):
            self.passes = function.passes(pattern.indices, pattern.n_labels)

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

    def gradient_of(self, G: Floats) -> EntryGradient:
        """G, of which the entries are given, as a linear map."""
        return EntryGradient(self, G)

    def rowwise(self, dtype: Any) -> RowwiseSteps | None:
        function = self.function
        if not isinstance(function, WeightedLoss) or function.offsets is not None:
            return None
        form = compiled_loss(function.loss)
        if form is None or not self.design.has_own_rows:
            return None
        return RowwiseSteps(
            self.design,
            self.pattern,
            form,
            function.targets,
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
        # This sets the property below.
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
        size = getattr(term.function, "size", None)
        self.size = abs(self.value) if size is None else float(size(self.scores))
        # As large as the data, and made again from the low-rank part by the few who ask once more.
        self.__dict__.pop("scores", None)

    @cached_property
    def _low_rank(self) -> Floats:
        """The scores without intercepts."""
        return self._design.rows.scores_at(self._pattern, self.factors.left, self._Q)[0]

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
        curvature = np.ascontiguousarray(self._entry_curvature())
        # Steps that go by the curvature have no use for the scores: one array less of the size of the data.
        self.__dict__.pop("_low_rank", None)
        self.__dict__.pop("scores", None)
        return curvature

    def _entry_curvature(self) -> Floats:
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
        if not self._term.has_intercept:
            db = np.zeros(self._term.n_labels)
        by_row, by_label, sums = hessian_product(
            self._pattern, self._P, dP, self._Q, dQ, db, self._curvature, self.entry_gradient
        )
        return by_row, by_label, sums if self._term.has_intercept else np.zeros_like(sums)

    def _hessian_diagonal(self) -> tuple[Floats, Floats, Floats]:
        D = self._curvature
        return (
            self._pattern.times(D, self._Q * self._Q),
            self._pattern.transposed_times(D, self._P * self._P),
            self._intercept_part(D),
        )

    def _curvature_along(self, XU: Floats, FV: Floats) -> Floats:
        squares, weights = XU * XU, FV * FV
        pattern, passes = self._pattern, self._term.passes
        known = self.__dict__.get("_curvature")
        if known is None and not (passes is not None and len(pattern) > _IN_ONE):
            known = self._entry_curvature()
        if known is not None:
            return np.asarray(np.einsum("ic,ic->c", squares, pattern.times(known, weights)))
        assert passes is not None
        # Asked for once at a point: another array of the size of the data is not made for it.
        total = np.zeros(XU.shape[1])
        for rows, entries in pattern.parts():
            curvature = passes.curvature(self._low_rank[entries], self._intercept, entries)
            total += np.einsum("ic,ic->c", squares[rows], pattern.rows_times(rows, curvature, weights))
        return total

    def solve_rows(self, right: Floats, penalty: float) -> Floats:
        """``(∂²f/∂A_i² + penalty I)⁻¹ right_i`` for every row i, where each has parameters of its own."""
        rows = self._design.rows
        assert isinstance(rows, (IdentityFeatures, ScaledIdentityFeatures))
        ones = np.ones(rows.n_rows)
        squares = ones if isinstance(rows, IdentityFeatures) else np.square(rows.scales)
        pattern = self._pattern
        return solve_rows(pattern.indptr, pattern.indices, self._curvature, self._Q, squares, penalty, right)

    def label_curvature(self) -> Floats:
        return self._intercept_part(self._curvature) if self._sums is None else self._sums[2]

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        if self._sums is not None:
            return self._sums[0], self._sums[1]
        if not self._term.has_intercept:
            return np.zeros(self._term.n_labels), np.zeros(self._term.n_labels)
        return self._pattern.label_sums_by_sign(self.entry_gradient)

    def score_gradient(
        self, sums: tuple[Floats, Floats] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        if not (balanced and self._term.has_intercept):
            return EntryGradient(self._term, self.entry_gradient)
        factors = zero_sum_factors(self._term.xp, *(self.signed_label_sums() if sums is None else sums))
        return EntryGradient(self._term, self.entry_gradient, factors)

    def with_intercept(self, intercept: Floats) -> Point:
        factors = self.factors._replace(intercept=intercept)
        return EntryPoint(self._term, factors, self._low_rank, self._known_P, self._Q)

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, EntryPoint)
        factors = extrapolated(self._term.xp, self.factors, previous.factors, step)
        low_rank = self._low_rank - previous._low_rank
        low_rank *= step
        low_rank += self._low_rank
        Q = np.hstack([(1 + step) * self._Q, -step * previous._Q])
        return EntryPoint(self._term, factors, low_rank, None, Q, summed=False)

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, EntryPoint)
        G = self.entry_gradient
        return float(G @ other._low_rank - G @ self._low_rank)


class EntryGradient(DesignGradient):
    """``G`` on the pattern, as the linear map ``Xᵀ G F``.

    With ``factors`` up and down for each label, the entries of G above 0 are multiplied with the one and the
    others with the other, when they are first asked for. By then the point that G came from may be gone.
    """

    def __init__(self, term: EntryTerm, G: Floats, factors: tuple[Floats, Floats] | None = None) -> None:
        super().__init__(term.design)
        self._term, self._given, self._factors = term, G, factors
        # G as the labels meet it, in the precision that was last asked for.
        self._by_label: Floats | None = None

    @cached_property
    def entries(self) -> Floats:
        entries = self._given
        if self._factors is not None:
            entries = self._term.pattern.times_by_sign(entries, *self._factors)
        del self._given
        return entries

    def _times(self, M: Floats) -> Floats:
        return self._term.pattern.times(self.entries, M)

    def _transposed_times(self, M: Floats) -> Floats:
        pattern = self._term.pattern
        if pattern.adds_up_by_label(M.shape[1]):
            return pattern.transposed_times(self.entries, M)
        if self._by_label is None or self._by_label.dtype != M.dtype:
            self._by_label = pattern.in_label_order(self.entries, M.dtype)
        return pattern.transposed_times_ordered(self._by_label, M)

    def _by_features(self) -> Floats:
        return self._design.rows.transposed_matrix(self._term.pattern, self.entries)

    def label_capacity(self, scale: float) -> Floats | None:
        return None

    def conjugate(self, scale: float, capacity: Floats | None = None) -> float:
        if scale == 0:
            return self._term.conjugate_at_zero
        passes = self._term.passes
        compiled = None if passes is None else passes.conjugate(self.entries, scale)
        return self._term.function.conjugate(self.entries, scale) if compiled is None else compiled


class EntryLoss(Protocol):
    """A loss entry by entry: what a data term needs of one."""

    def value_and_gradient(self, z: Any, y: Any) -> tuple[Any, Any]: ...

    def curvature(self, z: Any, y: Any) -> Any: ...

    def conjugate(self, a: Any, y: Any) -> Any: ...


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
        self.loss, self.targets, self.offsets = loss, values, offsets
        self.weights, self.total = weights, total
        self._weight: Floats | float = (1.0 if weights is None else weights) / total

    def passes(self, indices: NDArray[Any], n_labels: int) -> LossPasses | None:
        """Value, slopes and sums in one pass, for a loss that has a compiled form."""
        form = compiled_loss(self.loss)
        if form is None:
            return None
        constant = 0.0
        if form.value_at_zero is not None:
            left_out = self.loss.value_and_gradient(np.zeros(1), self.targets)[0] - form.value_at_zero
            constant = float(np.sum(left_out * self._weight))
        return LossPasses(form.code, indices, n_labels, self.targets, self._weight, self.offsets, constant)

    def _shifted(self, z: Floats, block: slice) -> Floats:
        return z[block] if self.offsets is None else z[block] + self.offsets[block]

    def _weight_of(self, block: slice) -> Floats | float:
        return self._weight if isinstance(self._weight, float) else self._weight[block]

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        gradient = np.empty(len(z))

        def work(block: slice) -> float:
            value, slope = self.loss.value_and_gradient(self._shifted(z, block), self.targets[block])
            weight = self._weight_of(block)
            np.multiply(slope, weight, out=gradient[block])
            return float(np.sum(value * weight))

        return float(sum(map_in_order(work, entry_blocks(len(z))))), gradient

    def curvature(self, z: Floats) -> Floats:
        curvature = np.empty(len(z))

        def work(block: slice) -> None:
            entry_curvature = self.loss.curvature(self._shifted(z, block), self.targets[block])
            np.multiply(entry_curvature, self._weight_of(block), out=curvature[block])

        map_in_order(work, entry_blocks(len(z)))
        return curvature

    def conjugate_at_zero(self) -> float:
        """That of slopes of 0: for labels, of two numbers only."""
        if self.targets.dtype != np.int8:
            return self.conjugate(np.broadcast_to(0.0, len(self.targets)))
        if isinstance(self._weight, float):
            ones = int(np.count_nonzero(self.targets))
            mass: Floats = self._weight * np.array([len(self.targets) - ones, ones], dtype=np.float64)
        else:
            mass = np.asarray(np.bincount(self.targets, weights=self._weight, minlength=2), dtype=np.float64)
        return float(np.sum(mass * self.loss.conjugate(np.zeros(2), np.array([0, 1]))))

    def conjugate(self, gradient: Floats, scale: float = 1.0) -> float:
        def work(block: slice) -> float:
            weight = self._weight_of(block)
            slopes = scale * gradient[block] / weight
            return float(np.sum(self.loss.conjugate(slopes, self.targets[block]) * weight))

        value = float(sum(map_in_order(work, entry_blocks(len(gradient)))))
        # The conjugate of z ↦ ℓ(z + o) is ℓ*(a) − a o.
        return value if self.offsets is None else value - scale * float(gradient @ self.offsets)


def entry_blocks(length: int) -> list[slice]:
    """Entries some at a time: of one size whatever the threads, so that sums are too."""
    return [slice(start, start + _BLOCK) for start in range(0, length, _BLOCK)]
