"""Sweeps at a growing rank, against the solver that works on all variables at once."""

import numpy as np
import pytest
import scipy.sparse as sp
from test_resuming import Memory, bits

from labelgap.labels import ObservedLabels
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties, factored, solve_auto, solve_factored, sweeping
from labelgap.solvers.factored import FEW_DIRECTIONS, FactoredMethod, growth_along
from labelgap.solvers.spectral import LowRankShift, leading_triplets, roughly_leading
from labelgap.solvers.sweeping import SweepingMethod
from solver_problems import Asked, Case, make_problem

pytestmark = pytest.mark.pairwise

N, N_ITEMS = 80, 60
KINDS = {
    "plain": {},
    "intercepts of the users": {"label_features": sp.csr_array(np.full((N_ITEMS, 1), 0.4))},
    "weighted by counts": {"count_weighting": 0.75},
}


def ratings(seed=0, rank=3):
    rng = np.random.default_rng(seed)
    scores = 2 * rng.standard_normal((N, rank)) @ rng.standard_normal((rank, N_ITEMS))
    Y = (rng.random(scores.shape) < 1 / (1 + np.exp(-scores))).astype(float)
    Y[rng.random(Y.shape) > 0.4 * rng.random((N, 1)) + 0.2] = np.nan
    return ObservedLabels.from_dense(Y)


def objective_of(kind="plain", loss="logistic"):
    labels = ratings()
    return make_problem(None, labels, loss, features=KINDS[kind]).objective(labels)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trace", [3e-3, 1e-3])
def test_it_reaches_the_optimum_within_the_gap(kind, loss, trace):
    objective, tol = objective_of(kind, loss), 1e-3
    best = solve_factored(objective, Penalties(trace), tol=1e-8)
    fit = solve_auto(objective, Penalties(trace), tol=tol)
    assert fit.converged
    assert fit.relative_gap <= tol
    assert best.objective - 1e-12 <= fit.objective <= best.objective + fit.gap + 1e-12
    assert fit.rank <= best.rank + 5


def test_a_ridge_is_part_of_it():
    objective, penalties = objective_of(), Penalties(1e-3, 1e-3)
    best = solve_factored(objective, penalties, tol=1e-8)
    fit = solve_auto(objective, penalties, tol=1e-3)
    assert fit.converged
    assert best.objective - 1e-12 <= fit.objective <= best.objective + fit.gap + 1e-12


def test_a_penalty_that_leaves_nothing_of_W_is_seen():
    fit = solve_auto(objective_of(), Penalties(1.0), tol=1e-3)
    assert fit.rank == 0
    assert fit.converged


def test_where_sweeps_are_too_slow_newtons_method_takes_over(monkeypatch):
    # No patience at all, and a tolerance that takes more than a few rounds.
    monkeypatch.setattr(sweeping, "_PATIENCE", -1)
    monkeypatch.setattr(sweeping, "_FALLING", np.inf)
    began = []
    monkeypatch.setattr(
        SweepingMethod,
        "_hand_over",
        lambda self, *state, original=SweepingMethod._hand_over: began.append(1) or original(self, *state),
    )
    fit = solve_auto(objective_of(), Penalties(1e-3), tol=1e-4)
    assert began
    assert fit.converged
    assert fit.relative_gap <= 1e-4


def test_the_directions_of_a_cap_are_used_and_it_is_said_that_it_binds():
    objective = objective_of()
    free = solve_factored(objective, Penalties(1e-3), tol=1e-6)
    fit = solve_auto(objective, Penalties(1e-3), rank=2, tol=1e-3)
    assert fit.rank == 2 < free.rank
    assert fit.capped
    assert fit.converged
    assert fit.objective - fit.gap <= free.objective + 1e-12
    other = solve_factored(objective, Penalties(1e-3), rank=2, tol=1e-3)
    assert fit.objective <= other.objective * (1 + 2e-3)


def test_from_a_fit_of_high_rank_it_comes_back_to_a_low_one():
    objective = objective_of()
    low = solve_auto(objective, Penalties(4e-3), tol=1e-3)
    high = solve_auto(objective, Penalties(5e-4), tol=1e-3)
    again = solve_auto(objective, Penalties(4e-3), tol=1e-3, warm_start=high.factors)
    assert high.rank > low.rank + 10
    assert again.rank <= low.rank + 4
    assert again.relative_gap <= 1e-3


