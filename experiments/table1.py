"""The paper's table on real data, with baselines that are tuned: micro-F1 and accuracy at 20 % observed.

Run ``python -m experiments.table1 [--data cal500 bibtex ...] [--methods ...] [--metrics ...] [--draws 5]
[--out FOLDER] [--fresh] [--finished]``. It writes table1.json, table1.md and table1.png to the folder, and
can be stopped and started again; ``--finished`` writes the tables of what is done so far.

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
  the same draw, or where it takes linear ones in those of ``features="rbf"``. For dense features only.
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

import statistics
import time
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from experiments.ablation import leml_rank
from experiments.baselines import ForestPlugIn, Grid, OutOfFold, TunedPlugIn, one_pass
from experiments.problems import OBSERVED, Problem, Source, problem
from experiments.runs import Experiment, Results, Task, different, markdown_table, mean_sd, plus_minus, those
from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.exceptions import UninformativeLabelsWarning

DATA = ("cal500", "corel5k", "bibtex", "scene", "yeast", "emotions")
# With all labels observed, draws of these differ in nothing but the folds: one will do.
PUBLISHED_SPLIT = ("corel5k", "bibtex", "scene", "yeast", "emotions")
# Their features are sparse, and have no kernel.
SPARSE = ("corel5k", "bibtex")
METRICS = ("micro-f1", "micro-accuracy")
PLUG_IN = "plug-in, as in the paper"
BY_METRIC, BY_LOSS = "tuned plug-in (by metric)", "tuned plug-in (by log-loss)"
ALGORITHM_1 = "Algorithm 1, as in the paper"
FOREST, ON_KERNELS = "random forest", "tuned plug-in on kernel features"
LINEAR, DEFAULT, ALL_LABELS = "labelgap, linear features", "labelgap default", "all labels"
METHODS = (PLUG_IN, BY_METRIC, BY_LOSS, ALGORITHM_1, FOREST, ON_KERNELS, LINEAR, DEFAULT, ALL_LABELS)
# The paper's table: plug-in and Algorithm 1, as printed.
PAPER = {
    ("micro-f1", "cal500"): ("0.4267 ± 0.0016", "0.3855 ± 0.0005"),
    ("micro-f1", "bibtex"): ("0.2641 ± 0.0251", "0.2398 ± 0.0133"),
    ("micro-f1", "corel5k"): ("0.1552 ± 0.0116", "0.1642 ± 0.0001"),
    ("micro-accuracy", "cal500"): ("0.8541 ± 0.0034", "0.8493 ± 0.0002"),
    ("micro-accuracy", "bibtex"): ("0.9849 ± 0.0016", "0.9856 ± 0.0003"),
    ("micro-accuracy", "corel5k"): ("0.9906 ± 0.0000", "0.9906 ± 0.0000"),
}


# -- methods -----------------------------------------------------------------------------------------------


class Given(NamedTuple):
    """Where the problems come from, and the strengths of the tuned plug-ins."""

    source: Source
    grid: Grid = Grid()


class OnKernels:
    """The tuned plug-in in the features of a fitted map."""

    def __init__(self, kernels: Any, model: TunedPlugIn) -> None:
        self._kernels, self._model = kernels, model

    def fit(self, X: Any, labels: Any) -> OnKernels:
        self._model.fit(self._kernels.transform(X), labels)
        return self

    def score(self, X: Any, y: Any, unobserved: str) -> float:
        return self._model.score(self._kernels.transform(X), y, unobserved=unobserved)


def make_model(method: str, problem: Problem, metric: str, seed: int, grid: Grid) -> Any:
    """The method, not yet fitted; nothing that it needs before that takes part in its time."""
    common: dict[str, Any] = {"metric": metric, "random_state": seed}
    if method == PLUG_IN:
        return PlugInClassifier(threshold="train", **common)
    if method in (BY_METRIC, BY_LOSS, ALL_LABELS):
        return TunedPlugIn(criterion="metric" if method == BY_METRIC else "loss", grid=grid, **common)
    if method == ALGORITHM_1:
        return LowRankClassifier(
            rank=leml_rank(problem),
            threshold="train",
            ridge_penalty=0.0,
            fit_intercept=False,
            feature_scaling="none",
            features="linear",
            label_weighting=0.0,
            **common,
        )
    if method == FOREST:
        return ForestPlugIn(**common)
    if method == ON_KERNELS:
        maps = (
            LowRankClassifier(features=features, **common).fit(problem.X, problem.labels).feature_map_
            for features in ("auto", "rbf")
        )
        return OnKernels(next(one for one in maps if one is not None), TunedPlugIn(grid=grid, **common))
    return LowRankClassifier(features="linear" if method == LINEAR else "auto", **common)


# Neighbouring tasks have the problem in common, and the tuned plug-ins their held-out scores.
@lru_cache(maxsize=2)
def drawn(source: Source, name: str, seed: int, observed: float) -> Problem:
    """The problem of a task."""
    return source(name, seed, observed)


@lru_cache(maxsize=1)
def held_out_scores(source: Source, name: str, seed: int, observed: float) -> OutOfFold:
    """Out-of-fold scores at all strengths, made once for both tuned plug-ins and both metrics."""
    problem = drawn(source, name, seed, observed)
    return OutOfFold(problem.X, problem.labels, seed)


def measure(task: Task, given: Given) -> dict[str, Any]:
    """Fit one method and judge it on the test rows: the score, times, and the chosen settings."""
    name, metric, method = (str(task[key]) for key in ("data", "metric", "method"))
    seed = int(task["draw"])
    place = given.source, name, seed, 1.0 if method == ALL_LABELS else OBSERVED
    problem = drawn(*place)
    with warnings.catch_warnings():
        # With 20 % of the labels a rare one can go unobserved, or be observed with one class only.
        warnings.simplefilter("ignore", UninformativeLabelsWarning)
        began = time.perf_counter()
        one_pass(problem.X, problem.labels)
        pass_seconds = time.perf_counter() - began
        model = make_model(method, problem, metric, seed, given.grid)
        shared = held_out_scores(*place) if isinstance(model, TunedPlugIn) else None
        before = 0.0 if shared is None else shared.seconds
        began = time.perf_counter()
        model.fit(problem.X, problem.labels, **({} if shared is None else {"held_out": shared}))
        # As if it had made the scores for itself that were there before.
        seconds = time.perf_counter() - began + before
    d, n_labels = problem.X.shape[1], problem.labels.shape[1]
    found = {
        "score": float(model.score(problem.X_test, problem.Y_test, unobserved="negative")),
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
            "c": model.trace_penalty_ * problem.labels.n_observed**0.5 / 2,
        }
    return found


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


# -- tables ------------------------------------------------------------------------------------------------


def report(results: Results, given: Any = None) -> str:
    """The tables of scores by metric, of differences, of what was chosen, and of times."""
    parts = []
    for metric in different(results, "metric"):
        here = those(results, metric=metric)
        parts += [f"## {metric}", _score_table(here)]
        for title, table in (
            ("Beside the figures that the paper prints:", _paper_table(here, metric)),
            ("Beside a random forest per label:", _beside(here, FOREST)),
            ("Beside the tuned plug-in in kernel features (dense data only):", _beside(here, ON_KERNELS)),
            (f"{DEFAULT} less the others on the same draws, with the draws won:", _difference_table(here)),
            (f"The fraction of the way from {BY_METRIC} to {ALL_LABELS}:", _way_table(here)),
        ):
            if table:
                parts += [title, table]
    first = those(results, metric=different(results, "metric")[0])
    for title, table in (
        ("Model size", _size_table(first)),
        ("What the default chose", _choice_table(first)),
        ("Time of a fit, × one pass", _time_table(results, first)),
    ):
        if table:
            parts += [f"## {title}", table]
    return "\n\n".join(parts)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(titles, rows) if rows else ""


def _scores(results: Results, data: str, method: str, key: str = "score") -> list[float]:
    """A number of a method on a data set, by draw."""
    found = sorted(those(results, data=data, method=method), key=lambda one: int(one["draw"]))
    return [float(one[key]) for one in found]


def _everywhere(results: Results, *wanted: str) -> list[str]:
    """The methods that ran on every data set, in as many draws as labelgap's default at least."""

    def ran(data: str, method: str) -> bool:
        least = 1 if method == ALL_LABELS else max(1, len(_scores(results, data, DEFAULT)))
        return len(_scores(results, data, method)) >= least

    results = those(results, metric=different(results, "metric")[0])
    data = different(results, "data")
    found = [method for method in different(results, "method") if all(ran(name, method) for name in data)]
    return [method for method in wanted if method in found] if wanted else found


