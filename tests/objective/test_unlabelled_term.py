"""The positive-unlabelled data term: all n·L entries, in blocks or through Gram matrices."""

import tracemalloc
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize

from labelgap.kernels.threads import limit_threads
from labelgap.labels import ObservedLabels
from labelgap.losses import UNLABELLED_LOSSES, Unlabelled, get_loss
from labelgap.objective.cpu.all_entries import AllEntriesTerm
from labelgap.objective.cpu.gram import GramTerm
from labelgap.objective.cpu.kept_scores import KeptScoresObjective
from labelgap.objective.cpu.score_bound import BoundedEntries
from labelgap.objective.frame import possible_flip_rates
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors, entries_kept_within, entries_within
from labelgap.objective.unlabelled import UnlabelledObjective
from labelgap.solvers import Penalties
from labelgap.solvers.certificate import certify, with_best_intercept
from oracles_objective import CLOSE, AgainstDense, DenseTerm, Setup, answers, flat
from solver_problems import dense_coordinates, make_problem, random_factors, random_features

pytestmark = pytest.mark.pairwise

N, D, N_LABELS = 8, 3, 5
# One label without a recorded positive, one recorded in every row.
EMPTY, FULL = 2, 4
BOUND = 2.0
SCALES = [0.0, 0.2, 0.7, 0.95, 1.0]


def label_features():
    """Two features beside each label's own, and their dense matrix."""
    rng = np.random.default_rng(4)
    extra = np.where(rng.random((N_LABELS, 2)) < 0.7, rng.standard_normal((N_LABELS, 2)), 0.0)
    return sp.csr_array(extra), np.hstack([np.eye(N_LABELS), extra])


@dataclass(frozen=True)
class Kind:
    """What a term is made of."""

    loss: str
    intercept: bool = True
    features: str = "dense"
    label_features: bool = False
    free: bool = True
    """Whether an intercept has no penalty, so that one-class labels are left out."""
    held_out: bool = False
    """Whether some of the entries are held out."""
    block_entries: int = 11
    kept: bool = False
    """Whether all scores are kept."""
    bound: float | None = BOUND

    def __str__(self):
        intercept = "free intercept" if self.free else "penalised intercept"
        extras = {
            "label features": self.label_features,
            intercept: self.intercept,
            "held out": self.held_out,
            "scores kept": self.kept,
        }
        return ", ".join([self.loss, self.features, *(name for name, on in extras.items() if on)])


@dataclass
class UnlabelledSetup(Setup):
    """A term with its oracle, and the pieces."""

    kind: Kind
    problem: Problem
    positives: ObservedLabels
    held: ObservedLabels
    rho: Any

    @property
    def free(self):
        return self.kind.intercept and self.kind.free

    @property
    def total(self):
        """The number of entries over which the mean is taken."""
        return N * N_LABELS - self.held.n_observed

    def counts(self):
        """Per label, the recorded positives and the rows, without what is held out."""
        return self.positives.label_counts(), N - self.held.label_counts()

    def with_bound(self, bound):
        problem = self.problem.with_settings(score_bound=bound)
        return problem.objective(self.positives, free_intercept=self.kind.free)


@cache
def make_setup(kind):
    rng = np.random.default_rng(9)
    X = random_features(rng, kind.features, N, D)
    Y = (rng.random((N, N_LABELS)) < 0.4).astype(float)
    Y[0], Y[1], Y[:, EMPTY], Y[:, FULL] = 1, 0, 0, 1
    out = rng.random(Y.shape) < 0.25
    # Of one label nothing is left.
    out[:, EMPTY] = True
    out &= kind.held_out
    positives = ObservedLabels.from_dense(np.where((Y == 1) & ~out, 1.0, np.nan))
    held = ObservedLabels.from_dense(np.where(out, Y, np.nan))
    flip_rate = rng.uniform(0.1, 0.6, N_LABELS)
    # What is held out takes entries and recorded positives with it, in fractions of their own.
    left, left_recorded = 1 - held.n_observed / Y.size, positives.n_observed / np.sum(Y == 1)
    rho = possible_flip_rates(
        positives.label_counts(),
        N - held.label_counts(),
        np.maximum(1 - (1 - flip_rate) * left_recorded / left, 0.0),
    )
    features, F = label_features() if kind.label_features else (None, None)
    problem = make_problem(
        X,
        positives,
        kind.loss,
        judged=ObservedLabels.from_dense(np.where((Y == 1) | out, Y, np.nan)),
        features={"label_features": features},
        fit_intercept=kind.intercept,
        flip_rate=flip_rate,
        block_entries=kind.block_entries,
        kept_entries=1000 if kind.kept else 0,
    )
    losses = [Unlabelled(get_loss(kind.loss), rate) for rate in rho]
    seen = np.where(out, np.nan, Y)
    if kind.intercept and kind.free:
        seen[:, [EMPTY, FULL]] = np.nan
    weights = np.full(Y.shape, 1 / (Y.size - held.n_observed))
    setup = UnlabelledSetup(None, None, kind, problem, positives, held, rho)
    setup.objective = setup.with_bound(kind.bound)
    dense_X = dense_coordinates(problem, setup.objective)
    setup.oracle = DenseTerm(dense_X, seen, weights, losses, kind.intercept, F)
    return setup


