"""Labels from sparse features at 20 % observed: time to equal held-out log-loss, against three rivals.

Bibtex and Corel5k are read from the folder that ``LABELGAP_DATA`` names.
Each rival fits one logistic regression per label, to several tolerances. Its target is its best log-loss on
the labels of the test rows and a thousandth more; its time is that of its fastest tolerance that gets there.
labelgap's time for the same target is that of its own fastest tolerance there, the whole ``fit`` included (a
rival's time leaves out the selection of each label's rows). All settings were chosen on a fifth of the
observed labels, by
``python -m benchmarks.features_fit``.

On Bibtex there are two more figures: the whole default fit, with its choice of the penalties and its
threshold from out-of-fold scores, and fits with given penalties to a duality gap of 1e-3, both as multiples
of one pass of ``LogisticRegression`` (lbfgs, C = 1) over the labels.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.feature_sets import FeatureSet, generate, log_loss, read
from benchmarks.harness import Line, Options, Report, pin_threads, seconds, take_turns
from benchmarks.machine import measure_bounds
from benchmarks.rivals import libmultilabel_linear, sklearn_logistic
from labelgap.labels import ObservedLabels

LABELGAP = "labelgap"
LBFGS, LIBLINEAR = "scikit-learn (lbfgs)", "scikit-learn (liblinear)"
# A target is this much above the best that a rival reaches.
SLACK = 1.001
TOLERANCES = (0.3, 0.1, 0.03, 0.01, 1e-3)
LIMIT, LIMIT_FIXED, LIMIT_DEFAULT = 1.0, 3.0, 10.0
# λ as a fraction of λ_max (where W = 0), and λ₂ as the C of scikit-learn with the same strength (None: 0).
FIXED = ((0.25, None), (0.1, None), (0.1, 10.0), (0.05, None), (0.05, 30.0), (0.03, 30.0), (0.01, 30.0))
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
FRACTIONS = (0.4, 0.2, 0.1, 0.05, 0.02)


@dataclass(frozen=True)
class Choice:
    """The settings that were chosen: C of the rivals, labelgap's fraction of λ_max, and C of its ridge."""

    C: float
    fraction: float
    ridge_C: float


@dataclass(frozen=True)
class Contender:
    """A rival as a function of C and a tolerance, with its tolerances from the loosest to the tightest."""

    name: str
    module: Any
    tolerances: tuple[float, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


CONTENDERS = (
    Contender(LIBLINEAR, sklearn_logistic, (1.0, 0.1, 0.01, 1e-4), {"solver": "liblinear"}),
    Contender(LBFGS, sklearn_logistic, (0.1, 0.01, 1e-3, 1e-4), {"solver": "lbfgs"}),
    Contender(libmultilabel_linear.NAME, libmultilabel_linear, (1.0, 0.1, 0.01)),
)
# From `python -m benchmarks.features_fit`, for the generated set from a part of its grid.
CHOSEN = {
    "bibtex": Choice(10.0, 0.05, 100.0),
    "corel5k": Choice(3.0, 0.2, 10.0),
    "generated": Choice(3.0, 0.2, 100.0),
}
QUICK_SIZE = {"n_train": 600, "n_test": 200, "n_features": 60, "n_labels": 40}


@dataclass
class Climb:
    """The log-loss and time of a method at each of its tolerances."""

    tolerances: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.losses)

    def fastest_at(self, target: float) -> float | None:
        """The tolerance that reaches the target in the least time."""
        there = [
            (s, t)
            for s, t, loss in zip(self.seconds, self.tolerances, self.losses, strict=True)
            if loss <= target
        ]
        return min(there)[1] if there else None


def fit_labelgap(X: Any, labels: ObservedLabels, trace: float, ridge: float, tol: float) -> Any:
    """The call of labelgap that is timed, threshold included."""
    from labelgap import LowRankClassifier
    from labelgap.exceptions import LabelgapWarning

    model = LowRankClassifier(
        trace_penalty=trace,
        ridge_penalty=ridge,
        intercept_penalty=0.0,
        threshold="train",
        tol=tol,
    )
    with warnings.catch_warnings():
        # Some labels have one class only.
        warnings.simplefilter("ignore", LabelgapWarning)
        return model.fit(X, labels)


def largest_penalty(X: Any, labels: ObservedLabels) -> float:
    """λ_max, above which W = 0."""
    from labelgap.fitting.penalty_grid import largest_trace_penalty
    from labelgap.losses import get_loss
    from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
    from labelgap.objective.problem import Problem

    settings = ProblemSettings(get_loss("logistic"), FeatureSettings(centre=True))
    problem = Problem([RowBlock(X, labels)], settings)
    return largest_trace_penalty(problem.objective(labels))


