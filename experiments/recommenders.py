"""The questions to a recommender: lists of items to show, decisions about given items, and new users.

Run ``python -m experiments.recommenders [--data taste jester5k coat anime citeulike] [--draws 5] [--questions
lists decisions new-users] [--methods labelgap EASE ...] [--out FOLDER]`` with LABELGAP_DATA set to the folder
of the data files. The rivals are in the environment that ``make bench`` makes; lists with all of them take
about an hour for two draws. ``--methods`` chooses those of the lists, which are described in
:mod:`experiments.lists`. Of decisions and new users:

- taste: generated ratings, those of the lists. Each draw has other ones and holds out a random fifth of them.
- jester5k: a rating above 0 is a like. Each draw takes 1000 users and holds out a random fifth of their
  ratings. The table of new users leaves a fifth of the users out of the fit, folds in half of their ratings,
  and judges the other half. It is compared with a fit to these ratings and all others (at the same λ).
- coat: a rating of 4 or 5 is a like. Training ratings are about coats that the users chose themselves, test
  ratings about coats drawn at random, without the pairs that are in both. Draws differ only in the random
  state.

F1 is computed from the decisions, which are made for micro-F1. Accuracy is that of the rule "yes where the
probability is at least ½", which is the best one for accuracy. AUC and log-loss are computed from the
probabilities. Nothing is tuned on test ratings.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from benchmarks import rivals
from benchmarks.data import Ratings
from sklearn.metrics import log_loss, roc_auc_score

from experiments import lists
from experiments.lists import as_labels
from experiments.runs import Experiment, Results, Task, different, markdown_table, plus_minus, those
from labelgap import PlugInClassifier, Recommender, best_threshold, get_metric
from labelgap.data import AnswerData, Answers, load_answers

DATA = ("taste", "jester5k", "coat", "anime", "citeulike")
LISTS, DECISIONS, NEW_USERS = QUESTIONS = ("lists", "decisions", "new-users")
MEASURES = ("F1", "accuracy", "AUC", "log-loss")
USERS, HELD_OUT = 1000, 0.2
RULES: dict[str, Callable[[Any], Any]] = {"jester5k": lambda r: r > 0, "coat": lambda r: r >= 4}
# All are for lists.
FOR_DECISIONS = ("taste", *RULES)
# So large that nothing is left but what is not penalised: the items' intercepts.
POPULARITY = {"trace_penalty": 1e3, "user_intercept": False}


def read(name: str, seed: int = 0, question: str = DECISIONS) -> AnswerData:
    """A data set as likes (1) and dislikes (0), generated or from the user's folder."""
    if name == "taste" or question == LISTS:
        return lists.read(name, seed)
    data = load_answers(name)

    def likes(ratings: Answers) -> Answers:
        return replace(ratings, rating=np.asarray(RULES[name](ratings.rating), dtype=np.float64))

    return replace(data, answers=likes(data.answers), test=None if data.test is None else likes(data.test))


# -- splits ------------------------------------------------------------------------------------------------


class Split(NamedTuple):
    """The training ratings in ``data``, and the ratings to judge by."""

    data: AnswerData
    test: Answers


def some_users(data: AnswerData, rng: np.random.RandomState, count: int = USERS) -> AnswerData:
    """That many users, numbered anew in random order."""
    chosen = rng.permutation(data.shape[0])[:count]
    number = np.full(data.shape[0], -1)
    number[chosen] = np.arange(len(chosen))
    ratings = data.answers.take(number[data.answers.user] >= 0)
    ratings = replace(ratings, user=number[ratings.user])
    return replace(data, answers=ratings, shape=(len(chosen), data.shape[1]))


def split_of(data: AnswerData, seed: int) -> Split:
    """The test ratings of the file, without those of its training part; else a random fifth of some users."""
    if data.test is not None:
        pairs = [part.user * data.shape[1] + part.item for part in (data.answers, data.test)]
        return Split(data, data.test.take(~np.isin(pairs[1], pairs[0])))
    rng = np.random.RandomState(seed)
    data = some_users(data, rng)
    held = rng.random_sample(len(data.answers)) < HELD_OUT
    return Split(replace(data, answers=data.answers.take(~held)), data.answers.take(held))


