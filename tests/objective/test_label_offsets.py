"""A known part of each score, carried by the labels; and the rates that an intercept starts from."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.exceptions import InvalidInputError, InvalidLabelsError
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.labels import ObservedLabels
from labelgap.losses import get_family, get_loss
from labelgap.objective.moments import smoothed_rates
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, Penalties
from labelgap.solvers.certificate import certify, with_best_intercept
from oracles_objective import (
    CLOSE,
    CVXPY_LOSSES,
    AgainstDense,
    DenseTerm,
    Setup,
    cvxpy_design_optimum,
    flat,
)
from solver_problems import METHODS, dense_coordinates, make_problem, random_factors, random_labels

pytestmark = pytest.mark.pairwise

N, D, N_LABELS = 9, 3, 4
TOL = 5e-6
# CVXPY's own error, relative to the optimum.
ORACLE = 2e-8


def loss_of(name):
    return get_family(name) if name in ("gaussian", "poisson") else get_loss(name)


@cache
def data(loss, weighted):
    """Features, values with NaN, weights or None, and offsets of every entry."""
    rng = np.random.default_rng(12)
    X = rng.standard_normal((N, D)) + 0.5
    Y = random_labels(rng, N, N_LABELS)
    if loss == "poisson":
        Y = np.where(np.isnan(Y), np.nan, rng.poisson(1.5, Y.shape) + (Y > 0))
    if loss == "gaussian":
        Y = np.where(np.isnan(Y), np.nan, rng.standard_normal(Y.shape))
    weights = rng.uniform(0.2, 2.0, Y.shape) if weighted else None
    return X, Y, weights, rng.uniform(-1.0, 1.0, Y.shape)


def make_labels(Y, weights, offsets):
    labels = ObservedLabels.from_dense(Y, binary=False)
    labels = labels if weights is None else labels.with_weights(weights)
    return labels if offsets is None else labels.with_offsets(offsets)


@cache
def make_setup(loss, intercept, weighted, kind="dense"):
    X, Y, weights, offsets = data(loss, weighted)
    labels = make_labels(Y, weights, offsets)
    problem = make_problem(
        None if kind == "identity" else X,
        labels,
        loss_of(loss),
        features={"centre": intercept},
        fit_intercept=intercept,
    )
    objective = problem.objective(labels)
    weights = np.ones(Y.shape) if weights is None else weights
    weights = weights / weights[~np.isnan(Y)].sum()
    dense_X = dense_coordinates(problem, objective)
    return Setup(objective, DenseTerm(dense_X, Y, weights, loss_of(loss), intercept, offsets=offsets))


CASES = [
    ("logistic", True, True, "dense"),
    ("squared", False, False, "identity"),
    ("exponential", True, False, "dense"),
    ("poisson", True, True, "dense"),
    ("poisson", False, False, "identity"),
    ("gaussian", True, False, "dense"),
]


@pytest.fixture(
    params=CASES,
    ids=[f"{loss}, {kind}{', intercept' * i}{', weights' * w}" for loss, i, w, kind in CASES],
)
def setup(request):
    return make_setup(*request.param)


# -- the data term -------------------------------------------------------------------------------------------


class TestAgainstDense(AgainstDense):
    """The observed entries' term with offsets."""


@pytest.mark.parametrize("scale", [0.0, 0.4, 1.0])
def test_the_conjugate_is_the_dense_formula(setup, scale):
    factors = setup.factors()
    G = setup.oracle.score_gradient(factors)
    conjugate = setup.objective.at(factors).score_gradient().conjugate(scale)
    assert_allclose(conjugate, setup.oracle.conjugate(scale * G), **CLOSE)


def test_fenchel_equality_holds_at_the_gradient(setup):
    # f is a function of the model's scores: the offsets belong to f.
    factors = setup.factors()
    point = setup.objective.at(factors)
    inner = np.sum(setup.oracle.score_gradient(factors) * setup.oracle.scores(factors))
    assert_allclose(point.value + point.score_gradient().conjugate(1.0), inner, rtol=1e-10, atol=1e-12)


