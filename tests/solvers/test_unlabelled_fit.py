"""Fits to recorded positives alone: both solvers against CVXPY or scipy, and what the estimators build on."""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.estimators.decision_fitting import judged_cells
from labelgap.labels import ObservedLabels
from labelgap.losses import UNLABELLED_LOSSES, Unlabelled, get_loss
from labelgap.objective.design import Design
from labelgap.objective.features import IdentityFeatures, SparseFeatures, StackedFeatures, make_features
from labelgap.objective.problem import ObservedProblem, UnlabelledProblem
from labelgap.objective.unlabelled import possible_flip_rates, unlabelled_objective
from labelgap.solvers import SOLVERS, Penalties
from labelgap.solvers.path import SolverSettings, largest_trace_penalty
from oracles_objective import CLOSE, DenseTerm, flat
from oracles_unlabelled_fit import cvxpy_unlabelled_optimum, scipy_exponential_optimum
from solver_problems import random_factors

TOL = 5e-6
# The oracles' own error, relative to the scale of the data term.
ORACLE = 5e-8
MAX_ITER = {"factored": 500, "proximal": 2000}


@dataclass(frozen=True)
class Case:
    """One positive-unlabelled problem, as data and as labelgap sees it."""

    loss: str
    kind: str = "dense"
    intercept: bool = True
    pull: float = 0.0
    """κ; 0 leaves the intercepts free."""
    bound: float | None = None
    share: float = 0.3
    """λ as a share of the largest."""
    ridge: float = 0.0
    """As a share of λ."""
    label_features: bool = False
    n: int = 14
    n_labels: int = 4

    @cached_property
    def data(self):
        """Features (None = identity), what is recorded, and one flip rate per label."""
        rng = np.random.default_rng(6)
        X = rng.standard_normal((self.n, 4)) + 0.3
        truth = rng.random((self.n, self.n_labels)) < 1 / (
            1 + np.exp(-X @ rng.standard_normal((4, self.n_labels)))
        )
        Y = (truth & (rng.random(truth.shape) < 0.6)).astype(float)
        Y[0], Y[1] = 1, 0
        if self.kind == "csr":
            X = sp.csr_array(np.where(rng.random(X.shape) < 0.6, X, 0.0))
        return None if self.kind == "identity" else X, Y, np.linspace(0.2, 0.4, self.n_labels)

    @cached_property
    def F(self):
        """Features of the labels as a dense matrix, None for the identity."""
        if not self.label_features:
            return None
        extra = np.random.default_rng(2).standard_normal((self.n_labels, 1))
        return np.hstack([np.eye(self.n_labels), extra])

    @cached_property
    def positives(self):
        return ObservedLabels.from_any(self.data[1], unobserved="unlabelled")

    @cached_property
    def problem(self):
        X, _, rho = self.data
        rows = IdentityFeatures(self.n) if X is None else make_features(X, centre=False)
        columns = IdentityFeatures(self.n_labels)
        if self.F is not None:
            columns = StackedFeatures([columns, SparseFeatures(self.F[:, -1:])])
        return UnlabelledProblem(
            Design(rows, columns),
            get_loss(self.loss),
            rho,
            self.positives.n_observed,
            fit_intercept=self.intercept,
            score_bound=self.bound,
            block_cells=100,
        )

    @cached_property
    def objective(self):
        return self.problem.objective(self.positives, free_intercept=self.pull == 0)

    @cached_property
    def penalties(self):
        trace = self.share * largest_trace_penalty(self.objective)
        return Penalties(trace, self.ridge * trace, self.pull, -0.5 if self.pull else 0.0)

    def value(self, factors):
        """The data term by the dense formulas, in the coordinates of X."""
        X, Y, rho = self.data
        X = np.eye(self.n) if X is None else np.asarray(X.todense() if sp.issparse(X) else X)
        losses = [Unlabelled(get_loss(self.loss), rate) for rate in rho]
        term = DenseTerm(X, Y, np.full(Y.shape, 1 / Y.size), losses, self.intercept, F=self.F)
        return term.value(factors), np.abs(term.low_rank(factors)).max()


