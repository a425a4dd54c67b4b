"""Where a run stands, so that another can resume from there; and the wish to stop it.

A solver takes a snapshot at places where it restarts from that snapshot itself. So a run that resumes from it
makes the same steps, to the last bit, as one that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from labelgap.solvers.result import Fit, State


class Stopped(Exception):
    """The work was asked to stop before it had an answer."""


class Checkpoint:
    """Snapshots of a run and of the runs that it is made of. This one keeps none and never asks to stop."""

    def stopping(self) -> bool:
        """Whether the run should end as soon as it can, with what it has."""
        return False

    def last(self) -> State | None:
        """The last snapshot of an earlier run; None where there was none."""
        return None

    def snapshot(self, state: State, *, at_once: bool = False) -> None:
        """Keep a state; not where the last one is fresh, unless ``at_once``."""

    def part(self, name: str) -> Self:
        """The checkpoint of a piece of the work."""
        return self

    def fit(self, solve: Callable[..., Fit]) -> Fit:
        """The fit that an earlier run finished, or else ``solve(checkpoint=...)`` with this checkpoint."""
        return solve(checkpoint=self)

    def forget(self) -> None:
        """Drop what was kept of this piece of the work."""
