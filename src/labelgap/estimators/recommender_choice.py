"""How a recommender chooses its penalties: one way for each meaning of a pair without a rating."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.estimators.inputs import (
    check_fraction,
    refuse_flip_rate,
    tolerance_of,
    weighted_labels,
)
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import (
    COUNT_WEIGHTINGS,
    PenaltyRequest,
    Variant,
    Variants,
    largest_trace_penalty,
)
from labelgap.fitting.problem import backend_for, jobs_for, observed_problem, recommender_features
from labelgap.fitting.run import FitRun
from labelgap.fitting.sampled import RatingsChoice
from labelgap.fitting.unlabelled import UnlabelledChoice, check_unlabelled
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.metrics import LinearFractional
from labelgap.objective.parts import FeatureSettings
from labelgap.objective.problem import Problem
from labelgap.recommending.closed_form.choice import MOST_FACTORS, SHOWN
from labelgap.recommending.closed_form.fit import ListFit, ListRequest, fit_lists
from labelgap.recommending.closed_form.machines import place_for
from labelgap.recommending.closed_form.settings import (
    DISLIKES,
    POWERS,
    VALUE_POWERS,
    ListSettings,
    Ratings,
    values_vary,
)
from labelgap.recommending.factor_model import without_implied
from labelgap.recommending.ids import propensities_of, rates_of
from labelgap.recommending.implicit_feedback import ImplicitFeedback
from labelgap.recommending.side_features import SideFeatures

# κ in units of 1/|Ω|: a strength s is a normal prior of variance 1/s on an item's log-odds.
INTERCEPT_STRENGTHS = (1.0, 4.0, 16.0)
# The count weighting that a search begins with.
_FIRST_COUNT_WEIGHTING = 0.75
# Parameters of lists alone, and those that have no meaning for lists, with the values that say nothing.
_OF_LISTS = ("count_powers", "leave_one_out", "dislike_value", "value_power")
_NOT_OF_LISTS: dict[str, tuple[Any, ...]] = {
    "ridge_penalty": (0.0, "auto"),
    "intercept_penalty": ("auto", 0.0),
    "score_bound": ("auto", None),
    "user_intercept": ("auto", False),
    "count_weighting": ("auto", 0.0),
    "solver": ("auto",),
    "max_iter": (None,),
}


class RecommenderChoice:
    """The part of a Recommender that turns its parameters and the ratings into a chosen fit."""

    trace_penalty: float | str
    ridge_penalty: float | str
    intercept_penalty: float | str
    rank: int | None
    score_bound: float | str | None
    unobserved: str
    count_powers: tuple[float, float] | str
    leave_one_out: bool | str
    dislike_value: float | str
    value_power: float | str
    tol: float | None
    implicit_feedback: bool | str
    flip_rate: Any
    threshold: str
    user_intercept: bool | str
    count_weighting: float | str
    weights: str | None
    memory_limit_mb: float
    device: str
    loss_: Loss
    metric_: LinearFractional
    _users: SideFeatures
    _items: SideFeatures
    _implicit: ImplicitFeedback | None = None
    """What turns the pattern of ratings into features; None where it is not used."""
    _columns: tuple[sp.csr_array | None, sp.csr_array | None] = (None, None)
    """The features of users and of items while they are fitted, those of the pattern last."""
    _meant: str | None = None
    """What a pair without a rating means to the fit that is under way."""

    if TYPE_CHECKING:

        @property
        def _silence(self) -> str: ...

    def _choose_observed(self, labels: ObservedLabels, settings: SolverSettings, run: FitRun) -> ChosenFit:
        """Likes and dislikes alone, or every pair as a rating."""
        weightings = self._weightings()
        features = self._feature_settings(weightings[0])
        backend = backend_for(self.device, labels, self.loss_)
        run.n_jobs = jobs_for(backend, run.n_jobs)

        def variants_of(users: NDArray[np.int64] | None) -> Variants:
            rated = labels if users is None else labels.take_rows(users)
            problem = observed_problem(
                self._features_of(users),
                rated,
                features,
                self.loss_,
                fit_intercept=True,
                score_bound=self.score_bound,
                backend=backend,
            )

            def variant(chosen: Variant) -> tuple[Problem, ObservedLabels]:
                changed = replace(features, count_weighting=chosen.count_weighting)
                return problem.with_settings(features=changed), rated

            return Variants(Variant(weightings[0]), {"count_weighting": weightings[1:]}, variant)

        request = self._request("negative" if self._rates_every_pair else "missing")
        choice = RatingsChoice(
            variants_of,
            request,
            settings,
            run,
            self._largest_penalty,
            INTERCEPT_STRENGTHS,
        )
        return choice.fit(self.metric_, how=self.threshold)

    def _features_of(self, users: NDArray[np.int64] | None) -> Any:
        """The features of the users with these numbers, or of all; None where there are none."""
        X = self._columns[0]
        return X if users is None or X is None else X[users]

    def _choose_lists(self, ratings: Ratings, run: FitRun, **options: Any) -> ListFit:
        """Every pair counts, and those without a rating are 0: the closed form."""
        request = self._list_request(ratings)
        place = place_for(self.device, ratings)
        return fit_lists(ratings, request, self.metric_, run, place=place, **options)

    def _list_request(self, ratings: Ratings) -> ListRequest:
        """What is asked for; the ratings may be those of some users."""
        rank = MOST_FACTORS if self.rank is None else int(self.rank)
        given = None if self.trace_penalty == "auto" else float(self.trace_penalty)
        settings, axes = self._list_settings(ratings)
        axes = axes if given is None else {}
        return ListRequest(settings, axes, given, rank, tolerance_of(self), self.threshold)

    def _list_settings(self, ratings: Ratings) -> tuple[ListSettings, dict[str, tuple[Any, ...]]]:
        """The settings to begin with, and what is chosen of them."""
        labels = ratings.labels
        axes: dict[str, tuple[Any, ...]] = {}
        first = ListSettings()
        if self.count_powers == "auto":
            axes |= {"user_power": POWERS, "item_power": POWERS}
        else:
            a, b = map(float, self.count_powers)
            first = first._replace(user_power=a, item_power=b)
        others: dict[str, Any] = {
            "leave_one_out": ((False, True), True),
            "dislike_value": (DISLIKES, bool(np.any(labels.values == 0))),
            "value_power": (VALUE_POWERS, values_vary(labels)),
        }
        for name, (values, matters) in others.items():
            if getattr(self, name) != "auto":
                first = first._replace(**{name: getattr(self, name)})
            elif matters:
                axes[name] = values
        return first, axes

    def _choose_unlabelled(self, labels: ObservedLabels, settings: SolverSettings, run: FitRun) -> ChosenFit:
        """Likes that were recorded, and nothing known of the other pairs."""
        check_unlabelled(labels, self.loss_, self.metric_)
        backend = backend_for(self.device, labels, self.loss_)
        run.n_jobs = jobs_for(backend, run.n_jobs)
        choice = UnlabelledChoice(
            self._columns[0],
            labels,
            self._feature_settings(self._weightings()[0]),
            self.loss_,
            self._request("unlabelled"),
            settings,
            run,
            score_bound=self.score_bound,
            memory_limit_mb=self.memory_limit_mb,
            largest=self._largest_penalty,
            backend=backend,
            start=run.start,
        )
        rates = self.flip_rate
        if not isinstance(rates, str):
            rates = rates_of(labels.label_names or (), rates)
        return choice.fit(self.metric_, rates, how=self.threshold, for_fitted_entries=True)

    # -- parameters --------------------------------------------------------------------------------------

    def _check_own_parameters(self) -> None:
        if self.count_weighting != "auto":
            check_fraction("count_weighting", self.count_weighting)
        if self.count_powers != "auto":
            _check_powers(self.count_powers)
        for name, low, high in (("dislike_value", -1, 1), ("value_power", 0, 2)):
            value = getattr(self, name)
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if value != "auto" and not (is_number and low <= value <= high):
                raise InvalidParameterError(
                    f"{name} must be 'auto' or a number from {low} to {high}; got {value!r}."
                )
        for name in ("user_intercept", "implicit_feedback", "leave_one_out"):
            if getattr(self, name) not in (True, False, "auto"):
                raise InvalidParameterError(
                    f"{name} must be True, False or 'auto'; got {getattr(self, name)!r}."
                )

    @property
    def _meaning(self) -> str:
        """What a pair without a rating means: as the fit resolved it, or before any fit the parameter."""
        if self._meant is not None:
            return self._meant
        return self._silence if hasattr(self, "answers_") else self.unobserved

    def _check_meaning(self, meant: str) -> None:
        """Raise if a parameter was given that has no meaning where this is what silence means."""
        if meant != "negative":
            for name in _OF_LISTS:
                if getattr(self, name) != "auto":
                    raise InvalidParameterError(
                        f"{name} has a meaning only for lists, under unobserved='negative'; here it is "
                        f"{meant!r}. Leave it out, or set unobserved='negative' to rank items for users."
                    )
        if meant != "missing" and self.implicit_feedback not in (False, "auto"):
            raise InvalidParameterError(
                f"implicit_feedback has a meaning only under unobserved='missing'; here it is {meant!r}, "
                "where every pair without a rating counts already. Leave it out."
            )
        if meant != "unlabelled":
            refuse_flip_rate(self.flip_rate, meant)

    def _checked(self, labels: ObservedLabels, meant: str, propensities: Any) -> ObservedLabels:
        """The labels that the fit is over, weighted where that is asked for."""
        if meant != "negative":
            labels.require_both_classes()
            return weighted_labels(labels, self.weights, propensities_of(labels, propensities))
        labels = without_implied(labels)
        labels.require_observed()
        require_likes(np.any(labels.values == 1))
        if self.weights is not None or propensities is not None:
            raise InvalidParameterError(
                "Weights by propensities correct for ratings that are missing; under unobserved='negative' "
                "none are. Leave weights and propensities out, or use unobserved='missing'."
            )
        if self.loss_.name == "squared":
            self._check_list_parameters()
            return labels
        for name in _OF_LISTS:
            if getattr(self, name) != "auto":
                raise InvalidParameterError(
                    f"{name} is for lists in closed form, with the squared loss; here it is "
                    f"{self.loss_.name!r}. Leave one of them out."
                )
        return labels

    def _check_list_parameters(self) -> None:
        """Raise if a parameter was given that has no meaning for lists in closed form."""
        for name, nothing in _NOT_OF_LISTS.items():
            value = getattr(self, name)
            if value not in nothing:
                raise InvalidParameterError(
                    f"{name}={value!r} has no meaning for lists (unobserved='negative' with the squared "
                    "loss), which are fitted in closed form. Leave it out."
                )

    def _request(self, meant: str) -> PenaltyRequest:
        """The penalties as given; an intercept that all pairs determine needs none."""
        intercept = self.intercept_penalty
        if intercept == "auto" and (self.trace_penalty != "auto" or meant != "missing"):
            intercept = 0.0
        return PenaltyRequest(self.trace_penalty, self.ridge_penalty, intercept)

    def _weightings(self) -> tuple[float, ...]:
        """The count weighting to begin with, and those to choose from, if any."""
        if self.count_weighting != "auto":
            return (float(self.count_weighting),)
        # A penalty that is given refers to the trace norm as it is.
        if self._meaning != "missing" or self.trace_penalty != "auto":
            return (0.0,)
        return (_FIRST_COUNT_WEIGHTING, *COUNT_WEIGHTINGS)

    @property
    def candidates_metric(self) -> str | None:
        """What the candidates of a search are judged by, where it is not the metric of decisions."""
        lists = self._meaning == "negative" and getattr(self, "loss", "auto") in ("auto", "squared")
        return f"NDCG@{SHOWN}" if lists else None

    @property
    def default_rank_limit(self) -> int | None:
        """The highest rank of a fit without ``rank``; None where there is none."""
        return None if self.candidates_metric is None else MOST_FACTORS

    @property
    def default_tol(self) -> float:
        """The relative duality gap that a ``tol`` of None stands for."""
        return 1e-2 if self._meaning == "negative" else 1e-3

    @property
    def _has_user_intercept(self) -> bool:
        return self._meaning == "missing" if self.user_intercept == "auto" else bool(self.user_intercept)

    @property
    def _rates_every_pair(self) -> bool:
        """Whether every pair becomes a rating, because the loss has no closed form for those without one."""
        return self._meaning == "negative" and not self._are_lists(self._meaning)

    def _are_lists(self, meant: str) -> bool:
        """Whether lists are made in closed form."""
        return meant == "negative" and self.loss_.name == "squared"

    # -- features ------------------------------------------------------------------------------------------

    def _find_implicit(self, labels: ObservedLabels, meant: str) -> None:
        """Decide whether the pattern of these ratings is used, and how."""
        self.__dict__.pop("_implicit", None)
        wanted = self.implicit_feedback
        # A penalty that is given refers to the problem without further features.
        used = self.trace_penalty == "auto" if wanted == "auto" else wanted
        found = ImplicitFeedback.learn(labels) if used and meant == "missing" else None
        if found is not None:
            self._implicit = found

    def _columns_for(self, labels: ObservedLabels) -> tuple[sp.csr_array | None, sp.csr_array | None]:
        """The features that were given, and those of the pattern of ratings."""
        if self._implicit is None:
            return self._users.matrix, self._items.matrix
        users, items = self._implicit.of_users(labels), self._implicit.of_items(labels)
        return _beside(self._users.matrix, users), _beside(self._items.matrix, items)

    def _feature_settings(
        self, count_weighting: float, *, user_intercept: bool | None = None
    ) -> FeatureSettings:
        """How the features are used; ``user_intercept`` takes the place of the parameter."""
        return recommender_features(
            len(self._items.ids),
            self._columns[1],
            user_intercept=self._has_user_intercept if user_intercept is None else user_intercept,
            count_weighting=count_weighting,
        )

    def _largest_penalty(self, problem: Problem, labels: ObservedLabels) -> float:
        """The smallest λ at which W = 0 but for the users' intercepts, which cost next to nothing."""
        weighting = problem.settings.features.count_weighting
        plain = problem.with_settings(features=self._feature_settings(weighting, user_intercept=False))
        return largest_trace_penalty(plain.objective(labels))


def require_likes(there_are: Any) -> None:
    """Raise unless there are likes to make lists by."""
    if not there_are:
        raise InvalidLabelsError(
            "None of the ratings is a like, so there is nothing to recommend by. Say with positive=... "
            "which ratings are likes."
        )


def _check_powers(powers: Any) -> None:
    good = isinstance(powers, tuple | list) and len(powers) == 2
    if not good:
        raise InvalidParameterError(
            f"count_powers must be two numbers, for users and for items, or 'auto'; got {powers!r}."
        )
    for power in powers:
        check_fraction("each of count_powers", power)


def _beside(given: sp.csr_array | None, more: Floats) -> sp.csr_array:
    blocks = [sp.csr_array(more)] if given is None else [given, sp.csr_array(more)]
    return sp.csr_array(sp.hstack(blocks))
