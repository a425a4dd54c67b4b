"""1-bit matrix completion at rank 32: time to equal held-out log-loss, against four rivals.

Each method climbs its ladder of epochs or sweeps. The goal of a pair is the best held-out log-loss that both
of them reach, and a thousandth more; the time of each is that of its first rung there, with the whole of
labelgap's ``fit`` included. The first two sweeps of labelgap have fewer columns than 32, and a line says how
many the model has. All settings were chosen on validation ratings, by ``python -m
benchmarks.one_bit``.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.generated_ratings import Ratings, Split, dot_scores, log_loss, make_split
from benchmarks.harness import Line, Options, Report, pin_threads, seconds, take_turns
from benchmarks.machine import Bounds, measure_bounds
from benchmarks.rivals import OneBitRival, cmfrec_als, implicit_lmf, libmf_logistic, lightfm_logistic

RANK = 32
# A goal is this much above the best that both methods reach.
SLACK = 1.001
# A ladder ends early where the log-loss has risen by this much above its best.
OVERFITTED = 1.01
SWEEPS = (1, 2, 3, 4, 5, 6, 8, 12)
# What takes this many seconds is run once.
ONCE_FROM = 15.0
# How labelgap's penalty grows with the number of ratings; libmf's, cmfrec's and lightfm's do so too.
WEIGHTING = 0.75


@dataclass(frozen=True)
class Size:
    """How large a problem is, and the settings that were chosen for it."""

    shape: tuple[int, int]
    n_ratings: int
    settings: Mapping[str, Mapping[str, float]]
    """By the name of the rival. ``strength`` of labelgap is λ|Ω|."""
    ladders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shorter ones for rivals that take long."""

    def __str__(self) -> str:
        return f"{self.shape[0]:,} x {self.shape[1]:,}, {self.n_ratings:,} ratings"


@dataclass(frozen=True)
class Contender:
    """A rival with its ladder, the target for labelgap's time as a fraction of its own, and its grid."""

    module: OneBitRival
    ladder: tuple[int, ...]
    target: float
    grid: Mapping[str, tuple[float, ...]]


CONTENDERS = (
    Contender(
        libmf_logistic,
        (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24),
        1.0,
        {"ridge": (0.01, 0.015, 0.02, 0.03), "rate": (0.1, 0.15, 0.2)},
    ),
    Contender(
        implicit_lmf,
        (10, 20, 30, 50, 80),
        1 / 3,
        {"ridge": (0.6, 2.0, 5.0, 20.0), "rate": (0.3, 1.0, 2.0)},
    ),
    Contender(
        lightfm_logistic,
        (1, 2, 3, 4, 6, 8, 12),
        1 / 3,
        {"ridge": (0.0, 1e-6, 1e-5), "rate": (0.05, 0.1, 0.15)},
    ),
    Contender(cmfrec_als, (1, 2, 3, 4, 6, 8, 12), 1 / 3, {"ridge": (8.0, 10.0, 12.0, 14.0, 16.0, 20.0)}),
)
LABELGAP = "labelgap"
STRENGTHS = (7.0, 8.0, 9.0, 10.0, 12.0, 14.0)

# From `python -m benchmarks.one_bit --threads 2`, each rival on its own and not every grid as a whole.
MILLION = {
    LABELGAP: {"strength": 9.0},
    libmf_logistic.NAME: {"ridge": 0.02, "rate": 0.15},
    implicit_lmf.NAME: {"ridge": 5.0, "rate": 1.0},
    lightfm_logistic.NAME: {"ridge": 0.0, "rate": 0.1},
    cmfrec_als.NAME: {"ridge": 12.0},
}
# A pass of lightfm or LMF over ten million ratings takes long: they keep what was chosen for one million.
TEN_MILLION = MILLION | {
    LABELGAP: {"strength": 12.0},
    libmf_logistic.NAME: {"ridge": 0.015, "rate": 0.2},
    cmfrec_als.NAME: {"ridge": 16.0},
}
SIZES = (
    Size((6040, 3952), 1_000_000, MILLION),
    Size(
        (50_000, 20_000),
        10_000_000,
        TEN_MILLION,
        {implicit_lmf.NAME: (10, 30), lightfm_logistic.NAME: (1, 2, 4), cmfrec_als.NAME: (2, 4)},
    ),
)
QUICK_SIZES = (Size((600, 400), 30_000, MILLION),)


