"""The compiled pass over the entries against the losses of numpy, entry by entry."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.kernels import loss_passes, threads
from labelgap.kernels.losses import _log_of
from labelgap.losses import FAMILIES, LOSSES
from labelgap.objective.cpu.entries import WeightedLoss

pytestmark = pytest.mark.pairwise

N_LABELS = 7
ALL = {**LOSSES, **FAMILIES}
CLOSE = {"rtol": 1e-12, "atol": 1e-14}


def entries(n, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(N_LABELS, size=n).astype(np.int32)
    return labels, scale * rng.standard_normal(n), rng.standard_normal(N_LABELS), rng.integers(2, size=n)


def passes_of(loss, labels, targets, weights=None, offsets=None):
    function = WeightedLoss(loss, targets, weights, 3.0 if weights is None else weights.sum(), offsets)
    return function.passes(labels, N_LABELS)


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("name", list(ALL))
def test_value_slopes_curvatures_and_sums_are_those_of_the_loss(name, shifted, weighted, scale):
    loss = ALL[name]()
    n = 1500
    labels, low_rank, b, y = entries(n, scale=scale)
    rng = np.random.default_rng(1)
    targets = y.astype(np.int8) if name in LOSSES else np.where(rng.random(n) < 0.3, rng.random(n), y)
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    offsets = rng.standard_normal(n) if shifted else None
    weight = (1.0 if weights is None else weights) / (3.0 if weights is None else weights.sum())
    passes = passes_of(loss, labels, targets, weights, offsets)
    z = low_rank + b[labels] + (0.0 if offsets is None else offsets)
    value, slope = loss.value_and_gradient(z, targets)
    curvature = loss.curvature(z, targets) * weight
    found, gradient, sums = passes.with_label_sums(low_rank, b)
    assert_allclose(found, np.sum(value * weight), rtol=1e-12)
    assert_allclose(gradient, slope * weight, **CLOSE)
    assert_allclose(passes.curvature(low_rank, b), curvature, **CLOSE)
    some = slice(400, 1100)
    assert_array_equal(passes.curvature(low_rank[some], b, some), passes.curvature(low_rank, b)[some])
    for answer, expected in zip(
        sums, (np.maximum(gradient, 0), np.minimum(gradient, 0), curvature), strict=True
    ):
        assert_allclose(answer, np.bincount(labels, expected, N_LABELS), rtol=1e-11, atol=1e-14)
    # Without the sums, and without an intercept.
    assert passes.value_and_gradient(low_rank, b)[0] == found
    assert_array_equal(passes.value_and_gradient(low_rank, b)[1], gradient)
    assert_allclose(passes.value_and_gradient(low_rank + b[labels], None)[1], gradient, **CLOSE)
    assert_allclose(passes.curvature(low_rank + b[labels], None), curvature, **CLOSE)


@pytest.mark.parametrize("name", ["logistic", "exponential", "poisson"])
def test_far_scores_stay_finite_and_right(name):
    loss = ALL[name]()
    z = np.array([-900.0, -300.0, -60.0, 60.0, 300.0, 900.0])
    labels = np.zeros(6, dtype=np.int32)
    for y in (0, 1):
        targets = np.full(6, y, dtype=np.int8)
        value, slope = loss.value_and_gradient(z, targets)
        passes = passes_of(loss, labels, targets)
        found, gradient = passes.value_and_gradient(z, None)
        assert_allclose(found, np.sum(value) / 3.0, rtol=1e-11)
        # Beyond e^−350 what is left of a slope is not told apart from it.
        assert_allclose(gradient, slope / 3.0, rtol=1e-11, atol=1e-150)


def test_small_losses_keep_their_digits():
    # log(1 + e^−30) is 1e-13: a sum of 1 + e^−30 would have lost it.
    n = 1000
    passes = passes_of(LOSSES["logistic"](), np.zeros(n, dtype=np.int32), np.ones(n, dtype=np.int8))
    assert_allclose(
        passes.value_and_gradient(np.full(n, 30.0), None)[0], n / 3.0 * np.log1p(np.exp(-30.0)), rtol=1e-13
    )


@pytest.mark.parametrize("n", [0, 1, 511, 512, 513, 5000])
def test_nothing_depends_on_threads_or_blocks(n, monkeypatch):
    monkeypatch.setattr(loss_passes, "_CHUNK", 600)
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)
    labels, z, b, y = entries(n)
    targets = y.astype(np.int8)
    passes = passes_of(LOSSES["logistic"](), labels, targets)
    with threads.limit_threads(1):
        alone = (*passes.with_label_sums(z, b), passes.curvature(z, b))
    with threads.limit_threads(3):
        together = (*passes.with_label_sums(z, b), passes.curvature(z, b))
    for one, other in zip(alone, together, strict=True):
        assert_array_equal(one, other)
    assert_allclose(alone[0], np.sum(LOSSES["logistic"]().value(z + b[labels], targets)) / 3.0, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("name", ["logistic", "bernoulli"])
def test_the_conjugate_of_labels_is_that_of_the_loss(name, shifted, weighted):
    n = 1500
    labels, z, _, y = entries(n, scale=3.0)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    offsets = rng.standard_normal(n) if shifted else None
    function = WeightedLoss(
        ALL[name](), y.astype(np.int8), weights, 3.0 if weights is None else weights.sum(), offsets
    )
    passes = function.passes(labels, N_LABELS)
    _, slopes = function.value_and_gradient(z)
    for scale in (1.0, 0.7, 0.01):
        found = passes.conjugate(slopes, scale)
        assert_allclose(found, function.conjugate(slopes, scale), rtol=1e-12, atol=1e-13)
    # The ends, where one probability is 0, and beyond.
    weight = (np.ones(n) if weights is None else weights) / function.total
    ends = np.where(y == 1, -1.0, 1.0) * rng.integers(2, size=n) * weight
    assert_allclose(passes.conjugate(ends, 1.0), function.conjugate(ends, 1.0), atol=1e-12)
    assert passes.conjugate(1.001 * ends, 1.0) == np.inf
    assert passes.conjugate(-ends, 1.0) == np.inf


def test_only_labels_under_the_logistic_loss_have_a_compiled_conjugate():
    labels, _, _, y = entries(50)
    for name in ALL:
        passes = passes_of(ALL[name](), labels, y.astype(float))
        assert passes.conjugate(np.zeros(50), 1.0) is None


def test_a_logarithm_has_all_its_digits():
    x = np.concatenate([np.exp(-np.linspace(0, 700, 999)), np.linspace(1e-3, 1, 999), [1 - 1e-15, 0.5**0.5]])
    found = np.empty_like(x)

    @njit
    def fill(x, found):
        for e in range(len(x)):
            found[e] = _log_of(x[e])

    fill(x, found)
    assert_allclose(found, np.log(x), rtol=2e-15)
