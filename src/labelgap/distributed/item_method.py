"""The trace-norm problem of a recommender by Newton's method in the items alone.

In factored form, with k at least the rank of the solution,

    min_{A,B,b}  f(ABᵀ + 1bᵀ) + λ/2 (‖A‖² + ‖B‖²)

has the minimum of the convex problem in W. For given (B, b) the best A is found on the workers, user by user,
and trust-region Newton steps are made in (B, b), with the exact Hessian of what is left. So only (B, b), its
gradients and k x k Gram matrices travel. After each round the duality gap is computed. The leading right
singular vectors of the gradient, those above λ, become new columns of B; columns that died out are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labelgap._types import Floats
from labelgap.distributed.item_objective import ItemObjective, ItemState
from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Certificate, Penalties, dual_bound
from labelgap.solvers.growth import (
    GrowthMethod,
    fresh_directions,
    lengths_for,
    lowest_of,
    triplets_for,
)
from labelgap.solvers.linalg import Array, balanced, dot, product_values
from labelgap.solvers.loop import (
    Callback,
    Checkpoint,
    Fit,
    State,
    factors_from,
    factors_state,
    run,
)
from labelgap.solvers.newton import Variables
from labelgap.solvers.spectral import SingularTriplets, first_columns, leading_pairs
from labelgap.solvers.tuning import TUNED

# The accuracy of σ₁ as a fraction of the tolerance.
_ACCURACY = 0.05


class ItemMethod(GrowthMethod):
    """Rounds of growth and of Newton steps in the factors of the items."""

    _objective: ItemObjective  # type: ignore[assignment]
    _state: ItemState
    _directions: Floats | None = None

    def begin(self, start: Factors | None, kept: State | None) -> None:
        objective = self._objective
        right, b = np.zeros((objective.shape[1], 0)), objective.starting_intercept()
        if kept is not None:
            factors = factors_from(kept)
            right, b = factors.right, factors.intercept
            self._take_numbers(kept)
        elif start is not None:
            right, b = start.right[:, : self._cap], start.intercept
        self._state = ItemState(objective, self._penalties, right, b)

    def snapshot(self) -> Mapping[str, Array]:
        return {**factors_state(self.factors), **self._numbers()}

    @property
    def factors(self) -> Factors:
        """A stands for the users in as few rows as there are columns, with the same ``AᵀA``."""
        right, b = self._state.x
        return Factors(self._state.root, right, b)

    def at_zero(self) -> tuple[Factors, float, float]:
        right, b = np.zeros((self._objective.shape[1], 0)), self._objective.starting_intercept()
        state = ItemState(self._objective, self._penalties, right, b)
        return Factors(state.root, right, b), float(state.value), float(state.size)

    def _certified(self) -> Certificate:
        state, penalties = self._state, self._penalties
        right, b = state.x
        free = penalties.intercept == 0
        values = product_values(state.root, right) if right.shape[1] else np.zeros(0)
        primal = float(state.data) + penalties.of(values, b)
        size = self._objective.shape[1]
        count = min(triplets_for(right.shape[1]), size)
        found, vectors, error = leading_pairs(
            lambda V: state.normal_product(V, balanced=free),
            first_columns(size, count, self._directions),
            count,
            _ACCURACY * self._tol,
        )
        self._directions = vectors
        top = float(found[0]) + error
        dual = dual_bound(lambda scale: self._data_dual(scale, free), penalties, top, 0.0, lambda: 0.0)
        residual = SingularTriplets(np.zeros((0, len(found))), found, vectors, top)
        return Certificate(primal, dual, residual, float(state.size))

    def _data_dual(self, scale: float, free: bool) -> float:
        penalties = self._penalties
        value = -self._state.conjugate(scale, balanced=free)
        if not free:
            sums = self._state.sums[0] + self._state.sums[1]
            value += scale * penalties.centre * float(sums.sum())
            value -= scale * scale * dot(sums, sums) / (2 * penalties.intercept)
        return value

    def _grown(self) -> ItemState:
        state, penalties = self._state, self._penalties
        right, b = state.x
        _, V, surplus = fresh_directions(
            self._certificate.residual, penalties.trace, right, self._cap, 0.1 * self._tol, side="right"
        )
        if not len(surplus):
            return state
        lengths = lengths_for(surplus, state.curvature(V, balanced=penalties.intercept == 0))

        def grown(shorter: float) -> ItemState:
            return ItemState(self._objective, penalties, np.hstack([right, shorter * lengths * V]), b)

        return lowest_of(grown, state.value)

    def _settle(self, x: Variables) -> None:
        right, b = x
        state = ItemState(self._objective, self._penalties, right, b)
        if right.shape[1]:
            # The split at which ½(‖A‖² + ‖B‖²) is the trace norm; what died out is dropped.
            right = np.ascontiguousarray(balanced(state.root, right, TUNED.dead)[2][:, : self._cap])
            state = ItemState(self._objective, self._penalties, right, b)
        self._state = state


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
