"""What a run is made of, as named arrays that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.objective.protocol import Factors

State: TypeAlias = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Progress:
    """One report to a callback."""

    iteration: int
    objective: float
    gap: float
    """Relative duality gap."""
    rank: int
    seconds: float


def scalars(**values: float) -> dict[str, NDArray[Any]]:
    """Numbers as a part of a state."""
    return {name: np.asarray(value) for name, value in values.items()}


def factors_state(factors: Factors, name: str = "") -> dict[str, NDArray[Any]]:
    return {f"{name}{field}": array for field, array in factors._asdict().items()}


def factors_from(state: State, name: str = "") -> Factors:
    return Factors(*(np.asarray(state[f"{name}{field}"]) for field in Factors._fields))


def contiguous(factors: Factors) -> Factors:
    """As they would be read from a file: how numbers lie in memory decides the last bit of products."""
    return Factors(*(np.ascontiguousarray(array) for array in factors))


def history_state(history: Sequence[Progress]) -> Floats:
    rows = [(p.iteration, p.objective, p.gap, p.rank, p.seconds) for p in history]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 5)


def history_from(rows: NDArray[Any]) -> list[Progress]:
    return [
        Progress(int(iteration), float(objective), float(gap), int(rank), float(seconds))
        for iteration, objective, gap, rank, seconds in rows
    ]
