"""How often each label is a yes among its observed entries, and what to say of labels that cannot tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap.labels import ObservedLabels


class LabelRates(NamedTuple):
    """The rate of yes of every label, and which labels have both classes observed."""

    rate: NDArray[np.float64]
    both_classes: NDArray[np.bool_]


def smoothed_rates(labels: ObservedLabels) -> LabelRates:
    """The (weighted) share of yes of every label, never exactly 0 or 1.

    With both classes observed it is ``positives / observed``. With one class only it is
    ``(positives + ½) / (observed + 1)``, and without any observation the same over all labels together,
    ``(Σ positives + ½) / (Σ observed + 1)``. Positives and observed are sums of weights.

    Parameters
    ----------
    labels : ObservedLabels
        0/1 labels.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 1, None], [0, 1, None]])
    >>> smoothed_rates(labels).rate.round(3).tolist()
    [0.5, 0.833, 0.7]
    """
    n_labels = labels.shape[1]
    weights = np.ones(labels.n_observed) if labels.weights is None else labels.weights
    mass = np.bincount(labels.indices, weights=weights, minlength=n_labels)
    positive = np.bincount(labels.indices, weights=weights * labels.values, minlength=n_labels)
    # Counted, not weighed: sums of weights need not cancel exactly.
    count, ones = labels.label_counts(), labels.positive_counts()
    both_classes = (ones > 0) & (ones < count)
    overall = (positive.sum() + 0.5) / (mass.sum() + 1.0)
    smoothed = np.where(count > 0, (positive + 0.5) / (mass + 1.0), overall)
    rate = np.where(both_classes, positive / np.where(mass > 0, mass, 1.0), smoothed)
    return LabelRates(rate, both_classes)
