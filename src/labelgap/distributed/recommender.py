"""The recommender on a Dask cluster: users stay in their partitions, items travel."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelgap._names import check_choice
from labelgap.distributed.choice import cluster_choice
from labelgap.distributed.clients import the_client
from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.data_digest import digest_of
from labelgap.distributed.item_method import solve_items
from labelgap.distributed.item_problem import ItemProblem
from labelgap.distributed.list_fit import fit_lists_on_cluster
from labelgap.distributed.list_parts import ListPart
from labelgap.distributed.on_cluster import OnCluster
from labelgap.distributed.partial_models import DecisionFacts, Facts, ListFacts, users_there, write_best
from labelgap.distributed.rating_inputs import ClusterRatings, RatingColumns, read_cluster_ratings
from labelgap.distributed.users import ItemPlace
from labelgap.estimators.inputs import check_decision_parameters, tolerance_of
from labelgap.estimators.recommender import Recommender
from labelgap.estimators.recommender_choice import INTERCEPT_STRENGTHS, require_likes
from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import Variant, Variants, grid_for
from labelgap.fitting.run import FitRun, fit_run
from labelgap.labels.constructors import UNOBSERVED
from labelgap.losses import Loss, get_loss
from labelgap.metrics import LinearFractional, get_metric
from labelgap.objective.parts import ProblemSettings
from labelgap.recommending.closed_form.settings import ListSettings
from labelgap.recommending.ratings import Rule
from labelgap.recommending.side_features import SideFeatures
from labelgap.solvers import Callback


class DaskRecommender(OnCluster):
    """:class:`labelgap.Recommender` for ratings that are spread over a Dask cluster.

    It minimises the same objective over the ratings Ω,

        ``min_{W,b}  1/|Ω| Σ_Ω ℓ(z_ij, y_ij) + λ‖W‖_*``,  ``Z = W [I s1]ᵀ + 1bᵀ``,

    to the same duality gap, with the same exact threshold. Ratings are partitioned by user. The factors of a
    user follow from the user's ratings and the factors of the items; they are found where the ratings are,
    and are never sent or kept. So what travels does not grow with the number of users.

    For lists (``unobserved="negative"``) it decomposes ``R = D_u^(−a) X D_i^(−b)`` by products
    ``RᵀR V = Σ_p R_pᵀ (R_p V)`` over the partitions p, one round for each block of vectors. With given
    settings and λ this is the model of one machine. What is not given is chosen on this machine by a random
    sample of the users, who have about a million ratings together (all users, if these have at most twice as
    many): the settings, and λ as a fraction of the largest singular value of R. The fit to all users has this
    fraction of its own largest singular value. θ is the threshold of the sample, for pairs without a rating
    and for ratings that are held out (all ratings under ``threshold="train"``).

    Parameters
    ----------
    metric, positive, user, item, value, loss, trace_penalty, intercept_penalty, rank, count_powers, \
