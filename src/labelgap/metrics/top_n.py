"""How good lists of n items are, from the rank of each item that was liked; a mean over users.

Nothing but ranks is needed: they say what is in the first n, in which order, and how many items stand before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidParameterError


class RankingFigures(NamedTuple):
    """Means over the users with something liked.

    Examples
    --------
    >>> RankingFigures(0.5, 1.0, 1.0, 1.0, 1.0, 0.9).ndcg
    1.0
    """

    precision: float
    """The fraction of the items shown that are liked."""
    recall: float
    """The fraction of the liked items that are shown."""
    ndcg: float
    """Discounted gain ``Σ 1 / log2(1 + rank)`` of the liked items shown, relative to the best order."""
    map: float
    """Mean, over the first min(n, liked) places, of the precision at each liked item shown."""
    hit_rate: float
    """The fraction of users to whom at least one liked item is shown."""
    auc: float
    """The probability that a liked item stands before one that is not known to be liked, over all ranks."""
    coverage: float = float("nan")
    """The fraction of all items that are shown to at least one user; NaN where it was not counted."""


class UnseenUserFigures(NamedTuple):
    """The figures of Liang et al. (2018) for users that a fit did not see; means over these users.

    Examples
    --------
    >>> UnseenUserFigures(0.4, 0.5, 0.3).ndcg_100
    0.3
    """

    capped_recall_20: float
    """How many liked items are among the first 20, as a fraction of min(20, liked)."""
    capped_recall_50: float
    """How many liked items are among the first 50, as a fraction of min(50, liked)."""
    ndcg_100: float
    """As ``ndcg`` of :class:`RankingFigures`, of the first 100."""


def ranking_figures(ranks: Any, indptr: Any, candidates: Any, n: int) -> RankingFigures:
    """Figures of the first n items, from the ranks of the liked items of each user.

    Parameters
    ----------
    ranks : integer vector
        The rank of each liked item among the candidates of its user, 1 for the best; users one after the
        other, in any order within a user.
    indptr : integer vector of length users + 1
        The ranks of user i are ``indptr[i]`` to ``indptr[i + 1] - 1``.
    candidates : integer vector with one number per user
        How many items were ranked for each user.
    n : int
        The length of the list.

    Returns
    -------
    figures : RankingFigures
        Without the coverage, which ranks do not say. NaN where no user has a liked item, and an AUC of NaN
        where no user has an item that is not liked.

    Examples
    --------
    >>> figures = ranking_figures([1, 4], [0, 2], [5], n=2)
    >>> figures.precision, figures.recall, round(figures.ndcg, 3), round(figures.auc, 3)
    (0.5, 0.5, 0.613, 0.667)
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InvalidParameterError(f"n must be a whole number, 1 or more; got {n!r}.")
    places, pointers, sizes = (np.asarray(part, dtype=np.int64) for part in (ranks, indptr, candidates))
    liked = np.diff(pointers)
    if len(sizes) != len(liked) or (len(pointers) and pointers[-1] != len(places)):
        raise InvalidInputError(
            f"There are {len(places)} ranks of {len(liked)} users, row pointers up to "
            f"{pointers[-1] if len(pointers) else 0} and {len(sizes)} numbers of candidates; they must agree."
        )
    users = np.repeat(np.arange(len(liked)), liked)
    outside = (places < 1) | (places > sizes[users])
    if outside.any():
        first = int(np.argmax(outside))
        raise InvalidInputError(
            f"The rank {places[first]} of user {users[first]} is not between 1 and the number of candidates, "
            f"{sizes[users[first]]}."
        )
    places = places[np.lexsort((places, users))]
    # The number of liked items up to this one, itself included.
    upto = np.arange(len(places)) - np.repeat(pointers[:-1], liked) + 1
    shown = places <= n
    judged = liked > 0

    def per_user(values: NDArray[Any]) -> Floats:
        return np.bincount(users, weights=values, minlength=len(judged)).astype(np.float64)[judged]

    liked, sizes = liked[judged], sizes[judged]
    if len(liked) == 0:
        return RankingFigures(*[float("nan")] * 6)
    hits, most = per_user(shown), np.minimum(liked, n)
    others = sizes - liked
    # The liked items before this one are not counted: a place less for each of them.
    beaten = per_user(places - upto) / liked
    auc = 1 - beaten[others > 0] / others[others > 0]
    return RankingFigures(
        precision=float(np.mean(hits / np.minimum(sizes, n))),
        recall=float(np.mean(hits / liked)),
        ndcg=float(np.mean(ndcg_by_user(places, users, n)[np.flatnonzero(judged)])),
        map=float(np.mean(per_user(np.where(shown, upto / places, 0.0)) / most)),
        hit_rate=float(np.mean(hits > 0)),
        auc=float(np.mean(auc)) if len(auc) else float("nan"),
    )


def unseen_user_figures(ranks: NDArray[np.int64], indptr: NDArray[np.int64]) -> UnseenUserFigures:
    """As :func:`ranking_figures`, where every user has a liked item.

    Examples
    --------
    >>> figures = unseen_user_figures(np.array([1, 25, 60]), np.array([0, 3]))
    >>> round(figures.capped_recall_20, 3), round(figures.capped_recall_50, 3), round(figures.ndcg_100, 3)
    (0.333, 0.667, 0.648)
    """
    liked = np.diff(indptr)
    users = np.repeat(np.arange(len(liked)), liked)

    def capped_recall(n: int) -> float:
        return float(np.mean(np.bincount(users, weights=ranks <= n) / np.minimum(liked, n)))

    ndcg = float(np.mean(ndcg_by_user(ranks, users, 100)))
    return UnseenUserFigures(capped_recall(20), capped_recall(50), ndcg)


def ndcg_by_user(ranks: NDArray[Any], users: NDArray[np.int64], n: int) -> Floats:
    """Discounted gain of the first n items over that of the best order, for each user number up to the last.

    ``users`` has the user of each rank; a user without any has 0.

    Examples
    --------
    >>> ndcg_by_user(np.array([1, 4, 2]), np.array([0, 0, 2]), n=2).round(3)
    array([0.613, 0.   , 0.631])
    """
    gains = np.where(ranks <= n, 1.0 / np.log2(1.0 + ranks), 0.0)
    reached = np.bincount(users, weights=gains)
    best = np.cumsum(1.0 / np.log2(2.0 + np.arange(n)))
    return np.asarray(reached / best[np.clip(np.bincount(users), 1, n) - 1])