def test_fenchel_inequality_holds_everywhere(setup):
    G = setup.oracle.score_gradient(setup.factors())
    conjugate = setup.objective.at(setup.factors()).score_gradient().conjugate(0.7)
    for seed in range(1, 20):
        other = setup.factors(seed=seed)
        inner = 0.7 * np.sum(G * setup.oracle.scores(other))
        assert setup.objective.at(other).value + conjugate >= inner - 1e-12


def test_weak_duality_with_offsets(setup):
    penalties = Penalties(0.05, 0.02)
    points = [setup.objective.at(setup.factors(seed=seed)) for seed in range(8)]
    certificates = [certify(setup.objective, point, penalties) for point in points]
    assert max(c.dual for c in certificates) <= min(c.objective for c in certificates)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_offsets_that_a_model_makes_are_that_model_added(loss):
    X, Y, weights, _ = data(loss, True)
    problem = make_problem(X, make_labels(Y, weights, None), loss_of(loss))
    rng = np.random.default_rng(3)
    known, mine = (random_factors(rng, D, N_LABELS, rank, 0.5) for rank in (1, 2))
    offsets = problem.left(known.left) @ known.right.T + known.intercept
    both = Factors(
        np.hstack([mine.left, known.left]),
        np.hstack([mine.right, known.right]),
        mine.intercept + known.intercept,
    )

    shifted = problem.objective(make_labels(Y, weights, offsets)).at(mine)
    plain = problem.objective(make_labels(Y, weights, None)).at(both)
    assert_allclose(shifted.value, plain.value, **CLOSE)
    assert_allclose(shifted.entry_gradient, plain.entry_gradient, **CLOSE)
    assert_allclose(shifted.gradient().left, plain.gradient().left[:, :2], **CLOSE)
    assert_allclose(shifted.gradient().intercept, plain.gradient().intercept, **CLOSE)


def test_offsets_of_zero_are_no_offsets():
    X, Y, weights, _ = data("logistic", True)
    labels = make_labels(Y, weights, np.zeros((N, N_LABELS)))
    problem = make_problem(X, labels, features={"centre": True})
    factors = make_setup("logistic", intercept=True, weighted=True).factors()
    answers = []
    for one in (labels, labels.with_offsets(None)):
        point = problem.objective(one).at(factors)
        answers.append([point.value, *flat(point.gradient()), point.score_gradient().conjugate(0.3)])
    assert_array_equal(*answers)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson", "gaussian"])
def test_an_offset_that_a_label_shares_is_taken_off_its_starting_intercept(loss):
    _, Y, weights, _ = data(loss, True)
    shared = np.array([0.5, -1.0, 0.0, 2.0])

    def start(offsets):
        labels = make_labels(Y, weights, offsets)
        return make_problem(None, labels, loss_of(loss)).objective(labels).starting_intercept()

    assert_allclose(start(np.tile(shared, (N, 1))), start(None) - shared, **CLOSE)


def test_newton_finds_the_best_intercept_from_the_start(setup):
    if not setup.oracle.intercept:
        assert_array_equal(setup.objective.starting_intercept(), 0)
        return
    zero = Factors.zero(setup.objective.shape, setup.objective.starting_intercept())
    best = with_best_intercept(setup.objective, setup.objective.at(zero), Penalties(1.0))
    assert_allclose(np.add(*best.signed_label_sums()), 0, atol=1e-11)


def test_labels_left_out_take_their_offsets_with_them():
    # The first label has positives only: under a free intercept its entries, and offsets, are out.
    Y = np.array([[1.0, 1.0], [1.0, 0.0], [np.nan, 1.0]])
    offsets = np.array([[5.0, 0.1], [5.0, 0.2], [5.0, 0.3]])
    labels = ObservedLabels.from_dense(Y).with_offsets(offsets)
    problem, loss = make_problem(None, labels), get_loss("logistic")
    zero = Factors.zero((3, 2), np.zeros(2))
    free = problem.objective(labels).at(zero)
    held = problem.objective(labels, free_intercept=False).at(zero)
    second = sum(float(loss.value(offsets[i, 1], Y[i, 1])) for i in range(3))
    first = 2 * float(loss.value(5.0, 1))
    assert_allclose([free.value, held.value], [second / 5, (first + second) / 5], **CLOSE)


