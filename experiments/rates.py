"""How fast errors and regrets change with |Ω|, the rank, L, n and ρ: measured, and in the paper's bounds.

Run ``python -m experiments.rates [--draws 5] [--out FOLDER] [--fresh]``; it takes about ten minutes, and
after a stop the same command resumes. It writes rates.json, rates.md and rates.png. Labels are drawn from the
logistic model of a W* of low rank that gives scores of variance 1. One size changes at a time.

Three numbers, the last two over fresh rows, with the true probabilities in place of labels:

- the error ``‖Ŵ − W*‖_F²/(dL)``,
- the ℓ-regret, by how much the expected logistic loss exceeds that of the true scores,
- the Ψ-regret, by how much the micro-F1 of the decisions falls short of the best possible.

Bounds, as exponents of the size that changes, where log(n + L) counts as constant:

- |Ω|, the rank, L, n: the features theorem bounds the error by ``C L rank(W*) log(n + L)/(d |Ω|)`` (the
  first term of its maximum): −1, +1, +1 and 0. |Ω| stays the same when L or n grow.
- 1/(1 − ρ), where a fraction ρ of the positives is not recorded and all else is unlabelled: the
  positive-unlabelled theorem bounds the error by a constant over 1 − ρ: +1.
- The ℓ-regret is bounded through the root of the error (the loss is 1-Lipschitz), so by half the exponent.
- The Ψ-regret is bounded through the root of the ℓ-regret, so by a quarter of it.

Bounds may be loose: near the truth both regrets are quadratic in the scores, and change like the error.

Two choices of penalties: the theory's, ``λ = 2cσ/√|Ω|``, with no other penalty, no intercept, and θ from the
training scores, as in the paper's algorithm; and LowRankClassifier's own, with everything by default. ρ is
known to both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.special import expit

from experiments.pictures import BLUE, GREY, ORANGE, band, log_axis, new_figure
from experiments.problems import Truth, draw_truth, observe_some, slope
from experiments.runs import Experiment, Results, Task, markdown_table, mean_sd
from labelgap import LowRankClassifier, ObservedLabels
from labelgap.theory import feature_trace_penalty, model_regret, unlabelled_trace_penalty

METRIC = "micro-f1"
THEORY, DEFAULT = "theory", "default"
LEGEND = {THEORY: "λ by the theory", DEFAULT: "LowRankClassifier's default"}
COLOURS = {THEORY: ORANGE, DEFAULT: BLUE}
# The exponent in the bound, as a fraction of that of the error.
MEASURES = {"error": 1.0, "ℓ-regret": 0.5, "Ψ-regret": 0.25}
TITLES = {"error": "‖Ŵ − W*‖²/(dL)", "ℓ-regret": "ℓ-regret, nats", "Ψ-regret": "Ψ-regret, micro-F1"}


@dataclass(frozen=True)
class Point:
    """The size of one problem. Under a flip rate above 0 all entries take part."""

    n: int
    n_labels: int
    rank: int
    n_observed: int
    flip_rate: float = 0.0


class Axis(NamedTuple):
    """The size that is varied, and its exponent in the bound on the error."""

    title: str
    x: Callable[[Point], float]
    exponent: float
    points: list[Point]


@dataclass(frozen=True)
class Sizes:
    """The reference problem, and the values of each size that is varied."""

    n: int = 2000
    n_labels: int = 40
    n_features: int = 10
    rank: int = 2
    n_observed: int = 32_000
    n_test: int = 2000
    n_observed_values: tuple[int, ...] = (4_000, 8_000, 16_000, 32_000, 64_000)
    rank_values: tuple[int, ...] = (1, 2, 4, 8)
    n_labels_values: tuple[int, ...] = (20, 40, 80, 160)
    n_values: tuple[int, ...] = (1000, 2000, 4000, 8000)
    unlabelled_n: int = 1000
    flip_rate_values: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7)

    def axes(self) -> dict[str, Axis]:
        """One axis for each size."""
        base = Point(self.n, self.n_labels, self.rank, self.n_observed)
        silent = replace(base, n=self.unlabelled_n, n_observed=self.unlabelled_n * self.n_labels)

        def axis(title: str, name: str, values: Sequence[Any], exponent: float) -> Axis:
            points = [replace(base, **{name: value}) for value in values]
            return Axis(title, lambda point: getattr(point, name), exponent, points)

        flipped = [replace(silent, flip_rate=rate) for rate in self.flip_rate_values]
        yes = "yes for each recorded yes, 1/(1 − ρ)"
        return {
            "|Ω|": axis("labels observed, |Ω|", "n_observed", self.n_observed_values, -1.0),
            "rank": axis("rank of W*", "rank", self.rank_values, 1.0),
            "L": axis("labels in all, L", "n_labels", self.n_labels_values, 1.0),
            "n": axis("rows, n", "n", self.n_values, 0.0),
            "1/(1 − ρ)": Axis(yes, lambda point: 1 / (1 - point.flip_rate), 1.0, flipped),
        }


# -- measuring ---------------------------------------------------------------------------------------------


def all_tasks(draws: int, sizes: Sizes) -> list[Task]:
    """Draw by draw. A point that lies on several axes is there once."""
    points = dict.fromkeys(point for axis in sizes.axes().values() for point in axis.points)
    return [
        asdict(point) | {"method": method, "draw": draw}
        for draw in range(draws)
        for point in points
        for method in COLOURS
    ]


def measure(task: Task, sizes: Sizes) -> dict[str, float]:
    """Fit one method to one draw, and compare it with the truth."""
    point = Point(**{name: task[name] for name in Point.__dataclass_fields__})  # type: ignore[arg-type]
    rng = np.random.RandomState(int(task["draw"]))
    shape = {"n": point.n, "n_labels": point.n_labels, "n_features": sizes.n_features, "rank": point.rank}
    truth = draw_truth("bernoulli", rng, **shape, exact=True)
    labels, penalty = known_labels(truth, point, rng)
    options: dict[str, Any] = {"metric": METRIC, "random_state": int(task["draw"])}
    if point.flip_rate > 0:
        options |= {"unobserved": "unlabelled", "flip_rate": point.flip_rate}
    if task["method"] == THEORY:
        options |= {"trace_penalty": penalty, "ridge_penalty": 0.0, "fit_intercept": False}
        options |= {"threshold": "train"}
    model = LowRankClassifier(**options).fit(truth.X, labels)
    X_test = rng.standard_normal((sizes.n_test, sizes.n_features))
    regret = model_regret(model, X_test, expit(X_test @ truth.W))
    return {
        "error": float(np.mean((model.coef_ - truth.W) ** 2)),
        "ℓ-regret": float(regret.loss_regret or 0.0),
        "Ψ-regret": regret.metric_regret,
        "rank of W": model.rank_,
    }


def known_labels(truth: Truth, point: Point, rng: np.random.RandomState) -> tuple[Any, float]:
    """The observed labels, and the theory's λ for them."""
    d = truth.W.shape[0]
    if point.flip_rate == 0:
        labels = observe_some(truth, point.n_observed, rng, binary=True)
        penalty = feature_trace_penalty(
            n_features=d, n_labels=point.n_labels, n_observed=point.n_observed, noise_scale=truth.noise
        )
        return labels, penalty
    recorded = truth.Y * (rng.random_sample(truth.Y.shape) >= point.flip_rate)
    penalty = unlabelled_trace_penalty(
        n=point.n,
        n_labels=point.n_labels,
        flip_rate=point.flip_rate,
        positive_rate=float(truth.Y.mean()),
        n_features=d,
    )
    return ObservedLabels.from_any(recorded, unobserved="unlabelled"), penalty


