"""Each row of the table in docs/bad-input.md, and that the table and these tests name the same cases."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from labelgap import (
    LinearFractional,
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
    StratifiedRowSplit,
    best_threshold,
    get_metric,
    split_ratings,
)
from labelgap.exceptions import (
    ConvergenceWarning,
    DeviceMemoryError,
    DriftWarning,
    InfeasibleConstraintError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidMetricError,
    InvalidParameterError,
    InvalidScoresError,
    LabelgapError,
    LabelgapWarning,
    TrivialDecisionsWarning,
    UninformativeLabelsWarning,
    UnknownIdError,
    UnknownNameError,
)
from labelgap.kernels.gpu.device import require_memory
from labelgap.report import plot_batches, plot_convergence, write_report
from labelgap.thresholds import best_label_thresholds, choose_thresholds

TABLE = Path(__file__).parents[1] / "docs" / "bad-input.md"

rng = np.random.RandomState(0)
X = rng.standard_normal((40, 3))
COMPLETE = (X @ rng.standard_normal((3, 4)) > 0.3).astype(float)
Y = np.where(rng.uniform(size=COMPLETE.shape) < 0.7, COMPLETE, np.nan)


TEXTS = np.full(COMPLETE.shape, "2020")


def triplets(**changes: Any) -> ObservedLabels:
    given: dict[str, Any] = {"rows": [0, 1], "cols": [0, 1], "values": [1, 0]}
    return ObservedLabels.from_triplets(**(given | changes))


def named(**names: Any) -> ObservedLabels:
    return ObservedLabels.from_dense([[1, 0], [0, 1]], **names)


def damaged() -> sp.csr_array:
    """A sparse matrix with an entry outside its shape, which scipy makes without a check."""
    matrix = sp.csr_array(X)
    matrix.indices[5] = 1000
    return matrix


def low_rank(**changes: Any) -> LowRankClassifier:
    """A quick fit: the penalties are given, nothing is held out."""
    settings: dict[str, Any] = {
        "trace_penalty": 0.01,
        "ridge_penalty": 0.0,
        "intercept_penalty": 0.0,
        "threshold": "train",
        "random_state": 0,
    }
    return LowRankClassifier(**(settings | changes))


def with_value(matrix: Any, row: int, column: int, value: float) -> Any:
    changed = matrix.copy()
    changed[row, column] = value
    return changed


WITHOUT_SIGNAL = np.random.RandomState(3).uniform(size=(200, 4))


def fit(labels: Any = Y, features: Any = X, **changes: Any) -> Any:
    return low_rank(**changes).fit(features, labels)


def report(**parts: Any) -> object:
    # An error comes before anything is written.
    return write_report("never.html", fit(), X, Y, **parts)


ANSWERS = (["a", "b", "c", "a"], ["x", "x", "y", "y"], [1, 0, 1, 0])


def recommender(*, times: Any = None, **settings: Any) -> Recommender:
    answers = ANSWERS if times is None else (*ANSWERS, times)
    return Recommender(trace_penalty=0.1, threshold="train", **settings).fit(answers)


def contrary_recommender() -> Recommender:
    """One that ranks the item x, which is liked by most, last."""
    likes = (["a", "b", "a", "c"], ["x", "x", "z", "y"], [1, 1, 0, 1])
    model = Recommender(trace_penalty=0.1, threshold="train").fit(likes)
    model.item_intercept_ = np.where([item == "x" for item in model.item_ids_], -9.0, 9.0)
    return model


PARTS_OF_REPORTS: dict[str, Callable[[], object]] = {
    "feature_names must be .* of the 3 features; got str": lambda: report(feature_names="abc"),
    "feature_names must be .*; got float": lambda: report(feature_names=3.0),
    "feature_names must be .*; got 2 names": lambda: report(feature_names=["a", "b"]),
    "Progress objects, .* given str.* history_": lambda: plot_convergence("abc"),
    "a fitted model, or Progress objects, .* given float": lambda: plot_convergence(3.0),
    "a fitted model, or Batch objects, .* given str.*batches_": lambda: plot_batches("abc"),
    "a fitted model, or Batch objects, .* given NoneType": lambda: plot_batches(None),
}
TIMES: dict[str, list[Any]] = {
    "line 3 is infinite": [1, 2, 3, np.inf],
    "line 1 has no time": [1, np.nan, 3, 4],
    "line 1 is 'soon', which is no number or date": ["2024-05-31", "soon", "2024-05-31", "2024-05-31"],
    "Some of the times are dates and others are numbers": ["2024-05-31", 2, 3, 4],
}
NO_NUMBERS: dict[str, Callable[[], object]] = {
    "threshold": lambda: best_threshold(TEXTS, COMPLETE, "macro-f1"),
    "label thresholds": lambda: best_label_thresholds(TEXTS, COMPLETE, "macro-f1"),
    "choice": lambda: choose_thresholds(TEXTS, COMPLETE, "macro-f1"),
    "metric": lambda: get_metric("macro-f1")(COMPLETE, TEXTS),
    "objects": lambda: best_threshold(TEXTS.astype(object), COMPLETE, "macro-f1"),
    "dates": lambda: best_threshold(TEXTS.astype("M8[D]"), COMPLETE, "macro-f1"),
}
NO_VECTORS: dict[str, dict[str, Any]] = {
    **{
        f"{name} of triplets must be a vector.*got 5": {name: 5}
        for name in ("rows", "cols", "values", "weights")
    },
    "rows of triplets must be a vector": {"rows": [[0], [1, 2]]},
    "shape must be two counts .*not 'ab'": {"shape": "ab"},
    "shape must be two counts .*not 5": {"shape": 5},
    r"shape must be two counts .*not \(1.5, 2\)": {"shape": (1.5, 2)},
    r"shape must be two counts .*inf": {"shape": (np.inf, 2)},
    r"shape must be two counts": {"shape": (2**70, 2)},
}
NO_NAMES: dict[str, dict[str, Any]] = {
    "label_names must be a sequence .*got 5": {"label_names": 5},
    "row_names must be a sequence": {"row_names": {1, 2}},
    r"label_names has \['a'\] at position 0, of type": {"label_names": [["a"], ["b"]]},
    r"row_names has \[2\] at position 1": {"row_names": [1, [2]]},
}
MISSPELT = [
    ("metric", "micro-f_1", "micro-f1"),
    ("loss", "logistc", "logistic"),
    ("solver", "factord", "factored"),
    ("threshold", "crossfit", "cross-fit"),
    ("unobserved", "unlabeled", "unlabelled"),
]

# By the class of the error: the row of the table and what the message says, and how to get there.
ERRORS: dict[type[Exception], dict[str, Callable[[], object]]] = {
    InvalidInputError: {
        "sample-weight | at row 0 it is -1": lambda: low_rank().fit(X, Y, sample_weight=-np.ones(len(X))),
        "groups | the group of each of the 40 rows, a number or a name; its shape is \\(3,\\)": lambda: next(
            StratifiedRowSplit(2).split(X, Y, groups=["a", "b", "c"])
        ),
        "unavailable-date | until which the item 'x' is unavailable must be a date.*got 'soon'": lambda: (
            recommender().recommend("a", unavailable={"x": "soon"})
        ),
        "unavailable-date | at must be a date.*got 7": lambda: recommender().recommend(
            "a", unavailable={"x": "2024-05-31"}, at=7
        ),
        "new-pair | Neither the user 'eve' nor the item 'new' is known": lambda: recommender().fold_in(
            (["eve"], ["new"], [1])
        ),
        "propensities | propensit.*above 0": lambda: low_rank(weights="inverse-propensity").fit(
            X, Y, propensities=np.zeros(Y.shape)
        ),
        "other-order | the scores and the labels have the same rows in another order": lambda: best_threshold(
            pandas.DataFrame({"a": [1.0, 2.0]}), pandas.DataFrame({"a": [1, 0]})[::-1]
        ),
        "other-rows | the scores and the labels have different rows: only 1 of the 2": lambda: best_threshold(
            pandas.DataFrame({"a": [1.0, 2.0]}, index=list("uv")),
            pandas.DataFrame({"a": [1, 0]}, index=list("vw")),
        ),
        r"scores-shape | scores have shape \(3, 2\); expected \(2, 2\) like the labels": lambda: (
            best_threshold(np.zeros((3, 2)), np.eye(2))
        ),
        "decisions | decision at row 0, column 0 is 0.3; decisions are 0 or 1.*best_threshold": lambda: (
            get_metric("micro-f1")([[1, 0]], [[0.3, 1.0]])
        ),
        "batch-row-twice | The row id 'a' comes twice in one batch, at rows 0 and 2": lambda: (
            low_rank().partial_fit(X[:3], Y[:3], row_ids=["a", "b", "a"])
        ),
        "batch-without-data | does not hold the data.*memory='all'": lambda: fit(memory=None).partial_fit(
            X, Y
        ),
        **{
            f"rating-times | {problem}": partial(Recommender(half_life=2).fit, (*ANSWERS, times))
            for problem, times in TIMES.items()
        },
        "sparse-damaged | a damaged sparse matrix": lambda: best_threshold(damaged(), np.eye(40, 3)),
        "complex | must be real numbers, not complex ones": lambda: best_threshold(np.eye(2) * 1j, np.eye(2)),
        **{
            rf"scores-no-numbers | must be numbers; they hold '2020.*' at row 0, column 0(?#{name})": call
            for name, call in NO_NUMBERS.items()
        },
    },
    InvalidParameterError: {
        "sample-weight-zero | zero for every row": lambda: low_rank().fit(
            X, Y, sample_weight=np.zeros(len(X))
        ),
        "sample-weight-unlabelled | every entry counts once": lambda: low_rank(unobserved="unlabelled").fit(
            X, COMPLETE, sample_weight=np.arange(len(X))
        ),
        "coverage | coverage must be above 0 and below 1, such as 0.9; got 90": lambda: fit().predict_set(
            X, coverage=90
        ),
        "no-held-out-scores | threshold='train' holds nothing out": lambda: fit().predict_set(X),
        "no-held-out-scores | needs out-of-fold scores": lambda: fit(calibration="sigmoid"),
        "n-splits | n_splits must be an integer from 2 to the": lambda: next(
            StratifiedRowSplit(1).split(X, Y)
        ),
        "complete-unlabelled | unobserved='negative', under which there are none": lambda: fit(
            sp.csr_array(COMPLETE), unobserved="negative"
        ).complete(X, sp.csr_array(COMPLETE)),
        "soft-labels | soft_labels=1.0 needs loss='logistic'": lambda: fit(soft_labels=1.0, loss="squared"),
        "suggest-counts | n must be a whole number of at least 1; got 0": lambda: fit().suggest(X, 0),
        "suggest-counts | budget_per_row must be a whole number of at least 1, or None; got 1.5": lambda: (
            fit().suggest(X, 3, budget_per_row=1.5)
        ),
        "device | device must be 'auto', 'cpu', 'cuda'.* got 'gpu'": lambda: fit(device="gpu"),
        "unobserved-twice | 'negative', and the labels were made with unobserved='unlabelled'": lambda: fit(
            ObservedLabels.from_any(np.nan_to_num(Y), "unlabelled"), unobserved="negative"
        ),
        r"report-parts | metrics must be a metric.* or several of them; got 3\.0": lambda: report(
            metrics=3.0
        ),
        "verbose | verbose must be 0 for nothing, 1 for the stages.*got 'x'": lambda: fit(verbose="x"),
        "verbose | got 'x'": lambda: PlugInClassifier(verbose="x").fit(X, Y),
        "unlabelled | need positive-unlabelled learning, which this .* does not offer": lambda: (
            PlugInClassifier().fit(X, ObservedLabels.from_sparse(sp.csr_array(COMPLETE), "unlabelled"))
        ),
        "unlabelled | say nothing about no, and without a no there is nothing to calibrate by": lambda: (
            fit().recalibrate(X, ObservedLabels.from_any(COMPLETE, "unlabelled"))
        ),
        "flip-rate | flip_rate is 1.5; .*below 1": lambda: fit(
            COMPLETE, unobserved="unlabelled", flip_rate=1.5
        ),
        "flip-rate | flip_rate.*4": lambda: fit(COMPLETE, unobserved="unlabelled", flip_rate=[0.1, 0.2]),
        "flip-rate-unused | only under unobserved='unlabelled'; here it is 'missing'": lambda: fit(
            flip_rate=0.3
        ),
        "unlabelled-loss | one of the losses exponential, logistic, squared, not 'squared_hinge'": lambda: (
            fit(COMPLETE, unobserved="unlabelled", flip_rate=0.3, loss="squared_hinge")
        ),
        "unlabelled-unbounded | the logistic loss falls without end.*score_bound": lambda: fit(
            COMPLETE, unobserved="unlabelled", flip_rate=0.3, score_bound=None
        ),
        "other-events | fitted with aggregate=None, and now it is 'sum'": lambda: (
            recommender().set_params(aggregate="sum").partial_fit((["a"], ["x"], [1]))
        ),
        "explore-without-features | fitted without item_features": lambda: recommender().recommend(
            "a", explore=0.1
        ),
        "split-without-times | needs the times": lambda: split_ratings(ANSWERS, "time"),
        "propensities-unused | propensities were given but weights is None": lambda: low_rank().fit(
            X, Y, propensities=np.full(Y.shape, 0.5)
        ),
        "rival-rank | solver='alternating' works at a fixed rank": lambda: fit(solver="alternating"),
        "exponential-bound | score_bound=1e[+]06 is too large for the exponential loss": lambda: low_rank(
            loss="exponential", score_bound=1e6, unobserved="unlabelled", flip_rate=0.1
        ).fit(X, COMPLETE),
        "flip-rate-few | The flip rate cannot be estimated from 2 entries": lambda: Recommender(
            trace_penalty=0.1, ridge_penalty=0.1, threshold="train", unobserved="unlabelled", loss="squared"
        ).fit(([1, 1], ["x", "y"])),
        "bounds-unreadable | subject_to holds 'recall', which is no bound": lambda: best_threshold(
            [[0.5]], [[1]], subject_to="recall"
        ),
        "bounds-per-label | one shared threshold keeps": lambda: MetricThreshold(
            thresholds="shrunk", subject_to="recall >= 0.5"
        ).fit(np.eye(2), np.eye(2)),
        "budget | per_row of a budget must be a whole number, 1 or more; got 0": lambda: (
            MetricThreshold().fit(np.eye(2), np.eye(2)).predict(np.eye(2), budget=0)
        ),
        "penalties-zero | trace_penalty and ridge_penalty are both 0: .* no unique answer": lambda: fit(
            trace_penalty=0.0, ridge_penalty=0.0
        ),
        "penalty-negative | trace_penalty must be 'auto' or a finite number, 0 or more; got -1": lambda: fit(
            trace_penalty=-1
        ),
        "rank | rank must be a whole number, 1 or more, or None for no cap; got 0": lambda: fit(rank=0),
        "metric-beta | F-beta with β = 11.*Did you mean 'micro-f1'.*write 'micro-f11.0'": lambda: fit(
            metric="micro-f11"
        ),
        "memory-without-features | without features .X=None. each row has parameters of its own": lambda: (
            LowRankRegressor(memory=5).fit(None, Y)
        ),
        **{f"report-parts | {message}": call for message, call in PARTS_OF_REPORTS.items()},
        **{
            f"score-bound | score_bound must be a number above 0.*got {bound}": partial(
                fit, score_bound=bound
            )
            for bound in (0, -1.5, np.nan)
        },
    },
    InvalidLabelsError: {
        "complete-other-rows | these are others: over these 20 rows .* or fit again": lambda: fit().complete(
            X[:20], Y[:20]
        ),
        "complete-judged | Some labels of the fit alone judged it.*say with judged=": lambda: (
            low_rank().fit(X, Y, judged=Y < 2).complete(X[::-1], Y[::-1])
        ),
        "label-values | row 3, column 2 is 2.0, which is neither 0 nor 1.*NaN": lambda: fit(
            with_value(Y, 3, 2, 2)
        ),
        r"label-values | row 0, column 0 is -1, .*-1/\+1 pass \(Y > 0\).*from_mask": lambda: (
            ObservedLabels.from_dense([[-1, 1], [1, -1]])
        ),
        r"label-values | row 3, column 2 is -1.0, .*If -1 is a no.*if -1 is not observed and 0": lambda: fit(
            with_value(Y, 3, 2, -1)
        ),
        "label-values | got 3 classes: -1, 0, 1. If -1 is a no.*if -1 is not observed and 0": lambda: (
            low_rank().fit(X[:4], [-1, 0, 1, None])
        ),
        "label-values | item 'x' by user 'a' is -1, .*If -1 is a dislike.*if -1 is no rating": lambda: (
            Recommender().fit((["a", "b", "a"], ["x", "x", "y"], [-1, 0, 1]))
        ),
        "label-values | row 0, column 0 is 'yes', which is no number": lambda: ObservedLabels.from_dense(
            [["yes", "no"]]
        ),
        "row-counts | X has 40 rows and the labels have 39; they must match row by row": lambda: fit(Y[:-1]),
        r"labels-1d | 1-d with 3 values; for a single label use Y.reshape\(-1, 1\)": lambda: (
            ObservedLabels.from_dense([1, 0, 1])
        ),
        "labels-1d-classes | 1-d y must hold two classes; got 3 classes: 0, 1, 2": lambda: fit(
            np.arange(40) % 3
        ),
        r"mask-shape | mask has shape \(1, 1\) but Y has shape \(1, 2\)": lambda: ObservedLabels.from_mask(
            [[1, 0]], [[True]]
        ),
        r"score-shape | shape \(40, 3\); 40 rows of X and the 4 labels of the fit were expected": lambda: (
            fit().score(X, Y[:, :3])
        ),
        "label-names | Missing from y: 'd'. Missing from the fit: 'D'. Rename the columns": lambda: fit(
            ObservedLabels.from_dense(Y, label_names=list("abcd"))
        ).score(X, ObservedLabels.from_dense(Y, label_names=list("abcD"))),
        "nothing-observed | No label is observed in the 40 x 4 matrix": lambda: fit(np.full_like(Y, np.nan)),
        "only-positives | labels is positive.*unobserved='negative'.*'unlabelled'": lambda: fit(
            np.where(Y == 1, 1.0, np.nan)
        ),
        "only-positives | is positive.*unobserved='negative'.*unobserved='unlabelled'": lambda: fit(
            sp.csr_array(COMPLETE)
        ),
        "only-negatives | observed labels is negative.*at least one positive must be known": lambda: fit(
            np.where(Y == 0, 0.0, np.nan)
        ),
        "unlabelled | positive or unlabelled .*a metric needs known negatives": lambda: best_threshold(
            COMPLETE, ObservedLabels.from_any(COMPLETE, unobserved="unlabelled")
        ),
        "answers-without-rule | positive=": lambda: Recommender().fit((["a", "b"], ["x", "y"], [5, 1])),
        "answers-twice | 'x'.*'a'": lambda: Recommender().fit((["a", "a"], ["x", "x"], [1, 0])),
        "answers-twice | 'x' by user 'a': 50 in line 0 and 4 in line 1.*add them up": lambda: Recommender(
            positive=4, unobserved="negative"
        ).fit((["a", "a"], ["x", "x"], [50, 4])),
        "no-rating-times | half_life needs the times.*four sequences": lambda: Recommender(half_life=2).fit(
            ANSWERS
        ),
        "no-rating-times | no column 'day'; it has 'user', 'item', 'value'.*time=": lambda: Recommender(
            half_life=2, time="day"
        ).fit(pandas.DataFrame(dict(zip(("user", "item", "value"), ANSWERS, strict=True)))),
        "other-events | before are numbers, and those of the new ones are dates": lambda: recommender(
            half_life=2, times=[1, 2, 3, 4]
        ).fold_in((["a"], ["x"], [1], ["2024-05-31"])),
        "nothing-to-rank | No held-out like can be ranked": lambda: recommender().evaluate_ranking(ANSWERS),
        "known-users | the recommender knows 1 of these 1: 'a'": lambda: recommender().evaluate_ranking(
            (["a", "a"], ["x", "y"], [1, 1]), unseen_users=True
        ),
        "no-two-likes | None of the held-out users has two likes": lambda: recommender().evaluate_ranking(
            (["new"], ["x"], [1]), unseen_users=True
        ),
        r"duplicate-triplets | row 0, column 1 .* more than once \(values 1 and 0\); keep one": lambda: (
            ObservedLabels.from_triplets([0, 1, 0], [1, 1, 1], [1, 1, 0])
        ),
        r"labels-too-many | 1,099,511,627,777 rows .* 17,592.2 GB .* the rows from 0.*Recommender": lambda: (
            ObservedLabels.from_triplets([2**40], [0], [1])
        ),
        "labels-too-many | 100,000 x 1,000,000,000 labels, .*negative": lambda: ObservedLabels.from_sparse(
            sp.csr_array((10**5, 10**9)), "negative"
        ),
        "tags-no-names | got 5": lambda: ObservedLabels.from_tags(5),
        "tags-no-names | A tag of row 1 cannot be a name": lambda: ObservedLabels.from_tags([["a"], [["b"]]]),
        "triplets-out-of-range | Triplet 1 has row 5, but rows run from 0 to 2": lambda: (
            ObservedLabels.from_triplets([0, 5], [1, 1], [1, 0], shape=(3, 3))
        ),
        "triplets-out-of-range | Triplet 0 has column 3, but columns run from 0 to 2": lambda: (
            ObservedLabels.from_triplets([0, 1], [3, 1], [1, 0], shape=(3, 3))
        ),
        "triplets-out-of-range | Triplet 1 has row -1": lambda: ObservedLabels.from_triplets(
            [0, -1], [1, 1], [1, 0]
        ),
        "other-order | X and y have the same rows in another order; row 0 is 0 in X and 39 in y": lambda: (
            low_rank().fit(pandas.DataFrame(X, columns=list("abc")), pandas.DataFrame(Y)[::-1])
        ),
        "other-rows | only 38 of the 39 rows .*; row 0 is 0 in X and 1 in y.*to_numpy": lambda: (
            low_rank().fit(pandas.DataFrame(X).iloc[:-1], pandas.DataFrame(Y).iloc[1:])
        ),
        "scores-no-numbers | The weights must be numbers, not datetime64": lambda: ObservedLabels.from_dense(
            COMPLETE, weights=TEXTS.astype("M8[D]")
        ),
        "batch-labels | The batch has 3 labels and the model knows 4.*give all columns": lambda: (
            low_rank().partial_fit(X, Y).partial_fit(X, Y[:, :3])
        ),
        **{
            f"triplets-no-vectors | {message}": partial(triplets, **given)
            for message, given in NO_VECTORS.items()
        },
        **{f"names-no-names | {message}": partial(named, **given) for message, given in NO_NAMES.items()},
        **{
            f"weights | weight at row 0, column 1 is {weight}; weights must be positive and finite": partial(
                ObservedLabels.from_dense, [[1, 0]], weights=[[1.0, weight]]
            )
            for weight in (-2.0, 0.0, np.nan)
        },
        "sparse-damaged | a damaged sparse matrix": lambda: low_rank().fit(X, damaged()),
        "complex | must be real numbers, not complex ones": lambda: ObservedLabels.from_dense(
            np.eye(2), weights=np.eye(2) * 1j
        ),
    },
    InvalidScoresError: {
        "suggest-scores | the score at row 0, label .* is .*, which is none. Pass probabilities": lambda: (
            MetricThreshold().fit(100 * COMPLETE + 5, Y).suggest(100 * COMPLETE + 5, 3)
        ),
        "scores-nan | score at row 0, label 1 is NaN, but its label is observed": lambda: best_threshold(
            [[0.5, np.nan]], [[1, 0]]
        ),
        "scores-shape | 3 columns for 4 labels. Pass an estimator if X holds features": lambda: (
            MetricThreshold().fit(X, Y)
        ),
        "budget-scores | row 0, label 1 is 3, which is none": lambda: (
            MetricThreshold().fit(np.eye(2), np.eye(2)).predict([[0.5, 3.0]], budget=1)
        ),
    },
    DeviceMemoryError: {
        "device-memory | The fit needs about .* GB on .*, where .* GB are free": lambda: require_memory(
            SimpleNamespace(type="cpu"), 1e30, "The fit"
        )
    },
    InvalidFeaturesError: {
        r"features-huge | as large as 1\.0e\+150, whose squares overflow": lambda: fit(
            features=with_value(X, 2, 1, 1e150)
        ),
        "features-dates | 'when' of X has dates.* '2020-01-01 00:00:00' at row 0.*days.*drop": lambda: fit(
            features=pandas.DataFrame(X[:, :1], columns=["size"]).assign(
                when=pandas.date_range("2020-01-01", periods=len(X))
            )
        ),
        "features-no-number | 'growth' of X has <NA> at row 2.*impute them first.*drop the row": lambda: fit(
            features=pandas.DataFrame(X[:, :1], columns=["size"]).assign(growth=[1, 2, pandas.NA, 3] * 10)
        ),
        "features-text | 'growth' .* text '1.23%' at row 2.*numbers first.*OneHotEncoder.*drop it": lambda: (
            fit(
                features=pandas.DataFrame(X[:, :1], columns=["size"]).assign(
                    growth=["1", "2", "1.23%", "x"] * 10
                )
            )
        ),
        r"features-tiny | as small as \d\.\de-200, and the squares of its values vanish": lambda: fit(
            features=X * 1e-200
        ),
        "features-not-finite | NaN at row 2, column 1.*SimpleImputer": lambda: fit(
            features=with_value(X, 2, 1, np.nan)
        ),
        "features-not-finite | infinity at row 2, column 1": lambda: fit(
            features=with_value(X, 2, 1, -np.inf)
        ),
        "features-not-finite | NaN at row 2, column 1": lambda: fit(
            features=sp.csr_array(with_value(X, 2, 1, np.nan))
        ),
        "features-not-finite | NaN at row 0, column 0": lambda: fit().predict([[np.nan, 0.0, 0.0]]),
        r"side-features | 2 of 3 users with ratings have no features \(the first: 'b'\)": lambda: (
            Recommender().fit(ANSWERS, user_features={"a": [1.0]})
        ),
        "features-masked | Input X contains NaN at row 2, column 1": lambda: low_rank().fit(
            np.ma.masked_array(X, mask=np.arange(120).reshape(40, 3) == 7), Y
        ),
        "sparse-damaged | a damaged sparse matrix": lambda: low_rank().fit(damaged(), Y),
    },
    UnknownIdError: {
        "unknown-id | The user 'eve' is not among the 3 users that are known.*fold_in": lambda: (
            recommender().predict("eve", "x")
        )
    },
    InfeasibleConstraintError: {
        r"bounds-infeasible | No threshold gives micro-precision >= 0.9 .* 0.5, .* of -inf": lambda: (
            best_threshold([[0.9], [0.1]], [[0], [1]], subject_to="precision >= 0.9")
        )
    },
    InvalidMetricError: {
        "denominator-vanishes | can vanish: it is 1 when .* and -1 when": lambda: LinearFractional(
            {"tp": 1}, {"tp": 1, "fn": -1}
        ),
        "denominator-vanishes | 0 when .* true negative, but the numerator is 1": lambda: LinearFractional(
            {"tp": 1, "tn": 1}, {"tp": 1}
        ),
        "denominator-vanishes | denominator is 0 for all decisions": lambda: LinearFractional({"tp": 1}, {}),
    },
    UnknownNameError: {
        "metric-without-average | not .* average; write one of micro-f1, instance-f1, macro-f1": lambda: fit(
            metric="f1"
        ),
        **{
            f"unknown-name | Unknown .*{given!r}. Did you mean {nearest!r}": partial(fit, **{name: given})
            for name, given, nearest in MISSPELT
        },
    },
}


def drifting_batch() -> None:
    """A second batch whose labels are turned round."""
    rng = np.random.RandomState(0)
    features = rng.standard_normal((180, 2))
    labels = (features @ [[2.0, 1.0], [0.0, 1.0]] > 0).astype(float)
    model = low_rank(threshold="cross-fit", random_state=0).partial_fit(features[:150], labels[:150])
    model.partial_fit(features[150:], 1 - labels[150:])


EXTREME = np.where(np.arange(Y.size).reshape(Y.shape) == int(np.flatnonzero(~np.isnan(Y))[0]), 1e-6, 0.9)
N_NO = int(np.sum(Y == 0))
FEW = np.array([[1.0, np.nan], [0.0, np.nan], [np.nan, 0.0]])

WARNINGS: dict[type[Warning], dict[str, Callable[[], object]]] = {
    LabelgapWarning: {
        rf"unlabelled-negatives | ^{N_NO} known negatives were not used.*unobserved='missing'": lambda: fit(
            Y, unobserved="unlabelled", flip_rate=0.3, loss="squared"
        ),
        "half-life-short | half_life=30 is so short .* 86400 or more units of the times.*seconds": lambda: (
            recommender(half_life=30, times=[1, 2, 3, 4]).score((*ANSWERS, [0, 0, 0, 86400]))
        ),
        "popularity-wins | Popularity ranks better.*unobserved='negative'": lambda: (
            contrary_recommender().evaluate_ranking((["c"], ["x"], [1]))
        ),
        r"flip-rate-too-high | A flip rate of 0.950 is not possible for \d of 4 labels": lambda: fit(
            COMPLETE, unobserved="unlabelled", flip_rate=0.95, loss="squared"
        ),
        "everything-wins | does not punish false positives.*'micro-f1'": lambda: fit(
            COMPLETE, unobserved="unlabelled", flip_rate=0.1, loss="squared", metric="micro-recall"
        ),
        "weights-clipped | clip": lambda: low_rank(weights="inverse-propensity").fit(
            X, Y, propensities=EXTREME
        ),
        "coverage-few | coverage of 0.999 takes 999 held-out entries of either class": lambda: fit(
            threshold="cross-fit"
        ).predict_set(X, 0.999),
        **{
            f"too-few-to-hold-out | Only 3 labels .*too few to hold any out(?#{estimator.__name__})": partial(
                estimator(random_state=0).fit, X[:3], FEW
            )
            for estimator in (LowRankClassifier, PlugInClassifier)
        },
    },
    UninformativeLabelsWarning: {
        r"label-all-missing | 1 of 4 labels have no observed entry .the first: 1": lambda: fit(
            np.where(np.arange(4) == 1, np.nan, Y)
        ),
        r"label-one-class | 1 of 4 labels has one class: 1 .only yes.*with them and 0\.\d+ without": lambda: (
            fit(np.where(np.arange(4) == 1, 1.0, Y), threshold="cross-fit")
        ),
    },
    TrivialDecisionsWarning: {
        r"trivial-decisions | of the decisions is 0\.\d+ .* yes to everything is 0\.\d+": lambda: fit(
            WITHOUT_SIGNAL < 0.4, WITHOUT_SIGNAL[::-1, :2], threshold="cross-fit", metric="macro-f1"
        )
    },
    DriftWarning: {"batch-drift | below the interval from": drifting_batch},
    ConvergenceWarning: {
        **{
            rf"not-converged | after \d+ iterations .* of \S+ .asked for: 1.0e-12\)(?#{solver})": partial(
                fit, solver=solver, max_iter=1, tol=1e-12
            )
            for solver in ("factored", "proximal")
        }
    },
}

ACCEPTED = ["row-all-missing"]


def cases(
    table: dict[Any, dict[str, Callable[[], object]]],
) -> Iterator[tuple[Any, str, str, Callable[[], object]]]:
    for expected, calls in table.items():
        for key, call in calls.items():
            row, message = key.split(" | ", 1)
            yield expected, row, message, call


def test_errors() -> None:
    for expected, row, message, call in cases(ERRORS):
        try:
            call()
            raised: Exception | None = None
        except LabelgapError as error:
            raised = error
        assert type(raised) is expected, (row, message, raised)
        assert re.search(message, str(raised)), (row, message, raised)
        # Whoever catches ValueError, as around scikit-learn, catches these too.
        assert isinstance(raised, MemoryError if expected is DeviceMemoryError else ValueError), row


def test_warnings() -> None:
    for expected, row, message, call in cases(WARNINGS):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [w.category for w in caught] == [expected], row
        assert re.search(message, str(caught[0].message)), (row, message, caught[0].message)
        assert Path(caught[0].filename).name == Path(__file__).name, (
            f"{row}: the warning points at the caller"
        )


def test_row_all_missing_is_left_out_and_decided() -> None:
    gap = np.where(np.arange(len(Y))[:, None] == 5, np.nan, Y)
    with_row = fit(gap, tol=1e-6)
    without = fit(np.delete(gap, 5, axis=0), np.delete(X, 5, axis=0), tol=1e-6)
    assert_allclose(with_row.decision_function(X), without.decision_function(X), atol=1e-3)
    assert set(with_row.predict(X[5:6]).ravel()) <= {0, 1}


def test_the_warning_says_which_gap_was_reached() -> None:
    with pytest.warns(ConvergenceWarning) as caught:
        fitted = fit(max_iter=1, tol=1e-12)
    reached = fitted.duality_gap_ / fitted.objective_
    assert f"relative duality gap of {reached:.3e} (asked for" in str(caught[0].message)


def table_rows() -> dict[str, str]:
    """From the name of a case to the table's "what happens"."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if "| `" in line[:3]]
    assert all(len(row) == 5 for row in cells)
    assert len({row[0] for row in cells}) == len(cells)
    return {row[0].strip("`"): row[2] for row in cells}


def test_the_table_names_the_tested_cases_and_their_classes() -> None:
    raised: dict[str, set[str]] = {row: set() for row in ACCEPTED}
    for expected, row, _, _ in [*cases(ERRORS), *cases(WARNINGS)]:
        raised.setdefault(row, set()).add(expected.__name__)
    named = {row: set(re.findall(r"`(\w+(?:Error|Warning))`", said)) for row, said in table_rows().items()}
    assert named == raised
