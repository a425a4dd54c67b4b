"""The unbiased positive-unlabelled loss."""

from __future__ import annotations

import numpy as np
import pytest
from loss_cases import FLIP_RATES, GRID, OF_UNLABELLED, both_types

from labelgap.exceptions import InvalidParameterError
from labelgap.losses import (
    LOSSES,
    UNLABELLED_LOSSES,
    Exponential,
    Gaussian,
    Logistic,
    Squared,
    SquaredHinge,
    Unlabelled,
    get_loss,
)

every_base = pytest.mark.parametrize("base", [LOSSES[name]() for name in UNLABELLED_LOSSES], ids=repr)
every_rate = pytest.mark.parametrize("rate", FLIP_RATES)
RATES = np.array([0.0, 0.05, 0.3, 0.9])


def turning_point(base, rate):
    """Up to this score the loss is unbiased."""
    return -np.log(rate) / 2 if isinstance(base, Exponential) and rate > 0 else np.inf


# base, ρ, z, value, gradient, curvature at a recorded positive; by hand
BY_HAND = [
    (Logistic(), 0.5, 0.0, np.log(2), -1.5, 0.25),
    (Logistic(), 0.5, np.log(3), np.log(4 / 3) - np.log(3), -1.25, 3 / 16),
    (Squared(), 0.5, 1.0, -4.0, -4.0, 2.0),
    (Squared(), 0.5, 3.0, -8.0, 0.0, 2.0),
    (Exponential(), 0.25, 0.0, 1.0, -5 / 3, 1.0),
    (Exponential(), 0.25, np.log(2), 0.0, -4 / 3, 0.0),
    (Exponential(), 0.25, np.log(2) + 3, -4.0, -4 / 3, 0.0),
]


@pytest.mark.parametrize(("base", "rate", "z", "value", "gradient", "curvature"), BY_HAND)
def test_hand_computed(base, rate, z, value, gradient, curvature):
    loss = Unlabelled(base, rate)
    assert loss.value(z, 1) == pytest.approx(value, abs=1e-15)
    assert loss.gradient(z, 1) == pytest.approx(gradient, abs=1e-15)
    assert loss.curvature(z, 1) == pytest.approx(curvature, abs=1e-15)


@every_base
@every_rate
def test_unlabelled_entries_have_the_loss_of_a_no(base, rate):
    loss = Unlabelled(base, rate)
    for method in ("value", "gradient", "curvature", "conjugate"):
        np.testing.assert_array_equal(getattr(loss, method)(GRID, 0), getattr(base, method)(GRID, 0))


@every_base
@every_rate
@both_types
def test_right_on_average_over_the_recording(base, rate, dtype):
    z = GRID[turning_point(base, rate) >= GRID].astype(dtype)
    loss = Unlabelled(base, rate)
    for method in ("value", "gradient", "curvature"):
        recorded, missed = (getattr(loss, method)(z, y).astype(np.float64) for y in (1, 0))
        np.testing.assert_allclose(
            (1 - rate) * recorded + rate * missed,
            getattr(base, method)(z, 1),
            rtol=64 * np.finfo(dtype).eps,
            atol=256 * np.finfo(dtype).eps,
        )


@pytest.mark.parametrize("rate", [0.3, 0.9])
def test_beyond_the_turning_point_it_is_too_large(rate):
    start = turning_point(Exponential(), rate)
    z = start + np.linspace(0.1, 4, 40)
    loss = Unlabelled(Exponential(), rate)
    recorded = loss.value(z, 1)
    assert ((1 - rate) * recorded + rate * loss.value(z, 0) > Exponential().value(z, 1)).all()
    np.testing.assert_allclose(recorded, -2 * np.sqrt(rate) / (1 - rate) * (z - start), rtol=1e-12)


@every_base
@every_rate
def test_the_mean_loss_is_least_at_the_link(base, rate):
    loss = Unlabelled(base, rate)
    eta = np.array([0.01, 0.2, 0.5, 1 / (1 + rate) - 1e-3])
    z = loss.link(eta)
    recorded = (1 - rate) * eta
    slope = recorded * loss.gradient(z, 1) + (1 - recorded) * loss.gradient(z, 0)
    np.testing.assert_allclose(slope, 0, atol=1e-12)


