"""What a choice of penalties ends with: the fit, and what was chosen for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labelgap._types import Floats
from labelgap.fitting.penalty_grid import Variant
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.solvers import Fit, Penalties
from labelgap.solvers.loop import Candidate
from labelgap.thresholds.trivial import Trivial


@dataclass(frozen=True)
class FlipRates:
    """ρ, the fraction of positives that are not recorded, as a positive-unlabelled fit used it."""

    value: float | Floats
    """One number, or one per label, as given or estimated."""
    interval: tuple[float, float] | None
    """The 95 % interval of an estimate; None where ρ was given."""
    by_label: Floats
    """One per label, lowered where the recorded positives rule the value out."""


@dataclass(frozen=True)
class ChosenFit:
    """A fit to all entries, the penalties that were chosen for it, and how they were chosen."""

    fit: Fit
    penalties: Penalties
    threshold: float
    """The threshold for decisions; NaN where none are made."""
    candidates: tuple[Candidate, ...]
    """What was compared on held-out entries, the winner last."""
    held_out_metric: float | None
    """The metric of the winner; None where nothing was held out."""
    held_out_error: float | None = None
    """Its standard error; None where that is not known."""
    flip_rates: FlipRates | None = None
    """Set by a positive-unlabelled fit."""
    trivial: Trivial | None = None
    """What the decisions of such a fit are compared with; None where nothing, or too little, was held out."""
    problem: Problem | None = None
    """The problem that was fitted."""
    labels: ObservedLabels | None = None
    """The labels as that problem weighs them."""
    variant: Variant | None = None
    """The settings of that problem that were chosen; None where there were none to choose."""
    feature_map: Any = None
    """The fitted transformer that makes its features; None where they are X itself."""
    thresholds: Floats | None = None
    """A threshold for each label, where they do not share one."""
    threshold_kind: str = "shared"