# -- reporting ---------------------------------------------------------------------------------------------


def values_on(axis: Axis, results: Results, method: str, measure: str) -> list[list[float]]:
    """For each point of the axis the numbers of all draws."""
    by_point: dict[Point, list[float]] = {point: [] for point in axis.points}
    for row in results:
        point = Point(**{name: row[name] for name in Point.__dataclass_fields__})
        if point in by_point and row["method"] == method:
            by_point[point].append(row[measure])
    return list(by_point.values())


def fitted_slope(axis: Axis, by_point: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The mean over draws of the slope on logarithmic scales, and the standard error of that mean."""
    x = [axis.x(point) for point in axis.points]
    mean, sd = mean_sd([slope(x, one_draw) for one_draw in zip(*by_point, strict=True)])
    return mean, sd / np.sqrt(len(by_point[0]))


def report(results: Results, sizes: Sizes) -> str:
    """A Markdown table of slopes ± standard errors beside those of the bounds."""
    header = ["against", "number", "at the smallest", "at the largest", "λ", "slope ± standard error"]
    rows = []
    for name, axis in sizes.axes().items():
        for measure, power in MEASURES.items():
            for method in COLOURS:
                by_point = values_on(axis, results, method, measure)
                ends = [f"{mean_sd(by_point[end])[0]:.2g}" for end in (0, -1)]
                shown = _shown_slope(*fitted_slope(axis, by_point))
                rows.append([name, measure, *ends, method, shown, _shown_bound(power * axis.exponent)])
    return markdown_table([*header, "bound"], rows)


def _shown_slope(mean: float, error: float) -> str:
    return f"{mean:+.2f} ± {error:.2f}".replace("-", "−")


def _shown_bound(exponent: float) -> str:
    return f"{exponent:+g}".replace("-", "−") if exponent else "0"


def draw_figure(results: Results, sizes: Sizes) -> Figure:
    """A row for each size that changes, a column for each number."""
    axes = sizes.axes()
    figure, panels = new_figure(len(axes), len(MEASURES), height=2.4, sharey="col")
    for row, axis in zip(panels, axes.values(), strict=True):
        for panel, (measure, power) in zip(row, MEASURES.items(), strict=True):
            _draw_panel(panel, axis, results, measure, power * axis.exponent)
            panel.set_xlabel(axis.title, fontsize=8)
            panel.set_ylabel(TITLES[measure], fontsize=8)
    for panel in panels[0]:
        # Space for the slopes, below the curves of the whole column.
        bottom, top = panel.get_ylim()
        panel.set_ylim(bottom * (bottom / top) ** 0.4, top)
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    return figure


def _draw_panel(panel: Any, axis: Axis, results: Results, measure: str, bound: float) -> None:
    x = np.array([axis.x(point) for point in axis.points])
    log_axis(panel, "x", ticks=x.tolist())
    log_axis(panel, "y")
    lines = []
    for method, colour in COLOURS.items():
        by_point = values_on(axis, results, method, measure)
        band(panel, x.tolist(), by_point, colour=colour, label=LEGEND[method])
        lines.append((f"slope {_shown_slope(*fitted_slope(axis, by_point))}", colour))
        if method == THEORY:
            middle = mean_sd(by_point[len(x) // 2])[0]
            line = middle * (x / x[len(x) // 2]) ** bound
            panel.plot(x, line, color=GREY, linestyle="--", linewidth=1, label="slope of the bound")
            lines.append((f"bound {_shown_bound(bound)}", GREY))
    for place, (text, colour) in enumerate(lines):
        panel.annotate(
            text, (0.03, 0.03), (0, 9 * place), "axes fraction", "offset points", color=colour, fontsize=7
        )


EXPERIMENT = Experiment(
    "rates",
    __doc__ or "",
    draws=5,
    tasks=lambda options, sizes: all_tasks(options.draws, sizes),
    measure=measure,
    report=report,
    settings=lambda options, sizes: {"metric": METRIC, "sizes": asdict(sizes)},
    figure=draw_figure,
    given=Sizes(),
)

if __name__ == "__main__":
    EXPERIMENT.main()
