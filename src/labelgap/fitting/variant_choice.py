"""The choice among variants of a problem, one change at a time, near the best penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labelgap.fitting.close_look import few_directions, folds_within
from labelgap.fitting.penalty_grid import PenaltyGrid, Variant, Variants
from labelgap.fitting.search import ALIKE_IN_SAMPLE, ahead_in_errors, leading
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.loop import Candidate, Stopped
from labelgap.thresholds.cross_fit import side_by_side

if TYPE_CHECKING:
    from labelgap.fitting.choice import PenaltyChoice, Standing

# Standard errors of the metric, or the fraction of the loss, that another variant must be better by for a
# coarse search to look further in its direction.
_AHEAD, _LOWER = 1.0, 0.005


def select_variant(
    choice: PenaltyChoice,
    variants: Variants,
    best: Candidate,
    plan: Any,
    tol: float,
    n_folds: int,
    *,
    coarse: bool,
    together: int = 1,
) -> Candidate:
    """The best variant at the best penalties of the first one, or unless the search is ``coarse`` near them.

    So many variants are judged ``together``, for fits that leave threads idle; which of them count, and in
    which order, does not depend on it. The choice is left standing at the best. Where it is stopped, that is
    the best so far.
    """
    tried = {variants.first}
    waiting = list(variants.beside(variants.first))
    ahead: dict[Variant, _Trial] = {}
    while waiting:
        before = choice.standing
        before.folds.close()
        try:
            if waiting[0] not in ahead:
                ahead = _judged_together(choice, variants, waiting[:together], best, plan, tol, n_folds)
            variant = waiting.pop(0)
            found = _better_with(choice, ahead.pop(variant), best, tol, n_folds, coarse)
        except Stopped:
            choice.stand_at(before)
            break
        tried.add(variant)
        if found is None:
            choice.stand_at(before)
        else:
            # A setting that changes next to nothing is not followed further by a coarse search.
            goes_on = not coarse or _matters(found, best)
            best, waiting = found, list(variants.beside(variant)) if goes_on else waiting
            waiting, ahead = [other for other in waiting if other not in tried], {}
    return best


class _Trial(NamedTuple):
    """A variant that was judged at the penalties of the best candidate."""

    standing: Standing
    found: list[Candidate]


def _judged_together(
    choice: PenaltyChoice,
    variants: Variants,
    those: Sequence[Variant],
    best: Candidate,
    plan: Any,
    tol: float,
    n_folds: int,
) -> dict[Variant, _Trial]:
    """The variants side by side. Whether all of them count is seen later: the first may lead elsewhere."""
    standings = [_standing_with(choice, variants, variant, best.penalties, plan) for variant in those]

    def judge(standing: Standing) -> _Trial:
        return _Trial(standing, standing.folds.compare([best.penalties], tol=tol, n_folds=n_folds))

    trials = side_by_side([partial(judge, standing) for standing in standings], choice.run.n_jobs)
    return dict(zip(those, trials, strict=True))


def _standing_with(
    choice: PenaltyChoice, variants: Variants, variant: Variant, penalties: Penalties, plan: Any
) -> Standing:
    """What a search with another variant, from these penalties on, is about."""
    before = choice.standing
    problem, labels = variants.problem(variant)
    choice.stand_at(before._replace(problem=problem, labels=labels, variant=variant))
    named = ", ".join(f"{name} {value:g}" for name, value in variant.settings().items() if value is not None)
    # A variant that was judged ahead of its turn may come again, at other penalties.
    at = ", ".join(repr(value) for value in (penalties.trace, penalties.ridge, penalties.intercept))
    part = f"search with {named} at {at}"
    folds = choice.cross_validation(part, plan)
    if not problem.settings.features.own_rows:
        folds.start_from(before.folds, partial(_with_label_scales, before.problem, problem))
    if choice.looks_closely:
        # Directions of labels that weigh more now may be missing from the span before.
        found = few_directions(choice, folds, penalties, part)
        folds = folds if found is None else folds_within(choice, found, part, plan)
    standing = choice.standing._replace(folds=folds)
    choice.stand_at(before)
    return standing


def _better_with(
    choice: PenaltyChoice, trial: _Trial, best: Candidate, tol: float, n_folds: int, coarse: bool
) -> Candidate | None:
    """Turn to another variant; its best candidate if one at the same penalties leads, or else None."""
    found = choice.report_at(*trial)
    alike = {"alike_errors": ALIKE_IN_SAMPLE} if choice.looks_at_sample else {}
    if not leading([best, *found], choice.criterion, **alike):
        return None
    # Another variant may want a little more or less of the penalty.
    beside = [] if coarse else _penalties_beside(choice.grid, best.penalties)
    if beside:
        found += choice.compare_at(trial.standing, beside, tol, n_folds)
    return found[leading(found, choice.criterion)]


def _matters(candidate: Candidate, other: Candidate) -> bool:
    """Whether a candidate is ahead by more than noise in the metric, or by a visible part of the loss."""
    return ahead_in_errors(candidate, other) > _AHEAD or candidate.loss < (1 - _LOWER) * other.loss


def _with_label_scales(before: Problem, after: Problem, factors: Factors) -> Factors:
    """The same scores where the labels' factors are multiplied with other scales."""
    old, new = (1.0 if p.features.label_scales is None else p.features.label_scales for p in (before, after))
    ratio = np.broadcast_to(np.asarray(old) / np.asarray(new), (len(factors.right),))
    return factors._replace(right=np.ascontiguousarray(np.asarray(factors.right) * ratio[:, None]))


def _penalties_beside(grid: PenaltyGrid, penalties: Penalties) -> list[Penalties]:
    traces = list(grid.traces)
    place = traces.index(penalties.trace)
    step = grid.strides[min(1, len(grid.strides) - 1)][0]
    near = (place - step, place + step)
    return [replace(penalties, trace=float(traces[p])) for p in near if 0 <= p < len(traces)]
