"""The recovery bounds and λ by theory: formulas by hand, rates, assumptions, and what real fits do.

What docs/theory.md corrects in printed formulas is asked here: labelgap computes the corrected ones.
"""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap import LowRankClassifier
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.theory import (
    AssumptionWarning,
    collaborative_bound,
    collaborative_trace_penalty,
    curvature_range,
    feature_bound,
    feature_trace_penalty,
    noise_trace_penalty,
    parameter_bound,
    score_penalty_bound,
    unlabelled_bound,
    unlabelled_trace_penalty,
)

SIZES = {"n": 2000, "n_features": 10, "n_labels": 40, "n_observed": 8000, "rank": 2, "score_bound": 1.5}


CELLS = {"n": 400, "n_labels": 300, "n_observed": 60_000, "rank": 3, "score_bound": 1.2}


FITTED = {
    "score_bound": 1.5,
    "curvature_floor": 0.15,
    "trace_penalty": 0.02,
    "gradient_norm": 0.008,
    "sign_norm": 0.013,
    "feature_floor": 0.8,
}


def test_the_bounds_by_hand():
    bound = feature_bound(**SIZES, mu=2.0, nu=1.5, constant=3.0)
    log, noise = math.log(2040), (1 + math.cosh(1.5)) ** 2 + 1.5**2
    first = 3 * 4 / 10 * 1.5 * 40 * 2 * log / 8000 * noise
    second = 3 * 2 / 10 * 1.5**2 * math.sqrt(log / 8000)
    assert dict(bound.terms) == pytest.approx({"low_rank": first, "sampling": second})
    assert bound.value == max(bound.terms.values())
    assert bound.score_error == pytest.approx(bound.value * 10 / 2)
    # The printed probability leaves out 2e^−d.
    assert bound.probability == pytest.approx(1 - 3 / 2040 - 2 / 50 - 2 * math.exp(-10))
    assert bound.trivial == pytest.approx(4 * 1.5**2)
    assert not bound.failed
    # What cannot be told is marked so.
    assert {assumption.holds for assumption in bound.assumptions} == {True, None}
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.value = 0.0
    bound = collaborative_bound(**CELLS, mu=1.5, nu=2.0, constant=0.5)
    log, noise = math.log(700), (1 + math.cosh(1.2)) ** 2 + 1.2**2
    assert bound.terms["low_rank"] == pytest.approx(0.5 * 2.25 * 2 * 400 * 3 * log / 60_000 * noise)
    assert bound.terms["sampling"] == pytest.approx(0.5 * 1.5 * 1.2**2 * math.sqrt(log / 60_000))
    assert bound.probability == pytest.approx(1 - 3 / 700)
    bound = unlabelled_bound(n=100, n_labels=400, flip_rate=0.75, trace_norm=50.0, constant=2.0)
    assert bound.terms["deviation"] == pytest.approx(6 * math.sqrt(math.log(500)) / (200 * 0.25))
    assert bound.terms["complexity"] == pytest.approx(2 * 2 * 50 * 30 / (0.25 * 40_000))
    assert bound.value == pytest.approx(sum(bound.terms.values()))
    # With ab ≤ a²/4 + b² in place of the printed (a² + b²)/4, which is false.
    sizes = {"n": 5000, "n_features": 10, "n_labels": 40, "n_observed": 20_000, "rank": 2}
    bound = parameter_bound(**sizes, **FITTED, mu=1.2)
    gamma, floor, penalty, _, signs, s = FITTED.values()
    scale, log = 4 * 1.2**2 * 40 * 2 / (s**2 * 10), math.log(5040)
    assert bound.terms == pytest.approx(
        {
            "penalty": scale * 72 * penalty**2 / floor**2,
            "signs": scale * 8192 * math.e * gamma**2 * signs**2,
            "sampling": 8 * math.e * 1.2 * gamma**2 / (s * 10) * math.sqrt(log / 20_000),
        }
    )


