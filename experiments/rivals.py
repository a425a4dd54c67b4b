"""Rival methods on the same data and the same observed labels: micro-F1 on test rows, and time.

Run ``python -m experiments.rivals [--data emotions scene yeast cal500 synthetic] [--draws 5]
[--out FOLDER]``; it takes about three minutes. Of the labels of the training rows 20 % are observed, drawn
anew for every draw; every method gets the same ones. Dense features are standardised on the training rows and
divided by √d. cal500 has no published split, so each draw has 400 training and 102 test rows of its own. Real
data sets come from the folder that LABELGAP_DATA names; without it they are left out, with a note.

Each method chooses its own penalties and its threshold on held-out entries of the observed labels. Only the
plug-in has a fixed strength, that of scikit-learn's LogisticRegression. Time is that of the whole fit,
choices included, divided by the plug-in's in the same draw.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.problems import OBSERVED, SYNTHETIC, Problem, available, real_problem, synthetic_problem
from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.exceptions import UninformativeLabelsWarning

DATA = ("emotions", "scene", "yeast", "cal500", SYNTHETIC)
_BASELINE = "plug-in"


def leml_rank(problem: Problem) -> int:
    """0.4 L, and at most the largest rank of W."""
    n_labels = problem.labels.shape[1]
    return max(1, min(round(0.4 * n_labels), int(problem.X.shape[1])))


def plug_in(problem: Problem, seed: int) -> Any:
    """One logistic regression per label."""
    return PlugInClassifier(random_state=seed)


def leml(problem: Problem, seed: int) -> Any:
    """Squared loss, alternating at a fixed rank."""
    return LowRankClassifier(
        loss="squared",
        solver="alternating",
        rank=leml_rank(problem),
        ridge_penalty=0.0,
        intercept_penalty=0.0,
        feature_scaling="none",
        random_state=seed,
    )


def squared_trace_norm(problem: Problem, seed: int) -> Any:
    """Squared loss and ‖W‖_*, with the rank left free."""
    return LowRankClassifier(loss="squared", ridge_penalty=0.0, intercept_penalty=0.0, random_state=seed)


def lafond(problem: Problem, seed: int) -> Any:
    """Logistic loss and ‖XW‖_*."""
    return LowRankClassifier(penalty="scores", ridge_penalty=0.0, intercept_penalty=0.0, random_state=seed)


def default(problem: Problem, seed: int) -> Any:
    """All settings at their defaults."""
    return LowRankClassifier(random_state=seed)


METHODS: dict[str, Callable[[Problem, int], Any]] = {
    _BASELINE: plug_in,
    "LEML": leml,
    "squared loss, ‖W‖_*": squared_trace_norm,
    "Lafond, ‖XW‖_*": lafond,
    "labelgap default": default,
}


def judged(method: str, problem: Problem, seed: int) -> dict[str, Any]:
    """Micro-F1 on the test rows, seconds, and the rank of the fit."""
    model = METHODS[method](problem, seed)
    with warnings.catch_warnings():
        # With 20 % of the labels a rare one can go unobserved, or be observed with one class only.
        warnings.simplefilter("ignore", UninformativeLabelsWarning)
        start = time.perf_counter()
        model.fit(problem.X, problem.labels)
        seconds = time.perf_counter() - start
    f1 = float(model.score(problem.X_test, problem.Y_test, unobserved="negative"))
    found = {"f1": f1, "seconds": seconds}
    if isinstance(model, LowRankClassifier):
        found |= {"rank": model.rank_, "relative_gap": model.duality_gap_ / model.objective_}
    return found


Results = dict[str, dict[str, list[dict[str, Any]]]]


def run(draws: int, data: Sequence[str] = DATA, **sizes: Any) -> Results:
    """The results by data set and method, one for each draw; ``sizes`` are for the synthetic problem."""
    results: Results = {}
    for name in available(data):
        if not results:
            _warm_up()
        results[name] = {method: [] for method in METHODS}
        for seed in range(draws):
            problem = synthetic_problem(seed, **sizes) if name == SYNTHETIC else real_problem(name, seed)
            for method in METHODS:
                results[name][method].append(judged(method, problem, seed))
        print(f"{name} done", flush=True)
    return results


def _warm_up() -> None:
    """Compile all kernels before anything is timed."""
    problem = synthetic_problem(0, n=60, n_labels=6, n_features=4, rank=2, n_test=10)
    for method in METHODS:
        judged(method, problem, 0)


def summary(results: Results) -> list[dict[str, Any]]:
    """Mean and spread of micro-F1, and the median time as a multiple of the plug-in's."""
    rows = []
    for name, by_method in results.items():
        base = [one["seconds"] for one in by_method[_BASELINE]]
        for method, draws in by_method.items():
            scores = [one["f1"] for one in draws]
            ratios = [one["seconds"] / other for one, other in zip(draws, base, strict=True)]
            rows.append(
                {
                    "data": name,
                    "method": method,
                    "mean": statistics.mean(scores),
                    "sd": statistics.stdev(scores) if len(scores) > 1 else 0.0,
                    "time_ratio": statistics.median(ratios),
                }
            )
    return rows


def report(results: Results) -> str:
    """A Markdown table: a row for each method, micro-F1 (mean ± sd) and time (× plug-in) by data set."""
    texts = {
        (row["data"], row["method"]): f"{row['mean']:.3f} ± {row['sd']:.3f} ({row['time_ratio']:.1f}×)"
        for row in summary(results)
    }
    lines = [f"| {' | '.join(['method', *results])} |", "| --- " * (1 + len(results)) + "|"]
    for method in METHODS:
        lines.append(f"| {' | '.join([method, *(texts[name, method] for name in results)])} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None, **sizes: Any) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write rivals.json and rivals.md to this folder")
    options = parser.parse_args(arguments)
    results = run(options.draws, options.data, **sizes)
    table = report(results)
    print(table)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"observed": OBSERVED, "results": results, "summary": summary(results)}
        (options.out / "rivals.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
        (options.out / "rivals.md").write_text(table + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
