"""How often each label is a yes among its observed entries, and what to say of one-class labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import sums_by_number
from labelgap.labels.observed import ObservedLabels


class LabelRates(NamedTuple):
    """The mean value of every label, and which labels have values that tell where it lies."""

    rate: NDArray[np.float64]
    informative: NDArray[np.bool_]


@dataclass(frozen=True)
class LabelSums:
    """Sums over each label's entries; the sums of two sets of rows add up to those of both.

    ``edge_values`` are the values that no model with a finite score predicts for certain.
    """

    edge_values: tuple[float, ...]
    count: NDArray[np.int64]
    weight: NDArray[np.float64]
    """Sum of the weights: the count, where there are none."""
    value: NDArray[np.float64]
    """Weighted sum of the values."""
    at_edge: NDArray[np.int64]
    """How many values equal each edge value (edges x labels)."""

    @classmethod
    def of(cls, labels: ObservedLabels, edge_values: tuple[float, ...] = (0.0, 1.0)) -> Self:
        n_labels = labels.shape[1]
        # Counted, not weighed: sums of weights need not cancel exactly.
        count = labels.label_counts()
        weight: NDArray[np.float64] = count.astype(np.float64)
        weights, values = labels.weights, labels.values
        if weights is None:
            value = sums_by_number(labels.indices, n_labels, lambda some: values[some])
        else:
            weight = sums_by_number(labels.indices, n_labels, lambda some: weights[some])
            value = sums_by_number(labels.indices, n_labels, lambda some: weights[some] * values[some])
        if labels.weights is None and labels.values.dtype == np.int8 and edge_values == (0.0, 1.0):
            # Labels of 0 and 1 alone: their sum has counted them.
            ones = value.astype(np.int64)
            at_edge = np.stack([count - ones, ones])
        else:
            counts = [
                np.bincount(labels.indices[labels.values == e], minlength=n_labels) for e in edge_values
            ]
            at_edge = np.array(counts, dtype=np.int64).reshape(len(edge_values), n_labels)
        return cls(edge_values, count, weight, value, at_edge)

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.edge_values,
            self.count + other.count,
            self.weight + other.weight,
            self.value + other.value,
            self.at_edge + other.at_edge,
        )

    def rates(self) -> LabelRates:
        """The mean of every label, smoothed where it would lie on an edge; see :func:`smoothed_rates`."""
        informative = (self.count > 0) & np.all(self.at_edge < self.count, axis=0)
        weight, value = self.weight.sum(), self.value.sum()
        prior = 0.5 if self.edge_values == (0.0, 1.0) else value / max(weight, np.finfo(float).tiny)
        overall = (value + prior) / (weight + 1.0)
        smoothed = np.where(self.count > 0, (self.value + prior) / (self.weight + 1.0), overall)
        mean = self.value / np.where(self.weight > 0, self.weight, 1.0)
        return LabelRates(np.where(informative, mean, smoothed), informative)


def smoothed_rates(labels: ObservedLabels, edge_values: tuple[float, ...] = (0.0, 1.0)) -> LabelRates:
    """The (weighted) mean value of every label, never exactly at an edge; for 0/1 labels the rate of yes.

    It is ``Σ y / observed`` unless all values of the label equal one of the edge values. Then it is
    ``(Σ y + m) / (observed + 1)``, and without any observation the same over all labels together, with m = ½
    for 0/1 labels and the overall mean for other values. Sums are weighted.

    Parameters
    ----------
    labels : ObservedLabels
    edge_values : tuple of floats, default (0, 1)
        The values that no model with a finite score predicts for certain.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 1, None], [0, 1, None]])
    >>> smoothed_rates(labels).rate.round(3).tolist()
    [0.5, 0.833, 0.7]
    """
    return LabelSums.of(labels, edge_values).rates()
