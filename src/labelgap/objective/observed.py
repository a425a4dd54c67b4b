"""The data term over observed entries: ``f(Z) = Σ_Ω ω_ij ℓ(z_ij, y_ij) / Σ_Ω ω_ij``."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.label_rates import smoothed_rates
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.objective.features import Features
from labelgap.objective.kernels.entries import curvature_rows
from labelgap.objective.pattern import EntryPattern
from labelgap.objective.protocol import Factors, Point, ScoreGradient


class EntryFunction(Protocol):
    """A convex function of the score at each entry, with whatever per-entry data it holds."""

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        """The sum over entries, and the derivative at each."""
        ...

    def curvature(self, z: Floats) -> Floats: ...

    def conjugate(self, gradient: Floats) -> float:
        """Sum over entries of the convex conjugate at ``gradient``."""
        ...


class EntryTerm:
    """A sum over entries of a convex function of the score ``x_i · w_j (+ b_j)``."""

    def __init__(
        self,
        features: Features,
        pattern: EntryPattern,
        function: EntryFunction,
        *,
        has_intercept: bool,
        starting_intercept: Floats | None = None,
    ) -> None:
        self.features = features
        self.pattern = pattern
        self.function = function
        self.has_intercept = has_intercept
        self.n_features = features.n_features
        self.n_labels = pattern.n_labels
        self.n_stored = features.n_stored + len(pattern)
        self._start = np.zeros(self.n_labels) if starting_intercept is None else starting_intercept

    def starting_intercept(self) -> Floats:
        return self._start.copy()

    def at(self, factors: Factors) -> Point:
        left = np.ascontiguousarray(factors.left)
        right = np.ascontiguousarray(factors.right)
        low_rank, P = self.features.scores_at(self.pattern, left, right)
        return EntryPoint(self, Factors(left, right, factors.intercept), low_rank, P)


class EntryPoint:
    """An :class:`EntryTerm` at one ``(A, B, b)``; ``P = XA`` and the scores are computed once."""

    def __init__(self, term: EntryTerm, factors: Factors, low_rank: Floats, P: Floats | None = None) -> None:
        self._term = term
        self._pattern = term.pattern
        self._factors = factors
        self._low_rank = low_rank
        if P is not None:
            self._P = P
        z = low_rank
        if term.has_intercept:
            z = low_rank + factors.intercept[self._pattern.indices]
        self.scores = z
        self.value, self.entry_gradient = term.function.value_and_gradient(z)

    @property
    def factors(self) -> Factors:
        return self._factors

    @cached_property
    def _P(self) -> Floats:
        return np.ascontiguousarray(self._term.features.product(self._factors.left))

    @cached_property
    def _curvature(self) -> Floats:
        return self._term.function.curvature(self.scores)

    def _intercept_part(self, data: Floats) -> Floats:
        if not self._term.has_intercept:
            return np.zeros(self._term.n_labels)
        return self._pattern.label_sums(data)

    def gradient(self) -> Factors:
        G = self.entry_gradient
        return Factors(
            self._term.features.transposed_product(self._pattern.times(G, self._factors.right)),
            self._pattern.transposed_times(G, self._P),
            self._intercept_part(G),
        )

    def hessian_product(self, direction: Factors) -> Factors:
        pattern, features = self._pattern, self._term.features
        db = direction.intercept if self._term.has_intercept else np.zeros(self._term.n_labels)
        dP = np.ascontiguousarray(features.product(np.ascontiguousarray(direction.left)))
        dB = np.ascontiguousarray(direction.right)
        G = self.entry_gradient
        bent, by_row = curvature_rows(
            pattern.indptr, pattern.indices, self._P, dP, self._factors.right, dB, db, self._curvature, G
        )
        return Factors(
            features.transposed_product(by_row),
            pattern.transposed_times_pair(bent, self._P, G, dP),
            self._intercept_part(bent),
        )

    def hessian_diagonal(self) -> Factors:
        D, B = self._curvature, self._factors.right
        return Factors(
            self._term.features.squared_transposed_product(self._pattern.times(D, B * B)),
            self._pattern.transposed_times(D, self._P * self._P),
            self._intercept_part(D),
        )

    def curvature_along(self, U: Floats, V: Floats) -> Floats:
        XU = self._term.features.product(np.ascontiguousarray(U))
        along = np.einsum("ic,ic->c", XU * XU, self._pattern.times(self._curvature, V * V))
        return np.asarray(along)

    def label_derivatives(self) -> tuple[Floats, Floats]:
        return self._intercept_part(self.entry_gradient), self._intercept_part(self._curvature)

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        G = self.entry_gradient
        return self._intercept_part(np.maximum(G, 0)), self._intercept_part(np.minimum(G, 0))

    def score_gradient(self, balance: tuple[Floats, Floats] | None = None) -> ScoreGradient:
        G = self.entry_gradient
        if balance is not None and self._term.has_intercept:
            up, down = balance
            labels = self._pattern.indices
            G = G * np.where(G > 0, up[labels], down[labels])
        return EntryGradient(self._term, G)

    def with_intercept(self, intercept: Floats) -> Point:
        return EntryPoint(
            self._term,
            self._factors._replace(intercept=intercept),
            self._low_rank,
            self.__dict__.get("_P"),
        )

    def beyond(self, previous: Point, share: float) -> Point:
        assert isinstance(previous, EntryPoint)
        here, before = self._factors, previous._factors
        factors = Factors(
            np.hstack([here.left, before.left]),
            np.hstack([(1 + share) * here.right, -share * before.right]),
            here.intercept + share * (here.intercept - before.intercept),
        )
        low_rank = self._low_rank + share * (self._low_rank - previous._low_rank)
        return EntryPoint(self._term, factors, low_rank)

    def slope_towards(self, other: Point) -> float:
        assert isinstance(other, EntryPoint)
        return float(self.entry_gradient @ (other._low_rank - self._low_rank))


class EntryGradient:
    """``G`` on the pattern, as the linear map ``Xᵀ G``."""

    def __init__(self, term: EntryTerm, G: Floats) -> None:
        self._term, self.entries = term, G

    def left_product(self, V: Floats) -> Floats:
        by_row = self._term.pattern.times(self.entries, np.ascontiguousarray(V))
        return self._term.features.transposed_product(by_row)

    def right_product(self, U: Floats) -> Floats:
        XU = np.ascontiguousarray(self._term.features.product(np.ascontiguousarray(U)))
        return self._term.pattern.transposed_times(self.entries, XU)

    def matrix(self) -> Floats:
        return self._term.features.transposed_matrix(self._term.pattern, self.entries)

    def conjugate(self, scale: float) -> float:
        return self._term.function.conjugate(scale * self.entries)


class WeightedLoss:
    """``Σ ω_e ℓ(z_e, y_e) / total``."""

    def __init__(self, loss: Loss, values: NDArray[Any], weights: Floats | None, total: float) -> None:
        self._loss, self._y = loss, values
        self._share: Floats | float = (1.0 if weights is None else weights) / total

    def value_and_gradient(self, z: Floats) -> tuple[float, Floats]:
        value, gradient = self._loss.value_and_gradient(z, self._y)
        return float(np.sum(value * self._share)), np.asarray(gradient * self._share, dtype=np.float64)

    def curvature(self, z: Floats) -> Floats:
        return np.asarray(self._loss.curvature(z, self._y) * self._share, dtype=np.float64)

    def conjugate(self, gradient: Floats) -> float:
        return float(np.sum(self._loss.conjugate(gradient / self._share, self._y) * self._share))


def observed_objective(
    features: Features,
    labels: ObservedLabels,
    loss: Loss,
    *,
    fit_intercept: bool,
    free_intercept: bool = True,
) -> EntryTerm:
    """The mean loss over the observed entries.

    A label observed with one class only has its optimum at ``w_j = 0`` with an intercept that makes its loss
    vanish (at infinity for the logistic loss). So with a free (unpenalised) intercept its entries are left
    out of the sum and its intercept is set from a smoothed rate, ``link((positives + ½)/(observed + 1))``. A
    label without observations gets the overall rate.
    """
    total = float(labels.n_observed if labels.weights is None else labels.weights.sum())
    start = None
    kept = labels
    if fit_intercept:
        rates, informative = smoothed_rates(labels)
        start = np.asarray(loss.link(rates), dtype=np.float64)
        if free_intercept and not informative.all():
            kept = labels.select(informative[labels.indices])
    return EntryTerm(
        features,
        EntryPattern(kept.indptr, kept.indices, labels.shape[1]),
        WeightedLoss(loss, kept.values, kept.weights, total),
        has_intercept=fit_intercept,
        starting_intercept=start,
    )
