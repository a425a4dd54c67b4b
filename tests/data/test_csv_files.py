"""CSV, TSV and Parquet: what is read, against slow obvious parsing, and what is said of bad files."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import math
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import put, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.data import detect_format, read_answer_file, read_label_table, read_numbers, write_columns
from labelgap.exceptions import DataFileError, InvalidParameterError, LabelgapWarning, UnknownNameError

SONGS = """id,pace,loud,live,tag_calm,tag_sad
7,1.5,2,true,yes,?
9,2,-1e2,false,0,1
4, 3 ,.5,TRUE,,NO
"""


# -- what is read -------------------------------------------------------------------------------------------


def test_features_labels_and_ids(tmp_path: Path) -> None:
    table = read_label_table(put(tmp_path, "songs.csv", SONGS), labels="tag_*", ids="id")
    assert table.feature_names == ("pace", "loud", "live")
    np.testing.assert_array_equal(table.X, [[1.5, 2, 1], [2, -100, 0], [3, 0.5, 1]])
    assert table.X.dtype == np.float64
    assert table.row_ids == (7, 9, 4)
    assert table.labels.label_names == ("tag_calm", "tag_sad")
    assert table.labels.row_names == (7, 9, 4)
    assert table.labels.values.dtype == np.int8
    np.testing.assert_array_equal(table.labels.to_dense(), [[1, np.nan], [0, 1], [np.nan, 0]])


def test_choosing_columns(tmp_path: Path) -> None:
    path = put(tmp_path, "songs.csv", SONGS)
    for labels, expected in [
        ("tag_sad", ["tag_sad"]),
        ("tag_sad,tag_calm", ["tag_calm", "tag_sad"]),
        (["tag_sad", "li?e"], ["live", "tag_sad"]),
        ("5:", ["tag_calm", "tag_sad"]),
        ("4:5", ["live", "tag_calm"]),
        (" 4:4 , tag_s* ", ["live", "tag_sad"]),
    ]:
        table = read_label_table(path, labels=labels, features="pace")
        assert list(table.labels.label_names or ()) == expected
    assert read_label_table(path, drop="id,tag_*").feature_names == ("pace", "loud", "live")
    assert read_label_table(path, features=["loud", "pace"]).feature_names == ("pace", "loud")
    # A glob or a range passes over what is used already.
    table = read_label_table(path, labels="tag_*", ids="id", features="*", drop="loud")
    assert table.feature_names == ("pace", "live")
    only_labels = read_label_table(path, labels="*", ids="id", drop="pace,loud")
    assert (only_labels.X, only_labels.feature_names) == (None, None)
    table = read_label_table(put(tmp_path, "new.csv", "a,b\n1,2\n"))
    assert table.labels is None
    np.testing.assert_array_equal(table.X, [[1, 2]])


def test_names_may_hold_anything(tmp_path: Path) -> None:
    path = put(tmp_path, "odd.csv", '"a, b","say ""x""",[c],"two\nlines",é\n1,2,0,4,1\n')
    table = read_label_table(path, labels="[c],é", features=["a, b", 'say "x"', "two\nlines"])
    assert table.feature_names == ("a, b", 'say "x"', "two\nlines")
    assert table.X.tolist() == [[1, 2, 4]]


def test_line_ends_marks_tabs_and_gzip(tmp_path: Path) -> None:
    tabs = SONGS.replace(",", "\t").encode()
    for name, data, kind in [
        ("songs.csv", "\ufeff" + SONGS, None),
        ("songs.csv", SONGS.replace("\n", "\r\n"), None),
        ("songs.csv", SONGS.replace("\n", "\r"), None),
        ("songs.csv", "\n\n" + SONGS.replace("\n", "\n\n"), None),
        ("songs.csv", SONGS.rstrip(), None),
        ("songs.tsv", tabs, None),
        ("songs.tsv.gz", gzip.compress(tabs), None),
        ("songs.CSV.GZ", gzip.compress(SONGS.encode()), None),
        ("songs", tabs, "tsv"),
    ]:
        table = read_label_table(put(tmp_path, name, data), labels="tag_*", ids="id", format=kind)
        np.testing.assert_array_equal(table.X, [[1.5, 2, 1], [2, -100, 0], [3, 0.5, 1]])


