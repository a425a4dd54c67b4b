"""The recovery bounds: formulas by hand, rates, assumptions, and the steps of the proof on real fits."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest

from labelgap import LowRankClassifier
from labelgap.exceptions import InvalidParameterError, LabelgapWarning
from labelgap.theory import (
    AssumptionWarning,
    collaborative_bound,
    curvature_range,
    feature_bound,
    feature_trace_penalty,
    parameter_bound,
    score_penalty_bound,
    unlabelled_bound,
)

SIZES = {"n": 2000, "n_features": 10, "n_labels": 40, "n_observed": 8000, "rank": 2, "score_bound": 1.5}
CELLS = {"n": 400, "n_labels": 300, "n_observed": 60_000, "rank": 3, "score_bound": 1.2}


def test_the_feature_bound_by_hand():
    bound = feature_bound(**SIZES, mu=2.0, nu=1.5, constant=3.0)
    log = math.log(2040)
    noise = (1 + math.cosh(1.5)) ** 2 + 1.5**2
    first = 3 * 4 / 10 * 1.5 * 40 * 2 * log / 8000 * noise
    second = 3 * 2 / 10 * 1.5**2 * math.sqrt(log / 8000)
    assert dict(bound.terms) == pytest.approx({"low_rank": first, "sampling": second})
    assert bound.value == max(bound.terms.values())
    assert bound.score_error == pytest.approx(bound.value * 10 / 2)
    assert bound.probability == pytest.approx(1 - 3 / 2040 - 2 / 50 - 2 * math.exp(-10))
    assert bound.trivial == pytest.approx(4 * 1.5**2)
    assert not bound.failed


def test_the_collaborative_bound_by_hand():
    bound = collaborative_bound(**CELLS, mu=1.5, nu=2.0, constant=0.5)
    log = math.log(700)
    noise = (1 + math.cosh(1.2)) ** 2 + 1.2**2
    assert bound.terms["low_rank"] == pytest.approx(0.5 * 2.25 * 2 * 400 * 3 * log / 60_000 * noise)
    assert bound.terms["sampling"] == pytest.approx(0.5 * 1.5 * 1.2**2 * math.sqrt(log / 60_000))
    assert bound.probability == pytest.approx(1 - 3 / 700)


def test_the_unlabelled_bound_by_hand():
    bound = unlabelled_bound(n=100, n_labels=400, flip_rate=0.75, trace_norm=50.0, constant=2.0)
    assert bound.terms["deviation"] == pytest.approx(6 * math.sqrt(math.log(500)) / (200 * 0.25))
    assert bound.terms["complexity"] == pytest.approx(2 * 2 * 50 * 30 / (0.25 * 40_000))
    assert bound.value == pytest.approx(sum(bound.terms.values()))


@pytest.mark.parametrize("family", ["bernoulli", "gaussian", "poisson"])
def test_every_family_has_the_same_rate(family):
    few = feature_bound(**SIZES, family=family)
    many = feature_bound(**{**SIZES, "n_observed": 16_000}, family=family)
    assert few.terms["low_rank"] / many.terms["low_rank"] == pytest.approx(2)
    assert few.terms["sampling"] / many.terms["sampling"] == pytest.approx(math.sqrt(2))
    curvature = curvature_range(family, 1.5)
    expected = curvature.upper / curvature.lower**2 + 1.5**2
    assert few.terms["low_rank"] == pytest.approx(40 * 2 * math.log(2040) / (10 * 8000) * expected)


def test_noise_scale_takes_the_place_of_the_largest_deviation():
    quiet = feature_bound(**SIZES, family="gaussian", noise_scale=0.1)
    loud = feature_bound(**SIZES, family="gaussian", noise_scale=1.0)
    assert loud == feature_bound(**SIZES, family="gaussian")
    assert quiet.value < loud.value


def test_rows_cost_the_score_penalty_but_hardly_the_other():
    more = {**SIZES, "n": 20_000}
    assert feature_bound(**more).value / feature_bound(**SIZES).value < 1.4
    assert score_penalty_bound(**more).value / score_penalty_bound(**SIZES).value > 10
    with_equal_rows = {**SIZES, "n": 40}
    ours, theirs = feature_bound(**with_equal_rows), score_penalty_bound(**with_equal_rows)
    assert ours.value == pytest.approx(theirs.value)


def test_the_low_rank_term_always_leads_without_features():
    # Because |Ω| ≤ nL, whatever γ is.
    for gamma in (0.01, 1.0, 3.0):
        for n, n_labels in ((30, 30), (1000, 50), (50, 1000)):
            bound = collaborative_bound(
                n=n, n_labels=n_labels, n_observed=n * n_labels, rank=1, score_bound=gamma
            )
            assert bound.terms["low_rank"] > bound.terms["sampling"]


def test_confidence_can_only_widen():
    plain = feature_bound(**SIZES)
    assert feature_bound(**SIZES, confidence=0.5).value == plain.value
    assert feature_bound(**SIZES, confidence=1 - 1e-6).value > plain.value
    strict = collaborative_bound(**CELLS, confidence=1 - 1e-6)
    assert strict.probability == pytest.approx(1 - 1e-6)
    assert strict.terms["low_rank"] / collaborative_bound(**CELLS).terms["low_rank"] == pytest.approx(
        math.log(3e6) / math.log(700)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 9}, r"n ≥ C' d: 9 is short of 10 by 1"),
        ({"n_labels": 8}, r"L ≥ d: 8 is short of 10 by 2"),
        ({"n_observed": 30}, r"\|Ω\| ≥ L \+ d: 30 is short of 50 by 20"),
    ],
)
def test_a_failing_assumption_is_named_with_its_size(change, message):
    with pytest.warns(AssumptionWarning, match=message) as caught:
        bound = feature_bound(**{**SIZES, **change})
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert issubclass(AssumptionWarning, LabelgapWarning)
    assert [assumption.holds for assumption in bound.failed] == [False]


def test_all_failures_come_in_one_warning():
    with pytest.warns(AssumptionWarning) as caught:
        bound = feature_bound(**{**SIZES, "n_labels": 8, "n_observed": 12}, rows_per_feature=500)
    assert len(caught) == 1
    assert len(bound.failed) == 3


def test_lafond_s_number_of_observations():
    with pytest.warns(AssumptionWarning, match=r"min\(n, L\)"):
        collaborative_bound(**{**CELLS, "n_observed": 1000})
    with pytest.warns(AssumptionWarning, match=r"min\(n, L\)"):
        score_penalty_bound(**SIZES, log_scale=100.0)
    with pytest.warns(AssumptionWarning, match="restrains nothing"):
        unlabelled_bound(n=10, n_labels=10, flip_rate=0.0, trace_norm=50.0)


def test_what_cannot_be_told_is_marked_so():
    bound = feature_bound(**SIZES)
    assert {assumption.holds for assumption in bound.assumptions} == {True, None}


@pytest.mark.parametrize(
    "change",
    [
        {"n": 0},
        {"rank": 11},
        {"rank": 1.5},
        {"score_bound": 0.0},
        {"mu": 0.9},
        {"nu": 0.5},
        {"constant": 0.0},
    ],
    ids=str,
)
def test_impossible_arguments_are_errors(change):
    with pytest.raises(InvalidParameterError, match=next(iter(change))):
        feature_bound(**{**SIZES, **change})


@pytest.mark.parametrize("change", [{"flip_rate": 1.0}, {"flip_rate": -0.1}, {"trace_norm": 0.0}], ids=str)
def test_impossible_unlabelled_arguments(change):
    arguments = {"n": 10, "n_labels": 10, "flip_rate": 0.5, "trace_norm": 5.0}
    with pytest.raises(InvalidParameterError, match=next(iter(change))):
        unlabelled_bound(**{**arguments, **change})


def test_bounds_are_frozen():
    bound = feature_bound(**SIZES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.value = 0.0


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


def test_the_two_feature_bounds_have_the_same_shape():
    # With λ = 2cτ/√|Ω| and κ = c/√|Ω| the master bound is the rate, but for the logarithm.
    def master(n_observed, n_labels, rank):
        sizes = {"n_features": 10, "n_labels": n_labels, "n_observed": n_observed}
        penalty = feature_trace_penalty(**sizes, constant=1.0)
        return parameter_bound(
            n=2000,
            rank=rank,
            score_bound=1.0,
            curvature_floor=0.1966,
            trace_penalty=penalty,
            gradient_norm=penalty / 2,
            sign_norm=1 / math.sqrt(n_observed),
            feature_floor=1.0,
            **sizes,
        ).value

    base = master(8000, 40, 2)
    assert base / master(16_000, 40, 2) == pytest.approx(2)
    assert master(8000, 80, 2) / base == pytest.approx(2)
    assert master(8000, 40, 4) / base == pytest.approx(2)


def test_the_master_bound_covers_fits_without_features():
    # X = I has d = n and σ_min²/n = 1/n: the order of Lafond's theorem comes out.
    n, n_labels, n_observed = 300, 200, 30_000
    bound = parameter_bound(
        n=n,
        n_features=n,
        n_labels=n_labels,
        n_observed=n_observed,
        rank=2,
        score_bound=1.0,
        curvature_floor=0.2,
        trace_penalty=0.01,
        gradient_norm=0.004,
        sign_norm=0.008,
        feature_floor=1 / n,
    )
    assert bound.terms["penalty"] == pytest.approx(4 * n * n_labels * 2 * 72 * (0.01 / 0.2) ** 2)
    assert bound.score_error == pytest.approx(bound.value)
