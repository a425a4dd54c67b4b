"""Any split of the rows into parts is the same problem as the whole: every answer, and every fit.

Problems are made by the constructor that estimators use. Parts may be empty, and a label may have one class
only in a part, in all of them, or no entry at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from labelgap.objective.protocol import Factors
from labelgap.solvers import solve_bounded, solve_factored, solve_proximal
from labelgap.solvers.certificate import certify
from problem_settings import KEPT, N_LABELS, N_ROWS, RANK, SETTINGS, Setting, random_model

pytestmark = pytest.mark.pairwise
RELATIVE = 1e-12

# Fits of one kind each; those of the other settings run the same code and are marked slow.
FITTED = (
    "dense, centred and scaled",
    "CSR, scaled",
    "fewer rows than features",
    "X = I, features of both, by counts",
    "penalty on the scores",
    "intercept penalty",
    "score bound",
    "family poisson",
    "silence as a no, X = I, weights",
    "unlabelled squared",
    "unlabelled logistic",
    KEPT,
)

splits = st.lists(st.integers(0, N_ROWS), min_size=0, max_size=7)


every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())


def close(mine: Any, theirs: Any, size: float | None = None) -> None:
    """Equal to 1e-12 of the largest number, or of ``size`` where terms cancel."""
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    largest = float(np.abs(theirs).max(initial=0.0)) if size is None else size
    assert_allclose(mine, theirs, rtol=RELATIVE, atol=RELATIVE * max(largest, 1e-3))


def factors_close(mine: Factors, theirs: Factors) -> None:
    for one, other in zip(mine, theirs, strict=True):
        close(one, other)


@given(cuts=splits)
@settings(max_examples=4, deadline=None, derandomize=True)
@every_setting
def test_parts_with_their_own_frame_are_the_whole(setting: Setting, cuts: list[int]) -> None:
    whole, labels = setting.problem([])
    parts, _ = setting.problem(cuts)
    one, many = setting.objective(whole, labels), setting.objective(parts, labels)
    assert many.shape == one.shape
    close(many.starting_intercept(), one.starting_intercept())
    model = random_model(whole, one)
    here, there = one.at(whole.from_original(model)), many.at(parts.from_original(model))
    close(there.value, here.value, here.size)
    close(there.size, here.size)
    close(parts.mean_square_length, whole.mean_square_length)
    close(parts.scores(parts.from_original(model), labels), whole.scores(whole.from_original(model), labels))
    mine, theirs = (certify(o, p, setting.penalties) for o, p in ((many, there), (one, here)))
    close(mine.objective, theirs.objective, theirs.scale)
    close(mine.dual, theirs.dual, theirs.scale)


@given(cuts=splits)
@settings(max_examples=4, deadline=None, derandomize=True)
@every_setting
def test_every_answer_of_the_parts_adds_up(setting: Setting, cuts: list[int]) -> None:
    whole, labels = setting.problem([])
    parts, _ = setting.problem(cuts)
    # One frame for both: axes of equal length may be rotated otherwise in a frame of its own.
    whole.features = parts.features
    one, many = setting.objective(whole, labels), setting.objective(parts, labels)
    first, second = (whole.from_original(random_model(whole, one, seed)) for seed in (5, 6))
    here, there = one.at(first), many.at(first)
    factors_close(there.gradient(), here.gradient())
    factors_close(there.hessian_product(second), here.hessian_product(second))
    factors_close(there.hessian_diagonal(), here.hessian_diagonal())
    close(there.label_curvature(), here.label_curvature())
    for mine, theirs in zip(there.signed_label_sums(), here.signed_label_sums(), strict=True):
        close(mine, theirs)
    close(there.curvature_along(second.left, second.right), here.curvature_along(second.left, second.right))
    for balanced in (False, True) if setting.free_intercept else (False,):
        mine, theirs = (p.score_gradient(p.signed_label_sums(), balanced=balanced) for p in (there, here))
        close(mine.matrix(), theirs.matrix())
        close(mine.left_product(second.right), theirs.left_product(second.right))
        close(mine.right_product(second.left), theirs.right_product(second.left))
        for scale in (0.0, 0.5, 1.0):
            close(mine.conjugate(scale), theirs.conjugate(scale), here.size)
    other_here, other_there = one.at(second), many.at(second)
    close(there.slope_towards(other_there), here.slope_towards(other_here), here.size)
    close(there.beyond(other_there, 0.3).value, here.beyond(other_here, 0.3).value, here.size)
    moved = here.with_intercept(second.intercept), there.with_intercept(second.intercept)
    close(moved[1].value, moved[0].value, here.size)


@pytest.mark.parametrize("cuts", [pytest.param([9], marks=pytest.mark.slow), [0, 5, 5, 17, 24]])
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(setting, id=name, marks=() if name in FITTED else pytest.mark.slow)
        for name, setting in SETTINGS.items()
    ],
)
def test_a_fit_over_parts_ends_at_the_same_objective(setting: Setting, cuts: list[int]) -> None:
    def fit(where: list[int], solver: Any) -> Any:
        problem, labels = setting.problem(where)
        objective = setting.objective(problem, labels)
        if objective.bounds is None:
            return solver(objective, setting.penalties, tol=1e-5)
        return solve_bounded(solver, objective, setting.penalties, objective.bounds, tol=1e-3)

    whole, parts = fit([], solve_factored), fit(cuts, solve_factored)
    assert whole.converged
    assert parts.converged
    # Where W = 0 is the optimum the gaps are 0, and the sums differ in their last digit.
    rounding = 1e-12 * abs(whole.objective)
    assert abs(whole.objective - parts.objective) <= max(whole.gap, parts.gap) + rounding


def test_proximal_steps_over_parts_end_at_the_same_objective() -> None:
    setting = SETTINGS["dense, centred and scaled"]
    fits = []
    for cuts in ([], [3, 11]):
        problem, labels = setting.problem(cuts)
        fits.append(solve_proximal(setting.objective(problem, labels), setting.penalties, tol=1e-6))
    assert abs(fits[0].objective - fits[1].objective) <= max(fit.gap for fit in fits)


@given(cuts=splits)
@settings(max_examples=4, deadline=None, derandomize=True)
@pytest.mark.parametrize("name", ["score bound", "score bound, X = I", "unlabelled logistic", KEPT])
def test_the_term_of_a_bound_adds_up(name: str, cuts: list[int]) -> None:
    setting = SETTINGS[name]
    whole, labels = setting.problem([])
    parts, _ = setting.problem(cuts)
    whole.features = parts.features
    one, many = setting.objective(whole, labels), setting.objective(parts, labels)
    model = whole.from_original(random_model(whole, one))
    model = replace_left(model, 8.0)
    values = []
    for objective in (one, many):
        bounds = objective.bounds
        assert bounds is not None
        entries = bounds.start()
        largest, beyond = bounds.scan(model)
        entries = bounds.next(entries, bounds.with_term(objective, entries, 0.1).at(model), beyond)
        for _ in range(2):
            # The second time with multipliers.
            point = bounds.with_term(objective, entries, 0.1).at(model)
            entries = bounds.next(entries, point, beyond)
        gradient = point.score_gradient()
        values.append((largest, point.value, point.size, bounds.conjugate(gradient, 0.7), *point.gradient()))
        assert largest > bounds.bound
    for mine, theirs in zip(values[1], values[0], strict=True):
        close(mine, theirs)


def replace_left(factors: Factors, scale: float) -> Factors:
    return factors._replace(left=scale * factors.left)


@every_setting
def test_a_model_comes_back_from_the_features_that_were_handed_in(setting: Setting) -> None:
    problem, labels = setting.problem([10])
    objective = setting.objective(problem, labels)
    rng = np.random.default_rng(0)
    rows, columns = objective.shape
    model = Factors(
        rng.standard_normal((rows, RANK)), rng.standard_normal((columns, RANK)), rng.standard_normal(N_LABELS)
    )
    factors_close(problem.from_original(problem.to_original(model)), model)


def test_settings_of_a_problem_change_without_reading_the_features_again() -> None:
    problem, labels = SETTINGS["unlabelled squared"].problem([8])
    other = problem.with_settings(flip_rate=np.zeros(N_LABELS))
    assert other.features is problem.features
    assert other.objective(labels).at(random_model(other, other.objective(labels))).value > 0
    scored = problem.with_settings(features=replace(problem.settings.features, penalty="scores"))
    assert scored.features is not problem.features
