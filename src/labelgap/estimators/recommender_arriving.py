"""A recommender that goes on learning: more ratings, corrected ratings, new users and new items."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Self

from labelgap._types import Floats
from labelgap.arriving.batches import Batch
from labelgap.arriving.drift import judge_drift, warn_of_drift
from labelgap.estimators.arriving import GROWTH
from labelgap.estimators.description import metric_name
from labelgap.estimators.recommender_fit import for_ids, warn_of_items_without_ratings
from labelgap.estimators.recommender_ratings import KeptRatings
from labelgap.exceptions import InterruptedFitWarning, InvalidParameterError
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.penalty_grid import Variant
from labelgap.fitting.run import FitRun
from labelgap.labels import ObservedLabels
from labelgap.metrics.jackknife import leave_out_values, metric_error
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.recommending.closed_form.choice import Choice
from labelgap.recommending.progressive import judge_ranks, judge_ratings
from labelgap.recommending.warm_start import settled_intercepts, starting_model, vectors_of
from labelgap.solvers import Callback
from labelgap.thresholds.cross_fit import HeldOutScores


class ArrivingRatings(KeptRatings):
    """The part of a Recommender that learns from one batch of ratings after another."""

    user: str
    item: str
    warm_start: bool
    interrupted_: bool
    _propensities_given: bool = False
    """Whether the propensities were given, and not estimated from the ratings."""

    def partial_fit(
        self,
        answers: Any,
        y: Any = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
        propensities: Any = None,
        callback: Callback | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn from more ratings, of known and of new users and items.

        The ratings are joined to those that the model has: a new rating of the same item by the same user
        replaces the old one; with ``aggregate`` or ``half_life`` events are joined with those before.
        Then the fit of

            ``min_{W,b}  1/|Ω| Σ_Ω ω ℓ(z, y) + λ‖W‖_* + λ₂/2 ‖W‖_F²``

        over all ratings Ω goes on from the present factors, at the present settings, to a duality gap of
        ``tol``: the model is as good as one fitted to all ratings at once. It begins with the fold-in of
        every user and every item: each has the factors that are best for its ratings given those of the
        others, however few of them are new. Without a fit before, it is :meth:`fit`.

        The batch is judged before it is learned from, over new ratings of known items by known users: by the
        metric of the decisions, or where pairs without a rating count by the NDCG@10 of its likes.
        :attr:`batches_` records it, with a warning if it is below what the earlier batches lead to expect.
        Penalties, weights and the threshold are chosen anew only then, or if there are more than 1.5 times as
        many ratings as at the last choice.

        If it fails, or is stopped with Ctrl-C, the model stays as it was.

        Parameters
        ----------
        answers : any form that :meth:`fit` takes
        y : None
            Not used; it is there for scikit-learn.
        user_features, item_features : as in :meth:`fit`, or None
            Features of new users and items, where the recommender was fitted with such: each of them needs a
            row. Known ones may get others.
        propensities : as in :meth:`fit`, or None
            Those of all ratings, old and new; None estimates them anew, where they were not given to
            :meth:`fit`.
        callback : callable, optional
            As in :meth:`fit`.
        sample_weight : array with one weight per new rating, or None
            As in :meth:`fit`.

        Examples
        --------
        >>> from labelgap import Recommender
        >>> users, items, likes = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 0, 1]
        >>> model = Recommender(trace_penalty=0.01, threshold="train").fit((users, items, likes))
        >>> model = model.partial_fit(([3, 3, 0], [0, 1, 0], [1, 0, 0]))
        >>> batch = model.batches_[-1]
        >>> batch.new_rows, batch.added, batch.corrected
        (1, 2, 1)
        """
        named = {"user_features": user_features, "item_features": item_features, "propensities": propensities}
        if not hasattr(self, "user_factors_"):
            self.fit(answers, callback=callback, sample_weight=sample_weight, **named)
            self.batches_ = self._batches_so_far()
            return self
        model = copy.copy(self)
        with warnings.catch_warnings():
            # What a stopped fit has reached is not kept here.
            warnings.simplefilter("ignore", InterruptedFitWarning)
            model._learn_batch(answers, callback=callback, sample_weight=sample_weight, **named)
        if model.interrupted_:
            raise KeyboardInterrupt("The work on the batch was stopped; the model is as it was before.")
        self.__dict__ = model.__dict__
        warn_of_drift(self.batches_[-1])
        return self

    def _learn_batch(
        self,
        answers: Any,
        *,
        user_features: Any,
        item_features: Any,
        propensities: Any,
        callback: Callback | None,
        sample_weight: Any,
    ) -> None:
        """Become the model of all ratings; this is a copy, which may be left half done."""
        began = time.perf_counter()
        before, meant = copy.copy(self), self._silence
        batches = self._batches_so_far()
        number = len(batches) + 1
        arrived = self._joined(answers, sample_weight, number)
        verdict = judge_ratings(before, arrived.new, arrived.users, arrived.items)
        interval, drift = judge_drift(batches, verdict.metric, verdict.error)
        names = arrived.union.row_names or (), arrived.union.label_names or ()
        self._users = self._users.with_more(user_features, self.user, names[0])
        self._items = self._items.with_more(item_features, self.item, names[1])
        given = for_ids(arrived.union, self._users.ids, self._items.ids)
        if self._propensities_given and propensities is None:
            raise InvalidParameterError(
                "This recommender was fitted with propensities, and those of the new ratings are not known. "
                "Give propensities of all ratings, old and new."
            )
        labels = self._checked(given, meant, propensities)
        warn_of_items_without_ratings(labels)
        decay = self._forgotten(number - arrived.batch_of_rating, meant)
        by_value = self._are_lists(meant)
        if decay is None:
            decay = self._event_decay(arrived.events, meant)
        elif not by_value:
            labels = labels.with_weights(decay if labels.weights is None else decay * labels.weights)
        anew = self._why_anew(batches, drift, labels.n_observed)
        if anew is not None:
            self._find_implicit(labels, meant)
        self._learn(
            labels,
            meant,
            callback=callback,
            decay=decay if by_value else None,
            chosen_by=_at_present_settings(before, self) if anew is None else None,
            finish=before._with_present_settings if anew is None else None,
            **self._going_on_from(before, labels, meant, goes_on=anew is None),
        )
        self._keep_given(given.weights, decay, meant)
        self._batch_of_rating = arrived.batch_of_rating
        self._keep_events(arrived.events)
        seconds = time.perf_counter() - began
        batch = Batch(
            number=number,
            metric=verdict.metric,
            standard_error=verdict.error,
            interval=interval,
            drift=drift,
            chosen_anew=anew,
            **arrived.counts,
        )
        self.batches_ = (*batches, self._measured(batch, seconds))

    # -- the fit -----------------------------------------------------------------------------------------

    def _going_on_from(
        self, before: Any, labels: ObservedLabels, meant: str, *, goes_on: bool
    ) -> dict[str, Any]:
        """What lets ``_learn`` begin its last fit from the model before, by the ids."""
        keeps_threshold = goes_on and self.threshold != "train"

        def go_on(run: FitRun) -> None:
            run.goes_on, run.keeps_threshold = goes_on, keeps_threshold

        if self._are_lists(meant):
            if before.list_settings_ is None:
                return {}
            keeps = Choice(before.list_settings_, 0.0) if goes_on else None
            return {"prepare": go_on, "start": partial(vectors_of, before, self._items.ids), "keeps": keeps}
        settled = settled_intercepts(before.answers_, labels, every_pair=meant != "missing")

        def start(problem: Problem, labels: ObservedLabels, intercept: Floats) -> Factors:
            return starting_model(
                before,
                problem,
                intercept,
                self._users,
                self._items,
                columns=self._columns,
                implicit=self._implicit,
                user_intercept=self._has_user_intercept,
                settled=settled,
            )

        def prepare(run: FitRun) -> None:
            go_on(run)
            run.start = start

        return {"prepare": prepare}

    def _with_present_settings(self, chosen: ChosenFit) -> ChosenFit:
        """A fit at the settings of this model, with what was chosen for this model."""
        rates = chosen.flip_rates
        if rates is not None and isinstance(self.flip_rate, str):
            rates = replace(rates, value=self.flip_rate_, interval=self.flip_rate_interval_)
        return replace(
            chosen,
            variant=chosen.variant or Variant(self.count_weighting_),
            threshold=chosen.threshold if self.threshold == "train" else self.threshold_,
            candidates=getattr(self, "candidates_", ()),
            held_out_metric=getattr(self, "held_out_metric_", None),
            held_out_error=self.held_out_error_,
            flip_rates=rates,
        )

    def _why_anew(self, batches: tuple[Batch, ...], drift: str | None, n_ratings: int) -> str | None:
        """Why settings are to be chosen anew; None where they are not."""
        if not self._chooses:
            return None
        if drift == "worse":
            return "drift"
        last = max(place for place, batch in enumerate(batches) if place == 0 or batch.chosen_anew)
        then = sum(batch.added for batch in batches[: last + 1])
        return "growth" if n_ratings > GROWTH * then else None

    @property
    def _chooses(self) -> bool:
        """Whether anything is chosen on held-out ratings."""
        return self.threshold != "train" or self.trace_penalty == "auto"

    # -- batches -----------------------------------------------------------------------------------------

    @property
    def batch_metric(self) -> str:
        """What batches are judged by before they are learned from."""
        if self._silence != "missing":
            return "NDCG@10"
        return metric_name(self.metric_)

    def _first_batch(self, held_out: HeldOutScores, seconds: float) -> Batch:
        """The record of a fit."""
        value = error = None
        seen, judged = held_out.scores, held_out.labels
        if seen is not None and judged is not None and self._silence == "missing":
            value = self.held_out_metric_
            error = metric_error(leave_out_values(self.metric_, seen >= self.threshold_, judged))
        elif seen is not None and judged is not None and judged.n_observed and self._are_lists(self._silence):
            # For lists, the ranks of held-out likes.
            value, error, _ = judge_ranks(seen, judged)
        batch = Batch(
            number=1,
            new_rows=len(self.user_ids_),
            new_labels=len(self.item_ids_),
            added=self.answers_.n_observed,
            metric=value,
            standard_error=error,
            chosen_anew="first",
        )
        return self._measured(batch, seconds)

    def _keep_first_batch(self, batch: Batch) -> None:
        """Begin the record of batches; one that says nothing of the metric follows from the model."""
        self.__dict__.pop("batches_", None)
        if batch.metric is not None:
            self.batches_ = (batch,)

    def _measured(self, batch: Batch, seconds: float) -> Batch:
        return replace(
            batch,
            held_out_metric=self.held_out_metric_,
            objective=self.objective_,
            relative_gap=self.relative_gap_,
            seconds=seconds,
        )


def _at_present_settings(before: Any, now: Any) -> Any:
    """A copy of the estimator in which everything that ``before`` has chosen is given."""
    fixed = copy.copy(now)
    fixed.trace_penalty, fixed.ridge_penalty = before.trace_penalty_, before.ridge_penalty_
    fixed.intercept_penalty = getattr(before, "intercept_penalty_", 0.0)
    fixed.count_weighting, fixed.threshold = before.count_weighting_, "train"
    if isinstance(now.flip_rate, str) and before._silence == "unlabelled":
        fixed.flip_rate = before.flip_rate_
    return fixed
