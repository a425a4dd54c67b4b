"""Coordinates of the features: rotated and centred, they leave the model as it is."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.labels import ObservedLabels
from labelgap.objective import moments as moments_module
from labelgap.objective.cpu.part import CpuRows
from labelgap.objective.frame import FeatureFrame, decide_coordinates, scales_by_count
from labelgap.objective.parts import FeatureSettings, RowBlock
from solver_problems import make_problem, random_factors, random_labels

# More rows than features, more features than rows, and dependent features.
SHAPES = {
    "tall": (12, 5),
    "wide": (5, 9),
    "square": (6, 6),
    "one row": (1, 3),
    "two rows": (2, 9),
    "one feature": (7, 1),
}


def random_X(shape, seed=0, shift=2.0):
    n, d = SHAPES.get(shape, (12, 5))
    X = np.random.default_rng(seed).standard_normal((n, d)) + shift
    if shape == "dependent":
        X[:, 1] = X[:, 0]
    return X


def labels_of(n, n_labels=4):
    return ObservedLabels.from_dense(np.zeros((n, n_labels)))


def problem_of(X, n_labels=4, **features):
    return make_problem(X, labels_of(X.shape[0], n_labels), features=features)


def rows_of(problem):
    """The features of all rows, in the coordinates of the problem."""
    return problem.left(np.eye(problem.features.coordinates.n_coordinates))


@pytest.fixture(params=[*SHAPES, "dependent"])
def X(request):
    return random_X(request.param)


@pytest.mark.parametrize("centre", [False, True])
def test_rotation_and_centring_leave_the_model_as_it_is(X, centre):
    problem = problem_of(X, centre=centre)
    rows = rows_of(problem)
    mine = random_factors(np.random.default_rng(1), rows.shape[1], 4, 2)
    theirs = problem.to_original(mine)
    W, W_original = mine.left @ mine.right.T, theirs.left @ theirs.right.T
    assert W_original.shape == (X.shape[1], 4)
    scores = rows @ mine.left @ mine.right.T + mine.intercept
    assert_allclose(X @ W_original + theirs.intercept, scores, atol=1e-12)
    # Trace norm and Frobenius norm at once.
    values = np.linalg.svd(W, compute_uv=False)
    assert_allclose(np.linalg.svd(W_original, compute_uv=False)[: len(values)], values, atol=1e-12)


@pytest.mark.parametrize("centre", [False, True])
def test_rotated_features_have_a_diagonal_gram_matrix_in_falling_order(X, centre):
    rotated = rows_of(problem_of(X, centre=centre))
    gram = rotated.T @ rotated
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10 * np.trace(gram))
    assert np.all(np.diff(np.diag(gram)) <= 1e-10 * np.trace(gram))


def test_without_time_for_a_rotation_features_stay_as_given(X, monkeypatch):
    monkeypatch.setattr(moments_module, "ROTATION_WORK", 0)
    problem = problem_of(X)
    assert_array_equal(rows_of(problem), X)
    factors = random_factors(np.random.default_rng(1), X.shape[1], 4, 2)
    for part, other in zip(problem.to_original(factors), factors, strict=True):
        assert_allclose(part, other)


def test_without_a_rotation_centring_still_moves_the_intercept(monkeypatch):
    monkeypatch.setattr(moments_module, "ROTATION_WORK", 0)
    X = random_X("tall")
    problem = problem_of(X, centre=True)
    assert_allclose(rows_of(problem), X - X.mean(axis=0), atol=1e-15)
    mine = random_factors(np.random.default_rng(1), 5, 4, 2)
    theirs = problem.to_original(mine)
    scores = rows_of(problem) @ mine.left @ mine.right.T + mine.intercept
    assert_allclose(X @ theirs.left @ theirs.right.T + theirs.intercept, scores, atol=1e-12)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("scaling", ["none", "standard"])
def test_sparse_features_of_few_rows_are_taken_to_the_span_of_the_rows(centre, scaling):
    X = sp.random_array((4, 40), density=0.3, format="csr", rng=np.random.default_rng(1))
    X = sp.csr_array(X @ sp.diags_array(np.linspace(0.2, 3.0, 40)))
    problem = problem_of(X, n_labels=3, centre=centre, scaling=scaling)
    rows, coordinates = rows_of(problem), problem.features.coordinates
    assert rows.shape[1] <= 4
    assert (coordinates.scales is None) == (scaling == "none")
    mine = random_factors(np.random.default_rng(2), rows.shape[1], 3, 2)
    theirs = problem.to_original(mine)
    scores = rows @ mine.left @ mine.right.T + mine.intercept
    assert_allclose(X @ theirs.left @ theirs.right.T + theirs.intercept, scores, atol=1e-12)
    # As many columns as would not fit stay sparse.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments_module, "_LARGEST_DENSE", 100)
        assert problem_of(X, n_labels=3, centre=centre, scaling=scaling).features.coordinates.is_sparse


def test_only_sparse_features_stay_sparse():
    X = random_X("tall")
    assert not problem_of(X, centre=True).features.coordinates.is_sparse
    for form in (sp.csr_array, sp.csc_matrix):
        coordinates = problem_of(form(X), centre=True).features.coordinates
        assert coordinates.is_sparse
        # Zeros would not stay zeros.
        assert coordinates.centre is None
        assert coordinates.basis is None


def test_the_centre_is_the_mean_of_the_scaled_features():
    X = random_X("tall") * [0.01, 1.0, 10.0, 1.0, 1.0]
    coordinates = problem_of(X, centre=True, scaling="standard").features.coordinates
    assert_allclose(coordinates.centre, (X * coordinates.scales).mean(axis=0))
    assert problem_of(X, centre=False, scaling="standard").features.coordinates.centre is None


# -- there and back ------------------------------------------------------------------------------------------

INVERTED = {
    "dense": ("tall", np.asarray, {}),
    "centred": ("tall", np.asarray, {"centre": True}),
    "scaled": ("tall", np.asarray, {"scaling": "standard"}),
    "scaled and centred": ("tall", np.asarray, {"scaling": "root", "centre": True}),
    "wide": ("wide", np.asarray, {"centre": True}),
    "dependent": ("dependent", np.asarray, {"centre": True}),
    "one row": ("one row", np.asarray, {"centre": True}),
    "penalty on the scores": ("tall", np.asarray, {"penalty": "scores"}),
    "penalty on the scores, wide": ("wide", np.asarray, {"penalty": "scores"}),
    "penalty on the scores, dependent": ("dependent", sp.csr_array, {"penalty": "scores"}),
    "sparse": ("tall", sp.csr_array, {}),
    "sparse and scaled": ("tall", sp.csr_array, {"scaling": "standard", "centre": True}),
    "sparse with few rows": ("two rows", sp.csr_array, {"centre": True}),
    "own rows": ("tall", None, {}),
    "own rows by count": ("tall", None, {"count_weighting": 0.75}),
    "own rows and features": ("tall", sp.csr_array, {"own_rows": True}),
    "own rows by count and features": ("tall", sp.csr_array, {"own_rows": True, "count_weighting": 0.75}),
    "label features": ("tall", np.asarray, {"centre": True, "scaling": "standard", "label_features": True}),
}


@pytest.mark.parametrize("kind", INVERTED)
def test_the_way_back_inverts_the_way_to_the_original_features(kind):
    shape, form, features = INVERTED[kind]
    rng = np.random.default_rng(3)
    X = random_X(shape)
    X[:, 0] *= 100.0
    Y = random_labels(rng, len(X) + 2, 4)[: len(X)]
    if features.get("label_features"):
        features = {**features, "label_features": sp.csr_array(rng.standard_normal((4, 2)))}
    labels = ObservedLabels.from_dense(Y)
    problem = make_problem(None if form is None else form(X), labels, features=features)
    mine = random_factors(rng, *problem.objective(labels).shape, 2)._replace(intercept=rng.standard_normal(4))
    theirs = problem.to_original(mine)
    for part, expected in zip(problem.from_original(theirs), mine, strict=True):
        assert_allclose(part, expected, rtol=1e-10, atol=1e-10)
    # And once more from there: a model that is in the span of the rows stays what it is.
    for part, expected in zip(problem.to_original(problem.from_original(theirs)), theirs, strict=True):
        assert_allclose(part, expected, rtol=1e-10, atol=1e-10)


def test_of_weights_that_no_row_can_see_nothing_is_kept():
    X = random_X("wide")
    problem = problem_of(X)
    theirs = random_factors(np.random.default_rng(1), 9, 4, 2)
    mine = problem.from_original(theirs)
    assert mine.left.shape == (5, 2)
    assert_allclose(rows_of(problem) @ mine.left, X @ theirs.left, atol=1e-12)
    again = problem.to_original(mine).left
    assert np.linalg.norm(again) < np.linalg.norm(theirs.left)


# -- parameters of each row and label ------------------------------------------------------------------------


def test_scales_by_count_are_a_power_of_the_count_over_the_mean():
    counts = np.array([0, 1, 10, 100])
    filled = np.array([1, 1, 10, 100])
    sizes = scales_by_count(counts, 0.75) ** -2.0
    assert_allclose(sizes, (filled / filled.mean()) ** 0.75)
    assert_array_equal(scales_by_count(counts, 0.0), 1)
    assert_allclose(scales_by_count(counts, 0.75, 4.0) ** -2.0, (filled / 4.0) ** 0.75)


def test_own_parameters_are_scaled_by_the_counts_of_rows_and_labels():
    Y = random_labels(np.random.default_rng(0), 9, 4)
    Y[5] = np.nan
    labels = ObservedLabels.from_dense(Y)
    problem = make_problem(None, labels, features={"count_weighting": 0.5})
    assert_allclose(problem.left(np.eye(9)), np.diag(scales_by_count(labels.row_counts(), 0.5)))
    assert_allclose(problem.right(np.eye(4)), np.diag(scales_by_count(labels.label_counts(), 0.5)))
    assert_allclose(problem.mean_square_length, np.mean(scales_by_count(labels.row_counts(), 0.5) ** 2))
    mine = random_factors(np.random.default_rng(1), 9, 4, 2)
    scales = scales_by_count(labels.row_counts(), 0.5)
    assert_allclose(problem.to_original(mine).left, scales[:, None] * mine.left)


def test_the_mean_square_length_is_that_of_the_coordinates():
    X = random_X("tall") * [0.01, 1.0, 10.0, 1.0, 1.0]
    for features in ({}, {"centre": True}, {"scaling": "standard"}, {"penalty": "scores"}):
        problem = problem_of(X, **features)
        assert_allclose(problem.mean_square_length, np.mean(np.sum(rows_of(problem) ** 2, axis=1)))


def test_coordinates_follow_from_moments_alone():
    X = random_X("tall")
    moments = CpuRows(RowBlock(X, labels_of(12))).moments(FeatureSettings())
    alone = decide_coordinates(moments, scaling="standard", penalty="weights", centre=True)
    frame = FeatureFrame.decide(moments, scaling="standard", centre=True)
    assert_array_equal(alone.basis, frame.coordinates.basis)
    assert_array_equal(alone.basis, problem_of(X, scaling="standard", centre=True).features.coordinates.basis)
    assert frame.n_rows == 12
    assert frame.label_scales is None
