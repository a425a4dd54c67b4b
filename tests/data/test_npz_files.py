"""npz files: every form of features and labels, ratings, matrices, and damaged ones."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from data_files import parts, save

from labelgap.data import read_answer_file, read_label_table, read_numbers
from labelgap.exceptions import DataFileError, InvalidParameterError
from labelgap.recommending.ratings import read_ratings

nan = float("nan")


X = np.array([[1.0, 0.0], [0.0, 2.5], [3.0, 4.0]])


def test_dense_and_sparse_features(tmp_path: Path) -> None:
    table = read_label_table(save(tmp_path, X=X, feature_names=["u", "v"], row_ids=[5, 6, 7]))
    np.testing.assert_array_equal(table.X, X)
    assert table.labels is None
    assert (table.feature_names, table.row_ids) == (("u", "v"), (5, 6, 7))
    table = read_label_table(save(tmp_path, **parts("X", X)))
    assert isinstance(table.X, sp.csr_array)
    np.testing.assert_array_equal(table.X.toarray(), X)


def test_dense_labels_and_triplets(tmp_path: Path) -> None:
    Y = np.array([[1, nan], [nan, 0], [nan, nan]])
    dense = read_label_table(save(tmp_path, X=X, Y=Y, label_names=["p", "q"], row_ids=["a", "b", "c"])).labels
    np.testing.assert_array_equal(dense.to_dense(), Y)
    assert (dense.label_names, dense.row_names) == (("p", "q"), ("a", "b", "c"))
    triplets = {"Y_rows": [0, 1], "Y_cols": [0, 1], "Y_values": [1, 0]}
    for more in ({"X": X}, {"Y_shape": [3, 2]}, {"X": X, "label_names": ["p", "q"]}, parts("X", X)):
        labels = read_label_table(save(tmp_path, **triplets, **more)).labels
        np.testing.assert_array_equal(labels.to_dense(), Y)
    # Ones alone.
    for unobserved, entries in [(None, 2), ("missing", 2), ("negative", 6), ("unlabelled", 2)]:
        path = save(tmp_path, X=X, **parts("Y", [[1, 0], [0, 0], [0, 1]]))
        labels = read_label_table(path, unobserved=unobserved).labels
        assert (labels.n_observed, labels.unobserved) == (entries, unobserved or "missing")
    real = read_label_table(save(tmp_path, Y=[[2.5, nan]]), binary=False).labels
    assert real.values.tolist() == [2.5]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Z": [1]}, "neither features .X. nor labels .Y.; it has Z"),
        ({"X": X, "Y": [[1, 0]]}, "X has 3 rows, but Y has 1"),
        ({"X": X, "row_ids": [1]}, "X has 3 rows, but row_ids has 1"),
        ({"X": X, "feature_names": ["a"]}, "1 feature_names for 2 features"),
        ({"X": X[0]}, "'X' is 1-d"),
        ({"X": [["a"]]}, "'X' is of type <U1, not of numbers"),
        ({"X": [[1.0, nan]]}, "X is nan at row 0, column 1; fill it in"),
        ({"X_data": [1.0]}, "has no array 'X_indices'"),
        ({**parts("X", X), "X_indices": [9, 1, 0, 1]}, "are no CSR matrix"),
        ({**parts("X", X), "X_data": [nan, 1, 1, 1]}, "X_data has NaN"),
        ({"Y": [[2.0]]}, "row 0, column 0 is 2.0, which is neither 0 nor 1"),
        ({"Y": [[1.0]], "label_names": ["a", "b"]}, "label_names has 2 names for 1"),
        ({"Y": [[1.0]], **parts("Y", [[1]])}, "labels twice: Y_data and Y"),
        ({"Y_rows": [0], "Y_cols": [0]}, "has no array 'Y_values'"),
        (
            parts("X", X, indices=np.array([0, 1.5, 0, 1])),
            "'X_indices' is of type float64; places .* integers",
        ),
        (parts("X", X, indptr=np.array([0.0, 1, 2, 4])), "'X_indptr' is of type float64"),
        (parts("X", X, indices=np.array([0, 1, 0, 9])), "no CSR matrix: indices must be < 2"),
        (parts("X", X, indices=np.array([0, 1, 0, -1])), "no CSR matrix"),
        (parts("X", X, indptr=np.array([0, 3, 2, 4])), "no CSR matrix"),
        (parts("X", X, shape=np.array([3, 2, 1])), r"'X_shape' has the shape \(3,\)"),
        (parts("X", X, shape=np.array(["3", "2"])), "'X_shape' is of type <U1"),
        (parts("X", X, shape=np.array(3)), r"'X_shape' has the shape \(\)"),
        (parts("X", X, shape=np.array([-3, 2])), "X_shape says -3 x 2"),
        (parts("X", X, shape=np.array([2**62, 2])), "X_shape says 4611686018427387904 x 2"),
        (parts("X", X, data=np.array([1j, 2, 3, 4])), "X_data is of type complex128"),
        (parts("X", X, data=np.array(["a"] * 4)), "X_data is of type <U1"),
        ({"X": X, "Y_rows": [0.5], "Y_cols": [0], "Y_values": [1]}, "'Y_rows' is of type float64"),
        ({"X": X, "Y_rows": [[0]], "Y_cols": [[0]], "Y_values": [[1]]}, "'Y_rows' is 2-d"),
        ({"X": X, "Y_rows": [0], "Y_cols": [0], "Y_values": [1], "Y_shape": [3, 2, 2]}, "'Y_shape' has the"),
        ({"X": X, "Y_rows": [0], "Y_cols": [0], "Y_values": [1], "Y_shape": ["a", "b"]}, "'Y_shape' is of"),
        ({"X": X, "Y_rows": [0], "Y_cols": [2**60], "Y_values": [1]}, "numbers from 0 to 2147483647"),
        ({"X": np.zeros((2, 2, 2))}, "'X' is 3-d"),
        ({"X": X.astype(complex)}, "'X' is of type complex128"),
        ({"X": X, "row_ids": [1.0, nan, 2.0]}, "'row_ids' is of type float64; ids and names"),
        ({"X": X, "row_ids": np.array([1, 2, 3], "M8[s]")}, "'row_ids' is of type datetime64"),
    ],
)
def test_faults(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataFileError, match=rf"a\.npz.*{message}"):
        read_label_table(save(tmp_path, **arrays))


def test_options_that_do_not_apply(tmp_path: Path) -> None:
    path = save(tmp_path, X=X)
    for options in ({"labels": "a"}, {"features": "a"}, {"drop": "a"}, {"ids": "id"}):
        with pytest.raises(InvalidParameterError, match=rf"a\.npz: {next(iter(options))} chooses"):
            read_label_table(path, **options)  # type: ignore[arg-type]


def test_damaged_files_and_pickles(tmp_path: Path) -> None:
    whole = save(tmp_path, X=np.arange(4000.0).reshape(100, 40)).read_bytes()
    path = tmp_path / "b.npz"
    for damaged in (b"", b"hello", whole[: len(whole) // 2], whole[:500] + bytes(200) + whole[700:]):
        path.write_bytes(damaged)
        with pytest.raises(DataFileError, match=r"b\.npz"):
            read_label_table(path)
    path.write_bytes(pickle.dumps(X))
    with pytest.raises(DataFileError, match="no npz file"):
        read_label_table(path)
    np.savez(path, X=np.array([[{}]], dtype=object))
    with pytest.raises(DataFileError, match=r"'X' cannot be read.*Arrays of objects are not read"):
        read_label_table(path)


def test_ratings(tmp_path: Path) -> None:
    path = save(tmp_path, user=[0, 0, 1], item=["a", "b", "a"], rating=[5, 1, 2])
    table = read_answer_file(path)
    assert len(table) == 3
    assert (table.users.tolist(), table.items.tolist()) == ([0, 0, 1], ["a", "b", "a"])
    assert table.values.tolist() == [5, 1, 2]
    assert read_answer_file(path, value=None).values is None
    # As a recommender reads them.
    labels = read_ratings(table.answers, positive=3)
    assert (labels.row_names, labels.label_names) == ((0, 1), ("a", "b"))
    np.testing.assert_array_equal(labels.to_dense(), [[1, 0], [0, nan]])
    likes = read_answer_file(save(tmp_path, u=[1], i=[2]), user="u", item="i")
    assert likes.values is None
    cases: list[tuple[dict[str, Any], str]] = [
        ({"user": [1]}, "no array 'item'; it has user"),
        ({"user": [1], "item": [1, 2]}, r"'item' has shape \(2,\), but 'user' has \(1,\)"),
        ({"user": [1.5], "item": [1]}, "'user' is of type float64; ids are integers or text"),
        ({"user": [1], "item": [1], "rating": ["x"]}, "'rating' is of type <U1, not of numbers"),
    ]
    for arrays, message in cases:
        with pytest.raises(DataFileError, match=message):
            read_answer_file(save(tmp_path, **arrays))


def test_matrices(tmp_path: Path) -> None:
    names, values = read_numbers(save(tmp_path, scores=[[0.5, nan]], label_names=["p", "q"], X=X))
    assert names == ("p", "q")
    np.testing.assert_array_equal(values, [[0.5, nan]])
    assert read_numbers(save(tmp_path, anything=X, row_ids=[1, 2, 3])).names == ("1", "2")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"a": X, "b": X}, "has 2 matrices to choose from"),
        ({"a": [1]}, "has no matrices"),
        ({"Y": [1]}, "'Y' is 1-d"),
        ({"Y": X, "label_names": ["a"]}, "1 label_names for 2 columns"),
    ]
    for arrays, message in cases:
        with pytest.raises(DataFileError, match=message):
            read_numbers(save(tmp_path, **arrays))
    with pytest.raises(DataFileError, match="csv, tsv, parquet or npz, not arff"):
        read_numbers(tmp_path / "a.arff")
