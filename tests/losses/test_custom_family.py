"""Families made of a user's own functions, beyond what ``test_every_loss.py`` asks of all losses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from loss_cases import (
    CUSTOM,
    GRID,
    amounts,
    counts,
    soft_counts,
    stars,
    stars_cumulant,
    stars_mean,
    stars_variance,
)
from scipy.special import expit, logit, xlogy

from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.losses import CustomFamily, Gaussian, Poisson, get_family, get_loss


def plain_counts(**options):
    return CustomFamily(np.exp, np.exp, np.exp, **{"low": 0, **options})


def stars_dual(mean):
    return xlogy(mean, mean / 5) + xlogy(5 - mean, 1 - mean / 5)


def test_the_exponential_is_the_poisson_family():
    for family in (counts(), plain_counts()):
        for dtype in (np.float32, np.float64):
            y = np.array([0.0, 0.4, 1.0, 7.0, 250.5], dtype)[:, None]
            z, tolerance = GRID.astype(dtype), 64 * np.finfo(dtype).eps
            size = 1 + y * (1 + np.log1p(y))
            for method in ("value", "gradient", "curvature", "conjugate"):
                ours, right = (getattr(loss, method)(z, y) for loss in (family, Poisson()))
                finite = np.isfinite(right)
                np.testing.assert_array_equal(np.isfinite(ours), finite)
                scale = np.broadcast_to(size, right.shape)[finite] + np.abs(right[finite])
                assert (np.abs(ours[finite] - right[finite]) <= tolerance * scale).all(), method
            means = np.array([0.0, 1e-9, 0.3, 1.0, 40.0, 1e6], dtype)
            np.testing.assert_allclose(family.link(means), Poisson().link(means), rtol=tolerance)
        assert (family.edge_values, family.means) == (Poisson().edge_values, Poisson().means)


def test_links_and_conjugates_that_are_computed():
    family, means = stars(), np.array([0.0, 1e-8, 0.5, 2.5, 4.9, 5 - 1e-9, 5.0])
    np.testing.assert_allclose(family.link(means), logit(means / 5), rtol=1e-7, atol=1e-15)
    expected = stars_dual(means) - stars_dual(1.5)
    np.testing.assert_allclose(family.conjugate(means - 1.5, 1.5), expected, atol=1e-13)
    assert (family.edge_values, family.lipschitz) == ((0.0, 5.0), 5)
    np.testing.assert_allclose(family.unit_deviance([0, 5, 5], [0.0, 2.5, 0.0]), [0, 10 * np.log(2), np.inf])

    family, y = (
        CustomFamily(lambda z: z**2 / 2, lambda z: z, np.ones_like),
        np.array([-3.0, 0.0, 1e-20, 1e12]),
    )
    np.testing.assert_allclose(family.link(y), y, rtol=1e-15)
    np.testing.assert_allclose(family.conjugate(2.0, y[:2]), Gaussian().conjugate(2.0, y[:2]), rtol=1e-15)
    assert (family.edge_values, family.lipschitz) == ((), None)

    # An edge with an infinite conjugate is no answer.
    family, m = amounts(), np.array([1e-6, 0.2, 1.0, 30.0])
    assert family.edge_values == ()
    np.testing.assert_allclose(family.link(m), m - 1 / m, rtol=1e-12, atol=1e-14)
    expected = (m**2 / 2 - np.log(m)) - (2 - np.log(2))
    np.testing.assert_allclose(family.conjugate(m - 2, 2.0), expected, rtol=1e-10)
    family.check_answers([1e-9, 3.0])
    with pytest.raises(InvalidLabelsError, match=r"0\.0 at position 1 .*amounts family.*\(0, inf\)"):
        family.check_answers([1.0, 0.0])

    # G of Huber's kind: its slope is z stopped at ±1, and reaches its ends.
    family = CustomFamily(
        lambda z: np.where(np.abs(z) < 1, z**2 / 2, np.abs(z) - 0.5),
        lambda z: np.clip(z, -1, 1),
        lambda z: (np.abs(z) < 1).astype(float),
        low=-1,
        high=1,
    )
    np.testing.assert_allclose(family.link([-0.75, 0.0, 0.5]), [-0.75, 0, 0.5], atol=1e-15)
    np.testing.assert_allclose(family.conjugate([-1.0, 0.0, 0.5, 1.0], 0.0), [0.5, 0, 0.125, 0.5], atol=1e-10)
    assert family.edge_values == (-1.0, 1.0)

    # A naive mean is inf/inf from z = 710 on, and its cumulant overflows there.
    family = CustomFamily(
        lambda z: np.log1p(np.exp(z)),
        lambda z: np.exp(z) / (1 + np.exp(z)),
        lambda z: np.exp(z) / (1 + np.exp(z)) ** 2,
        low=0,
        high=1,
    )
    means = np.array([0.0, 1e-12, 0.5, 1 - 1e-9, 1.0])
    np.testing.assert_allclose(family.link(means), logit(means), rtol=1e-7, atol=1e-15)
    np.testing.assert_allclose(family.value(1e4, [0.0, 1.0]), [1e4, 0.0], atol=1e-9)


def test_slow_steep_and_far_means_are_inverted():
    z = np.linspace(-12, 12, 97)
    for make in CUSTOM:
        family = make()
        found = family.link(family.inverse_link(z))
        np.testing.assert_allclose(found, z, rtol=1e-9, atol=1e-9, err_msg=repr(family))
        with np.errstate(all="raise", under="ignore"):
            value, slope = family.value_and_gradient(np.array([-1e100, -800.0, 800.0, 1e100]), 1.0)
        assert np.isfinite(slope).all(), repr(family)
        assert (value >= 0).all(), repr(family)
    slow = CustomFamily(
        lambda z: z * np.arcsinh(z) - np.sqrt(1 + z**2), np.arcsinh, lambda z: 1 / np.sqrt(1 + z**2)
    )
    means = np.array([-60.0, -1e-9, 0.0, 1e-30, 2.5, 60.0])
    np.testing.assert_allclose(slow.link(means), np.sinh(means), rtol=1e-13)
    steep = CustomFamily(lambda z: z**4 / 4, lambda z: z**3, lambda z: 3 * z**2)
    np.testing.assert_allclose(steep.link(means), np.cbrt(means), rtol=1e-13)
    far = np.array([1e-300, 1e-200, 1e200, 1e300])
    np.testing.assert_allclose(plain_counts().link(far), np.log(far), rtol=1e-14)


def test_functions_that_cannot_be():
    right = {"G": stars_cumulant, "mean": stars_mean, "variance": stars_variance, "low": 0, "high": 5}
    concave = {
        "G": lambda z: -(z**2) / 2,
        "mean": lambda z: -z,
        "variance": lambda z: -np.ones_like(z),
        "low": -np.inf,
        "high": np.inf,
    }
    for change, message in (
        ({"G": 3}, "G must be a function of an array, not 3"),
        ({"link": "log"}, "link must be a function"),
        ({"variance": None}, "variance must be a function"),
        ({"low": 5, "high": 0}, "low must be less than high"),
        ({"low": np.nan}, "low must be less than high"),
        ({"G": lambda z: np.where(z > 0, np.inf, 0 * z)}, "G must be finite, but at z = 0.195.* it gave inf"),
        ({"mean": lambda z: 1.0}, r"mean must give one number .* it gave shape \(\)"),
        ({"mean": lambda z: 4 * expit(z)}, "mean must be the slope of G, but at z = -8 "),
        ({"variance": lambda z: 5 * expit(z)}, "variance must be the slope of mean"),
        ({"low": 1}, r"at z = -8 the mean is .*, outside \[1, 5\]"),
        ({"low": -1}, "low must be the end of the range of mean.* goes to 0, not to -1"),
        ({"high": np.inf}, "levels off at 5 as z goes to inf: give high=5"),
        ({"low": -np.inf}, "levels off at 0 as z goes to -inf: give low=0"),
        ({"link": lambda m: 2 * logit(m / 5)}, "link does not fit to G and mean"),
        ({"conjugate": lambda m: stars_dual(m) + 1}, "conjugate does not fit to G and mean"),
        (concave, "variance must not be negative"),
    ):
        with pytest.raises(InvalidParameterError, match=message), np.errstate(all="ignore"):
            CustomFamily(**{**right, **change})


def test_given_functions_are_used_inside_the_range_only():
    asked = []

    def link(mean):
        asked.append(mean.copy())
        return logit(mean / 5)

    family = CustomFamily(
        stars_cumulant, stars_mean, stars_variance, low=0, high=5, link=link, conjugate=stars_dual
    )
    asked.clear()
    np.testing.assert_allclose(family.link([0.0, 2.0, 5.0]), [-np.inf, logit(0.4), np.inf])
    np.testing.assert_array_equal(np.concatenate(asked), [2.0])
    values = (one.value(0.3, [0.0, 2.0, 5.0]) for one in (family, stars()))
    np.testing.assert_allclose(*values, atol=1e-9)


def test_identity_and_what_is_remembered():
    assert (stars(), hash(stars())) == (stars(), hash(stars()))
    assert counts() != counts(), "each has a lambda of its own"
    assert stars() != soft_counts()
    assert plain_counts() != plain_counts(name="other")
    assert repr(stars()) == "CustomFamily(name='stars', low=0, high=5)"
    assert get_family(stars()) == stars()
    with pytest.raises(InvalidParameterError, match="family"):
        get_loss(stars())
    # Changed answers are noticed, and a saved family does not carry them.
    family, y = stars(), np.array([1.0, 2.0])
    empty = len(pickle.dumps(family))
    family.value(0.0, y)
    y[0] = 4.0
    np.testing.assert_array_equal(family.value(0.0, y), stars().value(0.0, y))
    family.value(0.0, np.linspace(0, 5, 1000))
    packed = pickle.dumps(family)
    assert len(packed) == empty
    again = pickle.loads(packed)
    assert again == family
    np.testing.assert_array_equal(again.value(GRID, 1.5), family.value(GRID, 1.5))
