"""One threshold or one per label: the metric on test rows of each rule, on the same labels.

Run ``python -m experiments.decisions [--data emotions scene ...] [--draws 5] [--out FOLDER]``. Of the
training labels 20 % are observed. For each draw and metric, the default is fitted with each rule; the fits
are the same but for the thresholds, which each rule chooses from the same out-of-fold scores.
"""

from __future__ import annotations

import warnings
from typing import Any

from experiments.problems import OBSERVED, REAL, Source
from experiments.runs import Experiment, Results, Task, different, draws_of, markdown_table, plus_minus, those
from labelgap import LowRankClassifier
from labelgap.exceptions import UninformativeLabelsWarning

METRICS = ("macro-f1", "micro-f1")
RULES = ("shared", "per-label", "shrunk", "auto")


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Fit to a draw with each rule, and judge its thresholds on the test rows."""
    seed = int(task["draw"])
    given = source(str(task["data"]), seed, OBSERVED)
    result: dict[str, Any] = {}
    for rule in RULES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UninformativeLabelsWarning)
            model = LowRankClassifier(metric=str(task["metric"]), thresholds=rule, random_state=seed)
            model.fit(given.X, given.labels)
        result[rule] = model.score(given.X_test, given.Y_test, unobserved="negative")
        result[f"{rule} is"] = model.thresholds_kind_
    return result


def report(results: Results, source: Source) -> str:
    """The shared threshold's metric, and the difference of each rule on the same draws (mean ± sd)."""
    rows = []
    for data, metric in different(results, "data", "metric"):
        draws = those(results, data=data, metric=metric)
        row = [metric, data, str(len(draws)), plus_minus(one["shared"] for one in draws)]
        row += [plus_minus((one[rule] - one["shared"] for one in draws), sign="+") for rule in RULES[1:]]
        kinds = [one["auto is"] for one in draws]
        row.append(", ".join(f"{kinds.count(kind)} {kind}" for kind in RULES if kind in kinds))
        rows.append(row)
    rows.sort(key=lambda row: METRICS.index(row[0]))
    return markdown_table(["metric", "data", "draws", *RULES, "auto took"], rows)


EXPERIMENT = Experiment(
    "decisions",
    __doc__ or "",
    draws=5,
    data=REAL,
    tasks=lambda options, given: draws_of(options, data=options.data, metric=METRICS),
    measure=measure,
    report=report,
    settings=lambda options, given: {"observed": OBSERVED},
)

if __name__ == "__main__":
    EXPERIMENT.main()