CASES = [
    *(Kind(*case) for case in product(UNLABELLED_LOSSES, [True, False], ["dense", "identity"])),
    *(Kind(loss, features="csr", label_features=True, free=False) for loss in UNLABELLED_LOSSES),
    *(Kind(loss, False, "csr", label_features=True) for loss in UNLABELLED_LOSSES),
    *(
        Kind(loss, intercept, "identity", held_out=True)
        for loss in UNLABELLED_LOSSES
        for intercept in (True, False)
    ),
    *(
        Kind(loss, features="csr", label_features=True, free=False, held_out=True)
        for loss in UNLABELLED_LOSSES
    ),
]


CASES += [replace(kind, kept=True) for kind in CASES if kind.loss == "logistic"]

WITHOUT_INTERCEPT = [kind for kind in CASES if not kind.intercept]


@pytest.fixture(params=CASES, ids=str)
def setup(request):
    return make_setup(request.param)


# -- values and derivatives ----------------------------------------------------------------------------------


class TestAgainstDense(AgainstDense):
    """The unbiased loss over all entries."""


def test_the_flip_rates_are_those_of_what_is_left(setup):
    assert_allclose(setup.objective.frame.flip_rates, setup.rho, rtol=1e-13, atol=1e-15)


def test_size_is_the_sum_of_the_entries_sizes(setup):
    # Exactly what a relative gap refers to: no term of the correction counts twice.
    for size in (0.5, 3.0):
        factors = setup.factors(size=size)
        point = setup.objective.at(factors)
        Z, oracle = setup.oracle.scores(factors), setup.oracle
        sizes = sum(abs(float(oracle.losses[j].value(Z[i, j], oracle.Y[i, j]))) for i, j in oracle.entries)
        assert_allclose(point.size, sizes / setup.total, **CLOSE)
        assert point.size >= abs(point.value)


def test_the_mean_is_over_all_entries_whatever_is_left_out():
    free, penalised = (make_setup(Kind("logistic", free=free)) for free in (True, False))
    factors = free.factors(0)._replace(intercept=np.zeros(N_LABELS))
    difference = penalised.objective.at(factors).value - free.objective.at(factors).value
    # At score 0 both labels that were left out lose log 2 an entry; the one recorded everywhere has ρ = 0.
    assert penalised.rho[FULL] == 0
    assert_allclose(difference, 2 * N * np.log(2) / (N * N_LABELS), **CLOSE)


@pytest.mark.parametrize("loss", UNLABELLED_LOSSES)
def test_one_class_labels_are_left_out_only_where_their_intercept_is_free(loss):
    for free, expected in ((True, [0, 1, 3]), (False, [0, 1, 2, 3, 4])):
        setup = make_setup(Kind(loss, free=free))
        point = setup.objective.at(setup.factors())
        assert np.flatnonzero(point.label_curvature()).tolist() == expected
        assert np.flatnonzero(np.any(point.gradient().right != 0, axis=1)).tolist() == expected
        # Entries that a bound must hold are those of the term.
        labels = np.unique(setup.objective.bounds.start().keys % N_LABELS)
        assert labels.tolist() == [j for j in expected if j != EMPTY]


