"""The tables and the picture of table 1, from its results."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.problems import OBSERVED
from experiments.runs import markdown_table, mean_sd
from labelgap.exceptions import LabelgapError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = ("micro-f1", "micro-accuracy")
PLUG_IN = "plug-in, as in the paper"
BY_METRIC, BY_LOSS = "tuned plug-in (by metric)", "tuned plug-in (by log-loss)"
ALGORITHM_1 = "Algorithm 1, as in the paper"
FOREST, ON_KERNELS = "random forest", "tuned plug-in on kernel features"
LINEAR, DEFAULT, ALL_LABELS = "labelgap, linear features", "labelgap default", "all labels"

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
_NONE = "–"

Results = Sequence[dict[str, Any]]


# -- tables ------------------------------------------------------------------------------------------------


def report(results: Results) -> str:
    """The tables of scores by metric, of differences, of what was chosen, and of times."""
    parts = []
    for metric in _names(results, "metric"):
        here = [one for one in results if one["metric"] == metric]
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
    parts += ["## Model size", _size_table(results)]
    chosen = _choice_table(results)
    if chosen:
        parts += ["## What the default chose", chosen]
    parts += ["## Time of a fit, × one pass", _time_table(results)]
    return "\n\n".join(parts)


def _names(results: Results, key: str) -> list[str]:
    """The values of a key, in the order of the results."""
    return list(dict.fromkeys(str(one[key]) for one in results))


def values(results: Results, key: str, **where: str) -> list[float]:
    """A number from each result that fits, by draw."""
    fitting = [one for one in results if all(one[name] == value for name, value in where.items())]
    return [float(one[key]) for one in sorted(fitting, key=lambda one: int(one["draw"]))]


def _scores(results: Results, data: str, method: str) -> list[float]:
    return values(results, "score", data=data, method=method)


def _everywhere(results: Results) -> list[str]:
    """The methods that ran on every data set, in as many draws as labelgap's default at least."""

    def ran(data: str, method: str) -> bool:
        wanted = 1 if method == ALL_LABELS else max(1, len(_scores(results, data, DEFAULT)))
        return len(_scores(results, data, method)) >= wanted

    # One metric is enough to tell.
    results = [one for one in results if one["metric"] == _names(results, "metric")[0]]
    data = _names(results, "data")
    return [method for method in _names(results, "method") if all(ran(name, method) for name in data)]


def _score_table(results: Results) -> str:
    methods = _everywhere(results)
    rows = []
    for data in _names(results, "data"):
        # The draws that all methods have; one of all labels may do for all.
        counts = [len(_scores(results, data, method)) for method in methods if method != ALL_LABELS]
        draws = min(counts, default=1)
        rows.append([data, str(draws), *(_plus_minus(_scores(results, data, m)[:draws]) for m in methods)])
    return markdown_table(["data", "draws", *methods], rows)


def _paper_table(results: Results, metric: str) -> str:
    printed = PAPER[metric]
    methods = [name for name in (PLUG_IN, ALGORITHM_1, DEFAULT) if name in _everywhere(results)]
    rows = [
        [data, *printed[data], *(_plus_minus(_scores(results, data, m)) for m in methods)]
        for data in _names(results, "data")
        if data in printed
    ]
    titles = ["data", "paper: plug-in", "paper: Algorithm 1", *methods]
    return markdown_table(titles, rows) if rows else ""


def _beside(results: Results, rival: str) -> str:
    """A method that did not run on all data sets, and the same draws of labelgap."""
    methods = [name for name in (rival, LINEAR, DEFAULT) if name in _names(results, "method")]
    rows = []
    for data in [] if rival in _everywhere(results) else _names(results, "data"):
        draws = {one["draw"] for one in results if one["data"] == data and one["method"] == rival}
        same = [one for one in results if one["data"] == data and one["draw"] in draws]
        if draws:
            scores = [_plus_minus(_scores(same, data, method)) for method in methods]
            rows.append([data, str(len(draws)), *scores])
    return markdown_table(["data", "draws", *methods], rows) if rows else ""


