"""The interface of every loss, and the base class of losses of the margin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labelgap.exceptions import InvalidParameterError

FloatArray: TypeAlias = NDArray[np.floating[Any]]

# How many rounding errors beyond the edge of a conjugate's domain still count as lying on the edge.
_EDGE_ULPS = 8


class Loss(ABC):
    """A convex loss ℓ(z, y) of a score z and a label value y, with its link.

    The values are labels in {0, 1}, or, for a :class:`~labelgap.losses.Family`, numbers. Everything works
    entry by entry on arrays that broadcast against each other, in the floating-point type of
    ``z`` (float32 or float64; anything else is computed in float64). A loss without parameters has no state:
    two instances of its class are equal.
    """

    name: str
    """The registry's name of the loss."""
    strong_properness: float | None = None
    """The largest c with  regret(η, z) ≥ c/2 (η − ξ⁻¹(z))²  for every probability η and score z.

    None for a loss of other values than yes and no, and where no such c is claimed.
    """
    lipschitz: float | None
    """The supremum of |ℓ'| over z, or None where the slope is unbounded."""
    curvature_bound: float | None
    """The supremum of ℓ'' over z, or None where the curvature is unbounded or its bound not known."""
    domain: tuple[float, float]
    """The open interval of scores that the link reaches; the loss is proper on it."""
    bounded_below_by: float = 0.0
    """A number that no value of the loss goes below."""
    edge_values: tuple[float, ...] = (0.0, 1.0)
    """The values that the link sends to an end of ``domain``.

    A label whose values all equal one of these has its best intercept there: at infinity, or at ±1 where the
    link is linear.
    """

    @abstractmethod
    def value(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        """ℓ(z, y), entry by entry."""

    @abstractmethod
    def gradient(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        """∂ℓ/∂z, entry by entry."""

    @abstractmethod
    def curvature(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        """∂²ℓ/∂z², entry by entry; at a kink of the gradient, the larger one-sided value."""

    @abstractmethod
    def value_and_gradient(self, z: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """``(value, gradient)`` for the price of one of them."""

    def value_gradient_and_curvature(
        self, z: ArrayLike, y: ArrayLike
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``(value, gradient, curvature)``, cheaper together where they share their work."""
        return *self.value_and_gradient(z, y), self.curvature(z, y)

    @abstractmethod
    def conjugate(self, a: ArrayLike, y: ArrayLike) -> FloatArray:
        """ℓ*(a, y) = sup_z (a z − ℓ(z, y)), +inf outside its domain.

        A slope that is outside by rounding only (a few machine epsilons) is taken to lie on the edge.
        """

    @abstractmethod
    def link(self, eta: ArrayLike) -> FloatArray:
        """ξ(η) = argmin_z E ℓ(z, y) over values of mean η: from probability, or mean, to score.

        For labels in {0, 1} the expectation is η ℓ(z, 1) + (1 − η) ℓ(z, 0).
        """

    @abstractmethod
    def inverse_link(self, z: ArrayLike) -> FloatArray:
        """ξ⁻¹(z): from score to a probability in [0, 1], or to the mean of the values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class MarginLoss(Loss):
    """A loss ℓ(z, y) = φ(s z) with s = 2y − 1: a subclass writes φ, φ', φ'' and φ* of the margin.

    Then ℓ' = s φ'(s z), ℓ'' = φ''(s z) and ℓ*(a, y) = φ*(s a).
    """

    def value(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        return self._phi(_sign_and_margin(z, y)[1])

    def gradient(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        sign, margin = _sign_and_margin(z, y)
        return sign * self._slope(margin)

    def curvature(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        return self._second_slope(_sign_and_margin(z, y)[1])

    def value_and_gradient(self, z: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        sign, margin = _sign_and_margin(z, y)
        value, slope = self._phi_and_slope(margin)
        return value, sign * slope

    def conjugate(self, a: ArrayLike, y: ArrayLike) -> FloatArray:
        return self._phi_conjugate(_sign_and_margin(a, y)[1])

    @abstractmethod
    def _phi(self, margin: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _slope(self, margin: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _second_slope(self, margin: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _phi_conjugate(self, slope: FloatArray) -> FloatArray: ...

    def _phi_and_slope(self, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._phi(margin), self._slope(margin)


class LinearLinkLoss(MarginLoss):
    """A loss of the squared kind: its link ``ξ(η) = 2η − 1`` is linear, and its slope 2-Lipschitz.

    Scores beyond ±1 stand for the probabilities 0 and 1.
    """

    strong_properness = 8.0
    lipschitz = None
    curvature_bound = 2.0
    domain = (-1.0, 1.0)

    def link(self, eta: ArrayLike) -> FloatArray:
        return 2 * as_probability(eta) - 1

    def inverse_link(self, z: ArrayLike) -> FloatArray:
        return np.clip((1 + as_float(z)) / 2, 0, 1)


def as_float(values: ArrayLike) -> FloatArray:
    """``values`` as an array of float32 or float64, without a copy where it is one already."""
    array = np.asarray(values)
    if array.dtype == np.float32 or array.dtype == np.float64:
        return array
    return array.astype(np.float64)


def as_probability(eta: ArrayLike) -> FloatArray:
    """``eta`` as floats, or an error where something is not in [0, 1]."""
    array = as_float(eta)
    outside = ~((array >= 0) & (array <= 1))
    if np.any(outside):
        raise InvalidParameterError(
            f"A probability must lie in [0, 1], but {array[outside].flat[0]} was given to the link."
        )
    return array


def pull_to_edge(
    values: FloatArray,
    low: float | FloatArray,
    high: float | FloatArray,
    scale: float | FloatArray = 1.0,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """``values`` clipped to [low, high], and which of them were outside by more than rounding.

    The tolerance is a few machine epsilons relative to the edge, and no less than of ``scale``, the size of
    the numbers that ``values`` was computed from: a slope of 1e-17 where 0 is the edge comes from rounding,
    not from a mistake.
    """
    low, high, reach = (np.asarray(bound, dtype=values.dtype) for bound in (low, high, scale))
    inside = np.clip(values, low, high)
    for edge in (low, high):
        reach = np.maximum(reach, np.where(np.isfinite(edge), np.abs(edge), 0))
    return inside, ~(np.abs(values - inside) <= _EDGE_ULPS * np.finfo(values.dtype).eps * reach)


def log_odds(eta: ArrayLike) -> FloatArray:
    """log(η / (1 − η)), with −inf at 0 and +inf at 1."""
    probability = as_probability(eta)
    with np.errstate(divide="ignore"):
        return np.log(probability) - np.log1p(-probability)


def sigmoid(z: FloatArray) -> FloatArray:
    """1 / (1 + e^−z) without overflow: only e^−|z| is ever taken."""
    decay = np.exp(-np.abs(z))
    larger: FloatArray = np.where(z >= 0, z.dtype.type(1), decay)
    probability: FloatArray = larger / (1 + decay)
    return probability


def capped_exponential(exponent: FloatArray) -> tuple[FloatArray, FloatArray]:
    """e^min(x, c), and by how much x exceeds c, half the logarithm of the type's largest number.

    ``power * (1 + excess)`` is e^x that goes on along its tangent at c: convex, and finite for every x.
    """
    cap = exponent.dtype.type(np.log(np.finfo(exponent.dtype).max) / 2)
    return np.exp(np.minimum(exponent, cap)), np.maximum(exponent - cap, 0)


def _sign_and_margin(z: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    scores = as_float(z)
    sign = 2 * np.asarray(y).astype(scores.dtype) - 1
    return sign, sign * scores
