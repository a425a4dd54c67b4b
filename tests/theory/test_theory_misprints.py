"""What docs/theory.md says of printed formulas: the corrected ones hold, the printed ones do not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labelgap.theory import curvature_range


def split(W, reference):
    """The parts of W in and out of the tangent space at a low-rank reference."""
    U, values, Vt = np.linalg.svd(reference, full_matrices=False)
    rank = int((values > 1e-10).sum())
    left, right = U[:, :rank] @ U[:, :rank].T, Vt[:rank].T @ Vt[:rank]
    outside = (np.eye(len(left)) - left) @ W @ (np.eye(len(right)) - right)
    return W - outside, outside


def trace_norm(W):
    return float(np.linalg.norm(W, "nuc"))


def test_the_cone_lemma_has_a_minus():
    rng = np.random.default_rng(0)
    printed_fails = 0
    for _ in range(20):
        truth = rng.standard_normal((5, 1)) @ rng.standard_normal((1, 7))
        delta = rng.standard_normal((5, 7))
        inside, outside = split(delta, truth)
        whole = trace_norm(truth + delta)
        assert whole >= trace_norm(truth) + trace_norm(outside) - trace_norm(inside) - 1e-9
        printed_fails += whole < trace_norm(truth) + trace_norm(outside) + trace_norm(inside) - 1e-9
    assert printed_fails > 0


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_the_printed_lower_curvature_exceeds_every_curvature(gamma):
    printed = (1 + math.exp(gamma)) ** 2 / math.exp(-gamma)
    found = curvature_range("bernoulli", gamma)
    assert printed > found.upper > found.lower
    assert found.lower == pytest.approx(math.exp(gamma) / (1 + math.exp(gamma)) ** 2)
    # The theorem's factor: e^−γ where e^γ is printed.
    assert found.conditioning <= (1 + math.exp(gamma)) ** 2 * math.exp(-gamma)


def test_labels_of_0_and_1_in_the_printed_losses_leave_no_negatives():
    # log(1 + e^(−yt)) at y = 0 is log 2 for every score.
    assert set(np.log1p(np.exp(-0 * np.array([-3.0, 0.0, 3.0])))) == {math.log(2)}


def test_products_and_squares():
    # ab ≤ (a² + b²)/4 is false at a = b; a²/4 + b² is what the proof needs.
    assert 1 * 1 > (1 + 1) / 4
    a, b = np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-3, 3, 61))
    assert (a * b <= a**2 / 4 + b**2 + 1e-12).all()


def test_the_gradient_lemma_s_second_term_needs_more_observations_than_stated():
    d, n_labels = 10, 100
    stated, enough = d + n_labels, (d + n_labels) ** 2
    assert (d + n_labels) / stated > 3 / math.sqrt(stated)
    assert (d + n_labels) / enough <= 1 / math.sqrt(enough)


def test_half_the_covariance_takes_four_times_the_rows():
    # C √(dn) ≤ ½ σ n asks for n ≥ 4 (C/σ)² d.
    C, sigma, d = 3.0, 0.7, 8
    printed, needed = (C / sigma) ** 2 * d, 4 * (C / sigma) ** 2 * d
    assert C * math.sqrt(d * printed) > 0.99 * sigma * printed > 0.5 * sigma * printed
    assert C * math.sqrt(d * needed) <= 0.5 * sigma * needed * (1 + 1e-12)


def test_signs_meet_the_features():
    # sup ⟨Σ_R, XΔ⟩ over ‖Δ‖_* ≤ 1 is ‖XᵀΣ_R‖₂, not ‖Σ_R‖₂.
    rng = np.random.default_rng(1)
    X, E = 2 * rng.standard_normal((50, 4)), rng.choice([-1.0, 1.0], (50, 6))
    U, values, Vt = np.linalg.svd(X.T @ E)
    delta = np.outer(U[:, 0], Vt[0])
    reached = float(np.sum(E * (X @ delta)))
    assert trace_norm(delta) == pytest.approx(1)
    assert reached == pytest.approx(values[0])
    assert reached > 1.5 * np.linalg.norm(E, 2)
