"""A round of alternating minimisation: (B, b) given A, then A given (B, b).

Where every row and every label has entries of its own, a round is one Newton step for each of them, all at
once; elsewhere it is two convex problems solved by conjugate gradients.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from labelgap._types import Floats
from labelgap.objective.protocol import Factors, Objective, Rowwise
from labelgap.solvers import newton
from labelgap.solvers.factored_state import FactoredState
from labelgap.solvers.linalg.spectral import balanced
from labelgap.solvers.penalties import Penalties

# Share of a block's gradient that the conjugate gradients leave, and that a turn may leave.
_FORCING, _TURN = 0.1, 0.2
_MAX_NEWTON_STEPS = 10
# The trust region's first radius in preconditioned gradient steps: a convex problem hardly needs one.
_FAR = 1e6
# How much longer than to the minimum a step goes: over-relaxation, which alternation gains from.
_STRETCH = 1.4
# The least relative gap that single precision is good for.
_SINGLE = 1e-4


class Turns(Protocol):
    """Rounds from a place to the next, each at a lower objective."""

    def round(self) -> float:
        """One round; returns what it gained, or about as much."""
        ...

    def factors(self) -> Factors:
        """Where the rounds have come to, balanced."""
        ...

    def restart(self) -> None:
        """Go on from :meth:`factors`, as a run that begins there would."""
        ...


def make_turns(objective: Objective, penalties: Penalties, start: Factors, tol: float) -> Turns:
    """The fastest rounds that the objective allows for."""
    steps = objective.rowwise(np.float32 if tol >= _SINGLE else np.float64)
    if steps is None:
        return BlockTurns(objective, penalties, start)
    return RowTurns(steps, penalties, start)


class RowTurns:
    """Rounds of Newton steps row by row."""

    def __init__(self, steps: Rowwise, penalties: Penalties, start: Factors) -> None:
        self._steps, self._penalties = steps, penalties
        self._at = steps.start(start)
        self._stretch = 1.0 if not start.right.any() else _STRETCH

    def round(self) -> float:
        gained = self._steps.step_labels(self._at, self._penalties, self._stretch)
        gained += self._steps.step_rows(self._at, self._penalties, self._stretch)
        self._at.balance()
        # From B = 0 there is nothing to relax.
        self._stretch = _STRETCH
        return gained

    def factors(self) -> Factors:
        factors: Factors = self._at.factors()
        return factors

    def restart(self) -> None:
        self._at = self._steps.start(self.factors())


class BlockTurns:
    """Rounds of two convex problems, each by Newton's method with conjugate gradients."""

    def __init__(self, objective: Objective, penalties: Penalties, start: Factors) -> None:
        self._objective, self._penalties, self._factors = objective, penalties, start

    def round(self) -> float:
        state = FactoredState(self._objective, self._penalties, self._objective.at(self._factors))
        split = self._factors.left.size
        whole = minimise_block(RememberedState(state), slice(split, None))
        after = minimise_block(whole, slice(0, split)).state
        self._factors = balanced_factors(after.point.factors, self._factors.rank)
        return state.value - after.value

    def factors(self) -> Factors:
        return self._factors

    def restart(self) -> None:
        """A round knows nothing beside the factors."""


def balanced_factors(factors: Factors, cap: int) -> Factors:
    """The same W with ``½(‖A‖² + ‖B‖²) = ‖W‖_*``, its smallest value; F can only fall."""
    _, left, right = balanced(factors.left, factors.right)
    return Factors(
        np.ascontiguousarray(left[:, :cap]), np.ascontiguousarray(right[:, :cap]), factors.intercept
    )


class RememberedState:
    """A :class:`FactoredState` whose gradient, needed by both turns, is computed once."""

    def __init__(self, state: FactoredState) -> None:
        self.state = state

    @cached_property
    def gradient(self) -> Floats:
        return self.state.gradient()

    @cached_property
    def preconditioner(self) -> Floats:
        return self.state.preconditioner()


class BlockState:
    """F as a function of one block of its variables, the others held."""

    def __init__(self, whole: RememberedState, block: slice) -> None:
        self.whole, self._block = whole, block
        self.x, self.value = whole.state.x[block], whole.state.value

    def gradient(self) -> Floats:
        return self.whole.gradient[self._block]

    def preconditioner(self) -> Floats:
        return self.whole.preconditioner[self._block]

    def hessian_product(self, direction: Floats) -> Floats:
        whole = np.zeros_like(self.whole.state.x)
        whole[self._block] = direction
        return self.whole.state.hessian_product(whole)[self._block]

    def moved_to(self, x: Floats) -> BlockState:
        whole = self.whole.state.x.copy()
        whole[self._block] = x
        return BlockState(RememberedState(self.whole.state.moved_to(whole)), self._block)


def minimise_block(
    whole: RememberedState, block: slice, *, forcing: float = _FORCING, share: float = _TURN
) -> RememberedState:
    """One turn: minimise over a block of the flat variables until ``share`` of its gradient is left.

    ``forcing`` is the share that the conjugate gradients of one Newton step leave. Where F is quadratic in
    the block that is all there is left, and one step ends the turn.
    """
    state = BlockState(whole, block)
    diagonal = state.preconditioner()

    def slope(at: BlockState) -> float:
        gradient = at.gradient()
        return float(np.sqrt(gradient @ (gradient / diagonal)))

    first = slope(state)
    radius = _FAR * first
    for _ in range(_MAX_NEWTON_STEPS):
        report = newton.minimise(
            state,
            state.moved_to,
            enough=np.inf,
            max_steps=_MAX_NEWTON_STEPS,
            radius=radius,
            forcing=forcing,
        )
        state, radius = report.state, report.radius
        if report.decrease <= 0 or slope(state) <= share * first:
            break
    return state.whole
