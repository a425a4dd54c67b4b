"""Scores ``XW + N + 1bᵀ`` at one place: the penalised objective, its derivatives and its duality gap.

What they are for is told in :mod:`labelgap.solvers.row_part`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from labelgap.objective.protocol import Factors, Objective, Point, ScoreGradient, may_form
from labelgap.solvers.certificate import Certificate, DataDual, Penalties, dual_bound, squared_norm
from labelgap.solvers.growth import triplets_for
from labelgap.solvers.linalg import Array, contiguous, dot, rounding
from labelgap.solvers.newton import RESOLUTION, FactorPenalty, Variables, positive_diagonal
from labelgap.solvers.spectral import LowRankShift, SingularTriplets, leading_triplets

# Columns of XᵀG that are formed at a time.
_BLOCK = 64


class RowFeatures(Protocol):
    """X as a linear map."""

    n_features: int
    n_stored: int

    def product(self, M: Array) -> Array:
        """``X M``."""
        ...

    def transposed_product(self, M: Array) -> Array:
        """``Xᵀ M``."""
        ...

    def squared_transposed_product(self, M: Array) -> Array:
        """``(X∘X)ᵀ M``."""
        ...


class JointFactors(NamedTuple):
    """``W = left @ right.T``, ``N = row_left @ row_right.T``, and one intercept per label."""

    left: Array
    right: Array
    row_left: Array
    row_right: Array
    intercept: Array

    @property
    def rank(self) -> int:
        return int(self.left.shape[1])

    @property
    def row_rank(self) -> int:
        return int(self.row_left.shape[1])

    @property
    def shared(self) -> Factors:
        """The model without N, for rows of which nothing but features is known."""
        return Factors(self.left, self.right, self.intercept)

    @classmethod
    def without_rows(cls, factors: Factors, n_rows: int) -> JointFactors:
        """The same model with N = 0."""
        none = np.zeros((n_rows, 0)), np.zeros((len(factors.right), 0))
        return cls(factors.left, factors.right, *none, factors.intercept)


@dataclass(frozen=True)
class JointProblem:
    """The data term for rows with parameters of their own, the features beside them, and the penalties.

    ``objective`` is one with ``X = I`` (and ``Z = P Fᵀ``); here P is ``[XA, C]``.
    """

    objective: Objective
    features: RowFeatures
    penalties: Penalties
    row_penalty: float
    """μ, above 0."""

    @property
    def row_penalties(self) -> Penalties:
        return Penalties(self.row_penalty)

    def at(self, x: JointFactors) -> Point:
        xp = self.objective.xp
        P = xp.concat([self.features.product(x.left), x.row_left], axis=1)
        return self.objective.at(Factors(P, xp.concat([x.right, x.row_right], axis=1), x.intercept))


class JointState:
    """The penalised objective in (A, B, C, D, b) at one place, for Newton's method."""

    def __init__(self, problem: JointProblem, x: JointFactors, point: Point | None = None) -> None:
        self._problem, self.x = problem, x
        self._point: Point | None = problem.at(x) if point is None else point
        self._of_W = FactorPenalty(problem.penalties, x.left, x.right)
        self._of_N = FactorPenalty(problem.row_penalties, x.row_left, x.row_right)
        parts = (
            self._of_W.of_factors,
            self._of_W.of_product,
            self._of_N.of_factors,
            problem.penalties.of_intercept(x.intercept),
        )
        self.value = self.point.value + sum(parts)
        self.resolution = RESOLUTION * rounding(x.intercept) * max(abs(self.value), self.point.size)

    @property
    def point(self) -> Point:
        if self._point is None:
            self._point = self._problem.at(self.x)
        return self._point

    def release(self) -> None:
        self._point = None

    def _split(self, by_row: Array, by_label: Array) -> tuple[Array, Array, Array, Array]:
        """What belongs to A (still for P = XA), B, C and D."""
        k = self.x.rank
        return by_row[:, :k], by_label[:, :k], by_row[:, k:], by_label[:, k:]

    def gradient(self) -> JointFactors:
        by_row, by_label, db = self.point.gradient()
        P, B, C, D = self._split(by_row, by_label)
        A = self._problem.features.transposed_product(contiguous(P))
        db = db + self._problem.penalties.intercept_slope(self.x.intercept)
        return JointFactors(*self._of_W.add_to_gradient(A, B), *self._of_N.add_to_gradient(C, D), db)

    def hessian_product(self, direction: Variables) -> JointFactors:
        xp, features = self._problem.objective.xp, self._problem.features
        dA, dB, dC, dD, db = direction
        along = Factors(xp.concat([features.product(dA), dC], axis=1), xp.concat([dB, dD], axis=1), db)
        by_row, by_label, hb = self.point.hessian_product(along)
        P, B, C, D = self._split(by_row, by_label)
        A = features.transposed_product(contiguous(P))
        return JointFactors(
            *self._of_W.add_to_product(A, B, dA, dB),
            *self._of_N.add_to_product(C, D, dC, dD),
            hb + self._problem.penalties.intercept * db,
        )

    def preconditioner(self) -> JointFactors:
        by_row, by_label, db = self.point.hessian_diagonal()
        P, B, C, D = self._split(by_row, by_label)
        A = self._problem.features.squared_transposed_product(contiguous(P))
        diagonal = (
            *self._of_W.add_to_diagonal(A, B),
            *self._of_N.add_to_diagonal(C, D),
            db + self._problem.penalties.intercept,
        )
        return JointFactors(*positive_diagonal(diagonal))

    def moved_to(self, x: Variables) -> JointState:
        return JointState(self._problem, JointFactors(*x))


