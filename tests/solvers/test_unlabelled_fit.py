"""Fits to recorded positives alone: what must not disturb them, and what the estimators build on."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.fitting.unlabelled import judged_entries
from labelgap.labels import ObservedLabels
from labelgap.losses import UNLABELLED_LOSSES, get_loss
from labelgap.objective.frame import possible_flip_rates
from labelgap.objective.parts import FeatureSettings
from labelgap.solvers import SOLVERS, Penalties
from oracles_objective import CLOSE, flat
from solver_problems import make_problem, random_factors

pytestmark = pytest.mark.pairwise

TOL = 5e-6


@dataclass(frozen=True)
class Case:
    """One positive-unlabelled problem, as data and as labelgap sees it."""

    loss: str
    bound: float | None = None
    n: int = 14
    n_labels: int = 4

    @cached_property
    def features(self):
        return self._drawn[0]

    @cached_property
    def Y(self):
        """1 where a positive is recorded, 0 elsewhere."""
        return self._drawn[1]

    @cached_property
    def _drawn(self):
        rng = np.random.default_rng(6)
        X = rng.standard_normal((self.n, 4)) + 0.3
        chance = 1 / (1 + np.exp(-X @ rng.standard_normal((4, self.n_labels))))
        Y = ((rng.random(chance.shape) < chance) & (rng.random(chance.shape) < 0.6)).astype(float)
        Y[0], Y[1] = 1, 0
        return X, Y

    @cached_property
    def rho(self):
        """One flip rate per label."""
        return np.linspace(0.2, 0.4, self.n_labels)

    @cached_property
    def entries(self):
        """All entries, recorded (1) and others (0)."""
        return ObservedLabels.from_dense(self.Y)

    @cached_property
    def problem(self):
        return self.problem_of(self.features, self.entries, self.rho)

    def problem_of(self, X, judged, rho):
        """With this case's loss and bound, on other data."""
        return make_problem(
            X,
            judged.select(judged.values == 1),
            self.loss,
            judged=judged,
            score_bound=self.bound,
            flip_rate=rho,
            block_entries=100,
        )

    @cached_property
    def objective(self):
        return self.problem.objective(self.entries)

    @cached_property
    def penalties(self):
        return Penalties(0.3 * largest_trace_penalty(self.objective))


LOOSE = 5.0


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_labels_without_a_positive_do_not_disturb_the_others(loss):
    # Left out, they count in the mean: the other labels' fit is that of a problem without them, rescaled.
    case = Case(loss, bound=LOOSE)
    wide = ObservedLabels.from_dense(np.hstack([case.Y, np.zeros((case.n, 1))]))
    objective = case.problem_of(case.features, wide, np.append(case.rho, 0.3)).objective(wide)
    kept = case.n_labels / (case.n_labels + 1)
    settings = SolverSettings(SOLVERS["factored"], tol=TOL)
    fit = settings.fit(objective, Penalties(kept * case.penalties.trace))
    assert fit.converged
    alone = settings.fit(case.objective, case.penalties)
    assert fit.objective == pytest.approx(kept * alone.objective, abs=1e-5)
    # The label's scores are one number: nothing is known but that it is rare.
    assert_array_equal(fit.factors.right[-1], 0)
    rate = 0.5 / (case.n + 1) / 0.7
    assert fit.factors.intercept[-1] == pytest.approx(float(get_loss(loss).link(rate)))


@pytest.mark.parametrize("loss", UNLABELLED_LOSSES)
def test_flip_rates_that_are_too_high_leave_a_problem_with_an_optimum(loss):
    # 13 of 14 rows recorded at ρ = 0.5 would be 26 positives: the loss would fall without limit in the
    # intercept.
    case = Case(loss, bound=3.0)
    Y = case.Y.copy()
    Y[:, 0], Y[1:, 1] = 1, 1
    labels = ObservedLabels.from_dense(Y)
    objective = case.problem_of(case.features, labels, np.full(case.n_labels, 0.5)).objective(labels)
    penalties = Penalties(0.3 * largest_trace_penalty(objective))
    fit = SolverSettings(SOLVERS["factored"], tol=1e-4).fit(objective, penalties)
    assert fit.converged
    assert np.abs(fit.factors.intercept).max() < 10


