"""Sweeps at a growing rank, against the solver that works on all variables at once."""

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap.labels import ObservedLabels
from labelgap.solvers import Penalties, solve_auto, solve_factored
from solver_problems import make_problem

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
