"""A sum of objectives over the same W: several terms, or the row partitions of one data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.objective.limits import may_form
from labelgap.objective.protocol import Factors, Objective, Point, Rowwise, ScoreGradient


def _total(arrays: Sequence[Floats]) -> Floats:
    return np.asarray(np.sum(arrays, axis=0))


def _add(parts: Sequence[Factors]) -> Factors:
    return Factors(*(_total(arrays) for arrays in zip(*parts, strict=True)))


class SumObjective:
    """``Σ f_t``; each answer is the sum of the terms' answers."""

    def __init__(self, terms: Sequence[Objective]) -> None:
        self._terms = tuple(terms)
        first = self._terms[0]
        self.shape, self.n_labels = first.shape, first.n_labels
        self.n_stored = sum(term.n_stored for term in self._terms)
        self.xp, self.dtype = first.xp, first.dtype
        self.may_form = may_form(self.shape, self.n_stored)
        self.has_intercept = any(term.has_intercept for term in self._terms)

    def starting_intercept(self) -> Floats:
        return self._terms[0].starting_intercept()

    def at(self, factors: Factors, product: Floats | None = None) -> Point:
        return SumPoint([term.at(factors, product) for term in self._terms])

    def rowwise(self, dtype: Any) -> Rowwise | None:
        """None: a row's problem would have to gather its entries from all terms."""
        return None


class SumPoint:
    """A :class:`SumObjective` at one place."""

    def __init__(self, parts: Sequence[Point]) -> None:
        self.parts = tuple(parts)
        self.value = float(sum(part.value for part in self.parts))
        self.size = float(sum(part.size for part in self.parts))

    @property
    def factors(self) -> Factors:
        return self.parts[0].factors

    def gradient(self) -> Factors:
        return _add([part.gradient() for part in self.parts])

    def hessian_product(self, direction: Factors) -> Factors:
        return _add([part.hessian_product(direction) for part in self.parts])

    def hessian_diagonal(self) -> Factors:
        return _add([part.hessian_diagonal() for part in self.parts])

    def curvature_along(self, U: Floats, V: Floats) -> Floats:
        return _total([part.curvature_along(U, V) for part in self.parts])

    def label_curvature(self) -> Floats:
        return _total([part.label_curvature() for part in self.parts])

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        up, down = zip(*(part.signed_label_sums() for part in self.parts), strict=True)
        return _total(up), _total(down)

    def score_gradient(self, balance: tuple[Floats, Floats] | None = None) -> ScoreGradient:
        return SumGradient([part.score_gradient(balance) for part in self.parts])

    def with_intercept(self, intercept: Floats) -> Point:
        return SumPoint([part.with_intercept(intercept) for part in self.parts])

    def beyond(self, previous: Point, share: float) -> Point:
        assert isinstance(previous, SumPoint)
        pairs = zip(self.parts, previous.parts, strict=True)
        return SumPoint([part.beyond(before, share) for part, before in pairs])

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, SumPoint)
        pairs = zip(self.parts, other.parts, strict=True)
        return sum(part.slope_towards(there) for part, there in pairs)


class SumGradient:
    """The sum of the terms' score gradients."""

    def __init__(self, parts: Sequence[ScoreGradient]) -> None:
        self.parts = tuple(parts)

    def left_product(self, V: Floats) -> Floats:
        return _total([part.left_product(V) for part in self.parts])

    def right_product(self, U: Floats) -> Floats:
        return _total([part.right_product(U) for part in self.parts])

    def matrix(self) -> Floats:
        return _total([part.matrix() for part in self.parts])

    def conjugate(self, scale: float) -> float:
        return float(sum(part.conjugate(scale) for part in self.parts))
