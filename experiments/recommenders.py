"""The two questions to a recommender: lists of items to show, and decisions about given items.

Run ``python -m experiments.recommenders [--data taste jester5k coat] [--draws 5] [--users 1000]
[--questions lists decisions] [--out FOLDER]`` with LABELGAP_DATA set to the folder of the data files; it
takes about half an hour with the rivals, which are in the environment that ``make bench`` makes. Without
LABELGAP_DATA the generated data are used alone, and a note says so. Lists are described in
:mod:`experiments.lists`. Of decisions:

- taste: generated ratings, those of the lists. Each draw has other ones and holds out a random fifth of them.
- jester5k: a rating above 0 is a like. Each draw takes 1000 users and holds out a random fifth of their
  ratings. A second table leaves a fifth of the users out of the fit, folds in half of their ratings, and
  judges the other half. It is compared with a fit to these ratings and all others (at the same λ).
- coat: a rating of 4 or 5 is a like. Training ratings are about coats that the users chose themselves, test
  ratings about coats drawn at random, without the pairs that are in both. Draws differ only in the random
  state.

F1 is computed from the decisions, which are made for micro-F1. Accuracy is that of the rule "yes where the
probability is at least ½", which is the best one for accuracy. AUC and log-loss are computed from the
probabilities. Nothing is tuned on test ratings.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import log_loss, roc_auc_score

from experiments import lists
from labelgap import ObservedLabels, PlugInClassifier, Recommender, best_threshold, get_metric
from labelgap.data import AnswerData, Answers, data_folder, load_answers

DATA = ("taste", "jester5k", "coat")
QUESTIONS = ("lists", "decisions")
MEASURES = ("F1", "accuracy", "AUC", "log-loss")
USERS = 1000
HELD_OUT = 0.2
# So large that nothing is left but what is not penalised: the items' intercepts.
_HUGE = 1e3

Measured = dict[str, float]
Results = dict[str, dict[str, list[Measured]]]


class Split(NamedTuple):
    """Data whose ratings are likes (1) and dislikes (0), and the ratings to judge by."""

    data: AnswerData
    test: Answers

    @property
    def labels(self) -> ObservedLabels:
        """The training ratings; users and items are given by their numbers."""
        return as_labels(self.data.answers, self.data.shape)


def as_labels(ratings: Answers, shape: tuple[int, int]) -> ObservedLabels:
    """Likes and dislikes, users x items."""
    return ObservedLabels.from_triplets(ratings.user, ratings.item, ratings.rating, shape=shape)


def likes(ratings: Answers, rule: Callable[[Any], Any]) -> Answers:
    """The ratings with 1 for a like in place of the rating, and 0 for a dislike."""
    return replace(ratings, rating=np.asarray(rule(ratings.rating), dtype=np.float64))


def joined(first: Answers, second: Answers) -> Answers:
    """All ratings of both."""
    pairs = zip(vars(first).values(), vars(second).values(), strict=True)
    return Answers(*(np.concatenate(pair) for pair in pairs))


# -- splits ------------------------------------------------------------------------------------------------


def some_users(data: AnswerData, count: int, rng: np.random.RandomState) -> AnswerData:
    """That many users, numbered anew in random order."""
    chosen = rng.permutation(data.shape[0])[:count]
    number = np.full(data.shape[0], -1)
    number[chosen] = np.arange(len(chosen))
    ratings = data.answers.take(number[data.answers.user] >= 0)
    ratings = replace(ratings, user=number[ratings.user])
    return replace(data, answers=ratings, shape=(len(chosen), data.shape[1]))


def random_split(data: AnswerData, rng: np.random.RandomState) -> Split:
    """A random fifth of the ratings is held out."""
    held = rng.random_sample(len(data.answers)) < HELD_OUT
    return Split(replace(data, answers=data.answers.take(~held)), data.answers.take(held))


def own_split(data: AnswerData) -> Split:
    """The test ratings of the file, without those that are in its training part."""
    assert data.test is not None
    pairs = [part.user * data.shape[1] + part.item for part in (data.answers, data.test)]
    return Split(data, data.test.take(~np.isin(pairs[1], pairs[0])))


# -- methods: probabilities and decisions for the test ratings ---------------------------------------------

Judged = tuple[Any, Any]
Method = Callable[[Split, int], Judged]


def fitted(
    *, features: bool = False, propensities: bool = False, **parameters: Any
) -> Callable[[Split, int], Judged]:
    """A Recommender with these parameters, as a method."""

    def method(split: Split, seed: int) -> Judged:
        given: dict[str, Any] = {}
        if features:
            given["user_features"] = _by_number(split.data.user_features)
            given["item_features"] = _by_number(split.data.item_features)
        if propensities:
            given["propensities"] = split.data.propensities
        model = Recommender(random_state=seed, **parameters).fit(split.labels, **given)
        users, items = split.test.user, split.test.item
        return model.predict_proba(users, items), model.predict(users, items)

    return method


def _by_number(rows: Any) -> dict[int, Any]:
    return dict(enumerate(rows))


def intercepts(split: Split, seed: int) -> Judged:
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


def lightfm(split: Split, seed: int) -> Judged:
    """LightFM's logistic loss at 30 epochs, with the threshold that is best on a fifth of its ratings."""
    from lightfm import LightFM

    train = split.data.answers
    held = np.random.RandomState(seed).random_sample(len(train)) < HELD_OUT

    def scores(learned: Answers, judged: Answers) -> Any:
        values = np.where(learned.rating == 1, 1, -1)
        pairs = sp.coo_matrix((values, (learned.user, learned.item)), shape=split.data.shape)
        model = LightFM(no_components=32, loss="logistic", random_state=seed).fit(pairs, epochs=30)
        users, items = (part.astype(np.int32) for part in (judged.user, judged.item))
        return np.asarray(model.predict(users, items), dtype=np.float64)

    validation = train.take(held)
    best = best_threshold(scores(train.take(~held), validation)[None], validation.rating[None], "micro-f1")
    z = scores(train, split.test)
    return 1 / (1 + np.exp(-z)), (z >= best.threshold).astype(np.int8)


