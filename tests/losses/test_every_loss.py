"""What every loss must do, of the registries or not, at every kind of answer."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from loss_cases import ANSWERS, EVERY_CASE, GRID
from scipy import optimize
from scipy.special import xlogy

from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, UnknownNameError
from labelgap.losses import (
    FAMILIES,
    LOSSES,
    UNLABELLED_LOSSES,
    Bernoulli,
    CustomFamily,
    Family,
    Gaussian,
    Logistic,
    Poisson,
    SquaredHinge,
    family_names,
    get_family,
    get_loss,
    loss_names,
)

EPS = np.finfo(np.float64).eps
BOTH_TYPES = (np.float32, np.float64)
METHODS = ("value", "gradient", "curvature", "conjugate")
YES_NO = [loss() for _, loss in sorted(LOSSES.items())]
OF_VALUES = [family() for _, family in sorted(FAMILIES.items())]
MEANS = {
    "bernoulli": np.array([0.0, 1e-6, 0.2, 0.5, 0.93, 1.0]),
    "gaussian": np.array([-40.0, -1.0, 0.0, 0.3, 1e3]),
    "poisson": np.array([0.0, 1e-6, 0.3, 1.0, 17.5, 1e6]),
}
RATES = np.array([0.0, 1e-6, 0.01, 0.2, 0.5, 0.73, 0.99, 1 - 1e-6, 1.0])

# name, z, y, value, gradient, curvature; by hand
BY_HAND = [
    ("logistic", 0.0, 1, np.log(2), -0.5, 0.25),
    ("logistic", np.log(3), 1, np.log(4 / 3), -0.25, 3 / 16),
    ("logistic", np.log(3), 0, np.log(4), 0.75, 3 / 16),
    ("squared", 0.5, 1, 0.25, -1.0, 2.0),
    ("squared", 0.5, 0, 2.25, 3.0, 2.0),
    ("squared", 2.0, 1, 1.0, 2.0, 2.0),
    ("squared_hinge", 0.5, 1, 0.25, -1.0, 2.0),
    ("squared_hinge", 0.5, 0, 2.25, 3.0, 2.0),
    ("squared_hinge", 2.0, 1, 0.0, 0.0, 0.0),
    ("squared_hinge", -1.0, 0, 0.0, 0.0, 2.0),
    ("exponential", 0.0, 1, 1.0, -1.0, 1.0),
    ("exponential", np.log(2), 1, 0.5, -0.5, 0.5),
    ("exponential", np.log(2), 0, 2.0, 2.0, 2.0),
    ("gaussian", 3.0, 1.0, 2.0, 2.0, 1.0),
    ("gaussian", -1.5, -1.5, 0.0, 0.0, 1.0),
    ("poisson", 0.0, 0.0, 1.0, 1.0, 1.0),
    ("poisson", np.log(2), 1.0, 1 - np.log(2), 1.0, 2.0),
    ("poisson", 0.0, np.e, 1.0, 1 - np.e, 1.0),
    ("poisson", np.log(0.5), 0.5, 0.0, 0.0, 0.5),
    ("bernoulli", 0.0, 0.5, 0.0, 0.0, 0.25),
    ("bernoulli", 0.0, 1.0, np.log(2), -0.5, 0.25),
    ("bernoulli", np.log(3), 0.0, np.log(4), 0.75, 3 / 16),
    ("bernoulli", np.log(3), 0.5, np.log(4) - np.log(3) / 2 - np.log(2), 0.25, 3 / 16),
]


def test_hand_computed():
    for name, z, y, value, gradient, curvature in BY_HAND:
        loss = get_loss(name) if name in LOSSES else get_family(name)
        found = loss.value(z, y), loss.gradient(z, y), loss.curvature(z, y)
        assert found == pytest.approx((value, gradient, curvature), abs=1e-15), (name, z, y)
    assert {row[0] for row in BY_HAND} == {*loss_names(), *family_names()}
    assert set(MEANS) == set(ANSWERS) == set(family_names())
    # At a kink the larger curvature.
    assert SquaredHinge().curvature([1.0, np.nextafter(1.0, 2)], 1).tolist() == [2, 0]


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


def test_derivatives_are_finite_differences():
    for case in EVERY_CASE:
        z, loss, y = case.smooth(GRID), case.loss, case.y
        value, slope, curvature = loss.value(z, y), loss.gradient(z, y), loss.curvature(z, y)
        expected = finite_difference(lambda z, case=case: case.loss.value(z, case.y), z)
        rounding = 1e-7 + 4e6 * EPS * (np.abs(value) + case.size * np.abs(z))
        assert (np.abs(slope - expected) <= 1e-6 * np.abs(expected) + rounding).all(), str(case)
        expected = finite_difference(lambda z, case=case: case.loss.gradient(z, case.y), z)
        rounding = 1e-7 + 4e6 * EPS * case.size
        assert (np.abs(curvature - expected) <= 1e-6 * np.abs(expected) + rounding).all(), str(case)


def test_single_precision_lists_and_broadcasting():
    for case in EVERY_CASE:
        for dtype in BOTH_TYPES:
            z, rounding = np.append(GRID, [-1e4, 1e4]).astype(dtype), 4 * np.finfo(dtype).eps
            value, gradient = case.loss.value_and_gradient(z, case.y)
            np.testing.assert_allclose(value, case.loss.value(z, case.y), rtol=rounding, err_msg=str(case))
            single = case.loss.gradient(z, case.y)
            np.testing.assert_allclose(gradient, single, rtol=rounding, err_msg=str(case))
            together = case.loss.value_gradient_and_curvature(z, case.y)
            curvature = case.loss.curvature(z, case.y)
            np.testing.assert_allclose(together[2], curvature, rounding, rounding, err_msg=str(case))
            assert case.loss.link(np.array([0.2, 0.5], dtype)).dtype == dtype, str(case)
            assert case.loss.inverse_link(z).dtype == dtype, str(case)
        for method in METHODS:
            function, told = getattr(case.loss, method), f"{case}: {method}"
            z = (slopes_inside(case) if method == "conjugate" else GRID).astype(np.float32)
            narrow, wide = function(z, np.float32(case.y)), function(z.astype(np.float64), np.float32(case.y))
            assert (narrow.dtype, wide.dtype) == BOTH_TYPES, told
            np.testing.assert_allclose(narrow, wide, rtol=2e-5, atol=1e-6 * case.size, err_msg=told)
            z = slopes_inside(case)[:2]
            assert function(z.tolist(), [case.y, case.y]).dtype == np.float64, told
            assert np.ndim(function(float(z[0]), case.y)) == 0, told
            table, column = function(z[:, None], np.full((1, 3), case.y)), function(z, case.y)[:, None]
            np.testing.assert_array_equal(table, np.repeat(column, 3, axis=1), err_msg=told)
            assert function(z[0], np.full(3, case.y)).shape == (3,), told


def test_stable_and_convex_at_huge_scores():
    for case in EVERY_CASE:
        for dtype in BOTH_TYPES:
            z = np.array([-1e4, -1e3, -88.0, 0.0, 88.0, 1e3, 1e4], dtype)
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                value, gradient = case.loss.value_and_gradient(z, case.y)
                curvature, mean = case.loss.curvature(z, case.y), case.loss.inverse_link(z)
                alone = case.loss.value(z, case.y), case.loss.gradient(z, case.y)
            for array in (value, gradient, curvature, mean, *alone):
                assert np.isfinite(array).all(), str(case)
            assert (value >= case.loss.bounded_below_by * (1 + 1e-5)).all(), str(case)
            assert (curvature >= 0).all(), str(case)
            # The slope never falls, and no chord lies below the curve.
            assert (np.diff(gradient) >= 0).all(), str(case)
            assert (np.diff(mean) >= 0).all(), str(case)
            chord = np.diff(value.astype(np.float64)) / np.diff(z.astype(np.float64))
            slack = 1e-5 * (np.abs(chord) + np.abs(gradient[1:])) + 1e-5
            assert (chord >= gradient[:-1] - slack).all(), str(case)
            assert (chord <= gradient[1:] + slack).all(), str(case)


def test_convex_and_within_bounds_that_are_reached():
    wide = np.linspace(-200, 200, 4001)
    for case in EVERY_CASE:
        loss, y, told = case.loss, case.y, str(case)
        value, gradient = loss.value(GRID, y), loss.gradient(GRID, y)
        middle = loss.value((GRID[:-1] + GRID[1:]) / 2, y)
        assert (middle <= (value[:-1] + value[1:]) / 2 + 1e-12 * case.size).all(), told
        assert (np.diff(gradient) >= -1e-14).all(), told
        assert (loss.curvature(GRID, y) >= 0).all(), told
        assert (loss.value(wide, y) >= loss.bounded_below_by - 1e-12).all(), told
        if loss.lipschitz is not None:
            assert np.abs(loss.gradient(wide, y)).max() <= loss.lipschitz * (1 + 1e-15), told
        if loss.curvature_bound is not None:
            largest = loss.curvature(wide, y).max()
            assert 0.99 * loss.curvature_bound <= largest <= loss.curvature_bound, told
    for loss in {case.loss for case in EVERY_CASE}:
        answers, told = [case.y for case in EVERY_CASE if case.loss == loss], repr(loss)
        steepest = max(np.abs(loss.gradient(wide, y)).max() for y in answers)
        lowest = min(loss.value(wide, y).min() for y in answers)
        assert steepest >= (100 if loss.lipschitz is None else 0.99 * loss.lipschitz), told
        if loss.curvature_bound is None and not isinstance(loss, CustomFamily):
            assert max(loss.curvature(wide, y).max() for y in answers) > 100, told
        assert lowest <= max(loss.bounded_below_by, -1) + 0.01, told


def test_the_conjugate_is_the_supremum():
    for case in EVERY_CASE:
        for dtype in BOTH_TYPES:
            loss, eps, y = case.loss, np.finfo(dtype).eps, float(dtype(case.y))
            z = np.linspace(-5, 5, 81).astype(dtype)
            value, slope = loss.value_and_gradient(z, y)
            dual = loss.conjugate(slope, y)
            assert np.isfinite(dual).all(), str(case)
            scale = case.size + np.abs(value) + np.abs(dual) + np.abs(z * slope)
            assert (np.abs(value + dual - z * slope) <= 16 * eps * scale).all(), str(case)
            gap = value[:, None] + dual[None, :] - z[:, None] * slope[None, :]
            assert (gap >= -64 * eps * (scale[:, None] + scale[None, :])).all(), str(case)
        for slope in slopes_inside(case):

            def shortfall(z: float, case=case, slope: float = slope) -> float:
                return float(case.loss.value(z, case.y) - slope * z)

            options = {"bounds": (-150, 150), "method": "bounded", "options": {"xatol": 1e-9}}
            best = -optimize.minimize_scalar(shortfall, **options).fun
            found = case.loss.conjugate(slope, case.y)
            assert found == pytest.approx(best, abs=1e-8 * case.size, rel=1e-8), f"{case} at {slope}"


def test_the_conjugate_at_the_edge_of_its_domain():
    for case in EVERY_CASE:
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
                assert loss.conjugate(dtype(edge + outward * 1e-3 * size), y) == np.inf, str(case)
                if loss.name == "amounts":  # the one whose conjugate is infinite at the edge
                    assert on == by_rounding == np.inf
                    assert near > loss.conjugate(edge - outward * 1e-3, y) + 10
                    continue
                assert on == pytest.approx(float(by_rounding), abs=8 * eps * case.size), str(case)
                assert on == pytest.approx(float(near), abs=1e-6 + 16 * eps * size * case.size), str(case)
                if loss.name in LOSSES:
                    assert on == by_rounding == 0, str(case)


def test_identity_and_registries():
    for loss in {case.loss for case in EVERY_CASE}:
        again = copy.deepcopy(loss)
        assert (again, hash(again)) == (loss, hash(loss))
        assert loss != object()
        assert all(loss.link(value) in loss.domain for value in loss.edge_values), repr(loss)
    for loss, get in [(loss, get_loss) for loss in YES_NO] + [(family, get_family) for family in OF_VALUES]:
        assert get(loss) is loss
        assert get(loss.name) == get(loss.name.upper().replace("_", "-")) == loss
        assert repr(loss) == f"{type(loss).__name__}()"
        assert (loss.strong_properness is None) == isinstance(loss, Family)
    for get, wrong, error, message in (
        (get_loss, "logistc", UnknownNameError, "'logistic'"),
        (get_loss, 3, UnknownNameError, "3|Logistic"),
        (get_loss, Gaussian(), InvalidParameterError, r"Gaussian\(\) is a family.*logistic"),
        (get_family, "poison", UnknownNameError, "'poisson'"),
        (get_family, Logistic(), UnknownNameError, "3|Logistic"),
    ):
        with pytest.raises(error, match=message):
            get(wrong)


# -- links ---------------------------------------------------------------------------------------------------


def test_links_and_their_inverses():
    for loss in YES_NO + OF_VALUES:
        means = MEANS.get(loss.name, RATES)
        for dtype in BOTH_TYPES:
            mean, eps, told = means.astype(dtype), np.finfo(dtype).eps, repr(loss)
            found = loss.inverse_link(loss.link(mean))
            np.testing.assert_allclose(found, mean, rtol=32 * eps, atol=2 * eps, err_msg=told)
            # Near probabilities of 0 and 1 a rounding error of the mean is a large one of z.
            z = np.linspace(-2, 2, 81, dtype=dtype)
            z = z[(z > loss.domain[0]) & (z < loss.domain[1])]
            np.testing.assert_allclose(loss.link(loss.inverse_link(z)), z, 0, 256 * eps, err_msg=told)
        z = loss.link(means)
        assert (np.diff(z) > 0).all(), told
        inside = loss.inverse_link(np.linspace(-50, 50, 1001))
        assert (np.diff(inside) >= 0).all(), told
        if loss in YES_NO:
            assert (z[0], z[-1]) == loss.domain, told
            assert (inside.min() >= 0) & (inside.max() <= 1), told
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                far = loss.inverse_link([-1e4, -1e3, 1e3, 1e4])
            np.testing.assert_array_equal(far, [0, 0, 1, 1], err_msg=told)
        else:
            assert set(means[~np.isfinite(z)]) == set(loss.edge_values), told
            np.testing.assert_array_equal(loss.inverse_link(-np.inf), loss.means[0], err_msg=told)


def test_the_link_of_the_mean_is_the_best_score():
    for loss in YES_NO:
        for eta in (0.001, 0.1, 0.35, 0.5, 0.8, 0.999):

            def slope(z, loss=loss, eta=eta):
                return float(eta * loss.gradient(z, 1) + (1 - eta) * loss.gradient(z, 0))

            best = optimize.brentq(slope, -20, 20, xtol=1e-13)
            assert loss.link(eta) == pytest.approx(best, abs=1e-9), f"{loss!r} at {eta}"
    for family in OF_VALUES:
        y = np.array(ANSWERS[family.name])
        z = family.link(y.mean())
        assert family.gradient(z, y).sum() == pytest.approx(0, abs=1e-12), repr(family)
        assert family.value(z, y).sum() <= min(family.value(other, y).sum() for other in GRID), repr(family)


def test_links_refuse_what_is_no_mean():
    for loss, bad, message in (
        *((loss, bad, "probability") for loss in YES_NO for bad in (-0.1, 1.5, np.nan)),
        (Poisson(), -0.5, "mean of the poisson family.*-0.5"),
        (Bernoulli(), 1.5, "mean of the bernoulli family.*1.5"),
        (Bernoulli(), np.nan, "mean of the bernoulli family.*nan"),
        (Gaussian(), np.nan, "mean of the gaussian family.*nan"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            loss.link([0.5, bad])


def test_strong_properness():
    eta, z = np.linspace(0, 1, 101)[1:-1, None], np.linspace(-8, 8, 641)[None, :]
    for loss in YES_NO:
        best = loss.link(eta)
        mean, least = (eta * loss.value(at, 1) + (1 - eta) * loss.value(at, 0) for at in (z, best))
        regret, distance = mean - least, (eta - loss.inverse_link(z)) ** 2
        assert (regret >= loss.strong_properness / 2 * distance - 1e-12).all(), repr(loss)
        # The constant is the largest one: near η = ½ it is attained.
        near = (distance > 1e-8) & (np.abs(eta - 0.5) < 0.1) & (np.abs(loss.inverse_link(z) - 0.5) < 0.1)
        assert (regret[near] / distance[near]).min() <= 1.05 * loss.strong_properness / 2, repr(loss)


# -- families ------------------------------------------------------------------------------------------------


def test_a_perfect_fit_costs_nothing_and_nothing_costs_less():
    for family in OF_VALUES:
        for dtype in BOTH_TYPES:
            y = MEANS[family.name].astype(dtype)
            z = family.link(y)
            inner = np.isfinite(z)
            size = 1 + xlogy(np.abs(y), np.abs(y))
            rounding = 16 * np.finfo(dtype).eps * size[inner]
            assert (family.value(z[inner], y[inner]) <= rounding).all(), repr(family)
            near = z[inner, None] * (1 + np.linspace(-1e-6, 1e-6, 101)).astype(dtype)
            assert (family.value(near, y[inner, None]) >= 0).all(), repr(family)


def test_answers_that_can_be_and_that_cannot():
    for family in OF_VALUES:
        for possible in (ANSWERS[family.name], np.float32(ANSWERS[family.name]), [[0, 1], [1, 0]], []):
            family.check_answers(possible)
    for name, values, message in (
        ("poisson", [0.0, 3.0, -1.0, -2.0], r"-1\.0 at position 2 .*in \[0, inf\)"),
        ("poisson", [[1.0, 2.0], [np.inf, 0.0]], r"inf at position \(1, 0\)"),
        ("poisson", np.nan, r"nan at position 0"),
        ("bernoulli", [0.0, 1.0, 1.25], r"1\.25 at position 2 .*in \[0, 1\]"),
        ("bernoulli", [0.5, -1e-9], r"-1e-09 at position 1"),
        ("gaussian", [-1e300, np.nan], r"nan at position 1 .*finite numbers in \(-inf, inf\)"),
        ("gaussian", [-np.inf], r"-inf at position 0"),
    ):
        with pytest.raises(InvalidLabelsError, match=message):
            get_family(name).check_answers(values)


def slow_deviance(name, y, mean):
    if name == "gaussian":
        return (y - mean) ** 2
    if name == "poisson":
        return 2 * (xlogy(y, y) - xlogy(y, mean) - y + mean)
    return 2 * (xlogy(y, y) - xlogy(y, mean) + xlogy(1 - y, 1 - y) - xlogy(1 - y, 1 - mean))


def test_unit_deviance():
    for family in OF_VALUES:
        mean, y = np.meshgrid(MEANS[family.name], ANSWERS[family.name])
        with np.errstate(divide="ignore"):
            right = slow_deviance(family.name, y, mean)
        size = 1 + np.abs(mean) * np.log1p(np.abs(mean)) + np.abs(y) * (20 + np.log1p(np.abs(y)))
        finite = np.isfinite(right)
        for dtype in BOTH_TYPES:
            deviance = family.unit_deviance(y.astype(dtype), mean.astype(dtype))
            assert deviance.dtype == dtype
            np.testing.assert_array_equal(deviance[~finite], np.inf, err_msg=repr(family))
            error = np.abs(deviance[finite] - right[finite])
            assert (error <= 64 * np.finfo(dtype).eps * size[finite]).all(), repr(family)
            assert (deviance >= 0).all(), repr(family)
        np.testing.assert_array_equal(family.unit_deviance(MEANS[family.name], MEANS[family.name]), 0)
    np.testing.assert_allclose(Poisson().unit_deviance([0, 0, 1], [3.0, 0.0, 0.0]), [6, 0, np.inf])
    found = Bernoulli().unit_deviance([0, 1, 0, 1, 0, 0.5], [0.5, 0.5, 0.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(found, [np.log(4), np.log(4), 0, 0, np.inf, np.inf])
    with pytest.raises(InvalidLabelsError, match="position 0"):
        Poisson().unit_deviance([-1.0], [1.0])


def test_digits_in_the_tails():
    for dtype in BOTH_TYPES:
        z = np.array([1e4, -1e4], dtype)
        np.testing.assert_array_equal(Logistic().value(z, 0), [1e4, 0.0])
        np.testing.assert_array_equal(Logistic().gradient(z, 0), [1.0, 0.0])
        # Beyond what exponentials can hold, losses go on along their tangents.
        cap = np.log(np.finfo(dtype).max) / 2
        for loss, y, far in (
            (get_loss("exponential"), 1, -cap - np.array([10, 5, 1])),
            (Poisson(), 3, cap + np.array([1, 5, 10])),
        ):
            far = far.astype(dtype)
            slope = loss.gradient(far, y)
            np.testing.assert_allclose(np.diff(loss.value(far, y)) / np.diff(far), slope[:2], rtol=1e-5)
            assert (slope == slope[0]).all()
        far = np.append(GRID, [-1e4, -60, 60, 1e4]).astype(dtype)
        for method in ("value", "gradient", "curvature"):
            for y in (0, 1):
                pair = (getattr(loss, method)(far, y) for loss in (Bernoulli(), Logistic()))
                np.testing.assert_allclose(*pair, rtol=4 * np.finfo(dtype).eps)
        # The rounding of a large answer widens the edge.
        y = dtype(3e5)
        slope = dtype(-y * (1 + 4 * np.finfo(dtype).eps))
        assert slope + y < -8 * np.finfo(dtype).eps
        assert Poisson().conjugate(slope, y) == Poisson().conjugate(-y, y)
        assert Poisson().conjugate(dtype(-1.001 * y), y) == np.inf
    assert Gaussian().value(1e8 + 0.5, 1e8) == 0.125
    assert Gaussian().conjugate(2.0**-10, 2.0**27) == 2.0**17 + 2.0**-21
