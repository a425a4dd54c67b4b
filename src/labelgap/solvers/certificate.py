"""The penalised problem: its penalties, its best intercepts, and the duality gap.

With W fixed, the best intercepts solve one convex problem in one number per label
(:func:`with_best_intercept`). The gap says how far a fit can be from the global optimum.

The problem is ``min_{W,b} f(XW + 1bᵀ) + λ‖W‖_* + λ₂/2‖W‖_F²``. Its dual, for a matrix G on the entries, is

    maximise  −f*(G) − ‖M₁‖_F²/(2λ₂)   subject to  −XᵀG = M₁ + M₂,  σ₁(M₂) ≤ λ,  1ᵀG = 0 (with an intercept).

With a penalty ``κ/2‖b − c‖²`` on the intercepts the last condition goes, and ``c·s − ‖s‖²/(2κ)`` with s = Gᵀ1
is added.

From any (W, b) we take the gradient of f there, make each label's column sum to zero, choose M₁ = λ₂W, and
shrink everything by ``c = min(1, λ/σ₁(XᵀG + λ₂W))``. That point is feasible, so its dual value bounds the
optimum from below. At the optimum c = 1 and the bound is tight. With λ = 0 the same holds with M₂ = 0.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from array_api_compat import device

from labelgap._memory import give_back_freed
from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Objective, Point, ScoreGradient
from labelgap.solvers.linalg import Array, dot, namespace, product_values, rounding
from labelgap.solvers.spectral import LowRankShift, SingularTriplets, leading_triplets
from labelgap.solvers.tuning import TUNED

# Columns of the gradient that are formed at a time where all of it may not be.
_BLOCK = 64
# Numbers in the data from which on freed memory is given back before a certificate.
_LARGE = 1 << 20

# The intercepts. Steps of Newton's method, at most.
_MAX_STEPS = 60
# A step in a flat tail overshoots: never more than so many units of score at a time.
_LONGEST = 4.0
# Slope that may be left in the intercepts, as a fraction of the labels' gradient mass, for each unit of the
# gap that is asked for.
_INTERCEPT_FRACTION = 0.03
# The least slope that can be asked for, in units of rounding of the label's gradient mass.
_FINEST = 8


@dataclass(frozen=True)
class Penalties:
    """``λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 Σ_j (b_j − c)²``; with κ = 0 the intercepts are free."""

    trace: float
    ridge: float = 0.0
    intercept: float = 0.0
    """κ."""
    centre: float = 0.0
    """c, the score at which an intercept costs nothing."""

    def __post_init__(self) -> None:
        for name, value in (
            ("trace_penalty", self.trace),
            ("ridge_penalty", self.ridge),
            ("intercept_penalty", self.intercept),
        ):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidParameterError(f"{name} must be a finite number, 0 or more; got {value!r}.")
        if self.trace == 0 and self.ridge == 0:
            raise InvalidParameterError(
                "trace_penalty and ridge_penalty are both 0: the fit would have no unique answer. "
                "Make one of them positive, or leave them at 'auto'."
            )

    def of(self, singular_values: Array, intercept: Array) -> float:
        """The penalty of a W with these singular values, and of b."""
        total = float(namespace(singular_values).sum(singular_values))
        square = dot(singular_values, singular_values)
        return self.trace * total + 0.5 * self.ridge * square + self.of_intercept(intercept)

    def of_intercept(self, intercept: Array) -> float:
        """``κ/2 Σ_j (b_j − c)²``."""
        if self.intercept == 0:
            return 0.0
        distance = intercept - self.centre
        return 0.5 * self.intercept * dot(distance, distance)

    def intercept_slope(self, intercept: Array) -> Array | float:
        """Its derivative in b."""
        return self.intercept * (intercept - self.centre) if self.intercept else 0.0


# -- the best intercepts -------------------------------------------------------------------------------------


def with_best_intercept(
    objective: Objective,
    point: Point,
    penalties: Penalties,
    tol: float = 1e-12,
    total_tol: float = 0.0,
) -> Point:
    """Minimise over b by Newton's method, label by label, inside a bracket that the signs maintain.

    ``tol`` is the slope left in a label's intercept, as a fraction of the label's gradient mass. With a
    ``total_tol`` it is enough that all slopes together are no larger a fraction of all mass.
    """
    if not objective.has_intercept:
        return point
    xp = objective.xp
    b = point.factors.intercept
    tol = max(tol, _FINEST * rounding(b))
    mass: Array | None = None
    bracket: _Bracket | None = None
    for _ in range(_MAX_STEPS):
        up, down = point.signed_label_sums()
        mass = up - down if mass is None else mass
        slope, largest = up + down, mass
        if penalties.intercept:
            penalty_slope = penalties.intercept_slope(b)
            slope, largest = slope + penalty_slope, mass + abs(penalty_slope)
        steepness = abs(slope)
        # Mostly all slopes together are small enough; that is seen before anything else is computed.
        if float(xp.sum(steepness)) <= total_tol * float(xp.sum(largest)):
            break
        active = steepness > tol * largest
        if not bool(xp.any(active)):
            break
        bracket = bracket or _Bracket(xp, b)
        proposal = bracket.next(b, slope, point.label_curvature() + penalties.intercept)
        proposal = xp.where(active, proposal, b)
        if not bool(xp.any(proposal != b)):
            break
        b = proposal
        point = point.with_intercept(b)
    return point


def best_intercept_within(objective: Objective, point: Point, penalties: Penalties, gap: float) -> Point:
    """The best intercept as closely as a relative gap asks for it."""
    tol = _INTERCEPT_FRACTION * gap
    return with_best_intercept(objective, point, penalties, 0.1 * tol, tol)


class _Bracket:
    """Each label's intercept between the largest one known to be too low and the least too high."""

    def __init__(self, xp: Any, b: Array) -> None:
        self._xp = xp
        self._low, self._high = xp.full_like(b, -math.inf), xp.full_like(b, math.inf)

    def next(self, b: Array, slope: Array, curvature: Array) -> Array:
        """Newton's step from b, or the middle of the bracket where the step would leave it."""
        xp, low, high = self._xp, self._low, self._high
        self._high = high = xp.where(slope > 0, xp.minimum(high, b), high)
        self._low = low = xp.where(slope < 0, xp.maximum(low, b), low)
        curved = curvature > 0
        step = xp.where(curved, -slope / xp.where(curved, curvature, 1.0), -xp.sign(slope))
        longest = xp.full_like(step, _LONGEST)
        proposal = b + xp.minimum(xp.maximum(step, -longest), longest)
        outside = (proposal <= low) | (proposal >= high)
        if not bool(xp.any(outside)):
            return proposal
        bracketed = xp.isfinite(low) & xp.isfinite(high)
        middle = 0.5 * (xp.where(bracketed, low, b) + xp.where(bracketed, high, b))
        return xp.where(bracketed & outside, middle, proposal)


