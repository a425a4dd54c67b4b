"""How well planted errors are found: the precision among as many entries as were flipped.

Run ``python -m experiments.label_errors [--data emotions ...] [--draws 3] [--out FOLDER]``. Of the training
labels 20 % are observed, and of these 5, 10 and 20 % are flipped, drawn uniformly. The observed entries are
ordered by their out-of-fold self-confidence: by ``LowRankClassifier`` with its defaults, beside which the
other labels of the row take part, and by one logistic regression per label (``PlugInClassifier``). Random
order has the fraction flipped as its precision.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.problems import OBSERVED, REAL, Source
from experiments.runs import Experiment, Results, Task, different, draws_of, markdown_table, plus_minus, those
from labelgap import LowRankClassifier, PlugInClassifier, find_label_errors
from labelgap.exceptions import LabelgapWarning

FLIPPED = (0.05, 0.1, 0.2)
METHODS = {"low rank": LowRankClassifier, "per label": PlugInClassifier}


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Flip a part of the observed labels of a draw, the same for both methods, and look for it."""
    seed, fraction = int(task["draw"]), float(task["flipped"])
    given = source(str(task["data"]), seed, OBSERVED)
    labels = given.labels
    n_flipped = round(fraction * labels.n_observed)
    order = np.random.RandomState([seed, round(1000 * fraction)]).permutation(labels.n_observed)
    flipped = np.isin(np.arange(labels.n_observed), order[:n_flipped])
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


def report(results: Results, source: Source) -> str:
    """Precision (mean ± sd over draws) by data set and fraction flipped, with both methods side by side."""

    def precisions(method: str, **where: Any) -> list[float]:
        return [one["precision"] for one in those(results, method=method, **where)]

    rows = [
        [data, f"{flipped:g}", *(plus_minus(precisions(m, data=data, flipped=flipped), 3) for m in METHODS)]
        for data, flipped in different(results, "data", "flipped")
    ]
    rows.append(["mean", "", *(f"{np.mean(precisions(method)):.3f}" for method in METHODS)])
    return markdown_table(["data", "flipped", *METHODS], rows)


EXPERIMENT = Experiment(
    "label_errors",
    __doc__ or "",
    draws=3,
    data=REAL,
    tasks=lambda options, given: draws_of(options, data=options.data, flipped=FLIPPED, method=tuple(METHODS)),
    measure=measure,
    report=report,
    settings=lambda options, given: {"observed": OBSERVED},
)

if __name__ == "__main__":
    EXPERIMENT.main()
