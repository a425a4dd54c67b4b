"""From scores to yes/no: the one threshold θ shared by all labels."""

from labelgap.thresholds.bayes import bayes_alpha, bayes_threshold
from labelgap.thresholds.per_label import LabelThresholds, best_label_thresholds
from labelgap.thresholds.sweep import (
    ThresholdCurve,
    ThresholdResult,
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
    "LabelThresholds",
    "ThresholdCurve",
    "ThresholdResult",
    "UnlabelledThreshold",
    "bayes_alpha",
    "bayes_threshold",
    "best_label_thresholds",
    "best_threshold",
    "best_unlabelled_threshold",
    "steady_threshold",
    "sweep_entries",
    "sweep_unlabelled",
    "warn_if_everything_wins",
]
