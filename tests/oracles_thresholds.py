"""Slow and obvious answers for the threshold search: every cut, every count, one entry at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional

AVERAGES = ("micro", "instance", "macro")
NAMED = ("f1", "f2", "jaccard", "accuracy", "precision", "recall", "specificity", "balanced-accuracy")


@dataclass(frozen=True)
class Cut:
    """One decision of the form "all entries with a score of at least ``lowest``"."""

    lowest: float
    included: tuple[bool, ...]
    value: float

    @property
    def n_included(self) -> int:
        return sum(self.included)


def group_mean(
    included: Sequence[bool],
    values: Sequence[int],
    weights: Sequence[float],
    groups: Sequence[int],
    numerator: Sequence[float],
    denominator: Sequence[float],
    zero_division: float,
) -> float:
    """Ψ: the mean over the groups that have an entry, from explicit shares."""
    counts: dict[int, dict[str, list[float]]] = {}
    for yes, value, weight, group in zip(included, values, weights, groups, strict=True):
        cell = {(True, 1): "tp", (True, 0): "fp", (False, 1): "fn", (False, 0): "tn"}[bool(yes), int(value)]
        counts.setdefault(int(group), {"tp": [], "fp": [], "fn": [], "tn": []})[cell].append(float(weight))
    ratios = []
    for cells in counts.values():
        sums = [math.fsum(cells[name]) for name in ("tp", "fp", "fn", "tn")]
        total = math.fsum(sums)
        shares = [1.0] + [x / total for x in sums]
        above = math.fsum(c * x for c, x in zip(numerator, shares, strict=True))
        below = math.fsum(c * x for c, x in zip(denominator, shares, strict=True))
        ratios.append(zero_division if below == 0 else above / below)
    return math.fsum(ratios) / len(ratios)


def every_cut(scores: Sequence[float], value_of: Callable[[tuple[bool, ...]], float]) -> list[Cut]:
    """All decisions that a threshold can make, from the fewest positives to the most."""
    levels = sorted({float(score) for score in scores}, reverse=True)
    if levels[0] != math.inf:
        levels.insert(0, math.inf)
    cuts = []
    for level in levels:
        included = tuple(bool(score >= level) for score in scores)
        cuts.append(Cut(level, included, value_of(included)))
    return cuts


def best_cut(cuts: Sequence[Cut], rounding: float = 1e-13) -> Cut:
    """The best of the cuts; among equals, up to rounding, the one with the fewest positives."""
    largest = max(cut.value for cut in cuts)
    return next(cut for cut in cuts if cut.value >= largest - rounding * max(1.0, abs(largest)))


def random_problem(
    rng: np.random.Generator, n: int | None = None, L: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Small scores, labels with NaN, and weights (or None), with ties, empty rows and empty columns."""
    n = int(rng.integers(1, 8)) if n is None else n
    L = int(rng.integers(1, 7)) if L is None else L
    scores = rng.normal(size=(n, L))
    if rng.random() < 0.5:
        scores = np.round(scores * rng.choice([1.0, 2.0]))
    if rng.random() < 0.1:
        scores[rng.random((n, L)) < 0.2] = rng.choice([-np.inf, np.inf])
    labels = (rng.random((n, L)) < rng.choice([0.1, 0.5, 0.9])).astype(float)
    labels[rng.random((n, L)) < rng.choice([0.0, 0.3, 0.7])] = np.nan
    if rng.random() < 0.3:
        labels[int(rng.integers(n))] = np.nan
    if rng.random() < 0.3:
        labels[:, int(rng.integers(L))] = np.nan
    if np.isnan(labels).all():
        labels[0, 0] = float(rng.integers(2))
    weights = rng.choice([0.1, 0.3, 0.7, 1.0, 3.0], size=(n, L)) if rng.random() < 0.5 else None
    return scores, labels, weights


def observed(labels: np.ndarray, weights: np.ndarray | None = None) -> ObservedLabels:
    found = ObservedLabels.from_dense(labels)
    return found if weights is None else found.with_weights(weights)


def random_metric(rng: np.random.Generator, average: str, balanced: bool = False) -> LinearFractional:
    """Any signs above, a denominator that stays positive below."""
    cells = ["const", "tp", "fp", "fn", "tn"]
    numerator = dict(zip(cells, rng.normal(size=5).round(2), strict=True))
    denominator = dict(zip(cells, rng.uniform(0.1, 2, size=5).round(2), strict=True))
    return LinearFractional(numerator, denominator, average=average, balanced=balanced)
