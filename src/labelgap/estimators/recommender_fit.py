"""The fit of a recommender to ratings that have been read, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.estimators.base import CertifiedFit
from labelgap.estimators.inputs import solver_settings
from labelgap.estimators.recommender_choice import RecommenderChoice
from labelgap.exceptions import UninformativeLabelsWarning
from labelgap.fitting.checkpoint import digest
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.problem import shared_column_length
from labelgap.fitting.run import FitRun, fit_run
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.recommending.closed_form.choice import Choice
from labelgap.recommending.closed_form.fit import ListFit
from labelgap.recommending.closed_form.settings import ListSettings, Ratings
from labelgap.recommending.factor_model import complete
from labelgap.recommending.ids import Ids
from labelgap.solvers import Callback
from labelgap.thresholds.cross_fit import HeldOutScores
from labelgap.thresholds.trivial import warn_of_trivial_decisions


class RecommenderFit(CertifiedFit, RecommenderChoice):
    """The part of a Recommender that fits, and keeps factors and ratings."""

    user_ids_: Ids
    item_ids_: Ids
    item_intercept_: Floats
    answers_: ObservedLabels
    list_settings_: ListSettings | None
    _decay: Floats | None
    _given_weights: Floats | None = None
    """The weights of ``answers_`` as they were given, where the fit used others; None where it used these."""

    def _learn(
        self,
        labels: ObservedLabels,
        meant: str,
        *,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        prepare: Callable[[FitRun], None] | None = None,
        decay: Floats | None = None,
        chosen_by: RecommenderChoice | None = None,
        finish: Callable[[ChosenFit], ChosenFit] | None = None,
        start: Any = None,
        keeps: Choice | None = None,
    ) -> HeldOutScores:
        """Choose and fit, and set what a fit sets; the held-out scores that chose the threshold.

        Parameters
        ----------
        labels : ObservedLabels
            The ratings, with weights as ``_checked`` gives them.
        meant : str
            What a pair without a rating means.
        prepare : function of the run, or None
            Called before anything is fitted.
        decay : array or None
            Factors on the ratings of lists by their age.
        chosen_by : RecommenderChoice, default self
            Whose parameters say what is chosen.
        finish : function, or None
            What becomes of the chosen fit before it is kept.
        start, keeps
            As in :func:`fit_lists`.
        """
        chooser = self if chosen_by is None else chosen_by
        held_out = HeldOutScores()
        columns = self._columns_for(labels)

        def data() -> dict[str, str]:
            rated = (labels,) if decay is None else (labels, decay)
            return {"the ratings": digest(*rated), "the features": digest(*columns)}

        with _described(columns, meant, self, chooser):
            with fit_run(self, callback, checkpoint, data) as run:
                run.held_out = held_out
                if prepare is not None:
                    prepare(run)
                settings = solver_settings(self)
                lists = self._are_lists(meant)
                if lists:
                    ratings = Ratings(labels, decay, *self._columns)
                    fitted = chooser._choose_lists(ratings, run, start=start, keeps=keeps)
                    chosen = fitted.chosen
                elif meant == "negative":
                    chosen = chooser._choose_observed(complete(labels), settings, run)
                elif meant == "unlabelled":
                    chosen = chooser._choose_unlabelled(labels, settings, run)
                else:
                    chosen = chooser._choose_observed(labels, settings, run)
                if finish is not None:
                    chosen = finish(chosen)
                self._keep_decisions(chosen)
                self._forget_before()
                self.answers_ = labels
                self.item_intercept_ = chosen.fit.factors.intercept
                self.user_ids_, self.item_ids_ = self._users.ids, self._items.ids
                if lists:
                    self._keep_lists(fitted, decay)
                else:
                    assert chosen.problem is not None
                    self._keep_factors(chosen.problem, chosen.fit.factors.left, chosen.fit.factors.right)
                    self._keep_units(labels, chosen, meant)
            if not lists:
                # Lists are made without a threshold.
                warn_of_trivial_decisions(
                    self.metric_,
                    self.threshold_,
                    held_out,
                    value=chosen.held_out_metric,
                    flip_rate=getattr(self, "flip_rate_", None),
                    trivial=chosen.trivial,
                    # A recorded like is a yes in any case.
                    everything="every pair without a like",
                )
        return held_out

    def _forget_before(self) -> None:
        """Forget what only some fits have, and an earlier one may have left."""
        of_some = ("intercept_centre_", "counts_every_pair_", "count_units_", "user_prior_", "answer_weight_")
        penalised = ("factor_penalty_", "item_factor_penalty_", "shared_item_factor_")
        of_lists = ("list_settings_", "mean_like_", "item_weights_", "_decay")
        folded_in = ("new_user_mean_", "new_user_penalty_", "folded_in_")
        implicit = ("user_implicit_factors_", "item_implicit_factors_")
        for name in (*of_some, *penalised, *of_lists, *folded_in, *implicit):
            self.__dict__.pop(name, None)

    def _keep_lists(self, fitted: ListFit, decay: Floats | None) -> None:
        """What lists are made by."""
        self.list_settings_, self.mean_like_ = fitted.settings, fitted.mean_value
        if decay is not None:
            self._decay = decay
        factors = fitted.factors
        self.user_factors_, self.item_factors_ = factors.users, factors.items
        self.item_weights_ = factors.item_weights
        self.user_feature_factors_, self.item_feature_factors_ = factors.user_features, factors.item_features
        self.user_intercept_ = np.zeros(len(factors.users))

    def _keep_units(self, labels: ObservedLabels, chosen: ChosenFit, meant: str) -> None:
        """What each rating weighs, and how penalties depend on the numbers of ratings."""
        variant = chosen.variant
        weighting = self._weightings()[0] if variant is None else variant.count_weighting
        total = float(labels.n_observed if labels.weights is None else labels.weights.sum())
        if meant != "missing":
            total = float(labels.shape[0] * labels.shape[1])
        if meant == "negative":
            self.counts_every_pair_ = True
        self.answer_weight_ = 1.0 / total
        # Files of models whose intercepts are free have no place for it.
        if chosen.penalties.intercept > 0:
            self.intercept_centre_ = chosen.penalties.centre
        means = (np.maximum(counts, 1).mean() for counts in (labels.row_counts(), labels.label_counts()))
        self.count_units_ = np.array([weighting, *means])

    def _keep_factors(self, problem: Problem, left: Floats, right: Floats) -> None:
        n, n_items = len(self._users.ids), len(self._items.ids)
        self.user_factors_, self.item_factors_ = problem.left(left), problem.right(right)
        rank = left.shape[1]
        X = self._columns[0]
        self.user_prior_ = np.zeros((n, rank)) if X is None else np.asarray(X @ left[n:])
        beyond = right[n_items:]
        shared = shared_column_length(n_items)
        self.shared_item_factor_ = shared * beyond[0] if self._has_user_intercept else np.zeros(rank)
        of_items = beyond[1:] if self._has_user_intercept else beyond
        n_user_features, n_item_features = len(self._users.mean), len(self._items.mean)
        self.user_feature_factors_ = left[n : n + n_user_features]
        self.item_feature_factors_ = of_items[:n_item_features]
        if self._implicit is not None:
            self.user_implicit_factors_ = left[n + n_user_features :]
            self.item_implicit_factors_ = of_items[n_item_features:]
        self.user_intercept_ = self.user_factors_ @ self.shared_item_factor_
        trace = self.trace_penalty_ * np.eye(rank)
        self.factor_penalty_ = trace + self.ridge_penalty_ * (right.T @ right)
        self.item_factor_penalty_ = trace + self.ridge_penalty_ * (left.T @ left)


@contextlib.contextmanager
def _described(columns: Any, meant: str, *models: RecommenderChoice) -> Iterator[None]:
    """Let the models have the features of users and items, and the meaning of silence, for a while."""
    for model in models:
        model._columns, model._meant = columns, meant
    try:
        yield
    finally:
        for model in models:
            for name in ("_columns", "_meant"):
                model.__dict__.pop(name, None)


def for_ids(labels: ObservedLabels, users: tuple[Any, ...], items: tuple[Any, ...]) -> ObservedLabels:
    """The labels with rows and columns for users and items without ratings, which come last."""
    extra = len(users) - labels.shape[0]
    indptr = np.concatenate([labels.indptr, np.full(extra, labels.indptr[-1])])
    return replace(labels, indptr=indptr, shape=(len(users), len(items)), row_names=users, label_names=items)


def warn_of_items_without_ratings(labels: ObservedLabels) -> None:
    silent = np.flatnonzero(labels.label_counts() == 0)
    if len(silent):
        assert labels.label_names is not None
        warn(
            f"{len(silent)} of {labels.shape[1]} items have no rating (the first: "
            f"{labels.label_names[silent[0]]!r}); their intercept is that of the overall rate of likes.",
            UninformativeLabelsWarning,
        )