@every_base
def test_a_rate_of_zero_is_the_base(base):
    loss = Unlabelled(base, 0.0)
    slopes = -np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(loss.value(GRID, 1), base.value(GRID, 1), rtol=1e-15)
    np.testing.assert_allclose(loss.gradient(GRID, 1), base.gradient(GRID, 1), rtol=1e-15)
    np.testing.assert_allclose(loss.curvature(GRID, 1), base.curvature(GRID, 1), rtol=1e-15)
    np.testing.assert_allclose(loss.conjugate(slopes, 1), base.conjugate(slopes, 1), rtol=1e-14)


@every_base
@pytest.mark.parametrize("method", ["value", "gradient", "curvature", "conjugate"])
def test_one_rate_per_label(base, method):
    loss = Unlabelled(base, RATES)
    y = np.arange(GRID.size * RATES.size).reshape(GRID.size, RATES.size) % 3 == 0
    table = getattr(loss, method)(np.tile(GRID[:, None], RATES.size), y)
    by_label = [
        getattr(Unlabelled(base, rate), method)(GRID, labels) for rate, labels in zip(RATES, y.T, strict=True)
    ]
    np.testing.assert_array_equal(table, np.stack(by_label, axis=1))
    assert getattr(loss, method)(0.5, 1).shape == RATES.shape
    assert getattr(loss, method)(np.float32([[0.5]]), 1).shape == (1, RATES.size)
    assert getattr(loss, method)(np.float32([[0.5]]), 1).dtype == np.float32


def test_slope_range_by_hand():
    rate = 0.25
    expected = {
        "exponential": ([0, -np.inf], [np.inf, -4 / 3]),
        "logistic": ([0, -4 / 3], [1, -1 / 3]),
        "squared": ([-np.inf, -np.inf], [np.inf, np.inf]),
    }
    for name, (low, high) in expected.items():
        got = Unlabelled(get_loss(name), rate).slope_range([0, 1])
        np.testing.assert_allclose(got[0], low, rtol=1e-15)
        np.testing.assert_allclose(got[1], high, rtol=1e-15)


def test_slope_range_of_several_rates():
    low, high = Unlabelled(Logistic(), RATES).slope_range([[0], [1]])
    np.testing.assert_allclose(low, [np.zeros(4), -1 / (1 - RATES)])
    np.testing.assert_allclose(high, [np.ones(4), -RATES / (1 - RATES)])


@pytest.mark.parametrize("case", OF_UNLABELLED, ids=str)
@both_types
def test_every_slope_is_in_the_range_and_the_ends_are_approached(case, dtype):
    z = np.linspace(-60, 60, 401).astype(dtype)
    slope = case.loss.gradient(z, case.y)
    low, high = case.slopes
    slack = 8 * np.finfo(dtype).eps * (1 + np.abs(slope))
    assert ((slope >= low - slack) & (slope <= high + slack)).all()
    assert np.isfinite(case.loss.conjugate(slope, case.y)).all()
    assert slope[0] <= max(low, -50) + 1e-6 * abs(max(low, -50)) + 1e-6
    assert slope[-1] >= min(high, 50) - 1e-6 * abs(min(high, 50)) - 1e-6


@pytest.mark.parametrize("case", [case for case in OF_UNLABELLED if case.y == 1], ids=str)
def test_bounded_below(case):
    loss = case.loss
    assert loss.bounded_below == (loss.base.name == "squared" or loss.flip_rate == 0)
    lowest = min(loss.value(np.linspace(-1e3, 1e3, 200_001), y).min() for y in (0, 1))
    if loss.bounded_below:
        assert loss.bounded_below_by == pytest.approx(lowest, abs=1e-4)
        assert loss.bounded_below_by <= lowest
    else:
        assert loss.bounded_below_by == -np.inf
        assert lowest < -100


