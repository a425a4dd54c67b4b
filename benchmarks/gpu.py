"""``python -m benchmarks.gpu``: what a GPU does, with the bounds of that GPU from the same run.

Each line is measured on its own, so that one that fails does not lose the others. The table is printed as it
grows and kept as JSON, from which ``python -m benchmarks.page`` makes its place in ``docs/performance.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.harness import RESULTS, Line, Report, columns, text_table, timed
from labelgap import LowRankClassifier, Recommender

METHOD = "`python -m benchmarks.gpu` measures whole default fits on one GPU, each once."
FASTER = "x faster than {} cores"


class Device:
    """A device, how work on it is timed, and its speed limits."""

    def __init__(self, name: str, quick: bool) -> None:
        import torch

        self.torch, self.quick, self.device = torch, quick, torch.device(name)
        self.on_gpu = self.device.type == "cuda"
        # The name by which an estimator knows it.
        self.name = name if self.on_gpu else "torch-cpu"
        order, numbers = (256, 1 << 16) if quick else (8192, 1 << 29)
        source = torch.ones(numbers, dtype=torch.float32, device=self.device)
        target = torch.empty_like(source)
        self.copy = 8.0 * numbers / self.seconds(lambda: target.copy_(source))
        self.gemm = {}
        for kind, dtype in (("bf16", torch.bfloat16), ("float32", torch.float32), ("float64", torch.float64)):
            A, B = (torch.randn((order, order), device=self.device).to(dtype) for _ in range(2))
            self.gemm[kind] = 2.0 * order**3 / self.seconds(lambda A=A, B=B: A @ B)

    def seconds(self, job: Callable[[], object], repeats: int = 3) -> float:
        """The median time of a job, after a run that compiles and warms up."""

        def whole() -> None:
            job()
            if self.on_gpu:
                self.torch.cuda.synchronize(self.device)

        whole()
        return statistics.median(timed(whole)[0] for _ in range(repeats))

    @property
    def text(self) -> str:
        """Its speed limits in words."""
        name = self.torch.cuda.get_device_name(self.device) if self.on_gpu else "CPU, through torch"
        speeds = ", ".join(f"{kind} {speed / 1e12:.3g}" for kind, speed in self.gemm.items())
        return f"{name}: copy {self.copy / 1e9:,.0f} GB/s, GEMM {speeds} TFLOP/s"


def recommender(device: Device) -> Iterator[Line]:
    """The default recommender for decisions, on the device and on the CPU."""
    shape, n = ((60, 40), 800) if device.quick else ((162_541, 59_047), 25_000_000)
    rated, _ = data.make_ratings(shape, n)
    given = rated.users, rated.items, rated.values
    yield _recommender(device, "Recommender, default, tol = 1e-2", f"{n:,} ratings", given, "missing")


def lists(device: Device) -> Iterator[Line]:
    """The default recommender for lists, likewise."""
    shape, n = ((60, 40), 400) if device.quick else ((100_000, 20_000), 10_000_000)
    given = data.make_likes(shape, n).nonzero()
    yield _recommender(
        device, "Recommender for lists, default", f"{len(given[0]):,} likes", given, "negative"
    )


def _recommender(device: Device, what: str, size: str, given: Any, unobserved: str) -> Line:
    models = {
        where: Recommender(unobserved=unobserved, random_state=0, tol=1e-2, device=where)
        for where in (device.name, "cpu")
    }
    took = {where: timed(lambda model=model: model.fit(given))[0] for where, model in models.items()}
    there, plain = models.values()
    note = f"gap {there.relative_gap_:.1e}, rank {there.rank_}; "
    note += f"CPU {took['cpu']:.1f} s, gap {plain.relative_gap_:.1e}, rank {plain.rank_}"
    against, met = FASTER.format(len(os.sched_getaffinity(0))), there.relative_gap_ <= 1e-2
    ratio = took["cpu"] / took[device.name]
    return Line(what, size, took[device.name], ratio, against, "gap ≤ 1e-2", met, note=note)


def defaults(device: Device) -> Iterator[Line]:
    """Default fits of small data sets on the device and on the CPU."""
    sets = [data.generate(60, 20, 30, 12) if device.quick else data.generate()]
    if os.environ.get("LABELGAP_DATA") and not device.quick:
        sets.append(data.read("bibtex"))
    for one in sets:
        # The second fit on the device finds the kernels compiled.
        on_cpu, there, again = (
            timed(partial(LowRankClassifier(random_state=0, device=where).fit, one.X, one.Y))[0]
            for where in ("cpu", device.name, device.name)
        )
        note = f"a second one {again:.1f} s; CPU {on_cpu:.1f} s"
        against = FASTER.format(len(os.sched_getaffinity(0)))
        yield Line("a default fit", str(one), there, on_cpu / there, against, note=note)


LINES = {
    "recommender": recommender,
    "lists": lists,
    "defaults": defaults,
}


def main(arguments: list[str] | None = None) -> int:
    """Measure; the number of lines that failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--lines", nargs="+", choices=LINES, default=list(LINES))
    parser.add_argument("--device", default="cuda:0", help="cuda:0, or cpu to try the benchmark itself")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that all of them work")
    parser.add_argument("--out", type=Path, help="the JSON file; that of the documents by default")
    options = parser.parse_args(arguments)
    device = Device(options.device, options.quick)
    print(f"bounds: {device.text}", flush=True)
    report, failed = Report("gpu", "On a GPU", METHOD), 0
    for name in options.lines:
        try:
            for line in LINES[name](device):
                report.lines.append(line)
                print("  ".join(part for part in columns(asdict(line)) if part), flush=True)
        except Exception as error:
            failed += 1
            traceback.print_exc()
            report.remarks.append(f"{name} failed: {type(error).__name__}: {str(error)[:200]}")
    bounds = {"text": device.text, "copy_bytes_per_second": device.copy, "gemm": device.gemm}
    result = report.as_json() | {"bounds": bounds, "quick": options.quick}
    path = options.out or (Path("results") / "gpu.json" if options.quick else RESULTS / "gpu.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(text_table(result), flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
