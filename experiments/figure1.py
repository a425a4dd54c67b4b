"""The paper's synthetic problem: how good decisions are, and how near W and θ, as more labels are observed.

Run ``python -m experiments.figure1 [--draws 20] [--out FOLDER]``. It takes hours; after a stop the same
command resumes. 1000 rows, 10 features, 100 labels from a W* of rank 5, of which 2 % to 100 % are seen;
judged on 1000 fresh rows. Every draw has its own W*, rows and labels, the same for all methods and
fractions, and entries that are observed at 2 % are observed at 5 % too.

- **noise-free**: ``y = [x·w ≥ 0]``, as in the paper. Only the direction of each w can be known, so the error
  of W is the angle between a label's w and its estimate, as a mean over labels; 90° if the estimate is 0.
- **noisy**: y is drawn from the logistic model of the same scores. The error of W is ``‖Ŵ − W*‖_F²/(dL)``.
  Decisions are judged with the true probabilities of the fresh rows in place of labels, which removes
  chance; the dotted line is the best that any decisions can reach.

The error of θ is ``|θ̂ − θ*|`` on the scale of probabilities. θ* is ½ for accuracy and Ψ*/2 for F1, where Ψ*
is the best possible value, 1 without noise.

Four methods: LowRankClassifier with default settings; the same with ``rank=5``, the true rank, at 10 % only;
the plug-in as in the paper, one logistic regression per label with C = 1; and the plug-in with C chosen by
the metric on out-of-fold scores, as ours, in the first three draws only, since it takes the longest. All
thresholds are chosen on out-of-fold scores. Nothing is tuned on test rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit

from experiments.baselines import OutOfFold, TunedPlugIn
from experiments.pictures import BLUE, GREEN, GREY, ORANGE, band, log_axis, new_figure
from experiments.runs import Experiment, Results, Task, markdown_table, mean_sd, plus_minus, those
from labelgap import LowRankClassifier, ObservedLabels, PlugInClassifier
from labelgap.data import LowRankProblem, make_low_rank_labels
from labelgap.theory import regret
from labelgap.thresholds import bayes_alpha

# The tuned plug-in takes the longest, and is run for the first draws only.
TUNED_DRAWS = 3
PROBLEMS = ("noise-free", "noisy")
METRICS = ("micro-accuracy", "micro-f1")
DEFAULT, CAPPED, PLUG_IN, TUNED = "low-rank", "low-rank, true rank", "plug-in", "plug-in, tuned C"
COLOURS = {DEFAULT: BLUE, PLUG_IN: ORANGE, TUNED: GREEN}
# So near to 0 that the logistic function is a straight line to machine precision times this.
_STEP = 1e-3


@dataclass(frozen=True)
class Sizes:
    """The shape of the problem, and the fractions of labels to observe."""

    n: int = 1000
    n_labels: int = 100
    n_features: int = 10
    rank: int = 5
    n_test: int = 1000
    shares: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    capped_at: float = 0.1
    """The fraction at which the fit with the true rank is made as well."""


METHODS: dict[str, Callable[[str, int, int], Any]] = {
    DEFAULT: lambda metric, rank, seed: LowRankClassifier(metric=metric, random_state=seed),
    CAPPED: lambda metric, rank, seed: LowRankClassifier(metric=metric, rank=rank, random_state=seed),
    PLUG_IN: lambda metric, rank, seed: PlugInClassifier(metric=metric, random_state=seed),
    TUNED: lambda metric, rank, seed: TunedPlugIn(metric, random_state=seed),
}


# -- measuring ---------------------------------------------------------------------------------------------


def all_tasks(draws: int, sizes: Sizes) -> list[Task]:
    """Draw by draw, so that a run that is stopped early has all methods and fractions of some draws."""
    return [
        {"problem": problem, "share": share, "metric": metric, "method": method, "draw": draw}
        for draw in range(draws)
        for problem in PROBLEMS
        for share in sizes.shares
        for metric in METRICS
        for method in METHODS
        if (method != CAPPED or share == sizes.capped_at) and (method != TUNED or draw < TUNED_DRAWS)
    ]


@lru_cache(maxsize=1)
def draw_problem(kind: str, share: float, draw: int, sizes: Sizes) -> tuple[LowRankProblem, OutOfFold]:
    """The problem, and the held-out scores that tuned plug-ins for either metric choose by."""
    problem = make_low_rank_labels(
        n=sizes.n,
        n_labels=sizes.n_labels,
        n_features=sizes.n_features,
        rank=sizes.rank,
        n_test=sizes.n_test,
        observed=share,
        noise=kind == "noisy",
        random_state=draw,
    )
    labels = ObservedLabels.from_any(problem.Y_observed)
    return problem, OutOfFold(problem.X, labels, random_state=draw)


def measure(task: Task, sizes: Sizes) -> dict[str, Any]:
    """Fit one method to one draw, and judge it on fresh rows."""
    metric, draw = str(task["metric"]), int(task["draw"])
    problem, held_out = draw_problem(str(task["problem"]), float(task["share"]), draw, sizes)
    known = {"held_out": held_out} if task["method"] == TUNED else {}
    began = time.perf_counter()
    model = METHODS[str(task["method"])](metric, sizes.rank, draw).fit(problem.X, held_out.labels, **known)
    seconds = time.perf_counter() - began
    eta = expit(problem.X_test @ problem.W) if task["problem"] == "noisy" else problem.Y_test
    judged = regret(model.predict(problem.X_test), eta, metric)
    W = coefficients(model, sizes.n_features)
    # A threshold beyond all probabilities, infinite even, is as far as one can be.
    theta = float(np.clip(model.threshold_probability_, 0, 1))
    return {
        "value": judged.value,
        "best": judged.best_value,
        "W error": float(np.mean((W - problem.W) ** 2)),
        "W angle": mean_angle(W, problem.W),
        "θ error": abs(theta - bayes_alpha(metric, judged.best_value)),
        "seconds": round(seconds, 3),
    }


def coefficients(model: Any, n_features: int) -> Any:
    """W of any model whose log-odds are linear in the features: their slopes at the origin, d x L."""
    P = model.predict_proba(np.vstack([np.zeros(n_features), _STEP * np.eye(n_features)]))
    log_odds = np.log(P) - np.log1p(-P)
    return (log_odds[1:] - log_odds[0]) / _STEP


def mean_angle(W: Any, truth: Any) -> float:
    """The mean over labels of the angle between a column and its estimate, in degrees."""
    lengths = np.linalg.norm(W, axis=0) * np.linalg.norm(truth, axis=0)
    cosines = np.divide((W * truth).sum(axis=0), lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    return float(np.degrees(np.arccos(np.clip(cosines, -1, 1))).mean())


# -- reporting ---------------------------------------------------------------------------------------------


def report(results: Results, sizes: Sizes) -> str:
    """A Markdown table: mean ± sd, and on how many draws it was above the plug-in as in the paper."""
    header = ["problem", "metric", "observed", "method", "on fresh rows", "above plug-in", "best"]
    header += ["error of W", "error of θ", "fit, s"]
    rows = []
    for task in all_tasks(1, sizes):
        where = {name: value for name, value in task.items() if name != "draw"}
        mine = those(results, **where)
        plain = {one["draw"]: one["value"] for one in those(results, **(where | {"method": PLUG_IN}))}
        above = sum(one["value"] > plain[one["draw"]] for one in mine)
        error, unit, digits = _W_error(str(task["problem"]))
        rows.append(
            [
                str(task["problem"]),
                str(task["metric"]),
                f"{float(task['share']):.0%}",
                str(task["method"]),
                plus_minus(one["value"] for one in mine),
                "" if task["method"] == PLUG_IN else f"{above} of {len(mine)}",
                f"{mean_sd(one['best'] for one in mine)[0]:.4f}",
                plus_minus((one[error] for one in mine), digits) + unit,
                plus_minus((one["θ error"] for one in mine), 3),
                f"{mean_sd(one['seconds'] for one in mine)[0]:.1f}",
            ]
        )
    return markdown_table(header, rows)


def _W_error(problem: str) -> tuple[str, str, int]:
    return ("W angle", "°", 1) if problem == "noise-free" else ("W error", "", 3)


def draw_figure(results: Results, sizes: Sizes) -> Figure:
    """A column for each problem; rows for the two metrics, and for the errors of W and θ in the F1 fits."""
    figure, panels = new_figure(4, 2, height=2.6, sharex=True)
    for column, problem in enumerate(PROBLEMS):
        error, unit, _ = _W_error(problem)
        name = "angle of w to w*, degrees" if unit else "‖Ŵ − W*‖²/(dL)"
        rows = [
            ("micro-accuracy", "value", "accuracy"),
            ("micro-f1", "value", "micro-F1"),
            ("micro-f1", error, name),
            ("micro-f1", "θ error", "|θ̂ − θ*|, probability"),
        ]
        for panel, (metric, number, label) in zip(panels[:, column], rows, strict=True):
            panel.set_ylabel(label, fontsize=9)
            _draw_panel(panel, results, sizes, number, problem=problem, metric=metric)
        panels[0, column].set_title(problem, fontsize=11)
        panels[-1, column].set_xlabel("fraction of labels observed, %", fontsize=9)
    panels[0, 0].legend(loc="lower right", fontsize=8, frameon=False)
    figure.suptitle(
        f"{sizes.n} rows, {sizes.n_labels} labels, W* of rank {sizes.rank}: mean ± sd over draws, fresh rows",
        fontsize=11,
    )
    return figure


def _draw_panel(panel: Any, results: Results, sizes: Sizes, number: str, **where: Any) -> None:
    percent = [100 * share for share in sizes.shares]
    log_axis(panel, "x", ticks=percent)
    if number in ("W error", "W angle"):
        log_axis(panel, "y")
    for method, colour in COLOURS.items():
        by_share = [
            [one[number] for one in those(results, share=s, method=method, **where)] for s in sizes.shares
        ]
        band(panel, percent, by_share, colour=colour, label=method)
    if number == "value" and where["problem"] == "noisy":
        best = mean_sd(one["best"] for one in those(results, **where))[0]
        panel.axhline(best, color=GREY, linestyle=":", linewidth=1.2)
        panel.annotate("best possible", (percent[0], best), (0, 3), textcoords="offset points", fontsize=8)


EXPERIMENT = Experiment(
    "figure1",
    __doc__ or "",
    draws=20,
    tasks=lambda options, sizes: all_tasks(options.draws, sizes),
    measure=measure,
    report=report,
    settings=lambda options, sizes: {"sizes": asdict(sizes)},
    figure=draw_figure,
    given=Sizes(),
)

if __name__ == "__main__":
    EXPERIMENT.main()
