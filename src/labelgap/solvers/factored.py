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

import numpy as np

from labelgap.objective.protocol import Factors, Objective, Point
from labelgap.solvers import newton
from labelgap.solvers.certificate import Certificate, certify
from labelgap.solvers.checkpoint import Checkpoint
from labelgap.solvers.factored_state import FactoredState
from labelgap.solvers.linalg.spectral import balanced
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.proximal import ProximalPath, starting_factors
from labelgap.solvers.result import Callback, Fit, Recorder, finished
from labelgap.solvers.states import factors_from, factors_state, scalars

# Directions of W below this share of the largest are dead.
_DEAD = 1e-6
_MAX_NEW_DIRECTIONS = 64
# A Newton round ends when a step gains less than this share of the gap that is still to be closed.
_ROUND_SHARE = 0.02
# Proximal steps between two looks at the gap; fewer where a few steps may be enough.
_PROXIMAL_ROUND, _LOOSE_ROUND, _LOOSE = 6, 4, 1e-2
# Rounds of proximal steps between two places from which a run can be gone on with.
_MARK_EVERY = 8
# Newton's method costs about as much as this many proximal steps, and as many more for each direction of W.
_NEWTON_WORTH, _NEWTON_WORTH_PER_RANK = 25.0, 8.0
# Rounds of proximal steps that their pace is taken from.
_PACE = 5
# A round that lowers the objective by more than this share of it is worth another.
_STILL_FALLING = 1e-2
# Rounds in which the gap may fail to halve, and a step gain next to nothing of it, before rounding must be to
# blame. Far from the optimum the gap can stay near 1 for long while the objective falls.
_PATIENCE = 40
_NOTHING = 1e-6


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
    full = min(objective.shape)
    cap = full if rank is None else min(full, rank)
    checkpoint = checkpoint or Checkpoint()
    kept = checkpoint.last()
    recorder = Recorder(callback, kept)
    capped, died_out = False, False
    radius: float | None = None
    best_gap, rounds_without_gain = np.inf, 0

    def look(factors: Factors) -> tuple[Point, Certificate]:
        point = objective.at(factors)
        certificate = certify(objective, point, penalties, directions=_count(penalties, factors.rank, cap))
        recorder.report(steps, certificate, factors.rank)
        return point, certificate

    if kept is not None and "radius" in kept:
        steps, radius = int(kept["steps"]), float(kept["radius"])
        best_gap, rounds_without_gain = float(kept["best_gap"]), int(kept["rounds_without_gain"])
        capped, died_out, last_gap = bool(kept["capped"]), bool(kept["died_out"]), float(kept["last_gap"])
        point, certificate = look(factors_from(kept))
        died_out &= certificate.gap > 0.5 * last_gap
    else:
        start = starting_factors(objective, warm_start)
        point, certificate, steps = _proximal_start(
            objective, penalties, start, cap, full, tol, max_iter, recorder, checkpoint
        )
    while not (certificate.relative_gap <= tol or died_out or steps >= max_iter or checkpoint.stopping()):
        factors = point.factors
        grown = _grow(objective, penalties, point, certificate, cap, 0.1 * tol)
        state = FactoredState(objective, penalties, grown or point)
        if grown is not None:
            # What the new directions bring is worth taking up to a share of the gap they leave open.
            report = newton.minimise(
                state,
                state.moved_to,
                enough=_ROUND_SHARE * certificate.gap,
                max_steps=max_iter - steps,
                stopping=checkpoint.stopping,
            )
        else:
            # Nothing to add: the gap is unfinished work at this rank, one accurate step at a time.
            report = newton.minimise(
                state,
                state.moved_to,
                enough=np.inf,
                max_steps=max_iter - steps,
                radius=radius,
                forcing=0.1,
                stopping=checkpoint.stopping,
            )
            capped = factors.rank == cap < full
            smallest = 0.01 * tol if capped else 1e-14
            died_out = report.decrease <= smallest * certificate.scale
        rounds_without_gain += 1
        if certificate.gap < 0.5 * best_gap or report.decrease > _NOTHING * certificate.gap:
            best_gap, rounds_without_gain = min(best_gap, certificate.gap), 0
        died_out |= rounds_without_gain > _PATIENCE
        last_gap = certificate.gap
        steps, radius = steps + report.steps, report.radius
        factors = _balanced_factors(report.state.point.factors, cap)
        if not checkpoint.stopping():
            numbers = scalars(
                steps=steps,
                radius=radius,
                best_gap=best_gap,
                rounds_without_gain=rounds_without_gain,
                capped=capped,
                died_out=died_out,
                last_gap=last_gap,
            )
            checkpoint.snapshot({**factors_state(factors), **numbers, "history": recorder.as_state()})
        point, certificate = look(factors)
        # A step that gains nothing measurable of the objective may still close the gap.
        died_out &= certificate.gap > 0.5 * last_gap
    reached = certificate.relative_gap <= tol
    return finished(point.factors, certificate, steps, recorder, reached, capped and not reached, died_out)