def _difference_table(results: Results) -> str:
    """Mean ± sd of the paired differences, and draws won."""
    everywhere = _everywhere(results)
    rivals = [name for name in (BY_METRIC, BY_LOSS, FOREST) if name in everywhere]
    if not rivals or DEFAULT not in everywhere:
        return ""
    titles = ["data"]
    for rival in rivals:
        titles += [f"minus {rival}", "draws won"]
    rows = []
    for data in _names(results, "data"):
        row = [data]
        for rival in rivals:
            row += _compared(_scores(results, data, DEFAULT), _scores(results, data, rival))
        rows.append(row)
    return markdown_table(titles, rows)


def _compared(ours: list[float], theirs: list[float]) -> list[str]:
    # Where one has more draws than the other, those that both have are compared.
    differences = [a - b for a, b in zip(ours, theirs, strict=False)]
    mean, sd = mean_sd(differences)
    won = f"{sum(one > 0 for one in differences)} of {len(differences)}"
    return [f"{mean:+.4f} ± {sd:.4f}", won]


def _way_table(results: Results) -> str:
    """How much of what the missing labels cost each method makes up for, on the draws that all have."""
    everywhere = _everywhere(results)
    methods = [name for name in (BY_METRIC, BY_LOSS, FOREST, LINEAR, DEFAULT) if name in everywhere]
    rows = []
    for data in _names(results, "data"):
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
    return markdown_table(["data", "draws", BY_METRIC, ALL_LABELS, *methods[1:]], rows) if rows else ""


def _choice_table(results: Results) -> str:
    """The features and the label weighting of the default, for the first metric, in each draw."""
    rows = []
    for data in _names(results, "data"):
        fits = [
            one
            for one in results
            if one["data"] == data and one["method"] == DEFAULT and "chosen_features" in one
        ]
        fits = [one for one in fits if one["metric"] == fits[0]["metric"]]
        if fits:
            features = _counted([str(one["chosen_features"]) for one in fits])
            rows.append([data, features, _counted([f"{one['label_weighting']:g}" for one in fits])])
    return markdown_table(["data", "features", "label weighting"], rows) if rows else ""


def _counted(names: list[str]) -> str:
    return ", ".join(f"{name} ({names.count(name)})" for name in dict.fromkeys(names))


def _size_table(results: Results) -> str:
    """Rank k, and k(d + L) parameters against dL, for the fits for the first metric."""
    methods = [name for name in (ALGORITHM_1, LINEAR) if name in _everywhere(results)]
    titles = ["data", "d", "L", "dL"]
    for method in methods:
        titles += [f"{method}: k", "k(d + L)", "fraction of dL"]
    rows = []
    for data in _names(results, "data"):
        first = next(one for one in results if one["data"] == data)
        d, n_labels = int(first["features"]), int(first["labels"])
        row = [data, str(d), str(n_labels), str(d * n_labels)]
        for method in methods:
            rank = statistics.fmean(values(results, "rank", data=data, metric=first["metric"], method=method))
            size = rank * (d + n_labels)
            row += [f"{rank:.1f}", f"{size:.0f}", f"{size / (d * n_labels):.0%}"]
        rows.append(row)
    return markdown_table(titles, rows)


def _time_table(results: Results) -> str:
    """Median over the draws, fits for the first metric."""
    # With all labels observed a pass takes longer too; that says nothing about the methods.
    timed = [one for one in results if one["method"] not in (ALL_LABELS, ON_KERNELS)]
    methods = _everywhere(timed)
    rows = []
    for data in _names(timed, "data"):
        passes = [one for one in timed if one["data"] == data]
        row = [data, f"{statistics.median(float(one['pass_seconds']) for one in passes):.2f} s"]
        for method in methods:
            first = passes[0]["metric"]
            own = [one for one in passes if one["metric"] == first and one["method"] == method]
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
    results = [one for one in results if one["metric"] == _names(results, "metric")[0]]
    data, methods = _names(results, "data"), _everywhere(results)
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
    axis.set(
        ylabel=f"{_names(results, 'metric')[0]} on test rows",
        title=f"{OBSERVED:.0%} of the training labels observed",
    )
    axis.grid(axis="y", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False)
    return figure


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