leave_one_out, dislike_value, value_power, threshold, user_intercept, count_weighting, tol, max_iter, \
random_state
        As in :class:`labelgap.Recommender` with ``implicit_feedback=False``.
    unobserved : {"missing", "negative"}, default "missing"
        What a pair without a rating means: nothing, or a 0 for lists.
    verbose : int, default 0
    client : distributed.Client or None, default None
        The cluster. None is the current client.

    Attributes
    ----------
    item_ids_ : tuple of ids
    item_factors_, item_intercept_ : arrays with one row per item
    n_users_, n_partitions_ : int
    list_settings_ : ListSettings or None
        What was chosen for lists; None for other fits.
    shuffled_ : bool
        Whether the ratings had to be shuffled by user.
    data_facts_ : dict
        The number of ratings.
    threshold_, rank_, trace_penalty_, objective_, duality_gap_, relative_gap_, candidates_, ...
        As in :class:`labelgap.Recommender`.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import numpy as np
    >>> import pandas as pd
    >>> from distributed import Client
    >>> from labelgap.distributed import DaskRecommender
    >>> rng = np.random.default_rng(0)
    >>> ratings = pd.DataFrame({"user": np.arange(300) // 6, "item": np.tile(np.arange(12), 25)})
    >>> ratings["value"] = (ratings.user + ratings.item) % 2
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     lines = dd.from_pandas(ratings, npartitions=1)
    ...     model = DaskRecommender(trace_penalty=0.02, threshold="train").fit(lines)
    ...     local = model.to_local()
    >>> local.predict(0, [1, 3])
    array([1, 1], dtype=int8)
    """

    stands_for = Recommender
    instead: ClassVar = {
        "n_jobs": "Leave it out: the cluster has as many tasks at work as its workers have threads.",
    }

    def __init__(
        self,
        metric: str | LinearFractional = "micro-f1",
        positive: Rule = None,
        user: str = "user",
        item: str = "item",
        value: str = "value",
        loss: str | Loss = "auto",
        trace_penalty: float | str = "auto",
        intercept_penalty: float | str = "auto",
        rank: int | None = None,
        unobserved: str = "missing",
        count_powers: tuple[float, float] | str = "auto",
        leave_one_out: bool | str = "auto",
        dislike_value: float | str = "auto",
        value_power: float | str = "auto",
        threshold: str = "cross-fit",
        user_intercept: bool | str = "auto",
        count_weighting: float | str = "auto",
        tol: float | None = None,
        max_iter: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        client: Any = None,
    ) -> None:
        self.metric = metric
        self.positive = positive
        self.user = user
        self.item = item
        self.value = value
        self.loss = loss
        self.trace_penalty = trace_penalty
        self.intercept_penalty = intercept_penalty
        self.rank = rank
        self.unobserved = unobserved
        self.count_powers = count_powers
        self.leave_one_out = leave_one_out
        self.dislike_value = dislike_value
        self.value_power = value_power
        self.threshold = threshold
        self.user_intercept = user_intercept
        self.count_weighting = count_weighting
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.client = client

    # -- fitting -------------------------------------------------------------------------------------------

    def fit(
        self,
        ratings: Any,
        y: Any = None,
        *,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit factors, intercepts and θ.

        Parameters
        ----------
        ratings : dask DataFrame or path of a Parquet folder
            One line for each rating, with the columns that ``user``, ``item`` and ``value`` name; without a
            column of values every line is a like. Ids are any values. Where a user's ratings are in several
            partitions they are shuffled first, with a warning.
        y : None
            Not used; it is there for scikit-learn.
        callback, checkpoint : as in :meth:`DaskLowRankClassifier.fit`
        """
        template, lists = self._checked_template(), self.unobserved == "negative"
        columns = RatingColumns(self.user, self.item, self.value, self.positive, keep_values=lists)
        data = read_cluster_ratings(the_client(self.client), ratings, columns)
        labels = ClusterLabels((data.n_users, len(data.items)), data.sums, label_names=data.items)
        if lists:
            require_likes(labels.positive_counts().any())
        else:
            labels.require_both_classes()
        with fit_run(self, callback, checkpoint, lambda: {"the ratings": digest_of(data.rounds)}) as run:
            if lists:
                self._fit_lists(template, data, labels, run)
            else:
                self._keep(template, data, self._choose(template, data, labels, run))
            self.item_ids_, self.n_users_, self.n_partitions_ = data.items, data.n_users, len(self._rounds)
            self.shuffled_, self.data_facts_ = data.shuffled, {"answers": labels.n_observed}
        if self.interrupted_:
            template.interrupted_ = True
        return self

    def _checked_template(self) -> Recommender:
        """The recommender for one machine, with loss and metric, once its parameters can be used here."""
        template: Recommender = self._for_one_machine()
        check_decision_parameters(template)
        check_choice("unobserved", self.unobserved, UNOBSERVED)
        if self.unobserved == "unlabelled":
            raise InvalidParameterError(
                "unobserved='unlabelled' is not offered on a cluster; Recommender has it, on one machine. "
                "Fit it to as many users as one machine holds; for lists by likes alone use "
                "unobserved='negative' here."
            )
        template._check_own_parameters()
        template._check_meaning(self.unobserved)
        lists = self.unobserved == "negative"
        template.loss_ = get_loss(("squared" if lists else "logistic") if self.loss == "auto" else self.loss)
        template.metric_ = get_metric(self.metric)
        if lists and template.loss_.name != "squared":
            raise InvalidParameterError(
                f"Lists on a cluster have the squared loss, which sums over all pairs in closed form; got "
                f"{template.loss_.name!r}. Leave loss out."
            )
        if lists:
            template._check_list_parameters()
        return template

    def _fit_lists(
        self, template: Recommender, data: ClusterRatings, labels: ClusterLabels, run: FitRun
    ) -> None:
        given = data.take_partitions()
        rounds = given.of(given.map(ListPart.of))
        del given
        fitted = fit_lists_on_cluster(rounds, labels.shape, labels.n_observed, template, run)
        self._facts: Facts = ListFacts(template, fitted, data.items)
        self._rounds = rounds
        template._keep_decisions(fitted.chosen)
        self._take_attributes(template)
        self.list_settings_: ListSettings | None = fitted.settings
        self.item_factors_, self.item_intercept_ = fitted.factors.items, fitted.chosen.fit.factors.intercept

    def _choose(
        self, template: Recommender, data: ClusterRatings, labels: ClusterLabels, run: Any
    ) -> ChosenFit:
        weightings = template._weightings()
        template._items = SideFeatures.read(None, self.item, "item", data.items)
        features = template._feature_settings(weightings[0])
        settings = ProblemSettings(template.loss_, features)
        problem = ItemProblem(data.take_partitions(), settings, data.n_users, len(data.items))
        everything: Any = labels

        def variant(chosen: Variant) -> tuple[Any, Any]:
            return problem.weighted(replace(features, count_weighting=chosen.count_weighting)), everything

        variants = Variants(Variant(weightings[0]), {"count_weighting": weightings[1:]}, variant)
        grid = grid_for(
            problem,
            everything,
            template._request("missing"),
            n_terms=labels.n_observed,
            mean=labels.mean,
            largest=lambda some, seen: some.largest_penalty(seen),  # type: ignore[attr-defined]
            intercept_strengths=INTERCEPT_STRENGTHS,
        )
        solver: Any = solve_items
        return cluster_choice(
            problem,
            labels,
            grid,
            template.metric_,
            SolverSettings(solver, self.rank, tolerance_of(template), self.max_iter),
            run,
            how=self.threshold,
            variants=variants if len(weightings) > 1 else None,
        ).fit()

    def _keep(self, template: Recommender, data: ClusterRatings, chosen: ChosenFit) -> None:
        problem: Any = chosen.problem
        factors = chosen.fit.factors
        term = problem.terms[None, chosen.penalties.intercept == 0]
        facts = DecisionFacts(
            template,
            replace(chosen, problem=None, labels=None),
            data.items,
            problem.settings.features,
            problem.features,
            int(data.sums.count.sum()),
            float(np.maximum(data.sums.count, 1).mean()),
            term,
            ItemPlace("final", factors.right, factors.intercept, chosen.penalties.trace),
        )
        self._facts, self._rounds = facts, problem.rounds
        template._keep_decisions(chosen)
        self._take_attributes(template)
        self.list_settings_ = None
        self.item_factors_, self.item_intercept_ = facts.item_factors(), factors.intercept

    @property
    def candidates_metric(self) -> str | None:
        """What the candidates of a search are judged by, where it is not the metric of decisions."""
        found: str | None = self._for_one_machine().candidates_metric
        return found

    @property
    def default_tol(self) -> float:
        """The relative duality gap that a ``tol`` of None stands for."""
        return float(self._for_one_machine().default_tol)

    # -- predictions ---------------------------------------------------------------------------------------

    def recommend_to_parquet(
        self, folder: str | os.PathLike[str], n: int = 10, exclude_seen: bool = True
    ) -> list[str]:
        """Write the n best items of every user to a folder, a Parquet file for each partition.

        The columns are those of :meth:`labelgap.Recommender.recommend_to_file`. Workers write the files, so
        the folder is one that all of them see. A file appears when it is complete. Returns their paths.
        """
        check_is_fitted(self)
        target = Path(folder).absolute()
        target.mkdir(parents=True, exist_ok=True)
        given = (self._rounds.keep(self._facts), str(target), int(n), bool(exclude_seen))
        paths: list[str | None] = self._rounds.each_of(write_best, *given)
        return [path for path in paths if path is not None]

    def to_local(self) -> Recommender:
        """A :class:`labelgap.Recommender` with all users and ratings, on this machine."""
        check_is_fitted(self)
        return self._facts.model(self._rounds.each_of(users_there, self._facts))

    def score(self, ratings: Any, y: Any = None) -> float:
        """The metric of the decisions about ratings of users and items that are known, in any form that
        :class:`labelgap.Recommender` takes; the model comes to this machine for it."""
        return float(self.to_local().score(ratings))