def test_rates_of_every_family_noise_rows_and_sampling():
    for family in ("bernoulli", "gaussian", "poisson"):
        few = feature_bound(**SIZES, family=family)
        many = feature_bound(**{**SIZES, "n_observed": 16_000}, family=family)
        assert few.terms["low_rank"] / many.terms["low_rank"] == pytest.approx(2), family
        assert few.terms["sampling"] / many.terms["sampling"] == pytest.approx(math.sqrt(2)), family
        curvature = curvature_range(family, 1.5)
        expected = curvature.upper / curvature.lower**2 + 1.5**2
        found = few.terms["low_rank"]
        assert found == pytest.approx(40 * 2 * math.log(2040) / (10 * 8000) * expected), family
    quiet, loud = (feature_bound(**SIZES, family="gaussian", noise_scale=scale) for scale in (0.1, 1.0))
    assert loud == feature_bound(**SIZES, family="gaussian")
    assert quiet.value < loud.value
    # Rows cost the penalty on the scores, but hardly the other.
    more, equal = {**SIZES, "n": 20_000}, {**SIZES, "n": 40}
    assert feature_bound(**more).value / feature_bound(**SIZES).value < 1.4
    assert score_penalty_bound(**more).value / score_penalty_bound(**SIZES).value > 10
    assert feature_bound(**equal).value == pytest.approx(score_penalty_bound(**equal).value)
    # Uneven sampling is in the final bound.
    one, other = (feature_bound(**SIZES, nu=nu).terms for nu in (1.0, 3.0))
    assert other["low_rank"] == pytest.approx(3 * one["low_rank"])
    assert other["sampling"] == one["sampling"]
    # Without features the low-rank term always leads, because |Ω| ≤ nL, whatever γ is.
    for gamma in (0.01, 1.0, 3.0):
        for n, n_labels in ((30, 30), (1000, 50), (50, 1000)):
            terms = collaborative_bound(
                n=n, n_labels=n_labels, n_observed=n * n_labels, rank=1, score_bound=gamma
            ).terms
            assert terms["low_rank"] > terms["sampling"], (gamma, n, n_labels)


@pytest.mark.parametrize("unit", [0.01, 7.0])
def test_units_do_not_matter(unit):
    # Those of the values would with "+ 1" in place of γ² beside the noise.
    one, other = (
        feature_bound(**SIZES | {"score_bound": 1.5 * scale}, family="gaussian", noise_scale=0.4 * scale)
        for scale in (1.0, unit)
    )
    assert other.value == pytest.approx(unit**2 * one.value)
    assert other.terms == pytest.approx({name: unit**2 * term for name, term in one.terms.items()})
    # The signs enter as E‖XᵀΣ_R‖₂, which grows with the features; E‖Σ_R‖₂ does not.
    scaled = {name: FITTED[name] * unit for name in ("trace_penalty", "gradient_norm", "sign_norm")} | {
        "feature_floor": 0.8 * unit**2
    }
    one, other = (parameter_bound(**SIZES | FITTED | change) for change in ({}, scaled))
    assert other.score_error == pytest.approx(one.score_error)
    assert other.value == pytest.approx(one.value / unit**2)
    assert other.terms == pytest.approx({name: term / unit**2 for name, term in one.terms.items()})


def test_confidence_can_only_widen():
    plain = feature_bound(**SIZES)
    assert feature_bound(**SIZES, confidence=0.5).value == plain.value
    assert feature_bound(**SIZES, confidence=1 - 1e-6).value > plain.value
    strict = collaborative_bound(**CELLS, confidence=1 - 1e-6)
    assert strict.probability == pytest.approx(1 - 1e-6)
    assert strict.terms["low_rank"] / collaborative_bound(**CELLS).terms["low_rank"] == pytest.approx(
        math.log(3e6) / math.log(700)
    )


