import multiprocessing

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap import _arrays
from labelgap.kernels import entries, entry_pattern, threads
from labelgap.kernels.entries import (
    csr_product,
    csr_product_pair,
    sampled_product,
    sparse_sampled_product,
    sparse_sparse_product,
)
from labelgap.kernels.entry_pattern import (
    EntryPattern,
    hessian_product,
    row_parts,
    scattered_product,
    strip_of,
)
from labelgap.kernels.threads import limit_threads, thread_count

N, N_LABELS = 23, 11


def random_sparse(seed, shape=(N, N_LABELS), density=0.3):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random(shape) < density, rng.standard_normal(shape), 0.0)
    # Rows without entries at both ends and in the middle.
    dense[[0, 7, -1]] = 0
    S = sp.csr_array(dense)
    return S, dense, S.indptr.astype(np.int64), S.indices


def all_answers(k, dtype=np.float64):
    """Every kernel on one set of data; arrays in the order of ``expected_answers``."""
    S, _, indptr, indices = random_sparse(0)
    rng = np.random.default_rng(1)
    P, dP = rng.standard_normal((2, N, k)).astype(dtype)
    B, dB = rng.standard_normal((2, N_LABELS, k)).astype(dtype)
    db = rng.standard_normal(N_LABELS).astype(dtype)
    curvature = rng.random(len(indices)).astype(dtype)
    data = S.data.astype(dtype)
    given = P, dP, B, dB, db, curvature, data
    answers = {
        "sampled": sampled_product(indptr, indices, P, B),
        "product": csr_product(indptr, indices, data, B),
        "transposed": scattered_product(indptr, indices, data, P, N_LABELS, 16),
    }
    if dtype == np.float64:
        # Objectives are in double precision, and compute these alone.
        order = np.arange(len(data), dtype=np.int32)
        answers["pair"] = csr_product_pair(indptr, indices, order, data, B, curvature, dB)
        pattern = EntryPattern(indptr, indices, N_LABELS)
        answers["hessian"] = hessian_product(pattern, P, dP, B, dB, db, curvature, data)
    return given, answers


def expected_answers(given):
    P, dP, B, dB, db, curvature, data = given
    _, dense, indptr, indices = random_sparse(0)
    rows = np.repeat(np.arange(N), np.diff(indptr))

    def matrix(values):
        M = np.zeros((N, N_LABELS))
        M[rows, indices] = values
        return M

    assert_array_equal(matrix(random_sparse(0)[0].data), dense)
    dZ = dP @ B.T + P @ dB.T + db
    curved = matrix(curvature) * dZ
    return {
        "sampled": (P @ B.T)[rows, indices],
        "product": matrix(data) @ B,
        "pair": matrix(data) @ B + matrix(curvature) @ dB,
        "hessian": (
            curved @ B + matrix(data) @ dB,
            curved.T @ P + matrix(data).T @ dP,
            curved.sum(axis=0),
        ),
        "transposed": matrix(data).T @ P,
    }


@pytest.mark.parametrize("k", [0, 1, 2, 5, 8, 17])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_kernels_equal_numpy(k, dtype):
    given, answers = all_answers(k, dtype)
    expected = expected_answers(given)
    close = {"rtol": 1e-12, "atol": 1e-13} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-5}
    for name, answer in answers.items():
        parts = answer if isinstance(answer, tuple) else (answer,)
        wanted = expected[name] if isinstance(answer, tuple) else (expected[name],)
        for part, other in zip(parts, wanted, strict=True):
            assert part.dtype == dtype
            assert_allclose(part, other, err_msg=name, **close)


def test_sparse_times_sparse_equals_numpy():
    left, dense_left, left_indptr, left_indices = random_sparse(2, shape=(9, N))
    right, dense_right, indptr, indices = random_sparse(3)
    answer = sparse_sparse_product(
        (left_indptr, left_indices, left.data), (indptr, indices, right.data), N_LABELS
    )
    assert_allclose(answer, dense_left @ dense_right, atol=1e-13)


