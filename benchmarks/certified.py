"""Fits that are certified to a duality gap, beside rivals whose results come with no such number.

``features``: labels from sparse features at 20 % observed, time to equal held-out log-loss, beside one
logistic regression per label by liblinear, lbfgs and LibMultiLabel. Each rival is fitted to several
tolerances. Its target is its best log-loss on the labels of the test rows and a thousandth more; its time is
that of its fastest tolerance that gets there. labelgap's time for the same target is that of its own fastest
gap there, the whole ``fit`` included (a rival's time leaves out the selection of each label's rows). The
strengths of all methods were chosen on a fifth of the observed labels. On Bibtex there are two more figures:
the whole default fit, and fits with given penalties to a gap of 1e-3, as multiples of one pass of
``LogisticRegression`` (lbfgs, C = 1) over the labels.

``ratings``: fits to a gap beside 30 epochs of LightFM; both predict the same held-out ratings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data, rivals
from benchmarks.data import FeatureSet, log_loss
from benchmarks.harness import Line, Options, Report, take_turns, timed
from labelgap import LowRankClassifier, Recommender
from labelgap.exceptions import LabelgapWarning
from labelgap.labels import ObservedLabels

LABELGAP, PASS = "labelgap", "pass"
# A target is this much above the best that a rival reaches.
SLACK = 1.001
TOLERANCES = (0.3, 0.1, 0.03, 0.01, 1e-3)
LIMIT, LIMIT_FIXED, LIMIT_DEFAULT = 1.0, 3.0, 10.0
# λ as a fraction of λ_max (where W = 0), and λ₂ as the C of scikit-learn with the same strength (None: 0).
FIXED = ((0.25, None), (0.1, None), (0.1, 10.0), (0.05, None), (0.05, 30.0), (0.03, 30.0), (0.01, 30.0))


class Choice(NamedTuple):
    """C of the rivals, labelgap's fraction of λ_max, and C of its ridge; chosen on observed labels."""

    C: float
    fraction: float
    ridge_C: float


CHOSEN = {
    "bibtex": Choice(10.0, 0.05, 100.0),
    "corel5k": Choice(3.0, 0.2, 10.0),
    "generated": Choice(3.0, 0.2, 100.0),
}
# Tolerances from the loosest to the tightest, and scikit-learn's solver.
CONTENDERS = {
    "scikit-learn (liblinear)": ((1.0, 0.1, 0.01, 1e-4), "liblinear"),
    "scikit-learn (lbfgs)": ((0.1, 0.01, 1e-3, 1e-4), "lbfgs"),
    "libmultilabel (linear)": ((1.0, 0.1, 0.01), None),
}


@dataclass
class Climb:
    """The log-loss and time of a method at each of its tolerances."""

    fit: Callable[[float], Any]
    tolerances: Sequence[float]
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def reach(self, loss: Callable[[Any], float]) -> Climb:
        """Fit to each tolerance once."""
        for tol in self.tolerances:
            took, model = timed(partial(self.fit, tol))
            self.seconds.append(took)
            self.losses.append(loss(model))
        return self

    def fastest_at(self, goal: float) -> float | None:
        """The tolerance that reaches the goal in the least time."""
        pairs = zip(self.seconds, self.tolerances, self.losses, strict=True)
        return min(((s, t) for s, t, loss in pairs if loss <= goal), default=(0.0, None))[1]


def fit_labelgap(X: Any, labels: ObservedLabels, trace: float, ridge: float, tol: float) -> LowRankClassifier:
    """The call of labelgap that is timed, threshold included."""
    model = LowRankClassifier(
        trace_penalty=trace, ridge_penalty=ridge, intercept_penalty=0.0, threshold="train", tol=tol
    )
    with warnings.catch_warnings():
        # Some labels have one class only.
        warnings.simplefilter("ignore", LabelgapWarning)
        return model.fit(X, labels)


def largest_penalty(X: Any, labels: ObservedLabels) -> float:
    """λ_max, above which W = 0: the norm of the gradient there, for features that are centred."""
    Y, known = np.zeros(labels.shape), np.zeros(labels.shape)
    Y[labels.rows, labels.cols], known[labels.rows, labels.cols] = labels.values, 1.0
    slopes = known * (Y.sum(axis=0) / np.maximum(known.sum(axis=0), 1)) - Y
    gradient = X.T @ slopes - np.outer(np.asarray(X.mean(axis=0)).ravel(), slopes.sum(axis=0))
    return float(np.linalg.norm(gradient, 2)) / labels.n_observed


