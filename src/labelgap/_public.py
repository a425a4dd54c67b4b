"""In which module each public name is defined."""

from __future__ import annotations

ESTIMATORS = {
    "LowRankClassifier": "labelgap.estimators.low_rank",
    "LowRankRegressor": "labelgap.estimators.regressor",
    "MetricThreshold": "labelgap.estimators.metric_threshold",
    "PlugInClassifier": "labelgap.estimators.plug_in",
    "Recommender": "labelgap.estimators.recommender",
}
"""The estimators, which are what model files hold."""

HOMES = {
    **ESTIMATORS,
    "Budget": "labelgap.decisions",
    "LinearFractional": "labelgap.metrics",
    "ObservedLabels": "labelgap.labels",
    "StratifiedEntrySplit": "labelgap.labels.stratified",
    "StratifiedRowSplit": "labelgap.labels.stratified",
    "best_threshold": "labelgap.thresholds",
    "estimate_flip_rate": "labelgap.flip_rates.sensitivity",
    "find_label_errors": "labelgap.flip_rates.label_errors",
    "get_metric": "labelgap.metrics",
    "load": "labelgap.persistence",
    "save": "labelgap.persistence",
    "sensitivity": "labelgap.flip_rates.sensitivity",
    "split_ratings": "labelgap.recommending.splitting",
}
"""Every public name of the package."""
