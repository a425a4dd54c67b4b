"""Slow, obvious answers where only some of the yes are recorded: one entry at a time, every threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, stats
from scipy.special import expit

from labelgap.metrics import LinearFractional


def slow_counts(
    decided: Sequence[bool],
    recorded: Sequence[bool],
    rates: Sequence[float],
    weights: Sequence[float] | None = None,
) -> tuple[float, float, float, float]:
    """TP, FP, FN and TN of one group of entries, cut to what is possible."""
    weights = [1.0] * len(decided) if weights is None else weights
    entries = list(zip(decided, recorded, rates, weights, strict=True))
    total = math.fsum(w for _, _, _, w in entries)
    yes = math.fsum(w for d, _, _, w in entries if d)
    found = math.fsum(w / (1 - rate) for d, r, rate, w in entries if d and r)
    positive = min(math.fsum(w / (1 - rate) for _, r, rate, w in entries if r), total)
    # As many of the decided are yes as they hold, and at least those that do not fit elsewhere.
    tp = min(max(found, yes + positive - total, 0.0), yes, positive)
    fp, fn = yes - tp, positive - tp
    return tp, fp, fn, max(total - tp - fp - fn, 0.0)


def slow_metric(metric: LinearFractional, counts: Sequence[tuple[float, float, float, float]]) -> float:
    """The mean of the metric over groups, one at a time."""
    values = []
    for tp, fp, fn, tn in counts:
        positive, negative = tp + fn, fp + tn
        if metric.balanced and positive > 1e-9 and negative > 1e-9:
            tp, fn, fp, tn = tp / positive, fn / positive, fp / negative, tn / negative
        total = tp + fp + fn + tn
        fractions = np.array([1.0, tp / total, fp / total, fn / total, tn / total])
        below = float(metric.denominator_coefficients @ fractions)
        above = float(metric.numerator_coefficients @ fractions)
        values.append(metric.zero_division if abs(below) < 1e-12 else above / below)
    return math.fsum(values) / len(values)


def groups_of(shape: tuple[int, int], average: str) -> np.ndarray:
    """The group of each entry, as a matrix."""
    rows, cols = np.indices(shape)
    return {"micro": np.zeros(shape, int), "instance": rows, "macro": cols}[average]


def slow_group_counts(
    decided: np.ndarray,
    recorded: np.ndarray,
    rates: np.ndarray,
    groups: np.ndarray,
    weights: np.ndarray | None = None,
) -> list[tuple[float, float, float, float]]:
    """The counts of every group that has an entry, from flat arrays."""
    answers = []
    for group in sorted(set(groups.tolist())):
        mine = groups == group
        answers.append(
            slow_counts(
                decided[mine], recorded[mine], rates[mine], None if weights is None else weights[mine]
            )
        )
    return answers


def random_unlabelled(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small scores with ties, recorded yes (at least one), and ρ for each label."""
    n, L = int(rng.integers(1, 8)), int(rng.integers(1, 7))
    scores = rng.normal(size=(n, L))
    if rng.random() < 0.5:
        scores = np.round(scores * rng.choice([1.0, 2.0]))
    if rng.random() < 0.1:
        scores[rng.random((n, L)) < 0.2] = rng.choice([-np.inf, np.inf])
    recorded = rng.random((n, L)) < rng.choice([0.05, 0.3, 0.6, 1.0])
    if not recorded.any():
        recorded[0, 0] = True
    rates = np.full(L, rng.choice([0.0, 0.3, 0.5, 0.9])) if rng.random() < 0.5 else rng.uniform(0, 0.9, L)
    return scores, recorded, rates


def cross_fitted_scores(X: np.ndarray, recorded: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Scores of all entries by ridge regressions on X, each entry by one that took it as unlabelled."""
    folds = rng.integers(0, 5, recorded.shape)
    design = np.column_stack([X, np.ones(len(X))])
    gram = design.T @ design + np.eye(design.shape[1])
    scores = np.empty(recorded.shape)
    for fold in range(5):
        fitted = design @ np.linalg.solve(gram, design.T @ (recorded & (folds != fold)))
        scores[folds == fold] = fitted[folds == fold]
    return scores


def slow_plateau(scores: np.ndarray, recorded: np.ndarray, luck: float) -> float:
    """The recorded fraction of the top part, of all there are, that is surely highest."""
    hits = recorded[np.argsort(-scores)]
    best, answer = -1.0, math.nan
    for size in range(10, len(hits) + 1):
        found = int(hits[:size].sum())
        lower = stats.beta.ppf(luck, found, size - found + 1) if found else 0.0
        if lower > best:
            best, answer = lower, found / size
    return answer


def slow_curve(scores: np.ndarray, recorded: np.ndarray) -> float:
    """c of the likeliest c·σ(αt + β), t the scores themselves, by a search that knows no gradient."""

    def minus_log_likelihood(parameters: np.ndarray) -> float:
        c, alpha, beta = expit(parameters[0]), parameters[1], parameters[2]
        p = np.clip(c * expit(alpha * scores + beta), 1e-12, 1 - 1e-12)
        return -float(np.mean(np.where(recorded, np.log(p), np.log1p(-p))))

    found = optimize.minimize(minus_log_likelihood, [0.0, 1.0, 0.0], method="Nelder-Mead")
    return float(expit(found.x[0]))
