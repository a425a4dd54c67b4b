"""The whole default fit against what a user would run instead: time and test metric side by side.

labelgap's calls are ``LowRankClassifier().fit(X, Y)`` and ``Recommender().fit(ratings)``, with the choice of
all settings included. The other method for features is one logistic regression per label with C chosen among
three values on held-out labels, and an exact threshold from out-of-fold probabilities; the one for ratings is
LightFM with the logistic loss, 32 components and 30 epochs, with a threshold from a tenth of the ratings that
it does not see. A line says so where labelgap is slower and not better.

For labelgap the time until the last fit (the search) is given as a multiple of the last fit.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from benchmarks import feature_sets
from benchmarks.feature_sets import FeatureSet, read, read_dense
from benchmarks.generated_ratings import Ratings, make_split
from benchmarks.harness import Line, Options, Report
from benchmarks.rivals import lightfm_logistic
from labelgap import LowRankClassifier, PlugInClassifier, Recommender, best_threshold, get_metric
from labelgap.data import load_answers
from labelgap.exceptions import InvalidInputError, LabelgapWarning
from labelgap.kernels.feature_products import scattered_matrix, transposed_matrix
from labelgap.labels import ObservedLabels
from labelgap.solvers import FitListener

METRIC = "micro-f1"
STRENGTHS = (0.1, 1.0, 10.0)
SPARSE, DENSE = ("bibtex", "corel5k"), ("emotions", "scene", "yeast", "cal500")
RATINGS = ("jester5k", "coat")


@dataclass
class Outcome:
    """What a fit took, and the metric of its decisions on the test part."""

    seconds: float
    value: float
    search: float | None = None
    """The time of the search as a multiple of that of the last fit."""
    model: Any = None

    @property
    def search_seconds(self) -> float:
        """The time until the last fit."""
        assert self.search is not None
        return self.seconds * self.search / (1 + self.search)


class Clock(FitListener):
    """When the last fit began."""

    def __init__(self) -> None:
        self.last_fit = self.began = time.perf_counter()

    def stage(self, what: str) -> None:
        if what == "fitting":
            self.last_fit = time.perf_counter()

    def outcome(self, model: Any, judge: Callable[[], float]) -> Outcome:
        now = time.perf_counter()
        search = (self.last_fit - self.began) / max(now - self.last_fit, 1e-9)
        return Outcome(now - self.began, judge(), search, model)


# -- features --------------------------------------------------------------------------------------------


def default_classifier(data: FeatureSet) -> Outcome:
    clock = Clock()
    model = LowRankClassifier(random_state=0).fit(data.X, data.labels, callback=clock)
    return clock.outcome(model, lambda: get_metric(METRIC)(data.Y_test, model.predict(data.X_test)))


def tuned_regressions(data: FeatureSet, threads: int) -> Outcome:
    """One logistic regression per label, C by the held-out metric."""
    sparse = sp.issparse(data.X)
    scaler, solver = (MaxAbsScaler(), "liblinear") if sparse else (StandardScaler(), "lbfgs")
    began = time.perf_counter()
    seen, judged = data.validation_parts()

    def classifier(C: float, **settings: Any) -> PlugInClassifier:
        one = make_pipeline(scaler, LogisticRegression(C=C, solver=solver, max_iter=1000))
        return PlugInClassifier(one, random_state=0, n_jobs=threads, **settings)

    values = [classifier(C, threshold="train").fit(data.X, seen).score(data.X, judged) for C in STRENGTHS]
    best = classifier(STRENGTHS[int(np.argmax(values))]).fit(data.X, data.labels)
    seconds = time.perf_counter() - began
    return Outcome(seconds, get_metric(METRIC)(data.Y_test, best.predict(data.X_test)))


# -- ratings ---------------------------------------------------------------------------------------------


def default_recommender(train: Ratings, test: Ratings) -> Outcome:
    labels = ObservedLabels.from_triplets(train.users, train.items, train.values, shape=train.shape)
    clock = Clock()
    model = Recommender(random_state=0).fit(labels, callback=clock)
    return clock.outcome(
        model, lambda: f1(model.predict(test.users.tolist(), test.items.tolist()), test.values)
    )


def lightfm(train: Ratings, test: Ratings, threads: int) -> Outcome:
    """30 epochs, and the threshold that is best for ratings that were held out."""
    began = time.perf_counter()
    held = np.random.default_rng(0).random(len(train)) < 0.1
    seen, other = (
        Ratings(train.users[part], train.items[part], train.values[part], train.shape)
        for part in (~held, held)
    )
    model = lightfm_logistic.fit(
        lightfm_logistic.prepare(seen), rank=32, epochs=30, threads=threads, ridge=0.0, rate=0.05
    )
    scores = lightfm_logistic.scores(model, other)
    threshold = best_threshold(scores[None], other.values[None], METRIC).threshold
    seconds = time.perf_counter() - began
    return Outcome(seconds, f1(lightfm_logistic.scores(model, test) >= threshold, test.values))


def f1(decisions: NDArray[Any], truth: NDArray[Any]) -> float:
    """The metric of decisions about pairs."""
    return float(get_metric(METRIC)(np.asarray(truth)[None], np.asarray(decisions)[None]))


def read_ratings(name: str) -> tuple[Ratings, Ratings]:
    """Ratings of a file, in its own split or four fifths and one; a yes is four stars or more, or above 0."""
    data = load_answers(name)

    def ratings(answers: Any, chosen: Any = slice(None)) -> Ratings:
        # Stars from 1 to 5, or a scale around 0.
        liked = answers.rating >= 4 if answers.rating.min() >= 1 else answers.rating > 0
        users, items = (np.asarray(part)[chosen].astype(np.int32) for part in (answers.user, answers.item))
        return Ratings(users, items, liked[chosen].astype(np.int8), data.shape)

    if data.test is not None:
        return ratings(data.answers), ratings(data.test)
    held = np.random.default_rng(0).random(len(data.answers)) < 0.2
    return ratings(data.answers, ~held), ratings(data.answers, held)


# -- report ----------------------------------------------------------------------------------------------


def lines_of(size: str, ours: Outcome, rival: str, theirs: Outcome | None) -> list[Line]:
    """The line of labelgap and that of the other method."""
    assert ours.search is not None
    said = f"{METRIC} {ours.value:.4f}; search {ours.search:.1f} x last fit"
    if theirs is None:
        return [Line("labelgap, default", size, ours.seconds, note=said)]
    if ours.seconds > theirs.seconds and ours.value <= theirs.value:
        said += "; slower and not better"
    ratio = ours.seconds / theirs.seconds
    return [
        Line(rival, size, theirs.seconds, note=f"{METRIC} {theirs.value:.4f}"),
        Line("labelgap, default", size, ours.seconds, ratio=ratio, against=f"x {rival}", note=said),
    ]


def feature_data(options: Options, report: Report) -> list[tuple[str, FeatureSet]]:
    """The data sets with features that are at hand."""
    found = []
    for name in (*SPARSE, *DENSE):
        try:
            found.append((name, read(name) if name in SPARSE else read_dense(name)))
        except InvalidInputError as error:
            report.remarks.append(f"{name} was not run: {error}")
    if options.quick:
        return [("generated", feature_sets.generate(600, 200, 60, 20))]
    return [*found, ("generated", feature_sets.generate())]


def rating_data(options: Options, report: Report) -> list[tuple[str, Ratings, Ratings]]:
    """The ratings that are at hand."""
    sizes = (((300, 200), 10_000),) if options.quick else (((943, 1682), 100_000), ((6040, 3952), 1_000_000))
    found = []
    for shape, n_ratings in sizes:
        split = make_split(shape, n_ratings)
        found.append((f"generated, {n_ratings:,} ratings", split.train, split.held_out))
    for name in () if options.quick else RATINGS:
        try:
            found.append((name, *read_ratings(name)))
        except InvalidInputError as error:
            report.remarks.append(f"{name} was not run: {error}")
    return found


def run(options: Options) -> Report:
    """All data sets, once each: a user fits once."""
    report = Report(
        "defaults",
        "Whole default fits against what a user would run instead",
        "One fit each, with the choice of all settings and of the threshold, at 20 % of the labels observed. "
        "For features: one logistic regression per label (C of three by held-out labels). For ratings: "
        "LightFM (logistic, 32 components, 30 epochs). Test metric on labels or ratings that no method saw.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        compile_all()
        for name, data in feature_data(options, report):
            size = f"{name}: {data.X.shape[0]:,} x {data.X.shape[1]:,}, {data.labels.shape[1]} labels"
            ours, theirs = default_classifier(data), tuned_regressions(data, options.threads)
            report.lines += lines_of(size, ours, "tuned logistic regressions", theirs)
        missing = lightfm_logistic.unavailable()
        if missing is not None:
            report.remarks.append(missing)
        for name, train, test in rating_data(options, report):
            ours = default_recommender(train, test)
            other = None if missing is not None else lightfm(train, test, options.threads)
            report.lines += lines_of(name, ours, "LightFM", other)
    return report


def compile_all() -> None:
    """Compiled code is loaded, or made, before anything is timed."""
    data = feature_sets.generate(200, 20, 20, 10)
    for X in (data.X, data.X.toarray()):
        LowRankClassifier(random_state=0).fit(X, data.labels)
    # Many labels, whose matrices are decomposed in single precision.
    data = feature_sets.generate(300, 20, 200, 48, n_set=100)
    LowRankClassifier(random_state=0).fit(data.X, data.labels)
    # Both ways to such a matrix; which one is taken depends on the size and the processor.
    columns, labels = data.X.tocsc(), data.labels
    for dtype in (np.float32, np.float64):
        slopes = labels.indptr, labels.indices, labels.values.astype(dtype), labels.shape[1]
        for product in (transposed_matrix, scattered_matrix):
            product((columns.indptr, columns.indices, columns.data), *slopes)
    split = make_split((300, 200), 10_000)
    default_recommender(split.train, split.held_out)
