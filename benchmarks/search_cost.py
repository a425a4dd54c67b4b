"""What the search for penalties costs, as a multiple of the last fit, and what a thorough one would choose.

The sizes are those of Bibtex, Delicious and MovieLens-1M, with generated data. The search is everything
before the last fit: the choice of λ, λ₂, κ, the weighting of labels or ratings and the features, and the
out-of-fold scores that the threshold comes from. The last fit starts from one of the search. What a fit takes
that is given the chosen settings and starts from nothing is another line.

The thorough search looks at all rows. Up to the size of Bibtex it looks at all folds and in fine steps, too;
of larger problems that would take hours. Its choice is judged by the same test labels. For Corel5k and Bibtex
themselves it takes minutes: ``python -m benchmarks.search_cost corel5k bibtex`` prints their lines.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from unittest.mock import patch

import scipy.sparse as sp
from sklearn.base import clone

from benchmarks import feature_sets
from benchmarks.default_fit import (
    METRIC,
    Outcome,
    compile_all,
    default_classifier,
    default_recommender,
)
from benchmarks.feature_sets import FeatureSet, read, read_dense
from benchmarks.generated_ratings import make_split
from benchmarks.harness import Line, Options, Report
from benchmarks.tables import columns
from labelgap.exceptions import InvalidInputError, LabelgapWarning
from labelgap.fitting.choice import PenaltyChoice

MOST, WORSE = 3.0, 0.001
READERS = {
    "emotions": read_dense,
    "cal500": read_dense,
    "yeast": read_dense,
    "scene": read_dense,
    "corel5k": read,
    "bibtex": read,
}
# Those whose thorough search takes no more than seconds.
SMALL = ("emotions", "cal500", "yeast", "scene")


def thorough(data: FeatureSet, *, all_folds: bool) -> Outcome:
    """A fit whose search leaves nothing out."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(PenaltyChoice, "samples_rows", False))
        if all_folds:
            stack.enter_context(patch.object(PenaltyChoice, "samples_folds", False))
        return default_classifier(data)


def from_scratch(data: FeatureSet, found: Outcome) -> float:
    """Seconds of one fit with the settings that were chosen, without any choice."""
    chosen = found.model
    features = "linear" if chosen.feature_map_ is None else chosen.feature_map_
    # A λ that is given is about X as given, unless the scaling that it was chosen with is given, too.
    scaling = "none" if chosen.feature_scales_ is None else "root" if sp.issparse(data.X) else "standard"
    model = clone(chosen).set_params(
        trace_penalty=chosen.trace_penalty_,
        ridge_penalty=chosen.ridge_penalty_,
        intercept_penalty=chosen.intercept_penalty_,
        label_weighting=chosen.label_weighting_,
        features=features,
        feature_scaling=scaling,
        threshold="train",
    )
    began = time.perf_counter()
    model.fit(data.X, data.labels)
    return time.perf_counter() - began


def scratch_line(size: str, found: Outcome, seconds: float) -> Line:
    """The search as a multiple of a fit that was given its choice."""
    search = found.search_seconds
    said = f"one fit with the chosen settings, from scratch: {seconds:.3g} s"
    return Line("search", size, search, search / seconds, "x a fit from scratch", note=said)


def cost_line(size: str, found: Outcome) -> Line:
    """The search as a multiple of the last fit."""
    assert found.search is not None
    said = f"whole fit {found.seconds:.3g} s, {METRIC} {found.value:.4f}"
    met = found.search <= MOST
    return Line(
        "search", size, found.search_seconds, found.search, "x last fit", f"≤ {MOST:g}", met, note=said
    )


def choice_line(size: str, found: Outcome, other: Outcome, *, all_folds: bool) -> Line:
    """What the choice of the search is worth beside that of a thorough one."""
    what = "thorough search, all folds" if all_folds else "thorough search, all rows"
    said = f"{METRIC} {other.value:.4f}, the search {found.value - other.value:+.4f}"
    met = found.value - other.value >= -WORSE
    return Line(
        what, size, other.seconds, other.seconds / found.seconds, "x default", f"≥ −{WORSE}", met, note=said
    )


def generated(options: Options) -> list[tuple[str, FeatureSet, bool]]:
    """Problems of the sizes of Bibtex and Delicious, and whether their thorough search takes all folds."""
    if options.quick:
        return [("small", feature_sets.generate(600, 200, 60, 20), True)]
    return [
        ("Bibtex", feature_sets.generate(4_880, 2_515, 1_836, 159, n_set=69, spread=3.0), True),
        ("Delicious", feature_sets.generate(), False),
    ]


def compared(names: Sequence[str], report: Report) -> None:
    """Add the lines of data sets of the folder that are at hand."""
    for name in names:
        try:
            data = READERS[name](name)
        except InvalidInputError as error:
            report.remarks.append(f"{name} was not run: {error}")
            continue
        found, other = default_classifier(data), thorough(data, all_folds=True)
        report.lines.append(choice_line(name, found, other, all_folds=True))


def run(options: Options) -> Report:
    """Each fit once: a user fits once."""
    report = Report(
        "search",
        "What the search for penalties costs",
        "Default fits, once each, at 20 % of the labels observed. The search is everything before the last "
        "fit. A thorough search looks at all rows, and where the line says so at all folds in fine steps; "
        "its line has the test metric of its choice, and how far the choice of the default is above it.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        compile_all()
        for name, data, all_folds in generated(options):
            size = f"size of {name}: {data.X.shape[0]:,} x {data.X.shape[1]:,}, {data.labels.shape[1]} labels"
            found = default_classifier(data)
            report.lines.append(cost_line(size, found))
            report.lines.append(scratch_line(size, found, from_scratch(data, found)))
            other = thorough(data, all_folds=all_folds)
            report.lines.append(choice_line(size, found, other, all_folds=all_folds))
        shape, n_ratings = ((300, 200), 10_000) if options.quick else ((6040, 3952), 1_000_000)
        split = make_split(shape, n_ratings)
        found = default_recommender(split.train, split.held_out)
        report.lines.append(cost_line(f"{n_ratings:,} ratings", found))
        compared(() if options.quick else SMALL, report)
    return report


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        asked = Report("search", "", "")
        compared(sys.argv[1:] or list(READERS), asked)
    for line in asked.lines:
        print("  ".join(columns(asdict(line))))
    print("\n".join(asked.remarks))
