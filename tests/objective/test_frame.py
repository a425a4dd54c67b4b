"""Coordinates of the features: scaled, centred, rotated or orthonormal, they leave the model as it is."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.exceptions import InvalidFeaturesError
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective.frame import SCALINGS, scales_by_count, scales_by_positives
from labelgap.objective.frame import feature_scales as scales_of
from labelgap.objective.moments import ColumnMoments
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.solvers import SOLVERS, Penalties, solve_bounded
from solver_problems import Case, make_problem, random_factors, random_labels

# Rows, features, and in how many independent directions.
SHAPES = {
    "tall": (12, 5, 5),
    "wide": (5, 9, 5),
    "square": (6, 6, 6),
    "one row": (1, 3, 1),
    "two rows": (2, 9, 2),
    "one feature": (7, 1, 1),
    "dependent": (12, 5, 3),
    "dependent wide": (6, 9, 4),
}
FORMS = (np.asarray, sp.csr_array, sp.csc_matrix)


def random_X(shape="tall", seed=0, shift=2.0):
    n, d, rank = SHAPES[shape]
    rng = np.random.default_rng(seed)
    if rank < min(n, d):
        return (rng.standard_normal((n, rank)) + 1.0) @ rng.standard_normal((rank, d))
    return rng.standard_normal((n, d)) + shift


def uneven_X(n=30, shift=0.0):
    """Columns with spreads from 0.02 to 50."""
    return np.random.default_rng(0).standard_normal((n, 5)) * [0.02, 1.0, 50.0, 3.0, 0.5] + shift


def labels_of(n, n_labels=4):
    return ObservedLabels.from_dense(np.zeros((n, n_labels)))


def problem_of(X, **features):
    return make_problem(X, labels_of(X.shape[0]), features=features)


def rows_of(problem):
    """The features of all rows, in the coordinates of the problem."""
    return problem.left(np.eye(problem.features.coordinates.n_coordinates))


def dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def same_model(problem, X, told, atol=1e-12):
    """Scores, and singular values of W where the scales are 1, are those of the features as handed in."""
    rows = rows_of(problem)
    mine = random_factors(np.random.default_rng(1), rows.shape[1], 4, 2)
    theirs = problem.to_original(mine)
    scores = rows @ mine.left @ mine.right.T + mine.intercept
    assert_allclose(
        dense(X) @ theirs.left @ theirs.right.T + theirs.intercept, scores, atol=atol, err_msg=told
    )
    scales = problem.features.coordinates.scales
    inner = theirs.left if scales is None else theirs.left / scales[:, None]
    of_scores = problem.settings.features.penalty == "scores"
    found = np.linalg.svd((dense(X) @ inner if of_scores else inner) @ theirs.right.T, compute_uv=False)
    expected = np.linalg.svd(mine.left @ mine.right.T, compute_uv=False)
    count = min(len(found), len(expected))
    assert_allclose(found[:count], expected[:count], atol=max(atol, 1e-10), err_msg=told)
    about_zero = sp.issparse(X) and not of_scores
    meant = dense(X) * (1.0 if scales is None else scales) if about_zero else rows
    assert_allclose(problem.mean_square_length, np.mean(np.sum(meant**2, axis=1)), err_msg=told)
    return rows, mine, theirs


def test_rotation_and_centring_leave_the_model_as_it_is():
    for shape, centre in product(SHAPES, (False, True)):
        X = random_X(shape)
        rows, _, _ = same_model(problem_of(X, centre=centre), X, f"{shape}, centre={centre}")
        gram = rows.T @ rows
        close = 1e-10 * np.trace(gram)
        assert_allclose(gram, np.diag(np.diag(gram)), atol=close, err_msg=shape)
        assert np.all(np.diff(np.diag(gram)) <= close), shape
    # Of weights that no row can see nothing is kept.
    X, problem = random_X("wide"), problem_of(random_X("wide"))
    theirs = random_factors(np.random.default_rng(1), 9, 4, 2)
    mine = problem.from_original(theirs)
    assert mine.left.shape == (5, 2)
    assert_allclose(rows_of(problem) @ mine.left, X @ theirs.left, atol=1e-12)
    assert np.linalg.norm(problem.to_original(mine).left) < np.linalg.norm(theirs.left)


def mostly_zero(X, density=0.15, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < density, X, 0.0)


def test_features_are_sparse_or_dense_by_what_they_cost():
    for centre, scaling in product((False, True), ("none", "standard")):
        X = sp.random_array((4, 40), density=0.3, format="csr", rng=np.random.default_rng(1))
        X = sp.csr_array(X @ sp.diags_array(np.linspace(0.2, 3.0, 40)))
        problem = problem_of(X, centre=centre, scaling=scaling)
        rows, _, _ = same_model(problem, X, f"centre={centre}, {scaling}")
        assert rows.shape[1] <= 4
        assert (problem.features.coordinates.scales is None) == (scaling == "none")
    for form, (n, d) in product(FORMS, ((60, 20), (120, 130))):
        X = np.random.default_rng(0).standard_normal((n, d)) + 0.3
        full, few = (problem_of(form(part), centre=True) for part in (X, mostly_zero(X)))
        assert (full.features.coordinates.is_sparse, few.features.coordinates.is_sparse) == (False, True)
        assert full.features.coordinates.n_coordinates == min(n - 1, d)
        # Zeros would not stay zeros.
        assert few.features.coordinates.centre is few.features.coordinates.basis is None
    # As many columns as would not fit stay sparse.
    huge = sp.csr_array((1 << 10, (1 << 14) + 1))
    assert problem_of(huge).features.coordinates.is_sparse


def test_a_dense_X_far_from_its_centre_is_centred_however_many_zeros_it_has():
    X = mostly_zero(np.random.default_rng(0).standard_normal((60, 20)))
    for column, expected in ((1.0, True), (0.0, True), (1e9, False), (1e150, False)):
        with_constant = np.insert(X, 3, column, axis=1)
        for scaling in ("none", "standard"):
            coordinates = problem_of(with_constant, centre=True, scaling=scaling).features.coordinates
            assert coordinates.is_sparse == expected, (column, scaling)
        # Without a free intercept there is no centre.
        assert problem_of(with_constant).features.coordinates.is_sparse


def test_the_length_of_rows_is_about_the_centre_of_a_dense_X_and_about_0_of_a_sparse_one():
    options = product(FORMS, (0.15, 0.8), ("none", "standard"), (False, True))
    for form, density, scaling, centre in options:
        X = mostly_zero(
            np.random.default_rng(0).standard_normal((60, 20)) * 1.5 ** np.arange(20) + 0.5, density
        )
        problem = problem_of(form(X), centre=centre, scaling=scaling)
        assert problem.features.coordinates.is_sparse == (density < 0.5)
        moved = X if scaling == "none" else X * problem.features.coordinates.scales
        moved = moved - moved.mean(axis=0) * (centre and form is np.asarray)
        assert problem.mean_square_length == pytest.approx(np.mean(np.sum(moved**2, axis=1)), rel=1e-12)


def test_parts_decide_as_the_whole():
    rng = np.random.default_rng(0)
    # Parts that are sparse, dense and empty by themselves; the whole is the one or the other.
    for n_full, d, form in product((2, 90), (12, 110), FORMS[:2]):
        X = np.vstack(
            [mostly_zero(rng.standard_normal((100, d)), 0.1), rng.standard_normal((n_full, d)) + 0.2]
        )
        labels = ObservedLabels.from_dense(random_labels(rng, len(X), 3))
        for features in (FeatureSettings(centre=True, scaling="standard"), FeatureSettings()):
            settings = ProblemSettings(get_loss("logistic"), features)
            whole, *divided = (
                Problem(
                    [
                        RowBlock(form(X[rows]), labels.take_rows(rows))
                        for rows in (np.arange(*ends) for ends in pairwise([0, *cuts, len(X)]))
                    ],
                    settings,
                )
                for cuts in ([], [100], [5, 5, 101])
            )
            expected, told = whole.features.coordinates, f"{n_full} full rows, {d} features, {features}"
            assert expected.is_sparse == (n_full == 2), told
            for problem in divided:
                found = problem.features.coordinates
                assert (found.is_sparse, found.n_coordinates) == (expected.is_sparse, expected.n_coordinates)
                assert problem.mean_square_length == pytest.approx(whole.mean_square_length)
                fits = [
                    SOLVERS["factored"](one.objective(labels), Penalties(0.02), tol=1e-7)
                    for one in (whole, problem)
                ]
                assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-6), told


def test_the_optimum_does_not_know_how_features_are_kept():
    rng = np.random.default_rng(0)
    for n, d, density in ((60, 20, 0.12), (60, 20, 0.6), (120, 130, 0.1), (25, 40, 0.6)):
        X = mostly_zero(rng.standard_normal((n, d)) + 0.3, density)
        # Doubled, empty and constant columns, and an empty row.
        X[:, 3], X[:, 5], X[:, 7], X[2] = X[:, 4], 0.0, 1.0, 0.0
        labels = ObservedLabels.from_dense(random_labels(rng, n, 4))
        for settings in ({}, {"score_bound": 0.5}, {"fit_intercept": False}):
            fits, models, kept = [], [], []
            free = settings == {}
            for form in (np.asarray, sp.csr_array):
                problem = make_problem(form(X), labels, features={"centre": free}, **settings)
                kept.append(problem.features.coordinates.is_sparse)
                objective, penalties = problem.objective(labels), Penalties(0.01, 1e-3)
                solver = SOLVERS["factored"]
                fits.append(
                    solver(objective, penalties, tol=1e-7)
                    if objective.bounds is None
                    else solve_bounded(solver, objective, penalties, objective.bounds, tol=1e-3)
                )
                models.append(problem.to_original(fits[-1].factors))
            told = f"{n} x {d}, {density}, {settings}"
            assert kept == [density < 0.2] * 2, told
            assert abs(fits[0].objective - fits[1].objective) <= fits[0].gap + fits[1].gap, told


def test_axes_of_few_rows_are_at_right_angles_and_span_them():
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((size, 20)))[0] for size in (20, 60))
    options = product((1.0, 1e-2, 1e-4, 1e-6, 1e-9), (False, True), (1.0, 1e200, 1e-200), (False, True))
    for smallest, twice, unit, centre in options:
        X = (left * np.geomspace(1.0, smallest, 20)) @ right.T
        X[1] = X[0] if twice else X[1]
        basis = problem_of(unit * X, centre=centre).features.coordinates.basis
        told = f"{smallest}, {twice}, {unit}, {centre}"
        assert basis.shape == (60, 20 - centre - twice), told
        assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-11, err_msg=told)
        moved = X - X.mean(axis=0) * centre
        assert_allclose(moved @ basis @ basis.T, moved, atol=1e-14, err_msg=told)
    single = rng.standard_normal((5, 9)).astype(np.float32)
    basis = problem_of(single).features.coordinates.basis
    assert_allclose(basis.T @ basis, np.eye(5), atol=1e-13)


def test_the_features_of_the_caller_are_taken_as_they_are_and_left_alone():
    rng = np.random.default_rng(0)
    numbers = rng.integers(-3, 4, (9, 4))
    labels = ObservedLabels.from_dense(random_labels(rng, 9, 3))
    settings = ({}, {"centre": True, "scaling": "standard"}, {"penalty": "scores"}, {"own_rows": True})
    for features in settings:
        expected, twice = None, sp.csr_array(numbers.astype(float))
        # Columns in another order, entries that are stored twice, and memory that may not be written.
        split = np.repeat(twice.data / 2, 2)
        order = np.concatenate([np.arange(start, stop)[::-1] for start, stop in pairwise(2 * twice.indptr)])
        places = np.repeat(twice.indices, 2)[order], 2 * twice.indptr
        split, twice = split[order], sp.csr_array((split[order], *places), shape=numbers.shape)
        for array in (twice.data, twice.indices, twice.indptr):
            array.flags.writeable = False
        fortran = np.asfortranarray(numbers.astype(float))
        fortran.flags.writeable = False
        sparse = (sp.csr_array(numbers), sp.csc_matrix(numbers.astype(np.float32)), twice)
        for X in (
            sparse if features.get("own_rows") else (fortran, numbers, numbers.astype(np.float32), *sparse)
        ):
            before = X.copy()
            problem = make_problem(X, labels, features=features)
            objective = problem.objective(labels)
            theirs = random_factors(np.random.default_rng(1), 9 * ("own_rows" in features) + 4, 3, 2)
            point = objective.at(problem.from_original(theirs))
            found = [point.value, problem.mean_square_length * float(not features), *point.gradient().right]
            expected = found if expected is None or type(X) is type(sparse[0]) else expected
            close = 1e-5 if X.dtype == np.float32 else 1e-9
            if not ("scaling" in features and sp.issparse(X)):
                assert_allclose(point.value, expected[0], rtol=close, err_msg=f"{type(X)}, {features}")
            assert abs(X - before).max() == 0, f"{type(X)}, {features}"


# -- scales --------------------------------------------------------------------------------------------------


def feature_scales(X, scaling):
    return scales_of(ColumnMoments.of(X), scaling, is_sparse=sp.issparse(X))


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


def test_scales_are_about_standard_deviations_or_quadratic_means():
    absent = np.random.default_rng(1).random((30, 5)) >= 0.4
    for scaling in SCALINGS[1:]:
        for shift in (0.0, 100.0):
            X = uneven_X(shift=shift)
            assert_allclose(feature_scales(X, scaling), obvious_scales(X, scaling), rtol=1e-9)
        X = np.where(absent, 0.0, uneven_X(shift=0.3))
        for form in (sp.csr_array, sp.csc_matrix, sp.coo_array):
            expected = obvious_scales(X, scaling, centred=False)
            assert_allclose(feature_scales(form(X), scaling), expected, rtol=1e-9)
        for form, constant in product((np.asarray, sp.csr_array), (0.0, 1.0, -0.1, 12345.678)):
            if constant and form is sp.csr_array:
                continue
            # Constant columns keep their scale and do not count; nor do zeros that are stored.
            with_constant = np.insert(uneven_X(), 2, constant, axis=1)
            if form is sp.csr_array:
                stored = np.divmod(np.arange(with_constant.size), 6)
                given = sp.csr_array(sp.coo_array((with_constant.ravel(), stored), shape=with_constant.shape))
            else:
                given = with_constant
            scales = feature_scales(given, scaling)
            assert scales[2] == 1.0
            assert_allclose(np.delete(scales, 2), feature_scales(form(uneven_X()), scaling))
    X = uneven_X()
    # Their quadratic mean stays, so that the features as a whole are as large as before.
    after = (X * feature_scales(X, "standard")).std(axis=0)
    assert_allclose(after, np.sqrt(np.mean(X.var(axis=0))))
    assert_allclose(feature_scales(X, "root") ** 2, feature_scales(X, "standard"))


def test_units_and_types_do_not_matter_to_scales():
    for form in (np.asarray, sp.csr_array):
        # In other units each column is what it was, but for a factor common to all.
        X, units = uneven_X(), np.array([1.0, 1000.0, 1.0, 1e-3, 7.0])
        scales = feature_scales(form(X), "standard")
        other = X * units * feature_scales(form(X * units), "standard")
        ratios = other / (X * scales)
        assert_allclose(ratios, ratios[0, 0], rtol=1e-9)
        whole = (100 * uneven_X(shift=1.0)).astype(int)
        assert_allclose(
            feature_scales(form(whole), "standard"), feature_scales(form(whole.astype(float)), "standard")
        )
        # Values whose squares are no numbers; extremely small features are brought to a spread of 1 too.
        assert_allclose(feature_scales(form(1e200 * X), "standard"), scales)
        centre = X.mean(axis=0) if form is np.asarray else 0
        spread = np.sqrt(np.mean(np.square(X - centre), axis=0))
        assert_allclose(feature_scales(form(1e-200 * X), "standard"), 1e200 / spread, rtol=1e-6)
        assert_allclose(scales * spread, (scales * spread)[0], rtol=1e-6)


def test_nothing_is_scaled_where_that_was_not_asked_for_or_would_change_little():
    spread = np.random.default_rng(0).standard_normal((40, 3))
    spread /= spread.std(axis=0)
    for X in (spread, spread * 1e6, spread * [1.0, 1.2, 0.9], np.zeros((4, 3)), np.zeros((1, 1))):
        for form in (np.asarray, sp.csr_array):
            assert feature_scales(form(X), "standard") is None
    assert feature_scales(uneven_X(), "none") is None
    assert feature_scales(np.ones((4, 3)), "standard") is None
    # Nine to one on the way down is three to one half the way. A single feature has none to compare with.
    assert feature_scales(spread * [1.0, 9.0, 1.0], "root") is not None
    assert feature_scales(uneven_X()[:, :1], "standard") is None


def test_scaled_features_are_those_of_the_scaled_matrix():
    X, labels = uneven_X(shift=0.4), Case(n=30, n_labels=4).labels
    for form, centre, scaling in product(FORMS, (False, True), SCALINGS[1:]):
        told = f"{form.__name__}, centre={centre}, {scaling}"
        scaled = problem_of(form(X), centre=centre, scaling=scaling)
        mine, _, _ = same_model(scaled, form(X), told, atol=1e-10)
        coordinates = scaled.features.coordinates
        assert_array_equal(coordinates.scales, feature_scales(form(X), scaling))
        if form is np.asarray and centre:
            assert_allclose(coordinates.centre, (X * coordinates.scales).mean(axis=0))
        same = problem_of(form(X * coordinates.scales), centre=centre)
        # The axes are the same up to their signs.
        assert_allclose(np.abs(mine), np.abs(rows_of(same)), atol=1e-9, err_msg=told)
    for form, solver in product((np.asarray, sp.csr_array), SOLVERS):
        scaled = problem_of(form(X), centre=True, scaling="standard")
        scales, fits, models = scaled.features.coordinates.scales, [], []
        for problem in (scaled, problem_of(form(X * scales), centre=True)):
            fits.append(SOLVERS[solver](problem.objective(labels), Penalties(0.01, 1e-3), tol=1e-6))
            models.append(problem.to_original(fits[-1].factors))
        assert fits[0].objective == pytest.approx(fits[1].objective, rel=1e-5), solver
        weights = scales[:, None] * (models[1].left @ models[1].right.T)
        assert_allclose(X @ models[0].left @ models[0].right.T, X @ weights, atol=4e-3, err_msg=solver)


def test_scales_by_counts_and_positives():
    counts, filled = np.array([0, 1, 10, 100]), np.array([1, 1, 10, 100])
    assert_allclose(scales_by_count(counts, 0.75) ** -2.0, (filled / filled.mean()) ** 0.75)
    assert_allclose(scales_by_count(counts, 0.75, 4.0) ** -2.0, (filled / 4.0) ** 0.75)
    assert_array_equal(scales_by_count(counts, 0.0), 1)
    squares = scales_by_positives(counts, 0.5) ** 2
    assert_allclose(squares / squares[-1], (filled / 100) ** -0.5)
    assert np.average(squares, weights=filled) == pytest.approx(1.0)


# -- a penalty on the scores ---------------------------------------------------------------------------------


def test_a_penalty_on_the_scores_makes_the_columns_orthonormal():
    for shape, form in product(SHAPES, FORMS):
        X, (_, _, rank), told = random_X(shape), SHAPES[shape], f"{shape}, {form.__name__}"
        problem = problem_of(form(X), penalty="scores")
        U, mine, theirs = same_model(problem, X, told)
        assert U.shape == (len(X), rank), told
        assert_allclose(U.T @ U, np.eye(rank), atol=1e-13, err_msg=told)
        assert_allclose(U @ (U.T @ X), X, atol=1e-12, err_msg=told)
        # Nothing was centred, so the intercept stays; the weights are the smallest that give the scores.
        assert_array_equal(theirs.intercept, mine.intercept)
        least = np.linalg.lstsq(X, U @ mine.left @ mine.right.T, rcond=1e-10)[0]
        assert_allclose(theirs.left @ theirs.right.T, least, atol=1e-11, err_msg=told)
        stored = problem.objective(labels_of(len(X)), free_intercept=False).n_stored
        assert stored == len(X) * rank + len(X) * 4, told
    U, V = (rows_of(problem_of(X, penalty="scores")) for X in (random_X(), random_X() * [1, 1e-4, 1, 1e4, 1]))
    assert_allclose(V @ V.T, U @ U.T, atol=1e-9)


def test_small_singular_values_cost_no_orthogonality():
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((size, 6)))[0] for size in (60, 6))
    settings = ProblemSettings(get_loss("logistic"), FeatureSettings(penalty="scores"))
    for smallest, cuts in product((1e-3, 1e-6, 1e-9), ([], [20, 40], [0, 1, 60])):
        X = (left * np.geomspace(1.0, smallest, 6)) @ right.T
        parts = [X[start:stop] for start, stop in pairwise([0, *cuts, 60])]
        problem = Problem([RowBlock(part, labels_of(len(part))) for part in parts], settings)
        U, told = rows_of(problem), f"{smallest}, cut before {cuts}"
        assert_allclose(U.T @ U, np.eye(6), atol=1e-13, err_msg=told)
        # The scores come back with an error of the machine's precision over the smallest singular value.
        mine = random_factors(np.random.default_rng(1), 6, 4, 2)
        theirs = problem.to_original(mine)
        assert_allclose(X @ theirs.left, U @ mine.left, atol=1e-14 / smallest, err_msg=told)
        for part, expected in zip(problem.from_original(theirs), mine, strict=True):
            assert_allclose(part, expected, atol=1e-14 / smallest, err_msg=told)


def test_which_directions_are_dropped():
    for size, rank in ((1e-12, 4), (1e-7, 5)):
        X = random_X()
        X[:, 4] = X[:, 0] + size * X[:, 4]
        assert rows_of(problem_of(X, penalty="scores")).shape[1] == rank
    for form in FORMS[:2]:
        single = form(random_X("dependent").astype(np.float32))
        assert rows_of(problem_of(single, penalty="scores")).shape[1] == 3
        nothing = problem_of(form(np.zeros((4, 3))), penalty="scores")
        assert_array_equal(rows_of(nothing), np.zeros((4, 1)))
        mine = random_factors(np.random.default_rng(1), 1, 4, 1)
        assert_array_equal(nothing.to_original(mine).left, np.zeros((3, 1)))
    # Nothing of the documented limit's size is made: the refusal comes first.
    message = r"16384 x 8193 = 1\.3e\+08 entries.*TruncatedSVD, or put the penalty on W"
    with pytest.raises(InvalidFeaturesError, match=message):
        problem_of(sp.csr_array((1 << 14, (1 << 13) + 1)), penalty="scores")


# -- there and back ------------------------------------------------------------------------------------------


def test_the_way_back_inverts_the_way_to_the_original_features():
    for name, (shape, form, features) in {
        "scaled": ("tall", np.asarray, {"scaling": "standard"}),
        "scaled and centred": ("tall", np.asarray, {"scaling": "root", "centre": True}),
        "wide": ("wide", np.asarray, {"centre": True}),
        "dependent": ("dependent", np.asarray, {"centre": True}),
        "one row": ("one row", np.asarray, {"centre": True}),
        "scores, wide": ("wide", np.asarray, {"penalty": "scores"}),
        "scores, dependent": ("dependent", sp.csr_array, {"penalty": "scores"}),
        "sparse and scaled": ("tall", sp.csr_array, {"scaling": "standard", "centre": True}),
        "sparse with few rows": ("two rows", sp.csr_array, {"centre": True}),
        "own rows by count": ("tall", None, {"count_weighting": 0.75}),
        "own rows by count and features": ("tall", sp.csr_array, {"own_rows": True, "count_weighting": 0.75}),
    }.items():
        rng, X = np.random.default_rng(3), random_X(shape)
        X[:, 0] *= 100.0
        labels = ObservedLabels.from_dense(random_labels(rng, len(X) + 2, 4)[: len(X)])
        problem = make_problem(None if form is None else form(X), labels, features=features)
        mine = random_factors(rng, *problem.objective(labels).shape, 2)
        theirs = problem.to_original(mine)
        again = problem.from_original(theirs)
        # And once more: a model that is in the span of the rows stays what it is.
        for found, expected in ((again, mine), (problem.to_original(again), theirs)):
            for part, right in zip(found, expected, strict=True):
                assert_allclose(part, right, rtol=1e-10, atol=1e-10, err_msg=name)


def test_settings_of_a_problem_change_without_reading_the_features_again():
    problem = problem_of(random_X(), centre=True)
    assert problem.with_settings(fit_intercept=False).features is problem.features
    scored = problem.with_settings(features=FeatureSettings(penalty="scores"))
    assert scored.features is not problem.features
    assert_allclose(rows_of(scored).T @ rows_of(scored), np.eye(5), atol=1e-12)
