import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.losses import loss_names
from labelgap.objective.protocol import Factors, zero_sum_factors
from labelgap.solvers import SOLVERS, Penalties
from labelgap.solvers.certificate import certify
from labelgap.solvers.linalg import balanced
from labelgap.solvers.spectral import LowRankShift, following_triplets, leading_triplets
from solver_problems import Asked, Case, random_factors

pytestmark = pytest.mark.pairwise

ORACLE = 2e-8


def random_points(case, objective):
    """Far from any optimum: ranks 0 to 3, small and large, with random intercepts."""
    rng = np.random.default_rng(13)
    for rank in range(4):
        for size in (0.1, 1.0):
            yield objective.at(random_factors(rng, objective.shape[0], case.n_labels, rank, size))


PENALTIES = {
    "trace": Penalties(0.02),
    "trace and ridge": Penalties(0.02, 0.01),
    "ridge": Penalties(0.0, 0.05),
    "little trace, much ridge": Penalties(1e-4, 0.05),
    "penalised intercepts": Penalties(0.02, 0.01, intercept=0.05, centre=-0.3),
    "ridge and penalised intercepts": Penalties(0.0, 0.05, intercept=0.5, centre=0.2),
}


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize(
    ("name", "intercept"),
    # Without intercepts there is nothing to penalise.
    [(name, on) for name, one in PENALTIES.items() for on in (True, False) if on or one.intercept == 0],
)
@pytest.mark.parametrize("kind", ["dense", "identity"])
def test_dual_and_objective_enclose_the_optimum_from_anywhere(loss, intercept, name, kind):
    penalties = PENALTIES[name]
    case = Case(kind, loss, intercept, weighted=True, centre=False)
    optimum = case.optimum(penalties)
    objective = case.objective(free_intercept=penalties.intercept == 0)
    slack = ORACLE * optimum
    for point in random_points(case, objective):
        certificate = certify(objective, point, penalties)
        assert certificate.dual <= optimum + slack
        assert optimum <= certificate.objective + slack
        assert certificate.gap == pytest.approx(certificate.objective - certificate.dual)
        W = point.factors.left @ point.factors.right.T
        values = np.linalg.svd(W, compute_uv=False)
        assert_allclose(
            certificate.objective, point.value + penalties.of(values, point.factors.intercept), rtol=1e-12
        )


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("name", PENALTIES)
def test_the_gap_closes_at_the_optimum(loss, name):
    case = Case("dense", loss, centre=False)
    penalties = PENALTIES[name]
    objective = case.objective(free_intercept=penalties.intercept == 0)
    fit = SOLVERS["factored"](objective, penalties, tol=1e-8, max_iter=300)
    certificate = certify(objective, objective.at(fit.factors), penalties)
    assert 0 <= certificate.relative_gap <= 1e-6
    # Stationarity: no singular value of XᵀG + λ₂W beyond λ. The gap is of second order in what is left of it.
    assert certificate.residual.top <= penalties.trace * (1 + 1e-3) + 1e-4


def near_and_far(case, objective, penalties):
    """Random points, and places on the way to the optimum."""
    yield from (point.factors for point in random_points(case, objective))
    yield from (
        SOLVERS["factored"](objective, penalties, tol=tol, max_iter=300).factors
        for tol in (0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-5)
    )


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("name", ["trace", "trace and ridge", "penalised intercepts"])
def test_a_decision_is_that_of_an_exact_certificate(loss, name):
    case = Case("dense", loss, centre=False, n=40, d=20, n_labels=24)
    penalties = PENALTIES[name]
    objective = Asked(case.objective(free_intercept=penalties.intercept == 0), may_form=False)
    for factors in near_and_far(case, objective, penalties):
        exact = certify(objective, objective.at(factors), penalties, accuracy=1e-9)
        for tol in (0.2, 0.03, 1e-3):
            decided, close = (
                certify(objective, objective.at(factors), penalties, tol=tol, wanted=wanted)
                for wanted in ("a decision", "the gap")
            )
            assert close.relative_gap == pytest.approx(exact.relative_gap, rel=0.3, abs=0.05 * tol)
            # Gaps that are closer to the tolerance than that may be on either side.
            if not 0.7 * tol <= exact.relative_gap <= 1.3 * tol:
                assert (decided.relative_gap <= tol) == (exact.relative_gap <= tol)


