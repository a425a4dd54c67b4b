"""The search through many entries, which is narrowed, against the walk that brute force vouches for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from labelgap.kernels.threads import limit_threads
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.thresholds import best_threshold, sweep_entries
from oracles_thresholds import AVERAGES, NAMED

SHAPE = (2000, 40)


def many_entries(kind: str, dtype: type = np.float64, seed: int = 6) -> tuple[np.ndarray, ObservedLabels]:
    """About 72,000 entries; 65,536 and more are narrowed."""
    rng = np.random.default_rng(seed)
    margin = rng.normal(size=SHAPE)
    labels = (rng.random(SHAPE) < 1 / (1 + np.exp(2 - 2 * margin))).astype(float)
    labels[rng.random(SHAPE) < 0.1] = np.nan
    odd = np.array([-np.inf, -1.7e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, np.nextafter(1, 2), np.inf])
    with np.errstate(over="ignore"):
        scores = {
            "plain": margin,
            "probabilities": 1e-6 / (1e-6 + np.exp(-3 * margin)),
            "crowded": 1 + 1e-5 * margin,
            "rounded": margin.round(1),
            "whole": margin.round(),
            "with infinity": np.where(margin > 2.5, np.inf, margin),
            "with minus infinity": np.where(margin < -2.5, -np.inf, margin),
            "odd": np.where(np.abs(margin) > 1, rng.choice(odd, SHAPE), margin),
            "equal": np.zeros(SHAPE),
            "no order": rng.normal(size=SHAPE),
        }[kind].astype(dtype)
    return scores, ObservedLabels.from_dense(labels)


KINDS = ["plain", "probabilities", "crowded", "rounded", "whole", "with infinity", "with minus infinity"]
KINDS += ["odd", "equal", "no order"]


def check(scores: np.ndarray, labels: ObservedLabels, metric: LinearFractional, told: object) -> None:
    narrowed = best_threshold(scores, labels, metric)
    walked = best_threshold(scores, labels, metric, return_curve=True)
    assert narrowed.threshold == walked.threshold, told
    assert narrowed.value == pytest.approx(walked.value, abs=1e-14), told
    decided = labels.align(scores) >= narrowed.threshold
    assert narrowed.value == pytest.approx(float(metric(labels, decided)), abs=1e-14), told


def test_the_same_threshold_and_value():
    for kind in KINDS:
        for dtype in (np.float32, np.float64):
            scores, labels = many_entries(kind, dtype)
            assert labels.n_observed > 1 << 16
            for average, name in product(AVERAGES, ("f1", "accuracy", "balanced-accuracy")):
                check(scores, labels, get_metric(f"{average}-{name}"), (kind, dtype, average, name))
    for name, average in product(NAMED, AVERAGES):
        for kind in ("plain", "rounded"):
            scores, labels = many_entries(kind, seed=7)
            check(scores, labels, get_metric(f"{average}-{name}"), (kind, average, name))
    # Of few of the rows, where most labels are seldom a yes, in either order of the rows.
    scores, labels = many_entries("plain")
    rare = ObservedLabels.from_dense(np.where(scores > 3, labels.to_dense(), labels.to_dense() * 0))
    for average in AVERAGES:
        check(scores, rare, get_metric(f"{average}-f1"), average)
        check(-scores, rare, get_metric(f"{average}-f1"), average)


def test_any_signs_and_zero_denominators():
    rng = np.random.default_rng(4)
    n = (1 << 16) + 100
    for round_ in range(24):
        scores = rng.integers(-300, 400, n).astype(float) if round_ % 2 else rng.normal(size=n)
        case = {
            "vertex_numerator": rng.normal(size=4).round(1),
            "vertex_denominator": rng.integers(0, 3, 4).astype(float),
            "zero_division": float(round_ % 4 > 1),
            "groups": rng.integers(0, 5, n) if round_ % 3 else None,
            "n_groups": 5,
        }
        values = (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(np.int8)
        narrowed = sweep_entries(scores, values, **case)
        walked = sweep_entries(scores, values, **case, return_curve=True)
        assert narrowed.threshold == walked.threshold, round_
        assert narrowed.value == pytest.approx(walked.value, abs=1e-12), round_


def test_most_entries_are_not_sorted(monkeypatch):
    argsort = np.argsort
    sizes = []

    def watched(array, *args, **kwargs):
        sizes.append(array.size)
        return argsort(array, *args, **kwargs)

    monkeypatch.setattr(np, "argsort", watched)
    for kind in ("plain", "probabilities", "crowded", "rounded", "with infinity"):
        scores, labels = many_entries(kind)
        sizes.clear()
        best_threshold(scores, labels, "macro-f1")
        assert sizes, kind
        assert max(sizes) < labels.n_observed / 3, kind


def test_threads_do_not_show():
    # Enough entries for several threads.
    scores = np.concatenate([many_entries("rounded", seed=seed)[0] for seed in range(4)])
    noise = np.random.default_rng(0).normal(size=scores.shape)
    labels = ObservedLabels.from_dense((scores + noise > 1).astype(float))
    for average in AVERAGES:
        with limit_threads(1):
            expected = best_threshold(scores, labels, f"{average}-f1")
        for threads in (2, 3, 7):
            with limit_threads(threads):
                assert best_threshold(scores, labels, f"{average}-f1") == expected
