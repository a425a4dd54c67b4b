"""A recommender that goes on learning from more ratings, against fits to all of them at once."""

from __future__ import annotations

import copy
import signal

import numpy as np
import pytest

import labelgap
from labelgap import Recommender
from labelgap.exceptions import (
    DriftWarning,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
)
from labelgap.losses import get_loss
from labelgap.losses.unlabelled import Unlabelled
from labelgap.recommending.progressive import judge_ratings
from recommender_suite import same_state, state_of

N, N_ITEMS = 40, 14
EXACT = {"threshold": "train", "tol": 1e-7, "random_state": 0}
SETTINGS = {
    "decide": {"trace_penalty": 0.01},
    "decide, weighted": {"trace_penalty": 0.01, "count_weighting": 0.75, "intercept_penalty": 1e-3},
    "lists": {
        "unobserved": "negative",
        "trace_penalty": 0.02,
        "silence_weight": 0.2,
        "dislike_weight": 0.5,
        "confidence": 0.3,
        "positive": 1,
        "tol": 1e-4,
    },
    "every pair": {"unobserved": "negative", "loss": "logistic", "trace_penalty": 0.01, "positive": 1},
    "unlabelled": {"unobserved": "unlabelled", "trace_penalty": 0.01, "flip_rate": 0.2, "loss": "logistic"},
}


