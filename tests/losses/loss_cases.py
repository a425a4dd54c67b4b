"""Every kind of loss at every kind of answer, with what the tests have to know about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from labelgap.losses import FAMILIES, LOSSES, UNLABELLED_LOSSES, CustomFamily, Family, Loss, Unlabelled

FLIP_RATES = (0.0, 0.3, 0.9)

ANSWERS = {
    "bernoulli": (0.0, 0.2, 0.5, 1.0),
    "gaussian": (-3.5, 0.0, 2.25),
    "poisson": (0.0, 0.4, 1.0, 7.0, 250.5),
}


def stars_cumulant(z):
    return 5 * np.logaddexp(z, 0)


def stars_mean(z):
    return 5 * special.expit(z)


def stars_variance(z):
    return 5 * special.expit(z) * special.expit(-z)


def soft_cumulant(z):
    """Its slope is log(1 + e^z); it overflows from z = 710 on."""
    return -special.spence(1 + np.exp(z))


def soft_mean(z):
    return np.logaddexp(z, 0)


def amount_cumulant(z):
    return z * amount_mean(z) / 2 + np.arcsinh(z / 2)


def amount_mean(z):
    """The positive root m of z = m − 1/m, without cancellation on either side."""
    root = np.sqrt(z**2 + 4)
    return np.where(z > 0, (z + root) / 2, 2 / np.where(z > 0, 1, root - z))


def amount_variance(z):
    mean = amount_mean(z)
    return mean**2 / (1 + mean**2)


def stars() -> CustomFamily:
    """Five yes/no answers in one: link and conjugate are known but not given."""
    return CustomFamily(stars_cumulant, stars_mean, stars_variance, name="stars", low=0, high=5)


def counts() -> CustomFamily:
    """The Poisson family, with its link and conjugate given."""
    return CustomFamily(
        np.exp, np.exp, np.exp, name="counts", low=0, link=np.log, conjugate=lambda m: m * np.log(m) - m
    )


def soft_counts() -> CustomFamily:
    """Counts whose mean grows linearly in the score."""
    return CustomFamily(soft_cumulant, soft_mean, special.expit, name="soft counts", low=0)


def amounts() -> CustomFamily:
    """Positive amounts: 0 is no answer, for G*(m) = m²/2 − log m − ½ is infinite there."""
    return CustomFamily(amount_cumulant, amount_mean, amount_variance, name="amounts", low=0)


CUSTOM = {
    stars: (0.0, 1.5, 5.0),
    counts: (0.0, 0.4, 7.0),
    soft_counts: (0.0, 1.5, 40.0),
    amounts: (0.05, 1.0, 12.5),
}

YES_NO_SLOPES = {
    "exponential": (-np.inf, 0.0),
    "logistic": (-1.0, 0.0),
    "squared": (-np.inf, np.inf),
    "squared_hinge": (-np.inf, 0.0),
}
"""The slopes of ℓ(z, 1) over all z; those of ℓ(z, 0) are their mirror image."""


class Case(NamedTuple):
    """A loss at one answer."""

    loss: Loss
    y: float
    slopes: tuple[float, float]
    """The closure of the slopes at which the conjugate is finite."""
    kinks: tuple[float, ...] = ()
    """Scores at which a derivative jumps."""

    @property
    def size(self) -> float:
        """The size of the terms of which a value is the sum."""
        y = abs(self.y)
        return 1 + y * (1 + np.log1p(y)) if isinstance(self.loss, Family) else 1.0

    def smooth(self, z):
        """Those of the scores that are away from the kinks."""
        return z[np.all([np.abs(z - kink) > 1e-3 for kink in self.kinks], axis=0)] if self.kinks else z

    def __str__(self) -> str:
        rate = f"-{self.loss.flip_rate}" if isinstance(self.loss, Unlabelled) else ""
        return f"{self.loss.name}{rate}-y={self.y:g}"


def yes_no_cases() -> Iterator[Case]:
    for name, loss in sorted(LOSSES.items()):
        # What a new loss says of itself, until it has a line in the table.
        low, high = YES_NO_SLOPES.get(name) or map(float, loss().slope_range(1.0))
        yield Case(loss(), 1, (low, high), (1.0,))
        yield Case(loss(), 0, (-high, -low), (-1.0,))


def family_cases() -> Iterator[Case]:
    named = [(family(), ANSWERS[name]) for name, family in sorted(FAMILIES.items())]
    for family, answers in named + [(make(), answers) for make, answers in CUSTOM.items()]:
        low, high = family.means
        for y in answers:
            yield Case(family, y, (low - y, high - y))


def unlabelled_cases() -> Iterator[Case]:
    for name in UNLABELLED_LOSSES:
        for rate in FLIP_RATES:
            loss = Unlabelled(LOSSES[name](), rate)
            kinks = (-np.log(rate) / 2,) if name == "exponential" and rate > 0 else ()
            for y in (0, 1):
                low, high = loss.slope_range(y)
                yield Case(loss, y, (float(low), float(high)), kinks)


OF_UNLABELLED = list(unlabelled_cases())
EVERY_CASE = [*yes_no_cases(), *family_cases(), *OF_UNLABELLED]

GRID = np.linspace(-6, 6, 241)
