"""How well planted errors are found: the precision among as many entries as were flipped.

Run ``python -m experiments.label_errors [--data emotions ...] [--draws 3] [--out FOLDER]``. Of the training
labels 20 % are observed, and of these 5, 10 and 20 % are flipped, drawn uniformly. The observed entries are
ordered by their out-of-fold self-confidence: by ``LowRankClassifier`` with its defaults, beside which the
other labels of the row take part, and by one logistic regression per label (``PlugInClassifier``). Random
order has the fraction flipped as its precision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.problems import OBSERVED, REAL, Problem, available, problem
from experiments.runs import Task, argument_parser, markdown_table, mean_sd, run_tasks, write_results
from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.exceptions import LabelgapWarning
from labelgap.flip_rates.label_errors import find_label_errors

FLIPPED = (0.05, 0.1, 0.2)
METHODS = {"low rank": LowRankClassifier, "per label": PlugInClassifier}
Source = Callable[[str, int, float], Problem]


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Flip a part of the observed labels of a draw, and look for it."""
    seed = int(task["draw"])
    given = source(str(task["data"]), seed, OBSERVED)
    labels = given.labels
    rng = np.random.RandomState([seed, round(1000 * float(task["flipped"]))])
    n_flipped = round(float(task["flipped"]) * labels.n_observed)
    flipped = np.zeros(labels.n_observed, dtype=bool)
    flipped[rng.permutation(labels.n_observed)[:n_flipped]] = True
    noisy = replace(labels, values=np.where(flipped, 1 - labels.values, labels.values).astype(np.int8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        found = find_label_errors(given.X, noisy, METHODS[str(task["method"])](random_state=seed))
    places = set((labels.rows * labels.shape[1] + labels.indices)[flipped].tolist())
    listed = (found.rows * labels.shape[1] + found.labels)[:n_flipped].tolist()
    return {
        "precision": round(sum(place in places for place in listed) / max(n_flipped, 1), 4),
        "no_to_yes": round(found.flip_rates.no_to_yes, 4),
        "yes_to_no": round(found.flip_rates.yes_to_no, 4),
        "expected": found.expected,
        "flipped entries": n_flipped,
    }


def report(results: Sequence[dict[str, Any]]) -> str:
    """Precision (mean ± sd over draws) by data set and fraction flipped, with both methods side by side."""
    rows = []
    for data, flipped in dict.fromkeys((one["data"], one["flipped"]) for one in results):
        mine = [one for one in results if (one["data"], one["flipped"]) == (data, flipped)]
        cells = []
        for method in METHODS:
            mean, sd = mean_sd([one["precision"] for one in mine if one["method"] == method])
            cells.append(f"{mean:.3f} ± {sd:.3f}")
        rows.append([data, f"{flipped:g}", *cells])
    means = [
        f"{np.mean([one['precision'] for one in results if one['method'] == method]):.3f}"
        for method in METHODS
    ]
    return markdown_table(["data", "flipped", *METHODS], [*rows, ["mean", "", *means]])


def main(arguments: list[str] | None = None, source: Source = problem) -> None:
    """The command line; ``source`` makes the problem of a data set, a draw and a fraction observed."""
    parser = argument_parser(__doc__ or "", draws=3)
    parser.add_argument("--data", nargs="+", choices=REAL, default=list(REAL))
    options = parser.parse_args(arguments)
    data = available(options.data) if source is problem else options.data
    tasks: list[Task] = [
        {"data": name, "draw": draw, "flipped": flipped, "method": method}
        for draw in range(options.draws)
        for name in data
        for flipped in FLIPPED
        for method in METHODS
    ]
    if not tasks:
        return
    settings = {"observed": OBSERVED}
    results = run_tasks(
        "label_errors",
        tasks,
        lambda task: measure(task, source),
        folder=options.out,
        settings=settings,
        fresh=options.fresh,
    )
    table = report(results)
    print(table)
    write_results(
        "label_errors", folder=options.out, settings=settings, results=results, table=table, figure=None
    )


if __name__ == "__main__":
    main()