def test_kernels_take_patterns_without_any_entry():
    indptr, none = np.zeros(4, dtype=np.int64), np.zeros(0, dtype=np.int32)
    M = np.ones((5, 2))
    assert sampled_product(indptr, none, np.ones((3, 2)), M).shape == (0,)
    assert_array_equal(csr_product(indptr, none, np.zeros(0), M), np.zeros((3, 2)))
    assert_array_equal(
        sparse_sparse_product(
            (indptr, none, np.zeros(0)), (np.zeros(6, dtype=np.int64), none, np.zeros(0)), 4
        ),
        np.zeros((3, 4)),
    )


def flattened(answers):
    parts = []
    for answer in answers.values():
        parts.extend(answer if isinstance(answer, tuple) else (answer,))
    return parts


def sparse_product():
    left, _, left_indptr, left_indices = random_sparse(2, shape=(9, N))
    right, _, indptr, indices = random_sparse(3)
    return sparse_sparse_product(
        (left_indptr, left_indices, left.data), (indptr, indices, right.data), N_LABELS
    )


def counting_pool(monkeypatch):
    """Notes how many jobs went to other threads."""
    submitted = []

    class Pool(threads.ThreadPoolExecutor):
        def submit(self, *args, **kwargs):
            submitted.append(1)
            return super().submit(*args, **kwargs)

    monkeypatch.setattr(threads, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(threads, "_pool", None)
    return submitted


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_answers_do_not_depend_on_the_number_of_threads(count, dtype, monkeypatch):
    with limit_threads(1):
        alone = [*flattened(all_answers(5, dtype)[1]), sparse_product()]
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)
    submitted = counting_pool(monkeypatch)
    with limit_threads(count):
        together = [*flattened(all_answers(5, dtype)[1]), sparse_product()]
    # The sums by label of so few entries are one part.
    n_kernels = 4 if dtype == np.float64 else 3
    assert len(submitted) == n_kernels * (count - 1)
    for one, other in zip(alone, together, strict=True):
        assert_array_equal(one, other)
    threads._pool.shutdown()


@pytest.mark.parametrize("k", [1, 5, 40])
def test_sums_by_label_are_the_same_in_parts_and_strips_whatever_the_threads(k, monkeypatch):
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)
    monkeypatch.setattr(entry_pattern, "_PART_WORK", 1)
    S, dense, indptr, indices = random_sparse(3, shape=(900, 4), density=0.5)
    rng = np.random.default_rng(4)
    P, dP = rng.standard_normal((2, 900, k))
    B, dB = rng.standard_normal((2, 4, k))
    curvature, db = rng.random(len(indices)), rng.standard_normal(4)
    pattern = EntryPattern(indptr, indices, 4)
    cuts = row_parts(indptr, 4, 8)
    assert len(cuts) > 2
    assert (np.diff(cuts) >= 0).all()
    assert cuts[[0, -1]].tolist() == [0, 900]
    found = []
    for count in (1, 2, 5):
        with limit_threads(count):
            products = [scattered_product(indptr, indices, S.data, P, 4, strip) for strip in (8, 16, 40)]
            for product in products:
                assert_array_equal(product, products[0])
            hessian = hessian_product(pattern, P, dP, B, dB, db, curvature, S.data)
            found.append([products[0], *hessian])
    assert_allclose(found[0][0], dense.T @ P, atol=1e-11)
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            assert_array_equal(one, same)
    # By the rows of each label, as where the sums do not fit into a cache.
    monkeypatch.setattr(entry_pattern, "_CACHE_BYTES", 0)
    assert strip_of(4, k) == 0
    for one, other in zip(
        found[0][1:], hessian_product(pattern, P, dP, B, dB, db, curvature, S.data), strict=True
    ):
        assert_allclose(one, other, atol=1e-10)
    assert_allclose(pattern.transposed_times(S.data, P), found[0][0], atol=1e-11)


def test_label_sums_by_sign_and_in_blocks(monkeypatch):
    S, dense, indptr, indices = random_sparse(0)
    pattern = EntryPattern(indptr, indices, N_LABELS)
    up, down = pattern.label_sums_by_sign(S.data)
    assert_allclose(up, np.maximum(dense, 0).sum(axis=0), atol=1e-12)
    assert_allclose(down, np.minimum(dense, 0).sum(axis=0), atol=1e-12)
    monkeypatch.setattr(_arrays, "_COUNTED", 7)
    assert len(indices) > 2 * 7
    assert_array_equal(_arrays.sums_by_number(indices, N_LABELS), (dense != 0).sum(axis=0))
    sums = _arrays.sums_by_number(indices, N_LABELS, lambda some: S.data[some])
    assert_allclose(sums, dense.sum(axis=0), atol=1e-12)
    factors = np.random.default_rng(1).random((2, N_LABELS))
    product = pattern.times_by_sign(S.data, *factors)
    assert_array_equal(product, S.data * np.where(S.data > 0, *factors[:, indices]))


