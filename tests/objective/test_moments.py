"""Moments of parts: equal to the obvious formulas, and the same however the rows are divided."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise, permutations, product
from operator import add

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.labels import ObservedLabels
from labelgap.objective.cpu.part import CpuBackend
from labelgap.objective.moments import (
    ColumnMoments,
    FeatureMoments,
    LabelSums,
    ObservedMoments,
    RootMoments,
    SecondMoments,
    UnlabelledMoments,
    can_have_axes,
    smoothed_rates,
)
from labelgap.objective.parts import FeatureSettings, RowBlock
from oracles_objective import slow_rates
from solver_problems import random_labels

FORMS = (np.asarray, np.asfortranarray, sp.csr_array, sp.csc_matrix, sp.coo_array)
TWO_FORMS = (np.asarray, sp.csr_array)


def awkward_X(n=30, *, zeros=False):
    """Columns of many sizes; a constant, a column of zeros, and a small spread about a large number."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 8)) * [1e-3, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0, 1e200] + 0.3
    X[:, 3], X[:, 4], X[:, 5] = 7.1, 0.0, 1e9 + rng.standard_normal(n)
    X[:, 6] *= 1e-200
    return np.where(rng.random(X.shape) < 0.4, X, 0.0) if zeros else X


def divisions(X):
    """The rows in parts, of which some are empty, and some have a single row."""
    for cuts in ([12], [1, 2, 29], [0, 7, 7, 30], [5, 10, 15, 20, 25]):
        yield [X[start:stop] for start, stop in pairwise([0, *cuts, X.shape[0]])]


def orders(pieces, count=24):
    """Sums in several orders, from the left and from the right."""
    for order in list(permutations(pieces))[:count]:
        yield reduce(add, order)
        yield reduce(lambda total, part: part + total, reversed(order))


def exact_spreads(X, centred):
    """With twice the digits, where numpy has them; in units of the largest value."""
    X = np.asarray(X, dtype=np.longdouble)
    unit = np.where(np.abs(X).max(axis=0) > 0, np.abs(X).max(axis=0), 1)
    Z = X / unit
    return (unit * np.sqrt(np.mean((Z - Z.mean(axis=0) * centred) ** 2, axis=0))).astype(float)


def same_columns(mine, theirs):
    assert mine.n_rows == theirs.n_rows
    assert_array_equal(mine.largest, theirs.largest)
    assert np.all(np.abs(mine.mean - theirs.mean) <= 1e-15 * theirs.unit)
    assert_allclose(mine.deviations, theirs.deviations, rtol=1e-12, atol=1e-15)


# -- columns -----------------------------------------------------------------------------------------------


def test_columns_have_the_mean_size_and_spread_that_numpy_finds():
    for form, zeros in product(FORMS, (False, True)):
        X = awkward_X(zeros=zeros)
        columns = ColumnMoments.of(form(X))
        assert columns.n_rows == len(X)
        assert_allclose(columns.mean, X.mean(axis=0), rtol=1e-13, err_msg=form.__name__)
        assert_array_equal(columns.largest, np.abs(X).max(axis=0), err_msg=form.__name__)
        for centred in (True, False):
            # To the rounding of the largest value: a constant has no spread but that.
            apart = columns.spreads(centred=centred) - exact_spreads(X, centred)
            assert np.all(np.abs(apart) / columns.unit <= 1e-15), form.__name__
    for form, dtype in product(TWO_FORMS, (np.float32, np.int64, np.int8, np.bool_)):
        X = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 100, (40, 3)).astype(dtype)
        columns, wide = ColumnMoments.of(form(X)), X.astype(float)
        assert columns.mean.dtype == columns.deviations.dtype == np.float64
        assert_allclose(columns.mean, wide.mean(axis=0), rtol=1e-14)
        assert_allclose(columns.spreads(centred=True), wide.std(axis=0), rtol=1e-13)
    # Values that are stored twice add up, and the caller's matrix stays as it is.
    X = sp.csr_array((np.array([0.5, 2.0, 0.5]), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 3))
    same_columns(ColumnMoments.of(X), ColumnMoments.of(np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])))
    assert X.nnz == 3


