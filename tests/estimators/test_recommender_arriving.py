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
from recommender_suite import KINDS, same_state, state_of

N, N_ITEMS = 40, 14
EXACT = {"threshold": "train", "tol": 1e-6, "random_state": 0}
DECIDE = EXACT | {"trace_penalty": 0.01}
LISTS = EXACT | {"unobserved": "negative", "trace_penalty": 0.3, "positive": 1}
UNLABELLED = {"unobserved": "unlabelled", "trace_penalty": 0.01, "flip_rate": 0.2}


def ratings(seed=0, n=N, n_items=N_ITEMS, fraction=0.45):
    """Users, items and values from 0 to 4, of a low-rank truth, in random order."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items)) + rng.standard_normal(n_items)
    users, items = np.nonzero(rng.random(Z.shape) < fraction)
    order = rng.permutation(len(users))
    users, items = users[order], items[order]
    likes = Z[users, items] + 0.5 * rng.logistic(size=len(users)) >= 0
    return users, items, np.where(likes, rng.integers(1, 5, len(users)), 0)


def parts(n_last, values="likes and dislikes"):
    """The ratings in two batches; the second one has new users and items, and a correction."""
    users, items, stars = ratings()
    if values == "likes":
        users, items, stars = (part[stars > 0] for part in (users, items, stars))
    if values != "counts":
        stars = (stars > 0).astype(int)
    cut = len(users) - n_last
    turned = 1 if values == "likes" or not stars[0] else 0
    first = users[:cut], items[:cut], stars[:cut]
    second = (
        np.append(users[cut:], [500, 500, 500, 0, users[0]]),
        np.append(items[cut:], [0, 1, 2, 900, items[0]]),
        np.append(stars[cut:], [1, 1, 1, 1, turned]),
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
    """The objective by its formula, over a matrix of all pairs; for ratings of one weight."""
    users, items, values = said
    at = [model.user_ids_.index(u) for u in users], [model.item_ids_.index(i) for i in items]
    Z = model.user_factors_ @ model.item_factors_.T + model.item_intercept_
    Y, seen = np.zeros(Z.shape, dtype=np.int8), np.zeros(Z.shape, dtype=bool)
    Y[at], seen[at] = np.array(values) > 0, True
    kappa = settings.get("intercept_penalty", 0.0)
    if settings.get("unobserved") == "unlabelled":
        loss = Unlabelled(model.loss_, np.full(Z.shape[1], settings["flip_rate"])).value(Z, Y).mean()
    elif settings.get("unobserved") == "negative":
        loss = model.loss_.value(Z, Y).mean()
    else:
        total = seen.sum()
        if not kappa:
            # With a free intercept the loss of an item with ratings of one kind can be 0, and is left out.
            rate = (seen * Y).sum(axis=0) / seen.sum(axis=0)
            seen[:, (rate == 0) | (rate == 1)] = False
        loss = model.loss_.value(Z, Y)[seen].sum() / total
    spread = 0.0
    if kappa:
        centre = get_loss("logistic").link(np.mean(np.array(values) > 0))
        spread = kappa / 2 * float(np.sum((model.item_intercept_ - centre) ** 2))
    ridge = settings.get("ridge_penalty", 0.0) / 2 * np.sum(model.singular_values_**2)
    return float(loss) + spread + ridge + settings["trace_penalty"] * model.singular_values_.sum()


def same_end(one, other):
    """Two fits of one problem, each to its gap."""
    assert abs(one.objective_ - other.objective_) <= 1e-9 + one.duality_gap_ + other.duality_gap_


@pytest.mark.parametrize("kind", list(KINDS))
def test_it_is_within_the_gap_of_a_fit_to_all_ratings(kind):
    case = KINDS[kind]
    settings = EXACT | case.settings
    first, second = parts(25, case.values)
    said = union(first, second)
    rng = np.random.default_rng(1)
    all_rows = [{one: rng.standard_normal(2) * [1, 50] for one in dict.fromkeys(ids)} for ids in said[:2]]

    def features(ratings):
        """Those of the users and items with ratings, where there are any; all are scaled alike."""
        some = [{one: rows[one] for one in ids} for rows, ids in zip(all_rows, ratings, strict=False)]
        return dict(zip(("user_features", "item_features"), some, strict=True)) if case.has_features else {}

    model = Recommender(**settings).fit(first, **features(first)).partial_fit(second, **features(second))
    whole = Recommender(**settings).fit(said, **features(said))
    assert model.relative_gap_ <= model.tol * 10
    same_end(model, whole)
    if not kind.startswith("lists"):
        assert model.objective_ == pytest.approx(dense_objective(model, said, settings), rel=1e-6)
    assert set(model.user_ids_) == set(whole.user_ids_)
    assert set(model.item_ids_) == set(whole.item_ids_)
    scores = [m.decision_function([500, 0, 3], [0, 900, 2]) for m in (model, whole)]
    np.testing.assert_allclose(*scores, atol=5e-2)
    batch = model.batches_[-1]
    known, new = (
        {(u, i): v for u, i, v in zip(*(part.tolist() for part in some), strict=True)}
        for some in (first, second)
    )
    again = [bool(known[pair]) == bool(value) for pair, value in new.items() if pair in known]
    new_ids = len(set(said[0]) - set(first[0].tolist())), len(set(said[1]) - set(first[1].tolist()))
    assert (batch.number, batch.new_rows, batch.new_labels) == (2, *new_ids)
    assert batch.added == len(said[0]) - len(known)
    assert (batch.corrected, batch.repeated) == (again.count(False), again.count(True))
    assert batch.relative_gap == model.relative_gap_
    assert batch.chosen_anew is None


def test_features_of_new_users_are_needed_and_no_others():
    first, second = parts(25)
    features = {user: [float(user % 7), 1.0] for user in [*range(N), 500]}
    known = {user: features[user] for user in set(first[0].tolist())}
    model, plain = (Recommender(**DECIDE).fit(first, user_features=rows) for rows in (known, None))
    with pytest.raises(InvalidFeaturesError, match=r"\d+ of 4\d users with ratings have no features"):
        model.partial_fit(second)
    with pytest.raises(InvalidFeaturesError, match="fitted without user features"):
        plain.partial_fit(second, user_features=features)


def test_forgetting_is_a_weight_by_age():
    first, second = parts(25)
    model = Recommender(forget=0.5, **DECIDE).fit(first).partial_fit(second)
    newest = set(zip(second[0].tolist(), second[1].tolist(), strict=True))
    users, items, values = union(first, second)
    weights = [1.0 if pair in newest else 0.25 for pair in zip(users, items, strict=True)]
    whole = Recommender(**DECIDE).fit((users, items, values), sample_weight=np.array(weights))
    same_end(model, whole)
    # Two batches later the oldest count a sixteenth of that.
    model.partial_fit(([1], [1], [1])).partial_fit(([2], [2], [1]))
    assert model.answers_.weights.min() == 0.25**3
    forgetful = Recommender(forget=0.5, **LISTS).fit(first).partial_fit(second)
    steady = Recommender(**LISTS).fit(first).partial_fit(second)
    assert forgetful.objective_ != pytest.approx(steady.objective_, rel=1e-3)


def test_a_model_goes_on_after_being_folded_into_and_saved(tmp_path):
    for name, settings, values in [
        ("lists", LISTS, "counts"),
        ("decide", DECIDE | {"forget": 2.0}, "likes and dislikes"),
    ]:
        first, second = parts(25, values)
        more = np.array([7, 900]), np.array([3, 3]), np.array([1, 1])
        folded = Recommender(**settings).fit(first).fold_in(more)
        folded.save(tmp_path / name)
        loaded = labelgap.load(tmp_path / name)
        one, other = loaded.partial_fit(second), copy.copy(folded).partial_fit(second)
        assert one.objective_ == other.objective_
        np.testing.assert_array_equal(one.user_factors_, other.user_factors_)
        one.save(tmp_path / "again")
        assert labelgap.load(tmp_path / "again").batches_ == one.batches_
        if "forget" not in settings:
            said = union(tuple(map(np.array, union(first, more))), second)
            same_end(one, Recommender(**settings).fit(said))


def test_the_first_batch_is_a_fit():
    first, _ = parts(30)
    settings = {"trace_penalty": 0.01, "random_state": 0}
    model = Recommender(**settings).partial_fit(first)
    assert model.objective_ == Recommender(**settings).fit(first).objective_
    assert model.batches_[0].metric == model.held_out_metric_
    assert model.batches_[0].standard_error > 0
    # Where nothing is held out there is nothing to expect.
    bare = Recommender(**DECIDE).partial_fit(first)
    assert (bare.batches_[0].added, bare.batches_[0].metric) == (len(first[0]), None)
    assert bare.batches_[0].objective == bare.objective_


def test_a_warm_start_changes_the_way_and_not_the_end():
    first, second = parts(25)
    said = union(first, second)
    cold = Recommender(**DECIDE).fit(said)
    steps = []
    model = Recommender(warm_start=True, **DECIDE).fit(first)
    model.fit(said, callback=lambda progress: steps.append(progress.gap))
    same_end(model, cold)
    # The first report is of the model that was there, with zeros for the new ids.
    assert steps[0] < 0.2
    assert len(model.batches_) == 0
    # Other features, users and items do not matter.
    features = {user: [float(user)] for user in set(said[0])}
    again = model.fit(said, user_features=features)
    same_end(again, Recommender(**DECIDE).fit(said, user_features=features))


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
    first, rest = (
        tuple(part[cut] for part in (users, items, values)) for cut in (slice(1200), slice(1200, None))
    )
    model = Recommender(random_state=0, trace_penalty=0.003).fit(first)
    usual = copy.copy(model).partial_fit(rest)
    assert usual.batches_[1].drift == "no"
    low, high = usual.batches_[1].interval
    assert low < usual.batches_[1].metric < high
    with pytest.warns(DriftWarning, match="below the interval"):
        model.partial_fit((rest[0], rest[1], 1 - rest[2]))
    assert model.batches_[1].drifted
    assert model.batches_[1].chosen_anew == "drift"


def test_lists_are_judged_like_their_held_out_likes():
    users, items, values = ratings(n=150, n_items=20, fraction=0.4)
    liked = values > 0
    first, rest = ((users[liked][cut], items[liked][cut]) for cut in (slice(0, 450), slice(450, None)))
    model = Recommender(unobserved="negative", trace_penalty=0.3, random_state=0).fit(first)
    begun = model.batches_[0]
    assert 0 < begun.metric < 1
    assert begun.standard_error > 0
    later = copy.copy(model).partial_fit(rest)
    assert later.batches_[1].drift == "no"
    # Items that nobody would have shown to these users.
    scores = model.user_factors_ @ model.item_factors_.T + model.item_intercept_
    scores[model.answers_.rows, model.answers_.cols] = np.inf
    worst = np.argsort(scores, axis=1)[:, 0]
    with pytest.warns(DriftWarning):
        model.partial_fit((np.array(model.user_ids_), np.array(model.item_ids_)[worst]))
    assert model.batches_[1].chosen_anew == "drift"


def test_a_batch_is_judged_by_the_model_before_it():
    for name, settings, values in [("decide", DECIDE, "likes and dislikes"), ("lists", LISTS, "counts")]:
        first, second = parts(60, values)
        model = Recommender(**settings).fit(first)
        known = set(zip(first[0].tolist(), first[1].tolist(), strict=True))
        fresh = [
            (u, i, v)
            for u, i, v in zip(*(part.tolist() for part in second), strict=True)
            if (u, i) not in known and u in model.user_ids_ and i in model.item_ids_
        ]
        expected = model.score(tuple(zip(*fresh, strict=True)))
        if name == "lists":
            assert model.batch_metric == "NDCG@10"
            gains = []
            for user in {u for u, _, _ in fresh}:
                liked = {i for u, i, v in fresh if u == user and v > 0}
                order = model.recommend(user, n=99).items.tolist()
                for item in liked:
                    rank = 1 + [i for i in order if i not in liked - {item}].index(item)
                    gains.append(1 / np.log2(1 + rank) if rank <= 10 else 0.0)
            expected = np.mean(gains)
        later = model.partial_fit(second)
        assert later.batches_[-1].metric == pytest.approx(expected), name
        assert later.batches_[-1].standard_error > 0
        # Ratings of strangers alone are not judged.
        later = model.partial_fit((["a", "b"], ["x", "y"], [1, 0]))
        assert (later.batches_[-1].metric, later.batches_[-1].drift) == (None, None)


# -- what fails --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("default_interrupts")
def test_what_fails_or_is_stopped_leaves_the_model_as_it_was():
    first, second = parts(25)
    model = Recommender(trace_penalty=0.01, random_state=0).fit(first)
    before, keys = state_of(model), set(vars(model))
    stops = []

    def broken(progress):
        raise RuntimeError("broken")

    def stopping(progress):
        stops.append(progress)
        if len(stops) == 1:
            signal.raise_signal(signal.SIGINT)

    for more, given, error, message in [
        (([0], [0], [3]), {}, InvalidLabelsError, "neither 0 nor 1"),
        (second, {"callback": broken}, RuntimeError, "broken"),
        (second, {"callback": stopping}, KeyboardInterrupt, "as it was before"),
        (second, {"propensities": {}}, InvalidInputError, "propensity"),
    ]:
        with pytest.raises(error, match=message):
            model.partial_fit(more, **given)
        assert same_state(before, state_of(model)), message
        assert keys == set(vars(model))
    assert model.partial_fit(second).batches_[-1].number == 2


def test_what_cannot_be_done_is_said():
    first, second = parts(25, "likes")
    for settings, message in [
        (UNLABELLED | {"forget": 2.0}, "under unobserved='unlabelled' every pair counts once"),
        ({"forget": 0}, "half-life in batches"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            Recommender(**settings).fit(first)
    model = Recommender(**(EXACT | UNLABELLED)).fit(first)
    with pytest.raises(InvalidLabelsError, match="1 of 1 ratings are dislikes"):
        model.partial_fit(([0], [0], [0]))
    with pytest.raises(InvalidParameterError, match="sample_weight"):
        model.partial_fit(second, sample_weight=np.ones(len(second[0])))
    first, second = parts(25)
    table = np.full((600, 1000), 0.5)
    weighted = Recommender(weights="inverse-propensity", **DECIDE).fit(first, propensities=table)
    with pytest.raises(InvalidParameterError, match="propensities of all ratings, old and new"):
        weighted.partial_fit(second)
    np.testing.assert_allclose(weighted.partial_fit(second, propensities=table).answers_.weights, 1.0)
    # Where they were estimated, they are estimated anew.
    estimated = Recommender(weights="inverse-propensity", **DECIDE).fit(first).partial_fit(second)
    same_end(estimated, Recommender(weights="inverse-propensity", **DECIDE).fit(union(first, second)))


# -- events ------------------------------------------------------------------------------------------------


def plays(n=500):
    """An event log: users, items, values and times, many events of a pair."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 12, size=n), rng.integers(0, 8, size=n)
    values = 1.0 + rng.integers(0, 3, size=n) + 2 * ((users + items) % 2)
    return users, items, values, np.sort(rng.integers(0, 100, size=n))


