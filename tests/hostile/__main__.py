"""``python -m tests.hostile --cases 100000``: the long campaign of bad inputs."""

from __future__ import annotations

import argparse
import sys

from .campaign import run_campaign
from .cases import KINDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="how many cases to try (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first case")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so many seconds")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="try this kind alone")
    given = parser.parse_args()
    report = run_campaign(
        given.cases,
        given.seed,
        tuple(given.kind or ()),
        given.seconds,
        tell=lambda failure: print(f"{failure.kind}, seed {failure.seed}: {failure.why}", flush=True),
    )
    print("\n".join(report.lines()))
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
