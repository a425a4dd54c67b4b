"""Fits of every kind of problem: at CVXPY's optimum, and at the same objective over parts and on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from labelgap.labels import ObservedLabels
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties, solve_auto, solve_bounded, solve_factored, solve_proximal
from labelgap.solvers.certificate import certify
from problem_settings import FEATURES, SETTINGS, Setting, random_model
from solver_problems import make_problem, random_labels

TOL = 5e-6
# CVXPY's own error, relative to the optimum.
ORACLE = 2e-8
N, N_LABELS = 10, 5


def fit(solver: Any, objective: Any, penalties: Penalties, tol: float, **options: Any) -> Any:
    if objective.bounds is None:
        return solver(objective, penalties, tol=tol, **options)
    return solve_bounded(solver, objective, penalties, objective.bounds, tol=tol, **options)


def side(kind: str, n: int, seed: int) -> tuple[bool, Any, Any]:
    """Whether rows (or labels) have parameters of their own, their features, and both as a dense matrix."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) + 0.5
    if kind == "dense":
        return False, X, X
    if kind == "identity":
        return True, None, np.eye(n)
    X[rng.random(X.shape) < 0.4] = 0.0
    X[:, 0] = 1.0
    return kind == "stacked", sp.csr_array(X), np.hstack([np.eye(n)] * (kind == "stacked") + [X])


# Features of rows and labels, loss, intercept, weights and offsets, ridge as a fraction of λ, bound.
FITS = [
    ("dense", "stacked", "logistic", True, False, 0.0, None),
    ("stacked", "stacked", "squared", True, True, 0.0, None),
    ("csr", "csr", "squared", False, False, 0.2, None),
    ("identity", "stacked", "squared", False, False, 0.2, 0.3),
    ("dense", "identity", "logistic", True, True, 0.0, None),
    ("dense", "identity", "poisson", True, True, 0.0, None),
    ("dense", "identity", "gaussian", True, True, 0.1, None),
    # The bound is on what the model adds, not on the offsets.
    ("dense", "identity", "logistic", False, True, 0.0, 0.3),
]


def test_an_orthogonal_basis_of_the_labels_changes_nothing() -> None:
    # The trace norm of W does not know its coordinates.
    labels = ObservedLabels.from_dense(random_labels(np.random.default_rng(8), N, N_LABELS))
    F = np.linalg.qr(np.random.default_rng(9).standard_normal((N_LABELS, N_LABELS)))[0]
    fits = []
    for columns in ({}, {"label_features": sp.csr_array(F), "own_labels": False}):
        objective = make_problem(side("dense", N, seed=2)[1], labels, features=columns).objective(labels)
        fits.append(solve_factored(objective, Penalties(0.01), tol=1e-9))
    plain, rotated = fits
    assert plain.rank == rotated.rank
    assert_allclose(rotated.objective, plain.objective, rtol=1e-8)
    assert_allclose(rotated.singular_values, plain.singular_values, rtol=1e-3)
    turned, straight = (one.factors.right @ one.factors.left.T for one in (rotated, plain))
    assert_allclose(F @ turned, straight, atol=1e-3)


# One of each kind; the others run the same code.
FITTED = [
    name
    for name in SETTINGS
    if any(
        name.startswith(kind)
        for kind in (
            "Logistic, dense, centred and scaled",
            "Poisson, X = I, features of both",
            "Squared, penalty on the scores,",
            "unlabelled Squared, X = I,",
            "unlabelled Logistic, dense,",
            "unlabelled, scores kept, Logistic, X = I,",
        )
    )
]


def same_objective(one: Any, other: Any, told: str) -> None:
    assert one.converged, told
    assert other.converged, told
    # Where W = 0 is the optimum the gaps are 0, and the sums differ in their last digit.
    rounding = 1e-12 * abs(one.objective)
    assert abs(one.objective - other.objective) <= max(one.gap, other.gap) + rounding, told


def test_fits_over_parts_end_at_the_same_objective() -> None:
    assert len(FITTED) >= 7
    for name in FITTED:
        setting = SETTINGS[name]
        tol = 1e-4 if setting.bound is None else 1e-2
        fits = [
            fit(solve_factored, setting.objective(*setting.problem(cuts)), setting.penalties, tol)
            for cuts in ([], [0, 5, 5, 17, 23])
        ]
        same_objective(*fits, name)
    setting = SETTINGS[FITTED[0]]
    parts = (setting.objective(*setting.problem(cuts)) for cuts in ([], [3, 11]))
    same_objective(*(solve_proximal(part, setting.penalties, tol=1e-6) for part in parts), "proximal")


