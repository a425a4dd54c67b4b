"""The comparisons of penalties that a search has made, as a state that a later run can go on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labelgap.objective.protocol import Factors
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Candidate, State, factors_from, factors_state


@dataclass(frozen=True)
class ComparisonLog:
    """Candidates in the order in which they were compared, and the last fit of each fold."""

    comparisons: tuple[tuple[Candidate, ...], ...] = ()
    last_fits: Mapping[int, tuple[Factors, float]] = field(default_factory=dict)
    """For each fold the factors, and the intercept penalty that they were fitted with."""

    @property
    def n_comparisons(self) -> int:
        return len(self.comparisons)

    def candidates(self, number: int) -> list[Candidate]:
        """Of a comparison, counted from 1."""
        return list(self.comparisons[number - 1])

    def with_comparison(
        self, candidates: Sequence[Candidate], last_fits: Mapping[int, tuple[Factors, float]]
    ) -> Self:
        return type(self)((*self.comparisons, tuple(candidates)), dict(last_fits))

    def state(self) -> State:
        numbers = [
            (number, *astuple(c.penalties), c.metric_value, c.threshold, c.loss, c.rank, c.n_folds)
            for number, candidates in enumerate(self.comparisons)
            for c in candidates
        ]
        state: dict[str, NDArray[Any]] = {"numbers": np.array(numbers, dtype=np.float64)}
        every = [c for candidates in self.comparisons for c in candidates]
        for place, candidate in enumerate(every):
            if candidate.leave_out is not None:
                state[f"leave_out {place}"] = candidate.leave_out
        for fold, (factors, pull) in self.last_fits.items():
            state |= factors_state(factors, f"fold {fold} ")
            state[f"pull {fold}"] = np.asarray(pull)
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
            comparisons[-1].append(
                Candidate(Penalties(*penalties), value, threshold, loss, rank, int(n_folds), leave_out)
            )
        folds = sorted(int(name.removeprefix("pull ")) for name in state if name.startswith("pull "))
        last_fits = {
            fold: (factors_from(state, f"fold {fold} "), float(state[f"pull {fold}"])) for fold in folds
        }
        return cls(tuple(map(tuple, comparisons)), last_fits)
