"""What every recommender must do, whatever it is fitted by.

``check_recommender(make, answers)`` fits ``make()`` to answers ``(users, items, values)`` and runs every
check; ``CHECKS`` lists them, to be run one by one by a parametrised test.
"""

from __future__ import annotations

import copy
import pickle
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from labelgap.exceptions import LabelgapError, LabelgapWarning
from labelgap.recommending.ratings import read_ratings

Triplets = tuple[list[Any], list[Any], list[Any]]


@dataclass
class Case:
    """A recommender, what it is fitted to, and how exactly a fit can be repeated in another order.

    ``tol`` is a difference of scores that two fits of the same problem may have.
    """

    make: Callable[[], Any]
    answers: Triplets
    tol: float = 1e-6
    pairs: list[tuple[Any, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.users = list(dict.fromkeys(self.answers[0]))
        self.items = list(dict.fromkeys(self.answers[1]))
        self.pairs = [(user, item) for user in self.users for item in self.items]

    @cached_property
    def fitted(self) -> Any:
        """One fit for all checks that only look."""
        return self.make().fit(self.answers)

    def answers_of(self, user: Any) -> dict[Any, int]:
        return {item: value for who, item, value in zip(*self.answers, strict=True) if who == user}

    def scores(self, model: Any) -> Any:
        """Scores of all pairs, users x items, in the order of this case."""
        users, items = zip(*self.pairs, strict=True)
        return model.decision_function(list(users), list(items)).reshape(len(self.users), len(self.items))


def awkward_ids(count: int, stem: str) -> list[Any]:
    """Ids of several types, none of them a number from 0 to count - 1 in order."""
    kinds: list[Callable[[int], Any]] = [
        lambda i: f"{stem} {i}",
        lambda i: (stem, i),
        lambda i: 1_000_003 * i - 17,
        lambda i: (i, (stem,)),
        lambda i: frozenset({stem, str(i)}),
    ]
    return [kinds[i % len(kinds)](i) for i in range(count)]


def example_answers(
    n: int = 40, n_items: int = 24, observed: float = 0.5, seed: int = 0, awkward: bool = True
) -> Triplets:
    """Likes and dislikes of a low-rank truth, in random order; the last user has answered everything."""
    rng = np.random.RandomState(seed)
    truth = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items)) + 0.5 * rng.standard_normal(
        n_items
    )
    seen = rng.uniform(size=truth.shape) < observed
    seen[-1] = True
    rows, cols = np.nonzero(seen)
    order = rng.permutation(len(rows))
    users = awkward_ids(n, "user") if awkward else list(range(n))
    items = awkward_ids(n_items, "film") if awkward else list(range(n_items))
    values = (truth + 0.7 * rng.standard_normal(truth.shape) > 0)[rows, cols].astype(int)
    return (
        [users[rows[e]] for e in order],
        [items[cols[e]] for e in order],
        [int(values[e]) for e in order],
    )


def brute_force(case: Case, user: Any, exclude_seen: bool) -> list[tuple[Any, float]]:
    """All items of a user by score, then by their order in the model."""
    model = case.fitted
    scores = model.decision_function(user, list(model.item_ids_))
    left_out = case.answers_of(user) if exclude_seen else {}
    kept = [(item, float(z)) for item, z in zip(model.item_ids_, scores, strict=True) if item not in left_out]
    return sorted(kept, key=lambda pair: -pair[1])  # Stable: equal scores stay in order.


# -- pairs -------------------------------------------------------------------------------------------------


def check_predictions_are_scores_above_the_threshold(case: Case) -> None:
    model = case.fitted
    users, items, _ = case.answers
    scores = model.decision_function(users, items)
    assert scores.shape == (len(users),)
    np.testing.assert_array_equal(model.predict(users, items), scores >= model.threshold_)
    factors = model.user_factors_ @ model.item_factors_.T + model.item_intercept_
    rows = [model.user_ids_.index(user) for user in users]
    columns = [model.item_ids_.index(item) for item in items]
    np.testing.assert_allclose(scores, factors[rows, columns], rtol=1e-9, atol=1e-12)