def ratings(seed=0, n=N, n_items=N_ITEMS, fraction=0.45):
    """Users, items and values from 0 to 4, of a low-rank truth, in random order."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items)) + rng.standard_normal(n_items)
    users, items = np.nonzero(rng.random(Z.shape) < fraction)
    order = rng.permutation(len(users))
    users, items = users[order], items[order]
    likes = Z[users, items] + 0.5 * rng.logistic(size=len(users)) >= 0
    return users, items, np.where(likes, rng.integers(1, 5, len(users)), 0)


def parts(name, n_first):
    """The ratings of a setting in two batches; the second one has new users and items, and a correction."""
    users, items, values = ratings()
    if name == "unlabelled":
        users, items, values = users[values > 0], items[values > 0], np.ones(int((values > 0).sum()), int)
    elif name.startswith("decide"):
        values = (values > 0).astype(int)
    cut = len(users) - n_first
    first = users[:cut], items[:cut], values[:cut]
    changed = 1 if name == "unlabelled" else (0 if values[0] else 1)
    second = (
        np.append(users[cut:], [500, 500, 500, 0, users[0]]),
        np.append(items[cut:], [0, 1, 2, 900, items[0]]),
        np.append(values[cut:], [1, 1, 1, 1, changed]),
    )
    return first, second


def union(first, second):
    """All ratings, the later one of a pair that comes twice."""
    said = {}
    for users, items, values in (first, second):
        said |= {(u, i): v for u, i, v in zip(users.tolist(), items.tolist(), values.tolist(), strict=True)}
    pairs = list(said)
    return [u for u, _ in pairs], [i for _, i in pairs], list(said.values())


def dense_objective(model, said, settings):
    """The objective by its formula, over a matrix of all pairs."""
    users, items, values = said
    row = {name: place for place, name in enumerate(model.user_ids_)}
    column = {name: place for place, name in enumerate(model.item_ids_)}
    at = [row[u] for u in users], [column[i] for i in items]
    Z = model.user_factors_ @ model.item_factors_.T + model.item_intercept_
    Y, weight = np.zeros(Z.shape), np.zeros(Z.shape)
    values = np.array(values, dtype=float)
    Y[at] = values > 0
    unobserved = settings.get("unobserved", "missing")
    if unobserved == "unlabelled":
        losses = Unlabelled(model.loss_, np.full(Z.shape[1], 0.2)).value(Z, Y.astype(np.int8))
        loss = losses.mean()
    else:
        weight[at] = 1.0
        if "confidence" in settings:
            mean, a = values[values > 0].mean(), settings["confidence"]
            weight[at] = np.where(values > 0, (1 + a * values) / (1 + a * mean), settings["dislike_weight"])
        total = weight.sum()
        if unobserved == "missing" and not settings.get("intercept_penalty"):
            # With a free intercept the loss of an item with ratings of one kind can be 0, and is left out.
            rate = (weight * Y).sum(axis=0) / weight.sum(axis=0)
            weight[:, (rate == 0) | (rate == 1)] = 0.0
        if unobserved == "negative":
            silent = np.ones(Z.shape, dtype=bool)
            silent[at] = False
            weight[silent] = settings.get("silence_weight", 1.0)
            if "confidence" not in settings:
                total = weight.sum()
        loss = float(np.sum(weight * model.loss_.value(Z, Y.astype(np.int8)))) / total
    kappa = settings.get("intercept_penalty", 0.0)
    spread = 0.0
    if kappa:
        centre = get_loss("logistic").link(np.mean(values > 0))
        spread = kappa / 2 * float(np.sum((model.item_intercept_ - centre) ** 2))
    return loss + spread + settings["trace_penalty"] * model.singular_values_.sum()


@pytest.mark.parametrize("name", list(SETTINGS))
def test_it_is_within_the_gap_of_a_fit_to_all_ratings(name):
    settings = SETTINGS[name]
    first, second = parts(name, 25)
    model = Recommender(**(EXACT | settings)).fit(first).partial_fit(second)
    said = union(first, second)
    whole = Recommender(**(EXACT | settings)).fit(said)
    assert model.relative_gap_ <= model.tol * 10
    far = 1e-9 + model.duality_gap_ + whole.duality_gap_
    assert abs(model.objective_ - whole.objective_) <= far
    assert model.objective_ == pytest.approx(dense_objective(model, said, settings), rel=1e-6)
    assert set(model.user_ids_) == set(whole.user_ids_)
    assert set(model.item_ids_) == set(whole.item_ids_)
    scores = [m.decision_function([500, 0, 3], [0, 900, 2]) for m in (model, whole)]
    np.testing.assert_allclose(*scores, atol=3e-2)
    batch = model.batches_[-1]
    known = {(u, i): v for u, i, v in zip(*(part.tolist() for part in first), strict=True)}
    again = [
        known[u, i] == v
        for u, i, v in zip(*(part.tolist() for part in second), strict=True)
        if (u, i) in known
    ]
    corrected = 0 if name == "unlabelled" else 1
    n_new = len(set(said[0]) - set(first[0].tolist())), len(set(said[1]) - set(first[1].tolist()))
    assert (batch.number, batch.new_rows, batch.new_labels) == (2, *n_new)
    assert batch.added == len(said[0]) - len(known)
    assert (batch.corrected, batch.repeated) == (corrected, len(again) - corrected)
    assert batch.relative_gap == model.relative_gap_
    assert batch.chosen_anew is None


def test_features_of_new_users_and_items_are_standardised_with_the_old_ones():
    rng = np.random.default_rng(1)
    users, items, values = ratings()
    values = (values > 0).astype(int)
    user_features = {user: rng.standard_normal(2) * [1, 50] for user in range(N)}
    item_features = {item: [float(item % 3), 7.0] for item in range(N_ITEMS)}
    early = users < N - 5
    first, second = (tuple(part[rows] for part in (users, items, values)) for rows in (early, ~early))
    settings = EXACT | {"trace_penalty": 0.01}
    known = {user: row for user, row in user_features.items() if user < N - 5}
    model = Recommender(**settings).fit(first, user_features=known, item_features=item_features)
    with pytest.raises(InvalidFeaturesError, match="5 of 40 users with ratings have no features"):
        model.partial_fit(second)
    more = {user: row for user, row in user_features.items() if user >= N - 5}
    model.partial_fit(second, user_features=more)
    whole = Recommender(**settings).fit(
        (users, items, values), user_features=user_features, item_features=item_features
    )
    assert abs(model.objective_ - whole.objective_) <= 1e-9 + model.duality_gap_ + whole.duality_gap_
    pairs = [0, 38, 39], [0, 5, 1]
    np.testing.assert_allclose(model.decision_function(*pairs), whole.decision_function(*pairs), atol=1e-2)
    unknown = model.fold_in(user_features={"new": [0.0, 1.0]}).decision_function("new", [0, 1])
    np.testing.assert_allclose(
        unknown, whole.fold_in(user_features={"new": [0.0, 1.0]}).decision_function("new", [0, 1]), atol=1e-2
    )
    plain = Recommender(**settings).fit(first)
    with pytest.raises(InvalidFeaturesError, match="fitted without user features"):
        plain.partial_fit(second, user_features=more)


@pytest.mark.parametrize("name", ["decide", "every pair"])
def test_forgetting_is_a_weight_by_age(name):
    first, second = parts(name, 25)
    settings = EXACT | SETTINGS[name]
    model = Recommender(forget=0.5, **settings).fit(first).partial_fit(second)
    newest = set(zip(second[0].tolist(), second[1].tolist(), strict=True))
    users, items, values = union(first, second)
    weights = np.array([1.0 if pair in newest else 0.25 for pair in zip(users, items, strict=True)])
    if name == "decide":
        whole = Recommender(**settings).fit((users, items, values), sample_weight=weights)
        assert abs(model.objective_ - whole.objective_) <= 1e-9 + model.duality_gap_ + whole.duality_gap_
    place = {name: at for at, name in enumerate(model.item_ids_)}
    rows = {name: at for at, name in enumerate(model.user_ids_)}
    given = model.answers_
    kept = {(r, c): w for r, c, w in zip(given.rows, given.cols, given.weights, strict=True)}
    for user, item, weight in zip(users, items, weights, strict=True):
        assert kept[rows[user], place[item]] == weight
    # Two batches later the oldest count a sixteenth of that.
    model.partial_fit(([1], [1], [1])).partial_fit(([2], [2], [1]))
    assert model.answers_.weights.min() == 0.25**3


def test_lists_forget_too_and_keep_the_values():
    first, second = parts("lists", 25)
    model = Recommender(forget=1.0, **(EXACT | SETTINGS["lists"])).fit(first).partial_fit(second)
    said = union(first, second)
    values = {(u, i): max(v, 1) for u, i, v in zip(*said, strict=True)}
    given = model._given_ratings()
    for row, column, weight in zip(given.rows, given.cols, given.weights, strict=True):
        assert weight == values[given.row_names[row], given.label_names[column]]
    assert len(np.unique((model.answers_.weights / _undecayed(model)).round(9))) == 2


def _undecayed(model):
    a, liked = model.confidence_, model.answers_.values == 1
    weights = (1 + a * model._given_weights) / (1 + a * model.mean_like_)
    return np.where(liked, weights, model.dislike_weight_)


@pytest.mark.parametrize("confidence", [0.0, 0.3])
def test_the_values_of_lists_are_known_after_everything(confidence, tmp_path):
    first, second = parts("lists", 25)
    settings = EXACT | SETTINGS["lists"] | {"confidence": confidence}
    model = Recommender(**settings).fit(first)
    folded = model.fold_in(([7, 900], [3, 3], [9, 2]))
    folded.save(tmp_path / "lists.labelgap")
    later = labelgap.load(tmp_path / "lists.labelgap").partial_fit(second)
    said = union(first, (np.array([7, 900]), np.array([3, 3]), np.array([9, 2])))
    said = union(tuple(map(np.array, said)), second)
    whole = Recommender(**settings).fit(said)
    assert abs(later.objective_ - whole.objective_) <= 1e-9 + later.duality_gap_ + whole.duality_gap_
    values = {(u, i): v for u, i, v in zip(*said, strict=True)}
    given = later._given_ratings()
    for row, column, weight in zip(given.rows, given.cols, given.weights, strict=True):
        assert weight == pytest.approx(max(values[given.row_names[row], given.label_names[column]], 1))


def test_a_saved_model_goes_on_as_the_one_in_memory(tmp_path):
    first, second = parts("decide", 30)
    model = Recommender(forget=2.0, trace_penalty=0.01, random_state=0).fit(first).partial_fit(second)
    model.save(tmp_path / "m.labelgap")
    loaded = labelgap.load(tmp_path / "m.labelgap")
    assert loaded.batches_ == model.batches_
    more = ([3, 501], [4, 4], [1, 0])
    one, other = loaded.partial_fit(more), copy.copy(model).partial_fit(more)
    assert one.objective_ == other.objective_
    assert [batch.number for batch in one.batches_] == [1, 2, 3]
    np.testing.assert_array_equal(one.user_factors_, other.user_factors_)


def test_the_first_batch_is_a_fit():
    first, _ = parts("decide", 30)
    settings = {"trace_penalty": 0.01, "random_state": 0}
    model = Recommender(**settings).partial_fit(first)
    assert model.objective_ == Recommender(**settings).fit(first).objective_
    assert model.batches_[0].metric == model.held_out_metric_
    assert model.batches_[0].standard_error > 0
    # Where nothing is held out there is nothing to expect.
    bare = Recommender(**EXACT, trace_penalty=0.01).partial_fit(first)
    assert (bare.batches_[0].added, bare.batches_[0].metric) == (len(first[0]), None)
    assert bare.batches_[0].objective == bare.objective_


def test_a_warm_start_changes_the_way_and_not_the_end():
    first, second = parts("decide", 25)
    settings = EXACT | {"trace_penalty": 0.01}
    said = union(first, second)
    cold = Recommender(**settings).fit(said)
    steps = []
    model = Recommender(warm_start=True, **settings).fit(first)
    model.fit(said, callback=lambda progress: steps.append(progress.gap))
    assert abs(model.objective_ - cold.objective_) <= 1e-9 + model.duality_gap_ + cold.duality_gap_
    # The first report is of the model that was there, with zeros for the new ids.
    assert steps[0] < 0.2
    assert len(model.batches_) == 0
    # Other features, users and items do not matter.
    features = {user: [float(user)] for user in set(said[0])}
    again = model.fit(said, user_features=features)
    fresh = Recommender(**settings).fit(said, user_features=features)
    assert abs(again.objective_ - fresh.objective_) <= 1e-9 + again.duality_gap_ + fresh.duality_gap_
    with pytest.raises(InvalidParameterError, match="warm_start must be True or False"):
        Recommender(warm_start=2).fit(first)


# -- what is chosen anew -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_settings_are_chosen_anew_when_the_data_have_grown():
    users, items, values = ratings(n=80, n_items=20)
    values = (values > 0).astype(int)
    cuts = [slice(0, 300), slice(300, 400), slice(400, None)]
    first, second, third = ((users[cut], items[cut], values[cut]) for cut in cuts)
    settings = {"count_weighting": 0.5, "intercept_penalty": 0.0, "rank": 3, "random_state": 0}
    model = Recommender(**settings).fit(first)
    penalty, theta = model.trace_penalty_, model.threshold_
    model.partial_fit(second)
    assert (model.batches_[1].chosen_anew, model.trace_penalty_, model.threshold_) == (None, penalty, theta)
    model.partial_fit(third)
    assert len(users) > 450
    assert model.batches_[2].chosen_anew == "growth"
    assert model.held_out_metric_ == model.batches_[2].held_out_metric
    # The last fit has more ratings than a fold, and so a smaller λ.
    assert model.candidates_[-1].penalties.trace * 0.8**0.5 == pytest.approx(model.trace_penalty_, rel=1e-2)


def test_a_batch_of_another_kind_is_warned_of_and_learned_from():
    users, items, values = ratings(n=150, n_items=20, fraction=0.6)
    values = (values > 0).astype(int)
    first = tuple(part[:1200] for part in (users, items, values))
    rest = tuple(part[1200:] for part in (users, items, values))
    model = Recommender(random_state=0, trace_penalty=0.003).fit(first)
    usual = copy.copy(model).partial_fit(rest)
    assert usual.batches_[1].drift == "no"
    low, high = usual.batches_[1].interval
    assert low < usual.batches_[1].metric < high
    with pytest.warns(DriftWarning, match="below the interval"):
        model.partial_fit((rest[0], rest[1], 1 - rest[2]))
    assert model.batches_[1].drifted
    assert model.batches_[1].chosen_anew == "drift"


@pytest.mark.parametrize("name", ["decide", "lists"])
def test_a_batch_is_judged_by_the_model_before_it(name):
    first, second = parts(name, 60)
    model = Recommender(**(EXACT | SETTINGS[name])).fit(first)
    known = set(zip(first[0].tolist(), first[1].tolist(), strict=True))
    fresh = [
        (u, i, v)
        for u, i, v in zip(*(part.tolist() for part in second), strict=True)
        if (u, i) not in known and u in model.user_ids_ and i in model.item_ids_
    ]
    later = copy.copy(model).partial_fit(second)
    if name == "decide":
        expected = model.score(tuple(zip(*fresh, strict=True)))
    else:
        gains = []
        for user in {u for u, _, _ in fresh}:
            liked = {i for u, i, v in fresh if u == user and v > 0}
            seen = {i for u, i in known if u == user}
            scores = model.decision_function(user, list(model.item_ids_))
            order = [model.item_ids_[j] for j in np.argsort(-scores, kind="stable")]
            for item in liked:
                shown = [i for i in order if i not in seen and i not in liked - {item}]
                rank = 1 + shown.index(item)
                gains.append(1 / np.log2(1 + rank) if rank <= 10 else 0.0)
        expected = np.mean(gains)
        assert model.batch_metric == "NDCG@10"
    assert later.batches_[-1].metric == pytest.approx(expected)
    assert later.batches_[-1].standard_error > 0


def test_lists_are_judged_like_their_held_out_likes():
    users, items, values = ratings(n=150, n_items=20, fraction=0.4)
    liked = values > 0
    first, rest = ((users[liked][cut], items[liked][cut]) for cut in (slice(0, 450), slice(450, None)))
    settings = {"trace_penalty": 0.01, "silence_weight": 0.3, "unobserved": "negative", "random_state": 0}
    model = Recommender(**settings).fit(first)
    begun = model.batches_[0]
    assert 0 < begun.metric < 1
    assert begun.standard_error > 0
    later = copy.copy(model).partial_fit(rest)
    assert later.batches_[1].drift == "no"
    # Items that nobody would have shown to these users.
    scores = model.user_factors_ @ model.item_factors_.T + model.item_intercept_
    scores[model.answers_.rows, model.answers_.cols] = np.inf
    worst = np.argsort(scores, axis=1)[:, 0]
    strange = np.array(model.user_ids_), np.array(model.item_ids_)[worst]
    with pytest.warns(DriftWarning):
        model.partial_fit(strange)
    assert model.batches_[1].chosen_anew == "drift"


def test_ratings_of_strangers_alone_are_not_judged():
    first, _ = parts("decide", 25)
    model = Recommender(**EXACT, trace_penalty=0.01).fit(first)
    new = model._read_ratings((["a", "b"], ["x", "y"], [1, 0]), "missing")
    judged = judge_ratings(model, new, np.array([-1, -1]), np.array([-1, -1]))
    assert judged == (None, None, 0)
    later = model.partial_fit((["a", "b"], ["x", "y"], [1, 0]))
    assert (later.batches_[-1].metric, later.batches_[-1].drift) == (None, None)


# -- what fails --------------------------------------------------------------------------------------------


def _untouched(model, attempt, error, match=None):
    before, keys = state_of(model), set(vars(model))
    with pytest.raises(error, match=match):
        attempt()
    assert same_state(before, state_of(model))
    assert keys == set(vars(model))


@pytest.mark.usefixtures("default_interrupts")
def test_what_fails_or_is_stopped_leaves_the_model_as_it_was():
    first, second = parts("decide", 25)
    model = Recommender(trace_penalty=0.01, random_state=0).fit(first)

    def broken(progress):
        raise RuntimeError("broken")

    stops = []

    def stopping(progress):
        stops.append(progress)
        if len(stops) == 1:
            signal.raise_signal(signal.SIGINT)

    attempts = [
        (lambda: model.partial_fit(([0], [0], [3])), InvalidLabelsError, "neither 0 nor 1"),
        (lambda: model.partial_fit(second, callback=broken), RuntimeError, "broken"),
        (lambda: model.partial_fit(second, callback=stopping), KeyboardInterrupt, "as it was before"),
        (lambda: model.partial_fit(second, propensities={}), InvalidInputError, "propensity"),
    ]
    for attempt, error, match in attempts:
        _untouched(model, attempt, error, match)
    assert model.partial_fit(second).batches_[-1].number == 2


def test_what_cannot_be_done_is_said():
    first, second = parts("unlabelled", 25)
    with pytest.raises(InvalidParameterError, match="under unobserved='unlabelled' every pair counts once"):
        Recommender(unobserved="unlabelled", forget=2.0).fit(first)
    with pytest.raises(InvalidParameterError, match="half-life in batches"):
        Recommender(forget=0).fit(first)
    model = Recommender(**(EXACT | SETTINGS["unlabelled"])).fit(first)
    with pytest.raises(InvalidLabelsError, match="1 of 1 ratings are dislikes"):
        model.partial_fit(([0], [0], [0]))
    with pytest.raises(InvalidParameterError, match="sample_weight"):
        model.partial_fit(second, sample_weight=np.ones(len(second[0])))
    first, second = parts("decide", 25)
    weighted = Recommender(weights="inverse-propensity", **EXACT, trace_penalty=0.01)
    table = np.full((600, 1000), 0.5)
    weighted.fit(first, propensities=table)
    with pytest.raises(InvalidParameterError, match="propensities of all ratings, old and new"):
        weighted.partial_fit(second)
    later = weighted.partial_fit(second, propensities=table)
    np.testing.assert_allclose(later.answers_.weights, 1.0)
    estimated = Recommender(weights="inverse-propensity", **EXACT, trace_penalty=0.01).fit(first)
    said = union(first, second)
    whole = Recommender(weights="inverse-propensity", **EXACT, trace_penalty=0.01).fit(said)
    estimated.partial_fit(second)
    far = 1e-9 + estimated.duality_gap_ + whole.duality_gap_
    assert abs(estimated.objective_ - whole.objective_) <= far


# -- events ------------------------------------------------------------------------------------------------


def plays(seed=0, n=500):
    """An event log: users, items, values and times, many events of a pair."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 12, size=n), rng.integers(0, 8, size=n)
    values = 1.0 + rng.integers(0, 3, size=n) + 2 * ((users + items) % 2)
    return users, items, values, np.sort(rng.integers(0, 100, size=n))


