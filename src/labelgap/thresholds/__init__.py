"""From scores to yes/no: the one threshold θ shared by all labels."""

from labelgap.thresholds.bayes import bayes_alpha, bayes_threshold
from labelgap.thresholds.sweep import ThresholdCurve, ThresholdResult, best_threshold, sweep_entries

__all__ = [
    "ThresholdCurve",
    "ThresholdResult",
    "bayes_alpha",
    "bayes_threshold",
    "best_threshold",
    "sweep_entries",
]
