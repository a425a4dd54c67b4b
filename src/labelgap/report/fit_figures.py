"""How the fit went: its certificate, its path, what was compared, and the singular values."""

from __future__ import annotations

from typing import Any

from labelgap.estimators.inputs import tolerance_of
from labelgap.report.encoding import number


def describe_fit(model: Any) -> dict[str, Any] | None:
    """Figures of a low-rank fit; None for a model without one."""
    if not hasattr(model, "history_") or not hasattr(model, "singular_values_"):
        return None
    return {
        "rank": int(model.rank_),
        "objective": number(model.objective_),
        "gap": number(model.duality_gap_),
        "relative_gap": number(model.relative_gap_),
        "tol": number(tolerance_of(model)),
        "ended": how_it_ended(model),
        "rank_cap": None if model.rank is None else int(model.rank),
        "n_iter": int(model.n_iter_),
        "penalties": {
            "trace": number(model.trace_penalty_),
            "ridge": number(model.ridge_penalty_),
            "intercept": number(model.intercept_penalty_),
        },
        "held_out_metric": _or_none(getattr(model, "held_out_metric_", None)),
        "singular_values": [number(value) for value in model.singular_values_],
        "history": [
            {
                "iteration": int(step.iteration),
                "objective": number(step.objective),
                "gap": number(step.gap),
                "rank": int(step.rank),
                "seconds": number(step.seconds),
            }
            for step in model.history_
        ],
        "candidates": [
            {
                "trace": number(candidate.penalties.trace),
                "ridge": number(candidate.penalties.ridge),
                "intercept": number(candidate.penalties.intercept),
                "metric": number(candidate.metric_value),
                "loss": number(candidate.loss),
                "rank": number(candidate.rank),
                "folds": int(candidate.n_folds),
            }
            for candidate in model.candidates_
        ],
    }


def how_it_ended(model: Any) -> str:
    """Whether the gap is closed: "reached", or why not: "interrupted", "capped" or "short"."""
    if getattr(model, "interrupted_", False):
        return "interrupted"
    if model.relative_gap_ <= tolerance_of(model):
        return "reached"
    return "capped" if model.rank is not None and model.rank_ >= model.rank else "short"


def _or_none(value: float | None) -> float | str | None:
    return None if value is None else number(value)
