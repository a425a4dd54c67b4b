"""The close look: near the best penalties, choices are compared by fits within a few directions.

From one choice of penalties to the next, W changes less in its directions than in how long they are. So once
a search has come near the best λ, it takes orthonormal columns U, those of W and the ones that a smaller λ
would let in, and compares choices by fits of ``W = U M``. That is the same problem with a few features XU in
place of many, since ``‖W‖_* = ‖M‖_*`` and ``‖W‖_F = ‖M‖_F``, and a step takes a fraction of the time. The
last fit, and the fits that the threshold comes from, have all directions again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labelgap._arrays import to_host
from labelgap._types import Floats
from labelgap.fitting.cross_validation import CrossValidation
from labelgap.fitting.search import select_penalties
from labelgap.objective.protocol import Factors, Objective
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.loop import Candidate, starting_factors
from labelgap.solvers.spectral import LowRankShift, leading_triplets
from labelgap.thresholds.cross_fit import NEVER

if TYPE_CHECKING:
    from labelgap.fitting.choice import PenaltyChoice

MOST_TOGETHER = 2
"""Folds that may be held out as one; of five, more would leave too few entries."""
# The largest fraction of all directions that is a few of them.
_FEW = 0.25
# Numbers in an array that is small whatever the data.
_SMALL = 1 << 22
# The λ whose directions are let in, as a fraction of the one that the look begins at. The look goes down by a
# factor of √2.
_LET_IN = 0.6
# A direction counts if at least this much of it is outside of those before it.
_NEW = 0.1


def within_few_directions(
    choice: PenaltyChoice, folds: CrossValidation, penalties: Penalties, part: str, plan: Any
) -> CrossValidation | None:
    """The same folds within a few directions, near the fit that they start from; None where those are many.

    The penalties are those that the look begins at. The directions are kept in the checkpoint: a resumed
    search may start from later fits.
    """
    kept = choice.run.checkpoint.part(f"{part}, directions")
    state = kept.last()
    basis = _few_directions(folds, penalties) if state is None else state["basis"]
    if state is None:
        kept.snapshot({"basis": basis}, at_once=True)
    if not basis.shape[1]:
        return None
    close = CrossValidation(
        choice.problem,
        choice.labels,
        plan,
        choice.judge,
        choice.settings,
        choice.run.n_jobs,
        choice.run.checkpoint.part(f"{part}, few directions"),
        basis=basis,
    )
    close.start_from(folds)
    return close


def _few_directions(folds: CrossValidation, penalties: Penalties) -> Floats:
    """Orthonormal columns; none where they are many, or features of them would be larger than the data."""
    model = folds.fit_of_fold(0)
    objective = folds.objective(0, free_intercept=penalties.intercept == 0)
    none = np.empty((objective.shape[0], 0))
    if model is None or not objective.may_form:
        return none
    basis = span_of(objective, model, penalties)
    small = folds.n_rows * basis.shape[1] <= max(objective.n_stored, _SMALL)
    return basis if small and basis.shape[1] <= _FEW * len(basis) else none


def may_hold_out_together(choice: PenaltyChoice) -> bool:
    """Whether folds may be held out as one: only observed entries count, and all fits go by one plan."""
    settings = choice.problem.settings
    every_entry_counts = settings.flip_rate is not None or settings.silence_weight is not None
    one_plan = choice.held_out is None and choice.challenge is None
    return choice.holds_out_together and one_plan and not every_entry_counts


def look_with_folds_together(
    choice: PenaltyChoice, plan: Any, n_folds: int, tol: float, near_tol: float
) -> Candidate:
    """The best candidate where the first folds are held out as one, so that each choice takes one fit.

    That fit has seen nothing of these folds, so that the fits of both, which the threshold comes from, start
    from it. Gaps are ``tol`` on the way to the best λ and ``near_tol`` near it. The choice is left standing
    at the folds of the plan.
    """
    together = np.where((plan >= 0) & (plan < n_folds), 0, NEVER).astype(plan.dtype)
    times = choice.share_of_fold() / (1.0 - int((together == 0).sum()) / choice.labels.n_observed)
    look = CloseLook(choice, together, tol)

    def compare(choices: Sequence[Penalties]) -> list[Candidate]:
        look.hand_over(choices[0])
        return choice.compare_at(choice.standing, choices, tol, 1)

    def closely(choices: Sequence[Penalties]) -> list[Candidate]:
        look.begin(choices[0])
        return choice.compare_at(choice.standing, choices, near_tol, 1)

    def search() -> Candidate:
        best = select_penalties(
            compare, choice.grid, criterion=choice.criterion, closely=closely, glance=look.glance
        )
        return choice.select_settings(best, together, near_tol, 1, coarse=True)

    best, fitted = choice.on_fewer_entries(times, together, search, n_together=n_folds)
    folds = choice.cross_validation("threshold", plan)
    if fitted is not None:
        folds.start_all_from(fitted, best.penalties, range(n_folds))
    choice.stand_at(choice.standing._replace(folds=folds))
    return best


class CloseLook:
    """What a search sees from its best fit so far, within a few directions."""

    def __init__(self, choice: PenaltyChoice, plan: Any, tol: float) -> None:
        self._choice, self._plan, self._tol = choice, plan, tol
        self._has_begun = False
        self._from: Penalties | None = None
        self._folds: CrossValidation | None = None

    def glance(self, best: Penalties, other: Penalties) -> Candidate | None:
        """How good other penalties are, near the fit with the best ones; None where directions are many."""
        close = self._near(self._choice.standing.folds, best)
        if close is None:
            return None
        found = close.compare([other], tol=self._tol)
        return self._choice.report_at(self._choice.standing, found)[0]

    def hand_over(self, penalties: Penalties) -> None:
        """Let the fit with these penalties start from the one of the last glance, if that was at them."""
        if self._folds is not None and self._folds.penalties_of_fold(0) == penalties:
            self._choice.standing.folds.start_from(self._folds)

    def begin(self, penalties: Penalties) -> None:
        """From now on the choice compares by fits near that with these penalties, which is made if need be.

        Later calls change nothing.
        """
        if self._has_begun:
            return
        self._has_begun = True
        choice, folds = self._choice, self._choice.standing.folds
        if self._from != penalties and folds.penalties_of_fold(0) != penalties:
            # With a judge of its own, a fit is kept whatever it is worth.
            folds(penalties, tol=self._tol, judge=choice.judge)
        close = self._near(folds, penalties)
        if close is not None:
            # A glance may have left a fit of its own there.
            close.start_from(folds)
            folds.close()
            choice.stand_at(choice.standing._replace(folds=close))
        choice.looks_closely = close is not None

    def _near(self, folds: CrossValidation, penalties: Penalties) -> CrossValidation | None:
        if self._from != penalties:
            part = f"search from {penalties.trace!r}"
            self._folds = within_few_directions(self._choice, folds, penalties, part, self._plan)
            self._from = penalties
        return self._folds


def span_of(objective: Objective, model: Factors, penalties: Penalties) -> Floats:
    """Orthonormal columns: the directions of W, and those that a smaller λ would let in.

    These are the left singular vectors of ``XᵀG + λ₂W`` whose values are above that λ.
    """
    least = _LET_IN * penalties.trace
    point = objective.at(starting_factors(objective, model))
    left, right, _ = point.factors
    slopes = LowRankShift(point.score_gradient(), left, right, None, penalties.ridge)
    found = leading_triplets(
        slopes,
        objective.shape,
        min(objective.shape),
        objective.may_form,
        above=least,
        single=least if least > 0 else None,
    )
    own = np.asarray(to_host(left), dtype=np.float64)
    lengths = np.sqrt(np.sum(np.square(own), axis=0))
    both = np.hstack([own / np.where(lengths > 0, lengths, math.inf), to_host(found.left)])
    # Singular vectors by way of the Gram matrix: those of small values, which it loses, are not wanted.
    squares, vectors = np.linalg.eigh(both.T @ both)
    known = squares > _NEW * _NEW
    return np.ascontiguousarray(both @ (vectors[:, known] / np.sqrt(squares[known])))
