"""How the fit went: its certificate, its path, what was compared, and the singular values."""

from __future__ import annotations

from typing import Any

from labelgap.estimators.description import (
    describe,
    fitted_meaning,
    metric_name,
    penalties_in_words,
    what_it_answers,
)
from labelgap.estimators.inputs import rank_limit_of, tolerance_of
from labelgap.report.encoding import number


def describe_fit(model: Any) -> dict[str, Any] | None:
    """Figures of a low-rank fit; None for a model without one."""
    if not hasattr(model, "history_") or not hasattr(model, "singular_values_"):
        return None
    # What the command line prints about the model, too.
    facts = describe(model)
    return {
        "rank": facts["rank"],
        "objective": number(facts["objective"]),
        "gap": number(facts["duality_gap"]),
        "relative_gap": number(facts["relative_gap"]),
        "tol": number(facts["tol"]),
        "ended": how_it_ended(model),
        "rank_cap": rank_limit_of(model),
        "n_iter": int(model.n_iter_),
        "penalties": {name: number(value) for name, value in facts["penalties"].items()},
        "penalties_in_words": penalties_in_words(facts),
        "held_out": facts["held_out"]
        | {"value": _or_none(facts["held_out"]["value"]), "answers": what_it_answers(facts)},
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
                "count_weighting": _or_none(candidate.count_weighting),
                "lists": None if candidate.lists is None else str(candidate.lists),
            }
            for candidate in model.candidates_
        ],
        "criterion": describe_criterion(model),
    }


def describe_criterion(model: Any) -> dict[str, str]:
    """What the two figures of a candidate are: the metric that it is judged by, and its loss.

    Those of a recommender that is fitted for lists are judged by their lists.
    """
    if (of_lists := getattr(model, "candidates_metric", None)) is not None:
        return {"metric": of_lists, "loss": "1 − mean of 1/log₂(1 + rank) of held-out likes"}
    if hasattr(model, "family_"):
        return {"metric": "D² (fraction explained)", "loss": "deviance, as a fraction of a constant’s"}
    name = metric_name(model.metric_)
    corrected = fitted_meaning(model) == "unlabelled"
    return {"metric": f"corrected {name}" if corrected else name, "loss": "loss"}


def how_it_ended(model: Any) -> str:
    """Whether the gap is closed: "reached", or why not: "interrupted", "capped" or "short"."""
    if getattr(model, "interrupted_", False):
        return "interrupted"
    if model.relative_gap_ <= tolerance_of(model):
        return "reached"
    return "capped" if model.rank_limited_ else "short"


def _or_none(value: float | None) -> float | str | None:
    return None if value is None else number(value)
