"""Lists in closed form, as a Recommender makes them, against the formulas in dense arrays."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from labelgap import Recommender
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapError, LabelgapWarning
from labelgap.kernels.threads import limit_threads
from labelgap.recommending.closed_form.choice import ranking_plan
from labelgap.recommending.closed_form.settings import ListSettings

# λ and the settings are given, and the fit goes to the last digits.
GIVEN: dict[str, Any] = {"unobserved": "negative", "threshold": "train", "random_state": 0, "tol": 1e-9}
GIVEN |= {"trace_penalty": 0.3, "count_powers": (0.25, 0.5)}


def ratings(n: int = 25, n_items: int = 14, seed: int = 0, density: float = 1.1) -> Any:
    """(users, items, values) of users who choose what they like; the values are from 1 to 9."""
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal((n, 3)) @ rng.standard_normal((3, n_items))
    users, items = np.nonzero(taste + rng.gumbel(size=taste.shape) > density)
    values = np.clip(np.round(5 + 2 * taste[users, items] + rng.standard_normal(len(users))), 1, 9)
    order = rng.permutation(len(users))
    return users[order].tolist(), [f"i{item}" for item in items[order]], values[order]


def part_of(given: Any, chosen: np.ndarray) -> Any:
    return tuple(np.array(part, dtype=object)[chosen].tolist() for part in given)


def standardised(rows: Any) -> np.ndarray:
    rows = np.asarray(rows, dtype=float)
    return (rows - rows.mean(axis=0)) / (rows.std(axis=0) * np.sqrt(len(rows)))


@dataclass
class Dense:
    """``½‖R − M‖_F² + λ‖M‖_*`` with ``R = D_u^(−a) X D_i^(−b)`` and what follows from it, entry by entry."""

    X: np.ndarray
    """Entries: 1 or ``(v/v̄)^p`` for a like, the value of a dislike, each with its decay."""
    penalty: float
    powers: tuple[float, float] = (0.25, 0.5)
    leaves_one_out: bool = False
    parts: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        _n, n_items = self.X.shape
        counts = [np.abs(self.X).sum(axis=axis) for axis in (1, 0)]
        self.Du, self.Di = (
            np.where(count > 0, count, 1.0) ** p for count, p in zip(counts, self.powers, strict=True)
        )
        R = self.X / self.Du[:, None] / self.Di
        self.R = R
        self.U, self.values, Vt = np.linalg.svd(self.R, full_matrices=False)
        lowered = np.maximum(self.values - self.penalty, 0.0)
        self.least = 0.5 * np.sum((self.values - lowered) ** 2) + self.penalty * lowered.sum()
        self.V, self.kept = Vt.T, lowered / np.where(self.values > 0, self.values, 1.0)
        self.between = (self.V * self.kept) @ Vt
        own = np.diag(self.between) if self.leaves_one_out else np.zeros(n_items)
        self.others = 1.0 - own
        M = self.R @ self.between
        self.scores = 2.0 * self.Du[:, None] * M * self.Di / self.others - 1.0

    def part(self, user: int, item: int, target: int) -> float:
        """What the rating of an item adds to the score of another."""
        between = self.between[item, target] / self.Di[item] * self.Di[target] / self.others[target]
        return 2.0 * self.X[user, item] * between


def matrix(
    model: Recommender, given: Any, *, positive: float = 5.0, dislike: float = 0.0, power: float = 0.0
):
    X = np.zeros((len(model.user_ids_), len(model.item_ids_)))
    likes = [value for value in given[2] if value >= positive]
    for user, item, value in zip(*given[:3], strict=True):
        entry = (value / np.mean(likes)) ** power if value >= positive else dislike
        X[model.user_ids_.index(user), model.item_ids_.index(item)] = entry
    return X


def scores_of(model: Recommender) -> np.ndarray:
    return np.array([model.decision_function(user, list(model.item_ids_)) for user in model.user_ids_])


def rank_of(dense: Dense) -> int:
    return int(np.sum(dense.values > dense.penalty))


SETTINGS: dict[str, dict[str, Any]] = {
    "likes": {},
    "no powers": {"count_powers": (0.0, 0.0)},
    "both powers": {"count_powers": (0.5, 0.5), "leave_one_out": True},
    "other powers": {"count_powers": (1.0, 0.1), "leave_one_out": True, "trace_penalty": 0.02},
    "dislikes": {"dislike_value": 0.5},
    "dislikes below silence": {"dislike_value": -0.7, "leave_one_out": True},
    "values": {"value_power": 1.0},
    "all": {"value_power": 0.5, "dislike_value": 0.25, "leave_one_out": True, "trace_penalty": 0.1},
}
SHAPES = {"tall": (25, 14), "wide": (14, 25)}


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> tuple[int, int]:
    return SHAPES[request.param]


def fitted(given: Any, settings: dict[str, Any], **features: Any) -> tuple[Recommender, Dense]:
    """A fit, and the same in dense arrays."""
    options = GIVEN | settings
    model = Recommender(positive=5, **options).fit(given, **features)
    names = {"dislike": "dislike_value", "power": "value_power"}
    X = matrix(model, given, **{short: options.get(name, 0.0) for short, name in names.items()})
    loo = options.get("leave_one_out", False)
    return model, Dense(X, options["trace_penalty"], options["count_powers"], loo)


@pytest.mark.parametrize("name", SETTINGS)
def test_scores_and_certificate_are_those_of_the_dense_formula(name: str, shape: tuple[int, int]) -> None:
    model, dense = fitted(ratings(*shape), SETTINGS[name])
    np.testing.assert_allclose(scores_of(model), dense.scores, atol=1e-6 * np.abs(dense.scores).max())
    assert model.objective_ == pytest.approx(dense.least, rel=1e-9)
    assert 0 <= model.objective_ - dense.least + 1e-9 <= model.duality_gap_ + 2e-9
    assert model.rank_ == rank_of(dense)
    np.testing.assert_allclose(model.singular_values_, (dense.values - dense.penalty)[: model.rank_])
    used = dict(zip(("user_power", "item_power"), dense.powers, strict=True), **SETTINGS[name])
    used = {key: value for key, value in used.items() if key in ListSettings._fields}
    assert model.list_settings_ == ListSettings()._replace(**used)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_score_is_the_sum_of_what_the_users_ratings_add(name: str, shape: tuple[int, int]) -> None:
    model, dense = fitted(ratings(*shape), SETTINGS[name])
    for user, target in ((0, 0), (3, 5), (7, 11)):
        why = model.explain(model.user_ids_[user], model.item_ids_[target], n=99)
        found = {part.item: part.contribution for part in why.contributions}
        rated = [model.item_ids_[item] for item in model.answers_.take_rows([user]).indices]
        assert sorted(found) == sorted(rated)
        for item, part in found.items():
            number = model.item_ids_.index(item)
            assert part == pytest.approx(
                dense.part(user, number, target), abs=1e-6 * np.abs(dense.scores).max()
            )
        assert why.score == pytest.approx(-1.0 + sum(found.values()))
        assert (why.unexplained, why.from_features) == pytest.approx((0.0, 0.0), abs=1e-12)
        shown = model.explain(model.user_ids_[user], model.item_ids_[target], n=1)
        assert shown.contributions[0].contribution + shown.other_answers == pytest.approx(sum(found.values()))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_new_user_with_the_ratings_of_a_known_one_has_the_same_scores(
    name: str, shape: tuple[int, int]
) -> None:
    given = ratings(*shape)
    model, _ = fitted(given, SETTINGS[name])
    theirs = np.array(given[0]) == 4
    later = model.fold_in((["twin"] * theirs.sum(), *part_of(given, theirs)[1:]))
    items = list(model.item_ids_)
    np.testing.assert_allclose(
        later.decision_function("twin", items), model.decision_function(4, items), atol=1e-9
    )
    np.testing.assert_array_equal(scores_of(later)[:-1], scores_of(model))
    # Of a known one nothing changes where nothing new is said.
    again = model.fold_in(part_of(given, theirs))
    np.testing.assert_allclose(scores_of(again), scores_of(model), atol=1e-9)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_new_item_gets_the_right_vector_of_its_ratings(name: str, shape: tuple[int, int]) -> None:
    given, options = ratings(*shape), GIVEN | SETTINGS[name]
    model, dense = fitted(given, SETTINGS[name])
    more = ([1, 2, 5, 9], ["new"] * 4, [8, 6, 9, 2])
    later = model.fold_in(more)
    likes = [value for value in given[2] if value >= 5]
    x = np.zeros(len(model.user_ids_))
    for user, _, value in zip(*more, strict=True):
        entry = (value / np.mean(likes)) ** options.get("value_power", 0.0)
        x[model.user_ids_.index(user)] = entry if value >= 5 else options.get("dislike_value", 0.0)
    a, b = dense.powers
    Du, di = (np.abs(dense.X).sum(axis=1) + np.abs(x)) ** a, np.abs(x).sum() ** b
    rank, n_items = rank_of(dense), dense.X.shape[1]
    # With the counts that there are now, a row of R V is what it was but for its length.
    image = dense.X / Du[:, None] / dense.Di @ dense.V[:n_items, :rank]
    right = (x / Du / di) @ image / dense.values[:rank] ** 2
    own = np.sum(right**2 * dense.kept[:rank]) if options.get("leave_one_out") else 0.0
    own = min(own, dense.kept[0])
    row = dense.X / dense.Di @ dense.V[:n_items, :rank]
    expected = 2.0 * (row * dense.kept[:rank]) @ right * di / (1.0 - own) - 1.0
    found = later.decision_function(list(model.user_ids_), "new")
    unmoved = x == 0
    np.testing.assert_allclose(found[unmoved], expected[unmoved], atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(scores_of(later)[:, :-1], scores_of(model))


# -- features, times and more ratings


def features_of(ids: Any, columns: int, seed: int) -> dict[Any, list[float]]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(columns).tolist() for name in ids}


def by_ridge(features: np.ndarray, vectors: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Vectors by features, where the penalty is best for vectors that are left out one at a time."""

    def coefficients(rows: np.ndarray, penalty: float) -> np.ndarray:
        F = features[rows]
        return np.linalg.solve(F.T @ F + penalty * np.eye(F.shape[1]), F.T @ vectors[rows])

    def missed(penalty: float) -> float:
        each = (features[i] @ coefficients(known[known != i], penalty) - vectors[i] for i in known)
        return sum(float(np.sum(lost**2)) for lost in each)

    return features @ coefficients(known, min(10.0 ** np.arange(-3.0, 2.5, 0.5), key=missed))


