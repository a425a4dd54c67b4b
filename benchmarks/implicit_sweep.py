"""Likes and silence with the squared loss: time of one sweep against implicit's alternating least squares.

Run ``python -m benchmarks.implicit_sweep [--threads T] [--repeats R] [--quick]``. A sweep updates all users
and all items once. Its time is half the difference between fits of three sweeps and of one, so that what a
fit does once (reading, transposing, the threshold) is left out on both sides.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.generated_answers import Answers, make_likes
from benchmarks.harness import Line, Options, Report, pin_threads, seconds
from benchmarks.machine import Bounds, measure_bounds
from benchmarks.rivals import implicit_als

RANKS = (32, 64)
SIZES = (((6040, 3952), 1_000_000), ((50_000, 20_000), 10_000_000))
QUICK_SIZES = (((600, 400), 20_000),)
LIMIT = 1.2
# λ times the number of pairs, as implicit's penalty is in units of the summed loss.
STRENGTH = 10.0
FEW, MORE = 1, 3


def labelgap_likes(likes: Answers) -> Any:
    """The likes as labelgap takes them."""
    from labelgap.labels import ObservedLabels

    labels = ObservedLabels.from_triplets(likes.users, likes.items, likes.values, shape=likes.shape)
    return ObservedLabels.from_any(labels, unobserved="unlabelled")


def fit_labelgap(likes: Any, rank: int, sweeps: int) -> Any:
    """The call of labelgap whose sweeps are timed."""
    from labelgap import Recommender
    from labelgap.exceptions import LabelgapWarning

    model = Recommender(
        unobserved="unlabelled",
        loss="squared",
        flip_rate=0.5,
        rank=rank,
        trace_penalty=STRENGTH / (likes.shape[0] * likes.shape[1]),
        score_bound=None,
        threshold="train",
        solver="alternating",
        # No early end: so many sweeps, not one less.
        tol=1e-12,
        max_iter=sweeps,
        random_state=0,
    )
    with warnings.catch_warnings():
        # So few sweeps do not converge.
        warnings.simplefilter("ignore", LabelgapWarning)
        model.fit(likes)
    if model.n_iter_ != sweeps:
        raise RuntimeError(f"the fit ended after {model.n_iter_} of {sweeps} sweeps; the times mean nothing")
    return model


def sweep_seconds(fit: Callable[[int], Any]) -> float:
    """The time of one sweep, from a long and a short fit."""
    return (seconds(lambda: fit(MORE)) - seconds(lambda: fit(FEW))) / (MORE - FEW)


def labelgap_sweep_seconds(likes: Any, rank: int) -> float:
    """The time of one of labelgap's sweeps."""
    return sweep_seconds(lambda sweeps: fit_labelgap(likes, rank, sweeps))


def rival_sweep_seconds(data: Any, rank: int, threads: int, conjugate_gradients: bool) -> float:
    """The time of one of implicit's iterations."""
    return sweep_seconds(
        lambda sweeps: implicit_als.fit(
            data, rank=rank, sweeps=sweeps, threads=threads, conjugate_gradients=conjugate_gradients
        )
    )


def least_seconds(likes: Answers, rank: int, bounds: Bounds) -> tuple[float, str]:
    """One sweep that forms and solves every row's own system, at the speed of a large product."""
    n_rows = sum(likes.shape)
    flops = 2.0 * len(likes) * (rank**2 + 4 * rank) + n_rows * (rank**3 / 3 + 4 * rank**2)
    return bounds.seconds(flops=flops, dtype=np.float32)


def measure(likes: Answers, rank: int, options: Options, bounds: Bounds) -> tuple[list[Line], dict[str, Any]]:
    """The lines of one size and rank; the jobs take turns."""
    own_likes = labelgap_likes(likes)
    jobs: dict[str, Callable[[], float]] = {"labelgap": lambda: labelgap_sweep_seconds(own_likes, rank)}
    if implicit_als.unavailable() is None:
        data = implicit_als.prepare(likes)
        jobs["implicit (ALS, conjugate gradients)"] = lambda: rival_sweep_seconds(
            data, rank, options.threads, True
        )
        jobs["implicit (ALS, Cholesky)"] = lambda: rival_sweep_seconds(data, rank, options.threads, False)
    fit_labelgap(own_likes, rank, 1)  # compiles
    runs = [{name: job() for name, job in jobs.items()} for _ in range(options.repeats)]
    times = {name: statistics.median(run[name] for run in runs) for name in jobs}
    own = times.pop("labelgap")
    size = f"{likes.shape[0]:,} x {likes.shape[1]:,}, {len(likes):,} likes, k = {rank}"
    least, bound = least_seconds(likes, rank, bounds)
    lines = [Line("labelgap, one sweep", size, own, bound_seconds=least, bound=bound)]
    for name, rival in times.items():
        lines.append(Line(f"{name}, one sweep", size, rival))
        judged = "gradients" in name
        lines.append(
            Line(
                "labelgap, one sweep",
                size,
                own,
                ratio=own / rival,
                against=name,
                target=f"≤ {LIMIT}" if judged else "",
                met=own / rival <= LIMIT if judged else None,
            )
        )
    return lines, {"runs": runs}


def run(options: Options) -> Report:
    """All sizes and ranks."""
    report = Report(
        "implicit_sweep",
        "Likes and silence, squared loss: one sweep",
        "Half the difference between fits of three sweeps and of one. implicit's default does three steps of "
        "conjugate gradients per row; its Cholesky variant solves each row's system.",
        bounds=measure_bounds(options.threads),
    )
    assert report.bounds is not None
    for shape, n_likes in QUICK_SIZES if options.quick else SIZES:
        likes = make_likes(shape, n_likes)
        for rank in RANKS:
            lines, details = measure(likes, rank, options, report.bounds)
            report.lines += lines
            report.details[lines[0].size] = details
    missing = implicit_als.unavailable()
    if missing:
        report.remarks.append(missing)
    return report


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; the number of targets that were missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small problem, to see that it works")
    given = parser.parse_args(arguments)
    pin_threads(given.threads)
    report = run(Options(given.repeats, given.quick, given.threads))
    for line in report.lines:
        ratio = "" if line.ratio is None else f"{line.ratio:6.2f} x {line.against} {line.target}"
        print(f"{line.size:50} {line.what:48} {line.seconds:8.4f} s {ratio}")
    print("\n".join(report.remarks))
    return sum(line.met is False for line in report.lines)


if __name__ == "__main__":
    raise SystemExit(main())