def part_of(events, lines):
    return tuple(column[lines] for column in events)


@pytest.mark.parametrize("how", ["decide", "lists", "every pair"])
@pytest.mark.parametrize(("aggregate", "half_life"), [
    ("sum", None), ("sum", 20.0), ("mean", 20.0), ("max", None), ("last", 20.0), ("mean", None),
])  # fmt: skip
def test_events_in_batches_are_as_all_at_once(how, aggregate, half_life):
    events = plays()
    settings = EXACT | SETTINGS[how] | {"aggregate": aggregate, "half_life": half_life}
    settings["positive"] = {"sum": 12, "max": 5}.get(aggregate, 3)
    if half_life is not None and aggregate == "sum":
        settings["positive"] = 3
    whole = Recommender(**settings).fit(events)
    early = np.arange(500) < 400
    model = Recommender(**settings).fit(part_of(events, early))
    model.partial_fit(part_of(events, ~early))
    folded = Recommender(**settings).fit(part_of(events, early)).fold_in(part_of(events, ~early))
    for other in (model, folded):
        by_id = np.ix_(np.argsort(other.user_ids_), np.argsort(other.item_ids_))
        order = np.ix_(np.argsort(whole.user_ids_), np.argsort(whole.item_ids_))
        np.testing.assert_array_equal(other.answers_.to_dense()[by_id], whole.answers_.to_dense()[order])
    assert model.objective_ == pytest.approx(whole.objective_, rel=2e-3 if how == "lists" else 1e-4)
    if half_life is not None and aggregate != "sum":
        assert len(np.unique(whole.answers_.weights)) > 10
    total = model.batches_[-1]
    assert total.added + total.corrected + total.repeated == len(
        set(zip(*part_of(events, ~early)[:2], strict=True))
    )


