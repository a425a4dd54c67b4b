"""Trust-region Newton steps by conjugate gradients, for smooth functions that need not be convex.

Steihaug's method with a diagonal preconditioner: Hessian products only, negative curvature is followed to the
border of the trust region, so saddle points of the factored problem are left rather than approached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from labelgap._types import Floats


class SmoothState(Protocol):
    """A function at one place, as flat vectors."""

    x: Floats
    value: float

    def gradient(self) -> Floats: ...

    def hessian_product(self, direction: Floats) -> Floats: ...

    def preconditioner(self) -> Floats:
        """A positive diagonal close to that of the Hessian."""
        ...


@dataclass
class NewtonReport:
    """Where Newton's method stopped."""

    state: Any
    steps: int
    hessian_products: int
    decrease: float
    """What the last accepted step gained."""
    radius: float


def minimise(
    start: SmoothState,
    evaluate: Callable[[Floats], SmoothState],
    *,
    enough: float,
    max_steps: int,
    radius: float | None = None,
    forcing: float = 0.25,
    max_products: int = 100,
    stopping: Callable[[], bool] = lambda: False,
) -> NewtonReport:
    """Step until a step gains less than ``enough``, or for ``max_steps``, or until ``stopping`` is true.

    ``radius`` is the trust region's in the preconditioned norm, to go on from an earlier run. ``forcing`` is
    the share of the gradient that the inner iterations may leave, ``max_products`` bounds their number in one
    step.
    """
    state = start
    products = steps = 0
    gained = 0.0
    gradient, diagonal = state.gradient(), state.preconditioner()
    if radius is None:
        # As long as the preconditioned gradient step.
        radius = _dual_norm(gradient, diagonal)
    while steps < max_steps and not stopping():
        norm = _dual_norm(gradient, diagonal)
        if norm == 0:
            break
        step, predicted, used, at_border = _steihaug(
            state, gradient, diagonal, radius, forcing * norm, max_products
        )
        products += used
        steps += 1
        candidate = evaluate(state.x + step)
        decrease = state.value - candidate.value
        if max(decrease, predicted) <= 1e-14 * abs(state.value):
            # Below rounding: the model cannot be judged any more.
            if decrease > 0:
                state = candidate
            gained = 0.0
            break
        ratio = decrease / predicted
        if ratio < 0.25:
            radius = 0.25 * min(radius, _norm(step, diagonal))
        elif ratio > 0.75 and at_border:
            radius = 3.0 * radius
        if ratio > 1e-4:
            state, gained = candidate, decrease
            if gained < enough:
                break
            gradient, diagonal = state.gradient(), state.preconditioner()
    return NewtonReport(state, steps, products, gained, radius)


def _norm(v: Floats, diagonal: Floats) -> float:
    return float(np.sqrt(np.dot(v, diagonal * v)))


def _dual_norm(g: Floats, diagonal: Floats) -> float:
    return float(np.sqrt(np.dot(g, g / diagonal)))


def _steihaug(
    state: SmoothState, gradient: Floats, diagonal: Floats, radius: float, tolerance: float, max_products: int
) -> tuple[Floats, float, int, bool]:
    """Minimise the quadratic model within the radius: step, predicted decrease, products, at border."""
    step = np.zeros_like(gradient)
    curved = np.zeros_like(gradient)
    residual = -gradient
    scaled = residual / diagonal
    direction = scaled.copy()
    rho = float(residual @ scaled)
    at_border = False
    used = 0
    while used < max_products:
        product = state.hessian_product(direction)
        used += 1
        curvature = float(direction @ product)
        length = rho / curvature if curvature > 0 else np.inf
        if curvature <= 0 or _norm(step + length * direction, diagonal) >= radius:
            length = _to_border(step, direction, diagonal, radius)
            step = step + length * direction
            curved = curved + length * product
            at_border = True
            break
        step = step + length * direction
        curved = curved + length * product
        residual = residual - length * product
        scaled = residual / diagonal
        rho_next = float(residual @ scaled)
        if np.sqrt(rho_next) <= tolerance:
            break
        direction = scaled + (rho_next / rho) * direction
        rho = rho_next
    predicted = -float(gradient @ step) - 0.5 * float(step @ curved)
    return step, predicted, used, at_border


def _to_border(step: Floats, direction: Floats, diagonal: Floats, radius: float) -> float:
    """The positive τ with ``‖step + τ direction‖ = radius``."""
    weighted = diagonal * direction
    a, b = float(direction @ weighted), float(step @ weighted)
    c = float(step @ (diagonal * step)) - radius * radius
    return float((-b + np.sqrt(max(b * b - a * c, 0.0))) / a)