@pytest.mark.parametrize("kind", WITHOUT_INTERCEPT, ids=str)
def test_without_an_intercept_every_label_with_an_entry_counts(kind):
    setup = make_setup(kind)
    D = setup.objective.at(setup.factors()).hessian_diagonal().right
    assert np.all(np.any(D > 1e-12, axis=1)[:N_LABELS] == (setup.counts()[1] > 0))
    assert_array_equal(setup.objective.starting_intercept(), 0)


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("loss", UNLABELLED_LOSSES)
def test_the_starting_intercept_is_the_best_one_at_zero(loss, held_out):
    # The exponential loss is right on average only below its turn, so for it the start is only a start.
    setup = make_setup(Kind(loss, held_out=held_out))
    start = setup.objective.starting_intercept()
    counts, rows = setup.counts()
    rates = np.where(counts > 0, counts / np.maximum(rows, 1), 0.5 / (rows + 1)) / (1 - setup.rho)
    rates[FULL] = (rows[FULL] + 0.5) / (rows[FULL] + 1)
    assert_allclose(start, get_loss(loss).link(rates), **CLOSE)
    point = setup.objective.at(Factors.zero(setup.objective.shape, start))
    if loss != "exponential":
        assert_allclose(np.add(*point.signed_label_sums()), 0, atol=1e-14)
    best = with_best_intercept(setup.objective, point, Penalties(1.0))
    assert_allclose(np.add(*best.signed_label_sums()), 0, atol=1e-11)
    assert_array_equal(best.factors.intercept[[EMPTY, FULL]], start[[EMPTY, FULL]])
    # Handed out as a copy: what a solver does to it stays there.
    start[:] = 99
    assert not np.any(setup.objective.starting_intercept() == 99)


@pytest.mark.parametrize("loss", UNLABELLED_LOSSES)
def test_the_loss_is_that_of_the_true_labels_on_average(loss):
    # Drawn again and again, what is recorded gives the loss of the truth, for scores below any turn.
    rng = np.random.default_rng(1)
    n, rho = 40, np.array([0.3, 0.6])
    truth = rng.random((n, 2)) < 0.4
    factors = Factors(0.2 * rng.standard_normal((n, 1)), rng.standard_normal((2, 1)), np.array([-0.3, -0.5]))
    Z = factors.left @ factors.right.T + factors.intercept
    values = []
    for _ in range(400):
        recorded = truth & (rng.random((n, 2)) >= rho)
        labels = ObservedLabels.from_any(recorded.astype(float), unobserved="unlabelled")
        problem = make_problem(None, labels, loss, flip_rate=rho, score_bound=BOUND, block_entries=1000)
        values.append(problem.objective(labels).at(factors).value)
    error = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values) - get_loss(loss).value(Z, truth).mean()) <= 4 * error


def test_nothing_recorded_leaves_an_empty_term():
    # A fold may hold the only recorded positive.
    for loss in UNLABELLED_LOSSES:
        positives = ObservedLabels.from_any(np.zeros((4, 3)), unobserved="unlabelled")
        problem = make_problem(
            None, positives, loss, flip_rate=np.ones(3), score_bound=BOUND, block_entries=5
        )
        objective = problem.objective(positives)
        start = objective.starting_intercept()
        assert np.all(np.isfinite(start))
        point = objective.at(random_factors(np.random.default_rng(0), 4, 3, 2))
        assert point.value == 0
        assert_array_equal(flat(point.gradient()), 0)
        assert_array_equal(point.score_gradient().matrix(), np.zeros((4, 3)))
        assert certify(objective, point, Penalties(1.0)).dual == 0


# -- blocks, threads, memory ---------------------------------------------------------------------------------


def all_answers(setup, factors, other):
    """Every number that a point gives."""
    point, there = setup.objective.at(factors), setup.objective.at(other)
    rng = np.random.default_rng(3)
    U, V = (rng.standard_normal((size, 2)) for size in setup.objective.shape)
    ahead = point.beyond(there, 0.4)
    for p in (point, ahead):
        yield from answers(p)
        yield flat(p.hessian_product(p.factors))
        yield p.curvature_along(U, V)
        yield p.slope_towards(there)
    for balanced in (False, True):
        gradient = point.score_gradient(balanced=balanced)
        yield gradient.left_product(V)
        yield gradient.right_product(U)
        for scale in SCALES:
            yield gradient.conjugate(scale)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_blocks_of_any_size_give_the_same_answers(loss, intercept):
    kind = Kind(loss, intercept, "csr", label_features=True, held_out=True, block_entries=1000)
    whole = make_setup(kind)
    factors, other = whole.factors(), whole.factors(1, seed=1)
    expected = list(all_answers(whole, factors, other))
    for size in (1, 7, 16):
        setup = make_setup(replace(kind, block_entries=size))
        for mine, wanted in zip(all_answers(setup, factors, other), expected, strict=True):
            assert_allclose(mine, wanted, **CLOSE)


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind.kept], ids=str)
def test_kept_scores_give_the_answers_of_blocks(kind):
    kept, blocks = make_setup(kind), make_setup(replace(kind, kept=False))
    assert isinstance(kept.objective, KeptScoresObjective)
    assert isinstance(blocks.objective, UnlabelledObjective)
    factors, other = kept.factors(), kept.factors(1, seed=1)
    mine, wanted = (list(all_answers(setup, factors, other)) for setup in (kept, blocks))
    # Signed sums may be split in other ways; what they add up to, and so the dual, is the same.
    for a, b in zip(mine, wanted, strict=True):
        assert_allclose(a, b, **CLOSE)