@pytest.mark.parametrize("half_life", [None, 20.0])
def test_events_are_saved_with_the_model(tmp_path, half_life):
    events = plays()
    early = np.arange(500) < 400
    settings = EXACT | SETTINGS["decide"] | {"aggregate": "sum", "half_life": half_life, "positive": 3}
    model = Recommender(**settings).fit(part_of(events, early))
    model.save(tmp_path / "m.labelgap")
    again = labelgap.load(tmp_path / "m.labelgap")
    assert again.get_params() == model.get_params()
    later = part_of(events, ~early)
    np.testing.assert_array_equal(
        again.partial_fit(later).decision_function(3, list(range(8))),
        model.partial_fit(later).decision_function(3, list(range(8))),
    )


def test_decay_makes_old_ratings_weigh_less():
    """A fit with a half-life is one with the weights that it stands for."""
    users, items, values = ratings()
    times = np.random.default_rng(1).integers(0, 30, size=len(users))
    settings = EXACT | SETTINGS["decide"] | {"positive": 2}
    model = Recommender(half_life=10.0, **settings).fit((users, items, values, times))
    weights = 0.5 ** ((times.max() - times) / 10.0)
    weighed = Recommender(**settings).fit((users, items, values), sample_weight=weights)
    assert model.objective_ == pytest.approx(weighed.objective_, rel=1e-9)
    # A rating that is said twice is as old as the newer line, wherever that stands.
    older = (users[:50], items[:50], values[:50], times[:50] - 40)
    newer = (users, items, values, times)
    for lines in (zip(older, newer, strict=True), zip(newer, older, strict=True)):
        twice = Recommender(half_life=10.0, **settings).fit(tuple(map(np.concatenate, lines)))
        assert twice.objective_ == pytest.approx(model.objective_, rel=1e-9)
    held = (users[:50], items[:50], values[:50], times[:50])
    assert model.score(held) == pytest.approx(weighed.score(held[:3], sample_weight=weights[:50]))
    # In lists too, whatever the values of the likes count.
    lists = EXACT | SETTINGS["lists"] | {"confidence": 0.0}
    recent = Recommender(half_life=10.0, **lists).fit((users, items, values, times))
    assert recent.objective_ != pytest.approx(Recommender(**lists).fit((users, items, values)).objective_)