def test_ids_keep_what_tells_them_apart(tmp_path: Path) -> None:
    def ids(text: str) -> Any:
        return read_label_table(put(tmp_path, "a.csv", text), ids="id").row_ids

    assert ids("id,x\n10,1\n7,2\n") == (10, 7)
    assert ids("id,x\n007,1\n7,2\n") == ("007", "7")
    assert ids("id,x\n a ,1\nNA,2\n") == ("a", "NA")


def test_an_empty_column_of_labels_and_all_spellings_of_missing(tmp_path: Path) -> None:
    words = ["", "?", "NaN", "nan", "NA", "N/A", "n/a", "null", "NULL", "None", "none", " ? "]
    rows = "\n".join(f"1,{word},1" for word in words)
    table = read_label_table(put(tmp_path, "a.csv", f"x,a,b\n{rows}\n"), labels="a,b")
    np.testing.assert_array_equal(table.labels.label_counts(), [0, len(words)])


def test_numbers_as_labels_and_what_absent_means(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "x,a,b\n1,2.5,\n2,-1,1\n")
    table = read_label_table(path, labels="a,b", binary=False)
    np.testing.assert_array_equal(table.labels.to_dense(), [[2.5, np.nan], [-1, 1]])
    path = put(tmp_path, "b.csv", "x,a,b\n1,1,\n2,0,1\n")
    for unobserved, entries in [("missing", 3), ("negative", 4), ("unlabelled", 2)]:
        table = read_label_table(path, labels="a,b", unobserved=unobserved)
        assert table.labels.n_observed == entries
        assert table.labels.unobserved == unobserved


def obvious(text: str) -> tuple[list[str], list[list[float]]]:
    header, *rows = csv.reader(io.StringIO(text))
    words = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
    missing = ("", "?", "nan", "na", "n/a", "null", "none")

    def value(cell: str) -> float:
        word = cell.strip().lower()
        return math.nan if word in missing else words[word] if word in words else float(word)

    return header, [[value(cell) for cell in row] for row in rows]


CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-10, 10).map(str),
    st.sampled_from(["yes", "No", "TRUE", "false", "?", "NA", "nan", "N/A", " 1 ", "1e3", "+2", ".5", "5."]),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4).flatmap(lambda k: st.lists(st.lists(CELLS, min_size=k, max_size=k), min_size=1)))
def test_numbers_as_slow_parsing_has_them(rows: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([[f"c{i}" for i in range(len(rows[0]))], *rows])
    with tempfile.TemporaryDirectory() as folder:
        names, values = read_numbers(put(Path(folder), "a.csv", out.getvalue()))
    header, expected = obvious(out.getvalue())
    assert list(names) == header
    np.testing.assert_array_equal(values, expected)


# A single name with semicolons would be taken for a header with another separator.
NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"], exclude_characters=";,"),
    min_size=1,
    max_size=6,
)
FLOATS = st.floats(allow_infinity=False)
TABLES = st.integers(1, 5).flatmap(
    lambda n: st.dictionaries(
        NAMES, st.lists(FLOATS, min_size=n, max_size=n).map(np.array), min_size=1, max_size=4
    )
)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet"])
@settings(max_examples=30, deadline=None)
@given(columns=TABLES)
def test_what_is_written_is_read_again(name: str, columns: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_columns(path, columns)
        names, values = read_numbers(path)
    assert names == tuple(columns)
    np.testing.assert_array_equal(values, np.column_stack(list(columns.values())))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r")), min_size=1, max_size=5))
def test_text_is_written_and_read_again(texts: list[str]) -> None:
    ids = [f"k{number}{text}".strip() for number, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.csv", "a.parquet"):
            path = Path(folder) / name
            write_columns(path, {"id": np.array(ids, dtype=object), "x": np.arange(len(ids))})
            table = read_label_table(path, ids="id")
            assert table.row_ids == tuple(ids)
            assert table.X.ravel().tolist() == list(range(len(ids)))


# -- Parquet ------------------------------------------------------------------------------------------------


def test_parquet_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array(["a", "b", "c"]),
            "small": pa.array([1, 2, 3], pa.int8()),
            "flag": pa.array([True, False, True]),
            "half": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "word": pa.array(["1", "2", "no"]).dictionary_encode(),
            "y_bool": pa.array([True, None, False]),
            "y_float": pa.array([1.0, float("nan"), None]),
            "y_text": pa.array(["yes", "?", None]),
            "y_empty": pa.nulls(3),
        }
    )
    pq.write_table(table, tmp_path / "a.pq")
    read = read_label_table(tmp_path / "a.pq", labels="y_*", ids="id")
    np.testing.assert_array_equal(read.X, [[1, 1, 0.5, 1], [2, 0, 1.5, 2], [3, 1, 2.5, 0]])
    assert read.row_ids == ("a", "b", "c")
    nan = np.nan
    np.testing.assert_array_equal(
        read.labels.to_dense(), [[1, 1, 1, nan], [nan, nan, nan, nan], [0, nan, nan, nan]]
    )


