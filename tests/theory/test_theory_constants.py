"""Constants of losses and families, against brute force on a grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labelgap.exceptions import InvalidParameterError
from labelgap.losses import CustomFamily, Logistic, Squared, Unlabelled, get_family, get_loss, loss_names
from labelgap.theory import curvature_range, loss_constants

ETA = np.linspace(0.001, 0.999, 333)[:, None]


def conditional_regret(loss, eta, z):
    def risk(scores):
        return eta * loss.value(scores, 1) + (1 - eta) * loss.value(scores, 0)

    return risk(z) - risk(loss.link(eta))


@pytest.mark.parametrize("name", loss_names())
def test_strong_properness_holds_and_is_the_largest_constant(name):
    loss = get_loss(name)
    z = np.linspace(-6, 6, 1201)[None, :]
    regret, distance = conditional_regret(loss, ETA, z), (ETA - loss.inverse_link(z)) ** 2
    constant = loss_constants(name).strong_properness
    assert (regret >= constant / 2 * distance - 1e-12).all()
    far = distance > 1e-5
    assert (regret[far] / distance[far]).min() <= 1.02 * constant / 2


def test_the_plain_hinge_is_not_strongly_proper():
    # Its regret vanishes at score 1 for every η > ½: it tells which class, never how probable.
    eta = np.array([0.6, 0.9])
    z = np.linspace(-3, 3, 6001)[:, None]
    risk = eta * np.maximum(1 - z, 0) + (1 - eta) * np.maximum(1 + z, 0)
    assert z[np.argmin(risk, axis=0), 0] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("gamma", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("name", loss_names())
def test_slope_and_curvature_on_an_interval(name, gamma):
    loss, constants = get_loss(name), loss_constants(name, gamma)
    z = np.linspace(-gamma, gamma, 2001)
    for y in (0, 1):
        assert np.abs(loss.gradient(z, y)).max() <= constants.lipschitz + 1e-12
        assert loss.curvature(z, y).max() <= constants.curvature + 1e-12
    assert np.abs(loss.gradient(z, 1)).max() == pytest.approx(constants.lipschitz)
    assert loss.curvature(z, 1).max() == pytest.approx(constants.curvature)


def test_without_a_score_bound():
    assert loss_constants("logistic").lipschitz == 1
    assert math.isinf(loss_constants("squared").lipschitz)
    assert math.isinf(loss_constants("exponential").curvature)


@pytest.mark.parametrize("base", [Logistic(), Squared()])
def test_the_unlabelled_loss_has_its_base_s_constants_about_the_true_label(base):
    loss = Unlabelled(base, flip_rate=0.4)
    assert loss_constants(loss) == loss_constants(base)
    z = np.linspace(-3, 3, 601)[None, :]
    recorded = 0.6 * ETA
    risk = recorded * loss.value(z, 1) + (1 - recorded) * loss.value(z, 0)
    best = loss.link(ETA)
    least = recorded * loss.value(best, 1) + (1 - recorded) * loss.value(best, 0)
    np.testing.assert_allclose(risk - least, conditional_regret(base, ETA, z), atol=1e-10)


def test_a_family_has_no_strong_properness():
    with pytest.raises(InvalidParameterError, match="family"):
        loss_constants(get_family("poisson"))


@pytest.mark.parametrize("gamma", [0.1, 1.0, 2.5, 8.0])
def test_the_logistic_curvature_has_a_closed_form(gamma):
    found = curvature_range("bernoulli", gamma)
    assert found.lower == pytest.approx(math.exp(gamma) / (1 + math.exp(gamma)) ** 2)
    assert found.upper == 0.25
    assert found.conditioning == pytest.approx(1 + math.cosh(gamma))


def test_other_families():
    poisson = curvature_range("poisson", 2.0)
    assert (poisson.lower, poisson.upper) == pytest.approx((math.exp(-2), math.exp(2)))
    cubic = CustomFamily(lambda z: z**2 + z**4, lambda z: 2 * z + 4 * z**3, lambda z: 2 + 12 * z**2)
    found = curvature_range(cubic, 0.5)
    assert (found.lower, found.upper) == pytest.approx((2.0, 5.0))


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.nan, np.inf])
def test_score_bounds_are_positive(gamma):
    with pytest.raises(InvalidParameterError, match="score_bound"):
        curvature_range("gaussian", gamma)
    with pytest.raises(InvalidParameterError, match="score_bound"):
        loss_constants("logistic", gamma)
