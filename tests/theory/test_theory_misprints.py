"""What docs/theory.md corrects in printed formulas: labelgap computes the corrected ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labelgap.losses import get_loss, loss_names
from labelgap.theory import curvature_range, feature_bound, parameter_bound

SIZES = {"n": 5000, "n_features": 10, "n_labels": 40, "n_observed": 20_000, "rank": 2}
FITTED = {
    "score_bound": 1.5,
    "curvature_floor": 0.15,
    "trace_penalty": 0.02,
    "gradient_norm": 0.008,
    "sign_norm": 0.013,
    "feature_floor": 0.8,
}


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_the_printed_lower_curvature_exceeds_every_curvature(gamma):
    printed = (1 + math.exp(gamma)) ** 2 / math.exp(-gamma)
    found = curvature_range("bernoulli", gamma)
    assert printed > found.upper > found.lower
    assert found.lower == pytest.approx(math.exp(gamma) / (1 + math.exp(gamma)) ** 2)
    # The theorem's factor: e^−γ where e^γ is printed.
    assert found.conditioning <= (1 + math.exp(gamma)) ** 2 * math.exp(-gamma)


@pytest.mark.parametrize("name", loss_names())
def test_a_no_costs_more_the_higher_its_score(name):
    # With labels 0 and 1 in the printed losses, log(1 + e^(−yt)) at y = 0 is log 2 for every score.
    values = get_loss(name).value(np.array([-1.0, 0.0, 1.0]), np.zeros(3))
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("unit", [0.01, 7.0])
def test_the_unit_of_the_values_does_not_matter(unit):
    # It would with "+ 1" in place of γ² beside the noise.
    one, other = (
        feature_bound(**SIZES, family="gaussian", score_bound=1.5 * scale, noise_scale=0.4 * scale)
        for scale in (1.0, unit)
    )
    assert other.value == pytest.approx(unit**2 * one.value)
    assert other.terms == pytest.approx({name: unit**2 * term for name, term in one.terms.items()})


def test_uneven_sampling_is_in_the_final_bound():
    one, other = (feature_bound(**SIZES, score_bound=1.5, nu=nu).terms for nu in (1.0, 3.0))
    assert other["low_rank"] == pytest.approx(3 * one["low_rank"])
    assert other["sampling"] == one["sampling"]


@pytest.mark.parametrize("unit", [0.01, 7.0])
def test_the_unit_of_the_features_does_not_matter(unit):
    # The signs enter as E‖XᵀΣ_R‖₂, which grows with the features; E‖Σ_R‖₂ does not.
    changes = dict.fromkeys(("trace_penalty", "gradient_norm", "sign_norm"), unit)
    changes["feature_floor"] = unit**2
    scaled = FITTED | {name: factor * FITTED[name] for name, factor in changes.items()}
    one, other = (parameter_bound(**SIZES, **settings) for settings in (FITTED, scaled))
    assert other.score_error == pytest.approx(one.score_error)
    assert other.value == pytest.approx(one.value / unit**2)
    assert other.terms == pytest.approx({name: term / unit**2 for name, term in one.terms.items()})


def test_the_constants_of_the_parameter_bound():
    # They follow with ab ≤ a²/4 + b² in place of the printed (a² + b²)/4, which is false.
    bound = parameter_bound(**SIZES, **FITTED, mu=1.2)
    n, d, n_labels, n_observed, rank = SIZES.values()
    gamma, floor, penalty, _, signs, s = FITTED.values()
    scale = 4 * 1.2**2 * n_labels * rank / (s**2 * d)
    assert bound.terms == pytest.approx(
        {
            "penalty": scale * 72 * penalty**2 / floor**2,
            "signs": scale * 8192 * math.e * gamma**2 * signs**2,
            "sampling": 8
            * math.e
            * 1.2
            * gamma**2
            / (s * d)
            * math.sqrt(math.log(n + n_labels) / n_observed),
        }
    )


def test_the_probability_counts_the_design():
    # The printed one leaves out 2e^−d, which is large where there are few features.
    bound = feature_bound(**(SIZES | {"n_features": 3}), score_bound=1.5)
    assert bound.probability == pytest.approx(1 - 3 / 5040 - 2 / 43 - 2 * math.exp(-3))
