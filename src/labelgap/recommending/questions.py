"""Which items to ask a user about: those whose ratings are expected to tell most about the others.

Before any rating, the factors of a user are taken to be normal with the mean and the covariance of the known
users' factors. A rating of item j adds ``c_j v_j v_jᵀ`` to the precision, where c_j is the expected curvature
of the loss there. With Σ the covariance after the ratings so far, the scores of all items together have the
variance ``tr(G Σ)``, ``G`` being the mean of ``v vᵀ``, and a rating of item j lowers it by

    ``c_j v_jᵀ Σ G Σ v_j / (1 + c_j v_jᵀ Σ v_j)``.

A user can only rate what they know. So this is multiplied with a_j, the fraction of the users who have rated
the item, and the next question of a list counts the one before as answered in that part.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.recommending.tables import as_column, frame_of, html_table

# Directions in which users differ by less than this fraction of the largest are left out.
_DEAD = 1e-10


@dataclass(frozen=True, eq=False)
class Questions:
    """Items to ask a user about, best first; as an iterable it gives their ids.

    Parameters
    ----------
    ids : list
    known : float64 array
        How likely it is that the user can rate the item: the fraction of the users who have.
    probability : float64 array
        The probability of a like, as far as it is known.
    gain : float64 array
        How much of the variance of the scores of all items the rating is expected to remove, as a fraction of
        what is left before it.
    titles : list or None, default None

    Examples
    --------
    >>> half = np.array([0.5])
    >>> print(Questions(["Ran"], half, half, half / 2))
    Ran  rated by 50 % of the users, expected to settle 25 % of what is open
    """

    ids: list[Hashable]
    known: Floats
    probability: Floats
    gain: Floats
    titles: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Any:
        return iter(self.ids)

    def columns(self) -> dict[str, Any]:
        """The questions as columns: item, title where there are titles, known, probability, gain."""
        titles = {} if self.titles is None else {"title": as_column(self.titles)}
        return {
            "item": as_column(self.ids),
            **titles,
            "known": self.known,
            "probability": self.probability,
            "gain": self.gain,
        }

    def to_frame(self, library: str = "pandas") -> Any:
        """The questions as a frame of "pandas" (the default) or "polars", one line for each."""
        check_choice("library", library, ("pandas", "polars"))
        return frame_of(self.columns(), library)

    def _repr_html_(self) -> str:
        return html_table(self.columns(), titled=False)

    def __str__(self) -> str:
        titles = [None] * len(self) if self.titles is None else self.titles
        names = [str(one if title is None else title) for one, title in zip(self.ids, titles, strict=True)]
        width = max(map(len, names), default=0)
        return "\n".join(
            f"{name:<{width}}  rated by {100 * known:.0f} % of the users, expected to settle "
            f"{100 * gain:.0f} % of what is open"
            for name, known, gain in zip(names, self.known, self.gain, strict=True)
        )


def covariance_of(user_factors: Floats) -> tuple[Floats, Floats]:
    """The mean and the covariance of the users' factors.

    Examples
    --------
    >>> covariance_of(np.array([[1.0], [3.0]]))
    (array([2.]), array([[1.]]))
    """
    mean = user_factors.mean(axis=0)
    centred = user_factors - mean
    return mean, np.asarray(centred.T @ centred / len(centred))


def with_rating(covariance: Floats, v: Floats, curvature: float) -> Floats:
    """The covariance after a rating that adds ``curvature · v vᵀ`` to the precision."""
    along = covariance @ v
    return np.asarray(
        covariance - np.outer(along, along) * (curvature / (1.0 + curvature * float(v @ along)))
    )


def choose_questions(
    item_factors: Floats,
    covariance: Floats,
    curvature: Floats,
    known: Floats,
    allowed: NDArray[np.bool_],
    n: int,
) -> tuple[NDArray[np.int64], Floats]:
    """The numbers of at most n items to ask about, in order, and the gain of each.

    Parameters
    ----------
    item_factors : array of shape (L, k)
    covariance : array of shape (k, k)
        Σ, of the user's factors before the first question.
    curvature : array of length L
        c, what a rating of each item adds to the precision in the direction of its factors.
    known : array of length L
        a, the probability that the user can rate the item.
    allowed : bool array of length L
        The items that may be asked about.
    n : int

    Examples
    --------
    >>> V = np.array([[1.0, 0.0], [1.1, 0.0], [0.0, 1.0]])
    >>> every = np.ones(3, dtype=bool)
    >>> choose_questions(V, np.eye(2), np.ones(3), np.ones(3), every, 2)[0]
    array([1, 2])
    """
    V, sigma, may = item_factors, np.array(covariance), allowed.copy()
    G = V.T @ V / max(len(V), 1)
    least = _DEAD * float(np.sum(G * sigma))
    chosen, gains = [], []
    for _ in range(min(n, int(may.sum()))):
        left = float(np.sum(G * sigma))
        along = V @ sigma
        lowered = np.einsum("ij,ij->i", along @ G, along) * curvature
        lowered /= 1.0 + curvature * np.einsum("ij,ij->i", along, V)
        worth = np.where(may, known * lowered, -np.inf)
        best = int(np.argmax(worth))
        chosen.append(best)
        gains.append(worth[best] / left if left > least else 0.0)
        may[best] = False
        sigma = with_rating(sigma, V[best], float(known[best] * curvature[best]))
    return np.array(chosen, dtype=np.int64), np.array(gains, dtype=np.float64)
