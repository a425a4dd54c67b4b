"""The paper's table on real data, with baselines that are tuned: micro-F1 and accuracy at 20 % observed.

Run ``python -m experiments.table1 [--data cal500 bibtex ...] [--methods ...] [--metrics ...] [--draws 5]
[--out FOLDER] [--fresh] [--finished]``. It writes table1.json, table1.md and table1.png to the folder, and
can be stopped and started again; ``--finished`` writes the tables of what is done so far. Real data sets come
from the folder that LABELGAP_DATA names; those that are not there are left out, with a note. autofood-like
and compphys-like are made up, in the shapes of two data sets of the paper that are not available (see
experiments/stand_ins.py); autofood and compphys are used where the user has them.

Every draw has its own observed labels, and every method gets the same ones. Each is fitted for the metric it
is judged by, on all labels of the test rows.

- "plug-in, as in the paper": one LogisticRegression per label at C = 1, threshold from training scores.
- "tuned plug-in (by metric)", "(by log-loss)": one C for all labels from 0.03 to 3000 and beyond, chosen on
  out-of-fold scores over all observed labels; threshold from the same scores (see experiments/baselines.py).
- "Algorithm 1, as in the paper": the trace norm alone, no intercept, rank at most 0.4 L, threshold from
  training scores, no bound on the scores. Of λ = 2c/√|Ω| the paper does not give c; here it is chosen by the
  metric on held-out entries, which favours the method.
- "random forest": one of 100 trees per label; the threshold comes from out-of-bag probabilities.
- "tuned plug-in on kernel features": as by metric, in the kernel features that labelgap's default takes in
  the same draw, or where it takes linear ones in those that it looks at first. For dense features only.
- "labelgap, linear features": LowRankClassifier with the metric and ``features="linear"``.
- "labelgap default": LowRankClassifier with the metric and default settings.
- "all labels": the tuned plug-in (by log-loss) with every label of the training rows observed. No other
  method gets these; they show how much the missing labels cost. Where the split is published, one draw is
  used for all.

Times are those of a whole fit, choices included, as multiples of one plain pass of scikit-learn's
LogisticRegression over the labels, on the same observed labels. A pass is measured before every fit; the
median of those on the same draw counts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from experiments.baselines import OutOfFold, TunedPlugIn, one_pass
from experiments.forest import ForestPlugIn
from experiments.problems import OBSERVED, OWN, Problem, available, problem, synthetic_problem
from experiments.rivals import leml_rank
from experiments.runs import Task, argument_parser, finished_results, in_words, run_tasks, write_results
from experiments.table1_tables import (
    ALGORITHM_1,
    ALL_LABELS,
    BY_LOSS,
    BY_METRIC,
    DEFAULT,
    FOREST,
    LINEAR,
    METRICS,
    ON_KERNELS,
    PLUG_IN,
    draw,
    report,
)
from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.exceptions import UninformativeLabelsWarning
from labelgap.fitting.feature_maps import RbfMap, fitted_rbf, mapped

DATA = ("cal500", "corel5k", "bibtex", "scene", "yeast", "emotions", "autofood-like", "compphys-like", *OWN)

# With all labels observed, draws of these differ in nothing but the folds: one will do.
PUBLISHED_SPLIT = ("corel5k", "bibtex", "scene", "yeast", "emotions")
# Their features are sparse, and have no kernel.
SPARSE = ("corel5k", "bibtex", "autofood-like", "compphys-like", *OWN)

Source = Callable[[str, int, float], Problem]


# -- methods -----------------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """What a method is fitted to."""

    problem: Problem
    metric: str
    seed: int
    held_out: Callable[[], OutOfFold]
    """Out-of-fold scores at all strengths, made once for both tuned plug-ins and both metrics."""


class Fitted(NamedTuple):
    """A fit, and the time of everything that it needed."""

    model: Any
    seconds: float


def _timed(model: Any, setting: Setting) -> Fitted:
    began = time.perf_counter()
    model.fit(setting.problem.X, setting.problem.labels)
    return Fitted(model, time.perf_counter() - began)


def paper_plug_in(setting: Setting) -> Fitted:
    """Untuned, with the threshold from training scores."""
    model = PlugInClassifier(metric=setting.metric, threshold="train", random_state=setting.seed)
    return _timed(model, setting)


def tuned(criterion: str) -> Callable[[Setting], Fitted]:
    """The tuned plug-in by that criterion."""

    def fit(setting: Setting) -> Fitted:
        held_out = setting.held_out()
        shared, began = held_out.seconds, time.perf_counter()
        model = TunedPlugIn(metric=setting.metric, criterion=criterion, random_state=setting.seed)
        model.fit(setting.problem.X, setting.problem.labels, held_out=held_out)
        own = time.perf_counter() - began - (held_out.seconds - shared)
        # As if it had made the shared scores for itself.
        return Fitted(model, held_out.seconds + own)

    return fit


def algorithm_1(setting: Setting) -> Fitted:
    """The paper's settings, with λ chosen on held-out entries."""
    model = LowRankClassifier(
        metric=setting.metric,
        rank=leml_rank(setting.problem),
        threshold="train",
        ridge_penalty=0.0,
        fit_intercept=False,
        feature_scaling="none",
        features="linear",
        label_weighting=0.0,
        random_state=setting.seed,
    )
    return _timed(model, setting)


