"""Columns written to files, whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelgap.data import check_writable, read_label_table, write_columns
from labelgap.exceptions import DataFileError, InvalidInputError, MissingExtraError

COLUMNS: dict[str, Any] = {
    "id": ["a", "b"],
    "file": [1, 0],
    "score": [0.1, float("nan")],
    "ok": [True, False],
}


def test_text_is_plain(tmp_path: Path) -> None:
    write_columns(tmp_path / "a.csv", COLUMNS)
    assert (tmp_path / "a.csv").read_text() == "id,file,score,ok\na,1,0.1,true\nb,0,nan,false\n"
    write_columns(tmp_path / "a.tsv", COLUMNS)
    assert (tmp_path / "a.tsv").read_text() == "id\tfile\tscore\tok\na\t1\t0.1\ttrue\nb\t0\tnan\tfalse\n"
    write_columns(tmp_path / "q.csv", {'say "x"': ["a,b", 'c"d']})
    assert (tmp_path / "q.csv").read_text() == '"say ""x"""\n"a,b"\n"c""d"\n'


def test_npz_and_the_same_bytes_again(tmp_path: Path) -> None:
    write_columns(tmp_path / "a.npz", COLUMNS | {"words": np.array(["x", "yy"], dtype=object)})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert list(arrays) == [*COLUMNS, "words"]
        for name, column in COLUMNS.items():
            np.testing.assert_array_equal(arrays[name], column)
        assert arrays["words"].tolist() == ["x", "yy"]
    for name in ("a.npz", "a.csv.gz", "a.parquet"):
        write_columns(tmp_path / name, COLUMNS)
        first = (tmp_path / name).read_bytes()
        write_columns(tmp_path / name, COLUMNS)
        assert (tmp_path / name).read_bytes() == first


def test_what_was_there_stays_if_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_columns(path, {"x": [1.0]})
    before = path.read_bytes()
    with pytest.raises(Exception, match=r"Could not convert|Conversion failed|did not recognize"):
        write_columns(path, {"x": np.array([object()], dtype=object)})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


def test_checks_before_the_work(tmp_path: Path) -> None:
    assert check_writable(tmp_path / "a.csv") == "csv"
    assert check_writable(tmp_path / "a", "npz") == "npz"
    with pytest.raises(DataFileError, match="does not say what format"):
        check_writable(tmp_path / "a.xlsx")
    with pytest.raises(DataFileError, match=r"format arff are not written. Let the name end in \.csv"):
        check_writable(tmp_path / "a.arff")
    with pytest.raises(DataFileError, match=r"a\.csv: there is no folder .*none"):
        check_writable(tmp_path / "none" / "a.csv")
    (tmp_path / "b.csv").mkdir()
    with pytest.raises(DataFileError, match="is a folder"):
        check_writable(tmp_path / "b.csv")
    with pytest.raises(InvalidInputError, match="differ in length: a 1, b 2"):
        write_columns(tmp_path / "a.csv", {"a": [1], "b": [1, 2]})
    for columns in ({}, {"a": [[1]]}):
        with pytest.raises(InvalidInputError, match="Columns are vectors"):
            write_columns(tmp_path / "a.csv", columns)
    assert not (tmp_path / "a.csv").exists()


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for use in (read_label_table, check_writable):
        with pytest.raises(MissingExtraError, match=r"pyarrow.*labelgap\[cli\]"):
            use(tmp_path / "a.csv")
    np.savez(tmp_path / "a.npz", X=[[1.0]])
    assert read_label_table(tmp_path / "a.npz").X.tolist() == [[1.0]]
