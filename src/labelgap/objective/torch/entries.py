"""The data term over some entries on a device: a sum of convex functions of the scores there."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch

from labelgap._types import Floats
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.passes import LabelPass, WeightedEntries, blocks, pair_pass
from labelgap.kernels.gpu.pattern import TensorPattern
from labelgap.objective.cpu.design import DesignPoint
from labelgap.objective.protocol import (
    Factors,
    Point,
    ScoreBounds,
    ScoreGradient,
    extrapolated,
    zero_sum_factors,
)
from labelgap.objective.torch.design import TensorDesign, TensorGradient, TensorTerm
from labelgap.objective.torch.rowwise import TensorRowwise


class TensorFunction(Protocol):
    """A convex function of the score at each entry that is not a weighted loss."""

    def value_and_gradient(self, z: Tensor) -> tuple[float, Tensor]: ...

    def curvature(self, z: Tensor) -> Tensor: ...

    def conjugate(self, gradient: Tensor, scale: float = 1.0) -> float: ...


class TensorEntryTerm(TensorTerm):
    """A sum over entries of a convex function of the score ``(XWFᵀ)_ij (+ b_j)``."""

    def __init__(
        self,
        design: TensorDesign,
        pattern: TensorPattern,
        function: WeightedEntries | TensorFunction,
        *,
        has_intercept: bool,
        starting_intercept: Floats | None = None,
        bounds: ScoreBounds | None = None,
    ) -> None:
        self.design, self.pattern = design, pattern
        self.loss = function if isinstance(function, WeightedEntries) else None
        self.function: Any = function
        self.has_intercept, self.bounds = has_intercept, bounds
        self.n_stored = design.n_stored + len(pattern)
        self._start = np.zeros(self.n_labels) if starting_intercept is None else starting_intercept

    @cached_property
    def conjugate_at_zero(self) -> float:
        """``f*(0)``, the same at every point."""
        nothing = torch.zeros((), dtype=self.dtype, device=self.design.device).expand(len(self.pattern))
        return float(self.function.conjugate(nothing, 1.0))

    def starting_intercept(self) -> Tensor:
        return self.design.tensor(self._start.copy())

    def at(self, factors: Factors, product: Tensor | None = None) -> TensorEntryPoint:
        left: Tensor = factors.left
        right: Tensor = factors.right
        left, right = left.contiguous(), right.contiguous()
        P, Q = self.design.left(left), self.design.right(right)
        return TensorEntryPoint(self, Factors(left, right, factors.intercept), P, Q)

    def gradient_of(self, G: Tensor) -> TensorEntryGradient:
        """G, of which the entries are given, as a linear map."""
        return TensorEntryGradient(self, G)

    def rowwise(self, dtype: Any) -> TensorRowwise | None:
        if self.loss is None or self.loss.data.offsets is not None or not TensorRowwise.fits(self.design):
            return None
        return TensorRowwise(self.design, self.loss, dtype, has_intercept=self.has_intercept)


class TensorEntryPoint(DesignPoint):
    """A :class:`TensorEntryTerm` at one ``(A, B, b)``; the scores are computed once."""

    _design: Any

    def __init__(
        self,
        term: TensorEntryTerm,
        factors: Factors,
        P: Tensor | None,
        Q: Tensor,
        low_rank: Tensor | None = None,
    ) -> None:
        """``low_rank`` is ``PQᵀ`` at the entries, for a caller who knows it."""
        super().__init__(term.design, factors, P, Q)  # type: ignore[arg-type]
        self._term, self._pattern = term, term.pattern
        self._by_row: Tensor | None = None
        loss = term.loss
        if loss is not None and low_rank is None:
            found = loss.row_pass(self._P, Q, self._intercept)
            self._low_rank, self.value, self.entry_gradient, self._by_row = found
        else:
            self._low_rank = term.pattern.by_row.dots(self._P, Q) if low_rank is None else low_rank
            if loss is not None:
                self.value, self.entry_gradient = loss.value_and_slopes(self._low_rank, self._intercept)
            else:
                self.value, self.entry_gradient = term.function.value_and_gradient(self.scores)
        size = getattr(term.function, "size", None)
        self.size = abs(self.value) if size is None else float(size(self.scores))

    @property
    def _intercept(self) -> Tensor | None:
        return self.factors.intercept if self._term.has_intercept else None

    @cached_property
    def scores(self) -> Tensor:
        """The score of each entry, without its offset."""
        b = self._intercept
        return self._low_rank if b is None else self._low_rank + b[self._pattern.by_row.indices]

    @cached_property
    def _curvature(self) -> Tensor:
        loss = self._term.loss
        if loss is None:
            return self._term.function.curvature(self.scores)
        return loss.curvature(self._low_rank, self._intercept)

    @cached_property
    def _ordered(self) -> tuple[Tensor, Tensor]:
        """Curvature and slopes, label by label."""
        ordered = self._pattern.in_label_order
        return ordered(self._curvature), ordered(self.entry_gradient)

    @cached_property
    def _label_pass(self) -> LabelPass:
        loss = self._term.loss
        if loss is not None:
            given = self._P, self._Q, self._intercept, self._low_rank, self.entry_gradient
            return loss.label_pass(*given)
        G, by_label = self._pattern.in_label_order(self.entry_gradient), self._pattern.by_label
        sums = [by_label.sums(torch.clamp(G, min=0)), by_label.sums(torch.clamp(G, max=0))]
        sums.append(self._pattern.label_sums(self._curvature))
        return LabelPass(by_label.product(G, self._P), torch.stack(sums))

    @cached_property
    def _sums(self) -> Tensor:
        """Of each label's positive slopes, negative slopes and curvatures; 0 without an intercept."""
        if not self._term.has_intercept:
            return self._design.zeros(3, self._term.n_labels)
        known: LabelPass | None = self.__dict__.get("_label_pass")
        if known is not None:
            return known.sums
        G, by_label = self._pattern.in_label_order(self.entry_gradient), self._pattern.by_label
        sums = [by_label.sums(torch.clamp(G, min=0)), by_label.sums(torch.clamp(G, max=0))]
        sums.append(self._pattern.label_sums(self._curvature))
        return torch.stack(sums)

    def _intercept_part(self, sums: Tensor) -> Tensor:
        return sums if self._term.has_intercept else self._design.zeros(self._term.n_labels)

    def _gradient(self) -> tuple[Tensor, Tensor, Tensor]:
        if self._by_row is None:
            self._by_row = self._pattern.times(self.entry_gradient, self._Q)
        found = self._label_pass
        return self._by_row, found.product, self._intercept_part(found.sums[0] + found.sums[1])

    def _hessian_product(self, dP: Tensor, dQ: Tensor, db: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shift = db if self._term.has_intercept else None
        pattern, (curvature, slopes) = self._pattern, self._ordered
        by_row = pair_pass(
            pattern.by_row,
            self._P,
            dP,
            self._Q,
            dQ,
            self._curvature,
            self.entry_gradient,
            others_shift=shift,
        )
        by_label = pair_pass(pattern.by_label, self._Q, dQ, self._P, dP, curvature, slopes, own_shift=shift)
        return by_row.product, by_label.product, self._intercept_part(by_label.sums)

    def _hessian_diagonal(self) -> tuple[Tensor, Tensor, Tensor]:
        D = self._curvature
        return (
            self._pattern.times(D, self._Q * self._Q),
            self._pattern.transposed_times(D, self._P * self._P),
            self.label_curvature(),
        )

    def _curvature_along(self, XU: Tensor, FV: Tensor) -> Tensor:
        return torch.sum(XU * XU * self._pattern.times(self._curvature, FV * FV), dim=0)

    def label_curvature(self) -> Tensor:
        return self._sums[2]

    def signed_label_sums(self) -> tuple[Tensor, Tensor]:
        return self._sums[0], self._sums[1]

    def score_gradient(
        self, sums: tuple[Tensor, Tensor] | None = None, *, balanced: bool = False
    ) -> ScoreGradient:
        G = self.entry_gradient
        if balanced and self._term.has_intercept:
            up, down = zero_sum_factors(self._term.xp, *(self.signed_label_sums() if sums is None else sums))
            G, labels = torch.empty_like(G), self._pattern.by_row.indices
            for here in blocks(len(G)):
                slopes, label = self.entry_gradient[here], labels[here]
                G[here] = slopes * torch.where(slopes > 0, up[label], down[label])
        return self._term.gradient_of(G)

    def with_intercept(self, intercept: Tensor) -> Point:
        factors = self.factors._replace(intercept=intercept)
        return TensorEntryPoint(self._term, factors, self._known_P, self._Q, self._low_rank)

    def beyond(self, previous: Point, step: float) -> Point:
        assert isinstance(previous, TensorEntryPoint)
        factors = extrapolated(self._term.xp, self.factors, previous.factors, step)
        low_rank = torch.lerp(self._low_rank, previous._low_rank, -step)
        Q = torch.cat([(1 + step) * self._Q, -step * previous._Q], dim=1)
        return TensorEntryPoint(self._term, factors, None, Q, low_rank)

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, TensorEntryPoint)
        return float(torch.dot(self.entry_gradient, other._low_rank - self._low_rank))


class TensorEntryGradient(TensorGradient):
    """``G`` on the pattern, as the linear map ``Xᵀ G F``."""

    def __init__(self, term: TensorEntryTerm, G: Tensor) -> None:
        super().__init__(term.design)
        self._term, self.entries = term, G

    def _times(self, M: Tensor) -> Tensor:
        return self._term.pattern.times(self.entries, M)

    def _transposed_times(self, M: Tensor) -> Tensor:
        return self._term.pattern.by_label.product(self._by_label, M)

    @cached_property
    def _by_label(self) -> Tensor:
        return self._term.pattern.in_label_order(self.entries)

    def _by_features(self) -> Tensor:
        return self._design.rows.transposed_matrix(self._term.pattern, self.entries)

    def label_capacity(self, scale: float) -> Tensor | None:
        return None

    def conjugate(self, scale: float, capacity: Tensor | None = None) -> float:
        if scale == 0:
            return self._term.conjugate_at_zero
        return float(self._term.function.conjugate(self.entries, scale))
