"""The methods of a fitted recommender: score, decide, recommend, explain, and add new users and items."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.recommending.best_items import ItemsChosen
from labelgap.recommending.closed_form.serving import parts_of_score
from labelgap.recommending.evaluation import RankingJudged
from labelgap.recommending.extending import extended
from labelgap.recommending.factor_model import contains, whole_number
from labelgap.recommending.ids import IdIndex
from labelgap.recommending.pairs import PairsJudged
from labelgap.recommending.questions import Questions, choose_questions, covariance_of, with_rating
from labelgap.recommending.results import (
    Contribution,
    Explanation,
    Neighbours,
    largest,
    nearest,
    rating_parts,
)
from labelgap.recommending.top_items import score_pairs, score_rows


class Recommending(PairsJudged, ItemsChosen, RankingJudged):
    """The methods that a recommender has once it is fitted.

    The score of a user and an item is ``z_ij = u_i · v_j + b_j``, the decision ``z_ij ≥ θ``. All methods that
    look at many pairs work in blocks: no array of users x items is made.

    Wherever users or items are named, one id or a sequence of ids will do. A tuple that is itself an id is
    one id.

    Examples
    --------
    >>> from labelgap import ObservedLabels, get_metric
    >>> from labelgap.losses import Logistic
    >>> model = Recommending()
    >>> model.user_ids_, model.item_ids_ = ("ann", "bob"), ("Ran", "Alien", "Jaws")
    >>> model.user_factors_, model.user_prior_ = np.array([[1.0], [-1.0]]), np.zeros((2, 1))
    >>> model.item_factors_ = np.array([[2.0], [1.0], [-1.0]])
    >>> model.item_intercept_, model.threshold_ = np.zeros(3), 0.0
    >>> model.loss_, model.metric_ = Logistic(), get_metric("micro-f1")
    >>> model.answers_ = ObservedLabels.from_triplets([0, 1], [0, 2], [1, 1], shape=(2, 3))
    >>> model.factor_penalty_, model.answer_weight_ = np.eye(1), 0.5
    >>> model.predict("ann", ["Ran", "Jaws"])
    array([1, 0], dtype=int8)
    >>> model.recommend("ann", n=1).items.tolist()
    ['Alien']
    >>> model.decide()
    {'ann': ['Ran', 'Alien'], 'bob': ['Jaws']}
    >>> print(f"{model.fold_in((['eve'], ['Ran'], [1])).predict_proba('eve', 'Alien'):.2f}")
    0.65
    """

    # -- similarity and explanations -------------------------------------------------------------------

    def similar_items(self, item: Any, n: int = 10) -> Neighbours:
        """The n items most like one item, by the cosine of their factors; the item itself is left out.

        The part that all items share, which carries the users' intercepts, is subtracted first. Factors of
        lists count by their singular values.
        """
        self._require_fit()
        return _neighbours(
            self._index("item"), self._item_directions(), item, whole_number("n", n), self.item_titles_
        )

    def similar_users(self, user: Any, n: int = 10) -> Neighbours:
        """The n users most like one user, by the cosine of their factors; the user is left out."""
        self._require_fit()
        return _neighbours(self._index("user"), self.user_factors_, user, whole_number("n", n))

    def explain(self, user: Any, item: Any, n: int = 5) -> Explanation:
        """Why the score of a user and an item is what it is.

        The user's factors ``u = p + a`` minimise ``w Σ_j ω_j ℓ(z_j, y_j) + ½ aᵀ M a``. So
        ``M a = −w Σ_j ω_j ℓ'_j v_j``, and each rating j makes a contribution of its own to the score
        of the item t: ``−w ω_j ℓ'_j v_jᵀ M⁻¹ v_t``. These contributions are exact. The rest, which is 0 at
        the optimum, is ``unexplained``. For users of the fit, M is its penalty and p what their features
        say; for those who were folded in, p and M are as in :meth:`fold_in`. A score of a fit for lists is a
        sum over the user's ratings in the first place, and these are its terms.

        Parameters
        ----------
        user, item : ids
        n : int, default 5
            The number of ratings that are listed on their own, those with the largest contributions.
        """
        self._require_fit()
        row, target = self._index("user").find_one(user), self._index("item").find_one(item)
        rows = np.array([row])
        score = float(score_pairs(self._factors(), rows, np.array([target]))[0])
        if self.list_settings_ is not None:
            ratings, parts = parts_of_score(self, row, target)
            return self._explanation(row, target, score, ratings, parts, n, prior=None, average=0.0)
        theirs = self.answers_.take_rows(rows)
        penalty, sizes = self._user_penalty(rows, theirs.row_counts())
        penalty = penalty if sizes is None else sizes[0] * penalty
        ratings = self._judged_rows(theirs)
        z = score_rows(self._factors(rows), ratings.indptr, ratings.indices)
        slopes = np.asarray(self._entry_loss().gradient(z, ratings.values), dtype=np.float64)
        if ratings.weights is not None:
            slopes = slopes * ratings.weights
        shared = self._shared_item_factor()
        factors = self.item_factors_[target] - shared
        parts = rating_parts(
            slopes, self.item_factors_[ratings.indices], penalty, factors, self.answer_weight_
        )
        prior, average = float(self.user_prior_[row] @ factors), 0.0
        if self._is_folded_in(rows)[0]:
            assert self.new_user_mean_ is not None
            average = float(self.new_user_mean_ @ factors)
        return self._explanation(row, target, score, ratings, parts, n, prior=prior, average=average)

    def _explanation(
        self,
        row: int,
        target: int,
        score: float,
        ratings: ObservedLabels,
        parts: Floats,
        n: int,
        *,
        prior: float | None,
        average: float,
    ) -> Explanation:
        """The score in parts; ``prior`` is None where all that the ratings do not say is from features."""
        largest_parts, others = largest(parts, whole_number("n", n))
        intercept = float(self.item_intercept_[target])
        general = float(self.user_factors_[row] @ self._shared_item_factor())
        rest = score - intercept - general - float(parts.sum())
        if prior is None:
            # Features stand for ratings where there are none.
            prior = 0.0 if parts.any() else rest
        return Explanation(
            user=self.user_ids_[row],
            item=self.item_ids_[target],
            score=score,
            probability=float(self._probability(score)),
            threshold=float(self.threshold_),
            decision=int(self._decided(np.array([row]), np.array([target]), np.array([score]))[0]),
            item_intercept=intercept,
            user_intercept=general,
            from_features=prior - average,
            contributions=tuple(
                Contribution(
                    self.item_ids_[ratings.indices[at]], self._given(row, ratings, at), float(parts[at])
                )
                for at in largest_parts
            ),
            other_answers=float(parts[others].sum()),
            n_other_answers=int(others.sum()),
            unexplained=rest - prior,
            titles=self.item_titles_,
            average_user=average,
            features=self._described_by(),
        )

    def _given(self, row: int, ratings: ObservedLabels, entry: int) -> int | None:
        """The rating of an entry; None where it stands for an absent one."""
        given = self._rated()
        if not contains(given, np.array([row]), ratings.indices[entry : entry + 1])[0]:
            return None
        return int(ratings.values[entry])

    # -- questions -------------------------------------------------------------------------------------

    def suggest(
        self, user: Any = None, n: int = 10, *, items: Any = None, by_popularity: bool = True
    ) -> Questions:
        """Which items to ask a user about, so that their ratings say most about all other items.

        The items are chosen one after the other by how much of the variance of all scores a rating is
        expected to remove, times the fraction of the users who have rated the item, since a user can only
        rate what they know; see :mod:`labelgap.recommending.questions`. Fold the ratings in
        (:meth:`fold_in`) and ask again for the next ones.

        Parameters
        ----------
        user : id or None, default None
            None is a new user, of whom nothing is known. What a known user has rated is counted, and not
            asked for again.
        n : int, default 10
            How many items. There are fewer in the result where fewer are left.
        items : ids, default None
            Ask about these alone; None: about all.
        by_popularity : bool, default True
            Whether it counts how many users have rated an item. False is for items that everybody can judge,
            such as a joke or a picture that is shown with the question.

        Examples
        --------
        >>> from labelgap import Recommender
        >>> users = ["ann", "ann", "bob", "bob", "cat", "cat", "dan", "dan"] * 2
        >>> items = ["Ran", "Jaws", "Ran", "Ikiru", "Jaws", "Alien", "Alien", "Ran"]
        >>> items += ["Ikiru", "Alien", "Jaws", "Alien", "Ran", "Ikiru", "Jaws", "Ikiru"]
        >>> stars = [5, 1, 4, 5, 4, 5, 5, 2, 4, 2, 1, 1, 2, 1, 5, 1]
        >>> model = Recommender(positive=4, trace_penalty=0.02, random_state=0).fit((users, items, stars))
        >>> len(model.suggest(n=2)), "Jaws" in model.suggest("cat")
        (2, False)
        """
        self._require_fit()
        n = whole_number("n", n)
        if not isinstance(by_popularity, bool):
            raise InvalidParameterError(f"by_popularity must be True or False; got {by_popularity!r}.")
        V, n_users = self.item_factors_, max(len(self.user_ids_), 1)
        index = self._index("item")
        mean, covariance = covariance_of(self.user_factors_)
        allowed = np.ones(len(V), dtype=np.bool_)
        if items is not None:
            allowed[:] = False
            allowed[index.find(items)[0]] = True
        if user is not None:
            row = np.array([self._index("user").find_one(user)])
            mean, rated = self.user_factors_[row[0]], self._rated_rows(row).indices
            allowed[rated] = False
        scores = V @ mean + self.item_intercept_
        curvature = self._expected_curvature(scores)
        if user is not None:
            for item in rated:
                covariance = with_rating(covariance, V[item], float(curvature[item]))
        known = self._rated().label_counts() / n_users if by_popularity else np.ones(len(V))
        numbers, gains = choose_questions(V, covariance, curvature, known, allowed, n)
        ids = [index.ids[number] for number in numbers.tolist()]
        titles = self.item_titles_
        return Questions(
            ids,
            known[numbers],
            np.asarray(self._probability(scores[numbers])),
            gains,
            None if titles is None else [titles.get(one) for one in ids],
        )

    def _expected_curvature(self, scores: Floats) -> Floats:
        """The expected curvature of the loss of a rating of each item at these scores."""
        p, loss = np.asarray(self._probability(scores)), self.loss_
        yes, no = (
            np.asarray(loss.curvature(scores, np.full(len(scores), value, dtype=np.int8))) for value in (1, 0)
        )
        return np.asarray(p * yes + (1.0 - p) * no, dtype=np.float64)

    # -- new users and items ---------------------------------------------------------------------------

    def fold_in(
        self,
        answers: Any = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
        prior: str = "users",
    ) -> Self:
        """A copy of the recommender with more users, items or ratings; this one is not changed.

        There are four kinds of ratings, and they may come together:

        - A new user rates a known item. The item factors stay, and those of the user are the most probable
          ones, given the ratings and the prior.
        - A known user rates a new item. The item's factors and intercept are those that a fit with these user
          factors would give, and the user's factors stay. An item with only likes, or only dislikes, gets an
          intercept only.
        - A known user rates a known item. The user's factors are computed again from all ratings of the user.
          A new rating replaces the old one of the same item; with ``aggregate`` events are joined with those
          before.

        - A new user rates a new item, and both have other ratings that link them to what is known. The two
          are then solved for in alternation, with all their ratings.

        A rating of a new item by a new user that nothing links to known ones is an error, because neither of
        them can be placed.

        Parameters
        ----------
        answers : any form that ``fit`` takes, or None
            ObservedLabels that say themselves what a pair without a rating means must say the same as those
            of the fit.
        user_features : mapping from id to a row of features, or frame, default None
            Features of new users, where the recommender was fitted with such. A frame has the ids in a column
            named as in the ratings or, in pandas, in its index. A new user may have features and no ratings;
            one without features starts from the prior.
        item_features : as ``user_features``, for new items, default None
            The intercept of an item without ratings is the mean of all intercepts.
        prior : {"users", "fit"}, default "users"
            What the factors of new users are drawn to. "users" is a normal prior with the mean and the
            covariance of the users of the fit (see :mod:`labelgap.recommending.new_users`): a user without
            ratings is the average user, and each rating says how this one differs. "fit" is the penalty of
            the fit around 0, and gives a new user what a fit with these item factors would give. Known users
            have the penalty of the fit in either case, and so have new ones where pairs without a rating
            count.
        """
        self._require_fit()
        return extended(self, answers, user_features, item_features, prior)


def _neighbours(
    index: IdIndex, factors: Floats, one: Any, n: int, titles: dict[Any, str] | None = None
) -> Neighbours:
    numbers, similarities = nearest(factors, index.find_one(one), n)
    ids = [index.ids[number] for number in numbers.tolist()]
    return Neighbours(ids, similarities, None if titles is None else [titles.get(name) for name in ids])