@pytest.mark.parametrize("name", ["likes", "dislikes below silence", "all"])
def test_features_place_users_and_items_without_ratings(name: str, shape: tuple[int, int]) -> None:
    given, (n, n_items) = ratings(*shape), shape
    sets = {
        "user_features": features_of([*range(n), "u cold", "u colder"], 3, 1),
        "item_features": features_of([*(f"i{j}" for j in range(n_items)), "i cold", "i colder"], 2, 2),
    }
    with warnings.catch_warnings():
        # Items without ratings.
        warnings.simplefilter("ignore", LabelgapWarning)
        model, dense = fitted(given, SETTINGS[name], **sets)
    users, items = list(model.user_ids_), list(model.item_ids_)
    tight = 1e-6 * np.abs(dense.scores).max()
    np.testing.assert_allclose(scores_of(model)[:n, :n_items], dense.scores[:n, :n_items], atol=tight)
    above, known = dense.values > dense.penalty, np.flatnonzero(np.abs(dense.X).sum(axis=0))
    V, lowered, kept = dense.V[:, above], (dense.values - dense.penalty)[above], dense.kept[above]
    F = standardised([sets["item_features"][item] for item in items])
    cold = by_ridge(F, V * lowered, known)[n_items:] / lowered
    left = 2.0 * dense.X / dense.Di @ V * kept
    np.testing.assert_allclose(scores_of(model)[:n, n_items:], left[:n] @ cold.T - 1.0, atol=tight)
    G = standardised([sets["user_features"][user] for user in users])
    cold_users = by_ridge(G, left, np.flatnonzero(np.abs(dense.X).sum(axis=1)))[n:]
    right = (V * (dense.Di / dense.others)[:, None])[:n_items]
    np.testing.assert_allclose(scores_of(model)[n:, :n_items], cold_users @ right.T - 1.0, atol=tight)
    why = model.explain("u cold", items[0])
    assert why.from_features == pytest.approx(why.score + 1.0) != 0.0
    twins = model.fold_in(
        user_features={"twin": sets["user_features"]["u cold"]},
        item_features={"twin": sets["item_features"]["i cold"]},
    )
    for user, item, like in (
        ("twin", items[0], ("u cold", items[0])),
        (users[0], "twin", (users[0], "i cold")),
    ):
        assert twins.decision_function(user, item) == pytest.approx(model.decision_function(*like), abs=tight)


