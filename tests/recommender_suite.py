"""What every recommender must do: ``KINDS`` is the table of recommenders, ``CHECKS`` what is asked."""

from __future__ import annotations

import copy
import math
import pickle
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import labelgap
from labelgap import Recommender, get_metric
from labelgap.exceptions import LabelgapError, LabelgapWarning
from labelgap.metrics import unlabelled_metric

Triplets = tuple[list[Any], list[Any], list[Any]]
EXACT = {"threshold": "train", "tol": 1e-8, "random_state": 0}


def awkward_ids(count: int, stem: str) -> list[Any]:
    """Ids of several types, none of them a number from 0 to count - 1 in order."""
    kinds: list[Callable[[int], Any]] = [
        lambda i: f"{stem} {i}",
        lambda i: (stem, i),
        lambda i: 1_000_003 * i - 17,
        lambda i: (i, (stem,)),
        lambda i: f"{i}",
    ]
    return [kinds[i % len(kinds)](i) for i in range(count)]


def example_answers(
    n: int = 40, n_items: int = 24, *, seed: int = 0, awkward: bool = True, values: str = "likes and dislikes"
) -> Triplets:
    """Answers of a low-rank truth, in random order; the last user has answered everything.

    ``values`` may also be "likes" alone, or "counts", from 1 to 4 for a like and 0 for a dislike.
    """
    rng = np.random.RandomState(seed)
    truth = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items))
    truth += 0.5 * rng.standard_normal(n_items)
    seen = rng.uniform(size=truth.shape) < 0.5
    seen[-1] = True
    likes = (truth + 0.7 * rng.standard_normal(truth.shape) > 0).astype(int)
    counts = likes * rng.randint(1, 5, size=truth.shape)
    rows, cols = rng.permutation(np.argwhere(seen & (likes == 1) if values == "likes" else seen)).T
    users = awkward_ids(n, "user") if awkward else list(range(n))
    items = awkward_ids(n_items, "film") if awkward else list(range(n_items))
    chosen = (counts if values == "counts" else likes)[rows, cols]
    return [users[i] for i in rows], [items[j] for j in cols], chosen.tolist()


@dataclass
class Case:
    """A recommender, what it is fitted to, and how exactly a fit can be repeated in another order."""

    settings: dict[str, Any]
    values: str = "likes and dislikes"
    tol: float = 3e-3
    """A difference of scores that two fits of the same problem may have."""
    has_features: bool = False
    users: list[Any] = field(init=False)
    items: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.answers = example_answers(values=self.values)
        self.users, self.items = (list(dict.fromkeys(side)) for side in self.answers[:2])
        self.meaning = self.settings.get("unobserved", "missing")
        self.features: dict[str, Any] = {}
        if self.has_features:
            rng = np.random.default_rng(2)
            for name, ids in (("user_features", self.users), ("item_features", self.items)):
                self.features[name] = {one: rng.standard_normal(2) for one in ids}

    def make(self, **changes: Any) -> Recommender:
        return Recommender(**(EXACT | self.settings | changes))

    @cached_property
    def fitted(self) -> Any:
        """One fit for all checks that only look."""
        return self.make().fit(self.answers, **self.features)

    def answers_of(self, user: Any) -> dict[Any, int]:
        return {item: value for who, item, value in zip(*self.answers, strict=True) if who == user}

    def lines_of(self, user: Any, said: dict[Any, int]) -> Triplets:
        return [user] * len(said), list(said), list(said.values())

    def scores(self, model: Any) -> Any:
        """Scores of all pairs, users x items, in the order of this case."""
        return np.array([model.decision_function(user, self.items) for user in self.users])

    def best(self, user: Any, exclude_seen: bool) -> list[tuple[Any, float]]:
        """All items of a user by score, then by their order in the model."""
        ids = list(self.fitted.item_ids_)
        left_out = self.answers_of(user) if exclude_seen else {}
        scores = self.fitted.decision_function(user, ids)
        kept = [(item, float(z)) for item, z in zip(ids, scores, strict=True) if item not in left_out]
        return sorted(kept, key=lambda pair: -pair[1])  # Stable: equal scores stay in order.


