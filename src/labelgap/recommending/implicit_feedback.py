"""Which items a user has rated, whatever the ratings: features of users and items.

People rate what they choose to see, so the pattern of the ratings says something of their taste. With P the
pattern (1 where there is a rating; users x items), D and E the numbers of ratings of users and of items on
diagonals, and d and e their means, the features are the leading singular vectors of

    ``N = (D + dI)^-½ P (E + eI)^-½``

but for the first, which is that some users and items have more ratings than others. The means keep users and
items with few ratings from having directions of their own. As many vectors are used as have singular values
that chance does not explain: those above the largest singular value of the same matrix with random signs,
which has the noise of the pattern and none of its structure.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.persistence.registry import savable_record

# Vectors at most.
_MOST = 16
# Steps of subspace iteration: the spaces above the noise are found long before single vectors are.
_STEPS = 4
# How far a singular value has to exceed that of chance, as a factor, and as a fraction of the first one where
# every pair is rated and nothing is left to chance.
_MARGIN, _LEAST = 1.05, 1e-4


@savable_record("implicit_feedback")
class ImplicitFeedback(NamedTuple):
    """Singular vectors of a pattern of ratings, as weights that turn ratings into features.

    A feature of a user is ``(m + d)^-½`` times the sum of the weights of the m items that the user has rated,
    and likewise for an item; then the mean is subtracted, and it is divided by the scale.
    """

    user_weights: Floats
    item_weights: Floats
    mean_counts: Floats
    """d and e."""
    user_units: Floats
    """Mean and scale (2 x r) of the columns of the users."""
    item_units: Floats

    @classmethod
    def learn(cls, ratings: ObservedLabels) -> Self | None:
        """The vectors that stand out of a pattern; None where none do."""
        pattern = _pattern(ratings)
        counts = ratings.row_counts(), ratings.label_counts()
        means = np.array([count.mean() for count in counts])
        lengths = [1.0 / np.sqrt(count + mean) for count, mean in zip(counts, means, strict=True)]
        # More threads would round in another way.
        with threadpool_limits(limits=1, user_api="blas"):
            found = _standing_out(pattern, *lengths)
        if found is None:
            return None
        V, values = found
        item_weights = lengths[1][:, None] * V / values
        users = lengths[0][:, None] * (pattern @ item_weights)
        user_weights = lengths[0][:, None] * users / values
        items = lengths[1][:, None] * (pattern.T @ user_weights)
        return cls(user_weights, item_weights, means, _units(users, len(items)), _units(items, len(users)))

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return int(self.item_weights.shape[1])

    def is_same(self, other: ImplicitFeedback | None) -> bool:
        """Whether the other makes the same features."""
        return other is not None and all(np.array_equal(a, b) for a, b in zip(self, other, strict=True))

    def of_users(self, ratings: ObservedLabels) -> Floats:
        """The features of the rows of these ratings, whose columns are the items in their order."""
        return _features(_pattern(ratings), self.item_weights, self.mean_counts[0], self.user_units)

    def of_items(self, ratings: ObservedLabels) -> Floats:
        """The features of the columns of these ratings, whose rows are the users in their order."""
        return _features(_pattern(ratings).T, self.user_weights, self.mean_counts[1], self.item_units)


def _pattern(ratings: ObservedLabels) -> sp.csr_array:
    ones = np.ones(ratings.n_observed, dtype=np.float32)
    return sp.csr_array((ones, ratings.indices, ratings.indptr), shape=ratings.shape)


def _standing_out(
    pattern: sp.csr_array, row_lengths: Floats, column_lengths: Floats
) -> tuple[Floats, Floats] | None:
    """Right singular vectors and values beyond the first that chance does not explain; None without any."""
    n, n_items = pattern.shape
    most = min(_MOST + 1, n, n_items)
    if most < 2 or pattern.nnz == 0:
        return None
    # Single precision is far below the noise.
    scaled = np.repeat(row_lengths.astype(np.float32), np.diff(pattern.indptr))
    scaled *= column_lengths.astype(np.float32)[pattern.indices]
    N = sp.csr_array((scaled, pattern.indices, pattern.indptr), shape=pattern.shape)
    _, values, right = randomized_svd(N, most, n_iter=_STEPS, random_state=0)
    N.data *= np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.float32), pattern.nnz)
    chance = randomized_svd(N, most, n_iter=_STEPS, random_state=0)[1][0]
    # A pair that is rated with probability p has the variance p(1 − p), and one with a random sign has p.
    density = pattern.nnz / (n * n_items)
    edge = max(_MARGIN * np.sqrt(1 - density) * chance, _LEAST * values[0])
    count = int(np.count_nonzero(values[1:] > edge))
    if count == 0:
        return None
    return right[1 : 1 + count].T.astype(np.float64), values[1 : 1 + count].astype(np.float64)


def _units(columns: Floats, n_others: int) -> Floats:
    """Mean and scale of r columns for n users (or items) that are to have mean 0 and one length.

    The trace norm penalises longer columns less. The largest singular value of a noise matrix of a x b is
    about √a + √b times that of an element. So with the length ``(√n + √L)/(√r + √L)`` noise enters a model by
    the r columns only where it would by the n columns of the ids, which have the length 1.
    """
    n, r = columns.shape
    length = (np.sqrt(n) + np.sqrt(n_others)) / (np.sqrt(r) + np.sqrt(n_others))
    return np.stack([columns.mean(axis=0), columns.std(axis=0) * np.sqrt(n) / length])


def _features(pattern: Any, weights: Floats, mean_count: float, units: Floats) -> Floats:
    """The features of rows by the weights of the columns; columns that came later have none."""
    known = np.zeros((pattern.shape[1], 1 + weights.shape[1]))
    known[: len(weights), 0] = 1.0
    known[: len(weights), 1:] = weights
    sums = np.asarray(pattern @ known)
    mean, scale = units
    return np.asarray((sums[:, 1:] / np.sqrt(sums[:, :1] + mean_count) - mean) / scale)
