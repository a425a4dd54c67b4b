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

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from experiments.problems import Truth, draw_truth, observe_some, slope
from experiments.runs import Experiment, Results, Task, different, draws_of, markdown_table, plus_minus, those
from labelgap import LowRankRegressor, ObservedLabels
from labelgap.theory import feature_trace_penalty

FAMILIES, METHODS = ("gaussian", "poisson", "bernoulli"), ("theory", "default")
THEORY_SLOPE = -1.0


@dataclass(frozen=True)
class Sizes:
    """The shape of the problem, and the numbers of values to try."""

    n: int = 2000
    n_labels: int = 40
    n_features: int = 10
    rank: int = 2
    observed: tuple[int, ...] = (8_000, 16_000, 32_000, 64_000)


def fitted(family: str, method: str, truth: Truth, labels: ObservedLabels, seed: int) -> LowRankRegressor:
    """With λ = 2cσ/√|Ω|, or with all penalties chosen on held-out entries."""
    if method == "default":
        return LowRankRegressor(family, random_state=seed).fit(truth.X, labels)
    d, n_labels = truth.W.shape
    trace = feature_trace_penalty(
        n_features=d, n_labels=n_labels, n_observed=labels.n_observed, noise_scale=truth.noise
    )
    theory = {"trace_penalty": trace, "ridge_penalty": 0.0, "fit_intercept": False}
    return LowRankRegressor(family, **theory, random_state=seed).fit(truth.X, labels)


def measure(task: Task, sizes: Sizes) -> dict[str, Any]:
    """The error for each size of Ω, and the slopes; both methods get the same values."""
    family, seed = str(task["family"]), int(task["draw"])
    rng = np.random.RandomState(seed)
    shape = {name: value for name, value in asdict(sizes).items() if name != "observed"}
    truth = draw_truth(family, rng, **shape)
    known = [observe_some(truth, count, rng) for count in sizes.observed]
    fits = [fitted(family, str(task["method"]), truth, labels, seed) for labels in known]
    errors = [float(np.mean((fit.coef_ - truth.W) ** 2)) for fit in fits]
    slopes = slope(sizes.observed, errors), slope(sizes.observed[-2:], errors[-2:])
    return {"errors": errors, "slope": slopes[0], "slope at the end": slopes[1]}


def report(results: Results, sizes: Sizes) -> str:
    """1000 times the error, mean ± sd over the draws."""
    counts = [f"{count:,}".replace(",", " ") for count in sizes.observed]
    rows = []
    for family, method in different(results, "family", "method"):
        draws = those(results, family=family, method=method)
        errors = zip(*(one["errors"] for one in draws), strict=True)
        cells = [plus_minus((1000 * error for error in column), 2) for column in errors]
        cells += [plus_minus((one[name] for one in draws), 2) for name in ("slope", "slope at the end")]
        rows.append([family, method, *cells, f"{THEORY_SLOPE:.0f}"])
    return markdown_table(["family", "λ", *counts, "slope", "slope at the end", "in theory"], rows)


EXPERIMENT = Experiment(
    "recovery",
    __doc__ or "",
    draws=5,
    choices={"methods": METHODS, "families": FAMILIES},
    tasks=lambda options, given: draws_of(options, family=options.families, method=options.methods),
    measure=measure,
    report=report,
    settings=lambda options, given: {"sizes": asdict(given)},
    given=Sizes(),
)

if __name__ == "__main__":
    EXPERIMENT.main()
