"""The recommender as a user meets it; what every recommender must do is in recommender_suite."""

from __future__ import annotations

import signal
from functools import cache

import numpy as np
import pandas
import pytest
import scipy.sparse as sp

from labelgap import ObservedLabels, Recommender, get_metric
from labelgap.exceptions import (
    InterruptedFitWarning,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    UninformativeLabelsWarning,
)
from labelgap.metrics import unlabelled_metric
from labelgap.solvers import FitListener
from recommender_suite import CHECKS, Case, check_recommender, example_answers

EXACT = {"trace_penalty": 0.003, "threshold": "train", "tol": 1e-8, "random_state": 0}
# Without a search, for where the search is not the point.
GIVEN = {"trace_penalty": 0.003, "random_state": 0}
CASE = Case(lambda: Recommender(**EXACT), example_answers(), tol=1e-3)


def like_and_dislike(n=60, n_items=25, rank=2, fraction=0.4, seed=0):
    """Answers of a low-rank truth with intercepts, and the truth."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n_items)) * 1.5
    Z = Z + rng.standard_normal((n, 1)) + rng.standard_normal(n_items)
    users, items = np.nonzero(rng.random(Z.shape) < fraction)
    return (users, items, (Z[users, items] >= 0).astype(int)), (Z >= 0).astype(int)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_suite(check):
    check(CASE)


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "squared"},
        {"ridge_penalty": 0.003},
        {"solver": "proximal", "tol": 1e-7},
        {"rank": 2},
    ],
    ids=lambda settings: "-".join(settings),
)
@pytest.mark.slow
def test_the_suite_with_other_settings(settings):
    # A gap of 1e-8 leaves some 1e-2 in the factors where the objective is flat.
    check_recommender(lambda: Recommender(**(EXACT | settings)), example_answers(seed=1), tol=3e-2)


def test_it_decides_what_it_has_not_seen():
    answers, truth = like_and_dislike()
    model = Recommender(random_state=0).fit(answers)
    unseen = np.ones(truth.shape, dtype=bool)
    unseen[answers[0], answers[1]] = False
    users, items = np.nonzero(unseen)
    decisions = model.predict(users, items)
    assert np.mean(decisions == truth[users, items]) > 0.8
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.held_out_metric_ == model.candidates_[-1].metric_value
    assert model.held_out_metric_ > 0.95 * max(c.metric_value for c in model.candidates_)


def test_every_form_of_answers_gives_the_same_model():
    (users, items, values), _ = like_and_dislike()
    matrix = sp.csr_array((values, (users, items)), shape=(60, 25))
    frame = pandas.DataFrame({"user": users, "item": items, "value": values})
    labels = ObservedLabels.from_triplets(users, items, values, shape=(60, 25))
    models = [Recommender(**EXACT).fit(form) for form in ((users, items, values), frame, matrix, labels)]
    pairs = np.arange(25), np.arange(25)
    for model in models[1:]:
        np.testing.assert_allclose(
            model.decision_function(*pairs), models[0].decision_function(*pairs), atol=1e-3
        )


def test_ratings_become_likes_by_the_rule():
    (users, items, values), _ = like_and_dislike()
    stars = np.where(values == 1, 4, 2)
    by_cut = Recommender(**EXACT, positive=3).fit((users, items, stars))
    by_rule = Recommender(**EXACT, positive=lambda r: r >= 3).fit((users, items, stars))
    plain = Recommender(**EXACT).fit((users, items, values))
    for model in (by_cut, by_rule):
        np.testing.assert_array_equal(model.user_factors_, plain.user_factors_)
    with pytest.raises(InvalidLabelsError, match="positive"):
        Recommender().fit((users, items, stars))


def test_the_user_intercept_is_part_of_the_score():
    answers, _ = like_and_dislike(seed=3)
    model = Recommender(**EXACT).fit(answers)
    np.testing.assert_allclose(
        model.user_intercept_, model.user_factors_ @ model.shared_item_factor_, atol=1e-12
    )
    # Users who like more have the larger intercept.
    likes = np.bincount(answers[0], weights=answers[2]) / np.bincount(answers[0])
    assert np.corrcoef(likes, model.user_intercept_)[0, 1] > 0.7
    without = Recommender(**EXACT, user_intercept=False).fit(answers)
    assert not without.user_intercept_.any()


def test_features_place_a_user_without_answers():
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 80)
    truth = (np.arange(20) % 2)[None, :] == kinds[:, None]
    users, items = np.nonzero(rng.random(truth.shape) < 0.3)
    answers = users[users < 70], items[users < 70], truth[users, items][users < 70].astype(int)
    features = {user: [float(kinds[user]), rng.standard_normal()] for user in range(80)}
    known = {user: features[user] for user in range(70)}
    model = Recommender(**GIVEN).fit(answers, user_features=known)
    later = model.fold_in(user_features={user: features[user] for user in range(70, 80)})
    decided = np.array([later.predict(user, np.arange(20)) for user in range(70, 80)])
    assert np.mean(decided == truth[70:]) > 0.95
    # Users with features and no answers may be there from the start too.
    at_once = Recommender(**GIVEN).fit(answers, user_features=features)
    assert at_once.user_ids_[-1] == 79
    assert np.mean([at_once.predict(u, np.arange(20)) == truth[u] for u in range(70, 80)]) > 0.95


def test_features_place_an_item_without_answers():
    rng = np.random.default_rng(1)
    kinds = np.arange(30) % 2
    truth = rng.integers(0, 2, 80)[:, None] == kinds[None, :]
    users, items = np.nonzero(rng.random(truth.shape) < 0.3)
    old = items < 25
    features = {item: [float(kinds[item])] for item in range(30)}
    answers = users[old], items[old], truth[users, items][old].astype(int)
    model = Recommender(**GIVEN).fit(answers, item_features={i: features[i] for i in range(25)})
    later = model.fold_in(item_features={i: features[i] for i in range(25, 30)})
    decided = np.array([later.predict(np.arange(80), item) for item in range(25, 30)]).T
    assert np.mean(decided == truth[:, 25:]) > 0.95


def test_features_are_refused_with_a_reason():
    answers, _ = like_and_dislike()
    with pytest.raises(InvalidFeaturesError, match="users with ratings have no features"):
        Recommender().fit(answers, user_features={0: [1.0]})
    with pytest.raises(InvalidFeaturesError, match="impute"):
        Recommender().fit(answers, user_features={u: [np.nan] for u in range(60)})
    with pytest.raises(InvalidFeaturesError, match=r"'kind' of the item features has the text .*encode them"):
        Recommender().fit(answers, item_features=pandas.DataFrame({"item": range(25), "kind": ["a"] * 25}))
    model = Recommender(**EXACT).fit(answers, user_features={u: [float(u), 1.0] for u in range(60)})
    with pytest.raises(InvalidFeaturesError, match="3 columns; the fit had 2"):
        model.fold_in(user_features={"new": [1.0, 2.0, 3.0]})


def test_an_item_without_answers_is_told_of():
    answers, _ = like_and_dislike()
    features = {item: [float(item % 3)] for item in range(26)}
    with pytest.warns(UninformativeLabelsWarning, match="1 of 26 items have no rating"):
        Recommender(**EXACT).fit(answers, item_features=features)


def test_likes_alone_need_to_say_what_silence_means():
    (users, items, values), _ = like_and_dislike()
    likes = users[values == 1], items[values == 1]
    with pytest.raises(InvalidLabelsError, match="unlabelled"):
        Recommender().fit(likes)
    model = Recommender(unobserved="unlabelled", flip_rate=0.4, **GIVEN).fit(likes)
    assert model.answers_.unobserved == "unlabelled"
    assert model.flip_rate_ == 0.4


def test_likes_and_silence():
    rng = np.random.default_rng(2)
    _, truth = like_and_dislike(n=150, n_items=40, seed=2)
    recorded = (truth == 1) & (rng.random(truth.shape) < 0.3)
    likes = sp.csr_array(recorded.astype(int))
    model = Recommender(unobserved="unlabelled", flip_rate=0.7, **GIVEN).fit(likes)
    negative = Recommender(unobserved="negative", loss="logistic", **GIVEN).fit(likes)

    def f1(one):
        decided = one.decide_matrix().toarray()
        return 2 * np.sum(decided * truth) / (decided.sum() + truth.sum())

    assert f1(model) > f1(negative)
    # A user folded in with all likes of one in training gets the same factors.
    user = 7
    liked = np.flatnonzero(recorded[user]).tolist()
    later = model.fold_in((["twin"] * len(liked), liked))
    pair = (
        later.decision_function("twin", list(model.item_ids_)),
        model.decision_function(user, list(model.item_ids_)),
    )
    np.testing.assert_allclose(*pair, atol=0.1)


def test_a_recorded_like_is_a_yes_whatever_its_score():
    rng = np.random.default_rng(4)
    _, truth = like_and_dislike(seed=4)
    recorded = (truth == 1) & (rng.random(truth.shape) < 0.7)
    model = Recommender(unobserved="unlabelled", flip_rate=0.3, trace_penalty=0.01, random_state=0)
    model.fit(sp.csr_array(recorded.astype(int)))
    users, items = np.nonzero(recorded)
    low = np.flatnonzero(model.decision_function(users, items) < model.threshold_)
    assert len(low)
    assert model.predict(users, items).all()
    assert model.score((users, items, np.ones(len(users))), unobserved="missing") == 1.0
    user, item = int(users[low[0]]), int(items[low[0]])
    assert "the like is recorded, though the score" in str(model.explain(user, item))
    everything = model.recommend(user, n=25, exclude_seen=False)
    assert everything.decisions[list(everything.items).index(item)] == 1
    batch = model.recommend_batch([user], n=25, exclude_seen=False)
    np.testing.assert_array_equal(batch.decisions[0], everything.decisions)
    decided = model.decide()
    assert item in decided[user]
    assert item not in model.decide(user, exclude_seen=True)[user]
    expected = model.predict(np.repeat(np.arange(60), 25), np.tile(np.arange(25), 60)).reshape(60, 25)
    np.testing.assert_array_equal(model.decide_matrix().toarray(), expected)
    np.testing.assert_array_equal(model.decide_matrix([3, 5]).toarray(), expected[[3, 5]])
    assert {u: sorted(liked) for u, liked in decided.items()} == {
        u: np.flatnonzero(expected[u]).tolist() for u in range(60)
    }
    # Best first among those above the threshold, then the recorded ones below it.
    scores = model.decision_function(user, decided[user])
    above = scores >= model.threshold_
    assert (np.diff(above.astype(int)) <= 0).all()
    assert (np.diff(scores) <= 0).all()


def test_flip_rates_per_item_go_with_new_users_and_items():
    rng = np.random.default_rng(0)
    _, truth = like_and_dislike()
    likes = sp.csr_array(((truth == 1) & (rng.random(truth.shape) < 0.6)).astype(int))
    rates = np.linspace(0.3, 0.45, 25)
    model = Recommender(
        unobserved="unlabelled", flip_rate=rates, trace_penalty=0.005, random_state=0, threshold="train"
    ).fit(likes)
    np.testing.assert_array_equal(model.flip_rate_, rates)
    grown = model.fold_in(([0, 1, 2], ["new"] * 3)).fold_in((["twin"] * 2, [3, "new"]))
    assert np.isfinite(grown.decision_function("twin", ["new", 4])).all()
    assert grown.explain("twin", "new").unexplained == pytest.approx(0.0, abs=1e-6)


def test_bad_settings_are_refused():
    answers, _ = like_and_dislike()
    with pytest.raises(InvalidParameterError, match="flip_rate"):
        Recommender(flip_rate=0.3).fit(answers)
    with pytest.raises(InvalidParameterError, match="propensities were given but weights is None"):
        Recommender().fit(answers, propensities=np.full((60, 25), 0.4))
    with pytest.raises(InvalidParameterError, match="fixed rank"):
        Recommender(solver="alternating").fit(answers)


def test_weights_by_inverse_propensity_change_the_fit():
    answers, _ = like_and_dislike()
    plain = Recommender(**EXACT).fit(answers)
    order = np.ix_(plain.user_ids_, plain.item_ids_)
    p = np.random.default_rng(0).uniform(0.2, 0.9, (60, 25))
    weighted = Recommender(**EXACT, weights="inverse-propensity").fit(answers, propensities=p)
    labels = weighted.answers_
    np.testing.assert_allclose(
        labels.weights * p[order][labels.rows, labels.cols],
        labels.weights[0] * p[order][labels.rows[0], labels.cols[0]],
    )
    assert np.abs(weighted.item_intercept_ - plain.item_intercept_).max() > 1e-3


def shuffled(answers, seed=0):
    order = np.random.default_rng(seed).permutation(len(answers[0]))
    return tuple(part[order] for part in answers)


def same_scores(one, other, items=(0, 1, 2), atol=1e-3):
    np.testing.assert_allclose(
        one.decision_function(3, list(items)), other.decision_function(3, list(items)), atol=atol
    )


def test_propensities_belong_to_ids_and_not_to_lines():
    answers, _ = like_and_dislike()
    p = np.random.default_rng(1).uniform(0.2, 0.9, (60, 25))
    by_pair = {(u, i): p[u, i] for u, i in zip(answers[0].tolist(), answers[1].tolist(), strict=True)}

    def fitted(lines, propensities):
        return Recommender(**EXACT, weights="inverse-propensity").fit(lines, propensities=propensities)

    plain = fitted(answers, p)
    same_scores(plain, fitted(shuffled(answers), p))
    same_scores(plain, fitted(shuffled(answers, 1), by_pair))
    same_scores(plain, fitted(answers, sp.csr_array(p)))
    with pytest.raises(InvalidInputError, match="a mapping from"):
        fitted(answers, p[answers[0], answers[1]])
    with pytest.raises(InvalidInputError, match="no propensity of the pair"):
        fitted(answers, {(0, 0): 0.5})
    named = (answers[0].astype(str), answers[1], answers[2])
    with pytest.raises(InvalidParameterError, match="'0' is no user id"):
        fitted(named, p)


def test_flip_rates_belong_to_ids():
    (users, items, values), _ = like_and_dislike()
    likes = users[values == 1], items[values == 1]
    rates = np.linspace(0.05, 0.3, 25)

    def fitted(lines, flip_rate):
        settings = EXACT | {"unobserved": "unlabelled", "flip_rate": flip_rate, "tol": 1e-6}
        return Recommender(**settings).fit(lines)

    plain = fitted(likes, rates)
    np.testing.assert_allclose(plain.flip_rate_, rates[list(plain.item_ids_)])
    same_scores(plain, fitted(shuffled(likes), rates))
    same_scores(plain, fitted(shuffled(likes), dict(enumerate(rates))))
    with pytest.raises(InvalidParameterError, match="no rate for the item"):
        fitted(likes, {0: 0.5})
    with pytest.raises(InvalidParameterError, match="is no item id"):
        fitted((likes[0], likes[1].astype(str)), rates)


def test_features_of_new_users_go_by_the_names_of_their_columns():
    answers, _ = like_and_dislike()
    frame = pandas.DataFrame({"user": range(60), "a": np.arange(60.0), "b": np.arange(60.0) ** 2 % 7})
    model = Recommender(**EXACT).fit(answers, user_features=frame)
    new = pandas.DataFrame({"user": ["z"], "b": [1.0], "a": [0.0]})
    scores = [
        model.fold_in(user_features=form).decision_function("z", [0, 1])
        for form in (new, new[["user", "a", "b"]], {"z": [0.0, 1.0]})
    ]
    np.testing.assert_allclose(scores[0], scores[1])
    np.testing.assert_allclose(scores[0], scores[2])
    with pytest.raises(InvalidFeaturesError, match="have the columns 'c'; the fit had 'a', 'b'"):
        model.fold_in(user_features=pandas.DataFrame({"user": ["z"], "c": [1.0]}))


def test_a_score_over_likes_alone_does_not_reward_yes_to_everything():
    rng = np.random.default_rng(0)
    _, truth = like_and_dislike()
    recorded = (truth == 1) & (rng.random(truth.shape) < 0.7)
    likes = sp.csr_array(recorded.astype(int))
    loose = EXACT | {"tol": 1e-6}
    model = Recommender(**(loose | {"unobserved": "unlabelled", "flip_rate": 0.1})).fit(likes)
    decided = model.decide_matrix()
    assert model.score(likes) == pytest.approx(unlabelled_metric("micro-f1", recorded, decided, 0.1))
    complete = ObservedLabels.from_dense(truth)
    true = 2 * np.sum(decided.toarray() * truth) / (decided.sum() + truth.sum())
    assert model.score(complete, unobserved="missing") == pytest.approx(true)
    before = model.score(likes)
    model.threshold_ = -np.inf
    assert model.score(likes) < before < 1
    negative = Recommender(**(loose | {"unobserved": "negative"})).fit(likes)
    assert negative.score(likes) == pytest.approx(
        get_metric("micro-f1")(recorded.astype(int), negative.decide_matrix().toarray())
    )
    with pytest.raises(InvalidParameterError, match="no flip rate"):
        negative.score(likes, unobserved="unlabelled")


def test_dislikes_are_not_taken_for_silence():
    answers, _ = like_and_dislike()
    with pytest.raises(InvalidLabelsError, match="ratings are dislikes"):
        Recommender(unobserved="unlabelled", flip_rate=0.3).fit(answers)


def skewed_answers(n=80, n_items=30, seed=0):
    """A few users and items have most of the answers."""
    rng = np.random.default_rng(seed)
    chance = np.outer(rng.pareto(1.0, n) + 0.1, rng.pareto(1.0, n_items) + 0.1)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items))
    users, items = np.nonzero(rng.random(Z.shape) < np.minimum(chance / 2, 0.9))
    return users, items, (rng.random(len(users)) < 1 / (1 + np.exp(-2 * Z[users, items]))).astype(int)


@pytest.mark.parametrize("solver", ["factored", "alternating"])
def test_the_penalty_may_grow_with_the_number_of_answers(solver):
    answers = skewed_answers()
    model = Recommender(
        trace_penalty=0.01, count_weighting=0.75, tol=1e-8, threshold="train", solver=solver, rank=6
    ).fit(answers)
    # A user's factors are what its own answers make of them, at the penalty of so many answers.
    for user in model.user_ids_[:10]:
        assert model.explain(user, model.item_ids_[0]).unexplained == pytest.approx(0.0, abs=2e-3)
    mine = answers[0] == model.user_ids_[3]
    again = model.fold_in(tuple(part[mine] for part in answers))
    np.testing.assert_allclose(again.user_factors_, model.user_factors_, atol=2e-3)
    ratings = (["twin"] * int(mine.sum()), answers[1][mine].tolist(), answers[2][mine].tolist())
    twin = model.fold_in(ratings, prior="fit")
    np.testing.assert_allclose(twin.user_factors_[-1], model.user_factors_[3], atol=2e-3)


def test_weighting_by_counts_is_a_trace_norm_in_other_units():
    answers = skewed_answers(seed=1)
    settings = {"trace_penalty": 0.002, "tol": 1e-6, "threshold": "train", "user_intercept": False}
    plain, weighted = (Recommender(count_weighting=power, **settings).fit(answers) for power in (0.0, 1.0))
    assert weighted.duality_gap_ <= 1e-6 * weighted.objective_
    labels = plain.answers_
    mass = [counts / counts.mean() for counts in (labels.row_counts(), labels.label_counts())]
    W = weighted.user_factors_ @ weighted.item_factors_.T
    scaled = np.sqrt(mass[0])[:, None] * W * np.sqrt(mass[1])
    values = np.linalg.svd(scaled, compute_uv=False)
    np.testing.assert_allclose(values[: weighted.rank_], weighted.singular_values_, rtol=1e-6)
    assert not np.allclose(plain.predict_proba(*answers[:2]), weighted.predict_proba(*answers[:2]))


@pytest.mark.parametrize("power", [-0.1, 1.5, "much", None, np.nan])
def test_a_power_of_counts_is_from_0_to_1(power):
    with pytest.raises(InvalidParameterError, match="count_weighting must be a number from 0 to 1"):
        Recommender(count_weighting=power).fit(skewed_answers())


# -- the choice of a count weighting -------------------------------------------------------------------------


FEW = skewed_answers(40, 15)


@cache
def searched():
    """The model of all defaults, fitted once for tests that compare with it."""
    return Recommender(random_state=0).fit(FEW)


def test_the_count_weighting_is_chosen_with_the_penalty():
    model = searched()
    tried = {candidate.count_weighting for candidate in model.candidates_}
    assert {0.75, 1.0} <= tried <= {0.0, 0.5, 0.75, 1.0}
    assert model.candidates_[-1].count_weighting == model.count_weighting_
    # It is the model that its own weighting gives.
    given = Recommender(
        random_state=0,
        count_weighting=model.count_weighting_,
        trace_penalty=model.trace_penalty_,
        implicit_feedback=True,
        intercept_penalty=model.intercept_penalty_,
        tol=1e-6,
    ).fit(FEW)
    assert model.objective_ - model.duality_gap_ <= given.objective_ + 1e-9
    assert given.objective_ <= model.objective_ + 1e-9
    assert given.count_weighting_ == model.count_weighting_
    assert {candidate.count_weighting for candidate in given.candidates_} == {None}


def test_a_penalty_that_is_given_is_of_the_plain_trace_norm():
    assert Recommender(random_state=0, trace_penalty=0.02).fit(FEW).count_weighting_ == 0.0


def test_likes_alone_have_no_weighting():
    users, items, values = FEW
    model = Recommender(random_state=0, unobserved="unlabelled", flip_rate=0.2)
    assert model.fit((users[values == 1], items[values == 1])).count_weighting_ == 0.0


def test_an_unknown_word_for_the_count_weighting_is_refused():
    with pytest.raises(InvalidParameterError, match="count_weighting must be a number from 0 to 1"):
        Recommender(count_weighting="automatic").fit(FEW)


class Interruption(Exception):
    """Ends a fit from its callback."""


class StopAt(FitListener):
    """Does something when a candidate of this number is judged."""

    def __init__(self, number, act):
        self.number, self.act, self.judged = number, act, []

    def candidate(self, candidate):
        self.judged.append(candidate)
        if len(self.judged) == self.number:
            self.act()


def interrupt():
    raise Interruption


@pytest.mark.slow
@pytest.mark.parametrize(
    "when", ["within", *(pytest.param(when, marks=pytest.mark.slow) for when in ("before", "at the end"))]
)
def test_a_fit_resumes_while_the_weightings_are_compared(when, tmp_path):
    whole = searched()
    first_other = [c.count_weighting for c in whole.candidates_].index(1.0)
    stops = {"before": first_other, "within": first_other + 1, "at the end": len(whole.candidates_)}
    with pytest.raises(Interruption):
        Recommender(random_state=0).fit(FEW, callback=StopAt(stops[when], interrupt), checkpoint=tmp_path)
    again = Recommender(random_state=0).fit(FEW, checkpoint=tmp_path)
    assert again.candidates_ == whole.candidates_
    np.testing.assert_array_equal(again.user_factors_, whole.user_factors_)


@pytest.mark.usefixtures("default_interrupts")
def test_a_fit_that_is_stopped_while_the_weightings_are_compared_keeps_the_best_so_far():
    whole = searched()
    first_other = [c.count_weighting for c in whole.candidates_].index(1.0)
    before = whole.candidates_[:first_other]
    # Ctrl-C after the last candidate of the search: the next comparison is never finished.
    listener = StopAt(first_other, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.warns(InterruptedFitWarning):
        model = Recommender(random_state=0).fit(FEW, callback=listener)
    assert model.count_weighting_ == 0.75
    assert model.trace_penalty_ in {c.penalties.trace for c in before}
    best = max(c.metric_value for c in before)
    chosen = max(c.metric_value for c in before if c.penalties.trace == model.trace_penalty_)
    assert chosen == best


def test_what_is_said_names_the_weighting(capsys):
    Recommender(random_state=0, verbose=1).fit(FEW)
    printed = capsys.readouterr().out
    assert "count weighting 0.75: held-out metric" in printed
    assert "count weighting 1: held-out metric" in printed
