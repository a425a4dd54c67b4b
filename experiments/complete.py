"""What the labels of a row say beside its features: XW against XW + N, and a refit of W on soft labels.

Run ``python -m experiments.complete [--data emotions ...] [--draws 3] [--out FOLDER]``. Of the training
labels 20 % are observed. The same default fit decides the unobserved entries of its training rows alone
(``predict``) and with a part of the rows themselves (``complete``). A second fit, with
``soft_labels="auto"``, is compared with the first on the test rows. μ, ω and all thresholds are chosen on
held-out training labels.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from experiments.problems import OBSERVED, REAL, Problem, Source
from experiments.runs import Experiment, Results, Task, different, draws_of, markdown_table, plus_minus, those
from labelgap import LowRankClassifier, ObservedLabels
from labelgap.exceptions import UninformativeLabelsWarning

METRIC = "micro-f1"


def unobserved_truth(given: Problem) -> ObservedLabels:
    """The true labels of the entries of the training rows that no method saw."""
    truth = ObservedLabels.from_any(given.Y, unobserved="negative")
    n_labels = truth.shape[1]
    seen = given.labels.rows * n_labels + given.labels.cols
    return truth.select(~np.isin(truth.rows * n_labels + truth.cols, seen))


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Fit to a draw, complete its training rows, and fit again with soft labels."""
    seed = int(task["draw"])
    given = source(str(task["data"]), seed, OBSERVED)
    gaps = unobserved_truth(given)
    test = ObservedLabels.from_any(given.Y_test, unobserved="negative")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeLabelsWarning)
        model = LowRankClassifier(metric=METRIC, random_state=seed).fit(given.X, given.labels)
        completed = model.complete(given.X, given.labels)
        soft = LowRankClassifier(metric=METRIC, random_state=seed, soft_labels="auto")
        soft.fit(given.X, given.labels)
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
    }


def report(results: Results, source: Source) -> str:
    """Mean ± standard deviation over draws, and of the differences on the same draws."""
    rows = []
    for data in different(results, "data"):
        draws = those(results, data=data)
        row = [data, str(len(draws))]
        for base, other, chosen in (
            ("gaps by XW", "gaps by XW + N", "rank of N"),
            ("test", "test with soft labels", "soft label weight"),
        ):
            row.append(plus_minus(one[base] for one in draws))
            row.append(plus_minus((one[other] - one[base] for one in draws), sign="+"))
            row.append(", ".join(f"{one[chosen]:g}" for one in draws))
        rows.append(row)
    header = ["data", "draws", "gaps: XW", "XW + N", "rank of N", "test rows: W", "soft labels", "ω"]
    return markdown_table(header, rows)


EXPERIMENT = Experiment(
    "complete",
    __doc__ or "",
    draws=3,
    data=REAL,
    tasks=lambda options, given: draws_of(options, data=options.data),
    measure=measure,
    report=report,
    settings=lambda options, given: {"observed": OBSERVED, "metric": METRIC},
)

if __name__ == "__main__":
    EXPERIMENT.main()
