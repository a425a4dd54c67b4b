"""Ψ: what decisions are judged by, over observed and weighted entries."""

from labelgap.metrics.formula import parse_formula
from labelgap.metrics.linear_fractional import Counts, LinearFractional, confusion_counts
from labelgap.metrics.named import get_metric, metric_names
from labelgap.metrics.ranking import ndcg_at_k, precision_at_k, recall_at_k
from labelgap.metrics.scorer import make_scorer
from labelgap.metrics.top_n import RankingFigures, ranking_figures
from labelgap.metrics.unlabelled import trivial_values, unlabelled_counts, unlabelled_metric

__all__ = [
    "Counts",
    "LinearFractional",
    "RankingFigures",
    "confusion_counts",
    "get_metric",
    "make_scorer",
    "metric_names",
    "ndcg_at_k",
    "parse_formula",
    "precision_at_k",
    "ranking_figures",
    "recall_at_k",
    "trivial_values",
    "unlabelled_counts",
    "unlabelled_metric",
]
