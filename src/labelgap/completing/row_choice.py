"""The choice of μ, the penalty of the rows' own part N, on held-out entries, and the fit that follows it.

The penalties of W and b stay those of the fit. Every fold begins with its own fit without N, which did not
see what is held out. From there μ falls by factors of √2, each fit starting from the one before, until the
held-out loss has risen twice. μ = ∞, that is N = 0, is the first candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._types import Floats
from labelgap.fitting.choice import SELECTION_TOL, folds_for_threshold
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.judges import Judge, Verdict
from labelgap.fitting.search import leading
from labelgap.labels import ObservedLabels
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Fit, Penalties
from labelgap.solvers.joint_state import JointFactors, JointProblem, smallest_useless_penalty
from labelgap.solvers.linalg import product_values
from labelgap.solvers.loop import Candidate
from labelgap.solvers.row_part import JointFit, solve_joint
from labelgap.thresholds.cross_fit import NEVER, gather, map_folds

# μ falls from the smallest at which N = 0 by this factor, so many times at most.
_STEP, _MOST_STEPS = 2.0**-0.5, 10
# Steps in a row without a lower loss, or a better metric, that end the search.
_WITHOUT_GAIN = 2


class RowModel:
    """The problem of a fit, with features, beside the same with parameters of the rows themselves.

    ``penalties`` are those of W and b.
    """

    def __init__(
        self,
        X: Any,
        labels: ObservedLabels,
        settings: ProblemSettings,
        penalties: Penalties,
        solver: SolverSettings,
    ) -> None:
        self.labels, self.penalties, self.solver = labels, penalties, solver
        self.shared = Problem([RowBlock(X, labels)], settings)
        # Labels are weighted alike in both norms.
        own = FeatureSettings(own_rows=True, label_weighting=settings.features.label_weighting)
        self.own = Problem([RowBlock(None, labels)], replace(settings, features=own))

    @property
    def _free(self) -> bool:
        return self.penalties.intercept == 0

    def objective_at(self, factors: Factors) -> float:
        """The penalised objective without N, over all labels."""
        point = self.shared.objective(self.labels, free_intercept=self._free).at(factors)
        return point.value + self.penalties.of(product_values(*factors[:2]), factors.intercept)

    def joint(self, labels: ObservedLabels, row_penalty: float) -> JointProblem:
        """The problem in W, N and b over these labels."""
        objective = self.own.objective(labels, free_intercept=self._free)
        return JointProblem(objective, self.shared.row_features, self.penalties, row_penalty)

    def without_rows(self, labels: ObservedLabels, tol: float) -> Fit:
        """The fit of W and b alone."""
        solver = replace(self.solver.for_comparisons, tol=max(tol, self.solver.tol))
        return solver.fit(self.shared.objective(labels, free_intercept=self._free), self.penalties)

    def solve(self, problem: JointProblem, start: JointFactors, tol: float | None = None) -> JointFit:
        """The fit of W, N and b together."""
        solver = self.solver
        tol = solver.tol if tol is None else max(tol, solver.tol)
        return solve_joint(problem, start, rank=solver.rank, tol=tol, max_iter=solver.iteration_limit)

    def right(self, x: JointFactors) -> Floats:
        """Q, where the scores are ``[XA, C] Qᵀ + b``."""
        return np.ascontiguousarray(self.own.right(np.hstack([x.right, x.row_right])))

    def scores(self, x: JointFactors, labels: ObservedLabels) -> Floats:
        """The scores at the entries of these labels."""
        P = np.ascontiguousarray(np.hstack([self.shared.left(x.left), x.row_left]))
        low_rank = kernels.entries.sampled_product(labels.indptr, labels.indices, P, self.right(x))
        return np.asarray(low_rank + x.intercept[labels.indices])


@dataclass(frozen=True)
class ChosenRows:
    """The μ that was chosen, and the held-out scores it was chosen by."""

    row_penalty: float
    candidates: tuple[tuple[float, Candidate], ...]
    """Each μ with what it was worth."""
    held: ObservedLabels
    scores: Floats
    """Held-out scores with that μ, of the entries of ``held``."""
    scores_without: Floats
    """The same with N = 0."""


@dataclass
class RowChoice:
    """Compares values of μ on held-out entries."""

    model: RowModel
    plan: NDArray[Any]
    """For each entry the fold in which it is held out, or −1."""
    judge: Judge
    n_jobs: int | None = None
    say: Callable[[str], None] = lambda message: None
    stopping: Callable[[], bool] = lambda: False
    """Whether to end the search early, with the best so far."""
    every_fold: bool = False
    """Whether every entry is scored, and not only as many as a threshold takes."""
    _problems: dict[int, JointProblem] = field(default_factory=dict, init=False)
    _at: dict[int, JointFactors] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        enough = int(self.plan.max()) + 1
        if not self.every_fold:
            enough = folds_for_threshold(self.model.labels, self.plan)
        self.plan = np.where(self.plan < enough, self.plan, NEVER)
        self._n_folds = enough
        self._held = self.model.labels.select(self.plan != NEVER)

    def search(self, start: Factors) -> ChosenRows:
        """The best μ, from the fit without N to all entries."""
        top = smallest_useless_penalty(self.model.joint(self.model.labels, 1.0), start)
        found = [(math.inf, *self._judged(math.inf))]
        best, since = 0, 0
        for mu in [top * _STEP**step for step in range(1, _MOST_STEPS + 1)] if top > 0 else []:
            if since == _WITHOUT_GAIN or self.stopping():
                break
            found.append((mu, *self._judged(mu)))
            candidates = [candidate for _, candidate, _ in found]
            leader = leading(candidates)
            falling = candidates[-1].loss < min(candidate.loss for candidate in candidates[:-1])
            since = 0 if falling or leader == len(found) - 1 else since + 1
            best = leader
        return self._chosen(found, best)

    def given(self, mu: float) -> ChosenRows:
        """This μ, judged beside N = 0."""
        found = [(value, *self._judged(value)) for value in dict.fromkeys((math.inf, mu))]
        return self._chosen(found, len(found) - 1)

    def _chosen(self, found: list[tuple[float, Candidate, Floats]], best: int) -> ChosenRows:
        mu, _, scores = found[best]
        compared = tuple((value, candidate) for value, candidate, _ in found)
        return ChosenRows(mu, compared, self._held, scores, found[0][2])

    def _judged(self, mu: float) -> tuple[Candidate, Floats]:
        """What μ is worth, and the held-out scores."""

        def work(fold: int, train: ObservedLabels, held: ObservedLabels) -> tuple[Floats, int]:
            x = self._fit_of_fold(fold, train, mu)
            return self.model.scores(x, held), x.row_rank

        by_fold = map_folds(self.model.labels, self.plan, work, self.n_jobs)
        _, scores = gather(self.plan, [part for part, _ in by_fold])
        verdict: Verdict = self.judge(scores, self._held)
        rank = float(np.mean([rank for _, rank in by_fold]))
        candidate = Candidate(
            self.model.penalties,
            verdict.value,
            verdict.threshold,
            verdict.loss,
            rank,
            self._n_folds,
            verdict.leave_out,
        )
        self.say(
            f"row penalty {mu:.3g}: held-out metric {verdict.value:.4f}, loss {verdict.loss:.5g}, "
            f"rank of N {rank:.1f}"
        )
        return candidate, scores

    def _fit_of_fold(self, fold: int, train: ObservedLabels, mu: float) -> JointFactors:
        if fold not in self._at:
            # A start that has seen the held-out entries would give them away.
            alone = self.model.without_rows(train, SELECTION_TOL).factors
            self._problems[fold] = self.model.joint(train, 1.0)
            self._at[fold] = JointFactors.without_rows(alone, train.shape[0])
        if mu < math.inf:
            problem = replace(self._problems[fold], row_penalty=mu)
            self._at[fold] = self.model.solve(problem, self._at[fold], SELECTION_TOL).factors
        return self._at[fold]


def fit_rows(model: RowModel, start: Factors, row_penalty: float) -> JointFit:
    """W, N and b fitted to all entries, from a fit without N."""
    begin = JointFactors.without_rows(start, model.labels.shape[0])
    fit = model.solve(model.joint(model.labels, row_penalty), begin)
    model.solver.warn_unless_converged(fit)
    return fit
