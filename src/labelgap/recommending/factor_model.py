"""The fitted state of a recommender: factors of users and items by id, and the hooks of a fit."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from labelgap._types import Floats, Ints
from labelgap.exceptions import InvalidFeaturesError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.labels.sources import row_pointers
from labelgap.losses import Loss
from labelgap.metrics import LinearFractional
from labelgap.recommending.closed_form.settings import ListSettings, Ratings
from labelgap.recommending.events import RatingEvents
from labelgap.recommending.ids import IdIndex, Ids
from labelgap.recommending.rating_weights import weigh_ratings
from labelgap.recommending.ratings import Rule, read_events, read_ratings
from labelgap.recommending.top_items import Seen, UserItemFactors

UNKNOWN = ("raise", "average")
"""What can happen to users and items that are not known."""


class FactorModel(BaseEstimator):  # type: ignore[misc]
    """The fitted attributes, with ``z_ij = u_i · v_j + b_j``, and methods that an estimator may override.

    The parameters ``user``, ``item``, ``value``, ``positive`` of an estimator that has them say how ratings
    are read.
    """

    user_ids_: Ids
    item_ids_: Ids
    user_factors_: Floats
    """u, users x k."""
    item_factors_: Floats
    """v, items x k."""
    item_intercept_: Floats
    """b, one per item."""
    user_prior_: Floats
    """The part of ``user_factors_`` that comes from features of the users, 0 without features; of those who
    were folded in with the other users as a prior, the mean of these users too."""
    factor_penalty_: Floats
    """M, k x k: a user's factors beyond the prior cost ``½ aᵀ M a``."""
    answer_weight_: float
    """The weight of one rating in the objective."""
    answers_: ObservedLabels
    """The ratings that were given."""
    list_settings_: ListSettings | None = None
    """How lists are made in closed form; None for a fit that makes none so."""
    mean_like_: float = 1.0
    """The mean value of the likes of that fit."""
    item_weights_: Floats
    """What a like of each item adds to a user's factors in that fit, in units of the item's own."""
    _decay: Floats | None = None
    """A factor on each of the ratings of that fit by its age; None for 1."""
    counts_every_pair_: bool = False
    """Whether a pair without a rating was fitted as a no, like a dislike."""
    new_user_mean_: Floats | None = None
    """The mean of the users' factors, which those of folded-in users are drawn to; None before a fold-in."""
    new_user_penalty_: Floats | None = None
    """The penalty of folded-in users, in place of M; None before a fold-in."""
    folded_in_: NDArray[np.bool_] | None = None
    """Which users were folded in with that mean and penalty; None for nobody."""
    item_titles_: dict[Any, str] | None = None
    """Titles of items by id, for people; None without titles."""
    singular_values_: Floats
    loss_: Loss
    metric_: LinearFractional
    threshold_: float

    # -- hooks -----------------------------------------------------------------------------------------

    def _entry_loss(self, *, of_new_items: bool = False) -> Loss:
        """The loss that the fit takes of each rating, in rows of all items or in columns of new items."""
        return self.loss_

    def _flip_rate_of_items(self) -> Any:
        """ρ, one number or one per item: the fraction of likes that the fit assumes to be unrecorded."""
        return getattr(self, "flip_rate_", 0.0)

    def _item_penalty(self) -> Floats:
        """The penalty of an item's factors: ``item_factor_penalty_``, or else ``factor_penalty_``."""
        penalty: Floats = getattr(self, "item_factor_penalty_", self.factor_penalty_)
        return penalty

    def _penalty_sizes(self, what: str, counts: Ints) -> Floats | None:
        """The factor on the penalty of users, or items, with so many ratings; None for 1."""
        units = getattr(self, "count_units_", None)
        if units is None or units[0] == 0:
            return None
        mean = units[1] if what == "user" else units[2]
        return np.asarray((np.maximum(counts, 1) / mean) ** units[0])

    def _is_folded_in(self, users: Ints) -> NDArray[np.bool_]:
        """Which of these users have the other users as a prior."""
        if self.folded_in_ is None:
            return np.zeros(len(users), dtype=np.bool_)
        return self.folded_in_[users]

    def _user_penalty(self, users: Ints, counts: Ints) -> tuple[Floats, Floats | None]:
        """The penalty of users with so many ratings, all folded in or none, and its factor for each."""
        if len(users) and self._is_folded_in(users)[0]:
            assert self.new_user_penalty_ is not None
            return self.new_user_penalty_, None
        return self.factor_penalty_, self._penalty_sizes("user", counts)

    def _shared_item_factor(self) -> Floats:
        """The part of v that all items share: ``u · shared`` is a user's intercept. 0 where there is none."""
        shared: Floats = getattr(self, "shared_item_factor_", np.zeros(self.item_factors_.shape[1]))
        return shared

    def _item_directions(self, items: Any = slice(None)) -> Floats:
        """What the similarity of items is the cosine of: of lists, rows of ``V diag(σ − λ)``."""
        if self.list_settings_ is not None:
            return np.asarray(self.item_factors_[items] * self.singular_values_)
        return np.asarray(self.item_factors_[items] - self._shared_item_factor())

    def _prior_of_features(self, features: Any) -> Floats:
        """Prior factors (m x k) of users with these features: an array, or a frame without its ids."""
        _no_features("user")

    def _item_prior_of_features(self, features: Any) -> Floats:
        """Prior factors (m x k) of items with these features: an array, or a frame without its ids."""
        _no_features("item")

    def _has_item_features(self) -> bool:
        """Whether the fit knew items by features."""
        return False

    def _prior_of_ratings(self, ratings: ObservedLabels) -> Floats | None:
        """What is added to the prior of the users in these rows by which items they rated; None for 0."""
        return None

    def _item_prior_of_ratings(self, ratings: ObservedLabels) -> Floats | None:
        """Likewise for the items in these columns, by who rated them."""
        return None

    def _described_by(self) -> str:
        """What the prior of a user comes from, in words."""
        return "the user's features"

    def _intercept_without_ratings(self) -> float:
        """The intercept of a new item without ratings."""
        penalty = self._intercept_penalty()
        return float(self.item_intercept_.mean()) if penalty is None else penalty[1]

    def _intercept_penalty(self) -> tuple[float, float] | None:
        """κ and c, where the intercepts of the items are drawn to c; None where they are free."""
        return None

    # -- reading ---------------------------------------------------------------------------------------

    def _require_fit(self) -> None:
        if not hasattr(self, "user_factors_"):
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet. Call 'fit' with ratings before using it."
            )

    def _setting(self, name: str, default: Any) -> Any:
        return getattr(self, name, default)

    @property
    def _silence(self) -> str:
        """What a pair without a rating meant in the fit: "missing", "negative" or "unlabelled"."""
        counts = self.counts_every_pair_ or self.list_settings_ is not None
        return "negative" if counts else self.answers_.unobserved

    def _probability(self, scores: Any) -> Any:
        """The probability of a like at these scores."""
        return self.loss_.inverse_link(scores)

    def _read_more(self, ratings: Any) -> ObservedLabels:
        """Ratings to fold in, as they were given."""
        # What an absent rating means is decided once all ratings of a user are together.
        return self._read_ratings(ratings, "unlabelled" if self._silence == "unlabelled" else "missing")

    def _fold_given(self, model: Any, ratings: Any, added: ObservedLabels, rows: Ints, columns: Ints) -> None:
        """Join what else is known of single ratings, when some are folded into ``model``.

        ``ratings`` are as :meth:`_as_events` has them, ``added`` as they were read, ``rows`` and ``columns``
        the numbers of their users and items in this recommender, which is the copy that has them.
        """

    def _read_ratings(self, ratings: Any, unobserved: str, *, keep_values: bool = False) -> ObservedLabels:
        return read_ratings(ratings, unobserved=unobserved, keep_values=keep_values, **self._reading())

    def _as_events(self, ratings: Any) -> Any:
        """Ratings in a form that :meth:`_read_ratings` takes: events of pairs, where several become one."""
        events = read_events(ratings, **self._reading())
        return ratings if events is None else events

    def _reading(self) -> dict[str, Any]:
        """How ratings are read, by the parameters of an estimator that has them."""
        rule: Rule = self._setting("positive", None)
        return {
            "user": self._setting("user", "user"),
            "item": self._setting("item", "item"),
            "value": self._setting("value", "value"),
            "positive": rule,
            "aggregate": self._setting("aggregate", None),
            "time": self._setting("time", "timestamp"),
            "half_life": self._setting("half_life", None),
        }

    def _weighed(
        self, labels: ObservedLabels, ratings: Any, sample_weight: Any, unobserved: str
    ) -> ObservedLabels:
        """The ratings as read, with a weight for each."""
        if sample_weight is not None and unobserved != "missing":
            raise InvalidParameterError(
                "sample_weight weighs the ratings that were given; under "
                f"unobserved={unobserved!r} pairs without a rating count, too. Leave it out."
            )
        if sample_weight is not None and isinstance(ratings, RatingEvents):
            raise InvalidParameterError(
                "sample_weight weighs single ratings, and with aggregate or half_life they are made of "
                "events with weights of their own. Leave one of them out."
            )
        columns = {"user": self._setting("user", "user"), "item": self._setting("item", "item")}
        return weigh_ratings(labels, ratings, sample_weight, **columns)

    def _index(self, what: str) -> IdIndex:
        """The index of users or items, made on first use and again when the ids have changed."""
        ids = self.user_ids_ if what == "user" else self.item_ids_
        held: dict[str, IdIndex] = self.__dict__.get("_indices", {})
        if what not in held or held[what].ids is not ids:
            held = {**held, what: IdIndex(ids, what)}
            self._indices = held
        return held[what]

    def __getstate__(self) -> dict[str, Any]:
        # The index follows from the ids, so neither a pickle nor a copy needs it.
        return {name: value for name, value in super().__getstate__().items() if name != "_indices"}

    def _factors(self, users: Ints | None = None) -> UserItemFactors:
        """Factors of all users, or of these; -1 stands for the average user."""
        chosen = self.user_factors_ if users is None else self.user_factors_[users]
        if users is not None and (strange := np.asarray(users) < 0).any():
            chosen[strange] = self._average_user()
        return UserItemFactors(chosen, self.item_factors_, self.item_intercept_)

    def _average_user(self) -> Floats:
        """Factors whose scores are the means of all users' scores."""
        return np.asarray(self.user_factors_.mean(axis=0))

    def _average_item(self) -> tuple[Floats, float]:
        """Factors and an intercept whose scores are the means of the scores of all items."""
        return np.asarray(self.item_factors_.mean(axis=0)), float(self.item_intercept_.mean())

    def _rated(self) -> ObservedLabels:
        """The ratings that the users gave, without what stands for absent ones."""
        if self.answers_.unobserved == "negative" and self.answers_.is_complete:
            # A model of an earlier version does not say which of its dislikes were given.
            return self.answers_.select(self.answers_.values == 1)
        return self.answers_

    def _rated_rows(self, users: Ints | None = None) -> ObservedLabels:
        """The ratings that these users gave, without names; -1 stands for a user without ratings."""
        ratings = replace(self._rated(), row_names=None)
        if users is None:
            return ratings
        numbers = np.asarray(users)
        strange = numbers < 0
        if not strange.any():
            return ratings.take_rows(numbers)
        known = ratings.take_rows(numbers[~strange])
        counts = np.zeros(len(numbers), dtype=np.int64)
        counts[~strange] = known.row_counts()
        return replace(known, indptr=row_pointers(counts), shape=(len(numbers), known.shape[1]))

    def _seen(self, users: Ints | None = None) -> Seen:
        """The items that the users have rated, row by row."""
        ratings = self._rated_rows(users)
        return Seen(ratings.indptr, ratings.indices)

    def _decided(self, rows: Ints, columns: Ints, scores: Floats) -> NDArray[np.int8]:
        """Decisions for pairs: a score of at least θ, or a recorded like where only likes are recorded.

        A row or column of -1 is unknown, and has no recorded like.
        """
        yes = np.asarray(scores >= self.threshold_)
        if self.answers_.unobserved == "unlabelled":
            yes = yes | (contains(self.answers_, np.maximum(rows, 0), columns) & (rows >= 0))
        return yes.astype(np.int8)

    def _judged_rows(self, labels: ObservedLabels) -> ObservedLabels:
        """The entries of these rows that the loss is taken of."""
        every_pair = self.counts_every_pair_ or labels.unobserved == "unlabelled"
        return complete(labels) if every_pair else labels

    def _ratings_of_lists(self, users: Ints | None = None) -> Ratings:
        """The ratings that lists are made from, of all users or of these in ascending order."""
        ratings = Ratings(replace(self.answers_, row_names=None), self._decay)
        return ratings if users is None else ratings.of_users(users)


