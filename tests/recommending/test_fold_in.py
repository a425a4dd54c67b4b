"""Fold-in against a general minimiser; what new users are drawn to, and new items that they rate."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from small_models import with_factors

from labelgap import ObservedLabels, Recommender
from labelgap.exceptions import ConvergenceWarning, InvalidInputError, UnknownNameError
from labelgap.losses import Exponential, Logistic, Squared, SquaredHinge, Unlabelled
from labelgap.recommending.fold_in import fold_in, fold_in_columns
from recommender_suite import example_answers

LOSSES = [Logistic(), Squared(), SquaredHinge(), Exponential(), Unlabelled(Logistic(), 0.3)]
WEIGHT = 1 / 400
PLAIN: dict[str, Any] = {"entry_loss": Logistic(), "rating_weight": 1.0}


def random_labels(n: int, n_items: int, observed: float, seed: int = 0, weighted: bool = False) -> Any:
    rng = np.random.RandomState(seed)
    Y = np.where(rng.uniform(size=(n, n_items)) < observed, rng.uniform(size=(n, n_items)) < 0.4, np.nan)
    weights = rng.uniform(0.5, 2.0, size=(n, n_items)) if weighted else None
    return ObservedLabels.from_dense(Y, weights=weights)


def random_penalty(k: int, seed: int = 0) -> Any:
    root = np.random.RandomState(seed).standard_normal((k, k))
    return WEIGHT * (0.3 * np.eye(k) + root @ root.T / k)


def is_least(found: Any, design: Any, offset: Any, labels: Any, mine: Any, penalty: Any, loss: Any) -> None:
    """``w sum omega l(design x + offset) + 1/2 x' P x`` is least, over the entries that are ``mine``."""
    y = labels.values[mine]
    omega = np.ones(len(y)) if labels.weights is None else labels.weights[mine]

    def objective(x: Any) -> float:
        losses = loss.value(design @ x + offset, y)
        # In units of its own: the objectives here are tiny.
        return float(np.sum(omega * losses) + 0.5 * x @ penalty @ x / WEIGHT)

    best = minimize(objective, np.zeros_like(found), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found, best.x, atol=5e-5, err_msg=repr(loss))
    assert objective(found) <= objective(best.x) + 1e-12 * (1 + abs(objective(best.x)))


def test_users_and_items_against_a_general_minimiser() -> None:
    rng, k = np.random.RandomState(1), 3
    V, b, M = rng.standard_normal((12, k)), rng.standard_normal(12), random_penalty(k)
    U, sizes = rng.standard_normal((15, k)), rng.uniform(0.5, 2.0, 5)
    prior, item_prior = 0.5 * rng.standard_normal((5, k)), 0.3 * rng.standard_normal((4, k))
    free = np.zeros((k + 1, k + 1))  # The intercept of an item costs nothing.
    free[:k, :k] = M
    for loss in LOSSES:
        settings_: dict[str, Any] = {"entry_loss": loss, "rating_weight": WEIGHT}
        for weighted in (False, True):
            labels = random_labels(5, 12, 0.6, weighted=weighted)
            factors = fold_in(V, b, labels, M, prior=prior, sizes=sizes if weighted else None, **settings_)
            for row in range(5):
                mine = labels.rows == row
                v = V[labels.indices[mine]]
                offset = v @ prior[row] + b[labels.indices[mine]]
                penalty = M * sizes[row] if weighted else M
                is_least(factors[row] - prior[row], v, offset, labels, mine, penalty, loss)
        labels = random_labels(15, 4, 0.7, seed=3, weighted=True)
        factors, intercept = fold_in_columns(U, labels, M, prior=item_prior, **settings_)
        for j in range(4):
            mine = labels.indices == j
            u = U[labels.rows[mine]]
            found = np.array([*(factors[j] - item_prior[j]), intercept[j]])
            design = np.column_stack([u, np.ones(len(u))])
            is_least(found, design, u @ item_prior[j], labels, mine, free, loss)


@settings(max_examples=30, deadline=None)
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