@pytest.mark.parametrize("how", ["decide", "lists"])
def test_events_in_batches_are_as_all_at_once(how, tmp_path):
    events = plays()
    early, late = (tuple(part[lines] for part in events) for lines in (slice(400), slice(400, None)))
    for aggregate, half_life, positive in [
        ("sum", None, 12),
        ("sum", 20.0, 3),
        ("mean", 20.0, 3),
        ("max", None, 5),
        ("last", 20.0, 3),
    ]:
        case = f"{aggregate} {half_life}"
        settings = (DECIDE if how == "decide" else LISTS) | {"positive": positive}
        settings |= {"aggregate": aggregate, "half_life": half_life}
        whole = Recommender(**settings).fit(events)
        begun = Recommender(**settings).fit(early)
        begun.save(tmp_path / "begun")
        model, folded = labelgap.load(tmp_path / "begun").partial_fit(late), begun.fold_in(late)
        assert model.get_params() == begun.get_params()
        order = np.ix_(np.argsort(whole.user_ids_), np.argsort(whole.item_ids_))
        for other in (model, folded):
            by_id = np.ix_(np.argsort(other.user_ids_), np.argsort(other.item_ids_))
            np.testing.assert_array_equal(
                other.answers_.to_dense()[by_id], whole.answers_.to_dense()[order], err_msg=case
            )
        assert model.objective_ == pytest.approx(whole.objective_, rel=1e-4), case
        if half_life is not None and aggregate != "sum":
            factors = whole.answers_.weights if how == "decide" else whole._decay
            assert len(np.unique(factors)) > 10, case
        batch = model.batches_[-1]
        n_pairs = len(set(zip(*late[:2], strict=True)))
        assert batch.added + batch.corrected + batch.repeated == n_pairs, case