LISTS = {"unobserved": "negative", "trace_penalty": 0.3, "dislike_value": 0.25}

KINDS = {
    "decide": Case({"trace_penalty": 0.003}),
    "decide by the squared loss": Case({"trace_penalty": 0.003, "loss": "squared", "ridge_penalty": 1e-3}),
    "decide, weighted by counts": Case(
        {"trace_penalty": 0.003, "count_weighting": 0.75, "intercept_penalty": 1e-3}
    ),
    "decide with features": Case({"trace_penalty": 0.003}, has_features=True),
    "lists": Case(LISTS | {"positive": 1, "value_power": 0.5, "leave_one_out": True}, "counts", 2e-5),
    "lists of likes alone, with features": Case(LISTS, "likes", 2e-5, has_features=True),
    "every pair": Case({"unobserved": "negative", "trace_penalty": 0.005, "loss": "logistic"}, "likes", 1e-2),
    "unlabelled": Case({"unobserved": "unlabelled", "trace_penalty": 0.01, "flip_rate": 0.2}, "likes", 1e-2),
}
SLOW_KINDS = {
    "proximal": Case({"trace_penalty": 0.003, "solver": "proximal", "tol": 1e-7}, tol=3e-2),
    "a given rank": Case({"trace_penalty": 0.003, "rank": 2}, tol=3e-2),
    "alternating": Case(
        {"trace_penalty": 0.003, "count_weighting": 0.75, "solver": "alternating", "rank": 6}, tol=3e-2
    ),
    "squared hinge": Case({"trace_penalty": 0.003, "loss": "squared_hinge"}, tol=3e-2),
    "exponential": Case({"trace_penalty": 0.003, "loss": "exponential"}, tol=3e-2),
}


# -- pairs -------------------------------------------------------------------------------------------------


def check_decisions_are_scores_above_the_threshold(case: Case) -> None:
    model = case.fitted
    scores = model.user_factors_ @ model.item_factors_.T + model.item_intercept_
    expected = scores >= model.threshold_
    users, items, _ = case.answers
    rows = [model.user_ids_.index(user) for user in users]
    columns = [model.item_ids_.index(item) for item in items]
    np.testing.assert_allclose(
        model.decision_function(users, items), scores[rows, columns], rtol=1e-9, atol=1e-12
    )
    if case.meaning == "unlabelled":
        expected[rows, columns] = True  # A recorded like is a yes.
    decided = [model.predict(user, list(model.item_ids_)) for user in model.user_ids_]
    np.testing.assert_array_equal(decided, expected)
    probabilities = model.predict_proba(users, items)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert (np.diff(probabilities[np.argsort(scores[rows, columns])]) >= 0).all()
    assert 0 <= model.threshold_probability_ <= 1


def check_single_ids_frames_and_the_average(case: Case) -> None:
    model = case.fitted
    user, item = case.users[1], case.items[2]
    single = model.decision_function(user, item)
    assert np.ndim(single) == 0
    assert model.predict(user, item) in (0, 1)
    assert model.decision_function(user, case.items)[2] == single
    assert model.decision_function(case.users, item)[1] == single
    frame = pandas.DataFrame({"user": [user] * 2, "item": [item, case.items[0]]}, dtype=object)
    assert model.decision_function(frame)[0] == single
    np.testing.assert_array_equal(model.predict(frame), model.predict(user, [item, case.items[0]]))
    with pytest.raises(LabelgapError, match="2 users and 3 items"):
        model.predict(case.users[:2], case.items[:3])
    scores = case.scores(model)
    pairs = [user, "zoe", user, "zoe"], [item, item, "new", "new"]
    expected = [scores[1, 2], scores[:, 2].mean(), scores[1].mean(), scores.mean()]
    found = model.decision_function(*pairs, unknown="average")
    np.testing.assert_allclose(found, expected, atol=1e-10)
    decided = model.predict(*pairs, unknown="average")
    assert decided[1:].tolist() == (found[1:] >= model.threshold_).astype(int).tolist()
    order = np.argsort(
        -model.decision_function("zoe", list(model.item_ids_), unknown="average"), kind="stable"
    )
    expected_items = [model.item_ids_[j] for j in order[:4]]
    assert model.recommend("zoe", n=4, unknown="average").items.tolist() == expected_items