def test_failing_assumptions_are_named_with_their_sizes_in_one_warning():
    cases = {
        "rows": (feature_bound, SIZES | {"n": 9}, 1, "n ≥ C' d: 9 is short of 10 by 1"),
        "labels": (feature_bound, SIZES | {"n_labels": 8}, 1, "L ≥ d: 8 is short of 10 by 2"),
        "entries": (feature_bound, SIZES | {"n_observed": 30}, 1, r"\|Ω\| ≥ L \+ d: 30 is short of 50 by 20"),
        "all": (feature_bound, SIZES | {"n_labels": 8, "n_observed": 12, "rows_per_feature": 500}, 3, ""),
        "no features": (collaborative_bound, CELLS | {"n_observed": 1000}, None, r"min\(n, L\)"),
        "scores": (score_penalty_bound, SIZES | {"log_scale": 100.0}, None, r"min\(n, L\)"),
        "unlabelled": (
            unlabelled_bound,
            {"n": 10, "n_labels": 10, "flip_rate": 0.0, "trace_norm": 50.0},
            None,
            "restrains nothing",
        ),
    }
    for name, (bound, arguments, count, message) in cases.items():
        with pytest.warns(AssumptionWarning, match=message) as caught:
            found = bound(**arguments)
        assert len(caught) == 1, name
        assert caught[0].filename == __file__, name
        assert {one.holds for one in found.failed} == {False}, name
        assert count is None or len(found.failed) == count, name
    assert issubclass(AssumptionWarning, LabelgapWarning)


def test_impossible_arguments_are_errors():
    unlabelled = {"n": 10, "n_labels": 10, "flip_rate": 0.5, "trace_norm": 5.0}
    features = {"n_features": 1, "n_labels": 1, "n_observed": 1}
    positives = {"n": 2, "n_labels": 2, "positive_rate": 0.5}
    noise = {"X": None, "labels": [[1, 0], [0, 1]]}
    cases = [
        *((feature_bound, SIZES, change) for change in ({"n": 0}, {"rank": 11}, {"rank": 1.5})),
        *((feature_bound, SIZES, change) for change in ({"score_bound": 0.0}, {"mu": 0.9}, {"nu": 0.5})),
        (feature_bound, SIZES, {"constant": 0.0}),
        *((unlabelled_bound, unlabelled, {"flip_rate": rate}) for rate in (1.0, -0.1)),
        (unlabelled_bound, unlabelled, {"trace_norm": 0.0}),
        (feature_trace_penalty, features, {"noise_scale": 0.0}),
        (unlabelled_trace_penalty, positives, {"flip_rate": 1.0}),
        (noise_trace_penalty, noise, {"quantile": 1.5}),
        (noise_trace_penalty, noise, {"n_draws": 0}),
    ]
    for asked, arguments, change in cases:
        with pytest.raises(InvalidParameterError, match=next(iter(change))):
            asked(**arguments | change)
    with pytest.raises(InvalidLabelsError):
        noise_trace_penalty(None, [[np.nan, np.nan]])


@dataclasses.dataclass
class Fitted:
    """A fit with λ just above twice the noise, and all that the master theorem speaks of."""

    X: np.ndarray
    W: np.ndarray
    found: np.ndarray
    cells: tuple[np.ndarray, np.ndarray]
    gradient: np.ndarray
    penalty: float
    gamma: float


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    rng = np.random.default_rng(0)
    n, d, n_labels, rank = 400, 6, 20, 2
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, n_labels)) / 4
    Z = X @ W
    Y = (rng.random(Z.shape) < 1 / (1 + np.exp(-Z))).astype(float)
    seen = rng.random(Z.shape) < 0.5
    G = np.where(seen, 1 / (1 + np.exp(-Z)) - Y, 0) / seen.sum()
    penalty = 2.05 * float(np.linalg.norm(X.T @ G, 2))
    model = LowRankClassifier(
        trace_penalty=penalty, ridge_penalty=0.0, fit_intercept=False, threshold="train", tol=1e-6
    ).fit(X, np.where(seen, Y, np.nan))
    gamma = float(max(np.abs(Z).max(), np.abs(model.decision_function(X)).max()))
    return Fitted(X, W, model.coef_, np.nonzero(seen), G, penalty, gamma)