def test_events_that_cannot_be_joined():
    users, items, values, times = plays()
    dates = np.datetime64("2024-01-01") + times.astype("timedelta64[D]")
    settings = EXACT | SETTINGS["decide"] | {"positive": 12}
    summed = Recommender(aggregate="sum", **settings).fit((users, items, values))
    with pytest.raises(InvalidParameterError, match="fitted with aggregate='sum', and now it is None"):
        copy.copy(summed).set_params(aggregate=None).partial_fit(([1], [1], [1]))
    with pytest.raises(InvalidParameterError, match=r"aggregate='sum'.*aggregate='max'"):
        copy.copy(summed).set_params(aggregate="max").partial_fit(([1], [1], [1]))
    plain = Recommender(**settings | {"positive": 2}).fit(ratings())
    with pytest.raises(InvalidParameterError, match="fitted with aggregate=None, and now it is 'sum'"):
        plain.set_params(aggregate="sum").partial_fit(([1], [1], [1]))
    with pytest.raises(InvalidParameterError, match="without times"):
        copy.copy(summed).set_params(half_life=3.0).partial_fit(([1], [1], [1], [200]))
    recent = Recommender(aggregate="sum", half_life=20.0, **settings | {"positive": 3}).fit(
        (users, items, values, dates)
    )
    with pytest.raises(
        InvalidLabelsError, match=r"times of the ratings before are dates, and .* new ones are numbers"
    ):
        recent.partial_fit(([1], [1], [1], [200]))
    with pytest.raises(InvalidParameterError, match="sample_weight weighs single ratings"):
        Recommender(aggregate="sum", **settings).fit((users, items, values), sample_weight=np.ones(500))
    with pytest.raises(InvalidParameterError, match=r"half_life weighs .* forget=2"):
        Recommender(aggregate="sum", half_life=2.0, forget=2, **settings).fit((users, items, values, times))
    likes = Recommender(aggregate="sum", half_life=2.0, unobserved="unlabelled")
    with pytest.raises(InvalidParameterError, match=r"half_life weighs .*'unlabelled'"):
        likes.fit((users, items, None, times))
    with pytest.raises(InvalidLabelsError, match="ObservedLabels hold each pair once"):
        Recommender(aggregate="sum", **settings).fit(summed.answers_)