PLAIN: dict[str, Method] = {
    "item popularity": fitted(trace_penalty=_HUGE, user_intercept=False),
    "user and item intercepts": intercepts,
    **({"LightFM, logistic": lightfm} if find_spec("lightfm") else {}),
    "Recommender, default": fitted(),
    "implicit_feedback=False": fitted(implicit_feedback=False),
    "ridge_penalty='auto'": fitted(ridge_penalty="auto"),
}
WITH_FEATURES: dict[str, Method] = {"with features": fitted(features=True)}
WITH_PROPENSITIES: dict[str, Method] = {
    "weights, estimated propensities": fitted(weights="inverse-propensity"),
    "weights, the file's propensities": fitted(weights="inverse-propensity", propensities=True),
}


def methods_for(data: AnswerData) -> dict[str, Method]:
    """The methods for which the data set has all that they need."""
    chosen = dict(PLAIN)
    if data.user_features is not None and data.item_features is not None:
        chosen |= WITH_FEATURES
    if data.propensities is not None:
        chosen |= WITH_PROPENSITIES
    return chosen


# -- runs --------------------------------------------------------------------------------------------------


def measured(test: Answers, probabilities: Any, decisions: Any) -> Measured:
    """F1, accuracy, AUC and log-loss on the test ratings."""
    truth = test.rating
    return {
        "F1": float(get_metric("micro-f1")(truth[None], decisions[None])),
        "accuracy": float(np.mean((probabilities >= 0.5) == truth)),
        "AUC": float(roc_auc_score(truth, probabilities)),
        "log-loss": float(log_loss(truth, probabilities)),
    }


def judge_methods(data: AnswerData, seed: int, users: int = USERS) -> dict[str, Measured]:
    """One draw: every method on the same ratings."""
    rng = np.random.RandomState(seed)
    split = random_split(some_users(data, users, rng), rng) if data.test is None else own_split(data)
    return {name: measured(split.test, *method(split, seed)) for name, method in methods_for(data).items()}


def judge_fold_in(data: AnswerData, seed: int, users: int = USERS) -> dict[str, Measured]:
    """One draw: new users by fold-in, by a fit with them, and by popularity."""
    rng = np.random.RandomState(seed)
    data = some_users(data, users, rng)
    n_users, n_items = data.shape
    known = n_users - int(HELD_OUT * n_users)
    is_new = data.answers.user >= known
    half = rng.random_sample(len(is_new)) < 0.5
    old, given, test = (data.answers.take(which) for which in (~is_new, is_new & half, is_new & ~half))
    test = test.take(np.isin(test.user, given.user))

    start = time.perf_counter()
    model = Recommender(random_state=seed).fit(as_labels(old, (known, n_items)))
    fitted_at = time.perf_counter()
    folded = model.fold_in((given.user, given.item, given.rating))
    folded_at = time.perf_counter()
    as_fitted = model.fold_in((given.user, given.item, given.rating), prior="fit")
    used = model.n_implicit_features_ > 0
    refit = Recommender(trace_penalty=model.trace_penalty_, implicit_feedback=used, random_state=seed)
    refit.fit(as_labels(joined(old, given), data.shape))
    popular = Recommender(trace_penalty=_HUGE, user_intercept=False, random_state=seed)
    popular.fit(as_labels(joined(old, given), data.shape))
    models = {"item popularity": popular, "fold-in": folded, "fold-in, prior='fit'": as_fitted}
    results = {
        name: measured(test, one.predict_proba(test.user, test.item), one.predict(test.user, test.item))
        for name, one in (models | {"fit with them": refit}).items()
    }
    # Against the whole first fit, with its choice of λ.
    results["fold-in"]["fraction of the fit's time"] = (folded_at - fitted_at) / (fitted_at - start)
    return results


