"""The trace-norm problem of a recommender by Newton's method in the items alone.

In factored form, with k at least the rank of the solution,

    min_{A,B,b}  f(ABᵀ + 1bᵀ) + λ/2 (‖A‖² + ‖B‖²)

has the minimum of the convex problem in W. For given (B, b) the best A is found on the workers, user by user,
and trust-region Newton steps are made in (B, b), with the exact Hessian of what is left. So only (B, b), its
gradients and k x k Gram matrices travel. After each round the duality gap is computed. The leading right
singular vectors of the gradient, those above λ, become new columns of B; columns that died out are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from labelgap._types import Floats
from labelgap.distributed.item_objective import ItemObjective, ItemState, leading_pairs
from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Factors
from labelgap.solvers import newton
from labelgap.solvers.certificate import Certificate, Penalties
from labelgap.solvers.linalg import Array, balanced, dot, product_values, thin_qr
from labelgap.solvers.loop import (
    Callback,
    Checkpoint,
    Fit,
    Method,
    State,
    factors_from,
    factors_state,
    run,
    scalars,
)
from labelgap.solvers.spectral import SingularTriplets

# Directions of W below this fraction of the largest are dead.
_DEAD = 1e-6
# Columns that are added at most in a round: the rank may double.
_FIRST_COLUMNS, _MAX_NEW_COLUMNS = 8, 64
# A round of Newton steps ends when a step gains less than this fraction of the gap that is still open.
_ROUND_FRACTION = 0.05
# The accuracy of σ₁² as a fraction of the tolerance.
_ACCURACY = 0.05
# Rounds in which the gap may fail to shrink before the steps have died out.
_PATIENCE = 6
_SHRUNK = 0.7
# A shrinking of the gradient beyond which the point is far from the optimum.
_FAR = 0.5


class ItemMethod(Method):
    """Rounds of growth and of Newton steps in the factors of the items."""

    _objective: ItemObjective  # type: ignore[assignment]
    _state: ItemState
    _certificate: Certificate
    _dual = -math.inf
    _best_gap = math.inf
    _waiting = 0
    _radius: float | None = None
    _directions: Floats | None = None

    def begin(self, start: Factors | None, kept: State | None) -> None:
        objective = self._objective
        right, b = np.zeros((objective.shape[1], 0)), objective.starting_intercept()
        if kept is not None:
            factors = factors_from(kept)
            right, b = factors.right, factors.intercept
            self.iteration, self._dual = int(kept["steps"]), float(kept["dual"])
            self._best_gap, self._waiting = float(kept["best_gap"]), int(kept["waiting"])
        elif start is not None:
            right, b = start.right[:, : self._cap], start.intercept
        self._state = ItemState(objective, self._penalties, right, b)

    def snapshot(self) -> Mapping[str, Array] | None:
        numbers = scalars(
            steps=self.iteration, dual=self._dual, best_gap=self._best_gap, waiting=self._waiting
        )
        return {**factors_state(self.factors), **numbers}

    @property
    def factors(self) -> Factors:
        """A stands for the users in as few rows as there are columns, with the same ``AᵀA``."""
        right, b = self._state.x
        return Factors(self._state.root, right, b)

    @property
    def stalled(self) -> bool:
        return self._waiting > _PATIENCE

    @property
    def capped(self) -> bool:
        return bool(self._state.x[0].shape[1] >= self._cap < self._full)

    def at_zero(self) -> tuple[Factors, float, float]:
        right, b = np.zeros((self._objective.shape[1], 0)), self._objective.starting_intercept()
        state = ItemState(self._objective, self._penalties, right, b)
        return Factors(state.root, right, b), float(state.value), float(state.size)

    # -- the certificate ---------------------------------------------------------------------------------

    def certify(self) -> Certificate:
        state, penalties = self._state, self._penalties
        right, b = state.x
        free = penalties.intercept == 0
        values = product_values(state.root, right) if right.shape[1] else np.zeros(0)
        primal = float(state.data) + penalties.of(values, b)
        size = self._objective.shape[1]
        count = min(max(_FIRST_COLUMNS, right.shape[1]), _MAX_NEW_COLUMNS, size)
        roots, vectors, top = leading_pairs(
            lambda V: state.normal_product(V, balanced=free),
            size,
            count,
            _ACCURACY * self._tol,
            self._directions,
        )
        self._directions = vectors
        scale = min(1.0, penalties.trace / top) if top > 0 else 1.0
        dual = self._data_dual(scale, free)
        if scale < _FAR:
            # Far from the optimum no slopes at all may prove more.
            dual = max(dual, self._data_dual(0.0, free))
        residual = SingularTriplets(np.zeros((0, len(roots))), roots, vectors, top)
        found = Certificate(float(primal), float(dual), residual, float(state.size)).with_bound(self._dual)
        self._certificate, self._dual = found, found.dual
        return found

    def _data_dual(self, scale: float, free: bool) -> float:
        penalties = self._penalties
        value = -self._state.conjugate(scale, balanced=free)
        if not free:
            sums = self._state.sums[0] + self._state.sums[1]
            value += scale * penalties.centre * float(sums.sum())
            value -= scale * scale * dot(sums, sums) / (2 * penalties.intercept)
        return value

    # -- steps ---------------------------------------------------------------------------------------------

    def step(self, stopping: Callable[[], bool]) -> None:
        gap = self._certificate.gap
        self._waiting = 0 if gap < _SHRUNK * self._best_gap else self._waiting + 1
        self._best_gap = min(self._best_gap, gap)
        grown = self._grown()
        steps_left = self._max_iter - self.iteration
        if grown is not None:
            report = newton.minimise(
                grown, enough=_ROUND_FRACTION * gap, max_steps=steps_left, stopping=stopping
            )
        else:
            report = newton.minimise(
                self._state,
                enough=_ROUND_FRACTION * gap,
                max_steps=steps_left,
                radius=self._radius,
                forcing=0.1,
                stopping=stopping,
            )
        self.iteration, self._radius = self.iteration + report.steps, report.radius
        state: ItemState = report.state
        right, b = state.x
        if right.shape[1]:
            # The split at which ½(‖A‖² + ‖B‖²) is the trace norm; what died out is dropped.
            right = np.ascontiguousarray(balanced(state.root, right, _DEAD)[2][:, : self._cap])
        self._state = ItemState(self._objective, self._penalties, right, b)

    def _grown(self) -> ItemState | None:
        """With new columns along the steepest directions, shorter ones where that lowers the objective."""
        state, penalties, residual = self._state, self._penalties, self._certificate.residual
        right, b = state.x
        fresh = residual.values > penalties.trace * (1 + 0.1 * self._tol)
        if right.shape[1]:
            inside = np.sum(np.square(thin_qr(right)[0].T @ residual.right), axis=0)
            fresh &= inside < 0.5
        chosen = np.flatnonzero(fresh)[: self._cap - right.shape[1]]
        if not len(chosen):
            return None
        V = residual.right[:, chosen]
        surplus = residual.values[chosen] - penalties.trace
        curvature = state.curvature(V, balanced=penalties.intercept == 0)
        lengths = np.sqrt(surplus / np.maximum(curvature, np.finfo(float).tiny))
        grown = state
        for _ in range(4):
            grown = ItemState(self._objective, penalties, np.hstack([right, lengths * V]), b)
            if grown.value < state.value:
                break
            lengths = 0.5 * lengths
        return grown


def solve_items(
    objective: ItemObjective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 500,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fit:
    """Minimise to a relative duality gap of ``tol``; ``factors.left`` stands for the users' Gram matrix."""
    if penalties.trace == 0 or penalties.ridge != 0:
        raise InvalidParameterError(
            "On a cluster a recommender needs a trace_penalty above 0, and has no ridge_penalty."
        )
    method = ItemMethod(objective, penalties, rank=rank, tol=tol, max_iter=max_iter)  # type: ignore[arg-type]
    return run(method, tol=tol, warm_start=warm_start, callback=callback, checkpoint=checkpoint)
