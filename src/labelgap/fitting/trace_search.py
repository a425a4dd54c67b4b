"""The best penalties near ones that a sample found, in as few steps as will do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labelgap.fitting.penalty_grid import PenaltyGrid, Place
from labelgap.fitting.search import Compare, Contest
from labelgap.solvers.loop import Candidate, Stopped

# Steps of the grid that halve λ, and that make a tenth of λ₂.
_HALF, _TENTH = 2, 2


def confirm_trace(
    compare: Compare,
    grid: PenaltyGrid,
    start: Place,
    *,
    curvature: float | None = None,
    criterion: str = "metric",
) -> Candidate:
    """The best λ near ``start``, which is rather too large than too small; larger ones are looked at first.

    Fits take the longer the smaller λ is. With the ``curvature`` of the held-out loss, its second difference
    from one λ of the grid to the next, a smaller λ is looked at only where a parabola of that curvature
    through the last two has its minimum nearer to the smaller one. What is stopped returns the best so far.
    """
    contest = Contest(compare, grid, criterion)

    def beside(place: Place, step: int) -> Place:
        return place[0] + step, *place[1:]

    def may_pay(place: Place) -> bool:
        before = contest.tried.get(beside(place, -1))
        return curvature is None or before is None or before.loss - contest.tried[place].loss > curvature

    try:
        # One after the other: the second starts from the fit of the first.
        for place in (beside(start, -1), start):
            if grid.holds(place):
                contest.look_at(place)
        leader = contest.leader()
        step = 1 if leader == start else -1
        while grid.holds(further := beside(leader, step)) and (step < 0 or may_pay(leader)):
            contest.look_at(further)
            if contest.leader() == leader:
                break
            leader = contest.leader()
    except Stopped:
        if not contest.tried:
            raise
    return contest.tried[contest.leader()]


def weaken(
    compare: Compare,
    first_look: Compare,
    grid: PenaltyGrid,
    start: Place,
    *,
    criterion: str = "metric",
) -> Candidate:
    """The best of ``start`` and of weaker penalties, where a sample of the rows has found ``start``.

    Fewer rows want more of a penalty, and how much more depends on the data. So half of λ with a tenth of λ₂
    is looked at once, by a fit of few steps from that of ``start``: such a fit overfits less than one to the
    end. Where it is better, it is fitted as closely as ``start``, and λ₂ and then λ fall as far as that
    helps. What is stopped returns the best so far.
    """
    contest = Contest(compare, grid, criterion)
    hasty = Contest(first_look, grid, criterion)

    def weaker(place: Place, trace: int, ridge: int) -> Place:
        return min(place[0] + trace, len(grid.traces) - 1), max(place[1] - ridge, 0), place[2]

    try:
        contest.look_at(start)
        hasty.tried[start] = contest.tried[start]
        beside = weaker(start, _HALF, _TENTH)
        hasty.look_at(beside)
        if hasty.leader() != start:
            contest.look_at(beside)
        if contest.leader() != start:
            for trace, ridge in ((0, _TENTH), (_HALF, 0)):
                while (further := weaker(contest.leader(), trace, ridge)) not in contest.tried:
                    contest.look_at(further)
                    if contest.leader() != further:
                        break
    except Stopped:
        if not contest.tried:
            raise
    return contest.tried[contest.leader()]


def loss_curvature(candidates: Sequence[Candidate], grid: PenaltyGrid) -> float | None:
    """The second difference of the held-out loss per step of λ, around the best of the candidates.

    It is taken from those with the settings of the last one, which won, or else from those that the search
    began with; None where there are no three of them, or where the loss has no minimum among them.
    """
    for chosen in (candidates[-1], candidates[0]):
        losses = {
            grid.place_of(c.penalties)[0]: c.loss
            for c in candidates
            if c.n_folds == chosen.n_folds
            and c.count_weighting == chosen.count_weighting
            and c.penalties.intercept == chosen.penalties.intercept
        }
        places = np.array(sorted(losses))
        if len(places) < 3:
            continue
        values = np.array([losses[place] for place in places])
        middle = int(np.clip(np.argmin(values), 1, len(places) - 2))
        near = slice(middle - 1, middle + 2)
        curvature = 2.0 * float(np.polyfit(places[near] - places[middle], values[near], 2)[0])
        if curvature > 0:
            return curvature
    return None
