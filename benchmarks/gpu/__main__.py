"""``python -m benchmarks.gpu``: what a GPU does, with the bounds of that GPU from the same run.

Each line is measured on its own, so that one that fails does not lose the others. The table is printed as it
grows and kept as JSON, from which ``python -m benchmarks.page`` makes its place in ``docs/performance.md``.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.__main__ import RESULTS
from benchmarks.harness import Line, Report
from benchmarks.tables import columns, text_table

METHOD = (
    "`python -m benchmarks.gpu` measures single pieces of work and whole fits on one GPU. Times are medians "
    "after a first run, which compiles; fits are timed once."
)


def lines_by_name(tune: bool, limit: float) -> dict[str, Callable[..., Iterator[Line]]]:
    """What can be measured, in the order of the table."""
    from benchmarks.gpu import fits, kernels

    return {
        "all-entries": partial(kernels.all_entries, tune=tune),
        "observed": partial(kernels.observed, tune=tune),
        "threshold": kernels.threshold,
        "judged": kernels.judged,
        "folds": kernels.folds,
        "top": kernels.top,
        "billion": fits.billion,
        "recommender": partial(fits.recommender, limit=limit),
        "lists": partial(fits.lists, limit=limit),
        "defaults": fits.default_fits,
        "decisions": fits.decisions,
    }


def main() -> int:
    """Measure; the number of lines that failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--lines", help="names with commas; all if not given")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try the benchmark itself")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that all of them work")
    parser.add_argument("--tune", action="store_true", help="try other shapes of tiles for the fused sweeps")
    parser.add_argument("--cpu-limit", type=float, default=120.0, help="seconds for the CPU's recommender")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.json")
    options = parser.parse_args()
    import torch

    from benchmarks.gpu.machine import measure

    device = torch.device(options.device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    known = lines_by_name(options.tune, options.cpu_limit)
    wanted = list(known) if options.lines is None else options.lines.split(",")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        parser.error(f"there is no line {unknown[0]!r}; there are {', '.join(known)}")
    bounds = measure(device, options.quick)
    print(f"bounds: {bounds.text}", flush=True)
    report = Report("gpu", "On a GPU", METHOD)
    failed = 0
    for name in wanted:
        began = time.perf_counter()
        print(f"== {name}", flush=True)
        try:
            for line in known[name](device, bounds, options.quick):
                report.lines.append(line)
                print("  ".join(part for part in columns(asdict(line)) if part), flush=True)
        except Exception as error:
            failed += 1
            traceback.print_exc()
            report.remarks.append(
                f"{name} failed: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
            )
        print(f"   ({time.perf_counter() - began:.1f} s)", flush=True)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    result: dict[str, Any] = {
        **report.as_json(),
        "bounds": {**asdict(bounds), "text": bounds.text},
        "quick": options.quick,
        "torch": torch.__version__,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(text_table(result), flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
