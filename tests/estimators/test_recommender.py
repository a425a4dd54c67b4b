"""The recommender as a user meets it; what every kind of recommender must do is in recommender_suite."""

from __future__ import annotations

import signal
from functools import cache

import numpy as np
import pandas
import polars
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
from recommender_suite import CHECKS, EXACT, KINDS, SLOW_KINDS, makes_no_array_of_users_by_items

DECIDE = EXACT | {"trace_penalty": 0.003, "tol": 1e-6}
# With a threshold from held-out ratings, and no other search.
GIVEN = {"trace_penalty": 0.003, "random_state": 0}


@pytest.mark.parametrize(
    "kind", [*KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW_KINDS)]
)
def test_the_suite(kind):
    for check in CHECKS:
        check((KINDS | SLOW_KINDS)[kind])


@pytest.mark.parametrize(("kind", "part"), [("decide", 1 / 3), ("lists", 1.0)])
def test_memory(kind, part):
    makes_no_array_of_users_by_items(KINDS[kind], part)


def like_and_dislike(n=60, n_items=25, rank=2, fraction=0.4, seed=0):
    """Answers of a low-rank truth with intercepts, and the truth."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n_items)) * 1.5
    Z = Z + rng.standard_normal((n, 1)) + rng.standard_normal(n_items)
    users, items = np.nonzero(rng.random(Z.shape) < fraction)
    return (users, items, (Z[users, items] >= 0).astype(int)), (Z >= 0).astype(int)


def recorded_likes(fraction, seed=0, **shape):
    """The truth, and the fraction of its likes that was recorded."""
    _, truth = like_and_dislike(seed=seed, **shape)
    return truth, (truth == 1) & (np.random.default_rng(seed).random(truth.shape) < fraction)


def skewed_answers(n=80, n_items=30, seed=0):
    """A few users and items have most of the answers."""
    rng = np.random.default_rng(seed)
    chance = np.outer(rng.pareto(1.0, n) + 0.1, rng.pareto(1.0, n_items) + 0.1)
    Z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items))
    users, items = np.nonzero(rng.random(Z.shape) < np.minimum(chance / 2, 0.9))
    return users, items, (rng.random(len(users)) < 1 / (1 + np.exp(-2 * Z[users, items]))).astype(int)


FEW = skewed_answers(40, 15)


@cache
def searched():
    """The model of all defaults, fitted once for tests that compare with it."""
    return Recommender(random_state=0).fit(FEW)


def test_it_decides_what_it_has_not_seen():
    answers, truth = like_and_dislike()
    model = Recommender(**GIVEN).fit(answers)
    unseen = np.ones(truth.shape, dtype=bool)
    unseen[answers[0], answers[1]] = False
    users, items = np.nonzero(unseen)
    decisions = model.predict(users, items)
    assert np.mean(decisions == truth[users, items]) > 0.8
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.held_out_metric_ > 0.7


def test_every_form_of_answers_gives_the_same_model():
    (users, items, values), _ = like_and_dislike()
    stars = np.where(values == 1, 4, 2)
    columns = {"user": users, "item": items, "value": values}
    plain = Recommender(**DECIDE).fit((users, items, values))
    expected = plain.decision_function(np.arange(25), np.arange(25))
    forms = {
        "pandas": (pandas.DataFrame(columns), {}),
        "polars": (polars.DataFrame(columns), {}),
        "matrix": (sp.csr_array((values, (users, items)), shape=(60, 25)), {}),
        "labels": (ObservedLabels.from_triplets(users, items, values, shape=(60, 25)), {}),
        "texts": ((users.astype(str), [f"{item}" for item in items], values), {}),
        "a cut": ((users, items, stars), {"positive": 3}),
        "a rule": ((users, items, stars), {"positive": lambda value: value >= 3}),
        "names": (
            pandas.DataFrame({"who": users, "what": items, "stars": stars}),
            {"user": "who", "item": "what", "value": "stars", "positive": 3},
        ),
    }
    for name, (form, settings) in forms.items():
        model = Recommender(**DECIDE, **settings).fit(form)
        ids = [str(i) for i in range(25)] if name == "texts" else np.arange(25)
        np.testing.assert_allclose(model.decision_function(ids, ids), expected, atol=1e-2, err_msg=name)
    with pytest.raises(InvalidLabelsError, match="positive"):
        Recommender().fit((users, items, stars))


def test_the_user_intercept_is_part_of_the_score():
    answers, _ = like_and_dislike(seed=3)
    model = Recommender(**DECIDE).fit(answers)
    np.testing.assert_allclose(
        model.user_intercept_, model.user_factors_ @ model.shared_item_factor_, atol=1e-12
    )
    # Users who like more have the larger intercept.
    likes = np.bincount(answers[0], weights=answers[2]) / np.bincount(answers[0])
    assert np.corrcoef(likes, model.user_intercept_)[0, 1] > 0.7
    assert not Recommender(**DECIDE, user_intercept=False).fit(answers).user_intercept_.any()


# -- features ----------------------------------------------------------------------------------------------


def test_features_place_users_and_items_without_answers():
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 80)
    truth = (np.arange(20) % 2)[None, :] == kinds[:, None]
    users, items = np.nonzero(rng.random(truth.shape) < 0.4)
    here = users < 70
    liked = truth[users, items].astype(int)
    features = {user: [float(kinds[user]), rng.standard_normal()] for user in range(80)}
    known, new = ({user: features[user] for user in part} for part in (range(70), range(70, 80)))
    answers = users[here], items[here], liked[here]
    later = Recommender(**GIVEN).fit(answers, user_features=known).fold_in(user_features=new)
    # Users with features and no answers may be there from the start too.
    at_once = Recommender(**GIVEN).fit(answers, user_features=features)
    assert at_once.user_ids_[-1] == 79
    for model in (later, at_once):
        decided = np.array([model.predict(user, np.arange(20)) for user in range(70, 80)])
        assert np.mean(decided == truth[70:]) > 0.95
    # The same the other way round: users are items.
    flipped = Recommender(**GIVEN).fit((items[here], users[here], liked[here]), item_features=known)
    flipped = flipped.fold_in(item_features=new)
    decided = np.array([flipped.predict(np.arange(20), item) for item in range(70, 80)])
    assert np.mean(decided == truth[70:]) > 0.95


def test_features_of_new_users_come_in_every_form():
    answers, _ = like_and_dislike()
    frame = pandas.DataFrame({"user": range(60), "a": np.arange(60.0), "b": np.arange(60.0) ** 2 % 7})
    model = Recommender(**DECIDE).fit(answers, user_features=frame)
    new = pandas.DataFrame({"user": ["z", "y"], "b": [1.0, 2.0], "a": [0.0, 3.0]})
    forms = {
        "frame": new,
        "in order": new[["user", "a", "b"]],
        "index": new.set_index("user"),
        "polars": polars.from_pandas(new),
        "mapping": {"z": [0.0, 1.0], "y": [3.0, 2.0]},
    }
    expected = None
    for name, form in forms.items():
        later = model.fold_in(user_features=form)
        assert later.user_ids_[-2:] == ("z", "y")
        scores = later.decision_function("z", [0, 1])
        expected = scores if expected is None else expected
        np.testing.assert_allclose(scores, expected, err_msg=name)
    # A rating says more than the features alone.
    rated = model.fold_in((["z"], [0], [1]), user_features={"z": [0.0, 1.0]})
    assert rated.decision_function("z", 0) > expected[0]
    why = rated.explain("z", 5)
    assert why.from_features != 0
    assert "the user's features" in str(why)


def test_features_are_refused_with_a_reason():
    answers, _ = like_and_dislike()
    rows = {user: [float(user), 1.0] for user in range(60)}
    kinds = pandas.DataFrame({"item": range(25), "kind": ["a"] * 25})
    for features, message in [
        ({"user_features": {0: [1.0]}}, "users with ratings have no features"),
        ({"user_features": {u: [np.nan] for u in range(60)}}, "impute"),
        ({"item_features": kinds}, r"'kind' of the item features has the text .*encode them"),
    ]:
        with pytest.raises(InvalidFeaturesError, match=message):
            Recommender().fit(answers, **features)
    plain = Recommender(**DECIDE).fit(answers)
    model = Recommender(**DECIDE).fit(answers, user_features=rows)
    named = Recommender(**DECIDE).fit(
        answers, user_features=pandas.DataFrame({"user": range(60), "a": 1.0, "b": np.arange(60.0)})
    )
    twice = pandas.DataFrame({"user": ["p", "p"], "x": [1, 2], "y": [1, 2]})
    for fitted, features, message in [
        (model, {"new": [1.0, 2.0, 3.0]}, "3 columns; the fit had 2"),
        (model, {0: [1.0, 2.0]}, "is known already; features are taken of new users"),
        (model, {"p": [1.0], "q": [1.0, 2.0]}, "one row of numbers for each user"),
        (model, np.ones((2, 2)), "a mapping from id to row, or as a frame .* got ndarray"),
        (model, polars.DataFrame({"x": [1.0]}), "no column 'user'"),
        (model, twice, "two rows .* of user 'p'"),
        (named, pandas.DataFrame({"user": ["z"], "c": [1.0]}), "columns 'c'; the fit had 'a', 'b'"),
        (plain, {"p": [1.0]}, "fitted without user features"),
    ]:
        with pytest.raises((InvalidFeaturesError, InvalidInputError), match=message):
            fitted.fold_in(user_features=features)
    with pytest.raises(InvalidFeaturesError, match="fitted without item features"):
        plain.fold_in(item_features={"p": [1.0]})
    with pytest.warns(UninformativeLabelsWarning, match="1 of 26 items have no rating"):
        Recommender(**DECIDE).fit(answers, item_features={item: [float(item % 3)] for item in range(26)})


# -- likes alone -------------------------------------------------------------------------------------------


def test_likes_and_silence():
    truth, recorded = recorded_likes(0.3, seed=2, n=150, n_items=40)
    likes = sp.csr_array(recorded.astype(int))
    settings = GIVEN | {"threshold": "train"}
    model = Recommender(unobserved="unlabelled", flip_rate=0.7, **settings).fit(likes)
    negative = Recommender(unobserved="negative", loss="logistic", **settings).fit(likes)
    assert model.answers_.unobserved == "unlabelled"
    assert model.flip_rate_ == 0.7
    scores = [get_metric("micro-f1")(truth, one.decide_matrix().toarray()) for one in (model, negative)]
    assert scores[0] > scores[1]


def test_a_recorded_like_is_a_yes_whatever_its_score():
    _, recorded = recorded_likes(0.7, seed=4)
    settings = GIVEN | {"trace_penalty": 0.01, "flip_rate": 0.3, "unobserved": "unlabelled"}
    model = Recommender(**settings).fit(sp.csr_array(recorded.astype(int)))
    users, items = np.nonzero(recorded)
    low = np.flatnonzero(model.decision_function(users, items) < model.threshold_)
    assert len(low)
    assert model.predict(users, items).all()
    assert model.score((users, items, np.ones(len(users))), unobserved="missing") == 1.0
    user, item = int(users[low[0]]), int(items[low[0]])
    assert "the like is recorded, though the score" in str(model.explain(user, item))
    assert item in model.decide()[user]
    assert item not in model.decide(user, exclude_seen=True)[user]
    assert model.decide_matrix([user]).toarray()[0, item] == 1


def test_a_score_over_likes_alone_does_not_reward_yes_to_everything():
    truth, recorded = recorded_likes(0.7)
    likes = sp.csr_array(recorded.astype(int))
    model = Recommender(**DECIDE, unobserved="unlabelled", flip_rate=0.1).fit(likes)
    decided = model.decide_matrix()
    assert model.score(likes) == pytest.approx(unlabelled_metric("micro-f1", recorded, decided, 0.1))
    true = get_metric("micro-f1")(truth, decided.toarray())
    assert model.score(ObservedLabels.from_dense(truth), unobserved="missing") == pytest.approx(true)
    before = model.score(likes)
    model.threshold_ = -np.inf
    assert model.score(likes) < before < 1


def test_flip_rates_belong_to_ids():
    (users, items, values), _ = like_and_dislike()
    likes = users[values == 1], items[values == 1]
    rates = np.linspace(0.05, 0.3, 25)

    def fitted(lines, flip_rate):
        return Recommender(**DECIDE, unobserved="unlabelled", flip_rate=flip_rate).fit(lines)

    plain = fitted(likes, rates)
    np.testing.assert_allclose(plain.flip_rate_, rates[list(plain.item_ids_)])
    same_scores(plain, fitted(shuffled(likes), rates))
    same_scores(plain, fitted(shuffled(likes), dict(enumerate(rates))))
    grown = plain.fold_in(([0, 1, 2], ["new"] * 3)).fold_in((["twin"] * 2, [3, "new"]))
    assert np.isfinite(grown.decision_function("twin", ["new", 4])).all()
    assert grown.explain("twin", "new").unexplained == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(InvalidParameterError, match="no rate for the item"):
        fitted(likes, {0: 0.5})
    with pytest.raises(InvalidParameterError, match="is no item id"):
        fitted((likes[0], likes[1].astype(str)), rates)


# -- settings ----------------------------------------------------------------------------------------------


def test_bad_settings_are_refused():
    answers, _ = like_and_dislike()
    likes = tuple(part[answers[2] == 1] for part in answers[:2])
    p = np.full((60, 25), 0.4)
    for settings, ratings, fit, error, message in [
        ({"flip_rate": 0.3}, answers, {}, InvalidParameterError, "flip_rate"),
        ({}, answers, {"propensities": p}, InvalidParameterError, "were given but weights is None"),
        ({"solver": "alternating"}, answers, {}, InvalidParameterError, "fixed rank"),
        ({}, likes, {}, InvalidLabelsError, "unlabelled"),
        ({"unobserved": "unlabelled", "flip_rate": 0.3}, answers, {}, InvalidLabelsError, "are dislikes"),
        ({"warm_start": 2}, answers, {}, InvalidParameterError, "warm_start must be True or False"),
        ({"implicit_feedback": "yes"}, answers, {}, InvalidParameterError, "must be True, False or 'auto'"),
        *(
            ({"count_weighting": power}, answers, {}, InvalidParameterError, "must be a number from 0 to 1")
            for power in (-0.1, 1.5, "automatic", None, np.nan)
        ),
    ]:
        with pytest.raises(error, match=message):
            Recommender(**settings).fit(ratings, **fit)
    negative = Recommender(**DECIDE, unobserved="negative").fit(likes)
    with pytest.raises(InvalidParameterError, match="no flip rate"):
        negative.score(likes, unobserved="unlabelled")


def shuffled(answers, seed=0):
    order = np.random.default_rng(seed).permutation(len(answers[0]))
    return tuple(part[order] for part in answers)


def same_scores(one, other, items=(0, 1, 2), atol=1e-2):
    np.testing.assert_allclose(
        one.decision_function(3, list(items)), other.decision_function(3, list(items)), atol=atol
    )


def test_weights_by_inverse_propensity_belong_to_ids_and_not_to_lines():
    answers, _ = like_and_dislike()
    p = np.random.default_rng(1).uniform(0.2, 0.9, (60, 25))
    by_pair = {(u, i): p[u, i] for u, i in zip(answers[0].tolist(), answers[1].tolist(), strict=True)}

    def fitted(lines, propensities):
        return Recommender(**DECIDE, weights="inverse-propensity").fit(lines, propensities=propensities)

    plain = fitted(answers, p)
    labels, order = plain.answers_, np.ix_(plain.user_ids_, plain.item_ids_)
    shares = labels.weights * p[order][labels.rows, labels.cols]
    np.testing.assert_allclose(shares, shares[0])
    assert np.abs(Recommender(**DECIDE).fit(answers).item_intercept_ - plain.item_intercept_).max() > 1e-3
    same_scores(plain, fitted(shuffled(answers), p))
    same_scores(plain, fitted(shuffled(answers, 1), by_pair))
    same_scores(plain, fitted(answers, sp.csr_array(p)))
    # Weights count in explanations and fold-ins.
    assert plain.explain(0, 3).unexplained == pytest.approx(0.0, abs=1e-2)
    mine = answers[0] == 5
    updated = plain.fold_in(labels.take_rows([plain.user_ids_.index(5)]))
    same_scores(updated, plain.fold_in(tuple(part[mine] for part in answers)), atol=0.3)
    named = (answers[0].astype(str), answers[1], answers[2])
    for lines, propensities, error, message in [
        (answers, p[answers[0], answers[1]], InvalidInputError, "a mapping from"),
        (answers, {(0, 0): 0.5}, InvalidInputError, "no propensity of the pair"),
        (named, p, InvalidParameterError, "'0' is no user id"),
    ]:
        with pytest.raises(error, match=message):
            fitted(lines, propensities)


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


# -- the choice of a count weighting -----------------------------------------------------------------------


def test_the_count_weighting_is_chosen_with_the_penalty(capsys):
    model = searched()
    tried = {candidate.count_weighting for candidate in model.candidates_}
    assert {0.75, 1.0} <= tried <= {0.0, 0.5, 0.75, 1.0}
    assert model.candidates_[-1].count_weighting == model.count_weighting_
    assert model.held_out_metric_ == model.candidates_[-1].metric_value
    assert model.held_out_metric_ > 0.95 * max(c.metric_value for c in model.candidates_)
    # It is the model that its own weighting gives.
    given = Recommender(
        random_state=0,
        count_weighting=model.count_weighting_,
        trace_penalty=model.trace_penalty_,
        implicit_feedback=True,
        intercept_penalty=model.intercept_penalty_,
        tol=1e-6,
        verbose=1,
    ).fit(FEW)
    assert capsys.readouterr().out
    assert model.objective_ - model.duality_gap_ <= given.objective_ + 1e-9
    assert given.objective_ <= model.objective_ + 1e-9
    # A penalty that is given is of the plain trace norm, and likes alone have no weighting.
    assert Recommender(random_state=0, trace_penalty=0.02).fit(FEW).count_weighting_ == 0.0
    likes = FEW[0][FEW[2] == 1], FEW[1][FEW[2] == 1]
    unlabelled = Recommender(**GIVEN, unobserved="unlabelled", flip_rate=0.2).fit(likes)
    assert unlabelled.count_weighting_ == 0.0


def test_neither_threads_nor_checkpoints_show(monkeypatch, tmp_path):
    monkeypatch.setenv("LABELGAP_NUM_THREADS", "1")
    whole = searched()
    monkeypatch.setenv("LABELGAP_NUM_THREADS", "2")
    again = Recommender(random_state=0).fit(FEW, checkpoint=tmp_path / "fit")
    assert repr(again.candidates_) == repr(whole.candidates_)
    np.testing.assert_array_equal(again.item_factors_, whole.item_factors_)


class Interruption(Exception):
    """Ends a fit from its callback."""


class StopAt(FitListener):
    """Does something when a candidate of this number is judged."""

    def __init__(self, number, act):
        self.number, self.act, self.judged = number, act, 0

    def candidate(self, candidate):
        self.judged += 1
        if self.judged == self.number:
            self.act()


def interrupt():
    raise Interruption


@pytest.mark.slow
def test_a_fit_resumes_while_the_weightings_are_compared(tmp_path):
    whole = searched()
    first_other = [c.count_weighting for c in whole.candidates_].index(1.0)
    for stop in (first_other, first_other + 1, len(whole.candidates_)):
        folder = tmp_path / str(stop)
        with pytest.raises(Interruption):
            Recommender(random_state=0).fit(FEW, callback=StopAt(stop, interrupt), checkpoint=folder)
        again = Recommender(random_state=0).fit(FEW, checkpoint=folder)
        assert again.candidates_ == whole.candidates_
        np.testing.assert_array_equal(again.user_factors_, whole.user_factors_)


@pytest.mark.usefixtures("default_interrupts")
def test_a_fit_that_is_stopped_keeps_the_best_so_far(capsys):
    whole = searched()
    first_other = [c.count_weighting for c in whole.candidates_].index(1.0)
    before = whole.candidates_[:first_other]
    # Ctrl-C after the last candidate of the search: the next comparison is never finished.
    listener = StopAt(first_other, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.warns(InterruptedFitWarning):
        model = Recommender(random_state=0, verbose=1).fit(FEW, callback=listener)
    assert "count weighting 0.75: held-out metric" in capsys.readouterr().out
    assert model.count_weighting_ == 0.75
    chosen = max(c.metric_value for c in before if c.penalties.trace == model.trace_penalty_)
    assert chosen == max(c.metric_value for c in before)
    assert len(model.recommend(model.user_ids_[0]))


# -- the choice for lists ----------------------------------------------------------------------------------

LISTS = {"unobserved": "negative", "random_state": 0}


class StopIn(FitListener):
    """Presses Ctrl-C when a stage begins."""

    def __init__(self, word):
        self.word = word

    def stage(self, what):
        if self.word in what:
            signal.raise_signal(signal.SIGINT)


def same_lists(one, other):
    assert repr(one.candidates_) == repr(other.candidates_)
    assert (one.list_settings_, one.threshold_) == (other.list_settings_, other.threshold_)
    np.testing.assert_array_equal(one.user_factors_, other.user_factors_)


@pytest.mark.usefixtures("default_interrupts")
def test_lists_resume_with_what_was_chosen_and_go_on_with_the_best_so_far(tmp_path, capsys):
    whole = Recommender(**LISTS).fit(FEW)
    assert whole.candidates_[-1].lists == whole.list_settings_

    def broken(progress):
        raise Interruption

    with pytest.raises(Interruption):
        Recommender(**LISTS).fit(FEW, callback=broken, checkpoint=tmp_path)
    count = StopAt(1, interrupt)  # It would raise at a candidate.
    same_lists(Recommender(**LISTS).fit(FEW, callback=count, checkpoint=tmp_path), whole)
    with pytest.raises(KeyboardInterrupt, match="while choosing what lists are made by"):
        Recommender(**LISTS).fit(FEW, callback=StopIn("lists"))
    with pytest.warns(InterruptedFitWarning):
        early = Recommender(**LISTS, verbose=1).fit(
            FEW,
            callback=StopAt(2, lambda: signal.raise_signal(signal.SIGINT)),
            checkpoint=tmp_path / "early",
        )
    assert "powers 0 and 0.25: held-out metric" in capsys.readouterr().out
    assert 0 < len(early.candidates_) < len(whole.candidates_)
    assert early.relative_gap_ <= 1e-2
    assert early.recommend(early.user_ids_[0]).items.tolist()
    same_lists(Recommender(**LISTS).fit(FEW, checkpoint=tmp_path / "early"), whole)
