"""The mean of each label over its observed entries, and what to take for it where a label has one class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap.labels import ObservedLabels


class LabelRates(NamedTuple):
    """The mean of every label, and which labels are informative: observed, and not all at one edge value."""

    rate: NDArray[np.float64]
    informative: NDArray[np.bool_]


def smoothed_rates(labels: ObservedLabels, edge_values: tuple[float, ...] = (0.0, 1.0)) -> LabelRates:
    """The (weighted) mean of every label, never exactly at an edge; for 0/1 labels the rate of yes.

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
    n_labels = labels.shape[1]
    # Counted, not weighed: sums of weights need not cancel exactly.
    count = labels.label_counts()
    mass: NDArray[np.float64] = count.astype(np.float64)
    heavy: NDArray[Any] = labels.values
    if labels.weights is not None:
        mass = np.asarray(np.bincount(labels.indices, labels.weights, n_labels), dtype=np.float64)
        heavy = labels.weights * labels.values
    total = np.bincount(labels.indices, weights=heavy, minlength=n_labels)
    informative = count > 0
    if labels.weights is None and labels.values.dtype == np.int8 and edge_values == (0.0, 1.0):
        # Labels of 0 and 1 alone: their sum has counted them.
        informative &= (total > 0) & (total < count)
    else:
        for edge in edge_values:
            at_edge = labels.indices[labels.values == edge]
            informative &= np.bincount(at_edge, minlength=n_labels) < count
    prior = 0.5 if edge_values == (0.0, 1.0) else total.sum() / max(mass.sum(), np.finfo(float).tiny)
    overall = (total.sum() + prior) / (mass.sum() + 1.0)
    smoothed = np.where(count > 0, (total + prior) / (mass + 1.0), overall)
    rate = np.where(informative, total / np.where(mass > 0, mass, 1.0), smoothed)
    return LabelRates(rate, informative)