@pytest.mark.parametrize("trace", [4e-3, 1e-3])
def test_a_large_fit_grows_by_many_directions_and_its_gap_is_not_too_small(trace):
    case = Case("dense", "logistic", centre=False, n=120, d=60, n_labels=50)
    penalties = Penalties(trace)
    objective = case.objective()
    large = Asked(objective, may_form=False)
    best = SOLVERS["factored"](objective, penalties, tol=1e-9)
    assert best.rank > 8
    for tol in (1e-2, 1e-3):
        fit = SOLVERS["factored"](large, penalties, tol=tol)
        assert fit.converged
        assert best.objective - 1e-12 <= fit.objective <= best.objective + fit.gap
        exact = certify(objective, objective.at(fit.factors), penalties)
        # A bound of an earlier round may be the better one.
        assert fit.objective - fit.gap <= best.objective + 1e-12
        assert fit.gap <= exact.gap * (1 + 1e-6) + 0.1 * tol * exact.scale


def test_the_residual_holds_the_leading_triplets_of_the_gradient():
    case = Case("dense", "logistic")
    penalties = Penalties(0.02, 0.3)
    objective = case.objective()
    for point in random_points(case, objective):
        # Balanced gradients have columns that sum to zero.
        gradient = point.score_gradient(point.signed_label_sums(), balanced=True)
        W = point.factors.left @ point.factors.right.T
        H = gradient.matrix() + penalties.ridge * W
        U, values, Vt = np.linalg.svd(H, full_matrices=False)
        residual = certify(objective, point, penalties, directions=2).residual
        assert_allclose(residual.values, values[:2], rtol=1e-10)
        for c in range(2):
            rank_one = np.outer(residual.left[:, c], residual.right[:, c])
            assert_allclose(rank_one, np.outer(U[:, c], Vt[c]), atol=1e-8)


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("formed", [True, False])
def test_known_singular_values_and_blocks_of_columns_change_no_certificate(name, formed):
    penalties = PENALTIES[name]
    # More labels than a block of columns.
    case = Case("dense", n=40, n_labels=70)
    objective = case.objective(free_intercept=penalties.intercept == 0)
    plain = [certify(objective, point, penalties) for point in random_points(case, objective)]
    objective = Asked(objective, formed)
    for expected, point in zip(plain, random_points(case, objective), strict=True):
        W = point.factors.left @ point.factors.right.T
        values = np.linalg.svd(W, compute_uv=False)
        certificate = certify(objective, point, penalties, singular_values=values)
        assert certificate.objective == pytest.approx(expected.objective, rel=1e-10)
        assert certificate.dual == pytest.approx(expected.dual, rel=1e-10)


def test_zero_sum_factors_shrink_the_heavier_sign():
    up, down = np.array([2.0, 1.0, 0.0, 0.0, 3.0]), np.array([-1.0, -4.0, 0.0, -2.0, 0.0])
    grow, fall = zero_sum_factors(np, up, down)
    assert_allclose(up * grow + down * fall, 0)
    assert np.all((grow >= 0) & (grow <= 1) & (fall >= 0) & (fall <= 1))
    assert_allclose(np.maximum(grow, fall)[:2], 1)


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weighted", [True, False])
def test_the_largest_penalty_is_where_W_leaves_zero(loss, intercept, solver, weighted):
    case = Case("dense", loss, intercept, weighted)
    objective = case.objective()
    largest = largest_trace_penalty(objective)
    for factor in (1.0, 1.5):
        fit = SOLVERS[solver](objective, Penalties(factor * largest), tol=1e-9)
        assert (fit.rank, fit.n_iter) == (0, 0)
        assert fit.relative_gap <= 1e-10
    below = SOLVERS[solver](objective, Penalties(0.97 * largest), tol=1e-6)
    assert below.rank >= 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_features_that_say_nothing_give_zero_with_a_closed_gap(solver):
    # A constant feature is centred away, and XᵀG vanishes exactly.
    case = Case(d=1)
    case.data[0][:] = 1.0
    objective = case.objective()
    for penalties in (Penalties(0.1), Penalties(0.1, 0.1), Penalties(0.0, 0.1)):
        fit = SOLVERS[solver](objective, penalties, tol=1e-6, max_iter=20)
        assert np.abs(case.scores(fit.factors)).max(initial=0.0) == 0
        assert fit.relative_gap <= 1e-6


class KnownMatrix:
    """A score gradient whose ``XᵀG`` is given."""

    def __init__(self, H):
        self.H = H

    def left_product(self, V):
        return self.H @ V

    def right_product(self, U):
        return self.H.T @ U

    def matrix(self):
        return self.H

    def conjugate(self, scale):
        raise NotImplementedError


