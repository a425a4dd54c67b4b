"""``python -m benchmarks`` (or ``make bench``): runs all benchmarks, or those that are named.

Each runs in a process of its own with pinned threads, and measures the bounds of the machine before it
begins. Its figures are printed as a table and kept as JSON; ``docs/performance.md`` is made from them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.catalogue import BENCHMARKS

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "performance"
# Times of another processor are figures of their own.
RESULTS_HERE = RESULTS / "aarch64" if platform.machine() in ("aarch64", "arm64") else RESULTS


def main() -> int:
    """Run the benchmarks; the number of those that failed to run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all if none")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the median counts (default 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all of them work")
    parser.add_argument("--out", type=Path, default=RESULTS_HERE, help="folder for the JSON files")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.names or BENCHMARKS:
        settings = [str(options.repeats), str(options.threads), str(int(options.quick))]
        path = options.out / f"{name}.json"
        command = [sys.executable, "-m", "benchmarks.one", name, str(path), *settings]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    for name in failed:
        print(f"{name} could not be run", file=sys.stderr)
    missed = [
        line["what"]
        for name in options.names or BENCHMARKS
        if name not in failed
        for line in json.loads((options.out / f"{name}.json").read_text())["lines"]
        if line["met"] is False
    ]
    print(f"{len(missed)} targets missed" + "".join(f"\n  {what}" for what in missed))
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
