"""Kernels over the entries, in single and double precision, against numpy's dense matrices.

Sizes are no multiples of blocks, vectors and lines, and go beyond all of them where that is cheap.
"""

from __future__ import annotations

import multiprocessing
import threading
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.kernels import entries, feature_products, threads
from labelgap.kernels.entries import (
    csr_product,
    csr_product_pair,
    sampled_product,
    sparse_sampled_product,
    sparse_sparse_product,
)
from labelgap.kernels.entry_pattern import EntryPattern, hessian_product, row_parts, scattered_product
from labelgap.kernels.loss_passes import LossPasses
from labelgap.kernels.losses import COMPILED, compiled_loss, derivatives, exp_of, losses
from labelgap.kernels.threads import limit_threads, thread_count
from labelgap.losses import FAMILIES, LOSSES, CustomFamily, Logistic
from solver_problems import random_values

BOTH_TYPES = (np.float32, np.float64)


def random_sparse(seed, shape, density):
    """Rows of no entry at both ends and in the middle, one of a single entry, and an empty column."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random(shape) < density, rng.standard_normal(shape), 0.0)
    dense[[0, 7, -1]], dense[:, shape[1] // 2], dense[3] = 0, 0, np.arange(shape[1]) == 1
    return dense, *parts(dense)


def parts(dense):
    S = sp.csr_array(dense)
    S.sort_indices()
    return S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data


# Few and many entries, dense ones and sparse ones, many rows and many labels.
SHAPES = [((23, 11), 0.3), ((37, 23), 0.9), ((3001, 7), 0.8), ((131, 257), 0.5), ((41, 10_501), 0.1)]


def entry_answers(shape, density, k, dtype):
    """What is asked, what each kernel answers and what numpy does."""
    dense, indptr, indices, data = random_sparse(0, shape, density)
    (n, n_labels), rng = shape, np.random.default_rng(1)
    rows = np.repeat(np.arange(n), np.diff(indptr))
    P, dP = rng.standard_normal((2, n, k)).astype(dtype)
    B, dB = rng.standard_normal((2, n_labels, k)).astype(dtype)
    pattern, single = EntryPattern(indptr, indices, n_labels), data.astype(dtype)
    mask = np.zeros(shape, dtype=bool)
    mask[rows, indices] = True
    scores = (P.astype(float) @ B.T.astype(float))[rows, indices]
    yield "sampled", sampled_product(indptr, indices, P, B), scores
    by_entry = sampled_product(indptr, indices, P, B, by_entry=True)
    yield "sampled by entry", by_entry, scores
    yield "product", csr_product(indptr, indices, single, B), dense @ B.astype(float)
    yield "product of doubles", pattern.times(data, B), dense @ B.astype(float)
    halves = np.broadcast_to(dtype(0.5), len(data))
    yield "product of one number", pattern.times(halves, B), 0.5 * mask @ B.astype(float)
    yield "transposed", pattern.transposed_times(single, P), dense.T @ P.astype(float)
    yield "transposed, in parts", scattered_product(indptr, indices, single, P, n_labels, 16), dense.T @ P
    by_label = pattern.in_label_order(single)
    yield "transposed, ordered", pattern.transposed_times_ordered(by_label, P), dense.T @ P.astype(float)
    ordered = csr_product(pattern.label_indptr, pattern.label_rows, single, P, order=pattern.by_label)
    yield "transposed, by an order", ordered, dense.T @ P.astype(float)
    blocks = [(some, part) for some, part in pattern.sampled_in_blocks(P, B)]
    yield "sampled in blocks", np.concatenate([part for _, part in blocks]), scores
    if dtype == np.float32:
        return
    # Objectives are in double precision, and compute these alone.
    other = rng.random(len(data))
    T = np.zeros(shape)
    T[rows, indices] = other
    pair = pattern.transposed_times_pair(data, P, other, dP)
    yield "transposed pair", pair, dense.T @ P + T.T @ dP
    order = np.arange(len(data), dtype=np.int32)
    found = csr_product_pair(indptr, indices, order, data, B, other, dB)
    yield "pair", found, dense @ B + T @ dB
    db = rng.standard_normal(n_labels)
    curved = T * (dP @ B.T + P @ dB.T + db)
    wanted = curved @ B + dense @ dB, curved.T @ P + dense.T @ dP, curved.sum(axis=0)
    found = hessian_product(pattern, P, dP, B, dB, db, other, data)
    yield from zip(("Hessian by row", "Hessian by label", "Hessian's sums"), found, wanted, strict=True)
    up, down = pattern.label_sums_by_sign(data)
    yield "sums above 0", up, np.maximum(dense, 0).sum(axis=0)
    yield "sums below 0", down, np.minimum(dense, 0).sum(axis=0)
    yield "sums", pattern.label_sums(data), dense.sum(axis=0)
    factors = rng.random((2, n_labels))
    yield (
        "times by sign",
        pattern.times_by_sign(data, *factors),
        data * np.where(data > 0, *factors[:, indices]),
    )
    columns = sp.csc_array(dense)
    for name, found, wanted in (
        ("order", data[pattern.by_label], columns.data),
        ("rows of labels", pattern.label_rows, columns.indices),
        ("ends of labels", pattern.label_indptr, columns.indptr),
    ):
        yield f"label order: {name}", found, wanted
    for start, stop in ((0, n_labels), (3, 6), (n_labels // 2, n_labels // 2 + 1), (5, 5)):
        yield "columns", pattern.columns(data, start, stop), dense[:, start:stop]


def test_entries_whatever_the_threads(monkeypatch):
    """Equal to numpy, and to themselves bit for bit with any number of threads."""
    monkeypatch.setattr(threads, "LEAST_WORK", 1000)
    for (shape, density), k, dtype in product(SHAPES, (0, 1, 5, 8, 17, 40, 100), BOTH_TYPES):
        if shape[1] > 10_000 and k > 8:
            continue
        found = []
        for count in ("1", "3"):
            monkeypatch.setenv("LABELGAP_NUM_THREADS", count)
            found.append(list(entry_answers(shape, density, k, dtype)))
        close = 1e-12 if dtype == np.float64 else 3e-6
        for (name, one, expected), (_, other, _) in zip(*found, strict=True):
            told = f"{name}, {shape}, {k} columns, {dtype.__name__}"
            largest = np.abs(expected).max(initial=1.0)
            assert_allclose(one, expected, rtol=close, atol=5 * close * largest, err_msg=told)
            assert_array_equal(one, other, err_msg=f"{told}, threads")
            assert one.dtype == dtype or dtype == np.float64, told


def test_very_many_entries_are_sorted_and_multiplied_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    mask = rng.random((2003, 331)) < 0.5
    mask[[0, 12, 13, -1]], mask[:, 3] = False, False
    indptr, indices = np.append(0, np.cumsum(mask.sum(axis=1))), np.nonzero(mask)[1]
    data, M = rng.standard_normal(len(indices)), rng.standard_normal((331, 3))
    dense = np.zeros(mask.shape)
    dense[mask] = data
    columns = sp.csc_array(dense)
    for count in ("1", "3"):
        monkeypatch.setenv("LABELGAP_NUM_THREADS", count)
        pattern = EntryPattern(indptr, indices, 331)
        assert_array_equal(pattern.in_label_order(data), columns.data)
        assert_array_equal(data[pattern.by_label], columns.data)
        assert_array_equal(pattern.label_rows, columns.indices)
        with limit_threads(1):
            assert_array_equal(pattern.in_label_order(data), columns.data)
        halves = np.broadcast_to(0.5, len(data))
        assert_allclose(pattern.times(halves, M), 0.5 * mask @ M, atol=1e-11)
        some = [(entries, part) for entries, part in pattern.sampled_in_blocks(dense @ M, M)]
        assert len(some) > 1
        assert_allclose(np.concatenate([part for _, part in some]), (dense @ M @ M.T)[mask], rtol=1e-9)
        cuts = row_parts(pattern.indptr, 4, 8)
        assert (np.diff(cuts) >= 0).all()
        assert cuts[[0, -1]].tolist() == [0, 2003]


def test_sums_over_a_million_rows_keep_their_digits_in_single_precision():
    # With few labels; with so many that there are few parts, or that rows are gathered by label.
    for n_labels, long_rows, k in ((2, 0, 8), (10_000, 0, 8), (30_000, 0, 8), (2_000, 1_000, 8)):
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
        assert_allclose(sums[0], (n + long_rows) * each, rtol=2e-4, err_msg=str(n_labels))
        assert_allclose(sums[1:], long_rows * each, rtol=2e-4, err_msg=str(n_labels))


def test_a_score_by_entry_does_not_depend_on_the_other_entries():
    _, indptr, indices, _ = random_sparse(0, (23, 11), 0.3)
    for k in (1, 3, 5, 8, 13):
        P, B = (np.random.default_rng(k).standard_normal((size, k)) for size in (23, 11))
        scores = sampled_product(indptr, indices, P, B, by_entry=True)
        for i in np.flatnonzero(np.diff(indptr)):
            some = slice(indptr[i], indptr[i + 1])
            own = np.array([0, some.stop - some.start])
            alone = sampled_product(own, indices[some], P[i : i + 1], B, by_entry=True)
            assert_array_equal(alone, scores[some], err_msg=f"row {i}, {k} columns")


def test_a_table_that_is_gathered_often_begins_with_a_cache_line():
    for dtype, k, first in product(BOTH_TYPES, (5, 8, 16), range(4)):
        M = np.random.default_rng(1).standard_normal(400).astype(dtype)[first : first + 20 * k].reshape(20, k)
        gathered, moved = entries.table(M, 1000), entries.from_line(M)
        assert gathered.ctypes.data % 64 == moved.ctypes.data % 64 == 0
        assert_array_equal(gathered[:, :k], M)
        assert not gathered[:, k:].any()
        assert_array_equal(moved, M)
        assert entries.from_line(moved) is moved


# -- products of sparse features -----------------------------------------------------------------------------


def test_feature_products_whatever_the_threads(monkeypatch):
    """Narrower than a vector, whole and broken numbers of vectors, tiles of them, and rows beyond a block."""
    monkeypatch.setattr(threads, "LEAST_WORK", 1000)
    for n, d, n_labels in (
        (41, 17, 1),
        (41, 17, 19),
        (300, 17, 33),
        (300, 40, 64),
        (5003, 9, 97),
        (67, 1301, 209),
    ):
        X, S = (random_sparse(seed, shape, 0.3)[0] for seed, shape in ((2, (n, d)), (3, (n, n_labels + 3))))
        S = S[:, :n_labels]
        indptr, indices, data = parts(S)
        rows, rng = np.repeat(np.arange(n), np.diff(indptr)), np.random.default_rng(4)
        W = rng.standard_normal((d, n_labels))
        wanted = [(X @ W)[rows, indices]] * 2 + [X.T @ S] * 4
        found = []
        for count in ("1", "3"):
            monkeypatch.setenv("LABELGAP_NUM_THREADS", count)
            by_label = np.ascontiguousarray(W.T)
            answers = [
                feature_products.sampled_feature_product(indptr, indices, parts(X), W),
                sparse_sampled_product(indptr, indices, parts(X), by_label),
            ]
            for dtype in (np.float64, np.float32):
                for way in (feature_products.transposed_matrix, feature_products.scattered_matrix):
                    answers.append(way(parts(X.T), indptr, indices, data.astype(dtype), n_labels))
                    assert answers[-1].dtype == dtype
            found.append(answers)
        for at, (one, other, expected) in enumerate(zip(*found, wanted, strict=True)):
            told, size = f"answer {at} of {n, d, n_labels}", np.abs(expected).max(initial=1.0)
            assert_allclose(one, expected, atol=(2e-6 if at > 3 else 1e-13) * 10 * size, err_msg=told)
            assert_array_equal(one, other, err_msg=f"{told}, threads")
        assert_allclose(
            sparse_sparse_product(parts(X.T), (indptr, indices, data), n_labels), X.T @ S, atol=1e-11
        )
    # More rows than are rounded at a time.
    X = random_sparse(5, (33_001, 6), 0.4)[0]
    for width in (1, 7, 8, 9, 16, 25, 63, 64, 65, 71, 72, 130):
        M = np.random.default_rng(2).standard_normal((6, width))
        some = slice(0, None if width in (8, 25) else 41)
        assert_allclose(feature_products.product(parts(X[some]), M), X[some] @ M, atol=1e-13)
        assert_allclose(
            feature_products.product(parts(X[some]), np.asfortranarray(M)), X[some] @ M, atol=1e-13
        )
        rounded = feature_products.product(parts(X[some]), M.astype(np.float32))
        assert rounded.dtype == np.float32
        assert_allclose(rounded, X[some] @ M, rtol=1e-5, atol=1e-5)


def test_patterns_without_any_entry():
    indptr, none, X = np.zeros(5, dtype=np.int64), np.zeros(0, dtype=np.int32), parts(np.eye(4, 3))
    assert sampled_product(indptr, none, np.ones((4, 2)), np.ones((5, 2))).shape == (0,)
    assert_array_equal(csr_product(indptr, none, np.zeros(0), np.ones((5, 2))), np.zeros((4, 2)))
    for way in (feature_products.transposed_matrix, feature_products.scattered_matrix):
        assert_array_equal(way(X, np.zeros(4, dtype=np.int64), none, np.zeros(0), 5), np.zeros((4, 5)))
    assert feature_products.sampled_feature_product(indptr, none, X, np.ones((3, 9))).shape == (0,)
    empty = sparse_sparse_product((indptr, none, np.zeros(0)), (indptr, none, np.zeros(0)), 4)
    assert_array_equal(empty, np.zeros((4, 4)))


# -- losses --------------------------------------------------------------------------------------------------


def scores_and_values(kind, dtype, n=1531):
    """Near and far."""
    rng = np.random.default_rng(0)
    z = np.concatenate([3 * rng.standard_normal(n - 5), [0.0, 1.0, -1.0, 30.0, -30.0]]).astype(dtype)
    return z, random_values(rng, kind, n).astype(dtype)


def compiled_derivatives(kind, z, y):
    slopes, curvatures = np.empty_like(z), np.empty_like(z)
    derivatives(COMPILED[kind].code, z, y, slopes, curvatures, len(z))
    return slopes, curvatures


def test_every_compiled_loss_is_the_loss():
    assert set(COMPILED) == {*LOSSES.values(), *FAMILIES.values()}
    for kind, form in COMPILED.items():
        loss, told = kind(), kind.__name__
        assert compiled_loss(loss) is form
        for dtype in BOTH_TYPES:
            z, y = scores_and_values(kind, dtype)
            wide, rounding = z.astype(float), 20 * np.finfo(dtype).eps
            slopes, curvatures = compiled_derivatives(kind, z, y)
            assert slopes.dtype == curvatures.dtype == dtype
            assert_allclose(slopes, loss.gradient(wide, y.astype(float)), rounding, rounding, err_msg=told)
            # The one loss with a kink steps by what bounds its curvature.
            expected = 2.0 + 0 * wide if told == "SquaredHinge" else loss.curvature(wide, y.astype(float))
            assert_allclose(curvatures, expected, rounding, 1e-300, err_msg=told)
            for far in (-1e30, -700.0, 700.0, 1e30):
                ones = np.ones(1, dtype)
                assert np.isfinite(compiled_derivatives(kind, far * ones, ones)).all(), f"{told} at {far}"
        expected = loss.value(z, y)
        if form.value_at_zero is not None:
            # Without what depends on the values of the labels alone.
            expected = expected - loss.value(np.zeros_like(z), y) + form.value_at_zero
        out = np.full((3, len(z)), 7.0)
        losses(form.code, z, y, *out, len(z) - 2)
        for found, right in zip(out, (expected, loss.gradient(z, y), loss.curvature(z, y)), strict=True):
            assert_allclose(found[:-2], right[:-2], rtol=1e-13, atol=1e-13, err_msg=told)
            assert_array_equal(found[-2:], 7)
        # Steps are shortened for every loss that its curvature does not bound.
        slopes, curvatures = compiled_derivatives(kind, z, y)
        step = np.linspace(-6.0, 6.0, 41)[:, None]
        model = loss.value(z, y) + slopes * step + 0.5 * curvatures * step**2
        beyond = loss.value(z + step, y) > model + 1e-9 * (1 + np.abs(model))
        assert form.bounds_curvature == (not beyond.any()), told


def test_what_has_no_compiled_loss_says_so():
    class Careful(Logistic):
        """Somebody else's loss: it has the name and the formulas of one in the table."""

    for loss in (Careful(), CustomFamily(np.exp, np.exp, np.exp, name="poisson", low=0)):
        assert compiled_loss(loss) is None
    for dtype in BOTH_TYPES:
        z, out = np.zeros(3, dtype), np.zeros((2, 3), dtype)
        with pytest.raises(ValueError, match="no compiled loss"):
            derivatives(99, z, z, *out, 3)
    with pytest.raises(ValueError, match="no compiled loss"):
        losses(99, np.zeros(3), np.zeros(3), *np.zeros((3, 3)), 3)
    passes = LossPasses(99, np.zeros(3, np.int32), 1, np.zeros(3, np.int8), 1.0, None)
    for one in (passes.value_and_gradient, passes.with_label_sums, passes.curvature):
        with pytest.raises(ValueError, match="no compiled loss"):
            one(np.zeros(3), np.zeros(1))