def test_parquet_faults(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0, None], "t": pa.array([0, 1], pa.timestamp("s")), "y": [1, 3]}), path)
    with pytest.raises(
        DataFileError, match=r"a.parquet, row 2, column 'x': 'null' is a missing value.*--drop x"
    ):
        read_label_table(path, drop="t,y")
    with pytest.raises(DataFileError, match=r"a.parquet, column 't': its type is timestamp"):
        read_label_table(path, drop="x,y")
    with pytest.raises(DataFileError, match=r"row 2, column 'y': '3' is no label"):
        read_label_table(path, labels="y", drop="t,x")
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), path)
    with pytest.raises(DataFileError, match="has no rows"):
        read_label_table(path)
    whole = tmp_path / "whole.parquet"
    write_columns(whole, {"x": np.arange(1000.0)})
    for damaged in (b"", b"PAR1", whole.read_bytes()[:-20], b"not parquet at all"):
        path.write_bytes(damaged)
        with pytest.raises(DataFileError, match=r"a.parquet is no Parquet file, or a damaged one"):
            read_label_table(path)


def test_the_index_of_pandas_is_no_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.5, 2, 3], "tag": [1, 0, 1]}, index=[7, 9, 4])
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    table = read_label_table(path, labels="tag")
    assert table.feature_names == ("x",)
    assert read_label_table(path, labels="*", drop="__index_level_0__", binary=False).X is None
    assert read_label_table(path, labels="tag", ids="__index_level_0__").row_ids == (7, 9, 4)
    assert read_numbers(path).names == ("x", "tag")
    # Columns are counted without it.
    assert read_label_table(path, labels="2:").feature_names == ("x",)
    # As a program that knows nothing of pandas passes it on, and with a note that is not of pandas.
    for note in (None, {b"pandas": b"{broken"}, {b"pandas": b'{"index_columns": null}'}):
        pq.write_table(pq.read_table(path).replace_schema_metadata(note), tmp_path / "b.parquet")
        assert read_numbers(tmp_path / "b.parquet").names == ("x", "tag")


def test_a_named_index_of_pandas_is_used_where_it_is_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": ["p", "q"], "age": [30, 40], "x": [1.5, 2], "tag": [1, 0]})
    path = tmp_path / "a.parquet"
    frame.set_index(["key", "age"]).to_parquet(path)
    assert read_label_table(path, labels="tag").feature_names == ("x",)
    table = read_label_table(path, labels="tag", ids="key", features=["x", "age"])
    assert table.row_ids == ("p", "q")
    assert table.feature_names == ("x", "age")
    assert table.X.tolist() == [[1.5, 30], [2, 40]]
    with pytest.raises(DataFileError, match="'key' in drop is the id column already"):
        read_label_table(path, ids="key", drop="key")
    labels = tmp_path / "y.parquet"
    frame[["key", "tag"]].iloc[::-1].set_index("key").to_parquet(labels)
    joined = read_label_table(path, ids="key", drop="tag", label_file=labels).labels
    assert joined.to_dense().ravel().tolist() == [1, 0]
    frame.set_index(list(frame)).to_parquet(path)
    with pytest.raises(DataFileError, match=r"no columns besides the index of pandas.*reset_index"):
        read_label_table(path)


def test_an_index_of_pandas_that_counts_is_no_column(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1.5, 2]}).to_parquet(tmp_path / "a.parquet")
    assert read_numbers(tmp_path / "a.parquet").names == ("x",)


