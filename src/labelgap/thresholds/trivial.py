"""Whether decisions are clearly better than saying yes, or no, to everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import TrivialDecisionsWarning
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.metrics.jackknife import leave_out_values, metric_error
from labelgap.thresholds.constraints import Constraint
from labelgap.thresholds.cross_fit import HeldOutScores


class Trivial(NamedTuple):
    """The better of the two decisions that need no features, beside decisions that use them."""

    word: str
    """What it says to every entry: "yes" or "no"."""
    value: float
    """Its metric."""
    error: float
    """The standard error of what the others gain over it."""


def trivial_beside(
    metric: LinearFractional,
    yes: NDArray[np.bool_],
    labels: ObservedLabels,
    bounds: Sequence[Constraint] = (),
) -> Trivial | None:
    """The better of saying yes and saying no to everything, beside decisions about the same entries.

    None where neither of them keeps the bounds, and with too few rows to know how much of a gain is chance.

    Examples
    --------
    >>> from labelgap.metrics import get_metric
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 1]] * 10)
    >>> word, value, error = trivial_beside(get_metric("micro-f1"), labels.values == 1, labels)
    >>> word, round(value, 3), round(error, 3)
    ('yes', 0.857, 0.037)
    """
    everywhere = {"no": np.zeros_like(yes), "yes": np.ones_like(yes)}
    values = {
        word: float(metric(labels, decisions))
        for word, decisions in everywhere.items()
        if not any(bound.shortfall(bound.metric(labels, decisions)) for bound in bounds)
    }
    if not values:
        return None
    word = max(values, key=lambda one: values[one])
    own, other = (leave_out_values(metric, decisions, labels) for decisions in (yes, everywhere[word]))
    error = None if own is None or other is None else metric_error(own - other)
    return None if error is None else Trivial(word, values[word], error)


def warn_of_trivial_decisions(
    metric: LinearFractional,
    cut: float | Floats,
    held_out: HeldOutScores,
    *,
    value: float | None = None,
    bounds: Sequence[Constraint] = (),
    flip_rate: float | Floats | None = None,
    everything: str = "everything",
) -> None:
    """Warn where the decisions at a threshold are not clearly better than saying yes, or no, to everything.

    Clearly better is what gains more than its standard error (jackknife over rows) on the held-out entries
    that chose the threshold; with too few rows for that, nothing is said. Of recorded positives alone there
    are no such entries, and an infinite threshold says it, unless all positives were recorded.

    Parameters
    ----------
    metric : LinearFractional
    cut : float, or array with the threshold of each label
    held_out : HeldOutScores
    value : float or None
        The held-out metric of the decisions; None: that of these scores, if there are any.
    bounds : sequence of Constraint
        Bounds that decisions must keep, the trivial ones too.
    flip_rate : float, array with the rate of each label, or None
        The fraction of unrecorded positives, after a fit to recorded positives alone.
    everything : str
        What the decisions are about, in words.
    """
    name = metric.name or "the metric"
    if flip_rate is not None:
        if np.any(flip_rate) and np.all(np.isinf(cut)):
            word = "no" if np.all(np.isposinf(cut)) else "yes"
            warn(
                f"The decisions say {word} to {everything}, where {name} is best at the flip rate of "
                f"{np.mean(flip_rate):.2g}, the fraction of positives that were not recorded. Give "
                "flip_rate= if you know it better, or choose another metric.",
                TrivialDecisionsWarning,
            )
        return
    scores, labels = held_out.scores, held_out.labels
    if scores is None or labels is None or labels.n_observed == 0:
        return
    yes = scores >= (cut if isinstance(cut, float) else cut[labels.indices])
    trivial = trivial_beside(metric, yes, labels, bounds)
    if trivial is None:
        return
    value = float(metric(labels, yes)) if value is None else value
    if value - trivial.value > trivial.error:
        return
    word = trivial.word
    warn(
        f"The decisions are not clearly better than saying {word} to everything: {name} of the decisions is "
        f"{value:.4f} on held-out labels, and that of a {word} to everything is {trivial.value:.4f} (the "
        f"standard error of the difference is {trivial.error:.4f}). What was given may say too little about "
        "the labels: give other features, or more rows. Or choose a metric that suits rare labels, or "
        f"frequent ones, better than one under which a {word} everywhere is that good.",
        TrivialDecisionsWarning,
    )