def with_spectrum(values, shape, seed=0):
    rng = np.random.default_rng(seed)
    k = len(values)
    U = scipy.linalg.qr(rng.standard_normal((shape[0], k)), mode="economic")[0]
    V = scipy.linalg.qr(rng.standard_normal((shape[1], k)), mode="economic")[0]
    return (U * values) @ V.T


SPECTRA = {
    "spread": np.geomspace(1, 1e-3, 20),
    "close pair": np.r_[1.0, 1 - 1e-9, np.full(18, 0.3)],
    "cluster": np.r_[1 - 1e-6 * np.arange(15), np.full(5, 0.1)],
    "all equal": np.ones(20),
    "tiny": 1e-12 * np.geomspace(1, 0.5, 20),
    "rank one": np.array([2.0]),
}


# The dense way has two branches: up to 32 on the shorter side a full SVD, beyond that a Gram matrix.
@pytest.mark.parametrize("shape", [(24, 30), (40, 24), (50, 60), (70, 45)])
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("count", [1, 4])
def test_lanczos_agrees_with_the_dense_way(shape, spectrum, count):
    H = with_spectrum(SPECTRA[spectrum], shape)
    rng = np.random.default_rng(2)
    left, right = (
        1e-3 * np.abs(H).max() * rng.standard_normal((shape[0], 2)),
        rng.standard_normal((shape[1], 2)),
    )
    shift = LowRankShift(KnownMatrix(H - left @ right.T), left, right)
    truth = np.linalg.svd(H, compute_uv=False)
    dense, sparse = (leading_triplets(shift, shape, count, may_form) for may_form in (True, False))
    for triplets in (dense, sparse):
        assert triplets.left.shape == (shape[0], count)
        assert triplets.right.shape == (shape[1], count)
        # Values below the leading one may be off by what the Gram matrix rounds away.
        assert_allclose(triplets.values, truth[:count], rtol=1e-6, atol=1e-7 * truth[0])
        # Never below the true σ₁ but for the rounding of the oracle itself, and never far above.
        assert truth[0] * (1 - 1e-14) <= triplets.top <= truth[0] * (1 + 1e-5)
    leading = sparse.left[:, :1].T @ H @ sparse.right[:, :1]
    assert_allclose(leading, truth[0], rtol=1e-6)


@pytest.mark.parametrize("may_form", [True, False])
@pytest.mark.parametrize("shape", [(90, 60), (45, 70)])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_triplets_are_followed_from_one_matrix_to_the_next(shape, spectrum, may_form):
    rng = np.random.default_rng(5)
    H = with_spectrum(SPECTRA[spectrum], shape)
    truth = np.linalg.svd(H, compute_uv=False)
    above = 0.5 * (truth[9] + truth[10]) if truth[10] > 1e-9 * truth[0] else 0.5 * truth[0]
    none = np.zeros((shape[0], 0)), np.zeros((shape[1], 0))
    vectors = np.zeros((shape[1], 0))
    for step in range(12):
        moved = H + 1e-3 * 4.0**-step * truth[0] / np.sqrt(min(shape)) * rng.standard_normal(shape)
        shift = LowRankShift(KnownMatrix(moved), *none, scale=0.0)
        found = following_triplets(shift, shape, vectors, above=above, may_form=may_form)
        vectors = found.right
        # Never more than there is.
        values = np.linalg.svd(moved, compute_uv=False)
        assert np.all(found.values <= values[: len(found.values)] * (1 + 1e-9) + 1e-7 * values[0])
    kept = int(np.sum(truth > above))
    assert_allclose(found.values[:kept], truth[:kept], rtol=1e-5)
    left, right = found.left[:, :kept], found.right[:, :kept]
    assert_allclose(left.T @ left, np.eye(kept), atol=1e-9)
    assert_allclose(left.T @ H @ right, np.diag(truth[:kept]), atol=1e-4 * truth[0])


@pytest.mark.parametrize("shape", [(24, 30), (40, 36), (50, 60)])
@pytest.mark.parametrize("made", [False, True], ids=["factors only", "with their product"])
def test_all_triplets_give_the_matrix_back(shape, made):
    rng = np.random.default_rng(3)
    H = rng.standard_normal(shape)
    left, right = rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2))
    shift = LowRankShift(KnownMatrix(H), left, right, left @ right.T if made else None)
    triplets = leading_triplets(shift, shape, min(shape), may_form=True)
    assert_allclose((triplets.left * triplets.values) @ triplets.right.T, H + left @ right.T, atol=1e-10)
    assert_allclose(triplets.left.T @ triplets.left, np.eye(min(shape)), atol=1e-6)
    assert np.all(np.diff(triplets.values) <= 0)
    assert_allclose(shift.gradient_matrix, H)