# -- the duality gap -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """An objective value with a proof of how good it is."""

    objective: float
    """f + λ‖W‖_* + λ₂/2‖W‖_F² at the point."""
    dual: float
    """A lower bound on the optimum over all W and b."""
    residual: SingularTriplets
    """Leading singular triplets of XᵀG + λ₂W; those above λ are directions in which W should grow."""
    size: float = 0.0
    """The sum of the absolute values of the data term's parts, where those may cancel."""

    @property
    def scale(self) -> float:
        """What a relative gap is relative to: the objective, or the data term's size if that is larger."""
        return max(abs(self.objective), self.size, sys.float_info.min)

    @property
    def gap(self) -> float:
        """Absolute gap; the objective is at most this far above the optimum."""
        return max(self.objective - self.dual, 0.0)

    @property
    def relative_gap(self) -> float:
        """Gap divided by the scale."""
        return self.gap / self.scale

    def with_bound(self, dual: float) -> Certificate:
        """With the better of two lower bounds on the optimum: a bound once proved stays proved."""
        return self if dual <= self.dual else replace(self, dual=dual)


Wanted: TypeAlias = Literal["a bound", "a decision", "the gap"]
"""What a certificate is for: any bound on the gap, whether the gap is within the tolerance, or the gap."""


def certify(
    objective: Objective,
    point: Point,
    penalties: Penalties,
    *,
    tol: float | None = None,
    wanted: Wanted = "the gap",
    directions: int = 1,
    accuracy: float = 1e-7,
    singular_values: Array | None = None,
    product: Array | None = None,
    primal: float | None = None,
    conjugate: Callable[[ScoreGradient, float], float] | None = None,
) -> Certificate:
    """Bound the distance of ``point`` from the optimum.

    ``directions`` leading singular triplets are kept. Where the gradient is not formed, σ₁ is found to a
    relative residual of ``accuracy``, which widens the gap that is reported by as much; with a ``tol`` only
    as accurately as the gap is ``wanted``. ``singular_values`` are those of W, and ``product`` is W itself,
    for a caller who has them. ``primal`` replaces the objective value at the point and ``conjugate`` the
    conjugate of the data term, for a caller whose constraint lies outside the two.
    """
    factors, values, size = point.factors, singular_values, point.size
    if values is None:
        values = product_values(factors.left, factors.right, cutoff=0.0)
    if primal is None:
        primal = point.value + penalties.of(values, factors.intercept)
    value, square = float(primal), dot(values, values)
    data_dual = DataDual(objective, point, penalties, conjugate)
    gradient = data_dual.gradient
    # A point that nobody else holds need not be kept while the singular vectors are sought.
    del point
    if objective.n_stored >= _LARGE:
        # What came before has left gaps of other sizes than those of the arrays to come.
        give_back_freed()
    shift = LowRankShift(gradient, factors.left, factors.right, product, penalties.ridge)

    def square_of_gradient() -> float:
        if objective.may_form:
            return dot(shift.gradient_matrix, shift.gradient_matrix)
        return squared_norm(gradient, objective.shape[1], factors.right)

    def with_top(top: float, residual: SingularTriplets) -> Certificate:
        dual = dual_bound(data_dual, penalties, top, square, square_of_gradient)
        return Certificate(value, dual, residual, size)

    found: Certificate | None = None
    accuracy = accuracy if tol is None else TUNED.rough
    while True:
        start = None if found is None else found.residual
        residual = leading_triplets(
            shift, objective.shape, directions, objective.may_form, accuracy=accuracy, start=start
        )
        found = with_top(residual.top, residual)
        if tol is None or objective.may_form or accuracy <= TUNED.fine * tol:
            return found
        if wanted == "a bound" or found.relative_gap > TUNED.wide * accuracy:
            return found
        # A gap that σ₁ to this accuracy shows to be open is open. That it is closed takes more digits: the
        # value that was found, a lower bound on σ₁, may be the second one.
        best = with_top(float(residual.values[0]), residual)
        if wanted == "a decision" and min(found.relative_gap, best.relative_gap) > tol:
            return found
        # Part of the gap is only that σ₁ is not known better.
        accuracy = max(TUNED.fine * tol, TUNED.rough * min(accuracy, found.relative_gap))


