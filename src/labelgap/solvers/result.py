"""What every solver returns and reports, and how a run is written down as named arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.objective.protocol import Factors
from labelgap.solvers.linalg.dense import Array, host
from labelgap.solvers.penalties import Penalties


@dataclass(frozen=True)
class Progress:
    """One report to a callback."""

    iteration: int
    objective: float
    gap: float
    """Relative duality gap."""
    rank: int
    seconds: float


Callback: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True)
class Candidate:
    """One choice of penalties as judged on held-out entries."""

    penalties: Penalties
    metric_value: float
    """The metric at its best threshold over held-out entries."""
    threshold: float
    loss: float
    """Mean held-out loss."""
    rank: float
    """Mean rank over the folds."""
    n_folds: int = 1
    """The number of folds it was judged on."""
    leave_out: Floats | None = field(default=None, repr=False, compare=False)
    """The metric with one part of the rows left out at a time; None where that is not known."""


class FitListener:
    """Hears of every step of a fit; pass one as ``callback`` and override what is of interest.

    A plain function as ``callback`` hears of the last fit only, as :meth:`__call__` does here.
    """

    def stage(self, what: str) -> None:
        """A new part of the work begins: "choosing penalties", "fitting", ..."""

    def candidate(self, candidate: Candidate) -> None:
        """A choice of penalties was judged on held-out entries."""

    def __call__(self, progress: Progress) -> None:
        """A round of the last fit ended."""


@dataclass(frozen=True)
class Fit:
    """A fitted ``W = left @ right.T`` with intercept, and the proof of how good it is."""

    factors: Factors
    singular_values: Array
    objective: float
    gap: float
    """Absolute duality gap."""
    relative_gap: float
    n_iter: int
    converged: bool
    """Whether the relative gap reached its target (or, with a binding rank cap, the steps died out)."""
    capped: bool = False
    """Whether the rank cap kept the fit from the optimum over all ranks."""
    history: tuple[Progress, ...] = field(default=(), repr=False)

    @property
    def rank(self) -> int:
        return int(self.singular_values.shape[0])


# -- as arrays that a file can hold ----------------------------------------------------------------------

State: TypeAlias = Mapping[str, NDArray[Any]]


class Snapshot(Mapping[str, NDArray[Any]]):
    """Named arrays of the objective's namespace as a :data:`State`: they go to the host when they are read.

    Most snapshots are never written, because the last one is fresh.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        return host(self._arrays[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def scalars(**values: float) -> dict[str, NDArray[Any]]:
    """Numbers as a part of a state."""
    return {name: np.asarray(value) for name, value in values.items()}


def factors_state(factors: Factors, name: str = "") -> dict[str, Array]:
    """Factors as a part of a state."""
    return {f"{name}{field}": array for field, array in factors._asdict().items()}


def factors_from(state: State, name: str = "") -> Factors:
    """The factors that :func:`factors_state` wrote down, as numpy's arrays."""
    return Factors(*(np.asarray(state[f"{name}{field}"]) for field in Factors._fields))


def history_state(history: Sequence[Progress]) -> Floats:
    """The reports of a run as rows of numbers."""
    rows = [(p.iteration, p.objective, p.gap, p.rank, p.seconds) for p in history]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 5)


def history_from(rows: NDArray[Any]) -> list[Progress]:
    """The reports that :func:`history_state` wrote down."""
    return [
        Progress(int(iteration), float(objective), float(gap), int(rank), float(seconds))
        for iteration, objective, gap, rank, seconds in rows
    ]


def fit_state(fit: Fit) -> dict[str, NDArray[Any]]:
    """A fit as arrays."""
    return {
        **{name: host(array) for name, array in factors_state(fit.factors).items()},
        "singular_values": host(fit.singular_values),
        "history": history_state(fit.history),
        **scalars(
            objective=fit.objective,
            gap=fit.gap,
            relative_gap=fit.relative_gap,
            n_iter=fit.n_iter,
            converged=fit.converged,
            capped=fit.capped,
        ),
    }


def fit_from(state: State) -> Fit:
    """The fit that :func:`fit_state` wrote down, in numpy's arrays."""
    return Fit(
        factors=factors_from(state),
        singular_values=np.asarray(state["singular_values"]),
        objective=float(state["objective"]),
        gap=float(state["gap"]),
        relative_gap=float(state["relative_gap"]),
        n_iter=int(state["n_iter"]),
        converged=bool(state["converged"]),
        capped=bool(state["capped"]),
        history=tuple(history_from(state["history"])),
    )
