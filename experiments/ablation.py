"""The contribution of each part of the default: micro-F1 on test rows without it, on the same labels.

Run ``python -m experiments.ablation [--data emotions scene yeast] [--variants "no ridge"] [--draws 5]``. Of
the training labels 20 % are observed, as in ``experiments.table1``; every variant differs from the default in
one thing. The thorough search compares penalties on all rows and all folds in fine steps, which takes minutes
on Corel5k and Bibtex.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from experiments.problems import REAL, SYNTHETIC, Problem, available, problem
from experiments.runs import Task, argument_parser, markdown_table, mean_sd, run_tasks, write_results
from labelgap import LowRankClassifier
from labelgap.exceptions import UninformativeLabelsWarning
from labelgap.fitting import judges
from labelgap.fitting import search as selection
from labelgap.fitting.choice import PenaltyChoice

METRIC = "micro-f1"
DEFAULT = "default"
Source = Callable[[str, int, float], Problem]


@contextlib.contextmanager
def exact_threshold() -> Iterator[None]:
    """The best threshold of all held-out scores, instead of the mean over parts of them."""
    # What watches the scores is left out.
    plain = judges.MetricJudge
    with mock.patch.object(judges, "SteadyJudge", lambda metric, loss, *_: plain(metric, loss)):
        yield


@contextlib.contextmanager
def chosen_within(errors: float) -> Iterator[None]:
    """The loss decides among metric values within this many standard errors of the best."""
    with mock.patch.object(selection.Contest.__init__, "__defaults__", (errors,)):
        yield


@contextlib.contextmanager
def thorough_search() -> Iterator[None]:
    """All rows and all folds choose, in fine steps, however many entries there are."""
    with (
        mock.patch.object(PenaltyChoice, "samples_rows", False),
        mock.patch.object(PenaltyChoice, "samples_folds", False),
    ):
        yield


class Variant:
    """Parameters that differ from the default, and other changes to the fit."""

    def __init__(self, change: Callable[[], Any] = contextlib.nullcontext, **parameters: Any) -> None:
        self._change, self._parameters = change, parameters

    def fitted(self, given: Problem, seed: int) -> LowRankClassifier:
        model = LowRankClassifier(metric=METRIC, random_state=seed, **self._parameters)
        with self._change(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UninformativeLabelsWarning)
            return model.fit(given.X, given.labels)


VARIANTS = {
    DEFAULT: Variant(),
    "exact best threshold": Variant(exact_threshold),
    "chosen by the metric alone": Variant(lambda: chosen_within(0.0)),
    "chosen by the loss alone": Variant(lambda: chosen_within(1e9)),
    "features as they are": Variant(feature_scaling="none"),
    "no ridge": Variant(ridge_penalty=0.0),
    "no trace norm": Variant(trace_penalty=0.0),
    "free intercepts": Variant(intercept_penalty=0.0),
    "squared loss": Variant(loss="squared"),
    "‖XW‖_*": Variant(penalty="scores"),
    "thorough search": Variant(thorough_search),
}


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Fit a variant to a draw, and judge it on the test rows."""
    seed = int(task["draw"])
    given = source(str(task["data"]), seed, 0.2)
    began = time.perf_counter()
    model = VARIANTS[str(task["variant"])].fitted(given, seed)
    seconds = time.perf_counter() - began
    score = float(model.score(given.X_test, given.Y_test, unobserved="negative"))
    return {"score": score, "rank": model.rank_, "seconds": round(seconds, 2)}


def report(results: Sequence[dict[str, Any]]) -> str:
    """The default's micro-F1, and the difference of each variant on the same draws (mean ± sd)."""
    data = list(dict.fromkeys(one["data"] for one in results))
    scores = {(one["data"], one["variant"], one["draw"]): one["score"] for one in results}
    rows = []
    for variant in dict.fromkeys(one["variant"] for one in results):
        row = [variant]
        for name in data:
            draws = sorted({draw for where, _, draw in scores if where == name})
            base = [scores[name, DEFAULT, draw] for draw in draws]
            ours = [scores[name, variant, draw] for draw in draws]
            shown = ours if variant == DEFAULT else [a - b for a, b in zip(ours, base, strict=True)]
            mean, sd = mean_sd(shown)
            row.append(f"{mean:.4f} ± {sd:.4f}" if variant == DEFAULT else f"{mean:+.4f} ± {sd:.4f}")
        rows.append(row)
    return markdown_table(["variant", *data], rows)


def main(arguments: list[str] | None = None, source: Source = problem) -> None:
    """The command line; ``source`` makes the problem of a data set, a draw and a fraction observed."""
    parser = argument_parser(__doc__ or "", draws=5)
    parser.add_argument(
        "--data", nargs="+", choices=[*REAL, SYNTHETIC], default=["emotions", "scene", "yeast"]
    )
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    options = parser.parse_args(arguments)
    data = available(options.data) if source is problem else options.data
    if not data:
        return
    tasks: list[Task] = [
        {"data": name, "draw": draw, "variant": variant}
        for name in data
        for draw in range(options.draws)
        # Every variant is shown as a difference to the default.
        for variant in dict.fromkeys((DEFAULT, *options.variants))
    ]
    folder: Path = options.out
    settings = {"observed": 0.2, "metric": METRIC}
    results = run_tasks(
        "ablation",
        tasks,
        lambda task: measure(task, source),
        folder=folder,
        settings=settings,
        fresh=options.fresh,
    )
    table = report(results)
    print(table)
    write_results("ablation", folder=folder, settings=settings, results=results, table=table, figure=None)


if __name__ == "__main__":
    main()
