"""Yes/no decisions from incomplete labels."""

from labelgap.estimators.low_rank import LowRankClassifier
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.thresholds import best_threshold

__version__ = "0.1.0"

__all__ = [
    "LinearFractional",
    "LowRankClassifier",
    "ObservedLabels",
    "best_threshold",
    "get_metric",
]
