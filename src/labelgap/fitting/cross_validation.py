"""The comparison of penalties by out-of-fold scores.

At ``λ ≥ λ_max = σ₁(XᵀG(0))`` the model is W = 0. Every fold is fitted with the same penalties, starting from
its last fit, and the held-out scores of the folds together are judged by the metric at its best threshold. So
one sample of the size of Ω chooses λ, λ₂ and θ; how they are searched for is in
:mod:`labelgap.fitting.search`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import to_host
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import ConvergenceWarning
from labelgap.fitting.judges import Judge
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors, Objective
from labelgap.solvers.bounded import Solver, solve_bounded
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.loop import (
    Callback,
    Candidate,
    Checkpoint,
    Fit,
    State,
    Stopped,
    factors_from,
    factors_state,
    on_host,
)
from labelgap.solvers.row_part import JointFit
from labelgap.thresholds.cross_fit import NEVER, gather, map_folds

# Steps of a fit whose only use is to start the next one.
_COARSE_STEPS = 50
# Scores of a fold that are judged in less time on the CPU than the work on a device takes to start.
_FEW_SCORES = 1 << 16
# Entries from which on the objectives of several folds are not kept side by side.
_MANY_ENTRIES = 1 << 20
# The name, in a state, of the penalties of a fold's last fit; the fold's number follows.
_PENALTIES = "penalties "
# The name, in a state, of the scores that chose the threshold.
_LAST_SCORES = "last scores"

FoldFit: TypeAlias = tuple[Factors, Penalties | None]
"""The fit of a fold, and the penalties that it was fitted with; None where it is of another problem."""


@dataclass(frozen=True)
class SolverSettings:
    """How to solve one problem."""

    solver: Solver
    rank: int | None = None
    tol: float = 1e-3
    max_iter: int | None = None
    """None: the solver's own limit."""
    compare_with: Solver | None = None
    """The solver of fits that are only compared with others; None: the same one."""

    @property
    def for_comparisons(self) -> Self:
        """How fits are made that are only compared.

        These need not be exact, and inexact fits of two solvers may win with different penalties. A problem
        has one answer to "auto", so one solver asks for it.
        """
        return self if self.compare_with is None else replace(self, solver=self.compare_with)

    @property
    def iteration_limit(self) -> int:
        """How many iterations a fit may make."""
        return int(self.max_iter or inspect.signature(self.solver).parameters["max_iter"].default)

    def fit(
        self,
        objective: Objective,
        penalties: Penalties,
        warm_start: Factors | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Fit:
        *coarse, (objective, _) = _stages(objective, self.tol)
        if checkpoint is None or checkpoint.last() is None:
            for rough, gap in coarse:
                # Steps far from the optimum need few digits; the last ones start from there.
                hurried = replace(self, tol=gap, max_iter=min(self.iteration_limit, _COARSE_STEPS))
                warm_start = hurried.fit(rough, penalties, warm_start).factors
        bounds = objective.bounds
        options: dict[str, Any] = {
            "rank": self.rank,
            "tol": self.tol,
            "warm_start": warm_start,
            "callback": callback,
        }
        if self.max_iter is not None:
            options["max_iter"] = self.max_iter
        if bounds is None:
            solve = partial(self.solver, objective, penalties, **options)
        else:
            solve = partial(solve_bounded, self.solver, objective, penalties, bounds, **options)
        return on_host((checkpoint or Checkpoint()).fit(solve))

    def warn_unless_converged(self, fit: Fit | JointFit) -> None:
        """Say how far a fit has come, and what would help, where it did not reach the gap."""
        if fit.converged:
            return
        exhausted = fit.n_iter >= self.iteration_limit
        help_with = "Raise max_iter or tol" if exhausted else "It found no further progress; raise tol"
        warn(
            f"The solver stopped after {fit.n_iter} iterations at a relative duality gap of "
            f"{fit.relative_gap:.3e} (asked for: {self.tol:.1e}). {help_with}, or scale the features to "
            "similar lengths.",
            ConvergenceWarning,
        )


def _stages(objective: Objective, tol: float) -> Sequence[tuple[Objective, float]]:
    """The objective, after stand-ins whose steps have fewer digits; and the gaps to fit them to."""
    stages = getattr(objective, "stages", None)
    return [(objective, tol)] if stages is None else stages(tol)


Scorer: TypeAlias = Callable[[Problem, Factors, ObservedLabels, int], Any]
"""From a problem, a fit of it, the entries held out from it and their fold, to one number per entry (an array
or a tensor)."""


def plain_scores(problem: Problem, factors: Factors, held: ObservedLabels, fold: int) -> Any:
    """The scores of the held-out entries; many stay on the device that made them."""
    if held.n_observed < _FEW_SCORES:
        return problem.scores(factors, held)
    return problem.scores_in_place(factors, held)


def _worth(candidate: Candidate) -> tuple[float, float]:
    """What a candidate's fits are worth as starts of others."""
    return candidate.metric_value, -candidate.loss


def start_for(objective: Objective, penalties: Penalties, before: FoldFit | None) -> Factors | None:
    """Where a fit with these penalties starts, after one of the same entries with others."""
    if before is None:
        return None
    factors, other = before
    if other is None or other.intercept != penalties.intercept:
        # The free intercept of a label without entries must not keep what a penalty made of it.
        return factors._replace(intercept=objective.starting_intercept())
    return factors


@dataclass(frozen=True)
class ComparisonLog:
    """Candidates in the order in which they were compared, and the fit of each fold to start from.

    A checkpoint keeps it as a state, from which a later run continues.
    """

    comparisons: tuple[tuple[Candidate, ...], ...] = ()
    last_fits: Mapping[int, FoldFit] = field(default_factory=dict)
    last_scores: Floats | None = None
    """The held-out scores of the last comparison that had a judge of its own."""

    @property
    def n_comparisons(self) -> int:
        return len(self.comparisons)

    def candidates(self, number: int) -> list[Candidate]:
        """The candidates of a comparison, counted from 1."""
        return list(self.comparisons[number - 1])

    def all_candidates(self) -> list[Candidate]:
        return [candidate for candidates in self.comparisons for candidate in candidates]

    def with_comparison(
        self,
        candidates: Sequence[Candidate],
        last_fits: Mapping[int, FoldFit],
        last_scores: Floats | None = None,
    ) -> Self:
        kept = self.last_scores if last_scores is None else last_scores
        return type(self)((*self.comparisons, tuple(candidates)), dict(last_fits), kept)

    def state(self) -> State:
        numbers = [
            (number, *astuple(c.penalties), c.metric_value, c.threshold, c.loss, c.rank, c.n_folds)
            for number, candidates in enumerate(self.comparisons)
            for c in candidates
        ]
        state: dict[str, NDArray[Any]] = {"numbers": np.array(numbers, dtype=np.float64)}
        for place, candidate in enumerate(self.all_candidates()):
            if candidate.leave_out is not None:
                state[f"leave_out {place}"] = candidate.leave_out
            if candidate.thresholds is not None:
                state[f"{candidate.threshold_kind} {place}"] = candidate.thresholds
        for fold, (factors, penalties) in self.last_fits.items():
            state |= factors_state(factors, f"fold {fold} ")
            state[f"{_PENALTIES}{fold}"] = np.array([] if penalties is None else astuple(penalties))
        if self.last_scores is not None:
            state[_LAST_SCORES] = self.last_scores
        return state

    @classmethod
    def of(cls, state: State | None) -> Self:
        """The log that a state was made of; an empty one for None."""
        if state is None:
            return cls()
        comparisons: list[list[Candidate]] = []
        for place, (number, *row) in enumerate(state["numbers"].tolist()):
            while len(comparisons) <= number:
                comparisons.append([])
            *penalties, value, threshold, loss, rank, n_folds = row
            leave_out = state.get(f"leave_out {place}")
            kinds = (kind for kind in ("per-label", "shrunk") if f"{kind} {place}" in state)
            kind = next(kinds, "shared")
            several = state.get(f"{kind} {place}")
            comparisons[-1].append(
                Candidate(
                    Penalties(*penalties),
                    value,
                    threshold,
                    loss,
                    rank,
                    int(n_folds),
                    leave_out,
                    several,
                    kind,
                )
            )
        penalties_of = {
            int(name.removeprefix(_PENALTIES)): Penalties(*numbers.tolist()) if len(numbers) else None
            for name, numbers in state.items()
            if name.startswith(_PENALTIES)
        }
        last_fits = {
            fold: (factors_from(state, f"fold {fold} "), penalties_of[fold]) for fold in sorted(penalties_of)
        }
        return cls(tuple(map(tuple, comparisons)), last_fits, state.get(_LAST_SCORES))


class CrossValidation:
    """Fits choices of penalties in every fold and judges the held-out scores of all folds together.

    With a ``basis`` U the fits are within its span, ``W = U M``. They are kept as they are made; what they
    start from, and what others ask for, is W.
    """

    def __init__(
        self,
        problem: Problem,
        labels: ObservedLabels,
        fold_of_entry: NDArray[np.int64],
        judge: Judge,
        settings: SolverSettings,
        n_jobs: int | None = None,
        checkpoint: Checkpoint | None = None,
        scorer: Scorer | None = None,
        basis: Floats | None = None,
    ) -> None:
        self._scorer = plain_scores if scorer is None else scorer
        self._basis = basis
        self._problem = problem if basis is None else problem.in_span(basis)
        self._labels, self._plan = labels, fold_of_entry
        self._judge, self.settings, self._n_jobs = judge, settings.for_comparisons, n_jobs
        self._held: dict[int, ObservedLabels] = {}
        self._objectives: dict[tuple[int, bool], Objective] = {}
        self._last: dict[int, FoldFit] = {}
        self._checkpoint = checkpoint or Checkpoint()
        self._log = ComparisonLog.of(self._checkpoint.last())
        self._comparisons = self._scorings = 0
        self.best_so_far: tuple[Candidate, Factors] | None = None
        """The best of the choices compared, with its fit without the first fold, for a search that is cut
        short. Fits of comparisons that an earlier run made are not kept."""

    @property
    def n_rows(self) -> int:
        return int(self._labels.shape[0])

    @property
    def n_folds(self) -> int:
        return int(self._plan.max(initial=NEVER)) + 1

    def _held_out(self, n_folds: int) -> Any:
        """The entries of the first folds."""
        if n_folds not in self._held:
            self._held.clear()
            self._held[n_folds] = self._labels.select((self._plan >= 0) & (self._plan < n_folds))
        return self._held[n_folds]

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
        start: CrossValidation | None = None,
    ) -> list[Candidate]:
        """Judge fits to a relative gap of ``tol`` (that of the settings), by the first ``n_folds`` (all).

        Choices and folds are worked on side by side. All of them start from the fits of the best choice of
        the comparisons before, or this once from those of ``start``, so that the order in which they end does
        not matter. A ``judge`` of its own is for a choice that has been made: its fits are kept, whatever
        they are worth.
        """
        n_folds = self.n_folds if n_folds is None else n_folds
        self._comparisons += 1
        if self._comparisons <= self._log.n_comparisons:
            # An earlier run made this comparison. The first new one starts from the last fits of that run.
            self._last = dict(self._log.last_fits)
            self._checkpoint.part(f"comparison {self._comparisons}").forget()
            if judge is not None and self._log.last_scores is not None:
                # What watches the judge is to see the scores in this run, too.
                judge(self._log.last_scores, self._held_out(n_folds))
            return self._log.candidates(self._comparisons)
        held = self._held_out(n_folds)
        checkpoint = self._checkpoint.part(f"comparison {self._comparisons}")
        candidates, chosen = [], None
        best = max(map(_worth, self._log.all_candidates()), default=None)
        before = dict(self._last)
        if start is not None:
            self.start_from(start)
        scored = self._scores(choices, tol, n_folds, checkpoint)
        self._last = before
        for penalties, (scores, rank, fits) in zip(choices, scored, strict=True):
            judged_by = judge or self._judge
            if not getattr(judged_by, "takes_tensors", False):
                scores = to_host(scores)
            value, threshold, loss, leave_out, thresholds, kind = judged_by(scores, held)
            candidate = Candidate(
                penalties, value, threshold, loss, rank, n_folds, leave_out, thresholds, kind
            )
            candidates.append(candidate)
            is_best = best is None or _worth(candidate) >= best
            if is_best:
                best = _worth(candidate)
            # Closer fits with the same penalties are the better start, even where they score less.
            if judge is not None or is_best or self._are_of(penalties, n_folds):
                self._last |= fits
            if self.best_so_far is None or value >= self.best_so_far[0].metric_value:
                self.best_so_far = candidate, self._model_of(fits[0][0])
            if judge is not None:
                chosen = self._kept(scores)
        self._log = self._log.with_comparison(candidates, self._last, chosen)
        self._checkpoint.snapshot(self._log.state(), at_once=True)
        checkpoint.forget()
        return candidates

    def _are_of(self, penalties: Penalties, n_folds: int) -> bool:
        """Whether the fits to start from are of these penalties."""
        return all(fold in self._last and self._last[fold][1] == penalties for fold in range(n_folds))

    def _kept(self, scores: Any) -> Floats | None:
        """The scores as a checkpoint keeps them; None where it does not."""
        if not self._checkpoint.keeps:
            # Scores on a device stay there.
            return None
        return np.asarray(to_host(scores), dtype=np.float64)

    def scores_with(self, penalties: Penalties) -> Floats:
        """The held-out scores of all folds in the order of the entries."""
        self._scorings += 1
        checkpoint = self._checkpoint.part(f"scoring {self._scorings}")
        scores, _, fits = self._scores([penalties], None, self.n_folds, checkpoint)[0]
        self._last |= fits
        return np.asarray(to_host(scores))

    def _scores(
        self, choices: Sequence[Penalties], tol: float | None, n_folds: int, checkpoint: Checkpoint
    ) -> list[tuple[Any, float, dict[int, FoldFit]]]:
        """The held-out scores in the order of the entries, the mean rank and the fits of each choice."""
        plan = np.where(self._plan < n_folds, self._plan, NEVER)
        settings = self.settings if tol is None else replace(self.settings, tol=tol)
        starts = dict(self._last)

        def fit_fold(
            fold: int, _: None, held: ObservedLabels, choice: tuple[int, Penalties]
        ) -> tuple[Any, Fit]:
            number, penalties = choice
            objective = self.objective(fold, free_intercept=penalties.intercept == 0)
            start = start_for(objective, penalties, starts.get(fold))
            part = checkpoint.part(f"choice {number} fold {fold}")
            fit = settings.fit(objective, penalties, warm_start=start, checkpoint=part)
            return self._scorer(self._problem, fit.factors, held, fold), fit

        numbered = list(enumerate(choices))
        # An objective that is there already needs no labels.
        by_choice = map_folds(self._labels, plan, fit_fold, self._n_jobs, numbered, selects_training=False)
        found = []
        for penalties, by_fold in zip(choices, by_choice, strict=True):
            fits: dict[int, FoldFit] = {
                fold: (fit.factors, penalties) for fold, (_, fit) in enumerate(by_fold)
            }
            _, scores = gather(plan, [part for part, _ in by_fold])
            rank = float(np.mean([fit.rank for _, fit in by_fold]))
            found.append((scores, rank, fits))
        if checkpoint.stopping():
            # Unfinished fits cannot be compared. They are kept, and the last fit starts from them.
            self._last |= fits
            raise Stopped
        return found

    def objective(self, fold: int, *, free_intercept: bool) -> Objective:
        """The data term without what a fold holds out."""
        key = (fold, free_intercept)
        found = self._objectives.get(key)
        if found is None:
            if self._labels.n_observed > _MANY_ENTRIES:
                # To make an objective again takes less time than a fit, and each is as large as the data.
                self._objectives.clear()
            train = self._labels.select(self._plan != fold)
            # Two threads may make the same one at a time; either will do.
            found = self._objectives[key] = self._problem.objective(train, free_intercept=free_intercept)
        return found

    def close(self) -> None:
        """Give up the objectives of the folds, which take as much memory as the data; fits are kept."""
        self._objectives.clear()

    def start_from(self, other: CrossValidation, moved: Callable[[Factors], Factors] | None = None) -> None:
        """Start from the last fits of other folds of the same entries, moved to the coordinates of these."""
        for fold, (factors, penalties) in other._last.items():
            model = other._model_of(factors)
            self._last[fold] = self._start_of(model if moved is None else moved(model)), penalties

    def start_all_from(self, model: Factors, folds: Sequence[int]) -> None:
        """Start these folds from a fit that has seen nothing of what they hold out; intercepts begin anew."""
        self._last = {fold: (self._start_of(model), None) for fold in folds}

    def fit_of_fold(self, fold: int) -> Factors | None:
        """The last fit without this fold, from which a fit to all entries can start."""
        return self._model_of(self._last[fold][0]) if fold in self._last else None

    def penalties_of_fold(self, fold: int) -> Penalties | None:
        """The penalties of that fit; None where there is none, or one of another problem."""
        return self._last[fold][1] if fold in self._last else None

    def _model_of(self, factors: Factors) -> Factors:
        return factors if self._basis is None else factors._replace(left=self._basis @ factors.left)

    def _start_of(self, model: Factors) -> Factors:
        return model if self._basis is None else model._replace(left=self._basis.T @ model.left)