@cache
def optimum(case):
    X, Y, rho = case.data
    penalties = case.penalties
    if case.loss == "exponential":
        best, largest = scipy_exponential_optimum(
            X, Y, rho, penalties.trace, penalties.ridge, case.intercept, penalties.intercept, penalties.centre
        )
        # That oracle knows no bound, so it must not bind.
        assert largest < case.bound
        return best
    return cvxpy_unlabelled_optimum(
        X,
        Y,
        case.loss,
        rho,
        penalties.trace,
        penalties.ridge,
        case.intercept,
        case.bound,
        penalties.intercept,
        penalties.centre,
        case.F,
    )


def solved(case, solver):
    """Fit, and check everything that is claimed of it."""
    settings = SolverSettings(SOLVERS[solver], tol=TOL, max_iter=MAX_ITER[solver])
    fit = settings.fit(case.problem, case.objective, case.penalties)
    # The data term has parts of both signs: errors are relative to the sum of their sizes.
    scale = max(abs(fit.objective), case.objective.at(fit.factors).size)
    excess = fit.objective - optimum(case)
    assert fit.converged
    assert fit.relative_gap <= TOL
    assert abs(excess) <= 1e-5 * scale
    assert fit.gap >= excess - ORACLE * scale
    factors = case.problem.design.to_original(fit.factors)
    value, largest = case.value(factors)
    values = np.linalg.svd(factors.left @ factors.right.T, compute_uv=False)
    assert value + case.penalties.of(values, factors.intercept) == pytest.approx(fit.objective, rel=1e-9)
    if case.bound is not None:
        assert largest <= case.bound * (1 + 1e-12)
    return fit, largest


LOOSE, BINDING = 5.0, 0.4
FREE, NONE, PULLED = {"intercept": True}, {"intercept": False}, {"pull": 0.05}

LOGISTIC = [
    Case("logistic", "dense", **FREE, bound=LOOSE),
    Case("logistic", "dense", **NONE, bound=BINDING, ridge=0.2),
    Case("logistic", "dense", **PULLED, bound=BINDING),
    Case("logistic", "identity", **FREE, bound=BINDING, ridge=0.2),
    Case("logistic", "identity", **NONE, bound=LOOSE, ridge=0.2),
    Case("logistic", "identity", **PULLED, bound=LOOSE, share=0.5, ridge=0.2),
    Case("logistic", "csr", **FREE, bound=BINDING),
    Case("logistic", "csr", **PULLED, bound=LOOSE, ridge=0.2),
    Case("logistic", "dense", **FREE, bound=3.0, share=0.05),
    Case("logistic", "dense", **FREE, bound=BINDING, label_features=True),
]
SQUARED = [
    Case("squared", "dense", **FREE),
    Case("squared", "dense", **NONE, ridge=0.2),
    Case("squared", "dense", **PULLED, bound=BINDING),
    Case("squared", "dense", **FREE, bound=LOOSE),
    Case("squared", "identity", **FREE, bound=BINDING),
    Case("squared", "identity", **NONE),
    Case("squared", "identity", **PULLED, ridge=0.2),
    Case("squared", "csr", **FREE, bound=BINDING, ridge=0.2),
    Case("squared", "csr", **PULLED),
    Case("squared", "dense", **FREE, share=0.02),
    Case("squared", "csr", **NONE, label_features=True),
]
# The bound does not bind: the oracle does not know it.
EXPONENTIAL = [
    Case("exponential", "dense", **FREE, bound=15.0, share=0.5),
    Case("exponential", "dense", **NONE, bound=15.0, share=0.4, ridge=0.2),
    Case("exponential", "dense", **PULLED, bound=15.0, share=0.4),
    Case("exponential", "identity", **FREE, bound=15.0, share=0.5, ridge=0.5),
    Case("exponential", "identity", **PULLED, bound=15.0, share=0.5, ridge=0.2),
]


def name_of(case):
    intercept = "penalised intercept" if case.pull else "free intercept" if case.intercept else "none"
    parts = [case.loss, case.kind, intercept, f"bound {case.bound}", f"share {case.share}"]
    return ", ".join(parts + ["ridge"] * (case.ridge > 0) + ["label features"] * case.label_features)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", [*LOGISTIC, *SQUARED], ids=name_of)
def test_fits_reach_the_optimum(case, solver):
    _, largest = solved(case, solver)
    if case.bound == BINDING:
        assert largest >= 0.999 * BINDING
    if case.bound == LOOSE:
        assert largest < 0.99 * LOOSE


