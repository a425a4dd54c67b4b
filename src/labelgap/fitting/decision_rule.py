"""How decisions are made from scores: one threshold or one per label, and bounds that must be kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgap._arrays import is_tensor, to_host
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.exceptions import InfeasibleConstraintError, InvalidLabelsError, InvalidParameterError
from labelgap.fitting.judges import Judge, MetricJudge, SteadyJudge, Verdict, mean_loss
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.metrics import LinearFractional
from labelgap.thresholds.choosing import THRESHOLD_KINDS, ChosenThresholds, choose_thresholds
from labelgap.thresholds.constraints import Constraint, Constraints, read_constraints
from labelgap.thresholds.cross_fit import HeldOutScores
from labelgap.thresholds.one_class import OneClassEffect
from labelgap.thresholds.sweep import best_threshold, steady_threshold


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
            value = self.metric(labels, scores >= chosen.thresholds[labels.indices])
            if not shared and chosen.held_out_value is not None:
                # That of the scores that chose so many thresholds would be too good.
                value = chosen.held_out_value
            several = None if shared else chosen.thresholds
            loss_value = mean_loss(loss, scores, labels)
            return Verdict(value, chosen.shared, loss_value, None, several, chosen.kind)

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
