"""What to label next: micro-F1 on test rows against the number of labels, by how the labels are chosen.

Run ``python -m experiments.suggest [--data emotions ...] [--draws 3] [--out FOLDER]``. A fit begins with 5 %
of the training labels, drawn uniformly. Four times a batch of 2.5 % is asked for, and the model is fitted
again. The batch is drawn at random, has the scores nearest to the threshold ("uncertainty"), the largest
expected gains alone ("gain"), or is that of ``suggest``. All methods begin with the same labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.problems import REAL, SYNTHETIC, Problem, available, problem
from experiments.runs import Task, argument_parser, markdown_table, mean_sd, run_tasks, write_results
from labelgap import LowRankClassifier, ObservedLabels
from labelgap.asking import entry_gains
from labelgap.exceptions import LabelgapWarning

FIRST, BATCH, ROUNDS = 0.05, 0.025, 4
METHODS = ("random", "uncertainty", "gain", "suggest")
# One penalty is chosen, so that the fits are quick.
SETTINGS: dict[str, Any] = {
    "features": "linear",
    "label_weighting": 0.0,
    "ridge_penalty": 0.0,
    "intercept_penalty": 0.0,
}
DATA = ("emotions", "scene", "yeast")
Source = Callable[[str, int, float], Problem]
Places = NDArray[np.int64]


def next_places(
    method: str, model: LowRankClassifier, X: Any, Y: Any, known: NDArray[np.bool_], n: int, seed: int
) -> Places:
    """The numbers ``row · L + label`` of the entries to ask about."""
    if method == "suggest":
        found = model.suggest(X, n, np.where(known, Y, np.nan))
        return np.asarray(found.rows * Y.shape[1] + found.labels)
    if method == "random":
        worth = np.random.RandomState(seed).uniform(size=Y.shape)
    elif method == "uncertainty":
        worth = -np.abs(model.decision_function(X) - model.thresholds_)
    else:
        p = np.where(known, Y, model.predict_proba(X))
        worth = entry_gains(p, np.where(known, Y == 1, model.predict(X, output="dense") == 1), model.metric_)
    worth = np.where(known, -np.inf, worth)
    return np.argsort(-worth, axis=None, kind="stable")[:n]


def measure(task: Task, source: Source) -> dict[str, Any]:
    """The metric on the test rows after each fit."""
    seed = int(task["draw"])
    given = source(str(task["data"]), seed, 1.0)
    Y = given.labels.to_dense()
    known = np.zeros(Y.shape, dtype=np.bool_)
    order = np.random.RandomState([seed, 7]).permutation(Y.size)
    known.flat[order[: round(FIRST * Y.size)]] = True
    values = []
    for step in range(ROUNDS + 1):
        model = LowRankClassifier(**SETTINGS, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelgapWarning)
            model.fit(given.X, ObservedLabels.from_mask(Y, known))
        values.append(round(model.score(given.X_test, given.Y_test, unobserved="negative"), 4))
        if step < ROUNDS:
            n = round(BATCH * Y.size)
            known.flat[next_places(str(task["method"]), model, given.X, Y, known, n, 100 * seed + step)] = (
                True
            )
    return {"micro-f1": values}


def report(results: Sequence[dict[str, Any]]) -> str:
    """Mean ± sd over draws of the mean over the batches, and the metric after the last one."""
    rows = []
    for data in dict.fromkeys(one["data"] for one in results):
        for method in METHODS:
            mine = [one["micro-f1"] for one in results if (one["data"], one["method"]) == (data, method)]
            # Before the first batch all methods are the same.
            cells = [mean_sd([float(np.mean(one[1:])) for one in mine]), mean_sd([one[-1] for one in mine])]
            rows.append([data, method, *(f"{mean:.3f} ± {sd:.3f}" for mean, sd in cells)])
    return markdown_table(["data", "method", "mean of the batches", "after the last"], rows)


def main(arguments: list[str] | None = None, source: Source = problem) -> None:
    """The command line; ``source`` makes the problem of a data set, a draw and a fraction observed."""
    parser = argument_parser(__doc__ or "", draws=3)
    parser.add_argument("--data", nargs="+", choices=(*REAL, SYNTHETIC), default=list(DATA))
    options = parser.parse_args(arguments)
    data = available(options.data) if source is problem else options.data
    tasks: list[Task] = [
        {"data": name, "draw": draw, "method": method}
        for draw in range(options.draws)
        for name in data
        for method in METHODS
    ]
    if not tasks:
        return
    settings = {"first": FIRST, "batch": BATCH, "rounds": ROUNDS, "model": SETTINGS}
    results = run_tasks(
        "suggest",
        tasks,
        lambda task: measure(task, source),
        folder=options.out,
        settings=settings,
        fresh=options.fresh,
    )
    table = report(results)
    print(table)
    write_results("suggest", folder=options.out, settings=settings, results=results, table=table, figure=None)


if __name__ == "__main__":
    main()
