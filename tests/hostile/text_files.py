"""Text files with anything in them: CSV, TSV, ARFF and its XML, XMC, MovieLens, and gzip around them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap.data import read_answer_file, read_label_table, read_numbers

from .cases import Draw, case, mutated, pick

NUMBERS = (
    *(b"0", b"1", b"-1", b"2.5", b"1e5", b"-0.0", b"1e999", b"-1e999", b"nan", b"inf", b"1e-400", b"0x10"),
    *(b"1_000", b"+3", b".5", b"5.", b"", b" ", b"?", b"NA", b"yes", b"No", b"tall", b"9007199254740993"),
    *(b"9" * 30, b"7" * 5000, b"1." + b"3" * 400, b"18446744073709551616", b"-9223372036854775809"),
    "½".encode(), "٣".encode(), b"\xff", b"\0",
)  # fmt: skip
SIGNS = (
    *(
        b",",
        b";",
        b"\t",
        b"\n",
        b"\r",
        b"\r\n",
        b'"',
        b"'",
        b'""',
        b"\\",
        b"%",
        b"{",
        b"}",
        b":",
        b"::",
        b"#",
    ),
    *(
        b" " * 3000,
        b"'" * 40,
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"=1+1",
        b"@data",
        b"@attribute a real",
        b"\x1f\x8b",
    ),
)
PIECES = NUMBERS + SIGNS


def written(draw: Draw, folder: Path, name: str, data: bytes) -> Path:
    """The file, sometimes packed, and sometimes with damage to what is packed."""
    if draw.random() < 0.1:
        data = gzip.compress(data, mtime=0)
        if draw.random() < 0.3:
            data = mutated(draw, data, SIGNS)
        name = pick(draw, name, f"{name}.gz")
    path = folder / name
    path.write_bytes(data)
    return path


def check_table(table: Any) -> None:
    """Everything that holds of a table, whatever file it was read from."""
    X, labels = table.X, table.labels
    if X is not None:
        assert X.dtype == np.float64
        assert np.isfinite(X.data if sp.issparse(X) else X).all()
        if sp.issparse(X):
            X.check_format(full_check=True)
    if labels is not None:
        assert np.isfinite(labels.values).all()
        assert X is None or X.shape[0] == labels.shape[0]
        assert labels.indptr[-1] == len(labels.values) == len(labels.indices)
    if table.row_ids is not None and X is not None:
        assert len(table.row_ids) == X.shape[0]


def rows_of(draw: Draw, columns: int, separator: bytes, wild: float = 0.05) -> bytes:
    """Lines of numbers, a few of them anything."""
    lines = []
    for _ in range(int(draw.integers(0, 6))):
        words = [
            pick(draw, *NUMBERS) if draw.random() < wild else pick(draw, b"0", b"1") for _ in range(columns)
        ]
        lines.append(separator.join(words))
    return b"\n".join(lines)


@case("csv")
def _csv(draw: Draw, folder: Path) -> None:
    separator = pick(draw, b",", b"\t")
    head = separator.join([b"id", b"a", b"b", b"tag_x", b"tag_y"])
    data = mutated(draw, head + b"\n" + rows_of(draw, 5, separator), PIECES)
    path = written(draw, folder, "a.csv" if separator == b"," else "a.tsv", data)
    use = pick(draw, "labels", "any", "numbers", "ratings")
    if use == "labels":
        check_table(read_label_table(path, labels="tag_*", ids=pick(draw, None, "id")))
    elif use == "any":
        check_table(read_label_table(path, labels=pick(draw, "2:3", "b", "tag_?,a"), binary=False))
    elif use == "numbers":
        names, values = read_numbers(path, drop=pick(draw, (), "id"))
        assert values.shape[1] == len(names)
        assert not np.isinf(values).any() or b"inf" in data.lower() or b"e999" in data or len(data) > 300
    else:
        table = read_answer_file(path, user="id", item="a", value=pick(draw, None, "b"))
        assert len(table.users) == len(table.items)
        assert table.values is None or np.isfinite(table.values).all()


@case("csv that is right")
def _right_csv(draw: Draw, folder: Path) -> None:
    n, d = int(draw.integers(1, 8)), int(draw.integers(1, 5))
    X = draw.choice([0.0, -1.5, 3e-300, 1e300, 2.0**53, np.pi, -7.0], size=(n, d))
    Y = draw.choice([0.0, 1.0, np.nan], size=n)
    end = pick(draw, "\n", "\r\n")
    head = ",".join([f'"f,{j}"' if draw.random() < 0.2 else f"f{j}" for j in range(d)])
    words = [[repr(float(x)) for x in row] for row in X]
    marks = ["" if np.isnan(y) and draw.random() < 0.5 else "?" if np.isnan(y) else str(int(y)) for y in Y]
    lines = [",".join([*row, mark]) for row, mark in zip(words, marks, strict=True)]
    path = written(draw, folder, "a.csv", end.join([f"{head},tag", *lines, ""]).encode())
    if path.suffix == ".gz" or path.read_bytes()[:2] != b"\x1f\x8b":
        table = read_label_table(path, labels="tag")
        np.testing.assert_array_equal(table.X, X)
        np.testing.assert_array_equal(table.labels.to_dense().ravel(), Y)


ARFF = b"""@relation 'x: -C 2'
@attribute y1 {0,1}
@attribute y2 {0,1}
@attribute a numeric
@attribute 'b c' real
@attribute m {u, 'v w', "x,y"}
@data
"""


@case("arff")
def _arff(draw: Draw, folder: Path) -> None:
    if draw.random() < 0.5:
        rows = b"\n".join(
            b",".join(
                [
                    pick(draw, b"0", b"1", b"?"),
                    b"1",
                    *(pick(draw, b"0", b"2.5") for _ in "ab"),
                    pick(draw, b"u", b"'v w'"),
                ]
            )
            for _ in range(int(draw.integers(0, 5)))
        )
    else:
        pairs = (b"0 1", b"1 ?", b"2 2.5", b"3 -1", b"4 'v w'", b'4 "x,y"', b"4 u", b"9 1", b"0 1")
        rows = b"\n".join(
            b"{" + b", ".join(pick(draw, *pairs) for _ in range(int(draw.integers(0, 4)))) + b"}"
            for _ in range(int(draw.integers(0, 5)))
        )
    path = written(draw, folder, "a.arff", mutated(draw, ARFF + rows, PIECES))
    check_table(read_label_table(path, labels=pick(draw, None, "y*", "y1"), drop=pick(draw, (), "m")))


@case("xml")
def _xml(draw: Draw, folder: Path) -> None:
    encoding = pick(draw, b"utf-8", b"latin-1", b"utf-16", b"big5", b"no", b"utf-7", b"idna", b"x" * 200)
    data = b'<?xml version="1.0" encoding="' + encoding + b'"?><labels><label name="y1"/></labels>'
    pieces = (b"<label name='y2'>", b"</label>", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"<" * 50, *SIGNS)
    (folder / "x.xml").write_bytes(mutated(draw, data, pieces))
    (folder / "right.arff").write_bytes(ARFF + b"1,0,2,3,u\n0,1,1,1,u\n")
    check_table(read_label_table(folder / "right.arff", label_file=folder / "x.xml"))


@case("xmc")
def _xmc(draw: Draw, folder: Path) -> None:
    lines = [b"3 4 5"] if draw.random() < 0.5 else []
    for _ in range(3):
        labels = b",".join(str(label).encode() for label in sorted(draw.choice(5, size=2, replace=False)))
        features = [b"%d:%s" % (at, pick(draw, b"1", b"2.5", *NUMBERS[:14])) for at in range(4)]
        lines.append(labels + b" " + b" ".join(features[: int(draw.integers(5))]))
    pieces = (*PIECES, b"qid:1", b"0:1e999", b"9007199254740993", b"3 99999999999 5", b"2147483648:1")
    path = written(draw, folder, "a.txt", mutated(draw, b"\n".join(lines), pieces))
    table = read_label_table(path, unobserved=pick(draw, None, "unlabelled", "negative"))
    check_table(table)


@case("movielens")
def _movielens(draw: Draw, folder: Path) -> None:
    separator = pick(draw, b"::", b"\t")
    data = mutated(draw, rows_of(draw, int(draw.integers(1, 6)), separator, wild=0.03), PIECES)
    table = read_answer_file(written(draw, folder, "u.data", data))
    assert len(table.users) == len(table.items)
    assert table.values is None or np.isfinite(table.values).all()
