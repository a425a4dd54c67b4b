"""What a recommender hands out: items with scores, and neighbours."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats


@dataclass(frozen=True, eq=False)
class Recommendations:
    """Items for one user (arrays of length n or less) or for several (arrays users x n), best first.

    Where a user of several has fewer than n items left, the row is filled up: item None, score and
    probability NaN, decision 0. For one user there are just fewer.

    Parameters
    ----------
    items : object array
        Ids of the items.
    scores : float64 array
        ``z``.
    probabilities : float64 array
        The probability of a like.
    decisions : int8 array
        1 where the score is at least the threshold.

    Examples
    --------
    >>> ids = np.array(["Ran", "Alien"], dtype=object)
    >>> best = Recommendations(ids, np.array([1.2, -0.3]), np.array([0.77, 0.43]), np.array([1, 0]))
    >>> len(best)
    2
    >>> print(best)
    Ran    score 1.2, probability 0.77, yes
    Alien  score -0.3, probability 0.43, no
    """

    items: NDArray[Any]
    scores: Floats
    probabilities: NDArray[np.floating[Any]]
    decisions: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        if self.items.ndim != 1:
            return repr(self)
        names = [str(item) for item in self.items]
        width = max(map(len, names), default=0)
        return "\n".join(
            f"{name:<{width}}  score {score:.4g}, probability {share:.2f}, {'yes' if decision else 'no'}"
            for name, score, share, decision in zip(
                names, self.scores, self.probabilities, self.decisions, strict=True
            )
        )


class Neighbours(NamedTuple):
    """Items, or users, by likeness, the most alike first.

    Examples
    --------
    >>> Neighbours(["Ran"], np.array([0.9])).ids
    ['Ran']
    """

    ids: list[Hashable]
    similarities: Floats
    """Cosine of the factors, from -1 to 1; 0 where one of them is 0."""


def nearest(factors: Floats, one: int, n: int) -> tuple[NDArray[np.int64], Floats]:
    """The n other rows with the largest cosine to one row, and the cosines; equal ones in order.

    Examples
    --------
    >>> nearest(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]), 0, 2)
    (array([2, 1]), array([1., 0.]))
    """
    lengths = np.linalg.norm(factors, axis=1)
    product = lengths * lengths[one]
    cosine = np.divide(factors @ factors[one], product, out=np.zeros(len(factors)), where=product > 0)
    order = np.argsort(-cosine, kind="stable")
    chosen = order[order != one][:n]
    return chosen, np.clip(cosine[chosen], -1.0, 1.0)
