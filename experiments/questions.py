"""What to ask a new user: ratings of suggested items beside those of popular, controversial and random ones.

Run ``python -m experiments.questions [--data jester5k taste] [--draws 3] [--questions 1 3 5 10]``.

A recommender is fitted to four fifths of the users. The others are new: they are asked about some items,
answer those that they have rated, are folded in, and are judged by the log-loss and the micro-F1 of other
ratings. Half of the ratings of a new user, drawn at random, are for judging alone, and cannot be asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments import lists
from experiments.recommenders import as_ratings, read, some_users
from experiments.runs import markdown_table, mean_sd
from labelgap import Recommender
from labelgap.losses import Logistic

DATA = ("jester5k", "taste")
Judged = dict[tuple[str, int], tuple[float, float]]
"""Log-loss and micro-F1 by method and number of questions."""
METHODS = ("suggest", "popular", "controversial", "random")
_USERS, _NEW = 1000, 0.2


def ratings_of(name: str, seed: int) -> lists.Ratings | None:
    """The ratings of at most a thousand users; None, with a note, if the data are not there."""
    if name == "taste":
        return lists.make_taste(seed, (600, 300), 24_000)
    data = read(name)
    return None if data is None else as_ratings(some_users(data, _USERS, np.random.RandomState(seed)))


def judge(
    ratings: lists.Ratings, counts: Sequence[int], seed: int
) -> dict[tuple[str, int], tuple[float, float]]:
    """Log-loss and micro-F1 on the ratings for judging, by method and number of questions."""
    rng = np.random.default_rng(seed)
    is_new = (np.arange(ratings.shape[0]) < _NEW * ratings.shape[0])[ratings.user]
    old = ratings.take(~is_new)
    model = Recommender(random_state=seed).fit((old.user, old.item, old.like))
    known = np.isin(ratings.item, np.array(model.item_ids_))
    judged = is_new & known & (rng.random(len(is_new)) < 0.5)
    askable = is_new & known & ~judged
    found: Judged = {}
    for method in METHODS:
        order = _order(model, method, max(counts), rng)
        for count in counts:
            asked = askable & np.isin(ratings.item, np.array(order[:count]))
            found[method, count] = _after(model, ratings.take(asked), ratings.take(judged))
    found["nothing asked", 0] = _after(model, ratings.take(askable & False), ratings.take(judged))
    return found


def _order(model: Recommender, method: str, n: int, rng: np.random.Generator) -> list[Any]:
    """The items in the order in which everybody is asked about them."""
    if method == "suggest":
        return model.suggest(n=n).ids
    counts, likes = model.answers_.label_counts(), model.answers_.positive_counts()
    p = likes / np.maximum(counts, 1)
    worth = {
        "popular": counts,
        # The usual advice: items that many know and on which opinions differ.
        "controversial": counts * p * (1 - p),
        "random": rng.random(len(counts)),
    }[method]
    return [model.item_ids_[j] for j in np.argsort(-worth, kind="stable")[:n]]


def _after(model: Recommender, answers: lists.Ratings, judged: lists.Ratings) -> tuple[float, float]:
    grown = model if not len(answers.user) else model.fold_in((answers.user, answers.item, answers.like))
    scores = grown.decision_function(judged.user, judged.item, unknown="average")
    yes = scores >= model.threshold_
    hits = float(np.sum(yes & (judged.like == 1)))
    return (
        float(np.mean(Logistic().value(scores, judged.like.astype(np.int8)))),
        2 * hits / max(float(yes.sum() + judged.like.sum()), 1.0),
    )


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--questions", nargs="+", type=int, default=[1, 3, 5, 10])
    options = parser.parse_args(arguments)
    rows = []
    for name in options.data:
        draws = []
        for seed in range(options.draws):
            ratings = ratings_of(name, seed)
            if ratings is None:
                break
            draws.append(judge(ratings, options.questions, seed))
        for key in draws[0] if draws else ():
            texts = [
                "{:.4f} ± {:.4f}".format(*mean_sd([draw[key][place] for draw in draws])) for place in (0, 1)
            ]
            rows.append([name, key[0], str(key[1]), *texts])
    print(markdown_table(["data", "method", "questions", "log-loss", "micro-F1"], rows))


if __name__ == "__main__":
    main()