def check_cold_pairs_are_refused(case: Case) -> None:
    model, nobody = case.fitted, ("nobody", -1)
    calls: list[Callable[[], Any]] = [
        lambda: model.predict(case.users[0], ["no such item"]),
        lambda: model.predict([nobody], [case.items[0]]),
        lambda: model.recommend(nobody),
        lambda: model.recommend_batch([nobody]),
        lambda: model.decide(["no such user"]),
        lambda: model.similar_items("no such item"),
        lambda: model.explain(nobody, case.items[0]),
        lambda: model.score(([case.users[0]], ["no such item"], [1])),
    ]
    for call in calls:
        with pytest.raises(KeyError, match=r"no.* is not among the \d+ .* known.*fold_in") as caught:
            call()
        assert isinstance(caught.value, LabelgapError)


def check_score_is_the_metric_over_the_answers(case: Case) -> None:
    model = case.fitted
    users, items, values = (side[::3] for side in case.answers)
    likes = np.array(values) > 0
    if case.meaning == "missing":
        expected = get_metric("micro-f1")(likes.astype(int)[:, None], model.predict(users, items)[:, None])
    else:
        asked = list(dict.fromkeys(users))
        recorded = np.zeros((len(asked), len(model.item_ids_)), dtype=int)
        at = [asked.index(user) for user in users], [model.item_ids_.index(item) for item in items]
        recorded[at] = likes
        decided = model.decide_matrix(asked).toarray()
        expected = get_metric("micro-f1")(recorded, decided)
        if case.meaning == "unlabelled":
            expected = unlabelled_metric("micro-f1", recorded, decided, model.flip_rate_)
    assert model.score((users, items, values)) == pytest.approx(expected)
    frame = pandas.DataFrame({"user": users, "item": items, "value": values}, dtype=object)
    assert model.score(frame) == pytest.approx(expected)


# -- best items --------------------------------------------------------------------------------------------


def check_recommendations_are_the_best_unseen(case: Case) -> None:
    model = case.fitted
    for exclude_seen in (True, False):
        together = model.recommend_batch(n=len(case.items), exclude_seen=exclude_seen)
        assert together.items.shape == (len(case.users), len(case.items))
        for row, user in enumerate(model.user_ids_):
            best = case.best(user, exclude_seen)
            for n in (1, 5, len(case.items) + 3):
                found = model.recommend(user, n=n, exclude_seen=exclude_seen)
                assert list(zip(found.items, found.scores, strict=True)) == best[:n], (user, n)
            if len(found):
                chosen = list(found.items)
                np.testing.assert_array_equal(found.probabilities, model.predict_proba(user, chosen))
                np.testing.assert_array_equal(found.decisions, model.predict(user, chosen))
            for name in ("items", "scores", "probabilities", "decisions"):
                in_batch = getattr(together, name)[row, : len(best)].tolist()
                assert in_batch == getattr(found, name).tolist(), (user, name)
            assert all(item is None for item in together.items[row, len(best) :])
            assert np.isnan(together.scores[row, len(best) :]).all()
            assert not together.decisions[row, len(best) :].any()
    some = [case.users[3], case.users[0], case.users[3]]
    chosen = model.recommend_batch(some, n=4)
    for row, user in enumerate(some):
        alone = model.recommend(user, n=4)
        assert chosen.items[row, : len(alone)].tolist() == alone.items.tolist()


