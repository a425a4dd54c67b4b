"""What labels with one class among their observed entries do to a metric and to its threshold.

Such a label is decided alike for every row. It still counts in the metric: a label that is always a yes is an
easy gain for micro-F1, and one that is always a no is a 0/0 in macro-F1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import to_host
from labelgap._warn import warn
from labelgap.exceptions import UninformativeLabelsWarning
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.thresholds.sweep import best_threshold

# A smaller difference than this hides nothing.
_NOTICED = 0.005
# With fewer known entries than this, one class is chance.
_FEWEST = 10
_NAMED = 5


class Figure(NamedTuple):
    """A metric and the threshold at which it is taken."""

    value: float
    threshold: float


def one_class_labels(labels: ObservedLabels, fewest: int = _FEWEST) -> NDArray[np.bool_]:
    """For each label whether all of its observed entries, ``fewest`` or more, are yes, or all of them no.

    Examples
    --------
    >>> one_class_labels(ObservedLabels.from_dense([[1, 0, None], [1, 1, None]]), fewest=1)
    array([ True, False, False])
    """
    counts, positives = labels.label_counts(), labels.positive_counts()
    return np.asarray((counts >= fewest) & ((positives == 0) | (positives == counts)))


def without_labels(labels: ObservedLabels, left_out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A mask over the entries: those of the other labels."""
    return np.asarray(~left_out[labels.indices])


class OneClassEffect:
    """Watches the scores that choose a threshold, and says what one-class labels do to the figure.

    Parameters
    ----------
    labels : ObservedLabels
        All labels of the fit, which say which of them have one class.
    metric : LinearFractional
    choose : function from scores and labels to a threshold, default None
        As the threshold of the fit is chosen; None is the best one.

    Examples
    --------
    >>> from labelgap.metrics import get_metric
    >>> labels = ObservedLabels.from_dense([[1, 1], [1, 0]] * 5)
    >>> effect = OneClassEffect(labels, get_metric("micro-f1"))
    >>> effect.see(np.array([0.9, 0.4, 0.9, 0.6] * 5), labels)
    >>> round(effect.whole.value, 3), round(effect.rest.value, 3)
    (0.857, 0.667)
    """

    def __init__(
        self,
        labels: ObservedLabels,
        metric: LinearFractional,
        choose: Callable[[Any, ObservedLabels], float] | None = None,
    ) -> None:
        self._labels, self._metric = labels, metric
        self._choose = choose or (lambda scores, some: best_threshold(scores, some, metric).threshold)
        self._one_class = one_class_labels(labels)
        self.whole: Figure | None = None
        """The metric over all labels."""
        self.rest: Figure | None = None
        """The metric over the labels with both classes."""

    def see(self, scores: Any, labels: ObservedLabels) -> None:
        """Compare the figure of these entries with that of the labels with both classes."""
        if not self._one_class.any():
            return
        kept = without_labels(labels, self._one_class)
        if kept.all() or not kept.any():
            return
        scores = to_host(scores)
        self.whole = self._figure(scores, labels)
        self.rest = self._figure(scores[kept], labels.select(kept))

    def _figure(self, scores: Any, labels: ObservedLabels) -> Figure:
        threshold = self._choose(scores, labels)
        return Figure(self._metric(labels, scores >= threshold), threshold)

    def warn(self) -> None:
        """Warn, if they make a difference, with their names and both figures."""
        if self.whole is None or self.rest is None:
            return
        if abs(self.whole.value - self.rest.value) < _NOTICED:
            return
        name = self._metric.name or "the metric"
        warn(
            f"{describe_one_class(self._labels, self._one_class)} Such labels are decided alike for every "
            f"row, and they count: {name} on the scores that chose the threshold is "
            f"{self.whole.value:.4f} with them and {self.rest.value:.4f} without; the threshold on the "
            f"scores is {self.whole.threshold:.4g} and would be {self.rest.threshold:.4g}. Leave them out, "
            "or read the figure with them in mind.",
            UninformativeLabelsWarning,
        )


def describe_one_class(labels: ObservedLabels, one_class: NDArray[np.bool_]) -> str:
    """A sentence that names the one-class labels.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 1]], label_names=["paid", "late"])
    >>> describe_one_class(labels, one_class_labels(labels, fewest=1))
    "1 of 2 labels has one class: 'paid' (only yes)."
    """
    positives = labels.positive_counts()
    which = np.flatnonzero(one_class)
    listed = ", ".join(
        f"{label if labels.label_names is None else repr(labels.label_names[label])} "
        f"(only {'yes' if positives[label] else 'no'})"
        for label in which[:_NAMED].tolist()
    )
    more = f" and {len(which) - _NAMED} more" if len(which) > _NAMED else ""
    verb = "has" if len(which) == 1 else "have"
    return f"{len(which)} of {labels.shape[1]} labels {verb} one class: {listed}{more}."