def test_columns_of_parts_add_up_in_any_order():
    for form, zeros in product(TWO_FORMS, (False, True)):
        X = awkward_X(zeros=zeros)
        whole = ColumnMoments.of(form(X))
        for parts in divisions(X):
            for total in orders([ColumnMoments.of(form(part)) for part in parts]):
                same_columns(total, whole)
        # A small spread about a large number keeps its digits.
        X = 1e9 + np.random.default_rng(0).standard_normal((50, 3))
        pieces = [ColumnMoments.of(form(X[start : start + 10])) for start in range(0, 50, 10)]
        for columns in (ColumnMoments.of(form(X)), reduce(add, pieces)):
            assert_allclose(columns.spreads(centred=True), X.std(axis=0), rtol=1e-6)
    none = ColumnMoments.of(awkward_X()[:0])
    assert none.n_rows == (none + ColumnMoments.of(sp.csr_array((0, 8)))).n_rows == 0
    assert_array_equal(none.spreads(centred=False), 0)


def test_columns_that_look_centred():
    # 100 values ±1 have standard deviation 1 about their mean and standard error 0.1.
    X, rng = np.tile([1.0, -1.0], 50)[:, None], np.random.default_rng(0)
    spread = rng.standard_normal((50, 3)) * 1e-3 + 7.0
    for form in TWO_FORMS:
        for columns, expected in (
            (X + 0.49, True),
            (X + 0.51, False),
            # One column off is enough.
            (np.hstack([X, X + 1.0]), False),
            ((spread - spread.mean(axis=0)) / spread.std(axis=0), True),
            (np.zeros((5, 1)), True),
            (np.ones((5, 1)), False),
            # A column of the smallest numbers there are is one of zeros.
            (np.hstack([X, np.full_like(X, 5e-324)]), True),
        ):
            assert ColumnMoments.of(form(columns)).look_centred() == expected


# -- second moments and roots ------------------------------------------------------------------------------


def second_of(X):
    return SecondMoments.of(X, ColumnMoments.of(X))


def test_second_moments_of_parts_add_up_in_any_order():
    # Also of so many rows that they are taken in blocks.
    for n, d in ((30, 9), (300_007, 4)):
        X = np.random.default_rng(0).standard_normal((n, d)) * np.geomspace(1, 1e4, d) + 2.0
        whole, size = second_of(X), np.sqrt(np.outer(*[np.diag(X.T @ X)] * 2))
        centred = X - X.mean(axis=0)
        totals = [whole]
        if n == 30:
            for parts in divisions(X):
                totals += orders([second_of(part) for part in parts], 12)
        for total in totals:
            assert total.rows is None
            assert np.all(np.abs(total.about_origin() - X.T @ X) <= 1e-13 * size)
            assert np.all(np.abs(total.gram - centred.T @ centred) <= 1e-13 * size)
        roots = RootMoments.of(X).root
        assert np.all(np.abs(roots.T @ roots - X.T @ X) <= 1e-13 * size)
    # Rows are kept while they are fewer than the columns.
    X = np.random.default_rng(0).standard_normal((8, 9))
    for form in TWO_FORMS:
        assert second_of(form(X)).gram is None
        assert_allclose(second_of(form(X)).about_origin(), X.T @ X, rtol=1e-12, atol=1e-13)
    total = second_of(X[:3]) + second_of(X[3:3]) + second_of(X[3:])
    assert_array_equal(total.rows, X)
    assert (total + second_of(X[:1])).rows is None
    # The Gram matrix about the mean keeps the digits of a small spread.
    X = 1e9 + np.random.default_rng(0).standard_normal((40, 3))
    exact = X - 1e9
    exact -= exact.mean(axis=0)
    for second in (second_of(X), second_of(X[:15]) + second_of(X[15:])):
        assert_allclose(second.gram, exact.T @ exact, rtol=1e-6, atol=1e-5)