def check_decide_lists_what_predict_says(case: Case) -> None:
    model = case.fitted
    for exclude_seen in (False, True):
        decided = model.decide(exclude_seen=exclude_seen)
        assert list(decided) == list(model.user_ids_)
        for user in case.users:
            best = case.best(user, exclude_seen)
            yes = model.predict(user, [item for item, _ in best]) if best else []
            # Best first; a recorded like below the threshold comes after those above it.
            assert decided[user] == [item for (item, _), said in zip(best, yes, strict=True) if said], user
    decided, some = model.decide(), [case.users[5], case.users[2]]
    assert model.decide(some) == {user: decided[user] for user in some}
    matrix = model.decide_matrix()
    assert matrix.shape == (len(case.users), len(case.items))
    assert matrix.has_sorted_indices
    for row, user in enumerate(model.user_ids_):
        yes = {model.item_ids_[j] for j in matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]}
        assert yes == set(decided[user])
    assert (model.decide_matrix(some).toarray()[1] == matrix.toarray()[model.user_ids_.index(some[1])]).all()


def figures_by_hand(orders: list[list[Any]], liked: list[set[Any]], n: int, n_items: int) -> dict[str, float]:
    """The means over users of what is said of a list, each from its definition."""
    found: dict[str, list[float]] = {name: [] for name in ("precision", "recall", "ndcg", "map", "hit_rate")}
    aucs, shown = [], set()
    for order, likes in zip(orders, liked, strict=True):
        hits = [place for place, item in enumerate(order[:n], start=1) if item in likes]
        most = min(n, len(likes))
        found["precision"].append(len(hits) / min(n, len(order)))
        found["recall"].append(len(hits) / len(likes))
        best = sum(1 / math.log2(1 + place) for place in range(1, most + 1))
        found["ndcg"].append(sum(1 / math.log2(1 + place) for place in hits) / best)
        found["map"].append(sum((k + 1) / place for k, place in enumerate(hits)) / most)
        found["hit_rate"].append(float(bool(hits)))
        others = [item for item in order if item not in likes]
        before = [order.index(one) < order.index(other) for one in likes for other in others]
        if before:
            aucs.append(np.mean(before))
        shown |= set(order[:n])
    means = {name: float(np.mean(values)) for name, values in found.items()}
    return means | {"auc": float(np.mean(aucs)), "coverage": len(shown) / n_items}


def check_rankings_are_judged_by_the_definitions(case: Case) -> None:
    model, ids = case.fitted, list(case.fitted.item_ids_)
    rng = np.random.default_rng(1)
    held = [(u, i) for u in case.users[:15] for i in case.items if rng.random() < 0.2]
    rated = {user: case.answers_of(user) for user in case.users}
    likes = {user: {i for u, i in held if u == user and i not in rated[user]} for user in case.users}
    judged = [user for user in case.users if likes[user]]
    popular = {item: sum(bool(rated[user].get(item)) for user in case.users) for item in ids}
    orders = {
        "model": [[item for item, _ in case.best(user, exclude_seen=True)] for user in judged],
        "popularity": [
            sorted((item for item in ids if item not in rated[user]), key=lambda item: -popular[item])
            for user in judged
        ],
    }
    for n in (1, 3, 100):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelgapWarning)
            found = model.evaluate_ranking(tuple(map(list, zip(*held, strict=True))), n=n)
        for name, order in orders.items():
            expected = figures_by_hand(order, [likes[user] for user in judged], n, len(ids))
            assert getattr(found, name)._asdict() == pytest.approx(expected), (name, n)
        assert (found.n_users, found.n_likes) == (len(judged), sum(map(len, likes.values())))
        assert found.n_rated == len(held) - found.n_likes


