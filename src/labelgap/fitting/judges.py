"""What held-out scores are worth, and how decisions are made from scores.

Judges take the metric at its best threshold, the loss, or the deviance. A rule says how many thresholds there
are, and which bounds they must keep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from labelgap._arrays import is_tensor, to_host
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.exceptions import InfeasibleConstraintError, InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.losses import Family, Loss
from labelgap.losses.unlabelled import Unlabelled
from labelgap.metrics import LinearFractional
from labelgap.metrics.jackknife import LeaveOutCells, leave_out_means, leave_out_values
from labelgap.thresholds.choosing import THRESHOLD_KINDS, ChosenThresholds, choose_thresholds
from labelgap.thresholds.constraints import Constraint, Constraints, read_constraints
from labelgap.thresholds.cross_fit import HeldOutScores, OneClassEffect
from labelgap.thresholds.sweep import best_threshold, steady_threshold
from labelgap.thresholds.unlabelled import sweep_unlabelled

# Digits of the held-out deviance, as a fraction of the null model's, that decide between penalties.
_FRACTION_DIGITS = 4


class Verdict(NamedTuple):
    """What held-out scores are worth."""

    value: float
    """The metric at its best threshold, or whatever else is to be large."""
    threshold: float
    loss: float
    """Mean loss."""
    leave_out: Floats | None = None
    """The value with one part of the rows left out at a time, which shows its precision; None: unknown."""
    thresholds: Floats | None = None
    """A threshold for each label, where they do not share one."""
    kind: str = "shared"
    """What the thresholds are, as in ``labelgap.thresholds.ChosenThresholds``."""


Judge: TypeAlias = Callable[[Floats, ObservedLabels], Verdict]
"""From held-out scores and their labels to what they are worth."""


class MetricJudge:
    """The metric over observed entries at its best threshold.

    Scores may be a tensor. Then they are judged on their device, with the same value, threshold and leave-out
    values as on the CPU, and the same mean loss to rounding. What is needed of the labels is kept for the
    next scores of the same entries.
    """

    takes_tensors = True

    def __init__(self, metric: LinearFractional, loss: Loss) -> None:
        self._metric, self._loss = metric, loss
        self._known: tuple[ObservedLabels, LeaveOutCells, Any] | None = None

    def __call__(self, scores: Any, labels: ObservedLabels) -> Verdict:
        cells, there = self._prepared(scores, labels)
        if there is not None:
            return Verdict(*there.judge(scores))
        scores = to_host(scores)
        best = best_threshold(scores, labels, self._metric)
        leave_out = None
        if cells.n_parts >= 2:
            yes = scores >= best.threshold
            leave_out = cells.values(np.bincount(cells.of_no + yes, labels.weights, minlength=cells.size))
        return Verdict(best.value, best.threshold, mean_loss(self._loss, scores, labels), leave_out)

    def _prepared(self, scores: Any, labels: ObservedLabels) -> tuple[LeaveOutCells, Any]:
        if self._known is None or self._known[0] is not labels:
            cells, there = LeaveOutCells(self._metric, labels), None
            if is_tensor(scores):
                from labelgap.fitting.device_judge import DeviceJudge

                there = DeviceJudge.of(self._metric, self._loss, labels, cells, scores.device)
            self._known = labels, cells, there
        return self._known[1], self._known[2] if is_tensor(scores) else None


class SteadyJudge:
    """The metric over observed entries at the threshold that is to be used.

    Scores may be a tensor, as for :class:`MetricJudge`. ``effect`` sees the scores, and ``held_out`` keeps
    them.
    """

    takes_tensors = True

    def __init__(
        self,
        metric: LinearFractional,
        loss: Loss,
        effect: OneClassEffect | None = None,
        held_out: HeldOutScores | None = None,
    ) -> None:
        self._metric, self._loss = metric, loss
        self._watching = [watching for watching in (effect, held_out) if watching is not None]

    def __call__(self, scores: Any, labels: ObservedLabels) -> Verdict:
        threshold = steady_threshold(scores, labels, self._metric)
        for watching in self._watching:
            watching.see(scores, labels, threshold)
        there = self._there(scores, labels)
        if there is not None:
            value, loss, leave_out = there.judge_at(scores, threshold)
            return Verdict(value, threshold, loss, leave_out)
        scores = to_host(scores)
        yes = scores >= threshold
        leave_out = leave_out_values(self._metric, yes, labels)
        return Verdict(self._metric(labels, yes), threshold, mean_loss(self._loss, scores, labels), leave_out)

    def _there(self, scores: Any, labels: ObservedLabels) -> Any:
        """What judges the scores on their device; None where the CPU does."""
        if not is_tensor(scores):
            return None
        from labelgap.fitting.device_judge import DeviceJudge

        cells = LeaveOutCells(self._metric, labels)
        return DeviceJudge.of(self._metric, self._loss, labels, cells, scores.device)


def unlabelled_judge(
    metric: LinearFractional, loss: Loss, flip_rate: Floats, *, recorded_are_known: bool = False
) -> Judge:
    """The metric corrected for unrecorded positives; labels are recorded (1) and other entries (0).

    ``recorded_are_known`` where decisions are made for these same entries and are yes at the recorded ones.
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


def deviance_judge(family: Family, null: float) -> Judge:
    """The held-out deviance as a fraction of the null model's, which means the same for values of any size.

    It is rounded, so that gains of next to nothing do not lead the search to ever smaller λ, whose fits take
    ever longer.
    """

    def judge(scores: Floats, labels: ObservedLabels) -> Verdict:
        losses = np.asarray(family.value(scores, labels.values), dtype=np.float64)
        unit = null if null > 0 else 1.0
        mean = float(np.average(losses, weights=labels.weights))
        fraction = round(mean / unit, _FRACTION_DIGITS)
        left_out = leave_out_means(losses, labels)
        return Verdict(1.0 - fraction, np.nan, fraction, None if left_out is None else 1.0 - left_out / unit)

    return judge


