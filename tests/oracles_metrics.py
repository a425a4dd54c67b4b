"""Slow, obvious ways to the numbers of labels and metrics."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Formula = Callable[[float, float, float, float], tuple[float, float]]

# (tp, fp, fn, tn) -> numerator, denominator; written out once more, independently of the registry.
FORMULAS: dict[str, Formula] = {
    "accuracy": lambda tp, fp, fn, tn: (tp + tn, tp + fp + fn + tn),
    "hamming": lambda tp, fp, fn, tn: (tp + tn, tp + fp + fn + tn),
    "cost-accuracy": lambda tp, fp, fn, tn: (tp + tn, tp + fp + fn + tn),
    "precision": lambda tp, fp, fn, tn: (tp, tp + fp),
    "recall": lambda tp, fp, fn, tn: (tp, tp + fn),
    "specificity": lambda tp, fp, fn, tn: (tn, tn + fp),
    "jaccard": lambda tp, fp, fn, tn: (tp, tp + fp + fn),
    "f1": lambda tp, fp, fn, tn: (2 * tp, 2 * tp + fp + fn),
    "f2": lambda tp, fp, fn, tn: (5 * tp, 5 * tp + 4 * fn + fp),
    "f0.5": lambda tp, fp, fn, tn: (1.25 * tp, 1.25 * tp + 0.25 * fn + fp),
}


def slow_metric(
    formula: Formula,
    average: str,
    decisions: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None = None,
    balanced: bool = False,
    zero_division: float = 0.0,
) -> float:
    """The metric by a loop over groups and cells of a dense Y with NaN for what is not observed."""
    n, L = Y.shape
    cells = [(i, j) for i in range(n) for j in range(L) if not math.isnan(Y[i, j])]
    if average == "micro":
        groups = [cells]
    elif average == "instance":
        groups = [[c for c in cells if c[0] == i] for i in range(n)]
    else:
        groups = [[c for c in cells if c[1] == j] for j in range(L)]
    values = []
    for group in groups:
        if not group:
            continue
        weight = {c: 1.0 if weights is None else float(weights[c]) for c in group}
        if balanced:
            positive = sum(w for c, w in weight.items() if Y[c] == 1)
            negative = sum(w for c, w in weight.items() if Y[c] == 0)
            if positive and negative:
                weight = {c: w / (positive if Y[c] == 1 else negative) for c, w in weight.items()}
        tp = sum(w for c, w in weight.items() if Y[c] == 1 and decisions[c] == 1)
        fp = sum(w for c, w in weight.items() if Y[c] == 0 and decisions[c] == 1)
        fn = sum(w for c, w in weight.items() if Y[c] == 1 and decisions[c] == 0)
        tn = sum(w for c, w in weight.items() if Y[c] == 0 and decisions[c] == 0)
        above, below = formula(tp, fp, fn, tn)
        values.append(above / below if below else zero_division)
    return sum(values) / len(values)


def slow_ranking(kind: str, scores: np.ndarray, Y: np.ndarray, k: int) -> float:
    """Precision, recall or nDCG at k by sorting each row's observed entries in Python."""
    values = []
    for row_scores, row in zip(scores, Y, strict=True):
        seen = [j for j in range(len(row)) if not math.isnan(row[j])]
        ranked = [row[j] for j in sorted(seen, key=lambda j: (-row_scores[j], j))]
        positives = sum(ranked)
        if kind == "precision" and seen:
            values.append(sum(ranked[:k]) / min(k, len(seen)))
        elif kind == "recall" and positives:
            values.append(sum(ranked[:k]) / positives)
        elif kind == "ndcg" and positives:
            gain = sum(y / math.log2(t + 2) for t, y in enumerate(ranked[:k]))
            best = sum(1 / math.log2(t + 2) for t in range(int(min(k, positives))))
            values.append(gain / best)
    return sum(values) / len(values) if values else math.nan


def random_labels(
    rng: np.random.Generator, n: int, L: int, observed: float = 0.6, positive: float = 0.4
) -> np.ndarray:
    """A dense label matrix with NaN for what is not observed; at least one entry is."""
    Y = (rng.random((n, L)) < positive).astype(float)
    Y[rng.random((n, L)) >= observed] = np.nan
    if np.isnan(Y).all():
        Y[0, 0] = 1.0
    return Y