def check_neighbours_are_by_cosine(case: Case) -> None:
    model = case.fitted
    if model.list_settings_ is not None:
        own = model.item_factors_ * model.singular_values_
    else:
        own = model.item_factors_ - model.shared_item_factor_
    for factors, ids, call in (
        (model.user_factors_, model.user_ids_, model.similar_users),
        (own, model.item_ids_, model.similar_items),
    ):
        for row, one in list(enumerate(ids))[:5]:
            found = call(one, n=len(ids) + 5)
            assert set(found.ids) == set(ids) - {one}
            assert (np.diff(found.similarities) <= 0).all()
            for other, similarity in zip(found.ids, found.similarities, strict=True):
                u, v = factors[row], factors[ids.index(other)]
                size = np.linalg.norm(u) * np.linalg.norm(v)
                assert similarity == pytest.approx(u @ v / size if size else 0.0, abs=1e-12)
            assert call(one, n=3).ids == found.ids[:3]


def check_explanations_add_up(case: Case) -> None:
    model = case.fitted
    pairs = [(user, item) for user in case.users for item in case.items]
    for user, item in pairs[:: len(pairs) // 40]:
        why = model.explain(user, item, n=3)
        assert why.score == model.decision_function(user, item)
        assert why.decision == model.predict(user, item)
        assert why.probability == pytest.approx(float(model.predict_proba(user, item)))
        parts = [part.contribution for part in why.contributions]
        total = why.item_intercept + why.user_intercept + why.from_features + sum(parts)
        assert total + why.other_answers + why.unexplained == pytest.approx(why.score, abs=1e-9)
        assert np.abs(parts).tolist() == sorted(np.abs(parts), reverse=True)
        said = case.answers_of(user)
        for part in why.contributions:
            assert part.answer == (None if part.item not in said else int(said[part.item] > 0))
        assert repr(item) in str(why)
        everything = model.explain(user, item, n=10**6)
        assert (everything.n_other_answers, everything.other_answers) == (0, 0.0)
        of_ratings = case.meaning == "missing" or model.list_settings_ is not None
        assert len(everything.contributions) == len(said if of_ratings else case.items)
        if model.list_settings_ is not None:
            assert why.unexplained == pytest.approx(0.0, abs=1e-9)


def check_contributions_are_those_of_the_formula(case: Case) -> None:
    """``-w l'(z_j) v_j M^-1 v_t`` for each rating j, where a rating has one weight and users one penalty."""
    if case.meaning != "missing" or "count_weighting" in case.settings:
        return
    model = case.fitted
    V, inverse = model.item_factors_, np.linalg.inv(model.factor_penalty_)
    for user, item in list(zip(*case.answers[:2], strict=True))[::100]:
        target = V[model.item_ids_.index(item)] - model.shared_item_factor_
        for part in model.explain(user, item, n=99).contributions:
            v, z = V[model.item_ids_.index(part.item)], model.decision_function(user, part.item)
            slope = float(model.loss_.gradient(np.array([z]), np.array([part.answer], dtype=np.int8))[0])
            expected = -model.answer_weight_ * slope * (v @ inverse @ target)
            assert part.contribution == pytest.approx(expected, rel=1e-6, abs=1e-12)


# -- the fit -----------------------------------------------------------------------------------------------


def check_neither_order_nor_ids_matter(case: Case) -> None:
    order = np.random.RandomState(7).permutation(len(case.answers[0]))
    shuffled = tuple([side[e] for e in order] for side in case.answers)
    again = case.make().fit(shuffled, **case.features)
    np.testing.assert_allclose(case.scores(again), case.scores(case.fitted), atol=case.tol)
    number = {user: 10 * row + 3 for row, user in enumerate(case.users)}
    name = {item: f"item-{column}" for column, item in enumerate(case.items)}
    users, items, values = case.answers
    new_ids = {"user_features": number, "item_features": name}
    features = {
        what: {new_ids[what][one]: row for one, row in rows.items()} for what, rows in case.features.items()
    }
    lines = [number[user] for user in users], [name[item] for item in items], values
    renamed = case.make().fit(lines, **features)
    assert renamed.user_ids_ == tuple(number[user] for user in case.fitted.user_ids_)
    same_fit(renamed, case.fitted)


def same_fit(one: Any, other: Any) -> None:
    for name in ("user_factors_", "item_factors_", "item_intercept_", "threshold_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def check_a_fit_can_be_repeated_copied_and_saved(case: Case) -> None:
    model = case.make()
    before = model.get_params()
    model.fit(case.answers, **case.features)
    assert model.get_params() == before
    same_fit(clone(model).fit(case.answers, **case.features), model)
    with pytest.raises(NotFittedError, match="not fitted"):
        clone(model).recommend(case.users[0])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.labelgap")
        saved = labelgap.load(Path(folder) / "model.labelgap")
    user, item = case.users[0], case.items[3]
    more = ["new"] * 3, case.items[:3], [1, 1, 1]
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), saved):
        same_fit(other, model)
        assert other.get_params() == before
        assert other.recommend(user).items.tolist() == model.recommend(user).items.tolist()
        assert str(other.explain(user, item)) == str(model.explain(user, item))
        assert other.score(case.answers) == model.score(case.answers)
        np.testing.assert_array_equal(
            other.fold_in(more).decision_function("new", case.items),
            model.fold_in(more).decision_function("new", case.items),
        )


