"""How time and memory of a fit grow while |Ω|, n, L, d and k double five times each.

Every point is a process of its own: it reads its input, fits a few times, and reports the median time and the
peak of its memory. Slopes are those of a line through the logarithms: 1 is proportional. |Ω|, n, L and k grow
in matrix completion (five sweeps of the alternating solver), d in a fit with sparse features (the default
solver to a fixed number of steps). Three more cases are measured for their memory alone: a fit with dense
features that chooses its penalties, ten million generated ratings, and the default fit of ten million likes
for lists. ``python -m benchmarks.growth "10 million likes, default fit"`` measures one of them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.generated_ratings import make_split
from benchmarks.harness import Line, Options, Report
from benchmarks.list_fit import choices

DOUBLINGS = 5
SLOPE_LIMIT, MEMORY_LIMIT = 1.1, 3.0
SWEEPS, STEPS = 5, 20


@dataclass(frozen=True)
class Point:
    """One size of a problem."""

    setting: str
    n: int
    n_labels: int
    entries: int
    k: int
    d: int = 0

    def grown(self, what: str, factor: int) -> Point:
        fields = {"|Ω|": "entries", "n": "n", "L": "n_labels", "k": "k", "d": "d"}
        return Point(**{**self.__dict__, fields[what]: getattr(self, fields[what]) * factor})


STARTS = {
    "|Ω|": Point("completion", 20_000, 10_000, 250_000, 16),
    "n": Point("completion", 10_000, 5_000, 2_000_000, 16),
    "L": Point("completion", 20_000, 2_500, 2_000_000, 16),
    "k": Point("completion", 20_000, 10_000, 1_000_000, 4),
    "d": Point("features", 50_000, 50, 1_000_000, 8, 250),
}
# Their memory alone is of interest.
CASES = {
    "dense features, default fit": Point("dense", 200_000, 50, 2_000_000, 0, 200),
    "10 million ratings": Point("ratings", 70_000, 10_000, 10_000_000, 32),
    "10 million likes, default fit": Point("likes", 50_000, 10_000, 10_000_000, 0),
}
QUICK_CASES = {
    "dense features, default fit": Point("dense", 400, 10, 800, 0, 10),
    "10 million ratings": Point("ratings", 500, 300, 10_000, 4),
    "10 million likes, default fit": Point("likes", 200, 150, 4_000, 0),
}
QUICK = {
    "|Ω|": Point("completion", 500, 300, 2_000, 4),
    "n": Point("completion", 100, 300, 10_000, 4),
    "L": Point("completion", 500, 60, 10_000, 4),
    "k": Point("completion", 500, 300, 10_000, 1),
    "d": Point("features", 300, 10, 1_000, 4, 20),
}


def make_input(point: Point, path: Path) -> None:
    """A long table of ratings, as it is read from a file, and features where there are any."""
    if point.setting == "dense":
        make_dense(point, path)
        return
    if point.setting == "ratings":
        made = make_split((point.n, point.n_labels), point.entries, held_out=0.0).train
        users, items = made.users.astype(np.int64), made.items.astype(np.int64)
        np.savez(path, rows=users, columns=items, values=made.values.astype(np.float64))
        return
    if point.setting == "likes":
        users, items = choices((point.n, point.n_labels), point.entries, np.random.default_rng(0))
        np.savez(path, rows=users, columns=items)
        return
    rng = np.random.default_rng(0)
    pairs = point.n * point.n_labels
    chosen = rng.choice(pairs, point.entries, replace=False) if pairs < 1e8 else _some(pairs, point, rng)
    rows, columns = np.divmod(chosen, point.n_labels)
    values = (rng.random(len(chosen)) < 0.4).astype(np.float64)
    arrays = {"rows": rows, "columns": columns, "values": values}
    if point.d:
        # Ten features a row whatever d is, so that only d grows.
        arrays |= {"features": rng.integers(0, point.d, (point.n, 10), dtype=np.int32)}
    np.savez(path, **arrays)


def make_dense(point: Point, path: Path) -> None:
    """Dense features, and a matrix of labels with NaN where nothing is observed; of rank 6 in truth."""
    rng = np.random.default_rng(0)
    n, n_labels, d = point.n, point.n_labels, point.d
    W = rng.standard_normal((d, 6)) @ rng.standard_normal((6, n_labels)) / np.sqrt(6 * d)
    X, Y = np.empty((n, d)), np.empty((n, n_labels))
    for start in range(0, n, 10_000):
        rows = slice(start, min(start + 10_000, n))
        X[rows] = rng.standard_normal(X[rows].shape)
        yes = rng.random(Y[rows].shape) < 1 / (1 + np.exp(1.6 - 2 * X[rows] @ W))
        hidden = rng.random(Y[rows].shape) > point.entries / (n * n_labels)
        Y[rows] = np.where(hidden, np.nan, yes)
    np.savez(path, features=X, labels=Y)


def _some(pairs: int, point: Point, rng: np.random.Generator) -> Any:
    """Distinct pairs out of very many: more are drawn than needed, and repetitions are dropped."""
    drawn = np.unique(rng.integers(0, pairs, int(1.1 * point.entries) + 100))
    return rng.choice(drawn, point.entries, replace=False)


def child(arguments: list[str]) -> int:
    """Fit one point in this process and print its time and memory."""
    import time
    import warnings

    path, setting, k, n, n_labels, d, repeats = arguments
    shape, width = (int(n), int(n_labels)), int(d)
    warnings.simplefilter("ignore")
    fits = {"features": fit_features, "dense": fit_dense, "likes": fit_likes}
    fit: Callable[..., int] = fits.get(setting, fit_completion)
    # Compiled before anything is measured: a small problem with as many columns, which decide on the kernels.
    fit(*_small_problem(setting, width), (400, 300), int(k))
    before = forget_peak()
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    labels, X = _given(arrays, setting, (shape[0], width))
    n_bytes = sum(array.nbytes for array in (labels if isinstance(labels, tuple) else (labels,)))
    if X is not None:
        n_bytes += X.nbytes if setting == "dense" else sum(a.nbytes for a in (X.data, X.indices, X.indptr))
    times = []
    for _ in range(int(repeats)):
        began = time.perf_counter()
        factors = fit(labels, X, shape, int(k))
        times.append(time.perf_counter() - began)
    used = status_bytes("VmHWM") - before
    found = {
        "seconds": statistics.median(times),
        "memory": used / (n_bytes + factors),
        "megabytes": used / 1e6,
    }
    print(json.dumps(found))
    return 0


def _small_problem(setting: str, width: int) -> tuple[Any, Any]:
    """400 rows and 300 labels."""
    rng = np.random.default_rng(0)
    if setting == "dense":
        X, Y = rng.standard_normal((400, width)), (rng.random((400, 300)) < 0.5).astype(float)
        Y[rng.random(Y.shape) < 0.8] = np.nan
        return Y[:, :50], X
    pairs = rng.choice(400 * 300, 6000, replace=False)
    if setting == "likes":
        return (pairs // 300, pairs % 300), None
    ratings = (pairs // 300, pairs % 300, (rng.random(6000) < 0.5).astype(float))
    return ratings, sp.random_array((400, 150), density=0.1, rng=0, format="csr")


def _given(arrays: dict[str, Any], setting: str, shape: tuple[int, int]) -> tuple[Any, Any]:
    """Labels and features as a user hands them in."""
    if setting == "dense":
        return arrays["labels"], arrays["features"]
    if setting == "likes":
        return (arrays["rows"], arrays["columns"]), None
    ratings = (arrays["rows"], arrays["columns"], arrays["values"])
    if setting != "features":
        return ratings, None
    columns = arrays["features"]
    pointers = np.arange(shape[0] + 1) * columns.shape[1]
    return ratings, sp.csr_array((np.ones(columns.size), columns.ravel(), pointers), shape=shape)


def fit_completion(ratings: Any, X: Any, shape: tuple[int, int], k: int) -> int:
    """A Recommender; returns the bytes of its factors."""
    from labelgap import Recommender

    model = Recommender(
        rank=k,
        trace_penalty=1e-9,
        solver="alternating",
        max_iter=SWEEPS,
        tol=1e-4,
        threshold="train",
        random_state=0,
    )
    model.fit(ratings)
    return int(model.user_factors_.nbytes + model.item_factors_.nbytes)


def fit_likes(likes: Any, X: Any, shape: tuple[int, int], k: int) -> int:
    """A Recommender for lists with all its defaults; returns the bytes of its factors."""
    from labelgap import Recommender

    model = Recommender(unobserved="negative", random_state=0).fit(likes)
    return int(model.user_factors_.nbytes + model.item_factors_.nbytes)


def fit_features(ratings: Any, X: Any, shape: tuple[int, int], k: int) -> int:
    """A LowRankClassifier; returns the bytes of its factors."""
    from labelgap import LowRankClassifier
    from labelgap.labels import ObservedLabels

    model = LowRankClassifier(
        trace_penalty=1e-4, ridge_penalty=1e-5, rank=k, max_iter=STEPS, tol=1e-6, threshold="train"
    )
    model.fit(X, ObservedLabels.from_triplets(*ratings, shape=shape))
    return int(model.coef_left_.nbytes + model.coef_right_.nbytes)


def fit_dense(labels: Any, X: Any, shape: tuple[int, int], k: int) -> int:
    """A LowRankClassifier with all its defaults; returns the bytes of its factors."""
    from labelgap import LowRankClassifier

    model = LowRankClassifier(random_state=0).fit(X, labels)
    return int(model.coef_left_.nbytes + model.coef_right_.nbytes)


def status_bytes(name: str) -> int:
    """Memory of this process from the operating system: VmRSS is the current value, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def forget_peak() -> int:
    """What the process holds now, from where on its peak is counted: compiling may have held more."""
    Path("/proc/self/clear_refs").write_text("5")
    return status_bytes("VmRSS")