def ridge_for(C: float | None, labels: ObservedLabels) -> float:
    """λ₂ of the same strength as scikit-learn's C: labelgap's loss is a mean, scikit-learn's a sum."""
    return 0.0 if C is None else 1.0 / (C * labels.n_observed)


def climb(fit: Callable[[float], Any], loss: Callable[[Any], float], tolerances: Sequence[float]) -> Climb:
    """Fit to each tolerance once."""
    reached = Climb()
    for tol in tolerances:
        models: list[Any] = []
        reached.seconds.append(seconds(lambda tol=tol, models=models: models.append(fit(tol))))
        reached.tolerances.append(tol)
        reached.losses.append(loss(models[0]))
    return reached


def measure(data: FeatureSet, choice: Choice, options: Options) -> tuple[list[Line], dict[str, Any]]:
    """All rivals on one data set."""
    trace = choice.fraction * largest_penalty(data.X, data.labels)
    ours = partial(fit_labelgap, data.X, data.labels, trace, ridge_for(choice.ridge_C, data.labels))
    ours(TOLERANCES[0])  # compiles
    fits: dict[str, Callable[[float], Any]] = {LABELGAP: ours}
    climbs = {
        LABELGAP: climb(
            ours, lambda model: log_loss(model.decision_function(data.X_test), data.Y_test), TOLERANCES
        )
    }
    for contender in CONTENDERS:
        module = contender.module
        if module.unavailable() is None:
            fit = rival_fit(contender, module.prepare(data.X, data.labels), choice.C, options.threads)
            fits[contender.name] = fit
            climbs[contender.name] = climb(
                fit, lambda m, module=module: log_loss(module.scores(m, data.X_test), data.Y_test),
                contender.tolerances,
            )  # fmt: skip
    medians = _medians(climbs, fits, options.repeats)
    details = {
        "curves": {
            name: {"tolerances": c.tolerances, "log-loss": c.losses, "seconds": c.seconds}
            for name, c in climbs.items()
        },
        "medians": {f"{name} {tol:g}": median for (name, tol), median in medians.items()},
    }
    return _lines(data, climbs, medians), details


def rival_fit(contender: Contender, prepared: Any, C: float, threads: int) -> Callable[[float], Any]:
    """The timed call of a rival, as a function of its tolerance."""
    return lambda tol: contender.module.fit(prepared, C=C, tol=tol, threads=threads, **contender.settings)


def _medians(
    climbs: Mapping[str, Climb], fits: Mapping[str, Callable[[float], Any]], repeats: int
) -> dict[tuple[str, float], float]:
    """Median times of the fits that count; they run alternately, and each has run before."""
    counting: dict[str, tuple[str, float]] = {}
    for name, reached in climbs.items():
        if name == LABELGAP:
            continue
        for who in (name, LABELGAP):
            tol = climbs[who].fastest_at(SLACK * reached.best)
            if tol is not None:
                counting[f"{who} {tol:g}"] = (who, tol)
    found = take_turns(
        {key: partial(fits[who], tol) for key, (who, tol) in counting.items()}, repeats, warm_up=False
    )
    return {counting[key]: median for key, median in found.items()}


def _lines(
    data: FeatureSet, climbs: Mapping[str, Climb], medians: Mapping[tuple[str, float], float]
) -> list[Line]:
    ours, lines = climbs[LABELGAP], []
    rivals: dict[str, tuple[float, float]] = {}
    for name, reached in climbs.items():
        if name == LABELGAP:
            continue
        goal = SLACK * reached.best
        tol = reached.fastest_at(goal)
        assert tol is not None
        rivals[name] = (medians[name, tol], goal)
        note = f"tolerance {tol:g}, best {reached.best:.5f}"
        lines.append(Line(f"{name} to {goal:.5f}", str(data), medians[name, tol], note=note))
    fastest = min(rivals, key=lambda name: rivals[name][0], default=None)
    for name, (rival_seconds, goal) in rivals.items():
        target = "≤ 1" if name == fastest else ""
        own_tol = ours.fastest_at(goal)
        if own_tol is None:
            met = False if target else None
            note = f"not reached: best {ours.best:.5f}"
            lines.append(
                Line(f"labelgap to {goal:.5f}", str(data), None, None, f"x {name}", target, met, note=note)
            )
            continue
        own = medians[LABELGAP, own_tol]
        ratio = own / rival_seconds
        met = ratio <= LIMIT if target else None
        note = f"gap {own_tol:g}, best {ours.best:.5f}" + (", the fastest rival" if target else "")
        lines.append(
            Line(f"labelgap to {goal:.5f}", str(data), own, ratio, f"x {name}", target, met, note=note)
        )
    return lines


