"""What to ask a new user: ratings of suggested items beside those of popular, controversial and random ones.

Run ``python -m experiments.questions [--data jester5k taste] [--draws 3] [--questions 1 3 5 10]``.

A recommender is fitted to four fifths of the users. The others are new: they are asked about some items,
answer those that they have rated, are folded in, and are judged by the log-loss and the micro-F1 of other
ratings. Half of the ratings of a new user, drawn at random, are for judging alone, and cannot be asked for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from experiments.lists import make_taste
from experiments.recommenders import read, some_users
from experiments.runs import Experiment, Results, Task, different, draws_of, markdown_table, plus_minus, those
from labelgap import Recommender
from labelgap.data import AnswerData, Answers

METHODS = ("suggest", "popular", "controversial", "random", "nothing asked")
NEW = 0.2


def ratings_of(name: str, seed: int) -> AnswerData:
    """The ratings of at most a thousand users."""
    if name == "taste":
        return make_taste(seed, (600, 300), 24_000)
    return some_users(read(name), np.random.RandomState(seed))


# The numbers of questions of a draw follow each other.
@lru_cache(maxsize=1)
def fitted(source: Any, name: str, seed: int) -> tuple[Recommender, Answers, Any, Any]:
    """A fit to the known users, all ratings, and which of the new users' can be asked for and judge."""
    data, rng = source(name, seed), np.random.default_rng(seed)
    ratings = data.answers
    is_new = (np.arange(data.shape[0]) < NEW * data.shape[0])[ratings.user]
    old = ratings.take(~is_new)
    model = Recommender(random_state=seed).fit((old.user, old.item, old.rating))
    known = np.isin(ratings.item, np.array(model.item_ids_))
    judged = is_new & known & (rng.random(len(is_new)) < 0.5)
    return model, ratings, is_new & known & ~judged, judged


def measure(task: Task, source: Any) -> dict[str, Any]:
    """Log-loss and micro-F1 on the ratings for judging, by method, after that many questions."""
    seed, count = int(task["draw"]), int(task["questions"])
    model, ratings, askable, judged = fitted(source, str(task["data"]), seed)
    found: dict[str, Any] = {}
    for method in METHODS:
        items = _items(model, method, count, np.random.default_rng([seed, 1]))
        asked = ratings.take(askable & np.isin(ratings.item, np.array(items)))
        found[method] = _after(model, asked, ratings.take(judged))
    return found


def _items(model: Recommender, method: str, n: int, rng: np.random.Generator) -> list[Any]:
    """The items that everybody is asked about."""
    if method == "nothing asked":
        return []
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


def _after(model: Recommender, answers: Answers, judged: Answers) -> dict[str, float]:
    grown = model.fold_in((answers.user, answers.item, answers.rating)) if len(answers) else model
    scores = grown.decision_function(judged.user, judged.item, unknown="average")
    yes, liked = scores >= model.threshold_, judged.rating == 1
    return {
        "log-loss": float(np.mean(np.logaddexp(0, np.where(liked, -scores, scores)))),
        "F1": 2 * float(np.sum(yes & liked)) / max(float(yes.sum() + liked.sum()), 1.0),
    }


def report(results: Results, source: Any) -> str:
    """Mean ± sd over the draws."""
    rows = []
    for data, questions in different(results, "data", "questions"):
        draws = those(results, data=data, questions=questions)
        for method in METHODS:
            cells = [plus_minus(one[method][name] for one in draws) for name in ("log-loss", "F1")]
            rows.append([data, method, str(questions), *cells])
    return markdown_table(["data", "method", "questions", "log-loss", "micro-F1"], rows)


EXPERIMENT = Experiment(
    "questions",
    __doc__ or "",
    draws=3,
    data=("jester5k", "taste"),
    choices={"questions": (1, 3, 5, 10)},
    tasks=lambda options, given: draws_of(options, data=options.data, questions=options.questions),
    measure=measure,
    report=report,
    given=ratings_of,
)

if __name__ == "__main__":
    EXPERIMENT.main()
