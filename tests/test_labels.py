"""ObservedLabels: every constructor, parts of it, and every refusal."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError, UnknownNameError
from labelgap.labels import ObservedLabels, unobserved
from refusals import assert_refused

nan = np.nan
Y = np.array([[1, 0, nan], [nan, nan, nan], [0, nan, 1], [1, 1, 0]])
LABELS = ObservedLabels.from_dense(Y)
MATRICES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6),
    elements=st.sampled_from([0.0, 1.0, nan]),
)


def assert_valid(labels: ObservedLabels) -> None:
    """The promises of the class: types, sorted columns, matching lengths."""
    n, L = labels.shape
    assert labels.indptr.dtype == np.int64
    assert labels.indices.dtype == np.int32
    assert labels.indptr.shape == (n + 1,)
    assert labels.indptr[0] == 0
    assert labels.indptr[-1] == len(labels.indices) == len(labels.values) == labels.n_observed
    assert labels.values.dtype in (np.int8, np.float64)
    for i in range(n):
        row = labels.indices[labels.indptr[i] : labels.indptr[i + 1]]
        assert np.all(np.diff(row) > 0)
        assert np.all((row >= 0) & (row < L))
    if labels.weights is not None:
        assert labels.weights.dtype == np.float64
        assert len(labels.weights) == labels.n_observed


# ---------------------------------------------------------------- constructors agree


@settings(deadline=None)
@given(MATRICES)
def test_every_constructor_sees_the_same_entries(matrix: np.ndarray) -> None:
    labels = ObservedLabels.from_dense(matrix)
    assert_valid(labels)
    np.testing.assert_array_equal(labels.to_dense(), matrix)
    seen = ~np.isnan(matrix)
    rows, cols = np.nonzero(seen)
    values = matrix[rows, cols]
    filled = np.where(seen, matrix, 7)
    assert ObservedLabels.from_mask(filled, seen) == labels
    assert ObservedLabels.from_masked_array(np.ma.array(filled, mask=~seen)) == labels
    assert ObservedLabels.from_triplets(rows[::-1], cols[::-1], values[::-1], matrix.shape) == labels
    objects = matrix.astype(object)
    objects[~seen] = None
    assert ObservedLabels.from_dense(objects) == labels
    if matrix.size:
        stored = sparse.coo_array((values, (rows, cols)), shape=matrix.shape)
        for form in (stored, stored.tocsr(), stored.tocsc(), sparse.csr_matrix(stored)):
            assert ObservedLabels.from_sparse(form) == labels
        assert ObservedLabels.from_sparse(labels.to_sparse()) == labels
        wide = ObservedLabels.from_frame(pandas.DataFrame(matrix))
        np.testing.assert_array_equal(wide.to_dense(), matrix)
        assert wide.label_names == tuple(range(matrix.shape[1]))


def test_from_any_dispatches_by_type() -> None:
    for dtype in (bool, np.int8, np.uint8, np.int64, np.float32, np.float64, object):
        labels = ObservedLabels.from_dense(np.eye(3).astype(dtype))
        assert labels.is_complete
        assert labels.values.dtype == np.int8
        np.testing.assert_array_equal(labels.to_dense(), np.eye(3))
    for form in (
        Y,
        Y.tolist(),
        np.ma.masked_invalid(Y),
        LABELS.to_sparse(),
        sparse.csr_matrix(LABELS.to_sparse()),
        polars.DataFrame(Y, schema=["a", "b", "c"]),
        pandas.DataFrame(Y),
    ):
        np.testing.assert_array_equal(ObservedLabels.from_any(form).to_dense(), Y)
        negative = ObservedLabels.from_any(form, unobserved="negative")
        np.testing.assert_array_equal(negative.to_dense(), np.nan_to_num(Y))
        unlabelled = ObservedLabels.from_any(form, unobserved="unlabelled")
        np.testing.assert_array_equal(unlabelled.to_dense(), np.where(Y == 1, 1, nan))
        assert unlabelled.unobserved == "unlabelled"
    assert ObservedLabels.from_any(LABELS) is LABELS
    values = ObservedLabels.from_dense([[2.5, nan], [-1, 0]], binary=False)
    assert values.values.dtype == np.float64
    np.testing.assert_array_equal(values.values, [2.5, -1, 0])


def test_sparse_meanings_of_an_absent_entry() -> None:
    stored = sparse.csr_array(([1, 0, nan, 1], ([0, 0, 1, 1], [0, 1, 0, 2])), shape=(2, 3))
    missing = ObservedLabels.from_sparse(stored)
    np.testing.assert_array_equal(missing.to_dense(), [[1, 0, nan], [nan, nan, 1]])
    negative = ObservedLabels.from_sparse(stored, unobserved="negative")
    assert_valid(negative)
    assert negative.is_complete
    np.testing.assert_array_equal(negative.to_dense(), [[1, 0, 0], [0, 0, 1]])
    unlabelled = ObservedLabels.from_sparse(stored, unobserved="unlabelled")
    np.testing.assert_array_equal(unlabelled.to_dense(), [[1, nan, nan], [nan, nan, 1]])


def test_weights_follow_their_entries() -> None:
    W = np.arange(1.0, 13.0).reshape(4, 3)
    expected = W[~np.isnan(Y)]
    rows, cols = np.nonzero(~np.isnan(Y))
    shuffled = np.random.default_rng(0).permutation(len(rows))
    rows, cols = rows[shuffled], cols[shuffled]
    built = [
        ObservedLabels.from_dense(Y, weights=W),
        ObservedLabels.from_mask(np.nan_to_num(Y), ~np.isnan(Y), weights=W),
        ObservedLabels.from_masked_array(np.ma.masked_invalid(Y), weights=W),
        ObservedLabels.from_sparse(LABELS.to_sparse(), weights=W),
        ObservedLabels.from_sparse(LABELS.to_sparse(), weights=sparse.csr_array(W)),
        ObservedLabels.from_triplets(rows, cols, Y[rows, cols], weights=W[rows, cols]),
        ObservedLabels.from_frame(pandas.DataFrame(Y), weights=pandas.DataFrame(W)),
        LABELS.with_weights(expected),
        LABELS.with_weights(W),
    ]
    for labels in built:
        np.testing.assert_array_equal(labels.weights, expected)
    assert built[-1].with_weights(None) == LABELS
    gaps = sparse.csr_array(([3.0], ([1], [2])), shape=(4, 3))
    negative = ObservedLabels.from_sparse(LABELS.to_sparse(), unobserved="negative", weights=gaps)
    np.testing.assert_array_equal(negative.weights, [1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1])
    # Weights where nothing is observed are not read.
    assert ObservedLabels.from_dense(Y, weights=np.where(np.isnan(Y), -1, W)).n_observed == 7


# ---------------------------------------------------------------- frames


def test_wide_frames_with_nulls() -> None:
    expected = [[1, nan, 1], [nan, 0, nan], [0, 1, 0]]
    pandas_frame = pandas.DataFrame(
        {
            "float": [1.0, None, 0.0],
            "nullable": pandas.array([None, 0, 1], dtype="Int64"),
            "object": np.array([True, None, False], dtype=object),
        },
        index=["x", "y", "z"],
    )
    labels = ObservedLabels.from_frame(pandas_frame)
    np.testing.assert_array_equal(labels.to_dense(), expected)
    assert labels.row_names == ("x", "y", "z")
    assert labels.label_names == ("float", "nullable", "object")
    boolean = pandas.DataFrame({"b": pandas.array([True, None], dtype="boolean")})
    np.testing.assert_array_equal(ObservedLabels.from_frame(boolean).to_dense(), [[1], [nan]])
    polars_frame = polars.DataFrame(
        {"float": [1.0, None, 0.0], "int": [None, 0, 1], "bool": [True, None, False], "none": [None] * 3}
    )
    labels = ObservedLabels.from_frame(polars_frame)
    np.testing.assert_array_equal(labels.to_dense()[:, :3], expected)
    assert labels.label_counts()[3] == 0
    assert labels.row_names is None


@pytest.mark.parametrize("library", [pandas, polars])
def test_long_frames(library: object) -> None:
    frame = library.DataFrame(  # type: ignore[attr-defined]
        {
            "user": ["bob", "ann", "bob", "cid"],
            "film": [30, 10, 10, 20],
            "liked": [1.0, 0.0, 1.0, None],
            "trust": [1.0, 2.0, 3.0, 4.0],
        }
    )
    names = {"row": "user", "label": "film", "value": "liked"}
    labels = ObservedLabels.from_long_frame(frame, weights="trust", **names)
    assert labels.row_names == ("bob", "ann", "cid")
    assert labels.label_names == (30, 10, 20)
    np.testing.assert_array_equal(labels.to_dense(), [[1, 1, nan], [nan, 0, nan], [nan, nan, nan]])
    np.testing.assert_array_equal(labels.weights, [1, 3, 2])
    ordered = ObservedLabels.from_long_frame(
        frame, row_names=["ann", "bob", "cid", "dan"], label_names=[10, 20, 30], **names
    )
    np.testing.assert_array_equal(
        ordered.to_dense(), [[0, nan, nan], [1, nan, 1], [nan, nan, nan], [nan, nan, nan]]
    )
    twice = library.DataFrame({"user": ["a", "a"], "film": ["f", "f"], "liked": [1, 0]})  # type: ignore[attr-defined]
    null_id = library.DataFrame({"user": ["a", None], "film": ["f", "g"], "liked": [1, 0]})  # type: ignore[attr-defined]
    for table, changes, message in (
        (frame, {"row_names": ["ann", "bob"]}, r"row id 'cid', which is not among row_names"),
        (frame, {"value": "rating"}, r"no column 'rating'.*'user', 'film'"),
        (frame, {"row_names": ["ann", "ann", "bob", "cid"]}, r"row_names has a name twice"),
        (twice, {}, r"row 0 \('a'\), column 0 \(label 'f'\).*more than once"),
        (null_id, {}, r"'user' has no row id in line 1"),
    ):
        use = partial(ObservedLabels.from_long_frame, table, **names | changes)
        assert_refused(use, message, InvalidLabelsError)


def test_frames_are_not_imported_unasked() -> None:
    # scikit-learn may import one of them by itself, so only what we add is looked at.
    code = (
        "import sys, sklearn.utils; before = set(sys.modules); "
        "from labelgap.labels import ObservedLabels; ObservedLabels.from_any([[1, 0]]); "
        "sys.exit(bool({'pandas', 'polars'} & (set(sys.modules) - before)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------- counts and other forms


@settings(deadline=None)
@given(MATRICES)
def test_counts(matrix: np.ndarray) -> None:
    labels = ObservedLabels.from_dense(matrix)
    seen = ~np.isnan(matrix)
    np.testing.assert_array_equal(labels.row_counts(), seen.sum(axis=1))
    np.testing.assert_array_equal(labels.label_counts(), seen.sum(axis=0))
    np.testing.assert_array_equal(labels.positive_counts(), (matrix == 1).sum(axis=0))
    np.testing.assert_array_equal(labels.rows, np.nonzero(seen)[0])
    np.testing.assert_array_equal(labels.cols, np.nonzero(seen)[1])
    assert labels.n_observed == seen.sum()
    assert labels.is_complete == seen.all()
    assert len(labels) == len(matrix)


def test_repr_equality_pickle() -> None:
    assert repr(LABELS) == "ObservedLabels(4 x 3, 7 observed (58.3 %), 4 positive)"
    assert "weighted" in repr(LABELS.with_weights(np.ones(7)))
    assert "unobserved='unlabelled'" in repr(ObservedLabels.from_any(Y, "unlabelled"))
    assert repr(ObservedLabels.from_dense(np.empty((0, 3)))).startswith("ObservedLabels(0 x 3, 0 observed")
    assert pickle.loads(pickle.dumps(LABELS)) == LABELS
    assert LABELS.with_weights(np.ones(7)) != LABELS
    assert ObservedLabels.from_dense(Y, label_names="abc") != LABELS
    assert ObservedLabels.from_dense(np.where(Y == 0, 1, Y)) != LABELS
    assert LABELS != "labels"
    with pytest.raises(TypeError, match="unhashable"):
        hash(LABELS)
    with pytest.raises(AttributeError, match="values"):
        LABELS.values = np.zeros(7)  # type: ignore[misc]


@settings(deadline=None)
@given(MATRICES, st.integers(0, 2**31 - 1))
def test_align_gathers_from_every_form(matrix: np.ndarray, seed: int) -> None:
    labels = ObservedLabels.from_dense(matrix)
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=matrix.shape) * (rng.random(matrix.shape) < 0.5)
    expected = scores[~np.isnan(matrix)]
    np.testing.assert_array_equal(labels.align(scores), expected)
    np.testing.assert_array_equal(labels.align(expected), expected)
    if matrix.size:
        for form in (sparse.csr_array(scores), sparse.csc_matrix(scores), sparse.coo_array(scores)):
            np.testing.assert_array_equal(labels.align(form), expected)
        np.testing.assert_array_equal(labels.align(labels.to_sparse()), labels.values)
    assert labels.align(scores.astype(np.float32)).dtype == np.float32


def test_align_sums_duplicates_and_refuses_other_shapes() -> None:
    twice = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(4, 3))
    assert LABELS.align(twice)[1] == 3.0
    for form, message in (
        ((np.zeros((3, 4)),), r"scores have shape \(3, 4\); expected \(4, 3\).* 7 observed"),
        ((np.zeros(6), "decisions"), r"decisions have shape \(6,\)"),
        ((sparse.csr_array((4, 2)),), r"shape \(4, 2\)"),
    ):
        assert_refused(partial(LABELS.align, *form), message, InvalidInputError)
    with pytest.raises(TypeError, match=r"to_dense\(\)"):
        np.asarray(LABELS)


# ---------------------------------------------------------------- parts


@settings(deadline=None)
@given(MATRICES, st.integers(0, 2**31 - 1))
def test_select_by_mask_and_by_number(matrix: np.ndarray, seed: int) -> None:
    weights = np.arange(1.0, matrix.size + 1).reshape(matrix.shape)
    labels = ObservedLabels.from_dense(matrix, weights=weights)
    kept = np.random.default_rng(seed).random(labels.n_observed) < 0.5
    part = labels.select(kept)
    assert_valid(part)
    assert part.shape == labels.shape
    expected = np.full(matrix.shape, nan)
    expected[labels.rows[kept], labels.cols[kept]] = labels.values[kept]
    np.testing.assert_array_equal(part.to_dense(), expected)
    np.testing.assert_array_equal(part.weights, labels.align(weights)[kept])
    assert labels.select(np.flatnonzero(kept)) == part


@settings(deadline=None)
@given(MATRICES.filter(lambda m: len(m) > 0), st.data())
def test_rows_as_numpy_takes_them(matrix: np.ndarray, data: st.DataObject) -> None:
    n = len(matrix)
    labels = ObservedLabels.from_dense(matrix, row_names=range(n))
    numbers = data.draw(st.lists(st.integers(-n, n - 1), max_size=8))
    mask = data.draw(hnp.arrays(bool, n))
    keys = [np.array(numbers, dtype=int), mask, slice(None, None, 2), slice(1, None)]
    for key in keys:
        for form in (key, (key, Ellipsis)):
            taken = labels[form]
            assert_valid(taken)
            np.testing.assert_array_equal(taken.to_dense(), matrix[key])
            assert taken.row_names == tuple(np.arange(n)[key])
    np.testing.assert_array_equal(labels[-1].to_dense(), matrix[-1:])
    np.testing.assert_array_equal(labels[mask.tolist()].to_dense(), matrix[mask])
    assert [row.shape[0] for row in labels] == [1] * n


def test_scikit_learn_takes_rows_of_labels() -> None:
    labels = ObservedLabels.from_dense((np.arange(24).reshape(12, 2) % 3 == 0).astype(float))
    for key in ([3, 1], np.array([3, 1]), (3, 1)):
        assert _safe_indexing(labels, key) == labels.take_rows([3, 1])
    rows = np.arange(12)
    rows_train, rows_test, train, test = train_test_split(rows, labels, random_state=0)
    assert (len(train), len(test)) == (9, 3)
    assert train == labels.take_rows(rows_train)
    assert test == labels.take_rows(rows_test)


@settings(deadline=None)
@given(MATRICES, st.integers(2, 4), st.integers(0, 99))
def test_folds_part_the_entries_evenly(matrix: np.ndarray, k: int, seed: int) -> None:
    labels = ObservedLabels.from_dense(matrix)
    if labels.n_observed < k:
        with pytest.raises(InvalidParameterError, match="k must be an integer from 2"):
            labels.fold_numbers(k)
        return
    numbers = labels.fold_numbers(k, seed)
    np.testing.assert_array_equal(numbers, labels.fold_numbers(k, np.random.RandomState(seed)))
    groups = [np.ones(labels.n_observed, bool), labels.values == 1]
    groups += [(labels.cols == j) & (labels.values == v) for j in range(labels.shape[1]) for v in (0, 1)]
    for group in groups:
        counts = np.bincount(numbers[group], minlength=k)
        assert counts.max() - counts.min() <= 1
    pairs = list(labels.folds(k, seed))
    assert len(pairs) == k
    for fold, (train, held_out) in enumerate(pairs):
        assert held_out == labels.select(numbers == fold)
        assert train == labels.select(numbers != fold)


@pytest.mark.parametrize("n_labels", [3, 50])
@pytest.mark.parametrize("least", [0, -2])
def test_folds_are_those_of_entries_sorted_by_value_then_label(n_labels: int, least: int) -> None:
    # 50 labels and two values are more groups than there are entries.
    rng = np.random.default_rng(n_labels)
    rows, columns = np.divmod(rng.permutation(40 * n_labels)[:90], n_labels)
    values = rng.integers(0, 2, 90) if least == 0 else rng.integers(least, 3, 90).astype(float)
    labels = ObservedLabels.from_triplets(rows, columns, values, shape=(40, n_labels), binary=least == 0)
    shuffled = np.arange(90)
    np.random.RandomState(3).shuffle(shuffled)
    order = sorted(shuffled, key=lambda entry: (labels.values[entry], labels.cols[entry]))
    expected = np.empty(90, dtype=int)
    expected[order] = np.arange(90) % 4
    np.testing.assert_array_equal(labels.fold_numbers(4, 3), expected)


@settings(deadline=None)
@given(MATRICES, st.floats(0.01, 0.99), st.integers(0, 99))
def test_split_parts_the_entries(matrix: np.ndarray, fraction: float, seed: int) -> None:
    labels = ObservedLabels.from_dense(matrix)
    total = labels.n_observed
    if total < 2:
        with pytest.raises(InvalidLabelsError, match="at least two observed"):
            labels.split(fraction)
        return
    train, held_out = labels.split(fraction, seed)
    assert held_out.n_observed == min(max(round(fraction * total), 1), total - 1)
    assert train.n_observed + held_out.n_observed == total
    np.testing.assert_array_equal(
        np.where(np.isnan(train.to_dense()), held_out.to_dense(), train.to_dense()), matrix
    )
    assert (train, held_out) == labels.split(fraction, seed)


def test_split_spreads_positives() -> None:
    rng = np.random.default_rng(0)
    labels = ObservedLabels.from_dense((rng.random((200, 5)) < 0.1).astype(int))
    _, held_out = labels.split(0.2, random_state=0)
    np.testing.assert_allclose(held_out.positive_counts(), 0.2 * labels.positive_counts(), atol=1)


# ---------------------------------------------------------------- refusals


DENSE, ANY, FRAME = ObservedLabels.from_dense, ObservedLabels.from_any, ObservedLabels.from_frame
SPARSE, TRIPLETS, MASK = ObservedLabels.from_sparse, ObservedLabels.from_triplets, ObservedLabels.from_mask


def test_bad_labels_are_refused() -> None:
    for build, message in (
        (lambda: DENSE([1, 0, 1]), r"1-d with 3 values.*reshape\(-1, 1\)"),
        (lambda: DENSE([[1], [1, 0]]), r"no rectangular matrix"),
        (lambda: DENSE(np.zeros((1, 1, 1))), r"has 3 dimensions"),
        (lambda: DENSE([[0, 1], [2, 3]]), r"row 1, column 0 is 2, which is neither 0 nor 1"),
        (
            lambda: DENSE([[0, 0.5]], row_names=["r"], label_names=["sea", "sky"]),
            r"row 0 \('r'\), column 1 \(label 'sky'\) is 0.5",
        ),
        (lambda: DENSE([[1, -1]]), r"column 1 is -1.*coded -1/\+1 pass \(Y > 0\)"),
        (lambda: DENSE([[1.0, np.inf]]), r"is inf.*NaN"),
        (lambda: DENSE([["yes", "no"]]), r"is 'yes', which is no number"),
        (lambda: DENSE([[1, "no", None]]), r"is '1', which is no number|is 'no'"),
        (lambda: MASK([[1, 0]], [[True]]), r"mask has shape \(1, 1\).*\(1, 2\)"),
        (lambda: MASK([[1, 0]], [[0.5, 1]]), r"mask must be boolean"),
        (lambda: MASK([[1, 0]], [[2, 1]]), r"mask must be boolean"),
        (lambda: SPARSE([[1, 0]]), r"takes a scipy sparse matrix, not list"),
        (lambda: SPARSE(sparse.coo_array(np.ones(3))), r"has 1 dimension"),
        (
            lambda: SPARSE(sparse.coo_array(([1, 1], ([0, 0], [2, 2])), shape=(1, 3))),
            r"row 0, column 2 is given more than once",
        ),
        (lambda: TRIPLETS([0, 1, 0], [1, 0, 1], [1, 0, 0]), r"row 0, column 1.*values 1 and 0"),
        (lambda: TRIPLETS([0, 3], [0, 0], [1, 0], (2, 2)), r"Triplet 1 has row 3.*0 to 1"),
        (lambda: TRIPLETS([0, 0], [0, -1], [1, 0]), r"Triplet 1 has column -1"),
        (lambda: TRIPLETS([0.5], [0], [1]), r"row numbers must be a vector of integers"),
        (lambda: TRIPLETS([0], [0, 1], [1]), r"rows 1, cols 2, values 1"),
        (lambda: TRIPLETS([0], [0], [1], weights=[1, 2]), r"weights 2"),
        (lambda: TRIPLETS([0], [0], [1], (1, 2, 3)), r"two counts"),
        (lambda: DENSE(Y, label_names=["a"]), r"label_names has 1 names for 3 labels"),
        (lambda: DENSE(Y, row_names=["a"]), r"row_names has 1 names for 4 rows"),
        (lambda: DENSE(Y, label_names="aba"), r"'a' twice, at columns 0 and 2"),
        (lambda: DENSE(Y, weights=np.ones((3, 3))), r"weights has shape \(3, 3\)"),
        (lambda: SPARSE(LABELS.to_sparse(), weights=sparse.eye_array(3)), r"\(3, 3\)"),
        (lambda: DENSE(Y, weights=np.zeros((4, 3))), r"row 0, column 0 is 0.0.*positive"),
        (lambda: LABELS.with_weights([1, 1, nan, 1, 1, 1, 1]), r"row 2, column 0 is nan"),
        (lambda: LABELS.with_weights([1, 1, 1, -2, 1, 1, 1]), r"row 2, column 2 is -2.0"),
        (lambda: LABELS.with_weights([1, 1, 1, 1, 1, 1, np.inf]), r"row 3, column 2 is inf"),
        (lambda: LABELS.with_weights(["a"] * 7), r"weights must be numbers"),
        (lambda: DENSE([[nan, nan]]).require_observed(), r"No label is observed in the 1 x 2"),
        (lambda: ANY([[0, 0]], "unlabelled").require_observed(), r"only ones count"),
        (
            lambda: DENSE([[1, nan]]).require_both_classes(),
            r"is positive.*not taken as negatives.*unobserved='negative'.*unobserved='unlabelled'",
        ),
        (lambda: DENSE([[0, nan]]).require_both_classes(), r"is negative.*'yes'"),
        (
            lambda: FRAME(pandas.DataFrame({"a": [1, 0], "b": [1, "yes"]})),
            r"row 1, column 'b' is 'yes', which is no number",
        ),
        (lambda: FRAME(polars.DataFrame({"b": ["no", "yes"]})), r"row 0, column 'b' is 'no', which is no n"),
        (lambda: FRAME(polars.LazyFrame({"a": [1]})), r"collect\(\) for a LazyFrame"),
        (lambda: FRAME(pandas.DataFrame([[1, 0]], columns=["a", "a"])), r"'a' twice, at columns 0 and 1"),
        (lambda: FRAME([[1, 0]]), r"Expected a pandas or polars DataFrame"),
        (lambda: ANY(pandas.Series([1, 0])), r"reshape\(-1, 1\)"),
        (lambda: ANY(np.zeros((2, 2, 2))), "must be 2-d"),
        (lambda: DENSE([[1, np.inf]], binary=False), r"row 0, column 1 is inf, which is not finite"),
    ):
        assert_refused(build, message, InvalidLabelsError, message)
    # Sound labels pass.
    for meaning in ("missing", "unlabelled", "negative"):
        ObservedLabels.from_any(Y, meaning).require_both_classes()


def test_unknown_meaning_of_absent() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'unlabelled'"):
        ObservedLabels.from_sparse(sparse.eye_array(2), unobserved="unlabeled")
    with pytest.raises(UnknownNameError, match="unobserved 'absent'"):
        ObservedLabels.from_any(Y, unobserved="absent")


def test_bad_parts_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="there are 7 entries"):
        LABELS.select(np.ones(3, bool))
    for message, error, use, values in (
        (
            "ascending integers from 0 to 6",
            InvalidInputError,
            LABELS.select,
            ([1, 0], [0, 0], [7], [-1, 2], [0.5]),
        ),
        ("", IndexError, LABELS.__getitem__, (4, -5, [0, 9], np.ones(3, bool), (0, 1), [0.5], [[0]])),
        ("fraction must lie strictly between 0", InvalidParameterError, LABELS.split, (0, 1, -0.1, 1.5, nan)),
        ("k must be an integer from 2 to the 7", InvalidParameterError, LABELS.folds, (1, 8, 2.0, True)),
    ):
        for value in values:
            assert_refused(partial(use, value), message, error, value)


@pytest.mark.parametrize("shape", [(9, 6), (900, 600)])
def test_unobserved_entries_are_drawn_without_all_of_them(shape: tuple[int, int]) -> None:
    rng = np.random.RandomState(0)
    for fraction in (0.0, 0.2, 0.5, 0.9, 1.0):
        table = np.where(rng.uniform(size=shape) < fraction, 1.0, nan)
        table[[0, 4, 8]] = nan
        labels = ObservedLabels.from_dense(table)
        drawn, stands_for = unobserved.draw_unobserved(labels, table.size, rng)
        assert drawn.tolist() == np.flatnonzero(np.isnan(table)).tolist()
        assert stands_for == 1
        few, stands_for = unobserved.draw_unobserved(labels, table.size // 10, rng)
        assert np.isin(few, drawn).all()
        assert len(few) * stands_for == pytest.approx(len(drawn))


def test_a_few_labels_have_place_where_no_memory_is_said_to_be_free(monkeypatch):
    monkeypatch.setattr("labelgap._memory.free_memory", lambda: 0)
    labels = ObservedLabels.from_sparse(sparse.csr_array(np.eye(2)), unobserved="negative")
    assert labels.n_observed == 4
