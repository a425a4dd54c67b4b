"""Objectives on a device answer every question as those of the CPU do, to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap.objective.protocol import Factors
from labelgap.solvers import solve_auto, solve_bounded, solve_factored
from labelgap.solvers.certificate import certify
from problem_settings import SETTINGS, Setting, random_model

torch = pytest.importorskip("torch", reason="no torch here, so there is no back-end to test")

# The scores of small problems are kept between passes on the CPU alone.
ON_DEVICE = {name: one for name, one in SETTINGS.items() if "scores kept" not in name}
every_setting = pytest.mark.parametrize("setting", ON_DEVICE.values(), ids=ON_DEVICE.keys())
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    torch.set_num_threads(1)
    return request.param


def close(mine: Any, theirs: Any, size: float | None = None, relative: float = 1e-11) -> None:
    mine = mine.cpu().numpy() if isinstance(mine, torch.Tensor) else np.asarray(mine)
    theirs = np.asarray(theirs)
    largest = float(np.abs(theirs).max(initial=0.0)) if size is None else size
    assert mine.shape == theirs.shape
    assert_allclose(mine, theirs, rtol=relative, atol=relative * max(largest, 1e-3))


def factors_close(mine: Factors, theirs: Factors) -> None:
    for one, other in zip(mine, theirs, strict=True):
        close(one, other)


def tensors(factors: Factors, device: str) -> Factors:
    return Factors(*(torch.as_tensor(array, device=device) for array in factors))


def both(setting: Setting, device: str) -> tuple[Any, Any, Any, Any, Any]:
    """The problem on the CPU and on the device, the objectives there, and the labels."""
    plain, labels = setting.problem([])
    from labelgap.objective.torch.part import TorchBackend

    moved, _ = setting.problem([], TorchBackend(device))
    # One frame for both: axes of equal length may be rotated otherwise in a frame of its own.
    moved.features = plain.features
    return plain, moved, setting.objective(plain, labels), setting.objective(moved, labels), labels


@every_setting
def test_every_answer_is_that_of_the_cpu(setting: Setting, device: str) -> None:
    plain, moved, one, other, labels = both(setting, device)
    assert other.shape == one.shape
    assert other.n_labels == one.n_labels
    assert other.has_intercept == one.has_intercept
    close(other.starting_intercept(), one.starting_intercept())
    close(moved.mean_square_length, plain.mean_square_length)
    first, second = (plain.from_original(random_model(plain, one, seed)) for seed in (5, 6))
    first_there, second_there = (tensors(model, device) for model in (first, second))
    here, there = one.at(first), other.at(first_there)
    close(there.value, here.value, here.size)
    close(there.size, here.size)
    factors_close(there.gradient(), here.gradient())
    factors_close(there.hessian_product(second_there), here.hessian_product(second))
    factors_close(there.hessian_diagonal(), here.hessian_diagonal())
    close(there.label_curvature(), here.label_curvature())
    for mine, theirs in zip(there.signed_label_sums(), here.signed_label_sums(), strict=True):
        close(mine, theirs)
    close(there.curvature_along(*second_there[:2]), here.curvature_along(*second[:2]))
    for balanced in (False, True) if setting.free_intercept else (False,):
        mine, theirs = (p.score_gradient(p.signed_label_sums(), balanced=balanced) for p in (there, here))
        close(mine.matrix(), theirs.matrix())
        close(mine.left_product(second_there.right), theirs.left_product(second.right))
        close(mine.right_product(second_there.left), theirs.right_product(second.left))
        for scale in (0.0, 0.5, 1.0):
            close(mine.conjugate(scale), theirs.conjugate(scale), here.size)
    other_here, other_there = one.at(second), other.at(second_there)
    close(there.slope_towards(other_there), here.slope_towards(other_here), here.size)
    ahead_here, ahead_there = here.beyond(other_here, 0.3), there.beyond(other_there, 0.3)
    close(ahead_there.value, ahead_here.value, here.size)
    factors_close(ahead_there.gradient(), ahead_here.gradient())
    moved_here = here.with_intercept(second.intercept)
    moved_there = there.with_intercept(second_there.intercept)
    close(moved_there.value, moved_here.value, here.size)
    factors_close(moved_there.gradient(), moved_here.gradient())
    close(moved.scores(first_there, labels), plain.scores(first, labels))


@every_setting
def test_certificates_agree(setting: Setting, device: str) -> None:
    plain, _, one, other, _ = both(setting, device)
    model = plain.from_original(random_model(plain, one))
    expected = certify(one, one.at(model), setting.penalties)
    found = certify(other, other.at(tensors(model, device)), setting.penalties)
    close(found.objective, expected.objective, expected.scale)
    close(found.dual, expected.dual, expected.scale, relative=1e-9)
    close(found.residual.top, expected.residual.top, relative=1e-9)


FITTED = (
    "dense, centred and scaled",
    "X = I, weighted by counts",
    "unlabelled squared, X = I",
    "silence as a no, X = I, weights",
)
LONGER = (
    "CSR, scaled",
    "X = I, features of both, by counts",
    "score bound",
    "family poisson",
    "unlabelled logistic",
)


@pytest.mark.parametrize("name", [*FITTED, *(pytest.param(name, marks=pytest.mark.slow) for name in LONGER)])
def test_fits_end_at_the_same_objective(name: str, device: str) -> None:
    setting = SETTINGS[name]
    _, _, one, other, _ = both(setting, device)

    def fit(objective: Any, solver: Any) -> Any:
        if objective.bounds is None:
            return solver(objective, setting.penalties, tol=1e-4)
        return solve_bounded(solver, objective, setting.penalties, objective.bounds, tol=1e-3)

    expected = fit(one, solve_factored)
    for solver in (solve_factored, solve_auto):
        found = fit(other, solver)
        assert found.converged
        assert isinstance(found.factors.left, torch.Tensor)
        assert abs(found.objective - expected.objective) <= max(found.gap, expected.gap) + 1e-12


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_steps_over_all_entries_in_fewer_digits(precision: str, device: str) -> None:
    setting = SETTINGS["unlabelled logistic"]
    plain, _, _, objective, _ = both(setting, device)
    rough = objective.with_precision(precision)
    first, second = (tensors(plain.from_original(random_model(plain, objective, s)), device) for s in (5, 6))
    here, there = objective.at(first), rough.at(first)
    # Values and the certificate keep their digits; steps lose some.
    assert there.value == here.value
    assert certify(rough, there, setting.penalties).dual == certify(objective, here, setting.penalties).dual
    digits = {"float32": 1e-5, "tf32": 5e-3, "bf16": 5e-2}[precision]
    for mine, theirs in zip(there.gradient(), here.gradient(), strict=True):
        close(mine, theirs.cpu(), relative=digits)
    for mine, theirs in zip(there.hessian_product(second), here.hessian_product(second), strict=True):
        close(mine, theirs.cpu(), relative=digits)
    for mine, theirs in zip(there.hessian_diagonal(), here.hessian_diagonal(), strict=True):
        close(mine, theirs.cpu(), relative=digits)


def test_stages_of_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    objective = both(SETTINGS["unlabelled logistic"], "cpu")[3]
    assert objective.stages(1e-3) == [(objective, 1e-3)]
    object.__setattr__(objective.every.design, "device", SimpleNamespace(type="cuda"))
    monkeypatch.setattr(type(objective), "with_precision", lambda self, precision: precision)
    assert objective.stages(0.2) == [("bf16", 0.2)]
    assert objective.stages(1e-2) == [("bf16", 1e-1), ("tf32", 1e-2)]
    assert objective.stages(1e-3) == [("bf16", 1e-1), ("tf32", 1e-2), ("float32", 1e-3)]
    assert objective.stages(1e-6)[-1] == ("float64", 1e-6)


@pytest.mark.parametrize("name", ["dense", "CSR, scaled", "labels by positives, CSR", "label features"])
def test_a_problem_within_a_span_is_that_of_the_cpu(name: str, device: str) -> None:
    plain, moved, one, _, labels = both(SETTINGS[name], device)
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((one.shape[0], 2)))[0]
    within = [problem.in_span(basis) for problem in (plain, moved)]
    objectives = [problem.objective(labels) for problem in within]
    sizes = (2, one.shape[1], one.n_labels)
    model = Factors(*(rng.standard_normal((size, 2)) for size in sizes[:2]), rng.standard_normal(sizes[2]))
    mine, theirs = objectives[1].at(tensors(model, device)), objectives[0].at(model)
    close(mine.value, theirs.value)
    factors_close(mine.gradient(), theirs.gradient())
    close(within[1].scores(model, labels), within[0].scores(model, labels))