def test_decay_makes_old_ratings_weigh_less():
    """A fit with a half-life is one with the weights that it stands for."""
    users, items, values = ratings()
    times = np.random.default_rng(1).integers(0, 30, size=len(users))
    settings = DECIDE | {"positive": 2}
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
    # In lists too.
    recent = Recommender(half_life=10.0, **LISTS).fit((users, items, values, times))
    assert recent.objective_ != pytest.approx(Recommender(**LISTS).fit((users, items, values)).objective_)


def test_events_that_cannot_be_joined():
    users, items, values, times = plays()
    dates = np.datetime64("2024-01-01") + times.astype("timedelta64[D]")
    three, four = (users, items, values), (users, items, values, times)
    settings = DECIDE | {"positive": 12}
    summed = Recommender(aggregate="sum", **settings).fit(three)
    plain = Recommender(**settings | {"positive": 2}).fit(ratings())
    recent = Recommender(aggregate="sum", half_life=20.0, **settings | {"positive": 3})
    recent.fit((users, items, values, dates))
    one = ([1], [1], [1])
    for model, change, more, message in [
        (summed, {"aggregate": None}, one, "fitted with aggregate='sum', and now it is None"),
        (summed, {"aggregate": "max"}, one, r"aggregate='sum'.*aggregate='max'"),
        (plain, {"aggregate": "sum"}, one, "fitted with aggregate=None, and now it is 'sum'"),
        (summed, {"half_life": 3.0}, (*one, [200]), "without times"),
        (recent, {}, (*one, [200]), r"times of the ratings before are dates, and .* new ones are numbers"),
    ]:
        with pytest.raises((InvalidParameterError, InvalidLabelsError), match=message):
            copy.copy(model).set_params(**change).partial_fit(more)
    for change, lines, more, message in [
        ({}, three, {"sample_weight": np.ones(500)}, "sample_weight weighs single ratings"),
        ({"half_life": 2.0, "forget": 2}, four, {}, r"half_life weighs .* forget=2"),
        (
            UNLABELLED | {"half_life": 2.0, "positive": None},
            (users, items, None, times),
            {},
            r"half_life weighs .*'unlabelled'",
        ),
        ({}, summed.answers_, {}, "ObservedLabels hold each pair once"),
    ]:
        with pytest.raises((InvalidParameterError, InvalidLabelsError), match=message):
            Recommender(**(settings | {"aggregate": "sum"} | change)).fit(lines, **more)


