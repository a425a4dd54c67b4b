"""Variants of the default and rival methods: micro-F1 on test rows and time, on the same observed labels.

Run ``python -m experiments.ablation [--data emotions scene yeast] [--variants "no ridge" LEML] [--draws 5]``.
Of the training labels 20 % are observed, drawn anew for every draw. Variants differ from the default in one
parameter. The rivals are one logistic regression per label, LEML (squared loss, alternating at a rank of
0.4 L), the squared loss with the trace norm, and Lafond's penalty ‖XW‖_*. Each method chooses its own
penalties and its threshold on held-out entries of the observed labels. Only the plug-in has a fixed strength,
that of scikit-learn's LogisticRegression. Time is that of the whole fit, choices included.
"""

from __future__ import annotations

import statistics
import time
import warnings
from typing import Any

from experiments.problems import OBSERVED, REAL, SYNTHETIC, Problem, Source
from experiments.runs import Experiment, Results, Task, different, draws_of, markdown_table, plus_minus, those
from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.exceptions import UninformativeLabelsWarning

METRIC, DEFAULT, PLUG_IN = "micro-f1", "default", "plug-in"
FREE = {"ridge_penalty": 0.0, "intercept_penalty": 0.0}


def leml_rank(problem: Problem) -> int:
    """0.4 L, and at most the largest rank of W."""
    return max(1, min(round(0.4 * problem.labels.shape[1]), int(problem.X.shape[1])))


VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "features as they are": {"feature_scaling": "none"},
    "no ridge": {"ridge_penalty": 0.0},
    "no trace norm": {"trace_penalty": 0.0},
    "free intercepts": {"intercept_penalty": 0.0},
    "squared loss": {"loss": "squared"},
    "‖XW‖_*": {"penalty": "scores"},
}
RIVALS: dict[str, dict[str, Any]] = {
    PLUG_IN: {},
    "LEML": {
        "loss": "squared",
        "solver": "alternating",
        "rank": leml_rank,
        "feature_scaling": "none",
        **FREE,
    },
    "squared loss, ‖W‖_*": {"loss": "squared", **FREE},
    "Lafond, ‖XW‖_*": {"penalty": "scores", **FREE},
}


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Fit a variant to a draw, and judge it on the test rows."""
    seed, variant = int(task["draw"]), str(task["variant"])
    given = source(str(task["data"]), seed, OBSERVED)
    settings = (VARIANTS | RIVALS)[variant]
    settings = {name: value(given) if callable(value) else value for name, value in settings.items()}
    make = PlugInClassifier if variant == PLUG_IN else LowRankClassifier
    with warnings.catch_warnings():
        # With 20 % of the labels a rare one can go unobserved, or be observed with one class only.
        warnings.simplefilter("ignore", UninformativeLabelsWarning)
        began = time.perf_counter()
        model = make(metric=METRIC, random_state=seed, **settings).fit(given.X, given.labels)
        seconds = time.perf_counter() - began
    score = float(model.score(given.X_test, given.Y_test, unobserved="negative"))
    return {"score": score, "rank": getattr(model, "rank_", None), "seconds": round(seconds, 4)}


def report(results: Results, source: Source) -> str:
    """Micro-F1 (mean ± sd), and what it differs from the default's by; then times by the default's."""
    data, scores, times = different(results, "data"), [], []
    for variant in different(results, "variant"):
        mine, ratios = [variant], [variant]
        for name in data:
            base, ours = (those(results, data=name, variant=one) for one in (DEFAULT, variant))
            pairs = list(zip(ours, base, strict=True))
            cell = plus_minus(one["score"] for one in ours)
            if variant != DEFAULT:
                difference = plus_minus((one["score"] - other["score"] for one, other in pairs), sign="+")
                cell += f" ({difference})"
            mine.append(cell)
            ratio = statistics.median(one["seconds"] / other["seconds"] for one, other in pairs)
            ratios.append(f"{ratio:.1f}×")
        scores.append(mine)
        times.append(ratios)
    header = ["variant", *data]
    return f"{markdown_table(header, scores)}\n\n{markdown_table(['time', *data], times)}"


EXPERIMENT = Experiment(
    "ablation",
    __doc__ or "",
    draws=5,
    data=(*REAL, SYNTHETIC),
    default_data=("emotions", "scene", "yeast"),
    choices={"variants": (*VARIANTS, *RIVALS)},
    # Every variant is shown beside the default.
    tasks=lambda options, given: draws_of(
        options, data=options.data, variant=list(dict.fromkeys((DEFAULT, *options.variants)))
    ),
    measure=measure,
    report=report,
    settings=lambda options, given: {"observed": OBSERVED, "metric": METRIC},
)

if __name__ == "__main__":
    EXPERIMENT.main()
