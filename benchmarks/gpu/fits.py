"""Lines about whole fits: a recommender, a billion entries, default fits, and the same decisions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from benchmarks import feature_sets
from benchmarks.generated_ratings import make_likes, make_split
from benchmarks.gpu.entries import SkewedEntries
from benchmarks.gpu.machine import GpuBounds, wait
from benchmarks.harness import Line
from labelgap import LowRankClassifier, Recommender
from labelgap.data import load_multilabel
from labelgap.fitting.problem import backend_for
from labelgap.labels import ObservedLabels
from labelgap.losses import Logistic
from labelgap.objective.torch.design import TensorDesign
from labelgap.objective.torch.entries import TensorEntryTerm
from labelgap.objective.torch.features import TensorIdentity
from labelgap.solvers import Penalties
from labelgap.solvers.alternating import RowSweeps, with_leading_columns
from labelgap.solvers.certificate import certify
from labelgap.solvers.loop import starting_factors

RANK = 64
SIX = ("emotions", "yeast", "scene", "cal500", "corel5k", "bibtex")


def name_of(device: Any) -> str:
    """The name by which an estimator knows the device."""
    return "torch-cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"


def recommender(device: Any, bounds: GpuBounds, quick: bool, limit: float = 180.0) -> Iterator[Line]:
    """The default recommender on the device, and on the CPU in a process of its own, for so long at most."""
    shape, n = ((60, 40), 800) if quick else ((162_541, 59_047), 25_000_000)
    rated = make_split(shape, n, held_out=0.0).train
    ratings = {"users": rated.users, "items": rated.items, "values": rated.values}
    yield _default_recommender(device, "Recommender, default, tol = 1e-2", shape, ratings, limit)


def lists(device: Any, bounds: GpuBounds, quick: bool, limit: float = 180.0) -> Iterator[Line]:
    """Likes against silence, likewise."""
    shape, n = ((60, 40), 400) if quick else ((100_000, 20_000), 10_000_000)
    liked = make_likes(shape, n)
    likes = {"users": liked.users, "items": liked.items}
    yield _default_recommender(device, "Recommender for lists, default", shape, likes, limit)


def _default_recommender(
    device: Any, what: str, shape: tuple[int, int], ratings: dict[str, Any], limit: float
) -> Line:
    unobserved, kind = ("missing", "ratings") if "values" in ratings else ("negative", "likes")
    model = Recommender(unobserved=unobserved, random_state=0, tol=1e-2, device=name_of(device))
    began = time.perf_counter()
    model.fit(tuple(ratings.values()))
    took = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.npz"
        np.savez(path, **ratings)
        on_cpu, said = _on_cpu(path, limit)
    return Line(
        what,
        f"{len(ratings['users']):,} {kind} of {shape[0]:,} x {shape[1]:,}",
        took,
        None if on_cpu is None else on_cpu / took,
        f"x faster than {len(os.sched_getaffinity(0))} cores",
        "gap ≤ 1e-2",
        model.relative_gap_ <= 1e-2,
        note=f"gap {model.relative_gap_:.1e}, rank {model.rank_}, {len(model.candidates_)} candidates; "
        f"{said}",
    )


def _on_cpu(path: Path, limit: float) -> tuple[float | None, str]:
    command = [sys.executable, "-m", "benchmarks.gpu.cpu_fit", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return None, f"the CPU was stopped after {limit:.0f} s"
    except subprocess.CalledProcessError as error:
        return None, f"the CPU failed: {error.stderr.strip().splitlines()[-1][:100]}"
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return answer["seconds"], f"CPU {answer['seconds']:.1f} s, gap {answer['gap']:.1e}, rank {answer['rank']}"


def billion(device: Any, bounds: GpuBounds, quick: bool) -> Iterator[Line]:
    """Sweeps of rank 64 over a billion entries, and the gap after them."""
    size = (200, 60, 4000) if quick else (1_000_000, 200_000, 10**9)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    entries = SkewedEntries.make(device, *size)
    design = TensorDesign(
        TensorIdentity(entries.pattern.n_rows), TensorIdentity(entries.pattern.n_labels), device
    )
    objective = TensorEntryTerm(design, entries.pattern, entries.weighted(), has_intercept=True)
    # About what a search would choose: λ = 1/√(n |Ω|), in units of the mean loss.
    penalties = Penalties(2.0 / (size[2] * min(size[:2])) ** 0.5)
    start = starting_factors(objective, None)
    steps = objective.rowwise(torch.float32)
    assert steps is not None
    began = time.perf_counter()
    first = with_leading_columns(objective, penalties, objective.at(start), min(RANK, min(size[:2])), 0)
    sweeps = RowSweeps(steps, penalties, first.factors)
    wait(device)
    prepared = time.perf_counter() - began
    times, gains = [], []
    for _ in range(2 if quick else 6):
        began = time.perf_counter()
        gains.append(sweeps.sweep())
        wait(device)
        times.append(time.perf_counter() - began)
    began = time.perf_counter()
    point = objective.at(sweeps.factors())
    certificate = certify(objective, point, penalties, accuracy=1e-3)
    certified = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else float("nan")
    yield Line(
        f"a fit to observed entries, rank {RANK}: one sweep",
        f"{size[2]:,} entries of {size[0]:,} x {size[1]:,}",
        float(np.median(times)),
        note=f"start {prepared:.1f} s, certificate {certified:.1f} s; after {len(times)} sweeps the relative "
        f"gap is {certificate.relative_gap:.1e}; last gain {gains[-1]:.1e}; at most {peak:.0f} GB",
    )


def default_fits(device: Any, bounds: GpuBounds, quick: bool) -> Iterator[Line]:
    """Default fits of small data sets on the device and on the CPU, and what "auto" picks."""
    sets: list[Any] = []
    if quick:
        sets.append(feature_sets.generate(60, 20, 30, 12))
    else:
        sets.append(feature_sets.generate())
        if os.environ.get("LABELGAP_DATA"):
            sets.append(feature_sets.read("bibtex"))
    for data in sets:
        times, gaps = [], []
        # The second fit on the device finds the kernels compiled.
        for where in ("cpu", name_of(device), name_of(device)):
            model = LowRankClassifier(random_state=0, device=where)
            began = time.perf_counter()
            model.fit(data.X, data.labels)
            times.append(time.perf_counter() - began)
            gaps.append(model.relative_gap_)
        on_cpu, there, again = times
        picked = "the CPU" if backend_for("auto", data.labels, Logistic()) is None else "the GPU"
        best = "the CPU" if on_cpu < there else "the GPU"
        yield Line(
            "a default fit",
            str(data),
            there,
            on_cpu / there,
            "x faster than the CPU",
            "auto picks the faster",
            picked == best,
            note=f"a second one {again:.1f} s; CPU {on_cpu:.1f} s; auto picks {picked}; "
            f"gaps {gaps[0]:.0e} and {gaps[1]:.0e}",
        )


def decisions(device: Any, bounds: GpuBounds, quick: bool) -> Iterator[Line]:
    """The decisions of the same problem solved on the device and on the CPU."""
    if not os.environ.get("LABELGAP_DATA"):
        yield Line("the same decisions", note="LABELGAP_DATA is not set, so there are no data sets")
        return
    for name in SIX[:1] if quick else SIX:
        data = load_multilabel(name)
        is_small = sp.issparse(data.X) and data.X.shape[1] < 1000
        X = data.X.toarray() if is_small else data.X
        rng = np.random.default_rng(0)
        rows = np.arange(data.Y.shape[0]) if data.train is None else data.train
        Y = data.Y[rows].toarray().astype(float)
        Y[rng.random(Y.shape) > 0.2] = np.nan
        labels, X = ObservedLabels.from_dense(Y), X[rows]
        n_observed = labels.n_observed
        # Penalties of the usual size, given, and a small gap: then there is one optimum to agree on.
        settings: dict[str, Any] = {
            "trace_penalty": 0.1 / n_observed**0.5,
            "ridge_penalty": 1.0 / n_observed,
            "intercept_penalty": 0.0,
            "feature_scaling": "none" if sp.issparse(X) else "standard",
            "threshold": "train",
            "tol": 1e-8,
            "max_iter": 2000,
        }
        models = [LowRankClassifier(device=where, **settings) for where in ("cpu", name_of(device))]
        began = time.perf_counter()
        plain, moved = (model.fit(X, labels) for model in models)
        took = time.perf_counter() - began
        one, other = plain.predict(X, output="dense"), moved.predict(X, output="dense")
        differ = one != other
        away = np.abs(plain.decision_function(X) - plain.threshold_)
        beyond = int(np.sum(differ & (away > 1e-4)))
        yield Line(
            "the same decisions",
            f"{name}: {X.shape[0]:,} x {labels.shape[1]}",
            took,
            target="none differ beyond 1e-4 of θ",
            met=beyond == 0,
            note=f"{int(differ.sum())} of {differ.size:,} differ, {beyond} of them beyond 1e-4 of θ; gaps "
            f"{plain.relative_gap_:.0e} and {moved.relative_gap_:.0e}",
        )
