"""Sweeps of small Newton steps, row by row and label by label, at a rank that the certificate grows.

Where every row and every label has parameters of its own (collaborative filtering), a sweep of
:mod:`labelgap.solvers.alternating` costs little more than a few passes over the entries. At a rank of at
least that of the optimum, sweeps lead to the optimum of the convex problem, and the duality gap proves it. So
this method makes rounds: a few sweeps, then the certificate. Where that shows directions in which the
objective still falls, columns are added for them; columns that have shrunk to nothing are dropped. Rounds
begin with few columns, and most of the way is made while sweeps are cheap.

The last digits come slowly to alternation. Where the rounds become too slow for the tolerance, Newton's
method in all variables (:mod:`labelgap.solvers.factored`) takes over from where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from labelgap.objective.protocol import Factors, Objective, Point, Rowwise
from labelgap.solvers.alternating import RowSweeps, certify_to_tolerance
from labelgap.solvers.certificate import Certificate, Penalties
from labelgap.solvers.factored import FEW_DIRECTIONS, FactoredMethod, growth_along
from labelgap.solvers.linalg import Array, balanced, contiguous, dot, host, like, thin_qr
from labelgap.solvers.loop import (
    Callback,
    Checkpoint,
    Fit,
    Method,
    State,
    balanced_factors,
    contiguous_factors,
    factors_from,
    factors_state,
    run,
    scalars,
    starting_factors,
)
from labelgap.solvers.newton import FactoredState
from labelgap.solvers.soft_threshold import Spectrum, first_vectors, soft_threshold
from labelgap.solvers.spectral import LowRankShift, SingularTriplets, leading_triplets, roughly_leading

# Columns to begin with. Their number may double in a round, and from many on grow by half.
_FIRST_COLUMNS, _MANY = 8, 64
# Sweeps in a round, at most, and the fraction of the round's first gain below which another is not worth it.
_MOST_SWEEPS, _WORTH = 5, 0.1
# Columns may be dropped if together they cost this fraction of the tolerance.
_NEGLIGIBLE = 0.02
# A singular value that exceeds λ by this fraction of the tolerance does not keep the gap open.
_EXCESS = 0.1
# Directions whose singular value is below λ by this fraction get a column too, of the length that one above
# it by the second fraction would get: with columns to spare, sweeps need fewer rounds.
_BELOW, _LEAST = 0.05, 0.01
# Columns are added where directions outside of the span exceed λ by this fraction of what the steepest one
# does.
_OUTSIDE = 0.3
# Conjugate gradients take over from plain sweeps after a round that lowers the objective by less than this
# fraction of it.
_FALLING = 1e-3
# Steps of conjugate gradients in a round, and in one that is to close the gap by less than this factor.
_CONJUGATE_STEPS, _LAST_STEPS, _NEARLY = 10, 5, 2.0
# Trials of a length in each, the longest of which is so many times the one before.
_TRIALS, _LONGER = 4, 4.0
# A length that is this close to the best one, as a fraction, will do.
_CLOSE = 0.2
# A round whose last step gains less than this fraction of the tolerance has come to its end where the rank
# is limited. Elsewhere the gap has to close, which falls with about the square root of what is left to gain:
# there the fraction is one of the square of the tolerance.
_NOTHING, _NOTHING_OF_SQUARE = 2e-3, 0.02
# The gap has to fall by this factor within so many rounds.
_FASTER, _PATIENCE = 0.7, 1
# The least tolerance that sweeps in single precision are made for.
LEAST_TOL = 1e-4
_HANDED_OVER = "handed_over"


class SweepingMethod(Method):
    """Rounds of sweeps at a growing rank; Newton's method in all variables where they end."""

    def __init__(self, objective: Objective, penalties: Penalties, steps: Rowwise, **options: Any) -> None:
        super().__init__(objective, penalties, **options)
        self._steps, self._options = steps, options
        self._newton: FactoredMethod | None = None
        self._waiting = 0
        self._best_gap = self._last_objective = np.inf
        self._died_out = False

    def begin(self, start: Factors | None, kept: State | None) -> None:
        if kept is not None and _HANDED_OVER in kept:
            self._hand_over(None, kept)
            return
        if kept is None:
            self._factors = balanced_factors(starting_factors(self._objective, start), self._cap)
            return
        self._factors = starting_factors(self._objective, factors_from(kept))
        self.iteration, self._waiting = int(kept["sweeps"]), int(kept["waiting"])
        self._best_gap, self._died_out = float(kept["best_gap"]), bool(kept["died_out"])
        self._last_objective = float(kept["last_objective"])

    def snapshot(self) -> Mapping[str, Array] | None:
        if self._newton is not None:
            state = self._newton.snapshot()
            return None if state is None else {**state, **scalars(**{_HANDED_OVER: True})}
        return {
            **factors_state(self._factors),
            **scalars(
                sweeps=self.iteration,
                waiting=self._waiting,
                best_gap=self._best_gap,
                last_objective=self._last_objective,
                died_out=self._died_out,
            ),
        }

    @property
    def factors(self) -> Factors:
        return self._factors if self._newton is None else self._newton.factors

    @property
    def exhausted(self) -> bool:
        return super().exhausted if self._newton is None else self._newton.exhausted

    @property
    def stalled(self) -> bool:
        if self._newton is not None:
            return self._newton.stalled
        # Under a cap that binds the gap stays open, and the sweeps end where they gain nothing.
        return self._died_out and self.capped

    @property
    def capped(self) -> bool:
        if self._newton is not None:
            return self._newton.capped
        return self._factors.rank == self._cap < self._full

    def certify(self) -> Certificate:
        if self._newton is not None:
            return self._newton.certify()
        self._certificate = certify_to_tolerance(
            self._objective,
            self._factors,
            self._penalties,
            self._tol,
            wanted="the gap",
            directions=FEW_DIRECTIONS,
        )
        return self._certificate

    def step(self, stopping: Callable[[], bool]) -> None:
        if self._newton is None and self._too_slow():
            self._hand_over(self._factors, None).certify()
        if self._newton is not None:
            self._newton.step(stopping)
            self.iteration = self._newton.iteration
            return
        self._round(stopping)

    # -- rounds --------------------------------------------------------------------------------------------

    def _round(self, stopping: Callable[[], bool]) -> None:
        start, grown = self._with_columns()
        move = self._sweep if self._falling else self._sweep_conjugately
        gained = move(start, stopping)
        nothing = _NOTHING * self._tol if self.capped else _NOTHING_OF_SQUARE * self._tol**2
        self._died_out = grown == 0 and gained <= nothing * self._certificate.scale

    def _sweep(self, start: Factors, stopping: Callable[[], bool]) -> float:
        """A few sweeps; what the last one gained."""
        sweeps = RowSweeps(self._steps, self._penalties, start)
        first = gained = 0.0
        for number in range(min(_MOST_SWEEPS, self._max_iter - self.iteration)):
            gained = sweeps.sweep()
            self.iteration += 1
            first = max(first, gained)
            if stopping() or (number > 0 and gained <= _WORTH * first):
                break
        self._factors = contiguous_factors(sweeps.factors())
        return gained

    def _sweep_conjugately(self, start: Factors, stopping: Callable[[], bool]) -> float:
        """Sweeps as the preconditioner of nonlinear conjugate gradients; what the last step gained.

        A and B move together along the directions, which sweeps alone do slowly.
        """
        steps, penalties, gained = self._steps, self._penalties, 0.0
        state = FactoredState(self._objective, penalties, self._objective.at(start))
        before: tuple[Factors, Factors, Factors] | None = None
        most = _LAST_STEPS if self._nearly else _CONJUGATE_STEPS
        for _ in range(min(most, self._max_iter - self.iteration)):
            at = steps.start(state.x)
            steps.step_labels(at, penalties, 1.0)
            steps.step_rows(at, penalties, 1.0)
            swept = combined(1.0, at.factors(), -1.0, state.x)
            slope = state.gradient()
            along = swept
            if before is not None:
                direction, slope_before, sweep_before = before
                change = combined(1.0, swept, -1.0, sweep_before)
                ratio = max(0.0, _dot(slope, change) / _dot(slope_before, sweep_before))
                along = combined(1.0, swept, ratio, direction)
                if _dot(slope, along) >= 0:
                    along = swept
            after = _best_along(state, along, _dot(slope, along))
            self.iteration += 1
            gained = state.value - after.value
            if not gained > 0:
                gained = 0.0
                break
            before, state = (along, slope, swept), after
            if stopping():
                break
        self._factors = balanced_factors(state.x, self._cap)
        return gained

    @property
    def _nearly(self) -> bool:
        """Whether the next round may be the last."""
        return self._certificate.relative_gap < _NEARLY * self._tol

    def _with_columns(self) -> tuple[Factors, int]:
        """The factors without columns that do not matter, with new ones where needed, and how many."""
        objective, penalties, certificate = self._objective, self._penalties, self._certificate
        point = self._pruned()
        factors, rank = point.factors, point.factors.rank
        self._judge(certificate)
        excess = _EXCESS * self._tol
        if certificate.residual.top <= penalties.trace * (1 + excess) or rank == self._cap:
            return factors, 0
        wanted = max(_FIRST_COLUMNS, rank if rank < _MANY else rank // 2)
        residual = self._directions(point, min(self._cap - rank, wanted))
        total = certificate.residual.top - penalties.trace
        if float(residual.values[0]) - penalties.trace <= _OUTSIDE * total:
            # What keeps the gap open lies within the span of the columns.
            return factors, 0
        # Columns to spare pay in the rounds to come, and the last one leaves them in the model.
        spare = (excess, 0.0) if self._nearly else (-_BELOW, _LEAST)
        growth = growth_along(objective, penalties, point, residual, self._cap, *spare)
        if growth is None:
            return factors, 0
        del point
        grown = growth.followed(objective, penalties.trace).factors
        return contiguous_factors(grown), grown.rank - rank

    def _pruned(self) -> Point:
        """The place without columns that do not matter, or that the optimum will not have.

        Sweeps shorten a column that the optimum does not have by a fraction at a time. A Newton step in its
        singular value alone tells whether that is on the way to 0.
        """
        objective, penalties = self._objective, self._penalties
        values, left, right = balanced(self._factors.left, self._factors.right)
        tail = np.cumsum(host(values)[::-1])[::-1] * penalties.trace
        rank = int(np.sum(tail > _NEGLIGIBLE * self._tol * self._certificate.scale))
        factors = contiguous_factors(Factors(left[:, :rank], right[:, :rank], self._factors.intercept))
        point = objective.at(factors)
        if rank == 0:
            return point
        xp = objective.xp
        values = values[:rank]
        U, V = (part / xp.sqrt(values) for part in factors[:2])
        shift = LowRankShift(point.score_gradient(), *factors[:2], scale=penalties.ridge)
        slope = xp.sum(U * shift.times(V), axis=0) + penalties.trace
        curvature = point.curvature_along(U, V) + penalties.ridge
        staying = xp.nonzero(values * curvature > slope)[0]
        left, right = (contiguous(xp.take(part, staying, axis=1)) for part in factors[:2])
        fewer = Factors(left, right, factors.intercept)
        before, after = (FactoredState(objective, penalties, at) for at in (point, objective.at(fewer)))
        return after.point if after.value <= before.value else point

    def _directions(self, point: Point, count: int) -> SingularTriplets:
        """About the steepest directions of the smooth part of the objective."""
        objective, factors = self._objective, point.factors
        shift = LowRankShift(point.score_gradient(), factors.left, factors.right, scale=self._penalties.ridge)
        if objective.may_form:
            return leading_triplets(shift, objective.shape, count, may_form=True)
        random = np.random.RandomState(0).standard_normal((objective.shape[1], count))
        start = like(random, factors.right)
        # Where many values are close together, random columns alone would miss the largest.
        known = self._certificate.residual.right[:, :count]
        start = objective.xp.concat([known, start[:, known.shape[1] :]], axis=1)
        spans = thin_qr(factors.left)[0], thin_qr(factors.right)[0]
        return roughly_leading(shift, start, spans)

    def _judge(self, certificate: Certificate) -> None:
        """Whether the objective still falls, and for how many rounds the gap has hardly moved."""
        self._falling = self._last_objective - certificate.objective > _FALLING * certificate.scale
        self._last_objective = certificate.objective
        self._waiting += 1
        if certificate.gap < _FASTER * self._best_gap or self._falling:
            self._best_gap, self._waiting = min(self._best_gap, certificate.gap), 0

    def _too_slow(self) -> bool:
        return not self.capped and (self._died_out or self._waiting > _PATIENCE)

    # -- Newton's method -----------------------------------------------------------------------------------

    def _hand_over(self, start: Factors | None, kept: State | None) -> FactoredMethod:
        self._newton = FactoredMethod(self._objective, self._penalties, **self._options)
        self._newton.begin(start, kept)
        self.iteration = self._newton.iteration = max(self._newton.iteration, self.iteration)
        return self._newton


def combined(first_weight: float, first: Factors, second_weight: float, second: Factors) -> Factors:
    """A weighted sum of two sets of factors, as vectors of numbers."""
    pairs = zip(first, second, strict=True)
    return Factors(*(first_weight * one + second_weight * two for one, two in pairs))


def _dot(first: Factors, second: Factors) -> float:
    return sum(dot(one, two) for one, two in zip(first, second, strict=True))


def _best_along(state: FactoredState, direction: Factors, slope: float) -> FactoredState:
    """About the lowest place along a direction with this slope, by parabolas through the values."""
    length = 1.0
    # A place is as large as the data, and those that are left behind are rarely returned to.
    state.release()
    best = state.moved_to(combined(1.0, state.x, length, direction))
    for _ in range(_TRIALS - 1):
        bend = 2 * (best.value - state.value - slope * length) / length**2
        wanted = -slope / bend if bend > 0 else math.inf
        wanted = min(max(wanted, length / _LONGER**2), length * _LONGER)
        if abs(wanted - length) <= _CLOSE * length and best.value < state.value:
            break
        best.release()
        other = state.moved_to(combined(1.0, state.x, wanted, direction))
        if other.value >= best.value and best.value < state.value:
            break
        best, length = other, wanted
    return best if best.value < state.value else state


def closed_form(target: Any, trace: float, rank: int | None, tol: float) -> Factors:
    """The minimum of ``Σ (z − t)² / N + λ‖W‖_*`` over all entries; the certificate of a method proves it."""
    shorter = min(target.shape)
    spectrum = Spectrum(target.normal, first_vectors(shorter, np.zeros(0)))
    cap = shorter if rank is None else min(rank, shorter)
    found = soft_threshold(target, spectrum, 0.5 * trace * target.total, rank=cap, tol=0.1 * tol)
    root = np.sqrt(found.values - found.penalty)
    return Factors(found.image / found.values * root, found.right * root, target.intercept)


def solve_auto(
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
    """Minimise to a relative duality gap of ``tol``: by sweeps where they are fast, else as "factored" does.

    Where the objective is the distance from a matrix of all entries, it starts at the closed form.

    Sweeps are fast where rows and labels have parameters of their own, there is a trace norm to find the rank
    by, and the tolerance is one that they reach in single precision. ``rank`` is a cap, not a guess;
    ``max_iter`` bounds the sweeps, and the Newton steps after them.
    """
    steps = None
    # The objective of recorded positives may be the distance from a matrix.
    target = objective.target() if hasattr(objective, "target") else None
    if penalties.trace > 0 and target is not None and not (penalties.ridge or penalties.intercept):
        warm_start = closed_form(target, penalties.trace, rank, tol)
    elif penalties.trace > 0 and tol >= LEAST_TOL:
        # None where rows share parameters.
        steps = objective.rowwise(objective.xp.float32)
    options: dict[str, Any] = {"rank": rank, "tol": tol, "max_iter": max_iter}
    method: Method
    if steps is None:
        method = FactoredMethod(objective, penalties, **options)
    else:
        method = SweepingMethod(objective, penalties, steps, **options)
    return run(method, tol=tol, warm_start=warm_start, callback=callback, checkpoint=checkpoint)
