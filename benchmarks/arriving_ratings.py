"""A batch of five per cent more ratings: ``Recommender.partial_fit`` against a fit from scratch.

Both are the default: the fit from scratch chooses all settings, as a user without ``partial_fit`` would have
it do; the batch keeps them and goes on from the fitted model. A third line is a fit from scratch at the same
settings, which chooses nothing. Ratings are generated, as skewed as real ones; a tenth of the batch is of
users that were not known.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.generated_ratings import make_split
from benchmarks.harness import Line, Options, Report
from labelgap import Recommender
from labelgap.exceptions import LabelgapWarning

# Users, items and ratings before the batch.
SIZES = ((1_000, 600, 60_000),)
QUICK_SIZES = ((60, 30, 600),)
MORE, MOST, STRANGERS = 0.05, 0.2, 0.1
QUESTIONS: dict[str, dict[str, Any]] = {"decide": {}, "lists": {"unobserved": "negative"}}
Triplets = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def make_batches(n: int, n_items: int, n_ratings: int, seed: int = 0) -> tuple[Triplets, Triplets]:
    """The ratings of the fit, and five per cent more; users of the last tenth of these are new."""
    split = make_split((n, n_items), n_ratings, held_out=MORE, seed=seed)
    first, more = split.train, split.validation
    users = more.users.astype(np.int64)
    strange = np.arange(len(users)) >= (1 - STRANGERS) * len(users)
    # The same persons under other names, so that they are not known.
    users[strange] += n
    return (first.users, first.items, first.values), (users, more.items, more.values)


def run(options: Options) -> Report:
    """Each size once for the fits from scratch, and as often as asked for the batch."""
    report = Report(
        "arriving_ratings",
        "Five per cent more ratings: partial_fit against a fit from scratch",
        "A default Recommender, fitted to the first ratings, learns from a batch of 5 % more of them; beside "
        "it, the default fit from scratch to all ratings, and one at the same settings that chooses nothing. "
        "The objective of the batch is compared with the one at the same settings: both are within their "
        "gaps of the optimum.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        for size in QUICK_SIZES if options.quick else SIZES:
            first, more = make_batches(*size)
            for question, settings in QUESTIONS.items():
                report.lines += _lines(question, settings, first, more, options)
    return report


def _lines(
    question: str, settings: dict[str, Any], first: Triplets, more: Triplets, options: Options
) -> Iterator[Line]:
    every = tuple(np.concatenate(pair) for pair in zip(first, more, strict=True))
    known = Recommender(random_state=0, **settings).fit(first)
    batches = []
    for _ in range(options.repeats):
        model = copy.copy(known)
        began = time.perf_counter()
        model.partial_fit(more)
        batches.append(time.perf_counter() - began)
    seconds = float(np.median(batches))
    began = time.perf_counter()
    Recommender(random_state=0, **settings).fit(every)
    scratch = time.perf_counter() - began
    given = {
        "trace_penalty": model.trace_penalty_,
        "intercept_penalty": model.intercept_penalty_,
        "count_weighting": model.count_weighting_,
        "threshold": "train",
    }
    if settings:
        given |= {
            name: getattr(model, f"{name}_") for name in ("silence_weight", "dislike_weight", "confidence")
        }
    began = time.perf_counter()
    same = Recommender(random_state=0, **settings, **given).fit(every)
    alone = time.perf_counter() - began
    apart = abs(model.objective_ - same.objective_) / same.objective_
    size = f"{len(model.user_ids_):,} x {len(model.item_ids_):,}, {len(every[0]):,} ratings"
    yield Line(f"{question}: fit from scratch, default", size, scratch)
    yield Line(f"{question}: fit from scratch at the same settings", size, alone)
    yield Line(
        f"{question}: partial_fit of 5 % more",
        size,
        seconds,
        seconds / scratch,
        "x from scratch",
        target=f"≤ {MOST:g}",
        met=seconds <= MOST * scratch,
        note=f"relative gap {model.relative_gap_:.1e}; objectives differ by {apart:.1e} of them",
    )
