"""The trace-norm problem in factored form: ``W = A Bᵀ`` with a rank that finds itself.

For k at least the rank of the solution,

    min_{A,B,b}  f(XABᵀ + 1bᵀ) + λ/2 (‖A‖² + ‖B‖²) + λ₂/2 ‖ABᵀ‖²

has the same minimum as the convex problem in W. The paper alternates between A and B. Here all of (A, B, b)
moves together by trust-region Newton steps with the *full* Hessian. The reason is the trace norm: along the
directions W already uses it is linear, and in factored form this flatness comes out only when the cross term
``2⟨XᵀG, dA dBᵀ⟩`` cancels the ``λ(‖dA‖² + ‖dB‖²)``. Alternation (and Gauss–Newton) never see the cross term,
overestimate the curvature there, and crawl.

Where the d x L gradient is small enough to be formed, accelerated proximal steps come first: they find the
rank at once and get close in tens of steps.

After each round the duality gap is computed. Its singular triplets above λ that are new to W are exactly the
directions of escape from a rank-k saddle: they are added, directions that died out are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers import newton
from labelgap.solvers.certificate import Certificate, GapBound, Penalties
from labelgap.solvers.linalg import Array, column_squares, dot, namespace, smallest, thin_qr
from labelgap.solvers.loop import (
    Callback,
    Checkpoint,
    Fit,
    Method,
    State,
    balanced_factors,
    factors_from,
    factors_state,
    run,
    scalars,
    starting_factors,
)
from labelgap.solvers.newton import FactoredState, NewtonReport
from labelgap.solvers.proximal import ProximalPath
from labelgap.solvers.spectral import SingularTriplets

# Directions of W below this fraction of the largest are dead.
_DEAD = 1e-6
_MAX_NEW_DIRECTIONS = 64
FEW_DIRECTIONS = 8
"""Directions that come with σ₁ at no cost, where the gradient is not formed."""
# The accuracy of σ₁ as a fraction of the tolerance, and the finest that is asked for.
_SIGMA_FRACTION, _FINEST = 0.03, 1e-7
# Lengths that are tried for new directions, each half of the one before.
_GROWTH_TRIALS = 6
# Lengths that are tried for directions that the optimum may not have, each a quarter of the one before.
_SPARE_TRIALS = 12
# A Newton round ends when a step gains less than this fraction of the gap that is still to be closed.
_ROUND_FRACTION = 0.02
# Proximal steps between two certificates, from a tolerance on: fewer where a few steps may be enough. The
# first of all, from W = 0, never are.
_PROXIMAL_ROUNDS, _LEAST_FROM_ZERO = ((0.1, 2), (1e-2, 4), (0.0, 6)), 4
# Tolerances above this one are those of fits that are compared.
_LOOSE = 1e-2
# Rounds of proximal steps between two places from which a run can be resumed.
_SNAPSHOT_EVERY = 8
# Newton's method costs about as much as this many proximal steps, and as many more for each direction of W.
_NEWTON_WORTH, _NEWTON_WORTH_PER_RANK = 25.0, 8.0
# Rounds of proximal steps that their pace is taken from.
_PACE = 5
# A round that lowers the objective by more than this fraction of it is worth another.
_STILL_FALLING = 1e-2
# Rounds in which the gap may fail to halve, and a step gain next to nothing of it, before rounding must be to
# blame; and such rounds of steps that are too short for the values to show what they gain. Far from the
# optimum the gap can stay near 1 for long while the objective falls.
_PATIENCE, _PATIENCE_AT_FLOOR = 40, 8
_NOTHING = 1e-6
# The steps of a capped fit have died out when they gain less than this fraction of the tolerance.
_DIED_OUT_CAPPED = 0.01


class FactoredMethod(Method):
    """Proximal steps for as long as they close the gap fast, then rounds of growth and Newton steps.

    Proximal steps find the rank at once and cost one Gram matrix each where the d x L gradient may be formed;
    Newton's method takes over where the features are badly conditioned, or for the last digits. Under a rank
    cap they could settle on the wrong directions, so there Newton's method grows W from the start.
    """

    _point: Point
    _certificate: Certificate
    _path: ProximalPath | None = None
    # Of the proximal steps: the gaps so far, and what the last round gained.
    _gaps: list[float]
    _gained = math.inf
    _from_zero = True
    # Of Newton's method: the trust region, and how long the gap has not been closing.
    _radius: float | None = None
    _best_gap, _last_gap = math.inf, math.inf
    _rounds_without_gain = _rounds_at_floor = 0
    _died_out = _capped = False
    _dual = -math.inf
    """The best lower bound on the optimum so far."""

    def begin(self, start: Factors | None, kept: State | None) -> None:
        self._gaps, self._from_zero = [], start is None
        if kept is not None and "radius" in kept:
            self._resume_newton(kept)
            return
        first = starting_factors(self._objective, start)
        if self._cap < self._full or not self._objective.may_form:
            self._point = self._objective.at(balanced_factors(first, self._cap, _DEAD))
        else:
            self._path = ProximalPath(self._objective, self._penalties, first, self._cap, self._tol)
            if kept is not None:
                self._path.restore(kept)
                self.iteration, self._gained = int(kept["steps"]), float(kept["gained"])
                self._gaps = kept["gaps"].tolist()

    def _resume_newton(self, state: State) -> None:
        self._point = self._objective.at(starting_factors(self._objective, factors_from(state)))
        self.iteration, self._radius = int(state["steps"]), float(state["radius"])
        self._best_gap, self._last_gap = float(state["best_gap"]), float(state["last_gap"])
        self._rounds_without_gain = int(state["rounds_without_gain"])
        self._rounds_at_floor = int(state["rounds_at_floor"])
        self._died_out, self._capped = bool(state["died_out"]), bool(state["capped"])
        self._dual = float(state["dual"])

    def snapshot(self) -> Mapping[str, Array] | None:
        if self._path is None:
            assert self._radius is not None
            return {
                **factors_state(self.factors),
                **scalars(
                    steps=self.iteration,
                    radius=self._radius,
                    best_gap=self._best_gap,
                    last_gap=self._last_gap,
                    rounds_without_gain=self._rounds_without_gain,
                    rounds_at_floor=self._rounds_at_floor,
                    died_out=self._died_out,
                    capped=self._capped,
                    dual=self._dual,
                ),
            }
        if not self._gaps or len(self._gaps) % _SNAPSHOT_EVERY:
            return None
        numbers = scalars(steps=self.iteration, gained=self._gained)
        return {**self._path.restart(), **numbers, "gaps": np.array(self._gaps)}

    @property
    def factors(self) -> Factors:
        return self._point.factors if self._path is None else self._path.point.factors

    @property
    def stalled(self) -> bool:
        return self._died_out

    @property
    def capped(self) -> bool:
        return self._capped

    @property
    def due(self) -> bool:
        # A loose fit that starts at another one is made to be compared with it: it makes steps before it asks
        # for the gap, which costs about as much as a step and may be small enough for no step at all.
        return self._path is None or self._tol <= _LOOSE or self.iteration > 0 or self.factors.rank == 0

    def certify(self) -> Certificate:
        count = _count(self._penalties, self.factors.rank, self._cap)
        if self._path is not None:
            # Proximal steps find their directions by themselves, and each one costs time here.
            self._certificate = self._path.certificate(min(count, FEW_DIRECTIONS))
            self._gaps.append(self._certificate.gap)
        else:
            self._certificate = self._certify_point(count).with_bound(self._dual)
            # A step that gains nothing measurable of the objective may still close the gap.
            self._died_out &= self._certificate.gap > 0.5 * self._last_gap
        self._dual = self._certificate.dual
        return self._certificate

    def _certify_point(self, count: int) -> Certificate:
        """The certificate, with this many directions where so many may be worth growing along."""
        objective, penalties = self._objective, self._penalties
        bound = GapBound(objective, self._point, penalties)
        # Part of the gap is only that σ₁ is not known better; near the optimum, where the values that W has
        # directions for all are about λ, each further digit of it takes long.
        accuracy = max(_FINEST, _SIGMA_FRACTION * self._tol)
        if objective.may_form or penalties.trace == 0 or count <= FEW_DIRECTIONS:
            return bound.certificate(directions=count, accuracy=accuracy)
        found = bound.certificate(directions=FEW_DIRECTIONS, accuracy=accuracy)
        if found.relative_gap > self._tol and float(found.residual.values[-1]) > penalties.trace:
            found = replace(found, residual=replace(bound.directions(count), top=found.residual.top))
        return found

    def step(self, stopping: Callable[[], bool]) -> None:
        if self._path is not None and self._newton_is_faster():
            self._point, self._path = self._path.point, None
        if self._path is not None:
            steps = min(self._steps_of_round(), self._max_iter - self.iteration)
            self._gained = sum(self._path.advance() for _ in range(steps))
            self.iteration += steps
        else:
            self._newton_round(stopping)

    # -- proximal steps ------------------------------------------------------------------------------------

    @property
    def _proximal_round(self) -> int:
        steps = next(steps for tol, steps in _PROXIMAL_ROUNDS if self._tol >= tol)
        return max(steps, _LEAST_FROM_ZERO) if self._from_zero and self.iteration == 0 else steps

    def _steps_of_round(self) -> int:
        """Steps until the next certificate: fewer where they will do at the pace of the last round."""
        steps = self._proximal_round
        # The first gap is that of W = 0, and the round from there another one.
        if len(self._gaps) < 3:
            return steps
        target = self._tol * self._certificate.scale
        to_go = _steps_to_go(self._gaps, target, steps, rounds=1)
        return max(steps // 2, math.ceil(min(steps, to_go)))

    def _newton_is_faster(self) -> bool:
        """Whether proximal steps at their present pace would cost more than Newton's method."""
        # Without a trace norm nothing balances the factors, and Newton's method in them is the slower one for
        # good.
        if len(self._gaps) <= _PACE or self._penalties.trace == 0:
            return False
        scale = self._certificate.scale
        # Far from the optimum the gap tells nothing yet.
        if self._gained > _STILL_FALLING * scale:
            return False
        worth = _NEWTON_WORTH + _NEWTON_WORTH_PER_RANK * self.factors.rank
        return _steps_to_go(self._gaps, self._tol * scale, self._proximal_round) > worth

    # -- Newton's method -----------------------------------------------------------------------------------

    def _newton_round(self, stopping: Callable[[], bool]) -> None:
        """Grow, if there is a direction to grow in, and make Newton steps; or make one accurate step."""
        certificate = self._certificate
        steps_left = self._max_iter - self.iteration
        rank = self._point.factors.rank
        growth = growth_along(
            self._objective, self._penalties, self._point, certificate.residual, self._cap, 0.1 * self._tol
        )
        # A point is as large as the data: none is kept beside those that the steps need.
        point = self._point
        del self._point
        if growth is not None:
            del point
            point = growth.followed(self._objective, self._penalties.trace)
        start = FactoredState(self._objective, self._penalties, point)
        del point
        if growth is not None:
            # What the new directions bring is worth taking up to a fraction of the gap they leave open.
            report = newton.minimise(
                start,
                enough=_ROUND_FRACTION * certificate.gap,
                max_steps=steps_left,
                stopping=stopping,
            )
        else:
            # Nothing to add: the gap is unfinished work at this rank, one accurate step at a time.
            report = newton.minimise(
                start,
                enough=math.inf,
                max_steps=steps_left,
                radius=self._radius,
                forcing=0.1,
                stopping=stopping,
            )
            self._capped = rank == self._cap < self._full
            smallest_gain = _DIED_OUT_CAPPED * self._tol * certificate.scale if self._capped else 0.0
            self._died_out = report.decrease <= smallest_gain and not stopping()
        self._judge(report)
        self.iteration, self._radius = self.iteration + report.steps, report.radius
        factors = balanced_factors(report.state.x, self._cap, _DEAD)
        report.state.release()
        self._point = self._objective.at(factors)

    def _judge(self, report: NewtonReport) -> None:
        """Whether the rounds still lead anywhere."""
        gap = self._certificate.gap
        halved = gap < 0.5 * self._best_gap
        self._rounds_at_floor = self._rounds_at_floor + 1 if report.at_floor and not halved else 0
        self._rounds_without_gain += 1
        if halved or report.decrease > _NOTHING * gap:
            self._best_gap, self._rounds_without_gain = min(self._best_gap, gap), 0
        self._died_out |= self._rounds_without_gain > _PATIENCE or self._rounds_at_floor > _PATIENCE_AT_FLOOR
        self._last_gap = gap