def measure_passes(data: FeatureSet, options: Options) -> list[Line]:
    """The default fit and fits with given penalties, as multiples of one pass over the labels by lbfgs."""
    from labelgap import LowRankClassifier

    X, labels = data.X, data.labels
    prepared, largest = sklearn_logistic.prepare(X, labels), largest_penalty(X, labels)
    jobs: dict[str, Callable[[], Any]] = {
        "pass": lambda: sklearn_logistic.fit(prepared, solver="lbfgs", threads=options.threads),
        "default": lambda: LowRankClassifier(random_state=0).fit(X, labels),
    }
    for fraction, C in FIXED:
        jobs[f"λ = {fraction:g} λ_max, λ₂ = {'0' if C is None else f'1/({C:g}|Ω|)'}"] = partial(
            fit_labelgap, X, labels, fraction * largest, ridge_for(C, labels), 1e-3
        )
    medians = take_turns(jobs, options.repeats)
    one_pass = medians.pop("pass")
    lines = [Line("scikit-learn, one pass by lbfgs", str(data), one_pass, note="C = 1, default tolerance")]
    for name, took in medians.items():
        what, limit = f"labelgap to a gap of 1e-3, {name}", LIMIT_FIXED
        if name == "default":
            what, limit = "labelgap, whole default fit", LIMIT_DEFAULT
        ratio = took / one_pass
        lines.append(
            Line(what, str(data), took, ratio, "x one pass by lbfgs", f"≤ {limit:g}", ratio <= limit)
        )
    return lines


def data_sets(quick: bool) -> tuple[list[FeatureSet], list[str]]:
    """The data sets that are available, and remarks about the others."""
    from labelgap.exceptions import InvalidInputError

    if quick:
        return [generate(**QUICK_SIZE)], []
    found, remarks = [], []
    for name in ("bibtex", "corel5k"):
        try:
            found.append(read(name))
        except InvalidInputError as error:
            remarks.append(f"{name} is left out: {error}")
    remarks.append("The set of the size of Delicious is generated, by benchmarks/feature_sets.py.")
    return [*found, generate()], remarks


def run(options: Options) -> Report:
    """All data sets against all rivals that are installed."""
    report = Report(
        "features_fit",
        "Labels from sparse features, 20 % observed",
        "Time to the held-out log-loss that each rival reaches at best (and 0.1 % more), over all labels of "
        "the test rows; strengths chosen on a fifth of the observed labels. labelgap's time is that of its "
        "whole fit, a rival's that of the fits of the labels.",
        bounds=measure_bounds(options.threads),
    )
    found, remarks = data_sets(options.quick)
    for data in found:
        lines, details = measure(data, CHOSEN[data.name], options)
        report.lines += lines
        report.details[str(data)] = details
        if data.name == "bibtex":
            report.lines += measure_passes(data, options)
    reasons = {contender.module.unavailable() for contender in CONTENDERS}
    report.remarks += remarks + sorted(reason for reason in reasons if reason)
    return report


def choose(data: FeatureSet) -> None:
    """Print the validation log-loss of the strengths in the grids."""
    train, held = data.validation_parts()

    def loss(scores: Any) -> float:
        return log_loss(scores[held.rows, held.cols], held.values)

    prepared = sklearn_logistic.prepare(data.X, train)
    for C in STRENGTHS:
        model = sklearn_logistic.fit(prepared, solver="liblinear", C=C)
        print(f"scikit-learn C = {C:<5g} {loss(sklearn_logistic.scores(model, data.X)):.5f}", flush=True)
    largest = largest_penalty(data.X, train)
    for fraction, C in itertools.product(FRACTIONS, STRENGTHS):
        fitted = fit_labelgap(data.X, train, fraction * largest, ridge_for(C, train), 0.01)
        found = loss(fitted.decision_function(data.X))
        print(f"labelgap λ = {fraction:<4g} λ_max, C = {C:<5g} {found:.5f} rank {fitted.rank_}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Choose the settings on validation entries; ``python -m benchmarks features`` measures with them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a small problem, to see that it works")
    given = parser.parse_args(arguments)
    pin_threads(given.threads)
    for data in data_sets(given.quick)[0]:
        print(f"== {data}", flush=True)
        choose(data)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
