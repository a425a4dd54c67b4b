"""``python -m benchmarks`` (or ``make bench``): runs all benchmarks, or those that are named.

Each runs in a process of its own with pinned threads, and measures the bounds of the machine before it
begins. Its figures are printed as a table and kept as JSON; ``docs/performance.md`` is made from them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import RESULTS_HERE, Options, Report, machine, measure_bounds, pin_threads, text_table

# In the order of the documentation: the module and the function ``run(options) -> Report``.
BENCHMARKS = {
    "gate": "gate:run",
    "shapes": "shapes:run",
    "defaults": "whole_jobs:defaults",
    "kernels": "kernels:run",
    "certified": "certified:run",
    "thresholds": "threshold_search:run",
    "startup": "startup:run",
    "lists": "whole_jobs:lists",
    "arriving": "arriving:run",
}
# Small sizes are no figures to keep, except those of the gate, whose sizes are always real.
QUICK_RESULTS = Path("results") / "quick"


def runner(name: str) -> Callable[[Options], Report]:
    """The function of a benchmark."""
    module, function = BENCHMARKS[name].split(":")
    run: Callable[[Options], Report] = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    return run


def write(report: Report, path: Path, options: Options) -> dict[str, object]:
    """The report as JSON, also as what is in the file from now on."""
    about = {"quick": options.quick, "repeats": options.repeats, "machine": machine()}
    result = report.as_json() | about
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    part.replace(path)
    return result


def run_here(name: str, path: Path, given: argparse.Namespace) -> None:
    """Run, print and write one benchmark in this process."""
    # Before anything that starts threads of its own is imported.
    pin_threads(given.threads)
    print(f"== {name}", flush=True)
    bounds = measure_bounds(given.threads)

    def store(report: Report) -> None:
        report.bounds = bounds
        write(report, path, options)

    options = Options(given.repeats, given.quick, given.threads, store)
    report = runner(name)(options)
    report.bounds = bounds
    print(text_table(write(report, path, options)), flush=True)


def main() -> int:
    """Run the benchmarks; the number of those that failed to run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all if none")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the median counts (default 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="small sizes; of the gate, the quick half")
    parser.add_argument("--out", type=Path, help="folder for the JSON files")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    failed, missed = [], []
    for name in given.names or BENCHMARKS:
        folder = given.out or (QUICK_RESULTS if given.quick and name != "gate" else RESULTS_HERE)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        if given.here:
            run_here(name, path, given)
            continue
        numbers = ["--repeats", str(given.repeats), "--threads", str(given.threads), "--out", str(folder)]
        command = [sys.executable, "-m", "benchmarks", "--here", name, *numbers, *["--quick"] * given.quick]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
        else:
            missed += [one["what"] for one in json.loads(path.read_text())["lines"] if one["met"] is False]
    for name in failed:
        print(f"{name} could not be run", file=sys.stderr)
    if not given.here:
        print(f"{len(missed)} targets missed" + "".join(f"\n  {what}" for what in missed))
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
