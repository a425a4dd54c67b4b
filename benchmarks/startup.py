"""What a second process pays before its first fit is done: imports and compiled kernels from the cache.

Run ``python -m benchmarks.startup``. The same small script runs in processes of their own; the first may
compile, the later ones must not. The time of the fit itself, measured warm, is taken off.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIMIT = 2.0
SCRIPT = """
import time
began = time.perf_counter()
from labelgap import LowRankClassifier
from labelgap.data import make_low_rank_labels
problem = make_low_rank_labels(n=200, n_labels=20, observed=0.3, random_state=0)
clf = LowRankClassifier(trace_penalty=0.01, ridge_penalty=0.0, intercept_penalty=0.0, random_state=0)
clf.fit(problem.X, problem.Y_observed).predict(problem.X_test)
first = time.perf_counter() - began
began = time.perf_counter()
clf.fit(problem.X, problem.Y_observed).predict(problem.X_test)
print(first - (time.perf_counter() - began))
"""


def import_seconds(module: str) -> float:
    """Wall time of a fresh interpreter that imports one module."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - began


def start_up_seconds() -> float:
    """Wall time of a fresh interpreter up to its first answer, less the warm time of that answer."""
    began = time.perf_counter()
    answer = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    wall = time.perf_counter() - began
    return min(wall, float(answer.stdout))


def main() -> int:
    """Measure and print; 1 when a second process takes longer than the limit."""
    first = start_up_seconds()
    later = statistics.median(start_up_seconds() for _ in range(3))
    rival = statistics.median(import_seconds("sklearn.base") for _ in range(3))
    print(f"first process {first:.2f} s (may compile), later ones {later:.2f} s (limit {LIMIT:g} s)")
    print(f"of that, python and scikit-learn's own import: {rival:.2f} s")
    return int(later > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