def test_roots_have_the_singular_values_of_the_rows():
    for form, shape in product(TWO_FORMS, ((30, 5), (5, 30), (6, 6), (1, 3), (0, 3))):
        X = np.random.default_rng(0).standard_normal(shape) + 1.0
        root = RootMoments.of(form(X)).root
        assert len(root) <= min(shape)
        assert_allclose(root.T @ root, X.T @ X, atol=1e-12)
        values = (np.linalg.svd(M, compute_uv=False)[: len(root)] for M in (root, X))
        assert_allclose(*values, atol=1e-13)
    # The Gram matrix would have lost what is below 1e-8 of the largest.
    rng, values = np.random.default_rng(0), np.array([1.0, 1e-3, 1e-6, 1e-9])
    U, V = (np.linalg.qr(rng.standard_normal((size, 4)))[0] for size in (30, 4))
    for parts in divisions((U * values) @ V.T):
        for total in orders([RootMoments.of(part) for part in parts], 6):
            assert np.all(np.abs(np.linalg.svd(total.root, compute_uv=False) - values) <= 1e-15)
    # The precision is that of the coarsest part.
    kinds = (np.float32, np.float64, np.int64)
    single, double, whole = (RootMoments.of(np.ones((2, 2), dtype)) for dtype in kinds)
    eps = np.finfo(np.float32).eps
    assert single.precision == (double + single).precision == (single + whole).precision == eps
    assert whole.precision == 0.0


# -- features and labels together ----------------------------------------------------------------------------


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def moments_of(block, settings):
    return CpuBackend().row_data(block).moments(settings)


def test_feature_moments_of_parts_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    Y = random_labels(rng, 14, 5)
    Y[6] = np.nan
    for kind, penalty in product(("dense", "csr", "wide csr", "identity"), ("weights", "scores")):
        X = None if kind == "identity" else rng.standard_normal((14, 60 if kind == "wide csr" else 4))
        X = sp.csr_array(X) if X is not None and kind != "dense" else X
        settings = FeatureSettings(own_rows=X is None, penalty=penalty)
        parts = [
            RowBlock(None if X is None else X[rows], ObservedLabels.from_dense(Y[rows]))
            for rows in (np.arange(4), np.arange(4, 4), np.arange(4, 11), np.arange(11, 14))
        ]
        total = reduce(add, (moments_of(part, settings) for part in parts))
        whole = moments_of(RowBlock(X, ObservedLabels.from_dense(Y)), settings)
        assert isinstance(total, FeatureMoments)
        assert (total.is_sparse, total.n_rows) == (whole.is_sparse, 14) == (kind.endswith("csr"), 14)
        assert total.filled_rows == whole.filled_rows == np.sum(~np.isnan(Y)) + 1
        assert_array_equal(total.label_counts, np.sum(~np.isnan(Y), axis=0))
        assert_array_equal(total.label_positives, np.sum(Y == 1, axis=0))
        for name in ("columns", "second", "root"):
            assert (getattr(total, name) is None) == (getattr(whole, name) is None), (kind, name)
        # They are asked for once axes are wanted.
        assert total.second is None
        assert total.n_stored == whole.n_stored == (0 if X is None else np.count_nonzero(dense(X)))
        assert (total.root is not None) == (penalty == "scores" and X is not None)
        if total.columns is not None:
            same_columns(total.columns, whole.columns)


def bare_moments(n, d, n_stored, *, is_sparse=False, second=None):
    columns, nothing = ColumnMoments(n, *np.zeros((3, d))), np.zeros(2, int)
    return FeatureMoments(is_sparse, columns, second, None, n, 1.0, nothing, nothing, n_stored)


