"""Files that claim too much, or hold what would be read as something else: refused with file and place."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from labelgap.data import (
    load_answers,
    load_multilabel,
    read_answer_file,
    read_label_table,
    read_numbers,
    read_side_table,
)
from labelgap.data.files import limits
from labelgap.data.files.limits import MEGABYTE, Limits
from labelgap.exceptions import DataFileError, InvalidParameterError

nan = float("nan")
X = np.array([[1.0, 0.0], [0.0, 2.5], [3.0, 4.0]])


def parts(key: str, matrix: Any, **change: Any) -> dict[str, Any]:
    csr = sp.csr_array(matrix)
    names = ("data", "indices", "indptr", "shape")
    whole = {f"{key}_{name}": np.asarray(getattr(csr, name)) for name in names}
    return whole | {f"{key}_{name}": value for name, value in change.items()}


def save(folder: Path, name: str = "a.npz", **arrays: Any) -> Path:
    np.savez(folder / name, **arrays)
    return folder / name


# -- npz -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
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
def test_npz(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    with pytest.raises(DataFileError, match=rf"a\.npz: .*{says}"):
        read_label_table(save(tmp_path, **arrays))


def test_npz_with_a_header_that_claims_too_much(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    for shape in (b"(3000000000000000,), }", b"(-3,), }", b"(2, 3, 4), }"):
        path = tmp_path / "a.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", buffer.getvalue().replace(b"(3,), }", shape))
        with pytest.raises(DataFileError, match=r"a\.npz: the array 'X' cannot be read \(its shape"):
            read_label_table(path)


def test_files_of_the_data_folder_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELGAP_DATA", str(tmp_path))
    Y = parts("Y", [[1], [0], [1]])
    save(tmp_path, "far.npz", **parts("X", X, indices=np.array([0, 1, 0, 9])), **Y)
    save(tmp_path, "half.npz", X=X, **parts("Y", [[1], [0], [1]], indices=np.array([0.5, 0])))
    save(tmp_path, "stars.npz", user=[0.5], item=[0], rating=[1], shape=[1, 1])
    for name in ("far", "half"):
        with pytest.raises(DataFileError, match=rf"{name}\.npz"):
            load_multilabel(name)
    with pytest.raises(DataFileError, match=r"stars\.npz: the array 'user' is of type float64"):
        load_answers("stars")


# -- Parquet -------------------------------------------------------------------------------------------------


def parquet(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def test_parquet_ids_keep_all_digits(tmp_path: Path) -> None:
    large = np.array([2**64 - 1, 2**64 - 2, 7], dtype=np.uint64)
    users = read_answer_file(parquet(tmp_path, user=large, item=np.arange(3))).users
    # As from a csv file: one number that is too large for int64 makes all of them texts.
    assert users.tolist() == ["18446744073709551615", "18446744073709551614", "7"]
    users = read_answer_file(parquet(tmp_path, user=large % 100, item=np.arange(3))).users
    assert users.tolist() == [15, 14, 7]
    assert users.dtype == np.int64
    users = read_answer_file(parquet(tmp_path, user=[1.0, 2.0, 2.0**53], item=np.arange(3))).users
    assert users.tolist() == [1, 2, 2**53]


@pytest.mark.parametrize("value", [2.0**53 + 2, 1e19, -1e19, 1e300, float("inf")])
def test_parquet_ids_that_are_no_exact_numbers(tmp_path: Path, value: float) -> None:
    path = parquet(tmp_path, user=[1.0, value], item=[1, 2])
    with pytest.raises(DataFileError, match=r"a\.parquet, row 2, column 'user': '.*' is no exact id"):
        read_answer_file(path)


def with_bytes(folder: Path, old: bytes, new: bytes, table: pa.Table, **options: Any) -> Path:
    """A Parquet file in which some bytes are others, of the same number."""
    path = folder / "a.parquet"
    pq.write_table(table, path, store_schema=False, **options)
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))
    return path


PARQUET_READERS = {
    "labels": lambda path: read_label_table(path, labels="tag", ids="user"),
    "ratings": lambda path: read_answer_file(path, user="user", item="tag", value=None),
    "side table": lambda path: read_side_table(path, "user"),
    "numbers": read_numbers,
}


@pytest.mark.parametrize("reader", PARQUET_READERS)
@pytest.mark.parametrize("kind", ["column", "field"])
def test_parquet_names_that_are_not_utf8(tmp_path: Path, reader: str, kind: str) -> None:
    table = pa.table({"user": ["a", "b"], "tag": [0, 1]})
    if kind == "column":
        table = table.append_column("stXYrs", [[1.0, 2.0]])
        says = r"a\.parquet: the name of column 3, b'st\\xff\\xfers', is not UTF-8. Give it another name"
    else:
        table = table.append_column("s", pa.array([{"stXYrs": 1}, {"stXYrs": 2}]))
        says = r"a\.parquet: in column 3 the name of a field, b'st\\xff\\xfers', is not UTF-8. Give it"
    path = with_bytes(tmp_path, b"stXYrs", b"st\xff\xfers", table)
    with pytest.raises(DataFileError, match=says):
        PARQUET_READERS[reader](path)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("reader", PARQUET_READERS)
def test_parquet_texts_that_are_not_utf8(tmp_path: Path, reader: str, dictionary: bool) -> None:
    users = pa.array(["a", "grXYn"])
    table = pa.table({"user": users.dictionary_encode() if dictionary else users, "tag": [0, 1]})
    path = with_bytes(tmp_path, b"grXYn", b"gr\xff\xfen", table, use_dictionary=dictionary)
    says = r"a\.parquet, column 'user', row 2: b'gr\\xff\\xfen' is not UTF-8\. Write the text as UTF-8"
    with pytest.raises(DataFileError, match=says):
        PARQUET_READERS[reader](path)


# -- xmc -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 0:1e999\n", "line 1: '0:1e999' is not finite"),
        ("1 0:1\n9007199254740993 0:1\n", "line 2: '9007199254740993' has a label beyond 2147483647"),
        ("1 0:1_000\n", "line 1: '0:1_000' is no feature"),
        ("1_0 0:1\n", "line 1: '1_0' are no labels"),
        ("1 qid:3 0:1\n", "line 1: 'qid:3' is no feature"),
        ("1 0:nan\n", "line 1: '0:nan' is no feature"),
        ("1 0:1 # x\n", "line 1: '#' is no feature"),
        ("1 99999999999999999999 1\n0 0:1\n", "line 1: the header claims the size '99999999999999999999'"),
    ],
)
def test_xmc(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataFileError, match=rf"a\.txt, {says}"):
        read_label_table(tmp_path / "a.txt")


# -- packed files --------------------------------------------------------------------------------------------


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    """3 MB of text in 3 kB."""
    text = b"a,y\n" + b"1,0\n" * 750_000
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text, mtime=0))
    return tmp_path / "a.csv.gz"


def test_a_packed_file_may_not_become_too_much(bomb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_label_table(bomb, labels="y").X.shape == (750_000, 1)
    says = r"a\.csv\.gz unpacks to more than the 1 MB that are allowed\..*max_unpacked_mb="
    with pytest.raises(DataFileError, match=says):
        read_label_table(bomb, labels="y", max_unpacked_mb=1)
    with pytest.raises(DataFileError, match=says):
        read_numbers(bomb, max_unpacked_mb=1)
    with pytest.raises(DataFileError, match=says):
        read_answer_file(bomb, user="a", item="y", value=None, max_unpacked_mb=1)
    (bomb.parent / "x.csv").write_text("b\n1\n")
    with pytest.raises(DataFileError, match=says):
        read_label_table(bomb.parent / "x.csv", label_file=bomb, max_unpacked_mb=1)
    monkeypatch.setenv(limits.VARIABLE, "1")
    with pytest.raises(DataFileError, match=says):
        read_label_table(bomb, labels="y")
    assert len(read_numbers(bomb, max_unpacked_mb=4).values) == 750_000
    monkeypatch.setenv(limits.VARIABLE, "none")
    assert len(read_numbers(bomb).values) == 750_000


def test_by_ratio_and_by_memory(bomb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_FREE", 1 * MEGABYTE)
    with pytest.raises(DataFileError, match="more than 1 MB, 100 times its size or more"):
        read_numbers(bomb)
    monkeypatch.undo()
    monkeypatch.setattr(limits, "free_memory", lambda: 10 * MEGABYTE)
    with pytest.raises(DataFileError, match="2 MB or more, which takes about 15 MB of memory to read; 10 MB"):
        read_numbers(bomb)
    assert len(read_numbers(bomb, max_unpacked_mb=None).values) == 750_000


def test_arrays_and_columns_are_held_against_the_limit(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", scores=np.zeros((1000, 1000)))
    with pytest.raises(DataFileError, match=r"a\.npz unpacks to more than the 2 MB"):
        read_numbers(tmp_path / "a.npz", max_unpacked_mb=2)
    assert read_numbers(tmp_path / "a.npz").values.shape == (1000, 1000)
    path = parquet(tmp_path, a=np.zeros(1_000_000), y=np.zeros(1_000_000, dtype=np.int8))
    with pytest.raises(DataFileError, match=r"a\.parquet unpacks to more than the 2 MB"):
        read_numbers(path, max_unpacked_mb=2)
    assert read_numbers(path, max_unpacked_mb=20).values.shape == (1_000_000, 2)
    head = "".join(f"@attribute y{number} {{0,1}}\n" for number in range(500))
    (tmp_path / "a.arff").write_text(f"@relation x\n@attribute a real\n{head}@data\n" + "{}\n" * 1000)
    with pytest.raises(DataFileError, match=r"a\.arff unpacks to more than the 2 MB"):
        read_label_table(tmp_path / "a.arff", labels="y*", max_unpacked_mb=2)


@pytest.mark.parametrize("given", [0, -1, nan, "much", True])
def test_limits_are_numbers(tmp_path: Path, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParameterError, match="max_unpacked_mb must be a number of megabytes above 0"):
        read_numbers(tmp_path / "a.csv", max_unpacked_mb=given)
    monkeypatch.setenv(limits.VARIABLE, str(given) if given is not True else "x")
    with pytest.raises(InvalidParameterError, match=r"LABELGAP_MAX_UNPACKED_MB is '.*'; it must be"):
        read_numbers(tmp_path / "a.csv")


def test_the_memory_that_is_free_is_known() -> None:
    free = limits.free_memory()
    assert free is None or free > 0
    Limits().check("a.csv", 1000, 1000, 7.0)
