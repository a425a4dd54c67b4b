"""λ by theory: against the noise it is meant to exceed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap import LowRankClassifier
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError
from labelgap.theory import (
    collaborative_trace_penalty,
    feature_trace_penalty,
    noise_trace_penalty,
    unlabelled_trace_penalty,
)


def noise(rng, shape, n_observed, rate=0.5):
    """Gradient of the logistic loss at the truth: (rate − y)/|Ω| on |Ω| cells."""
    n, n_labels = shape
    G = np.zeros(n * n_labels)
    cells = rng.choice(n * n_labels, n_observed, replace=False)
    G[cells] = (rate - (rng.random(n_observed) < rate)) / n_observed
    return G.reshape(shape)


@pytest.mark.parametrize(
    ("n", "d", "n_labels", "n_observed"),
    [(2000, 10, 40, 8000), (2000, 10, 40, 60_000), (3000, 40, 40, 10_000)],
)
def test_with_features_lambda_is_twice_the_noise(n, d, n_labels, n_observed):
    rng = np.random.default_rng(0)
    X = 3.0 * rng.standard_normal((n, d))
    sizes = [np.linalg.norm(X.T @ noise(rng, (n, n_labels), n_observed), 2) for _ in range(5)]
    penalty = feature_trace_penalty(n_features=d, n_labels=n_labels, n_observed=n_observed, feature_scale=3.0)
    assert 0.8 * penalty < 2 * np.mean(sizes) < 1.05 * penalty


def test_the_noise_of_rare_labels_is_smaller():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 10))
    sizes = [np.linalg.norm(X.T @ noise(rng, (2000, 40), 20_000, rate=0.05), 2) for _ in range(5)]
    scale = np.sqrt(0.05 * 0.95)
    penalty = feature_trace_penalty(n_features=10, n_labels=40, n_observed=20_000, noise_scale=scale)
    assert 0.8 * penalty < 2 * np.mean(sizes) < 1.05 * penalty


@pytest.mark.parametrize(
    ("n", "n_labels", "n_observed"), [(200, 150, 6000), (500, 60, 6000), (100, 100, 9000)]
)
def test_without_features_lambda_exceeds_twice_the_noise(n, n_labels, n_observed):
    rng = np.random.default_rng(2)
    sizes = [np.linalg.norm(noise(rng, (n, n_labels), n_observed), 2) for _ in range(5)]
    penalty = collaborative_trace_penalty(n=n, n_labels=n_labels, n_observed=n_observed)
    assert 0.2 * penalty < 2 * max(sizes) < penalty


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


def test_a_constant_of_your_own():
    sizes = {"n_features": 5, "n_labels": 20, "n_observed": 400}
    assert feature_trace_penalty(**sizes, constant=3.0, noise_scale=1.0) == pytest.approx(0.3)
    assert feature_trace_penalty(**sizes) == pytest.approx(2 * 1.5 * 0.5 / 20)


def labels_with_gaps(rng, n=300, n_labels=12):
    Y = (rng.random((n, n_labels)) < np.linspace(0.1, 0.6, n_labels)).astype(float)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    return Y


def test_drawn_noise_agrees_with_a_dense_computation():
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((300, 7)) + 0.5, labels_with_gaps(rng)
    penalty = noise_trace_penalty(X, Y, multiple=1.0, quantile=0.5, n_draws=200, random_state=0)
    seen = ~np.isnan(Y)
    rates = np.nanmean(Y, axis=0)
    sizes = []
    for _ in range(200):
        drawn = rng.random(Y.shape) < rates
        # At the best intercept the gradient of a label sums to 0.
        fitted = (drawn & seen).sum(axis=0) / seen.sum(axis=0)
        sizes.append(np.linalg.norm(X.T @ (np.where(seen, fitted - drawn, 0) / seen.sum()), 2))
    assert penalty == pytest.approx(np.median(sizes), rel=0.04)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_noise_alone_gives_no_model_at_that_penalty(form):
    rng = np.random.default_rng(5)
    X, Y = form(rng.standard_normal((300, 7))), labels_with_gaps(rng)
    penalty = noise_trace_penalty(X, Y, multiple=1.3, quantile=1.0, random_state=0)
    model = LowRankClassifier(trace_penalty=penalty, ridge_penalty=0.0, intercept_penalty=0.0, random_state=0)
    assert model.fit(X, Y).rank_ == 0


def test_without_features_or_intercept():
    rng = np.random.default_rng(6)
    Y = labels_with_gaps(rng, 60, 40)
    penalty = noise_trace_penalty(None, Y, multiple=1.0, quantile=0.5, fit_intercept=False, random_state=1)
    n_observed = int((~np.isnan(Y)).sum())
    expected = 0.5 * np.sqrt(n_observed) * (1 / np.sqrt(60) + 1 / np.sqrt(40)) / n_observed
    assert penalty == pytest.approx(expected, rel=0.1)


def test_the_draws_are_repeatable():
    rng = np.random.default_rng(7)
    X, Y = rng.standard_normal((100, 5)), labels_with_gaps(rng, 100)
    first, again, other = (noise_trace_penalty(X, Y, n_draws=5, random_state=seed) for seed in (0, 0, 1))
    assert first == again != other


def test_bad_arguments_are_named():
    Y = [[1, 0], [0, 1]]
    with pytest.raises(InvalidParameterError, match="quantile"):
        noise_trace_penalty(None, Y, quantile=1.5)
    with pytest.raises(InvalidParameterError, match="n_draws"):
        noise_trace_penalty(None, Y, n_draws=0)
    with pytest.raises(InvalidLabelsError):
        noise_trace_penalty(None, [[np.nan, np.nan]])
    with pytest.raises(InvalidParameterError, match="noise_scale"):
        feature_trace_penalty(n_features=1, n_labels=1, n_observed=1, noise_scale=0.0)
    with pytest.raises(InvalidParameterError, match="flip_rate"):
        unlabelled_trace_penalty(n=2, n_labels=2, flip_rate=1.0, positive_rate=0.5)
