"""Problems whose truth is known: ``z = x·w*`` is the score of an entry, with W* of low rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelgap import ObservedLabels
from labelgap.losses import get_family


@dataclass(frozen=True)
class Truth:
    """A draw: features, complete values, and the parameters that made them."""

    X: Any
    Y: Any
    W: Any
    noise: float
    """σ, the root of the mean variance of a value given its row."""


def draw_truth(
    family: str,
    rng: np.random.RandomState,
    *,
    n: int,
    n_labels: int,
    n_features: int,
    rank: int,
    exact: bool = False,
) -> Truth:
    """Standard normal features, and a W* that gives scores of variance 1, whatever its rank.

    That holds on average over draws, and with ``exact`` in every one.
    """
    factors = rng.standard_normal((n_features, rank)), rng.standard_normal((rank, n_labels))
    W = factors[0] @ factors[1] / np.sqrt(n_features * rank)
    if exact:
        W *= np.sqrt(n_labels) / np.linalg.norm(W)
    X = rng.standard_normal((n, n_features))
    Z = X @ W
    mean = get_family(family).inverse_link(Z)
    values: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: Z + rng.standard_normal(Z.shape),
        "poisson": lambda: rng.poisson(mean),
        "bernoulli": lambda: rng.random_sample(Z.shape) < mean,
    }
    Y = np.asarray(values[family](), dtype=np.float64)
    return Truth(X, Y, W, float(np.sqrt(get_family(family).curvature(Z, Y).mean())))


def observe(truth: Truth, count: int, rng: np.random.RandomState, *, binary: bool = False) -> ObservedLabels:
    """That many values, chosen uniformly."""
    n, n_labels = truth.Y.shape
    entries = rng.choice(n * n_labels, size=count, replace=False)
    rows, columns = np.divmod(entries, n_labels)
    return ObservedLabels.from_triplets(
        rows, columns, truth.Y[rows, columns], shape=truth.Y.shape, binary=binary
    )


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent of x in y: the slope of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
