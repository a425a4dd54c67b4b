"""Likes and dislikes of users about items: 1-bit matrix completion with a certified fit and one threshold."""

from __future__ import annotations

import copy
import os
from time import perf_counter
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelgap._types import Floats
from labelgap.estimators.inputs import check_decision_parameters
from labelgap.estimators.recommender_arriving import ArrivingRatings
from labelgap.estimators.recommender_fit import for_ids, warn_of_items_without_ratings
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import meaning_of_silence
from labelgap.losses import Loss, Squared, get_loss
from labelgap.losses.unlabelled import Unlabelled
from labelgap.metrics import LinearFractional, get_metric
from labelgap.persistence.checks import RECOMMENDER
from labelgap.persistence.registry import savable_estimator
from labelgap.persistence.saving import Saved
from labelgap.recommending.ratings import Rule
from labelgap.recommending.side_features import SideFeatures
from labelgap.solvers import Callback


@savable_estimator(RECOMMENDER)
class Recommender(ArrivingRatings, Saved):
    """Decides which items a user likes, or ranks items to show, from ratings of many users.

    There are two questions, and each has a setting of its own:

    - *Decide*: would this user like this item? ``unobserved="missing"``, the default, learns from likes and
      dislikes, and says nothing about who rates what.
    - *Recommend*: which items should be shown to this user? ``unobserved="negative"`` takes a pair without a
      rating as 0. So it learns which items people choose, and its lists are good ones.

    Fits, over the ratings Ω,

        ``min_{W,b}  1/|Ω| Σ_Ω ℓ(z_ij, y_ij) + λ‖W‖_* + λ₂/2 ‖W‖_F²``,  ``Z = [I X] W [I s1 F]ᵀ + 1bᵀ``

    to a proven duality gap: every user and every item has factors of its own, an intercept, and what its
    features (X, F) add to them: those that are given, and those of ``implicit_feedback``. The decision is
    ``z_ij ≥ θ`` with the one θ that maximises the metric.

    For lists it fits, over all pairs and in closed form,

        ``min_M ½‖R − M‖_F² + λ‖M‖_*``,  ``R = D_u^(−a) X D_i^(−b)``,

    where X has 1 for a like, and D_u and D_i the counts of users and items: the singular values of R, lowered
    by λ. A score estimates ``2 x_ij − 1``, that is 1 for a like and −1 for none.

    With ratings of one kind only (likes and
    silence) set ``unobserved="unlabelled"``: then a recorded like is a yes whatever its score, and θ is
    for the pairs that are not recorded.

    Parameters
    ----------
    metric : str or LinearFractional, default "micro-f1"
        What the decisions are judged by; see :func:`labelgap.get_metric`.
    positive : None, number or function, default None
        Which values are likes: None where they are 0/1 already, a number for "that much or more", or a
        function of the values, such as ``lambda r: r >= 4``.
    user, item, value : str, default "user", "item", "value"
        Names of the columns of frames. Where there is no column "value", "rating" is read.
    loss : {"auto", "logistic", "squared", "squared_hinge", "exponential"} or Loss, default "auto"
        "auto" is the logistic loss, and the squared loss under ``unobserved="negative"`` and
        ``"unlabelled"``, where every pair counts: it sums over all pairs in closed form.
    trace_penalty : float or "auto", default "auto"
        λ. "auto" chooses it on held-out ratings by the metric, for lists on held-out likes by their NDCG@20.
        For lists, a number means that nothing else is chosen either.
    ridge_penalty : float or "auto", default 0
        λ₂.
    intercept_penalty : float or "auto", default "auto"
        κ in ``κ/2 Σ_j (b_j − c)²``, where c is the score of the overall rate of likes: it keeps the intercept
        of an item with few ratings from being extreme. "auto" chooses it with λ. It is 0 where λ is given as
        a number, and where nothing is known of the other pairs. Lists have none.
    rank : int or None, default None
        A cap on the number of factors. None lets the certificate decide, for lists among at most 1,536, which
        bounds time and memory.
    score_bound : float, None or "auto", default "auto"
        γ, a bound on every score without its item's intercept; as in :class:`labelgap.LowRankClassifier`.
    unobserved : {"missing", "negative", "unlabelled"}, default "missing"
        What a pair without a rating means: nothing ("missing"), a 0 for lists ("negative"), or a like that
        may not have been recorded ("unlabelled", which takes likes only). Under "negative" a loss other than
        the squared one makes every pair a rating, and takes that much memory.
    count_powers : pair of numbers from 0 to 1, or "auto", default "auto"
        For lists: (a, b), the powers of the counts of users and of items that X is divided by. "auto" chooses
        both from 0, 0.25 and 0.5; where λ is given they are 0.25.
    leave_one_out : bool or "auto", default "auto"
        For lists: whether the scores of an item j are divided by ``1 − h_j``, where h_j is what a like of j
        adds to its own score. It matters where items are few. "auto" chooses; no where λ is given.
    dislike_value : float from -1 to 1, or "auto", default "auto"
        For lists: the entry of X for a dislike, where a like is 1 and a pair without a rating 0. "auto"
        chooses from 0, 0.25 and 0.5: an item that was rated low was at least worth a look.
    value_power : float from 0 to 2, or "auto", default "auto"
        For lists: how much more a like counts the larger its value v is (a play count, say): its entry is
        ``(v/v̄)^p``, where v̄ is the mean value of the likes. "auto" chooses p from 0, 0.5 and 1 where the
        values differ much; otherwise it is 0.
    implicit_feedback : bool or "auto", default "auto"
        Whether which items a user has rated, whatever the ratings, is used as well, under
        ``unobserved="missing"``: people rate what they choose, and that shows their taste. The pattern of
        ratings gives features of users and items, as many as stand out of chance, and none where ratings are
        spread at random (:mod:`labelgap.recommending.implicit_feedback`). "auto" is no where λ is given as a
        number, since it refers to the problem without them, and yes otherwise.
    flip_rate : float, mapping from item to float, array, or "estimate", default "estimate"
        ρ, the fraction of likes that were not recorded, under ``unobserved="unlabelled"`` only. The places of
        an array are the items' ids, which then must be whole numbers from 0. It cannot be chosen by the
        metric: each rate judges itself.
    threshold : {"cross-fit", "holdout", "train"}, default "cross-fit"
        Where θ comes from; as in :class:`labelgap.LowRankClassifier`.
    user_intercept : bool or "auto", default "auto"
        Whether users differ in how readily they like anything. "auto" is yes under ``unobserved="missing"``
        and no where every pair counts: there the first factors say it, and the fit has a closed form.
    count_weighting : float from 0 to 1, or "auto", default "auto"
        How the penalty of a user's, or an item's, factors grows with the number m of its ratings: by m to
        this power, relative to the mean. 0 is the trace norm, which treats all alike; 1 the weighted trace
        norm. Where a few users and items have most of the ratings, about 0.75 predicts better. "auto" chooses
        0, 0.5, 0.75 or 1 together with λ on held-out ratings. It is 0 where λ is given as a number, and under
        ``unobserved="unlabelled"``.
    weights : {None, "inverse-propensity"}, default None
        Weights each rating by one over its probability of being given; see ``propensities`` in :meth:`fit`.
    solver : {"auto", "factored", "proximal", "alternating"}, default "auto"
        What makes the last fit; penalties and thresholds are chosen by fits of "auto".
        "alternating" needs a ``rank``.
    tol : float or None, default None
        Relative duality gap at which the fit stops. The last digits of a large fit take most of its time.
        None is 1e-3, and 1e-2 under ``unobserved="negative"``, where the order of the items is what counts.
    max_iter : int or None, default None
    memory_limit_mb : float, default 256
        About what the work over all pairs may take under ``unobserved="unlabelled"``, in megabytes.
    random_state : int, RandomState or None, default None
    n_jobs : int or None, default None
        As in :class:`LowRankClassifier`.
    verbose : int, default 0
    device : {"auto", "cpu", "cuda", "cuda:0", ...}, default "auto"
        Where the work is done: on the CPU, or by torch on a GPU (the extra ``labelgap[gpu]``). "auto" is a
        GPU if there is one and the data are large enough to gain from it. The model and its certificate are
        the same; predictions run there too.
    warm_start : bool, default False
        Whether :meth:`fit` begins its last fit from the factors of the fit before, by the ids. It changes the
        time that a fit takes, and nothing else beyond the duality gap.
    forget : float or None, default None
        The half-life of ratings in batches: in :meth:`partial_fit` a rating that came h batches ago has the
        weight ``2^(−h/forget)``. None forgets nothing. Not with ``unobserved="unlabelled"``, where every pair
        counts once.
    aggregate : {None, "sum", "mean", "max", "last"}, default None
        What becomes of several ratings of an item by a user, such as plays or visits, before ``positive``
        judges it: their sum, mean or maximum, or the last one, by ``time`` and then by the order of the
        lines. It holds wherever ratings are read, and :meth:`partial_fit` and :meth:`fold_in` join new events
        with those before. None: two ratings that differ are an error, and a later one replaces an earlier.
    time : str, default "timestamp"
        The column of times in frames: numbers, dates, or texts such as "2024-05-31". Without frames times are
        a fourth sequence, (users, items, values, times), where values may be None. They are read for
        ``half_life``, and for "last" where they are there.
    half_life : float or None, default None
        How fast events lose their weight, in days where times are dates, otherwise in the unit of the times:
        an event that is older than the newest of all by a has the weight ``2^(−a/half_life)``. Under
        ``aggregate="sum"`` and in a mean this is the weight of each event, so that ``positive`` judges a sum
        that decays; in all other cases it is the weight of the rating by its newest event. Not with
        ``forget``, nor with ``unobserved="unlabelled"``.

    Attributes
    ----------
    user_ids_, item_ids_ : tuples of ids
    user_factors_, item_factors_ : arrays with one row per user and per item
        The score is ``user_factors_ @ item_factors_.T + item_intercept_``.
    user_intercept_, item_intercept_ : arrays
        The users' intercepts are part of that product; the items' are not.
    threshold_ : float
        θ, in units of the scores.
    rank_, singular_values_, trace_penalty_, ridge_penalty_, objective_, duality_gap_, n_iter_, history_,
    candidates_, flip_rate_, flip_rate_interval_, loss_, metric_ :
        As in :class:`labelgap.LowRankClassifier`.
    rank_limited_ : bool
        Whether the limit of the rank (``rank``; or 1,536 for lists) kept the fit from the gap ``tol``. A
        higher ``rank`` could lower the objective by ``duality_gap_`` at most.
    count_weighting_ : float
        The count weighting that was used.
    list_settings_ : ListSettings or None
        What was chosen for lists; None for other fits.
    n_implicit_features_ : int
        How many features the pattern of ratings gave; 0 where it was not used.
    answers_ : ObservedLabels
        The ratings, users x items.
    batches_ : tuple of :class:`labelgap.arriving.Batch`
        What was learned from: the fit, and then each call of :meth:`partial_fit`. Before the first of these
        it is empty if the fit had no ratings held out to judge it by.

    Examples
    --------
    >>> from labelgap import Recommender
    >>> users = ["ann", "ann", "bob", "bob", "cat", "cat", "dan", "dan"] * 2
    >>> items = ["Ran", "Jaws", "Ran", "Ikiru", "Jaws", "Alien", "Alien", "Ran"]
    >>> items += ["Ikiru", "Alien", "Jaws", "Alien", "Ran", "Ikiru", "Jaws", "Ikiru"]
    >>> stars = [5, 1, 4, 5, 4, 5, 5, 2, 4, 2, 1, 1, 2, 1, 5, 1]
    >>> model = Recommender(positive=4, trace_penalty=0.02, random_state=0).fit((users, items, stars))
    >>> model.predict("cat", ["Jaws", "Ran"])
    array([1, 0], dtype=int8)
    >>> later = model.fold_in((["eve", "eve"], ["Ran", "Jaws"], [5, 1]))
    >>> later.recommend("eve", n=1).items.tolist()
    ['Ikiru']
    """

    _tol_of_none = "the tolerance that fits the setting"

    def __init__(
        self,
        metric: str | LinearFractional = "micro-f1",
        positive: Rule = None,
        user: str = "user",
        item: str = "item",
        value: str = "value",
        loss: str | Loss = "auto",
        trace_penalty: float | str = "auto",
        ridge_penalty: float | str = 0.0,
        intercept_penalty: float | str = "auto",
        rank: int | None = None,
        score_bound: float | str | None = "auto",
        unobserved: str = "missing",
        count_powers: tuple[float, float] | str = "auto",
        leave_one_out: bool | str = "auto",
        dislike_value: float | str = "auto",
        value_power: float | str = "auto",
        implicit_feedback: bool | str = "auto",
        flip_rate: Any = "estimate",
        threshold: str = "cross-fit",
        user_intercept: bool | str = "auto",
        count_weighting: float | str = "auto",
        weights: str | None = None,
        solver: str = "auto",
        tol: float | None = None,
        max_iter: int | None = None,
        memory_limit_mb: float = 256.0,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        device: str = "auto",
        warm_start: bool = False,
        forget: float | None = None,
        aggregate: str | None = None,
        time: str = "timestamp",
        half_life: float | None = None,
    ) -> None:
        self.metric = metric
        self.positive = positive
        self.user = user
        self.item = item
        self.value = value
        self.loss = loss
        self.trace_penalty = trace_penalty
        self.ridge_penalty = ridge_penalty
        self.intercept_penalty = intercept_penalty
        self.rank = rank
        self.score_bound = score_bound
        self.unobserved = unobserved
        self.count_powers = count_powers
        self.leave_one_out = leave_one_out
        self.dislike_value = dislike_value
        self.value_power = value_power
        self.implicit_feedback = implicit_feedback
        self.flip_rate = flip_rate
        self.threshold = threshold
        self.user_intercept = user_intercept
        self.count_weighting = count_weighting
        self.weights = weights
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.memory_limit_mb = memory_limit_mb
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.device = device
        self.warm_start = warm_start
        self.forget = forget
        self.aggregate = aggregate
        self.time = time
        self.half_life = half_life

    def fit(
        self,
        answers: Any,
        y: Any = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
        propensities: Any = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit factors, intercepts and θ.

        Ctrl-C ends the fit early with a usable model; see :meth:`labelgap.LowRankClassifier.fit`.

        Parameters
        ----------
        answers : three sequences (users, items, values), or four with times, two (users, items) of likes, a
            long frame, a sparse matrix, or ObservedLabels
        y : None
            Not used; it is there for scikit-learn.
        user_features, item_features : mapping from id to a row of numbers, or a frame with the ids in a
            column (or, in pandas, in the index); optional
            What is known of the users and items. Those without ratings are known to the model too, and every
            user or item with ratings must have a row.
        propensities : mapping from (user, item) to a number, array or sparse matrix of users x items, or None
            For ``weights="inverse-propensity"``: how likely each rating was to be given. The rows and columns
            of an array are the ids, which then must be whole numbers from 0. None estimates them from how
            many ratings users and items have.
        callback : callable, optional
            As in :meth:`labelgap.LowRankClassifier.fit`.
        checkpoint : path of a folder, or None
            Where the fit keeps its progress. The same fit, started again after it was killed or stopped,
            resumes from there and ends with the same model. Delete the folder once the model is saved.
        sample_weight : array with one weight per rating, or None
            In the order of the ratings; 0 leaves one out. Only under ``unobserved="missing"``.
        """
        began = perf_counter()
        check_decision_parameters(self)
        self._check_own_parameters()
        before = copy.copy(self) if self.warm_start and hasattr(self, "answers_") else None
        meant = meaning_of_silence(answers, self.unobserved)
        answers = self._as_events(answers)
        labels = self._weighed(self._read_ratings(answers, meant), answers, sample_weight, meant)
        self._check_meaning(meant)
        self._check_decay(meant)
        automatic = "logistic" if meant == "missing" else "squared"
        self.loss_ = get_loss(automatic if self.loss == "auto" else self.loss)
        self.metric_ = get_metric(self.metric)
        self._users = SideFeatures.read(user_features, self.user, "user", labels.row_names)
        self._items = SideFeatures.read(item_features, self.item, "item", labels.label_names)
        given = for_ids(labels, self._users.ids, self._items.ids)
        labels = self._checked(given, meant, propensities)
        warn_of_items_without_ratings(labels)
        self._find_implicit(labels, meant)
        going_on = {} if before is None else self._going_on_from(before, labels, meant, goes_on=False)
        decay = self._event_decay(answers, meant)
        held_out = self._learn(
            labels, meant, callback=callback, checkpoint=checkpoint, decay=decay, **going_on
        )
        self._keep_given(given.weights, decay, meant)
        for name in ("_batch_of_rating", "_propensities_given", "_events"):
            self.__dict__.pop(name, None)
        self._keep_events(answers)
        if propensities is not None:
            self._propensities_given = True
        self._keep_first_batch(self._first_batch(held_out, perf_counter() - began))
        return self

    @property
    def count_weighting_(self) -> float:
        """The count weighting that was used."""
        check_is_fitted(self)
        return 0.0 if self.list_settings_ is not None else float(self.count_units_[0])

    @property
    def n_implicit_features_(self) -> int:
        """How many features the pattern of ratings gave."""
        check_is_fitted(self)
        return 0 if self._implicit is None else self._implicit.n_features

    # -- hooks of the serving half -----------------------------------------------------------------------

    def _read_ratings(self, ratings: Any, unobserved: str, *, keep_values: bool = False) -> ObservedLabels:
        if unobserved == "negative":
            # Pairs without a rating are not written out, and values of likes are kept as their weights.
            keep_values = self.loss in ("auto", "squared") or isinstance(self.loss, Squared)
            return super()._read_ratings(ratings, "missing", keep_values=keep_values)
        if unobserved != "unlabelled":
            return super()._read_ratings(ratings, unobserved)
        labels = super()._read_ratings(ratings, "missing")
        dislikes = int(np.sum(labels.values == 0))
        if dislikes:
            raise InvalidLabelsError(
                f"{dislikes} of {labels.n_observed} ratings are dislikes, but unobserved='unlabelled' is for "
                "likes alone. Leave the dislikes out, or use them with unobserved='missing'."
            )
        return ObservedLabels.from_any(labels, unobserved=unobserved)

    def _read_more(self, ratings: Any) -> ObservedLabels:
        if self.list_settings_ is None:
            return super()._read_more(ratings)
        return self._read_ratings(ratings, "negative")

    def _intercept_penalty(self) -> tuple[float, float] | None:
        strength = getattr(self, "intercept_penalty_", 0.0)
        return (strength, getattr(self, "intercept_centre_", 0.0)) if strength > 0 else None

    def _entry_loss(self, *, of_new_items: bool = False) -> Loss:
        if self.answers_.unobserved != "unlabelled":
            return self.loss_
        rates = self._flip_rate_of_items()
        return Unlabelled(self.loss_, float(self._label_flip_rates.mean()) if of_new_items else rates)

    def _flip_rate_of_items(self) -> Floats:
        if self.answers_.unobserved != "unlabelled":
            raise InvalidParameterError(
                "The recommender was fitted with unobserved="
                f"{self.answers_.unobserved!r}, so it has no flip rate to correct a metric with."
            )
        rates = self._label_flip_rates
        # Items that were folded in have no rate of their own.
        return np.append(rates, np.full(len(self.item_ids_) - len(rates), rates.mean()))

    def _prior_of_features(self, features: Any) -> Floats:
        return self._users.scaled(features) @ self.user_feature_factors_

    def _item_prior_of_features(self, features: Any) -> Floats:
        return self._items.scaled(features) @ self.item_feature_factors_

    def _has_item_features(self) -> bool:
        return self._items.matrix is not None

    def _described_by(self) -> str:
        parts = [] if self._users.matrix is None else [super()._described_by()]
        if self._implicit is not None:
            parts.append("which items the user has rated")
        return " and ".join(parts)

    def _prior_of_ratings(self, ratings: ObservedLabels) -> Floats | None:
        if self._implicit is None:
            return None
        return self._implicit.of_users(ratings) @ self.user_implicit_factors_

    def _item_prior_of_ratings(self, ratings: ObservedLabels) -> Floats | None:
        if self._implicit is None:
            return None
        return self._implicit.of_items(ratings) @ self.item_implicit_factors_
