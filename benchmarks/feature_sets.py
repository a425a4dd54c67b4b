"""Data sets with features, a fifth of whose training labels are observed.

Bibtex and Corel5k are read from the folder that ``LABELGAP_DATA`` names. The third is generated, with the
sizes of Delicious: rows of 500 sparse yes/no features, about 18 of them set, and 983 labels, about 19 of them
yes. Its truth is a logistic model of rank 20, with labels and features of very different popularity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.preprocessing import normalize

from labelgap.data import load_multilabel
from labelgap.labels import ObservedLabels

OBSERVED = 0.2
# The fraction of the observed labels on which settings are chosen.
VALIDATION = 0.2
_RANK, _SPREAD = 20, 1.5


@dataclass(frozen=True)
class FeatureSet:
    """Training rows with some labels observed, and test rows with all of them."""

    name: str
    X: Any
    labels: ObservedLabels
    X_test: Any
    Y_test: NDArray[np.int8]

    def __str__(self) -> str:
        n, d = self.X.shape
        return (
            f"{self.name}: {n:,} x {d:,}, {self.labels.shape[1]} labels, {self.labels.n_observed:,} observed"
        )

    def validation_parts(self) -> tuple[ObservedLabels, ObservedLabels]:
        """The observed labels in two: to fit, and to choose settings on."""
        held = np.random.default_rng(1).random(self.labels.n_observed) < VALIDATION
        return self.labels.select(~held), self.labels.select(held)


def read(name: str, seed: int = 0) -> FeatureSet:
    """A data set of the folder, at its published split, with rows of unit length."""
    data = load_multilabel(name)
    X, Y = normalize(sp.csr_array(data.X)).tocsr(), data.Y
    return _feature_set(
        name, X[data.train], Y[data.train].toarray(), X[data.test], Y[data.test].toarray(), seed
    )


def read_dense(name: str, seed: int = 0) -> FeatureSet:
    """A data set of the folder with dense features as they are, at its published split or four fifths."""
    data = load_multilabel(name)
    X, Y = np.asarray(data.X.toarray() if sp.issparse(data.X) else data.X), data.Y
    train, test = data.train, data.test
    if train is None or test is None:
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = np.split(order, [4 * len(X) // 5])
    return _feature_set(name, X[train], Y[train].toarray(), X[test], Y[test].toarray(), seed)


def generate(
    n_train: int = 12_920,
    n_test: int = 3_185,
    n_features: int = 500,
    n_labels: int = 983,
    seed: int = 0,
    *,
    n_set: int = 18,
    spread: float = _SPREAD,
) -> FeatureSet:
    """A set of the size of Delicious, unless other sizes are given.

    ``n_set`` is the mean number of features that are set in a row, ``spread`` the standard deviation of the
    scores of a label.
    """
    rng = np.random.default_rng(seed)
    n = n_train + n_test
    popularity = (np.arange(n_features) + 10.0) ** -0.8
    counts = np.minimum(1 + rng.poisson(n_set - 1.0, size=n), n_features)
    # The features of the highest of popularity over an exponential: draws without replacement.
    keys = rng.exponential(size=(n, n_features)) / popularity
    order = np.argsort(keys, axis=1)
    indices = np.concatenate([np.sort(row[:k]) for row, k in zip(order, counts, strict=True)])
    # Of 32 bits: LIBLINEAR takes no others.
    indices, indptr = (part.astype(np.int32) for part in (indices, np.append(0, np.cumsum(counts))))
    X = normalize(sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(n, n_features))).tocsr()
    Z = (X @ rng.standard_normal((n_features, _RANK))) @ rng.standard_normal((_RANK, n_labels))
    Z *= spread / Z.std()
    Z += 0.9 * rng.standard_normal(n_labels)
    Z += _shift_for(Z, 19.0 / 983.0)
    Y = (rng.random(Z.shape) < expit(Z)).astype(np.int8)
    return _feature_set("generated", X[:n_train], Y[:n_train], X[n_train:], Y[n_train:], seed)


def _shift_for(Z: NDArray[np.float64], rate: float) -> float:
    """What to add to scores so that about this fraction of the labels is yes."""
    sample = Z[:: max(1, len(Z) // 200)]
    low, high = -20.0, 20.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expit(sample + middle).mean() < rate else (low, middle)
    return low


def _feature_set(
    name: str, X: Any, Y: NDArray[Any], X_test: Any, Y_test: NDArray[Any], seed: int
) -> FeatureSet:
    mask = np.random.default_rng(seed).random(Y.shape) < OBSERVED
    labels = ObservedLabels.from_mask(Y, mask)
    if sp.issparse(X):
        X, X_test = sp.csr_array(X), sp.csr_array(X_test)
    return FeatureSet(name, X, labels, X_test, np.asarray(Y_test, dtype=np.int8))


def log_loss(scores: NDArray[np.float64], Y: NDArray[Any]) -> float:
    """Mean of ``log(1 + e^-sz)`` over all entries; s is 1 for a yes and -1 for a no."""
    return float(np.mean(np.logaddexp(0.0, np.where(Y == 1, -scores, scores))))