def test_wide_parquet(tmp_path: Path) -> None:
    names = [f"x{number}" for number in range(3000)]
    path = tmp_path / "a.parquet"
    write_columns(path, {name: [number] for number, name in enumerate(names)})
    table = read_label_table(path, labels=names[2000:], binary=False)
    assert table.X.tolist() == [list(range(2000))]
    assert table.labels.to_dense().tolist() == [list(range(2000, 3000))]
    columns = pa.table([[1], [2], [3]], names=["x", "y", "x"])
    pq.write_table(columns, path)
    with pytest.raises(DataFileError, match="two columns are both named 'x'"):
        read_label_table(path)


# -- faults -------------------------------------------------------------------------------------------------


def test_faults_name_file_line_and_column(tmp_path: Path) -> None:
    cases = [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("a,b\n", "a header and no rows"),
        ("a,b", "a header and no rows"),
        ("a,b\n\n\n", "a header and no rows"),
        ("a,b,a\n1,2,3\n", "line 1: columns 1 and 3 are both named 'a'"),
        (",b\n1,2\n", "line 1: column 1 has no name"),
        ("a;b\n1;2;3\n", "line 1: the header is separated by semicolons.*another number of values"),
        ("a\tb\n1\n", "line 1: the header is separated by tabs"),
        ("a,b\n1,2\n3\n", "line 3: 1 values, but the header has 2"),
        ("a,b\n1,2\n\n3,4,5\n", "line 4: 3 values, but the header has 2"),
        ("a,b\n1,2\n3,tall\n", r"line 3, column 'b': 'tall' is no number.*--drop b"),
        ("a,b\n1,2\n,4\n", r"line 3, column 'a': '' is a missing value.*impute.*--drop a"),
        ("a,b\n1,2\n3,NA\n", "line 3, column 'b': 'NA' is a missing value"),
        ("a,b\n1,inf\n", "line 2, column 'b': 'inf' is not finite"),
        ("a,b\n1,0x10\n", "line 2, column 'b': '0x10' is no number"),
        ("a,b\n1,1_0\n", "line 2, column 'b': '1_0' is no number"),
        ("a,b\n1,2024-05-01\n", "column 'b': '2024-05-01' is no number"),
        ('"a\n1",b\n1,2\n\n3,x\n', "line 5, column 'b': 'x' is no number"),
        ('a,b\n"1\n",2\n3,x\n', "line 4, column 'b': 'x' is no number"),
        ('a,b\n1,"2\n3,4\n', "line 2: wrong quoting"),
        ('a,b\n1,2\n3,"4" 5"\n', "line 3: wrong quoting"),
        ('"a,b\n1,2\n', "line 1: wrong quoting"),
        ("a\n1\n\n2\n", "line 3, column 'a': the line is empty"),
        (b"a,b\n1,2\n\x81,3\n", "line 3: the byte 0x81 is not UTF-8, and the text is not Latin-1 either"),
        (b"a,b\n1,2\n\xac\xa6,3\n", "line 3: the byte 0xac is not UTF-8"),
        (codecs.BOM_UTF16_LE + b"a\0,\0b", "the byte .* is not UTF-16"),
        (b"a,b\n1,\x00\n", "line 2: a zero byte"),
    ]
    refused(tmp_path, "bad.csv", cases)


def test_faults_in_labels(tmp_path: Path) -> None:
    either = "'-1' is no label. If -1 is a no and 0 is not known.*if -1 is not known and 0"
    cases = [
        (["1,0", "0,2"], r"line 3, column 'b': '2' is no label.*yes or no"),
        (["1,0", "0,-1"], r"line 3, column 'b': '-1' is no label.*yes or no"),
        (["1,0", "0,y"], r"line 3, column 'b': 'y' is no number.*yes or no"),
        (["1,0", "0,0.5"], r"line 3, column 'b': '0.5' is no.*yes or no"),
        # What -1 may mean depends on all labels.
        (["1,-1", "-1,1"], r"'-1' is no label. For labels coded -1/\+1 write 0 for -1"),
        (["0,-1", "1,1"], either),
        (["0,1", "1,-1"], either),
        (["2,1", "1,-1"], "'2' is no label. A label is"),
    ]
    texts = [("x,a,b\n" + "".join(f"1,{row}\n" for row in rows), message) for rows, message in cases]
    refused(tmp_path, "bad.csv", texts, labels="a,b")


