"""Long tables of ratings, and the three formats of MovieLens."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import put, refused

from labelgap.data import AnswerTable, read_answer_file, read_label_table
from labelgap.exceptions import DataFileError

ANSWERS = [(196, 242, 3.0), (186, 302, 4.5), (196, 377, 1.0)]


def lines(separator: str) -> str:
    return "".join(separator.join(map(str, (*answer, 881250949))) + "\n" for answer in ANSWERS)


def check(table: AnswerTable) -> None:
    assert table.users.dtype == table.items.dtype == np.int64
    assert (
        list(zip(table.users.tolist(), table.items.tolist(), table.values.tolist(), strict=True)) == ANSWERS
    )


def test_movielens(tmp_path: Path) -> None:
    check(read_answer_file(put(tmp_path, "u.data", lines("\t"))))
    check(read_answer_file(put(tmp_path, "ratings.dat", lines("::"))))
    check(read_answer_file(put(tmp_path, "ratings.dat.gz", gzip.compress(lines("::").encode()))))
    check(read_answer_file(put(tmp_path, "crlf.dat", lines("::").replace("\n", "\r\n"))))
    header = "userId,movieId,rating,timestamp\n"
    check(read_answer_file(put(tmp_path, "ratings.csv", header + lines(","))))
    check(read_answer_file(tmp_path / "ratings.csv", format="movielens"))
    assert read_answer_file(put(tmp_path, "likes.data", "1\t2\n3\t4\n")).values is None


def test_long_tables(tmp_path: Path) -> None:
    body = "\n".join(f"{u},{i},{v}" for u, i, v in ANSWERS)
    check(read_answer_file(put(tmp_path, "a.csv", f"user,item,value\n{body}\n")))
    check(read_answer_file(put(tmp_path, "a.csv", f"user,item,rating\n{body}\n")))
    path = put(tmp_path, "a.csv", f"who,what,stars\n{body}\n")
    check(read_answer_file(path, user="who", item="what", value="stars"))
    likes = read_answer_file(path, user="who", item="what", value=None)
    assert likes.values is None
    assert likes.answers[0].tolist() == [196, 186, 196]
    assert read_answer_file(put(tmp_path, "a.tsv", "user\titem\nann\t1\n")).values is None
    pq.write_table(
        pa.table({"user": ["a", "b"], "item": [1.0, 2.0], "value": [True, False]}), tmp_path / "a.pq"
    )
    table = read_answer_file(tmp_path / "a.pq")
    assert (table.users.tolist(), table.items.tolist()) == (["a", "b"], [1, 2])
    assert table.values.tolist() == [1, 0]


def test_users_and_items_may_be_the_index_of_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame(ANSWERS, columns=["user", "item", "rating"]).set_index(["user", "item"])
    frame.to_parquet(tmp_path / "a.parquet")
    check(read_answer_file(tmp_path / "a.parquet"))
    frame.reset_index().sort_values("rating", ascending=False).to_parquet(tmp_path / "b.parquet")
    table = read_answer_file(tmp_path / "b.parquet")
    assert table.values.tolist() == [4.5, 3, 1]


def test_faults(tmp_path: Path) -> None:
    cases = [
        ("u.data", "1\t2\t3\t4\n1\t2\n", "line 2: 2 values, but the first line has 4"),
        ("u.data", "1\t2\t3\t4\n1\tx\t3\t4\n", "line 2, column 'item': 'x' is no number"),
        ("u.data", "1\t2\t3\t4\n1\t2\t\t4\n", "line 2, column 'rating': '' is no number"),
        ("u.data", "1\t2\tnan\t4\n", "line 1, column 'rating': 'nan' is no number"),
        (
            "u.data",
            "user\titem\trating\n1\t2\t3\n",
            "line 1, column 'user': 'user' is no number.*use csv or tsv",
        ),
        ("u.data", "1\t2\t3\t4\t5\n", "line 1: 5 values"),
        ("r.dat", "1::2::3::4\n1::2::3\n", "line 2: 3 values, but the first line has 4"),
        ("a.csv", "user,item,value\n1,2,\n", "line 2, column 'value': '' is no rating"),
        ("a.csv", "user,item,value\n1,2,good\n", "line 2, column 'value': 'good' is no number"),
        ("a.csv", "user,item,value\n1,,3\n", "line 2, column 'item': the id is missing"),
        ("a.csv", "usr,item,value\n1,2,3\n", "no column 'user' for users .--user.; the nearest are 'usr'"),
        ("a.csv", "user,film,value\n1,2,3\n", "no column 'item' for items"),
        (
            "a.csv",
            "user,item,stars\n1,2,3\n",
            "no column 'value'. Say which .*value='stars' .--value stars.*None",
        ),
        ("a.arff", "@relation x\n", "the format arff holds rows with labels"),
    ]
    for name, text, message in cases:
        refused(tmp_path, name, [(text, message)], read_answer_file)


def test_the_other_reader_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        DataFileError, match=r"holds ratings of users, not rows with labels.*read_answer_file"
    ):
        read_label_table(put(tmp_path, "u.data", lines("\t")))
