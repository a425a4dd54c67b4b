"""Decisions from probabilities that maximise an expected metric, with or without a budget of yes."""

from labelgap.decisions.budget import Budget, read_budget
from labelgap.decisions.deciding import best_decisions, decide_within

__all__ = ["Budget", "best_decisions", "decide_within", "read_budget"]