def test_faults_in_numbers(tmp_path: Path) -> None:
    path = put(tmp_path, "bad.csv", "a,b\n0.5,1\n0.2,high\n")
    with pytest.raises(
        DataFileError, match=r"line 3, column 'b': 'high' is no number. A label or score is a"
    ):
        read_label_table(path, labels="*", binary=False)
    with pytest.raises(
        DataFileError, match=r"line 3, column 'b': 'high' is no number. Every value is a number"
    ):
        read_numbers(path)


def test_faults_in_choosing(tmp_path: Path) -> None:
    path = put(tmp_path, "songs.csv", SONGS)
    for options, message in [
        ({"labels": "tga_*"}, r"'tga_\*' in labels matches no column; the nearest are 'tag_"),
        ({"labels": "tag_clam"}, "nearest are 'tag_calm'"),
        ({"labels": "6:9"}, "the range '6:9' in labels does not fit the 6 columns"),
        ({"labels": "0:2"}, "the range '0:2'"),
        ({"drop": "x"}, "'x' in drop matches no column"),
        ({"features": "paces"}, "nearest are 'pace'"),
        ({"ids": "key"}, "has no column 'key' for the ids"),
        ({"labels": "id", "ids": "id"}, "the column 'id' in labels is the id column already"),
        ({"labels": "tag_*", "features": "tag_sad"}, "'tag_sad' in features is a label already"),
        ({"labels": "pace", "drop": "pace"}, "'pace' in labels is dropped already"),
    ]:
        with pytest.raises(DataFileError, match=rf"songs\.csv.*{message}"):
            read_label_table(path, **options)


def test_a_missing_id_and_absent_files(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"a.csv, line 3, column 'id': the id is missing"):
        read_label_table(put(tmp_path, "a.csv", "id,x\n1,1\n,2\n"), ids="id")
    for name in ("none.csv", "none.parquet", "none.npz", "none.arff"):
        with pytest.raises(DataFileError, match=rf"{name}: there is no such file"):
            read_label_table(tmp_path / name)
    for name in ("folder", "folder.csv", "folder.parquet", "folder.npz", "folder.d"):
        (tmp_path / name).mkdir()
        for read in (read_label_table, read_answer_file, read_numbers):
            with pytest.raises(DataFileError, match=rf"{name} is a folder, not a file"):
                read(tmp_path / name)
    with pytest.raises(DataFileError, match=r"b.csv.gz: the gzip file is damaged"):
        read_label_table(put(tmp_path, "b.csv.gz", gzip.compress(SONGS.encode())[:-12]))


def test_formats() -> None:
    known = {
        "a.csv": "csv",
        "a.b.TSV": "tsv",
        "a.parquet": "parquet",
        "a.pq": "parquet",
        "a.npz": "npz",
        "a.arff.gz": "arff",
        "a.txt": "xmc",
        "a.svm": "xmc",
        "a.xmc.gz": "xmc",
        "u.data": "movielens",
        "ratings.dat": "movielens",
    }
    assert {name: detect_format(name) for name in known} == known
    for name in ("a.table", "a", "a.npz.gz"):
        with pytest.raises(DataFileError, match=r"Known: csv \(\.csv\), tsv.*--format"):
            detect_format(name)
    for name, packer in {
        "a.csv.bz2": "bzip2",
        "a.csv.ZST": "Zstandard",
        "a.tsv.xz": "xz",
        "a.zip": "zip",
    }.items():
        with pytest.raises(
            DataFileError, match=f"packed by {packer} are not read. Unpack it first, or pack it by"
        ):
            detect_format(name)
    for name, kind in {"a.feather": "Feather", "a.jsonl": "JSON Lines", "a.xlsx": "Excel"}.items():
        with pytest.raises(
            DataFileError, match=f"{kind} files are not read. Save the table as CSV or Parquet"
        ):
            detect_format(name)
    with pytest.raises(UnknownNameError, match=r"'cvs'. Did you mean 'csv'"):
        detect_format("a.csv", "cvs")