def test_the_cheaper_of_a_dense_array_and_stored_numbers():
    for n, d, density, expected in (
        (463, 1847, 0.64, True),
        (1123, 1001, 0.08, False),
        (1000, 10_000, 0.005, False),
        # Few rows: a model of so many features is more than the data.
        (20, 10_000, 0.005, True),
        # Nothing is stored, and there is nothing to do.
        (30, 20, 0.0, False),
        # A full array is one, with axes and without.
        *((n, d, 1.0, True) for n in (1, 30, 3000, 100_000) for d in (1, 30, 3000, 100_000)),
    ):
        whole = bare_moments(n, d, int(density * n * d))
        assert whole.wants_dense == expected, (n, d, density)
        assert can_have_axes(n, d) == (n * d * min(n, d) <= 2e10)
    # A sparse X is not made dense at any price.
    for n, expected in ((1 << 8, True), ((1 << 8) + 1, False)):
        assert bare_moments(n, 1 << 16, n << 16, is_sparse=True).wants_dense == expected
    # Rows that are given up keep what axes are found from, until these are out of reach.
    half = bare_moments(
        50_000, 600, 0, second=SecondMoments(ColumnMoments(50_000, *np.zeros((3, 600))), np.eye(600), None)
    )
    assert (half + bare_moments(10, 600, 0, second=second_of(np.ones((10, 600))))).second is not None
    assert (half + half).second is None


def test_sums_over_entries_add_up():
    Y = random_labels(np.random.default_rng(0), 12, 4)
    whole = LabelSums.of(ObservedLabels.from_dense(Y))
    for shifted in product((True, False), repeat=2):
        halves = []
        for rows, with_offsets in zip((slice(0, 5), slice(5, 12)), shifted, strict=True):
            labels = ObservedLabels.from_dense(Y[rows])
            offsets = np.arange(4.0) if with_offsets else None
            halves.append(ObservedMoments(float(labels.n_observed), LabelSums.of(labels), offsets))
        total = halves[0] + halves[1]
        assert total.total == np.sum(~np.isnan(Y))
        for name in ("count", "weight", "value", "at_edge"):
            assert_array_equal(getattr(total.labels, name), getattr(whole, name))
        expected = sum(shifted) * np.arange(4.0) if any(shifted) else None
        assert_array_equal(total.offsets, expected)
    total = UnlabelledMoments(5, np.array([1, 2]), np.array([0, 1]), 4, 1) + UnlabelledMoments(
        3, np.array([0, 1]), np.array([2, 0]), 1, 0
    )
    assert (total.n_rows, total.all_recorded, total.held_recorded) == (8, 5, 1)
    assert_array_equal([total.recorded, total.held], [[1, 3], [2, 1]])


def test_rates_are_smoothed_where_all_values_lie_on_one_edge():
    nan = np.nan
    Y = np.array([[0, 1, 3, nan, 0], [0, 1, 0, nan, 1], [nan, 1, 2, nan, nan]])
    for weighted, (edges, informative) in product(
        (False, True),
        (
            ((0.0, 1.0), [False, False, True, False, True]),
            ((0.0,), [False, True, True, False, True]),
            ((), [True, True, True, False, True]),
        ),
    ):
        weights = np.random.default_rng(0).uniform(0.5, 2, Y.shape) if weighted else np.ones(Y.shape)
        labels = ObservedLabels.from_dense(Y, binary=False)
        answer = smoothed_rates(labels.with_weights(weights) if weighted else labels, edges)
        rates, tells = slow_rates(Y, weights, edges)
        assert answer.informative.tolist() == tells.tolist() == informative
        assert_allclose(answer.rate, rates, rtol=1e-12)
        # A link takes none of these rates to infinity.
        assert not np.isin(answer.rate, edges).any()
    labels = ObservedLabels.from_dense([[1, 0, None], [1, 1, None]])
    assert_allclose(smoothed_rates(labels).rate, [2.5 / 3, 0.5, 3.5 / 5])