def bounded_setup(kind):
    """A term of the bound at all entries, with multipliers, beside kept scores and beside blocks."""
    kept, blocks = make_setup(kind), make_setup(replace(kind, kept=False))
    # Of size 1/N, as slopes are.
    multipliers = np.random.default_rng(5).standard_normal((N, N_LABELS)) / kept.total
    every = BoundedEntries(np.arange(N * N_LABELS), multipliers.ravel())
    bounds = [setup.objective.bounds for setup in (kept, blocks)]
    terms = [
        bounds[0].with_term(kept.objective, multipliers, STIFFNESS),
        bounds[1].with_term(blocks.objective, every, STIFFNESS),
    ]
    return kept, bounds, terms, multipliers


STIFFNESS = 0.05


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind.kept], ids=str)
def test_the_term_of_the_bound_is_that_of_entries(kind):
    setup, bounds, terms, multipliers = bounded_setup(kind)
    factors, other = setup.factors(size=1.5), setup.factors(1, seed=1)
    direction = setup.factors(seed=2)
    rng = np.random.default_rng(3)
    U, V = (rng.standard_normal((size, 2)) for size in setup.objective.shape)
    largest = [one.scan(factors)[0] for one in bounds]
    assert largest[0] == pytest.approx(largest[1])
    assert largest[0] > BOUND
    found = []
    for one, term in zip(bounds, terms, strict=True):
        point, there = term.at(factors), term.at(other)
        ahead = point.beyond(there, 0.4)
        found.append(
            [
                *(p.value for p in (point, ahead)),
                point.size,
                *point.gradient(),
                *point.hessian_product(direction),
                *point.hessian_diagonal(),
                point.curvature_along(U, V),
                point.label_curvature(),
                point.slope_towards(there),
                point.score_gradient().matrix(),
                # At scale 1 the slopes of the losses are in their domain, and both pay the same for the rest.
                one.conjugate(point.score_gradient(), 1.0),
                point.score_gradient().conjugate(1.0),
            ]
        )
    for mine, wanted in zip(*found, strict=True):
        assert_allclose(mine, wanted, **CLOSE)
    # The next multipliers are the slopes of the term.
    point = terms[0].at(factors)
    slopes = point.slopes - setup.objective.at(factors).slopes
    assert_allclose(bounds[0].next(multipliers, point, None), slopes, **CLOSE)
    # One price for all that is not a slope of a loss is never more than two.
    for scale in SCALES:
        mine, theirs = (
            one.conjugate(term.at(factors).score_gradient(), scale)
            for one, term in zip(bounds, terms, strict=True)
        )
        assert mine <= theirs + 1e-12 * abs(theirs)


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind.kept], ids=str)
def test_weak_duality_holds_with_the_term_of_the_bound(kind):
    # Of the smooth problem for every model, and of the constrained one for those within the bound.
    setup, (bounds, _), (term, _), _ = bounded_setup(kind)
    penalties = Penalties(0.05, 0.02)
    if setup.oracle.intercept and not setup.free:
        penalties = Penalties(0.05, 0.02, 0.1, -0.5)
    points = [term.at(setup.factors(seed=seed, size=0.7)) for seed in range(4)]
    smooth = max(certify(term, point, penalties).dual for point in points)
    exact = max(certify(term, point, penalties, conjugate=bounds.conjugate).dual for point in points)
    models = [setup.factors(1 + seed % 3, seed=seed, size=0.1 * (seed - 9)) for seed in range(10, 30)]
    assert smooth <= min(penalised(term, model, penalties) for model in models) + 1e-12
    inside = [within(setup, seed, BOUND) for seed in range(10, 30)]
    assert exact <= min(penalised(setup.objective, model, penalties) for model in inside) + 1e-12
    assert np.isfinite([smooth, exact]).all()


