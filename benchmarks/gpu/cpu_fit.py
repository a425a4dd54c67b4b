"""The default recommender on the CPU, in a process of its own: ``python -m benchmarks.gpu.cpu_fit FILE``."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from labelgap import Recommender


def main(path: str) -> int:
    """Fit, and print the time and the gap as JSON."""
    with np.load(path) as stored:
        ratings = stored["users"], stored["items"], stored["values"]
    model = Recommender(random_state=0, tol=1e-2, device="cpu")
    began = time.perf_counter()
    model.fit(ratings)
    took = time.perf_counter() - began
    print(json.dumps({"seconds": took, "gap": model.relative_gap_, "rank": model.rank_}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
