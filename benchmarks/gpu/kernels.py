"""Lines about single pieces of work: sweeps, passes over entries, the threshold, the best items."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.entries import SkewedEntries
from benchmarks.gpu.machine import GpuBounds, seconds, wait
from benchmarks.harness import Line
from labelgap.fitting.judges import MetricJudge, SteadyJudge
from labelgap.kernels.gpu.device import has_triton
from labelgap.kernels.gpu.every import EveryEntry
from labelgap.kernels.gpu.losses import torch_loss
from labelgap.labels import ObservedLabels
from labelgap.labels.splitting import shuffled_entries
from labelgap.losses import Logistic
from labelgap.metrics import get_metric
from labelgap.thresholds import sweep_entries
from labelgap.thresholds.cross_fit import N_FOLDS, spread_folds

RANK = 64
_AIMS = {"bf16": 5e11, "float32": 1e11}


def all_entries(device: Any, bounds: GpuBounds, quick: bool, tune: bool = False) -> Iterator[Line]:
    """Value and both gradients over all n x L entries."""
    n = 192 if quick else 131_072
    generator = torch.Generator(device=device).manual_seed(0)
    P, Q = (torch.randn((n, RANK), generator=generator, device=device) / RANK**0.5 for _ in range(2))
    b = torch.randn(n, generator=generator, device=device) - 2
    loss = torch_loss(Logistic())
    assert loss is not None
    some = slice(0, min(n, 4096))
    exact = EveryEntry(loss, P[some].double(), Q.double(), b.double()).left()
    for precision in ("bf16", "tf32", "float32", "float64"):
        size = n if precision != "float64" else min(n, 32_768)
        entries = EveryEntry(loss, P[:size], Q[:size], b[:size], precision)

        def both(entries: EveryEntry = entries) -> None:
            entries.left()
            entries.right()

        took = seconds(both, device, repeats=3, warm_up=1)
        speed = float(size) * size / took
        aim = _AIMS.get(precision)
        # Two products to score and two to gather, in either sweep.
        flops = 8.0 * RANK * size * size
        note = "fused" if entries.fused else "plain torch in blocks"
        if precision != "float64":
            rough = EveryEntry(loss, P[some], Q, b, precision).left()
            error = float((rough.product - exact.product).abs().max() / exact.product.abs().max())
            value_error = abs(rough.value - exact.value) / exact.value
            note += f"; errors: value {value_error:.1e}, gradient {error:.1e}"
        yield Line(
            f"all entries, value and both gradients, k = {RANK}, {precision}",
            f"{size:,} x {size:,}",
            took,
            speed,
            "entries/s",
            "" if aim is None else f"≥ {aim:.0e}",
            None if aim is None else speed >= aim,
            flops / bounds.gemm[precision],
            f"{precision} GEMM",
            note,
        )
    if tune and has_triton():
        yield from _tuned(device, P, Q, b)


def _tuned(device: Any, P: Any, Q: Any, b: Any) -> Iterator[Line]:
    """Other shapes of tiles, for whoever sets ``TILES`` of :mod:`labelgap.kernels.gpu.triton_every`."""
    from labelgap.kernels.gpu import triton_every

    for precision in ("bf16", "tf32", "float32"):
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        mine, theirs = P.to(kind), Q.to(kind)
        flush = triton_every.TILES[precision].flush
        for own, others, warps, stages in (
            (64, 64, 4, 2), (64, 64, 4, 3), (64, 128, 4, 2), (128, 64, 4, 3), (128, 64, 8, 2),
            (128, 64, 8, 3), (128, 64, 8, 4), (128, 128, 8, 2), (128, 32, 4, 3), (64, 32, 4, 2),
            (128, 32, 8, 2),
        ):  # fmt: skip
            tiles = triton_every.Tiles(own, others, warps, stages, flush)

            def both(tiles: Any = tiles, mine: Any = mine, theirs: Any = theirs, p: str = precision) -> None:
                triton_every.left_sweep(mine, theirs, b, p, tiles)
                triton_every.right_sweep(mine, theirs, b, p, tiles)

            what = f"  tiles {own} x {others}, {warps} warps, {stages} stages, {precision}"
            try:
                took = seconds(both, device, repeats=2, warm_up=1)
            except Exception as error:  # A shape that does not fit is a result too.
                yield Line(what, note=f"{type(error).__name__}: {str(error).splitlines()[0][:80]}")
            else:
                yield Line(what, "", took, len(P) * len(Q) / took, "entries/s")


def observed(device: Any, bounds: GpuBounds, quick: bool, tune: bool = False) -> Iterator[Line]:
    """Value and gradients over observed entries."""
    entries = SkewedEntries.make(device, *((300, 40, 3000) if quick else (1_000_000, 200_000, 10**9)))
    for dtype in (torch.float32, torch.float64):
        loss, P, Q, b = entries.loss(dtype)

        def passes(loss: Any = loss, P: Any = P, Q: Any = Q, b: Any = b) -> None:
            found = loss.row_pass(P, Q, b)
            loss.label_pass(P, Q, b, found.low_rank, found.slopes)

        passes()
        took = seconds(passes, device, repeats=2 if not quick else 1, warm_up=0)
        size = P.element_size()
        # Each pass reads an index, a value and a row of factors for each entry; one of them writes a score
        # and a slope, and both write a row of each side.
        n_bytes = entries.size * (2 * (4 + 1 + size * RANK) + 2 * size) + 2 * size * (P.numel() + Q.numel())
        bound = n_bytes / bounds.copy_bytes_per_second
        yield Line(
            f"observed entries, value and gradients, k = {RANK}, {str(dtype).split('.')[-1]}",
            f"{entries.size:,} entries of {len(P):,} x {len(Q):,}",
            took,
            bound / took,
            "of what the memory allows",
            "≥ 0.5",
            bound / took >= 0.5,
            bound,
            "memory",
            f"{entries.size / took:.2g} entries/s",
        )
        if tune and has_triton():
            yield from _other_blocks(device, passes)
        del loss, P, Q, b


def _other_blocks(device: Any, passes: Any) -> Iterator[Line]:
    """Other sizes of a gathered block, for whoever sets them in ``triton_entries``."""
    from labelgap.kernels.gpu import triton_entries

    before = dict(triton_entries.GATHERED)
    for work in ("losses", "sums"):
        for numbers in (256, 512, 1024, 2048, 4096):
            triton_entries.GATHERED = {**before, work: (numbers, numbers)}
            took = seconds(passes, device, repeats=1, warm_up=1)
            yield Line(f"  {numbers} numbers a block for {work}", "", took)
    triton_entries.GATHERED = before


def threshold(device: Any, bounds: GpuBounds, quick: bool) -> Iterator[Line]:
    """The exact threshold of many scores, against a sort of them."""
    n = 200_000 if quick else 10**9
    generator = torch.Generator(device=device).manual_seed(0)
    scores = torch.randn(n, generator=generator, device=device)
    values = torch.empty(n, dtype=torch.int8, device=device)
    for start in range(0, n, 1 << 26):
        here = slice(start, start + (1 << 26))
        chance = torch.rand(len(scores[here]), generator=generator, device=device)
        values[here] = (chance < torch.sigmoid(2 * scores[here] - 1)).to(torch.int8)
    f1 = {"vertex_numerator": np.array([2.0, 0, 0, 0]), "vertex_denominator": np.array([2.0, 1, 1, 0])}
    took = seconds(lambda: sweep_entries(scores, values, **f1), device, repeats=3, warm_up=1)
    sort = seconds(lambda: torch.sort(scores), device, repeats=2, warm_up=1)
    note = ""
    if n <= 10**8:
        same = sweep_entries(scores.cpu().numpy(), values.cpu().numpy(), **f1)
        note = f"as on the CPU: {same == sweep_entries(scores, values, **f1)}"
    else:
        part = slice(0, 10**8)
        there = sweep_entries(scores[part], values[part], **f1)
        same = there == sweep_entries(scores[part].cpu().numpy(), values[part].cpu().numpy(), **f1)
        note = f"the first 10⁸ as on the CPU: {same}"
    n_bytes = 2 * n * 5.0
    bound = n_bytes / bounds.copy_bytes_per_second
    yield Line(
        "exact threshold", f"{n:,} scores", took, took / sort, "x torch.sort", "", None, bound, "memory", note
    )


def judged(device: Any, bounds: GpuBounds, quick: bool) -> Iterator[Line]:
    """Held-out scores judged by a search: threshold, metric, leave-out values and loss, against the CPU."""
    shape, n = ((60, 40), 800) if quick else ((162_541, 59_047), 25_000_000)
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, shape[0] * shape[1], n))
    scores = rng.standard_normal(len(cells))
    values = (rng.random(len(cells)) < 1 / (1 + np.exp(1 - 2 * scores))).astype(np.int8)
    labels = ObservedLabels.from_triplets(cells // shape[1], cells % shape[1], values, shape)
    there = torch.from_numpy(scores).to(device)
    judges = [MetricJudge(get_metric("micro-f1"), Logistic()) for _ in range(2)]
    # The first verdict prepares what is needed of the labels.
    one, other = judges[0](scores, labels), judges[1](there, labels)
    took = seconds(lambda: judges[1](there, labels), device, repeats=3, warm_up=0)
    on_cpu = seconds(lambda: judges[0](scores, labels), device, repeats=3, warm_up=0)
    same = one[:2] == other[:2] and np.array_equal(one.leave_out, other.leave_out)
    yield Line(
        "held-out scores judged",
        f"{len(cells):,} scores",
        took,
        on_cpu / took,
        "x faster than the CPU",
        "value, threshold and leave-out values of the CPU",
        bool(same),
        note=f"CPU {on_cpu:.2g} s; losses differ by {abs(one.loss - other.loss) / one.loss:.0e}",
    )
    last = SteadyJudge(get_metric("micro-f1"), Logistic())
    one, other = last(scores, labels), last(there, labels)
    took = seconds(lambda: last(there, labels), device, repeats=3, warm_up=0)
    on_cpu = seconds(lambda: last(scores, labels), device, repeats=3, warm_up=0)
    yield Line(
        "the threshold that is used, chosen and judged",
        f"{len(cells):,} scores",
        took,
        on_cpu / took,
        "x faster than the CPU",
        "value and threshold of the CPU",
        one[:2] == other[:2],
        note=f"CPU {on_cpu:.2g} s",
    )


def folds(device: Any, bounds: GpuBounds, quick: bool) -> Iterator[Line]:
    """Folds of entries, every label's yes and no spread evenly, against the CPU."""
    for shape, n in (
        [((60, 40), 800)] if quick else [((162_541, 59_047), 25_000_000), ((10**6, 10**5), 10**8)]
    ):
        rng = np.random.default_rng(0)
        indptr = np.append(0, np.sort(rng.integers(0, n, shape[0] - 1)))
        indices = (shape[1] * rng.random(n, dtype=np.float32) ** 3).astype(np.int32)
        values = (rng.random(n, dtype=np.float32) < 0.4).astype(np.int8)
        # Items may come twice for a user, which does not matter here.
        labels = ObservedLabels(np.append(indptr, n), indices.clip(max=shape[1] - 1), values, shape)
        spread_folds(labels, N_FOLDS, 0, device)
        began = time.perf_counter()
        shuffled_entries(n, np.random.RandomState(0))
        shuffled = time.perf_counter() - began
        began = time.perf_counter()
        there = spread_folds(labels, N_FOLDS, 0, device)
        took = time.perf_counter() - began
        began = time.perf_counter()
        here = labels.fold_numbers(N_FOLDS, random_state=0)
        on_cpu = time.perf_counter() - began
        yield Line(
            "folds",
            f"{n:,} entries of {shape[0]:,} x {shape[1]:,}",
            took,
            on_cpu / took,
            "x faster than the CPU",
            "folds of the CPU",
            np.array_equal(there, here),
            note=f"CPU {on_cpu:.2g} s; the random order, which the CPU draws, takes {shuffled:.2g} s of it",
        )


