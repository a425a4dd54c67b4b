"""Whole jobs by the default, beside what a user would run instead: time and test metric side by side.

labelgap's calls are ``LowRankClassifier().fit(X, Y)``, ``Recommender().fit(ratings)``, and
``Recommender(unobserved="negative").fit(likes)`` with the lists of all users, with the choice of all settings
included.

- features: one logistic regression per label, tuned, as in the gate.
- ratings: LightFM with the logistic loss, 32 components and 30 epochs, with a threshold from a tenth of the
  ratings that it does not see.
- lists: one fit of EASE and its lists, at the penalty that is best for a tenth of the likes; the search for
  it is not counted, which is kind to EASE.
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
from benchmarks.item_models import ease
from benchmarks.ranking import ndcg, recall, split_likes, top_lists
from labelgap import LowRankClassifier, Recommender, best_threshold
from labelgap.exceptions import LabelgapWarning
from labelgap.labels import ObservedLabels

DEFAULT = "labelgap, default"
FEATURES, RATINGS = ("bibtex", "corel5k", "emotions", "scene", "yeast", "cal500"), ("jester5k", "coat")
RATING_SIZES = (((943, 1682), 100_000), ((6040, 3952), 1_000_000))
LIKES = ("anime", "citeulike")
# A fifth of them judges, so that ten million are fitted.
MANY_LIKES = (100_000, 20_000), 12_500_000
PENALTIES = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


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
        return [Line(DEFAULT, size, seconds, note=said)]
    if seconds > theirs[0] and ours[1] <= theirs[1]:
        said += "; slower and not better"
    return [
        Line(rival, size, theirs[0], note=f"micro-f1 {theirs[1]:.4f}"),
        Line(DEFAULT, size, seconds, seconds / theirs[0], f"x {rival}", note=said),
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
    """Each set once: a user fits once."""
    report = Report(
        "lists",
        "Lists of items: the whole job against one fit of EASE",
        "A default fit to likes with the choice of all settings, and the twenty best items of every user; "
        "EASE at one penalty, without its choice. NDCG@20 and recall@20 of a fifth of the likes, which no "
        "method saw. Memory is the likes and the peak above them, as a multiple of likes and factors.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        small = data.make_likes((200, 150), 4_000)
        gate.recommended(small)  # Compiles.
        sets: Any = [] if options.quick else [*_available(LIKES, data.read_likes, report)]
        if not sets:
            sets = [("generated", small if options.quick else data.make_likes((6040, 3952), 500_000))]
        for name, likes in sets:
            report.lines += beside_ease(name, likes)
            options.store(report)
        if not options.quick:
            report.lines.append(many_likes(data.make_likes(*MANY_LIKES)))
            options.store(report)
    return report


def beside_ease(name: str, likes: sp.csr_array) -> list[Line]:
    """One fit of EASE, and the whole job."""
    train, test = split_likes(likes, 0.2, 0)
    size, penalty = _size(name, train), gate.best_penalty(train, PENALTIES)
    theirs, found = timed(lambda: top_lists(ease(train, penalty), train, gate.N_LIST))
    one = Line(f"EASE, penalty {penalty:g}", size, theirs, note=_judged(found, test))
    seconds, found = timed(lambda: gate.recommended(train))
    ratio, target = seconds / theirs, "≤ 3, ≤ 60 s"
    met = ratio <= 3 and seconds <= 60
    return [one, Line(DEFAULT, size, seconds, ratio, "x EASE", target, met, note=_judged(found, test))]


def many_likes(likes: sp.csr_array) -> Line:
    """The whole job alone: its time and its memory."""
    train, test = split_likes(likes, 0.2, 0)
    peak, (seconds, (model, found)) = peak_of(lambda: timed(lambda: _whole_job(train)))
    given = train.data.nbytes + train.indices.nbytes + train.indptr.nbytes
    factors = model.user_factors_.nbytes + model.item_factors_.nbytes
    ratio, size = (given + peak) / (given + factors), _size("generated", train)
    note = f"{_judged(found, test)}; rank {model.user_factors_.shape[1]}, peak {peak / 1e6:,.0f} MB"
    met = seconds <= 90 and ratio <= 3
    return Line(DEFAULT, size, seconds, ratio, "x likes and factors", "≤ 90 s, ≤ 3", met, note=note)


def _whole_job(train: sp.csr_array) -> tuple[Recommender, Any]:
    model = Recommender(unobserved="negative", random_state=0).fit(train)
    return model, gate.lists_of(model)


def _size(name: str, train: sp.csr_array) -> str:
    return f"{name}: {train.shape[0]:,} x {train.shape[1]:,}, {train.nnz:,} likes"


def _judged(found: Any, test: sp.csr_array) -> str:
    return f"NDCG@20 {ndcg(found, test):.4f}, recall@20 {recall(found, test):.4f}"