# -- the certificate ---------------------------------------------------------------------------------------


class FeatureGradient:
    """``Xᵀ G F`` from the gradient ``G F`` of an objective with X = I."""

    def __init__(self, gradient: ScoreGradient, features: RowFeatures, n_columns: int) -> None:
        self._gradient, self._features, self._n_columns = gradient, features, n_columns

    def left_product(self, V: Array) -> Array:
        return self._features.transposed_product(contiguous(self._gradient.left_product(V)))

    def right_product(self, U: Array) -> Array:
        return self._gradient.right_product(contiguous(self._features.product(U)))

    def matrix(self) -> Array:
        columns = range(0, self._n_columns, _BLOCK)
        parts = [
            self.left_product(np.eye(self._n_columns, min(_BLOCK, self._n_columns - start), k=-start))
            for start in columns
        ]
        return np.concatenate(parts, axis=1)

    def label_capacity(self, scale: float) -> Array | None:
        return self._gradient.label_capacity(scale)

    def conjugate(self, scale: float, capacity: Array | None = None) -> float:
        return self._gradient.conjugate(scale, capacity)


@dataclass(frozen=True)
class JointCertificate(Certificate):
    """A bound on the optimum over all W, N and b."""

    row_residual: SingularTriplets | None = None
    """Leading singular triplets of G; above μ they are directions in which N should grow."""


def certify_joint(problem: JointProblem, state: JointState) -> JointCertificate:
    """Bound the distance of a state, whose factors are balanced, from the optimum."""
    objective, penalties, x = problem.objective, problem.penalties, state.x
    dual = DataDual(objective, state.point, penalties)
    n, n_columns = objective.shape
    shape = problem.features.n_features, n_columns
    by_features = FeatureGradient(dual.gradient, problem.features, n_columns)
    shift = LowRankShift(by_features, x.left, x.right, scale=penalties.ridge)
    formed = may_form(shape, objective.n_stored + problem.features.n_stored)
    residual = leading_triplets(shift, shape, triplets_for(x.rank), formed)
    row_shift = LowRankShift(dual.gradient, x.row_left, x.row_right, scale=0.0)
    row_residual = leading_triplets(row_shift, (n, n_columns), triplets_for(x.row_rank), objective.may_form)
    lower = dual_bound(
        dual,
        penalties,
        residual.top,
        dot(x.left.T @ x.left, x.right.T @ x.right),
        lambda: squared_norm(by_features, n_columns, x.intercept),
        most=min(1.0, problem.row_penalty / row_residual.top) if row_residual.top > 0 else 1.0,
    )
    return JointCertificate(float(state.value), lower, residual, state.point.size, row_residual)


def smallest_useless_penalty(problem: JointProblem, factors: Factors) -> float:
    """``σ₁(G)`` at the optimum without N: for this μ and every larger one N = 0 is optimal."""
    state = JointState(problem, JointFactors.without_rows(factors, problem.objective.shape[0]))
    dual = DataDual(problem.objective, state.point, problem.penalties)
    x = state.x
    shift = LowRankShift(dual.gradient, x.row_left, x.row_right, scale=0.0)
    return leading_triplets(shift, problem.objective.shape, 1, problem.objective.may_form).top