# With a free intercept the accelerated proximal steps are slow on the exponential loss, whose curvature grows
# without a limit along the intercept; there only the factored solver is held to the optimum.
EXPONENTIAL_FITS = [
    (case, solver)
    for case in EXPONENTIAL
    for solver in SOLVERS
    if solver == "factored" or not case.intercept or case.pull
]


@pytest.mark.parametrize(
    ("case", "solver"), EXPONENTIAL_FITS, ids=[f"{name_of(case)}, {name}" for case, name in EXPONENTIAL_FITS]
)
def test_exponential_fits_reach_the_optimum(case, solver):
    solved(case, solver)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_labels_without_a_positive_do_not_disturb_the_others(loss):
    # Left out, they count in the mean: the other labels' fit is that of a problem without them, rescaled.
    case = Case(loss, bound=LOOSE)
    _, Y, rho = case.data
    wide = ObservedLabels.from_any(np.hstack([Y, np.zeros((case.n, 1))]), unobserved="unlabelled")
    problem = UnlabelledProblem(
        Design.of(case.problem.design.rows, case.n_labels + 1),
        get_loss(loss),
        np.append(rho, 0.3),
        wide.n_observed,
        fit_intercept=True,
        score_bound=LOOSE,
        block_cells=100,
    )
    objective = problem.objective(wide)
    kept = case.n_labels / (case.n_labels + 1)
    fit = SolverSettings(SOLVERS["factored"], tol=TOL).fit(
        problem, objective, Penalties(kept * case.penalties.trace)
    )
    assert fit.converged
    assert fit.objective == pytest.approx(kept * optimum(case), abs=1e-5)
    # The label's scores are one number: nothing is known but that it is rare.
    assert_array_equal(fit.factors.right[-1], 0)
    rate = 0.5 / (case.n + 1) / 0.7
    assert fit.factors.intercept[-1] == pytest.approx(float(get_loss(loss).link(rate)))


@pytest.mark.parametrize("loss", UNLABELLED_LOSSES)
def test_flip_rates_that_are_too_high_leave_a_problem_with_an_answer(loss):
    # 13 of 14 rows recorded at ρ = 0.5 would be 26 positives: the loss would fall for ever in the intercept.
    case = Case(loss, bound=3.0)
    Y = case.data[1].copy()
    Y[:, 0], Y[1:, 1] = 1, 1
    positives = ObservedLabels.from_any(Y, unobserved="unlabelled")
    problem = UnlabelledProblem(
        case.problem.design,
        get_loss(loss),
        np.full(case.n_labels, 0.5),
        positives.n_observed,
        fit_intercept=True,
        score_bound=3.0,
        block_cells=100,
    )
    objective = problem.objective(positives)
    penalties = Penalties(0.3 * largest_trace_penalty(objective))
    fit = SolverSettings(SOLVERS["factored"], tol=1e-4).fit(problem, objective, penalties)
    assert fit.converged
    assert np.abs(fit.factors.intercept).max() < 10


# -- the problem ---------------------------------------------------------------------------------------------


def complete_problems(loss, bound):
    """The same labels as recorded positives with ρ = 0, and as yes and no; some labels have one class."""
    X, Y, _ = Case(loss).data
    Y = np.hstack([Y, np.zeros((len(Y), 1)), np.ones((len(Y), 1))])
    design = Design.of(make_features(X, centre=False), Y.shape[1])
    positives = ObservedLabels.from_any(Y, unobserved="unlabelled")
    unlabelled = UnlabelledProblem(
        design,
        get_loss(loss),
        np.zeros(Y.shape[1]),
        positives.n_observed,
        fit_intercept=True,
        score_bound=bound,
        block_cells=50,
    )
    observed = ObservedProblem(design, get_loss(loss), fit_intercept=True)
    return (unlabelled, positives), (observed, ObservedLabels.from_dense(Y))


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("loss", UNLABELLED_LOSSES)
def test_with_everything_recorded_it_is_the_observed_problem(loss, free):
    (unlabelled, positives), (observed, labels) = complete_problems(loss, bound=30.0)
    mine = unlabelled.objective(positives, free_intercept=free)
    theirs = observed.objective(labels, free_intercept=free)
    factors = random_factors(np.random.default_rng(3), *mine.shape, 2, 0.5)
    direction = random_factors(np.random.default_rng(4), *mine.shape, 2)
    here, there = mine.at(factors), theirs.at(factors)
    assert_allclose(here.value, there.value, **CLOSE)
    assert_allclose(here.size, there.size, **CLOSE)
    assert_allclose(flat(here.gradient()), flat(there.gradient()), **CLOSE)
    assert_allclose(flat(here.hessian_product(direction)), flat(there.hessian_product(direction)), **CLOSE)
    assert_allclose(here.score_gradient().conjugate(1.0), there.score_gradient().conjugate(1.0), **CLOSE)
    assert_allclose(mine.starting_intercept(), theirs.starting_intercept(), **CLOSE)


