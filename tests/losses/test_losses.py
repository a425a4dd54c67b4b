"""What every loss of the registry must do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from labelgap.exceptions import InvalidParameterError, UnknownNameError
from labelgap.losses import LOSSES, Exponential, Logistic, SquaredHinge, get_loss, loss_names

EVERY = [pytest.param(loss(), id=name) for name, loss in sorted(LOSSES.items())]
every_loss = pytest.mark.parametrize("loss", EVERY)
both_labels = pytest.mark.parametrize("y", [0, 1])
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])

GRID = np.linspace(-6, 6, 241)
SMOOTH = GRID[np.abs(np.abs(GRID) - 1) > 1e-3]  # away from the kinks at ±1
ETA = np.array([0.0, 1e-6, 0.01, 0.2, 0.5, 0.73, 0.99, 1 - 1e-6, 1.0])


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
]


@pytest.mark.parametrize(("name", "z", "y", "value", "gradient", "curvature"), BY_HAND)
def test_hand_computed(name, z, y, value, gradient, curvature):
    loss = get_loss(name)
    assert loss.value(z, y) == pytest.approx(value, abs=1e-15)
    assert loss.gradient(z, y) == pytest.approx(gradient, abs=1e-15)
    assert loss.curvature(z, y) == pytest.approx(curvature, abs=1e-15)


def test_every_loss_has_hand_computed_values():
    assert {row[0] for row in BY_HAND} == set(loss_names())


@every_loss
@both_labels
def test_gradient_is_the_finite_difference(loss, y):
    z, h = SMOOTH, 1e-6
    slope = (loss.value(z + h, y) - loss.value(z - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(z, y), slope, rtol=1e-6, atol=1e-7)


@every_loss
@both_labels
def test_curvature_is_the_finite_difference(loss, y):
    z, h = SMOOTH, 1e-6
    second = (loss.gradient(z + h, y) - loss.gradient(z - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.curvature(z, y), second, rtol=1e-6, atol=1e-7)


@every_loss
@both_labels
@both_types
def test_value_and_gradient_agree_with_the_single_ones(loss, y, dtype):
    z = np.append(GRID, [-1e4, 1e4]).astype(dtype)
    value, gradient = loss.value_and_gradient(z, y)
    np.testing.assert_allclose(value, loss.value(z, y), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(gradient, loss.gradient(z, y), rtol=4 * np.finfo(dtype).eps)


@every_loss
@pytest.mark.parametrize("method", ["value", "gradient", "curvature", "conjugate"])
def test_float32_agrees_with_float64_and_stays(loss, method):
    y = (np.arange(GRID.size) % 2).astype(np.int8)
    z = -GRID * (2 * y - 1) if method == "conjugate" else GRID
    z32 = z.astype(np.float32)
    narrow = getattr(loss, method)(z32, y)
    wide = getattr(loss, method)(z32.astype(np.float64), y)
    assert narrow.dtype == np.float32
    assert wide.dtype == np.float64
    np.testing.assert_allclose(narrow, wide, rtol=2e-5, atol=1e-6)


@every_loss
@both_types
def test_link_keeps_the_type(loss, dtype):
    assert loss.link(ETA.astype(dtype)).dtype == dtype
    assert loss.inverse_link(GRID.astype(dtype)).dtype == dtype


@every_loss
def test_integers_and_lists_are_computed_in_float64(loss):
    assert loss.value([0, 1], [True, False]).dtype == np.float64
    assert loss.value(np.zeros((3, 1)), np.ones((1, 2), int)).shape == (3, 2)


@every_loss
@both_labels
@both_types
def test_stable_at_huge_scores(loss, y, dtype):
    z = np.array([-1e4, -1e3, -88.0, 0.0, 88.0, 1e3, 1e4], dtype)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, gradient = loss.value_and_gradient(z, y)
        curvature, eta = loss.curvature(z, y), loss.inverse_link(z)
        assert np.isfinite(loss.value(z, y).sum())
        assert np.isfinite(loss.gradient(z, y)).all()
    assert np.isfinite(value).all()
    assert (value >= loss.bounded_below_by).all()
    assert np.isfinite(gradient).all()
    assert np.isfinite(curvature).all()
    assert (curvature >= 0).all()
    assert eta[0] == 0
    assert eta[-1] == 1
    # Still convex out there: the slope never falls.
    assert (np.diff(gradient) >= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logistic_tails_are_exact(dtype):
    z = np.array([1e4, -1e4], dtype)
    np.testing.assert_array_equal(Logistic().value(z, 0), [1e4, 0.0])
    np.testing.assert_array_equal(Logistic().gradient(z, 0), [1.0, 0.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponential_goes_on_along_its_tangent(dtype):
    loss = Exponential()
    cap = np.log(np.finfo(dtype).max) / 2
    z = np.array([-cap - 10, -cap - 5, -cap - 1], dtype)
    np.testing.assert_allclose(np.diff(loss.value(z, 1)) / np.diff(z), loss.gradient(z, 1)[:2], rtol=1e-5)


@every_loss
@pytest.mark.parametrize("eta", [0.001, 0.1, 0.35, 0.5, 0.8, 0.999])
def test_link_minimises_the_expected_loss(loss, eta):
    def expected(z: float) -> float:
        return float(eta * loss.value(z, 1) + (1 - eta) * loss.value(z, 0))

    def slope(z: float) -> float:
        return float(eta * loss.gradient(z, 1) + (1 - eta) * loss.gradient(z, 0))

    best = optimize.brentq(slope, -20, 20, xtol=1e-13)
    assert loss.link(eta) == pytest.approx(best, abs=1e-9)
    assert expected(loss.link(eta)) <= min(expected(z) for z in GRID) + 1e-12


@every_loss
@both_types
def test_link_round_trip(loss, dtype):
    eta, eps = ETA.astype(dtype), np.finfo(dtype).eps
    np.testing.assert_allclose(loss.inverse_link(loss.link(eta)), eta, rtol=16 * eps, atol=2 * eps)
    # Near probabilities of 0 and 1 a rounding error of η is a large one of z.
    z = np.linspace(-2, 2, 81, dtype=dtype)
    z = z[(z > loss.domain[0]) & (z < loss.domain[1])]
    np.testing.assert_allclose(loss.link(loss.inverse_link(z)), z, rtol=0, atol=256 * eps)


@every_loss
def test_link_reaches_its_limits_and_rises(loss):
    z = loss.link(ETA)
    assert (np.diff(z) > 0).all()
    assert (z[0], z[-1]) == loss.domain
    eta = loss.inverse_link(np.linspace(-50, 50, 1001))
    assert eta.min() >= 0
    assert eta.max() <= 1
    assert (np.diff(eta) >= 0).all()


@every_loss
@pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan])
def test_link_refuses_what_is_no_probability(loss, bad):
    with pytest.raises(InvalidParameterError, match="probability"):
        loss.link([0.5, bad])


@every_loss
@both_labels
def test_convex_and_within_its_bounds(loss, y):
    value, gradient, curvature = loss.value(GRID, y), loss.gradient(GRID, y), loss.curvature(GRID, y)
    middle = loss.value((GRID[:-1] + GRID[1:]) / 2, y)
    assert (middle <= (value[:-1] + value[1:]) / 2 + 1e-12).all()
    assert (np.diff(gradient) >= -1e-14).all()
    assert (value >= loss.bounded_below_by).all()
    wide = np.linspace(-100, 100, 2001)
    for bound, what in (
        (loss.lipschitz, loss.gradient(wide, y)),
        (loss.curvature_bound, loss.curvature(wide, y)),
    ):
        largest = np.abs(what).max()
        if bound is None:
            assert largest > 100
        else:
            assert largest <= bound
            assert largest >= 0.99 * bound
    assert (curvature >= 0).all()


@every_loss
@both_labels
@both_types
def test_fenchel_young(loss, y, dtype):
    z = np.linspace(-5, 5, 81).astype(dtype)
    value, slope = loss.value_and_gradient(z, y)
    dual = loss.conjugate(slope, y)
    assert np.isfinite(dual).all()
    scale = 1 + np.abs(value) + np.abs(dual) + np.abs(z * slope)
    assert (np.abs(value + dual - z * slope) <= 16 * np.finfo(dtype).eps * scale).all()
    gap = value[:, None] + dual[None, :] - z[:, None] * slope[None, :]
    assert (gap >= -64 * np.finfo(dtype).eps * (scale[:, None] + scale[None, :])).all()


@every_loss
@both_labels
def test_conjugate_is_the_supremum(loss, y):
    sign = 2 * y - 1
    z = np.linspace(-60, 60, 240_001)
    for slope in (-0.9, -0.5, -0.1):
        brute = np.max(sign * slope * z - loss.value(z, y))
        assert loss.conjugate(sign * slope, y) == pytest.approx(brute, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "edges"), [("logistic", (-1.0, 0.0)), ("squared_hinge", (0.0,)), ("exponential", (0.0,))]
)
@both_labels
@both_types
def test_conjugate_at_the_edge_of_its_domain(name, edges, y, dtype):
    loss, sign = get_loss(name), 2 * y - 1
    eps = np.finfo(dtype).eps
    for edge in edges:
        outward = 1 if edge == 0 else -1
        on = loss.conjugate(np.asarray(sign * edge, dtype), y)
        by_rounding = loss.conjugate(np.asarray(sign * (edge + outward * 2 * eps), dtype), y)
        outside = loss.conjugate(np.asarray(sign * (edge + outward * 1e-3), dtype), y)
        assert on == by_rounding == 0
        assert outside == np.inf


@every_loss
def test_strong_properness(loss):
    eta = np.linspace(0, 1, 101)[1:-1, None]
    z = np.linspace(-8, 8, 641)[None, :]
    best = loss.link(eta)
    regret = (eta * loss.value(z, 1) + (1 - eta) * loss.value(z, 0)) - (
        eta * loss.value(best, 1) + (1 - eta) * loss.value(best, 0)
    )
    distance = (eta - loss.inverse_link(z)) ** 2
    assert (regret >= loss.strong_properness / 2 * distance - 1e-12).all()
    # The constant is the largest one: near η = ½ it is attained.
    near = np.abs(eta - 0.5) + 0 * z < 0.1
    near &= (distance > 1e-8) & (np.abs(loss.inverse_link(z) - 0.5) < 0.1)
    assert (regret[near] / distance[near]).min() <= 1.05 * loss.strong_properness / 2


def test_squared_hinge_kink_takes_the_larger_curvature():
    assert SquaredHinge().curvature(1.0, 1) == 2
    assert SquaredHinge().curvature(np.nextafter(1.0, 2), 1) == 0


@every_loss
def test_registry(loss):
    assert get_loss(loss.name) == loss
    assert get_loss(loss) is loss
    assert get_loss(loss.name.upper().replace("_", "-")) == loss
    assert hash(get_loss(loss.name)) == hash(loss)
    assert repr(loss) == f"{type(loss).__name__}()"


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="'logistic'"):
        get_loss("logistc")
    with pytest.raises(UnknownNameError):
        get_loss(3)  # type: ignore[arg-type]
