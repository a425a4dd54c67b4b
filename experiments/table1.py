"""The paper's table on real data, with baselines that are tuned: micro-F1 and accuracy at 20 % observed.

Run ``python -m experiments.table1 [--data cal500 bibtex ...] [--methods ...] [--draws 5] [--out FOLDER]
[--fresh]``. It writes table1.json, table1.md and table1.png to the folder, and can be stopped and started
again. Real data sets come from the folder that LABELGAP_DATA names; those that are not there are left out,
with a note. autofood-like and compphys-like are made up, in the shapes of two data sets of the paper that
are not available (see experiments/stand_ins.py); autofood and compphys are used where the user has them.

Every draw has its own observed labels, and every method gets the same ones. Each is fitted for the metric it
is judged by, on all labels of the test rows.

- "plug-in, as in the paper": one LogisticRegression per label at C = 1, threshold from training scores.
- "tuned plug-in (by metric)", "(by log-loss)": one C for all labels from 0.03 to 3000 and beyond, chosen on
  out-of-fold scores over all observed labels; threshold from the same scores (see experiments/baselines.py).
- "Algorithm 1, as in the paper": the trace norm alone, no intercept, rank at most 0.4 L, threshold from
  training scores, no bound on the scores. Of λ = 2c/√|Ω| the paper does not give c; here it is chosen by the
  metric on held-out entries, which favours the method.
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
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.baselines import OutOfFold, TunedPlugIn, one_pass
from experiments.problems import OBSERVED, OWN, Problem, available, problem, synthetic_problem
from experiments.rivals import leml_rank
from experiments.runs import Task, argument_parser, markdown_table, mean_sd, run_tasks, write_results
from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.exceptions import LabelgapError, UninformativeLabelsWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = ("cal500", "corel5k", "bibtex", "scene", "yeast", "emotions", "autofood-like", "compphys-like", *OWN)
METRICS = ("micro-f1", "micro-accuracy")
BY_METRIC, BY_LOSS = "tuned plug-in (by metric)", "tuned plug-in (by log-loss)"
ALGORITHM_1 = "Algorithm 1, as in the paper"
DEFAULT, ALL_LABELS = "labelgap default", "all labels"

# The paper's table: plug-in and Algorithm 1, as printed.
PAPER = {
    "micro-f1": {
        "cal500": ("0.4267 ± 0.0016", "0.3855 ± 0.0005"),
        "autofood": ("0.4897 ± 0.0103", "0.5597 ± 0.0047"),
        "bibtex": ("0.2641 ± 0.0251", "0.2398 ± 0.0133"),
        "compphys": ("0.2463 ± 0.0315", "0.3510 ± 0.0293"),
        "corel5k": ("0.1552 ± 0.0116", "0.1642 ± 0.0001"),
    },
    "micro-accuracy": {
        "cal500": ("0.8541 ± 0.0034", "0.8493 ± 0.0002"),
        "autofood": ("0.9307 ± 0.0064", "0.9345 ± 0.0043"),
        "bibtex": ("0.9849 ± 0.0016", "0.9856 ± 0.0003"),
        "compphys": ("0.9448 ± 0.0011", "0.9466 ± 0.0012"),
        "corel5k": ("0.9906 ± 0.0000", "0.9906 ± 0.0000"),
    },
}
# With all labels observed, draws of these differ in nothing but the folds: one will do.
PUBLISHED_SPLIT = ("corel5k", "bibtex", "scene", "yeast", "emotions")
_NONE = "–"

Source = Callable[[str, int, float], Problem]
Results = Sequence[dict[str, Any]]


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
        random_state=setting.seed,
    )
    return _timed(model, setting)


def default(setting: Setting) -> Fitted:
    """All settings at their defaults."""
    return _timed(LowRankClassifier(metric=setting.metric, random_state=setting.seed), setting)


METHODS: dict[str, Callable[[Setting], Fitted]] = {
    "plug-in, as in the paper": paper_plug_in,
    BY_METRIC: tuned("metric"),
    BY_LOSS: tuned("loss"),
    ALGORITHM_1: algorithm_1,
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
            "parameters": model.rank_ * (d + n_labels),
            "trace_penalty": model.trace_penalty_,
            "ridge_penalty": model.ridge_penalty_,
            "intercept_penalty": model.intercept_penalty_,
            "relative_gap": model.relative_gap_,
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


# -- tables ------------------------------------------------------------------------------------------------


def report(results: Results) -> str:
    """The tables of scores by metric, of differences, and of times."""
    parts = []
    for metric in METRICS:
        parts += [f"## {metric}", _score_table(results, metric)]
        differences = _difference_table(results, metric)
        if differences:
            parts += [f"{DEFAULT} less the tuned plug-in on the same draws, {metric}:", differences]
    parts += ["## Model size", _size_table(results), "## Time of a fit, × one pass", _time_table(results)]
    return "\n\n".join(parts)


def _names(results: Results, key: str) -> list[str]:
    """The values of a key, in the order of the results."""
    return list(dict.fromkeys(str(one[key]) for one in results))


def values(results: Results, key: str, **where: str) -> list[float]:
    """A number from each result that fits, by draw."""
    fitting = [one for one in results if all(one[name] == value for name, value in where.items())]
    return [float(one[key]) for one in sorted(fitting, key=lambda one: int(one["draw"]))]


def _score_table(results: Results, metric: str) -> str:
    methods = _names(results, "method")
    rows = []
    for data in _names(results, "data"):
        columns = [_plus_minus(values(results, "score", data=data, metric=metric, method=m)) for m in methods]
        rows.append([data, *PAPER[metric].get(data, (_NONE, _NONE)), *columns])
    return markdown_table(["data", "paper: plug-in", "paper: Algorithm 1", *methods], rows)


def _difference_table(results: Results, metric: str) -> str:
    """Mean ± sd of the paired differences, draws won, and the fraction of the way to all labels."""
    rivals = [name for name in (BY_METRIC, BY_LOSS) if name in _names(results, "method")]
    if not rivals or DEFAULT not in _names(results, "method"):
        return ""
    titles = ["data"]
    for rival in rivals:
        titles += [f"minus {rival}", "draws won", "fraction of the way to all labels"]
    rows = []
    for data in _names(results, "data"):
        ours, all_labels = (
            values(results, "score", data=data, metric=metric, method=name) for name in (DEFAULT, ALL_LABELS)
        )
        row = [data]
        for rival in rivals:
            theirs = values(results, "score", data=data, metric=metric, method=rival)
            row += _compared(ours, theirs, all_labels)
        rows.append(row)
    return markdown_table(titles, rows)


def _compared(ours: list[float], theirs: list[float], all_labels: list[float]) -> list[str]:
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    mean, sd = mean_sd(differences)
    won = f"{sum(one > 0 for one in differences)} of {len(differences)}"
    fraction = _NONE
    if all_labels:
        way = statistics.fmean(all_labels) - statistics.fmean(theirs)
        # If the missing labels cost nothing, there is no difference to make up.
        fraction = f"{mean / way:.0%}" if way > 0 else _NONE
    return [f"{mean:+.4f} ± {sd:.4f}", won, fraction]


def _size_table(results: Results) -> str:
    """Rank k, and k(d + L) parameters against dL, for the fits for the first metric."""
    methods = [name for name in (ALGORITHM_1, DEFAULT) if name in _names(results, "method")]
    titles = ["data", "d", "L", "dL"]
    for method in methods:
        titles += [f"{method}: k", "k(d + L)", "fraction of dL"]
    rows = []
    for data in _names(results, "data"):
        first = next(one for one in results if one["data"] == data)
        d, n_labels = int(first["features"]), int(first["labels"])
        row = [data, str(d), str(n_labels), str(d * n_labels)]
        for method in methods:
            rank = statistics.fmean(values(results, "rank", data=data, metric=METRICS[0], method=method))
            size = rank * (d + n_labels)
            row += [f"{rank:.1f}", f"{size:.0f}", f"{size / (d * n_labels):.0%}"]
        rows.append(row)
    return markdown_table(titles, rows)


def _time_table(results: Results) -> str:
    """Median over the draws, fits for the first metric."""
    # With all labels observed a pass takes longer too; that says nothing about the methods.
    timed = [one for one in results if one["method"] != ALL_LABELS]
    methods = _names(timed, "method")
    rows = []
    for data in _names(timed, "data"):
        passes = [one for one in timed if one["data"] == data]
        row = [data, f"{statistics.median(float(one['pass_seconds']) for one in passes):.2f} s"]
        for method in methods:
            own = [one for one in passes if one["metric"] == METRICS[0] and one["method"] == method]
            row.append(f"{statistics.median(_in_passes(one, passes) for one in own):.1f}")
        rows.append(row)
    return markdown_table(["data", "one pass", *methods], rows)


def _in_passes(result: dict[str, Any], passes: Results) -> float:
    """The time of a fit as a multiple of the median pass on its data and draw."""
    same = [float(one["pass_seconds"]) for one in passes if one["draw"] == result["draw"]]
    return float(result["seconds"]) / statistics.median(same)


def _plus_minus(numbers: Sequence[float]) -> str:
    mean, sd = mean_sd(numbers)
    return f"{mean:.4f} ± {sd:.4f}"


# -- the picture -------------------------------------------------------------------------------------------


def draw(results: Results) -> Figure:
    """Micro-F1 by data set: a dot with its spread for every method."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise LabelgapError("The picture needs matplotlib: pip install 'labelgap[plot]'.") from error
    data, methods = _names(results, "data"), _names(results, "method")
    figure = Figure(figsize=(max(8.0, 2.4 + 1.3 * len(data)), 4.2), dpi=130, layout="constrained")
    axis = figure.subplots()
    for number, method in enumerate(methods):
        shift = 0.7 * ((number + 0.5) / len(methods) - 0.5)
        found = [mean_sd(values(results, "score", data=d, metric=METRICS[0], method=method)) for d in data]
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
    axis.set(ylabel=f"{METRICS[0]} on test rows", title=f"{OBSERVED:.0%} of the training labels observed")
    axis.grid(axis="y", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False)
    return figure


