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
from data_files import parts, save

from labelgap.data import (
    load_answers,
    load_multilabel,
    read_answer_file,
    read_label_table,
    read_numbers,
    read_side_table,
)
from labelgap.data.files import limits
from labelgap.data.files.limits import MEGABYTE
from labelgap.exceptions import DataFileError, InvalidParameterError

nan = float("nan")
X = np.array([[1.0, 0.0], [0.0, 2.5], [3.0, 4.0]])


# -- npz -----------------------------------------------------------------------------------------------------


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


def test_parquet_ids_that_are_no_exact_numbers(tmp_path: Path) -> None:
    for value in (2.0**53 + 2, 1e19, -1e19, 1e300, float("inf")):
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


PARQUET_READERS = (
    lambda path: read_label_table(path, labels="tag", ids="user"),
    lambda path: read_answer_file(path, user="user", item="tag", value=None),
    lambda path: read_side_table(path, "user"),
    read_numbers,
)


def test_parquet_names_and_texts_that_are_not_utf8(tmp_path: Path) -> None:
    plain = pa.table({"user": ["a", "b"], "tag": [0, 1]})
    column = plain.append_column("stXYrs", [[1.0, 2.0]])
    field = plain.append_column("s", pa.array([{"stXYrs": 1}, {"stXYrs": 2}]))
    users = pa.array(["a", "stXYrs"])
    kinds = [
        (column, {}, r"the name of column 3, b'st\\xff\\xfers', is not UTF-8. Give it another name"),
        (field, {}, r"in column 3 the name of a field, b'st\\xff\\xfers', is not UTF-8. Give it"),
    ]
    for dictionary in (True, False):
        texts = pa.table({"user": users.dictionary_encode() if dictionary else users, "tag": [0, 1]})
        says = r"column 'user', row 2: b'st\\xff\\xfers' is not UTF-8\. Write the text as UTF-8"
        kinds.append((texts, {"use_dictionary": dictionary}, says))
    for table, options, says in kinds:
        path = with_bytes(tmp_path, b"stXYrs", b"st\xff\xfers", table, **options)
        for read in PARQUET_READERS:
            with pytest.raises(DataFileError, match=rf"a\.parquet[:,] {says}"):
                read(path)


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