# -- on a device ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def machine(request: pytest.FixtureRequest) -> Any:
    """Makes tensors of a model, and a back-end."""
    torch = pytest.importorskip("torch", reason="no torch here, so there is no back-end to try")
    from labelgap.objective.torch.part import TorchBackend

    torch.set_num_threads(1)

    def tensors(factors: Factors) -> Factors:
        return Factors(*(torch.as_tensor(array, device=request.param) for array in factors))

    return tensors, TorchBackend(request.param)


def both(setting: Setting, machine: Any) -> tuple[Any, Any, Any, Any]:
    """The problem on the CPU and on the device in one frame, and the objectives there."""
    plain, labels = setting.problem()
    moved, _ = setting.problem(backend=machine[1])
    # Axes of equal length may be rotated otherwise in a frame of its own.
    moved.features = plain.features
    return plain, moved, setting.objective(plain, labels), setting.objective(moved, labels)


@pytest.mark.torch
def test_fits_and_certificates_of_a_device_are_those_of_the_cpu(machine: Any) -> None:
    for name in FITTED:
        setting = SETTINGS[name]
        if setting.kept:
            continue
        _, _, one, other = both(setting, machine)
        model = random_model(one, 0)
        here = certify(one, one.at(model), setting.penalties)
        there = certify(other, other.at(machine[0](model)), setting.penalties)
        for found, expected in ((there.objective, here.objective), (there.dual, here.dual)):
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * here.scale), name
        tol = 1e-4 if setting.bound is None else 1e-2
        expected = fit(solve_factored, one, setting.penalties, tol)
        for solver in (solve_factored, solve_auto):
            found = fit(solver, other, setting.penalties, tol)
            same_objective(expected, found, name)
            assert hasattr(found.factors.left, "cpu"), name


@pytest.mark.torch
def test_steps_over_all_entries_in_fewer_digits(machine: Any) -> None:
    setting = SETTINGS[next(name for name in FITTED if name.startswith("unlabelled Logistic"))]
    _, _, _, objective = both(setting, machine)
    first, second = (machine[0](random_model(objective, seed)) for seed in (5, 6))
    here = objective.at(first)
    for precision, digits in (("float32", 1e-5), ("tf32", 5e-3), ("bf16", 5e-2)):
        rough = objective.with_precision(precision)
        there = rough.at(first)
        # Values and the certificate keep their digits; steps lose some.
        assert there.value == here.value
        duals = (certify(one, at, setting.penalties).dual for one, at in ((rough, there), (objective, here)))
        assert len(set(duals)) == 1
        for mine, theirs in (
            (there.gradient(), here.gradient()),
            (there.hessian_product(second), here.hessian_product(second)),
            (there.hessian_diagonal(), here.hessian_diagonal()),
        ):
            for one, other in zip(mine, theirs, strict=True):
                largest = max(float(abs(other).max()), 1e-3)
                assert_allclose(one.cpu(), other.cpu(), digits, digits * largest, err_msg=precision)
    # On the CPU a fit has one stage; on a GPU there are coarser ones before it.
    stages = objective.stages(1e-6)
    assert stages[-1][1] == 1e-6
    assert len(stages) == (1 if first.left.device.type == "cpu" else 4)


@pytest.mark.torch
def test_a_problem_within_a_span_is_that_of_the_cpu(machine: Any) -> None:
    for kind in ("dense", "CSR, scaled", "labels by positives, CSR", "label features"):
        form, features = FEATURES[kind]
        setting = Setting(features, form, weighted=True)
        plain, moved, one, _ = both(setting, machine)
        labels, rng = setting.labels(), np.random.default_rng(0)
        basis = np.linalg.qr(rng.standard_normal((one.shape[0], 2)))[0]
        within = [problem.in_span(basis) for problem in (plain, moved)]
        theirs, mine = (problem.objective(labels) for problem in within)
        model = random_model(theirs, 0)
        here, there = theirs.at(model), mine.at(machine[0](model))
        assert there.value == pytest.approx(here.value, rel=1e-11), kind
        for found, expected in zip(there.gradient(), here.gradient(), strict=True):
            assert_allclose(found.cpu(), expected, rtol=1e-10, atol=1e-12, err_msg=kind)
        scores = (problem.scores(model, labels) for problem in within)
        assert_allclose(*scores, rtol=1e-10, atol=1e-12, err_msg=kind)