# -- new and changed rows where the union is within the tolerance already -----------------------------------

TASTES, MANY, FILMS = 3, 500, 60
PLACED = {
    "missing": {"trace_penalty": 0.0005},
    "negative": {"unobserved": "negative", "trace_penalty": 3.0},
    "unlabelled": UNLABELLED | {"trace_penalty": 0.0005, "loss": "logistic"},
}


@pytest.fixture(scope="module", params=list(PLACED))
def of_tastes(request):
    """A model of users who like every third item more than the others, and its ratings."""
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
    """Likes of some items of a taste; where silence says nothing, dislikes of as many others."""
    liked = [item for item in range(FILMS) if item % TASTES == taste][:n]
    disliked = [item for item in range(FILMS) if item % TASTES != taste][:n] if meant == "missing" else []
    return [user] * (len(liked) + len(disliked)), liked + disliked, [1] * len(liked) + [0] * len(disliked)


def test_a_few_new_or_changed_rows_among_many_are_folded_in(of_tastes):
    model, (users, items, _), meant = of_tastes
    likers = [user for user in range(60) if user % TASTES == 1]
    others = [user for user in range(60) if user % TASTES != 1] if meant == "missing" else []
    known = items[users == 0].tolist()
    # User 0, of taste 0, takes it all back; or likes another taste, too.
    changed = ([0] * len(known), known, [int(item % TASTES == 1) for item in known])
    new_item = likers + others, [FILMS] * len(likers + others), [1] * len(likers) + [0] * len(others)
    everything = list(range(FILMS))
    for what, new, pairs in [
        ("user", said_by("new", 1, meant), (["new"] * FILMS, everything)),
        ("item", new_item, (list(range(MANY)), [FILMS] * MANY)),
        (
            "corrections",
            changed if meant == "missing" else said_by(0, 1, meant, 20),
            ([0] * FILMS, everything),
        ),
    ]:
        folded, learned = model.fold_in(new, prior="fit"), copy.copy(model).partial_fit(new)
        assert learned.relative_gap_ <= learned.tol
        wanted, found = (one.decision_function(*pairs) for one in (folded, learned))
        # A like of a new item says where that is, and nothing about the user.
        assert np.abs(found - wanted).max() <= (0.15 if what == "item" else 0.1) * np.ptp(wanted), what
        if what != "corrections":
            # So little is new that the union is within the tolerance as it is. Lists have a closed form.
            assert learned.n_iter_ == 0 or meant == "negative", what
        else:
            assert np.abs(wanted - model.decision_function(*pairs)).max() > 0.3 * np.ptp(wanted)


def test_new_users_and_new_items_have_places_of_their_own(of_tastes):
    model, _, meant = of_tastes
    users, items, values = [], [], []
    for k in range(12):
        # The item is rated by new users alone, and these have rated known items.
        said = said_by(f"new {k}", k % TASTES, meant)
        for column, part in zip((users, items, values), said, strict=True):
            column.extend(part)
        if meant == "missing" or k % TASTES == 1:
            users.append(f"new {k}"), items.append(FILMS), values.append(int(k % TASTES == 1))
    learned = copy.copy(model).partial_fit((users, items, values))
    scores = learned.decision_function([f"new {k}" for k in range(12)], [FILMS] * 12)
    of_taste = np.arange(12) % TASTES == 1
    assert scores[of_taste].min() > scores[~of_taste].max()
    for k in range(4):
        # Ten of the twenty items of a taste are known to be liked; popularity would give a third of them.
        listed = learned.recommend(f"new {k}", n=8).items
        assert sum(item % TASTES == k % TASTES for item in listed) >= 7
