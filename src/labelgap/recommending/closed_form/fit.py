"""The fit of lists: the choice of settings, the last decomposition, and the threshold of decisions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap import kernels
from labelgap._memory import give_back_freed, require_free
from labelgap._types import Floats
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.run import FitRun
from labelgap.fitting.sampled import sample_of_users
from labelgap.labels import ObservedLabels
from labelgap.labels.unobserved import draw_unobserved
from labelgap.metrics import LinearFractional
from labelgap.objective.protocol import Factors
from labelgap.recommending.closed_form.choice import (
    NEVER,
    Choice,
    ListChoice,
    own_parts,
    ranking_plan,
    right_vectors,
)
from labelgap.recommending.closed_form.matrix import ScaledLikes, count_scale
from labelgap.recommending.closed_form.settings import ListSettings, Ratings, entries_of, mean_value
from labelgap.recommending.top_items import UserItemFactors, score_pairs
from labelgap.solvers import Fit, Penalties
from labelgap.solvers.linalg import Array, host, like
from labelgap.solvers.loop import Progress
from labelgap.solvers.soft_threshold import SoftThreshold, certified, first_vectors, soft_threshold
from labelgap.solvers.spectral import Spectrum
from labelgap.thresholds.cross_fit import HeldOutScores
from labelgap.thresholds.sweep import best_threshold

ENOUGH_RATINGS = 1_000_000
"""Ratings that choose the settings; users who have more than twice as many together are sampled."""
# The dimension of the first Krylov space, where nothing says how many singular values are wanted.
_COLUMNS = 256
# Penalties that features are compared at; the column of one feature has the norm 1.
_RIDGES = tuple(10.0**power for power in np.arange(-3.0, 2.5, 0.5))
# Arrays of the size of all factors that are there at one time while these are made.
_WORKINGS = 3
# Pairs without a rating that the threshold is chosen on, at most.
_MOST_SILENT = 200_000


class ListRequest(NamedTuple):
    """What was asked for."""

    settings: ListSettings
    """Those that were given, and where to begin."""
    axes: dict[str, tuple[Any, ...]]
    """Values of settings that are to be chosen."""
    trace_penalty: float | None
    """λ; None where it is chosen, too."""
    rank: int
    tol: float
    how: str
    """Where the threshold comes from."""


class ListFactors(NamedTuple):
    """What lists are made by; with -1 as the intercept of every item, which is the score of no like."""

    users: Floats
    items: Floats
    item_weights: Floats
    """A like of value x of the item j adds ``2 x w_j (1 − λ/σ) v_j`` to the user's factors, where v_j are
    those of the item."""
    user_features: Floats
    """What features make the factors of users without ratings."""
    item_features: Floats
    """The same for items."""


@dataclass(frozen=True)
class ListFit:
    """A fit for lists."""

    settings: ListSettings
    mean_value: float
    factors: ListFactors
    chosen: ChosenFit


def factors_of(R: Any, found: SoftThreshold, settings: ListSettings) -> ListFactors:
    """Factors whose products estimate the entries of X: 1 for a like and −1 for none, less the intercept."""
    V, kept = found.right, like(found.kept, found.right)
    other = np.ones(len(R.item_scale))
    if settings.leave_one_out:
        other = np.asarray(host(1.0 - own_parts(V, kept)), dtype=np.float64)
    of_users = np.asarray(host(found.image * (2.0 * kept)), dtype=np.float64)
    of_users /= R.user_scale[:, None]
    of_items = host(V) / (R.item_scale * other)[:, None]
    nothing = np.zeros((0, V.shape[1]))
    return ListFactors(
        np.ascontiguousarray(of_users),
        np.ascontiguousarray(of_items, dtype=np.float64),
        R.item_scale**2 * other,
        nothing,
        nothing,
    )


def with_features(result: ListFit, ratings: Ratings, item_scale: Floats) -> ListFit:
    """The fit with factors of users and items without ratings that count, by their features."""
    factors, fit, labels = result.factors, result.chosen.fit, ratings.labels
    counted = entries_of(ratings, result.settings, result.mean_value) != 0
    users, items = ratings.user_features, ratings.item_features
    if users is not None:
        rated = np.bincount(labels.rows[counted], minlength=labels.shape[0]) > 0
        of_features = by_features(users, factors.users, rated, np.ones(fit.rank))
        factors.users[~rated] = users[~rated] @ of_features
        factors = factors._replace(user_features=of_features)
    if items is not None:
        rated = np.bincount(labels.indices[counted], minlength=labels.shape[1]) > 0
        right = factors.items * (factors.item_weights / item_scale)[:, None]
        of_features = by_features(items, right, rated, fit.singular_values)
        factors.items[~rated] = items[~rated] @ of_features
        factors = factors._replace(item_features=of_features)
    return replace(result, factors=factors)


def by_features(features: Any, vectors: Floats, known: NDArray[np.bool_], importance: Floats) -> Floats:
    """Linear functions of the features that come near the vectors that are known, by a ridge regression.

    Its penalty is chosen by leaving out one vector at a time; ``importance`` says how much a column counts.
    """
    # It takes long to import, and few have features.
    from sklearn.linear_model import RidgeCV

    if not vectors.shape[1] or not known.any():
        return np.zeros((features.shape[1], vectors.shape[1]))
    ridge = RidgeCV(_RIDGES, fit_intercept=False)
    ridge.fit(features[known].toarray(), vectors[known] * importance)
    return np.asarray(np.reshape(ridge.coef_, (-1, features.shape[1])).T / importance)


def fit_lists(
    ratings: Ratings,
    request: ListRequest,
    metric: LinearFractional,
    run: FitRun,
    *,
    place: Any = ScaledLikes,
    start: Any = None,
    keeps: Choice | None = None,
) -> ListFit:
    """Choose what is to be chosen, and decompose all ratings once.

    ``place`` makes R on the machine that does the work, ``start`` gives right vectors to begin with for an R,
    and ``keeps`` are settings that are not chosen again.
    """
    rng = check_random_state(run.random_state)
    choice, plan = (keeps, None) if keeps is not None else chosen_of(ratings, request, run, rng, place)
    run.stage("fitting all ratings")
    mean = mean_value(ratings.labels)
    R = place(ratings, choice.settings, mean)
    begin = None if start is None else start(R)

    def certify(R: Any, vectors: Array, penalty: float, tol: float) -> SoftThreshold:
        # The vectors of the shorter side are there: next come factors of all users and items.
        state_memory(R.shape, vectors.shape[1], run)
        return certified(R, vectors, penalty, tol)

    result = decomposed(R, mean, choice, request, run, start=begin, certify=certify)
    result = with_features(result, ratings, R.item_scale)
    if run.keeps_threshold:
        return result
    return with_threshold(result, ratings, request, metric, run, rng, choice, plan, place)


def state_memory(shape: tuple[int, int], rank: int, run: FitRun) -> None:
    """Say what the factors will take, before they do; raise where so much is not free."""
    size, what = 8 * sum(shape) * rank, f"{rank:,} factors of {shape[0]:,} users and {shape[1]:,} items"
    run.say(f"{what}: {size / 1e9:.2g} GB, and {_WORKINGS} times as much while they are made")
    require_free(
        _WORKINGS * size,
        f"Making {what}",
        "Limit their number with rank=, or raise trace_penalty if it is given.",
    )


def chosen_of(
    ratings: Ratings, request: ListRequest, run: FitRun, rng: np.random.RandomState, place: Any
) -> tuple[Choice, NDArray[np.int8] | None]:
    """What is chosen, and the fold that each rating is held out in; None where none is."""
    chooses = bool(request.axes) or request.trace_penalty is None
    if not chooses and request.how == "train":
        return Choice(request.settings, 0.0), None
    plan = ranking_plan(ratings.labels, request.how, rng)
    if not chooses:
        return Choice(request.settings, 0.0), plan
    run.stage("choosing what lists are made by")
    return _chosen(ratings, request, run, plan, rng, place), plan


def with_threshold(
    result: ListFit,
    ratings: Ratings,
    request: ListRequest,
    metric: LinearFractional,
    run: FitRun,
    rng: np.random.RandomState,
    choice: Choice,
    plan: NDArray[np.int8] | None,
    place: Any,
) -> ListFit:
    """The fit with its threshold, and the metric of that where ratings are held out."""
    run.stage("choosing the threshold")
    there_is_time = choice.trial is None and not run.checkpoint.stopping()
    if there_is_time and plan is not None and (plan != NEVER).any():
        # The given λ, in units of the largest singular value; with twice that nothing is left.
        found, penalty = result.chosen.fit, result.chosen.penalties.trace
        fraction = penalty / (penalty + found.singular_values[0]) if found.rank else 2.0
        known = replace(choice, fraction=fraction, columns=found.n_iter)
        choice = ListChoice(ratings, choice.settings, {}, request.rank, run, place).again(plan, known)
    threshold, value = _threshold(result, ratings, metric, choice, request.how, rng, run.held_out)
    return replace(result, chosen=replace(result.chosen, threshold=threshold, held_out_metric=value))


def decomposed(
    R: Any,
    mean: float,
    choice: Choice,
    request: ListRequest,
    run: FitRun,
    *,
    start: Any = None,
    certify: Any = certified,
) -> ListFit:
    """The fit with these settings to all of R, still without a threshold; ``start`` are right vectors."""
    given = None if start is None else like(start, R.example)
    if given is not None and R.shape[0] < R.shape[1]:
        given = R.times(given)
    spectrum = Spectrum(R.normal, first_vectors(min(R.shape), R.example, given))
    spectrum.grow(_COLUMNS)
    penalty = request.trace_penalty
    if penalty is None:
        penalty = choice.fraction * float(spectrum.values[0])
    found = soft_threshold(R, spectrum, penalty, rank=request.rank, tol=request.tol, certify=certify)
    factors = factors_of(R, found, choice.settings)
    seconds = time.perf_counter() - run.began
    progress = Progress(spectrum.columns, found.objective, found.relative_gap, len(found.values), seconds)
    if (tell := run.reporter()) is not None:
        tell(progress)
    fit = Fit(
        Factors(factors.users, factors.items, np.full(len(factors.items), -1.0)),
        np.asarray(host(found.values - penalty), dtype=np.float64),
        found.objective,
        found.gap,
        found.relative_gap,
        spectrum.columns,
        found.relative_gap <= request.tol,
        len(found.values) >= request.rank,
        (progress,),
    )
    chosen = ChosenFit(fit, Penalties(penalty), float("nan"), choice.candidates, None, None)
    return ListFit(choice.settings, mean, factors, chosen)


def _chosen(
    ratings: Ratings,
    request: ListRequest,
    run: FitRun,
    plan: NDArray[np.int8],
    rng: np.random.RandomState,
    place: Any,
) -> Choice:
    """The settings, and λ as a fraction of the largest singular value, by what the plan holds out."""
    few, checkpoint = sample_of_users(ratings.labels, ENOUGH_RATINGS, rng), run.checkpoint.part("lists")
    near, before = None, checkpoint.last()
    everything = ListChoice(ratings, request.settings, request.axes, request.rank, run, place)
    if few is not None:
        # A sample of the users chooses the settings, and all of them λ, which depends on how many they are.
        sampled = ratings.of_users(few)
        part = ranking_plan(sampled.labels, request.how, rng)
        if before is None:
            near = ListChoice(sampled, request.settings, request.axes, request.rank, run, place).choose(part)
            # Its decompositions are of no further use.
            near = replace(near, trial=None)
        give_back_freed()
    if before is not None:
        return everything.again(plan, Choice.of(before))
    found = everything.choose(plan, near)
    if near is not None and found.trial is not None:
        found = replace(found, candidates=(*near.candidates, *found.candidates))
    if found.trial is not None and not checkpoint.stopping():
        checkpoint.snapshot(found.state(), at_once=True)
    return found


# -- the threshold of decisions ----------------------------------------------------------------------------


def _threshold(
    fitted: ListFit,
    ratings: Ratings,
    metric: LinearFractional,
    choice: Choice,
    how: str,
    rng: np.random.RandomState,
    held_out: HeldOutScores | None,
) -> tuple[float, float | None]:
    """The best threshold for held-out ratings and for a sample of the pairs without one, and its metric.

    Without folds all ratings are scored, and there is no held-out metric.
    """
    silent = _silent_pairs(ratings.labels, rng)
    parts: list[tuple[Floats, ObservedLabels]] = []
    trial = choice.trial
    if how == "train" or trial is None:
        factors = UserItemFactors(*fitted.chosen.fit.factors)
        parts.append((_scores(factors, ratings.labels), ratings.labels))
        without = _scores(factors, silent)
    else:
        for fold in trial.folds:
            factors = _factors_of_fold(fold, choice.fraction, trial.cap, choice.settings)
            parts.append((_scores(factors, fold.held_out), fold.held_out))
            if fold.number == 0:
                without = _scores(factors, silent)
        if held_out is not None:
            held_out.see(*trial.ranks_alone(trial.enough))
    n_held = sum(labels.n_observed for _, labels in parts)
    # A held-out rating stands for as many as were not held out.
    weights = np.ones(silent.n_observed) if silent.weights is None else silent.weights
    entries = [(labels.rows, labels.cols, labels.values, np.ones(labels.n_observed)) for _, labels in parts]
    entries.append((silent.rows, silent.cols, silent.values, weights * n_held / ratings.labels.n_observed))
    rows, columns, values, weight = (np.concatenate(part) for part in zip(*entries, strict=True))
    scores = np.concatenate([*(scores for scores, _ in parts), without])
    order = np.lexsort((columns, rows))
    judged = ObservedLabels.from_triplets(
        rows[order], columns[order], values[order], shape=ratings.labels.shape
    ).with_weights(weight[order])
    best_one = best_threshold(scores[order], judged, metric)
    return best_one.threshold, None if trial is None or how == "train" else best_one.value


def _factors_of_fold(fold: Any, fraction: float, cap: int, settings: ListSettings) -> UserItemFactors:
    penalty = fraction * float(fold.spectrum.values[0])
    count = min(fold.spectrum.count_above(penalty), cap)
    values, V = right_vectors(fold.R, fold.spectrum, count)
    found = SoftThreshold(fold.R.times(V), values, V, penalty, 0.0, 0.0)
    factors = factors_of(fold.R, found, settings)
    return UserItemFactors(factors.users, factors.items, np.full(len(factors.items), -1.0))


def _scores(factors: UserItemFactors, labels: ObservedLabels) -> Floats:
    return score_pairs(factors, labels.rows, labels.indices)


def _silent_pairs(labels: ObservedLabels, rng: np.random.RandomState) -> ObservedLabels:
    """Pairs without a rating, all of them or a random sample, each weighted with how many it stands for."""
    drawn, weight = draw_unobserved(labels, _MOST_SILENT, rng)
    rows, columns = np.divmod(drawn, labels.shape[1])
    found = ObservedLabels.from_triplets(
        rows, columns, np.zeros(len(drawn), dtype=np.int8), shape=labels.shape
    )
    return found.with_weights(np.full(len(drawn), weight)) if len(drawn) else found


# -- users and items beside those of the fit ---------------------------------------------------------------


def factors_of_users(
    ratings: Ratings, settings: ListSettings, mean: float, kept: Floats, factors: ListFactors
) -> Floats:
    """The factors of users with these ratings of known items, or without any with these features."""
    labels, entries = ratings.labels, entries_of(ratings, settings, mean)
    counts = np.bincount(labels.rows, np.abs(entries), labels.shape[0]).astype(np.float64)
    weighted = (2.0 * factors.item_weights)[:, None] * factors.items * kept
    found = _product(labels, entries, weighted)
    if ratings.user_features is not None and len(factors.user_features):
        found[counts == 0] = ratings.user_features[counts == 0] @ factors.user_features
    return found


def factors_of_items(
    ratings: Ratings,
    user_counts: Floats,
    settings: ListSettings,
    mean: float,
    values: Floats,
    penalty: float,
    factors: ListFactors,
) -> tuple[Floats, Floats]:
    """Factors and weights of new items, the columns of these ratings by known users: their right vectors.

    ``user_counts`` are those of all ratings of the users, ``values`` the singular values of R.
    """
    labels, entries = ratings.labels, entries_of(ratings, settings, mean)
    kept = 1.0 - penalty / values
    counts = np.bincount(labels.indices, np.abs(entries), labels.shape[1]).astype(np.float64)
    item_scale = count_scale(counts, settings.item_power)
    squared = count_scale(user_counts, settings.user_power) ** 2
    by_column = ObservedLabels.from_triplets(
        labels.indices, labels.rows, np.ones(labels.n_observed), shape=labels.shape[::-1]
    )
    order = np.lexsort((labels.rows, labels.indices))
    right = _product(by_column, entries[order], squared[:, None] * factors.users / (2.0 * kept * values**2))
    right *= item_scale[:, None]
    if ratings.item_features is not None and len(factors.item_features):
        right[counts == 0] = ratings.item_features[counts == 0] @ factors.item_features
    other = np.ones(labels.shape[1])
    if settings.leave_one_out:
        own = np.minimum(own_parts(right, kept), 1.0 - penalty / values.max(initial=penalty))
        # Without a like nothing is its own.
        other = np.where(counts > 0, 1.0 - own, 1.0)
    return right / (item_scale * other)[:, None], item_scale**2 * other


def _product(labels: ObservedLabels, entries: Floats, M: Array) -> Floats:
    return np.asarray(
        kernels.entries.csr_product(labels.indptr, labels.indices, entries, np.ascontiguousarray(M))
    )