@pytest.mark.parametrize("family", ["poisson", "gaussian"])
def test_only_values_at_an_edge_of_the_family_leave_a_label_out(family):
    # Counts that are all 0 say that the intercept is −∞; counts that are all 1, or numbers, say where it is.
    Y = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 0.0]])
    labels = ObservedLabels.from_dense(Y, binary=False)
    term = make_problem(None, labels, get_family(family)).objective(labels)
    zero = Factors.zero((2, 3), np.zeros(3))
    losses = get_family(family).value(np.zeros((2, 3)), Y)
    kept = losses[:, 1:] if family == "poisson" else losses
    assert_allclose(term.at(zero).value, kept.sum() / 6, **CLOSE)


# -- fits ----------------------------------------------------------------------------------------------------


@cache
def problem_and_optimum(loss, intercept, bound):
    X, Y, weights, offsets = data(loss, True)
    labels = make_labels(Y, weights, offsets)
    problem = make_problem(
        X,
        labels,
        loss_of(loss),
        features={"centre": intercept and bound is None},
        fit_intercept=intercept,
        score_bound=bound,
    )
    penalties = Penalties(0.2 * largest_trace_penalty(problem.objective(labels)))
    optimum = cvxpy_design_optimum(
        X,
        np.eye(N_LABELS),
        Y,
        CVXPY_LOSSES[loss],
        penalties.trace,
        weights=weights,
        offsets=offsets,
        intercept=intercept,
        bound=bound,
    )
    return problem, labels, penalties, optimum


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize(
    ("loss", "intercept", "bound"),
    [
        ("logistic", True, None),
        ("squared", False, None),
        ("poisson", True, None),
        ("gaussian", True, None),
        # The bound is on what the model adds, not on the offsets.
        ("logistic", False, 0.3),
    ],
)
def test_fits_with_offsets_reach_the_optimum(solver, loss, intercept, bound):
    problem, labels, penalties, optimum = problem_and_optimum(loss, intercept, bound)
    settings = SolverSettings(SOLVERS[solver], tol=TOL, max_iter=1000)
    fit = settings.fit(problem.objective(labels), penalties)
    excess = fit.objective - optimum
    assert fit.converged
    assert abs(excess) <= 1e-5 * optimum
    assert fit.gap >= excess - ORACLE * optimum


def test_scores_at_entries_include_their_offsets():
    X, Y, weights, offsets = data("logistic", True)
    plain, shifted = make_labels(Y, weights, None), make_labels(Y, weights, offsets)
    problem = make_problem(X, plain, features={"centre": True})
    factors = random_factors(np.random.default_rng(2), D, N_LABELS, 2)
    added = problem.scores(factors, shifted) - problem.scores(factors, plain)
    assert_allclose(added, offsets[~np.isnan(Y)], **CLOSE)


# -- ObservedLabels ------------------------------------------------------------------------------------------


@pytest.fixture
def labels():
    """Eight entries whose offset says where they are: row plus a tenth of the column."""
    Y = np.array([[1, 0, np.nan, 1], [np.nan, 1, np.nan, 0], [0, 1, 1, np.nan]])
    return ObservedLabels.from_dense(Y).with_offsets(np.add.outer(np.arange(3.0), np.arange(4) / 10))


def at_home(labels, rows):
    """Whether every offset belongs to its entry, with the rows that the entries came from."""
    return np.allclose(labels.offsets, rows[labels.rows] + labels.cols / 10)


def test_offsets_from_a_vector_a_matrix_or_a_sparse_matrix(labels):
    plain = labels.with_offsets(None)
    assert plain.offsets is None
    dense = np.add.outer(np.arange(3.0), np.arange(4) / 10)
    for given in (labels.offsets, dense, sp.csr_array(dense), labels.offsets.tolist()):
        again = plain.with_offsets(given)
        assert again == labels
        assert again.offsets.dtype == np.float64


def test_offsets_travel_with_their_entries(labels):
    rows = np.arange(3)
    assert at_home(labels, rows)
    assert at_home(labels.select(labels.values == 1), rows)
    assert at_home(labels.select([0, 3, 6]), rows)
    assert at_home(labels.take_rows([2, 0, 2]), np.array([2, 0, 2]))
    assert at_home(labels[1:], rows[1:])
    for train, held_out in labels.folds(3, random_state=0):
        assert at_home(train, rows)
        assert at_home(held_out, rows)
        assert len(train.offsets) + len(held_out.offsets) == 8
    for part in labels.split(0.3, random_state=0):
        assert at_home(part, rows)
    assert at_home(labels.with_weights(np.ones(8)), rows)


