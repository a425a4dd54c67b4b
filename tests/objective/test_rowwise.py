"""Steps row by row on whole problems: users and items, features beside them, units by their answers."""

import numpy as np
import pytest
from labelgap.objective.cpu.observed import observed_objective
from labelgap.objective.cpu.scaled_identity import ScaledIdentityFeatures, scales_by_count

from labelgap.kernels.threads import limit_threads
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.features import IdentityFeatures, SparseFeatures, StackedFeatures
from labelgap.objective.cpu.unlabelled import unlabelled_objective
from labelgap.objective.protocol import Factors
from labelgap.solvers.factored_state import FactoredState, unflatten
from labelgap.solvers.penalties import Penalties

N, N_ITEMS, K = 40, 25, 3
KINDS = ("identity", "intercepts", "features", "scaled")
# Nothing is asked of the intercepts of labels whose entries say nothing.
PENALTIES = Penalties(0.004, 0.002, 0.003, 0.1)


def sides(kind):
    rng = np.random.default_rng(7)
    if kind == "identity":
        return IdentityFeatures(N), IdentityFeatures(N_ITEMS)
    if kind == "intercepts":
        return IdentityFeatures(N), StackedFeatures(
            [IdentityFeatures(N_ITEMS), SparseFeatures(np.full((N_ITEMS, 1), 0.5))]
        )
    if kind == "features":
        parts = [
            StackedFeatures([IdentityFeatures(n), SparseFeatures(rng.standard_normal((n, 2)) / 5)])
            for n in (N, N_ITEMS)
        ]
        return parts[0], parts[1]
    own = [ScaledIdentityFeatures(rng.uniform(0.5, 2.0, n)) for n in (N, N_ITEMS)]
    return own[0], StackedFeatures([own[1], SparseFeatures(np.full((N_ITEMS, 1), 0.5))])


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
    design = Design(*sides(kind))
    labels = make_labels(weighted=weighted)
    return observed_objective(
        design, labels, get_loss(loss), fit_intercept=fit_intercept, free_intercept=False
    )


def start_of(objective, seed=1):
    rng = np.random.default_rng(seed)
    d, r = objective.shape
    start = objective.starting_intercept()
    return Factors(rng.standard_normal((d, K)) / 2, rng.standard_normal((r, K)) / 2, start)


def penalised(objective, factors, penalties=PENALTIES):
    return FactoredState(objective, penalties, objective.at(factors))


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
    last = penalised(objective, at.factors()).value
    for _ in range(400):
        for step in (steps.step_labels, steps.step_rows):
            step(at, PENALTIES)
            value = penalised(objective, at.factors()).value
            assert value <= last + 1e-12
            last = value
        at.balance()
    state = penalised(objective, at.factors())
    assert np.abs(state.gradient()).max() < 2e-5


def test_one_turn_of_the_squared_loss_is_its_minimum():
    objective = make_objective("identity", "squared")
    steps = objective.rowwise(np.float64)
    at = steps.start(start_of(objective))
    before = penalised(objective, at.factors()).value
    gained = steps.step_labels(at, PENALTIES)
    state = penalised(objective, at.factors())
    assert before - state.value == pytest.approx(gained, rel=1e-9)
    slope = unflatten(state.gradient(), at.factors())
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
        reached.append(penalised(objective, at.factors()).value)
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
    return unlabelled_objective(
        Design(*sides(kind)),
        labels,
        get_loss("squared"),
        rates,
        held_out=None,
        fit_intercept=fit_intercept,
        free_intercept=free,
        score_bound=None,
        block_cells=1 << 16,
    )


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_recorded_positives_are_solved_exactly(kind, fit_intercept):
    objective = unlabelled(kind, fit_intercept)
    penalties = PENALTIES if fit_intercept else Penalties(0.004, 0.002)
    assert objective.rowwise(np.float64) is not None
    steps = objective.rowwise(np.float64)
    at = steps.start(start_of(objective))
    value = penalised(objective, at.factors(), penalties).value
    gained = steps.step_labels(at, penalties)
    by_label = penalised(objective, at.factors(), penalties)
    # What new priors gain comes on top.
    assert value - by_label.value >= gained * (1 - 1e-9) > 0
    if kind == "identity":
        slope = unflatten(by_label.gradient(), at.factors())
        assert np.abs(slope.right).max() < 1e-12
        assert np.abs(slope.intercept).max() < 1e-12
    gained = steps.step_rows(at, penalties)
    by_row = penalised(objective, at.factors(), penalties)
    assert by_label.value - by_row.value >= gained * (1 - 1e-9) > 0
    if kind in ("identity", "intercepts"):
        assert np.abs(unflatten(by_row.gradient(), at.factors()).left).max() < 1e-12
    for _ in range(300):
        steps.step_labels(at, penalties)
        steps.step_rows(at, penalties)
        at.balance()
    assert np.abs(penalised(objective, at.factors(), penalties).gradient()).max() < 1e-6


def test_a_label_without_recorded_positives_keeps_its_intercept():
    objective = unlabelled("identity", free=True)
    steps = objective.rowwise(np.float64)
    start = start_of(objective)
    at = steps.start(start)
    steps.step_labels(at, PENALTIES)
    assert at.factors().intercept[4] == start.intercept[4]


def test_what_has_no_rows_of_its_own_says_so():
    labels = make_labels()
    shared = Design.of(SparseFeatures(np.ones((N, 2))), N_ITEMS)
    assert observed_objective(shared, labels, get_loss("logistic"), fit_intercept=True).rowwise(float) is None


def test_scales_are_a_diagonal_matrix():
    scales = np.random.default_rng(0).uniform(0.5, 2, 6)
    ours, theirs = ScaledIdentityFeatures(scales), SparseFeatures(np.diag(scales))
    M = np.random.default_rng(1).standard_normal((6, 3))
    for name in ("product", "transposed_product", "squared_transposed_product"):
        np.testing.assert_allclose(getattr(ours, name)(M), getattr(theirs, name)(M))
    assert ours.mean_square_length() == pytest.approx(theirs.mean_square_length())
    moved = ours.to_original(Factors(M, M, np.zeros(6)))
    np.testing.assert_allclose(moved.left, scales[:, None] * M)


def test_scales_by_count_are_the_power_of_the_share():
    counts = np.array([0, 1, 10, 100])
    filled = np.array([1, 1, 10, 100])
    sizes = scales_by_count(counts, 0.75) ** -2.0
    np.testing.assert_allclose(sizes, (filled / filled.mean()) ** 0.75)
    np.testing.assert_array_equal(scales_by_count(counts, 0.0), 1)


@pytest.mark.parametrize("loss", ["logistic", "squared", "exponential"])
def test_stretched_steps_still_go_down_and_get_there_sooner(loss):
    objective = make_objective("intercepts", loss)
    steps = objective.rowwise(np.float64)
    reached = []
    for stretch in (1.0, 1.4):
        at = steps.start(start_of(objective))
        last = np.inf
        for _ in range(15):
            for step in (steps.step_labels, steps.step_rows):
                step(at, PENALTIES, stretch)
                value = penalised(objective, at.factors()).value
                assert value <= last + 1e-12
                last = value
            at.balance()
        reached.append(last)
    assert reached[1] < reached[0]


def test_no_step_is_stretched_further_than_is_safe():
    objective = make_objective()
    found = []
    for stretch in (1.4, 5.0):
        steps = objective.rowwise(np.float64)
        at = steps.start(start_of(objective))
        steps.step_labels(at, PENALTIES, stretch)
        found.append(at.factors().right)
    np.testing.assert_array_equal(*found)