# -- the problem ---------------------------------------------------------------------------------------------


def complete_problems(loss, bound):
    """The same labels as recorded positives with ρ = 0, and as yes and no; some labels have one class."""
    case = Case(loss, bound=bound)
    Y = np.hstack([case.Y, np.zeros((case.n, 1)), np.ones((case.n, 1))])
    labels = ObservedLabels.from_dense(Y)
    unlabelled = case.problem_of(case.features, labels, np.zeros(Y.shape[1]))
    return unlabelled, make_problem(case.features, labels, loss), labels


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("loss", UNLABELLED_LOSSES)
def test_with_everything_recorded_it_is_the_observed_problem(loss, free):
    unlabelled, observed, labels = complete_problems(loss, bound=30.0)
    mine = unlabelled.objective(labels, free_intercept=free)
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
    unlabelled, observed, labels = complete_problems(loss, bound)
    mine, theirs = unlabelled.objective(labels), observed.objective(labels)
    penalties = Penalties(0.2 * largest_trace_penalty(theirs))
    assert largest_trace_penalty(mine) == pytest.approx(5 * penalties.trace, rel=1e-9)
    settings = SolverSettings(SOLVERS["factored"], tol=1e-6)
    a = settings.fit(mine, penalties)
    b = settings.fit(theirs, penalties)
    assert a.converged
    assert b.converged
    assert a.objective == pytest.approx(b.objective, rel=2e-6)


def test_folds_of_a_sample_of_entries_see_as_many_positives_as_there_are():
    # A fold of a sample holds back a fifth of the recorded positives, but few of all the other entries.
    Y = (np.random.default_rng(0).random((300, 5)) < 0.1).astype(float)
    positives = ObservedLabels.from_any(Y, unobserved="unlabelled")
    case = Case("logistic", bound=LOOSE)
    for most in (100, 1500):
        judged = judged_entries(positives, most, np.random.RandomState(0))
        problem = case.problem_of(None, judged, np.full(5, 0.3))
        whole = problem.objective(judged).starting_intercept()
        trained = [train for train, _ in judged.folds(5, random_state=0)]
        folds = [problem.objective(train).starting_intercept() for train in trained]
        # In each of the folds a label's rate is off by the rounding of its counts; on average by nothing.
        assert_allclose(np.mean(folds, axis=0), whole, atol=0.02)


def test_a_fold_without_any_positive_is_a_problem_still():
    Y = np.zeros((4, 3))
    Y[1, 2] = 1
    labels = ObservedLabels.from_dense(Y)
    problem = Case("logistic", bound=LOOSE).problem_of(None, labels, np.full(3, 0.3))
    objective = problem.objective(labels.select(labels.values == 0))
    fit = SolverSettings(SOLVERS["factored"]).fit(objective, Penalties(0.1))
    assert fit.converged
    assert fit.rank == 0
    assert np.all(np.isfinite(fit.factors.intercept))


def test_scores_and_other_features_of_the_problem():
    case = Case("logistic", bound=LOOSE)
    recorded = case.Y == 1
    labels = ObservedLabels.from_dense(np.where(recorded, 1.0, np.nan))
    factors = random_factors(np.random.default_rng(6), 4, case.n_labels, 2)
    A, B, b = case.problem.to_original(factors)
    scores = (case.features @ A @ B.T + b)[recorded]
    assert_allclose(case.problem.scores(factors, labels), scores, **CLOSE)
    other = case.problem.with_settings(features=FeatureSettings(own_rows=True))
    assert other.objective(case.entries).shape == (case.n + 4, case.n_labels)
    assert case.problem.objective(case.entries).shape == (4, case.n_labels)