# -- new and changed rows where the union is within the tolerance already -------------------------------

PLACED = {
    "missing": {"trace_penalty": 0.0005},
    "negative": {"unobserved": "negative", "trace_penalty": 0.005, "silence_weight": 0.2},
    "unlabelled": {
        "unobserved": "unlabelled",
        "trace_penalty": 0.0005,
        "flip_rate": 0.2,
        "loss": "logistic",
    },
}
TASTES, MANY, FILMS = 3, 500, 60


@pytest.fixture(scope="module", params=list(PLACED))
def of_tastes(request):
    """A model of users who like every third item more than the others, and its settings."""
    rng = np.random.default_rng(0)
    alike = np.arange(MANY)[:, None] % TASTES == np.arange(FILMS)[None, :] % TASTES
    likes = rng.random((MANY, FILMS)) < np.where(alike, 0.55, 0.05)
    seen = rng.random(likes.shape) < 0.6
    users, items = np.nonzero(seen if request.param == "missing" else likes & seen)
    said = users, items, likes[users, items].astype(int)
    settings = {"threshold": "train", "random_state": 0, "positive": 1, "tol": 1e-4} | PLACED[request.param]
    # So close that a little that is new does not take the gap beyond the tolerance of the batches.
    return Recommender(**settings).fit(said).set_params(tol=1e-2), said, request.param


