"""The search for settings as tests see it: ``select(space, evaluate, budgets)``, whatever is behind it.

What is behind it today is adapted here. Another search changes this file, and no test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from labelgap.fitting.penalty_grid import PenaltyGrid
from labelgap.fitting.search import select_penalties, select_trace
from labelgap.solvers import Candidate, Penalties
from labelgap.solvers.loop import Stopped as Stopped  # what a request to stop raises in evaluate

STRIDES = ((4, 2), (2, 1), (1, 1))
ROUGH, CLOSE = "rough", "close"
"""Budgets: cheap fits that find the way, and those that decide."""


class Setting(NamedTuple):
    """What a fit is made with."""

    trace: float
    ridge: float = 0.0
    intercept: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What is known of a setting after its evaluation."""

    setting: Setting
    metric: float
    loss: float
    leave_out: np.ndarray | None = None
    """The metric with one part of the rows left out at a time."""
    rank: float = 1.0


@dataclass(frozen=True)
class Space:
    """The values that a search may choose from: trace penalties falling, the others rising."""

    traces: Sequence[float]
    ridges: Sequence[float] = (0.0,)
    intercepts: Sequence[float] = (0.0,)
    first_ridge: int = 0

    @property
    def size(self) -> int:
        return len(self.traces) * len(self.ridges) * len(self.intercepts)


Evaluate = Callable[[Sequence[Setting], str], Sequence[Answer]]


def select(
    space: Space,
    evaluate: Evaluate,
    budgets: Sequence[str] = (CLOSE,),
    *,
    criterion: str = "metric",
    near: Setting | None = None,
) -> Answer:
    """The answer that the search ends with; ``near`` says where a search that knows the others begins."""
    grid = PenaltyGrid(
        space.traces, space.ridges, space.intercepts, first_ridge=space.first_ridge, strides=STRIDES
    )
    answers: dict[int, tuple[Candidate, Answer]] = {}

    def compare(budget: str, choices: Sequence[Penalties]) -> list[Candidate]:
        found = evaluate([Setting(p.trace, p.ridge, p.intercept) for p in choices], budget)
        made = [
            Candidate(p, one.metric, 0.5, one.loss, one.rank, leave_out=one.leave_out)
            for p, one in zip(choices, found, strict=True)
        ]
        answers.update({id(c): (c, one) for c, one in zip(made, found, strict=True)})
        return made

    last = partial(compare, budgets[-1])
    if near is not None:
        start = grid.place_of(replace(Penalties(near.trace), ridge=near.ridge, intercept=near.intercept))
        best = select_trace(last, grid, start, criterion=criterion)
    elif len(budgets) == 1:
        best = select_penalties(last, grid, criterion=criterion)
    else:
        best = select_penalties(partial(compare, budgets[0]), grid, criterion=criterion, closely=last)
    return answers[id(best)][1]