def test_threads_change_no_digit_of_kept_scores():
    # Enough entries for two chunks, and for work to be handed to a second thread.
    objective, factors = large_objective(800, 60, 50, 0.5, block_entries=100, kept_entries=10**6)
    assert isinstance(objective, KeptScoresObjective)
    found = []
    for count in (1, 2):
        with limit_threads(count):
            point = objective.at(factors)
            gradient = point.score_gradient(balanced=True)
            found.append([point.value, flat(point.gradient()), *map(gradient.conjugate, SCALES)])
    for mine, wanted in zip(*found, strict=True):
        assert_array_equal(mine, wanted)


def test_scores_are_kept_only_of_as_many_entries_as_allowed():
    for allowed, kept in ((50 * 20, True), (50 * 20 - 1, False), (0, False)):
        objective, _ = large_objective(50, 20, 30, 0.1, block_entries=100, kept_entries=allowed)
        assert isinstance(objective, KeptScoresObjective) == kept
    # No other loss has a compiled pass.
    objective, _ = large_objective(50, 20, 30, 0.1, 100, "exponential", kept_entries=10**6)
    assert isinstance(objective, UnlabelledObjective)
    # All arrays of n·L numbers together stay within the limit.
    assert entries_kept_within(256) * 8 * 24 <= 256e6


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_the_number_of_threads_changes_no_digit(loss, kind):
    # Blocks of one row each, so that there are many to distribute.
    setup = make_setup(Kind(loss, features=kind, held_out=True, block_entries=3))
    factors, other = setup.factors(), setup.factors(1, seed=1)
    with limit_threads(1):
        alone = list(all_answers(setup, factors, other))
    for count in (2, 5):
        with limit_threads(count):
            for mine, wanted in zip(all_answers(setup, factors, other), alone, strict=True):
                assert_array_equal(mine, wanted)


def large_objective(n, n_labels, d, density, block_entries, loss="logistic", kept_entries=0):
    rng = np.random.default_rng(0)
    X = sp.random_array((n, d), density=density, format="csr", rng=rng)
    recorded = rng.choice(n * n_labels, size=5 * n, replace=False)
    positives = ObservedLabels.from_triplets(
        *np.divmod(np.sort(recorded), n_labels), np.ones(len(recorded), dtype=int), shape=(n, n_labels)
    )
    problem = make_problem(
        X,
        positives,
        loss,
        flip_rate=np.full(n_labels, 0.3),
        score_bound=5.0,
        block_entries=block_entries,
        kept_entries=kept_entries,
    )
    return problem.objective(positives), random_factors(rng, d, n_labels, 2, 0.3)


def test_blocks_side_by_side_do_not_wait_for_each_other():
    # Products with sparse features of this size are threaded themselves, inside of threaded blocks.
    objective, factors = large_objective(2000, 60, 50, 0.5, block_entries=20_000)
    gradient = objective.at(factors).score_gradient()
    with limit_threads(1):
        alone = gradient.matrix()
    with limit_threads(2):
        assert_array_equal(gradient.matrix(), alone)


def test_nothing_of_the_size_of_the_label_matrix_is_kept():
    n, n_labels, megabytes = 10_000, 1500, 4
    small, factors = large_objective(50, 20, 30, 0.1, block_entries=100)
    small.at(factors).gradient()  # what is compiled on first use is not what is measured
    objective, factors = large_objective(n, n_labels, 30, 0.1, block_entries=entries_within(megabytes))
    tracemalloc.start()
    try:
        objective.at(factors).gradient()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Blocks at work, and a few arrays like the entries and the factors. All entries would take 120 MB.
    entries = 8 * (n + n_labels + objective.recorded.pattern.indices.size)
    assert peak <= megabytes * 1e6 + 10 * entries < 0.1 * 8 * n * n_labels


