"""The ratings that a recommender keeps, as they were given, and how more of them are joined to these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.arriving.batches import Batch
from labelgap.arriving.drift import check_half_life, forget_weights
from labelgap.arriving.union import join_labels
from labelgap.estimators.recommender_fit import RecommenderFit
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import refuse_other_meaning
from labelgap.recommending.events import KeptEvents, RatingEvents, from_kept
from labelgap.recommending.factor_model import without_implied
from labelgap.recommending.ids import IdIndex, Ids
from labelgap.recommending.serving import Recommending


class ArrivedRatings(NamedTuple):
    """A batch of ratings, joined to those before it."""

    new: ObservedLabels
    """The batch, with weights as they were given."""
    users: NDArray[np.int64]
    """The number of each row of the batch among the users that were known; -1 for a new one."""
    items: NDArray[np.int64]
    union: ObservedLabels
    batch_of_rating: NDArray[np.int32]
    counts: dict[str, int]
    """Entries added, corrected and repeated, and new rows and labels."""
    events: RatingEvents | None
    """The events behind the union, where ratings are made of such."""


class KeptRatings(RecommenderFit, Recommending):
    """The part of a Recommender that keeps its ratings, with what a fit needs to know of each."""

    forget: float | None
    batches_: tuple[Batch, ...] = ()
    aggregate: str | None
    half_life: float | None
    weights: str | None
    _events: KeptEvents | None = None
    """The events that the ratings are made of; None where each is what was given."""
    _batch_of_rating: NDArray[np.int32] | None = None
    """The number of the batch that each of ``answers_`` came with; None where all came with the first."""

    def _joined(self, answers: Any, sample_weight: Any, number: int) -> ArrivedRatings:
        """The ratings of a batch joined to those before it."""
        meant = self._silence
        refuse_other_meaning(answers, self.unobserved, meant)
        answers = self._as_events(answers)
        new = self._weighed(self._read_ratings(answers, meant), answers, sample_weight, meant)
        self._check_meaning(meant)
        new = without_implied(new)
        users, user_ids = _placed(self._index("user"), new.row_names or ())
        items, item_ids = _placed(self._index("item"), new.label_names or ())
        events = self._events_with(answers, users, items, user_ids, item_ids)
        every, arriving, places = new, new, (users, items)
        if events is not None:
            # What the ratings of the batch are together with the events before.
            every = self._read_ratings(events, meant)
            width = max(len(item_ids), 1)
            of_batch = users[new.rows] * width + items[new.indices]
            arriving = every.select(np.isin(every.rows * width + every.indices, of_batch))
            places = np.arange(len(user_ids)), np.arange(len(item_ids))
        joined = join_labels(
            self._given_ratings(),
            arriving,
            *places,
            shape=(len(user_ids), len(item_ids)),
            row_names=user_ids,
            label_names=item_ids,
        )
        union = joined.labels
        if events is not None:
            # With time other ratings change too, which no event of the batch is about.
            union = replace(union, values=every.values, weights=every.weights)
        arrived = np.full(arriving.n_observed, number, dtype=np.int32)
        batch_of_rating = joined.per_entry(self._batch_numbers(), arrived)
        n, n_items = len(self.user_ids_), len(self.item_ids_)
        counts = {
            "new_rows": len(user_ids) - n,
            "new_labels": len(item_ids) - n_items,
            "added": joined.added,
            "corrected": joined.corrected,
            "repeated": joined.repeated,
        }
        known = np.where(users < n, users, -1), np.where(items < n_items, items, -1)
        return ArrivedRatings(new, *known, union, batch_of_rating, counts, events)

    def _events_with(
        self, new: Any, users: NDArray[np.int64], items: NDArray[np.int64], user_ids: Ids, item_ids: Ids
    ) -> RatingEvents | None:
        """The events behind all ratings, those before and the new ones; None where there are no events.

        ``new`` is as :meth:`_as_events` has it, ``users`` and ``items`` are the numbers of its users and
        items among all ids.
        """
        if not isinstance(new, RatingEvents):
            if self._events is not None:
                raise _other_rule(self._events.aggregate, None)
            return None
        if self._events is None:
            raise _other_rule(None, new.rule.aggregate)
        before = from_kept(self._events, self.answers_, new.rule)
        return before.joined(new, users, items, user_ids, item_ids)

    def _keep_events(self, ratings: Any) -> None:
        """Keep the events behind the ratings, where there are such, for those that come later."""
        if isinstance(ratings, RatingEvents):
            self._events = ratings.kept()

    def _event_decay(self, ratings: Any, meant: str) -> Floats | None:
        """Factors on the ratings of lists by their age; None for 1."""
        return ratings.weights if isinstance(ratings, RatingEvents) and self._are_lists(meant) else None

    def _given_ratings(self) -> ObservedLabels:
        """The ratings of the fit, with weights as they were given; those of lists are values of likes."""
        ratings = self.answers_
        if ratings.unobserved == "negative":
            raise InvalidLabelsError(
                "This recommender was fitted by an earlier version, and does not say which of its dislikes "
                "were given. Fit it anew to all ratings."
            )
        if self._given_weights is not None:
            return ratings.with_weights(self._given_weights)
        # Weights by propensities are made anew.
        return ratings if self.weights is None else replace(ratings, weights=None)

    def _batch_numbers(self) -> NDArray[np.int32]:
        if self._batch_of_rating is not None:
            return self._batch_of_rating
        return np.ones(self.answers_.n_observed, dtype=np.int32)

    def _keep_given(self, given: Floats | None, decay: Floats | None, meant: str) -> None:
        """Keep the weights as they were given where those of ``answers_`` do not tell them."""
        self.__dict__.pop("_given_weights", None)
        if self._are_lists(meant):
            return
        if decay is not None:
            self._given_weights = np.ones(self.answers_.n_observed) if given is None else given
        elif given is not None and self.weights is not None:
            self._given_weights = given

    def _fold_given(self, model: Any, ratings: Any, added: ObservedLabels, rows: Any, columns: Any) -> None:
        # What belongs to single ratings is joined as the ratings were.
        shape = (len(self.user_ids_), len(self.item_ids_))
        if model._given_weights is not None:
            self._given_weights = join_labels(
                model._given_ratings(), added, rows, columns, shape=shape
            ).labels.weights
        if model._batch_of_rating is not None or model._decay is not None:
            joined = join_labels(model.answers_, added, rows, columns, shape=shape)
            if model._decay is not None:
                self._decay = joined.per_entry(model._decay, np.ones(added.n_observed))
            if model._batch_of_rating is not None:
                newest = np.full(added.n_observed, len(model._batches_so_far()), dtype=np.int32)
                self._batch_of_rating = joined.per_entry(model._batch_numbers(), newest)
        if added.n_observed:
            events = model._events_with(ratings, rows, columns, self.user_ids_, self.item_ids_)
            if events is not None:
                self._fold_events(events)

    def _fold_events(self, events: RatingEvents) -> None:
        """Let the ratings be what these events make of them."""
        meant = self._silence
        given = self._read_more(events)
        self.answers_ = replace(self.answers_, values=given.values)
        self._keep_events(events)
        if self._are_lists(meant):
            self.answers_ = replace(self.answers_, weights=given.weights)
            decay = self._event_decay(events, meant)
            if decay is not None:
                self._decay = decay
        elif self.half_life is not None:
            self.answers_ = replace(self.answers_, weights=given.weights)

    def _forgotten(self, ages: NDArray[Any], meant: str) -> Floats | None:
        """The weights that ``forget`` gives to ratings of these ages."""
        return forget_weights(ages, self._check_decay(meant))

    def _check_decay(self, meant: str) -> float | None:
        """The half-life in batches, after a check that it and the one in time can be used."""
        batches = check_half_life(self.forget)
        for name, half_life in (("forget", batches), ("half_life", self.half_life)):
            if half_life is not None and meant == "unlabelled":
                raise InvalidParameterError(
                    f"{name} weighs ratings by their age; under unobserved='unlabelled' every pair counts "
                    f"once. Leave {name} out, or use unobserved='negative'."
                )
        if self.half_life is None:
            return batches
        others = {"forget": batches is not None, "weights": self.weights is not None}
        for name, given in others.items():
            if given:
                raise InvalidParameterError(
                    f"half_life weighs ratings by their age, and {name}={getattr(self, name)!r} weighs them "
                    "otherwise. Leave one of them out."
                )
        return batches

    def _batches_so_far(self) -> tuple[Batch, ...]:
        """The record of the batches; of a model that has none, one of its fit."""
        if self.batches_:
            return self.batches_
        held_out: Any = getattr(self, "held_out_metric_", None)
        first = Batch(
            number=1,
            new_rows=len(self.user_ids_),
            new_labels=len(self.item_ids_),
            added=self._rated().n_observed,
            metric=held_out if self._silence == "missing" else None,
            held_out_metric=held_out,
            chosen_anew="first",
            objective=float(getattr(self, "objective_", np.nan)),
            relative_gap=float(getattr(self, "relative_gap_", np.nan)),
        )
        return (first,)


def _other_rule(fitted: str | None, given: str | None) -> InvalidParameterError:
    if fitted is None and given is None:
        why = "half_life was given at one time and not at the other"
    else:
        why = f"it was fitted with aggregate={fitted!r}, and now it is {given!r}"
    return InvalidParameterError(
        f"New ratings cannot be joined with those of the fit: {why}. Go on as in the fit, or fit anew to all "
        "ratings."
    )


def _placed(index: IdIndex, ids: tuple[Any, ...]) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """The number of each id, where new ones come last, and all ids in order."""
    places = index.find_or(ids)
    new = places < 0
    places[new] = len(index.ids) + np.arange(int(new.sum()))
    return places, (*index.ids, *(name for name, fresh in zip(ids, new.tolist(), strict=True) if fresh))
