"""A default recommender on the CPU, in a process of its own: ``python -m benchmarks.gpu.cpu_fit FILE``.

The file has ratings, or users and items alone, which are likes to make lists from.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from labelgap import Recommender


def main(path: str) -> int:
    """Fit, and print the time and the gap as JSON."""
    with np.load(path) as stored:
        ratings = tuple(stored[name] for name in ("users", "items", "values") if name in stored)
    unobserved = "missing" if len(ratings) == 3 else "negative"
    model = Recommender(unobserved=unobserved, random_state=0, tol=1e-2, device="cpu")
    began = time.perf_counter()
    model.fit(ratings)
    took = time.perf_counter() - began
    print(json.dumps({"seconds": took, "gap": model.relative_gap_, "rank": model.rank_}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
