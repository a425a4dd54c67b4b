"""Separated values as people have them: other delimiters, encodings and decimal signs; tags in one column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from labelgap import LowRankClassifier, ObservedLabels
from labelgap.data import read_label_table, read_numbers
from labelgap.exceptions import DataFileError, InvalidLabelsError, InvalidParameterError, LabelgapWarning

USUAL = "id,size,weight,late\n1,1.5,2,1\n2,-0.25,3,\n3,10,4,0\n"


def put(folder: Path, text: str, encoding: str = "utf-8", name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def written(delimiter: str, decimal: str = ".") -> str:
    return USUAL.replace(".", "#").replace(",", delimiter).replace("#", decimal)


def test_what_is_found_is_what_is_read_of_the_usual_form(tmp_path: Path) -> None:
    for text, name in [
        (written(";"), "table.csv"),
        (written(";", ","), "table.csv"),
        (written("\t"), "table.csv"),
        (written("\t", ","), "table.csv"),
        (written("|"), "table.csv"),
        (USUAL, "table.tsv"),
        (written(";", ","), "table.tsv"),
    ]:
        table = read_label_table(put(tmp_path, text, name=name), labels="late", ids="id")
        np.testing.assert_array_equal(table.X, [[1.5, 2], [-0.25, 3], [10, 4]])
        np.testing.assert_array_equal(table.labels.to_dense(), [[1], [np.nan], [0]])


def test_what_is_said_is_what_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, "a b\n1,500 2\n2,250 3\n")
    said = read_label_table(path, delimiter="space", decimal=",")
    np.testing.assert_array_equal(said.X, [[1.5, 2], [2.25, 3]])
    # A comma with three digits behind it may stand for thousands: it is not found, only taken when said.
    path = put(tmp_path, "a;b\n1,500;2\n2,250;3\n")
    with pytest.raises(DataFileError, match="'1,500' is no number"):
        read_label_table(path)
    np.testing.assert_array_equal(read_label_table(path, decimal=",").X, [[1.5, 2], [2.25, 3]])
    # Words and gaps beside decimal commas.
    path = put(tmp_path, "a;b\n1,5;yes\nNA;no\n")
    np.testing.assert_array_equal(read_numbers(path).values, [[1.5, 1], [np.nan, 0]])


def test_delimiters_and_decimals_are_found_only_where_it_is_safe(tmp_path: Path) -> None:
    for text, names, values in [
        ('"a;b",c\n1,2\n', ("a;b", "c"), [[1, 2]]),
        ("a\n1\n", ("a",), [[1]]),
        ("a,b\n1,5\n", ("a", "b"), [[1, 5]]),
    ]:
        found = read_numbers(put(tmp_path, text))
        assert (found.names, found.values.tolist()) == (names, values)
    # Decimal points and commas in one file.
    with pytest.raises(DataFileError, match="'1,5' is no number"):
        read_numbers(put(tmp_path, "a;b\n1,5;2.5\n"))


def test_marks_at_the_beginning_name_the_encoding(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-8-sig", "utf-32"):
        table = read_label_table(put(tmp_path, "größe,b\n1,2\n", encoding))
        assert table.feature_names == ("größe", "b")


def test_latin_1_is_read_with_a_warning_or_as_it_is_said(tmp_path: Path) -> None:
    path = put(tmp_path, "größe,b\n1,2\n", "latin-1")
    with pytest.warns(LabelgapWarning, match=r"not UTF-8 \(line 1, byte 0xf6\); it was read as Latin-1.*'ö'"):
        assert read_label_table(path).feature_names == ("größe", "b")
    assert read_label_table(path, encoding="latin-1").feature_names == ("größe", "b")
    path = put(tmp_path, "дом,b\n1,2\n", "cp1251")
    assert read_label_table(path, encoding="cp1251").feature_names == ("дом", "b")
    with pytest.raises(DataFileError, match=r"line 1: the byte .* is not UTF-8"):
        read_label_table(path, encoding="utf-8")


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for said, words in (
        ({"delimiter": "::"}, "delimiter .* is one character"),
        ({"decimal": "'"}, "decimal .* is '.' or ','"),
        ({"delimiter": ",", "decimal": ","}, "both ','"),
    ):
        with pytest.raises(InvalidParameterError, match=words):
            read_label_table(put(tmp_path, USUAL), **said)


def test_other_formats_have_no_dialect(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="There is no encoding 'latein'"):
        read_label_table(put(tmp_path, USUAL), encoding="latein")
    np.savez(tmp_path / "a.npz", X=np.eye(2), Y=np.eye(2))
    with pytest.raises(InvalidParameterError, match=r"encoding \(--encoding\) is for files of"):
        read_label_table(tmp_path / "a.npz", encoding="utf-8")


# -- tags ---------------------------------------------------------------------------------------------------

TAGS = "size,tags\n1,sport  data\n2,\n3,NA\n4,data\n"


def test_a_column_of_tags(tmp_path: Path) -> None:
    nan, path = np.nan, put(tmp_path, TAGS)
    for unobserved, expected in (
        ("negative", [[1, 1], [0, 0], [nan, nan], [1, 0]]),
        ("missing", [[1, 1], [nan, nan], [nan, nan], [1, nan]]),
    ):
        table = read_label_table(path, labels="tags", separator=" ", unobserved=unobserved)
        assert table.labels.label_names == ("data", "sport")
        np.testing.assert_array_equal(table.labels.to_dense(), expected)
        assert table.feature_names == ("size",)


def test_tags_with_another_separator_may_have_blanks(tmp_path: Path) -> None:
    path = put(tmp_path, 'size,tags\n1,"open data; sport"\n2,sport\n')
    table = read_label_table(path, labels="tags", separator=";", unobserved="negative")
    assert table.labels.label_names == ("open data", "sport")
    with pytest.raises(DataFileError, match=r"one column lists all tags; labels \(--labels\) names 2"):
        read_label_table(path, labels="size,tags", separator=";")
    with pytest.raises(InvalidParameterError, match="separator must be a text or None; got 5"):
        read_label_table(path, labels="tags", separator=5)  # type: ignore[arg-type]


def test_lists_of_tags_in_python() -> None:
    tags = [{"sport"}, ["data", "sport", "data"], None, ()]
    labels = ObservedLabels.from_tags(tags, unobserved="negative")
    np.testing.assert_array_equal(labels.to_dense(), [[0, 1], [1, 1], [np.nan, np.nan], [0, 0]])
    assert labels.unobserved == "missing"
    assert ObservedLabels.from_tags(tags[:2], "negative").unobserved == "negative"
    assert ObservedLabels.from_tags(tags, "unlabelled").unobserved == "unlabelled"
    assert ObservedLabels.from_tags([[1, "a"]]).label_names == (1, "a")
    with pytest.raises(InvalidLabelsError, match="1 tags are not among label_names: 'sport'"):
        ObservedLabels.from_tags(tags, label_names=["data"])
    with pytest.raises(InvalidLabelsError, match="The tags of row 0 are 'a b', and not a list"):
        ObservedLabels.from_tags(["a b"])


def test_estimators_take_sets_of_tags() -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 2))
    names = np.array(["data", "sport"])
    tags: list[set[str] | None] = [set(names[row > 0]) for row in X]
    model = LowRankClassifier(unobserved="negative", trace_penalty=0.01, ridge_penalty=0.1, threshold="train")
    Y = (X > 0).astype(float)
    assert model.fit(X, tags).label_names_.tolist() == ["data", "sport"]
    assert model.score(X, tags) == model.score(X, Y)
    # A tag that no row has is a label all the same, and a row that nobody knows is not judged.
    few = [{"sport"} & one if one is not None else None for one in tags[:5]]
    assert model.score(X[:5], few) == model.score(X[:5], np.column_stack([np.zeros(5), Y[:5, 1]]))
    with pytest.raises(InvalidLabelsError, match="not among label_names: 'music'"):
        model.score(X[:1], [{"music"}])


def test_names_that_are_no_encodings_of_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,0\n")
    for name in ("base64", "rot13", "undefined", "a\0b", "x" * 3000, 5):
        with pytest.raises(InvalidParameterError, match=r"There is no encoding .{1,50} of texts") as caught:
            read_label_table(tmp_path / "a.csv", labels="b", encoding=name)
        assert "\n" not in str(caught.value)
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,+2AA-\n")
    with pytest.raises(DataFileError, match=r"a\.csv is no text in UTF-7"):
        read_label_table(tmp_path / "a.csv", labels="b", encoding="utf-7")
