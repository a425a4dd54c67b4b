"""From a metric to weighted errors: the α and the C of the paper's weighted-risk lemma."""

from __future__ import annotations

from dataclasses import dataclass

from labelgap.exceptions import InvalidMetricError
from labelgap.metrics import LinearFractional, get_metric
from labelgap.theory.assumptions import check_in_range
from labelgap.thresholds import bayes_alpha


@dataclass(frozen=True)
class WeightedRisk:
    """``Ψ* − Ψ(h) ≤ constant · Reg_α(h)`` for all decisions h.

    Reg_α is the excess of ``α FP + (1 − α) FN`` over its minimum.

    Parameters
    ----------
    alpha : float
        The probability from which "yes" is right.
    constant : float
        C.
    denominator_floor : float
        The paper's γ of the metric: no decisions have a smaller denominator.
    """

    alpha: float
    constant: float
    denominator_floor: float


def weighted_risk(metric: str | LinearFractional, best_value: float, positive_rate: float) -> WeightedRisk:
    """α and C for a metric, from its best value and the fraction of positives.

    With the prices u = Ψ* c₂ − c₁ of a false positive and v = Ψ* d₂ − d₁ of a false negative (see
    ``labelgap.thresholds.bayes_alpha``), ``α = u/(u + v)`` and ``C = (u + v)/γ``. The smallest denominator
    ``γ = π min(b_tp, b_fn) + (1 − π) min(b_fp, b_tn)``, b with const added, is that of the worst decisions. A
    balanced metric has half of its weight in each class: u, v and γ change accordingly.

    For micro metrics that holds as it stands. For instance and macro it holds if the confusion fractions are
    the same in all rows, or all labels, as the paper assumes; labels are hardly ever alike. Otherwise take
    each row or label for itself: Ψ* − Ψ is the mean of ``C_g Reg_α_g``, with an α of its own for each.

    Parameters
    ----------
    metric : str or LinearFractional
    best_value : float
        Ψ*, the largest value that any decisions reach.
    positive_rate : float
        π, the fraction of positives, strictly between 0 and 1.

    Examples
    --------
    >>> from labelgap.theory import weighted_risk
    >>> weighted_risk("micro-f1", best_value=0.8, positive_rate=0.25)
    WeightedRisk(alpha=0.4, constant=8.0, denominator_floor=0.25)
    """
    psi = get_metric(metric)
    fraction = check_in_range("positive_rate", positive_rate, above=0, below=1)
    alpha = bayes_alpha(psi, best_value, fraction)
    u, v = _prices(psi, best_value)
    if psi.balanced:
        u, v, fraction = u / (2 * (1 - fraction)), v / (2 * fraction), 0.5
    floor = denominator_floor(psi, fraction)
    return WeightedRisk(alpha, (u + v) / floor, floor)


def denominator_floor(psi: LinearFractional, fraction: float) -> float:
    """The smallest denominator over all decisions when this fraction of the weight is positive."""
    b_tp, b_fp, b_fn, b_tn = (float(b) for b in psi.vertex_denominator)
    floor = fraction * min(b_tp, b_fn) + (1 - fraction) * min(b_fp, b_tn)
    if not floor > 0:
        raise InvalidMetricError(
            f"The bound divides by the smallest denominator of the metric, which is 0 for {psi!r}: some "
            "decisions lead to 0/0. Choose a metric whose denominator stays positive, such as F1 or Jaccard."
        )
    return floor


def _prices(psi: LinearFractional, best_value: float) -> tuple[float, float]:
    _, a_tp, a_fp, a_fn, a_tn = (float(a) for a in psi.numerator_coefficients)
    _, b_tp, b_fp, b_fn, b_tn = (float(b) for b in psi.denominator_coefficients)
    return best_value * (b_fp - b_tn) - (a_fp - a_tn), best_value * (b_fn - b_tp) - (a_fn - a_tp)