# -- fold-in -----------------------------------------------------------------------------------------------


def state_of(model: Any) -> dict[str, Any]:
    """What the fit left, copied."""
    return {name: copy.deepcopy(value) for name, value in vars(model).items() if name.endswith("_")}


def same_state(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def same(a: Any, b: Any) -> bool:
        return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)

    return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())


def check_a_user_folded_in_is_the_user_fitted(case: Case) -> None:
    model = case.fitted
    before = state_of(model)
    for user in case.users[::8]:
        said = case.answers_of(user)
        updated = model.fold_in(case.lines_of(user, said))
        assert updated.user_ids_ == model.user_ids_
        expected = model.decision_function(user, case.items)
        np.testing.assert_allclose(updated.decision_function(user, case.items), expected, atol=case.tol)
        twin, drawn = (model.fold_in(case.lines_of("a twin", said), prior=p) for p in ("fit", "users"))
        assert twin.user_ids_ == (*model.user_ids_, "a twin")
        np.testing.assert_array_equal(twin.user_factors_[:-1], model.user_factors_)
        if not case.has_features:
            row = model.user_ids_.index(user)
            np.testing.assert_allclose(twin.user_factors_[-1], updated.user_factors_[row], atol=1e-6)
        assert not set(twin.recommend("a twin").items) & set(said)
        for one in (twin, drawn):
            assert one.explain("a twin", case.items[0]).unexplained == pytest.approx(0.0, abs=1e-6)
    assert same_state(before, state_of(model))


def check_new_answers_replace_old_ones(case: Case) -> None:
    model = case.fitted
    user = next(user for user in case.users if 0 < len(case.answers_of(user)) < len(case.items))
    said = case.answers_of(user)
    old, new = next(iter(said)), next(item for item in case.items if item not in said)
    turned = 1 if case.values == "likes" else int(not said[old])
    changed = model.fold_in(([user, user], [old, new], [turned, 1]))
    expected = {**said, old: turned, new: 1}
    row = changed.user_ids_.index(user)
    mine = changed.answers_.take_rows([row])
    found = {changed.item_ids_[j]: int(y) for j, y in zip(mine.indices, mine.values, strict=True)}
    if case.settings.get("loss") == "logistic":
        found = {item: y for item, y in found.items() if y}  # Where every pair is an answer.
    assert found == {item: int(value > 0) for item, value in expected.items()}
    others = [i for i in range(len(model.user_ids_)) if i != row]
    np.testing.assert_array_equal(changed.user_factors_[others], model.user_factors_[others])
    once = model.fold_in(case.lines_of("x", expected), prior="fit")
    if not case.has_features:
        np.testing.assert_allclose(
            changed.decision_function(user, case.items), once.decision_function("x", case.items), atol=1e-5
        )
    if case.values != "likes":
        grumpy, merry = (model.fold_in((["x"] * 5, case.items[:5], [value] * 5)) for value in (0, 1))
        means = [one.decision_function("x", case.items).mean() for one in (grumpy, merry)]
        assert means[0] < means[1]


