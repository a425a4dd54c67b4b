"""Fold-in against a general minimiser, and what must hold of any minimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from labelgap import ObservedLabels
from labelgap.exceptions import ConvergenceWarning, InvalidInputError
from labelgap.losses import Exponential, Logistic, Squared, SquaredHinge, Unlabelled
from labelgap.recommending import fold_in as fold_in_module
from labelgap.recommending.fold_in import fold_in, fold_in_columns

LOSSES = [Logistic(), Squared(), SquaredHinge(), Exponential(), Unlabelled(Logistic(), 0.3)]
WEIGHT = 1 / 400


def random_labels(n: int, n_items: int, observed: float, seed: int = 0, weighted: bool = False) -> Any:
    rng = np.random.RandomState(seed)
    Y = np.where(rng.uniform(size=(n, n_items)) < observed, rng.uniform(size=(n, n_items)) < 0.4, np.nan)
    weights = rng.uniform(0.5, 2.0, size=(n, n_items)) if weighted else None
    return ObservedLabels.from_dense(Y, weights=weights)


def random_penalty(k: int, seed: int = 0) -> Any:
    root = np.random.RandomState(seed).standard_normal((k, k))
    return WEIGHT * (0.3 * np.eye(k) + root @ root.T / k)


def user_objective(a: Any, row: int, V: Any, b: Any, labels: Any, M: Any, loss: Any, prior: Any) -> float:
    total = 0.5 * a @ M @ a
    for e in range(labels.indptr[row], labels.indptr[row + 1]):
        j = labels.indices[e]
        omega = 1.0 if labels.weights is None else labels.weights[e]
        total += WEIGHT * omega * float(loss.value((prior + a) @ V[j] + b[j], labels.values[e]))
    return float(total)


def oracle(f: Any, start: Any) -> Any:
    """Minimised in units of its own: the objectives here are tiny."""
    return minimize(lambda x: f(x) / WEIGHT, start, method="BFGS", options={"gtol": 1e-7}).x


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_users_against_a_general_minimiser(loss: Any, weighted: bool) -> None:
    rng = np.random.RandomState(1)
    V, b, k = rng.standard_normal((12, 3)), rng.standard_normal(12), 3
    labels, M = random_labels(5, 12, 0.6, weighted=weighted), random_penalty(k)
    prior = rng.standard_normal((5, k)) * 0.5
    factors = fold_in(V, b, labels, M, entry_loss=loss, rating_weight=WEIGHT, prior=prior)
    for row in range(5):
        args = (row, V, b, labels, M, loss, prior[row])
        best = oracle(lambda a, args=args: user_objective(a, *args), np.zeros(k))
        np.testing.assert_allclose(factors[row] - prior[row], best, atol=2e-5)
        here = user_objective(factors[row] - prior[row], *args)
        assert here <= user_objective(best, *args) * (1 + 1e-12) + 1e-18


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_items_against_a_general_minimiser(loss: Any) -> None:
    rng = np.random.RandomState(2)
    U, k = rng.standard_normal((15, 3)), 3
    labels, M = random_labels(15, 4, 0.7, seed=3, weighted=True), random_penalty(k)
    prior = rng.standard_normal((4, k)) * 0.3
    factors, intercept = fold_in_columns(U, labels, M, entry_loss=loss, rating_weight=WEIGHT, prior=prior)
    Y, weights = labels.to_dense(), np.full(labels.shape, np.nan)
    weights[labels.rows, labels.cols] = labels.weights
    for j in range(4):
        seen = ~np.isnan(Y[:, j])

        def objective(x: Any, j: int = j, seen: Any = seen) -> float:
            v = x[:k]
            z = U[seen] @ (prior[j] + v) + x[k]
            return float(WEIGHT * np.sum(weights[seen, j] * loss.value(z, Y[seen, j])) + 0.5 * v @ M @ v)

        best = oracle(objective, np.zeros(k + 1))
        found = np.array([*(factors[j] - prior[j]), intercept[j]])
        np.testing.assert_allclose(found, best, atol=5e-5)
        assert objective(found) <= objective(best) * (1 + 1e-12) + 1e-18


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.sampled_from(LOSSES), st.floats(-3, 3))
def test_stationary_whatever_the_scale(seed: int, k: int, loss: Any, log_penalty: float) -> None:
    rng = np.random.RandomState(seed)
    V, b = rng.standard_normal((9, k)) * 10 ** rng.uniform(-1, 1), rng.standard_normal(9)
    labels = random_labels(6, 9, rng.uniform(), seed=seed)
    M = random_penalty(k, seed) * 10**log_penalty
    U = fold_in(V, b, labels, M, entry_loss=loss, rating_weight=WEIGHT)
    for row in range(6):
        here = slice(labels.indptr[row], labels.indptr[row + 1])
        v = V[labels.indices[here]]
        slopes = loss.gradient(v @ U[row] + b[labels.indices[here]], labels.values[here])
        terms = WEIGHT * slopes[:, None] * v
        size = np.linalg.norm(terms, axis=1).sum() + np.linalg.norm(M @ U[row])
        assert np.linalg.norm(terms.sum(axis=0) + M @ U[row]) <= 1e-9 * size


def test_without_ratings_the_prior_stays() -> None:
    V, prior = np.ones((3, 2)), np.array([[1.0, 2.0], [3.0, 4.0]])
    nothing = ObservedLabels.from_dense(np.full((2, 3), np.nan))
    found = fold_in(V, np.zeros(3), nothing, np.eye(2), entry_loss=Logistic(), rating_weight=1.0, prior=prior)
    np.testing.assert_array_equal(found, prior)


def test_more_ratings_of_one_kind_move_the_score_that_way() -> None:
    V, b = np.tile([[1.0, 0.5]], (6, 1)), np.zeros(6)
    rows = [[1] * count + [None] * (6 - count) for count in range(7)]
    likes = ObservedLabels.from_dense(np.array(rows, dtype=object))
    dislikes = ObservedLabels.from_dense(np.array([[None if y is None else 0 for y in r] for r in rows]))
    settings_: dict[str, Any] = {"entry_loss": Logistic(), "rating_weight": 1.0}
    up = fold_in(V, b, likes, np.eye(2), **settings_) @ V[0]
    down = fold_in(V, b, dislikes, np.eye(2), **settings_) @ V[0]
    assert (np.diff(up) > 0).all()
    np.testing.assert_allclose(up, -down, atol=1e-12)


def test_a_rating_of_weight_two_counts_as_two() -> None:
    V = np.random.RandomState(0).standard_normal((4, 2))
    twin, b = np.vstack([V, V[:1]]), np.zeros(5)
    settings_: dict[str, Any] = {"entry_loss": Logistic(), "rating_weight": 0.1}
    twice = ObservedLabels.from_dense([[1, 0, 1, 0, 1]])
    heavy = ObservedLabels.from_dense([[1, 0, 1, 0]], weights=[[2.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(
        fold_in(twin, b, twice, np.eye(2), **settings_),
        fold_in(V, b[:4], heavy, np.eye(2), **settings_),
        rtol=1e-9,
    )


def test_how_rows_share_batches_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.RandomState(4)
    V, b, labels = rng.standard_normal((30, 4)), rng.standard_normal(30), random_labels(25, 30, 0.3, seed=5)
    settings_: dict[str, Any] = {"entry_loss": Logistic(), "rating_weight": WEIGHT}
    together = fold_in(V, b, labels, random_penalty(4), **settings_)
    monkeypatch.setattr(fold_in_module, "_BATCH", 1)
    np.testing.assert_allclose(fold_in(V, b, labels, random_penalty(4), **settings_), together, rtol=1e-9)
    alone = [fold_in(V, b, labels.take_rows([i]), random_penalty(4), **settings_)[0] for i in range(25)]
    np.testing.assert_allclose(alone, together, rtol=1e-9)


def test_a_rate_for_each_item_where_rows_are_complete() -> None:
    rng = np.random.RandomState(6)
    V, b, rates = rng.standard_normal((8, 2)), rng.standard_normal(8), rng.uniform(0, 0.6, 8)
    labels = ObservedLabels.from_dense((rng.uniform(size=(3, 8)) < 0.4).astype(float))
    loss = Unlabelled(Logistic(), rates)
    U = fold_in(V, b, labels, random_penalty(2), entry_loss=loss, rating_weight=WEIGHT)
    slopes = loss.gradient(U @ V.T + b, labels.to_dense())
    np.testing.assert_allclose(WEIGHT * slopes @ V, -U @ random_penalty(2), atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_items_with_ratings_of_one_kind_get_an_intercept_only(loss: Any) -> None:
    nan = float("nan")
    labels = ObservedLabels.from_dense([[1, 0, nan, 1], [1, 0, nan, 0], [1, nan, nan, 1]])
    U, prior = np.random.RandomState(0).standard_normal((3, 2)), np.full((4, 2), 0.25)
    factors, intercept = fold_in_columns(
        U, labels, np.eye(2), entry_loss=loss, rating_weight=1.0, prior=prior
    )
    np.testing.assert_array_equal(factors[:3], prior[:3])
    np.testing.assert_allclose(intercept[:3], loss.link(np.array([3.5 / 4, 0.5 / 3, 0.5])))
    assert not np.array_equal(factors[3], prior[3])


def test_a_flat_loss_does_not_stop_the_intercept() -> None:
    labels = ObservedLabels.from_dense([[1], [0]])
    U = np.array([[50.0], [-50.0]])
    factors, intercept = fold_in_columns(
        U, labels, np.eye(1) * 1e-9, entry_loss=SquaredHinge(), rating_weight=1.0
    )
    assert np.isfinite(factors).all()
    assert np.abs(intercept[0]) < 1


def test_nothing_to_fit() -> None:
    labels = random_labels(4, 3, 0.5)
    settings_: dict[str, Any] = {"entry_loss": Logistic(), "rating_weight": 1.0}
    assert fold_in(np.zeros((3, 0)), np.zeros(3), labels, np.zeros((0, 0)), **settings_).shape == (4, 0)
    factors, intercept = fold_in_columns(np.zeros((4, 0)), labels, np.zeros((0, 0)), **settings_)
    assert factors.shape == (3, 0)
    assert np.isfinite(intercept).all()
    empty = ObservedLabels.from_dense(np.zeros((0, 3)))
    assert fold_in(np.ones((3, 2)), np.zeros(3), empty, np.eye(2), **settings_).shape == (0, 2)


def test_too_few_steps_are_reported() -> None:
    labels = random_labels(4, 9, 0.9)
    V = np.random.RandomState(0).standard_normal((9, 2))
    with pytest.warns(ConvergenceWarning, match="of 4 fold-ins stopped after 1 Newton steps"):
        fold_in(
            V, np.zeros(9), labels, np.eye(2) * 1e-3, entry_loss=Logistic(), rating_weight=1.0, max_iter=1
        )


def test_shapes_must_match() -> None:
    labels = random_labels(4, 3, 0.9)
    settings_: dict[str, Any] = {"entry_loss": Logistic(), "rating_weight": 1.0}
    with pytest.raises(InvalidInputError, match="3 columns for 5 items"):
        fold_in(np.ones((5, 2)), np.zeros(5), labels, np.eye(2), **settings_)
    with pytest.raises(InvalidInputError, match="4 rows for 5 users"):
        fold_in_columns(np.ones((5, 2)), labels, np.eye(2), **settings_)
    with pytest.raises(InvalidInputError, match=r"prior has shape \(1, 2\); \(4, 2\)"):
        fold_in(np.ones((3, 2)), np.zeros(3), labels, np.eye(2), prior=np.zeros((1, 2)), **settings_)