def _score_table(results: Results) -> str:
    methods = _everywhere(results)
    rows = []
    for data in different(results, "data"):
        # The draws that all methods have; one of all labels may do for all.
        counts = [len(_scores(results, data, method)) for method in methods if method != ALL_LABELS]
        draws = min(counts, default=1)
        rows.append([data, str(draws), *(plus_minus(_scores(results, data, m)[:draws]) for m in methods)])
    return _table(["data", "draws", *methods], rows)


def _paper_table(results: Results, metric: str) -> str:
    methods = _everywhere(results, PLUG_IN, ALGORITHM_1, DEFAULT)
    rows = [
        [data, *PAPER[metric, data], *(plus_minus(_scores(results, data, m)) for m in methods)]
        for data in different(results, "data")
        if (metric, data) in PAPER
    ]
    return _table(["data", "paper: plug-in", "paper: Algorithm 1", *methods], rows)


def _beside(results: Results, rival: str) -> str:
    """A method that did not run on all data sets, and the same draws of labelgap."""
    methods = [name for name in (rival, LINEAR, DEFAULT) if name in different(results, "method")]
    rows = []
    for data in [] if rival in _everywhere(results) else different(results, "data"):
        draws = different(those(results, data=data, method=rival), "draw")
        same = [one for one in those(results, data=data) if one["draw"] in draws]
        if draws:
            rows.append([data, str(len(draws)), *(plus_minus(_scores(same, data, m)) for m in methods)])
    return _table(["data", "draws", *methods], rows)


