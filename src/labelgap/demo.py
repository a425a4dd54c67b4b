"""The main job on synthetic data: ``labelgap demo``, ``python -m labelgap.demo`` or ``make demo``.

The paper's problem: 1000 rows, 10 features, 100 labels from a parameter matrix of rank 5, one label in ten
observed. The low-rank fit stands beside the per-label plug-in baseline; both are judged on fresh rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

from labelgap import LowRankClassifier, PlugInClassifier, best_threshold, get_metric
from labelgap.data import LowRankProblem, make_low_rank_labels
from labelgap.exceptions import LabelgapError, MissingExtraError
from labelgap.report import save_threshold_curves
from labelgap.report.threshold_curve import picture_format

METRIC = "micro-f1"


def show(seed: int, picture: Path) -> None:
    """The demo on the draw of that seed."""
    # What could not be saved at the end is said before the fits.
    picture_format(picture)
    run(make_low_rank_labels(random_state=seed), picture, seed)


def run(problem: LowRankProblem, picture: Path, seed: int) -> None:
    """Fit both methods, print the table, save the picture."""
    console, table_class = _rich()
    observed = (problem.Y_observed == problem.Y_observed).mean()
    n, d = problem.X.shape
    console.print(
        f"[bold]{n} rows, {d} features, {problem.Y.shape[1]} labels, {observed:.0%} of the labels observed; "
        f"judged by {METRIC}[/bold]"
    )
    models: dict[str, Any] = {
        "low-rank (labelgap)": LowRankClassifier(metric=METRIC, random_state=seed),
        "plug-in, one model per label": PlugInClassifier(metric=METRIC, random_state=seed),
    }
    table = table_class(title=f"On {len(problem.X_test)} fresh rows, all labels known")
    for column in ("method", METRIC, "accuracy", "threshold", "fit"):
        table.add_column(column, justify="left" if column == "method" else "right")
    curves = {}
    accuracy = get_metric("micro-accuracy")
    for name, model in models.items():
        with console.status(f"fitting {name}"):
            began = time.perf_counter()
            model.fit(problem.X, problem.Y_observed)
            seconds = time.perf_counter() - began
        table.add_row(
            name,
            f"{model.score(problem.X_test, problem.Y_test):.4f}",
            f"{accuracy(problem.Y_test, model.predict(problem.X_test)):.4f}",
            f"{model.threshold_probability_:.3f}",
            f"{seconds:.1f} s",
        )
        # On the scale of probabilities, so that the two pictures can be compared.
        result = best_threshold(
            model.predict_proba(problem.X_test), problem.Y_test, METRIC, return_curve=True
        )
        assert result.curve is not None
        curves[name] = (result.curve, model.threshold_probability_)
    console.print(table)
    low_rank = models["low-rank (labelgap)"]
    console.print(
        f"The low-rank fit has rank {low_rank.rank_} and is within "
        f"{low_rank.duality_gap_ / low_rank.objective_:.2%} of the global optimum of its objective (proved)."
    )
    title = f"{METRIC} on fresh rows against the threshold"
    saved = save_threshold_curves(
        curves, picture, metric_name=METRIC, axis_name="threshold θ on the probability", title=title
    )
    console.print(f"Picture of {METRIC} against the threshold: {saved.resolve()}", soft_wrap=True)


def _rich() -> tuple[Any, Any]:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError as error:
        raise MissingExtraError("The demo needs rich: pip install 'labelgap[demo]'.") from error
    return Console(), Table


def main(arguments: list[str] | None = None) -> None:
    """The command line of the demo."""
    parser = argparse.ArgumentParser(prog="python -m labelgap.demo", description=__doc__)
    parser.add_argument("--picture", type=Path, default=Path("labelgap-demo.png"), help="where to save it")
    parser.add_argument("--seed", type=int, default=0, help="draw of the synthetic data")
    options = parser.parse_args(arguments)
    try:
        picture_format(options.picture)
    except LabelgapError as error:
        parser.error(str(error))
    with warnings.catch_warnings():
        # A progress line in the middle of a table helps nobody; the table says what was reached.
        warnings.simplefilter("default")
        show(options.seed, options.picture)


if __name__ == "__main__":
    main()
