"""The path of proximal steps, against dense formulas; where it leads is the business of other files."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.labels import ObservedLabels
from labelgap.losses import Gaussian, Poisson
from labelgap.solvers import SOLVERS, Penalties
from labelgap.solvers.certificate import certify
from labelgap.solvers.loop import starting_factors
from labelgap.solvers.proximal import ProximalPath
from solver_problems import Asked, Case, make_problem, random_factors

PENALTIES = {
    "trace": Penalties(0.01),
    "trace and ridge": Penalties(0.01, 0.02),
    "ridge": Penalties(0.0, 0.02),
    "penalised intercepts": Penalties(0.01, 0.02, intercept=0.05, centre=-0.3),
}
every_penalty = pytest.mark.parametrize("penalties", PENALTIES.values(), ids=PENALTIES)
formed_or_not = pytest.mark.parametrize("formed", [True, False], ids=["W formed", "W in factors"])


def weights(point):
    return point.factors.left @ point.factors.right.T


def path_of(penalties, formed=True, cap=5, start=None, kind="dense", **case):
    objective = Asked(Case(kind, **case).objective(free_intercept=penalties.intercept == 0), formed)
    start = starting_factors(objective, start)
    return objective, ProximalPath(objective, penalties, start, min(cap, *objective.shape), 1e-6)


@every_penalty
@formed_or_not
def test_the_objective_never_rises_and_is_that_of_the_point(penalties, formed):
    objective, path = path_of(penalties, formed)
    path.certificate()
    before = path.value
    for _ in range(30):
        gained = path.advance()
        assert gained == pytest.approx(before - path.value, abs=1e-15)
        assert path.value <= before * (1 + 1e-12)
        before = path.value
        values = np.linalg.svd(weights(path.point), compute_uv=False)
        fresh = objective.at(path.point.factors)
        assert path.value == pytest.approx(
            fresh.value + penalties.of(values, path.point.factors.intercept), rel=1e-10
        )
    assert path.value < 0.99 * objective.at(starting_factors(objective, None)).value


@every_penalty
@pytest.mark.parametrize("kind", ["dense", "csr", "identity"])
def test_forming_W_changes_nothing_but_the_work(penalties, kind):
    ends = []
    for formed in (True, False):
        _, path = path_of(penalties, formed, kind=kind)
        path.certificate(3)
        for _ in range(8):
            path.advance()
        ends.append(path)
    assert ends[0].value == pytest.approx(ends[1].value, rel=1e-8)
    assert_allclose(weights(ends[0].point), weights(ends[1].point), atol=1e-5)


@every_penalty
@formed_or_not
def test_the_certificate_of_the_path_is_that_of_its_point(penalties, formed):
    objective, path = path_of(penalties, formed)
    for _ in range(4):
        mine, expected = path.certificate(2), certify(objective, path.point, penalties, directions=2)
        assert mine.objective == pytest.approx(expected.objective, rel=1e-12)
        assert mine.dual == pytest.approx(expected.dual, rel=1e-10)
        assert_allclose(mine.residual.values, expected.residual.values, rtol=1e-8, atol=1e-12)
        path.advance()


@formed_or_not
def test_a_path_under_a_cap_and_from_a_start_of_higher_rank(formed):
    start = random_factors(np.random.default_rng(3), 4, 5, 4)
    _, path = path_of(Penalties(0.001), formed, cap=2, start=start)
    path.certificate()
    for _ in range(5):
        assert path.point.factors.rank <= 2
        path.advance()
    assert path.point.factors.rank == 2


def test_much_ridge_needs_few_steps():
    # Strong convexity is known to the path: the distance to the optimum falls by a factor each step.
    penalties = Penalties(1e-3, 0.5)
    objective, path = path_of(penalties)
    path.certificate()
    for _ in range(25):
        path.advance()
    assert certify(objective, path.point, penalties).relative_gap < 1e-8


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_step_far_too_long_does_not_stop_the_path(solver):
    # exp(z) of an overshot score is astronomic, and so is the curvature of the way there.
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 2))
    W = np.array([[2.5, 2.0], [-2.0, 2.5]])
    Y = rng.poisson(np.exp(X @ W)).astype(float)
    labels = ObservedLabels.from_dense(Y, binary=False)
    problem = make_problem(X, labels, Poisson(), fit_intercept=False)
    fit = SOLVERS[solver](problem.objective(labels), Penalties(0.01), tol=1e-3)
    assert fit.converged
    left, right, _ = problem.to_original(fit.factors)
    assert_allclose(left @ right.T, W, atol=0.2)


def one_large_direction(size, share, ratio):
    """A Gaussian problem in W itself whose first singular value is ``ratio`` times λ, the others about λ."""
    rng = np.random.default_rng(0)
    U, V, X = (np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in range(3))
    Y = X @ (U * np.r_[ratio, np.linspace(3, 0.5, size - 1)]) @ V.T
    Y[rng.random(Y.shape) > share] = np.nan
    labels = ObservedLabels.from_dense(Y, binary=False)
    problem = make_problem(X, labels, Gaussian(), features={"centre": False}, fit_intercept=False)
    objective = problem.objective(labels)
    return objective, Penalties(largest_trace_penalty(objective) / ratio)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("share", "ratio"), [(1.0, 200), (0.7, 120), (0.7, 30)])
def test_what_single_precision_loses_does_not_keep_the_gap_open(solver, share, ratio):
    objective, penalties = one_large_direction(60, share, ratio)
    found = SOLVERS[solver](objective, penalties, tol=1e-3, max_iter=200)
    expected = SOLVERS["factored"](objective, penalties, tol=1e-8)
    assert found.converged
    assert found.objective == pytest.approx(expected.objective, rel=1e-3)


def test_a_tiny_penalty_does_not_overflow():
    objective, _ = path_of(Penalties(0.01))
    fit = SOLVERS["factored"](objective, Penalties(1e-170, 1e-3), tol=1e-3)
    assert fit.converged
