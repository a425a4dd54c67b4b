"""Silence as a no of less weight: the closed form against all entries written out, and steps row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from labelgap.kernels import entry_pattern
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective import silence as silence_terms
from labelgap.objective.cpu import entries, rowwise_silence
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties, solve_auto, solve_factored
from labelgap.solvers.certificate import certify

N, L = 17, 9
F = sp.csr_array(np.random.default_rng(1).standard_normal((L, 2)))
KINDS = {
    "plain": FeatureSettings(own_rows=True),
    "by counts": FeatureSettings(own_rows=True, count_weighting=0.75),
    "label features": FeatureSettings(own_rows=True, label_features=F, count_weighting=0.5),
}


@pytest.fixture(autouse=True, params=["few entries", "many entries"])
def _as_with(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes beside the scores, as for few entries, and in their place."""
    if request.param == "many entries":
        monkeypatch.setattr(entries, "_MANY", 0)
        monkeypatch.setattr(entry_pattern, "_BLOCK", 7)
        monkeypatch.setattr(silence_terms, "_BLOCK", 5)
        monkeypatch.setattr(rowwise_silence, "_TOGETHER", 40)
        monkeypatch.setattr(rowwise_silence, "_BLOCK", 6)


def ratings(*, weighted: bool = True) -> ObservedLabels:
    rng = np.random.default_rng(0)
    seen = rng.random((N, L)) < 0.4
    seen[:, -1] = False
    Y = np.where(seen, (rng.random((N, L)) < 0.6).astype(float), np.nan)
    labels = ObservedLabels.from_dense(Y)
    return labels.with_weights(rng.uniform(0.5, 3.0, labels.n_observed)) if weighted else labels


def complete(labels: ObservedLabels, silence: float) -> ObservedLabels:
    """Every entry written out."""
    rows, columns = np.divmod(np.arange(N * L), L)
    Y, weights = np.zeros((N, L)), np.full((N, L), silence)
    Y[labels.rows, labels.indices] = labels.values
    weights[labels.rows, labels.indices] = 1.0 if labels.weights is None else labels.weights
    written = ObservedLabels.from_triplets(rows, columns, Y.ravel(), shape=(N, L))
    return written.with_weights(weights.ravel())


def objectives(
    kind: str, silence: float, *, weighted: bool = True, intercept: bool = True
) -> tuple[Any, Any, float]:
    """The closed form, the mean over all entries, and how many times as large the first one is."""
    loss, features, labels = get_loss("squared"), KINDS[kind], ratings(weighted=weighted)
    settings = ProblemSettings(loss, features, fit_intercept=intercept, silence_weight=silence)
    short = Problem([RowBlock(None, labels)], settings)
    # The counts that scale the factors are those of the ratings.
    long = Problem([RowBlock(None, labels)], ProblemSettings(loss, features, fit_intercept=intercept))
    written = complete(labels, silence)
    # The mean is over the weights of the ratings alone.
    observed = labels.n_observed if labels.weights is None else labels.weights.sum()
    assert written.weights is not None
    factor = written.weights.sum() / observed
    return short.objective(labels), long.objective(written, free_intercept=False), float(factor)