def dual_bound(
    data_dual: Callable[[float], float],
    penalties: Penalties,
    top: float,
    square: float,
    square_of_gradient: Callable[[], float],
    most: float = 1.0,
) -> float:
    """The lower bound on the optimum that a gradient G proves, shrunk until it is feasible.

    ``top`` is σ₁(XᵀG + λ₂W), or more, ``square`` is ‖W‖_F² and ``square_of_gradient()`` is ‖XᵀG‖_F². ``most``
    is what G may be multiplied with for the sake of other conditions on it.
    """
    trace, ridge = penalties.trace, penalties.ridge
    lower, c = -math.inf, 0.0
    if trace > 0:
        c = min(most, trace / top) if top > 0 else most
        lower = data_dual(c) - 0.5 * c * c * ridge * square
    if c < TUNED.far or lower == -math.inf:
        # Far from the optimum no slopes at all may prove more.
        lower = max(lower, data_dual(0.0))
    if ridge > 0 and trace <= 0.1 * top:
        # M₂ = 0: the whole of XᵀG goes into the ridge. Exact at λ = 0.
        lower = max(lower, data_dual(most) - most * most * square_of_gradient() / (2 * ridge))
    return float(lower)


class DataDual:
    """``−f*(cG)`` for the gradient G of the data term at a point, as a function of c.

    With free intercepts G is made to sum to 0 in every label; with penalised ones, what their penalty adds to
    the dual is included. ``conjugate`` replaces that of the data term.
    """

    def __init__(
        self,
        objective: Objective,
        point: Point,
        penalties: Penalties,
        conjugate: Callable[[ScoreGradient, float], float] | None = None,
    ) -> None:
        self._xp, self._penalties, self._conjugate = objective.xp, penalties, conjugate
        self._sums: Array | None = None
        signed = None
        if objective.has_intercept:
            signed = point.signed_label_sums()
            if penalties.intercept > 0:
                self._sums = signed[0] + signed[1]
        self.gradient = point.score_gradient(signed, balanced=penalties.intercept == 0)

    def __call__(self, scale: float) -> float:
        conjugate, penalties, sums = self._conjugate, self._penalties, self._sums
        value = -(self.gradient.conjugate(scale) if conjugate is None else conjugate(self.gradient, scale))
        if sums is not None:
            square = dot(sums, sums) / (2 * penalties.intercept)
            value += scale * penalties.centre * float(self._xp.sum(sums)) - scale * scale * square
        return value


def squared_norm(gradient: ScoreGradient, n_columns: int, example: Array) -> float:
    """``‖XᵀG‖_F²``, in blocks of columns, where the matrix may not be formed."""
    xp, total = namespace(example), 0.0
    for start in range(0, n_columns, _BLOCK):
        width = min(_BLOCK, n_columns - start)
        some = xp.eye(n_columns, width, k=-start, dtype=example.dtype, device=device(example))
        columns = gradient.left_product(some)
        total += dot(columns, columns)
    return total
