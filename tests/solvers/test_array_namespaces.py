"""Solvers and certificate run on the objective's arrays: numpy's and torch's, single and double precision."""

from __future__ import annotations

from functools import cache

import array_api_compat.numpy
import numpy as np
import pytest
from array_api_compat import array_namespace
from numpy.testing import assert_allclose

from array_objective import ArrayObjective
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, Penalties, solve_alternating, solve_factored
from labelgap.solvers.certificate import certify
from labelgap.solvers.linalg import balanced, thin_qr
from labelgap.solvers.loop import Checkpoint, starting_factors
from labelgap.solvers.spectral import LowRankShift, following_triplets, leading_triplets
from solver_problems import Case

pytestmark = pytest.mark.pairwise

# What can be asked for in each precision.
TOLERANCES = {"float32": 1e-4, "float64": 1e-8}

PENALTIES = {
    "trace": Penalties(0.02),
    "trace and ridge": Penalties(0.01, 0.02),
    "ridge": Penalties(0.0, 0.05),
    "intercept": Penalties(0.01, 0.01, intercept=0.05, centre=-0.3),
}


class Machine:
    """A namespace in one precision."""

    def __init__(self, name, precision):
        if name == "torch":
            torch = pytest.importorskip("torch", reason="no torch here, so only numpy's arrays are tried")
            # Threads cost more than they bring at this size.
            torch.set_num_threads(1)
            import array_api_compat.torch as xp
        else:
            xp = array_api_compat.numpy
        self.xp, self.dtype, self.precision = xp, getattr(xp, precision), precision
        self.tol = TOLERANCES[precision]

    def array(self, array):
        return self.xp.asarray(array, dtype=self.dtype)

    def objective(self, case, **options):
        X, Y, weights = case.data
        return ArrayObjective(
            X,
            Y,
            case.loss,
            weights,
            xp=self.xp,
            dtype=self.dtype,
            intercept=case.intercept,
            **options,
        )

    def owns(self, *arrays):
        return all(array_namespace(array) is self.xp and array.dtype == self.dtype for array in arrays)


@pytest.fixture(params=["numpy", "torch"])
def namespace(request):
    return request.param


@pytest.fixture(params=TOLERANCES)
def machine(namespace, request):
    return Machine(namespace, request.param)


@cache
def reference(case, penalties):
    """The optimum by the compiled objective, to ten digits."""
    objective = case.objective(free_intercept=penalties.intercept == 0)
    fit = solve_factored(objective, penalties, tol=1e-10)
    assert fit.converged
    return fit


def check(fit, machine, case, penalties, tol):
    assert fit.converged
    assert fit.relative_gap <= tol
    assert machine.owns(*fit.factors, fit.singular_values)
    expected = reference(case, penalties)
    # Within the gap of the optimum, and not below it by more than rounding.
    rounding = 20 * float(machine.xp.finfo(machine.dtype).eps)
    assert fit.objective <= expected.objective * (1 + tol + rounding)
    assert fit.objective >= expected.objective * (1 - 1e-9 - rounding)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("name", PENALTIES)
def test_fits_reach_their_gap_in_the_objectives_arrays(machine, solver, loss, name):
    case, penalties = Case(loss=loss, weighted=True, centre=False, n=20, d=6, n_labels=7), PENALTIES[name]
    fit = SOLVERS[solver](machine.objective(case), penalties, tol=machine.tol)
    check(fit, machine, case, penalties, machine.tol)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("intercept", [True, False])
def test_fits_that_may_form_nothing_reach_it_too(machine, solver, intercept):
    case = Case(intercept=intercept, centre=False, n=60, d=20, n_labels=15)
    penalties = Penalties(0.02, 1e-3)
    tol = max(machine.tol, 1e-6)
    fit = SOLVERS[solver](machine.objective(case, may_form=False), penalties, tol=tol)
    check(fit, machine, case, penalties, tol)


