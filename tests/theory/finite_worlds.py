"""Finite distributions small enough to try every decision."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class World:
    """A few cells, each with a probability of yes and a share of the sampling distribution."""

    eta: np.ndarray
    mass: np.ndarray

    @property
    def positive_rate(self) -> float:
        return float(self.mass @ self.eta)

    def errors(self, yes: np.ndarray) -> tuple[float, float]:
        """FP and FN."""
        return float(self.mass @ ((1 - self.eta) * yes)), float(self.mass @ (self.eta * (1 - yes)))

    def value(self, metric, yes: np.ndarray) -> float:
        fp, fn = self.errors(yes)
        tp, tn = self.positive_rate - fn, 1 - self.positive_rate - fp
        return metric.from_counts(*(max(0.0, x) for x in (tp, fp, fn, tn)))

    def weighted_regret(self, alpha: float, yes: np.ndarray) -> float:
        """Excess of α FP + (1 − α) FN over that of the best decisions."""
        yes_price, no_price = self.mass * alpha * (1 - self.eta), self.mass * (1 - alpha) * self.eta
        every = np.array(list(every_decision(len(self.eta))))
        least = (every @ yes_price + (1 - every) @ no_price).min()
        return float(yes @ yes_price + (1 - yes) @ no_price - least)

    def best(self, metric) -> float:
        return max(self.value(metric, np.array(d)) for d in every_decision(len(self.eta)))


def every_decision(n: int):
    return itertools.product((0, 1), repeat=n)


def random_world(rng: np.random.Generator, n: int = 6) -> World:
    power = rng.choice([0.3, 1.0, 3.0])
    return World(rng.random(n) ** power * 0.98 + 0.01, rng.dirichlet(np.ones(n)))