_MARKERS = "ovsD^*"
_COLOURS = {
    "plug-in, as in the paper": "#b0a07a",
    BY_METRIC: "#d9822b",
    BY_LOSS: "#c8553d",
    ALGORITHM_1: "#8fb3cc",
    DEFAULT: "#1f5f8b",
    ALL_LABELS: "#777777",
}


# -- the command line --------------------------------------------------------------------------------------


def make_tasks(data: Sequence[str], methods: Sequence[str], draws: int) -> list[Task]:
    """Ordered so that tasks which share a problem and its held-out scores come one after the other."""
    return [
        {"data": name, "metric": metric, "method": method, "draw": seed}
        for name in data
        for seed in range(draws)
        for method in METHODS
        if method in methods and (method != ALL_LABELS or seed == 0 or name not in PUBLISHED_SPLIT)
        for metric in METRICS
    ]


def main(arguments: list[str] | None = None, source: Source = problem) -> None:
    """The command line; ``source`` makes the problem of a data set, a draw and a fraction observed."""
    parser = argument_parser(__doc__ or "", draws=5)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    options = parser.parse_args(arguments)
    data = available(options.data) if source is problem else options.data
    if not data:
        return
    folder: Path = options.out
    settings = {"observed": OBSERVED}
    results = run_tasks(
        "table1",
        make_tasks(data, options.methods, options.draws),
        Work(source),
        folder=folder,
        settings=settings,
        fresh=options.fresh,
    )
    table = report(results)
    print(table)
    write_results(
        "table1", folder=folder, settings=settings, results=results, table=table, figure=draw(results)
    )


if __name__ == "__main__":
    main()
