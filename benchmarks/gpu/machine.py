"""The bounds of a GPU, and how work on it is timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class GpuBounds:
    """The speed limits of the device, measured in the same run as everything else."""

    name: str
    copy_bytes_per_second: float
    """Bytes read and bytes written, together."""
    gemm: dict[str, float]
    """Operations per second of a large product, by precision."""
    exponentials: float
    """Exponentials of float32 numbers per second, read from memory and written to it."""

    @property
    def text(self) -> str:
        speeds = ", ".join(f"{name} {speed / 1e12:.3g}" for name, speed in self.gemm.items())
        return (
            f"{self.name}: copy {self.copy_bytes_per_second / 1e9:,.0f} GB/s, GEMM {speeds} TFLOP/s, "
            f"{self.exponentials:.2g} exponentials/s"
        )


def wait(device: Any) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(job: Callable[[], object], device: Any, repeats: int = 5, warm_up: int = 2) -> float:
    """The median time of a job on the device, after runs that compile and warm up."""
    for _ in range(warm_up):
        job()
    times = []
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        job()
        wait(device)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure(device: Any, quick: bool) -> GpuBounds:
    """All bounds."""
    order, numbers = (256, 1 << 16) if quick else (8192, 1 << 29)
    source = torch.ones(numbers, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    copy = 2 * 4 * numbers / seconds(lambda: target.copy_(source), device)
    exponentials = numbers / seconds(lambda: torch.exp(source, out=target), device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU, through torch"
    return GpuBounds(name, copy, {kind: gemm_speed(device, kind, order) for kind in KINDS}, exponentials)


KINDS = ("bf16", "tf32", "float32", "float64")


def gemm_speed(device: Any, kind: str, order: int) -> float:
    """Operations per second of a square product."""
    dtype = {"bf16": torch.bfloat16, "float64": torch.float64}.get(kind, torch.float32)
    A, B = (torch.randn((order, order), device=device).to(dtype) for _ in range(2))
    torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
    out = torch.empty_like(A)
    took = seconds(lambda: torch.matmul(A, B, out=out), device, repeats=3)
    torch.set_float32_matmul_precision("highest")
    return 2.0 * order**3 / took
