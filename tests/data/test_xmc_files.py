"""The text format of extreme classification."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from data_files import put, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.data import read_label_table
from labelgap.data.files import xmc
from labelgap.exceptions import DataFileError, InvalidParameterError

TEXT = "3 4 5\n0,3 0:1.5 2:-2e-1\n 1:1\n4\n"
X = [[1.5, 0, -0.2, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
Y = [[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]]


def test_with_a_header(tmp_path: Path) -> None:
    paths = [
        put(tmp_path, "a.txt", TEXT),
        put(tmp_path, "b.svm.gz", gzip.compress(TEXT.encode())),
        put(tmp_path, "c.xmc", TEXT.replace("\n", "\r\n") + "\n\n"),
    ]
    for path in paths:
        table = read_label_table(path)
        assert isinstance(table.X, sp.csr_array)
        np.testing.assert_array_equal(table.X.toarray(), X)
        np.testing.assert_array_equal(table.labels.to_dense(), Y)
        assert table.labels.unobserved == "negative"


def test_without_a_header_and_other_meanings(tmp_path: Path) -> None:
    table = read_label_table(put(tmp_path, "a.txt", TEXT.split("\n", 1)[1]))
    np.testing.assert_array_equal(table.X.toarray(), np.array(X)[:, :3])
    for unobserved, entries in [("missing", 3), ("unlabelled", 3), ("negative", 15)]:
        labels = read_label_table(tmp_path / "a.txt", unobserved=unobserved).labels
        assert labels.n_observed == entries
        assert labels.unobserved == unobserved


def test_empty_lines_are_rows(tmp_path: Path) -> None:
    table = read_label_table(put(tmp_path, "a.txt", "4 2 2\n1 0:1\n\n 1:2\n \n"))
    np.testing.assert_array_equal(table.X.toarray(), [[1, 0], [0, 0], [0, 2], [0, 0]])
    assert table.X.nnz == 2
    np.testing.assert_array_equal(table.labels.to_dense(), [[0, 1], [0, 0], [0, 0], [0, 0]])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.integers(1, 5))
def test_as_written_out_by_hand(
    tmp_path_factory: pytest.TempPathFactory, seed: int, n: int, d: int, L: int
) -> None:
    rng = random.Random(seed)
    features = [[rng.choice([0, 0, 1, -0.25, 3e-9]) for _ in range(d)] for _ in range(n)]
    labels = [[rng.choice([0, 1]) for _ in range(L)] for _ in range(n)]
    lines = [f"{n} {d} {L}"]
    for x, y in zip(features, labels, strict=True):
        tags = [str(at) for at, one in enumerate(y) if one]
        rng.shuffle(tags)
        lines.append(" ".join([",".join(tags), *(f"{at}:{v!r}" for at, v in enumerate(x) if v)]))
    path = put(tmp_path_factory.mktemp("xmc"), "a.txt", "\n".join(lines) + "\n")
    table = read_label_table(path)
    np.testing.assert_array_equal(table.X.toarray(), features)
    np.testing.assert_array_equal(table.labels.to_dense(), labels)


def test_faults(tmp_path: Path) -> None:
    cases = [
        ("", "is empty"),
        ("0 2 2\n", "a header and no rows"),
        ("2 2 2\n1 0:1\n", "line 1: the header says 2 rows, but there are 1"),
        ("1 2 2\n1 0:1\n1 0:1\n", "line 1: the header says 1 rows, but there are 2"),
        ("2 2 2\n1 0:1\n2 0:1\n", "line 3: the label 2 is beyond the 2 labels"),
        ("2 2 2\n1 0:1\n1 2:1\n", "line 3: the feature 2 is beyond the 2 features"),
        ("1 0:1\n1 x:1\n", "line 2: 'x:1' is no feature"),
        ("1 0:1\n1 0:x\n", "line 2: '0:x' is no feature"),
        ("1 0:1\n1 0:nan\n", "line 2: '0:nan' is no feature"),
        ("1 0:1\na 0:1\n", "line 2: 'a' are no labels"),
        ("1 0:1\n1.5 0:1\n", "line 2: '1.5' are no labels"),
        ("1 0:1\n-1 0:1\n", "line 2: '-1' are no labels"),
        ("1 0:1\n1,1 0:1\n", "line 2: '1,1' has a label twice"),
        ("1 0:1\n1 3:1 2:1\n", "line 2: the feature 2 comes after 3"),
        ("1 0:1\n1 2:1 2:1\n", "line 2: the feature 2 comes after 2"),
        ("1 0:1\n1 0:1 # five\n", "line 2: '#' is no feature"),
        ("1 0:1\n1, 2 0:1\n", "line 2: '1,' are no labels"),
        ("0 0:1e999\n", "line 1: '0:1e999' is not finite"),
        ("1 0:1\n9007199254740993 0:1\n", "line 2: '9007199254740993' has a label beyond 2147483647"),
        ("1 0:1_000\n", "line 1: '0:1_000' is no feature"),
        ("1_0 0:1\n", "line 1: '1_0' are no labels"),
        ("1 qid:3 0:1\n", "line 1: 'qid:3' is no feature"),
        ("1 99999999999999999999 1\n0 0:1\n", "line 1: the header claims the size '99999999999999999999'"),
    ]
    refused(tmp_path, "a.txt", cases)


def test_too_many_entries_are_not_made_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "a.txt", TEXT)
    monkeypatch.setattr(xmc, "MAX_ENTRIES", 10)
    with pytest.raises(DataFileError, match=r"3 rows and 5 labels.*15 entries.*--unobserved negative"):
        read_label_table(path)
    labels = read_label_table(path, unobserved="negative").labels
    assert labels.n_observed == 15


def test_labels_are_a_yes_where_numbers_are_allowed_too(tmp_path: Path) -> None:
    labels = read_label_table(put(tmp_path, "a.txt", TEXT), binary=False).labels
    assert labels.values.dtype == np.int8
    np.testing.assert_array_equal(labels.to_dense(), Y)


def test_options_that_do_not_apply(tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", TEXT)
    with pytest.raises(InvalidParameterError, match="labels chooses"):
        read_label_table(path, labels="a")
    (tmp_path / "y.csv").write_text("t\n1\n0\n1\n")
    with pytest.raises(InvalidParameterError, match="has labels of its own"):
        read_label_table(path, label_file=tmp_path / "y.csv")