def test_the_gram_term_equals_all_entries_of_the_squared_loss():
    loss, some = get_loss("squared"), [np.arange(N_LABELS), np.array([0, 3])]
    for intercept, label_features, kept in product([True, False], [True, False], some):
        setup = make_setup(Kind("squared", intercept, label_features=label_features))
        design = setup.objective.every.design
        gram = GramTerm(design, kept, 40.0, has_intercept=intercept)
        every = AllEntriesTerm(design, loss, kept, 40.0, has_intercept=intercept, block_entries=12)
        factors = setup.factors(3), setup.factors(2, seed=1)
        terms = [Setup(term, setup.oracle) for term in (gram, every)]
        mine, theirs = (list(term_answers(term, *factors)) for term in terms)
        for a, b in zip(mine, theirs, strict=True):
            assert_allclose(a, b, **CLOSE)
        # How much there is to cancel is bounded, since not an entry is looked at.
        up, down = gram.at(factors[0]).signed_label_sums()
        Z = setup.oracle.scores(factors[0])
        sizes = np.zeros(N_LABELS)
        sizes[kept] = np.abs(loss.gradient(Z, 0)).sum(axis=0)[kept] / 40.0
        assert np.all(up >= 0)
        assert np.all(down <= 0)
        assert np.all(up - down >= intercept * sizes * (1 - 1e-12))


def term_answers(setup, factors, other):
    """As :func:`all_answers`, of one of the two terms over all entries."""
    point, there = setup.objective.at(factors), setup.objective.at(other)
    yield from answers(point)
    yield from answers(point.beyond(there, 0.4))
    yield from answers(point.with_intercept(there.factors.intercept))
    yield flat(point.hessian_product(there.factors._replace(left=factors.left[::-1], right=factors.right)))
    rng = np.random.default_rng(3)
    U, V = (rng.standard_normal((size, 2)) for size in setup.objective.shape)
    yield point.curvature_along(U, V)
    yield point.slope_towards(there)
    for scale in SCALES:
        yield point.score_gradient().conjugate(scale)
    yield setup.objective.starting_intercept()


# -- the dual ------------------------------------------------------------------------------------------------


def restricted_conjugate(setup, G, sums, bound):
    """``sup ⟨G, Z₀⟩ + s·b − f(Z₀ + 1bᵀ)`` over ``|Z₀| ≤ γ`` and b, by L-BFGS-B.

    ``sums`` None: there is no b.
    """
    oracle = setup.oracle
    shape, size = oracle.Y.shape, oracle.Y.size

    def negative(x):
        Z0 = x[:size].reshape(shape)
        b = x[size:] if sums is not None else np.zeros(shape[1])
        value, slope = -np.sum(G * Z0), np.zeros(shape)
        for j, loss in enumerate(oracle.losses):
            seen = ~np.isnan(oracle.Y[:, j])
            values, slopes = loss.value_and_gradient(Z0[seen, j] + b[j], oracle.Y[seen, j])
            value += values.sum() / setup.total
            slope[seen, j] = slopes / setup.total
        parts = [(slope - G).ravel()]
        if sums is not None:
            value -= sums @ b
            parts.append(slope.sum(axis=0) - sums)
        return value, np.concatenate(parts)

    free = 0 if sums is None else shape[1]
    box = [(-bound, bound)] * size + [(-30.0, 30.0)] * free
    best = optimize.minimize(
        negative, np.zeros(size + free), jac=True, bounds=box, method="L-BFGS-B", options={"ftol": 1e-13}
    )
    return -float(best.fun)


DUAL_CASES = [
    Kind("logistic", False, "identity"),
    Kind("logistic", True, "identity"),
    Kind("logistic", True, "identity", free=False),
    Kind("logistic", True, "identity", held_out=True),
    Kind("exponential", False, "identity"),
    Kind("exponential", True, "identity"),
    Kind("exponential", True, "identity", free=False, held_out=True),
    Kind("squared", True, "identity", held_out=True),
]
DUAL_CASES += [replace(kind, kept=True) for kind in DUAL_CASES if kind.loss == "logistic"]


@pytest.mark.parametrize("kind", DUAL_CASES, ids=str)
def test_the_conjugate_is_never_below_the_true_one_under_the_bound(kind):
    setup = make_setup(kind)
    for seed in range(3):
        factors = setup.factors(seed=seed, size=0.6)
        point = setup.objective.at(factors)
        gradient = point.score_gradient(balanced=setup.free)
        # X = I: the map's matrix is G itself, with the changes that the term made to it.
        G = gradient.matrix()
        sums = None
        if setup.oracle.intercept:
            sums = np.zeros(N_LABELS) if setup.free else np.add(*point.signed_label_sums())
        for scale in SCALES:
            true = restricted_conjugate(setup, scale * G, None if sums is None else scale * sums, BOUND)
            assert gradient.conjugate(scale) >= true - 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_the_conjugate_is_exact_at_the_gradient_itself(setup, seed):
    # Fenchel's equality, so that the gap closes at the optimum. There the label sums are 0.
    point = setup.objective.at(setup.factors(seed=seed))
    assert_allclose(*fenchel(setup, point, point.score_gradient()), rtol=1e-10, atol=1e-12)
    if setup.free:
        best = with_best_intercept(setup.objective, point, Penalties(1.0))
        balanced = best.score_gradient(balanced=True)
        assert_allclose(*fenchel(setup, best, balanced), rtol=1e-8, atol=1e-8)


