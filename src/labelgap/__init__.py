"""Yes/no decisions from incomplete labels."""

from labelgap._version import __version__ as __version__
from labelgap.estimators.low_rank import LowRankClassifier
from labelgap.estimators.metric_threshold import MetricThreshold
from labelgap.estimators.plug_in import PlugInClassifier
from labelgap.estimators.recommender import Recommender
from labelgap.estimators.regressor import LowRankRegressor
from labelgap.flip_rates.sensitivity import estimate_flip_rate, sensitivity
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.persistence import load
from labelgap.thresholds import best_threshold

__all__ = [
    "LinearFractional",
    "LowRankClassifier",
    "LowRankRegressor",
    "MetricThreshold",
    "ObservedLabels",
    "PlugInClassifier",
    "Recommender",
    "best_threshold",
    "estimate_flip_rate",
    "get_metric",
    "load",
    "sensitivity",
]