@pytest.mark.parametrize("k", [1, 3, 8, 100])
@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_numbers_in_double_precision_are_rounded_to_that_of_the_factor(k, fraction, monkeypatch):
    # By way of dense blocks, and entry by entry.
    monkeypatch.setattr(entries, "_FRACTION", fraction)
    S, _, indptr, indices = random_sparse(0)
    B = np.random.default_rng(1).standard_normal((N_LABELS, k)).astype(np.float32)
    rounded = csr_product(indptr, indices, S.data.astype(np.float32), B)
    for found in (
        csr_product(indptr, indices, S.data, B),
        EntryPattern(indptr, indices, N_LABELS).times(S.data, B),
    ):
        assert found.dtype == np.float32
        assert_array_equal(found, rounded)


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize(
    ("n_labels", "long_rows", "k"),
    # As it is; with so many labels or columns that there are few parts; with parts of very many short rows.
    [(2, 0, 8), (10_000, 0, 8), (1_000, 0, 100), (2_000, 1_000, 8)],
)
def test_sums_over_a_million_rows_keep_their_digits_in_single_precision(
    n_labels, long_rows, k, by_label, monkeypatch
):
    if by_label:
        # By the rows of each label, as where the sums do not fit into a cache.
        monkeypatch.setattr(entry_pattern, "_CACHE_BYTES", 0)
    n = 1 << 20
    # Rows with an entry at every label, and then rows with one at the first.
    indptr = np.concatenate([np.arange(long_rows) * n_labels, long_rows * n_labels + np.arange(n + 1)])
    indices = np.concatenate([np.tile(np.arange(n_labels), long_rows), np.zeros(n, np.int64)])
    pattern = EntryPattern(indptr, indices, n_labels)
    # A sum that grows with every row: each addition is rounded like the one before it.
    slope, length = np.float32(0.37 / n), np.float32(1 / np.sqrt(n))
    sums = pattern.transposed_times(np.full(len(pattern), slope), np.full((n + long_rows, k), length))
    assert sums.dtype == np.float32
    each = float(slope) * float(length)
    assert_allclose(sums[0], (n + long_rows) * each, rtol=2e-4)
    assert_allclose(sums[1:], long_rows * each, rtol=2e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [5, 8, 16])
def test_a_table_that_is_gathered_often_begins_with_a_cache_line(dtype, k):
    memory = np.random.default_rng(1).standard_normal(400).astype(dtype)
    for first in range(4):
        M = memory[first : first + 20 * k].reshape(20, k)
        gathered = entries.table(M, 1000)
        assert gathered.ctypes.data % 64 == 0
        assert gathered.flags.c_contiguous
        assert_array_equal(gathered[:, :k], M)
        assert not gathered[:, k:].any()
        moved = entries.from_line(M)
        assert moved.ctypes.data % 64 == 0
        assert_array_equal(moved, M)
        assert entries.from_line(moved) is moved


@pytest.mark.parametrize("k", [1, 3, 5, 8, 13])
def test_a_score_by_entry_does_not_depend_on_the_other_entries(k):
    _, _, indptr, indices = random_sparse(0)
    rng = np.random.default_rng(1)
    P, B = rng.standard_normal((N, k)), rng.standard_normal((N_LABELS, k))
    scores = sampled_product(indptr, indices, P, B, by_entry=True)
    assert len(scores) > N_LABELS
    for i in np.flatnonzero(np.diff(indptr)):
        some = slice(indptr[i], indptr[i + 1])
        alone = sampled_product(
            np.array([0, some.stop - some.start]), indices[some], P[i : i + 1], B, by_entry=True
        )
        assert_array_equal(alone, scores[some])


