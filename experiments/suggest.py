"""What to label next: micro-F1 on test rows against the number of labels, by how the labels are chosen.

Run ``python -m experiments.suggest [--data emotions ...] [--draws 10] [--out FOLDER]``. A fit begins with 5 %
of the training labels, drawn uniformly. Batches of 2.5 % (5 % on corel5k and bibtex) are asked for until
there are 15 %, and the model is fitted again after each. A batch has the scores nearest to the threshold
("uncertainty"), or is that of ``suggest``. Random labels go on to 30 %, so that the mean of their curves over
the draws says how many of them it takes to be as good. All methods begin with the same labels.

The labels that were asked for are no fair sample, so the first ones, which are, choose the threshold
(``judged=``). "suggest, all judge" asks as ``suggest`` does, and lets all labels choose it. The penalty is
chosen at the first fit, and falls with the square root of the number of labels from then on.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.problems import REAL, SYNTHETIC, Source
from experiments.runs import Experiment, Results, Task, different, markdown_table, plus_minus, those
from labelgap import LowRankClassifier, ObservedLabels
from labelgap.exceptions import LabelgapWarning

FIRST, LAST = 0.05, 0.15
BATCHES, LARGE_BATCHES = 4, 2
LARGE = ("corel5k", "bibtex")
RANDOM = (0.1, 0.15, 0.2, 0.3)
METHODS = ("random", "uncertainty", "suggest", "suggest, all judge")
# One penalty is chosen, so that the fits are quick.
SETTINGS: dict[str, Any] = {
    "features": "linear",
    "label_weighting": 0.0,
    "ridge_penalty": 0.0,
    "intercept_penalty": 0.0,
}
Places = NDArray[np.int64]


def fractions(data: str, method: str) -> tuple[float, ...]:
    """The fractions of the training labels that are known at the fits of a method."""
    if method == "random":
        return FIRST, *RANDOM
    count = LARGE_BATCHES if data in LARGE else BATCHES
    return tuple(np.linspace(FIRST, LAST, count + 1).round(4).tolist())


class Start:
    """A data set of a draw, the order of its random labels, and the fit to the first of them."""

    def __init__(self, data: str, draw: int, source: Source) -> None:
        self.seed, self.given = draw, source(data, draw, 1.0)
        self.Y = self.given.labels.to_dense()
        self.order = np.random.RandomState([draw, 7]).permutation(self.Y.size)
        self.first = self.mask(self.order[: round(FIRST * self.Y.size)])
        self.model: LowRankClassifier | None = None
        self.model = self.fitted(self.first, None)

    def mask(self, places: Places) -> NDArray[np.bool_]:
        """Which entries have these numbers ``row · L + label``."""
        found = np.zeros(self.Y.shape, dtype=np.bool_)
        found.flat[places] = True
        return found

    def fitted(self, known: NDArray[np.bool_], judged: NDArray[np.bool_] | None) -> LowRankClassifier:
        """A fit; after the first one the penalty falls with the square root of the number of labels."""
        settings: dict[str, Any] = {**SETTINGS, "random_state": self.seed}
        if self.model is not None:
            fewer = float(np.sqrt(self.first.sum() / known.sum()))
            settings["trace_penalty"] = fewer * self.model.trace_penalty_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelgapWarning)
            labels = ObservedLabels.from_mask(self.Y, known)
            return LowRankClassifier(**settings).fit(self.given.X, labels, judged=judged)

    def value(self, model: LowRankClassifier) -> float:
        """Micro-F1 on the test rows."""
        return round(model.score(self.given.X_test, self.given.Y_test, unobserved="negative"), 4)

    def asked(self, method: str, model: LowRankClassifier, known: NDArray[np.bool_], n: int) -> Places:
        """The numbers of the entries to ask about."""
        X, Y = self.given.X, self.Y
        if method == "uncertainty":
            far = np.where(known, np.inf, np.abs(model.decision_function(X) - model.thresholds_))
            return np.argsort(far, axis=None, kind="stable")[:n]
        found = model.suggest(X, n, ObservedLabels.from_mask(Y, known))
        return np.asarray(found.rows * Y.shape[1] + found.labels)


# The methods of a draw follow each other.
_start = functools.lru_cache(maxsize=1)(Start)


def measure(task: Task, source: Source) -> dict[str, Any]:
    """The metric on the test rows after each fit."""
    data, method = str(task["data"]), str(task["method"])
    start = _start(data, int(task["draw"]), source)
    known, model = start.first.copy(), start.model
    values = [start.value(model)]
    for fraction in fractions(data, method)[1:]:
        count = round(fraction * known.size)
        judged = start.first
        if method == "random":
            known, judged = start.mask(start.order[:count]), None
        else:
            known.flat[start.asked(method, model, known, count - int(known.sum()))] = True
            if method == "suggest, all judge":
                judged = None
        model = start.fitted(known, judged)
        values.append(start.value(model))
    return {"micro-f1": values}


def saved(values: Sequence[float], at: Sequence[float], curve: Sequence[float]) -> list[float]:
    """How much less than random labels was needed for each value, as a fraction of these.

    ``curve`` has the mean values of random labels at ``(FIRST, *RANDOM)``. It is made to rise, and is linear
    between; what is above its end counts as reached there.
    """
    counts = np.array([FIRST, *RANDOM])
    rising = np.maximum.accumulate(np.asarray(curve, dtype=np.float64))
    # Equal values are reached at the first of their counts.
    values_of, places = np.unique(rising, return_index=True)
    needed = np.interp(values, values_of, counts[places])
    return [round(1.0 - float(here / there), 4) for here, there in zip(at, needed, strict=True)]


def report(results: Results, source: Source) -> str:
    """Mean ± sd over draws of the metric and of the labels saved, at 10 % and at 15 %."""
    rows = []
    for data in different(results, "data"):
        curve = np.mean([one["micro-f1"] for one in those(results, data=data, method="random")], axis=0)
        for method in METHODS:
            mine = [one["micro-f1"] for one in those(results, data=data, method=method)]
            at = fractions(data, method)
            places = at.index(0.1), at.index(LAST)
            cells = [plus_minus((one[k] for one in mine), 3) for k in places]
            saving = [saved(one, at, curve.tolist()) for one in mine]
            random = method == "random"
            cells += ["" if random else plus_minus((100 * one[k] for one in saving), 0) for k in places]
            rows.append([data, method, *cells])
    header = ["data", "method", "micro-F1 at 10 %", "at 15 %", "labels saved at 10 %, %", "at 15 %, %"]
    return markdown_table(header, rows)


EXPERIMENT = Experiment(
    "suggest",
    __doc__ or "",
    draws=10,
    data=(*REAL, SYNTHETIC),
    default_data=REAL,
    tasks=lambda options, given: [
        {"data": name, "draw": draw, "method": method}
        for draw in range(options.draws)
        for name in options.data
        for method in METHODS
    ],
    measure=measure,
    report=report,
    settings=lambda options, given: {
        "first": FIRST,
        "last": LAST,
        "random": RANDOM,
        "model": SETTINGS,
        "batches": BATCHES,
        "batches of large sets": LARGE_BATCHES,
    },
)

if __name__ == "__main__":
    EXPERIMENT.main()
