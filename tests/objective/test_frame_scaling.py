"""Scales of the features: as loops say, and undone in the weights of a model."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.objective import frame
from labelgap.objective.frame import SCALINGS
from labelgap.objective.moments import ColumnMoments
from labelgap.solvers import SOLVERS, Penalties
from solver_problems import METHODS, Case, make_problem, random_factors


def feature_scales(X, scaling):
    return frame.feature_scales(ColumnMoments.of(X), scaling, is_sparse=sp.issparse(X))


def uneven_X(n=30, seed=0, shift=0.0):
    """Columns with spreads from 0.02 to 50."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 5)) * [0.02, 1.0, 50.0, 3.0, 0.5] + shift


def obvious_scales(X, scaling, centred=True):
    """Column by column, in plain Python; a column without spread keeps its scale."""
    spreads = []
    for column in np.asarray(X, dtype=float).T:
        mean = sum(column) / len(column) if centred else 0.0
        spreads.append((sum((x - mean) ** 2 for x in column) / len(column)) ** 0.5)
    known = [s for s, column in zip(spreads, X.T, strict=True) if s > 1e-7 * max(abs(column))]
    typical = (sum(s * s for s in known) / len(known)) ** 0.5
    power = {"standard": 1.0, "root": 0.5}[scaling]
    return [(typical / s) ** power if s in known else 1.0 for s in spreads]


both_scalings = pytest.mark.parametrize("scaling", ["root", "standard"])


@both_scalings
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_dense_scales_are_about_standard_deviations(scaling, shift):
    X = uneven_X(shift=shift)
    assert_allclose(feature_scales(X, scaling), obvious_scales(X, scaling), rtol=1e-9)


@both_scalings
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_scales_are_about_quadratic_means(scaling, form):
    X = np.where(np.random.default_rng(1).random((30, 5)) < 0.4, uneven_X(shift=0.3), 0.0)
    assert_allclose(feature_scales(form(X), scaling), obvious_scales(X, scaling, centred=False), rtol=1e-9)


@both_scalings
def test_sparse_and_dense_columns_that_are_centred_have_the_same_scales(scaling):
    X = uneven_X()
    X -= X.mean(axis=0)
    assert_allclose(feature_scales(sp.csr_array(X), scaling), feature_scales(X, scaling), rtol=1e-9)


def test_standard_scales_make_all_spreads_equal_and_root_scales_go_half_the_way():
    X = uneven_X()
    after = (X * feature_scales(X, "standard")).std(axis=0)
    # Their quadratic mean stays, so that the features as a whole are as large as before.
    assert_allclose(after, np.sqrt(np.mean(X.var(axis=0))))
    assert_allclose(feature_scales(X, "root") ** 2, feature_scales(X, "standard"))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_units_of_a_column_do_not_matter(form):
    # Multiplied with its scale, each column is what it was in other units, but for a factor common to all.
    X, units = uneven_X(), np.array([1.0, 1000.0, 1.0, 1e-3, 7.0])
    one, other = X * feature_scales(form(X), "standard"), X * units
    other = other * feature_scales(form(other), "standard")
    ratios = other / one
    assert_allclose(ratios, ratios[0, 0], rtol=1e-9)


def test_nothing_is_scaled_where_that_was_not_asked_for_or_would_change_little():
    assert SCALINGS == ("none", "root", "standard")
    assert feature_scales(uneven_X(), "none") is None
    spread = np.random.default_rng(0).standard_normal((40, 3))
    spread /= spread.std(axis=0)
    for X in (spread, spread * 1e6, spread * [1.0, 1.2, 0.9]):
        for form in (np.asarray, sp.csr_array):
            assert feature_scales(form(X), "standard") is None
    # Nine to one on the way down is three to one half the way.
    assert feature_scales(spread * [1.0, 9.0, 1.0], "root") is not None
    # A single feature has no other to be compared with.
    assert feature_scales(uneven_X()[:, :1], "standard") is None


@both_scalings
@pytest.mark.parametrize("constant", [0.0, 1.0, -0.1, 12345.678])
def test_constant_columns_keep_their_scale_and_do_not_count(scaling, constant):
    X = uneven_X()
    with_constant = np.insert(X, 2, constant, axis=1)
    scales = feature_scales(with_constant, scaling)
    assert scales[2] == 1.0
    assert_allclose(np.delete(scales, 2), feature_scales(X, scaling))