def test_one_heavy_row_is_not_lost_between_the_threads(monkeypatch):
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)
    dense = np.zeros((6, 40))
    dense[2] = np.arange(40) + 1.0
    dense[5, 3] = 1.0
    S = sp.csr_array(dense)
    M = np.random.default_rng(0).standard_normal((40, 3))
    for count in (2, 4, 6):
        with limit_threads(count):
            answer = csr_product(S.indptr.astype(np.int64), S.indices, S.data, M)
        assert_allclose(answer, dense @ M, atol=1e-12)


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)

    def kernel(start, stop):
        if start > 0:
            raise FloatingPointError("in a thread")

    with limit_threads(2), pytest.raises(FloatingPointError, match="in a thread"):
        threads.run_over_rows(kernel, np.arange(5, dtype=np.int64), 10)


def test_rows_are_covered_once_whatever_the_threads(monkeypatch):
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)
    indptr = np.array([0, 0, 5, 5, 6, 20, 20, 21], dtype=np.int64)
    for count in range(1, 9):
        seen = np.zeros(7, dtype=int)

        def kernel(start, stop, seen=seen):
            seen[start:stop] += 1

        with limit_threads(count):
            threads.run_over_rows(kernel, indptr, 1)
        assert_array_equal(seen, np.ones(7))


def test_the_environment_names_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("LABELGAP_NUM_THREADS", "3")
    assert threads.available_threads() == thread_count() == 3
    with limit_threads(2):
        assert thread_count() == 2
        with limit_threads(1):
            assert thread_count() == 1
        assert thread_count() == 2
    assert thread_count() == 3
    for unusable in ("", "0", "many"):
        monkeypatch.setenv("LABELGAP_NUM_THREADS", unusable)
        assert threads.available_threads() >= 1


def _in_child(connection):
    with limit_threads(2):
        connection.send(flattened(all_answers(5)[1]))
    connection.close()


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork a process"
)
# Python 3.12 warns that the child of a process with threads may deadlock; that it does not is the claim.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_kernels_with_threads_work_in_a_forked_child(monkeypatch):
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)
    with limit_threads(2):
        # The pool of the parent has threads by now; the child inherits the object without them.
        expected = flattened(all_answers(5)[1])
    assert threads._pool is not None
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(send,))
    child.start()
    assert receive.poll(60), "the child gave no answer"
    answer = receive.recv()
    child.join(10)
    assert child.exitcode == 0
    for one, other in zip(answer, expected, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [16, 40, 100])
def test_dense_patterns_go_by_blocks_and_come_to_the_same(k, dtype, monkeypatch):
    monkeypatch.setattr(entries, "_BLOCK_ENTRIES", 200)
    rng = np.random.default_rng(k)
    mask = rng.random((37, 23)) < 0.8
    mask[5] = False
    indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(mask)[1].astype(np.int32)
    P, B = (rng.standard_normal((n, k)).astype(dtype) for n in mask.shape)
    data = rng.standard_normal(len(indices)).astype(dtype)
    S = np.zeros(mask.shape)
    S[mask] = data
    assert entries.is_dense(len(indices), *mask.shape)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    assert_allclose(
        sampled_product(indptr, indices, P, B), (P.astype(float) @ B.T)[mask], rtol=0, atol=tolerance
    )
    assert_allclose(csr_product(indptr, indices, data, B), S @ B.astype(float), rtol=0, atol=tolerance)
    expected = S.T @ P.astype(float)
    for count in (1, 3):
        with limit_threads(count):
            found = entries.transposed_by_blocks(indptr, indices, data, P, mask.shape[1])
        assert_allclose(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("count", [1, 2])
def test_scores_of_sparse_features_equal_numpy(count, monkeypatch):
    monkeypatch.setattr(threads, "_MIN_WORK_PER_THREAD", 1)
    S, _, indptr, indices = random_sparse(5)
    X = random_sparse(6, (N, 7))[0]
    W = np.random.default_rng(7).standard_normal((7, N_LABELS))
    rows = np.repeat(np.arange(N), np.diff(S.indptr))
    with limit_threads(count):
        found = sparse_sampled_product(
            indptr, indices, (X.indptr.astype(np.int64), X.indices, X.data), np.ascontiguousarray(W.T)
        )
    assert_allclose(found, (X @ W)[rows, indices], atol=1e-13)