@pytest.mark.parametrize("solver", SOLVERS)
def test_beyond_the_size_of_a_full_decomposition(machine, solver):
    # More than 32 on the shorter side: the Gram matrix, in double precision for singles too.
    case, penalties = Case(centre=False, n=80, d=40, n_labels=36), Penalties(0.004)
    fit = SOLVERS[solver](machine.objective(case), penalties, tol=machine.tol)
    check(fit, machine, case, penalties, machine.tol)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_alternation(machine, loss):
    case, penalties = Case(loss=loss, centre=False, n=20, d=6, n_labels=7), Penalties(0.03)
    tol = max(machine.tol, 1e-5)
    fit = solve_alternating(machine.objective(case), penalties, rank=6, tol=tol)
    assert fit.converged
    assert machine.owns(*fit.factors, fit.singular_values)
    assert fit.objective <= reference(case, penalties).objective * (1 + 10 * tol)
    assert fit.gap >= fit.objective - reference(case, penalties).objective - tol * fit.objective


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_rank_cap(machine, solver):
    case, penalties = Case(centre=False, n=20, d=6, n_labels=7), Penalties(0.005)
    fit = SOLVERS[solver](machine.objective(case), penalties, rank=2, tol=1e-3)
    assert fit.converged
    assert fit.capped
    assert fit.rank == 2
    assert machine.owns(*fit.factors)
    # A stationary point at that rank need not be the same one, but its gap is honest.
    assert fit.gap >= (fit.objective - reference(case, penalties).objective) * (1 - 1e-4)


def test_label_features(machine):
    rng = np.random.default_rng(0)
    case = Case(centre=False, n=20, d=6, n_labels=7)
    X, Y, _ = case.data
    F = rng.standard_normal((7, 3))
    objective = ArrayObjective(X, Y, label_features=F, xp=machine.xp, dtype=machine.dtype)
    fits = [solve(objective, Penalties(0.02), tol=machine.tol) for solve in SOLVERS.values()]
    assert all(fit.factors.right.shape[0] == 3 for fit in fits)
    assert fits[0].objective == pytest.approx(fits[1].objective, rel=2 * machine.tol)


def test_a_warm_start_of_numpys_doubles_is_taken_over(machine):
    case, penalties = Case(centre=False, n=20, d=6, n_labels=7), Penalties(0.02)
    objective = machine.objective(case)
    cold = solve_factored(objective, penalties, tol=0.1 * machine.tol)
    start = Factors(*(np.asarray(array, dtype=np.float64) for array in cold.factors))
    warm = solve_factored(objective, penalties, tol=machine.tol, warm_start=start)
    assert warm.n_iter == 0
    assert machine.owns(*warm.factors)


@pytest.mark.parametrize("solver", SOLVERS)
def test_more_than_the_precision_holds_ends_at_a_floor(namespace, solver):
    machine = Machine(namespace, "float32")
    objective = machine.objective(Case(centre=False, n=20, d=6, n_labels=7))
    fit = SOLVERS[solver](objective, Penalties(0.02), tol=1e-12)
    # It may have computed a gap of 0, but it does not work on until the last iteration.
    assert fit.relative_gap < 1e-5
    assert fit.n_iter < 300


@pytest.mark.parametrize("may_form", [True, False])
@pytest.mark.parametrize("shape", [(24, 30), (50, 60), (70, 45)])
@pytest.mark.parametrize("count", [1, 12])
def test_leading_triplets(machine, shape, count, may_form):
    rng = np.random.default_rng(0)
    H = rng.standard_normal(shape)
    left, right = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2))
    shift = LowRankShift(KnownMatrix(machine.array(H - left @ right.T)), *map(machine.array, (left, right)))
    found = leading_triplets(shift, shape, count, may_form)
    assert machine.owns(found.left, found.values, found.right)
    values = np.linalg.svd(H, compute_uv=False)[:count]
    close = 1e-10 if machine.precision == "float64" else 1e-5
    assert_allclose(np.asarray(found.values)[0], values[0], rtol=close)
    assert_allclose(np.asarray(found.values), values, rtol=close if may_form else 0.05)
    # Rounded up, by what Lanczos may miss too.
    assert values[0] * (1 - 10 * close) <= found.top <= values[0] * (1 + max(10 * close, 1e-6))
    leading = np.asarray(found.left)[:, 0] @ H @ np.asarray(found.right)[:, 0]
    assert leading == pytest.approx(values[0], rel=1e-5)
    followed = following_triplets(
        shift, shape, found.right, above=0.5 * (values[0] + values[-1]), may_form=may_form
    )
    assert machine.owns(followed.left, followed.values, followed.right)
    assert np.asarray(followed.values)[0] == pytest.approx(values[0], rel=1e-4)


