"""The path of proximal steps, against dense formulas; where it leads is the business of other files."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.labels import ObservedLabels
from labelgap.losses import Gaussian, Poisson
from labelgap.solvers import SOLVERS, Penalties, proximal
from labelgap.solvers.certificate import certify
from labelgap.solvers.factored import FactoredMethod
from labelgap.solvers.loop import starting_factors
from labelgap.solvers.proximal import Iterate, ProximalPath
from solver_problems import Asked, Case, make_problem, random_factors

PENALTIES = {
    "trace": Penalties(0.01),
    "trace and ridge": Penalties(0.01, 0.02),
    "ridge": Penalties(0.0, 0.02),
    "penalised intercepts": Penalties(0.01, 0.02, intercept=0.05, centre=-0.3),
}
every_penalty = pytest.mark.parametrize("penalties", PENALTIES.values(), ids=PENALTIES)
formed_or_not = pytest.mark.parametrize("formed", [True, False], ids=["W formed", "W in factors"])


def weights(point):
    return point.factors.left @ point.factors.right.T


def path_of(penalties, formed=True, cap=5, start=None, kind="dense", **case):
    objective = Asked(Case(kind, **case).objective(free_intercept=penalties.intercept == 0), formed)
    start = starting_factors(objective, start)
    return objective, ProximalPath(objective, penalties, start, min(cap, *objective.shape), 1e-6)


@every_penalty
@formed_or_not
def test_the_objective_never_rises_and_is_that_of_the_point(penalties, formed):
    objective, path = path_of(penalties, formed)
    path.certificate()
    before = path.value
    for _ in range(30):
        gained = path.advance()
        assert gained == pytest.approx(before - path.value, abs=1e-15)
        assert path.value <= before * (1 + 1e-12)
        before = path.value
        values = np.linalg.svd(weights(path.point), compute_uv=False)
        fresh = objective.at(path.point.factors)
        assert path.value == pytest.approx(
            fresh.value + penalties.of(values, path.point.factors.intercept), rel=1e-10
        )
    assert path.value < 0.99 * objective.at(starting_factors(objective, None)).value


@every_penalty
@pytest.mark.parametrize("kind", ["dense", "csr", "identity"])
def test_forming_W_changes_nothing_but_the_work(penalties, kind):
    ends = []
    for formed in (True, False):
        _, path = path_of(penalties, formed, kind=kind)
        path.certificate(3)
        for _ in range(8):
            path.advance()
        ends.append(path)
    assert ends[0].value == pytest.approx(ends[1].value, rel=1e-8)
    assert_allclose(weights(ends[0].point), weights(ends[1].point), atol=1e-5)


@every_penalty
@formed_or_not
def test_the_certificate_of_the_path_is_that_of_its_point(penalties, formed):
    objective, path = path_of(penalties, formed)
    for _ in range(4):
        mine, expected = path.certificate(2), certify(objective, path.point, penalties, directions=2)
        assert mine.objective == pytest.approx(expected.objective, rel=1e-12)
        assert mine.dual == pytest.approx(expected.dual, rel=1e-10)
        assert_allclose(mine.residual.values, expected.residual.values, rtol=1e-8, atol=1e-12)
        path.advance()


@every_penalty
@formed_or_not
@pytest.mark.parametrize("step", [0.0, 0.4])
def test_needed_stiffness_is_the_curvature_of_the_step(penalties, formed, step):
    _, path = path_of(penalties, formed)
    path.certificate()
    for _ in range(3):
        path.advance()
    ahead = path._here if step == 0 else path._here.beyond(path._previous, step)
    candidate = path._step_from(ahead)
    here, there = ahead.point, candidate.point
    move = weights(there) - weights(here)
    rise = there.value + penalties.of_intercept(there.factors.intercept)
    rise -= here.value + penalties.of_intercept(here.factors.intercept)
    slope = np.sum(here.score_gradient().matrix() * move)
    expected = 2 * (rise - slope) / np.sum(move**2)
    needed, certain = path._needed_stiffness(ahead, candidate, step)
    assert certain
    assert needed == pytest.approx(max(expected, 0.0), rel=1e-4)


@formed_or_not
def test_points_ahead_lie_on_the_line(formed):
    case = Case()
    objective = case.objective()
    rng = np.random.default_rng(2)
    here, before = (objective.at(random_factors(rng, 4, 5, rank)) for rank in (2, 3))
    one, two = (Iterate(point, weights(point) if formed else None) for point in (here, before))
    ahead = one.beyond(two, 0.7)
    assert_allclose(weights(ahead.point), 1.7 * weights(here) - 0.7 * weights(before), atol=1e-12)
    assert one.inner(two) == pytest.approx(np.sum(weights(here) * weights(before)))
    assert (ahead.W is None) == (not formed)
    if formed:
        assert_allclose(ahead.W, weights(ahead.point), atol=1e-12)


@formed_or_not
def test_a_path_under_a_cap_and_from_a_start_of_higher_rank(formed):
    start = random_factors(np.random.default_rng(3), 4, 5, 4)
    _, path = path_of(Penalties(0.001), formed, cap=2, start=start)
    path.certificate()
    for _ in range(5):
        assert path.point.factors.rank <= 2
        path.advance()
    assert path.point.factors.rank == 2


def test_much_ridge_needs_few_steps():
    # Strong convexity is known to the path: the distance to the optimum falls by a factor each step.
    penalties = Penalties(1e-3, 0.5)
    objective, path = path_of(penalties)
    path.certificate()
    for _ in range(25):
        path.advance()
    assert certify(objective, path.point, penalties).relative_gap < 1e-8


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_step_far_too_long_does_not_stop_the_path(solver):
    # exp(z) of an overshot score is astronomic, and so is the curvature of the way there.
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 2))
    W = np.array([[2.5, 2.0], [-2.0, 2.5]])
    Y = rng.poisson(np.exp(X @ W)).astype(float)
    labels = ObservedLabels.from_dense(Y, binary=False)
    problem = make_problem(X, labels, Poisson(), fit_intercept=False)
    fit = SOLVERS[solver](problem.objective(labels), Penalties(0.01), tol=1e-3)
    assert fit.converged
    left, right, _ = problem.to_original(fit.factors)
    assert_allclose(left @ right.T, W, atol=0.2)


def test_the_first_step_from_zero_uses_the_triplets_of_its_certificate(monkeypatch):
    penalties = Penalties(trace=0.02, ridge=0.001)
    _, with_them = path_of(penalties, True)
    _, without = path_of(penalties, True)
    with_them.certificate()
    without.certificate()
    without._at_zero = None
    found = []
    original = proximal.leading_triplets

    def noted(*args, **options):
        found.append(args)
        return original(*args, **options)

    monkeypatch.setattr(proximal, "leading_triplets", noted)
    with_them.advance()
    assert not found
    without.advance()
    assert found
    assert_allclose(weights(with_them.point), weights(without.point), atol=1e-10)
    # Another step is from another place.
    found.clear()
    with_them.advance()
    assert found


def test_a_step_a_little_too_long_is_kept_where_the_objective_falls(monkeypatch):
    _, path = path_of(Penalties(trace=0.02), True)
    path.certificate()
    path.advance()
    steps = []
    original = ProximalPath._step_from

    def counted(self, ahead):
        steps.append(self._stiffness)
        return original(self, ahead)

    needed = ProximalPath._needed_stiffness
    monkeypatch.setattr(ProximalPath, "_step_from", counted)
    monkeypatch.setattr(ProximalPath, "_needed_stiffness", lambda self, *rest: (1.2 * self._stiffness, True))
    value = path.value
    path.advance()
    assert len(steps) == 1
    assert path.value < value
    # The next one is shorter by that.
    assert path._stiffness == pytest.approx(1.1 * 1.2 * steps[0])
    # What is only rounding lets steps become shorter by the factor of a repetition, and no more.
    before = path._stiffness
    monkeypatch.setattr(ProximalPath, "_needed_stiffness", lambda self, *rest: (1e6 * self._stiffness, False))
    path.advance()
    assert path._stiffness <= 4 * before
    # Far too long is made again.
    steps.clear()
    asked = []

    def far_too_long(self, *rest):
        asked.append(self)
        return (3.0 * self._stiffness, True) if len(asked) == 1 else needed(self, *rest)

    monkeypatch.setattr(ProximalPath, "_needed_stiffness", far_too_long)
    path.advance()
    assert len(steps) > 1


def test_intercepts_are_found_closely_whatever_the_tolerance():
    # Loose ones look like curvature, which shortened the steps of loose fits.
    _, path = path_of(Penalties(trace=0.02), True)
    loose = ProximalPath(path._objective, path._penalties, path.point.factors, path._cap, 0.5)
    assert loose._intercept_tol <= 0.05


def test_few_digits_will_do_while_the_gap_is_wide(monkeypatch):
    # More than 32 on the shorter side, below which the matrix is decomposed as it is.
    penalties = Penalties(trace=0.001, ridge=0.001)
    asked, ends = [], {}
    original = proximal.leading_triplets

    def noted(*args, single, **options):
        asked.append(single)
        return original(*args, single=single, **options)

    monkeypatch.setattr(proximal, "leading_triplets", noted)
    for may_be_lost in (0.0, proximal._MAY_BE_LOST):
        monkeypatch.setattr(proximal, "_MAY_BE_LOST", may_be_lost)
        objective, path = path_of(penalties, cap=44, n=120, d=40, n_labels=44)
        asked.clear()
        for _ in range(3):
            path.certificate()
            path.advance()
        assert any(asked) == (may_be_lost > 0)
        # The certificate is that of a point whose factors are what they should be.
        mine, expected = path.certificate(), certify(objective, path.point, penalties)
        assert mine.objective == pytest.approx(expected.objective, rel=1e-9)
        assert mine.dual == pytest.approx(expected.dual, rel=1e-9)
        ends[may_be_lost] = path.value
        for _ in range(60):
            path.advance()
            path.certificate()
        # The last digits need all of them.
        assert path.certificate().relative_gap < 1e-7
        asked.clear()
        path.advance()
        assert not any(asked)
    few, all_digits = ends.values()
    assert few == pytest.approx(all_digits, rel=1e-7)


def one_large_direction(size, share, ratio):
    """A Gaussian problem in W itself whose first singular value is ``ratio`` times λ, the others about λ."""
    rng = np.random.default_rng(0)
    U, V, X = (np.linalg.qr(rng.standard_normal((size, size)))[0] for _ in range(3))
    Y = X @ (U * np.r_[ratio, np.linspace(3, 0.5, size - 1)]) @ V.T
    Y[rng.random(Y.shape) > share] = np.nan
    labels = ObservedLabels.from_dense(Y, binary=False)
    problem = make_problem(X, labels, Gaussian(), features={"centre": False}, fit_intercept=False)
    objective = problem.objective(labels)
    return objective, Penalties(largest_trace_penalty(objective) / ratio)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("share", "ratio"), [(1.0, 200), (0.7, 120), (0.7, 30)])
def test_what_single_precision_loses_does_not_keep_the_gap_open(solver, share, ratio, monkeypatch):
    objective, penalties = one_large_direction(60, share, ratio)
    found = SOLVERS[solver](objective, penalties, tol=1e-3, max_iter=200)
    monkeypatch.setattr(proximal, "_MAY_BE_LOST", 0.0)
    expected = SOLVERS[solver](objective, penalties, tol=1e-3, max_iter=200)
    assert found.converged
    assert found.n_iter <= expected.n_iter + 10
    assert found.objective == pytest.approx(expected.objective, rel=1e-3)


def test_a_cap_keeps_all_digits():
    objective, penalties = one_large_direction(60, 1.0, 30)
    path = ProximalPath(objective, penalties, starting_factors(objective, None), 10, 1e-8)
    assert path.certificate().relative_gap > 0.1
    assert not path._few_digits_will_do(penalties.trace)
    free = ProximalPath(objective, penalties, starting_factors(objective, None), 60, 1e-8)
    free.certificate()
    assert free._few_digits_will_do(penalties.trace)
    assert not free._few_digits_will_do(1e6 * penalties.trace)


def test_few_digits_are_found_to_be_too_few_where_the_matrix_is_another_one(monkeypatch):
    objective, penalties = one_large_direction(60, 0.7, 30)
    path = ProximalPath(objective, penalties, starting_factors(objective, None), 60, 1e-3)
    path.certificate()
    path.advance()
    asked = []
    original = proximal.leading_triplets

    def noted(*args, single, **options):
        asked.append(single)
        return original(*args, single=single, **options)

    monkeypatch.setattr(proximal, "leading_triplets", noted)
    path._stiffness *= 1e4
    path.advance()
    assert asked[:2] == [penalties.trace, None]


def test_a_tiny_penalty_does_not_overflow():
    objective, _ = path_of(Penalties(0.01))
    fit = SOLVERS["factored"](objective, Penalties(1e-170, 1e-3), tol=1e-3)
    assert fit.converged


@pytest.mark.parametrize(
    ("gaps", "steps"),
    [
        # One round is no pace yet, and a gap that grows has none.
        ([0.9, 0.2], 4),
        ([0.9, 0.2, 0.3], 4),
        # At a factor of 2 for each step of 4: so many to 0.01, but no fewer than half a round.
        ([0.9, 16.0, 1.0], 4),
        ([0.9, 0.64, 0.04], 2),
        ([0.9, 1.28, 0.08], 3),
        ([0.9, 0.176, 0.011], 2),
    ],
)
def test_the_last_round_is_as_long_as_the_pace_of_the_one_before_asks(gaps, steps):
    method = FactoredMethod(Case().objective(), Penalties(0.001), rank=None, tol=0.01, max_iter=100)
    method.begin(None, None)
    scale = method.certify().scale
    method._gaps = [gap * scale for gap in gaps]
    method.iteration = 8
    method.step(lambda: False)
    assert method.iteration == 8 + steps
