"""The choice among variants of a problem, one change at a time, near the best penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labelgap.fitting.penalty_grid import PenaltyGrid
from labelgap.fitting.search import ALIKE_IN_SAMPLE, leading
from labelgap.fitting.variants import Variant, Variants
from labelgap.solvers.loop import Candidate, Stopped
from labelgap.solvers.penalties import Penalties

if TYPE_CHECKING:
    from labelgap.fitting.choice import PenaltyChoice


def select_variant(
    choice: PenaltyChoice, variants: Variants, best: Candidate, plan: Any, tol: float, n_folds: int
) -> Candidate:
    """The best variant at, or next to, the best penalties of the first one.

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
            found = _better_with(choice, variants, variant, best, plan, tol, n_folds)
        except Stopped:
            choice.stand_at(before)
            break
        if found is None:
            choice.stand_at(before)
        else:
            best, waiting = found, list(variants.beside(variant))
    return best


def _better_with(
    choice: PenaltyChoice,
    variants: Variants,
    variant: Variant,
    best: Candidate,
    plan: Any,
    tol: float,
    n_folds: int,
) -> Candidate | None:
    """Turn to another variant; its best candidate if one at the same penalties leads, or else None."""
    problem, labels = variants.problem(variant)
    choice.stand_at(choice.standing._replace(problem=problem, labels=labels, variant=variant))
    named = ", ".join(f"{name} {value:g}" for name, value in variant.settings().items() if value is not None)
    folds = choice.cross_validation(f"search with {named}", plan)
    standing = choice.standing._replace(folds=folds)

    def judged(choices: Sequence[Penalties]) -> list[Candidate]:
        return choice.compare_at(standing, choices, tol, n_folds)

    found = judged([best.penalties])
    alike = {"alike_errors": ALIKE_IN_SAMPLE} if choice.looks_at_sample else {}
    if not leading([best, *found], choice.criterion, **alike):
        return None
    # Another variant may want a little more or less of the penalty, which is too fine for a sample.
    beside = [] if choice.looks_at_sample else _penalties_beside(choice.grid, best.penalties)
    if beside:
        found += judged(beside)
    return found[leading(found, choice.criterion)]


def _penalties_beside(grid: PenaltyGrid, penalties: Penalties) -> list[Penalties]:
    traces = list(grid.traces)
    place = traces.index(penalties.trace)
    step = grid.strides[min(1, len(grid.strides) - 1)][0]
    near = (place - step, place + step)
    return [replace(penalties, trace=float(traces[p])) for p in near if 0 <= p < len(traces)]
