"""One benchmark, for ``python -m benchmarks``: its name, where the JSON goes, repeats, threads, quick."""

from __future__ import annotations

import importlib
import json
import platform
import sys
from pathlib import Path

from benchmarks.catalogue import BENCHMARKS
from benchmarks.harness import Options, pin_threads
from benchmarks.machine import measure_bounds
from benchmarks.tables import text_table


def main(arguments: list[str]) -> int:
    """Run, print and write one benchmark."""
    name, path, repeats, threads, quick = arguments
    # Before anything that starts threads of its own is imported.
    pin_threads(int(threads))
    options = Options(repeats=int(repeats), quick=bool(int(quick)), threads=int(threads))
    print(f"== {name}", flush=True)
    bounds = measure_bounds(options.threads)
    report = importlib.import_module(BENCHMARKS[name]).run(options)
    report.bounds = bounds
    result = {**report.as_json(), "quick": options.quick, "repeats": options.repeats, "machine": machine()}
    Path(path).write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(text_table(result), flush=True)
    return 0


def machine() -> str:
    """The processor, in words."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return model
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