def collect(draws: Sequence[Mapping[str, Measured]]) -> dict[str, list[Measured]]:
    """By method, one for each draw."""
    return {name: [draw[name] for draw in draws] for name in draws[0]}


RULES: dict[str, Callable[[Any], Any]] = {"jester5k": lambda r: r > 0, "coat": lambda r: r >= 4}


def read(name: str) -> AnswerData | None:
    """A data set as likes and dislikes, or None, with a note, if it is not there."""
    if data_folder() is None:
        print(
            f"{name} is left out: LABELGAP_DATA names no folder with the data sets (see docs/recommender.md)"
        )
        return None
    data = load_answers(name)
    test = None if data.test is None else likes(data.test, RULES[name])
    return replace(data, answers=likes(data.answers, RULES[name]), test=test)


def as_ratings(data: AnswerData) -> lists.Ratings:
    """The (training) ratings as the comparison of lists takes them."""
    ratings = data.answers
    return lists.Ratings(ratings.user, ratings.item, ratings.rating.astype(np.int64), data.shape)


def as_answers(ratings: lists.Ratings, name: str) -> AnswerData:
    """Generated ratings as those of a file are given."""
    answers = Answers(ratings.user, ratings.item, ratings.like.astype(np.float64))
    return AnswerData(name, answers, None, ratings.shape)


def run_lists(names: Sequence[str], sets: Sequence[AnswerData], draws: int, users: int = USERS) -> Results:
    """The measurements of lists by data set and method, one for each draw."""

    def drawn(data: AnswerData, seed: int) -> lists.Ratings:
        # coat has few users; of jester5k each draw takes some.
        return as_ratings(data if data.test is not None else some_users(data, users, _rng(seed)))

    makers: dict[str, Callable[[int], lists.Ratings]] = {}
    if "taste" in names:
        makers["taste"] = lists.make_taste
    makers |= {data.name: partial(drawn, data) for data in sets}
    results: Results = {}
    for name, make in makers.items():
        results[f"{name}, lists"] = collect([lists.judge_lists(make(seed), seed) for seed in range(draws)])
        print(f"{name}, lists done", flush=True)
    return results


def _rng(seed: int) -> np.random.RandomState:
    return np.random.RandomState(seed)


def run(sets: Sequence[AnswerData], draws: int, users: int = USERS) -> Results:
    """The measurements of decisions by table and method, one for each draw."""
    results: Results = {}
    for data in sets:
        results[data.name] = collect([judge_methods(data, seed, users) for seed in range(draws)])
        if data.test is None:
            new_users = collect([judge_fold_in(data, seed, users) for seed in range(draws)])
            results[f"{data.name}, new users"] = new_users
        print(f"{data.name} done", flush=True)
    return results


def run_taste(draws: int, make: Callable[[int], lists.Ratings] = lists.make_taste) -> Results:
    """The measurements of decisions on generated ratings, other ones in each draw."""
    found = collect([judge_methods(as_answers(make(seed), "taste"), seed) for seed in range(draws)])
    print("taste done", flush=True)
    return {"taste": found}


def report(results: Results) -> str:
    """A Markdown table for each data set: mean ± sd over the draws."""
    parts = []
    for title, by_method in results.items():
        measures = lists.MEASURES if title.endswith(", lists") else MEASURES
        lines = [f"| {title} | {' | '.join(measures)} |", "| --- " * (1 + len(measures)) + "|"]
        for name, draws in by_method.items():
            texts = [_mean_and_spread([draw[measure] for draw in draws]) for measure in measures]
            lines.append(f"| {' | '.join([name, *texts])} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _mean_and_spread(values: Sequence[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {spread:.3f}"


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--users", type=int, default=USERS, help="users of jester5k in a draw")
    parser.add_argument("--out", type=Path, help="write recommenders.json and recommenders.md to this folder")
    options = parser.parse_args(arguments)
    sets = [data for name in options.data if name != "taste" and (data := read(name))]
    results: Results = {}
    if "lists" in options.questions:
        results |= run_lists(options.data, sets, options.draws, options.users)
    if "decisions" in options.questions:
        if "taste" in options.data:
            results |= run_taste(options.draws)
        results |= run(sets, options.draws, options.users)
    tables = report(results)
    print(tables)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"draws": options.draws, "users": options.users, "results": results}
        (options.out / "recommenders.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
        (options.out / "recommenders.md").write_text(tables + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
