"""The close look: near the best penalties, choices are compared by fits within a few directions.

From one choice of penalties to the next, W changes less in its directions than in how long they are. So once
a search has come near the best λ, it takes orthonormal columns U, those of W and the ones that a smaller λ
would let in, and compares choices by fits of ``W = U M``. That is the same problem with a few features XU in
place of many, since ``‖W‖_* = ‖M‖_*`` and ``‖W‖_F = ‖M‖_F``, and a step takes a fraction of the time. The
last fit, and the fits that the threshold comes from, have all directions again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labelgap._arrays import to_host
from labelgap._types import Floats
from labelgap.fitting.cross_validation import CrossValidation
from labelgap.fitting.search import select_penalties
from labelgap.objective.protocol import Factors, Objective
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.linalg import thin_qr
from labelgap.solvers.loop import Candidate, Stopped, factors_from, factors_state, starting_factors
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


class Directions(NamedTuple):
    """A fit, and the span that others like it are made within."""

    model: Factors
    basis: Floats
    """Orthonormal columns."""


def few_directions(
    choice: PenaltyChoice,
    folds: CrossValidation,
    penalties: Penalties,
    part: str,
    tol: float | None = None,
) -> Directions | None:
    """Directions near the fit that the folds start from; None where they are many.

    The penalties are those that a look begins at. With ``tol``, the fit is brought to them first if it has
    others. What is found is kept in the checkpoint: a resumed search may start from later fits.
    """
    checkpoint = choice.run.checkpoint
    kept = checkpoint.part(f"{part}, directions")
    state = kept.last()
    if state is None:
        model, basis = _find_directions(folds, penalties, tol)
        if checkpoint.stopping():
            # The fit may be unfinished.
            raise Stopped
        state = {"basis": basis, **factors_state(model)}
        kept.snapshot(state, at_once=True)
    basis = np.asarray(state["basis"])
    return Directions(factors_from(state), basis) if basis.shape[1] else None


def _find_directions(folds: CrossValidation, penalties: Penalties, tol: float | None) -> Directions:
    """Without columns where they are many, or where features of them would be larger than the data."""
    objective = folds.objective(0, free_intercept=penalties.intercept == 0)
    model = starting_factors(objective, folds.fit_of_fold(0))
    if tol is not None and folds.penalties_of_fold(0) != penalties and objective.may_form:
        model = replace(folds.settings, tol=tol).fit(objective, penalties, warm_start=model).factors
    model = Factors(*(np.asarray(to_host(array), dtype=np.float64) for array in model))
    basis = np.empty((objective.shape[0], 0))
    if objective.may_form:
        span = span_of(objective, model, penalties)
        small = folds.n_rows * span.shape[1] <= max(objective.n_stored, _SMALL)
        basis = span if small and span.shape[1] <= _FEW * len(span) else basis
    return Directions(model, basis)


def folds_within(choice: PenaltyChoice, directions: Directions, part: str, plan: Any) -> CrossValidation:
    """Folds of what the choice is about, with fits within these directions that start from their model."""
    close = CrossValidation(
        choice.problem,
        choice.labels,
        plan,
        choice.judge,
        choice.settings,
        choice.run.n_jobs,
        choice.run.checkpoint.part(f"{part}, few directions"),
        basis=directions.basis,
    )
    close.start_all_from(directions.model, [0])
    return close


def may_hold_out_together(choice: PenaltyChoice) -> bool:
    """Whether folds may be held out as one: only observed entries count, and all fits go by one plan."""
    settings = choice.problem.settings
    one_plan = choice.held_out is None and choice.challenge is None
    return choice.holds_out_together and one_plan and settings.flip_rate is None


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
        return choice.compare_at(choice.standing, choices, tol, 1, start=look.seen_at(choices[0]))

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
        folds.start_all_from(fitted, range(n_folds))
    choice.stand_at(choice.standing._replace(folds=folds))
    return best


class CloseLook:
    """What a search sees from its best fit so far, within a few directions."""

    def __init__(self, choice: PenaltyChoice, plan: Any, tol: float) -> None:
        self._choice, self._plan, self._tol = choice, plan, tol
        self._has_begun = False
        self._from: Penalties | None = None
        self._seen: Penalties | None = None
        self._directions: Directions | None = None
        self._folds: CrossValidation | None = None

    def glance(self, best: Penalties, other: Penalties) -> Candidate | None:
        """How good other penalties are, near the fit with the best ones; None where directions are many."""
        close = self._near(best)
        if close is None:
            return None
        found = close.compare([other], tol=self._tol)
        self._seen = other
        return self._choice.report_at(self._choice.standing, found)[0]

    def seen_at(self, penalties: Penalties) -> CrossValidation | None:
        """What holds the fit with these penalties that the last glance made; None where it made none."""
        return self._folds if self._seen == penalties else None

    def begin(self, penalties: Penalties) -> None:
        """From now on the choice compares by fits near that with these penalties. Once is enough."""
        if self._has_begun:
            return
        self._has_begun = True
        choice, close = self._choice, self._near(penalties)
        if close is not None:
            assert self._directions is not None
            # A glance has left a fit of its own there.
            close.start_all_from(self._directions.model, [0])
            close.best_so_far = choice.standing.folds.best_so_far
            choice.standing.folds.close()
            choice.stand_at(choice.standing._replace(folds=close))
        choice.looks_closely = close is not None

    def _near(self, penalties: Penalties) -> CrossValidation | None:
        """Folds within the directions near a fit with these penalties."""
        if self._from != penalties:
            choice, part = self._choice, f"search from {penalties.trace!r}"
            found = few_directions(choice, choice.standing.folds, penalties, part, self._tol)
            self._folds = None if found is None else folds_within(choice, found, part, self._plan)
            self._from, self._directions = penalties, found
        return self._folds


def span_of(objective: Objective, model: Factors, penalties: Penalties) -> Floats:
    """Orthonormal columns: the directions of W, and those that a smaller λ would let in.

    These are the left singular vectors of ``XᵀG + λ₂W`` whose values are above that λ.
    """
    least = _LET_IN * penalties.trace
    point = objective.at(starting_factors(objective, model))
    left, right, _ = point.factors
    slopes = LowRankShift(point.score_gradient(), left, right, None, penalties.ridge)
    found = leading_triplets(slopes, objective.shape, min(objective.shape), objective.may_form, above=least)
    # Those of the model as they are; beside them what the others add.
    own = thin_qr(np.asarray(to_host(left), dtype=np.float64))[0]
    rest = to_host(found.left)
    rest = rest - own @ (own.T @ rest)
    # Singular vectors by way of the Gram matrix: those of small values, which it loses, are not wanted.
    squares, vectors = np.linalg.eigh(rest.T @ rest)
    known = squares > _NEW * _NEW
    added = rest @ (vectors[:, known] / np.sqrt(squares[known]))
    return np.hstack([own, thin_qr(added - own @ (own.T @ added))[0]])