def said_by(user, taste, meant, n=10):
    """Likes of ten items of a taste; where silence says nothing, dislikes of as many others."""
    liked = [item for item in range(FILMS) if item % TASTES == taste][:n]
    disliked = [item for item in range(FILMS) if item % TASTES != taste][:n] if meant == "missing" else []
    values = [1] * len(liked) + [0] * len(disliked)
    return [user] * len(values), liked + disliked, values


def together(said):
    """Several users' ratings as one batch."""
    return tuple([one for part in parts for one in part] for parts in zip(*said, strict=True))


def test_a_new_user_among_many_is_folded_in(of_tastes):
    model, _, meant = of_tastes
    new = said_by("new", 1, meant)
    folded, learned = model.fold_in(new, prior="fit"), copy.copy(model).partial_fit(new)
    # So little is new that the union is within the tolerance as it is.
    assert learned.n_iter_ == 0
    assert learned.relative_gap_ <= learned.tol
    place = list(learned.user_ids_).index("new")
    length = np.linalg.norm(folded.user_factors_[-1])
    assert length > 0.1
    assert np.linalg.norm(learned.user_factors_[place]) == pytest.approx(length, rel=0.1)
    pairs = ["new"] * FILMS, list(range(FILMS))
    wanted, found = (one.decision_function(*pairs) for one in (folded, learned))
    assert np.abs(found - wanted).max() <= 0.1 * np.ptp(wanted)