@dataclass
class Climb:
    """The log-loss and time of a method on the rungs of its ladder."""

    rungs: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    """Of labelgap's models; empty for the others, whose rank is fixed."""

    @property
    def best(self) -> float:
        return min(self.losses)

    def first_at(self, goal: float) -> int:
        """The lowest rung that reaches a goal, which is no better than the best."""
        return next(r for r, loss in zip(self.rungs, self.losses, strict=True) if loss <= goal)


def fit_labelgap(labels: Any, sweeps: int, strength: float) -> Any:
    """The call of labelgap that is timed: a Recommender by alternating minimisation, threshold included."""
    return fit_recommender(labels, strength, rank=RANK, solver="alternating", max_iter=sweeps)


def fit_recommender(labels: Any, strength: float, **settings: Any) -> Any:
    """A Recommender at one λ and weighting, with the threshold of the training scores."""
    from labelgap import Recommender
    from labelgap.exceptions import LabelgapWarning

    model = Recommender(
        trace_penalty=strength / labels.n_observed,
        ridge_penalty=0.0,
        count_weighting=WEIGHTING,
        threshold="train",
        random_state=0,
        **settings,
    )
    with warnings.catch_warnings():
        # The number of sweeps is what varies here, so a fit seldom converges; some items have no ratings.
        warnings.simplefilter("ignore", LabelgapWarning)
        return model.fit(labels)


def labelgap_labels(train: Ratings) -> Any:
    """The training ratings as labelgap takes them."""
    from labelgap.labels import ObservedLabels

    return ObservedLabels.from_triplets(train.users, train.items, train.values, shape=train.shape)


def labelgap_scores(model: Any, ratings: Ratings) -> NDArray[np.float64]:
    """Log-odds of a yes."""
    products = dot_scores(model.user_factors_, model.item_factors_, ratings)
    return products + np.asarray(model.item_intercept_)[ratings.items]


def calibration(scores: NDArray[np.float64], values: NDArray[np.int8]) -> tuple[float, float]:
    """Platt's slope and intercept: logistic regression of the ratings on the scores, by Newton's method."""
    scale = float(scores.std()) or 1.0
    features = np.column_stack([scores / scale, np.ones(len(scores))])
    found = np.zeros(2)
    for _ in range(30):
        p = expit(features @ found)
        slope = features.T @ (p - values)
        curvature = (features * (p * (1 - p))[:, None]).T @ features
        step = np.linalg.solve(curvature + 1e-9 * np.trace(curvature) * np.eye(2), slope)
        found -= step
        if np.abs(step).max() < 1e-8:
            break
    return float(found[0] / scale), float(found[1])


def rival_loss(rival: OneBitRival, model: Any, validation: Ratings, judged: Ratings) -> float:
    """The log-loss on ``judged``, after calibration on validation ratings where the scores need one.

    On the training ratings the scores are better than they are elsewhere, and the slope would be too steep.
    """
    scores = rival.scores(model, judged)
    if not rival.CALIBRATED:
        slope, intercept = calibration(rival.scores(model, validation), validation.values)
        scores = slope * scores + intercept
    return log_loss(scores, judged.values)


def climb(fit: Callable[[int], Any], loss: Callable[[Any], float], ladder: Sequence[int]) -> Climb:
    """Up the rungs until the log-loss is clearly past its best."""
    reached = Climb()
    for rung in ladder:
        models: list[Any] = []
        reached.seconds.append(seconds(lambda rung=rung, models=models: models.append(fit(rung))))
        reached.rungs.append(rung)
        reached.losses.append(loss(models[0]))
        if hasattr(models[0], "rank_"):
            reached.ranks.append(int(models[0].rank_))
        if reached.losses[-1] > OVERFITTED * reached.best:
            break
    return reached


