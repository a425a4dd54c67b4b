"""The search through a grid of penalties on held-out entries.

The metric at its best threshold is what counts, but it is a noisy number: among choices that it cannot tell
apart, the proper loss, which every entry contributes to, decides. "Cannot tell apart" is measured: by the
jackknife standard error of the difference of the two metric values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from labelgap._names import check_choice
from labelgap.fitting.penalty_grid import PenaltyGrid, Place
from labelgap.metrics.jackknife import standard_error
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.loop import Candidate, Stopped

Compare: TypeAlias = Callable[[Sequence[Penalties]], Sequence[Candidate]]
Glance: TypeAlias = Callable[[Penalties, Penalties], Candidate | None]
"""From the best penalties so far and others to a quick estimate of the others; None where there is none."""

# Metric values within this many standard errors of the best are left to the loss.
_ALIKE = 0.5
ALIKE_IN_SAMPLE = 2.0
"""The same where a sample of the rows is looked at."""
# A choice is not followed up if it is behind by this many standard errors, or by this much where there are
# none.
_HOPELESS_ERRORS, _HOPELESS = 2.0, 0.01
# The fraction of the gain of the step before that the last one may have where a loss is foretold.
_NEXT_TO_NOTHING = 0.1
# Losses that differ by less than this fraction are those of one model, but for rounding.
_STAYED = 1e-6
# Steps of λ from its largest value before one without improvement may end the first part of the search.
_FIRST_STEPS = 3


def leading(candidates: Sequence[Candidate], criterion: str = "metric", alike_errors: float = _ALIKE) -> int:
    """The number of the candidate that is best by the metric, or by the "loss" alone.

    Among those that the metric cannot tell from the best, which are within ``alike_errors`` standard errors
    of it, it is the one of least loss; of equal ones, the first. Losses are equal if they differ by rounding.
    """
    numbers = range(len(candidates))
    if criterion == "loss":
        return _of_least_loss(candidates, numbers)
    top = max(candidates, key=lambda candidate: _unless_nan(candidate.metric_value, -math.inf))
    if math.isnan(top.metric_value):
        return _of_least_loss(candidates, numbers)
    # Equal values are alike whatever the error.
    alike = [
        n
        for n in numbers
        if _behind(candidates[n], top) <= max(alike_errors * _error(candidates[n], top), 0.0)
    ]
    return _of_least_loss(candidates, alike)


def _of_least_loss(candidates: Sequence[Candidate], numbers: Sequence[int]) -> int:
    best = min((candidates[number] for number in numbers), key=lambda one: _unless_nan(one.loss, math.inf))
    # Penalties that changed nothing leave the loss as it was, and its last digits must not choose among them.
    return next(
        number for number in numbers if candidates[number] is best or _stayed(candidates[number], best)
    )


def _unless_nan(value: float, worst: float) -> float:
    return worst if math.isnan(value) else value


def _behind(candidate: Candidate, other: Candidate) -> float:
    return other.metric_value - candidate.metric_value


def _error(candidate: Candidate, other: Candidate) -> float:
    """The standard error of the difference of their metric values; 0 where it is not known."""
    one, two = candidate.leave_out, other.leave_out
    return 0.0 if one is None or two is None else standard_error(one, two)


def _stayed(candidate: Candidate, other: Candidate) -> bool:
    """Whether a fit has the loss of the one that it began with: that was near enough to its own optimum.

    Then it says nothing about smaller λ.
    """
    return math.isclose(candidate.loss, other.loss, rel_tol=_STAYED)


def ahead_in_errors(candidate: Candidate, other: Candidate) -> float:
    """By how many standard errors of the difference a candidate's metric is above another's."""
    ahead, error = -_behind(candidate, other), _error(candidate, other)
    return ahead / error if error > 0 else float(np.copysign(np.inf, ahead)) if ahead else 0.0


class Contest:
    """The candidates so far, by place, and which of them leads."""

    def __init__(
        self, compare: Compare, grid: PenaltyGrid, criterion: str, alike_errors: float = _ALIKE
    ) -> None:
        self._compare, self._grid, self._criterion = compare, grid, criterion
        self._alike_errors = alike_errors
        self.tried: dict[Place, Candidate] = {}

    def look_at(self, *places: Place) -> None:
        """Judge those of the places that are new, together."""
        fresh = [place for place in dict.fromkeys(places) if place not in self.tried]
        if fresh:
            found = self._compare([self._grid.at(place) for place in fresh])
            self.tried |= dict(zip(fresh, found, strict=True))

    def leader(self) -> Place:
        """The place of the candidate that is :func:`leading`."""
        return list(self.tried)[leading(list(self.tried.values()), self._criterion, self._alike_errors)]

    def look_around(self, stride: tuple[int, int]) -> None:
        """Look at all neighbours of the leader, once."""
        self.look_at(*_neighbours(self._grid, self.leader(), stride))

    def is_hopeless(self, place: Place, leader: Place) -> bool:
        """Clearly worse than the leader: by the metric and the loss, or by the loss where that decides."""
        candidate, best = self.tried[place], self.tried[leader]
        if self._criterion == "loss":
            return candidate.loss - best.loss > _HOPELESS * abs(best.loss)
        error = _error(candidate, best)
        behind = _behind(candidate, best) > (_HOPELESS_ERRORS * error if error > 0 else _HOPELESS)
        return behind and candidate.loss >= best.loss

    def has_turned(self, place: Place, glance: Glance) -> bool:
        """Whether a glance at a place says that it is worse than the leader, by the metric and by the loss.

        Then that is what is known of the place. A model without any direction says nothing about others.
        """
        if not self.tried:
            return False
        leader = self.leader()
        best = self.tried[leader]
        found = glance(self._grid.at(leader), self._grid.at(place)) if best.rank >= 1 else None
        if found is None or found.loss <= best.loss or _stayed(found, best):
            return False
        if _behind(found, best) <= max(_ALIKE * _error(found, best), 0.0):
            return False
        self.tried[place] = found
        return True

    def foretells_loss(self, places: Sequence[Place]) -> bool:
        """Whether a parabola through three candidates says that the next is worse, by metric and loss.

        It must be worse by more than the metric can err, and the last step must have gained next to nothing.
        Gains that become smaller from step to step may go on for long: so do those of a first direction
        that stands in for a missing intercept. A fit that stayed where it began foretells nothing.
        """
        if len(places) < 3:
            return False
        first, second, last = (self.tried[place] for place in places)
        before, gain = first.loss - second.loss, second.loss - last.loss
        if _stayed(last, second) or gain > _NEXT_TO_NOTHING * before:
            return False
        rise = before - 2 * gain
        if self._criterion == "loss":
            return rise > _HOPELESS * abs(last.loss)
        fall = 2 * (second.metric_value - last.metric_value) - (first.metric_value - second.metric_value)
        return rise > 0 and fall > max(_HOPELESS_ERRORS * _error(second, last), 0.0)


def select_penalties(
    compare: Compare,
    grid: PenaltyGrid,
    *,
    criterion: str = "metric",
    closely: Compare | None = None,
    together: int = 1,
    glance: Glance | None = None,
) -> Candidate:
    """Search the grid on held-out entries, by the metric (with the loss among equals) or by the "loss" alone.

    First λ falls from its largest value for as long as that helps. Then, with smaller and smaller steps, the
    neighbours of the leader are tried: more or less of each penalty, and where more ridge is nearly as good,
    more ridge with less trace.

    With ``closely``, which judges from closer fits than ``compare``, the search is a coarse one. It lowers λ
    by the second size of step, and looks closely at the leader and its neighbours once, in λ only on the
    side where the loss is lower; after that it continues only while the ridge is what changes. On the way
    down it compares so many λ ``together``, for fits that leave threads idle; with a ``glance`` it fits a
    smaller λ only where that does not say that the metric and the loss have both turned. A search that is
    stopped returns the best candidate so far; before there is any, ``Stopped`` passes through.
    """
    check_choice("criterion", criterion, ("metric", "loss"))
    contest = Contest(compare, grid, criterion)
    try:
        if closely is None:
            _search(contest, grid)
        else:
            close = Contest(closely, grid, criterion)
            contest = _search_coarsely(contest, close, grid, together, glance)
    except Stopped:
        if not contest.tried:
            raise
    return contest.tried[contest.leader()]


def select_roughly(compare: Compare, grid: PenaltyGrid, *, criterion: str = "metric") -> Candidate:
    """A coarse search for a sample, which costs few fits: λ, then one finer step of λ and one of λ₂ each way.

    λ falls from half of its largest value, at which W = 0, for as long as that helps. Of a sample the metric
    is so noisy that it only rules candidates out, and the loss decides.
    """
    contest, close = (Contest(compare, grid, criterion, ALIKE_IN_SAMPLE) for _ in range(2))
    try:
        start, worse = _halve_trace(contest, grid)
        near = _neighbours(grid, start, (grid.strides[-1][0], _coarse_stride(grid)[1]))
        # Fits that continue from another one are closer to the optimum: the first is continued, too.
        close.look_at(start, *(p for p in near if (p[0] - start[0]) * worse <= 0))
    except Stopped:
        if not contest.tried:
            raise
    decided = close if close.tried else contest
    return decided.tried[decided.leader()]


def _halve_trace(contest: Contest, grid: PenaltyGrid) -> tuple[Place, int]:
    """Let λ fall by halves until the loss rises; the leader, and the side of it on which λ is worse."""
    step = _coarse_stride(grid)[0]
    for number in range(min(step, len(grid.traces) - 1), len(grid.traces), step):
        place = (number, grid.first_ridge, 0)
        contest.look_at(place)
        found, best = contest.tried[place], contest.tried[contest.leader()]
        # A model without any direction says nothing about smaller λ.
        if found.rank >= 1 and found.loss > best.loss:
            break
    start = contest.leader()
    # Where nothing is known of larger λ, smaller ones are known to be worse.
    return start, _worse_side(contest, grid, start, step) or 1


def _coarse_stride(grid: PenaltyGrid) -> tuple[int, int]:
    return grid.strides[min(1, len(grid.strides) - 1)]


def select_trace(
    compare: Compare,
    grid: PenaltyGrid,
    start: Place,
    *,
    known: Candidate | None = None,
    criterion: str = "metric",
) -> Candidate:
    """The best λ near ``start``, in the smallest steps and as far as each is an improvement.

    Smaller ones are tried first. The other penalties stay. ``known`` is the candidate at ``start``, where it
    has been judged. What is stopped returns the best so far.
    """
    contest = Contest(compare, grid, criterion)
    if known is not None:
        contest.tried[start] = known
    try:
        contest.look_at(start)
        for direction in (1, -1):
            while contest.leader() == start or (contest.leader()[0] - start[0]) * direction > 0:
                leader = contest.leader()
                beside = (leader[0] + direction, *leader[1:])
                if not grid.holds(beside):
                    break
                contest.look_at(beside)
                if contest.leader() == leader:
                    break
    except Stopped:
        if not contest.tried:
            raise
    return contest.tried[contest.leader()]


def _search(contest: Contest, grid: PenaltyGrid) -> None:
    _lower_trace(contest, grid, grid.strides[0][0], coarse=False)
    for stride in grid.strides:
        _climb(contest, grid, stride)


def _search_coarsely(
    contest: Contest, close: Contest, grid: PenaltyGrid, together: int, glance: Glance | None
) -> Contest:
    """The contest that was decided last."""
    step, ridge_step = _coarse_stride(grid)
    _lower_trace(contest, grid, step, coarse=True, together=together, glance=glance)
    start = contest.leader()
    worse = _worse_side(contest, grid, start, step)
    near = _neighbours(grid, start, (grid.strides[-1][0], ridge_step))
    hopeful = [place for place in near if worse == 0 or (place[0] - start[0]) * worse <= 0]
    try:
        close.look_at(start, *(place for place in hopeful if place[1] <= start[1]))
        if close.leader()[1] == start[1]:
            # More ridge may help only where less of it does not.
            close.look_at(*hopeful)
        _follow_ridge(close, grid, start)
    except Stopped:
        if not close.tried:
            return contest
    return close


def _lower_trace(
    contest: Contest,
    grid: PenaltyGrid,
    stride: int,
    *,
    coarse: bool,
    together: int = 1,
    glance: Glance | None = None,
) -> None:
    """Try smaller and smaller λ for as long as that helps.

    The smaller λ, the higher the rank and the longer a fit: the search ends at the first λ that is clearly
    too small, and a ``coarse`` one at the first that the last three foretell to be.
    """
    path: list[Place] = [(step, grid.first_ridge, 0) for step in range(0, len(grid.traces), stride)]
    places: list[Place] = []
    for start in range(0, len(path), together):
        if coarse and contest.foretells_loss(places[-3:]):
            break
        if glance is not None and contest.has_turned(path[start], glance):
            break
        contest.look_at(*path[start : start + together])
        places += path[start : start + together]
        place = places[-1]
        leader = contest.leader()
        # The metric may stand still for a step while the loss keeps falling.
        found, best = contest.tried[place], contest.tried[leader]
        stands = leader != place and found.loss > best.loss and not _stayed(found, best)
        # The first directions of all may be worse than none, and more of them better.
        known = coarse or best.rank >= 1
        if stands and (len(places) > _FIRST_STEPS or (known and contest.is_hopeless(place, leader))):
            break
    # Where the loss kept falling beyond the leader, both penalties may be too large.
    least = min(contest.tried, key=lambda place: contest.tried[place].loss)
    if least[0] > contest.leader()[0]:
        contest.look_at(*((least[0], ridge, 0) for ridge in (grid.first_ridge // 2, 0)))


def _climb(contest: Contest, grid: PenaltyGrid, stride: tuple[int, int]) -> None:
    """Look at all neighbours of the leader, for as long as that makes another one the leader."""
    while True:
        start = contest.leader()
        contest.look_at(*_neighbours(grid, start, stride))
        contest.look_at(*_diagonal(contest, grid, start, stride))
        if contest.leader() == start:
            break


def _follow_ridge(contest: Contest, grid: PenaltyGrid, start: Place) -> None:
    """Look on along the ridge for as long as that makes another one the leader.

    The second step is as long as the first, and the later ones double. What the last one went past is looked
    at, too.
    """
    first = step = contest.leader()[1] - start[1]
    while step and (leader := contest.leader()) != start:
        start = leader
        for reach in (step, step // 2) if step != first else (step,):
            further = min(max(leader[1] + reach, 0), len(grid.ridges) - 1)
            contest.look_at((leader[0], further, leader[2]))
            if contest.leader() != leader:
                break
        step = 2 * step if reach == step else 0


def _worse_side(contest: Contest, grid: PenaltyGrid, start: Place, reach: int) -> int:
    """The side of larger (−1) or smaller λ (1) that is not worth a look; 0 if that is not known.

    Fits take the longer the smaller λ is. So the smallest step to that side is worth it only where a parabola
    through the losses at ``reach`` steps says that its loss is lower. A smaller λ that was not tried is
    judged by the parabola through the larger ones.
    """
    places = [(start[0] + steps * reach, *start[1:]) for steps in (-2, -1, 0, 1)]
    losses = [contest.tried[place].loss if place in contest.tried else None for place in places]
    far, larger, here, smaller = losses
    if larger is None or here is None:
        return 0
    if smaller is None:
        if far is None:
            return 0
        smaller = 3 * (here - larger) + far
    slope, bend = (smaller - larger) / 2, (smaller - 2 * here + larger) / 2
    step = grid.strides[-1][0] / reach
    return -1 if slope < -max(bend, 0.0) * step else 1


def _neighbours(grid: PenaltyGrid, start: Place, stride: tuple[int, int]) -> Iterator[Place]:
    trace, ridge, intercept = start
    down, up = stride
    for change in (up, -up):
        # A step that would leave the grid ends at its edge.
        yield trace, min(max(ridge + change, 0), len(grid.ridges) - 1), intercept
    for place in (
        (trace, ridge, intercept + 1),
        (trace, ridge, intercept - 1),
        (trace + down, ridge, intercept),
        (trace - down, ridge, intercept),
    ):
        if grid.holds(place):
            yield place


def _diagonal(contest: Contest, grid: PenaltyGrid, start: Place, stride: tuple[int, int]) -> Iterator[Place]:
    """Trade one penalty for the other: more ridge with less trace, and less ridge with more trace."""
    trace, ridge, intercept = start
    down, up = stride
    for sign in (1, -1):
        beside = (trace + sign * down, ridge + sign * up, intercept)
        plain = (trace, ridge + sign * up, intercept)
        if grid.holds(beside) and not contest.is_hopeless(plain, start):
            yield beside
