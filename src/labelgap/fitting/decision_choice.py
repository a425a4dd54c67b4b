"""The choice of penalties for estimators that decide by a metric over observed entries."""

from __future__ import annotations

from labelgap.fitting.choice import PenaltyChoice
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.decision_rule import DecisionRule
from labelgap.fitting.penalty_grid import PenaltyGrid
from labelgap.fitting.run import FitRun
from labelgap.fitting.variants import Variants
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.objective.problem import Problem
from labelgap.thresholds.cross_fit import HeldOutScores
from labelgap.thresholds.one_class import OneClassEffect


def choice_for_decisions(
    problem: Problem,
    labels: ObservedLabels,
    grid: PenaltyGrid,
    metric: LinearFractional,
    settings: SolverSettings,
    run: FitRun,
    *,
    how: str,
    by_row: bool = False,
    variants: Variants | None = None,
    effect: OneClassEffect | None = None,
    rule: DecisionRule | None = None,
    held_out: HeldOutScores | None = None,
    every_fold: bool = False,
) -> PenaltyChoice:
    """The choice of penalties and of a threshold for a metric over observed entries.

    ``effect`` sees the held-out scores that choose the threshold, or the thresholds that ``rule`` asks for,
    and ``held_out`` keeps them.
    """
    rule = rule or DecisionRule(metric)
    return PenaltyChoice(
        problem,
        labels,
        grid,
        rule.search_judge(problem.loss),
        settings,
        run,
        how=how,
        by_row=by_row,
        last_judge=rule.last_judge(problem.loss, effect, held_out),
        rule=rule,
        variants=variants,
        every_fold=every_fold,
    )