def rival_fit(
    contender: Contender, data: Any, threads: int, settings: Mapping[str, float]
) -> Callable[[int], Any]:
    """The timed call of a rival, as a function of its epochs."""
    return lambda epochs: contender.module.fit(data, rank=RANK, epochs=epochs, threads=threads, **settings)


def measure(size: Size, options: Options, bounds: Bounds) -> tuple[list[Line], dict[str, Any]]:
    """All lines of one size, and the curves."""
    split = make_split(size.shape, size.n_ratings)
    labels = labelgap_labels(split.train)
    ours = partial(fit_labelgap, labels, **size.settings[LABELGAP])
    ours(1)  # compiles
    climbs = {
        LABELGAP: climb(
            ours, lambda m: log_loss(labelgap_scores(m, split.held_out), split.held_out.values), SWEEPS
        )
    }
    fits: dict[str, Callable[[int], Any]] = {LABELGAP: ours}
    for contender in CONTENDERS:
        rival = contender.module
        if rival.unavailable() is None:
            data = rival.prepare(split.train)
            fits[rival.NAME] = rival_fit(contender, data, options.threads, size.settings[rival.NAME])
            judge = partial(rival_loss, rival, validation=split.validation, judged=split.held_out)
            climbs[rival.NAME] = climb(
                fits[rival.NAME],
                lambda m, judge=judge: judge(model=m),
                size.ladders.get(rival.NAME, contender.ladder),
            )
    medians = _medians(climbs, fits, options.repeats)
    return _lines(size, climbs, medians, bounds), _details(split, climbs, medians)


def _goals(climbs: Mapping[str, Climb]) -> dict[str, float]:
    """For each rival, the log-loss that it and labelgap both reach."""
    own = climbs[LABELGAP].best
    return {name: SLACK * max(climb.best, own) for name, climb in climbs.items() if name != LABELGAP}


def _medians(
    climbs: Mapping[str, Climb], fits: Mapping[str, Callable[[int], Any]], repeats: int
) -> dict[tuple[str, int], float]:
    """Median times of the rungs that count; they run alternately, and each has run before."""
    rungs: dict[str, tuple[str, int]] = {}
    for name, target in _goals(climbs).items():
        for who in (name, LABELGAP):
            rung = climbs[who].first_at(target)
            rungs[f"{who} {rung}"] = (who, rung)
    first = {key: climbs[who].seconds[climbs[who].rungs.index(rung)] for key, (who, rung) in rungs.items()}
    jobs = {key: partial(fits[who], rung) for key, (who, rung) in rungs.items() if first[key] < ONCE_FROM}
    found = {**first, **take_turns(jobs, repeats, warm_up=False)}
    return {rungs[key]: median for key, median in found.items()}


def _lines(
    size: Size, climbs: Mapping[str, Climb], medians: Mapping[tuple[str, int], float], bounds: Bounds
) -> list[Line]:
    ours, lines = climbs[LABELGAP], []
    for contender in CONTENDERS:
        name = contender.module.NAME
        if name not in climbs:
            continue
        goal = _goals(climbs)[name]
        theirs, sweeps = climbs[name].first_at(goal), ours.first_at(goal)
        rival_seconds = medians[name, theirs]
        lines.append(
            Line(
                f"{name} to {goal:.4f}",
                str(size),
                rival_seconds,
                note=f"{theirs} epochs, best {climbs[name].best:.4f}",
            )
        )
        target = "≤ 1" if contender.target == 1 else f"≤ 1/{1 / contender.target:.0f}"
        own_seconds = medians[LABELGAP, sweeps]
        # Not every number of sweeps is a rung; a sweep has the columns of the next one.
        ranks = [ours.ranks[bisect_left(ours.rungs, sweep)] for sweep in range(1, sweeps + 1)]
        flops = sum(sweep_flops(size.n_ratings, rank) for rank in ranks)
        least, bound = bounds.seconds(flops=flops, dtype=np.float32)
        ratio = own_seconds / rival_seconds
        lines.append(
            Line(
                f"labelgap to {goal:.4f}",
                str(size),
                own_seconds,
                ratio=ratio,
                against=f"x {name}",
                target=target,
                met=ratio <= contender.target,
                bound_seconds=least,
                bound=bound,
                note=f"{sweeps} sweeps, rank {ranks[-1]}",
            )
        )
    best = ours.rungs[int(np.argmin(ours.losses))]
    own = ours.seconds[ours.rungs.index(best)]
    lines.append(
        Line(
            f"labelgap at its best, {ours.best:.4f}",
            str(size),
            own,
            note=f"{best} sweeps, rank {ours.ranks[ours.rungs.index(best)]}, one run",
        )
    )
    return lines