def test_a_text_that_is_packed_otherwise_than_by_gzip(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.csv", SONGS)
    for data in (packed.getvalue(), bz2.compress(SONGS.encode()), lzma.compress(SONGS.encode())):
        refused(tmp_path, "a.csv", [(data, "is packed by .*, which is not read. Unpack it first")])


def test_a_text_that_is_not_of_the_encoding_that_was_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    # An even number of bytes can be read as UTF-16, as one line of strange signs.
    path.write_text("a,b\n1,22\n")
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        with pytest.raises(
            DataFileError, match=r"no text in UTF.*no zero byte. Leave encoding= \(--encoding\) out"
        ):
            read_label_table(path, encoding=encoding)
    path.write_bytes("a,b\n1,22\n".encode("utf-16-le"))
    assert read_label_table(path, encoding="utf-16-le").feature_names == ("a", "b")


# -- a header that is missing -------------------------------------------------------------------------------


def test_a_header_of_numbers_may_be_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x1,0.5,1.25,3\nx2,0.75,2,1\n")
    with pytest.warns(
        LabelgapWarning, match="line 1: most names in the header are numbers, such as '0.5'. If"
    ):
        read_label_table(path, drop="x1")
    path.write_text("0.5,0,0\n1,2,3\n")
    with pytest.raises(
        DataFileError, match="columns 2 and 3 are both named '0'; is this a row, and the header m"
    ):
        read_label_table(path)


def test_a_header_that_counts_is_one(tmp_path: Path) -> None:
    for header in ("0,1,2", "id,2019,2020", "a,b,7", "nan,na,x"):
        table = read_label_table(put(tmp_path, "a.csv", f"{header}\n1,2,3\n"))
        assert table.feature_names == tuple(header.split(","))


# -- labels in a second file --------------------------------------------------------------------------------


def test_labels_by_order_and_by_id(tmp_path: Path) -> None:
    rows = put(tmp_path, "x.csv", "id,x\na,1\nb,2\nc,3\n")
    labels = put(tmp_path, "y.csv", "id,tag,other\nc,1,0\na,0,?\n")
    table = read_label_table(rows, ids="id", label_file=labels)
    assert table.labels.row_names == table.row_ids == ("a", "b", "c")
    nan = np.nan
    np.testing.assert_array_equal(table.labels.to_dense(), [[0, nan], [nan, nan], [1, 0]])
    chosen = read_label_table(rows, ids="id", label_file=labels, labels="tag", unobserved="negative")
    assert chosen.labels.to_dense().ravel().tolist() == [0, 0, 1]
    plain = put(tmp_path, "plain.tsv", "tag\tother\n1\t0\n0\t?\nNA\t1\n")
    ordered = read_label_table(rows, drop="id", label_file=plain)
    np.testing.assert_array_equal(ordered.labels.to_dense(), [[1, 0], [0, nan], [nan, 1]])
    np.savez(tmp_path / "y.npz", Y=[[1.0, nan]] * 3, label_names=["p", "q"], row_ids=["c", "b", "a"])
    packed = read_label_table(rows, ids="id", label_file=tmp_path / "y.npz")
    assert packed.labels.label_names == ("p", "q")


def test_faults_with_a_second_file(tmp_path: Path) -> None:
    rows = put(tmp_path, "x.csv", "id,x\n1,1\n2,2\n")

    def fails(text: str, message: str, error: type[Exception] = DataFileError, **options: Any) -> None:
        with pytest.raises(error, match=message):
            read_label_table(rows, label_file=put(tmp_path, "y.csv", text), **options)

    fails(
        "t\n1\n", r"x.csv has 2 rows, but y.csv has 1|x\.csv has 2 rows, but .*y\.csv has 1.*--ids", drop="id"
    )
    fails("id,t\n1,1\n1,0\n", r"y.csv: 1 id comes more than once: 1 \(rows 1, 2\)", ids="id")
    fails("id,t\n1,1\n3,0\n5,1\n", r"y.csv: 2 of its 3 ids are not in .*x.csv: 3, 5\.", ids="id")
    fails("key,t\n1,1\n", "y.csv has no column 'id' for the ids", ids="id")
    fails("id,t\n1,1\n2,2\n", r"y.csv, line 3, column 't': '2' is no label", ids="id")
    with pytest.raises(InvalidParameterError, match="an XML file names the labels of an arff file"):
        read_label_table(rows, label_file="y.xml")
    with pytest.raises(
        DataFileError, match="a second file of labels is csv, tsv, parquet, npz or xml, not xmc"
    ):
        read_label_table(rows, label_file="y.txt")