def test_equality_and_text_know_of_offsets(labels):
    assert labels == labels.with_offsets(labels.offsets.copy())
    assert labels != labels.with_offsets(labels.offsets + 1)
    assert labels != labels.with_offsets(None)
    assert labels.with_offsets(None) != labels
    assert repr(labels) == "ObservedLabels(3 x 4, 8 observed (66.7 %), 5 positive, with offsets)"
    assert "offsets" not in repr(labels.with_offsets(None))


def test_offsets_that_do_not_fit_are_refused(labels):
    with pytest.raises(InvalidInputError, match=r"offsets have shape \(9,\).*8 observed"):
        labels.with_offsets(np.zeros(9))
    with pytest.raises(InvalidInputError, match=r"offsets have shape \(4, 3\)"):
        labels.with_offsets(np.zeros((4, 3)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_offsets_must_be_finite_where_something_is_observed(labels, bad):
    offsets = np.zeros((3, 4))
    offsets[0, 2] = bad  # nothing is observed there
    labels.with_offsets(offsets)
    offsets[1, 3] = bad
    with pytest.raises(InvalidLabelsError, match=f"row 1, column 3 is {bad}"):
        labels.with_offsets(offsets)


def test_entries_that_were_not_given_have_no_offset(labels):
    with pytest.raises(InvalidLabelsError, match="offset"):
        ObservedLabels.from_any(labels, unobserved="negative")


# -- smoothed rates ------------------------------------------------------------------------------------------


def slow_rates(Y, weights, edges):
    """The rule of smoothed_rates, label by label."""
    seen = ~np.isnan(Y)
    total = np.sum(weights[seen] * Y[seen])
    prior = 0.5 if edges == (0.0, 1.0) else total / weights[seen].sum()
    rates, informative = [], []
    for j in range(Y.shape[1]):
        y, w = Y[seen[:, j], j], weights[seen[:, j], j]
        tells = len(y) > 0 and not any(np.all(y == edge) for edge in edges)
        informative.append(tells)
        if tells:
            rates.append(np.average(y, weights=w))
        elif len(y):
            rates.append((np.sum(w * y) + prior) / (w.sum() + 1))
        else:
            rates.append((total + prior) / (weights[seen].sum() + 1))
    return rates, informative


COUNTS = np.array(
    [
        [0.0, 1.0, 3.0, np.nan, 0.0],
        [0.0, 1.0, 0.0, np.nan, 1.0],
        [np.nan, 1.0, 2.0, np.nan, np.nan],
    ]
)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("edges", "informative"),
    [
        ((0.0, 1.0), [False, False, True, False, True]),
        ((0.0,), [False, True, True, False, True]),
        ((), [True, True, True, False, True]),
    ],
)
def test_rates_are_smoothed_where_all_values_lie_on_one_edge(edges, informative, weighted):
    weights = np.random.default_rng(0).uniform(0.5, 2, COUNTS.shape) if weighted else np.ones(COUNTS.shape)
    labels = ObservedLabels.from_dense(COUNTS, binary=False)
    labels = labels.with_weights(weights) if weighted else labels
    answer = smoothed_rates(labels, edges)
    assert answer.informative.tolist() == informative
    rates, tells = slow_rates(COUNTS, weights, edges)
    assert tells == informative
    assert_allclose(answer.rate, rates, **CLOSE)
    # A link takes none of these rates to infinity.
    assert not np.isin(answer.rate, edges).any()


def test_rates_are_those_of_yes_and_no_unless_told_otherwise():
    labels = ObservedLabels.from_dense([[1, 0, None], [1, 1, None]])
    assert_allclose(smoothed_rates(labels).rate, [2.5 / 3, 0.5, 3.5 / 5])
    for mine, other in zip(smoothed_rates(labels), smoothed_rates(labels, (0.0, 1.0)), strict=True):
        assert_array_equal(mine, other)