@pytest.mark.parametrize("formed", [True, False])
@pytest.mark.parametrize("shape", [(20, 25), (50, 60)])
def test_triplets_of_a_zero_matrix_are_zero(formed, shape):
    shift = LowRankShift(KnownMatrix(np.zeros(shape)), np.zeros((shape[0], 0)), np.zeros((shape[1], 0)))
    triplets = leading_triplets(shift, shape, 2, formed)
    assert_allclose(triplets.values, 0, atol=1e-300)
    assert triplets.top == 0
    followed = following_triplets(shift, shape, shift.right, above=0.0, may_form=formed)
    assert_allclose(followed.values, 0, atol=1e-300)


def test_lanczos_is_repeatable():
    shape = (50, 60)
    shift = LowRankShift(
        KnownMatrix(with_spectrum(SPECTRA["cluster"], shape)), np.zeros((50, 0)), np.zeros((60, 0))
    )
    first, second = (leading_triplets(shift, shape, 3, may_form=False) for _ in range(2))
    np.testing.assert_array_equal(first.left, second.left)
    np.testing.assert_array_equal(first.values, second.values)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["dense", "csr", "identity"])
def test_fits_by_lanczos_alone_equal_fits_by_dense_matrices(solver, kind):
    case = Case(kind, n=30, d=20, n_labels=15, seed=4)
    objective = case.objective()
    penalties = Penalties(0.3 * largest_trace_penalty(objective), 1e-3)
    dense = SOLVERS[solver](objective, penalties, tol=1e-5)
    unformed = Asked(objective, False)
    sparse = SOLVERS[solver](unformed, penalties, tol=1e-5)
    assert dense.converged
    assert sparse.converged
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-5)
    assert sparse.gap >= sparse.objective - dense.objective - 1e-12
    point = objective.at(sparse.factors)
    by_lanczos = certify(unformed, point, penalties)
    by_svd = certify(objective, point, penalties)
    # The σ₁ that Lanczos reports is a shade larger, so its dual is a shade lower.
    assert by_lanczos.dual <= by_svd.dual + 1e-12
    assert by_lanczos.dual == pytest.approx(by_svd.dual, rel=1e-6)


@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (2, 3)])
@pytest.mark.parametrize("rank", [0, 1, 2, 5])
def test_balanced_keeps_W_and_makes_half_the_squares_the_trace_norm(shape, rank):
    rng = np.random.default_rng(rank)
    left, right = 5 * rng.standard_normal((shape[0], rank)), 0.1 * rng.standard_normal((shape[1], rank))
    values, U, V = balanced(left, right)
    W = left @ right.T
    assert U.shape[1] == V.shape[1] == len(values) == min(rank, *shape)
    assert_allclose(U @ V.T, W, atol=1e-12)
    assert_allclose(values, np.linalg.svd(W, compute_uv=False)[: len(values)], atol=1e-12)
    assert_allclose(0.5 * (np.sum(U**2) + np.sum(V**2)), values.sum(), atol=1e-12)
    assert_allclose(U.T @ U, np.diag(values), atol=1e-12)
    assert_allclose(V.T @ V, np.diag(values), atol=1e-12)


def test_balanced_drops_what_lies_below_the_cutoff():
    left, right = np.diag([1.0, 1e-4, 1e-12]), np.eye(3)
    assert_allclose(balanced(left, right)[0], [1.0, 1e-4])
    assert_allclose(balanced(left, right, cutoff=1e-3)[0], [1.0])
    assert len(balanced(left, right, cutoff=0.0)[0]) == 3
    # Two columns that cancel: W = 0 has no directions at all.
    column = np.ones((3, 1))
    values, U, V = balanced(np.hstack([column, column]), np.zeros((4, 2)))
    assert len(values) == U.shape[1] == V.shape[1] == 0


def test_a_certificate_at_zero_needs_no_factors():
    case = Case()
    objective = case.objective()
    zero = Factors.zero(objective.shape, np.zeros(case.n_labels))
    certificate = certify(objective, objective.at(zero), Penalties(0.05))
    assert certificate.objective == pytest.approx(np.log(2))
    assert certificate.dual <= case.optimum(Penalties(0.05)) + 1e-8