# -- methods: probabilities and decisions for the test ratings ---------------------------------------------

Method = Callable[[Split, int], tuple[Any, Any]]


def fitted(*, features: bool = False, propensities: bool = False, **parameters: Any) -> Method:
    """A Recommender with these parameters, as a method."""

    def method(split: Split, seed: int) -> tuple[Any, Any]:
        given: dict[str, Any] = {}
        if features:
            given["user_features"] = dict(enumerate(split.data.user_features))
            given["item_features"] = dict(enumerate(split.data.item_features))
        if propensities:
            given["propensities"] = split.data.propensities
        labels = as_labels(split.data.answers, split.data.shape)
        model = Recommender(random_state=seed, **parameters).fit(labels, **given)
        users, items = split.test.user, split.test.item
        return model.predict_proba(users, items), model.predict(users, items)

    return method


def intercepts(split: Split, seed: int) -> tuple[Any, Any]:
    """scikit-learn's logistic regression with an indicator for each user and each item."""

    def indicators(ratings: Answers) -> sp.csr_array:
        n_users, n_items = split.data.shape
        columns = np.column_stack([ratings.user, n_users + ratings.item]).ravel()
        starts = np.arange(0, len(columns) + 1, 2)
        return sp.csr_array((np.ones(len(columns)), columns, starts), shape=(len(ratings), n_users + n_items))

    train = split.data.answers
    model = PlugInClassifier(random_state=seed).fit(indicators(train), train.rating.astype(np.int64))
    features = indicators(split.test)
    return model.predict_proba(features)[:, 1], model.predict(features)


def lightfm(split: Split, seed: int) -> tuple[Any, Any]:
    """LightFM's logistic loss at 30 epochs, with the threshold that is best on a fifth of its ratings."""
    train, shape = split.data.answers, split.data.shape
    held = np.random.RandomState(seed).random_sample(len(train)) < HELD_OUT

    def ratings(some: Answers) -> Ratings:
        users, items = some.user.astype(np.int32), some.item.astype(np.int32)
        return Ratings(users, items, some.rating.astype(np.int8), shape)

    def scores(learned: Answers, judged: Answers) -> Any:
        model = rivals.lightfm(ratings(learned), rank=32, epochs=30)
        return rivals.lightfm_scores(model, ratings(judged))

    validation = train.take(held)
    best = best_threshold(scores(train.take(~held), validation)[None], validation.rating[None], "micro-f1")
    z = scores(train, split.test)
    return 1 / (1 + np.exp(-z)), (z >= best.threshold).astype(np.int8)


METHODS: dict[str, Method] = {
    "item popularity": fitted(**POPULARITY),
    "user and item intercepts": intercepts,
    **({} if rivals.missing("lightfm") else {"LightFM, logistic": lightfm}),
    "Recommender, default": fitted(),
    "implicit_feedback=False": fitted(implicit_feedback=False),
    "ridge_penalty='auto'": fitted(ridge_penalty="auto"),
    "with features": fitted(features=True),
    "weights, estimated propensities": fitted(weights="inverse-propensity"),
    "weights, the file's propensities": fitted(weights="inverse-propensity", propensities=True),
}
# Of the files, coat alone has features and propensities.
ONLY_COAT = ("with features", "weights, estimated propensities", "weights, the file's propensities")


# -- tasks -------------------------------------------------------------------------------------------------


def measured(test: Answers, probabilities: Any, decisions: Any) -> dict[str, float]:
    """F1, accuracy, AUC and log-loss on the test ratings."""
    truth = test.rating
    return {
        "F1": float(get_metric("micro-f1")(truth[None], decisions[None])),
        "accuracy": float(np.mean((probabilities >= 0.5) == truth)),
        "AUC": float(roc_auc_score(truth, probabilities)),
        "log-loss": float(log_loss(truth, probabilities)),
    }