def random_factors(objective: Any, rank: int = 3) -> Factors:
    rng = np.random.default_rng(5)
    d, r = objective.shape
    return Factors(
        rng.standard_normal((d, rank)),
        rng.standard_normal((r, rank)),
        rng.standard_normal(objective.n_labels),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("silence", [0.03, 0.5, 1.0])
@pytest.mark.parametrize(("intercept", "weighted"), [(True, True), (False, True), (True, False)])
def test_the_closed_form_is_the_sum_over_all_entries(
    kind: str, silence: float, intercept: bool, weighted: bool
) -> None:
    short, long, factor = objectives(kind, silence, weighted=weighted, intercept=intercept)
    at, direction = random_factors(short), random_factors(short)
    mine, theirs = short.at(at), long.at(at)
    assert_allclose(mine.value, factor * theirs.value, rtol=1e-12)
    assert_allclose(mine.size, factor * theirs.value, rtol=1e-12)
    pairs = [
        (mine.gradient(), theirs.gradient()),
        (mine.hessian_product(direction), theirs.hessian_product(direction)),
        (mine.hessian_diagonal(), theirs.hessian_diagonal()),
    ]
    for one, other in pairs:
        for a, b in zip(one, other, strict=True):
            assert_allclose(a, factor * b, rtol=1e-9, atol=1e-12)
    V, U = direction.right, direction.left
    assert_allclose(mine.curvature_along(U, V), factor * theirs.curvature_along(U, V), rtol=1e-10)
    assert_allclose(mine.label_curvature(), factor * theirs.label_curvature(), rtol=1e-10, atol=1e-15)
    G, H = mine.score_gradient(), theirs.score_gradient()
    assert_allclose(G.left_product(V), factor * H.left_product(V), rtol=1e-9, atol=1e-12)
    assert_allclose(G.matrix(), factor * H.matrix(), rtol=1e-9, atol=1e-12)
    for scale in (0.0, 0.3, 1.0):
        assert_allclose(G.conjugate(scale), factor * H.conjugate(scale), rtol=1e-9, atol=1e-12)


def test_products_of_the_gradient_have_the_precision_of_what_they_multiply() -> None:
    short, _, _ = objectives("plain", 0.1)
    at = random_factors(short)
    G = short.at(at).score_gradient()
    for multiply, M in ((G.left_product, at.right), (G.right_product, at.left)):
        single = multiply(M.astype(np.float32))
        assert single.dtype == np.float32
        assert_allclose(single, multiply(M), rtol=1e-4, atol=1e-5 * np.abs(multiply(M)).max())


def test_a_balanced_gradient_sums_to_zero_in_every_label() -> None:
    short, _, _ = objectives("plain", 0.1)
    G = short.at(random_factors(short)).score_gradient(balanced=True)
    # X = I: the rows of the matrix are the rows of G.
    assert_allclose(G.matrix().sum(axis=0), 0.0, atol=1e-12)


def penalised(objective: Any, factors: Factors, penalties: Penalties) -> float:
    value = objective.at(factors).value
    squares = float(np.sum(factors.left**2) + np.sum(factors.right**2))
    product = factors.left @ factors.right.T
    held = 0.5 * penalties.intercept * float(np.sum((factors.intercept - penalties.centre) ** 2))
    return value + 0.5 * penalties.trace * squares + 0.5 * penalties.ridge * float(np.sum(product**2)) + held


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "penalties", [Penalties(0.02), Penalties(0.02, 0.01, 0.1, -0.5), Penalties(0.001, 0.05)]
)
@pytest.mark.parametrize("intercept", [True, False])
def test_row_steps_lower_the_objective_by_what_they_say(
    kind: str, penalties: Penalties, intercept: bool
) -> None:
    short, _, _ = objectives(kind, 0.1, intercept=intercept)
    steps = short.rowwise(np.float64)
    assert steps is not None
    at = steps.start(random_factors(short))
    for step in (steps.step_labels, steps.step_rows):
        before = penalised(short, at.factors(), penalties)
        gained = step(at, penalties)
        after = penalised(short, at.factors(), penalties)
        assert gained > 0
        if kind == "label features":
            # Moving the prior along with the rows can gain more.
            assert before - after >= gained * (1 - 1e-8)
        else:
            assert before - after == pytest.approx(gained, rel=1e-8)


def test_sweeps_end_where_newton_does_with_a_certificate() -> None:
    for kind in KINDS:
        short, long, factor = objectives(kind, 0.05)
        penalties = Penalties(0.01)
        swept = solve_auto(short, penalties, tol=1e-3)
        exact = solve_factored(long, Penalties(0.01 / factor), tol=1e-9)
        optimum = factor * exact.objective
        assert swept.converged
        assert optimum <= swept.objective * (1 + 1e-9)
        assert swept.objective <= optimum * (1 + 1.1e-3)
        gap = certify(short, short.at(exact.factors), penalties)
        assert gap.relative_gap < 1e-6
