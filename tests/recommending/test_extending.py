"""New users who rate new items: folded in together, where other ratings link them to what is known."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from labelgap import Recommender
from labelgap.exceptions import InvalidInputError
from labelgap.recommending.extending import merged_ratings
from labelgap.recommending.ratings import read_ratings
from recommender_suite import example_answers


@pytest.fixture(scope="module")
def model() -> Any:
    answers = example_answers(awkward=False)
    return Recommender(trace_penalty=0.01, threshold="train").fit(answers)


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

    # With the item as it was found, "x" is what folding in "x" alone gives; and the other way round.
    with_item = copy.copy(model)
    with_item.item_ids_, with_item.item_factors_ = both.item_ids_, both.item_factors_
    with_item.item_intercept_ = both.item_intercept_
    with_item.answers_ = extended_answers(model, OF_ITEM, model.user_ids_, both.item_ids_)
    with_item.new_user_mean_, with_item.new_user_penalty_ = both.new_user_mean_, both.new_user_penalty_
    user = with_item.fold_in(joined(OF_USER, PAIR))
    np.testing.assert_allclose(user.user_factors_[-1], both.user_factors_[-1], atol=1e-5)

    with_user = copy.copy(model)
    with_user.user_ids_, with_user.user_factors_ = both.user_ids_, both.user_factors_
    with_user.user_prior_ = both.user_prior_
    with_user.answers_ = extended_answers(model, OF_USER, both.user_ids_, model.item_ids_)
    item = with_user.fold_in(joined(OF_ITEM, PAIR))
    np.testing.assert_allclose(item.item_factors_[-1], both.item_factors_[-1], atol=1e-5)
    np.testing.assert_allclose(item.item_intercept_[-1], both.item_intercept_[-1], atol=1e-5)

    alone = model.fold_in(joined(OF_USER, OF_ITEM))
    assert both.decision_function("x", "new") < alone.decision_function("x", "new")
    assert both.explain("x", "new").unexplained == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_array_equal(both.user_factors_[:-1], model.user_factors_)
    np.testing.assert_array_equal(both.item_factors_[:-1], model.item_factors_)


def extended_answers(model: Any, added: Any, users: Any, items: Any) -> Any:
    read = read_ratings(added)
    rows = np.array([users.index(name) for name in read.row_names or ()])[read.rows]
    cols = np.array([items.index(name) for name in read.label_names or ()])[read.cols]
    return merged_ratings(model.answers_, read, rows, cols, users, items)


def test_a_chain_of_ratings_is_a_link(model: Any) -> None:
    # The item has no rating of a known user, but one of "x", who has rated known items.
    grown = model.fold_in(joined(OF_USER, PAIR, (["y"], ["new"], [1])))
    assert grown.user_ids_[-2:] == ("x", "y")
    assert np.isfinite(grown.decision_function(["x", "y"], "new")).all()
    assert grown.decision_function("x", "new") < grown.decision_function("y", "new")
    assert grown.recommend("x", n=99).items.tolist().count("new") == 0


def test_features_are_a_link_too() -> None:
    answers = example_answers(awkward=False)
    ages = {user: [float(user % 7)] for user in range(40)}
    model = Recommender(trace_penalty=0.01, threshold="train").fit(answers, user_features=ages)
    grown = model.fold_in((["x"], ["new"], [1]), user_features={"x": [3.0]})
    assert np.isfinite(grown.decision_function("x", "new"))


def test_nothing_known_is_an_error(model: Any) -> None:
    island = joined(OF_USER, OF_ITEM, (["y", "z", "z"], ["far", "far", "away"], [1, 0, 1]))
    with pytest.raises(InvalidInputError, match=r"Neither the user 'y' nor the item 'far' is known, and no"):
        model.fold_in(island)
