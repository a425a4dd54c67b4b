"""Moments of parts: equal to the obvious formulas, and the same however the rows are divided."""

from functools import reduce
from itertools import permutations
from operator import add

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.labels import ObservedLabels
from labelgap.objective import moments as moments_module
from labelgap.objective.cpu.part import CpuRows
from labelgap.objective.moments import (
    ColumnMoments,
    FeatureMoments,
    LabelSums,
    ObservedMoments,
    RootMoments,
    SecondMoments,
    UnlabelledMoments,
    wants_axes,
)
from labelgap.objective.parts import FeatureSettings, RowBlock
from solver_problems import random_labels

FORMS = {
    "dense": np.asarray,
    "Fortran order": np.asfortranarray,
    "csr": sp.csr_array,
    "csc matrix": sp.csc_matrix,
    "coo": sp.coo_array,
}


def awkward_X(n=30, seed=0):
    """Columns of many sizes; a constant, a column of zeros, and a small spread about a large number."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8)) * [1e-3, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0, 1e200] + 0.3
    X[:, 3] = 7.1
    X[:, 4] = 0.0
    X[:, 5] = 1e9 + rng.standard_normal(n)
    X[:, 6] *= 1e-200
    return X


def sparse_X(n=30, seed=0):
    """The same with many zeros."""
    X = awkward_X(n, seed)
    return np.where(np.random.default_rng(seed + 1).random(X.shape) < 0.4, X, 0.0)


def divisions(X):
    """The rows in parts, of which some are empty, and some have a single row."""
    for cuts in ([12], [1, 2, 29], [0, 7, 7, 30], [5, 10, 15, 20, 25]):
        yield [X[start:stop] for start, stop in zip([0, *cuts], [*cuts, X.shape[0]], strict=True)]


def exact_spreads(X, centred):
    """With twice the digits, where numpy has them; in units of the largest value."""
    X = np.asarray(X, dtype=np.longdouble)
    unit = np.where(np.abs(X).max(axis=0) > 0, np.abs(X).max(axis=0), 1)
    Z = X / unit
    return (unit * np.sqrt(np.mean((Z - Z.mean(axis=0) * centred) ** 2, axis=0))).astype(float)


# -- columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("X", [awkward_X(), sparse_X()], ids=["full", "with zeros"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_columns_have_the_mean_size_and_spread_that_numpy_finds(form, X):
    columns = ColumnMoments.of(form(X))
    assert columns.n_rows == len(X)
    assert_allclose(columns.mean, X.mean(axis=0), rtol=1e-13)
    assert_array_equal(columns.largest, np.abs(X).max(axis=0))
    for centred in (True, False):
        # To the rounding of the largest value: a constant has no spread but that.
        expected = exact_spreads(X, centred)
        relative = np.abs(columns.spreads(centred=centred) - expected) / columns.unit
        assert np.all(relative <= 1e-15)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_small_spread_about_a_large_number_keeps_its_digits(form):
    rng = np.random.default_rng(0)
    X = 1e9 + rng.standard_normal((50, 3))
    assert_allclose(ColumnMoments.of(form(X)).spreads(centred=True), X.std(axis=0), rtol=1e-6)
    parts = [ColumnMoments.of(form(X[start : start + 10])) for start in range(0, 50, 10)]
    assert_allclose(reduce(add, parts).spreads(centred=True), X.std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_columns_of_other_types_are_computed_in_double_precision(form, dtype):
    X = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 100, (40, 3)).astype(dtype)
    columns = ColumnMoments.of(form(X))
    assert columns.mean.dtype == columns.deviations.dtype == np.float64
    assert_allclose(columns.mean, X.astype(float).mean(axis=0), rtol=1e-14)
    assert_allclose(columns.spreads(centred=True), X.astype(float).std(axis=0), rtol=1e-13)


def test_values_that_are_stored_twice_add_up():
    X = sp.csr_array((np.array([0.5, 2.0, 0.5]), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 3))
    mine, theirs = ColumnMoments.of(X), ColumnMoments.of(np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    for name in ("mean", "largest", "deviations"):
        assert_allclose(getattr(mine, name), getattr(theirs, name))
    assert X.nnz == 3


def same_columns(mine, theirs):
    assert mine.n_rows == theirs.n_rows
    assert_array_equal(mine.largest, theirs.largest)
    assert np.all(np.abs(mine.mean - theirs.mean) <= 1e-15 * theirs.unit)
    assert_allclose(mine.deviations, theirs.deviations, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("X", [awkward_X(), sparse_X()], ids=["full", "with zeros"])
def test_columns_of_parts_add_up_in_any_order(form, X):
    whole = ColumnMoments.of(form(X))
    for parts in divisions(X):
        pieces = [ColumnMoments.of(form(part)) for part in parts]
        for order in list(permutations(pieces))[:24]:
            same_columns(reduce(add, order), whole)
            # In pairs from the right.
            same_columns(reduce(lambda total, part: part + total, reversed(order)), whole)


def test_parts_without_rows_add_nothing():
    X = awkward_X()
    some, none = ColumnMoments.of(X), ColumnMoments.of(X[:0])
    assert none.n_rows == 0
    for total in (some + none, none + some):
        same_columns(total, some)
    assert (none + ColumnMoments.of(sp.csr_array((0, 8)))).n_rows == 0
    assert_array_equal(none.spreads(centred=False), 0)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_means_within_five_standard_errors_look_centred(form):
    # 100 values ±1 have standard deviation 1 about their mean and standard error 0.1.
    X = np.tile([1.0, -1.0], 50)[:, None]
    assert ColumnMoments.of(form(X + 0.49)).look_centred()
    assert not ColumnMoments.of(form(X + 0.51)).look_centred()
    # One column off is enough.
    assert not ColumnMoments.of(form(np.hstack([X, X + 1.0]))).look_centred()


def test_standardised_and_empty_columns_look_centred_and_a_constant_does_not():
    X = np.random.default_rng(0).standard_normal((50, 3)) * 1e-3 + 7.0
    assert ColumnMoments.of((X - X.mean(axis=0)) / X.std(axis=0)).look_centred()
    assert ColumnMoments.of(np.zeros((5, 1))).look_centred()
    assert not ColumnMoments.of(np.ones((5, 1))).look_centred()


# -- second moments ------------------------------------------------------------------------------------------


def second_of(X):
    return SecondMoments.of(X, ColumnMoments.of(X))


def test_second_moments_are_those_of_numpy():
    X = np.random.default_rng(0).standard_normal((30, 6)) + 2.0
    second = second_of(X)
    assert second.rows is None
    assert_allclose(second.gram, 30 * np.cov(X.T, bias=True), rtol=1e-12, atol=1e-12)
    assert_allclose(second.about_origin(), X.T @ X, rtol=1e-13)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_few_rows_are_kept_as_they_are(form):
    X = np.random.default_rng(0).standard_normal((4, 9)) + 2.0
    second = second_of(form(X))
    assert second.gram is None
    assert_array_equal(second.rows, X)
    assert_allclose(second.about_origin(), X.T @ X, rtol=1e-12)


def test_second_moments_of_parts_add_up_in_any_order():
    X = np.random.default_rng(0).standard_normal((30, 9)) * np.geomspace(1, 1e4, 9) + 2.0
    for parts in divisions(X):
        for order in list(permutations([second_of(part) for part in parts]))[:24]:
            total = reduce(add, order)
            # There are more rows than columns by now.
            assert total.rows is None
            size = np.sqrt(np.outer(*[np.diag(X.T @ X)] * 2))
            assert np.all(np.abs(total.about_origin() - X.T @ X) <= 1e-14 * size)
            centred = X - X.mean(axis=0)
            assert np.all(np.abs(total.gram - centred.T @ centred) <= 1e-14 * size)


def test_rows_are_kept_while_they_are_fewer_than_the_columns():
    X = np.random.default_rng(0).standard_normal((8, 9))
    total = second_of(X[:3]) + second_of(X[3:3]) + second_of(X[3:])
    assert_array_equal(total.rows, X)
    assert (total + second_of(X[:1])).rows is None


def test_the_gram_matrix_about_the_mean_keeps_the_digits_of_a_small_spread():
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((40, 3))
    X = 1e9 + spread
    exact = X - 1e9
    exact -= exact.mean(axis=0)
    parts = [second_of(X[:15]), second_of(X[15:40])]
    for second in (second_of(X), parts[0] + parts[1]):
        assert_allclose(second.gram, exact.T @ exact, rtol=1e-6, atol=1e-5)


# -- roots ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("shape", [(30, 5), (5, 30), (6, 6), (1, 3), (0, 3)])
def test_a_root_has_the_gram_matrix_and_the_singular_values_of_the_rows(form, shape):
    X = np.random.default_rng(0).standard_normal(shape) + 1.0
    root = RootMoments.of(form(X)).root
    assert len(root) <= min(shape)
    assert_allclose(root.T @ root, X.T @ X, atol=1e-12)
    assert_allclose(
        np.linalg.svd(root, compute_uv=False), np.linalg.svd(X, compute_uv=False)[: len(root)], atol=1e-13
    )


def test_roots_of_parts_keep_small_singular_values():
    # The Gram matrix would have lost what is below 1e-8 of the largest.
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((size, 4)))[0] for size in (30, 4))
    values = np.array([1.0, 1e-3, 1e-6, 1e-9])
    X = (U * values) @ V.T
    for parts in divisions(X):
        for order in list(permutations([RootMoments.of(part) for part in parts]))[:6]:
            found = np.linalg.svd(reduce(add, order).root, compute_uv=False)
            assert np.all(np.abs(found - values) <= 1e-15)


def test_rows_in_many_blocks_have_the_same_moments(monkeypatch):
    X = np.random.default_rng(0).standard_normal((30, 4)) + 1.0
    whole = ColumnMoments.of(X), second_of(X), RootMoments.of(X)
    monkeypatch.setattr(moments_module, "_BLOCK", 8)
    same_columns(ColumnMoments.of(X), whole[0])
    assert_allclose(second_of(X).gram, whole[1].gram, rtol=1e-13)
    root = RootMoments.of(X).root
    assert_allclose(root.T @ root, whole[2].root.T @ whole[2].root, rtol=1e-13)


def test_the_precision_of_a_root_is_that_of_the_coarsest_part():
    single, double, whole = (
        RootMoments.of(np.ones((2, 2), dtype)) for dtype in (np.float32, np.float64, np.int64)
    )
    assert single.precision == (double + single).precision == (single + whole).precision
    assert single.precision == np.finfo(np.float32).eps
    assert whole.precision == 0.0


# -- parts ---------------------------------------------------------------------------------------------------


def blocks(X, Y):
    for rows in (np.arange(0, 4), np.arange(4, 4), np.arange(4, 11), np.arange(11, 14)):
        yield RowBlock(None if X is None else X[rows], ObservedLabels.from_dense(Y[rows]))


@pytest.mark.parametrize("kind", ["dense", "csr", "wide csr", "identity"])
@pytest.mark.parametrize("penalty", ["weights", "scores"])
def test_feature_moments_of_parts_are_those_of_all_rows(kind, penalty):
    rng = np.random.default_rng(0)
    Y = random_labels(rng, 14, 5)
    Y[6] = np.nan
    X = None if kind == "identity" else rng.standard_normal((14, 60 if kind == "wide csr" else 4))
    X = sp.csr_array(X) if X is not None and kind != "dense" else X
    settings = FeatureSettings(own_rows=X is None, penalty=penalty)
    total = reduce(add, (CpuRows(block).moments(settings) for block in blocks(X, Y)))
    whole = CpuRows(RowBlock(X, ObservedLabels.from_dense(Y))).moments(settings)
    assert isinstance(total, FeatureMoments)
    assert (total.is_sparse, total.n_rows) == (whole.is_sparse, 14) == (kind.endswith("csr"), 14)
    observed = np.sum(~np.isnan(Y), axis=1)
    assert total.filled_rows == whole.filled_rows == observed.sum() + 1
    assert_array_equal(total.label_counts, np.sum(~np.isnan(Y), axis=0))
    for name in ("columns", "second", "root"):
        assert (getattr(total, name) is None) == (getattr(whole, name) is None)
    assert (total.second is not None) == (penalty == "weights" and kind in ("dense", "wide csr"))
    assert (total.root is not None) == (penalty == "scores" and X is not None)
    if total.columns is not None:
        same_columns(total.columns, whole.columns)


def test_axes_are_out_of_reach_of_many_rows_together(monkeypatch):
    # Each part alone is small enough; all of them are not.
    monkeypatch.setattr(moments_module, "ROTATION_WORK", 14 * 4 * 4 - 1)
    X, Y = np.random.default_rng(0).standard_normal((14, 4)), np.ones((14, 2))
    parts = [CpuRows(block).moments(FeatureSettings()) for block in blocks(X, Y)]
    assert all(part.second is not None for part in parts)
    assert (parts[0] + parts[2]).second is not None
    assert reduce(add, parts).second is None


def test_a_sparse_X_wants_axes_only_with_few_rows():
    assert wants_axes(10, 40, True)
    assert not wants_axes(11, 40, True)
    assert wants_axes(11, 40, False)
    assert not wants_axes(1 << 13, 1 << 15, True)


@pytest.mark.parametrize("shifted", [(True, True), (True, False), (False, True), (False, False)])
def test_sums_over_observed_entries_add_up(shifted):
    rng = np.random.default_rng(0)
    Y = random_labels(rng, 12, 4)
    halves = []
    for rows, with_offsets in zip((slice(0, 5), slice(5, 12)), shifted, strict=True):
        labels = ObservedLabels.from_dense(Y[rows])
        offsets = np.arange(4.0) if with_offsets else None
        halves.append(ObservedMoments(float(labels.n_observed), LabelSums.of(labels), offsets))
    total, whole = halves[0] + halves[1], LabelSums.of(ObservedLabels.from_dense(Y))
    assert total.total == np.sum(~np.isnan(Y))
    for name in ("count", "weight", "value", "at_edge"):
        assert_array_equal(getattr(total.labels, name), getattr(whole, name))
    if any(shifted):
        assert_array_equal(total.offsets, sum(shifted) * np.arange(4.0))
    else:
        assert total.offsets is None


def test_counts_of_recorded_positives_add_up():
    one = UnlabelledMoments(5, np.array([1, 2]), np.array([0, 1]), 4, 1)
    other = UnlabelledMoments(3, np.array([0, 1]), np.array([2, 0]), 1, 0)
    total = one + other
    assert (total.n_rows, total.all_recorded, total.held_recorded) == (8, 5, 1)
    assert_array_equal(total.recorded, [1, 3])
    assert_array_equal(total.held, [2, 1])
