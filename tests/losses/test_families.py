"""The families of real, count and share answers."""

from __future__ import annotations

import numpy as np
import pytest
from loss_cases import ANSWERS, GRID, both_types
from scipy.special import xlogy

from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, UnknownNameError
from labelgap.losses import (
    FAMILIES,
    Bernoulli,
    Gaussian,
    Logistic,
    Poisson,
    family_names,
    get_family,
)

every_family = pytest.mark.parametrize("family", [make() for make in FAMILIES.values()], ids=repr)

MEANS = {
    "bernoulli": np.array([0.0, 1e-6, 0.2, 0.5, 0.93, 1.0]),
    "gaussian": np.array([-40.0, -1.0, 0.0, 0.3, 1e3]),
    "poisson": np.array([0.0, 1e-6, 0.3, 1.0, 17.5, 1e6]),
}

# name, z, y, value, gradient, curvature; by hand
BY_HAND = [
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


@pytest.mark.parametrize(("name", "z", "y", "value", "gradient", "curvature"), BY_HAND)
def test_hand_computed(name, z, y, value, gradient, curvature):
    family = get_family(name)
    assert family.value(z, y) == pytest.approx(value, abs=1e-15)
    assert family.gradient(z, y) == pytest.approx(gradient, abs=1e-15)
    assert family.curvature(z, y) == pytest.approx(curvature, abs=1e-15)


def test_every_family_has_hand_computed_values():
    assert {row[0] for row in BY_HAND} == set(family_names()) == set(MEANS) == set(ANSWERS)


@every_family
@both_types
def test_a_perfect_fit_costs_nothing_and_nothing_costs_less(family, dtype):
    y = MEANS[family.name].astype(dtype)
    z = family.link(y)
    inner = np.isfinite(z)
    size = 1 + xlogy(np.abs(y), np.abs(y))
    assert (family.value(z[inner], y[inner]) <= 16 * np.finfo(dtype).eps * size[inner]).all()
    near = z[inner, None] * (1 + np.linspace(-1e-6, 1e-6, 101)).astype(dtype)
    assert (family.value(near, y[inner, None]) >= 0).all()


@every_family
@both_types
def test_link_round_trip(family, dtype):
    mean, eps = MEANS[family.name].astype(dtype), np.finfo(dtype).eps
    np.testing.assert_allclose(family.inverse_link(family.link(mean)), mean, rtol=32 * eps, atol=2 * eps)
    z = np.linspace(-3, 3, 61).astype(dtype)
    np.testing.assert_allclose(family.link(family.inverse_link(z)), z, rtol=0, atol=64 * eps)


@every_family
def test_link_rises_to_infinity_at_the_edges(family):
    z = family.link(MEANS[family.name])
    assert (np.diff(z) > 0).all()
    assert set(MEANS[family.name][~np.isfinite(z)]) == set(family.edge_values)
    np.testing.assert_array_equal(family.inverse_link(-np.inf), family.means[0])


@every_family
def test_link_of_the_mean_is_the_best_score_for_several_answers(family):
    y = np.array(ANSWERS[family.name])
    z = family.link(y.mean())
    assert family.gradient(z, y).sum() == pytest.approx(0, abs=1e-12)
    assert family.value(z, y).sum() <= min(family.value(other, y).sum() for other in GRID)


@pytest.mark.parametrize(
    ("name", "bad"), [("poisson", -0.5), ("bernoulli", 1.5), ("gaussian", np.nan), ("bernoulli", np.nan)]
)
def test_link_refuses_what_is_no_mean(name, bad):
    with pytest.raises(InvalidParameterError, match=rf"mean of the {name} family.*{bad}"):
        get_family(name).link([0.5, bad])


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("poisson", [0.0, 3.0, -1.0, -2.0], r"-1\.0 at position 2 .*in \[0, inf\)"),
        ("poisson", [[1.0, 2.0], [np.inf, 0.0]], r"inf at position \(1, 0\)"),
        ("poisson", np.nan, r"nan at position 0"),
        ("bernoulli", [0.0, 1.0, 1.25], r"1\.25 at position 2 .*in \[0, 1\]"),
        ("bernoulli", [0.5, -1e-9], r"-1e-09 at position 1"),
        ("gaussian", [-1e300, np.nan], r"nan at position 1 .*finite numbers in \(-inf, inf\)"),
        ("gaussian", [-np.inf], r"-inf at position 0"),
    ],
)
def test_answers_that_cannot_be(name, values, message):
    with pytest.raises(InvalidLabelsError, match=message):
        get_family(name).check_answers(values)


