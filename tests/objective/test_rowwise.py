"""Steps row by row: one dense system for each row, and whole problems with features and units by counts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap import Recommender
from labelgap.labels import ObservedLabels
from labelgap.losses import FAMILIES, LOSSES, get_loss
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Penalties
from oracles_objective import flat
from problem_settings import OWN, Setting
from solver_problems import make_problem

N, N_ITEMS, K = 40, 25, 3
KINDS = ("identity", "intercepts", "features", "scaled")
PENALTIES = Penalties(0.004, 0.002, 0.003, 0.1)
# The largest relaxation that is used.
MOST = 1.4


def features_of(kind):
    """Features of the rows (None without any), and how features are used."""
    rng = np.random.default_rng(7)
    intercepts = sp.csr_array(np.full((N_ITEMS, 1), 0.5))
    if kind == "features":
        X, F = (sp.csr_array(rng.standard_normal((n, 2)) / 5) for n in (N, N_ITEMS))
        return X, {"own_rows": True, "label_features": F}
    return None, {
        "identity": {},
        "intercepts": {"label_features": intercepts},
        "scaled": {"count_weighting": 1.0, "label_features": intercepts},
    }[kind]


def make_objective(kind="identity", loss="logistic", weighted=False, recorded=False, free=False, **more):
    """A problem of some users and items, with a row and a column of nothing."""
    rng = np.random.default_rng(0)
    Y = (rng.random((N, N_ITEMS)) < 0.4).astype(float)
    if recorded:
        Y[Y == 0], Y[:, 4] = np.nan, np.nan
        more["flip_rate"] = rng.uniform(0.1, 0.4, N_ITEMS)
    Y[rng.random(Y.shape) > 0.5] = np.nan
    labels = ObservedLabels.from_dense(Y)
    if weighted:
        labels = labels.with_weights(rng.uniform(0.5, 2.0, labels.n_observed))
    X, features = features_of(kind)
    return make_problem(X, labels, loss, features=features, **more).objective(labels, free_intercept=free)


def start_of(objective, rank=K, size=0.5):
    rng = np.random.default_rng(1)
    d, r = objective.shape
    left, right = size * rng.standard_normal((d, rank)), size * rng.standard_normal((r, rank))
    return Factors(left, right, objective.starting_intercept())


def penalised(objective, factors, penalties=PENALTIES):
    """The penalised objective in the factors."""
    A, B, b = factors
    penalty = penalties.trace * (np.sum(A * A) + np.sum(B * B)) + penalties.ridge * np.sum((A @ B.T) ** 2)
    held = penalties.intercept * np.sum((b - penalties.centre) ** 2)
    return objective.at(factors).value + 0.5 * (penalty + held)


def slopes(objective, factors, penalties=PENALTIES):
    """The gradient of that."""
    A, B, b = factors
    dA, dB, db = objective.at(factors).gradient()
    return Factors(
        dA + penalties.trace * A + penalties.ridge * A @ (B.T @ B),
        dB + penalties.trace * B + penalties.ridge * B @ (A.T @ A),
        db + penalties.intercept * (b - penalties.centre),
    )


# -- one step ------------------------------------------------------------------------------------------------


def newton_step(loss, Q, offsets, y, weights, M, centre, start):
    """The guarded Newton step of one row from its entries, as dense formulas say."""
    if not len(y):
        return np.append(centre[: Q.shape[1]], start[Q.shape[1] :])
    x = np.hstack([Q, np.ones((len(y), len(start) - Q.shape[1]))])
    z = x @ start + offsets
    curvature = np.full(len(z), 2.0) if loss.name == "squared_hinge" else loss.curvature(z, y)
    slope = x.T @ (weights * loss.gradient(z, y)) + M @ (start - centre)
    step = -np.linalg.solve(x.T @ ((weights * curvature)[:, None] * x) + M, slope)
    change = np.abs(x @ step).max()
    # A curvature that bounds the loss needs no guard.
    bounded = loss.curvature_bound is not None and loss.name in ("squared", "squared_hinge", "gaussian")
    return start + (1.0 if bounded or change < 1.79 else np.log1p(change) / change) * step


def expected_step(setting, at, penalties, by_label):
    """Every row's step, with ratings and weights as dense arrays."""
    A, B, b = (np.asarray(part, dtype=np.float64) for part in at)
    seen, total = ~np.isnan(setting.Y), setting.weights[~np.isnan(setting.Y)].sum()
    if not by_label:
        A, B, seen = B, A, seen.T
    Y, weights = (array if by_label else array.T for array in (setting.Y, setting.weights))
    k, shift = A.shape[1], int(by_label and setting.fit_intercept)
    M = np.zeros((k + shift, k + shift))
    M[:k, :k] = total * (penalties.trace * np.eye(k) + penalties.ridge * A.T @ A)
    M[k:, k:] = total * penalties.intercept
    centre = np.append(np.zeros(k), [penalties.centre] * shift)
    rows = []
    for j in range(len(B)):
        mine = seen[:, j]
        offsets = np.zeros(mine.sum()) if by_label else b[mine]
        start = np.append(B[j], b[j : j + shift])
        rows.append(
            newton_step(setting.loss, A[mine], offsets, Y[mine, j], weights[mine, j], M, centre, start)
        )
    return np.array(rows)


