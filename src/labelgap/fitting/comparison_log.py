"""What has been compared so far, as a checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.objective.protocol import Factors
from labelgap.solvers.loop import Candidate, State, factors_from, factors_state
from labelgap.solvers.penalties import Penalties

# The name, in a state, of the penalties of a fold's last fit; the fold's number follows.
_PENALTIES = "penalties "
# The name, in a state, of the scores that chose the threshold.
_LAST_SCORES = "last scores"

FoldFit: TypeAlias = tuple[Factors, Penalties | None]
"""The fit of a fold, and the penalties that it was fitted with; None where it is of another problem."""


@dataclass(frozen=True)
class ComparisonLog:
    """Candidates in the order in which they were compared, and the fit of each fold to start from.

    It can be written down as a state, from which a later run continues.
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