def test_passes_over_the_entries(monkeypatch):
    """Blocks of all lengths, and chunks whose sums are added in one order whatever the threads."""
    rng = np.random.default_rng(1)
    for kind, n in [
        *((kind, 1531) for kind in COMPILED),
        *((Logistic, n) for n in (0, 1, 511, 512, 513, 40_003)),
    ]:
        loss, form = kind(), COMPILED[kind]
        labels, z, b = (
            rng.integers(7, size=n).astype(np.int32),
            3 * rng.standard_normal(n),
            rng.standard_normal(7),
        )
        y = random_values(rng, kind, n)
        y = y.astype(np.int8) if kind in LOSSES.values() else y
        for weights, offsets in ((0.3, None), (rng.uniform(0.5, 2.0, n), rng.standard_normal(n))):
            passes = LossPasses(form.code, labels, 7, y, weights, offsets)
            at, told = z + b[labels] + (0.0 if offsets is None else offsets), f"{kind.__name__}, {n} entries"
            left_out = 0.0
            if form.value_at_zero is not None:
                left_out = loss.value(np.zeros(n), y.astype(float)) - form.value_at_zero
            value = np.sum((loss.value(at, y) - left_out) * weights)
            slope, curvature = loss.gradient(at, y) * weights, loss.curvature(at, y) * weights
            found = []
            for count in ("1", "3"):
                monkeypatch.setenv("LABELGAP_NUM_THREADS", count)
                found.append([*passes.with_label_sums(z, b), passes.curvature(z, b)])
            for one, other in zip(*found, strict=True):
                assert_array_equal(one, other, err_msg=told)
            expected = np.array([np.maximum(slope, 0), np.minimum(slope, 0), curvature])
            sums = np.array([np.bincount(labels, part, 7) for part in expected])
            for one, right in zip(found[0], (value, slope, sums, curvature), strict=True):
                assert_allclose(one, right, rtol=1e-11, atol=1e-12, err_msg=told)
            assert passes.value_and_gradient(z, b)[0] == found[0][0]
            assert_allclose(passes.value_and_gradient(z + b[labels], None)[1], slope, 1e-11, 1e-13)
            some = slice(n // 4, n - n // 4)
            assert_array_equal(passes.curvature(z[some], b, some), found[0][3][some], err_msg=told)
            if kind is not Logistic:
                assert passes.conjugate(slope, 1.0) is None, told
                continue
            one_each = weights if offsets is not None else np.full(n, weights)
            # The ends, where one probability is 0, and beyond.
            ends = np.where(y == 1, -1.0, 1.0) * rng.integers(2, size=n) * one_each
            for slopes, scale in ((slope, 1.0), (slope, 0.7), (slope, 0.01), (ends, 1.0)):
                dual = np.sum(loss.conjugate(scale * slopes / one_each, y) * one_each)
                dual -= 0.0 if offsets is None else scale * slopes @ offsets
                assert_allclose(passes.conjugate(slopes, scale), dual, rtol=1e-11, atol=1e-11, err_msg=told)
            if n > 10:
                assert passes.conjugate(1.001 * ends, 1.0) == passes.conjugate(-ends, 1.0) == np.inf


def test_small_and_far_losses_keep_their_digits():
    # log(1 + e^−30) is 1e-13: a sum of 1 + e^−30 would have lost it.
    passes = LossPasses(
        COMPILED[Logistic].code, np.zeros(1000, np.int32), 1, np.ones(1000, np.int8), 0.1, None
    )
    value = passes.value_and_gradient(np.full(1000, 30.0), None)[0]
    assert_allclose(value, 100 * np.log1p(np.exp(-30.0)), rtol=1e-13)
    z = np.array([-900.0, -300.0, -60.0, 60.0, 300.0, 900.0])
    for name, y in product(("logistic", "exponential", "poisson"), (0, 1)):
        kind = {**LOSSES, **FAMILIES}[name]
        passes = LossPasses(COMPILED[kind].code, np.zeros(6, np.int32), 1, np.full(6, y, np.int8), 0.1, None)
        value, slope = kind().value_and_gradient(z, y)
        value = value - (kind().value(0.0, y) - 1.0 if name == "poisson" else 0.0)
        found, gradient = passes.value_and_gradient(z, None)
        assert_allclose(found, 0.1 * np.sum(value), rtol=1e-11, err_msg=name)
        # Beyond e^−350 what is left of a slope is not told apart from it.
        assert_allclose(gradient, 0.1 * slope, rtol=1e-11, atol=1e-150, err_msg=name)


def test_the_exponential_is_right_to_a_few_roundings():
    @njit
    def fill(x, out):
        for i in range(len(x)):
            out[i] = exp_of(x[i])

    for dtype in BOTH_TYPES:
        x = np.linspace(-80, 40, 2001).astype(dtype)
        out = np.empty_like(x)
        fill(x, out)
        # Of an argument of 80, a rounding is 80 roundings of the result.
        assert_allclose(out, np.exp(x.astype(np.float64)), rtol=80 * np.finfo(dtype).eps)


# -- threads -------------------------------------------------------------------------------------------------


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


def test_rows_are_covered_once_and_errors_reach_the_caller():
    indptr = np.cumsum([0, 0, 5, 0, 1, 10**6, 0, 1])
    for count in range(1, 9):
        seen = np.zeros(7, dtype=int)

        def kernel(start, stop, seen=seen):
            seen[start:stop] += 1

        with limit_threads(count):
            threads.run_over_rows(kernel, indptr, 5)
        assert_array_equal(seen, np.ones(7), err_msg=f"{count} threads")

    def failing(start, stop):
        if start > 0:
            raise FloatingPointError("in a thread")

    with limit_threads(2), pytest.raises(FloatingPointError, match="in a thread"):
        threads.run_over_rows(failing, np.arange(5) * 10**6, 10)


def test_threads_that_do_not_come_are_not_waited_for():
    begun, over = threading.Event(), threading.Event()

    def occupied():
        begun.set()
        over.wait(60)

    busy = [threads.shared_pool(2).submit(occupied) for _ in range(64)]
    begun.wait(60)
    try:
        seen = np.zeros(8, dtype=int)

        def kernel(start, stop):
            seen[start:stop] += 1

        with limit_threads(2):
            threads.run_over_rows(kernel, np.arange(9) * 10**6, 10)
            doubled = threads.map_in_order(lambda item: 2 * item, range(5))
        assert seen.tolist() == [1] * 8
        assert doubled == [0, 2, 4, 6, 8]
        assert not any(job.done() for job in busy)
    finally:
        over.set()


def _answers():
    return [found for _, found, _ in entry_answers((131, 257), 0.5, 40, np.float64)]


def _in_child(connection):
    with limit_threads(2):
        connection.send(_answers())
    connection.close()


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork a process"
)
# Python 3.12 warns that the child of a process with threads may deadlock; that it does not is the claim.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_kernels_with_threads_work_in_a_forked_child():
    with limit_threads(2):
        # The pool of the parent has threads by now; the child inherits the object without them.
        expected = _answers()
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
