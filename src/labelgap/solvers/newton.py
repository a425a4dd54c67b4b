"""Trust-region Newton steps by conjugate gradients, for smooth functions that need not be convex.

Steihaug's method with a diagonal preconditioner: Hessian products only, negative curvature is followed to the
border of the trust region, so saddle points of the factored problem are left rather than approached. The
variables are a tuple of arrays, such as (A, B, b), and stay where the objective has them.

Close to a minimum the value is flat: what a step gains is of second order in the gradient, and disappears in
the rounding of the value while the gradient still has half its digits to lose. There a step is judged by the
gradients at its two ends, ``−½ (g + g')·s``, which says what it gains to third order and with all digits
(the idea of Hager and Zhang's approximate Wolfe conditions).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from array_api_compat import device

from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.linalg import Array, dot, inner, namespace, rounding, zeros_like

Variables: TypeAlias = Sequence[Array]

# Differences of values below so many units of rounding say nothing; differences of the noise itself can be
# larger by a factor.
RESOLUTION, _NOISE = 45, 10.0
# The least diagonal of a preconditioner, as a fraction of its largest number and in units of rounding.
_LEAST, _LEAST_ROUNDING = 1e-10, 64
# Conjugate gradients in one step, at most.
_MOST_PRODUCTS = 100
# Steps that the trust region cut short end where the gradient is this fraction of what it was at first.
_FLATTER = 0.5


class SmoothState(Protocol):
    """A function at one place."""

    @property
    def x(self) -> Variables: ...

    @property
    def value(self) -> float: ...

    @property
    def resolution(self) -> float:
        """The difference of two values that may be rounding alone."""
        ...

    def gradient(self) -> Variables: ...

    def hessian_product(self, direction: Variables) -> Variables: ...

    def preconditioner(self) -> Variables:
        """A positive diagonal close to that of the Hessian."""
        ...

    def moved_to(self, x: Variables) -> Self:
        """The same function elsewhere."""
        ...

    def release(self) -> None:
        """Give up what is large and can be computed anew from x, should it be asked for again."""
        ...


@dataclass
class NewtonReport:
    """Where Newton's method stopped."""

    state: Any
    steps: int
    hessian_products: int
    decrease: float
    """What the last step gained; 0 if it was not accepted."""
    at_floor: bool
    """Whether that was too little for the values to show it."""
    radius: float


def minimise(
    start: SmoothState,
    *,
    enough: float,
    max_steps: int,
    radius: float | None = None,
    forcing: float = 0.25,
    max_products: float = math.inf,
    stopping: Callable[[], bool] = lambda: False,
) -> NewtonReport:
    """Step until a step gains less than ``enough``, or for ``max_steps``, or until ``stopping`` is true.

    A good step that the trust region cut short does not count as the last one, since the next may be longer;
    such steps end where the gradient is half of what it was. ``radius`` is the trust region's in the
    preconditioned norm, to continue an earlier run. ``forcing`` is the fraction of the gradient that the
    inner iterations may leave, and ``max_products`` bounds their number in all steps together.
    """
    state = start
    products = steps = 0
    gained, at_floor = 0.0, False
    gradient, inverse = state.gradient(), _inverse(state)
    first = slope = _dual_norm(gradient, inverse)
    if radius is None:
        # As long as the preconditioned gradient step.
        radius = slope
    while steps < max_steps and products < max_products and not stopping():
        if slope == 0:
            gained = 0.0
            break
        step, length, predicted, used, at_border = _steihaug(
            state, gradient, inverse, radius, forcing * slope, min(max_products - products, _MOST_PRODUCTS)
        )
        products += used
        steps += 1
        there_x = tuple(map(operator.add, state.x, step))
        # Two places at a time would take twice the memory, and this one is rarely returned to.
        state.release()
        candidate = state.moved_to(there_x)
        decrease = state.value - candidate.value
        there: Variables | None = None
        at_floor = predicted <= state.resolution and abs(decrease) <= _NOISE * state.resolution
        if at_floor:
            there = candidate.gradient()
            decrease = -0.5 * (_dot(gradient, step) + _dot(there, step))
            if decrease <= RESOLUTION * rounding(gradient[0]) * state.resolution:
                # The gradient is rounding as well.
                gained = 0.0
                break
        ratio = decrease / predicted if predicted > 0 else 0.0
        # A step to where nothing can be computed gains NaN, and is too long like one that gains little.
        cut_short = ratio > 0.75 and at_border
        if not ratio >= 0.25:
            radius = 0.25 * min(radius, length)
        elif cut_short:
            radius = 3.0 * radius
        if ratio > 1e-4:
            state, gained = candidate, decrease
            if gained < enough and not cut_short:
                break
            gradient, inverse = there or state.gradient(), _inverse(state)
            slope = _dual_norm(gradient, inverse)
            if gained < enough and slope <= _FLATTER * first:
                break
        else:
            candidate.release()
    return NewtonReport(state, steps, products, gained, at_floor, radius)