def sweep_flops(n_ratings: int, rank: int) -> float:
    """Operations of one sweep: a curvature and a few products of rank length per rating."""
    return 2.0 * n_ratings * (rank**2 + 4 * rank)


def _details(
    split: Split, climbs: Mapping[str, Climb], medians: Mapping[tuple[str, int], float]
) -> dict[str, Any]:
    return {
        "log-loss of the truth": split.true_log_loss,
        "curves": {
            name: {"rungs": climb.rungs, "log-loss": climb.losses, "seconds": climb.seconds}
            for name, climb in climbs.items()
        },
        "medians": {f"{name} {rung}": median for (name, rung), median in medians.items()},
    }


def run(options: Options) -> Report:
    """Both sizes against all rivals that are installed."""
    report = Report(
        "one_bit",
        "1-bit matrix completion, rank 32",
        "Time to the best held-out log-loss that labelgap and the rival both reach (and 0.1 % more), the "
        "fit alone; settings chosen on validation ratings. Scores that are not log-odds (LMF, cmfrec) are "
        "calibrated on the same ratings, which is not timed. Fits of more than 15 seconds are run once.",
        bounds=measure_bounds(options.threads),
    )
    assert report.bounds is not None
    for size in QUICK_SIZES if options.quick else SIZES:
        lines, details = measure(size, options, report.bounds)
        report.lines += lines
        report.details[str(size)] = details
    reasons = [contender.module.unavailable() for contender in CONTENDERS]
    report.remarks += [reason for reason in reasons if reason]
    return report


def choose(size: Size, threads: int, only: Sequence[str] = ()) -> None:
    """Print the best validation log-loss of every setting in the grids."""
    split = make_split(size.shape, size.n_ratings)
    judged = split.validation

    def show(name: str, settings: Mapping[str, float], reached: Climb) -> None:
        rung = reached.rungs[int(np.argmin(reached.losses))]
        took = reached.seconds[reached.rungs.index(rung)]
        print(f"{name:20} {settings} {reached.best:.4f} at {rung} ({took:.2f} s)", flush=True)

    if not only or LABELGAP in only:
        labels = labelgap_labels(split.train)
        for strength in STRENGTHS:
            fit = partial(fit_labelgap, labels, strength=strength)
            reached = climb(fit, lambda m: log_loss(labelgap_scores(m, judged), judged.values), SWEEPS)
            show(LABELGAP, {"strength": strength}, reached)
    for contender in CONTENDERS:
        rival = contender.module
        if rival.unavailable() is not None or (only and rival.NAME.split()[0] not in only):
            continue
        data = rival.prepare(split.train)
        judge = partial(rival_loss, rival, validation=split.validation, judged=judged)
        for values in itertools.product(*contender.grid.values()):
            settings = dict(zip(contender.grid, values, strict=True))
            fit = rival_fit(contender, data, threads, settings)
            show(rival.NAME, settings, climb(fit, lambda m, judge=judge: judge(model=m), contender.ladder))


def main(arguments: list[str] | None = None) -> int:
    """Choose the settings on validation ratings; ``python -m benchmarks one_bit`` measures with them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="methods to choose for; all if none")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a small problem, to see that it works")
    parser.add_argument("--size", type=int, choices=(0, 1), help="only the first or second size")
    given = parser.parse_args(arguments)
    pin_threads(given.threads)
    sizes = QUICK_SIZES if given.quick else SIZES if given.size is None else (SIZES[given.size],)
    for size in sizes:
        print(f"== {size}")
        choose(size, given.threads, given.names)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
