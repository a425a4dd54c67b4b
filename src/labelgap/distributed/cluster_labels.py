"""The labels of all partitions as the client knows them: by their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.distributed.folds import FoldPlan
from labelgap.exceptions import InvalidLabelsError
from labelgap.objective.moments import LabelSums


@dataclass(frozen=True)
class ClusterLabels:
    """The labels of all partitions, by their sums; the entries stay where they are."""

    shape: tuple[int, int]
    sums: LabelSums
    plan: FoldPlan | None = None
    without: int | None = None
    """The fold whose entries are left out; None for all entries."""
    label_names: tuple[Any, ...] | None = None
    unobserved: str = "missing"

    @property
    def n_observed(self) -> int:
        return int(self.sums.count.sum())

    def label_counts(self) -> NDArray[np.int64]:
        return self.sums.count

    def positive_counts(self) -> NDArray[np.int64]:
        return np.asarray(self.sums.at_edge[1])

    @property
    def mean(self) -> float:
        """The mean of the labels."""
        return float(self.sums.value.sum() / self.sums.weight.sum())

    @property
    def n_rarer(self) -> int:
        """Labels of the rarer class."""
        return int(self.sums.at_edge.sum(axis=1).min())

    def require_both_classes(self) -> None:
        """Raise InvalidLabelsError unless there are positives and negatives."""
        none, some = self.sums.at_edge.sum(axis=1).tolist()
        if none and some:
            return
        if not (none or some):
            raise InvalidLabelsError(
                f"No label is observed in the {self.shape[0]} x {self.shape[1]} matrix; at least one entry "
                "must be known."
            )
        kind, other = ("positive", "no") if some else ("negative", "yes")
        raise InvalidLabelsError(
            f"Every one of the {self.n_observed} observed labels is {kind}, so nothing can be learned about "
            f"'{other}'. If absent entries mean no, pass unobserved='negative'."
        )