def _inverse(state: SmoothState) -> Variables:
    return tuple(1.0 / part for part in state.preconditioner())


def _dot(a: Variables, b: Variables) -> float:
    return float(sum(map(inner, a, b)))


def _times(a: Variables, b: Variables) -> Variables:
    return tuple(map(operator.mul, a, b))


def _add(to: Variables, factor: float, what: Variables) -> None:
    """``to + factor · what`` in the place of ``to``."""
    for one, other in zip(to, what, strict=True):
        one[...] += factor * other


def _dual_norm(g: Variables, inverse: Variables) -> float:
    return math.sqrt(_dot(g, _times(inverse, g)))


class _Step(NamedTuple):
    """What conjugate gradients found, in the norm that the preconditioner makes."""

    step: Variables
    length: float
    predicted: float
    products: int
    at_border: bool


def _steihaug(
    state: SmoothState,
    gradient: Variables,
    inverse: Variables,
    radius: float,
    tolerance: float,
    max_products: float,
) -> _Step:
    """Minimise the quadratic model within the radius; ``inverse`` is that of the preconditioner."""
    residual: Variables = tuple(-part for part in gradient)
    direction = _times(residual, inverse)
    step: Variables = tuple(zeros_like(part) for part in gradient)
    rho = _dot(residual, direction)
    # ‖s‖², ⟨s, d⟩ and ‖d‖², for the step s and the direction d, by recurrence.
    square, cross, span = 0.0, 0.0, rho
    at_border = False
    used = 0
    while used < max_products:
        product = state.hessian_product(direction)
        used += 1
        curvature = _dot(direction, product)
        length = rho / curvature if curvature > 0 else math.inf
        longer = square + length * (2 * cross + length * span)
        if not longer < radius * radius:
            # The positive length with ‖s + length d‖ = radius.
            inside = radius * radius - square
            length = (-cross + math.sqrt(max(cross * cross + span * inside, 0.0))) / span
            at_border = True
        _add(step, length, direction)
        _add(residual, -length, product)
        if at_border:
            square = radius * radius
            break
        scaled = _times(residual, inverse)
        rho_next = _dot(residual, scaled)
        square, ratio = longer, rho_next / rho
        if math.sqrt(rho_next) <= tolerance:
            break
        _add(scaled, ratio, direction)
        direction = scaled
        cross = ratio * (cross + length * span)
        span = rho_next + ratio * ratio * span
        rho = rho_next
    # H s = −g − r, with r the residual.
    predicted = 0.5 * (_dot(step, residual) - _dot(gradient, step))
    return _Step(step, math.sqrt(square), predicted, used, at_border)


