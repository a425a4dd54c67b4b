"""The result of every recovery bound, and the pieces that several of them have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from labelgap.exceptions import InvalidParameterError
from labelgap.losses import Family
from labelgap.theory.assumptions import Assumption, at_least, check_in_range, warn_of_failures
from labelgap.theory.constants import curvature_range

DRAWN = Assumption("entries are drawn independently from π, whatever their labels")
RECOVERED = Assumption("the values come from the family with scores of at most γ, and so does the fit")
SUB_GAUSSIAN = Assumption("rows of X are drawn independently, sub-Gaussian, with a covariance of full rank")


@dataclass(frozen=True)
class Bound:
    """A bound on the error of a fit.

    Parameters
    ----------
    setting : str
        Which theorem.
    value : float
        Bounds the mean squared error of an entry of W (without features: of a score).
    score_error : float
        Bounds E (z − z*)², the mean squared error of a score under π; for ``loss_regret_bound``.
    terms : mapping from str to float
        ``value`` is their maximum or their sum, see the function.
    assumptions : tuple of Assumption
        What the theorem asks for, and whether it is so (None where the numbers do not say).
    probability : float
        The bound holds at least so often; 0 if the theorem promises nothing at this size.
    trivial : float
        What bounds ``score_error`` without any data.
    """

    setting: str
    value: float
    score_error: float
    terms: Mapping[str, float]
    assumptions: tuple[Assumption, ...]
    probability: float
    trivial: float

    @property
    def informative(self) -> bool:
        """Whether the bound says more than that scores are bounded."""
        return self.score_error < self.trivial

    @property
    def failed(self) -> tuple[Assumption, ...]:
        """The assumptions that are known to fail."""
        return tuple(assumption for assumption in self.assumptions if assumption.holds is False)


def with_warning(bound: Bound) -> Bound:
    """The bound, after a warning about what fails."""
    warn_of_failures(f"The {bound.setting} bound", bound.assumptions)
    return bound


def log_factor(n: int, n_labels: int, events: int, confidence: float | None) -> float:
    """``log(n + L)``, or ``log(events/δ)`` where a confidence of 1 − δ asks for more."""
    base = math.log(n + n_labels)
    if confidence is None:
        return base
    risk = 1 - check_in_range("confidence", confidence, above=0, below=1)
    return max(base, math.log(events / risk))


def probability_of(
    n: int, n_labels: int, events: int, confidence: float | None, others: float = 0.0
) -> float:
    """``1 − events/(n + L)``, or the confidence where that is more, less what else may go wrong."""
    own = events * math.exp(-log_factor(n, n_labels, events, confidence))
    return max(0.0, 1 - (events / (n + n_labels) if confidence is None else own) - others)


def noise_factor(family: str | Family, score_bound: float, noise_scale: float | None) -> float:
    """``τ²/σ̲⁴ + γ²``: what noise, and what the sampling of squares, contribute to a squared score."""
    curvature = curvature_range(family, score_bound)
    tau = (
        math.sqrt(curvature.upper)
        if noise_scale is None
        else check_in_range("noise_scale", noise_scale, above=0)
    )
    if curvature.lower == 0:
        raise InvalidParameterError(
            f"Over scores up to {score_bound:g} the loss is flat to machine precision somewhere, so no bound "
            "follows. Give a smaller score_bound."
        )
    return (tau / curvature.lower) ** 2 + score_bound**2


def lafond_observations(
    n: int, n_labels: int, n_observed: int, log_scale: float, log_argument: float
) -> Assumption:
    """``|Ω| ≥ log(n + L) min(n, L) max(c' log²(c'' √min(n, L)), 1/9)``."""
    check_in_range("log_scale", log_scale, above=0)
    check_in_range("log_argument", log_argument, above=0)
    least = min(n, n_labels)
    log_square = math.log(log_argument * math.sqrt(least)) ** 2
    needed = math.log(n + n_labels) * least * max(log_scale * log_square, 1 / 9)
    return at_least("|Ω| ≥ log(n + L) min(n, L) max(c' log²(c''√min(n, L)), 1/9)", n_observed, needed)
