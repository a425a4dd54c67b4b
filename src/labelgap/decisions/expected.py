"""Expected counts and metrics of groups, from sums over the entries that are decided yes.

With S the sum of the probabilities of the chosen entries of a group, m their number, P the sum of all its
probabilities and M the number of its entries, the expected counts are TP = S, FP = m − S, FN = P − S and
TN = M − P − m + S, and the expected metric is taken to be Ψ of the expected counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.exceptions import InvalidMetricError
from labelgap.metrics import LinearFractional
from labelgap.metrics.linear_fractional import Counts, balanced_counts


@dataclass(frozen=True)
class Totals:
    """P and M of each group."""

    positives: Floats
    entries: Floats

    def counts(self, chosen: Any, number: Any) -> Counts:
        """The expected counts where the chosen entries have the sum S and the number m."""
        S, m, P, M = np.broadcast_arrays(chosen, number, self.positives, self.entries)
        # Sums of probabilities in another order differ by rounding.
        parts = (S, m - S, P - S, M - P - m + S)
        return Counts(*(np.maximum(part, 0.0).astype(np.float64) for part in parts))

    def values(self, metric: LinearFractional, chosen: Any, number: Any) -> Floats:
        """Ψ of the expected counts of each group."""
        counts = self.counts(chosen, number)
        return metric.group_values(*(balanced_counts(counts) if metric.balanced else counts))

    def class_factors(self, metric: LinearFractional) -> tuple[Floats, Floats]:
        """What balancing multiplies the positives and the negatives of each group by, whatever is decided."""
        ones = np.ones_like(self.positives)
        if not metric.balanced:
            return ones, ones
        balanced = balanced_counts(Counts(self.positives, 0 * ones, 0 * ones, self.entries - self.positives))
        with np.errstate(invalid="ignore", divide="ignore"):
            up = np.where(self.positives > 0, balanced.tp / self.positives, 1.0)
            rest = self.entries - self.positives
            down = np.where(rest > 0, balanced.tn / rest, 1.0)
        return up, down


def gain_line(
    metric: LinearFractional, ratio: Floats, factors: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Slope and intercept of what a yes at probability p adds to ``N − ratio · D`` of its group.

    The gain is ``slope · p + intercept``.
    """
    worth = metric.vertex_numerator[:, None] - np.atleast_1d(ratio) * metric.vertex_denominator[:, None]
    of_positive, of_negative = factors[0] * (worth[0] - worth[2]), factors[1] * (worth[1] - worth[3])
    return of_positive - of_negative, of_negative


def require_agreement(metric: LinearFractional) -> None:
    """Raise unless a yes at a likelier entry is never worse: then the chosen entries are the likeliest.

    What an agreement adds over a disagreement is linear in the value of the metric, so it is enough to look
    at the ends of the range of values.
    """
    a, b = metric.vertex_numerator, metric.vertex_denominator
    ends = [float(x / y) for x, y in zip(a, b, strict=True) if y > 0] + [metric.zero_division]
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    if min(float(signs @ (a - end * b)) for end in ends) < 0:
        raise InvalidMetricError(
            f"Under {metric!r} a wrong decision can be worth more than a right one, so a budget has no "
            "likeliest entries to be spent on. Choose a metric that rewards agreement, such as micro-f1."
        )