def default(setting: Setting) -> Fitted:
    """All settings at their defaults."""
    return _timed(LowRankClassifier(metric=setting.metric, random_state=setting.seed), setting)


def linear(setting: Setting) -> Fitted:
    """The default but for the features."""
    model = LowRankClassifier(metric=setting.metric, features="linear", random_state=setting.seed)
    return _timed(model, setting)


def forest(setting: Setting) -> Fitted:
    """A random forest per label."""
    return _timed(ForestPlugIn(metric=setting.metric, random_state=setting.seed), setting)


def on_kernels(setting: Setting) -> Fitted:
    """The tuned plug-in in the kernel features of labelgap's default; the choice of those takes no time."""
    X = setting.problem.X
    chosen = default(setting).model.feature_map_
    kernels = fitted_rbf(X, RbfMap(), setting.seed) if chosen is None else chosen
    model = OnKernels(kernels, TunedPlugIn(metric=setting.metric, random_state=setting.seed))
    return _timed(model, setting)


class OnKernels:
    """A model in the features of a fitted map."""

    def __init__(self, kernels: Any, model: TunedPlugIn) -> None:
        self._kernels, self._model = kernels, model

    def fit(self, X: Any, labels: Any) -> OnKernels:
        self._model.fit(mapped(self._kernels, X), labels)
        return self

    def score(self, X: Any, y: Any, unobserved: str) -> float:
        return self._model.score(mapped(self._kernels, X), y, unobserved=unobserved)


METHODS: dict[str, Callable[[Setting], Fitted]] = {
    PLUG_IN: paper_plug_in,
    BY_METRIC: tuned("metric"),
    BY_LOSS: tuned("loss"),
    ALGORITHM_1: algorithm_1,
    FOREST: forest,
    ON_KERNELS: on_kernels,
    LINEAR: linear,
    DEFAULT: default,
    ALL_LABELS: tuned("loss"),
}


class Work:
    """Runs the tasks; work that neighbouring tasks have in common is done once."""

    def __init__(self, source: Source = problem) -> None:
        self._problem = lru_cache(maxsize=2)(source)
        self._held_out = lru_cache(maxsize=1)(self._make_held_out)
        self._is_warm = False

    def _make_held_out(self, name: str, seed: int, observed: float) -> OutOfFold:
        chosen = self._problem(name, seed, observed)
        return OutOfFold(chosen.X, chosen.labels, seed)

    def __call__(self, task: Task) -> dict[str, Any]:
        """The score on the test rows, times, and the chosen settings."""
        if not self._is_warm:
            _warm_up()
            self._is_warm = True
        name, metric, method, seed = (task[key] for key in ("data", "metric", "method", "draw"))
        observed = 1.0 if method == ALL_LABELS else OBSERVED
        place = (str(name), int(seed), observed)
        setting = Setting(self._problem(*place), str(metric), int(seed), lambda: self._held_out(*place))
        return judged(str(method), setting)


