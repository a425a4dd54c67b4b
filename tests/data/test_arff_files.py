"""ARFF with the XML of Mulan or the relation of MEKA, dense and sparse."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from data_files import dense, put, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.data import read_label_table
from labelgap.exceptions import DataFileError, InvalidParameterError

HEADER = """% A comment
@RELATION 'some songs'

@attribute pace numeric % beats
@ATTRIBUTE 'how loud' Real
@attribute "it\\'s" INTEGER
@attribute mood {glad, 'so so', "sad, very"}
@attribute on{0,1}
@attribute calm {0,1}
@attribute sad {1,0}

@Data
"""
DENSE = """1.5, 2, 3, glad, 1, 1, 0
% nothing here
-1e1,0,0,'so so',0,?,1 % the second

0,0,7,"sad, very",1,0,?
"""
SPARSE = """{0 1.5, 1 2, 2 3, 4 1, 5 1, 6 0}
{0 -1e1, 3 'so so', 5 ?}
{2 7, 3 "sad, very", 4 1, 6 ?}
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="sad"><label name="calm"></label></label>
</labels>
"""
FEATURES = [[1.5, 2, 3, 1, 0, 0, 1], [-10, 0, 0, 0, 1, 0, 0], [0, 0, 7, 0, 0, 1, 1]]
LABELS = [[1, 0], [np.nan, 1], [0, np.nan]]
NAMES = ("pace", "how loud", "it's", "mood=glad", "mood=so so", "mood=sad, very", "on")


@pytest.mark.parametrize("rows", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_features_labels_and_names(tmp_path: Path, rows: str) -> None:
    table = read_label_table(put(tmp_path, "a.arff", HEADER + rows), labels="calm,sad")
    assert sp.issparse(table.X) == (rows is SPARSE)
    np.testing.assert_array_equal(dense(table.X), FEATURES)
    assert table.feature_names == NAMES
    assert table.labels.label_names == ("calm", "sad")
    assert table.labels.unobserved == "missing"
    expected = np.array(LABELS)
    if rows is SPARSE:
        # What a sparse row does not have is the first value: 0 for calm, but 1 for sad.
        expected[1, 1] = 1
        expected[2, 0] = 0
    np.testing.assert_array_equal(table.labels.to_dense(), expected)


def test_where_the_labels_are_named(tmp_path: Path) -> None:
    path = put(tmp_path, "a.arff", HEADER + DENSE)
    assert read_label_table(path, drop="calm,sad").labels is None
    other = put(tmp_path, "other.xml", XML)
    named = read_label_table(path, label_file=other)
    put(tmp_path, "a.xml", XML)
    put(tmp_path, "a-test.arff.gz", gzip.compress((HEADER + DENSE).encode()))
    beside = [read_label_table(path), read_label_table(tmp_path / "a-test.arff.gz")]
    meka = HEADER.replace("'some songs'", "'songs: -C -2'")
    last = read_label_table(put(tmp_path, "m.arff", meka + DENSE))
    for table in (named, *beside, last):
        assert table.feature_names == NAMES
        # In the order of the attributes, not of the XML.
        assert table.labels.label_names == ("calm", "sad")
        np.testing.assert_array_equal(table.labels.to_dense(), LABELS)
    first = "@relation 'x: -C 2'\n@attribute a {0,1}\n@attribute b {false,true}\n@attribute c real\n@data\n"
    table = read_label_table(put(tmp_path, "f.arff", first + "1,true,5\n"))
    assert table.labels.label_names == ("a", "b")
    assert table.labels.values.tolist() == [1, 1]
    csv = put(tmp_path, "y.csv", "t\n1\n0\n1\n")
    put(tmp_path, "plain.arff", HEADER + DENSE)
    joined = read_label_table(tmp_path / "plain.arff", drop="calm,sad", label_file=csv)
    assert joined.labels.values.tolist() == [1, 0, 1]
    with pytest.raises(InvalidParameterError, match="has labels of its own"):
        read_label_table(path, label_file=csv)
    with pytest.raises(InvalidParameterError, match="ids chooses"):
        read_label_table(path, ids="pace")


def test_what_absent_means_and_numbers(tmp_path: Path) -> None:
    text = "@relation x\n@attribute a real\n@attribute y real\n@attribute z real\n@data\n"
    path = put(tmp_path, "a.arff", text + "{0 1, 1 1}\n{2 ?}\n")
    for unobserved, entries in [("missing", 3), ("negative", 4), ("unlabelled", 1)]:
        table = read_label_table(path, labels="y,z", unobserved=unobserved)
        assert table.labels.n_observed == entries
    path = put(tmp_path, "b.arff", text + "1,2.5,?\n")
    table = read_label_table(path, labels="y,z", binary=False)
    assert table.labels.values.tolist() == [2.5]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4))
def test_dense_and_sparse_rows_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, d: int, L: int
) -> None:
    rng = random.Random(seed)
    header = "@relation x\n"
    header += "".join(f"@attribute f{j} numeric\n" for j in range(d))
    header += "".join(f"@attribute l{j} {{0,1}}\n" for j in range(L)) + "@data\n"
    X = [[rng.choice([0, 0, 0.25, -3.5e-7, 12]) for _ in range(d)] for _ in range(n)]
    Y = [[rng.choice(["0", "1", "?"]) for _ in range(L)] for _ in range(n)]
    rows = [[*map(repr, x), *y] for x, y in zip(X, Y, strict=True)]
    folder = tmp_path_factory.mktemp("arff")
    full = put(folder, "full.arff", header + "\n".join(",".join(row) for row in rows))
    pairs = [[f"{at} {cell}" for at, cell in enumerate(row) if cell != "0"] for row in rows]
    for row in pairs:
        rng.shuffle(row)
    few = put(folder, "few.arff", header + "\n".join("{" + ", ".join(row) + "}" for row in pairs))
    for path in (full, few):
        table = read_label_table(path, labels="l*")
        np.testing.assert_array_equal(dense(table.X), X)
        expected = [[float("nan") if cell == "?" else float(cell) for cell in row] for row in Y]
        np.testing.assert_array_equal(table.labels.to_dense(), expected)


SMALL = "@relation x\n@attribute a real\n@attribute m {u,v}\n@attribute y {0,1}\n@data\n"


def test_faults(tmp_path: Path) -> None:
    cases = [
        ("hello\n", "line 1: 'hello' is none of @relation, @attribute and @data"),
        ("@relation x\n@attribute a real\n", "has no @data"),
        ("@relation x\n@data\n1\n", "has no @attribute"),
        ("@relation x\n@attribute a\n@data\n", "line 2: '@attribute a' is not '@attribute name type'"),
        ("@relation x\n@attribute a complex\n@data\n", "line 2: the attribute 'a' has the type 'complex'"),
        ("@relation x\n@attribute a {0,1\n@data\n", "line 2: the values of the attribute 'a' do not end"),
        ("@relation x\n@attribute a {'0,1}\n@data\n", "line 2: the values of the attribute 'a' cannot"),
        ("@relation x\n@attribute a real\n@attribute a real\n@data\n1,2\n", "both named 'a'"),
        (SMALL, "no rows after @data"),
        (SMALL + "1,u,0\n\n1,u\n", "line 8: 2 values for 3 attributes"),
        (SMALL + "tall,u,0\n", "line 6, attribute 'a': 'tall' is not a number"),
        (SMALL + "nan,u,0\n", "line 6, attribute 'a': 'nan' is not a number"),
        (SMALL + "1,w,0\n", "line 6, attribute 'm': 'w' is not one of u, v"),
        (SMALL + "1,u,2\n", "line 6, attribute 'y': '2' is not one of 0, 1"),
        (SMALL + "1,u,0\n?,v,1\n", r"line 7, attribute 'a': '\?' is a missing value.*impute.*--drop a"),
        (SMALL + "1,?,0\n", r"line 6, attribute 'm': '\?' is a missing value"),
        (SMALL + "1,'u,0\n", "line 6: the quotes do not match"),
        (SMALL + "1,u,0\n{0 1}\n", "line 7: dense and sparse rows"),
        (SMALL + "{0 1\n", "line 6: a sparse row does not end"),
        (SMALL + "{3 1}\n", "line 6: '3 1' is no 'number value' with a number from 0 to 2"),
        (SMALL + "{0}\n", "line 6: '0' is no 'number value'"),
        (SMALL + "{0 1, 0 2}\n", "line 6: the attribute 0 comes twice"),
        (SMALL + "{0 1}\n{0 ?}\n", r"line 7, attribute 'a': '\?' is a missing value"),
        (SMALL + "{2 x}\n", "line 6, attribute 'y': 'x' is not one of 0, 1"),
        (
            "@relation x\n@attribute s string\n@attribute y {0,1}\n@data\nhi,0\n",
            "'s': its type is string.*--drop s",
        ),
    ]
    refused(tmp_path, "a.arff", cases, labels="y")


def test_plain_numbers_have_their_faults_found_too(tmp_path: Path) -> None:
    numbers = "@relation x\n@attribute a real\n@attribute y {0,1}\n@attribute r real\n@data\n"
    for row, message in [
        ("1,2,0", "line 6, attribute 'y': '2' is not one of 0, 1"),
        ("{1 2}", "line 6, attribute 'y': '2' is not one of 0, 1"),
        ("{0 1 1 1}", "line 6, attribute 'a': '1 1 1' is not a number"),
        ("{-1 1}", "line 6: '-1 1' is no"),
        ("1,1,3", "line 6, attribute 'r': 3 is no label"),
        ("1_0,1,0", "line 6, attribute 'a': '1_0' is not a number"),
        ("1,1,0\n1e999,1,0", "line 7, attribute 'a': 'inf' is not a number"),
        ("{0 1}\n{1 1, 0 1e999}", "line 7, attribute 'a': 'inf' is not a number"),
    ]:
        with pytest.raises(DataFileError, match=rf"a\.arff, {message}"):
            read_label_table(put(tmp_path, "a.arff", numbers + row + "\n"), labels="y,r")
    words = "@relation x\n@attribute a real\n@attribute y {up,down}\n@data\n1,up\n"
    with pytest.raises(DataFileError, match=r"a\.arff, attribute 'y': its values are up, down"):
        read_label_table(put(tmp_path, "a.arff", words), labels="y")


def test_a_text_attribute_can_be_dropped(tmp_path: Path) -> None:
    text = "@relation x\n@attribute s string\n@attribute a real\n@attribute y {no,yes}\n@data\n"
    path = put(tmp_path, "a.arff", text + "'hi, you',2,yes\n?,3,?\n")
    table = read_label_table(path, labels="y", drop="s")
    assert table.X.tolist() == [[2], [3]]
    np.testing.assert_array_equal(table.labels.to_dense(), [[1], [np.nan]])


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("<labels><label name='calm'>", r"b\.xml, line 1: no well-formed XML"),
        ("<labels/>", r"b\.xml names no labels"),
        ("<labels>\n<label/></labels>", r"b\.xml, line 2: a label without a name"),
        (
            "<labels><label name='clam'/></labels>",
            r"a\.arff has no column 'clam' .*b\.xml; the nearest are 'calm'",
        ),
        (
            "<!DOCTYPE l [<!ENTITY a 'calm'>]>\n<labels><label name='&a;'/></labels>",
            r"b\.xml, line 1: a document type",
        ),
    ],
)
def test_faults_in_the_xml(tmp_path: Path, xml: str, message: str) -> None:
    path = put(tmp_path, "a.arff", HEADER + DENSE)
    with pytest.raises(DataFileError, match=message):
        read_label_table(path, label_file=put(tmp_path, "b.xml", xml))
    hidden = put(tmp_path, "b.xml", xml.encode("utf-16"))
    with pytest.raises(DataFileError, match=r"b\.xml"):
        read_label_table(path, label_file=hidden)


@pytest.mark.parametrize("encoding", ["no-such", "utf-7", "utf-32", "big5", "base64", "idna", "x" * 300])
def test_encodings_of_the_xml_file(tmp_path: Path, encoding: str) -> None:
    path = put(tmp_path, "a.arff", HEADER + DENSE)
    xml = put(tmp_path, "other.xml", XML.replace("utf-8", encoding))
    with pytest.raises(DataFileError, match=r"other\.xml, line 1: .*(encoding|XML)") as caught:
        read_label_table(path, label_file=xml)
    assert "\n" not in str(caught.value)


FLAGS = """@relation flags
@attribute landmass {1,2,3,4}
@attribute animate {0,1}
@attribute area numeric
@attribute red {0,1}
@data
"""


@pytest.mark.parametrize("rows", ["3,1,648,1\n1,0,29,0\n", "{0 3, 1 1, 2 648, 3 1}\n{2 29}\n"])
def test_nominal_numbers_of_several_values_are_names(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "flags.arff"
    path.write_text(FLAGS + rows)
    table = read_label_table(path, labels="red")
    assert table.feature_names == ("landmass=1", "landmass=2", "landmass=3", "landmass=4", "animate", "area")
    X = table.X.toarray() if sp.issparse(table.X) else table.X
    # An absent value of a sparse row is the first one that is declared.
    assert X.tolist() == [[0, 0, 1, 0, 1, 648], [1, 0, 0, 0, 0, 29]]
    assert table.labels.to_dense().tolist() == [[1], [0]]