def top(device: Any, bounds: GpuBounds, quick: bool) -> Iterator[Line]:
    """The ten best of all items for all users."""
    from labelgap.kernels.gpu.top import TopSearch

    n_users, n_items = (300, 1000) if quick else (1_000_000, 1_000_000)
    rng = np.random.default_rng(0)
    users, items = (rng.standard_normal((n, RANK), dtype=np.float32) for n in (n_users, n_items))
    search = TopSearch(items.astype(np.float64), rng.standard_normal(n_items), device)
    some = users[: min(n_users, 65_536)].astype(np.float64)
    list(search.tiles(some[:8192], 10, None))

    def find() -> None:
        for _ in search.tiles(some, 10, None):
            pass

    took = seconds(find, device, repeats=2, warm_up=0) * n_users / len(some)
    # The same tiles by the library's product alone, with their scores written to memory.
    tile, width = torch.as_tensor(some[:8192], dtype=torch.float32, device=device), min(n_items, 65_536)
    factors = search.items[:width].T.contiguous()
    out = torch.empty((len(tile), width), device=device)
    torch.set_float32_matmul_precision("high")
    product = seconds(lambda: torch.matmul(tile, factors, out=out), device)
    torch.set_float32_matmul_precision("highest")
    product *= n_users / len(tile) * n_items / width
    maxima = seconds(lambda: search.maxima(tile), device, repeats=3) * n_users / len(tile)
    wait(device)
    yield Line(
        f"top 10, k = {RANK}",
        f"{n_users:,} x {n_items:,}",
        took,
        product / took,
        "of the speed of the products alone",
        "≥ 0.5",
        product / took >= 0.5,
        product,
        "TF32 GEMM of the same tiles",
        f"measured on {len(some):,} users; the fused sweep alone takes {maxima:.3g} s",
    )
