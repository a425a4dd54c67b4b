"""Whole jobs by the default, beside what a user would run instead: time and test metric side by side.

labelgap's calls are ``LowRankClassifier().fit(X, Y)``, ``Recommender().fit(ratings)``, and
``Recommender(unobserved="negative").fit(likes)`` with the lists of all users, with the choice of all settings
included.

- features: one logistic regression per label, tuned, as in the gate.
- ratings: LightFM with the logistic loss, 32 components and 30 epochs, with a threshold from a tenth of the
  ratings that it does not see.
- lists: one fit of implicit's ALS with 64 factors at its default, and at the best of several settings that
  were tried, by the likes that judge, which is kind to implicit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import data, gate, rivals
from benchmarks.harness import Line, Options, Report, peak_of, timed
from benchmarks.ranking import ndcg, split_likes, top_lists
from labelgap import LowRankClassifier, Recommender, best_threshold
from labelgap.exceptions import LabelgapWarning
from labelgap.labels import ObservedLabels

FEATURES, RATINGS = ("bibtex", "corel5k", "emotions", "scene", "yeast", "cal500"), ("jester5k", "coat")
RATING_SIZES = (((943, 1682), 100_000), ((6040, 3952), 1_000_000))
LIKES = (((943, 1682), 50_000), ((6040, 3952), 500_000), ((50_000, 10_000), 10_000_000))
# The best of 12 settings from (3, 1) to (300, 20), of 14 from (10, 1) to (3000, 60), and of four.
FOUND = dict(zip(LIKES, (50.0, 100.0, 200.0), strict=True))
SHOWN = 10


def defaults(options: Options) -> Report:
    """All data sets, once each: a user fits once."""
    report = Report(
        "defaults",
        "Whole default fits against what a user would run instead",
        "One fit each, with the choice of all settings and of the threshold, at 20 % of the labels observed. "
        "For features: one logistic regression per label (C of four by held-out labels). For ratings: "
        "LightFM (logistic, 32 components, 30 epochs). Test metric on labels or ratings that no method saw.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        for lines in (_feature_lines, _rating_lines):
            for line in lines(options, report):
                report.lines.append(line)
                options.store(report)
    return report


def _available(names: tuple[str, ...], read: Any, report: Report) -> Iterator[tuple[str, Any]]:
    for name in names:
        try:
            yield name, read(name)
        except FileNotFoundError as error:
            report.remarks.append(f"{name} was not run: {error}")


def _pair(size: str, rival: str, theirs: tuple[float, float] | None, ours: tuple[float, float]) -> list[Line]:
    """The lines of both methods: seconds and metric."""
    seconds, said = ours[0], f"micro-f1 {ours[1]:.4f}"
    if theirs is None:
        return [Line("labelgap, default", size, seconds, note=said)]
    if seconds > theirs[0] and ours[1] <= theirs[1]:
        said += "; slower and not better"
    return [
        Line(rival, size, theirs[0], note=f"micro-f1 {theirs[1]:.4f}"),
        Line("labelgap, default", size, seconds, seconds / theirs[0], f"x {rival}", note=said),
    ]


def _feature_lines(options: Options, report: Report) -> Iterator[Line]:
    small = data.generate(600, 200, 60, 20)
    for X in (small.X, small.X.toarray()):
        LowRankClassifier(random_state=0).fit(X, small.Y)  # Compiles.
    sets: Any = [("", small)]
    if not options.quick:
        sets = [*_available(FEATURES, data.read, report), ("", data.generate())]
    for _, one in sets:
        found = []
        for method in (gate.tuned_regression, gate.decided):
            seconds, decided = timed(partial(method, one.X, one.Y, one.X_test))
            found.append((seconds, gate.f1(decided, one.Y_test)))
        yield from _pair(str(one), "tuned logistic regressions", *found)


def _rating_lines(options: Options, report: Report) -> Iterator[Line]:
    sizes = (((300, 200), 10_000),) if options.quick else RATING_SIZES
    sets: Any = [(f"generated, {n:,} ratings", data.make_ratings(shape, n, n // 10)) for shape, n in sizes]
    if not options.quick:
        sets += _available(RATINGS, data.read_ratings, report)
    absent = rivals.missing("lightfm")
    report.remarks += [absent] if absent else []
    default_recommender(*data.make_ratings((300, 200), 10_000, 100))  # Compiles.
    for name, (train, test) in sets:
        theirs = None if absent else tuned_lightfm(train, test, options.threads)
        yield from _pair(name, "LightFM", theirs, default_recommender(train, test))


def labels_of(ratings: data.Ratings) -> ObservedLabels:
    """Ratings as labelgap takes them."""
    return ObservedLabels.from_triplets(ratings.users, ratings.items, ratings.values, shape=ratings.shape)


def default_recommender(train: data.Ratings, test: data.Ratings) -> tuple[float, float]:
    """Seconds and micro-F1."""
    seconds, model = timed(lambda: Recommender(random_state=0).fit(labels_of(train)))
    decided = model.predict(test.users.tolist(), test.items.tolist(), unknown="average")
    return seconds, gate.f1(np.asarray(decided == 1), test.values.astype(float))


def tuned_lightfm(train: data.Ratings, test: data.Ratings, threads: int) -> tuple[float, float]:
    """30 epochs, and the threshold that is best for ratings that were held out."""

    def job() -> tuple[Any, float]:
        held = np.random.default_rng(0).random(len(train)) < 0.1
        model = rivals.lightfm(train.take(~held), rank=32, epochs=30, threads=threads)
        other = train.take(held)
        scores = rivals.lightfm_scores(model, other)
        return model, best_threshold(scores[None], other.values[None], "micro-f1").threshold

    seconds, (model, threshold) = timed(job)
    return seconds, gate.f1(rivals.lightfm_scores(model, test) >= threshold, test.values.astype(float))


# -- lists -------------------------------------------------------------------------------------------------


def lists(options: Options) -> Report:
    """Each size once: a user fits once."""
    report = Report(
        "lists",
        "Lists of items: the whole job against implicit's ALS",
        "A default fit to likes with the choice of all settings, and the ten best items of every user; "
        "implicit at one setting, without a choice. Generated likes by popularity and taste; NDCG@10 of a "
        "tenth of the likes, which no method saw; memory is the peak above what was held before.",
    )
    absent = rivals.missing("implicit")
    report.remarks += [absent] if absent else []
    small = (200, 150), 4_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        gate.recommended(data.make_likes(*small), n=SHOWN)  # Compiles.
        for shape, n_likes in (small,) if options.quick else LIKES:
            train, test = split_likes(data.make_likes(shape, n_likes), 0.1, 0)
            best = {"regularization": FOUND.get((shape, n_likes), 10.0), "alpha": 5.0}
            report.lines += _list_lines(train, test, options.threads, [] if absent else [{}, best])
            options.store(report)
    return report


def _list_lines(
    train: sp.csr_array, test: sp.csr_array, threads: int, settings: list[dict[str, float]]
) -> Iterator[Line]:
    size = f"{train.shape[0]:,} x {train.shape[1]:,}, {train.nnz:,} likes"
    peak, (seconds, found) = peak_of(lambda: timed(lambda: gate.recommended(train, n=SHOWN)))
    for one in settings:
        theirs, other = timed(
            lambda one=one: top_lists(rivals.als(train, 0, threads=threads, factors=64, **one), train, SHOWN)
        )
        said = ", ".join(f"{name}={value:g}" for name, value in one.items()) or "its default"
        note = f"NDCG@10 {ndcg(other, test):.4f}"
        yield Line(f"implicit ALS, {said}", size, theirs, seconds / theirs, "labelgap's time x", note=note)
    note = f"NDCG@10 {ndcg(found, test):.4f}; {peak / 1e6:,.0f} MB"
    yield Line("labelgap, default", size, seconds, note=note)
