"""What every sampling model can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.sampling.target import Target


class Spread(NamedTuple):
    """How uneven sampling is: μ bounds the rarest entry, ν the busiest row or label; 1 is even."""

    mu: float
    nu: float


class SamplingModel(ABC):
    """Which labels get observed: entry (i, j) with probability p_ij, each independently of all others.

    So an entry is observed once or not at all, ``p_ij`` is its inclusion probability exactly, and the number
    of observed entries is random, with mean ``share · n · L`` and a standard deviation below the root of
    that. The paper's π is ``p / Σ p``.

    In every method ``of`` is a shape ``(n, L)`` or the labels Y themselves: an array, a frame,
    ``ObservedLabels``, or a sparse matrix in which an absent entry is a no.
    """

    share: float
    """The expected fraction of the entries that is observed."""

    @abstractmethod
    def _draw(self, target: Target, rng: np.random.RandomState) -> NDArray[np.int64]:
        """The observed entries, ascending, as ``row · L + column``."""

    @abstractmethod
    def _propensities(self, target: Target, entries: NDArray[np.int64]) -> Floats:
        """The inclusion probability of each entry."""

    @abstractmethod
    def _spread(self, target: Target) -> Spread:
        """μ and ν."""

    def sample(self, of: Any, random_state: Any = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns of the observed entries, row by row, columns ascending.

        Time and memory are proportional to the number drawn plus n + L.

        Examples
        --------
        >>> from labelgap.sampling import Uniform
        >>> rows, cols = Uniform(0.5).sample((2, 3), random_state=0)
        >>> rows.tolist(), cols.tolist()
        ([0, 1, 1], [1, 0, 2])
        """
        target = Target(of)
        rows, cols = np.divmod(self._draw(target, check_random_state(random_state)), target.shape[1])
        return rows, cols

    def observe(self, Y: Any, random_state: Any = None) -> ObservedLabels:
        """The labels Y with all but the drawn entries hidden; an entry that Y does not know stays so.

        Examples
        --------
        >>> from labelgap.sampling import Uniform
        >>> Uniform(0.5).observe([[1, 0, 1], [0, 1, 0]], random_state=0).to_dense()
        array([[nan,  0., nan],
               [ 0., nan,  0.]])
        """
        target = Target(Y)
        entries = self._draw(target, check_random_state(random_state))
        rows, cols = np.divmod(entries, target.shape[1])
        return target.reveal(rows, cols)

    def propensities_at(self, rows: ArrayLike, cols: ArrayLike, of: Any) -> Floats:
        """The inclusion probability p_ij of each entry (rows[t], cols[t]).

        Examples
        --------
        >>> from labelgap.sampling import Popular
        >>> Popular(0.2, row_skew=0, label_skew=1).propensities_at([0, 1], [0, 2], (2, 3)).round(3).tolist()
        [0.327, 0.109]
        """
        target = Target(of)
        return self._propensities(target, target.entries(rows, cols))

    def probabilities(self, of: Any) -> Floats:
        """All inclusion probabilities as an n x L array; meant for small matrices."""
        target = Target(of)
        return self._propensities(target, np.arange(target.n_entries)).reshape(target.shape)

    def mu_nu(self, of: Any) -> Spread:
        """The smallest μ and ν that hold for ``π = p / Σ p``.

        ``μ = 1 / (n L min π)`` and ``ν = min(n, L) · (the largest row or column sum of π)``.
        """
        return self._spread(Target(of))


def check_observed_share(share: float) -> None:
    """Raise unless ``share`` is above 0 and at most 1."""
    if not 0 < share <= 1:
        raise InvalidParameterError(f"share is above 0 and at most 1, not {share!r}.")
