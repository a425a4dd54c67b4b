"""The choice of penalties on a cluster: the search of one machine, over hashed folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.folds import FoldPlan
from labelgap.distributed.judging import cluster_judge, cluster_threshold
from labelgap.fitting.choice import PenaltyChoice, folds_with
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.cross_validation import CrossValidation, FoldFit, SolverSettings, start_for
from labelgap.fitting.penalty_grid import PenaltyGrid, Variants
from labelgap.fitting.run import FitRun
from labelgap.metrics import LinearFractional
from labelgap.objective.protocol import Objective
from labelgap.solvers import Fit, Penalties
from labelgap.solvers.loop import Candidate, Checkpoint, Stopped
from labelgap.thresholds.cross_fit import N_FOLDS, OneClassEffect

# Fits at a time, whose rounds are one. More of them share a round's fixed costs, and take more memory.
SIDE_BY_SIDE = 8


class ClusterFolds(CrossValidation):
    """Fits choices of penalties without one fold at a time; scores are judged where they are."""

    _plan: Any

    @property
    def n_folds(self) -> int:
        return int(self._plan.held_folds)

    def _held_out(self, n_folds: int) -> Any:
        """Nothing: the scores know their entries."""
        return None

    def _kept(self, scores: Any) -> None:
        """Nothing: the scores stay on the cluster."""

    def _scores(
        self, choices: Sequence[Penalties], tol: float | None, n_folds: int, checkpoint: Checkpoint
    ) -> list[tuple[Any, float, dict[int, FoldFit]]]:
        settings = self.settings if tol is None else replace(self.settings, tol=tol)
        starts, found = dict(self._last), []
        problem: Any = self._problem
        labels: Any = self._labels
        jobs = [
            self._job(
                fold, penalties, settings, starts.get(fold), checkpoint.part(f"choice {number} fold {fold}")
            )
            for number, penalties in enumerate(choices)
            for fold in range(n_folds)
        ]
        done: list[Fit] = []
        for start in range(0, len(jobs), SIDE_BY_SIDE):
            done += problem.rounds.side_by_side(jobs[start : start + SIDE_BY_SIDE])
        for number, penalties in enumerate(choices):
            fits = dict(enumerate(done[number * n_folds : (number + 1) * n_folds]))
            kept: dict[int, FoldFit] = {fold: (fit.factors, penalties) for fold, fit in fits.items()}
            if checkpoint.stopping():
                # Unfinished fits cannot be compared. They are kept, and the last fit starts from them.
                self._last |= kept
                raise Stopped
            rank = float(np.mean([fit.rank for fit in fits.values()]))
            models = tuple(fit.factors for fit in fits.values())
            scores = problem.held_scores(labels, models, self._plan, penalties)
            found.append((scores, rank, kept))
        return found

    def _job(
        self,
        fold: int,
        penalties: Penalties,
        settings: SolverSettings,
        before: FoldFit | None,
        checkpoint: Checkpoint,
    ) -> Callable[[], Fit]:
        """A fit that is yet to be made; it only asks for sums."""
        objective = self._of_fold(fold, free_intercept=penalties.intercept == 0)
        start = start_for(objective, penalties, before)
        return partial(settings.fit, objective, penalties, warm_start=start, checkpoint=checkpoint)

    def _of_fold(self, fold: int, *, free_intercept: bool) -> Objective:
        key = (fold, free_intercept)
        if key not in self._objectives:
            labels: Any = self._labels
            labels = replace(labels, plan=self._plan, without=fold)
            self._objectives[key] = self._problem.objective(labels, free_intercept=free_intercept)
        return self._objectives[key]


class ClusterChoice(PenaltyChoice):
    """Chooses penalties on held-out entries of a cluster, then fits to all entries."""

    # A sample of rows would have to be fetched from all partitions, and these know folds by their numbers.
    samples_rows = holds_out_together = False

    def _plan(self, how: str) -> Any:
        labels: Any = self.labels
        if how == "train" or labels.n_observed // 2 < N_FOLDS:
            return None
        seed = int(check_random_state(self.run.random_state).randint(2**31 - 1))
        by_row = self.by_row and labels.shape[0] >= 2 * N_FOLDS
        return FoldPlan(N_FOLDS, seed, by_row, 1 if how == "holdout" else None)

    def share_of_fold(self) -> float:
        return 1.0 - 1.0 / int(self.plan.n_folds)

    def _folds_with(self, plan: Any, n_entries: int, n_rare: int) -> int:
        labels: Any = self.labels
        if plan.only is not None:
            return int(plan.only)
        return folds_with(plan.n_folds, labels.n_observed, labels.n_rarer, n_entries, n_rare)

    def _with_thresholds(self, chosen: ChosenFit, best: Candidate | None) -> ChosenFit:
        if best is not None and self.how != "train":
            return replace(chosen, threshold=best.threshold)
        problem: Any = self.problem
        assert self.training_threshold is not None
        scores = problem.held_scores(self.labels, (chosen.fit.factors,), None, chosen.penalties)
        return replace(chosen, threshold=self.training_threshold(scores, self.labels))

    def cross_validation(self, part: str, plan: Any) -> CrossValidation:
        run = self.run
        checkpoint = run.checkpoint.part(part)
        return ClusterFolds(
            self.problem, self.labels, plan, self.judge, self.settings, run.n_jobs, checkpoint
        )


def cluster_choice(
    problem: Any,
    labels: ClusterLabels,
    grid: PenaltyGrid,
    metric: LinearFractional,
    settings: SolverSettings,
    run: FitRun,
    *,
    how: str,
    by_row: bool = False,
    effect: OneClassEffect | None = None,
    variants: Variants | None = None,
) -> ClusterChoice:
    """The choice of penalties and of a threshold for a metric over the observed entries of a cluster."""
    everything: Any = labels
    loss = problem.loss

    def threshold(scores: Any, seen: Any) -> float:
        return cluster_threshold(scores, metric, loss)

    return ClusterChoice(
        problem,
        everything,
        grid,
        cluster_judge(metric, loss, steady=False),
        settings,
        run,
        how=how,
        by_row=by_row,
        last_judge=cluster_judge(metric, loss, steady=True, effect=effect),
        training_threshold=threshold,
        variants=variants,
    )
