"""The threshold in closed form, for when the best reachable value Ψ* of the metric is known.

Since TP = π − FN and TN = (1 − π) − FP, a linear-fractional metric can be written as
(c₁ FP + d₁ FN + e₁) / (c₂ FP + d₂ FN + e₂). The decisions that maximise it minimise α FP + (1 − α) FN with
the α of the paper's weighted-risk lemma, and so say yes where the probability is at least α. Only e₁ and e₂
contain the fraction π of positives, so α does not depend on it, unless the metric itself weights the classes
by their fractions (the balanced forms).
"""

from __future__ import annotations

import math

from labelgap.exceptions import InvalidMetricError, InvalidParameterError
from labelgap.losses import Loss, get_loss
from labelgap.metrics import LinearFractional, get_metric


def bayes_alpha(
    metric: str | LinearFractional,
    best_value: float,
    positive_rate: float | None = None,
) -> float:
    """The probability from which "yes" is right, given the best value of the metric.

    ``α = u / (u + v)`` with ``u = Ψ* c₂ − c₁``, the price of a false positive, and ``v = Ψ* d₂ − d₁``, that
    of a false negative, where c = (coefficient of fp) − (of tn) and d = (of fn) − (of tp), 1 in the numerator
    and 2 in the denominator. For F1 it is Ψ*/2, for accuracy ½, for Jaccard Ψ*/(1 + Ψ*). A balanced metric
    divides u by the fraction of negatives and v by the fraction of positives.

    Parameters
    ----------
    metric : str or LinearFractional
        The metric Ψ. Its average does not enter the formula, which is exact for micro; for instance and macro
        it holds where the rows, or the labels, are alike in distribution.
    best_value : float
        Ψ*, the largest value that any decision rule reaches, in units of the metric.
    positive_rate : float or None, default None
        The fraction of positives, strictly between 0 and 1; needed and used for balanced metrics only.

    Returns
    -------
    float
        α, strictly between 0 and 1.

    Examples
    --------
    >>> from labelgap.thresholds import bayes_alpha
    >>> bayes_alpha("micro-f1", best_value=0.8)
    0.4
    """
    psi = get_metric(metric)
    if not math.isfinite(best_value):
        raise InvalidParameterError(f"best_value must be a finite number, not {best_value!r}.")
    _, a_tp, a_fp, a_fn, a_tn = (float(x) for x in psi.numerator_coefficients)
    _, b_tp, b_fp, b_fn, b_tn = (float(x) for x in psi.denominator_coefficients)
    false_positive = best_value * (b_fp - b_tn) - (a_fp - a_tn)
    false_negative = best_value * (b_fn - b_tp) - (a_fn - a_tp)
    for price, kind, opposite in (
        (false_positive, "false positive", "a yes never hurts, so every entry should be a yes"),
        (false_negative, "false negative", "a no never hurts, so every entry should be a no"),
    ):
        if not price > 0:
            raise InvalidMetricError(
                f"The closed form assumes that a {kind} lowers the metric, but with a best value of "
                f"{best_value} its price is {price:g} for {psi!r}: {opposite}. "
                "Check best_value, or use best_threshold."
            )
    if psi.balanced:
        if positive_rate is None or not 0 < positive_rate < 1:
            raise InvalidParameterError(
                "A balanced metric weights the classes by their fractions: positive_rate must be a number "
                f"strictly between 0 and 1, not {positive_rate!r}."
            )
        false_positive /= 1 - positive_rate
        false_negative /= positive_rate
    return false_positive / (false_positive + false_negative)


def bayes_threshold(
    metric: str | LinearFractional,
    best_value: float,
    loss: str | Loss = "logistic",
    positive_rate: float | None = None,
) -> float:
    """The best threshold on the scores of a proper loss, given the best value of the metric.

    ``θ* = ξ(α)`` with the loss's link ξ and the α of :func:`bayes_alpha`.

    Parameters
    ----------
    metric : str or LinearFractional
        The metric Ψ.
    best_value : float
        Ψ*, the largest value that any decision rule reaches, in units of the metric.
    loss : str or Loss, default "logistic"
        The loss whose link turns probabilities into scores.
    positive_rate : float or None, default None
        The fraction of positives, for balanced metrics only.

    Returns
    -------
    float
        θ*, in units of the scores.

    Examples
    --------
    >>> from labelgap.thresholds import bayes_threshold
    >>> round(bayes_threshold("micro-f1", best_value=0.8, loss="logistic"), 4)
    -0.4055
    >>> round(bayes_threshold("micro-f1", best_value=0.8, loss="squared"), 4)
    -0.2
    """
    return float(get_loss(loss).link(bayes_alpha(metric, best_value, positive_rate)))
