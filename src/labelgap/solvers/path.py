"""The path of fits from λ_max down, and the choice of both penalties from out-of-fold scores.

At ``λ ≥ λ_max = σ₁(XᵀG(0))`` the model is W = 0. From there λ falls geometrically, each fit starting from the one
before. Every fold walks the same path; at each step the held-out scores of all folds together are judged by the
metric at its best threshold (or by the proper loss). So one sample of the size of Ω chooses λ, λ₂ and θ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.objective.protocol import Factors, Objective
from labelgap.objective.score_bound import ScoreBounds
from labelgap.solvers.bounded import Solver, solve_bounded
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Callback, Fit
from labelgap.solvers.spectral import LowRankShift, leading_triplets
from labelgap.thresholds.cross_fit import gather, map_folds
from labelgap.thresholds.sweep import best_threshold

Floats = NDArray[Any]


class Problem(Protocol):
    """What is fixed while labels, penalties and folds change: features, loss, intercept."""

    def objective(self, labels: ObservedLabels) -> Objective:
        """The data term over these labels."""
        ...

    def scores(self, factors: Factors, labels: ObservedLabels) -> Floats:
        """The model's scores at the entries of these labels."""
        ...

    def loss_of(self, scores: Floats, labels: ObservedLabels) -> float:
        """Mean loss of scores at the entries of these labels."""
        ...

    def bounds(self) -> ScoreBounds | None:
        """The constraint on the scores, where there is one."""
        ...


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
        bounds = problem.bounds()
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
    start = Factors.zero(objective.n_features, objective.n_labels, objective.starting_intercept())
    shift = LowRankShift(objective.at(start).score_gradient(), start.left, start.right)
    shape = (objective.n_features, objective.n_labels)
    return leading_triplets(shift, shape, 1, objective.n_stored).top


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
    """One pair of penalties as judged on held-out entries."""

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
    """The candidates and the winner."""

    best: Candidate
    candidates: tuple[Candidate, ...]


def select_penalties(
    problem: Problem,
    labels: ObservedLabels,
    fold_of_entry: NDArray[np.int64],
    metric: LinearFractional,
    traces: Sequence[float],
    ridges: Sequence[float],
    settings: SolverSettings,
    *,
    criterion: str = "metric",
    patience: int = 2,
    n_jobs: int | None = None,
) -> Selection:
    """Walk the path for each ridge and keep the pair that is best on held-out entries.

    A path ends early when ``patience`` steps in a row brought nothing better on that path. Ties go to the
    larger penalty, which comes first.
    """
    held_labels = labels.select(fold_of_entry >= 0)
    candidates: list[Candidate] = []
    objectives = map_folds(labels, fold_of_entry, lambda _, train, __: problem.objective(train))
    for ridge in ridges:
        starts: list[Factors | None] = [None] * len(objectives)
        best_here, since = -np.inf, 0
        for trace in traces:
            penalties = Penalties(float(trace), float(ridge))

            def fit_fold(
                fold: int,
                _: ObservedLabels,
                held: ObservedLabels,
                penalties: Penalties = penalties,
                starts: list[Factors | None] = starts,
            ) -> tuple[Floats, int]:
                fit = settings.fit(problem, objectives[fold], penalties, warm_start=starts[fold])
                starts[fold] = fit.factors
                return problem.scores(fit.factors, held), fit.rank

            by_fold = map_folds(labels, fold_of_entry, fit_fold, n_jobs)
            _, scores = gather(fold_of_entry, [part for part, _ in by_fold])
            result = best_threshold(scores, held_labels, metric)
            candidates.append(
                Candidate(
                    penalties,
                    result.value,
                    result.threshold,
                    problem.loss_of(scores, held_labels),
                    float(np.mean([rank for _, rank in by_fold])),
                )
            )
            quality = _quality(candidates[-1], criterion)
            since = 0 if quality > best_here else since + 1
            best_here = max(best_here, quality)
            if since >= patience:
                break
    return Selection(max(candidates, key=lambda c: _quality(c, criterion)), tuple(candidates))


def _quality(candidate: Candidate, criterion: str) -> float:
    return candidate.metric_value if criterion == "metric" else -candidate.loss