def test_features_stand_for_ratings_that_count_nothing() -> None:
    users, items, values = ratings()
    # Of the value 0, the dislikes of a user with nothing else say no more than silence.
    values[np.array(users) == 4] = 1
    rows = features_of(range(25), 3, 1)
    model = Recommender(positive=5, **GIVEN).fit((users, items, values), user_features=rows)
    theirs = np.array(users) == 4
    more = (["twin"] * theirs.sum(), *part_of((items, values), theirs))
    later, names = model.fold_in(more, user_features={"twin": rows[4]}), list(model.item_ids_)
    known = model.decision_function(4, names)
    assert np.ptp(known) > 1e-3
    np.testing.assert_allclose(later.decision_function("twin", names), known, atol=1e-9)


def test_ratings_lose_their_weight_with_time() -> None:
    users, items, values = ratings()
    times = np.random.default_rng(5).integers(0, 40, len(users))
    model = Recommender(positive=5, half_life=10.0, **GIVEN | SETTINGS["all"])
    model.fit((users, items, values, times))
    X = matrix(model, (users, items, values), dislike=0.25, power=0.5)
    for user, item, age in zip(users, items, times.max() - times, strict=True):
        X[model.user_ids_.index(user), model.item_ids_.index(item)] *= 0.5 ** (age / 10.0)
    dense = Dense(X, 0.1, leaves_one_out=True)
    np.testing.assert_allclose(scores_of(model), dense.scores, atol=1e-6)
    theirs = np.array(users) == 4
    later = model.fold_in((["twin"] * theirs.sum(), *part_of((items, values, times), theirs)))
    names = list(model.item_ids_)
    np.testing.assert_allclose(
        later.decision_function("twin", names), model.decision_function(4, names), atol=1e-9
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_partial_fit_reaches_what_a_fit_to_all_ratings_gives(name: str, shape: tuple[int, int]) -> None:
    given = ratings(*shape)
    # The last users and items are new.
    first = np.random.default_rng(3).random(len(given[0])) < 0.7
    first &= (np.array(given[0]) < shape[0] - 3) & (np.array(given[1]) != "i7")
    options = {"positive": 5, **GIVEN, **SETTINGS[name]}
    with warnings.catch_warnings():
        # The second batch has other users than the first.
        warnings.simplefilter("ignore", LabelgapWarning)
        model = Recommender(**options).fit(part_of(given, first)).partial_fit(part_of(given, ~first))
    whole, dense = fitted(given, SETTINGS[name])
    for user in whole.user_ids_:
        np.testing.assert_allclose(
            model.decision_function(user, list(whole.item_ids_)),
            whole.decision_function(user, list(whole.item_ids_)),
            atol=1e-6 * np.abs(dense.scores).max(),
        )
    assert model.objective_ == pytest.approx(dense.least, rel=1e-9)
    assert model.objective_ - dense.least <= model.duality_gap_ + 1e-9
    assert model.batches_[-1].added == int(np.sum(~first))


def test_settings_that_were_chosen_stay_when_more_is_learned() -> None:
    given = ratings(60, 30)
    first = np.random.default_rng(3).random(len(given[0])) < 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        model = Recommender(positive=5, unobserved="negative", random_state=0).fit(part_of(given, first))
        before = model.list_settings_, model.trace_penalty_, model.threshold_
        model.partial_fit(part_of(given, ~first))
    assert (model.list_settings_, model.trace_penalty_, model.threshold_) == before
    powers, loo = model.list_settings_[:2], model.list_settings_.leave_one_out
    options = {"dislike": model.list_settings_.dislike_value, "power": model.list_settings_.value_power}
    mean = model.mean_like_
    assert mean == pytest.approx(np.mean([value for value in given[2] if value >= 5]))
    dense = Dense(matrix(model, given, **options), model.trace_penalty_, powers, loo)
    assert model.objective_ - dense.least <= model.duality_gap_ + 1e-9
    np.testing.assert_allclose(scores_of(model), dense.scores, atol=0.02)


# -- the choice


def ndcg_at_20(scores: np.ndarray, seen: np.ndarray, held: np.ndarray) -> float:
    """Of one user; of equals the held-out one is the last."""
    places = [1 + np.sum(scores[~seen] >= scores[item]) - 1 for item in np.flatnonzero(held)]
    best = np.sum(1.0 / np.log2(2.0 + np.arange(min(20, len(places)))))
    return sum(1.0 / np.log2(1.0 + place) for place in places if place <= 20) / best


@pytest.mark.parametrize("shape", [(30, 45), (45, 30)], ids=["wide", "tall"])
def test_candidates_are_judged_by_the_ndcg_of_held_out_likes(shape: tuple[int, int]) -> None:
    given = ratings(*shape)
    settings = {"count_powers": (0.5, 0.25), "dislike_value": 0.25, "value_power": 0.5}
    model = Recommender(positive=5, unobserved="negative", random_state=0, **settings).fit(given)
    X = matrix(model, given, dislike=0.25, power=0.5)
    labels = model.answers_
    plan = ranking_plan(labels, "cross-fit", np.random.RandomState(0))
    assert set(plan) == set(range(10))
    folds = [np.zeros(shape, dtype=bool) for _ in range(10)]
    for user, item, fold in zip(labels.rows, labels.indices, plan, strict=True):
        folds[fold][user, item] = True
    liked, rated = labels.to_dense() == 1, X != 0
    largest = [Dense(X * ~out, 1.0, (0.5, 0.25)).values[0] for out in folds]
    assert len(model.candidates_) > 10
    for candidate in model.candidates_:
        assert candidate.lists[:2] == (0.5, 0.25)
        expected = []
        for out, most in zip(folds, largest, strict=True):
            # λ is the same fraction of the largest singular value in each fold.
            penalty = candidate.penalties.trace / np.mean(largest) * most
            dense = Dense(X * ~out, penalty, (0.5, 0.25), candidate.lists.leave_one_out)
            for user in range(shape[0]):
                seen, held = rated[user] & ~out[user], liked[user] & out[user]
                if held.any() and seen.any():
                    expected.append(ndcg_at_20(dense.scores[user], seen, held))
        # Single precision may swap items that are nearly equal.
        assert candidate.metric_value == pytest.approx(np.mean(expected), abs=2e-3)
    chosen = model.candidates_[-1]
    assert model.list_settings_ == chosen.lists
    best = max(c.metric_value for c in model.candidates_ if c.lists == chosen.lists)
    # The largest λ that the best one is not clearly above.
    assert chosen.metric_value > best - 0.05


def taste(n: int, n_items: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Likes by popularity and taste, and which of them are held out."""
    rng = np.random.default_rng(seed)
    wish = 1.5 * rng.standard_normal((n, 3)) @ rng.standard_normal((3, n_items)) + rng.standard_normal(
        n_items
    )
    likes = np.argwhere(wish + rng.gumbel(size=wish.shape) > 3.0)
    return likes, rng.random(len(likes)) < 0.2


@pytest.mark.parametrize("seed", range(2))
def test_its_lists_are_better_than_popularity(seed: int) -> None:
    likes, held = taste(150, 80, seed)
    model = Recommender(unobserved="negative", random_state=0).fit(tuple(likes[~held].T))
    found = model.evaluate_ranking(tuple(likes[held].T), n=20)
    assert found.model.ndcg > found.popularity.ndcg + 0.1
    assert 0.3 < max(c.metric_value for c in model.candidates_) < 1.0


def test_the_same_is_chosen_and_fitted_each_time_whatever_the_threads() -> None:
    likes, _ = taste(300, 200, 0)
    options = {"unobserved": "negative", "count_powers": (0.25, 0.25), "random_state": 3}
    models = []
    for threads in (1, 1, 2):
        with limit_threads(threads):
            models.append(Recommender(**options).fit(tuple(likes.T)))
    for other in models[1:]:
        assert other.list_settings_ == models[0].list_settings_
        assert [c.metric_value for c in other.candidates_] == [c.metric_value for c in models[0].candidates_]
        assert (other.trace_penalty_, other.threshold_) == (models[0].trace_penalty_, models[0].threshold_)
        np.testing.assert_array_equal(other.user_factors_, models[0].user_factors_)
        np.testing.assert_array_equal(other.item_factors_, models[0].item_factors_)


# -- the least and the most

FEW: dict[str, Any] = {
    "16 likes": (
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7],
        [0, 1, 0, 1, 2, 3, 2, 3, 0, 2, 1, 3, 0, 3, 1, 2],
    ),
    "one user": ([0] * 5, [0, 1, 2, 3, 4]),
    "one item": ([0, 1, 2, 3, 4], [0] * 5),
    "one like": ([0], [0]),
    "one like among dislikes": ([0, 0, 1, 1, 2, 2, 3], [0, 1, 0, 1, 1, 2, 2], [1, 0, 0, 0, 0, 0, 0]),
    "everybody likes everything": tuple(np.argwhere(np.ones((8, 6))).T),
    "everybody likes another item": (list(range(70)), list(range(70))),
    "everybody likes two other items": (np.repeat(range(70), 2), list(range(140))),
}


@pytest.mark.parametrize(
    "options", [{}, {"threshold": "holdout"}, {"threshold": "train"}, {"rank": 1}, {"rank": 999}]
)
@pytest.mark.parametrize("name", FEW)
def test_a_few_ratings_are_enough(name: str, options: dict[str, Any]) -> None:
    model = Recommender(unobserved="negative", random_state=0, **options).fit(FEW[name])
    assert 0 < model.rank_ <= min(len(model.user_ids_), len(model.item_ids_), options.get("rank", 999))
    assert np.all(np.isfinite(scores_of(model)))
    assert np.isfinite(model.relative_gap_)
    if not options:
        later = model.fold_in((["new"], [model.item_ids_[0]], [1])).partial_fit((["more"], [0], [1]))
        assert np.all(np.isfinite(scores_of(later)))
        assert len(later.recommend_batch(n=2)) == len(later.user_ids_)
        later.decide()


def test_singular_values_that_are_all_equal_can_be_compared_and_found() -> None:
    # More of them than the first space, and than a block of vectors.
    likes = np.repeat(range(300), 2), np.arange(600)
    model = Recommender(unobserved="negative", count_powers=(0.25, 0.25), random_state=0).fit(likes)
    assert model.rank_ == 300
    assert model.relative_gap_ <= 1e-2
    scores = scores_of(model)
    assert scores[likes].min() > np.sort(scores, axis=1)[:, :-2].max()


def test_a_penalty_above_all_singular_values_leaves_nothing() -> None:
    model, dense = fitted(ratings(), {"trace_penalty": 1e3})
    assert (model.rank_, model.duality_gap_, rank_of(dense)) == (0, 0.0, 0)
    np.testing.assert_array_equal(scores_of(model), -1.0)
    assert model.explain(0, "i1").score == -1.0
    later = model.fold_in(([0, "new", "new"], ["new", "i1", "new"], [9, 9, 9]))
    np.testing.assert_array_equal(scores_of(later), -1.0)
    np.testing.assert_array_equal(scores_of(model.partial_fit((["new"], ["i1"], [9]))), -1.0)


def test_a_penalty_of_next_to_nothing_lowers_nothing(shape: tuple[int, int]) -> None:
    model, dense = fitted(ratings(*shape), {"trace_penalty": 1e-7, "dislike_value": 0.5})
    np.testing.assert_allclose(scores_of(model), 2.0 * dense.X - 1.0, atol=1e-5)
    with pytest.raises(InvalidParameterError, match="both 0"):
        fitted(ratings(*shape), {"trace_penalty": 0})


def test_memory_is_stated_before_it_is_taken(monkeypatch, capsys) -> None:
    rng = np.random.default_rng(0)
    likes = np.nonzero(rng.random((6000, 200)) < 0.05)
    model = Recommender(unobserved="negative", trace_penalty=0.3, threshold="train", verbose=1)
    rank = model.fit(likes).rank_
    assert f"{rank:,} factors of 6,000 users and 200 items: 0.0" in capsys.readouterr().out
    monkeypatch.setattr("labelgap._memory.free_memory", lambda: 10**6)
    with pytest.raises(ValueError, match=r"6,000 users and 200 items would take 0\.0 GB.* Limit .* rank="):
        model.fit(likes)
    assert model.set_params(rank=5).fit(likes).rank_ == 5


def test_a_limited_rank_says_what_it_may_cost(shape: tuple[int, int]) -> None:
    for rank in (1, 3, 500):
        model, dense = fitted(ratings(*shape), {"rank": rank})
        assert model.rank_ == min(rank, rank_of(dense))
        assert model.rank_limited_ == (rank < rank_of(dense))
        excess = model.objective_ - dense.least
        assert excess == pytest.approx(
            0.5 * np.sum((dense.values[model.rank_ : rank_of(dense)] - 0.3) ** 2), abs=1e-6
        )
        assert excess <= model.duality_gap_ + 1e-9


# -- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            (option, f"{next(iter(option))}=.* has no meaning for lists")
            for option in (
                {"ridge_penalty": 0.1},
                {"intercept_penalty": 0.1},
                {"score_bound": 2.0},
                {"user_intercept": True},
                {"count_weighting": 0.5},
                {"solver": "factored"},
                {"max_iter": 5},
            )
        ),
        *(
            ({name: value, "unobserved": meaning}, f"{name} has a meaning only for lists")
            for meaning in ("missing", "unlabelled")
            for name, value in SETTINGS["all"].items()
            if name != "trace_penalty"
        ),
        ({"count_powers": (0.5, 0.5), "loss": "logistic"}, "count_powers is for lists in closed form"),
        ({"weights": "inverse-propensity"}, "propensities"),
        ({"implicit_feedback": True}, "implicit_feedback has a meaning only"),
        ({"flip_rate": 0.1}, "flip_rate"),
        ({"count_powers": 0.5}, "two numbers"),
        ({"count_powers": (0.5, 2.0)}, "from 0 to 1"),
        ({"dislike_value": 1.5}, "from -1 to 1"),
        ({"dislike_value": True}, "from -1 to 1"),
        ({"value_power": -1.0}, "value_power"),
        ({"leave_one_out": "maybe"}, "True, False or 'auto'"),
    ],
    ids=str,
)
def test_a_parameter_without_a_meaning_is_refused(options: dict[str, Any], message: str) -> None:
    likes = part_of(ratings(), ratings()[2] >= 5)[:2]
    with pytest.raises(InvalidParameterError, match=message):
        Recommender(**{"unobserved": "negative"} | options).fit(likes)


def test_ratings_without_a_like_are_refused() -> None:
    with pytest.raises(InvalidLabelsError, match="None of the ratings is a like"):
        Recommender(unobserved="negative", positive=10).fit(ratings())
    model = Recommender(positive=5, **GIVEN).fit(ratings())
    with pytest.raises(LabelgapError, match="Neither the user"):
        model.fold_in((["new"], ["new"], [9]))
