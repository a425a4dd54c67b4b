"""Whether decisions are clearly better than saying yes, or no, to everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import TrivialDecisionsWarning
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.metrics.jackknife import leave_out_values, metric_error, without_each_part
from labelgap.thresholds.constraints import Constraint
from labelgap.thresholds.cross_fit import HeldOutScores
from labelgap.thresholds.unlabelled import sweep_unlabelled, unlabelled_values


class Trivial(NamedTuple):
    """The better of the two decisions that need no features, beside decisions that use them."""

    word: str
    """What it says to every entry: "yes" or "no"."""
    value: float
    """Its metric."""
    error: float
    """The standard error of what the others gain over it."""
    beside: float
    """The metric of the others."""


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
    >>> trivial = trivial_beside(get_metric("micro-f1"), labels.values == 1, labels)
    >>> trivial.word, round(trivial.value, 3), round(trivial.error, 3), trivial.beside
    ('yes', 0.857, 0.037, 1.0)
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
    return None if error is None else Trivial(word, values[word], error, float(metric(labels, yes)))


def trivial_beside_recorded(
    metric: LinearFractional,
    scores: Floats,
    entries: ObservedLabels,
    flip_rate: Floats,
    *,
    recorded_are_known: bool = False,
) -> Trivial | None:
    """:func:`trivial_beside` for the corrected metric of decisions at a threshold for held-out scores.

    The best threshold of the same entries gains over the trivial ones by chance. So the entries of each part
    of the rows are decided at the best threshold of the others. ``entries`` are recorded positives (1) and
    others (0), ``flip_rate`` is that of each label, and ``recorded_are_known`` says that a recorded entry is
    a yes in any case, of the trivial decisions too.

    Examples
    --------
    >>> from labelgap.metrics import get_metric
    >>> entries = ObservedLabels.from_dense([[1, 0], [0, 0]] * 10)
    >>> rates, scores = np.array([0.5, 0.5]), np.tile([0.9, 0.8, 0.1, 0.1], 10)
    >>> trivial = trivial_beside_recorded(get_metric("micro-f1"), scores, entries, rates)
    >>> trivial.word, round(trivial.value, 3), trivial.beside
    ('yes', 0.667, 1.0)
    """
    recorded, rates = entries.values == 1, flip_rate[entries.indices]
    groups, n_groups = (None, 1) if metric.average == "micro" else metric.groups(entries)

    def of(kept: Any) -> dict[str, Any]:
        return {
            "recorded": recorded[kept],
            "flip_rates": rates[kept],
            "metric": metric,
            "groups": None if groups is None else groups[kept],
            "n_groups": n_groups,
            "weights": None if entries.weights is None else entries.weights[kept],
            "recorded_are_known": recorded_are_known,
        }

    yes = np.zeros(len(scores))
    for kept in without_each_part(entries):
        yes[~kept] = scores[~kept] >= sweep_unlabelled(scores[kept], **of(kept)).threshold
    cuts = (np.inf, -np.inf, 0.5)
    found = unlabelled_values(cuts, yes, **of(slice(None)))
    better = int(np.argmax(found[:2]))
    without = [unlabelled_values(cuts, yes[kept], **of(kept)) for kept in without_each_part(entries)]
    gains = np.array([values[2] - values[better] for values in without])
    error = metric_error(gains)
    if error is None:
        return None
    return Trivial(("no", "yes")[better], float(found[better]), error, float(found[2]))


def warn_of_trivial_decisions(
    metric: LinearFractional,
    cut: float | Floats,
    held_out: HeldOutScores,
    *,
    value: float | None = None,
    bounds: Sequence[Constraint] = (),
    flip_rate: float | Floats | None = None,
    trivial: Trivial | None = None,
    everything: str = "everything",
) -> None:
    """Warn where the decisions at a threshold are not clearly better than saying yes, or no, to everything.

    Clearly better is what gains more than its standard error (jackknife over rows) on the held-out entries
    that chose the threshold; with too few rows for that, nothing is said. After a fit to recorded positives
    alone it is the corrected metric, at thresholds that did not see the row, unless all positives were
    recorded; where its error is not known, an infinite threshold says it.

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
    trivial : Trivial or None
        The trivial decisions by the corrected metric after such a fit, if their error is known.
    everything : str
        What the decisions are about, in words.
    """
    name = metric.name or "the metric"
    if flip_rate is not None:
        said = None
        if trivial is not None:
            value = trivial.beside
            if value - trivial.value <= trivial.error:
                said = f"are not clearly better than saying {trivial.word} to {everything}: " + _figures(
                    name, value, trivial
                )
        elif np.all(np.isinf(cut)):
            said = f"say {'no' if np.all(np.isposinf(cut)) else 'yes'} to {everything}, where {name} is best"
        if said is not None and np.any(flip_rate):
            warn(
                f"The decisions {said} at the flip rate of {np.mean(flip_rate):.2g}, the fraction of "
                "positives that were not recorded. What was given may say too little about the labels: give "
                "other features, or more rows. Or give flip_rate= if you know it better, or choose "
                "another metric.",
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
    value = trivial.beside if value is None else value
    if value - trivial.value > trivial.error:
        return
    word = trivial.word
    warn(
        f"The decisions are not clearly better than saying {word} to everything: "
        f"{_figures(name, value, trivial)}. What was given may say too little about the labels: give other "
        "features, or more rows. Or choose a metric that suits rare labels, or "
        f"frequent ones, better than one under which a {word} everywhere is that good.",
        TrivialDecisionsWarning,
    )


def _figures(name: str, value: float, trivial: Trivial) -> str:
    return (
        f"{name} of the decisions is {value:.4f} on held-out labels, and that of a {trivial.word} to "
        f"everything is {trivial.value:.4f} (the standard error of the difference is {trivial.error:.4f})"
    )