def test_the_bound_holds_recorded_positives_from_the_beginning():
    case = Case("logistic", bound=LOOSE)
    rows, labels = np.nonzero(case.Y == 1)
    assert_array_equal(case.objective.bounds.start().keys, rows * case.n_labels + labels)
    assert Case("squared").objective.bounds is None


# -- flip rates that are possible ----------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.3, 0.9, 0.999, 1.0])
def test_flip_rates_that_are_possible_leave_rows_for_no(rate):
    rows = np.repeat([0, 1, 2, 10, 1000], 5)
    recorded = np.minimum(rows, np.tile([0, 1, 9, 10, 1000], 5))
    possible = possible_flip_rates(recorded, rows, np.full(25, rate))
    assert np.all((possible >= 0) & (possible < 1) & (possible <= rate))
    implied = recorded / (1 - possible)
    everywhere = recorded == rows
    assert np.all((implied < rows) | everywhere)
    assert np.all(possible[everywhere] == 0)
    # What was possible has stayed as it was.
    fine = np.maximum(recorded, 0.5) <= (1 - rate) * rows * (rows + 0.5) / (rows + 1)
    assert_array_equal(possible[fine], rate)
    assert_array_equal(possible_flip_rates(recorded, rows, possible), possible)


# -- judged entries ------------------------------------------------------------------------------------------


def recorded(shape=(8, 6), rate=0.25, seed=0):
    Y = (np.random.default_rng(seed).random(shape) < rate).astype(float)
    return Y, ObservedLabels.from_any(Y, unobserved="unlabelled")


def test_all_entries_are_judged_where_there_are_few_enough():
    Y, positives = recorded()
    others = int(np.sum(Y == 0))
    judged = judged_entries(positives, others, np.random.RandomState(0))
    assert_array_equal(judged.to_dense(), Y)
    assert judged.weights is None
    assert judged_entries(positives, others - 1, np.random.RandomState(0)).weights is not None


@pytest.mark.parametrize("most", [10, 20, 35])
def test_a_sample_of_entries_stands_for_all(most):
    Y, positives = recorded()
    judged = judged_entries(positives, most, np.random.RandomState(1))
    dense = judged.to_dense()
    known = ~np.isnan(dense)
    assert_array_equal(dense[known], Y[known])
    assert np.all(known[Y == 1])
    assert_array_equal(judged.weights[judged.values == 1], 1)
    drawn = judged.weights[judged.values == 0]
    assert 1 <= len(drawn) <= most
    assert len(np.unique(drawn)) == 1
    assert judged.weights.sum() == pytest.approx(Y.size)
    assert judged.unobserved == "missing"
    assert judged == judged_entries(positives, most, np.random.RandomState(1))


def test_the_sample_of_entries_is_uniform():
    Y, positives = recorded()
    rng, draws = np.random.RandomState(2), 3000
    counts = np.zeros(Y.shape)
    for _ in range(draws):
        judged = judged_entries(positives, 12, rng)
        zeros = judged.values == 0
        counts[judged.rows[zeros], judged.cols[zeros]] += 1
    assert np.all(counts[Y == 1] == 0)
    counts = counts[Y == 0]
    rate = counts.mean() / draws
    assert 0.15 < rate < 0.3
    # Five standard deviations of a count.
    assert np.abs(counts - counts.mean()).max() <= 5 * np.sqrt(draws * rate * (1 - rate))


def test_weighted_judged_entries_estimate_sums_over_all_entries():
    Y, positives = recorded((40, 30), rate=0.1)
    numbers = np.random.default_rng(3).random(Y.shape)
    estimates = []
    for seed in range(300):
        judged = judged_entries(positives, 200, np.random.RandomState(seed))
        estimates.append(np.sum(judged.weights * judged.align(numbers)))
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - numbers.sum()) <= 4 * error