def _difference_table(results: Results) -> str:
    """Mean ± sd of the paired differences, and draws won."""
    rivals = _everywhere(results, BY_METRIC, BY_LOSS, FOREST)
    if not rivals or not _everywhere(results, DEFAULT):
        return ""
    rows = []
    for data in different(results, "data"):
        row, ours = [data], _scores(results, data, DEFAULT)
        for rival in rivals:
            # Where one has more draws than the other, those that both have are compared.
            differences = [a - b for a, b in zip(ours, _scores(results, data, rival), strict=False)]
            won = sum(one > 0 for one in differences)
            row += [plus_minus(differences, sign="+"), f"{won} of {len(differences)}"]
        rows.append(row)
    titles = [title for rival in rivals for title in (f"minus {rival}", "draws won")]
    return _table(["data", *titles], rows)


def _way_table(results: Results) -> str:
    """How much of what the missing labels cost each method makes up for, on the draws that all have."""
    methods = _everywhere(results, BY_METRIC, BY_LOSS, FOREST, LINEAR, DEFAULT)
    rows = []
    for data in different(results, "data"):
        goal = _scores(results, data, ALL_LABELS)
        if BY_METRIC not in methods or not goal:
            continue
        scores = [_scores(results, data, method) for method in methods]
        n_draws = min(map(len, scores))
        start, *means = (statistics.fmean(found[:n_draws]) for found in scores)
        way = statistics.fmean(goal) - start
        # If the missing labels cost nothing, there is no difference to make up.
        fractions = [f"{(mean - start) / way:.0%}" if way > 0 else "no way to go" for mean in means]
        rows.append([data, str(n_draws), f"{start:.4f}", f"{start + way:.4f}", *fractions])
    return _table(["data", "draws", BY_METRIC, ALL_LABELS, *methods[1:]], rows)


def _choice_table(results: Results) -> str:
    """The features and the label weighting of the default in each draw."""

    def counted(names: list[str]) -> str:
        return ", ".join(f"{name} ({names.count(name)})" for name in dict.fromkeys(names))

    rows = []
    for data in different(results, "data"):
        fits = [one for one in those(results, data=data, method=DEFAULT) if "chosen_features" in one]
        if fits:
            features = counted([str(one["chosen_features"]) for one in fits])
            rows.append([data, features, counted([f"{one['label_weighting']:g}" for one in fits])])
    return _table(["data", "features", "label weighting"], rows)


