"""One threshold or one per label: the metric on test rows of each rule, on the same fits.

Run ``python -m experiments.decisions [--data emotions scene ...] [--draws 5] [--out FOLDER]``. Of the
training labels 20 % are observed. The default model is fitted once for each draw and metric; every rule then
chooses its thresholds from the same out-of-fold scores and is judged on the test rows at these thresholds.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from experiments.problems import REAL, Problem, available, problem
from experiments.runs import Task, argument_parser, markdown_table, mean_sd, run_tasks, write_results
from labelgap import LowRankClassifier, ObservedLabels, get_metric
from labelgap.exceptions import UninformativeLabelsWarning
from labelgap.fitting import judges

METRICS = ("macro-f1", "micro-f1")
RULES = ("shared", "per-label", "shrunk", "auto")
Source = Callable[[str, int, float], Problem]


@contextlib.contextmanager
def kept_scores(kept: dict[str, Any]) -> Iterator[None]:
    """Inside, the scores that choose the threshold of a fit are kept, with their labels."""
    steady = judges.SteadyJudge

    def judge_and_keep(*settings: Any) -> Any:
        judge = steady(*settings)

        def keep(scores: Any, labels: ObservedLabels) -> Any:
            kept.update(scores=scores.copy(), labels=labels)
            return judge(scores, labels)

        return keep

    with mock.patch.object(judges, "SteadyJudge", judge_and_keep):
        yield


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Fit to a draw, choose thresholds by each rule, and judge them on the test rows."""
    seed, metric = int(task["draw"]), get_metric(str(task["metric"]))
    given = source(str(task["data"]), seed, 0.2)
    kept: dict[str, Any] = {}
    began = time.perf_counter()
    with kept_scores(kept), warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeLabelsWarning)
        model = LowRankClassifier(metric=metric, random_state=seed).fit(given.X, given.labels)
    result: dict[str, Any] = {"seconds": round(time.perf_counter() - began, 2)}
    truth = ObservedLabels.from_any(given.Y_test, unobserved="negative")
    scores = model.decision_function(given.X_test)
    for rule in RULES:
        chosen = judges.DecisionRule(metric, rule).choose(kept["scores"], kept["labels"], steady=True)
        own = kept["scores"] >= chosen.thresholds[kept["labels"].indices]
        result[rule] = metric(truth, scores >= chosen.thresholds)
        result[f"{rule} on its own scores"] = metric(kept["labels"], own)
        result[f"{rule} is"] = chosen.kind
    return result


def report(results: Sequence[dict[str, Any]]) -> str:
    """The shared threshold's metric, and the difference of each rule on the same draws (mean ± sd).

    The last difference but one is that of "per-label" on the scores that chose the thresholds.
    """
    rows = []
    for data, metric in dict.fromkeys((one["data"], one["metric"]) for one in results):
        draws = [one for one in results if (one["data"], one["metric"]) == (data, metric)]
        base = np.array([one["shared"] for one in draws])
        row = [metric, data, str(len(draws)), "{:.4f} ± {:.4f}".format(*mean_sd(base.tolist()))]
        for rule in RULES[1:]:
            mean, sd = mean_sd([one[rule] - one["shared"] for one in draws])
            row.append(f"{mean:+.4f} ± {sd:.4f}")
        own = "{} on its own scores"
        optimistic = np.mean([one[own.format("per-label")] - one[own.format("shared")] for one in draws])
        row.append(f"{optimistic:+.4f}")
        kinds = [one["auto is"] for one in draws]
        row.append(", ".join(f"{kinds.count(kind)} {kind}" for kind in RULES if kind in kinds))
        rows.append(row)
    rows.sort(key=lambda row: METRICS.index(row[0]))
    return markdown_table(["metric", "data", "draws", *RULES, "per-label, where chosen", "auto took"], rows)


def main(arguments: list[str] | None = None, source: Source = problem) -> None:
    """The command line; ``source`` makes the problem of a data set, a draw and a fraction observed."""
    parser = argument_parser(__doc__ or "", draws=5)
    parser.add_argument("--data", nargs="+", choices=REAL, default=list(REAL))
    options = parser.parse_args(arguments)
    data = available(options.data) if source is problem else options.data
    if not data:
        return
    tasks: list[Task] = [
        {"data": name, "draw": draw, "metric": metric}
        for name in data
        for draw in range(options.draws)
        for metric in METRICS
    ]
    folder: Path = options.out
    settings = {"observed": 0.2}
    results = run_tasks(
        "decisions",
        tasks,
        lambda task: measure(task, source),
        folder=folder,
        settings=settings,
        fresh=options.fresh,
    )
    table = report(results)
    print(table)
    write_results("decisions", folder=folder, settings=settings, results=results, table=table, figure=None)


if __name__ == "__main__":
    main()
