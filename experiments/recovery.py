"""How fast the error of W falls with the number of observed values, for each family: measured and in theory.

Run ``python -m experiments.recovery [--draws 5] [--methods theory default] [--out FOLDER]``; it takes about
five minutes. The values of 40 labels for 2000 rows with 10 features come from a known W* of rank 2, as real
numbers (noise of size 1), counts, and yes/no. Every draw has a W*, rows and values of its own, and for each
size an Ω of its own, uniform over the entries.

The error is ``‖Ŵ − W*‖_F² / (dL)``. The bound on it is the larger of two terms: one of order
``rank(W*) L log(n + L) / (d |Ω|)``, on logarithmic scales a line of slope −1 in |Ω|, and one of slope −½. Two
choices of λ are compared: the theory's, ``λ = 2cσ/√|Ω|`` with no other penalty and no intercept, and what
LowRankRegressor chooses by itself on held-out entries. σ² is the mean variance of a value given its row;
``labelgap.theory.feature_trace_penalty`` says what c is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.known_truth import Truth, draw_truth, observe, slope
from experiments.runs import markdown_table, mean_sd
from labelgap import LowRankRegressor, ObservedLabels
from labelgap.theory import feature_trace_penalty

FAMILIES = ("gaussian", "poisson", "bernoulli")
THEORY_SLOPE = -1.0


@dataclass(frozen=True)
class Sizes:
    """The shape of the problem, and the numbers of values to try."""

    n: int = 2000
    n_labels: int = 40
    n_features: int = 10
    rank: int = 2
    observed: tuple[int, ...] = (8_000, 16_000, 32_000, 64_000)

    @property
    def shape(self) -> dict[str, Any]:
        """All settings except the numbers of values."""
        return {name: value for name, value in asdict(self).items() if name != "observed"}


def with_theory(family: str, truth: Truth, labels: ObservedLabels, seed: int) -> LowRankRegressor:
    """λ = 2cσ/√|Ω|."""
    d, n_labels = truth.W.shape
    trace = feature_trace_penalty(
        n_features=d, n_labels=n_labels, n_observed=labels.n_observed, noise_scale=truth.noise
    )
    model = LowRankRegressor(
        family, trace_penalty=trace, ridge_penalty=0.0, fit_intercept=False, random_state=seed
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
            truth = draw_truth(family, rng, **sizes.shape)
            known = [observe(truth, count, rng) for count in sizes.observed]
            for method in methods:
                fits = (METHODS[method](family, truth, labels, seed) for labels in known)
                errors[family][method].append([float(np.mean((fit.coef_ - truth.W) ** 2)) for fit in fits])
        print(f"draw {seed + 1} of {draws} done", flush=True)
    return errors


def summary(errors: dict[str, dict[str, list[list[float]]]], sizes: Sizes) -> list[dict[str, Any]]:
    """Mean and spread over the draws: of the error at each size, of the slope, and of that at the end."""
    rows = []
    for family, by_method in errors.items():
        for method, by_draw in by_method.items():
            slopes = [slope(sizes.observed, one) for one in by_draw]
            last = [slope(sizes.observed[-2:], one[-2:]) for one in by_draw]
            columns = [mean_sd(column) for column in zip(*by_draw, strict=True)]
            row: dict[str, Any] = {"family": family, "method": method}
            row["mean"], row["sd"] = [mean for mean, _ in columns], [sd for _, sd in columns]
            row["slope"], row["slope_sd"] = mean_sd(slopes)
            row["last_slope"], row["last_slope_sd"] = mean_sd(last)
            rows.append(row)
    return rows


def report(errors: dict[str, dict[str, list[list[float]]]], sizes: Sizes) -> str:
    """A Markdown table of 1000 times the error, mean ± sd."""
    sizes_shown = [f"{count:,}".replace(",", " ") for count in sizes.observed]
    titles = ["family", "λ", *sizes_shown, "slope", "slope at the end", "in theory"]
    rows = []
    for row in summary(errors, sizes):
        texts = [f"{1000 * m:.2f} ± {1000 * s:.2f}" for m, s in zip(row["mean"], row["sd"], strict=True)]
        ends = [f"{row[kind]:.2f} ± {row[f'{kind}_sd']:.2f}" for kind in ("slope", "last_slope")]
        rows.append([row["family"], row["method"], *texts, *ends, f"{THEORY_SLOPE:.0f}"])
    return markdown_table(titles, rows)


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
