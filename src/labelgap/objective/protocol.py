"""The data term as the solvers see it.

A solver knows nothing of losses, kernels or where the entries live. It asks an :class:`Objective` for the
data term at a low-rank ``W = A Bᵀ`` and an intercept ``b``, and gets a :class:`Point` that answers every
further question there (gradient, curvature, dual) without repeating work. All answers are sums over the
entries, so a sum of objectives, over several terms or the partitions of a cluster, is an objective again.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from labelgap._types import Floats


class Factors(NamedTuple):
    """A low-rank parameter ``W = left @ right.T`` (d x k, L x k) with one intercept per label.

    Also used for a direction in that space and for a gradient with respect to it.
    """

    left: Floats
    right: Floats
    intercept: Floats

    @property
    def rank(self) -> int:
        return int(self.left.shape[1])

    @classmethod
    def zero(cls, n_features: int, n_labels: int, intercept: Floats) -> Factors:
        """``W = 0``."""
        return cls(np.zeros((n_features, 0)), np.zeros((n_labels, 0)), np.array(intercept, dtype=float))


@runtime_checkable
class ScoreGradient(Protocol):
    """The gradient ``G`` of the data term with respect to the scores, on the entries, as a linear map."""

    def left_product(self, V: Floats) -> Floats:
        """``Xᵀ G V`` (d x r)."""
        ...

    def right_product(self, U: Floats) -> Floats:
        """``Gᵀ X U`` (L x r)."""
        ...

    def matrix(self) -> Floats:
        """``Xᵀ G`` as a dense d x L array, for callers that know it to be small."""
        ...

    def conjugate(self, scale: float) -> float:
        """``f*(scale · G)``, the convex conjugate of the data term as a function of the scores."""
        ...


@runtime_checkable
class Point(Protocol):
    """The data term at one ``(A, B, b)``."""

    @property
    def factors(self) -> Factors: ...

    @property
    def value(self) -> float:
        """``f(XABᵀ + 1bᵀ)``."""
        ...

    def gradient(self) -> Factors:
        """With respect to A, B and b."""
        ...

    def hessian_product(self, direction: Factors) -> Factors:
        """The full Hessian in (A, B, b) times a direction, the cross term through G included."""
        ...

    def hessian_diagonal(self) -> Factors:
        """The diagonal of that Hessian (never negative: the cross term has none)."""
        ...

    def curvature_along(self, U: Floats, V: Floats) -> Floats:
        """Second derivative of f along each rank-one ``u vᵀ`` in W (columns of U and V)."""
        ...

    def label_derivatives(self) -> tuple[Floats, Floats]:
        """First and second derivative of f in each label's intercept."""
        ...

    def signed_label_sums(self) -> tuple[Floats, Floats]:
        """Per label, the sum of the positive and of the negative entries of G (intercept terms only)."""
        ...

    def score_gradient(self, balance: tuple[Floats, Floats] | None = None) -> ScoreGradient:
        """G; with ``balance``, its positive and negative entries times one factor per label each."""
        ...

    def with_intercept(self, intercept: Floats) -> Point:
        """The same W with another b, for the price of the losses alone."""
        ...

    def beyond(self, previous: Point, share: float) -> Point:
        """At ``W + share (W − W_previous)``, b likewise; scores are linear, so only losses are computed."""
        ...

    def slope_towards(self, other: Point) -> float:
        """``⟨∇f, W_other − W⟩``, the derivative along the way to another point's W (b held)."""
        ...


@runtime_checkable
class Objective(Protocol):
    """A smooth convex function of the scores on some entries."""

    @property
    def n_features(self) -> int: ...

    @property
    def n_labels(self) -> int: ...

    @property
    def n_stored(self) -> int:
        """Numbers that the data take (entries and features): the yardstick for what may be allocated."""
        ...

    @property
    def has_intercept(self) -> bool: ...

    def starting_intercept(self) -> Floats:
        """The best intercept at W = 0 (zeros without one)."""
        ...

    def at(self, factors: Factors) -> Point: ...
