"""The path of fits from λ_max down, and the choice of the penalties from out-of-fold scores.

At ``λ ≥ λ_max = σ₁(XᵀG(0))`` the model is W = 0. From there λ falls geometrically, each fit starting from the
one before. Every fold walks the same path; at each step the held-out scores of all folds together are judged
by the metric at its best threshold (or by the proper loss). So one sample of the size of Ω chooses λ, λ₂
and θ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.objective.protocol import Factors, Objective
from labelgap.objective.score_bound import ScoreBounds
from labelgap.solvers.bounded import Solver, solve_bounded
from labelgap.solvers.intercept import with_best_intercept
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Callback, Fit
from labelgap.solvers.spectral import LowRankShift, leading_triplets
from labelgap.thresholds.cross_fit import gather, map_folds

Place: TypeAlias = tuple[int, int, int]

# A gain on held-out entries below this does not keep λ falling on its first way down.
_WORTHWHILE = 1e-3
# A step of λ is not tried at a ridge or an intercept penalty that is this far behind.
_HOPELESS = 0.01


class Problem(Protocol):
    """What is fixed while labels, penalties and folds change: features, loss, intercept."""

    def objective(self, labels: ObservedLabels, *, free_intercept: bool = True) -> Objective:
        """The data term over these labels; ``free_intercept`` unless the intercepts are penalised."""
        ...

    def scores(self, factors: Factors, labels: ObservedLabels) -> Floats:
        """The model's scores at the entries of these labels."""
        ...

    def bounds(self, objective: Objective) -> ScoreBounds | None:
        """The constraint on the scores of one of its objectives, where there is one."""
        ...


class Verdict(NamedTuple):
    """What held-out scores are worth."""

    value: float
    """The metric at its best threshold, or whatever else is to be large."""
    threshold: float
    loss: float
    """Mean loss."""


Judge: TypeAlias = Callable[[Floats, ObservedLabels], Verdict]


@dataclass(frozen=True)
class SolverSettings:
    """How to solve one problem."""

    solver: Solver
    rank: int | None = None
    tol: float = 1e-3
    max_iter: int = 500

    def fit(
        self,
        problem: Problem,
        objective: Objective,
        penalties: Penalties,
        warm_start: Factors | None = None,
        callback: Callback | None = None,
    ) -> Fit:
        bounds = problem.bounds(objective)
        options: dict[str, Any] = {
            "rank": self.rank,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "warm_start": warm_start,
            "callback": callback,
        }
        if bounds is None:
            return self.solver(objective, penalties, **options)
        return solve_bounded(self.solver, objective, penalties, bounds, **options)


def largest_trace_penalty(objective: Objective) -> float:
    """``λ_max = σ₁(XᵀG(0))``, at the best intercept: from there on W = 0."""
    start = Factors.zero(objective.shape, objective.starting_intercept())
    point = with_best_intercept(objective, objective.at(start), Penalties(1.0))
    shift = LowRankShift(point.score_gradient(), start.left, start.right)
    return leading_triplets(shift, objective.shape, 1, objective.n_stored).top


def trace_penalty_grid(largest: float, count: int, smallest_share: float) -> Floats:
    """``count`` penalties from ``largest`` down to ``smallest_share`` of it, geometrically."""
    return np.geomspace(largest, largest * smallest_share, count)


def fit_path(
    problem: Problem, objective: Objective, penalties: Sequence[Penalties], settings: SolverSettings
) -> Iterator[Fit]:
    """Fit each of the penalties in turn, starting from the fit before."""
    start = None
    for one in penalties:
        fit = settings.fit(problem, objective, one, warm_start=start)
        start = fit.factors
        yield fit


@dataclass(frozen=True)
class Candidate:
    """One choice of penalties as judged on held-out entries."""

    penalties: Penalties
    metric_value: float
    """The metric at its best threshold over held-out entries."""
    threshold: float
    loss: float
    """Mean held-out loss."""
    rank: float
    """Mean rank over the folds."""


@dataclass(frozen=True)
class Selection:
    """The candidates in the order they were tried, and the winner."""

    best: Candidate
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class PenaltyGrid:
    """The penalties that may be chosen, each in order of falling λ or rising λ₂ and κ."""

    traces: Sequence[float]
    ridges: Sequence[float] = (0.0,)
    intercepts: Sequence[float] = (0.0,)
    centre: float = 0.0
    first_ridge: int = 0
    """Where the search begins among the ridges."""

    @property
    def is_single(self) -> bool:
        return len(self.traces) * len(self.ridges) * len(self.intercepts) == 1

    def at(self, place: Place) -> Penalties:
        trace, ridge, intercept = place
        return Penalties(
            float(self.traces[trace]),
            float(self.ridges[ridge]),
            float(self.intercepts[intercept]),
            self.centre,
        )