def test_bounded_below_needs_every_rate_to_be_zero():
    assert Unlabelled(Logistic(), np.zeros(3)).bounded_below
    assert not Unlabelled(Logistic(), [0.0, 0.1]).bounded_below
    assert Unlabelled(Squared(), [0.0, 0.5]).bounded_below_by == pytest.approx(-8)


@every_base
@both_types
@pytest.mark.parametrize("rate", [1e-300, 1e-20, 1 - 1e-9])
def test_extreme_rates(base, rate, dtype):
    loss = Unlabelled(base, rate)
    z = np.array([-1e4, -30.0, 0.0, 20.0, 1e4], dtype)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, slope = loss.value_and_gradient(z, 1)
        curvature, dual = loss.curvature(z, 1), loss.conjugate(slope, 1)
    assert np.isfinite(value).all()
    assert np.isfinite(curvature).all()
    assert (np.diff(slope) >= 0).all()
    assert np.isfinite(dual).all()
    z, value, slope, dual = (array[np.abs(z) < 100] for array in (z, value, slope, dual))
    scale = (1 + np.abs(value) + np.abs(dual) + np.abs(z * slope)) / (1 - rate)
    assert (np.abs(value + dual - z * slope) <= 32 * np.finfo(dtype).eps * scale).all()


@pytest.mark.parametrize("rate", [0.3, 0.9, 0.999])
@both_types
def test_rounding_of_a_large_slope_stays_on_the_edge(rate, dtype):
    """A gradient scaled by a weight and back may leave the domain by a rounding error of its own size."""
    loss, eps = Unlabelled(Logistic(), rate), float(np.finfo(dtype).eps)
    low, high = loss.slope_range(1)
    for edge, outward in ((low, -1), (high, 1)):
        slope = dtype(edge * (1 + 3 * eps * outward * np.sign(edge)))
        assert loss.conjugate(slope, 1) == pytest.approx(0, abs=1e3 * eps / (1 - rate))
        assert np.isfinite(loss.conjugate(slope, 1))
        assert loss.conjugate(dtype(edge + outward * 0.01 / (1 - rate)), 1) == np.inf


@every_base
def test_link_is_that_of_the_base(base):
    loss = Unlabelled(base, 0.4)
    np.testing.assert_array_equal(loss.link([0.0, 0.2, 1.0]), base.link([0.0, 0.2, 1.0]))
    np.testing.assert_array_equal(loss.inverse_link(GRID), base.inverse_link(GRID))


@pytest.mark.parametrize("base", [SquaredHinge(), Gaussian(), Unlabelled(Logistic(), 0.1), "logistic"])
def test_refuses_other_bases(base):
    with pytest.raises(InvalidParameterError, match="exponential, logistic, squared"):
        Unlabelled(base, 0.3)


@pytest.mark.parametrize("rate", [-0.1, 1.0, np.nan, [0.2, 1.5], np.inf])
def test_refuses_rates_that_are_no_share(rate):
    with pytest.raises(InvalidParameterError, match="flip_rate must be at least 0 and less than 1"):
        Unlabelled(Logistic(), rate)


def test_identity_and_attributes():
    rates = np.array([0.1, 0.2])
    loss = Unlabelled(Logistic(), rates)
    rates[0] = 0.9
    np.testing.assert_array_equal(loss.flip_rate, [0.1, 0.2])
    assert loss == Unlabelled(Logistic(), [0.1, 0.2])
    assert hash(loss) == hash(Unlabelled(Logistic(), [0.1, 0.2]))
    assert loss != Unlabelled(Logistic(), 0.1)
    assert loss != Unlabelled(Squared(), [0.1, 0.2])
    assert loss != Logistic()
    assert loss.base == Logistic()
    assert Unlabelled(Squared(), 0.25).flip_rate == 0.25
    assert repr(Unlabelled(Squared(), 0.25)) == "Unlabelled(Squared(), flip_rate=0.25)"
    with pytest.raises(ValueError, match="read-only"):
        loss.flip_rate[0] = 0.5