def test_a_step_solves_the_newton_system_of_every_row():
    # Rows of 0, 1 and more entries than a buffer holds, and factors of whole and broken numbers of vectors.
    losses = [kind() for kind in (*LOSSES.values(), *FAMILIES.values())]
    cases = [(loss, 6, np.float64, True, 0.8) for loss in losses]
    cases += [
        (get_loss("logistic"), k, dtype, intercept, 0.4)
        for k, dtype, intercept in product((1, 5, 16, 20, 31), (np.float32, np.float64), (True, False))
    ]
    for loss, k, dtype, intercept, size in cases:
        setting = Setting(
            OWN, "none", loss, intercept, False, weighted=k in (5, 6), n=97, n_labels=83, density=0.8
        )
        objective = setting.objective(*setting.problem())
        penalties = Penalties(0.004, 0.002, *((0.003, 0.1) if intercept else ()))
        steps = objective.rowwise(dtype)
        at = steps.start(start_of(objective, k, size))
        close = 5e-5 if dtype == np.float32 else 1e-9
        for by_label, step in ((True, steps.step_labels), (False, steps.step_rows)):
            before = at.factors()
            expected = expected_step(setting, before, penalties, by_label)
            step(at, penalties)
            A, B, b = at.factors()
            found = np.column_stack([B, b])[:, : expected.shape[1]] if by_label else A
            told = f"{loss!r}, {k} columns, {dtype.__name__}, {'labels' if by_label else 'rows'}"
            assert_allclose(found, expected, rtol=close, atol=close, err_msg=told)
            if not intercept or not by_label:
                assert_array_equal(b, before.intercept, err_msg=told)
            if dtype == np.float64:
                changed = penalised(objective, at.factors(), penalties)
                assert changed <= penalised(objective, before, penalties) * (1 + 1e-12), told


def test_a_step_says_what_it_gains():
    # Exactly for squares; with many columns the systems are solved by a few conjugate gradients.
    for rank in (K, 45):
        objective = make_objective("identity", "squared")
        steps = objective.rowwise(np.float64)
        at = steps.start(start_of(objective, rank, 1.5 / rank))
        before, slope = penalised(objective, at.factors()), slopes(objective, at.factors())
        gained = steps.step_labels(at, PENALTIES)
        assert before - penalised(objective, at.factors()) == pytest.approx(gained, rel=1e-9)
        after = slopes(objective, at.factors())
        least = 1e-12 if rank == K else 0.2 * np.linalg.norm(slope.right)
        assert np.linalg.norm(after.right) < least
        assert np.linalg.norm(after.intercept) < max(least, 1e-12)


def test_directions_without_curvature_do_not_blow_up():
    for rank in (5, 45):
        objective = make_objective("identity", "squared", fit_intercept=False)
        start = start_of(objective, rank)
        start.left[:, 2] = 0
        steps = objective.rowwise(np.float64)
        at = steps.start(start)
        steps.step_labels(at, Penalties(1e-300))
        assert np.isfinite(at.factors().right).all()


# -- many steps ----------------------------------------------------------------------------------------------


