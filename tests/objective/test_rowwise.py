"""Steps row by row on whole problems: users and items, features beside them, units by their counts."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap import Recommender
from labelgap.kernels.newton_rows import MOST_RELAXATION
from labelgap.kernels.threads import limit_threads
from labelgap.labels import ObservedLabels
from labelgap.objective.cpu.features import ScaledIdentityFeatures, SparseFeatures
from labelgap.objective.cpu.rowwise_gram import diagonalise_jointly
from labelgap.objective.protocol import Factors
from labelgap.solvers.certificate import Penalties
from oracles_objective import flat
from solver_problems import make_problem

pytestmark = pytest.mark.pairwise

N, N_ITEMS, K = 40, 25, 3
KINDS = ("identity", "intercepts", "features", "scaled")
# Nothing is asked of the intercepts of one-class labels.
PENALTIES = Penalties(0.004, 0.002, 0.003, 0.1)


def features_of(kind):
    """Features of the rows (None without any), and how features are used."""
    rng = np.random.default_rng(7)
    intercepts = sp.csr_array(np.full((N_ITEMS, 1), 0.5))
    if kind == "identity":
        return None, {}
    if kind == "intercepts":
        return None, {"label_features": intercepts}
    if kind == "features":
        X, F = (sp.csr_array(rng.standard_normal((n, 2)) / 5) for n in (N, N_ITEMS))
        return X, {"own_rows": True, "label_features": F}
    return None, {"count_weighting": 1.0, "label_features": intercepts}


def make_labels(seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    Y = (rng.random((N, N_ITEMS)) < 0.4).astype(float)
    Y[rng.random(Y.shape) > 0.5] = np.nan
    labels = ObservedLabels.from_dense(Y)
    if not weighted:
        return labels
    weights = rng.uniform(0.5, 2.0, labels.n_observed)
    return ObservedLabels(labels.indptr, labels.indices, labels.values, labels.shape, weights=weights)


def make_objective(kind="identity", loss="logistic", fit_intercept=True, weighted=False):
    labels = make_labels(weighted=weighted)
    X, features = features_of(kind)
    problem = make_problem(X, labels, loss, features=features, fit_intercept=fit_intercept)
    return problem.objective(labels, free_intercept=False)


def start_of(objective, seed=1):
    rng = np.random.default_rng(seed)
    d, r = objective.shape
    start = objective.starting_intercept()
    return Factors(rng.standard_normal((d, K)) / 2, rng.standard_normal((r, K)) / 2, start)


def penalised(objective, factors, penalties=PENALTIES):
    """The penalised objective in the factors."""
    A, B, b = factors
    squares = np.sum(A * A) + np.sum(B * B)
    ridge = np.sum((A @ B.T) ** 2)
    held = np.sum((b - penalties.centre) ** 2)
    penalty = penalties.trace * squares + penalties.ridge * ridge + penalties.intercept * held
    return objective.at(factors).value + 0.5 * penalty


def slopes(objective, factors, penalties=PENALTIES):
    """The gradient of that."""
    A, B, b = factors
    dA, dB, db = objective.at(factors).gradient()
    return Factors(
        dA + penalties.trace * A + penalties.ridge * A @ (B.T @ B),
        dB + penalties.trace * B + penalties.ridge * B @ (A.T @ A),
        db + penalties.intercept * (b - penalties.centre),
    )


def dense_scores(objective, factors):
    design = objective.design
    return design.left(factors.left) @ design.right(factors.right).T + factors.intercept


@pytest.mark.parametrize("kind", KINDS)
def test_working_factors_are_the_same_model(kind):
    objective = make_objective(kind)
    factors = start_of(objective)
    steps = objective.rowwise(np.float64)
    at = steps.start(factors)
    for part, expected in zip(at.factors(), factors, strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-12)
    at.balance()
    moved = at.factors()
    np.testing.assert_allclose(dense_scores(objective, moved), dense_scores(objective, factors), atol=1e-10)
    values = np.linalg.svd(factors.left @ factors.right.T, compute_uv=False)
    square = np.sum(moved.left**2) + np.sum(moved.right**2)
    np.testing.assert_allclose(0.5 * square, values.sum(), rtol=1e-10)


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge", "exponential"])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_go_down_to_a_stationary_point(kind, loss):
    objective = make_objective(kind, loss, weighted=loss == "logistic")
    steps = objective.rowwise(np.float64)
    at = steps.start(start_of(objective))
    last = penalised(objective, at.factors())
    for sweep in range(400):
        for step in (steps.step_labels, steps.step_rows):
            step(at, PENALTIES)
            # Later steps change little, and to look takes longer than to step.
            if sweep < 20 or sweep == 399:
                value = penalised(objective, at.factors())
                assert value <= last + 1e-12
                last = value
        at.balance()
    assert np.abs(flat(slopes(objective, at.factors()))).max() < 2e-5


def test_one_step_of_the_squared_loss_is_its_minimum():
    objective = make_objective("identity", "squared")
    steps = objective.rowwise(np.float64)
    at = steps.start(start_of(objective))
    before = penalised(objective, at.factors())
    gained = steps.step_labels(at, PENALTIES)
    assert before - penalised(objective, at.factors()) == pytest.approx(gained, rel=1e-9)
    slope = slopes(objective, at.factors())
    assert np.abs(slope.right).max() < 1e-12
    assert np.abs(slope.intercept).max() < 1e-12


def test_without_an_intercept_it_is_left_alone():
    objective = make_objective(fit_intercept=False)
    steps = objective.rowwise(np.float64)
    at = steps.start(start_of(objective))
    steps.step_labels(at, PENALTIES)
    assert not at.factors().intercept.any()


def test_single_precision_comes_close():
    objective = make_objective("intercepts")
    reached = []
    for dtype in (np.float32, np.float64):
        steps = objective.rowwise(dtype)
        at = steps.start(start_of(objective))
        for _ in range(20):
            steps.step_labels(at, PENALTIES)
            steps.step_rows(at, PENALTIES)
            at.balance()
        reached.append(penalised(objective, at.factors()))
    np.testing.assert_allclose(*reached, rtol=1e-5)


def test_the_threads_do_not_matter():
    objective = make_objective("intercepts")
    found = []
    for threads in (1, 3):
        with limit_threads(threads):
            steps = objective.rowwise(np.float32)
            at = steps.start(start_of(objective))
            for _ in range(3):
                steps.step_labels(at, PENALTIES)
                steps.step_rows(at, PENALTIES)
            found.append(at.factors())
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def unlabelled(kind, fit_intercept=True, free=False):
    rng = np.random.default_rng(3)
    Y = (rng.random((N, N_ITEMS)) < 0.3).astype(float)
    Y[:, 4] = 0
    labels = ObservedLabels.from_dense(np.where(Y == 1, 1.0, np.nan))
    rates = rng.uniform(0.1, 0.4, N_ITEMS)
    X, features = features_of(kind)
    problem = make_problem(
        X, labels, "squared", features=features, fit_intercept=fit_intercept, flip_rate=rates
    )
    return problem.objective(labels, free_intercept=free)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_recorded_positives_are_solved_exactly(kind, fit_intercept):
    objective = unlabelled(kind, fit_intercept)
    penalties = PENALTIES if fit_intercept else Penalties(0.004, 0.002)
    assert objective.rowwise(np.float64) is not None
    steps = objective.rowwise(np.float64)
    at = steps.start(start_of(objective))
    value = penalised(objective, at.factors(), penalties)
    gained = steps.step_labels(at, penalties)
    by_label = penalised(objective, at.factors(), penalties)
    # What new priors gain comes on top.
    assert value - by_label >= gained * (1 - 1e-9) > 0
    if kind == "identity":
        slope = slopes(objective, at.factors(), penalties)
        assert np.abs(slope.right).max() < 1e-12
        assert np.abs(slope.intercept).max() < 1e-12
    gained = steps.step_rows(at, penalties)
    by_row = penalised(objective, at.factors(), penalties)
    assert by_label - by_row >= gained * (1 - 1e-9) > 0
    if kind in ("identity", "intercepts"):
        assert np.abs(slopes(objective, at.factors(), penalties).left).max() < 1e-12
    for _ in range(300):
        steps.step_labels(at, penalties)
        steps.step_rows(at, penalties)
        at.balance()
    assert np.abs(flat(slopes(objective, at.factors(), penalties))).max() < 1e-6


def test_a_label_without_recorded_positives_keeps_its_intercept():
    objective = unlabelled("identity", free=True)
    steps = objective.rowwise(np.float64)
    start = start_of(objective)
    at = steps.start(start)
    steps.step_labels(at, PENALTIES)
    assert at.factors().intercept[4] == start.intercept[4]


def test_what_has_no_rows_of_its_own_says_so():
    labels = make_labels()
    shared = make_problem(sp.csr_array(np.ones((N, 2))), labels)
    assert shared.objective(labels).rowwise(float) is None


def test_scales_are_a_diagonal_matrix():
    scales = np.random.default_rng(0).uniform(0.5, 2, 6)
    ours, theirs = ScaledIdentityFeatures(scales), SparseFeatures(np.diag(scales))
    M = np.random.default_rng(1).standard_normal((6, 3))
    for name in ("product", "transposed_product", "squared_transposed_product"):
        np.testing.assert_allclose(getattr(ours, name)(M), getattr(theirs, name)(M))
    assert ours.square_length() == pytest.approx(theirs.square_length())


@pytest.mark.parametrize("loss", ["logistic", "squared", "exponential"])
def test_relaxed_steps_still_go_down_and_get_there_sooner(loss):
    objective = make_objective("intercepts", loss)
    steps = objective.rowwise(np.float64)
    reached = []
    for relaxation in (1.0, MOST_RELAXATION):
        at = steps.start(start_of(objective))
        last = np.inf
        for _ in range(15):
            for step in (steps.step_labels, steps.step_rows):
                step(at, PENALTIES, relaxation)
                value = penalised(objective, at.factors())
                assert value <= last + 1e-12
                last = value
            at.balance()
        reached.append(last)
    assert reached[1] < reached[0]


def test_no_step_is_relaxed_further_than_is_safe():
    objective = make_objective()
    found = []
    for relaxation in (MOST_RELAXATION, 5.0):
        steps = objective.rowwise(np.float64)
        at = steps.start(start_of(objective))
        steps.step_labels(at, PENALTIES, relaxation)
        found.append(at.factors().right)
    np.testing.assert_array_equal(*found)


# -- factors of many columns ---------------------------------------------------------------------------------


@pytest.fixture
def conjugate(monkeypatch):
    """Conjugate gradients, whatever the number of columns."""
    monkeypatch.setattr("labelgap.objective.cpu.rowwise.MANY_COLUMNS", 1)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("kind", ["features", "scaled"])
def test_inexact_steps_go_down_to_the_same_place(kind, loss, monkeypatch):
    objective = make_objective(kind, loss, weighted=loss == "logistic")
    reached = []
    for columns in (1, 1000):
        monkeypatch.setattr("labelgap.objective.cpu.rowwise.MANY_COLUMNS", columns)
        steps = objective.rowwise(np.float64)
        at = steps.start(start_of(objective))
        last = penalised(objective, at.factors())
        for _ in range(200):
            for step in (steps.step_labels, steps.step_rows):
                step(at, PENALTIES)
                value = penalised(objective, at.factors())
                assert value <= last + 1e-12
                last = value
            at.balance()
        reached.append(last)
    np.testing.assert_allclose(*reached, rtol=1e-5)


def test_an_inexact_step_says_what_it_gains(conjugate):
    objective = make_objective("identity", "squared")
    steps = objective.rowwise(np.float64)
    at = steps.start(start_of(objective))
    before, slope = penalised(objective, at.factors()), slopes(objective, at.factors())
    gained = steps.step_labels(at, PENALTIES)
    assert before - penalised(objective, at.factors()) == pytest.approx(gained, rel=1e-9)
    after = slopes(objective, at.factors())
    assert np.linalg.norm(after.right) < 0.2 * np.linalg.norm(slope.right)


def test_the_threads_do_not_matter_to_inexact_steps(conjugate):
    test_the_threads_do_not_matter()


def psd(rng, basis):
    """A matrix on the span of the basis, some of its eigenvalues 0 and the others from 0.1 to 10."""
    rotation = np.linalg.qr(rng.normal(size=(basis.shape[1],) * 2))[0]
    values = rng.choice([0.0, 0.1, 1.0, 10.0], size=basis.shape[1])
    half = basis @ rotation * np.sqrt(values)
    return half @ half.T


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 8), span=st.integers(1, 8))
def test_systems_of_two_matrices_are_solved_even_if_they_are_singular(seed, k, span):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(k, k)))[0][:, :span]
    penalty, gram = psd(rng, basis), psd(rng, basis)
    of_penalty, of_gram, V = diagonalise_jointly(penalty, gram, np.finfo(np.float64).eps)
    assert (of_penalty >= 0).all()
    assert (of_gram >= 0).all()
    for m in (0.1, 1.0, 7.0):
        found = (V / (m * of_penalty + of_gram)) @ V.T
        np.testing.assert_allclose(found, np.linalg.pinv(m * penalty + gram, rcond=1e-10), atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_rank_above_the_number_of_rows_without_a_trace_norm(seed):
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, 4, size=(5, 2)), axis=0)
    model = Recommender(
        solver="alternating",
        rank=40,
        trace_penalty=0.0,
        ridge_penalty=0.01,
        loss="squared",
        unobserved="unlabelled",
        flip_rate=0.0,
        random_state=0,
    ).fit((pairs[:, 0], pairs[:, 1]))
    assert np.isfinite(model.user_factors_ @ model.item_factors_.T).all()
    assert 0 <= model.objective_ - model.duality_gap_ <= model.objective_
