"""Problems with a known truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError


@dataclass(frozen=True)
class LowRankProblem:
    """Features, complete labels, what is observed of them, and the truth behind."""

    X: Floats
    Y: Floats
    """Complete labels, 0.0 and 1.0."""
    Y_observed: Floats
    """The same with NaN where not observed."""
    X_test: Floats
    Y_test: Floats
    W: Floats
    """The true parameters, d x L."""


def make_low_rank_labels(
    n: int = 1000,
    n_labels: int = 100,
    n_features: int = 10,
    rank: int = 5,
    observed: float = 0.1,
    n_test: int = 1000,
    noise: bool = False,
    random_state: Any = None,
) -> LowRankProblem:
    """The paper's synthetic problem: ``y_ij = [x_i · w_j ≥ 0]`` with W of low rank, partly observed.

    Parameters
    ----------
    n, n_labels, n_features, rank : int
        Rows, labels, features and the rank of W. Rows of X and the factors of W are standard normal.
    observed : float, default 0.1
        Fraction of the labels that is observed, chosen uniformly.
    n_test : int, default 1000
        Fresh rows with complete labels.
    noise : bool, default False
        Draw the labels from the logistic model ``P(y = 1) = 1/(1 + e^(−x·w))`` instead.
    random_state : int, RandomState or None

    Examples
    --------
    >>> from labelgap.data import make_low_rank_labels
    >>> problem = make_low_rank_labels(n=50, n_labels=8, random_state=0)
    >>> problem.X.shape, problem.Y_observed.shape
    ((50, 10), (50, 8))
    """
    if not 0 < observed <= 1:
        raise InvalidParameterError(f"observed is a fraction, above 0 and at most 1; got {observed!r}.")
    if not 1 <= rank <= min(n_features, n_labels):
        raise InvalidParameterError(
            f"rank must be at least 1 and at most {min(n_features, n_labels)} (the smaller of n_features and "
            f"n_labels); got {rank!r}."
        )
    rng = check_random_state(random_state)
    W = rng.standard_normal((n_features, rank)) @ rng.standard_normal((rank, n_labels))
    X = rng.standard_normal((n + n_test, n_features))
    Z = X @ W
    Y = (rng.random_sample(Z.shape) < 1 / (1 + np.exp(-Z)) if noise else Z >= 0).astype(np.float64)
    Y_observed = np.where(rng.random_sample((n, n_labels)) < observed, Y[:n], np.nan)
    return LowRankProblem(X[:n], Y[:n], Y_observed, X[n:], Y[n:], W)
