"""From scores to yes/no: the threshold θ shared by all labels, or one for each."""

from labelgap.thresholds.bayes import bayes_alpha, bayes_threshold
from labelgap.thresholds.choosing import ChosenThresholds, choose_thresholds
from labelgap.thresholds.constraints import Constraint
from labelgap.thresholds.curves import ThresholdCurve, ThresholdResult
from labelgap.thresholds.per_label import LabelThresholds, best_label_thresholds
from labelgap.thresholds.sweep import (
    best_threshold,
    steady_threshold,
    sweep_entries,
)
from labelgap.thresholds.unlabelled import (
    UnlabelledThreshold,
    best_unlabelled_threshold,
    sweep_unlabelled,
    warn_if_everything_wins,
)

__all__ = [
    "ChosenThresholds",
    "Constraint",
    "LabelThresholds",
    "ThresholdCurve",
    "ThresholdResult",
    "UnlabelledThreshold",
    "bayes_alpha",
    "bayes_threshold",
    "best_label_thresholds",
    "best_threshold",
    "best_unlabelled_threshold",
    "choose_thresholds",
    "steady_threshold",
    "sweep_entries",
    "sweep_unlabelled",
    "warn_if_everything_wins",
]