@both_scalings
def test_empty_columns_of_a_sparse_matrix_keep_their_scale_and_do_not_count(scaling):
    X = uneven_X()
    with_zeros = np.insert(X, 2, 0.0, axis=1)
    stored = sp.coo_array(
        (with_zeros.ravel(), np.divmod(np.arange(with_zeros.size), with_zeros.shape[1])),
        shape=with_zeros.shape,
    )
    for form in (sp.csr_array(with_zeros), sp.csr_array(stored)):
        scales = feature_scales(form, scaling)
        assert scales[2] == 1.0
        assert_allclose(np.delete(scales, 2), feature_scales(sp.csr_array(X), scaling))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_features_without_any_spread_are_left_alone(form):
    assert feature_scales(form(np.zeros((4, 3))), "standard") is None
    assert feature_scales(np.ones((4, 3)), "standard") is None
    assert feature_scales(form(np.zeros((1, 1))), "root") is None


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_integers_have_scales_too(form):
    X = (100 * uneven_X(shift=1.0)).astype(int)
    assert_allclose(feature_scales(form(X), "standard"), feature_scales(form(X.astype(float)), "standard"))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_values_whose_squares_are_no_numbers_have_scales(form):
    X = uneven_X()
    scales = feature_scales(form(X), "standard")
    assert_allclose(feature_scales(form(1e200 * X), "standard"), scales)
    # Extremely small features are brought to a spread of 1 too; their scales have the same proportions.
    spread = np.sqrt(np.mean(np.square(X - (X.mean(axis=0) if form is np.asarray else 0)), axis=0))
    assert_allclose(feature_scales(form(1e-200 * X), "standard"), 1e200 / spread, rtol=1e-6)
    assert_allclose(scales * spread, (scales * spread)[0], rtol=1e-6)


# -- features with scales -----------------------------------------------------------------------------------

every_form = pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_matrix])
LABELS = Case(n=30, n_labels=4).labels


def problem_of(X, **features):
    return make_problem(X, LABELS, features=features)


def rows_of(problem):
    """The features of all rows, in the coordinates of the problem."""
    return problem.left(np.eye(problem.features.coordinates.n_coordinates))


@every_form
@pytest.mark.parametrize("centre", [False, True])
@both_scalings
def test_scaled_features_are_those_of_the_scaled_matrix(form, centre, scaling):
    X = uneven_X(shift=0.4)
    scaled = problem_of(form(X), centre=centre, scaling=scaling)
    scales = scaled.features.coordinates.scales
    assert_array_equal(scales, feature_scales(form(X), scaling))
    same = problem_of(form(X * scales), centre=centre)
    mine, theirs = rows_of(scaled), rows_of(same)
    assert mine.shape == theirs.shape
    # The axes are the same up to their signs.
    assert_allclose(np.abs(mine), np.abs(theirs), atol=1e-9)
    assert scaled.mean_square_length == pytest.approx(same.mean_square_length)


@every_form
@pytest.mark.parametrize("centre", [False, True])
@both_scalings
def test_weights_come_back_in_the_units_of_the_features_as_given(form, centre, scaling):
    X = uneven_X(shift=0.4)
    problem = problem_of(form(X), centre=centre, scaling=scaling)
    rows, scales = rows_of(problem), problem.features.coordinates.scales
    mine = random_factors(np.random.default_rng(1), rows.shape[1], 4, 2)
    theirs = problem.to_original(mine)
    scores = rows @ mine.left @ mine.right.T + mine.intercept
    assert_allclose(X @ theirs.left @ theirs.right.T + theirs.intercept, scores, atol=1e-10)
    # The penalties are about the weights of the scaled features.
    inner = np.linalg.svd((theirs.left @ theirs.right.T) / scales[:, None], compute_uv=False)
    expected = np.linalg.svd(mine.left @ mine.right.T, compute_uv=False)
    assert_allclose(inner[: len(expected)], expected[: len(inner)], atol=1e-10)


@every_form
def test_the_matrix_of_the_caller_stays_as_it_is(form):
    X = form(uneven_X())
    before = X.copy()
    rows_of(problem_of(X, centre=True, scaling="standard"))
    assert_array_equal(
        np.asarray(X.todense() if sp.issparse(X) else X), before.toarray() if sp.issparse(X) else before
    )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", METHODS)
def test_a_fit_with_scales_is_a_fit_to_the_scaled_features(form, solver):
    X = uneven_X(shift=0.2)
    scaled = problem_of(form(X), centre=True, scaling="standard")
    scales = scaled.features.coordinates.scales
    fits, models = [], []
    for problem in (scaled, problem_of(form(X * scales), centre=True)):
        fits.append(SOLVERS[solver](problem.objective(LABELS), Penalties(0.01, 1e-3), tol=1e-7))
        models.append(problem.to_original(fits[-1].factors))
    mine, by_hand = models
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-6)
    weights = scales[:, None] * (by_hand.left @ by_hand.right.T)
    assert_allclose(X @ mine.left @ mine.right.T, X @ weights, atol=1e-3)
    assert_allclose(mine.intercept, by_hand.intercept, atol=1e-3)
