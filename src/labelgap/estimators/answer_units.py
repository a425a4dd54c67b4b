"""The units that a fit works in: answers of any size become answers of about size 1.

Solvers take steps in units of the score. Half the squared error does not say what a unit is, so real answers
are shifted by their mean and divided by their spread s, a power of two, which makes the way there and back
exact: ``y = s y' + m`` gives ``W = s W'``, ``b = s b' + m``, λ = s λ', λ₂ = λ₂', κ = κ', and an objective s²
times as large. Other families have a scale of their own; there only the offsets are shifted, so that they are
about 0 on average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from labelgap._types import Floats
from labelgap.estimators.regression_answers import common_score, without_real_offsets
from labelgap.labels import ObservedLabels
from labelgap.losses import Family, Gaussian
from labelgap.objective.protocol import Factors
from labelgap.persistence.registry import savable_record
from labelgap.solvers import Fit, Penalties, Progress
from labelgap.solvers.listener import Candidate

# Answers that differ from their mean by no more than this share are equal, but for rounding.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


@savable_record("units")
@dataclass(frozen=True)
class Units:
    """``z = scale · z' + shift`` for the scores without offsets; the answers and offsets follow."""

    shift: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, labels: ObservedLabels, family: Family, *, shifted: bool) -> tuple[Self, ObservedLabels]:
        """Units for these answers, and the answers in them; ``shifted`` if an intercept takes the shift."""
        if isinstance(family, Gaussian):
            return cls._of_real(without_real_offsets(labels, family), shifted)
        if labels.offsets is None or not shifted:
            return cls(), labels
        mean = np.average(labels.values, weights=labels.weights)
        shift = common_score(labels, family) - float(family.link(mean))
        return cls(shift), labels.with_offsets(labels.offsets + shift)

    @classmethod
    def _of_real(cls, labels: ObservedLabels, shifted: bool) -> tuple[Self, ObservedLabels]:
        values = labels.values
        shift = float(np.average(values, weights=labels.weights)) if shifted else 0.0
        moved: Floats = values - shift
        moved = np.where(np.abs(moved) <= _ROUNDING * np.abs(values).max(), 0.0, moved)
        largest = float(np.abs(moved).max())
        if largest == 0:
            return cls(shift), replace(labels, values=moved)
        # Divided first: squares of small answers vanish.
        spread = largest * float(np.sqrt(np.average((moved / largest) ** 2, weights=labels.weights)))
        scale = 2.0 ** round(np.log2(spread))
        return cls(shift, scale), replace(labels, values=moved / scale)

    def factors(self, factors: Factors) -> Factors:
        """The model in the user's units."""
        root = np.sqrt(self.scale)
        intercept = self.scale * factors.intercept + self.shift
        return Factors(root * factors.left, root * factors.right, intercept)

    def penalties(self, penalties: Penalties) -> Penalties:
        centre = self.scale * penalties.centre + self.shift
        return replace(penalties, trace=self.scale * penalties.trace, centre=centre)

    def candidate(self, candidate: Candidate) -> Candidate:
        return replace(candidate, penalties=self.penalties(candidate.penalties))

    def progress(self, progress: Progress) -> Progress:
        return replace(progress, objective=self.scale**2 * progress.objective)

    def fit(self, fit: Fit) -> Fit:
        return replace(
            fit,
            factors=self.factors(fit.factors),
            singular_values=self.scale * fit.singular_values,
            objective=self.scale**2 * fit.objective,
            gap=self.scale**2 * fit.gap,
            history=tuple(self.progress(progress) for progress in fit.history),
        )