def ridge_for(C: float | None, labels: ObservedLabels) -> float:
    """λ₂ of the same strength as scikit-learn's C: labelgap's loss is a mean, scikit-learn's a sum."""
    return 0.0 if C is None else 1.0 / (C * labels.n_observed)


def climbs_of(one: FeatureSet, labels: ObservedLabels, options: Options) -> dict[str, Climb]:
    """labelgap and all rivals that are installed, on one data set."""
    chosen = CHOSEN[one.name]
    trace = chosen.fraction * largest_penalty(one.X, labels)
    ours = partial(fit_labelgap, one.X, labels, trace, ridge_for(chosen.ridge_C, labels))
    ours(TOLERANCES[0])  # Compiles.
    found = {
        LABELGAP: Climb(ours, TOLERANCES).reach(
            lambda model: log_loss(model.decision_function(one.X_test), one.Y_test)
        )
    }
    by_label = rivals.rows_by_label(one.X, labels)
    for name, (tolerances, solver) in CONTENDERS.items():
        if solver is None and rivals.missing("libmultilabel"):
            continue
        settings: dict[str, Any] = {"C": chosen.C, "threads": options.threads}
        if solver is None:
            fit = partial(rivals.liblinear, rivals.liblinear_problems(one.X, labels), **settings)
        else:
            fit = partial(rivals.regressions, by_label, solver=solver, **settings)
        found[name] = Climb(lambda tol, fit=fit: fit(tol=tol), tolerances).reach(
            lambda model: log_loss(model.scores(one.X_test), one.Y_test)
        )
    return found


def lines_of(size: str, climbs: Mapping[str, Climb], repeats: int) -> list[Line]:
    """Each rival, and labelgap to the same goal; the fits that count run alternately."""
    goals = {name: SLACK * min(climb.losses) for name, climb in climbs.items() if name != LABELGAP}
    at = {(who, name): climbs[who].fastest_at(goals[name]) for name in goals for who in (name, LABELGAP)}
    jobs = {f"{who} {tol}": partial(climbs[who].fit, tol) for (who, _), tol in at.items() if tol is not None}
    medians = take_turns(jobs, repeats, warm_up=False)
    rival_seconds = {name: medians[f"{name} {at[name, name]}"] for name in goals}
    fastest = min(rival_seconds, key=rival_seconds.__getitem__)
    lines = []
    for name, goal in goals.items():
        note = f"tolerance {at[name, name]:g}, best {min(climbs[name].losses):.5f}"
        lines.append(Line(f"{name} to {goal:.5f}", size, rival_seconds[name], note=note))
    for name, goal in goals.items():
        tol, best = at[LABELGAP, name], f"best {min(climbs[LABELGAP].losses):.5f}"
        own = None if tol is None else medians[f"{LABELGAP} {tol}"]
        ratio = None if own is None else own / rival_seconds[name]
        note = f"not reached: {best}" if tol is None else f"gap {tol:g}, {best}"
        target, met = "", None
        if name == fastest:
            target, met = "≤ 1", ratio is not None and ratio <= LIMIT
            note += ", the fastest rival"
        lines.append(Line(f"labelgap to {goal:.5f}", size, own, ratio, f"x {name}", target, met, note=note))
    return lines


def pass_lines(one: FeatureSet, labels: ObservedLabels, options: Options) -> list[Line]:
    """The default fit and fits with given penalties, as multiples of one pass over the labels by lbfgs."""
    prepared, largest = rivals.rows_by_label(one.X, labels), largest_penalty(one.X, labels)
    jobs: dict[str, Callable[[], Any]] = {
        PASS: lambda: rivals.regressions(prepared, solver="lbfgs", threads=options.threads),
        "labelgap, whole default fit": lambda: LowRankClassifier(random_state=0).fit(one.X, labels),
    }
    for fraction, C in FIXED:
        name = f"λ = {fraction:g} λ_max, λ₂ = {'0' if C is None else f'1/({C:g}|Ω|)'}"
        jobs[f"labelgap to a gap of 1e-3, {name}"] = partial(
            fit_labelgap, one.X, labels, fraction * largest, ridge_for(C, labels), 1e-3
        )
    medians = take_turns(jobs, options.repeats)
    alone = medians.pop(PASS)
    lines = [Line("scikit-learn, one pass by lbfgs", str(one), alone, note="C = 1, default tolerance")]
    for name, took in medians.items():
        ratio, limit = took / alone, LIMIT_DEFAULT if "default" in name else LIMIT_FIXED
        against = "x one pass by lbfgs"
        lines.append(Line(name, str(one), took, ratio, against, f"≤ {limit:g}", ratio <= limit))
    return lines


