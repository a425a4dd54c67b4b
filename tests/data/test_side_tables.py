"""Tables of users and items: MovieLens' own, and any with a header."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas
import pytest

from labelgap.data import read_side_table
from labelgap.exceptions import DataFileError, InvalidParameterError, LabelgapWarning

FLAGS = "|".join("0" * 19)
U_ITEM = (
    f"1|Toy Story (1995)|01-Jan-1995||http://x?Toy%20Story|0|0|0|1|1|1{'|0' * 13}\n"
    f"267|unknown||||1{'|0' * 18}\n"
    f'3|Miséricorde "II" (1996)|02-Feb-1996||http://y|{FLAGS}\n'
)


def test_the_items_of_movielens_in_latin_1(tmp_path: Path) -> None:
    (tmp_path / "u.item").write_bytes(U_ITEM.encode("latin-1"))
    table = read_side_table(tmp_path / "u.item")
    assert table.ids == (1, 267, 3)
    assert table.titles == {1: "Toy Story (1995)", 267: "unknown", 3: 'Miséricorde "II" (1996)'}
    assert len(table.names) == 19
    assert [table.names[at] for at in np.flatnonzero(table.rows[0])] == ["Animation", "Children's", "Comedy"]
    assert table.ignored == ("release date", "video release date", "URL")
    assert table.features[267].tolist() == [1.0] + [0.0] * 18


def test_the_users_of_movielens(tmp_path: Path) -> None:
    jobs = ["writer", "artist", "writer", "artist", "writer", "artist"]
    lines = [f"{i + 1}|{20 + i}|{'MF'[i % 2]}|{job}|{55105 + i}" for i, job in enumerate(jobs)]
    (tmp_path / "u.user").write_text("\n".join(lines))
    table = read_side_table(tmp_path / "u.user", "user")
    assert table.names == ("age", "gender=F", "gender=M", "occupation=artist", "occupation=writer")
    assert table.rows[1].tolist() == [21.0, 1.0, 0.0, 1.0, 0.0]
    assert table.ignored == ("zip code",)
    assert table.titles is None
    # In the later form an occupation is a number that stands for a kind.
    lines = [f"{i + 1}::{'MF'[i % 2]}::{20 + i}::{i % 3}::{55105 + i}" for i in range(6)]
    (tmp_path / "users.dat").write_text("\n".join(lines))
    table = read_side_table(tmp_path / "users.dat", "user")
    assert table.names == ("gender=F", "gender=M", "age", "occupation=0", "occupation=1", "occupation=2")


def test_the_later_files_of_movielens(tmp_path: Path) -> None:
    body = [(1, "Toy Story (1995)", "Animation|Comedy"), (2, "Jumanji, Ünd", "Adventure")]
    body += [(3, "Heat", "Comedy"), (4, "Sabrina", "Comedy|Adventure"), (5, "None", "Animation")]
    dat = "\n".join("::".join(map(str, row)) for row in body)
    (tmp_path / "movies.dat").write_bytes(dat.encode("latin-1"))
    pandas.DataFrame(body, columns=["movieId", "title", "genres"]).to_csv(
        tmp_path / "movies.csv", index=False
    )
    for name in ("movies.dat", "movies.csv"):
        table = read_side_table(tmp_path / name)
        assert table.ids == (1, 2, 3, 4, 5)
        assert table.titles[2] == "Jumanji, Ünd"
        assert table.names == ("genres=Adventure", "genres=Animation", "genres=Comedy")
        assert table.rows.tolist()[3] == [1.0, 0.0, 1.0]


def test_encodings_of_tables_with_a_header(tmp_path: Path) -> None:
    path, text = tmp_path / "films.csv", "item,title,land\n1,Amélie,FR\n2,Ran,JP\n3,Köter,FR\n"
    path.write_bytes(text.encode("latin-1"))
    told = r"films\.csv is not UTF-8 \(line 2, byte 0xe9\); it was read as Latin-1.*--items-encoding latin-1"
    with pytest.warns(LabelgapWarning, match=told):
        found = read_side_table(path)
    said = read_side_table(path, encoding="latin-1")
    path.write_text(text, encoding="utf-16")
    for table in (found, said, read_side_table(path), read_side_table(path, encoding="utf-16")):
        assert table.titles == {1: "Amélie", 2: "Ran", 3: "Köter"}
    with pytest.raises(DataFileError, match=r"films\.csv.* is not UTF-8.* encoding .*--items-encoding"):
        read_side_table(path, encoding="utf-8")
    with pytest.raises(InvalidParameterError, match="no encoding 'klingon'"):
        read_side_table(path, encoding="klingon")
    path.write_bytes(text.encode() + b"4,\x81,JP\n")
    with pytest.raises(DataFileError, match=r"films\.csv, line 5: the byte 0x81 is not UTF-8, and"):
        read_side_table(path)
    pandas.DataFrame({"user": [1, 2], "age": [30, 40]}).to_parquet(tmp_path / "users.parquet")
    with pytest.raises(InvalidParameterError, match=r"encoding \(--users-encoding\) is for text files"):
        read_side_table(tmp_path / "users.parquet", "user", encoding="latin-1")


@pytest.mark.parametrize("name", ["films.csv", "films.tsv", "films.csv.gz", "films.txt", "films.parquet"])
def test_any_table_with_a_header(tmp_path: Path, name: str) -> None:
    frame = pandas.DataFrame(
        {
            "year": [1985.0, 1975.0, np.nan, 1979.0],
            "film": ["r", "j", "i", "a"],
            "Name": ["Ran", "Jaws", None, "Alien"],
            "colour": [True, False, True, True],
            "note": ["one", "two", "three", "four"],
        }
    )
    path = tmp_path / name
    if name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        separator = {"films.tsv": "\t", "films.txt": ";"}.get(name, ",")
        text = frame.to_csv(index=False, sep=separator).encode()
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    table = read_side_table(path, id="film")
    assert table.ids == ("r", "j", "i", "a")
    assert table.titles == {"r": "Ran", "j": "Jaws", "a": "Alien"}
    assert table.names == ("year", "colour=False", "colour=True")
    assert table.rows[:, 0] == pytest.approx([1985, 1975, (1985 + 1975 + 1979) / 3, 1979])
    assert table.ignored == ("note",)


def test_ids_that_are_not_plain_numbers_stay_texts(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,title\n007,Bond\n8,Eight\n")
    table = read_side_table(tmp_path / "x.csv")
    assert table.ids == ("007", "8")
    assert table.features is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("item,title\n", "has a header and no rows"),
        ("film,title\n1,Ran\n", r"which column holds the items\? It has 'film', 'title'"),
        ("item,title\n1,Ran\n1,Jaws\n", "the item 1 is there twice"),
        ("item,title\n1,Ran\n2\n", r"line 3: 1 values, but there are 2 columns"),
        ("item,title\n,Ran\n", "row 1 has no item in the column 'item'"),
        ("item,x,x\n1,2,3\n", "two columns are called 'x'"),
    ],
)
def test_problems(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(DataFileError, match=words):
        read_side_table(tmp_path / "x.csv")
    with pytest.raises(DataFileError, match="no such file"):
        read_side_table(tmp_path / "absent.csv")


def test_features_that_are_asked_for_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,year,of,k=v\n1,1985,war|fish,a\n2,1975,love,b\n")
    names = ("of=fish", "year", "of=love", "of=none", "k=v=b")
    table = read_side_table(tmp_path / "x.csv", names=names)
    assert table.names == names
    assert table.rows.tolist() == [[1, 1985, 0, 0, 0], [0, 1975, 1, 0, 1]]
    with pytest.raises(DataFileError, match="no column for the feature 'size'"):
        read_side_table(tmp_path / "x.csv", names=["size"])
    with pytest.raises(DataFileError, match="'of' must hold a number in every row"):
        read_side_table(tmp_path / "x.csv", names=["of"])


# -- damaged and hostile files -------------------------------------------------------------------------


def test_a_packed_table_may_not_become_too_large(tmp_path: Path) -> None:
    bomb = tmp_path / "films.csv.gz"
    bomb.write_bytes(gzip.compress(b"item,year\n" + b"".join(b"%d,1990\n" % at for at in range(120_000))))
    with pytest.raises(DataFileError, match=r"films\.csv\.gz unpacks to more than the 1 MB that are allowed"):
        read_side_table(bomb, max_unpacked_mb=1)
    assert len(read_side_table(bomb, max_unpacked_mb=2).ids) == 120_000


def test_ids_of_very_many_digits_are_texts(tmp_path: Path) -> None:
    for number in ("9" * 5000, str(2**63)):
        path = tmp_path / "films.csv"
        path.write_text(f"item,year\n{number},1990\n7,1985\n")
        assert read_side_table(path).ids == (number, "7")


def test_a_value_too_long_for_a_table_and_a_parquet_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    path.write_text(f'item,title\n1,"{"x" * 200_000}"\n')
    with pytest.raises(DataFileError, match=r"films\.csv, line 2: field larger than field limit"):
        read_side_table(path)
    (tmp_path / "films.parquet").write_bytes(b"PAR1" + b"\0" * 50)
    with pytest.raises(DataFileError, match=r"films\.parquet is no Parquet file, or a damaged one"):
        read_side_table(tmp_path / "films.parquet")