def check_probabilities_rise_with_scores(case: Case) -> None:
    model = case.fitted
    users, items = (list(side) for side in zip(*case.pairs, strict=True))
    scores, probabilities = model.decision_function(users, items), model.predict_proba(users, items)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert (np.diff(probabilities[np.argsort(scores)]) >= 0).all()
    assert 0 <= model.threshold_probability_ <= 1


def check_single_ids_and_frames(case: Case) -> None:
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


def check_cold_pairs_are_refused(case: Case) -> None:
    model, nobody = case.fitted, ("nobody", -1)
    for call in (
        lambda: model.predict(case.users[0], ["no such item"]),
        lambda: model.predict([nobody], [case.items[0]]),
        lambda: model.recommend(nobody),
        lambda: model.recommend_batch([nobody]),
        lambda: model.decide(["no such user"]),
        lambda: model.similar_items("no such item"),
        lambda: model.explain(nobody, case.items[0]),
        lambda: model.score(([case.users[0]], ["no such item"], [1])),
    ):
        with pytest.raises(KeyError, match=r"no.* is not among the \d+ .* known.*fold_in") as caught:
            call()
        assert isinstance(caught.value, LabelgapError)


def check_score_is_the_metric_over_the_answers(case: Case) -> None:
    model = case.fitted
    part = tuple(side[::3] for side in case.answers)
    labels = read_ratings(part)
    decisions = [
        model.predict(labels.row_names[i], labels.label_names[j])
        for i, j in zip(labels.rows, labels.cols, strict=True)
    ]
    assert model.score(part) == pytest.approx(model.metric_(labels, np.array(decisions)))
    frame = pandas.DataFrame(dict(zip(("user", "item", "value"), part, strict=True)), dtype=object)
    assert model.score(frame) == model.score(part)


# -- best items --------------------------------------------------------------------------------------------


def check_recommendations_are_the_best_unseen(case: Case) -> None:
    model = case.fitted
    for exclude_seen in (True, False):
        for user in case.users:
            best = brute_force(case, user, exclude_seen)
            for n in (1, 5, len(case.items) + 3):
                found = model.recommend(user, n=n, exclude_seen=exclude_seen)
                assert list(zip(found.items, found.scores, strict=True)) == best[:n]
                np.testing.assert_array_equal(found.decisions, found.scores >= model.threshold_)
            if len(found):
                expected = model.predict_proba(user, list(found.items))
                np.testing.assert_array_equal(found.probabilities, expected)
    some = next(user for user in case.users if len(case.answers_of(user)) < len(case.items))
    assert not set(model.recommend(some).items) & set(case.answers_of(some))


def check_a_batch_is_many_single_ones(case: Case) -> None:
    model = case.fitted
    n = len(case.items)
    together = model.recommend_batch(n=n)
    assert together.items.shape == together.scores.shape == (len(case.users), n)
    for row, user in enumerate(model.user_ids_):
        alone = model.recommend(user, n=n)
        count = len(alone)
        for name in ("items", "scores", "probabilities", "decisions"):
            assert getattr(together, name)[row, :count].tolist() == getattr(alone, name).tolist()
        assert all(item is None for item in together.items[row, count:])
        assert np.isnan(together.scores[row, count:]).all()
        assert not together.decisions[row, count:].any()
    some = [case.users[3], case.users[0], case.users[3]]
    chosen = model.recommend_batch(some, n=4)
    for row, user in enumerate(some):
        alone = model.recommend(user, n=4)
        assert chosen.items[row, : len(alone)].tolist() == alone.items.tolist()


def check_decisions_are_all_scores_above_the_threshold(case: Case) -> None:
    model = case.fitted
    for exclude_seen in (False, True):
        decided = model.decide(exclude_seen=exclude_seen)
        assert list(decided) == list(model.user_ids_)
        for user in case.users:
            best = brute_force(case, user, exclude_seen)
            assert decided[user] == [item for item, score in best if score >= model.threshold_]
    some = [case.users[5], case.users[2]]
    decided = model.decide()
    assert model.decide(some) == {user: decided[user] for user in some}
    matrix = model.decide_matrix()
    assert matrix.shape == (len(case.users), len(case.items))
    assert matrix.has_sorted_indices
    for row, user in enumerate(model.user_ids_):
        yes = {model.item_ids_[j] for j in matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]}
        assert yes == set(decided[user])
    assert (model.decide_matrix(some).toarray()[1] == matrix.toarray()[model.user_ids_.index(some[1])]).all()