@pytest.mark.parametrize(("loss", "bound"), [("logistic", 30.0), ("squared", None), ("exponential", 30.0)])
def test_with_everything_recorded_the_optimum_is_the_observed_one(loss, bound):
    (unlabelled, positives), (observed, labels) = complete_problems(loss, bound)
    mine, theirs = unlabelled.objective(positives), observed.objective(labels)
    penalties = Penalties(0.2 * largest_trace_penalty(theirs))
    assert largest_trace_penalty(mine) == pytest.approx(5 * penalties.trace, rel=1e-9)
    settings = SolverSettings(SOLVERS["factored"], tol=1e-6)
    a = settings.fit(unlabelled, mine, penalties)
    b = settings.fit(observed, theirs, penalties)
    assert a.converged
    assert b.converged
    assert a.objective == pytest.approx(b.objective, rel=2e-6)


def test_a_fold_with_fewer_positives_has_a_higher_flip_rate():
    case = Case("logistic", bound=LOOSE)
    _, Y, rho = case.data
    # Half of the recorded positives, and cells to be judged besides: they count for nothing.
    cells = ObservedLabels.from_dense(Y)
    ones = np.flatnonzero(cells.values == 1)
    fold = cells.select(np.setdiff1d(np.arange(cells.n_observed), ones[::2]))
    kept = np.sum(fold.values == 1) / case.positives.n_observed
    assert 0.4 < kept < 0.6
    expected = 1 - kept * (1 - rho)
    objective = case.problem.objective(fold)
    recorded = objective.recorded.pattern.indices
    assert len(recorded) == np.sum(fold.values == 1)
    assert_allclose(objective.loss.flip_rate, expected[recorded], **CLOSE)
    by_hand = unlabelled_objective(
        case.problem.design,
        fold.select(fold.values == 1),
        get_loss("logistic"),
        expected,
        fit_intercept=True,
        score_bound=LOOSE,
        block_cells=100,
    )
    factors = random_factors(np.random.default_rng(5), *objective.shape, 2)
    assert objective.at(factors).value == by_hand.at(factors).value
    assert_allclose(objective.starting_intercept(), by_hand.starting_intercept())


def test_thinning_keeps_the_mean_of_the_loss():
    # Without each positive in turn: with the thinner records' own rates the mean is that of all.
    case = Case("logistic", bound=LOOSE, intercept=False)
    factors = random_factors(np.random.default_rng(5), *case.objective.shape, 2, 0.5)
    everyone = np.arange(case.positives.n_observed)
    thinned = [case.problem.objective(case.positives.select(everyone != one)) for one in everyone]
    mean = np.mean([objective.at(factors).value for objective in thinned])
    assert_allclose(mean, case.objective.at(factors).value, **CLOSE)


def test_scores_and_other_features_of_the_problem():
    case = Case("logistic", bound=LOOSE)
    X, Y, _ = case.data
    labels = ObservedLabels.from_dense(np.where(Y == 1, 1.0, np.nan))
    factors = random_factors(np.random.default_rng(6), 4, case.n_labels, 2)
    A, B, b = case.problem.design.to_original(factors)
    assert_allclose(case.problem.scores(factors, labels), (X @ A @ B.T + b)[Y == 1], **CLOSE)
    other = case.problem.with_design(Design.of(IdentityFeatures(case.n), case.n_labels))
    assert other.objective(case.positives).shape == (case.n, case.n_labels)
    assert case.problem.objective(case.positives).shape == (4, case.n_labels)


def test_the_bound_holds_recorded_positives_from_the_beginning():
    case = Case("logistic", bound=LOOSE)
    bounds = case.problem.bounds(case.objective)
    rows, labels = np.nonzero(case.data[1])
    assert_array_equal(bounds.start().keys, rows * case.n_labels + labels)
    assert Case("squared").problem.bounds(Case("squared").objective) is None


