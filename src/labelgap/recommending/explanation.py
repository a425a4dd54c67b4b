"""Why a score is what it is: the parts that the user's own answers have in it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats, Ints


class Contribution(NamedTuple):
    """What one answer of the user adds to the score."""

    item: Hashable
    answer: int | None
    """1 for a like, 0 for a dislike, None for an item without an answer, taken as a probable no."""
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """The parts of a score; ``item_intercept`` and all that are listed after it add up to it.

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
        What the user's features say about the item.
    contributions : tuple of Contribution
        The answers with the largest parts, by size.
    other_answers : float
        The parts of the user's other answers, added up.
    n_other_answers : int
    unexplained : float
        What is left: 0 when the fit, or the fold-in, has converged for this user.

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

    def __str__(self) -> str:
        relation = "at least" if self.score >= self.threshold else "below"
        reason = f"the score {self.score:.4g} is {relation} the threshold {self.threshold:.4g}"
        if self.decision and relation == "below":
            reason = f"the like is recorded, though {reason}"
        title = (
            f"{self.user!r} and {self.item!r}: {'yes' if self.decision else 'no'}, for {reason} "
            f"(probability {self.probability:.2f})"
        )
        lines = [
            title,
            f"  {self.item_intercept:+.4f}  the item in general",
            f"  {self.user_intercept:+.4f}  the user in general",
        ]
        if self.from_features:
            lines.append(f"  {self.from_features:+.4f}  the user's features")
        says = {1: "likes", 0: "does not like", None: "has not answered about"}
        lines += [f"  {part:+.4f}  {says[answer]} {item!r}" for item, answer, part in self.contributions]
        if self.n_other_answers:
            lines.append(f"  {self.other_answers:+.4f}  {self.n_other_answers} other items")
        # Below what is printed it would only be a row of zeros.
        if abs(self.unexplained) >= 5e-5:
            lines.append(f"  {self.unexplained:+.4f}  not explained: the fit has not quite converged")
        return "\n".join(lines)


def answer_parts(
    slopes: Floats, answered: Floats, penalty: Floats, target: Floats, answer_weight: float
) -> Floats:
    """What each answer adds to ``a · target``, where a minimises a user's part of the objective.

    There ``M a = −w Σ_j g_j v_j``, so ``a · t = Σ_j −w g_j v_jᵀ M⁻¹ t``.

    Parameters
    ----------
    slopes : array of length c
        g, the slope of the loss at each answer, times the answer's own weight.
    answered : array of shape (c, k)
        v, the factors of the items answered about.
    penalty : array of shape (k, k)
        M.
    target : array of length k
        t.
    answer_weight : float
        w.

    Examples
    --------
    >>> answer_parts(np.array([-1.0]), np.array([[2.0]]), np.array([[4.0]]), np.array([3.0]), 0.5)
    array([0.75])
    """
    return np.asarray(-answer_weight * slopes * (answered @ np.linalg.solve(penalty, target)))


def largest(parts: Floats, n: int) -> tuple[Ints, NDArray[np.bool_]]:
    """The numbers of the n largest parts by size, equal ones in order, and a mask of the others.

    Examples
    --------
    >>> largest(np.array([0.1, -0.5, 0.3]), 2)
    (array([1, 2]), array([ True, False, False]))
    """
    order = np.argsort(-np.abs(parts), kind="stable")[:n]
    others = np.ones(len(parts), dtype=np.bool_)
    others[order] = False
    return order, others
