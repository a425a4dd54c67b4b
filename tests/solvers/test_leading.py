"""The columns that a fit at a given rank begins with."""

import numpy as np
import pytest

from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.objective.protocol import Factors
from labelgap.solvers import alternating
from labelgap.solvers.alternating import with_leading_columns
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.linalg import thin_qr
from solver_problems import Case


def start_of(case, fraction, rank):
    objective = case.objective()
    penalties = Penalties(fraction * largest_trace_penalty(objective))
    point = objective.at(Factors.zero(objective.shape, objective.starting_intercept()))
    return objective, penalties, point, with_leading_columns(objective, penalties, point, rank, 0)


def test_they_are_about_the_leading_directions_of_the_gradient():
    case = Case("identity", n=40, n_labels=30)
    objective, _, point, start = start_of(case, 0.1, 12)
    U = np.linalg.svd(point.score_gradient().matrix())[0]
    assert start.left.shape == (objective.shape[0], 12)
    assert start.left.dtype == np.float64
    assert not start.right.any()
    columns = start.left / np.linalg.norm(start.left, axis=0)
    assert np.linalg.norm(columns.T @ U[:, :2], axis=0).min() > 0.95
    np.testing.assert_allclose(columns.T @ columns, np.eye(12), atol=1e-10)


def test_they_are_as_long_as_the_trace_norm_lets_them_be():
    # With these lengths the best B of a quadratic with the same curvature everywhere is as long as A.
    case = Case("identity", "squared", n=40, n_labels=30)
    _, penalties, point, start = start_of(case, 0.3, 40)
    U, values, Vt = np.linalg.svd(point.score_gradient().matrix())
    curvature = float(point.curvature_along(U[:, :1].copy(), Vt[:1].T.copy())[0])
    lengths = np.linalg.norm(start.left, axis=0)
    surplus = np.maximum(values - penalties.trace, 0.1 * values)
    np.testing.assert_allclose(lengths[:4], np.sqrt(surplus / curvature)[:4], rtol=0.05)
    assert np.all(np.diff(lengths) <= 1e-12)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_new_columns_are_outside_of_the_spans_of_the_old_ones(ridge):
    case = Case("identity", n=40, n_labels=30)
    objective = case.objective()
    largest = largest_trace_penalty(objective)
    penalties = Penalties(0.2 * largest, ridge * largest)
    fit = alternating.solve_alternating(objective, penalties, rank=6, tol=1e-6)
    start = with_leading_columns(objective, penalties, objective.at(fit.factors), 14, 0)
    old, new = start.left[:, :6], start.left[:, 6:]
    np.testing.assert_array_equal(old, fit.factors.left)
    np.testing.assert_allclose(old.T @ new, 0.0, atol=1e-8 * np.linalg.norm(old) * np.linalg.norm(new))


def test_where_no_direction_leads_down_there_are_none():
    _, _, _, start = start_of(Case("identity", n=40, n_labels=30), 1.3, 4)
    assert start.rank == 0


@pytest.mark.parametrize("shape", [(400, 5), (20, 5), (5, 5), (400, 1)])
def test_orthonormal_columns_whatever_the_matrix(shape):
    rng = np.random.default_rng(0)
    for M in (
        rng.standard_normal(shape),
        rng.standard_normal(shape) * np.logspace(0, -12, shape[1]),
        np.ones(shape),
        np.zeros(shape),
        1e-200 * rng.standard_normal(shape),
    ):
        Q, R = thin_qr(M)
        np.testing.assert_allclose(Q.T @ Q, np.eye(shape[1]), atol=1e-12)
        np.testing.assert_allclose(Q @ R, M, atol=1e-13 * max(np.abs(M).max(), 1e-200))