def features(options: Options) -> Report:
    """All data sets against all rivals that are installed."""
    report = Report(
        "features",
        "Labels from sparse features, 20 % observed",
        "Time to the held-out log-loss that each rival reaches at best (and 0.1 % more), over all labels of "
        "the test rows; strengths chosen on a fifth of the observed labels. labelgap's time is that of its "
        "whole fit, a rival's that of the fits of the labels.",
        remarks=["The set of the size of Delicious is generated, by benchmarks/data.py."],
    )
    absent = rivals.missing("libmultilabel")
    report.remarks += [absent] if absent else []
    for name in ("generated",) if options.quick else CHOSEN:
        try:
            sizes = (600, 200, 60, 40) if options.quick else ()
            one = data.generate(*sizes) if name == "generated" else data.read(name)
        except FileNotFoundError as error:
            report.remarks.append(f"{name} is left out: {error}")
            continue
        labels = ObservedLabels.from_dense(one.Y)
        climbs = climbs_of(one, labels, options)
        report.lines += lines_of(str(one), climbs, options.repeats)
        if name == "bibtex":
            report.lines += pass_lines(one, labels, options)
        options.store(report)
    return report


# -- ratings -----------------------------------------------------------------------------------------------

EPOCHS, RANK = 30, 32
# λ|Ω|, about what a default fit chooses at this size, and how the penalty grows with the number of ratings.
STRENGTH, WEIGHTING = 12.0, 0.75
# The relative gap, and the most time for it as a multiple of that of LightFM's epochs.
TARGETS = ((1e-2, 4.0), (1e-3, 10.0))


def ratings(options: Options) -> Report:
    """One size: that of MovieLens-1M."""
    report = Report(
        "certified",
        "Ratings, to a certified gap",
        f"One fit of a Recommender at λ|Ω| = {STRENGTH:g} and count_weighting={WEIGHTING:g}, with the solver "
        'that "auto" picks, to a relative duality gap; beside it '
        f"{EPOCHS} epochs of LightFM (logistic, {RANK} components). Log-loss of held-out ratings.",
    )
    shape, n = ((600, 400), 30_000) if options.quick else ((6040, 3952), 1_000_000)
    train, held = data.make_ratings(shape, n, n // 10)
    labels = ObservedLabels.from_triplets(train.users, train.items, train.values, shape=shape)
    size = f"{shape[0]:,} x {shape[1]:,}, {n:,} ratings"
    found: dict[str, Any] = {}

    def fit(gap: float) -> None:
        found[f"{gap:g}"] = Recommender(
            trace_penalty=STRENGTH / n,
            ridge_penalty=0.0,
            count_weighting=WEIGHTING,
            threshold="train",
            random_state=0,
            tol=gap,
        ).fit(labels)

    def lightfm() -> None:
        found["lightfm"] = rivals.lightfm(train, rank=RANK, epochs=EPOCHS, threads=options.threads)

    jobs: dict[str, Callable[[], None]] = {f"{gap:g}": partial(fit, gap) for gap, _ in TARGETS}
    absent = rivals.missing("lightfm")
    if absent is None:
        jobs["lightfm"] = lightfm
    else:
        report.remarks.append(absent)
    with warnings.catch_warnings():
        # Some items have no ratings.
        warnings.simplefilter("ignore", LabelgapWarning)
        fit(0.3)  # Compiles.
        seconds = take_turns(jobs, options.repeats, warm_up=False)
    if absent is None:
        loss = log_loss(rivals.lightfm_scores(found["lightfm"], held), held.values)
        note = f"log-loss {loss:.4f}"
        report.lines.append(Line(f"LightFM, {EPOCHS} epochs", size, seconds["lightfm"], note=note))
    for gap, most in TARGETS:
        model, own = found[f"{gap:g}"], seconds[f"{gap:g}"]
        scores = data.dot_scores(model.user_factors_, model.item_factors_, held)
        loss = log_loss(scores + np.asarray(model.item_intercept_)[held.items], held.values)
        note = f"gap {model.relative_gap_:.1e}, rank {model.rank_}, log-loss {loss:.4f}"
        compared: dict[str, Any] = {}
        if absent is None:
            ratio = own / seconds["lightfm"]
            compared = {"ratio": ratio, "against": f"x {EPOCHS} epochs of LightFM", "target": f"≤ {most:g}"}
            compared["met"] = ratio <= most
        report.lines.append(Line(f"labelgap to a gap of {gap:g}", size, own, **compared, note=note))
    return report