# -- flip rates that are possible ----------------------------------------------------------------------------


def positives_with(counts, n):
    """One label for each number of recorded positives among n rows."""
    Y = (np.arange(n)[:, None] < np.asarray(counts)).astype(float)
    return ObservedLabels.from_any(Y, unobserved="unlabelled")


def test_flip_rates_are_capped_where_positives_would_outnumber_rows():
    # At most 10 · 10.5/11 = 9.5454… positives in 10 rows; without a recorded one, as if there were a half.
    possible = possible_flip_rates(positives_with([0, 1, 5, 9, 10], 10), np.full(5, 0.97))
    assert_allclose(
        possible, [1 - 0.5 / (105 / 11), 1 - 1 / (105 / 11), 1 - 5 / (105 / 11), 1 - 9 / (105 / 11), 0]
    )


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
@pytest.mark.parametrize("rate", [0.0, 0.01, 0.3, 0.9, 0.999, 1.0])
def test_flip_rates_that_are_possible_leave_rows_for_no(n, rate):
    counts = np.unique(np.linspace(0, n, 7).astype(int))
    labels = positives_with(counts, n)
    possible = possible_flip_rates(labels, np.full(len(counts), rate))
    assert np.all((possible >= 0) & (possible < 1) & (possible <= rate))
    implied = counts / (1 - possible)
    assert np.all((implied < n) | (counts == n))
    assert np.all(possible[counts == n] == 0)
    # What was possible has stayed as it was.
    fine = np.maximum(counts, 0.5) <= (1 - rate) * n * (n + 0.5) / (n + 1)
    assert_array_equal(possible[fine], rate)
    assert_array_equal(possible_flip_rates(labels, possible), possible)


# -- judged cells --------------------------------------------------------------------------------------------


def recorded(shape=(8, 6), share=0.25, seed=0):
    Y = (np.random.default_rng(seed).random(shape) < share).astype(float)
    return Y, ObservedLabels.from_any(Y, unobserved="unlabelled")


def test_all_cells_are_judged_where_there_is_room():
    Y, positives = recorded()
    others = int(np.sum(Y == 0))
    cells = judged_cells(positives, others, np.random.RandomState(0))
    assert_array_equal(cells.to_dense(), Y)
    assert cells.weights is None
    assert judged_cells(positives, others - 1, np.random.RandomState(0)).weights is not None


@pytest.mark.parametrize("most", [10, 20, 35])
def test_a_sample_of_cells_stands_for_all(most):
    Y, positives = recorded()
    cells = judged_cells(positives, most, np.random.RandomState(1))
    dense = cells.to_dense()
    known = ~np.isnan(dense)
    assert_array_equal(dense[known], Y[known])
    assert np.all(known[Y == 1])
    assert_array_equal(cells.weights[cells.values == 1], 1)
    drawn = cells.weights[cells.values == 0]
    assert 1 <= len(drawn) <= most
    assert len(np.unique(drawn)) == 1
    assert cells.weights.sum() == pytest.approx(Y.size)
    assert cells.unobserved == "missing"
    assert cells == judged_cells(positives, most, np.random.RandomState(1))


def test_the_sample_of_cells_is_uniform():
    Y, positives = recorded()
    rng, draws = np.random.RandomState(2), 3000
    counts = np.zeros(Y.shape)
    for _ in range(draws):
        cells = judged_cells(positives, 12, rng)
        zeros = cells.values == 0
        counts[cells.rows[zeros], cells.cols[zeros]] += 1
    assert np.all(counts[Y == 1] == 0)
    counts = counts[Y == 0]
    share = counts.mean() / draws
    assert 0.15 < share < 0.3
    # Five standard deviations of a count.
    assert np.abs(counts - counts.mean()).max() <= 5 * np.sqrt(draws * share * (1 - share))


def test_weighted_judged_cells_estimate_what_all_cells_say():
    Y, positives = recorded((40, 30), share=0.1)
    numbers = np.random.default_rng(3).random(Y.shape)
    estimates = []
    for seed in range(300):
        cells = judged_cells(positives, 200, np.random.RandomState(seed))
        estimates.append(np.sum(cells.weights * cells.align(numbers)))
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - numbers.sum()) <= 4 * error
