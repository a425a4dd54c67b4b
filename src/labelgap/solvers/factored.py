"""The trace-norm problem by proximal steps and Newton steps in turn.

Accelerated proximal steps find the rank at once: what they do not shrink to nothing is a direction of W. But
the last of the way is long where features are badly conditioned. Trust-region Newton steps in all of
(A, B, b) take it fast, with the *full* Hessian: along the directions W already uses the trace norm is linear,
and in factored form this flatness comes out only when the cross term ``2⟨XᵀG, dA dBᵀ⟩`` cancels the
``λ(‖dA‖² + ‖dB‖²)``. Alternation (and Gauss–Newton) never see the cross term, overestimate the curvature
there, and crawl. Newton steps in their turn crawl while there are directions that the optimum does not have,
which die slowly in factored form. So each does what it is good at: a round makes a few proximal steps, and
where these do not lower the objective much any more, a few Newton steps from there.

Where rows and labels have parameters of their own, sweeps of small Newton steps take the place of the large
ones as long as they lower the objective: each costs little more than a pass over the entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from labelgap.objective.protocol import Factors, Objective, Rowwise
from labelgap.solvers.alternating import RowSweeps
from labelgap.solvers.certificate import Certificate, Penalties
from labelgap.solvers.growth import GrowthMethod
from labelgap.solvers.linalg import Array
from labelgap.solvers.loop import (
    Callback,
    Checkpoint,
    Fit,
    Method,
    State,
    balanced_factors,
    run,
    scalars,
    starting_factors,
)
from labelgap.solvers.newton import FactoredState
from labelgap.solvers.proximal import ProximalPath
from labelgap.solvers.soft_threshold import first_vectors, soft_threshold
from labelgap.solvers.spectral import Spectrum
from labelgap.solvers.tuning import TUNED


class FactoredMethod(GrowthMethod):
    """Rounds of proximal steps, and of Newton steps once these have found the way."""

    _most_steps, _most_products = TUNED.newton_steps, TUNED.newton_products
    _proximal_steps = TUNED.proximal_steps
    _still_falling = TUNED.still_falling
    _lengths = TUNED.lengths
    _goes_on = True
    """Whether a round goes on after its proximal steps."""
    _rounds = 0
    _jumped = False

    def begin(self, start: Factors | None, kept: State | None) -> None:
        first = starting_factors(self._objective, start)
        self._warm, self._slow, self._gaps = start is not None, not self._objective.may_form, []
        problem = self._objective, self._penalties, first
        self._path = ProximalPath(*problem, self._cap, self._tol, self._lengths)
        if kept is not None:
            self._path.restore(kept)
            self._take_numbers(kept)
            self._rounds, self._gaps = int(kept["rounds"]), kept["gaps"].tolist()
            self._slow = bool(kept["slow"])

    def snapshot(self) -> Mapping[str, Array] | None:
        if self._jumped:
            state = self._path.state()
        elif self._rounds and self._rounds % TUNED.snapshot_every == 0:
            state = self._path.restart()
        else:
            return None
        numbers = scalars(rounds=self._rounds, slow=self._slow)
        return {**state, **self._numbers(), **numbers, "gaps": np.array(self._gaps)}

    @property
    def factors(self) -> Factors:
        return self._path.point.factors

    @property
    def due(self) -> bool:
        # A loose fit that starts at another one is made to be compared with it: it makes steps before it asks
        # for the gap, which costs about as much as a step and may be small enough for no step at all.
        return not self._warm or self._tol <= TUNED.loose or self.iteration > 0 or self.factors.rank == 0

    def _certified(self) -> Certificate:
        found = self._path.certificate()
        self._gaps = [*self._gaps[-TUNED.pace_rounds :], found.gap]
        return found

    def _grown(self) -> FactoredState | None:
        path, rank = self._path, self.factors.rank
        if not self._objective.may_form:
            more = min(
                self._cap - rank, max(TUNED.first_columns, rank if rank < TUNED.many_columns else rank // 2)
            )
            path.most = rank + more
            if self._asked and rank and more:
                residual, trace = self._certificate.residual, self._penalties.trace
                if residual.top > trace * (1 + TUNED.excess * self._tol):
                    path.seek(more, residual)
        steps = (
            self._proximal_steps
            if self._tol < TUNED.very_loose
            else min(self._proximal_steps, TUNED.few_steps)
        )
        steps = min(steps, self._max_iter - self.iteration)
        gained = sum(path.advance() for _ in range(steps))
        self.iteration += steps
        self._rounds += 1
        self._jumped = False
        # Without a trace norm nothing balances the factors, and Newton's method in them is the slower one.
        falling = gained > self._still_falling * abs(path.value)
        useful = self._goes_on and self._penalties.trace > 0 and self._asked and not falling
        if not useful or self.exhausted or not self.factors.rank:
            return None
        known = len(self._gaps) > TUNED.pace_rounds
        self._slow = self._slow or (known and self._gaps[-1] > TUNED.pace * self._gaps[0])
        if not self._slow:
            return None
        return FactoredState(self._objective, self._penalties, path.leave())

    def _settle(self, x: Factors) -> None:
        self._path.jump(balanced_factors(x, self._cap, TUNED.dead))
        self._jumped = True


class ProximalMethod(FactoredMethod):
    """Proximal steps to the end."""

    _goes_on = False


class SweepingMethod(FactoredMethod):
    """Rounds of a proximal step, and of sweeps for as long as these lower the objective much."""

    _proximal_steps = 1
    _lengths = TUNED.lengths_with_sweeps
    # Sweeps cost so little that they come before the rank grows on.
    _still_falling = math.inf

    def __init__(self, objective: Objective, penalties: Penalties, steps: Rowwise, **options: Any) -> None:
        super().__init__(objective, penalties, **options)
        self._steps = steps

    def _minimised(self, state: FactoredState, stopping: Callable[[], bool]) -> Any:
        if self._gained <= TUNED.sweeps_worth * self._tol * self._certificate.scale:
            return super()._minimised(state, stopping)
        sweeps = RowSweeps(self._steps, self._penalties, state.x)
        state.release()
        first = 0.0
        for number in range(min(TUNED.sweeps, self._max_iter - self.iteration)):
            gained = sweeps.sweep()
            self.iteration += 1
            first = max(first, gained)
            if stopping() or (number > 0 and gained <= TUNED.sweep_worth * first):
                break
        return sweeps.factors()


def closed_form(target: Any, trace: float, rank: int | None, tol: float) -> Factors:
    """The minimum of ``Σ (z − t)² / N + λ‖W‖_*`` over all entries; the certificate of a method proves it."""
    shorter = min(target.shape)
    spectrum = Spectrum(target.normal, first_vectors(shorter, np.zeros(0)))
    cap = shorter if rank is None else min(rank, shorter)
    found = soft_threshold(target, spectrum, 0.5 * trace * target.total, rank=cap, tol=0.1 * tol)
    root = np.sqrt(found.values - found.penalty)
    return Factors(found.image / found.values * root, found.right * root, target.intercept)


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


def solve_proximal(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 5000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fit:
    """Minimise to a relative duality gap of ``tol`` by proximal steps alone.

    With a ``rank`` cap only that many singular values survive each step; the gap then still refers to the
    problem without the cap.
    """
    method = ProximalMethod(objective, penalties, rank=rank, tol=tol, max_iter=max_iter)
    return run(method, tol=tol, warm_start=warm_start, callback=callback, checkpoint=checkpoint)


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
    elif penalties.trace > 0 and tol >= TUNED.least_sweeping_tol:
        # None where rows share parameters.
        steps = objective.rowwise(objective.xp.float32)
    options: dict[str, Any] = {"rank": rank, "tol": tol, "max_iter": max_iter}
    method: Method
    if steps is None:
        method = FactoredMethod(objective, penalties, **options)
    else:
        method = SweepingMethod(objective, penalties, steps, **options)
    return run(method, tol=tol, warm_start=warm_start, callback=callback, checkpoint=checkpoint)
