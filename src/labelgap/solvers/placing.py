"""Rows and labels at their places before a fit goes on: each at the minimum of a problem of its own.

A duality gap is a number about all entries together. It is within the tolerance although a new user, or a new
item, has no factors yet: those of one row among many thousands hardly change the objective. So before a fit
goes on from an earlier model, every row minimises over its own parameters with the labels held, and every
label likewise. For a new user with the items held this is the fold-in of :mod:`labelgap.recommending`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labelgap.objective.protocol import Factors, Objective, Rowwise
from labelgap.solvers.alternating import FEATURES, LABELS, minimise_block, rowwise_steps
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.linalg import Array
from labelgap.solvers.loop import balanced_factors, starting_factors

# Sweeps at most, and Newton steps of all rows, or of all labels, in each. The change of a row, as a fraction
# of the longest one, after which it has come to its minimum.
_MOST_SWEEPS, _MOST_STEPS, _STILL = 10, 20, 1e-2
# Where rows share parameters: the fraction of a block's gradient that is left.
_LEFT = 0.05


def in_place(
    objective: Objective,
    penalties: Penalties,
    start: Factors,
    tol: float,
    stopping: Callable[[], bool] = lambda: False,
) -> Factors:
    """The start with every label, then every row, at its own minimum; the objective can only fall.

    Those that begin without any factors may depend on each other, as a new user who has rated a new item
    does. So sweeps go on until these stay where they are. ``stopping`` is asked after every step: a start
    that is stopped on the way is usable, only not as good.
    """
    at = balanced_factors(starting_factors(objective, start), min(objective.shape))
    if at.rank == 0:
        return at
    xp, steps = objective.xp, rowwise_steps(objective, tol)
    new = tuple(~xp.any(side != 0, axis=1) for side in at[:2])
    for _ in range(_MOST_SWEEPS):
        before, at = at, _moved(objective, penalties, at, steps, stopping)
        if stopping() or _largest_change(xp, before, at, new) <= _STILL:
            break
    return at


def _moved(
    objective: Objective,
    penalties: Penalties,
    at: Factors,
    steps: Rowwise | None,
    stopping: Callable[[], bool],
) -> Factors:
    if steps is None:
        # Rows, or labels, with parameters that others share.
        for block in (LABELS, FEATURES):
            if stopping():
                break
            at = minimise_block(objective, penalties, objective.at(at), block, left=_LEFT).x
        return at
    working, xp = steps.start(at), objective.xp

    def until_still(step: Callable[..., float]) -> None:
        here: Factors = working.factors()
        for _ in range(_MOST_STEPS):
            if stopping():
                break
            step(working, penalties)
            before, here = here, working.factors()
            if _largest_change(xp, before, here) <= _STILL:
                break

    until_still(steps.step_labels)
    until_still(steps.step_rows)
    moved: Factors = working.factors()
    return moved


def _largest_change(
    xp: Any, before: Factors, after: Factors, which: tuple[Array, Array] | None = None
) -> float:
    """How far a row of either factor has moved at most, as a fraction of the longest one."""
    largest = 0.0
    for number, (old, new) in enumerate(zip(before[:2], after[:2], strict=True)):
        moved, length = (xp.linalg.vector_norm(rows, axis=1) for rows in (new - old, new))
        if which is not None:
            moved = moved * xp.astype(which[number], moved.dtype)
        longest = float(xp.max(length))
        largest = max(largest, float(xp.max(moved)) / longest if longest > 0 else 0.0)
    return largest
