"""The choice among variants of a problem, one change at a time, near the best penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from labelgap.fitting.penalty_grid import PenaltyGrid
from labelgap.fitting.search import ALIKE_IN_SAMPLE, ahead_in_errors, leading
from labelgap.fitting.variants import Variant, Variants
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers.loop import Candidate, Stopped
from labelgap.solvers.penalties import Penalties

if TYPE_CHECKING:
    from labelgap.fitting.choice import PenaltyChoice

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
) -> Candidate:
    """The best variant at the best penalties of the first one, or unless the search is ``coarse`` near them.

    The choice is left standing at it. Where it is stopped, it is the best so far.
    """
    tried = {variants.first}
    waiting = list(variants.beside(variants.first))
    while waiting:
        variant = waiting.pop(0)
        if variant in tried:
            continue
        tried.add(variant)
        before = choice.standing
        before.folds.close()
        try:
            found = _better_with(choice, variants, variant, best, plan, tol, n_folds, coarse)
        except Stopped:
            choice.stand_at(before)
            break
        if found is None:
            choice.stand_at(before)
        else:
            # A setting that changes next to nothing is not followed further by a coarse search.
            goes_on = not coarse or _matters(found, best)
            best, waiting = found, list(variants.beside(variant)) if goes_on else waiting
    return best


def _better_with(
    choice: PenaltyChoice,
    variants: Variants,
    variant: Variant,
    best: Candidate,
    plan: Any,
    tol: float,
    n_folds: int,
    coarse: bool,
) -> Candidate | None:
    """Turn to another variant; its best candidate if one at the same penalties leads, or else None."""
    problem, labels = variants.problem(variant)
    before = choice.standing
    choice.stand_at(choice.standing._replace(problem=problem, labels=labels, variant=variant))
    named = ", ".join(f"{name} {value:g}" for name, value in variant.settings().items() if value is not None)
    folds = choice.cross_validation(f"search with {named}", plan)
    if not problem.settings.features.own_rows:
        folds.start_from(before.folds, partial(_with_label_scales, before.problem, problem))
    standing = choice.standing._replace(folds=folds)

    def judged(choices: Sequence[Penalties]) -> list[Candidate]:
        return choice.compare_at(standing, choices, tol, n_folds)

    found = judged([best.penalties])
    alike = {"alike_errors": ALIKE_IN_SAMPLE} if choice.looks_at_sample else {}
    if not leading([best, *found], choice.criterion, **alike):
        return None
    # Another variant may want a little more or less of the penalty.
    beside = [] if coarse else _penalties_beside(choice.grid, best.penalties)
    if beside:
        found += judged(beside)
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
