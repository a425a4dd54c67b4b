"""The methods of a fitted recommender: score, decide, recommend, explain, and add new users and items."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import UNOBSERVED
from labelgap.labels.frames import frame_library
from labelgap.labels.sources import index_type
from labelgap.metrics import unlabelled_metric
from labelgap.recommending.extending import extended
from labelgap.recommending.factor_model import FactorModel
from labelgap.recommending.ids import IdIndex
from labelgap.recommending.results import (
    Contribution,
    Explanation,
    Neighbours,
    Recommendations,
    largest,
    nearest,
    rating_parts,
)
from labelgap.recommending.top_items import items_above, score_pairs, score_rows, top_items


class Recommending(FactorModel):
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
    0.58
    """

    # -- pairs -----------------------------------------------------------------------------------------

    def decision_function(self, users: Any, items: Any = None) -> Any:
        """Scores of pairs.

        Parameters
        ----------
        users, items : ids
            Sequences of one length, or one of them a single id for all of the other. Instead of both, a frame
            with a column of users and one of items.

        Returns
        -------
        scores : array with one number per pair; a number for a single pair
        """
        rows, columns, single = self._pairs(users, items)
        scores = score_pairs(self._factors(), rows, columns)
        return scores[0] if single else scores

    def predict_proba(self, users: Any, items: Any = None) -> Any:
        """The probability of a like for pairs, given as to :meth:`decision_function`."""
        return self.loss_.inverse_link(self.decision_function(users, items))

    def predict(self, users: Any, items: Any = None) -> Any:
        """Decisions for pairs, given as to :meth:`decision_function`: 1 where the score is at least θ.

        Where only likes are recorded (``unobserved="unlabelled"``), a recorded like is a yes too.
        """
        rows, columns, single = self._pairs(users, items)
        decisions = self._decided(rows, columns, score_pairs(self._factors(), rows, columns))
        return decisions[0] if single else decisions

    @property
    def threshold_probability_(self) -> float:
        """``threshold_`` on the scale of :meth:`predict_proba`."""
        self._require_fit()
        return float(self.loss_.inverse_link(self.threshold_))

    def score(self, answers: Any, unobserved: str | None = None) -> float:
        """The metric of the decisions over these ratings, in any form that ``fit`` takes.

        Parameters
        ----------
        answers : likes and dislikes, or likes
            Users and items must be known.
        unobserved : {"missing", "negative", "unlabelled"} or None, default None
            What a pair of these users without a rating means; None means the same as in the fit. Under
            "unlabelled" the metric is corrected for the likes that are not recorded, with the flip rate of
            the fit.
        """
        self._require_fit()
        how = self.answers_.unobserved if unobserved is None else unobserved
        check_choice("unobserved", how, UNOBSERVED)
        labels = self._read_ratings(answers, "missing" if how == "negative" else how)
        if how != "missing":
            return self._score_all_pairs(labels, self._flip_rate_of_items() if how == "unlabelled" else 0.0)
        users = self._index("user").find_all(labels.row_names or ())
        items = self._index("item").find_all(labels.label_names or ())
        scores = score_rows(self._factors(users), labels.indptr, items[labels.indices])
        return self.metric_(labels, self._decided(users[labels.rows], items[labels.indices], scores))

    def _score_all_pairs(self, labels: ObservedLabels, flip_rate: Any) -> float:
        """The metric over all items of the users with ratings, where pairs without a like may hide some."""
        users = self._index("user").find_all(labels.row_names or ())
        items = self._index("item").find_all(labels.label_names or ())
        liked = labels.select(labels.values == 1)
        recorded = ObservedLabels.from_triplets(
            liked.rows,
            items[liked.indices],
            np.ones(liked.n_observed),
            shape=(len(users), len(self.item_ids_)),
        )
        decided = self.decide_matrix([self.user_ids_[user] for user in users.tolist()])
        return unlabelled_metric(self.metric_, recorded, decided, flip_rate)

    def _pairs(self, users: Any, items: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
        self._require_fit()
        if items is None:
            users, items = self._columns_of(users)
        rows, one_user = self._index("user").find(users)
        columns, one_item = self._index("item").find(items)
        if one_user and not one_item:
            rows = np.repeat(rows, len(columns))
        elif one_item and not one_user:
            columns = np.repeat(columns, len(rows))
        if len(rows) != len(columns):
            raise InvalidInputError(
                f"There are {len(rows)} users and {len(columns)} items; pairs need as many of one as of the "
                "other, or a single id on one side."
            )
        return rows, columns, one_user and one_item

    def _columns_of(self, frame: Any) -> tuple[Any, Any]:
        names = (self._setting("user", "user"), self._setting("item", "item"))
        if frame_library(frame) is None:
            raise InvalidInputError(
                f"Pairs are users and items, or a frame with the columns {names[0]!r} and {names[1]!r}; got "
                f"{type(frame).__name__} alone."
            )
        for name in names:
            if name not in list(frame.columns):
                raise InvalidInputError(
                    f"The frame has no column {name!r}; it has {', '.join(map(repr, frame.columns))}."
                )
        return frame[names[0]], frame[names[1]]

    # -- best items ------------------------------------------------------------------------------------

    def recommend(self, user: Any, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """The n items with the highest scores for one user, best first; equal scores in the items' order.

        Parameters
        ----------
        user : id
        n : int, default 10
            The largest number of items; there may be fewer that the user has not rated.
        exclude_seen : bool, default True
            Leave out items that the user has rated.
        """
        self._require_fit()
        row = np.array([self._index("user").find_one(user)])
        found, scores = self._best(row, _count("n", n), exclude_seen)
        kept = found[0] >= 0
        return self._recommendations(row, found[0][kept], scores[0][kept])

    def recommend_batch(self, users: Any = None, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """As :meth:`recommend`, for several users: arrays of users x n.

        ``users`` None means all, in the order of ``user_ids_``. A row with fewer than n items is filled up,
        with None as item and NaN as score.
        """
        self._require_fit()
        rows = None if users is None else self._index("user").find(users)[0]
        found, scores = self._best(rows, _count("n", n), exclude_seen)
        numbers = np.arange(len(found)) if rows is None else rows
        return self._recommendations(numbers[:, None], found, scores)

    def decide(self, users: Any = None, exclude_seen: bool = False) -> dict[Hashable, list[Hashable]]:
        """For each user the items with a yes, that is with a score of at least θ, best first.

        ``users`` None means all. With ``exclude_seen`` items that the user has rated are left out.
        """
        self._require_fit()
        rows = None if users is None else self._index("user").find(users)[0]
        seen = self._seen(rows) if exclude_seen else None
        chosen = items_above(self._factors(rows), self.threshold_, seen)
        numbers = range(len(self.user_ids_)) if rows is None else rows.tolist()
        names = list(map(self.item_ids_.__getitem__, chosen.items.tolist()))
        cuts = chosen.indptr.tolist()
        decided = {self.user_ids_[row]: names[cuts[at] : cuts[at + 1]] for at, row in enumerate(numbers)}
        if not exclude_seen:
            for row, item in self._known_below(rows):
                decided[self.user_ids_[row]].append(self.item_ids_[item])
        return decided

    def _known_below(self, rows: NDArray[np.int64] | None) -> list[tuple[int, int]]:
        """Likes that are recorded, where nothing else is, and score below θ; of each user best first."""
        if self.answers_.unobserved != "unlabelled":
            return []
        users = np.arange(len(self.user_ids_)) if rows is None else np.unique(rows)
        known = replace(self.answers_, row_names=None).take_rows(users)
        scores = score_rows(self._factors(users), known.indptr, known.indices)
        below = np.flatnonzero(scores < self.threshold_)
        below = below[np.lexsort((-scores[below], known.rows[below]))]
        return list(zip(users[known.rows[below]].tolist(), known.indices[below].tolist(), strict=True))

    def decide_matrix(self, users: Any = None) -> sp.csr_array:
        """The decisions as a sparse matrix, users x items, that holds a 1 for each yes.

        Rows are the given users, or all in the order of ``user_ids_``; columns are ``item_ids_``.
        """
        self._require_fit()
        rows = None if users is None else self._index("user").find(users)[0]
        chosen = items_above(self._factors(rows), self.threshold_, best_first=False)
        n_items = len(self.item_ids_)
        indices = chosen.items.astype(index_type(n_items))
        shape = (len(chosen.indptr) - 1, n_items)
        decided = sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, chosen.indptr), shape=shape)
        if self.answers_.unobserved != "unlabelled":
            return decided
        ratings = replace(self.answers_, row_names=None)
        known = (ratings if rows is None else ratings.take_rows(rows)).to_sparse().astype(np.int8)
        either = sp.csr_array(decided + known)
        either.data[:] = 1
        return either

    def _best(
        self, rows: NDArray[np.int64] | None, n: int, exclude_seen: bool
    ) -> tuple[NDArray[np.int64], Floats]:
        return top_items(self._factors(rows), n, self._seen(rows) if exclude_seen else None)

    def _recommendations(
        self, rows: NDArray[np.int64], found: NDArray[np.int64], scores: Floats
    ) -> Recommendations:
        # One by one: numpy would make a matrix of ids that are tuples.
        ids = (None if number < 0 else self.item_ids_[number] for number in found.ravel().tolist())
        items = np.fromiter(ids, dtype=object, count=found.size).reshape(found.shape)
        pairs = np.broadcast_to(rows, found.shape).ravel(), found.ravel()
        decisions = self._decided(*pairs, scores.ravel()).reshape(found.shape)
        return Recommendations(items, scores, self.loss_.inverse_link(scores), decisions)

    # -- similarity and explanations -------------------------------------------------------------------

    def similar_items(self, item: Any, n: int = 10) -> Neighbours:
        """The n items most like one item, by the cosine of their factors; the item itself is left out.

        The part that all items share, which carries the users' intercepts, is subtracted first.
        """
        self._require_fit()
        own = self.item_factors_ - self._shared_item_factor()
        return _neighbours(self._index("item"), own, item, _count("n", n))

    def similar_users(self, user: Any, n: int = 10) -> Neighbours:
        """The n users most like one user, by the cosine of their factors; the user is left out."""
        self._require_fit()
        return _neighbours(self._index("user"), self.user_factors_, user, _count("n", n))

    def explain(self, user: Any, item: Any, n: int = 5) -> Explanation:
        """Why the score of a user and an item is what it is.

        The user's factors ``u = p + a`` minimise ``w Σ_j ω_j ℓ(z_j, y_j) + ½ aᵀ M a``. So
        ``M a = −w Σ_j ω_j ℓ'_j v_j``, and each rating j makes a contribution of its own to the score
        of the item t: ``−w ω_j ℓ'_j v_jᵀ M⁻¹ v_t``. These contributions are exact. The rest, which is 0 at
        the optimum, is ``unexplained``.

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
        theirs = self.answers_.take_rows(rows)
        sizes = self._penalty_sizes("user", theirs.row_counts())
        penalty = self.factor_penalty_ if sizes is None else sizes[0] * self.factor_penalty_
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
        largest_parts, others = largest(parts, _count("n", n))
        intercept = float(self.item_intercept_[target])
        general = float(self.user_factors_[row] @ shared)
        prior = float(self.user_prior_[row] @ factors)
        return Explanation(
            user=self.user_ids_[row],
            item=self.item_ids_[target],
            score=score,
            probability=float(self.loss_.inverse_link(score)),
            threshold=float(self.threshold_),
            decision=int(self._decided(rows, np.array([target]), np.array([score]))[0]),
            item_intercept=intercept,
            user_intercept=general,
            from_features=prior,
            contributions=tuple(
                Contribution(self.item_ids_[ratings.indices[at]], self._given(ratings, at), float(parts[at]))
                for at in largest_parts
            ),
            other_answers=float(parts[others].sum()),
            n_other_answers=int(others.sum()),
            unexplained=score - intercept - general - prior - float(parts.sum()),
        )

    def _given(self, ratings: ObservedLabels, entry: int) -> int | None:
        value = int(ratings.values[entry])
        # Where absent ratings are entries, a 0 was not given by the user.
        return None if value == 0 and self.answers_.unobserved != "missing" else value

    # -- new users and items ---------------------------------------------------------------------------

    def fold_in(self, answers: Any = None, *, user_features: Any = None, item_features: Any = None) -> Self:
        """A copy of the recommender with more users, items or ratings; this one is not changed.

        There are three kinds of ratings, and they may come together:

        - A new user rates a known item. The user's factors are those that a fit with these item factors would
          give.
        - A known user rates a new item. The item's factors and intercept are those that a fit with these user
          factors would give, and the user's factors stay. An item with only likes, or only dislikes, gets an
          intercept only.
        - A known user rates a known item. The user's factors are computed again from all ratings of the user.
          A new rating replaces the old one of the same item.

        A rating of a new item by a new user is an error, because neither of them has factors yet.

        Parameters
        ----------
        answers : any form that ``fit`` takes, or None
        user_features : mapping from id to a row of features, or frame, default None
            Features of new users, where the recommender was fitted with such. A frame has the ids in a column
            named as in the ratings or, in pandas, in its index. A new user may have features and no ratings;
            one without features starts from 0.
        item_features : as ``user_features``, for new items, default None
            The intercept of an item without ratings is the mean of all intercepts.
        """
        self._require_fit()
        return extended(self, answers, user_features, item_features)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise InvalidParameterError(f"{name} must be a whole number, 1 or more; got {value!r}.")
    return int(value)


def _neighbours(index: IdIndex, factors: Floats, one: Any, n: int) -> Neighbours:
    numbers, similarities = nearest(factors, index.find_one(one), n)
    return Neighbours([index.ids[number] for number in numbers.tolist()], similarities)
