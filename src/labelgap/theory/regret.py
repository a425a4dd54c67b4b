"""Regret against a known truth: how far decisions and scores are from the best possible ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from labelgap._arrays import plain_array
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidParameterError, InvalidScoresError
from labelgap.losses import Loss, get_loss
from labelgap.metrics import LinearFractional, get_metric
from labelgap.metrics.linear_fractional import Counts, balanced_counts
from labelgap.thresholds import ThresholdResult, sweep_entries

COMPARED = ("one-threshold", "any-decisions")


@dataclass(frozen=True)
class Regret:
    """How far decisions and scores are from the best possible ones, under the true probabilities.

    Parameters
    ----------
    metric_regret : float
        ``best_value − value``.
    value : float
        Ψ of the decisions, in expectation.
    best_value : float
        Ψ*.
    best_threshold : float
        The cut on the true probability that reaches Ψ*; NaN if that takes one for each row or label.
    loss_regret : float or None
        Mean excess of the scores' expected loss over the least possible; None if there are no scores.
    """

    metric_regret: float
    value: float
    best_value: float
    best_threshold: float
    loss_regret: float | None


def regret(
    decisions: Any,
    probabilities: ArrayLike,
    metric: str | LinearFractional = "micro-f1",
    *,
    scores: ArrayLike | None = None,
    loss: str | Loss = "logistic",
    weights: ArrayLike | None = None,
    against: str = "one-threshold",
) -> Regret:
    """Ψ-regret of decisions, and ℓ-regret of scores, where the probabilities of yes are known.

    With η the true probabilities, ``TP = Σ w η ŷ / Σ w`` and so on are the expected confusion counts (of each
    row or label for the other averages), and Ψ is taken of those. Ψ* is the largest Ψ of ``[η ≥ δ]`` over all
    δ, exactly. For micro metrics no decisions whatever are better, and δ can be taken at ``bayes_alpha(Ψ*)``.

    Parameters
    ----------
    decisions : array or sparse matrix of shape (n, L)
        0/1 or boolean.
    probabilities : array of shape (n, L)
        η, in [0, 1]; 0 and 1 where labels are certain.
    metric : str or LinearFractional, default "micro-f1"
    scores : array of shape (n, L) or None, default None
        Scores of the model, finite, in units of the loss's link.
    loss : str or Loss, default "logistic"
        Of the ℓ-regret ``E ℓ(z, y) − min_z' E ℓ(z', y)``, averaged over the entries.
    weights : array of shape (n, L) or None, default None
        π up to a factor: how much each entry counts; at least 0. None means all alike.
    against : "one-threshold" or "any-decisions", default "one-threshold"
        What Ψ* is the best of: one cut on η for all entries, or a cut for each row (instance) or label
        (macro), which no decisions exceed. For micro both are the same.

    Examples
    --------
    >>> from labelgap.theory import regret
    >>> result = regret([[1, 1, 0]], [[0.9, 0.2, 0.5]], "micro-f1", scores=[[2.0, 0.1, 0.0]])
    >>> round(result.value, 3), round(result.best_value, 3), round(result.best_threshold, 3)
    (0.611, 0.778, 0.35)
    >>> round(result.loss_regret, 4)
    0.0753
    """
    check_choice("against", against, COMPARED)
    eta = _probabilities(probabilities)
    psi = get_metric(metric)
    mass = _weights(weights, eta.shape)
    yes = _decisions(decisions, eta.shape)
    value = psi.from_counts(*_expected_counts(psi, eta, mass, yes))
    if against == "one-threshold" or psi.average == "micro":
        best = best_probability_threshold(eta, psi, weights=mass)
        best_value, threshold = best.value, best.threshold
    else:
        best_value, threshold = _best_of_each_group(psi, eta, mass), float("nan")
    loss_regret = (
        None if scores is None else _loss_regret(_scores(scores, eta.shape), eta, mass, get_loss(loss))
    )
    return Regret(best_value - value, value, best_value, threshold, loss_regret)


def model_regret(
    model: Any,
    X: Any,
    probabilities: ArrayLike,
    metric: str | LinearFractional | None = None,
    *,
    loss: str | Loss | None = None,
    weights: ArrayLike | None = None,
    against: str = "one-threshold",
) -> Regret:
    """:func:`regret` of a fitted model at the rows X: of ``predict(X)``, and of ``decision_function(X)``.

    Parameters
    ----------
    model : fitted estimator
        With ``predict``. There is an ℓ-regret only of scores that belong to a loss: where the model has a
        ``loss_``, as labelgap's low-rank ones do, or ``loss`` says which.
    X : array or sparse matrix of shape (n, d)
        Or whatever the model predicts for.
    probabilities : array of shape (n, L)
        The true probabilities of yes at these rows.
    metric : str, LinearFractional or None, default None
        None takes the model's own, ``model.metric``.
    loss : str, Loss or None, default None
        What ``model.decision_function`` is the score of. None takes the model's own, ``model.loss_``.
    weights, against
        As in :func:`regret`.

    Examples
    --------
    >>> from scipy.special import expit
    >>> from labelgap import LowRankClassifier
    >>> from labelgap.data import make_low_rank_labels
    >>> from labelgap.theory import model_regret
    >>> problem = make_low_rank_labels(n=300, n_labels=20, observed=0.5, noise=True, random_state=0)
    >>> model = LowRankClassifier(trace_penalty=0.005, ridge_penalty=0.0, random_state=0)
    >>> model = model.fit(problem.X, problem.Y_observed)
    >>> result = model_regret(model, problem.X_test, expit(problem.X_test @ problem.W))
    >>> 0 < result.metric_regret < 0.03
    True
    """
    chosen = getattr(model, "metric", None) if metric is None else metric
    if chosen is None:
        raise InvalidParameterError(f"{type(model).__name__} has no metric of its own; give metric=...")
    own_loss = getattr(model, "loss_", None) if loss is None else loss
    scores = None if own_loss is None else _as_columns(model.decision_function(X))
    return regret(
        _as_columns(model.predict(X)),
        probabilities,
        chosen,
        scores=scores,
        loss="logistic" if own_loss is None else own_loss,
        weights=weights,
        against=against,
    )


def _as_columns(predicted: Any) -> Any:
    """Answers about a single label as a column."""
    return predicted.reshape(-1, 1) if np.ndim(predicted) == 1 else predicted


def best_probability_threshold(
    probabilities: ArrayLike,
    metric: str | LinearFractional = "micro-f1",
    *,
    weights: ArrayLike | None = None,
) -> ThresholdResult:
    """The cut δ on the true probabilities with the largest expected metric, and that value, Ψ*.

    Exact: each entry is a yes of weight w η and a no of weight w (1 − η), and ``best_threshold``'s sweep does
    the rest. For micro metrics all cuts between the neighbouring probabilities are as good, and
    ``bayes_alpha(metric, Ψ*)`` is among them.

    Parameters
    ----------
    probabilities : array of shape (n, L)
        η, in [0, 1].
    metric : str or LinearFractional, default "micro-f1"
    weights : array of shape (n, L) or None, default None
        How much each entry counts.

    Examples
    --------
    >>> from labelgap.theory import best_probability_threshold
    >>> best = best_probability_threshold([[0.9, 0.2, 0.5]], "micro-f1")
    >>> round(best.threshold, 3), round(best.value, 3)
    (0.35, 0.778)
    """
    eta = _probabilities(probabilities)
    psi = get_metric(metric)
    mass = _weights(weights, eta.shape)
    groups, n_groups = _groups(psi, eta.shape)
    positive, negative = (mass * eta).ravel(), (mass * (1 - eta)).ravel()
    if psi.balanced:
        none = np.zeros(n_groups)
        up, down = (_sums(groups, part, n_groups) for part in (positive, negative))
        # What balancing does to a class does not depend on the decisions: take all of them to be no.
        scaled = balanced_counts(Counts(none, none, up, down))
        positive = positive * _ratio(np.asarray(scaled.fn), up)[groups]
        negative = negative * _ratio(np.asarray(scaled.tn), down)[groups]
    both = np.concatenate([positive, negative])
    kept = both > 0
    values = np.repeat(np.array([1, 0], np.int8), eta.size)
    return sweep_entries(
        np.tile(eta.ravel(), 2)[kept],
        values[kept],
        weights=both[kept],
        groups=np.tile(groups, 2)[kept],
        n_groups=n_groups,
        vertex_numerator=psi.vertex_numerator,
        vertex_denominator=psi.vertex_denominator,
        zero_division=psi.zero_division,
    )


def _best_of_each_group(psi: LinearFractional, eta: Floats, mass: Floats) -> float:
    """The mean over rows, or labels, of what each reaches with a cut of its own."""
    by_row = psi.average == "instance"
    values = [
        best_probability_threshold(
            np.atleast_2d(probabilities), _micro(psi), weights=np.atleast_2d(part)
        ).value
        for probabilities, part in zip(eta if by_row else eta.T, mass if by_row else mass.T, strict=True)
        if part.sum() > 0
    ]
    return float(np.mean(values))


def _micro(psi: LinearFractional) -> LinearFractional:
    return LinearFractional(
        psi.numerator, psi.denominator, zero_division=psi.zero_division, balanced=psi.balanced
    )


def _groups(psi: LinearFractional, shape: tuple[int, ...]) -> tuple[NDArray[np.int64], int]:
    n, n_labels = shape
    if psi.average == "instance":
        return np.repeat(np.arange(n), n_labels), n
    if psi.average == "macro":
        return np.tile(np.arange(n_labels), n), n_labels
    return np.zeros(n * n_labels, np.int64), 1


def _expected_counts(
    psi: LinearFractional, eta: Floats, mass: Floats, yes: NDArray[np.bool_]
) -> list[Floats]:
    groups, n_groups = _groups(psi, eta.shape)
    parts = (eta * yes, (1 - eta) * yes, eta * ~yes, (1 - eta) * ~yes)
    return [_sums(groups, (mass * part).ravel(), n_groups) for part in parts]


def _sums(groups: NDArray[np.int64], values: Floats, n_groups: int) -> Floats:
    return np.asarray(np.bincount(groups, weights=values, minlength=n_groups), dtype=np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.ones_like(below), where=below > 0)


def _loss_regret(scores: Floats, eta: Floats, mass: Floats, loss: Loss) -> float:
    own = _expected_loss(loss, scores, eta)
    best_score = loss.link(eta)
    reached = np.isfinite(best_score)
    # At η of 0 or 1 the best score may be infinite; the infimum of ℓ(·, y) is −ℓ*(0, y).
    least = np.where(
        reached,
        _expected_loss(loss, np.where(reached, best_score, 0.0), eta),
        -loss.conjugate(np.zeros_like(eta), eta > 0.5),
    )
    # Near the best score rounding alone could make it negative.
    return float(np.average(np.maximum(own - least, 0), weights=mass))


def _expected_loss(loss: Loss, scores: Any, eta: Floats) -> Floats:
    return np.asarray(eta * loss.value(scores, 1) + (1 - eta) * loss.value(scores, 0), np.float64)


def _probabilities(given: ArrayLike) -> Floats:
    eta = np.asarray(plain_array(given, "The probabilities"), dtype=np.float64)
    if eta.ndim != 2 or eta.size == 0:
        raise InvalidInputError(
            f"probabilities must be an n x L array with at least one entry, not {eta.shape}."
        )
    outside = ~((eta >= 0) & (eta <= 1))
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        raise InvalidInputError(
            f"The probability at row {row}, column {column} is {eta[row, column]}; it must be in [0, 1]."
        )
    return eta


def _weights(given: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    if given is None:
        return np.ones(shape)
    mass: Floats = _of_shape(
        "weights", np.asarray(plain_array(given, "The weights"), dtype=np.float64), shape
    )
    if not (np.all(np.isfinite(mass) & (mass >= 0)) and mass.sum() > 0):
        raise InvalidInputError("weights must be finite and at least 0, and not all 0.")
    return mass


def _decisions(given: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    array = _of_shape(
        "decisions",
        plain_array(given, "The decisions").toarray() if sp.issparse(given) else np.asarray(given),
        shape,
    )
    if not np.isin(array, (0, 1)).all():
        raise InvalidInputError("decisions must be 0 or 1; scores become decisions by a threshold.")
    return np.asarray(array, dtype=bool)


def _scores(given: ArrayLike, shape: tuple[int, ...]) -> Floats:
    scores: Floats = _of_shape(
        "scores", np.asarray(plain_array(given, "The scores"), dtype=np.float64), shape
    )
    if not np.isfinite(scores).all():
        raise InvalidScoresError("The scores hold NaN or infinity; the expected loss needs finite ones.")
    return scores


def _of_shape(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    if array.shape != shape:
        raise InvalidInputError(f"{name} have the shape {array.shape}, but probabilities are {shape}.")
    return array
