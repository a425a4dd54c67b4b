"""What may be allocated beside the data, and ways around large arrays."""

from __future__ import annotations

import tracemalloc

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap._memory import give_back_freed
from labelgap.labels import ObservedLabels
from labelgap.labels.sources import chosen_before
from labelgap.objective.protocol import entries_kept_within, entries_within, may_form
from labelgap.solvers.linalg import balanced, product_values, standard_normal
from solver_problems import make_problem, random_factors

N, N_LABELS, MEGABYTES = 4_000, 1500, 4


def large_objective(n, n_labels, kind):
    """Of five recorded entries for each row."""
    rng = np.random.default_rng(0)
    X = sp.random_array((n, 30), density=0.1, format="csr", rng=rng)
    recorded = np.sort(rng.choice(n * n_labels, size=5 * n, replace=False))
    values = np.ones(len(recorded), dtype=int)
    settings = {"block_entries": entries_within(MEGABYTES)}
    if kind == "observed":
        values = rng.integers(0, 2, len(recorded))
    else:
        settings |= {"flip_rate": np.full(n_labels, 0.3), "score_bound": 5.0}
    labels = ObservedLabels.from_triplets(*np.divmod(recorded, n_labels), values, shape=(n, n_labels))
    loss = "squared" if kind == "recorded, squared" else "logistic"
    problem = make_problem(X, labels, loss, **settings)
    return problem.objective(labels)


def test_nothing_of_the_size_of_the_label_matrix_is_made():
    for kind in ("observed", "recorded", "recorded, squared"):
        rng = np.random.default_rng(0)
        # What is compiled on first use is not what is measured.
        for n, n_labels in ((50, 20), (N, N_LABELS)):
            objective = large_objective(n, n_labels, kind)
            factors = random_factors(rng, *objective.shape, 2, 0.3)
            tracemalloc.start()
            try:
                point = objective.at(factors)
                point.gradient()
                gradient = point.score_gradient()
                gradient.left_product(factors.right)
                if kind != "recorded":
                    # Every block of rows is a step of its own, which takes its time.
                    point.hessian_product(factors)
                    point.hessian_diagonal()
                    gradient.right_product(factors.left)
                    gradient.conjugate(1.0)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        # Blocks at work, and a few arrays like the entries and the factors. All entries would take 48 MB.
        own = 8 * (6 * N + N_LABELS + sum(part.size for part in factors))
        assert peak <= MEGABYTES * 1e6 + 12 * own < 0.2 * 8 * N * N_LABELS, kind


def test_what_may_be_formed_and_kept():
    assert may_form((256, 256), 0)
    assert not may_form((256, 257), 0)
    assert may_form((1000, 1000), 250_000)
    assert not may_form((1000, 1001), 250_000)
    # However much data there is, an SVD of several thousand by several thousand is no small matter.
    assert not may_form((3000, 3000), 10**9)
    # All arrays of n·L numbers together stay within the limit, and so do the blocks at work.
    assert entries_kept_within(256) * 8 * 24 <= 256e6
    assert 1 <= entries_within(1e-6) <= entries_within(4) * 8 * 8 * 8 <= 4e6


def test_freed_memory_can_be_given_back_at_any_time():
    kept = np.arange(1000)
    give_back_freed()
    assert_array_equal(kept, np.arange(1000))


def test_singular_values_of_a_product_without_its_factors():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((40, 3)), rng.standard_normal((9, 3))
    assert_allclose(product_values(left, right), balanced(left, right)[0], rtol=1e-12)
    assert_allclose(product_values(left, right), np.linalg.svd(left @ right.T)[1][:3], rtol=1e-10)


def test_random_numbers_are_the_same_in_both_precisions():
    for make in (np.random.RandomState, np.random.default_rng):
        # More than are drawn at a time.
        kinds = (np.float64, np.float32)
        double, single = (standard_normal(make(0), (20_001, 3), np.zeros(0, kind)) for kind in kinds)
        assert single.dtype == np.float32
        assert_array_equal(single, double.astype(np.float32))


def test_chosen_entries_are_counted_across_blocks():
    rng = np.random.default_rng(0)
    for length in (0, 1, 13, (1 << 18) - 1, 1 << 18, 700_001):
        chosen = rng.random(length) < 0.5
        places = np.sort(rng.integers(0, length + 1, 6))
        expected = np.concatenate(([0], np.cumsum(chosen)))[places]
        assert_array_equal(chosen_before(chosen, places), expected)