def fenchel(setup, point, gradient):
    """``f(Z) + f*(G)`` and ``⟨G, Z⟩``."""
    G, Z = setup.oracle.score_gradient(point.factors), setup.oracle.scores(point.factors)
    return point.value + gradient.conjugate(1.0), np.sum(G * Z)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", WITHOUT_INTERCEPT, ids=str)
def test_without_an_intercept_the_conjugate_is_that_of_the_nearest_slopes(kind, scale):
    # Entry by entry, f* at the nearest slope that it is finite at, and γ for each unit of the way there. The
    # squared loss has every slope, so for it this is f*.
    setup = make_setup(kind)
    factors, expected = setup.factors(), 0.0
    slopes = scale * setup.total * setup.oracle.score_gradient(factors)
    for j, loss in enumerate(setup.oracle.losses):
        seen = ~np.isnan(setup.oracle.Y[:, j])
        slope, y = slopes[seen, j], setup.oracle.Y[seen, j]
        nearest = np.clip(slope, *loss.slope_range(y))
        expected += np.sum(loss.conjugate(nearest, y) + BOUND * np.abs(slope - nearest))
    conjugate = setup.objective.at(factors).score_gradient().conjugate(scale)
    assert_allclose(conjugate, expected / setup.total, **CLOSE)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("held_out", [True, False])
def test_the_conjugate_of_the_squared_loss_is_exact_at_any_scale(scale, free, held_out):
    setup = make_setup(Kind("squared", True, "identity", free=free, held_out=held_out))
    point = setup.objective.at(setup.factors())
    gradient = point.score_gradient(balanced=free)
    # X = I: this is G, of sum 0 in each label where the intercept is free.
    G = gradient.matrix()
    if free:
        assert_allclose(G.sum(axis=0), 0, atol=1e-15)
    assert_allclose(gradient.conjugate(scale), setup.oracle.conjugate(scale * G), **CLOSE)


def test_without_a_bound_only_the_squared_loss_has_a_dual():
    for loss in UNLABELLED_LOSSES:
        setup = make_setup(Kind(loss, False, "identity", bound=None))
        gradient = setup.objective.at(setup.factors()).score_gradient()
        # A gradient shrunk to half is outside of the domain where the loss falls without limit.
        assert np.isfinite(gradient.conjugate(0.5)) == (loss == "squared")


@pytest.mark.parametrize("bound", [0.5, 4.0])
def test_weak_duality_holds_for_every_model_within_the_bound(setup, bound):
    # The dual value at any point bounds the penalised objective of any model with |XWFᵀ| ≤ γ.
    term = setup.with_bound(bound)
    for penalties in (Penalties(0.02), Penalties(0.05, 0.02), Penalties(0.0, 0.05)):
        if setup.oracle.intercept and not setup.free:
            penalties = Penalties(penalties.trace, penalties.ridge, 0.1, -0.5)
        points = [term.at(setup.factors(seed=seed, size=0.7)) for seed in range(4)]
        duals = [certify(term, point, penalties).dual for point in points]
        objectives = [penalised(term, within(setup, seed, bound), penalties) for seed in range(10, 30)]
        assert max(duals) <= min(objectives) + 1e-12
        assert np.isfinite(max(duals))


def within(setup, seed, bound):
    """A random model scaled into the bound."""
    factors = setup.factors(1 + seed % 3, seed=seed, size=0.1 * (seed - 9))
    largest = np.abs(setup.oracle.low_rank(factors)).max()
    return factors._replace(left=factors.left * min(1.0, bound / largest))


def penalised(term, factors, penalties):
    values = np.linalg.svd(factors.left @ factors.right.T, compute_uv=False)
    point = with_best_intercept(term, term.at(factors), penalties)
    return point.value + penalties.of(values, point.factors.intercept)
