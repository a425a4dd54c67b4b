"""What every loss of yes/no labels must do, beyond what ``test_every_loss.py`` asks of all losses."""

from __future__ import annotations

import numpy as np
import pytest
from loss_cases import GRID, both_types
from scipy import optimize

from labelgap.exceptions import InvalidParameterError, UnknownNameError
from labelgap.losses import LOSSES, Exponential, Gaussian, Logistic, SquaredHinge, get_loss, loss_names

EVERY = [pytest.param(loss(), id=name) for name, loss in sorted(LOSSES.items())]
every_loss = pytest.mark.parametrize("loss", EVERY)
both_labels = pytest.mark.parametrize("y", [0, 1])
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
@both_types
def test_far_scores_stand_for_certainty(loss, dtype):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        eta = loss.inverse_link(np.array([-1e4, -1e3, 1e3, 1e4], dtype))
    np.testing.assert_array_equal(eta, [0, 0, 1, 1])


@both_types
def test_logistic_tails_are_exact(dtype):
    z = np.array([1e4, -1e4], dtype)
    np.testing.assert_array_equal(Logistic().value(z, 0), [1e4, 0.0])
    np.testing.assert_array_equal(Logistic().gradient(z, 0), [1.0, 0.0])


@both_types
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


def test_a_family_is_no_loss_of_yes_no_labels():
    with pytest.raises(InvalidParameterError, match=r"Gaussian\(\) is a family.*logistic"):
        get_loss(Gaussian())
