"""How fast the error of W falls with the number of answers, for each family: measured and in theory.

Run ``python -m experiments.recovery [--draws 5] [--methods theory default] [--out FOLDER]``; it takes about
five minutes. Answers of 40 labels about 2000 rows with 10 features come from a known W* of rank 2, as real
numbers (noise of size 1), counts, and yes/no. Every draw has a W*, rows and answers of its own, and for each
size an Ω of its own, uniform over the cells.

The error is ``‖Ŵ − W*‖_F² / (dL)``. The bound on it is the larger of two terms: one of order
``rank(W*) L log(n + L) / (d |Ω|)``, on logarithmic scales a line of slope −1 in |Ω|, and one of slope −½. Two
choices of λ are compared: the theory's, ``λ = 2cσ/√|Ω|`` with no other penalty and no intercept, and what
LowRankRegressor chooses by itself on held-out entries. σ² is the mean variance of an answer given its row,
and ``c = 1 + √(d/L)`` makes cσ/√|Ω| the size of σ₁(XᵀG) at W*, where G is noise: its largest singular value
is about σ√(|Ω|/L)(√d + √L)/|Ω|.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelgap.estimators.regressor import LowRankRegressor
from labelgap.labels import ObservedLabels
from labelgap.losses import get_family

FAMILIES = ("gaussian", "poisson", "bernoulli")
THEORY_SLOPE = -1.0


@dataclass(frozen=True)
class Sizes:
    """The shape of the problem, and the numbers of answers to try."""

    n: int = 2000
    n_labels: int = 40
    n_features: int = 10
    rank: int = 2
    observed: tuple[int, ...] = (8_000, 16_000, 32_000, 64_000)


@dataclass(frozen=True)
class Truth:
    """A draw: features, complete answers, and what made them."""

    X: Any
    Y: Any
    W: Any
    noise: float
    """σ."""


def draw_truth(family: str, sizes: Sizes, rng: np.random.RandomState) -> Truth:
    """Standard normal features, and a W* that gives scores of variance about 1."""
    d, n_labels = sizes.n_features, sizes.n_labels
    factors = rng.standard_normal((d, sizes.rank)), rng.standard_normal((sizes.rank, n_labels))
    W = factors[0] @ factors[1] / np.sqrt(d * sizes.rank)
    X = rng.standard_normal((sizes.n, d))
    Z = X @ W
    mean = get_family(family).inverse_link(Z)
    answers: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: Z + rng.standard_normal(Z.shape),
        "poisson": lambda: rng.poisson(mean),
        "bernoulli": lambda: rng.random_sample(Z.shape) < mean,
    }
    Y = np.asarray(answers[family](), dtype=np.float64)
    return Truth(X, Y, W, float(np.sqrt(get_family(family).curvature(Z, Y).mean())))


def observe(truth: Truth, count: int, rng: np.random.RandomState) -> ObservedLabels:
    """That many answers, chosen uniformly."""
    n, n_labels = truth.Y.shape
    cells = rng.choice(n * n_labels, size=count, replace=False)
    rows, columns = np.divmod(cells, n_labels)
    return ObservedLabels.from_triplets(
        rows, columns, truth.Y[rows, columns], shape=truth.Y.shape, binary=False
    )


def with_theory(family: str, truth: Truth, labels: ObservedLabels, seed: int) -> LowRankRegressor:
    """λ = 2cσ/√|Ω|."""
    d, n_labels = truth.W.shape
    c = 1 + np.sqrt(d / n_labels)
    trace = 2 * c * truth.noise / np.sqrt(labels.n_observed)
    model = LowRankRegressor(
        family, trace_penalty=float(trace), ridge_penalty=0.0, fit_intercept=False, random_state=seed
    )
    return model.fit(truth.X, labels)


def with_defaults(family: str, truth: Truth, labels: ObservedLabels, seed: int) -> LowRankRegressor:
    """All penalties chosen on held-out entries."""
    return LowRankRegressor(family, random_state=seed).fit(truth.X, labels)


METHODS: dict[str, Callable[[str, Truth, ObservedLabels, int], LowRankRegressor]] = {
    "theory": with_theory,
    "default": with_defaults,
}


def run(
    draws: int, sizes: Sizes, *, families: Sequence[str] = FAMILIES, methods: Sequence[str] = tuple(METHODS)
) -> dict[str, dict[str, list[list[float]]]]:
    """Errors by family and method: for each draw, one for each size of Ω."""
    errors: dict[str, dict[str, list[list[float]]]] = {f: {m: [] for m in methods} for f in families}
    for seed in range(draws):
        for family in families:
            rng = np.random.RandomState(seed)
            truth = draw_truth(family, sizes, rng)
            known = [observe(truth, count, rng) for count in sizes.observed]
            for method in methods:
                fits = (METHODS[method](family, truth, labels, seed) for labels in known)
                errors[family][method].append([float(np.mean((fit.coef_ - truth.W) ** 2)) for fit in fits])
        print(f"draw {seed + 1} of {draws} done", flush=True)
    return errors


def slope(observed: Sequence[int], errors: Sequence[float]) -> float:
    """The exponent of |Ω| in the error: the slope of a line through the logarithms."""
    return float(np.polyfit(np.log(observed), np.log(errors), 1)[0])


def summary(errors: dict[str, dict[str, list[list[float]]]], sizes: Sizes) -> list[dict[str, Any]]:
    """Mean and spread over the draws: of the error at each size, of the slope, and of that at the end."""
    rows = []
    for family, by_method in errors.items():
        for method, by_draw in by_method.items():
            slopes = [slope(sizes.observed, one) for one in by_draw]
            last = [slope(sizes.observed[-2:], one[-2:]) for one in by_draw]
            columns = list(zip(*by_draw, strict=True))
            rows.append(
                {
                    "family": family,
                    "method": method,
                    "mean": [statistics.mean(column) for column in columns],
                    "sd": [_spread(column) for column in columns],
                    "slope": statistics.mean(slopes),
                    "slope_sd": _spread(slopes),
                    "last_slope": statistics.mean(last),
                    "last_slope_sd": _spread(last),
                }
            )
    return rows


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def report(errors: dict[str, dict[str, list[list[float]]]], sizes: Sizes) -> str:
    """A Markdown table of 1000 times the error, mean ± sd."""
    sizes_shown = [f"{count:,}".replace(",", " ") for count in sizes.observed]
    titles = ["family", "λ", *sizes_shown, "slope", "slope at the end", "in theory"]
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for row in summary(errors, sizes):
        cells = [f"{1000 * m:.2f} ± {1000 * s:.2f}" for m, s in zip(row["mean"], row["sd"], strict=True)]
        ends = [f"{row[kind]:.2f} ± {row[f'{kind}_sd']:.2f}" for kind in ("slope", "last_slope")]
        columns = [row["family"], row["method"], *cells, *ends, f"{THEORY_SLOPE:.0f}"]
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None, sizes: Sizes | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--out", type=Path, help="write recovery.json and recovery.md to this folder")
    options = parser.parse_args(arguments)
    sizes = sizes or Sizes()
    errors = run(options.draws, sizes, methods=options.methods)
    table = report(errors, sizes)
    print(table)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"sizes": asdict(sizes), "errors": errors, "summary": summary(errors, sizes)}
        (options.out / "recovery.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
        (options.out / "recovery.md").write_text(table + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
