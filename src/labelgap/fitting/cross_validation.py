"""Fits along a path of penalties, and the judgement of penalties by out-of-fold scores.

At ``λ ≥ λ_max = σ₁(XᵀG(0))`` the model is W = 0. Every fold is fitted with the same penalties, starting from
its last fit, and the held-out scores of the folds together are judged by the metric at its best threshold. So
one sample of the size of Ω chooses λ, λ₂ and θ; how they are searched for is in
:mod:`labelgap.fitting.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.fitting.comparison_log import ComparisonLog
from labelgap.labels import ObservedLabels
from labelgap.objective.protocol import Factors, Objective, ScoreBounds
from labelgap.solvers.bounded import Solver, solve_bounded
from labelgap.solvers.checkpoint import Checkpoint, Stopped
from labelgap.solvers.intercept import with_best_intercept
from labelgap.solvers.linalg.spectral import LowRankShift, leading_triplets
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Callback, Candidate, Fit
from labelgap.thresholds.cross_fit import NEVER, gather, map_folds


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
    leave_out: Floats | None = None
    """The value with one part of the rows left out at a time, which says how sure it is; None: not known."""


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
        checkpoint: Checkpoint | None = None,
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
            solve = partial(self.solver, objective, penalties, **options)
        else:
            solve = partial(solve_bounded, self.solver, objective, penalties, bounds, **options)
        return (checkpoint or Checkpoint()).fit(solve)


def largest_trace_penalty(objective: Objective) -> float:
    """``λ_max = σ₁(XᵀG(0))``, at the best intercept: from there on W = 0."""
    start = Factors.zero(objective.shape, objective.starting_intercept())
    point = with_best_intercept(objective, objective.at(start), Penalties(1.0))
    shift = LowRankShift(point.score_gradient(), start.left, start.right)
    return leading_triplets(shift, objective.shape, 1, objective.may_form).top


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
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._problem, self._labels, self._plan = problem, labels, fold_of_entry
        self._judge, self._settings, self._n_jobs = judge, settings, n_jobs
        self._held = labels.select(fold_of_entry >= 0)
        self._objectives: dict[tuple[int, bool], Objective] = {}
        self._last: dict[int, tuple[Factors, float]] = {}
        self._trail = checkpoint or Checkpoint()
        self._log = ComparisonLog.of(self._trail.last())
        self._comparisons = self._scorings = 0
        self.best_so_far: tuple[Candidate, Factors] | None = None
        """The best of the choices compared, with its fit without the first fold; for a search that is cut
        short. Of comparisons that an earlier run made there are no fits left."""

    @property
    def n_folds(self) -> int:
        return int(self._plan.max(initial=NEVER)) + 1

    def __call__(
        self,
        penalties: Penalties,
        *,
        tol: float | None = None,
        n_folds: int | None = None,
        judge: Judge | None = None,
    ) -> Candidate:
        """Judge one choice; see :meth:`compare`. ``judge`` takes the place of the one given at first."""
        return self.compare([penalties], tol=tol, n_folds=n_folds, judge=judge)[0]

    def compare(
        self,
        choices: Sequence[Penalties],
        *,
        tol: float | None = None,
        n_folds: int | None = None,
        judge: Judge | None = None,
    ) -> list[Candidate]:
        """Judge fits to a relative gap of ``tol`` (that of the settings), by the first ``n_folds`` (all).

        Choices and folds are worked on side by side. All of them start from the last fits of their folds
        before this comparison, so that the order in which they end does not matter.
        """
        n_folds = self.n_folds if n_folds is None else n_folds
        self._comparisons += 1
        if self._comparisons <= self._log.n_comparisons:
            # An earlier run did this one; what comes after all of its comparisons starts from its last fits.
            self._last = dict(self._log.last_fits)
            self._trail.part(f"comparison {self._comparisons}").forget()
            return self._log.candidates(self._comparisons)
        held = self._held
        if n_folds < self.n_folds:
            held = self._labels.select((self._plan >= 0) & (self._plan < n_folds))
        checkpoint = self._trail.part(f"comparison {self._comparisons}")
        candidates = []
        for penalties, (scores, rank, first) in zip(
            choices, self._scores(choices, tol, n_folds, checkpoint), strict=True
        ):
            value, threshold, loss, leave_out = (judge or self._judge)(scores, held)
            candidate = Candidate(penalties, value, threshold, loss, rank, n_folds, leave_out)
            candidates.append(candidate)
            if self.best_so_far is None or value >= self.best_so_far[0].metric_value:
                self.best_so_far = candidate, first
        self._log = self._log.with_comparison(candidates, self._last)
        self._trail.snapshot(self._log.state(), at_once=True)
        checkpoint.forget()
        return candidates

    def scores_with(self, penalties: Penalties) -> Floats:
        """The held-out scores of all folds in the order of the entries."""
        self._scorings += 1
        checkpoint = self._trail.part(f"scoring {self._scorings}")
        return self._scores([penalties], None, self.n_folds, checkpoint)[0][0]

    def _scores(
        self, choices: Sequence[Penalties], tol: float | None, n_folds: int, checkpoint: Checkpoint
    ) -> list[tuple[Floats, float, Factors]]:
        """For each choice the held-out scores in the order of the entries, the mean rank, the first fit."""
        plan = np.where(self._plan < n_folds, self._plan, NEVER)
        settings = self._settings if tol is None else replace(self._settings, tol=tol)
        starts = dict(self._last)

        def fit_fold(
            fold: int, train: ObservedLabels, held: ObservedLabels, choice: tuple[int, Penalties]
        ) -> tuple[Floats, Fit]:
            number, penalties = choice
            objective = self._objective(fold, train, free_intercept=penalties.intercept == 0)
            start, pull = starts.get(fold, (None, 0.0))
            if start is not None and pull != penalties.intercept:
                # A free intercept that no entry speaks to must not keep what a penalty once made of it.
                start = start._replace(intercept=objective.starting_intercept())
            part = checkpoint.part(f"choice {number} fold {fold}")
            fit = settings.fit(self._problem, objective, penalties, warm_start=start, checkpoint=part)
            return self._problem.scores(fit.factors, held), fit

        by_choice = map_folds(self._labels, plan, fit_fold, self._n_jobs, list(enumerate(choices)))
        answers = []
        for penalties, by_fold in zip(choices, by_choice, strict=True):
            self._last |= {fold: (fit.factors, penalties.intercept) for fold, (_, fit) in enumerate(by_fold)}
            _, scores = gather(plan, [part for part, _ in by_fold])
            rank = float(np.mean([fit.rank for _, fit in by_fold]))
            answers.append((scores, rank, by_fold[0][1].factors))
        if checkpoint.stopping():
            # Unfinished fits cannot be compared. They are kept, to start the last one from.
            raise Stopped
        return answers

    def _objective(self, fold: int, train: ObservedLabels, *, free_intercept: bool) -> Objective:
        key = (fold, free_intercept)
        if key not in self._objectives:
            # Two choices may make the same one at a time; either will do.
            self._objectives[key] = self._problem.objective(train, free_intercept=free_intercept)
        return self._objectives[key]

    def fit_of_fold(self, fold: int) -> Factors | None:
        """The last fit without this fold: a start for one to all entries."""
        return self._last[fold][0] if fold in self._last else None
