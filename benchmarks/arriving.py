"""A batch of five per cent more rows or ratings: ``partial_fit`` against a fit from scratch.

Both are the default: the fit from scratch chooses all settings, as a user without ``partial_fit`` would have
it do; the batch keeps them and goes on from the fitted model. Data are generated: dense features, and sparse
ones of the size of Delicious cut to fewer labels; ratings as skewed as real ones, for decisions and for
lists, and a tenth of a batch of ratings is of users that were not known.
"""

from __future__ import annotations

import copy
import statistics
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.harness import Line, Options, Report, timed
from labelgap import LowRankClassifier, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import LabelgapWarning

MORE, MOST, STRANGERS = 0.05, 0.2, 0.1


def lines_of(what: str, size: str, make: Callable[[], Any], parts: Any, repeats: int) -> Iterator[Line]:
    """``parts`` are the arguments of a fit to the data before the batch, to the batch, and to both."""
    before, batch, both = parts
    # As partial_fit keeps what it was given, the first fit is one of it, too.
    first = make().partial_fit(*before)
    times = []
    for _ in range(repeats):
        model = copy.deepcopy(first)
        times.append(timed(lambda model=model: model.partial_fit(*batch))[0])
    seconds = statistics.median(times)
    scratch, _ = timed(lambda: make().fit(*both))
    yield Line(f"{what}fit from scratch, default", size, scratch)
    yield Line(
        f"{what}partial_fit of 5 % more",
        size,
        seconds,
        seconds / scratch,
        "x from scratch",
        target=f"≤ {MOST:g}",
        met=seconds <= MOST * scratch,
        note=f"relative gap {model.relative_gap_:.1e}",
    )


def row_parts(options: Options) -> Iterator[tuple[str, str, Callable[[], Any], Any]]:
    """Dense and sparse features."""
    n, d, n_labels = (200, 5, 6) if options.quick else (2_000, 30, 40)
    sizes = {"n": n, "n_features": d, "n_labels": n_labels}
    made = make_low_rank_labels(**sizes, observed=0.3, noise=True, random_state=0)
    sparse = data.generate(200, 10, 20, 8) if options.quick else data.generate(4_000, 10, 400, 60)
    for kind, X, Y in (("dense", made.X, made.Y_observed), ("sparse", sparse.X, sparse.Y)):
        start = round(len(Y) / (1 + MORE))
        known = int((~np.isnan(Y)).sum())
        size = f"{len(Y):,} x {X.shape[1]} ({kind}), {Y.shape[1]} labels, {known:,} observed"
        parts = (X[:start], Y[:start]), (X[start:], Y[start:]), (X, Y)
        yield "", size, partial(LowRankClassifier, random_state=0), parts


def rating_parts(options: Options) -> Iterator[tuple[str, str, Callable[[], Any], Any]]:
    """Ratings, for decisions and for lists."""
    shape, n = ((60, 30), 600) if options.quick else ((1_000, 600), 60_000)
    first, more = data.make_ratings(shape, n, round(MORE * n))
    users = more.users.astype(np.int64)
    # The same persons under other names, so that they are not known.
    users[np.arange(len(users)) >= (1 - STRANGERS) * len(users)] += shape[0]
    before, batch = (first.users, first.items, first.values), (users, more.items, more.values)
    both = tuple(np.concatenate(pair) for pair in zip(before, batch, strict=True))
    size = f"{len(np.unique(both[0])):,} x {len(np.unique(both[1])):,}, {len(both[0]):,} ratings"
    for what, unobserved in (("decide: ", "missing"), ("lists: ", "negative")):
        make = partial(Recommender, unobserved=unobserved, random_state=0)
        yield what, size, make, ((before,), (batch,), (both,))


def run(options: Options) -> Report:
    """Rows and ratings."""
    report = Report(
        "arriving",
        "Five per cent more data: partial_fit against a fit from scratch",
        "A default LowRankClassifier or Recommender, fitted to the first rows or ratings, learns from a "
        "batch of 5 % more of them; beside it, the default fit from scratch to all of them.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        for given in (*row_parts(options), *rating_parts(options)):
            report.lines += lines_of(*given, options.repeats)
    return report
