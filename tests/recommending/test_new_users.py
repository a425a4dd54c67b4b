"""What new users are drawn to: the mean and the covariance of the users of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_models import with_factors

from labelgap import Recommender
from labelgap.exceptions import UnknownNameError
from labelgap.losses import Logistic
from labelgap.recommending import new_users


def test_the_prior_is_that_of_the_formula() -> None:
    model = with_factors(n=12, k=2)
    ratings = model.answers_
    n, k = model.user_factors_.shape
    mean, spread, counts = np.zeros(k), np.zeros((k, k)), ratings.row_counts()
    for i in range(n):
        mean += counts[i] / ratings.n_observed * model.user_factors_[i]
    for i in range(n):
        precision = model.factor_penalty_ / model.answer_weight_
        for j in ratings.take_rows([i]).indices:
            v = model.item_factors_[j]
            z = float(model.user_factors_[i] @ v + model.item_intercept_[j])
            p = 1 / (1 + np.exp(-z))
            precision = precision + p * (1 - p) * np.outer(v, v)
        beyond = model.user_factors_[i] - mean
        spread += counts[i] / ratings.n_observed * (np.outer(beyond, beyond) + np.linalg.inv(precision))
    found_mean, penalty = new_users.prior_of_users(model)
    np.testing.assert_allclose(found_mean, mean)
    np.testing.assert_allclose(penalty, np.linalg.inv(spread) * model.answer_weight_)
    # Twice the weight at half the unit is the same.
    model.answers_, model.answer_weight_ = ratings.with_weights(np.full(ratings.n_observed, 2.0)), 0.25
    np.testing.assert_allclose(new_users.prior_of_users(model)[1], penalty)


def test_many_users_are_looked_at_in_equal_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_users, "_MOST_USERS", 40)
    assert new_users._evenly(np.arange(100), 3)[[0, -1]].tolist() == [0, 99]
    assert len(new_users._evenly(np.arange(100), 3)) == 40
    assert len(new_users._evenly(np.arange(100), 10_000)) == 32


def test_a_new_user_keeps_the_prior_and_leaves_others_alone() -> None:
    model = with_factors(n=12, k=2)
    one = model.fold_in((["x"], [0], [1]))
    np.testing.assert_array_equal(one.user_factors_[:-1], model.user_factors_)
    both = one.fold_in((["y", "y"], [1, 2], [1, 0]))
    directly = model.fold_in((["y", "y"], [1, 2], [1, 0]))
    np.testing.assert_allclose(both.user_factors_[-1], directly.user_factors_[-1])
    # More ratings of "x" are joined to those it has, at the same prior.
    more = one.fold_in((["x"], [3], [0]))
    at_once = model.fold_in((["x", "x"], [0, 3], [1, 0]))
    np.testing.assert_allclose(more.user_factors_[-1], at_once.user_factors_[-1], atol=1e-8)
    why = more.explain("x", 5)
    assert why.unexplained == pytest.approx(0.0, abs=1e-8)
    assert why.average_user == pytest.approx(float(more.new_user_mean_ @ model.item_factors_[5]))
    assert "the average user" in str(why)
    # A known user has the penalty of the fit, whether or not there are new ones.
    again = (["u0"], [0], [1])
    np.testing.assert_allclose(
        one.fold_in(again).user_factors_[0], model.fold_in(again).user_factors_[0], atol=1e-8
    )
    with pytest.raises(UnknownNameError, match="prior"):
        model.fold_in((["x"], [0], [1]), prior="mean")


def test_few_ratings_do_not_make_worse() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(230, 2)) @ rng.normal(size=(2, 25)) + rng.normal(size=25)
    Y = (rng.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(int)
    users, items = np.nonzero(rng.random((200, 25)) < rng.uniform(0.2, 0.9, (200, 1)))
    settings: dict[str, Any] = {"trace_penalty": 0.004, "count_weighting": 1.0, "threshold": "train"}
    model = Recommender(**settings).fit((users, items, Y[users, items]))
    new = np.arange(200, 230)

    def loss(one: Any) -> float:
        asked, judged = np.meshgrid(new, np.arange(5, 25), indexing="ij")
        scores = one.decision_function(asked.ravel(), judged.ravel(), unknown="average")
        return float(np.mean(Logistic().value(scores, Y[200:, 5:].ravel().astype(np.int8))))

    rated = np.repeat(new, 3), np.tile([0, 1, 2], 30), Y[200:, :3].ravel()
    drawn, as_fitted = model.fold_in(rated), model.fold_in(rated, prior="fit")
    assert loss(drawn) < min(loss(model), loss(as_fitted))