def new_users(data: AnswerData, seed: int) -> dict[str, Any]:
    """New users by fold-in, by a fit with them, and by popularity."""
    rng = np.random.RandomState(seed)
    data = some_users(data, rng)
    n_users, n_items = data.shape
    known = n_users - int(HELD_OUT * n_users)
    is_new = data.answers.user >= known
    half = rng.random_sample(len(is_new)) < 0.5
    old, given, test = (data.answers.take(which) for which in (~is_new, is_new & half, is_new & ~half))
    test = test.take(np.isin(test.user, given.user))
    every = as_labels(data.answers.take(~is_new | half), data.shape)
    answers = given.user, given.item, given.rating

    start = time.perf_counter()
    model = Recommender(random_state=seed).fit(as_labels(old, (known, n_items)))
    fitted_at = time.perf_counter()
    folded = model.fold_in(answers)
    folded_at = time.perf_counter()
    used = model.n_implicit_features_ > 0
    refit = Recommender(trace_penalty=model.trace_penalty_, implicit_feedback=used, random_state=seed)
    models = {
        "item popularity": Recommender(**POPULARITY, random_state=seed).fit(every),
        "fold-in": folded,
        "fold-in, prior='fit'": model.fold_in(answers, prior="fit"),
        "fit with them": refit.fit(every),
    }
    found: dict[str, Any] = {
        name: measured(test, one.predict_proba(test.user, test.item), one.predict(test.user, test.item))
        for name, one in models.items()
    }
    # Against the whole first fit, with its choice of λ.
    return found | {"fraction of the fit's time": (folded_at - fitted_at) / (fitted_at - start)}


def tasks(options: argparse.Namespace, given: Any) -> list[Task]:
    """Every method of every question on every draw; the methods for new users share a task."""
    found: list[Task] = []
    for question in options.questions:
        for name in options.data:
            if question == LISTS:
                methods = [method for method in lists.methods() if method in options.methods]
            elif question == DECISIONS and name in FOR_DECISIONS:
                methods = [method for method in METHODS if name == "coat" or method not in ONLY_COAT]
            else:
                methods = ["all"] if name == "jester5k" else []
            found += [
                {"question": question, "data": name, "draw": draw, "method": method}
                for draw in range(options.draws)
                for method in methods
            ]
    return found


def measure(task: Task, source: Callable[[str, int, str], AnswerData]) -> dict[str, Any]:
    """One method on one draw; all methods of a question get the same ratings."""
    name, seed, method, question = str(task["data"]), int(task["draw"]), str(task["method"]), task["question"]
    data = source(name, seed, str(question))
    if question == DECISIONS:
        split = split_of(data, seed)
        return measured(split.test, *METHODS[method](split, seed))
    if question == NEW_USERS:
        return {"by method": new_users(data, seed)}
    return lists.measure(method, data, seed)


def _cells(draws: Results) -> list[str]:
    return [plus_minus((draw[measure] for draw in draws), 3) for measure in MEASURES]


def report(results: Results, source: Any) -> str:
    """A table for each question and data set: mean ± sd over the draws, of lists the standard error."""
    parts = []
    for question, data in different(results, "question", "data"):
        here = those(results, question=question, data=data)
        if question == NEW_USERS:
            names = [name for name, value in here[0]["by method"].items() if isinstance(value, dict)]
            by_method = {name: [one["by method"][name] for one in here] for name in names}
        else:
            by_method = {name: those(here, method=name) for name in different(here, "method")}
        measures = lists.MEASURES if question == LISTS else MEASURES
        rows = [
            [name, *(lists.cells(draws) if question == LISTS else _cells(draws))]
            for name, draws in by_method.items()
        ]
        title = data if question == DECISIONS else f"{data}, {question.replace('-', ' ')}"
        parts.append(markdown_table([title, *measures], rows))
    return "\n\n".join(parts)


EXPERIMENT = Experiment(
    "recommenders",
    __doc__ or "",
    draws=5,
    data=DATA,
    choices={"questions": QUESTIONS, "methods": list(lists.METHODS)},
    tasks=tasks,
    measure=measure,
    report=report,
    given=read,
)

if __name__ == "__main__":
    EXPERIMENT.main()