def _proximal_start(
    objective: Objective,
    penalties: Penalties,
    start: Factors,
    cap: int,
    full: int,
    tol: float,
    max_iter: int,
    recorder: Recorder,
    checkpoint: Checkpoint,
) -> tuple[Point, Certificate, int]:
    """Proximal steps for as long as they close the gap fast.

    They find the rank at once and cost one Gram matrix each where the d x L gradient may be formed; Newton's
    method takes over where the features are badly conditioned, or for the last digits. Under a rank cap they
    could settle on the wrong directions, so there Newton's method grows W from the start.
    """
    steps = 0
    if cap < full or not objective.may_form:
        point = objective.at(_balanced_factors(start, cap))
        rank = point.factors.rank
        certificate = certify(objective, point, penalties, directions=_count(penalties, rank, cap))
        recorder.report(0, certificate, rank)
        return point, certificate, steps
    path = ProximalPath(objective, penalties, start, cap, tol)
    usual = _LOOSE_ROUND if tol >= _LOOSE else _PROXIMAL_ROUND
    gaps: list[float] = []
    gained = np.inf
    kept = checkpoint.last()
    if kept is not None:
        path.restart(kept)
        steps, gained, gaps = int(kept["steps"]), float(kept["gained"]), kept["gaps"].tolist()
    while True:
        if len(gaps) % _MARK_EVERY == 0 and gaps:
            path.restart()
            numbers = scalars(steps=steps, gained=gained)
            checkpoint.snapshot(
                {**path.state(), **numbers, "gaps": np.array(gaps), "history": recorder.as_state()}
            )
        point = path.point
        rank = point.factors.rank
        certificate = path.certificate(_count(penalties, rank, cap))
        recorder.report(steps, certificate, rank)
        gaps.append(certificate.gap)
        if certificate.relative_gap <= tol or steps >= max_iter or checkpoint.stopping():
            break
        # Far from the optimum the gap tells nothing yet. Without a trace norm nothing balances the factors,
        # and Newton's method in them is the slower one for good.
        falling = gained > _STILL_FALLING * certificate.scale or penalties.trace == 0
        worth = _NEWTON_WORTH + _NEWTON_WORTH_PER_RANK * rank
        if not falling and len(gaps) > _PACE and _steps_to_go(gaps, tol * certificate.scale, usual) > worth:
            break
        round_steps = min(usual, max_iter - steps)
        gained = sum(path.advance() for _ in range(round_steps))
        steps += round_steps
    return point, certificate, steps


def _steps_to_go(gaps: list[float], target: float, round_steps: int) -> float:
    """Proximal steps until the gap is ``target``, at the pace of the last rounds of so many steps."""
    if gaps[-1] <= target:
        return 0.0
    pace = np.log(gaps[-1 - _PACE] / gaps[-1]) / (_PACE * round_steps)
    return float(np.log(gaps[-1] / target) / pace) if pace > 0 else np.inf


def _balanced_factors(factors: Factors, cap: int) -> Factors:
    _, left, right = balanced(factors.left, factors.right, cutoff=_DEAD)
    return Factors(
        np.ascontiguousarray(left[:, :cap]), np.ascontiguousarray(right[:, :cap]), factors.intercept
    )


def _count(penalties: Penalties, rank: int, cap: int) -> int:
    """How many triplets to ask for: the rank may double in a round."""
    if penalties.trace == 0:
        return cap
    return min(max(8, rank), _MAX_NEW_DIRECTIONS, cap)


def _grow(
    objective: Objective,
    penalties: Penalties,
    point: Point,
    certificate: Certificate,
    cap: int,
    negligible: float,
) -> Point | None:
    """Add the directions in which the objective falls fastest, each as far as its curvature says.

    A singular value that exceeds λ by a share below ``negligible`` does not keep the gap open.
    """
    factors, residual = point.factors, certificate.residual
    fresh = residual.values > penalties.trace * (1 + negligible)
    if factors.rank:
        # At a stationary point W's own directions have σ = λ; only what leaves their span is new.
        basis = np.linalg.qr(factors.left)[0]
        inside = np.sum((basis.T @ residual.left) ** 2, axis=0)
        fresh &= inside < 0.5
    chosen = np.flatnonzero(fresh)[: cap - factors.rank]
    if not len(chosen):
        return None
    U, V, values = residual.left[:, chosen], residual.right[:, chosen], residual.values[chosen]
    bend = point.curvature_along(U, V) + penalties.ridge
    size = np.sqrt((values - penalties.trace) / np.maximum(bend, 1e-300))
    for _ in range(6):
        left = np.hstack([factors.left, -size * U])
        right = np.hstack([factors.right, size * V])
        grown = objective.at(Factors(left, right, factors.intercept))
        before = point.value + penalties.trace * 0.5 * _square(factors)
        after = grown.value + penalties.trace * 0.5 * _square(grown.factors)
        if after < before:
            break
        size = 0.5 * size
    return grown


def _square(factors: Factors) -> float:
    return float(np.sum(factors.left**2) + np.sum(factors.right**2))
