"""Losses of real values, counts and fractions: the exponential families."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from labelgap._types import Floats
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.losses.base import FloatArray, Loss, as_float, pull_to_edge
from labelgap.losses.family_checks import check_functions, check_inverses, check_range, edge_limit, reach
from labelgap.losses.inversion import Function, invert_rising


class Family(Loss):
    """A loss for values whose mean is G'(z), with a convex cumulant G of the score.

    ``ℓ(z, y) = G(z) − y z + G*(y) ≥ 0``, half the unit deviance: 0 where the mean is the value. The gradient
    is G'(z) − y, the curvature G''(z), the conjugate ``ℓ*(a, y) = G*(a + y) − G*(y)``; the link is the
    inverse of G'. A subclass writes G and G', G'', the inverse of G', and G*.
    """

    domain = (-np.inf, np.inf)
    means: tuple[float, float]
    """The least and the largest mean. Values lie between them, or on one that is in ``edge_values``."""

    def value(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        return self.value_and_gradient(z, y)[0]

    def gradient(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        return self.value_and_gradient(z, y)[1]

    def value_and_gradient(self, z: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        scores, values = scores_and_values(z, y)
        cumulant, mean = self._cumulant_and_mean(scores)
        value = cumulant - values * scores + self._values_dual(values)
        # Near the best fit, rounding alone could make it negative.
        return np.maximum(value, 0), mean - values

    def curvature(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        return self._variance(np.broadcast_arrays(*scores_and_values(z, y))[0])

    def conjugate(self, a: ArrayLike, y: ArrayLike) -> FloatArray:
        slopes, values = scores_and_values(a, y)
        scale = np.maximum(np.abs(values), 1)
        mean, outside = pull_to_edge(slopes + values, *self.means, scale)
        dual = self._dual(mean) - self._values_dual(values)
        return np.where(outside, slopes.dtype.type(np.inf), dual)

    def link(self, eta: ArrayLike) -> FloatArray:
        mean = as_float(eta)
        low, high = self.means
        outside = ~((mean >= low) & (mean <= high))
        if np.any(outside):
            raise InvalidParameterError(
                f"A mean of the {self.name} family must lie in [{low:g}, {high:g}], but "
                f"{mean[outside].flat[0]} was given to the link."
            )
        return self._link(mean)

    def inverse_link(self, z: ArrayLike) -> FloatArray:
        """G'(z): from score to mean."""
        return self._cumulant_and_mean(as_float(z))[1]

    def unit_deviance(self, y: ArrayLike, mean: ArrayLike) -> FloatArray:
        """2 (G*(y) + G(ξ(μ)) − y ξ(μ)), the deviance of the value y from the mean μ; entry by entry.

        It is 0 where y = μ, and +inf where μ is at an edge of the range of means and y is not.

        Examples
        --------
        >>> from labelgap.losses import Poisson
        >>> Poisson().unit_deviance([0.0, 3.0, 0.0], [2.0, 3.0, 0.0]).tolist()
        [4.0, 0.0, 0.0]
        """
        self.check_answers(y)
        means, values = scores_and_values(mean, y)
        score = self.link(means)
        zero, infinite = means.dtype.type(0), means.dtype.type(np.inf)
        at_edge = ~np.isfinite(score)
        deviance = 2 * self.value(np.where(at_edge, zero, score), values)
        return np.where(values == means, zero, np.where(at_edge, infinite, deviance))

    def check_answers(self, values: ArrayLike) -> None:
        """Raise unless every value is one that the family can have; NaN is not.

        Examples
        --------
        >>> from labelgap.losses import Poisson
        >>> Poisson().check_answers([2.0, -1.0])
        Traceback (most recent call last):
        ...
        labelgap.exceptions.InvalidLabelsError: The value -1.0 at position 1 cannot be used: the poisson \
family takes finite numbers in [0, inf). Correct it, or choose another family.
        """
        given = np.atleast_1d(as_float(values))
        low, high = self.means
        allowed = (given > low) & (given < high) | np.isin(given, self.edge_values)
        if allowed.all():
            return
        position = tuple(int(index) for index in np.argwhere(~allowed)[0])
        opening = "[" if low in self.edge_values else "("
        closing = "]" if high in self.edge_values else ")"
        raise InvalidLabelsError(
            f"The value {given[position]} at position {position[0] if len(position) == 1 else position} "
            f"cannot be used: the {self.name} family takes finite numbers in "
            f"{opening}{low:g}, {high:g}{closing}. Correct it, or choose another family."
        )

    def _values_dual(self, values: FloatArray) -> FloatArray:
        """G*(y): the same numbers at every step of a fit, so that a subclass may remember them."""
        return self._dual(values)

    @abstractmethod
    def _cumulant_and_mean(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """G and G'."""

    @abstractmethod
    def _variance(self, z: FloatArray) -> FloatArray:
        """G''."""

    @abstractmethod
    def _link(self, mean: FloatArray) -> FloatArray:
        """The inverse of G', for means in range; ∓inf at an edge."""

    @abstractmethod
    def _dual(self, mean: FloatArray) -> FloatArray:
        """G*, for means in range."""


class CustomFamily(Family):
    """A family made of your own cumulant G.

    The three functions take an array of scores and return an array of that shape. They must be finite
    for all scores; where numbers would overflow, G continues along its tangent. The link and the conjugate
    are computed if they are not given: the link by solving G'(z) = m, and ``G*(m) = m z − G(z)`` at that z.
    Two such families are equal if they were made of the same function objects.

    Parameters
    ----------
    G : callable
        The cumulant, convex.
    mean : callable
        G', the mean of a value with score z.
    variance : callable
        G'' ≥ 0.
    name : str, default "custom"
        What messages call the family.
    link : callable or None, default None
        The inverse of G', from mean to score.
    conjugate : callable or None, default None
        G*, of the mean. Giving it spares the solving.
    low, high : float, default −inf and inf
        The ends of the range of G'. An end is itself a value where G* is finite there.

    Examples
    --------
    Stars from 0 to 5, taken as the number of five people who like a film:

    >>> import numpy as np
    >>> from scipy.special import expit
    >>> from labelgap.losses import CustomFamily
    >>> def cumulant(z): return 5 * np.logaddexp(0, z)
    >>> def mean(z): return 5 * expit(z)
    >>> def variance(z): return 5 * expit(z) * expit(-z)
    >>> stars = CustomFamily(cumulant, mean, variance, name="stars", low=0, high=5)
    >>> stars.link([0.0, 2.5, 4.0]).round(4).tolist()
    [-inf, 0.0, 1.3863]
    >>> stars.value([0.0, 0.0], [2.5, 5.0]).round(4).tolist()
    [0.0, 3.4657]

    Counts with G(z) = e^z are the Poisson family:

    >>> counts = CustomFamily(np.exp, np.exp, np.exp, name="counts", low=0)
    >>> counts.unit_deviance([0.0, 3.0], [2.0, 3.0]).round(4).tolist()
    [4.0, 0.0]
    """

    curvature_bound = None

    def __init__(
        self,
        G: Function,
        mean: Function,
        variance: Function,
        *,
        name: str = "custom",
        link: Function | None = None,
        conjugate: Function | None = None,
        low: float = -np.inf,
        high: float = np.inf,
    ) -> None:
        given = {"G": G, "mean": mean, "variance": variance, "link": link, "conjugate": conjugate}
        for parameter, function in given.items():
            optional = parameter in ("link", "conjugate")
            if not (callable(function) or (optional and function is None)):
                raise InvalidParameterError(f"{parameter} must be a function of an array, not {function!r}.")
        check_functions(G, mean, variance)
        check_range(mean, low, high)
        check_inverses(G, mean, variance, link, conjugate, low, high)
        self._G, self._mean, self._slope_of_mean = G, mean, variance
        self._given_link, self._given_conjugate = link, conjugate
        self.name = name
        self.means = (float(low), float(high))
        self.lipschitz = float(high - low) if np.isfinite(high - low) else None
        self._edge_duals = (edge_limit(G, low, -1.0), edge_limit(G, high, 1.0))
        self.edge_values = tuple(
            end for end, dual in zip(self.means, self._edge_duals, strict=True) if np.isfinite(dual)
        )
        functions = (G, mean, variance)
        self._reach = {
            np.dtype(kind): (reach(functions, kind, -1.0), reach(functions, kind, 1.0))
            for kind in (np.float32, np.float64)
        }
        self._remembered: tuple[FloatArray, FloatArray] | None = None

    def _cumulant_and_mean(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        within = self._within_reach(z)
        cumulant, mean = _evaluate(self._G, within), _evaluate(self._mean, within)
        return cumulant + mean * (z - within), mean

    def _variance(self, z: FloatArray) -> FloatArray:
        return _evaluate(self._slope_of_mean, self._within_reach(z))

    def _link(self, mean: FloatArray) -> FloatArray:
        score = self._on_range(mean, self._inner_link, (-np.inf, np.inf))
        low, high = self.means
        lost = ~np.isfinite(score) & (mean > low) & (mean < high)
        if np.any(lost):
            raise InvalidParameterError(
                f"No score of the {self.name} family has the mean {mean[lost].flat[0]}. low={low:g} and "
                f"high={high:g} must be the ends of what its mean function reaches."
            )
        return score

    def _dual(self, mean: FloatArray) -> FloatArray:
        return self._on_range(mean, self._inner_dual, self._edge_duals)

    def _values_dual(self, values: FloatArray) -> FloatArray:
        last = self._remembered
        if last is not None and last[0].dtype == values.dtype and np.array_equal(last[0], values):
            return last[1]
        dual = self._dual(values)
        self._remembered = (values.copy(), dual)
        return dual

    def _inner_link(self, mean: Floats) -> Floats:
        if self._given_link is not None:
            return np.asarray(self._given_link(mean), dtype=np.float64)
        return invert_rising(self._mean, self._slope_of_mean, mean)

    def _inner_dual(self, mean: Floats) -> Floats:
        if self._given_conjugate is not None:
            return np.asarray(self._given_conjugate(mean), dtype=np.float64)
        score = self._inner_link(mean)
        with np.errstate(all="ignore"):
            dual = mean * score - np.asarray(self._G(score), dtype=np.float64)
        return np.where(np.isfinite(score), dual, np.inf)

    def _on_range(
        self, mean: FloatArray, inner: Callable[[Floats], Floats], at_ends: tuple[float, float]
    ) -> FloatArray:
        """``inner`` strictly between the ends of the means, where alone it need be defined."""
        (low, high), wide = self.means, np.asarray(mean, dtype=np.float64)
        inside = (wide > low) & (wide < high)
        values = np.where(wide <= low, *at_ends)
        values[inside] = inner(wide[inside])
        return values.astype(mean.dtype)

    def _within_reach(self, z: FloatArray) -> FloatArray:
        return np.clip(z, *self._reach[z.dtype])

    def __repr__(self) -> str:
        low, high = self.means
        return f"CustomFamily(name={self.name!r}, low={low:g}, high={high:g})"

    def _key(self) -> tuple[object, ...]:
        required = (self._G, self._mean, self._slope_of_mean)
        functions = (*required, self._given_link, self._given_conjugate)
        return (self.name, self.means, *(id(function) for function in functions))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomFamily) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __getstate__(self) -> dict[str, Any]:
        # A saved family need not carry the values of the last fit.
        return {**self.__dict__, "_remembered": None}


def scores_and_values(z: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Scores (or slopes, or means) as floats, and the values in the same type."""
    scores = as_float(z)
    return scores, np.asarray(y).astype(scores.dtype, copy=False)


def _evaluate(function: Function, z: FloatArray) -> FloatArray:
    return np.asarray(function(z), dtype=z.dtype)