def check_neighbours_are_by_cosine(case: Case) -> None:
    model = case.fitted
    factors, numbers = model.user_factors_, {user: row for row, user in enumerate(model.user_ids_)}
    for user in case.users[:5]:
        found = model.similar_users(user, n=len(case.users) + 5)
        assert set(found.ids) == set(case.users) - {user}
        assert (np.diff(found.similarities) <= 0).all()
        for other, similarity in zip(found.ids, found.similarities, strict=True):
            u, v = factors[numbers[user]], factors[numbers[other]]
            size = np.linalg.norm(u) * np.linalg.norm(v)
            assert similarity == pytest.approx(u @ v / size if size else 0.0, abs=1e-12)
        assert model.similar_users(user, n=3).ids == found.ids[:3]
    item = case.items[0]
    near = model.similar_items(item, n=4)
    assert len(near.ids) == 4
    assert item not in near.ids
    assert (np.abs(near.similarities) <= 1).all()


def check_explanations_add_up(case: Case) -> None:
    model = case.fitted
    for user, item in case.pairs[:: max(1, len(case.pairs) // 40)]:
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
            assert part.answer == said.get(part.item)
        assert repr(item) in str(why)
        everything = model.explain(user, item, n=10**6)
        assert (everything.n_other_answers, everything.other_answers) == (0, 0.0)


# -- the fit -----------------------------------------------------------------------------------------------


def check_the_order_of_lines_does_not_matter(case: Case) -> None:
    order = np.random.RandomState(7).permutation(len(case.answers[0]))
    shuffled = tuple([side[e] for e in order] for side in case.answers)
    again = case.make().fit(shuffled)
    np.testing.assert_allclose(case.scores(again), case.scores(case.fitted), atol=case.tol)


def check_what_ids_are_does_not_matter(case: Case) -> None:
    number = {user: 10 * row + 3 for row, user in enumerate(case.users)}
    name = {item: f"item-{column}" for column, item in enumerate(case.items)}
    users, items, values = case.answers
    renamed = case.make().fit(([number[user] for user in users], [name[item] for item in items], values))
    assert renamed.user_ids_ == tuple(number[user] for user in case.fitted.user_ids_)
    np.testing.assert_array_equal(renamed.user_factors_, case.fitted.user_factors_)
    np.testing.assert_array_equal(renamed.item_factors_, case.fitted.item_factors_)
    assert renamed.threshold_ == case.fitted.threshold_


def check_a_fit_can_be_repeated(case: Case) -> None:
    model = case.make()
    before = model.get_params()
    model.fit(case.answers)
    assert model.get_params() == before
    for other in (case.make().fit(case.answers), clone(model).fit(case.answers)):
        for name in ("user_factors_", "item_factors_", "item_intercept_", "threshold_"):
            np.testing.assert_array_equal(getattr(other, name), getattr(model, name))
    with pytest.raises(NotFittedError, match="not fitted"):
        clone(model).recommend(case.users[0])
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.recommend(case.users[0]).items.tolist() == model.recommend(case.users[0]).items.tolist()


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
    for user in case.users[::6]:
        said = case.answers_of(user)
        row = model.user_ids_.index(user)
        size = max(1.0, float(np.abs(model.user_factors_).max()))
        updated = model.fold_in(([user] * len(said), list(said), list(said.values())))
        assert updated.user_ids_ == model.user_ids_
        np.testing.assert_allclose(updated.user_factors_[row], model.user_factors_[row], atol=case.tol * size)
        twin = model.fold_in((["a twin"] * len(said), list(said), list(said.values())), prior="fit")
        assert twin.user_ids_ == (*model.user_ids_, "a twin")
        np.testing.assert_array_equal(twin.user_factors_[:-1], model.user_factors_)
        if not np.any(model.user_prior_[row]):
            np.testing.assert_allclose(twin.user_factors_[-1], updated.user_factors_[row], atol=1e-7 * size)
        assert not set(twin.recommend("a twin").items) & set(said)
        drawn = model.fold_in((["a twin"] * len(said), list(said), list(said.values())))
        for one in (twin, drawn):
            assert one.explain("a twin", case.items[0]).unexplained == pytest.approx(0.0, abs=1e-6)
    assert same_state(before, state_of(model))


def check_new_answers_replace_old_ones(case: Case) -> None:
    model = case.fitted
    user = next(user for user in case.users if 0 < len(case.answers_of(user)) < len(case.items))
    said = case.answers_of(user)
    old = next(iter(said))
    new = next(item for item in case.items if item not in said)
    changed = model.fold_in(([user, user], [old, new], [1 - said[old], 1]))
    expected = {**said, old: 1 - said[old], new: 1}
    row = changed.user_ids_.index(user)
    mine = changed.answers_.take_rows([row])
    found = {changed.item_ids_[j]: int(y) for j, y in zip(mine.indices, mine.values, strict=True)}
    assert found == expected
    others = [i for i in range(len(model.user_ids_)) if i != row]
    np.testing.assert_array_equal(changed.user_factors_[others], model.user_factors_[others])
    once = model.fold_in((["x"] * len(expected), list(expected), list(expected.values())), prior="fit")
    if not np.any(model.user_prior_[row]):
        np.testing.assert_allclose(
            changed.decision_function(user, case.items), once.decision_function("x", case.items), atol=1e-6
        )
    grumpy = model.fold_in((["x"] * 5, case.items[:5], [0] * 5))
    merry = model.fold_in((["x"] * 5, case.items[:5], [1] * 5))
    assert grumpy.decision_function("x", case.items).mean() < merry.decision_function("x", case.items).mean()


def check_new_items_and_users_together(case: Case) -> None:
    model = case.fitted
    before = state_of(model)
    fans, foes = case.users[:4], case.users[4:8]
    users = [*fans, *foes, *fans, *foes, "new"]
    items = ["loved"] * 4 + ["hated"] * 4 + ["split"] * 8 + [case.items[0]]
    grown = model.fold_in((users, items, [1] * 4 + [0] * 4 + [1] * 4 + [0] * 4 + [1]))
    assert grown.item_ids_ == (*model.item_ids_, "loved", "hated", "split")
    assert grown.user_ids_ == (*model.user_ids_, "new")
    assert grown.answers_.shape == (len(grown.user_ids_), len(grown.item_ids_))
    assert grown.answers_.n_observed == model.answers_.n_observed + len(users)
    np.testing.assert_array_equal(grown.user_factors_[:-1], model.user_factors_)
    np.testing.assert_array_equal(grown.item_factors_[:-3], model.item_factors_)
    everyone = list(grown.user_ids_)
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


# -- memory ------------------------------------------------------------------------------------------------


def check_no_array_of_users_by_items(case: Case) -> None:
    n, n_items, n_answers = 2500, 4000, 15_000
    rng = np.random.RandomState(0)
    pairs = rng.choice(n * n_items, n_answers, replace=False)
    values = rng.randint(0, 2, n_answers)
    model = case.make()
    limit = n * n_items * 8 / 3
    tracemalloc.start()
    try:
        model.fit((pairs // n_items, pairs % n_items, values))
        # A rare yes, so that the answer itself is small.
        model = copy.copy(model)
        model.threshold_ = float(model.recommend_batch(n=1, exclude_seen=False).scores.max()) - 1e-9
        model.recommend_batch(n=3)
        model.recommend_batch(n=3, diversity=0.3, exclude=[model.item_ids_[1]])
        model.decide()
        model.decide_matrix()
        with warnings.catch_warnings():
            # Random ratings may rank worse than popularity.
            warnings.simplefilter("ignore", LabelgapWarning)
            model.evaluate_ranking((pairs[::-1] // n_items, pairs % n_items))
        known = model.item_ids_[0]
        model.fold_in((["new"], [known], [1])).recommend("new")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, (
        f"{peak / 1e6:.0f} MB where one array of users x items takes {n * n_items * 8 / 1e6:.0f}"
    )


CHECKS: list[Callable[[Case], None]] = [
    check for name, check in sorted(globals().items()) if name.startswith("check_")
]


def check_recommender(make: Callable[[], Any], answers: Triplets, *, tol: float = 1e-6) -> None:
    """Every check of the suite, on one recommender.

    ``make()`` gives an unfitted recommender; answers are likes and dislikes as three lists; ``tol`` is how
    far scores of two fits of the same answers in another order may differ.
    """
    case = Case(make, answers, tol)
    for check in CHECKS:
        check(case)
