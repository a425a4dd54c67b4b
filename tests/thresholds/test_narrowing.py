"""The narrowed search against the walk through all entries, which brute force vouches for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.kernels.threads import limit_threads
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, get_metric
from labelgap.thresholds import best_threshold, narrowing, sweep_entries
from oracles_thresholds import random_problem

pytestmark = pytest.mark.pairwise

AVERAGES = ["micro", "instance", "macro"]
NAMED = ["f1", "f2", "jaccard", "accuracy", "precision", "recall", "specificity"]


def narrow_everything(monkeypatch: pytest.MonkeyPatch, n_buckets: int) -> None:
    for name, value in {
        "MANY_ENTRIES": 1,
        "_FEWEST_BUCKETS": 1,
        "_WORTH_SORTING": 1.0,
        "_ENTRIES_PER_THREAD": 1,
    }.items():
        monkeypatch.setattr(narrowing, name, value)
    monkeypatch.setattr(narrowing.HostEntries, "most_buckets", n_buckets)


def check(scores: np.ndarray, labels: ObservedLabels, metric: LinearFractional) -> None:
    narrowed = best_threshold(scores, labels, metric)
    walked = best_threshold(scores, labels, metric, return_curve=True)
    assert narrowed.threshold == walked.threshold
    assert narrowed.value == pytest.approx(walked.value, abs=1e-14)
    assert narrowed.value == pytest.approx(
        float(metric(labels, labels.align(scores) >= narrowed.threshold)), abs=1e-14
    )


@pytest.mark.parametrize("n_buckets", [2, 16, 4096])
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("rounds", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_small_problems(name, average, n_buckets, monkeypatch, rounds):
    narrow_everything(monkeypatch, n_buckets)
    rng = np.random.default_rng([AVERAGES.index(average), n_buckets, *name.encode()])
    for _ in range(rounds):
        scores, labels, _ = random_problem(rng, *rng.integers(1, 12, 2))
        check(scores, ObservedLabels.from_dense(labels), get_metric(f"{average}-{name}"))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("zero_division", [0.0, 1.0])
def test_any_signs_and_zero_denominators(grouped, zero_division, monkeypatch):
    narrow_everything(monkeypatch, 8)
    rng = np.random.default_rng(4)
    for _ in range(300):
        n = int(rng.integers(1, 40))
        scores = rng.integers(-3, 4, n).astype(float) if rng.random() < 0.5 else rng.normal(size=n)
        case = {
            "vertex_numerator": rng.normal(size=4).round(1),
            "vertex_denominator": rng.integers(0, 3, 4).astype(float),
            "zero_division": zero_division,
            "groups": rng.integers(0, 5, n) if grouped else None,
            "n_groups": 5,
        }
        values = rng.integers(0, 2, n).astype(np.int8)
        narrowed = sweep_entries(scores, values, **case)
        walked = sweep_entries(scores, values, **case, return_curve=True)
        assert narrowed.threshold == walked.threshold
        assert narrowed.value == pytest.approx(walked.value, abs=1e-12)


odd_scores = st.one_of(
    st.integers(-2, 2).map(float),
    st.floats(allow_nan=False, width=32),
    st.sampled_from([-np.inf, np.inf, 0.0, -0.0, 5e-324, 1.7e308]),
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(odd_scores, st.booleans()), min_size=1, max_size=30),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([1, 2, 64]),
    st.sampled_from(AVERAGES),
)
def test_odd_scores(entries, dtype, n_buckets, average):
    with np.errstate(over="ignore"):
        scores = np.array([score for score, _ in entries]).astype(dtype).reshape(1, -1)
    labels = ObservedLabels.from_dense(np.array([[float(yes) for _, yes in entries]]))
    with pytest.MonkeyPatch.context() as monkeypatch:
        narrow_everything(monkeypatch, n_buckets)
        for name in ("f1", "accuracy"):
            check(scores, labels, get_metric(f"{average}-{name}"))


def many_entries(kind: str, n: int, dtype: type) -> tuple[np.ndarray, ObservedLabels]:
    rng = np.random.default_rng(6)
    margin = rng.normal(size=(n, 40))
    labels = (rng.random((n, 40)) < 1 / (1 + np.exp(2 - 2 * margin))).astype(float)
    labels[rng.random((n, 40)) < 0.2] = np.nan
    scores = {
        "plain": margin,
        "probabilities": 1e-6 / (1e-6 + np.exp(-3 * margin)),
        "crowded": 1 + 1e-5 * margin,
        "rounded": margin.round(1),
        "with infinity": np.where(margin > 2.5, np.inf, margin),
    }[kind]
    return scores.astype(dtype), ObservedLabels.from_dense(labels)


KINDS = ["plain", "probabilities", "crowded", "rounded", "with infinity"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_many_entries(kind, dtype, average):
    scores, labels = many_entries(kind, 4000, dtype)
    assert labels.n_observed > narrowing.MANY_ENTRIES
    for name in ("f1", "accuracy", "balanced-accuracy"):
        check(scores, labels, get_metric(f"{average}-{name}"))


@pytest.mark.parametrize("kind", KINDS)
def test_most_entries_are_not_sorted(kind, monkeypatch):
    scores, labels = many_entries(kind, 4000, np.float64)
    sizes = []
    argsort = np.argsort

    def watched(array, *args, **kwargs):
        sizes.append(array.size)
        return argsort(array, *args, **kwargs)

    monkeypatch.setattr(narrowing.np, "argsort", watched)
    best_threshold(scores, labels, "macro-f1")
    assert sizes
    assert max(sizes) < labels.n_observed / 3


@pytest.mark.parametrize("average", AVERAGES)
def test_threads_do_not_show(average, monkeypatch):
    narrow_everything(monkeypatch, 64)
    scores, labels = many_entries("rounded", 100, np.float64)
    with limit_threads(1):
        expected = best_threshold(scores, labels, f"{average}-f1")
    for threads in (2, 3, 7):
        with limit_threads(threads):
            assert best_threshold(scores, labels, f"{average}-f1") == expected
