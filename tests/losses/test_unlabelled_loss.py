"""The unbiased positive-unlabelled loss, beyond what ``test_every_loss.py`` asks of all losses."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from loss_cases import FLIP_RATES, GRID, OF_UNLABELLED

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

BASES = [LOSSES[name]() for name in UNLABELLED_LOSSES]
RATES = np.array([0.0, 0.05, 0.3, 0.9])
BOTH_TYPES = (np.float32, np.float64)


def turning_point(base, rate):
    """Up to this score the loss is unbiased."""
    return -np.log(rate) / 2 if isinstance(base, Exponential) and rate > 0 else np.inf


def test_hand_computed():
    # base, ρ, z, value, gradient, curvature at a recorded positive
    for base, rate, z, *expected in (
        (Logistic(), 0.5, 0.0, np.log(2), -1.5, 0.25),
        (Logistic(), 0.5, np.log(3), np.log(4 / 3) - np.log(3), -1.25, 3 / 16),
        (Squared(), 0.5, 1.0, -4.0, -4.0, 2.0),
        (Squared(), 0.5, 3.0, -8.0, 0.0, 2.0),
        (Exponential(), 0.25, 0.0, 1.0, -5 / 3, 1.0),
        (Exponential(), 0.25, np.log(2), 0.0, -4 / 3, 0.0),
        (Exponential(), 0.25, np.log(2) + 3, -4.0, -4 / 3, 0.0),
    ):
        loss = Unlabelled(base, rate)
        found = [loss.value(z, 1), loss.gradient(z, 1), loss.curvature(z, 1)]
        assert found == pytest.approx(expected, abs=1e-15), (base, rate, z)
    expected = {
        "exponential": ([0, -np.inf], [np.inf, -4 / 3]),
        "logistic": ([0, -4 / 3], [1, -1 / 3]),
        "squared": ([-np.inf, -np.inf], [np.inf, np.inf]),
    }
    for name, ends in expected.items():
        np.testing.assert_allclose(Unlabelled(get_loss(name), 0.25).slope_range([0, 1]), ends, rtol=1e-15)


def test_unlabelled_entries_have_the_loss_of_a_no_and_a_rate_of_zero_is_the_base():
    for base, rate in product(BASES, FLIP_RATES):
        loss = Unlabelled(base, rate)
        for method in ("value", "gradient", "curvature", "conjugate"):
            pair = (getattr(one, method)(GRID, 0) for one in (loss, base))
            np.testing.assert_array_equal(*pair, err_msg=f"{loss!r}: {method}")
        np.testing.assert_array_equal(loss.link([0.0, 0.2, 1.0]), base.link([0.0, 0.2, 1.0]))
        np.testing.assert_array_equal(loss.inverse_link(GRID), base.inverse_link(GRID))
        if rate == 0:
            at = {"conjugate": -np.linspace(0.01, 0.99, 9)}
            for method in ("value", "gradient", "curvature", "conjugate"):
                pair = (getattr(one, method)(at.get(method, GRID), 1) for one in (loss, base))
                np.testing.assert_allclose(*pair, rtol=1e-14, err_msg=f"{loss!r}: {method}")


def test_right_on_average_over_the_recording():
    for base, rate, dtype in product(BASES, FLIP_RATES, BOTH_TYPES):
        loss, eps = Unlabelled(base, rate), np.finfo(dtype).eps
        z = GRID[turning_point(base, rate) >= GRID].astype(dtype)
        for method in ("value", "gradient", "curvature"):
            recorded, missed = (getattr(loss, method)(z, y).astype(np.float64) for y in (1, 0))
            mean, told = (1 - rate) * recorded + rate * missed, f"{loss!r}: {method}"
            np.testing.assert_allclose(mean, getattr(base, method)(z, 1), 64 * eps, 256 * eps, err_msg=told)
        # And so the mean loss is least at the link.
        eta = np.array([0.01, 0.2, 0.5, 1 / (1 + rate) - 1e-3])
        z, recorded = loss.link(eta), (1 - rate) * eta
        slope = recorded * loss.gradient(z, 1) + (1 - recorded) * loss.gradient(z, 0)
        np.testing.assert_allclose(slope, 0, atol=1e-12, err_msg=repr(loss))
    for rate in (0.3, 0.9):
        # Beyond the turning point it is too large, and a line.
        start, loss = turning_point(Exponential(), rate), Unlabelled(Exponential(), rate)
        z = start + np.linspace(0.1, 4, 40)
        recorded = loss.value(z, 1)
        assert ((1 - rate) * recorded + rate * loss.value(z, 0) > Exponential().value(z, 1)).all()
        np.testing.assert_allclose(recorded, -2 * np.sqrt(rate) / (1 - rate) * (z - start), rtol=1e-12)


def test_one_rate_per_label():
    y = np.arange(GRID.size * RATES.size).reshape(GRID.size, RATES.size) % 3 == 0
    for base, method in product(BASES, ("value", "gradient", "curvature", "conjugate")):
        function = getattr(Unlabelled(base, RATES), method)
        table = function(np.tile(GRID[:, None], RATES.size), y)
        for j, rate in enumerate(RATES):
            alone = getattr(Unlabelled(base, rate), method)(GRID, y[:, j])
            np.testing.assert_array_equal(table[:, j], alone, err_msg=f"{base!r}: {method}")
        assert function(0.5, 1).shape == RATES.shape
        single = function(np.float32([[0.5]]), 1)
        assert (single.shape, single.dtype) == ((1, RATES.size), np.float32)
    low, high = Unlabelled(Logistic(), RATES).slope_range([[0], [1]])
    np.testing.assert_allclose(low, [np.zeros(4), -1 / (1 - RATES)])
    np.testing.assert_allclose(high, [np.ones(4), -RATES / (1 - RATES)])


def test_slopes_are_in_their_range_and_approach_its_ends():
    for case, dtype in product(OF_UNLABELLED, BOTH_TYPES):
        slope = case.loss.gradient(np.linspace(-60, 60, 401).astype(dtype), case.y)
        low, high = case.slopes
        slack = 8 * np.finfo(dtype).eps * (1 + np.abs(slope))
        assert ((slope >= low - slack) & (slope <= high + slack)).all(), str(case)
        assert np.isfinite(case.loss.conjugate(slope, case.y)).all(), str(case)
        assert slope[0] <= max(low, -50) + 1e-6 * abs(max(low, -50)) + 1e-6, str(case)
        assert slope[-1] >= min(high, 50) - 1e-6 * abs(min(high, 50)) - 1e-6, str(case)


def test_bounded_below():
    for case in OF_UNLABELLED:
        loss = case.loss
        assert loss.bounded_below == (loss.base.name == "squared" or loss.flip_rate == 0)
        lowest = min(loss.value(np.linspace(-1e3, 1e3, 200_001), y).min() for y in (0, 1))
        if loss.bounded_below:
            assert loss.bounded_below_by == pytest.approx(lowest, abs=1e-4)
            assert loss.bounded_below_by <= lowest
        else:
            assert loss.bounded_below_by == -np.inf
            assert lowest < -100
    assert Unlabelled(Logistic(), np.zeros(3)).bounded_below
    assert not Unlabelled(Logistic(), [0.0, 0.1]).bounded_below
    assert Unlabelled(Squared(), [0.0, 0.5]).bounded_below_by == pytest.approx(-8)


def test_extreme_rates():
    for base, rate, dtype in product(BASES, (1e-300, 1e-20, 1 - 1e-9), BOTH_TYPES):
        loss, told = Unlabelled(base, rate), f"{base!r}, {rate}"
        z = np.array([-1e4, -30.0, 0.0, 20.0, 1e4], dtype)
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            value, slope = loss.value_and_gradient(z, 1)
            curvature, dual = loss.curvature(z, 1), loss.conjugate(slope, 1)
        assert np.isfinite([value, curvature, dual]).all(), told
        assert (np.diff(slope) >= 0).all(), told
        z, value, slope, dual = (array[np.abs(z) < 100] for array in (z, value, slope, dual))
        scale = (1 + np.abs(value) + np.abs(dual) + np.abs(z * slope)) / (1 - rate)
        assert (np.abs(value + dual - z * slope) <= 32 * np.finfo(dtype).eps * scale).all(), told
    for rate, dtype in product((0.3, 0.9, 0.999), BOTH_TYPES):
        # A gradient scaled by a weight and back may leave the domain by a rounding error of its own size.
        loss, eps = Unlabelled(Logistic(), rate), float(np.finfo(dtype).eps)
        low, high = loss.slope_range(1)
        for edge, outward in ((low, -1), (high, 1)):
            slope = dtype(edge * (1 + 3 * eps * outward * np.sign(edge)))
            assert loss.conjugate(slope, 1) == pytest.approx(0, abs=1e3 * eps / (1 - rate))
            assert loss.conjugate(dtype(edge + outward * 0.01 / (1 - rate)), 1) == np.inf


def test_refusals_and_identity():
    for base in (SquaredHinge(), Gaussian(), Unlabelled(Logistic(), 0.1), "logistic"):
        with pytest.raises(InvalidParameterError, match="exponential, logistic, squared"):
            Unlabelled(base, 0.3)
    for rate in (-0.1, 1.0, np.nan, [0.2, 1.5], np.inf):
        with pytest.raises(InvalidParameterError, match="flip_rate must be at least 0 and less than 1"):
            Unlabelled(Logistic(), rate)
    rates = np.array([0.1, 0.2])
    loss = Unlabelled(Logistic(), rates)
    rates[0] = 0.9
    np.testing.assert_array_equal(loss.flip_rate, [0.1, 0.2])
    same = Unlabelled(Logistic(), [0.1, 0.2])
    assert (loss, hash(loss), loss.base) == (same, hash(same), Logistic())
    for other in (Unlabelled(Logistic(), 0.1), Unlabelled(Squared(), [0.1, 0.2]), Logistic()):
        assert loss != other
    assert Unlabelled(Squared(), 0.25).flip_rate == 0.25
    assert repr(Unlabelled(Squared(), 0.25)) == "Unlabelled(Squared(), flip_rate=0.25)"
    with pytest.raises(ValueError, match="read-only"):
        loss.flip_rate[0] = 0.5