class FactorPenalty:
    """``λ/2 (‖A‖² + ‖B‖²) + λ₂/2 ‖ABᵀ‖²`` at one (A, B), and what it adds to derivatives there."""

    def __init__(self, penalties: Penalties, A: Array, B: Array) -> None:
        self._lam, self._ridge = penalties.trace, penalties.ridge
        self._A, self._B = A, B
        self._AA, self._BB = A.T @ A, B.T @ B
        xp = namespace(A)
        traces = float(xp.linalg.trace(self._AA)) + float(xp.linalg.trace(self._BB))
        self.of_factors = 0.5 * self._lam * traces
        self.of_product = 0.5 * self._ridge * dot(self._AA, self._BB)

    def add_to_gradient(self, dA: Array, dB: Array) -> tuple[Array, Array]:
        lam, ridge = self._lam, self._ridge
        return (
            dA + lam * self._A + ridge * (self._A @ self._BB),
            dB + lam * self._B + ridge * (self._B @ self._AA),
        )

    def add_to_product(self, hA: Array, hB: Array, dA: Array, dB: Array) -> tuple[Array, Array]:
        """Add the penalty's Hessian times (dA, dB) to (hA, hB)."""
        lam, ridge, A, B = self._lam, self._ridge, self._A, self._B
        if not ridge:
            return hA + lam * dA, hB + lam * dB
        # The k x k parts are added up before anything of the size of a factor is made.
        cross_A, cross_B = dA.T @ A, dB.T @ B
        identity = namespace(A).eye(A.shape[1], dtype=A.dtype, device=device(A))
        hA = hA + dA @ (lam * identity + ridge * self._BB) + A @ (ridge * (cross_B + cross_B.T))
        hB = hB + dB @ (lam * identity + ridge * self._AA) + B @ (ridge * (cross_A + cross_A.T))
        return hA, hB

    def add_to_diagonal(self, dA: Array, dB: Array) -> tuple[Array, Array]:
        xp, lam, ridge = namespace(self._A), self._lam, self._ridge
        return (
            dA + (lam + ridge * xp.linalg.diagonal(self._BB)),
            dB + (lam + ridge * xp.linalg.diagonal(self._AA)),
        )


def positive_diagonal(diagonal: Sequence[Array]) -> list[Array]:
    """A diagonal that is safe to divide by.

    Intercepts without entries, and labels long decided, have next to no curvature.
    """
    xp = namespace(diagonal[0])
    largest = max(float(xp.max(part)) for part in diagonal if math.prod(part.shape))
    least = max(_LEAST, _LEAST_ROUNDING * rounding(diagonal[-1])) * largest
    return [xp.clip(part, least, None) for part in diagonal]


class FactoredState:
    """The penalised objective in (A, B, b) at one point."""

    def __init__(self, objective: Objective, penalties: Penalties, point: Point) -> None:
        self._objective, self._penalties = objective, penalties
        self._point: Point | None = point
        self.x = point.factors
        A, B, b = point.factors
        self._penalty = FactorPenalty(penalties, A, B)
        self.value = (
            point.value + self._penalty.of_factors + self._penalty.of_product + penalties.of_intercept(b)
        )
        self.resolution = RESOLUTION * rounding(A) * max(abs(self.value), point.size)

    @property
    def point(self) -> Point:
        """The data term here."""
        if self._point is None:
            self._point = self._objective.at(self.x)
        return self._point

    def release(self) -> None:
        self._point = None

    def gradient(self) -> Factors:
        dA, dB, db = self.point.gradient()
        db = db + self._penalties.intercept_slope(self.x.intercept)
        return Factors(*self._penalty.add_to_gradient(dA, dB), db)

    def hessian_product(self, direction: Variables) -> Factors:
        dA, dB, db = direction
        hA, hB, hb = self.point.hessian_product(Factors(dA, dB, db))
        hA, hB = self._penalty.add_to_product(hA, hB, dA, dB)
        return Factors(hA, hB, hb + self._penalties.intercept * db)

    def preconditioner(self) -> Factors:
        dA, dB, db = self.point.hessian_diagonal()
        diagonal = (*self._penalty.add_to_diagonal(dA, dB), db + self._penalties.intercept)
        return Factors(*positive_diagonal(diagonal))

    def moved_to(self, x: Variables) -> FactoredState:
        point = self._objective.at(Factors(*x))
        return FactoredState(self._objective, self._penalties, point)


class BlockState(FactoredState):
    """The same as a function of some of A, B and b (their numbers), the others held: nothing leads there."""

    def __init__(
        self, objective: Objective, penalties: Penalties, point: Point, block: tuple[int, ...]
    ) -> None:
        super().__init__(objective, penalties, point)
        self._block = block

    def _within(self, whole: Factors) -> Factors:
        parts = (part if number in self._block else zeros_like(part) for number, part in enumerate(whole))
        return Factors(*parts)

    def gradient(self) -> Factors:
        return self._within(super().gradient())

    def hessian_product(self, direction: Variables) -> Factors:
        return self._within(super().hessian_product(direction))

    def moved_to(self, x: Variables) -> BlockState:
        point = self._objective.at(Factors(*x))
        return BlockState(self._objective, self._penalties, point, self._block)

    def slope(self) -> float:
        """The length of the gradient in the norm of the preconditioner."""
        return _dual_norm(self.gradient(), _inverse(self))
