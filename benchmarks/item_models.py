"""Models that score items from the items a user likes: EASE, nearest neighbours and SLIM.

They are written without labelgap, so that none of its faults can be in them. None has factors: they score a
block of users at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from benchmarks.ranking import Scorer, blocks

Floats = NDArray[np.float64]


class ItemWeights(NamedTuple):
    """A user's score of an item is the sum of the item's weights over the user's likes."""

    likes: sp.csr_array
    weights: Any
    """Items x items, sparse or dense."""

    def of(self, users: slice) -> Floats:
        found = self.likes[users] @ self.weights
        return found.toarray() if sp.issparse(found) else found


class EaseByUsers(NamedTuple):
    """EASE by the inverse of a matrix of users x users, for fewer users than items.

    With ``K = (XXᵀ + penalty)⁻¹``, the inverse P of ``XᵀX + penalty`` is ``(1 - XᵀKX) / penalty``: XP = KX.
    """

    likes: sp.csr_array
    K: Floats
    diagonal: Floats
    """Of P."""

    def of(self, users: slice) -> Floats:
        return self.likes[users].toarray() - _product(self.K[users], self.likes) / self.diagonal


def ease(X: sp.csr_array, penalty: float) -> Scorer:
    """A ridge regression of each item on all others, by one inverse of the smaller Gram matrix."""
    if X.shape[1] <= X.shape[0]:
        P = np.linalg.inv((X.T @ X).toarray() + penalty * np.eye(X.shape[1]))
        weights = -P / np.diagonal(P)
        np.fill_diagonal(weights, 0.0)
        return ItemWeights(X, weights)
    K = np.linalg.inv((X @ X.T).toarray() + penalty * np.eye(X.shape[0]))
    explained = np.zeros(X.shape[1])
    for users in blocks(*X.shape):
        explained += X[users].multiply(_product(K[users], X)).sum(axis=0)
    return EaseByUsers(X, K, (1 - explained) / penalty)


def _product(K: Floats, X: sp.csr_array) -> Floats:
    return np.ascontiguousarray((X.T @ np.ascontiguousarray(K.T)).T)


def neighbours(X: sp.csr_array, count: int, shrinkage: float) -> ItemWeights:
    """The ``count`` items of the highest cosine, which is shrunk for items with few likes."""
    return ItemWeights(X, nearest(X, count, shrinkage))


def nearest(X: sp.csr_array, count: int, shrinkage: float) -> sp.csr_array:
    """Cosines of each item (a column) and its nearest ones, 0 elsewhere."""
    columns, n_items = sp.csc_array(X), X.shape[1]
    lengths = np.sqrt(np.diff(columns.indptr))
    count, found = min(count, n_items - 1), []
    for part in blocks(n_items, n_items):
        cosines = (columns[:, part].T @ columns).toarray()
        cosines /= np.maximum(np.outer(lengths[part], lengths) + shrinkage, 1e-12)
        cosines[np.arange(len(cosines)), np.arange(n_items)[part]] = 0.0
        best = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        places = np.arange(len(best)).repeat(count), best.ravel()
        kept = sp.csr_array((cosines[places], places), cosines.shape)
        kept.eliminate_zeros()
        found.append(kept)
    return sp.csr_array(sp.vstack(found).T)


def slim(X: sp.csr_array, count: int, l1: float, l2: float) -> ItemWeights:
    """SLIM with feature selection: each item by its nearest ones, with weights ≥ 0 by an elastic net.

    An item's weights minimise ``½‖x - Σ w_i x_i‖² + l1 Σ w_i + ½ l2 Σ w_i²``.
    """
    columns, weights = sp.csc_array(X), sp.csc_array(nearest(X, count, 0.0))
    likes = columns.indptr, columns.indices, X.shape[0]
    _descend(*likes, weights.indptr, weights.indices, weights.data, l1, l2)
    weights.eliminate_zeros()
    return ItemWeights(X, sp.csr_array(weights))


@njit(cache=True)
def _descend(
    starts: Any, likers: Any, n: int, bounds: Any, others: Any, weights: Any, l1: float, l2: float
) -> None:
    """Coordinate descent from 0 for every item, until no weight changes by 1e-4 in a sweep."""
    weights[:] = 0.0
    for item in range(len(starts) - 1):
        residual = np.zeros(n)
        residual[likers[starts[item] : starts[item + 1]]] = 1.0
        for _ in range(100):
            change = 0.0
            for place in range(bounds[item], bounds[item + 1]):
                users = likers[starts[others[place]] : starts[others[place] + 1]]
                total = len(users) * weights[place]
                for user in users:
                    total += residual[user]
                step = max(total - l1, 0.0) / (len(users) + l2) - weights[place]
                if step != 0.0:
                    weights[place] += step
                    for user in users:
                        residual[user] -= step
                change = max(change, abs(step))
            if change < 1e-4:
                break