def test_the_error_lies_in_a_cone_and_the_divergence_below_its_bound(fitted):
    delta = fitted.found - fitted.W
    size, rank = np.linalg.norm(delta), 2
    assert np.linalg.norm(delta, "nuc") <= 4 * math.sqrt(2 * rank) * size
    found, true = (fitted.X @ V for V in (fitted.found, fitted.W))
    mean = 1 / (1 + np.exp(-true))
    divergence = (np.logaddexp(0, found) - np.logaddexp(0, true) - mean * (found - true))[fitted.cells].mean()
    assert 0 <= divergence <= 3 * fitted.penalty * math.sqrt(2 * rank) * size
    floor = curvature_range("bernoulli", fitted.gamma).lower
    assert ((found - true)[fitted.cells] ** 2).mean() <= 2 / floor * divergence


def test_the_master_bound_holds_and_is_vacuous_at_this_size(fitted):
    X = fitted.X
    n, d = X.shape
    rng = np.random.default_rng(1)
    signs = []
    for _ in range(20):
        E = np.zeros_like(fitted.gradient)
        E[fitted.cells] = rng.choice([-1.0, 1.0], len(fitted.cells[0])) / len(fitted.cells[0])
        signs.append(np.linalg.norm(X.T @ E, 2))
    arguments = {
        "n": n,
        "n_features": d,
        "n_labels": 20,
        "n_observed": len(fitted.cells[0]),
        "rank": 2,
        "score_bound": fitted.gamma,
        "curvature_floor": curvature_range("bernoulli", fitted.gamma).lower,
        "trace_penalty": fitted.penalty,
        "gradient_norm": float(np.linalg.norm(X.T @ fitted.gradient, 2)),
        "sign_norm": float(np.mean(signs)),
        "feature_floor": float(np.linalg.eigvalsh(X.T @ X)[0] / n),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound = parameter_bound(**arguments)
    assert np.mean((fitted.found - fitted.W) ** 2) <= bound.value
    assert np.mean((X @ (fitted.found - fitted.W)) ** 2) <= bound.score_error
    assert not bound.informative
    with pytest.warns(AssumptionWarning, match="λ ≥ 2 σ₁"):
        parameter_bound(**{**arguments, "trace_penalty": fitted.penalty / 2})


def noise(rng, shape, n_observed, rate=0.5):
    """Gradient of the logistic loss at the truth: (rate − y)/|Ω| on |Ω| cells."""
    n, n_labels = shape
    G = np.zeros(n * n_labels)
    cells = rng.choice(n * n_labels, n_observed, replace=False)
    G[cells] = (rate - (rng.random(n_observed) < rate)) / n_observed
    return G.reshape(shape)


def largest(noises, X=None):
    """The largest singular values of Xᵀ times each."""
    return [np.linalg.norm(G if X is None else X.T @ G, 2) for G in noises]


def test_lambda_is_about_twice_the_noise_with_features_and_above_it_without():
    for n, d, n_labels, n_observed, rate, scale in (
        (2000, 10, 40, 8000, 0.5, 3.0),
        (2000, 10, 40, 60_000, 0.5, 3.0),
        (3000, 40, 40, 10_000, 0.5, 3.0),
        # The noise of rare labels is smaller.
        (2000, 10, 40, 20_000, 0.05, 1.0),
    ):
        rng = np.random.default_rng(0)
        X = scale * rng.standard_normal((n, d))
        sizes = largest((noise(rng, (n, n_labels), n_observed, rate) for _ in range(5)), X)
        penalty = feature_trace_penalty(
            n_features=d,
            n_labels=n_labels,
            n_observed=n_observed,
            feature_scale=scale,
            noise_scale=math.sqrt(rate * (1 - rate)),
        )
        assert 0.8 * penalty < 2 * np.mean(sizes) < 1.05 * penalty, (n, d, n_observed, rate)
    for n, n_labels, n_observed in ((200, 150, 6000), (500, 60, 6000), (100, 100, 9000)):
        rng = np.random.default_rng(2)
        sizes = largest(noise(rng, (n, n_labels), n_observed) for _ in range(5))
        penalty = collaborative_trace_penalty(n=n, n_labels=n_labels, n_observed=n_observed)
        assert 0.2 * penalty < 2 * max(sizes) < penalty, (n, n_labels, n_observed)


@pytest.mark.parametrize("flip_rate", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("d", [None, 15])
def test_from_positives_alone(flip_rate, d):
    rng = np.random.default_rng(3)
    n, n_labels, eta = 400, 150, 0.2
    sizes = []
    for _ in range(4):
        recorded = rng.random((n, n_labels)) < eta * (1 - flip_rate)
        # The slope of the unbiased logistic loss: p at every cell, less 1/(1 − ρ) at a recorded yes.
        G = (eta - recorded / (1 - flip_rate)) / (n * n_labels)
        X = np.eye(n) if d is None else rng.standard_normal((n, d))
        sizes.append(np.linalg.norm(X.T @ G, 2))
    penalty = unlabelled_trace_penalty(
        n=n, n_labels=n_labels, flip_rate=flip_rate, positive_rate=eta, n_features=d
    )
    assert 0.85 * penalty < 2 * np.mean(sizes) < 1.1 * penalty


def labels_with_gaps(rng, n=300, n_labels=12):
    Y = (rng.random((n, n_labels)) < np.linspace(0.1, 0.6, n_labels)).astype(float)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    return Y


def test_drawn_noise_agrees_with_dense_computations_and_is_repeatable():
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((300, 7)) + 0.5, labels_with_gaps(rng)
    penalty = noise_trace_penalty(X, Y, multiple=1.0, quantile=0.5, n_draws=200, random_state=0)
    seen, rates, sizes = ~np.isnan(Y), np.nanmean(Y, axis=0), []
    for _ in range(200):
        drawn = rng.random(Y.shape) < rates
        # At the best intercept the gradient of a label sums to 0.
        fitted = (drawn & seen).sum(axis=0) / seen.sum(axis=0)
        sizes.append(np.linalg.norm(X.T @ (np.where(seen, fitted - drawn, 0) / seen.sum()), 2))
    assert penalty == pytest.approx(np.median(sizes), rel=0.04)
    # Without features or intercept.
    Y = labels_with_gaps(rng, 60, 40)
    penalty = noise_trace_penalty(None, Y, multiple=1.0, quantile=0.5, fit_intercept=False, random_state=1)
    n_observed = int((~np.isnan(Y)).sum())
    expected = 0.5 * np.sqrt(n_observed) * (1 / np.sqrt(60) + 1 / np.sqrt(40)) / n_observed
    assert penalty == pytest.approx(expected, rel=0.1)
    first, again, other = (noise_trace_penalty(None, Y, n_draws=5, random_state=seed) for seed in (0, 0, 1))
    assert first == again != other
    # A constant of your own.
    sizes = {"n_features": 5, "n_labels": 20, "n_observed": 400}
    assert feature_trace_penalty(**sizes, constant=3.0, noise_scale=1.0) == pytest.approx(0.3)
    assert feature_trace_penalty(**sizes) == pytest.approx(2 * 1.5 * 0.5 / 20)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_noise_alone_gives_no_model_at_that_penalty(form):
    rng = np.random.default_rng(5)
    X, Y = form(rng.standard_normal((300, 7))), labels_with_gaps(rng)
    penalty = noise_trace_penalty(X, Y, multiple=1.3, quantile=1.0, random_state=0)
    model = LowRankClassifier(trace_penalty=penalty, ridge_penalty=0.0, intercept_penalty=0.0, random_state=0)
    assert model.fit(X, Y).rank_ == 0