def test_a_rating_of_weight_two_counts_as_two() -> None:
    V = np.random.RandomState(0).standard_normal((4, 2))
    twice = ObservedLabels.from_dense([[1, 0, 1, 0, 1]])
    heavy = ObservedLabels.from_dense([[1, 0, 1, 0]], weights=[[2.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(
        fold_in(np.vstack([V, V[:1]]), np.zeros(5), twice, np.eye(2), **PLAIN),
        fold_in(V, np.zeros(4), heavy, np.eye(2), **PLAIN),
        rtol=1e-9,
    )
    # More ratings of one kind move the score that way.
    rows = np.array([[1.0] * count + [np.nan] * (6 - count) for count in range(7)])
    V, b = np.tile([[1.0, 0.5]], (6, 1)), np.zeros(6)
    up = fold_in(V, b, ObservedLabels.from_dense(rows), np.eye(2), **PLAIN) @ V[0]
    down = fold_in(V, b, ObservedLabels.from_dense(1.0 - rows), np.eye(2), **PLAIN) @ V[0]
    assert (np.diff(up) > 0).all()
    np.testing.assert_allclose(up, -down, atol=1e-12)


def test_how_rows_share_batches_does_not_matter() -> None:
    rng = np.random.RandomState(4)
    V, b, labels = rng.standard_normal((30, 4)), rng.standard_normal(30), random_labels(25, 30, 0.3, seed=5)
    together = fold_in(V, b, labels, random_penalty(4), **PLAIN)
    alone = [fold_in(V, b, labels.take_rows([i]), random_penalty(4), **PLAIN)[0] for i in range(25)]
    np.testing.assert_allclose(alone, together, rtol=1e-9)


def test_a_rate_for_each_item_where_rows_are_complete() -> None:
    rng = np.random.RandomState(6)
    V, b, rates = rng.standard_normal((8, 2)), rng.standard_normal(8), rng.uniform(0, 0.6, 8)
    labels = ObservedLabels.from_dense((rng.uniform(size=(3, 8)) < 0.4).astype(float))
    loss = Unlabelled(Logistic(), rates)
    U = fold_in(V, b, labels, random_penalty(2), entry_loss=loss, rating_weight=WEIGHT)
    slopes = loss.gradient(U @ V.T + b, labels.to_dense())
    np.testing.assert_allclose(WEIGHT * slopes @ V, -U @ random_penalty(2), atol=1e-10)


def test_items_with_ratings_of_one_kind_get_an_intercept_only() -> None:
    nan = float("nan")
    labels = ObservedLabels.from_dense([[1, 0, nan, 1], [1, 0, nan, 0], [1, nan, nan, 1]])
    U, prior = np.random.RandomState(0).standard_normal((3, 2)), np.full((4, 2), 0.25)
    for loss in LOSSES:
        factors, intercept = fold_in_columns(
            U, labels, np.eye(2), entry_loss=loss, rating_weight=1.0, prior=prior
        )
        np.testing.assert_array_equal(factors[:3], prior[:3], err_msg=repr(loss))
        np.testing.assert_allclose(intercept[:3], loss.link(np.array([3.5 / 4, 0.5 / 3, 0.5])))
        assert not np.array_equal(factors[3], prior[3])
    # A flat loss does not stop the intercept.
    labels = ObservedLabels.from_dense([[1], [0]])
    factors, intercept = fold_in_columns(
        np.array([[50.0], [-50.0]]), labels, np.eye(1) * 1e-9, entry_loss=SquaredHinge(), rating_weight=1.0
    )
    assert np.isfinite(factors).all()
    assert np.abs(intercept[0]) < 1


def test_nothing_to_fit_too_few_steps_and_wrong_shapes() -> None:
    labels, prior = random_labels(4, 3, 0.9), np.array([[1.0, 2.0], [3.0, 4.0]])
    nothing = ObservedLabels.from_dense(np.full((2, 3), np.nan))
    found = fold_in(np.ones((3, 2)), np.zeros(3), nothing, np.eye(2), prior=prior, **PLAIN)
    np.testing.assert_array_equal(found, prior)
    assert fold_in(np.zeros((3, 0)), np.zeros(3), labels, np.zeros((0, 0)), **PLAIN).shape == (4, 0)
    factors, intercept = fold_in_columns(np.zeros((4, 0)), labels, np.zeros((0, 0)), **PLAIN)
    assert factors.shape == (3, 0)
    assert np.isfinite(intercept).all()
    empty = ObservedLabels.from_dense(np.zeros((0, 3)))
    assert fold_in(np.ones((3, 2)), np.zeros(3), empty, np.eye(2), **PLAIN).shape == (0, 2)
    V = np.random.RandomState(0).standard_normal((9, 2))
    with pytest.warns(ConvergenceWarning, match="of 4 fold-ins stopped after 1 Newton steps"):
        fold_in(V, np.zeros(9), random_labels(4, 9, 0.9), np.eye(2) * 1e-3, max_iter=1, **PLAIN)
    with pytest.raises(InvalidInputError, match="3 columns for 5 items"):
        fold_in(np.ones((5, 2)), np.zeros(5), labels, np.eye(2), **PLAIN)
    with pytest.raises(InvalidInputError, match="4 rows for 5 users"):
        fold_in_columns(np.ones((5, 2)), labels, np.eye(2), **PLAIN)
    with pytest.raises(InvalidInputError, match=r"prior has shape \(1, 2\); \(4, 2\)"):
        fold_in(np.ones((3, 2)), np.zeros(3), labels, np.eye(2), prior=np.zeros((1, 2)), **PLAIN)


# -- new users ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Any:
    answers = example_answers(awkward=False)
    return Recommender(trace_penalty=0.01, threshold="train").fit(answers)


def test_new_users_are_drawn_to_the_mean_and_the_covariance_of_the_others(model: Any) -> None:
    given_, V = model.answers_, model.item_factors_
    k, shares = V.shape[1], given_.row_counts() / given_.n_observed
    mean, spread = shares @ model.user_factors_, np.zeros((k, k))
    for row, u in enumerate(model.user_factors_):
        precision = model.factor_penalty_ / model.answer_weight_
        for item in given_.take_rows([row]).indices:
            p = 1 / (1 + np.exp(-(u @ V[item] + model.item_intercept_[item])))
            precision = precision + p * (1 - p) * np.outer(V[item], V[item])
        spread += shares[row] * (np.outer(u - mean, u - mean) + np.linalg.inv(precision))
    one = model.fold_in((["x"], [0], [1]))
    np.testing.assert_allclose(one.new_user_mean_, mean)
    np.testing.assert_allclose(one.new_user_penalty_, np.linalg.inv(spread) * model.answer_weight_, rtol=1e-6)
    # Once it is known it stays, and others are left alone.
    np.testing.assert_array_equal(one.user_factors_[:-1], model.user_factors_)
    both = one.fold_in((["y", "y"], [1, 2], [1, 0]))
    directly = model.fold_in((["y", "y"], [1, 2], [1, 0]))
    np.testing.assert_allclose(both.user_factors_[-1], directly.user_factors_[-1])
    # More ratings of "x" are joined to those it has, at the same prior.
    more = one.fold_in((["x"], [3], [0]))
    at_once = model.fold_in((["x", "x"], [0, 3], [1, 0]))
    np.testing.assert_allclose(more.user_factors_[-1], at_once.user_factors_[-1], atol=1e-8)
    why = more.explain("x", 5)
    own = V[model.item_ids_.index(5)] - model.shared_item_factor_
    assert why.average_user == pytest.approx(float(mean @ own))
    assert "the average user" in str(why)
    with pytest.raises(UnknownNameError, match="prior"):
        model.fold_in((["x"], [0], [1]), prior="mean")


def test_few_ratings_do_not_make_worse() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(230, 2)) @ rng.normal(size=(2, 25)) + rng.normal(size=25)
    Y = (rng.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(int)
    users, items = np.nonzero(rng.random((200, 25)) < rng.uniform(0.2, 0.9, (200, 1)))
    fitted = Recommender(trace_penalty=0.004, count_weighting=1.0, threshold="train")
    fitted.fit((users, items, Y[users, items]))
    asked, judged = (
        part.ravel() for part in np.meshgrid(np.arange(200, 230), np.arange(5, 25), indexing="ij")
    )

    def loss(one: Any) -> float:
        scores = one.decision_function(asked, judged, unknown="average")
        return float(np.mean(Logistic().value(scores, Y[200:, 5:].ravel().astype(np.int8))))

    rated = np.repeat(np.arange(200, 230), 3), np.tile([0, 1, 2], 30), Y[200:, :3].ravel()
    drawn, as_fitted = fitted.fold_in(rated), fitted.fold_in(rated, prior="fit")
    assert loss(drawn) < min(loss(fitted), loss(as_fitted))


# -- new users who rate new items --------------------------------------------------------------------------

# "x" rates the known items 0 to 3 and the new one; the known users 0 to 5 rate the new one, too.
OF_USER = (["x"] * 4, [0, 1, 2, 3], [1, 0, 1, 1])
OF_ITEM = ([0, 1, 2, 3, 4, 5], ["new"] * 6, [1, 0, 1, 1, 0, 1])
PAIR = (["x"], ["new"], [0])


def joined(*parts: Any) -> Any:
    return tuple([value for part in parts for value in part[side]] for side in range(3))


def test_each_is_the_best_given_the_other(model: Any) -> None:
    both = model.fold_in(joined(OF_USER, OF_ITEM, PAIR))
    assert both.user_ids_ == (*model.user_ids_, "x")
    assert both.item_ids_ == (*model.item_ids_, "new")
    # Where one is as it was found, folding in the other's ratings once more changes nothing.
    again = both.fold_in(joined(OF_USER, PAIR))
    np.testing.assert_allclose(again.user_factors_[-1], both.user_factors_[-1], atol=1e-5)
    with_user = copy.copy(both)
    with_user.item_ids_ = (*model.item_ids_, "old")
    item = with_user.fold_in(joined(OF_ITEM, PAIR))
    np.testing.assert_allclose(item.item_factors_[-1], both.item_factors_[-1], atol=1e-5)
    np.testing.assert_allclose(item.item_intercept_[-1], both.item_intercept_[-1], atol=1e-5)
    alone = model.fold_in(joined(OF_USER, OF_ITEM))
    assert both.decision_function("x", "new") < alone.decision_function("x", "new")
    assert both.explain("x", "new").unexplained == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_array_equal(both.user_factors_[:-1], model.user_factors_)
    np.testing.assert_array_equal(both.item_factors_[:-1], model.item_factors_)


def test_ratings_and_features_are_links_to_what_is_known(model: Any) -> None:
    # The item has no rating of a known user, but one of "x", who has rated known items.
    grown = model.fold_in(joined(OF_USER, PAIR, (["y"], ["new"], [1])))
    assert grown.user_ids_[-2:] == ("x", "y")
    assert grown.decision_function("x", "new") < grown.decision_function("y", "new")
    assert "new" not in grown.recommend("x", n=99).items.tolist()
    island = joined(OF_USER, OF_ITEM, (["y", "z", "z"], ["far", "far", "away"], [1, 0, 1]))
    with pytest.raises(InvalidInputError, match=r"Neither the user 'y' nor the item 'far' is known, and no"):
        model.fold_in(island)
    ages = {user: [float(user % 7)] for user in range(40)}
    featured = Recommender(trace_penalty=0.01, threshold="train")
    featured.fit(example_answers(awkward=False), user_features=ages)
    grown = featured.fold_in((["x"], ["new"], [1]), user_features={"x": [3.0]})
    assert np.isfinite(grown.decision_function("x", "new"))


def test_an_item_without_factors_is_like_nothing() -> None:
    lonely = with_factors()
    lonely.item_factors_[3] = 0.0
    found = lonely.similar_items(3, n=3)
    np.testing.assert_array_equal(found.similarities, 0)
    assert found.ids == [0, 1, 2]