def check_new_items_and_users_together(case: Case) -> None:
    model = case.fitted
    before = state_of(model)
    fans, foes = case.users[:4], case.users[4:8]
    lines = [(user, name, 1) for user in fans for name in ("loved", "split")] + [("new", case.items[0], 1)]
    new_items = ("loved", "split")
    if case.values != "likes":
        lines += [(user, name, 0) for user in foes for name in ("hated", "split")]
        new_items = ("loved", "split", "hated")
    grown = model.fold_in(tuple(map(list, zip(*lines, strict=True))))
    assert grown.item_ids_ == (*model.item_ids_, *new_items)
    assert grown.user_ids_ == (*model.user_ids_, "new")
    assert grown.answers_.shape == (len(grown.user_ids_), len(grown.item_ids_))
    np.testing.assert_array_equal(grown.user_factors_[:-1], model.user_factors_)
    np.testing.assert_array_equal(grown.item_factors_[: len(case.items)], model.item_factors_)
    everyone = list(grown.user_ids_)
    if case.values != "likes":
        loved, hated = (grown.decision_function(everyone, item).mean() for item in ("loved", "hated"))
        assert loved > hated
        split = grown.predict_proba([*fans, *foes], "split")
        assert split[:4].mean() > split[4:].mean()
    assert not set(grown.recommend(fans[0], n=10**3).items) & {"loved", "split"}
    assert "loved" in grown.recommend("new", n=10**3).items
    assert len(grown.recommend_batch(n=2)) == len(everyone)
    assert set(grown.decide()) == set(everyone)
    assert np.isfinite(grown.score(case.answers))
    assert grown.explain("new", "split").unexplained == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(LabelgapError, match="Neither the user 'x' nor the item 'y' is known"):
        model.fold_in((["x"], ["y"], [1]))
    with pytest.raises(LabelgapError, match="nothing to fold in"):
        model.fold_in()
    assert same_state(before, state_of(model))


CHECKS: list[Callable[[Case], None]] = [
    check for name, check in sorted(globals().items()) if name.startswith("check_")
]


def _everything(model: Any, likes_alone: bool, n: int, n_items: int, n_answers: int) -> None:
    """A fit to random answers, and everything that looks at all pairs."""
    rng = np.random.RandomState(0)
    pairs = rng.permutation(np.unique(rng.randint(0, n * n_items, n_answers)))
    values = np.ones(len(pairs), dtype=int) if likes_alone else rng.randint(0, 2, len(pairs))
    with warnings.catch_warnings():
        # Random ratings may rank worse than popularity.
        warnings.simplefilter("ignore", LabelgapWarning)
        model.fit((pairs // n_items, pairs % n_items, values))
        # A rare yes, so that the answer itself is small.
        model.threshold_ = float(model.recommend_batch(n=1, exclude_seen=False).scores.max()) - 1e-9
        model.recommend_batch(n=3, diversity=0.3, exclude=[model.item_ids_[1]])
        model.decide()
        model.decide_matrix()
        model.evaluate_ranking((pairs[::-1] // n_items, pairs % n_items))
        model.fold_in((["new"], [model.item_ids_[0]], [1])).recommend("new")


def makes_no_array_of_users_by_items(case: Case, part: float) -> None:
    """All that a recommender does takes less memory than this part of one array of all pairs."""
    n, n_items = 2000, 4000
    model, likes_alone = case.make(trace_penalty=0.05, tol=0.1, rank=20), case.values == "likes"
    # Compiling takes memory of its own.
    _everything(model, likes_alone, 100, 90, 800)
    tracemalloc.start()
    try:
        _everything(model, likes_alone, n, n_items, 8_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = n * n_items * 8
    assert peak < part * size, f"{peak / 1e6:.0f} MB where one array of users x items takes {size / 1e6:.0f}"
