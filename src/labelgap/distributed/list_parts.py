"""What a task does with its users where lists are made: its summand of what all of R is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.distributed.folds import drawn
from labelgap.distributed.keeping import Kept
from labelgap.distributed.partitions import Own, Partition, stored_bytes
from labelgap.labels import ObservedLabels
from labelgap.recommending.closed_form.matrix import ScaledLikes
from labelgap.recommending.closed_form.settings import ListSettings, Ratings, entries_of

# About the bytes that R takes for a rating, beside the ratings.
_PER_ENTRY = 24


class Weighing(NamedTuple):
    """What R depends on beside the ratings of a partition."""

    settings: ListSettings
    mean: float
    """v̄, the mean value of the likes of all users."""
    item_counts: Floats
    """``D_i``, of all users."""


class ListPart:
    """The ratings of some users; their rows of R are kept while the partition is in memory."""

    def __init__(self, labels: ObservedLabels, row_ids: NDArray[np.uint64]) -> None:
        self.labels, self.row_ids = labels, row_ids
        self._kept = Kept(1, _PER_ENTRY * labels.n_observed)

    @classmethod
    def of(cls, part: Partition, own: Own) -> ListPart:
        """That of a partition as it was read."""
        assert part.row_ids is not None
        return cls(part.labels, part.row_ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return ListPart, (self.labels, self.row_ids)

    def __sizeof__(self) -> int:
        return stored_bytes(self.labels) + stored_bytes(self.row_ids) + 1000

    def likes(self, weighing: Weighing) -> ScaledLikes:
        """The rows of R. A fit has one weighing."""
        found: ScaledLikes = self._kept.get("R", lambda: ScaledLikes(Ratings(self.labels), *weighing))
        return found


def sum_of_likes(part: ListPart, own: Own) -> tuple[float, int]:
    """The values of the likes together, and how many there are."""
    likes = part.labels.values == 1
    weights = part.labels.weights
    n_likes = int(np.count_nonzero(likes))
    return float(n_likes if weights is None else weights[likes].sum()), n_likes


def item_counts(part: ListPart, own: Own, settings: ListSettings, mean: float) -> Floats:
    """The summand of ``D_i``."""
    labels = part.labels
    entries = np.abs(entries_of(Ratings(labels), settings, mean))
    return np.bincount(labels.indices, entries, labels.shape[1]).astype(np.float64)


def squares(part: ListPart, own: Own, weighing: Weighing) -> float:
    """The summand of ``‖R‖_F²``."""
    return part.likes(weighing).squares


def normal(part: ListPart, own: Own, weighing: Weighing, V: Floats) -> Floats:
    """The summand of ``RᵀR V``, in the precision of V."""
    R = part.likes(weighing)
    found: Floats = R.transposed_times(R.times(V))
    return found


def some_users(
    part: ListPart, own: Own, seed: int, share: float
) -> tuple[NDArray[np.uint64], ObservedLabels]:
    """About that share of the users with all of their ratings: the numbers of these users, and the ratings.

    Whether a user is among them does not depend on the partitions.
    """
    chosen = np.flatnonzero(drawn(part.row_ids, seed, share))
    return part.row_ids[chosen], replace(part.labels, row_names=None).take_rows(chosen)