class HeldOutJudge:
    """Fits a choice of penalties in every fold and judges the held-out scores of all folds together."""

    def __init__(
        self,
        problem: Problem,
        labels: ObservedLabels,
        fold_of_entry: NDArray[np.int64],
        judge: Judge,
        settings: SolverSettings,
        n_jobs: int | None = None,
    ) -> None:
        self._problem, self._labels, self._plan = problem, labels, fold_of_entry
        self._judge, self._settings, self._n_jobs = judge, settings, n_jobs
        self._held = labels.select(fold_of_entry >= 0)
        self._objectives: dict[tuple[int, bool], Objective] = {}
        self._last: dict[int, Factors] = {}

    def __call__(self, penalties: Penalties) -> Candidate:
        scores, rank = self.scores_with(penalties)
        verdict = self._judge(scores, self._held)
        return Candidate(penalties, verdict.value, verdict.threshold, verdict.loss, rank)

    def scores_with(self, penalties: Penalties) -> tuple[Floats, float]:
        """The held-out scores of all folds in the order of the entries, and the mean rank."""

        def fit_fold(fold: int, train: ObservedLabels, held: ObservedLabels) -> tuple[Floats, int]:
            key = (fold, penalties.intercept == 0)
            if key not in self._objectives:
                self._objectives[key] = self._problem.objective(train, free_intercept=key[1])
            objective = self._objectives[key]
            start = self._last.get(fold)
            if start is not None:
                # A free intercept that no entry speaks to must not keep what a penalty once made of it.
                start = start._replace(intercept=objective.starting_intercept())
            fit = self._settings.fit(self._problem, objective, penalties, warm_start=start)
            self._last[fold] = fit.factors
            return self._problem.scores(fit.factors, held), fit.rank

        by_fold = map_folds(self._labels, self._plan, fit_fold, self._n_jobs)
        _, scores = gather(self._plan, [part for part, _ in by_fold])
        return scores, float(np.mean([rank for _, rank in by_fold]))


def select_penalties(
    judge: Callable[[Penalties], Candidate],
    grid: PenaltyGrid,
    *,
    criterion: str = "metric",
    patience: int = 2,
) -> Selection:
    """Search the grid one penalty at a time, on held-out entries, by the metric (or the proper "loss").

    First λ falls from its largest value until ``patience`` steps in a row brought nothing worth the while.
    From the best place the ridge, then the pull on the intercepts, move to their neighbours for as long as
    that helps, λ adjusting by a step each time. Ties stay with what came first, the larger λ.
    """
    check_choice("criterion", criterion, ("metric", "loss"))
    tried: dict[Place, Candidate] = {}

    def quality(place: Place) -> float:
        if place not in tried:
            tried[place] = judge(grid.at(place))
        return tried[place].metric_value if criterion == "metric" else -tried[place].loss

    best: Place = (0, grid.first_ridge, 0)
    since = 0
    for step in range(len(grid.traces)):
        place = (step, grid.first_ridge, 0)
        gain = quality(place) - quality(best)
        since = 0 if step == 0 or gain > _WORTHWHILE else since + 1
        best = place if gain > 0 else best
        if since >= patience:
            break

    def improve(axis: int, length: int, direction: int) -> bool:
        """Walk along one axis while it helps; on the ridge and intercept axes λ follows."""
        nonlocal best
        moved = False
        while 0 <= best[axis] + direction < length:
            moved_to = list(best)
            moved_to[axis] += direction
            place = (moved_to[0], moved_to[1], moved_to[2])
            value_before = quality(best)
            if quality(place) > quality(best):
                best = place
            if axis > 0 and quality(place) > value_before - _HOPELESS:
                for step in (place[0] + 1, place[0] - 1):
                    near = (step, *place[1:])
                    if 0 <= step < len(grid.traces) and quality(near) > quality(best):
                        best = near
                        break
            if quality(best) <= value_before:
                break
            moved = True
        return moved

    for axis, length in ((1, len(grid.ridges)), (2, len(grid.intercepts))):
        if not improve(axis, length, 1):
            improve(axis, length, -1)
    if not improve(0, len(grid.traces), 1):
        improve(0, len(grid.traces), -1)
    return Selection(tried[best], tuple(tried.values()))
