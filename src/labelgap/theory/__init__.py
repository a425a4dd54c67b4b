"""The paper's theory: constants, bounds, penalties by theory, and regret against a known truth."""

from labelgap.theory.assumptions import Assumption, AssumptionWarning
from labelgap.theory.bound import Bound
from labelgap.theory.chain import (
    MetricRegretBound,
    loss_regret_bound,
    metric_regret_bound,
    threshold_constant,
)
from labelgap.theory.collaborative import collaborative_bound
from labelgap.theory.constants import CurvatureRange, LossConstants, curvature_range, loss_constants
from labelgap.theory.from_positives import unlabelled_bound
from labelgap.theory.penalties import (
    collaborative_trace_penalty,
    feature_trace_penalty,
    noise_trace_penalty,
    unlabelled_trace_penalty,
)
from labelgap.theory.regret import Regret, best_probability_threshold, model_regret, regret
from labelgap.theory.weighted_risk import WeightedRisk, weighted_risk
from labelgap.theory.with_features import feature_bound, parameter_bound, score_penalty_bound

__all__ = [
    "Assumption",
    "AssumptionWarning",
    "Bound",
    "CurvatureRange",
    "LossConstants",
    "MetricRegretBound",
    "Regret",
    "WeightedRisk",
    "best_probability_threshold",
    "collaborative_bound",
    "collaborative_trace_penalty",
    "curvature_range",
    "feature_bound",
    "feature_trace_penalty",
    "loss_constants",
    "loss_regret_bound",
    "metric_regret_bound",
    "model_regret",
    "noise_trace_penalty",
    "parameter_bound",
    "regret",
    "score_penalty_bound",
    "threshold_constant",
    "unlabelled_bound",
    "unlabelled_trace_penalty",
    "weighted_risk",
]
