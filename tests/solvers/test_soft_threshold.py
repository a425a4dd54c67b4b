"""The closed form of ``½‖R − M‖_F² + λ‖M‖_*`` against dense decompositions and CVXPY, and its certificate."""

from __future__ import annotations

import warnings

import array_api_compat.numpy
import cvxpy as cp
import numpy as np
import pytest
from array_api_compat import array_namespace

from labelgap.solvers import soft_threshold as module
from labelgap.solvers.linalg import host, thin_qr
from labelgap.solvers.soft_threshold import SPARE, soft_threshold
from labelgap.solvers.spectral import Spectrum


class Dense:
    """R as an array of any namespace, in double precision; products are in the precision of the vectors."""

    def __init__(self, R, xp=array_api_compat.numpy):
        self.xp, self.R = xp, xp.asarray(np.asarray(R, dtype=np.float64))
        self.shape, self.squares = R.shape, float(np.sum(np.square(R, dtype=np.float64)))

    def times(self, V):
        return self.xp.astype(self.R, V.dtype) @ V

    def transposed_times(self, U):
        return self.xp.astype(self.R, U.dtype).T @ U

    def normal(self, V):
        if self.shape[1] <= self.shape[0]:
            return self.transposed_times(self.times(V))
        return self.times(self.transposed_times(V))


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def spectrum_of(R, width=64, dtype="float64", start=None):
    """A spectrum that begins with so many random columns."""
    size = min(R.shape)
    columns = numbers(size, min(width, size), seed=1) if start is None else start
    return Spectrum(R.normal, thin_qr(R.xp.asarray(columns, dtype=getattr(R.xp, dtype)))[0])


def solved(R, penalty, *, rank=10**6, tol=1e-6, dtype="float64", width=64, spectrum=None):
    R = Dense(R) if isinstance(R, np.ndarray) else R
    spectrum = spectrum_of(R, width, dtype) if spectrum is None else spectrum
    return soft_threshold(R, spectrum, penalty, rank=rank, tol=tol)


def matrix_of(found):
    return host(found.image * found.kept) @ host(found.right).T


def optimum(R, penalty):
    """M and the minimum by the full decomposition."""
    U, values, Vt = np.linalg.svd(R, full_matrices=False)
    lowered = np.maximum(values - penalty, 0.0)
    return (U * lowered) @ Vt, 0.5 * np.sum((values - lowered) ** 2) + penalty * lowered.sum()


def primal(R, M, penalty):
    return 0.5 * np.sum((R - M) ** 2) + penalty * np.linalg.svd(M, compute_uv=False).sum()


def gap_of(R, M, penalty):
    """The gap to the dual point ``Y = R − M``, scaled down until ``‖Y‖₂ ≤ λ``."""
    Y = R - M
    Y = Y * min(1.0, penalty / np.linalg.norm(Y, 2))
    assert np.linalg.norm(Y, 2) <= penalty * (1 + 1e-12)
    return primal(R, M, penalty) - (np.sum(Y * R) - 0.5 * np.sum(Y * Y))


TALL = 0.5 * numbers(30, 12)
HOLES = TALL * (np.arange(12) != 4) * (np.arange(30) != 3)[:, None]
LOW = numbers(60, 5) @ numbers(5, 40, seed=2)
SHAPES = {
    "tall": TALL,
    "wide": TALL.T,
    "an empty row and an empty column": HOLES,
    "the same, wide": HOLES.T,
    "one row": TALL[:1],
    "one column": TALL[:, :1],
    "one entry": TALL[:1, :1],
    "of rank 5": LOW,
    "of rank 5, wide": LOW.T,
    "repeated values": np.kron(np.diag([3.0, 3.0, 3.0, 2.0, 2.0, 1.0]), np.ones((3, 2))),
    "I": np.eye(20),
    "one value many times": np.kron(np.eye(80), np.ones((1, 2))),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fraction", [0.0, 1e-5, 0.1, 0.6])
@pytest.mark.parametrize("name", SHAPES)
def test_it_is_the_optimum_that_the_full_decomposition_gives(name, fraction, dtype):
    R = SHAPES[name]
    largest = np.linalg.norm(R, 2)
    penalty = fraction * largest
    # One column at first: whatever else there is has to be led to, or be found at random.
    for width in (64, 1):
        found = solved(R, penalty, dtype=dtype, width=width)
        best, least = optimum(R, penalty)
        np.testing.assert_allclose(matrix_of(found), best, atol=1e-5 * largest)
        # Single precision decomposes, but what is claimed is computed in double precision.
        scale = 0.5 * np.sum(R * R)
        assert found.objective == pytest.approx(primal(R, matrix_of(found), penalty), abs=1e-12 * scale)
        assert -1e-12 * scale <= found.objective - least <= found.gap + 1e-12 * scale
        if fraction > 1e-3:
            assert found.relative_gap <= 1e-6
            assert np.all(host(found.values) > penalty)
            values = np.linalg.svd(R, compute_uv=False)
            np.testing.assert_allclose(host(found.values), values[values > penalty], rtol=1e-6)


@pytest.mark.parametrize("R", [TALL[:9, :6], TALL[:6, :9]], ids=["tall", "wide"])
def test_it_is_the_optimum_that_cvxpy_finds(R):
    M = cp.Variable(R.shape)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(R - M) + 0.7 * cp.normNuc(M)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL)
    found = solved(R, 0.7)
    assert found.objective == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(matrix_of(found), M.value, atol=1e-4)