def solve_factored(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 500,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fit:
    """Minimise to a relative duality gap of ``tol``.

    ``rank`` is a cap, not a guess; ``max_iter`` bounds the proximal and Newton steps together. When the cap
    binds, the answer is a stationary point of the capped problem and the gap says how far the uncapped
    optimum can be.
    """
    method = FactoredMethod(objective, penalties, rank=rank, tol=tol, max_iter=max_iter)
    return run(method, tol=tol, warm_start=warm_start, callback=callback, checkpoint=checkpoint)


def _steps_to_go(gaps: list[float], target: float, round_steps: int, rounds: int = _PACE) -> float:
    """Proximal steps until the gap is ``target``, at the pace of the last rounds of so many steps."""
    if gaps[-1] <= target:
        return 0.0
    pace = math.log(gaps[-1 - rounds] / gaps[-1]) / (rounds * round_steps)
    return math.log(gaps[-1] / target) / pace if pace > 0 and target > 0 else math.inf


def _count(penalties: Penalties, rank: int, cap: int) -> int:
    """How many triplets to ask for: the rank may double in a round."""
    if penalties.trace == 0:
        return cap
    return min(max(8, rank), _MAX_NEW_DIRECTIONS, cap)


class Growth(NamedTuple):
    """New directions for the factors at a point, and how far to go along each."""

    factors: Factors
    value: float
    """The data term at the point plus its trace norm."""
    U: Array
    V: Array
    lengths: Array

    def followed(self, objective: Objective, trace_penalty: float) -> Point:
        """The point with the new directions, shorter ones where that lowers the objective only so."""
        xp, factors, lengths = objective.xp, self.factors, self.lengths
        grown: Point | None = None
        for _ in range(_GROWTH_TRIALS):
            # The last one is dropped before the next is made, which is as large.
            grown = None
            left = xp.concat([factors.left, -lengths * self.U], axis=1)
            right = xp.concat([factors.right, lengths * self.V], axis=1)
            grown = objective.at(Factors(left, right, factors.intercept))
            value = grown.value + trace_penalty * 0.5 * _square(grown.factors)
            if value < self.value:
                break
            lengths = 0.5 * lengths
        assert grown is not None
        return grown


def growth_along(
    objective: Objective,
    penalties: Penalties,
    point: Point,
    residual: SingularTriplets,
    cap: int,
    negligible: float,
    least: float = 0.0,
) -> Growth | None:
    """The directions in which the objective falls fastest, each as far as its curvature says; or None.

    A singular value that exceeds λ by a fraction below ``negligible`` does not keep the gap open. Each
    direction is followed as if it exceeded λ by a fraction of ``least``, or of less where that would cost too
    much of what the others gain.
    """
    xp = objective.xp
    factors = point.factors
    U, V, surplus = fresh_directions(residual, penalties.trace, factors.left, cap, negligible)
    if not surplus.shape[0]:
        return None
    curvature = point.curvature_along(U, V) + penalties.ridge
    curvature = xp.clip(curvature, smallest(curvature), None)
    lengths = xp.sqrt(_products(xp, surplus, curvature, least * penalties.trace))
    return Growth(factors, point.value + penalties.trace * 0.5 * _square(factors), U, V, lengths)


def _products(xp: Any, surplus: Array, curvature: Array, least: float) -> Array:
    """How far to go along each direction ``u vᵀ``, whose value exceeds λ by this ``surplus``.

    The objective changes by ``−surplus t + curvature t²/2`` along it, so a positive surplus asks for
    ``t = surplus / curvature``. The others are followed as if theirs was ``least``, at which they cost
    something: that is made smaller until they cost at most half of what the first ones gain.
    """

    def change(products: Array) -> float:
        return float(xp.sum((0.5 * curvature * products - surplus) * products))

    best = xp.clip(surplus, 0.0, None) / curvature
    enough = 0.5 * change(best)
    for _ in range(_SPARE_TRIALS if least else 0):
        products = xp.clip(surplus, least, None) / curvature
        if change(products) <= enough:
            return products
        least *= 0.25
    return best


def fresh_directions(
    residual: SingularTriplets, trace: float, left: Array, cap: int, negligible: float
) -> tuple[Array, Array, Array]:
    """The singular vectors whose values exceed λ and that are new to W = ``left @ right.T``; by how much.

    At most as many as a rank of ``cap`` leaves.
    """
    xp = namespace(left)
    fresh = residual.values > trace * (1 + negligible)
    if left.shape[1]:
        # At a stationary point W's own directions have σ = λ; only what leaves their span is new.
        inside = column_squares(thin_qr(left)[0].T @ residual.left)
        fresh = fresh & (inside < 0.5)
    chosen = xp.nonzero(fresh)[0][: cap - left.shape[1]]
    U, V = (xp.take(vectors, chosen, axis=1) for vectors in (residual.left, residual.right))
    return U, V, xp.take(residual.values, chosen) - trace


def _square(factors: Factors) -> float:
    return dot(factors.left, factors.left) + dot(factors.right, factors.right)