class KnownMatrix:
    """A score gradient whose ``XᵀG`` is given."""

    def __init__(self, H):
        self._H = H

    def left_product(self, V):
        return self._H @ V

    def right_product(self, U):
        return self._H.T @ U

    def matrix(self):
        return self._H


def test_certificates_agree(machine):
    case = Case(weighted=True, centre=False, n=20, d=6, n_labels=7)
    rng = np.random.default_rng(1)
    plain = Factors(rng.standard_normal((6, 2)), rng.standard_normal((7, 2)), rng.standard_normal(7))
    close = 1e-11 if machine.precision == "float64" else 1e-5
    for name in PENALTIES:
        penalties = PENALTIES[name]
        exact = ArrayObjective(*case.data[:2], weights=case.data[2])
        expected = certify(exact, exact.at(plain), penalties)
        for may_form in (True, False):
            objective = machine.objective(case, may_form=may_form)
            point = objective.at(starting_factors(objective, plain))
            found = certify(objective, point, penalties, directions=2)
            assert found.objective == pytest.approx(expected.objective, rel=close)
            assert found.dual == pytest.approx(expected.dual, rel=max(close, 1e-6), abs=1e-6)
            assert machine.owns(found.residual.left, found.residual.values, found.residual.right)


@pytest.mark.parametrize("shape", [(400, 5), (20, 5), (5, 5), (400, 1)])
def test_orthonormal_columns(machine, shape):
    rng = np.random.default_rng(0)
    close = 20 * float(machine.xp.finfo(machine.dtype).eps) * np.sqrt(shape[0])
    for M in (
        rng.standard_normal(shape),
        rng.standard_normal(shape) * np.logspace(0, -6, shape[1]),
        np.ones(shape),
        np.zeros(shape),
    ):
        Q, R = thin_qr(machine.array(M))
        assert machine.owns(Q, R)
        assert_allclose(np.asarray(Q.T @ Q), np.eye(shape[1]), atol=close)
        assert_allclose(np.asarray(Q @ R), M, atol=close * max(np.abs(M).max(), 1e-30))


def test_balanced_factors(machine):
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
    values, A, B = balanced(machine.array(left), machine.array(right))
    assert machine.owns(values, A, B)
    close = 1e-12 if machine.precision == "float64" else 1e-4
    assert_allclose(np.asarray(A @ B.T), left @ right.T, atol=close)
    assert_allclose(np.asarray(A.T @ A), np.diag(np.asarray(values)), atol=close)
    twice = np.repeat(left, 2, axis=1), np.repeat(right, 2, axis=1)
    assert balanced(*map(machine.array, twice))[0].shape == (3,)


class Memory(Checkpoint):
    """Keeps the last snapshots; begins with one."""

    def __init__(self, start=None):
        super().__init__()
        self.snapshots, self._start = [], start

    def last(self):
        return self._start

    def snapshot(self, state, *, at_once=False):
        self.snapshots.append({name: np.array(array) for name, array in state.items()})


@pytest.mark.parametrize("solver", [*SOLVERS, "alternating"])
def test_a_run_resumes_from_arrays_of_the_host(machine, solver):
    case, penalties = Case(centre=False, n=40, d=8, n_labels=9), Penalties(0.002)
    solve = {**SOLVERS, "alternating": solve_alternating}[solver]
    options = {"tol": machine.tol, **({"rank": 4} if solver == "alternating" else {})}
    memory, objective = Memory(), machine.objective(case)
    whole = solve(objective, penalties, checkpoint=memory, **options)
    assert memory.snapshots
    resumed = solve(objective, penalties, checkpoint=Memory(memory.snapshots[-1]), **options)
    assert machine.owns(*resumed.factors)
    assert resumed.n_iter == whole.n_iter
    for one, other in zip(resumed.factors, whole.factors, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_a_matrix_without_columns_has_an_empty_basis() -> None:
    torch = pytest.importorskip("torch")
    Q, R = thin_qr(torch.zeros((50, 0), dtype=torch.float64))
    assert tuple(Q.shape) == (50, 0)
    assert tuple(R.shape) == (0, 0)