def measure(point: Point, repeats: int) -> dict[str, float]:
    """One point in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input.npz"
        make_input(point, path)
        sizes = (point.k, point.n, point.n_labels, point.d, repeats)
        arguments = [str(path), point.setting, *map(str, sizes)]
        command = [sys.executable, "-m", "benchmarks.growth", *arguments]
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return found


def slope(sizes: list[float], values: list[float]) -> float:
    """The slope of a least-squares line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def run(options: Options) -> Report:
    """All five, with slopes, and the memory at the largest size of each."""
    report = Report(
        "growth",
        "Growth of time and memory",
        f"Medians of {options.repeats} fits, in a separate process for each size; five doublings. Memory is "
        "the peak above what the process held before it read the input, divided by the size of the input "
        "and the factors. The input is counted as it is handed in: ratings and sparse labels as a long table "
        "of two int64 columns and a float64 column, likes as the two int64 columns alone, sparse features as "
        "CSR, dense features and dense labels (NaN: not observed) as float64 arrays.",
    )
    for what, start in (QUICK if options.quick else STARTS).items():
        points = [start.grown(what, 2**step) for step in range(DOUBLINGS + 1)]
        found = [measure(point, options.repeats) for point in points]
        sizes = [float(2**step) for step in range(DOUBLINGS + 1)]
        rise = slope(sizes, [each["seconds"] for each in found])
        last = points[-1]
        size = f"n {last.n:,}, L {last.n_labels:,}, |Ω| {last.entries:,}, k {last.k}" + (
            f", d {last.d:,}" if last.d else ""
        )
        limited = what == "|Ω|"
        report.lines.append(
            Line(
                what=f"slope of the time in {what}",
                size=f"up to {size}",
                seconds=found[-1]["seconds"],
                ratio=rise,
                target=f"≤ {SLOPE_LIMIT:g}" if limited else "",
                met=rise <= SLOPE_LIMIT if limited else None,
            )
        )
        # Small problems are all overhead of the library itself.
        report.lines.append(memory_line(f"peak memory at the largest {what}", found[-1]))
        report.details[what] = [{**point.__dict__, **each} for point, each in zip(points, found, strict=True)]
    for what, point in (QUICK_CASES if options.quick else CASES).items():
        # A long fit, of which the memory is the same every time.
        once = measure(point, 1)
        report.lines.append(memory_line(f"peak memory of {what}", once))
        report.details[what] = [{**point.__dict__, **once}]
    return report


def memory_line(what: str, found: dict[str, float]) -> Line:
    """The peak as a multiple of the input and the factors."""
    memory = found["memory"]
    return Line(
        what=what,
        size=f"{found['megabytes']:,.0f} MB",
        ratio=memory,
        against="x input and factors",
        target=f"≤ {MEMORY_LIMIT:g}",
        met=memory <= MEMORY_LIMIT,
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(measure(CASES[sys.argv[1]], 1)))
    else:
        raise SystemExit(child(sys.argv[1:]))
