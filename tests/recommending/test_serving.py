"""The serving half of a recommender, on one that is fitted by folding in users and items by turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap import ObservedLabels, best_threshold, get_metric
from labelgap.exceptions import (
    InvalidFeaturesError,
    InvalidInputError,
    InvalidParameterError,
)
from labelgap.losses import Unlabelled, get_loss
from labelgap.metrics import unlabelled_metric
from labelgap.recommending.extending import merged_ratings
from labelgap.recommending.factor_model import complete
from labelgap.recommending.fold_in import fold_in, fold_in_columns
from labelgap.recommending.ratings import read_ratings
from labelgap.recommending.serving import Recommending
from labelgap.recommending.top_items import score_rows
from recommender_suite import (
    CHECKS,
    Case,
    check_no_array_of_users_by_items,
    check_recommender,
    example_answers,
)


class ToyRecommender(Recommending):
    """Users and items by turns, from the leading singular vectors; the last turn is the users'.

    All items share a 1 in the last factor: a user's share of it is the user's intercept.
    """

    def __init__(
        self,
        rank: int = 2,
        penalty: float = 0.5,
        rounds: int = 3,
        loss: str = "logistic",
        positive: Any = None,
        unobserved: str = "missing",
        flip_rate: float = 0.2,
        user: str = "user",
        feature_map: Any = None,
    ) -> None:
        self.rank = rank
        self.penalty = penalty
        self.rounds = rounds
        self.loss = loss
        self.positive = positive
        self.unobserved = unobserved
        self.flip_rate = flip_rate
        self.user = user
        self.feature_map = feature_map

    def fit(self, answers: Any, user_features: Any = None) -> ToyRecommender:
        labels = read_ratings(answers, user=self.user, positive=self.positive, unobserved=self.unobserved)
        n, n_items = labels.shape
        k = self.rank + 1
        self.user_ids_, self.item_ids_ = labels.row_names, labels.label_names
        self.answers_, self.loss_, self.metric_ = labels, get_loss(self.loss), get_metric("micro-f1")
        judged = self._judged_rows(labels)
        self.answer_weight_ = 1 / judged.n_observed
        self.factor_penalty_ = self.answer_weight_ * self.penalty * np.eye(k)
        self.user_prior_ = np.zeros((n, k))
        if user_features is not None:
            self.user_prior_ = self._prior_of_features(np.array([user_features[u] for u in self.user_ids_]))
        table = judged.to_sparse().astype(np.float64)
        table.data -= table.data.mean()
        start = sp.linalg.svds(table, k=self.rank, v0=np.ones(min(table.shape)))[2].T
        self.item_factors_ = np.column_stack([start, np.ones(n_items)])
        self.item_intercept_ = np.zeros(n_items)
        shared: dict[str, Any] = {"entry_loss": self._entry_loss(), "rating_weight": self.answer_weight_}
        ones = np.column_stack([np.zeros((n_items, self.rank)), np.ones(n_items)])
        for turn in range(self.rounds + 1):
            self.user_factors_ = fold_in(
                self.item_factors_,
                self.item_intercept_,
                judged,
                self.factor_penalty_,
                prior=self.user_prior_,
                **shared,
            )
            if turn < self.rounds:
                self.item_factors_, self.item_intercept_ = fold_in_columns(
                    self.user_factors_,
                    judged,
                    self.factor_penalty_,
                    prior=ones,
                    **shared,
                )
        self.shared_item_factor_ = ones[0]
        self.user_intercept_ = self.user_factors_ @ ones[0]
        scores = score_rows(self._factors(), judged.indptr, judged.indices)
        self.threshold_ = best_threshold(scores, judged, self.metric_).threshold
        return self

    def _entry_loss(self, *, of_new_items: bool = False) -> Any:
        return Unlabelled(self.loss_, self.flip_rate) if self.unobserved == "unlabelled" else self.loss_

    def _prior_of_features(self, features: Any) -> Any:
        if self.feature_map is None:
            return super()._prior_of_features(features)
        return np.asarray(features, dtype=np.float64) @ self.feature_map

    def _item_prior_of_features(self, features: Any) -> Any:
        if self.feature_map is None:
            return super()._item_prior_of_features(features)
        return np.asarray(features, dtype=np.float64) @ self.feature_map


ANSWERS = example_answers()
CASE = Case(ToyRecommender, ANSWERS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_suite(check: Callable[[Case], None]) -> None:
    check(CASE)


@pytest.mark.parametrize(
    "loss",
    ["squared", *(pytest.param(loss, marks=pytest.mark.slow) for loss in ("exponential", "squared_hinge"))],
)
def test_the_suite_with_another_loss(loss: str) -> None:
    case = Case(lambda: ToyRecommender(loss=loss), example_answers(seed=1))
    for check in CHECKS:
        # The memory that it takes does not depend on the loss.
        if check is not check_no_array_of_users_by_items:
            check(case)


@pytest.fixture(scope="module")
def model() -> Any:
    return CASE.fitted


class Optimist(ToyRecommender):
    """Says yes to everything."""

    def predict(self, users: Any, items: Any = None) -> Any:
        return np.ones_like(super().predict(users, items))


class Forgetful(ToyRecommender):
    """Recommends what was seen."""

    def _seen(self, users: Any = None) -> Any:
        return None


class Meddler(ToyRecommender):
    """Changes itself by a fold-in."""

    def fold_in(self, answers: Any = None, **features: Any) -> Any:
        result = super().fold_in(answers, **features)
        self.user_factors_ = result.user_factors_[: len(self.user_factors_)] + 1e-9
        return result


class Moody(ToyRecommender):
    """Never fits the same way twice."""

    fits = 0

    def fit(self, answers: Any, user_features: Any = None) -> Any:
        Moody.fits += 1
        super().fit(answers, user_features)
        self.item_intercept_ = self.item_intercept_ + 1e-3 * Moody.fits
        return self


@pytest.mark.parametrize("wrong", [Optimist, Forgetful, Meddler, Moody])
def test_the_suite_sees_a_wrong_recommender(wrong: Any) -> None:
    with pytest.raises(AssertionError):
        check_recommender(wrong, ANSWERS)


# -- the suite's ground, once more in detail ---------------------------------------------------------------


def test_converged_users_are_explained_in_full(model: Any) -> None:
    for user, item in CASE.pairs[::17]:
        why = model.explain(user, item)
        assert why.unexplained == pytest.approx(0.0, abs=1e-7)
        assert why.user_intercept == pytest.approx(model.user_intercept_[model.user_ids_.index(user)])
        assert why.from_features == 0
        assert "not explained" not in str(why)


def test_what_is_not_converged_is_said() -> None:
    model = ToyRecommender().fit(ANSWERS)
    model.user_factors_ = model.user_factors_ + 0.5
    why = model.explain(CASE.users[0], CASE.items[0])
    assert abs(why.unexplained) > 1e-3
    assert "not explained: the fit has not quite converged" in str(why)


def test_a_like_speaks_for_items_like_it(model: Any) -> None:
    """A contribution has the sign of the answer times that of the likeness under M."""
    V = model.item_factors_
    user, target = CASE.users[2], CASE.items[1]
    t = model.item_ids_.index(target)
    for part in model.explain(user, target, n=100).contributions:
        alike = V[model.item_ids_.index(part.item)] @ (V[t] - model.shared_item_factor_)
        assert part.contribution * alike * (2 * part.answer - 1) >= 0


def test_weights_count_in_explanations_and_fold_in() -> None:
    labels = read_ratings(ANSWERS)
    weighted = labels.with_weights(np.random.RandomState(0).uniform(0.5, 2, labels.n_observed))
    model = ToyRecommender().fit(weighted)
    assert model.explain(CASE.users[0], CASE.items[3]).unexplained == pytest.approx(0.0, abs=1e-7)
    row = weighted.take_rows([5])
    same = model.fold_in(row)
    np.testing.assert_allclose(same.user_factors_, model.user_factors_, atol=1e-8)
    grown = model.fold_in((["new"], [CASE.items[0]], [1]))
    assert grown.answers_.weights is not None
    assert grown.answers_.weights[-1] == 1.0


def test_similar_items_pass_over_what_all_share(model: Any) -> None:
    V = model.item_factors_ - model.shared_item_factor_
    a, *others = range(len(V))
    cosine = [V[a] @ V[j] / (np.linalg.norm(V[a]) * np.linalg.norm(V[j])) for j in others]
    best = model.item_ids_[others[int(np.argmax(cosine))]]
    found = model.similar_items(model.item_ids_[a], n=1)
    assert found.ids == [best]
    assert found.similarities[0] == pytest.approx(max(cosine))


def test_an_item_without_factors_is_like_nothing(model: Any) -> None:
    grown = model.fold_in((CASE.users[:2], ["plain", "plain"], [1, 1]))
    found = grown.similar_items("plain", n=3)
    np.testing.assert_array_equal(found.similarities, 0)
    assert found.ids == list(grown.item_ids_[:3])


def test_equal_scores_come_in_order() -> None:
    model = ToyRecommender().fit(ANSWERS)
    model.user_factors_ = np.zeros_like(model.user_factors_)
    model.item_intercept_ = np.array([1.0, 2.0] * (len(model.item_ids_) // 2))
    found = model.recommend(CASE.users[0], n=5, exclude_seen=False)
    assert found.items.tolist() == list(model.item_ids_[1:10:2])
    assert model.recommend_batch(n=5, exclude_seen=False).items[-1].tolist() == found.items.tolist()


def test_recommendations_are_readable(model: Any) -> None:
    lines = str(model.recommend(CASE.users[0], n=3)).splitlines()
    assert len(lines) == 3
    assert all("probability" in line for line in lines)
    assert "Recommendations(" in str(model.recommend_batch(n=2))


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3"])
def test_n_is_a_count(model: Any, n: Any) -> None:
    for call in (model.recommend, model.similar_users):
        with pytest.raises(InvalidParameterError, match="n must be a whole number, 1 or more"):
            call(CASE.users[0], n=n)


def test_pairs_that_are_none(model: Any) -> None:
    with pytest.raises(InvalidInputError, match="a frame with the columns 'user' and 'item'; got list alone"):
        model.predict(CASE.users)
    with pytest.raises(InvalidInputError, match="no column 'item'; it has 'user', 'film'"):
        model.predict(polars.DataFrame({"user": ["a"], "film": ["b"]}))


def test_settings_of_the_estimator_are_used() -> None:
    users, items, likes = ANSWERS
    stars = [5 if like else 2 for like in likes]
    frame = pandas.DataFrame({"who": users, "item": items, "value": stars}, dtype=object)
    model = ToyRecommender(positive=4, user="who").fit(frame)
    np.testing.assert_array_equal(model.user_factors_, CASE.fitted.user_factors_)
    assert model.score(frame) == CASE.fitted.score(ANSWERS)
    assert model.fold_in((["new"] * 2, CASE.items[:2], [5, 1])).answers_.values[-2:].tolist() == [1, 0]
    np.testing.assert_array_equal(model.predict(frame), CASE.fitted.predict(users, items))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_answers_merge_as_in_a_dictionary(seed: int, weighted: bool, absent_is_no: bool) -> None:
    rng = np.random.RandomState(seed)

    def draw(n: int, n_items: int, share: float) -> Any:
        Y = np.where(rng.uniform(size=(n, n_items)) < share, rng.randint(0, 2, (n, n_items)), np.nan)
        weights = rng.uniform(1, 2, size=Y.shape) if weighted else None
        return ObservedLabels.from_dense(Y, weights=weights)

    def cells(labels: Any, weights: bool = weighted) -> dict[Any, Any]:
        said = labels.weights if weights else np.ones(labels.n_observed)
        return {
            (i, j): (y, w) for i, j, y, w in zip(labels.rows, labels.cols, labels.values, said, strict=True)
        }

    old, new = draw(4, 3, 0.6), draw(6, 5, rng.uniform())
    if absent_is_no:
        old = complete(old)
    merged = merged_ratings(old, new, new.rows, new.cols.astype(np.int64), tuple(range(6)), tuple(range(5)))
    expected = cells(old) | cells(new)
    if absent_is_no:
        expected = {(i, j): (0, 1.0) for i in range(6) for j in range(5)} | expected
    assert cells(merged) == expected
    keys = merged.rows * 5 + merged.cols
    assert (np.diff(keys) > 0).all()
    assert (merged.shape, merged.row_names) == ((6, 5), tuple(range(6)))
    assert merged.unobserved == old.unobserved


# -- what an absent answer means ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unlabelled() -> Any:
    return ToyRecommender(unobserved="unlabelled").fit(ANSWERS)


def test_likes_alone_fold_in_and_explain(unlabelled: Any) -> None:
    likes = [item for item, like in CASE.answers_of(CASE.users[0]).items() if like]
    row = unlabelled.user_ids_.index(CASE.users[0])
    twin = unlabelled.fold_in((["twin"] * len(likes), likes))
    np.testing.assert_allclose(twin.user_factors_[-1], unlabelled.user_factors_[row], atol=1e-8)
    why = unlabelled.explain(CASE.users[0], CASE.items[3], n=100)
    assert why.unexplained == pytest.approx(0.0, abs=1e-8)
    assert {part.answer for part in why.contributions} == {1, None}
    assert "has not rated" in str(why)
    assert set(unlabelled.recommend(CASE.users[0], n=100).items) == set(CASE.items) - set(likes)
    likes_of_all = read_ratings(ANSWERS, unobserved="unlabelled")
    decided = unlabelled.decide_matrix(list(likes_of_all.row_names))
    corrected = unlabelled_metric("micro-f1", likes_of_all, decided, 0.0)
    assert unlabelled.score(likes_of_all) == pytest.approx(corrected)


def test_likes_alone_make_items(unlabelled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (CASE.users[:6] + CASE.users[:12], ["a"] * 6 + ["b"] * 12)
    grown = unlabelled.fold_in(lines)
    assert grown.item_intercept_[-1] > grown.item_intercept_[-2]
    monkeypatch.setattr("labelgap.recommending.extending._BLOCK_ENTRIES", 1)
    blocked = unlabelled.fold_in(lines)
    np.testing.assert_allclose(blocked.item_factors_, grown.item_factors_, atol=1e-9)
    many = (["p", "q"], CASE.items[:2])
    np.testing.assert_allclose(
        unlabelled.fold_in(many).user_factors_[-2:],
        [unlabelled.fold_in(([u], [i])).user_factors_[-1] for u, i in zip(*many, strict=True)],
        atol=1e-9,
    )


def test_where_absent_is_no() -> None:
    model = ToyRecommender(unobserved="negative").fit(ANSWERS)
    user = CASE.users[0]
    likes = [item for item, like in CASE.answers_of(user).items() if like]
    assert set(model.recommend(user, n=100).items) == set(CASE.items) - set(likes)
    twin = model.fold_in((["twin"] * len(likes), likes))
    assert twin.answers_.is_complete
    assert twin.answers_.unobserved == "negative"
    row = model.user_ids_.index(user)
    np.testing.assert_allclose(twin.user_factors_[-1], model.user_factors_[row], atol=1e-8)
    grown = model.fold_in((CASE.users[:9], ["new item"] * 9, [1] * 9))
    assert grown.answers_.is_complete
    assert grown.answers_.n_observed == model.answers_.n_observed + len(CASE.users)


# -- features ----------------------------------------------------------------------------------------------

MAP = np.array([[1.0, 0.0, 0.2], [0.0, -1.0, 0.1]])


@pytest.fixture(scope="module")
def featured() -> Any:
    rng = np.random.RandomState(3)
    features = {user: rng.standard_normal(2) for user in CASE.users}
    return ToyRecommender(feature_map=MAP).fit(ANSWERS, user_features=features)


def test_features_have_their_part(featured: Any) -> None:
    user, item = CASE.users[3], CASE.items[5]
    why = featured.explain(user, item)
    prior = featured.user_prior_[featured.user_ids_.index(user)]
    own = featured.item_factors_[featured.item_ids_.index(item)] - featured.shared_item_factor_
    assert why.from_features == pytest.approx(prior @ own)
    assert why.from_features != 0
    assert why.unexplained == pytest.approx(0.0, abs=1e-7)
    assert "the user's features" in str(why)
    same = featured.fold_in(([user], [item], [CASE.answers_of(user).get(item, 1)]))
    assert same.user_ids_ == featured.user_ids_
    np.testing.assert_array_equal(same.user_prior_, featured.user_prior_)


@pytest.mark.parametrize(
    "features",
    [
        {"p": [1.0, 2.0], "q": [0.5, -1.0]},
        pandas.DataFrame({"user": ["p", "q"], "x": [1.0, 0.5], "y": [2.0, -1.0]}),
        pandas.DataFrame({"x": [1.0, 0.5], "y": [2.0, -1.0]}, index=["p", "q"]),
        polars.DataFrame({"x": [1.0, 0.5], "user": ["p", "q"], "y": [2.0, -1.0]}),
    ],
    ids=["mapping", "pandas", "index", "polars"],
)
def test_a_user_with_features_and_no_answers(featured: Any, features: Any) -> None:
    grown = featured.fold_in(user_features=features)
    assert grown.user_ids_[-2:] == ("p", "q")
    # Beyond what their features say, new users are like the others.
    expected = np.array([[1.0, 2.0], [0.5, -1.0]]) @ MAP + grown.new_user_mean_
    np.testing.assert_allclose(grown.user_factors_[-2:], expected)
    np.testing.assert_allclose(grown.user_prior_[-2:], expected)
    np.testing.assert_allclose(grown.user_intercept_[-2:], expected[:, -1])
    assert len(grown.recommend("p", n=100)) == len(CASE.items)


def test_features_and_answers_of_one_new_user(featured: Any) -> None:
    lines = (["q", "q", "r"], CASE.items[:3], [1, 1, 0])
    grown = featured.fold_in(lines, user_features={"p": [1, 0], "q": [0, 1]})
    assert grown.user_ids_[-3:] == ("q", "r", "p")
    features_alone = grown.user_prior_[-3:] - grown.new_user_mean_
    np.testing.assert_allclose(features_alone, [MAP[1], np.zeros(3), MAP[0]], atol=1e-12)
    assert grown.decision_function("q", CASE.items[0]) > featured.fold_in(
        user_features={"q": [0, 1]}
    ).decision_function("q", CASE.items[0])
    assert grown.explain("q", CASE.items[7]).unexplained == pytest.approx(0.0, abs=1e-7)


def test_items_with_features(featured: Any) -> None:
    lines = (CASE.users[:4], ["b"] * 4, [1, 0, 1, 0])
    grown = featured.fold_in(lines, item_features={"a": [1.0, 2.0], "b": [0.5, -1.0]})
    assert grown.item_ids_[-2:] == ("b", "a")
    expected = np.array([1.0, 2.0]) @ MAP + featured.shared_item_factor_
    np.testing.assert_allclose(grown.item_factors_[-1], expected)
    assert grown.item_intercept_[-1] == pytest.approx(featured.item_intercept_.mean())
    from_features = np.array([0.5, -1.0]) @ MAP + featured.shared_item_factor_
    assert not np.allclose(grown.item_factors_[-2], from_features)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        ({CASE.users[0]: [1.0, 2.0]}, InvalidInputError, "is known already; features are taken of new users"),
        ({"p": [1.0], "q": [1.0, 2.0]}, InvalidFeaturesError, "one row of numbers for each user"),
        (np.ones((2, 2)), InvalidFeaturesError, "a mapping from id to row, or as a frame .* got ndarray"),
        (polars.DataFrame({"x": [1.0]}), InvalidFeaturesError, "no column 'user'"),
        (
            pandas.DataFrame({"user": ["p", "p"], "x": [1, 2]}),
            InvalidFeaturesError,
            "two rows .* of user 'p'",
        ),
    ],
)
def test_features_that_cannot_be_used(featured: Any, features: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        featured.fold_in(user_features=features)


def test_features_need_a_fit_with_features(model: Any) -> None:
    with pytest.raises(InvalidFeaturesError, match="fitted without user features"):
        model.fold_in(user_features={"p": [1.0]})
    with pytest.raises(InvalidFeaturesError, match="fitted without item features"):
        model.fold_in(item_features={"p": [1.0]})


def test_one_item_only() -> None:
    """Nobody to compare with; every method still works."""
    model = Recommending()
    model.user_ids_, model.item_ids_ = ("u",), ("x",)
    model.user_factors_, model.item_factors_ = np.array([[1.0]]), np.array([[2.0]])
    model.user_prior_, model.item_intercept_, model.threshold_ = np.zeros((1, 1)), np.zeros(1), 0.0
    model.loss_, model.metric_ = get_loss("logistic"), get_metric("micro-f1")
    model.answers_ = ObservedLabels.from_dense([[1]])
    model.factor_penalty_, model.answer_weight_ = np.eye(1), 1.0
    assert len(model.recommend("u")) == 0
    assert model.recommend_batch(n=2).items.tolist() == [[None, None]]
    assert model.similar_items("x").ids == []
    assert model.decide() == {"u": ["x"]}
    assert model.fold_in((["v"], ["x"], [0]), prior="fit").decision_function("v", "x") < 0
    assert model.fold_in((["v"], ["x"], [0])).decision_function("v", "x") < model.decision_function("u", "x")
