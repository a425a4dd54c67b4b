"""What held-out scores are worth: what selection maximises, and the threshold that comes with it."""

from __future__ import annotations

import numpy as np

from labelgap._types import Floats
from labelgap.fitting.cross_validation import Judge, Verdict
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.losses.unlabelled import Unlabelled
from labelgap.metrics import LinearFractional
from labelgap.metrics.jackknife import leave_out_values
from labelgap.thresholds.steady import steady_threshold
from labelgap.thresholds.sweep import best_threshold
from labelgap.thresholds.unlabelled import sweep_unlabelled


def metric_judge(metric: LinearFractional, loss: Loss) -> Judge:
    """The metric over observed entries at its best threshold."""

    def judge(scores: Floats, labels: ObservedLabels) -> Verdict:
        best = best_threshold(scores, labels, metric)
        sureness = leave_out_values(metric, scores >= best.threshold, labels)
        return Verdict(best.value, best.threshold, _mean_loss(loss, scores, labels), sureness)

    return judge


def steady_judge(metric: LinearFractional, loss: Loss) -> Judge:
    """The metric over observed entries at the threshold that is to be used."""

    def judge(scores: Floats, labels: ObservedLabels) -> Verdict:
        threshold = steady_threshold(scores, labels, metric)
        value = metric(scores >= threshold, labels)
        return Verdict(value, threshold, _mean_loss(loss, scores, labels))

    return judge


def unlabelled_judge(
    metric: LinearFractional, loss: Loss, flip_rate: Floats, *, recorded_are_known: bool = False
) -> Judge:
    """The metric corrected for unrecorded positives; labels are recorded (1) and other cells (0).

    ``recorded_are_known`` where decisions are for these very cells and say yes to the recorded ones.
    """

    def judge(scores: Floats, labels: ObservedLabels) -> Verdict:
        recorded = labels.values == 1
        groups, n_groups = (None, 1) if metric.average == "micro" else metric.groups(labels)
        rates = flip_rate[labels.indices]
        best = sweep_unlabelled(
            scores,
            recorded,
            rates,
            metric,
            groups=groups,
            n_groups=n_groups,
            weights=labels.weights,
            recorded_are_known=recorded_are_known,
        )
        unbiased = Unlabelled(loss, rates).value(scores, labels.values)
        return Verdict(best.value, best.threshold, float(np.average(unbiased, weights=labels.weights)))

    return judge


def _mean_loss(loss: Loss, scores: Floats, labels: ObservedLabels) -> float:
    return float(np.average(loss.value(scores, labels.values), weights=labels.weights))
