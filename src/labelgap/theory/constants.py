"""Constants of the losses and families that the theorems speak of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.losses import Family, Loss, Unlabelled, get_family, get_loss
from labelgap.theory.assumptions import check_in_range

# An odd number of points: the middle is 0, where the Bernoulli variance has its maximum.
_GRID = 4001


@dataclass(frozen=True)
class LossConstants:
    """What the bounds need to know of a loss of yes/no labels on scores in [−γ, γ].

    Parameters
    ----------
    strong_properness : float
        The largest λ with ``reg(η, z) ≥ λ/2 (η − ξ⁻¹(z))²`` for all η and z.
    lipschitz : float
        The supremum of |ℓ'|; inf where that is unbounded.
    curvature : float
        The supremum of ℓ''; inf where that is unbounded.
    """

    strong_properness: float
    lipschitz: float
    curvature: float


def _quadratic(gamma: float) -> tuple[float, float]:
    return 2 * (1 + gamma), 2.0


def _exponential(gamma: float) -> tuple[float, float]:
    growth = math.exp(gamma) if gamma < 700 else math.inf
    return growth, growth


def _logistic(gamma: float) -> tuple[float, float]:
    return 1 / (1 + math.exp(-gamma)), 0.25


# For the yes/no losses: the suprema of |ℓ'| and ℓ'' over |z| ≤ γ.
_ON_INTERVAL: dict[str, Callable[[float], tuple[float, float]]] = {
    "exponential": _exponential,
    "logistic": _logistic,
    "squared": _quadratic,
    "squared_hinge": _quadratic,
}


def loss_constants(loss: str | Loss, score_bound: float | None = None) -> LossConstants:
    """Strong properness, steepness and curvature of a loss.

    Strong properness is 4 for the logistic and the exponential loss, 8 for the squared loss and the squared
    hinge. It is the minimum over p of w(p) = 1/(p(1 − p)), of ½ (p(1 − p))^(−3/2), and of the constant 8. The
    plain hinge, which labelgap does not have, is not proper, and a family of real values or counts has no
    probability to be proper about. The positive-unlabelled loss has the constants of its base when the regret
    is that about the *true* label, which is what the bounds speak of; about the recorded label it has none.

    Parameters
    ----------
    loss : str or Loss
        A loss of yes/no labels.
    score_bound : float or None, default None
        γ: |z| ≤ γ. None means all scores.

    Examples
    --------
    >>> from labelgap.theory import loss_constants
    >>> loss_constants("logistic")
    LossConstants(strong_properness=4.0, lipschitz=1.0, curvature=0.25)
    >>> loss_constants("squared", score_bound=1.0)
    LossConstants(strong_properness=8.0, lipschitz=4.0, curvature=2.0)
    """
    given = get_loss(loss)
    base = given.base if isinstance(given, Unlabelled) else given
    if base.strong_properness is None:
        raise InvalidParameterError(
            f"{given!r} has no strong-properness constant, so no bound on a metric follows from its regret. "
            "Choose one of: exponential, logistic, squared, squared_hinge."
        )
    if score_bound is None or base.name not in _ON_INTERVAL:
        steep, curved = base.lipschitz, base.curvature_bound
        return LossConstants(
            base.strong_properness,
            math.inf if steep is None else steep,
            math.inf if curved is None else curved,
        )
    gamma = check_in_range("score_bound", score_bound, above=0)
    return LossConstants(base.strong_properness, *_ON_INTERVAL[base.name](gamma))


@dataclass(frozen=True)
class CurvatureRange:
    """The least and the largest G'' on [−γ, γ], the paper's σ̲² and σ̄² (squares, both).

    Examples
    --------
    >>> from labelgap.theory import curvature_range
    >>> round(curvature_range("bernoulli", 2.0).conditioning, 4)  # 1 + cosh γ
    4.7622
    """

    lower: float
    upper: float

    @property
    def conditioning(self) -> float:
        """``σ_γ = σ̄ / σ̲²``, the factor by which noise in values becomes error in scores."""
        return math.sqrt(self.upper) / self.lower


def curvature_range(family: str | Family, score_bound: float) -> CurvatureRange:
    """σ̲² and σ̄² of a family: the range of the variance G'' of a value over the scores in [−γ, γ].

    Bernoulli (the logistic loss): σ̲² = e^γ/(1 + e^γ)² and σ̄² = ¼, so that σ̄/σ̲² = 1 + cosh γ. Gaussian: 1
    and 1. Poisson: e^−γ and e^γ. Families of your own are looked at on a grid of 4001 scores.

    Parameters
    ----------
    family : str or Family
    score_bound : float
        γ, above 0.

    Examples
    --------
    >>> from labelgap.theory import curvature_range
    >>> curvature_range("gaussian", 3.0)
    CurvatureRange(lower=1.0, upper=1.0)
    """
    gamma = check_in_range("score_bound", score_bound, above=0)
    scores: Floats = np.linspace(-gamma, gamma, _GRID)
    # A family's curvature does not depend on the value; any admissible one will do.
    variance = get_family(family).curvature(scores, np.full_like(scores, 0.5))
    return CurvatureRange(float(variance.min()), float(variance.max()))