@pytest.mark.parametrize("patience", [sweeping._PATIENCE, -1])
def test_resuming_from_any_snapshot_ends_with_the_same_bits(patience, monkeypatch):
    monkeypatch.setattr(sweeping, "_PATIENCE", patience)
    monkeypatch.setattr(factored, "_SNAPSHOT_EVERY", 1)
    objective, penalties, whole = objective_of(), Penalties(5e-4), Memory()
    expected = bits(solve_auto(objective, penalties, tol=1e-4, checkpoint=whole))
    assert len(whole.snapshots) >= 2
    for snapshot in whole.snapshots[:: max(1, len(whole.snapshots) // 3)]:
        assert bits(solve_auto(objective, penalties, tol=1e-4, checkpoint=Memory(snapshot))) == expected


@pytest.mark.parametrize("stop_after", [0, 1, 3])
def test_a_stopped_run_returns_what_it_has(stop_after):
    objective, penalties = objective_of(), Penalties(5e-4)
    fit = solve_auto(objective, penalties, tol=1e-4, checkpoint=Memory(stop_after=stop_after))
    whole = solve_auto(objective, penalties, tol=1e-4)
    assert not fit.converged
    assert fit.n_iter < whole.n_iter
    assert fit.objective - fit.gap <= whole.objective + 1e-12


# -- which solver ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "penalties", "tol", "expected"),
    [
        (objective_of(), Penalties(1e-3), 1e-3, SweepingMethod),
        (objective_of("weighted by counts"), Penalties(1e-3), 1e-2, SweepingMethod),
        (objective_of(), Penalties(0.0, 1e-3), 1e-3, FactoredMethod),
        (objective_of(), Penalties(1e-3), 1e-6, FactoredMethod),
        (Case().objective(), Penalties(1e-3), 1e-3, FactoredMethod),
        (Case(kind="csr").objective(), Penalties(1e-3), 1e-3, FactoredMethod),
    ],
)
def test_auto_sweeps_where_rows_have_parameters_of_their_own(
    objective, penalties, tol, expected, monkeypatch
):
    methods = []
    monkeypatch.setattr(sweeping, "run", lambda method, **_: methods.append(type(method)))
    solve_auto(objective, penalties, tol=tol)
    assert methods == [expected]


# -- directions ------------------------------------------------------------------------------------------


class Matrix:
    """A gradient that is known."""

    def __init__(self, H):
        self.H = H

    def left_product(self, V):
        return self.H @ V

    def right_product(self, U):
        return self.H.T @ U


def test_rough_triplets_are_those_outside_of_the_spans():
    rng = np.random.default_rng(0)
    H = rng.standard_normal((50, 40)) + 8 * np.outer(rng.standard_normal(50), rng.standard_normal(40))
    U, V = (np.linalg.qr(rng.standard_normal((size, 3)))[0] for size in (50, 40))
    rest = (np.eye(50) - U @ U.T) @ H @ (np.eye(40) - V @ V.T)
    none = Factors.zero((50, 40), np.zeros(40))
    shift = LowRankShift(Matrix(H), none.left, none.right)
    found = roughly_leading(shift, rng.standard_normal((40, 6)), (U, V), steps=6)
    values = np.linalg.svd(rest, compute_uv=False)
    assert np.all(found.values <= values[:6] * (1 + 1e-10))
    np.testing.assert_allclose(found.values[:3], values[:3], rtol=1e-3)
    np.testing.assert_allclose(U.T @ found.left, 0, atol=1e-10)
    np.testing.assert_allclose(V.T @ found.right, 0, atol=1e-10)
    np.testing.assert_allclose(found.left.T @ found.left, np.eye(6), atol=1e-10)
    np.testing.assert_allclose(np.sum(found.left * (rest @ found.right), axis=0), found.values, rtol=1e-8)


def test_directions_to_spare_do_not_shorten_those_along_which_the_objective_falls():
    objective = objective_of()
    point = objective.at(solve_factored(objective, Penalties(2e-3), tol=1e-8).factors)
    left, right = point.factors[:2]
    rank = left.shape[1]
    shift = LowRankShift(point.score_gradient(), left, right, scale=0.0)
    residual = leading_triplets(shift, objective.shape, rank + 20, may_form=True)
    # Of the directions that W does not have, one is above λ by a little, and nineteen are below it.
    trace = 0.5 * float(residual.values[rank] + residual.values[rank + 1])
    growth = growth_along(objective, Penalties(trace), point, residual, 60, -1.0, 0.05)
    expected = (residual.values[rank] - trace) / point.curvature_along(growth.U, growth.V)[0]
    assert len(growth.lengths) == 20
    assert growth.lengths.min() > 0
    np.testing.assert_allclose(growth.lengths[0] ** 2, expected, rtol=1e-10)
    # All of it is followed at once.
    grown = growth.followed(objective, trace)
    np.testing.assert_allclose(grown.factors.right[:, rank:], growth.lengths * growth.V)
    size = sum(np.sum(factor**2) for factor in grown.factors[:2])
    assert grown.value + 0.5 * trace * size < growth.value


def test_rough_directions_of_a_small_matrix_are_no_more_than_it_has():
    rng = np.random.default_rng(1)
    H, U, V = rng.standard_normal((30, 40)), np.eye(30, 4), np.eye(40, 4)
    none = Factors.zero((30, 40), np.zeros(40))
    found = roughly_leading(
        LowRankShift(Matrix(H), none.left, none.right), rng.standard_normal((40, 10)), (U, V)
    )
    values = np.linalg.svd(H[4:, 4:], compute_uv=False)
    assert np.all(found.values <= values[:10] * (1 + 1e-10))
    np.testing.assert_allclose(found.left.T @ found.left, np.eye(10), atol=1e-10)


def test_directions_to_grow_along_are_no_worse_than_those_of_the_certificate():
    objective = Asked(objective_of(), may_form=False)
    steps = objective.rowwise(np.float32)
    method = SweepingMethod(objective, Penalties(1e-3), steps, rank=None, tol=1e-3, max_iter=100)
    method.begin(None, None)
    known = method.certify().residual
    found = method._directions(objective.at(method.factors), 1)
    assert len(known.values) == FEW_DIRECTIONS
    assert float(known.values[0]) * (1 - 1e-12) <= float(found.values[0]) <= known.top