@pytest.mark.parametrize("R", [TALL, TALL.T, np.zeros((5, 4)), np.zeros((4, 5)), np.zeros((0, 4))])
def test_above_the_largest_singular_value_nothing_is_left(R):
    found = solved(R, 100.0)
    assert found.image.shape == (R.shape[0], 0)
    assert found.right.shape == (R.shape[1], 0)
    assert found.values.shape == found.kept.shape == (0,)
    assert found.objective == pytest.approx(0.5 * np.sum(R * R))
    assert found.gap == found.relative_gap == 0.0


DECAYING = numbers(300, 120) * np.linspace(1, 0, 120) ** 2


@pytest.mark.parametrize("R", [DECAYING, DECAYING.T], ids=["tall", "wide"])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"rank": 5}, id="a limited rank"),
        pytest.param({"rank": 10, "width": 4}, id="and a small space"),
        pytest.param({"rank": 20, "width": 8, "dtype": "float32"}, id="in single precision"),
        pytest.param({"tol": 0.5, "width": 32, "penalty": 9.0}, id="a wide tolerance"),
        pytest.param({"tol": 0.5, "width": 8, "penalty": 12.0}, id="nothing found"),
    ],
)
def test_a_solution_that_is_not_the_best_says_by_how_much(options, R):
    options = {"rank": 100, "tol": 1e-6, "penalty": 2.0} | options
    found, penalty = solved(R, **options), options["penalty"]
    least, M = optimum(R, penalty)[1], matrix_of(found)
    assert np.linalg.matrix_rank(M) == len(found.values) <= options["rank"]
    assert found.objective == pytest.approx(primal(R, M, penalty), rel=1e-9)
    excess, exact = found.objective - least, gap_of(R, M, penalty)
    assert 1e-3 * least < excess <= found.gap
    # The norm of R − M is rounded up, to a tenth of the tolerance.
    assert exact <= found.gap * (1 + 1e-9)
    assert found.gap <= exact + 2 * options["tol"] * found.objective
    assert found.relative_gap == pytest.approx(found.gap / found.objective)


@pytest.mark.parametrize("R", [DECAYING, DECAYING.T], ids=["tall", "wide"])
def test_what_is_worked_on_in_single_precision_still_claims_the_truth(R, monkeypatch):
    monkeypatch.setattr(module, "_IN_DOUBLE", 0)
    for options in ({"tol": 1e-4}, {"rank": 7, "tol": 1e-3}):
        found = solved(R, 2.0, dtype="float32", **options)
        assert found.image.dtype == found.right.dtype == np.float32
        least, M = optimum(R, 2.0)[1], matrix_of(found).astype(np.float64)
        assert found.objective == pytest.approx(primal(R, M, 2.0), rel=1e-4)
        assert found.gap == pytest.approx(gap_of(R, M, 2.0), abs=2 * options["tol"] * least)
        assert found.gap >= found.objective - least - 1e-4 * least


def test_a_spectrum_that_begins_near_the_vectors_is_done_in_a_smaller_space():
    R = Dense(DECAYING)
    penalty = 9.0
    vectors = np.linalg.svd(DECAYING)[2].T
    count = int(np.sum(np.linalg.svd(DECAYING, compute_uv=False) > penalty))
    near = np.hstack([vectors[:, : 2 * count] + 1e-4 * numbers(120, 2 * count), numbers(120, 4, seed=3)])
    sizes = {}
    for name, spectrum in {"far": spectrum_of(R, 4), "near": spectrum_of(R, start=near)}.items():
        found = solved(R, penalty, spectrum=spectrum, tol=1e-3)
        np.testing.assert_allclose(matrix_of(found), optimum(DECAYING, penalty)[0], atol=0.2)
        assert found.relative_gap <= 1e-3
        sizes[name] = spectrum.columns
    assert sizes["near"] < sizes["far"]


def test_a_spectrum_serves_one_penalty_after_another_and_grows_no_further_than_it_must():
    R = Dense(DECAYING)
    spectrum = spectrum_of(R, 8)
    sizes = []
    for penalty in (12.0, 8.0, 4.0):
        found = solved(R, penalty, spectrum=spectrum, tol=1e-3)
        assert found.objective == pytest.approx(optimum(DECAYING, penalty)[1], rel=1e-3)
        assert spectrum.columns >= SPARE * len(found.values)
        sizes.append(spectrum.columns)
    assert sizes == sorted(sizes)
    assert sizes[0] < 120
    basis = spectrum.vectors(spectrum.columns)
    np.testing.assert_allclose(basis.T @ basis, np.eye(spectrum.columns), atol=1e-10)


@pytest.mark.parametrize("R", [DECAYING, DECAYING.T, LOW, LOW.T], ids=["tall", "wide", "low", "low, wide"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_do_as_arrays_do(R, dtype, torch):
    import array_api_compat.torch as xp

    given = Dense(R, xp)
    found = solved(given, 3.0, spectrum=spectrum_of(given, 16, dtype), tol=1e-4)
    plain = solved(R, 3.0, width=16, dtype=dtype, tol=1e-4)
    assert all(array_namespace(part) is xp for part in (found.image, found.values, found.right))
    assert found.relative_gap <= 1e-4
    np.testing.assert_allclose(host(found.values), plain.values, rtol=1e-4)
    np.testing.assert_allclose(matrix_of(found), matrix_of(plain), atol=0.05)
    assert found.gap >= found.objective - optimum(R, 3.0)[1] - 1e-9 * found.objective