def test_lists_of_a_few_new_users_are_their_own(of_tastes):
    model, _, meant = of_tastes
    said = [said_by(f"new {k}", k % TASTES, meant) for k in range(4)]
    learned = copy.copy(model).partial_fit(together(said))
    for k in range(4):
        # Ten of the twenty items of a taste are known to be liked; popularity would give a third of them.
        listed = learned.recommend(f"new {k}", n=8).items
        assert sum(item % TASTES == k % TASTES for item in listed) >= 7


def test_a_user_who_corrects_ratings_is_folded_in(of_tastes):
    model, (users, items, _), meant = of_tastes
    user, taste = 0, 1
    if meant == "missing":
        # The other way round: every item that was liked is disliked, and those of another taste are liked.
        known = items[users == user].tolist()
        new = [user] * len(known), known, [int(item % TASTES == taste) for item in known]
    else:
        new = said_by(user, taste, meant, 20)
    folded, learned = model.fold_in(new, prior="fit"), copy.copy(model).partial_fit(new)
    pairs = [user] * FILMS, list(range(FILMS))
    before, wanted, found = (one.decision_function(*pairs) for one in (model, folded, learned))
    assert np.abs(wanted - before).max() > 0.3 * np.ptp(wanted)
    assert np.abs(found - wanted).max() <= 0.1 * np.ptp(wanted)


def test_a_new_item_among_many_is_folded_in(of_tastes):
    model, _, meant = of_tastes
    likers = [user for user in range(60) if user % TASTES == 1]
    others = [user for user in range(60) if user % TASTES != 1] if meant == "missing" else []
    new = likers + others, [FILMS] * len(likers + others), [1] * len(likers) + [0] * len(others)
    folded, learned = model.fold_in(new, prior="fit"), copy.copy(model).partial_fit(new)
    assert learned.n_iter_ == 0
    pairs = list(range(MANY)), [FILMS] * MANY
    wanted, found = (one.decision_function(*pairs) for one in (folded, learned))
    assert np.abs(found - wanted).max() <= 0.1 * np.ptp(wanted)
    # The whole row of a user counts for the item, and that of the item for the user.
    of_taste = np.arange(MANY) % TASTES == 1
    assert found[of_taste].mean() > found[~of_taste].mean() + 0.2


def test_items_and_users_that_are_both_new_are_placed_by_each_other(of_tastes):
    model, _, meant = of_tastes
    # The item is rated by new users alone, and these have rated known items.
    said = [said_by(f"new {k}", k % TASTES, meant) for k in range(12)]
    users, items, values = together(said)
    for k in range(12):
        if meant == "missing" or k % TASTES == 1:
            users.append(f"new {k}"), items.append(FILMS), values.append(int(k % TASTES == 1))
    learned = copy.copy(model).partial_fit((users, items, values))
    place = list(learned.item_ids_).index(FILMS)
    assert np.linalg.norm(learned.item_factors_[place]) > 0
    scores = learned.decision_function([f"new {k}" for k in range(12)], [FILMS] * 12)
    of_taste = np.arange(12) % TASTES == 1
    assert scores[of_taste].min() > scores[~of_taste].max()
