"""The unbiased loss for positive-unlabelled data."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.losses.base import FloatArray, Loss, as_float, capped_exponential, pull_to_edge
from labelgap.losses.exponential import Exponential
from labelgap.losses.logistic import Logistic
from labelgap.losses.squared import Squared


class Unlabelled(Loss):
    """A loss for recorded positives (y = 1) and unlabelled entries (y = 0) that is right on average.

    A fraction ρ of the true yes was recorded as no. With ``ℓ̃(z, 0) = ℓ(z, 0)`` and
    ``ℓ̃(z, 1) = (ℓ(z, 1) − ρ ℓ(z, 0)) / (1 − ρ)`` the mean of ℓ̃ over what may be recorded is the loss ℓ of
    the true label. So a score stands for the probability of a true yes: link and inverse link are the base's.

    - logistic: ``ℓ̃(z, 1) = log(1 + e^−z) − κ z`` with κ = ρ/(1 − ρ);
    - squared: ``ℓ̃(z, 1) = (1 − z)² − κ z`` with κ = 4ρ/(1 − ρ);
    - exponential: ``ℓ̃(z, 1) = (e^−z − ρ e^z) / (1 − ρ)`` up to z₀ = ½ log(1/ρ), where it stops being convex.
      From there it goes on along its tangent, of slope −2√ρ/(1 − ρ). That keeps it convex; it is right on
      average where z ≤ z₀, that is up to a probability of 1/(1 + ρ), and too large beyond.

    With ρ > 0 the logistic and the exponential one have no lower bound: a penalty, or a bound on the scores,
    has to hold them.

    Parameters
    ----------
    base : Loss
        The loss ℓ of the true label: ``Exponential()``, ``Logistic()`` or ``Squared()``.
    flip_rate : float or array
        ρ, the fraction of the true yes that was recorded as no, 0 ≤ ρ < 1. An array broadcasts against the
        scores: one rate per label, say.

    Examples
    --------
    >>> from labelgap.losses import Logistic, Unlabelled
    >>> loss = Unlabelled(Logistic(), flip_rate=0.3)
    >>> recorded, missed = loss.value(2.0, 1), loss.value(2.0, 0)
    >>> round(float(0.7 * recorded + 0.3 * missed), 4)  # the mean over the recording of a true yes
    0.1269
    >>> round(float(Logistic().value(2.0, 1)), 4)
    0.1269
    """

    def __init__(self, base: Loss, flip_rate: ArrayLike) -> None:
        rate = np.array(flip_rate, dtype=np.float64)
        outside = ~((rate >= 0) & (rate < 1))
        if np.any(outside):
            raise InvalidParameterError(
                f"flip_rate must be at least 0 and less than 1, but {rate[outside].flat[0]} was given."
            )
        rate.flags.writeable = False
        self._corrected = _corrected(base, rate)
        self.base = base
        self.flip_rate: float | Floats = float(rate) if rate.ndim == 0 else rate
        self.name = f"unlabelled_{base.name}"
        self.domain = base.domain
        self.curvature_bound = base.curvature_bound
        steepest = float(np.max(1 / (1 - rate), initial=1.0))
        self.lipschitz = None if base.lipschitz is None else base.lipschitz * steepest
        # −ℓ̃*(0, 1) is the infimum of ℓ̃(z, 1) over z; that of ℓ̃(z, 0) is 0.
        lowest = np.max(self.conjugate(0.0, 1), initial=0.0)
        self.bounded_below_by = -float(lowest) if self.bounded_below else -np.inf

    @property
    def bounded_below(self) -> bool:
        """Whether the loss has a lower bound: always for the squared loss, otherwise only with ρ = 0."""
        return isinstance(self.base, Squared) or not np.any(self.flip_rate)

    def value(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        return self._corrected.value_and_gradient(as_float(z), np.asarray(y))[0]

    def gradient(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        return self._corrected.value_and_gradient(as_float(z), np.asarray(y))[1]

    def curvature(self, z: ArrayLike, y: ArrayLike) -> FloatArray:
        return self._corrected.curvature(as_float(z), np.asarray(y))

    def value_and_gradient(self, z: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        return self._corrected.value_and_gradient(as_float(z), np.asarray(y))

    def conjugate(self, a: ArrayLike, y: ArrayLike) -> FloatArray:
        return self._corrected.conjugate(as_float(a), np.asarray(y))

    def slope_range(self, y: ArrayLike) -> tuple[Floats, Floats]:
        """The least and the largest slope at which the conjugate is finite, ±inf where there is no limit.

        Examples
        --------
        >>> from labelgap.losses import Logistic, Unlabelled
        >>> low, high = Unlabelled(Logistic(), flip_rate=0.5).slope_range([0, 1])
        >>> low.tolist(), high.tolist()
        ([0.0, -2.0], [1.0, -1.0])
        """
        labels, _ = np.broadcast_arrays(np.asarray(y, dtype=np.float64), self.flip_rate)
        return self._corrected.slope_range(labels)

    def link(self, eta: ArrayLike) -> FloatArray:
        return self.base.link(eta)

    def inverse_link(self, z: ArrayLike) -> FloatArray:
        return self.base.inverse_link(z)

    def __repr__(self) -> str:
        return f"Unlabelled({self.base!r}, flip_rate={self.flip_rate!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Unlabelled)
            and self.base == other.base
            and np.array_equal(self.flip_rate, other.flip_rate)
        )

    def __hash__(self) -> int:
        return hash((self.base, np.asarray(self.flip_rate).tobytes()))


class _Corrected(ABC):
    """ℓ̃ of one kind of base; the rates are kept in float64 and taken in the type of the scores."""

    @abstractmethod
    def value_and_gradient(self, z: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]: ...

    @abstractmethod
    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray: ...

    @abstractmethod
    def conjugate(self, a: FloatArray, y: FloatArray) -> FloatArray: ...

    @abstractmethod
    def slope_range(self, y: Floats) -> tuple[Floats, Floats]: ...


class _Tilted(_Corrected):
    """Where ℓ(z, 0) − ℓ(z, 1) = t z, the corrected loss is ``ℓ(z, y) − y κ z`` with κ = t ρ/(1 − ρ)."""

    def __init__(self, base: Loss, rate: Floats, t: float, slopes: tuple[float, float]) -> None:
        self._base = base
        self._kappa = np.asarray(t * rate / (1 - rate))
        # The slopes of ℓ(z, 0) over all z; those of ℓ(z, 1) are their mirror image.
        self._slopes = slopes

    def _tilt(self, z: FloatArray, y: FloatArray) -> FloatArray:
        tilt: FloatArray = y.astype(z.dtype) * self._kappa.astype(z.dtype)
        return tilt

    def value_and_gradient(self, z: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, gradient = self._base.value_and_gradient(z, y)
        tilt = self._tilt(z, y)
        return value - tilt * z, gradient - tilt

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        return self._base.curvature(np.broadcast_arrays(z, self._kappa)[0], y)

    def conjugate(self, a: FloatArray, y: FloatArray) -> FloatArray:
        low, high = self._base_slopes(y)
        tilt = self._tilt(a, y)
        slope, outside = pull_to_edge(a + tilt, low, high, scale=1 + tilt)
        return np.where(outside, a.dtype.type(np.inf), self._base.conjugate(slope, y))

    def slope_range(self, y: Floats) -> tuple[Floats, Floats]:
        low, high = self._base_slopes(y)
        return low - y * self._kappa, high - y * self._kappa

    def _base_slopes(self, y: FloatArray) -> tuple[Floats, Floats]:
        low, high = self._slopes
        return np.where(y > 0, -high, low), np.where(y > 0, -low, high)


class _TiltedExponential(_Corrected):
    """``(e^−z − ρ e^z) / (1 − ρ)`` at a recorded positive, along its tangent from z₀ = ½ log(1/ρ)."""

    def __init__(self, base: Loss, rate: Floats) -> None:
        self._base = base
        self._kept = np.asarray(1 - rate)
        self._root = np.sqrt(rate)
        with np.errstate(divide="ignore"):
            self._tangent_start = np.asarray(-np.log(rate) / 2)

    def _powers(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """e^−z and ρ e^z for z stopped at z₀, by how much −z exceeds the cap, and z beyond z₀."""
        start = self._tangent_start.astype(z.dtype)
        stopped = np.minimum(z, start)
        falling, excess = capped_exponential(-stopped)
        # ρ = e^(−2 z₀), and so nothing overflows.
        return falling, np.exp(stopped - 2 * start), excess, z - stopped

    def value_and_gradient(self, z: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        falling, rising, excess, beyond = self._powers(z)
        kept, root = self._kept.astype(z.dtype), self._root.astype(z.dtype)
        recorded = (falling * (1 + excess) - rising - 2 * root * beyond) / kept
        value, gradient = self._base.value_and_gradient(z, 0)
        return np.where(y > 0, recorded, value), np.where(y > 0, -(falling + rising) / kept, gradient)

    def curvature(self, z: FloatArray, y: FloatArray) -> FloatArray:
        falling, rising, _, _ = self._powers(z)
        recorded = np.maximum(falling - rising, 0) / self._kept.astype(z.dtype)
        return np.where(y > 0, recorded, self._base.curvature(z, 0))

    def conjugate(self, a: FloatArray, y: FloatArray) -> FloatArray:
        return np.where(y > 0, self._recorded_conjugate(a), self._base.conjugate(a, 0))

    def _recorded_conjugate(self, a: FloatArray) -> FloatArray:
        """(b log w − s) / (1 − ρ) with b = −(1 − ρ) a, s = √(b² − 4ρ) and w = e^−z = (b + s)/2.

        The slope is a where w² − b w + ρ = 0; the larger root is the one with z ≤ z₀.
        """
        kept, edge = self._kept.astype(a.dtype), 2 * self._root.astype(a.dtype)
        slope, outside = pull_to_edge(a, -np.inf, -edge / kept)
        b = np.maximum(-slope * kept, edge)
        # Two roots, for b² would overflow before b does.
        s = np.sqrt(b - edge) * np.sqrt(b + edge)
        w = np.maximum((b + s) / 2, np.finfo(a.dtype).tiny)
        return np.where(outside, a.dtype.type(np.inf), (b * np.log(w) - s) / kept)

    def slope_range(self, y: Floats) -> tuple[Floats, Floats]:
        return np.where(y > 0, -np.inf, 0.0), np.where(y > 0, -2 * self._root / self._kept, np.inf)


def _corrected(base: Loss, rate: Floats) -> _Corrected:
    if isinstance(base, Exponential):
        return _TiltedExponential(base, rate)
    if isinstance(base, Logistic):
        return _Tilted(base, rate, t=1.0, slopes=(0.0, 1.0))
    if isinstance(base, Squared):
        return _Tilted(base, rate, t=4.0, slopes=(-np.inf, np.inf))
    raise InvalidParameterError(
        f"The unbiased loss is made of {', '.join(UNLABELLED_LOSSES)}, not of {base!r}, which would not stay "
        "convex. Choose one of these losses."
    )


UNLABELLED_LOSSES = ("exponential", "logistic", "squared")
"""The names of the losses that :class:`Unlabelled` takes as its base."""