def test_working_factors_are_the_same_model():
    for kind in KINDS:
        objective = make_objective(kind)
        factors = start_of(objective)
        at = objective.rowwise(np.float64).start(factors)
        for part, expected in zip(at.factors(), factors, strict=True):
            assert_allclose(part, expected, atol=1e-12, err_msg=kind)
        at.balance()
        moved = at.factors()
        there, here = objective.at(moved), objective.at(factors)
        assert there.value == pytest.approx(here.value, rel=1e-12)
        values = np.linalg.svd(factors.left @ factors.right.T, compute_uv=False)
        square = np.sum(moved.left**2) + np.sum(moved.right**2)
        assert_allclose(0.5 * square, values.sum(), rtol=1e-10, err_msg=kind)


def test_steps_go_down_to_a_stationary_point():
    cases = [*zip(KINDS, ("logistic", "squared", "squared_hinge", "exponential"), [K] * 4, strict=True)]
    for kind, loss, rank in [*cases, ("identity", "exponential", K), ("features", "logistic", 45)]:
        objective = make_objective(kind, loss, weighted=loss == "logistic")
        steps = objective.rowwise(np.float64)
        at = steps.start(start_of(objective, rank, 1.5 / rank))
        last = penalised(objective, at.factors())
        for sweep in range(300):
            for step in (steps.step_labels, steps.step_rows):
                step(at, PENALTIES)
                # Later steps change little, and to look takes longer than to step.
                if sweep < 15 or sweep == 299:
                    value = penalised(objective, at.factors())
                    assert value <= last + 1e-12, (kind, loss, rank)
                    last = value
            at.balance()
        assert np.abs(flat(slopes(objective, at.factors()))).max() < 5e-5, (kind, loss, rank)


def test_relaxed_steps_go_down_sooner_and_no_further_than_is_safe():
    for loss in ("logistic", "squared", "exponential"):
        objective = make_objective("intercepts", loss)
        steps, reached = objective.rowwise(np.float64), []
        for relaxation in (1.0, MOST):
            at, last = steps.start(start_of(objective)), np.inf
            for _ in range(15):
                for step in (steps.step_labels, steps.step_rows):
                    step(at, PENALTIES, relaxation)
                    value = penalised(objective, at.factors())
                    assert value <= last + 1e-12, loss
                    last = value
                at.balance()
            reached.append(last)
        assert reached[1] < reached[0], loss
        found = []
        for relaxation in (MOST, 5.0):
            at = steps.start(start_of(objective))
            steps.step_labels(at, PENALTIES, relaxation)
            found.append(at.factors().right)
        assert_array_equal(*found)


def test_precision_and_threads(monkeypatch):
    for rank in (K, 45):
        objective, reached = make_objective("intercepts"), {}
        for dtype, threads in ((np.float32, 1), (np.float32, 3), (np.float64, 1)):
            monkeypatch.setenv("LABELGAP_NUM_THREADS", str(threads))
            steps = objective.rowwise(dtype)
            at = steps.start(start_of(objective, rank, 1.5 / rank))
            for _ in range(10):
                steps.step_labels(at, PENALTIES)
                steps.step_rows(at, PENALTIES)
                at.balance()
            reached[dtype, threads] = at.factors()
        for one, other in zip(reached[np.float32, 1], reached[np.float32, 3], strict=True):
            assert_array_equal(one, other)
        values = (penalised(objective, reached[dtype, 1]) for dtype in (np.float32, np.float64))
        assert_allclose(*values, rtol=1e-5 if rank == K else 1e-3)


def test_what_has_no_rows_of_its_own_says_so():
    labels = ObservedLabels.from_dense(np.eye(5))
    assert make_problem(sp.csr_array(np.ones((5, 2))), labels).objective(labels).rowwise(float) is None
    assert make_objective().rowwise(float) is not None


def test_a_rank_above_the_number_of_rows_without_a_trace_norm():
    settings = {"trace_penalty": 0.0, "ridge_penalty": 0.01, "loss": "squared", "flip_rate": 0.0}
    for seed in range(3):
        pairs = np.unique(np.random.default_rng(seed).integers(0, 4, size=(5, 2)), axis=0)
        model = Recommender(
            solver="alternating", rank=40, unobserved="unlabelled", random_state=0, **settings
        ).fit((pairs[:, 0], pairs[:, 1]))
        assert np.isfinite(model.user_factors_ @ model.item_factors_.T).all()
        assert 0 <= model.objective_ - model.duality_gap_ <= model.objective_
