"""Leading singular triplets, against a dense decomposition."""

import numpy as np
import pytest

from labelgap.solvers.spectral import leading_by_blocks


def found_of(A, count=1, accuracy=1e-9):
    return leading_by_blocks(lambda V: A @ V, lambda U: A.T @ U, A.shape, count, accuracy)


def matrix(values, shape, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, len(values))))[0] for n in shape)
    return (U * values) @ V.T


@pytest.mark.parametrize("shape", [(200, 60), (60, 200), (9, 7), (1, 5), (5, 1)])
@pytest.mark.parametrize("count", [1, 4])
def test_values_and_vectors_are_those_of_the_dense_decomposition(shape, count):
    A = np.random.default_rng(1).standard_normal(shape)
    count = min(count, *shape)
    found = found_of(A, count)
    values = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(found.values[0], values[0], rtol=1e-12)
    np.testing.assert_allclose(found.values, values[:count], rtol=1e-2)
    assert np.linalg.norm(A @ found.right[:, 0] - found.values[0] * found.left[:, 0]) < 2e-9 * values[0]
    assert np.linalg.norm(A.T @ found.left[:, 0] - found.values[0] * found.right[:, 0]) < 2e-9 * values[0]


@pytest.mark.parametrize("accuracy", [1e-2, 1e-5])
def test_a_cluster_larger_than_the_block_is_no_trouble(accuracy):
    A = matrix(np.r_[np.full(30, 1.0), np.linspace(0.999, 0.0, 70)], (300, 250))
    found = found_of(A, accuracy=accuracy)
    assert found.values[0] <= 1 + 1e-12
    assert found.values[0] + found.residual >= 1 - 1e-12
    assert found.residual <= accuracy


def test_close_values_take_restarts():
    A = matrix(np.linspace(1.0, 0.9, 400), (500, 450))
    found = found_of(A, accuracy=1e-8)
    assert abs(found.values[0] - 1.0) < 1e-12


@pytest.mark.parametrize("value", [0.0, 1e-100])
def test_next_to_nothing(value):
    found = found_of(np.full((30, 20), value), 3)
    assert np.isfinite(found.values).all()
    assert found.values[0] == pytest.approx(value * np.sqrt(600), rel=1e-9, abs=0.0)


def test_a_matrix_of_low_rank():
    A = matrix(np.array([5.0, 2.0]), (100, 80))
    found = found_of(A, 4)
    np.testing.assert_allclose(found.values, [5.0, 2.0, 0.0, 0.0], atol=1e-10)


@pytest.mark.parametrize("shape", [(500, 450), (450, 500)])
@pytest.mark.parametrize("count", [1, 8])
def test_rougher_triplets_save_products(shape, count):
    A = matrix(np.linspace(1.0, 0.9, 400), shape)
    n_columns = []

    def times(V):
        n_columns.append(V.shape[1])
        return A @ V

    rough = leading_by_blocks(times, lambda U: A.T @ U, shape, count, 1e-2)
    alone = leading_by_blocks(times, lambda U: A.T @ U, shape, count, 1e-6)
    n_alone = sum(n_columns)
    from_rough = leading_by_blocks(
        times, lambda U: A.T @ U, shape, count, 1e-6, start=(rough.left, rough.right)
    )
    assert sum(n_columns) - n_alone < n_alone
    for found in (alone, from_rough):
        assert found.residual <= 1e-6
        assert 1 - 1e-6 <= found.values[0] <= 1 + 1e-12