def judged(method: str, setting: Setting) -> dict[str, Any]:
    """Fit one method and judge it on the test rows."""
    chosen = setting.problem
    with warnings.catch_warnings():
        # With 20 % of the labels a rare one can go unobserved, or be observed with one class only.
        warnings.simplefilter("ignore", UninformativeLabelsWarning)
        began = time.perf_counter()
        one_pass(chosen.X, chosen.labels)
        pass_seconds = time.perf_counter() - began
        model, seconds = METHODS[method](setting)
    d, n_labels = chosen.X.shape[1], chosen.labels.shape[1]
    found = {
        "score": float(model.score(chosen.X_test, chosen.Y_test, unobserved="negative")),
        "seconds": seconds,
        "pass_seconds": pass_seconds,
        "features": d,
        "labels": n_labels,
        "parameters": d * n_labels,
    }
    if isinstance(model, TunedPlugIn):
        found |= {"C": model.C_}
    if isinstance(model, LowRankClassifier):
        found |= {
            "rank": model.rank_,
            "parameters": model.rank_ * (len(model.coef_left_) + n_labels),
            "trace_penalty": model.trace_penalty_,
            "ridge_penalty": model.ridge_penalty_,
            "intercept_penalty": model.intercept_penalty_,
            "relative_gap": model.relative_gap_,
            "chosen_features": model.candidates_[-1].feature_map or model.features_,
            "label_weighting": model.label_weighting_,
            # λ = 2c/√|Ω|.
            "c": model.trace_penalty_ * chosen.labels.n_observed**0.5 / 2,
        }
    return found


def _warm_up() -> None:
    """Compile all kernels before anything is timed."""
    small = synthetic_problem(0, n=60, n_labels=6, n_features=4, rank=2, n_test=10)
    for metric in METRICS:
        for method in (ALGORITHM_1, DEFAULT):
            METHODS[method](Setting(small, metric, 0, lambda: OutOfFold(small.X, small.labels, 0)))


# -- the command line --------------------------------------------------------------------------------------


def make_tasks(
    data: Sequence[str], methods: Sequence[str], draws: int, metrics: Sequence[str] = METRICS
) -> list[Task]:
    """Ordered so that tasks which share a problem and its held-out scores come one after the other."""
    return [
        {"data": name, "metric": metric, "method": method, "draw": seed}
        for name in data
        for seed in range(draws)
        for method in METHODS
        if method in methods and (method != ALL_LABELS or seed == 0 or name not in PUBLISHED_SPLIT)
        if method != ON_KERNELS or name not in SPARSE
        for metric in METRICS
        if metric in metrics
    ]


def main(arguments: list[str] | None = None, source: Source = problem) -> None:
    """The command line; ``source`` makes the problem of a data set, a draw and a fraction observed."""
    parser = argument_parser(__doc__ or "", draws=5)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=list(METRICS))
    parser.add_argument("--finished", action="store_true", help="only write the tables of what is done")
    options = parser.parse_args(arguments)
    data = available(options.data) if source is problem else options.data
    if not data:
        return
    folder: Path = options.out
    settings = {"observed": OBSERVED}
    tasks = make_tasks(data, options.methods, options.draws, options.metrics)
    if options.finished:
        done = finished_results("table1", folder=folder, settings=settings)
        by_task = {in_words({key: one[key] for key in tasks[0]}): one for one in done}
        results = [by_task[in_words(task)] for task in tasks if in_words(task) in by_task]
    else:
        results = run_tasks(
            "table1", tasks, Work(source), folder=folder, settings=settings, fresh=options.fresh
        )
    table = report(results)
    print(table)
    write_results(
        "table1", folder=folder, settings=settings, results=results, table=table, figure=draw(results)
    )


if __name__ == "__main__":
    main()
