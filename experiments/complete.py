"""What the labels of a row say beside its features: XW against XW + N, and a refit of W on soft labels.

Run ``python -m experiments.complete [--data emotions ...] [--draws 3] [--features linear] [--out FOLDER]``.
Of the training labels 20 % are observed. The same default fit decides the unobserved entries of its training
rows alone (``predict``) and with a part of the rows themselves (``complete``). A second fit, with
``soft_labels="auto"``, is compared with the first on the test rows. μ, ω and all thresholds are chosen on
held-out training labels.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.problems import REAL, Problem, available, problem
from experiments.runs import Task, argument_parser, markdown_table, mean_sd, run_tasks, write_results
from labelgap import LowRankClassifier, ObservedLabels, get_metric
from labelgap.exceptions import UninformativeLabelsWarning

METRIC = "micro-f1"
Source = Callable[[str, int, float], Problem]


def unobserved_truth(given: Problem) -> ObservedLabels:
    """The true labels of the entries of the training rows that no method saw."""
    truth = ObservedLabels.from_any(given.Y, unobserved="negative")
    n_labels = truth.shape[1]
    seen = given.labels.rows * n_labels + given.labels.cols
    return truth.select(~np.isin(truth.rows * n_labels + truth.cols, seen))


def measure(task: Task, source: Source, features: str) -> dict[str, Any]:
    """Fit to a draw, complete its training rows, and fit again with soft labels."""
    seed, metric = int(task["draw"]), get_metric(METRIC)
    given = source(str(task["data"]), seed, 0.2)
    gaps = unobserved_truth(given)
    test = ObservedLabels.from_any(given.Y_test, unobserved="negative")
    settings = {"metric": metric, "features": features, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeLabelsWarning)
        began = time.perf_counter()
        model = LowRankClassifier(**settings).fit(given.X, given.labels)
        fitted = time.perf_counter()
        completed = model.complete(given.X, given.labels)
        done = time.perf_counter()
        soft = LowRankClassifier(**settings, soft_labels="auto").fit(given.X, given.labels)
        ended = time.perf_counter()
    return {
        "gaps by XW": model.score(given.X, gaps),
        "gaps by XW + N": completed.score(gaps),
        "row penalty": completed.row_penalty if np.isfinite(completed.row_penalty) else None,
        "rank of N": completed.row_rank,
        "relative gap": completed.relative_gap,
        "held-out gain": (completed.held_out_metric or 0.0) - (completed.held_out_metric_without or 0.0),
        "test": model.score(given.X_test, test),
        "test with soft labels": soft.score(given.X_test, test),
        "soft label weight": soft.soft_label_weight_,
        "seconds of fit": round(fitted - began, 2),
        "seconds of complete": round(done - fitted, 2),
        "seconds of fit with soft labels": round(ended - done, 2),
    }


def report(results: Sequence[dict[str, Any]]) -> str:
    """Mean ± standard deviation over draws, and of the differences on the same draws."""
    rows = []
    for data in dict.fromkeys(one["data"] for one in results):
        draws = [one for one in results if one["data"] == data]

        def values(name: str, draws: Sequence[dict[str, Any]] = draws) -> list[float]:
            return [one[name] for one in draws]

        def gain(name: str, base: str, draws: Sequence[dict[str, Any]] = draws) -> str:
            return "{:+.4f} ± {:.4f}".format(*mean_sd([one[name] - one[base] for one in draws]))

        rows.append(
            [
                data,
                str(len(draws)),
                "{:.4f} ± {:.4f}".format(*mean_sd(values("gaps by XW"))),
                gain("gaps by XW + N", "gaps by XW"),
                ", ".join(f"{rank}" for rank in values("rank of N")),
                "{:.4f} ± {:.4f}".format(*mean_sd(values("test"))),
                gain("test with soft labels", "test"),
                ", ".join(f"{weight:g}" for weight in values("soft label weight")),
            ]
        )
    header = ["data", "draws", "gaps: XW", "XW + N", "rank of N", "test rows: W", "soft labels", "ω"]
    return markdown_table(header, rows)


def main(arguments: list[str] | None = None, source: Source = problem) -> None:
    """The command line; ``source`` makes the problem of a data set, a draw and a fraction observed."""
    parser = argument_parser(__doc__ or "", draws=3)
    parser.add_argument("--data", nargs="+", choices=REAL, default=list(REAL))
    parser.add_argument("--features", choices=("auto", "linear"), default="auto")
    options = parser.parse_args(arguments)
    data = available(options.data) if source is problem else options.data
    if not data:
        return
    tasks: list[Task] = [{"data": name, "draw": draw} for name in data for draw in range(options.draws)]
    folder: Path = options.out
    settings = {"observed": 0.2, "metric": METRIC, "features": options.features}
    results = run_tasks(
        "complete",
        tasks,
        lambda task: measure(task, source, options.features),
        folder=folder,
        settings=settings,
        fresh=options.fresh,
    )
    table = report(results)
    print(table)
    write_results("complete", folder=folder, settings=settings, results=results, table=table, figure=None)


if __name__ == "__main__":
    main()