def _size_table(results: Results) -> str:
    """Rank k, and k(d + L) parameters against dL."""
    methods = _everywhere(results, ALGORITHM_1, LINEAR)
    rows = []
    for data in different(results, "data"):
        first = those(results, data=data)[0]
        d, n_labels = int(first["features"]), int(first["labels"])
        row = [data, str(d), str(n_labels), str(d * n_labels)]
        for method in methods:
            rank = statistics.fmean(_scores(results, data, method, "rank"))
            size = rank * (d + n_labels)
            row += [f"{rank:.1f}", f"{size:.0f}", f"{size / (d * n_labels):.0%}"]
        rows.append(row)
    titles = [title for method in methods for title in (f"{method}: k", "k(d + L)", "fraction of dL")]
    return _table(["data", "d", "L", "dL", *titles], rows)


def _time_table(results: Results, first: Results) -> str:
    """Median over the draws, of fits for the first metric."""

    # With all labels observed a pass takes longer too; that says nothing about the methods.
    def timed(some: Results) -> Results:
        return [one for one in some if one["method"] not in (ALL_LABELS, ON_KERNELS)]

    methods, rows = _everywhere(timed(first)) if timed(first) else [], []
    for data in different(timed(first), "data"):
        passes = those(timed(results), data=data)
        row = [data, f"{statistics.median(float(one['pass_seconds']) for one in passes):.2f} s"]
        for method in methods:
            multiples = [
                one["seconds"]
                / statistics.median(other["pass_seconds"] for other in those(passes, draw=one["draw"]))
                for one in those(first, data=data, method=method)
            ]
            row.append(f"{statistics.median(multiples):.1f}")
        rows.append(row)
    return _table(["data", "one pass", *methods], rows)


# -- the picture -------------------------------------------------------------------------------------------

_MARKERS = "ovsD^*Px"
_COLOURS = {
    PLUG_IN: "#b0a07a",
    FOREST: "#5b8c5a",
    LINEAR: "#6aa5d8",
    BY_METRIC: "#d9822b",
    BY_LOSS: "#c8553d",
    ALGORITHM_1: "#8fb3cc",
    DEFAULT: "#1f5f8b",
    ALL_LABELS: "#777777",
}


def draw(results: Results, given: Any = None) -> Figure:
    """The first metric by data set: a dot with its spread for every method."""
    metric = different(results, "metric")[0]
    results = those(results, metric=metric)
    data, methods = different(results, "data"), _everywhere(results)
    figure = Figure(figsize=(max(8.0, 2.4 + 1.3 * len(data)), 4.2), dpi=130, layout="constrained")
    axis = figure.subplots()
    for number, method in enumerate(methods):
        shift = 0.7 * ((number + 0.5) / len(methods) - 0.5)
        found = [mean_sd(_scores(results, name, method)) for name in data]
        axis.errorbar(
            [place + shift for place in range(len(data))],
            [mean for mean, _ in found],
            [sd for _, sd in found],
            fmt=_MARKERS[number % len(_MARKERS)],
            color=_COLOURS.get(method),
            markersize=5.5,
            capsize=2,
            label=method,
        )
    axis.set_xticks(range(len(data)), data)
    axis.set(ylabel=f"{metric} on test rows", title=f"{OBSERVED:.0%} of the training labels observed")
    axis.grid(axis="y", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False)
    return figure


EXPERIMENT = Experiment(
    "table1",
    __doc__ or "",
    draws=5,
    data=DATA,
    choices={"methods": METHODS, "metrics": METRICS},
    tasks=lambda options, given: make_tasks(options.data, options.methods, options.draws, options.metrics),
    measure=measure,
    report=report,
    settings=lambda options, given: {"observed": OBSERVED},
    figure=draw,
    given=Given(problem),
)

if __name__ == "__main__":
    EXPERIMENT.main()