def mean_loss(loss: Loss, scores: Floats, labels: ObservedLabels) -> float:
    """The (weighted) mean loss over the entries."""
    return float(np.average(loss.value(scores, labels.values), weights=labels.weights))


# -- the rule that decides ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DecisionRule:
    """The metric that thresholds are chosen for, how many there are, and the bounds that they keep."""

    metric: LinearFractional
    kind: str = "shared"
    bounds: tuple[Constraint, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is one threshold without bounds."""
        return self.kind == "shared" and not self.bounds

    def choose(self, scores: Any, labels: ObservedLabels, *, steady: bool = False) -> ChosenThresholds:
        """The thresholds for these scores; ``steady`` takes the mean over parts of the rows as shared one.

        Bounds are kept exactly, so that with bounds there is no mean. Where some entries judge, the others
        are not looked at. A shared threshold without bounds is found where the scores are, if they are a
        tensor.
        """
        if labels.judging is not None:
            scores, labels = to_host(scores)[labels.judging], labels.judged()

        def shared(some_scores: Any, some: ObservedLabels) -> float:
            if steady and not self.bounds:
                return steady_threshold(some_scores, some, self.metric)
            return best_threshold(some_scores, some, self.metric, subject_to=self.bounds).threshold

        if self.is_plain and is_tensor(scores):
            common = shared(scores, labels)
            return ChosenThresholds(common, np.full(labels.shape[1], common), "shared")
        return choose_thresholds(scores, labels, self.metric, self.kind, shared=shared)

    # -- judges ----------------------------------------------------------------------------------------

    def search_judge(self, loss: Loss) -> Judge:
        """Judges penalties: the metric at the best shared threshold within the bounds.

        Scores with which the bounds cannot be kept are worse than all others, by how far they miss them.
        """
        if not self.bounds:
            return _OfJudgingEntries(MetricJudge(self.metric, loss))

        def judge(scores: Floats, labels: ObservedLabels) -> Verdict:
            try:
                best = best_threshold(scores, labels, self.metric, subject_to=self.bounds)
            except InfeasibleConstraintError as error:
                return Verdict(-1.0 - error.shortfall, error.threshold, mean_loss(loss, scores, labels))
            return Verdict(best.value, best.threshold, mean_loss(loss, scores, labels))

        return _OfJudgingEntries(judge)

    def last_judge(
        self, loss: Loss, effect: OneClassEffect | None = None, held_out: HeldOutScores | None = None
    ) -> Judge:
        """Judges the best penalties at the thresholds that are to be used.

        ``effect`` sees the scores, and ``held_out`` keeps them.
        """
        if self.is_plain:
            return _OfJudgingEntries(SteadyJudge(self.metric, loss, effect, held_out))

        def judge(scores: Floats, labels: ObservedLabels) -> Verdict:
            chosen = self.choose(scores, labels, steady=True)
            if effect is not None:
                effect.see(scores, labels)
            if held_out is not None:
                held_out.see(scores, labels)
            shared = chosen.kind == "shared"
            yes = scores >= chosen.thresholds[labels.indices]
            value, leave_out = self.metric(labels, yes), leave_out_values(self.metric, yes, labels)
            if not shared and chosen.held_out_value is not None:
                # That of the scores that chose so many thresholds would be too good.
                value, leave_out = chosen.held_out_value, chosen.leave_out
            several = None if shared else chosen.thresholds
            loss_value = mean_loss(loss, scores, labels)
            return Verdict(value, chosen.shared, loss_value, leave_out, several, chosen.kind)

        return _OfJudgingEntries(judge)


class _OfJudgingEntries:
    """A judge that sees the entries that judge alone."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.takes_tensors: bool = getattr(judge, "takes_tensors", False)

    def __call__(self, scores: Any, labels: ObservedLabels) -> Verdict:
        if labels.judging is None:
            return self._judge(scores, labels)
        judged = labels.judged()
        if len(np.unique(judged.values)) < 2:
            raise InvalidLabelsError(
                f"Of the {labels.n_observed} labels that are held out, the {judged.n_observed} in judged do "
                "not have both values. Let more labels judge, or use threshold='cross-fit', which holds out "
                "all of them."
            )
        return self._judge(to_host(scores)[labels.judging], judged)


def decision_rule(
    metric: LinearFractional, thresholds: Any, subject_to: Constraints, unobserved: str = "missing"
) -> DecisionRule:
    """The rule that an estimator's ``thresholds`` and ``subject_to`` ask for, or an error.

    Examples
    --------
    >>> from labelgap.metrics import get_metric
    >>> decision_rule(get_metric("micro-f1"), "auto", "recall >= 0.9").kind
    'shared'
    """
    check_choice("thresholds", thresholds, THRESHOLD_KINDS)
    bounds = () if subject_to is None else read_constraints(subject_to)
    several = thresholds in ("per-label", "shrunk")
    if bounds and several:
        raise InvalidParameterError(
            f"subject_to bounds metrics over all labels, which the one shared threshold keeps exactly; with "
            f"thresholds={thresholds!r} it cannot. Leave thresholds at 'shared', or subject_to out."
        )
    if unobserved == "unlabelled" and (bounds or several):
        what = "subject_to" if bounds else f"thresholds={thresholds!r}"
        raise InvalidParameterError(
            f"{what} needs known negatives, and under unobserved='unlabelled' only positives are recorded. "
            "Leave it out."
        )
    kind = "shared" if bounds or unobserved == "unlabelled" else thresholds
    return DecisionRule(metric, kind, bounds)
