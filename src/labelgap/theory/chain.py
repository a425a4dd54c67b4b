"""From the error of scores to the regret in the loss, and from there to the regret in the metric."""

from __future__ import annotations

import math
from dataclasses import dataclass

from labelgap._names import check_choice
from labelgap.exceptions import InvalidMetricError, InvalidParameterError
from labelgap.losses import Loss
from labelgap.metrics import LinearFractional, get_metric
from labelgap.theory.assumptions import check_in_range
from labelgap.theory.constants import loss_constants
from labelgap.theory.weighted_risk import denominator_floor, weighted_risk

STEPS = ("smaller", "curvature", "lipschitz")


def loss_regret_bound(
    score_error: float,
    loss: str | Loss = "logistic",
    score_bound: float | None = None,
    step: str = "smaller",
) -> float:
    """The ℓ-regret of scores Z, from their mean squared distance ``e² = E (z − z*)²`` to the true ones.

    The paper's step is ``reg ≤ (sup |ℓ'|) e``, for a loss of bounded slope. Since z* minimises the expected
    loss, the first-order term vanishes, and ``reg ≤ ½ (sup ℓ'') e²`` too, which is far smaller once e is
    below 1. Both need scores that are right for the loss: the true probability is ξ⁻¹(z*).

    Parameters
    ----------
    score_error : float
        e², in squared units of the scores.
    loss : str or Loss, default "logistic"
    score_bound : float or None, default None
        γ, if both kinds of scores are in [−γ, γ]; needed where slope and curvature are unbounded.
    step : "smaller", "curvature" or "lipschitz", default "smaller"
        Which of the two bounds; "lipschitz" is the paper's.

    Examples
    --------
    >>> from labelgap.theory import loss_regret_bound
    >>> loss_regret_bound(0.04), loss_regret_bound(0.04, step="lipschitz")
    (0.005, 0.2)
    """
    check_choice("step", step, STEPS)
    error = check_in_range("score_error", score_error, least=0)
    constants = loss_constants(loss, score_bound)
    bounds = {
        "curvature": constants.curvature / 2 * error if error else 0.0,
        "lipschitz": constants.lipschitz * math.sqrt(error) if error else 0.0,
    }
    bound = min(bounds.values()) if step == "smaller" else bounds[step]
    if not math.isfinite(bound):
        raise InvalidParameterError(
            f"The {step} bound needs score_bound=..., because the loss {loss!r} is unbounded in it over all "
            "scores."
        )
    return bound


@dataclass(frozen=True)
class MetricRegretBound:
    """A bound of Ψ* − Ψ and what it is made of.

    Parameters
    ----------
    value : float
        ``regret_term + estimation_term``.
    regret_term : float
        ``C √(2/λ) √reg_ℓ``.
    estimation_term : float
        ``K / √m``, for taking the threshold from m entries instead of knowing it.
    constant : float
        C.
    alpha : float
        The probability at which the best decisions are cut.
    strong_properness : float
        λ.
    """

    value: float
    regret_term: float
    estimation_term: float
    constant: float
    alpha: float
    strong_properness: float


def metric_regret_bound(
    loss_regret: float,
    *,
    metric: str | LinearFractional,
    best_value: float,
    positive_rate: float,
    loss: str | Loss = "logistic",
    n_observed: int | None = None,
    estimation_constant: float = 0.0,
) -> MetricRegretBound:
    """The paper's first theorem: a small regret in the loss makes for a small regret in the metric.

    ``Ψ* − Ψ ≤ C √(2/λ) √reg_ℓ + K/√m`` with C from :func:`weighted_risk` and λ the strong properness. The
    first term is for the threshold θ* = ξ(α), and so for the best threshold too.

    Parameters
    ----------
    loss_regret : float
        reg_ℓ, the excess of the mean loss of the scores over the least possible, in units of the loss.
    metric : str or LinearFractional
    best_value : float
        Ψ*.
    positive_rate : float
        The fraction of positives.
    loss : str or Loss, default "logistic"
    n_observed : int or None, default None
        m, the number of entries that the threshold is taken from; None if the best threshold is known.
    estimation_constant : float, default 0.0
        K; :func:`threshold_constant` has one that is proved. The paper does not give it.

    Examples
    --------
    >>> from labelgap.theory import metric_regret_bound
    >>> bound = metric_regret_bound(0.0001, metric="micro-f1", best_value=0.8, positive_rate=0.25)
    >>> round(bound.value, 4), bound.constant
    (0.0566, 8.0)
    """
    regret = check_in_range("loss_regret", loss_regret, least=0)
    K = check_in_range("estimation_constant", estimation_constant, least=0)
    if (K > 0) != (n_observed is not None):
        raise InvalidParameterError(
            "estimation_constant is divided by the root of n_observed; give both, or neither."
        )
    risk = weighted_risk(metric, best_value, positive_rate)
    proper = loss_constants(loss).strong_properness
    first = risk.constant * math.sqrt(2 / proper * regret)
    second = 0.0 if n_observed is None else K / math.sqrt(check_in_range("n_observed", n_observed, least=1))
    return MetricRegretBound(first + second, first, second, risk.constant, risk.alpha, proper)


def threshold_constant(
    metric: str | LinearFractional, positive_rate: float, confidence: float = 0.95
) -> float:
    """K such that the best threshold on m fresh entries loses at most K/√m against the best of all.

    ``K = 2 k/γ √(½ log(4/δ))``, δ = 1 − confidence. By the inequality of Dvoretzky, Kiefer, Wolfowitz and
    Massart the fractions of true and of false positives are right within √(log(4/δ)/(2m)) at all thresholds
    at once; k is the steepest change of the metric's numerator with them, γ its smallest denominator.

    The entries must be drawn independently from π, and the scores must not have been fitted to them: out of
    fold, or held out. On training scores, as in the paper's algorithm, there is no such guarantee.

    Parameters
    ----------
    metric : str or LinearFractional
        A micro metric that is not balanced.
    positive_rate : float
        The fraction of positives.
    confidence : float, default 0.95

    Examples
    --------
    >>> from labelgap.theory import threshold_constant
    >>> round(threshold_constant("micro-accuracy", positive_rate=0.25), 2)
    8.88
    """
    psi = get_metric(metric)
    if psi.average != "micro" or psi.balanced:
        raise InvalidMetricError(
            f"The constant is derived for micro metrics that are not balanced, not for {psi!r}."
        )
    fraction = check_in_range("positive_rate", positive_rate, above=0, below=1)
    risk = 1 - check_in_range("confidence", confidence, above=0, below=1)
    top, bottom = psi.vertex_numerator, psi.vertex_denominator
    # Ψ is a weighted mean of its values at the vertices, so it lies between the extremes of those.
    values = [float(a / b) if b > 0 else psi.zero_division for a, b in zip(top, bottom, strict=True)]
    steepest = 0.0
    for value in (min(values), max(values)):
        tp, fp, fn, tn = (float(g) for g in top - value * bottom)
        steepest = max(steepest, abs(tp - fn) + abs(fp - tn) + abs(fn - tn))
    return 2 * steepest / denominator_floor(psi, fraction) * math.sqrt(math.log(4 / risk) / 2)