@every_family
def test_answers_that_can_be(family):
    family.check_answers(ANSWERS[family.name])
    family.check_answers(np.array(ANSWERS[family.name], dtype=np.float32))
    family.check_answers([[0, 1], [1, 0]])
    family.check_answers([])


def deviance_oracle(name, y, mean):
    if name == "gaussian":
        return (y - mean) ** 2
    if name == "poisson":
        return 2 * (xlogy(y, y) - xlogy(y, mean) - y + mean)
    return 2 * (xlogy(y, y) - xlogy(y, mean) + xlogy(1 - y, 1 - y) - xlogy(1 - y, 1 - mean))


@every_family
@both_types
def test_unit_deviance(family, dtype):
    mean, y = np.meshgrid(MEANS[family.name], ANSWERS[family.name])
    deviance = family.unit_deviance(y.astype(dtype), mean.astype(dtype))
    assert deviance.dtype == dtype
    with np.errstate(divide="ignore"):
        right = deviance_oracle(family.name, y.astype(np.float64), mean)
    size = 1 + np.abs(mean) * np.log1p(np.abs(mean)) + np.abs(y) * (20 + np.log1p(np.abs(y)))
    finite = np.isfinite(right)
    np.testing.assert_array_equal(deviance[~finite], np.inf)
    error = np.abs(deviance[finite] - right[finite])
    assert (error <= 64 * np.finfo(dtype).eps * size[finite]).all()
    assert (deviance >= 0).all()
    np.testing.assert_array_equal(family.unit_deviance(MEANS[family.name], MEANS[family.name]), 0)


def test_unit_deviance_at_the_edges_by_hand():
    np.testing.assert_allclose(Poisson().unit_deviance([0, 0, 1], [3.0, 0.0, 0.0]), [6, 0, np.inf])
    np.testing.assert_allclose(
        Bernoulli().unit_deviance([0, 1, 0, 1, 0, 0.5], [0.5, 0.5, 0.0, 1.0, 1.0, 0.0]),
        [np.log(4), np.log(4), 0, 0, np.inf, np.inf],
    )
    with pytest.raises(InvalidLabelsError, match="position 0"):
        Poisson().unit_deviance([-1.0], [1.0])


@both_types
def test_bernoulli_at_yes_and_no_is_the_logistic_loss(dtype):
    z = np.append(GRID, [-1e4, -60, 60, 1e4]).astype(dtype)
    for y in (0, 1):
        for method in ("value", "gradient", "curvature"):
            np.testing.assert_allclose(
                getattr(Bernoulli(), method)(z, y),
                getattr(Logistic(), method)(z, y),
                rtol=4 * np.finfo(dtype).eps,
            )


@both_types
def test_poisson_goes_on_along_its_tangent(dtype):
    cap = np.log(np.finfo(dtype).max) / 2
    z = np.array([cap + 1, cap + 5, cap + 10], dtype)
    slope = Poisson().gradient(z, 3)
    np.testing.assert_allclose(np.diff(Poisson().value(z, 3)) / np.diff(z), slope[:2], rtol=1e-5)
    assert (slope == slope[0]).all()


def test_gaussian_keeps_its_digits_far_from_zero():
    assert Gaussian().value(1e8 + 0.5, 1e8) == 0.125
    assert Gaussian().conjugate(2.0**-10, 2.0**27) == 2.0**17 + 2.0**-21


@both_types
def test_a_large_answer_widens_the_edge_by_its_rounding(dtype):
    y = dtype(3e5)
    slope = dtype(-y * (1 + 4 * np.finfo(dtype).eps))
    assert slope + y < -8 * np.finfo(dtype).eps
    assert Poisson().conjugate(slope, y) == Poisson().conjugate(-y, y)
    assert Poisson().conjugate(dtype(-1.001 * y), y) == np.inf


@every_family
def test_registry(family):
    assert get_family(family.name) == family
    assert get_family(family) is family
    assert get_family(family.name.upper()) == family
    assert repr(family) == f"{type(family).__name__}()"
    assert family.strong_properness is None


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="'poisson'"):
        get_family("poison")
    with pytest.raises(UnknownNameError):
        get_family(Logistic())  # type: ignore[arg-type]
