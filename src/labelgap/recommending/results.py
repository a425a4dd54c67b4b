"""What a recommender returns: recommendations, neighbours, and explanations of scores."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats, Ints
from labelgap.recommending.tables import as_column, frame_of, html_table


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
    users : tuple of ids or None, default None
        The users of the rows, where there are several.
    titles : object array or None, default None
        Titles of the items, None for an item without one; None where the recommender has no titles.
    exploratory : array of bool or None, default None
        Which items have a place because they have no ratings yet; None where ``explore`` was 0.

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
    users: tuple[Hashable, ...] | None = None
    titles: NDArray[Any] | None = None
    exploratory: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.items)

    def columns(self) -> dict[str, Any]:
        """The recommendations as columns, one line for each item: user (of several), rank, item, title (if
        there are any), score, probability, decision and (where some places are to explore) exploratory."""
        there = ~np.isnan(self.scores)
        ranks = np.broadcast_to(np.arange(1, self.items.shape[-1] + 1), self.items.shape)
        found: dict[str, Any] = {}
        if self.users is not None:
            lines = np.flatnonzero(there) // max(self.items.shape[-1], 1)
            found["user"] = as_column([self.users[line] for line in lines.tolist()])
        found |= {"rank": ranks[there], "item": as_column(self.items[there].tolist())}
        if self.titles is not None:
            found["title"] = as_column([title or "" for title in self.titles[there].tolist()])
        found |= {
            "score": self.scores[there],
            "probability": np.asarray(self.probabilities)[there],
            "decision": self.decisions[there],
        }
        return found if self.exploratory is None else found | {"exploratory": self.exploratory[there]}

    def to_pandas(self) -> Any:
        """The recommendations as a pandas frame, one line for each item.

        Examples
        --------
        >>> ids = np.array(["Ran", "Alien"], dtype=object)
        >>> best = Recommendations(ids, np.array([1.2, -0.3]), np.array([0.77, 0.43]), np.array([1, 0]))
        >>> best.to_pandas().columns.tolist()
        ['rank', 'item', 'score', 'probability', 'decision']
        """
        return frame_of(self.columns(), "pandas")

    def to_polars(self) -> Any:
        """The recommendations as a polars frame, one line for each item."""
        return frame_of(self.columns(), "polars")

    def _repr_html_(self) -> str:
        return html_table(self.columns(), titled=self.titles is not None)

    def __str__(self) -> str:
        if self.items.ndim != 1:
            return repr(self)
        names = [str(item) for item in self.items]
        if self.titles is not None:
            names = [
                f"{name}  {title or ''}".rstrip() for name, title in zip(names, self.titles, strict=True)
            ]
        width = max(map(len, names), default=0)
        fresh = np.zeros(len(names), dtype=np.bool_) if self.exploratory is None else self.exploratory
        return "\n".join(
            f"{name:<{width}}  score {score:.4g}, probability {chance:.2f}, {'yes' if decision else 'no'}"
            f"{', exploratory' if new else ''}"
            for name, score, chance, decision, new in zip(
                names, self.scores, self.probabilities, self.decisions, fresh, strict=True
            )
        )


class _IdsAndSimilarities(NamedTuple):
    ids: list[Hashable]
    similarities: Floats
    """Cosine of the factors, from -1 to 1; 0 where one of them is 0."""


class Neighbours(_IdsAndSimilarities):
    """Items, or users, by likeness, the most alike first: a pair of ``ids`` and ``similarities``.

    A similarity is the cosine of the factors, from -1 to 1, and 0 where one of them is 0. ``titles`` has the
    titles of items, or is None.

    Examples
    --------
    >>> Neighbours(["Ran"], np.array([0.9])).ids
    ['Ran']
    >>> Neighbours([7], np.array([0.9]), ["Ran"]).to_pandas().to_dict("list")
    {'id': [7], 'title': ['Ran'], 'similarity': [0.9]}
    """

    titles: list[str | None] | None

    def __new__(
        cls, ids: list[Hashable], similarities: Floats, titles: list[str | None] | None = None
    ) -> Self:
        self = super().__new__(cls, ids, similarities)
        self.titles = titles
        return self

    def columns(self) -> dict[str, Any]:
        """The neighbours as columns: id, title (if there are any) and similarity."""
        found: dict[str, Any] = {"id": as_column(self.ids)}
        if self.titles is not None:
            found["title"] = as_column([title or "" for title in self.titles])
        return found | {"similarity": self.similarities}

    def to_pandas(self) -> Any:
        """The neighbours as a pandas frame."""
        return frame_of(self.columns(), "pandas")

    def to_polars(self) -> Any:
        """The neighbours as a polars frame."""
        return frame_of(self.columns(), "polars")

    def _repr_html_(self) -> str:
        return html_table(self.columns(), titled=self.titles is not None)


class Contribution(NamedTuple):
    """The contribution of one rating of the user to the score."""

    item: Hashable
    answer: int | None
    """1 for a like, 0 for a dislike, None for an item without a rating, taken as a probable dislike."""
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """The parts of a score: ``item_intercept`` and all parts listed after it add up to the score.

    Parameters
    ----------
    user, item : ids
    score, probability, threshold : float
    decision : int
        1 if the score is at least the threshold, or the like is recorded where nothing but likes is.
    item_intercept : float
        How well the item is liked in general.
    user_intercept : float
        How much the user likes things in general.
    from_features : float
        The contribution of the user's features, and of which items the user has rated
        (``implicit_feedback``).
    contributions : tuple of Contribution
        The ratings with the largest contributions, by size.
    other_answers : float
        The sum of the contributions of the user's other ratings.
    n_other_answers : int
        The number of these other ratings.
    unexplained : float
        The rest of the score: 0 when the fit, or the fold-in, has converged for this user.
    titles : mapping from item to title, or None, default None
        What is printed in place of the ids.
    average_user : float, default 0.0
        The contribution of the mean of the users, which a user who was folded in starts from.
    features : str, default "the user's features"
        What ``from_features`` comes from, in words.

    Examples
    --------
    >>> why = Explanation("ann", "Ran", 1.2, 0.77, 0.5, 1, 0.4, 0.1, 0.0,
    ...                   (Contribution("Alien", 1, 0.5), Contribution("Jaws", 0, 0.2)), 0.0, 0, 0.0)
    >>> print(why)
    'ann' and 'Ran': yes, for the score 1.2 is at least the threshold 0.5 (probability 0.77)
      +0.4000  the item in general
      +0.1000  the user in general
      +0.5000  likes 'Alien'
      +0.2000  does not like 'Jaws'
    """

    user: Hashable
    item: Hashable
    score: float
    probability: float
    threshold: float
    decision: int
    item_intercept: float
    user_intercept: float
    from_features: float
    contributions: tuple[Contribution, ...]
    other_answers: float
    n_other_answers: int
    unexplained: float
    titles: Mapping[Hashable, str] | None = None
    average_user: float = 0.0
    features: str = "the user's features"

    def _name(self, item: Hashable) -> str:
        return repr(item if self.titles is None else self.titles.get(item, item))

    def __str__(self) -> str:
        relation = "at least" if self.score >= self.threshold else "below"
        reason = f"the score {self.score:.4g} is {relation} the threshold {self.threshold:.4g}"
        if self.decision and relation == "below":
            reason = f"the like is recorded, though {reason}"
        title = (
            f"{self.user!r} and {self._name(self.item)}: {'yes' if self.decision else 'no'}, for {reason} "
            f"(probability {self.probability:.2f})"
        )
        lines = [
            title,
            f"  {self.item_intercept:+.4f}  the item in general",
            f"  {self.user_intercept:+.4f}  the user in general",
        ]
        if self.average_user:
            lines.append(f"  {self.average_user:+.4f}  the average user")
        if self.from_features:
            lines.append(f"  {self.from_features:+.4f}  {self.features}")
        says = {1: "likes", 0: "does not like", None: "has not rated"}
        lines += [
            f"  {part:+.4f}  {says[answer]} {self._name(item)}" for item, answer, part in self.contributions
        ]
        if self.n_other_answers:
            lines.append(f"  {self.other_answers:+.4f}  {self.n_other_answers} other items")
        # A smaller one would be printed as 0.
        if abs(self.unexplained) >= 5e-5:
            lines.append(f"  {self.unexplained:+.4f}  not explained: the fit has not quite converged")
        return "\n".join(lines)


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


def rating_parts(
    slopes: Floats, rated: Floats, penalty: Floats, target: Floats, rating_weight: float
) -> Floats:
    """The contribution of each rating to ``a · target``, where a minimises a user's part of the objective.

    There ``M a = −w Σ_j g_j v_j``, so ``a · t = Σ_j −w g_j v_jᵀ M⁻¹ t``.

    Parameters
    ----------
    slopes : array of length c
        g, the slope of the loss at each rating, times the weight of the rating.
    rated : array of shape (c, k)
        v, the factors of the rated items.
    penalty : array of shape (k, k)
        M.
    target : array of length k
        t.
    rating_weight : float
        w.

    Examples
    --------
    >>> rating_parts(np.array([-1.0]), np.array([[2.0]]), np.array([[4.0]]), np.array([3.0]), 0.5)
    array([0.75])
    """
    return np.asarray(-rating_weight * slopes * (rated @ np.linalg.solve(penalty, target)))


def largest(parts: Floats, n: int) -> tuple[Ints, NDArray[np.bool_]]:
    """The numbers of the n largest parts by absolute value, equal ones in order, and a mask of the others.

    Examples
    --------
    >>> largest(np.array([0.1, -0.5, 0.3]), 2)
    (array([1, 2]), array([ True, False, False]))
    """
    order = np.argsort(-np.abs(parts), kind="stable")[:n]
    others = np.ones(len(parts), dtype=np.bool_)
    others[order] = False
    return order, others