def contains(labels: ObservedLabels, rows: Ints, columns: Ints) -> NDArray[np.bool_]:
    """Whether there is an entry at each of the pairs; a column of -1 is in no row.

    Examples
    --------
    >>> labels = ObservedLabels.from_triplets([0, 1], [1, 2], [1, 1], shape=(2, 3))
    >>> contains(labels, np.array([0, 0, 1]), np.array([1, 2, 2]))
    array([ True, False,  True])
    """
    low, end = labels.indptr[rows], labels.indptr[np.asarray(rows) + 1]
    high = end.copy()
    # A binary search in all rows at once: rows are sorted.
    while (low < high).any():
        middle = (low + high) // 2
        below = (low < high) & (labels.indices[np.minimum(middle, len(labels.indices) - 1)] < columns)
        low, high = np.where(below, middle + 1, low), np.where(below | (low >= high), high, middle)
    found = low < end
    found[found] = labels.indices[low[found]] == np.asarray(columns)[found]
    return np.asarray(found)


def complete(labels: ObservedLabels) -> ObservedLabels:
    """The labels with an entry for every pair, 0 where there was none.

    Examples
    --------
    >>> complete(ObservedLabels.from_triplets([0], [1], [1], shape=(1, 3))).to_dense()
    array([[0., 1., 0.]])
    """
    filled = ObservedLabels.from_any(replace(labels, weights=None, unobserved="missing"), "negative")
    if labels.weights is None:
        return filled
    weights = np.ones(labels.shape)
    weights[labels.rows, labels.indices] = labels.weights
    return filled.with_weights(weights.ravel())


def without_implied(labels: ObservedLabels) -> ObservedLabels:
    """The ratings that users gave: of labels in which every pair has an entry, the likes alone.

    Examples
    --------
    >>> without_implied(ObservedLabels.from_any([[1, 0]], "negative")).to_dense()
    array([[ 1., nan]])
    """
    if labels.unobserved != "negative":
        return labels
    return replace(labels.select(labels.values == 1), unobserved="missing")


def _no_features(what: str) -> NoReturn:
    raise InvalidFeaturesError(
        f"This recommender was fitted without {what} features, so it cannot read those of new {what}s. "
        f"Leave {what}_features out, or fit it with features."
    )


def whole_number(name: str, value: Any) -> int:
    """A parameter that counts something: an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise InvalidParameterError(f"{name} must be a whole number, 1 or more; got {value!r}.")
    return int(value)
