"""The start-up time of a first and of a second process: imports, and kernels compiled or from the cache.

The same small script runs in processes of their own; the first finds an empty cache of compiled kernels, and
the later ones find what it wrote. The time of the fits themselves, measured warm, is taken off. The fits are
one of each kind, so that every kernel that they need is loaded.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.harness import Line, Options, Report, timed

# Seconds over those of scikit-learn's own import, and seconds of a command that does no work.
LIMIT, COMMAND_LIMIT = 2.0, 0.3
SCRIPT = """
import time
began = time.perf_counter()
{prepare}
def fit():
    {fit}
fit()
first = time.perf_counter() - began
began = time.perf_counter()
fit()
print(first - (time.perf_counter() - began))
"""
CLASSIFIER = SCRIPT.format(
    prepare="""
from labelgap import LowRankClassifier
from labelgap.data import make_low_rank_labels
problem = make_low_rank_labels(n=200, n_labels=20, observed=0.3, random_state=0)
given = dict(trace_penalty=0.01, ridge_penalty=0.0, intercept_penalty=0.0, random_state=0)""",
    fit="LowRankClassifier(**given).fit(problem.X, problem.Y_observed).predict(problem.X_test)",
)
RECOMMENDER = SCRIPT.format(
    prepare="""
import numpy as np
from labelgap import Recommender
rng = np.random.default_rng(0)
pairs = np.unique(rng.integers(0, 50, 800) * 40 + np.tile(np.arange(40), 20))
triplets = (pairs // 40, pairs % 40, rng.integers(0, 2, len(pairs)))
given = dict(rank=4, trace_penalty=1e-3, solver="alternating", threshold="train", random_state=0)""",
    fit="Recommender(**given).fit(triplets).recommend_batch(n=3)",
)


def median_seconds(command: list[str], repeats: int) -> float:
    """Wall time of a fresh interpreter."""
    run = lambda: subprocess.run([sys.executable, *command], check=True, capture_output=True)  # noqa: E731
    return statistics.median(timed(run)[0] for _ in range(repeats))


def start_up_seconds(script: str, cache: str) -> float:
    """The time from the first import to the first prediction, minus the time of the same fit when warm."""
    finished = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )
    return float(finished.stdout)


def run(options: Options) -> Report:
    """Commands that do no work, both kinds of fit, and Python with scikit-learn alone."""
    report = Report(
        "startup",
        "Start-up of a first and of a second process",
        "Time from the first import to the first prediction of a small fit, minus the time that fit and "
        "prediction take when warm. In a second process, compiled kernels come from the cache that the first "
        "one wrote.",
    )
    for option in ("--version", "--help"):
        taken = median_seconds(["-m", "labelgap", option], options.repeats)
        target = f"< {COMMAND_LIMIT:g} s", taken < COMMAND_LIMIT
        report.lines.append(Line(f"labelgap {option}", "", taken, taken, "s", *target))
    alone = median_seconds(["-c", "import sklearn.base"], options.repeats)
    report.lines.append(Line("python and the import of scikit-learn alone", seconds=alone))
    for name, script in (("a classifier", CLASSIFIER), ("a recommender, alternating", RECOMMENDER)):
        with tempfile.TemporaryDirectory() as cache:
            first = start_up_seconds(script, cache)
            later = statistics.median(start_up_seconds(script, cache) for _ in range(options.repeats))
        report.lines.append(Line(f"{name}, with nothing compiled beforehand", seconds=first))
        over, target = later - alone, (f"< {LIMIT:g} s", later - alone < LIMIT)
        what = f"{name}, in a second process"
        report.lines.append(Line(what, "", later, over, "s over scikit-learn's import", *target))
    return report
