"""A partition of the data as it lies on a worker: as it was read, and in the coordinates of the frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap.distributed.keeping import Kept
from labelgap.fitting.problem import backend_for
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.objective.cpu.part import CpuBackend
from labelgap.objective.frame import FeatureFrame
from labelgap.objective.moments import ColumnMoments, FeatureMoments, SecondMoments
from labelgap.objective.parts import FeatureSettings, RowBlock, RowData
from labelgap.objective.protocol import Objective, Point

# Objectives, points, gradients of them and scores that a partition keeps in memory for a fit.
_KEPT = {"objectives": 2, "points": 3, "gradients": 1, "scores": 1}
# About the bytes that each takes for an entry and, of points, for a row (at rank 16).
_PER_ENTRY = {"objectives": 32, "points": 24, "gradients": 16, "scores": 24}
_PER_ROW = {"points": 128}


class Own(NamedTuple):
    """What a task is told about its partition."""

    number: int
    first_row: int


@dataclass(frozen=True, eq=False)
class Partition:
    """Some rows as they were read."""

    number: int
    X: Any
    """Features, dense or CSR; None where rows have parameters of their own."""
    labels: ObservedLabels
    row_ids: NDArray[np.uint64] | None = None
    """Numbers of the rows that do not depend on the partitions; None for their place in the data."""

    def __sizeof__(self) -> int:
        return stored_bytes(self.X) + stored_bytes(self.labels) + stored_bytes(self.row_ids) + 1000

    @property
    def block(self) -> RowBlock:
        return RowBlock(self.X, self.labels)


@dataclass(eq=False)
class Prepared:
    """Some rows in the coordinates of the frame.

    Objectives and points are kept beside them while the partition is in memory. They follow from the
    partition and the question: a worker that does not have them makes the same ones, to the last bit. Where
    Dask moves a partition to the disk they are dropped.
    """

    number: int
    labels: ObservedLabels
    row_ids: NDArray[np.uint64] | None
    settings: FeatureSettings
    features: FeatureFrame
    device: str
    loss: Loss
    rows: RowData | None
    """The rows on the CPU; None where they are on a device."""
    X: Any
    """Features as they were read, for a device to take; None on the CPU."""
    _on_device: RowData | None = None

    def __post_init__(self) -> None:
        n, entries = self.labels.shape[0], self.labels.n_observed
        self.objectives, self.points, self.gradients, self.scores = (
            Kept(most, _PER_ENTRY[name] * entries + _PER_ROW.get(name, 0) * n) for name, most in _KEPT.items()
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in (*_KEPT, "_on_device")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _on_device=None)
        self.__post_init__()

    def __sizeof__(self) -> int:
        held = (self.labels, self.row_ids, self.X, self.rows)
        return sum(map(stored_bytes, held)) + 1000

    def expect(self, n_fits: int) -> None:
        """Keep what so many fits side by side ask for again."""
        for name in ("objectives", "points", "gradients"):
            getattr(self, name).most = n_fits * _KEPT[name]

    def row_data(self) -> RowData:
        """The rows, where the work is done."""
        if self.rows is not None:
            return self.rows
        if self._on_device is None:
            backend = backend_for(self.device, self.labels, self.loss)
            assert backend is not None
            self._on_device = backend.row_data(self.block)
        return self._on_device

    @property
    def block(self) -> RowBlock:
        return RowBlock(self.X, self.labels)

    def ids(self, own: Own) -> NDArray[Any]:
        """The numbers of the rows that folds go by."""
        if self.row_ids is not None:
            return self.row_ids
        return np.arange(own.first_row, own.first_row + self.labels.shape[0])

    def objective(self, name: Any, make: Callable[[], Objective]) -> Objective:
        found: Objective = self.objectives.get(name, make)
        return found

    def point(self, name: Any, make: Callable[[], Point]) -> Point:
        found: Point = self.points.get(name, make)
        return found


def feature_moments(part: Partition, own: Own, settings: FeatureSettings) -> FeatureMoments:
    """What a partition contributes to the frame of the features."""
    return CpuBackend().row_data(part.block).moments(settings)


def second_moments(part: Partition, own: Own) -> SecondMoments:
    """What it contributes to the principal axes of the features."""
    return CpuBackend().row_data(part.block).second_moments()


def column_moments(part: Partition, own: Own) -> ColumnMoments:
    """Means and spreads of the features."""
    return ColumnMoments.of(part.X)


def feature_gram(part: Partition, own: Own, settings: FeatureSettings, frame: FeatureFrame) -> Any:
    """``XᵀX`` in the coordinates of a frame."""
    return CpuBackend().row_data(part.block).gram(settings, frame)


def prepare(
    part: Partition | Prepared,
    own: Own,
    settings: FeatureSettings,
    frame: FeatureFrame,
    device: str,
    loss: Loss,
) -> Prepared:
    """The partition in the coordinates of the frame, or ready for a device to take it."""
    if backend_for(device, part.labels, loss) is not None:
        return Prepared(part.number, part.labels, part.row_ids, settings, frame, device, loss, None, part.X)
    rows = CpuBackend().row_data(part.block).in_frame(settings, frame)
    light = replace(frame, coordinates=None)
    return Prepared(part.number, part.labels, part.row_ids, settings, light, device, loss, rows, None)


def design_facts(part: Prepared, own: Own) -> tuple[float, int]:
    """The sum of ``‖x_i‖²``, and the numbers that the features take."""
    rows = part.row_data()
    return rows.square_length(part.settings, part.features), rows.n_stored(part.settings, part.features)


def stored_bytes(value: Any, _depth: int = 0) -> int:
    """About the bytes of the arrays that a value holds."""
    if value is None or isinstance(value, str | int | float | bool):
        return 0
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if sp.issparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if _depth > 6:
        return 0
    if isinstance(value, tuple | list):
        # Ids are told by the first few.
        some = sum(stored_bytes(one, _depth + 1) for one in value[:20])
        return some if len(value) <= 20 else 64 * len(value)
    inner = getattr(value, "__dict__", None)
    return 0 if inner is None else sum(stored_bytes(one, _depth + 1) for one in inner.values())
