"""What every loss must do, of the registries or not, at every kind of answer."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from loss_cases import EVERY_CASE, GRID, every_case
from scipy import optimize

from labelgap.losses import FAMILIES, LOSSES, UNLABELLED_LOSSES, CustomFamily

EPS = np.finfo(np.float64).eps
BOTH_TYPES = (np.float32, np.float64)
METHODS = ("value", "gradient", "curvature", "conjugate")


def test_no_loss_is_left_out():
    tried = {case.loss.name for case in EVERY_CASE}
    assert tried >= {*LOSSES, *FAMILIES, *(f"unlabelled_{name}" for name in UNLABELLED_LOSSES)}


def slopes_inside(case):
    """A few slopes strictly inside the domain of the conjugate."""
    low, high = case.slopes
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) * np.array([0.02, 0.3, 0.5, 0.9])
    if np.isfinite(low):
        return low + np.array([0.01, 0.4, 1.0, 3.0])
    if np.isfinite(high):
        return high - np.array([0.01, 0.4, 1.0, 3.0])
    return np.array([-2.5, 0.0, 0.3, 4.0])


def finite_difference(function, z):
    h = 1e-6
    return (function(z + h) - function(z - h)) / (2 * h)


@every_case
def test_gradient_is_the_finite_difference(case):
    z = case.smooth(GRID)
    slope = finite_difference(lambda z: case.loss.value(z, case.y), z)
    rounding = 1e-7 + 4e6 * EPS * (np.abs(case.loss.value(z, case.y)) + case.size * np.abs(z))
    assert (np.abs(case.loss.gradient(z, case.y) - slope) <= 1e-6 * np.abs(slope) + rounding).all()


@every_case
def test_curvature_is_the_finite_difference(case):
    z = case.smooth(GRID)
    second = finite_difference(lambda z: case.loss.gradient(z, case.y), z)
    rounding = 1e-7 + 4e6 * EPS * case.size
    assert (np.abs(case.loss.curvature(z, case.y) - second) <= 1e-6 * np.abs(second) + rounding).all()


@every_case
def test_value_and_gradient_agree_with_the_single_ones(case):
    for dtype in BOTH_TYPES:
        z = np.append(GRID, [-1e4, 1e4]).astype(dtype)
        value, gradient = case.loss.value_and_gradient(z, case.y)
        np.testing.assert_allclose(value, case.loss.value(z, case.y), rtol=4 * np.finfo(dtype).eps)
        np.testing.assert_allclose(gradient, case.loss.gradient(z, case.y), rtol=4 * np.finfo(dtype).eps)


@every_case
def test_float32_agrees_with_float64_and_stays(case):
    for method in METHODS:
        y = np.float32(case.y)
        z = slopes_inside(case) if method == "conjugate" else GRID
        narrow = getattr(case.loss, method)(z.astype(np.float32), y)
        wide = getattr(case.loss, method)(z.astype(np.float32).astype(np.float64), y)
        assert narrow.dtype == np.float32
        assert wide.dtype == np.float64
        np.testing.assert_allclose(narrow, wide, rtol=2e-5, atol=1e-6 * case.size)


@every_case
def test_broadcasts_and_takes_lists(case):
    for method in METHODS:
        function = getattr(case.loss, method)
        z = slopes_inside(case)[:2]
        assert function(z.tolist(), [case.y, case.y]).dtype == np.float64
        assert np.ndim(function(float(z[0]), case.y)) == 0
        table = function(z[:, None], np.full((1, 3), case.y))
        np.testing.assert_array_equal(table, np.repeat(function(z, case.y)[:, None], 3, axis=1))
        assert function(z[0], np.full(3, case.y)).shape == (3,)


@every_case
def test_stable_at_huge_scores(case):
    for dtype in BOTH_TYPES:
        z = np.array([-1e4, -1e3, -88.0, 0.0, 88.0, 1e3, 1e4], dtype)
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            value, gradient = case.loss.value_and_gradient(z, case.y)
            curvature, mean = case.loss.curvature(z, case.y), case.loss.inverse_link(z)
            assert np.isfinite(case.loss.value(z, case.y).sum())
            assert np.isfinite(case.loss.gradient(z, case.y)).all()
        assert np.isfinite(value).all()
        assert (value >= case.loss.bounded_below_by * (1 + 1e-5)).all()
        assert np.isfinite(gradient).all()
        assert np.isfinite(curvature).all()
        assert np.isfinite(mean).all()
        assert (curvature >= 0).all()
        # Still convex out there: the slope never falls, and no chord lies below the curve.
        assert (np.diff(gradient) >= 0).all()
        assert (np.diff(mean) >= 0).all()
        chord = np.diff(value.astype(np.float64)) / np.diff(z.astype(np.float64))
        slack = 1e-5 * (np.abs(chord) + np.abs(gradient[1:])) + 1e-5
        assert (chord >= gradient[:-1] - slack).all()
        assert (chord <= gradient[1:] + slack).all()


@every_case
def test_convex_and_within_its_bounds(case):
    loss, y = case.loss, case.y
    value, gradient, curvature = loss.value(GRID, y), loss.gradient(GRID, y), loss.curvature(GRID, y)
    middle = loss.value((GRID[:-1] + GRID[1:]) / 2, y)
    assert (middle <= (value[:-1] + value[1:]) / 2 + 1e-12 * case.size).all()
    assert (np.diff(gradient) >= -1e-14).all()
    assert (curvature >= 0).all()
    wide = np.linspace(-100, 100, 2001)
    assert (loss.value(wide, y) >= loss.bounded_below_by - 1e-12).all()
    if loss.lipschitz is not None:
        assert np.abs(loss.gradient(wide, y)).max() <= loss.lipschitz * (1 + 1e-15)
    if loss.curvature_bound is not None:
        assert 0.99 * loss.curvature_bound <= loss.curvature(wide, y).max() <= loss.curvature_bound


@pytest.mark.parametrize("name", sorted({case.loss.name for case in EVERY_CASE}))
def test_bounds_are_reached(name):
    wide = np.linspace(-200, 200, 4001)
    cases = [case for case in EVERY_CASE if case.loss.name == name]
    for loss in {case.loss for case in cases}:
        answers = [case.y for case in cases if case.loss == loss]
        steepest = max(np.abs(loss.gradient(wide, y)).max() for y in answers)
        lowest = min(loss.value(wide, y).min() for y in answers)
        assert steepest >= (100 if loss.lipschitz is None else 0.99 * loss.lipschitz)
        if loss.curvature_bound is None and not isinstance(loss, CustomFamily):
            assert max(loss.curvature(wide, y).max() for y in answers) > 100
        assert lowest <= max(loss.bounded_below_by, -1) + 0.01


@every_case
def test_fenchel_young(case):
    for dtype in BOTH_TYPES:
        loss, eps = case.loss, np.finfo(dtype).eps
        y = float(dtype(case.y))
        z = np.linspace(-5, 5, 81).astype(dtype)
        value, slope = loss.value_and_gradient(z, y)
        dual = loss.conjugate(slope, y)
        assert np.isfinite(dual).all()
        scale = case.size + np.abs(value) + np.abs(dual) + np.abs(z * slope)
        assert (np.abs(value + dual - z * slope) <= 16 * eps * scale).all()
        gap = value[:, None] + dual[None, :] - z[:, None] * slope[None, :]
        assert (gap >= -64 * eps * (scale[:, None] + scale[None, :])).all()


@every_case
def test_conjugate_is_the_supremum(case):
    for slope in slopes_inside(case):

        def shortfall(z: float, slope: float = slope) -> float:
            return float(case.loss.value(z, case.y) - slope * z)

        best = optimize.minimize_scalar(
            shortfall, bounds=(-150, 150), method="bounded", options={"xatol": 1e-9}
        )
        assert case.loss.conjugate(slope, case.y) == pytest.approx(-best.fun, abs=1e-8 * case.size, rel=1e-8)


@every_case
def test_conjugate_at_the_edge_of_its_domain(case):
    for dtype in BOTH_TYPES:
        loss, y, eps = case.loss, float(dtype(case.y)), float(np.finfo(dtype).eps)
        low, high = np.array(case.slopes) + (case.y - y)
        for edge, outward in ((low, -1), (high, 1)):
            if not np.isfinite(edge):
                continue
            size = max(1.0, abs(edge), abs(y))
            on = loss.conjugate(dtype(edge), y)
            by_rounding = loss.conjugate(dtype(edge + outward * 2 * eps * size), y)
            near = loss.conjugate(edge - outward * 1e-9, y)
            assert loss.conjugate(dtype(edge + outward * 1e-3 * size), y) == np.inf
            if loss.name == "amounts":  # the one whose conjugate is infinite at the edge
                assert on == by_rounding == np.inf
                assert near > loss.conjugate(edge - outward * 1e-3, y) + 10
            else:
                assert on == pytest.approx(float(by_rounding), abs=8 * eps * case.size)
                assert on == pytest.approx(float(near), abs=1e-6 + 16 * eps * size * case.size)


@every_case
def test_link_keeps_the_type(case):
    for dtype in BOTH_TYPES:
        assert case.loss.link(np.array([0.2, 0.5], dtype)).dtype == dtype
        assert case.loss.inverse_link(GRID.astype(dtype)).dtype == dtype


@every_case
def test_edge_values_are_at_the_ends_of_the_domain(case):
    for value in case.loss.edge_values:
        assert case.loss.link(value) in case.loss.domain


@every_case
def test_equal_to_a_copy_of_itself(case):
    again = copy.deepcopy(case.loss)
    assert again == case.loss
    assert hash(again) == hash(case.loss)
    assert case.loss != object()
